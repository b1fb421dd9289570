//! A realm in PostgreSQL: the schema `edn_bridge` of a database, each row of which belongs to the role that made it.
//!
//! The one room that knows the client of PostgreSQL. The row of a session is its fence, its tail and its slot, and an
//! append is one statement that changes it and adds the entries, so that a takeover and an append exclude each other by
//! the lock of that row. Only the engine's clock judges leases. Works with PostgreSQL 13 and later.

mod config;
mod hints;
mod link;
mod schema;
mod tls;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::{
    JOURNAL_LINE_BYTES, REALM_ANSWER_WAIT, REALM_FIND_BYTES, REALM_FIND_ENTRIES, REALM_FIND_ROWS,
    REALM_FIND_WAIT, REALM_HOSTS, REALM_PAGE, REALM_PAGE_BYTES, REALM_REST, REALM_SESSIONS, REALM_SETTLES,
    REALM_SLOT_BYTES, REALM_SWEEP, REALM_SWEEP_PAUSE, REALM_WAITING, REALM_WATCH,
};
use crate::message::{EntryId, SessionId};
use crate::realm::calls::{Hints, Realm, RealmCall, Requests, Utterances};
use crate::realm::check::RealmCheck;
use crate::realm::error::{Doubt, RealmError, settled};
use crate::realm::rules::{LeaseTerms, LogConflict};
use crate::realm::subscriptions::{Hint, RealmSubscriptions, woken_or};
use crate::realm::texts::{damaged, header, host_name, lines, readable, text, too_long};
use crate::realm::types::{
    Claim, Host, HostId, HostName, Opened, OwnedBy, Posted, RealmFilter, RealmHit, RealmPage, RealmRequest,
    RealmSlot, Tail,
};
use crate::secret::Secret;
use crate::store::{Entry, Header, excerpt_of};
use config::Address;
use link::{Kind, Link, Pool};

/// Fence, place and slot are one step: no row of the session, no entries.
const APPEND: &str = "WITH s AS (\
       UPDATE edn_bridge.session SET tail = tail + $7, tail_id = $8, slot = coalesce($9, slot), \
         changed = clock_timestamp() \
       WHERE member = current_user AND id = $1 AND owner = $2 AND epoch = $3 AND tail = $4 \
         AND tail_id IS NOT DISTINCT FROM $5 \
       RETURNING tail) \
     INSERT INTO edn_bridge.entry (session, seq, id, epoch, line) \
     SELECT $1, $4 + e.n, e.id, $3, e.line FROM s, \
       unnest($6::text[], $10::text[]) WITH ORDINALITY AS e (id, line, n)";

/// The lock waits for an append of this owner that is under way. It also makes this a write, which a synchronous standby
/// has when the answer comes: what is found then is on the standby too.
const SETTLE: &str = "SELECT owner IS NOT DISTINCT FROM $2 AND epoch = $3 FROM edn_bridge.session \
     WHERE member = current_user AND id = $1 FOR UPDATE";

/// The entry at the known place comes along without its line, so that it can be compared.
const READ: &str = "SELECT s.tail, s.tail_id, e.seq, e.id, e.line, s.deleted FROM edn_bridge.session s LEFT JOIN LATERAL (\
       SELECT seq, id, CASE WHEN seq > $2 THEN line ELSE '' END AS line, \
         sum(CASE WHEN seq > $2 THEN octet_length(line) ELSE 0 END) OVER (ORDER BY seq) AS bytes \
       FROM edn_bridge.entry WHERE member = current_user AND session = s.id AND seq BETWEEN $2 AND $2 + $3) e \
       ON e.bytes <= $4 OR e.seq <= $2 + 1 \
     WHERE s.member = current_user AND s.id = $1 ORDER BY e.seq";

const OPEN: &str = "SELECT s.header, s.tail, s.tail_id, s.epoch, s.owner, \
       coalesce(h.until > clock_timestamp(), false), s.deleted \
     FROM edn_bridge.session s LEFT JOIN edn_bridge.host h ON h.member = current_user AND h.name = s.owner \
     WHERE s.member = current_user AND s.id = $1";

const CREATE: &str = "INSERT INTO edn_bridge.session (id, header, cwd, owner, epoch) \
     SELECT $1, $2, $3, $4, 1 FROM edn_bridge.host h \
       WHERE h.member = current_user AND h.name = $4 AND h.incarnation = $5 AND h.until > clock_timestamp() \
     ON CONFLICT (member, id) DO NOTHING";

