//! Gemini's `streamGenerateContent` protocol: writes calls, reads events. Knows no connection.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::citations::Citations;
use super::history::{self, ContentPart, EncodedImage, HistoryIndex, HistoryPart, Target, Utterance};
use super::json::{self, Object as _};
use super::lenient::{Lenient, LenientList, LenientScalars, LenientStruct, RawJson};
use super::protocol::{Broken, Decoder, Out, Outgoing, close, parse, reported};
use super::sse::SseEvent;
use super::text_deltas::TextDeltas;
use crate::limits::{ANSWER_SOURCES, HOSTED_ANSWER_TOKENS, MAX_ANSWER_BYTES};
use crate::message::{ThinkingLevel, Usage};
use crate::provider::{AnswerEnd, Chunk, ModelRequest, ThinkingBy};
use crate::value::{Map, Value};

/// Replaces a missing signature, for calls of another model. Google documents it for histories that did not
/// come from the model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Writes a call.
pub fn write(target: &Target<'_>, request: &ModelRequest) -> Outgoing {
    let utterances = history::of(&request.messages, target);
    let signed = target.takes.signed_calls || request.thinking_by == Some(ThinkingBy::Effort);
    let mut index = HistoryIndex::default();
    let rich = target.takes.rich_results;
    let contents: Vec<Json> =
        utterances.iter().map(|utterance| side(utterance, signed, rich, &mut index)).collect();
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
    let searches = target.search(request);
    if !searches.is_empty() {
        let own = body.get("tools").and_then(Json::as_array).cloned().unwrap_or_default();
        // Beside functions, its own calls and their results are told, and go back.
        if !own.is_empty() {
            body.put("toolConfig", json!({"includeServerSideToolInvocations": true}));
        }
        body.put("tools", own.into_iter().chain(searches).collect::<Json>());
    }
    Outgoing { path: format!("models/{}:streamGenerateContent?alt=sse", request.model), body, index }
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

fn side(utterance: &Utterance<'_>, signed: bool, rich: bool, index: &mut HistoryIndex) -> Json {
    let (mut parts, mut sources) = (Vec::new(), Vec::new());
    let mut calls = 0;
    let signature = |part: &ContentPart<'_>| match part {
        ContentPart::Replay(data) => data.get("signature").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let picture =
        |image: &EncodedImage<'_>| json!({"inlineData": {"mimeType": image.mime_type, "data": image.data}});
    for (place, HistoryPart { content: part, source }) in utterance.parts.iter().enumerate() {
        match part {
            ContentPart::Text(text) => parts.push(json!({"text": text})),
            ContentPart::Thinking(_) => {}
            ContentPart::Image(image) => parts.push(picture(image)),
            ContentPart::Replay(data) if data.get("raw").is_some() => {
                let raw = data.get("raw").and_then(Value::as_str);
                parts.extend(raw.and_then(|raw| serde_json::from_str::<Json>(raw).ok()));
            }
            ContentPart::Replay(_) => {
                let Some(signature) = signature(part) else { continue };
                // The signature of a part without text is a part of its own.
                match parts.last_mut().filter(|last| last.get("thoughtSignature").is_none()) {
                    Some(last) => last.put("thoughtSignature", signature),
                    None => parts.push(json!({"text": "", "thoughtSignature": signature})),
                }
            }
            ContentPart::Call { id, name, arguments } => {
                let mut call = json!({"name": name, "args": json::from_value(arguments)});
                if rich {
                    call.put("id", Json::from(&**id));
                }
                let mut part = json!({"functionCall": call});
                let next = utterance.parts.get(place.saturating_add(1));
                let is_signed = next.is_some_and(|next| signature(&next.content).is_some());
                if signed && calls == 0 && !is_signed {
                    part.put("thoughtSignature", Json::from(NO_SIGNATURE));
                }
                calls += 1;
                parts.push(part);
            }
            ContentPart::Result { id, name, failed, text, images } => {
                let key = if *failed { "error" } else { "result" };
                let mut result = json!({"name": name, "response": {key: text}});
                let images = images.iter().map(picture);
                if rich {
                    result.put("id", Json::from(&**id));
                    let images: Vec<Json> = images.collect();
                    if !images.is_empty() {
                        result.put("parts", Json::from(images));
                    }
                    parts.push(json!({"functionResponse": result}));
                } else {
                    parts.push(json!({"functionResponse": result}));
                    parts.extend(images);
                }
            }
        }
        sources.resize(parts.len(), *source);
    }
    index.message(sources);
    json!({"role": if utterance.by_model { "model" } else { "user" }, "parts": parts})
}

/// The signature of the part before it.
pub fn signed(signature: String) -> Chunk {
    Chunk::Replay { data: Value::from(Map::new().with("signature", signature)), is_attached: true }
}

/// The decoder of one answer.
#[derive(Default)]
pub struct AnswerDecoder {
    calls: PartialCalls,
    texts: TextDeltas,
    usage: Option<Usage>,
    /// Events of unknown types.
    unknown: u64,
    /// The word for the answer's end; empty without one.
    reason: String,
    /// The server's explanation of it.
    message: String,
    /// The sources of the answer.
    sources: Citations,
    /// The text so far, if its bytes have to be told from its characters; and what it rests on, as told last.
    said: Option<String>,
    grounding: Option<Grounding>,
    /// Bytes of the parts that go back as they came.
    raw_bytes: usize,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self {
            calls: PartialCalls::new(&request.messages),
            texts: TextDeltas::new(request),
            said: request.web_search.then(String::new),
            ..Self::default()
        }
    }

    /// A call of the server's own tools, or its result: goes back as it came.
    fn own_part(&mut self, part: &Piece, raw: &str, out: &mut Out) -> Result<(), Broken> {
        self.raw_bytes = self.raw_bytes.saturating_add(raw.len());
        if self.raw_bytes > MAX_ANSWER_BYTES {
            return Err(Broken::TooLarge(format!("parts of its own of more than {MAX_ANSWER_BYTES} bytes")));
        }
        let call = part.tool_call.as_ref().and_then(|call| serde_json::from_str::<Json>(&call.0).ok());
        let args = call.as_ref().and_then(|call| call.get("args"));
        let queries = args.and_then(|args| args.get("queries")).and_then(Json::as_array);
        let words = queries.into_iter().flatten().filter_map(Json::as_str);
        words.for_each(|words| self.sources.search(words));
        self.texts.end(out);
        let data = Value::from(Map::new().with("raw", raw.to_owned()));
        out.push_back(Chunk::Replay { data, is_attached: false });
        Ok(())
    }

    fn part(&mut self, raw: &str, out: &mut Out) -> Result<(), Broken> {
        let part: Piece = parse(raw)?;
        if part.tool_call.is_some() || part.tool_response.is_some() {
            return self.own_part(&part, raw, out);
        }
        if let Some(text) = part.text.filled() {
            if part.thought.get() == Some(true) {
                self.texts.thinking(text, out);
            } else {
                if let Some(said) = &mut self.said {
                    said.push_str(&text);
                }
                self.texts.text(text, out);
            }
        }
        if let Some(call) = part.function_call.get() {
            self.texts.end(out);
            let key = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
            let at = self.calls.begin(Some(key), &call.id.text(), &call.name.text(), out)?;
            let written = call.args.filter(|args| &*args.0 != "null");
            self.calls.more(key, written.map_or_else(|| "{}".to_owned(), |args| args.0.into()), out)?;
            self.calls.finish(at, out);
        }
        if let Some(signature) = part.thought_signature.filled() {
            self.texts.end(out);
            out.push_back(signed(signature));
        }
        Ok(())
    }
}

