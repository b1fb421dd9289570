//! A turn's rounds: from the user's journalled message to the rendered answer.
//!
//! Runs as a separate task next to its session. It streams directly to the connections; the session writes
//! its results. It passes the stages of the execution model in order and repeats them while the model calls
//! tools. Its last output is always a journalled message with its event or, after success, the stage
//! `render`. Does not know the wire.

use std::sync::Arc;

use crate::engine::agent::CompactionError;
use crate::engine::change::Change;
use crate::engine::incoming::ReadAhead;
use crate::engine::interrupted::UnendedTurn;
use crate::engine::native::answer::{ModelAnswer, ModelCall};
use crate::engine::native::call::{self, CallsEnd, web_search};
use crate::engine::native::compaction::{self, Why};
use crate::engine::native::hooks::{Boundaries, Denied, text_of};
use crate::engine::native::proposal::proposed;
use crate::engine::native::refusals::Refusals;
use crate::engine::native::request::{Composer, recompose};
use crate::engine::native::texts;
use crate::engine::native::turn::Turn;
use crate::engine::progress::notification;
use crate::engine::retry;
use crate::engine::stage::{self, Point, Stage};
use crate::engine::turn_control::TurnEnd;
use crate::event::{Body, EMPTY_ANSWER, NoticeLevel, ROUND_LIMIT, RetryAwaited, ToolCall};
use crate::limits::{COMPACT_FAILURES, COMPACT_TRIES, MCP_RESOURCE_WAIT, MODEL_PAUSES, TURN_ROUNDS};
use crate::message::{CalledModel, EntryId, Message, Role, StopReason};
use crate::provider::{ErrorKind, ProviderError};
use crate::session::ApiError;
use crate::store::record::{Rewritten, Update, UpdateKind};
use crate::store::{Entry, EntryBody};
use crate::telemetry::Work;
use crate::tool::Outcome;
use crate::tool::arguments::whole_fields;
use crate::value::Map;

/// The step after a round.
enum Next {
    Round,
    End(TurnEnd),
}

/// Runs a turn, round by round.
pub struct Rounds<'t>(pub &'t Turn);

