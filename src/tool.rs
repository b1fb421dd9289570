//! The tools: what a model can do in addition to text.
//!
//! A tool says what a call would touch ([`permission::Access`]), so that the engine can judge it and ask,
//! and then does it. Knows files, processes, plain data and events; does not know sessions, people or the wire.
//! The tools that need those (`ask-user`, `delegate`) are only described here; the engine answers them.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::environment::Environment;
use crate::event::{Body, Event, FileEdit, ToolCall};
use crate::message::Block;
use crate::provider::ToolSpec;
use crate::runner::Lifeline;
use crate::runner::sandbox::Sandbox;
use crate::value::{Map, Value};

pub mod arguments;
mod bash;
pub mod command_environment;
mod edit;
mod editorconfig;
mod error;
mod fetch;
mod find;
pub mod job;
mod known;
mod near_names;
mod open_files;
pub mod output;
pub mod path;
pub mod permission;
mod placeholder;
pub mod process;
mod proposal;
mod read;
mod redirect_policy;
pub mod round_budget;
mod search;
pub mod shell;
mod terminal_text;
mod text_file;
pub mod toolbox;
mod typography;
pub mod undo;
pub mod walk;
mod write;

pub use crate::catalogue::tools::{ASK_USER, BASH, DELEGATE, EDIT, FETCH, FIND, JOB, READ, SEARCH, WRITE};
pub use error::CallError;
pub use known::{KnownTexts, SeenText, Writer};
pub use near_names::explained;
#[cfg(test)]
pub use open_files::NoneOpen;
pub use open_files::{EditorChange, MadeInEditor, OpenFiles, Site};
pub use proposal::{Proposal, Revision};
pub use read::read_file;
pub use redirect_policy::RedirectPolicy;

use output::{KeptOutput, Outputs};
use permission::Access;

/// The search of a model's provider, by which rules and settings name it. It is no tool of ours.
pub const WEB_SEARCH: &str = "web-search";

/// The key in the details of a call that started a background job, or looked at one: the job's id.
pub const JOB_ID: &str = "job-id";

/// The key in the details of a call that looked at a background job: its status.
pub const JOB_STATUS: &str = "job-status";

/// The key in the details of a call of which nobody knows whether it changed its file.
pub const UNKNOWN: &str = "unknown";

/// The key in the details of a call that showed or wrote a text: its digest.
pub const DIGEST: &str = "sha256";

/// The key in the details of a call that showed a part of a text.
const PART: &str = "part";

/// Where and for whom a call runs.
#[derive(Clone)]
pub struct Context {
    /// The session's folder, absolute and without symbolic links.
    pub cwd: Arc<Path>,
    /// The store of long outputs.
    pub outputs: Outputs,
    /// A name for an output, unique in the session.
    pub handle: String,
    /// The limits of commands; `None` for the rights of the user.
    pub sandbox: Option<Sandbox>,
    /// The variables of commands.
    pub environment: Environment,
    /// Further ones, which stand in place of those of the same name.
    pub variables: Vec<(String, String)>,
    /// When the programs that it starts must have ended, if they may not outlive something.
    pub lifeline: Option<Lifeline>,
    /// The paths that rules deny below readable folders.
    pub barred: Arc<walk::DeniedPaths>,
    /// The text that a person put in place of the proposed one, for a tool that writes a file.
    pub revision: Option<Arc<Revision>>,
    /// Ends the call.
    pub stop: CancellationToken,
    /// The call, for a tool that somebody else carries out.
    pub call: Arc<ToolCall>,
    /// Makes an event of the call's turn, and passes it on while no other event of the session goes out.
    pub event: Arc<Telling>,
    /// Receives the newest part of the output while the call runs.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Called with each change of a file right before it is made; if that fails, it is not made.
    pub changing: Arc<Changing>,
    /// The files that clients have open.
    pub open: Arc<dyn OpenFiles>,
    /// What a call that fetches an address may reach beyond it.
    pub redirects: Option<Arc<RedirectPolicy>>,
}

/// Makes an event and passes it on.
pub type Telling = dyn Fn(Body, &mut dyn FnMut(&Event)) + Send + Sync;

/// Notes a change of a file.
pub type Changing = dyn Fn(&FileEdit) -> Result<(), CallError> + Send + Sync;

#[cfg(test)]
impl Context {
    /// The context of a test's call.
    fn of_test(cwd: &Path, stop: CancellationToken) -> Self {
        let text = Arc::<str>::from("");
        let call = ToolCall {
            id: text.clone(),
            name: text.clone(),
            summary: text.clone(),
            arguments: text,
            parsed: Value::Nil.into(),
        };
        Self {
            cwd: cwd.into(),
            outputs: Outputs::new(cwd, "s"),
            handle: "o-1".to_owned(),
            sandbox: None,
            environment: Environment::default(),
            variables: Vec::new(),
            lifeline: None,
            barred: Arc::default(),
            revision: None,
            stop,
            call: Arc::new(call),
            event: Arc::new(|_, _| {}),
            progress: Arc::new(|_| {}),
            changing: Arc::new(|_| Ok(())),
            open: Arc::new(NoneOpen),
            redirects: None,
        }
    }
}