const CLAIM: &str = "UPDATE edn_bridge.session s SET owner = $2, epoch = epoch + 1, cwd = $4, \
       changed = clock_timestamp() \
     WHERE s.member = current_user AND s.id = $1 AND NOT s.deleted \
       AND (s.owner IS NULL OR s.owner = $2 OR NOT EXISTS (SELECT 1 FROM edn_bridge.host h \
         WHERE h.member = current_user AND h.name = s.owner AND h.until > clock_timestamp())) \
       AND EXISTS (SELECT 1 FROM edn_bridge.host h WHERE h.member = current_user AND h.name = $2 \
         AND h.incarnation = $3 AND h.until > clock_timestamp()) \
       AND s.tail >= $5 AND ($5 = 0 OR EXISTS (SELECT 1 FROM edn_bridge.entry e \
         WHERE e.member = current_user AND e.session = s.id AND e.seq = $5 AND e.id = $6)) \
     RETURNING epoch, tail, tail_id";

const RELEASE: &str = "UPDATE edn_bridge.session SET owner = NULL, changed = clock_timestamp() \
     WHERE member = current_user AND id = $1 AND owner = $2 AND epoch = $3";

const HAND_OVER: &str = "UPDATE edn_bridge.session SET owner = $4, epoch = epoch + 1, changed = clock_timestamp() \
     WHERE member = current_user AND id = $1 AND owner = $2 AND epoch = $3 \
       AND EXISTS (SELECT 1 FROM edn_bridge.host h WHERE h.member = current_user AND h.name = $4 \
         AND h.until > clock_timestamp())";

/// What stays of the row fences every claim off, and keeps a late call from making the session again. `tail` counts the
/// entries that the sweep has yet to remove.
const DELETE: &str = "WITH s AS (UPDATE edn_bridge.session SET deleted = true, owner = NULL, epoch = epoch + 1, \
       header = '', cwd = '', slot = '', changed = clock_timestamp() \
       WHERE member = current_user AND id = $1 AND owner = $2 AND epoch = $3 RETURNING id), \
     r AS (DELETE FROM edn_bridge.request USING s WHERE member = current_user AND session = s.id) \
     SELECT id FROM s";

const SLOT: &str = "UPDATE edn_bridge.session SET slot = $4, changed = clock_timestamp() \
     WHERE member = current_user AND id = $1 AND owner = $2 AND epoch = $3";

const LIST: &str = "SELECT s.header, s.owner, coalesce(h.until > clock_timestamp(), false), s.cwd, s.tail, s.slot, \
       (extract(epoch FROM s.changed) * 1000)::bigint, s.id \
     FROM edn_bridge.session s LEFT JOIN edn_bridge.host h ON h.member = current_user AND h.name = s.owner \
     WHERE s.member = current_user AND NOT s.deleted AND ($1::text IS NULL OR s.owner = $1) \
     ORDER BY s.changed DESC, s.id LIMIT $2";

/// The sessions of a list, each with the newest entries whose lines have the words: those may be elsewhere in the line than
/// in what was said. The quick look at a line comes before the exact one.
const FIND: &str = "SELECT s.header, s.owner, coalesce(h.until > clock_timestamp(), false), s.cwd, s.tail, s.slot, \
       (extract(epoch FROM s.changed) * 1000)::bigint, s.id, e.line \
     FROM edn_bridge.session s LEFT JOIN edn_bridge.host h ON h.member = current_user AND h.name = s.owner \
       CROSS JOIN LATERAL (SELECT line, seq FROM edn_bridge.entry \
         WHERE member = current_user AND session = s.id AND octet_length(line) <= $4::bigint \
           AND lower(line) LIKE ALL ($2::text[]) AND lower(line) ~ ALL ($3::text[]) \
         ORDER BY seq DESC LIMIT $5) e \
     WHERE s.member = current_user AND NOT s.deleted AND ($1::text IS NULL OR s.owner IS DISTINCT FROM $1) \
     ORDER BY s.changed DESC, s.id, e.seq DESC LIMIT $6";

/// A later run of this host takes its name at once, also at an engine that was set back to an earlier one; whoever else
/// enters does after the lease. A run that was followed by another one never comes back, nor does a statement that it sent
/// before its end.
///
/// The same round trip says what a hint may not have told: a text that is another one if any session has changed or another
/// host is there, and how many requests wait.
const RENEW: &str = "WITH r AS (INSERT INTO edn_bridge.host AS h (name, key, incarnation, build, until, run) \
     VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $7) \
     ON CONFLICT (member, name) DO UPDATE SET key = excluded.key, incarnation = excluded.incarnation, \
       build = excluded.build, until = excluded.until, run = excluded.run \
     WHERE (h.key = excluded.key AND (h.run < excluded.run OR h.incarnation = excluded.incarnation)) \
       OR ($6 AND h.until <= clock_timestamp()) \
     RETURNING 1) \
     SELECT (SELECT count(*) FROM r), \
       (SELECT concat(count(*), ' ', sum((extract(epoch FROM changed) * 1000000)::bigint)) FROM edn_bridge.session \
         WHERE member = current_user) || ' ' || \
       (SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM edn_bridge.host \
         WHERE member = current_user AND name <> $1 AND until > clock_timestamp()), \
       (SELECT count(*) FROM edn_bridge.request \
         WHERE member = current_user AND host = $1 AND answer IS NULL AND expires > clock_timestamp())";

