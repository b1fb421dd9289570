//! The error codes. Codes and meanings only; the room that fails decides which one it is.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares the codes: variant, wire name, whether the same request may succeed later, the keys of the error's `:data`,
/// and the cause.
macro_rules! error_codes {
    ($($variant:ident $name:literal $retryable:literal $data:tt $doc:literal;)*) => {
        /// The reason for refusing a request or a line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $doc] $variant,)*
        }

        /// All error codes, in the order of the table.
        pub const ERROR_CODES: &[ErrorSpec] = &[
            $(ErrorSpec { code: ErrorCode::$variant, name: $name, retryable: $retryable, data: &$data, doc: $doc },)*
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

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A code that this program does not know is `runtime/failed`.
impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = ERROR_CODES.iter().find(|spec| spec.name == name);
        Ok(known.map_or(Self::Failed, |spec| spec.code))
    }
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
    /// The keys of the error's `:data`; a key that ends in `?` is optional.
    pub data: &'static [&'static str],
    /// The cause.
    pub doc: &'static str,
}

error_codes! {
    NotReady "transport/not-ready" false [] "The op requires a handshake.";
    InvalidFrame "transport/invalid-frame" false ["reason", "offset"] "The line is not a single EDN form within the bounds.";
    MaxPendingExceeded "transport/max-pending-exceeded" true [] "The connection has too many pending requests.";
    UnsupportedVersion "protocol/unsupported-version" false ["supported-versions"] "Client and server have no common major version.";
    InvalidEnvelope "protocol/invalid-envelope" false [] "The form is not a request.";
    InvalidId "request/invalid-id" false ["duplicate-id?"] "The id is empty, not a string, or already pending.";
    InvalidOp "request/invalid-op" false [] "The op is empty or not a string.";
    InvalidParams "request/invalid-params" false ["key?", "expected?"] "A param is missing or has the wrong shape.";
    NotAllowed "request/not-allowed" false [] "The user's policy does not allow it; only in the acknowledgement of a control request.";
    InvalidQuery "request/invalid-query" false ["offset", "expected?"] "The query is not valid EQL.";
    OpNotSupported "request/op-not-supported" false ["supported-ops"] "The op is not in the catalogue.";
    SessionNotIdle "request/session-not-idle" true [] "The op requires a session without a running turn.";
    NotFound "request/not-found" false [] "There is no such session, entry, job or output.";
    IdempotencyConflict "request/idempotency-conflict" false [] "The idempotency key was used for another request; nothing was done.";
    LedgerFull "request/ledger-full" true [] "The session knows as many keys of the last minutes as it can.";
    MessageFixed "request/message-fixed" false [] "The waiting message came through control, which has acknowledged it; it is neither edited, removed nor moved.";
    NothingToRetry "request/nothing-to-retry" false [] "The last message has its answer, or there is none.";
    FileChanged "request/file-changed" false ["changed", "others"] "Files are not as the turn left them, or what they were is no longer kept; nothing of the turn was changed. `:others` is how many files `:skip-changed` would change.";
    UnknownModel "request/unknown-model" false ["nearest?"] "The catalogue has no such model.";
    UnknownCommand "request/unknown-command" false ["nearest"] "There is no such slash command.";
    NoPendingLogin "request/no-pending-login" false [] "No login is pending on this connection.";
    NoActiveDialog "request/no-active-dialog" false [] "No dialog is open on this connection.";
    DialogIdMismatch "request/dialog-id-mismatch" false [] "A different dialog is open.";
    InteractionAlreadyAnswered "request/interaction-already-answered" false [] "The question was already answered or withdrawn.";
    RealmOwned "realm/owned" false [] "Another host of the realm owns the session, and is there.";
    RealmOwnerLost "realm/owner-lost" true [] "The host that owns the session is not there. `take_session` takes it; it can be read meanwhile.";
    RealmUnreachable "realm/unreachable" true [] "The engine of the realm cannot be reached. Nothing was done; the session can be read.";
    RealmInDoubt "realm/in-doubt" false [] "The engine of the realm, or the host of the session, did not answer in time: whether it was done is not known. With the same `:idempotency-key` it is done once; anything else is to be looked at first.";
    QueryFailed "runtime/query-failed" false ["missing?", "errors?"] "A strict query names an attribute that cannot be resolved.";
    Failed "runtime/failed" false [] "The runtime failed; the message gives the reason.";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
