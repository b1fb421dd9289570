//! A realm in NATS JetStream: one stream, in which each subject has one message.
//!
//! The one room that knows the client of NATS. As in PostgreSQL, the row of a session is its fence, its tail and its slot,
//! and an append writes the row and the entries as a unit, if the row is still the one that was read. What must hold of
//! other records, such as that no later run of this host has entered, is checked by a message of the same unit. The
//! server's clock judges leases: by the times of messages and that of its answer. Works with NATS 2.12 and later.

mod address;
mod hints;
mod link;
mod records;
mod stream;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{
    JOURNAL_LINE_BYTES, REALM_ANSWER_WAIT, REALM_FIND_WAIT, REALM_HOSTS, REALM_PAGE, REALM_PAGE_BYTES,
    REALM_REST, REALM_SESSIONS, REALM_SETTLES, REALM_SLOT_BYTES, REALM_SWEEP_PAUSE, REALM_WAITING,
    REALM_WATCH,
};
use crate::message::SessionId;
use crate::realm::board::{Board, News, woken_or};
use crate::realm::calls::{Hints, Realm, RealmCall, Requests, Utterances};
use crate::realm::check::RealmCheck;
use crate::realm::error::{Doubt, RealmError, settled};
use crate::realm::rules::{LeaseTerms, Stop};
use crate::realm::texts::{damaged, host_name, lines, readable, text, too_long};
use crate::realm::types::{
    Claim, Host, HostId, HostName, Opened, OwnedBy, Posted, RealmFilter, RealmHit, RealmPage, RealmRequest,
    RealmSlot, Tail,
};
use crate::secret::Secret;
use crate::store::{Entry, Header, excerpt_of};
use address::Address;
use link::{Check, Line, Put, Stored, Way};
use records::{Answer, Call, Lease, Row, Run};

/// How long an answer can be asked for again.
const ANSWER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a host that is not there is listed.
const HOST_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A realm in NATS JetStream.
pub struct NatsRealm {
    me: HostId,
    build: Arc<str>,
    terms: LeaseTerms,
    shared: Arc<Shared>,
    /// The way of renewals, which work in sessions must not hold up.
    lease_way: Arc<Way>,
    board: Board,
    /// Whether this run has entered once.
    has_entered: AtomicBool,
    /// What the last renewal found in the realm.
    pulse: Mutex<String>,
    /// When what nobody needs any more was last removed.
    swept: Mutex<Option<Instant>>,
    end: CancellationToken,
    _end: DropGuard,
}

struct Shared {
    way: Arc<Way>,
}

impl fmt::Debug for NatsRealm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsRealm").field("me", &self.me).finish_non_exhaustive()
    }
}

fn is_fit<'a>(address: &'a Address, line: &'a Line) -> BoxFuture<'a, Result<(), RealmError>> {
    stream::is_fit(address, line).boxed()
}

/// What became of a change.
enum Changed<T> {
    Done(T),
    /// Something had changed that the decision came from.
    Anew,
}

impl NatsRealm {
    /// A host of the realm at an address (`nats://…`). Connects when the first call is made, and runs on the runtime that
    /// this is called in.
    ///
    /// # Errors
    /// [`RealmError::Unfit`] if the address cannot be used.
    pub fn new(url: &Secret, me: HostId, build: &str, terms: LeaseTerms) -> Result<Self, RealmError> {
        let address = Address::parse(url.expose())?;
        let end = CancellationToken::new();
        let way = Arc::new(Way::new(address.clone(), is_fit));
        let board = hints::start(way.clone(), end.clone());
        Ok(Self {
            me,
            build: build.into(),
            terms,
            shared: Arc::new(Shared { way }),
            lease_way: Arc::new(Way::new(address, is_fit)),
            board,
            has_entered: AtomicBool::new(false),
            pulse: Mutex::default(),
            swept: Mutex::default(),
            end: end.clone(),
            _end: end.drop_guard(),
        })
    }

    /// Makes the realm's stream, if it is not there.
    ///
    /// # Errors
    /// [`RealmError::Unfit`] if the server is one that does not keep what it acknowledges.
    pub async fn init(url: &Secret) -> Result<(), RealmError> {
        stream::init(&Address::parse(url.expose())?).await
    }

