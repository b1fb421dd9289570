//! Hints apart from the appends: one connection tells, many at a time, and one listens.
//!
//! A notification inside an append would take a lock on the whole engine until the append is on disk, one append after
//! the other.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits::{REALM_BEAT, REALM_CALL_WAIT, REALM_IDLE, REALM_RECONNECT, REALM_WATCH};
use crate::message::SessionId;
use crate::realm::error::RealmError;
use crate::realm::postgres::config::Address;
use crate::realm::postgres::link::{Kind, Link, Purpose, pooler};
use crate::realm::subscriptions::{Desks, Listening, RealmSubscriptions, Standing, Telling, lock};
use crate::sha256;

/// Tells many at a time. Channel and text of each.
const NOTIFY: &str = "SELECT pg_notify(c, t) FROM unnest($1::text[], $2::text[]) AS n(c, t)";

/// The name of the channel of this user's hosts. A secret: any role may listen to any channel. What is said in a session
/// has a channel of its own, whose name follows it after `_`.
const CHANNEL: &str = "WITH made AS (INSERT INTO edn_bridge.member DEFAULT VALUES \
     ON CONFLICT (member) DO NOTHING RETURNING channel) \
     SELECT channel FROM made UNION ALL SELECT channel FROM edn_bridge.member WHERE member = current_user LIMIT 1";

/// Hints that are told at once.
const BATCH: usize = 256;

/// Starts both tasks; they end with the token.
pub(super) fn start(address: Address, end: CancellationToken) -> RealmSubscriptions {
    let (board, to_tell, to_listen) = RealmSubscriptions::new(suffix);
    let teller = tell_all(address.clone(), to_tell);
    let stop = end.clone();
    tokio::spawn(async move { stop.run_until_cancelled(teller).await });
    let listener = listen_always(address, to_listen, board.desks());
    tokio::spawn(async move { end.run_until_cancelled(listener).await });
    board
}

/// Whether hints of one connection come through to another.
///
/// # Errors
/// [`RealmError::Unfit`] if they do not: something shares the connections.
pub(super) async fn probe(address: &Address) -> Result<(), RealmError> {
    let (echoed, echo) = oneshot::channel();
    let waiting = Mutex::new(Some(echoed));
    let probe = format!("edn_bridge_probe_{}", uuid::Uuid::new_v4().simple());
    let awaited = probe.clone();
    let on_notice = Arc::new(move |channel: &str, _: &str| {
        if channel == awaited
            && let Some(echoed) = waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            let _ = echoed.send(());
        }
    });
    let mut listener = Link::connect(address, Purpose::Hint, Some(on_notice), ()).await?;
    listener.script(REALM_CALL_WAIT, &format!("LISTEN \"{probe}\"")).await.map_err(unreached)?;
    let mut teller = Link::connect(address, Purpose::Hint, None, ()).await?;
    let told = teller.rows(Kind::Read, NOTIFY, &[&vec![probe.as_str()], &vec![""]]).await;
    told?;
    match timeout(REALM_CALL_WAIT, echo).await {
        Ok(Ok(())) => Ok(()),
        _ if listener.is_closed() => Err(RealmError::Unreachable("the connection was lost".into())),
        _ => Err(RealmError::Unfit(pooler().into())),
    }
}

/// Of something that is simply done again, a missing answer is no doubt.
fn unreached(error: RealmError) -> RealmError {
    match error {
        RealmError::InDoubt(_) => RealmError::Unreachable("it does not answer".into()),
        error => error,
    }
}

async fn channel(link: &mut Link) -> Result<String, RealmError> {
    for _ in 0..3 {
        let rows = link.rows(Kind::Write, CHANNEL, &[]).await.map_err(unreached)?;
        if let Some(channel) = rows.first().and_then(|row| row.try_get(0).ok()) {
            return Ok(channel);
        }
        // Another host has just made it.
    }
    Err(RealmError::Damaged("there is no channel for hints".into()))
}

