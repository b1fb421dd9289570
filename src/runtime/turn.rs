//! A turn: from the user's message, which is on disk, to the rendered answer.
//!
//! Runs as a task of its own beside its session: what it streams goes straight to the connections,
//! what it concludes is written by the session. It ends in exactly one of three ways: the model
//! finished, the call failed, or the turn was aborted; each is a message in the journal and an event,
//! and no event of the turn follows it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::event::{Body, Cause, Event};
use crate::limits::MAX_ANSWER_BYTES;
use crate::message::{Block, EntryId, Message, Role, StopReason, TurnId, Usage};
use crate::provider::{Chunk, Provider, Request};
use crate::runtime::Shared;
use crate::runtime::mailbox::Handle;
use crate::store::EntryBody;

/// A turn that is about to run.
pub struct Turn {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Handle,
    pub(super) id: TurnId,
    pub(super) cause: Cause,
    pub(super) stop: CancellationToken,
    /// The model's provider; `None` where the configuration names one that is not there.
    pub(super) provider: Option<Arc<dyn Provider>>,
}

/// What a model call came to.
#[derive(Default)]
struct Answer {
    text: String,
    thinking: String,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    error: Option<String>,
}

impl Turn {
    /// Runs the turn to its end.
    pub async fn run(self) {
        let answer = self.call_model().await;
        self.conclude(answer).await;
        let (session, turn) = (self.session.clone(), self.id.clone());
        let _ = session.ask(move |live| Box::pin(async move { live.turn_ended(&turn) })).await;
    }

    /// Asks the model and streams what it says.
    async fn call_model(&self) -> Answer {
        let mut answer = Answer::default();
        let Some(provider) = &self.provider else {
            let facts = self.session.snapshot().facts.clone();
            answer.error = Some(format!(
                "There is no provider {:?}. Choose one with --provider, in the configuration, or with /model.",
                facts.model_provider
            ));
            answer.stop = Some(StopReason::Error);
            return answer;
        };
        let mut chunks = provider.stream(self.request());
        loop {
            let chunk = tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    answer.stop = Some(StopReason::Aborted);
                    return answer;
                }
                chunk = chunks.next() => chunk,
            };
            match chunk {
                Some(Ok(Chunk::Text(text))) => {
                    answer.text.push_str(&text);
                    self.publish(Body::AssistantDelta(text.into())).await;
                }
                Some(Ok(Chunk::Thinking(text))) => {
                    answer.thinking.push_str(&text);
                    self.publish(Body::ThinkingDelta(text.into())).await;
                }
                Some(Ok(Chunk::ToolArguments { .. } | Chunk::ToolCall { .. })) => {
                    // No tool was offered, so a call is a mistake of the model's; its text stands.
                }
                Some(Ok(Chunk::Usage(usage))) => answer.usage = Some(usage),
                Some(Ok(Chunk::Stop(reason))) => {
                    answer.stop = Some(reason);
                    return answer;
                }
                Some(Err(error)) => {
                    answer.error = Some(error.to_string());
                    answer.stop = Some(StopReason::Error);
                    return answer;
                }
                None => {
                    answer.stop.get_or_insert(StopReason::EndTurn);
                    return answer;
                }
            }
            if answer.text.len().saturating_add(answer.thinking.len()) > MAX_ANSWER_BYTES {
                answer.error =
                    Some(format!("The answer is longer than {MAX_ANSWER_BYTES} bytes and was cut there."));
                answer.stop = Some(StopReason::Error);
                return answer;
            }
        }
    }

    fn request(&self) -> Request {
        let snapshot = self.session.snapshot();
        Request {
            model: snapshot.facts.model_id.to_string(),
            system: self.shared.system_prompt(&snapshot.facts),
            messages: snapshot.messages().filter(|message| !message.content.is_empty()).cloned().collect(),
            tools: Vec::new(),
            thinking: snapshot.facts.effective_thinking(),
            max_output_tokens: None,
        }
    }

    /// Writes the answer, then shows it.
    async fn conclude(&self, answer: Answer) {
        let mut content = Vec::new();
        if !answer.thinking.is_empty() {
            content.push(Block::Thinking(answer.thinking.into()));
        }
        if !answer.text.is_empty() {
            content.push(Block::Text(answer.text.into()));
        }
        let mut message = Message::new(EntryId::from(""), Role::Assistant, content, Arc::from(""));
        message.turn_id = Some(self.id.clone());
        message.usage = answer.usage;
        message.stop_reason = answer.stop;
        message.error_message = answer.error.map(Arc::from);
        let body = EntryBody::Message(Arc::new(message.clone()));
        let written = self
            .session
            .ask(|live| Box::pin(async move { live.append(vec![body]).await }))
            .await
            .and_then(std::convert::identity);
        match written {
            Ok(entries) => {
                for entry in entries {
                    if let EntryBody::Message(message) = &entry.body {
                        let mut event = self.event(Body::AssistantMessage(message.clone()));
                        event.entry = Some(entry.id.clone());
                        self.shared.hub.publish(&event).await;
                    }
                }
            }
            Err(error) => {
                // The answer is not on disk, and says so; what was streamed stays readable.
                message.stop_reason = Some(StopReason::Error);
                message.error_message = Some(format!("The answer could not be saved: {error}").into());
                self.publish(Body::AssistantMessage(Arc::new(message))).await;
            }
        }
    }

    async fn publish(&self, body: Body) {
        self.shared.hub.publish(&self.event(body)).await;
    }

    fn event(&self, body: Body) -> Event {
        Event {
            session: Some(self.session.id.clone()),
            offset: self.session.snapshot().offset,
            turn: Some(self.id.clone()),
            entry: None,
            cause: Some(self.cause.clone()),
            body,
        }
    }
}
