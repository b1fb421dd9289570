//! How clients end what runs in a session: aborts and interrupts, and what becomes of the messages that wait. Does
//! not know what a turn does; it only tells it to stop.

use std::sync::Arc;

use super::SessionActor;
use crate::engine::queue::{self, QueuedMessage};
use crate::facts::Phase;
use crate::message::EntryId;
use crate::session::{ApiError, Call, Ended, Interrupted, Reply};
use crate::store::EntryBody;
use crate::store::record::{KeyedRequest, QueueEvent, Wish};

impl SessionActor {
    /// Ends the running turn. Ending it twice is allowed.
    pub(super) fn abort(&mut self) {
        if let Some(running) = &self.turn {
            running.stop.cancel();
        }
    }

    /// Ends the running turn for a client. One with a known key ends nothing.
    pub(super) async fn abort_for(&mut self, request: Option<Box<KeyedRequest>>, reply: Reply<bool>) {
        match self.look_up(request.as_deref()) {
            Ok(Some(_)) => return reply.ok(true),
            Err(error) => return reply.fail(error),
            Ok(None) => {
                if let Some(running) = &self.turn {
                    running.control.hold();
                }
                self.abort();
            }
        }
        if let Some(request) = request {
            let entry = self.requested(Wish::Abort, self.turn.as_ref().map(|turn| turn.id.clone()));
            if let Err(error) = self.append_for(vec![entry], [Some(Arc::from(request))]).await {
                return reply.fail(kept_not(error));
            }
        }
        reply.ok(false);
    }

    /// Ends the running turn after its tool calls, without a request to answer.
    pub(super) fn interrupt_work(&self) {
        if let Some(running) = &self.turn {
            running.control.interrupt.cancel();
        }
    }

    /// Ends everything that runs in the session.
    pub(super) fn stop_all(&mut self) {
        self.abort();
        self.jobs.stop_all();
        self.abort_bash();
    }

    /// Ends the running turn after the running tool calls, and returns undelivered steering text.
    pub(super) async fn interrupt(
        &mut self,
        call: Call,
        request: Option<Box<KeyedRequest>>,
        before: Option<i64>,
        reply: Reply<Interrupted>,
    ) {
        match self.look_up(request.as_deref()) {
            Ok(Some(known)) => {
                let text = self.returned(&known.entry);
                return reply.ok(Interrupted { text, is_repeated: true, ..Interrupted::default() });
            }
            Err(error) => return reply.fail(error),
            Ok(None) => {}
        }
        let ended = match &self.turn {
            None => Ended::Idle,
            Some(turn) if before.is_some_and(|before| turn.control.began > before) => Ended::Later,
            Some(_) => Ended::Turn,
        };
        // What control is refused has done nothing, so its entry comes first. A client does not wait for the disk.
        let is_written_first = before.is_some();
        let mut waits_for = Vec::new();
        if ended == Ended::Turn && !is_written_first {
            waits_for = self.interrupt_turn();
        }
        let waiting = match &self.turn {
            Some(_) if before.is_none() => {
                self.queue.steering().into_iter().filter(|waiting| !waiting.is_fixed()).collect()
            }
            _ => Vec::new(),
        };
        let mut bodies = Vec::new();
        if !waiting.is_empty() {
            bodies.push(queue::dequeued(&self.handle.id, &waiting, true));
        }
        if request.is_some() {
            bodies.push(self.requested(Wish::Interrupt, self.turn.as_ref().map(|turn| turn.id.clone())));
        }
        if !bodies.is_empty()
            && let Err(error) = self.append_for(bodies, [request.map(Arc::from)]).await
        {
            return reply.fail(if is_written_first { error } else { kept_not(error) });
        }
        if ended == Ended::Turn && is_written_first {
            waits_for = self.interrupt_turn();
        }
        let texts: Vec<String> = waiting.iter().map(QueuedMessage::text).collect();
        reply.ok(Interrupted { waits_for, text: texts.join("\n"), is_repeated: false, ended });
        if self.turn.is_some() {
            self.changed(Some(call.cause()));
        }
    }

    /// Ends the running turn after its tool calls. Returns whether it waits for one.
    pub(super) fn interrupt_turn(&mut self) -> Vec<Arc<str>> {
        let Some(running) = &self.turn else { return Vec::new() };
        let waits_for = running.control.running_tools();
        running.control.interrupt.cancel();
        self.facts.interrupt_pending = !waits_for.is_empty();
        self.publish();
        waits_for
    }

    /// The text that the answer to an interrupt gave back. Its entry follows that of the messages.
    fn returned(&self, interrupt: &EntryId) -> String {
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

    /// Cancels the wait for a retry.
    pub(super) fn abort_retry(&mut self) {
        if let Some(running) = &self.turn
            && self.facts.phase == Phase::Retrying
        {
            running.control.give_up.cancel();
        }
    }
}

/// Why an end of a turn failed that has happened all the same.
fn kept_not(error: ApiError) -> ApiError {
    ApiError {
        message: format!("The turn was ended, but that could not be kept: {}", error.message),
        ..error
    }
}
