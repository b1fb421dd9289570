//! How many files the process may have open.
//!
//! What a shell gives (1,024 mostly) is meant for programs that know no other way to wait than `select`, which
//! cannot see a higher number. This one knows another, so it takes what it needs of what the system allows, and
//! gives the programs that it starts what it was given itself.

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::{DESCRIPTORS, SESSION_DESCRIPTORS};

/// What the process was given.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to what a full process needs, as far as the hard one lets it. Where the system
/// refuses, everything goes on with what there is.
pub fn raise() {
    let given = *GIVEN.get_or_init(|| getrlimit(Resource::Nofile));
    let (Some(current), most) = (given.current, given.maximum.unwrap_or(u64::MAX)) else { return };
    let wanted = DESCRIPTORS.min(most);
    if current < wanted {
        let raised = Rlimit { current: Some(wanted), maximum: given.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, current, "no more files may be open than the process was given");
        }
    }
}

/// Gives a program that was just started what this process was given. Until then it has this process's
/// limit, which is of no harm to one that has opened nothing yet.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn restore(child: Option<u32>) {
    let pid = child.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let (Some(pid), Some(given)) = (pid, GIVEN.get()) {
        // One that has ended already needs none.
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, *given);
    }
}

/// Where the system has no way to do that from outside, programs keep this process's limit.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn restore(_: Option<u32>) {}

/// How many sessions may have their files open, so that half of all descriptors are left for everything else.
pub fn for_sessions() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2 / SESSION_DESCRIPTORS).unwrap_or(usize::MAX).max(1)
}

/// Whether an error says that the process or the system has no descriptor left.
pub fn are_out(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
