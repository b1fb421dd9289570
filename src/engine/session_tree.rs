//! The live sessions of the process: how each is found, and which may leave.
//!
//! A process keeps a bounded number of sessions live. One that leaves is unchanged on disk and is opened again like
//! any other. State in memory is lost: ended jobs, the editor's context, and permissions for the
//! session, which are asked for again. Holds handles only: a session's state is its task's.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use tokio::sync::mpsc;

use crate::descriptors;
use crate::engine::change::{Change, Unload};
use crate::engine::handle::Handle;
use crate::engine::hub::Hub;
use crate::event::{Body, Cause, Event};
use crate::facts::{Phase, SessionList, Slot};
use crate::interaction::Audience;
use crate::limits::{CONTEXT_SESSIONS, LET_GO, LET_GO_WAIT, LIVE_SESSIONS, MAX_LIVE_SESSIONS};
use crate::message::SessionId;
use crate::session::{ApiError, Client};

/// The live sessions.
pub struct SessionTree {
    clients: Arc<Hub>,
    live: DashMap<SessionId, Handle>,
    /// How many of them may have their files open.
    open_files: usize,
    /// How often a session was looked up.
    lookups: AtomicU64,
    /// How many lists of the live sessions were made.
    lists: Mutex<u64>,
    /// The session that connections start with, until they choose another.
    primary: Mutex<Option<SessionId>>,
    /// One at a time, so that a file is opened once.
    pub opening: tokio::sync::Mutex<()>,
    /// One at a time, so that a request with a key opens one session.
    pub opening_once: tokio::sync::Mutex<()>,
}

impl SessionTree {
    /// No session yet.
    pub fn new(clients: Arc<Hub>) -> Self {
        Self {
            clients,
            live: DashMap::new(),
            open_files: descriptors::for_sessions(),
            lookups: AtomicU64::new(0),
            lists: Mutex::default(),
            primary: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            opening_once: tokio::sync::Mutex::new(()),
        }
    }

    /// A session's handle.
    ///
    /// # Errors
    /// `request/not-found` if it is not live.
    pub fn get(&self, id: &SessionId) -> Result<Handle, ApiError> {
        let entry = self.live.get(id).ok_or_else(|| ApiError::not_open(id))?;
        // Recorded while the map's entry is held, so that the session is not unloaded in between.
        self.touch(entry.value());
        Ok(entry.value().clone())
    }

    /// The live sessions, oldest first.
    pub fn all(&self) -> Vec<Handle> {
        let mut sessions: Vec<Handle> = self.live.iter().map(|entry| entry.value().clone()).collect();
        sessions.sort_by_cached_key(|handle| (handle.snapshot().facts.created_at.clone(), handle.id.clone()));
        sessions
    }

    /// The session that a new connection starts with; `open` opens it.
    pub fn primary(&self, open: impl FnOnce() -> SessionId) -> SessionId {
        let mut primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
        primary.get_or_insert_with(open).clone()
    }

    /// Lets new connections start with this session.
    pub fn begin_with(&self, session: SessionId) {
        *self.primary.lock().unwrap_or_else(PoisonError::into_inner) = Some(session);
    }

    /// Lets new connections start with another session than this one, which no client shows.
    pub fn begin_elsewhere(&self, session: &SessionId) {
        let mut primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection without a focus may be about to start with it.
        let starting = |(_, client): (u64, Arc<dyn Client>)| client.focused().as_str().is_empty();
        if primary.as_ref() == Some(session) && !self.clients.clients().into_iter().any(starting) {
            *primary = None;
        }
    }

    /// Whether a client shows a session, other than `but`.
    pub fn is_viewed(&self, session: &SessionId, but: Option<u64>) -> bool {
        let views = |(id, client): (u64, Arc<dyn Client>)| Some(id) != but && client.focused() == *session;
        self.clients.clients().into_iter().any(views)
    }

    /// Whether a client that shows a session answers its questions.
    pub fn is_answered(&self, session: &SessionId) -> bool {
        let answers =
            |(_, client): (u64, Arc<dyn Client>)| client.focused() == *session && client.is_interactor();
        self.clients.clients().into_iter().any(answers)
    }

    /// Records a lookup of a session.
    fn touch(&self, handle: &Handle) {
        handle.touch(self.lookups.fetch_add(1, Ordering::AcqRel).saturating_add(1));
    }

    /// Whether another session may live.
    ///
    /// # Errors
    /// `runtime/failed`, retryable, if too many are busy or viewed.
    pub fn check_room(&self) -> Result<(), ApiError> {
        if self.live.len() < MAX_LIVE_SESSIONS {
            return Ok(());
        }
        let mut error = ApiError::failed(format!(
            "{MAX_LIVE_SESSIONS} sessions are live and in use; wait until one of them is done."
        ));
        error.retryable = true;
        Err(error)
    }