const LEAVE: &str = "UPDATE edn_bridge.host SET until = clock_timestamp() \
     WHERE member = current_user AND name = $1 AND incarnation = $2 AND until > clock_timestamp()";

const HOSTS: &str = "SELECT h.name, h.key, h.build, h.until > clock_timestamp(), \
       (extract(epoch FROM clock_timestamp() - h.until) * 1000)::bigint, \
       (SELECT count(*) FROM edn_bridge.session s WHERE s.member = current_user AND s.owner = h.name) \
     FROM edn_bridge.host h WHERE h.member = current_user ORDER BY h.name LIMIT $1";

/// Posted again, it goes to whoever owns the session now.
const POST: &str = "INSERT INTO edn_bridge.request AS r (id, session, host, asker, call, expires) \
     SELECT $1, $2, s.owner, $3, $4, clock_timestamp() + make_interval(secs => $5) \
     FROM edn_bridge.session s JOIN edn_bridge.host h ON h.member = current_user AND h.name = s.owner \
     WHERE s.member = current_user AND s.id = $2 AND h.until > clock_timestamp() \
     ON CONFLICT (member, id) DO UPDATE SET host = excluded.host, expires = excluded.expires \
     RETURNING host, answer";

const ANSWERED: &str = "SELECT answer FROM edn_bridge.request WHERE member = current_user AND id = $1";

const REQUESTS: &str = "SELECT id FROM edn_bridge.request \
     WHERE member = current_user AND host = $1 AND answer IS NULL AND expires > clock_timestamp() \
     ORDER BY at, id LIMIT $2";

/// One at a time: many large ones together would not fit in memory.
const REQUEST: &str = "SELECT session, asker, call FROM edn_bridge.request \
     WHERE member = current_user AND id = $1 AND octet_length(call) <= $2";

/// Not by a host that it was taken from: what that says is no answer of the owner. The same answer again is one whose own
/// answer was lost.
const ANSWER: &str = "UPDATE edn_bridge.request r SET answer = $2 \
     WHERE r.member = current_user AND r.id = $1 AND r.host = $3 AND (r.answer IS NULL OR r.answer = $2) \
       AND EXISTS (SELECT 1 FROM edn_bridge.host h WHERE h.member = current_user AND h.name = $3 \
         AND h.incarnation = $4)";

/// What nobody needs any more, a bounded number of rows of each: requests long after anybody could ask for the answer
/// again, entries of deleted sessions, and hosts that were not there for a month and own nothing.
const SWEEP: [&str; 4] = [
    "DELETE FROM edn_bridge.request WHERE member = current_user AND id IN (SELECT id FROM edn_bridge.request \
       WHERE member = current_user AND expires < clock_timestamp() - interval '1 day' LIMIT $1)",
    "DELETE FROM edn_bridge.entry WHERE member = current_user AND (session, seq) IN (\
       SELECT e.session, e.seq FROM edn_bridge.session s JOIN edn_bridge.entry e \
         ON e.member = current_user AND e.session = s.id \
       WHERE s.member = current_user AND s.deleted AND s.tail > 0 LIMIT $1)",
    "UPDATE edn_bridge.session s SET tail = 0, tail_id = NULL WHERE s.member = current_user AND s.id IN (\
       SELECT d.id FROM edn_bridge.session d WHERE d.member = current_user AND d.deleted AND d.tail > 0 AND NOT EXISTS (\
         SELECT 1 FROM edn_bridge.entry e WHERE e.member = current_user AND e.session = d.id) LIMIT $1)",
    "DELETE FROM edn_bridge.host WHERE member = current_user AND name IN (SELECT h.name FROM edn_bridge.host h \
       WHERE h.member = current_user AND h.until < clock_timestamp() - interval '30 days' AND NOT EXISTS (\
         SELECT 1 FROM edn_bridge.session s WHERE s.member = current_user AND s.owner = h.name) LIMIT $1)",
];

/// A realm in PostgreSQL.
pub struct PostgresRealm {
    me: HostId,
    build: Arc<str>,
    terms: LeaseTerms,
    shared: Arc<Shared>,
    board: RealmSubscriptions,
    /// Whether this run has entered once.
    has_entered: AtomicBool,
    /// What the last renewal said of the realm.
    pulse: Mutex<String>,
    /// When what nobody needs any more was last removed.
    swept: Mutex<Option<Instant>>,
    end: CancellationToken,
    _end: DropGuard,
}

