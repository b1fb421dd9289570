//! Why the configuration cannot be used, as a sentence for a person. Reads nothing.

use std::path::PathBuf;

use crate::edn;

/// Why a text is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is no EDN.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is written in a way that is not changed here.
    #[error("{0} is no plain map there, so it is not changed; change it by hand")]
    NoMap(String),
    /// The entry is there.
    #[error("it has {0} already")]
    Exists(String),
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file that was named is not there.
    #[error("There is no file {}, which {origin} names.", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The option or the variable that names it.
        origin: String,
    },
    /// A file is not EDN.
    #[error("{}:{source}{opened}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: edn::Error,
        /// The end of the sentence: what is not closed, if something is.
        opened: String,
    },
    /// The text of a file is not changed.
    #[error("{}: {source}", path.display())]
    Edit {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: EditError,
    },
    /// A value has another shape than it must.
    #[error("{place}: {key} must be {expected}")]
    Shape {
        /// The file, with line and column where they are known.
        place: String,
        /// The key.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
    /// More than one thing is wrong: one on each line.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Several(Vec<Self>),
}

impl ConfigError {
    /// All that is wrong as one error; `None` if nothing is.
    pub(super) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }
}
