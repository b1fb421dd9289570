//! Landlock; [`calls`] adds system calls.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::super::calls;
use crate::files;
use crate::limits::SANDBOX_ENTRIES;

/// The rights that are restricted are those of this version, as far as the kernel knows them: writing, since
/// version 5 the control of devices (typing into a terminal), since version 6 signals and abstract sockets.
/// Version 9 could withhold named sockets too; agents for SSH keys and signatures are reached through those.
const KNOWN: ABI = ABI::V6;

/// Lets the calling thread write below some folders alone, and neither to what is kept nor to what is hidden, which it
/// cannot read either; these are without links. Says whether the kernel does it.
pub(super) fn restrict(
    writable: &[PathBuf],
    kept: &[PathBuf],
    hidden: &[PathBuf],
    shown: &[PathBuf],
) -> io::Result<bool> {
    enter(writable, kept, hidden, shown).map_err(|error| io::Error::other(error.to_string()))
}

/// Whether this kernel has Landlock: makes rules and does not enter them.
pub(super) fn restricts() -> bool {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ABI::V1))
        .and_then(Ruleset::create);
    rules.is_ok()
}

fn enter(
    writable: &[PathBuf],
    kept: &[PathBuf],
    hidden: &[PathBuf],
    shown: &[PathBuf],
) -> Result<bool, RulesetError> {
    let write = AccessFs::from_write(KNOWN);
    let read = BitFlags::from(AccessFs::ReadFile);
    let mut handled = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .scope(Scope::from_all(KNOWN))?;
    if !hidden.is_empty() {
        handled = handled.handle_access(read)?;
    }
    let mut rules = Rules(handled.create()?);
    let kept = [kept, hidden].concat();
    for folder in writable {
        rules = rules.around(folder, &kept, write)?;
    }
    if !hidden.is_empty() {
        rules = rules.around(Path::new("/"), hidden, read)?;
        // The workspace too where a folder above it cannot be listed.
        for folder in writable {
            rules = rules.around(folder, hidden, read)?;
        }
        for folder in shown {
            rules = rules.allow(folder, read)?;
        }
    }
    let status = rules.0.restrict_self()?;
    calls::restrict();
    Ok(status.ruleset != RulesetStatus::NotEnforced)
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
