//! What the process before this one did not bring to its end: a turn that was cut off is marked and offered, or goes on
//! with the answer to its open question. Nothing that may have run is run again. Does not know how a call runs.

use std::sync::Arc;

use super::SessionActor;
use super::turns::Beginning;
use crate::engine::agent;
use crate::engine::change::HeldRun;
use crate::engine::turn_control::TurnEnd;
use crate::engine::unended::{self, TurnRemains, UnendedCall, UnendedTurn};
use crate::environment::Variables;
use crate::event::question::QuestionKind;
use crate::event::{Body, Event, ToolCall, ToolOutput};
use crate::facts::Phase;
use crate::message::{Block, EntryId, Message, Role, TurnId};
use crate::session::ApiError;
use crate::store::record::{FilesEvent, FilesRecord, TurnEvent};
use crate::store::{Entry, EntryBody};
use crate::value::Value;

/// What the model is told of a call that began in a process that was killed.
const MAY_HAVE_RUN: &str = "The call was interrupted, because the process that ran it ended: it may have run, as a \
                            whole or in part. It was not run again.";

/// The same with the session of the subagent, if the call was one.
fn may_have_run(call: &UnendedCall) -> String {
    let subagent = call.questions.iter().rev().find_map(|asked| asked.question.subagent_id.as_ref());
    let session = subagent.map(|id| format!(" The subagent's session is {id}; what it did is kept there."));
    format!("{MAY_HAVE_RUN}{}", session.unwrap_or_default())
}

impl SessionActor {
    /// Looks for a turn that was cut off, when the session was opened.
    pub(super) async fn recover(&mut self) {
        match unended::read(self.entries.all(), &self.handle.id) {
            None => {}
            Some(TurnRemains::Ended(turn, outcome)) => {
                let ended = self.turn_record(&turn, TurnEvent::Ended, Some(outcome));
                if let Err(error) = self.append(vec![ended]).await {
                    tracing::warn!(%error, "the journal does not say that a turn has ended");
                }
            }
            Some(TurnRemains::CutOff(unended)) if unended.waits_for_a_person() => {
                self.facts.interrupted = Some(unended.turn.clone());
                self.unended = Some(Arc::new(unended));
                self.publish();
            }
            Some(TurnRemains::CutOff(unended)) => self.mark_interrupted(&unended).await,
            Some(TurnRemains::HandedOver(unended)) => {
                self.is_handed_over = true;
                self.unended = Some(Arc::new(unended));
            }
        }
        if let Some(begun) = self.cut_off.as_ref().filter(|begun| !begun.is_handed_over) {
            self.facts.interrupted = Some(TurnId::from(begun.id.as_str()));
            self.publish();
        }
        if self.unended.is_none() && self.cut_off.is_none() {
            self.shared.rests(&self.handle.id);
        }
    }

    /// Whether a question of that kind would be open in the session.
    fn is_awaited(&self, kind: QuestionKind) -> bool {
        let subagent = self.handle.subagent();
        self.shared.questions.would_be_open(&self.handle.id, subagent.as_ref(), kind)
    }

    /// Goes on with a run of a workflow: one that was handed over, or one whose question can be open.
    fn take_up_run(&mut self, variables: Option<Variables>) {
        let goes_on = self
            .cut_off
            .as_ref()
            .is_some_and(|begun| begun.is_handed_over || self.is_awaited(QuestionKind::Confirm));
        if self.turn.is_some() || !self.until_idle.is_empty() || !goes_on {
            return;
        }
        let Some(from) = self.cut_off.take() else { return };
        self.facts.interrupted = None;
        let id: Arc<str> = self.shared.clock.id("w-").into();
        let turn = TurnId::from(&*id);
        let (stop, control) = self.hold(turn.clone(), None, Phase::Streaming, variables);
        let (session, arguments) = (self.handle.clone(), from.arguments.clone());
        let held = HeldRun { id, arguments, stop, control, from: Some(from) };
        let run = self.agent.clone().go_on(session.clone(), held);
        // Without its workflow, it ends at once, and its journal says that it was cut off.
        let run = run.unwrap_or_else(|| Box::pin(std::future::ready(TurnEnd::Stopped)));
        agent::spawn(&self.shared.tasks, session, turn, None, run);
    }

    /// Goes on with a turn that was handed over; and with one whose question waits, once it can be open. The variables are
    /// those of the turn, if they are known.
    pub(super) async fn take_up(&mut self, variables: Option<Variables>) {
        self.take_up_run(variables.clone());
        let Some(unended) = self.unended.clone() else { return };
        let questions = unended.calls.iter().flat_map(|call| &call.questions);
        let mut kinds = questions.filter_map(|asked| QuestionKind::parse(&asked.question.kind));
        let goes_on = self.is_handed_over || kinds.any(|kind| self.is_awaited(kind));
        if self.turn.is_some() || !self.until_idle.is_empty() || !goes_on {
            return;
        }
        // So that a kill from now on cuts it off.
        let taken_over = self.turn_record(&unended.turn, TurnEvent::TakenOver, None);
        if let Err(error) = self.end_begun_calls(&unended, self.is_handed_over.then_some(taken_over)).await {
            return tracing::warn!(%error, "a turn that was cut off cannot go on");
        }
        self.unended = None;
        self.is_handed_over = false;
        self.facts.interrupted = None;
        let beginning = Beginning { variables, unended: Some(unended.clone()), ..Beginning::default() };
        self.begin_turn_with(unended.turn.clone(), None, beginning);
    }

    /// Marks a turn that waited for an answer as interrupted, because the session goes on without it.
    pub(super) async fn give_up_unended(&mut self) {
        self.give_up_run().await;
        if let Some(unended) = self.unended.take() {
            self.is_handed_over = false;
            self.mark_interrupted(&unended).await;
        }
    }

    async fn mark_interrupted(&mut self, unended: &UnendedTurn) {
        let mark = self.turn_record(&unended.turn, TurnEvent::Interrupted, None);
        if let Err(error) = self.end_begun_calls(unended, Some(mark)).await {
            tracing::warn!(%error, "the journal does not say that a turn was interrupted");
            self.facts.interrupted = Some(unended.turn.clone());
        }
        self.changed(None);
    }

    /// Gives the calls a result that began and have none, with a further entry.
    async fn end_begun_calls(
        &mut self,
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
        let written = self.append(bodies).await?;
        let results = written.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_)));
        for (call, entry) in begun.into_iter().zip(results) {
            self.tell_may_have_run(unended, call, entry);
        }
        Ok(())
    }

    fn tell_may_have_run(&self, unended: &UnendedTurn, call: &UnendedCall, entry: &Arc<Entry>) {
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
        let event = Event {
            turn: Some(unended.turn.clone()),
            entry: Some(entry.id.clone()),
            ..self.event(Body::ToolResult(Arc::new(output)), None)
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }
}
