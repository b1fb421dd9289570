//! The journal of a shared session. One task writes: what the session appends, what other hosts did, and who owns it,
//! one after the other.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::host_state::{RealmMember, lock, ownership_of};
use super::slot::SlotText;
use crate::config::Workspace;
use crate::git;
use crate::limits::{REALM_LOOK, REALM_PAGE, REALM_PAGE_BYTES, REALM_SESSIONS, REALM_WAITING, REALM_WATCH};
use crate::message::SessionId;
use crate::realm::rules::{LeaseStanding, LogConflict, Offer, Replica};
use crate::realm::{Claim, HostName, RealmError, RealmFilter, RealmSlot, RealmWriter, Tail, Written};
use crate::store::{
    ChangeListener, Done, Entry, EntryBody, FromElsewhere, Header, Journal, Log, Ownership, StoreError,
};

/// The journal of a shared session.
#[derive(Debug)]
pub(super) struct SharedLog {
    part: Arc<LogPart>,
    /// Dropped with the log, which ends its task.
    _open: mpsc::Sender<Work>,
}

/// What the journal's task shares with those who ask it.
pub(super) struct LogPart {
    session: SessionId,
    member: Arc<RealmMember>,
    local: Journal,
    ownership: Mutex<Ownership>,
    claim: Mutex<Option<Claim>>,
    told: OnceLock<ChangeListener>,
    look: Notify,
    work: mpsc::WeakSender<Work>,
    /// Whether the local file lacks entries. Nothing is written to it then: it ends early, and is made whole when it is
    /// opened, where a hole in it would be another log.
    is_torn: Arc<AtomicBool>,
    /// Dropped after the local file, as the last field.
    open: Arc<()>,
}

impl fmt::Debug for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPart").field("session", &self.session).finish_non_exhaustive()
    }
}

type AppendReply = oneshot::Sender<Result<(), StoreError>>;

enum Work {
    Append(Vec<Arc<Entry>>, Done),
    /// Nothing is to be written; everything before is done.
    Settle(Done),
    Take(PathBuf, AppendReply),
    Give(HostName, AppendReply),
}

/// Where a shared session begins here.
pub(super) struct Start {
    pub header: Header,
    pub local: Journal,
    /// What the local file holds, unless it is torn.
    pub tail: Tail,
    pub text: SlotText,
    /// The host that wrote to it last as its owner.
    pub last_host: Option<Arc<str>>,
    /// The claim, if this host owns it already.
    pub claim: Option<Claim>,
    pub ownership: Ownership,
    /// Whether the local file lacks entries already: they could not be written.
    pub is_torn: bool,
}

/// The text of a slot, and the place, after these entries.
pub(super) fn state_of(entries: &[Arc<Entry>], session: &SessionId) -> (Tail, SlotText) {
    let mut text = SlotText::default();
    entries.iter().for_each(|entry| text.take(entry, session));
    (Tail::default().after(entries.iter().map(|entry| &entry.id)), text)
}

impl SharedLog {
    /// The journal of a session from that start.
    pub(super) fn start(federation: &Arc<RealmMember>, start: Start) -> Self {
        let Start { header, local, tail, text, last_host, claim, ownership, is_torn } = start;
        let (work, waiting) = mpsc::channel(REALM_WAITING);
        let part = Arc::new(LogPart {
            session: header.session.clone(),
            member: federation.clone(),
            local,
            ownership: Mutex::new(ownership),
            claim: Mutex::new(claim.clone()),
            told: OnceLock::new(),
            look: Notify::new(),
            work: work.downgrade(),
            is_torn: Arc::new(is_torn.into()),
            open: Arc::default(),
        });
        let writer = claim.and_then(|claim| RealmWriter::new(federation.realm_shared(), claim, &tail).ok());
        // Nothing runs yet that a lapse since the claim would have to end.
        let lapses = federation.lapses();
        let (federation, copy) = (federation.clone(), Replica::new(tail));
        let folder = None;
        let writer =
            Writer { federation, part: part.clone(), header, writer, lapses, copy, text, last_host, folder };
        writer.federation.executor().clone().spawn(writer.run(waiting));
        Self { part, _open: work }
    }

