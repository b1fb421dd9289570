//! How the system's allocator is set up.

/// Parts of the heap that threads share. Two: as many as there are threads that run sessions.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// Lets few parts of the heap be shared by all threads. glibc gives nearly every thread one of its own, and what a
/// session keeps is made by many: by those that read connections, the journal's, the pool's. With a thousand
/// sessions that come and go, a few objects of theirs held each part open, and three quarters of the resident
/// memory, growing, were the gaps between them. To be called before any thread is started.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "the allocator has no other interface for it than C's")]
pub(super) fn share() {
    // SAFETY: `mallopt` stores a number of the allocator's own, and no other thread runs yet. Where it refuses,
    // it changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Other allocators do not divide the heap by threads.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn share() {}
