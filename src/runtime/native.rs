//! The native agent: it calls models and runs tools itself.

mod answer;
mod call;
mod compaction;
mod hooks;
mod proposal;
mod request;
mod rounds;
mod turn;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::runtime::agent::{Agent, TurnTask};
use crate::runtime::control::TurnEnd;
use crate::runtime::mailbox::Handle;
use crate::runtime::open::Sessions;
use crate::runtime::services::Shared;
use compaction::Why;
use turn::Turn;

/// See the module.
pub struct NativeAgent {
    shared: Arc<Shared>,
}

impl NativeAgent {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Agent for NativeAgent {
    fn answer(self: Arc<Self>, task: TurnTask) -> BoxFuture<'static, TurnEnd> {
        let sessions = Sessions { shared: self.shared.clone(), agent: self };
        let turn = Turn::new(sessions, task);
        Box::pin(async move { turn.rounds().await })
    }

    fn compact(
        self: Arc<Self>,
        session: Handle,
        stop: CancellationToken,
        wishes: Option<String>,
    ) -> BoxFuture<'static, Result<String, String>> {
        Box::pin(async move {
            let why = Why::Asked(wishes.as_deref());
            compaction::compact(&session, &stop, why).await.map_err(|error| error.to_string())
        })
    }
}
