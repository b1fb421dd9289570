//! Permission rules as plain data, in the notation of a configuration. Judges nothing.

use serde::{Deserialize, Serialize};

use crate::limits::RULE_WORDS;
use crate::value::{Map, Value};

/// A permission rule, from the configuration or from a person's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The decision about matching calls.
    pub decision: Decision,
    /// The tool, or the start of its name with a `*` at the end; `None` for any.
    pub tool: Option<String>,
    /// A glob for the path, absolute or relative to the workspace; `None` for any. A relative glob that
    /// allows does not match outside the workspace.
    pub path: Option<String>,
    /// The first words of the command; `None` for any.
    pub command: Option<String>,
    /// The host of an address, `docs.rs`, or all below a domain, `*.docs.rs`; with a port after a colon. `None` for any. A
    /// rule that allows means the usual port if it has none.
    pub host: Option<String>,
    /// Whether `command` is the whole command, verbatim.
    pub exact: bool,
}

/// The decision of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// Run without asking.
    Allow,
    /// Ask.
    Ask,
    /// Refuse.
    Deny,
}

/// Why a value is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has another kind.
    #[error("a rule is a map, not {0}")]
    NotAMap(&'static str),
    /// A key needs a text.
    #[error("{0} of a rule must be a string")]
    NotAString(String),
    /// `:exact` is no boolean.
    #[error(":exact of a rule must be true or false")]
    Exact,
    /// The decision is none of the three.
    #[error("a rule allows, asks or denies; {0:?} is neither")]
    Decision(String),
    /// It decides nothing.
    #[error("a rule needs a :decision")]
    NoDecision,
    /// Rules have no such key.
    #[error("a rule has no {0}")]
    UnknownKey(String),
    /// A `*` of its tool is not at the end. Contains the tool.
    #[error(
        ":tool of a rule names one tool, or with * at the end all whose names begin so; {0:?} has a * elsewhere and \
         would match none"
    )]
    Tool(String),
    /// Its glob cannot be matched.
    #[error("{0}")]
    Glob(String),
    /// Its command has too many words.
    #[error(":command of a rule has at most {RULE_WORDS} words, unless it is :exact")]
    Words,
    /// A short form that cannot be read. Contains it.
    #[error(
        "{0:?} is no rule: write TOOL, TOOL:PATH, bash:COMMAND, fetch:HOST, or bash=LINE for a whole command, verbatim"
    )]
    Short(String),
    /// Its host is none.
    #[error(":host of a rule: {0}")]
    Host(String),
}

impl Decision {
    /// The name in a configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl Rule {
    /// The rule that allows everything, to make a narrower one of.
    pub const fn allowing() -> Self {
        Self { decision: Decision::Allow, tool: None, path: None, command: None, host: None, exact: false }
    }

    /// Reads `{:decision :allow :tool "bash" :path "src/**" :command "cargo test" :host "docs.rs"}`.
    ///
    /// # Errors
    /// See [`RuleError`]. A rule with any error is refused, because ignoring a part makes a rule wider.
    pub fn from_value(value: &Value<'_>) -> Result<Self, RuleError> {
        let map = value.as_map().ok_or_else(|| RuleError::NotAMap(value.kind_name()))?;
        let mut rule =
            Self { decision: Decision::Ask, tool: None, path: None, command: None, host: None, exact: false };
        let mut decided = false;
        for (key, value) in map.iter() {
            let text = || {
                let text = value.as_str().or_else(|| value.as_keyword()).filter(|text| !text.is_empty());
                text.map(str::to_owned).ok_or_else(|| RuleError::NotAString(key.to_string()))
            };
            match key.as_keyword() {
                Some("decision") => {
                    decided = true;
                    rule.decision = match text()?.as_str() {
                        "allow" => Decision::Allow,
                        "ask" => Decision::Ask,
                        "deny" => Decision::Deny,
                        other => return Err(RuleError::Decision(other.to_owned())),
                    };
                }
                Some("tool") => rule.tool = Some(text()?),
                Some("path") => rule.path = Some(text()?),
                Some("command") => rule.command = Some(text()?),
                Some("host") => rule.host = Some(text()?),
                Some("exact") => {
                    rule.exact = value.as_bool().ok_or(RuleError::Exact)?;
                }
                _ => return Err(RuleError::UnknownKey(key.to_string())),
            }
        }
        if decided { Ok(rule) } else { Err(RuleError::NoDecision) }
    }

    /// Whether it is about the tool of that name.
    pub fn names(&self, tool: &str) -> bool {
        self.tool.as_deref().is_none_or(|named| match named.strip_suffix('*') {
            Some(start) => tool.starts_with(start),
            None => named == tool,
        })
    }

    /// Whether it allows the tool of that name because it names it.
    pub fn allows_by_name(&self, tool: &str) -> bool {
        self.decision == Decision::Allow && self.tool.is_some() && self.names(tool)
    }

    /// The rule in words: `allow bash: git status`.
    pub fn text(&self) -> String {
        let mut text = format!("{} {}", self.decision.as_str(), self.tool.as_deref().unwrap_or("every tool"));
        if let Some(path) = &self.path {
            text.push_str(&format!(" in {path}"));
        }
        if let Some(host) = &self.host {
            text.push_str(&format!(" from {host}"));
        }
        if let Some(command) = &self.command {
            text.push_str(if self.exact { ", exactly: " } else { ": " });
            text.push_str(command);
        }
        text
    }

    /// The rule in the notation of a configuration.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("decision", Value::keyword(self.decision.as_str()));
        map.put_some("tool", self.tool.clone());
        map.put_some("path", self.path.clone());
        map.put_some("command", self.command.clone());
        map.put_some("host", self.host.clone());
        if self.exact {
            map.put("exact", true);
        }
        Value::from(map)
    }
}
