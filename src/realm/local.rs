//! The journals of this machine as a realm of one host. The lock of a session's file is the lease: the system gives it up
//! when the process dies, so there is no time that could pass, and no other owner while it is held.
//!
//! Knows the store. There is nobody else to ask, to hand over to or to tell.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::limits::{REALM_PAGE, REALM_SLOT_BYTES, REALM_WAITING};
use crate::message::{EntryId, SessionId};
use crate::realm::calls::{Hints, Realm, RealmCall, Requests, Utterances};
use crate::realm::error::{Doubt, RealmError};
use crate::realm::rules::LogConflict;
use crate::realm::types::{
    Claim, Host, HostId, HostName, Opened, OwnedBy, RealmFilter, RealmHint, RealmHit, RealmPage,
    RealmRequest, RealmSlot, Tail,
};
use crate::store::{Entry, Header, Journal, JournalContent, Journals as _, Store, StoreError, StoredSession};

/// The realm of one host.
#[derive(Clone)]
pub struct LocalRealm {
    me: HostId,
    store: Store,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for LocalRealm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRealm").field("me", &self.me).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    owned: HashMap<SessionId, Owned>,
    /// Claims that were made, so that an older claim is known as one.
    claims: u64,
    /// Who wants hints, of one session or of all.
    watchers: Vec<(Option<SessionId>, mpsc::Sender<RealmHint>)>,
}

struct Owned {
    journal: Journal,
    header: Header,
    epoch: u64,
    tail: Tail,
    /// An append is under way.
    is_busy: bool,
    slot: Arc<str>,
}

impl LocalRealm {
    /// What lists show of a session.
    fn slot(&self, stored: StoredSession) -> RealmSlot {
        let owned = self.lock();
        let owned = owned.owned.get(&stored.header.session);
        let changed = stored.modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        RealmSlot {
            owner: Some(OwnedBy { host: self.me.name.clone(), is_lost: false }),
            cwd: stored.header.cwd.clone(),
            tail: owned.map_or(0, |owned| owned.tail.seq),
            text: owned.map(|owned| owned.slot.clone()).unwrap_or_default(),
            changed_ms: i64::try_from(changed.as_millis()).unwrap_or(i64::MAX),
            header: stored.header,
        }
    }