    /// A journal for a new session of this host. The realm knows of it with its first entry.
    pub(super) fn of_new(federation: &Arc<RealmMember>, header: Header, local: Journal) -> Self {
        let ownership = Ownership::Ours { host: federation.host_name(), epoch: 1, cwd: header.cwd.clone() };
        let (tail, text) = (Tail::default(), SlotText::default());
        let last_host = Some(federation.host_name());
        let (claim, is_torn) = (None, false);
        Self::start(federation, Start { header, local, tail, text, last_host, claim, ownership, is_torn })
    }

    /// The journal of a session of this machine, whose entries are brought into the realm first.
    ///
    /// # Errors
    /// If the realm refuses. What it has of the session by then is continued the next time.
    pub(super) async fn shared(
        federation: &Arc<RealmMember>,
        header: Header,
        entries: Vec<Arc<Entry>>,
        local: Journal,
    ) -> Result<Self, StoreError> {
        let refused = |error: &RealmError| federation.refused(error);
        let realm = federation.realm();
        let claim = again(|| realm.create(&header)).await.map_err(|error| refused(&error))?;
        let (all, mut text) = state_of(&entries, &header.session);
        text.is_folder_shared = federation.terms.workspace == Workspace::Shared;
        let done = usize::try_from(claim.tail.seq).unwrap_or(usize::MAX);
        let same = |place: usize| entries.get(place).map(|entry| &entry.id) == claim.tail.id.as_ref();
        if done > entries.len() || !done.checked_sub(1).is_none_or(same) {
            let message = format!("The realm has other entries of the session {} already.", header.session);
            return Err(StoreError::Realm(message));
        }
        let slot = text.write();
        let writer = RealmWriter::new(federation.realm_shared(), claim.clone(), &claim.tail);
        let mut writer = writer.map_err(|error| refused(&error))?;
        let missing = pages(entries.get(done..).unwrap_or_default());
        let last = missing.len().saturating_sub(1);
        for (place, part) in missing.into_iter().enumerate() {
            // Lists show it once it is whole; until then it is seen that it is not.
            let slot = (place == last).then_some(&*slot);
            write(federation, &mut writer, part, slot).await.map_err(|stopped| stopped.error(federation))?;
        }
        let tail = writer.tail().clone();
        debug_assert_eq!(tail, all);
        let (host, cwd) = (federation.host_name(), header.cwd.clone());
        let ownership = Ownership::Ours { host, epoch: claim.epoch, cwd };
        let claim = Some(Claim { tail: tail.clone(), ..claim });
        let (last_host, is_torn) = (Some(federation.host_name()), false);
        let start = Start { header, local, tail, text, last_host, claim, ownership, is_torn };
        Ok(Self::start(federation, start))
    }

    /// What its task shares with those who ask it.
    pub(super) fn part(&self) -> &Arc<LogPart> {
        &self.part
    }

    fn send(&self, work: Work) {
        let refused = match self.part.work.upgrade().map(|sender| sender.try_send(work)) {
            Some(Err(error)) => error.into_inner(),
            _ => return,
        };
        if let Work::Append(_, done) | Work::Settle(done) = refused {
            done(Err(Arc::new(StoreError::Closed)));
        }
    }
}

impl Log for SharedLog {
    fn append(&self, entries: &[Arc<Entry>], done: Done) {
        if *lock(&self.part.ownership) == Ownership::Local {
            return self.part.append_here(entries, done);
        }
        // At once: the session's task may be awaited by this one.
        if let Some(error) = self.part.not_ours() {
            if entries.is_empty() {
                return self.part.local.settle(done);
            }
            // What a turn wanted to save that has just been ended.
            let (part, entries) = (self.part.clone(), entries.to_vec());
            let keeping = async move {
                part.member.keep_lost(&part.session, &entries).await;
                // What comes next is kept after it.
                done(Err(Arc::new(error)));
            };
            drop(self.part.member.executor().spawn(keeping));
            return;
        }
        self.send(match entries.is_empty() {
            true => Work::Settle(done),
            false => Work::Append(entries.to_vec(), done),
        });
    }

