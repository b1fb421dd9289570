//! What somebody wants to do, as one value: it is judged, shown to a person, permitted and carried out as it stands.
//!
//! Whoever asks has one function that makes an [`Act`]. Reads no file and judges nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::http::Url;
use crate::tool::shell::{self, Analysis};

/// The effect of a call, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// None outside the session.
    Nothing,
    /// Reads a file or folder.
    Read(PathBuf),
    /// Writes a file.
    Write(PathBuf),
    /// Runs a command.
    Run(Run),
    /// Asks a server for an address.
    Fetch(Url),
    /// Is carried out by a client of the session, which says whether it changes anything.
    AtClient {
        /// Whether it changes nothing.
        read_only: bool,
    },
    /// Calls a tool of a server (`mcp`), or one of an external agent's own.
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

/// A command: what bash reads, where, and with which variables besides those that every command gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// The line that bash reads.
    pub line: String,
    /// Its folder, without links; `None` for the session's.
    pub folder: Option<PathBuf>,
    /// Further variables.
    pub variables: BTreeMap<String, String>,
}

/// The shells whose text is judged as the line that it is: bash runs it.
const SHELLS: [&str; 6] = ["sh", "bash", "/bin/sh", "/bin/bash", "/usr/bin/sh", "/usr/bin/bash"];

impl Run {
    /// A line in the session's folder.
    pub fn line(line: impl Into<String>) -> Self {
        Self { line: line.into(), ..Self::default() }
    }

    /// A program and its arguments. A shell's text, and a single word with blanks, is the line itself; anything else is
    /// quoted, so that bash starts just this program with just these words.
    pub fn words(words: &[String]) -> Self {
        Self::line(match words {
            [shell, flag, text]
                if SHELLS.contains(&shell.as_str()) && matches!(flag.as_str(), "-c" | "-lc") =>
            {
                text.clone()
            }
            [alone] if alone.contains(char::is_whitespace) => alone.clone(),
            words => quoted(words),
        })
    }

    /// Whether its line says all of it. Only then do rules that allow fit it.
    pub fn is_plain(&self) -> bool {
        self.folder.is_none() && self.variables.is_empty()
    }

    /// All of it as a line that does the same in the session's folder: `cd DIR && env A=b make`.
    pub fn shown(&self) -> Cow<'_, str> {
        if self.is_plain() {
            return Cow::Borrowed(&self.line);
        }
        let mut words = Vec::new();
        if !self.variables.is_empty() {
            words.push("env".to_owned());
            words.extend(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        }
        let mut text = quoted(&words);
        let is_one = matches!(shell::analyse(&self.line), Analysis::Plain(commands) if commands.len() == 1);
        if !text.is_empty() {
            text.push(' ');
        }
        match is_one {
            true => text.push_str(self.line.trim()),
            false => text.push_str(&quoted(&["bash".to_owned(), "-c".to_owned(), self.line.clone()])),
        }
        match &self.folder {
            Some(folder) => {
                let folder = quoted(&["cd".to_owned(), folder.to_string_lossy().into_owned()]);
                Cow::Owned(format!("{folder} && {text}"))
            }
            None => Cow::Owned(text),
        }
    }
}

/// Words as a line of which bash reads just these words.
pub fn quoted(words: &[String]) -> String {
    let word = |(place, word): (usize, &String)| {
        // The first word may be no assignment and no keyword.
        let is_word = place > 0 || !(word.contains('=') || shell::is_reserved(word));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
        match !word.is_empty() && is_word && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

/// A part of what somebody wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The tool of ours whose rules hold for it.
    pub tool: Arc<str>,
    /// What it does.
    pub access: Access,
}

/// What somebody wants to do: everything that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Its parts.
    pub parts: Vec<Part>,
    /// Whether these are all of it. Nothing allows a part that nobody understands.
    pub is_whole: bool,
}

impl Act {
    /// A call of one of our tools, which has one effect.
    pub fn of(tool: impl Into<Arc<str>>, access: Access) -> Self {
        Self { parts: vec![Part { tool: tool.into(), access }], is_whole: true }
    }

    /// What it does, part by part.
    pub fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.parts.iter().map(|part| &part.access)
    }

    /// The commands that it runs, each as a shell would read it.
    pub fn commands(&self) -> Option<String> {
        let lines = self.accesses().filter_map(|access| match access {
            Access::Run(run) => Some(run.shown()),
            _ => None,
        });
        let lines: Vec<Cow<'_, str>> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// The files and folders that it reads or writes.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.accesses().filter_map(|access| match access {
            Access::Read(path) | Access::Write(path) => Some(path),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn run_is_shown_as_a_shell_reads_it() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (command, line) in [
            (&["make", "test"][..], "make test"),
            (&["echo", "a b", "it's"], r"echo 'a b' 'it'\''s'"),
            (&["bash", "-lc", "make && ls"], "make && ls"),
            (&["/bin/sh", "-c", "ls"], "ls"),
            (&["/ws/bash", "-c", "git status"], "/ws/bash -c 'git status'"),
            (&["./sh", "-c", "git status"], "./sh -c 'git status'"),
            (&["make test"], "make test"),
            (&["$(id)"], "'$(id)'"),
            (&["A=b", "ls"], "'A=b' ls"),
            (&["time", "ls"], "'time' ls"),
        ] {
            assert_eq!(Run::words(&words(command)).line, line);
        }
        let variables =
            || BTreeMap::from([("B".to_owned(), "c d".to_owned()), ("A".to_owned(), "b".to_owned())]);
        let of = |line: &str| Run { folder: Some("/o u".into()), variables: variables(), ..Run::line(line) };
        assert_eq!(of("git status").shown(), "cd '/o u' && env A=b 'B=c d' git status");
        assert_eq!(of("a; b").shown(), "cd '/o u' && env A=b 'B=c d' bash -c 'a; b'");
        let folder = Run { variables: BTreeMap::new(), ..of("a || b") };
        assert_eq!(folder.shown(), "cd '/o u' && bash -c 'a || b'");
        assert_eq!(Run::line("a  'b'").shown(), "a  'b'", "as it is");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// What a person reads does what is started: the same words, folder and variable, whatever characters they have.
        #[test]
        fn shown_line_starts_what_the_run_starts(
            words in prop::collection::vec("[ -~\u{e9}\u{202e}\n]{0,8}", 1..4),
            value in "[ -~\n]{0,8}",
            in_folder: bool,
            with_variable: bool,
        ) {
            let elsewhere = tempfile::tempdir().unwrap();
            let mut argv = vec!["printf".to_owned(), "<%s>".to_owned()];
            argv.extend(words);
            let mut run = Run::words(&["bash".to_owned(), "-c".to_owned(), format!(
                "{}; pwd -P; printf '[%s]' \"$PROBE\"", quoted(&argv)
            )]);
            run.folder = in_folder.then(|| elsewhere.path().canonicalize().unwrap());
            if with_variable {
                run.variables.insert("PROBE".to_owned(), value);
            }
            let output = |line: &str, run: Option<&Run>| {
                let mut command = std::process::Command::new("bash");
                command.args(["-c", line]).env_remove("PROBE").current_dir("/");
                if let Some(run) = run {
                    command.envs(&run.variables).current_dir(run.folder.as_deref().unwrap_or("/".as_ref()));
                }
                command.output().unwrap()
            };
            prop_assert_eq!(output(&run.shown(), None), output(&run.line, Some(&run)));
        }
    }
}
