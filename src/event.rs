//! Events of sessions, as one closed enum with named fields.
//!
//! The engine makes events, and wires lay them out. An event knows its delivery class and which older event it
//! continues. It knows no wire's topics and keys, no seq numbers and no bytes.

mod choice;
mod dialog;
pub mod question;
mod screen;
pub mod stage;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalogue::ErrorCode;
use crate::delivery::Class;
use crate::facts::mcp::McpStates;
use crate::facts::{JobFacts, SessionFacts, SessionList};
use crate::message::{Block, EntryId, Message, SessionId, StopReason, TurnId, Usage};
use crate::store::Entry;
use crate::value::{Map, Value};
pub use choice::{About, Choice, ChoiceItem, ChoiceKind, Pick};
pub use dialog::{Dialog, DialogOption, DialogShape, QuestionAsked, QuestionEnded, Subagent};
use question::Answer;
pub use screen::{Diagnostic, NoticeLevel, Notification, StatusText, Widget, WidgetSpec};
use stage::{Point, Stage};
pub use tools::{
    ChangedFile, FileAction, FileBytes, FileContent, FileEdit, FileRequest, ToolCall, ToolOutput, ToolRequest,
};

/// The request that caused an event: its connection and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The connection.
    pub connection: u64,
    /// The request's `:id`.
    pub request: Arc<str>,
}

/// An event, with its session, turn and cause.
#[derive(Debug, Clone)]
pub struct Event {
    /// The session, if it concerns one.
    pub session: Option<SessionId>,
    /// The session's count of journalled entries when it happened.
    pub offset: u64,
    /// The turn, if it belongs to one.
    pub turn: Option<TurnId>,
    /// Its journal entry, if it has one.
    pub entry: Option<EntryId>,
    /// The request that caused it, if any.
    pub cause: Option<Cause>,
    /// Where its text stands, if it is a delta of an answer. The session's handle fills it in.
    pub piece: Option<Piece>,
    /// Its content.
    pub body: Body,
}

/// The place of a delta in its answer: a client sees a gap or an overlap by it, also after deltas were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The number of the model call in its turn, from 1; a retry counts.
    pub call: u32,
    /// The characters of the same stream before it.
    pub at: u64,
}

impl Event {
    /// Whether it continues the text of an older event or replaces that one.
    pub fn continues(&self, older: &Self) -> bool {
        // Text belongs to a turn and to the request that started it; a snapshot replaces any older one.
        let same_origin =
            self.body.class() == Class::Latest || (older.turn == self.turn && older.cause == self.cause);
        let same_call = older.piece.map(|piece| piece.call) == self.piece.map(|piece| piece.call);
        std::mem::discriminant(&older.body) == std::mem::discriminant(&self.body)
            && older.session == self.session
            && same_origin
            && same_call
            && older.body.stream() == self.body.stream()
    }
}

