//! Other hosts as clients of the engine of a session's owner: one for each host and session. It answers questions, and
//! passes on the running answer; everything else other hosts read from the entries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::edn;
use crate::engine::services::Services;
use crate::event::{Body, Event};
use crate::federation::Federation;
use crate::limits::{REALM_FOLLOWER, REALM_HINT_BYTES, REALM_SAY};
use crate::message::{SessionId, TurnId};
use crate::realm::HostName;
use crate::session::{Client, Pressure};
use crate::value::{Map, Value};

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
}

impl Followers {
    /// Forgets who follows a session.
    pub(super) fn leave(&self, shared: &Services, session: &SessionId) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _), follower| follower.is_kept(shared, of != session));
    }

    /// The connection of a host that asks about a session, with its client where it is new. It is there for as long as the
    /// host says something now and then.
    pub(super) fn connection(
        &self,
        shared: &Arc<Services>,
        session: &SessionId,
        from: &HostName,
    ) -> (u64, Option<Arc<dyn Client>>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, follower| follower.is_kept(shared, follower.heard.elapsed() < REALM_FOLLOWER));
        let mut new = None;
        let of_session = |all: &HashMap<(SessionId, HostName), Follower>| {
            let of_session = all.iter().filter(|((of, _), _)| of == session).map(|(_, follower)| follower);
            of_session
                .min_by_key(|follower| follower.connection)
                .map(|it| (it.connection, it.speaker.clone()))
        };
        let speaker = of_session(&all).map(|(_, speaker)| speaker).unwrap_or_default();
        let known = all.entry((session.clone(), from.clone())).or_insert_with(|| {
            let connection = FIRST.saturating_add(self.numbers.fetch_add(1, Ordering::Relaxed));
            let client: Arc<dyn Client> = Arc::new(RemoteClient {
                session: session.clone(),
                federation: shared.federation.get().cloned(),
                executor: shared.executor.clone(),
                words: Arc::default(),
                connection,
                speaker: speaker.clone(),
            });
            shared.hub.attach(connection, client.clone());
            new = Some(client);
            Follower { connection, heard: Instant::now(), speaker: speaker.clone() }
        });
        known.heard = Instant::now();
        let connection = known.connection;
        if let Some((first, speaker)) = of_session(&all) {
            speaker.store(first, Ordering::Release);
        }
        (connection, new)
    }
}

impl Follower {
    /// Takes its connection away, unless it is here.
    fn is_kept(&self, shared: &Services, is_here: bool) -> bool {
        if !is_here {
            shared.hub.detach(self.connection);
            shared.questions.left(self.connection);
        }
        is_here
    }
}

/// The words of a running answer that are not sent yet.
#[derive(Default)]
struct Words {
    turn: Option<TurnId>,
    is_thinking: bool,
    text: String,
    is_waiting: bool,
}

/// A host that follows a session, as a client.
struct RemoteClient {
    session: SessionId,
    federation: Option<Arc<Federation>>,
    executor: tokio::runtime::Handle,
    words: Arc<Mutex<Words>>,
    connection: u64,
    speaker: Arc<AtomicU64>,
}

impl RemoteClient {
    /// Passes on words of an answer, merged with those that come soon. They may be lost: the entry has them all.
    fn say(&self, turn: Option<&TurnId>, is_thinking: bool, text: &str) {
        let Some(federation) = self.federation.clone() else { return };
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if (words.turn.as_ref(), words.is_thinking) != (turn, is_thinking) && !words.text.is_empty() {
            let before = std::mem::take(&mut words.text);
            let (turn, was_thinking) = (words.turn.clone(), words.is_thinking);
            let (federation, session) = (federation.clone(), self.session.clone());
            self.executor
                .spawn(async move { send(&federation, &session, turn, was_thinking, &before).await });
        }
        words.turn = turn.cloned();
        words.is_thinking = is_thinking;
        words.text.push_str(text);
        if !std::mem::replace(&mut words.is_waiting, true) {
            let (waiting, session) = (self.words.clone(), self.session.clone());
            self.executor.spawn(async move {
                tokio::time::sleep(REALM_SAY).await;
                let (turn, is_thinking, text) = {
                    let mut words = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    words.is_waiting = false;
                    (words.turn.clone(), words.is_thinking, std::mem::take(&mut words.text))
                };
                send(&federation, &session, turn, is_thinking, &text).await;
            });
        }
    }
}

/// A part of a text, which is as long as a hint can be when its characters are escaped.
const PART: usize = REALM_HINT_BYTES / 8;

async fn send(
    federation: &Federation,
    session: &SessionId,
    turn: Option<TurnId>,
    is_thinking: bool,
    text: &str,
) {
    let characters: Vec<char> = text.chars().collect();
    for part in characters.chunks(PART) {
        let part: String = part.iter().collect();
        let mut map = Map::new();
        map.put_some("turn", turn.as_ref().map(|turn| turn.as_str().to_owned()));
        map.put(if is_thinking { "thinking" } else { "text" }, part);
        let mut said = Vec::new();
        edn::write_compact(&Value::from(map), &mut said);
        federation.say(session, &String::from_utf8_lossy(&said)).await;
    }
}

/// What the owner of a session said, as an event's turn and body.
pub(super) fn heard(said: &str) -> Option<(Option<TurnId>, Body)> {
    let value = edn::read_one(said.as_bytes()).ok()?;
    let text = |key| value.get(key).and_then(Value::as_str);
    let body = match (text("text"), text("thinking")) {
        (Some(text), _) => Body::AssistantDelta(text.into()),
        (None, Some(text)) => Body::ThinkingDelta(text.into()),
        (None, None) => return None,
    };
    Some((text("turn").map(TurnId::from), body))
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
        if speaks && event.session.as_ref() == Some(&self.session) {
            match &event.body {
                Body::AssistantDelta(text) => self.say(event.turn.as_ref(), false, text),
                Body::ThinkingDelta(text) => self.say(event.turn.as_ref(), true, text),
                _ => {}
            }
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
        true
    }

    fn asks_about(&self, session: &SessionId, _: Option<&crate::event::Subagent>) -> bool {
        *session == self.session
    }

    fn close(&self) {}
}

/// The pause in which a host says that it follows a session, a third of [`REALM_FOLLOWER`].
pub(super) const FOLLOW_AGAIN: Duration = Duration::from_secs(20);
