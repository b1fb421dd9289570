//! Decides whether a tool call runs, needs approval, or is refused.
//!
//! A mode, rules and the effects of a call go in, a verdict comes out. Paths arrive resolved ([`super::path`]),
//! commands as they would run. Looks at the disk for one thing: whether a link that a command names leads out
//! of the workspace. Does not know how a person is asked.

use std::path::Path;

use super::shell::{self, Analysis};
pub use crate::facts::rule::{Decision, Rule, RuleError};
use crate::glob::{self, PathGlob};
use crate::http::host::{self, HostPattern};
use crate::limits::{RULE_STEPS, RULE_WORDS};
use crate::message::Mode;
use crate::meter::Meter;
use crate::value::Value;

mod act;
mod matching;
mod programs;
mod protected_files;
mod short_form;

pub use act::{Access, Act, Part, Run, quoted};
pub use matching::Bars;
use matching::Fitting;
pub use protected_files::{Ground, OWN, reason as guarded};

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
        host.transpose().map_err(|error| RuleError::Host(error.to_string()))?;
        let words = self.command.as_deref().filter(|_| !self.exact).map(shell::words);
        if words.is_some_and(|words| words.len() > RULE_WORDS) { Err(RuleError::Words) } else { Ok(()) }
    }
}

/// Judges an act. The order of `rules`: those of the configuration, then those from answers.
///
/// It is denied if any part is denied, allowed if all of it is known and each part is allowed, and asked about otherwise.
pub fn judge(leave: impl Into<Leave>, rules: &[Rule], ground: &Ground, act: &Act) -> Verdict {
    judge_within(&mut Meter::new(RULE_STEPS, usize::MAX), leave, rules, ground, act)
}

/// Judges an act within a budget. An act beyond it is denied.
pub fn judge_within(
    meter: &mut Meter,
    leave: impl Into<Leave>,
    rules: &[Rule],
    ground: &Ground,
    act: &Act,
) -> Verdict {
    let leave = leave.into();
    let mut asked = Vec::new();
    for Part { tool, access } in &act.parts {
        match judge_part(meter, leave, rules, ground, tool, access) {
            Verdict::Allow => {}
            Verdict::Ask(suggested) => asked.push(suggested),
            Verdict::Deny(reason) => return Verdict::Deny(reason),
        }
    }
    // What is not known may be what a rule denies.
    let may_be_denied = || {
        let names_some = |rule: &Rule| rule.command.is_some() || rule.path.is_some() || rule.host.is_some();
        rules.iter().any(|rule| rule.decision == Decision::Deny && names_some(rule))
    };
    match asked.as_slice() {
        [] if act.is_whole && !act.parts.is_empty() => Verdict::Allow,
        [] if leave.mode == Mode::Yolo && !may_be_denied() => Verdict::Allow,
        // A rule for one of several parts would not allow the act.
        [suggested] if act.is_whole => Verdict::Ask(suggested.clone()),
        _ => Verdict::Ask(None),
    }
}

