//! Named points at which a test kills the process, as a failure of the system would.
//!
//! `EDN_BRIDGE_CRASH_AT=name` names the point, and `name:3` the third time that it is passed. Only the feature
//! `test-clocks` reads the variable; in a release, a point is nothing. Does not know what happens around a point.

#[cfg(feature = "test-clocks")]
use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

/// The wanted point, and how often it is still passed.
#[cfg(feature = "test-clocks")]
static WANTED: LazyLock<Option<(String, AtomicU32)>> = LazyLock::new(|| {
    let wanted = std::env::var("EDN_BRIDGE_CRASH_AT").ok()?;
    let (name, times) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    Some((name.to_owned(), AtomicU32::new(times.parse().ok()?)))
});

/// Kills the process if a test wants that here.
#[cfg(feature = "test-clocks")]
pub fn point(name: &str) {
    if let Some((wanted, times)) = &*WANTED
        && wanted == name
        && times.fetch_sub(1, Ordering::AcqRel) == 1
    {
        // No destructor runs, and nothing that is held back is written.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "test-clocks"))]
#[inline(always)]
pub fn point(_: &str) {}
