//! The error codes.

/// Declares the codes with their wire names, whether the same request may succeed later, and what each says.
macro_rules! error_codes {
    ($($variant:ident $name:literal $retryable:literal $doc:literal;)*) => {
        /// Why a request, or a line, was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $doc] $variant,)*
        }

        /// All error codes, in the order of the table.
        pub const ERROR_CODES: &[ErrorSpec] = &[
            $(ErrorSpec { code: ErrorCode::$variant, name: $name, retryable: $retryable, doc: $doc },)*
        ];

        impl ErrorCode {
            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Whether the same request may succeed later.
            pub const fn retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)* }
            }
        }
    };
}

/// One row of the error table.
#[derive(Debug, Clone, Copy)]
pub struct ErrorSpec {
    /// The code.
    pub code: ErrorCode,
    /// Its name on the wire.
    pub name: &'static str,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// When it is sent.
    pub doc: &'static str,
}

error_codes! {
    NotReady "transport/not-ready" false "The op needs a handshake first.";
    InvalidFrame "transport/invalid-frame" false "The line is not one EDN form within the bounds.";
    MaxPendingExceeded "transport/max-pending-exceeded" true "Too many requests of the connection are unanswered.";
    UnsupportedVersion "protocol/unsupported-version" false "No common major version.";
    InvalidEnvelope "protocol/invalid-envelope" false "The form is no request.";
    InvalidId "request/invalid-id" false "The id is empty, no string, or already pending.";
    InvalidOp "request/invalid-op" false "The op is empty or no string.";
    InvalidParams "request/invalid-params" false "A param is missing or has another shape.";
    InvalidQuery "request/invalid-query" false "The query is no EQL.";
    OpNotSupported "request/op-not-supported" false "The op is not in the catalogue.";
    SessionNotIdle "request/session-not-idle" true "The op needs a session without a running turn.";
    NotFound "request/not-found" false "No such session, entry, job or output.";
    UnknownModel "request/unknown-model" false "No such model in the catalogue.";
    UnknownCommand "request/unknown-command" false "No such slash command.";
    NoPendingLogin "request/no-pending-login" false "No login was begun on this connection.";
    NoActiveDialog "request/no-active-dialog" false "No dialog is open on this connection.";
    DialogIdMismatch "request/dialog-id-mismatch" false "Another dialog is the open one.";
    InteractionAlreadyAnswered "request/interaction-already-answered" false "Another answer came first, or the question was withdrawn.";
    QueryFailed "runtime/query-failed" false "A strict query named an attribute that could not be resolved.";
    Failed "runtime/failed" false "The runtime could not do it; the message says why.";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
