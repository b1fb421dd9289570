//! Events as lines of the UI wire: what a run tells, and how it ends. The encoder of a connection.
//!
//! A run is a turn. Its last answer is told as `final` when the turn has ended, because a queued message may make
//! the turn go on after an answer. Nothing of a run follows its end.

use std::sync::Arc;

use jiff::Timestamp;

use crate::catalogue::tools::{Shown, ToolRow};
use crate::clock::{Clock, epoch_millis, rfc3339};
use crate::event::question::QuestionContent;
use crate::event::{
    Body, CommandOutcome, Event, QuestionAsked, Rehydration, RetryAwaited, Sender, ToolCall, ToolOutput,
    TurnEnded, TurnOutcome,
};
use crate::facts::{Phase, SessionFacts};
use crate::limits::{RETRY_ATTEMPTS, TOLD_FAULTS, UI_TOLD_ENTRIES};
use crate::message::{Block, Message, Role, StopReason, Usage, count, sources_below};
use crate::value::{Map, Value};
use crate::wire::encoder::Encoder;
use crate::wire::ui::connection_state::{ModelUse, OpenRequest, Run, RunStatus, Step, UiState, UiStateInner};
use crate::wire::ui::frames;
use crate::wire::ui::questions;
use crate::wire::ui::run_lines::{agent, note_facts, status};
use crate::wire::ui::tools;

/// The encoder of one connection.
pub struct UiEncoder {
    connection: u64,
    clock: Arc<dyn Clock>,
    desk: Arc<UiState>,
    diagnostics: bool,
}

impl UiEncoder {
    /// The encoder of the connection with that number.
    pub fn new(connection: u64, clock: Arc<dyn Clock>, desk: Arc<UiState>, diagnostics: bool) -> Self {
        Self { connection, clock, desk, diagnostics }
    }
}

impl Encoder for UiEncoder {
    type Style = ();

    fn event(&mut self, out: &mut Vec<u8>, (): (), seq: u64, event: &Event, joined: Option<&str>) -> u64 {
        let mut state = self.desk.lock();
        let teller =
            Teller { connection: self.connection, now: self.clock.now(), diagnostics: self.diagnostics };
        teller.tell(&mut state, out, event, joined);
        seq.saturating_add(1)
    }

    /// Only pieces of an answer: the whole answer follows. Everything else of a run must arrive.
    fn is_shown_anew(&self, event: &Event) -> bool {
        matches!(event.body, Body::AssistantDelta(_) | Body::ThinkingDelta(_) | Body::SessionUpdated(_))
    }
}

/// Tells events at one moment.
pub struct Teller {
    /// The connection's number.
    pub connection: u64,
    /// The time.
    pub now: Timestamp,
    /// Whether model calls are told in figures.
    pub diagnostics: bool,
}

