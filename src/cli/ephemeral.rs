//! The folder of sessions that end with their process. Knows of them only the names of their files, by which it finds the
//! outputs that they kept.

use std::io;
use std::path::{Path, PathBuf};

use edn_bridge::clock;
use edn_bridge::private;
use edn_bridge::tool::output::Outputs;

use super::failure::Failure;

/// A folder that is removed when this is dropped, and with it the outputs that its sessions kept in the state folder.
pub(super) struct EphemeralFolder {
    path: PathBuf,
    state_dir: PathBuf,
}

impl EphemeralFolder {
    /// Makes one in the state folder, which commands in the sandbox cannot read.
    pub(super) fn create(state_dir: &Path) -> Result<Self, Failure> {
        let path = state_dir.join(clock::of_process().id("ephemeral-"));
        let made = private::make_folder(state_dir).and_then(|()| private::make_folder(&path));
        made.map_err(Failure::io(path.display().to_string()))?;
        Ok(Self { path, state_dir: state_dir.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for EphemeralFolder {
    fn drop(&mut self) {
        for session in sessions_in(&self.path) {
            let outputs = Outputs::new(&self.state_dir, &session);
            match std::fs::remove_dir_all(outputs.folder()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "the outputs of an ephemeral session stay");
                }
                _ => {}
            }
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, "the folder of an ephemeral session stays");
        }
    }
}

/// The ids of the sessions below a folder, by the names of their files.
fn sessions_in(folder: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(id) = path.file_stem().and_then(|name| name.to_str()) {
                found.push(id.to_owned());
            }
        }
    }
    found
}
