//! The journals of an engine in a realm: those of the state folder, some of which are shared.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::host_state::ownership_of;
use super::membership::Federation;
use super::shared_journal::{LACKS_ENTRIES, Start, again, state_of};
use crate::limits::{LET_GO_TRIES, REALM_PAGE};
use crate::message::SessionId;
use crate::realm::rules::LeaseStanding;
use crate::realm::{Opened, RealmError, Tail};
use crate::store::record::KeyedRequest;
use crate::store::{
    CommitCounters, Discarding, Durability, Entry, Header, Hit, Journal, Journals, Loaded, Ownership, Store,
    StoreError, StoredList, is_shared,
};

/// The journals of the state folder, some of which are shared.
#[derive(Debug)]
pub struct FederatedJournals {
    local: Store,
    federation: Arc<Federation>,
}

impl FederatedJournals {
    /// The journals of a store, in a realm.
    pub fn new(local: Store, federation: Arc<Federation>) -> Self {
        Self { local, federation }
    }

    /// Joins a session's file with what the realm has of it. One that is torn lacks entries.
    fn join(&self, mut loaded: Loaded, mut is_torn: bool) -> Result<Loaded, StoreError> {
        let session = loaded.header.session.clone();
        let opened = match self.federation.wait_for(self.federation.realm().open(&session)) {
            Ok(opened) => Some(opened),
            // What is here is this machine's alone.
            Err(RealmError::Deleted { .. }) => return Ok(loaded),
            // The engine was set back to before it was shared, or is another one.
            Err(RealmError::NoSession { .. }) => {
                let behind = RealmError::Behind { known: tail_of(&loaded.entries), found: 0 };
                return Err(self.federation.refused(&behind));
            }
            Err(error) if error.may_pass() => None,
            Err(error) => return Err(self.federation.refused(&error)),
        };
        if opened.is_some() {
            let missing = self.read_after(&session, &tail_of(&loaded.entries))?;
            is_torn = is_torn || !append(&loaded.journal, &missing);
            loaded.entries.extend(missing);
        }
        let (tail, text) = state_of(&loaded.entries, &session);
        let owner = opened.as_ref().and_then(|opened| opened.owner.as_ref());
        // One that another host has given to this one waits to be taken: its folder is one of that host.
        let is_ours = owner.is_some_and(|owner| owner.host == *self.federation.host())
            && last_host(&loaded).is_none_or(|last| **last == *self.federation.host().as_str());
        let mut claim = None;
        let mut ownership = match &opened {
            Some(_) => ownership_of(owner),
            None => last_owner(&loaded),
        };
        if is_ours && self.federation.standing() == LeaseStanding::Held {
            let cwd = cwd_of(&loaded);
            let claimed = self.federation.wait_for(self.federation.realm().claim(&session, &cwd, &tail));
            let claimed = claimed.map_err(|error| self.federation.refused(&error))?;
            // Nobody else can have appended: it was this host's.
            let (host, cwd) = (self.federation.host_name(), cwd.to_string_lossy().into());
            ownership = Ownership::Ours { host, epoch: claimed.epoch, cwd };
            claim = Some(claimed);
        }
        let last_host = last_host(&loaded).cloned();
        let Loaded { journal: local, header, entries, faults } = loaded;
        let start = Start { header: header.clone(), local, tail, text, last_host, claim, ownership, is_torn };
        let journal = self.federation.open(start);
        Ok(Loaded { journal, header, entries, faults })
    }

