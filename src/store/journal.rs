//! Appends to one session's file, and restores its previous state after any failure. Knows bytes and headers;
//! does not know what an entry means.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::{FORK_PART_BYTES, LISTING_BYTES};
use crate::store::commit::{Committer, Done, Job};
use crate::store::entry::{Entry, Header};
use crate::store::files::{Files, Lock, LockError, LogFile};
use crate::store::reading::{self, Content, Fault};
use crate::store::{StoreError, size};

/// A session's file, open for appending.
#[derive(Debug, Clone)]
pub struct Journal {
    file: Arc<JournalFile>,
    committer: Arc<Committer>,
}

/// A session that was read from disk.
#[derive(Debug)]
pub struct Loaded {
    /// The journal for further entries.
    pub journal: Journal,
    /// The first line.
    pub header: Header,
    /// The entries, in the order of the file.
    pub entries: Vec<Arc<Entry>>,
    /// The faults that were found: the tail was repaired, the others were skipped.
    pub faults: Vec<Fault>,
}

impl Journal {
    pub(super) fn create(
        path: PathBuf,
        header: Header,
        files: Arc<dyn Files>,
        committer: Arc<Committer>,
    ) -> Self {
        Self { file: Arc::new(JournalFile::new(path, files, State::New(header), 0)), committer }
    }

    /// The path of the file, which the first entry creates.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The acknowledged size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.size.load(Ordering::Relaxed)
    }

    /// Appends entries as a unit. Calls `done` when they are on disk or have failed. `done` runs on the
    /// writing thread and must not wait.
    pub fn append(
        &self,
        entries: &[Arc<Entry>],
        done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static,
    ) {
        let bytes = entries.iter().flat_map(|entry| entry.line()).collect();
        let done: Done = Box::new(done);
        self.committer.append(Job { file: self.file.clone(), bytes, done });
    }

    /// Syncs everything to disk and gives up the writing thread's hold on the file, then calls `done` on that
    /// thread. Dropping the last journal afterwards closes the file.
    pub fn settle(&self, done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static) {
        self.committer.append(Job { file: self.file.clone(), bytes: Vec::new(), done: Box::new(done) });
    }
}

/// The file behind a journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    files: Arc<dyn Files>,
    state: Mutex<State>,
    size: AtomicU64,
}

#[derive(Debug)]
enum State {
    /// Nothing was written yet.
    New(Header),
    Open(OpenFile),
}

#[derive(Debug)]
struct OpenFile {
    file: Box<dyn LogFile>,
    _lock: Lock,
    /// Acknowledged bytes.
    length: u64,
    /// Written bytes.
    end: u64,
    /// Whether there may be bytes after `length` that must be removed: a write failed, and its remains could
    /// not be cut off at once.
    torn: bool,
    /// The header, until the file with it is on disk.
    fresh: Option<Header>,
}

impl JournalFile {
    fn new(path: PathBuf, files: Arc<dyn Files>, state: State, size: u64) -> Self {
        Self { path, files, state: Mutex::new(state), size: AtomicU64::new(size) }
    }

    /// Writes without waiting for the disk. A failed write appends nothing.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::New(header) = &*state {
            let made = make(&self.path, self.files.as_ref(), header, bytes)?;
            *state = State::Open(made);
            return Ok(());
        }
        let State::Open(open) = &mut *state else { return Ok(()) };
        open.cut().map_err(|error| StoreError::io("Cannot write", &self.path, error))?;
        match open.file.write_all_at(bytes, open.end) {
            Ok(()) => {
                open.end = open.end.saturating_add(size(bytes));
                Ok(())
            }
            Err(source) => {
                open.undo();
                Err(StoreError::io("Cannot write", &self.path, source))
            }
        }
    }

    /// Syncs the written bytes to disk. Only then may they be acknowledged. A failed sync appends nothing.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Open(open) = &mut *state else { return Ok(()) };
        let synced = open.file.sync().and_then(|()| match open.fresh {
            Some(_) => self.files.sync_folder(folder(&self.path)),
            None => Ok(()),
        });
        let Err(source) = synced else {
            open.fresh = None;
            open.length = open.end;
            self.size.store(open.length, Ordering::Relaxed);
            return Ok(());
        };
        match open.fresh.take() {
            // A new session's file appears only once it is complete.
            Some(header) if open.length == 0 => {
                let _ = self.files.remove(&self.path);
                *state = State::New(header);
            }
            // Entries that were acknowledged without waiting for the disk stay.
            fresh => {
                open.fresh = fresh;
                open.undo();
            }
        }
        Err(StoreError::io("Cannot write", &self.path, source))
    }

    /// Accepts the written bytes without waiting for the disk.
    pub(super) fn take_as_good(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Open(open) = &mut *state {
            open.length = open.end;
            self.size.store(open.length, Ordering::Relaxed);
        }
    }
}

impl OpenFile {
    /// After a failure: cuts off unacknowledged bytes, now or before the next write.
    fn undo(&mut self) {
        self.torn = true;
        let _ = self.cut();
    }

