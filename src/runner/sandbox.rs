//! What the kernel keeps a command from doing, where it can: on Linux with Landlock (`sandbox/kernel.rs`).
//!
//! A restriction holds for the thread that asks for it and for all that it starts, for good. So a
//! command is started from a thread of its own, which ends when the command runs: nothing else of the
//! process is restricted. Knows folders, not modes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

#[cfg(target_os = "linux")]
mod kernel;

/// Another system restricts nothing, and the doctor says so. On macOS, `sandbox_init` could stand here.
#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::path::PathBuf;

    pub(super) fn restrict(
        _: &[PathBuf],
        _: &[PathBuf],
        _: &[PathBuf],
        _: &[PathBuf],
    ) -> std::io::Result<bool> {
        Ok(false)
    }

    pub(super) fn restricts() -> bool {
        false
    }
}

/// What a command may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    writable: Vec<PathBuf>,
    guarded: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    shown: Vec<PathBuf>,
}

/// Whether the kernel restricts commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    /// It does.
    Enforced,
    /// It does not: the kernel has no Landlock, or too old a one, or it is switched off.
    Unavailable,
}

impl SandboxState {
    const fn of(enforced: bool) -> Self {
        if enforced { Self::Enforced } else { Self::Unavailable }
    }

    /// The word for a person: `enforced` or `unavailable`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Unavailable => "unavailable",
        }
    }
}

impl Sandbox {
    /// Writing is possible below these folders, the temporary one, and to the devices that every program
    /// writes to. Terminals are not among them. The folders are resolved: one that a link leads to is not
    /// writable, since an earlier command may have made the link.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        /// Looked at before the first command runs.
        static EVERYWHERE: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
            let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/shm"].map(PathBuf::from);
            devices.iter().chain([&std::env::temp_dir()]).map(|path| resolve(path)).collect()
        });
        let writable = folders.into_iter().chain(EVERYWHERE.iter().cloned()).collect();
        Self { writable, ..Self::default() }
    }

    /// These are never written to, wherever they lie.
    #[must_use]
    pub fn guarding(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.guarded.extend(paths);
        self
    }

    /// These are neither written to nor read.
    #[must_use]
    pub fn hiding(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.hidden.extend(paths);
        self
    }

    /// These folders below what is hidden are read all the same.
    #[must_use]
    pub fn showing(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.shown.extend(folders);
        self
    }

    /// As arguments of a runner.
    pub(super) fn to_words(&self) -> Vec<OsString> {
        let lists =
            [(b'w', &self.writable), (b'g', &self.guarded), (b'h', &self.hidden), (b's', &self.shown)];
        let words = lists.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path)));
        words
            .map(|(kind, path)| OsString::from_vec([&[kind], path.as_os_str().as_bytes()].concat()))
            .collect()
    }

    /// From as many arguments of a runner.
    pub(super) fn from_words(words: &mut impl Iterator<Item = OsString>, count: usize) -> Option<Self> {
        let mut sandbox = Self::default();
        for _ in 0..count {
            let word = words.next()?;
            let (kind, path) = word.as_bytes().split_first()?;
            let list = match kind {
                b'w' => &mut sandbox.writable,
                b'g' => &mut sandbox.guarded,
                b'h' => &mut sandbox.hidden,
                b's' => &mut sandbox.shown,
                _ => return None,
            };
            list.push(PathBuf::from(OsStr::from_bytes(path)));
        }
        Some(sandbox)
    }

    /// Calls `work` on a thread that is restricted, with whether it is.
    ///
    /// # Errors
    /// When no thread can be started, or the kernel has Landlock and refuses it.
    pub fn run<T: Send>(&self, work: impl FnOnce(SandboxState) -> T + Send) -> std::io::Result<T> {
        std::thread::scope(|scope| {
            let restricted =
                std::thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, || {
                    let resolved =
                        |paths: &[PathBuf]| paths.iter().map(|path| resolve(path)).collect::<Vec<_>>();
                    let (kept, hidden) = (resolved(&self.guarded), resolved(&self.hidden));
                    let enforced = kernel::restrict(&self.writable, &kept, &hidden, &resolved(&self.shown))?;
                    Ok(work(SandboxState::of(enforced)))
                })?;
            restricted.join().unwrap_or_else(|_| Err(std::io::Error::other("the sandbox thread failed")))
        })
    }
}

