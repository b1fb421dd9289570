//! Measured work: turns, model calls, tool calls, hooks and questions. Each is a span of `tracing` with the names that
//! OpenTelemetry has for generative AI, and counts in the figures of the process, which the graph shows.
//!
//! Knows neither who exports spans nor sessions. No span has a text of a conversation. Who exports may ask for texts:
//! they are events of a target that no log has.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tracing::field::Empty;
use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span};

use crate::limits::{TELEMETRY_MODELS, TELEMETRY_TEXT_BYTES};
use crate::message::Usage;
use crate::secret;

/// The target of all spans of measured work.
pub const TARGET: &str = module_path!();

/// The target of the events with texts. A log must leave it out.
pub const TEXTS: &str = concat!(module_path!(), "::texts");

/// A kind of work, under the name that OpenTelemetry has for it, or one of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A turn: an agent answers.
    Turn,
    /// One model call.
    ModelCall,
    /// One tool call, with the questions about it and its hooks.
    ToolCall,
    /// One run of a hook.
    Hook,
    /// A question to a person, until its answer.
    Question,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Turn, Self::ModelCall, Self::ToolCall, Self::Hook, Self::Question];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "invoke_agent",
            Self::ModelCall => "chat",
            Self::ToolCall => "execute_tool",
            Self::Hook => "hook",
            Self::Question => "question",
        }
    }
}

/// A span of measured work: its title, kind and own fields, and the fields that all have.
macro_rules! work_span {
    ($(parent: $above:expr,)? $name:literal, $kind:literal, $title:literal, $($own:tt)*) => {
        tracing::debug_span!(
            $(parent: $above,)?
            $name,
            otel.name = %format_args!($title),
            otel.kind = $kind,
            otel.status_code = Empty,
            "error.type" = Empty,
            $($own)*
        )
    };
}

/// Work that goes on. Dropped before its end, it counts as cancelled.
#[derive(Debug)]
pub struct Work {
    operation: Operation,
    span: Span,
    began: Instant,
    /// Provider and model of a model call.
    model: Option<ModelKey>,
    is_over: bool,
}

impl Work {
    /// A turn of a session. `above` is the tool call that it works for, if there is one; `cause` the connection and the
    /// request that it answers.
    pub fn turn(session: &str, turn: &str, agent: &str, cause: Option<(u64, &str)>, above: &Span) -> Self {
        let above = above.id().or_else(|| Span::current().id());
        let span = work_span!(
            parent: above,
            "turn",
            "internal",
            "invoke_agent {agent}",
            gen_ai.operation.name = Operation::Turn.as_str(),
            gen_ai.agent.name = agent,
            gen_ai.conversation.id = session,
            edn_bridge.turn.id = turn,
            edn_bridge.connection.id = cause.map(|(connection, _)| signed(connection)),
            edn_bridge.request.id = cause.map(|(_, request)| request),
        );
        Self::new(Operation::Turn, span)
    }

    /// A model call for a session.
    pub fn model_call(session: &str, provider: &str, model: &str, max_tokens: Option<u32>) -> Self {
        let span = work_span!(
            "model_call",
            "client",
            "chat {model}",
            gen_ai.operation.name = Operation::ModelCall.as_str(),
            gen_ai.provider.name = known_provider(provider),
            gen_ai.request.model = model,
            gen_ai.request.max_tokens = max_tokens.map(i64::from),
            gen_ai.conversation.id = session,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            edn_bridge.usage.cost = Empty,
        );
        let mut work = Self::new(Operation::ModelCall, span);
        work.model = Some((provider.into(), model.into()));
        work
    }

    /// A tool call.
    pub fn tool_call(name: &str, id: &str) -> Self {
        let span = work_span!(
            "tool_call",
            "internal",
            "execute_tool {name}",
            gen_ai.operation.name = Operation::ToolCall.as_str(),
            gen_ai.tool.name = name,
            gen_ai.tool.call.id = id,
            "gen_ai.tool.type" = "function",
        );
        Self::new(Operation::ToolCall, span)
    }

    /// A run of a hook.
    pub fn hook(id: &str, stage: &str, point: &str) -> Self {
        let span = work_span!(
            "hook",
            "internal",
            "hook {id}",
            edn_bridge.hook.id = id,
            edn_bridge.hook.stage = stage,
            edn_bridge.hook.point = point,
        );
        Self::new(Operation::Hook, span)
    }

    /// A question to a person.
    pub fn question(kind: &str, id: &str) -> Self {
        let span = work_span!(
            "question",
            "internal",
            "question {kind}",
            edn_bridge.question.kind = kind,
            edn_bridge.question.id = id,
            edn_bridge.question.outcome = Empty,
        );
        Self::new(Operation::Question, span)
    }

    fn new(operation: Operation, span: Span) -> Self {
        add(&counters(operation).running, 1);
        Self { operation, span, began: Instant::now(), model: None, is_over: false }
    }

