//! `edn-bridge usage`: tokens and cost over time, from the journals. Runs no session.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use edn_bridge::clock::rfc3339;
use edn_bridge::export::{self, UsageFigure, UsageRow};
use edn_bridge::message::{Role, Usage};
use edn_bridge::store::{EntryBody, JournalContent};
use edn_bridge::value::{Map, Value};

use super::failure::{Exit, Failure};
use super::options::Options;
use super::progress::Bar;
use super::style::{Meaning, width};
use super::table::Table;
use super::{out, sessions};

#[derive(Args)]
pub(super) struct UsageArguments {
    /// What the figures are summed by.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: By,
    /// Only what is not older: 12h, 30d, 8w.
    #[arg(long, value_name = "AGE", value_parser = sessions::admin::age)]
    since: Option<Duration>,
    /// As JSON.
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Writes a page with figures by day, project and model to this file.
    #[arg(long, value_name = "FILE", conflicts_with = "by")]
    html: Option<PathBuf>,
}

/// What figures are summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum By {
    /// The day, in UTC.
    #[default]
    Day,
    /// The folder of the session.
    Project,
    /// The model of each call. A session of an older version notes only a model that it was given.
    Model,
    /// The session.
    Session,
}

#[derive(Clone, Default)]
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

/// The model of a call that the journal does not name: of an older version, in a session that was given none.
const NOT_NOTED: &str = "(not noted)";

pub(super) fn run(options: &Options, arguments: &UsageArguments) -> Exit {
    let settings = options.settings()?;
    let store = options.store(&settings)?;
    let files = store.all_files()?;
    let oldest = arguments.since.and_then(|age| SystemTime::now().checked_sub(age));
    let from = oldest.and_then(noted);
    let by = match arguments.html {
        Some(_) => vec![By::Day, By::Project, By::Model],
        None => vec![arguments.by],
    };
    let mut all = vec![BTreeMap::<String, Sum>::new(); by.len()];
    let mut seen = HashSet::new();
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
        add(&content, from.as_deref(), &mut seen, |call, usage| {
            total.add(usage);
            for (by, sums) in by.iter().zip(&mut all) {
                sums.entry(call.key(*by)).or_default().add(usage);
            }
        });
    }
    bar.clear();
    let closed = files.closed.len();
    if unread > 0 || closed > 0 {
        tracing::warn!(
            "{unread} sessions and {closed} folders of sessions cannot be read and are left out; edn-bridge sessions \
             verify says why"
        );
    }
    if let Some(path) = &arguments.html {
        let figures = by.iter().zip(&all).map(|(by, sums)| figure(*by, sums)).collect::<Vec<_>>();
        export::save(path, &export::usage_page("Tokens and cost", &figures))
            .map_err(Failure::io(path.display().to_string()))?;
        return out::note(&format!("Written to {}.", path.display()));
    }
    let sums = all.into_iter().next().unwrap_or_default();
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
    // A person compares lengths at a glance; a script wants the numbers alone.
    let measure = Measure::of(&sums);
    let bars = width().map_or(0, |columns| columns.saturating_sub(BESIDE_BARS).min(BAR));
    let mut headings = vec![heading, "CALLS", "INPUT", "CACHED", "OUTPUT", "COST $"];
    headings.extend((bars > 0).then_some(measure.heading()));
    // A path may be cut; an id, a model or a day is no use then.
    let kept: &[usize] = if arguments.by == By::Project { &[] } else { &[0] };
    let mut table = Table::new(&headings, 0, &[1, 2, 3, 4, 5]).keeping(kept, &[6, 3, 1]);
    let row = |key: &str, meaning, sum: &Sum| {
        let Usage { input, output, cache_read, cache_write, cost } = sum.usage;
        vec![
            (key.to_owned(), Some(meaning)),
            (sum.calls.to_string(), None),
            (input.saturating_add(cache_write).to_string(), None),
            (if arguments.by == By::Model { with_share(&sum.usage) } else { cache_read.to_string() }, None),
            (output.to_string(), None),
            (if cost > 0.0 { format!("{cost:.4}") } else { "-".to_owned() }, None),
        ]
    };
    let length = match arguments.by {
        By::Session => sessions::id_length(&sums.keys().map(String::as_str).collect::<Vec<_>>()),
        _ => usize::MAX,
    };
    for (key, sum) in &sums {
        let mut row = row(key.get(..length).unwrap_or(key), Meaning::Name, sum);
        row.extend((bars > 0).then(|| (measure.bar(sum, bars), Some(Meaning::Well))));
        table.row(row);
    }
    table.row(row("all", Meaning::Heading, &total));
    out::show(&table.text())
}

/// Tokens that were read from a cache, and their share of the input: `3000 (93%)`.
fn with_share(usage: &Usage) -> String {
    let all = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    match usage.cache_read.saturating_mul(100).checked_div(all) {
        Some(share) if usage.cache_read > 0 => format!("{} ({share}%)", usage.cache_read),
        _ => usage.cache_read.to_string(),
    }
}

/// Columns of the longest bar.
const BAR: usize = 30;

/// Columns that are left to the other figures before there are bars.
const BESIDE_BARS: usize = 62;

/// What the bars show: cost, or tokens where nothing has a price.
struct Measure {
    is_cost: bool,
    most: f64,
}

