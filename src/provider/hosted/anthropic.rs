//! Anthropic's Messages protocol: writes calls, reads events. Knows no connection.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::citations::Citations;
use super::history::{self, ContentPart, EncodedImage, HistoryIndex, HistoryPart, Target, Utterance};
use super::json::{self, Object as _};
use super::lenient::{Lenient, LenientStruct, RawJson};
use super::protocol::{Broken, Decoder, Out, Outgoing, close, parse, reported};
use super::sse::SseEvent;
use super::text_deltas::TextDeltas;
use crate::limits::{HOSTED_ANSWER_TOKENS, MAX_ANSWER_BYTES};
use crate::message::{ThinkingLevel, Usage};
use crate::provider::takes::CacheRequest;
use crate::provider::{AnswerEnd, Chunk, ModelRequest, ThinkingBy};
use crate::value::{Map, Value};

/// The maximum answer of an unlisted model.
const USUAL_OUTPUT: u32 = 8192;

/// The minimum budget for thinking.
const LEAST_BUDGET: u32 = 1024;

/// Writes a call.
pub fn write(target: &Target<'_>, request: &ModelRequest) -> Outgoing {
    let utterances = history::of(&request.messages, target);
    let mut index = HistoryIndex::default();
    let mut messages: Vec<Json> = utterances.iter().map(|utterance| side(utterance, &mut index)).collect();
    // The next call reads this prefix from the cache: tools, instructions and conversation.
    let is_marked = target.takes.cache == CacheRequest::Marks;
    if let Some(last) = messages
        .last_mut()
        .filter(|_| is_marked)
        .and_then(|last| last.pointer_mut("/content")?.as_array_mut()?.last_mut())
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
        if is_marked {
            keep(&mut system);
        }
        body.put("system", json!([system]));
    }
    let searches = target.search(request);
    if !request.tools.is_empty() || !searches.is_empty() {
        let own = request.tools.iter().map(|tool| {
            let schema = json::from_value(&tool.parameters);
            json!({"name": tool.name, "description": tool.description, "input_schema": schema})
        });
        let mut tools: Vec<Json> = searches.into_iter().chain(own).collect();
        if let Some(last) = tools.last_mut().filter(|_| is_marked) {
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
    Outgoing { path: "v1/messages".to_owned(), body, index }
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
        let is_result = |part: &HistoryPart<'_>| matches!(part.content, ContentPart::Result { .. });
        utterance.by_model || utterance.parts.iter().any(is_result)
    };
    let mut open = utterances.iter().rev().take_while(answers).filter(|utterance| utterance.by_model);
    open.all(|utterance| {
        let contents = || utterance.parts.iter().map(|part| &part.content);
        let calls = contents().any(|part| matches!(part, ContentPart::Call { .. }));
        let thinks = |part: &ContentPart<'_>| matches!(part, ContentPart::Replay(data) if data.get("signature").is_some() || data.get("redacted").is_some());
        !calls || contents().find(|part| !matches!(part, ContentPart::Thinking(_))).is_some_and(thinks)
    })
}

fn side(utterance: &Utterance<'_>, index: &mut HistoryIndex) -> Json {
    let role = if utterance.by_model { "assistant" } else { "user" };
    let (mut content, mut sources) = (Vec::new(), Vec::new());
    for part in history::without_loose_thinking(&utterance.parts) {
        write_part(&part.content, &mut content);
        sources.resize(content.len(), part.source);
    }
    index.message(sources);
    json!({"role": role, "content": content})
}

fn write_part(part: &ContentPart<'_>, content: &mut Vec<Json>) {
    let written = match part {
        ContentPart::Text(text) => json!({"type": "text", "text": text}),
        // The server refuses thinking without its signature; with it, the replay contains it.
        ContentPart::Thinking(_) => return,
        ContentPart::Image(image) => picture(image),
        ContentPart::Call { id, name, arguments } => {
            json!({"type": "tool_use", "id": id, "name": name, "input": json::from_value(arguments)})
        }
        ContentPart::Result { id, failed, text, images, .. } => {
            let mut content = vec![json!({"type": "text", "text": text})];
            content.extend(images.iter().map(picture));
            json!({"type": "tool_result", "tool_use_id": id, "is_error": failed, "content": content})
        }
        ContentPart::Replay(data) => match replayed(data, content) {
            Some(block) => block,
            None => return,
        },
    };
    content.push(written);
}

fn picture(image: &EncodedImage<'_>) -> Json {
    let source = json!({"type": "base64", "media_type": image.mime_type, "data": image.data});
    json!({"type": "image", "source": source})
}

