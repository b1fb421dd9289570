//! What happens in sessions, as one closed enum with named fields.
//!
//! The runtime makes events, wires lay them out. An event knows its topic, and with it its delivery class. It
//! knows no wire's keys, no seq numbers and no bytes.

pub mod stage;

use std::sync::Arc;

use crate::catalogue::{Class, ErrorCode, Topic};
use crate::facts::{JobFacts, SessionFacts, SessionList};
use crate::message::{Block, EntryId, Message, SessionId, StopReason, ThinkingLevel, TurnId, Usage};
use crate::value::{Map, Value};
use stage::{Point, Stage};

/// The request that caused something: which connection sent it, and its id there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The connection.
    pub connection: u64,
    /// The request's `:id`.
    pub request: Arc<str>,
}

/// Something that happened, with where it happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// The session, where it concerns one.
    pub session: Option<SessionId>,
    /// The session's count of journalled entries when it happened.
    pub offset: u64,
    /// The turn, where it belongs to one.
    pub turn: Option<TurnId>,
    /// The journal entry that holds it, where one does.
    pub entry: Option<EntryId>,
    /// The request that caused it, where one did.
    pub cause: Option<Cause>,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Body {
    /// The session's state changed; the whole state.
    SessionUpdated(Arc<SessionFacts>),
    /// What the footer shows of the session's state changed.
    FooterUpdated(Arc<SessionFacts>),
    /// A connection's focus moved to the session.
    SessionResumed {
        /// The journal's path, where the session has been written.
        session_file: Option<Arc<str>>,
        /// Messages on the current branch.
        message_count: usize,
    },
    /// The newest part of a session's history.
    SessionRehydrated(Arc<Rehydration>),
    /// The live sessions changed.
    ContextUpdated {
        /// All of them.
        sessions: Arc<SessionList>,
        /// The one that has the connection's focus; filled in for each connection.
        active: Option<SessionId>,
    },
    /// New text of the answer.
    AssistantDelta(Arc<str>),
    /// New text of the thinking.
    ThinkingDelta(Arc<str>),
    /// A message of the model is complete, or failed.
    AssistantMessage(Arc<Message>),
    /// A message was put into the session, by whomever.
    UserMessage(Arc<UserMessage>),
    /// A turn ended, and the session is free.
    TurnEnded(Arc<TurnEnded>),
    /// A tool call was proposed.
    ToolStart(Arc<ToolCall>),
    /// New text of a call's arguments.
    ToolDelta {
        /// The call.
        tool_id: Arc<str>,
        /// What is new.
        arguments: Arc<str>,
    },
    /// A tool call runs.
    ToolExecuting(Arc<ToolCall>),
    /// The end of a running tool's output so far.
    ToolUpdate(Arc<ToolOutput>),
    /// A tool call ended.
    ToolResult(Arc<ToolOutput>),
    /// A turn passed a boundary, or a hook ran there.
    StagePassed(Arc<StagePassed>),
    /// A background job changed.
    JobUpdated(Arc<JobFacts>),
    /// The outcome of a slash command.
    CommandResult(Arc<CommandOutcome>),
    /// A command needs a choice, which the frontend offers in its own way.
    ChoiceRequested(Arc<Choice>),
    /// A typed question that the runtime waits for.
    QuestionAsked(Arc<QuestionAsked>),
    /// The same question, for connections that know only dialogs.
    DialogRequested(Arc<Dialog>),
    /// A question was answered or withdrawn.
    QuestionEnded(Arc<QuestionEnded>),
    /// The widgets' content changed; all of them.
    WidgetsUpdated(Arc<[Widget]>),
    /// Which widgets there are changed; all of them.
    WidgetSpecsUpdated(Arc<[WidgetSpec]>),
    /// The status texts changed; all of them.
    StatusUpdated(Arc<[StatusText]>),
    /// Something to tell the person.
    Notification(Arc<Notification>),
    /// Something that a person may want to know about the bridge's own work.
    Diagnostic(Arc<Diagnostic>),
    /// Something failed that no request waits for.
    Error {
        /// The code.
        code: ErrorCode,
        /// What happened and what to do.
        message: Arc<str>,
    },
}

