//! The turns of a session and the runs of its workflows: how each begins, goes on and ends. Does not know the wire.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AfterTurn, SessionActor, user_message};
use crate::catalogue::ErrorCode;
use crate::clock::epoch_millis;
use crate::engine::agent::{self, TurnTask};
use crate::engine::change::{HeldRun, StartedTurn};
use crate::engine::execution::Execution;
use crate::engine::running::RunningTurn;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::engine::unended::UnendedTurn;
use crate::environment::Variables;
use crate::event::{Body, Cause, Event, RetryAwaited, TurnEnded, TurnOutcome};
use crate::facts::Phase;
use crate::limits::QUEUED_MESSAGES;
use crate::message::{Block, TurnId};
use crate::session::{ApiError, Call, Reply};
use crate::store::record::{QueueEvent, TurnEvent, TurnRecord};
use crate::store::{Entry, EntryBody};

/// What a turn has besides its message.
#[derive(Default)]
pub(super) struct Beginning {
    /// The variables of the client that began it; `None` for the newest.
    pub variables: Option<Variables>,
    /// The workflow stage for which it runs.
    pub execution: Option<Arc<Execution>>,
    /// What it goes on with in this process.
    pub unended: Option<Arc<UnendedTurn>>,
}

impl SessionActor {
    /// Shows the session as busy, before a client has the answer that says so.
    pub(super) fn begins(&mut self) {
        self.facts.phase = Phase::Streaming;
        self.publish();
    }

    /// The entry of what happened to a turn, with the outcome of its end.
    pub(super) fn turn_record(
        &self,
        turn: &TurnId,
        event: TurnEvent,
        outcome: Option<TurnOutcome>,
    ) -> EntryBody {
        EntryBody::Turn(TurnRecord {
            session_id: self.handle.id.clone(),
            turn_id: turn.clone(),
            event,
            outcome: outcome.map(|outcome| outcome.as_str().to_owned()),
        })
    }

    /// Whether the turn's last message is written, and the turn is about to end.
    pub(super) fn is_ending(&self) -> bool {
        let room = self.after_turn.len() < QUEUED_MESSAGES;
        room && self.turn.as_ref().is_some_and(|running| running.is_ending)
    }

    /// The variables of the client behind a cause, if it is there and brought some.
    pub(super) fn variables_of(&self, cause: Option<&Cause>) -> Option<Variables> {
        self.shared.settings.environment.of_client(cause?.connection)
    }

    /// Occupies the session, for a client with these variables.
    pub(super) fn hold(
        &mut self,
        id: TurnId,
        cause: Option<Cause>,
        phase: Phase,
        variables: Option<Variables>,
    ) -> (CancellationToken, Arc<TurnControl>) {
        self.shared.works(&self.handle.id);
        let began = epoch_millis(self.shared.clock.now());
        let running = RunningTurn::new(id, cause.clone(), began, variables);
        let (stop, control) = (running.stop.clone(), running.control.clone());
        self.handle.stop.store(Some(Arc::new(stop.clone())));
        self.handle.control.store(Some(control.clone()));
        self.facts.phase = phase;
        self.turn = Some(running);
        self.changed(cause.clone());
        self.shared.tree.announce(cause);
        (stop, control)
    }

    /// Begins a turn of the client behind the cause.
    pub(super) fn begin_turn(&mut self, id: TurnId, cause: Option<Cause>) {
        let variables = self.variables_of(cause.as_ref());
        self.begin_turn_with(id, cause, Beginning { variables, ..Beginning::default() });
    }

    /// The same for a turn that has more to go on from.
    pub(super) fn begin_turn_with(
        &mut self,
        id: TurnId,
        cause: Option<Cause>,
        Beginning { variables, execution, unended }: Beginning,
    ) {
        let (stop, control) = self.hold(id.clone(), cause.clone(), Phase::Streaming, variables);
        if let Some(running) = &mut self.turn {
            running.is_recorded = true;
        }
        let session = self.handle.clone();
        let task = TurnTask {
            session: session.clone(),
            id: id.clone(),
            cause: cause.clone(),
            stop,
            control,
            execution,
            unended,
        };
        let answer = self.agent.clone().answer(task);
        agent::spawn(&self.shared.tasks, session, id, cause.as_ref(), answer);
    }

