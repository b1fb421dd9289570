//! The keys of a session's requests, with their answers. Pure: entries in, answers out.
//!
//! A key stands in the journal, in the same line as what its request caused, so that there is no moment with the one
//! and without the other. The keys are read when the session is opened, and by each entry from then on. A fork does
//! not know its source's keys.

use std::sync::Arc;

use jiff::Timestamp;

use crate::catalogue::ErrorCode;
use crate::limits::IDEMPOTENCY_KEYS;
use crate::message::{EntryId, SessionId, TurnId};
use crate::session::{ApiError, TurnState};
use crate::store::record::{KeyedRequest, TurnEvent, Via, Wish};
use crate::store::{Entry, EntryBody};

/// A request's key within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    via: Via,
    team: Option<Arc<str>>,
    id: Arc<str>,
}

impl RequestKey {
    /// The key of a request.
    pub fn of(request: &KeyedRequest) -> Self {
        Self { via: request.via, team: request.team.clone(), id: request.id.clone() }
    }
}

/// What is known of a request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedOut {
    digest: Arc<str>,
    /// The entry that carried it out.
    pub entry: EntryId,
    /// The turn of its answer.
    pub turn: Option<TurnId>,
    /// The turn that took its message, once one has.
    taken: Option<TurnId>,
    fate: Fate,
}

/// What became of a request's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Waits,
    Taken,
    Returned,
}

/// The refusal of a request whose key was used for another one.
pub fn conflict(request: &KeyedRequest) -> ApiError {
    let message = format!("The key {:?} was used for another request.", request.id);
    ApiError::new(ErrorCode::IdempotencyConflict, message)
}

/// Whether a request is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// It is.
    New,
    /// It was carried out before.
    Again(CarriedOut),
    /// Its key was used for another request.
    Other,
    /// It is new, and there is no room for its key.
    Full,
}

/// The keys of a session's requests. A copy shares their content.
#[derive(Debug, Clone, Default)]
pub struct IdempotencyKeys {
    known: imbl::HashMap<RequestKey, CarriedOut>,
    /// The keys with their times in milliseconds since the epoch, oldest first.
    order: imbl::Vector<(RequestKey, i64)>,
    /// The turns that took known messages.
    turns: imbl::HashMap<TurnId, Taker>,
    /// The time of the newest key that was forgotten.
    forgotten: Option<i64>,
}

/// A turn that took messages of known requests.
#[derive(Debug, Clone, Copy, Default)]
struct Taker {
    messages: usize,
    has_ended: bool,
}

impl IdempotencyKeys {
    /// Whether the key of a request is known.
    pub fn knows(&self, request: &KeyedRequest) -> bool {
        self.known.contains_key(&RequestKey::of(request))
    }

    /// The number of known keys.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether a request of that time may have been carried out though its key is not known. Its sender's clock may
    /// have been ahead by `skew`. All in milliseconds. Only a clock that was put back makes such a time anything but
    /// long ago.
    pub fn may_have_forgotten(&self, sent_at: i64, skew: u64) -> bool {
        let skew = i64::try_from(skew).unwrap_or(i64::MAX);
        self.forgotten.is_some_and(|newest| sent_at <= newest.saturating_add(skew))
    }

    /// Looks a request up. `now` and `window` are in milliseconds: no key younger than the window is forgotten for a
    /// new one.
    pub fn look_up(&self, request: &KeyedRequest, now: i64, window: u64) -> Lookup {
        match self.known.get(&RequestKey::of(request)) {
            Some(known) if known.digest == request.digest => Lookup::Again(known.clone()),
            Some(_) => Lookup::Other,
            None if self.len() < IDEMPOTENCY_KEYS => Lookup::New,
            None => {
                let oldest = self.order.front().map_or(i64::MIN, |(_, at)| *at);
                let is_young = now.saturating_sub(oldest) < i64::try_from(window).unwrap_or(i64::MAX);
                if is_young { Lookup::Full } else { Lookup::New }
            }
        }
    }

