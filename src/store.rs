//! Sessions on disk.
//!
//! A session is one append-only file of EDN lines: a header, then entries that form a tree. The store knows
//! files, the codec and the types of a conversation; it does not know who runs a session.
//!
//! An append is complete when it is on disk. One thread, the [`commit`]ter, writes for all sessions: appends
//! that arrive during a sync are written and synced together with the next one.

mod commit;
mod entry;
mod files;
#[cfg(feature = "index")]
mod index;
mod journal;
mod listing;
mod reading;
pub mod record;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::descriptors;
use crate::limits::SEARCH_HITS;
use crate::message::SessionId;
use crate::project;

pub use commit::{Committer, Counters};
pub use entry::{Entry, EntryBody, FORMAT, Header, Parent};
pub use files::{Files, Lock, LockError, LogFile, SystemFiles};
pub use journal::{Journal, Loaded};
pub use listing::{Hit, SessionInfo};
pub use reading::{Content, Fault};
pub use verify::{Repaired, Report};

/// Why reading or writing a session's file failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused an operation.
    #[error("{action} {}: {source}.{}", path.display(), what_to_do(source))]
    Io {
        /// The operation, such as `Cannot write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is no such file.
    #[error("There is no session file {}.", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// The file's first line is not a header.
    #[error("{} is not a session file: {reason}.", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer program wrote the file.
    #[error("{} has format {format}; this program reads up to {}. A newer edn-bridge can open it.", path.display(), entry::FORMAT)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: i64,
    },
    /// Another process has the session open.
    #[error("{} is open already, in {holder}. End that one, or fork the session.", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// The holder, as far as it is known.
        holder: String,
    },
    /// The store is shutting down.
    #[error("The program is ending.")]
    Closed,
}

impl StoreError {
    /// Whether the process or the system had no free descriptor. The caller can try again after others were
    /// closed.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Self::Io { source, .. } if descriptors::are_out(source))
    }

    /// Whether the caller can try again after others free descriptors or memory.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_want(source))
    }

    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound && action == "Cannot open" {
            return Self::Missing { path: path.to_owned() };
        }
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Whether the error is a lack of resources, independent of the file.
fn is_want(error: &io::Error) -> bool {
    descriptors::are_out(error) || error.kind() == io::ErrorKind::OutOfMemory
}

/// Advice to a person about the system's refusal.
fn what_to_do(error: &io::Error) -> &'static str {
    if descriptors::are_out(error) {
        return " Close connections or sessions that are at work, or raise the limit (`ulimit -n`), and try again.";
    }
    match error.kind() {
        io::ErrorKind::OutOfMemory => " End what else takes memory, and try again.",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " Nothing that was saved is lost. Make room and try again."
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            " It must be possible to write there, or name another folder with --state-dir. What is there \
             can be read with `edn-bridge sessions show`."
        }
        _ => "",
    }
}

/// When an append is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once it is on the disk. It survives a power failure.
    #[default]
    Full,
    /// Once the system has it. It survives the process; a power failure loses at most a second.
    Relaxed,
}

impl Durability {
    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }

    /// The durability with that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Full, Self::Relaxed].into_iter().find(|durability| durability.as_str() == name)
    }
}

/// The folder that holds all sessions, and the thread that writes them.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    durability: Durability,
    files: Arc<dyn Files>,
    committer: Arc<Committer>,
    #[cfg(feature = "index")]
    index: Arc<index::Index>,
}

impl Store {
    /// A store below `state_dir`. Touches nothing on disk: folders are created by the first write.
    ///
    /// # Errors
    /// If the writing thread cannot be started.
    pub fn new(state_dir: &Path, durability: Durability) -> io::Result<Self> {
        Self::with_files(state_dir, durability, Arc::new(SystemFiles))
    }

    /// A store that writes its journals through `files`.
    ///
    /// # Errors
    /// Those of [`Store::new`].
    pub fn with_files(state_dir: &Path, durability: Durability, files: Arc<dyn Files>) -> io::Result<Self> {
        Ok(Self {
            root: state_dir.join("sessions"),
            durability,
            files,
            committer: Arc::new(Committer::start(durability)?),
            #[cfg(feature = "index")]
            index: Arc::new(index::Index::new(state_dir.join("sessions-index.db"))),
        })
    }

    /// The folder of all sessions.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// When an append is acknowledged.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Counts of the writes since the process started.
    pub fn counters(&self) -> Counters {
        self.committer.counters()
    }

    /// The folder of a project's sessions.
    pub fn project_dir(&self, cwd: &Path) -> PathBuf {
        self.root.join(project::name(cwd))
    }

    fn path(&self, header: &Header) -> PathBuf {
        self.project_dir(Path::new(&*header.cwd)).join(format!("{}.edn", header.session))
    }

    /// A journal for a new session. The first entry creates its file.
    pub fn create(&self, header: Header) -> Journal {
        Journal::create(self.path(&header), header, self.files.clone(), self.committer.clone())
    }

