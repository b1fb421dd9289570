//! Replaces files: whole, durable, and only over the content that was read.
//!
//! The new content is written to a file without a name where the system has those, else to one with a name that is
//! reserved in each folder. It takes that name for the moment before the rename. Its writer holds a lock on it, which
//! the system lets go of when the process ends: the next write in that folder removes what a killed process left.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{PASSING, READING, check_kind, explained, names, not_regular, open_as};
use crate::limits::{FILE_NAME_PATIENCE, FILE_NAME_PAUSE};

/// The name that a new content has in its folder for the moment before it is put in place.
const RESERVED: &str = ".edn-bridge.new";

/// Why a file was not put in place.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The file has changed since it was read, or has come into being.
    #[error("it was changed by somebody else meanwhile")]
    Changed,
    /// The caller stopped before the change.
    #[error("the call was ended")]
    Ended,
    /// Such a file is never replaced. The text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The file is in place, and may be lost if the power fails.
    #[error("it was put in place, and could not be brought to the disk: {0}")]
    NotOnDisk(io::Error),
    /// The system refused. The file is unchanged.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The permissions of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// As before: owner, group, mode and extended attributes (ACLs are such); for a new file as the user's mask and
    /// the folder say.
    Kept,
    /// The user alone: mode 0600.
    Private,
    /// This mode, for a file that was there before. Only its permissions count.
    Mode(u32),
}

/// The place of a file: its opened folder and its name there.
#[derive(Debug)]
pub struct FilePlace {
    folder: OwnedFd,
    name: OsString,
    /// Whether the new content may be a file without a name, if the system supports that.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "Linux alone has such files"))]
    nameless: bool,
}

/// What tells a file from another one and from its earlier states, for those who looked at it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub time: i64,
}

impl FileStamp {
    fn of(found: &Metadata) -> Self {
        let time = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        Self { device: found.dev(), inode: found.ino(), time }
    }
}

/// A file as it was read.
#[derive(Debug)]
pub struct FileRead {
    /// Its content.
    pub bytes: Vec<u8>,
    file: File,
    metadata: Metadata,
}

impl FileRead {
    /// Its permissions.
    pub fn mode(&self) -> u32 {
        self.metadata.mode() & 0o777
    }

    /// Its stamp.
    pub fn stamp(&self) -> FileStamp {
        FileStamp::of(&self.metadata)
    }
}

