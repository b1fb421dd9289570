//! The processes of agents: one for each agent and folder, shared by the sessions there. Started when it is needed, started
//! again when it has ended, ended when nobody needs it. Knows no session.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::agent::{AgentConnection, AgentFault, AgentPlace, AgentSetup};
use crate::limits::{AGENT_IDLE, AGENT_LOOK, AGENT_STARTS, AGENT_STARTS_TIME};

/// An agent in a folder: the folder and the agent's name.
type Key = (Arc<str>, Arc<str>);

/// The processes of agents.
#[derive(Default)]
pub(super) struct AgentPool {
    slots: Mutex<HashMap<Key, Arc<AgentSlot>>>,
}

/// The process of one agent in one folder.
#[derive(Default)]
struct AgentSlot {
    /// The latest starts. One start at a time.
    starts: tokio::sync::Mutex<VecDeque<Instant>>,
    running: Mutex<Option<(AgentSetup, Arc<AgentConnection>)>>,
    /// Why the last start failed.
    failed: Mutex<Option<Arc<str>>>,
}

/// How an agent stands.
pub(super) struct Look {
    /// `idle`, `starting`, `ready`, `failed` or `given-up`.
    pub(super) state: &'static str,
    /// Its own name and version, while it runs.
    pub(super) info: Option<Arc<str>>,
    /// Why it is not there.
    pub(super) why: Option<Arc<str>>,
}

impl AgentSlot {
    fn failed(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Option<(AgentSetup, Arc<AgentConnection>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> Option<(AgentSetup, Arc<AgentConnection>)> {
        self.running().clone().filter(|(_, connection)| connection.is_alive())
    }
}

impl AgentPool {
    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<AgentSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of an agent in a folder, which is started if it does not run.
    ///
    /// # Errors
    /// See [`AgentFault`]; also if it was started too often lately.
    pub(super) async fn connect(
        &self,
        cwd: &Arc<str>,
        setup: &AgentSetup,
        place: &AgentPlace,
        tasks: &TaskTracker,
    ) -> Result<Arc<AgentConnection>, AgentFault> {
        let slot = self.slots().entry((cwd.clone(), setup.name.clone())).or_default().clone();
        let mut starts = slot.starts.lock().await;
        if let Some((known, connection)) = slot.alive() {
            if known.starts_as(setup) {
                return Ok(connection);
            }
            // Its command line is another one: its sessions are taken up by the new process.
            connection.end().await;
        }
        starts.retain(|start| start.elapsed() < AGENT_STARTS_TIME);
        if starts.len() >= AGENT_STARTS {
            return Err(AgentFault::NotStarted(format!(
                "it was started {AGENT_STARTS} times within a minute and has ended each time: look at its command, and \
                 try again in a minute"
            )));
        }
        starts.push_back(Instant::now());
        let started = AgentConnection::start(setup, place, tasks).await;
        *slot.failed() = started.as_ref().err().map(|fault| fault.to_string().into());
        let connection = started?;
        *slot.running() = Some((setup.clone(), connection.clone()));
        drop(starts);
        tasks.spawn(end_when_idle(connection.clone()));
        Ok(connection)
    }

    /// How an agent stands in a folder.
    pub(super) fn look(&self, cwd: &Arc<str>, setup: &AgentSetup) -> Look {
        let idle = Look { state: "idle", info: None, why: None };
        let slot = self.slots().get(&(cwd.clone(), setup.name.clone())).cloned();
        let Some(slot) = slot else { return idle };
        // One that runs as it was configured before is ended when it is needed next.
        if let Some((_, connection)) = slot.alive().filter(|(known, _)| known.starts_as(setup)) {
            return Look { state: "ready", info: connection.can().info.map(Arc::from), why: None };
        }
        let Ok(starts) = slot.starts.try_lock() else { return Look { state: "starting", ..idle } };
        let of_last = || {
            let running = slot.running();
            let (known, connection) = running.as_ref()?;
            connection.why_ended().filter(|_| known.starts_as(setup)).map(Arc::from)
        };
        let why: Option<Arc<str>> = slot.failed().clone().or_else(of_last);
        let lately = starts.iter().filter(|start| start.elapsed() < AGENT_STARTS_TIME).count();
        match why {
            None => idle,
            Some(why) if lately >= AGENT_STARTS => Look { state: "given-up", why: Some(why), ..idle },
            Some(why) => Look { state: "failed", why: Some(why), ..idle },
        }
    }

    /// Ends all processes, politely.
    pub(super) async fn end_all(&self) {
        let slots: Vec<Arc<AgentSlot>> = self.slots().drain().map(|(_, slot)| slot).collect();
        let ended = slots.iter().map(|slot| async move {
            // A start that is under way comes to its end first.
            let _starts = slot.starts.lock().await;
            let running = slot.running().take();
            if let Some((_, connection)) = running {
                connection.end().await;
            }
        });
        futures_util::future::join_all(ended).await;
    }
}

/// Ends a process that has had no session for a while.
async fn end_when_idle(connection: Arc<AgentConnection>) {
    let mut since = Instant::now();
    loop {
        tokio::select! {
            () = connection.gone() => return,
            () = sleep(AGENT_LOOK) => {}
        }
        if connection.has_sessions() {
            since = Instant::now();
        } else if since.elapsed() >= AGENT_IDLE {
            return connection.end().await;
        }
    }
}
