//! Questions: the answers to what the engine asks a person. Does not know why one is asked.

use crate::facts::rule::Rule;
use crate::secret::Secret;
use crate::session::call::{Call, Reply};

/// The open questions. Each is answered once, by the first interactor that does; all others are told.
pub trait Questions: Send + Sync {
    /// Approves the request of a typed question once, or refuses it.
    fn decide(&self, call: Call, interaction: String, approve: bool, note: Option<String>, reply: Reply<()>);

    /// Answers a typed question.
    fn respond(&self, call: Call, response: Response, reply: Reply<()>);

    /// A connection answers no longer, or in another form, because its subscriptions changed. The questions that
    /// it saw end as if it had left, unless another client sees them, or go to it in the other form.
    fn interactor_changed(&self, connection: u64);

    /// Answers the open dialog; `None` cancels it.
    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<DialogResult>, reply: Reply<()>);
}

/// An answer to a typed question.
#[derive(Debug, Clone)]
pub struct Response {
    /// The question.
    pub interaction_id: String,
    /// Whether it is accepted, as opposed to cancelled.
    pub accepted: bool,
    /// The answer. The question's kind decides which of its fields count.
    pub answer: AnswerFields,
    /// A note to the model.
    pub note: Option<String>,
}

/// An answer as a client gives it.
#[derive(Debug, Clone, Default)]
pub struct AnswerFields {
    /// A text.
    pub text: Option<String>,
    /// A secret.
    pub secret: Option<Secret>,
    /// Yes or no.
    pub ok: Option<bool>,
    /// Whether a login is done.
    pub done: Option<bool>,
    /// The place of an option, from 0.
    pub index: Option<usize>,
    /// `approve`, `deny` or `defer`.
    pub outcome: Option<String>,
    /// How far an approval reaches: `once`, `session` or `rule`.
    pub scope: Option<String>,
    /// The person's own rule for that scope.
    pub rule: Option<Rule>,
    /// The text that a file is to have in place of the proposed one.
    pub content: Option<String>,
}

/// A dialog's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DialogResult {
    /// Yes or no.
    Flag(bool),
    /// A text, or the value of an option.
    Text(String),
}
