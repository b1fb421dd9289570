//! What an export shows, in every format. Does not know how a format looks.

use std::sync::Arc;

use super::usage::{UsageFigure, UsageRow};
use crate::message::{Message, Role, SessionId, StopReason, TurnId, Usage};
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
    /// The turns that were cut off with their process.
    pub interrupted: Vec<TurnId>,
}

/// What is said after the last message of a turn that was cut off.
pub(super) const CUT_OFF: &str = "The turn was cut off here, because the process that ran it ended.";

/// What is said of an answer that somebody ended.
pub(super) fn ended(message: &Message) -> Option<&'static str> {
    match message.stop_reason {
        Some(StopReason::Aborted | StopReason::Interrupted) => Some("The turn was ended here."),
        _ => None,
    }
}

impl Transcript {
    /// The messages, each with whether its turn was cut off after it.
    pub(super) fn marked(&self) -> impl Iterator<Item = (&Arc<Message>, bool)> {
        self.messages.iter().enumerate().map(|(place, message)| {
            let next = self.messages.get(place.saturating_add(1));
            let is_last = next.is_none_or(|next| next.turn_id != message.turn_id);
            let turn = message.turn_id.as_ref().filter(|_| is_last);
            (message, turn.is_some_and(|turn| self.interrupted.contains(turn)))
        })
    }

    /// The tokens and the cost of each turn.
    pub(super) fn usage_by_turn(&self) -> UsageFigure {
        let mut rows: Vec<(Option<&TurnId>, UsageRow)> = Vec::new();
        for message in &self.messages {
            let Some(usage) = message.usage else { continue };
            let turn = message.turn_id.as_ref();
            if rows.last().is_none_or(|(last, _)| turn.is_none() || *last != turn) {
                let minute = message.timestamp.get(..16).unwrap_or(&message.timestamp).replace('T', " ");
                rows.push((turn, UsageRow { label: minute, calls: 0, usage: Usage::default() }));
            }
            if let Some((_, row)) = rows.last_mut() {
                row.calls = row.calls.saturating_add(1);
                row.usage.add(&usage);
            }
        }
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        UsageFigure { heading: "By turn".to_owned(), rows }
    }
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
