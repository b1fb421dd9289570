//! Putting sessions away: a process keeps a bounded number of them live.
//!
//! What is put away is on disk as it was, and is opened again like any other session. What lives only in
//! memory goes with it: jobs that have ended, what the editor showed, and what was allowed for the session
//! alone, which is asked for again.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::limits::{LIVE_SESSIONS, MAX_LIVE_SESSIONS};
use crate::message::SessionId;
use crate::projection::Phase;
use crate::runtime::Shared;
use crate::runtime::mailbox::Handle;
use crate::session::ApiError;

impl Shared {
    /// Notes that a session was looked up.
    pub(super) fn touch(&self, handle: &Handle) {
        handle.touch(self.lookups.fetch_add(1, Ordering::AcqRel).saturating_add(1));
    }

    /// Whether a further session may live.
    ///
    /// # Errors
    /// `runtime/failed`, to be tried again, where too many are at work or looked at.
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

    /// Takes a session among the live ones, and has others put away where there are too many.
    pub(super) fn admit(self: &Arc<Self>, handle: &Handle) {
        self.touch(handle);
        self.sessions.insert(handle.id.clone(), handle.clone());
        let over = self.sessions.len().saturating_sub(LIVE_SESSIONS);
        if over == 0 {
            return;
        }
        let mut resting: Vec<(u64, Handle)> = self
            .sessions
            .iter()
            .map(|entry| (entry.value().last_used(), entry.value().clone()))
            .filter(|(_, other)| other.id != handle.id && other.snapshot().facts.phase == Phase::Idle)
            .collect();
        resting.sort_by_key(|(lookup, _)| *lookup);
        let looked_at = self.looked_at();
        resting.retain(|(_, other)| !looked_at.contains(&other.id));
        for (lookup, other) in resting.into_iter().take(over) {
            other.tell(move |live| {
                Box::pin(async move {
                    live.put_away = Some(lookup);
                })
            });
        }
    }

    /// Takes a session from the live ones, unless somebody looks at it or looked it up since `lookup`.
    pub(super) fn forget(&self, handle: &Handle, lookup: u64) -> bool {
        if self.looked_at().contains(&handle.id) {
            return false;
        }
        self.sessions.remove_if(&handle.id, |_, known| known.last_used() == lookup).is_some()
    }

    /// The sessions where a connection's focus is, or begins.
    fn looked_at(&self) -> HashSet<SessionId> {
        let focused = self.hub.clients().into_iter().map(|(_, client)| client.focused());
        focused.chain(self.primary.get().cloned()).collect()
    }
}
