//! The conversation's plain data: ids, messages and their blocks, usage, thinking levels.
//!
//! Shared by events, sessions, providers and the store. Knows [`Value`] and nothing of where a
//! message comes from or goes to. The shapes are those of the wire contract; the same shapes stand
//! in a journal, so that one conversion each way serves both.

mod arguments;
pub mod image;
mod replay;
mod withheld;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use arguments::{Arguments, UnreadableArguments};
pub use replay::Replay;
pub use withheld::WithheldPart;

use crate::value::{Map, Value};

/// Declares an identifier: shared text that is cheap to clone and compares as text.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The identifier as a value that owns its text.
            pub fn to_value(&self) -> Value<'static> {
                Value::from(self.0.as_ref().to_owned())
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// A session, unique over all projects.
    SessionId
);
id!(
    /// A turn: one pass from a user's input to the rendered answer.
    TurnId
);
id!(
    /// An entry of a session's journal.
    EntryId
);

impl SessionId {
    /// How the id of every session of this program begins.
    pub const PREFIX: &str = "s-";
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
    /// Instructions that are neither.
    System,
}

impl Role {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::User, Self::Assistant, Self::Tool, Self::System].into_iter().find(|role| role.as_str() == name)
    }
}

/// One part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text to read, Markdown from a model.
    Text(Arc<str>),
    /// The model's thinking, where a provider shows it.
    Thinking(Arc<str>),
    /// A proposed tool call.
    ToolCall {
        /// The provider's id for the call, unique in the session.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments.
        arguments: Arguments,
    },
    /// An image.
    Image {
        /// The MIME type, such as `image/png`.
        mime_type: Arc<str>,
        /// The bytes, base64.
        data: Arc<str>,
    },
}

impl Block {
    /// The block as the wire shows it.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        match self {
            Self::Text(text) => {
                map.put("type", Value::keyword("text"));
                map.put("text", text.as_ref().to_owned());
            }
            Self::Thinking(text) => {
                map.put("type", Value::keyword("thinking"));
                map.put("text", text.as_ref().to_owned());
            }
            Self::ToolCall { id, name, arguments } => {
                map.put("type", Value::keyword("tool-call"));
                map.put("id", id.as_ref().to_owned());
                map.put("name", name.as_ref().to_owned());
                map.put("arguments", (**arguments).clone());
                map.put_some("unreadable", arguments.unreadable().map(UnreadableArguments::to_value));
            }
            Self::Image { mime_type, data } => {
                map.put("type", Value::keyword("image"));
                map.put("mime-type", mime_type.as_ref().to_owned());
                map.put("data", data.as_ref().to_owned());
            }
        }
        Value::from(map)
    }

    /// Reads a block back; `None` where the shape is another.
    pub fn from_value(value: &Value<'_>) -> Option<Self> {
        let text = |key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
        Some(match value.get("type")?.as_keyword()? {
            "text" => Self::Text(text("text")?),
            "thinking" => Self::Thinking(text("text")?),
            "tool-call" => Self::ToolCall {
                id: text("id")?,
                name: text("name")?,
                arguments: match value.get("unreadable").and_then(UnreadableArguments::from_value) {
                    Some(unreadable) => Arguments::Unreadable(Box::new(unreadable)),
                    None => arguments::from_journal(value.get("arguments")?),
                },
            },
            "image" => Self::Image { mime_type: text("mime-type")?, data: text("data")? },
            _ => return None,
        })
    }
}

/// Tokens and cost of one model call, or a sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Tokens of the prompt that were not read from a cache.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens of the prompt that the provider read from its cache.
    pub cache_read: u64,
    /// Tokens of the prompt that the provider wrote to its cache.
    pub cache_write: u64,
    /// Cost in US dollars; zero where no price is known.
    pub cost: f64,
}