/// The content of an event.
#[derive(Debug, Clone)]
pub enum Body {
    /// The session's state changed. Contains the whole state.
    SessionUpdated(Arc<SessionFacts>),
    /// The footer's part of the session's state changed.
    FooterUpdated(Arc<SessionFacts>),
    /// A connection's focus moved to the session.
    SessionResumed {
        /// Where its journal is, for people, once there is an entry.
        location: Option<Arc<str>>,
        /// Messages on the current branch.
        message_count: usize,
    },
    /// The newest part of a session's history.
    SessionRehydrated(Arc<Rehydration>),
    /// An entry was written to the session's journal.
    EntryWritten(Arc<Entry>),
    /// A replay is complete: what follows is live.
    Synced,
    /// A replay is not possible from where the client stands; the newest part of the history follows instead.
    Stale {
        /// Why: `ahead` or `other-entry`.
        reason: &'static str,
    },
    /// The list of live sessions changed.
    ContextUpdated {
        /// All of them.
        sessions: Arc<SessionList>,
        /// The connection's focus; filled in for each connection.
        active: Option<SessionId>,
    },
    /// New text of the answer.
    AssistantDelta(Arc<str>),
    /// New text of the thinking.
    ThinkingDelta(Arc<str>),
    /// A message of the model is complete or failed.
    AssistantMessage(Arc<Message>),
    /// A message was put into the session, by any sender.
    UserMessage(Arc<UserMessage>),
    /// Messages are no longer part of the conversation: others take their place.
    MessagesReplaced(Arc<Replaced>),
    /// What turns did to files was undone or redone.
    FilesUndone(Arc<FilesUndone>),
    /// The waiting messages changed. Contains all of them.
    QueueUpdated(Arc<WaitingMessages>),
    /// A turn ended, and the session is free.
    TurnEnded(Arc<TurnEnded>),
    /// A model call failed, and the turn waits before it retries it.
    RetryAwaited(Arc<RetryAwaited>),
    /// The summary of the older part of the conversation began; `asked` if a person requested it.
    CompactionStarted {
        /// Whether a person requested it, rather than the full window.
        asked: bool,
    },
    /// It ended.
    CompactionEnded(Arc<CompactionEnded>),
    /// A request of the control protocol for the session was answered.
    ControlHandled(Arc<ControlHandled>),
    /// A tool call was proposed.
    ToolStart(Arc<ToolCall>),
    /// New text of a call's arguments.
    ToolDelta {
        /// The call.
        tool_id: Arc<str>,
        /// The new text.
        arguments: Arc<str>,
    },
    /// A tool call started to run.
    ToolExecuting(Arc<ToolCall>),
    /// The latest output of a running tool.
    ToolUpdate(Arc<ToolOutput>),
    /// A tool call ended.
    ToolResult(Arc<ToolOutput>),
    /// The model calls a tool that a client offers. Only that client gets it.
    ToolRequested(Arc<ToolRequest>),
    /// A client is asked for the text of a file that it has open, or given one. Only that client gets it.
    FileRequested(Arc<FileRequest>),
    /// A file that a client has open has changed on disk.
    FileChanged(Arc<ChangedFile>),
    /// A request to a client ended without its answer. Only that client gets it.
    RequestCancelled {
        /// The request.
        request: Arc<str>,
        /// Why: `ended` or `timed-out`.
        reason: &'static str,
    },
    /// A turn passed a boundary, or a hook ran there.
    StagePassed(Arc<StagePassed>),
    /// A background job changed.
    JobUpdated(Arc<JobFacts>),
    /// The state of the session's MCP servers changed. Contains all of them.
    McpUpdated(Arc<McpStates>),
    /// The outcome of a slash command.
    CommandResult(Arc<CommandOutcome>),
    /// A command needs a choice, which the frontend offers natively.
    ChoiceRequested(Arc<Choice>),
    /// The engine asks a typed question and waits for its answer.
    QuestionAsked(Arc<QuestionAsked>),
    /// The same question, for connections that support only dialogs.
    DialogRequested(Arc<Dialog>),
    /// A question was answered or withdrawn.
    QuestionEnded(Arc<QuestionEnded>),
    /// The widgets' content changed. Contains all of them.
    WidgetsUpdated(Arc<[Widget]>),
    /// The set of widgets changed. Contains all of them.
    WidgetSpecsUpdated(Arc<[WidgetSpec]>),
    /// The status texts changed. Contains all of them.
    StatusUpdated(Arc<[StatusText]>),
    /// A message to the person.
    Notification(Arc<Notification>),
    /// A condition of the bridge itself that is worth reporting.
    Diagnostic(Arc<Diagnostic>),
    /// Something failed outside a pending request.
    Error {
        /// The code.
        code: ErrorCode,
        /// The cause, and what to do about it.
        message: Arc<str>,
    },
}

/// A message for a turn.
#[derive(Debug, Clone)]
pub struct UserMessage {
    /// The message, as in the journal.
    pub message: Arc<Message>,
    /// Its sender.
    pub from: Sender,
}

