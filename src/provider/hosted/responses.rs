//! OpenAI's Responses protocol: writes calls, reads events.
//!
//! The server keeps no state. Each call contains the whole conversation, and the model's thinking comes back
//! encrypted, to be sent again. Knows no connection.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::citations::{Annotation, Citations, SearchAction};
use super::history::{self, ContentPart, EncodedImage, HistoryIndex, HistoryPart, Source, Target, Utterance};
use super::json::{self, Object as _};
use super::lenient::{Lenient, LenientList, LenientStruct, RawJson};
use super::openai::effort;
use super::protocol::{Broken, Decoder, Out, Outgoing, close, parse, reported};
use super::sse::SseEvent;
use super::text_deltas::TextDeltas;
use crate::limits::{HOSTED_ANSWER_TOKENS, MAX_ANSWER_BYTES};
use crate::message::Usage;
use crate::provider::takes::CacheRequest;
use crate::provider::{AnswerEnd, Chunk, ModelRequest};
use crate::value::{Map, Value};

/// Writes a call.
pub fn write(target: &Target<'_>, request: &ModelRequest) -> Outgoing {
    let utterances = history::of(&request.messages, target);
    let (mut input, mut index) = (Vec::new(), HistoryIndex::default());
    for utterance in &utterances {
        items(utterance, &mut input, &mut index);
    }
    let mut body = json!({"model": request.model, "stream": true, "store": false, "input": input});
    if !request.system.is_empty() {
        body.put("instructions", Json::from(request.system.as_str()));
    }
    let searches = target.search(request);
    if !request.tools.is_empty() || !searches.is_empty() {
        let own = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": json::from_value(&tool.parameters),
                "strict": false,
            })
        });
        body.put("tools", searches.into_iter().chain(own).collect::<Json>());
    }
    if let Some(limit) = request.max_output_tokens {
        // Thinking counts as part of the answer here.
        let room = if request.thinking_by.is_some() { limit } else { HOSTED_ANSWER_TOKENS };
        body.put("max_output_tokens", Json::from(limit.min(room)));
    }
    if target.takes.cache == CacheRequest::Key && !request.session.is_empty() {
        body.put("prompt_cache_key", Json::from(&*request.session));
    }
    if request.thinking_by.is_some() {
        body.put("include", json!(["reasoning.encrypted_content"]));
        body.put("reasoning", json!({"effort": effort(request.thinking), "summary": "auto"}));
    }
    Outgoing { path: "responses".to_owned(), body, index }
}

/// The items of a message, until it ends.
#[derive(Default)]
struct OpenMessage {
    content: Vec<Json>,
    sources: Vec<Option<Source>>,
}

impl OpenMessage {
    fn part(&mut self, part: Json, source: Option<Source>) {
        self.content.push(part);
        self.sources.push(source);
    }

    fn end(&mut self, role: &str, items: &mut Vec<Json>, index: &mut HistoryIndex) {
        let Self { content, sources } = std::mem::take(self);
        if !content.is_empty() {
            items.push(json!({"type": "message", "role": role, "content": content}));
            index.message(sources);
        }
    }
}

fn items(utterance: &Utterance<'_>, items: &mut Vec<Json>, index: &mut HistoryIndex) {
    let mut message = OpenMessage::default();
    let role = if utterance.by_model { "assistant" } else { "user" };
    let picture = |image: &EncodedImage<'_>| json!({"type": "input_image", "image_url": image.url()});
    let parts = history::without_loose_thinking(&utterance.parts);
    for (place, HistoryPart { content, source }) in parts.iter().enumerate() {
        let item = match content {
            ContentPart::Text(text) => {
                let kind = if utterance.by_model { "output_text" } else { "input_text" };
                message.part(json!({"type": kind, "text": text}), *source);
                continue;
            }
            ContentPart::Image(image) => {
                message.part(picture(image), *source);
                continue;
            }
            ContentPart::Thinking(_) => continue,
            ContentPart::Replay(data) => {
                let raw = |key: &str| data.get(key).and_then(Value::as_str);
                // A server refuses a piece of reasoning without the item that it led to.
                if raw("item").is_some() && !leads(parts.get(place.saturating_add(1)..)) {
                    continue;
                }
                let json =
                    raw("item").or(raw("raw")).and_then(|item| serde_json::from_str::<Json>(item).ok());
                let Some(item) = json else { continue };
                item
            }
            ContentPart::Call { id, name, arguments } => {
                let written = json::from_value(arguments).to_string();
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": written})
            }
            ContentPart::Result { id, text, images, .. } => {
                let output = match images.as_slice() {
                    [] => Json::from(text.as_str()),
                    images => {
                        let mut parts = vec![json!({"type": "input_text", "text": text})];
                        parts.extend(images.iter().map(picture));
                        Json::from(parts)
                    }
                };
                json!({"type": "function_call_output", "call_id": id, "output": output})
            }
        };
        message.end(role, items, index);
        items.push(item);
        index.message(vec![*source]);
    }
    message.end(role, items, index);
}

