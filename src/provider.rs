//! Models, as the runtime sees them: a request goes in, a stream of chunks comes out.
//!
//! Knows the conversation's plain types. Does not know the runtime, the journal or the wire: a
//! provider neither retries nor runs tools, it says what happened and the runtime decides.
//!
//! The kinds of provider stand side by side below: [`scripted`] answers from a file, [`embedded`]
//! runs a model inside the process, [`hosted`] asks a server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;

use crate::message::{Message, StopReason, ThinkingLevel, Usage};
use crate::value::{Map, Value};

pub mod embedded;
pub mod fetch;
pub mod hosted;
pub mod known;
pub mod models;
pub mod scripted;

/// A source of model answers.
pub trait Provider: Send + Sync + 'static {
    /// The name that configuration and the wire call it by, such as `scripted`.
    fn name(&self) -> &str;

    /// Whether it can be asked as things stand: what it needs (a key, a file) is there. Quick; asks nobody.
    fn is_ready(&self) -> bool {
        true
    }

    /// What can be told of it: `:api`, `:base-url` and `:key-from`, those that it has. Never a secret.
    fn facts(&self) -> Map<'static> {
        Map::new()
    }

    /// Asks the model. Returns at once; the work begins when the stream is first polled or before.
    ///
    /// The stream ends after a [`Chunk::Stop`] or after an error, whichever comes first, and yields
    /// nothing after either. Dropping it cancels the call: a provider stops promptly and reports
    /// nothing.
    fn stream(&self, request: Request) -> ChunkStream;

    /// Ends what the provider runs on, and waits until it is gone. Called once, at the end of the process;
    /// calls after it fail.
    fn end(&self) {}
}

/// What a model call yields, in order.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<Chunk, ProviderError>> + Send>>;

/// One model call.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The model's id within the provider. Providers with one model ignore it.
    pub model: String,
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation so far, oldest first. Shared with the session: nothing is copied per call.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer.
    pub tools: Vec<ToolSpec>,
    /// How much the model may think.
    pub thinking: ThinkingLevel,
    /// How the model is told how much to think; `None` for one that cannot.
    pub thinking_by: Option<ThinkingBy>,
    /// The longest answer, in tokens; `None` leaves it to the provider.
    pub max_output_tokens: Option<u32>,
}

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingBy {
    /// By a number of tokens.
    Budget,
    /// By a word.
    Effort,
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name that the model calls it by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The arguments, as a JSON schema written in plain data.
    pub parameters: Value<'static>,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// More text of the answer. Valid UTF-8 on its own; never empty.
    Text(String),
    /// More of the model's thinking.
    Thinking(String),
    /// More of a tool call's arguments, as the provider writes them. For showing only: the call
    /// itself comes as a [`Chunk::ToolCall`].
    ToolArguments {
        /// The call's place among the calls of this answer, from 0.
        index: usize,
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// What is new.
        delta: String,
    },
    /// A complete tool call. Several in one answer are one parallel batch, in this order.
    ToolCall {
        /// The call's id, unique among the calls that this provider proposed.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments, a map with keyword keys.
        arguments: Value<'static>,
    },
    /// What the provider wants to be given again with this answer, such as signatures of its thinking. Opaque
    /// to everyone else; comes at most once, before the stop.
    Replay(Value<'static>),
    /// What the call used. Comes at most once, before the stop.
    Usage(Usage),
    /// The end of the answer, and why.
    Stop(StopReason),
}

impl Chunk {
    /// Whether it is a piece of the answer itself, and not something about the answer.
    pub const fn is_of_answer(&self) -> bool {
        match self {
            Self::Text(_) | Self::Thinking(_) | Self::ToolArguments { .. } | Self::ToolCall { .. } => true,
            Self::Replay(_) | Self::Usage(_) | Self::Stop(_) => false,
        }
    }
}

/// A model call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// What happened, in one sentence that a person can act on.
    pub message: String,
}

impl ProviderError {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Whether the same call may succeed later, so that a retry makes sense.
    pub fn is_passing(&self) -> bool {
        matches!(self.kind, ErrorKind::Overloaded | ErrorKind::RateLimited { .. } | ErrorKind::Dropped)
    }
}

/// What kind of failure it was: this decides between a retry, a compaction and giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider has too much to do. Passing.
    Overloaded,
    /// The caller asks too often. Passing.
    RateLimited {
        /// How long the provider asks to wait, where it says so.
        retry_after: Option<Duration>,
    },
    /// The connection was lost. Passing, as long as no token had come.
    Dropped,
    /// The call cannot succeed as it is.
    Fatal,
    /// The conversation does not fit the model's window.
    ContextOverflow,
    /// A model, a key or a part of the program is missing; the message says what to do.
    NotConfigured,
}