    /// Looks whether a server can be trusted with a realm and has one, and measures it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub async fn check(url: &Secret) -> Result<RealmCheck, RealmError> {
        stream::check(&Address::parse(url.expose())?).await
    }

    fn changed(&self, session: &SessionId) {
        self.board.tell(News::Session(session.clone(), None));
    }

    async fn line(&self) -> Result<Arc<Line>, RealmError> {
        self.shared.way.line().await
    }

    /// The row of a session, and its number. One that was deleted is refused.
    async fn row(&self, line: &Line, session: &SessionId) -> Result<(u64, Row), RealmError> {
        let found = self.shared.newest(line, session).await?;
        let (seq, row) = found.ok_or_else(|| RealmError::NoSession { session: session.clone() })?;
        if row.is_deleted {
            return Err(RealmError::Deleted { session: session.clone() });
        }
        Ok((seq, row))
    }

    /// Writes the row of a session, and what goes with it, if it is still the one that was read and this run of the host
    /// may do something.
    async fn write(
        &self,
        line: &Line,
        seq: u64,
        row: Row,
        mut with: Vec<Put>,
    ) -> Result<Changed<Row>, RealmError> {
        let session = SessionId::from(row.session.as_str());
        with.push(Put::new(records::row(&session), json(&row)?, Check::Last(seq)));
        // Until its answer is there, nobody knows the newest one.
        line.known.forget(&session);
        match line.commit(with).await? {
            Some(seq) => {
                line.known.remember(&session, seq, row.clone());
                Ok(Changed::Done(row))
            }
            None => {
                // It may be that another run of this host has entered.
                line.known.set_entered(None);
                Ok(Changed::Anew)
            }
        }
    }

    /// Changes the row of a session of this host. `None` if its claim counts no more.
    async fn ours(&self, claim: &Claim, change: impl Fn(&mut Row)) -> Result<Option<Row>, RealmError> {
        let changed = |row: &mut Row| {
            row.changed_ms = None;
            change(row);
        };
        self.rewrite(claim, changed).await
    }

    /// Writes the row of a session of this host again. `None` if its claim counts no more.
    async fn rewrite(&self, claim: &Claim, change: impl Fn(&mut Row)) -> Result<Option<Row>, RealmError> {
        let line = self.line().await?;
        for _ in 0..REALM_SETTLES {
            let Some((seq, mut row)) = self.shared.newest(&line, &claim.session).await? else {
                return Ok(None);
            };
            if row.is_deleted || !row.is_of(claim, &self.me.name) {
                return Ok(None);
            }
            change(&mut row);
            if let Changed::Done(row) = self.write(&line, seq, row, Vec::new()).await? {
                return Ok(Some(row));
            }
        }
        Err(just_changed())
    }

    /// A message that is taken only as long as no later run of this host has entered.
    ///
    /// # Errors
    /// If one has, or this run has not entered yet.
    async fn as_this_run(&self, line: &Line) -> Result<Put, RealmError> {
        let subject = records::run(&self.me.name);
        let seq = match line.known.entered() {
            Some(seq) => seq,
            None => {
                let found = line.last(&subject).await?;
                let found =
                    found.ok_or_else(|| RealmError::Unreachable("this host's lease is over".into()))?;
                if *found.of(Run::subject)?.incarnation != *self.me.incarnation.id {
                    return Err(RealmError::NameTaken { host: self.me.name.clone() });
                }
                line.known.set_entered(Some(found.seq));
                found.seq
            }
        };
        Ok(Put::new(records::touch(&self.me.name, 0), Vec::new(), Check::Other(subject, seq)))
    }

    /// Refuses a host that the realm does not count as this run's and alive.
    async fn is_here(&self, line: &Line) -> Result<(), RealmError> {
        let found = line.last(&records::run(&self.me.name)).await?;
        let run = found.map(|found| found.of(Run::subject)).transpose()?;
        let is_this = run.is_some_and(|run| *run.incarnation == *self.me.incarnation.id);
        let is_alive = lease(line, &self.me.name).await?.is_alive(line.now_ms().await?);
        match (is_this, is_alive) {
            (true, true) => Ok(()),
            (false, true) => Err(RealmError::NameTaken { host: self.me.name.clone() }),
            _ => Err(RealmError::Unreachable("this host's lease is over".into())),
        }
    }

    async fn open_now(&self, line: &Line, session: &SessionId) -> Result<Opened, RealmError> {
        let (_, row) = self.row(line, session).await?;
        let owner = match row.owner()? {
            None => None,
            Some(host) => {
                let is_alive = lease(line, &host).await?.is_alive(line.now_ms().await?);
                Some(OwnedBy { host, is_lost: !is_alive })
            }
        };
        Ok(Opened { header: row.header()?, tail: row.tail(), epoch: row.epoch, owner })
    }

    async fn read_page(
        &self,
        line: &Line,
        session: &SessionId,
        after: &Tail,
        most: usize,
    ) -> Result<RealmPage, RealmError> {
        for _ in 0..REALM_SETTLES {
            let (_, row) = self.row(line, session).await?;
            match self.entries(line, session, &row, after, most).await {
                Ok(Some(entries)) => return Ok(RealmPage { entries, tail: row.tail() }),
                // It may have been deleted meanwhile.
                Ok(None) | Err(RealmError::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(damaged(format!("entries of the session {session} are missing or cannot be read")))
    }

    /// Refuses a log that lacks what is known. Returns the number in the stream after that; `None` if there is no entry
    /// where there must be one.
    async fn holds(
        &self,
        line: &Line,
        session: &SessionId,
        row: &Row,
        known: &Tail,
    ) -> Result<Option<u64>, RealmError> {
        let tail = row.tail();
        let mut from = 1;
        let at_known = if known.seq == 0 || known.seq > tail.seq {
            None
        } else if known.seq == tail.seq {
            tail.id.clone()
        } else {
            let Some(found) = line.last(&records::entry(session, known.seq)).await? else { return Ok(None) };
            from = found.seq.saturating_add(1);
            Some(entry(session, &found)?.id.clone())
        };
        match Stop::unless_holds(known, tail.seq, at_known.as_ref()) {
            Some(stop) => Err(stop.error(session)),
            None => Ok(Some(from)),
        }
    }

    /// Entries up to the tail of a row; `None` if there is none where there must be one.
    async fn entries(
        &self,
        line: &Line,
        session: &SessionId,
        row: &Row,
        after: &Tail,
        most: usize,
    ) -> Result<Option<Vec<Arc<Entry>>>, RealmError> {
        let tail = row.tail();
        let Some(from) = self.holds(line, session, row, after).await? else { return Ok(None) };
        let most = most.clamp(1, REALM_PAGE);
        let mut entries = Vec::new();
        if after.seq == tail.seq {
            return Ok(Some(entries));
        }
        let (mut found, _) = line.scan(&records::log(session), from, most, REALM_PAGE_BYTES).await?;
        if found.first().and_then(|first| records::entry_seq(&first.subject))
            != Some(after.seq.saturating_add(1))
        {
            // Another server of the cluster may lack what the leading one has.
            let first = line.last(&records::entry(session, after.seq.saturating_add(1))).await?;
            found = first.into_iter().collect();
        }
        let mut bytes = 0usize;
        for (next, mut stored) in (after.seq.saturating_add(1)..=tail.seq).zip(found.into_iter().take(most)) {
            if records::entry_seq(&stored.subject) != Some(next) {
                break;
            }
            line.complete(&mut stored).await?;
            bytes = bytes.saturating_add(stored.body.len());
            if bytes > REALM_PAGE_BYTES && !entries.is_empty() {
                break;
            }
            entries.push(entry(session, &stored)?);
        }
        Ok((!entries.is_empty()).then_some(entries))
    }

    async fn claim_now(&self, session: &SessionId, cwd: &str, known: &Tail) -> Result<Claim, RealmError> {
        let line = self.line().await?;
        for _ in 0..REALM_SETTLES {
            self.is_here(&line).await?;
            let mut with = vec![self.as_this_run(&line).await?];
            // The row comes last: it changes with each append of an owner that is to be replaced.
            let (seq, mut row) = self.row(&line, session).await?;
            if let Some(host) = row.owner()?.filter(|host| *host != self.me.name) {
                let lease = lease(&line, &host).await?;
                if lease.is_alive(line.now_ms().await?) {
                    return Err(RealmError::Held { host });
                }
                // It is not renewed meanwhile.
                let check = Check::Other(records::lease(&host), lease.seq);
                with.push(Put::new(records::touch(&self.me.name, 1), Vec::new(), check));
            }
            if self.holds(&line, session, &row, known).await?.is_none() {
                continue;
            }
            row.owner = Some(self.me.name.to_string());
            row.epoch = row.epoch.saturating_add(1);
            row.changed_ms = None;
            cwd.clone_into(&mut row.cwd);
            if let Changed::Done(row) = self.write(&line, seq, row, with).await? {
                self.changed(session);
                return Ok(Claim { session: session.clone(), epoch: row.epoch, tail: row.tail() });
            }
        }
        Err(just_changed())
    }

    /// Enters, or stays. Returns whether that is done; if not, something has changed meanwhile.
    async fn renew_once(&self, line: &Line) -> Result<bool, RealmError> {
        let lease_ms = u64::try_from(self.terms.lease.as_millis()).unwrap_or(u64::MAX);
        let record = Lease { host: self.me.name.to_string(), lease_ms };
        let mut renewed = Put::new(records::lease(&self.me.name), json(&record)?, Check::Free);
        renewed.kept = Some(HOST_KEPT);
        match self.as_this_run(line).await {
            Ok(this_run) => {
                let is_done = line.commit(vec![this_run, renewed]).await?.is_some();
                if !is_done {
                    line.known.set_entered(None);
                }
                return Ok(is_done);
            }
            Err(RealmError::NameTaken { .. }) => {}
            // There is no run of that name.
            Err(RealmError::Unreachable(_)) if line.last(&records::run(&self.me.name)).await?.is_none() => {}
            Err(error) => return Err(error),
        }
        let found = line.last(&records::run(&self.me.name)).await?;
        if let Some(run) = found.as_ref().map(|found: &Stored| found.of(Run::subject)).transpose()? {
            let is_later = *run.key == *self.me.key && run.run < self.me.incarnation.run;
            if !is_later {
                let lease = lease(line, &self.me.name).await?;
                if self.has_entered.load(Ordering::Acquire) || lease.is_alive(line.now_ms().await?) {
                    return Err(RealmError::NameTaken { host: self.me.name.clone() });
                }
                // It is not renewed meanwhile.
                renewed.check = Check::Last(lease.seq);
            }
        }
        let check = Check::Last(found.map_or(0, |found| found.seq));
        let entering = Put::new(records::run(&self.me.name), json(&Run::new(&self.me, &self.build))?, check);
        let entered = line.commit(vec![renewed, entering]).await?;
        line.known.set_entered(entered);
        Ok(entered.is_some())
    }

    /// Makes up for hints that were lost.
    async fn look_around(&self, line: &Line) -> Result<(), RealmError> {
        let last = line.last(records::ROWS).await?.map_or(0, |row| row.seq);
        let mut hosts = BTreeMap::new();
        line.each(records::LEASES, |stored| {
            if let Ok(lease) = stored.of(Lease::subject) {
                hosts.insert(lease.host, (stored.time_ms, lease.lease_ms));
            }
        })
        .await?;
        // This host has just renewed its lease: that is now.
        let now = hosts.get(self.me.name.as_str()).map_or(0, |(at, _)| *at);
        let alive = hosts.iter().filter(|(name, (at, lease_ms))| {
            **name != *self.me.name.as_str() && is_alive(*at, *lease_ms, now)
        });
        let pulse = format!("{last} {}", alive.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "));
        let (waiting, _) = line.scan(&records::calls(&self.me.name), 1, 1, 1).await?;
        let mut known = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != pulse {
            *known = pulse;
            self.board.missed();
        } else if !waiting.is_empty() {
            self.board.wake(&News::Request(self.me.name.clone()));
        }
        Ok(())
    }

    /// Removes what is left of deleted sessions, now and then, while this goes on. All else goes by itself.
    fn sweep_if_due(&self) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|swept| swept.elapsed() < REALM_SWEEP_PAUSE) {
            return;
        }
        *swept = Some(Instant::now());
        self.sweep(None);
    }

    /// Removes what is left of a deleted session, or of all.
    fn sweep(&self, session: Option<SessionId>) {
        let (shared, end) = (self.shared.clone(), self.end.clone());
        let sweeping = async move {
            let line = shared.way.line().await?;
            let mut left = Vec::new();
            match session {
                Some(session) => left.push(session),
                None => {
                    line.each(records::ROWS, |stored| match stored.of(Row::subject) {
                        Ok(row) if row.is_deleted && row.tail > 0 => left.push(row.session.as_str().into()),
                        _ => {}
                    })
                    .await?;
                }
            }
            for session in left {
                shared.remove(&line, &session).await?;
            }
            Ok::<_, RealmError>(())
        };
        tokio::spawn(async move {
            if let Some(Err(error)) = end.run_until_cancelled(sweeping).await {
                tracing::debug!(%error, "what nobody needs any more is not removed from the realm yet");
            }
        });
    }
}

impl Shared {
    /// The newest row of a session, by the server that leads the stream, and its number.
    async fn newest(&self, line: &Line, session: &SessionId) -> Result<Option<(u64, Row)>, RealmError> {
        let Some(found) = line.last(&records::row(session)).await? else { return Ok(None) };
        let mut row: Row = found.of(Row::subject)?;
        row.changed_ms.get_or_insert(found.time_ms);
        Ok(Some((found.seq, row)))
    }

    /// Removes what is left of a deleted session.
    async fn remove(&self, line: &Line, session: &SessionId) -> Result<(), RealmError> {
        // A message that only says so removes nothing of a session that is there.
        if self.newest(line, session).await?.is_none_or(|(_, row)| !row.is_deleted) {
            return Ok(());
        }
        for filter in records::remains(session) {
            line.purge(&filter).await?;
        }
        if let Some((seq, mut row)) = self.newest(line, session).await?
            && row.is_deleted
        {
            (row.tail, row.tail_id) = (0, None);
            line.commit(vec![Put::new(records::row(session), json(&row)?, Check::Last(seq))]).await?;
        }
        Ok(())
    }
}

impl Realm for NatsRealm {
    fn me(&self) -> &HostId {
        &self.me
    }

    fn renew(&self) -> RealmCall<'_, ()> {
        async {
            let line = self.lease_way.line().await?;
            for _ in 0..REALM_SETTLES {
                if self.renew_once(&line).await? {
                    self.has_entered.store(true, Ordering::Release);
                    // The lease holds, whatever a look finds, and is renewed in time.
                    let look = tokio::time::timeout(self.terms.lease / 6, self.look_around(&line)).await;
                    if !matches!(look, Ok(Ok(()))) {
                        tracing::debug!("the realm is not looked at this time");
                    }
                    self.sweep_if_due();
                    return Ok(());
                }
            }
            Err(RealmError::Unreachable("another run of this host has just entered".into()))
        }
        .boxed()
    }

    fn leave(&self) -> RealmCall<'_, ()> {
        async {
            let line = self.line().await?;
            let check = match self.as_this_run(&line).await {
                Err(RealmError::NameTaken { .. }) => return Ok(()),
                check => check?,
            };
            let left = Lease { host: self.me.name.to_string(), lease_ms: 0 };
            let mut left = Put::new(records::lease(&self.me.name), json(&left)?, Check::Free);
            left.kept = Some(HOST_KEPT);
            line.commit(vec![check, left]).await.map(drop)
        }
        .boxed()
    }

    fn hosts(&self) -> RealmCall<'_, Vec<Host>> {
        async {
            let line = self.line().await?;
            let (mut runs, mut leases, mut owned) = (BTreeMap::new(), HashMap::new(), HashMap::new());
            line.each(records::RUNS, |stored| {
                if let Some(run) = readable(stored.of(Run::subject), "a host of the realm") {
                    runs.insert(run.host.clone(), run);
                }
            })
            .await?;
            line.each(records::LEASES, |stored| {
                if let Ok(lease) = stored.of(Lease::subject) {
                    leases.insert(lease.host.clone(), (stored.time_ms, lease.lease_ms));
                }
            })
            .await?;
            let mut owners = HashMap::new();
            line.each(records::ROWS, |stored| {
                if let Ok(row) = stored.of(Row::subject) {
                    owners.insert(row.session, row.owner);
                }
            })
            .await?;
            for owner in owners.into_values().flatten() {
                let count: &mut u64 = owned.entry(owner).or_default();
                *count = count.saturating_add(1);
            }
            let now = line.now_ms().await?;
            let host = |(name, run): (String, Run)| {
                let (at, lease_ms) = leases.get(&name).copied().unwrap_or_default();
                let ends = at.saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX));
                Ok(Host {
                    is_alive: is_alive(at, lease_ms, now),
                    lost_ms: now.saturating_sub(ends),
                    sessions: owned.get(&name).copied().unwrap_or(0),
                    name: host_name(&name)?,
                    key: run.key.into(),
                    build: run.build.into(),
                })
            };
            let hosts = runs.into_iter().filter(|(name, _)| leases.contains_key(name)).take(REALM_HOSTS);
            Ok(hosts.filter_map(|run| readable(host(run), "a host of the realm")).collect())
        }
        .boxed()
    }

    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim> {
        async move {
            let line = self.line().await?;
            let session = &header.session;
            for _ in 0..REALM_SETTLES {
                if self.shared.newest(&line, session).await?.is_some() {
                    break;
                }
                self.is_here(&line).await?;
                let row = Row {
                    session: session.to_string(),
                    header: text(header.line())?,
                    cwd: header.cwd.to_string(),
                    owner: Some(self.me.name.to_string()),
                    epoch: 1,
                    tail: 0,
                    tail_id: None,
                    slot: String::new(),
                    is_deleted: false,
                    changed_ms: None,
                };
                let with = vec![self.as_this_run(&line).await?];
                if let Changed::Done(_) = self.write(&line, 0, row, with).await? {
                    self.changed(session);
                    return Ok(Claim { session: session.clone(), epoch: 1, tail: Tail::default() });
                }
            }
            let row = match self.row(&line, session).await {
                Err(RealmError::NoSession { .. }) => return Err(just_changed()),
                row => row?.1,
            };
            if row.header()? == *header {
                self.claim_now(session, &header.cwd, &Tail::default()).await
            } else {
                Err(RealmError::Taken { session: session.clone() })
            }
        }
        .boxed()
    }

    fn open<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Opened> {
        async move { self.open_now(&*self.line().await?, session).await }.boxed()
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: &'a Tail, most: usize) -> RealmCall<'a, RealmPage> {
        async move { self.read_page(&*self.line().await?, session, after, most).await }.boxed()
    }

    fn list<'a>(&'a self, filter: &'a RealmFilter, most: usize) -> RealmCall<'a, Vec<RealmSlot>> {
        async move {
            let line = self.line().await?;
            let host = filter.host.as_ref().map(HostName::as_str);
            let slots = slots(&line, |row| host.is_none() || host == row.owner.as_deref()).await?;
            Ok(slots.take(most.min(REALM_SESSIONS)).collect())
        }
        .boxed()
    }

    /// Nothing there looks into entries: they are read here.
    fn find<'a>(
        &'a self,
        text: &'a str,
        besides: Option<&'a HostName>,
        most: usize,
    ) -> RealmCall<'a, Vec<RealmHit>> {
        let finding = async move {
            let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
            let mut hits = Vec::new();
            if words.is_empty() {
                return Ok(hits);
            }
            let line = self.shared.way.aside().await?;
            let besides = besides.map(HostName::as_str);
            let slots = slots(&line, |row| besides.is_none() || besides != row.owner.as_deref()).await?;
            for slot in slots.take(REALM_SESSIONS) {
                if hits.len() >= most {
                    break;
                }
                if let Some(excerpt) = self.excerpt(&line, &slot.header.session, &words).await? {
                    hits.push(RealmHit { slot, excerpt });
                }
            }
            Ok(hits)
        };
        let late = || RealmError::Unreachable("the search did not end in time".into());
        async move { tokio::time::timeout(REALM_FIND_WAIT, finding).await.unwrap_or_else(|_| Err(late())) }
            .boxed()
    }

    fn claim<'a>(&'a self, session: &'a SessionId, cwd: &'a Path, known: &'a Tail) -> RealmCall<'a, Claim> {
        async move { self.claim_now(session, &cwd.to_string_lossy(), known).await }.boxed()
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async move {
            if self.ours(claim, |row| row.owner = None).await?.is_some() {
                self.changed(&claim.session);
            }
            Ok(())
        }
        .boxed()
    }

    fn hand_over<'a>(&'a self, claim: &'a Claim, host: &'a HostName) -> RealmCall<'a, ()> {
        async move {
            let line = self.line().await?;
            if !lease(&line, host).await?.is_alive(line.now_ms().await?) {
                self.settle(claim, &Tail::default()).await?;
                return Err(RealmError::NoHost { host: host.clone() });
            }
            let given = |row: &mut Row| {
                row.owner = Some(host.to_string());
                row.epoch = row.epoch.saturating_add(1);
            };
            if self.ours(claim, given).await?.is_none() {
                return Err(RealmError::Fenced { session: claim.session.clone() });
            }
            self.changed(&claim.session);
            Ok(())
        }
        .boxed()
    }

    fn delete<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async move {
            // What stays of the row fences every claim off, and keeps a late call from making the session again.
            let deleted = |row: &mut Row| {
                row.is_deleted = true;
                row.owner = None;
                row.epoch = row.epoch.saturating_add(1);
                for text in [&mut row.header, &mut row.cwd, &mut row.slot] {
                    text.clear();
                }
            };
            if self.ours(claim, deleted).await?.is_none() {
                return match self.row(&*self.line().await?, &claim.session).await {
                    Err(RealmError::Deleted { .. }) => Ok(()),
                    Err(error) => Err(error),
                    Ok(_) => Err(RealmError::Fenced { session: claim.session.clone() }),
                };
            }
            self.changed(&claim.session);
            self.sweep(Some(claim.session.clone()));
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
            let lines = lines(entries, slot)?;
            let Some(last) = entries.last() else { return Ok(after.clone()) };
            let line = self.line().await?;
            for _ in 0..REALM_SETTLES {
                let known = match line.known.row(&claim.session) {
                    Some(known) => Some(known),
                    None => self.shared.newest(&line, &claim.session).await?,
                };
                let Some((seq, mut row)) = known else { return Err(RealmError::InDoubt(Doubt::NoRow)) };
                if row.is_deleted || !row.is_of(claim, &self.me.name) || row.tail() != *after {
                    return Err(RealmError::InDoubt(Doubt::NoRow));
                }
                let numbered = (after.seq.saturating_add(1)..).zip(&lines);
                // Nothing has ever been there.
                let put = |(seq, line): (u64, &String)| {
                    Put::new(records::entry(&claim.session, seq), line.clone().into_bytes(), Check::Last(0))
                };
                let puts = numbered.map(put).collect();
                let tail = after.after(entries.iter().map(|entry| &entry.id));
                (row.tail, row.tail_id) = (tail.seq, Some(last.id.to_string()));
                row.changed_ms = None;
                if let Some(slot) = slot {
                    slot.clone_into(&mut row.slot);
                }
                if let Changed::Done(_) = self.write(&line, seq, row, puts).await? {
                    self.board.tell(News::Session(claim.session.clone(), Some(tail.seq)));
                    return Ok(tail);
                }
            }
            let place = after.seq.saturating_add(1);
            let is_taken = line.last(&records::entry(&claim.session, place)).await?.is_some();
            let row = self.shared.newest(&line, &claim.session).await?;
            // An append writes the row as well.
            if is_taken && row.is_some_and(|(_, row)| row.tail() == *after) {
                return Err(damaged(format!(
                    "in the session {}, the place of entry {place} has a message that no host of the realm wrote",
                    claim.session
                )));
            }
            Err(just_changed())
        }
        .boxed()
    }

    fn settle<'a>(&'a self, claim: &'a Claim, known: &'a Tail) -> RealmCall<'a, RealmPage> {
        async move {
            let line = self.line().await?;
            // The row is written again as it is. That takes the place of what is still under way, and is answered by as many
            // servers as an append: what is found then is on all of them.
            let is_ours = self.rewrite(claim, |_| ()).await?.is_some();
            let found = self.read_page(&line, &claim.session, known, REALM_PAGE).await;
            settled(claim, known, is_ours, found)
        }
        .boxed()
    }

    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints> {
        self.board.watch(session)
    }

    fn slot<'a>(&'a self, claim: &'a Claim, slot: &'a str) -> RealmCall<'a, ()> {
        async move {
            too_long(slot.len(), REALM_SLOT_BYTES)?;
            if self.ours(claim, |row| slot.clone_into(&mut row.slot)).await?.is_none() {
                return Err(RealmError::Fenced { session: claim.session.clone() });
            }
            self.changed(&claim.session);
            Ok(())
        }
        .boxed()
    }

    fn say<'a>(&'a self, claim: &'a Claim, text: &'a str) -> RealmCall<'a, ()> {
        self.board.say(&claim.session, text)
    }

    fn hear<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Utterances> {
        self.board.hear(session)
    }

    fn post<'a>(&'a self, session: &'a SessionId, request: &'a RealmRequest) -> RealmCall<'a, Arc<str>> {
        async move {
            too_long(request.call.len(), JOURNAL_LINE_BYTES)?;
            let mut woken = self.board.wait_for(News::Answer(request.id.clone()));
            let end = Instant::now() + REALM_ANSWER_WAIT;
            let mut doubt = None;
            let host = loop {
                match self.post_once(session, request).await {
                    Ok(Changed::Done(Ok(host))) => break host,
                    Ok(Changed::Done(Err(answer))) => return Ok(answer),
                    // With its id it is posted once, however often it is tried.
                    Ok(Changed::Anew) if Instant::now() < end => {}
                    Err(error @ RealmError::InDoubt(_)) if Instant::now() < end => doubt = Some(error),
                    // An earlier try may have been carried out, whatever is said of this one.
                    Ok(Changed::Anew) => return Err(doubt.unwrap_or_else(just_changed)),
                    Err(error) => return Err(doubt.unwrap_or(error)),
                }
            };
            let subject = records::answer(session, &request.id);
            let look = || async {
                let found = self.line().await?.last(&subject).await?;
                let answer = found.map(|found| found.record::<Answer>()).transpose()?;
                Ok(answer.and_then(|found| found.answer).map(Into::into))
            };
            self.board.answered(&host, end, &mut woken, look).await
        }
        .boxed()
    }

    fn requests(&self) -> RealmCall<'_, Requests> {
        async {
            let (to, requests) = mpsc::channel(1);
            let mut woken = self.board.wait_for(News::Request(self.me.name.clone()));
            let (shared, me, end) = (self.shared.clone(), self.me.name.clone(), self.end.clone());
            let forward = async move {
                let mut given: HashSet<u64> = HashSet::new();
                while !to.is_closed() {
                    let pause = match forward_once(&shared.way, &me, &mut given, &to).await {
                        Ok(()) => REALM_REST,
                        Err(_) => REALM_WATCH,
                    };
                    woken_or(&mut woken, pause).await;
                }
            };
            tokio::spawn(async move { end.run_until_cancelled(forward).await });
            Ok(requests)
        }
        .boxed()
    }

    fn answer<'a>(&'a self, request: &'a str, answer: &'a str) -> RealmCall<'a, bool> {
        async move {
            too_long(answer.len(), JOURNAL_LINE_BYTES)?;
            let line = self.line().await?;
            for _ in 0..REALM_SETTLES {
                let Some(found) = line.last(&records::answer_of(request)).await? else { return Ok(false) };
                let known: Answer = found.record()?;
                if *known.host != *self.me.name.as_str()
                    || known.answer.as_ref().is_some_and(|it| it != answer)
                {
                    return Ok(false);
                }
                // A later run of this host has entered.
                let this_run = match self.as_this_run(&line).await {
                    Err(RealmError::NameTaken { .. }) => return Ok(false),
                    this_run => this_run?,
                };
                let said = Answer { host: known.host, answer: Some(answer.to_owned()) };
                let mut said = Put::new(found.subject, json(&said)?, Check::Last(found.seq));
                said.kept = Some(ANSWER_KEPT);
                if line.commit(vec![this_run, said]).await?.is_some() {
                    self.board.tell(News::Answer(request.into()));
                    return Ok(true);
                }
                let entered = line.last(&records::run(&self.me.name)).await?;
                let run = entered.map(|entered| entered.of(Run::subject)).transpose()?;
                if run.is_none_or(|run| *run.incarnation != *self.me.incarnation.id) {
                    return Ok(false);
                }
            }
            Err(just_changed())
        }
        .boxed()
    }
}

