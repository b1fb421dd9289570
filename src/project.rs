//! Names the files and folders in which a project's data are kept.
//!
//! Knows paths; does not know the data.

use std::path::Path;

use sha2::{Digest, Sha256};

/// A file name for a folder: readable, and unique per folder.
pub fn name(cwd: &Path) -> String {
    let path = cwd.to_string_lossy();
    let digest = Sha256::digest(cwd.as_os_str().as_encoded_bytes());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root");
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    format!("{name}-{short}")
}
