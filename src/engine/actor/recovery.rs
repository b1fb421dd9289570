//! What the process before this one did not bring to its end: a turn that was cut off is marked and offered, or continues
//! with the answer to its open question. Nothing that may have run is run again. Does not know how a call runs, nor how a
//! turn begins.

use std::sync::Arc;

use super::durable::DurableState;
use crate::engine::interrupted::{self, TurnRemains, UnendedCall, UnendedTurn};
use crate::engine::run_record::{self, RunRecord};
use crate::event::question::QuestionKind;
use crate::event::{Body, Event, NoticeLevel, ToolCall, ToolOutput};
use crate::message::{Block, EntryId, Message, Role, TurnId};
use crate::session::ApiError;
use crate::store::record::{FilesEvent, FilesRecord, TurnEvent};
use crate::store::{Entry, EntryBody};
use crate::value::Value;

/// What the model gets about a call that began in a process that was killed.
const MAY_HAVE_RUN: &str = "The call was interrupted, because the process that ran it ended: it may have run, as a \
                            whole or in part. It was not run again.";

/// The same with the session of the subagent, if the call was one.
fn may_have_run(call: &UnendedCall) -> String {
    let subagent = call.questions.iter().rev().find_map(|asked| asked.question.subagent_id.as_ref());
    let session = subagent.map(|id| format!(" The subagent's session is {id}; what it did is kept there."));
    format!("{MAY_HAVE_RUN}{}", session.unwrap_or_default())
}

/// Work of a session that the process before this one did not bring to its end.
#[derive(Default)]
pub struct InterruptedWork {
    /// A workflow's run: it continues with a person's answer, or because it was handed over, or it is marked at once.
    run: Option<RunRecord>,
    /// A turn that continues with a person's answer.
    turn: Option<Arc<UnendedTurn>>,
    /// Whether that turn goes on by itself, since another process has handed it over.
    is_handed_over: bool,
}

impl InterruptedWork {
    /// What a session's newest run of a workflow leaves.
    pub fn of_run(run: Option<RunRecord>) -> Self {
        Self { run: run.filter(|begun| begun.ended.is_empty()), ..Self::default() }
    }

    /// Whether there is some.
    pub fn is_any(&self) -> bool {
        self.turn.is_some() || self.run.is_some()
    }

    /// Whether the run can go on neither with a person's answer nor by itself.
    pub fn has_lost_run(&self) -> bool {
        self.run.as_ref().is_some_and(|begun| !begun.is_handed_over && !begun.waits_for_a_person())
    }

    /// Looks for a turn that was cut off, when the session was opened.
    pub async fn recover(&mut self, durable: &mut DurableState) {
        match interrupted::read(durable.state.entries.all(), &durable.handle.id) {
            None => {}
            Some(TurnRemains::Ended(turn, outcome)) => {
                let ended = durable.state.turn_record(&turn, TurnEvent::Ended, Some(outcome));
                if let Err(error) = durable.append(vec![ended]).await {
                    tracing::warn!(%error, "the journal does not say that a turn has ended");
                }
            }
            Some(TurnRemains::CutOff(unended)) if unended.waits_for_a_person() => {
                durable.state.facts.interrupted = Some(unended.turn.clone());
                self.turn = Some(Arc::new(unended));
                durable.publish();
            }
            Some(TurnRemains::CutOff(unended)) => mark_interrupted(durable, &unended).await,
            Some(TurnRemains::HandedOver(unended)) => {
                self.is_handed_over = true;
                self.turn = Some(Arc::new(unended));
            }
        }
        let lost = interrupted::lost_jobs(durable.state.entries.all(), &durable.handle.id);
        if let Some(lost) = lost
            && let Err(error) = durable.append(vec![EntryBody::Update(Box::new(lost))]).await
        {
            tracing::warn!(%error, "the model is not informed that jobs have ended with their process");
        }
        if let Some(begun) = self.run.as_ref().filter(|begun| !begun.is_handed_over) {
            durable.state.facts.interrupted = Some(TurnId::from(begun.id.as_str()));
            durable.publish();
        }
        if !self.is_any() {
            durable.shared.rests(&durable.handle.id);
        }
    }

    /// Takes the run out, if it goes on now: one that was handed over, or one whose question can be open.
    pub fn take_run(&mut self, durable: &mut DurableState) -> Option<RunRecord> {
        let goes_on =
            |begun: &mut RunRecord| begun.is_handed_over || is_awaited(durable, QuestionKind::Confirm);
        let run = self.run.take_if(goes_on)?;
        durable.state.facts.interrupted = None;
        Some(run)
    }

