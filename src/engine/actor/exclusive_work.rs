//! What holds a session like a turn and is none: compactions, single calls of tools, and a message while the resources are
//! read that it names. Does not know how a conversation is compacted, a tool runs or a resource is read: that is done beside
//! the session's task, which goes on serving everybody.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::SessionActor;
use super::turn_slot::{AfterTurn, Preparation};
use crate::context::reference::{Attachment, ResourceReference};
use crate::engine::agent::{CompactionError, TurnTask};
use crate::engine::change::Change;
use crate::engine::incoming::Ahead;
use crate::engine::turn_control::TurnEnd;
use crate::environment::Variables;
use crate::event::{Body, Cause, CompactionEnded};
use crate::facts::Phase;
use crate::limits::MCP_RESOURCE_WAIT;
use crate::message::TurnId;
use crate::session::{ApiError, Call, Reply, Resumed, ToolOutcome};
use crate::value::Value;

impl SessionActor {
    /// Holds an idle session for a task that is no turn.
    fn hold_alone(&mut self, call: &Call, phase: Phase) -> Result<TurnTask, ApiError> {
        self.turns.must_be_free()?;
        let id = TurnId::from(self.durable.shared.clock.id("t-"));
        let variables = self.durable.variables_of(Some(&call.cause()));
        let (stop, control) = self.hold(id.clone(), Some(call.cause()), phase, variables);
        let (session, cause) = (self.durable.handle.clone(), Some(call.cause()));
        Ok(TurnTask {
            agent: self.agent.clone(),
            session,
            id,
            cause,
            stop,
            control,
            execution: None,
            unended: None,
        })
    }

    /// Compacts the conversation on the user's request.
    pub(super) fn compact(&mut self, call: Call, wishes: Option<String>, reply: Reply<Option<String>>) {
        if self.turns.is_ending() {
            return self.turns.defer(AfterTurn::Compact(call, wishes, reply));
        }
        let task = match self.hold_alone(&call, Phase::Compacting) {
            Ok(task) => task,
            Err(error) => return reply.fail(error),
        };
        let (session, id) = (task.session.clone(), task.id.clone());
        let compaction = self.agent.clone().compact(task, wishes);
        self.durable.shared.tasks.spawn(async move {
            let done = compaction.await;
            let end = if matches!(done, Ok(_) | Err(CompactionError::Nothing)) {
                TurnEnd::Finished
            } else {
                TurnEnd::Stopped
            };
            // The answer comes last: a client that has it finds the session idle.
            let _ = session.ask(|ack| Change::TurnEnded { turn: id, end, ack }).await;
            reply.send(match done {
                Ok(summary) => Ok(Some(summary)),
                Err(CompactionError::Nothing) => Ok(None),
                Err(error) => Err(ApiError::failed(error.to_string())),
            });
        });
    }

    /// The model summarises the older part of the conversation.
    pub(super) fn compaction_started(&mut self, asked: bool) {
        self.tell(Body::CompactionStarted { asked });
        self.durable.state.facts.phase = Phase::Compacting;
        self.changed_by_turn();
    }

    /// The summary is written or failed. The session goes on in the phase before it.
    pub(super) fn compaction_ended(&mut self, phase: Phase, ended: CompactionEnded) {
        let ended = CompactionEnded { tokens: self.durable.state.facts.context_tokens, ..ended };
        self.tell(Body::CompactionEnded(Arc::new(ended)));
        self.durable.state.facts.phase = phase;
        self.changed_by_turn();
    }

