//! The permission rules that hold in every session: those of the configuration, then those that the person kept
//! from answers, on disk, until they are taken back. Does not judge calls.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::config::{Layers, RuleValue};
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

/// Reads the configuration's rules. An invalid rule is reported and skipped.
pub fn configured(layers: &Layers) -> Vec<Rule> {
    usable(&layers.rules)
}

/// Those of rules that can be used. Another is reported and skipped.
pub fn usable(values: &[RuleValue]) -> Vec<Rule> {
    let mut rules = Vec::new();
    for RuleValue { value, place } in values {
        match Rule::read(value) {
            Ok(rule) => rules.push(rule),
            Err(problem) => tracing::warn!("{place}: a rule is left out: {problem}: {value}"),
        }
    }
    rules
}

/// The folder under which rules are kept.
fn workspace(cwd: &Path) -> PathBuf {
    cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned())
}

/// The rules of a state folder that were kept, of all workspaces. The file is the only copy: each look at it compares
/// its stamp, so that what any session or process keeps or takes back holds in all of them at once.
#[derive(Debug)]
pub struct KeptRules {
    state_dir: PathBuf,
    reading: Mutex<Reading>,
}

/// What the file contained when it was last read.
#[derive(Debug, Default)]
struct Reading {
    stamp: Option<Stamp>,
    rules: Vec<KeptRule>,
    /// The lines that are no rule, by their number, each with its workspace if that can be read.
    damaged: Vec<(usize, Option<String>)>,
    /// Why the file as it is now could not be read.
    unread: Option<String>,
}

/// The meaning of a line of the file.
#[derive(Debug)]
enum Line {
    Rule(KeptRule),
    /// A rule that decides nothing.
    Idle,
    /// A rule that denies may have stood there. Contains the workspace if that can be read.
    Damaged(Option<String>),
}

/// A rule of the file.
#[derive(Debug)]
struct KeptRule {
    workspace: String,
    rule: Rule,
    /// Whether calls are judged by it.
    is_used: bool,
}

/// Another version of the file has another stamp: device, inode, length, times of change.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl KeptRules {
    /// Those of a state folder. Reads nothing yet.
    pub fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), reading: Mutex::default() }
    }

    /// The rules that were kept for a folder, and whether each is used.
    pub fn of(&self, cwd: &Path) -> Vec<(Rule, bool)> {
        let here = workspace(cwd);
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.renew(&path(&self.state_dir));
        let is_here = |kept: &&KeptRule| here.to_str() == Some(&*kept.workspace);
        reading.rules.iter().filter(is_here).map(|kept| (kept.rule.clone(), kept.is_used)).collect()
    }

    /// Why not all rules of a folder are known, in a sentence: a rule that denies may be among the others, so that a call
    /// is asked about meanwhile.
    pub fn damage(&self, cwd: &Path) -> Option<String> {
        let here = workspace(cwd);
        let path = path(&self.state_dir);
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.renew(&path);
        let path = path.display();
        if let Some(why) = &reading.unread {
            return Some(format!(
                "{path} cannot be read: {why}. A rule that denies may stand there, so every call is asked about until \
                 it can be."
            ));
        }
        let may_be_here =
            |place: &&Option<String>| place.as_deref().is_none_or(|place| here.to_str() == Some(place));
        let (number, _) = reading.damaged.iter().find(|(_, place)| may_be_here(&place))?;
        Some(format!(
            "Line {number} of {path} cannot be read. A rule that denies may have stood there, so every call is asked \
             about until the line is corrected or removed."
        ))
    }

    /// Keeps a rule for all sessions in this workspace. One that is kept already is kept once.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn keep(&self, rule: &Rule, cwd: &Path) -> io::Result<()> {
        keep(&self.state_dir, rule, cwd)?;
        self.read_anew();
        Ok(())
    }

    /// Takes a rule out that was kept for a folder. It is gone from the disk when this returns.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn take_out(&self, rule: &Rule, cwd: &Path) -> io::Result<()> {
        take_out(&self.state_dir, rule, cwd)?;
        self.read_anew();
        Ok(())
    }

    /// A change of our own is read, whatever the resolution of the file's times.
    fn read_anew(&self) {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).stamp = None;
    }
}

