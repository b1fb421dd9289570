//! What happens in sessions, as one closed enum.
//!
//! The runtime makes events, endpoints write them. An event knows its topic (and with it its delivery
//! class, from the catalogue) and how to lay out its payload, but for the part that differs between
//! connections, which an endpoint fills in; it knows nothing of seq numbers or bytes.

use std::fmt;
use std::sync::Arc;

use crate::catalogue::{Class, ErrorCode, Topic};
use crate::message::{Block, EntryId, Message, SessionId, TurnId};
use crate::value::{Map, Value};

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
    SessionUpdated(Arc<Map<'static>>),
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
        sessions: Arc<dyn LiveSessions>,
        /// The one that has the connection's focus; filled in for each connection.
        active: Option<SessionId>,
    },
    /// New text of the answer.
    AssistantDelta(Arc<str>),
    /// New text of the thinking.
    ThinkingDelta(Arc<str>),
    /// A message of the model is complete, or failed.
    AssistantMessage(Arc<Message>),
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
    /// An event whose payload its maker laid out, of any other topic.
    Payload(Topic, Arc<Map<'static>>),
    /// Something failed that no request waits for.
    Error {
        /// The code.
        code: ErrorCode,
        /// What happened and what to do.
        message: Arc<str>,
    },
}

/// The live sessions, for `context/updated`. They may be a thousand, and every connection is told them at each
/// turn's beginning and end: all share one list, and each slot is laid out while it is written.
pub trait LiveSessions: fmt::Debug + Send + Sync {
    /// Shows each session's slot, oldest first, without what differs between connections.
    fn each(&self, show: &mut dyn FnMut(&SessionId, Map<'_>));

    /// The widget with the tree that they form.
    fn tree_widget(&self) -> Map<'_>;

    /// The newer the list, the greater, in one process.
    fn version(&self) -> u64;

    /// About how many bytes it keeps.
    fn weight(&self) -> usize;
}

/// The newest part of a session's history.
#[derive(Debug, Clone, Default)]
pub struct Rehydration {
    /// Messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Tool calls by id, each as `tool/result` shows it.
    pub tool_calls: Map<'static>,
    /// The calls' ids, in order.
    pub tool_order: Vec<Arc<str>>,
    /// Whether there are older messages.
    pub more: bool,
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
            Self::ToolStart(_) => Topic::ToolStart,
            Self::ToolDelta { .. } => Topic::ToolDelta,
            Self::ToolExecuting(_) => Topic::ToolExecuting,
            Self::ToolUpdate(_) => Topic::ToolUpdate,
            Self::ToolResult(_) => Topic::ToolResult,
            Self::Payload(topic, _) => *topic,
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
            Self::SessionRehydrated(history) => {
                let calls = map_weight(&history.tool_calls);
                history.messages.iter().map(|message| blocks(message)).fold(calls, usize::saturating_add)
            }
            Self::ToolUpdate(output) | Self::ToolResult(output) => {
                output.text.len().saturating_add(weight(&output.details))
            }
            Self::ToolStart(call) | Self::ToolExecuting(call) => call.arguments.len(),
            Self::SessionUpdated(map) | Self::Payload(_, map) => map_weight(map),
            Self::ContextUpdated { sessions, .. } => sessions.weight(),
            Self::Error { message: text, .. }
            | Self::AssistantDelta(text)
            | Self::ThinkingDelta(text)
            | Self::ToolDelta { arguments: text, .. } => text.len(),
            Self::SessionResumed { .. } => VALUE_WEIGHT,
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

impl Event {
    /// The payload as the wire shows it, without the connection's own parts.
    pub fn payload(&self) -> Map<'static> {
        let mut map = match &self.body {
            Body::SessionUpdated(map) | Body::Payload(_, map) => map.as_ref().clone(),
            Body::ContextUpdated { sessions, .. } => {
                let mut slots = Vec::new();
                sessions.each(&mut |_, slot| slots.push(Value::from(slot.into_owned())));
                let mut map = Map::new();
                map.put("sessions", Value::vector(slots));
                map.put("session-tree-widget", sessions.tree_widget().into_owned());
                map
            }
            Body::SessionResumed { session_file, message_count } => {
                let mut map = Map::new();
                map.put(
                    "session-file",
                    session_file.as_ref().map(|file| Value::from(file.as_ref().to_owned())),
                );
                map.put("message-count", Value::from(*message_count));
                map
            }
            Body::SessionRehydrated(history) => {
                let mut map = Map::new();
                map.put("messages", Value::vector(history.messages.iter().map(|message| message.to_value())));
                map.put("tool-calls", history.tool_calls.clone());
                map.put(
                    "tool-order",
                    Value::vector(history.tool_order.iter().map(|id| Value::from(id.as_ref().to_owned()))),
                );
                map.put("more", history.more);
                map
            }
            Body::AssistantDelta(text) | Body::ThinkingDelta(text) => {
                let mut map = Map::new();
                map.put("text", text.as_ref().to_owned());
                map
            }
            Body::AssistantMessage(message) => assistant_message(message),
            Body::ToolStart(call) | Body::ToolExecuting(call) => call.payload(),
            Body::ToolDelta { tool_id, arguments } => {
                let mut map = Map::new();
                map.put("tool-id", tool_id.as_ref().to_owned());
                map.put("arguments", arguments.as_ref().to_owned());
                map
            }
            Body::ToolUpdate(output) | Body::ToolResult(output) => output.payload(),
            Body::Error { code, message } => {
                let mut map = Map::new();
                map.put("error-code", code.as_str());
                map.put("error-message", message.as_ref().to_owned());
                map
            }
        };
        if let Some(session) = &self.session {
            map.put("session-id", session.to_value());
            map.put("offset", crate::message::count(self.offset));
        }
        if let Some(turn) = &self.turn {
            map.put("turn-id", turn.to_value());
        }
        if let Some(entry) = &self.entry {
            map.put("entry-id", entry.to_value());
        }
        map
    }
}

fn assistant_message(message: &Message) -> Map<'static> {
    let mut map = Map::new();
    map.put("role", message.role.as_str());
    map.put("content", message.content_value());
    map.put("text", message.text());
    if let Some(reason) = message.stop_reason {
        map.put("stop-reason", reason.as_str());
    }
    if let Some(text) = &message.error_message {
        map.put("error-message", text.as_ref().to_owned());
    }
    if let Some(usage) = &message.usage {
        map.put("usage", usage.to_value());
    }
    map
}

impl ToolCall {
    fn payload(&self) -> Map<'static> {
        let mut map = self.head();
        if !self.arguments.is_empty() {
            map.put("arguments", self.arguments.as_ref().to_owned());
            map.put("parsed-args", self.parsed.clone());
        }
        map
    }

    fn head(&self) -> Map<'static> {
        let mut map = Map::new();
        map.put("tool-id", self.id.as_ref().to_owned());
        map.put("tool-name", self.name.as_ref().to_owned());
        map.put("call-summary", self.summary.as_ref().to_owned());
        map
    }
}

impl ToolOutput {
    /// The output as `tool/update` and `tool/result` show it.
    pub fn payload(&self) -> Map<'static> {
        let mut map = self.call.head();
        let text = self.text.as_ref().to_owned();
        let mut block = Map::new();
        block.put("type", Value::keyword("text"));
        block.put("text", text.clone());
        map.put("content", Value::vector([Value::from(block)]));
        map.put("result-text", text);
        map.put("is-error", self.is_error);
        if !self.details.is_nil() {
            map.put("details", self.details.clone());
        }
        map
    }
}
