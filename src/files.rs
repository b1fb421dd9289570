//! Opens and replaces files, so that the judged file is the used one, and no change is lost.
//!
//! A caller resolves a path, judges it, and opens it here. No symbolic link is followed in any component: whoever
//! exchanges a folder and a link after the judgement gets an error, not the file behind the link. Knows the file
//! system; does not know the purpose or the permissions of a file.

mod below;
mod lock;
mod replace;
mod seal;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

pub use below::{BelowError, Expected, read_below};
pub use lock::{FileLock, lock};
pub use replace::{FilePlace, FileRead, FileStamp, ReplaceError, Rights};
pub use seal::{BrokenSeal, Seal, whole};

/// The start of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its text. Bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The size of the whole file in bytes.
    pub bytes: u64,
}

impl Start {
    /// Whether the end is missing, after a read of at most `most` bytes.
    pub fn is_cut(&self, most: u64) -> bool {
        self.bytes > most
    }
}

/// Opens a file or folder for reading.
///
/// `path` is absolute and resolved: it has no `.`, no `..` and no symbolic link.
///
/// # Errors
/// When the system refuses, or a symbolic link is part of the path; [`io::ErrorKind::InvalidInput`] for a pipe, a
/// socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    check_kind(CWD, path)?;
    open_as(path, READING).map(File::from)
}

/// Refuses what is neither a file nor a folder before it is opened: whoever waits at the other end of a pipe would
/// take the opener for its reader, and some devices act when they are opened. What cannot be looked at is left to the
/// opening. Whoever exchanges the file meanwhile only gets an opener that does not wait, and reads nothing.
pub fn check_kind(folder: impl AsFd, path: impl rustix::path::Arg) -> io::Result<()> {
    let Ok(found) = rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
        _ => Err(not_regular()),
    }
}

/// Opens a regular file for reading, as [`open`] does.
///
/// # Errors
/// See [`open`]; [`io::ErrorKind::InvalidInput`] if it is no regular file, which might never end.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(not_regular());
    }
    Ok((file, found))
}

/// Opens a folder, as [`open`] does. Its entries can be named relative to the descriptor.
///
/// # Errors
/// See [`open`]; also if it is no folder.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open_as(path, READING | OFlags::DIRECTORY)
}

/// Opens what stands at a path, of any kind, to refer to it: without the right to read it. Follows no link, as
/// [`open`] does.
///
/// # Errors
/// As of [`open`].
#[cfg(target_os = "linux")]
pub fn refer(path: &Path) -> io::Result<OwnedFd> {
    open_as(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC)
}

/// Reads at most `most` bytes of a regular file, opened as [`open_regular`] does.
///
/// # Errors
/// As of [`open_regular`].
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the text of a regular file, at most `most` bytes of it.
///
/// # Errors
/// As of [`open_regular`].
pub fn start(path: &Path, most: u64) -> io::Result<Start> {
    let (file, found) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // A character that the bound has cut is no fault of the file.
            let cut = error.utf8_error().error_len().is_none();
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            if cut {
                bytes.truncate(valid);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    Ok(Start { text, bytes: found.len() })
}

/// The names in an open folder, and whether each is a folder itself, in the order of the system. Stops after `most`.
///
/// # Errors
/// When the system refuses.
pub fn entries(folder: impl AsFd, most: usize) -> io::Result<Vec<(OsString, bool)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if found.len() >= most {
            break;
        }
        found.push((OsString::from_vec(name.to_vec()), entry.file_type() == FileType::Directory));
    }
    Ok(found)
}

/// How files are opened for reading. `NONBLOCK`: to open a pipe waits for its writer otherwise.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The flags for parent folders: where the system permits, also without the right to read them.
#[cfg(target_os = "linux")]
const PASSING: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASSING: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_as(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let names = names(path)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let rules = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), rules) {
            // An older system has no such call; some filters of system calls answer EPERM to unknown ones.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened.map_err(explained),
        }
    }
    walk(&names, flags)
}

