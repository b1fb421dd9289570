//! Whether a tool call may run, has to be asked about, or is refused.
//!
//! Pure judgement: a mode, rules and what a call would touch go in, a verdict comes out. Paths come in
//! resolved ([`super::path`]), commands as they would run. Who asks the person, and how, is not known here.

use std::path::{Path, PathBuf};

use super::glob::{self, PathGlob};
use super::path::within;
use super::shell::{self, Analysis};
use crate::message::Mode;
use crate::value::{Map, Value};

/// What a call would touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Nothing outside the session.
    Nothing,
    /// Reads a file or folder.
    Read(PathBuf),
    /// Writes a file.
    Write(PathBuf),
    /// Runs a command.
    Run(String),
}

/// A rule of the configuration, or one that the person made by an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it says of a call that it fits.
    pub decision: Decision,
    /// The tool; `None` for any.
    pub tool: Option<String>,
    /// A glob for the path, absolute or relative to the workspace; `None` for any.
    pub path: Option<String>,
    /// The words that a command begins with; `None` for any.
    pub command: Option<String>,
    /// Whether `command` is the whole command, character for character.
    pub exact: bool,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Run without asking.
    Allow,
    /// Ask.
    Ask,
    /// Refuse.
    Deny,
}

/// What is to become of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// The person decides. With the rule that would make it run from now on, where one can be made.
    Ask(Option<Rule>),
    /// It is refused, with the reason that the model is given.
    Deny(String),
}

impl Rule {
    /// Reads `{:decision :allow :tool "bash" :path "src/**" :command "cargo test"}`.
    ///
    /// # Errors
    /// What is wrong, for a person. A rule that is not understood in every part is none: a part that is
    /// left out makes a rule wider.
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
        if !decided {
            return Err("a rule needs a :decision".to_owned());
        }
        if let Some(glob) = &rule.path {
            PathGlob::new(glob)?;
        }
        Ok(rule)
    }

    /// The rule as configuration writes it.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        let decision = match self.decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        map.put("decision", Value::keyword(decision));
        map.put_some("tool", self.tool.clone());
        map.put_some("path", self.path.clone());
        map.put_some("command", self.command.clone());
        if self.exact {
            map.put("exact", true);
        }
        Value::from(map)
    }

    /// Whether it fits a call. A rule that allows fits only what it covers whole; one that denies fits
    /// what it covers in any part.
    fn fits(&self, tool: &str, access: &Access, workspace: &Path) -> bool {
        if self.tool.as_deref().is_some_and(|name| name != tool) {
            return false;
        }
        let path = match (&self.path, access) {
            (None, _) => true,
            (Some(glob), Access::Read(path) | Access::Write(path)) => covers(glob, path, workspace),
            (Some(_), _) => false,
        };
        let command = match (&self.command, access) {
            (None, _) => true,
            (Some(whole), Access::Run(command)) if self.exact => whole == command,
            (Some(prefix), Access::Run(command)) => {
                let prefix = shell::words(prefix);
                match (self.decision, shell::analyse(command)) {
                    (Decision::Allow, Analysis::Plain(commands)) => {
                        commands.iter().all(|command| shell::begins_with(command, &prefix))
                    }
                    (Decision::Allow, Analysis::Opaque) => false,
                    (Decision::Ask | Decision::Deny, _) => shell::mentions(command, &prefix),
                }
            }
            (Some(_), _) => false,
        };
        path && command
    }
}

/// Judges a call. `rules` stand in order: those of the configuration, then those that the person made.
pub fn judge(mode: Mode, rules: &[Rule], workspace: &Path, tool: &str, access: &Access) -> Verdict {
    let fits = |rule: &&Rule| rule.fits(tool, access, workspace);
    if let Some(rule) = rules.iter().filter(|rule| rule.decision == Decision::Deny).find(fits) {
        return Verdict::Deny(format!("A rule denies it: {}.", rule.to_value()));
    }
    if let Access::Run(command) = access {
        let denies = |rule: &Rule| {
            rule.decision == Decision::Deny
                && rule.command.is_some()
                && rule.tool.as_deref().is_none_or(|name| name == tool)
        };
        // What a rule denies must not come back in shell syntax that cannot be looked through.
        if mode == Mode::Yolo && rules.iter().any(denies) && shell::analyse(command) == Analysis::Opaque {
            return Verdict::Deny(
                "There are rules that deny commands, and this one cannot be checked against them: write it as \
                 plain commands without substitutions, variables or redirections."
                    .to_owned(),
            );
        }
    }
    match (mode, access) {
        (_, Access::Nothing) | (Mode::Yolo, _) => return Verdict::Allow,
        (Mode::ReadOnly, Access::Write(_) | Access::Run(_)) => {
            return Verdict::Deny("The session is read-only: nothing may be changed or run.".to_owned());
        }
        _ => {}
    }
    let allowed_piecewise = match access {
        Access::Run(command) => pieces_allowed(rules, workspace, tool, command),
        _ => false,
    };
    match rules.iter().filter(|rule| rule.decision != Decision::Deny).find(fits) {
        Some(rule) if rule.decision == Decision::Allow => return Verdict::Allow,
        Some(_) => return Verdict::Ask(None),
        None if allowed_piecewise => return Verdict::Allow,
        None => {}
    }
    match (mode, access) {
        (_, Access::Read(path)) if within(path, workspace) => Verdict::Allow,
        (Mode::AcceptEdits, Access::Write(path))
            if within(path, workspace) && !is_guarded(path, workspace) =>
        {
            Verdict::Allow
        }
        _ => Verdict::Ask(suggestion(tool, access, workspace)),
    }
}

