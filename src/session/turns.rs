//! Turns: what a person says to a session, and what ends the answer.

use std::sync::Arc;

use crate::event::{ChoiceKind, Pick};
use crate::facts::CommandFacts;
use crate::facts::editor::Editor;
use crate::message::TurnId;
use crate::session::call::{Call, Reply};

/// What is said to a session. A session has one turn at a time. An accepted message is on disk; events tell what
/// becomes of it.
pub trait Turns: Send + Sync {
    /// Starts a turn.
    fn prompt(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);

    /// Adds to the running turn, or starts one.
    fn steer(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);

    /// Queues until the running turn has ended, or starts one.
    fn follow_up(&self, call: Call, prompt: Prompt, reply: Reply<Prompted>);

    /// Ends the running turn at once.
    fn abort(&self, call: Call, reply: Reply<()>);

    /// Ends the running turn after its tool call. Returns whether it waits for one, and the dropped steering
    /// text.
    fn interrupt(&self, call: Call, reply: Reply<(bool, String)>);

    /// Cancels the wait for a retry.
    fn abort_retry(&self, call: Call, reply: Reply<()>);

    /// Summarises the older part of the conversation.
    fn compact(&self, call: Call, instructions: Option<String>, reply: Reply<Option<String>>);

    /// The slash commands with `:name`, `:usage`, `:description` and `:source`: the program's own, the prompt
    /// templates and the skills.
    fn commands(&self, call: Call, reply: Reply<Vec<CommandFacts>>);

    /// Runs a slash command; events carry its outcome.
    fn command(&self, call: Call, text: String, reply: Reply<()>);

    /// Answers a frontend action.
    fn action_result(&self, call: Call, result: ActionResult, reply: Reply<()>);

    /// Sets what the editor shows.
    fn update_context(&self, call: Call, editor: Editor, reply: Reply<()>);
}

/// A user's message.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The text.
    pub message: String,
    /// Images: MIME type and base64 data.
    pub images: Vec<(Arc<str>, Arc<str>)>,
    /// A repeated key gets the first answer again and has no further effect.
    pub idempotency_key: Option<String>,
}

/// An accepted message.
#[derive(Debug, Clone)]
pub struct Prompted {
    /// The turn that it started or joined; `None` if it waits for a turn of its own.
    pub turn: Option<TurnId>,
}

/// A frontend's answer to an action.
#[derive(Debug, Clone)]
pub struct ActionResult {
    /// The action's request.
    pub request_id: String,
    /// The kind of the choice, from the action's name; `None` if there is no such action.
    pub kind: Option<ChoiceKind>,
    /// The status of the answer.
    pub status: ActionStatus,
    /// The choice; `None` if the action does not offer it.
    pub pick: Option<Pick>,
    /// Why it failed.
    pub error_message: Option<String>,
}

/// The status of a frontend action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionStatus {
    /// The person made a choice.
    Submitted,
    /// The person declined.
    Cancelled,
    /// The frontend could not show it.
    Failed,
}
