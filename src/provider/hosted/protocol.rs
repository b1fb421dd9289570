//! What the protocols of hosted models have in common.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value as Json;

use super::sse::Event;
use super::{anthropic, gemini, openai, responses};
use crate::http::header::HeaderValue;
use crate::provider::{Chunk, Request};
use crate::secret::Secret;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which most servers speak.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

/// What a call is made of, beside its address and its key.
#[derive(Debug)]
pub struct Outgoing {
    /// The path below the base address.
    pub path: String,
    /// The body.
    pub body: Json,
}

/// What a decoder says, in order.
pub type Out = VecDeque<Chunk>;

/// Reads a protocol's events.
pub trait Decoder: Send + Sync {
    /// Takes an event; says what it means.
    ///
    /// # Errors
    /// See [`Broken`].
    fn event(&mut self, event: &Event<'_>, out: &mut Out) -> Result<(), Broken>;

    /// The stream has ended. Says what is left to say, the stop last.
    ///
    /// # Errors
    /// [`Broken::Cut`] where the answer had not ended.
    fn end(&mut self, out: &mut Out) -> Result<(), Broken>;

    /// Whether the answer has ended, so that nothing more is to come.
    fn is_over(&self) -> bool;
}

/// Why an answer cannot be read on.
#[derive(Debug, PartialEq)]
pub enum Broken {
    /// The server says so.
    Told(Json),
    /// An event has another shape than it must; what is wrong with it.
    Malformed(String),
    /// The connection ended before the answer.
    Cut,
}

/// A key as a server takes it.
#[derive(Debug)]
pub enum Key {
    /// A key of the provider's.
    Key(Secret),
    /// A token of a login.
    Token(Secret),
}

impl Protocol {
    /// The protocol of that name.
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

    /// A call.
    pub fn write(self, provider: &str, request: &Request, quirks: Quirks) -> Outgoing {
        match self {
            Self::Anthropic => anthropic::write(provider, request),
            Self::OpenAi => openai::write(provider, request, quirks),
            Self::Responses => responses::write(provider, request, quirks),
            Self::Gemini => gemini::write(provider, request),
        }
    }

    /// Reads the answer to a call.
    pub fn decoder(self, request: &Request) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::Answer::new(request)),
            Self::OpenAi => Box::new(openai::Answer::new(request)),
            Self::Responses => Box::new(responses::Answer::new(request)),
            Self::Gemini => Box::new(gemini::Answer::new(request)),
        }
    }

    /// The head's line that carries a key. `None` where the key cannot stand in one.
    pub fn key(self, key: &Key) -> Option<(&'static str, HeaderValue)> {
        let (name, text) = match (self, key) {
            (Self::Anthropic, Key::Key(key)) => ("x-api-key", key.expose().to_owned()),
            (Self::Gemini, Key::Key(key)) => ("x-goog-api-key", key.expose().to_owned()),
            (_, Key::Key(key) | Key::Token(key)) => ("authorization", format!("Bearer {}", key.expose())),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

/// Where servers of one protocol differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks {
    /// The server is OpenAI's own, which has another name for the longest answer.
    pub openai: bool,
    /// The server is OpenRouter's, which tells the cost when it is asked to.
    pub openrouter: bool,
    /// The server does not give summaries of what the model thinks.
    pub no_summaries: bool,
}

/// Reads an event's data.
pub fn parse<'e, T: Deserialize<'e>>(data: &'e str) -> Result<T, Broken> {
    serde_json::from_str(data).map_err(|error| Broken::Malformed(error.to_string()))
}
