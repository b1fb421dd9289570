//! Anthropic's Messages protocol: writes calls, reads events. Knows no connection.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::conversation::{self, ContentPart, EncodedImage, Utterance};
use super::json::{self, Object as _};
use super::protocol::{Broken, Decoder, Out, Outgoing, parse};
use super::sse::SseEvent;
use crate::limits::HOSTED_ANSWER_TOKENS;
use crate::message::{StopReason, ThinkingLevel, Usage};
use crate::provider::{Chunk, ModelRequest, ThinkingBy};
use crate::value::{Map, Value};

/// The maximum answer of an unlisted model.
const USUAL_OUTPUT: u32 = 8192;

/// The minimum budget for thinking.
const LEAST_BUDGET: u32 = 1024;

/// Writes a call.
pub fn write(provider: &str, request: &ModelRequest) -> Outgoing {
    let utterances = conversation::of(&request.messages, provider, &request.model);
    let mut messages: Vec<Json> = utterances.iter().map(side).collect();
    // The next call reads this prefix from the cache: tools, instructions and conversation.
    if let Some(last) =
        messages.last_mut().and_then(|last| last.pointer_mut("/content")?.as_array_mut()?.last_mut())
    {
        keep(last);
    }
    let budget = budget(request.thinking);
    let limit = request.max_output_tokens.unwrap_or(USUAL_OUTPUT);
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "max_tokens": limit.min(HOSTED_ANSWER_TOKENS.saturating_add(budget)),
        "messages": messages,
    });
    if !request.system.is_empty() {
        let mut system = json!({"type": "text", "text": request.system});
        keep(&mut system);
        body.put("system", json!([system]));
    }
    if !request.tools.is_empty() {
        let mut tools: Vec<Json> = request
            .tools
            .iter()
            .map(|tool| {
                let schema = json::from_value(&tool.parameters);
                json!({"name": tool.name, "description": tool.description, "input_schema": schema})
            })
            .collect();
        if let Some(last) = tools.last_mut() {
            keep(last);
        }
        body.put("tools", Json::from(tools));
    }
    match (request.thinking_by, request.thinking) {
        (None, _) | (Some(ThinkingBy::Budget), ThinkingLevel::Off) => {}
        (Some(ThinkingBy::Effort), ThinkingLevel::Off) => {
            body.put("thinking", json!({"type": "disabled"}));
        }
        (Some(ThinkingBy::Effort), level) => {
            body.put("thinking", json!({"type": "adaptive", "display": "summarized"}));
            body.put("output_config", json!({"effort": effort(level)}));
        }
        (Some(ThinkingBy::Budget), _) => {
            let most = limit.saturating_sub(LEAST_BUDGET);
            let budget = budget.min(most);
            // A model that did not think when it called a tool cannot start to while it waits for the result.
            if budget >= LEAST_BUDGET && can_think(&utterances) {
                body.put("thinking", json!({"type": "enabled", "budget_tokens": budget}));
            }
        }
    }
    Outgoing { path: "v1/messages".to_owned(), body }
}

fn keep(block: &mut Json) {
    // Thinking is cached with the block after it; the server refuses a cache mark on it.
    if !matches!(block.text("type"), Some("thinking" | "redacted_thinking")) {
        block.put("cache_control", json!({"type": "ephemeral"}));
    }
}

fn budget(level: ThinkingLevel) -> u32 {
    match level {
        ThinkingLevel::Off => 0,
        ThinkingLevel::Minimal => LEAST_BUDGET,
        ThinkingLevel::Low => 4096,
        ThinkingLevel::Medium => 10_240,
        ThinkingLevel::High => 20_480,
        ThinkingLevel::Xhigh => 32_000,
    }
}

fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off | ThinkingLevel::Minimal | ThinkingLevel::Low => "low",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::High => "high",
        ThinkingLevel::Xhigh => "xhigh",
    }
}

/// Whether the user's last results all belong to calls with preceding thinking.
fn can_think(utterances: &[Utterance<'_>]) -> bool {
    let answers = |utterance: &&Utterance<'_>| {
        utterance.by_model || utterance.parts.iter().any(|part| matches!(part, ContentPart::Result { .. }))
    };
    let mut open = utterances.iter().rev().take_while(answers).filter(|utterance| utterance.by_model);
    open.all(|utterance| {
        let calls = utterance.parts.iter().any(|part| matches!(part, ContentPart::Call { .. }));
        !calls || matches!(utterance.parts.first(), Some(ContentPart::Replay(_)))
    })
}

fn side(utterance: &Utterance<'_>) -> Json {
    let role = if utterance.by_model { "assistant" } else { "user" };
    let content: Vec<Json> = utterance.parts.iter().flat_map(part).collect();
    json!({"role": role, "content": content})
}

fn part(part: &ContentPart<'_>) -> Vec<Json> {
    vec![match part {
        ContentPart::Text(text) => json!({"type": "text", "text": text}),
        // The server refuses thinking without its signature; with it, the replay contains it.
        ContentPart::Thinking(_) => return Vec::new(),
        ContentPart::Image(image) => picture(image),
        ContentPart::Call { id, name, arguments } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": json::from_value(arguments)})
        }
        ContentPart::Result { id, failed, text, images, .. } => {
            let mut content = vec![json!({"type": "text", "text": text})];
            content.extend(images.iter().map(picture));
            json!({"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": content})
        }
        ContentPart::Replay(data) => return replayed(data),
    }]
}