    fn location(&self) -> Cow<'_, str> {
        self.part.local.location()
    }

    fn bytes(&self) -> u64 {
        self.part.local.bytes()
    }

    fn ownership(&self) -> Ownership {
        lock(&self.part.ownership).clone()
    }

    fn listen(&self, told: ChangeListener) {
        let _ = self.part.told.set(told);
        self.part.poke();
    }
}

impl LogPart {
    /// The session.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Writes entries to the local file, as far as it is whole.
    fn keep(&self, entries: &[Arc<Entry>], done: impl FnOnce() + Send + 'static) {
        if self.is_torn.load(Ordering::Acquire) {
            return done();
        }
        let is_torn = self.is_torn.clone();
        self.local.append(entries, move |written| {
            if let Err(error) = written {
                is_torn.store(true, Ordering::Release);
                tracing::warn!(%error, "{LACKS_ENTRIES}");
            }
            done();
        });
    }

    /// Appends to a copy that is this machine's alone, because the session was deleted at its owner.
    fn append_here(&self, entries: &[Arc<Entry>], done: Done) {
        if self.is_torn.load(Ordering::Acquire) {
            let message = "This machine's copy of the session lacks entries. Open the session again to continue what is \
                           there.";
            return done(Err(Arc::new(StoreError::Realm(message.to_owned()))));
        }
        self.local.append(entries, done);
    }

    /// What is there until the local file is closed.
    pub(super) fn open(&self) -> Weak<()> {
        Arc::downgrade(&self.open)
    }

    /// Has the task look for what is new.
    pub(super) fn poke(&self) {
        self.look.notify_one();
    }

    /// The claim of this host, if it owns the session.
    pub(super) fn claim(&self) -> Option<Claim> {
        lock(&self.claim).clone()
    }

    /// Whether another host owns the session.
    pub(super) fn is_theirs(&self) -> bool {
        matches!(&*lock(&self.ownership), Ownership::Theirs { .. })
    }

    /// Why nothing may be appended, if another host owns the session.
    fn not_ours(&self) -> Option<StoreError> {
        match &*lock(&self.ownership) {
            Ownership::Theirs { host, .. } if **host == *self.member.host().as_str() => {
                let is_over = self.member.standing() == LeaseStanding::Over;
                Some(StoreError::RealmUnreachable(if is_over { LEASE_OVER } else { CHANGED }.to_owned()))
            }
            Ownership::Theirs { host, is_lost: true } => {
                Some(StoreError::OwnerLost { host: host.to_string() })
            }
            Ownership::Theirs { host, .. } => Some(StoreError::Owned { host: host.to_string() }),
            Ownership::Ours { .. } | Ownership::Local => None,
        }
    }

    pub(super) async fn take(&self, cwd: PathBuf) -> Result<(), StoreError> {
        self.ask(|answer| Work::Take(cwd, answer)).await
    }

    pub(super) async fn give(&self, host: HostName) -> Result<(), StoreError> {
        self.ask(|answer| Work::Give(host, answer)).await
    }

    async fn ask(&self, work: impl FnOnce(AppendReply) -> Work) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        let sender = self.work.upgrade().ok_or(StoreError::Closed)?;
        sender.send(work(answer)).await.map_err(|_| StoreError::Closed)?;
        drop(sender);
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn tell(&self, what: FromElsewhere) {
        if let Some(told) = self.told.get() {
            told(what).await;
        }
    }
}

