//! One call of a capability: who calls, and the answer that is owed.
//!
//! A call does not return its result; it completes a [`Reply`]. If the answer is available, the reply is
//! completed before the call returns. If it has to wait (for a disk, for the end of a turn), the task that
//! has it completes the reply later, without another task in between. So an answer precedes the events
//! that name its request as their cause (an entry that is written names none), and a request without a wait
//! costs no hand-over.

use std::sync::Arc;

use crate::catalogue::{ErrorCode, excerpt};
use crate::event::Cause;
use crate::limits::ERROR_NAME_CHARS;
use crate::message::SessionId;
use crate::value::{Map, Value};

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

/// Why the engine refused.
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
        let name = excerpt(name, ERROR_NAME_CHARS);
        Self::new(ErrorCode::NotFound, format!("There is no {what} {name:?}."))
    }

    /// `request/not-found` for a session that is not open. It may be on disk; nothing looks there for each request.
    pub fn not_open(session: &SessionId) -> Self {
        let name = excerpt(session.as_str(), ERROR_NAME_CHARS);
        let message = format!("No session {name:?} is open; switch_session opens one from disk.");
        Self::new(ErrorCode::NotFound, message)
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

/// The pending answer to a call. It is completed once. If it is dropped, it answers that the engine failed,
/// so that no request stays without an answer.
pub struct Reply<T>(Option<OnReply<T>>);

type OnReply<T> = Box<dyn FnOnce(Result<T, ApiError>) + Send>;

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
