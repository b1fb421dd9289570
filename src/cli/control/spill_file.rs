//! A text that is too long for a line, in a file of the state folder until it is acknowledged. Does not know what the
//! text says or who sends it.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use edn_bridge::clock::Clock;
use edn_bridge::limits::CONTROL_PARKED_MS;
use edn_bridge::private;
use edn_bridge::sha256;
use edn_bridge::value::{Map, Value};

/// The folder, in the state folder. Receivers of the same state folder always take files from it.
const FOLDER: &str = "control";

/// The file. Dropped, it is removed, unless it was kept.
pub(super) struct SpillFile {
    path: PathBuf,
    reference: Map<'static>,
    kept: bool,
}

impl SpillFile {
    /// Writes a text into a file. Its name is that of the request and of this process: others may send the same
    /// request at the same time.
    ///
    /// # Errors
    /// For a person: if the receiver takes no file from the folder, or it cannot be written.
    pub(super) fn new(
        state_dir: &Path,
        allowed: &[PathBuf],
        id: &str,
        text: &str,
        expires_at: &str,
    ) -> Result<Self, String> {
        let folder = state_dir.join(FOLDER);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        private::make_folder(&folder).map_err(failed)?;
        // As the receiver resolves it, so that a link in its path does not matter.
        let folder = folder.canonicalize().map_err(failed)?;
        let is_allowed =
            |allowed: &&PathBuf| allowed.canonicalize().is_ok_and(|allowed| folder.starts_with(allowed));
        if !allowed.iter().any(|allowed| is_allowed(&allowed)) {
            return Err(format!(
                "the text must go through a file, and the receiver takes none from {}",
                folder.display()
            ));
        }
        let path = folder.join(format!("{}-{}.txt", file_name(id), std::process::id()));
        // Left by a process that had this number and has ended.
        let _ = std::fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut reference = Map::new();
        let mut put = |name: &'static str, value: Value<'static>| reference.insert(Value::str(name), value);
        put("path", path.to_string_lossy().into_owned().into());
        put("size_bytes", i64::try_from(text.len()).unwrap_or(i64::MAX).into());
        put("sha256", sha256::hex(text).into());
        put("mime", "text/plain; charset=utf-8".into());
        put("expires_at", expires_at.to_owned().into());
        let mut file = file.map_err(failed)?;
        // From here on it is removed.
        let parked = Self { path, reference, kept: false };
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(parked)
    }

    /// The reference to it.
    pub(super) fn reference(&self) -> Value<'static> {
        self.reference.clone().into()
    }

    /// Leaves it for the receiver, until it is old.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A file's name for a request: its id if that is a plain name, else the id's digest.
fn file_name(id: &str) -> String {
    let is_plain =
        id.len() <= 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_plain { id.to_owned() } else { sha256::hex(id) }
}

/// Removes files that nobody refers to any more.
pub(super) fn sweep(state_dir: &Path, clock: &dyn Clock) {
    let now = clock.now().as_millisecond();
    for entry in std::fs::read_dir(state_dir.join(FOLDER)).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|found| found.modified()).ok();
        let modified = modified.and_then(|time| jiff::Timestamp::try_from(time).ok());
        if modified.is_some_and(|time| now.saturating_sub(time.as_millisecond()) > CONTROL_PARKED_MS) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