/// Whether every simple command of a plain command is allowed by a rule of its own.
fn pieces_allowed(rules: &[Rule], workspace: &Path, tool: &str, command: &str) -> bool {
    let Analysis::Plain(commands) = shell::analyse(command) else { return false };
    let asked = rules.iter().any(|rule| {
        rule.decision == Decision::Ask && rule.fits(tool, &Access::Run(command.to_owned()), workspace)
    });
    !asked
        && commands.iter().all(|command| {
            rules.iter().any(|rule| {
                rule.decision == Decision::Allow
                    && rule.path.is_none()
                    && !rule.exact
                    && rule.tool.as_deref().is_none_or(|name| name == tool)
                    && rule
                        .command
                        .as_deref()
                        .is_some_and(|prefix| shell::begins_with(command, &shell::words(prefix)))
            })
        })
}

/// Files in the workspace that decide what runs later: changing them is never free.
fn is_guarded(path: &Path, workspace: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(workspace) else { return true };
    inside.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        [".git", ".edn-bridge"].iter().any(|guarded| name.eq_ignore_ascii_case(guarded))
    })
}

fn covers(glob: &str, path: &Path, workspace: &Path) -> bool {
    let Ok(glob) = PathGlob::new(glob) else { return false };
    glob.is_match(path) || path.strip_prefix(workspace).is_ok_and(|inside| glob.is_match(inside))
}

/// Programs that run what they are given: allowing one of them by its name alone would allow everything.
const WRAPPERS: &[&str] = &[
    "bash", "dash", "doas", "env", "fish", "ksh", "lua", "nice", "node", "nohup", "perl", "php", "python",
    "python3", "ruby", "sh", "ssh", "sudo", "timeout", "xargs", "zsh",
];