/// The effects of a call, before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The files or the command that it touches.
    pub access: Access,
    /// The change of a file as a unified diff, if the tool changes one.
    pub diff: Option<String>,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The text for the model and the person.
    pub text: String,
    /// Images for the model, in addition to the text.
    pub images: Vec<Block>,
    /// Whether it failed.
    pub is_error: bool,
    /// Further facts for frontends: a diff, an exit code, a handle for the rest.
    pub details: Map<'static>,
    /// How long the call ran; `None` if it did not.
    pub took: Option<Duration>,
    /// The changed file, if it changed one.
    pub edit: Option<Arc<FileEdit>>,
}

impl Outcome {
    /// A success with this text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            images: Vec::new(),
            is_error: false,
            details: Map::new(),
            took: None,
            edit: None,
        }
    }

    /// A failure; the text says what to do.
    pub fn failed(text: impl std::fmt::Display) -> Self {
        Self { is_error: true, ..Self::ok(text.to_string()) }
    }

    /// A failure of a change: nobody knows whether it was made if the error says so.
    pub fn not_changed(error: CallError) -> Self {
        let mut outcome = Self::failed(&error);
        if matches!(error, CallError::Unknown(_)) {
            outcome.details.put(UNKNOWN, true);
        }
        outcome
    }

    /// Adds a line at the end of the text.
    pub fn add_line(&mut self, line: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// A success; a long text is stored under a handle.
    pub fn kept(kept: KeptOutput) -> Self {
        let mut outcome = Self::ok(kept.text);
        if let Some(handle) = kept.handle {
            outcome.details.put("handle", handle);
            outcome.details.put("size", Value::from(kept.size));
        }
        outcome
    }
}

/// A call that runs. Ends soon after [`Context::stop`] is cancelled.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Something that a model can call.
pub trait Tool: Send + Sync {
    /// Its description for the model.
    fn spec(&self) -> ToolSpec;

    /// A call in one line, for a person.
    fn summary(&self, arguments: &Value<'_>) -> String;

    /// What a call would touch, for a tool whose plan reads it: it is judged first, so that nothing is learned of what is
    /// denied.
    fn access(&self, _: Site<'_>, _: &Value<'_>) -> Option<Result<Access, CallError>> {
        None
    }

    /// The effects of a call. Changes nothing. May block.
    ///
    /// # Errors
    /// See [`CallError`].
    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError>;

    /// The same, with the whole text that the call would give a file; `None` for a tool that writes no file.
    ///
    /// # Errors
    /// See [`CallError`].
    fn propose(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<(Plan, Option<Proposal>), CallError> {
        self.plan(site, arguments).map(|plan| (plan, None))
    }

    /// The arguments of a call that would write a revision.
    fn revised(&self, arguments: &Value<'static>, revision: &Revision) -> Value<'static> {
        let _ = revision;
        arguments.clone()
    }

    /// Runs a call whose plan was permitted.
    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a>;
}

/// A tool's description: name, what it does, and its parameters with type, meaning and whether they must
/// be given. Types: `string`, `integer`, `count` (0 or more), `boolean`, `strings`, `edits`, and one of several words: `a|b`.
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
                let of = |kind: &'static str| Value::from(Map::new().with("type", kind));
                let all =
                    Map::new().with("type", "boolean").with("description", "Whether every place is meant.");
                let parts = Map::new().with("old", of("string")).with("new", of("string"));
                let mut item = Map::new();
                item.put("type", "object");
                item.put("properties", Value::from(parts.with("replace_all", Value::from(all))));
                item.put("required", Value::vector(["old", "new"]));
                item.put("additionalProperties", false);
                property.put("type", "array");
                property.put("items", Value::from(item));
            }
            "count" => {
                property.put("type", "integer");
                property.put("minimum", Value::int(0));
            }
            words if words.contains('|') => {
                property.put("type", "string");
                property.put("enum", Value::vector(words.split('|').map(str::to_owned)));
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
    schema.put("additionalProperties", false);
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

/// A truth value that is false if it is left out.
fn flag(arguments: &Value<'_>, key: &'static str) -> Result<bool, CallError> {
    match arguments.get(key) {
        None | Some(Value::Nil) => Ok(false),
        Some(value) => value.as_bool().ok_or(CallError::Argument { key, expected: "true or false" }),
    }
}

/// The file that a call changes: the one that it was judged for, so that nothing else is looked at.
fn judged(site: Site<'_>, arguments: &Value<'_>) -> Result<PathBuf, CallError> {
    site.judged.map_or_else(|| target(site.cwd, arguments, true), |path| Ok(path.to_owned()))
}

/// The path argument, followed to where it leads; without one, the session's folder.
fn target(cwd: &Path, arguments: &Value<'_>, required: bool) -> Result<PathBuf, CallError> {
    let named = if required { Some(text(arguments, "path")?) } else { optional_text(arguments, "path")? };
    Ok(path::understood(cwd, named.unwrap_or("."))?.path)
}

/// The text that a call has shown, if its details name one.
pub fn seen<'v>(detail: impl Fn(&'static str) -> Option<&'v Value<'static>>) -> Option<SeenText> {
    let digest = detail(DIGEST)?.as_str()?.to_owned();
    Some(SeenText { digest, is_whole: detail(PART).is_none() })
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
