//! A snapshot of a session, for readers. Its history for frontends is in `history`. Does not know when one is made.

use std::sync::Arc;

use crate::engine::idempotency::IdempotencyKeys;
use crate::engine::queue::MessageQueue;
use crate::facts::SessionFacts;
use crate::message::EntryId;
use crate::store::Entry;

/// A snapshot of a session, for readers.
#[derive(Debug, Clone)]
pub struct SessionSnapshot {
    /// Everything except history.
    pub facts: Arc<SessionFacts>,
    /// The entries from the first to the leaf, oldest first. Shared with earlier snapshots.
    pub branch: imbl::Vector<Arc<Entry>>,
    /// All entries, in the order of the file. Shared with earlier snapshots.
    pub entries: imbl::Vector<Arc<Entry>>,
    /// The number of written entries.
    pub offset: u64,
    /// The size of the journal in bytes.
    pub bytes: u64,
    /// The waiting messages.
    pub queue: MessageQueue,
    /// The keys of requests.
    pub idempotency: IdempotencyKeys,
}

impl SessionSnapshot {
    /// The position of an entry on the branch. Identifiers sort by time, so the search is binary; an id of
    /// another program is searched for from the newest on.
    pub fn place(&self, entry: &EntryId) -> Option<usize> {
        if let Ok(place) = self.branch.binary_search_by(|known| known.id.as_str().cmp(entry.as_str())) {
            return Some(place);
        }
        let from_end = self.branch.iter().rev().position(|known| known.id == *entry)?;
        self.branch.len().checked_sub(from_end)?.checked_sub(1)
    }
}