/// The rule that would allow a call like this one.
fn suggestion(tool: &str, access: &Access, workspace: &Path) -> Option<Rule> {
    let rule = |path, command| {
        Some(Rule { decision: Decision::Allow, tool: Some(tool.to_owned()), path, command, exact: false })
    };
    match access {
        Access::Nothing => None,
        Access::Read(path) => rule(Some(glob::escape(&path.to_string_lossy())), None),
        Access::Write(path) => {
            let shown = path.strip_prefix(workspace).unwrap_or(path);
            rule(Some(glob::escape(&shown.to_string_lossy())), None)
        }
        Access::Run(command) => match shell::analyse(command) {
            Analysis::Plain(commands) => match commands.as_slice() {
                // Two words name what is run by those programs that have commands of their own.
                [words] => {
                    let plain = |word: &&String| {
                        word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
                    };
                    let prefix: Vec<&str> = words
                        .iter()
                        .take(2)
                        .take_while(plain)
                        .filter(|word| !word.starts_with('-'))
                        .map(String::as_str)
                        .collect();
                    let wide = prefix.len() < 2 && prefix.first().is_some_and(|name| WRAPPERS.contains(name));
                    (!prefix.is_empty() && !wide).then(|| rule(None, Some(prefix.join(" ")))).flatten()
                }
                _ => None,
            },
            Analysis::Opaque => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::from_value(&crate::edn::read_one(text.as_bytes()).unwrap()).unwrap()
    }

    fn rules(text: &str) -> Vec<Rule> {
        crate::edn::read_all(text.as_bytes())
            .unwrap()
            .iter()
            .map(|value| Rule::from_value(value).unwrap())
            .collect()
    }

    fn word(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Allow => "allow",
            Verdict::Ask(_) => "ask",
            Verdict::Deny(_) => "deny",
        }
    }

    #[test]
    fn modes_decide_where_no_rule_does() {
        let (inside, outside) = (PathBuf::from("/w/a"), PathBuf::from("/etc/passwd"));
        let run = Access::Run("ls".to_owned());
        for (access, expected) in [
            (Access::Nothing, ["allow", "allow", "allow", "allow"]),
            (Access::Read(inside.clone()), ["allow", "allow", "allow", "allow"]),
            (Access::Read(outside.clone()), ["ask", "ask", "ask", "allow"]),
            (Access::Write(inside), ["ask", "allow", "deny", "allow"]),
            (Access::Write(outside), ["ask", "ask", "deny", "allow"]),
            (Access::Write("/w/.git/hooks/pre-commit".into()), ["ask", "ask", "deny", "allow"]),
            (Access::Write("/w/sub/.GIT/config".into()), ["ask", "ask", "deny", "allow"]),
            (Access::Write("/w/.edn-bridge/config.edn".into()), ["ask", "ask", "deny", "allow"]),
            (Access::Write("/workspace/a".into()), ["ask", "ask", "deny", "allow"]),
            (run, ["ask", "ask", "deny", "allow"]),
        ] {
            for (mode, expected) in
                [Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo].into_iter().zip(expected)
            {
                let verdict = judge(mode, &[], Path::new("/w"), "tool", &access);
                assert_eq!(word(&verdict), expected, "{mode:?} {access:?}");
            }
        }
    }

    #[test]
    fn rules_come_before_modes_and_deny_beats_allow() {
        let all = rules(
            r#"{:decision :allow :tool "bash" :command "cargo test"} {:decision :allow :tool "bash" :command "git status"}
               {:decision :ask :tool "bash" :command "cargo publish"} {:decision :allow :tool "bash" :command "cargo"}
               {:decision :deny :tool "bash" :command "rm"} {:decision :allow :tool "bash" :command "rm"}
               {:decision :allow :tool "write" :path "out/**"} {:decision :deny :tool "write" :path "**/*.key"}"#,
        );
        let judge = |mode, tool, access: Access| {
            let verdict = judge(mode, &all, Path::new("/w"), tool, &access);
            word(&verdict)
        };
        let run = |command: &str| Access::Run(command.to_owned());
        for (command, ask, yolo) in [
            ("cargo test", "allow", "allow"),
            ("cargo test && git status", "allow", "allow"),
            ("cargo test; curl evil", "ask", "allow"),
            ("cargo publish", "ask", "allow"),
            ("cargo build && cargo publish", "ask", "allow"),
            ("rm x", "deny", "deny"),
            ("cargo test && rm x", "deny", "deny"),
            ("cargo test $(rm x)", "deny", "deny"),
            ("sh -c 'rm x'", "deny", "deny"),
            ("cargo test $(curl evil)", "ask", "deny"),
            ("cargo test > /etc/x", "ask", "deny"),
            ("cargo testing", "allow", "allow"),
            ("cargox test", "ask", "allow"),
        ] {
            assert_eq!(judge(Mode::Ask, "bash", run(command)), ask, "{command}");
            assert_eq!(judge(Mode::Yolo, "bash", run(command)), yolo, "{command}");
        }
        assert_eq!(judge(Mode::Ask, "write", Access::Write("/w/out/a/b".into())), "allow");
        assert_eq!(judge(Mode::Ask, "write", Access::Write("/w/other".into())), "ask");
        assert_eq!(judge(Mode::Yolo, "write", Access::Write("/w/out/my.key".into())), "deny");
        assert_eq!(judge(Mode::ReadOnly, "write", Access::Write("/w/out/a".into())), "deny");
    }

    #[test]
    fn a_rule_with_a_part_that_is_not_understood_is_none() {
        for text in ["{:tool \"bash\"}", "{:decision :maybe}", "{:decision :allow :comand \"ls\"}", "[]"] {
            let value = crate::edn::read_one(text.as_bytes()).unwrap();
            assert!(Rule::from_value(&value).is_err(), "{text}");
        }
        let written = rule("{:decision :allow :tool \"bash\" :command \"ls\"}");
        assert_eq!(Rule::from_value(&written.to_value()), Ok(written));
    }

    #[test]
    fn the_suggested_rule_allows_the_call_and_no_other_program() {
        for (command, expected) in [
            ("cargo test --all", Some("cargo test")),
            ("ls -l", Some("ls")),
            ("a && b", None),
            ("echo $x", None),
            ("bash -c ls", None),
            ("sudo -u root ls", None),
        ] {
            let verdict = judge(Mode::Ask, &[], Path::new("/w"), "bash", &Access::Run(command.to_owned()));
            let Verdict::Ask(suggested) = verdict else { panic!("{verdict:?}") };
            assert_eq!(suggested.as_ref().and_then(|rule| rule.command.as_deref()), expected, "{command}");
            if let Some(rule) = suggested {
                let again =
                    judge(Mode::Ask, &[rule], Path::new("/w"), "bash", &Access::Run(command.to_owned()));
                assert_eq!(again, Verdict::Allow);
            }
        }
    }
}
