//! Sessions on disk.
//!
//! A session is one append-only file of EDN lines: a header, then entries that form a tree. The store knows
//! files, the codec and the types of a conversation; it does not know who runs a session. To that, sessions have ids
//! and no paths: see [`Journals`].
//!
//! An append is complete when it is on disk. One thread, the [`commit`]ter, writes for all sessions: appends
//! that arrive during a sync are written and synced together with the next one.

mod archive;
mod commit;
mod entry;
mod error;
mod files;
#[cfg(feature = "index")]
mod index;
mod journal;
mod journal_file;
mod journals;
mod keyed_requests;
mod listing;
mod locations;
mod reading;
pub mod record;
mod verify;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::limits::{SEARCH_CHECK_BYTES, SEARCH_HITS};
use crate::message::SessionId;
use crate::private;
use crate::project;

pub use archive::Discarding;
pub use commit::{CommitCounters, Committer, Done, Durability};
pub use entry::{Entry, EntryBody, FORMAT, Header, HeaderError, Parent};
pub use error::{Difference, StoreError};
pub use files::{FileOps, FileStamp, JournalLock, LockError, LogFile, RefusedBytes, SystemFiles, weak_locks};
pub use journals::{ChangeListener, FromElsewhere, Journal, Journals, Loaded, Log, Ownership, is_shared};
pub use listing::{Hit, SessionCopy, StoredList, StoredSession, excerpt_of, is_name};
pub use reading::{JournalContent, JournalFault};
pub use verify::{Repaired, VerifyReport};

use archive::Shelf;
use error::is_want;
use files::children;
use journal::FileLog;
use journal_file::JournalFile;
use locations::Locations;
use record::KeyedRequest;

/// The folder that holds all sessions, and the thread that writes them. Its methods are for those who care for the
/// files; [`Journals`] is what sessions use.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    durability: Durability,
    files: Arc<dyn FileOps>,
    committer: Arc<Committer>,
    locations: Arc<Locations>,
    shelf: Arc<Shelf>,
    checked: Arc<Mutex<Checked>>,
    #[cfg(feature = "index")]
    index: Arc<index::Index>,
}

