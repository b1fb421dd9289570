//! The reasons why a call cannot be made.
//!
//! A model reads them as text. The engine and the tools tell apart what a second attempt may change.

use std::borrow::Cow;
use std::path::PathBuf;

use super::path::PathError;
use crate::glob::GlobError;
use crate::limits::SEARCH_PATTERN_LENGTH;

/// Why a call cannot be made, as a sentence for the model.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// An argument is missing or has the wrong shape.
    #[error("The argument {key} must be {expected}.")]
    Argument {
        /// Its key.
        key: &'static str,
        /// The right shape.
        expected: &'static str,
    },
    /// The argument `path` cannot be resolved.
    #[error("The path cannot be used: {0}.")]
    Path(#[from] PathError),
    /// The argument `glob` cannot be parsed.
    #[error("The glob cannot be used: {0}.")]
    Glob(#[from] GlobError),
    /// The argument `pattern` cannot be parsed.
    #[error("The pattern is no regular expression: {0}")]
    Pattern(grep_regex::Error),
    /// The argument `pattern` is longer than a pattern may be.
    #[error("The pattern is too long: it may have {SEARCH_PATTERN_LENGTH} bytes.")]
    LongPattern,
    /// The session's folder is behind a link now.
    #[error(
        "The session's folder {} leads to {} now, so the call was not run. Ask the user to put it back.",
        .folder.display(), .leads_to.display()
    )]
    Moved {
        /// The folder.
        folder: PathBuf,
        /// Where its path leads.
        leads_to: PathBuf,
    },
    /// A rule denies the folder of a search, or it holds the program's own secrets.
    #[error("A rule denies {}, or it belongs to this program.", .0.display())]
    Denied(PathBuf),
    /// There is no such file or folder.
    #[error("{} does not exist{hint}.", path.display())]
    Missing {
        /// Its path.
        path: PathBuf,
        /// What to do instead.
        hint: Cow<'static, str>,
    },
    /// The file cannot be read or written.
    #[error("{} cannot be {action}: {why}.", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// The reason.
        why: String,
    },
    /// The file changed after it was read: the same call may succeed now.
    #[error("Somebody else changed the file while it was read; nothing was written. Read it and try again.")]
    Changed,
    /// The model does not know the text that it would replace as a whole.
    #[error(
        "{} was not written. It has changed since you read it (or was never read): read it first.", .0.display()
    )]
    Unread(PathBuf),
    /// The file is not what a person edited a proposal for.
    #[error(
        "The user edited the proposed text before accepting it, and somebody else changed the file meanwhile; nothing \
         was written. Read it and try again."
    )]
    Stale,
    /// The file may have been changed or not.
    #[error("{0}")]
    Unknown(String),
    /// The arguments do not fit the file or each other.
    #[error("{0}")]
    Unfit(String),
    /// The call was ended before it did anything.
    #[error("The call was ended.")]
    Ended,
    /// The tool panicked.
    #[error("The tool failed inside.")]
    Broken,
}