struct Shared {
    pool: Pool,
    /// Whoever removes what nobody needs any more.
    sweeping: tokio::sync::Mutex<()>,
}

impl fmt::Debug for PostgresRealm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresRealm").field("me", &self.me).finish_non_exhaustive()
    }
}

fn is_fit(link: &mut Link) -> futures_util::future::BoxFuture<'_, Result<(), RealmError>> {
    async { schema::is_ready(link).await.map(drop) }.boxed()
}

impl PostgresRealm {
    /// A host of the realm at an address (`postgres://…`). Connects when the first call is made, and runs on the runtime
    /// that this is called in.
    ///
    /// # Errors
    /// [`RealmError::Unfit`] if the address cannot be used.
    pub fn new(url: &Secret, me: HostId, build: &str, terms: LeaseTerms) -> Result<Self, RealmError> {
        let address = Address::parse(url.expose())?;
        let end = CancellationToken::new();
        let board = hints::start(address.clone(), end.clone());
        let shared =
            Arc::new(Shared { pool: Pool::new(address, is_fit), sweeping: tokio::sync::Mutex::default() });
        Ok(Self {
            me,
            build: build.into(),
            terms,
            shared,
            board,
            has_entered: AtomicBool::new(false),
            pulse: Mutex::default(),
            swept: Mutex::default(),
            end: end.clone(),
            _end: end.drop_guard(),
        })
    }

    /// Makes the realm's tables in a database, or brings them up to date, and lets roles use them, each for its own
    /// sessions. Made again, it changes nothing.
    ///
    /// # Errors
    /// [`RealmError::Unfit`] if the engine is one that does not keep what it acknowledges.
    pub async fn init(url: &Secret, grant: &[&str]) -> Result<(), RealmError> {
        schema::init(&Address::parse(url.expose())?, grant).await.map(drop)
    }

