//! The turns of a session and the runs of its workflows: how each begins, goes on and ends. Does not know the wire.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::SessionActor;
use super::state::user_message;
use super::turn_slot::AfterTurn;
use crate::clock::epoch_millis;
use crate::engine::agent::{self, TurnTask};
use crate::engine::change::{HeldRun, StartedTurn};
use crate::engine::execution::Execution;
use crate::engine::interrupted::UnendedTurn;
use crate::engine::run_record::{RUN_PREFIX, RunRecord};
use crate::engine::running::RunningTurn;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::environment::Variables;
use crate::event::{Body, Cause, Event, RetryAwaited};
use crate::facts::Phase;
use crate::message::{Block, TurnId};
use crate::session::{ApiError, Call, Reply};
use crate::store::EntryBody;
use crate::store::record::{QueueEvent, TurnEvent};

/// What a turn has besides its message.
#[derive(Default)]
pub(super) struct Beginning {
    /// The variables of the client that began it; `None` for the newest.
    pub variables: Option<Variables>,
    /// The workflow stage for which it runs.
    pub execution: Option<Arc<Execution>>,
    /// What it continues in this process.
    pub unended: Option<Arc<UnendedTurn>>,
    /// The span of the call that it works for.
    pub above: Option<Span>,
}

impl SessionActor {
    /// Occupies the session, for a client with these variables.
    pub(super) fn hold(
        &mut self,
        id: TurnId,
        cause: Option<Cause>,
        phase: Phase,
        variables: Option<Variables>,
    ) -> (CancellationToken, Arc<TurnControl>) {
        self.durable.shared.works(&self.durable.handle.id);
        let began = epoch_millis(self.durable.shared.clock.now());
        let running = RunningTurn::new(id, cause.clone(), began, variables);
        let (stop, control) = (running.stop.clone(), running.control.clone());
        self.durable.handle.stop.store(Some(Arc::new(stop.clone())));
        self.durable.handle.control.store(Some(control.clone()));
        self.durable.state.facts.phase = phase;
        self.turns.occupy(running);
        self.durable.changed(cause.clone());
        self.durable.shared.tree.announce(cause);
        (stop, control)
    }

    /// Begins a turn of the client behind the cause.
    pub(super) fn begin_turn(&mut self, id: TurnId, cause: Option<Cause>) {
        let variables = self.durable.variables_of(cause.as_ref());
        self.begin_turn_with(id, cause, Beginning { variables, ..Beginning::default() });
    }

    /// The same for a turn that has more to go on from.
    pub(super) fn begin_turn_with(
        &mut self,
        id: TurnId,
        cause: Option<Cause>,
        Beginning { variables, execution, unended, above }: Beginning,
    ) {
        // It may have held the session while its message was prepared.
        let held = self.turns.running().filter(|running| running.id == id);
        let (stop, control) = match held.map(|running| (running.stop.clone(), running.control.clone())) {
            Some(held) => held,
            None => self.hold(id.clone(), cause.clone(), Phase::Streaming, variables),
        };
        self.turns.set_recorded();
        let session = self.durable.handle.clone();
        let task = TurnTask {
            agent: self.agent.clone(),
            session: session.clone(),
            id: id.clone(),
            cause: cause.clone(),
            stop,
            control,
            execution,
            unended,
        };
        let answer = self.agent.clone().answer(task);
        let above = above.unwrap_or_else(Span::none);
        let shared = &self.durable.shared;
        agent::spawn((&shared.tasks, shared.hub.clone()), session, id, cause.as_ref(), &above, answer);
    }

    /// Starts a turn that works for another session; the returned value reports its end.
    ///
    /// # Errors
    /// If a turn already runs, or the task cannot be written.
    pub(super) async fn work(
        &mut self,
        task: String,
        cause: Option<Cause>,
        beginning: Beginning,
    ) -> StartedTurn {
        self.turns.must_be_free_or("A turn is running in the child session.")?;
        let turn = TurnId::from(self.durable.shared.clock.id("t-"));
        let began = self.durable.state.turn_record(&turn, TurnEvent::Began, None);
        self.begin_with(turn.clone(), task, cause.clone(), vec![began]).await?;
        let receiver = self.turns.work_for_parent(turn.clone());
        self.begin_turn_with(turn, cause, beginning);
        Ok(receiver)
    }