impl AnswerDecoder {
    /// Notes what the text rests on.
    fn cite(&mut self) {
        let Some(grounding) = self.grounding.take() else { return };
        for words in grounding.web_search_queries {
            self.sources.search(&words);
        }
        let said = self.said.take().unwrap_or_default();
        let page = |chunk: Chunked| {
            let web = chunk.web.or_empty();
            (web.uri.text(), web.title.text())
        };
        let pages: Vec<(String, String)> = grounding.grounding_chunks.into_iter().map(page).collect();
        for support in grounding.grounding_supports.into_iter().take(ANSWER_SOURCES) {
            let segment = support.segment.or_empty();
            let place = |bytes: u64| {
                let before = said.get(..usize::try_from(bytes).ok()?)?;
                u64::try_from(before.chars().count()).ok()
            };
            let begin = place(segment.start_index.get().unwrap_or(0));
            let span = begin.zip(segment.end_index.get().and_then(place));
            for index in support.grounding_chunk_indices {
                let index = usize::try_from(index).ok();
                if let Some((url, title)) = index.and_then(|index| pages.get(index)) {
                    self.sources.page(url, title, span);
                }
            }
        }
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        if event.name == "error" {
            return Err(reported(event.data));
        }
        let payload: Payload = parse(event.data)?;
        if payload.error.is_some() {
            return Err(reported(event.data));
        }
        let tokens = payload.usage_metadata.get();
        let has_usage = tokens.is_some();
        if let Some(tokens) = tokens {
            self.usage = Some(tokens.usage());
        }
        if let Some(why) = payload.prompt_feedback.or_empty().block_reason.filled() {
            // A prompt is blocked for more reasons than an answer is ended for; each is a refusal.
            self.texts.end(out);
            self.over = true;
            out.extend(self.usage.map(Chunk::Usage));
            return close(AnswerEnd::Refused(format!("with {why:?}")), out);
        }
        let Some(candidate) = payload.candidates.into_iter().next() else {
            self.unknown = self.unknown.saturating_add(u64::from(!has_usage));
            return Ok(());
        };
        for part in candidate.content.or_empty().parts {
            self.part(&part.0, out)?;
        }
        if let Some(grounding) = candidate.grounding_metadata.get() {
            self.grounding = Some(grounding);
        }
        for page in candidate.url_context_metadata.or_empty().url_metadata {
            self.sources.page(&page.retrieved_url.text(), "", None);
        }
        if let Some(reason) = candidate.finish_reason.filled() {
            self.reason = reason;
            self.message = candidate.finish_message.text();
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
        let end = AnswerEnd::of("gemini", &self.reason, &self.message, self.calls.len());
        self.over = true;
        self.cite();
        self.sources.end(out);
        out.extend(self.usage.map(Chunk::Usage));
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
#[serde(rename_all = "camelCase", default)]
struct Payload {
    candidates: LenientList<Candidate>,
    usage_metadata: LenientStruct<Tokens>,
    prompt_feedback: LenientStruct<Feedback>,
    error: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Candidate {
    content: LenientStruct<Content>,
    finish_reason: Lenient<String>,
    finish_message: Lenient<String>,
    grounding_metadata: LenientStruct<Grounding>,
    url_context_metadata: LenientStruct<Fetched>,
}

/// The grounds of an answer: pages, and the parts of the text with the numbers of theirs.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Grounding {
    web_search_queries: LenientScalars<String>,
    grounding_chunks: LenientList<Chunked>,
    grounding_supports: LenientList<Support>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Chunked {
    web: LenientStruct<Page>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Page {
    uri: Lenient<String>,
    title: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Support {
    segment: LenientStruct<Segment>,
    grounding_chunk_indices: LenientScalars<u64>,
}

/// Bytes of the text.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Segment {
    start_index: Lenient<u64>,
    end_index: Lenient<u64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Fetched {
    url_metadata: LenientList<FetchedPage>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct FetchedPage {
    retrieved_url: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Content {
    parts: LenientList<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Piece {
    text: Lenient<String>,
    thought: Lenient<bool>,
    function_call: LenientStruct<FunctionCall>,
    tool_call: Option<RawJson>,
    tool_response: Option<RawJson>,
    thought_signature: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FunctionCall {
    name: Lenient<String>,
    id: Lenient<String>,
    args: Option<RawJson>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Feedback {
    block_reason: Lenient<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    prompt_token_count: Lenient<u64>,
    candidates_token_count: Lenient<u64>,
    thoughts_token_count: Lenient<u64>,
    cached_content_token_count: Lenient<u64>,
}

impl Tokens {
    fn usage(self) -> Usage {
        let cache_read = self.cached_content_token_count.get().unwrap_or(0);
        let output = self.candidates_token_count.get().unwrap_or(0);
        Usage {
            input: self.prompt_token_count.get().unwrap_or(0).saturating_sub(cache_read),
            output: output.saturating_add(self.thoughts_token_count.get().unwrap_or(0)),
            cache_read,
            ..Usage::default()
        }
    }
}