/// The path without links, as far as it is there.
fn resolve(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut current = path;
    loop {
        if let Ok(resolved) = current.canonicalize() {
            return missing.iter().rev().fold(resolved, |path, name| path.join(name));
        }
        let (Some(above), Some(name)) = (current.parent(), current.file_name()) else {
            return path.to_owned();
        };
        missing.push(name);
        current = above;
    }
}

/// Whether this kernel restricts commands. Found out once; no thread is started for it.
pub fn state() -> SandboxState {
    static STATE: std::sync::OnceLock<SandboxState> = std::sync::OnceLock::new();
    *STATE.get_or_init(|| SandboxState::of(kernel::restricts()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_said_of_the_kernel_is_what_it_does_to_a_command() {
        assert_eq!(Sandbox::new([]).run(|restricted| restricted).unwrap(), state());
    }

    #[test]
    fn sandbox_survives_the_way_to_the_runner() {
        let sandbox = Sandbox::new([PathBuf::from("/a b")]).guarding(["/c".into()]).hiding(["/d\n".into()]);
        let words = sandbox.to_words();
        let count = words.len();
        assert_eq!(Sandbox::from_words(&mut words.into_iter(), count), Some(sandbox));
    }

    #[test]
    fn folder_that_a_link_leads_to_is_not_writable() {
        if state() == SandboxState::Unavailable {
            return;
        }
        let dir = tempfile::tempdir_in(".").unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("outside/sub")).unwrap();
        std::os::unix::fs::symlink("outside", root.join("link")).unwrap();
        // Without the temporary folder, in which all of this may lie.
        let writes = |writable: &str, file: &str| {
            let sandbox = Sandbox { writable: vec![root.join(writable)], ..Sandbox::default() };
            sandbox.run(|_| fs::write(root.join(file), "x").is_ok()).unwrap()
        };
        assert!(!writes("link", "outside/new"));
        assert!(!writes("link/sub", "outside/sub/new"));
        assert!(writes("outside", "outside/new"));
    }

    #[test]
    fn guarded_and_hidden_below_writable_stay_closed() {
        if state() == SandboxState::Unavailable {
            return;
        }
        let dir = tempfile::tempdir_in(".").unwrap();
        let home = dir.path().canonicalize().unwrap();
        for folder in ["state/deep", "config", "work"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("state/deep/secret"), "x").unwrap();
        fs::write(home.join("config/file"), "x").unwrap();
        std::os::unix::fs::symlink("state", home.join("link")).unwrap();
        let sandbox = Sandbox::new([home.clone()])
            .guarding([home.join("config"), home.join("none")])
            .hiding([home.join("state")]);
        sandbox
            .run(|_| {
                for (file, may) in [
                    ("work/file", true),
                    ("new", false),
                    ("none", false),
                    ("config/file", false),
                    ("config/new", false),
                    ("state/new", false),
                    ("state/deep/secret", false),
                    ("link/deep/secret", false),
                ] {
                    assert_eq!(fs::write(home.join(file), "y").is_ok(), may, "write {file}");
                }
                assert!(fs::rename(home.join("config"), home.join("work/config")).is_err());
                assert!(fs::rename(home.join("state"), home.join("work/state")).is_err());
                assert!(fs::hard_link(home.join("state/deep/secret"), home.join("work/linked")).is_err());
                for (file, may) in [
                    ("work/file", true),
                    ("config/file", true),
                    ("state/deep/secret", false),
                    ("link/deep/secret", false),
                ] {
                    assert_eq!(fs::read(home.join(file)).is_ok(), may, "read {file}");
                }
                assert!(fs::read("/etc/passwd").is_ok());
            })
            .unwrap();
    }
}