    /// Writes a message of the engine's own, with further entries. The turn of a workflow's stage has none: the workflow's own
    /// entries count it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) async fn begin_with(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
        further: Vec<EntryBody>,
    ) -> Result<(), ApiError> {
        self.cut_off.give_up(&mut self.durable).await;
        let message = user_message(vec![Block::Text(message.into())], &turn);
        let mut bodies = self.durable.with_adopted(vec![message]);
        bodies.extend(further);
        let written = self.durable.append(bodies).await?;
        self.durable.tell_messages(&written, cause.as_ref(), true);
        Ok(())
    }

    /// Gives the session to a run of a workflow: a new one, or its last one that goes on.
    pub(super) async fn begin_workflow(
        &mut self,
        call: Call,
        workflow: Arc<str>,
        arguments: String,
        reply: Reply<HeldRun>,
    ) {
        if self.turns.is_ending() {
            return self.turns.defer(AfterTurn::Workflow(call, workflow, arguments, reply));
        }
        if let Err(error) = self.turns.must_be_free() {
            return reply.fail(error);
        }
        self.cut_off.give_up(&mut self.durable).await;
        let resumed = match arguments.trim() {
            "--resume" => match self.durable.state.newest_run(Some(&workflow)) {
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
        let id: Arc<str> = self.durable.shared.clock.id(RUN_PREFIX).into();
        let variables = self.durable.variables_of(Some(&call.cause()));
        let (stop, control) = self.hold(TurnId::from(&*id), Some(call.cause()), Phase::Streaming, variables);
        let arguments = resumed.as_ref().map_or(arguments, |run| run.arguments.clone());
        reply.ok(HeldRun { id, arguments, stop, control, from: resumed });
    }

    /// Continues with what the process before this one left, as soon as it can: with a run of a workflow, and with a turn. The
    /// variables are those of the turn, if they are known.
    pub(super) async fn take_up(&mut self, variables: Option<Variables>) {
        if self.begins_nothing() {
            if let Some(variables) = variables {
                self.turns.bring(variables);
            }
            return;
        }
        if let Some(from) = self.cut_off.take_run(&mut self.durable) {
            return self.take_up_run(from, variables);
        }
        let Some(unended) = self.cut_off.take_turn(&mut self.durable).await else { return };
        let beginning = Beginning { variables, unended: Some(unended.clone()), ..Beginning::default() };
        self.begin_turn_with(unended.turn.clone(), None, beginning);
        self.leave_with_all();
    }

    fn take_up_run(&mut self, from: RunRecord, variables: Option<Variables>) {
        let id: Arc<str> = self.durable.shared.clock.id(RUN_PREFIX).into();
        let turn = TurnId::from(&*id);
        let (stop, control) = self.hold(turn.clone(), None, Phase::Streaming, variables);
        let (session, arguments) = (self.durable.handle.clone(), from.arguments.clone());
        let held = HeldRun { id, arguments, stop, control, from: Some(from) };
        let run = self.agent.clone().go_on(session.clone(), held);
        // Without its workflow, it ends at once, and its journal says that it was cut off.
        let run = run.unwrap_or_else(|| Box::pin(std::future::ready(TurnEnd::Stopped)));
        let shared = &self.durable.shared;
        agent::spawn((&shared.tasks, shared.hub.clone()), session, turn, None, &Span::none(), run);
    }

    /// Whether no turn begins by itself: one runs, or somebody waits for the session to be idle.
    pub(super) fn begins_nothing(&self) -> bool {
        !self.turns.is_free() || !self.until_idle.is_empty() || self.durable.state.facts.is_elsewhere
    }

    /// The turn's task has ended.
    pub(super) async fn turn_ended(&mut self, turn: &TurnId, end: TurnEnd) {
        let Some(running) = self.turns.vacate(turn) else { return };
        // Whoever ended it meanwhile was told so.
        let is_ended = running.stop.is_cancelled() || running.control.interrupt.is_cancelled();
        if end == TurnEnd::HandedOver && !is_ended {
            return self.depart(&running).await;
        }
        let was_compaction = self.durable.state.facts.phase == Phase::Compacting;
        let mut ended = running.ended(end, self.durable.handle.snapshot().messages().rev());
        ended.run = self.durable.state.run_end(turn);
        let mut bodies = self.programs.take_updates();
        if running.is_recorded {
            bodies.push(self.durable.state.turn_record(turn, TurnEvent::Ended, Some(ended.outcome)));
        }
        bodies.extend(self.held_by(&running));
        if !bodies.is_empty()
            && let Err(error) = self.durable.append(bodies).await
        {
            tracing::warn!(%error, "the journal does not say that a turn has ended");
        }
        self.let_go();
        // A command of the turn may have changed the branch.
        self.durable.look_at_branch();
        self.durable.changed(running.cause.clone());
        self.turns.report(turn, end);
        if !was_compaction {
            self.durable.show_event(Event {
                turn: Some(running.id.clone()),
                entry: running.last.as_ref().map(|entry| entry.id.clone()),
                ..self.durable.handle.event(Body::TurnEnded(Arc::new(ended)), running.cause.clone())
            });
        }
        self.adopt_between_turns().await;
        for waiting in self.turns.deferred() {
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
                self.durable.state.queue.has_follow_up() && self.durable.handle.working_for().is_none()
            }
        };
        // Callers that wait for an idle session must not see another turn.
        if follows && !self.begins_nothing() {
            self.begin_next(running.control.variables(), None).await;
        }
        if self.turns.is_free() {
            self.durable.shared.rests(&self.durable.handle.id);
            self.durable.shared.tree.announce(running.cause);
        }
        self.check_idle();
        self.leave_with_all();
    }

    /// The entry that holds the queue, if a client has aborted what held the session.
    pub(super) fn held_by(&self, running: &RunningTurn) -> Option<EntryBody> {
        let queue = &self.durable.state.queue;
        let holds = running.control.holds() && queue.len() > 0 && !queue.is_held();
        holds.then(|| self.durable.state.queue_record(QueueEvent::Held))
    }

    /// Nothing holds the session any more.
    pub(super) fn let_go(&mut self) {
        self.durable.handle.stop.store(None);
        self.durable.handle.control.store(None);
        let facts = &mut self.durable.state.facts;
        facts.phase = Phase::Idle;
        facts.interrupt_pending = false;
        facts.retry_attempt = 0;
        facts.retry_deadline_ms = None;
    }

    /// Switches to the newest configuration, unless a turn runs, which does that itself.
    pub(super) async fn adopt_between_turns(&mut self) {
        if self.turns.is_free() && self.durable.handle.parent.is_none() {
            self.durable.adopt(false).await;
        }
    }

    /// Answers callers that wait for an idle session, if it is idle.
    pub(super) fn check_idle(&mut self) {
        if self.turns.is_free() && !self.programs.any_running() {
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
        let now = epoch_millis(self.durable.shared.clock.now());
        self.durable.state.facts.phase = Phase::Retrying;
        self.durable.state.facts.retry_attempt = retry.attempt;
        self.durable.state.facts.retry_deadline_ms = Some(now.saturating_add(pause));
        self.tell(Body::RetryAwaited(Arc::new(retry)));
        self.changed_by_turn();
    }

    /// The turn's wait is over.
    pub(super) fn retry_over(&mut self) {
        self.durable.state.facts.phase = Phase::Streaming;
        self.durable.state.facts.retry_deadline_ms = None;
        self.changed_by_turn();
    }

    /// Notifies everyone of a fact about the running turn.
    pub(super) fn tell(&self, body: Body) {
        self.durable.show_event(Event {
            turn: self.turns.id().cloned(),
            ..self.durable.handle.event(body, self.turns.cause())
        });
    }

    pub(super) fn changed_by_turn(&mut self) {
        self.durable.changed(self.turns.cause());
    }
}