/// The task of a shared session's journal.
struct Writer {
    federation: Arc<RealmMember>,
    part: Arc<LogPart>,
    header: Header,
    /// The claim of this host, while it counts.
    writer: Option<RealmWriter>,
    /// How often the lease was over when the claim was asked for.
    lapses: u64,
    /// What the local file has.
    copy: Replica,
    text: SlotText,
    /// The host that wrote to it last as its owner: of another host's folder this one knows nothing.
    last_host: Option<Arc<str>>,
    /// The folder whose repository the text names.
    folder: Option<Arc<str>>,
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Work>) {
        loop {
            let is_following = self.part.is_theirs();
            tokio::select! {
                biased;
                work = waiting.recv() => match work {
                    Some(work) => self.work(work).await,
                    None => return,
                },
                () = self.part.look.notified() => self.look().await,
                () = sleep(REALM_WATCH), if is_following => self.look().await,
            }
        }
    }

    async fn work(&mut self, work: Work) {
        match work {
            Work::Settle(done) => self.part.local.settle(done),
            Work::Append(entries, done) => match self.append(&entries).await {
                // The realm has them, so they are saved.
                Ok(()) => self.part.keep(&entries, move || done(Ok(()))),
                Err(error) => {
                    done(Err(Arc::new(error)));
                    if self.writer.is_none() && self.part.not_ours().is_none() && self.copy.tail().seq > 0 {
                        self.lose().await;
                    }
                }
            },
            Work::Take(cwd, answer) => drop(answer.send(self.take(cwd).await)),
            Work::Give(host, answer) => drop(answer.send(self.give(host).await)),
        }
    }

    async fn append(&mut self, entries: &[Arc<Entry>]) -> Result<(), StoreError> {
        if let Some(error) = self.part.not_ours() {
            // It was queued while the session was still this host's.
            self.federation.keep_lost(&self.part.session, entries).await;
            return Err(error);
        }
        if self.writer.is_none() {
            // A session that the realm does not know of yet.
            self.federation.may_begin()?;
            self.lapses = self.federation.lapses();
            let claim = again(|| self.federation.realm().create(&self.header)).await;
            let claim = claim.map_err(|error| self.federation.refused(&error))?;
            if claim.tail != *self.copy.tail() {
                // Entries whose answer was lost are there after all.
                self.read_first().await;
                self.federation.keep_lost(&self.part.session, entries).await;
                return Err(Stopped::Changed.error(&self.federation));
            }
            self.own(claim)?;
        }
        self.look_at_folder().await;
        let Some(writer) = &mut self.writer else { return Err(StoreError::Closed) };
        let mut text = self.text.clone();
        text.is_folder_shared = self.federation.terms.workspace == Workspace::Shared;
        entries.iter().for_each(|entry| text.take(entry, &self.part.session));
        match write(&self.federation, writer, entries, Some(&text.write())).await {
            Ok(()) => {
                self.copy = Replica::new(writer.tail().clone());
                self.text = text;
                Ok(())
            }
            Err(stopped) => {
                let error = stopped.error(&self.federation);
                match stopped {
                    Stopped::Refused(_) => return Err(error),
                    Stopped::End(_) => self.disown(),
                    Stopped::Changed => self.read_first().await,
                }
                self.federation.keep_lost(&self.part.session, entries).await;
                Err(error)
            }
        }
    }

    /// Looks which repository the session's folder is one of, once for each folder.
    async fn look_at_folder(&mut self) {
        let cwd = match &*lock(&self.part.ownership) {
            Ownership::Ours { cwd, .. } if self.folder.as_ref() != Some(cwd) => cwd.clone(),
            _ => return,
        };
        self.folder = Some(cwd.clone());
        let looking = tokio::task::spawn_blocking(move || git::remote(Path::new(&*cwd)));
        // A folder that does not answer holds nothing up.
        self.text.remote = timeout(REALM_LOOK, looking).await.ok().and_then(Result::ok).flatten();
    }

    fn own(&mut self, claim: Claim) -> Result<(), StoreError> {
        let writer = RealmWriter::new(self.federation.realm_shared(), claim.clone(), self.copy.tail());
        self.writer = Some(writer.map_err(|error| self.federation.refused(&error))?);
        *lock(&self.part.claim) = Some(claim);
        Ok(())
    }

    fn disown(&mut self) {
        *lock(&self.part.claim) = None;
        self.writer = None;
    }

    /// The realm has entries of this host that were not known here. They are taken in as those of another host are, and
    /// then this host goes on.
    async fn read_first(&mut self) {
        self.disown();
        let host = self.federation.host_name();
        self.set(Ownership::Theirs { host, is_lost: false }).await;
        self.part.poke();
    }

    /// This host owns the session no more.
    async fn lose(&mut self) {
        self.disown();
        self.set(match self.federation.owner(&self.part.session) {
            Some(owner) => ownership_of(Some(&owner)),
            // It is too new to be listed. Other hosts take what is listed, so it is still this one's.
            None => Ownership::Theirs { host: self.federation.host_name(), is_lost: false },
        })
        .await;
    }

    async fn set(&self, ownership: Ownership) {
        let old = std::mem::replace(&mut *lock(&self.part.ownership), ownership.clone());
        if old != ownership {
            self.tell_owner();
        }
    }

    /// Apart from this task: the session may wait for it with a full mailbox.
    fn tell_owner(&self) {
        let part = self.part.clone();
        self.federation.executor().spawn(async move { part.tell(FromElsewhere::Owner).await });
    }

    /// Looks who owns the session, and for entries of its owner.
    async fn look(&mut self) {
        let owner = self.federation.owner(&self.part.session);
        let is_ours = owner.as_ref().is_some_and(|owner| owner.host == *self.federation.host());
        if let Some(writer) = &mut self.writer {
            let session = self.part.session.clone();
            if self.federation.standing() != LeaseStanding::Over && self.federation.lapses() == self.lapses {
                // The list may be older than the claim.
                let is_elsewhere = owner.is_some() && !is_ours;
                let settled = match is_elsewhere {
                    true => self.federation.realm().settle(writer.claim(), writer.tail()).await.map(drop),
                    false => Ok(()),
                };
                if !matches!(settled, Err(RealmError::Fenced { .. })) {
                    return;
                }
            }
            tracing::warn!(%session, "this host owns a session no more");
            return self.lose().await;
        }
        if !self.part.is_theirs() {
            // It is new, and nobody else knows of it; or it is this machine's alone.
            return;
        }
        if let Err(error) = self.pull(None).await {
            if let RealmError::Deleted { .. } = error {
                tracing::info!(session = %self.part.session, "a shared session was deleted at its owner");
                return self.set(Ownership::Local).await;
            }
            tracing::debug!(%error, session = %self.part.session, "a shared session is not followed");
        }
        if owner.is_some() {
            self.set(ownership_of(owner.as_ref())).await;
        }
        // What an interruption of the line took from this host, and nobody else has taken meanwhile; and what another host
        // has given to it, if the hosts share its folder.
        if is_ours && self.federation.standing() == LeaseStanding::Held {
            let is_last =
                self.last_host.as_deref().is_none_or(|last| last == self.federation.host().as_str());
            let slot = self.federation.slot(&self.part.session);
            let slot = slot.filter(|slot| is_last || SlotText::read(&slot.text).is_folder_shared);
            let cwd = slot.map(|slot| PathBuf::from(&*slot.cwd));
            if let Some(cwd) = cwd.filter(|cwd| cwd.is_dir())
                && let Err(error) = self.take(cwd).await
            {
                tracing::debug!(%error, session = %self.part.session, "a session of this host is not taken back");
            }
        }
    }

    /// Takes in the entries after those of the local file, up to a place, or to the end. Where the log is another one than
    /// the copy's, the copy stays as it is.
    async fn pull(&mut self, until: Option<u64>) -> Result<(), RealmError> {
        loop {
            if let Some(stop) = self.copy.stopped() {
                return Err(stop.clone().error(&self.part.session));
            }
            if until.is_some_and(|until| self.copy.tail().seq >= until) {
                return Ok(());
            }
            let asked = self.copy.tail().clone();
            let page = self.federation.realm().read(&self.part.session, &asked, REALM_PAGE).await;
            let page = page.inspect_err(|error| {
                if let Some(stop) = LogConflict::of(error) {
                    tracing::warn!(%error, session = %self.part.session, "the copy of a session takes in nothing more");
                    self.copy.stop(stop);
                }
            })?;
            let mut next = Vec::with_capacity(page.entries.len());
            for (seq, entry) in (asked.seq.saturating_add(1)..).zip(page.entries) {
                if self.copy.offer(seq, &entry.id) == Offer::Apply {
                    next.push(entry);
                }
            }
            if next.is_empty() {
                return Ok(());
            }
            for entry in &next {
                self.text.take(entry, &self.part.session);
                if let EntryBody::Owner(owner) = &entry.body
                    && owner.session_id == self.part.session
                {
                    self.last_host = Some(owner.host.clone());
                }
            }
            let (kept, is_kept) = oneshot::channel();
            self.part.keep(&next, move || {
                let _ = kept.send(());
            });
            let _ = is_kept.await;
            self.part.tell(FromElsewhere::Entries(next)).await;
        }
    }

    /// Makes this host the owner, in a folder of this machine.
    async fn take(&mut self, cwd: PathBuf) -> Result<(), StoreError> {
        if self.writer.is_some() {
            return Ok(());
        }
        self.federation.may_begin()?;
        if let Some(host) = self.shared_in_part().await.map_err(|error| self.federation.refused(&error))? {
            return Err(StoreError::Realm(format!(
                "The host {host} has shared only a part of the session so far. It shares the rest when it is there again; \
                 until then the session stays there."
            )));
        }
        self.lapses = self.federation.lapses();
        let (federation, session) = (self.federation.clone(), self.part.session.clone());
        let refused = |error: RealmError| federation.refused(&error);
        let claim =
            again(|| federation.realm().claim(&session, &cwd, self.copy.tail())).await.map_err(refused)?;
        // The log ends there until this host appends.
        self.pull(Some(claim.tail.seq)).await.map_err(|error| self.federation.refused(&error))?;
        let epoch = claim.epoch;
        self.own(claim)?;
        self.last_host = Some(self.federation.host_name());
        let cwd = cwd.to_string_lossy().into();
        self.set(Ownership::Ours { host: self.federation.host_name(), epoch, cwd }).await;
        Ok(())
    }

    /// The other host that has shared a session only in part. What lists have shown once is whole, for good; that they
    /// showed nothing may be long ago.
    async fn shared_in_part(&self) -> Result<Option<HostName>, RealmError> {
        let listed = self.federation.slot(&self.part.session).filter(|slot| slot.text.is_empty());
        let owner = listed.and_then(|slot| slot.owner).map(|owner| owner.host);
        let Some(host) = owner.filter(|host| host != self.federation.host()) else { return Ok(None) };
        let of_host = RealmFilter { host: Some(host) };
        let now = self.federation.realm().list(&of_host, REALM_SESSIONS).await?;
        let is_in_part = |slot: &RealmSlot| slot.header.session == self.part.session && slot.text.is_empty();
        Ok(of_host.host.filter(|_| now.iter().any(is_in_part)))
    }

    async fn give(&mut self, host: HostName) -> Result<(), StoreError> {
        let Some(claim) = self.writer.as_ref().map(|writer| writer.claim().clone()) else {
            let owner = self.federation.owner(&self.part.session);
            let owner = owner.map_or_else(String::new, |owner| owner.host.to_string());
            return Err(StoreError::Owned { host: owner });
        };
        let mut given = again(|| self.federation.realm().hand_over(&claim, &host)).await;
        self.disown();
        if matches!(given, Err(RealmError::Fenced { .. }))
            && let Ok(opened) = self.federation.realm().open(&self.part.session).await
            && opened.owner.is_some_and(|owner| owner.host == host)
        {
            // An earlier try was carried out, and its answer lost.
            given = Ok(());
        }
        if let Err(error) = given {
            // A try without an answer may be carried out at any time of its epoch: this host goes on in the next one.
            let cwd = match &*lock(&self.part.ownership) {
                Ownership::Ours { cwd, .. } => Some(PathBuf::from(&**cwd)),
                _ => None,
            };
            let kept = match cwd {
                Some(cwd) => self.take(cwd).await,
                None => Err(StoreError::Closed),
            };
            if kept.is_err() {
                self.lose().await;
            }
            return Err(self.federation.refused(&error));
        }
        self.set(Ownership::Theirs { host: host.as_str().into(), is_lost: false }).await;
        Ok(())
    }
}

