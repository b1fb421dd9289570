//! Other hosts as clients of the engine of a session's owner: one for each host and session. It answers questions, and
//! passes on the running answer; everything else other hosts read from the entries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::engine::live_forward::{ForwardedEvents, Utterance, Word};
use crate::engine::services::Services;
use crate::event::{Event, Piece};
use crate::federation::Federation;
use crate::limits::{REALM_FOLLOWER, REALM_SAY};
use crate::message::SessionId;
use crate::realm::HostName;
use crate::session::{Client, Pressure};

/// The number of the first such connection: those of clients are counted from 1.
const FIRST: u64 = 1 << 62;

/// The other hosts that follow sessions of this one.
#[derive(Default)]
pub(super) struct Followers {
    all: Mutex<HashMap<(SessionId, HostName), Follower>>,
    numbers: AtomicU64,
}

struct Follower {
    connection: u64,
    heard: Instant,
    /// The connection that passes on the words of the session, to all hosts that follow it.
    speaker: Arc<AtomicU64>,
    answers: Arc<AtomicBool>,
}

impl Followers {
    /// Whether a connection is that of another host.
    pub(super) const fn has(connection: u64) -> bool {
        connection >= FIRST
    }

    /// Notes whether people at a host answer questions of a session. Returns whether that has just begun.
    pub(super) fn has_people(&self, shared: &Services, connection: u64, answers: bool) -> bool {
        let all = self.all();
        let Some(follower) = all.values().find(|follower| follower.connection == connection) else {
            return false;
        };
        let before = follower.answers.swap(answers, Ordering::AcqRel);
        drop(all);
        if before && !answers {
            shared.questions.left(connection);
        }
        answers && !before
    }

    /// Forgets who follows a session.
    pub(super) fn leave(&self, shared: &Services, session: &SessionId) {
        self.all().retain(|(of, _), follower| {
            if of == session {
                follower.detach(shared);
            }
            of != session
        });
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(SessionId, HostName), Follower>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a host that asks about a session, with its client where it is new. It is there for as long as the
    /// host says something now and then.
    pub(super) fn connection(
        self: &Arc<Self>,
        shared: &Arc<Services>,
        session: &SessionId,
        from: &HostName,
    ) -> (u64, Option<Arc<dyn Client>>) {
        let mut all = self.all();
        let key = (session.clone(), from.clone());
        if let Some(known) = all.get_mut(&key) {
            known.heard = Instant::now();
            return (known.connection, None);
        }
        let connection = FIRST.saturating_add(self.numbers.fetch_add(1, Ordering::Relaxed));
        let speaker = first_of(&all, session).map(|first| first.speaker.clone());
        let speaker = speaker.unwrap_or_else(|| Arc::new(AtomicU64::new(connection)));
        // It asks because somebody there wants something, and says soon whether they answer questions.
        let answers = Arc::new(AtomicBool::new(true));
        let client: Arc<dyn Client> = Arc::new(RemoteClient {
            session: session.clone(),
            federation: shared.federation.get().cloned(),
            executor: shared.executor.clone(),
            words: Arc::default(),
            connection,
            speaker: speaker.clone(),
            answers: answers.clone(),
        });
        shared.hub.attach(connection, client.clone());
        all.insert(key.clone(), Follower { connection, heard: Instant::now(), speaker, answers });
        shared.executor.spawn(expire(Arc::downgrade(self), Arc::downgrade(shared), key, connection));
        (connection, Some(client))
    }
}

impl Follower {
    /// Takes its connection away.
    fn detach(&self, shared: &Services) {
        shared.hub.detach(self.connection);
        shared.questions.left(self.connection);
    }
}

/// The first of a session's followers.
fn first_of<'f>(
    all: &'f HashMap<(SessionId, HostName), Follower>,
    session: &SessionId,
) -> Option<&'f Follower> {
    let of_session = all.iter().filter(|((of, _), _)| of == session).map(|(_, follower)| follower);
    of_session.min_by_key(|follower| follower.connection)
}

