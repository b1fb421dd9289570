//! The permission rules that hold in every session: those of the configuration, then those that the person kept
//! from answers, on disk, until they are taken back. Does not judge calls.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use crate::config::{Layers, RuleValue, Settings};
use crate::edn;
use crate::files;
use crate::limits::CONFIG_BYTES;
use crate::private;
use crate::tool::permission::{self, Decision, Rule};
use crate::value::{Map, Value};

/// The format of a kept rule. Rules of an older format are checked again.
const FORM: i64 = 3;

/// The file of kept rules: one line per rule, with its workspace.
fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("rules.edn")
}

/// The rules at a reading of the configuration.
#[derive(Debug, Default)]
pub struct Rules {
    /// Those of the configuration, then those that were kept.
    pub all: Vec<Rule>,
    /// How many are the configuration's.
    pub configured: usize,
}

/// Reads the rules. An invalid rule is reported and skipped.
pub fn load(settings: &Settings, layers: &Layers) -> Rules {
    let mut all = Vec::new();
    for RuleValue { value, place } in &layers.rules {
        match Rule::read(value) {
            Ok(rule) => all.push(rule),
            Err(problem) => tracing::warn!("{place}: a rule is left out: {problem}: {value}"),
        }
    }
    let configured = all.len();
    for (rule, is_used) in kept(&settings.state_dir, &settings.cwd) {
        if is_used {
            all.push(rule);
        } else {
            tracing::warn!(
                "a rule that was kept is wider than what is suggested now, and left out: {rule}",
                rule = rule.to_value()
            );
        }
    }
    Rules { all, configured }
}

/// The folder under which rules are kept.
fn workspace(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned())
}

/// The rules that were kept for a folder, and whether each is used.
pub fn kept(state_dir: &Path, cwd: &Path) -> Vec<(Rule, bool)> {
    let kept = path(state_dir).canonicalize().and_then(|path| files::read(&path, CONFIG_BYTES));
    let here = workspace(cwd);
    let lines = kept.unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(%error, "the rules that were kept, also those that deny, could not be read");
        }
        Vec::new()
    });
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let rule = |line: &[u8]| {
        let value = edn::read_one(line).ok()?;
        let rule = of(&value, &here).filter(|rule| rule.decision != Decision::Ask)?;
        // Earlier versions suggested rules that also allow other programs. One that denies is never too wide.
        let is_used =
            rule.decision == Decision::Deny || value.get("form").and_then(Value::as_i64) == Some(FORM);
        Some((rule.clone(), is_used || permission::is_narrow(&rule, &here)))
    };
    lines.filter_map(rule).collect()
}

/// The rule of a line, if it was kept for that folder.
fn of(line: &Value<'_>, workspace: &Path) -> Option<Rule> {
    let is_here = line.get("workspace").and_then(Value::as_str) == workspace.to_str();
    line.get("rule").filter(|_| is_here).and_then(|rule| Rule::read(rule).ok())
}

/// Opens the file of kept rules, which no other process changes until it is closed.
fn open(state_dir: &Path) -> io::Result<File> {
    private::make_folder(state_dir)?;
    let path = path(state_dir);
    loop {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        // A rule may have been taken back meanwhile, with which the file was replaced.
        let named = std::fs::metadata(&path).ok();
        let held = file.metadata()?;
        if named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(file);
        }
    }
}

/// Keeps a rule for later processes in this workspace.
///
/// # Errors
/// What the system refuses.
pub fn keep(state_dir: &Path, rule: &Rule, workspace: &Path) -> io::Result<()> {
    let mut kept = Map::new();
    kept.put("workspace", workspace.to_string_lossy().into_owned());
    kept.put("form", FORM);
    kept.put("rule", rule.to_value());
    let mut line = Vec::new();
    edn::write_compact(&Value::from(kept), &mut line);
    line.push(b'\n');
    let mut file = open(state_dir)?;
    let bytes = file.metadata()?.len().saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
    if bytes > CONFIG_BYTES {
        return Err(too_long());
    }
    file.write_all(&line)
}

/// Of a longer file, nothing would be read: the rules that deny would be lost.
fn too_long() -> io::Error {
    io::Error::other(format!(
        "rules.edn in the state folder may have {CONFIG_BYTES} bytes; take lines out by hand"
    ))
}

/// Takes a rule out that was kept for a folder. It is gone from the disk when this returns.
///
/// # Errors
/// What the system refuses.
pub fn take_out(state_dir: &Path, rule: &Rule, cwd: &Path) -> io::Result<()> {
    let here = workspace(cwd);
    let file = open(state_dir)?;
    if file.metadata()?.len() > CONFIG_BYTES {
        return Err(too_long());
    }
    let mut before = Vec::new();
    (&file).take(CONFIG_BYTES).read_to_end(&mut before)?;
    let mut rest = Vec::with_capacity(before.len());
    for line in before.split_inclusive(|byte| *byte == b'\n') {
        let known = edn::read_one(line).ok().and_then(|value| of(&value, &here));
        if known.as_ref() != Some(rule) {
            rest.extend_from_slice(line);
        }
    }
    private::replace(&path(state_dir), &rest)
}

/// The kept rules that were taken back since the configuration was read.
#[derive(Debug, Default)]
pub struct TakenBack(Mutex<Vec<(u64, PathBuf, Rule)>>);

impl TakenBack {
    /// Whether a kept rule of that revision was taken back.
    pub fn has(&self, revision: u64, cwd: &Path, rule: &Rule) -> bool {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().any(|(at, folder, other)| *at >= revision && folder == cwd && other == rule)
    }

    /// A kept rule was taken back.
    pub fn put(&self, revision: u64, cwd: &Path, rule: &Rule) {
        self.forget(cwd, rule);
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.push((revision, cwd.to_owned(), rule.clone()));
    }

    /// The rule was kept again.
    pub fn forget(&self, cwd: &Path, rule: &Rule) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|(_, folder, other)| folder != cwd || other != rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_rules_that_is_too_long_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (tool, command) = (Some("bash".to_owned()), Some("rm".to_owned()));
        let rule = Rule { decision: Decision::Deny, tool, command, ..Rule::allowing() };
        keep(folder.path(), &rule, folder.path()).unwrap();
        let mut text = std::fs::read(path(folder.path())).unwrap();
        text.extend(std::iter::repeat_n(b'\n', usize::try_from(CONFIG_BYTES).unwrap()));
        std::fs::write(path(folder.path()), &text).unwrap();
        take_out(folder.path(), &rule, folder.path()).unwrap_err();
        keep(folder.path(), &rule, folder.path()).unwrap_err();
        assert!(std::fs::read(path(folder.path())).unwrap() == text, "nothing of it is lost");
    }
}