    /// Takes the lock of a session's file, once whoever follows it here for another host has let it go.
    fn discarding(&self, session: &SessionId, location: Option<&str>) -> Result<Discarding<'_>, StoreError> {
        let mut tries = 0..LET_GO_TRIES;
        loop {
            self.federation.wait_until_closed(session);
            match self.local.discarding(session, location) {
                // Another engine of this process has opened it meanwhile, for a host that follows it.
                Err(StoreError::Locked { .. }) if tries.next().is_some() => self.federation.let_go(session),
                taken => return taken,
            }
        }
    }

    /// Deletes a session from the realm, if this host owns it.
    fn delete_shared(&self, session: &SessionId, path: &Path) -> Result<(), StoreError> {
        let read = self.local.read_file(path)?;
        // The file does not say yet that it is shared if a kill stopped that.
        if !is_shared(&read.header, &read.entries) && !self.federation.owns(session) {
            return Ok(());
        }
        let realm = self.federation.realm();
        let deleting = async {
            let opened = realm.open(session).await?;
            if opened.owner.is_some_and(|owner| owner.host == *self.federation.host()) {
                let (cwd, known) = (Path::new(&*read.header.cwd), Tail::default());
                let claim = again(|| realm.claim(session, cwd, &known)).await?;
                again(|| realm.delete(&claim)).await?;
            }
            Ok(())
        };
        match self.federation.wait_for(deleting) {
            Err(RealmError::Deleted { .. } | RealmError::NoSession { .. }) => Ok(()),
            deleted => deleted.map_err(|error| self.federation.refused(&error)),
        }
    }

    /// The entries of the realm after a place.
    fn read_after(&self, session: &SessionId, after: &Tail) -> Result<Vec<Arc<Entry>>, StoreError> {
        let (mut all, mut tail) = (Vec::new(), after.clone());
        loop {
            let page = self.federation.realm().read(session, &tail, REALM_PAGE);
            let page = self.federation.wait_for(page).map_err(|error| self.federation.refused(&error))?;
            if page.entries.is_empty() {
                return Ok(all);
            }
            tail = tail.after(page.entries.iter().map(|entry| &entry.id));
            all.extend(page.entries);
        }
    }

    /// Continues with sharing a session, in which the process before this one was killed.
    fn share_whole(&self, loaded: Loaded) -> Loaded {
        let header = Header { parent: None, request: None, replica_of: None, ..loaded.header.clone() };
        let sharing = self.federation.share(header, loaded.entries.clone(), loaded.journal.clone());
        match self.federation.wait_for(sharing) {
            Ok(journal) => Loaded { journal, ..loaded },
            // What is here goes on from what the realm has of it: it is tried again the next time.
            Err(error) => {
                tracing::warn!(%error, "a session that is shared in part is not shared as a whole");
                loaded
            }
        }
    }

    /// Makes a copy of a session that only the realm has. Returns whether it is torn: where the disk takes none, the
    /// session is read without it.
    fn copy(&self, session: &SessionId) -> Result<(Loaded, bool), StoreError> {
        let opened = self.federation.wait_for(self.federation.realm().open(session));
        let Opened { header, owner, .. } = opened.map_err(|error| self.federation.refused(&error))?;
        let entries = self.read_after(session, &Tail::default())?;
        let host = owner.map_or_else(|| "".into(), |owner| owner.host.as_str().into());
        let header = Header { replica_of: Some(host), ..header };
        let (journal, is_torn) = match self.local.create_with(header.clone(), &mut entries.iter().cloned()) {
            Err(error @ StoreError::Io { .. }) => {
                tracing::warn!(%error, "{LACKS_ENTRIES}");
                (self.local.create(header.clone()), true)
            }
            made => (made?, false),
        };
        Ok((Loaded { journal, header, entries, faults: Vec::new() }, is_torn))
    }
}

/// Appends entries to a copy, and waits for the disk. Returns whether it has them all.
fn append(local: &Journal, entries: &[Arc<Entry>]) -> bool {
    for part in entries.chunks(REALM_PAGE) {
        let (done, written) = std::sync::mpsc::channel();
        local.append(part, move |result| drop(done.send(result)));
        if let Ok(Err(error)) = written.recv() {
            tracing::warn!(%error, "{LACKS_ENTRIES}");
            return false;
        }
    }
    true
}

fn tail_of(entries: &[Arc<Entry>]) -> Tail {
    Tail::default().after(entries.iter().map(|entry| &entry.id))
}

/// The host that wrote to a session last as its owner.
fn last_host(loaded: &Loaded) -> Option<&Arc<str>> {
    loaded.owners().next_back().map(|owner| &owner.host)
}

