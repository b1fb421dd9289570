//! A realm in NATS JetStream: one stream, in which each subject has one message.
//!
//! The one room that knows the client of NATS. As in PostgreSQL, the row of a session is its fence, its tail and its slot,
//! and an append writes the row and the entries as a unit, if the row is still the one that was read. What must hold of
//! other records, such as that no later run of this host has entered, is checked by a message of the same unit. The
//! server's clock judges leases: by the times of messages and that of its answer. Works with NATS 2.12 and later.

mod address;
mod hints;
mod leases;
mod link;
mod logs;
mod records;
mod requests;
mod stream;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{
    JOURNAL_LINE_BYTES, REALM_ANSWER_WAIT, REALM_FIND_WAIT, REALM_PAGE, REALM_REST, REALM_SESSIONS,
    REALM_SETTLES, REALM_SLOT_BYTES, REALM_SWEEP_PAUSE, REALM_WATCH,
};
use crate::message::SessionId;
use crate::realm::calls::{Hints, Realm, RealmCall, Requests, Utterances};
use crate::realm::check::RealmCheck;
use crate::realm::error::{Doubt, RealmError, settled};
use crate::realm::rules::LeaseTerms;
use crate::realm::subscriptions::{Hint, RealmSubscriptions, woken_or};
use crate::realm::texts::{damaged, lines, text, too_long};
use crate::realm::types::{
    Claim, Host, HostId, HostName, Opened, OwnedBy, RealmFilter, RealmHit, RealmPage, RealmRequest,
    RealmSlot, Tail,
};
use crate::secret::Secret;
use crate::store::{Entry, Header};
use address::Address;
use leases::{HOST_KEPT, as_this_run, is_here, lease, pulse, renew_once};
use link::{Check, EngineLink, Line, OutgoingMessage};
use logs::{excerpt, holds, newest, read_page, row_of, slots};
use records::{AskReply, Lease, Row, Run, json};
use requests::{ANSWER_KEPT, Posting, forward_once, post_once};

/// A realm in NATS JetStream.
pub struct NatsRealm {
    me: HostId,
    build: Arc<str>,
    terms: LeaseTerms,
    way: Arc<EngineLink>,
    /// The way of renewals, which work in sessions must not hold up.
    lease_way: Arc<EngineLink>,
    board: RealmSubscriptions,
    /// Whether this run has entered once.
    has_entered: AtomicBool,
    /// What the last renewal found in the realm.
    pulse: Mutex<String>,
    /// When what nobody needs any more was last removed.
    swept: Mutex<Option<Instant>>,
    end: CancellationToken,
    _end: DropGuard,
}

impl fmt::Debug for NatsRealm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsRealm").field("me", &self.me).finish_non_exhaustive()
    }
}

