//! The queue of messages that wait for the running turn's next model call (steering) or for its end
//! (follow-ups).
//!
//! Every change of the queue is a journal entry, so that it survives a restart: `queued` with the message,
//! `dequeued` with the entries that no longer wait. Pure: entries in, entries out.

use std::sync::Arc;

use crate::event::Cause;
use crate::message::{Block, EntryId, SessionId, TurnId};
use crate::session::Prompt;
use crate::store::{Entry, EntryBody};
use crate::value::{Map, Value};

/// The type of an entry that adds a message.
const QUEUED: &str = "queued";

/// The type of an entry that removes messages.
const DEQUEUED: &str = "dequeued";

/// The time at which a message leaves the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The next model call of the running turn.
    NextCall,
    /// The end of the running turn.
    TurnEnd,
}

impl Until {
    /// The name in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NextCall => "steer",
            Self::TurnEnd => "follow-up",
        }
    }
}

/// A waiting message.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Its journal entry.
    pub entry: EntryId,
    /// What it waits for.
    pub until: Until,
    /// Its content.
    pub content: Vec<Block>,
    /// The turn that it will start, if it is a follow-up.
    pub turn: Option<TurnId>,
    /// The request that brought it, while its connection lives.
    pub cause: Option<Cause>,
}

impl Waiting {
    /// Its text.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_ref()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// The waiting messages of a session, oldest first. A copy shares them.
#[derive(Debug, Clone, Default)]
pub struct Queue(imbl::Vector<Waiting>);

impl Queue {
    /// The number of waiting messages.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All waiting messages, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    /// Those that wait for the next model call.
    pub fn steering(&self) -> Vec<Waiting> {
        self.0.iter().filter(|waiting| waiting.until == Until::NextCall).cloned().collect()
    }

    /// Whether a message waits for the end of the turn.
    pub fn has_follow_up(&self) -> bool {
        self.0.iter().any(|waiting| waiting.until == Until::TurnEnd)
    }

    /// The message that starts the next turn.
    pub fn first(&self) -> Option<Waiting> {
        self.0.front().cloned()
    }

    /// Records which request brought a message.
    pub fn set_cause(&mut self, entry: &EntryId, cause: Cause) {
        if let Some(waiting) = self.0.iter_mut().find(|waiting| waiting.entry == *entry) {
            waiting.cause = Some(cause);
        }
    }

    /// Applies a journal entry, if it is one of the queue's. A fork also has entries of its source session;
    /// messages that waited there do not wait here.
    pub fn apply(&mut self, entry: &Entry, session: &SessionId) {
        let EntryBody::Other { kind, data } = &entry.body else { return };
        if data.get_keyword("session-id").and_then(Value::as_str) != Some(session.as_str()) {
            return;
        }
        match &**kind {
            QUEUED => {
                let content = data.get_keyword("content").and_then(Value::as_slice).unwrap_or_default();
                let until = match data.get_keyword("until").and_then(Value::as_str) {
                    Some("steer") => Until::NextCall,
                    _ => Until::TurnEnd,
                };
                let turn = data.get_keyword("turn-id").and_then(Value::as_str).map(TurnId::from);
                self.0.push_back(Waiting {
                    entry: entry.id.clone(),
                    until,
                    content: content.iter().filter_map(Block::from_value).collect(),
                    turn,
                    cause: None,
                });
            }
            DEQUEUED => {
                let ids = data.get_keyword("entry-ids").and_then(Value::as_slice).unwrap_or_default();
                let gone = |id: &EntryId| ids.iter().any(|gone| gone.as_str() == Some(id.as_str()));
                self.0.retain(|waiting| !gone(&waiting.entry));
            }
            _ => {}
        }
    }
}

/// The blocks of a user's message.
pub fn content(prompt: Prompt) -> Vec<Block> {
    let mut content = vec![Block::Text(prompt.message.into())];
    content.extend(prompt.images.into_iter().map(|(mime_type, data)| Block::Image { mime_type, data }));
    content
}

/// The entry that adds a message.
pub fn queued(session: &SessionId, until: Until, content: &[Block], turn: Option<&TurnId>) -> EntryBody {
    let mut data = Map::new();
    data.put("session-id", session.to_value());
    data.put("until", until.as_str());
    data.put("content", Value::vector(content.iter().map(Block::to_value)));
    data.put_some("turn-id", turn.map(TurnId::to_value));
    EntryBody::Other { kind: Arc::from(QUEUED), data }
}

/// The entry that removes messages.
pub fn dequeued(session: &SessionId, waiting: &[Waiting]) -> EntryBody {
    let mut data = Map::new();
    data.put("session-id", session.to_value());
    data.put("entry-ids", Value::vector(waiting.iter().map(|waiting| waiting.entry.to_value())));
    EntryBody::Other { kind: Arc::from(DEQUEUED), data }
}