impl Usage {
    /// Adds another call's figures.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cost += other.cost;
    }

    /// All tokens that stood in the model's window.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// `{:input n :output n :cache-read n :cache-write n :cost x}`.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("input", count(self.input));
        map.put("output", count(self.output));
        map.put("cache-read", count(self.cache_read));
        map.put("cache-write", count(self.cache_write));
        map.put("cost", Value::from(self.cost));
        Value::from(map)
    }

    /// Reads figures back; what is missing or negative counts as zero.
    pub fn from_value(value: &Value<'_>) -> Self {
        let figure =
            |key| value.get(key).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        Self {
            input: figure("input"),
            output: figure("output"),
            cache_read: figure("cache-read"),
            cache_write: figure("cache-write"),
            cost: value.get("cost").and_then(Value::as_f64).unwrap_or(0.0),
        }
    }
}

/// How a model call went. Its times are those in which the turn waited for the model: a hook or a client that holds
/// the turn up makes none longer, and what a model sends meanwhile is not waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Up to the first piece of its answer, in milliseconds; `None` where none came.
    pub first_token_ms: Option<u64>,
    /// Up to the end of its answer, in milliseconds.
    pub duration_ms: u64,
    /// Tries before it that failed; their time is not in the other figures.
    pub retries: u32,
}

impl Timing {
    /// `{:first-token-ms n :duration-ms n :retries n}`, the first where it is known.
    fn to_value(self) -> Value<'static> {
        let mut map = Map::new();
        map.put_some("first-token-ms", self.first_token_ms.map(count));
        map.put("duration-ms", count(self.duration_ms));
        map.put("retries", count(self.retries.into()));
        Value::from(map)
    }

    /// Reads figures back; `None` where the duration is missing or none.
    fn from_value(value: &Value<'_>) -> Option<Self> {
        let figure = |key| value.get(key).and_then(Value::as_i64).and_then(|n| u64::try_from(n).ok());
        Some(Self {
            first_token_ms: figure("first-token-ms"),
            duration_ms: figure("duration-ms")?,
            retries: figure("retries").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        })
    }
}

/// Tokens for each second, to a tenth; `None` where there was no time or no token.
pub fn per_second(tokens: u64, millis: u64) -> Option<f64> {
    // Exact as long as a count fits in 32 bits; beyond that nobody counts tokens.
    let figure = |n: u64| u32::try_from(n).ok().filter(|n| *n > 0).map(f64::from);
    Some((figure(tokens)? * 10_000.0 / figure(millis)?).round() / 10.0)
}

/// A count in at most five characters, for a person: 950, 1.2k, 45k, 1.2M, 3.0G.
pub fn short(count: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = count.saturating_mul(10) / unit;
        if tenths < 100 { format!("{}.{}", tenths / 10, tenths % 10) } else { (tenths / 10).to_string() }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        1_000_000..1_000_000_000 => format!("{}M", tenths(1_000_000)),
        _ => format!("{}G", tenths(1_000_000_000)),
    }
}

/// A count as an EDN integer; the wire has no integer above `i64::MAX` worth telling apart.
pub fn count(n: u64) -> Value<'static> {
    Value::int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Why a model call, or the turn it belongs to, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model finished.
    EndTurn,
    /// The model asks for tools.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// The provider refused.
    Refusal,
    /// The user aborted the turn.
    Aborted,
    /// The user interrupted the turn after a tool call.
    Interrupted,
    /// The call failed.
    Error,
}

impl StopReason {
    const ALL: [Self; 7] = [
        Self::EndTurn,
        Self::ToolUse,
        Self::MaxTokens,
        Self::Refusal,
        Self::Aborted,
        Self::Interrupted,
        Self::Error,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end-turn",
            Self::ToolUse => "tool-use",
            Self::MaxTokens => "max-tokens",
            Self::Refusal => "refusal",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }

    /// The reason of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// How much a model may think before it answers. The order is the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum ThinkingLevel {
    /// None.
    #[default]
    Off,
    /// As little as the provider has.
    Minimal,
    /// A little.
    Low,
    /// The middle.
    Medium,
    /// Much.
    High,
    /// As much as the provider has.
    Xhigh,
}

