//! What of an engine must not end: sessions that work, and questions that wait. The daemon reads it to know whether an
//! engine without clients is still needed, tells people of it, and has another process continue it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::engine::change::Change;
use crate::engine::host::Engine;
use crate::engine::working_sessions::{DepartedSession, WorkingSessions};
use crate::facts::{AtWork, JobStatus, Phase};
use crate::message::SessionId;
use crate::session::{Reply, SwitchTarget};

impl Engine {
    /// The sessions that work or wait for an answer, oldest first.
    pub fn at_work(&self) -> Vec<AtWork> {
        let mut asks = HashMap::new();
        for (_, _, question, _) in self.shared.questions.open() {
            let kind = question.kind().as_str();
            asks.entry(question.origin.session).or_insert(kind);
        }
        let running = self.shared.shells.list();
        let shells = |session: &SessionId| {
            running.iter().any(|shell| shell.status == JobStatus::Running && shell.session == *session)
        };
        let at_work = self.shared.tree.all().into_iter().filter_map(|handle| {
            let snapshot = handle.snapshot();
            let facts = &snapshot.facts;
            let asks = asks.get(&handle.id).copied();
            let works =
                facts.phase != Phase::Idle || handle.is_busy.load(Ordering::Acquire) || shells(&handle.id);
            (works || asks.is_some()).then(|| AtWork {
                session: handle.id.clone(),
                name: facts.display_name().into(),
                cwd: facts.cwd.clone(),
                phase: facts.phase,
                activity: facts.activity.clone(),
                asks,
            })
        });
        at_work.collect()
    }

    /// Whether no session is open here.
    pub fn is_empty(&self) -> bool {
        self.shared.tree.all().is_empty()
    }

    /// Whether a session is open here.
    pub fn is_live(&self, session: &SessionId) -> bool {
        self.shared.tree.get(session).is_ok()
    }

    /// Tells `keeper` which sessions work from now on. Called once, before the first client.
    pub fn keep(&self, keeper: impl WorkingSessions + 'static) {
        let _ = self.shared.keeper.set(Box::new(keeper));
    }

    /// Lets every session leave for another process once that ends nothing: a turn at its next boundary. To be called
    /// again and again, for sessions that come or run.
    pub fn hand_over(&self) {
        self.shared.leaves.store(true, Ordering::Release);
        for handle in self.shared.tree.all() {
            handle.tell(Change::HandOver);
        }
    }

    /// Opens a session that another process has left at work, and continues it: with the turn that was handed over, or
    /// with the open question, and with the variables that are known. Replies once it is open.
    pub fn open_left(&self, left: DepartedSession, reply: Reply<()>) {
        let DepartedSession { session, variables, waiting, .. } = left;
        let opener = self.opener.clone();
        let opening = async move {
            match opener.open(SwitchTarget::Id(session)).await {
                Ok(handle) => {
                    // Its question waited for a person before.
                    handle.attend();
                    // Until its task has looked whether there is work, it counts as work.
                    handle.is_busy.store(true, Ordering::Release);
                    handle.tell(Change::BringWaiting { variables: waiting });
                    handle.tell(Change::TakeUp { variables });
                    opener.shared.tree.announce(None);
                    reply.ok(());
                }
                Err(error) => reply.fail(error),
            }
        };
        self.shared.tasks.spawn_on(opening, &self.shared.executor);
    }

    /// Lets the graph show what works in all engines of the process. Called once, before the first client.
    pub fn see_all(&self, at_work: impl Fn() -> Vec<AtWork> + Send + Sync + 'static) {
        let _ = self.shared.at_work.set(Box::new(at_work));
    }

    /// The sessions that work or wait, in all engines of the process.
    pub(super) fn all_at_work(&self) -> Vec<AtWork> {
        self.shared.at_work.get().map_or_else(|| self.at_work(), |all| all())
    }
}
