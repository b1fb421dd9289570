//! What a process has of a realm: its lease, the list of all sessions, the shared sessions that it has open, and who is
//! told what other hosts do. Its tasks run on a thread of their own, so that no session's work can delay a renewal.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::failover::{FailoverCandidate, LostSessions};
use super::host_state::{RealmMember, Terms, lock};
use super::shared_journal::{LogPart, SharedLog, Start};
use crate::config::{Share, Takeover};
use crate::limits::{
    REALM_CLOSE, REALM_ENTER, REALM_FIND_WAIT, REALM_LIST_RESTS, REALM_LOOK, REALM_REST, REALM_SESSIONS,
    REALM_WATCH,
};
use crate::message::SessionId;
use crate::realm::rules::{LeaseStanding, LeaseTerms};
use crate::realm::{
    self, Host, HostName, LeaseState, Posted, Realm, RealmError, RealmFilter, RealmHint, RealmHit,
    RealmRequest, RealmSlot, Utterances,
};
use crate::store::{Entry, Header, Journal, StoreError};

/// What other hosts, or the lease, want an engine to know.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The list of the realm's sessions has changed.
    Sessions,
    /// The lease is over: what runs in shared sessions ends now.
    LeaseOver,
    /// A request of another host; with `true` for whoever opens its session. Who takes it answers it with
    /// [`Federation::answer`].
    Posted(Arc<Posted>, bool),
    /// A session is to be deleted: who has it open for other hosts alone lets it go.
    LetGo(SessionId),
    /// The host of a session is lost, and this one takes it without being asked; with `true` for whoever opens it.
    Lost(Arc<FailoverCandidate>, bool),
}

/// What became of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The next one is told too.
    Passed,
    /// The request is taken.
    Taken,
    /// Who listened is gone.
    Gone,
}

type Listener = Box<dyn Fn(&Notice) -> Heard + Send + Sync>;

/// A process in a realm.
pub struct Federation {
    member: Arc<RealmMember>,
    runtime: Mutex<Option<tokio::runtime::Runtime>>,
    logs: Mutex<HashMap<SessionId, OpenLog>>,
    listeners: Mutex<Vec<Listener>>,
    /// Woken where the list may be old, or is to be looked at more often.
    dirty: Arc<Notify>,
    lost: Mutex<LostSessions>,
    /// Locked while a search runs: one host does not search its realm several times at once.
    finding: tokio::sync::Mutex<()>,
    /// When what runs in shared sessions must have ended.
    until: watch::Sender<Option<Duration>>,
}

struct OpenLog {
    part: Weak<LogPart>,
    /// There until its local file is closed.
    open: Weak<()>,
}

impl fmt::Debug for Federation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Federation").field("me", self.realm.me()).finish_non_exhaustive()
    }
}

impl Deref for Federation {
    type Target = RealmMember;

    fn deref(&self) -> &RealmMember {
        &self.member
    }
}

