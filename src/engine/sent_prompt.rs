//! The system prompt of a session as it is sent, and what the model has been told of its surroundings since.
//!
//! It is made at the first request of a process and after a compaction, and stays as it is between, so that a provider reads
//! it from its cache. What changes meanwhile is told in context updates.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context::delimiters;
use crate::message::EntryId;

/// The surroundings of a session, as a model knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The date, in UTC, such as `2026-01-31`.
    pub date: String,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// The permission mode.
    pub mode: &'static str,
}

/// A system prompt that was sent.
#[derive(Debug, Clone, Default)]
pub struct SentPrompt {
    /// Its text.
    pub text: String,
    /// The SHA-256 of the parts that come from the user's files: other files make another prompt.
    pub digest: String,
    /// The newest compaction before it.
    pub compaction: Option<EntryId>,
    /// The surroundings as they were told last.
    pub surroundings: Surroundings,
    /// The names of the tools that were offered with it, in the order in which they came.
    pub tools: Vec<String>,
    /// The files of instructions that were told since, because a file below was touched.
    pub instructions: Vec<PathBuf>,
}

/// The system prompt of a session, if there was a request.
#[derive(Debug, Default)]
pub struct LastPrompt(Mutex<Option<SentPrompt>>);

impl LastPrompt {
    fn lock(&self) -> MutexGuard<'_, Option<SentPrompt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It.
    pub fn get(&self) -> Option<SentPrompt> {
        self.lock().clone()
    }

    /// Another one from here on.
    pub fn set(&self, prompt: SentPrompt) {
        *self.lock() = Some(prompt);
    }

    /// The place of a tool among those that were offered first.
    pub fn place(&self, tool: &str) -> Option<usize> {
        self.lock().as_ref()?.tools.iter().position(|known| known == tool)
    }
}

/// The news of surroundings that have changed; `None` if nothing has.
pub fn news(known: &Surroundings, now: &Surroundings) -> Option<String> {
    let mut news = Vec::new();
    if known.date != now.date {
        news.push(format!("The date is {}.", now.date));
    }
    if known.branch != now.branch {
        news.push(match &now.branch {
            Some(branch) => format!("The git branch is {}.", delimiters::body(branch)),
            None => "No git branch is checked out.".to_owned(),
        });
    }
    if known.mode != now.mode {
        news.push(about_mode(now.mode));
    }
    (!news.is_empty()).then(|| news.join("\n"))
}

/// A mode in a sentence.
pub fn about_mode(mode: &str) -> String {
    let meaning = match mode {
        "read-only" => "files cannot be changed, and commands cannot be run",
        "yolo" => "calls run without a question",
        "accept-edits" => {
            "edits in the project run without a question, and the user may be asked before other calls"
        }
        _ => "the user may be asked before a call runs",
    };
    format!("The permission mode is {mode}: {meaning}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_surroundings_are_told_and_others_not() {
        let at = |date: &str, branch: Option<&str>, mode| Surroundings {
            date: date.to_owned(),
            branch: branch.map(str::to_owned),
            mode,
        };
        let first = at("2026-01-01", Some("main"), "ask");
        assert_eq!(news(&first, &first), None);
        let other = news(&first, &at("2026-01-02", None, "yolo")).unwrap();
        assert!(other.contains("date is 2026-01-02") && other.contains("No git branch"), "{other}");
        assert!(other.contains("mode is yolo: calls run without"), "{other}");
        let branch = news(&first, &at("2026-01-01", Some("next"), "ask"));
        assert_eq!(branch.as_deref(), Some("The git branch is next."));
    }
}
