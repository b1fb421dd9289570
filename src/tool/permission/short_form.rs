//! Rules as a person writes them on a command line: `edit`, `bash:npm test`, `write:src/**`, `fetch:docs.rs`. Judges nothing.

use super::{Decision, Rule, RuleError};
use crate::catalogue::tools::{ToolRow, Touches};
use crate::tool;

/// The part of a call that the text behind the tool is about.
enum Subject {
    Command,
    Host,
    Path,
}

/// The part that the rules of a tool are about.
fn subject(tool: &str) -> Subject {
    match ToolRow::of(tool).map(|row| row.touches) {
        Some(Touches::Command) => Subject::Command,
        Some(Touches::Host) => Subject::Host,
        Some(Touches::Path | Touches::Nothing) | None => Subject::Path,
    }
}

impl Rule {
    /// Reads the short form of a rule: `TOOL` for all calls of a tool, `TOOL:TEXT` for those about a command's first words
    /// (bash), a host (fetch) or a glob of paths (others), `bash=LINE` for a whole command, verbatim.
    ///
    /// # Errors
    /// [`RuleError::Short`], and those of [`Rule::check`].
    pub fn from_short(decision: Decision, text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::Short(text.to_owned());
        let (tool, subject_text, exact) = match text.find([':', '=']).and_then(|at| text.split_at_checked(at))
        {
            None => (text.trim(), None, false),
            Some((tool, rest)) => {
                let exact = rest.starts_with('=');
                let rest = rest.get(1..).unwrap_or_default();
                // A whole command is compared verbatim.
                let rest = if exact { rest } else { rest.trim() };
                (tool.trim(), Some(rest.to_owned()), exact)
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '*');
        let is_empty = subject_text.as_deref().is_some_and(|text| text.trim().is_empty());
        if tool.is_empty() || !tool.chars().all(is_name) || is_empty || (exact && tool != tool::BASH) {
            return Err(wrong());
        }
        let mut rule = Self {
            decision,
            tool: Some(tool.to_owned()).filter(|tool| tool != "*"),
            exact,
            ..Self::allowing()
        };
        if subject_text.is_some() {
            if tool.contains('*') {
                return Err(wrong());
            }
            let place = match subject(tool) {
                Subject::Command => &mut rule.command,
                Subject::Host => &mut rule.host,
                Subject::Path => &mut rule.path,
            };
            *place = subject_text;
        }
        rule.check().map(|()| rule)
    }

    /// Its short form, which [`Rule::from_short`] reads; `None` if it has none.
    pub fn short(&self) -> Option<String> {
        let tool = self.tool.as_deref().unwrap_or("*");
        let subject_text = match subject(tool) {
            Subject::Command => &self.command,
            Subject::Host => &self.host,
            Subject::Path => &self.path,
        };
        let mark = if self.exact { '=' } else { ':' };
        let short = match subject_text {
            Some(text) => format!("{tool}{mark}{text}"),
            None => tool.to_owned(),
        };
        // A form that leaves something out is another, wider rule.
        let again = Self::from_short(self.decision, &short).ok();
        again.filter(|again| again == self).map(|_| short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::read(&crate::edn::read_one(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn short_form_is_read_and_written() {
        for (short, whole) in [
            ("edit", "{:decision :allow :tool \"edit\"}"),
            ("bash:npm test", "{:decision :allow :tool \"bash\" :command \"npm test\"}"),
            (
                "bash=a  | b: 'c=d'",
                "{:decision :allow :tool \"bash\" :command \"a  | b: 'c=d'\" :exact true}",
            ),
            ("bash:CI=1", "{:decision :allow :tool \"bash\" :command \"CI=1\"}"),
            ("fetch:docs.rs:8080", "{:decision :allow :tool \"fetch\" :host \"docs.rs:8080\"}"),
            ("write:src/**", "{:decision :allow :tool \"write\" :path \"src/**\"}"),
            ("mcp__git__*", "{:decision :allow :tool \"mcp__git__*\"}"),
            ("*", "{:decision :allow}"),
        ] {
            let read = Rule::from_short(Decision::Allow, short).unwrap();
            assert_eq!(read, rule(whole), "{short}");
            assert_eq!(read.short().as_deref(), Some(short));
        }
        let spaced = Rule::from_short(Decision::Deny, " bash : git push ").unwrap();
        assert_eq!(spaced, rule("{:decision :deny :tool \"bash\" :command \"git push\"}"));
    }

    #[test]
    fn rule_that_the_short_form_would_widen_has_none() {
        for whole in [
            "{:decision :allow :path \"src/**\"}",
            "{:decision :allow :command \"ls\"}",
            "{:decision :allow :tool \"bash\" :path \"src\"}",
            "{:decision :allow :tool \"bash\" :command \"ls\" :path \"src\"}",
            "{:decision :allow :tool \"edit\" :exact true}",
            "{:decision :allow :tool \"a b\"}",
        ] {
            assert_eq!(rule(whole).short(), None, "{whole}");
        }
    }

    #[test]
    fn text_that_is_no_rule_is_refused() {
        for text in [
            "",
            ":",
            "bash:",
            "bash= ",
            "npm test",
            "edit=a",
            "*:ls",
            "ba*h",
            "mcp__*:x",
            "write:[",
            "fetch:a b",
        ] {
            assert!(Rule::from_short(Decision::Allow, text).is_err(), "{text}");
        }
        let words = "bash:a a a a a a a a b";
        assert_eq!(Rule::from_short(Decision::Deny, words), Err(RuleError::Words));
    }
}