impl FilePlace {
    /// Opens the folder of an absolute, resolved path. Follows no symbolic link. `None` if there is no folder.
    ///
    /// # Errors
    /// When the system refuses, or a symbolic link is part of the path.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let (folder, name) = split(path)?;
        match open_as(folder, PASSING) {
            Ok(folder) => Ok(Some(Self { folder, name: name.to_owned(), nameless: true })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same, and makes the folders that are missing. What was made is on disk when this returns.
    ///
    /// # Errors
    /// As of [`FilePlace::open`].
    pub fn make(path: &Path) -> io::Result<Self> {
        if let Some(place) = Self::open(path)? {
            return Ok(place);
        }
        let (folder, name) = split(path)?;
        let mut at = rustix::fs::open("/", PASSING, Mode::empty())?;
        for step in names(folder)? {
            let open = || rustix::fs::openat(&at, step, PASSING, Mode::empty());
            at = match open() {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&at, step, Mode::from_raw_mode(0o777)) {
                        // Somebody else was faster.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    sync_folder(&at)?;
                    open().map_err(explained)?
                }
                opened => opened.map_err(explained)?,
            };
        }
        Ok(Self { folder: at, name: name.to_owned(), nameless: true })
    }

    /// The stamp of the regular file, which is not opened. `None` if there is none.
    ///
    /// # Errors
    /// With [`io::ErrorKind::InvalidInput`] for what is no regular file, and when the system refuses.
    pub fn stamp(&self) -> io::Result<Option<FileStamp>> {
        let found = match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(explained(error)),
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(not_regular());
        }
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_lossless,
            reason = "the fields differ between systems"
        )]
        let time = (found.st_mtime as i64)
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::try_from(found.st_mtime_nsec).unwrap_or_default());
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            reason = "the fields differ between systems"
        )]
        Ok(Some(FileStamp { device: found.st_dev as u64, inode: found.st_ino as u64, time }))
    }

    /// Where the link of this name in the file's folder leads, as it is written there. `None` for no link.
    pub fn link_beside(&self, name: &OsStr) -> Option<String> {
        let target = rustix::fs::readlinkat(&self.folder, name, Vec::new()).ok()?;
        target.into_string().ok()
    }

    /// The name of the file in its folder.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Reads the regular file. `None` if there is none.
    ///
    /// # Errors
    /// With [`io::ErrorKind::InvalidInput`] for what is no regular file, with [`io::ErrorKind::FileTooLarge`] for one of more
    /// than `most` bytes, and when the system refuses.
    pub fn read(&self, most: u64) -> io::Result<Option<FileRead>> {
        let Some(file) = self.open_file()? else { return Ok(None) };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        let too_large = |bytes: u64| {
            let message = format!("it has {bytes} bytes; that is too large to change as a whole");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        };
        if metadata.len() > most {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::new();
        (&file).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if read > most {
            return Err(too_large(read));
        }
        Ok(Some(FileRead { bytes, file, metadata }))
    }

    /// Puts a content in place of what was found here; `None` for nothing. A reader sees the old content or the new one,
    /// never a part, and so does whoever looks after a crash. `go` is asked once, right before the change; if it says no,
    /// nothing is changed. Returns the stamp of the new file.
    ///
    /// # Errors
    /// See [`ReplaceError`]. But for [`ReplaceError::NotOnDisk`] nothing was changed.
    pub fn replace(
        &self,
        found: Option<&FileRead>,
        content: &[u8],
        rights: Rights,
        go: &dyn Fn() -> bool,
    ) -> Result<FileStamp, ReplaceError> {
        if self.name == RESERVED {
            return Err(ReplaceError::Refused(format!("the name {RESERVED} is reserved for edn-bridge")));
        }
        if let Some(found) = found {
            self.may_replace(found)?;
        }
        let mode = match (rights, found) {
            (Rights::Kept, None) => 0o666,
            _ => 0o600,
        };
        let mut new = self.scratch(Mode::from_raw_mode(mode))?;
        let placed = new.file.write_all(content).map_err(ReplaceError::from).and_then(|()| {
            match (rights, found) {
                (Rights::Kept, Some(found)) => keep_rights(found, &new.file)?,
                (Rights::Mode(mode), _) => new.file.set_permissions(Permissions::from_mode(mode & 0o777))?,
                (Rights::Kept, None) | (Rights::Private, _) => {}
            }
            new.file.sync_all()?;
            self.put(found, &mut new, go)
        });
        if new.named {
            // The name is ours for as long as the lock is held.
            let _ = rustix::fs::unlinkat(&self.folder, RESERVED, AtFlags::empty());
        }
        placed?;
        let stamp = FileStamp::of(&new.file.metadata()?);
        sync_folder(&self.folder).map_err(ReplaceError::NotOnDisk)?;
        Ok(stamp)
    }

    /// Removes what was found here, if nobody has changed it since.
    ///
    /// # Errors
    /// See [`ReplaceError`]. But for [`ReplaceError::NotOnDisk`] nothing was changed.
    pub fn remove(&self, found: &FileRead) -> Result<(), ReplaceError> {
        self.may_replace(found)?;
        let seen = self.open_file()?.map(|file| file.metadata()).transpose()?;
        if seen.as_ref().map(stamp) != Some(stamp(&found.metadata)) {
            return Err(ReplaceError::Changed);
        }
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()).map_err(io::Error::from)?;
        sync_folder(&self.folder).map_err(ReplaceError::NotOnDisk)
    }

    /// Gives the new content the file's name.
    fn put(
        &self,
        found: Option<&FileRead>,
        new: &mut Scratch,
        go: &dyn Fn() -> bool,
    ) -> Result<(), ReplaceError> {
        if found.is_some() && !new.named {
            self.give_name(new)?;
        }
        let seen = self.open_file()?.map(|file| file.metadata()).transpose()?;
        if seen.as_ref().map(stamp) != found.map(|found| stamp(&found.metadata)) {
            return Err(ReplaceError::Changed);
        }
        if !go() {
            return Err(ReplaceError::Ended);
        }
        let placed = match (found, new.named) {
            (Some(_), _) => rustix::fs::renameat(&self.folder, RESERVED, &self.folder, &self.name),
            // Replaces nothing that was created since.
            (None, true) => self.rename_to_nothing(),
            (None, false) => link(&new.file, &self.folder, &self.name),
        };
        match placed {
            Ok(()) => new.named = false,
            Err(Errno::EXIST) if found.is_none() => return Err(ReplaceError::Changed),
            Err(error) => return Err(ReplaceError::System(error.into())),
        }
        // A program that watches the folder may have put another file in place of ours before it was renamed.
        let (ours, there) =
            (new.file.metadata()?, self.open_file()?.map(|file| file.metadata()).transpose()?);
        match there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            true => Ok(()),
            false => Err(ReplaceError::Changed),
        }
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn rename_to_nothing(&self) -> Result<(), Errno> {
        use rustix::fs::RenameFlags;
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.folder, RESERVED, &self.folder, &self.name, flags) {
            // Not every file system can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::renameat(&self.folder, RESERVED, &self.folder, &self.name)
            }
            renamed => renamed,
        }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn rename_to_nothing(&self) -> Result<(), Errno> {
        rustix::fs::renameat(&self.folder, RESERVED, &self.folder, &self.name)
    }

    /// Opens the file itself, never the target of a link.
    fn open_file(&self) -> io::Result<Option<File>> {
        check_kind(&self.folder, self.name.as_os_str())?;
        match rustix::fs::openat(&self.folder, &self.name, READING, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(explained(error)),
        }
    }

    /// Whether a file may be replaced at all.
    ///
    /// # Errors
    /// Why not: it is read-only, or has several names.
    pub fn may_replace(&self, found: &FileRead) -> Result<(), ReplaceError> {
        let (mode, names) = (found.metadata.mode() & 0o7777, found.metadata.nlink());
        let asked = || rustix::fs::accessat(&self.folder, &self.name, Access::WRITE_OK, AtFlags::empty());
        if mode & 0o222 == 0 || matches!(asked(), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS)) {
            return Err(ReplaceError::Refused(format!(
                "it is read-only (mode {mode:o}); whoever wants it changed has to make it writable first"
            )));
        }
        if names > 1 {
            return Err(ReplaceError::Refused(format!(
                "it has {names} names (hard links), and a change would part them or change all of them; copy it over \
                 itself first (cp FILE FILE.copy && mv FILE.copy FILE)"
            )));
        }
        Ok(())
    }

    /// A new, empty file in the folder, locked while it is open.
    fn scratch(&self, mode: Mode) -> io::Result<Scratch> {
        #[cfg(target_os = "linux")]
        if self.nameless
            && let Ok(file) = rustix::fs::openat(
                &self.folder,
                ".",
                OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
                mode,
            )
            && rustix::fs::stat("/proc/self/fd").is_ok()
        {
            let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            return Ok(Scratch { file: file.into(), named: false });
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.until_free(&|| {
            let file = rustix::fs::openat(&self.folder, RESERVED, flags, mode)?;
            let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let file = File::from(file);
            // Whoever took it for one that was left over has removed it before it was locked.
            match self.is_reserved_for(&file) {
                true => Ok(Scratch { file, named: true }),
                false => Err(Errno::EXIST),
            }
        })
    }

    /// Gives a file without a name the reserved one.
    fn give_name(&self, new: &mut Scratch) -> io::Result<()> {
        self.until_free(&|| link(&new.file, &self.folder, OsStr::new(RESERVED)))?;
        new.named = true;
        Ok(())
    }

    /// Waits until the reserved name is free. Removes the file of an ended process.
    fn until_free<T>(&self, attempt: &dyn Fn() -> Result<T, Errno>) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            match attempt() {
                Err(Errno::EXIST) => {}
                tried => return tried.map_err(explained),
            }
            if self.remove_left_over()? {
                continue;
            }
            if begun.elapsed() > FILE_NAME_PATIENCE {
                return Err(io::Error::other(format!(
                    "{RESERVED} stands in its folder, which another process seems to be writing; remove it if none is"
                )));
            }
            std::thread::sleep(FILE_NAME_PAUSE);
        }
    }

    /// Removes the file with the reserved name unless its writer is alive. Says whether the name may be free.
    fn remove_left_over(&self) -> io::Result<bool> {
        let file = match rustix::fs::openat(&self.folder, RESERVED, READING, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(true),
            Err(error) => {
                return Err(io::Error::other(format!(
                    "{RESERVED} stands in the way in its folder: {error}; remove it"
                )));
            }
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::other(format!("{RESERVED} in its folder is no regular file; remove it")));
        }
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        // Only the holder of the lock on the file of this name may remove it.
        if self.is_reserved_for(&file) {
            rustix::fs::unlinkat(&self.folder, RESERVED, AtFlags::empty())?;
        }
        Ok(true)
    }

    /// Whether the reserved name is this file's.
    fn is_reserved_for(&self, file: &File) -> bool {
        let named = rustix::fs::openat(&self.folder, RESERVED, READING, Mode::empty()).map(File::from);
        match (named.and_then(|named| named.metadata().map_err(|_| Errno::IO)), file.metadata()) {
            (Ok(named), Ok(file)) => (named.dev(), named.ino()) == (file.dev(), file.ino()),
            _ => false,
        }
    }
}

