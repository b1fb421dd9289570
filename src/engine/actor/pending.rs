//! The queue as people change it: a waiting message is edited, removed or moved, and a held queue goes on. Does not know
//! how messages come and are delivered; `turns` does.

use super::SessionActor;
use crate::catalogue::ErrorCode;
use crate::engine::queue::{self, QueuedMessage, not_waiting};
use crate::limits::QUEUED_BYTES;
use crate::message::{Block, EntryId};
use crate::session::{ApiError, Call, Edited, Removed, Reply, Resumed};
use crate::store::EntryBody;
use crate::store::record::{QueueEvent, QueueRecord};

impl SessionActor {
    /// The entry of a change of the queue without a message.
    pub(super) fn queue_record(&self, event: QueueEvent) -> EntryBody {
        EntryBody::Queue(Box::new(queue::changed(&self.handle.id, event)))
    }

    /// The entry that lets a held queue go on, if it is held: a message has come.
    pub(super) fn released(&self) -> Option<EntryBody> {
        self.queue.is_held().then(|| self.queue_record(QueueEvent::Released))
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
    pub(super) async fn edit_pending(
        &mut self,
        call: Call,
        entry: EntryId,
        edited: Edited,
        reply: Reply<()>,
    ) {
        let kept: Vec<Block> = match self.changeable(&entry) {
            Ok(waiting) => {
                let images = waiting.content.iter().filter(|block| matches!(block, Block::Image { .. }));
                images.filter(|_| edited.keeps_images).cloned().collect()
            }
            Err(error) => return reply.fail(error),
        };
        let mut content = queue::content(edited.prompt);
        content.extend(kept);
        if !self.queue.has_room(&content, Some(&entry)) {
            let message = format!("With this content, more than {QUEUED_BYTES} bytes would wait.");
            return reply.fail(ApiError { retryable: true, ..ApiError::failed(message) });
        }
        let record = QueueRecord {
            entry_id: Some(entry),
            content,
            ..queue::changed(&self.handle.id, QueueEvent::Edited)
        };
        self.change_queue(call, EntryBody::Queue(Box::new(record)), (), reply).await;
    }

    /// Takes a waiting message back. Its key is that of a message whose text was returned.
    pub(super) async fn remove_pending(&mut self, call: Call, entry: EntryId, reply: Reply<Removed>) {
        let waiting = match self.changeable(&entry) {
            Ok(waiting) => waiting.clone(),
            Err(error) => return reply.fail(error),
        };
        let removed = Removed { text: waiting.text(), images: waiting.shown(0).images };
        let entry = queue::dequeued(&self.handle.id, std::slice::from_ref(&waiting), true);
        self.change_queue(call, entry, removed, reply).await;
    }

    /// Moves a waiting message. Those of control keep their order among each other.
    pub(super) async fn move_pending(
        &mut self,
        call: Call,
        entry: EntryId,
        before: Option<EntryId>,
        reply: Reply<()>,
    ) {
        if let Err(error) = self.changeable(&entry) {
            return reply.fail(error);
        }
        match &before {
            Some(before) if *before == entry => return reply.ok(()),
            Some(before) if self.queue.get(before).is_none() => return reply.fail(not_waiting(before)),
            _ => {}
        }
        let record = QueueRecord {
            entry_id: Some(entry),
            before,
            ..queue::changed(&self.handle.id, QueueEvent::Moved)
        };
        self.change_queue(call, EntryBody::Queue(Box::new(record)), (), reply).await;
    }

    /// Writes a change of the queue, answers, and tells everyone.
    async fn change_queue<T>(&mut self, call: Call, entry: EntryBody, answer: T, reply: Reply<T>) {
        match self.append(vec![entry]).await {
            Ok(_) => {
                reply.ok(answer);
                self.changed(Some(call.cause()));
            }
            Err(error) => reply.fail(error),
        }
    }

    /// Lets the queue go on. Without a turn, begins one with the first waiting message.
    pub(super) async fn resume_queue(&mut self, call: Call, reply: Reply<Resumed>) {
        if self.queue.len() == 0 {
            return reply.ok(Resumed::default());
        }
        if let Some(released) = self.released()
            && let Err(error) = self.append(vec![released]).await
        {
            return reply.fail(error);
        }
        // A session that is to end begins nothing.
        if self.turn.is_none() && self.until_idle.is_empty() {
            return self.begin_next(Some(reply)).await;
        }
        reply.ok(Resumed { is_resumed: true, turn: None });
        self.changed(Some(call.cause()));
    }
}