    /// A journal for a session that starts with many entries. They are on disk when this returns. Other
    /// sessions can write meanwhile.
    ///
    /// # Errors
    /// If the entries could not be written; no file exists then.
    pub fn create_with(
        &self,
        header: &Header,
        entries: impl Iterator<Item = Arc<Entry>>,
    ) -> Result<Journal, StoreError> {
        let (files, committer) = (self.files.clone(), self.committer.clone());
        journal::write_whole(self.path(header), header, entries, files, committer)
    }

    /// Opens a session's file, takes its lock, and repairs a torn tail.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(&self, path: &Path) -> Result<Loaded, StoreError> {
        journal::open(path, self.files.clone(), self.committer.clone())
    }

    /// Reads a session's file without a lock and without changes.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read(&self, path: &Path) -> Result<Content, StoreError> {
        reading::read(path, &bytes_of(path)?)
    }

    /// Finds a session's file by its id, in any project.
    ///
    /// # Errors
    /// If the folder of all sessions cannot be read, because the session may exist all the same.
    pub fn look_up(&self, session: &SessionId) -> Result<Option<PathBuf>, StoreError> {
        listing::find(&self.root, session)
            .map_err(|error| StoreError::io("Cannot look into", &self.root, error))
    }

    /// The sessions on disk, newest first: those of one project, or all with `None`. Skips files that are
    /// damaged, foreign or gone.
    ///
    /// # Errors
    /// If descriptors or memory run out, because the list would be incomplete.
    pub fn list(&self, cwd: Option<&Path>) -> Result<Vec<SessionInfo>, StoreError> {
        let project = cwd.map(|cwd| self.project_dir(cwd));
        let refused = |error| StoreError::io("Cannot read all sessions in", &self.root, error);
        #[cfg(feature = "index")]
        if let Some(list) = self.index.list(&self.root, project.as_deref()).map_err(refused)? {
            return Ok(list);
        }
        listing::list(&self.root, project.as_deref()).map_err(refused)
    }

    /// The sessions with all words of `text` in one of their messages or in their name: those of one project,
    /// or all with `None`.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub fn search(&self, cwd: Option<&Path>, text: &str, limit: usize) -> Result<Vec<Hit>, StoreError> {
        let project = cwd.map(|cwd| self.project_dir(cwd));
        let limit = limit.min(SEARCH_HITS);
        let refused = |error| StoreError::io("Cannot search all sessions in", &self.root, error);
        #[cfg(feature = "index")]
        if let Some(hits) = self.index.search(&self.root, project.as_deref(), text, limit).map_err(refused)? {
            return Ok(hits);
        }
        listing::search(&self.root, project.as_deref(), text, limit).map_err(refused)
    }

    /// Reads all sessions into the index, so that the next search does not have to. Has no effect in a
    /// program without an index.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub fn index_all(&self) -> Result<(), StoreError> {
        #[cfg(feature = "index")]
        self.index
            .complete(&self.root)
            .map_err(|error| StoreError::io("Cannot read all sessions in", &self.root, error))?;
        Ok(())
    }

    /// Checks a session's file, without a lock and without changes.
    ///
    /// # Errors
    /// If it cannot be read, or a newer program wrote it.
    pub fn verify(&self, path: &Path) -> Result<Report, StoreError> {
        verify::check(path, &bytes_of(path)?)
    }

    /// Repairs a file with faults and keeps the original next to it. `None` if the file has no faults.
    ///
    /// # Errors
    /// If a process has the session open, or the system refuses.
    pub fn repair(&self, path: &Path) -> Result<Option<Repaired>, StoreError> {
        verify::repair(path, self.files.as_ref())
    }

    /// The files of a full check: sessions and unfinished forks.
    ///
    /// # Errors
    /// If the folder of all sessions cannot be read, or descriptors or memory run out.
    pub fn all_files(&self) -> Result<AllFiles, StoreError> {
        let refused = |folder: &Path, error| StoreError::io("Cannot look into", folder, error);
        let mut all = AllFiles::default();
        for folder in children(&self.root).map_err(|error| refused(&self.root, error))? {
            match children(&folder) {
                Ok(mut paths) => all.paths.append(&mut paths),
                // The folder of all sessions may also contain plain files.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) if is_want(&error) => return Err(refused(&folder, error)),
                Err(error) => all.closed.push(refused(&folder, error)),
            }
        }
        let extension = |path: &PathBuf| path.extension().is_some_and(|e| e == "edn" || e == "part");
        all.paths.retain(extension);
        all.paths.sort();
        Ok(all)
    }
}

/// The files of a full check, and the folders that it cannot open.
#[derive(Debug, Default)]
pub struct AllFiles {
    /// The files, by their names.
    pub paths: Vec<PathBuf>,
    /// The error of each folder that cannot be opened. Its content is unknown.
    pub closed: Vec<StoreError>,
}

/// The content of a folder; empty if there is no such folder.
fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::File::open(path)
        .and_then(|file| LogFile::read(&file))
        .map_err(|error| StoreError::io("Cannot open", path, error))
}

/// A length in bytes.
fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
