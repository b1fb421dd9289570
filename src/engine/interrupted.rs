//! What a session's journal says of a turn that its process did not bring to its end. Pure: entries in, facts out.

use std::collections::HashSet;
use std::sync::Arc;

use crate::event::TurnOutcome;
use crate::event::question::QuestionKind;
use crate::facts::JobStatus;
use crate::message::{Arguments, Block, Message, Role, SessionId, StopReason, TurnId};
use crate::store::record::{
    AnswerRecord, FilesEvent, FilesRecord, QuestionRecord, TurnEvent, Update, UpdateKind,
};
use crate::store::{Entry, EntryBody};
use crate::tool;

/// What was left of the newest turn.
#[derive(Debug, PartialEq)]
pub enum TurnRemains {
    /// Its last message is there, and only the entry of its end is missing.
    Ended(TurnId, TurnOutcome),
    /// It was cut off.
    CutOff(UnendedTurn),
    /// It has left its process at a boundary, and goes on in the next.
    HandedOver(UnendedTurn),
}

/// A turn without an end.
#[derive(Debug, Clone, PartialEq)]
pub struct UnendedTurn {
    /// The turn.
    pub turn: TurnId,
    /// The calls of its last answer that have no result, in their order.
    pub calls: Vec<UnendedCall>,
}

/// A call without a result.
#[derive(Debug, Clone, PartialEq)]
pub struct UnendedCall {
    /// Its id.
    pub id: Arc<str>,
    /// Its tool.
    pub name: Arc<str>,
    /// Its arguments.
    pub arguments: Arguments,
    /// Whether it began, and thus may have had effects.
    pub has_begun: bool,
    /// The change of files that it noted last.
    pub changing: Option<FilesRecord>,
    /// The questions about it, oldest first.
    pub questions: Vec<UnendedQuestion>,
}

/// A question that a person was asked, or was about to be.
#[derive(Debug, Clone, PartialEq)]
pub struct UnendedQuestion {
    /// The question.
    pub question: QuestionRecord,
    /// When it was asked.
    pub at: Arc<str>,
    /// Its answer.
    pub answer: Option<AnswerRecord>,
}

impl UnendedTurn {
    /// Whether a call has not begun because of a question: the turn continues with its answer.
    pub fn waits_for_a_person(&self) -> bool {
        // A subagent's turn ended with its parent's.
        let is_own = |asked: &UnendedQuestion| asked.question.works_for.is_none();
        self.calls.iter().any(|call| !call.has_begun && call.questions.iter().any(is_own))
    }

    /// The newest question of a kind about a call that has not begun.
    pub fn asked(&self, call: &str, kind: QuestionKind) -> Option<&UnendedQuestion> {
        let call = self.calls.iter().find(|known| *known.id == *call && !known.has_begun)?;
        call.questions.iter().rev().find(|asked| *asked.question.kind == *kind.as_str())
    }
}

