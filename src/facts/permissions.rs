//! Permissions as people see them: rules and where each comes from, records of decisions, and what trust lets run.
//! Plain data: decides nothing and knows no wire.

use std::collections::BTreeMap;

use crate::facts::rule::Rule;
use crate::value::Map;

/// A rule of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedRule {
    /// Names it: the same for as long as it is the same rule of the same source.
    pub id: String,
    /// The rule.
    pub rule: Rule,
    /// Where it comes from.
    pub source: RuleSource,
    /// Why calls are not judged by it, if they are not.
    pub idle: Option<&'static str>,
}

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSource {
    /// An option of the command that runs, with which it ends.
    Option,
    /// A file of the configuration, which only the person changes.
    Configuration,
    /// An answer that was to hold in every session of the workspace.
    Kept,
    /// An answer that was to hold in this session.
    Session,
}

impl RuleSource {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::Configuration => "configuration",
            Self::Kept => "kept",
            Self::Session => "session",
        }
    }
}

/// Which records of decisions are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditWanted {
    /// Those of all sessions, not only of the asking one and its subagents.
    pub all: bool,
    /// Those before that place; without one, the newest.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: Option<usize>,
}

/// Records of decisions, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditPage {
    /// The records, without the digests that chain them.
    pub records: Vec<Map<'static>>,
    /// The place before which there may be older ones.
    pub next: Option<u64>,
}

/// What a project's configuration would do if it were trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustPreview {
    /// `none`, `trusted`, `changed` since it was trusted, or trusted by an `earlier` version.
    pub state: &'static str,
    /// What it lets run, and what it widens.
    pub runs: Vec<ProjectEffect>,
    /// What in it cannot be used, or keeps it from being trusted.
    pub problems: Vec<String>,
    /// The digests of its files, by their paths from the project's folder.
    pub files: BTreeMap<String, String>,
}

/// One thing that a project's configuration would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectEffect {
    /// Its kind, such as `hook`.
    pub kind: &'static str,
    /// Its name in the configuration.
    pub name: String,
    /// The command, or what else it is.
    pub text: String,
}
