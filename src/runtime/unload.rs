//! Unloads sessions: a process keeps a bounded number of them live.
//!
//! An unloaded session is unchanged on disk and is opened again like any other. State in memory is lost:
//! ended jobs, the editor's context, idempotency keys, and permissions for the session, which are asked for
//! again. Does not know turns.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use crate::facts::Phase;
use crate::heap;
use crate::limits::{LET_GO, LET_GO_TRIES, LET_GO_WAIT, LIVE_SESSIONS, MAX_LIVE_SESSIONS};
use crate::message::SessionId;
use crate::runtime::Shared;
use crate::runtime::change::{Change, Unload};
use crate::runtime::mailbox::Handle;
use crate::session::ApiError;
use crate::store::{Store, StoreError};

impl Shared {
    /// Records a lookup of a session.
    pub(super) fn touch(&self, handle: &Handle) {
        handle.touch(self.lookups.fetch_add(1, Ordering::AcqRel).saturating_add(1));
    }

    /// Whether another session may live.
    ///
    /// # Errors
    /// `runtime/failed`, retryable, if too many are busy or viewed.
    pub(super) fn check_room(&self) -> Result<(), ApiError> {
        if self.sessions.len() < MAX_LIVE_SESSIONS {
            return Ok(());
        }
        let mut error = ApiError::failed(format!(
            "{MAX_LIVE_SESSIONS} sessions are live and in use; wait until one of them is done."
        ));
        error.retryable = true;
        Err(error)
    }

    /// Adds a live session, and unloads others if there are too many, or too many with open files.
    pub(super) fn admit(self: &Arc<Self>, handle: &Handle) {
        self.touch(handle);
        self.sessions.insert(handle.id.clone(), handle.clone());
        if self.sessions.len() <= LIVE_SESSIONS.min(self.open_files) {
            return;
        }
        let over = self.sessions.len().saturating_sub(LIVE_SESSIONS);
        let open = self.sessions.iter().filter(|entry| has_file(entry.value())).count();
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
    pub(super) async fn let_go(&self, needing: Option<&SessionId>) {
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

    /// Reads from the store on a thread that may block and is not the executor's. If resources are missing,
    /// reads again after other sessions have closed their files.
    ///
    /// # Errors
    /// Those of the store.
    /// What the store refuses.
    pub(super) fn read_store<T>(
        &self,
        read: impl Fn(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // All sessions on disk may be many.
        heap::give_back();
        let mut tries = 0..LET_GO_TRIES;
        loop {
            match read(&self.store) {
                Err(error) if error.may_pass() && tries.next().is_some() => {
                    self.executor.block_on(self.let_go(None));
                }
                read => return read,
            }
        }
    }

    /// The idle sessions without a viewer, except for `but`; the least recently used first.
    fn resting(&self, but: Option<&SessionId>) -> Vec<(u64, Handle)> {
        let mut resting: Vec<(u64, Handle)> = self
            .sessions
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
    pub(super) fn forget(&self, handle: &Handle, lookup: u64) -> bool {
        if self.looked_at().contains(&handle.id) {
            return false;
        }
        self.sessions.remove_if(&handle.id, |_, known| known.last_used() == lookup).is_some()
    }

    /// The sessions that are a connection's focus, current or initial.
    fn looked_at(&self) -> HashSet<SessionId> {
        let focused = self.hub.clients().into_iter().map(|(_, client)| client.focused());
        focused.chain(self.primary.get().cloned()).collect()
    }
}

/// Whether a session has entries, so that its journal and its lock are open.
fn has_file(session: &Handle) -> bool {
    session.snapshot().facts.file.is_some()
}