/// `{"type": name}`
fn typed(name: &'static str) -> Map<'static> {
    Map::new().with("type", name)
}

impl Teller {
    fn millis(&self) -> i64 {
        epoch_millis(self.now)
    }

    fn tell(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event, joined: Option<&str>) {
        match &event.body {
            Body::SessionUpdated(facts) => self.session(state, out, facts),
            Body::AssistantDelta(text) => self.delta(state, out, event, "text", joined.unwrap_or(text)),
            Body::ThinkingDelta(text) => self.delta(state, out, event, "reasoning", joined.unwrap_or(text)),
            Body::CompactionStarted { asked } => self.compaction_started(state, out, event, *asked),
            Body::TurnEnded(ended) => self.turn_ended(state, out, event, ended),
            Body::CommandResult(outcome) => self.command(state, out, event, outcome),
            Body::ChoiceRequested(choice) => {
                let request = event.cause.as_ref().map(|cause| cause.request.clone());
                questions::choice(state, out, choice, request);
            }
            Body::QuestionAsked(asked) => {
                let own = event.cause.as_ref().filter(|cause| cause.connection == self.connection);
                let own = own.map(|cause| cause.request.clone());
                let quiet = own.as_ref().is_some_and(|request| state.quiet.contains_key(request));
                let whose = state.elsewhere.remove(&asked.id);
                if whose.is_none() && asked.subagent.is_none() && !quiet {
                    self.joins_run(state, out, event);
                    self.asked_about(state, out, asked);
                }
                questions::question(state, out, event, asked, own, whose.as_deref());
            }
            Body::QuestionEnded(ended) => {
                state.elsewhere.remove(&ended.id);
                resume(state, out, &ended.id);
            }
            Body::ToolRequested(asked) => tools::request(state, out, event, asked),
            Body::RequestCancelled { request, reason } => tools::cancelled(state, out, request, reason),
            Body::SessionRehydrated(history) => self.missed(state, out, history),
            Body::Error { message, .. } => {
                let is_its = |run: &Run| event.turn.as_ref().is_some_and(|turn| *turn.as_str() == *run.id);
                if state.run.as_ref().is_some_and(is_its) {
                    self.end(state, out, RunStatus::Error, Some(message));
                }
            }
            Body::UserMessage(_)
            | Body::AssistantMessage(_)
            | Body::ToolExecuting(_)
            | Body::ToolResult(_)
            | Body::RetryAwaited(_)
            | Body::CompactionEnded(_) => self.of_run(state, out, event),
            // A turn may begin with one of these, which the protocol has no words for.
            Body::ToolStart(_)
            | Body::ToolDelta { .. }
            | Body::ToolUpdate(_)
            | Body::EntryWritten(_)
            | Body::StagePassed(_)
            | Body::QueueUpdated(_)
            | Body::MessagesReplaced(_)
            | Body::FilesUndone(_)
            | Body::FooterUpdated(_)
            | Body::SessionResumed { .. }
            | Body::ContextUpdated { .. }
            | Body::Synced
            | Body::Stale { .. }
            | Body::JobUpdated(_)
            | Body::McpUpdated(_)
            | Body::ControlHandled(_)
            | Body::DialogRequested(_)
            | Body::FileRequested(_)
            | Body::FileChanged(_)
            | Body::WidgetsUpdated(_)
            | Body::WidgetSpecsUpdated(_)
            | Body::StatusUpdated(_)
            | Body::Notification(_) => {
                self.joins_run(state, out, event);
            }
            Body::Diagnostic(diagnostic) => {
                self.joins_run(state, out, event);
                if diagnostic.is_of_session() && state.untold.len() <= TOLD_FAULTS {
                    state.untold.push(diagnostic.message());
                }
                self.faults(state, out);
            }
        }
    }

    /// An event of a turn.
    fn of_run(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event) {
        if !self.joins_run(state, out, event) || !is_new(state, event) {
            return;
        }
        match &event.body {
            Body::UserMessage(sent) => {
                let client = |connection| connection == self.connection;
                if !matches!(sent.from, Sender::Client { connection, .. } if client(connection)) {
                    agent(state, out, typed("hidden_user_message").with("content", sent.message.text()));
                }
            }
            Body::AssistantMessage(message) => self.answer(state, out, message),
            Body::ToolExecuting(call) => self.executing(state, out, call),
            Body::ToolResult(output) => self.result(state, out, output),
            Body::RetryAwaited(retry) => {
                let event = retry_event(&state.model.0, retry);
                agent(state, out, event);
            }
            Body::CompactionEnded(ended) => {
                let compacted = ended.outcome == TurnOutcome::Completed;
                let event = typed("compaction_complete").with("timestamp", self.millis());
                agent(state, out, event.with("compacted", compacted));
                if let Some(run) = &mut state.run {
                    run.outcome = Some((ended.outcome, ended.error.clone()));
                }
            }
            _ => {}
        }
    }

    /// Whether an event is of the run that goes on. The event of another turn begins a run, and ends the one before:
    /// the stages of a workflow do so, and turns that other clients begin.
    fn joins_run(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event) -> bool {
        let Some(turn) = &event.turn else { return false };
        // What a slash command does belongs to its run.
        if state.run.as_ref().is_some_and(|run| run.is_command || *run.id == *turn.as_str()) {
            return true;
        }
        if state.end_of(turn.as_str()).is_some() {
            return false;
        }
        self.begin(state, out, turn.as_str().into());
        true
    }

    /// Begins a run.
    pub fn begin(&self, state: &mut UiStateInner, out: &mut Vec<u8>, id: Arc<str>) {
        if state.running() == Some(&id) || state.end_of(&id).is_some() {
            return;
        }
        if state.run.is_some() {
            self.end(state, out, RunStatus::Completed, None);
        }
        state.run = Some(Run::new(id));
        status(state, out, RunStatus::Running, None);
        self.faults(state, out);
    }

    /// Tells the faults of the session that no run has told yet. Outside a run the protocol has no words for them.
    fn faults(&self, state: &mut UiStateInner, out: &mut Vec<u8>) {
        if state.run.is_none() {
            return;
        }
        for fault in std::mem::take(&mut state.untold) {
            agent(state, out, typed("text").with("content", fault).with("timestamp", self.millis()));
        }
    }

    fn session(&self, state: &mut UiStateInner, out: &mut Vec<u8>, facts: &SessionFacts) {
        note_facts(state, facts);
        // The end of the run may be among what was left out for a slow client.
        if std::mem::take(&mut state.caught_up) && facts.phase == Phase::Idle && state.run.is_some() {
            self.end(state, out, RunStatus::Completed, None);
        }
        // Only now is the session free for the next run.
        if facts.phase == Phase::Idle {
            self.end_compaction(state, out, None, None);
        }
    }

    /// Ends the run of a compaction with its outcome, or with this one if it has none.
    pub fn end_compaction(
        &self,
        state: &mut UiStateInner,
        out: &mut Vec<u8>,
        outcome: Option<TurnOutcome>,
        message: Option<&str>,
    ) {
        let Some(run) = state.run.as_mut().filter(|run| run.is_compaction) else { return };
        let (found, error) = run.outcome.take().map_or((None, None), |(found, error)| (Some(found), error));
        let how = match found.or(outcome) {
            None | Some(TurnOutcome::Completed) => RunStatus::Completed,
            Some(TurnOutcome::Aborted | TurnOutcome::Interrupted) => RunStatus::Cancelled,
            Some(TurnOutcome::Failed) => RunStatus::Error,
        };
        self.end(state, out, how, error.as_deref().or(message).filter(|_| how == RunStatus::Error));
    }

    /// Tells a compaction that had nothing to do.
    pub fn empty_compaction(&self, state: &mut UiStateInner, out: &mut Vec<u8>, compacted: bool) {
        agent(state, out, typed("compaction_start").with("timestamp", self.millis()));
        let event = typed("compaction_complete").with("timestamp", self.millis());
        agent(state, out, event.with("compacted", compacted));
    }

    fn delta(
        &self,
        state: &mut UiStateInner,
        out: &mut Vec<u8>,
        event: &Event,
        kind: &'static str,
        text: &str,
    ) {
        if state.can.deltas && self.joins_run(state, out, event) {
            agent(state, out, typed("text_delta").with("kind", kind).with("content", text));
        }
    }

    /// A message of the model. The text of one without calls waits: it may be the last.
    fn answer(&self, state: &mut UiStateInner, out: &mut Vec<u8>, message: &Message) {
        self.flush_text(state, out);
        let mut thinking = String::new();
        for block in &message.content {
            if let Block::Thinking { text, .. } = block {
                thinking.push_str(text);
            }
        }
        if !thinking.is_empty() {
            agent(state, out, typed("reasoning").with("content", thinking).with("timestamp", self.millis()));
        }
        let text = message.text() + &sources_below(&message.content);
        if message.stop_reason == Some(StopReason::ToolUse) {
            if !text.is_empty() {
                agent(state, out, typed("text").with("content", text).with("timestamp", self.millis()));
            }
            for block in &message.content {
                if let Block::ToolCall { id, name, arguments } = block {
                    self.proposed(state, out, id, name, arguments);
                }
            }
        } else if let Some(run) = &mut state.run {
            run.last_text = Some(text);
        }
        // Otherwise no model was called for it.
        if message.usage.is_some() || message.timing.is_some() {
            self.used(state, out, message);
        }
    }

    /// The figures of a model call.
    fn used(&self, state: &mut UiStateInner, out: &mut Vec<u8>, message: &Message) {
        let Some(run) = &mut state.run else { return };
        let number = run.calls.len();
        run.calls.push(ModelUse { model: state.model.clone(), usage: message.usage });
        let id = run.id.clone();
        if self.diagnostics {
            let call = self.call_figures(&id, number, message, &state.model);
            let params =
                Map::new().with("run_id", id.to_string()).with("kind", "llm_call").with("call", call);
            frames::notify(out, "run.diagnostics", &params);
        }
        if let Some(usage) = &message.usage
            && let Some(left) = percent_left(usage.total(), state.window)
            && state.percent_left.replace(left) != Some(left)
        {
            let params =
                Map::new().with("run_id", id.to_string()).with("context_left_percent", Value::int(left));
            frames::notify(out, "run.context", &params);
        }
    }

    fn call_figures(
        &self,
        run: &str,
        number: usize,
        message: &Message,
        model: &(Arc<str>, Arc<str>),
    ) -> Map<'static> {
        let latency = message.timing.map_or(0, |timing| timing.duration_ms);
        let began = jiff::SignedDuration::from_millis(i64::try_from(latency).unwrap_or(0));
        let began = self.now.checked_sub(began).unwrap_or(self.now);
        let usage = message.usage.unwrap_or_default();
        let prompt = prompt_tokens(&usage);
        let hit = match (usage.cache_read, prompt) {
            (1.., _) => "hit",
            (0, 1..) => "miss",
            (0, 0) => "unknown",
        };
        let mut tokens =
            Map::new().with("input_tokens", count(prompt)).with("output_tokens", count(usage.output));
        tokens.put("total_tokens", count(usage.total()));
        tokens.put("input_cached_tokens", count(usage.cache_read));
        tokens.put("input_cache_creation_tokens", count(usage.cache_write));
        let mut cache = Map::new().with("hit_state", hit);
        cache.put("cache_read_tokens", count(usage.cache_read));
        cache.put("cache_creation_tokens", count(usage.cache_write));
        let mut call = Map::new().with("run_id", run.to_owned()).with("seq", Value::from(number));
        call.put("provider", model.0.to_string());
        call.put("model", model.1.to_string());
        call.put("request_ts", rfc3339(began).to_string());
        call.put("response_ts", rfc3339(self.now).to_string());
        call.put("latency_ms", count(latency));
        call.put("stop_reason", message.stop_reason.map(|reason| reason.as_str()));
        call.put("usage", message.usage.map(|_| tokens));
        call.put("cache", cache);
        call.put("cost_usd", message.usage.map(|usage| usage.cost));
        call
    }

    /// An external agent asks about a call before it is in a message: it is told now.
    fn asked_about(&self, state: &mut UiStateInner, out: &mut Vec<u8>, asked: &QuestionAsked) {
        let QuestionContent::Approve(approval) = asked.content.as_ref() else { return };
        let is_told = |run: &Run| run.steps.contains_key(&approval.call);
        if !state.run.as_ref().is_some_and(is_told) {
            self.proposed(state, out, &approval.call, &approval.tool, &Value::Nil);
        }
    }

    fn proposed(
        &self,
        state: &mut UiStateInner,
        out: &mut Vec<u8>,
        id: &Arc<str>,
        name: &str,
        arguments: &Value<'_>,
    ) {
        let Some(run) = &mut state.run else { return };
        let (args, raw) = arguments_of(arguments);
        let raw: Arc<str> = raw.into();
        // The call of an external agent is told before its message.
        if let Some(step) = run.steps.get_mut(id) {
            if *step.arguments != *raw {
                step.arguments = raw.clone();
                agent(state, out, call_event(id, name, args, &raw));
            }
            return;
        }
        run.step_count = run.step_count.saturating_add(1);
        let number = run.step_count;
        run.steps.insert(id.clone(), Step { since: self.millis(), arguments: raw.clone() });
        let step = typed("step_start").with("step_id", id.to_string()).with("title", name.to_owned());
        agent(state, out, step.with("step_number", Value::int(number)));
        agent(state, out, call_event(id, name, args, &raw));
    }

    /// A call begins to run. A hook may have changed its arguments since they were told.
    fn executing(&self, state: &mut UiStateInner, out: &mut Vec<u8>, call: &ToolCall) {
        let is_told = |run: &Run| run.steps.contains_key(&call.id);
        if !state.run.as_ref().is_some_and(is_told) {
            return self.proposed(state, out, &call.id, &call.name, &call.parsed);
        }
        let (args, raw) = arguments_of(&call.parsed);
        let now = self.millis();
        let Some(step) = state.run.as_mut().and_then(|run| run.steps.get_mut(&call.id)) else { return };
        step.since = now;
        if *step.arguments != *raw {
            step.arguments = raw.as_str().into();
            agent(state, out, call_event(&call.id, &call.name, args, &raw));
        }
    }

    fn result(&self, state: &mut UiStateInner, out: &mut Vec<u8>, output: &ToolOutput) {
        let call = &output.call;
        let mut event = typed("tool_result").with("tool", call.name.to_string());
        event.put("result", result_text(&call.name, &call.parsed, &output.text, &output.details));
        event.put("tool_call_id", call.id.to_string());
        event.put_some("is_error", output.is_error.then_some(true));
        agent(state, out, event);
        self.step_over(state, out, &call.id, output.is_error);
    }

    fn step_over(&self, state: &mut UiStateInner, out: &mut Vec<u8>, id: &Arc<str>, is_error: bool) {
        let Some(step) = state.run.as_mut().and_then(|run| run.steps.remove(id)) else { return };
        let mut event = typed("step_complete").with("step_id", id.to_string());
        event.put("status", if is_error { "error" } else { "completed" });
        event.put("duration_ms", Value::int(self.millis().saturating_sub(step.since).max(0)));
        agent(state, out, event);
    }

    fn compaction_started(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event, asked: bool) {
        if !self.joins_run(state, out, event) {
            return;
        }
        if asked && let Some(run) = state.run.as_mut().filter(|run| !run.is_command) {
            run.is_compaction = true;
        }
        agent(state, out, typed("compaction_start").with("timestamp", self.millis()));
    }

    fn turn_ended(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event, ended: &TurnEnded) {
        // The end of a workflow's run is the end of its last stage.
        if state.run.as_ref().is_some_and(|run| run.is_command)
            || state.run.is_none() && !self.joins_run(state, out, event)
        {
            return;
        }
        let declined = state.run.as_mut().and_then(|run| run.declined.take());
        match (ended.outcome, declined) {
            (TurnOutcome::Completed, _) => self.end(state, out, RunStatus::Completed, None),
            (TurnOutcome::Interrupted, Some(tool)) => {
                if let Some(run) = &mut state.run {
                    run.last_text =
                        Some(format!("The call of {tool} was declined, and the run ended with it."));
                }
                self.end(state, out, RunStatus::Completed, None);
            }
            (TurnOutcome::Aborted | TurnOutcome::Interrupted, _) => {
                self.end(state, out, RunStatus::Cancelled, None);
            }
            (TurnOutcome::Failed, _) => self.end(state, out, RunStatus::Error, ended.error.as_deref()),
        }
    }

    /// The outcome of a slash command: a run of its own.
    fn command(&self, state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event, outcome: &CommandOutcome) {
        let Some(cause) = event.cause.as_ref().filter(|cause| cause.connection == self.connection) else {
            return;
        };
        let known = state.commands.remove(&cause.request);
        if known.is_none() || state.running() != known.as_ref() {
            let run = state.own_id("c");
            self.begin(state, out, run);
        }
        let text = match (outcome.kind, outcome.message.as_str()) {
            ("quit", "") => "The runtime ends.",
            (kind, "") => kind,
            (_, text) => text,
        };
        let is_ended =
            |outcome: &TurnOutcome| matches!(outcome, TurnOutcome::Aborted | TurnOutcome::Interrupted);
        let is_cancelled = state.run.as_ref().is_some_and(|run| {
            run.is_cancelled || run.outcome.as_ref().is_some_and(|(outcome, _)| is_ended(outcome))
        });
        if !outcome.is_error() {
            self.flush_text(state, out);
            if let Some(run) = &mut state.run {
                run.last_text = Some(text.to_owned());
            }
        }
        match (is_cancelled, outcome.is_error()) {
            (true, _) => self.end(state, out, RunStatus::Cancelled, None),
            (false, true) => self.end(state, out, RunStatus::Error, Some(text)),
            (false, false) => self.end(state, out, RunStatus::Completed, None),
        }
    }

    /// What a client that had fallen behind has missed of its run.
    fn missed(&self, state: &mut UiStateInner, out: &mut Vec<u8>, history: &Rehydration) {
        let Some(run) = state.running().cloned() else { return };
        for message in &history.messages {
            if message.turn_id.as_ref().is_none_or(|turn| *turn.as_str() != *run)
                || !is_untold(state, message)
            {
                continue;
            }
            match message.role {
                Role::Assistant => self.answer(state, out, message),
                Role::Tool => {
                    let id: Arc<str> = message.tool_call_id.clone().unwrap_or_default();
                    let failed = message.is_error.unwrap_or(false);
                    let mut event = typed("tool_result");
                    event.put("tool", message.tool_name.as_deref().unwrap_or_default().to_owned());
                    event.put("result", message.text());
                    event.put("tool_call_id", id.to_string());
                    event.put_some("is_error", failed.then_some(true));
                    agent(state, out, event);
                    self.step_over(state, out, &id, failed);
                }
                Role::User | Role::System => {}
            }
        }
    }

    /// An answer turned out not to be the last.
    fn flush_text(&self, state: &mut UiStateInner, out: &mut Vec<u8>) {
        if let Some(text) = state.run.as_mut().and_then(|run| run.last_text.take())
            && !text.is_empty()
        {
            agent(state, out, typed("text").with("content", text).with("timestamp", self.millis()));
        }
    }

    /// Ends the run.
    pub fn end(&self, state: &mut UiStateInner, out: &mut Vec<u8>, how: RunStatus, message: Option<&str>) {
        let open: Vec<Arc<str>> = state.run.iter().flat_map(|run| run.steps.keys().cloned()).collect();
        for step in open {
            self.step_over(state, out, &step, true);
        }
        if how == RunStatus::Completed {
            // An interface prints nothing of a run without it.
            let text = state.run.as_mut().and_then(|run| run.last_text.take()).unwrap_or_default();
            agent(state, out, typed("final").with("content", text));
        } else {
            self.flush_text(state, out);
        }
        if self.diagnostics
            && let Some(run) = &state.run
        {
            let mut params = Map::new().with("run_id", run.id.to_string()).with("kind", "run_summary");
            params.put("summary", summary(&run.calls));
            frames::notify(out, "run.diagnostics", &params);
        }
        status(state, out, how, message);
        if let Some(run) = state.run.take() {
            state.note_end(run.id, how);
        }
    }
}