/// A new content that is not in place yet.
struct Scratch {
    file: File,
    /// Whether it has the reserved name.
    named: bool,
}

/// The folder and the name of a path.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(not_regular()),
    }
}

/// What changes when a file is changed or another takes its place.
fn stamp(found: &Metadata) -> [i64; 7] {
    let same = u64::cast_signed;
    [
        same(found.dev()),
        same(found.ino()),
        same(found.len()),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ]
}

/// Gives a file without a name one, if no other has it.
#[cfg(target_os = "linux")]
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    use std::os::fd::AsRawFd as _;
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, itself, folder, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &OwnedFd, _: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Gives a new file the rights of the old one.
fn keep_rights(old: &FileRead, new: &File) -> Result<(), ReplaceError> {
    let made = new.metadata()?;
    let (owner, group) = (old.metadata.uid(), old.metadata.gid());
    if (owner, group) != (made.uid(), made.gid()) {
        use rustix::fs::{Gid, Uid};
        let owner_id = (owner != made.uid()).then(|| Uid::from_raw(owner));
        let group_id = (group != made.gid()).then(|| Gid::from_raw(group));
        rustix::fs::fchown(new, owner_id, group_id).map_err(|error| {
            ReplaceError::Refused(format!(
                "its owner and group ({owner}:{group}) could not be kept: {error}; whoever owns it has to change it"
            ))
        })?;
    }
    // Without the bits that run a file as its owner or group: they were given to the old content, and a plain write takes them.
    new.set_permissions(Permissions::from_mode(old.metadata.mode() & 0o1777))?;
    keep_attributes(&old.file, new)
}