/// The last known owner of a session, while the realm cannot be asked.
fn last_owner(loaded: &Loaded) -> Ownership {
    let host = last_host(loaded).or(loaded.header.replica_of.as_ref()).cloned().unwrap_or_default();
    Ownership::Theirs { host, is_lost: false }
}

/// The folder in which its last owner worked.
fn cwd_of(loaded: &Loaded) -> PathBuf {
    let cwd = loaded.owners().next_back().map(|owner| owner.cwd.clone());
    PathBuf::from(&*cwd.unwrap_or_else(|| loaded.header.cwd.clone()))
}

impl Journals for FederatedJournals {
    fn create(&self, header: Header) -> Journal {
        let local = self.local.create(header.clone());
        if !self.federation.shares(&header) {
            return local;
        }
        self.federation.create(header, local)
    }

    fn create_with(
        &self,
        header: Header,
        entries: &mut dyn Iterator<Item = Arc<Entry>>,
    ) -> Result<Journal, StoreError> {
        if !self.federation.shares(&header) {
            return self.local.create_with(header, entries);
        }
        let entries: Vec<_> = entries.collect();
        let local = self.local.create_with(header.clone(), &mut entries.iter().cloned())?;
        match self.federation.wait_for(self.federation.share(header, entries, local.clone())) {
            // It is this machine's, and can be shared later.
            Err(
                StoreError::Realm(why) | StoreError::RealmUnreachable(why) | StoreError::RealmInDoubt(why),
            ) => {
                tracing::warn!(%why, "a new session is not shared");
                Ok(local)
            }
            shared => shared,
        }
    }

    fn open(&self, session: &SessionId) -> Result<Loaded, StoreError> {
        self.federation.wait_until_closed(session);
        let (loaded, is_torn) = match self.local.open_shared(session) {
            Err(StoreError::NoSession { .. }) => self.copy(session)?,
            loaded => (loaded?, false),
        };
        match loaded.is_shared() {
            true => self.join(loaded, is_torn),
            false if self.federation.owns(session) => Ok(self.share_whole(loaded)),
            false => Ok(loaded),
        }
    }

    fn read_requests(&self, session: &SessionId, visit: &mut dyn FnMut(Entry)) -> Result<Header, StoreError> {
        self.local.read_requests(session, visit)
    }

    fn holder(&self, session: &SessionId) -> Option<String> {
        self.local.holder(session)
    }

    fn opened_by(
        &self,
        cwd: &Path,
        request: &KeyedRequest,
        since: SystemTime,
    ) -> Result<Option<Header>, StoreError> {
        self.local.opened_by(cwd, request, since)
    }

    fn is_archived(&self, session: &SessionId) -> bool {
        self.local.is_archived(session)
    }

    fn archive(&self, session: &SessionId, archived: bool) -> Result<(), StoreError> {
        self.local.archive(session, archived)
    }

    fn discard(&self, session: &SessionId, location: Option<&str>) -> Result<(), StoreError> {
        // Nobody writes to it from here on. Then the realm: a session whose file alone is gone would come back as a copy.
        let discarding = self.discarding(session, location)?;
        self.delete_shared(session, discarding.path())?;
        discarding.complete()
    }

    fn discarded(&self) -> Result<Vec<SessionId>, StoreError> {
        self.local.discarded()
    }

    fn forget(&self, session: &SessionId) -> Result<(), StoreError> {
        self.local.forget(session)
    }

    fn session_at(&self, location: &str) -> Result<SessionId, StoreError> {
        self.local.session_at(location)
    }

    fn stored(&self, cwd: Option<&Path>) -> Result<StoredList, StoreError> {
        self.local.stored(cwd)
    }

    fn search(
        &self,
        cwd: Option<&Path>,
        text: &str,
        archived: bool,
        limit: usize,
    ) -> Result<Vec<Hit>, StoreError> {
        self.local.search(cwd, text, archived, limit)
    }

    fn location(&self) -> Cow<'_, str> {
        self.local.location()
    }

    fn durability(&self) -> Durability {
        self.local.durability()
    }

    fn counters(&self) -> CommitCounters {
        self.local.counters()
    }
}
