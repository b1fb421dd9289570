//! What a person has allowed an agent, and it has not done yet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::terminals::quoted;
use crate::sha256;

/// What a person has allowed, and the agent has not done yet: each is used once.
#[derive(Default)]
pub(super) struct Permits(Vec<Permit>);

struct Permit {
    /// The call that it was a part of: it ends with the call.
    call: Arc<str>,
    act: Act,
}

/// An act that may be done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// A file is written: with the text of that digest, where the person saw it.
    Write(PathBuf, Option<String>),
    /// A command is run.
    Run(String),
}

impl Permits {
    /// Forgets those of a call that is over.
    pub(super) fn forget(&mut self, call: &str) {
        self.0.retain(|permit| *permit.call != *call);
    }

    /// Adds those of a call.
    pub(super) fn add(&mut self, call: &Arc<str>, acts: Vec<Act>) {
        self.0.extend(acts.into_iter().map(|act| Permit { call: call.clone(), act }));
    }

    /// Uses the permit to write a text to a file, if there is one.
    pub(super) fn may_write(&mut self, file: &Path, text: &str) -> bool {
        let digest = sha256::hex(text);
        self.take(|act| match act {
            Act::Write(path, seen) => path == file && seen.as_ref().is_none_or(|seen| *seen == digest),
            Act::Run(_) => false,
        })
    }

    /// Uses the permit to run a command, if there is one.
    pub(super) fn may_run(&mut self, command: &[String]) -> bool {
        self.take(|act| match act {
            Act::Write(..) => false,
            Act::Run(allowed) => is_command(command, allowed),
        })
    }

    fn take(&mut self, is_it: impl Fn(&Act) -> bool) -> bool {
        let place = self.0.iter().position(|permit| is_it(&permit.act));
        place.map(|place| self.0.remove(place)).is_some()
    }
}

/// Whether a program with its arguments is the command that was allowed: as it stands, or as the text for a shell.
fn is_command(command: &[String], allowed: &str) -> bool {
    match command {
        [shell, flag, text] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => text == allowed,
        [alone] => alone == allowed,
        words => quoted(words) == allowed || words.join(" ") == allowed,
    }
}

fn is_shell(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("sh" | "bash" | "zsh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permit_is_used_once_and_for_what_was_seen() {
        let mut permits = Permits::default();
        let call: Arc<str> = "c".into();
        let file = Path::new("/w/a.txt");
        permits.add(&call, vec![Act::Write(file.into(), Some(sha256::hex("text")))]);
        assert!(!permits.may_write(file, "other text"));
        assert!(!permits.may_write(Path::new("/w/b.txt"), "text"));
        assert!(permits.may_write(file, "text"));
        assert!(!permits.may_write(file, "text"), "used");
        permits.add(&call, vec![Act::Write(file.into(), None), Act::Run("ls -l".into())]);
        permits.forget("other");
        assert!(permits.may_run(&["bash".into(), "-lc".into(), "ls -l".into()]));
        assert!(!permits.may_run(&["ls".into(), "-l".into()]), "used");
        permits.forget("c");
        assert!(!permits.may_write(file, "any"), "it ends with its call");
    }

    #[test]
    fn command_is_known_in_each_form() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (command, allowed, is_it) in [
            (&["/bin/sh", "-c", "make test"][..], "make test", true),
            (&["make", "test"], "make test", true),
            (&["echo", "a b"], "echo 'a b'", true),
            (&["make test"], "make test", true),
            (&["make", "test", "x"], "make test", false),
            (&["python", "-c", "make test"], "make test", false),
        ] {
            assert_eq!(is_command(&words(command), allowed), is_it, "{command:?}");
        }
    }
}
