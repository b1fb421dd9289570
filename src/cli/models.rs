//! `edn-bridge models`: the models that sessions can use, and the embedded one's file.

use std::io::Write as _;

use clap::Subcommand;
use edn_bridge::engine::Providers;
use edn_bridge::projection;
use edn_bridge::provider::downloads::{self, FileState};
use edn_bridge::provider::embedded;
use edn_bridge::provider::fetch::{self, FetchProgress};
use edn_bridge::provider::scripted;
use edn_bridge::value::Value;

use super::default_model::DefaultModel;
use super::failure::Exit;
use super::options::Options;
use super::out;
use super::style::Meaning;
use super::table::Table;

#[derive(Subcommand)]
pub(super) enum ModelsCommand {
    /// Lists the models that sessions can use, with their state, window and price.
    List {
        /// Only those that can be used as things stand.
        #[arg(long)]
        ready: bool,
        /// As JSON, with all that is known of them.
        #[arg(long)]
        json: bool,
    },
    /// Fetches the embedded model once.
    Fetch,
}

pub(super) fn run(options: &Options, command: Option<ModelsCommand>) -> Exit {
    match command.unwrap_or(ModelsCommand::List { ready: false, json: false }) {
        ModelsCommand::List { ready, json } => list(options, ready, json),
        ModelsCommand::Fetch => fetch(options),
    }
}

/// Why a model's provider cannot be asked, in two words; `None` if it can.
fn obstacle(providers: &Providers, provider: &str, file: Option<&FileState>) -> Option<String> {
    if provider == embedded::NAME {
        return match file {
            _ if !embedded::COMPILED_IN => Some("not built in".to_owned()),
            Some(FileState::Installed) => None,
            Some(FileState::WrongSize { found }) => Some(format!("damaged ({found} bytes)")),
            Some(FileState::Missing) | None => Some("not fetched".to_owned()),
        };
    }
    match providers.get(provider) {
        None => Some("no such provider".to_owned()),
        Some(known) if !known.is_ready() => Some("no key".to_owned()),
        Some(_) => None,
    }
}

fn list(options: &Options, only_ready: bool, as_json: bool) -> Exit {
    let settings = options.settings()?;
    let chosen = DefaultModel::find(&settings);
    for problem in &chosen.problems {
        tracing::warn!("the configuration's :models: {problem}");
    }
    let files = downloads::list(&settings.state_dir);
    let file = |id: &str| {
        // A file of the user's own stands in for it.
        let own = settings.model_file.as_ref().map(|path| match path.exists() {
            true => FileState::Installed,
            false => FileState::Missing,
        });
        own.or_else(|| files.iter().find(|file| file.model.id == id).map(|file| file.state))
    };
    let is_chosen = |provider: &str, id: &str| chosen.is(provider, id);
    let mut rows: Vec<_> = chosen
        .models
        .iter()
        // A script is for tests.
        .filter(|model| &*model.provider != scripted::NAME || settings.script.is_some())
        .map(|model| {
            let obstacle = match &*model.provider == scripted::NAME {
                true => None,
                false => obstacle(&chosen.providers, &model.provider, file(&model.id).as_ref()),
            };
            (model, obstacle)
        })
        .filter(|(_, obstacle)| !only_ready || obstacle.is_none())
        .collect();
    rows.sort_by_key(|(model, obstacle)| {
        (!is_chosen(&model.provider, &model.id), obstacle.is_some(), model.provider.clone(), model.id.clone())
    });
    if as_json {
        let all = rows.iter().map(|(model, obstacle)| {
            let facts = model.facts(obstacle.is_none());
            let map = projection::model(&facts).into_owned();
            let map = map.with("chosen", is_chosen(&model.provider, &model.id));
            Value::from(map.with("state", obstacle.clone().unwrap_or_else(|| "ready".to_owned())))
        });
        let mut text = Vec::new();
        edn_bridge::json::write(&Value::vector(all), &mut text);
        return out::print(&format!("{}\n", String::from_utf8_lossy(&text)));
    }
    let headings = ["", "PROVIDER", "MODEL", "STATE", "WINDOW", "$/M IN", "$/M OUT", "NAME"];
    let mut table = Table::new(&headings, 7, &[4, 5, 6]).keeping(&[1, 2], &[7, 6, 5, 4, 3]);
    for (model, obstacle) in rows {
        let price = |of: fn(&edn_bridge::facts::Price) -> f64| {
            model.price.as_ref().map_or_else(|| "-".to_owned(), |price| format!("{:.2}", of(price)))
        };
        let mark = if is_chosen(&model.provider, &model.id) { "*" } else { " " };
        let meaning = if obstacle.is_none() { Meaning::Well } else { Meaning::Faint };
        table.row([
            (mark.to_owned(), None),
            (model.provider.to_string(), None),
            (model.id.to_string(), Some(Meaning::Name)),
            (obstacle.unwrap_or_else(|| "ready".to_owned()), Some(meaning)),
            (tokens(model.context_window), None),
            (price(|price| price.input), None),
            (price(|price| price.output), None),
            (model.name.to_string(), None),
        ]);
    }
    if table.is_empty() {
        return out::note(
            "None can be used: run `edn-bridge models fetch`, or set a key (edn-bridge doctor says more).",
        );
    }
    out::show(&table.text())
}

/// A number of tokens for people: 8k, 128k, 1M.
fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{}M", count / 1_000_000),
    }
}

fn fetch(options: &Options) -> Exit {
    let settings = options.settings()?;
    let bar = super::progress::Bar::new();
    let mut progress = |step: FetchProgress| match step {
        FetchProgress::Waiting => bar.say("another process is fetching the model; waiting for it"),
        FetchProgress::Downloading { done, total } => bar.show("downloading the model", done, total),
        FetchProgress::Unpacking { done, total } => bar.show("unpacking and checking", done, total),
    };
    let fetched = fetch::fetch(&downloads::SMOLLM2, &settings.state_dir, &mut progress);
    bar.clear();
    let _ = out::stderr().flush();
    out::print(&format!("{}\n", fetched?.path.display()))
}
