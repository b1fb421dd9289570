//! One session's file: appending, opening, locking, repairing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use crate::store::StoreError;
use crate::store::commit::{Committer, Done, Job};
use crate::store::entry::{Entry, Header};

/// A session's file, open for appending.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<JournalFile>,
    committer: Arc<Committer>,
}

/// A session as it was read from disk.
#[derive(Debug)]
pub struct Loaded {
    /// For going on.
    pub journal: Journal,
    /// The first line.
    pub header: Header,
    /// The entries, in the order of the file.
    pub entries: Vec<Arc<Entry>>,
    /// What had to be repaired or passed over.
    pub repairs: Vec<Repair>,
}

/// Something in a file that was not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// The last line was cut off, and was removed: it had never been acknowledged.
    TornTail {
        /// Where it began, in bytes.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// A line is no entry; it stays in the file and is passed over.
    Unreadable {
        /// Its number, from 1.
        line: usize,
        /// Where it begins, in bytes.
        offset: u64,
    },
}

impl std::fmt::Display for Repair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TornTail { offset, length } => {
                write!(
                    f,
                    "A line of {length} bytes that was cut off at the end (offset {offset}) was removed."
                )
            }
            Self::Unreadable { line, offset } => {
                write!(f, "Line {line} (offset {offset}) is no entry and was passed over.")
            }
        }
    }
}

impl Journal {
    pub(super) fn create(path: PathBuf, header: Header, committer: Arc<Committer>) -> Self {
        let state = Mutex::new(State::New(header));
        Self { file: Arc::new(JournalFile { path, state }), committer }
    }

    /// Where the file is, or will be with its first entry.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Appends entries as one: `done` is called when they are on disk, or are not going to be. It runs
    /// on the writing thread and must not wait.
    pub fn append(
        &self,
        entries: &[Arc<Entry>],
        done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static,
    ) {
        let bytes = entries.iter().flat_map(|entry| entry.line()).collect();
        let done: Done = Box::new(done);
        self.committer.append(Job { file: self.file.clone(), bytes, done });
    }
}

/// The file behind a journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nothing was written yet.
    New(Header),
    Open {
        file: File,
        /// The lock is held as long as this is open.
        _lock: File,
        /// Bytes that are known to be good.
        length: u64,
    },
    /// A write failed and what it left behind could not be removed.
    Damaged,
}

impl JournalFile {
    /// Writes and syncs. After a failure the file is as it was before.
    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::New(header) = &*state {
            *state = make(&self.path, header)?;
        }
        let State::Open { file, length, .. } = &mut *state else {
            return Err(StoreError::Damaged { path: self.path.clone() });
        };
        let written = file.write_all_at(bytes, *length).and_then(|()| file.sync_data());
        match written {
            Ok(()) => {
                *length = length.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                Ok(())
            }
            Err(source) => {
                let undone = file.set_len(*length).and_then(|()| file.sync_data());
                if undone.is_err() {
                    *state = State::Damaged;
                }
                Err(StoreError::io("Cannot write", &self.path, source))
            }
        }
    }
}

/// Makes a new session's file with its header, and makes sure that the folder knows it.
fn make(path: &Path, header: &Header) -> Result<State, StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(|error| StoreError::io("Cannot make the folder", dir, error))?;
    let lock = lock(path)?;
    let line = header.line();
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(|mut file| {
        let written = file.write_all(&line).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // A header cut short would be taken for a damaged session later.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        File::open(dir)?.sync_all()?;
        Ok(file)
    });
    let file = made.map_err(|error| StoreError::io("Cannot write", path, error))?;
    Ok(State::Open { file, _lock: lock, length: u64::try_from(line.len()).unwrap_or(u64::MAX) })
}

/// Takes a session's lock: a file beside it, locked as long as it is open, that names its holder. The
/// system gives the lock back when a process dies, however it does.
fn lock(path: &Path) -> Result<File, StoreError> {
    let beside = path.with_extension("lock");
    let failed = |error: io::Error| StoreError::io("Cannot lock", &beside, error);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&beside)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = (&mut file).take(200).read_to_string(&mut holder);
            return Err(StoreError::Locked { path: path.to_owned(), holder: holder.trim().to_owned() });
        }
        Err(error) => return Err(failed(error.into())),
    }
    file.set_len(0).map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    writeln!(file, "process {}", std::process::id()).map_err(failed)?;
    Ok(file)
}

pub(super) fn open(path: &Path, committer: Arc<Committer>) -> Result<Loaded, StoreError> {
    let opened = |error| StoreError::io("Cannot open", path, error);
    // Before the lock, so that asking for a file that is not there leaves nothing behind.
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(opened)?;
    let lock = lock(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(opened)?;

    let (lines, torn) = match memchr::memrchr(b'\n', &bytes) {
        Some(end) => bytes.split_at(end.saturating_add(1)),
        None => (&[][..], bytes.as_slice()),
    };
    let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let mut repairs = Vec::new();
    let mut header = None;
    let mut entries = Vec::new();
    let mut offset = 0u64;
    for (number, line) in (1..).zip(lines.split_inclusive(|byte| *byte == b'\n')) {
        if number == 1 {
            header = Some(Header::read(line).map_err(|reason| match reason {
                Ok(format) => StoreError::Newer { path: path.to_owned(), format },
                Err(reason) => StoreError::NoHeader { path: path.to_owned(), reason },
            })?);
        } else {
            match Entry::read(line) {
                Some(entry) => entries.push(Arc::new(entry)),
                None => repairs.push(Repair::Unreadable { line: number, offset }),
            }
        }
        offset = offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
    }
    let Some(header) = header else {
        let reason = if torn.is_empty() { "it is empty" } else { "its header was cut off" };
        return Err(StoreError::NoHeader { path: path.to_owned(), reason: reason.to_owned() });
    };
    if !torn.is_empty() {
        file.set_len(length)
            .and_then(|()| file.sync_data())
            .map_err(|error| StoreError::io("Cannot repair", path, error))?;
        repairs
            .push(Repair::TornTail { offset: length, length: u64::try_from(torn.len()).unwrap_or(u64::MAX) });
    }
    let state = Mutex::new(State::Open { file, _lock: lock, length });
    let journal = Journal { file: Arc::new(JournalFile { path: path.to_owned(), state }), committer };
    Ok(Loaded { journal, header, entries, repairs })
}