    /// Runs one tool for a client. It holds the session like a turn, and leaves no message.
    pub(super) fn call_tool(
        &mut self,
        call: Call,
        (tool, arguments): (String, Value<'static>),
        reply: Reply<ToolOutcome>,
    ) {
        let task = match self.hold_alone(&call, Phase::Streaming) {
            Ok(task) => task,
            Err(error) => return reply.fail(error),
        };
        let (session, id) = (task.session.clone(), task.id.clone());
        let running = self.agent.clone().call_tool(task, tool, arguments);
        self.durable.shared.tasks.spawn(async move {
            let outcome = AssertUnwindSafe(running).catch_unwind().await;
            let end = if outcome.is_ok() { TurnEnd::Finished } else { TurnEnd::Stopped };
            // The answer comes last: a client that has it finds the session idle.
            let _ = session.ask(|ack| Change::TurnEnded { turn: id, end, ack }).await;
            reply.send(outcome.map_err(|_| ApiError::failed("The tool failed inside.")));
        });
    }

    /// Holds the session for a turn, and reads what its message names.
    pub(super) fn prepare(
        &mut self,
        turn: TurnId,
        cause: Option<Cause>,
        variables: Option<Variables>,
        wanted: Vec<ResourceReference>,
        preparation: Preparation,
    ) {
        let (stop, control) = self.hold(turn.clone(), cause, Phase::Streaming, variables);
        self.turns.prepare(preparation);
        let (shared, session) = (self.durable.shared.clone(), self.durable.handle.clone());
        let read = {
            let (shared, session) = (shared.clone(), session.clone());
            async move {
                tokio::select! {
                    biased;
                    () = control.interrupt.cancelled() => None,
                    read = shared.mcp.referenced(&session, wanted, MCP_RESOURCE_WAIT, &stop) => read,
                }
            }
        };
        let read = shared.tasks.spawn(read);
        shared.tasks.spawn(async move {
            // Also where reading fails inside: the session must not wait for it for ever.
            let resources = read.await.ok().flatten();
            let _ = session.ask(|ack| Change::Prepared { turn, resources, ack }).await;
        });
    }

    /// What a turn's message names is read. The turn begins, unless it was aborted; one that was interrupted begins and ends
    /// as such.
    pub(super) async fn prepared(&mut self, turn: &TurnId, resources: Option<Vec<Attachment>>) {
        let Some(preparation) = self.turns.prepared(turn) else { return };
        let is_aborted = self.turns.running().is_some_and(|running| running.stop.is_cancelled());
        let resources = Some(resources.unwrap_or_default());
        let aborted = "The message was aborted before what it names was read.";
        match preparation {
            Preparation::Prompt(_, _, reply) if is_aborted => {
                reply.fail(ApiError::failed(aborted));
                self.release(turn).await;
            }
            Preparation::Prompt(call, mut incoming, reply) => {
                incoming.ahead.resources = resources;
                self.begin_prompt(turn.clone(), call, incoming, reply).await;
            }
            Preparation::Next(_, _, reply) if is_aborted => {
                if let Some(reply) = reply {
                    reply.fail(ApiError::failed(format!("{aborted} It still waits.")));
                }
                self.release(turn).await;
            }
            Preparation::Next(was, others, reply) => match self.durable.state.queue.first() {
                Some(next) if next.entry == was.entry && next.text() == was.text() => {
                    let ahead = Ahead { resources, ..Ahead::default() };
                    self.begin_waiting(turn.clone(), next, ahead, others, reply).await;
                }
                // It was changed, moved or taken out meanwhile.
                _ => {
                    self.release(turn).await;
                    if self.begins_nothing() || self.durable.state.queue.first().is_none() {
                        if let Some(reply) = reply {
                            reply.ok(Resumed { is_resumed: true, turn: None });
                        }
                        return;
                    }
                    Box::pin(self.begin_next(others, reply)).await;
                }
            },
        }
    }

    /// What held the session leaves without having begun a turn; nothing, if nothing holds it. No waiting message begins one:
    /// what has failed for this one would fail again.
    pub(super) async fn release(&mut self, turn: &TurnId) {
        let Some(running) = self.turns.vacate(turn) else { return };
        if let Some(held) = self.held_by(&running)
            && let Err(error) = self.durable.append(vec![held]).await
        {
            tracing::warn!(%error, "the journal does not say that the queue is held");
        }
        self.let_go();
        self.durable.changed(running.cause.clone());
        self.adopt_between_turns().await;
        self.durable.shared.rests(&self.durable.handle.id);
        self.durable.shared.tree.announce(running.cause);
        self.check_idle();
        self.leave_with_all();
    }
}
