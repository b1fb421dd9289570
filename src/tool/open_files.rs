//! Files that a client has open: their text is the client's, and may not be on disk. Does not know clients.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// The files that clients have open. For threads that may block, since a client is asked.
pub trait OpenFiles: Send + Sync {
    /// The text of a file, an absolute and resolved path; `None` if no client has it open, so that the file on disk
    /// counts.
    ///
    /// # Errors
    /// Why there is no text, though the client has unsaved changes.
    fn read(&self, path: &Path) -> Result<Option<Arc<str>>, String>;

    /// Gives a file another text, if its text still has the digest `expected`, and saves it.
    fn write(&self, path: &Path, text: &Arc<str>, expected: &str) -> OpenFileWrite;
}

/// What became of a text for an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenFileWrite {
    /// It is the file's text, and on disk.
    Saved,
    /// It is the text of the client, which could not save it.
    Unsaved,
    /// The text was another one meanwhile; nothing was changed.
    Changed,
    /// No client has the file open any more; nothing was changed.
    Closed,
    /// It was refused, and nothing was changed.
    Failed(String),
    /// Nobody knows: the client left, or did not answer in time.
    Unknown,
}

/// No file is open.
#[cfg(test)]
pub struct NoneOpen;

#[cfg(test)]
impl OpenFiles for NoneOpen {
    fn read(&self, _: &Path) -> Result<Option<Arc<str>>, String> {
        Ok(None)
    }

    fn write(&self, _: &Path, _: &Arc<str>, _: &str) -> OpenFileWrite {
        OpenFileWrite::Closed
    }
}

/// Where a call is looked at before it runs.
#[derive(Clone, Copy)]
pub struct Site<'s> {
    /// The session's folder, absolute and without symbolic links.
    pub cwd: &'s Path,
    /// The files that clients have open.
    pub open: &'s dyn OpenFiles,
    /// Ends it early.
    pub stop: &'s CancellationToken,
}
