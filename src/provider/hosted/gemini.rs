//! Gemini's `streamGenerateContent` protocol: writes calls, reads events. Knows no connection.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::conversation::{self, ContentPart, EncodedImage, Utterance};
use super::json::{self, Object as _};
use super::protocol::{Broken, Decoder, Out, Outgoing, parse};
use super::sse::SseEvent;
use crate::limits::HOSTED_ANSWER_TOKENS;
use crate::message::{StopReason, ThinkingLevel, Usage};
use crate::provider::{Chunk, ModelRequest, ThinkingBy};
use crate::value::Value;

/// Replaces a missing signature, for calls of another model. Google documents it for histories that did not
/// come from the model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Writes a call.
pub fn write(provider: &str, request: &ModelRequest) -> Outgoing {
    let utterances = conversation::of(&request.messages, provider, &request.model);
    let by_effort = request.thinking_by == Some(ThinkingBy::Effort);
    let contents: Vec<Json> = utterances.iter().map(|utterance| side(utterance, by_effort)).collect();
    let mut settings = json!({});
    if let Some(limit) = request.max_output_tokens {
        // Thinking counts as part of the answer here.
        let room = HOSTED_ANSWER_TOKENS.saturating_add(budget(request.thinking));
        settings.put("maxOutputTokens", Json::from(limit.min(room)));
    }
    match request.thinking_by {
        None => {}
        Some(ThinkingBy::Budget) => {
            let shown = request.thinking != ThinkingLevel::Off;
            settings.put(
                "thinkingConfig",
                json!({"includeThoughts": shown, "thinkingBudget": budget(request.thinking)}),
            );
        }
        Some(ThinkingBy::Effort) => {
            let level = match request.thinking {
                ThinkingLevel::Off | ThinkingLevel::Minimal => "minimal",
                ThinkingLevel::Low => "low",
                ThinkingLevel::Medium => "medium",
                ThinkingLevel::High | ThinkingLevel::Xhigh => "high",
            };
            settings.put("thinkingConfig", json!({"includeThoughts": true, "thinkingLevel": level}));
        }
    }
    let mut body = json!({"contents": contents, "generationConfig": settings});
    if !request.system.is_empty() {
        body.put("systemInstruction", json!({"parts": [{"text": request.system}]}));
    }
    if !request.tools.is_empty() {
        let tools: Vec<Json> = request
            .tools
            .iter()
            .map(|tool| {
                let schema = json::from_value(&tool.parameters);
                json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": schema})
            })
            .collect();
        body.put("tools", json!([{"functionDeclarations": tools}]));
    }
    Outgoing { path: format!("models/{}:streamGenerateContent?alt=sse", request.model), body }
}

fn budget(level: ThinkingLevel) -> u32 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => 512,
        ThinkingLevel::Low => 2048,
        ThinkingLevel::Medium => 8192,
        ThinkingLevel::High => 24_576,
        ThinkingLevel::Xhigh => 32_768,
    }
}

fn side(utterance: &Utterance<'_>, signed: bool) -> Json {
    let mut parts = Vec::new();
    let mut signatures: Option<&Value<'_>> = None;
    let mut calls = 0;
    let picture =
        |image: &EncodedImage<'_>| json!({"inlineData": {"mimeType": image.mime_type, "data": image.data}});
    for part in &utterance.parts {
        match part {
            ContentPart::Text(text) => parts.push(json!({"text": text})),
            ContentPart::Thinking(_) => {}
            ContentPart::Image(image) => parts.push(picture(image)),
            ContentPart::Replay(data) => {
                signatures = Some(data);
                calls = 0;
            }
            ContentPart::Call { name, arguments, .. } => {
                let mut part = json!({"functionCall": {"name": name, "args": json::from_value(arguments)}});
                let known = signatures.and_then(Value::as_slice).and_then(|known| known.get(calls));
                if let Some(signature) = known.and_then(Value::as_str) {
                    part.put("thoughtSignature", Json::from(signature));
                } else if signed && calls == 0 {
                    part.put("thoughtSignature", Json::from(NO_SIGNATURE));
                }
                calls += 1;
                parts.push(part);
            }
            ContentPart::Result { name, failed, text, images, .. } => {
                let key = if *failed { "error" } else { "result" };
                parts.push(json!({"functionResponse": {"name": name, "response": {key: text}}}));
                parts.extend(images.iter().map(picture));
            }
        }
    }
    json!({"role": if utterance.by_model { "model" } else { "user" }, "parts": parts})
}

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    calls: PartialCalls,
    /// The signature of each call, nil without one.
    signatures: Vec<Value<'static>>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self { calls: PartialCalls::new(&request.messages), ..Self::default() }
    }

    fn part(&mut self, part: Piece, out: &mut Out) -> Result<(), Broken> {
        if let Some(text) = part.text.filter(|text| !text.is_empty()) {
            let thought = part.thought == Some(true);
            out.push_back(if thought { Chunk::Thinking(text) } else { Chunk::Text(text) });
        }
        if let Some(call) = part.function_call {
            let key = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
            self.calls.begin(key, &call.id.unwrap_or_default(), &call.name, out)?;
            let written = call.args.filter(|args| !args.is_null()).map(|args| args.to_string());
            self.calls.more(key, written.as_deref().unwrap_or("{}"), out)?;
            self.calls.finish(key, None, out);
            self.signatures.push(part.thought_signature.map_or(Value::Nil, Value::from));
        }
        Ok(())
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        let payload: Payload = parse(event.data)?;
        if payload.error.is_some() {
            return Err(Broken::Reported(parse(event.data)?));
        }
        if let Some(tokens) = payload.usage_metadata {
            self.usage = Some(tokens.read());
        }
        if payload.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.stop = Some(StopReason::Refusal);
        }
        let Some(candidate) = payload.candidates.unwrap_or_default().into_iter().next() else {
            return Ok(());
        };
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(part, out)?;
        }
        match candidate.finish_reason.as_deref() {
            None => {}
            Some("MALFORMED_FUNCTION_CALL") => {
                return Err(Broken::Malformed("a tool call that the model wrote wrongly".to_owned()));
            }
            Some(reason) => self.stop = Some(stop(reason)),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        let stop = self.stop.ok_or(Broken::Cut)?;
        self.over = true;
        if self.signatures.iter().any(|signature| !signature.is_nil()) {
            out.push_back(Chunk::Replay(Value::vector(std::mem::take(&mut self.signatures))));
        }
        out.extend(self.usage.map(Chunk::Usage));
        let calls = !self.calls.is_empty() && stop == StopReason::EndTurn;
        out.push_back(Chunk::Stop(if calls { StopReason::ToolUse } else { stop }));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
        | "IMAGE_SAFETY" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    candidates: Option<Vec<Candidate>>,
    usage_metadata: Option<Tokens>,
    prompt_feedback: Option<Feedback>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Piece>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Piece {
    text: Option<String>,
    thought: Option<bool>,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    name: String,
    id: Option<String>,
    args: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

impl Tokens {
    fn read(&self) -> Usage {
        let cache_read = self.cached_content_token_count.unwrap_or(0);
        let output = self.candidates_token_count.unwrap_or(0);
        Usage {
            input: self.prompt_token_count.unwrap_or(0).saturating_sub(cache_read),
            output: output.saturating_add(self.thoughts_token_count.unwrap_or(0)),
            cache_read,
            ..Usage::default()
        }
    }
}
