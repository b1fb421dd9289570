//! What is said to a session: a message begins a turn, waits for one, or is known already; and how the messages that wait
//! come in. Does not know the wire.

use std::sync::Arc;

use super::turns::Beginning;
use super::{AfterTurn, SessionActor};
use crate::catalogue::ErrorCode;
use crate::clock::epoch_millis;
use crate::crash;
use crate::engine::answers;
use crate::engine::incoming::{Ahead, Incoming};
use crate::engine::invocation;
use crate::engine::ledger::{CarriedOut, Ledger, Lookup, conflict};
use crate::engine::queue::{self, Until};
use crate::event::{Body, Cause, Event, Sender, UserMessage};
use crate::interaction::{ClientAnswer, HeldAnswer};
use crate::limits::{LEDGER_KEYS, QUEUED_BYTES, QUEUED_MESSAGES};
use crate::message::TurnId;
use crate::session::{ApiError, Call, Prompted, Reply, Resumed};
use crate::store::record::{KeyedRequest, Requested, TurnEvent, Wish};
use crate::store::{Entry, EntryBody};

impl SessionActor {
    /// Starts a turn with the user's message. Replies once the message is on disk.
    pub(super) async fn prompt(&mut self, call: Call, incoming: Incoming, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(incoming.request.as_deref(), reply) else { return };
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Prompt(call, incoming, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: steer it, queue the message with follow_up, or abort the turn.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        self.give_up_unended().await;
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let Incoming { prompt, request, ahead } = incoming;
        let mut gathered = self.gather(queue::content(prompt), *ahead, &turn).await;
        gathered.bodies.push(self.turn_record(&turn, TurnEvent::Began, None));
        gathered.bodies.extend(self.released());
        let written = match self.append_for(gathered.bodies, [answered(request, &turn)]).await {
            Ok(written) => written,
            Err(error) => return reply.fail(error),
        };
        self.begins();
        reply.ok(Prompted { turn: Some(turn.clone()), repeated: None });
        self.tell_failures(gathered.failures, Some(&call.cause()));
        self.tell_messages(&written, Some(&call.cause()), false);
        self.begin_turn(turn, Some(call.cause()));
    }

    /// Adds a message to the running turn, or queues it until its end; without a turn, starts one with the
    /// oldest waiting message.
    pub(super) async fn enqueue(
        &mut self,
        call: Call,
        incoming: Incoming,
        until: Until,
        reply: Reply<Prompted>,
    ) {
        // A turn that is about to end makes no further model call.
        let until = if self.is_ending() { Until::TurnEnd } else { until };
        if self.turn.is_none() && self.queue.len() == 0 {
            return self.prompt(call, incoming, reply).await;
        }
        let Some(reply) = self.first_time(incoming.request.as_deref(), reply) else { return };
        // Without a turn, the first one begins one as soon as this one is written, and thus makes room for it.
        let first = self.queue.iter().next().filter(|_| self.turn.is_none()).map(|first| first.entry.clone());
        let most = QUEUED_MESSAGES.saturating_add(usize::from(first.is_some()));
        let content = queue::content(incoming.prompt);
        let refusal = match self.queue.len() {
            waiting if waiting >= most => Some(format!("{QUEUED_MESSAGES} messages wait already.")),
            _ if self.queue.has_room(&content, first.as_ref()) => None,
            _ => Some(format!("With it, more than {QUEUED_BYTES} bytes would wait.")),
        };
        if let Some(message) = refusal {
            let mut error = ApiError::failed(message);
            error.retryable = true;
            return reply.fail(error);
        }
        let turn = match (&self.turn, until) {
            (Some(running), Until::NextCall) => running.id.clone(),
            _ => TurnId::from(self.shared.clock.id("t-")),
        };
        let own_turn = (until == Until::TurnEnd).then_some(&turn);
        let mut bodies = vec![queue::queued(&self.handle.id, until, &content, own_turn)];
        bodies.extend(self.released());
        match self.append_for(bodies, [answered(incoming.request, &turn)]).await {
            Ok(entries) => {
                for entry in entries {
                    let client = self.client_name(call.connection);
                    let variables = self.variables_of(Some(&call.cause()));
                    self.queue.set_cause(&entry.id, call.cause(), client, variables);
                }
                self.publish();
            }
            Err(error) => return reply.fail(error),
        }
        reply.ok(Prompted { turn: Some(turn), repeated: None });
        self.changed(Some(call.cause()));
        if self.turn.is_none() {
            self.begin_next(None).await;
        }
    }

    /// Takes a text that came through control. Its own entry is written before the running turn ends, so that what is
    /// refused has done nothing.
    pub(super) async fn inject(
        &mut self,
        call: Call,
        incoming: Incoming,
        interrupts: Option<i64>,
        reply: Reply<Prompted>,
    ) {
        let Some(latest) = interrupts else {
            return self.enqueue(call, incoming, Until::NextCall, reply).await;
        };
        let request = incoming.request.clone();
        let knows = |ledger: &Ledger| request.as_deref().is_some_and(|request| ledger.knows(request));
        let was_known = knows(&self.ledger);
        let running = self.turn.as_ref().map(|turn| turn.id.clone());
        self.enqueue(call.clone(), incoming, Until::TurnEnd, reply).await;
        let is_same = running.is_some() && running == self.turn.as_ref().map(|turn| turn.id.clone());
        let is_older = self.turn.as_ref().is_some_and(|turn| turn.control.began <= latest);
        if !was_known && knows(&self.ledger) && is_same && is_older {
            self.interrupt_turn();
            self.changed(Some(call.cause()));
        }
    }

    /// Starts a turn with the text of a prompt template or a skill.
    pub(super) async fn invoke(
        &mut self,
        call: Call,
        name: String,
        arguments: String,
        mut incoming: Incoming,
        reply: Reply<Prompted>,
    ) {
        let (shared, cwd) = (self.shared.clone(), self.facts.cwd.clone());
        let search = move || shared.search_folder(&cwd);
        let Ok(project) = tokio::task::spawn_blocking(search).await else { return };
        match invocation::expand(&project, &name, &arguments) {
            Ok(message) => {
                incoming.prompt.message = message;
                self.prompt(call, incoming, reply).await;
            }
            Err(error) => reply.fail(error),
        }
    }

    /// The reply, unless the request was carried out before, whose answer is then repeated, or is refused for its key.
    pub(super) fn first_time(
        &self,
        request: Option<&KeyedRequest>,
        reply: Reply<Prompted>,
    ) -> Option<Reply<Prompted>> {
        match self.look_up(request) {
            Ok(None) => Some(reply),
            Ok(Some(known)) => {
                let state = self.ledger.state(&known, self.turn.as_ref().map(|turn| &turn.id));
                reply.ok(Prompted { turn: known.turn, repeated: Some(state) });
                None
            }
            Err(error) => {
                reply.fail(error);
                None
            }
        }
    }

    /// What is known of a request that was carried out before; `None` for a new one, or one without a key.
    ///
    /// # Errors
    /// If its key was used for another request, or there is no room for it.
    pub(super) fn look_up(&self, request: Option<&KeyedRequest>) -> Result<Option<CarriedOut>, ApiError> {
        let Some(request) = request else { return Ok(None) };
        let now = epoch_millis(self.shared.clock.now());
        match self.ledger.look_up(request, now, self.shared.ledger_window()) {
            Lookup::New => Ok(None),
            Lookup::Again(known) => Ok(Some(known)),
            Lookup::Other => Err(conflict(request)),
            Lookup::Full => Err(ApiError::new(
                ErrorCode::LedgerFull,
                format!("The session knows {LEDGER_KEYS} keys of the last minutes: try again later."),
            )),
        }
    }

    /// Notes a slash command before it runs: it thus runs at most once.
    pub(super) async fn claim(&mut self, request: Box<KeyedRequest>, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(Some(&request), reply) else { return };
        let entry = self.requested(Wish::Command, None);
        match self.append_for(vec![entry], [Some(Arc::from(request))]).await {
            Ok(_) => reply.ok(Prompted::default()),
            Err(error) => reply.fail(error),
        }
    }

    /// Takes the answer to one of the session's questions. It counts once its entry is written; what is refused leaves
    /// the question open. One that came through control has a key.
    pub(super) async fn answer(
        &mut self,
        call: Call,
        request: Option<Box<KeyedRequest>>,
        given: ClientAnswer,
        reply: Reply<Prompted>,
    ) {
        let Some(reply) = self.first_time(request.as_deref(), reply) else { return };
        let shared = self.shared.clone();
        if request.is_some() && !shared.questions.is_of(given.question(), &self.handle.id) {
            let message = "There is no such open question in the session.";
            return reply.fail(ApiError::new(ErrorCode::InvalidParams, message));
        }
        let held = match shared.questions.hold(call.connection, given) {
            Ok(held) => held,
            Err(error) => return reply.fail(error),
        };
        let mut bodies: Vec<EntryBody> = request.iter().map(|_| self.requested(Wish::Answer, None)).collect();
        if held.is_journalled() {
            let by = HeldAnswer::answerer(call.connection);
            let answer = answers::record(&self.handle.id, held.question(), by, held.resolution());
            bodies.extend(answer.map(|answer| EntryBody::Answer(Box::new(answer))));
        }
        if !bodies.is_empty()
            && let Err(error) = self.append_for(bodies, [request.map(Arc::from)]).await
        {
            // Whoever is refused may answer again at once.
            drop(held);
            return reply.fail(error);
        }
        crash::point("answer-journalled");
        held.settle(call.connection, Some(Reply::new(|_| reply.ok(Prompted::default()))));
    }

    /// The entry of a request that leaves no message.
    pub(super) fn requested(&self, wish: Wish, turn: Option<TurnId>) -> EntryBody {
        EntryBody::Requested(Requested { session_id: self.handle.id.clone(), wish, turn_id: turn })
    }

    /// Notifies everyone of messages that were put into the conversation.
    pub(super) fn tell_messages(&self, written: &[Arc<Entry>], cause: Option<&Cause>, by_runtime: bool) {
        let from = match cause {
            _ if by_runtime => Sender::Runtime,
            Some(cause) => {
                Sender::Client { connection: cause.connection, name: self.client_name(cause.connection) }
            }
            None => Sender::Earlier,
        };
        for entry in written {
            let EntryBody::Message(message) = &entry.body else { continue };
            let from = if message.sender.is_some() { Sender::Control } else { from.clone() };
            let body = Body::UserMessage(Arc::new(UserMessage { message: message.clone(), from }));
            let event = Event {
                turn: message.turn_id.clone(),
                entry: Some(entry.id.clone()),
                ..self.event(body, cause.cloned())
            };
            let _ = self.handle.show(&self.shared.hub, event);
        }
    }

    /// The name that the client of a connection gave itself.
    fn client_name(&self, connection: u64) -> Option<Box<str>> {
        Some(self.shared.hub.client(connection)?.peer().agreed?.name.clone())
    }

    /// Starts a turn with the first waiting message, unless an abort holds it. Replies once it is on disk.
    pub(super) async fn begin_next(&mut self, reply: Option<Reply<Resumed>>) {
        let Some(next) = self.queue.first() else { return };
        self.give_up_unended().await;
        let turn = next.turn.clone().unwrap_or_else(|| TurnId::from(self.shared.clock.id("t-")));
        let mut gathered = self.gather(next.content.clone(), Ahead::default(), &turn).await;
        gathered.bodies.push(queue::dequeued(&self.handle.id, std::slice::from_ref(&next), false));
        gathered.bodies.push(self.turn_record(&turn, TurnEvent::Began, None));
        match self.append_for(gathered.bodies, [next.request.clone()]).await {
            Ok(written) => {
                if let Some(reply) = reply {
                    reply.ok(Resumed { is_resumed: true, turn: Some(turn.clone()) });
                }
                self.tell_failures(gathered.failures, next.cause.as_ref());
                self.tell_messages(&written, next.cause.as_ref(), false);
                let variables = next.variables;
                self.begin_turn_with(turn, next.cause, Beginning { variables, ..Beginning::default() });
            }
            Err(error) => {
                if let Some(reply) = reply {
                    return reply.fail(error);
                }
                let message = format!("A message that waited could not be saved, and still waits: {error}");
                let event =
                    self.event(Body::Error { code: ErrorCode::Failed, message: message.into() }, next.cause);
                let _ = self.handle.show(&self.shared.hub, event);
            }
        }
    }

    /// Whether a message waits for the next model call.
    pub(super) fn has_steering(&self) -> bool {
        !self.queue.steering().is_empty()
    }

    /// Puts the steering messages into the conversation.
    ///
    /// # Errors
    /// If they could not be written; they then keep waiting.
    pub(super) async fn deliver_steering(&mut self, turn: &TurnId) -> Result<(), ApiError> {
        let waiting = self.queue.steering();
        if waiting.is_empty() {
            return Ok(());
        }
        let (mut bodies, mut failures) = (Vec::new(), Vec::new());
        for waiting in &waiting {
            let gathered = self.gather(waiting.content.clone(), Ahead::default(), turn).await;
            bodies.extend(gathered.bodies);
            failures.extend(gathered.failures);
        }
        bodies.push(queue::dequeued(&self.handle.id, &waiting, false));
        let requests: Vec<_> = waiting.iter().map(|waiting| waiting.request.clone()).collect();
        let written = self.append_for(bodies, requests).await?;
        // Written and waiting messages have the same order.
        let mut senders = waiting.iter().map(|waiting| waiting.cause.clone());
        for entry in written.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_))) {
            self.tell_messages(std::slice::from_ref(entry), senders.next().flatten().as_ref(), false);
        }
        let cause = self.turn.as_ref().and_then(|running| running.cause.clone());
        self.tell_failures(failures, cause.as_ref());
        self.changed(cause);
        Ok(())
    }
}

/// A request as its entry notes it: with the turn of its answer.
pub(super) fn answered(request: Option<Box<KeyedRequest>>, turn: &TurnId) -> Option<Arc<KeyedRequest>> {
    request.map(|request| Arc::new(KeyedRequest { turn_id: Some(turn.clone()), ..*request }))
}
