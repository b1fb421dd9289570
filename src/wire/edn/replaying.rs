//! The replays of one connection: which one runs, and which entries the client was sent.
//!
//! While a replay runs, the events that it repeats are withheld. A client that fell behind goes on after the last entry
//! that was written to it. Knows neither topics nor how a replay is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::{Body, Event};
use crate::message::SessionId;

/// The last entry that was written to the client: its session and its number.
#[derive(Debug, Clone, Default)]
pub struct Sent(Arc<Mutex<Option<(SessionId, u64)>>>);

impl Sent {
    /// Notes an event that is written now.
    pub fn note(&self, event: &Event) {
        let Some(session) = &event.session else { return };
        let is_entry = match event.body {
            Body::EntryWritten(_) => true,
            Body::SessionResumed { .. } | Body::SessionRehydrated(_) | Body::Synced => false,
            _ => return,
        };
        let mut sent = self.lock();
        match sent.as_mut().filter(|(known, _)| known == session) {
            // An older replay's entry, which waited, says nothing about this one.
            Some((_, offset)) if is_entry => {
                if event.offset == offset.saturating_add(1) {
                    *offset = event.offset;
                }
            }
            Some((_, offset)) => *offset = event.offset,
            None => *sent = Some((session.clone(), event.offset)),
        }
    }

    /// The client has that many entries of a session.
    pub fn set(&self, session: &SessionId, offset: u64) {
        *self.lock() = Some((session.clone(), offset));
    }

    /// The number of entries of a session that the client has, if that is known.
    pub fn of(&self, session: &SessionId) -> Option<u64> {
        self.lock().as_ref().filter(|(known, _)| known == session).map(|(_, offset)| *offset)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(SessionId, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The replays of one connection.
#[derive(Debug, Default)]
pub struct Replays {
    /// The number of the newest one.
    newest: AtomicU64,
    /// The number of the one that runs; 0 for none.
    running: AtomicU64,
    /// The one of a client that has caught up and is not served yet: its number, and where it begins.
    pending: Mutex<Option<(u64, SessionId, u64)>>,
}

impl Replays {
    /// Begins one, and ends an older one.
    pub fn begin(&self) -> u64 {
        let number = self.newest.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        self.running.store(number, Ordering::Release);
        number
    }

    /// Begins one for a client that has caught up.
    pub fn begin_after(&self, session: SessionId, offset: u64) {
        let number = self.begin();
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, session, offset));
    }

    /// The one of a client that has caught up.
    pub fn take_pending(&self) -> Option<(u64, SessionId, u64)> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether that one runs.
    pub fn runs(&self, number: u64) -> bool {
        self.running.load(Ordering::Acquire) == number
    }

    /// Whether any runs.
    pub fn any_runs(&self) -> bool {
        !self.runs(0)
    }

    /// Ends one.
    pub fn end(&self, number: u64) {
        let _ = self.running.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether the client has asked for one.
    pub fn has_begun(&self) -> bool {
        self.newest.load(Ordering::Acquire) > 0
    }

    /// Ends any.
    pub fn end_all(&self) {
        self.running.store(0, Ordering::Release);
    }
}