    /// Adds a live session, and unloads others if there are too many, or too many with open files.
    pub fn admit(&self, handle: &Handle) {
        self.touch(handle);
        self.live.insert(handle.id.clone(), handle.clone());
        if self.live.len() <= LIVE_SESSIONS.min(self.open_files) {
            return;
        }
        let over = self.live.len().saturating_sub(LIVE_SESSIONS);
        let open = self.live.iter().filter(|entry| has_file(entry.value())).count();
        let over_files = open.saturating_sub(self.open_files);
        let resting = self.resting(Some(&handle.id));
        let with_file = resting.iter().filter(|(_, other)| has_file(other));
        // A session that is told twice unloads once.
        for (lookup, other) in with_file.take(over_files).chain(resting.iter().take(over)) {
            other.tell(Change::Unload(Unload { lookup: *lookup, waiting: None }));
        }
    }

    /// Asks the least recently used sessions to close their files, and waits for the first of them, or for
    /// one that is already closing. For callers without a descriptor, which then try again.
    pub async fn let_go(&self, needing: Option<&SessionId>) {
        let (waiting, mut done) = mpsc::channel(LET_GO);
        let resting = self.resting(needing).into_iter().filter(|(_, other)| has_file(other));
        for (lookup, other) in resting.take(LET_GO) {
            other.tell(Change::Unload(Unload { lookup, waiting: Some(waiting.clone()) }));
        }
        drop(waiting);
        let wait = async {
            if done.recv().await.is_none() {
                // A closing session is no longer listed, and holds this lock until its files are closed.
                drop(self.opening.lock().await);
            }
        };
        let _ = tokio::time::timeout(LET_GO_WAIT, wait).await;
    }

    /// Removes a session that could not begin.
    pub fn remove(&self, id: &SessionId) {
        self.live.remove(id);
    }

    /// The event that says which sessions are live: those that a client shows, and the newest others up to
    /// [`CONTEXT_SESSIONS`], without archived ones.
    pub fn context_event(&self) -> Event {
        // One at a time, so that of two lists the one with the greater version is the newer one.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        *lists = lists.saturating_add(1);
        let focused = self.focused();
        let mut live: Vec<_> = self.all().iter().map(|handle| handle.snapshot().facts.clone()).collect();
        live.retain(|facts| !facts.archived || focused.contains(&facts.id));
        let count = live.len();
        let shown = live.iter().filter(|facts| focused.contains(&facts.id)).count();
        // The oldest come first.
        let mut over = count.saturating_sub(CONTEXT_SESSIONS.max(shown));
        live.retain(|facts| {
            let is_left_out = over > 0 && !focused.contains(&facts.id);
            over = over.saturating_sub(usize::from(is_left_out));
            !is_left_out
        });
        let slots = live.iter().map(|facts| Slot::new(facts)).collect();
        let sessions = Arc::new(SessionList::part(*lists, slots, count));
        drop(lists);
        Event {
            session: None,
            offset: 0,
            turn: None,
            entry: None,
            cause: None,
            piece: None,
            body: Body::ContextUpdated { sessions, active: None },
        }
    }

    /// Tells every connection which sessions are live.
    pub fn announce(&self, cause: Option<Cause>) {
        if self.clients.clients().iter().any(|(_, client)| client.lists_sessions()) {
            self.clients.announce(&Event { cause, ..self.context_event() });
        }
    }

    /// The idle sessions without a viewer, except for `but`; the least recently used first.
    fn resting(&self, but: Option<&SessionId>) -> Vec<(u64, Handle)> {
        let mut resting: Vec<(u64, Handle)> = self
            .live
            .iter()
            .map(|entry| (entry.value().last_used(), entry.value().clone()))
            .filter(|(_, other)| Some(&other.id) != but && other.snapshot().facts.phase == Phase::Idle)
            .collect();
        resting.sort_by_key(|(lookup, _)| *lookup);
        let looked_at = self.looked_at();
        resting.retain(|(_, other)| !looked_at.contains(&other.id));
        resting
    }

    /// Removes a session from the live ones, unless it has a viewer or was looked up since `lookup`.
    pub fn forget(&self, handle: &Handle, lookup: u64) -> bool {
        if self.looked_at().contains(&handle.id) {
            return false;
        }
        self.live.remove_if(&handle.id, |_, known| known.last_used() == lookup).is_some()
    }

    /// The sessions that are a connection's focus, current or initial.
    fn looked_at(&self) -> HashSet<SessionId> {
        let primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.focused().into_iter().chain(primary).collect()
    }

    /// The sessions that connections have as their focus.
    fn focused(&self) -> HashSet<SessionId> {
        self.clients.clients().into_iter().map(|(_, client)| client.focused()).collect()
    }
}

impl Audience for SessionTree {
    /// All connections, oldest first.
    fn clients(&self) -> Vec<(u64, Arc<dyn Client>)> {
        self.clients.clients()
    }

    fn in_order(&self, session: &SessionId, tell: &mut dyn FnMut(Option<u64>)) {
        match self.live.get(session).map(|handle| handle.clone()) {
            Some(handle) => handle.in_order(tell),
            None => tell(None),
        }
    }

    fn is_awaited(&self, session: &SessionId) -> bool {
        self.live.get(session).is_some_and(|handle| handle.is_attended())
    }

    fn asks(&self, session: &SessionId, begins: bool) {
        if let Some(handle) = self.live.get(session).map(|handle| handle.clone()) {
            handle.asks(&self.clients, begins);
        }
    }
}

/// Whether a session has entries, so that its journal and its lock are open.
fn has_file(session: &Handle) -> bool {
    session.snapshot().offset > 0
}
