//! The open questions on disk: a file for each, which the process that asks keeps locked.
//!
//! A killed process leaves its files without a lock. The next process that starts finds them there, so that these
//! questions get their audit record too. The files contain what the audit contains, and no text. Does not know how
//! questions end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::edn;
use crate::limits::{MAX_LINE_BYTES, OPEN_QUESTIONS};
use crate::private;
use crate::value::{Map, Value};

/// The files of a state folder.
#[derive(Debug)]
pub struct Unended {
    folder: PathBuf,
}

/// A file of a question: of this process while it is open, or one that a killed process left.
#[derive(Debug)]
pub struct Note {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Unended {
    /// The files of a state folder. Touches nothing on disk.
    pub fn new(state_dir: &Path) -> Self {
        Self { folder: state_dir.join("questions") }
    }

    /// Writes down that a question is open. It is in the system's hands when this returns, which a kill of the process
    /// does not undo; it is not synced, so a failure of the power may lose it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note(&self, id: &str, record: Map<'static>) -> io::Result<Note> {
        private::make_folder(&self.folder)?;
        let path = self.folder.join(format!("{id}.edn"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let mut note = Note { path, file };
        let mut line = Vec::new();
        edn::write_canonical(&Value::from(record), &mut line);
        match note.file.write_all(&line) {
            Ok(()) => Ok(note),
            Err(error) => {
                note.remove();
                Err(error)
            }
        }
    }

    /// The notes of processes that are gone, at most as many as one process can have. A file that is empty or no
    /// record is passed over: its process may be about to write it.
    pub fn left(&self) -> Vec<(Note, Map<'static>)> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.take(OPEN_QUESTIONS).filter_map(|entry| left(entry.path())).collect()
    }
}

fn left(path: PathBuf) -> Option<(Note, Map<'static>)> {
    let file = OpenOptions::new().read(true).open(&path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let mut line = Vec::new();
    (&file).take(u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX)).read_to_end(&mut line).ok()?;
    let record = edn::read_one(&line).ok()?.as_map()?.clone().into_owned();
    Some((Note { path, file }, record))
}

impl Note {
    /// Removes the file: the question has its record.
    pub fn remove(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the note of an ended question could not be removed");
        }
    }
}
