//! The API of the runtime for every frontend: the [`SessionApi`] trait and its plain types.
//!
//! Only here the wire and the runtime meet. This module knows values, messages, events and error codes. It
//! knows neither text nor frames, nor how a session lives.
//!
//! A call does not return its result; it completes a [`Reply`]. If the answer is available, the reply is
//! completed before the call returns. If it has to wait (for a disk, for the end of a turn), the task that
//! has it completes the reply later, without another task in between. So an answer always precedes the events
//! that it causes, and a request without a wait costs no hand-over.

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
    /// The cause and what to do about it, for a person.
    pub message: String,
    /// Further facts for a program: the `:data` of the error.
    pub data: Option<Map<'static>>,
    /// Whether the same request may succeed later; the default comes from the code.
    pub retryable: bool,
}

impl ApiError {
    /// An error without `:data`.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, retryable: code.retryable() }
    }

    /// `runtime/failed`.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Failed, message)
    }

    /// `request/not-found`: there is no `what` with that name.
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

/// The pending answer to a call. It is completed once. If it is dropped, it answers that the runtime failed,
/// so that no request stays without an answer.
pub struct Reply<T>(Option<Answer<T>>);

type Answer<T> = Box<dyn FnOnce(Result<T, ApiError>) + Send>;

impl<T> Reply<T> {
    /// A reply that calls `answer`.
    pub fn new(answer: impl FnOnce(Result<T, ApiError>) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// Completes the reply.
    pub fn send(mut self, result: Result<T, ApiError>) {
        if let Some(answer) = self.0.take() {
            answer(result);
        }
    }

    /// Completes it with a success.
    pub fn ok(self, value: T) {
        self.send(Ok(value));
    }

    /// Completes it with a failure.
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

/// The caller of an op, and its session.
#[derive(Debug, Clone)]
pub struct Call {
    /// The connection.
    pub connection: u64,
    /// The request's `:id`.
    pub request: Arc<str>,
    /// The named session, or else the connection's focus.
    pub session: SessionId,
}

impl Call {
    /// The call as a cause of events.
    pub fn cause(&self) -> Cause {
        Cause { connection: self.connection, request: self.request.clone() }
    }
}

/// The state of a client's outbox after a delivery.
#[derive(Debug, Clone)]
pub enum Pressure {
    /// There is room.
    Fine,
    /// Lossless events fill the client's outbox: wait until this is false before the next.
    Full(tokio::sync::watch::Receiver<bool>),
}

/// The state of a connection, for the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Pending requests.
    pub pending: usize,
    /// Unencoded events that wait for the client.
    pub waiting: usize,
    /// Waiting bytes, encoded or not.
    pub bytes: usize,
    /// The number of the last encoded event.
    pub seq: u64,
}

/// The client of a connection, for the graph.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its transport: `stdio`, `socket` or `memory`; empty for a client without a connection.
    pub transport: &'static str,
    /// When it connected, RFC 3339 in UTC.
    pub since: Arc<str>,
    /// The agreement of its latest handshake; `None` before the first.
    pub agreed: Option<Arc<Agreed>>,
}

/// The agreement of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The client's name for itself.
    pub name: Box<str>,
    /// Its version, as it reported it.
    pub version: Box<str>,
    /// The common version of the protocol.
    pub protocol_version: Box<str>,
    /// The common features, in the order of the catalogue.
    pub features: Vec<&'static str>,
}

/// A connected frontend, as the runtime sees it.
pub trait Client: Send + Sync {
    /// Whether the client receives events of the topic and session: it is subscribed, and the session is its
    /// focus or the topic is for every session.
    fn wants(&self, topic: Topic, session: Option<&SessionId>) -> bool;

    /// Passes on an event. Never blocks. Ignores an event that the client does not want.
    fn deliver(&self, event: &Event) -> Pressure;

    /// Stops blocking producers on this client, whose outbox is full. [`SessionApi::catch_up`] shows it later
    /// what it misses.
    fn fall_behind(&self);