    /// Looks whether an engine can be trusted with a realm and has one, and measures it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub async fn check(url: &Secret) -> Result<RealmCheck, RealmError> {
        let address = Address::parse(url.expose())?;
        let check = schema::check(&address).await?;
        hints::probe(&address).await?;
        Ok(check)
    }

    /// Where the engine is, without user and password.
    pub fn place(&self) -> Arc<str> {
        self.pool().address().name()
    }

    fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    fn name(&self) -> &str {
        self.me.name.as_str()
    }

    fn changed(&self, session: &SessionId) {
        self.board.tell(Hint::Session(session.clone(), None));
    }

    /// Makes up for hints that were lost.
    fn heard(&self, pulse: &str, has_requests: bool) {
        let mut known = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != *pulse {
            pulse.clone_into(&mut known);
            self.board.missed();
        } else if has_requests {
            self.board.wake(&Hint::Request(self.me.name.clone()));
        }
    }

    /// Removes what nobody needs any more, now and then, while this goes on. The next time removes what is left.
    fn sweep_if_due(&self) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|swept| swept.elapsed() < REALM_SWEEP_PAUSE) {
            return;
        }
        *swept = Some(Instant::now());
        self.sweep();
    }

    fn sweep(&self) {
        let (shared, end) = (self.shared.clone(), self.end.clone());
        let sweeping = async move {
            // One after the other: they would wait for each other's rows, and hold connections meanwhile.
            let _turn = shared.sweeping.lock().await;
            for sql in SWEEP {
                while shared.pool.count(sql, &[&number(REALM_SWEEP)]).await?
                    >= u64::try_from(REALM_SWEEP).unwrap_or(0)
                {}
            }
            Ok::<_, RealmError>(())
        };
        tokio::spawn(async move {
            if let Some(Err(error)) = end.run_until_cancelled(sweeping).await {
                tracing::debug!(%error, "what nobody needs any more is not removed from the realm yet");
            }
        });
    }

    async fn read_page(
        link: &mut Link,
        session: &SessionId,
        after: &Tail,
        most: usize,
    ) -> Result<RealmPage, RealmError> {
        let most = number(most.clamp(1, REALM_PAGE));
        let rows = link
            .rows(Kind::Read, READ, &[&session.as_str(), &place(after.seq), &most, &number(REALM_PAGE_BYTES)])
            .await?;
        let first = rows.first().ok_or_else(|| RealmError::NoSession { session: session.clone() })?;
        unless_deleted(first, 5, session)?;
        let tail = Tail { seq: seq(first, 0)?, id: id(first, 1)? };
        let mut entries = Vec::new();
        let mut at_known = None;
        let mut next = after.seq;
        for row in &rows {
            let Some(place) = opt::<i64>(row, 2)? else { break };
            let place = u64::try_from(place).map_err(damaged)?;
            if place == after.seq {
                at_known = id(row, 3)?;
                continue;
            }
            next = next.saturating_add(1);
            let line: &str = get(row, 4)?;
            let entry = Entry::read(line.as_bytes()).filter(|_| place == next);
            let entry = entry.ok_or_else(|| {
                RealmError::Damaged(format!("entry {place} of the session {session} cannot be read").into())
            })?;
            entries.push(Arc::new(entry));
        }
        match LogConflict::unless_holds(after, tail.seq, at_known.as_ref()) {
            Some(stop) => Err(stop.error(session)),
            None => Ok(RealmPage { entries, tail }),
        }
    }

    async fn open_now(&self, session: &SessionId) -> Result<Opened, RealmError> {
        let rows = self.pool().rows(Kind::Read, OPEN, &[&session.as_str()]).await?;
        let row = rows.first().ok_or_else(|| RealmError::NoSession { session: session.clone() })?;
        unless_deleted(row, 6, session)?;
        Ok(Opened {
            header: header(get(row, 0)?, session.as_str())?,
            tail: Tail { seq: seq(row, 1)?, id: id(row, 2)? },
            epoch: seq(row, 3)?,
            owner: owner(row, 4)?,
        })
    }

    async fn claim_now(&self, session: &SessionId, cwd: &str, known: &Tail) -> Result<Claim, RealmError> {
        let known_id = known.id.as_ref().map(EntryId::as_str);
        let params: [link::Param<'_>; 6] =
            [&session.as_str(), &self.name(), &&*self.me.incarnation.id, &cwd, &place(known.seq), &known_id];
        for _ in 0..REALM_SETTLES {
            let rows = self.pool().rows(Kind::Write, CLAIM, &params).await?;
            if let Some(row) = rows.first() {
                self.changed(session);
                let tail = Tail { seq: seq(row, 1)?, id: id(row, 2)? };
                return Ok(Claim { session: session.clone(), epoch: seq(row, 0)?, tail });
            }
            // Why not: by a look that may find something newer than the claim did, such as a lease that has just ended.
            let opened = self.open_now(session).await?;
            if let Some(OwnedBy { host, is_lost: false }) = opened.owner
                && host != self.me.name
            {
                return Err(RealmError::Held { host });
            }
            let mut borrowed = self.pool().borrow().await?;
            let read = Self::read_page(&mut borrowed.link, session, known, 1).await;
            borrowed.done(read)?;
            self.is_here().await?;
        }
        Err(RealmError::Unreachable("the session has just changed".into()))
    }

    /// Refuses a host that the realm does not count as this run's and alive.
    async fn is_here(&self) -> Result<(), RealmError> {
        const HERE: &str = "SELECT incarnation = $2, until > clock_timestamp() FROM edn_bridge.host \
             WHERE member = current_user AND name = $1";
        let rows = self.pool().rows(Kind::Read, HERE, &[&self.name(), &&*self.me.incarnation.id]).await?;
        let here = rows.first().map(|row| Ok::<_, RealmError>((get(row, 0)?, get(row, 1)?))).transpose()?;
        match here {
            Some((true, true)) => Ok(()),
            Some((false, true)) => Err(RealmError::NameTaken { host: self.me.name.clone() }),
            _ => Err(RealmError::Unreachable("this host's lease is over".into())),
        }
    }

    async fn ours(&self, claim: &Claim, sql: &'static str, more: Option<&str>) -> Result<u64, RealmError> {
        let epoch = place(claim.epoch);
        let session = claim.session.as_str();
        match more {
            Some(more) => self.pool().count(sql, &[&session, &self.name(), &epoch, &more]).await,
            None => self.pool().count(sql, &[&session, &self.name(), &epoch]).await,
        }
    }
}

impl Realm for PostgresRealm {
    fn me(&self) -> &HostId {
        &self.me
    }

