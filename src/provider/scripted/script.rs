//! Reads a script. Finds every error before the first call and reports it with its place in the file. Plays
//! nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::edn;
use crate::limits;
use crate::message::{StopReason, Usage};
use crate::provider::{ErrorKind, ProviderError};
use crate::value::{Map, Value};

/// A checked script.
pub(super) struct Script {
    /// The file's name, for messages.
    pub(super) name: PathBuf,
    /// At least one.
    pub(super) turns: Vec<Arc<ScriptedAnswer>>,
    pub(super) then: Then,
}

/// The answer to one model call.
pub(super) struct ScriptedAnswer {
    pub(super) steps: Vec<ScriptedStep>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<StopReason>,
}

pub(super) enum ScriptedStep {
    Thinking(String),
    /// The same piece of text several times.
    Deltas {
        count: u64,
        of: String,
    },
    EchoLastUser,
    ToolCall {
        id: Option<Arc<str>>,
        name: Arc<str>,
        arguments: Value<'static>,
        /// The arguments in a model's notation.
        written: String,
    },
    Sleep(Duration),
    Fail(ProviderError),
}

/// What happens after the last turn.
#[derive(Clone, Copy)]
pub(super) enum Then {
    RepeatLast,
    Cycle,
    Fail,
}

/// Why a script is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// `-` was given.
    #[error("the script cannot be read from standard input, which is the wire; write it to a file")]
    StandardInput,
    /// The file cannot be read.
    #[error("the script {} cannot be read: {source}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the script {} is larger than {} MiB", .file.display(), .limit >> 20)]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The file is not a script.
    #[error("{}:{line}:{column}: {what}", .file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The error, and the expected content.
        what: String,
    },
}

impl Script {
    pub(super) fn from_file(path: &Path) -> Result<Self, ScriptError> {
        if path.as_os_str() == "-" {
            return Err(ScriptError::StandardInput);
        }
        let unreadable = |source| ScriptError::Unreadable { file: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(limits::SCRIPT_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limits::SCRIPT_BYTES {
            return Err(ScriptError::TooLarge { file: path.to_owned(), limit: limits::SCRIPT_BYTES });
        }
        Self::from_bytes(path, &bytes)
    }

    pub(super) fn from_bytes(name: &Path, bytes: &[u8]) -> Result<Self, ScriptError> {
        let wrong = |line, column, what| ScriptError::Wrong { file: name.to_owned(), line, column, what };
        let form = edn::read_one(bytes).map_err(|error| {
            let what = format!("{}: expected {}", error.code(), error.expected());
            wrong(error.line(), error.column(), what)
        })?;
        read_script(&form)
            .map_err(|Wrong { near, what }| {
                let (line, column) = place_of(bytes, near);
                wrong(line, column, what)
            })
            .map(|(turns, then)| Self { name: name.to_owned(), turns, then })
    }
}

/// An error, and the nearest word of the script.
struct Wrong<'a> {
    near: Option<&'a str>,
    what: String,
}

type Reading<'a, T> = Result<T, Wrong<'a>>;

fn wrong<'a, T>(near: Option<&'a str>, what: impl Into<String>) -> Reading<'a, T> {
    Err(Wrong { near, what: what.into() })
}

/// The line and column, from 1, of a word that was borrowed from `bytes`; of the start without one.
fn place_of(bytes: &[u8], near: Option<&str>) -> (usize, usize) {
    let offset = near.and_then(|word| word.as_ptr().addr().checked_sub(bytes.as_ptr().addr()));
    // The word follows its colon or quotation mark.
    let offset = offset.map_or(0, |offset| offset.saturating_sub(1));
    let before = bytes.get(..offset).unwrap_or_default();
    let in_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    (line, String::from_utf8_lossy(in_line).chars().count() + 1)
}

/// The first word in a value that was borrowed from the script.
fn first_word<'a>(value: &Value<'a>) -> Option<&'a str> {
    match value {
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => text.borrowed(),
        Value::List(items) | Value::Vector(items) => items.iter().find_map(first_word),
        Value::Map(map) => map.iter().find_map(|(key, value)| first_word(key).or_else(|| first_word(value))),
        Value::Set(set) => set.iter().find_map(first_word),
        Value::Tagged(tagged) => tagged.tag.borrowed().or_else(|| first_word(&tagged.value)),
        _ => None,
    }
}

/// A value under a key, and the key for messages.
#[derive(Clone, Copy)]
struct Field<'v, 'a> {
    key: &'a str,
    value: &'v Value<'a>,
}

