//! What a realm in NATS knows of its sessions: their rows, their entries, and what lists show of them. Changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::{REALM_PAGE, REALM_PAGE_BYTES, REALM_SETTLES};
use crate::message::SessionId;
use crate::realm::error::RealmError;
use crate::realm::rules::LogConflict;
use crate::realm::texts::{damaged, readable};
use crate::realm::types::{OwnedBy, RealmPage, RealmSlot, Tail};
use crate::store::{Entry, excerpt_of};

use super::leases::leases;
use super::link::{Line, Stored};
use super::records::{self, Row};

/// The newest row of a session, by the server that leads the stream, and its number in the stream.
pub(super) async fn newest(line: &Line, session: &SessionId) -> Result<Option<(u64, Row)>, RealmError> {
    let Some(found) = line.last(&records::row(session)).await? else { return Ok(None) };
    let mut row: Row = found.of(Row::subject)?;
    row.changed_ms.get_or_insert(found.time_ms);
    Ok(Some((found.seq, row)))
}

/// The row of a session, and its number in the stream.
///
/// # Errors
/// [`RealmError::NoSession`], [`RealmError::Deleted`].
pub(super) async fn row_of(line: &Line, session: &SessionId) -> Result<(u64, Row), RealmError> {
    let found = newest(line, session).await?;
    let (seq, row) = found.ok_or_else(|| RealmError::NoSession { session: session.clone() })?;
    if row.is_deleted {
        return Err(RealmError::Deleted { session: session.clone() });
    }
    Ok((seq, row))
}

/// At most `most` entries after a place, and where the log stood.
pub(super) async fn read_page(
    line: &Line,
    session: &SessionId,
    after: &Tail,
    most: usize,
) -> Result<RealmPage, RealmError> {
    for _ in 0..REALM_SETTLES {
        let (_, row) = row_of(line, session).await?;
        match entries(line, session, &row, after, most).await {
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
pub(super) async fn holds(
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
    match LogConflict::unless_holds(known, tail.seq, at_known.as_ref()) {
        Some(stop) => Err(stop.error(session)),
        None => Ok(Some(from)),
    }
}

/// Entries up to the tail of a row; `None` if there is none where there must be one.
async fn entries(
    line: &Line,
    session: &SessionId,
    row: &Row,
    after: &Tail,
    most: usize,
) -> Result<Option<Vec<Arc<Entry>>>, RealmError> {
    let tail = row.tail();
    let Some(from) = holds(line, session, row, after).await? else { return Ok(None) };
    let most = most.clamp(1, REALM_PAGE);
    let mut entries = Vec::new();
    if after.seq == tail.seq {
        return Ok(Some(entries));
    }
    let (mut found, _) = line.scan(&records::log(session), from, most, REALM_PAGE_BYTES).await?;
    if found.first().and_then(|first| records::entry_seq(&first.subject)) != Some(after.seq.saturating_add(1))
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

/// The part of a session's first entry that has all the words.
pub(super) async fn excerpt(
    line: &Line,
    session: &SessionId,
    words: &[String],
) -> Result<Option<String>, RealmError> {
    let mut at = Tail::default();
    loop {
        let page = match read_page(line, session, &at, REALM_PAGE).await {
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

/// What lists show of the sessions that are wanted, the last changed first.
pub(super) async fn slots<W: Fn(&Row) -> bool>(
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
    let leases = leases(line).await?;
    let now = line.now_ms().await?;
    let mut rows: Vec<_> =
        rows.into_values().filter(|(_, _, row)| !row.is_deleted && is_wanted(row)).collect();
    rows.sort_by_key(|(changed_ms, seq, _)| std::cmp::Reverse((*changed_ms, *seq)));
    let slot = move |(changed_ms, _, row): (i64, _, Row)| {
        let owner = row.owner()?.map(|host| {
            let is_alive = leases.get(host.as_str()).is_some_and(|lease| lease.is_alive(now));
            OwnedBy { host, is_lost: !is_alive }
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

fn entry(session: &SessionId, stored: &Stored) -> Result<Arc<Entry>, RealmError> {
    let entry = Entry::read(&stored.body).map(Arc::new);
    entry.ok_or_else(|| damaged(format!("an entry of the session {session} cannot be read")))
}