    /// What became of a known request's message, if it has one.
    pub fn state(&self, known: &CarriedOut, running: Option<&TurnId>) -> TurnState {
        match (known.fate, known.taken.as_ref()) {
            (Fate::Waits, _) => TurnState::Waiting,
            (Fate::Returned, _) => TurnState::Returned,
            (Fate::Taken, None) => TurnState::Done,
            (Fate::Taken, Some(turn)) if self.turns.get(turn).is_some_and(|turn| turn.has_ended) => {
                TurnState::Done
            }
            (Fate::Taken, Some(turn)) if running == Some(turn) => TurnState::Running,
            (Fate::Taken, Some(_)) => TurnState::CutOff,
        }
    }

    /// Takes in an entry of the journal of `session`.
    pub fn apply(&mut self, entry: &Entry, session: &SessionId) {
        if let Some(request) = entry.request.as_ref().filter(|request| request.session_id == *session) {
            self.record(entry, request);
        }
        match &entry.body {
            EntryBody::Dequeued(gone) if gone.session_id == *session && gone.returned => {
                let waited =
                    |known: &CarriedOut| known.fate == Fate::Waits && gone.entry_ids.contains(&known.entry);
                let keys = self.known.iter().filter(|(_, known)| waited(known)).map(|(key, _)| key.clone());
                for key in keys.collect::<Vec<_>>() {
                    if let Some(known) = self.known.get_mut(&key) {
                        known.fate = Fate::Returned;
                    }
                }
            }
            EntryBody::Turn(turn) if turn.session_id == *session && turn.event == TurnEvent::Ended => {
                if let Some(taker) = self.turns.get_mut(&turn.turn_id) {
                    taker.has_ended = true;
                }
            }
            _ => {}
        }
    }

