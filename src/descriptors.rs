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

/// The soft limit that the process was given, where it was raised.
static GIVEN: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit to what a full process needs, as far as the hard one lets it. Where the system
/// refuses, everything works with what there is.
pub fn raise() {
    let from = getrlimit(Resource::Nofile);
    let (Some(current), most) = (from.current, from.maximum.unwrap_or(u64::MAX)) else { return };
    let wanted = DESCRIPTORS.min(most);
    if current < wanted {
        let to = Rlimit { current: Some(wanted), maximum: from.maximum };
        match setrlimit(Resource::Nofile, to) {
            Ok(()) => drop(GIVEN.set(current)),
            Err(error) => {
                tracing::warn!(%error, current, "no more files may be open than the process was given");
            }
        }
    }
}

/// The soft limit that the process was given, where it has another one now: for the programs that it starts.
pub fn given() -> Option<u64> {
    GIVEN.get().copied()
}

/// Sets the soft limit of this process, for the program that it will start.
pub fn lower(to: u64) {
    let limit = Rlimit { current: Some(to), maximum: getrlimit(Resource::Nofile).maximum };
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// How many sessions may have their files open, so that half of all descriptors are left for everything else.
pub fn for_sessions() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 2 / SESSION_DESCRIPTORS).unwrap_or(usize::MAX).max(1)
}

/// Whether an error says that the process or the system has no descriptor left.
pub fn are_out(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