impl NatsRealm {
    /// Posts a request to the owner of a session: which host that is, or the answer that is there already.
    async fn post_once(
        &self,
        session: &SessionId,
        request: &RealmRequest,
    ) -> Result<Changed<Result<HostName, Arc<str>>>, RealmError> {
        let line = self.line().await?;
        let (_, row) = self.row(&line, session).await?;
        let Some(host) = row.owner()? else {
            return Err(RealmError::OwnerLost { host: host_name("nobody")? });
        };
        if !lease(&line, &host).await?.is_alive(line.now_ms().await?) {
            return Err(RealmError::OwnerLost { host });
        }
        let subject = records::answer(session, &request.id);
        let found = line.last(&subject).await?;
        let known = found.as_ref().map(Stored::record::<Answer>).transpose()?;
        if let Some(answer) = known.and_then(|known| known.answer) {
            return Ok(Changed::Done(Err(answer.into())));
        }
        let call = Call {
            id: request.id.to_string(),
            session: session.to_string(),
            asker: self.me.name.to_string(),
            call: request.call.to_string(),
        };
        let mut call = Put::new(records::call(session, &host, &request.id), json(&call)?, Check::Free);
        call.kept = Some(REALM_ANSWER_WAIT);
        let asked = Answer { host: host.to_string(), answer: None };
        let mut asked = Put::new(subject, json(&asked)?, Check::Last(found.map_or(0, |found| found.seq)));
        asked.kept = Some(ANSWER_KEPT);
        if line.commit(vec![call, asked]).await?.is_none() {
            return Ok(Changed::Anew);
        }
        // The session may have been deleted meanwhile, with what it had then.
        match self.row(&line, session).await {
            Err(error @ RealmError::Deleted { .. }) => {
                self.sweep(Some(session.clone()));
                Err(error)
            }
            _ => Ok(Changed::Done(Ok(host))),
        }
    }

