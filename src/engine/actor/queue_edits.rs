//! The queue as people change it, as entries: a waiting message is edited, removed or moved, and a held queue goes on. Does
//! not know how messages come and are delivered; `messages` does.

use super::state::SessionState;
use crate::catalogue::ErrorCode;
use crate::engine::queue::{self, QueuedMessage, not_waiting};
use crate::limits::{QUEUED_BYTES, QUEUED_MESSAGES};
use crate::message::{Block, EntryId};
use crate::session::{ApiError, Edited, Removed};
use crate::store::EntryBody;
use crate::store::record::{QueueEvent, QueueRecord};

impl SessionState {
    /// The entry of a change of the queue without a message.
    pub(super) fn queue_record(&self, event: QueueEvent) -> EntryBody {
        EntryBody::Queue(Box::new(queue::changed(&self.facts.id, event)))
    }

    /// The entry that lets a held queue go on, if it is held: a message has come.
    pub(super) fn released(&self) -> Option<EntryBody> {
        self.queue.is_held().then(|| self.queue_record(QueueEvent::Released))
    }

    /// Whether a message may wait too. If the session is `free`, the first one begins a turn as soon as this one is written,
    /// and thus makes room for it.
    ///
    /// # Errors
    /// If there is no room for it now.
    pub(super) fn has_room(&self, content: &[Block], free: bool) -> Result<(), ApiError> {
        let first = self.queue.iter().next().filter(|_| free).map(|first| first.entry.clone());
        let most = QUEUED_MESSAGES.saturating_add(usize::from(first.is_some()));
        let refusal = match self.queue.len() {
            waiting if waiting >= most => format!("{QUEUED_MESSAGES} messages wait already."),
            _ if self.queue.has_room(content, first.as_ref()) => return Ok(()),
            _ => format!("With it, more than {QUEUED_BYTES} bytes would wait."),
        };
        Err(ApiError { retryable: true, ..ApiError::failed(refusal) })
    }

    /// A waiting message that a client may change.
    fn changeable(&self, entry: &EntryId) -> Result<&QueuedMessage, ApiError> {
        let waiting = self.queue.get(entry).ok_or_else(|| not_waiting(entry))?;
        if waiting.is_fixed() {
            let message = "The message came through control, which has told its sender that it is taken: it is neither \
                           edited, removed nor moved.";
            return Err(ApiError::new(ErrorCode::MessageFixed, message));
        }
        Ok(waiting)
    }

    /// Gives a waiting message another content.
    ///
    /// # Errors
    /// If it does not wait, may not be changed, or is too long.
    pub(super) fn edit_pending(&self, entry: EntryId, edited: Edited) -> Result<(EntryBody, ()), ApiError> {
        let waiting = self.changeable(&entry)?;
        let images = waiting.content.iter().filter(|block| matches!(block, Block::Image { .. }));
        let kept: Vec<Block> = images.filter(|_| edited.keeps_images).cloned().collect();
        let mut content = queue::content(edited.prompt);
        content.extend(kept);
        if !self.queue.has_room(&content, Some(&entry)) {
            let message = format!("With this content, more than {QUEUED_BYTES} bytes would wait.");
            return Err(ApiError { retryable: true, ..ApiError::failed(message) });
        }
        let record = QueueRecord {
            entry_id: Some(entry),
            content,
            ..queue::changed(&self.facts.id, QueueEvent::Edited)
        };
        Ok((EntryBody::Queue(Box::new(record)), ()))
    }

    /// Takes a waiting message back. Its key is that of a message whose text was returned.
    ///
    /// # Errors
    /// If it does not wait, or may not be changed.
    pub(super) fn remove_pending(&self, entry: &EntryId) -> Result<(EntryBody, Removed), ApiError> {
        let waiting = self.changeable(entry)?;
        let removed = Removed { text: waiting.text(), images: waiting.shown(0).images };
        Ok((queue::dequeued(&self.facts.id, std::slice::from_ref(waiting), true), removed))
    }

    /// Moves a waiting message. Those of control keep their order among each other. `None` if it stands there already.
    ///
    /// # Errors
    /// If one of the two does not wait, or the message may not be moved.
    pub(super) fn move_pending(
        &self,
        entry: EntryId,
        before: Option<EntryId>,
    ) -> Result<Option<(EntryBody, ())>, ApiError> {
        self.changeable(&entry)?;
        match &before {
            Some(before) if *before == entry => return Ok(None),
            Some(before) if self.queue.get(before).is_none() => return Err(not_waiting(before)),
            _ => {}
        }
        let record = QueueRecord {
            entry_id: Some(entry),
            before,
            ..queue::changed(&self.facts.id, QueueEvent::Moved)
        };
        Ok(Some((EntryBody::Queue(Box::new(record)), ())))
    }

    /// The text that the answer to an interrupt gave back. Its entry follows that of the messages.
    pub(super) fn returned(&self, interrupt: &EntryId) -> String {
        let entries = self.entries.all();
        let entry = |id: &EntryId| entries.iter().rev().find(|entry| entry.id == *id);
        let before = entry(interrupt).and_then(|entry| entry.parent.as_ref()).and_then(entry);
        let Some(EntryBody::Dequeued(gone)) = before.map(|entry| &entry.body) else { return String::new() };
        // As it was changed last.
        let mut texts: Vec<(&EntryId, String)> = Vec::new();
        for entry in entries.iter().filter(|_| gone.returned) {
            match &entry.body {
                EntryBody::Queued(queued) if gone.entry_ids.contains(&entry.id) => {
                    texts.push((&entry.id, queue::text(&queued.content)));
                }
                EntryBody::Queue(changed) if changed.event == QueueEvent::Edited => {
                    let edited = texts.iter_mut().find(|(id, _)| Some(*id) == changed.entry_id.as_ref());
                    if let Some((_, text)) = edited {
                        *text = queue::text(&changed.content);
                    }
                }
                _ => {}
            }
        }
        texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
    }
}
