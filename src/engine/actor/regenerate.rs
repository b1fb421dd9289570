//! The model is asked again: for an answer that replaces one that failed or was aborted, or to go on after it.
//!
//! The journal keeps what is replaced, beside the branch. Does not know how a turn is answered.

use std::sync::Arc;

use super::state::user_message;
use crate::message::{Block, EntryId, Role, StopReason, TurnId};
use crate::session::Again;
use crate::store::{Entry, EntryBody};

/// What a turn without a message of the user's goes on after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// A message, or the result of a tool call, without an answer.
    Nothing,
    /// An answer that failed or was ended. `before` is the entry that it follows, if it can be replaced: a summary may
    /// have been made of it since.
    Answer { entry: EntryId, before: Option<EntryId> },
}

/// What the newest message of a branch still waits for; `None` if its answer is complete, or if it is a workflow's, which
/// goes on in its own way.
pub(super) fn unanswered(branch: &imbl::Vector<Arc<Entry>>) -> Option<Unanswered> {
    let mut is_summarised = false;
    for entry in branch.iter().rev() {
        match &entry.body {
            EntryBody::Workflow(_) => return None,
            EntryBody::Compaction(_) => is_summarised = true,
            EntryBody::Message(message) => {
                return match message.role {
                    Role::User | Role::Tool => Some(Unanswered::Nothing),
                    Role::Assistant => match message.stop_reason {
                        Some(StopReason::ToolUse) => Some(Unanswered::Nothing),
                        Some(StopReason::Error | StopReason::Aborted | StopReason::Interrupted) => {
                            let before = entry.parent.clone().filter(|_| !is_summarised);
                            Some(Unanswered::Answer { entry: entry.id.clone(), before })
                        }
                        _ => None,
                    },
                    Role::System => None,
                };
            }
            _ => {}
        }
    }
    None
}

/// What the model is told where it goes on after a part of an answer.
const GO_ON: &str = "Go on where you stopped.";

/// The entries with which the model is asked again, and the answer that they replace.
pub(super) fn entries(
    unanswered: Unanswered,
    how: Again,
    turn: &TurnId,
) -> (Vec<EntryBody>, Option<EntryId>) {
    match (unanswered, how) {
        (Unanswered::Answer { entry, before: Some(before) }, Again::Retry) => {
            (vec![EntryBody::Leaf(before)], Some(entry))
        }
        (Unanswered::Answer { .. }, Again::Continue) => {
            (vec![user_message(vec![Block::Text(GO_ON.into())], turn)], None)
        }
        _ => (Vec::new(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::store::record::{Compaction, RunEvent, WorkflowRecord};

    fn message(role: Role, stop: Option<StopReason>) -> EntryBody {
        let mut message = Message::new("m".into(), role, Vec::new(), "".into());
        message.stop_reason = stop;
        EntryBody::Message(Arc::new(message))
    }

    #[test]
    fn only_what_has_no_whole_answer_is_unanswered() {
        let user = || message(Role::User, None);
        let answer = |stop| message(Role::Assistant, Some(stop));
        let name = || EntryBody::Name("n".into());
        let compaction = || {
            let compaction = Compaction::new("s", "e0".into());
            EntryBody::Compaction(Box::new(compaction))
        };
        let workflow =
            || EntryBody::Workflow(Box::new(WorkflowRecord::new(&"s".into(), "w", "w", RunEvent::Ended)));
        let nothing = || Some(Unanswered::Nothing);
        let replaces = |at: usize, before: Option<usize>| {
            let id = |at: usize| EntryId::from(format!("e{at}"));
            Some(Unanswered::Answer { entry: id(at), before: before.map(id) })
        };
        for (number, (bodies, expected)) in [
            (vec![], None),
            (vec![name()], None),
            (vec![user(), name()], nothing()),
            (vec![user(), answer(StopReason::EndTurn)], None),
            (vec![user(), answer(StopReason::ToolUse)], nothing()),
            (vec![user(), answer(StopReason::ToolUse), message(Role::Tool, None)], nothing()),
            (vec![user(), answer(StopReason::Error), name()], replaces(1, Some(0))),
            (vec![user(), answer(StopReason::Aborted)], replaces(1, Some(0))),
            (vec![user(), answer(StopReason::Interrupted)], replaces(1, Some(0))),
            (vec![user(), answer(StopReason::Aborted), compaction()], replaces(1, None)),
            (vec![user(), answer(StopReason::Aborted), workflow()], None),
            (vec![user(), answer(StopReason::Aborted), user()], nothing()),
        ]
        .into_iter()
        .enumerate()
        {
            let entry = |(at, body): (usize, EntryBody)| {
                let parent = at.checked_sub(1).map(|at| EntryId::from(format!("e{at}")));
                Arc::new(Entry { id: format!("e{at}").into(), parent, ts: "".into(), request: None, body })
            };
            let branch = bodies.into_iter().enumerate().map(entry).collect();
            assert_eq!(unanswered(&branch), expected, "{number}");
        }
    }
}
