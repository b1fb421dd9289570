//! The reasons why a project's file is skipped. Each is a sentence for a person, who sees it in `/context` and in
//! `edn-bridge doctor`. Does not read files.

use std::io;

/// Why a project's file was skipped, as a sentence for the person.
#[derive(Debug, thiserror::Error)]
pub(super) enum SkippedError {
    /// It is unreadable.
    #[error("It cannot be read: {0}.")]
    Io(#[from] io::Error),
    /// A link leads out of the permitted folder.
    #[error("A link leads out of the project, which is followed only in folders that you trust (/trust).")]
    Outside,
    /// It is a folder, a pipe or a device.
    #[error("It is not a regular file.")]
    Irregular,
    /// It is too long.
    #[error("It has more than {limit} bytes{hint}.")]
    Long {
        /// The bound.
        limit: u64,
        /// What to do.
        hint: &'static str,
    },
    /// Its front matter has no last line.
    #[error("Its front matter does not end: a line of three hyphens is missing.")]
    OpenFrontMatter,
    /// Its front matter cannot be parsed.
    #[error("Its front matter is no YAML map: {0}.")]
    FrontMatter(String),
    /// Its front matter lacks a value.
    #[error("{0}")]
    Missing(&'static str),
    /// Its name has other characters than it may.
    #[error("{0}")]
    Name(String),
}