/// A message that a turn answers.
#[derive(Debug, Clone)]
pub struct UserMessage {
    /// The message, as the journal has it.
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
        /// The name that the client gave in its handshake.
        name: Option<Box<str>>,
    },
    /// A workflow of the same session, or the session that delegated to this one.
    Runtime,
    /// A client of an earlier process, whose message waited.
    Earlier,
}

impl Sender {
    /// The name of the kind on every wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Client { .. } => "client",
            Self::Runtime => "runtime",
            Self::Earlier => "earlier",
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEnded {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The stop reason of its last message.
    pub stop: Option<StopReason>,
    /// What failed, for a person.
    pub error: Option<Arc<str>>,
    /// The sum over its model calls; `None` for the run of a workflow, whose stages are turns of their own.
    pub usage: Option<Usage>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The model finished.
    Completed,
    /// A person ended it at once.
    Aborted,
    /// A person ended it after the tool calls that ran.
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
    /// The side of the stage.
    pub point: Point,
    /// The hook that ran there, where the event is about one.
    pub hook: Option<HookOutcome>,
}

/// The outcome of one hook at a boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookOutcome {
    /// The hook's name.
    pub id: Arc<str>,
    /// The outcome, in a word: `allow`, `deny`, `changed` and so on.
    pub outcome: Arc<str>,
    /// The reason that a guard gave.
    pub reason: Option<Arc<str>>,
    /// The tool call that it ran for, at `tool-call`.
    pub tool_id: Option<Arc<str>>,
}

/// The outcome of a slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    /// What it is: `text`, `error`, or the name of what was done.
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

/// A choice that a frontend is asked to offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Its id, which the answer names.
    pub request: Arc<str>,
    /// What is chosen.
    pub kind: ChoiceKind,
    /// The question, for a person.
    pub prompt: &'static str,
    /// What there is to choose from, in order.
    pub items: Vec<ChoiceItem>,
}

/// What is chosen.
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

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One thing to choose.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceItem {
    /// Its id among the items.
    pub id: String,
    /// What the person reads.
    pub label: String,
    /// What choosing it means.
    pub pick: Pick,
    /// Further facts about a session or a message.
    pub about: About,
}

/// What choosing an item means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Resumes the session of this journal.
    Journal(String),
    /// Switches to a live session.
    Session(SessionId),
    /// Forks the session at a message.
    Entry(EntryId),
    /// Sets the model.
    Model {
        /// The provider's name.
        provider: String,
        /// The model's id there.
        id: String,
    },
    /// Sets the thinking level.
    Thinking(ThinkingLevel),
}

/// Facts that a frontend may show beside an item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// When the session was opened, RFC 3339.
    pub created_at: Option<Arc<str>>,
    /// The folder that the session works in.
    pub worktree: Option<Arc<str>>,
    /// The place that a search found.
    pub excerpt: Option<String>,
    /// Whether it is the session that asks, where it is a live one.
    pub is_active: Option<bool>,
    /// Whether a turn runs in it, where it is a live one.
    pub is_streaming: Option<bool>,
    /// Whether it is a message to fork at.
    pub is_fork_point: bool,
}

/// A typed question to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionAsked {
    /// The question's id.
    pub id: Arc<str>,
    /// Its kind, as the catalogue of interactions names it.
    pub kind: &'static str,
    /// What threads its events and the audit together.
    pub correlation: Arc<str>,
    /// What is asked, in the shape of its kind.
    pub payload: Map<'static>,
    /// The parent session and the subagent's name, where a subagent asks.
    pub child_of: Option<(SessionId, Arc<str>)>,
}

/// A question as a plain dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    /// The question's id.
    pub id: Arc<str>,
    /// The dialog's shape.
    pub shape: DialogShape,
    /// What is asked, in a line.
    pub title: String,
    /// What there is to read before answering.
    pub message: Option<String>,
    /// What a text field shows while it is empty.
    pub placeholder: Option<String>,
}

/// The shape of a dialog.
#[derive(Debug, Clone, PartialEq)]
pub enum DialogShape {
    /// Yes or no.
    Confirm,
    /// A text.
    Input,
    /// One of several.
    Select(Vec<DialogOption>),
}