/// The block of a replay; none for citations, which go to the text before them.
fn replayed(data: &Value<'_>, content: &mut [Json]) -> Option<Json> {
    let text = |key| data.get(key).and_then(Value::as_str);
    if let Some(signature) = text("signature") {
        let thinking = text("thinking").unwrap_or_default();
        return Some(json!({"type": "thinking", "thinking": thinking, "signature": signature}));
    }
    if let Some(data) = text("redacted") {
        return Some(json!({"type": "redacted_thinking", "data": data}));
    }
    if let Some(citations) = text("citations").and_then(|json| serde_json::from_str::<Json>(json).ok()) {
        let last = content.last_mut().filter(|last| last.text("type") == Some("text"));
        last.into_iter().for_each(|last| last.put("citations", citations.clone()));
        return None;
    }
    serde_json::from_str(text("raw")?).ok()
}

fn replay(data: Map<'static>, is_attached: bool) -> Chunk {
    Chunk::Replay { data: Value::from(data), is_attached }
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
    /// The current block that only the server knows: its JSON, and the pieces of its input.
    raw: Option<(Json, String)>,
    /// The citations of the current text, which go back with it.
    citations: Vec<Json>,
    /// The characters of the answer before the current text.
    text_start: Option<u64>,
    /// The sources of the answer.
    sources: Citations,
    /// Bytes of the raw blocks and the citations.
    raw_bytes: usize,
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

    /// Counts bytes that go back to the server.
    fn weigh(&mut self, bytes: usize) -> Result<(), Broken> {
        self.raw_bytes = self.raw_bytes.saturating_add(bytes);
        if self.raw_bytes > MAX_ANSWER_BYTES {
            return Err(Broken::TooLarge(format!("blocks of its own of more than {MAX_ANSWER_BYTES} bytes")));
        }
        Ok(())
    }

    fn begin(&mut self, index: u64, raw: &str, out: &mut Out) -> Result<(), Broken> {
        let block: Block = parse(raw)?;
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
                    self.texts.end(out);
                    out.push_back(replay(Map::new().with("redacted", data), false));
                }
            }
            "text" | "" => {
                self.text_start = self.texts.chars();
                self.texts.text(block.text.text(), out);
            }
            _ => {
                self.texts.end(out);
                self.weigh(raw.len())?;
                self.raw = serde_json::from_str(raw).ok().map(|block| (block, String::new()));
            }
        }
        Ok(())
    }

    fn more(&mut self, index: u64, delta: Delta, out: &mut Out) -> Result<(), Broken> {
        self.texts.text(delta.text.text(), out);
        let input = json::written(delta.partial_json);
        match &mut self.raw {
            Some((_, pieces)) => {
                pieces.push_str(&input);
                self.weigh(input.len())?;
            }
            None => self.calls.more(index, input, out)?,
        }
        if let Some(citation) = delta.citation {
            self.weigh(citation.0.len())?;
            self.citations.extend(serde_json::from_str::<Json>(&citation.0));
        }
        if let Some(text) = delta.thinking.filled() {
            let text = self.texts.thinking(text, out);
            self.thinking.get_or_insert_default().0.push_str(&text);
        }
        if let Some(piece) = delta.signature.filled() {
            self.thinking.get_or_insert_default().1.push_str(&piece);
        }
        Ok(())
    }

    /// Notes the words of a search, and a page that was fetched.
    fn used(&mut self, block: &Json) {
        let text = |place: &str| block.pointer(place).and_then(Json::as_str);
        match block.text("type") {
            Some("server_tool_use") if block.text("name") == Some("web_search") => {
                self.sources.search(text("/input/query").unwrap_or_default());
            }
            Some("web_fetch_tool_result") => {
                let title = text("/content/content/title").unwrap_or_default();
                self.sources.page(text("/content/url").unwrap_or_default(), title, None);
            }
            _ => {}
        }
    }

    fn finish(&mut self, index: u64, out: &mut Out) {
        if let Some(at) = self.calls.open(index) {
            self.calls.finish(at, out);
        }
        self.texts.end(out);
        if let Some((thinking, signature)) = self.thinking.take()
            && !signature.is_empty()
        {
            out.push_back(replay(Map::new().with("thinking", thinking).with("signature", signature), false));
        }
        if let Some((mut block, pieces)) = self.raw.take() {
            if let Ok(input) = serde_json::from_str::<Json>(&pieces) {
                block.put("input", input);
            }
            self.used(&block);
            out.push_back(replay(Map::new().with("raw", block.to_string()), false));
        }
        if !self.citations.is_empty() {
            let span = self.text_start.zip(self.texts.chars());
            for citation in &self.citations {
                let title = citation.text("title").unwrap_or_default();
                self.sources.page(citation.text("url").unwrap_or_default(), title, span);
            }
            let citations = Json::from(std::mem::take(&mut self.citations)).to_string();
            out.push_back(replay(Map::new().with("citations", citations), true));
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
            "content_block_start" => {
                self.begin(index, payload.content_block.as_ref().map_or("{}", |block| &block.0), out)?;
            }
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
        self.sources.end(out);
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
    content_block: Option<RawJson>,
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
    citation: Option<RawJson>,
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