    /// Does a part of the work in its span.
    pub fn run<F: Future>(&self, part: F) -> Instrumented<F> {
        part.instrument(self.span.clone())
    }

    /// Tells a text in its span; see [`tell_text`].
    pub fn tell(&self, what: &'static str, text: impl FnOnce() -> String) {
        self.span.in_scope(|| tell_text(what, text));
    }

    /// The end of a model call, with its usage, why it ended, and the kind of its failure.
    pub fn answered(mut self, usage: Option<&Usage>, stop: Option<&str>, failure: Option<&str>) {
        if let Some(usage) = usage {
            let Usage { input, output, cache_read, cache_write, cost } = *usage;
            // The convention counts what was cached among the tokens of the input.
            let all = input.saturating_add(cache_read).saturating_add(cache_write);
            self.span.record("gen_ai.usage.input_tokens", signed(all));
            self.span.record("gen_ai.usage.output_tokens", signed(output));
            self.span.record("gen_ai.usage.cache_read.input_tokens", signed(cache_read));
            self.span.record("gen_ai.usage.cache_creation.input_tokens", signed(cache_write));
            if cost > 0.0 {
                self.span.record("edn_bridge.usage.cost", cost);
            }
        }
        if let Some(stop) = stop {
            self.span.record("gen_ai.response.finish_reasons", stop);
        }
        self.over(failure, usage);
    }

    /// The end of a question, with its outcome.
    pub fn resolved(mut self, outcome: &str) {
        self.span.record("edn_bridge.question.outcome", outcome);
        self.over(None, None);
    }

    /// The end of any other work, with the kind of its failure.
    pub fn end(mut self, failure: Option<&str>) {
        self.over(failure, None);
    }

    fn over(&mut self, failure: Option<&str>, usage: Option<&Usage>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if let Some(failure) = failure {
            self.span.record("error.type", failure);
            self.span.record("otel.status_code", "ERROR");
        }
        let micros = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let counters = counters(self.operation);
        counters.running.fetch_sub(1, Ordering::Relaxed);
        add(&counters.ended, 1);
        add(&counters.failed, u64::from(failure.is_some()));
        add(&counters.micros, micros);
        counters.slowest.fetch_max(micros, Ordering::Relaxed);
        if let Some(key) = self.model.take() {
            count_model(key, failure.is_some(), usage, micros);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.over(Some("cancelled"), None);
    }
}

/// A number as the protocol has it: `tracing` gives others on as text.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The name that OpenTelemetry has for a provider, or ours.
fn known_provider(name: &str) -> &str {
    match name {
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

static WANTS_TEXTS: AtomicBool = AtomicBool::new(false);

/// Tells a text of the conversation in the current span, if the person asked for texts. What looks like a key is masked,
/// and the rest of a long text is left out.
///
/// `what` is a name of OpenTelemetry, such as `gen_ai.output.messages` or `gen_ai.tool.call.arguments`.
fn tell_text(what: &'static str, text: impl FnOnce() -> String) {
    if !WANTS_TEXTS.load(Ordering::Relaxed) {
        return;
    }
    let mut text = secret::mask(&text()).into_owned();
    if text.len() > TELEMETRY_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(TELEMETRY_TEXT_BYTES));
        text.push('…');
    }
    tracing::debug!(target: TEXTS, what, text);
}

/// What the process did of one kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationFigures {
    /// The kind.
    pub operation: Operation,
    /// How much of it goes on.
    pub running: u64,
    /// How much has ended.
    pub ended: u64,
    /// How much of that has failed.
    pub failed: u64,
    /// The time of all that has ended, in microseconds.
    pub micros: u64,
    /// The time of the slowest, in microseconds.
    pub slowest_micros: u64,
}

/// The calls of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFigures {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model's id at the provider.
    pub model: Arc<str>,
    /// Its calls that have ended.
    pub calls: u64,
    /// Those of them that have failed.
    pub failed: u64,
    /// Tokens and cost of all of them.
    pub usage: Usage,
    /// Their time, in microseconds.
    pub micros: u64,
}

struct Counters {
    running: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
    slowest: AtomicU64,
}

impl Counters {
    const fn new() -> Self {
        Self {
            running: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            micros: AtomicU64::new(0),
            slowest: AtomicU64::new(0),
        }
    }
}

static TURNS: Counters = Counters::new();
static MODEL_CALLS: Counters = Counters::new();
static TOOL_CALLS: Counters = Counters::new();
static HOOKS: Counters = Counters::new();
static QUESTIONS: Counters = Counters::new();

