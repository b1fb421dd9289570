//! What can be asked of a session's owner, and how it answers. Asks and answers nobody.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::response::RemoteResponse;
use crate::catalogue::ErrorCode;
use crate::edn;
use crate::message::{EntryId, Mode, ThinkingLevel};
use crate::session::control::ControlRequest;
use crate::session::{Again, ApiError, Edited, GraphQuery, Prompt, Undo};
use crate::value::{Map, Value};

/// What is asked of a session's owner.
#[derive(Debug, Serialize, Deserialize)]
pub enum RemoteCall {
    /// The asker's clients see the session: they are told what no entry says, and answer its questions if one of them can.
    /// The answer has the open ones of its turns.
    Follow {
        /// Whether one can.
        answers: bool,
    },
    /// How a call ended that was answered when it began, by the id of its request.
    End(Arc<str>),
    /// An answer to a question.
    Respond(RemoteResponse),
    Prompt(Prompt),
    Steer(Prompt),
    FollowUp(Prompt),
    AskAgain(Again, Option<String>),
    Abort(Option<String>),
    Interrupt(Option<String>),
    AbortRetry,
    Compact(Option<String>),
    EditPending(EntryId, Edited),
    RemovePending(EntryId),
    MovePending(EntryId, Option<EntryId>),
    ResumeQueue,
    Undo(Undo),
    SetName(String),
    SetModel(Option<String>, String),
    CycleModel(bool),
    SetThinking(Option<ThinkingLevel>),
    SetMode(Mode),
    SetAutoCompaction(bool),
    SetAutoRetry(bool),
    SetOption(String, Value<'static>),
    AgentOptions,
    Bash(String, Option<u64>),
    AbortBash,
    Jobs(Option<Vec<String>>),
    Job(String),
    JobWait(String),
    CancelJob(String),
    CallTool(String, Value<'static>),
    ReadOutput(String, u64, usize),
    Query(GraphQuery),
    Control(Box<ControlRequest>),
}

/// An answer to a call, or why it was refused.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RemoteAnswer<T> {
    /// It has begun, and its end is asked for.
    Begun,
    Done(T),
    Refused {
        code: ErrorCode,
        message: String,
        data: Option<Map<'static>>,
        retryable: bool,
    },
}

impl<T> RemoteAnswer<T> {
    pub(super) fn of(result: Result<T, ApiError>) -> Self {
        match result {
            Ok(done) => Self::Done(done),
            Err(ApiError { code, message, data, retryable }) => {
                Self::Refused { code, message, data, retryable }
            }
        }
    }
}

impl RemoteCall {
    /// Whether its end may be far off, so that it is answered when it begins. It is begun once then, also if the owner's
    /// process ends meanwhile.
    pub(super) const fn ends_late(&self) -> bool {
        matches!(
            self,
            Self::Compact(_) | Self::Undo(_) | Self::Bash(..) | Self::JobWait(_) | Self::CallTool(..)
        )
    }
}

/// A value as the text that crosses.
pub(super) fn written(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    edn::write_compact(value, &mut text);
    String::from_utf8(text).unwrap_or_default()
}
