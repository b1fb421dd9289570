//! What the engine sees of the process: one moment of it, as plain facts.
//!
//! The runtime implements these traits from its snapshots. A world answers the same for as long as it is
//! asked, so that a query reads one consistent state, and nothing here waits for a turn.

use std::sync::Arc;

use crate::event::{StagePassed, StatusText, Widget, WidgetSpec};
use crate::facts::JobFacts;
use crate::message::{EntryId, Message, SessionId, TurnId};
use crate::query::graph::Failure;
use crate::query::resolvers::session::SessionFact;
use crate::session::Counts;
use crate::value::{Map, Text, Value};

/// The process at one moment.
pub trait World {
    /// The session that the query means.
    fn focus(&self) -> &SessionId;
    /// A live session.
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>>;
    /// All live sessions, oldest first.
    fn live(&self) -> Vec<Arc<dyn SessionView>>;
    /// The sessions of the project, or of all projects, newest first, live ones included. Reads the disk.
    ///
    /// # Errors
    /// Where the list would not be the whole one.
    fn list(&self, all: bool, limit: usize) -> Result<Vec<SessionInfo>, Failure>;
    /// The models of the catalogue, each with the keys of `get_available_models`.
    fn models(&self) -> Vec<Value<'static>>;
    /// The names of the providers that can be asked without a further login.
    fn providers(&self) -> Vec<String>;
    /// The connections, in the order in which they came.
    fn connections(&self) -> Vec<ConnectionFacts>;
    /// What the process runs with. Never a secret.
    fn settings(&self) -> Vec<Setting>;
    /// Which reading of the configuration is the newest.
    fn reading(&self) -> Reading;
    /// The process itself.
    fn process(&self) -> ProcessFacts;
    /// What the wire answered so far.
    fn counts(&self) -> Counts;
    /// The background jobs of a live session, newest first, each with the keys of
    /// `inspect_background_job`.
    fn jobs(&self, session: &SessionId) -> Vec<Arc<JobFacts>>;
    /// The notes that `/remember` keeps for the project, newest first, each a map with `:id`, `:text` and
    /// `:created-at`, and `:session-id` where it is known; `None` where they cannot be read.
    fn notes(&self) -> Option<Vec<Value<'static>>>;
    /// Those of the notes that have all words of a text, the best first.
    fn search_notes(&self, text: &str) -> Vec<Value<'static>>;
    /// The tools that models may be offered, each a map with `:name`, `:description` and `:parameters`.
    fn tools(&self) -> Vec<Value<'static>>;
    /// The questions that wait for a person, oldest first. Never a secret.
    fn questions(&self) -> Vec<QuestionFacts>;
    /// The stages of a turn, in order.
    fn stages(&self) -> Vec<&'static str>;
    /// The hooks that the query's session works with, in order: maps with `:id`, `:stage`, `:point`, `:kind`,
    /// `:command`, `:timeout-ms` and, where it is for some tools alone, `:tools`.
    fn hooks(&self) -> Vec<Value<'static>>;
    /// How sessions are written.
    fn store(&self) -> StoreFacts;
    /// The workflows that the query's session can run, and those that cannot be used, by their names: each a
    /// map of `:psi.workflow/*`.
    fn workflows(&self) -> Vec<Value<'static>>;
    /// The newest records of how questions ended, oldest first, as the audit file has them. Reads the disk.
    fn audit(&self, limit: usize) -> Vec<Value<'static>>;
    /// What can be told of a provider of this process: `:api`, `:base-url` and `:key-from`, those that it has.
    /// Never a secret. May read the disk.
    fn provider(&self, name: &str) -> Option<Map<'static>>;
}

/// What is walked along without being copied first: from the oldest, or with `rev` from the newest.
pub type Walk<'a, T> = Box<dyn DoubleEndedIterator<Item = T> + 'a>;

