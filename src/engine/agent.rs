//! What a session needs of whatever answers its turns.
//!
//! The native agent calls models and runs tools itself. Another one may pass the turn on to a program. An agent
//! sends its events through the session's handle while the turn runs, at the pace of the clients: there is no
//! queue and no task in between. What it writes, it sends to the session as a change.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Span;

use crate::engine::change::{Change, HeldRun};
use crate::engine::execution::Execution;
use crate::engine::handle::Handle;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::engine::unended::UnendedTurn;
use crate::event::Cause;
use crate::message::TurnId;
use crate::session::ToolOutcome;
use crate::telemetry::Work;
use crate::value::Value;

/// A turn to answer. The user's message is in the session's journal.
pub struct TurnTask {
    /// What answers the turns of the sessions that work for it.
    pub agent: Arc<dyn Agent>,
    /// The session.
    pub session: Handle,
    /// The turn.
    pub id: TurnId,
    /// The request that caused it.
    pub cause: Option<Cause>,
    /// Ends it at once.
    pub stop: CancellationToken,
    /// The session's controls of it.
    pub control: Arc<TurnControl>,
    /// The workflow stage for which it runs.
    pub execution: Option<Arc<Execution>>,
    /// What it goes on with, if it was cut off with its process.
    pub unended: Option<Arc<UnendedTurn>>,
}

/// Why a compaction failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactionError {
    /// It is too short.
    #[error("There is nothing to compact yet.")]
    Nothing,
    /// The user stopped it.
    #[error("The compaction was aborted.")]
    Aborted,
    /// The session's agent keeps its own conversation.
    #[error("The agent {0} keeps its own conversation: it compacts that itself.")]
    Agent(Arc<str>),
    /// A guard denied the model call.
    #[error("The conversation could not be summarised: {0}")]
    Denied(String),
    /// The model failed.
    #[error("The conversation could not be summarised: {0}")]
    Model(String),
    /// The summary could not be written.
    #[error("The summary could not be saved: {0}")]
    Store(String),
}

/// Answers the turns of sessions.
pub trait Agent: Send + Sync {
    /// Answers a turn to its end. Its last output is a journalled message with its event or, after success, the
    /// stage `render`. The session stays occupied: the caller frees it.
    fn answer(self: Arc<Self>, turn: TurnTask) -> BoxFuture<'static, TurnEnd>;

    /// Summarises the older part of a session's conversation, with the user's wishes for the summary. Gives the
    /// summary.
    ///
    /// # Errors
    /// See [`CompactionError`].
    fn compact(
        self: Arc<Self>,
        task: TurnTask,
        wishes: Option<String>,
    ) -> BoxFuture<'static, Result<String, CompactionError>>;

    /// Goes on with a run of a workflow that its process did not bring to its end, in the session that waits for it. `None`
    /// if the workflow can no longer be used.
    fn go_on(self: Arc<Self>, _session: Handle, _held: HeldRun) -> Option<BoxFuture<'static, TurnEnd>> {
        None
    }

    /// Runs one tool under the rules of every call. Writes nothing to the journal.
    fn call_tool(
        self: Arc<Self>,
        task: TurnTask,
        tool: String,
        arguments: Value<'static>,
    ) -> BoxFuture<'static, ToolOutcome>;
}

/// Runs the task that holds a session, on the request that caused it, and tells the session its end. A task that
/// fails inside ends as well: the session must not wait for it for ever. `above` is the span that it works for, or none.
pub fn spawn(
    tasks: &TaskTracker,
    session: Handle,
    turn: TurnId,
    cause: Option<&Cause>,
    above: &Span,
    task: impl Future<Output = TurnEnd> + Send + 'static,
) {
    let facts = session.snapshot().facts.clone();
    let agent = facts.agent.as_ref().map_or(OWN_AGENT, |agent| &agent.name);
    let cause = cause.map(|cause| (cause.connection, &*cause.request));
    let work = Work::turn(session.id.as_str(), turn.as_str(), agent, cause, above);
    let task = async move {
        let end = work.run(AssertUnwindSafe(task).catch_unwind()).await.unwrap_or(TurnEnd::Stopped);
        work.end((end == TurnEnd::Stopped).then_some("stopped"));
        let _ = session.ask(|ack| Change::TurnEnded { turn, end, ack }).await;
    };
    tasks.spawn(task);
}

/// The name of this program's own agent in spans.
const OWN_AGENT: &str = "edn-bridge";