fn is_fit<'a>(address: &'a Address, line: &'a Line) -> BoxFuture<'a, Result<(), RealmError>> {
    stream::is_fit(address, line).boxed()
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
        let way = Arc::new(EngineLink::new(address.clone(), is_fit));
        let board = hints::start(way.clone(), end.clone());
        Ok(Self {
            me,
            build: build.into(),
            terms,
            way,
            lease_way: Arc::new(EngineLink::new(address, is_fit)),
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
        self.board.tell(Hint::Session(session.clone(), None));
    }

    async fn line(&self) -> Result<Arc<Line>, RealmError> {
        self.way.line().await
    }

    /// Writes the row of a session, and what goes with it, if it is still the one that was read and this run of the host
    /// may do something. `None` if not: what was decided is to be decided anew.
    async fn write(
        &self,
        line: &Line,
        seq: u64,
        row: Row,
        mut with: Vec<OutgoingMessage>,
    ) -> Result<Option<Row>, RealmError> {
        let session = SessionId::from(row.session.as_str());
        with.push(OutgoingMessage::new(records::row(&session), json(&row)?, Check::Last(seq)));
        // Until its answer is there, nobody knows the newest one.
        line.known.forget(&session);
        match line.commit(with).await? {
            Some(seq) => {
                line.known.remember(&session, seq, row.clone());
                Ok(Some(row))
            }
            None => {
                // It may be that another run of this host has entered.
                line.known.set_entered(None);
                Ok(None)
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
            let Some((seq, mut row)) = newest(&line, &claim.session).await? else {
                return Ok(None);
            };
            if row.is_deleted || !row.is_of(claim, &self.me.name) {
                return Ok(None);
            }
            change(&mut row);
            if let Some(row) = self.write(&line, seq, row, Vec::new()).await? {
                return Ok(Some(row));
            }
        }
        Err(just_changed())
    }

    async fn open_now(&self, line: &Line, session: &SessionId) -> Result<Opened, RealmError> {
        let (_, row) = row_of(line, session).await?;
        let owner = match row.owner()? {
            None => None,
            Some(host) => {
                let is_alive = lease(line, &host).await?.is_alive(line.now_ms().await?);
                Some(OwnedBy { host, is_lost: !is_alive })
            }
        };
        Ok(Opened { header: row.header()?, tail: row.tail(), epoch: row.epoch, owner })
    }

    async fn claim_now(&self, session: &SessionId, cwd: &str, known: &Tail) -> Result<Claim, RealmError> {
        let line = self.line().await?;
        for _ in 0..REALM_SETTLES {
            is_here(&line, &self.me).await?;
            let mut with = vec![as_this_run(&line, &self.me).await?];
            // The row comes last: it changes with each append of an owner that is to be replaced.
            let (seq, mut row) = row_of(&line, session).await?;
            if let Some(host) = row.owner()?.filter(|host| *host != self.me.name) {
                let lease = lease(&line, &host).await?;
                if lease.is_alive(line.now_ms().await?) {
                    return Err(RealmError::Held { host });
                }
                // It is not renewed meanwhile.
                let check = Check::Other(records::lease(&host), lease.seq);
                with.push(OutgoingMessage::new(records::touch(&self.me.name, 1), Vec::new(), check));
            }
            if holds(&line, session, &row, known).await?.is_none() {
                continue;
            }
            row.owner = Some(self.me.name.to_string());
            row.epoch = row.epoch.saturating_add(1);
            row.changed_ms = None;
            cwd.clone_into(&mut row.cwd);
            if let Some(row) = self.write(&line, seq, row, with).await? {
                self.changed(session);
                return Ok(Claim { session: session.clone(), epoch: row.epoch, tail: row.tail() });
            }
        }
        Err(just_changed())
    }

    /// Makes up for hints that were lost.
    async fn look_around(&self, line: &Line) -> Result<(), RealmError> {
        let (pulse, are_asked) = pulse(line, &self.me.name).await?;
        let mut known = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != pulse {
            *known = pulse;
            self.board.missed();
        } else if are_asked {
            self.board.wake(&Hint::Request(self.me.name.clone()));
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
        let (way, end) = (self.way.clone(), self.end.clone());
        let sweeping = async move {
            let line = way.line().await?;
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
                remove(&line, &session).await?;
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

impl Realm for NatsRealm {
    fn me(&self) -> &HostId {
        &self.me
    }

    fn renew(&self) -> RealmCall<'_, ()> {
        async {
            let line = self.lease_way.line().await?;
            for _ in 0..REALM_SETTLES {
                let has_entered = self.has_entered.load(Ordering::Acquire);
                if renew_once(&line, &self.me, &self.build, self.terms.lease, has_entered).await? {
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
            let check = match as_this_run(&line, &self.me).await {
                Err(RealmError::NameTaken { .. }) => return Ok(()),
                check => check?,
            };
            let left = Lease { host: self.me.name.to_string(), lease_ms: 0 };
            let mut left = OutgoingMessage::new(records::lease(&self.me.name), json(&left)?, Check::Free);
            left.kept = Some(HOST_KEPT);
            line.commit(vec![check, left]).await.map(drop)
        }
        .boxed()
    }

    fn hosts(&self) -> RealmCall<'_, Vec<Host>> {
        async { leases::hosts(&*self.line().await?).await }.boxed()
    }

    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim> {
        async move {
            let line = self.line().await?;
            let session = &header.session;
            for _ in 0..REALM_SETTLES {
                if newest(&line, session).await?.is_some() {
                    break;
                }
                is_here(&line, &self.me).await?;
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
                let with = vec![as_this_run(&line, &self.me).await?];
                if self.write(&line, 0, row, with).await?.is_some() {
                    self.changed(session);
                    return Ok(Claim { session: session.clone(), epoch: 1, tail: Tail::default() });
                }
            }
            let row = match row_of(&line, session).await {
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
        async move { read_page(&*self.line().await?, session, after, most).await }.boxed()
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
            let line = self.way.aside().await?;
            let besides = besides.map(HostName::as_str);
            let slots = slots(&line, |row| besides.is_none() || besides != row.owner.as_deref()).await?;
            for slot in slots.take(REALM_SESSIONS) {
                if hits.len() >= most {
                    break;
                }
                if let Some(excerpt) = excerpt(&line, &slot.header.session, &words).await? {
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
                return match row_of(&*self.line().await?, &claim.session).await {
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
                    None => newest(&line, &claim.session).await?,
                };
                let Some((seq, mut row)) = known else { return Err(RealmError::InDoubt(Doubt::NoRow)) };
                if row.is_deleted || !row.is_of(claim, &self.me.name) || row.tail() != *after {
                    return Err(RealmError::InDoubt(Doubt::NoRow));
                }
                let numbered = (after.seq.saturating_add(1)..).zip(&lines);
                // Nothing has ever been there.
                let put = |(seq, line): (u64, &String)| {
                    OutgoingMessage::new(records::entry(&claim.session, seq), line.clone().into_bytes(), Check::Last(0))
                };
                let puts = numbered.map(put).collect();
                let tail = after.after(entries.iter().map(|entry| &entry.id));
                (row.tail, row.tail_id) = (tail.seq, Some(last.id.to_string()));
                row.changed_ms = None;
                if let Some(slot) = slot {
                    slot.clone_into(&mut row.slot);
                }
                if self.write(&line, seq, row, puts).await?.is_some() {
                    self.board.tell(Hint::Session(claim.session.clone(), Some(tail.seq)));
                    return Ok(tail);
                }
            }
            let place = after.seq.saturating_add(1);
            let is_taken = line.last(&records::entry(&claim.session, place)).await?.is_some();
            let row = newest(&line, &claim.session).await?;
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
            let found = read_page(&line, &claim.session, known, REALM_PAGE).await;
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
            let mut woken = self.board.wait_for(Hint::Answer(request.id.clone()));
            let end = Instant::now() + REALM_ANSWER_WAIT;
            let mut doubt = None;
            let host = loop {
                let posted = async { post_once(&*self.line().await?, &self.me.name, session, request).await };
                match posted.await {
                    Ok(Some(Posting::To(host))) => break host,
                    Ok(Some(Posting::Answered(answer))) => return Ok(answer),
                    Ok(Some(Posting::Deleted)) => {
                        self.sweep(Some(session.clone()));
                        return Err(doubt.unwrap_or(RealmError::Deleted { session: session.clone() }));
                    }
                    // With its id it is posted once, however often it is tried.
                    Ok(None) if Instant::now() < end => {}
                    Err(error @ RealmError::InDoubt(_)) if Instant::now() < end => doubt = Some(error),
                    // An earlier try may have been carried out, whatever is said of this one.
                    Ok(None) => return Err(doubt.unwrap_or_else(just_changed)),
                    Err(error) => return Err(doubt.unwrap_or(error)),
                }
            };
            let subject = records::answer(session, &request.id);
            let look = || async {
                let found = self.line().await?.last(&subject).await?;
                let answer = found.map(|found| found.record::<AskReply>()).transpose()?;
                Ok(answer.and_then(|found| found.answer).map(Into::into))
            };
            self.board.answered(&host, end, &mut woken, look).await
        }
        .boxed()
    }

    fn requests(&self) -> RealmCall<'_, Requests> {
        async {
            let (to, requests) = mpsc::channel(1);
            let mut woken = self.board.wait_for(Hint::Request(self.me.name.clone()));
            let (way, me, end) = (self.way.clone(), self.me.name.clone(), self.end.clone());
            let forward = async move {
                let mut given: HashSet<u64> = HashSet::new();
                while !to.is_closed() {
                    let pause = match forward_once(&way, &me, &mut given, &to).await {
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
                let known: AskReply = found.record()?;
                if *known.host != *self.me.name.as_str()
                    || known.answer.as_ref().is_some_and(|it| it != answer)
                {
                    return Ok(false);
                }
                // A later run of this host has entered.
                let this_run = match as_this_run(&line, &self.me).await {
                    Err(RealmError::NameTaken { .. }) => return Ok(false),
                    this_run => this_run?,
                };
                let said = AskReply { host: known.host, answer: Some(answer.to_owned()) };
                let mut said = OutgoingMessage::new(found.subject, json(&said)?, Check::Last(found.seq));
                said.kept = Some(ANSWER_KEPT);
                if line.commit(vec![this_run, said]).await?.is_some() {
                    self.board.tell(Hint::Answer(request.into()));
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

/// Removes what is left of a deleted session.
async fn remove(line: &Line, session: &SessionId) -> Result<(), RealmError> {
    // A message that only says so removes nothing of a session that is there.
    if newest(line, session).await?.is_none_or(|(_, row)| !row.is_deleted) {
        return Ok(());
    }
    for filter in records::remains(session) {
        line.purge(&filter).await?;
    }
    if let Some((seq, mut row)) = newest(line, session).await?
        && row.is_deleted
    {
        (row.tail, row.tail_id) = (0, None);
        line.commit(vec![OutgoingMessage::new(records::row(session), json(&row)?, Check::Last(seq))]).await?;
    }
    Ok(())
}

fn just_changed() -> RealmError {
    RealmError::Unreachable("the session has just changed".into())
}
