//! The format of each protocol: how a call is written and its answer read. Sends nothing.

use super::protocol::{Decoder, Outgoing, Protocol, Quirks};
use super::{anthropic, gemini, openai, responses};
use crate::provider::ModelRequest;

impl Protocol {
    /// Writes a call.
    pub fn write(self, provider: &str, request: &ModelRequest, quirks: Quirks) -> Outgoing {
        match self {
            Self::Anthropic => anthropic::write(provider, request),
            Self::OpenAi => openai::write(provider, request, quirks),
            Self::Responses => responses::write(provider, request, quirks),
            Self::Gemini => gemini::write(provider, request),
        }
    }

    /// The decoder for the answer to a call.
    pub fn decoder(self, request: &ModelRequest) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::AnswerDecoder::new(request)),
            Self::OpenAi => Box::new(openai::AnswerDecoder::new(request)),
            Self::Responses => Box::new(responses::AnswerDecoder::new(request)),
            Self::Gemini => Box::new(gemini::AnswerDecoder::new(request)),
        }
    }
}
