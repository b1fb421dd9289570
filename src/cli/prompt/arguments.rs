//! The arguments of `edn-bridge prompt`, and the message that they and standard input make.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use edn_bridge::context::{delimiters, reference};
use edn_bridge::files;
use edn_bridge::json;
use edn_bridge::limits::CLIENT_TOOL_SCHEMA_BYTES;
use edn_bridge::value::Value;

use super::printer::Output;
use crate::cli::failure::{Failure, USAGE};
use crate::cli::input;
use crate::cli::rule_options::RuleOptions;

#[derive(Args)]
pub(in crate::cli) struct PromptArguments {
    /// The message; - reads it from standard input, and what is piped beside a message is attached to it.
    pub(super) text: Option<String>,
    /// Further words: a message that is not quoted.
    #[arg(hide = true)]
    pub(super) words: Vec<String>,
    /// Continue in a copy of the session of --continue or --session, which stays as it is.
    #[arg(long)]
    pub(super) fork: bool,
    /// Continue with the newest session of this folder.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(super) goes_on: bool,
    /// Continue with this session: its id, the beginning of its id, or its name.
    #[arg(long, short, value_name = "SESSION")]
    pub(super) session: Option<String>,
    /// What is printed: the answer's text as it comes, one map at the end, or every event on a line of its own.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t)]
    pub(super) output: Output,
    /// End the turn after so many calls of the model.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_turns: Option<u32>,
    /// End the turn after this time: 90s, 10m, 2h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// Ask for an answer that fits this JSON schema of an object, a file or the text itself, and print it as JSON.
    #[arg(long, value_name = "FILE|JSON")]
    pub(super) schema: Option<String>,
    #[command(flatten)]
    pub(super) rules: RuleOptions,
    /// End the turn at the first call that needs an approval, instead of refusing the call.
    #[arg(long)]
    pub(super) strict: bool,
    /// Write the answer to this file too.
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Append a file, or the text itself, to the system prompt of this run.
    #[arg(long, value_name = "FILE|TEXT")]
    pub(super) system: Option<String>,
    /// Leave no session behind.
    #[arg(long, conflicts_with_all = ["goes_on", "session"])]
    pub(super) ephemeral: bool,
}

/// Reads a time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match text.get(digits.len()..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        _ => 0,
    };
    let count: u64 = digits.parse().unwrap_or(0);
    match count.checked_mul(seconds).filter(|seconds| *seconds > 0) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("write a number and its unit, such as 90s, 10m or 2h".to_owned()),
    }
}

pub(super) fn usage(what: &str) -> Failure {
    Failure::Status { code: USAGE, message: what.to_owned() }
}

/// Fails where the shell has split the message into words.
pub(super) fn must_be_whole(arguments: &PromptArguments) -> Result<(), Failure> {
    if let (Some(text), [_, ..]) = (&arguments.text, arguments.words.as_slice()) {
        let whole = [std::slice::from_ref(text), &arguments.words].concat().join(" ");
        let whole = format!("'{}'", whole.replace('\'', "'\\''"));
        return Err(usage(&format!("a message of several words is quoted: edn-bridge prompt {whole}")));
    }
    if arguments.fork && !arguments.goes_on && arguments.session.is_none() {
        return Err(usage("--fork copies a session: name it with --continue or --session"));
    }
    Ok(())
}

/// The message with what was piped.
pub(super) fn message(text: Option<&str>) -> Result<String, Failure> {
    let message = match text {
        Some("-") => guarded(input::read()?),
        None if input::is_piped() => guarded(input::read()?),
        None => return Err(usage("there is no message: give one, or pipe one in")),
        Some(text) if input::is_piped() => match input::read()? {
            attached if attached.trim().is_empty() => text.to_owned(),
            attached => format!("{text}\n\n{}", delimiters::marked("standard-input", &[], &attached)),
        },
        Some(text) => text.to_owned(),
    };
    if message.trim().is_empty() {
        return Err(usage("the message is empty"));
    }
    Ok(message)
}

/// What is piped in is data: its first line runs no slash command.
fn guarded(text: String) -> String {
    if text.trim_start().starts_with('/') { delimiters::marked("standard-input", &[], &text) } else { text }
}

/// A warning for each `@name` of the typed message that names no file.
pub(super) fn missing_files(cwd: &Path, text: Option<&str>) -> Vec<String> {
    let missing = reference::missing(cwd, text.unwrap_or_default());
    // Those with a colon may be of a server.
    let missing = missing.into_iter().filter(|name| !name.contains(':'));
    missing.map(|name| format!("@{name} names no file here; the model gets it as it is written")).collect()
}

/// The schema in a file, or the text itself.
pub(super) fn read_schema(given: &str) -> Result<Value<'static>, Failure> {
    let text = match given.trim_start().starts_with('{') {
        true => given.as_bytes().to_vec(),
        false => {
            let most = u64::try_from(CLIENT_TOOL_SCHEMA_BYTES).unwrap_or(u64::MAX).saturating_add(1);
            let path = Path::new(given).canonicalize();
            path.and_then(|path| files::read(&path, most))
                .map_err(|error| usage(&format!("--schema {given}: {error}")))?
        }
    };
    let wrong = |why: String| usage(&format!("--schema: {why}"));
    let value = json::read(&text).map_err(|error| wrong(error.to_string()))?.into_owned();
    let is_object = value.as_map().and_then(|map| map.get(&Value::from("type"))).and_then(Value::as_str);
    if is_object != Some("object") {
        return Err(wrong("it must be the schema of an object: {\"type\": \"object\", …}".to_owned()));
    }
    Ok(value)
}

/// The text in a file, or the text itself: a single line that names a file is that file.
pub(super) fn read_system(given: &str) -> Result<String, Failure> {
    let wrong = |why: &dyn std::fmt::Display| usage(&format!("--system {given}: {why}"));
    let path = Path::new(given);
    if !path.is_file() {
        let looks_like_path =
            !given.contains(char::is_whitespace) && (given.contains('/') || path.extension().is_some());
        return if looks_like_path { Err(wrong(&"there is no such file")) } else { Ok(given.to_owned()) };
    }
    let most = u64::try_from(CLIENT_TOOL_SCHEMA_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let bytes =
        path.canonicalize().and_then(|path| files::read(&path, most)).map_err(|error| wrong(&error))?;
    if bytes.len() > CLIENT_TOOL_SCHEMA_BYTES {
        return Err(wrong(&format!("it has more than {CLIENT_TOOL_SCHEMA_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| wrong(&"it is no UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("2h", 7200)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["", "10", "0s", "m", "1d", "-1s", "1.5h", "10 m", "99999999999999999h", "1ms"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
