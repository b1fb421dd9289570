//! Reads a model call's answer, piece by piece, to its end or its bound. Does not know the journal.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::crash;
use crate::engine::native::answer_parts::AnswerParts;
use crate::engine::native::gate::{gated, meant_name};
use crate::engine::native::hooks::{Boundaries, Denied, text_of};
use crate::engine::native::request::Composer;
use crate::engine::native::turn::Turn;
use crate::engine::stage::{Point, Stage};
use crate::event::{Body, ToolCall};
use crate::limits::{ANSWER_TOOL_CALLS, MAX_ANSWER_BYTES};
use crate::message::{StopReason, Timing, Usage, WithheldPart};
use crate::provider::{AnswerEnd, Chunk, ChunkStream, ErrorKind, ModelRequest, Provider, ProviderError};
use crate::value::{Map, Value};

/// The outcome of one model call.
#[derive(Default)]
pub struct ModelAnswer {
    /// Its text, thinking and calls, in order.
    pub parts: AnswerParts,
    /// Parts of the conversation that the server refused, and that were left out.
    pub withheld: Vec<WithheldPart>,
    pub usage: Option<Usage>,
    pub timing: Option<Timing>,
    pub stop: Option<StopReason>,
    /// Whether clients have been shown a piece of it.
    pub is_shown: bool,
    /// Whether the server paused, and continues when it receives this answer.
    pub is_paused: bool,
    pub failure: Option<ProviderError>,
    pub error: Option<String>,
    /// The kind of a model call's failure that ends the turn.
    pub error_kind: Option<ErrorKind>,
}

impl ModelAnswer {
    pub fn failed(error: String) -> Self {
        Self { error: Some(error), stop: Some(StopReason::Error), ..Self::default() }
    }

    /// The same where the model cannot even be asked before the configuration is changed.
    pub(super) fn not_configured(error: String) -> Self {
        Self { error_kind: Some(ErrorKind::NotConfigured), ..Self::failed(error) }
    }

    pub fn ended(stop: StopReason) -> Self {
        Self { stop: Some(stop), ..Self::default() }
    }

    /// Whether it ended well, and has neither text nor a call.
    pub(super) fn says_nothing(&self) -> bool {
        let has_call = self.parts.calls().next().is_some();
        let is_well = self.stop == Some(StopReason::EndTurn) && !self.is_paused;
        is_well && !has_call && self.parts.all_text().trim().is_empty()
    }

    /// Whether it reached the output limit with calls: the last of them may be half a call.
    pub(super) fn has_truncated_calls(&self) -> bool {
        self.stop == Some(StopReason::MaxTokens) && self.parts.calls().next().is_some()
    }

    /// Whether its calls should run. Those of a truncated answer should not.
    pub(super) fn asks_for_tools(&self) -> bool {
        self.parts.calls().next().is_some()
            && matches!(self.stop, Some(StopReason::ToolUse | StopReason::EndTurn))
    }
}

/// The time spent waiting for the model, without delays by hooks and clients.
#[derive(Default)]
struct Waited {
    whole: Duration,
    /// Until the first piece of the answer.
    first: Option<Duration>,
}

impl Waited {
    fn timing(&self) -> Timing {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Timing { first_token_ms: self.first.map(millis), duration_ms: millis(self.whole), retries: 0 }
    }
}

/// A model call of a turn.
pub struct ModelCall<'t>(pub &'t Turn);