/// Takes a follower out once it has said nothing for [`REALM_FOLLOWER`].
async fn expire(
    followers: Weak<Followers>,
    shared: Weak<Services>,
    key: (SessionId, HostName),
    connection: u64,
) {
    loop {
        let heard = {
            let (Some(followers), Some(shared)) = (followers.upgrade(), shared.upgrade()) else { return };
            let mut all = followers.all();
            let known = all.get(&key).filter(|follower| follower.connection == connection);
            let Some(follower) = known else { return };
            if follower.heard.elapsed() >= REALM_FOLLOWER {
                follower.detach(&shared);
                all.remove(&key);
                if let Some(first) = first_of(&all, &key.0) {
                    first.speaker.store(first.connection, Ordering::Release);
                }
                return;
            }
            follower.heard
        };
        sleep_until(heard + REALM_FOLLOWER).await;
    }
}

/// A host that follows a session, as a client.
struct RemoteClient {
    session: SessionId,
    federation: Option<Arc<Federation>>,
    executor: tokio::runtime::Handle,
    words: Arc<Mutex<ForwardedEvents>>,
    connection: u64,
    speaker: Arc<AtomicU64>,
    answers: Arc<AtomicBool>,
}

impl RemoteClient {
    /// Passes on a word, with those that come soon.
    fn say(&self, word: Word) {
        let Some(federation) = self.federation.clone() else { return };
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.add(word);
        if !std::mem::replace(&mut words.is_sending, true) {
            self.executor.spawn(send(federation, self.session.clone(), self.words.clone()));
        }
    }
}

/// Sends what is queued, in order, until nothing is.
async fn send(federation: Arc<Federation>, session: SessionId, words: Arc<Mutex<ForwardedEvents>>) {
    loop {
        sleep(REALM_SAY).await;
        let waiting = {
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            words.is_sending = !words.waiting.is_empty();
            std::mem::take(&mut words.waiting)
        };
        if waiting.is_empty() {
            return;
        }
        for piece in waiting.iter().flat_map(Word::pieces) {
            federation.say(&session, &piece).await;
        }
    }
}

impl Client for RemoteClient {
    fn watches(&self, session: Option<&SessionId>) -> bool {
        session == Some(&self.session)
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn deliver(&self, event: &Event) -> Pressure {
        let speaks = self.speaker.load(Ordering::Acquire) == self.connection;
        if speaks
            && event.session.as_ref() == Some(&self.session)
            && let Some(said) = Utterance::of(&event.body)
        {
            let piece = event.piece.map(|Piece { call, at }| (call, at));
            self.say(Word { offset: event.offset, turn: event.turn.clone(), piece, said });
        }
        Pressure::Fine
    }

    fn fall_behind(&self) {}

    fn is_behind(&self) -> bool {
        false
    }

    fn focus(&self, _: SessionId) {}

    fn focused(&self) -> SessionId {
        self.session.clone()
    }

    fn is_interactor(&self) -> bool {
        self.answers.load(Ordering::Acquire)
    }

    fn asks_about(&self, session: &SessionId, _: Option<&crate::event::Subagent>) -> bool {
        *session == self.session
    }

    fn close(&self) {}
}

/// The pause in which a host says that it follows a session, a third of [`REALM_FOLLOWER`].
pub(super) const FOLLOW_AGAIN: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Settings;
    use crate::engine::host::Engine;
    use crate::engine::providers::Providers;
    use crate::store::{Durability, Store};

    #[tokio::test(start_paused = true)]
    async fn follower_that_is_silent_is_taken_out_without_a_call() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: dir.path().into(), cwd: "/".into(), ..Settings::default() };
        let store = Store::new(dir.path(), Durability::Relaxed).unwrap();
        let executor = tokio::runtime::Handle::current();
        let engine =
            Engine::new(Arc::new(SystemClock), settings, store, Providers::default(), executor).unwrap();
        let session = SessionId::from("s");
        let follow = |host: &str| {
            let host = HostName::parse(host).unwrap();
            engine.followers.connection(&engine.shared, &session, &host)
        };
        let (first, client) = follow("beta");
        assert!(client.is_some());
        let (second, _) = follow("gamma");
        let attached = || engine.shared.hub.clients().iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let speaks = || first_of(&engine.followers.all(), &session).unwrap().speaker.load(Ordering::Acquire);
        assert_eq!((attached(), speaks()), (vec![first, second], first));
        // One of them goes on saying that it follows.
        sleep(REALM_FOLLOWER / 2).await;
        assert!(follow("gamma").1.is_none());
        sleep(REALM_FOLLOWER * 3 / 4).await;
        assert_eq!((attached(), speaks()), (vec![second], second));
        sleep(REALM_FOLLOWER).await;
        assert!(attached().is_empty());
        // One that comes back is another client.
        assert!(follow("beta").0 > second);
    }
}
