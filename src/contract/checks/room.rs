//! A folder of one check, for the files of tools and commands.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::check::{Stop, ensure};

/// How long a command of a check may take to create its file.
const COMMAND_PATIENCE: Duration = Duration::from_secs(20);

/// A folder with one file for tools to change.
pub(super) struct Room {
    folder: PathBuf,
}

impl Room {
    pub(super) fn new(name: &str, content: &str) -> Result<Self, Stop> {
        let folder = std::env::temp_dir().join(format!("edn-bridge-contract-{}-{name}", std::process::id()));
        let made = || {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("file.txt"), content)
        };
        made().map_err(|error| Stop::failed(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder })
    }

    /// A path in the folder, for a command or a tool.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// The content of a file in the folder; `None` if there is no such file.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Creates a file in the folder, for which a command waits.
    pub(super) fn make(&self, name: &str) -> Result<(), Stop> {
        std::fs::write(self.folder.join(name), "")
            .map_err(|error| Stop::failed(format!("{name} cannot be made: {error}")))
    }

    /// Removes a file from the folder, if it exists.
    pub(super) fn take(&self, name: &str) -> Result<(), Stop> {
        match std::fs::remove_file(self.folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Stop::failed(format!("{name} cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for a file from a command.
    pub(super) fn wait_for(&self, name: &str) -> Result<(), Stop> {
        let path = self.folder.join(name);
        let begun = Instant::now();
        while !path.exists() {
            ensure(begun.elapsed() < COMMAND_PATIENCE, || format!("{name} was not made"))?;
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The folder itself, for a tool.
    pub(super) fn folder(&self) -> String {
        self.folder.to_string_lossy().into_owned()
    }

    /// The file's content now.
    pub(super) fn held(&self) -> Result<String, Stop> {
        let path = self.folder.join("file.txt");
        std::fs::read_to_string(&path).map_err(|error| Stop::failed(format!("{}: {error}", path.display())))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // A file that stays behind in a temporary folder is harmless.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
