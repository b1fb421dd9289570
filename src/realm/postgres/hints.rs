//! Hints apart from the appends: one connection tells, many at a time, and one listens.
//!
//! A notification inside an append would take a lock on the whole engine until the append is on disk, one append after
//! the other. Here nobody waits for a hint, and one that is lost costs a follower a second at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits::{REALM_BEAT, REALM_CALL_WAIT, REALM_IDLE, REALM_RECONNECT, REALM_WAITING, REALM_WATCH};
use crate::message::SessionId;
use crate::realm::calls::{Hints, Utterances};
use crate::realm::error::RealmError;
use crate::realm::postgres::config::Address;
use crate::realm::postgres::link::{Kind, Link, Purpose, pooler};
use crate::realm::types::{HostName, RealmHint};
use crate::sha256;

/// Tells many at a time. Channel and text of each.
const NOTIFY: &str = "SELECT pg_notify(c, t) FROM unnest($1::text[], $2::text[]) AS n(c, t)";

/// The name of the channel of this user's hosts. A secret: any role may listen to any channel.
const CHANNEL: &str = "WITH made AS (INSERT INTO edn_bridge.member DEFAULT VALUES \
     ON CONFLICT (member) DO NOTHING RETURNING channel) \
     SELECT channel FROM made UNION ALL SELECT channel FROM edn_bridge.member WHERE member = current_user LIMIT 1";

/// Bytes that are told at once: what the engine reads at once without a second thought.
const BATCH: usize = 256;

/// What a hint says, as text: a letter, a space, and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// A session's log, slot or owner.
    Session(SessionId, Option<u64>),
    /// A request for a host.
    Request(HostName),
    /// An answer to a request.
    Answer(Arc<str>),
}

impl News {
    fn text(&self) -> String {
        match self {
            Self::Session(session, Some(seq)) => format!("s {seq} {session}"),
            Self::Session(session, None) => format!("o {session}"),
            Self::Request(host) => format!("r {host}"),
            Self::Answer(id) => format!("a {id}"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "s" => {
                let (seq, session) = rest.split_once(' ')?;
                Some(Self::Session(session.into(), Some(seq.parse().ok()?)))
            }
            "o" => Some(Self::Session(rest.into(), None)),
            "r" => HostName::parse(rest).map(Self::Request),
            "a" => Some(Self::Answer(rest.into())),
            _ => None,
        }
    }
}

/// Both connections, and who wants to know.
pub(super) struct Board {
    tell: mpsc::Sender<Telling>,
    listen: mpsc::Sender<Listening>,
    desks: Arc<Mutex<Desks>>,
}

enum Telling {
    News(News),
    /// The session, and what is said.
    Said(SessionId, Arc<str>),
}

struct Listening {
    session: SessionId,
    done: oneshot::Sender<()>,
}

#[derive(Default)]
struct Desks {
    watchers: Vec<Desk<RealmHint>>,
    hearers: HashMap<String, Vec<mpsc::Sender<Arc<str>>>>,
    /// Who waits for requests to a host, or for one answer.
    post: Vec<(News, mpsc::Sender<()>)>,
    /// The probe that hints come through at all.
    echo: Option<(String, oneshot::Sender<()>)>,
}

struct Desk<T> {
    session: Option<SessionId>,
    to: mpsc::Sender<T>,
    /// Something did not fit.
    missed: bool,
}

impl Board {
    /// Starts both tasks; they end with the token.
    pub(super) fn start(address: Address, end: CancellationToken) -> Self {
        let (tell, to_tell) = mpsc::channel(REALM_WAITING);
        let (listen, to_listen) = mpsc::channel(REALM_WAITING);
        let desks: Arc<Mutex<Desks>> = Arc::default();
        let board = Self { tell, listen, desks: desks.clone() };
        let teller = tell_all(address.clone(), to_tell);
        let stop = end.clone();
        tokio::spawn(async move { stop.run_until_cancelled(teller).await });
        let listener = listen_always(address, to_listen, desks);
        tokio::spawn(async move { end.run_until_cancelled(listener).await });
        board
    }

    /// Tells something, unless too much waits already.
    pub(super) fn tell(&self, news: News) {
        let _ = self.tell.try_send(Telling::News(news));
    }

    /// Says something to those who follow a session, unless too much waits already.
    pub(super) fn say(&self, session: &SessionId, text: &str) {
        let _ = self.tell.try_send(Telling::Said(session.clone(), text.into()));
    }

    pub(super) fn watch(&self, session: Option<&SessionId>) -> Hints {
        let (to, hints) = mpsc::channel(REALM_WAITING);
        lock(&self.desks).watchers.push(Desk { session: session.cloned(), to, missed: false });
        hints
    }