/// What is told where a copy cannot be written: the session goes on without it, and is read from the engine.
pub(super) const LACKS_ENTRIES: &str = "this machine's copy of a shared session lacks entries";

/// What is told until this host has read what it may not know of its own session.
const CHANGED: &str = "The session may have entries that are not known here: their saving was in doubt, or this machine was \
                       away. They are read first; try again.";

/// What is told of a session that this host owned until its lease was over. The folder is one of the state folder.
const LEASE_OVER: &str = "The realm could not be reached for so long that this machine's lease is over: other machines can \
                          take the session. Once the realm can be reached it goes on here, unless another one has it. What \
                          could not be saved is kept in `lost` in the state folder.";

/// Why entries were not written.
enum Stopped {
    /// The realm refused them; the next ones may be written.
    Refused(RealmError),
    /// This host's lease is over, or the session is another host's: nothing more is written.
    End(Option<RealmError>),
    /// Earlier entries that were refused are there after all. What was wanted was decided without them.
    Changed,
}

impl Stopped {
    fn error(&self, federation: &RealmMember) -> StoreError {
        match self {
            Self::Refused(error) | Self::End(Some(error)) => federation.refused(error),
            Self::End(None) => StoreError::RealmUnreachable(LEASE_OVER.to_owned()),
            Self::Changed => StoreError::RealmUnreachable(CHANGED.to_owned()),
        }
    }
}

