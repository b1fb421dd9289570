//! What an export shows, in every format. Does not know how a format looks.

use std::sync::Arc;

use crate::message::{Message, Role, SessionId};
use crate::visible;

/// The exported content.
#[derive(Debug, Clone)]
pub struct Transcript {
    /// The session.
    pub session: SessionId,
    /// Its name, or the start of its first message.
    pub title: String,
    /// When it was opened, RFC 3339 in UTC.
    pub created_at: Arc<str>,
    /// Its working folder.
    pub cwd: Arc<str>,
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
}

/// The author of a message.
pub(super) fn heading(message: &Message) -> String {
    match (message.role, &message.tool_name) {
        (Role::User, _) => "You".to_owned(),
        (Role::Assistant, _) => "Assistant".to_owned(),
        (Role::System, _) => "System".to_owned(),
        (Role::Tool, Some(name)) if message.is_error == Some(true) => {
            format!("Tool {} (failed)", visible::line(name))
        }
        (Role::Tool, Some(name)) => format!("Tool {}", visible::line(name)),
        (Role::Tool, None) => "Tool".to_owned(),
    }
}
