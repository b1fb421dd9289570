//! The journals of sessions, each known by its session's id. A location is only text: a person is shown it, and a
//! client may repeat it.
//!
//! Knows entries; does not know where they are kept. [`Store`](super::Store) keeps them in files.

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;

use crate::message::SessionId;
use crate::store::commit::{CommitCounters, Done, Durability};
use crate::store::entry::{Entry, EntryBody, Header};
use crate::store::error::StoreError;
use crate::store::listing::{Hit, StoredList, StoredSession};
use crate::store::reading::JournalFault;
use crate::store::record::{KeyedRequest, OwnerRecord};

/// The journals of sessions.
pub trait Journals: Debug + Send + Sync {
    /// A journal for a new session. Touches nothing before the first entry.
    fn create(&self, header: Header) -> Journal;

    /// A journal for a session that starts with many entries. They are on disk when this returns. Other
    /// sessions can write meanwhile.
    ///
    /// # Errors
    /// If the entries could not be written; there is no journal then.
    fn create_with(
        &self,
        header: Header,
        entries: &mut dyn Iterator<Item = Arc<Entry>>,
    ) -> Result<Journal, StoreError>;

    /// Opens a session's journal for this process alone, and repairs a torn tail.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] if there is none, [`StoreError::Locked`] if another process has it; see there.
    fn open(&self, session: &SessionId) -> Result<Loaded, StoreError>;

    /// Reads a session's header, and gives `visit` the entries that carry out a request with a key or tell what became of
    /// one, oldest first. Changes nothing, whoever has the journal open, and takes no more memory than a line.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] if there is none; see there.
    fn read_requests(&self, session: &SessionId, visit: &mut dyn FnMut(Entry)) -> Result<Header, StoreError>;

    /// Who has a session open, as it says itself (`process 123`); `None` if nobody does who lives.
    fn holder(&self, session: &SessionId) -> Option<String>;

    /// The header of the session of a project that a request with the same key has opened, among those that were
    /// written to since a moment.
    ///
    /// # Errors
    /// If the session may exist all the same.
    fn opened_by(
        &self,
        cwd: &Path,
        request: &KeyedRequest,
        since: SystemTime,
    ) -> Result<Option<Header>, StoreError>;

    /// Whether lists leave a session out unless they are asked for it.
    fn is_archived(&self, session: &SessionId) -> bool;

    /// Archives a session, or takes it out again. It is on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] if there is none, [`StoreError::Locked`] if another process has it.
    fn archive(&self, session: &SessionId, archived: bool) -> Result<(), StoreError>;

    /// Takes a session away that nobody has open. From then on there is none of that id, also after a kill. `location` is
    /// where it was open, if it was.
    ///
    /// # Errors
    /// Those of [`Journals::archive`], and [`StoreError::Elsewhere`]; the session is there as before.
    fn discard(&self, session: &SessionId, location: Option<&str>) -> Result<(), StoreError>;

    /// The sessions that were discarded and not yet forgotten.
    ///
    /// # Errors
    /// If that is unknown.
    fn discarded(&self) -> Result<Vec<SessionId>, StoreError>;

    /// Removes all that is left of a discarded session. Once this succeeds, nothing is.
    ///
    /// # Errors
    /// If something may be left; it is among the discarded ones still.
    fn forget(&self, session: &SessionId) -> Result<(), StoreError>;

    /// The session whose journal is at that location, so that [`Journals::open`] finds it there.
    ///
    /// # Errors
    /// If there is no journal, or a copy of one that is open.
    fn session_at(&self, location: &str) -> Result<SessionId, StoreError>;

    /// The sessions, newest first: those of one project, or all with `None`. Skips journals that are damaged,
    /// foreign or gone.
    ///
    /// # Errors
    /// If the list would be incomplete.
    fn list(&self, cwd: Option<&Path>) -> Result<Vec<StoredSession>, StoreError> {
        Ok(self.stored(cwd)?.sessions)
    }

    /// The sessions as [`Journals::list`] has them, and the copies among their journals.
    ///
    /// # Errors
    /// Those of [`Journals::list`].
    fn stored(&self, cwd: Option<&Path>) -> Result<StoredList, StoreError>;

    /// The sessions with all words of `text` in one of their messages or in their name: those of one project,
    /// or all with `None`; archived ones only if they are asked for. At most `limit`.
    ///
    /// # Errors
    /// Those of [`Journals::list`].
    fn search(
        &self,
        cwd: Option<&Path>,
        text: &str,
        archived: bool,
        limit: usize,
    ) -> Result<Vec<Hit>, StoreError>;

