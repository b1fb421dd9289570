//! Models, as the engine sees them: a request goes in, a stream of chunks comes out.
//!
//! Knows the plain types of a conversation. Does not know the engine, the journal or the wire. A provider
//! neither retries nor runs tools; it reports what happened, and the engine decides.
//!
//! There are three kinds of provider: [`scripted`] answers from a file, [`embedded`] runs a model inside the
//! process, [`hosted`] calls a server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;

use crate::environment::Variables;
use crate::facts::ProviderFacts;
use crate::message::{Arguments, EntryId, Message, Sources, ThinkingLevel, Usage, WithheldPart};
use crate::value::Value;

pub mod choice;
pub mod downloads;
pub mod embedded;
mod ends;
pub mod fetch;
pub mod hosted;
pub mod learned_limits;
pub mod model_ref;
pub mod models;
pub mod scripted;
pub mod takes;

pub use ends::{AnswerEnd, Retry};
pub use takes::Fact;

/// A source of model answers.
pub trait Provider: Send + Sync + 'static {
    /// Its name in configuration and on the wire, such as `scripted`.
    fn name(&self) -> &str;

    /// Whether it is usable now: it has what it needs (a key, a file). Fast; sends no request.
    fn is_ready(&self) -> bool {
        true
    }

    /// The facts about it, as far as it has them.
    fn facts(&self) -> ProviderFacts {
        ProviderFacts::default()
    }

    /// Asks the provider which models it has: their ids, or `None` if it has no list. Sends a request; meant for a person
    /// who looks for what is wrong.
    fn listed(&self) -> ListedModels {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether a model of it can search the web by the server's own tools. `takes` are the facts about the model's requests.
    fn searches_web(&self, _model: &str, _takes: &[Fact]) -> bool {
        false
    }

    /// Calls the model. Returns at once; the work starts no later than the first poll of the stream.
    ///
    /// The stream ends after the first [`Chunk::End`] or error. Dropping it cancels the call: the provider
    /// stops promptly and reports nothing.
    fn stream(&self, request: ModelRequest) -> ChunkStream;

    /// Ends the provider's threads and waits for them. Called once, at the end of the process; later calls
    /// fail.
    fn end(&self) {}
}

/// The ids of a provider's models, once it has answered.
pub type ListedModels = Pin<Box<dyn Future<Output = Result<Option<Vec<String>>, ProviderError>> + Send>>;

/// The chunks of a model call, in order.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<Chunk, ProviderError>> + Send>>;

/// One model call.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The model's id within the provider. Providers with one model ignore it.
    pub model: String,
    /// The session's id, which tells a server whose cache a request is for; empty for none.
    pub session: Arc<str>,
    /// The system prompt; empty for none.
    pub system: String,
    /// The conversation so far, oldest first. Shared with the session: nothing is copied per call.
    pub messages: Vec<Arc<Message>>,
    /// Parts of it that the model's server refused, and that are not sent.
    pub withheld: Arc<[WithheldPart]>,
    /// The offered tools.
    pub tools: Vec<ToolSpec>,
    /// Whether the server's own search of the web is offered too, where it has one.
    pub web_search: bool,
    /// The thinking level.
    pub thinking: ThinkingLevel,
    /// How to request the level; `None` for a model without levels.
    pub thinking_by: Option<ThinkingBy>,
    /// Whether `<think>` and `</think>` in the text enclose thinking.
    pub thinking_tags: bool,
    /// Facts about the model's requests, from the catalogue and the configuration.
    pub takes: Arc<[Fact]>,
    /// The maximum length of the answer, in tokens; `None` leaves it to the provider.
    pub max_output_tokens: Option<u32>,
    /// The variables of the client for which it is made, where its key may be; `None` if it brought none.
    pub variables: Option<Variables>,
}

/// How to request a thinking level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingBy {
    /// As a number of tokens.
    Budget,
    /// As a word.
    Effort,
}

/// The description of a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name by which the model calls it.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The parameters, as a JSON schema in plain data.
    pub parameters: Value<'static>,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// More text of the answer. Valid UTF-8 on its own, never empty.
    Text(String),
    /// More of the model's thinking.
    Thinking(String),
    /// More of a tool call's arguments, in the provider's notation. For display only: the call itself is a
    /// [`Chunk::ToolCall`].
    ToolArguments {
        /// The call's index among the calls of this answer, from 0.
        index: usize,
        /// The call's id.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The new text.
        delta: String,
    },
    /// A complete tool call. Several in one answer form a parallel batch in this order.
    ToolCall {
        /// The call's id, unique among the calls of this provider.
        id: Arc<str>,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments.
        arguments: Arguments,
    },
    /// Data that the provider needs back at this place of the answer, such as the signature of its thinking. Opaque to
    /// everyone else.
    Replay {
        /// The data.
        data: Value<'static>,
        /// Whether it belongs to the part before it. Else it is a part of its own.
        is_attached: bool,
    },
    /// The web pages that the answer rests on. At most once, before the usage.
    Sources(Arc<Sources>),
    /// The server refused a part of the conversation, and the request was sent again without it. Before the answer.
    Withheld(WithheldPart),
    /// Usage of the call. At most one, before the stop.
    Usage(Usage),
    /// The end of the answer. One that is not whole is an error instead, so [`AnswerEnd::Broken`] does not come.
    End(AnswerEnd),
}

impl Chunk {
    /// Whether it is a piece of the answer, as opposed to data about the answer.
    pub const fn is_of_answer(&self) -> bool {
        match self {
            Self::Text(_) | Self::Thinking(_) | Self::ToolArguments { .. } | Self::ToolCall { .. } => true,
            Self::Replay { .. } | Self::Sources(_) | Self::Withheld(_) | Self::Usage(_) | Self::End(_) => {
                false
            }
        }
    }
}

/// A model call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// The cause, in one sentence that a person can act on.
    pub message: String,
    /// The most tokens that the server takes, if it has said so.
    pub limit: Option<u64>,
    /// The message of the conversation that the server refused, if it has said so.
    pub refused: Option<EntryId>,
    /// The end of the message: what helps, where the cause of a failed request says that.
    pub advice: Option<&'static str>,
}

impl ProviderError {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), limit: None, refused: None, advice: None }
    }

    /// Whether the same call may succeed later, so that a retry makes sense.
    pub fn is_passing(&self) -> bool {
        self.kind.is_passing()
    }
}

/// The kind of a failure. It decides between a retry, a compaction and giving up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider is overloaded. Temporary.
    Overloaded,
    /// Too many calls. Temporary.
    RateLimited {
        /// The pause that the provider requests, if it names one.
        retry_after: Option<Duration>,
    },
    /// The connection was lost. Temporary if no token had arrived.
    Dropped,
    /// The model wrote something that cannot be used, such as a call in a wrong form. The same call may succeed.
    Malformed,
    /// The call can never succeed unchanged.
    Fatal,
    /// The conversation exceeds the model's window.
    ContextOverflow,
    /// A model, a key or a part of the program is missing; the message says what to do.
    NotConfigured,
}

impl ErrorKind {
    /// Whether the same call may succeed later.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Overloaded | Self::RateLimited { .. } | Self::Dropped | Self::Malformed)
    }

    /// The name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::RateLimited { .. } => "rate-limited",
            Self::Dropped => "dropped",
            Self::Malformed => "malformed",
            Self::Fatal => "fatal",
            Self::ContextOverflow => "context-overflow",
            Self::NotConfigured => "not-configured",
        }
    }
}
