//! The hosts of a realm in NATS: who is there, for how long, and which run of this host may do something.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::limits::REALM_HOSTS;
use crate::realm::error::RealmError;
use crate::realm::texts::{host_name, readable};
use crate::realm::types::{Host, HostId, HostName};

use super::link::{Check, Line, OutgoingMessage, Stored};
use super::records::{self, Lease, Row, Run, json};

/// How long a host that is not there is listed.
pub(super) const HOST_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A host's lease as it is in the stream: its number, when it was renewed, and for how long.
#[derive(Default)]
pub(super) struct StoredLease {
    pub(super) seq: u64,
    /// Milliseconds since the epoch, by the server's clock.
    at: i64,
    lease_ms: u64,
}

impl StoredLease {
    fn new(stored: &Stored, lease: &Lease) -> Self {
        Self { seq: stored.seq, at: stored.time_ms, lease_ms: lease.lease_ms }
    }

    pub(super) fn is_alive(&self, now: i64) -> bool {
        now < self.ends()
    }

    fn ends(&self) -> i64 {
        self.at.saturating_add(i64::try_from(self.lease_ms).unwrap_or(i64::MAX))
    }
}

/// The lease of a host; one that is over if there is none.
pub(super) async fn lease(line: &Line, host: &HostName) -> Result<StoredLease, RealmError> {
    let Some(found) = line.last(&records::lease(host)).await? else { return Ok(StoredLease::default()) };
    let lease = found.of(Lease::subject)?;
    Ok(StoredLease::new(&found, &lease))
}

/// The leases of all hosts, by their names.
pub(super) async fn leases(line: &Line) -> Result<BTreeMap<String, StoredLease>, RealmError> {
    let mut leases = BTreeMap::new();
    line.each(records::LEASES, |stored| {
        if let Ok(lease) = stored.of(Lease::subject) {
            leases.insert(lease.host.clone(), StoredLease::new(&stored, &lease));
        }
    })
    .await?;
    Ok(leases)
}

/// The hosts of the realm, by name.
pub(super) async fn hosts(line: &Line) -> Result<Vec<Host>, RealmError> {
    let (mut runs, mut owned, mut owners) = (BTreeMap::new(), HashMap::new(), HashMap::new());
    line.each(records::RUNS, |stored| {
        if let Some(run) = readable(stored.of(Run::subject), "a host of the realm") {
            runs.insert(run.host.clone(), run);
        }
    })
    .await?;
    let leases = leases(line).await?;
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
    // The server has removed the leases of those that have not been there for long.
    let known = runs.into_iter().filter_map(|(name, run)| Some((run, leases.get(&name)?)));
    let host = |(run, lease): (Run, &StoredLease)| {
        Ok(Host {
            is_alive: lease.is_alive(now),
            lost_ms: now.saturating_sub(lease.ends()),
            sessions: owned.get(&run.host).copied().unwrap_or(0),
            name: host_name(&run.host)?,
            key: run.key.into(),
            build: run.build.into(),
        })
    };
    Ok(known.take(REALM_HOSTS).filter_map(|known| readable(host(known), "a host of the realm")).collect())
}

/// A message that is taken only as long as no later run of this host has entered.
///
/// # Errors
/// If one has, or this run has not entered yet.
pub(super) async fn as_this_run(line: &Line, me: &HostId) -> Result<OutgoingMessage, RealmError> {
    let subject = records::run(&me.name);
    let seq = match line.known.entered() {
        Some(seq) => seq,
        None => {
            let found = line.last(&subject).await?;
            let found = found.ok_or_else(|| RealmError::Unreachable("this host's lease is over".into()))?;
            if *found.of(Run::subject)?.incarnation != *me.incarnation.id {
                return Err(RealmError::NameTaken { host: me.name.clone() });
            }
            line.known.set_entered(Some(found.seq));
            found.seq
        }
    };
    Ok(OutgoingMessage::new(records::touch(&me.name, 0), Vec::new(), Check::Other(subject, seq)))
}

/// Refuses a host that the realm does not count as this run's and alive.
pub(super) async fn is_here(line: &Line, me: &HostId) -> Result<(), RealmError> {
    let found = line.last(&records::run(&me.name)).await?;
    let run = found.map(|found| found.of(Run::subject)).transpose()?;
    let is_this = run.is_some_and(|run| *run.incarnation == *me.incarnation.id);
    let is_alive = lease(line, &me.name).await?.is_alive(line.now_ms().await?);
    match (is_this, is_alive) {
        (true, true) => Ok(()),
        (false, true) => Err(RealmError::NameTaken { host: me.name.clone() }),
        _ => Err(RealmError::Unreachable("this host's lease is over".into())),
    }
}

/// Enters, or stays; `has_entered` is whether this run has entered before. Returns whether that is done; if not, something
/// has changed meanwhile.
pub(super) async fn renew_once(
    line: &Line,
    me: &HostId,
    build: &str,
    lease_for: Duration,
    has_entered: bool,
) -> Result<bool, RealmError> {
    let lease_ms = u64::try_from(lease_for.as_millis()).unwrap_or(u64::MAX);
    let record = Lease { host: me.name.to_string(), lease_ms };
    let mut renewed = OutgoingMessage::new(records::lease(&me.name), json(&record)?, Check::Free);
    renewed.kept = Some(HOST_KEPT);
    match as_this_run(line, me).await {
        Ok(this_run) => {
            let is_done = line.commit(vec![this_run, renewed]).await?.is_some();
            if !is_done {
                line.known.set_entered(None);
            }
            return Ok(is_done);
        }
        Err(RealmError::NameTaken { .. }) => {}
        // There is no run of that name.
        Err(RealmError::Unreachable(_)) if line.last(&records::run(&me.name)).await?.is_none() => {}
        Err(error) => return Err(error),
    }
    let found = line.last(&records::run(&me.name)).await?;
    if let Some(run) = found.as_ref().map(|found: &Stored| found.of(Run::subject)).transpose()? {
        let is_later = *run.key == *me.key && run.run < me.incarnation.run;
        if !is_later {
            let lease = lease(line, &me.name).await?;
            if has_entered || lease.is_alive(line.now_ms().await?) {
                return Err(RealmError::NameTaken { host: me.name.clone() });
            }
            // It is not renewed meanwhile.
            renewed.check = Check::Last(lease.seq);
        }
    }
    let check = Check::Last(found.map_or(0, |found| found.seq));
    let entering = OutgoingMessage::new(records::run(&me.name), json(&Run::new(me, build))?, check);
    let entered = line.commit(vec![renewed, entering]).await?;
    line.known.set_entered(entered);
    Ok(entered.is_some())
}

/// A text that is another one when a session or a host has changed, and whether requests to this host are there.
pub(super) async fn pulse(line: &Line, me: &HostName) -> Result<(String, bool), RealmError> {
    let last = line.last(records::ROWS).await?.map_or(0, |row| row.seq);
    let hosts = leases(line).await?;
    // This host has just renewed its lease: that is now.
    let now = hosts.get(me.as_str()).map_or(0, |lease| lease.at);
    let alive = hosts.iter().filter(|(name, lease)| **name != *me.as_str() && lease.is_alive(now));
    let pulse = format!("{last} {}", alive.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "));
    let (requests, _) = line.scan(&records::calls(me), 1, 1, 1).await?;
    Ok((pulse, !requests.is_empty()))
}
