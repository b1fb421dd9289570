//! Searches a folder and reads the start of its files, wherever they really are.
//!
//! Knows the permitted folders; does not know the purpose of the file.

use std::io;
use std::path::{Path, PathBuf};

use super::skip_reason::SkippedError;
use crate::files::{self, Start};
use crate::tool::path::within;

/// The author of a file: the user, or the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// It is in the user's own folder.
    User,
    /// It is in the project.
    Project,
}

impl Author {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// A file that was found but is unusable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// The reason, and what to do.
    pub message: String,
}

impl Problem {
    pub(super) fn new(path: &Path, message: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), message: message.to_string() }
    }
}

/// A folder to search, outermost first, and the permitted targets of its links.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) scope: Author,
    /// The folder that must contain the real file; `None` for any.
    pub(super) confined_to: Option<PathBuf>,
}

/// The names in a folder, sorted, at most `most`. A missing folder has none.
pub(super) fn names(folder: &Path, most: usize) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.truncate(most);
    names
}

/// Reads at most `most` bytes of a regular file. `None` if there is none.
///
/// # Errors
/// If a link leads out of the permitted folder, it is not a regular file, or it is unreadable.
pub(super) fn start(folder: &Folder, path: &Path, most: u64) -> Result<Option<Start>, SkippedError> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if folder.confined_to.as_deref().is_some_and(|confined| !within(&real, confined)) {
        return Err(SkippedError::Outside);
    }
    match files::start(&real, most) {
        Ok(start) => Ok(Some(start)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(SkippedError::Irregular),
        Err(error) => Err(error.into()),
    }
}
