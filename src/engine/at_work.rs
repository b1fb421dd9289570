//! What of an engine must not end: sessions that work, and questions that wait. The daemon reads it to know whether an
//! engine without clients is still needed, and tells people of it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::engine::host::Engine;
use crate::facts::{AtWork, JobStatus, Phase};
use crate::message::SessionId;

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
                asks,
            })
        });
        at_work.collect()
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
