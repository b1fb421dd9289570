//! Recognises calls that a turn repeats without a change of anything: the same call with the same result. Asks nobody.

use std::collections::VecDeque;

use crate::event::ToolCall;
use crate::limits::{LOOP_ASK, LOOP_CALLS, LOOP_HINT};
use crate::sha256;
use crate::tool::{self, Outcome};

/// The end of the result of a call that has been made before, with that result.
pub const HINT: &str = "[The same call had the same result before, several times, and no file was changed between. Do something else, \
                        or say what keeps you from it.]";

/// The last calls of a turn.
#[derive(Debug, Default)]
pub struct RecentCalls {
    /// Their digests, the oldest first.
    digests: VecDeque<String>,
    /// Those of the answer whose calls run: one answer is one decision, however many equal calls it has.
    of_answer: Vec<String>,
    /// The call that was made so often that a person decides.
    repeated: Option<ToolCall>,
}

impl RecentCalls {
    /// The calls of another answer begin.
    pub fn begin_answer(&mut self) {
        self.of_answer.clear();
    }

    /// Notes a call with its result. Returns whether the model gets [`HINT`].
    pub fn note(&mut self, call: &ToolCall, outcome: &Outcome) -> bool {
        // A job goes on by itself.
        if &*call.name == tool::JOB {
            return false;
        }
        if outcome.edit.is_some() && !outcome.is_error {
            self.digests.clear();
            return false;
        }
        let digest = sha256::hex(format!("{}\0{}\0{}", call.name, call.arguments, outcome.text));
        if self.of_answer.contains(&digest) {
            return false;
        }
        self.of_answer.push(digest.clone());
        let others = self.digests.iter().filter(|known| **known == digest).count();
        let equal = others.saturating_add(1);
        self.digests.push_back(digest);
        if self.digests.len() > LOOP_CALLS {
            self.digests.pop_front();
        }
        if equal >= LOOP_ASK {
            self.repeated = Some(call.clone());
        }
        equal == LOOP_HINT
    }

    /// Takes the call that a person is to decide about. It counts from the start then.
    pub fn take_repeated(&mut self) -> Option<ToolCall> {
        let repeated = self.repeated.take()?;
        self.digests.clear();
        Some(repeated)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::FileEdit;
    use crate::value::Value;

    fn call(name: &str, arguments: &str) -> ToolCall {
        let text = |text: &str| Arc::<str>::from(text);
        ToolCall {
            id: text(""),
            name: text(name),
            summary: text(&format!("{name} {arguments}")),
            arguments: text(arguments),
            parsed: Value::Nil.into(),
        }
    }

    #[test]
    fn third_equal_call_is_hinted_at_and_sixth_is_asked_about() {
        let mut calls = RecentCalls::default();
        let read = call("read", "a");
        let note = |calls: &mut RecentCalls| {
            calls.begin_answer();
            let hint = calls.note(&read, &Outcome::ok("text"));
            // Again in the same answer.
            assert!(!calls.note(&read, &Outcome::ok("text")));
            hint
        };
        let hints: Vec<bool> = (0..5).map(|_| note(&mut calls)).collect();
        assert_eq!(hints, [false, false, true, false, false]);
        assert!(calls.take_repeated().is_none());
        note(&mut calls);
        assert_eq!(calls.take_repeated().map(|call| call.summary), Some("read a".into()));
        assert!(calls.take_repeated().is_none() && !note(&mut calls));
    }

    #[test]
    fn other_results_jobs_and_changes_are_no_loop() {
        let mut calls = RecentCalls::default();
        let read = call("read", "a");
        for number in 0..30 {
            calls.begin_answer();
            let one = Outcome::ok(format!("text {}", number % 15));
            assert!(!calls.note(&read, &one), "other results");
            assert!(!calls.note(&call("job", "j"), &Outcome::ok("[nothing new]")), "a job");
        }
        assert!(calls.take_repeated().is_none());
        let edit = FileEdit { path: "/a".into(), old: Some("old".into()), new: "new".into(), bytes: None };
        let changed = Outcome { edit: Some(Arc::new(edit)), ..Outcome::ok("Edited.") };
        for _ in 0..10 {
            calls.begin_answer();
            assert!(!calls.note(&read, &Outcome::ok("text")));
            assert!(!calls.note(&read, &Outcome::ok("text")));
            calls.note(&call("edit", "a"), &changed);
        }
        assert!(calls.take_repeated().is_none());
    }
}
