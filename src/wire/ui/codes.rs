//! The error codes of the UI protocol, and which of them an error of the session API is.

use crate::catalogue::ErrorCode;
use crate::session::ApiError;
use crate::wire::jsonrpc::Misread;

/// A code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The line is not JSON, or not within the bounds.
    Parse,
    /// The JSON is no message.
    InvalidRequest,
    /// There is no such method.
    MethodNotFound,
    /// A param is missing or has another shape.
    InvalidParams,
    /// The runtime failed.
    Internal,
    /// A run is active.
    Busy,
    /// There is no such run.
    NoRun,
    /// The person declined it.
    UserCancelled,
    /// There is no such session.
    NoSession,
    /// The session cannot be loaded.
    NotLoadable,
    /// The sessions cannot be listed.
    NotListed,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 11] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::Busy,
        Self::NoRun,
        Self::UserCancelled,
        Self::NoSession,
        Self::NotLoadable,
        Self::NotListed,
    ];

    /// The number.
    pub const fn number(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32000,
            Self::Busy => -32001,
            Self::NoRun => -32002,
            Self::UserCancelled => -32003,
            Self::NoSession => -32004,
            Self::NotLoadable => -32005,
            Self::NotListed => -32006,
        }
    }

    /// The cause, for the reference.
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Parse => "The line is not JSON, or not within the bounds.",
            Self::InvalidRequest => "The JSON is no message, or its id is unusable.",
            Self::MethodNotFound => "There is no such method, or it is not served.",
            Self::InvalidParams => "A param is missing or has another shape.",
            Self::Internal => "The runtime failed.",
            Self::Busy => "A run is active, or something else has to end first.",
            Self::NoRun => "There is no such run.",
            Self::UserCancelled => "The person declined it.",
            Self::NoSession => "There is no such session.",
            Self::NotLoadable => "The session cannot be loaded.",
            Self::NotListed => "The sessions cannot be listed.",
        }
    }

    /// The code that counts it.
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::Parse => ErrorCode::InvalidFrame,
            Self::InvalidRequest => ErrorCode::InvalidEnvelope,
            Self::MethodNotFound => ErrorCode::OpNotSupported,
            Self::InvalidParams => ErrorCode::InvalidParams,
            Self::Busy => ErrorCode::SessionNotIdle,
            Self::NoRun | Self::NoSession => ErrorCode::NotFound,
            Self::Internal | Self::UserCancelled | Self::NotLoadable | Self::NotListed => ErrorCode::Failed,
        }
    }
}

/// An error of an answer.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// The reason, for a person.
    pub message: String,
    /// The error of the session API, if it is one.
    pub cause: Option<ApiError>,
}

impl Fault {
    /// An error of the wire itself.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None }
    }

    /// The error for one param.
    pub fn param(key: &str, expected: &str) -> Self {
        let dot = if key.is_empty() { "" } else { "." };
        let message = format!("params{dot}{key} must be {expected}.");
        let mut cause = ApiError::new(ErrorCode::InvalidParams, message.clone());
        if !key.is_empty() {
            cause = cause.with("key", key.to_owned()).with("expected", expected.to_owned());
        }
        Self { code: Code::InvalidParams, message, cause: Some(cause) }
    }

    /// The same reason under another code.
    pub fn as_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// The error that counts it.
    pub fn counted(&self) -> ErrorCode {
        self.cause.as_ref().map_or(self.code.error_code(), |cause| cause.code)
    }
}

impl From<Misread> for Fault {
    fn from(misread: Misread) -> Self {
        let code = match misread {
            Misread::Syntax(_) | Misread::Line(_) => Code::Parse,
            Misread::Shape(_) => Code::InvalidRequest,
        };
        Self::new(code, misread.to_string())
    }
}

/// The client's name of a key of the session API.
fn param_of(key: &str) -> String {
    match key.trim_start_matches(':') {
        "tool" => "name".to_owned(),
        key => key.replace('-', "_"),
    }
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Self {
        let named = |key| error.data.as_ref()?.get_keyword(key)?.as_str();
        if error.code == ErrorCode::InvalidParams
            && let (Some(key), Some(expected)) = (named("key"), named("expected"))
        {
            return Self::param(&param_of(key), expected);
        }
        let code = match error.code {
            ErrorCode::SessionNotIdle => Code::Busy,
            ErrorCode::NotFound => Code::NoSession,
            ErrorCode::InvalidParams
            | ErrorCode::InvalidQuery
            | ErrorCode::InvalidId
            | ErrorCode::InvalidOp
            | ErrorCode::UnknownModel
            | ErrorCode::UnknownCommand => Code::InvalidParams,
            ErrorCode::OpNotSupported => Code::MethodNotFound,
            _ => Code::Internal,
        };
        Self { code, message: error.message.clone(), cause: Some(error) }
    }
}
