//! Reads the start of a project's file, wherever it really is.
//!
//! Knows the permitted folders; does not know the purpose of the file.

use std::path::Path;

use super::Folder;
use crate::files::{self, Start};
use crate::tool::path::within;

/// Reads at most `most` bytes of a regular file. `None` if there is none.
///
/// # Errors
/// Why it was skipped: a link leads out of the permitted folder, it is not a regular file, or it is
/// unreadable.
pub(super) fn start(folder: &Folder, path: &Path, most: u64) -> Result<Option<Start>, String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("It cannot be read: {error}.")),
    };
    if folder.confined_to.as_deref().is_some_and(|confined| !within(&real, confined)) {
        return Err(
            "A link leads out of the project, which is followed only in folders that you trust (/trust)."
                .to_owned(),
        );
    }
    match files::start(&real, most) {
        Ok(start) => Ok(Some(start)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            Err("It is not a regular file.".to_owned())
        }
        Err(error) => Err(format!("It cannot be read: {error}.")),
    }
}
