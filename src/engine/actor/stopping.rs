//! How what runs in a session ends here: aborts and interrupts, what becomes of the queued messages, and how the session
//! leaves its process. Does not know what a turn does; it only tells it to stop. Does not know the other process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::SessionActor;
use super::ownership::no_realm;
use crate::catalogue::ErrorCode;
use crate::engine::queue::{self, QueuedMessage};
use crate::engine::running::RunningTurn;
use crate::engine::services::refused;
use crate::engine::turn_control::TurnControl;
use crate::engine::working_sessions::DepartedSession;
use crate::facts::Phase;
use crate::session::{ApiError, Call, Ended, Interrupted, Reply};
use crate::store::record::{KeyedRequest, TurnEvent, Wish};

impl SessionActor {
    /// The session may have another owner.
    pub(super) async fn look_at_owner(&mut self) {
        let was_elsewhere = self.durable.state.facts.is_elsewhere;
        self.durable.note_owner();
        match (was_elsewhere, self.durable.state.facts.is_elsewhere) {
            (false, true) => {
                // It runs nowhere now, or at the new owner.
                self.stop_all();
                self.durable.handle.abort();
                self.durable.follow_owner();
            }
            (true, false) if self.durable.state.facts.host.is_none() => {
                // Deleted at its owner: this copy is this machine's alone, and nothing goes on in it by itself.
                self.durable.handle.forget_for_owner();
                self.durable.state.facts.phase = Phase::Idle;
                if let Err(error) = self.durable.append(Vec::new()).await {
                    tracing::warn!(%error, "the journal does not say that the session was deleted at its owner");
                }
            }
            (true, false) => {
                self.durable.handle.forget_for_owner();
                self.durable.state.facts.phase = Phase::Idle;
                // Before a turn that was cut off is looked for, so that its mark comes after the owner's entry.
                if let Err(error) = self.durable.append(Vec::new()).await {
                    tracing::warn!(%error, "the journal does not say who owns the session");
                }
                self.durable.go_to_folder().await;
                self.cut_off.recover(&mut self.durable).await;
                self.take_up(None).await;
            }
            (true, true) if self.durable.state.facts.owner_lost => {
                // Nobody takes an answer any more.
                self.durable.handle.forget_for_owner();
                self.durable.state.facts.phase = Phase::Idle;
            }
            _ => {}
        }
        self.durable.changed(None);
        self.durable.shared.tree.announce(None);
    }

