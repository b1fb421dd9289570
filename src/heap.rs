//! How the system's allocator is set up, and when it is asked to give back what it holds.
//!
//! Sessions come and go by the thousand and leave gaps between what stays. The first measures keep the gaps from
//! growing, the last one gives their pages back. Knows nothing of who allocates.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::limits::GIVE_BACK_PAUSE;

/// Parts of the heap that threads share. Two: as many as there are threads that run sessions.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// From how many bytes on an allocation is a mapping of its own, which goes back to the system when it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING: i32 = 128 * 1024;

/// Keeps the gaps between what is kept small. To be called before any thread is started.
///
/// Few parts of the heap are shared by all threads. glibc gives nearly every thread one of its own, and what a
/// session keeps is made by many: by those that read connections, the journal's, the pool's. With a thousand
/// sessions that come and go, a few objects of theirs held each part open, and three quarters of the resident
/// memory, growing, were the gaps between them.
///
/// Large buffers stay apart from what is kept. glibc begins so, and gives it up for good when the first large one
/// is freed: later ones are cut from the heap, small things that last are laid into the hole that each leaves, and
/// the next one needs new room. The messages of a session are such a buffer.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
pub fn set_up() {
    // SAFETY: `mallopt` stores a number of the allocator's own, and no other thread runs yet. Where it refuses,
    // it changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}

/// Other allocators are left as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_up() {}

/// Gives the pages that nothing lies on back to the system: for who has just let go of much. Asked again within
/// [`GIVE_BACK_PAUSE`] it does nothing, since it takes a look at the whole heap.
pub fn give_back() {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < GIVE_BACK_PAUSE) {
            return;
        }
        *last = Some(Instant::now());
    }
    trim();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
fn trim() {
    // SAFETY: `malloc_trim` may be called by any thread at any time; it locks what it looks at.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