impl Measure {
    fn of(sums: &BTreeMap<String, Sum>) -> Self {
        let is_cost = sums.values().any(|sum| sum.usage.cost > 0.0);
        let most = sums.values().map(|sum| Self { is_cost, most: 1.0 }.amount(sum)).fold(0.0, f64::max);
        Self { is_cost, most }
    }

    const fn heading(&self) -> &'static str {
        if self.is_cost { "COST" } else { "TOKENS" }
    }

    #[allow(clippy::cast_precision_loss, reason = "a length on a terminal")]
    fn amount(&self, sum: &Sum) -> f64 {
        if self.is_cost { sum.usage.cost } else { sum.usage.total() as f64 }
    }

    /// The bar in eighths of a column. What is more than nothing is seen.
    fn bar(&self, sum: &Sum, columns: usize) -> String {
        let amount = self.amount(sum);
        if amount <= 0.0 || self.most <= 0.0 {
            return String::new();
        }
        let share = amount / self.most;
        let all = (1..=columns.saturating_mul(8)).take_while(|eighth| {
            *eighth == 1 || share * real(columns.saturating_mul(8)) + 0.5 >= real(*eighth)
        });
        let eighths = all.count();
        let last = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let rest = (eighths % 8).checked_sub(1).and_then(|at| last.get(at));
        "█".repeat(eighths / 8).chars().chain(rest.copied()).collect()
    }
}

/// The length of a bar.
#[allow(clippy::cast_precision_loss, reason = "a length on a terminal")]
const fn real(count: usize) -> f64 {
    count as f64
}

fn figure(by: By, sums: &BTreeMap<String, Sum>) -> UsageFigure {
    let row =
        |(label, sum): (&String, &Sum)| UsageRow { label: label.clone(), calls: sum.calls, usage: sum.usage };
    UsageFigure { heading: format!("By {}", name(by)), rows: sums.iter().map(row).collect() }
}

const fn name(by: By) -> &'static str {
    match by {
        By::Day => "day",
        By::Project => "project",
        By::Model => "model",
        By::Session => "session",
    }
}

/// A time in the form that messages have theirs in: such times compare as text.
fn noted(time: SystemTime) -> Option<Arc<str>> {
    jiff::Timestamp::try_from(time).map(rfc3339).ok()
}

/// Where a model call belongs.
struct Call<'c> {
    content: &'c JournalContent,
    at: &'c str,
    model: &'c str,
}

impl Call<'_> {
    fn key(&self, by: By) -> String {
        match by {
            By::Day => self.at.get(..10).unwrap_or_default(),
            By::Project => &self.content.header.cwd,
            By::Model => self.model,
            By::Session => self.content.header.session.as_str(),
        }
        .to_owned()
    }
}

/// Adds the calls of a session. What a fork has from its source is the source's: an entry counts once.
fn add(
    content: &JournalContent,
    from: Option<&str>,
    seen: &mut HashSet<Arc<str>>,
    mut sum: impl FnMut(&Call<'_>, Usage),
) {
    let mut noted = NOT_NOTED.to_owned();
    for entry in &content.entries {
        match &entry.body {
            EntryBody::Model { provider, id } => noted = format!("{provider} {id}"),
            EntryBody::Message(message) if message.role == Role::Assistant => {
                let Some(usage) = message.usage else { continue };
                if from.is_some_and(|from| &*message.timestamp < from)
                    || !seen.insert(message.id.as_str().into())
                {
                    continue;
                }
                let called = message.model.as_ref().map(|model| format!("{} {}", model.provider, model.id));
                let model = called.as_ref().unwrap_or(&noted);
                sum(&Call { content, at: &message.timestamp, model }, usage);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_of_the_cache_is_shown_where_there_is_one() {
        let usage =
            |input, cache_read, cache_write| Usage { input, cache_read, cache_write, ..Usage::default() };
        for (usage, expected) in
            [(usage(10, 3000, 200), "3000 (93%)"), (usage(7, 0, 0), "0"), (usage(0, 0, 0), "0")]
        {
            assert_eq!(with_share(&usage), expected);
        }
    }

    #[test]
    fn oldest_time_has_the_form_of_a_message() {
        let at = noted(SystemTime::UNIX_EPOCH + Duration::from_nanos(1)).unwrap();
        assert_eq!(&*at, "1970-01-01T00:00:00.000Z");
        // With a shorter form, "1970-01-01T00:00:00Z", this one would be older.
        assert!("1970-01-01T00:00:00.001Z" > &*at);
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let sum = |input: u64, cost: f64| Sum { calls: 1, usage: Usage { input, cost, ..Usage::default() } };
        let sums = BTreeMap::from([("a".to_owned(), sum(80, 0.0)), ("b".to_owned(), sum(1, 0.0))]);
        let measure = Measure::of(&sums);
        let bar = |input| measure.bar(&sum(input, 0.0), 10);
        assert_eq!(
            [bar(80), bar(40), bar(41), bar(1), bar(0)],
            ["█".repeat(10), "█".repeat(5), "█████▏".to_owned(), "▏".to_owned(), String::new()]
        );
        // As soon as something has a price, that is what counts.
        let sums = BTreeMap::from([("a".to_owned(), sum(80, 0.5)), ("b".to_owned(), sum(900, 0.0))]);
        let measure = Measure::of(&sums);
        assert_eq!((measure.heading(), measure.bar(&sum(900, 0.0), 10)), ("COST", String::new()));
        assert_eq!(measure.bar(&sum(80, 0.5), 10), "█".repeat(10));
    }
}