/// Tells all that waits, again and again. What cannot be told is dropped.
async fn tell_all(address: Address, mut from: mpsc::Receiver<Telling>) {
    let mut open: Option<(Link, String)> = None;
    let mut standing = Standing::default();
    let mut waiting = Vec::new();
    let mut count = 0u64;
    loop {
        waiting.clear();
        match timeout(REALM_IDLE, from.recv_many(&mut waiting, BATCH)).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(_) => {
                open = None;
                continue;
            }
        }
        if open.as_ref().is_none_or(|(link, _)| link.is_closed()) {
            open = connect_teller(&address).await.inspect_err(|error| standing.fails("told", error)).ok();
        }
        let Some((link, channel)) = &mut open else { continue };
        let (mut channels, mut texts) = (Vec::new(), Vec::new());
        for one in &waiting {
            match one {
                Telling::News(news) => {
                    channels.push(channel.clone());
                    texts.push(news.text());
                }
                Telling::Said(suffix, text) => {
                    // The engine would tell two like ones in one statement once.
                    count = count.wrapping_add(1);
                    channels.push(format!("{channel}_{suffix}"));
                    texts.push(format!("{count} {text}"));
                }
            }
        }
        match link.rows(Kind::Read, NOTIFY, &[&channels, &texts]).await {
            Ok(_) => standing.works("told"),
            Err(error) => {
                standing.fails("told", &error);
                open = None;
            }
        }
    }
}

async fn connect_teller(address: &Address) -> Result<(Link, String), RealmError> {
    let mut link = Link::connect(address, Purpose::Hint, None, ()).await?;
    let channel = channel(&mut link).await?;
    Ok((link, channel))
}

/// Listens, and connects again for as long as it takes.
async fn listen_always(address: Address, mut asked: mpsc::Receiver<Listening>, desks: Arc<Mutex<Desks>>) {
    let mut standing = Standing::default();
    loop {
        if let Err(error) = listen_once(&address, &mut asked, &desks, &mut standing).await {
            standing.fails("heard", &error);
        }
        if asked.is_closed() {
            return;
        }
        sleep(REALM_RECONNECT).await;
    }
}

async fn listen_once(
    address: &Address,
    asked: &mut mpsc::Receiver<Listening>,
    desks: &Arc<Mutex<Desks>>,
    standing: &mut Standing,
) -> Result<(), RealmError> {
    let notice = desks.clone();
    let on_notice = Arc::new(move |channel: &str, text: &str| {
        let mut desks = lock(&notice);
        match channel.split_once('_') {
            Some((_, suffix)) => desks.said(suffix, text.split_once(' ').map_or("", |(_, said)| said)),
            None => desks.hint(text),
        }
    });
    let (on_end, mut ended) = mpsc::channel::<()>(1);
    let mut link = Link::connect(address, Purpose::Hint, Some(on_notice), on_end).await?;
    let channel = channel(&mut link).await?;
    let mut script = format!("LISTEN \"{channel}\";");
    let heard = lock(desks).channels();
    for suffix in &heard {
        script.push_str(&format!("LISTEN \"{channel}_{suffix}\";"));
    }
    link.script(REALM_CALL_WAIT, &script).await?;
    // What was told before this is lost.
    lock(desks).miss();
    loop {
        // What is not kept is lost while the connection is cut, so that it matters where somebody hears.
        let beat = if lock(desks).channels().is_empty() { REALM_BEAT } else { REALM_WATCH };
        tokio::select! {
            asked = asked.recv() => {
                let Some(Listening { channel: suffix, done }) = asked else { return Ok(()) };
                link.script(REALM_CALL_WAIT, &format!("LISTEN \"{channel}_{suffix}\"")).await?;
                let _ = done.send(());
            }
            _ = ended.recv() => return Ok(()),
            () = sleep(beat) => {
                let gone = lock(desks).sweep();
                for suffix in gone {
                    link.script(REALM_CALL_WAIT, &format!("UNLISTEN \"{channel}_{suffix}\"")).await?;
                }
                // A connection that is cut silently shows itself here.
                link.rows(Kind::Read, "SELECT 1", &[]).await?;
                // Said here: one that is cut again and again does not work.
                standing.works("heard");
            }
        }
    }
}

/// What distinguishes the channel of what a session's owner says.
fn suffix(session: &SessionId) -> String {
    sha256::hex(session.as_str()).chars().take(24).collect()
}
