//! What every frontend may ask of the runtime: the [`SessionApi`] trait and its plain types.
//!
//! This is the only place where the wire and the runtime meet. It knows values, messages, events and
//! error codes; it knows neither text nor frames, and not how a session lives.
//!
//! Calls do not return their result, they complete a [`Reply`]. An answer that is at hand is given
//! before the call returns; one that has to wait (for a disk, for a turn's end) is given later by
//! whoever has it, without a task in between. So an answer always stands before the events that it
//! causes, and a request that needs no waiting costs no hand-over.

mod tally;

use std::sync::Arc;

use crate::catalogue::{ErrorCode, Topic};
use crate::event::{Cause, ChoiceKind, Event, Pick};
use crate::facts::{JobFacts, ListedSession, SessionFacts};
use crate::message::{EntryId, Message, Mode, SessionId, ThinkingLevel, TurnId};
use crate::value::{Map, Value};

pub use tally::{Counts, OpCounts, Tally};

/// Why the runtime refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The code on the wire.
    pub code: ErrorCode,
    /// What happened and what to do, for a person.
    pub message: String,
    /// Further facts for a program: the `:data` of the error.
    pub data: Option<Map<'static>>,
    /// Whether the same request may succeed later; by default as the code says.
    pub retryable: bool,
}

impl ApiError {
    /// An error without further facts.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, retryable: code.retryable() }
    }

    /// `runtime/failed`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// `request/not-found`: there is no `what` of that name.
    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("There is no {what} {name:?}."))
    }

    /// `request/invalid-params` for one key.
    pub fn invalid_param(key: &str, expected: &str) -> Self {
        let mut error = Self::new(ErrorCode::InvalidParams, format!(":{key} must be {expected}."));
        let mut data = Map::new();
        data.put("key", format!(":{key}"));
        data.put("expected", expected.to_owned());
        error.data = Some(data);
        error
    }

    /// Adds a fact to the error's `:data`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<Value<'static>>) -> Self {
        self.data.get_or_insert_with(Map::new).put(key, value);
        self
    }
}

/// The place that waits for an answer. Answered once; dropped unanswered, it answers that the runtime
/// failed, so that no request is ever left without an end.
pub struct Reply<T>(Option<Answer<T>>);

type Answer<T> = Box<dyn FnOnce(Result<T, ApiError>) + Send>;

impl<T> Reply<T> {
    /// A reply that calls `answer`.
    pub fn new(answer: impl FnOnce(Result<T, ApiError>) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// Answers.
    pub fn send(mut self, result: Result<T, ApiError>) {
        if let Some(answer) = self.0.take() {
            answer(result);
        }
    }

    /// Answers with a success.
    pub fn ok(self, value: T) {
        self.send(Ok(value));
    }

    /// Answers with a failure.
    pub fn fail(self, error: ApiError) {
        self.send(Err(error));
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Err(ApiError::failed("The session ended before it answered.")));
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply")
    }
}

/// Who calls, and for which session.
#[derive(Debug, Clone)]
pub struct Call {
    /// The connection.
    pub connection: u64,
    /// The request's `:id`.
    pub request: Arc<str>,
    /// The session that is meant: the one named, else the connection's focus.
    pub session: SessionId,
}

impl Call {
    /// The call as the cause of events.
    pub fn cause(&self) -> Cause {
        Cause { connection: self.connection, request: self.request.clone() }
    }
}

/// What a delivery says of the client's speed.
#[derive(Debug, Clone)]
pub enum Pressure {
    /// There is room.
    Fine,
    /// What must not be dropped fills the client's outbox: wait until this is false before the next.
    Full(tokio::sync::watch::Receiver<bool>),
}

/// How a connection stands, for the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Requests that are not answered yet.
    pub pending: usize,
    /// Events that wait for the client, not yet encoded.
    pub waiting: usize,
    /// Bytes that wait for the client, encoded or not.
    pub bytes: usize,
    /// The number of the last event that was encoded for it.
    pub seq: u64,
}