impl Rounds<'_> {
    /// Runs the turn to its end. Does not free the session.
    pub async fn run(&self) -> TurnEnd {
        let mut state = Tries::default();
        if let Err(error) = self.0.choose_model().await {
            return self.finish(ModelAnswer::failed(error.message)).await;
        }
        self.0.begin_tools().await;
        let begun = match &self.0.unended {
            Some(unended) => self.go_on(unended, &mut state).await,
            None => match self.receive().await {
                Ok(()) => Next::Round,
                Err(answer) => Next::End(self.finish(answer).await),
            },
        };
        if let Next::End(end) = begun {
            return end;
        }
        let most = self.0.execution.as_ref().map_or(TURN_ROUNDS, |execution| execution.stage.turn_cap);
        let mut made = 0u32;
        while made < most {
            if let Next::End(end) = self.round(&mut state).await {
                return end;
            }
            // A retried call is the same call.
            if state.attempt == 0 {
                made = made.saturating_add(1);
            }
        }
        if let Some(execution) = &self.0.execution {
            // Reaching the cap is a normal end.
            execution.hit_cap();
            return self.finish(ModelAnswer::ended(StopReason::EndTurn)).await;
        }
        self.0.control.fail(ROUND_LIMIT);
        let why = format!("The turn made {TURN_ROUNDS} model calls and was ended.");
        self.finish(ModelAnswer::failed(why)).await
    }

    /// Applies the hooks to the user's message, which is already on disk.
    pub async fn receive(&self) -> Result<(), ModelAnswer> {
        let snapshot = self.0.session.snapshot();
        let of_turn = |message: &&Arc<Message>| message.turn_id.as_ref() == Some(&self.0.id);
        let is_users = |message: &&Arc<Message>| message.role == Role::User;
        let own = snapshot.messages().rev().take_while(of_turn).find(is_users);
        // A turn that asks again answers the last message, which the guards judge again.
        let message = own.or_else(|| snapshot.messages().rev().find(is_users));
        let text = message.map(|message| message.text()).unwrap_or_default();
        let payload = || Map::new().with("message", text.clone());
        let changed = Boundaries(self.0)
            .enter(Stage::ReceiveInput, payload)
            .await
            .map_err(|denied| self.blocked(&denied))?;
        let new = changed.as_ref().and_then(|payload| text_of(payload, "message"));
        if let (Some(new), Some(message)) = (new.filter(|new| **new != *text), message) {
            let entry =
                EntryBody::Rewritten(Rewritten { entry_id: message.id.clone(), text: new.to_owned() });
            self.0.write(vec![entry]).await.map_err(|error| ModelAnswer::failed(error.message))?;
        }
        self.look_around().await;
        Boundaries(self.0).leave(Stage::ReceiveInput, Map::new).await;
        Ok(())
    }

    /// Searches the folder again: a turn uses the context at its start.
    async fn look_around(&self) {
        let (shared, session) = (self.0.shared.clone(), self.0.session.clone());
        let looked = tokio::task::spawn_blocking(move || shared.search_folder(&session.snapshot().facts.cwd));
        if let Ok(project) = looked.await {
            let _ = self.0.session.ask(|ack| Change::ContextFound { project, ack: Some(ack) }).await;
        }
    }

    /// One model call and its tool calls.
    async fn round(&self, state: &mut Tries) -> Next {
        if let Some(reason) = self.0.ended() {
            return Next::End(self.finish(ModelAnswer::ended(reason)).await);
        }
        if self.0.is_handing_over() {
            return Next::End(TurnEnd::HandedOver);
        }
        // A model call and the calls of its answer have the same tools.
        self.0.refresh_tools();
        let composing = || Composer(self.0).about_model();
        if let Err(denied) = Boundaries(self.0).enter(Stage::ComposeRequest, composing).await {
            return Next::End(self.finish(self.blocked(&denied)).await);
        }
        // News belong to the round that has ended, before the messages that the user sent meanwhile.
        if let Err(error) = Composer(self.0).note_surroundings().await {
            return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
        }
        if let Err(error) = self.deliver_steering().await {
            return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
        }
        if state.failed_compactions < COMPACT_FAILURES
            && Composer(self.0).is_nearly_full()
            && !std::mem::replace(&mut state.compacted, true)
        {
            self.make_room(state).await;
            // A compaction ends the prompt before it.
            if let Err(error) = Composer(self.0).note_surroundings().await {
                return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
            }
        }
        let (provider, mut request) = match Composer(self.0).request() {
            Ok(ready) => ready,
            Err(error) => return Next::End(self.finish(ModelAnswer::not_configured(error)).await),
        };
        match web_search::is_offered(self.0, provider.as_ref(), &mut state.asked_to_search).await {
            Ok(is_offered) => request.web_search = is_offered,
            Err(error) => return Next::End(self.finish(ModelAnswer::failed(error.message)).await),
        }
        let composed = Boundaries(self.0)
            .leave(Stage::ComposeRequest, || Composer(self.0).about_request(&request))
            .await;
        if let Some(composed) = composed {
            recompose(&mut request, &composed);
        }
        self.0.may_begin().await;
        if let Some(reason) = self.0.ended() {
            return Next::End(self.finish(ModelAnswer::ended(reason)).await);
        }
        let call = ModelCall(self.0);
        let session = self.0.session.id.as_str();
        let limit = request.max_output_tokens;
        let work = Work::model_call(session, provider.name(), &request.model, limit);
        work.tell("gen_ai.input.messages", || texts::input(&request));
        let mut answer = match work.run(call.send(provider.as_ref(), request)).await {
            Ok(answer) => answer,
            Err(denied) => {
                work.end(Some("denied"));
                return Next::End(self.finish(self.blocked(&denied)).await);
            }
        };
        work.tell("gen_ai.output.messages", || texts::output(&answer.parts.all_text()));
        let failure = answer.failure.as_ref().map(|failure| failure.kind.as_str());
        work.answered(answer.usage.as_ref(), answer.stop.map(StopReason::as_str), failure);
        if let Some(timing) = &mut answer.timing {
            timing.retries = state.attempt;
        }
        if let Err(error) = Refusals(self.0).note(&mut answer).await {
            return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
        }
        if let Some(failure) = answer.failure.take() {
            match self.recover(&failure, &answer, state).await {
                Some(Next::Round) => return Next::Round,
                Some(end) => return end,
                None => {
                    answer.error = Some(failure.to_string());
                    answer.error_kind = Some(failure.kind);
                    answer.stop = Some(StopReason::Error);
                }
            }
        } else {
            state.attempt = 0;
            state.too_long = 0;
        }
        let broken =
            matches!(answer.stop, Some(StopReason::Aborted | StopReason::Interrupted | StopReason::Error));
        let says_nothing = answer.says_nothing();
        if !broken {
            ModelCall(self.0).streamed(&mut answer).await;
        }
        let is_truncated = answer.has_truncated_calls();
        if is_truncated && !std::mem::replace(&mut state.truncated, is_truncated) {
            return self.truncated(answer, limit).await;
        }
        state.truncated = is_truncated;
        if answer.asks_for_tools() {
            (state.pauses, state.is_nudged) = (0, false);
            return self.tools(answer, state).await;
        }
        answer.parts.remove_calls();
        if !broken {
            self.0.publish(stage::passed(Stage::StreamResponse, Point::Post)).await;
        }
        if answer.is_paused {
            state.pauses = state.pauses.saturating_add(1);
            if state.pauses > MODEL_PAUSES {
                answer.error =
                    Some(format!("The provider paused more than {MODEL_PAUSES} times in one answer."));
                answer.stop = Some(StopReason::Error);
                return Next::End(self.finish(answer).await);
            }
            return match self.say(answer).await {
                Ok(()) => Next::Round,
                Err(error) => Next::End(self.finish(ModelAnswer::failed(error.message)).await),
            };
        }
        state.pauses = 0;
        if !broken && self.has_steering().await {
            // The user sent more during the answer: the turn continues with that.
            return match self.say(answer).await {
                Ok(()) => Next::Round,
                Err(error) => Next::End(self.finish(ModelAnswer::failed(error.message)).await),
            };
        }
        if says_nothing {
            if state.is_nudged {
                self.0.control.fail(EMPTY_ANSWER);
                answer.error = Some("The model ended twice without an answer.".to_owned());
                answer.stop = Some(StopReason::Error);
            } else {
                state.is_nudged = true;
                return self.nudge(answer).await;
            }
        }
        Next::End(self.finish(answer).await)
    }

    /// Answers the calls of an answer that reached the output limit: none of them runs, because the last one may be half a
    /// call, and nobody knows which are meant without it.
    async fn truncated(&self, mut answer: ModelAnswer, limit: Option<u32>) -> Next {
        answer.parts.keep_whole_fields(whole_fields);
        answer.stop = Some(StopReason::ToolUse);
        let calls: Vec<ToolCall> = answer.parts.calls().cloned().collect();
        if let Err(error) = self.say(answer).await {
            return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
        }
        self.0.publish(stage::passed(Stage::StreamResponse, Point::Post)).await;
        let limit = limit.map(|limit| format!(" of {limit} tokens")).unwrap_or_default();
        let why = format!(
            "The answer was truncated at the output limit{limit}, so this call was not run. Send it again; write what is long in \
             several calls."
        );
        for call in calls {
            if let Err(error) = call::settle(self.0, Arc::new(call), Outcome::failed(&why)).await {
                return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
            }
        }
        Next::Round
    }

    /// Asks once more, after an answer without text or calls.
    async fn nudge(&self, answer: ModelAnswer) -> Next {
        let text = "You ended without an answer. Continue the task, or say what you did and found.";
        let update = Update::new(UpdateKind::EmptyAnswer, text);
        let asked = match self.say(answer).await {
            Ok(()) => self.0.write(vec![EntryBody::Update(Box::new(update))]).await.map(drop),
            Err(error) => Err(error),
        };
        match asked {
            Ok(()) => Next::Round,
            Err(error) => Next::End(self.finish(ModelAnswer::failed(error.message)).await),
        }
    }

    /// Runs the calls of an answer.
    async fn tools(&self, mut answer: ModelAnswer, state: &mut Tries) -> Next {
        let calls: Vec<ToolCall> = answer.parts.calls().cloned().collect();
        answer.stop = Some(StopReason::ToolUse);
        if let Err(error) = self.say(answer).await {
            return Next::End(self.finish(ModelAnswer::failed(error.message)).await);
        }
        self.0.publish(stage::passed(Stage::StreamResponse, Point::Post)).await;
        self.answer_calls(calls, None, state).await
    }

    /// Continues with the calls that had not begun when the process ended.
    async fn go_on(&self, unended: &Arc<UnendedTurn>, state: &mut Tries) -> Next {
        let calls = unended.calls.iter().filter(|call| !call.has_begun).map(|call| {
            proposed(&self.0.tools(), call.id.clone(), call.name.clone(), call.arguments.clone())
        });
        let calls: Vec<ToolCall> = calls.collect();
        if calls.is_empty() {
            // It was handed over between two rounds.
            return Next::Round;
        }
        self.answer_calls(calls, Some(unended.clone()), state).await
    }

    /// Runs calls whose answer is written, and writes their results.
    async fn answer_calls(
        &self,
        calls: Vec<ToolCall>,
        unended: Option<Arc<UnendedTurn>>,
        state: &mut Tries,
    ) -> Next {
        // Hooks at tool calls run before and after each call; this is the boundary of all of them.
        self.0.adopt_configuration().await;
        self.0.publish(stage::passed(Stage::ToolCall, Point::Pre)).await;
        let ended = call::run_calls(self.0, calls, unended).await;
        state.compacted = false;
        match ended {
            CallsEnd::Answered => {}
            CallsEnd::HandedOver => return Next::End(TurnEnd::HandedOver),
            CallsEnd::Halted(why) => return Next::End(self.finish(ModelAnswer::failed(why)).await),
            CallsEnd::Lost(error) => return Next::End(self.finish(ModelAnswer::failed(error.message)).await),
        }
        if let Some(reason) = self.0.ended() {
            return Next::End(self.finish(ModelAnswer::ended(reason)).await);
        }
        self.0.publish(stage::passed(Stage::ToolCall, Point::Post)).await;
        if self.0.execution.as_ref().is_some_and(|execution| execution.completed().is_some()) {
            return Next::End(self.finish(ModelAnswer::ended(StopReason::EndTurn)).await);
        }
        Next::Round
    }

    /// Handles a failed model call: waits and retries, or compacts. `None` if neither helps.
    async fn recover(
        &self,
        failure: &ProviderError,
        answer: &ModelAnswer,
        state: &mut Tries,
    ) -> Option<Next> {
        if failure.kind == ErrorKind::ContextOverflow {
            return if answer.is_shown { None } else { self.shorten(failure, state).await };
        }
        if !self.0.session.snapshot().facts.auto_retry {
            return None;
        }
        state.attempt = state.attempt.saturating_add(1);
        let pause = retry::pause(failure, state.attempt, &self.0.id)?;
        // None of its calls has run: they do once the answer is whole. The same request reads the provider's cache, and newer
        // models refuse to continue an answer that was begun, so a partial one is dropped.
        self.0.forget_repairs();
        let (error, discarded) = (failure.message.as_str().into(), answer.is_shown);
        let kind = failure.kind.as_str().into();
        let retry = RetryAwaited { attempt: state.attempt, kind, pause, error, discarded };
        let _ = self.0.session.ask(|ack| Change::Retrying { retry, ack }).await;
        let waited = tokio::select! {
            biased;
            () = self.0.stop.cancelled() => Some(StopReason::Aborted),
            () = self.0.control.interrupt.cancelled() => Some(StopReason::Interrupted),
            () = self.0.control.give_up.cancelled() => Some(StopReason::Error),
            () = self.0.handing_over() => None,
            () = tokio::time::sleep(pause) => None,
        };
        let _ = self.0.session.ask(|ack| Change::RetryOver { ack }).await;
        match waited {
            None => Some(Next::Round),
            Some(StopReason::Error) => None,
            Some(reason) => Some(Next::End(self.finish(ModelAnswer::ended(reason)).await)),
        }
    }

    /// Compacts a conversation that nearly fills the window. A failure is not the end: if the window is too full, the call
    /// itself reports it. After several in a row, the turn tries no more.
    async fn make_room(&self, state: &mut Tries) {
        let error = match compaction::compact(self.0, Why::NoRoom).await {
            Ok(_) => return state.failed_compactions = 0,
            Err(CompactionError::Nothing | CompactionError::Aborted) => return,
            Err(error) => error,
        };
        state.failed_compactions = state.failed_compactions.saturating_add(1);
        if state.failed_compactions == COMPACT_FAILURES {
            let text = format!(
                "The conversation could not be compacted {COMPACT_FAILURES} times in a row, so that is off until your next message. \
                 {error}"
            );
            let id = self.0.shared.clock.id("n-");
            self.0.publish(Body::Notification(notification(id, NoticeLevel::Warning, &text))).await;
        }
    }

    /// Compacts a conversation that the server found too long, and keeps less of it each time. `None` if that does not help.
    async fn shorten(&self, failure: &ProviderError, state: &mut Tries) -> Option<Next> {
        if let Some(limit) = failure.limit {
            {
                let snapshot = self.0.session.snapshot();
                let facts = &snapshot.facts;
                self.0.config().models.learn_limit(&facts.model_provider, &facts.model_id, limit);
            }
            let _ = self.0.session.ask(|ack| Change::ModelLearned { ack }).await;
        }
        state.compacted = true;
        while state.too_long < COMPACT_TRIES {
            let why = Why::TooLong(state.too_long);
            state.too_long = state.too_long.saturating_add(1);
            match compaction::compact(self.0, why).await {
                Ok(_) => return Some(Next::Round),
                Err(CompactionError::Aborted) => {
                    return Some(Next::End(self.finish(ModelAnswer::ended(StopReason::Aborted)).await));
                }
                // The model could not take that much for a summary either.
                Err(CompactionError::TooLong(_)) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// The end of a turn that a guard blocked, unless it was ended meanwhile.
    fn blocked(&self, denied: &Denied) -> ModelAnswer {
        self.0.ended().map_or_else(|| ModelAnswer::failed(denied.to_string()), ModelAnswer::ended)
    }

    async fn has_steering(&self) -> bool {
        self.0.session.ask(|ack| Change::HasSteering { ack }).await.unwrap_or(false)
    }

    /// Puts the user's steering messages into the conversation.
    async fn deliver_steering(&self) -> Result<(), ApiError> {
        let turn = self.0.id.clone();
        let read = tokio::select! {
            biased;
            () = self.0.control.interrupt.cancelled() => Vec::new(),
            read = self.read_ahead() => read,
        };
        self.0.session.request(|ack| Change::DeliverSteering { turn, read, ack }).await
    }

    /// The resources that the user's steering messages name, read here: the session serves others meanwhile.
    async fn read_ahead(&self) -> Vec<ReadAhead> {
        let (mcp, session) = (&self.0.shared.mcp, &self.0.session);
        let waiting = session.snapshot().queue.steering();
        let read = waiting.into_iter().map(|waiting| async move {
            let (entry, text) = (waiting.entry.clone(), waiting.text());
            let wanted = mcp.wanted_resources(session, &text);
            if wanted.is_empty() {
                return None;
            }
            let resources = mcp.referenced(session, wanted, MCP_RESOURCE_WAIT, &self.0.stop).await?;
            Some(ReadAhead { entry, text, resources })
        });
        futures_util::future::join_all(read).await.into_iter().flatten().collect()
    }

    /// Writes an answer that is not the last, then shows it.
    pub async fn say(&self, answer: ModelAnswer) -> Result<(), ApiError> {
        let message = self.message(answer);
        let entries = self.0.write(vec![EntryBody::Message(Arc::new(message))]).await?;
        for entry in entries {
            self.show(&entry).await;
        }
        Ok(())
    }

    /// Writes and shows the turn's last answer.
    pub async fn finish(&self, answer: ModelAnswer) -> TurnEnd {
        let mut well =
            !matches!(answer.stop, Some(StopReason::Aborted | StopReason::Interrupted | StopReason::Error));
        let mut answer = answer;
        answer.parts.remove_calls();
        if well {
            let payload = || Map::new().with("text", answer.parts.all_text().into_owned());
            match Boundaries(self.0).enter(Stage::Render, payload).await {
                Ok(changed) => {
                    if let Some(text) = changed.as_ref().and_then(|payload| text_of(payload, "text")) {
                        answer.parts.set_text(text);
                    }
                }
                Err(denied) => {
                    // Text that must not be shown is not stored either.
                    well = false;
                    answer =
                        ModelAnswer { usage: answer.usage, timing: answer.timing, ..self.blocked(&denied) };
                }
            }
        }
        if let Some(kind) = answer.error_kind {
            self.0.control.fail(kind.as_str());
        }
        let shown = answer.parts.all_text().into_owned();
        let mut message = self.message(answer);
        let entries = vec![EntryBody::Message(Arc::new(message.clone()))];
        let turn = self.0.id.clone();
        match self.0.session.request(|ack| Change::AppendLast { turn, entries, ack }).await {
            Ok(entries) => {
                for entry in entries {
                    self.show(&entry).await;
                }
            }
            Err(error) => {
                // The answer is not on disk and reports that; the streamed text stays readable.
                message.stop_reason = Some(StopReason::Error);
                message.error_message = Some(format!("The answer could not be saved: {error}").into());
                self.0.publish(Body::AssistantMessage(Arc::new(message))).await;
                return TurnEnd::Stopped;
            }
        }
        if !well {
            return TurnEnd::Stopped;
        }
        Boundaries(self.0).leave(Stage::Render, || Map::new().with("text", shown)).await;
        TurnEnd::Finished
    }

    fn message(&self, answer: ModelAnswer) -> Message {
        let (content, replays) = answer.parts.into_content();
        let mut message = Message::new(EntryId::from(""), Role::Assistant, content, Arc::from(""));
        message.turn_id = Some(self.0.id.clone());
        message.usage = answer.usage.map(|mut usage| {
            if let (Some(price), true) = (self.0.model().price, usage.cost == 0.0) {
                usage.cost = price.of(&usage);
            }
            usage
        });
        let model = self.0.model();
        message.model =
            message.usage.is_some().then_some(CalledModel { provider: model.provider, id: model.id });
        message.timing = answer.timing;
        message.replays = replays;
        message.stop_reason = answer.stop;
        message.error_message = answer.error.map(Arc::from);
        message
    }

    async fn show(&self, entry: &Arc<Entry>) {
        if let EntryBody::Message(message) = &entry.body {
            let mut event = self.0.event(Body::AssistantMessage(message.clone()));
            event.entry = Some(entry.id.clone());
            self.0.deliver(event).await;
        }
    }
}

/// The state that is kept between rounds.
#[derive(Default)]
struct Tries {
    /// Failed tries of the current model call.
    attempt: u32,
    /// Whether the conversation was compacted for it.
    compacted: bool,
    /// How often it was compacted because the server found it too long.
    too_long: u32,
    /// Compactions that failed in a row.
    failed_compactions: u32,
    /// How often the provider paused in the current answer.
    pauses: u32,
    /// Whether the answer before had calls that were truncated.
    truncated: bool,
    /// Whether the model was told that it ended without an answer, and has given none since.
    is_nudged: bool,
    /// Whether the person was asked whether the model may search the web.
    asked_to_search: bool,
}
