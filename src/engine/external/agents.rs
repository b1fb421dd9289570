//! The external agents: their processes, and the sessions that have one at an agent. Runs no turn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::agent_session::OpenAgentSession;
use super::pool::AgentPool;
use crate::agent::{AgentPlace, AgentSetup};
use crate::engine::handle::Handle;
use crate::engine::progress::notification;
use crate::engine::services::Services;
use crate::event::{Body, NoticeLevel};
use crate::message::SessionId;
use crate::peer::Confine;

/// See the module.
pub struct ExternalAgent {
    pub(super) shared: Arc<Services>,
    pub(super) pool: AgentPool,
    /// The sessions that have one at an agent.
    attached: Mutex<HashMap<SessionId, Arc<OpenAgentSession>>>,
    /// The sessions that are being attached: one at a time each.
    opening: Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>,
}

impl ExternalAgent {
    pub fn new(shared: Arc<Services>) -> Self {
        Self { shared, pool: AgentPool::default(), attached: Mutex::default(), opening: Mutex::default() }
    }

    pub(super) fn attached(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<OpenAgentSession>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lets one at a time attach a session.
    pub(super) fn opening(&self, session: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        opening.retain(|_, one| one.strong_count() > 0);
        let known = opening.get(session).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let one = Arc::default();
            opening.insert(session.clone(), Arc::downgrade(&one));
            one
        })
    }

    /// The agent of a session as it is configured now.
    ///
    /// # Errors
    /// If there is none of that name.
    pub(super) fn setup(&self, session: &Handle) -> Result<AgentSetup, String> {
        let facts = session.snapshot().facts.clone();
        let name = facts.agent.as_ref().map(|agent| agent.name.clone()).unwrap_or_default();
        session.config().agent(&name).map_err(|error| error.message)
    }

    /// What an agent's process needs of ours.
    pub(super) fn place(&self, session: &Handle) -> AgentPlace {
        let cwd = session.snapshot().facts.cwd.clone();
        let config = session.config();
        let services = Arc::downgrade(&self.shared);
        let kept = config.settings.kept();
        let writable = config.settings.writable.iter().cloned().chain([(&*cwd).into()]);
        let confine = Confine { writable: writable.collect(), guarded: kept.guarded, hidden: kept.hidden };
        AgentPlace {
            root: (&*cwd).into(),
            environment: config.settings.environment.clone(),
            confine: Some(confine),
            keys: Arc::new(move |provider| {
                services.upgrade()?.configuration.newest().providers.keys_of(provider)
            }),
            home: dirs::home_dir(),
        }
    }

    /// Tells the person something.
    pub(super) fn notice(&self, session: &Handle, level: NoticeLevel, message: &str) {
        let body = Body::Notification(notification(self.shared.clock.id("n-"), level, message));
        let _ = session.show(&self.shared.hub, session.event(body, None));
    }

    /// Ends all of them, politely.
    pub async fn end_all(&self) {
        self.attached().clear();
        self.pool.end_all().await;
    }
}
