//! What a query sees of the process: a snapshot of plain facts.
//!
//! The engine implements these traits from its snapshots. A world gives the same answers for its whole life,
//! so that a query reads one consistent state. Nothing here waits for a turn.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Project;
use crate::event::question::{QuestionContent, QuestionKind};
use crate::event::{StagePassed, StatusText, Subagent, Widget, WidgetSpec};
use crate::facts::agent::ListedAgent;
use crate::facts::mcp::McpServer;
use crate::facts::{
    AtWork, HostFacts, JobFacts, ModelFacts, ProviderFacts, SessionFacts, SessionStats, Slot,
};
use crate::hook::Hook;
use crate::memory::Note;
use crate::message::{EntryId, Message, SessionId, TurnId};
use crate::provider::ToolSpec;
use crate::session::control::{Capabilities, ControlResult};
use crate::session::{Counts, Peer, Standing};
use crate::store::Entry;
use crate::tool::permission::Rule;
use crate::value::{Map, Value};
use crate::workflow::Workflow;

/// Why a resolver failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ResolverFailure {
    /// The cause, and what to do about it.
    pub message: String,
}

impl ResolverFailure {
    /// A failure with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

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
    fn list(&self, all: bool, limit: usize) -> Result<Vec<SessionRow>, ResolverFailure>;
    /// The models of the catalogue.
    fn models(&self) -> Vec<ModelFacts>;
    /// The names of the providers that need no further login.
    fn providers(&self) -> Vec<String>;
    /// The facts about a provider of this process. May read the disk.
    fn provider(&self, name: &str) -> Option<ProviderFacts>;
    /// The connections, oldest first.
    fn connections(&self) -> Vec<ConnectionFacts>;
    /// The configuration in force, without secrets.
    fn settings(&self) -> Vec<Setting>;
    /// The newest reading of the configuration.
    fn reading(&self) -> Reading;
    /// The process itself.
    fn process(&self) -> ProcessFacts;
    /// The sessions that work or wait for an answer, in every project that the process has.
    fn at_work(&self) -> Vec<AtWork>;

    /// This host's name in its realm.
    fn realm_host(&self) -> Option<Arc<str>>;

    /// For how long the realm's engine has been away; `None` while it is there, and where this host is in no realm.
    fn realm_away(&self) -> Option<Duration>;

    /// The sessions of the realm, the last changed first.
    fn realm_sessions(&self) -> Vec<Slot>;

    /// The hosts of the realm, by name; empty if this host is in none. Asks the realm's engine, and waits for it.
    ///
    /// # Errors
    /// If the engine does not answer.
    fn realm_hosts(&self) -> Result<Vec<HostFacts>, ResolverFailure>;

    /// Facts about control.
    fn control(&self) -> ControlFacts;
    /// Counts of the wire's answers.
    fn counts(&self) -> Counts;
    /// The background jobs of a live session, newest first.
    fn jobs(&self, session: &SessionId) -> Vec<Arc<JobFacts>>;
    /// The notes that `/remember` keeps for the project, oldest first; `None` if they cannot be read.
    fn notes(&self) -> Option<Arc<Vec<Note>>>;
    /// The notes that contain all words of a text, best first.
    fn search_notes(&self, text: &str) -> Vec<Note>;
    /// The tools of the query's session, as its model sees them.
    fn tools(&self) -> Vec<ToolSpec>;
    /// The MCP servers of the query's session, by name.
    fn mcp_servers(&self) -> Vec<McpServer>;
    /// The external agents that can answer turns in the folder of the query's session, by name.
    fn agents(&self) -> Vec<ListedAgent>;
    /// The open questions to people, oldest first, without secrets.
    fn questions(&self) -> Vec<QuestionFacts>;
    /// The hooks of the query's session, in order.
    fn hooks(&self) -> Vec<Hook>;
    /// How sessions are written.
    fn store(&self) -> StoreFacts;
    /// The workflows of the query's session by name, or why they cannot be used.
    fn workflows(&self) -> Vec<(String, Result<Arc<Workflow>, String>)>;
    /// The newest audit records of ended questions, oldest first, with the keys of the audit file. Reads the
    /// disk.
    fn audit(&self, limit: usize) -> Vec<Map<'static>>;
}

