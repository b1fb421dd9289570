//! A question on its way: who asks it, what a client answers, and how it ended.
//!
//! What is asked, and which answers there are, is in [`crate::event::question`]. Knows no queue and no client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::event::question::{Answer, QuestionContent, QuestionKind};
use crate::event::{Cause, Subagent};
use crate::message::{SessionId, TurnId};
use crate::session::{DialogResult, Response};

/// The origin of a question.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The session.
    pub session: SessionId,
    /// The session's count of entries at the time of the question. Events carry the count of their own time.
    pub offset: u64,
    /// The waiting turn.
    pub turn: Option<TurnId>,
    /// The request that caused the question, if any.
    pub cause: Option<Cause>,
    /// The id that links events and audit; the turn's, if there is one.
    pub correlation: Arc<str>,
    /// The subagent that asks.
    pub subagent: Option<Subagent>,
}

impl Origin {
    /// The session in whose queue the question waits: the one that asks, or the uppermost one that it works for.
    pub fn root(&self) -> &SessionId {
        self.subagent.as_ref().map_or(&self.session, |subagent| &subagent.root)
    }
}

/// A question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Its content.
    pub content: Arc<QuestionContent>,
    /// The risks in its texts. Those that the content itself shows are added when it is asked.
    pub warnings: Arc<[String]>,
    /// Its origin.
    pub origin: Origin,
    /// How long it stays open; `None` for no limit.
    pub timeout: Option<Duration>,
    /// Whether to answer it without a person if possible.
    pub unattended: bool,
    /// Whether it is in the session's journal, so that its answer counts once it is there too.
    pub journalled: bool,
}

impl Question {
    /// The kind of the question.
    pub fn kind(&self) -> QuestionKind {
        self.content.kind()
    }
}

/// An answer as a client gives it.
#[derive(Debug)]
pub enum ClientAnswer {
    /// To a typed question.
    Response(Box<Response>),
    /// The result of the open dialog; `None` cancels it.
    Dialog(String, Option<DialogResult>),
}

impl ClientAnswer {
    /// The question.
    pub fn question(&self) -> &str {
        match self {
            Self::Response(response) => &response.interaction_id,
            Self::Dialog(id, _) => id,
        }
    }
}

/// How a question ended.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// It was answered.
    Accepted {
        /// The answer, of the question's kind.
        answer: Answer,
        /// A note to the model.
        note: Option<String>,
    },
    /// A person chose not to answer.
    Cancelled {
        /// A note to the model.
        note: Option<String>,
    },
    /// No client can answer it.
    Headless,
    /// The time-out passed.
    TimedOut,
    /// The asker withdrew it.
    Withdrawn,
}

/// Who ended a question. Its text is the name in events and in the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The program: the time is over, or the asker withdrew it.
    Core,
    /// The program, since no client can answer.
    Headless,
    /// The client of a connection.
    Client(u64),
    /// The client of a connection of another process, as its journal names it.
    Earlier(Arc<str>),
}

impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("core"),
            Self::Headless => f.write_str("headless"),
            Self::Client(connection) => write!(f, "connection-{connection}"),
            Self::Earlier(name) => f.write_str(name),
        }
    }
}
