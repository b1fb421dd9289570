//! `edn-bridge config`: checks, shows and edits the files of the configuration. Starts no engine.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::config::{Layers, Settings};
use edn_bridge::engine::{Providers, named_model};
use edn_bridge::hook::{HookError, Hooks, Source};
use edn_bridge::mcp;
use edn_bridge::peer::Source as PeerSource;
use edn_bridge::private;
use edn_bridge::provider::choice::ModelChoice;
use edn_bridge::provider::models::Models;
use edn_bridge::runner::Program;
use edn_bridge::tool::permission::Rule;
use edn_bridge::value::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};

use super::default_model::DefaultModel;
use super::failure::{Exit, FAILED, Failure, USAGE};
use super::options::Options;
use super::out;
use super::served::NO_TELEMETRY;
use super::style::{Meaning, Painter};
use super::table::Table;

#[derive(Subcommand)]
pub(super) enum ConfigCommand {
    /// Checks the configuration of you and of this folder: fails if anything in it is wrong or passed over.
    Check,
    /// Shows the values in force, and where each comes from.
    Show {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Opens your configuration in $VISUAL, $EDITOR or vi, and checks it afterwards.
    Edit {
        /// That of this folder's project instead.
        #[arg(long)]
        project: bool,
    },
}

pub(super) fn run(options: &Options, command: ConfigCommand) -> Exit {
    match command {
        ConfigCommand::Check => check(options),
        ConfigCommand::Show { json } => show(options, json),
        ConfigCommand::Edit { project } => edit(options, project),
    }
}

/// What is wrong with the files, beyond what makes them unreadable.
fn problems(settings: &Settings, layers: &Layers) -> Vec<String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut found: Vec<String> = mistakes(layers).into_iter().map(|mistake| mistake.text).collect();
    let providers = Providers::new(settings, &clock);
    found.extend(providers.problems().map(str::to_owned));
    if let Some(name) = &settings.provider
        && providers.get(name).is_none()
        && settings.script.is_none()
        && &**name != edn_bridge::provider::scripted::NAME
    {
        let why = providers.why_none(name);
        if !found.iter().any(|problem| why.ends_with(problem.as_str())) {
            found.push(why);
        }
    }
    // Without a name there may be no key yet, which is no mistake of the files.
    let chosen = providers.choice(&named_model(settings), &Models::new(&settings.models).0, None);
    found.extend(chosen.err().and_then(|none| none.why).filter(|_| settings.provider.is_some()));
    if layers.telemetry.endpoint.is_some() && !cfg!(feature = "otel") {
        found.push(NO_TELEMETRY.to_owned());
    }
    found
}

/// What of a file is passed over.
pub(super) struct Mistake {
    /// Whether it is the user's. What a project says may be passed over on purpose.
    pub(super) is_own: bool,
    /// What it is, for a person.
    pub(super) text: String,
}

/// What of the files is passed over, except for their servers of models.
pub(super) fn mistakes(layers: &Layers) -> Vec<Mistake> {
    let mistake = |is_own, text| Mistake { is_own, text };
    let passed_over = layers.passed_over.iter().enumerate();
    let mut found: Vec<Mistake> =
        passed_over.map(|(at, text)| mistake(at < layers.own_passed_over, text.clone())).collect();
    // Models, hooks and servers of a project are taken only if the user trusts it.
    let (_, models) = Models::new(&layers.models);
    found.extend(models.into_iter().map(|problem| mistake(true, format!(":models: {problem}"))));
    let rules = layers.rules.iter().enumerate();
    let rules = rules.filter_map(|(at, rule)| Some((at, Rule::read(&rule.value).err()?, rule)));
    found.extend(rules.map(|(at, problem, rule)| {
        mistake(at < layers.own_rules, format!("{}: {problem}: {}", rule.place, rule.value))
    }));
    found.extend(hooks_of(layers).err().map(|problem| mistake(true, format!(":hooks: {problem}"))));
    let problems = servers_of(layers).problems;
    found.extend(problems.iter().map(|problem| mistake(true, format!(":mcp: {problem}"))));
    found
}

/// The hooks of the files.
pub(super) fn hooks_of(layers: &Layers) -> Result<Hooks, HookError> {
    Hooks::read(layers.hooks.iter().map(|hook| Source {
        value: &hook.value,
        root: hook.root.as_deref(),
        seal: hook.seal.clone(),
    }))
}

/// The MCP servers of the files.
pub(super) fn servers_of(layers: &Layers) -> mcp::Settings {
    mcp::Settings::read(layers.mcp.iter().map(|servers| {
        let source = match servers.root {
            Some(_) => PeerSource::Project(servers.from.clone()),
            None => PeerSource::User(servers.from.clone()),
        };
        (source, &servers.value)
    }))
}

