//! Anthropic's Messages protocol: writes calls, reads events. Knows no connection.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::conversation::{self, ContentPart, EncodedImage, Target, Utterance};
use super::json::{self, Object as _};
use super::lenient::{Lenient, LenientStruct, RawJson};
use super::protocol::{Broken, Decoder, Out, Outgoing, close, parse, reported};
use super::sse::SseEvent;
use super::text_deltas::TextDeltas;
use crate::limits::HOSTED_ANSWER_TOKENS;
use crate::message::{ThinkingLevel, Usage};
use crate::provider::{AnswerEnd, Chunk, ModelRequest, ThinkingBy};
use crate::value::{Map, Value};

/// The maximum answer of an unlisted model.
const USUAL_OUTPUT: u32 = 8192;

/// The minimum budget for thinking.
const LEAST_BUDGET: u32 = 1024;

/// Writes a call.
pub fn write(target: &Target<'_>, request: &ModelRequest) -> Outgoing {
    let utterances = conversation::of(&request.messages, target);
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
    /// The word for the answer's end; empty without one.
    reason: String,
    /// The server's explanation of it.
    details: String,
    calls: PartialCalls,
    texts: TextDeltas,
    /// The current thinking: its text and its signature.
    thinking: Option<(String, String)>,
    /// Events of unknown types.
    unknown: u64,
    /// The data to send again.
    replay: Vec<Value<'static>>,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self {
            calls: PartialCalls::new(&request.messages),
            texts: TextDeltas::new(request),
            ..Self::default()
        }
    }

    fn take(&mut self, tokens: Tokens) {
        // Each event contains the total so far, or nothing for that figure.
        let figure = |old: u64, new: Lenient<u64>| new.get().map_or(old, |new| new.max(old));
        self.usage.input = figure(self.usage.input, tokens.input_tokens);
        self.usage.output = figure(self.usage.output, tokens.output_tokens);
        self.usage.cache_read = figure(self.usage.cache_read, tokens.cache_read_input_tokens);
        self.usage.cache_write = figure(self.usage.cache_write, tokens.cache_creation_input_tokens);
    }

    fn begin(&mut self, index: u64, block: Block, out: &mut Out) -> Result<(), Broken> {
        match block.kind.text().as_str() {
            "tool_use" => {
                let at = self.calls.begin(Some(index), &block.id.text(), &block.name.text(), out)?;
                // A gateway may send all of it at once.
                if let Some(input) = block.input
                    && !matches!(&*input.0, "null" | "{}" | "\"\"")
                {
                    self.calls.whole(at, &input.0)?;
                }
            }
            "thinking" => {
                let text = self.texts.thinking(block.thinking.text(), out);
                self.thinking = Some((text, block.signature.text()));
            }
            "redacted_thinking" => {
                if let Some(data) = block.data.get() {
                    self.replay.push(Value::from(Map::new().with("redacted", data)));
                }
            }
            _ => {
                self.texts.text(block.text.text(), out);
            }
        }
        Ok(())
    }

    fn more(&mut self, index: u64, delta: Delta, out: &mut Out) -> Result<(), Broken> {
        self.texts.text(delta.text.text(), out);
        self.calls.more(index, json::written(delta.partial_json), out)?;
        if let Some(text) = delta.thinking.filled() {
            let text = self.texts.thinking(text, out);
            self.thinking.get_or_insert_default().0.push_str(&text);
        }
        if let Some(piece) = delta.signature.filled() {
            self.thinking.get_or_insert_default().1.push_str(&piece);
        }
        Ok(())
    }

    fn finish(&mut self, index: u64, out: &mut Out) {
        if let Some(at) = self.calls.open(index) {
            self.calls.finish(at, out);
        }
        self.texts.end(out);
        if let Some((thinking, signature)) = self.thinking.take()
            && !signature.is_empty()
        {
            self.replay.push(Value::from(Map::new().with("thinking", thinking).with("signature", signature)));
        }
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        if event.name == "error" {
            return Err(reported(event.data));
        }
        let payload: Payload = parse(event.data)?;
        let index = payload.index.get().unwrap_or_default();
        // A gateway may only name the event.
        let kind = payload.kind.filled().unwrap_or_else(|| event.name.to_owned());
        match kind.as_str() {
            "content_block_delta" => self.more(index, payload.delta.or_empty(), out)?,
            "content_block_start" => self.begin(index, payload.content_block.or_empty(), out)?,
            "content_block_stop" => self.finish(index, out),
            "message_start" => self.take(payload.message.or_empty().usage.or_empty()),
            "message_delta" => {
                self.take(payload.usage.or_empty());
                let delta = payload.delta.or_empty();
                if let Some(reason) = delta.stop_reason.filled() {
                    self.reason = reason;
                }
                let details = delta.stop_details.or_empty();
                if let Some(details) = details.explanation.filled().or(details.category.filled()) {
                    self.details = details;
                }
            }
            "message_stop" => return self.end(out),
            "error" => return Err(reported(event.data)),
            "ping" => {}
            // An addition of a later version.
            _ => self.unknown = self.unknown.saturating_add(1),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        if self.reason.is_empty() {
            return Err(Broken::Cut);
        }
        self.texts.end(out);
        let end = AnswerEnd::of("anthropic", &self.reason, &self.details, self.calls.len());
        let end = self.calls.close(end, out);
        self.over = true;
        if !end.is_broken() && !self.replay.is_empty() {
            out.push_back(Chunk::Replay(Value::vector(std::mem::take(&mut self.replay))));
        }
        out.push_back(Chunk::Usage(self.usage));
        close(end, out)
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn unknown(&self) -> u64 {
        self.unknown
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Payload {
    #[serde(rename = "type")]
    kind: Lenient<String>,
    index: Lenient<u64>,
    message: LenientStruct<Start>,
    content_block: LenientStruct<Block>,
    delta: LenientStruct<Delta>,
    usage: LenientStruct<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Start {
    usage: LenientStruct<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Block {
    #[serde(rename = "type")]
    kind: Lenient<String>,
    id: Lenient<String>,
    name: Lenient<String>,
    input: Option<RawJson>,
    text: Lenient<String>,
    thinking: Lenient<String>,
    signature: Lenient<String>,
    data: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    text: Lenient<String>,
    partial_json: Option<RawJson>,
    thinking: Lenient<String>,
    signature: Lenient<String>,
    stop_reason: Lenient<String>,
    stop_details: LenientStruct<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    category: Lenient<String>,
    explanation: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
    cache_read_input_tokens: Lenient<u64>,
    cache_creation_input_tokens: Lenient<u64>,
}
