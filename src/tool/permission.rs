//! Decides whether a tool call runs, needs approval, or is refused.
//!
//! A mode, rules and the effects of a call go in, a verdict comes out. Paths arrive resolved ([`super::path`]),
//! commands as they would run. Looks at the disk for one thing: whether a link that a command names leads out
//! of the workspace. Does not know how a person is asked.

use std::path::{Path, PathBuf};

use super::glob::{self, PathGlob};
use super::path;
use super::shell::{self, Analysis};
pub use crate::facts::rule::{Decision, Rule, RuleError};
use crate::http::Url;
use crate::http::host::{self, HostPattern};
use crate::message::Mode;
use crate::value::Value;

mod guarded;
mod programs;

pub use guarded::{Ground, OWN, reason as guarded};

/// The effect of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// None outside the session.
    Nothing,
    /// Reads a file or folder.
    Read(PathBuf),
    /// Writes a file.
    Write(PathBuf),
    /// Runs a command.
    Run(String),
    /// Asks a server for an address.
    Fetch(Url),
    /// Is carried out by a client of the session, which says whether it changes anything.
    AtClient {
        /// Whether it changes nothing.
        read_only: bool,
    },
    /// Calls a tool of a server (`mcp`).
    Call {
        /// The server, by its name in the configuration.
        server: String,
        /// The tool's name at the server.
        tool: String,
        /// Whether the server says that it changes nothing. Only a hint: it decides what edits that are accepted
        /// cover, and nothing that a rule or the mode denies.
        read_only: bool,
    },
}

/// The permissions of a session before any rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leave {
    /// The session's mode.
    pub mode: Mode,
    /// A person granted this tool to a subagent or a stage: edits and commands inside the workspace need no
    /// further approval. Calls that leave it do.
    pub agreed: bool,
}

impl From<Mode> for Leave {
    fn from(mode: Mode) -> Self {
        Self { mode, agreed: false }
    }
}

/// The verdict on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person decides. Contains the rule that would allow the call from now on, if there is one.
    Ask(Option<Rule>),
    /// It is refused; contains the reason for the model.
    Deny(String),
}

impl Rule {
    /// Reads a rule, and checks that its tool, its glob and its host can be matched.
    ///
    /// # Errors
    /// Those of [`Rule::from_value`] and [`Rule::check`].
    pub fn read(value: &Value<'_>) -> Result<Self, RuleError> {
        let rule = Self::from_value(value)?;
        rule.check().map(|()| rule)
    }

    /// Whether its tool, its glob and its host can be matched.
    ///
    /// # Errors
    /// [`RuleError::Tool`], [`RuleError::Glob`] and [`RuleError::Host`].
    pub fn check(&self) -> Result<(), RuleError> {
        let tool = self.tool.as_deref().unwrap_or_default();
        if tool.strip_suffix('*').unwrap_or(tool).contains('*') {
            return Err(RuleError::Tool(tool.to_owned()));
        }
        let glob = self.path.as_deref().map(PathGlob::new);
        glob.transpose().map_err(|error| RuleError::Glob(error.to_string()))?;
        let host = self.host.as_deref().map(HostPattern::read);
        host.transpose().map(drop).map_err(|error| RuleError::Host(error.to_string()))
    }

    /// Whether it matches a call. A rule that allows must cover the whole call; a rule that denies matches
    /// any part of it.
    fn fits(&self, tool: &str, access: &Access, ground: &Ground) -> bool {
        if !self.names(tool) {
            return false;
        }
        let path = match (&self.path, access) {
            (None, _) => true,
            (Some(glob), Access::Read(path) | Access::Write(path)) => {
                covers(self.decision, glob, path, ground)
            }
            (Some(_), _) => false,
        };
        let command = match (&self.command, access) {
            (None, _) => true,
            (Some(whole), Access::Run(command)) if self.exact => whole == command,
            (Some(prefix), Access::Run(command)) => {
                let prefix = shell::words(prefix);
                match (self.decision, shell::analyse(command)) {
                    (Decision::Allow, Analysis::Plain(commands)) => {
                        commands.iter().all(|command| allows(&prefix, command, &ground.workspace))
                    }
                    (Decision::Allow, Analysis::Opaque) => false,
                    (Decision::Ask | Decision::Deny, _) => shell::mentions(command, &prefix),
                }
            }
            (Some(_), _) => false,
        };
        let host = match (&self.host, access) {
            (None, _) => true,
            (Some(pattern), Access::Fetch(url)) => {
                HostPattern::read(pattern).is_ok_and(|pattern| match self.decision {
                    Decision::Allow => pattern.covers(url),
                    Decision::Ask | Decision::Deny => pattern.names(url),
                })
            }
            (Some(_), _) => false,
        };
        path && command && host
    }
}

