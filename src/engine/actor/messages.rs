//! What is said to a session: a message begins a turn, waits for one, or is known already; and how the queued messages
//! come in. Does not know the wire.

use std::sync::Arc;

use super::turn_slot::{AfterTurn, Preparation};
use super::turns::Beginning;
use super::{SessionActor, regenerate};
use crate::catalogue::ErrorCode;
use crate::crash;
use crate::engine::answer_records;
use crate::engine::idempotency::IdempotencyKeys;
use crate::engine::incoming::{Ahead, Incoming, ReadAhead};
use crate::engine::queue::{self, QueuedMessage, Until};
use crate::engine::template_expansion;
use crate::environment::Variables;
use crate::event::{Body, Replaced};
use crate::facts::Phase;
use crate::interaction::{ClientAnswer, HeldAnswer};
use crate::message::TurnId;
use crate::session::{Again, ApiError, Call, Prompted, Reply, Resumed};
use crate::store::EntryBody;
use crate::store::record::{KeyedRequest, TurnEvent, Wish};

impl SessionActor {
    /// Starts a turn with the user's message. Replies once the message is on disk.
    pub(super) async fn prompt(&mut self, call: Call, incoming: Incoming, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(incoming.request.as_deref(), reply) else { return };
        if self.turns.is_ending() {
            return self.turns.defer(AfterTurn::Prompt(call, incoming, reply));
        }
        let message = "A turn is running: steer it, queue the message with follow_up, or abort the turn.";
        if let Err(error) = self.turns.must_be_free_or(message) {
            return reply.fail(error);
        }
        self.cut_off.give_up(&mut self.durable).await;
        let turn = TurnId::from(self.durable.shared.clock.id("t-"));
        let wanted = match incoming.ahead.resources {
            Some(_) => Vec::new(),
            None => self.durable.shared.mcp.wanted_resources(&self.durable.handle, incoming.typed()),
        };
        if wanted.is_empty() {
            return self.begin_prompt(turn, call, incoming, reply).await;
        }
        let variables = self.durable.variables_of(Some(&call.cause()));
        let cause = Some(call.cause());
        self.prepare(turn, cause, variables, wanted, Preparation::Prompt(call, incoming, reply));
    }

    /// Writes the user's message, and begins its turn.
    pub(super) async fn begin_prompt(
        &mut self,
        turn: TurnId,
        call: Call,
        incoming: Incoming,
        reply: Reply<Prompted>,
    ) {
        let Incoming { prompt, request, ahead } = incoming;
        let mut gathered = self.durable.gather(queue::content(prompt), *ahead, &turn).await;
        gathered.bodies.push(self.durable.state.turn_record(&turn, TurnEvent::Began, None));
        gathered.bodies.extend(self.durable.state.released());
        let written = match self.durable.append_for(gathered.bodies, [answered(request, &turn)]).await {
            Ok(written) => written,
            Err(error) => {
                reply.fail(error);
                return self.release(&turn).await;
            }
        };
        self.durable.show_phase(Phase::Streaming);
        reply.ok(Prompted { turn: Some(turn.clone()), repeated: None });
        self.durable.tell_failures(gathered.failures, Some(&call.cause()));
        self.durable.tell_messages(&written, Some(&call.cause()), false);
        self.begin_turn(turn, Some(call.cause()));
    }

