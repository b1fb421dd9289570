//! The methods of the protocol that are served, and those of its requests to the editor.

/// What an editor may ask.
pub const REQUESTS: &[&str] = &[
    "initialize",
    "authenticate",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/close",
    "session/delete",
    "session/prompt",
    "session/set_mode",
    "session/set_config_option",
    "_edn-bridge/query_eql",
];

/// What an editor may tell.
pub const NOTICES: &[&str] = &["session/cancel", "$/cancel_request"];

/// What an editor is told and asked.
pub const TO_EDITOR: &[&str] = &[
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "elicitation/complete",
    "$/cancel_request",
];