impl Federation {
    /// Enters the realm that `connect` makes, on the runtime that it is given, with the lease of the terms. Where it cannot
    /// be reached, this goes on trying: local sessions are not affected.
    ///
    /// # Errors
    /// If the system refuses a thread, or the realm refuses this process for good.
    pub fn enter(
        connect: impl FnOnce(&tokio::runtime::Handle, LeaseTerms) -> Result<Arc<dyn Realm>, RealmError>,
        terms: Terms,
    ) -> Result<Arc<Self>, RealmError> {
        let refused = |error: io::Error| RealmError::Refused(error.to_string().into());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("realm")
            .enable_all()
            .build()
            .map_err(refused)?;
        let executor = runtime.handle().clone();
        let realm = connect(&executor, terms.lease)?;
        let kept = {
            let _executor = executor.enter();
            realm::keep(realm.clone(), terms.lease)
        };
        let member = Arc::new(RealmMember {
            realm,
            terms,
            executor: executor.clone(),
            kept: kept.clone(),
            away_since: Mutex::default(),
            slots: ArcSwap::default(),
        });
        let federation = Arc::new(Self {
            member,
            runtime: Mutex::new(Some(runtime)),
            logs: Mutex::default(),
            listeners: Mutex::default(),
            dirty: Arc::default(),
            lost: Mutex::default(),
            finding: tokio::sync::Mutex::default(),
            until: watch::Sender::default(),
        });
        let mut kept = kept;
        let entered = async {
            let is_known = |kept: &LeaseState| kept.standing() == LeaseStanding::Held || kept.error.is_some();
            let _ = tokio::time::timeout(REALM_ENTER, kept.wait_for(is_known)).await;
            kept.borrow().error.clone()
        };
        if let Some(error) = executor.block_on(entered).filter(|error| !error.may_pass()) {
            return Err(error);
        }
        let _ = federation.wait_for(federation.refresh());
        executor.spawn(watch_lease(Arc::downgrade(&federation), federation.kept.clone()));
        executor.spawn(follow_hints(Arc::downgrade(&federation)));
        executor.spawn(keep_list(Arc::downgrade(&federation)));
        executor.spawn(take_requests(Arc::downgrade(&federation)));
        Ok(federation)
    }

    /// Wants notices from now on, until it is gone. It must not wait.
    pub fn listen(&self, listener: impl Fn(&Notice) -> Heard + Send + Sync + 'static) {
        lock(&self.listeners).push(Box::new(listener));
    }

    fn tell(&self, notice: &Notice) -> bool {
        let mut is_taken = false;
        lock(&self.listeners).retain(|listener| {
            let heard = if is_taken { Heard::Passed } else { listener(notice) };
            is_taken |= heard == Heard::Taken;
            heard != Heard::Gone
        });
        is_taken
    }

    /// When what runs in a shared session must have ended, on the clock that goes on in sleep; each renewal puts it off. It
    /// comes a little before the lease is over: what is ended then is gone when another host can take the session.
    pub fn lifeline(&self) -> watch::Receiver<Option<Duration>> {
        self.until.subscribe()
    }

    /// Has the engines of this process let a session go that they have open for other hosts alone.
    pub fn let_go(&self, session: &SessionId) {
        self.tell(&Notice::LetGo(session.clone()));
    }

    /// The realm's sessions as they were listed last, the last changed first.
    pub fn sessions(&self) -> Vec<RealmSlot> {
        let mut all: Vec<RealmSlot> = self.slots.load().values().cloned().collect();
        all.sort_by(|a, b| {
            b.changed_ms.cmp(&a.changed_ms).then_with(|| a.header.session.cmp(&b.header.session))
        });
        all
    }

