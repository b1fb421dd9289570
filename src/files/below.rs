//! Reads a file that somebody else names, below folders that are allowed.
//!
//! The file is opened once, and what was opened is measured, read and compared. So whoever exchanges files, folders
//! and links meanwhile gets an error, not the content of another file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::PASSING;
use crate::sha256;

/// What a file must be, in the words of the one who names it.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub sha256: &'a str,
}

/// The rule that a file broke.
#[derive(Debug, thiserror::Error)]
pub enum BelowError {
    /// It is not in an allowed folder, or a link or `..` leads out of one.
    #[error("the file is not below an allowed folder")]
    Outside,
    /// It is a folder, a pipe or a device.
    #[error("it is no regular file")]
    NotRegular,
    /// It is larger than the bound.
    #[error("the file has {bytes} bytes; at most {most} are taken")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The bound.
        most: u64,
    },
    /// It has another size.
    #[error("the file has {found} bytes, not {expected}")]
    Size {
        /// The size that was named.
        expected: u64,
        /// The size that was found.
        found: u64,
    },
    /// It has another content.
    #[error("the file's content has another SHA-256")]
    Digest,
    /// The system refuses to open or to read it.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads a regular file of at most `most` bytes below one of the folders, and returns its bytes if they are the
/// expected ones.
///
/// `path` and the folders are absolute. The folders are trusted, and may be reached through links; below them no link
/// leads out, and where the system cannot tell, none is followed.
///
/// # Errors
/// See [`BelowError`].
pub fn read_below(
    folders: &[PathBuf],
    path: &Path,
    expected: &Expected<'_>,
    most: u64,
) -> Result<Vec<u8>, BelowError> {
    let file = File::from(open_below(folders, path, beneath)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(BelowError::NotRegular);
    }
    for bytes in [expected.bytes, found.len()] {
        if bytes > most {
            return Err(BelowError::TooLarge { bytes, most });
        }
    }
    let differs = |found| BelowError::Size { expected: expected.bytes, found };
    if found.len() != expected.bytes {
        return Err(differs(found.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(expected.bytes).unwrap_or(0));
    // One more than expected, so that a file that grows is seen.
    let read = file.take(expected.bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(read) {
        Ok(read) if read == expected.bytes => {}
        read => return Err(differs(read.unwrap_or(u64::MAX))),
    }
    if sha256::hex(&bytes) != expected.sha256 {
        return Err(BelowError::Digest);
    }
    Ok(bytes)
}

/// How a file below an open folder is opened.
type Open = fn(&OwnedFd, &Path) -> Result<OwnedFd, Errno>;

/// Opens a file below the first folder whose path, as written or as resolved, the file's path begins with.
fn open_below(folders: &[PathBuf], path: &Path, open: Open) -> Result<OwnedFd, BelowError> {
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !is_plain {
        return Err(BelowError::Outside);
    }
    let names = folders.iter().flat_map(|folder| [Some(folder.clone()), folder.canonicalize().ok()]);
    for folder in names.flatten() {
        let Ok(relative) = path.strip_prefix(&folder) else { continue };
        if relative.as_os_str().is_empty() {
            return Err(BelowError::NotRegular);
        }
        let through = OFlags::DIRECTORY.union(PASSING).difference(OFlags::NOFOLLOW);
        let folder = rustix::fs::open(&folder, through, Mode::empty()).map_err(io::Error::from)?;
        return open(&folder, relative).map_err(|error| match error {
            Errno::XDEV | Errno::LOOP => BelowError::Outside,
            error => BelowError::Io(error.into()),
        });
    }
    Err(BelowError::Outside)
}

/// How the file is opened. `NONBLOCK`: to open a pipe waits for its writer otherwise.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a file below a folder. Follows links that stay below it.
#[cfg(target_os = "linux")]
fn beneath(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(folder, relative, READING, Mode::empty(), rules) {
        // An older system has no such call; some filters of system calls answer EPERM to unknown ones.
        Err(Errno::NOSYS | Errno::PERM) => without_links(folder, relative),
        opened => opened,
    }
}

#[cfg(not(target_os = "linux"))]
fn beneath(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    without_links(folder, relative)
}

/// Opens a file below a folder, name by name. Follows no link.
fn without_links(folder: &OwnedFd, relative: &Path) -> Result<OwnedFd, Errno> {
    let (above, name) = (relative.parent(), relative.file_name().ok_or(Errno::INVAL)?);
    let mut at: Option<OwnedFd> = None;
    for name in above.into_iter().flat_map(Path::iter) {
        let before = at.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
        // With `PATH`, a link would be opened itself where it is no folder.
        at = Some(rustix::fs::openat(before, name, PASSING, Mode::empty()).map_err(|error| match error {
            Errno::NOTDIR => Errno::LOOP,
            error => error,
        })?);
    }
    let before = at.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
    rustix::fs::openat(before, name, READING | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const MOST: u64 = 1000;

    /// A folder with an allowed folder `in`, which a link `alias` leads to, and a folder `out`.
    fn house() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("in/sub")).unwrap();
        std::fs::create_dir_all(root.join("out")).unwrap();
        for (path, text) in [("in/text", "a text"), ("in/sub/text", "below"), ("out/text", "hidden")] {
            std::fs::write(root.join(path), text).unwrap();
        }
        symlink("in", root.join("alias")).unwrap();
        (dir, root)
    }

    fn read(root: &Path, path: &str, text: &str) -> Result<Vec<u8>, BelowError> {
        let sha256 = sha256::hex(text);
        let expected = Expected { bytes: text.len() as u64, sha256: &sha256 };
        read_below(&[root.join("none"), root.join("alias")], &root.join(path), &expected, MOST)
    }

    #[test]
    fn file_below_allowed_folder_is_read() {
        let (_dir, root) = house();
        for path in ["in/text", "alias/text"] {
            assert_eq!(read(&root, path, "a text").unwrap(), b"a text", "{path}");
        }
        assert_eq!(read(&root, "alias/sub/text", "below").unwrap(), b"below");
        assert!(matches!(read(&root, "in/none", "a text"), Err(BelowError::Io(_))));
    }

    #[test]
    fn path_that_leads_out_is_refused() {
        let (_dir, root) = house();
        symlink("../out/text", root.join("in/leaf")).unwrap();
        symlink("../out", root.join("in/folder")).unwrap();
        symlink(root.join("out/text"), root.join("in/absolute")).unwrap();
        symlink("/proc/self/root", root.join("in/magic")).unwrap();
        let magic = format!("in/magic{}", root.join("out/text").display());
        for path in [
            "out/text",
            "in/../out/text",
            "in/sub/../text",
            "inner/text",
            "in/leaf",
            "in/folder/text",
            "in/absolute",
            &magic,
            "text",
        ] {
            let read = read(&root, path, "hidden");
            assert!(matches!(read, Err(BelowError::Outside)), "{path}: {read:?}");
        }
        let expected = Expected { bytes: 6, sha256: &sha256::hex("hidden") };
        for path in ["in/text", "", "/"] {
            let read = read_below(&[root.join("in")], Path::new(path), &expected, MOST);
            assert!(matches!(read, Err(BelowError::Outside)), "{path}: {read:?}");
        }
        assert!(matches!(read_below(&[], &root.join("in/text"), &expected, MOST), Err(BelowError::Outside)));
    }

    #[test]
    fn link_that_stays_below_is_followed_if_the_system_can_tell() {
        let (_dir, root) = house();
        symlink("../text", root.join("in/sub/leaf")).unwrap();
        symlink("sub", root.join("in/near")).unwrap();
        let folders = [root.join("in")];
        for (path, is_link) in
            [("in/text", false), ("in/sub/text", false), ("in/sub/leaf", true), ("in/near/text", true)]
        {
            let path = root.join(path);
            let both = [open_below(&folders, &path, beneath), open_below(&folders, &path, without_links)];
            let [system, ours] = both.map(|opened| match opened {
                Ok(_) => true,
                Err(BelowError::Outside) => false,
                Err(error) => panic!("{path:?}: {error}"),
            });
            assert!(system || cfg!(not(target_os = "linux")), "{path:?}");
            assert_eq!(ours, !is_link, "{path:?}");
        }
    }

    #[test]
    fn only_the_expected_bytes_of_a_regular_file_are_read() {
        let (_dir, root) = house();
        let made = std::process::Command::new("mkfifo").arg(root.join("in/pipe")).status();
        assert!(made.unwrap().success());
        for path in ["in/pipe", "in/sub", "in"] {
            assert!(matches!(read(&root, path, ""), Err(BelowError::NotRegular)), "{path}");
        }
        assert!(matches!(read(&root, "in/text", "a texT"), Err(BelowError::Digest)));
        assert!(matches!(read(&root, "in/text", "a"), Err(BelowError::Size { expected: 1, found: 6 })));
        let large = "x".repeat(1001);
        std::fs::write(root.join("in/large"), &large).unwrap();
        for text in [large.as_str(), "x"] {
            let read = read(&root, "in/large", text);
            assert!(matches!(read, Err(BelowError::TooLarge { bytes: 1001, most: MOST })), "{read:?}");
        }
        std::fs::write(root.join("in/large"), &large[..1000]).unwrap();
        assert_eq!(read(&root, "in/large", &large[..1000]).unwrap().len(), 1000);
    }

    /// While links and files are exchanged, a read gives the expected bytes or an error.
    #[test]
    fn exchange_during_read_gives_no_other_content() {
        let (_dir, root) = house();
        /// Ends the exchange, also when the test fails.
        struct Ends<'d>(&'d AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&done);
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = std::fs::remove_file(root.join("in/target"));
                    let _ = symlink("../out/text", root.join("in/target"));
                    let _ = std::fs::remove_file(root.join("in/target"));
                    let _ = std::fs::hard_link(root.join("in/text"), root.join("in/target"));
                }
            });
            for _ in 0..2000 {
                if let Ok(bytes) = read(&root, "in/target", "hidden") {
                    panic!("{}", String::from_utf8_lossy(&bytes));
                }
                if let Ok(bytes) = read(&root, "in/target", "a text") {
                    assert_eq!(bytes, b"a text");
                }
            }
        });
    }
}
