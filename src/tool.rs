//! What a model can do beside talking: the tools.
//!
//! A tool says what a call would touch ([`permission::Access`]), so that the runtime can judge it and ask,
//! and then does it. Knows files, processes and plain data; does not know sessions, people or the wire.
//! The tools that need those (`ask-user`, `delegate`) are only described here; the runtime answers them.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::message::Block;
use crate::provider::ToolSpec;
use crate::runner::sandbox::Sandbox;
use crate::value::{Map, Value};

mod bash;
mod diff;
mod edit;
mod error;
mod find;
pub mod glob;
pub mod output;
pub mod path;
pub mod permission;
pub mod process;
mod read;
mod search;
pub mod shell;
pub mod toolbox;
pub mod walk;
mod write;

pub use error::CallError;
pub use read::read_file;

use output::{Kept, Outputs};
use permission::Access;

/// The name of the tool that asks the person; the runtime answers it.
pub const ASK_USER: &str = "ask-user";

/// The name of the tool that gives a task to a subagent; the runtime answers it.
pub const DELEGATE: &str = "delegate";

/// The name of the tool that runs commands.
pub const BASH: &str = "bash";

/// Where and for whom a call runs.
#[derive(Clone)]
pub struct Context {
    /// The session's folder, absolute and without symbolic links.
    pub cwd: Arc<Path>,
    /// Where long outputs are kept.
    pub outputs: Outputs,
    /// A name for an output, unique in the session.
    pub handle: String,
    /// Where commands may write; `None` for wherever the user may.
    pub sandbox: Option<Sandbox>,
    /// Variables that commands do not inherit: those that hold keys.
    pub hidden: Arc<[String]>,
    /// What rules deny below a folder that the call may read.
    pub barred: Arc<walk::Barred>,
    /// Ends the call.
    pub stop: CancellationToken,
    /// Is shown the newest part of the output while the call runs.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What a call would do, found out without doing it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it touches.
    pub access: Access,
    /// What would change, as a unified diff, where the tool changes a file.
    pub diff: Option<String>,
}

/// What a call came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the model and the person are shown.
    pub text: String,
    /// Images beside the text, for the model.
    pub images: Vec<Block>,
    /// Whether it failed.
    pub is_error: bool,
    /// Further facts for frontends: a diff, an exit code, a handle for the rest.
    pub details: Map<'static>,
}

impl Outcome {
    /// A success with this text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), images: Vec::new(), is_error: false, details: Map::new() }
    }

    /// A failure, with what to do about it.
    pub fn failed(text: impl std::fmt::Display) -> Self {
        Self { is_error: true, ..Self::ok(text.to_string()) }
    }

    /// A success whose text may be too long to show.
    fn kept(kept: Kept) -> Self {
        let mut outcome = Self::ok(kept.text);
        if let Some(handle) = kept.handle {
            outcome.details.put("handle", handle);
            outcome.details.put("size", Value::from(kept.size));
        }
        outcome
    }
}

/// A call that runs. Ends soon after [`Context::stop`] is cancelled.
pub type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Something that a model can call.
pub trait Tool: Send + Sync {
    /// What the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// What a call does, in one line for a person.
    fn summary(&self, arguments: &Value<'_>) -> String;

    /// What a call would touch. Reads at most; changes nothing. Ends early when `stop` is cancelled.
    ///
    /// # Errors
    /// See [`CallError`].
    fn plan(&self, cwd: &Path, arguments: &Value<'_>, stop: &CancellationToken) -> Result<Plan, CallError>;

    /// Runs a call that was allowed to touch what its plan says.
    fn run<'a>(&'a self, context: &'a Context, plan: &'a Plan, arguments: &'a Value<'static>) -> Running<'a>;
}

/// A tool's description: name, what it does, and its parameters with type, meaning and whether they must
/// be given. Types: `string`, `integer`, `boolean`, `strings`, `edits`.
fn spec(name: &str, description: &str, parameters: &[(&'static str, &str, &str, bool)]) -> ToolSpec {
    let mut properties = Map::new();
    for (key, kind, meaning, _) in parameters {
        let mut property = Map::new();
        match *kind {
            "strings" => {
                property.put("type", "array");
                property.put("items", Value::from(Map::new().with("type", "string")));
            }
            "edits" => {
                let text = || Value::from(Map::new().with("type", "string"));
                let mut item = Map::new();
                item.put("type", "object");
                item.put("properties", Value::from(Map::new().with("old", text()).with("new", text())));
                item.put("required", Value::vector(["old", "new"]));
                property.put("type", "array");
                property.put("items", Value::from(item));
            }
            kind => {
                property.put("type", kind.to_owned());
            }
        }
        property.put("description", (*meaning).to_owned());
        properties.put(key, Value::from(property));
    }
    let required = parameters.iter().filter(|(.., required)| *required).map(|(key, ..)| Value::from(*key));
    let mut schema = Map::new();
    schema.put("type", "object");
    schema.put("properties", Value::from(properties));
    schema.put("required", Value::vector(required));
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters: Value::from(schema) }
}

/// A text argument that must be there.
fn text<'v>(arguments: &'v Value<'_>, key: &'static str) -> Result<&'v str, CallError> {
    let text = arguments.get(key).and_then(Value::as_str);
    text.ok_or(CallError::Argument { key, expected: "a string" })
}

/// A text argument that may be left out.
fn optional_text<'v>(arguments: &'v Value<'_>, key: &'static str) -> Result<Option<&'v str>, CallError> {
    match arguments.get(key) {
        None | Some(Value::Nil) => Ok(None),
        Some(_) => text(arguments, key).map(Some),
    }
}

/// A count that may be left out.
fn count(arguments: &Value<'_>, key: &'static str) -> Result<Option<usize>, CallError> {
    match arguments.get(key) {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => value
            .as_i64()
            .and_then(|count| usize::try_from(count).ok())
            .map(Some)
            .ok_or(CallError::Argument { key, expected: "an integer of 0 or more" }),
    }
}

/// The path argument, followed to where it leads; without one, the session's folder.
fn target(cwd: &Path, arguments: &Value<'_>, required: bool) -> Result<PathBuf, CallError> {
    let named = if required { Some(text(arguments, "path")?) } else { optional_text(arguments, "path")? };
    Ok(path::resolve(cwd, named.unwrap_or("."))?)
}

/// Runs work that blocks on files, unless the call was ended before.
async fn blocking(stop: &CancellationToken, work: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
    let running = tokio::task::spawn_blocking(work);
    tokio::select! {
        biased;
        () = stop.cancelled() => Outcome::failed(CallError::Ended),
        outcome = running => outcome.unwrap_or_else(|_| Outcome::failed(CallError::Broken)),
    }
}

/// A text cut to a length in bytes, without line ends.
pub fn one_line(text: &str, limit: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, limit).into_owned()
}

/// A text cut to a length in bytes, with a mark where something is missing.
fn cut(text: &str, limit: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default()).into()
}