/// Who is at the other end of a connection, for the graph.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// What carries its bytes: `stdio`, `socket` or `memory`; empty for a client without a connection.
    pub transport: &'static str,
    /// When it came, RFC 3339 in UTC.
    pub since: Arc<str>,
    /// What its last handshake came to; `None` before the first.
    pub agreed: Option<Arc<Agreed>>,
}

/// What a handshake came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// What the client calls itself.
    pub name: Box<str>,
    /// Its version, as it says.
    pub version: Box<str>,
    /// The version of the protocol that both speak.
    pub protocol_version: Box<str>,
    /// The features that both have, in the order of the catalogue.
    pub features: Vec<&'static str>,
}

/// A connected frontend, as the runtime sees it.
pub trait Client: Send + Sync {
    /// Whether an event of the topic and session would be sent: subscribed, and the focus or a topic
    /// that is sent for every session.
    fn wants(&self, topic: Topic, session: Option<&SessionId>) -> bool;

    /// Hands over an event. Never blocks. An event that is not wanted is ignored.
    fn deliver(&self, event: &Event) -> Pressure;

    /// Nobody waits any longer for this client, which is full: what it is not sent it has to be shown
    /// anew, by [`SessionApi::catch_up`], when it has room again.
    fn fall_behind(&self);

    /// Whether it has fallen behind, and is not sent every event that it wants.
    fn is_behind(&self) -> bool;

    /// Moves the connection's focus.
    fn focus(&self, session: SessionId);

    /// The connection's focus.
    fn focused(&self) -> SessionId;

    /// Whether the connection answers typed questions.
    fn is_interactor(&self) -> bool;

    /// Whether it answers them as plain dialogs only.
    fn dialogs_only(&self) -> bool {
        false
    }

    /// Asks the connection to end, after what is queued was sent.
    fn close(&self);

    /// How the connection stands; nothing for a client without an outbox.
    fn standing(&self) -> Standing {
        Standing::default()
    }

    /// Who is at the other end.
    fn peer(&self) -> Peer {
        Peer::default()
    }
}

/// An opened session.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
    /// Its journal's path.
    pub file: Option<String>,
}

/// A user's message.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The text.
    pub message: String,
    /// Images: MIME type and base64 data.
    pub images: Vec<(Arc<str>, Arc<str>)>,
    /// The same key again answers as the first time and does nothing.
    pub idempotency_key: Option<String>,
}

/// An accepted message.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// The turn that it started or joined; `None` for one that waits for a turn of its own.
    pub turn: Option<TurnId>,
}

/// A part of a session's messages.
#[derive(Debug, Clone)]
pub struct Page {
    /// Oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Whether there are older ones.
    pub more: bool,
}

/// An EQL query.
#[derive(Debug, Clone)]
pub struct Query {
    /// The query as text: one EDN vector.
    pub text: String,
    /// What is known at the start: one EDN map as text.
    pub entity: Option<String>,
    /// Whether an attribute that cannot be resolved fails the query.
    pub strict: bool,
}

/// A query's answer.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// What could be resolved.
    pub result: Value<'static>,
    /// Attributes that could not.
    pub missing: Vec<Value<'static>>,
    /// Attributes whose resolver failed, with why.
    pub errors: Option<Map<'static>>,
}

/// A part of an output that was kept.
#[derive(Debug, Clone)]
pub struct OutputPart {
    /// The text from the offset on.
    pub text: String,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// The whole output's size in bytes.
    pub size: u64,
}

/// Which sessions a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those of the session's folder.
    #[default]
    Project,
    /// All.
    All,
}

/// Where a choice holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// In this session.
    #[default]
    Session,
    /// In the project's new sessions too.
    Project,
    /// In all the user's new sessions.
    User,
}

