//! The queue of messages that wait for the running turn's next model call (steering) or for its end
//! (follow-ups).
//!
//! Every change of the queue is a journal entry, so that it survives a restart: `queued` with the message,
//! `dequeued` with the entries that no longer wait. Pure: entries in, entries out.

use std::sync::Arc;

use crate::event::Cause;
use crate::message::{Block, EntryId, SessionId, TurnId};
use crate::session::Prompt;
pub use crate::store::record::Until;
use crate::store::record::{Dequeued, Queued, Request, Via};
use crate::store::{Entry, EntryBody};

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
    /// The same as the journal notes it, if it has a key.
    pub request: Option<Arc<Request>>,
}

impl Waiting {
    /// Its text.
    pub fn text(&self) -> String {
        text(&self.content)
    }

    /// Whether a client that interrupts the turn gets its text back. What control has acknowledged goes on waiting: its
    /// sender would not be told.
    pub fn is_returned(&self) -> bool {
        self.request.as_ref().is_none_or(|request| request.via != Via::Control)
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
        match &entry.body {
            EntryBody::Queued(queued) if queued.session_id == *session => self.0.push_back(Waiting {
                entry: entry.id.clone(),
                until: queued.until,
                content: queued.content.clone(),
                turn: queued.turn_id.clone(),
                cause: None,
                request: entry.request.clone(),
            }),
            EntryBody::Dequeued(gone) if gone.session_id == *session => {
                self.0.retain(|waiting| !gone.entry_ids.contains(&waiting.entry));
            }
            _ => {}
        }
    }
}

/// The text of a message.
pub fn text(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The blocks of a user's message.
pub fn content(prompt: Prompt) -> Vec<Block> {
    let mut content = vec![Block::Text(prompt.message.into())];
    content.extend(prompt.images.into_iter().map(|image| {
        let (mime_type, data) = image.into_parts();
        Block::Image { mime_type, data }
    }));
    content
}

/// The entry that adds a message.
pub fn queued(session: &SessionId, until: Until, content: &[Block], turn: Option<&TurnId>) -> EntryBody {
    let (session_id, content, turn_id) = (session.clone(), content.to_vec(), turn.cloned());
    EntryBody::Queued(Box::new(Queued { session_id, until, content, turn_id }))
}

/// The entry that removes messages: delivered ones, or with `returned` those whose text a client gets back.
pub fn dequeued(session: &SessionId, waiting: &[Waiting], returned: bool) -> EntryBody {
    let entry_ids = waiting.iter().map(|waiting| waiting.entry.clone()).collect();
    EntryBody::Dequeued(Dequeued { session_id: session.clone(), entry_ids, returned })
}
