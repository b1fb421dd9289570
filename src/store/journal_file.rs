//! The file behind a journal: what is written to it, what of that is on disk, and who may write.
//!
//! Before and after each write, the file is compared with what the last append left: an entry that goes into a removed
//! file, or over another process's entries, is not acknowledged. Knows bytes, the header and the lock. Does not know who
//! waits for an append.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::JOURNAL_CHECK_BYTES;
use crate::sha256;
use crate::store::entry::Header;
use crate::store::error::{Difference, StoreError};
use crate::store::files::{
    FileOps, FileStamp, JournalLock, LockError, LogFile, RefusedBytes, lock_text, size,
};

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
    Open(Box<OpenJournal>),
}

#[derive(Debug)]
struct OpenJournal {
    file: Box<dyn LogFile>,
    lock: JournalLock,
    /// The file's device and inode.
    id: (u64, u64),
    /// The times of the file as this process has last left it.
    times: Times,
    /// The digest of the acknowledged bytes, and of a new file's header.
    digest: sha256::Running,
    /// The bytes in the digest.
    digested: u64,
    /// Acknowledged bytes.
    length: u64,
    /// Written bytes; after a failed write, the most that they can be.
    end: u64,
    /// Whether there may be bytes after `length` that must be removed: a write failed, and its remains could
    /// not be cut off at once.
    torn: bool,
    /// The header, until the file with it is on disk.
    fresh: Option<Header>,
}

/// When a file was last written to, and when anything about it has last changed.
type Times = ((i64, i64), (i64, i64));

impl JournalFile {
    /// The file of a session that begins with that header. The first write makes it.
    pub(super) fn new(path: PathBuf, files: Arc<dyn FileOps>, header: Header) -> Self {
        Self { path, files, state: Mutex::new(JournalState::New(header)), size: AtomicU64::new(0) }
    }