    /// Begins a turn without a message of the user's. Replies once it is on disk.
    pub(super) async fn ask_again(
        &mut self,
        call: Call,
        how: Again,
        request: Option<Box<KeyedRequest>>,
        reply: Reply<Prompted>,
    ) {
        let Some(reply) = self.first_time(request.as_deref(), reply) else { return };
        if self.turns.is_ending() {
            return self.turns.defer(AfterTurn::Again(call, how, request, reply));
        }
        if let Err(error) = self.turns.must_be_free() {
            return reply.fail(error);
        }
        let unanswered = regenerate::unanswered(self.durable.state.entries.branch());
        let Some(unanswered) = unanswered.filter(|_| self.durable.can_ask_again()) else {
            let message = "The last message has its answer, or there is none.";
            return reply.fail(ApiError::new(ErrorCode::NothingToRetry, message));
        };
        self.cut_off.give_up(&mut self.durable).await;
        let turn = TurnId::from(self.durable.shared.clock.id("t-"));
        let (bodies, replaced) = regenerate::entries(unanswered, how, &turn);
        let mut bodies = self.durable.with_adopted(bodies);
        let wish = match how {
            Again::Retry => Wish::Retry,
            Again::Continue => Wish::Continue,
        };
        bodies.push(self.durable.state.requested(wish, Some(&turn)));
        bodies.push(self.durable.state.turn_record(&turn, TurnEvent::Began, None));
        let keys = bodies.iter().filter(|body| matches!(body, EntryBody::Message(_))).map(|_| None);
        let keys: Vec<_> = keys.chain([answered(request, &turn)]).collect();
        let written = match self.durable.append_for(bodies, keys).await {
            Ok(written) => written,
            Err(error) => return reply.fail(error),
        };
        self.durable.show_phase(Phase::Streaming);
        reply.ok(Prompted { turn: Some(turn.clone()), repeated: None });
        if let Some(entry) = replaced {
            let body =
                Body::MessagesReplaced(Arc::new(Replaced { entries: vec![entry], reason: how.as_str() }));
            self.durable.show(body, Some(call.cause()));
        }
        self.durable.tell_messages(&written, Some(&call.cause()), true);
        self.begin_turn(turn, Some(call.cause()));
    }

