//! How a question is told to clients: typed, as a plain dialog, and how it ended. Plain data: does not know who answers.

use std::sync::Arc;

use super::question::{Answer, QuestionContent};
use crate::message::SessionId;

/// A typed question to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionAsked {
    /// The question's id.
    pub id: Arc<str>,
    /// The id that links its events and its audit record.
    pub correlation: Arc<str>,
    /// Its content.
    pub content: Arc<QuestionContent>,
    /// The risks in its texts.
    pub warnings: Arc<[String]>,
    /// The subagent that asks.
    pub subagent: Option<Subagent>,
}

/// A question as a plain dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    /// The question's id.
    pub id: Arc<str>,
    /// The dialog's shape.
    pub shape: DialogShape,
    /// The question on one line.
    pub title: String,
    /// Text to read before answering.
    pub message: Option<String>,
    /// The subagent that asks.
    pub subagent: Option<Subagent>,
}

/// A subagent that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    /// The session that delegated to it.
    pub parent: SessionId,
    /// The session above it that works for none: questions of all its subagents stand where its own do.
    pub root: SessionId,
    /// Its id.
    pub id: Arc<str>,
    /// Its name, for people.
    pub label: Arc<str>,
}

/// The shape of a dialog.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogShape {
    /// Yes or no.
    Confirm {
        /// The answer that is offered first.
        default: Option<bool>,
    },
    /// A text.
    Input,
    /// One of several.
    Select(Vec<DialogOption>),
}

/// One of the options of a dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogOption {
    /// The value for the answer.
    pub value: String,
    /// Its text for the person.
    pub label: String,
}

/// The end of a question.
#[derive(Debug, Clone)]
pub struct QuestionEnded {
    /// The question's id.
    pub id: Arc<str>,
    /// The id that links its events and its audit record.
    pub correlation: Arc<str>,
    /// Whether it was answered; otherwise it was cancelled or withdrawn.
    pub accepted: bool,
    /// Who ended it.
    pub by: Arc<str>,
    /// The answer, unless it is a secret.
    pub answer: Option<Answer>,
}
