//! Which agent answers a session's turns: this program's own, or the one that the session was opened with.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::engine::agent::{Agent, CompactionError, TurnTask};
use crate::engine::change::HeldRun;
use crate::engine::external::ExternalAgent;
use crate::engine::handle::Handle;
use crate::engine::native::NativeAgent;
use crate::engine::open::Opener;
use crate::engine::turn_control::TurnEnd;
use crate::engine::workflow;
use crate::session::ToolOutcome;
use crate::value::Value;

/// See the module.
pub struct Drivers {
    pub native: Arc<NativeAgent>,
    pub foreign: Arc<ExternalAgent>,
}

impl Drivers {
    fn of(&self, session: &Handle) -> Arc<dyn Agent> {
        match session.snapshot().facts.agent {
            Some(_) => self.foreign.clone(),
            None => self.native.clone(),
        }
    }
}

impl Agent for Drivers {
    fn answer(self: Arc<Self>, turn: TurnTask) -> BoxFuture<'static, TurnEnd> {
        self.of(&turn.session).answer(turn)
    }

    fn compact(
        self: Arc<Self>,
        task: TurnTask,
        wishes: Option<String>,
    ) -> BoxFuture<'static, Result<String, CompactionError>> {
        self.of(&task.session).compact(task, wishes)
    }

    fn go_on(self: Arc<Self>, session: Handle, held: HeldRun) -> Option<BoxFuture<'static, TurnEnd>> {
        let name = held.from.as_ref()?.workflow.clone();
        let workflow = session.config().workflows.get(&name)?.as_ref().ok()?.clone();
        let opener = Opener { shared: self.native.shared.clone(), agent: self };
        Some(Box::pin(workflow::run(opener, session, workflow, None, held)))
    }

    fn call_tool(
        self: Arc<Self>,
        task: TurnTask,
        tool: String,
        arguments: Value<'static>,
    ) -> BoxFuture<'static, ToolOutcome> {
        // A tool of this program, whoever answers the turns.
        self.native.clone().call_tool(task, tool, arguments)
    }
}