    /// Starts a turn that works for another session; the returned value reports its end.
    ///
    /// # Errors
    /// If a turn already runs, or the task cannot be written.
    pub(super) async fn work(
        &mut self,
        task: String,
        execution: Option<Arc<Execution>>,
        cause: Option<Cause>,
        variables: Option<Variables>,
    ) -> StartedTurn {
        if self.turn.is_some() {
            return Err(ApiError::new(ErrorCode::SessionNotIdle, "A turn is running in the child session."));
        }
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let began = self.turn_record(&turn, TurnEvent::Began, None);
        self.begin_with(turn.clone(), task, cause.clone(), vec![began]).await?;
        let (sender, receiver) = oneshot::channel();
        self.worked = Some((turn.clone(), sender));
        self.begin_turn_with(turn, cause, Beginning { variables, execution, unended: None });
        Ok(receiver)
    }

    /// Writes the message for the turn of a workflow's stage, which the workflow's own entries count.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) async fn begin_stage(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
    ) -> Result<(), ApiError> {
        self.begin_with(turn, message, cause, Vec::new()).await
    }

    /// Writes a message of the engine's own, with further entries.
    async fn begin_with(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
        further: Vec<EntryBody>,
    ) -> Result<(), ApiError> {
        self.give_up_unended().await;
        let message = user_message(vec![Block::Text(message.into())], &turn);
        let mut bodies = self.with_adopted(vec![EntryBody::Message(message)]);
        bodies.extend(further);
        let written = self.append(bodies).await?;
        self.tell_messages(&written, cause.as_ref(), true);
        Ok(())
    }

    /// Records the session's new configuration: at once in a turn, otherwise with the next message. An unused
    /// session thus stays unchanged on disk, however often the configuration is reloaded.
    pub(super) async fn goes_on_with(&mut self, entry: EntryBody) {
        if !self.is_running() {
            self.adopted = Some(entry);
        } else if let Err(error) = self.append(vec![entry]).await {
            tracing::warn!(%error, "the journal does not say that the configuration was read again");
        }
    }

    /// The entries to write, after the entry of the configuration.
    pub(super) fn with_adopted(&mut self, mut bodies: Vec<EntryBody>) -> Vec<EntryBody> {
        bodies.splice(0..0, self.adopted.take());
        bodies
    }

    /// Gives the session to a run of a workflow: a new one, or its last one that goes on.
    pub(super) async fn begin_workflow(
        &mut self,
        call: Call,
        workflow: Arc<str>,
        arguments: String,
        reply: Reply<HeldRun>,
    ) {
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Workflow(call, workflow, arguments, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: wait for its end, or abort it.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        self.give_up_unended().await;
        let resumed = match arguments.trim() {
            "--resume" => match self.newest_run(Some(&workflow)) {
                Some(run) => match run.resumable() {
                    Ok(run) => Some(run),
                    Err(error) => return reply.fail(error),
                },
                None => {
                    let message = format!("The workflow {workflow} did not run in this session.");
                    return reply.fail(ApiError::failed(message));
                }
            },
            _ => None,
        };
        let id: Arc<str> = self.shared.clock.id("w-").into();
        let variables = self.variables_of(Some(&call.cause()));
        let (stop, control) = self.hold(TurnId::from(&*id), Some(call.cause()), Phase::Streaming, variables);
        let arguments = resumed.as_ref().map_or(arguments, |run| run.arguments.clone());
        reply.ok(HeldRun { id, arguments, stop, control, from: resumed });
    }

    /// The turn's task has ended.
    pub(super) async fn turn_ended(&mut self, turn: &TurnId, end: TurnEnd) {
        let Some(running) = self.turn.take_if(|running| running.id == *turn) else { return };
        // Whoever ended it meanwhile was told so.
        let is_ended = running.stop.is_cancelled() || running.control.interrupt.is_cancelled();
        if end == TurnEnd::HandedOver && !is_ended {
            return self.depart(&running).await;
        }
        let was_compaction = self.facts.phase == Phase::Compacting;
        let ended = running.ended(end, self.handle.snapshot().messages().rev());
        let mut bodies = Vec::new();
        if running.is_recorded {
            bodies.push(self.turn_record(turn, TurnEvent::Ended, Some(ended.outcome)));
        }
        if running.control.holds() && self.queue.len() > 0 && !self.queue.is_held() {
            bodies.push(self.queue_record(QueueEvent::Held));
        }
        if !bodies.is_empty()
            && let Err(error) = self.append(bodies).await
        {
            tracing::warn!(%error, "the journal does not say that a turn has ended");
        }
        self.handle.stop.store(None);
        self.handle.control.store(None);
        self.facts.phase = Phase::Idle;
        self.facts.interrupt_pending = false;
        self.facts.retry_attempt = 0;
        self.facts.retry_deadline_ms = None;
        // A command of the turn may have changed the branch.
        self.look_at_branch();
        self.changed(running.cause.clone());
        if let Some((_, worked)) = self.worked.take_if(|(id, _)| id == turn) {
            let _ = worked.send(end);
        }
        if !was_compaction {
            self.tell_end(&running, ended);
        }
        self.adopt_between_turns().await;
        for waiting in std::mem::take(&mut self.after_turn) {
            match waiting {
                AfterTurn::Prompt(call, incoming, reply) => self.prompt(call, incoming, reply).await,
                AfterTurn::Again(call, how, request, reply) => {
                    self.ask_again(call, how, request, reply).await;
                }
                AfterTurn::Compact(call, wishes, reply) => self.compact(call, wishes, reply),
                AfterTurn::Workflow(call, workflow, arguments, reply) => {
                    self.begin_workflow(call, workflow, arguments, reply).await;
                }
            }
        }
        // A follow-up starts now, however the turn ended, unless a client aborted it: then all that waits is held. A
        // steering message waits for a model call. A child that its parent ended must not start again.
        let follows = match end {
            _ if running.control.holds() => false,
            TurnEnd::Finished => true,
            TurnEnd::Stopped | TurnEnd::HandedOver => {
                self.queue.has_follow_up() && self.handle.working_for().is_none()
            }
        };
        // Callers that wait for an idle session must not see another turn.
        if follows && self.turn.is_none() && self.until_idle.is_empty() {
            self.begin_next(None).await;
        }
        if self.turn.is_none() {
            self.shared.rests(&self.handle.id);
            self.shared.tree.announce(running.cause);
        }
        self.check_idle();
    }

    /// The turn's last message is written. The session stays occupied until the last stage was shown.
    /// Requests in between wait for that, so that a client may send the next prompt as soon as it sees the
    /// message.
    pub(super) fn ending(&mut self, turn: &TurnId, last: Option<Arc<Entry>>) {
        if let Some(running) = self.turn.as_mut().filter(|running| running.id == *turn) {
            running.is_ending = true;
            running.last = last;
        }
    }

    /// Notifies everyone of the end of a turn or of a workflow's run.
    fn tell_end(&self, running: &RunningTurn, ended: TurnEnded) {
        let event = Event {
            turn: Some(running.id.clone()),
            entry: running.last.as_ref().map(|entry| entry.id.clone()),
            ..self.event(Body::TurnEnded(Arc::new(ended)), running.cause.clone())
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    /// Answers callers that wait for an idle session, if it is idle.
    pub(super) fn check_idle(&mut self) {
        if self.turn.is_none() && self.bash.is_none() && !self.jobs.any_running() {
            for reply in self.until_idle.drain(..) {
                reply.ok(());
            }
        }
    }

    /// Replies once nothing runs.
    pub(super) fn when_idle(&mut self, reply: Reply<()>) {
        self.until_idle.push(reply);
        self.check_idle();
    }

    /// The turn waits for the retry of a model call.
    pub(super) fn retrying(&mut self, retry: RetryAwaited) {
        let pause = i64::try_from(retry.pause.as_millis()).unwrap_or(i64::MAX);
        let now = crate::clock::epoch_millis(self.shared.clock.now());
        self.facts.phase = Phase::Retrying;
        self.facts.retry_attempt = retry.attempt;
        self.facts.retry_deadline_ms = Some(now.saturating_add(pause));
        self.tell(Body::RetryAwaited(Arc::new(retry)));
        self.changed_by_turn();
    }

    /// The turn's wait is over.
    pub(super) fn retry_over(&mut self) {
        self.facts.phase = Phase::Streaming;
        self.facts.retry_deadline_ms = None;
        self.changed_by_turn();
    }

    /// Notifies everyone of a fact about the running turn.
    pub(super) fn tell(&self, body: Body) {
        let running = self.turn.as_ref();
        let event = Event {
            turn: running.map(|running| running.id.clone()),
            ..self.event(body, running.and_then(|running| running.cause.clone()))
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    pub(super) fn changed_by_turn(&mut self) {
        let cause = self.turn.as_ref().and_then(|running| running.cause.clone());
        self.changed(cause);
    }
}
