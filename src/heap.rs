//! How the system's allocator is set up, and when it is asked to give back what it holds.
//!
//! Sessions come and go by the thousand and leave gaps between what stays. The first measures keep the gaps from
//! growing, the last one gives their pages back. Knows nothing of who allocates.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::OnceLock;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::thread::{self, Thread};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use crate::limits::GIVE_BACK_AFTER;

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
/// Large buffers stay apart from what is kept. glibc begins so, and when a large one is freed, those up to its size
/// are cut from the heap from then on: small things that last are laid into the hole that each leaves, and
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

/// Gives the pages that nothing lies on back to the system, [`GIVE_BACK_AFTER`] from now and on a thread of its own:
/// for who has let go of much, or is about to. Who asks meanwhile is served with it.
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

/// Other allocators give back by themselves, or do not.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
fn sweep() {
    loop {
        thread::park();
        thread::sleep(GIVE_BACK_AFTER);
        // SAFETY: `malloc_trim` may be called by any thread at any time; it locks what it looks at.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