/// Gives a new file the extended attributes of the old one, and no others.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn keep_attributes(old: &File, new: &File) -> Result<(), ReplaceError> {
    use rustix::fs::{XattrFlags, fremovexattr, fsetxattr};
    let (wanted, made) = (attributes(old)?, attributes(new)?);
    let refused = |name: &OsStr, error: Errno| {
        let name = name.to_string_lossy();
        Err(ReplaceError::Refused(format!("its extended attribute {name} could not be kept: {error}")))
    };
    // Labels, signatures and capabilities: the system gives them, and takes some away when a content changes.
    let is_the_systems = |name: &OsStr| name.as_encoded_bytes().starts_with(b"security.");
    for (name, value) in &wanted {
        if made.get(name) == Some(value) {
            continue;
        }
        match fsetxattr(new, name.as_os_str(), value, XattrFlags::empty()) {
            Err(error) if !is_the_systems(name) => return refused(name, error),
            _ => {}
        }
    }
    for name in made.keys().filter(|name| !wanted.contains_key(*name) && !is_the_systems(name)) {
        if let Err(error) = fremovexattr(new, name.as_os_str()) {
            return refused(name, error);
        }
    }
    Ok(())
}

/// The extended attributes of a file. A system without any has none.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn attributes(file: &File) -> io::Result<std::collections::BTreeMap<OsString, Vec<u8>>> {
    use std::os::unix::ffi::OsStringExt as _;

    use rustix::fs::{fgetxattr, fgetxattr_query, flistxattr, flistxattr_query};
    let list = match whole(&|| flistxattr_query(file), &|list| flistxattr(file, list)) {
        Ok(list) => list,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Default::default()),
        Err(error) => return Err(error.into()),
    };
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let name = OsString::from_vec(name.to_vec());
            let known = || fgetxattr_query(file, name.as_os_str());
            let value = whole(&known, &|value| fgetxattr(file, name.as_os_str(), value))?;
            Ok((name, value))
        })
        .collect()
}