/// Judges a call. The order of `rules`: those of the configuration, then those from answers.
pub fn judge(
    leave: impl Into<Leave>,
    rules: &[Rule],
    ground: &Ground,
    tool: &str,
    access: &Access,
) -> Verdict {
    let Leave { mode, agreed } = leave.into();
    let workspace = ground.workspace.as_path();
    let fits = |rule: &&Rule| rule.fits(tool, access, ground);
    if let Some(rule) = rules.iter().filter(|rule| rule.decision == Decision::Deny).find(fits) {
        return Verdict::Deny(format!("A rule denies it: {}.", rule.to_value()));
    }
    if let Access::Fetch(url) = access
        && host::is_private(url)
        && !ground.may_be_private(url)
    {
        let host = host::pattern_of(url).unwrap_or_default();
        return Verdict::Deny(format!(
            "The host {host} is on this machine or in a private network. The user can name it in the configuration: \
             {{:fetch {{:private [{host:?}]}}}}."
        ));
    }
    // A denied command must not return inside a command that cannot be analysed.
    let denies = |rule: &Rule| rule.decision == Decision::Deny && rule.command.is_some() && rule.names(tool);
    let veiled = matches!(access, Access::Run(command) if rules.iter().any(denies) && shell::veiled(command));
    match (mode, access) {
        (Mode::Yolo, _) if veiled => {
            return Verdict::Deny(
                "There are rules that deny commands, and this one cannot be checked against them: write it as \
                 plain commands without substitutions, variables, redirections, or text or input for a shell or \
                 an interpreter."
                    .to_owned(),
            );
        }
        (_, Access::Nothing) | (Mode::Yolo, _) => return Verdict::Allow,
        // A server may say of any call that it changes nothing.
        (
            Mode::ReadOnly,
            Access::Write(_) | Access::Run(_) | Access::AtClient { read_only: false } | Access::Call { .. },
        ) => {
            return Verdict::Deny("The session is read-only: nothing may be changed or run.".to_owned());
        }
        _ => {}
    }
    let pieces = match access {
        Access::Run(command) => pieces_allowed(rules, ground, tool, command),
        _ => false,
    };
    // The person saw the whole of an exact command; nobody saw what another rule would allow.
    let seen = |rule: &&Rule| rule.decision == Decision::Ask || !veiled || rule.exact;
    match rules.iter().filter(|rule| rule.decision != Decision::Deny).filter(seen).find(fits) {
        Some(rule) if rule.decision == Decision::Allow => return Verdict::Allow,
        Some(_) => return Verdict::Ask(None),
        None if pieces && !veiled => return Verdict::Allow,
        None => {}
    }
    match access {
        Access::Read(path) if ground.holds(path) && !ground.hides(path) => Verdict::Allow,
        Access::Write(path)
            if (agreed || mode == Mode::AcceptEdits) && guarded::reason(path, ground).is_none() =>
        {
            Verdict::Allow
        }
        Access::Run(_) if agreed && !veiled => Verdict::Allow,
        Access::AtClient { read_only } if *read_only || agreed => Verdict::Allow,
        Access::Call { .. } if agreed => Verdict::Allow,
        Access::Call { read_only: true, .. } if mode == Mode::AcceptEdits => Verdict::Allow,
        _ => Verdict::Ask(suggestion(tool, access, workspace)),
    }
}

