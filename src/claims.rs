//! Files that each say what this process is about, locked for as long as that goes on.
//!
//! A killed process leaves its files without a lock: the next one finds there what was cut off. Several processes may
//! have files in one folder. Does not know what they are about.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::limits::MAX_LINE_BYTES;
use crate::private;

/// How often a file is tried that somebody else has locked: one that looks at it lets it go at once.
const TRIES: usize = 20;

/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// The files of a folder.
#[derive(Debug)]
pub struct Claims {
    folder: PathBuf,
    /// How many of those that others left are looked at.
    most: usize,
}

/// A file of this process: its own, or one that another process left.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Claims {
    /// The files of a folder. Touches nothing on disk.
    pub fn new(folder: PathBuf, most: usize) -> Self {
        Self { folder, most }
    }

    /// Claims a name, which must be one of a file, and says what it is about. That is in the system's hands when this
    /// returns, which a kill of the process does not undo; it is not synced, so a failure of the power may lose it.
    ///
    /// # Errors
    /// If another process has claimed it, or the file cannot be written.
    pub fn claim(&self, name: &str, about: &[u8]) -> io::Result<Claim> {
        private::make_folder(&self.folder)?;
        let path = self.folder.join(format!("{name}.edn"));
        for _ in 0..TRIES {
            let file = open(&path, true)?;
            if !lock(&file)? || !is_at(&file, &path) {
                std::thread::sleep(PAUSE);
                continue;
            }
            let mut claim = Claim { path, file };
            return match claim.write(about) {
                Ok(()) => Ok(claim),
                Err(error) => {
                    claim.remove();
                    Err(error)
                }
            };
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process has claimed it"))
    }

    /// A file whose claim another process shares with this one. `None` if it is no claim of the name any more.
    pub fn shared(&self, name: &str, file: OwnedFd) -> Option<Claim> {
        let (path, file) = (self.folder.join(format!("{name}.edn")), File::from(file));
        (lock(&file).ok()? && is_at(&file, &path)).then_some(Claim { path, file })
    }

    /// Removes the file of a name, whoever has claimed it: what it is about is no more. A text that is no file's name has
    /// none.
    ///
    /// # Errors
    /// If it is there and cannot be removed.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        if name.contains(['/', '\0']) {
            return Ok(());
        }
        match std::fs::remove_file(self.folder.join(format!("{name}.edn"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// How many files there are that say something, of any process.
    pub fn count(&self) -> usize {
        let says =
            |path: &PathBuf| path.symlink_metadata().is_ok_and(|file| file.is_file() && file.len() > 0);
        self.paths().filter(says).take(self.most).count()
    }

    /// The files of processes that are gone, now claimed by this one. A file that is empty is passed over: its process
    /// may be about to write it.
    pub fn left(&self) -> Vec<(Claim, Vec<u8>)> {
        self.paths().filter_map(left).take(self.most).collect()
    }

    /// What is named like a claim. Others may have put anything there.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "edn"))
    }
}

/// Opens a regular file, and nothing else. Follows no link, and waits for nobody.
fn open(path: &Path, is_made: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(is_made).truncate(false).mode(0o600);
    private::open_regular(path, &mut options, OFlags::NOFOLLOW)
}

fn left(path: PathBuf) -> Option<(Claim, Vec<u8>)> {
    let file = open(&path, false).ok()?;
    if !lock(&file).ok()? || !is_at(&file, &path) {
        return None;
    }
    let mut about = Vec::new();
    (&file).take(u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX)).read_to_end(&mut about).ok()?;
    (!about.is_empty()).then_some((Claim { path, file }, about))
}

/// Locks a file. Returns whether that was possible.
fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a file still has its name: whoever had the lock before may have removed it.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    file.metadata().ok().map(id) == path.symlink_metadata().ok().map(id)
}

impl Claim {
    /// Says something else.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, about: &[u8]) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(about)?;
        self.file.set_len(u64::try_from(about.len()).unwrap_or(u64::MAX))
    }

    /// What it says now, which a process that shares the claim may have changed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        // The place in the file is shared too.
        let mut about =
            vec![0; usize::try_from(self.file.metadata()?.len()).unwrap_or(0).min(MAX_LINE_BYTES)];
        self.file.read_exact_at(&mut about, 0)?;
        Ok(about)
    }

    /// What a process is given that shares the claim: it lasts until both have let it go.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the file is still there: see [`Claims::forget`].
    pub fn is_there(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Whether this is the file of a name.
    pub fn is_of(&self, name: &str) -> bool {
        self.path.file_name().is_some_and(|own| own == format!("{name}.edn").as_str())
    }

    /// Removes the file: it is over.
    pub fn remove(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a file that is no longer needed stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_is_left_once_its_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::new(folder.path().join("claims"), 8);
        assert!(claims.left().is_empty());
        let claim = claims.claim("one", b"long text").unwrap();
        assert!(claims.left().is_empty(), "it is claimed");
        assert_eq!(claims.claim("one", b"other").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // As after a kill.
        drop(claim);
        let mut left = claims.left();
        let (mut claim, about) = left.pop().unwrap();
        assert_eq!((left.len(), about.as_slice()), (0, &b"long text"[..]));
        claim.write(b"short").unwrap();
        drop(claim);
        assert_eq!(claims.left().pop().unwrap().1, b"short");
        let claim = claims.claim("one", b"new").unwrap();
        claim.remove();
        assert!(claims.left().is_empty());
    }

    #[test]
    fn forgotten_claim_is_gone_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::new(folder.path().join("claims"), 8);
        claims.forget("one").unwrap();
        let claim = claims.claim("one", b"text").unwrap();
        assert!(claim.is_there());
        std::fs::write(folder.path().join("other.edn"), "kept").unwrap();
        for name in ["../other", "one/", ""] {
            claims.forget(name).unwrap();
        }
        assert!(claim.is_there() && folder.path().join("other.edn").exists());
        claims.forget("one").unwrap();
        assert!(!claim.is_there() && claims.count() == 0);
    }

    #[test]
    fn stray_entry_is_no_claim_and_hides_none() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::new(folder.path().to_owned(), 1);
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("empty.edn"), "").unwrap();
        std::fs::write(at("text"), "foreign").unwrap();
        std::fs::create_dir(at("folder.edn")).unwrap();
        std::os::unix::fs::symlink(at("text"), at("link.edn")).unwrap();
        let fifo = rustix::fs::CWD;
        rustix::fs::mkfifoat(fifo, at("fifo.edn"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        assert_eq!((claims.count(), claims.left().len()), (0, 0));
        assert!(claims.claim("link", b"x").is_err() && claims.claim("fifo", b"x").is_err());
        drop(claims.claim("one", b"x").unwrap());
        assert_eq!(claims.count(), 1);
        let left = claims.left();
        assert!(left.len() == 1 && left.iter().all(|(claim, _)| claim.is_of("one")));
    }
}
