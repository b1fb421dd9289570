//! A session that lives: one task with its mailbox, the order of what is appended, and the dispatch of changes.
//!
//! The task puts parts together, each with a name and a file of its own: [`DurableState`] is what the journal says,
//! [`TurnSlot`] what holds the session, [`Programs`] what runs beside it, [`InterruptedWork`] what the process before left. The
//! actor holds the rules that need several of them.

mod agent_state;
mod changes;
mod durable;
mod exclusive_work;
mod jobs;
mod message_context;
mod messages;
mod notifications;
mod ownership;
mod queue_edits;
mod recovery;
mod regenerate;
mod reload;
mod settings;
mod state;
mod stopping;
mod turn_slot;
mod turns;
mod undo;

pub(super) use ownership::no_realm;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::engine::agent::Agent;
use crate::engine::change::Change;
use crate::engine::handle::Handle;
use crate::engine::idempotency::IdempotencyKeys;
use crate::engine::parent_session::Parentage;
use crate::engine::queue::MessageQueue;
use crate::engine::revision::ConfigRevision;
use crate::engine::services::Services;
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::working_sessions::DepartedSession;
use crate::facts::SessionFacts;
use crate::facts::agent::AgentFacts;
use crate::git;
use crate::limits::{MAILBOX, TOLD_FAULTS};
use crate::provider::choice::ModelChoice;
use crate::runner::sandbox;
use crate::session::Reply;
use crate::store::{Entry, Header, Journal, JournalFault, Loaded};
use durable::DurableState;
use jobs::Programs;
use recovery::InterruptedWork;
use turn_slot::TurnSlot;

/// A session's task.
pub struct SessionActor {
    /// What answers its turns.
    agent: Arc<dyn Agent>,
    durable: DurableState,
    turns: TurnSlot,
    programs: Programs,
    cut_off: InterruptedWork,
    /// Who waits for the session to be idle.
    until_idle: Vec<Reply<()>>,
    /// What is to be said once the session has left the process.
    departed: Option<DepartedSession>,
}

impl SessionActor {
    /// Starts the task of a session that was created or loaded.
    pub(super) fn start(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        entries: Vec<Arc<Entry>>,
    ) -> Handle {
        Self::start_with(shared, agent, journal, header, entries, |handle| handle)
    }

    /// Starts the task of a session that works for another.
    pub(super) fn start_child(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        link: Parentage,
        parent: &Handle,
    ) -> Handle {
        Self::start_with(shared, agent, journal, header, Vec::new(), |handle| handle.below(parent, link))
    }

    fn start_with(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        entries: Vec<Arc<Entry>>,
        finish: impl FnOnce(Handle) -> Handle,
    ) -> Handle {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        let config = shared.configuration.for_folder(&header.cwd);
        let mut facts = initial_facts(shared, &config, &journal, &header, !entries.is_empty());
        let empty = SessionSnapshot {
            facts: Arc::new(facts.clone()),
            branch: imbl::Vector::new(),
            entries: imbl::Vector::new(),
            offset: 0,
            bytes: 0,
            queue: MessageQueue::default(),
            idempotency: IdempotencyKeys::default(),
        };
        let handle = Handle::new(header.session.clone(), sender, empty, config, shared.clock.clone());
        let handle = finish(handle);
        if let Some(agent) = shared.settings.agent.as_ref()
            // What this program delegates, it answers itself.
            && entries.is_empty()
            && handle.parent.is_none()
        {
            facts.answered_by(AgentFacts { name: agent.clone(), ..AgentFacts::default() });
        }
        let durable = DurableState::new(shared.clone(), handle.clone(), journal, facts, &entries);
        drop(entries);
        durable.note_known();
        durable.publish();
        durable.listen();
        let run = durable.state.newest_run(None).filter(|_| !durable.state.facts.is_elsewhere);
        let cut_off = InterruptedWork::of_run(run);
        let live = Self {
            agent: agent.clone(),
            durable,
            turns: TurnSlot::default(),
            programs: Programs::default(),
            cut_off,
            until_idle: Vec::new(),
            departed: None,
        };
        // The session outlives whatever has opened it.
        let span = tracing::debug_span!(parent: None, "session", id = handle.id.as_str());
        shared.tasks.spawn(Box::new(live).run(receiver).instrument(span));
        handle
    }

