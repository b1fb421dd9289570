//! What the kernel keeps a command from writing (Landlock, where the kernel has it).
//!
//! A restriction holds for the thread that asks for it and for all that it starts, for good. So a
//! command is started from a thread of its own, which ends when the command runs: nothing else of the
//! process is restricted. Knows folders, not modes.

use std::path::PathBuf;

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};

/// The rights that are restricted: writing, in the version that the oldest kernels with a usable
/// Landlock have. Reading and running stay free.
const KNOWN: ABI = ABI::V3;

/// Where a command may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    writable: Vec<PathBuf>,
}

/// Whether the kernel restricts commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It does.
    Enforced,
    /// It does not: the kernel has no Landlock, or too old a one, or it is switched off.
    Unavailable,
}

impl State {
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
    /// writes to.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut writable: Vec<PathBuf> = folders.into_iter().collect();
        writable.push(std::env::temp_dir());
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm"]
        {
            writable.push(PathBuf::from(device));
        }
        Self { writable }
    }

    /// Restricts the calling thread, and says whether the kernel does it.
    fn enter(&self) -> Result<State, RulesetError> {
        let write = AccessFs::from_write(KNOWN);
        let mut rules =
            Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(write)?.create()?;
        for folder in &self.writable {
            // A folder that is not there cannot be written to either.
            let Ok(fd) = PathFd::new(folder) else { continue };
            let rights = if folder.is_dir() { write } else { write & AccessFs::from_file(KNOWN) };
            rules = rules.add_rule(PathBeneath::new(fd, rights))?;
        }
        let status = rules.restrict_self()?;
        Ok(match status.ruleset {
            RulesetStatus::NotEnforced => State::Unavailable,
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => State::Enforced,
        })
    }

    /// Calls `work` on a thread that is restricted, with whether it is.
    ///
    /// # Errors
    /// When no thread can be started, or the kernel has Landlock and refuses it.
    pub fn run<T: Send>(&self, work: impl FnOnce(State) -> T + Send) -> std::io::Result<T> {
        std::thread::scope(|scope| {
            let restricted =
                std::thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, || {
                    self.enter().map(work).map_err(|error| std::io::Error::other(error.to_string()))
                })?;
            restricted.join().unwrap_or_else(|_| Err(std::io::Error::other("the sandbox thread failed")))
        })
    }
}

/// Whether this kernel restricts commands. Found out once, by making rules and not entering them: no
/// thread is started for it.
pub fn state() -> State {
    static STATE: std::sync::OnceLock<State> = std::sync::OnceLock::new();
    *STATE.get_or_init(|| {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(ABI::V1))
            .and_then(Ruleset::create);
        if rules.is_ok() { State::Enforced } else { State::Unavailable }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_kernel_is_what_it_does_to_a_command() {
        assert_eq!(Sandbox::new([]).run(|restricted| restricted).unwrap(), state());
    }
}