impl ThinkingLevel {
    /// All levels, least first; an integer on the wire is a place in this list.
    pub const ALL: [Self; 6] = [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
        }
    }

    /// The level of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The level that a model with these levels has in this one's place: the most that is no more than this,
    /// else its least.
    pub fn within(self, levels: &[Self]) -> Self {
        let below = levels.iter().filter(|level| **level <= self).max();
        below.or_else(|| levels.iter().min()).copied().unwrap_or(Self::Off)
    }

    /// The level after this one, from the last back to the first.
    pub fn next(self) -> Self {
        let mut after = Self::ALL.into_iter().skip_while(|level| *level != self).skip(1);
        after.next().unwrap_or(Self::Off)
    }
}

/// What a session's tools may do without asking; narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Nothing may be changed or run.
    ReadOnly,
    /// Reading inside the workspace is free, anything else asks.
    #[default]
    Ask,
    /// Changing files inside the workspace is free too.
    AcceptEdits,
    /// Nothing asks.
    Yolo,
}

impl Mode {
    /// All modes, in the order in which a person reads them.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::ReadOnly, Self::Yolo];

    /// Their names, in the same order.
    pub const NAMES: [&'static str; 4] =
        [Self::Ask.as_str(), Self::AcceptEdits.as_str(), Self::ReadOnly.as_str(), Self::Yolo.as_str()];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::ReadOnly => "read-only",
            Self::Yolo => "yolo",
        }
    }

    /// The mode of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The model of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledModel {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub id: Arc<str>,
}

impl CalledModel {
    /// As the journal has it.
    pub fn to_value(&self) -> Value<'static> {
        let map = Map::new().with("provider", self.provider.as_ref().to_owned());
        Value::from(map.with("id", self.id.as_ref().to_owned()))
    }

    /// Reads it back; `None` if a part is missing.
    pub fn from_value(value: &Value<'_>) -> Option<Self> {
        let text = |key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
        Some(Self { provider: text("provider")?, id: text("id")? })
    }
}

/// One message of a conversation. Its id is the id of the journal entry that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The entry's id.
    pub id: EntryId,
    /// The entry that it follows.
    pub parent_id: Option<EntryId>,
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
    /// When, RFC 3339 in UTC.
    pub timestamp: Arc<str>,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// What the model call cost, on an assistant's message.
    pub usage: Option<Usage>,
    /// How the model call went, on an assistant's message. Kept in the journal and told by the graph; on the
    /// wire a message does not have it.
    pub timing: Option<Timing>,
    /// The model that was called, on an assistant's message. Kept in the journal; on the wire a message does not have it.
    pub model: Option<CalledModel>,
    /// Why the model call ended, on an assistant's message.
    pub stop_reason: Option<StopReason>,
    /// What went wrong, where something did.
    pub error_message: Option<Arc<str>>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<Arc<str>>,
    /// The tool that a tool's message comes from.
    pub tool_name: Option<Arc<str>>,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
    /// Further facts of a tool's message for frontends, such as the diff of what was written. Models are not told.
    pub details: Option<Value<'static>>,
    /// How long the call ran that a tool's message answers, in milliseconds; `None` where it did not run.
    pub duration_ms: Option<u64>,
    /// Who sent a user's message that came through control: a name that the sender gave itself. Models are not told.
    pub sender: Option<Arc<str>>,
    /// Data that the provider wants back with an assistant's message, in order. Kept in the journal; nobody else is shown it.
    pub replays: Vec<Replay>,
}

impl Message {
    /// A message with nothing but a role, its place and its content.
    pub fn new(id: EntryId, role: Role, content: Vec<Block>, timestamp: Arc<str>) -> Self {
        Self {
            id,
            parent_id: None,
            role,
            content,
            timestamp,
            turn_id: None,
            usage: None,
            timing: None,
            model: None,
            stop_reason: None,
            error_message: None,
            tool_call_id: None,
            tool_name: None,
            is_error: None,
            details: None,
            duration_ms: None,
            sender: None,
            replays: Vec::new(),
        }
    }