impl Reading {
    /// Reads the file again if it is another one than before. While it cannot be read, what was read last holds.
    fn renew(&mut self, path: &Path) {
        // Before the bytes: a change in between has yet another stamp.
        let stamp = |file: Metadata| {
            let (modified, changed) = ((file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec()));
            (file.dev(), file.ino(), file.len(), modified, changed)
        };
        let read = std::fs::metadata(path).map(stamp).and_then(|stamp| match self.stamp == Some(stamp) {
            true => Ok(None),
            false => Ok(Some((stamp, files::read(&path.canonicalize()?, CONFIG_BYTES)?))),
        });
        let (stamp, bytes) = match read {
            Ok(None) => return,
            Ok(Some((stamp, bytes))) => (Some(stamp), bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, Vec::new()),
            Err(error) => {
                tracing::warn!(%error, "the rules that were kept, also those that deny, could not be read");
                self.unread = Some(error.to_string());
                // The same file counts as another one when it is back.
                self.stamp = None;
                return;
            }
        };
        *self = Self { stamp, ..Self::default() };
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            match KeptRule::read(line) {
                Line::Rule(rule) => self.rules.push(rule),
                Line::Idle => {}
                Line::Damaged(workspace) => {
                    tracing::warn!("line {number} of {} cannot be read", path.display());
                    self.damaged.push((number, workspace));
                }
            }
        }
    }
}

impl KeptRule {
    fn read(line: &[u8]) -> Line {
        if line.trim_ascii().is_empty() {
            return Line::Idle;
        }
        let Ok(value) = edn::read_one(line) else { return Line::Damaged(None) };
        let Some(workspace) = value.get("workspace").and_then(Value::as_str).map(str::to_owned) else {
            return Line::Damaged(None);
        };
        let Some(rule) = of(&value, Path::new(&workspace)) else { return Line::Damaged(Some(workspace)) };
        if rule.decision == Decision::Ask {
            return Line::Idle;
        }
        // Earlier versions suggested rules that also allow other programs. One that denies is never too wide.
        let is_used = rule.decision == Decision::Deny
            || has_form(&value)
            || permission::is_narrow(&rule, Path::new(&workspace));
        if !is_used {
            tracing::warn!(
                "a rule that was kept is wider than what is suggested now, and left out: {rule}",
                rule = rule.to_value()
            );
        }
        Line::Rule(Self { workspace, rule, is_used })
    }
}

/// Whether a line has today's format.
fn has_form(line: &Value<'_>) -> bool {
    line.get("form").and_then(Value::as_i64) == Some(FORM)
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
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true).mode(0o600);
        let file = private::open_regular(&path, options, OFlags::empty())?;
        flock(&file, FlockOperation::LockExclusive)?;
        // A rule may have been taken back meanwhile, with which the file was replaced.
        let named = std::fs::metadata(&path).ok();
        let held = file.metadata()?;
        if named.is_some_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok(file);
        }
    }
}

fn keep(state_dir: &Path, rule: &Rule, cwd: &Path) -> io::Result<()> {
    let here = workspace(cwd);
    let mut file = open(state_dir)?;
    let before = whole(&file)?;
    let is_kept = |line: &[u8]| {
        edn::read_one(line).is_ok_and(|line| has_form(&line) && of(&line, &here).as_ref() == Some(rule))
    };
    if before.split(|byte| *byte == b'\n').any(is_kept) {
        return Ok(());
    }
    let mut kept = Map::new();
    kept.put("workspace", here.to_string_lossy().into_owned());
    kept.put("form", FORM);
    kept.put("rule", rule.to_value());
    let mut line = Vec::new();
    // A line that was cut off, or written by hand without an end, does not swallow this one.
    if before.last().is_some_and(|byte| *byte != b'\n') {
        line.push(b'\n');
    }
    edn::write_compact(&Value::from(kept), &mut line);
    line.push(b'\n');
    let bytes = u64::try_from(before.len().saturating_add(line.len())).unwrap_or(u64::MAX);
    if bytes > CONFIG_BYTES {
        return Err(too_long());
    }
    // Half a line would be a damaged one.
    let length = u64::try_from(before.len()).unwrap_or(u64::MAX);
    file.write_all(&line).inspect_err(|_| {
        let _ = file.set_len(length);
    })
}