/// One of the options of a dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct DialogOption {
    /// What the answer names.
    pub value: String,
    /// What the person reads.
    pub label: Value<'static>,
    /// What it means, where that is said.
    pub description: Option<Value<'static>>,
}

/// The end of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionEnded {
    /// The question's id.
    pub id: Arc<str>,
    /// What threads its events and the audit together.
    pub correlation: Arc<str>,
    /// Whether it was answered; else it was cancelled or withdrawn.
    pub accepted: bool,
    /// Who ended it.
    pub by: Arc<str>,
    /// The answer, where it is no secret.
    pub value: Option<Map<'static>>,
}

/// What a widget shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Widget {
    /// Its id and place.
    pub spec: WidgetSpec,
    /// Its lines.
    pub lines: Vec<String>,
}

/// A widget that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WidgetSpec {
    /// Who shows it.
    pub extension: &'static str,
    /// Its id.
    pub id: &'static str,
    /// Where it stands: `left` or `bottom`.
    pub placement: &'static str,
    /// Its title.
    pub title: &'static str,
}

/// A status text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusText {
    /// Who shows it.
    pub extension: &'static str,
    /// The text.
    pub text: String,
}

/// Something to tell the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// Its id.
    pub id: String,
    /// How important it is.
    pub level: Level,
    /// The text.
    pub message: String,
    /// Who tells it, where that is not the session itself.
    pub extension: Option<&'static str>,
}

/// How important a notification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Good to know.
    Info,
    /// Something may have to be done.
    Warning,
}

impl Level {
    /// The name on every wire: `info` or `warning`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// Something that a person may want to know about the bridge's own work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnostic {
    /// A session's journal was damaged and was repaired.
    Repaired {
        /// What was wrong and what was done.
        message: String,
    },
    /// A hook failed.
    HookFailed {
        /// The hook's name.
        hook: Arc<str>,
        /// What it does: `guard`, `transform` or `observer`.
        kind: &'static str,
        /// Where it stands.
        stage: Stage,
        /// On which side of the stage.
        point: Point,
        /// What was wrong and what follows.
        message: String,
    },
    /// Events were left out for a connection that was slow.
    Behind {
        /// How many.
        missed: u64,
    },
    /// Events were merged and replaced for a connection that was slow.
    Coalesced {
        /// Pieces of text that were joined to the one before.
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
            Self::HookFailed { .. } => "hook/failed",
            Self::Behind { .. } => "delivery/behind",
            Self::Coalesced { .. } => "delivery/coalesced",
        }
    }

    /// The text, for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Repaired { message } | Self::HookFailed { message, .. } => message.clone(),
            Self::Behind { missed } => format!(
                "This connection was so slow that {missed} events were left out. Its session follows as it is now."
            ),
            Self::Coalesced { joined, replaced } => format!(
                "This connection was slow: {joined} pieces of text were joined to others, {replaced} \
                 snapshots were replaced by newer ones. No text was lost."
            ),
        }
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
}

/// A tool call of the history.
#[derive(Debug, Clone)]
pub struct PastCall {
    /// The call; without arguments where it stands on an older page.
    pub call: ToolCall,
    /// The message with its result, where it has one.
    pub result: Option<Arc<Message>>,
}

/// A tool call, as events show it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The call's id.
    pub id: Arc<str>,
    /// The tool.
    pub name: Arc<str>,
    /// What it will do, in one line.
    pub summary: Arc<str>,
    /// The arguments as EDN text, as the model wrote them; empty while they are not known.
    pub arguments: Arc<str>,
    /// The arguments; nil while they are not known.
    pub parsed: Value<'static>,
}

/// A tool's output, as events show it.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// The call.
    pub call: Arc<ToolCall>,
    /// The bounded output.
    pub text: Arc<str>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Further facts: a diff, an exit code, a handle for the rest. Nil where there are none.
    pub details: Value<'static>,
}

/// What a value counts for beside its text: about its place in a collection.
const VALUE_WEIGHT: usize = 32;