/// A live session at one moment.
pub trait SessionView: Send + Sync {
    /// The session's id.
    fn id(&self) -> &SessionId;
    /// One fact. Facts that are known not to exist are nil.
    fn fact(&self, fact: SessionFact) -> Value<'static>;
    /// The parts of the system prompt, in order, each a map of `:psi.prompt-part/*`.
    fn prompt_parts(&self) -> Vec<Value<'static>>;
    /// The skills that were found for the session's folder, each a map of `:psi.skill/*`. May read the disk.
    fn skills(&self) -> Vec<Value<'static>>;
    /// The names of the slash commands that the session has beside the program's own, without the slash. May
    /// read the disk.
    fn added_commands(&self) -> Vec<String>;
    /// What was found there and cannot be used, each a map with `:path` and `:message`. May read the disk.
    fn context_problems(&self) -> Vec<Value<'static>>;
    /// The messages on the current branch, oldest first.
    fn messages(&self) -> Walk<'_, &Arc<Message>>;
    /// The entries on the current branch, oldest first.
    fn entries(&self) -> Walk<'_, EntryView>;
    /// The messages that wait for the running turn, or for its end, oldest first.
    fn queue(&self) -> Vec<QueuedView>;
    /// The boundary that the last turn passed last; `None` before the first.
    fn stage(&self) -> Option<Arc<StagePassed>>;
    /// What tools may do without asking and what never, in order, each a map of `:psi.rule/*`.
    fn rules(&self) -> Vec<Value<'static>>;
    /// What frontends show beside the conversation.
    fn shown(&self) -> Shown;
    /// Counts, tokens, cost, times and bytes, as `get_session_stats` has them. Reads the disk.
    fn stats(&self) -> Map<'static>;
}

/// What frontends show beside the conversation, each as its event lists it.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The widgets with their content.
    pub widgets: Arc<[Widget]>,
    /// Which widgets there are.
    pub widget_specs: Arc<[WidgetSpec]>,
    /// The status texts.
    pub statuses: Arc<[StatusText]>,
}

/// A message that waits.
#[derive(Debug, Clone)]
pub struct QueuedView {
    /// The entry that holds it.
    pub entry: EntryId,
    /// What it waits for: `steer` the next model call, `follow-up` the end of the turn.
    pub until: &'static str,
    /// What it says.
    pub text: String,
    /// The turn that it will start, for one that waits for the end.
    pub turn: Option<TurnId>,
}

/// A question that waits for a person.
#[derive(Debug, Clone)]
pub struct QuestionFacts {
    /// Its id.
    pub id: String,
    /// Its kind, such as `approve`.
    pub kind: &'static str,
    /// The session that waits.
    pub session: SessionId,
    /// Where that works for another: the other one, and its own name there.
    pub child_of: Option<(SessionId, Arc<str>)>,
    /// The turn that waits.
    pub turn: Option<TurnId>,
    /// What threads events and audit together.
    pub correlation: String,
    /// When it was asked, RFC 3339 in UTC.
    pub asked_at: String,
    /// What it carries; nothing for questions about credentials.
    pub payload: Option<Map<'static>>,
    /// How many connections can answer it.
    pub shown_to: usize,
}

/// How sessions are written.
#[derive(Debug, Clone, Default)]
pub struct StoreFacts {
    /// The folder of all sessions.
    pub root: String,
    /// When an append is acknowledged: `full` or `relaxed`.
    pub durability: &'static str,
    /// Appends that were acknowledged.
    pub appends: u64,
    /// Appends that failed.
    pub failures: u64,
    /// Bytes that were acknowledged.
    pub bytes: u64,
    /// How often a file was synced.
    pub syncs: u64,
    /// How long that took together, in microseconds.
    pub sync_micros: u64,
    /// How long the slowest one took, in microseconds.
    pub slowest_sync_micros: u64,
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
    pub kind: Text<'static>,
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
    /// Who is at its other end.
    pub peer: crate::session::Peer,
    /// Whether the query came from it.
    pub asks: bool,
}

/// One value of the configuration.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its name.
    pub key: Arc<str>,
    /// What it is.
    pub value: Value<'static>,
    /// Where the value came from.
    pub source: Arc<str>,
}

/// A reading of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// 1 for the one at the start of the process, then counted.
    pub revision: u64,
    /// When it was, RFC 3339 in UTC.
    pub read_at: String,
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
    /// Events that were handed to connections.
    pub events: u64,
    /// Tasks that live.
    pub tasks: usize,
}