fn picture(image: &EncodedImage<'_>) -> Json {
    let source = json!({"type": "base64", "media_type": image.mime_type, "data": image.data});
    json!({"type": "image", "source": source})
}

fn replayed(data: &Value<'_>) -> Vec<Json> {
    let blocks = data.as_slice().unwrap_or_default().iter();
    let block = |block: &Value<'_>| {
        let text = |key| block.get(key).and_then(Value::as_str);
        Some(match (text("signature"), text("redacted")) {
            (Some(signature), _) => {
                json!({"type": "thinking", "thinking": text("thinking").unwrap_or_default(), "signature": signature})
            }
            (None, Some(data)) => json!({"type": "redacted_thinking", "data": data}),
            (None, None) => return None,
        })
    };
    blocks.filter_map(block).collect()
}

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    usage: Usage,
    stop: Option<StopReason>,
    calls: PartialCalls,
    /// The current thinking: its text and its signature.
    thinking: Option<(String, String)>,
    /// The data to send again.
    replay: Vec<Value<'static>>,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self { calls: PartialCalls::new(&request.messages), ..Self::default() }
    }

    fn take(&mut self, tokens: Option<Tokens>) {
        let Some(tokens) = tokens else { return };
        // Each event contains the total so far, or nothing for that figure.
        let figure = |old: u64, new: Option<u64>| new.map_or(old, |new| new.max(old));
        self.usage.input = figure(self.usage.input, tokens.input_tokens);
        self.usage.output = figure(self.usage.output, tokens.output_tokens);
        self.usage.cache_read = figure(self.usage.cache_read, tokens.cache_read_input_tokens);
        self.usage.cache_write = figure(self.usage.cache_write, tokens.cache_creation_input_tokens);
    }

    fn begin(&mut self, index: u64, block: Block, out: &mut Out) -> Result<(), Broken> {
        match block.kind.as_str() {
            "tool_use" => {
                let id = block.id.unwrap_or_default();
                let name = block.name.unwrap_or_default();
                self.calls.begin(index, &id, &name, out)?;
                // A gateway may send all of it at once.
                if let Some(input) =
                    block.input.filter(|input| input.as_object().is_some_and(|map| !map.is_empty()))
                {
                    self.calls.more(index, &input.to_string(), out)?;
                }
            }
            "thinking" => {
                let text = block.thinking.unwrap_or_default();
                self.thinking = Some((text.clone(), block.signature.unwrap_or_default()));
                if !text.is_empty() {
                    out.push_back(Chunk::Thinking(text));
                }
            }
            "redacted_thinking" => {
                if let Some(data) = block.data {
                    self.replay.push(Value::from(Map::new().with("redacted", data)));
                }
            }
            _ => {
                if let Some(text) = block.text.filter(|text| !text.is_empty()) {
                    out.push_back(Chunk::Text(text));
                }
            }
        }
        Ok(())
    }

    fn more(&mut self, index: u64, delta: Delta, out: &mut Out) -> Result<(), Broken> {
        if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
            out.push_back(Chunk::Text(text));
        }
        if let Some(piece) = delta.partial_json {
            self.calls.more(index, &piece, out)?;
        }
        if let Some(text) = delta.thinking.filter(|text| !text.is_empty()) {
            self.thinking.get_or_insert_default().0.push_str(&text);
            out.push_back(Chunk::Thinking(text));
        }
        if let Some(piece) = delta.signature {
            self.thinking.get_or_insert_default().1.push_str(&piece);
        }
        Ok(())
    }

    fn finish(&mut self, index: u64, out: &mut Out) {
        self.calls.finish(index, None, out);
        if let Some((thinking, signature)) = self.thinking.take()
            && !signature.is_empty()
        {
            self.replay.push(Value::from(Map::new().with("thinking", thinking).with("signature", signature)));
        }
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        // A gateway may only name the event.
        if event.name == "error" {
            return Err(Broken::Reported(parse(event.data)?));
        }
        let payload: Payload = parse(event.data)?;
        let index = payload.index.unwrap_or_default();
        match payload.kind.as_str() {
            "content_block_delta" => self.more(index, payload.delta.unwrap_or_default(), out)?,
            "content_block_start" => self.begin(index, payload.content_block.unwrap_or_default(), out)?,
            "content_block_stop" => self.finish(index, out),
            "message_start" => self.take(payload.message.and_then(|message| message.usage)),
            "message_delta" => {
                self.take(payload.usage);
                if let Some(reason) = payload.delta.and_then(|delta| delta.stop_reason) {
                    self.stop = Some(stop(&reason));
                }
            }
            "message_stop" => return self.end(out),
            "error" => return Err(Broken::Reported(parse(event.data)?)),
            // `ping`, and additions of a later version.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        let stop = self.stop.ok_or(Broken::Cut)?;
        self.over = true;
        self.calls.finish_all(out);
        if !self.replay.is_empty() {
            out.push_back(Chunk::Replay(Value::vector(std::mem::take(&mut self.replay))));
        }
        out.push_back(Chunk::Usage(self.usage));
        out.push_back(Chunk::Stop(stop));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

fn stop(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type", default)]
    kind: String,
    index: Option<u64>,
    message: Option<Start>,
    content_block: Option<Block>,
    delta: Option<Delta>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Start {
    usage: Option<Tokens>,
}

#[derive(Deserialize, Default)]
struct Block {
    #[serde(rename = "type", default)]
    kind: String,
    id: Option<String>,
    name: Option<String>,
    input: Option<Json>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
}

#[derive(Deserialize, Default)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}