/// What a session's state, or an item of a list, counts for: about its length on the wire.
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
    /// The topic.
    pub fn topic(&self) -> Topic {
        match self {
            Self::SessionUpdated(_) => Topic::SessionUpdated,
            Self::SessionResumed { .. } => Topic::SessionResumed,
            Self::SessionRehydrated(_) => Topic::SessionRehydrated,
            Self::ContextUpdated { .. } => Topic::ContextUpdated,
            Self::AssistantDelta(_) => Topic::AssistantDelta,
            Self::ThinkingDelta(_) => Topic::AssistantThinkingDelta,
            Self::AssistantMessage(_) => Topic::AssistantMessage,
            Self::UserMessage(_) => Topic::UserMessage,
            Self::TurnEnded(_) => Topic::TurnEnded,
            Self::ToolStart(_) => Topic::ToolStart,
            Self::ToolDelta { .. } => Topic::ToolDelta,
            Self::ToolExecuting(_) => Topic::ToolExecuting,
            Self::ToolUpdate(_) => Topic::ToolUpdate,
            Self::ToolResult(_) => Topic::ToolResult,
            Self::FooterUpdated(_) => Topic::FooterUpdated,
            Self::StagePassed(_) => Topic::TurnStage,
            Self::JobUpdated(_) => Topic::JobUpdated,
            Self::CommandResult(_) => Topic::CommandResult,
            Self::ChoiceRequested(_) => Topic::FrontendActionRequested,
            Self::QuestionAsked(_) => Topic::InteractionRequested,
            Self::DialogRequested(_) => Topic::DialogRequested,
            Self::QuestionEnded(_) => Topic::InteractionAnswered,
            Self::WidgetsUpdated(_) => Topic::WidgetsUpdated,
            Self::WidgetSpecsUpdated(_) => Topic::WidgetSpecsUpdated,
            Self::StatusUpdated(_) => Topic::StatusUpdated,
            Self::Notification(_) => Topic::Notification,
            Self::Diagnostic(_) => Topic::Diagnostic,
            Self::Error { .. } => Topic::Error,
        }
    }

    /// What happens to it when the client is slow.
    pub fn class(&self) -> Class {
        self.topic().class()
    }

    /// About how many bytes it holds, for the bounds of those who keep it.
    pub fn weight(&self) -> usize {
        let blocks = |message: &Message| {
            let length = |block: &Block| match block {
                Block::Text(text) | Block::Thinking(text) => text.len(),
                Block::Image { data, .. } => data.len(),
                Block::ToolCall { arguments, .. } => weight(arguments),
            };
            message.content.iter().map(length).fold(0, usize::saturating_add)
        };
        match self {
            Self::AssistantMessage(message) => blocks(message),
            Self::UserMessage(sent) => blocks(&sent.message),
            Self::SessionRehydrated(history) => {
                let result = |past: &PastCall| past.result.as_deref().map_or(VALUE_WEIGHT, blocks);
                let calls = history.tool_calls.iter().map(result).fold(0, usize::saturating_add);
                history.messages.iter().map(|message| blocks(message)).fold(calls, usize::saturating_add)
            }
            Self::ToolUpdate(output) | Self::ToolResult(output) => {
                output.text.len().saturating_add(weight(&output.details))
            }
            Self::ToolStart(call) | Self::ToolExecuting(call) => call.arguments.len(),
            // Of the facts themselves all share one copy.
            Self::SessionUpdated(_) | Self::FooterUpdated(_) | Self::SessionResumed { .. } => SNAPSHOT_WEIGHT,
            Self::JobUpdated(job) => job.command.len().saturating_add(job.output.len()),
            Self::CommandResult(outcome) => outcome.message.len(),
            Self::ChoiceRequested(choice) => choice.items.len().saturating_mul(SNAPSHOT_WEIGHT),
            Self::QuestionAsked(asked) => map_weight(&asked.payload),
            Self::DialogRequested(dialog) => {
                dialog.title.len().saturating_add(dialog.message.as_ref().map_or(0, String::len))
            }
            Self::QuestionEnded(ended) => ended.value.as_ref().map_or(VALUE_WEIGHT, map_weight),
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
                Diagnostic::Repaired { message } | Diagnostic::HookFailed { message, .. } => message.len(),
                Diagnostic::Behind { .. } | Diagnostic::Coalesced { .. } => VALUE_WEIGHT,
            },
            Self::StagePassed(_) | Self::TurnEnded(_) | Self::WidgetSpecsUpdated(_) => VALUE_WEIGHT,
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
