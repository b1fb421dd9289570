//! The permission rules of every session: those of the configuration, then those that the person kept from
//! answers. Does not judge calls.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use crate::config::{ConfigError, Layers, Settings};
use crate::context::Scope;
use crate::edn;
use crate::files;
use crate::limits::CONFIG_BYTES;
use crate::private;
use crate::runtime::Shared;
use crate::runtime::mailbox::Handle;
use crate::session::{ApiError, Reach};
use crate::tool::glob;
use crate::tool::permission::{self, Decision, Ground, Rule};
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
        match Rule::from_value(value) {
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
        let rule = value.get("rule").and_then(|rule| Rule::from_value(rule).ok());
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

impl Shared {
    /// The workspace of a session for judging its calls, with the program's own files.
    pub(super) fn ground(&self, workspace: &Path) -> Ground {
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let files = &self.settings.files;
        let beside = files.user.as_deref().and_then(Path::parent).map(|folder| folder.join("workflows"));
        let own =
            [Some(&self.settings.state_dir), files.folder.as_ref(), files.user.as_ref(), beside.as_ref()];
        Ground {
            workspace: workspace.to_owned(),
            home: dirs::home_dir().map(|home| resolved(&home)),
            own: own.into_iter().flatten().map(|path| resolved(path)).collect(),
        }
    }

    /// The rules for a session's calls, in order: the configuration's, those from answers, and permission to
    /// read the files of the user's own skills.
    pub(super) fn rules_for(&self, configured: &[Rule], session: &Handle) -> Vec<Rule> {
        let mut rules = configured.to_vec();
        rules.extend_from_slice(&session.rules.lock().unwrap_or_else(PoisonError::into_inner));
        let project = self.library.known_for(Path::new(&*session.snapshot().facts.cwd));
        let skills = project.iter().flat_map(|project| project.skills.values());
        rules.extend(skills.filter(|skill| skill.scope == Scope::User).map(|skill| Rule {
            decision: Decision::Allow,
            tool: Some("read".to_owned()),
            path: Some(format!("{}/**", glob::escape(&skill.folder.to_string_lossy()))),
            command: None,
            exact: false,
        }));
        rules
    }

    /// Trusts the current configuration of a session's folder, or stops trusting it, from the next stage on.
    ///
    /// # Errors
    /// If the choice cannot be stored, or the project's file cannot be read.
    pub(super) fn trust(&self, cwd: &str, yes: bool) -> Result<(), ApiError> {
        let failed = |error: ConfigError| ApiError::failed(error.to_string());
        let files = self.files_of(cwd);
        files.set_trusted(yes).map_err(failed)?;
        files.read().map_err(failed)?;
        self.reload().map(drop)
    }

    /// Keeps a model for new sessions of this process and later ones.
    ///
    /// # Errors
    /// If it cannot be stored; nothing has changed then.
    pub(super) fn choose(&self, reach: Reach, provider: &str, model: &str) -> Result<(), ApiError> {
        let kept = self.settings.files.choose_model(reach == Reach::Project, provider, model);
        kept.map_err(|error| ApiError::failed(error.to_string()))?;
        // As a later process would read it: a project's choice has priority over the user's.
        let layers = self.settings.files.read().map_err(|error| ApiError::failed(error.to_string()))?;
        let usual = match (layers.provider, layers.model) {
            (Some(provider), Some(model)) => (provider.into(), model.into()),
            _ => (provider.into(), model.into()),
        };
        self.usual_model.store(Arc::new(usual));
        Ok(())
    }

    /// Keeps a rule for later processes in this workspace.
    pub(super) fn keep_rule(&self, rule: &Rule, workspace: &Path) -> std::io::Result<()> {
        let mut kept = Map::new();
        kept.put("workspace", workspace.to_string_lossy().into_owned());
        kept.put("form", FORM);
        kept.put("rule", rule.to_value());
        let mut line = Vec::new();
        edn::write_compact(&Value::from(kept), &mut line);
        line.push(b'\n');
        private::make_folder(&self.settings.state_dir)?;
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(path(&self.settings.state_dir))?;
        file.write_all(&line)
    }
}