    /// The hosts of the realm.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub async fn hosts(&self) -> Result<Vec<Host>, StoreError> {
        self.realm.hosts().await.map_err(|error| self.refused(&error))
    }

    /// The sessions of other hosts with all words of a text in one message or in their name, at most `most`. Waits for the
    /// engine, at most [`REALM_FIND_WAIT`]: not for a task of an executor.
    ///
    /// # Errors
    /// If the engine does not say it in time.
    pub fn find(&self, text: &str, most: usize) -> Result<Vec<RealmHit>, StoreError> {
        let finding = async {
            let _one = self.finding.lock().await;
            self.realm.find(text, Some(self.host()), most).await
        };
        let found = self.wait_for(async { tokio::time::timeout(REALM_FIND_WAIT, finding).await });
        let late = |_| Err(RealmError::Unreachable("its search did not end in time".into()));
        found.unwrap_or_else(late).map_err(|error| self.refused(&error))
    }

    /// Whether a new session is shared from its first entry.
    pub(super) fn shares(&self, header: &Header) -> bool {
        // A session that works for another one stays with the machine that it works on.
        let is_child = header.parent.as_ref().is_some_and(|parent| parent.entry.is_none());
        match self.terms.share {
            _ if is_child => false,
            Share::None | Share::Ask => false,
            Share::All => true,
            Share::Project => {
                let is_ours = |slot: &RealmSlot| {
                    slot.owner.as_ref().is_some_and(|owner| owner.host == *self.host())
                        && slot.cwd == header.cwd
                };
                self.slots.load().values().any(is_ours)
            }
        }
    }

    /// Shares a session: brings its entries into the realm. Returns its journal from then on.
    ///
    /// # Errors
    /// If this host shares none, or the realm refuses.
    pub async fn share(
        self: &Arc<Self>,
        header: Header,
        entries: Vec<Arc<Entry>>,
        local: Journal,
    ) -> Result<Journal, StoreError> {
        if self.terms.share == Share::None {
            let message = "This host shares no session: its configuration says {:realm {:share :none}}.";
            return Err(StoreError::Realm(message.to_owned()));
        }
        self.may_begin()?;
        let log = SharedLog::shared(&self.member, header, entries, local).await?;
        Ok(self.journal(log))
    }

    /// Takes a session that is open here, in a folder of this machine.
    ///
    /// # Errors
    /// If a living host owns it, or the realm refuses.
    pub async fn take(&self, session: &SessionId, cwd: &Path) -> Result<(), StoreError> {
        self.part(session)?.take(cwd.to_owned()).await?;
        self.dirty.notify_one();
        Ok(())
    }

    /// Gives a session of this host to another one, which lives.
    ///
    /// # Errors
    /// If this host does not own it, there is no such host, or the realm refuses.
    pub async fn give(&self, session: &SessionId, host: &str) -> Result<(), StoreError> {
        let name = HostName::parse(host);
        let name =
            name.ok_or_else(|| StoreError::Realm(format!("There is no host {host:?} in the realm.")))?;
        self.part(session)?.give(name).await?;
        self.dirty.notify_one();
        Ok(())
    }

    fn part(&self, session: &SessionId) -> Result<Arc<LogPart>, StoreError> {
        let part = lock(&self.logs).get(session).and_then(|log| log.part.upgrade());
        part.ok_or_else(|| {
            StoreError::Realm(format!("The session {session} is not shared. /share shares it."))
        })
    }

    /// Waits until a journal of this process is closed that was given up: its task lets the file go.
    pub(super) fn wait_until_closed(&self, session: &SessionId) {
        let is_open = || lock(&self.logs).get(session).is_some_and(|log| log.open.strong_count() > 0);
        let until = Instant::now().checked_add(REALM_CLOSE);
        while is_open() && until.is_some_and(|until| Instant::now() < until) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The journal of a session of the realm from that start.
    pub(super) fn open(&self, start: Start) -> Journal {
        self.journal(SharedLog::start(&self.member, start))
    }

    /// A journal for a new session of this host.
    pub(super) fn create(&self, header: Header, local: Journal) -> Journal {
        self.journal(SharedLog::of_new(&self.member, header, local))
    }

    fn journal(&self, log: SharedLog) -> Journal {
        let mut logs = lock(&self.logs);
        logs.retain(|_, known| known.open.strong_count() > 0);
        let opened = OpenLog { part: Arc::downgrade(log.part()), open: log.part().open() };
        logs.insert(log.part().session().clone(), opened);
        drop(logs);
        self.dirty.notify_one();
        Journal::new(log)
    }

    /// Asks a session's owner for something, and waits for the answer. One who is patient waits while the owner lives,
    /// also while the realm is away for a time.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn post(
        &self,
        session: &SessionId,
        request: &RealmRequest,
        is_patient: impl Fn() -> bool,
    ) -> Result<Arc<str>, StoreError> {
        let mut away = 0..ANSWER_TRIES;
        loop {
            match self.realm.post(session, request).await {
                // Posted again with its id, it waits on.
                Err(RealmError::Unanswered) if is_patient() => away = 0..ANSWER_TRIES,
                Err(error) if is_patient() && error.may_pass() && away.next().is_some() => {
                    sleep(REALM_WATCH).await;
                }
                answer => return answer.map_err(|error| self.refused(&error)),
            }
        }
    }

    /// Answers a request of another host. Returns whether that is its answer: another host may own the session by now. One
    /// who is patient tries it while the realm is away, as the asker waits then.
    pub async fn answer(&self, request: &str, answer: &str, is_patient: bool) -> bool {
        let mut tries = 0..ANSWER_TRIES;
        loop {
            match self.realm.answer(request, answer).await {
                Err(error) if error.may_pass() && (is_patient || tries.next().is_some()) => {
                    sleep(REALM_WATCH).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "a request of another host is not answered");
                    return false;
                }
                Ok(is_kept) => return is_kept,
            }
        }
    }

    /// Tells the hosts that follow a session of this one something that is not kept.
    pub async fn say(&self, session: &SessionId, text: &str) {
        let Some(claim) = self.part(session).ok().and_then(|part| part.claim()) else { return };
        if let Err(error) = self.realm.say(&claim, text).await {
            tracing::debug!(%error, "what is not kept was not said");
        }
    }

    /// What the owner of a session says from now on.
    ///
    /// # Errors
    /// If the realm cannot be reached.
    pub async fn hear(&self, session: &SessionId) -> Result<Utterances, StoreError> {
        self.realm.hear(session).await.map_err(|error| self.refused(&error))
    }

    /// Leaves the realm, so that others can take the sessions at once.
    pub fn leave(&self) {
        if let Err(error) = self.wait_for(self.realm.leave()) {
            tracing::warn!(%error, "the realm was not told that this host leaves");
        }
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }

    /// Lists the sessions again, and tells those whom it concerns.
    async fn refresh(&self) -> Result<(), RealmError> {
        let listed = self.realm.list(&RealmFilter::default(), REALM_SESSIONS).await;
        let is_away = listed.as_ref().is_err_and(RealmError::may_pass);
        self.set_away(is_away);
        let listed = listed?;
        let new: HashMap<_, _> = listed.into_iter().map(|slot| (slot.header.session.clone(), slot)).collect();
        self.take_over(&new);
        let old = self.slots.load_full();
        if *old == new {
            return Ok(());
        }
        let is_new = |id: &SessionId, slot: &RealmSlot| old.get(id).is_none_or(|old| old.owner != slot.owner);
        let moved = new.iter().filter(|(id, slot)| is_new(id, slot));
        let moved: Vec<SessionId> = moved.map(|(id, _)| id.clone()).collect();
        self.slots.store(Arc::new(new));
        for session in &moved {
            self.poke(session);
        }
        self.tell(&Notice::Sessions);
        Ok(())
    }

    /// Takes sessions whose hosts are lost, if that is this host's to decide.
    fn take_over(&self, slots: &HashMap<SessionId, RealmSlot>) {
        if self.terms.takeover != Takeover::Auto || self.standing() != LeaseStanding::Held {
            return;
        }
        let is_open = |session: &SessionId| {
            lock(&self.logs).get(session).is_some_and(|log| log.part.strong_count() > 0)
        };
        let due = lock(&self.lost).due(
            slots.values(),
            self.host(),
            self.terms.lease.lease,
            Instant::now(),
            is_open,
        );
        for lost in due.into_iter().map(Arc::new) {
            tracing::info!(session = %lost.session, "a session is taken, because its host is lost");
            if ![false, true].iter().any(|opens| self.tell(&Notice::Lost(lost.clone(), *opens))) {
                tracing::warn!(session = %lost.session, "nobody here takes a session whose host is lost");
            }
        }
    }

    /// Has the log of a session look for what is new.
    pub fn poke(&self, session: &SessionId) {
        if let Some(part) = lock(&self.logs).get(session).and_then(|log| log.part.upgrade()) {
            part.poke();
        }
    }

    /// How long a list may be old without a hint. A host that is lost changes nothing in the realm: where somebody waits for
    /// that, it is looked for; else the next renewal tells of it.
    fn list_pause(&self) -> Duration {
        let follows = |log: &OpenLog| log.part.upgrade().is_some_and(|part| part.is_theirs());
        let is_awaited = lock(&self.lost).is_waiting() || lock(&self.logs).values().any(follows);
        if is_awaited || self.away_for().is_some() { REALM_WATCH } else { REALM_REST }
    }

    fn poke_all(&self) {
        for part in lock(&self.logs).values().filter_map(|log| log.part.upgrade()) {
            part.poke();
        }
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        if let Some(runtime) = lock(&self.runtime).take() {
            runtime.shutdown_background();
        }
    }
}

