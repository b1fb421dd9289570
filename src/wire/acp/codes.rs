//! The error codes of the protocol, and which of them an error of the session API is.

use crate::catalogue::ErrorCode;
use crate::session::ApiError;
use crate::value::Map;
use crate::wire::jsonrpc::Misread;

/// A code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The provider needs a login or a key.
    LoginNeeded,
    /// There is no such session or file.
    NotFound,
    /// The editor cancelled the request.
    Cancelled,
    /// The editor asks for a version that is older than ours.
    UnsupportedVersion,
}

impl Code {
    /// The number.
    pub const fn number(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::LoginNeeded => -32000,
            Self::NotFound => -32002,
            Self::Cancelled => -32800,
            Self::UnsupportedVersion => -32022,
        }
    }
}

/// An error of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The code.
    pub code: Code,
    /// The reason, for a person.
    pub message: String,
    /// The error of the session API: its code, whether the same request may succeed later, and further facts.
    pub cause: Option<(ErrorCode, bool, Option<Map<'static>>)>,
    /// What the protocol has for this code.
    pub data: Option<Map<'static>>,
}

impl Fault {
    /// An error of the wire itself.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), cause: None, data: None }
    }

    /// The same with what the protocol has for its code.
    #[must_use]
    pub fn with_data(self, data: Map<'static>) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The error for a session that the editor has not opened.
    pub fn no_session(session: &str) -> Self {
        let name = crate::catalogue::excerpt(session, crate::limits::ERROR_NAME_CHARS);
        let message = format!("No session {name:?} is open here: session/load or session/resume opens one.");
        Self::new(Code::NotFound, message).with_data(Map::new().with("sessionId", name.to_owned()))
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

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Self {
        let code = match error.code {
            ErrorCode::NotFound => Code::NotFound,
            ErrorCode::InvalidParams
            | ErrorCode::InvalidQuery
            | ErrorCode::InvalidId
            | ErrorCode::InvalidOp
            | ErrorCode::UnknownModel
            | ErrorCode::UnknownCommand => Code::InvalidParams,
            ErrorCode::OpNotSupported => Code::MethodNotFound,
            _ => Code::Internal,
        };
        let cause = Some((error.code, error.retryable, error.data));
        Self { code, message: error.message, cause, data: None }
    }
}
