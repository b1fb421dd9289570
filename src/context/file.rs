//! Reading a file of which only a part may be wanted, wherever it really stands.
//!
//! Knows the file system; does not know what the file is for.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::Folder;
use crate::tool::path::within;

/// The start of a file.
pub(super) struct Start {
    /// Its text; what is not UTF-8 is replaced.
    pub text: String,
    /// The whole file's size in bytes.
    pub bytes: u64,
}

impl Start {
    /// Whether something is missing at the end.
    pub fn is_cut(&self, most: u64) -> bool {
        self.bytes > most
    }
}

/// Reads at most `most` bytes of a regular file. `None` where there is none.
///
/// # Errors
/// Why it is left alone: a link leads out of where the folder's files may stand, it is no regular file,
/// or it cannot be read.
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
    let failed = |error: &dyn std::fmt::Display| format!("It cannot be read: {error}.");
    // What is no regular file might never end, or never begin.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = File::from(rustix::fs::open(&real, flags, Mode::empty()).map_err(|error| failed(&error))?);
    let found = file.metadata().map_err(|error| failed(&error))?;
    if !found.is_file() {
        return Err("It is no regular file.".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // A character that the bound has cut is no fault of the file.
            let cut = error.utf8_error().error_len().is_none();
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            if cut {
                bytes.truncate(valid);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    Ok(Some(Start { text, bytes: found.len() }))
}
