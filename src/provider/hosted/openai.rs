//! OpenAI's Chat Completions protocol, as OpenAI and others implement it: writes calls, reads events.
//!
//! Servers differ in their additions. Thinking arrives as `reasoning_content` or `reasoning`, usage with the
//! last choice or after it, and the end with or without `[DONE]`. This module accepts all of that. Knows no
//! connection.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::{Value as Json, json};

use super::calls::{CallPiece, PartialCalls};
use super::citations::{Annotation, Citations};
use super::gemini::signed;
use super::history::{self, ContentPart, EncodedImage, HistoryIndex, HistoryPart, Target, Utterance};
use super::json::{self, Object as _};
use super::lenient::{Lenient, LenientList, LenientScalars, LenientStruct, RawJson};
use super::protocol::{Broken, Decoder, Out, Outgoing, close, parse, reported};
use super::spec::Server;
use super::sse::SseEvent;
use super::text_deltas::TextDeltas;
use crate::limits::{HOSTED_ANSWER_TOKENS, MAX_ANSWER_BYTES};
use crate::message::{ThinkingLevel, Usage};
use crate::provider::takes::{CacheRequest, Takes};
use crate::provider::{AnswerEnd, Chunk, ModelRequest};
use crate::value::{Map, Value};

/// Writes a call.
pub fn write(target: &Target<'_>, request: &ModelRequest, server: Server) -> Outgoing {
    let utterances = history::of(&request.messages, target);
    let (mut messages, mut index) = (Vec::new(), HistoryIndex::default());
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
        index.message(Vec::new());
    }
    for utterance in &utterances {
        if utterance.by_model {
            messages.push(model(utterance, &target.takes));
            index.message(utterance.parts.iter().map(|part| part.source).collect());
        } else {
            user(utterance, &mut messages, &mut index);
        }
    }
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    let searches = target.search(request);
    if !request.tools.is_empty() || !searches.is_empty() {
        let own = request.tools.iter().map(|tool| {
            let schema = json::from_value(&tool.parameters);
            let function = json!({"name": tool.name, "description": tool.description, "parameters": schema});
            json!({"type": "function", "function": function})
        });
        body.put("tools", searches.into_iter().chain(own).collect::<Json>());
    }
    if let Some(limit) = request.max_output_tokens {
        let key = if server == Server::OpenAi { "max_completion_tokens" } else { "max_tokens" };
        body.put(key, Json::from(limit.min(HOSTED_ANSWER_TOKENS)));
    }
    if request.thinking_by.is_some() {
        body.put("reasoning_effort", Json::from(effort(request.thinking)));
    }
    match target.takes.cache {
        CacheRequest::Top => body.put("cache_control", json!({"type": "ephemeral"})),
        CacheRequest::Key if !request.session.is_empty() => {
            body.put("prompt_cache_key", Json::from(&*request.session));
        }
        _ => {}
    }
    if server == Server::OpenRouter {
        body.put("usage", json!({"include": true}));
    }
    Outgoing { path: "chat/completions".to_owned(), body, index }
}

/// OpenAI's name for a thinking level.
pub fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off => "none",
        level => level.as_str(),
    }
}