/// What the runtime serves. One implementation lives in `runtime`; tests have others.
///
/// Every method names the session by [`Call::session`]; one that is not there is answered with
/// `request/not-found`.
pub trait SessionApi: Send + Sync {
    /// Adds a connection and says which session it starts with.
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId;

    /// Removes a connection. When it was the last one, running turns end, and the reply comes when all
    /// that they did is on disk.
    fn detach(&self, connection: u64, reply: Reply<()>);

    /// Where the wire counts what it answers, whichever connection it was, for the graph.
    fn tally(&self) -> Arc<Tally>;

    /// Whether there is a live session of that id.
    fn has_session(&self, session: &SessionId) -> bool;

    /// The facts of a handshake: session, model, thinking level.
    fn server_info(&self, session: &SessionId) -> Map<'static>;

    /// The snapshot that a subscription of a connection to a topic begins with, as what `cause` asked for.
    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        topic: Topic,
        cause: Option<Cause>,
    ) -> Option<Event>;

    /// Shows a connection that was not sent all events which session it looks at, and the newest part of its
    /// history. What happens from then on is sent after it.
    fn catch_up(&self, connection: u64);

    /// The session's state.
    fn state(&self, call: Call, reply: Reply<Arc<SessionFacts>>);
    /// Messages before an entry, or the newest, at most `limit` of them.
    fn messages(&self, call: Call, before: Option<EntryId>, limit: Option<usize>, reply: Reply<Page>);
    /// Counts, tokens, cost and sizes.
    fn stats(&self, call: Call, reply: Reply<Map<'static>>);
    /// The user's messages.
    fn fork_messages(&self, call: Call, reply: Reply<Vec<Arc<Message>>>);
    /// The text of the model's last message.
    fn last_assistant_text(&self, call: Call, reply: Reply<Option<String>>);
    /// The models of the catalogue.
    fn models(&self, call: Call, reply: Reply<Vec<Value<'static>>>);
    /// The slash commands with `:name`, `:usage`, `:description` and `:source`: the program's own, the prompt
    /// templates and the skills.
    fn commands(&self, call: Call, reply: Reply<Vec<Value<'static>>>);
    /// Sessions, live and on disk, newest first; with a text those with all of its words, the best first, each
    /// with an excerpt.
    fn list_sessions(
        &self,
        call: Call,
        text: Option<String>,
        limit: Option<usize>,
        scope: Scope,
        reply: Reply<Vec<ListedSession>>,
    );
    /// A query of the graph.
    fn query(&self, call: Call, query: Query, reply: Reply<QueryAnswer>);
    /// A part of a kept output.
    fn read_output(&self, call: Call, handle: String, offset: u64, limit: usize, reply: Reply<OutputPart>);

    /// Starts a turn.
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Adds to the running turn, or starts one.
    fn steer(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Queues for after the running turn, or starts one.
    fn follow_up(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Ends the running turn at once.
    fn abort(&self, call: Call, reply: Reply<()>);
    /// Ends the running turn after its tool call; answers whether it waits for one, and the steering
    /// text that is dropped.
    fn interrupt(&self, call: Call, reply: Reply<(bool, String)>);
    /// Gives up waiting for a retry.
    fn abort_retry(&self, call: Call, reply: Reply<()>);
    /// Summarises the older part of the conversation.
    fn compact(&self, call: Call, instructions: Option<String>, reply: Reply<Option<String>>);

    /// Opens a session.
    fn new_session(&self, call: Call, parent: Option<SessionId>, reply: Reply<Opened>);
    /// Moves the focus to a session that is live or on disk.
    fn switch_session(&self, call: Call, target: SwitchTarget, reply: Reply<Opened>);
    /// Opens a session with the history up to an entry.
    fn fork(&self, call: Call, entry: EntryId, reply: Reply<Opened>);

    /// Names the session.
    fn set_name(&self, call: Call, name: String, reply: Reply<String>);
    /// Chooses the model; answers provider and id.
    fn set_model(
        &self,
        call: Call,
        provider: String,
        model: String,
        reach: Reach,
        reply: Reply<(String, String)>,
    );
    /// Chooses the next or previous usable model.
    fn cycle_model(&self, call: Call, forward: bool, reply: Reply<(String, String)>);
    /// Chooses a thinking level, or with `None` the next one.
    fn set_thinking_level(&self, call: Call, level: Option<ThinkingLevel>, reply: Reply<ThinkingLevel>);
    /// Chooses what tools may do without asking.
    fn set_mode(&self, call: Call, mode: Mode, reply: Reply<Mode>);
    /// Turns automatic compaction on or off.
    fn set_auto_compaction(&self, call: Call, enabled: bool, reply: Reply<bool>);
    /// Turns automatic retries on or off.
    fn set_auto_retry(&self, call: Call, enabled: bool, reply: Reply<bool>);
    /// Trusts the project's configuration, or not.
    fn trust_project(&self, call: Call, trusted: bool, reply: Reply<bool>);

    /// Runs a slash command; its outcome comes as events.
    fn command(&self, call: Call, text: String, reply: Reply<()>);
    /// Answers a frontend action.
    fn action_result(&self, call: Call, result: ActionResult, reply: Reply<()>);
    /// Approves what a typed question asks for, this once, or refuses it, in the shape of its kind.
    fn decide(&self, call: Call, interaction: String, approve: bool, note: Option<String>, reply: Reply<()>);
    /// Answers a typed question.
    fn respond(&self, call: Call, response: Response, reply: Reply<()>);
    /// Answers the open dialog; `None` cancels it.
    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<Value<'static>>, reply: Reply<()>);

    /// Begins a login.
    fn login_begin(&self, call: Call, provider: Option<String>, reply: Reply<Map<'static>>);
    /// Completes the login that was begun.
    fn login_complete(&self, call: Call, input: Option<String>, reply: Reply<Map<'static>>);
    /// Forgets a provider's credentials.
    fn logout(&self, call: Call, provider: String, reply: Reply<bool>);

    /// Runs a command for the user.
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<Map<'static>>);
    /// Ends that command.
    fn abort_bash(&self, call: Call, reply: Reply<()>);
    /// The background jobs with one of the statuses, or all.
    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>);
    /// One background job.
    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);
    /// Ends a background job.
    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Keeps a note for the project's later sessions; answers the note when it is on disk.
    fn remember(&self, call: Call, text: String, reply: Reply<Map<'static>>);
    /// Removes a note; answers whether there was one of that id.
    fn forget(&self, call: Call, note: String, reply: Reply<bool>);

    /// Writes the session as a page; answers the path.
    fn export_html(&self, call: Call, path: Option<String>, reply: Reply<String>);
    /// Says what the person looks at.
    fn update_context(&self, call: Call, context: Map<'static>, reply: Reply<()>);
}

/// Which session to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchTarget {
    /// By id.
    Id(SessionId),
    /// By its journal's path.
    Path(String),
}

/// What a frontend did with an action.
#[derive(Debug, Clone)]
pub struct ActionResult {
    /// The action's request.
    pub request_id: String,
    /// What is chosen, by the action's name; `None` where there is no action of that name.
    pub kind: Option<ChoiceKind>,
    /// What became of it.
    pub status: ActionStatus,
    /// What was chosen; `None` where it is nothing that such an action offers.
    pub pick: Option<Pick>,
    /// Why it failed.
    pub error_message: Option<String>,
}

/// What became of a frontend action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionStatus {
    /// The person chose.
    Submitted,
    /// The person chose not to.
    Cancelled,
    /// The frontend could not show it.
    Failed,
}

/// An answer to a typed question.
#[derive(Debug, Clone)]
pub struct Response {
    /// The question.
    pub interaction_id: String,
    /// Whether it was answered, or cancelled.
    pub accepted: bool,
    /// The answer, in the shape of the question's kind.
    pub value: Option<Map<'static>>,
    /// A note to the model.
    pub note: Option<String>,
}
