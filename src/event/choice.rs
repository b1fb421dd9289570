//! Choices for a frontend to offer, with the effect of each item. Plain data: carries no choice out.

use std::sync::Arc;

use crate::message::{EntryId, SessionId, ThinkingLevel};

/// A choice for a frontend to offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Its id, for the answer.
    pub request: Arc<str>,
    /// Its kind.
    pub kind: ChoiceKind,
    /// The question, for a person.
    pub prompt: &'static str,
    /// The items, in order.
    pub items: Vec<ChoiceItem>,
}

/// The kind of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceKind {
    /// A session of any project, to resume.
    ResumeSession,
    /// A live session, or a message to fork at.
    Session,
    /// A model.
    Model,
    /// A thinking level.
    ThinkingLevel,
}

impl ChoiceKind {
    const ALL: [Self; 4] = [Self::ResumeSession, Self::Session, Self::Model, Self::ThinkingLevel];

    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ResumeSession => "select-resume-session",
            Self::Session => "select-session",
            Self::Model => "select-model",
            Self::ThinkingLevel => "select-thinking-level",
        }
    }

    /// The kind with that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An item of a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceItem {
    /// Its id among the items.
    pub id: String,
    /// Its text for the person.
    pub label: String,
    /// Its effect.
    pub pick: Pick,
    /// Further facts about a session or a message.
    pub about: About,
}

/// The effect of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Resumes the session whose journal is there.
    Location(String),
    /// Switches to a live session.
    Session(SessionId),
    /// Forks the session at a message.
    Entry(EntryId),
    /// Sets the model.
    Model {
        /// The provider's name.
        provider: String,
        /// The model's id at the provider.
        id: String,
    },
    /// Sets the thinking level.
    Thinking(ThinkingLevel),
}

/// Facts that a frontend may show next to an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// When the session was opened, RFC 3339.
    pub created_at: Option<Arc<str>>,
    /// The session's working folder.
    pub worktree: Option<Arc<str>>,
    /// The text that a search found.
    pub excerpt: Option<String>,
    /// Whether it is the asking session, if it is live.
    pub is_active: Option<bool>,
    /// Whether a turn runs in it, if it is live.
    pub is_streaming: Option<bool>,
    /// Whether it is a message to fork at.
    pub is_fork_point: bool,
}