fn check(options: &Options) -> Exit {
    let (settings, layers, wrong) = options.settings_that_can_be()?;
    let painter = Painter::stdout();
    let mut text = String::new();
    let mut found: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    found.extend(problems(&settings, &layers));
    for problem in &found {
        let _ = writeln!(text, "{}  {}", painter.paint(Meaning::Bad, "wrong"), painter.plain(problem));
    }
    for path in
        [&settings.files.user, &settings.files.project].into_iter().flatten().filter(|path| path.exists())
    {
        let _ = writeln!(text, "read   {}", painter.plain(&path.to_string_lossy()));
    }
    let told = match found.len() {
        0 => painter.paint(Meaning::Well, "The configuration is valid."),
        1 => "1 thing is wrong.".to_owned(),
        more => format!("{more} things are wrong."),
    };
    out::show(&format!("{text}{told}\n"))?;
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// A value of the configuration: its name, value and source.
pub(super) type Setting = (&'static str, Value<'static>, String);

/// The settings that options can give, too.
pub(super) fn values(options: &Options, settings: &Settings, chosen: &DefaultModel) -> Vec<Setting> {
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let optional = |file: &Option<PathBuf>| Value::from(file.as_deref().map(path));
    let of_choice = |part: fn(&ModelChoice) -> &Arc<str>| {
        Value::from(chosen.choice.as_ref().ok().map(|choice| part(choice).to_string()))
    };
    let reason = chosen.reason();
    let values = [
        ("state-dir", path(&settings.state_dir)),
        ("cwd", path(&settings.cwd)),
        ("config", optional(&settings.files.user)),
        ("provider", of_choice(|choice| &choice.provider)),
        ("model", of_choice(|choice| &choice.model)),
        ("agent", Value::from(settings.agent.as_deref().map(str::to_owned))),
        ("model-file", optional(&settings.model_file)),
        ("script", optional(&settings.script)),
        ("mode", Value::from(settings.mode.as_str())),
        ("durability", Value::from(options.durability().as_str())),
        ("log", Value::from(options.log.clone())),
        ("log-format", Value::from(options.log_format.clone())),
    ];
    let origin = |key| match key {
        "provider" | "model" => settings.origin_or(key, reason.as_deref()),
        _ => settings.origin(key),
    };
    values.into_iter().map(|(key, value)| (key, value, origin(key).to_owned())).collect()
}

fn show(options: &Options, as_json: bool) -> Exit {
    let settings = options.settings()?;
    let layers = settings.files.read()?;
    let mut rows: Vec<(String, Value<'static>, String)> =
        values(options, &settings, &DefaultModel::find(&settings))
            .into_iter()
            .map(|(key, value, from)| (key.to_owned(), value, from))
            .collect();
    for sourced in &layers.sources {
        if rows.iter().any(|(key, ..)| *key == sourced.key) {
            continue;
        }
        // A map or a vector may have keys and headers in it: its names and its size say enough.
        let value = match &sourced.value {
            Value::Map(map) => Value::vector(map.iter().map(|(key, _)| key.clone())),
            Value::Vector(items) if sourced.key != "mcp" => Value::from(format!("{} entries", items.len())),
            other => other.clone(),
        };
        rows.push((sourced.key.clone(), value, sourced.from.display().to_string()));
    }
    if as_json {
        let all = rows.into_iter().map(|(key, value, from)| {
            Value::from(Map::new().with("key", key).with("value", value).with("source", from))
        });
        let mut text = Vec::new();
        edn_bridge::json::write(&Value::vector(all), &mut text);
        return out::print(&format!("{}\n", String::from_utf8_lossy(&text)));
    }
    let mut table = Table::new(&["KEY", "VALUE", "FROM"], 1, &[]).whole();
    for (key, value, from) in rows {
        let shown = match &value {
            Value::Nil => "none".to_owned(),
            value => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        };
        table.row([(key, Some(Meaning::Name)), (shown, None), (from, Some(Meaning::Faint))]);
    }
    out::show(&table.text())
}

/// What a new file begins with.
const BEGINNING: &str = "; docs/models.md and docs/command-line.md describe the settings; `edn-bridge config check` checks them.\n{}\n";

fn edit(options: &Options, project: bool) -> Exit {
    let files = options.config_files()?;
    let path = if project { files.project } else { files.user };
    let none =
        || Failure::Failed("There is no folder for a configuration: name a file with --config.".to_owned());
    let path = path.ok_or_else(none)?;
    let editor =
        ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|editor| !editor.is_empty());
    // One that is named may need no terminal.
    let editor = match editor {
        Some(editor) => editor,
        None if io::stdin().is_terminal() && io::stdout().is_terminal() => OsString::from("vi"),
        None => {
            let message =
                format!("There is no terminal for vi: set $EDITOR, or change {} yourself.", path.display());
            return Err(Failure::Status { code: USAGE, message });
        }
    };
    if matches!(path.try_exists(), Ok(false)) {
        make(&path, project)?;
    }
    open(&editor, &path)?;
    check(options)
}

fn make(path: &Path, project: bool) -> Result<(), Failure> {
    let failed = || Failure::io(path.display().to_string());
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    std::fs::create_dir_all(folder).map_err(failed())?;
    // A link of a project that leads nowhere would have a file made elsewhere.
    if project && path.is_symlink() {
        let message =
            format!("{} is a link that leads nowhere: remove it, or make its target.", path.display());
        return Err(Failure::Failed(message));
    }
    // Yours may hold keys; a project's is for everybody who has it.
    match project {
        true => std::fs::File::create_new(path)
            .and_then(|mut file| file.write_all(BEGINNING.as_bytes()))
            .map_err(failed()),
        false => private::replace(path, BEGINNING.as_bytes()).map_err(failed()),
    }
}

/// Runs the editor on this terminal. It may be a command with arguments, as the variables' readers take it.
fn open(editor: &OsString, path: &Path) -> Result<(), Failure> {
    let named = editor.to_string_lossy().into_owned();
    let mut words = named.split_whitespace().map(str::to_owned);
    let program = words.next().unwrap_or_default();
    let arguments = words.map(OsString::from).chain([path.as_os_str().to_owned()]);
    // C-c is the editor's.
    let executor =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::start)?;
    let _ignored = executor.block_on(async { signal(SignalKind::interrupt()) }).map_err(Failure::start)?;
    let status = Program::new(program).args(arguments).on_terminal().map_err(Failure::io(named.clone()))?;
    match status.success() {
        true => Ok(()),
        false => {
            Err(Failure::Failed(format!("{named} ended with {status}; {} is as it left it", path.display())))
        }
    }
}
