//! OpenAI's Responses protocol: writes calls, reads events.
//!
//! The server keeps no state. Each call contains the whole conversation, and the model's thinking comes back
//! encrypted, to be sent again. Knows no connection.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::conversation::{self, ContentPart, EncodedImage, Utterance};
use super::json::{self, Object as _};
use super::openai::effort;
use super::protocol::{Broken, Decoder, Out, Outgoing, Quirks, parse};
use super::sse::SseEvent;
use crate::limits::HOSTED_ANSWER_TOKENS;
use crate::message::{StopReason, Usage};
use crate::provider::{Chunk, ModelRequest};
use crate::value::Value;

/// Writes a call.
pub fn write(provider: &str, request: &ModelRequest, quirks: Quirks) -> Outgoing {
    let utterances = conversation::of(&request.messages, provider, &request.model);
    let input: Vec<Json> = utterances.iter().flat_map(items).collect();
    let mut body = json!({"model": request.model, "stream": true, "store": false, "input": input});
    if !request.system.is_empty() {
        body.put("instructions", Json::from(request.system.as_str()));
    }
    if !request.tools.is_empty() {
        body.put(
            "tools",
            request
                .tools
                .iter()
                .map(|tool| {
                    json!({
                        "type": "function",
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": json::from_value(&tool.parameters),
                        "strict": false,
                    })
                })
                .collect::<Json>(),
        );
    }
    if let Some(limit) = request.max_output_tokens {
        // Thinking counts as part of the answer here.
        let room = if request.thinking_by.is_some() { limit } else { HOSTED_ANSWER_TOKENS };
        body.put("max_output_tokens", Json::from(limit.min(room)));
    }
    if request.thinking_by.is_some() {
        body.put("include", json!(["reasoning.encrypted_content"]));
        let mut reasoning = json!({"effort": effort(request.thinking)});
        if !quirks.no_summaries {
            reasoning.put("summary", "auto");
        }
        body.put("reasoning", reasoning);
    }
    Outgoing { path: "responses".to_owned(), body }
}

fn items(utterance: &Utterance<'_>) -> Vec<Json> {
    let mut items = Vec::new();
    let mut content: Vec<Json> = Vec::new();
    let role = if utterance.by_model { "assistant" } else { "user" };
    let flush = |content: &mut Vec<Json>, items: &mut Vec<Json>| {
        if !content.is_empty() {
            items.push(json!({"type": "message", "role": role, "content": std::mem::take(content)}));
        }
    };
    let picture = |image: &EncodedImage<'_>| json!({"type": "input_image", "image_url": image.url()});
    for part in &utterance.parts {
        match part {
            ContentPart::Text(text) => {
                let kind = if utterance.by_model { "output_text" } else { "input_text" };
                content.push(json!({"type": kind, "text": text}));
            }
            ContentPart::Image(image) => content.push(picture(image)),
            ContentPart::Thinking(_) => {}
            ContentPart::Replay(data) => {
                let kept = data.as_slice().unwrap_or_default().iter().filter_map(Value::as_str);
                items.extend(kept.filter_map(|item| serde_json::from_str::<Json>(item).ok()));
            }
            ContentPart::Call { id, name, arguments } => {
                flush(&mut content, &mut items);
                let written = json::from_value(arguments).to_string();
                items.push(
                    json!({"type": "function_call", "call_id": id, "name": name, "arguments": written}),
                );
            }
            ContentPart::Result { id, text, images, .. } => {
                flush(&mut content, &mut items);
                let output = match images.as_slice() {
                    [] => Json::from(text.as_str()),
                    images => {
                        let mut parts = vec![json!({"type": "input_text", "text": text})];
                        parts.extend(images.iter().map(picture));
                        Json::from(parts)
                    }
                };
                items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
        }
    }
    flush(&mut content, &mut items);
    items
}

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    calls: PartialCalls,
    replay: Vec<Value<'static>>,
    /// Whether a part of the thinking was shown, so that the next one starts a paragraph.
    thought: bool,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self { calls: PartialCalls::new(&request.messages), ..Self::default() }
    }

    fn completed(&mut self, response: Finished, out: &mut Out) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.calls.finish_all(out);
        if !self.replay.is_empty() {
            out.push_back(Chunk::Replay(Value::vector(std::mem::take(&mut self.replay))));
        }
        if let Some(tokens) = response.usage {
            let cache_read =
                tokens.input_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
            out.push_back(Chunk::Usage(Usage {
                input: tokens.input_tokens.unwrap_or(0).saturating_sub(cache_read),
                output: tokens.output_tokens.unwrap_or(0),
                cache_read,
                ..Usage::default()
            }));
        }
        let why = response.incomplete_details.and_then(|details| details.reason);
        out.push_back(Chunk::Stop(match why.as_deref() {
            Some("max_output_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            _ if !self.calls.is_empty() => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        }));
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        let payload: Payload = parse(event.data)?;
        let key = payload.output_index.unwrap_or_default();
        match payload.kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                out.extend(payload.delta.filter(|text| !text.is_empty()).map(Chunk::Text));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                out.extend(payload.delta.filter(|text| !text.is_empty()).map(Chunk::Thinking));
            }
            "response.reasoning_summary_part.added" if self.thought => {
                out.push_back(Chunk::Thinking("\n\n".to_owned()));
            }
            "response.output_item.added" => {
                let item: Item = payload
                    .item
                    .map(serde_json::from_value)
                    .transpose()
                    .map_err(malformed)?
                    .unwrap_or_default();
                if item.kind == "function_call" {
                    let id = item.call_id.unwrap_or_default();
                    self.calls.begin(key, &id, &item.name.unwrap_or_default(), out)?;
                }
            }
            "response.function_call_arguments.delta" => {
                self.calls.more(key, &payload.delta.unwrap_or_default(), out)?;
            }
            "response.output_item.done" => {
                let Some(item) = payload.item else { return Ok(()) };
                match item.text("type") {
                    Some("reasoning") if item.text("encrypted_content").is_some() => {
                        self.replay.push(Value::from(item.to_string()));
                    }
                    Some("function_call") => self.calls.finish(key, item.text("arguments"), out),
                    _ => {}
                }
            }
            "response.completed" | "response.incomplete" => {
                self.completed(payload.response.unwrap_or_default(), out);
            }
            "response.failed" | "error" => return Err(Broken::Reported(parse(event.data)?)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<(), Broken> {
        if self.over { Ok(()) } else { Err(Broken::Cut) }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

fn malformed(error: serde_json::Error) -> Broken {
    Broken::Malformed(error.to_string())
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type", default)]
    kind: String,
    output_index: Option<u64>,
    delta: Option<String>,
    item: Option<Json>,
    response: Option<Finished>,
}

#[derive(Deserialize, Default)]
struct Item {
    #[serde(rename = "type", default)]
    kind: String,
    call_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize, Default)]
struct Finished {
    usage: Option<Tokens>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputTokens>,
}

#[derive(Deserialize)]
struct InputTokens {
    cached_tokens: Option<u64>,
}
