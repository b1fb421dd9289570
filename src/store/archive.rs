//! Which sessions are archived, and which are being deleted.
//!
//! A session is archived if there is an empty file of its name in a folder beside the journals, so that a list knows
//! it without a journal's content. A deleted session's file is renamed into another folder first: at once there is no
//! such session, and the folder says what is left to be removed, also after a kill. Does not know what other rooms keep
//! of a session.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::message::SessionId;
use crate::store::error::StoreError;
use crate::store::files::{FileOps, JournalLock, children};
use crate::store::journal_file::{folder, lock};
use crate::store::listing;

/// The two folders.
#[derive(Debug)]
pub(super) struct Shelf {
    archived: PathBuf,
    deleted: PathBuf,
    files: Arc<dyn FileOps>,
}

/// A session that nobody has open, and nobody opens, until it is discarded or this is dropped.
#[derive(Debug)]
pub struct Discarding<'s> {
    shelf: &'s Shelf,
    path: PathBuf,
    /// Further files with its id.
    copies: Vec<PathBuf>,
    _lock: JournalLock,
}

impl Discarding<'_> {
    /// The session's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the session's file away. From then on there is no such session, also after a kill.
    ///
    /// # Errors
    /// If the system refuses; the session is there as before.
    pub fn complete(self) -> Result<(), StoreError> {
        let Shelf { deleted, files, .. } = self.shelf;
        let to = deleted.join(self.path.file_name().unwrap_or_default());
        let moved = || -> io::Result<()> {
            files.make_folder(deleted)?;
            // The session's own file last: until then it is there as a whole.
            for copy in &self.copies {
                taken(files.remove(copy), io::ErrorKind::NotFound)?;
                files.sync_folder(folder(copy))?;
            }
            files.replace(&self.path, &to)?;
            files.sync_folder(folder(&self.path))?;
            files.sync_folder(deleted)
        };
        moved().map_err(|error| StoreError::io("Cannot delete", &self.path, error))
    }
}

impl Shelf {
    /// The folders below a state folder. Touches nothing on disk.
    pub(super) fn new(state_dir: &Path, files: Arc<dyn FileOps>) -> Self {
        Self { archived: state_dir.join("archived"), deleted: state_dir.join("deleted"), files }
    }

    /// Whether a session is archived.
    pub(super) fn has(&self, session: &SessionId) -> bool {
        listing::file_name(session).is_some_and(|name| self.archived.join(name).exists())
    }

    /// The names of the archived sessions' files.
    pub(super) fn all(&self) -> io::Result<HashSet<OsString>> {
        let marks = children(&self.archived)?;
        Ok(marks.iter().filter_map(|mark| mark.file_name().map(Into::into)).collect())
    }

    /// Archives a session, or takes it out again. It is on disk when this returns.
    pub(super) fn set(&self, session: &SessionId, archived: bool) -> Result<(), StoreError> {
        let Some(name) = listing::file_name(session) else {
            return Err(StoreError::NoSession { session: session.clone() });
        };
        let mark = self.archived.join(name);
        let set = || -> io::Result<()> {
            match archived {
                true => {
                    self.files.make_folder(&self.archived)?;
                    taken(self.files.create(&mark).map(drop), io::ErrorKind::AlreadyExists)?;
                }
                false if !self.archived.exists() => return Ok(()),
                false => taken(self.files.remove(&mark), io::ErrorKind::NotFound)?,
            }
            self.files.sync_folder(&self.archived)
        };
        set().map_err(|error| StoreError::io("Cannot write", &mark, error))
    }

    /// Takes the lock of a session's file that is to be discarded.
    pub(super) fn discarding(
        &self,
        path: PathBuf,
        copies: Vec<PathBuf>,
    ) -> Result<Discarding<'_>, StoreError> {
        let lock = lock(&path, self.files.as_ref())?;
        Ok(Discarding { shelf: self, path, copies, _lock: lock })
    }

    /// The sessions of which something may be left.
    pub(super) fn discarded(&self) -> io::Result<Vec<SessionId>> {
        let left = children(&self.deleted)?;
        let id = |path: &PathBuf| {
            let name = path.file_name()?.to_str()?.strip_suffix(".edn")?;
            Some(SessionId::from(name))
        };
        Ok(left.iter().filter_map(id).collect())
    }

    /// Removes the last of a discarded session: its mark, what stands beside its file below `root`, and last its file.
    pub(super) fn forget(&self, root: &Path, session: &SessionId) -> Result<(), StoreError> {
        let Some(name) = listing::file_name(session) else { return Ok(()) };
        self.set(session, false)?;
        let failed = |path: &Path, error| StoreError::io("Cannot delete", path, error);
        let beside = format!("{name}.");
        // Nothing else: another session's id may begin with this one's name.
        let kinds = ["lock", "part", "repairing", "before-repair", "set-aside"];
        for folder in children(root).map_err(|error| failed(root, error))? {
            let is_beside = |path: &PathBuf| {
                let kind = path.file_name().and_then(|name| name.to_str()?.strip_prefix(&beside));
                // Copies of repairs have numbers.
                let kind = kind.map(|kind| kind.trim_end_matches(|c: char| c == '-' || c.is_ascii_digit()));
                kind.is_some_and(|kind| kinds.contains(&kind))
            };
            // Of what is no folder, or closed to the user, nothing is known to be a session's.
            for path in children(&folder).unwrap_or_default().into_iter().filter(is_beside) {
                taken(self.files.remove(&path), io::ErrorKind::NotFound)
                    .map_err(|error| failed(&path, error))?;
                self.files.sync_folder(&folder).map_err(|error| failed(&folder, error))?;
            }
        }
        let path = self.deleted.join(name);
        let removed = taken(self.files.remove(&path), io::ErrorKind::NotFound);
        removed.and_then(|()| self.files.sync_folder(&self.deleted)).map_err(|error| failed(&path, error))
    }
}

/// Takes an error of that kind for success: it was done before.
fn taken(result: io::Result<()>, as_good: io::ErrorKind) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == as_good => Ok(()),
        result => result,
    }
}