/// Opens a path name by name, each relative to the folder before.
fn walk(names: &[&OsStr], flags: OFlags) -> io::Result<OwnedFd> {
    let Some((last, before)) = names.split_last() else {
        return rustix::fs::open("/", flags, Mode::empty()).map_err(explained);
    };
    let mut folder = rustix::fs::open("/", PASSING, Mode::empty()).map_err(explained)?;
    for name in before {
        folder = rustix::fs::openat(&folder, *name, PASSING, Mode::empty()).map_err(explained)?;
    }
    rustix::fs::openat(&folder, *last, flags, Mode::empty()).map_err(explained)
}

/// The names that an absolute, resolved path goes through.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let unresolved = || io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute and resolved");
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(unresolved());
    }
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(unresolved()),
        })
        .collect()
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// The meaning of an error when no link is followed.
fn explained(error: Errno) -> io::Error {
    match error {
        Errno::LOOP => io::Error::other("a symbolic link was put into its path since it was checked"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder `real` with a file and a folder, and a link to it; opened both ways.
    fn ways(path: &Path, flags: OFlags) -> [io::Result<OwnedFd>; 2] {
        [open_as(path, flags), names(path).and_then(|names| walk(&names, flags))]
    }

    #[test]
    fn link_in_any_component_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/sub")).unwrap();
        std::fs::write(root.join("real/sub/file"), "text").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("sub", root.join("real/alias")).unwrap();
        symlink("file", root.join("real/sub/name")).unwrap();
        for path in ["real/sub/file", "real/sub", "real"] {
            for opened in ways(&root.join(path), READING) {
                opened.unwrap();
            }
        }
        for path in ["link/sub/file", "link/sub", "link", "real/alias/file", "real/alias", "real/sub/name"] {
            for opened in ways(&root.join(path), READING) {
                opened.unwrap_err();
            }
        }
        for opened in ways(Path::new("/"), READING | OFlags::DIRECTORY) {
            opened.unwrap();
        }
        for path in ["real/sub/../sub/file", "relative"] {
            let path = if path == "relative" { path.into() } else { root.join(path) };
            assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        assert_eq!(open(&root.join("real/none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn writer_at_a_pipe_is_not_taken_in() {
        use rustix::fs::{FileType, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let pipe = root.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || File::options().write(true).open(pipe)
        });
        let folder = open_folder(&root).unwrap();
        let place = FilePlace::open(&pipe).unwrap().unwrap();
        // The writer waits at the pipe for most of these.
        for _ in 0..1000 {
            let refused = [
                open(&pipe).map(drop).unwrap_err(),
                place.read(9).map(drop).unwrap_err(),
                check_kind(&folder, "pipe").unwrap_err(),
            ];
            assert!(refused.iter().all(|error| error.kind() == io::ErrorKind::InvalidInput), "{refused:?}");
            std::thread::yield_now();
        }
        assert!(!writer.is_finished(), "somebody was taken for its reader");
        let _reader = File::open(&pipe).unwrap();
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn only_regular_files_are_read_and_within_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("file"), "a text ä").unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status();
        assert!(made.unwrap().success());
        let text = start(&root.join("file"), 8).unwrap();
        assert_eq!((text.text.as_str(), text.bytes, text.is_cut(8)), ("a text ", 9, true));
        assert_eq!(read(&root.join("file"), 4).unwrap(), b"a te");
        assert!(!start(&root.join("file"), 9).unwrap().is_cut(9));
        for path in [root.join("pipe"), root.clone(), "/dev/zero".into()] {
            assert_eq!(start(&path, 8).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        open_folder(&root.join("file")).unwrap_err();
        let mut found = entries(open_folder(&root).unwrap(), 9).unwrap();
        found.sort();
        assert_eq!(found, [("file".into(), false), ("pipe".into(), false)]);
        assert_eq!(entries(open_folder(&root).unwrap(), 1).unwrap().len(), 1);
    }
}