/// The sender of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// A connection of this process.
    Client {
        /// The connection's number.
        connection: u64,
        /// The client's name from its handshake.
        name: Option<Box<str>>,
    },
    /// A workflow of the same session, or the session that delegated to this one.
    Runtime,
    /// A client of an earlier process, whose message was waiting.
    Earlier,
    /// A sender of the control protocol. The message has its name.
    Control,
}

impl Sender {
    /// The name of the kind on every wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Client { .. } => "client",
            Self::Runtime => "runtime",
            Self::Earlier => "earlier",
            Self::Control => "control",
        }
    }
}

/// Messages that are no longer part of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// Their entries.
    pub entries: Vec<EntryId>,
    /// Why, in one word.
    pub reason: &'static str,
}

/// What turns did to files was undone or redone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesUndone {
    /// Whether it was undone, rather than redone.
    pub undone: bool,
    /// The files, absolute, each with what became of it.
    pub files: Vec<(String, &'static str)>,
}

/// The queued messages in a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitingMessages {
    /// Whether an abort holds them.
    pub is_held: bool,
    /// In the order in which they came or were moved.
    pub messages: Vec<WaitingMessage>,
}

/// A queued message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// Its journal entry.
    pub entry: EntryId,
    /// Its text, or the start of it.
    pub text: String,
    /// Whether the text is only the start.
    pub is_cut: bool,
    /// The number of its images.
    pub images: usize,
    /// What it waits for, in one word: `next-call` or `turn-end`.
    pub until: &'static str,
    /// Its sender.
    pub from: Sender,
    /// The name that a sender of control gave itself.
    pub sender: Option<Arc<str>>,
    /// The turn that it will start, if it starts one.
    pub turn: Option<TurnId>,
    /// Whether control has acknowledged it, so that nobody may change it.
    pub is_fixed: bool,
    /// When it came, RFC 3339.
    pub queued_at: Arc<str>,
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnded {
    /// Its outcome.
    pub outcome: TurnOutcome,
    /// The stop reason of its last message.
    pub stop: Option<StopReason>,
    /// The failure, for a person.
    pub error: Option<Arc<str>>,
    /// The kind of the failure of its last model call, such as `not-configured`, or [`ROUND_LIMIT`]; `None` if something
    /// else failed.
    pub error_kind: Option<&'static str>,
    /// The sum over its model calls; `None` for a workflow's run, whose stages are separate turns.
    pub usage: Option<Usage>,
    /// The end of a workflow's run; `None` for a turn.
    pub run: Option<RunEnd>,
}

/// The end of a workflow's run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The outcome of its last stage, or `aborted` or `interrupted`.
    pub outcome: Arc<str>,
    /// The reason, if it did not succeed.
    pub reason: Option<Arc<str>>,
}

impl TurnEnded {
    /// Whether the turn was ended because it had made as many model calls as it may.
    pub fn is_out_of_rounds(&self) -> bool {
        self.error_kind == Some(ROUND_LIMIT)
    }
}

/// The kind of failure of a turn that had made as many model calls as it may.
pub const ROUND_LIMIT: &str = "round-limit";

/// The kind of failure of a turn that made the same call again and again.
pub const LOOP: &str = "loop";

/// The kind of failure of a turn whose model ended twice without an answer.
pub const EMPTY_ANSWER: &str = "empty-answer";

/// The pause before a retry of a model call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryAwaited {
    /// The number of the retry, from 1.
    pub attempt: u32,
    /// The kind of the failure, such as `overloaded`.
    pub kind: Cow<'static, str>,
    /// The length of the pause.
    pub pause: Duration,
    /// The failure, for a person.
    pub error: Arc<str>,
    /// Whether what the failed call has shown is dropped: it answers anew.
    #[serde(default)]
    pub discarded: bool,
}

