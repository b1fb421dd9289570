//! OpenAI's Chat Completions protocol, as OpenAI and others implement it: writes calls, reads events.
//!
//! Servers differ in their additions. Thinking arrives as `reasoning_content` or `reasoning`, usage with the
//! last choice or after it, and the end with or without `[DONE]`. This module accepts all of that. Knows no
//! connection.

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value as Json, json};

use super::calls::PartialCalls;
use super::conversation::{self, ContentPart, EncodedImage, Utterance};
use super::json::{self, Object as _};
use super::protocol::{Broken, Decoder, Out, Outgoing, Quirks, parse};
use super::sse::SseEvent;
use crate::limits::HOSTED_ANSWER_TOKENS;
use crate::message::{StopReason, ThinkingLevel, Usage};
use crate::provider::{Chunk, ModelRequest};
use crate::value::Value;

/// Writes a call.
pub fn write(provider: &str, request: &ModelRequest, quirks: Quirks) -> Outgoing {
    let utterances = conversation::of(&request.messages, provider, &request.model);
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    // Thinking goes back to servers that need it, but only within its own turn.
    let asked = utterances.iter().rposition(|utterance| {
        !utterance.by_model && !utterance.parts.iter().any(|part| matches!(part, ContentPart::Result { .. }))
    });
    for (place, utterance) in utterances.iter().enumerate() {
        if utterance.by_model {
            messages.push(model(utterance, asked.is_none_or(|asked| place > asked)));
        } else {
            user(utterance, &mut messages);
        }
    }
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    if !request.tools.is_empty() {
        body.put(
            "tools",
            request
                .tools
                .iter()
                .map(|tool| {
                    let schema = json::from_value(&tool.parameters);
                    let function =
                        json!({"name": tool.name, "description": tool.description, "parameters": schema});
                    json!({"type": "function", "function": function})
                })
                .collect::<Json>(),
        );
    }
    if let Some(limit) = request.max_output_tokens {
        let key = if quirks.openai { "max_completion_tokens" } else { "max_tokens" };
        body.put(key, Json::from(limit.min(HOSTED_ANSWER_TOKENS)));
    }
    if request.thinking_by.is_some() {
        body.put("reasoning_effort", Json::from(effort(request.thinking)));
    }
    if quirks.openrouter {
        body.put("usage", json!({"include": true}));
    }
    Outgoing { path: "chat/completions".to_owned(), body }
}

/// OpenAI's name for a thinking level.
pub fn effort(level: ThinkingLevel) -> &'static str {
    match level {
        ThinkingLevel::Off => "none",
        level => level.as_str(),
    }
}