/// An iterator without a copy: oldest first, or newest first with `rev`.
pub type Walk<'a, T> = Box<dyn DoubleEndedIterator<Item = T> + 'a>;

/// A live session at one moment.
pub trait SessionView: Send + Sync {
    /// Its facts.
    fn facts(&self) -> &SessionFacts;
    /// The session's id.
    fn id(&self) -> &SessionId {
        &self.facts().id
    }
    /// The number of entries in its journal.
    fn offset(&self) -> u64;
    /// The revision of its configuration.
    fn config_revision(&self) -> u64;
    /// The names of the providers that need no further login.
    fn providers(&self) -> Vec<String>;
    /// For a subagent: its own name in questions, and the tools that were granted to it.
    fn subagent(&self) -> Option<(Arc<str>, Vec<String>)>;
    /// The number of sessions above a subagent; 0 for a session of the person.
    fn depth(&self) -> u32;
    /// The parts of the system prompt, in order.
    fn prompt_parts(&self) -> Vec<PromptPart>;
    /// The system prompt.
    fn system_prompt(&self) -> String;
    /// The skills, templates and unusable files for the session's folder. May read the disk.
    fn project(&self) -> Arc<Project>;
    /// The names of the session's slash commands in addition to the program's own, without the slash. May
    /// read the disk.
    fn added_commands(&self) -> Vec<String>;
    /// The messages on the current branch, oldest first.
    fn messages(&self) -> Walk<'_, &Arc<Message>>;
    /// The entries on the current branch, oldest first.
    fn entries(&self) -> Walk<'_, &Arc<Entry>>;
    /// The messages queued for the running turn or for its end, oldest first.
    fn queue(&self) -> Vec<QueuedView>;
    /// The latest boundary of the latest turn; `None` before the first.
    fn stage(&self) -> Option<Arc<StagePassed>>;
    /// The permission rules, in order, each with its source: `configured` or `answered`.
    fn rules(&self) -> Vec<(Rule, &'static str)>;
    /// The content of frontends apart from the conversation.
    fn shown(&self) -> Shown;
    /// Counts, tokens, cost, times and bytes. Reads the disk.
    fn stats(&self) -> SessionStats;
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

/// A part of a system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPart {
    /// Its kind: `base`, `tools`, `instructions`, `skills`, `memory`, `servers` or `option`.
    pub kind: &'static str,
    /// Its source: a file's path, `edn-bridge`, `mcp:` and the name of an MCP server, or the command's option.
    pub source: String,
    /// Its text.
    pub text: String,
    /// Whether it was cut for lack of room.
    pub cut: bool,
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
    /// Its kind.
    pub kind: QuestionKind,
    /// The waiting session.
    pub session: SessionId,
    /// The subagent that asks.
    pub subagent: Option<Subagent>,
    /// The waiting turn.
    pub turn: Option<TurnId>,
    /// The id that links its events and its audit record.
    pub correlation: String,
    /// When it was asked, RFC 3339 in UTC.
    pub asked_at: String,
    /// Its content, and the risks in its texts; `None` for questions about credentials.
    pub content: Option<(Arc<QuestionContent>, Arc<[String]>)>,
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

/// A session in a list.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// Where its journal is, once there is an entry.
    pub location: Option<String>,
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
#[derive(Debug, Clone)]
pub struct ConnectionFacts {
    /// Its number in the process.
    pub id: u64,
    /// Its focused session.
    pub session: SessionId,
    /// Whether it answers typed questions.
    pub interactor: bool,
    /// Its subscribed topics.
    pub topics: Vec<&'static str>,
    /// The state of its outbox.
    pub standing: Standing,
    /// Its client.
    pub peer: Peer,
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

/// Facts about control.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlFacts {
    /// The teams.
    pub teams: Vec<TeamFacts>,
    /// The bounds of requests.
    pub limits: Capabilities,
    /// How many requests got which result.
    pub requests: Vec<(ControlResult, u64)>,
}

/// A team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamFacts {
    /// Its name.
    pub name: String,
    /// Its folders.
    pub folders: Vec<String>,
    /// Its members: a name, and what it may do.
    pub members: Vec<(String, Vec<String>)>,
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
    /// Whether what runs goes on when the last client has left.
    pub outlives_clients: bool,
}