fn model(utterance: &Utterance<'_>, takes: &Takes) -> Json {
    let (mut text, mut thinking, mut calls, mut field) = (String::new(), String::new(), Vec::new(), None);
    let mut details = Vec::new();
    for HistoryPart { content: part, .. } in &utterance.parts {
        match part {
            ContentPart::Text(part) => text.push_str(part),
            ContentPart::Thinking(part) => thinking.push_str(part),
            ContentPart::Call { id, name, arguments } => {
                let written = json::from_value(arguments).to_string();
                let function = json!({"name": name, "arguments": written});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            ContentPart::Replay(data) => {
                let text = |key: &str| data.get(key).and_then(Value::as_str);
                field = text("field").or(field);
                let came = data.get("details").and_then(Value::as_slice).unwrap_or_default().iter();
                let came = came.filter_map(Value::as_str);
                details.extend(came.filter_map(|text| serde_json::from_str::<Json>(text).ok()));
                if let (Some(signature), Some(call)) = (text("signature"), calls.last_mut()) {
                    call.put("extra_content", json!({"google": {"thought_signature": signature}}));
                }
            }
            ContentPart::Image(_) | ContentPart::Result { .. } => {}
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    let has_calls = !calls.is_empty();
    if has_calls {
        if text.is_empty() {
            message.put("content", Json::Null);
        }
        message.put("tool_calls", Json::from(calls));
    }
    // Thinking goes back with the calls that it led to, in all turns: some servers refuse them without it.
    let came = field.filter(|field| ["reasoning_content", "reasoning"].contains(field));
    let field = takes.thinking_field.as_deref().or(came).filter(|field| !field.is_empty());
    if !details.is_empty() {
        message.put("reasoning_details", Json::from(details));
    } else if let Some(field) = field
        && has_calls
        && (takes.thinking_always || !thinking.is_empty())
    {
        message.put(field, Json::from(thinking));
    }
    message
}

fn user(utterance: &Utterance<'_>, messages: &mut Vec<Json>, index: &mut HistoryIndex) {
    let (mut content, mut sources) = (Vec::new(), Vec::new());
    let text = |text: &str| json!({"type": "text", "text": text});
    let picture = |image: &EncodedImage<'_>| json!({"type": "image_url", "image_url": {"url": image.url()}});
    for HistoryPart { content: part, source } in &utterance.parts {
        match part {
            ContentPart::Text(part) => content.push(text(part)),
            ContentPart::Image(image) => content.push(picture(image)),
            ContentPart::Result { id, text: result, images, .. } => {
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
                index.message(vec![*source]);
                // A tool's message has only text here; its images follow in a user's message.
                content.extend(images.iter().map(picture));
            }
            ContentPart::Thinking(_) | ContentPart::Call { .. } | ContentPart::Replay(_) => {}
        }
        sources.resize(content.len(), *source);
    }
    if content.is_empty() {
        return;
    }
    // Plain text as a string, because small servers support nothing else.
    let content = match content.as_slice() {
        [only] if only.text("type") == Some("text") => Json::from(only.text("text")),
        _ => Json::from(content),
    };
    messages.push(json!({"role": "user", "content": content}));
    index.message(sources);
}

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    calls: PartialCalls,
    texts: TextDeltas,
    usage: Option<Usage>,
    /// Events of unknown types.
    unknown: u64,
    /// Whether the server gives no word for the end, so that `[DONE]` alone is one.
    ends_without_reason: bool,
    /// The word for the answer's end; empty without one.
    reason: String,
    /// The field that contains the thinking.
    thinking_in: Option<&'static str>,
    /// Thinking in OpenRouter's form, which goes back as it came.
    details: Vec<Json>,
    /// The bytes of that.
    details_bytes: usize,
    /// The sources of the answer.
    sources: Citations,
    /// Pages that the server has listed beside the answer: it does so again with each event.
    listed: usize,
    /// The signatures of the calls, from Gemini behind this protocol.
    signatures: Vec<Option<String>>,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest, ends_without_reason: bool) -> Self {
        Self {
            calls: PartialCalls::new(&request.messages),
            texts: TextDeltas::new(request),
            ends_without_reason,
            ..Self::default()
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Out) -> Result<(), Broken> {
        for (field, text) in [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)]
        {
            // Only one of them, because some servers fill both with the same text.
            if let Some(text) = text.filled()
                && *self.thinking_in.get_or_insert(field) == field
            {
                self.texts.thinking(text, out);
            }
        }
        for detail in delta.reasoning_details {
            self.details_bytes = self.details_bytes.saturating_add(detail.to_string().len());
            if self.details_bytes > MAX_ANSWER_BYTES {
                return Err(Broken::TooLarge(format!("thinking of more than {MAX_ANSWER_BYTES} bytes")));
            }
            join_detail(&mut self.details, detail);
        }
        let begin = Some(0).filter(|_| self.texts.chars().is_some());
        delta.annotations.into_iter().for_each(|one| self.sources.annotation(one, begin));
        let Content { text, thinking } = delta.content;
        self.texts.thinking(thinking, out);
        self.texts.text(text, out);
        self.texts.text(delta.refusal.text(), out);
        for call in delta.tool_calls {
            self.texts.end(out);
            let function = call.function.or_empty();
            let arguments = json::written(function.arguments);
            let (id, name) = (call.id.text(), function.name.text());
            let piece = CallPiece { key: call.index.get(), id: &id, name: &name, arguments };
            self.calls.piece(piece, out)?;
            if let Some(signature) =
                call.extra_content.or_empty().google.or_empty().thought_signature.filled()
            {
                let place = self.calls.len().saturating_sub(1);
                self.signatures.resize(self.signatures.len().max(self.calls.len()), None);
                if let Some(known) = self.signatures.get_mut(place) {
                    *known = Some(signature);
                }
            }
        }
        Ok(())
    }

    /// Where the thinking came, and the form in which the server needs it back.
    fn replay(&self) -> Option<Chunk> {
        let mut replay = Map::new();
        replay.put_some("field", self.thinking_in);
        if !self.details.is_empty() {
            let details = self.details.iter().map(|detail| Value::from(detail.to_string()));
            replay.put("details", Value::vector(details));
        }
        (!replay.is_empty()).then(|| Chunk::Replay { data: Value::from(replay), is_attached: false })
    }
}

/// Adds a piece of thinking in OpenRouter's form to the detail that it belongs to.
fn join_detail(details: &mut Vec<Json>, piece: Json) {
    let is_same = |detail: &Json, key: &str| detail.get(key) == piece.get(key);
    let last = details.last_mut().filter(|last| {
        let is_whole = piece.text("type") == Some("reasoning.encrypted") && piece.get("index").is_none();
        !is_whole && is_same(last, "type") && is_same(last, "index")
    });
    let (Some(last), Json::Object(fields)) = (last, &piece) else {
        return details.push(piece);
    };
    for (key, value) in fields {
        match (last.text(key), value.as_str()) {
            (Some(old), Some(new)) if ["text", "summary", "data"].contains(&key.as_str()) => {
                let joined = format!("{old}{new}");
                last.put(key, joined);
            }
            _ if value.is_null() => {}
            _ => last.put(key, value.clone()),
        }
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        if event.data.trim() == "[DONE]" {
            if self.reason.is_empty() && self.ends_without_reason {
                self.reason = "stop".to_owned();
            }
            return self.finish(out);
        }
        if event.name == "error" {
            return Err(reported(event.data));
        }
        let payload: Payload = parse(event.data)?;
        if payload.error.is_some() {
            return Err(reported(event.data));
        }
        let usage = payload.usage.get().or_else(|| payload.x_groq.get().and_then(|groq| groq.usage.get()));
        let has_usage = usage.is_some();
        if let Some(usage) = usage {
            self.usage = Some(usage.usage());
        }
        self.list(payload.search_results.into_iter().collect(), payload.citations.into_iter().collect());
        let Some(choice) = payload.choices.into_iter().next() else {
            self.unknown = self.unknown.saturating_add(u64::from(!has_usage));
            return Ok(());
        };
        if let Some(delta) = choice.delta.get() {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice.finish_reason.filled() {
            self.reason = reason;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out) -> Result<(), Broken> {
        if self.over {
            return Ok(());
        }
        // A connection may end without [DONE], but not before the reason.
        if self.reason.is_empty() { Err(Broken::Cut) } else { self.finish(out) }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn unknown(&self) -> u64 {
        self.unknown
    }
}

impl AnswerDecoder {
    /// Notes the pages that Perplexity lists beside the answer, with their titles or without.
    fn list(&mut self, results: Vec<ListedPage>, citations: Vec<String>) {
        let count = results.len().max(citations.len());
        if count <= self.listed {
            return;
        }
        self.listed = count;
        for page in results {
            self.sources.page(&page.url.text(), &page.title.text(), None);
        }
        citations.into_iter().for_each(|url| self.sources.page(&url, "", None));
    }

    fn finish(&mut self, out: &mut Out) -> Result<(), Broken> {
        let end = AnswerEnd::of("openai", &self.reason, "", self.calls.len());
        self.over = true;
        self.texts.end(out);
        if !end.is_broken() {
            out.extend(self.replay());
            let signatures = std::mem::take(&mut self.signatures).into_iter().chain(std::iter::repeat(None));
            for (at, signature) in (0..self.calls.len()).zip(signatures) {
                self.calls.finish(at, out);
                out.extend(signature.map(signed));
            }
        }
        self.sources.end(out);
        out.extend(self.usage.map(Chunk::Usage));
        close(end, out)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Payload {
    choices: LenientList<Choice>,
    usage: LenientStruct<Tokens>,
    x_groq: LenientStruct<Groq>,
    search_results: LenientList<ListedPage>,
    citations: LenientScalars<String>,
    error: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListedPage {
    url: Lenient<String>,
    title: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Groq {
    usage: LenientStruct<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Choice {
    delta: LenientStruct<Delta>,
    finish_reason: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    content: Content,
    reasoning_content: Lenient<String>,
    reasoning: Lenient<String>,
    refusal: Lenient<String>,
    reasoning_details: LenientList<Json>,
    tool_calls: LenientList<FunctionCall>,
    annotations: LenientList<Annotation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FunctionCall {
    index: Lenient<u64>,
    id: Lenient<String>,
    function: LenientStruct<Function>,
    extra_content: LenientStruct<Extra>,
}

/// Gemini's addition to a call.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Extra {
    google: LenientStruct<Google>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Google {
    thought_signature: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Function {
    name: Lenient<String>,
    arguments: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    prompt_tokens: Lenient<u64>,
    completion_tokens: Lenient<u64>,
    prompt_tokens_details: LenientStruct<PromptTokens>,
    /// DeepSeek's own name.
    prompt_cache_hit_tokens: Lenient<u64>,
    /// OpenRouter reports the price.
    cost: Lenient<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptTokens {
    cached_tokens: Lenient<u64>,
    cache_write_tokens: Lenient<u64>,
}

impl Tokens {
    fn usage(self) -> Usage {
        let details = self.prompt_tokens_details.or_empty();
        let cache_read = details.cached_tokens.get().or(self.prompt_cache_hit_tokens.get()).unwrap_or(0);
        let cache_write = details.cache_write_tokens.get().unwrap_or(0);
        let input = self.prompt_tokens.get().unwrap_or(0);
        Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: self.completion_tokens.get().unwrap_or(0),
            cache_read,
            cache_write,
            cost: self.cost.get().filter(|cost| cost.is_finite() && *cost > 0.0).unwrap_or(0.0),
        }
    }
}

/// The content of a delta: a text, or (from Mistral) parts, some of which are thinking.
#[derive(Default)]
struct Content {
    text: String,
    thinking: String,
}

/// A part of a content, or of a thought.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ContentPiece {
    text: Lenient<String>,
    thinking: LenientList<ContentPiece>,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = RawJson::deserialize(deserializer)?.0;
        let mut content = Self::default();
        if json.starts_with('[') {
            for part in serde_json::from_str::<LenientList<ContentPiece>>(&json).unwrap_or_default() {
                content.text.push_str(&part.text.text());
                content.thinking.extend(part.thinking.into_iter().map(|thought| thought.text.text()));
            }
        } else {
            content.text = serde_json::from_str::<Lenient<String>>(&json).unwrap_or_default().text();
        }
        Ok(content)
    }
}
