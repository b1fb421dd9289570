//! Permission rules as plain data, in the notation of a configuration. Judges nothing.

use crate::value::{Map, Value};

/// A permission rule, from the configuration or from a person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The decision about matching calls.
    pub decision: Decision,
    /// The tool; `None` for any.
    pub tool: Option<String>,
    /// A glob for the path, absolute or relative to the workspace; `None` for any. A relative glob that
    /// allows does not match outside the workspace.
    pub path: Option<String>,
    /// The first words of the command; `None` for any.
    pub command: Option<String>,
    /// Whether `command` is the whole command, verbatim.
    pub exact: bool,
}

/// The decision of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run without asking.
    Allow,
    /// Ask.
    Ask,
    /// Refuse.
    Deny,
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
    /// Reads `{:decision :allow :tool "bash" :path "src/**" :command "cargo test"}`.
    ///
    /// # Errors
    /// The error, for a person. A rule with any error is refused, because ignoring a part makes a rule wider.
    pub fn from_value(value: &Value<'_>) -> Result<Self, String> {
        let map = value.as_map().ok_or_else(|| format!("a rule is a map, not {}", value.kind_name()))?;
        let mut rule = Self { decision: Decision::Ask, tool: None, path: None, command: None, exact: false };
        let mut decided = false;
        for (key, value) in map.iter() {
            let text = || {
                let text = value.as_str().or_else(|| value.as_keyword()).filter(|text| !text.is_empty());
                text.map(str::to_owned).ok_or_else(|| format!("{key} of a rule must be a string"))
            };
            match key.as_keyword() {
                Some("decision") => {
                    decided = true;
                    rule.decision = match text()?.as_str() {
                        "allow" => Decision::Allow,
                        "ask" => Decision::Ask,
                        "deny" => Decision::Deny,
                        other => return Err(format!("a rule allows, asks or denies; {other:?} is neither")),
                    };
                }
                Some("tool") => rule.tool = Some(text()?),
                Some("path") => rule.path = Some(text()?),
                Some("command") => rule.command = Some(text()?),
                Some("exact") => {
                    rule.exact =
                        value.as_bool().ok_or_else(|| ":exact of a rule must be true or false".to_owned())?;
                }
                _ => return Err(format!("a rule has no {key}")),
            }
        }
        if decided { Ok(rule) } else { Err("a rule needs a :decision".to_owned()) }
    }

    /// The rule in the notation of a configuration.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("decision", Value::keyword(self.decision.as_str()));
        map.put_some("tool", self.tool.clone());
        map.put_some("path", self.path.clone());
        map.put_some("command", self.command.clone());
        if self.exact {
            map.put("exact", true);
        }
        Value::from(map)
    }
}