/// An answered request of the control protocol. Never its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlHandled {
    /// Its kind: `stdin`, `interrupt` or `elicitation`.
    pub kind: &'static str,
    /// Its key.
    pub request_id: Arc<str>,
    /// The team.
    pub team: Arc<str>,
    /// The name that its sender gave itself.
    pub sender: Arc<str>,
    /// The result, as in its acknowledgement.
    pub result: &'static str,
    /// Whether the key was known before.
    pub duplicate: bool,
    /// What happened, for a person.
    pub detail: Option<Arc<str>>,
}

/// The end of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionEnded {
    /// Its outcome. Unless it is completed, nothing has changed.
    pub outcome: TurnOutcome,
    /// The failure, for a person.
    pub error: Option<Arc<str>>,
    /// Tokens in the window before it, as far as known.
    pub tokens_before: u64,
    /// Tokens in the window now, as far as known.
    pub tokens: u64,
}

/// The outcome of a turn or of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// The model finished.
    Completed,
    /// A person ended it at once.
    Aborted,
    /// A person ended it after the running tool calls.
    Interrupted,
    /// The model, the disk, a hook or the bridge failed.
    Failed,
}

impl TurnOutcome {
    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// A boundary of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagePassed {
    /// The stage.
    pub stage: Stage,
    /// The point of the stage.
    pub point: Point,
    /// The hook that ran there, if the event is about one.
    pub hook: Option<HookOutcome>,
}

/// The outcome of one hook at a boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookOutcome {
    /// The hook's name.
    pub id: Arc<str>,
    /// The outcome as one word: `allow`, `deny`, `changed` and so on.
    pub outcome: Arc<str>,
    /// The guard's reason.
    pub reason: Option<Arc<str>>,
    /// The tool call that it ran for, at `tool-call`.
    pub tool_id: Option<Arc<str>>,
}

/// The outcome of a slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// Its kind: `text`, `error`, or the name of the action.
    pub kind: &'static str,
    /// The outcome, for a person.
    pub message: String,
}

impl CommandOutcome {
    /// The kind of a command that failed.
    pub const ERROR: &'static str = "error";

    /// Whether the command failed.
    pub fn is_error(&self) -> bool {
        self.kind == Self::ERROR
    }
}

/// The newest part of a session's history.
#[derive(Debug, Clone, Default)]
pub struct Rehydration {
    /// Messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The tool calls of these messages, in order.
    pub tool_calls: Vec<PastCall>,
    /// Whether there are older messages.
    pub more: bool,
    /// The turns of these messages that were cut off with their process.
    pub interrupted: Vec<TurnId>,
}

/// A tool call of the history.
#[derive(Debug, Clone)]
pub struct PastCall {
    /// The call; without arguments if it is on an older page.
    pub call: ToolCall,
    /// The message with its result, if there is one.
    pub result: Option<Arc<Message>>,
}

/// The weight of a value in addition to its text: roughly its place in a collection.
const VALUE_WEIGHT: usize = 32;

/// The weight of a session's state, or of an item of a list: roughly its length on the wire.
const SNAPSHOT_WEIGHT: usize = 512;

fn weight(value: &Value<'_>) -> usize {
    let sum = |weights: &mut dyn Iterator<Item = usize>| weights.fold(0, usize::saturating_add);
    let inner = match value {
        Value::Str(text) => text.len(),
        Value::List(items) | Value::Vector(items) => sum(&mut items.iter().map(weight)),
        Value::Set(items) => sum(&mut items.iter().map(weight)),
        Value::Map(map) => map_weight(map),
        _ => 0,
    };
    inner.saturating_add(VALUE_WEIGHT)
}

fn map_weight(map: &Map<'_>) -> usize {
    map.iter().map(|(key, value)| weight(key).saturating_add(weight(value))).fold(0, usize::saturating_add)
}

