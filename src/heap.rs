//! Configures the system's allocator, and asks it to return memory.
//!
//! Sessions come and go by the thousand and leave gaps between the allocations that stay. The configuration
//! limits the growth of these gaps; trimming returns their pages. The allocator's own count says when that is worth
//! it. Knows nothing of who allocates.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::OnceLock;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread::{self, Thread};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::limits::{GIVE_BACK_AFTER, GIVE_BACK_BYTES};

/// Arenas that threads share. Two: as many as there are threads that run sessions.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// The size in bytes from which an allocation is a separate mapping, which goes back to the system when it is
/// freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING: i32 = 128 * 1024;

/// Limits the gaps between allocations. Call it before any thread is started.
///
/// All threads share few arenas. By default, glibc gives nearly every thread its own. A session's data come
/// from many threads: those of connections, the journal's, the pool's. With a thousand sessions that come and
/// go, a few of their objects held each arena open, and three quarters of the resident memory were gaps,
/// which grew.
///
/// Large buffers stay separate from lasting data. glibc does that at first. But once a large buffer is freed,
/// glibc takes later ones of up to that size from the heap: small lasting objects fill the hole that each
/// leaves, and the next buffer needs new room. The messages of a session are such a buffer.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
pub fn set_up() {
    // SAFETY: `mallopt` stores a number inside the allocator, and no other thread runs yet. If it refuses, it
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}

/// Leaves other allocators unchanged.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn set_up() {}

/// Returns free pages to the system, after [`GIVE_BACK_AFTER`] and on a separate thread, if there are many new ones
/// by then. Call it when work was done. One look at the heap serves all calls in that time.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    static SWEEPER: OnceLock<Option<Thread>> = OnceLock::new();
    let start = || {
        let started = thread::Builder::new().name("heap".to_owned()).spawn(sweep);
        started.map(|sweeper| sweeper.thread().clone()).ok()
    };
    if let Some(sweeper) = SWEEPER.get_or_init(start) {
        sweeper.unpark();
    }
}

/// Other allocators return memory on their own, or never.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
fn sweep() {
    let mut gaps = Gaps::default();
    loop {
        thread::park();
        thread::sleep(GIVE_BACK_AFTER);
        if gaps.have_grown(free()) {
            // SAFETY: any thread may call `malloc_trim` at any time; it locks the data that it reads.
            unsafe {
                libc::malloc_trim(0);
            }
            gaps = Gaps { returned: free() };
        }
    }
}

/// The free bytes between allocations, with those whose pages were returned.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
fn free() -> usize {
    // SAFETY: any thread may call `mallinfo2` at any time; it locks the data that it reads.
    unsafe { libc::mallinfo2() }.fordblks
}

/// The gaps whose pages were returned. The allocator counts them as free until it uses them again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[derive(Default)]
struct Gaps {
    returned: usize,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Gaps {
    /// Whether enough bytes were freed since the last return.
    fn have_grown(&mut self, free: usize) -> bool {
        self.returned = self.returned.min(free);
        free.saturating_sub(self.returned) >= GIVE_BACK_BYTES
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_returned_once_and_again_after_reuse() {
        let mut gaps = Gaps::default();
        assert!(!gaps.have_grown(GIVE_BACK_BYTES - 1), "little is free");
        assert!(gaps.have_grown(GIVE_BACK_BYTES));
        gaps = Gaps { returned: 8 * GIVE_BACK_BYTES };
        assert!(!gaps.have_grown(8 * GIVE_BACK_BYTES), "nothing new is free");
        // A session took some of it and left.
        assert!(!gaps.have_grown(2 * GIVE_BACK_BYTES));
        assert!(gaps.have_grown(8 * GIVE_BACK_BYTES));
    }

    #[test]
    fn freed_small_objects_count_as_free() {
        let before = free();
        let objects: Vec<Vec<u8>> = (0..8192).map(|_| vec![1u8; 1024]).collect();
        // Some stay, as the lasting objects between a session's.
        let lasting: Vec<_> = objects.into_iter().step_by(64).collect();
        assert!(free().saturating_sub(before) >= GIVE_BACK_BYTES, "{before} {}", free());
        drop(lasting);
    }
}
