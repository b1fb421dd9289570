//! What the kernel keeps a command from doing (Landlock, where the kernel has it; [`calls`] adds system calls).
//!
//! A restriction holds for the thread that asks for it and for all that it starts, for good. So a
//! command is started from a thread of its own, which ends when the command runs: nothing else of the
//! process is restricted. Knows folders, not modes.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::calls;
use crate::files;
use crate::limits::SANDBOX_ENTRIES;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

/// The rights that are restricted are those of this version, as far as the kernel knows them: writing, since
/// version 5 the control of devices (typing into a terminal), since version 6 signals and abstract sockets.
/// Version 9 could withhold named sockets too; agents for SSH keys and signatures are reached through those.
const KNOWN: ABI = ABI::V6;

/// What a command may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    writable: Vec<PathBuf>,
    guarded: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
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

    /// As arguments of a runner.
    pub(super) fn to_words(&self) -> Vec<OsString> {
        let lists = [(b'w', &self.writable), (b'g', &self.guarded), (b'h', &self.hidden)];
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
                _ => return None,
            };
            list.push(PathBuf::from(OsStr::from_bytes(path)));
        }
        Some(sandbox)
    }

    /// Restricts the calling thread, and says whether the kernel does it.
    fn enter(&self) -> Result<SandboxState, RulesetError> {
        let write = AccessFs::from_write(KNOWN);
        let read = BitFlags::from(AccessFs::ReadFile);
        let mut handled = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(write)?
            .scope(Scope::from_all(KNOWN))?;
        if !self.hidden.is_empty() {
            handled = handled.handle_access(read)?;
        }
        let mut rules = Rules(handled.create()?);
        let hidden: Vec<PathBuf> = self.hidden.iter().map(|path| resolve(path)).collect();
        let kept: Vec<PathBuf> =
            self.guarded.iter().map(|path| resolve(path)).chain(hidden.clone()).collect();
        for folder in &self.writable {
            rules = rules.around(folder, &kept, write)?;
        }
        if !hidden.is_empty() {
            rules = rules.around(Path::new("/"), &hidden, read)?;
            // The workspace too where a folder above it cannot be listed.
            for folder in &self.writable {
                rules = rules.around(folder, &hidden, read)?;
            }
        }
        let status = rules.0.restrict_self()?;
        calls::restrict();
        Ok(match status.ruleset {
            RulesetStatus::NotEnforced => SandboxState::Unavailable,
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => SandboxState::Enforced,
        })
    }

    /// Calls `work` on a thread that is restricted, with whether it is.
    ///
    /// # Errors
    /// When no thread can be started, or the kernel has Landlock and refuses it.
    pub fn run<T: Send>(&self, work: impl FnOnce(SandboxState) -> T + Send) -> std::io::Result<T> {
        std::thread::scope(|scope| {
            let restricted =
                std::thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, || {
                    self.enter().map(work).map_err(|error| std::io::Error::other(error.to_string()))
                })?;
            restricted.join().unwrap_or_else(|_| Err(std::io::Error::other("the sandbox thread failed")))
        })
    }
}

struct Rules(RulesetCreated);

impl Rules {
    /// Allows something below a path, but not below what is kept. Landlock can only add: where something kept
    /// lies below a folder, the folder's entries are allowed one by one, and nothing new can be made among them.
    fn around(self, path: &Path, kept: &[PathBuf], rights: BitFlags<AccessFs>) -> Result<Self, RulesetError> {
        if kept.iter().any(|kept| path.starts_with(kept)) {
            return Ok(self);
        }
        if !kept.iter().any(|kept| kept.starts_with(path)) {
            return self.allow(path, rights);
        }
        let mut rules = self;
        for entry in entries(path, kept) {
            // Where a link leads to has rules of its own, or none.
            if entry.symlink_metadata().is_ok_and(|entry| !entry.is_symlink()) {
                rules = rules.around(&entry, kept, rights)?;
            }
        }
        Ok(rules)
    }

    fn allow(self, path: &Path, rights: BitFlags<AccessFs>) -> Result<Self, RulesetError> {
        // A folder that is not there cannot be written to either. One that was exchanged for a link since it
        // was looked at is not followed.
        let Ok(fd) = files::refer(path) else { return Ok(self) };
        let rights = if is_folder(&fd) { rights } else { rights & AccessFs::from_file(KNOWN) };
        if rights.is_empty() {
            return Ok(self);
        }
        Ok(Self(self.0.add_rule(PathBeneath::new(fd, rights))?))
    }
}

/// The entries of a folder that contains something kept. Where it cannot be listed, those that lead there.
fn entries(folder: &Path, kept: &[PathBuf]) -> Vec<PathBuf> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten().take(SANDBOX_ENTRIES).map(|entry| entry.path()).collect(),
        Err(_) => {
            let names = kept.iter().filter_map(|kept| kept.strip_prefix(folder).ok()?.components().next());
            names.map(|name| folder.join(name)).collect()
        }
    }
}

fn is_folder(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
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

/// Whether this kernel restricts commands. Found out once, by making rules and not entering them: no
/// thread is started for it.
pub fn state() -> SandboxState {
    static STATE: std::sync::OnceLock<SandboxState> = std::sync::OnceLock::new();
    *STATE.get_or_init(|| {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(ABI::V1))
            .and_then(Ruleset::create);
        if rules.is_ok() { SandboxState::Enforced } else { SandboxState::Unavailable }
    })
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
