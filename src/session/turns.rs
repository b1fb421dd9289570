//! Turns: what a person says to a session, and what ends the answer. Knows neither models nor tools.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{ChoiceKind, Pick};
use crate::facts::CommandFacts;
use crate::facts::editor::Editor;
use crate::message::TurnId;
use crate::message::image::Image;
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

    /// Asks the model again after an answer that failed or was ended, or that is not there.
    fn ask_again(&self, call: Call, how: Again, key: Option<String>, reply: Reply<Prompted>);

    /// Ends the running turn at once. Returns whether the key was known, and nothing was done.
    fn abort(&self, call: Call, key: Option<String>, reply: Reply<bool>);

    /// Ends the running turn after its tool calls.
    fn interrupt(&self, call: Call, key: Option<String>, reply: Reply<Interrupted>);

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

/// How the model is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Again {
    /// The new answer replaces the one that failed or was ended.
    Retry,
    /// The model goes on after it.
    Continue,
}

impl Again {
    /// The word in journals and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Continue => "continue",
        }
    }
}

/// A user's message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Prompt {
    /// The text.
    pub message: String,
    /// Images.
    pub images: Vec<Image>,
    /// A repeated key gets the first answer again and has no further effect, also in a later process.
    pub idempotency_key: Option<String>,
}

/// An accepted message.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Prompted {
    /// The turn that it started or joined; `None` if it waits for a turn of its own.
    pub turn: Option<TurnId>,
    /// On a repeated key: what became of the message. Nothing has happened then.
    pub repeated: Option<TurnState>,
}

/// What became of an accepted message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnState {
    /// It waits.
    Waiting,
    /// Its turn runs.
    Running,
    /// Its turn has ended, or the command was run.
    Done,
    /// The process ended before its turn. Nothing is begun again by itself.
    CutOff,
    /// A client that interrupted the turn got its text back.
    Returned,
}

impl TurnState {
    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::CutOff => "cut-off",
            Self::Returned => "returned",
        }
    }
}

/// An interrupted turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// The ids of the tool calls that run; it ends after them.
    pub waits_for: Vec<Arc<str>>,
    /// The steering text that is not delivered.
    pub text: String,
    /// Whether the key was known. Nothing has happened then; the text is that of the first answer.
    pub is_repeated: bool,
    /// What it ended.
    pub ended: Ended,
}

/// What an interrupt ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The running turn.
    Turn,
    /// Nothing: no turn ran.
    #[default]
    Idle,
    /// Nothing: the running turn began later.
    Later,
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
