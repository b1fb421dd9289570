//! Counts the bytes of lines that have not ended, over all connections of the process's sockets, so that they are
//! bounded together.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::UNFINISHED_BYTES;

/// Bytes of lines that have not ended, of all connections of the process.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// A connection's part of them, given back when it ends.
#[derive(Debug, Default)]
pub struct Share(usize);

impl Share {
    /// Counts what is held now. Returns whether all together is within the bound.
    pub fn set(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.0, bytes);
        UNFINISHED.fetch_sub(before, Ordering::AcqRel);
        let all = UNFINISHED.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        bytes == 0 || all <= UNFINISHED_BYTES
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