/// Whether reasoning leads to the parts after it: to an item that is no reasoning.
fn leads(after: Option<&[HistoryPart<'_>]>) -> bool {
    let is_item = |part: &&HistoryPart<'_>| !matches!(part.content, ContentPart::Thinking(_));
    let next = after.unwrap_or_default().iter().find(is_item);
    next.is_some_and(|next| match &next.content {
        ContentPart::Replay(data) => data.get("item").is_none(),
        _ => true,
    })
}

/// An item that goes back as it came: reasoning, which leads to the next item, or a raw one.
fn replay(key: &'static str, json: &str) -> Chunk {
    Chunk::Replay { data: Value::from(Map::new().with(key, json.to_owned())), is_attached: false }
}

/// The types of events that say nothing new.
const REPEATED: [&str; 8] = [
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.annotation.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
];

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    calls: PartialCalls,
    texts: TextDeltas,
    /// The parts whose text came, each by the numbers of its item and of itself.
    with_text: HashSet<(u64, u64)>,
    /// The characters of the answer before each of these parts.
    text_starts: HashMap<(u64, u64), u64>,
    /// The sources of the answer.
    sources: Citations,
    /// The text that came in pieces, to tell it from that of the list at the end.
    text_so_far: String,
    /// The parts of the thinking that came, likewise.
    with_thinking: HashSet<(u64, u64)>,
    /// The ids of the items that go back as they came.
    replayed: HashSet<String>,
    /// Whether the server leaves out the number of an event's item.
    is_unnumbered: bool,
    /// Events of unknown types.
    unknown: u64,
    /// Whether a part of the thinking was shown, so that the next one starts a paragraph.
    thought: bool,
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

    /// Takes a whole item, and adds what its pieces lack.
    fn item(&mut self, key: u64, json: &str, is_last: bool, out: &mut Out) -> Result<(), Broken> {
        let item: Item = parse(json)?;
        let kind = item.kind.text();
        let replayed_as = match kind.as_str() {
            "" | "message" | "function_call" => None,
            "reasoning" => item.encrypted_content.filled().map(|_| "item"),
            // A call of the server's own tools, or an item of a later version.
            _ => (!is_last || !self.is_unnumbered).then_some("raw"),
        };
        if let Some(form) = replayed_as {
            let id = item.id.filled().unwrap_or_else(|| format!("#{key}"));
            if self.replayed.insert(id) {
                self.texts.end(out);
                out.push_back(replay(form, json));
                self.sources.action(item.action.or_empty());
            }
        }
        match kind.as_str() {
            "function_call" => {
                let id = item.call_id.text();
                // The list at the end repeats the items, and a proxy may repeat them with other ids.
                let is_repeated =
                    is_last && (self.calls.has_key(key) || (self.is_unnumbered && !self.calls.is_empty()));
                let at = match self.calls.find(&id, key) {
                    Some(at) => at,
                    None if is_repeated => return Ok(()),
                    None => self.calls.begin(Some(key), &id, &item.name.text(), out)?,
                };
                let arguments = json::written(item.arguments);
                if !arguments.is_empty() {
                    self.calls.whole(at, &arguments)?;
                }
                self.calls.finish(at, out);
            }
            "message" => {
                for (place, part) in (0..).zip(item.content) {
                    let text = part.text.text() + &part.refusal.text();
                    // A proxy may number all items alike, and the list counts them.
                    if !self.is_known_text() && (!is_last || !self.text_so_far.contains(&text)) {
                        self.missing(key, place, text, out);
                    }
                    let begin = self.text_starts.get(&(key, place)).copied();
                    let begin = begin.filter(|_| !self.is_unnumbered);
                    part.annotations.into_iter().for_each(|one| self.sources.annotation(one, begin));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a whole text is one that came already, as far as can be told without numbers: any may be it.
    fn is_known_text(&self) -> bool {
        self.is_unnumbered && !self.with_text.is_empty()
    }

    /// Notes where a part of the text begins.
    fn begin_text(&mut self, key: u64, place: u64) {
        if let Some(chars) = self.texts.chars() {
            self.text_starts.entry((key, place)).or_insert(chars);
        }
    }

    /// A part's whole text, if it did not come in pieces.
    fn missing(&mut self, key: u64, place: u64, text: String, out: &mut Out) {
        if !text.is_empty() && self.with_text.insert((key, place)) {
            self.begin_text(key, place);
            self.texts.text(text, out);
        }
    }

    fn completed(&mut self, response: Finished, word: &str, out: &mut Out) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        let output =
            response.output.map(|list| serde_json::from_str::<Vec<RawJson>>(&list.0).unwrap_or_default());
        for (key, item) in (0..).zip(output.unwrap_or_default()) {
            self.item(key, &item.0, true, out)?;
        }
        self.texts.end(out);
        let why = response.incomplete_details.or_empty().reason.filled();
        let word = why.or(response.status.filled()).unwrap_or_else(|| word.to_owned());
        let end = AnswerEnd::of("openai-responses", &word, "", self.calls.len());
        let end = self.calls.close(end, out);
        self.over = true;
        self.sources.end(out);
        if let Some(tokens) = response.usage.get() {
            let details = tokens.input_tokens_details.or_empty();
            let cache_read = details.cached_tokens.get().unwrap_or(0);
            let cache_write = details.cache_write_tokens.get().unwrap_or(0);
            let input = tokens.input_tokens.get().unwrap_or(0);
            out.push_back(Chunk::Usage(Usage {
                input: input.saturating_sub(cache_read).saturating_sub(cache_write),
                output: tokens.output_tokens.get().unwrap_or(0),
                cache_read,
                cache_write,
                cost: 0.0,
            }));
        }
        close(end, out)
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        if event.data.trim() == "[DONE]" {
            return Ok(());
        }
        if event.name == "error" {
            return Err(reported(event.data));
        }
        let payload: Payload = parse(event.data)?;
        let index = payload.output_index.get();
        let (key, place) = (index.unwrap_or_default(), payload.content_index.get().unwrap_or_default());
        let thought = payload.summary_index.get().unwrap_or(place);
        let kind = payload.kind.filled().unwrap_or_else(|| event.name.to_owned());
        self.is_unnumbered |= index.is_none() && kind.starts_with("response.output_");
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                if let Some(text) = payload.delta.filled() {
                    self.begin_text(key, place);
                    self.with_text.insert((key, place));
                    if self.text_so_far.len() < MAX_ANSWER_BYTES {
                        self.text_so_far.push_str(&text);
                    }
                    self.texts.text(text, out);
                }
            }
            "response.output_text.done" | "response.refusal.done" if self.is_known_text() => {}
            "response.output_text.done" | "response.refusal.done" => {
                self.missing(key, place, payload.text.text() + &payload.refusal.text(), out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                self.with_thinking.insert((key, thought));
                self.texts.thinking(payload.delta.text(), out);
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done"
                if index.is_some() || self.with_thinking.is_empty() =>
            {
                if self.with_thinking.insert((key, thought)) {
                    self.thought = true;
                    self.texts.thinking(payload.text.text(), out);
                }
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {}
            "response.reasoning_summary_part.added" if self.thought => {
                self.texts.thinking("\n\n".to_owned(), out);
            }
            "response.output_item.added" => {
                let item: Item = parse(payload.item.as_ref().map_or("{}", |item| &item.0))?;
                if item.kind.text() == "function_call" {
                    self.calls.begin(Some(key), &item.call_id.text(), &item.name.text(), out)?;
                }
            }
            "response.function_call_arguments.delta" => {
                let piece: ArgumentsPiece = parse(event.data)?;
                self.calls.more(key, json::written(piece.delta), out)?;
            }
            "response.function_call_arguments.done" => {
                let piece: ArgumentsPiece = parse(event.data)?;
                let arguments = json::written(piece.arguments);
                if let Some(at) = index.and_then(|key| self.calls.open(key)).filter(|_| !arguments.is_empty())
                {
                    self.calls.whole(at, &arguments)?;
                }
            }
            "response.output_item.done" => {
                self.texts.end(out);
                if let Some(item) = payload.item {
                    self.item(key, &item.0, false, out)?;
                }
            }
            "response.completed" | "response.incomplete" | "response.cancelled" => {
                let word = kind.strip_prefix("response.").unwrap_or_default();
                self.completed(payload.response.or_empty(), word, out)?;
            }
            "response.failed" | "error" => return Err(reported(event.data)),
            kind if REPEATED.contains(&kind) => {}
            _ => self.unknown = self.unknown.saturating_add(1),
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Result<(), Broken> {
        if self.over { Ok(()) } else { Err(Broken::Cut) }
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
    output_index: Lenient<u64>,
    content_index: Lenient<u64>,
    summary_index: Lenient<u64>,
    delta: Lenient<String>,
    text: Lenient<String>,
    refusal: Lenient<String>,
    item: Option<RawJson>,
    response: LenientStruct<Finished>,
}

/// More of a call's arguments, or all of them.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ArgumentsPiece {
    delta: Option<RawJson>,
    arguments: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Item {
    #[serde(rename = "type")]
    kind: Lenient<String>,
    id: Lenient<String>,
    call_id: Lenient<String>,
    name: Lenient<String>,
    arguments: Option<RawJson>,
    encrypted_content: Lenient<String>,
    content: LenientList<ItemPart>,
    action: LenientStruct<SearchAction>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ItemPart {
    text: Lenient<String>,
    refusal: Lenient<String>,
    annotations: LenientList<Annotation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Finished {
    status: Lenient<String>,
    output: Option<RawJson>,
    usage: LenientStruct<Tokens>,
    incomplete_details: LenientStruct<Incomplete>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Incomplete {
    reason: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_tokens: Lenient<u64>,
    output_tokens: Lenient<u64>,
    input_tokens_details: LenientStruct<InputTokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InputTokens {
    cached_tokens: Lenient<u64>,
    cache_write_tokens: Lenient<u64>,
}
