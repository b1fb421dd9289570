//! The messages queued for the running turn's next model call (steering) or for its end
//! (follow-ups).
//!
//! Every change of the queue is a journal entry, so that it survives a restart: `queued` with the message,
//! `dequeued` with the entries that no longer wait, `queue` for a message that was changed or moved, and when an abort
//! holds the queue or it goes on. Pure: entries in, entries out.

use std::sync::Arc;

use crate::catalogue::ErrorCode;
use crate::environment::Variables;
use crate::event::{Cause, Sender, WaitingMessage, WaitingMessages};
use crate::limits::{QUEUE_TEXT_BYTES, QUEUED_BYTES};
use crate::message::{Block, EntryId, SessionId, TurnId};
use crate::session::{ApiError, Prompt};
pub use crate::store::record::Until;
use crate::store::record::{Dequeued, KeyedRequest, QueueEvent, QueueRecord, Queued, Via};
use crate::store::{Entry, EntryBody};

/// A waiting message.
#[derive(Debug, Clone)]
pub struct QueuedMessage {
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
    /// The name of that connection's client, if it told one.
    pub client: Option<Box<str>>,
    /// The variables that the client brought.
    pub variables: Option<Variables>,
    /// The same request as the journal notes it, if it has a key.
    pub request: Option<Arc<KeyedRequest>>,
    /// When it came, RFC 3339.
    pub queued_at: Arc<str>,
}

impl QueuedMessage {
    /// Its text.
    pub fn text(&self) -> String {
        text(&self.content)
    }

    /// Whether it came through control, which has acknowledged it. It goes on waiting whatever a client does: its sender
    /// would not be told.
    pub fn is_fixed(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.via == Via::Control)
    }

    /// Whether an editor sent it, whose variables are not known any more: they were in another process's memory.
    pub fn has_lost_variables(&self) -> bool {
        self.variables.is_none() && self.cause.is_none() && !self.is_fixed()
    }

    /// Who sent it.
    fn from(&self) -> Sender {
        match &self.cause {
            _ if self.is_fixed() => Sender::Control,
            Some(cause) => Sender::Client { connection: cause.connection, name: self.client.clone() },
            None => Sender::Earlier,
        }
    }

    /// What people are told of it, with at most `bytes` of its text.
    pub fn shown(&self, bytes: usize) -> WaitingMessage {
        let mut text = self.text();
        let is_cut = text.len() > bytes;
        if is_cut {
            text.truncate((0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0));
        }
        let images = self.content.iter().filter(|block| matches!(block, Block::Image { .. }));
        WaitingMessage {
            entry: self.entry.clone(),
            text,
            is_cut,
            images: images.count(),
            until: match self.until {
                Until::NextCall => "next-call",
                Until::TurnEnd => "turn-end",
            },
            from: self.from(),
            sender: self.request.as_ref().and_then(|request| request.sender.clone()),
            turn: self.turn.clone(),
            is_fixed: self.is_fixed(),
            queued_at: self.queued_at.clone(),
        }
    }
}

/// The waiting messages of a session, in the order in which they came or were moved; those that wait for the next call of
/// the model are delivered before the others. A copy shares them.
#[derive(Debug, Clone, Default)]
pub struct MessageQueue {
    waiting: imbl::Vector<QueuedMessage>,
    is_held: bool,
}

impl MessageQueue {
    /// The number of waiting messages.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a message has room beside those that wait, not counting one that makes room for it.
    pub fn has_room(&self, content: &[Block], gone: Option<&EntryId>) -> bool {
        let mut others = self.waiting.iter().filter(|waiting| Some(&waiting.entry) != gone).peekable();
        let is_alone = others.peek().is_none();
        let waiting = others.map(|waiting| bytes(&waiting.content)).fold(0, usize::saturating_add);
        is_alone || waiting.saturating_add(bytes(content)) <= QUEUED_BYTES
    }

