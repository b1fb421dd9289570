//! The file behind a journal: what is written to it, what of that is on disk, and who may write.
//!
//! Knows bytes, the header and the lock. Does not know who waits for an append.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::store::entry::Header;
use crate::store::error::StoreError;
use crate::store::files::{FileOps, JournalLock, LockError, LogFile, size};

/// The file behind a journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    files: Arc<dyn FileOps>,
    state: Mutex<JournalState>,
    size: AtomicU64,
}

#[derive(Debug)]
enum JournalState {
    /// Nothing was written yet.
    New(Header),
    Open(OpenJournal),
}

#[derive(Debug)]
struct OpenJournal {
    file: Box<dyn LogFile>,
    _lock: JournalLock,
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
    /// The file of a session that begins with that header. The first write makes it.
    pub(super) fn new(path: PathBuf, files: Arc<dyn FileOps>, header: Header) -> Self {
        Self { path, files, state: Mutex::new(JournalState::New(header)), size: AtomicU64::new(0) }
    }

    /// An open and locked file with that many bytes, all of them on disk.
    pub(super) fn opened(
        path: PathBuf,
        files: Arc<dyn FileOps>,
        file: Box<dyn LogFile>,
        lock: JournalLock,
        length: u64,
    ) -> Self {
        let open = OpenJournal { file, _lock: lock, length, end: length, torn: false, fresh: None };
        Self { path, files, state: Mutex::new(JournalState::Open(open)), size: AtomicU64::new(length) }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes, as far as it is acknowledged.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Writes without waiting for the disk. A failed write appends nothing.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let JournalState::New(header) = &*state {
            let made = make(&self.path, self.files.as_ref(), header, bytes)?;
            *state = JournalState::Open(made);
            return Ok(());
        }
        let JournalState::Open(open) = &mut *state else { return Ok(()) };
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
        let JournalState::Open(open) = &mut *state else { return Ok(()) };
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
                *state = JournalState::New(header);
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
        if let JournalState::Open(open) = &mut *state {
            open.length = open.end;
            self.size.store(open.length, Ordering::Relaxed);
        }
    }
}

impl OpenJournal {
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

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Creates a new session's file with its header and first entries. A failure leaves no file.
fn make(path: &Path, files: &dyn FileOps, header: &Header, bytes: &[u8]) -> Result<OpenJournal, StoreError> {
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
    Ok(OpenJournal { file, _lock: lock, length: 0, end, torn: false, fresh: Some(header.clone()) })
}

/// Who has the session of a file open, as its lock says. The lock is not tried: whoever opens the session at this
/// moment must not find it taken.
pub(super) fn holder(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(lock_of(path)).ok()?.take(200).read_to_string(&mut text).ok()?;
    let holder = text.trim();
    let number = holder.strip_prefix("process ")?.parse().ok()?;
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(number)?).ok()?;
    Some(holder.to_owned())
}

fn lock_of(path: &Path) -> PathBuf {
    // Appended to the name rather than replacing its extension: `Cargo.toml` and `Cargo.lock` are two files
    // of somebody's.
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    PathBuf::from(beside)
}

/// Takes a session's lock: a file next to it that names the holder.
pub(super) fn lock(path: &Path, files: &dyn FileOps) -> Result<JournalLock, StoreError> {
    let beside = lock_of(path);
    files.lock(&beside).map_err(|error| match error {
        LockError::Held(holder) => StoreError::Locked {
            path: path.to_owned(),
            holder: if holder.is_empty() { "which has not said its number".to_owned() } else { holder },
        },
        LockError::Io(error) => StoreError::io("Cannot lock", &beside, error),
    })
}
