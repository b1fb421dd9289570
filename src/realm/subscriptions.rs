//! Who wants to know what, of hints and of what is said: the part that every engine's hints have in common.
//!
//! An engine tells what it takes from one end of the [`RealmSubscriptions`], and lets the desks take in what it hears. Nobody waits for
//! a hint, and one that is lost costs a follower a second at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::limits::{REALM_CALL_WAIT, REALM_HINT_BYTES, REALM_WAITING, REALM_WATCH};
use crate::message::SessionId;
use crate::realm::calls::{Hints, RealmCall, Utterances};
use crate::realm::error::RealmError;
use crate::realm::texts::too_long;
use crate::realm::types::{HostName, RealmHint};

/// What a hint says, as text: a letter, a space, and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hint {
    /// A session's log, slot or owner.
    Session(SessionId, Option<u64>),
    /// A request for a host.
    Request(HostName),
    /// An answer to a request.
    Answer(Arc<str>),
}

impl Hint {
    pub(super) fn text(&self) -> String {
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

/// What hosts tell each other, and who wants to know.
pub(super) struct RealmSubscriptions {
    tell: mpsc::Sender<Telling>,
    listen: mpsc::Sender<Listening>,
    desks: Arc<Mutex<Desks>>,
    channel: fn(&SessionId) -> String,
}

/// What is to be told.
pub(super) enum Telling {
    News(Hint),
    /// The channel of a session, and what is said there.
    Said(String, Arc<str>),
}

/// A channel that somebody hears from now on.
pub(super) struct Listening {
    pub(super) channel: String,
    pub(super) done: oneshot::Sender<()>,
}

#[derive(Default)]
pub(super) struct Desks {
    watchers: Vec<RealmSubscriber<RealmHint>>,
    /// By channel.
    hearers: HashMap<String, Vec<mpsc::Sender<Arc<str>>>>,
    /// Who waits for requests to a host, or for one answer.
    post: Vec<(Hint, mpsc::Sender<()>)>,
}

struct RealmSubscriber<T> {
    session: Option<SessionId>,
    to: mpsc::Sender<T>,
    /// Something did not fit.
    missed: bool,
}

impl RealmSubscriptions {
    /// A board, with the ends that an engine serves: what is to be told, and what is to be heard. `channel` names the
    /// channel of what a session's owner says.
    pub(super) fn new(
        channel: fn(&SessionId) -> String,
    ) -> (Self, mpsc::Receiver<Telling>, mpsc::Receiver<Listening>) {
        let (tell, to_tell) = mpsc::channel(REALM_WAITING);
        let (listen, to_listen) = mpsc::channel(REALM_WAITING);
        (Self { tell, listen, desks: Arc::default(), channel }, to_tell, to_listen)
    }

    /// Where what is heard is taken in.
    pub(super) fn desks(&self) -> Arc<Mutex<Desks>> {
        self.desks.clone()
    }

    /// Tells something, unless too much waits already.
    pub(super) fn tell(&self, news: Hint) {
        let _ = self.tell.try_send(Telling::News(news));
    }

    /// Says something to those who follow a session, unless too much waits already.
    pub(super) fn say<'a>(&'a self, session: &'a SessionId, text: &'a str) -> RealmCall<'a, ()> {
        async move {
            too_long(text.len(), REALM_HINT_BYTES)?;
            let _ = self.tell.try_send(Telling::Said((self.channel)(session), text.into()));
            Ok(())
        }
        .boxed()
    }

    pub(super) fn watch<'a>(&'a self, session: Option<&'a SessionId>) -> RealmCall<'a, Hints> {
        async move {
            let (to, hints) = mpsc::channel(REALM_WAITING);
            lock(&self.desks).watchers.push(RealmSubscriber { session: session.cloned(), to, missed: false });
            Ok(hints)
        }
        .boxed()
    }

    /// What a session's owner says from when this returns, if the engine can be reached.
    pub(super) fn hear<'a>(&'a self, session: &'a SessionId) -> RealmCall<'a, Utterances> {
        async move {
            let (to, heard) = mpsc::channel(REALM_WAITING);
            let channel = (self.channel)(session);
            lock(&self.desks).hearers.entry(channel.clone()).or_default().push(to);
            let (done, ready) = oneshot::channel();
            if self.listen.send(Listening { channel, done }).await.is_ok() {
                let _ = timeout(REALM_CALL_WAIT, ready).await;
            }
            Ok(heard)
        }
        .boxed()
    }

    /// Waits for an answer of a host that is asked, until a time: `woken` is told of it, and `look` finds it.
    pub(super) async fn answered<L: Future<Output = Result<Option<Arc<str>>, RealmError>>>(
        &self,
        host: &HostName,
        end: Instant,
        woken: &mut mpsc::Receiver<()>,
        look: impl Fn() -> L,
    ) -> Result<Arc<str>, RealmError> {
        while Instant::now() < end {
            // Again and again: the host looks for requests when it hears of one.
            self.tell(Hint::Request(host.clone()));
            woken_or(woken, REALM_WATCH).await;
            // It is asked by now, so that no error says that nothing was done.
            if let Ok(Some(answer)) = look().await {
                return Ok(answer);
            }
        }
        Err(RealmError::Unanswered)
    }

    /// Something has changed that no hint may have told.
    pub(super) fn missed(&self) {
        lock(&self.desks).miss();
    }

    /// Something has happened that no hint may have told: wakes who waits for it.
    pub(super) fn wake(&self, news: &Hint) {
        lock(&self.desks).wake(|awaited| awaited == news);
    }

    /// Wakes whoever waits for this: requests to a host, or one answer. One that is not taken in time is as good as the
    /// next one.
    pub(super) fn wait_for(&self, awaited: Hint) -> mpsc::Receiver<()> {
        lock(&self.desks).wait_for(awaited)
    }
}