    /// Whether an abort holds the messages, so that none is delivered.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// All waiting messages.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.waiting.iter()
    }

    /// A waiting message.
    pub fn get(&self, entry: &EntryId) -> Option<&QueuedMessage> {
        self.waiting.iter().find(|waiting| waiting.entry == *entry)
    }

    /// Those that the next model call takes.
    pub fn steering(&self) -> Vec<QueuedMessage> {
        let steering = |waiting: &&QueuedMessage| waiting.until == Until::NextCall && !self.is_held;
        self.waiting.iter().filter(steering).cloned().collect()
    }

    /// Whether the end of the turn takes a message.
    pub fn has_follow_up(&self) -> bool {
        !self.is_held && self.waiting.iter().any(|waiting| waiting.until == Until::TurnEnd)
    }

    /// The message that starts the next turn.
    pub fn first(&self) -> Option<QueuedMessage> {
        self.waiting.front().filter(|_| !self.is_held).cloned()
    }

    /// What people are told of all of them.
    pub fn shown(&self) -> WaitingMessages {
        let messages = self.waiting.iter().map(|waiting| waiting.shown(QUEUE_TEXT_BYTES)).collect();
        WaitingMessages { is_held: self.is_held, messages }
    }

    /// Records which request brought a message, its client's name, and the client's variables.
    pub fn set_cause(
        &mut self,
        entry: &EntryId,
        cause: Cause,
        client: Option<Box<str>>,
        variables: Option<Variables>,
    ) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.entry == *entry) {
            waiting.cause = Some(cause);
            waiting.client = client;
            waiting.variables = variables;
        }
    }

    /// The variables of the messages whose clients brought some.
    pub fn variables(&self) -> Vec<(EntryId, Variables)> {
        let known = |waiting: &QueuedMessage| Some((waiting.entry.clone(), waiting.variables.clone()?));
        self.waiting.iter().filter_map(known).collect()
    }

    /// Records the variables of messages that came in another process.
    pub fn set_variables(&mut self, brought: Vec<(EntryId, Variables)>) {
        for (entry, variables) in brought {
            if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.entry == entry) {
                waiting.variables = Some(variables);
            }
        }
    }

    /// Applies a journal entry, if it is one of the queue's. A fork also has entries of its source session;
    /// queued messages there do not wait here.
    pub fn apply(&mut self, entry: &Entry, session: &SessionId) {
        match &entry.body {
            EntryBody::Queued(queued) if queued.session_id == *session => {
                self.waiting.push_back(QueuedMessage {
                    entry: entry.id.clone(),
                    until: queued.until,
                    content: queued.content.clone(),
                    turn: queued.turn_id.clone(),
                    cause: None,
                    client: None,
                    variables: None,
                    request: entry.request.clone(),
                    queued_at: entry.ts.clone(),
                })
            }
            EntryBody::Dequeued(gone) if gone.session_id == *session => {
                self.waiting.retain(|waiting| !gone.entry_ids.contains(&waiting.entry));
                // There is nothing to hold.
                self.is_held &= !self.waiting.is_empty();
            }
            EntryBody::Queue(changed) if changed.session_id == *session => self.change(changed),
            _ => {}
        }
    }

    fn change(&mut self, changed: &QueueRecord) {
        let place = |entry: Option<&EntryId>, of: &imbl::Vector<QueuedMessage>| {
            entry.and_then(|entry| of.iter().position(|waiting| waiting.entry == *entry))
        };
        match changed.event {
            QueueEvent::Held => self.is_held = !self.waiting.is_empty(),
            QueueEvent::Released => self.is_held = false,
            QueueEvent::Edited => {
                if let Some(waiting) =
                    place(changed.entry_id.as_ref(), &self.waiting).and_then(|at| self.waiting.get_mut(at))
                {
                    waiting.content = changed.content.clone();
                }
            }
            QueueEvent::Moved => {
                if let Some(at) = place(changed.entry_id.as_ref(), &self.waiting) {
                    let moved = self.waiting.remove(at);
                    let to = place(changed.before.as_ref(), &self.waiting);
                    self.waiting.insert(to.unwrap_or(self.waiting.len()), moved);
                }
            }
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

fn bytes(content: &[Block]) -> usize {
    let sizes = content.iter().map(|block| match block {
        Block::Text(text) => text.len(),
        Block::Image { data, .. } => data.len(),
        _ => 0,
    });
    sizes.fold(0, usize::saturating_add)
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
pub fn dequeued(session: &SessionId, waiting: &[QueuedMessage], returned: bool) -> EntryBody {
    let entry_ids = waiting.iter().map(|waiting| waiting.entry.clone()).collect();
    EntryBody::Dequeued(Dequeued { session_id: session.clone(), entry_ids, returned })
}

/// The entry of another change of the queue.
pub fn changed(session: &SessionId, event: QueueEvent) -> QueueRecord {
    let session_id = session.clone();
    QueueRecord { session_id, event, entry_id: None, content: Vec::new(), before: None }
}

/// The refusal of a change of a message that does not wait.
pub fn not_waiting(entry: &EntryId) -> ApiError {
    let message = format!("No message {:?} waits; it may have been delivered.", entry.as_str());
    ApiError::new(ErrorCode::NotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_waits_alone() {
        let (session, mut queue) = (SessionId::from("s"), MessageQueue::default());
        let text = |bytes: usize| vec![Block::Text("x".repeat(bytes).into())];
        assert!(queue.has_room(&text(QUEUED_BYTES + 1), None));
        let body = queued(&session, Until::NextCall, &text(QUEUED_BYTES - 1), None);
        queue.apply(&Entry { id: "e".into(), parent: None, ts: "".into(), request: None, body }, &session);
        assert!(queue.has_room(&text(1), None) && !queue.has_room(&text(2), None));
        let image = Block::Image { mime_type: "image/png".into(), data: "xx".into() };
        assert!(!queue.has_room(&[image], None));
        assert!(queue.has_room(&text(QUEUED_BYTES + 1), Some(&"e".into())));
    }
}
