//! The engines that one connection reaches: one for each folder in which its editor opened a session.
//!
//! Whoever runs the program gives the engines ([`Projects`]). A client of its own keeps each as long as the connection
//! lives; the open sessions are further clients. Knows no method.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::{Cause, Event};
use crate::message::SessionId;
use crate::session::{
    ApiError, Call, Client, Clients, Peer, Pressure, Reply, SessionApi, Since, Snapshot, Tally,
};

/// Gives the engine of a folder.
pub trait Projects: Send + Sync {
    /// The engine of a folder, which is started if there is none. It stays at least as long as the project.
    ///
    /// # Errors
    /// If there can be none.
    fn open(&self, folder: &Path) -> Result<Box<dyn Project>, ApiError>;

    /// The folder in which the editor started the program.
    fn home(&self) -> PathBuf;

    /// Whether there is a command for logins in a terminal.
    fn has_login(&self) -> bool;
}

/// The engine of a folder, for one connection.
pub trait Project: Send + Sync {
    /// Its session API.
    fn api(&self) -> Arc<dyn SessionApi>;

    /// The number of its next client.
    fn next_client(&self) -> u64;

    /// A client has left.
    fn left(&self, client: u64);
}

/// A folder in which the editor opened a session.
pub struct OpenProject {
    /// The session API of its engine.
    pub api: Arc<dyn SessionApi>,
    /// The session with which the connection came: empty, and shown to nobody. New ones are opened beside it.
    pub first: SessionId,
    /// The number of the client that keeps the engine.
    pub keeper: u64,
    project: Box<dyn Project>,
}

impl OpenProject {
    /// The number of a further client.
    pub fn next_client(&self) -> u64 {
        self.project.next_client()
    }

    /// A call of the client that keeps the engine.
    pub fn call(&self, request: Arc<str>) -> Call {
        Call { connection: self.keeper, request, session: self.first.clone() }
    }
}

/// The engines that a connection reaches.
pub struct ReachedEngines {
    projects: Arc<dyn Projects>,
    open: Mutex<OpenProjects>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct OpenProjects {
    projects: HashMap<PathBuf, Arc<OpenProject>>,
    /// The engine of each open session.
    sessions: HashMap<SessionId, Arc<OpenProject>>,
    /// The clients of the open sessions.
    members: Vec<(Arc<OpenProject>, u64)>,
    /// Whether the connection has left.
    is_over: bool,
}

impl ReachedEngines {
    /// No engine yet.
    pub fn new(projects: Arc<dyn Projects>) -> Self {
        Self { projects, open: Mutex::default(), tally: Arc::default() }
    }

    /// See [`Projects::home`].
    pub fn home(&self) -> PathBuf {
        self.projects.home()
    }

    /// See [`Projects::has_login`].
    pub fn has_login(&self) -> bool {
        self.projects.has_login()
    }

    /// The engine of a folder that is open already.
    pub fn known(&self, folder: &Path) -> Option<Arc<OpenProject>> {
        self.lock().projects.get(folder).cloned()
    }

    /// An engine that is open already, if there is one.
    pub fn any(&self) -> Option<Arc<OpenProject>> {
        self.lock().projects.values().next().cloned()
    }

    /// The engine of an open session.
    pub fn of(&self, session: &SessionId) -> Option<Arc<OpenProject>> {
        self.lock().sessions.get(session).cloned()
    }

    /// Notes that a session is open.
    pub fn shows(&self, project: &Arc<OpenProject>, session: &SessionId) {
        let mut open = self.lock();
        if !open.is_over {
            open.sessions.insert(session.clone(), project.clone());
        }
    }

    /// Notes that a session is open no longer.
    pub fn forget(&self, session: &SessionId) {
        self.lock().sessions.remove(session);
    }

    /// The engine of a folder; may take as long as its start.
    ///
    /// # Errors
    /// If there can be none.
    pub fn open(&self, folder: &Path) -> Result<Arc<OpenProject>, ApiError> {
        if let Some(known) = self.known(folder) {
            return Ok(known);
        }
        let project = self.projects.open(folder)?;
        let (api, keeper) = (project.api(), project.next_client());
        let mut open = self.lock();
        if open.is_over {
            return Err(ApiError::failed("The connection has ended."));
        }
        // Somebody else was faster.
        if let Some(known) = open.projects.get(folder) {
            return Ok(known.clone());
        }
        let client = Arc::new(EngineHold::default());
        let first = api.attach(keeper, client.clone());
        client.focus(first.clone());
        let project = Arc::new(OpenProject { api, first, keeper, project });
        open.projects.insert(folder.to_owned(), project.clone());
        Ok(project)
    }

