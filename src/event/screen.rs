//! What a frontend shows beside the conversation: widgets, status texts, notifications and diagnostics. Plain data: does
//! not know how a frontend looks.

use std::sync::Arc;

use super::stage::{Point, Stage};

/// The content of a widget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widget {
    /// Its id and place.
    pub spec: WidgetSpec,
    /// Its lines.
    pub lines: Vec<String>,
}

/// The definition of a widget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WidgetSpec {
    /// Its source.
    pub extension: &'static str,
    /// Its id.
    pub id: &'static str,
    /// Its place: `left` or `bottom`.
    pub placement: &'static str,
    /// Its title.
    pub title: &'static str,
}

/// A status text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusText {
    /// Its source.
    pub extension: &'static str,
    /// The text.
    pub text: String,
}

/// A message to the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its id.
    pub id: String,
    /// Its level.
    pub level: NoticeLevel,
    /// The text.
    pub message: String,
    /// Its source, if that is not the session itself.
    pub extension: Option<&'static str>,
}

/// The level of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// Information.
    Info,
    /// The person may have to act.
    Warning,
}

impl NoticeLevel {
    /// The name on every wire: `info` or `warning`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// A condition of the bridge itself that is worth reporting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnostic {
    /// A session's journal was damaged and was repaired.
    Repaired {
        /// The fault and its repair.
        message: String,
    },
    /// Not all kept rules are known, so that every call is asked about.
    RulesUnread {
        /// The line or file that cannot be read, and the consequence.
        message: String,
    },
    /// A hook failed.
    HookFailed {
        /// The hook's name.
        hook: Arc<str>,
        /// Its kind: `guard`, `transform` or `observer`.
        kind: &'static str,
        /// Its stage.
        stage: Stage,
        /// Its point.
        point: Point,
        /// The failure and its consequence.
        message: String,
    },
    /// Events were skipped for a slow connection.
    Behind {
        /// The number of skipped events.
        missed: u64,
    },
    /// Events were merged and replaced for a slow connection.
    Coalesced {
        /// Deltas that were merged into the one before.
        joined: u64,
        /// Snapshots that a newer one replaced.
        replaced: u64,
    },
}

impl Diagnostic {
    /// The code, for a program.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Repaired { .. } => "session/repaired",
            Self::RulesUnread { .. } => "rules/unread",
            Self::HookFailed { .. } => "hook/failed",
            Self::Behind { .. } => "delivery/behind",
            Self::Coalesced { .. } => "delivery/coalesced",
        }
    }

    /// Whether it is about the session's own history or rules, and not about the connection or a hook.
    pub const fn is_of_session(&self) -> bool {
        matches!(self, Self::Repaired { .. } | Self::RulesUnread { .. })
    }

    /// The text, for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Repaired { message } | Self::RulesUnread { message } | Self::HookFailed { message, .. } => {
                message.clone()
            }
            Self::Behind { missed } => format!(
                "This connection was so slow that {missed} events were skipped. The current state of its session follows."
            ),
            Self::Coalesced { joined, replaced } => format!(
                "This connection was slow: {joined} pieces of text were joined to others, {replaced} \
                 snapshots were replaced by newer ones. No text was lost."
            ),
        }
    }
}