impl Body {
    /// Its delivery class.
    pub const fn class(&self) -> Class {
        match self {
            Self::AssistantDelta(_) | Self::ThinkingDelta(_) | Self::ToolDelta { .. } => Class::Coalescible,
            Self::SessionUpdated(_)
            | Self::FooterUpdated(_)
            | Self::ContextUpdated { .. }
            | Self::ToolUpdate(_)
            | Self::JobUpdated(_)
            | Self::McpUpdated(_)
            | Self::QueueUpdated(_)
            | Self::WidgetsUpdated(_)
            | Self::WidgetSpecsUpdated(_)
            | Self::StatusUpdated(_) => Class::Latest,
            Self::SessionResumed { .. }
            | Self::SessionRehydrated(_)
            | Self::EntryWritten(_)
            | Self::Synced
            | Self::Stale { .. }
            | Self::AssistantMessage(_)
            | Self::UserMessage(_)
            | Self::MessagesReplaced(_)
            | Self::FilesUndone(_)
            | Self::TurnEnded(_)
            | Self::RetryAwaited(_)
            | Self::CompactionStarted { .. }
            | Self::CompactionEnded(_)
            | Self::ControlHandled(_)
            | Self::ToolStart(_)
            | Self::ToolExecuting(_)
            | Self::ToolResult(_)
            | Self::ToolRequested(_)
            | Self::FileRequested(_)
            | Self::FileChanged(_)
            | Self::RequestCancelled { .. }
            | Self::StagePassed(_)
            | Self::CommandResult(_)
            | Self::ChoiceRequested(_)
            | Self::QuestionAsked(_)
            | Self::DialogRequested(_)
            | Self::QuestionEnded(_)
            | Self::Notification(_)
            | Self::Diagnostic(_)
            | Self::Error { .. } => Class::Lossless,
        }
    }

    /// The id that separates streams of one kind: of a tool call, or of a job.
    fn stream(&self) -> Option<&Arc<str>> {
        match self {
            Self::ToolDelta { tool_id, .. } => Some(tool_id),
            Self::ToolUpdate(output) => Some(&output.call.id),
            Self::JobUpdated(job) => Some(&job.id),
            _ => None,
        }
    }

    /// Whether only the client that it is addressed to gets it, with or without a subscription.
    pub const fn is_addressed(&self) -> bool {
        matches!(
            self,
            Self::ToolRequested(_)
                | Self::FileRequested(_)
                | Self::FileChanged(_)
                | Self::RequestCancelled { .. }
        )
    }

