//! Private folders and files: only the user can open them.
//!
//! The program's files are closed to other users from the start. If existing files of the program are open,
//! they are closed at start-up. The state folder itself is not changed, because it may also serve other
//! purposes; the program only reports it, like GnuPG its home folder. Knows modes and owners; does not know
//! the content.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The program's entries in a state folder. Tests compare the list with what a process leaves there, and with
/// the names in the source.
const OURS: &[&str] = &[
    "run",
    "sessions",
    "archived",
    "deleted",
    "outputs",
    "memory",
    "models",
    "control",
    "daemon.lock",
    "daemon.log",
    "daemon.log.1",
    "daemon.start.lock",
    "credentials.edn",
    "credentials.lock",
    "credentials.new",
    "audit.edn",
    "audit.head",
    "rules.new",
    "audit.new",
    "questions",
    "at-work",
    "rules.edn",
    "mcp-eras.edn",
    "mcp-eras.new",
    "trusted.edn",
    "trusted.new",
    "servers.edn",
    "servers.new",
    "tools.edn",
    "tools.new",
    "chosen.edn",
    "chosen.new",
    "learned-limits.edn",
    "learned-limits.new",
    "repl-history",
    "chat-history",
    "sessions-index.db",
    "sessions-index.db-wal",
    "sessions-index.db-shm",
    "realm-key",
    "realm-key.new",
    "lost",
];

/// The permissions of everybody except the owner.
const OTHERS: u32 = 0o077;

/// The permission of others to replace entries of a folder.
const OTHERS_WRITE: u32 = 0o022;

/// If it is set, only the owner of an entry may replace it.
const STICKY: u32 = 0o1000;

/// Creates a folder and its parents for this user alone; an existing folder stays unchanged. New folders are
/// on disk when this returns.
///
/// # Errors
/// If the system refuses. A folder that could not be synced does not exist then.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    make(folder, &sync)
}

fn make(folder: &Path, sync: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    // A folder that another thread has just created must not count as synced too early.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.is_dir();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    for folder in missing.into_iter().rev() {
        let is_ours = match DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => true,
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => false,
            Err(error) => return Err(error),
        };
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        sync(above.unwrap_or(Path::new("."))).inspect_err(|_| {
            // A retry would find the folder and take it for a synced one.
            if is_ours {
                let _ = std::fs::remove_dir(folder);
            }
        })?;
    }
    Ok(())
}

/// Syncs a folder's names to disk.
fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        // The system syncs no folder for a user who may write but not read it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a file to read and write, with what it holds, or creates it for this user alone.
///
/// # Errors
/// As for [`open_regular`].
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_regular(
        path,
        options.read(true).write(true).create(true).truncate(false).mode(0o600),
        OFlags::empty(),
    )
}

/// Opens a regular file, and nothing else: of a pipe, the system would wait for the other end. `flags` are further ones of
/// `open(2)`.
///
/// # Errors
/// If something else stands there, which the message names; and those of the system.
pub fn open_regular(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let other = || {
        let why = format!("{} is not a regular file: remove it", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    let flags = flags | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        match Errno::from_io_error(&error) {
            // A socket, a pipe that nobody reads, a folder.
            Some(Errno::NXIO | Errno::ISDIR) => other(),
            _ => error,
        }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// Opens a regular file to read.
///
/// # Errors
/// As for [`open_regular`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true), OFlags::empty())
}

/// Replaces a file of the program: a reader sees the old content or the new. The new content is on disk when this
/// returns. Two at once would lose one of them, or fail; the caller excludes that.
///
/// # Errors
/// If the system refuses. The file has its old content then.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, true)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    sync(folder.unwrap_or(Path::new(".")))
}

/// The same for a file whose newest content may be lost if the power fails.
///
/// # Errors
/// As for [`replace`].
pub fn replace_soon(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content, false)
}

/// Writes beside a file, and renames.
fn beside(path: &Path, content: &[u8], synced: bool) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file =
        open_regular(&new, options.write(true).create(true).truncate(true).mode(0o600), OFlags::empty())?;
    // What an ended process left behind may have other permissions.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    if synced {
        file.sync_all()?;
    }
    std::fs::rename(&new, path)
}

/// Closes the program's entries in a state folder to other users, and reports in sentences which were open.
pub fn close(state_dir: &Path) -> Vec<String> {
    let Ok(folder) = state_dir.metadata() else { return Vec::new() };
    let mut problems: Vec<String> = exposure(state_dir, &folder).into_iter().collect();
    for path in OURS.iter().map(|name| state_dir.join(name)) {
        // A link may lead to a foreign file.
        let Ok(found) = path.symlink_metadata() else { continue };
        let (mode, shown) = (found.mode() & 0o7777, path.display());
        if found.is_symlink() || mode & OTHERS == 0 {
            continue;
        }
        problems.push(match std::fs::set_permissions(&path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => format!("{shown} was open to other users (mode {mode:o}) and was closed to them."),
            Err(error) => format!("{shown} is open to other users (mode {mode:o}): {error}."),
        });
    }
    problems
}