    /// Takes the turn out, if it goes on now: one that was handed over; and one whose question can be open. Its calls that
    /// began have a result then, and its journal says that it goes on.
    pub async fn take_turn(&mut self, durable: &mut DurableState) -> Option<Arc<UnendedTurn>> {
        let unended = self.turn.clone()?;
        let questions = unended.calls.iter().flat_map(|call| &call.questions);
        let mut kinds = questions.filter_map(|asked| QuestionKind::parse(&asked.question.kind));
        if !self.is_handed_over && !kinds.any(|kind| is_awaited(durable, kind)) {
            return None;
        }
        // So that a kill from now on cuts it off.
        let taken_over = durable.state.turn_record(&unended.turn, TurnEvent::TakenOver, None);
        let taken_over = self.is_handed_over.then_some(taken_over);
        if let Err(error) = end_begun_calls(durable, &unended, taken_over).await {
            tracing::warn!(%error, "a turn that was cut off cannot go on");
            return None;
        }
        self.turn = None;
        self.is_handed_over = false;
        durable.state.facts.interrupted = None;
        Some(unended)
    }

    /// Writes down that a workflow was cut off with its process, and tells the person how it can go on.
    pub async fn give_up_run(&mut self, durable: &mut DurableState) {
        let Some(begun) = &self.run.take() else { return };
        durable.state.facts.interrupted = None;
        if let Err(error) = durable.append(vec![run_record::cut_off(&durable.handle.id, begun)]).await {
            tracing::warn!(%error, "the journal does not say that a workflow was interrupted");
        }
        durable.notify(NoticeLevel::Warning, &begun.report());
    }

    /// Marks what waited for an answer as interrupted, because the session goes on without it.
    pub async fn give_up(&mut self, durable: &mut DurableState) {
        self.give_up_run(durable).await;
        if let Some(unended) = self.turn.take() {
            self.is_handed_over = false;
            mark_interrupted(durable, &unended).await;
        }
    }
}

/// Whether a question of that kind would be open in the session.
fn is_awaited(durable: &DurableState, kind: QuestionKind) -> bool {
    let subagent = durable.handle.subagent();
    durable.shared.questions.would_be_open(&durable.handle.id, subagent.as_ref(), kind)
}

async fn mark_interrupted(durable: &mut DurableState, unended: &UnendedTurn) {
    let mark = durable.state.turn_record(&unended.turn, TurnEvent::Interrupted, None);
    if let Err(error) = end_begun_calls(durable, unended, Some(mark)).await {
        tracing::warn!(%error, "the journal does not say that a turn was interrupted");
        durable.state.facts.interrupted = Some(unended.turn.clone());
    }
    durable.changed(None);
}

/// Gives the calls a result that began and have none, with a further entry.
async fn end_begun_calls(
    durable: &mut DurableState,
    unended: &UnendedTurn,
    further: Option<EntryBody>,
) -> Result<(), ApiError> {
    let begun: Vec<&UnendedCall> = unended.calls.iter().filter(|call| call.has_begun).collect();
    let mut bodies = Vec::new();
    for call in &begun {
        let content = vec![Block::Text(may_have_run(call).into())];
        let mut message = Message::new(EntryId::from(""), Role::Tool, content, Arc::from(""));
        message.turn_id = Some(unended.turn.clone());
        message.tool_call_id = Some(call.id.clone());
        message.tool_name = Some(call.name.clone());
        message.is_error = Some(true);
        // A result with an error says of a file that is only noted that it was not changed.
        let changed = call.changing.clone();
        bodies.extend(changed.map(|changing| {
            EntryBody::Files(Box::new(FilesRecord { event: FilesEvent::Unknown, ..changing }))
        }));
        bodies.push(EntryBody::Message(Arc::new(message)));
    }
    bodies.extend(further);
    if bodies.is_empty() {
        return Ok(());
    }
    let written = durable.append(bodies).await?;
    let results = written.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_)));
    for (call, entry) in begun.into_iter().zip(results) {
        tell_may_have_run(durable, unended, call, entry);
    }
    Ok(())
}

fn tell_may_have_run(durable: &DurableState, unended: &UnendedTurn, call: &UnendedCall, entry: &Arc<Entry>) {
    let output = ToolOutput {
        call: Arc::new(ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            summary: call.name.clone(),
            arguments: call.arguments.to_string().into(),
            parsed: call.arguments.clone(),
        }),
        text: may_have_run(call).into(),
        is_error: true,
        details: Value::Nil,
        duration_ms: None,
        edit: None,
    };
    durable.show_event(Event {
        turn: Some(unended.turn.clone()),
        entry: Some(entry.id.clone()),
        ..durable.handle.event(Body::ToolResult(Arc::new(output)), None)
    });
}
