//! Control: texts and interrupts for a live session, from programs of the same user that do not attach to it.
//!
//! A request has a key, its `request_id`. What was acknowledged happens once, across retries, restarts and kills.
//! What was refused has not happened. Source: the TUI control protocol, version 1.
//!
//! A request comes on a wire of its own, or in an op. Knows no spelling of either; [`crate::projection::control`] does.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::catalogue::ErrorCode;
use crate::message::SessionId;
use crate::session::call::{Call, Reply};

/// The version of the protocol.
pub const VERSION: i64 = 1;

/// Control of live sessions. Only members of a team that the user's configuration names may use it.
pub trait Control: Send + Sync {
    /// Serves a request. The reply never fails: a refusal is an acknowledgement too.
    fn control(&self, call: Call, request: Box<ControlRequest>, reply: Reply<ControlAck>);

    /// What is served, and within which bounds.
    fn control_capabilities(&self) -> Capabilities;

    /// The live sessions that a team's members may address; of every team for `None`.
    fn control_agents(&self, team: Option<&str>) -> Vec<TeamMember>;
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlKind {
    /// A text for the session.
    Stdin,
    /// The end of the running turn.
    Interrupt,
    /// The answer to an open question. Not in the document; existing clients send it.
    Elicitation,
}

impl ControlKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Stdin, Self::Interrupt, Self::Elicitation];

    /// Its name in the `type` of a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Interrupt => "interrupt",
            Self::Elicitation => "elicitation",
        }
    }

    /// Its name in the key `action`, which existing clients send.
    pub const fn action(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Interrupt => "interrupt",
            Self::Elicitation => "elicitation_response",
        }
    }
}

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ControlRequest {
    /// Its kind.
    pub kind: ControlKind,
    /// Its key; empty if it has none that can be read. The same holds for the other texts.
    pub request_id: String,
    /// The team of the sender and of the target.
    pub team: String,
    /// The target, a session above it, or the sender's own session in another program; empty if the agent alone names it.
    pub session_id: String,
    /// The target: a session's id or name.
    pub agent_id: String,
    /// Who claims to send it.
    pub sender: String,
    /// When it was sent.
    pub sent_at: SentAt,
    /// The sender's count of its retries, and its user interface, for the audit.
    pub retry_count: Option<i64>,
    /// See `retry_count`.
    pub ui_source: Option<String>,
    /// What is asked for, or what is wrong with the request, for a person.
    pub asked: Result<ControlAction, String>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlAction {
    /// To give the session a text, and with `interrupt` to end its turn so that the text begins the next one.
    Stdin {
        /// The text.
        content: ControlText,
        /// Whether the running turn ends.
        interrupt: bool,
    },
    /// To end the running turn after its tool calls.
    Interrupt,
    /// To answer a question.
    Answer {
        /// The question.
        question: String,
        /// The decision.
        approve: bool,
    },
}

/// The text of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlText {
    /// Itself.
    Text(String),
    /// In a file of this machine: to another one its text goes.
    #[serde(skip)]
    File(ContentRef),
}

/// A text in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRef {
    /// The file, absolute.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its SHA-256 in lower-case hexadecimal.
    pub sha256: String,
    /// Its type, such as `text/plain; charset=utf-8`.
    pub mime: String,
    /// When the reference ends.
    pub expires_at: Option<Timestamp>,
}

/// When a request was sent, by its sender's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentAt {
    /// Milliseconds since the epoch.
    pub millis: i64,
    /// Whether it was written with a fraction. A time without one covers its second.
    pub is_exact: bool,
}

impl SentAt {
    /// The latest moment that it may mean, in milliseconds since the epoch.
    pub fn latest(self) -> i64 {
        if self.is_exact { self.millis } else { self.millis.saturating_add(999) }
    }
}

/// The result in an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlResult {
    /// It was done, now or before.
    Ok,
    /// The session takes no live input.
    NotLive,
    /// There is no such session in the team.
    NotFound,
    /// There is no room now.
    Busy,
    /// The session did not answer in time. The request may still be done.
    Timeout,
    /// The request is wrong, or not allowed.
    Rejected,
    /// It could not be kept.
    InternalError,
}

impl ControlResult {
    /// All results.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::NotLive,
        Self::NotFound,
        Self::Busy,
        Self::Timeout,
        Self::Rejected,
        Self::InternalError,
    ];

    /// Its name in the document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotLive => "not_live",
            Self::NotFound => "not_found",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
            Self::InternalError => "internal_error",
        }
    }
}

/// The acknowledgement of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlAck {
    /// The kind of the request.
    pub kind: ControlKind,
    /// From the request, as are the next three.
    pub request_id: String,
    /// See `request_id`.
    pub team: String,
    /// See `request_id`; the session that was reached, if the request names none.
    pub session_id: String,
    /// See `request_id`.
    pub agent_id: String,
    /// When it was acknowledged, RFC 3339 in UTC.
    pub acked_at: Arc<str>,
    /// The result.
    pub result: ControlResult,
    /// Whether the key was known before.
    pub duplicate: bool,
    /// What happened, for a person.
    pub detail: Option<String>,
    /// The error, on any result but `ok`.
    pub error: Option<(ErrorCode, String)>,
}

/// What is served, and within which bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The kinds of requests that are served; none if no team is named.
    pub kinds: Vec<ControlKind>,
    /// The size in bytes of a text from which senders should warn.
    pub soft_limit_bytes: u64,
    /// The size in bytes of a text beyond which it must be in a file.
    pub hard_limit_bytes: u64,
    /// The largest file, in bytes.
    pub file_limit_bytes: u64,
    /// The folders in which such files may be.
    pub content_folders: Vec<PathBuf>,
    /// The oldest request that is taken, in milliseconds.
    pub max_age_ms: u64,
    /// How far in the future the time of a request may be, in milliseconds.
    pub max_skew_ms: u64,
    /// How long keys are known at least, in milliseconds.
    pub dedupe_ms: u64,
    /// The time until an acknowledgement, in milliseconds.
    pub ack_timeout_ms: u64,
}

/// A live session, as the members of a team see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamMember {
    /// The session.
    pub id: SessionId,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The session above it, if it works for one.
    pub parent: Option<SessionId>,
    /// The team.
    pub team: String,
    /// Whether a turn runs.
    pub is_busy: bool,
    /// Its folder.
    pub cwd: Arc<str>,
}

impl ControlAck {
    /// An acknowledgement of a request.
    pub fn new(request: &ControlRequest, acked_at: Arc<str>, result: ControlResult) -> Self {
        Self {
            kind: request.kind,
            request_id: request.request_id.clone(),
            team: request.team.clone(),
            session_id: request.session_id.clone(),
            agent_id: request.agent_id.clone(),
            acked_at,
            result,
            duplicate: false,
            detail: None,
            error: None,
        }
    }
}
