//! The engine's view of the process: a snapshot of plain facts.
//!
//! The runtime implements these traits from its snapshots. A world gives the same answers for its whole life,
//! so that a query reads one consistent state. Nothing here waits for a turn.

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
    /// The query's session.
    fn focus(&self) -> &SessionId;
    /// A live session.
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>>;
    /// All live sessions, oldest first.
    fn live(&self) -> Vec<Arc<dyn SessionView>>;
    /// The sessions of the project, or of all projects, newest first, live ones included. Reads the disk.
    ///
    /// # Errors
    /// If the list would be incomplete.
    fn list(&self, all: bool, limit: usize) -> Result<Vec<SessionInfo>, Failure>;
    /// The models of the catalogue, each with the keys of `get_available_models`.
    fn models(&self) -> Vec<Value<'static>>;
    /// The names of the providers that need no further login.
    fn providers(&self) -> Vec<String>;
    /// The connections, oldest first.
    fn connections(&self) -> Vec<ConnectionFacts>;
    /// The configuration in force, without secrets.
    fn settings(&self) -> Vec<Setting>;
    /// The newest reading of the configuration.
    fn reading(&self) -> Reading;
    /// The process itself.
    fn process(&self) -> ProcessFacts;
    /// Counts of the wire's answers.
    fn counts(&self) -> Counts;
    /// The background jobs of a live session, newest first, each with the keys of
    /// `inspect_background_job`.
    fn jobs(&self, session: &SessionId) -> Vec<Arc<JobFacts>>;
    /// The notes that `/remember` keeps for the project, newest first, each a map with `:id`, `:text`,
    /// `:created-at` and (if known) `:session-id`; `None` if they cannot be read.
    fn notes(&self) -> Option<Vec<Value<'static>>>;
    /// The notes that contain all words of a text, best first.
    fn search_notes(&self, text: &str) -> Vec<Value<'static>>;
    /// The tools for models, each a map with `:name`, `:description` and `:parameters`.
    fn tools(&self) -> Vec<Value<'static>>;
    /// The open questions to people, oldest first, without secrets.
    fn questions(&self) -> Vec<QuestionFacts>;
    /// The stages of a turn, in order.
    fn stages(&self) -> Vec<&'static str>;
    /// The hooks of the query's session, in order: maps with `:id`, `:stage`, `:point`, `:kind`, `:command`,
    /// `:timeout-ms` and, if limited to some tools, `:tools`.
    fn hooks(&self) -> Vec<Value<'static>>;
    /// How sessions are written.
    fn store(&self) -> StoreFacts;
    /// The usable workflows of the query's session and the unusable ones, by name, each a map of
    /// `:psi.workflow/*`.
    fn workflows(&self) -> Vec<Value<'static>>;
    /// The newest audit records of ended questions, oldest first, with the keys of the audit file. Reads the
    /// disk.
    fn audit(&self, limit: usize) -> Vec<Value<'static>>;
    /// The facts about a provider of this process: `:api`, `:base-url` and `:key-from`, as far as it has
    /// them. Without secrets. May read the disk.
    fn provider(&self, name: &str) -> Option<Map<'static>>;
}

/// An iterator without a copy: oldest first, or newest first with `rev`.
pub type Walk<'a, T> = Box<dyn DoubleEndedIterator<Item = T> + 'a>;

/// A live session at one moment.
pub trait SessionView: Send + Sync {
    /// The session's id.
    fn id(&self) -> &SessionId;
    /// One fact; nil if it does not exist.
    fn fact(&self, fact: SessionFact) -> Value<'static>;
    /// The parts of the system prompt, in order, each a map of `:psi.prompt-part/*`.
    fn prompt_parts(&self) -> Vec<Value<'static>>;
    /// The skills for the session's folder, each a map of `:psi.skill/*`. May read the disk.
    fn skills(&self) -> Vec<Value<'static>>;
    /// The names of the session's slash commands in addition to the program's own, without the slash. May
    /// read the disk.
    fn added_commands(&self) -> Vec<String>;
    /// The unusable files for the session's folder, each a map with `:path` and `:message`. May read the
    /// disk.
    fn context_problems(&self) -> Vec<Value<'static>>;
    /// The messages on the current branch, oldest first.
    fn messages(&self) -> Walk<'_, &Arc<Message>>;
    /// The entries on the current branch, oldest first.
    fn entries(&self) -> Walk<'_, EntryView>;
    /// The messages that wait for the running turn or for its end, oldest first.
    fn queue(&self) -> Vec<QueuedView>;
    /// The latest boundary of the latest turn; `None` before the first.
    fn stage(&self) -> Option<Arc<StagePassed>>;
    /// The permission rules, in order, each a map of `:psi.rule/*`.
    fn rules(&self) -> Vec<Value<'static>>;
    /// The content of frontends apart from the conversation.
    fn shown(&self) -> Shown;
    /// Counts, tokens, cost, times and bytes, with the keys of `get_session_stats`. Reads the disk.
    fn stats(&self) -> Map<'static>;
}

