//! What frontends show beside a conversation: the progress of a workflow's run, and notifications. Plain data; does
//! not know how a run goes on.

use std::sync::Arc;

use crate::event::{NoticeLevel, Notification, StatusText, Widget, WidgetSpec};

/// The source of the engine's widgets and notifications.
pub const EXTENSION: &str = "edn-bridge";

/// The progress of a session's newest run, for frontends.
pub struct Progress {
    /// The widgets with their content.
    pub widgets: Arc<[Widget]>,
    /// The definitions of the widgets.
    pub specs: Arc<[WidgetSpec]>,
    /// The status texts.
    pub statuses: Arc<[StatusText]>,
}

/// A notification from the engine to a person.
pub fn notification(id: String, level: NoticeLevel, message: &str) -> Arc<Notification> {
    Arc::new(Notification { id, level, message: message.to_owned(), extension: Some(EXTENSION) })
}
