//! Names the files and folders in which a project's data are kept.
//!
//! Knows paths; does not know the data.

use std::path::Path;

use crate::sha256;

/// A file name for a folder: readable, and unique per folder.
pub fn name(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    let digest = sha256::hex(cwd.as_os_str().as_encoded_bytes());
    let short = digest.get(..8).unwrap_or_default();
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root");
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    format!("{name}-{short}")
}