/// The files that the last search has found, how they were then, and their faults.
type Checked = HashMap<PathBuf, (u64, SystemTime, Vec<JournalFault>)>;

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
    pub fn with_files(state_dir: &Path, durability: Durability, files: Arc<dyn FileOps>) -> io::Result<Self> {
        Ok(Self {
            root: state_dir.join("sessions"),
            durability,
            shelf: Arc::new(Shelf::new(state_dir, files.clone())),
            files,
            committer: Arc::new(Committer::start(durability)?),
            locations: Arc::default(),
            checked: Arc::default(),
            #[cfg(feature = "index")]
            index: Arc::new(index::Index::new(state_dir.join("sessions-index.db"))),
        })
    }

    /// The folder of all sessions.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a project's sessions.
    pub fn project_dir(&self, cwd: &Path) -> PathBuf {
        self.root.join(project::name(cwd))
    }

    fn path(&self, header: &Header) -> PathBuf {
        self.project_dir(Path::new(&*header.cwd)).join(format!("{}.edn", header.session))
    }

    /// Opens a session's file, takes its lock, and repairs a torn tail.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_file(&self, path: &Path) -> Result<Loaded, StoreError> {
        let (file, session) = journal::look(path, self.files.as_ref())?;
        self.locations.name(&session, path)?;
        let copies =
            self.check_own(&session, path).inspect_err(|_| drop(self.locations.take_named(&session)))?;
        let opened = journal::open(path, file, self.files.clone());
        self.locations.take_named(&session);
        let (file, JournalContent { header, entries, mut faults, .. }) = opened?;
        faults.extend(copies.into_iter().map(|path| JournalFault::Copied { path }));
        Ok(Loaded { journal: self.journal(session, file), header, entries, faults })
    }

    /// Opens a session's journal as [`Journals::open`] does, also one that several hosts share.
    ///
    /// # Errors
    /// Those of [`Journals::open`].
    pub fn open_shared(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        let path = match self.locations.take_named(session) {
            Some(path) => Some(path),
            None => self.look_up(session)?,
        };
        self.open_file(&path.ok_or_else(|| StoreError::NoSession { session: session.clone() })?)
    }

    /// Takes the lock of a session that is to be discarded: from then on nobody opens it.
    ///
    /// # Errors
    /// Those of [`Journals::discard`].
    pub fn discarding(
        &self,
        session: &SessionId,
        location: Option<&str>,
    ) -> Result<Discarding<'_>, StoreError> {
        let path = self.look_up(session)?;
        let real = |path: &Path| path.canonicalize().ok();
        let is_here = |location: &Path| path.as_deref().is_some_and(|path| real(path) == real(location));
        if let Some(location) = location.map(Path::new).filter(|location| !is_here(location)) {
            return Err(StoreError::Elsewhere { path: location.to_owned() });
        }
        let path = path.ok_or_else(|| StoreError::NoSession { session: session.clone() })?;
        if let Some(other) = listing::seen(listing::header(&path)).ok().flatten()
            && other.session != *session
        {
            return Err(StoreError::Copy { path, session: other.session });
        }
        let copies = self.stored(None)?.copies.into_iter();
        let copies = copies.filter(|copy| copy.session == *session).map(|copy| copy.path);
        self.shelf.discarding(path, copies.collect())
    }

    /// Whether a session is in that file, and no other file is the session's; the further files with its id, as far as
    /// their names tell it.
    fn check_own(&self, session: &SessionId, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut named = self.named(session)?;
        let is_own = match named.first() {
            Some(own) => locations::is_same(own, path),
            // Elsewhere, a session's file may have any name.
            None => !path.starts_with(&self.root),
        };
        if !is_own {
            return Err(StoreError::Copy { path: path.to_owned(), session: session.clone() });
        }
        let beside = children(journal_file::folder(path)).unwrap_or_default();
        let is_beside = |other: &PathBuf| {
            let name = other.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let header = || listing::header(other).ok().flatten();
            name.contains(session.as_str())
                && name.ends_with(".edn")
                && header().is_some_and(|header| header.session == *session)
        };
        named.extend(beside.into_iter().filter(is_beside));
        named.sort();
        named.dedup();
        named.retain(|other| !locations::is_same(other, path));
        Ok(named)
    }

    /// The files that are named by a session's id: the session's own first, which is in the folder of its project, and
    /// copies of it.
    fn named(&self, session: &SessionId) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = listing::find(&self.root, session)
            .map_err(|error| StoreError::io("Cannot look into", &self.root, error))?;
        if found.len() > 1 {
            let rank = |path: &PathBuf| match listing::header(path) {
                Ok(Some(header)) if header.session == *session => u8::from(self.path(&header) != *path),
                _ => 2,
            };
            found.sort_by_cached_key(rank);
        }
        Ok(found)
    }

    /// Whether a file below the folder of all sessions is a copy of that session.
    fn is_copy(&self, path: &Path, header: &Header) -> Result<bool, StoreError> {
        if !path.starts_with(&self.root) || *path == self.path(header) {
            return Ok(false);
        }
        Ok(self.named(&header.session)?.first().is_none_or(|own| own != path))
    }

    /// The session that a file below the folder of all sessions is a copy of.
    ///
    /// # Errors
    /// If that is unknown.
    pub fn copy_of(&self, path: &Path) -> Result<Option<SessionId>, StoreError> {
        let Some(header) = listing::seen(listing::header(path)).ok().flatten() else { return Ok(None) };
        Ok(self.is_copy(path, &header)?.then_some(header.session))
    }

    /// Looks for the faults of what a search has found. Of sessions that are open here they were told.
    fn check(&self, hits: &mut [Hit]) {
        let mut left = SEARCH_CHECK_BYTES;
        let mut known = std::mem::take(&mut *self.checked.lock().unwrap_or_else(PoisonError::into_inner));
        let mut checked = Checked::with_capacity(hits.len());
        for Hit { info, faults, .. } in hits {
            if self.locations.written(&info.header.session).is_some() {
                continue;
            }
            let before = known
                .remove(&info.path)
                .filter(|(bytes, modified, _)| (*bytes, *modified) == (info.bytes, info.modified));
            let found = match before {
                Some((.., found)) => Some(found),
                None if info.bytes > left => None,
                None => {
                    left = left.saturating_sub(info.bytes);
                    self.verify(&info.path).ok().map(|report| report.faults)
                }
            };
            if let Some(found) = found {
                faults.clone_from(&found);
                checked.insert(info.path.clone(), (info.bytes, info.modified, found));
            }
        }
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = checked;
    }

    /// Gives a copy of a session an id of its own.
    ///
    /// # Errors
    /// If a process has it open, or the system refuses.
    pub fn separate(&self, path: &Path, session: SessionId) -> Result<Repaired, StoreError> {
        verify::separate(path, session, &self.files)
    }

    fn journal(&self, session: SessionId, file: JournalFile) -> Journal {
        Journal::new(FileLog::new(session, file, self.committer.clone(), self.locations.clone()))
    }

    /// The names of the archived sessions' files.
    fn archived(&self) -> Result<HashSet<OsString>, StoreError> {
        self.shelf.all().map_err(|error| StoreError::io("Cannot read all sessions in", &self.root, error))
    }

    /// The header with the file of the session's parent.
    fn with_parent(&self, mut header: Header) -> Header {
        if let Some(parent) = &mut header.parent
            && parent.path.is_none()
        {
            parent.path = self.locations.written(&parent.session).map(|path| path.to_string_lossy().into());
        }
        header
    }

    /// Reads a session's file without a lock and without changes.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn read_file(&self, path: &Path) -> Result<JournalContent, StoreError> {
        let mut content = reading::read(path, &bytes_of(path)?)?;
        if self.is_copy(path, &content.header)? {
            content.faults.push(JournalFault::Copy { session: content.header.session.clone() });
        }
        Ok(content)
    }

    /// Finds a session's file by its id, in any project.
    ///
    /// # Errors
    /// If the folder of all sessions cannot be read, because the session may exist all the same.
    pub fn look_up(&self, session: &SessionId) -> Result<Option<PathBuf>, StoreError> {
        Ok(self.named(session)?.into_iter().next())
    }

    /// Reads all sessions into the index, so that the next search does not have to. Has no effect in a
    /// program without an index.
    ///
    /// # Errors
    /// Those of [`Journals::list`].
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
    pub fn verify(&self, path: &Path) -> Result<VerifyReport, StoreError> {
        let mut report = verify::check(path, &bytes_of(path)?)?;
        if let Some(session) = self.copy_of(path)? {
            report.faults.push(JournalFault::Copy { session });
        }
        Ok(report)
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

impl Journals for Store {
    fn create(&self, header: Header) -> Journal {
        let header = self.with_parent(header);
        let session = header.session.clone();
        self.journal(session, JournalFile::new(self.path(&header), self.files.clone(), header))
    }

    fn create_with(
        &self,
        header: Header,
        entries: &mut dyn Iterator<Item = Arc<Entry>>,
    ) -> Result<Journal, StoreError> {
        let header = self.with_parent(header);
        let file = journal::write_whole(self.path(&header), &header, entries, self.files.clone())?;
        Ok(self.journal(header.session, file))
    }

    fn open(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        let loaded = self.open_shared(session)?;
        match loaded.is_shared() {
            // What was appended here, other hosts would never see.
            true => Err(StoreError::Realm(SHARED.to_owned())),
            false => Ok(loaded),
        }
    }

    fn read_requests(&self, session: &SessionId, visit: &mut dyn FnMut(Entry)) -> Result<Header, StoreError> {
        let path = self.look_up(session)?;
        let path = path.ok_or_else(|| StoreError::NoSession { session: session.clone() })?;
        keyed_requests::scan(&path, visit)
    }

    fn holder(&self, session: &SessionId) -> Option<String> {
        journal_file::holder(&self.look_up(session).ok()??)
    }

    fn opened_by(
        &self,
        cwd: &Path,
        request: &KeyedRequest,
        since: SystemTime,
    ) -> Result<Option<Header>, StoreError> {
        listing::opened_by(&self.root, &self.project_dir(cwd), request, since)
            .map_err(|error| StoreError::io("Cannot read all sessions in", &self.root, error))
    }

    fn is_archived(&self, session: &SessionId) -> bool {
        self.shelf.has(session)
    }

    fn archive(&self, session: &SessionId, archived: bool) -> Result<(), StoreError> {
        if self.locations.written(session).is_none() {
            let path = self.look_up(session)?;
            let path = path.ok_or_else(|| StoreError::NoSession { session: session.clone() })?;
            if let Some(holder) = journal_file::holder(&path) {
                return Err(StoreError::Locked { path, holder });
            }
        }
        self.shelf.set(session, archived)
    }

    fn discard(&self, session: &SessionId, location: Option<&str>) -> Result<(), StoreError> {
        self.discarding(session, location)?.complete()
    }

    fn discarded(&self) -> Result<Vec<SessionId>, StoreError> {
        self.shelf.discarded().map_err(|error| StoreError::io("Cannot look into", &self.root, error))
    }

    fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        #[cfg(feature = "index")]
        self.index
            .remove(session)
            .map_err(|error| StoreError::io("Cannot delete from the index of", &self.root, error))?;
        self.shelf.forget(&self.root, session)
    }

    fn session_at(&self, location: &str) -> Result<SessionId, StoreError> {
        let path = Path::new(location);
        let (_, session) = journal::look(path, self.files.as_ref())?;
        self.locations.name(&session, path)?;
        self.check_own(&session, path).inspect_err(|_| drop(self.locations.take_named(&session)))?;
        Ok(session)
    }

    fn stored(&self, cwd: Option<&Path>) -> Result<StoredList, StoreError> {
        let project = cwd.map(|cwd| self.project_dir(cwd));
        let refused = |error| StoreError::io("Cannot read all sessions in", &self.root, error);
        #[cfg(feature = "index")]
        let indexed = self.index.list(&self.root, project.as_deref()).map_err(refused)?;
        #[cfg(not(feature = "index"))]
        let indexed = None;
        let all = match indexed {
            Some(all) => all,
            None => listing::list(&self.root, project.as_deref()).map_err(refused)?,
        };
        let mut list = StoredList::default();
        for info in all {
            match self.is_copy(&info.path, &info.header)? {
                true => list.copies.push(SessionCopy { path: info.path, session: info.header.session }),
                false => list.sessions.push(info),
            }
        }
        list.sessions = marked(&self.archived()?, list.sessions, |info| info);
        Ok(list)
    }

    fn search(
        &self,
        cwd: Option<&Path>,
        text: &str,
        archived: bool,
        limit: usize,
    ) -> Result<Vec<Hit>, StoreError> {
        let project = cwd.map(|cwd| self.project_dir(cwd));
        let limit = limit.min(SEARCH_HITS);
        let marks = self.archived()?;
        // Before the limit: one that is not wanted takes no place.
        let is_wanted = |path: &Path| archived || !is_marked(&marks, path);
        let refused = |error| StoreError::io("Cannot search all sessions in", &self.root, error);
        #[cfg(feature = "index")]
        let indexed =
            self.index.search(&self.root, project.as_deref(), text, limit, &is_wanted).map_err(refused)?;
        #[cfg(not(feature = "index"))]
        let indexed = None;
        let found = match indexed {
            Some(found) => found,
            None => {
                listing::search(&self.root, project.as_deref(), text, limit, &is_wanted).map_err(refused)?
            }
        };
        let mut hits = Vec::with_capacity(found.len());
        for hit in found {
            if !self.is_copy(&hit.info.path, &hit.info.header)? {
                hits.push(hit);
            }
        }
        self.check(&mut hits);
        Ok(marked(&marks, hits, |hit| &mut hit.info))
    }

    fn location(&self) -> Cow<'_, str> {
        self.root.to_string_lossy()
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn counters(&self) -> CommitCounters {
        self.committer.counters()
    }
}