    /// Where all of them are.
    fn location(&self) -> Cow<'_, str>;

    /// When an append is acknowledged.
    fn durability(&self) -> Durability;

    /// Counts of the writes since the process started.
    fn counters(&self) -> CommitCounters;
}

/// What keeps the entries of one session.
pub trait Log: Debug + Send + Sync {
    /// Appends entries as a unit, then calls `done`. Without entries, syncs everything to disk first.
    fn append(&self, entries: &[Arc<Entry>], done: Done);

    /// Where they are.
    fn location(&self) -> Cow<'_, str>;

    /// The acknowledged size in bytes.
    fn bytes(&self) -> u64;

    /// Whose entries they are.
    fn ownership(&self) -> Ownership {
        Ownership::Local
    }

    /// Wants to be told what other hosts change from now on. Once.
    fn listen(&self, told: ChangeListener) {
        drop(told);
    }
}

/// Whose entries a journal has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// This machine's alone.
    Local,
    /// This host's, and other hosts follow.
    Ours {
        /// This host.
        host: Arc<str>,
        /// How many claims there were, this one included.
        epoch: u64,
        /// The session's folder here.
        cwd: Arc<str>,
    },
    /// Another host's: here is a copy, to which nothing is appended.
    Theirs {
        /// That host; empty if nobody owns the session.
        host: Arc<str>,
        /// Whether nobody answers for it.
        is_lost: bool,
    },
}

/// What other hosts changed in a journal.
#[derive(Debug)]
pub enum FromElsewhere {
    /// Entries of its owner. They are in the journal.
    Entries(Vec<Arc<Entry>>),
    /// It may have another owner.
    Owner,
}

/// Is told what other hosts change, one after the other.
pub type ChangeListener = Box<dyn Fn(FromElsewhere) -> BoxFuture<'static, ()> + Send + Sync>;

/// A session's journal, open for appending. It belongs to this process until the last copy is dropped.
#[derive(Debug, Clone)]
pub struct Journal(Arc<dyn Log>);

/// A session that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The journal for further entries.
    pub journal: Journal,
    /// The session's header.
    pub header: Header,
    /// The entries, oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// The faults that were found: the tail was repaired, the others were skipped.
    pub faults: Vec<JournalFault>,
}

impl Loaded {
    /// The entries that say which host owns the session, oldest first.
    pub fn owners(&self) -> impl DoubleEndedIterator<Item = &OwnerRecord> {
        owners(&self.header, &self.entries)
    }

    /// Whether several hosts share the session.
    pub fn is_shared(&self) -> bool {
        is_shared(&self.header, &self.entries)
    }
}

fn owners<'a>(
    header: &Header,
    entries: &'a [Arc<Entry>],
) -> impl DoubleEndedIterator<Item = &'a OwnerRecord> {
    entries.iter().filter_map(|entry| match &entry.body {
        EntryBody::Owner(owner) if owner.session_id == header.session => Some(&**owner),
        _ => None,
    })
}

/// Whether several hosts share a session with that header and those entries.
pub fn is_shared(header: &Header, entries: &[Arc<Entry>]) -> bool {
    match owners(header, entries).next_back() {
        Some(owner) => !owner.host.is_empty(),
        None => header.replica_of.is_some(),
    }
}

impl Journal {
    /// A journal that writes to that log.
    pub fn new(log: impl Log + 'static) -> Self {
        Self(Arc::new(log))
    }

    /// Where it is, once there is an entry.
    pub fn location(&self) -> Cow<'_, str> {
        self.0.location()
    }

    /// The acknowledged size in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Whose entries it has.
    pub fn ownership(&self) -> Ownership {
        self.0.ownership()
    }

    /// Wants to be told what other hosts change from now on. Once.
    pub fn listen(&self, told: ChangeListener) {
        self.0.listen(told);
    }

    /// Appends entries as a unit. Calls `done` when they are on disk or have failed. `done` runs on the
    /// writing thread and must not wait.
    pub fn append(
        &self,
        entries: &[Arc<Entry>],
        done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static,
    ) {
        self.0.append(entries, Box::new(done));
    }

    /// Syncs everything to disk and gives up the writing thread's hold on the journal, then calls `done` on that
    /// thread. Dropping the last journal afterwards closes it.
    pub fn settle(&self, done: impl FnOnce(Result<(), Arc<StoreError>>) + Send + 'static) {
        self.0.append(&[], Box::new(done));
    }
}