    /// What a session's owner says from when this returns, if the engine can be reached.
    pub(super) async fn hear(&self, session: &SessionId) -> Utterances {
        let (to, heard) = mpsc::channel(REALM_WAITING);
        lock(&self.desks).hearers.entry(suffix(session)).or_default().push(to);
        let (done, ready) = oneshot::channel();
        if self.listen.send(Listening { session: session.clone(), done }).await.is_ok() {
            let _ = timeout(REALM_CALL_WAIT, ready).await;
        }
        heard
    }

    /// Something has changed that no hint may have told.
    pub(super) fn missed(&self) {
        lock(&self.desks).miss();
    }

    /// Something has happened that no hint may have told: wakes who waits for it.
    pub(super) fn wake(&self, news: &News) {
        lock(&self.desks).wake(|awaited| awaited == news);
    }

    /// Wakes whoever waits for this: requests to a host, or one answer. One that is not taken in time is as good as the
    /// next one.
    pub(super) fn wait_for(&self, awaited: News) -> mpsc::Receiver<()> {
        lock(&self.desks).wait_for(awaited)
    }
}

/// Whether hints of one connection come through to another.
///
/// # Errors
/// [`RealmError::Unfit`] if they do not: something shares the connections.
pub(super) async fn probe(address: &Address) -> Result<(), RealmError> {
    let desks: Arc<Mutex<Desks>> = Arc::default();
    let (echoed, echo) = oneshot::channel();
    let probe = format!("edn_bridge_probe_{}", uuid::Uuid::new_v4().simple());
    lock(&desks).echo = Some((probe.clone(), echoed));
    let notice = desks.clone();
    let on_notice = Arc::new(move |channel: &str, _: &str| {
        let echo = lock(&notice).echo.take_if(|(probe, _)| probe == channel);
        if let Some((_, echo)) = echo {
            let _ = echo.send(());
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
            open = connect_teller(&address).await;
        }
        let Some((link, channel)) = &mut open else { continue };
        let (mut channels, mut texts) = (Vec::new(), Vec::new());
        for one in &waiting {
            match one {
                Telling::News(news) => {
                    channels.push(channel.clone());
                    texts.push(news.text());
                }
                Telling::Said(session, text) => {
                    // The engine would tell two like ones in one statement once.
                    count = count.wrapping_add(1);
                    channels.push(format!("{channel}_{}", suffix(session)));
                    texts.push(format!("{count} {text}"));
                }
            }
        }
        if link.rows(Kind::Read, NOTIFY, &[&channels, &texts]).await.is_err() {
            open = None;
        }
    }
}

async fn connect_teller(address: &Address) -> Option<(Link, String)> {
    let mut link = Link::connect(address, Purpose::Hint, None, ()).await.ok()?;
    let channel = channel(&mut link).await.ok()?;
    Some((link, channel))
}

/// Listens, and connects again for as long as it takes.
async fn listen_always(address: Address, mut asked: mpsc::Receiver<Listening>, desks: Arc<Mutex<Desks>>) {
    loop {
        let _ = listen_once(&address, &mut asked, &desks).await;
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
) -> Result<(), RealmError> {
    let notice = desks.clone();
    let on_notice = Arc::new(move |channel: &str, text: &str| lock(&notice).take_in(channel, text));
    let (on_end, mut ended) = mpsc::channel::<()>(1);
    let mut link = Link::connect(address, Purpose::Hint, Some(on_notice), on_end).await?;
    let channel = channel(&mut link).await?;
    let all: Vec<String> = lock(desks).hearers.keys().cloned().collect();
    let mut script = format!("LISTEN \"{channel}\";");
    for suffix in all {
        script.push_str(&format!("LISTEN \"{channel}_{suffix}\";"));
    }
    link.script(REALM_CALL_WAIT, &script).await?;
    // What was told before this is lost.
    lock(desks).miss();
    loop {
        // What is not kept is lost while the connection is cut, so that it matters where somebody hears.
        let beat = if lock(desks).hearers.is_empty() { REALM_BEAT } else { REALM_WATCH };
        tokio::select! {
            asked = asked.recv() => {
                let Some(Listening { session, done }) = asked else { return Ok(()) };
                link.script(REALM_CALL_WAIT, &format!("LISTEN \"{channel}_{}\"", suffix(&session))).await?;
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
            }
        }
    }
}

/// What distinguishes the channel of what a session's owner says.
fn suffix(session: &SessionId) -> String {
    sha256::hex(session.as_str()).chars().take(24).collect()
}

impl Desks {
    fn take_in(&mut self, channel: &str, text: &str) {
        if let Some((_, suffix)) = channel.split_once('_') {
            let said: Arc<str> = text.split_once(' ').map_or("", |(_, said)| said).into();
            if let Some(hearers) = self.hearers.get_mut(suffix) {
                hearers.retain(|to| {
                    !matches!(to.try_send(said.clone()), Err(mpsc::error::TrySendError::Closed(_)))
                });
            }
            return;
        }
        match News::read(text) {
            Some(News::Session(session, seq)) => {
                for desk in &mut self.watchers {
                    if desk.session.as_ref().is_none_or(|wanted| *wanted == session) {
                        desk.offer(RealmHint::Session { session: session.clone(), seq });
                    }
                }
            }
            Some(news @ (News::Request(_) | News::Answer(_))) => self.wake(|awaited| *awaited == news),
            None => {}
        }
    }

    fn wait_for(&mut self, awaited: News) -> mpsc::Receiver<()> {
        let (to, woken) = mpsc::channel(1);
        self.post.push((awaited, to));
        woken
    }

    fn wake(&mut self, is_awaited: impl Fn(&News) -> bool) {
        self.post.retain(|(awaited, to)| {
            if is_awaited(awaited) {
                let _ = to.try_send(());
            }
            !to.is_closed()
        });
    }

    /// Says to everybody that something may be missing.
    fn miss(&mut self) {
        self.watchers.iter_mut().for_each(|desk| desk.offer(RealmHint::Anything));
        self.wake(|_| true);
    }

    /// Forgets who has gone, and tells those who have missed something. Returns the channels nobody hears any more.
    fn sweep(&mut self) -> Vec<String> {
        self.watchers.retain(|desk| !desk.to.is_closed());
        for desk in self.watchers.iter_mut().filter(|desk| desk.missed) {
            desk.offer(RealmHint::Anything);
        }
        self.post.retain(|(_, to)| !to.is_closed());
        let mut gone = Vec::new();
        self.hearers.retain(|suffix, to| {
            to.retain(|to| !to.is_closed());
            if to.is_empty() {
                gone.push(suffix.clone());
            }
            !to.is_empty()
        });
        gone
    }
}

impl Desk<RealmHint> {
    fn offer(&mut self, hint: RealmHint) {
        let hint = if self.missed { RealmHint::Anything } else { hint };
        self.missed = matches!(self.to.try_send(hint), Err(mpsc::error::TrySendError::Full(_)));
    }
}

fn lock(desks: &Mutex<Desks>) -> MutexGuard<'_, Desks> {
    desks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pause between two looks for what a hint did not bring.
pub(super) async fn woken_or(woken: &mut mpsc::Receiver<()>, pause: Duration) {
    let _ = timeout(pause, woken.recv()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_round_trip() {
        for news in [
            News::Session("a b c".into(), Some(7)),
            News::Session("s".into(), None),
            News::Request(HostName::parse("laptop").unwrap()),
            News::Answer("id 1".into()),
        ] {
            assert_eq!(News::read(&news.text()), Some(news));
        }
        for wrong in ["", "s", "s x y", "r a/b", "z 1"] {
            assert_eq!(News::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn news_wakes_who_waits_for_it_and_nobody_else() {
        let mut desks = Desks::default();
        let host = |name| News::Request(HostName::parse(name).unwrap());
        let mut waiting =
            [News::Answer("1".into()), News::Answer("2".into()), host("laptop"), host("server")]
                .map(|awaited| desks.wait_for(awaited));
        let mut woken = |desks: &mut Desks, text: &str| {
            desks.take_in("c", text);
            waiting.each_mut().map(|woken| woken.try_recv().is_ok())
        };
        assert_eq!(woken(&mut desks, "a 1"), [true, false, false, false]);
        assert_eq!(woken(&mut desks, "r laptop"), [false, false, true, false]);
        assert_eq!(woken(&mut desks, "s 1 1"), [false; 4]);
        desks.miss();
        assert_eq!(woken(&mut desks, "a 3"), [true; 4]);
        drop(waiting);
        desks.take_in("c", "a 3");
        assert!(desks.post.is_empty(), "who has gone is forgotten");
    }

    #[test]
    fn full_watcher_is_told_that_something_is_missing() {
        let mut desks = Desks::default();
        let (to, mut hints) = mpsc::channel(1);
        desks.watchers.push(Desk { session: Some("s".into()), to, missed: false });
        for text in ["s 1 other", "s 1 s", "s 2 s", "s 3 s"] {
            desks.take_in("c", text);
        }
        assert_eq!(hints.try_recv(), Ok(RealmHint::Session { session: "s".into(), seq: Some(1) }));
        assert!(hints.try_recv().is_err());
        desks.sweep();
        assert_eq!(hints.try_recv(), Ok(RealmHint::Anything));
        desks.take_in("c", "o s");
        assert_eq!(hints.try_recv(), Ok(RealmHint::Session { session: "s".into(), seq: None }));
    }
}