/// Writes entries as their owner. Where an answer is lost, goes on until it is known what became of them, or the lease is
/// over. Nobody else decides anything meanwhile, so that what is not there is written again, with the same ids, unless
/// something else is there.
async fn write(
    federation: &RealmMember,
    writer: &mut RealmWriter,
    entries: &[Arc<Entry>],
    slot: Option<&str>,
) -> Result<(), Stopped> {
    loop {
        if federation.standing() == LeaseStanding::Over {
            return Err(Stopped::End(None));
        }
        match writer.write(entries, slot).await {
            Ok(Written::Saved(_)) => return Ok(()),
            Ok(Written::DecideAnew(found)) if found.is_empty() => {}
            Ok(Written::DecideAnew(_)) => return Err(Stopped::Changed),
            Err(error) if error.may_pass() => sleep(PAUSE).await,
            Err(error) if LogConflict::of(&error).is_some() => return Err(Stopped::End(Some(error))),
            Err(error) => return Err(Stopped::Refused(error)),
        }
    }
}

/// Between two tries of what did not reach the realm.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// How often a call is made whose answer was lost.
const TRIES: usize = 5;

/// Makes a call that may simply be made again, until its answer comes.
pub(super) async fn again<T, F>(call: impl Fn() -> F) -> Result<T, RealmError>
where
    F: Future<Output = Result<T, RealmError>>,
{
    for _ in 1..TRIES {
        match call().await {
            Err(RealmError::InDoubt(_)) => sleep(PAUSE).await,
            answer => return answer,
        }
    }
    call().await
}

/// Entries in parts that the realm takes at once.
fn pages(entries: &[Arc<Entry>]) -> Vec<&[Arc<Entry>]> {
    let mut pages = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let (mut count, mut bytes) = (0usize, 0usize);
        for entry in rest.iter().take(REALM_PAGE) {
            bytes = bytes.saturating_add(entry.line().len());
            if count > 0 && bytes > REALM_PAGE_BYTES {
                break;
            }
            count = count.saturating_add(1);
        }
        let (page, after) = rest.split_at(count);
        pages.push(page);
        rest = after;
    }
    pages
}