/// Whether a rule allows every simple command of a plain command.
fn pieces_allowed(rules: &[Rule], ground: &Ground, tool: &str, command: &str) -> bool {
    let Analysis::Plain(commands) = shell::analyse(command) else { return false };
    let asked = rules.iter().any(|rule| {
        rule.decision == Decision::Ask && rule.fits(tool, &Access::Run(command.to_owned()), ground)
    });
    !asked
        && commands.iter().all(|command| {
            rules.iter().any(|rule| {
                rule.decision == Decision::Allow
                    && rule.path.is_none()
                    && !rule.exact
                    && rule.names(tool)
                    && rule
                        .command
                        .as_deref()
                        .is_some_and(|prefix| allows(&shell::words(prefix), command, &ground.workspace))
            })
        })
}

/// Whether a simple command starts with the words of a rule that allows, and its later words do not change
/// its meaning.
fn allows(prefix: &[String], command: &[String], workspace: &Path) -> bool {
    shell::begins_with(command, prefix) && programs::stays(command, prefix.len(), workspace)
}

/// Whether a glob covers a path: the whole path, or the part below the workspace. A glob that denies or asks
/// applies everywhere, also below further folders; a relative glob that allows ends at the workspace.
fn covers(decision: Decision, glob: &str, path: &Path, ground: &Ground) -> bool {
    let inside =
        |glob: &PathGlob, folder: &Path| path.strip_prefix(folder).is_ok_and(|inside| glob.is_match(inside));
    match decision {
        Decision::Allow => PathGlob::new(glob).is_ok_and(|all| {
            if glob.starts_with('/') { all.is_match(path) } else { inside(&all, &ground.workspace) }
        }),
        Decision::Ask | Decision::Deny => barring(glob, ground)
            .iter()
            .any(|glob| glob.is_match(path) || ground.folders().any(|folder| inside(glob, folder))),
    }
}

/// The globs of a rule that denies or asks: its own, and the one behind the links of the folders that it names
/// without a pattern. Judged paths have no links, so that `link/**` alone would match none.
pub fn barring(glob: &str, ground: &Ground) -> Vec<PathGlob> {
    let folder = match glob.strip_suffix('/') {
        Some(folder) if !folder.is_empty() => format!("{folder}/**"),
        _ => glob.to_owned(),
    };
    let literal: Vec<&str> =
        folder.split('/').take_while(|name| !name.contains(['*', '?', '[', '{', '\\'])).collect();
    let literal = literal.join("/");
    let rest = folder.get(literal.len()..).unwrap_or_default();
    let behind = ground.folders().filter(|_| !literal.is_empty()).filter_map(|folder| {
        let path = path::resolve(folder, &literal).ok()?;
        Some(format!("{}{rest}", glob::escape(&path.to_string_lossy())))
    });
    let all: Vec<String> = behind.chain([folder.clone()]).collect();
    all.iter().filter_map(|glob| PathGlob::new(glob).ok()).collect()
}

/// The rule that would allow a call like this one, and no other program.
fn suggestion(tool: &str, access: &Access, workspace: &Path) -> Option<Rule> {
    let rule = |path, command| Some(Rule { tool: Some(tool.to_owned()), path, command, ..Rule::allowing() });
    match access {
        Access::Nothing => None,
        // A call that may change anything is allowed one by one, unless the person says otherwise.
        Access::Call { read_only: false, .. } => None,
        Access::AtClient { .. } | Access::Call { .. } => rule(None, None),
        Access::Fetch(url) => rule(None, None).map(|rule| Rule { host: host::pattern_of(url), ..rule }),
        Access::Read(path) => rule(Some(glob::escape(&path.to_string_lossy())), None),
        Access::Write(path) => {
            let shown = path.strip_prefix(workspace).unwrap_or(path);
            rule(Some(glob::escape(&shown.to_string_lossy())), None)
        }
        Access::Run(command) => {
            let prefix = match shell::analyse(command) {
                Analysis::Plain(commands) => match commands.as_slice() {
                    [words] => programs::prefix(words, workspace),
                    _ => None,
                },
                Analysis::Opaque => None,
            };
            let exact = prefix.is_none();
            let command = prefix.map_or_else(|| command.clone(), str::to_owned);
            rule(None, Some(command)).map(|rule| Rule { exact, ..rule })
        }
    }
}

