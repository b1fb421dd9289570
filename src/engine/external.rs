//! External agents that answer turns of our sessions.
//!
//! [`agents`] has them all, and [`agent_listing`] shows them; [`pool`] their processes, one for each agent and folder. [`agent_session`]
//! is a session of ours with its session at an agent, which [`attach`] opens or takes up. [`turn`] runs a turn: what the
//! agent tells becomes events and entries ([`agent_output`], [`calls`]), what it asks becomes questions of ours ([`permission_requests`],
//! [`approvals`]) or is served under our rules ([`client_methods`], [`terminals`]). [`stage`] is a turn of a workflow's stage;
//! [`servers`] the MCP servers that an agent is
//! given. Knows the protocol by the room `agent` alone.

mod agent_listing;
mod agent_output;
mod agent_session;
mod agents;
mod approvals;
mod attach;
mod calls;
mod client_methods;
mod consent;
mod permission_requests;
mod pool;
mod requested;
mod servers;
mod stage;
mod start_reason;
mod terminals;
mod turn;
mod turn_context;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::agent::{Agent, CompactionError, TurnTask};
use crate::engine::native::turn::Turn;
use crate::engine::turn_control::TurnEnd;
use crate::session::ToolOutcome;
use crate::value::Value;
pub use agents::ExternalAgent;
pub use start_reason::Occasion;

impl Agent for ExternalAgent {
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