impl<'v, 'a> Field<'v, 'a> {
    fn expected<T>(self, what: &str) -> Reading<'a, T> {
        wrong(Some(self.key), format!(":{} must be {what}, not a {}", self.key, self.value.kind_name()))
    }

    fn text(self) -> Reading<'a, &'v str> {
        self.value.as_str().map_or_else(|| self.expected("a string"), Ok)
    }

    fn number(self, most: u64) -> Reading<'a, u64> {
        match self.value.as_i64().and_then(|number| u64::try_from(number).ok()) {
            Some(number) if number <= most => Ok(number),
            _ => wrong(Some(self.key), format!(":{} must be an integer from 0 to {most}", self.key)),
        }
    }

    fn items(self) -> Reading<'a, &'v [Value<'a>]> {
        self.value.as_slice().map_or_else(|| self.expected("a vector"), Ok)
    }

    /// The table entry of the field's keyword.
    fn choice<T: Copy>(self, choices: &[(&str, T)]) -> Reading<'a, T> {
        let found =
            self.value.as_keyword().and_then(|name| choices.iter().find(|(choice, _)| *choice == name));
        if let Some((_, choice)) = found {
            return Ok(*choice);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| format!(":{name}")).collect();
        wrong(Some(self.key), format!(":{} must be one of {}", self.key, names.join(" ")))
    }
}

/// The entries of a map with a fixed set of keys.
struct Fields<'v, 'a> {
    map: &'v Map<'a>,
    what: &'static str,
    near: Option<&'a str>,
}

impl<'v, 'a> Fields<'v, 'a> {
    fn of(
        value: &'v Value<'a>,
        what: &'static str,
        near: Option<&'a str>,
        keys: &[&str],
    ) -> Reading<'a, Self> {
        let near = first_word(value).or(near);
        let allowed = || keys.iter().map(|key| format!(":{key}")).collect::<Vec<_>>().join(" ");
        let Some(map) = value.as_map() else {
            return wrong(
                near,
                format!("{what} must be a map with {}, not a {}", allowed(), value.kind_name()),
            );
        };
        let stranger = map
            .iter()
            .map(|(key, _)| key)
            .find(|key| !key.as_keyword().is_some_and(|key| keys.contains(&key)));
        match stranger {
            Some(key) => {
                let key = edn::to_string(key);
                wrong(near_key(map, &key).or(near), format!("{what} has no {key}; it may have {}", allowed()))
            }
            None => Ok(Self { map, what, near }),
        }
    }

    fn get(&self, key: &'static str) -> Option<Field<'v, 'a>> {
        let value = self.map.get_keyword(key)?;
        let written = self.map.iter().find_map(|(found, _)| match found {
            Value::Keyword(name) if *name == key => name.borrowed(),
            _ => None,
        });
        Some(Field { key: written.unwrap_or(key), value })
    }

    fn require(&self, key: &'static str) -> Reading<'a, Field<'v, 'a>> {
        self.get(key).map_or_else(|| wrong(self.near, format!("{} needs :{key}", self.what)), Ok)
    }
}

fn near_key<'a>(map: &Map<'a>, written: &str) -> Option<&'a str> {
    map.iter().map(|(key, _)| key).find(|key| edn::to_string(key) == written).and_then(first_word)
}

fn read_script<'a>(form: &Value<'a>) -> Reading<'a, (Vec<Arc<ScriptedAnswer>>, Then)> {
    let script = Fields::of(form, "a script", None, &["turns", "then"])?;
    let turns = script.require("turns")?;
    let read = turns
        .items()?
        .iter()
        .map(|turn| read_turn(turn, turns.key).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    if read.is_empty() {
        return wrong(Some(turns.key), ":turns must hold at least one turn");
    }
    let then = match script.get("then") {
        Some(then) => {
            then.choice(&[("repeat-last", Then::RepeatLast), ("cycle", Then::Cycle), ("fail", Then::Fail)])?
        }
        None => Then::RepeatLast,
    };
    Ok((read, then))
}

fn read_turn<'a>(turn: &Value<'a>, near: &'a str) -> Reading<'a, ScriptedAnswer> {
    let turn = Fields::of(turn, "a turn", Some(near), &["steps", "usage", "stop-reason"])?;
    let steps = turn.require("steps")?;
    let read = steps.items()?.iter().map(|step| read_step(step, steps.key)).collect::<Result<_, _>>()?;
    let usage = turn.get("usage").map(read_usage).transpose()?;
    let stop = turn.get("stop-reason").map(|field| {
        let reason = StopReason::parse(field.text()?);
        let what = || format!(":stop-reason knows no {}", edn::to_string(field.value));
        reason.ok_or_else(|| Wrong { near: Some(field.key), what: what() })
    });
    Ok(ScriptedAnswer { steps: read, usage, stop: stop.transpose()? })
}