    /// Whether it has fallen behind, so that events are skipped for it.
    fn is_behind(&self) -> bool;

    /// Moves the connection's focus.
    fn focus(&self, session: SessionId);

    /// The connection's focus.
    fn focused(&self) -> SessionId;

    /// Whether the connection answers typed questions.
    fn is_interactor(&self) -> bool;

    /// Whether it supports only plain dialogs for them.
    fn dialogs_only(&self) -> bool {
        false
    }

    /// Asks the connection to end after the queued frames.
    fn close(&self);

    /// The state of the connection; empty for a client without an outbox.
    fn standing(&self) -> Standing {
        Standing::default()
    }

    /// The client of the connection.
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
    /// A repeated key gets the first answer again and has no further effect.
    pub idempotency_key: Option<String>,
}

/// An accepted message.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// The turn that it started or joined; `None` if it waits for a turn of its own.
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
    /// The initially known attributes: one EDN map as text.
    pub entity: Option<String>,
    /// Whether an attribute that cannot be resolved fails the query.
    pub strict: bool,
}

/// A query's answer.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// The resolved attributes.
    pub result: Value<'static>,
    /// The attributes that could not be resolved.
    pub missing: Vec<Value<'static>>,
    /// The attributes whose resolver failed, with the reasons.
    pub errors: Option<Map<'static>>,
}

/// A part of a stored output.
#[derive(Debug, Clone)]
pub struct OutputPart {
    /// The text from the offset.
    pub text: String,
    /// Its start, in bytes.
    pub offset: u64,
    /// The whole output's size in bytes.
    pub size: u64,
}

/// The sessions of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Those of the session's folder.
    #[default]
    Project,
    /// All.
    All,
}

/// The scope of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// This session.
    #[default]
    Session,
    /// Also the project's new sessions.
    Project,
    /// All new sessions of the user.
    User,
}

/// The operations of the runtime. `runtime` implements them; tests have other implementations.
///
/// [`Call::session`] names the session of every method. If there is no such session, the answer is
/// `request/not-found`.
pub trait SessionApi: Send + Sync {
    /// Adds a connection and returns its first session.
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId;

    /// Removes a connection. After the last one, running turns end, and the reply is completed once
    /// everything is on disk.
    fn detach(&self, connection: u64, reply: Reply<()>);

    /// The counters of the wire's answers on all connections, for the graph.
    fn tally(&self) -> Arc<Tally>;

    /// Whether there is a live session with that id.
    fn has_session(&self, session: &SessionId) -> bool;

    /// The facts of a handshake: session, model, thinking level.
    fn server_info(&self, session: &SessionId) -> Map<'static>;