/// The content of frontends apart from the conversation, each with the keys of its event.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// The widgets with their content.
    pub widgets: Arc<[Widget]>,
    /// The definitions of the widgets.
    pub widget_specs: Arc<[WidgetSpec]>,
    /// The status texts.
    pub statuses: Arc<[StatusText]>,
}

/// A waiting message.
#[derive(Debug, Clone)]
pub struct QueuedView {
    /// Its journal entry.
    pub entry: EntryId,
    /// What it waits for: `steer` for the next model call, `follow-up` for the end of the turn.
    pub until: &'static str,
    /// Its text.
    pub text: String,
    /// The turn that it will start, if it waits for the end of one.
    pub turn: Option<TurnId>,
}

/// An open question to a person.
#[derive(Debug, Clone)]
pub struct QuestionFacts {
    /// Its id.
    pub id: String,
    /// Its kind, such as `approve`.
    pub kind: &'static str,
    /// The waiting session.
    pub session: SessionId,
    /// For a subagent: the session that it works for, and its own name there.
    pub child_of: Option<(SessionId, Arc<str>)>,
    /// The waiting turn.
    pub turn: Option<TurnId>,
    /// The id that links its events and its audit record.
    pub correlation: String,
    /// When it was asked, RFC 3339 in UTC.
    pub asked_at: String,
    /// Its content; `None` for questions about credentials.
    pub payload: Option<Map<'static>>,
    /// The number of connections that can answer it.
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
    /// Number of syncs.
    pub syncs: u64,
    /// Total time of all syncs, in microseconds.
    pub sync_micros: u64,
    /// Time of the slowest sync, in microseconds.
    pub slowest_sync_micros: u64,
}

/// One journal entry.
#[derive(Debug, Clone)]
pub struct EntryView {
    /// Its id.
    pub id: EntryId,
    /// The preceding entry.
    pub parent: Option<EntryId>,
    /// When it was written, RFC 3339 in UTC.
    pub ts: Arc<str>,
    /// Its kind: `message`, `name`, `model`, `setting` …
    pub kind: Text<'static>,
    /// The message, if it is one.
    pub message: Option<Arc<Message>>,
    /// Its other data.
    pub data: Map<'static>,
}

/// A session in a list.
#[derive(Debug, Clone, Default)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Its journal's path, once it exists.
    pub path: Option<String>,
    /// The name from the person.
    pub name: Option<String>,
    /// Its working folder.
    pub worktree_path: String,
    /// The start of the first message.
    pub first_message: Option<String>,
    /// The time of the last write, RFC 3339 in UTC.
    pub modified: Option<String>,
    /// Messages on its branch; `None` if only reading the whole file would tell.
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
    /// Its focused session.
    pub session: Option<SessionId>,
    /// Whether it answers typed questions.
    pub interactor: bool,
    /// Its subscribed topics.
    pub topics: Vec<&'static str>,
    /// The state of its outbox.
    pub standing: crate::session::Standing,
    /// Its client.
    pub peer: crate::session::Peer,
    /// Whether it sent the query.
    pub asks: bool,
}

/// One value of the configuration.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its name.
    pub key: Arc<str>,
    /// Its value.
    pub value: Value<'static>,
    /// The source of the value.
    pub source: Arc<str>,
}

/// A reading of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// 1 for the reading at the start of the process, then counted up.
    pub revision: u64,
    /// The time of the reading, RFC 3339 in UTC.
    pub read_at: String,
}

/// The process.
#[derive(Debug, Clone, Default)]
pub struct ProcessFacts {
    /// Its id.
    pub pid: u32,
    /// When it was started, RFC 3339 in UTC.
    pub started_at: String,
    /// Its run time, in milliseconds.
    pub uptime_ms: i64,
    /// The time now, RFC 3339 in UTC.
    pub now: String,
    /// Events that went to connections.
    pub events: u64,
    /// Live tasks.
    pub tasks: usize,
}
