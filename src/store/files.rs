//! The file layer: every operation that a journal needs from the system.
//!
//! A trait, so that a test can put itself between the journal and the disk and make it fail: short writes, a
//! full disk, a sync that does not reach the device, a read-only folder. Knows nothing of the files' content.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::limits::JOURNAL_BYTES;
use crate::private;

/// The file operations of a journal.
pub trait FileOps: Debug + Send + Sync {
    /// Creates a folder and its parents, for this user alone. They are on disk when this returns.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Creates a file that must not exist.
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Renames a file to a free name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file and replaces the file of that name.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Syncs a folder's names to disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Takes the lock file at `path` for the lifetime of the returned lock.
    fn lock(&self, path: &Path) -> Result<JournalLock, LockError>;
}

/// An open file of a journal.
pub trait LogFile: Debug + Send + Sync {
    /// Writes a prefix of `bytes` at `offset` and returns its length, which may be short.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Syncs the written bytes and the length to disk.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// The whole content.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// The first bytes, at most `most`.
    fn read_start(&self, most: u64) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// If the system refuses or accepts no more; a part may have been written.
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            bytes = bytes.get(written..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}

/// Why a lock was refused.
#[derive(Debug)]
pub enum LockError {
    /// This or another process holds it. Contains the text that the holder wrote into it.
    Held(String),
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A lock that is held until it is dropped. The system releases it when the process dies in any way, so that
/// a leftover lock file locks nothing.
#[derive(Debug)]
pub struct JournalLock {
    path: PathBuf,
    // Closing it releases the lock.
    _file: File,
}

impl Drop for JournalLock {
    fn drop(&mut self) {
        // Removed while the lock is still held, so that a waiting process notices the missing name.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemFiles;

impl FileOps for SystemFiles {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        private::make_folder(folder)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        // A client may name any path: what is no regular file might never end, or never begin.
        let waits_for_nobody = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(waits_for_nobody).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        // A hard link refuses a name that is taken, on every file system with links.
        match std::fs::hard_link(from, to) {
            Ok(()) => std::fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) if !to.exists() => std::fs::rename(from, to),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<JournalLock, LockError> {
        loop {
            let mut file = private::open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut holder = String::new();
                    let _ = (&mut file).take(200).read_to_string(&mut holder);
                    return Err(LockError::Held(holder.trim().to_owned()));
                }
                Err(error) => return Err(LockError::Io(error.into())),
            }
            // The previous holder may have removed the name after we opened it. A lock on a file without a
            // name would exclude nobody.
            let named = std::fs::metadata(path).ok();
            let held = file.metadata()?;
            if named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                writeln!(file, "process {}", std::process::id())?;
                return Ok(JournalLock { path: path.to_owned(), _file: file });
            }
        }
    }
}

impl LogFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let length = self.metadata()?.len();
        if length > JOURNAL_BYTES {
            let message = format!("its {length} bytes are more than the {JOURNAL_BYTES} that are read");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        let mut file = self;
        file.seek(SeekFrom::Start(0))?;
        file.take(JOURNAL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_start(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = self;
        file.seek(SeekFrom::Start(0))?;
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The content of a folder; empty if there is no such folder.
pub(super) fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A length in bytes.
pub(super) fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