fn model(utterance: &Utterance<'_>, with_thinking: bool) -> Json {
    let (mut text, mut thinking, mut calls, mut field) = (String::new(), String::new(), Vec::new(), None);
    for part in &utterance.parts {
        match part {
            ContentPart::Text(part) => text.push_str(part),
            ContentPart::Thinking(part) => thinking.push_str(part),
            ContentPart::Call { id, name, arguments } => {
                let written = json::from_value(arguments).to_string();
                let function = json!({"name": name, "arguments": written});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            ContentPart::Replay(data) => field = data.as_str(),
            ContentPart::Image(_) | ContentPart::Result { .. } => {}
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        if text.is_empty() {
            message.put("content", Json::Null);
        }
        message.put("tool_calls", Json::from(calls));
    }
    if let (Some(field @ ("reasoning_content" | "reasoning")), true, false) =
        (field, with_thinking, thinking.is_empty())
    {
        message.put(field, Json::from(thinking));
    }
    message
}

fn user(utterance: &Utterance<'_>, messages: &mut Vec<Json>) {
    let mut content = Vec::new();
    let text = |text: &str| json!({"type": "text", "text": text});
    let picture = |image: &EncodedImage<'_>| json!({"type": "image_url", "image_url": {"url": image.url()}});
    for part in &utterance.parts {
        match part {
            ContentPart::Text(part) => content.push(text(part)),
            ContentPart::Image(image) => content.push(picture(image)),
            ContentPart::Result { id, text: result, images, .. } => {
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
                // A tool's message has only text here; its images follow in a user's message.
                content.extend(images.iter().map(picture));
            }
            ContentPart::Thinking(_) | ContentPart::Call { .. } | ContentPart::Replay(_) => {}
        }
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
}

/// The decoder of one answer.
pub struct AnswerDecoder {
    calls: PartialCalls,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    /// The field that contains the thinking.
    thinking_in: Option<&'static str>,
    over: bool,
}

impl AnswerDecoder {
    /// The decoder for the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self {
            calls: PartialCalls::new(&request.messages),
            usage: None,
            stop: None,
            thinking_in: None,
            over: false,
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Out) -> Result<(), Broken> {
        for (field, text) in [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)]
        {
            // Only one of them, because some servers fill both with the same text.
            if let Some(text) = text.filter(|text| !text.is_empty())
                && *self.thinking_in.get_or_insert(field) == field
            {
                out.push_back(Chunk::Thinking(text));
            }
        }
        if let Some(Content { text, thinking }) = delta.content {
            if !thinking.is_empty() {
                out.push_back(Chunk::Thinking(thinking));
            }
            if !text.is_empty() {
                out.push_back(Chunk::Text(text));
            }
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            out.push_back(Chunk::Text(text));
        }
        for (place, call) in delta.tool_calls.unwrap_or_default().into_iter().enumerate() {
            let function = call.function.unwrap_or_default();
            // A server without indices sends each call whole.
            let key = call
                .index
                .unwrap_or_else(|| u64::try_from(self.calls.len().saturating_add(place)).unwrap_or(u64::MAX));
            let name = function.name.unwrap_or_default();
            if !self.calls.has(key) {
                self.calls.begin(key, &call.id.unwrap_or_default(), &name, out)?;
            }
            match function.arguments {
                Some(Json::String(piece)) => self.calls.more(key, &piece, out)?,
                Some(Json::Null) | None => {}
                Some(whole) => self.calls.more(key, &whole.to_string(), out)?,
            }
        }
        Ok(())
    }
}

impl Decoder for AnswerDecoder {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Out) -> Result<(), Broken> {
        if event.data.trim() == "[DONE]" {
            self.stop.get_or_insert(StopReason::EndTurn);
            return self.end(out);
        }
        let payload: Payload = parse(event.data)?;
        if payload.error.is_some() {
            return Err(Broken::Reported(parse(event.data)?));
        }
        let usage = payload.usage.or_else(|| payload.x_groq.and_then(|groq| groq.usage));
        if let Some(usage) = usage {
            self.usage = Some(usage.read());
        }
        let Some(choice) = payload.choices.unwrap_or_default().into_iter().next() else { return Ok(()) };
        if let Some(delta) = choice.delta {
            self.delta(delta, out)?;
        }
        if let Some(reason) = choice.finish_reason {
            self.stop = Some(stop(&reason));
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
        if let Some(field) = self.thinking_in {
            out.push_back(Chunk::Replay(Value::from(field)));
        }
        out.extend(self.usage.map(Chunk::Usage));
        // Many servers report `stop` together with calls.
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
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}

#[derive(Deserialize)]
struct Payload {
    choices: Option<Vec<Choice>>,
    usage: Option<Tokens>,
    x_groq: Option<Groq>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Groq {
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Content>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<FunctionCall>>,
}

#[derive(Deserialize)]
struct FunctionCall {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize, Default)]
struct Function {
    name: Option<String>,
    arguments: Option<Json>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptTokens>,
    /// DeepSeek's own name.
    prompt_cache_hit_tokens: Option<u64>,
    /// OpenRouter reports the price.
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct PromptTokens {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Tokens {
    fn read(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let cache_read =
            details.and_then(|details| details.cached_tokens).or(self.prompt_cache_hit_tokens).unwrap_or(0);
        let cache_write = details.and_then(|details| details.cache_write_tokens).unwrap_or(0);
        Usage {
            input: self.prompt_tokens.unwrap_or(0).saturating_sub(cache_read).saturating_sub(cache_write),
            output: self.completion_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            cost: self.cost.filter(|cost| cost.is_finite() && *cost > 0.0).unwrap_or(0.0),
        }
    }
}

/// The content of a delta: a text, or (from Mistral) parts, some of which are thinking.
#[derive(Default)]
struct Content {
    text: String,
    thinking: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Content;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or parts of one")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content { text, thinking: String::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Content, A::Error> {
                let mut content = Content::default();
                while let Some(part) = parts.next_element::<Json>()? {
                    if let Some(text) = part.get("text").and_then(Json::as_str) {
                        content.text.push_str(text);
                    }
                    for thought in part.get("thinking").and_then(Json::as_array).into_iter().flatten() {
                        content
                            .thinking
                            .push_str(thought.get("text").and_then(Json::as_str).unwrap_or_default());
                    }
                }
                Ok(content)
            }
        }

        deserializer.deserialize_any(Read)
    }
}
