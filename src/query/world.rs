//! What the engine sees of the process: one moment of it, as plain facts.
//!
//! The runtime implements these traits from its snapshots. A world answers the same for as long as it is
//! asked, so that a query reads one consistent state, and nothing here waits for a turn.

use std::sync::Arc;

use crate::message::{EntryId, Message, SessionId};
use crate::query::resolvers::session::SessionFact;
use crate::value::{Map, Value};

/// The process at one moment.
pub trait World {
    /// The session that the query means.
    fn focus(&self) -> &SessionId;
    /// A live session.
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>>;
    /// All live sessions, oldest first.
    fn live(&self) -> Vec<Arc<dyn SessionView>>;
    /// The sessions of the project, or of all projects, newest first, live ones included. Reads the disk.
    fn list(&self, all: bool, limit: usize) -> Vec<SessionInfo>;
    /// The models of the catalogue, each with the keys of `get_available_models`.
    fn models(&self) -> Vec<Value<'static>>;
    /// The names of the providers that can be asked without a further login.
    fn providers(&self) -> Vec<String>;
    /// The connections, in the order in which they came.
    fn connections(&self) -> Vec<ConnectionFacts>;
    /// What the process runs with. Never a secret.
    fn settings(&self) -> Vec<Setting>;
    /// The process itself.
    fn process(&self) -> ProcessFacts;
    /// The background jobs, each with the keys of `inspect_background_job`.
    fn jobs(&self) -> Vec<Value<'static>>;
    /// The notes that `/remember` keeps for the project, newest first, each a map with `:id`, `:text` and
    /// `:created-at`; `None` where nothing is kept.
    fn notes(&self) -> Option<Vec<Value<'static>>>;
}

/// A live session at one moment.
pub trait SessionView: Send + Sync {
    /// The session's id.
    fn id(&self) -> &SessionId;
    /// One fact. Facts that are known not to exist are nil.
    fn fact(&self, fact: SessionFact) -> Value<'static>;
    /// The messages on the current branch, oldest first.
    fn messages(&self) -> Vec<Arc<Message>>;
    /// The entries on the current branch, oldest first.
    fn entries(&self) -> Vec<EntryView>;
}

/// One journal entry.
#[derive(Debug, Clone)]
pub struct EntryView {
    /// Its id.
    pub id: EntryId,
    /// The entry that it follows.
    pub parent: Option<EntryId>,
    /// When it was written, RFC 3339 in UTC.
    pub ts: Arc<str>,
    /// What kind it is: `message`, `name`, `model`, `setting` …
    pub kind: Arc<str>,
    /// The message, where it is one.
    pub message: Option<Arc<Message>>,
    /// What else it says.
    pub data: Map<'static>,
}

/// A session in a list.
#[derive(Debug, Clone, Default)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Its journal's path, once it was written.
    pub path: Option<String>,
    /// The name that the person gave it.
    pub name: Option<String>,
    /// The folder that it works in.
    pub worktree_path: String,
    /// The start of the first message.
    pub first_message: Option<String>,
    /// When it was last written, RFC 3339 in UTC.
    pub modified: Option<String>,
    /// Messages on its branch; `None` where that is not known without reading the file through.
    pub message_count: Option<usize>,
    /// When it was opened, RFC 3339 in UTC.
    pub created_at: String,
    /// The session that it was forked from.
    pub parent: Option<String>,
    /// Whether it is live in this process.
    pub live: bool,
}

/// A connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectionFacts {
    /// Its number in the process.
    pub id: u64,
    /// The session that it looks at.
    pub session: Option<SessionId>,
    /// Whether it answers typed questions.
    pub interactor: bool,
    /// The topics that it is sent.
    pub topics: Vec<&'static str>,
    /// How its outbox stands.
    pub standing: crate::session::Standing,
}

/// One value of the configuration.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its name.
    pub key: &'static str,
    /// What it is.
    pub value: Value<'static>,
    /// Where the value came from, where that is known.
    pub source: Option<String>,
}

/// The process.
#[derive(Debug, Clone, Default)]
pub struct ProcessFacts {
    /// Its id.
    pub pid: u32,
    /// When it was started, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it has run, in milliseconds.
    pub uptime_ms: i64,
    /// The time now, RFC 3339 in UTC.
    pub now: String,
}