fn read_usage<'a>(field: Field<'_, 'a>) -> Reading<'a, Usage> {
    let keys = ["input", "output", "cache-read", "cache-write"];
    let usage = Fields::of(field.value, ":usage", Some(field.key), &keys)?;
    let figure = |key| usage.get(key).map_or(Ok(0), |field| field.number(u64::from(u32::MAX)));
    Ok(Usage {
        input: figure("input")?,
        output: figure("output")?,
        cache_read: figure("cache-read")?,
        cache_write: figure("cache-write")?,
        cost: 0.0,
    })
}

/// The key of a step gives its kind; `:deltas` has `:of` next to it.
fn read_step<'a>(step: &Value<'a>, near: &'a str) -> Reading<'a, ScriptedStep> {
    let keys = ["delta", "deltas", "of", "echo", "thinking", "tool-call", "sleep-ms", "error"];
    let fields = Fields::of(step, "a step", Some(near), &keys)?;
    let count = fields.map.len();
    if let Some(deltas) = fields.get("deltas") {
        if count != 2 {
            return wrong(Some(deltas.key), "{:deltas n :of \"text\"} has these two keys and no other");
        }
        let of = fields.require("of")?.text()?;
        let count = if of.is_empty() { 0 } else { deltas.number(limits::SCRIPT_DELTAS)? };
        return Ok(ScriptedStep::Deltas { count, of: of.to_owned() });
    }
    if count != 1 {
        return wrong(fields.near, "a step has one key; write several steps after each other");
    }
    if let Some(text) = fields.get("delta") {
        return Ok(ScriptedStep::Deltas {
            count: u64::from(!text.text()?.is_empty()),
            of: text.text()?.to_owned(),
        });
    }
    if let Some(text) = fields.get("thinking") {
        return Ok(ScriptedStep::Thinking(text.text()?.to_owned()));
    }
    if let Some(echo) = fields.get("echo") {
        return echo.choice(&[("last-user", ())]).map(|()| ScriptedStep::EchoLastUser);
    }
    if let Some(pause) = fields.get("sleep-ms") {
        return Ok(ScriptedStep::Sleep(Duration::from_millis(pause.number(limits::SCRIPT_SLEEP_MS)?)));
    }
    if let Some(call) = fields.get("tool-call") {
        return read_tool_call(call);
    }
    if let Some(error) = fields.get("error") {
        return read_error(error).map(ScriptedStep::Fail);
    }
    wrong(fields.near, ":of stands beside :deltas")
}

fn read_tool_call<'a>(field: Field<'_, 'a>) -> Reading<'a, ScriptedStep> {
    let call = Fields::of(field.value, ":tool-call", Some(field.key), &["id", "name", "arguments"])?;
    let arguments = match call.get("arguments") {
        Some(arguments) if arguments.value.as_map().is_some() => arguments.value.clone().into_owned(),
        Some(arguments) => return arguments.expected("a map"),
        None => Value::Map(Map::new()),
    };
    Ok(ScriptedStep::ToolCall {
        id: call.get("id").map(|id| id.text().map(Arc::from)).transpose()?,
        name: call.require("name")?.text()?.into(),
        written: edn::to_string(&arguments),
        arguments,
    })
}

fn read_error<'a>(field: Field<'_, 'a>) -> Reading<'a, ProviderError> {
    let error = Fields::of(field.value, ":error", Some(field.key), &["kind", "message", "retry-after-ms"])?;
    let retry_after = match error.get("retry-after-ms") {
        Some(pause) => Some(Duration::from_millis(pause.number(limits::SCRIPT_SLEEP_MS)?)),
        None => None,
    };
    let kind = error.require("kind")?.choice(&[
        ("overloaded", ErrorKind::Overloaded),
        ("rate-limited", ErrorKind::RateLimited { retry_after }),
        ("dropped", ErrorKind::Dropped),
        ("malformed", ErrorKind::Malformed),
        ("fatal", ErrorKind::Fatal),
        ("context-overflow", ErrorKind::ContextOverflow),
    ])?;
    let message = error.get("message").map_or(Ok("the script says so"), Field::text)?;
    Ok(ProviderError::new(kind, message))
}