/// Reads what was left of a session's newest turn; `None` if that has an end, or if there is none. A turn of a workflow
/// has no entries of its own, and continues with its workflow.
pub fn read(entries: &imbl::Vector<Arc<Entry>>, session: &SessionId) -> Option<TurnRemains> {
    let turn_of = |entry: &Arc<Entry>| match &entry.body {
        EntryBody::Turn(turn) if turn.session_id == *session => Some(turn.clone()),
        _ => None,
    };
    let newest = entries.iter().rev().find_map(turn_of)?;
    if matches!(newest.event, TurnEvent::Ended | TurnEvent::Interrupted) {
        return None;
    }
    let begins = |entry: &Arc<Entry>| {
        turn_of(entry).is_some_and(|turn| turn.event == TurnEvent::Began && turn.turn_id == newest.turn_id)
    };
    let place = entries.len().checked_sub(entries.iter().rev().position(begins)?)?.checked_sub(1)?;
    let mut unended = UnendedTurn { turn: newest.turn_id.clone(), calls: Vec::new() };
    let mut last = None;
    for entry in entries.focus().narrow(place..) {
        match &entry.body {
            EntryBody::Message(message) if message.turn_id.as_ref() == Some(&unended.turn) => {
                unended.take_in(message);
                last = Some(message.clone());
            }
            EntryBody::Call(call) if call.session_id == *session => {
                unended.each(&call.call_id, |call| call.has_begun = true);
            }
            EntryBody::Files(files)
                if files.session_id == *session
                    && files.turn_id == unended.turn
                    && files.event == FilesEvent::Changing =>
            {
                if let Some(id) = &files.call_id {
                    unended.each(id, |call| {
                        call.has_begun = true;
                        call.changing = Some(FilesRecord::clone(files));
                    });
                }
            }
            EntryBody::Question(question)
                if question.session_id == *session && question.turn_id == unended.turn =>
            {
                let (question, at) = (QuestionRecord::clone(question), entry.ts.clone());
                let id = question.call_id.clone();
                unended.each(&id, |call| call.questions.push(UnendedQuestion { question, at, answer: None }));
            }
            EntryBody::Answer(answer) if answer.session_id == *session => {
                let asked = unended.calls.iter_mut().flat_map(|call| &mut call.questions);
                for asked in asked.filter(|asked| asked.question.question_id == answer.question_id) {
                    asked.answer = Some(AnswerRecord::clone(answer));
                }
            }
            _ => {}
        }
    }
    Some(match last.as_deref().and_then(outcome) {
        Some(outcome) => TurnRemains::Ended(unended.turn, outcome),
        None if newest.event == TurnEvent::HandedOver => TurnRemains::HandedOver(unended),
        None => TurnRemains::CutOff(unended),
    })
}

/// The update about the background jobs that ended with the process before this one, if there are any: those that calls of
/// this session started, and of whose end the model knows nothing.
pub fn lost_jobs(entries: &imbl::Vector<Arc<Entry>>, session: &SessionId) -> Option<Update> {
    let mut elsewhere = HashSet::new();
    let mut running: Vec<Arc<str>> = Vec::new();
    for entry in entries {
        match &entry.body {
            EntryBody::Turn(turn) if turn.session_id != *session => {
                elsewhere.insert(&turn.turn_id);
            }
            EntryBody::Message(message) if message.role == Role::Tool => {
                let detail = |key| message.details.as_ref()?.get(key)?.as_str();
                let Some(id) = detail(tool::JOB_ID) else { continue };
                let is_foreign = message.turn_id.as_ref().is_some_and(|turn| elsewhere.contains(turn));
                match detail(tool::JOB_STATUS) {
                    None if !is_foreign => running.push(id.into()),
                    Some(status) if status != JobStatus::Running.as_str() => {
                        running.retain(|job| **job != *id)
                    }
                    _ => {}
                }
            }
            EntryBody::Update(update) => running.retain(|job| !update.job_ids.contains(job)),
            _ => {}
        }
    }
    let text = match running.as_slice() {
        [] => return None,
        [one] => format!("Background job {one} ended with the process that ran it."),
        all => format!("Background jobs {} ended with the process that ran them.", all.join(", ")),
    };
    Some(Update { kind: UpdateKind::JobEnded, text, job_ids: running })
}

impl UnendedTurn {
    fn each(&mut self, id: &Arc<str>, change: impl FnOnce(&mut UnendedCall)) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == *id) {
            change(call);
        }
    }

    fn take_in(&mut self, message: &Message) {
        if let Some(id) = &message.tool_call_id {
            return self.calls.retain(|call| call.id != *id);
        }
        if message.role != Role::Assistant {
            return;
        }
        self.calls.clear();
        for block in &message.content {
            if let Block::ToolCall { id, name, arguments } = block
                && self.calls.iter().all(|call| call.id != *id)
            {
                self.calls.push(UnendedCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                    has_begun: false,
                    changing: None,
                    questions: Vec::new(),
                });
            }
        }
    }
}