/// How often an answer to another host is tried, once a second.
const ANSWER_TRIES: usize = 30;

async fn watch_lease(federation: Weak<Federation>, mut kept: watch::Receiver<LeaseState>) {
    let (mut was_over, mut was_away, mut lapses) = (false, false, kept.borrow().lapses);
    // What holds already is looked at first.
    kept.mark_changed();
    while kept.changed().await.is_ok() {
        let Some(federation) = federation.upgrade() else { return };
        let now = kept.borrow_and_update().clone();
        let early = federation.terms.lease.margin.checked_div(4).unwrap_or_default();
        federation.until.send_replace(now.ends_at().map(|end| end.saturating_sub(early)));
        if let Some(error) = &now.error {
            tracing::warn!(%error, "this host's lease in the realm is not renewed");
        }
        let is_away = now.error.as_ref().is_some_and(RealmError::may_pass);
        federation.set_away(is_away);
        if is_away != std::mem::replace(&mut was_away, is_away) {
            federation.dirty.notify_one();
        }
        let is_over = now.standing() == LeaseStanding::Over;
        // A process that was paused past its lease may hear of the next renewal first.
        let has_lapsed = std::mem::replace(&mut lapses, now.lapses) != now.lapses;
        if has_lapsed {
            federation.tell(&Notice::LeaseOver);
        }
        if is_over != std::mem::replace(&mut was_over, is_over) || has_lapsed {
            federation.poke_all();
        }
    }
}