    /// The part of a session's first entry that has all the words.
    async fn excerpt(
        &self,
        line: &Line,
        session: &SessionId,
        words: &[String],
    ) -> Result<Option<String>, RealmError> {
        let mut at = Tail::default();
        loop {
            let page = match self.read_page(line, session, &at, REALM_PAGE).await {
                // One that cannot be read hides no other.
                Err(RealmError::NoSession { .. } | RealmError::Deleted { .. } | RealmError::Damaged(_)) => {
                    return Ok(None);
                }
                page => page?,
            };
            let excerpt = page.entries.iter().find_map(|entry| excerpt_of(entry, words));
            at = at.after(page.entries.iter().map(|entry| &entry.id));
            if excerpt.is_some() || page.entries.is_empty() || at.seq >= page.tail.seq {
                return Ok(excerpt);
            }
        }
    }
}

/// What lists show of the sessions that are wanted, the last changed first.
async fn slots<W: Fn(&Row) -> bool>(
    line: &Line,
    is_wanted: W,
) -> Result<impl Iterator<Item = RealmSlot> + use<W>, RealmError> {
    let mut rows = HashMap::new();
    line.each(records::ROWS, |stored| {
        if let Some(row) = readable(stored.of(Row::subject), "a session of the realm") {
            let changed_ms = row.changed_ms.unwrap_or(stored.time_ms);
            rows.insert(row.session.clone(), (changed_ms, stored.seq, row));
        }
    })
    .await?;
    let mut leases = HashMap::new();
    line.each(records::LEASES, |stored| {
        if let Ok(lease) = stored.of(Lease::subject) {
            leases.insert(lease.host, (stored.time_ms, lease.lease_ms));
        }
    })
    .await?;
    let now = line.now_ms().await?;
    let mut rows: Vec<_> =
        rows.into_values().filter(|(_, _, row)| !row.is_deleted && is_wanted(row)).collect();
    rows.sort_by_key(|(changed_ms, seq, _)| std::cmp::Reverse((*changed_ms, *seq)));
    let slot = move |(changed_ms, _, row): (i64, _, Row)| {
        let owner = row.owner()?.map(|host| {
            let (at, lease_ms) = leases.get(host.as_str()).copied().unwrap_or_default();
            OwnedBy { host, is_lost: !is_alive(at, lease_ms, now) }
        });
        Ok(RealmSlot {
            header: row.header()?,
            owner,
            cwd: row.cwd.as_str().into(),
            tail: row.tail,
            text: row.slot.as_str().into(),
            changed_ms,
        })
    };
    Ok(rows.into_iter().filter_map(move |row: (i64, u64, Row)| readable(slot(row), "a session of the realm")))
}

