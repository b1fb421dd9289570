//! The native agent: it calls models and runs tools itself. Knows neither clients nor wires; it tells a turn's
//! control what happens.

pub(super) mod answer;
pub(super) mod answer_parts;
pub(super) mod call;
mod compaction;
mod environment;
mod gate;
mod hooks;
mod loops;
pub(super) mod proposal;
mod refusals;
mod request;
pub(super) mod rounds;
mod texts;
pub(super) mod turn;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::agent::{Agent, CompactionError, TurnTask};
use crate::engine::services::Services;
use crate::engine::turn_control::TurnEnd;
use crate::session::ToolOutcome;
use crate::value::Value;
use compaction::Why;
use rounds::Rounds;
use turn::Turn;

/// See the module.
pub struct NativeAgent {
    pub(super) shared: Arc<Services>,
}

impl NativeAgent {
    pub fn new(shared: Arc<Services>) -> Self {
        Self { shared }
    }

    fn turn(&self, task: TurnTask) -> Turn {
        Turn::new(self.shared.clone(), task)
    }
}

impl Agent for NativeAgent {
    fn answer(self: Arc<Self>, task: TurnTask) -> BoxFuture<'static, TurnEnd> {
        let turn = self.turn(task);
        Box::pin(async move { Rounds(&turn).run().await })
    }

    fn compact(
        self: Arc<Self>,
        task: TurnTask,
        wishes: Option<String>,
    ) -> BoxFuture<'static, Result<String, CompactionError>> {
        let turn = self.turn(task);
        Box::pin(async move { compaction::compact(&turn, Why::Asked(wishes.as_deref())).await })
    }

    fn call_tool(
        self: Arc<Self>,
        task: TurnTask,
        tool: String,
        arguments: Value<'static>,
    ) -> BoxFuture<'static, ToolOutcome> {
        let turn = self.turn(task);
        Box::pin(async move {
            turn.begin_tools().await;
            let id = turn.shared.clock.id("tc-").into();
            let call = proposal::proposed(&turn.tools(), id, tool.into(), arguments);
            call::alone(&turn, call).await
        })
    }
}
