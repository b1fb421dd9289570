//! The file layer: every operation that a journal needs from the system.
//!
//! A trait, so that a test can put itself between the journal and the disk and make it fail: short writes, a
//! full disk, a sync that does not reach the device, a read-only folder. Knows nothing of the files' content.

use std::fmt::Debug;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;

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

/// Which file it is, and how it was left.
#[derive(Debug, Clone, Copy)]
pub struct FileStamp {
    /// The device and the inode. While the file is open, no other file has both.
    pub id: (u64, u64),
    /// Its length in bytes.
    pub length: u64,
    /// The time of its last write: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The time of the last change of anything about it, which nobody can set.
    pub changed: (i64, i64),
}

impl FileStamp {
    /// The file that has that name now. Links are followed.
    ///
    /// # Errors
    /// If there is none, or the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Self::of(&found))
    }

    /// Whether it is that file with that length and that time. Its mode, its names and its links may be others.
    pub fn is_left_as(&self, other: &Self) -> bool {
        let Self { id, length, modified, .. } = other;
        (self.id, self.length, self.modified) == (*id, *length, *modified)
    }

    fn of(found: &Metadata) -> Self {
        Self {
            id: (found.dev(), found.ino()),
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// An open file of a journal.
pub trait LogFile: Debug + Send + Sync {
    /// Writes a prefix of `bytes` at `offset`, which is the end of the file, and returns its length, which may be short.
    /// On Linux the bytes go to the end also if that is elsewhere by now: nothing is overwritten.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Syncs the written bytes and the length to disk.
    fn sync(&self) -> io::Result<()>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// The whole content.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// The bytes from `offset` on, at most `most`.
    fn read_part(&self, offset: u64, most: u64) -> io::Result<Vec<u8>>;
    /// Which file it is, and how it is left.
    fn stamp(&self) -> io::Result<FileStamp>;

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

/// Refused bytes that could not be cut off a journal. They stand in the lock beside it until they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedBytes {
    /// The length of the journal without them.
    pub from: u64,
    /// The farthest end that they can have. Where the journal is longer, another process has written to it.
    pub to: u64,
    /// The journal's inode.
    pub inode: u64,
}

impl RefusedBytes {
    const WORDS: [&str; 3] = ["refused bytes ", " to ", " of inode "];

    /// What a lock says of them.
    pub(super) fn read(lock: &str) -> Option<Self> {
        let [refused, to, inode] = Self::WORDS;
        let line = lock.lines().nth(1)?.strip_prefix(refused)?;
        let (from, rest) = line.split_once(to)?;
        let (to, inode) = rest.split_once(inode)?;
        Some(Self { from: from.parse().ok()?, to: to.parse().ok()?, inode: inode.parse().ok()? })
    }

    /// Whether a journal that is left so ends with them.
    pub(super) fn are_in(&self, journal: &FileStamp) -> bool {
        journal.id.1 == self.inode && (self.from..=self.to).contains(&journal.length)
    }

    fn line(&self) -> String {
        let [refused, to, inode] = Self::WORDS;
        format!("{refused}{}{to}{}{inode}{}\n", self.from, self.to, self.inode)
    }
}

/// The longest text of a lock that is read.
const LOCK_TEXT: usize = 200;

/// What a lock file says; empty if there is none.
pub(super) fn lock_text(path: &Path) -> String {
    private::open_to_read(path).and_then(|file| text_of(&file)).unwrap_or_default()
}

fn text_of(lock: &File) -> io::Result<String> {
    let mut bytes = [0; LOCK_TEXT];
    let length = FileExt::read_at(lock, &mut bytes, 0)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

/// A lock that is held until it is dropped. The system releases it when the process dies in any way, so that
/// a leftover lock file locks nothing.
#[derive(Debug)]
pub struct JournalLock {
    path: PathBuf,
    // Closing it releases the lock.
    file: File,
    left: Mutex<LeftLock>,
}

/// How its holder has left a lock file.
#[derive(Debug)]
struct LeftLock {
    refused: Option<RefusedBytes>,
    text: String,
    stamp: FileStamp,
}

impl JournalLock {
    /// Writes into a lock file that this process has locked. What the last holder noted there stays.
    fn take(path: &Path, file: File) -> io::Result<Self> {
        let refused = RefusedBytes::read(&text_of(&file)?);
        let left = Self::write(&file, refused)?;
        Ok(Self { path: path.to_owned(), file, left: Mutex::new(left) })
    }

    /// In one write, so that a kill loses no note.
    fn write(file: &File, refused: Option<RefusedBytes>) -> io::Result<LeftLock> {
        let note = refused.as_ref().map(RefusedBytes::line).unwrap_or_default();
        let text = format!("process {}\n{note}", std::process::id());
        LogFile::write_all_at(file, text.as_bytes(), 0)?;
        LogFile::set_len(file, size(text.as_bytes()))?;
        Ok(LeftLock { refused, stamp: file.stamp()?, text })
    }

    /// Whether the lock file is as this process left it. A file system may say yes to a second holder, who then has
    /// written to it, and anybody may remove it.
    pub fn is_held(&self) -> bool {
        let left = self.left();
        FileStamp::at(&self.path).is_ok_and(|found| found.is_left_as(&left.stamp)) && self.says(&left.text)
    }

    /// Whether nobody has removed the lock file or written to it, wherever it is by now.
    pub fn is_untouched(&self) -> bool {
        let left = self.left();
        let is_there = |found: &Metadata| found.nlink() > 0 && FileStamp::of(found).is_left_as(&left.stamp);
        self.file.metadata().is_ok_and(|found| is_there(&found)) && self.says(&left.text)
    }

    /// Whether that is all that stands there. A clock that ticks slowly gives two writes one time.
    fn says(&self, text: &str) -> bool {
        text_of(&self.file).is_ok_and(|found| found == text)
    }

    /// The refused bytes that the lock's last holder, or this one, could not cut off.
    pub fn refused(&self) -> Option<RefusedBytes> {
        self.left().refused
    }

    /// Notes refused bytes, or that there are none any more. It is on disk when this returns.
    ///
    /// # Errors
    /// If the lock is not this process's alone, or the system refuses.
    pub fn note(&self, refused: Option<RefusedBytes>) -> io::Result<()> {
        if self.refused() == refused {
            return Ok(());
        }
        if !self.is_untouched() {
            return Err(io::Error::other("the lock was removed, or taken by another process"));
        }
        let before = self.refused();
        let mut left = Self::write(&self.file, refused)?;
        let folder = self.path.parent().filter(|folder| folder.exists());
        let synced =
            self.file.sync().and_then(|()| folder.map_or(Ok(()), |folder| SystemFiles.sync_folder(folder)));
        if synced.is_err() {
            // A note that is not on disk is there until a power failure.
            left.refused = refused.or(before);
        }
        *self.left() = left;
        synced
    }

    fn left(&self) -> std::sync::MutexGuard<'_, LeftLock> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JournalLock {
    fn drop(&mut self) {
        // Removed while the lock is still held, so that a waiting process notices the missing name. A note stays for the
        // next opening, and another process's lock is left alone.
        if self.refused().is_none() && self.is_held() {
            let _ = std::fs::remove_file(&self.path);
        }
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
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        // A client may name any path: what is no regular file might never end, or never begin.
        let waits_for_nobody = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).custom_flags(waits_for_nobody).open(path)?;
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
            let file = private::open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let text = lock_text(path);
                    return Err(LockError::Held(text.lines().next().unwrap_or_default().trim().to_owned()));
                }
                Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
            }
            // The previous holder may have removed the name after we opened it. A lock on a file without a
            // name would exclude nobody.
            if FileStamp::at(path).is_ok_and(|named| file.stamp().is_ok_and(|held| named.id == held.id)) {
                return Ok(JournalLock::take(path, file)?);
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

    fn read_part(&self, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn stamp(&self) -> io::Result<FileStamp> {
        self.metadata().map(|found| FileStamp::of(&found))
    }
}

/// The kind of the file system of a folder, if it is one where a lock may not hold: over a network or through another
/// program, each host or mount may say yes to a holder of its own.
pub fn weak_locks(folder: &Path) -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    {
        let found = folder.ancestors().find_map(|folder| rustix::fs::statfs(folder).ok())?;
        // Signed and of another width on some machines.
        weak_kind(u32::try_from(i128::from(found.f_type) & 0xffff_ffff).ok()?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}

/// As in `linux/magic.h` and the modules' sources.
#[cfg(target_os = "linux")]
fn weak_kind(magic: u32) -> Option<&'static str> {
    match magic {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x6573_5546 => Some("FUSE"),
        _ => None,
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn file_systems_with_weak_locks_are_named() {
        for (magic, expected) in [
            (0x6969, Some("NFS")),
            (0xff53_4d42, Some("SMB")),
            (0xfe53_4d42, Some("SMB")),
            (0x0102_1997, Some("9p")),
            (0x6573_5546, Some("FUSE")),
            (0xef53, None),
            (0x0102_1994, None),
        ] {
            assert_eq!(weak_kind(magic), expected, "{magic:x}");
        }
        assert_eq!(weak_locks(Path::new("/proc/none/at/all")), None);
    }
}