/// Gives on the requests to a host that are not answered. `given` has the numbers of those that were looked at.
async fn forward_once(
    way: &Way,
    me: &HostName,
    given: &mut HashSet<u64>,
    to: &mpsc::Sender<Posted>,
) -> Result<(), RealmError> {
    let line = way.line().await?;
    let (mut from, mut open) = (Some(1), HashSet::new());
    // Those that are answered are there for as long as anybody waits for an answer.
    while let Some(seq) = from
        && open.len() < REALM_WAITING.saturating_mul(16)
    {
        // One page at a time: many large ones together would not fit in memory.
        let (found, next) = line.scan(&records::calls(me), seq, REALM_WAITING, REALM_PAGE_BYTES).await?;
        from = next;
        for stored in found {
            let seq = stored.seq;
            open.insert(seq);
            if given.contains(&seq) {
                continue;
            }
            let posted = match posted(&line, me, stored).await {
                // One that cannot be read holds up no other.
                Err(RealmError::Damaged(_)) => None,
                posted => posted?,
            };
            if let Some(posted) = posted
                && to.send(posted).await.is_err()
            {
                return Ok(());
            }
            given.insert(seq);
        }
    }
    given.retain(|seq| open.contains(seq));
    Ok(())
}

/// A request to a host, unless it is answered or another host's.
async fn posted(line: &Line, me: &HostName, mut stored: Stored) -> Result<Option<Posted>, RealmError> {
    line.complete(&mut stored).await?;
    let call: Call = stored.record()?;
    let (session, from) = (SessionId::from(call.session.as_str()), host_name(&call.asker)?);
    let Some(asked) = line.last(&records::answer(&session, &call.id)).await? else { return Ok(None) };
    let asked: Answer = asked.record()?;
    let is_open = *asked.host == *me.as_str() && asked.answer.is_none();
    let request = RealmRequest { id: call.id.into(), call: call.call.into() };
    Ok(is_open.then_some(Posted { session, from, request }))
}