const fn counters(operation: Operation) -> &'static Counters {
    match operation {
        Operation::Turn => &TURNS,
        Operation::ModelCall => &MODEL_CALLS,
        Operation::ToolCall => &TOOL_CALLS,
        Operation::Hook => &HOOKS,
        Operation::Question => &QUESTIONS,
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Provider and model.
type ModelKey = (Arc<str>, Arc<str>);

static MODELS: Mutex<BTreeMap<ModelKey, ModelFigures>> = Mutex::new(BTreeMap::new());

fn count_model(mut key: ModelKey, has_failed: bool, usage: Option<&Usage>, micros: u64) {
    let mut all = lock(&MODELS);
    // A client may name any model.
    if all.len() >= TELEMETRY_MODELS && !all.contains_key(&key) {
        key = ("others".into(), "others".into());
    }
    let (provider, model) = key.clone();
    let (calls, failed, no_micros) = (0, 0, 0);
    let none = ModelFigures { provider, model, calls, failed, usage: Usage::default(), micros: no_micros };
    let figures = all.entry(key).or_insert(none);
    figures.calls = figures.calls.saturating_add(1);
    figures.failed = figures.failed.saturating_add(u64::from(has_failed));
    figures.micros = figures.micros.saturating_add(micros);
    if let Some(usage) = usage {
        figures.usage.add(usage);
    }
}

/// What the process did so far, by kind.
pub fn operations() -> Vec<OperationFigures> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let figures = |operation| {
        let Counters { running, ended, failed, micros, slowest } = counters(operation);
        OperationFigures {
            operation,
            running: read(running),
            ended: read(ended),
            failed: read(failed),
            micros: read(micros),
            slowest_micros: read(slowest),
        }
    };
    Operation::ALL.map(figures).to_vec()
}

/// What the process's model calls took so far, by model.
pub fn models() -> Vec<ModelFigures> {
    lock(&MODELS).values().cloned().collect()
}

/// What becomes of what is exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Export {
    /// Where it goes, without what may be a key; `None` if nothing is exported.
    pub endpoint: Option<String>,
    /// Whether texts of conversations are part of it.
    pub has_texts: bool,
    /// Spans that the receiver took.
    pub sent: u64,
    /// Spans that were dropped: more were waiting than may wait, or the receiver did not take them.
    pub dropped: u64,
    /// Why the last export failed; `None` if it did not.
    pub failure: Option<String>,
}

/// Spans that were dropped. Counted apart: a turn must not wait for a lock.
static DROPPED: AtomicU64 = AtomicU64::new(0);

static EXPORT: Mutex<Export> =
    Mutex::new(Export { endpoint: None, has_texts: false, sent: 0, dropped: 0, failure: None });

/// From now on, everything is exported there.
pub fn export_begins(endpoint: String, has_texts: bool) {
    let mut export = lock(&EXPORT);
    (export.endpoint, export.has_texts) = (Some(endpoint), has_texts);
    WANTS_TEXTS.store(has_texts, Ordering::Relaxed);
}

/// So many spans were dropped.
pub fn dropped(more: u64) {
    add(&DROPPED, more);
}

/// The receiver took so many spans, or did not for a reason.
pub fn exported(sent: u64, failure: Option<String>) {
    let mut export = lock(&EXPORT);
    export.sent = export.sent.saturating_add(sent);
    export.failure = failure;
}

/// What became of what is exported.
pub fn export() -> Export {
    Export { dropped: DROPPED.load(Ordering::Relaxed), ..lock(&EXPORT).clone() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(operation: Operation) -> OperationFigures {
        operations().into_iter().find(|figures| figures.operation == operation).unwrap()
    }

    #[test]
    fn work_counts_once_whatever_becomes_of_it() {
        // Of the whole process: other tests may count as well.
        let before = figures(Operation::Hook);
        Work::hook("a", "tool-call", "pre").end(None);
        Work::hook("a", "tool-call", "pre").end(Some("failed"));
        drop(Work::hook("a", "tool-call", "pre"));
        let after = figures(Operation::Hook);
        assert!(after.ended >= before.ended + 3 && after.failed >= before.failed + 2, "{before:?} {after:?}");
        assert!(after.slowest_micros >= before.slowest_micros && after.micros >= before.micros);
    }

    #[test]
    fn models_are_told_apart_up_to_a_bound() {
        let usage = Usage { input: 10, output: 5, cost: 0.5, ..Usage::default() };
        for _ in 0..2 {
            Work::model_call("s", "p", "m-of-test", None).answered(Some(&usage), Some("end-turn"), None);
        }
        Work::model_call("s", "p", "m-of-test", None).answered(None, None, Some("overloaded"));
        let found = models().into_iter().find(|model| &*model.model == "m-of-test").unwrap();
        assert_eq!((found.calls, found.failed, found.usage.input), (3, 1, 20));
        for number in 0..2 * TELEMETRY_MODELS {
            Work::model_call("s", "p", &format!("m-{number}"), None).answered(None, None, None);
        }
        assert!(models().len() <= TELEMETRY_MODELS + 1);
        assert!(models().iter().any(|model| &*model.model == "others"));
    }

    #[test]
    fn texts_are_made_only_if_asked_for() {
        tell_text("gen_ai.input.messages", || panic!("nobody asked"));
    }
}
