//! What hosts ask each other for, in a realm in NATS: posted by one, given on to the session's owner.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::limits::{REALM_ANSWER_WAIT, REALM_PAGE_BYTES, REALM_WAITING};
use crate::message::SessionId;
use crate::realm::error::RealmError;
use crate::realm::texts::host_name;
use crate::realm::types::{HostName, Posted, RealmRequest};

use super::leases::lease;
use super::link::{Check, EngineLink, Line, OutgoingMessage, Stored};
use super::logs::row_of;
use super::records::{self, AskReply, Call, json};

/// How long an answer can be asked for again.
pub(super) const ANSWER_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// What became of a request that is posted.
pub(super) enum Posting {
    /// That host has it.
    To(HostName),
    /// The answer is there already.
    Answered(Arc<str>),
    /// The session has been deleted since, and what it had then: the request is left over.
    Deleted,
}

/// Posts a request to the owner of a session. `None` if something has changed meanwhile.
pub(super) async fn post_once(
    line: &Line,
    me: &HostName,
    session: &SessionId,
    request: &RealmRequest,
) -> Result<Option<Posting>, RealmError> {
    let (_, row) = row_of(line, session).await?;
    let Some(host) = row.owner()? else {
        return Err(RealmError::OwnerLost { host: host_name("nobody")? });
    };
    if !lease(line, &host).await?.is_alive(line.now_ms().await?) {
        return Err(RealmError::OwnerLost { host });
    }
    let subject = records::answer(session, &request.id);
    let found = line.last(&subject).await?;
    let known = found.as_ref().map(Stored::record::<AskReply>).transpose()?;
    if let Some(answer) = known.and_then(|known| known.answer) {
        return Ok(Some(Posting::Answered(answer.into())));
    }
    let call = Call {
        id: request.id.to_string(),
        session: session.to_string(),
        asker: me.to_string(),
        call: request.call.to_string(),
    };
    let mut call =
        OutgoingMessage::new(records::call(session, &host, &request.id), json(&call)?, Check::Free);
    call.kept = Some(REALM_ANSWER_WAIT);
    let asked = AskReply { host: host.to_string(), answer: None };
    let mut asked =
        OutgoingMessage::new(subject, json(&asked)?, Check::Last(found.map_or(0, |found| found.seq)));
    asked.kept = Some(ANSWER_KEPT);
    if line.commit(vec![call, asked]).await?.is_none() {
        return Ok(None);
    }
    match row_of(line, session).await {
        Err(RealmError::Deleted { .. }) => Ok(Some(Posting::Deleted)),
        _ => Ok(Some(Posting::To(host))),
    }
}

/// Gives on the requests to a host that are not answered. `given` has the numbers of those that were looked at.
pub(super) async fn forward_once(
    way: &EngineLink,
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
    let asked: AskReply = asked.record()?;
    let is_open = *asked.host == *me.as_str() && asked.answer.is_none();
    let request = RealmRequest { id: call.id.into(), call: call.call.into() };
    Ok(is_open.then_some(Posted { session, from, request }))
}