/// Whether the session in that file is archived.
fn is_marked(archived: &HashSet<OsString>, path: &Path) -> bool {
    path.file_name().is_some_and(|name| archived.contains(name))
}

/// Notes of each session whether it is archived.
fn marked<T>(
    archived: &HashSet<OsString>,
    mut listed: Vec<T>,
    info: impl Fn(&mut T) -> &mut StoredSession,
) -> Vec<T> {
    for one in &mut listed {
        let info = info(one);
        info.archived = is_marked(archived, &info.path);
    }
    listed
}

/// Why a shared session is not opened without the others.
const SHARED: &str = "Several hosts share the session, and this process is in no realm: it can be read (`edn-bridge \
                      sessions show`). The process that is in the realm can open it.";

/// The files of a full check, and the folders that it cannot open.
#[derive(Debug, Default)]
pub struct AllFiles {
    /// The files, by their names.
    pub paths: Vec<PathBuf>,
    /// The error of each folder that cannot be opened. Its content is unknown.
    pub closed: Vec<StoreError>,
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, StoreError> {
    let mut bytes = private::open_to_read(path)
        .and_then(|file| LogFile::read(&file))
        .map_err(|error| StoreError::io("Cannot open", path, error))?;
    if let Some(from) = journal_file::refused_from(path) {
        bytes.truncate(usize::try_from(from).unwrap_or(usize::MAX));
    }
    Ok(bytes)
}
