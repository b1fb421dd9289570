//! The folder of sessions that end with their process. Knows nothing of what is in it.

use std::path::{Path, PathBuf};

use edn_bridge::clock;
use edn_bridge::private;

use super::failure::Failure;

/// A folder that is removed when this is dropped.
pub(super) struct EphemeralFolder(PathBuf);

impl EphemeralFolder {
    /// Makes one in the state folder, which commands in the sandbox cannot read.
    pub(super) fn create(state_dir: &Path) -> Result<Self, Failure> {
        let path = state_dir.join(clock::of_process().id("ephemeral-"));
        let made = private::make_folder(state_dir).and_then(|()| private::make_folder(&path));
        made.map_err(Failure::io(path.display().to_string()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for EphemeralFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "the folder of an ephemeral session stays");
        }
    }
}