/// All of an open file of rules.
fn whole(file: &File) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > CONFIG_BYTES {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Of a longer file, nothing would be read: the rules that deny would be lost.
fn too_long() -> io::Error {
    io::Error::other(format!(
        "rules.edn in the state folder may have {CONFIG_BYTES} bytes; take lines out by hand"
    ))
}

fn take_out(state_dir: &Path, rule: &Rule, cwd: &Path) -> io::Result<()> {
    let here = workspace(cwd);
    let file = open(state_dir)?;
    let before = whole(&file)?;
    let mut rest = Vec::with_capacity(before.len());
    for line in before.split_inclusive(|byte| *byte == b'\n') {
        let known = edn::read_one(line).ok().and_then(|value| of(&value, &here));
        if known.as_ref() != Some(rule) {
            rest.extend_from_slice(line);
        }
    }
    private::replace(&path(state_dir), &rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denying(command: &str) -> Rule {
        let (tool, command) = (Some("bash".to_owned()), Some(command.to_owned()));
        Rule { decision: Decision::Deny, tool, command, ..Rule::allowing() }
    }

    #[test]
    fn rule_of_another_process_holds_at_once() {
        let (folder, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (ours, theirs) = (KeptRules::new(folder.path()), KeptRules::new(folder.path()));
        let (rm, mv) = (denying("rm"), denying("mv"));
        assert_eq!(ours.of(cwd.path()), []);
        theirs.keep(&rm, cwd.path()).unwrap();
        theirs.keep(&mv, cwd.path()).unwrap();
        assert_eq!(ours.of(cwd.path()), [(rm.clone(), true), (mv.clone(), true)]);
        assert_eq!(ours.of(folder.path()), [], "of another workspace");
        // Both lines have the same length, and the file may have the same times.
        theirs.take_out(&rm, cwd.path()).unwrap();
        assert_eq!(ours.of(cwd.path()), [(mv.clone(), true)]);
        ours.take_out(&mv, cwd.path()).unwrap();
        ours.keep(&rm, cwd.path()).unwrap();
        assert_eq!(ours.of(cwd.path()), [(rm.clone(), true)]);
        assert_eq!(theirs.of(cwd.path()), [(rm, true)]);
    }

    #[test]
    fn rule_that_is_kept_twice_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let rules = KeptRules::new(folder.path());
        // A crash has left the first line without an end.
        std::fs::write(path(folder.path()), "{:workspace").unwrap();
        for _ in 0..3 {
            rules.keep(&denying("rm"), folder.path()).unwrap();
            KeptRules::new(folder.path()).keep(&denying("rm"), folder.path()).unwrap();
        }
        rules.keep(&denying("mv"), folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(path(folder.path())).unwrap().lines().count(), 3);
        assert_eq!(rules.of(folder.path()), [(denying("rm"), true), (denying("mv"), true)]);
    }

    #[test]
    fn rules_that_cannot_be_read_go_on_to_deny() {
        let folder = tempfile::tempdir().unwrap();
        let rules = KeptRules::new(folder.path());
        rules.keep(&denying("rm"), folder.path()).unwrap();
        assert_eq!(rules.of(folder.path()).len(), 1);
        std::fs::remove_file(path(folder.path())).unwrap();
        std::fs::create_dir(path(folder.path())).unwrap();
        assert_eq!(rules.of(folder.path()).len(), 1);
        for rules in [&rules, &KeptRules::new(folder.path())] {
            let told = rules.damage(folder.path()).expect("what is new there is unknown");
            assert!(told.contains("rules.edn cannot be read"), "{told}");
        }
        std::fs::remove_dir(path(folder.path())).unwrap();
        assert_eq!(rules.of(folder.path()), []);
        assert_eq!(rules.damage(folder.path()), None);
    }

    #[test]
    fn damaged_line_is_told_where_its_rule_may_have_held() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rules = KeptRules::new(folder.path());
        let here = folder.path().canonicalize().unwrap();
        let whole = |rule: &str| format!("{{:workspace {here:?} :form 3 :rule {rule}}}");
        let deny = whole("{:decision :deny :tool \"bash\" :command \"rm\"}");
        for (line, is_told_here, is_told_there) in [
            (deny.clone(), false, false),
            (whole("{:decision :ask :tool \"bash\"}"), false, false),
            (String::new(), false, false),
            (deny[..deny.len() / 2].to_owned(), true, true),
            (deny.replace(":deny", ":demy"), true, false),
            (whole("{:decision :deny :path \"[\"}"), true, false),
            (format!("{{:workspace {here:?} :form 3}}"), true, false),
            (deny.replace(":workspace", ":workplace"), true, true),
            ("\0\0\0".to_owned(), true, true),
        ] {
            std::fs::write(path(folder.path()), format!("{deny}\n{line}\n")).unwrap();
            let told = [folder.path(), other.path()].map(|cwd| rules.damage(cwd));
            assert_eq!(told.each_ref().map(Option::is_some), [is_told_here, is_told_there], "{line}");
            assert!(told.iter().flatten().all(|told| told.starts_with("Line 2 of /")), "{told:?}");
            assert_eq!(rules.of(folder.path())[0], (denying("rm"), true), "{line}");
        }
    }

    #[test]
    fn file_of_rules_that_is_too_long_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let rule = denying("rm");
        keep(folder.path(), &rule, folder.path()).unwrap();
        let mut text = std::fs::read(path(folder.path())).unwrap();
        text.extend(std::iter::repeat_n(b'\n', usize::try_from(CONFIG_BYTES).unwrap()));
        std::fs::write(path(folder.path()), &text).unwrap();
        take_out(folder.path(), &rule, folder.path()).unwrap_err();
        keep(folder.path(), &rule, folder.path()).unwrap_err();
        assert!(std::fs::read(path(folder.path())).unwrap() == text, "nothing of it is lost");
    }
}