impl Desks {
    /// Takes in a hint.
    pub(super) fn hint(&mut self, text: &str) {
        match Hint::read(text) {
            Some(Hint::Session(session, seq)) => {
                for desk in &mut self.watchers {
                    if desk.session.as_ref().is_none_or(|wanted| *wanted == session) {
                        desk.offer(RealmHint::Session { session: session.clone(), seq });
                    }
                }
            }
            Some(news @ (Hint::Request(_) | Hint::Answer(_))) => self.wake(|awaited| *awaited == news),
            None => {}
        }
    }

    /// Takes in what is said in a channel.
    pub(super) fn said(&mut self, channel: &str, text: &str) {
        let said: Arc<str> = text.into();
        if let Some(hearers) = self.hearers.get_mut(channel) {
            hearers
                .retain(|to| !matches!(to.try_send(said.clone()), Err(mpsc::error::TrySendError::Closed(_))));
        }
    }

    /// The channels that somebody hears.
    pub(super) fn channels(&self) -> Vec<String> {
        self.hearers.keys().cloned().collect()
    }

    fn wait_for(&mut self, awaited: Hint) -> mpsc::Receiver<()> {
        let (to, woken) = mpsc::channel(1);
        self.post.push((awaited, to));
        woken
    }

    fn wake(&mut self, is_awaited: impl Fn(&Hint) -> bool) {
        self.post.retain(|(awaited, to)| {
            if is_awaited(awaited) {
                let _ = to.try_send(());
            }
            !to.is_closed()
        });
    }

    /// Says to everybody that something may be missing.
    pub(super) fn miss(&mut self) {
        self.watchers.iter_mut().for_each(|desk| desk.offer(RealmHint::Anything));
        self.wake(|_| true);
    }

    /// Forgets who has gone, and tells those who have missed something. Returns the channels nobody hears any more.
    pub(super) fn sweep(&mut self) -> Vec<String> {
        self.watchers.retain(|desk| !desk.to.is_closed());
        for desk in self.watchers.iter_mut().filter(|desk| desk.missed) {
            desk.offer(RealmHint::Anything);
        }
        self.post.retain(|(_, to)| !to.is_closed());
        let mut gone = Vec::new();
        self.hearers.retain(|channel, to| {
            to.retain(|to| !to.is_closed());
            if to.is_empty() {
                gone.push(channel.clone());
            }
            !to.is_empty()
        });
        gone
    }
}

impl RealmSubscriber<RealmHint> {
    fn offer(&mut self, hint: RealmHint) {
        let hint = if self.missed { RealmHint::Anything } else { hint };
        self.missed = matches!(self.to.try_send(hint), Err(mpsc::error::TrySendError::Full(_)));
    }
}

/// Whether hints work. Each change is logged once, however often they are tried.
#[derive(Default)]
pub(super) struct Standing {
    fails: bool,
}

impl Standing {
    pub(super) fn fails(&mut self, what: &str, error: &RealmError) {
        if !std::mem::replace(&mut self.fails, true) {
            tracing::warn!(%error, "hints of the realm are not {what}: what other hosts do is seen later");
        }
    }

    pub(super) fn works(&mut self, what: &str) {
        if std::mem::take(&mut self.fails) {
            tracing::info!("hints of the realm are {what} again");
        }
    }
}

pub(super) fn lock(desks: &Mutex<Desks>) -> MutexGuard<'_, Desks> {
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
            Hint::Session("a b c".into(), Some(7)),
            Hint::Session("s".into(), None),
            Hint::Request(HostName::parse("laptop").unwrap()),
            Hint::Answer("id 1".into()),
        ] {
            assert_eq!(Hint::read(&news.text()), Some(news));
        }
        for wrong in ["", "s", "s x y", "r a/b", "z 1"] {
            assert_eq!(Hint::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn news_wakes_who_waits_for_it_and_nobody_else() {
        let mut desks = Desks::default();
        let host = |name| Hint::Request(HostName::parse(name).unwrap());
        let mut waiting =
            [Hint::Answer("1".into()), Hint::Answer("2".into()), host("laptop"), host("server")]
                .map(|awaited| desks.wait_for(awaited));
        let mut woken = |desks: &mut Desks, text: &str| {
            desks.hint(text);
            waiting.each_mut().map(|woken| woken.try_recv().is_ok())
        };
        assert_eq!(woken(&mut desks, "a 1"), [true, false, false, false]);
        assert_eq!(woken(&mut desks, "r laptop"), [false, false, true, false]);
        assert_eq!(woken(&mut desks, "s 1 1"), [false; 4]);
        desks.miss();
        assert_eq!(woken(&mut desks, "a 3"), [true; 4]);
        drop(waiting);
        desks.hint("a 3");
        assert!(desks.post.is_empty(), "who has gone is forgotten");
    }

    #[test]
    fn full_watcher_is_told_that_something_is_missing() {
        let mut desks = Desks::default();
        let (to, mut hints) = mpsc::channel(1);
        desks.watchers.push(RealmSubscriber { session: Some("s".into()), to, missed: false });
        for text in ["s 1 other", "s 1 s", "s 2 s", "s 3 s"] {
            desks.hint(text);
        }
        assert_eq!(hints.try_recv(), Ok(RealmHint::Session { session: "s".into(), seq: Some(1) }));
        assert!(hints.try_recv().is_err());
        desks.sweep();
        assert_eq!(hints.try_recv(), Ok(RealmHint::Anything));
        desks.hint("o s");
        assert_eq!(hints.try_recv(), Ok(RealmHint::Session { session: "s".into(), seq: None }));
    }
}
