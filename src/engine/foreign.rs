//! Agents of others that answer turns of our sessions.
//!
//! [`agents`] has them all, and [`listed`] shows them; [`pool`] their processes, one for each agent and folder. [`attached`]
//! is a session of ours with its session at an agent, which [`attach`] opens or takes up. [`turn`] runs a turn: what the
//! agent tells becomes events and entries ([`told`], [`calls`]), what it asks becomes questions of ours ([`asks`],
//! [`permits`]) or is served under our rules ([`served`], [`terminals`]). [`stage`] is a turn of a workflow's stage;
//! [`servers`] the servers of tools that an agent is
//! given. Knows the protocol by the room `agent` alone.

mod agents;
mod asks;
mod attach;
mod attached;
mod calls;
mod consent;
mod listed;
mod occasion;
mod parts;
mod permits;
mod pool;
mod requested;
mod served;
mod servers;
mod stage;
mod terminals;
mod told;
mod turn;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::agent::{Agent, CompactionError, TurnTask};
use crate::engine::native::turn::Turn;
use crate::engine::turn_control::TurnEnd;
use crate::session::ToolOutcome;
use crate::value::Value;
pub use agents::ForeignAgent;
pub use occasion::Occasion;

impl Agent for ForeignAgent {
    fn answer(self: Arc<Self>, task: TurnTask) -> BoxFuture<'static, TurnEnd> {
        Box::pin(async move {
            let turn = Turn::new(self.shared.clone(), task);
            turn::run(&self, &turn).await
        })
    }

    fn compact(
        self: Arc<Self>,
        task: TurnTask,
        _wishes: Option<String>,
    ) -> BoxFuture<'static, Result<String, CompactionError>> {
        let name = task.session.snapshot().facts.agent.as_ref().map(|agent| agent.name.clone());
        Box::pin(async move { Err(CompactionError::Agent(name.unwrap_or_default())) })
    }

    fn call_tool(
        self: Arc<Self>,
        _task: TurnTask,
        _tool: String,
        _arguments: Value<'static>,
    ) -> BoxFuture<'static, ToolOutcome> {
        let text = "The session's agent has tools of its own.".to_owned();
        Box::pin(async move { ToolOutcome { text, is_error: true, details: Value::Nil } })
    }
}
