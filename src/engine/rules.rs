//! The permission rules that hold in every session: those of the configuration, then those that the person kept
//! from answers, on disk. Does not judge calls.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Layers, Settings};
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

/// The rules at the start of a process. An invalid rule is reported and skipped.
pub fn load(settings: &Settings, layers: &Layers) -> Vec<Rule> {
    let mut rules = Vec::new();
    for value in &layers.rules {
        match Rule::read(value) {
            Ok(rule) => rules.push(rule),
            Err(problem) => tracing::warn!("a rule of the configuration was left out: {problem}: {value}"),
        }
    }
    let kept = path(&settings.state_dir).canonicalize().and_then(|path| files::read(&path, CONFIG_BYTES));
    let kept = kept.unwrap_or_default();
    let here = settings.cwd.canonicalize().unwrap_or_else(|_| settings.cwd.clone());
    for line in kept.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(value) = edn::read_one(line) else { continue };
        let workspace = value.get("workspace").and_then(Value::as_str);
        let rule = value.get("rule").and_then(|rule| Rule::read(rule).ok());
        let (true, Some(rule)) = (workspace == here.to_str(), rule) else { continue };
        if rule.decision != Decision::Allow {
            continue;
        }
        // Earlier versions suggested rules that also allow other programs.
        if value.get("form").and_then(Value::as_i64) == Some(FORM) || permission::is_narrow(&rule, &here) {
            rules.push(rule);
        } else {
            tracing::warn!(
                "a rule that was kept is wider than what is suggested now, and left out: {line}",
                line = value
            );
        }
    }
    rules
}

/// Keeps a rule for later processes in this workspace.
///
/// # Errors
/// What the system refuses.
pub fn keep(state_dir: &Path, rule: &Rule, workspace: &Path) -> std::io::Result<()> {
    let mut kept = Map::new();
    kept.put("workspace", workspace.to_string_lossy().into_owned());
    kept.put("form", FORM);
    kept.put("rule", rule.to_value());
    let mut line = Vec::new();
    edn::write_compact(&Value::from(kept), &mut line);
    line.push(b'\n');
    private::make_folder(state_dir)?;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path(state_dir))?;
    file.write_all(&line)
}