impl ModelCall<'_> {
    /// Calls the model and streams its answer.
    pub async fn send(
        &self,
        provider: &dyn Provider,
        mut request: ModelRequest,
    ) -> Result<ModelAnswer, Denied> {
        let sending = || {
            let mut payload = Composer(self.0).about_model();
            payload.put("max-output-tokens", request.max_output_tokens.map(i64::from));
            payload
        };
        if let Some(payload) = Boundaries(self.0).enter(Stage::SendRequest, sending).await?
            && let Some(tokens) = payload.get_keyword("max-output-tokens").and_then(Value::as_i64)
        {
            request.max_output_tokens = u32::try_from(tokens).ok();
        }
        let chunks = provider.stream(request);
        Boundaries(self.0).leave(Stage::SendRequest, || Composer(self.0).about_model()).await;
        Boundaries(self.0).enter(Stage::StreamResponse, || Composer(self.0).about_model()).await?;
        let mut waited = Waited::default();
        let mut answer = self.read_answer(chunks, &mut waited).await;
        answer.timing = Some(waited.timing());
        Ok(answer)
    }

    /// Runs the hooks after the model's answer. The boundary is reported once the answer is written.
    pub async fn streamed(&self, answer: &mut ModelAnswer) {
        if !self.0.config().hooks.any_at(Stage::StreamResponse, Point::Post) {
            return;
        }
        let payload = {
            let mut payload = Map::new();
            payload.put("text", answer.parts.all_text().into_owned());
            payload.put("thinking", answer.parts.all_thinking().into_owned());
            let calls = answer.parts.calls().map(|call| {
                let mut shown = Map::new();
                shown.put("id", call.id.to_string());
                shown.put("name", call.name.to_string());
                shown.put("arguments", (*call.parsed).clone());
                Value::from(shown)
            });
            payload.put("tool-calls", Value::vector(calls));
            payload
        };
        let changed = Boundaries(self.0).rewrite(Stage::StreamResponse, Point::Post, None, payload).await;
        if let Some(text) = text_of(&changed, "text") {
            answer.parts.set_text(text);
        }
    }

    /// Reads the model's answer and measures the wait for it.
    async fn read_answer(&self, mut chunks: ChunkStream, waited: &mut Waited) -> ModelAnswer {
        let mut answer = ModelAnswer::default();
        let mut started: Vec<Arc<str>> = Vec::new();
        // Bytes of the answer, its replays included, and the number of its calls.
        let (mut size, mut calls) = (0usize, 0usize);
        loop {
            let before = self.0.shared.clock.passed();
            let next = tokio::select! {
                biased;
                () = self.0.stop.cancelled() => Err(StopReason::Aborted),
                () = self.0.control.interrupt.cancelled() => Err(StopReason::Interrupted),
                chunk = chunks.next() => Ok(chunk),
            };
            let passed = self.0.shared.clock.passed().saturating_sub(before);
            waited.whole = waited.whole.saturating_add(passed);
            let chunk = match next {
                Ok(chunk) => chunk,
                Err(reason) => {
                    answer.parts.end_thinking(self.0.shared.clock.passed());
                    answer.stop = Some(reason);
                    return answer;
                }
            };
            if matches!(&chunk, Some(Ok(chunk)) if chunk.is_of_answer()) {
                waited.first.get_or_insert(waited.whole);
            }
            if !matches!(chunk, Some(Ok(Chunk::Thinking(_) | Chunk::Usage(_)))) {
                answer.parts.end_thinking(self.0.shared.clock.passed());
            }
            match chunk {
                Some(Ok(Chunk::Text(text))) => {
                    size = size.saturating_add(text.len());
                    answer.parts.text(text.clone());
                    answer.is_shown = true;
                    self.0.publish(Body::AssistantDelta(text.into())).await;
                    crash::point("text-shown");
                }
                Some(Ok(Chunk::Thinking(text))) => {
                    size = size.saturating_add(text.len());
                    answer.parts.thinking(text.clone(), self.0.shared.clock.passed());
                    answer.is_shown = true;
                    self.0.publish(Body::ThinkingDelta(text.into())).await;
                }
                Some(Ok(Chunk::ToolArguments { id, name, delta, .. })) => {
                    size = size.saturating_add(delta.len());
                    if !started.contains(&id) && started.len() < ANSWER_TOOL_CALLS {
                        started.push(id.clone());
                        answer.is_shown = true;
                        let name = meant_name(&self.0.tools(), &name);
                        self.0.publish(Body::ToolStart(Arc::new(begun(id.clone(), name)))).await;
                    }
                    self.0.publish(Body::ToolDelta { tool_id: id, arguments: delta.into() }).await;
                }
                Some(Ok(Chunk::ToolCall { id, name, arguments })) => {
                    let call = gated(self.0, id, name, arguments);
                    if !started.contains(&call.id) {
                        started.push(call.id.clone());
                        answer.is_shown = true;
                        self.0.publish(Body::ToolStart(Arc::new(call.clone()))).await;
                    }
                    calls = calls.saturating_add(1);
                    answer.parts.call(call);
                }
                Some(Ok(Chunk::Usage(usage))) => answer.usage = Some(usage),
                Some(Ok(Chunk::Withheld(part))) => answer.withheld.push(part),
                Some(Ok(Chunk::Replay { data, is_attached })) => {
                    size = size.saturating_add(data.to_string().len());
                    answer.parts.replay(data, is_attached);
                }
                Some(Ok(Chunk::Sources(sources))) => {
                    size = size.saturating_add(sources.weight());
                    answer.parts.sources(sources);
                }
                Some(Ok(Chunk::End(end))) => {
                    answer.stop = Some(end.stop_reason());
                    answer.is_paused = end == AnswerEnd::Paused;
                    if matches!(&end, AnswerEnd::Refused(why) if !why.is_empty()) {
                        answer.error = Some(end.to_string());
                    }
                    return answer;
                }
                Some(Err(error)) => {
                    answer.failure = Some(error);
                    return answer;
                }
                None => {
                    let why = "The provider's answer has no end.";
                    answer.failure = Some(ProviderError::new(ErrorKind::Dropped, why));
                    return answer;
                }
            }
            let too_much = match () {
                () if size > MAX_ANSWER_BYTES => format!("is longer than {MAX_ANSWER_BYTES} bytes"),
                () if calls > ANSWER_TOOL_CALLS => {
                    format!("asks for more than {ANSWER_TOOL_CALLS} tool calls")
                }
                () => continue,
            };
            answer.error = Some(format!("The answer {too_much} and was cut there."));
            answer.stop = Some(StopReason::Error);
            return answer;
        }
    }
}

/// A call whose arguments are still incomplete, and which has no summary yet.
fn begun(id: Arc<str>, name: Arc<str>) -> ToolCall {
    ToolCall { summary: name.clone(), id, name, arguments: "".into(), parsed: Value::Nil.into() }
}
