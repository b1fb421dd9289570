//! Sessions on disk.
//!
//! A session is one append-only file of EDN lines: a header, then entries that form a tree. The store
//! knows files, the codec and the conversation's plain data; it does not know who runs a session.
//!
//! An append is done when it is on disk. One thread, the [`commit`]ter, writes for all sessions: what
//! arrives while a sync is under way is written and synced together with the next.

mod commit;
mod entry;
mod journal;
mod listing;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::message::SessionId;

pub use commit::Committer;
pub use entry::{Entry, EntryBody, Header, Parent};
pub use journal::{Journal, Loaded, Repair};
pub use listing::SessionInfo;

/// Why a session's file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, such as `Cannot write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no such file.
    #[error("There is no session file {}.", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file's first line is no header.
    #[error("{} is no session file: {reason}", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file was written by a newer program.
    #[error("{} has format {format}; this program reads up to {}. A newer edn-bridge can open it.", path.display(), entry::FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: i64,
    },
    /// Another process has the session open.
    #[error("{} is open in another process ({holder}). End that one, or fork the session.", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Who holds it, as far as that is known.
        holder: String,
    },
    /// An earlier write failed and could not be undone, so that nothing more may be appended.
    #[error("{} is damaged since a write failed; open the session again.", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The store is shutting down.
    #[error("The program is ending.")]
    Closed,
}

impl StoreError {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound && action == "Cannot open" {
            return Self::Missing { path: path.to_owned() };
        }
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// The folder that holds all sessions, and the thread that writes them.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    committer: Arc<Committer>,
}

impl Store {
    /// A store below `state_dir`. Touches nothing on disk: folders are made when something is written.
    ///
    /// # Errors
    /// When the writing thread cannot be started.
    pub fn new(state_dir: &Path) -> io::Result<Self> {
        Ok(Self { root: state_dir.join("sessions"), committer: Arc::new(Committer::start()?) })
    }

    /// The folder of all sessions.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of one project's sessions: readable, and different for different folders.
    pub fn project_dir(&self, cwd: &Path) -> PathBuf {
        let path = cwd.to_string_lossy();
        let digest = Sha256::digest(cwd.as_os_str().as_encoded_bytes());
        let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("root");
        let name: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        self.root.join(format!("{name}-{short}"))
    }

    /// A journal for a new session. Its file is made with the first entry.
    pub fn create(&self, header: Header) -> Journal {
        let path = self.project_dir(Path::new(&*header.cwd)).join(format!("{}.edn", header.session));
        Journal::create(path, header, self.committer.clone())
    }

    /// Opens a session's file, takes its lock, and repairs a torn tail.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(&self, path: &Path) -> Result<Loaded, StoreError> {
        journal::open(path, self.committer.clone())
    }

    /// Finds a session's file by its id, in any project.
    pub fn find(&self, session: &SessionId) -> Option<PathBuf> {
        listing::find(&self.root, session)
    }

    /// The sessions on disk, newest first: of one project, or with `None` of all.
    pub fn list(&self, cwd: Option<&Path>) -> Vec<SessionInfo> {
        listing::list(&self.root, cwd.map(|cwd| self.project_dir(cwd)))
    }
}