    /// An open and locked file with that many bytes of that digest, all of them on disk.
    pub(super) fn opened(
        path: PathBuf,
        files: Arc<dyn FileOps>,
        file: Box<dyn LogFile>,
        lock: JournalLock,
        length: u64,
        digest: sha256::Running,
    ) -> io::Result<Self> {
        let stamp = file.stamp()?;
        let (id, times) = (stamp.id, times(&stamp));
        let (digested, end) = (length, length);
        let open =
            OpenJournal { file, lock, id, times, digest, digested, length, end, torn: false, fresh: None };
        Ok(Self {
            path,
            files,
            state: Mutex::new(JournalState::Open(Box::new(open))),
            size: AtomicU64::new(length),
        })
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
            *state = JournalState::Open(Box::new(made));
            return Ok(());
        }
        let JournalState::Open(open) = &mut *state else { return Ok(()) };
        let failed = |error| StoreError::io("Cannot write", &self.path, error);
        open.check(&self.path)?;
        open.cut().map_err(failed)?;
        let end = open.end;
        open.end = end.saturating_add(size(bytes));
        open.file.write_all_at(bytes, end).and_then(|()| open.look()).map_err(|error| {
            open.undo();
            failed(error)
        })
    }

    /// Syncs the written bytes to disk. Only then may they be acknowledged. A failed sync appends nothing.
    pub(super) fn sync(&self, written: &[u8]) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let JournalState::Open(open) = &mut *state else { return Ok(()) };
        let synced = open.file.sync().and_then(|()| match open.fresh {
            Some(_) => self.files.sync_folder(folder(&self.path)),
            None => Ok(()),
        });
        let synced = synced.map_err(|error| StoreError::io("Cannot write", &self.path, error));
        let Err(error) = synced.and_then(|()| open.check_written(&self.path, written)) else {
            open.fresh = None;
            open.acknowledge(written);
            self.size.store(open.length, Ordering::Relaxed);
            return Ok(());
        };
        match open.fresh.take() {
            // A new session's file appears only once it is complete.
            Some(header) if open.length == 0 => {
                if FileStamp::at(&self.path).is_ok_and(|found| found.id == open.id) {
                    let _ = self.files.remove(&self.path);
                }
                *state = JournalState::New(header);
            }
            // Entries that were acknowledged without waiting for the disk stay.
            fresh => {
                open.fresh = fresh;
                open.withdraw(written);
            }
        }
        Err(error)
    }

    /// Accepts the written bytes without waiting for the disk.
    pub(super) fn take_as_good(&self, written: &[u8]) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let JournalState::Open(open) = &mut *state {
            open.check_written(&self.path, written).inspect_err(|_| open.withdraw(written))?;
            open.acknowledge(written);
            self.size.store(open.length, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl OpenJournal {
    /// Whether file and lock are as the last append left them.
    fn check(&mut self, path: &Path) -> Result<(), StoreError> {
        let found = self.find(path)?;
        let difference = match self.lock.is_held() {
            false => Difference::Lock,
            true if !(self.length..=self.end).contains(&found.length) => Difference::Length,
            true if self.has_acknowledged(&found) => return Ok(()),
            true => Difference::Content,
        };
        Err(StoreError::Changed { path: path.to_owned(), difference })
    }

    /// Whether the bytes since the last acknowledged one are in the file of that name. What another process appends after
    /// them takes nothing away: the next append is refused then.
    fn check_written(&mut self, path: &Path, written: &[u8]) -> Result<(), StoreError> {
        let found = self.find(path)?;
        if found.length == self.end && times(&found) == self.times {
            return Ok(());
        }
        let are_there = || written.is_empty() || self.has(written, self.end.saturating_sub(size(written)));
        let difference = match found.length >= self.end && are_there() {
            false if found.length == self.end => Difference::Content,
            false => Difference::Length,
            true if self.has_acknowledged(&found) => return Ok(()),
            true => Difference::Content,
        };
        Err(StoreError::Changed { path: path.to_owned(), difference })
    }

    /// Whether the acknowledged bytes are in the file that was found so. They are read only if its times are others than
    /// those that the last append left: somebody has written over them, or has only changed its mode, links or times.
    fn has_acknowledged(&mut self, found: &FileStamp) -> bool {
        let found = times(found);
        if found == self.times {
            return true;
        }
        let (mut digest, mut read) = (sha256::Running::default(), 0);
        while read < self.digested {
            let most = JOURNAL_CHECK_BYTES.min(self.digested.saturating_sub(read));
            match self.file.read_part(read, most) {
                Ok(part) if !part.is_empty() => {
                    read = read.saturating_add(size(&part));
                    digest.add(part);
                }
                _ => return false,
            }
        }
        let is_same = digest.hex() == self.digest.clone().hex();
        if is_same {
            self.times = found;
        }
        is_same
    }

    /// All that is written is acknowledged from now on.
    fn acknowledge(&mut self, written: &[u8]) {
        let new = usize::try_from(self.end.saturating_sub(self.digested)).unwrap_or(usize::MAX);
        let new = written.get(written.len().saturating_sub(new)..).unwrap_or_default();
        self.digest.add(new);
        self.digested = self.digested.saturating_add(size(new));
        self.length = self.end;
    }

    /// Notes the times of the file as this process leaves it.
    fn look(&mut self) -> io::Result<()> {
        self.times = times(&self.file.stamp()?);
        Ok(())
    }

    /// The file of that name, if it is this one: its links need no look then.
    fn find(&self, path: &Path) -> Result<FileStamp, StoreError> {
        use io::ErrorKind::{NotADirectory, NotFound};
        let difference = match FileStamp::at(path) {
            Ok(found) if found.id == self.id => return Ok(found),
            Ok(_) => Difference::Replaced,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Difference::Removed,
            Err(error) => return Err(StoreError::io("Cannot look at", path, error)),
        };
        Err(StoreError::Changed { path: path.to_owned(), difference })
    }

    /// Whether those bytes stand there.
    fn has(&self, bytes: &[u8], offset: u64) -> bool {
        self.file.read_part(offset, size(bytes)).is_ok_and(|found| found == bytes)
    }

    /// After a failure: cuts off unacknowledged bytes, now or before the next write.
    fn undo(&mut self) {
        self.torn = true;
        let Err(error) = self.cut() else { return };
        let refused = RefusedBytes { from: self.length, to: self.end, inode: self.id.1 };
        if let Err(note) = self.lock.note(Some(refused)) {
            tracing::error!(%error, %note, "what was refused could not be taken out of a session's file");
        }
    }

    /// Takes refused bytes out of a file to which another process may have written as well.
    fn withdraw(&mut self, written: &[u8]) {
        let length = self.file.stamp().map_or(self.end, |found| found.length);
        if length <= self.end {
            return self.undo();
        }
        self.end = self.length;
        let from = length.saturating_sub(size(written));
        if !written.is_empty() && self.has(written, from) {
            let _ = self.file.set_len(from).and_then(|()| self.file.sync());
        }
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            // Otherwise its new holder may have written them. With a folder, the lock is moved as well.
            if !self.lock.is_untouched() {
                return Err(io::Error::other("its lock was removed, or taken by another process"));
            }
            // Longer than what was tried to write: somebody else's bytes. Shorter: theirs to explain.
            let left = self.file.stamp()?;
            if (self.length..=self.end).contains(&left.length) {
                let is_ours = times(&left) == self.times;
                self.file.set_len(self.length)?;
                self.file.sync()?;
                if is_ours {
                    self.look()?;
                }
            }
            // Before anything is written where they stood.
            self.lock.note(None)?;
            self.end = self.length;
            self.torn = false;
        }
        Ok(())
    }
}

fn times(stamp: &FileStamp) -> Times {
    (stamp.modified, stamp.changed)
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
    let (mut digest, digested) = (sha256::Running::default(), size(&line));
    digest.add(&line);
    line.extend_from_slice(bytes);
    if let Err(error) = file.write_all_at(&line, 0) {
        // A truncated header would look like a damaged session later.
        let _ = files.remove(path);
        return Err(failed(error));
    }
    let end = size(&line);
    let stamp = file.stamp().map_err(failed)?;
    let (id, times, fresh) = (stamp.id, times(&stamp), Some(header.clone()));
    Ok(OpenJournal { file, lock, id, times, digest, digested, length: 0, end, torn: false, fresh })
}

/// Who has the session of a file open, as its lock says. The lock is not tried: whoever opens the session at this
/// moment must not find it taken.
pub(super) fn holder(path: &Path) -> Option<String> {
    let text = lock_text(&lock_of(path));
    let holder = text.lines().next()?.trim();
    let number = holder.strip_prefix("process ")?.parse().ok()?;
    rustix::process::test_kill_process(rustix::process::Pid::from_raw(number)?).ok()?;
    Some(holder.to_owned())
}

fn lock_of(path: &Path) -> PathBuf {
    // A link to a file, and the file, have one lock.
    let real = if path.is_symlink() { path.canonicalize().ok() } else { None };
    let path = real.as_deref().unwrap_or(path);
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

/// Cuts bytes off that were refused, and that nobody could cut off until now. The new length, if there were any.
pub(super) fn cut_refused(file: &dyn LogFile, lock: &JournalLock) -> io::Result<Option<(u64, u64)>> {
    let Some(refused) = lock.refused() else { return Ok(None) };
    let left = file.stamp()?;
    let cut = refused.are_in(&left) && left.length > refused.from;
    if cut {
        file.set_len(refused.from)?;
        file.sync()?;
    }
    lock.note(None)?;
    Ok(cut.then_some((refused.from, left.length.saturating_sub(refused.from))))
}

/// Where refused bytes begin that the next opening of a session's file cuts off, if it ends with any.
pub(super) fn refused_from(path: &Path) -> Option<u64> {
    let refused = RefusedBytes::read(&lock_text(&lock_of(path)))?;
    FileStamp::at(path).is_ok_and(|left| refused.are_in(&left)).then_some(refused.from)
}