    /// Whether it says nothing to anybody, a provider included.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.replays.is_empty()
    }

    /// The text blocks, joined.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| if let Block::Text(text) = block { Some(text.as_ref()) } else { None })
            .collect()
    }

    /// The tokens of the answer for each second that the model was waited for, where both are known.
    pub fn tokens_per_second(&self) -> Option<f64> {
        per_second(self.usage?.output, self.timing?.duration_ms)
    }

    /// The content as a vector of blocks.
    pub fn content_value(&self) -> Value<'static> {
        Value::vector(self.content.iter().map(Block::to_value))
    }

    /// The message as the journal keeps it.
    pub fn to_journal(&self) -> Value<'static> {
        let mut value = self.to_value();
        if let Value::Map(map) = &mut value {
            map.put_some("timing", self.timing.map(Timing::to_value));
            map.put_some("model", self.model.as_ref().map(CalledModel::to_value));
            if !self.replays.is_empty() {
                map.put("replays", Value::vector(self.replays.iter().map(Replay::to_value)));
            }
        }
        value
    }

    /// The message as the wire shows it.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("id", self.id.to_value());
        map.put("parent-id", self.parent_id.as_ref().map(EntryId::to_value));
        map.put("role", self.role.as_str());
        map.put("content", self.content_value());
        map.put("timestamp", self.timestamp.as_ref().to_owned());
        if let Some(turn) = &self.turn_id {
            map.put("turn-id", turn.to_value());
        }
        if let Some(usage) = &self.usage {
            map.put("usage", usage.to_value());
        }
        if let Some(reason) = self.stop_reason {
            map.put("stop-reason", reason.as_str());
        }
        for (key, text) in [
            ("error-message", &self.error_message),
            ("tool-call-id", &self.tool_call_id),
            ("tool-name", &self.tool_name),
            ("sender", &self.sender),
        ] {
            if let Some(text) = text {
                map.put(key, text.as_ref().to_owned());
            }
        }
        if let Some(failed) = self.is_error {
            map.put("is-error", failed);
        }
        map.put_some("details", self.details.clone());
        map.put_some("duration-ms", self.duration_ms.map(count));
        Value::from(map)
    }

    /// Reads a message back; `None` where a required key is missing or of another shape.
    pub fn from_value(value: &Value<'_>) -> Option<Self> {
        let text = |key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
        let content: Vec<Block> =
            value.get("content")?.as_slice()?.iter().map(Block::from_value).collect::<Option<_>>()?;
        Some(Self {
            replays: replay::from_journal(value, &places_after_calls(&content)),
            id: text("id")?.into(),
            parent_id: text("parent-id").map(EntryId::from),
            role: Role::parse(value.get("role")?.as_str()?)?,
            content,
            timestamp: text("timestamp")?,
            turn_id: text("turn-id").map(TurnId::from),
            usage: value.get("usage").map(Usage::from_value),
            timing: value.get("timing").and_then(Timing::from_value),
            model: value.get("model").and_then(CalledModel::from_value),
            stop_reason: value.get("stop-reason").and_then(Value::as_str).and_then(StopReason::parse),
            error_message: text("error-message"),
            tool_call_id: text("tool-call-id"),
            tool_name: text("tool-name"),
            is_error: value.get("is-error").and_then(Value::as_bool),
            details: value.get("details").map(|details| details.clone().into_owned()),
            duration_ms: value
                .get("duration-ms")
                .and_then(Value::as_i64)
                .and_then(|ms| u64::try_from(ms).ok()),
            sender: text("sender"),
        })
    }
}

/// The places right after the calls of a content.
fn places_after_calls(content: &[Block]) -> Vec<usize> {
    let calls = (1..).zip(content).filter(|(_, block)| matches!(block, Block::ToolCall { .. }));
    calls.map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        for (count, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1.0k"),
            (1234, "1.2k"),
            (45_678, "45k"),
            (1_200_000, "1.2M"),
            (3_000_000_000, "3.0G"),
        ] {
            assert_eq!(short(count), expected);
        }
    }
}