    /// The realm of a host whose sessions are in a store.
    pub fn new(me: HostId, store: Store) -> Self {
        Self { me, store, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something that reads or locks files on a thread that may wait.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, RealmError> + Send + 'static,
    ) -> Result<T, RealmError> {
        let realm = self.clone();
        match tokio::task::spawn_blocking(move || work(&realm)).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::Closed.into()),
        }
    }

    fn content(&self, session: &SessionId) -> Result<JournalContent, RealmError> {
        let path = self.store.look_up(session)?;
        let path = path.ok_or_else(|| RealmError::NoSession { session: session.clone() })?;
        let mut content = self.store.read_file(&path)?;
        // What was not acknowledged yet is in the file already.
        if let Some(owned) = self.lock().owned.get(session) {
            content.entries.truncate(usize::try_from(owned.tail.seq).unwrap_or(usize::MAX));
        }
        Ok(content)
    }

    fn open_now(&self, session: &SessionId) -> Result<Opened, RealmError> {
        let owner = self.owner(session);
        match self.content(session) {
            Ok(content) => {
                let epoch = self.lock().owned.get(session).map_or(0, |owned| owned.epoch);
                Ok(Opened { header: content.header, tail: tail_of(&content.entries), owner, epoch })
            }
            Err(RealmError::NoSession { session }) => match self.lock().owned.get(&session) {
                Some(owned) => Ok(Opened {
                    header: owned.header.clone(),
                    tail: owned.tail.clone(),
                    owner,
                    epoch: owned.epoch,
                }),
                None => Err(RealmError::NoSession { session }),
            },
            Err(error) => Err(error),
        }
    }

    fn owner(&self, session: &SessionId) -> Option<OwnedBy> {
        let is_owned = self.lock().owned.contains_key(session) || self.store.holder(session).is_some();
        is_owned.then(|| OwnedBy { host: self.me.name.clone(), is_lost: false })
    }

    fn own(&self, journal: Journal, header: Header, tail: Tail) -> Claim {
        let mut state = self.lock();
        state.claims = state.claims.saturating_add(1);
        let epoch = state.claims;
        let session = header.session.clone();
        let owned =
            Owned { journal, header, epoch, tail: tail.clone(), is_busy: false, slot: Arc::default() };
        state.owned.insert(session.clone(), owned);
        Claim { session, epoch, tail }
    }

    fn take(&self, session: &SessionId, known: &Tail) -> Result<Claim, RealmError> {
        let is_owned = self.lock().owned.contains_key(session);
        if is_owned {
            self.read_after(session, known, 1)?;
            let mut state = self.lock();
            state.claims = state.claims.saturating_add(1);
            let epoch = state.claims;
            if let Some(owned) = state.owned.get_mut(session) {
                owned.epoch = epoch;
                return Ok(Claim { session: session.clone(), epoch, tail: owned.tail.clone() });
            }
        }
        let loaded = self.store.open(session).map_err(|error| match error {
            StoreError::Locked { .. } => RealmError::Held { host: self.me.name.clone() },
            error => error.into(),
        })?;
        let tail = tail_of(&loaded.entries);
        if let Some(stop) = LogConflict::unless_holds(known, tail.seq, at(&loaded.entries, known)) {
            return Err(stop.error(session));
        }
        Ok(self.own(loaded.journal, loaded.header, tail))
    }

    fn read_after(&self, session: &SessionId, after: &Tail, most: usize) -> Result<RealmPage, RealmError> {
        let content = self.content(session);
        let entries = match content {
            Ok(content) => content.entries,
            // A session that is owned has no file before its first entry.
            Err(RealmError::NoSession { .. }) if self.lock().owned.contains_key(session) => Vec::new(),
            Err(error) => return Err(error),
        };
        let tail = tail_of(&entries);
        if let Some(stop) = LogConflict::unless_holds(after, tail.seq, at(&entries, after)) {
            return Err(stop.error(session));
        }
        let skip = usize::try_from(after.seq).unwrap_or(usize::MAX);
        Ok(RealmPage { entries: entries.into_iter().skip(skip).take(most.max(1)).collect(), tail })
    }

    fn tell(&self, session: &SessionId, seq: Option<u64>) {
        let hint = RealmHint::Session { session: session.clone(), seq };
        self.lock().watchers.retain(|(wanted, to)| {
            if wanted.as_ref().is_some_and(|wanted| wanted != session) {
                return !to.is_closed();
            }
            // A watcher whose queue is full reads anyway.
            !matches!(to.try_send(hint.clone()), Err(mpsc::error::TrySendError::Closed(_)))
        });
    }

    fn fenced(session: &SessionId) -> RealmError {
        RealmError::Fenced { session: session.clone() }
    }
}

fn tail_of(entries: &[Arc<Entry>]) -> Tail {
    let seq = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    Tail { seq, id: entries.last().map(|entry| entry.id.clone()) }
}

fn at<'a>(entries: &'a [Arc<Entry>], known: &Tail) -> Option<&'a EntryId> {
    let place = usize::try_from(known.seq).ok()?.checked_sub(1)?;
    entries.get(place).map(|entry| &entry.id)
}

impl Realm for LocalRealm {
    fn me(&self) -> &HostId {
        &self.me
    }