/// Judges a part of an act.
fn judge_part(
    meter: &mut Meter,
    Leave { mode, agreed }: Leave,
    rules: &[Rule],
    ground: &Ground,
    tool: &str,
    access: &Access,
) -> Verdict {
    let workspace = ground.workspace.as_path();
    let Ok(fitting) = Fitting::new(rules, ground, tool, access, meter) else {
        return Verdict::Deny(
            "It takes too long to check this call against the rules. Write it as a shorter command or path."
                .to_owned(),
        );
    };
    let fit = || rules.iter().enumerate().filter(|(place, _)| fitting.has(*place)).map(|(_, rule)| rule);
    if let Some(rule) = fit().find(|rule| rule.decision == Decision::Deny) {
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
    let is_hidden = matches!(access, Access::Run(run) if shell::veiled(&run.shown(), meter));
    let veiled = is_hidden && rules.iter().any(denies);
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
    // The words of a rule say nothing of a command whose own words do not show what it runs, or where.
    let is_shown = !is_hidden && !matches!(access, Access::Run(run) if changes_later(run));
    // The person saw the whole of an exact command; nobody saw what another rule would allow.
    let seen = |rule: &&Rule| {
        rule.decision == Decision::Ask
            || rule.exact
            || if rule.command.is_some() { is_shown } else { !veiled }
    };
    match fit().filter(|rule| rule.decision != Decision::Deny).find(seen) {
        Some(rule) if rule.decision == Decision::Allow => return Verdict::Allow,
        Some(_) => return Verdict::Ask(None),
        None if is_shown && fitting.pieces => return Verdict::Allow,
        None => {}
    }
    match access {
        Access::Read(path) if ground.shows(path) || ground.holds(path) && !ground.hides(path) => {
            Verdict::Allow
        }
        Access::Write(path)
            if (agreed || mode == Mode::AcceptEdits) && protected_files::reason(path, ground).is_none() =>
        {
            Verdict::Allow
        }
        Access::Run(run) if agreed && !veiled && run.is_plain() => Verdict::Allow,
        Access::AtClient { read_only } if *read_only || agreed => Verdict::Allow,
        Access::Call { .. } if agreed => Verdict::Allow,
        Access::Call { read_only: true, .. } if mode == Mode::AcceptEdits => Verdict::Allow,
        _ => Verdict::Ask(suggestion(tool, access, workspace)),
    }
}

/// Whether a command of a line changes what later ones mean, such as their folder.
fn changes_later(run: &Run) -> bool {
    matches!(shell::analyse(&run.line), Analysis::Plain(commands) if shell::changes_later(&commands))
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
        Access::Run(run) if !run.is_plain() => None,
        Access::Run(run) => {
            let prefix = match shell::analyse(&run.line) {
                Analysis::Plain(commands) => match commands.as_slice() {
                    [words] => programs::prefix(words, workspace),
                    _ => None,
                },
                Analysis::Opaque => None,
            };
            let exact = prefix.is_none();
            let command = prefix.map_or_else(|| run.line.clone(), str::to_owned);
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
    use std::path::PathBuf;

    use super::*;
    use crate::http::Url;

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

    /// The verdict on a call of one of our tools.
    fn judge(
        leave: impl Into<Leave>,
        rules: &[Rule],
        ground: &Ground,
        tool: &str,
        access: &Access,
    ) -> Verdict {
        super::judge(leave, rules, ground, &Act::of(tool, access.clone()))
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
        let run = Access::Run(Run::line("ls"));
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
        let denied = crate::tool::walk::DeniedPaths::new(&all, &ground, "read");
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
        let outputs = Some("/w/state/outputs/s-1".into());
        let ground = Ground { hidden: vec!["/w/state".into()], outputs, ..Ground::from(Path::new("/w")) };
        let read = |path: &str| judge(Mode::Ask, &[], &ground, "read", &Access::Read(path.into()));
        assert_eq!(read("/w/state/outputs/s-1/o-1.txt"), Verdict::Allow);
        for path in [
            "/w/state/outputs/s-1/x.kept",
            "/w/state/outputs/s-2/o-1.txt",
            "/w/state/outputs/s-1",
            "/w/state/o.txt",
        ] {
            assert!(matches!(read(path), Verdict::Ask(_)), "{path}");
        }
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
        let barred = crate::tool::walk::DeniedPaths::new(&[], &ground, "search");
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
        let run = |command: &str| Access::Run(Run::line(command));
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
        Access::Run(Run::line(command))
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
            let barred = crate::tool::walk::DeniedPaths::new(&rules, &ground, "search").bars(path);
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

    #[test]
    fn words_of_a_rule_allow_no_more_than_they_say() {
        let ground = Ground::from(Path::new("/w"));
        let all = rules(
            r#"{:decision :allow :tool "bash" :command "test"} {:decision :allow :tool "bash" :command "cd"}
               {:decision :allow :tool "bash" :command "cat"} {:decision :allow :tool "bash" :command "printf"}
               {:decision :allow :tool "bash" :command "read"} {:decision :allow :tool "bash" :command "export"}
               {:decision :allow :tool "bash" :command "hash"} {:decision :allow :tool "bash" :command "python3"}
               {:decision :allow :tool "bash" :command "docker ps"} {:decision :allow :tool "bash" :command "unset"}"#,
        );
        for (command, expected) in [
            ("test -f a", "allow"),
            ("cat a", "allow"),
            ("cat a; cd sub", "allow"),
            ("python3 tools/x.py", "allow"),
            ("docker ps --format '{{.Names}}'", "allow"),
            ("test -v 'a[$(touch PWNED)]'", "ask"),
            ("printf -v 'a[$(touch PWNED)]' x", "ask"),
            ("read 'a[$(touch PWNED)]'", "ask"),
            ("unset 'a[$(touch PWNED)]'", "ask"),
            ("export 'PS4=$(touch PWNED)'", "ask"),
            ("python3 -c 'import os'", "ask"),
            ("cat a | python3", "ask"),
            ("cd ..; cat outside/secret.txt", "ask"),
            ("cd .. && cat outside/secret.txt", "ask"),
            ("cd sub\ncat a", "ask"),
            ("export PATH=.; cat a", "ask"),
            ("hash -p ./x cat; cat a", "ask"),
            ("read PATH; cat a", "ask"),
            ("printf -v PATH ./x; cat a", "ask"),
            ("pushd ..; cat outside/secret.txt", "ask"),
            ("cd ..\ncat outside/secret.txt", "ask"),
            ("cat a & cd ..; cat outside/secret.txt", "ask"),
            ("export LD_PRELOAD=./x; cat a", "ask"),
            ("unset PATH; cat a", "ask"),
            ("[ -v 'a[$(touch PWNED)]' ]", "ask"),
            ("test a -nt 'b[$(touch PWNED)]'", "ask"),
        ] {
            let run = Access::Run(Run::line(command));
            assert_eq!(word(&judge(Mode::Ask, &all, &ground, "bash", &run)), expected, "{command}");
        }
    }

    #[test]
    fn run_elsewhere_or_with_variables_needs_its_own_yes() {
        let ground = Ground::from(Path::new("/w"));
        let all =
            rules(r#"{:decision :allow :tool "bash"} {:decision :allow :tool "bash" :command "git status"}"#);
        let exact = rules(r#"{:decision :allow :tool "bash" :command "make" :exact true}"#);
        let plain = |line: &str| Run::line(line);
        let elsewhere = |line: &str| Run { folder: Some("/o".into()), ..Run::line(line) };
        let with = |line: &str, name: &str| Run {
            variables: [(name.to_owned(), "/w/x rm".to_owned())].into(),
            ..Run::line(line)
        };
        for (run, rules, expected) in [
            (plain("git status"), &all, "allow"),
            (elsewhere("git status"), &all, "ask"),
            (with("git status", "GIT_CONFIG_VALUE_0"), &all, "ask"),
            (plain("make"), &exact, "allow"),
            (elsewhere("make"), &exact, "ask"),
            (with("make", "LD_PRELOAD"), &exact, "ask"),
        ] {
            let access = Access::Run(run.clone());
            for leave in [Leave::from(Mode::Ask), Leave { mode: Mode::Ask, agreed: expected == "ask" }] {
                let verdict = judge(leave, rules, &ground, "bash", &access);
                assert_eq!(word(&verdict), expected, "{run:?}");
                assert!(!matches!(verdict, Verdict::Ask(Some(_))), "no rule is suggested for {run:?}");
            }
        }
        let deny = rules(r#"{:decision :deny :tool "bash" :command "rm"}"#);
        let verdict = judge(Mode::Yolo, &deny, &ground, "bash", &Access::Run(with("git status", "A")));
        assert_eq!(word(&verdict), "deny", "a variable names what is denied");
    }

    #[test]
    fn program_with_a_slash_is_allowed_by_its_path_alone() {
        let ground = Ground::from(Path::new("/w"));
        let all = rules(
            r#"{:decision :allow :tool "bash" :command "git status"} {:decision :allow :tool "bash" :command "bash"}
               {:decision :allow :tool "bash" :command "./gradlew"} {:decision :allow :tool "bash" :command "cd"}
               {:decision :allow :tool "bash" :command "./check a" :exact true}"#,
        );
        for (command, expected) in [
            ("git status", "allow"),
            ("/w/git status", "ask"),
            ("./git status", "ask"),
            ("/usr/bin/git status", "ask"),
            ("/w/bash x.sh", "ask"),
            ("./gradlew test", "allow"),
            ("gradlew test", "ask"),
            ("././gradlew test", "ask"),
            ("/w/gradlew test", "ask"),
            ("../gradlew test", "ask"),
            ("cd sub && ./gradlew test", "ask"),
            ("./check a", "allow"),
            ("./check b", "ask"),
            ("./check", "ask"),
        ] {
            assert_eq!(word(&judge(Mode::Ask, &all, &ground, "bash", &run(command))), expected, "{command}");
            for elsewhere in [
                Run { folder: Some("/o".into()), ..Run::line(command) },
                Run { variables: [("A".to_owned(), "b".to_owned())].into(), ..Run::line(command) },
            ] {
                let verdict = judge(Mode::Ask, &all, &ground, "bash", &Access::Run(elsewhere));
                assert_eq!(verdict, Verdict::Ask(None), "{command}");
            }
        }
        // Nothing is covered by rules for anything.
        for nothing in ["", " ", "\n"] {
            assert_eq!(word(&judge(Mode::Ask, &all, &ground, "bash", &run(nothing))), "ask");
        }
    }

    mod strictest {
        use proptest::prelude::*;

        use super::*;

        fn strictness(verdict: &Verdict) -> u8 {
            match verdict {
                Verdict::Allow => 0,
                Verdict::Ask(_) => 1,
                Verdict::Deny(_) => 2,
            }
        }

        fn part() -> impl Strategy<Value = Part> {
            let path = prop::sample::select(vec!["/w/a", "/w/secret/a", "/o/a", "/w/.git/config"]);
            let line =
                prop::sample::select(vec!["ls", "rm a", "ls; rm a", "make $X", "cat a", "cd ..; cat a"]);
            let run = (line, any::<bool>(), any::<bool>()).prop_map(|(line, elsewhere, with)| {
                let folder = elsewhere.then(|| PathBuf::from("/o"));
                let variables = with.then(|| ("A".to_owned(), "b".to_owned())).into_iter().collect();
                Access::Run(Run { line: line.to_owned(), folder, variables })
            });
            prop_oneof![
                path.clone().prop_map(|path| Part { tool: "read".into(), access: Access::Read(path.into()) }),
                path.prop_map(|path| Part { tool: "edit".into(), access: Access::Write(path.into()) }),
                run.prop_map(|access| Part { tool: "bash".into(), access }),
                Just(Part { tool: "fetch".into(), access: fetch("https://docs.rs/") }),
                any::<bool>().prop_map(|only| Part { tool: "mcp__git__log".into(), access: at_server(only) }),
            ]
        }

        proptest! {
            /// An act is as strict as its strictest part, and what is not known of it makes it no milder.
            #[test]
            fn act_is_as_strict_as_its_strictest_part(
                parts in prop::collection::vec(part(), 1..5),
                mode in prop::sample::select(vec![Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo]),
                agreed: bool,
                chosen in prop::sample::subsequence(vec![
                    "{:decision :deny :tool \"bash\" :command \"rm\"}",
                    "{:decision :deny :path \"secret/**\"}",
                    "{:decision :allow :tool \"bash\" :command \"ls\"}",
                    "{:decision :allow :tool \"bash\"}",
                    "{:decision :ask :tool \"edit\"}",
                    "{:decision :allow :tool \"fetch\" :host \"docs.rs\"}",
                    "{:decision :allow :tool \"mcp__*\"}",
                ], 0..7),
            ) {
                let all = rules(&chosen.join(" "));
                let (ground, leave) = (Ground::from(Path::new("/w")), Leave { mode, agreed });
                let of = |part: &Part| judge(leave, &all, &ground, &part.tool, &part.access);
                let strictest = parts.iter().map(|part| strictness(&of(part))).max().unwrap();
                let whole = super::super::judge(leave, &all, &ground, &Act { parts: parts.clone(), is_whole: true });
                prop_assert_eq!(strictness(&whole), strictest);
                let partly = super::super::judge(leave, &all, &ground, &Act { parts, is_whole: false });
                prop_assert!(strictness(&partly) >= strictest);
                if mode != Mode::Yolo {
                    prop_assert!(strictness(&partly) >= 1);
                }
            }
        }
    }

    #[test]
    fn thousand_rules_are_matched_in_linear_steps() {
        let globs = |count: usize| -> Vec<Rule> {
            let rule = |n| Rule {
                decision: Decision::Deny,
                path: Some(format!("**/{{x{n},y{n}*}}/*a*b*.key")),
                ..Rule::allowing()
            };
            (0..count).map(rule).collect()
        };
        let ground = Ground::from(Path::new("/w"));
        let path = Path::new("/w/src/deep/down/some_file_of_usual_length.rs");
        let steps = |rules: &[Rule], tool: &str, access: &Access| {
            let mut meter = Meter::new(RULE_STEPS, usize::MAX);
            assert_eq!(
                word(&super::judge_within(
                    &mut meter,
                    Mode::Yolo,
                    rules,
                    &ground,
                    &Act::of(tool, access.clone())
                )),
                "allow"
            );
            meter.steps()
        };
        let read = Access::Read(path.to_owned());
        let (few, many) = (steps(&globs(10), "read", &read), steps(&globs(1_000), "read", &read));
        assert!(many <= 101 * few, "{few} {many}");
        // A walk pays for each path the same, and compiles nothing again.
        let barred = crate::tool::walk::DeniedPaths::new(&globs(1_000), &ground, "find");
        let mut meter = Meter::new(usize::MAX, usize::MAX);
        for n in 0..20_000 {
            assert_eq!(barred.bars_within(&path.with_file_name(format!("f{n}.rs")), &mut meter), Ok(false));
        }
        assert_eq!(barred.bars_within(Path::new("/w/q/y7z/1a2b3.key"), &mut meter), Ok(true));
        let stop = tokio_util::sync::CancellationToken::new();
        stop.cancel();
        let mut stopped = Meter::new(usize::MAX, usize::MAX).stopped_by(&stop);
        assert!((0..100).any(|_| barred.bars_within(path, &mut stopped).is_err()), "an abort frees the core");
    }

    #[test]
    fn command_that_is_made_to_be_slow_is_judged_in_its_budget() {
        let ground = Ground::from(Path::new("/w"));
        let hostile = rules("{:decision :deny :tool \"bash\" :command \"a a a a a a a b\"}");
        let git = rules("{:decision :deny :tool \"bash\" :command \"git push\"}");
        let many: Vec<Rule> = (0..1_000)
            .map(|_| Rule { decision: Decision::Deny, command: Some("a a b".to_owned()), ..Rule::allowing() })
            .collect();
        for (rules, command, yolo) in [
            (&hostile, format!("a {}", "-a a ".repeat(60)), "allow"),
            (&hostile, format!("a {}", "-a a ".repeat(12_000)), "allow"),
            (&git, "git -a ".repeat(9_000), "allow"),
            // More than is looked through.
            (&git, "git -a ".repeat(30_000), "deny"),
            (&git, "x".repeat(1_000_000), "deny"),
            (&many, "a -a ".repeat(13_000), "deny"),
            (&git, "nohup git status ".repeat(3_000), "deny"),
        ] {
            let mut meter = Meter::new(RULE_STEPS, usize::MAX);
            let verdict =
                super::judge_within(&mut meter, Mode::Yolo, rules, &ground, &Act::of("bash", run(&command)));
            assert_eq!(word(&verdict), yolo, "{command:.30} {verdict:?}");
            assert!(meter.steps() <= 2 * RULE_STEPS);
        }
        let long = rules("{:decision :allow :command \"ls\"}");
        let verdict = judge(Mode::Ask, &long, &ground, "bash", &run(&format!("ls {}", "a".repeat(70_000))));
        assert_eq!(word(&verdict), "ask", "no rule allows what is too long to be looked through");
        let asks = rules("{:decision :ask :command \"git push\"} {:decision :allow :tool \"bash\"}");
        for (command, expected) in
            [("ls".to_owned(), "allow"), (format!("ls {}", "a ".repeat(40_000)), "ask")]
        {
            assert_eq!(word(&judge(Mode::Ask, &asks, &ground, "bash", &run(&command))), expected);
        }
    }

    #[test]
    fn rule_of_more_words_than_are_looked_for_is_refused() {
        let read = |text: &str| Rule::read(&crate::edn::read_one(text.as_bytes()).unwrap());
        assert!(read("{:decision :deny :command \"a a a a a a a a\"}").is_ok());
        assert_eq!(read("{:decision :deny :command \"a a a a a a a a b\"}"), Err(RuleError::Words));
        assert!(read("{:decision :allow :command \"a a a a a a a a b\" :exact true}").is_ok());
    }
}