    /// The reply, unless the request was carried out before: see [`DurableState::first_time`].
    fn first_time(&self, request: Option<&KeyedRequest>, reply: Reply<Prompted>) -> Option<Reply<Prompted>> {
        self.durable.first_time(request, self.turns.id(), reply)
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
        let until = if self.turns.is_ending() { Until::TurnEnd } else { until };
        if self.turns.is_free() && self.durable.state.queue.len() == 0 {
            return self.prompt(call, incoming, reply).await;
        }
        let Some(reply) = self.first_time(incoming.request.as_deref(), reply) else { return };
        let content = queue::content(incoming.prompt);
        if let Err(error) = self.durable.state.has_room(&content, self.turns.is_free()) {
            reply.fail(error);
            // A kill left more than may wait, and no turn that would make room. Whoever tries again finds some.
            if self.turns.is_free() {
                self.begin_next(self.durable.variables_of(Some(&call.cause())), None).await;
            }
            return;
        }
        let turn = match (self.turns.id(), until) {
            (Some(running), Until::NextCall) => running.clone(),
            _ => TurnId::from(self.durable.shared.clock.id("t-")),
        };
        let own_turn = (until == Until::TurnEnd).then_some(&turn);
        let mut bodies = vec![queue::queued(&self.durable.handle.id, until, &content, own_turn)];
        bodies.extend(self.durable.state.released());
        match self.durable.append_for(bodies, [answered(incoming.request, &turn)]).await {
            Ok(entries) => {
                for entry in entries {
                    let client = self.durable.client_name(call.connection);
                    let variables = self.durable.variables_of(Some(&call.cause()));
                    self.durable.state.queue.set_cause(&entry.id, call.cause(), client, variables);
                }
                self.durable.publish();
            }
            Err(error) => return reply.fail(error),
        }
        reply.ok(Prompted { turn: Some(turn), repeated: None });
        self.durable.changed(Some(call.cause()));
        if self.turns.is_free() {
            self.begin_next(self.durable.variables_of(Some(&call.cause())), None).await;
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
        let knows = |keys: &IdempotencyKeys| request.as_deref().is_some_and(|request| keys.knows(request));
        let was_known = knows(&self.durable.state.idempotency);
        let running = self.turns.id().cloned();
        self.enqueue(call.clone(), incoming, Until::TurnEnd, reply).await;
        let is_same = running.is_some() && running.as_ref() == self.turns.id();
        let is_older = self.turns.running().is_some_and(|turn| turn.control.began <= latest);
        if !was_known && knows(&self.durable.state.idempotency) && is_same && is_older {
            self.interrupt_turn();
            self.durable.changed(Some(call.cause()));
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
        let (shared, cwd) = (self.durable.shared.clone(), self.durable.state.facts.cwd.clone());
        let search = move || shared.search_folder(&cwd);
        let Ok(project) = tokio::task::spawn_blocking(search).await else { return };
        match template_expansion::expand(&project, &name, &arguments) {
            Ok(message) => {
                incoming.prompt.message = message;
                self.prompt(call, incoming, reply).await;
            }
            // The agent may have such a command.
            Err(_) if self.durable.foreign().is_some() => self.prompt(call, incoming, reply).await,
            Err(error) => reply.fail(error),
        }
    }

    /// Notes a slash command before it runs: it thus runs at most once.
    pub(super) async fn claim(&mut self, request: Box<KeyedRequest>, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(Some(&request), reply) else { return };
        let entry = self.durable.state.requested(Wish::Command, None);
        match self.durable.append_for(vec![entry], [Some(Arc::from(request))]).await {
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
        let shared = self.durable.shared.clone();
        if request.is_some() && !shared.questions.is_of(given.question(), &self.durable.handle.id) {
            let message = "There is no such open question in the session.";
            return reply.fail(ApiError::new(ErrorCode::InvalidParams, message));
        }
        let held = match shared.questions.hold(call.connection, given) {
            Ok(held) => held,
            Err(error) => return reply.fail(error),
        };
        let requested = |_| self.durable.state.requested(Wish::Answer, None);
        let mut bodies: Vec<EntryBody> = request.iter().map(requested).collect();
        if held.is_journalled() {
            let by = HeldAnswer::answerer(call.connection);
            let answer =
                answer_records::record(&self.durable.handle.id, held.question(), by, held.resolution());
            bodies.extend(answer.map(|answer| EntryBody::Answer(Box::new(answer))));
        }
        if !bodies.is_empty()
            && let Err(error) = self.durable.append_for(bodies, [request.map(Arc::from)]).await
        {
            // Whoever is refused may answer again at once.
            drop(held);
            return reply.fail(error);
        }
        crash::point("answer-journalled");
        held.settle(call.connection, Some(Reply::new(|_| reply.ok(Prompted::default()))));
    }

    /// Starts a turn with the first waiting message, unless an abort holds it. Replies once it is on disk. A message whose
    /// own variables are lost has those of `others`: the client or the turn that it follows.
    pub(super) async fn begin_next(&mut self, others: Option<Variables>, reply: Option<Reply<Resumed>>) {
        let Some(next) = self.durable.state.queue.first() else { return };
        self.cut_off.give_up(&mut self.durable).await;
        let turn = next.turn.clone().unwrap_or_else(|| TurnId::from(self.durable.shared.clock.id("t-")));
        let wanted = self.durable.shared.mcp.wanted_resources(&self.durable.handle, &next.text());
        if wanted.is_empty() {
            return self.begin_waiting(turn, next, Ahead::default(), others, reply).await;
        }
        let (cause, variables) = (next.cause.clone(), next.variables.clone().or(others.clone()));
        self.prepare(turn, cause, variables, wanted, Preparation::Next(next, others, reply));
    }

    /// Writes a queued message, and begins its turn.
    pub(super) async fn begin_waiting(
        &mut self,
        turn: TurnId,
        next: QueuedMessage,
        ahead: Ahead,
        others: Option<Variables>,
        reply: Option<Reply<Resumed>>,
    ) {
        let mut gathered = self.durable.gather(next.content.clone(), ahead, &turn).await;
        gathered.bodies.push(queue::dequeued(&self.durable.handle.id, std::slice::from_ref(&next), false));
        gathered.bodies.push(self.durable.state.turn_record(&turn, TurnEvent::Began, None));
        match self.durable.append_for(gathered.bodies, [next.request.clone()]).await {
            Ok(written) => {
                if let Some(reply) = reply {
                    reply.ok(Resumed { is_resumed: true, turn: Some(turn.clone()) });
                }
                self.durable.tell_failures(gathered.failures, next.cause.as_ref());
                self.durable.tell_messages(&written, next.cause.as_ref(), false);
                if next.has_lost_variables() {
                    self.durable.tell_lost_variables(others.is_some());
                }
                let variables = next.variables.or(others);
                self.begin_turn_with(turn, next.cause, Beginning { variables, ..Beginning::default() });
            }
            Err(error) => {
                match reply {
                    Some(reply) => reply.fail(error),
                    None => {
                        let message =
                            format!("A queued message could not be saved, and still waits: {error}");
                        let body = Body::Error { code: ErrorCode::Failed, message: message.into() };
                        self.durable.show(body, next.cause);
                    }
                }
                self.release(&turn).await;
            }
        }
    }

    /// Lets the queue go on. Without a turn, begins one with the first waiting message.
    pub(super) async fn resume_queue(&mut self, call: Call, reply: Reply<Resumed>) {
        if self.durable.state.queue.len() == 0 {
            return reply.ok(Resumed::default());
        }
        if let Some(released) = self.durable.state.released()
            && let Err(error) = self.durable.append(vec![released]).await
        {
            return reply.fail(error);
        }
        // A session that is to end begins nothing.
        if !self.begins_nothing() {
            let variables = self.durable.variables_of(Some(&call.cause()));
            return self.begin_next(variables, Some(reply)).await;
        }
        reply.ok(Resumed { is_resumed: true, turn: None });
        self.durable.changed(Some(call.cause()));
    }

    /// Puts the steering messages into the conversation, up to the first one that names resources that were not read: it came
    /// or was changed meanwhile, and waits for the next call.
    ///
    /// # Errors
    /// If they could not be written; they then keep waiting.
    pub(super) async fn deliver_steering(
        &mut self,
        turn: &TurnId,
        mut read: Vec<ReadAhead>,
    ) -> Result<(), ApiError> {
        let mut waiting = self.durable.state.queue.steering();
        let (mut bodies, mut failures) = (Vec::new(), Vec::new());
        let mut ready = 0usize;
        for waiting in &waiting {
            let text = waiting.text();
            let place = read.iter().position(|read| read.entry == waiting.entry && read.text == text);
            let resources = place.map(|place| read.swap_remove(place).resources);
            if resources.is_none()
                && !self.durable.shared.mcp.wanted_resources(&self.durable.handle, &text).is_empty()
            {
                break;
            }
            let ahead = Ahead { resources, ..Ahead::default() };
            let gathered = self.durable.gather(waiting.content.clone(), ahead, turn).await;
            bodies.extend(gathered.bodies);
            failures.extend(gathered.failures);
            ready = ready.saturating_add(1);
        }
        waiting.truncate(ready);
        if waiting.is_empty() {
            return Ok(());
        }
        bodies.push(queue::dequeued(&self.durable.handle.id, &waiting, false));
        let requests: Vec<_> = waiting.iter().map(|waiting| waiting.request.clone()).collect();
        let written = self.durable.append_for(bodies, requests).await?;
        // Written and waiting messages have the same order.
        let mut senders = waiting.iter().map(|waiting| waiting.cause.clone());
        for entry in written.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_))) {
            self.durable.tell_messages(std::slice::from_ref(entry), senders.next().flatten().as_ref(), false);
        }
        let cause = self.turns.cause();
        self.durable.tell_failures(failures, cause.as_ref());
        self.durable.changed(cause);
        Ok(())
    }
}

/// A request as its entry notes it: with the turn of its answer.
fn answered(request: Option<Box<KeyedRequest>>, turn: &TurnId) -> Option<Arc<KeyedRequest>> {
    request.map(|request| Arc::new(KeyedRequest { turn_id: Some(turn.clone()), ..*request }))
}