/// Whether an event's entry was not told yet.
fn is_new(state: &mut UiStateInner, event: &Event) -> bool {
    let Some(run) = &mut state.run else { return false };
    let Some(entry) = &event.entry else { return true };
    // Only messages are kept, of which a run has few; the bound is for one that never ends.
    if run.told.len() >= UI_TOLD_ENTRIES {
        run.told.clear();
    }
    run.told.insert(entry.clone())
}

fn is_untold(state: &mut UiStateInner, message: &Message) -> bool {
    state.run.as_mut().is_some_and(|run| run.told.insert(message.id.clone()))
}

/// The question has ended: the run waits for its answer no longer.
fn resume(state: &mut UiStateInner, out: &mut Vec<u8>, question: &str) {
    let open = state.take_question(question);
    let waited = |open| !matches!(open, OpenRequest::Question { is_elsewhere: true, .. });
    if open.is_some_and(|open| waited(open.asked)) {
        status(state, out, RunStatus::Running, None);
    }
}

fn call_event(id: &str, name: &str, args: Map<'static>, raw: &str) -> Map<'static> {
    let mut event = typed("tool_call").with("tool", name.to_owned()).with("args", args);
    event.put("tool_call_id", id.to_owned());
    event.put("raw_args", raw.to_owned());
    event
}

/// The arguments of a call as an object, with the file under the key that interfaces look at, and as JSON text.
pub fn arguments_of(arguments: &Value<'_>) -> (Map<'static>, String) {
    let mut raw = Vec::new();
    let mut args = arguments.as_map().map(|map| map.clone().into_owned()).unwrap_or_default();
    crate::json::object(&args, &mut raw);
    if let Some(path) = arguments.get("path").and_then(Value::as_str).map(str::to_owned) {
        args.put("file_path", path);
    }
    (args, String::from_utf8(raw).unwrap_or_default())
}

/// The text of a result. That of a change of a file is JSON with the diff, which interfaces show.
pub fn result_text(tool: &str, arguments: &Value<'_>, text: &str, details: &Value<'_>) -> String {
    let diff = details.get("diff").and_then(Value::as_str);
    let has_diff = ToolRow::of(tool).is_some_and(|row| row.shown == Shown::Diff);
    let was_made = has_diff && details.get("denied").is_none();
    let Some(diff) = diff.filter(|_| was_made) else { return text.to_owned() };
    let mut shown = Map::new().with("summary", text).with("diff", diff);
    shown.put_some("file_path", arguments.get("path").and_then(Value::as_str));
    let mut out = Vec::new();
    crate::json::object(&shown, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn retry_event(provider: &str, retry: &RetryAwaited) -> Map<'static> {
    let mut event = typed("llm.retry").with("provider", provider.to_owned());
    event.put("failure_kind", retry.kind.to_string());
    event.put("next_attempt", Value::int(i64::from(retry.attempt).saturating_add(1)));
    event.put("max_attempts", Value::int(i64::from(RETRY_ATTEMPTS).saturating_add(1)));
    event.put("delay_ms", count(u64::try_from(retry.pause.as_millis()).unwrap_or(u64::MAX)));
    event.put("delay_source", "backoff");
    event.put_some("discarded", retry.discarded.then_some(true));
    event
}

/// The free part of the window in whole percent; `None` if its size is not known.
fn percent_left(used: u64, window: u64) -> Option<i64> {
    let used = used.min(window).saturating_mul(100).checked_div(window)?;
    i64::try_from(100u64.saturating_sub(used)).ok()
}

/// The tokens that a model has read.
fn prompt_tokens(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write)
}

/// The sums of a run. Without the figures of any call there is no cost.
fn summary(calls: &[ModelUse]) -> Map<'static> {
    let add = |sum: &mut Option<Usage>, usage: &Option<Usage>| {
        if let Some(usage) = usage {
            sum.get_or_insert_default().add(usage);
        }
    };
    let cost = |sum: Option<Usage>| sum.map(|usage| usage.cost);
    let mut sum = None;
    let mut models: Vec<(String, u64, Option<Usage>)> = Vec::new();
    for call in calls {
        add(&mut sum, &call.usage);
        let name = format!("{}/{}", call.model.0, call.model.1);
        match models.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, calls, usage)) => {
                *calls = calls.saturating_add(1);
                add(usage, &call.usage);
            }
            None => models.push((name, 1, call.usage)),
        }
    }
    let mut by_model = Map::new();
    for (name, calls, sum) in models {
        let usage = sum.unwrap_or_default();
        let mut sums =
            Map::new().with("calls", count(calls)).with("input_tokens", count(prompt_tokens(&usage)));
        sums.put("output_tokens", count(usage.output));
        sums.put("cached_input_tokens", count(usage.cache_read));
        sums.put("cache_creation_tokens", count(usage.cache_write));
        sums.put("total_tokens", count(usage.total()));
        sums.put("cost_usd", cost(sum));
        by_model.insert(Value::str(name), sums);
    }
    let all = sum.unwrap_or_default();
    let mut sums = Map::new().with("total_calls", Value::from(calls.len()));
    sums.put("total_tokens", count(all.total()));
    sums.put("total_input_tokens", count(prompt_tokens(&all)));
    sums.put("total_output_tokens", count(all.output));
    sums.put("total_cached_input_tokens", count(all.cache_read));
    sums.put("total_cache_creation_tokens", count(all.cache_write));
    sums.put("total_cost_usd", cost(sum));
    sums.put("by_model", by_model);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{EntryId, TurnId};

    fn message(id: &str, role: Role, text: &str, stop: StopReason) -> Arc<Message> {
        let content = vec![Block::Text(text.into())];
        let mut message = Message::new(EntryId::from(id), role, content, "".into());
        message.turn_id = Some(TurnId::from("t"));
        message.stop_reason = (role == Role::Assistant).then_some(stop);
        message.tool_call_id = (role == Role::Tool).then(|| "c".into());
        Arc::new(message)
    }

    fn event(entry: Option<&str>, body: Body) -> Event {
        let turn = Some(TurnId::from("t"));
        let entry = entry.map(EntryId::from);
        Event { session: Some("s".into()), offset: 0, turn, entry, cause: None, piece: None, body }
    }

    /// The types of the events with their numbers, and the states.
    fn outline(out: &[u8]) -> Vec<String> {
        let lines = std::str::from_utf8(out).unwrap().lines();
        let told = lines.map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let params = &line["params"];
            match params["event"]["type"].as_str() {
                Some(kind) => format!("{} {kind}", params["seq"]),
                None => params["status"].as_str().unwrap_or_default().to_owned(),
            }
        });
        told.collect()
    }

    #[test]
    fn slow_client_is_told_what_it_missed_once_and_in_order() {
        let teller = Teller { connection: 1, now: Timestamp::UNIX_EPOCH, diagnostics: false };
        let (mut state, mut out) = (UiStateInner::default(), Vec::new());
        let first = message("e1", Role::Assistant, "I look.", StopReason::ToolUse);
        teller.tell(&mut state, &mut out, &event(Some("e1"), Body::AssistantMessage(first.clone())), None);
        let history = Rehydration {
            messages: vec![
                first,
                message("e2", Role::Tool, "found", StopReason::EndTurn),
                message("e3", Role::Assistant, "Done.", StopReason::EndTurn),
            ],
            ..Rehydration::default()
        };
        teller.tell(&mut state, &mut out, &event(None, Body::SessionRehydrated(Arc::new(history))), None);
        // What comes again is not told again.
        let last = message("e3", Role::Assistant, "Done.", StopReason::EndTurn);
        teller.tell(&mut state, &mut out, &event(Some("e3"), Body::AssistantMessage(last)), None);
        state.caught_up = true;
        let idle = Body::SessionUpdated(Arc::new(SessionFacts::empty("s".into())));
        teller.tell(&mut state, &mut out, &event(None, idle.clone()), None);
        teller.tell(&mut state, &mut out, &event(None, idle), None);
        assert_eq!(outline(&out), ["running", "0 text", "1 tool_result", "2 final", "completed"]);
    }

    #[test]
    fn answer_before_a_waiting_message_is_no_final_one() {
        let teller = Teller { connection: 1, now: Timestamp::UNIX_EPOCH, diagnostics: false };
        let (mut state, mut out) = (UiStateInner::default(), Vec::new());
        for (entry, text) in [("e1", "first"), ("e2", "second")] {
            let said = message(entry, Role::Assistant, text, StopReason::EndTurn);
            teller.tell(&mut state, &mut out, &event(Some(entry), Body::AssistantMessage(said)), None);
        }
        let ended = TurnEnded {
            outcome: TurnOutcome::Completed,
            stop: None,
            error: None,
            error_kind: None,
            usage: None,
            run: None,
        };
        teller.tell(&mut state, &mut out, &event(None, Body::TurnEnded(Arc::new(ended))), None);
        assert_eq!(outline(&out), ["running", "0 text", "1 final", "completed"]);
    }
}