    /// Starts the task of a session that was read from disk.
    pub(super) fn start_loaded(shared: &Arc<Services>, agent: &Arc<dyn Agent>, loaded: Loaded) -> Handle {
        let Loaded { journal, header, entries, faults } = loaded;
        let mut handled: Vec<String> = faults.iter().take(TOLD_FAULTS).map(JournalFault::handled).collect();
        if let Some(more) = faults.len().checked_sub(TOLD_FAULTS).filter(|more| *more > 0) {
            handled.push(format!("There are {more} more; `edn-bridge sessions verify` has all."));
        }
        for repair in &handled {
            tracing::warn!(session = header.session.as_str(), "{repair}");
        }
        let handle = Self::start(shared, agent, journal, header, entries);
        *handle.repairs.lock().unwrap_or_else(PoisonError::into_inner) = handled;
        handle
    }

    async fn run(mut self: Box<Self>, mut mailbox: mpsc::Receiver<Change>) {
        if self.cut_off.has_lost_run() {
            Box::pin(self.cut_off.give_up_run(&mut self.durable)).await;
        }
        while let Some(change) = mailbox.recv().await {
            let unload = match change {
                Change::Unload(unload) if self.is_at_rest() => unload,
                change => {
                    // On its own, so that a session that rests keeps no room for the largest change.
                    Box::pin(self.apply(change)).await;
                    if let Some(departed) = self.departed.take() {
                        return Box::pin(self.leave(departed)).await;
                    }
                    self.durable.handle.is_busy.store(!self.is_at_rest(), Ordering::Release);
                    continue;
                }
            };
            let shared = self.durable.shared.clone();
            // Whoever opens the session again waits until its file is let go.
            let not_opening = shared.tree.opening.lock().await;
            if shared.tree.forget(&self.durable.handle, unload.lookup) {
                self.close().await;
                unload.done();
                drop(not_opening);
                return shared.tree.announce(None);
            }
        }
    }

    /// Whether nothing runs and nobody is awaited in the session. A queued message is in the journal and comes
    /// back with the session, as the keys of requests do.
    fn is_at_rest(&self) -> bool {
        self.turns.is_free()
            && !self.programs.any_running()
            && self.until_idle.is_empty()
            && self.durable.handle.working_for().is_none()
    }

    /// Closes the session's file, and ends the servers of its own.
    async fn close(self: Box<Self>) {
        self.durable.settle().await;
        if let Some(own) = self.durable.handle.mcp.own().cloned() {
            self.durable.shared.tasks.spawn(async move { own.end().await });
        }
    }

    /// Gives up the session's file, hangs up on those who show it, and says that it has left.
    async fn leave(self: Box<Self>, departed: DepartedSession) {
        let shared = self.durable.shared.clone();
        if let Some(keeper) = shared.keeper.get() {
            keeper.leaves(&departed.session);
        }
        {
            // Whoever opens the session meanwhile waits until its file is let go.
            let _not_opening = shared.tree.opening.lock().await;
            shared.tree.remove(&self.durable.handle.id);
            self.close().await;
        }
        for (_, client) in shared.hub.clients() {
            if client.focused() == departed.session {
                client.close();
            }
        }
        shared.tree.announce(None);
        if let Some(keeper) = shared.keeper.get() {
            keeper.left(departed);
        }
    }
}

fn initial_facts(
    shared: &Services,
    config: &ConfigRevision,
    journal: &Journal,
    header: &Header,
    written: bool,
) -> SessionFacts {
    // Its first turn chooses again, with the variables of whoever begins that.
    let chosen = shared.configuration.usual_model(None).ok();
    let model_notice = chosen.as_ref().and_then(ModelChoice::notice).map(Arc::from);
    let (model_provider, model_id) =
        chosen.map_or_else(|| ("".into(), "".into()), |choice| (choice.provider, choice.model));
    let mut facts = SessionFacts {
        location: written.then(|| journal.location().into()),
        cwd: header.cwd.clone(),
        git_branch: git::branch(Path::new(&*header.cwd)),
        parent: header.parent.as_ref().map(|parent| parent.session.clone()),
        created_at: header.created_at.clone(),
        sandboxed: sandbox::state() == sandbox::SandboxState::Enforced,
        mode: config.settings.mode,
        thinking: shared.configuration.usual_thinking(),
        archived: written && shared.journals.is_archived(&header.session),
        model_provider,
        model_id,
        model_notice,
        ..SessionFacts::empty(header.session.clone())
    };
    config.describe_model(&mut facts);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(_: impl Fn(Box<SessionActor>, mpsc::Receiver<Change>) -> F) -> usize {
        size_of::<F>()
    }

    /// A process holds thousands of sessions at rest. Each has its parts in one box, and a task that waits for a change; what
    /// a change needs is in a future of its own and goes with it.
    #[test]
    fn resting_session_takes_little_room() {
        let (parts, task) = (size_of::<SessionActor>(), size(SessionActor::run));
        assert!(parts <= 1688 && task <= 640, "{parts} and {task} bytes");
    }
}