/// Whether a rule from an earlier version is no wider than a rule that is suggested now.
pub fn is_narrow(rule: &Rule, workspace: &Path) -> bool {
    match &rule.command {
        Some(command) if !rule.exact => {
            programs::prefix(&shell::words(command), workspace).is_some_and(|prefix| prefix == command)
        }
        Some(_) => true,
        None => rule.path.is_some() || rule.host.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::read(&crate::edn::read_one(text.as_bytes()).unwrap()).unwrap()
    }

    fn rules(text: &str) -> Vec<Rule> {
        crate::edn::read_all(text.as_bytes())
            .unwrap()
            .iter()
            .map(|value| Rule::read(value).unwrap())
            .collect()
    }

    fn at_server(read_only: bool) -> Access {
        Access::Call { server: "git".to_owned(), tool: "log".to_owned(), read_only }
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
        let call = |read_only| Access::Call { server: "s".to_owned(), tool: "t".to_owned(), read_only };
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
            (fetch("https://docs.rs/x"), ["ask", "ask", "ask", "allow"]),
            (fetch("http://127.0.0.1:8080/"), ["deny", "deny", "deny", "deny"]),
            (fetch("http://db.localhost/"), ["deny", "deny", "deny", "deny"]),
            (Access::AtClient { read_only: true }, ["allow", "allow", "allow", "allow"]),
            (Access::AtClient { read_only: false }, ["ask", "ask", "deny", "allow"]),
            (call(true), ["ask", "allow", "deny", "allow"]),
            (call(false), ["ask", "ask", "deny", "allow"]),
        ] {
            for (mode, expected) in
                [Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo].into_iter().zip(expected)
            {
                let verdict = judge(mode, &[], &Ground::from(Path::new("/w")), "tool", &access);
                assert_eq!(word(&verdict), expected, "{mode:?} {access:?}");
            }
        }
    }

    fn fetch(address: &str) -> Access {
        Access::Fetch(Url::parse(address).unwrap())
    }

    #[test]
    fn rules_by_host_decide_about_addresses() {
        let all = rules(
            r#"{:decision :allow :tool "fetch" :host "docs.rs"} {:decision :ask :host "secret.example.com"}
               {:decision :allow :host "*.example.com"} {:decision :deny :host "evil.example.com"}
               {:decision :deny :tool "other" :host "docs.rs"} {:decision :allow :path "**"}
               {:decision :allow :command "fetch"} {:decision :allow :tool "fetch" :host "localhost:3000"}"#,
        );
        let ground = Ground {
            private: vec![HostPattern::read("localhost").unwrap()],
            ..Ground::from(Path::new("/w"))
        };
        for (address, expected) in [
            ("https://docs.rs/x?y", "allow"),
            ("http://docs.rs/", "allow"),
            ("https://docs.rs:8443/", "ask"),
            ("https://docs.rs.evil/", "ask"),
            ("https://a.example.com/", "allow"),
            ("https://secret.example.com/", "ask"),
            ("https://evil.example.com/", "deny"),
            ("https://EVIL.example.com.:444/", "deny"),
            ("https://other.org/", "ask"),
            ("http://localhost:3000/", "allow"),
            ("http://localhost:3001/", "ask"),
            ("http://127.0.0.1:3000/", "deny"),
        ] {
            assert_eq!(
                word(&judge(Mode::Ask, &all, &ground, "fetch", &fetch(address))),
                expected,
                "{address}"
            );
        }
        // What a person granted to a subagent is the workspace, which an address leaves.
        let agreed = Leave { mode: Mode::Ask, agreed: true };
        assert_eq!(word(&judge(agreed, &[], &ground, "fetch", &fetch("https://other.org/"))), "ask");
        let Verdict::Ask(Some(rule)) = judge(Mode::Ask, &[], &ground, "fetch", &fetch("https://a.org:444/x"))
        else {
            panic!("no rule is suggested");
        };
        assert_eq!(rule.to_value().to_string(), r#"{:decision :allow :tool "fetch" :host "a.org:444"}"#);
        for (address, expected) in [("https://a.org:444/y", "allow"), ("https://a.org/x", "ask")] {
            let verdict = judge(Mode::Ask, std::slice::from_ref(&rule), &ground, "fetch", &fetch(address));
            assert_eq!(word(&verdict), expected, "{address}");
        }
        let denied = crate::tool::walk::Barred::new(&all, &ground, "read");
        assert!(!denied.bars(Path::new("/w/a")), "a rule about a host bars no file");
    }

    #[test]
    fn rule_with_a_star_is_about_every_tool_of_a_server() {
        let ground = Ground::from(Path::new("/w"));
        let verdict = |mode, text: &str, tool, read_only| {
            word(&judge(mode, &rules(text), &ground, tool, &at_server(read_only)))
        };
        let allow = r#"{:decision :allow :tool "mcp__git__*"}"#;
        assert_eq!(verdict(Mode::Ask, allow, "mcp__git__log", false), "allow");
        assert_eq!(verdict(Mode::Ask, allow, "mcp__github__log", false), "ask");
        assert_eq!(
            verdict(Mode::Ask, r#"{:decision :allow :tool "mcp__git"}"#, "mcp__git__log", true),
            "ask"
        );
        // A rule about a path or a command says nothing of a server's call.
        for text in
            [r#"{:decision :allow :tool "mcp__git__*" :path "**"}"#, r#"{:decision :allow :command "log"}"#]
        {
            assert_eq!(verdict(Mode::Ask, text, "mcp__git__log", false), "ask", "{text}");
        }
        // What a server says of its tool lifts no denial.
        let deny = format!(r#"{allow} {{:decision :deny :tool "mcp__*"}}"#);
        for mode in [Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo] {
            assert_eq!(verdict(mode, &deny, "mcp__git__log", true), "deny", "{mode:?}");
        }
        assert_eq!(verdict(Mode::ReadOnly, allow, "mcp__git__log", true), "deny");
        let ask = r#"{:decision :ask :tool "mcp__git__*"}"#;
        assert_eq!(verdict(Mode::AcceptEdits, ask, "mcp__git__log", true), "ask");
    }

    #[test]
    fn rule_for_a_servers_tool_is_suggested_if_it_only_reads() {
        let suggested = |read_only| {
            judge(Mode::Ask, &[], &Ground::from(Path::new("/w")), "mcp__git__log", &at_server(read_only))
        };
        let rule = rule(r#"{:decision :allow :tool "mcp__git__log"}"#);
        assert_eq!(suggested(true), Verdict::Ask(Some(rule)));
        assert_eq!(suggested(false), Verdict::Ask(None));
    }

    #[test]
    fn own_secrets_in_the_workspace_are_read_when_approved() {
        let ground = Ground { hidden: vec!["/w/state".into()], ..Ground::from(Path::new("/w")) };
        let rule = rules(r#"{:decision :allow :tool "read" :path "/w/state/a"}"#);
        for (path, rules, expected) in [
            ("/w/state/credentials.edn", [].as_slice(), ["ask", "ask", "ask", "allow"]),
            ("/w/state", &[], ["ask", "ask", "ask", "allow"]),
            ("/w/statement", &[], ["allow", "allow", "allow", "allow"]),
            ("/w/state/a", &rule, ["allow", "allow", "allow", "allow"]),
        ] {
            for (mode, expected) in
                [Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo].into_iter().zip(expected)
            {
                for agreed in [false, true] {
                    let leave = Leave { mode, agreed };
                    let verdict = judge(leave, rules, &ground, "read", &Access::Read(path.into()));
                    assert_eq!(word(&verdict), expected, "{mode:?} {path}");
                }
            }
        }
        let barred = crate::tool::walk::Barred::new(&[], &ground, "search");
        assert!(barred.bars(Path::new("/w/state/a")) && !barred.bars(Path::new("/w/a")));
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
            let verdict = judge(mode, &all, &Ground::from(Path::new("/w")), tool, &access);
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
        for text in [
            "{:tool \"bash\"}",
            "{:decision :maybe}",
            "{:decision :allow :comand \"ls\"}",
            "[]",
            "{:decision :allow :host \"a/b\"}",
            "{:decision :deny :host \"http://a\"}",
            "{:decision :deny :tool \"mcp__*__delete\"}",
            "{:decision :deny :tool \"*__delete*\"}",
        ] {
            let value = crate::edn::read_one(text.as_bytes()).unwrap();
            assert!(Rule::read(&value).is_err(), "{text}");
        }
        let written = rule("{:decision :allow :tool \"bash\" :command \"ls\"}");
        assert_eq!(Rule::read(&written.to_value()), Ok(written));
    }

    fn run(command: &str) -> Access {
        Access::Run(command.to_owned())
    }

    #[test]
    fn a_rule_of_an_earlier_version_that_is_too_wide_is_known() {
        let narrow = |text: &str| is_narrow(&rule(text), Path::new("/w"));
        for command in ["git", "timeout 60", "/bin/bash", "sed -n", "rm", "xargs rm", "flock f", "npm run"] {
            assert!(
                !narrow(&format!("{{:decision :allow :tool \"bash\" :command {command:?}}}")),
                "{command}"
            );
        }
        for text in [
            "{:decision :allow :tool \"bash\" :command \"cargo test\"}",
            "{:decision :allow :tool \"bash\" :command \"rm -rf build\" :exact true}",
            "{:decision :allow :tool \"write\" :path \"a\"}",
        ] {
            assert!(narrow(text), "{text}");
        }
        assert!(!narrow("{:decision :allow :tool \"bash\"}"));
    }

    #[test]
    fn further_folders_are_judged_like_the_workspace() {
        let ground = Ground { roots: vec!["/r".into()], ..Ground::from(Path::new("/w")) };
        let (read, write) = (|path: &str| Access::Read(path.into()), |path: &str| Access::Write(path.into()));
        for (mode, given, tool, access, expected) in [
            (Mode::Ask, "", "read", read("/r/a"), "allow"),
            (Mode::Ask, "", "read", read("/q/a"), "ask"),
            (Mode::Ask, "", "write", write("/r/a"), "ask"),
            (Mode::AcceptEdits, "", "write", write("/r/a"), "allow"),
            (Mode::AcceptEdits, "", "write", write("/q/a"), "ask"),
            (Mode::AcceptEdits, "", "write", write("/r/.git/hooks/pre-commit"), "ask"),
            (Mode::ReadOnly, "", "write", write("/r/a"), "deny"),
            // What is denied is denied there too; what is allowed by a relative glob is of the workspace.
            (Mode::Ask, r#"{:path "secret/**" :decision :deny}"#, "read", read("/r/secret/a"), "deny"),
            (
                Mode::Ask,
                r#"{:tool "write" :path "src/**" :decision :allow}"#,
                "write",
                write("/r/src/a"),
                "ask",
            ),
            (
                Mode::Ask,
                r#"{:tool "write" :path "/r/src/**" :decision :allow}"#,
                "write",
                write("/r/src/a"),
                "allow",
            ),
        ] {
            let verdict = judge(mode, &rules(given), &ground, tool, &access);
            assert_eq!(word(&verdict), expected, "{mode} {given} {access:?}");
        }
    }

    #[test]
    fn a_relative_glob_that_allows_ends_at_the_workspace() {
        let allow =
            rules("{:decision :allow :path \"**/*.md\"} {:decision :allow :path \"{/outside/x,../*}\"}");
        let ground = Ground::from(Path::new("/w"));
        for (path, expected) in [("/w/a.md", "allow"), ("/outside/a.md", "ask"), ("/outside/x", "ask")] {
            let verdict = judge(Mode::Ask, &allow, &ground, "write", &Access::Write(path.into()));
            assert_eq!(word(&verdict), expected, "{path}");
        }
        let whole = rules("{:decision :allow :path \"/outside/**\"}");
        let verdict = judge(Mode::Ask, &whole, &ground, "read", &Access::Read("/outside/a".into()));
        assert_eq!(verdict, Verdict::Allow);
        let deny = rules("{:decision :deny :path \"private/**\"} {:decision :deny :path \"**/x.key\"}");
        for path in ["/w/private", "/w/private/a", "/outside/x.key"] {
            let verdict = judge(Mode::Yolo, &deny, &ground, "read", &Access::Read(path.into()));
            assert_eq!(word(&verdict), "deny", "{path}");
        }
    }

    #[test]
    fn a_denied_path_is_denied_behind_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("w");
        std::fs::create_dir_all(workspace.join("vault")).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("vault", workspace.join("secrets")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let ground = Ground::from(workspace.as_path());
        let (inside, outside) = (workspace.join("vault/a.key"), root.join("real/a"));
        for (glob, path, expected) in [
            ("secrets/**".to_owned(), &inside, "deny"),
            ("secrets/".to_owned(), &inside, "deny"),
            ("./vault/**".to_owned(), &inside, "deny"),
            ("vault/".to_owned(), &inside, "deny"),
            ("secrets/*.key".to_owned(), &inside, "deny"),
            ("secrets/a.key".to_owned(), &inside, "deny"),
            ("**/*.key".to_owned(), &inside, "deny"),
            ("secrets/*.txt".to_owned(), &inside, "allow"),
            (format!("{}/link/**", root.display()), &outside, "deny"),
            (format!("{}/link", root.display()), &outside, "allow"),
        ] {
            let rules = [Rule { decision: Decision::Deny, path: Some(glob.clone()), ..Rule::allowing() }];
            let verdict = judge(Mode::Yolo, &rules, &ground, "read", &Access::Read(path.clone()));
            assert_eq!(word(&verdict), expected, "{glob} {path:?}");
            let barred = crate::tool::walk::Barred::new(&rules, &ground, "search").bars(path);
            assert_eq!(barred, expected == "deny", "{glob} {path:?}");
        }
    }

    #[test]
    fn a_denied_command_does_not_come_back_veiled() {
        let all = rules(
            "{:decision :deny :tool \"bash\" :command \"rm\"} {:decision :deny :tool \"bash\" :command \"git push\"}
             {:decision :allow :tool \"bash\"}",
        );
        let ground = Ground::from(Path::new("/w"));
        for (command, ask, yolo) in [
            ("ls -l", "allow", "allow"),
            ("git -C . status", "allow", "allow"),
            ("git -C . push", "deny", "deny"),
            ("git --no-pager push", "deny", "deny"),
            ("git -P push", "deny", "deny"),
            ("git -c alias.p=push p", "ask", "deny"),
            ("git -c alias.z='!/bin/r? f' z", "ask", "deny"),
            ("bash -c 'r${x}m f'", "ask", "deny"),
            ("sh -c 'c=m; r$c f'", "ask", "deny"),
            ("bash -c '/bin/r? f'", "ask", "deny"),
            ("bash -c 'eval $(x)'", "ask", "deny"),
            ("env -Srm' 'f", "deny", "deny"),
            ("python3 -c 'import os'", "ask", "deny"),
            ("ls > x", "ask", "deny"),
        ] {
            for (mode, expected) in [(Mode::Ask, ask), (Mode::Yolo, yolo)] {
                let verdict = judge(mode, &all, &ground, "bash", &run(command));
                assert_eq!(word(&verdict), expected, "{mode:?} {command}");
            }
        }
    }

    #[test]
    fn what_was_agreed_to_ends_at_the_workspace() {
        let ground = Ground::from(Path::new("/w"));
        let all = rules("{:decision :ask :tool \"bash\" :command \"cargo publish\"}");
        for (access, expected) in [
            (Access::Read("/w/a".into()), "allow"),
            (Access::Read("/out/a".into()), "ask"),
            (Access::Write("/w/a".into()), "allow"),
            (Access::Write("/w/.git/hooks/x".into()), "ask"),
            (Access::Write("/out/a".into()), "ask"),
            (run("cargo test"), "allow"),
            (run("cargo publish"), "ask"),
        ] {
            for mode in [Mode::Ask, Mode::AcceptEdits] {
                let verdict = judge(Leave { mode, agreed: true }, &all, &ground, "bash", &access);
                assert_eq!(word(&verdict), expected, "{mode:?} {access:?}");
            }
        }
        let verdict =
            judge(Leave { mode: Mode::ReadOnly, agreed: true }, &[], &ground, "bash", &run("cargo test"));
        assert_eq!(word(&verdict), "deny");
    }
}
