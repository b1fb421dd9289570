//! Undo: what the tools of turns did to files, taken back and done again. Does not know where the texts are kept.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::session::call::{Call, Reply};

/// Undoes what turns did to files. A file that somebody else has changed since is left alone.
pub trait Undos: Send + Sync {
    /// Undoes or redoes the changes of turns, newest first.
    fn undo(&self, call: Call, wish: Undo, reply: Reply<Undone>);
}

/// What is to be undone or redone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Whether it is undone, rather than redone.
    pub undoes: bool,
    /// The number of turns.
    pub steps: usize,
    /// Whether files that somebody else has changed since are skipped. Otherwise they stop everything.
    pub skips_changed: bool,
}

/// What was undone or redone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undone {
    /// The number of turns.
    pub steps: usize,
    /// What became of their files.
    pub files: Vec<UndoneFile>,
    /// The same for a person, with what is not among it.
    pub message: String,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoneFile {
    /// The file, absolute.
    pub path: String,
    /// `restored`, `created`, `removed` or `skipped`.
    pub action: Cow<'static, str>,
}
