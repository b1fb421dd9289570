//! The format of each protocol: how a call is written and its answer read. Sends nothing.

use super::account::Account;
use super::history::Target;
use super::protocol::{Attempt, Decoder, Outgoing, Protocol};
use super::spec::Spec;
use super::{anthropic, gemini, openai, responses};
use crate::provider::ModelRequest;

impl Protocol {
    /// Writes a call.
    pub fn write(self, spec: &Spec, request: &ModelRequest, attempt: &Attempt) -> Outgoing {
        let takes = spec.takes(&request.model, &request.takes);
        let images_follow = self == Self::OpenAi;
        let target = Target {
            provider: &spec.id,
            model: &request.model,
            takes,
            account: Account::new(spec.base.as_str(), &attempt.account),
            withheld: attempt.withheld,
            withheld_parts: &attempt.parts,
            images_follow,
        };
        let mut outgoing = match self {
            Self::Anthropic => anthropic::write(&target, request),
            Self::OpenAi => openai::write(&target, request, spec.server()),
            Self::Responses => responses::write(&target, request),
            Self::Gemini => gemini::write(&target, request),
        };
        attempt.fields.iter().for_each(|field| field.apply(&mut outgoing.body));
        outgoing
    }

    /// The decoder for the answer to a call.
    pub fn decoder(self, request: &ModelRequest, ends_without_reason: bool) -> Box<dyn Decoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::AnswerDecoder::new(request)),
            Self::OpenAi => Box::new(openai::AnswerDecoder::new(request, ends_without_reason)),
            Self::Responses => Box::new(responses::AnswerDecoder::new(request)),
            Self::Gemini => Box::new(gemini::AnswerDecoder::new(request)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Out;
    use super::super::sse::SseEvent;
    use super::*;

    #[test]
    fn unknown_events_are_skipped_and_counted() {
        for (protocol, events, expected) in [
            (
                Protocol::Anthropic,
                &[r#"{"type":"ping"}"#, r#"{"type":"message_start","message":{}}"#, r#"{"type":"new"}"#, "7"]
                    [..],
                2,
            ),
            (
                Protocol::OpenAi,
                &[r#"{"choices":[{"delta":{}}]}"#, r#"{"choices":[],"usage":{}}"#, r#"{"x":1}"#, "[]"],
                2,
            ),
            (
                Protocol::Responses,
                &[r#"{"type":"response.created"}"#, r#"{"type":"response.new","delta":{"x":1}}"#, "null"],
                2,
            ),
            (
                Protocol::Gemini,
                &[
                    r#"{"candidates":[{"content":{"parts":[]}}]}"#,
                    r#"{"usageMetadata":{}}"#,
                    r#"{"modelStatus":1}"#,
                ],
                1,
            ),
        ] {
            let mut decoder = protocol.decoder(&ModelRequest::default(), false);
            let mut out = Out::new();
            for data in events {
                decoder.event(&SseEvent { name: "", data }, &mut out).unwrap();
            }
            assert_eq!((decoder.unknown(), out.len()), (expected, 0), "{protocol:?}");
        }
    }
}
