//! The environment of a session in a few lines for the model: date, system, shell, folder, and what git says of it.
//!
//! The repository may be anybody's, and nobody has been asked about a command of it. So git is asked only what runs nothing of
//! the repository's configuration: no filters, hooks, monitors, pagers, remotes or submodules.

use std::path::PathBuf;

use crate::context::delimiters;
use crate::engine::native::turn::Turn;
use crate::engine::sent_prompt::{Surroundings, about_mode};
use crate::limits::{ENVIRONMENT_BYTES, ENVIRONMENT_LINES, ENVIRONMENT_WAIT};
use crate::tool::one_line;
use crate::tool::output::Outputs;
use crate::tool::process::{self, ProcessRequest};

/// The questions to git: staged changes, changes of files, new files, and the subjects of the last commits.
const ASKED: &str = "\
g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c log.showSignature=false -c core.pager=cat --no-optional-locks \"$@\" 2>/dev/null; }
g diff-index --cached --name-status --ignore-submodules=all HEAD -- . | sed 's/^/staged /'
g diff-files --name-only --ignore-submodules=all -- . | sed 's/^/changed /'
g ls-files --others --exclude-standard -- . | sed 's/^/new /'
g log -3 --no-show-signature --format='commit %s'
";

/// The block for the system prompt.
pub async fn block(turn: &Turn, surroundings: &Surroundings) -> String {
    let facts = turn.session.snapshot().facts.clone();
    let mut text = format!(
        "<environment>\nDate: {}\nSystem: {} ({})\nShell of commands: bash\nFolder: {}\n{}\n",
        surroundings.date,
        std::env::consts::OS,
        std::env::consts::ARCH,
        facts.cwd,
        about_mode(surroundings.mode),
    );
    if let Some(branch) = &surroundings.branch {
        let branch = format!("Git branch: {branch}\n");
        let room = ENVIRONMENT_BYTES.saturating_sub(text.len()).saturating_sub(branch.len());
        text.push_str(&delimiters::body(&(branch + &of_git(turn, room).await)));
    }
    text.push_str("</environment>");
    text
}

/// The answer of git for the block, within so many bytes: the subjects of the last commits, and as many files as fit.
async fn of_git(turn: &Turn, room: usize) -> String {
    let facts = turn.session.snapshot().facts.clone();
    let cwd = PathBuf::from(&*facts.cwd);
    let variables = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")];
    let job = ProcessRequest {
        command: ASKED.to_owned(),
        sandbox: turn.config().sandbox(facts.mode, &cwd, &[]),
        cwd,
        timeout: Some(ENVIRONMENT_WAIT),
        environment: turn.environment(),
        variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        lifeline: turn.lifeline(),
    };
    let outputs = Outputs::new(&turn.shared.settings.state_dir, turn.session.id.as_str());
    let output = outputs.collect(turn.shared.clock.id("o-"));
    let Ok(ended) = process::run(job, output, &turn.stop, &|_| {}).await else { return String::new() };
    shown(&ended.output.text, room)
}

/// The answer of git, within so many bytes.
fn shown(answer: &str, room: usize) -> String {
    let (subjects, files): (Vec<&str>, Vec<&str>) =
        answer.lines().partition(|line| line.starts_with("commit "));
    let subjects = subjects.iter().take(3).filter_map(|line| line.strip_prefix("commit "));
    let mut text = String::new();
    let mut subjects = subjects.map(|subject| format!("  {}\n", one_line(subject, 72))).peekable();
    if subjects.peek().is_some() {
        text.push_str("Last commits:\n");
        subjects.for_each(|line| text.push_str(&line));
    }
    let mut left_out = files.len();
    let mut status = String::new();
    for file in files.iter().take(ENVIRONMENT_LINES) {
        let line = format!("  {}\n", one_line(file, 100));
        if text.len().saturating_add(status.len()).saturating_add(line.len()) > room.saturating_sub(60) {
            break;
        }
        status.push_str(&line);
        left_out = left_out.saturating_sub(1);
    }
    if !files.is_empty() {
        text.push_str("Git status:\n");
        text.push_str(&status);
    }
    if left_out > 0 {
        text.push_str(&format!("  … {left_out} more\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_answer_is_shown_within_bounds() {
        let files: String = (0..50).map(|n| format!("changed src/file{n}.rs\n")).collect();
        let answer = format!("{files}commit First subject\ncommit {}\n", "long ".repeat(50));
        let text = shown(&answer, 1000);
        assert!(text.starts_with("Last commits:\n  First subject\n  long "), "{text}");
        assert!(text.contains("Git status:\n  changed src/file0.rs\n") && text.len() <= 1000, "{text}");
        assert_eq!(text.matches("changed").count(), ENVIRONMENT_LINES);
        assert!(text.ends_with("  … 30 more\n"), "{text}");
        assert!(shown(&answer, 300).len() <= 300);
        assert_eq!(shown("", 1000), "");
    }
}