/// The outcome of a turn that ends with that message; `None` if the turn would have gone on.
fn outcome(message: &Message) -> Option<TurnOutcome> {
    Some(match message.stop_reason? {
        StopReason::ToolUse => return None,
        StopReason::Aborted => TurnOutcome::Aborted,
        StopReason::Interrupted => TurnOutcome::Interrupted,
        StopReason::Error => TurnOutcome::Failed,
        StopReason::EndTurn | StopReason::MaxTokens | StopReason::Refusal => TurnOutcome::Completed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record::{CallRecord, TurnRecord};
    use crate::value::{Map, Value};

    fn turn(session: &str, turn: &str, event: TurnEvent) -> EntryBody {
        let (session_id, turn_id) = (session.into(), turn.into());
        EntryBody::Turn(TurnRecord { session_id, turn_id, event, outcome: None })
    }

    fn message(role: Role, content: Vec<Block>, change: impl FnOnce(&mut Message)) -> EntryBody {
        let mut message = Message::new("m".into(), role, content, "".into());
        message.turn_id = Some("t".into());
        change(&mut message);
        EntryBody::Message(Arc::new(message))
    }

    fn answer(calls: &[&str]) -> EntryBody {
        let call = |id: &&str| Block::ToolCall {
            id: (*id).into(),
            name: "bash".into(),
            arguments: Value::from(Map::new()).into(),
        };
        message(Role::Assistant, calls.iter().map(call).collect(), |message| {
            message.stop_reason = Some(StopReason::ToolUse);
        })
    }

    fn ends(stop: StopReason) -> EntryBody {
        message(Role::Assistant, Vec::new(), |message| message.stop_reason = Some(stop))
    }

    fn result(call: &str) -> EntryBody {
        message(Role::Tool, Vec::new(), |message| message.tool_call_id = Some(call.into()))
    }

    fn call(id: &str) -> EntryBody {
        let (session_id, turn_id) = ("s".into(), "t".into());
        EntryBody::Call(CallRecord { session_id, turn_id, call_id: id.into() })
    }

    fn changing(id: &str) -> EntryBody {
        EntryBody::Files(Box::new(FilesRecord {
            session_id: "s".into(),
            turn_id: "t".into(),
            call_id: Some(id.into()),
            event: FilesEvent::Changing,
            files: Vec::new(),
        }))
    }

    fn question(id: &str, call: &str, works_for: Option<&str>) -> EntryBody {
        EntryBody::Question(Box::new(QuestionRecord {
            session_id: "s".into(),
            question_id: id.into(),
            kind: "approve".into(),
            digest: "d".into(),
            turn_id: "t".into(),
            call_id: call.into(),
            subagent_id: None,
            works_for: works_for.map(SessionId::from),
        }))
    }

    /// What is left, as the calls without a result: `!` for one that began, `?` for one with a question.
    fn left(bodies: Vec<EntryBody>) -> String {
        let entry = |body| Entry { id: "e".into(), parent: None, ts: "".into(), request: None, body };
        // As they are read from a file.
        let read = |entry: Entry| Arc::new(Entry::read(&entry.line()).unwrap());
        match read_entries(&bodies.into_iter().map(entry).map(read).collect()) {
            None => "none".to_owned(),
            Some(TurnRemains::Ended(_, outcome)) => outcome.as_str().to_owned(),
            Some(TurnRemains::HandedOver(unended)) => format!("over {}", unended.calls.len()),
            Some(TurnRemains::CutOff(unended)) => {
                let calls = unended.calls.iter().map(|call| {
                    let begun = if call.has_begun { "!" } else { "" };
                    let asked = if call.questions.is_empty() { "" } else { "?" };
                    format!(" {}{begun}{asked}", call.id)
                });
                let waits = if unended.waits_for_a_person() { " waits" } else { "" };
                format!("cut{}{waits}", calls.collect::<String>())
            }
        }
    }

    fn read_entries(entries: &imbl::Vector<Arc<Entry>>) -> Option<TurnRemains> {
        read(entries, &"s".into())
    }

    #[test]
    fn what_is_left_of_a_turn_follows_its_entries() {
        let began = || turn("s", "t", TurnEvent::Began);
        for (bodies, expected) in [
            (vec![], "none"),
            (vec![EntryBody::Name("n".into())], "none"),
            (vec![turn("source", "t", TurnEvent::Began)], "none"),
            (vec![began(), turn("s", "t", TurnEvent::Ended)], "none"),
            (vec![began(), turn("s", "t", TurnEvent::Interrupted)], "none"),
            (vec![began(), EntryBody::Name("n".into())], "cut"),
            (vec![began(), ends(StopReason::EndTurn)], "completed"),
            (vec![began(), ends(StopReason::Aborted)], "aborted"),
            (vec![began(), ends(StopReason::Error)], "failed"),
            (vec![began(), answer(&["a", "b"])], "cut a b"),
            (vec![began(), answer(&["a"]), result("a")], "cut"),
            (vec![began(), answer(&["a"]), result("a"), answer(&["a", "b"])], "cut a b"),
            (vec![began(), answer(&["a", "b"]), call("a"), changing("b")], "cut a! b!"),
            (vec![began(), answer(&["a", "b"]), call("a"), question("i", "b", None)], "cut a! b? waits"),
            (vec![began(), answer(&["a"]), question("i", "a", None), call("a")], "cut a!?"),
            (vec![began(), answer(&["a"]), question("i", "a", None), result("a")], "cut"),
            (vec![began(), answer(&["a"]), question("i", "a", Some("parent"))], "cut a?"),
            (vec![began(), turn("s", "t", TurnEvent::HandedOver)], "over 0"),
            (vec![began(), answer(&["a"]), turn("s", "t", TurnEvent::HandedOver)], "over 1"),
            (vec![began(), answer(&["a"]), turn("s", "t", TurnEvent::HandedOver), result("a")], "over 0"),
            (
                vec![
                    began(),
                    answer(&["a"]),
                    turn("s", "t", TurnEvent::HandedOver),
                    turn("s", "t", TurnEvent::TakenOver),
                    call("a"),
                ],
                "cut a!",
            ),
            (vec![turn("s", "t", TurnEvent::HandedOver)], "none"),
        ] {
            assert_eq!(left(bodies.clone()), expected, "{bodies:?}");
        }
    }

    #[test]
    fn jobs_without_a_known_end_are_lost_once() {
        let with = |details: Map<'static>, turn: &str| {
            message(Role::Tool, Vec::new(), |message| {
                message.turn_id = Some(turn.into());
                message.details = Some(Value::from(details));
            })
        };
        let started = |id: &'static str, turn: &str| with(Map::new().with(tool::JOB_ID, id), turn);
        let looked = |id: &'static str, status: &'static str| {
            with(Map::new().with(tool::JOB_ID, id).with(tool::JOB_STATUS, status), "t")
        };
        let entry =
            |body| Arc::new(Entry { id: "e".into(), parent: None, ts: "".into(), request: None, body });
        let lost = |bodies: Vec<EntryBody>| lost_jobs(&bodies.into_iter().map(entry).collect(), &"s".into());
        let all = || {
            vec![
                turn("other", "of the source", TurnEvent::Began),
                started("j-0", "of the source"),
                turn("s", "t", TurnEvent::Began),
                started("j-1", "t"),
                started("j-2", "t"),
                started("j-3", "t"),
                looked("j-1", "failed"),
                looked("j-2", "running"),
            ]
        };
        let update = lost(all()).unwrap();
        assert_eq!(update.text, "Background jobs j-2, j-3 ended with the process that ran them.");
        let again: Vec<_> = all().into_iter().chain([EntryBody::Update(Box::new(update))]).collect();
        assert_eq!(lost(again), None);
        assert_eq!(lost(vec![result("c")]), None);
    }
}