/// Whether other users may exchange the entries of a folder.
pub fn may_others_exchange(folder: &Metadata) -> bool {
    is_foreign(folder) || is_writable_by_others(folder)
}

fn is_foreign(folder: &Metadata) -> bool {
    let (user, owner) = (rustix::process::geteuid().as_raw(), folder.uid());
    owner != user && owner != 0
}

fn is_writable_by_others(folder: &Metadata) -> bool {
    folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0
}

/// Dangerous permissions of others on a state folder, as a sentence with what to do.
pub fn exposure(state_dir: &Path, folder: &Metadata) -> Option<String> {
    let (shown, mode) = (state_dir.display(), folder.mode() & 0o7777);
    if is_foreign(folder) {
        return Some(format!(
            "The state folder {shown} belongs to another user, who may exchange what is kept there. Name one of your \
             own with --state-dir DIR."
        ));
    }
    is_writable_by_others(folder).then(|| {
        format!(
            "Other users may exchange what is kept in the state folder {shown} (mode {mode:o}). Close it with `chmod 700 \
             {shown}`."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    fn open(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_ours_is_closed_and_everything_else_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/state");
        make_folder(&state.join("sessions")).unwrap();
        assert_eq!([mode(&dir.path().join("a")), mode(&state), mode(&state.join("sessions"))], [0o700; 3]);
        assert_eq!(close(&state), [""; 0]);
        for (name, is_folder) in
            [("run", true), ("somebody's", true), ("credentials.edn", false), ("note", false)]
        {
            let path = state.join(name);
            if is_folder {
                std::fs::create_dir(&path).unwrap()
            } else {
                std::fs::write(&path, "").unwrap()
            }
            open(&path, 0o777);
        }
        std::os::unix::fs::symlink(state.join("note"), state.join("audit.edn")).unwrap();
        let problems = close(&state);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.contains("(mode 777) and was closed")), "{problems:?}");
        for (name, expected) in
            [("run", 0o700), ("credentials.edn", 0o700), ("somebody's", 0o777), ("note", 0o777)]
        {
            assert_eq!(mode(&state.join(name)), expected, "{name}");
        }
        assert_eq!(close(&state), [""; 0]);
    }

    #[test]
    fn replaced_file_is_whole_private_and_leaves_none_beside() {
        for replace in [replace, replace_soon] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a/rules.edn");
            replace(&path, b"first, and longer").unwrap();
            // An ended process left it: longer than what follows, and open.
            std::fs::write(path.with_extension("new"), "left behind, and much longer than that").unwrap();
            open(&path.with_extension("new"), 0o666);
            open(&path, 0o644);
            let old = std::fs::File::open(&path).unwrap();
            replace(&path, b"second").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"second");
            assert_eq!(mode(&path), 0o600);
            assert_eq!(std::io::read_to_string(old).unwrap(), "first, and longer", "a reader's file");
            assert!(!path.with_extension("new").exists());
        }
    }

    #[test]
    fn a_folder_that_is_found_is_on_disk_whatever_failed_before() {
        use std::cell::{Cell, RefCell};
        let levels = ["", "a", "a/b", "a/b/c"];
        for failing in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("a/b/c");
            let (calls, synced) = (Cell::new(0), RefCell::new(Vec::new()));
            let sync = |folder: &Path| {
                if calls.replace(calls.get() + 1) == failing {
                    return Err(rustix::io::Errno::MFILE.into());
                }
                synced.borrow_mut().push(folder.to_owned());
                Ok(())
            };
            make(&folder, &sync).unwrap_err();
            assert!(!dir.path().join(levels[failing + 1]).exists(), "{failing}: it could be found");
            make(&folder, &sync).unwrap();
            let above = levels
                .map(|level| if level.is_empty() { dir.path().to_owned() } else { dir.path().join(level) });
            assert_eq!(synced.into_inner(), above[..3], "{failing}");
            assert!(folder.is_dir());
        }
    }

    #[test]
    fn state_folder_writable_by_others_is_reported_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        for (given, is_told) in
            [(0o700, false), (0o755, false), (0o1777, false), (0o777, true), (0o720, true)]
        {
            open(dir.path(), given);
            let problems = close(dir.path());
            assert_eq!(problems.len(), usize::from(is_told), "{given:o}: {problems:?}");
            assert_eq!(mode(dir.path()), given);
        }
        assert_eq!(close(&dir.path().join("none")), [""; 0]);
    }
}