    fn renew(&self) -> RealmCall<'_, ()> {
        async { Ok(()) }.boxed()
    }

    fn leave(&self) -> RealmCall<'_, ()> {
        async {
            self.lock().owned.clear();
            Ok(())
        }
        .boxed()
    }

    fn hosts(&self) -> RealmCall<'_, Vec<Host>> {
        async {
            let sessions = u64::try_from(self.lock().owned.len()).unwrap_or(u64::MAX);
            let build = env!("CARGO_PKG_VERSION").into();
            let (name, key) = (self.me.name.clone(), self.me.key.clone());
            Ok(vec![Host { name, key, build, is_alive: true, lost_ms: 0, sessions }])
        }
        .boxed()
    }

    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim> {
        async {
            let header = header.clone();
            self.blocking(move |realm| match realm.open_now(&header.session) {
                Ok(known) if known.header == header => realm.take(&header.session, &Tail::default()),
                Ok(_) => Err(RealmError::Taken { session: header.session }),
                Err(RealmError::NoSession { .. }) => {
                    Ok(realm.own(realm.store.create(header.clone()), header, Tail::default()))
                }
                Err(error) => Err(error),
            })
            .await
        }
        .boxed()
    }

    fn open<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Opened> {
        let session = session.clone();
        self.blocking(move |realm| realm.open_now(&session)).boxed()
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: &'a Tail, most: usize) -> RealmCall<'a, RealmPage> {
        let (session, after) = (session.clone(), after.clone());
        self.blocking(move |realm| realm.read_after(&session, &after, most)).boxed()
    }

    fn list<'a>(&'a self, filter: &'a RealmFilter, most: usize) -> RealmCall<'a, Vec<RealmSlot>> {
        let filter = filter.clone();
        self.blocking(move |realm| {
            if filter.host.is_some_and(|host| host != realm.me.name) {
                return Ok(Vec::new());
            }
            let stored = realm.store.list(None)?;
            Ok(stored.into_iter().take(most).map(|stored| realm.slot(stored)).collect())
        })
        .boxed()
    }

    fn find<'a>(
        &'a self,
        text: &'a str,
        besides: Option<&'a HostName>,
        most: usize,
    ) -> RealmCall<'a, Vec<RealmHit>> {
        let (text, is_besides) = (text.to_owned(), besides == Some(&self.me.name));
        self.blocking(move |realm| {
            if is_besides {
                return Ok(Vec::new());
            }
            let hits = realm.store.search(None, &text, true, most)?.into_iter();
            Ok(hits.map(|hit| RealmHit { slot: realm.slot(hit.info), excerpt: hit.excerpt }).collect())
        })
        .boxed()
    }

    fn claim<'a>(&'a self, session: &'a SessionId, _: &'a Path, known: &'a Tail) -> RealmCall<'a, Claim> {
        let (session, known) = (session.clone(), known.clone());
        self.blocking(move |realm| realm.take(&session, &known)).boxed()
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async {
            let mut state = self.lock();
            if state.owned.get(&claim.session).is_some_and(|owned| owned.epoch == claim.epoch) {
                state.owned.remove(&claim.session);
            }
            Ok(())
        }
        .boxed()
    }

    fn hand_over<'a>(&'a self, _: &'a Claim, _: &'a HostName) -> RealmCall<'a, ()> {
        async { Err(RealmError::Alone) }.boxed()
    }

    /// What is deleted here is gone: there is no other host that would have to know.
    fn delete<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async {
            let owned = {
                let mut state = self.lock();
                let is_ours = state.owned.get(&claim.session).is_some_and(|owned| owned.epoch == claim.epoch);
                if is_ours { state.owned.remove(&claim.session) } else { None }
            };
            let Some(Owned { journal, .. }) = owned else {
                return match self.open(&claim.session).await {
                    Err(RealmError::NoSession { .. }) => Ok(()),
                    _ => Err(Self::fenced(&claim.session)),
                };
            };
            // The writing thread lets the file go.
            let (done, settled) = oneshot::channel();
            journal.settle(move |_| {
                let _ = done.send(());
            });
            let _ = settled.await;
            drop(journal);
            let session = claim.session.clone();
            self.blocking(move |realm| {
                match realm.store.discard(&session, None) {
                    // It had no entry, and so no file.
                    Err(StoreError::NoSession { .. }) => return Ok(()),
                    discarded => discarded?,
                }
                Ok(realm.store.forget(&session)?)
            })
            .await?;
            self.tell(&claim.session, None);
            Ok(())
        }
        .boxed()
    }

    fn append<'a>(
        &'a self,
        claim: &'a Claim,
        after: &'a Tail,
        entries: &'a [Arc<Entry>],
        slot: Option<&'a str>,
    ) -> RealmCall<'a, Tail> {
        async move {
            if entries.len() > REALM_PAGE {
                return Err(RealmError::TooLong { bytes: entries.len(), most: REALM_PAGE });
            }
            let (done, answer) = oneshot::channel();
            {
                let mut state = self.lock();
                let owned = state.owned.get_mut(&claim.session).filter(|owned| owned.epoch == claim.epoch);
                let owned = owned.ok_or_else(|| Self::fenced(&claim.session))?;
                if owned.is_busy || owned.tail != *after {
                    return Err(RealmError::InDoubt(Doubt::NoRow));
                }
                owned.is_busy = true;
                let (realm, session) = (self.clone(), claim.session.clone());
                let tail = after.after(entries.iter().map(|entry| &entry.id));
                let slot = slot.map(Arc::<str>::from);
                // Kept up by the writing thread, so that a caller that gives up changes nothing.
                owned.journal.append(entries, move |result| {
                    let mut state = realm.lock();
                    if let Some(owned) = state.owned.get_mut(&session) {
                        owned.is_busy = false;
                        if result.is_ok() {
                            owned.tail = tail.clone();
                            owned.slot = slot.unwrap_or_else(|| owned.slot.clone());
                        }
                    }
                    drop(state);
                    if result.is_ok() {
                        realm.tell(&session, Some(tail.seq));
                    }
                    let _ = done.send(result.map(|()| tail));
                });
            }
            match answer.await {
                Ok(result) => result.map_err(RealmError::Store),
                Err(_) => Err(RealmError::InDoubt(Doubt::NoAnswer)),
            }
        }
        .boxed()
    }

    fn settle<'a>(&'a self, claim: &'a Claim, known: &'a Tail) -> RealmCall<'a, RealmPage> {
        async {
            let is_ours = |realm: &Self| {
                realm.lock().owned.get(&claim.session).is_some_and(|owned| owned.epoch == claim.epoch)
            };
            if !is_ours(self) {
                return Err(Self::fenced(&claim.session));
            }
            let page = self.read(&claim.session, known, REALM_PAGE).await?;
            if is_ours(self) { Ok(page) } else { Err(Self::fenced(&claim.session)) }
        }
        .boxed()
    }

    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints> {
        async move {
            let (to, hints) = mpsc::channel(REALM_WAITING);
            self.lock().watchers.push((session.cloned(), to));
            Ok(hints)
        }
        .boxed()
    }

    fn slot<'a>(&'a self, claim: &'a Claim, slot: &'a str) -> RealmCall<'a, ()> {
        async {
            if slot.len() > REALM_SLOT_BYTES {
                return Err(RealmError::TooLong { bytes: slot.len(), most: REALM_SLOT_BYTES });
            }
            {
                let mut state = self.lock();
                let owned = state.owned.get_mut(&claim.session).filter(|owned| owned.epoch == claim.epoch);
                owned.ok_or_else(|| Self::fenced(&claim.session))?.slot = slot.into();
            }
            self.tell(&claim.session, None);
            Ok(())
        }
        .boxed()
    }

    fn say<'a>(&'a self, _: &'a Claim, _: &'a str) -> RealmCall<'a, ()> {
        async { Ok(()) }.boxed()
    }

    fn hear<'a>(&'a self, _: &'a SessionId) -> RealmCall<'a, Utterances> {
        async { Err(RealmError::Alone) }.boxed()
    }

    fn post<'a>(&'a self, _: &'a SessionId, _: &'a RealmRequest) -> RealmCall<'a, Arc<str>> {
        async { Err(RealmError::Alone) }.boxed()
    }

    fn requests(&self) -> RealmCall<'_, Requests> {
        async { Err(RealmError::Alone) }.boxed()
    }

    fn answer<'a>(&'a self, _: &'a str, _: &'a str) -> RealmCall<'a, bool> {
        async { Err(RealmError::Alone) }.boxed()
    }
}