    fn record(&mut self, entry: &Entry, request: &KeyedRequest) {
        let (fate, taken) = match &entry.body {
            EntryBody::Queued(_) => (Fate::Waits, None),
            EntryBody::Message(message) => (Fate::Taken, message.turn_id.clone()),
            EntryBody::Requested(asked) if matches!(asked.wish, Wish::Retry | Wish::Continue) => {
                (Fate::Taken, asked.turn_id.clone())
            }
            _ => (Fate::Taken, None),
        };
        if let Some(turn) = &taken {
            let taker = self.turns.entry(turn.clone()).or_default();
            taker.messages = taker.messages.saturating_add(1);
        }
        let key = RequestKey::of(request);
        // The message of a request that waited.
        if let Some(known) = self.known.get_mut(&key) {
            known.fate = fate;
            known.taken = taken;
            return;
        }
        let at = entry.ts.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond);
        let (digest, turn) = (request.digest.clone(), request.turn_id.clone());
        self.known.insert(key.clone(), CarriedOut { digest, entry: entry.id.clone(), turn, taken, fate });
        self.order.push_back((key, at));
        if self.order.len() > IDEMPOTENCY_KEYS
            && let Some((oldest, at)) = self.order.pop_front()
            && let Some(gone) = self.known.remove(&oldest)
        {
            self.forgotten = self.forgotten.max(Some(at));
            self.forget_taker(gone);
        }
    }

    fn forget_taker(&mut self, gone: CarriedOut) {
        if let Some(turn) = gone.taken
            && let Some(taker) = self.turns.get_mut(&turn)
        {
            taker.messages = taker.messages.saturating_sub(1);
            if taker.messages == 0 {
                self.turns.remove(&turn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::IDEMPOTENCY_WINDOW_MS;
    use crate::message::{Block, Message, Role};
    use crate::store::record::{Dequeued, Queued, Requested, TurnRecord, Until, Wish};

    const NOW: i64 = 1_767_225_600_000;

    fn request(session: &str, id: &str, digest: &str) -> KeyedRequest {
        KeyedRequest {
            session_id: session.into(),
            via: Via::Edn,
            team: None,
            id: id.into(),
            sender: None,
            digest: digest.into(),
            turn_id: Some("t-1".into()),
        }
    }

    fn entry(id: &str, at: i64, request: Option<KeyedRequest>, body: EntryBody) -> Entry {
        let ts = Timestamp::from_millisecond(at).unwrap().to_string().into();
        Entry { id: id.into(), parent: None, ts, request: request.map(Arc::new), body }
    }

    fn command(session: &str) -> EntryBody {
        EntryBody::Requested(Requested { session_id: session.into(), wish: Wish::Command, turn_id: None })
    }

    fn known(keys: &IdempotencyKeys, id: &str) -> Option<CarriedOut> {
        match keys.look_up(&request("s", id, "d"), NOW, IDEMPOTENCY_WINDOW_MS) {
            Lookup::Again(known) => Some(known),
            _ => None,
        }
    }

    #[test]
    fn young_key_is_never_forgotten_for_a_new_one() {
        let mut keys = IdempotencyKeys::default();
        let window = i64::try_from(IDEMPOTENCY_WINDOW_MS).unwrap();
        for n in 0..IDEMPOTENCY_KEYS {
            let body = command("s");
            keys.apply(&entry("e", NOW, Some(request("s", &n.to_string(), "d")), body), &"s".into());
        }
        let new = request("s", "new", "d");
        for (now, expected) in [
            (NOW, Lookup::Full),
            (NOW + window - 1, Lookup::Full),
            // The clock was put back by a day.
            (NOW - 86_400_000, Lookup::Full),
            (NOW + window, Lookup::New),
        ] {
            assert_eq!(keys.look_up(&new, now, IDEMPOTENCY_WINDOW_MS), expected, "{now}");
        }
        assert!(known(&keys, "0").is_some(), "a known key is answered though there is no room");
        keys.apply(&entry("e", NOW + window, Some(new), command("s")), &"s".into());
        assert_eq!((keys.len(), known(&keys, "0")), (IDEMPOTENCY_KEYS, None));
        // A request of its time is not taken for a new one after the clock was put back.
        assert!(keys.may_have_forgotten(NOW + 1000, 1000) && !keys.may_have_forgotten(NOW + 1001, 1000));
    }

    #[test]
    fn fork_does_not_know_keys_of_its_source() {
        let mut keys = IdempotencyKeys::default();
        keys.apply(&entry("e", NOW, Some(request("source", "k", "d")), command("source")), &"s".into());
        assert_eq!(known(&keys, "k"), None);
    }

    #[test]
    fn same_key_with_other_digest_is_another_request() {
        let mut keys = IdempotencyKeys::default();
        keys.apply(&entry("e", NOW, Some(request("s", "k", "d")), command("s")), &"s".into());
        assert!(known(&keys, "k").is_some());
        assert_eq!(keys.look_up(&request("s", "k", "other"), NOW, IDEMPOTENCY_WINDOW_MS), Lookup::Other);
    }

    #[test]
    fn state_of_a_message_follows_its_entries() {
        let session = SessionId::from("s");
        let mut keys = IdempotencyKeys::default();
        let state = |keys: &IdempotencyKeys, running: Option<&str>| {
            keys.state(&known(keys, "k").unwrap(), running.map(TurnId::from).as_ref())
        };
        let queued =
            Queued { session_id: "s".into(), until: Until::TurnEnd, content: Vec::new(), turn_id: None };
        let keyed = || Some(request("s", "k", "d"));
        keys.apply(&entry("e-1", NOW, keyed(), EntryBody::Queued(Box::new(queued))), &session);
        assert_eq!(state(&keys, None), TurnState::Waiting);
        let mut back = keys.clone();
        let gone = Dequeued { session_id: "s".into(), entry_ids: vec!["e-1".into()], returned: true };
        back.apply(&entry("e-2", NOW, None, EntryBody::Dequeued(gone)), &session);
        assert_eq!(state(&back, None), TurnState::Returned);
        let mut message = Message::new("e-2".into(), Role::User, vec![Block::Text("x".into())], "".into());
        message.turn_id = Some("t-2".into());
        keys.apply(&entry("e-2", NOW, keyed(), EntryBody::Message(Arc::new(message))), &session);
        assert_eq!(state(&keys, Some("t-2")), TurnState::Running);
        assert_eq!(state(&keys, None), TurnState::CutOff);
        let turn_id = TurnId::from("t-2");
        let ended = TurnRecord { session_id: "s".into(), turn_id, event: TurnEvent::Ended, outcome: None };
        keys.apply(&entry("e-3", NOW, None, EntryBody::Turn(ended)), &session);
        assert_eq!(state(&keys, None), TurnState::Done);
        assert_eq!(known(&keys, "k").unwrap().turn, Some("t-1".into()), "the first answer's");
    }
}
