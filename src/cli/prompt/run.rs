//! A running prompt: its limits, the calls of the model and of tools, and what ends it. Prints nothing.

use std::time::{Duration, Instant};

use edn_bridge::client::frame;
use edn_bridge::client::turn::Outcome;
use edn_bridge::value::{Map, Owned, Value};

use super::console::{Console, SignalKind};
use super::verdict::{self, PromptError, RefusedCall, Verdict};
use crate::cli::failure::{FAILED, LIMIT, REFUSED_CALLS};

/// Answers that do not fit the schema, before the turn is ended: a model that cannot do it would be asked, and paid, on.
const MISFITS: u32 = 4;

/// A call that has not begun after so long may wait for an answer, in a session that another client has open too.
const ANSWERS_ELSEWHERE: Duration = Duration::from_secs(1);

/// How long a turn may take to end when its time is over.
const ENDING: Duration = Duration::from_secs(10);

/// The running turn.
pub(super) struct Run<'c> {
    pub(super) console: &'c Console,
    calls: u32,
    /// Answers that did not fit the schema.
    misfits: u32,
    is_over_limit: bool,
    /// The status of an end by a signal, by the convention of shells.
    interrupted: Option<u8>,
    /// The calls of the last answer that may be, which have no result yet.
    open: Option<usize>,
    /// When a call was proposed that does not run yet.
    pub(super) proposed: Option<Instant>,
    /// When the turn is to end.
    deadline: Option<Instant>,
    is_timed_out: bool,
    /// The calls that were refused because nobody could be asked.
    refused: Vec<RefusedCall>,
}

impl<'c> Run<'c> {
    pub(super) fn new(console: &'c Console, timeout: Option<Duration>) -> Self {
        Self {
            console,
            calls: 0,
            misfits: 0,
            is_over_limit: false,
            interrupted: None,
            open: None,
            proposed: None,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            is_timed_out: false,
            refused: Vec::new(),
        }
    }

    /// Whether a signal or a limit ends the prompt.
    pub(super) const fn is_ended(&self) -> bool {
        self.interrupted.is_some() || self.is_timed_out || self.is_over_limit
    }

    /// How long until the time is over.
    pub(super) fn until_deadline(&self) -> Option<Duration> {
        Some(self.deadline?.saturating_duration_since(Instant::now()))
    }

    /// Ends the turn when its time is over. Returns whether it did not end then either.
    pub(super) fn gives_up(&mut self) -> bool {
        if self.until_deadline().is_none_or(|left| left > Duration::ZERO) {
            return false;
        }
        if self.is_timed_out {
            return true;
        }
        self.is_timed_out = true;
        self.deadline = Instant::now().checked_add(ENDING);
        self.console.tell("abort", Map::new());
        false
    }

    /// How long until it is looked whether a call waits for an answer.
    pub(super) fn until_asked(&self) -> Option<Duration> {
        Some(ANSWERS_ELSEWHERE.saturating_sub(self.proposed?.elapsed()))
    }

    /// The question that a call waits for, if another client is asked it. Looks once for a call.
    pub(super) fn asked_elsewhere(&mut self) -> Option<Owned> {
        if self.until_asked()? > Duration::ZERO {
            return None;
        }
        self.proposed = None;
        let query = "[{:psi.agent-session/interactions [:psi.interaction/kind :psi.interaction/payload]}]";
        let answer = self.console.ask("query_eql", Map::new().with("query", query)).ok()?;
        let asked = answer.get("result")?.get("psi.agent-session/interactions")?.as_slice()?;
        asked.first().cloned()
    }

    /// Counts a call of the model. After the last that may be, the turn is to end once its tools have.
    pub(super) fn count(&mut self, answer: &Owned, most: Option<u32>) {
        // What marks the end is no call.
        if self.is_over_limit {
            return;
        }
        if self.open.is_some() {
            return self.end_over_limit();
        }
        self.calls = self.calls.saturating_add(1);
        let goes_on = frame::text(answer, "stop-reason") == "tool-use";
        if goes_on && most.is_some_and(|most| self.calls >= most) {
            let content = answer.get("content").and_then(Value::as_slice).unwrap_or_default();
            let is_call = |block: &&Owned| block.get("type").and_then(Value::as_keyword) == Some("tool-call");
            self.open = Some(content.iter().filter(is_call).count());
        }
    }

    /// A call has its result. With that of the last one the turn ends, if the model may not be called again: an interrupt
    /// before would keep calls from running that have not begun.
    pub(super) fn has_result(&mut self, result: &Owned) {
        self.refused.extend(RefusedCall::of(result));
        self.open = self.open.map(|open| open.saturating_sub(1));
        if self.open == Some(0) && !self.is_over_limit {
            self.end_over_limit();
        }
    }

    /// Whether it is of a call of the model that began before the limit could end the turn: nobody asked for its answer.
    pub(super) fn is_late(&self, event: &Owned) -> bool {
        self.is_over_limit
            && match frame::topic(event) {
                "assistant/message" => !frame::message_text(frame::data(event)).is_empty(),
                topic => topic.ends_with("-delta") || topic == "assistant/delta",
            }
    }

    fn end_over_limit(&mut self) {
        self.is_over_limit = true;
        self.console.tell("interrupt", Map::new());
    }

    /// Counts an answer that does not fit the schema, and ends the turn with the last that may be.
    pub(super) fn answered(&mut self, fits: bool) {
        self.misfits = self.misfits.saturating_add(u32::from(!fits));
        if !fits && self.misfits == MISFITS {
            self.console.tell("interrupt", Map::new());
        }
    }

    pub(super) fn interrupt(&mut self, signal: SignalKind) {
        self.interrupted = u8::try_from(signal.as_raw_value()).ok().map(|number| number.saturating_add(128));
        self.console.tell("abort", Map::new());
    }

    /// How the prompt ended.
    pub(super) fn verdict(&self, ended: &Outcome, wants_answer: bool, is_answered: bool) -> Verdict {
        let failed = |status, code: &str, why: &str| Err((status, PromptError::new(code, why)));
        let verdict = match ended {
            Outcome::Command { failed: true, message } => failed(FAILED, "command-failed", message),
            Outcome::Command { failed: false, .. } => Ok(()),
            Outcome::Choice(_) | Outcome::Repeated => {
                let why = "this command offers a choice; give it its argument, or use an editor";
                failed(FAILED, "needs-choice", why)
            }
            Outcome::Turn(_) if wants_answer && is_answered => Ok(()),
            Outcome::Turn(_) if let Some(status) = self.interrupted => {
                failed(status, "interrupted", "the turn was interrupted")
            }
            Outcome::Turn(_) if self.is_timed_out => {
                failed(LIMIT, "timeout", "the turn was ended when its time was over")
            }
            Outcome::Turn(_) if self.is_over_limit => {
                let calls = if self.calls == 1 { "call" } else { "calls" };
                let why = format!("the turn was ended after {} {calls} of the model", self.calls);
                failed(LIMIT, "max-turns", &why)
            }
            Outcome::Turn(data) => verdict::of_turn(data, wants_answer),
        };
        let (status, error) = match verdict {
            Ok(()) if self.refused.is_empty() => (0, None),
            Ok(()) => (REFUSED_CALLS, None),
            Err((status, error)) => (status, Some(error)),
        };
        let refused = self.refused.clone();
        let mut verdict = Verdict { status, error, refused, calls: self.calls, ..Verdict::default() };
        verdict.explain();
        verdict
    }
}
