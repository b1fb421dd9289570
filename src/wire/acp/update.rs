//! What an editor is told and asked, in plain types: of no version of the protocol. Decides nothing.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::acp::{CallKind, CallState, PermissionKind, Stop};
use crate::value::Value;
use crate::wire::acp::codes::Fault;

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The person's.
    User,
    /// The model's.
    Agent,
    /// The model's thinking.
    Thought,
}

/// Something that is told of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Update<'e> {
    /// A piece of a message.
    Text {
        /// Whose.
        voice: Voice,
        /// The message that it is a piece of.
        message: Cow<'e, str>,
        /// The text.
        text: Cow<'e, str>,
    },
    /// An image of a message.
    Image {
        /// Whose.
        voice: Voice,
        /// The message.
        message: Cow<'e, str>,
        /// The MIME type.
        mime_type: &'e str,
        /// The bytes, base64.
        data: &'e str,
    },
    /// A tool call that was not told before.
    Call(Box<ShownCall>),
    /// What is new of a tool call.
    CallChanged(Box<ShownCall>),
    /// The steps of a workflow. Replaces the earlier ones.
    Plan(Vec<PlanStep>),
    /// The slash commands. Replaces the earlier ones.
    Commands(Vec<ShownCommand>),
    /// The permission mode.
    Mode(&'static str),
    /// The settings. Replaces the earlier ones.
    Options(Vec<ShownOption>),
    /// The title.
    Title(String),
    /// The use of the model's window, and the cost so far in US dollars.
    Usage {
        /// Tokens in the window.
        used: u64,
        /// The size of the window.
        size: u64,
        /// The cost, if any is known.
        cost: Option<f64>,
    },
    /// A message to the person beside the conversation.
    Notice {
        /// Whether the person may have to act.
        warns: bool,
        /// The text.
        text: String,
    },
    /// A summary of the older part of the conversation is made, or has ended.
    Compaction {
        /// Its id.
        id: String,
        /// Its state.
        state: CompactionState,
        /// Why it failed.
        error: Option<String>,
    },
    /// What the session does.
    State(Foreground),
}

/// What a session does.
#[derive(Debug, Clone, PartialEq)]
pub enum Foreground {
    /// A turn or a command runs.
    Running,
    /// It waits for the person.
    Blocked,
    /// Nothing runs. How the last turn ended, if one just has.
    Idle(Option<Result<Stop, Fault>>),
}

/// The state of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionState {
    /// It runs.
    Running,
    /// It has ended.
    Completed,
    /// A person ended it.
    Cancelled,
    /// It failed.
    Failed,
}

/// What is told of a tool call: all that is there is new.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShownCall {
    /// Its id.
    pub id: Arc<str>,
    /// The tool.
    pub tool: Option<Arc<str>>,
    /// What it does, on one line.
    pub title: Option<String>,
    /// Its kind.
    pub kind: Option<CallKind>,
    /// Its state.
    pub state: Option<CallState>,
    /// Its output so far. Replaces the earlier one.
    pub content: Option<Vec<CallContent>>,
    /// The files that it touches, absolute.
    pub places: Option<Vec<PathBuf>>,
    /// Its arguments.
    pub input: Option<Value<'static>>,
    /// Further facts about its result.
    pub output: Option<Value<'static>>,
}

/// A part of what a tool call shows.
#[derive(Debug, Clone, PartialEq)]
pub enum CallContent {
    /// A text.
    Text(String),
    /// An image.
    Image {
        /// The MIME type.
        mime_type: Arc<str>,
        /// The bytes, base64.
        data: Arc<str>,
    },
    /// A change of a file whose whole texts are not known any more.
    Patch {
        /// The file, absolute.
        path: PathBuf,
        /// Whether there was no file before.
        is_new: bool,
        /// The unified diff.
        diff: String,
    },
    /// A change of a file.
    Diff {
        /// The file, absolute.
        path: PathBuf,
        /// The text before; `None` for a new file.
        old: Option<Arc<str>>,
        /// The text after.
        new: Arc<str>,
    },
}

/// A step of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// What it is.
    pub text: String,
    /// Its state: pending, running or over.
    pub state: CallState,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCommand {
    /// Its name, without the slash.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// What its arguments are, if it takes any.
    pub hint: Option<String>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownOption {
    /// Its id.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What it is about.
    pub category: Category,
    /// Its value, and those that it can have.
    pub value: OptionValue,
}

/// What a setting is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// The permission mode.
    Mode,
    /// The model.
    Model,
    /// How much the model thinks.
    Thinking,
    /// How the model is used.
    Use,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// On or off.
    Switch(bool),
    /// One of several, in groups; a group without a name stands alone.
    Choice {
        /// The value's id.
        current: String,
        /// The groups.
        groups: Vec<ChoiceGroup>,
    },
}

/// Values of a setting that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceGroup {
    /// Its name; `None` if there is one group.
    pub name: Option<String>,
    /// The values.
    pub values: Vec<ChoiceValue>,
}

/// A value of a setting: its id, its name, and what it is.
pub type ChoiceValue = (String, String, Option<String>);

/// A request for a permission, or for a choice among a few options.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    /// What it is about.
    pub call: ShownCall,
    /// What can be chosen: id, name and kind.
    pub options: Vec<(&'static str, String, PermissionKind)>,
    /// The same for options that are numbered: their names. Then `options` is what follows them.
    pub numbered: Vec<String>,
}

/// A form with one field, or a page to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A text.
    Text,
    /// Yes or no, with the usual answer.
    Flag(bool),
    /// One of several.
    Choice(Vec<String>),
    /// A page.
    Page(String),
}

/// The name of the field of a form.
pub const FIELD: &str = "answer";

/// What was asked back.
#[derive(Debug, Clone, PartialEq)]
pub enum EditorAnswer {
    /// The option with that id.
    Option(String),
    /// A text.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// It was done.
    Done,
    /// The person declined.
    Declined,
    /// The person dismissed it, or the answer could not be read.
    Dismissed,
}