    /// Its approximate size in bytes, for the bounds of queues.
    pub fn weight(&self) -> usize {
        let blocks = |message: &Message| {
            let length = |block: &Block| match block {
                Block::Text(text) | Block::Thinking { text, .. } => text.len(),
                Block::Image { data, .. } => data.len(),
                Block::Sources(sources) => sources.weight(),
                Block::ToolCall { arguments, .. } => {
                    let unreadable = arguments.unreadable().map_or(0, |unreadable| unreadable.text.len());
                    weight(arguments).saturating_add(unreadable)
                }
            };
            message
                .content
                .iter()
                .map(length)
                .fold(message.details.as_ref().map_or(0, weight), usize::saturating_add)
        };
        match self {
            Self::AssistantMessage(message) => blocks(message),
            Self::UserMessage(sent) => blocks(&sent.message),
            Self::EntryWritten(entry) => match entry.body.message() {
                Some(message) => blocks(message).saturating_add(SNAPSHOT_WEIGHT),
                None => map_weight(&entry.body.data()).saturating_add(SNAPSHOT_WEIGHT),
            },
            Self::SessionRehydrated(history) => {
                let result = |past: &PastCall| past.result.as_deref().map_or(VALUE_WEIGHT, blocks);
                let calls = history.tool_calls.iter().map(result).fold(0, usize::saturating_add);
                history.messages.iter().map(|message| blocks(message)).fold(calls, usize::saturating_add)
            }
            Self::ToolUpdate(output) | Self::ToolResult(output) => {
                let edit = output.edit.as_ref().map_or(0, |edit| edit.weight());
                output.text.len().saturating_add(weight(&output.details)).saturating_add(edit)
            }
            Self::ToolStart(call) | Self::ToolExecuting(call) => call.arguments.len(),
            Self::ToolRequested(request) => request.call.arguments.len(),
            Self::FileChanged(file) => file.weight(),
            Self::FileRequested(request) => match &request.action {
                FileAction::Read | FileAction::Diagnostics => 0,
                FileAction::Write { text, .. } => text.len(),
            },
            // Of the facts themselves all share one copy.
            Self::SessionUpdated(_) | Self::FooterUpdated(_) | Self::SessionResumed { .. } => SNAPSHOT_WEIGHT,
            Self::JobUpdated(job) => job.command.len().saturating_add(job.output.len()),
            Self::QueueUpdated(queue) => queue
                .messages
                .iter()
                .map(|waiting| waiting.text.len().saturating_add(SNAPSHOT_WEIGHT))
                .fold(VALUE_WEIGHT, usize::saturating_add),
            Self::McpUpdated(states) => states.servers.len().saturating_mul(SNAPSHOT_WEIGHT),
            Self::CommandResult(outcome) => outcome.message.len(),
            Self::ChoiceRequested(choice) => choice.items.len().saturating_mul(SNAPSHOT_WEIGHT),
            Self::QuestionAsked(asked) => asked.content.weight(),
            Self::DialogRequested(dialog) => {
                dialog.title.len().saturating_add(dialog.message.as_ref().map_or(0, String::len))
            }
            Self::QuestionEnded(ended) => ended.answer.as_ref().map_or(VALUE_WEIGHT, Answer::weight),
            Self::WidgetsUpdated(widgets) => widgets
                .iter()
                .flat_map(|widget| &widget.lines)
                .map(String::len)
                .fold(0, usize::saturating_add),
            Self::StatusUpdated(texts) => {
                texts.iter().map(|status| status.text.len()).fold(0, usize::saturating_add)
            }
            Self::Notification(notification) => notification.message.len(),
            Self::Diagnostic(diagnostic) => match diagnostic.as_ref() {
                Diagnostic::Repaired { message }
                | Diagnostic::RulesUnread { message }
                | Diagnostic::HookFailed { message, .. } => message.len(),
                Diagnostic::Behind { .. } | Diagnostic::Coalesced { .. } => VALUE_WEIGHT,
            },
            Self::RetryAwaited(retry) => retry.error.len(),
            Self::FilesUndone(undone) => {
                let paths = undone.files.iter().map(|(path, _)| path.len().saturating_add(VALUE_WEIGHT));
                paths.fold(VALUE_WEIGHT, usize::saturating_add)
            }
            Self::MessagesReplaced(replaced) => replaced.entries.len().saturating_mul(VALUE_WEIGHT),
            Self::StagePassed(_)
            | Self::RequestCancelled { .. }
            | Self::Synced
            | Self::Stale { .. }
            | Self::TurnEnded(_)
            | Self::CompactionStarted { .. }
            | Self::CompactionEnded(_)
            | Self::ControlHandled(_)
            | Self::WidgetSpecsUpdated(_) => VALUE_WEIGHT,
            Self::ContextUpdated { sessions, .. } => sessions.weight(),
            Self::Error { message: text, .. }
            | Self::AssistantDelta(text)
            | Self::ThinkingDelta(text)
            | Self::ToolDelta { arguments: text, .. } => text.len(),
        }
    }

    /// The text of an event that can be joined with a neighbour of its stream.
    pub fn text(&self) -> Option<&Arc<str>> {
        match self {
            Self::AssistantDelta(text)
            | Self::ThinkingDelta(text)
            | Self::ToolDelta { arguments: text, .. } => Some(text),
            _ => None,
        }
    }
}
