//! What a session needs of whatever answers its turns.
//!
//! The native agent calls models and runs tools itself. Another one may pass the turn on to a program. An agent
//! sends its events through the session's handle while the turn runs, at the pace of the clients: there is no
//! queue and no task in between. What it writes, it sends to the session as a change.

use std::any::Any;
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
use crate::engine::hub::Hub;
use crate::engine::interrupted::UnendedTurn;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::event::{Body, Cause};
use crate::message::{EntryId, Message, Role, StopReason, TurnId};
use crate::session::ToolOutcome;
use crate::store::{Entry, EntryBody};
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
    /// What it continues with, if it was cut off with its process.
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
    /// The model cannot take that much at once.
    #[error("The conversation could not be summarised: {0}")]
    TooLong(String),
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

    /// Continues with a run of a workflow that its process did not bring to its end, in the session that waits for it. `None`
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
///
/// A task that fails inside, or for which the system has no thread, says so in a last message: no turn ends without a word.
pub fn spawn(
    (tasks, hub): (&TaskTracker, Arc<Hub>),
    session: Handle,
    turn: TurnId,
    cause: Option<&Cause>,
    above: &Span,
    task: impl Future<Output = TurnEnd> + Send + 'static,
) {
    let facts = session.snapshot().facts.clone();
    let agent = facts.agent.as_ref().map_or(OWN_AGENT, |agent| &agent.name);
    let cause_of_turn = cause.cloned();
    let cause = cause.map(|cause| (cause.connection, &*cause.request));
    let work = Work::turn(session.id.as_str(), turn.as_str(), agent, cause, above);
    let task = async move {
        let end = match work.run(AssertUnwindSafe(task).catch_unwind()).await {
            Ok(end) => end,
            Err(panic) => {
                failed_inside(&session, &hub, &turn, cause_of_turn, &reason_of(panic)).await;
                TurnEnd::Stopped
            }
        };
        work.end((end == TurnEnd::Stopped).then_some("stopped"));
        let _ = session.ask(|ack| Change::TurnEnded { turn, end, ack }).await;
    };
    tasks.spawn(task);
}

/// What a panic said.
fn reason_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("no reason is known").to_owned(),
    }
}

/// Writes and shows the last message of a turn that has failed in the program itself. Where it cannot be written, it is shown.
async fn failed_inside(session: &Handle, hub: &Hub, turn: &TurnId, cause: Option<Cause>, why: &str) {
    let mut message = Message::new(EntryId::from(""), Role::Assistant, Vec::new(), Arc::from(""));
    message.turn_id = Some(turn.clone());
    message.stop_reason = Some(StopReason::Error);
    message.error_message = Some(format!("The turn failed inside the program: {why}").into());
    let entries = vec![EntryBody::Message(Arc::new(message.clone()))];
    let written = session.request(|ack| Change::AppendLast { turn: turn.clone(), entries, ack }).await;
    let written = written.ok().and_then(|entries| entries.last().cloned());
    let (entry, message) = match written.as_deref() {
        Some(Entry { id, body: EntryBody::Message(message), .. }) => (Some(id.clone()), message.clone()),
        _ => (None, Arc::new(message)),
    };
    let mut event = session.event(Body::AssistantMessage(message), cause);
    (event.turn, event.entry) = (Some(turn.clone()), entry);
    // The task has ended: nobody waits for slow clients.
    drop(session.show(hub, event));
}

/// The name of this program's own agent in spans.
const OWN_AGENT: &str = "edn-bridge";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Settings;
    use crate::engine::host::Engine;
    use crate::engine::providers::Providers;
    use crate::store::{Durability, Store};

    async fn refused() -> TurnEnd {
        panic!("the system has no thread")
    }

    #[tokio::test]
    async fn turn_that_fails_inside_ends_with_an_error_message() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: dir.path().into(), cwd: "/".into(), ..Settings::default() };
        let store = Store::new(dir.path(), Durability::Relaxed).unwrap();
        let executor = tokio::runtime::Handle::current();
        let engine =
            Engine::new(Arc::new(SystemClock), settings, store, Providers::default(), executor).unwrap();
        let session = engine.opener.create(None, "/".into());
        let shared = (&engine.shared.tasks, engine.shared.hub.clone());
        spawn(shared, session.clone(), TurnId::from("t"), None, &Span::none(), refused());
        let last = || {
            let message = session.snapshot().messages().next_back()?.clone();
            message.error_message.clone()
        };
        let told = async {
            loop {
                match last() {
                    Some(told) => break told,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let told = tokio::time::timeout(Duration::from_secs(60), told).await.expect("it ends without a word");
        assert_eq!(&*told, "The turn failed inside the program: the system has no thread");
    }
}
