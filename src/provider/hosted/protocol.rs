//! The common part of the protocols for hosted models. Knows no connection.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::history::HistoryIndex;
use super::lenient;
use super::refused_field::RefusedField;
use super::sse::SseEvent;
use crate::http::header::HeaderValue;
use crate::message::WithheldPart;
use crate::provider::{AnswerEnd, Chunk};
use crate::secret::Secret;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, the protocol of most servers.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

/// The content of a call, without address and key.
#[derive(Debug)]
pub struct Outgoing {
    /// The path below the base address.
    pub path: String,
    /// The body.
    pub body: Json,
    /// The way back from its messages to the conversation.
    pub index: HistoryIndex,
}

/// A decoder's output, in order.
pub type Out = VecDeque<Chunk>;

/// Decodes a protocol's events.
pub trait Decoder: Send + Sync {
    /// Takes an event and appends its chunks.
    ///
    /// # Errors
    /// See [`Broken`].
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken>;

    /// Takes the end of the stream and appends the remaining chunks, the end last.
    ///
    /// # Errors
    /// [`Broken::Cut`] if the answer was incomplete.
    fn end(&mut self, out: &mut Out) -> Result<(), Broken>;

    /// Whether the answer is complete, so that nothing follows.
    fn is_over(&self) -> bool;

    /// The number of events that were skipped because their type is unknown.
    fn unknown(&self) -> u64;
}

/// Why reading an answer failed.
#[derive(Debug, PartialEq)]
pub enum Broken {
    /// The server reported an error.
    Reported(Json),
    /// The server said in plain words what went wrong.
    PlainText(String),
    /// An event is no JSON; contains the error.
    Unreadable(String),
    /// The answer breaks a bound; contains which.
    TooLarge(String),
    /// The connection ended before the answer did.
    Cut,
    /// The answer ended, and is not whole.
    Ended(AnswerEnd),
}

/// A key for a server.
#[derive(Debug)]
pub enum ServerKey {
    /// A key of the provider.
    Key(Secret),
    /// A token of a login.
    Token(Secret),
}

impl Protocol {
    /// The protocol with that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "anthropic" => Self::Anthropic,
            "openai" => Self::OpenAi,
            "openai-responses" => Self::Responses,
            "gemini" => Self::Gemini,
            _ => return None,
        })
    }

    /// The protocol's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }

    /// The path of the list of models below the base address.
    pub fn list_path(self) -> &'static str {
        match self {
            Self::Anthropic => "v1/models?limit=1000",
            Self::OpenAi | Self::Responses => "models",
            Self::Gemini => "models?pageSize=1000",
        }
    }

    /// The header line with a key. `None` if the key contains invalid characters.
    pub fn key(self, key: &ServerKey) -> Option<(&'static str, HeaderValue)> {
        let (name, text) = match (self, key) {
            (Self::Anthropic, ServerKey::Key(key)) => ("x-api-key", key.expose().to_owned()),
            (Self::Gemini, ServerKey::Key(key)) => ("x-goog-api-key", key.expose().to_owned()),
            (_, ServerKey::Key(key) | ServerKey::Token(key)) => {
                ("authorization", format!("Bearer {}", key.expose()))
            }
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

/// The ids in a list of models; `None` if it is none.
pub fn listed(body: &[u8]) -> Option<Vec<String>> {
    let json: Json = serde_json::from_slice(body).ok()?;
    let models = json.get("data").or_else(|| json.get("models"))?.as_array()?;
    // Gemini's names begin with the collection's.
    let id = |model: &Json| {
        let id = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(id.strip_prefix("models/").unwrap_or(id).to_owned())
    };
    Some(models.iter().filter_map(id).collect())
}

/// The parts that a request does without, after its server has refused some of it.
#[derive(Clone, Default)]
pub struct Attempt {
    /// The account's mark among others: the key, or words for its source.
    pub account: String,
    /// The number of messages whose replays are left out.
    pub withheld: usize,
    /// The parts of the conversation that are left out.
    pub parts: Vec<WithheldPart>,
    /// The fields that are left out or have another name.
    pub fields: Vec<RefusedField>,
}

/// Reads an event's data, in which [`super::surrogates::escape_lone`] has run. JSON that is no object is an event of an
/// unknown type, whose fields are all absent.
pub fn parse<T: DeserializeOwned + Default>(data: &str) -> Result<T, Broken> {
    match lenient::object(data) {
        Ok(fields) => Ok(fields.unwrap_or_default()),
        Err(error) => Err(Broken::Unreadable(error.to_string())),
    }
}

/// The error that an event reports: JSON, or words.
pub fn reported(data: &str) -> Broken {
    match serde_json::from_str::<Json>(data) {
        Ok(Json::String(words)) => Broken::PlainText(words),
        Ok(json) => Broken::Reported(json),
        Err(_) => Broken::PlainText(data.to_owned()),
    }
}

/// Appends an answer's end, unless it is no whole answer.
pub fn close(end: AnswerEnd, out: &mut Out) -> Result<(), Broken> {
    if end.is_broken() {
        return Err(Broken::Ended(end));
    }
    out.push_back(Chunk::End(end));
    Ok(())
}
