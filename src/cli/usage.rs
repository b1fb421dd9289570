//! `edn-bridge usage`: tokens and cost over time, from the journals. Runs no session.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use edn_bridge::message::{Role, Usage};
use edn_bridge::store::{EntryBody, JournalContent};
use edn_bridge::value::{Map, Value};

use super::progress::Bar;
use super::style::Meaning;
use super::table::Table;
use super::{Exit, Options, out, sessions};

#[derive(Args)]
pub(super) struct UsageArguments {
    /// What the figures are summed by.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: By,
    /// Only what is not older: 12h, 30d, 8w.
    #[arg(long, value_name = "AGE", value_parser = sessions::shelf::age)]
    since: Option<Duration>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// What figures are summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum By {
    /// The day, in UTC.
    #[default]
    Day,
    /// The folder of the session.
    Project,
    /// The model, as far as the session notes it: a session has the usual one until it is given another.
    Model,
    /// The session.
    Session,
}

#[derive(Default)]
struct Sum {
    calls: u64,
    usage: Usage,
}

impl Sum {
    fn add(&mut self, usage: Usage) {
        self.calls = self.calls.saturating_add(1);
        self.usage.add(&usage);
    }
}

/// The model of a session that was given none.
const USUAL: &str = "(the usual one)";

pub(super) fn run(options: &Options, arguments: &UsageArguments) -> Exit {
    let settings = options.settings()?;
    let store = options.store(&settings)?;
    let files = store.all_files()?;
    let oldest = arguments.since.and_then(|age| SystemTime::now().checked_sub(age));
    let from = oldest.and_then(|time| jiff::Timestamp::try_from(time).ok()).map(|time| time.to_string());
    let (mut sums, mut seen) = (BTreeMap::<String, Sum>::new(), HashSet::new());
    let bar = Bar::new();
    let (mut total, mut unread) = (Sum::default(), 0usize);
    for (at, path) in files.paths.iter().enumerate() {
        if bar.is_live() {
            let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
            bar.show("reading the sessions", count(at), count(files.paths.len()));
        }
        let is_older = |modified: SystemTime| oldest.is_some_and(|oldest| modified < oldest);
        if path.metadata().and_then(|file| file.modified()).is_ok_and(is_older) {
            continue;
        }
        let Ok(content) = store.read_file(path) else {
            unread = unread.saturating_add(1);
            continue;
        };
        add(&content, arguments.by, from.as_deref(), &mut seen, |key, usage| {
            total.add(usage);
            sums.entry(key).or_default().add(usage);
        });
    }
    bar.clear();
    if unread > 0 {
        tracing::warn!(
            "{unread} sessions cannot be read and are left out; edn-bridge sessions verify says why"
        );
    }
    if arguments.json {
        let all = sums.iter().map(|(key, sum)| {
            let map = Map::new().with(name(arguments.by), key.clone());
            let map = map.with("calls", i64::try_from(sum.calls).unwrap_or(i64::MAX));
            Value::from(map.with("usage", sum.usage.to_value()))
        });
        let mut text = Vec::new();
        edn_bridge::json::write(&Value::vector(all), &mut text);
        return out::print(&format!("{}\n", String::from_utf8_lossy(&text)));
    }
    if sums.is_empty() {
        return out::note("No model was called yet.");
    }
    let heading = match arguments.by {
        By::Day => "DAY",
        By::Project => "PROJECT",
        By::Model => "MODEL",
        By::Session => "SESSION",
    };
    let mut table =
        Table::new(&[heading, "CALLS", "INPUT", "CACHED", "OUTPUT", "COST $"], 0, &[1, 2, 3, 4, 5]);
    let row = |key: &str, meaning, sum: &Sum| {
        let Usage { input, output, cache_read, cache_write, cost } = sum.usage;
        [
            (key.to_owned(), Some(meaning)),
            (sum.calls.to_string(), None),
            (input.saturating_add(cache_write).to_string(), None),
            (cache_read.to_string(), None),
            (output.to_string(), None),
            (if cost > 0.0 { format!("{cost:.4}") } else { "-".to_owned() }, None),
        ]
    };
    for (key, sum) in &sums {
        table.row(row(key, Meaning::Name, sum));
    }
    table.row(row("all", Meaning::Heading, &total));
    out::show(&table.text())
}

const fn name(by: By) -> &'static str {
    match by {
        By::Day => "day",
        By::Project => "project",
        By::Model => "model",
        By::Session => "session",
    }
}

/// Adds the calls of a session. What a fork has from its source is the source's: an entry counts once.
fn add(
    content: &JournalContent,
    by: By,
    from: Option<&str>,
    seen: &mut HashSet<Arc<str>>,
    mut sum: impl FnMut(String, Usage),
) {
    let mut model = USUAL.to_owned();
    for entry in &content.entries {
        match &entry.body {
            EntryBody::Model { provider, id } => model = format!("{provider} {id}"),
            EntryBody::Message(message) if message.role == Role::Assistant => {
                let Some(usage) = message.usage else { continue };
                // Times of one form compare as text.
                if from.is_some_and(|from| &*message.timestamp < from)
                    || !seen.insert(message.id.as_str().into())
                {
                    continue;
                }
                let key = match by {
                    By::Day => message.timestamp.get(..10).unwrap_or_default().to_owned(),
                    By::Project => content.header.cwd.to_string(),
                    By::Model => model.clone(),
                    By::Session => content.header.session.as_str().to_owned(),
                };
                sum(key, usage);
            }
            _ => {}
        }
    }
}