async fn follow_hints(federation: Weak<Federation>) {
    loop {
        let hints = match federation.upgrade() {
            Some(federation) => federation.realm.watch(None).await,
            None => return,
        };
        if let Ok(mut hints) = hints {
            while let Some(hint) = hints.recv().await {
                let Some(federation) = federation.upgrade() else { return };
                match hint {
                    RealmHint::Session { session, .. } => federation.poke(&session),
                    RealmHint::Anything => federation.poke_all(),
                }
                federation.dirty.notify_one();
            }
        }
        sleep(REALM_WATCH).await;
    }
}

async fn keep_list(federation: Weak<Federation>) {
    loop {
        let begun = Instant::now();
        let (dirty, pause) = {
            let Some(federation) = federation.upgrade() else { return };
            if let Err(error) = federation.refresh().await {
                tracing::debug!(%error, "the sessions of the realm are not listed");
            }
            (federation.dirty.clone(), federation.list_pause())
        };
        let rest = REALM_LOOK.max(begun.elapsed().saturating_mul(REALM_LIST_RESTS));
        let _ = tokio::time::timeout(pause, dirty.notified()).await;
        // Many hints, one list; and of many sessions, whose list takes long, fewer lists.
        sleep(rest).await;
    }
}

async fn take_requests(federation: Weak<Federation>) {
    loop {
        let requests = match federation.upgrade() {
            Some(federation) => federation.realm.requests().await,
            None => return,
        };
        if let Ok(mut requests) = requests {
            while let Some(posted) = requests.recv().await {
                let Some(federation) = federation.upgrade() else { return };
                let posted = Arc::new(posted);
                let taken = [false, true]
                    .iter()
                    .any(|opens| federation.tell(&Notice::Posted(posted.clone(), *opens)));
                if !taken {
                    tracing::warn!(session = %posted.session, "nobody here takes a request of another host");
                }
            }
        }
        sleep(REALM_WATCH).await;
    }
}