    fn renew(&self) -> RealmCall<'_, ()> {
        async {
            let is_first = !self.has_entered.load(Ordering::Acquire);
            let run = i64::try_from(self.me.incarnation.run).unwrap_or(i64::MAX);
            let params: [link::Param<'_>; 7] = [
                &self.name(),
                &&*self.me.key,
                &&*self.me.incarnation.id,
                &&*self.build,
                &self.terms.lease.as_secs_f64(),
                &is_first,
                &run,
            ];
            let rows = self.pool().rows_at_once(Kind::Write, RENEW, &params).await?;
            let row = rows.first().ok_or_else(|| damaged("a renewal says nothing"))?;
            if get::<i64>(row, 0)? == 0 {
                return Err(RealmError::NameTaken { host: self.me.name.clone() });
            }
            self.heard(get(row, 1)?, get::<i64>(row, 2)? > 0);
            self.has_entered.store(true, Ordering::Release);
            self.sweep_if_due();
            Ok(())
        }
        .boxed()
    }

    fn leave(&self) -> RealmCall<'_, ()> {
        async {
            self.pool().count(LEAVE, &[&self.name(), &&*self.me.incarnation.id]).await?;
            Ok(())
        }
        .boxed()
    }

    fn hosts(&self) -> RealmCall<'_, Vec<Host>> {
        async {
            let rows = self.pool().rows(Kind::Read, HOSTS, &[&number(REALM_HOSTS)]).await?;
            let host = |row: &Row| {
                Ok(Host {
                    name: host_name(get(row, 0)?)?,
                    key: get::<&str>(row, 1)?.into(),
                    build: get::<&str>(row, 2)?.into(),
                    is_alive: get(row, 3)?,
                    lost_ms: get(row, 4)?,
                    sessions: seq(row, 5)?,
                })
            };
            Ok(rows.iter().filter_map(|row| readable(host(row), "a host of the realm")).collect())
        }
        .boxed()
    }

    fn create<'a>(&'a self, header: &'a Header) -> RealmCall<'a, Claim> {
        async move {
            let line = text(header.line())?;
            let session = header.session.as_str();
            let params: [link::Param<'_>; 5] =
                [&session, &line, &&*header.cwd, &self.name(), &&*self.me.incarnation.id];
            if self.pool().count(CREATE, &params).await? == 1 {
                self.changed(&header.session);
                return Ok(Claim { session: header.session.clone(), epoch: 1, tail: Tail::default() });
            }
            match self.open_now(&header.session).await {
                Ok(opened) if opened.header == *header => {
                    self.claim_now(&header.session, &header.cwd, &Tail::default()).await
                }
                Ok(_) => Err(RealmError::Taken { session: header.session.clone() }),
                Err(error) => {
                    self.is_here().await?;
                    Err(error)
                }
            }
        }
        .boxed()
    }

    fn open<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Opened> {
        self.open_now(session).boxed()
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: &'a Tail, most: usize) -> RealmCall<'a, RealmPage> {
        async move {
            let mut borrowed = self.pool().borrow().await?;
            let page = Self::read_page(&mut borrowed.link, session, after, most).await;
            borrowed.done(page)
        }
        .boxed()
    }

    fn list<'a>(&'a self, filter: &'a RealmFilter, most: usize) -> RealmCall<'a, Vec<RealmSlot>> {
        async move {
            let host = filter.host.as_ref().map(HostName::as_str);
            let most = number(most.min(REALM_SESSIONS));
            let rows = self.pool().rows(Kind::Read, LIST, &[&host, &most]).await?;
            Ok(rows.iter().filter_map(|row| readable(slot(row), "a session of the realm")).collect())
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        text: &'a str,
        besides: Option<&'a HostName>,
        most: usize,
    ) -> RealmCall<'a, Vec<RealmHit>> {
        async move {
            let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
            if words.is_empty() {
                return Ok(Vec::new());
            }
            let (like, exact): (Vec<_>, Vec<_>) = words.iter().map(|word| patterns(word)).unzip();
            let params: [link::Param<'_>; 6] = [
                &besides.map(HostName::as_str),
                &like,
                &exact,
                &number(REALM_FIND_BYTES),
                &number(REALM_FIND_ENTRIES),
                &number(REALM_FIND_ROWS),
            ];
            let rows = self.pool().rows_aside(REALM_FIND_WAIT, FIND, &params).await?;
            let mut hits: Vec<RealmHit> = Vec::new();
            for row in &rows {
                let session: &str = get(row, 7)?;
                let is_known = hits.last().is_some_and(|hit| hit.slot.header.session.as_str() == session);
                let line: &str = get(row, 8)?;
                let excerpt = Entry::read(line.as_bytes()).and_then(|entry| excerpt_of(&entry, &words));
                if let Some(excerpt) = excerpt.filter(|_| !is_known)
                    && let Some(slot) = readable(slot(row), "a session of the realm")
                {
                    hits.push(RealmHit { slot, excerpt });
                }
            }
            hits.truncate(most);
            Ok(hits)
        }
        .boxed()
    }

    fn claim<'a>(&'a self, session: &'a SessionId, cwd: &'a Path, known: &'a Tail) -> RealmCall<'a, Claim> {
        async move { self.claim_now(session, &cwd.to_string_lossy(), known).await }.boxed()
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async move {
            if self.ours(claim, RELEASE, None).await? > 0 {
                self.changed(&claim.session);
            }
            Ok(())
        }
        .boxed()
    }

    fn hand_over<'a>(&'a self, claim: &'a Claim, host: &'a HostName) -> RealmCall<'a, ()> {
        async move {
            if self.ours(claim, HAND_OVER, Some(host.as_str())).await? > 0 {
                self.changed(&claim.session);
                return Ok(());
            }
            self.settle(claim, &Tail::default()).await?;
            Err(RealmError::NoHost { host: host.clone() })
        }
        .boxed()
    }

    fn delete<'a>(&'a self, claim: &'a Claim) -> RealmCall<'a, ()> {
        async move {
            let params: [link::Param<'_>; 3] = [&claim.session.as_str(), &self.name(), &place(claim.epoch)];
            if self.pool().rows(Kind::Write, DELETE, &params).await?.is_empty() {
                return match self.open_now(&claim.session).await {
                    Err(RealmError::Deleted { .. }) => Ok(()),
                    Err(error) => Err(error),
                    Ok(_) => Err(RealmError::Fenced { session: claim.session.clone() }),
                };
            }
            self.changed(&claim.session);
            self.sweep();
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
            let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
            let after_id = after.id.as_ref().map(EntryId::as_str);
            let params: [link::Param<'_>; 10] = [
                &claim.session.as_str(),
                &self.name(),
                &place(claim.epoch),
                &place(after.seq),
                &after_id,
                &ids,
                &number(entries.len()),
                &last.id.as_str(),
                &slot,
                &lines,
            ];
            if self.pool().count(APPEND, &params).await? == 0 {
                return Err(RealmError::InDoubt(Doubt::NoRow));
            }
            let tail = after.after(entries.iter().map(|entry| &entry.id));
            self.board.tell(Hint::Session(claim.session.clone(), Some(tail.seq)));
            Ok(tail)
        }
        .boxed()
    }

    fn settle<'a>(&'a self, claim: &'a Claim, known: &'a Tail) -> RealmCall<'a, RealmPage> {
        async move {
            let mut borrowed = self.pool().borrow().await?;
            let link = &mut borrowed.link;
            let answer = async {
                let params: [link::Param<'_>; 3] =
                    [&claim.session.as_str(), &self.name(), &place(claim.epoch)];
                let rows = link.rows(Kind::Write, SETTLE, &params).await?;
                let is_ours = rows.first().map(|row| get(row, 0)).transpose()?.unwrap_or(false);
                // A statement of its own, whose view of the entries begins after the lock was had.
                let found = Self::read_page(link, &claim.session, known, REALM_PAGE).await;
                settled(claim, known, is_ours, found)
            };
            let answer = answer.await;
            borrowed.done(answer)
        }
        .boxed()
    }

    fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints> {
        self.board.watch(session)
    }

    fn slot<'a>(&'a self, claim: &'a Claim, slot: &'a str) -> RealmCall<'a, ()> {
        async move {
            too_long(slot.len(), REALM_SLOT_BYTES)?;
            if self.ours(claim, SLOT, Some(slot)).await? == 0 {
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
            let wait = REALM_ANSWER_WAIT.as_secs_f64();
            let params: [link::Param<'_>; 5] =
                [&&*request.id, &session.as_str(), &self.name(), &&*request.call, &wait];
            let end = Instant::now() + REALM_ANSWER_WAIT;
            let mut doubt = None;
            let rows = loop {
                match self.pool().rows(Kind::Write, POST, &params).await {
                    // With its id it is posted once, however often it is tried.
                    Err(error @ RealmError::InDoubt(_)) if Instant::now() < end => doubt = Some(error),
                    // An earlier try may have been carried out, whatever is said of this one.
                    Err(error) => return Err(doubt.unwrap_or(error)),
                    Ok(rows) => break rows,
                }
            };
            let Some(row) = rows.first() else {
                if let Some(doubt) = doubt {
                    return Err(doubt);
                }
                return Err(match self.open_now(session).await?.owner {
                    Some(OwnedBy { host, .. }) => RealmError::OwnerLost { host },
                    None => RealmError::OwnerLost { host: host_name("nobody")? },
                });
            };
            if let Some(answer) = opt::<&str>(row, 1)? {
                return Ok(answer.into());
            }
            let host = host_name(get(row, 0)?)?;
            let look = || async {
                let rows = self.pool().rows(Kind::Read, ANSWERED, &[&&*request.id]).await?;
                let answer = rows.first().map(|row| opt::<&str>(row, 0)).transpose()?;
                Ok(answer.flatten().map(Into::into))
            };
            self.board.answered(&host, end, &mut woken, look).await
        }
        .boxed()
    }

    fn requests(&self) -> RealmCall<'_, Requests> {
        async {
            let (to, requests) = mpsc::channel(1);
            let mut woken = self.board.wait_for(Hint::Request(self.me.name.clone()));
            let (shared, name, end) = (self.shared.clone(), self.me.name.clone(), self.end.clone());
            let forward = async move {
                let mut given: HashSet<Arc<str>> = HashSet::new();
                while !to.is_closed() {
                    let mut pause = REALM_WATCH;
                    if let Ok(open) = open_requests(&shared.pool, &name).await {
                        pause = REALM_REST;
                        let now: HashSet<&Arc<str>> = open.iter().collect();
                        given.retain(|id| now.contains(id));
                        for id in open {
                            if given.contains(&id) {
                                continue;
                            }
                            let posted = match request(&shared.pool, &id).await {
                                Ok(posted) => posted,
                                // One that cannot be read holds up no other.
                                Err(RealmError::Damaged(_)) => None,
                                Err(_) => {
                                    pause = REALM_WATCH;
                                    break;
                                }
                            };
                            given.insert(id);
                            if let Some(posted) = posted
                                && to.send(posted).await.is_err()
                            {
                                return;
                            }
                        }
                    }
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
            let params: [link::Param<'_>; 4] = [&request, &answer, &self.name(), &&*self.me.incarnation.id];
            let is_kept = self.pool().count(ANSWER, &params).await? > 0;
            if is_kept {
                self.board.tell(Hint::Answer(request.into()));
            }
            Ok(is_kept)
        }
        .boxed()
    }
}

async fn open_requests(pool: &Pool, host: &HostName) -> Result<Vec<Arc<str>>, RealmError> {
    let rows = pool.rows(Kind::Read, REQUESTS, &[&host.as_str(), &number(REALM_WAITING)]).await?;
    rows.iter().map(|row| Ok(get::<&str>(row, 0)?.into())).collect()
}

/// A request, unless it is gone, or longer than one can be.
async fn request(pool: &Pool, id: &Arc<str>) -> Result<Option<Posted>, RealmError> {
    let most = i32::try_from(JOURNAL_LINE_BYTES).unwrap_or(i32::MAX);
    let rows = pool.rows(Kind::Read, REQUEST, &[&&**id, &most]).await?;
    let posted = |row: &Row| {
        Ok(Posted {
            session: get::<&str>(row, 0)?.into(),
            from: host_name(get(row, 1)?)?,
            request: RealmRequest { id: id.clone(), call: get::<&str>(row, 2)?.into() },
        })
    };
    rows.first().map(posted).transpose()
}

/// Refuses a session whose row says that it was deleted.
fn unless_deleted(row: &Row, place: usize, session: &SessionId) -> Result<(), RealmError> {
    if get(row, place)? { Err(RealmError::Deleted { session: session.clone() }) } else { Ok(()) }
}

fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, RealmError> {
    row.try_get(place).map_err(damaged)
}

fn opt<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    place: usize,
) -> Result<Option<T>, RealmError> {
    get(row, place)
}

fn seq(row: &Row, place: usize) -> Result<u64, RealmError> {
    u64::try_from(get::<i64>(row, place)?).map_err(damaged)
}

fn id(row: &Row, place: usize) -> Result<Option<EntryId>, RealmError> {
    Ok(opt::<&str>(row, place)?.map(EntryId::from))
}

/// What lists show of a session: the first columns of [`LIST`] and [`FIND`].
fn slot(row: &Row) -> Result<RealmSlot, RealmError> {
    Ok(RealmSlot {
        header: header(get(row, 0)?, get(row, 7)?)?,
        owner: owner(row, 1)?,
        cwd: get::<&str>(row, 3)?.into(),
        tail: seq(row, 4)?,
        text: get::<&str>(row, 5)?.into(),
        changed_ms: get(row, 6)?,
    })
}

/// A word in the line of an entry, as a pattern of `LIKE` and as a regular expression: at the start of a word, and no
/// keyword. No character of it has a meaning.
fn patterns(word: &str) -> (String, String) {
    let written = word.replace('\\', "\\\\").replace('"', "\\\"");
    let escaped = |is_special: fn(char) -> bool| {
        let escape = |c: char| is_special(c).then_some('\\').into_iter().chain([c]);
        written.chars().flat_map(escape).collect::<String>()
    };
    let like = escaped(|c| matches!(c, '%' | '_' | '\\'));
    let exact = escaped(|c| c.is_ascii_punctuation());
    // A line feed is written as `\n`.
    (format!("%{like}%"), format!("(?:(?<![:[:alnum:]_/-])|(?<=\\\\[nrt])){exact}"))
}

/// The owner's name, and right after it whether that host is alive.
fn owner(row: &Row, place: usize) -> Result<Option<OwnedBy>, RealmError> {
    let Some(name) = opt::<&str>(row, place)? else { return Ok(None) };
    let is_alive: bool = get(row, place.saturating_add(1))?;
    Ok(Some(OwnedBy { host: host_name(name)?, is_lost: !is_alive }))
}
