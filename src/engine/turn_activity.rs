//! The activity of a turn, derived from its events and its session's phase. Pure: the session's handle passes in each event
//! with the time.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Body;
use crate::facts::Phase;
use crate::facts::activity::{Activity, Doing};

/// A running tool call, and since when it runs.
#[derive(Debug)]
struct RunningCall {
    call: Arc<str>,
    tool: Arc<str>,
    summary: Arc<str>,
    since_ms: i64,
}

/// The activity of a session's turn.
#[derive(Debug, Default)]
pub struct TurnActivity {
    /// The activity that is shown.
    shown: Option<Arc<Activity>>,
    /// The step of the model, or of the work on its conversation.
    step: Option<Activity>,
    /// The running tool calls, the oldest first.
    running: Vec<RunningCall>,
    /// The open questions of the session, and since when the first of them is open.
    asking: (usize, i64),
}

impl TurnActivity {
    /// The activity to show; `None` while no turn runs.
    pub fn shown(&self) -> Option<&Arc<Activity>> {
        self.shown.as_ref()
    }

    /// The session is published in that phase.
    pub fn enter_phase(&mut self, phase: Phase, now_ms: impl Fn() -> i64) {
        let doing = match (phase, self.step.as_ref().map(|step| &step.doing)) {
            (Phase::Idle, _) => {
                self.step = None;
                self.running.clear();
                self.shown = None;
                return;
            }
            (Phase::Compacting, _) => Doing::Compacting,
            (Phase::Streaming, None | Some(Doing::Compacting | Doing::Retry { .. })) => Doing::Waiting,
            (Phase::Streaming | Phase::Retrying, _) => return,
        };
        self.step(doing, &now_ms);
        self.show(&now_ms);
    }

    /// Takes in an event of a turn. Returns whether the turn does something else now.
    pub fn note(&mut self, body: &Body, now_ms: impl Fn() -> i64) -> bool {
        let may_differ = match body {
            Body::ThinkingDelta(_) => self.step(Doing::Thinking, &now_ms),
            Body::AssistantDelta(_) => self.step(Doing::Answering, &now_ms),
            Body::ToolStart(call) => self.step(Doing::Calling { tool: call.name.clone() }, &now_ms),
            // After an answer come its calls or the end, and either says so itself.
            Body::CompactionEnded(_) => self.step(Doing::Waiting, &now_ms),
            Body::ToolExecuting(call) => {
                let (id, tool, summary) = (call.id.clone(), call.name.clone(), call.summary.clone());
                self.running.push(RunningCall { call: id, tool, summary, since_ms: now_ms() });
                true
            }
            Body::ToolResult(output) => {
                self.running.retain(|running| running.call != output.call.id);
                // The model is asked next.
                self.step = None;
                self.step(Doing::Waiting, &now_ms)
            }
            Body::RetryAwaited(retry) => {
                let pause = i64::try_from(retry.pause.min(Duration::MAX).as_millis()).unwrap_or(i64::MAX);
                let (attempt, reason) = (retry.attempt, retry.kind.as_ref().into());
                let deadline_ms = now_ms().saturating_add(pause);
                self.step(Doing::Retry { attempt, deadline_ms, reason }, &now_ms)
            }
            Body::CompactionStarted { .. } => self.step(Doing::Compacting, &now_ms),
            _ => false,
        };
        may_differ && self.show(&now_ms)
    }

    /// A question of the session was asked, or is over. Returns whether the turn does something else now.
    pub fn asks(&mut self, begins: bool, now_ms: impl Fn() -> i64) -> bool {
        let (open, since_ms) = &mut self.asking;
        if begins && *open == 0 {
            *since_ms = now_ms();
        }
        *open = if begins { open.saturating_add(1) } else { open.saturating_sub(1) };
        self.step.is_some() && self.show(&now_ms)
    }

    /// The model is at another step, unless it is at that one. Returns whether it is.
    fn step(&mut self, doing: Doing, now_ms: &impl Fn() -> i64) -> bool {
        let is_new = self.step.as_ref().is_none_or(|step| step.doing != doing);
        if is_new {
            self.step = Some(Activity { doing, since_ms: now_ms() });
        }
        is_new
    }

