//! The methods with which an editor is told and asked. What it may send is in [`super::request`].

/// What an editor is told and asked.
pub const TO_EDITOR: &[&str] = &[
    "session/update",
    "session/request_permission",
    "elicitation/create",
    "elicitation/complete",
    "$/cancel_request",
];