    /// The snapshot for a new subscription of a connection to a topic, caused by `cause`.
    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        topic: Topic,
        cause: Option<Cause>,
    ) -> Option<Event>;

    /// Shows a connection that missed events its session and the newest part of its history. Later events
    /// follow.
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
    /// Sessions, live and on disk, newest first. With a text, the sessions with all of its words, best first,
    /// each with an excerpt.
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
    /// A part of a stored output.
    fn read_output(&self, call: Call, handle: String, offset: u64, limit: usize, reply: Reply<OutputPart>);

    /// Starts a turn.
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Adds to the running turn, or starts one.
    fn steer(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Queues until the running turn has ended, or starts one.
    fn follow_up(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);
    /// Ends the running turn at once.
    fn abort(&self, call: Call, reply: Reply<()>);
    /// Ends the running turn after its tool call. Returns whether it waits for one, and the dropped steering
    /// text.
    fn interrupt(&self, call: Call, reply: Reply<(bool, String)>);
    /// Cancels the wait for a retry.
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
    /// Sets the model; returns provider and id.
    fn set_model(
        &self,
        call: Call,
        provider: String,
        model: String,
        reach: Reach,
        reply: Reply<(String, String)>,
    );
    /// Switches to the next or previous usable model.
    fn cycle_model(&self, call: Call, forward: bool, reply: Reply<(String, String)>);
    /// Sets the thinking level; `None` for the next one.
    fn set_thinking_level(&self, call: Call, level: Option<ThinkingLevel>, reply: Reply<ThinkingLevel>);
    /// Sets the permission mode.
    fn set_mode(&self, call: Call, mode: Mode, reply: Reply<Mode>);
    /// Turns automatic compaction on or off.
    fn set_auto_compaction(&self, call: Call, enabled: bool, reply: Reply<bool>);
    /// Turns automatic retries on or off.
    fn set_auto_retry(&self, call: Call, enabled: bool, reply: Reply<bool>);
    /// Trusts the project's configuration, or not.
    fn trust_project(&self, call: Call, trusted: bool, reply: Reply<bool>);

    /// Runs a slash command; events carry its outcome.
    fn command(&self, call: Call, text: String, reply: Reply<()>);
    /// Answers a frontend action.
    fn action_result(&self, call: Call, result: ActionResult, reply: Reply<()>);
    /// Approves the request of a typed question once, or refuses it.
    fn decide(&self, call: Call, interaction: String, approve: bool, note: Option<String>, reply: Reply<()>);
    /// Answers a typed question.
    fn respond(&self, call: Call, response: Response, reply: Reply<()>);
    /// Answers the open dialog; `None` cancels it.
    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<Value<'static>>, reply: Reply<()>);

    /// Starts a login.
    fn login_begin(&self, call: Call, provider: Option<String>, reply: Reply<Map<'static>>);
    /// Completes the pending login.
    fn login_complete(&self, call: Call, input: Option<String>, reply: Reply<Map<'static>>);
    /// Deletes a provider's credentials.
    fn logout(&self, call: Call, provider: String, reply: Reply<bool>);

    /// Runs a command for the user.
    fn bash(&self, call: Call, command: String, timeout_seconds: Option<u64>, reply: Reply<Map<'static>>);
    /// Ends that command.
    fn abort_bash(&self, call: Call, reply: Reply<()>);
    /// The background jobs with one of the statuses; all jobs for `None`.
    fn jobs(&self, call: Call, statuses: Option<Vec<String>>, reply: Reply<Vec<Arc<JobFacts>>>);
    /// One background job.
    fn job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);
    /// Ends a background job.
    fn cancel_job(&self, call: Call, id: String, reply: Reply<Arc<JobFacts>>);

    /// Keeps a note for the project's later sessions; returns the note once it is on disk.
    fn remember(&self, call: Call, text: String, reply: Reply<Map<'static>>);
    /// Removes a note; returns whether it existed.
    fn forget(&self, call: Call, note: String, reply: Reply<bool>);

    /// Writes the session as a page; returns the path.
    fn export_html(&self, call: Call, path: Option<String>, reply: Reply<String>);
    /// Sets what the editor shows.
    fn update_context(&self, call: Call, context: Map<'static>, reply: Reply<()>);
}

/// The session to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchTarget {
    /// By id.
    Id(SessionId),
    /// By its journal's path.
    Path(String),
}

/// A frontend's answer to an action.
#[derive(Debug, Clone)]
pub struct ActionResult {
    /// The action's request.
    pub request_id: String,
    /// The kind of the choice, from the action's name; `None` if there is no such action.
    pub kind: Option<ChoiceKind>,
    /// The status of the answer.
    pub status: ActionStatus,
    /// The choice; `None` if the action does not offer it.
    pub pick: Option<Pick>,
    /// Why it failed.
    pub error_message: Option<String>,
}

/// The status of a frontend action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionStatus {
    /// The person made a choice.
    Submitted,
    /// The person declined.
    Cancelled,
    /// The frontend could not show it.
    Failed,
}

/// An answer to a typed question.
#[derive(Debug, Clone)]
pub struct Response {
    /// The question.
    pub interaction_id: String,
    /// Whether it is accepted, as opposed to cancelled.
    pub accepted: bool,
    /// The answer, in the shape of the question's kind.
    pub value: Option<Map<'static>>,
    /// A note to the model.
    pub note: Option<String>,
}