    /// Makes another host the owner of the session, in which nothing may run.
    pub(super) async fn give(&mut self, host: String) -> Result<String, ApiError> {
        if !self.is_at_rest() {
            let message = "Something runs in the session: hand it over when that has ended.";
            return Err(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let federation = self.durable.shared.federation.get().cloned().ok_or_else(no_realm)?;
        let given = federation.give(&self.durable.handle.id, &host).await;
        self.look_at_owner().await;
        given.map(|()| host).map_err(|error| refused(&error))
    }

    /// Ends the running turn for a client. One with a known key ends nothing.
    pub(super) async fn abort_for(&mut self, request: Option<Box<KeyedRequest>>, reply: Reply<bool>) {
        match self.durable.look_up(request.as_deref()) {
            Ok(Some(_)) => return reply.ok(true),
            Err(error) => return reply.fail(error),
            Ok(None) => self.turns.abort_and_hold(),
        }
        if let Some(request) = request {
            let entry = self.durable.state.requested(Wish::Abort, self.turns.id());
            if let Err(error) = self.durable.append_for(vec![entry], [Some(Arc::from(request))]).await {
                return reply.fail(kept_not(error));
            }
        }
        reply.ok(false);
    }

    /// Ends everything that runs in the session.
    pub(super) fn stop_all(&mut self) {
        self.turns.abort();
        self.programs.stop_all();
    }

    /// Ends the running turn after the running tool calls, and returns undelivered steering text.
    pub(super) async fn interrupt(
        &mut self,
        call: Call,
        request: Option<Box<KeyedRequest>>,
        (before, at_once): (Option<i64>, Option<Arc<TurnControl>>),
        reply: Reply<Interrupted>,
    ) {
        match self.durable.look_up(request.as_deref()) {
            Ok(Some(known)) => {
                let text = self.durable.state.returned(&known.entry);
                return reply.ok(Interrupted { text, is_repeated: true, ..Interrupted::default() });
            }
            Err(error) => return reply.fail(error),
            Ok(None) => {}
        }
        let running = self.turns.running();
        let ended = match running {
            None if at_once.is_none() => Ended::Idle,
            Some(turn) if before.is_some_and(|before| turn.control.began > before) => Ended::Later,
            None | Some(_) => Ended::Turn,
        };
        let is_over =
            at_once.is_some_and(|ended| running.is_none_or(|turn| !Arc::ptr_eq(&turn.control, &ended)));
        // What control is refused has done nothing, so its entry comes first. A client does not wait for the disk.
        let is_written_first = before.is_some();
        let mut waits_for = Vec::new();
        if ended == Ended::Turn && !is_over && !is_written_first {
            waits_for = self.interrupt_turn();
        }
        let waiting = match self.turns.running() {
            Some(_) if before.is_none() => self
                .durable
                .state
                .queue
                .steering()
                .into_iter()
                .filter(|waiting| !waiting.is_fixed())
                .collect(),
            _ => Vec::new(),
        };
        let mut bodies = Vec::new();
        if !waiting.is_empty() {
            bodies.push(queue::dequeued(&self.durable.handle.id, &waiting, true));
        }
        if request.is_some() {
            bodies.push(self.durable.state.requested(Wish::Interrupt, self.turns.id()));
        }
        if !bodies.is_empty()
            && let Err(error) = self.durable.append_for(bodies, [request.map(Arc::from)]).await
        {
            return reply.fail(if is_written_first { error } else { kept_not(error) });
        }
        if ended == Ended::Turn && is_written_first {
            waits_for = self.interrupt_turn();
        }
        let texts: Vec<String> = waiting.iter().map(QueuedMessage::text).collect();
        reply.ok(Interrupted { waits_for, text: texts.join("\n"), is_repeated: false, ended });
        if !self.turns.is_free() {
            self.durable.changed(Some(call.cause()));
        }
    }

    /// Ends the running turn after its tool calls. Returns whether it waits for one.
    pub(super) fn interrupt_turn(&mut self) -> Vec<Arc<str>> {
        let Some(waits_for) = self.turns.interrupt() else { return Vec::new() };
        self.durable.state.facts.interrupt_pending = !waits_for.is_empty();
        self.durable.publish();
        waits_for
    }

    /// Cancels the wait for a retry.
    pub(super) fn abort_retry(&mut self) {
        if self.durable.state.facts.phase == Phase::Retrying {
            self.turns.give_up_retry();
        }
    }

    /// Leaves, as soon as that ends nothing, so that another process continues the session. It is asked again and again.
    pub(super) fn hand_over(&mut self) {
        if !self.turns.hand_over() && self.is_at_rest() {
            self.departed = Some(self.departure(self.cut_off.is_any(), None));
        }
    }

    /// The same at once, instead of when it is asked next, if all sessions are leaving: another client may want it there.
    pub(super) fn leave_with_all(&mut self) {
        if self.durable.shared.leaves.load(Ordering::Acquire) {
            self.hand_over();
        }
    }

    /// A turn is at a boundary and goes on elsewhere.
    pub(super) async fn depart(&mut self, running: &RunningTurn) {
        if running.is_recorded {
            let over = self.durable.state.turn_record(&running.id, TurnEvent::HandedOver, None);
            if let Err(error) = self.durable.append(vec![over]).await {
                // The next process finds a turn that was cut off.
                tracing::warn!(%error, "the journal does not say that a turn was handed over");
            }
        }
        self.departed = Some(self.departure(true, Some(running)));
    }

    fn departure(&self, is_at_work: bool, running: Option<&RunningTurn>) -> DepartedSession {
        DepartedSession {
            session: self.durable.handle.id.clone(),
            is_at_work,
            variables: running.and_then(|running| running.control.variables()),
            waiting: self.durable.state.queue.variables(),
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