    fn cut(&mut self) -> std::io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.file.sync()?;
            self.end = self.length;
            self.torn = false;
        }
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Creates a new session's file with its header and first entries. A failure leaves no file.
fn make(path: &Path, files: &dyn Files, header: &Header, bytes: &[u8]) -> Result<OpenFile, StoreError> {
    let dir = folder(path);
    files.make_folder(dir).map_err(|error| StoreError::io("Cannot make the folder", dir, error))?;
    let lock = lock(path, files)?;
    let failed = |error| StoreError::io("Cannot write", path, error);
    let file = files.create(path).map_err(failed)?;
    let mut line = header.line();
    line.extend_from_slice(bytes);
    if let Err(error) = file.write_all_at(&line, 0) {
        // A truncated header would look like a damaged session later.
        let _ = files.remove(path);
        return Err(failed(error));
    }
    let end = size(&line);
    Ok(OpenFile { file, _lock: lock, length: 0, end, torn: false, fresh: Some(header.clone()) })
}

/// Takes a session's lock: a file next to it that names the holder.
pub(super) fn lock(path: &Path, files: &dyn Files) -> Result<Lock, StoreError> {
    // Appended to the name rather than replacing its extension: `Cargo.toml` and `Cargo.lock` are two files
    // of somebody's.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    files.lock(&beside).map_err(|error| match error {
        LockError::Held(holder) => StoreError::Locked {
            path: path.to_owned(),
            holder: if holder.is_empty() { "which has not said its number".to_owned() } else { holder },
        },
        LockError::Io(error) => StoreError::io("Cannot lock", &beside, error),
    })
}

/// Opens a session for writing: takes its lock, reads it, and repairs its tail.
pub(super) fn open(
    path: &Path,
    files: Arc<dyn Files>,
    committer: Arc<Committer>,
) -> Result<Loaded, StoreError> {
    let opened = |error| StoreError::io("Cannot open", path, error);
    // Before the lock, so that opening a missing or foreign file leaves nothing behind.
    let file = files.open(path).map_err(opened)?;
    let start = file.read_start(LISTING_BYTES).map_err(opened)?;
    let first = start.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    if Header::read(first).is_err() {
        reading::read(path, &file.read().map_err(opened)?)?;
    }
    let lock = lock(path, files.as_ref())?;
    // Read whole, because nobody else writes now.
    let bytes = file.read().map_err(opened)?;
    let Content { header, entries, faults, good, .. } = reading::read(path, &bytes)?;
    let mut length = u64::try_from(good).unwrap_or(u64::MAX);
    let repaired = |error| StoreError::io("Cannot repair", path, error);
    for fault in &faults {
        match fault {
            Fault::TornTail { .. } => {
                file.set_len(length).and_then(|()| file.sync()).map_err(repaired)?;
            }
            Fault::NoLineFeed { .. } => {
                file.write_all_at(b"\n", length).and_then(|()| file.sync()).map_err(repaired)?;
                length = length.saturating_add(1);
            }
            _ => {}
        }
    }
    let open = OpenFile { file, _lock: lock, length, end: length, torn: false, fresh: None };
    let file = JournalFile::new(path.to_owned(), files, State::Open(open), length);
    Ok(Loaded { journal: Journal { file: Arc::new(file), committer }, header, entries, faults })
}

/// Creates a session's file with many entries without blocking the thread that writes for all. The file gets
/// its name once all of it is on disk.
pub(super) fn write_whole(
    path: PathBuf,
    header: &Header,
    entries: impl Iterator<Item = Arc<Entry>>,
    files: Arc<dyn Files>,
    committer: Arc<Committer>,
) -> Result<Journal, StoreError> {
    let dir = folder(&path);
    files.make_folder(dir).map_err(|error| StoreError::io("Cannot make the folder", dir, error))?;
    let lock = lock(&path, files.as_ref())?;
    let part = path.with_extension("part");
    let failed = |error| StoreError::io("Cannot write", &path, error);
    let file = files.create(&part).map_err(failed)?;
    let written = (|| {
        let mut end = 0u64;
        let mut bytes = header.line();
        let mut write = |bytes: &mut Vec<u8>| {
            file.write_all_at(bytes, end)?;
            end = end.saturating_add(size(bytes));
            bytes.clear();
            Ok::<(), std::io::Error>(())
        };
        for entry in entries {
            entry.write_line(&mut bytes);
            if bytes.len() >= FORK_PART_BYTES {
                write(&mut bytes)?;
            }
        }
        write(&mut bytes)?;
        file.sync()?;
        files.rename(&part, &path)?;
        files.sync_folder(dir).inspect_err(|_| {
            // A refused write must leave no file.
            let _ = files.remove(&path);
        })?;
        Ok(end)
    })();
    match written {
        Ok(end) => {
            let open = OpenFile { file, _lock: lock, length: end, end, torn: false, fresh: None };
            let file = JournalFile::new(path, files, State::Open(open), end);
            Ok(Journal { file: Arc::new(file), committer })
        }
        Err(error) => {
            let _ = files.remove(&part);
            Err(failed(error))
        }
    }
}
