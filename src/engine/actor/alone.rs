//! What holds a session like a turn and is none: compactions, and single calls of tools. Does not know how a
//! conversation is compacted or a tool runs; the agent does that.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;

use super::SessionActor;
use super::turn_slot::AfterTurn;
use crate::engine::agent::{CompactionError, TurnTask};
use crate::engine::change::Change;
use crate::engine::turn_control::TurnEnd;
use crate::event::{Body, CompactionEnded};
use crate::facts::Phase;
use crate::message::TurnId;
use crate::session::{ApiError, Call, Reply, ToolOutcome};
use crate::value::Value;

impl SessionActor {
    /// Holds an idle session for a task that is no turn.
    fn hold_alone(&mut self, call: &Call, phase: Phase) -> Result<TurnTask, ApiError> {
        self.turns.must_be_free()?;
        let id = TurnId::from(self.durable.shared.clock.id("t-"));
        let variables = self.durable.variables_of(Some(&call.cause()));
        let (stop, control) = self.hold(id.clone(), Some(call.cause()), phase, variables);
        let (session, cause) = (self.durable.handle.clone(), Some(call.cause()));
        Ok(TurnTask { session, id, cause, stop, control, execution: None, unended: None })
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
}
