//! The files of sessions that this process has open, and the one that a client has just named. Knows paths and
//! sessions; opens nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::message::SessionId;
use crate::store::error::StoreError;
use crate::store::journal_file::JournalFile;

/// Where sessions are, besides those in the folder of all sessions. A named file is there until the attempt to open
/// it, so that there are hardly more than open ones.
#[derive(Debug, Default)]
pub(super) struct Locations(Mutex<HashMap<SessionId, Location>>);

#[derive(Debug)]
enum Location {
    /// A client named the file.
    Named(PathBuf),
    /// The file is open.
    Open(Weak<JournalFile>),
}

impl Locations {
    /// Notes that a session is in that file. Refuses a copy of an open session, because two files would grow under
    /// one id.
    pub(super) fn name(&self, session: &SessionId, path: &Path) -> Result<(), StoreError> {
        let copy = || StoreError::Copy { path: path.to_owned(), session: session.clone() };
        match self.lock().entry(session.clone()) {
            Occupied(mut known) => match known.get().file() {
                Some(file) if is_same(file.path(), path) => {}
                Some(_) => return Err(copy()),
                None => drop(known.insert(Location::Named(path.to_owned()))),
            },
            Vacant(free) => drop(free.insert(Location::Named(path.to_owned()))),
        }
        Ok(())
    }

    /// Notes the open file of a session.
    pub(super) fn open(&self, session: &SessionId, file: &Arc<JournalFile>) {
        self.lock().insert(session.clone(), Location::Open(Arc::downgrade(file)));
    }

    /// Forgets a file that is being closed.
    pub(super) fn close(&self, session: &SessionId, file: &Arc<JournalFile>) {
        let mut known = self.lock();
        let is_it = |open: &Weak<JournalFile>| std::ptr::eq(open.as_ptr(), Arc::as_ptr(file));
        if matches!(known.get(session), Some(Location::Open(open)) if is_it(open)) {
            known.remove(session);
        }
    }

    /// Takes the path that a client has named for a session.
    pub(super) fn take_named(&self, session: &SessionId) -> Option<PathBuf> {
        let mut known = self.lock();
        match known.get(session)? {
            Location::Named(_) => match known.remove(session)? {
                Location::Named(path) => Some(path),
                Location::Open(_) => None,
            },
            Location::Open(_) => None,
        }
    }

    /// The path of an open session with entries.
    pub(super) fn written(&self, session: &SessionId) -> Option<PathBuf> {
        let file = self.lock().get(session)?.file()?;
        (file.size() > 0).then(|| file.path().to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Location>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Location {
    fn file(&self) -> Option<Arc<JournalFile>> {
        match self {
            Self::Open(file) => file.upgrade(),
            Self::Named(_) => None,
        }
    }
}

/// Whether two paths lead to one file.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(a, b)| a == b)
}