/// What fills a buffer of the length that the system says.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn whole(
    length: &dyn Fn() -> Result<usize, Errno>,
    fill: &dyn Fn(&mut [u8]) -> Result<usize, Errno>,
) -> Result<Vec<u8>, Errno> {
    loop {
        let mut buffer = vec![0; length()?];
        match fill(&mut buffer) {
            // It has grown.
            Err(Errno::RANGE) => {}
            filled => {
                buffer.truncate(filled?);
                return Ok(buffer);
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn keep_attributes(_: &File, _: &File) -> Result<(), ReplaceError> {
    Ok(())
}

/// Makes sure that a folder's names are on disk.
fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, ".", flags, Mode::empty()).and_then(rustix::fs::fsync) {
        // Folders that the user may not read, and some file systems' folders, cannot be synced.
        Err(Errno::ACCESS | Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder, and a place in it for each way to write a new content.
    fn places(name: &str) -> (tempfile::TempDir, PathBuf, [FilePlace; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join(name);
        let ways =
            [true, false].map(|nameless| FilePlace { nameless, ..FilePlace::open(&path).unwrap().unwrap() });
        (dir, path, ways)
    }

    fn put(place: &FilePlace, found: Option<&FileRead>, content: &str) -> Result<FileStamp, ReplaceError> {
        place.replace(found, content.as_bytes(), Rights::Kept, &|| true)
    }

    fn found(place: &FilePlace) -> FileRead {
        place.read(1000).unwrap().unwrap()
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// All names in the file's folder.
    fn beside(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn file_with_longest_name_is_made_and_replaced() {
        let name = "n".repeat(255);
        let (_dir, path, places) = places(&name);
        for place in places {
            put(&place, None, "one").unwrap();
            put(&place, Some(&found(&place)), "two").unwrap();
            assert_eq!(text(&path), "two");
            assert_eq!(beside(&path), [name.as_str()]);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn replaced_file_keeps_mode_and_attributes() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            // The owner's rights for who runs it were given to the old content.
            std::fs::set_permissions(&path, Permissions::from_mode(0o6751)).unwrap();
            let marked =
                rustix::fs::setxattr(&path, "user.mark", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
            let is_root = rustix::process::geteuid().is_root();
            if is_root {
                std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
            }
            put(&place, Some(&found(&place)), "two").unwrap();
            let metadata = path.metadata().unwrap();
            assert_eq!((text(&path).as_str(), metadata.mode() & 0o7777), ("two", 0o751));
            if is_root {
                assert_eq!((metadata.uid(), metadata.gid()), (4711, 4712));
            }
            if marked {
                let mut value = [0; 9];
                assert_eq!(rustix::fs::getxattr(&path, "user.mark", &mut value).unwrap(), 4);
            }
            place.replace(Some(&found(&place)), b"three", Rights::Private, &|| true).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn read_only_and_linked_files_are_refused() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
            let refused = put(&place, Some(&found(&place)), "two").unwrap_err().to_string();
            assert!(refused.contains("read-only (mode 444)"), "{refused}");
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            std::fs::hard_link(&path, path.with_extension("2")).unwrap();
            let refused = put(&place, Some(&found(&place)), "two").unwrap_err().to_string();
            assert!(refused.contains("2 names (hard links)"), "{refused}");
            std::fs::remove_file(path.with_extension("2")).unwrap();
            assert_eq!((text(&path).as_str(), beside(&path)), ("one", vec!["file".to_owned()]));
            std::fs::remove_file(&path).unwrap();
        }
        let reserved = FilePlace::open(&path.with_file_name(RESERVED)).unwrap().unwrap();
        assert!(matches!(put(&reserved, None, "x"), Err(ReplaceError::Refused(_))));
    }

    #[test]
    fn file_put_in_place_of_the_new_one_is_noticed() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            let exchanged = || {
                std::fs::write(path.with_extension("2"), "theirs").unwrap();
                std::fs::rename(path.with_extension("2"), path.with_file_name(RESERVED)).unwrap();
                true
            };
            let placed = place.replace(Some(&found(&place)), b"two", Rights::Kept, &exchanged);
            assert!(matches!(placed, Err(ReplaceError::Changed)), "{placed:?}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn file_changed_since_it_was_read_is_not_replaced() {
        let (_dir, path, places) = places("file");
        type Change = fn(&Path);
        let changes: [Change; 4] = [
            |path| std::fs::write(path, "ONE").unwrap(),
            |path| {
                std::fs::write(path.with_extension("2"), "one").unwrap();
                std::fs::rename(path.with_extension("2"), path).unwrap();
            },
            |path| std::fs::remove_file(path).unwrap(),
            |path| std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap(),
        ];
        for place in places {
            for (number, change) in changes.into_iter().enumerate() {
                std::fs::write(&path, "one").unwrap();
                let found = found(&place);
                // A change within one tick of the clock has the same time.
                let read = Instant::now();
                while read.elapsed() < std::time::Duration::from_millis(12) {
                    std::thread::yield_now();
                }
                change(&path);
                let before = std::fs::read(&path).ok();
                let placed = put(&place, Some(&found), "two");
                assert!(matches!(placed, Err(ReplaceError::Changed)), "{number}: {placed:?}");
                assert_eq!(std::fs::read(&path).ok(), before, "{number}");
            }
            std::fs::write(&path, "one").unwrap();
            assert!(matches!(put(&place, None, "two"), Err(ReplaceError::Changed)));
            // What comes to be there in the last moment is not replaced either.
            std::fs::remove_file(&path).unwrap();
            let late = || std::fs::write(&path, "late").is_ok();
            let placed = place.replace(None, b"two", Rights::Kept, &late);
            assert!(matches!(placed, Err(ReplaceError::Changed)), "{placed:?}");
            assert_eq!((text(&path).as_str(), beside(&path)), ("late", vec!["file".to_owned()]));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn ended_replacement_changes_nothing_and_asks_once() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            let asked = Cell::new(0);
            let no = || {
                asked.set(asked.get() + 1);
                false
            };
            let placed = place.replace(Some(&found(&place)), b"two", Rights::Kept, &no);
            assert!(matches!(placed, Err(ReplaceError::Ended)), "{placed:?}");
            assert_eq!((asked.get(), text(&path).as_str()), (1, "one"));
            assert_eq!(beside(&path), ["file"]);
        }
    }

    #[test]
    fn left_over_of_ended_process_is_removed() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            std::fs::write(path.with_file_name(RESERVED), "left over").unwrap();
            put(&place, Some(&found(&place)), "two").unwrap();
            assert_eq!((text(&path).as_str(), beside(&path)), ("two", vec!["file".to_owned()]));
        }
    }

    #[test]
    fn content_of_a_live_process_is_waited_for() {
        let (_dir, path, places) = places("file");
        for place in places {
            std::fs::write(&path, "one").unwrap();
            let reserved = path.with_file_name(RESERVED);
            let other = File::create(&reserved).unwrap();
            rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
            assert!(!place.remove_left_over().unwrap());
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| put(&place, Some(&found(&place)), "two"));
                assert!(reserved.exists() && text(&path) == "one");
                drop(other);
                writer.join().unwrap().unwrap();
            });
            assert_eq!((text(&path).as_str(), beside(&path)), ("two", vec!["file".to_owned()]));
        }
    }

    #[test]
    fn link_at_the_end_is_not_followed() {
        let (_dir, path, places) = places("file");
        symlink("/dev/null", &path).unwrap();
        for place in places {
            place.read(10).unwrap_err();
            put(&place, None, "two").unwrap_err();
        }
    }

    #[test]
    fn missing_folders_are_made_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let path = root.join("a/b/c/file");
        assert!(FilePlace::open(&path).unwrap().is_none());
        put(&FilePlace::make(&path).unwrap(), None, "one").unwrap();
        assert_eq!(text(&path), "one");
        symlink("a", root.join("link")).unwrap();
        FilePlace::make(&root.join("link/new/file")).unwrap_err();
        assert!(!root.join("a/new").exists());
        symlink("nowhere", root.join("dangling")).unwrap();
        FilePlace::make(&root.join("dangling/new/file")).unwrap_err();
        assert_eq!(FilePlace::make(Path::new("/")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