    /// Adds a client of an open session. Returns its number; `None` once the connection has left.
    pub fn join(
        &self,
        project: &Arc<OpenProject>,
        client: impl FnOnce(u64) -> Arc<dyn Client>,
    ) -> Option<u64> {
        let mut open = self.lock();
        if open.is_over {
            return None;
        }
        let number = project.next_client();
        project.api.attach(number, client(number));
        open.members.push((project.clone(), number));
        Some(number)
    }

    /// Removes the client of a session that is closed. The reply comes once everything is on disk.
    pub fn leave(&self, project: &Arc<OpenProject>, number: u64, reply: Reply<()>) {
        self.lock().members.retain(|(of, known)| !(Arc::ptr_eq(of, project) && *known == number));
        let (api, project) = (project.api.clone(), project.clone());
        let left = move |done: Result<(), ApiError>| {
            project.project.left(number);
            reply.send(done);
        };
        api.detach(number, Reply::new(left));
    }

    fn lock(&self) -> MutexGuard<'_, OpenProjects> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection itself is a client of no engine: its sessions are.
impl Clients for ReachedEngines {
    fn attach(&self, _: u64, _: Arc<dyn Client>) -> SessionId {
        SessionId::from("")
    }

    fn detach(&self, _: u64, reply: Reply<()>) {
        let (members, projects) = {
            let mut open = self.lock();
            open.is_over = true;
            open.sessions = HashMap::new();
            (std::mem::take(&mut open.members), std::mem::take(&mut open.projects))
        };
        // Where the engine ends with its last client, that one is a session's: it learns how the turns end.
        let all = Arc::new(Countdown(Mutex::new(Some(reply))));
        for (_, project) in projects {
            let (all, api, keeper) = (all.clone(), project.api.clone(), project.keeper);
            let left = move |_: Result<(), ApiError>| {
                project.project.left(keeper);
                drop(all);
            };
            api.detach(keeper, Reply::new(left));
        }
        for (project, number) in members {
            let (all, api) = (all.clone(), project.api.clone());
            // The project stays until its last client is gone.
            let left = move |_: Result<(), ApiError>| {
                project.project.left(number);
                drop(all);
            };
            api.detach(number, Reply::new(left));
        }
    }

    fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    fn snapshot(&self, _: u64, _: &SessionId, _: Snapshot, _: Option<Cause>) -> Vec<Event> {
        Vec::new()
    }

    fn catch_up(&self, _: u64) {}

    fn follow(&self, _: Call, _: Since, reply: Reply<u64>) {
        reply.fail(ApiError::failed("An editor's connection follows no session."));
    }

    fn follow_again(&self, _: u64, _: u64, _: &SessionId, _: u64) -> bool {
        false
    }
}

/// Completes a reply when the last copy is gone.
struct Countdown(Mutex<Option<Reply<()>>>);

impl Drop for Countdown {
    fn drop(&mut self) {
        if let Some(reply) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            reply.ok(());
        }
    }
}

/// The client that keeps an engine. It is told nothing.
#[derive(Default)]
struct EngineHold(Mutex<Option<SessionId>>);

impl Client for EngineHold {
    fn watches(&self, _: Option<&SessionId>) -> bool {
        false
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn deliver(&self, _: &Event) -> Pressure {
        Pressure::Fine
    }

    fn fall_behind(&self) {}

    fn is_behind(&self) -> bool {
        false
    }

    fn focus(&self, session: SessionId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }

    fn focused(&self) -> SessionId {
        let focus = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        focus.clone().unwrap_or_else(|| SessionId::from(""))
    }

    fn is_interactor(&self) -> bool {
        false
    }

    fn close(&self) {}

    fn peer(&self) -> Peer {
        // The engine lets an editor of its own begin with a session of its own.
        Peer { transport: "stdio", ..Peer::default() }
    }
}
