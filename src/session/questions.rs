//! Questions: the answers to what the runtime asks a person.

use crate::session::call::{Call, Reply};
use crate::value::{Map, Value};

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
    fn resolve_dialog(&self, call: Call, dialog: String, result: Option<Value<'static>>, reply: Reply<()>);
}

/// An answer to a typed question.
#[derive(Debug, Clone)]
pub struct Response {
    /// The question.
    pub interaction_id: String,
    /// Whether it is accepted, as opposed to cancelled.
    pub accepted: bool,
    /// The answer, in the shape of the question's kind.
    pub value: Option<Map<'static>>,
    /// A note to the model.
    pub note: Option<String>,
}