/// A host's lease as it is in the stream: its number, when it was renewed, and for how long.
#[derive(Default)]
struct Held {
    seq: u64,
    at: i64,
    lease_ms: u64,
}

impl Held {
    fn is_alive(&self, now: i64) -> bool {
        is_alive(self.at, self.lease_ms, now)
    }
}

/// The lease of a host; one that is over if there is none.
async fn lease(line: &Line, host: &HostName) -> Result<Held, RealmError> {
    let Some(found) = line.last(&records::lease(host)).await? else { return Ok(Held::default()) };
    let lease = found.of(Lease::subject)?;
    Ok(Held { seq: found.seq, at: found.time_ms, lease_ms: lease.lease_ms })
}

fn is_alive(at: i64, lease_ms: u64, now: i64) -> bool {
    now < at.saturating_add(i64::try_from(lease_ms).unwrap_or(i64::MAX))
}

fn entry(session: &SessionId, stored: &Stored) -> Result<Arc<Entry>, RealmError> {
    let entry = Entry::read(&stored.body).map(Arc::new);
    entry.ok_or_else(|| damaged(format!("an entry of the session {session} cannot be read")))
}

fn json(record: &impl Serialize) -> Result<Vec<u8>, RealmError> {
    serde_json::to_vec(record).map_err(damaged)
}

fn just_changed() -> RealmError {
    RealmError::Unreachable("the session has just changed".into())
}