    /// Shows the one that counts most: a question, then what runs, then the model. Returns whether that is new.
    fn show(&mut self, now_ms: &impl Fn() -> i64) -> bool {
        let running = self.running.first().map(|first| Activity {
            doing: Doing::Tool {
                call: first.call.clone(),
                tool: first.tool.clone(),
                summary: first.summary.clone(),
                running: self.running.len(),
            },
            since_ms: first.since_ms,
        });
        let asking =
            (self.asking.0 > 0).then_some(Activity { doing: Doing::Asking, since_ms: self.asking.1 });
        let waiting = || Activity { doing: Doing::Waiting, since_ms: now_ms() };
        let now = asking.or(running).unwrap_or_else(|| self.step.clone().unwrap_or_else(waiting));
        let is_new = self.shown.as_deref() != Some(&now);
        if is_new {
            self.shown = Some(Arc::new(now));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::event::{CompactionEnded, RetryAwaited, ToolCall, ToolOutput, TurnOutcome};
    use crate::value::Value;

    fn call(id: &str) -> Arc<ToolCall> {
        let (id, name, parsed) = (id.into(), "bash".into(), Value::Nil.into());
        Arc::new(ToolCall { id, name, summary: "make".into(), arguments: "".into(), parsed })
    }

    fn result(id: &str) -> Body {
        let (text, details) = ("".into(), Value::Nil);
        let output =
            ToolOutput { call: call(id), text, is_error: false, details, duration_ms: None, edit: None };
        Body::ToolResult(Arc::new(output))
    }

    /// The activity after each step, with its second; `=` where nothing new is.
    #[derive(Default)]
    struct Told {
        activity: TurnActivity,
        second: Cell<i64>,
        told: Vec<String>,
    }

    impl Told {
        fn tell(&mut self, is_new: bool) {
            let shown = self.activity.shown().map(|shown| match &shown.doing {
                Doing::Tool { call, running, .. } => format!("{call} of {running} {}", shown.since_ms),
                Doing::Retry { attempt, deadline_ms, reason } => format!("{attempt} {deadline_ms} {reason}"),
                doing => format!("{} {}", doing.as_str(), shown.since_ms),
            });
            self.told.push(if is_new { shown.unwrap_or_default() } else { "=".to_owned() });
            self.second.set(self.second.get() + 1);
        }

        fn phase(mut self, phase: Phase) -> Self {
            self.activity.enter_phase(phase, || self.second.get());
            self.tell(true);
            self
        }

        fn note(mut self, body: &Body) -> Self {
            let is_new = self.activity.note(body, || self.second.get());
            self.tell(is_new);
            self
        }

        fn asks(mut self, begins: bool) -> Self {
            let is_new = self.activity.asks(begins, || self.second.get());
            self.tell(is_new);
            self
        }
    }

    #[test]
    fn turn_is_shown_step_by_step_with_times() {
        let told = Told::default()
            .phase(Phase::Streaming)
            .note(&Body::ThinkingDelta("hm".into()))
            .note(&Body::ThinkingDelta("hm".into()))
            .note(&Body::AssistantDelta("a".into()))
            .note(&Body::ToolStart(call("c")))
            .phase(Phase::Streaming)
            .asks(true)
            .asks(false)
            .note(&Body::ToolExecuting(call("c")))
            .note(&Body::ToolExecuting(call("d")))
            .asks(true)
            .note(&result("c"))
            .asks(false)
            .note(&result("d"))
            .phase(Phase::Idle);
        assert_eq!(
            told.told,
            [
                "waiting 0",
                "thinking 1",
                "=",
                "answering 3",
                "calling 4",
                "calling 4",
                "asking 6",
                "calling 4",
                "c of 1 8",
                "c of 2 8",
                "asking 10",
                "=",
                "d of 1 9",
                "waiting 13",
                ""
            ]
        );
    }

    #[test]
    fn retry_and_compaction_end_with_the_phase() {
        let retry = RetryAwaited {
            attempt: 2,
            kind: "rate-limited".into(),
            pause: Duration::from_millis(40),
            error: "slow down".into(),
            discarded: false,
        };
        let ended =
            CompactionEnded { outcome: TurnOutcome::Completed, error: None, tokens_before: 0, tokens: 0 };
        let told = Told::default()
            .phase(Phase::Streaming)
            .note(&Body::RetryAwaited(Arc::new(retry)))
            .phase(Phase::Retrying)
            .phase(Phase::Streaming)
            .note(&Body::CompactionStarted { asked: false })
            .phase(Phase::Compacting)
            .note(&Body::CompactionEnded(Arc::new(ended)))
            .phase(Phase::Idle)
            .asks(true);
        let retry = "2 41 rate-limited";
        let compacting = "compacting 4";
        assert_eq!(
            told.told,
            ["waiting 0", retry, retry, "waiting 3", compacting, compacting, "waiting 6", "", "="]
        );
    }
}
