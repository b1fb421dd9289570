//! Locks on files of the state folder that one process holds: the daemon's, and a realm's.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use edn_bridge::private;
use rustix::fs::{FlockOperation, flock};

/// How often a lock is tried while somebody else holds it.
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A lock that this process holds for as long as it keeps this.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Takes a lock within a time; `None` if somebody else keeps it.
    pub(super) fn take(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let file = private::open(path)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if begun.elapsed() >= patience {
                return Ok(None);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    /// Whether the file that is locked still stands at a path.
    pub(super) fn stands_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let of = |found: std::fs::Metadata| (found.dev(), found.ino());
        let held = self.0.metadata().map(of).ok();
        held.is_some() && path.symlink_metadata().map(of).ok() == held
    }

    /// Writes who holds it, for people.
    pub(super) fn describe(&mut self, text: &str) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        self.0.write_all(text.as_bytes())
    }
}
