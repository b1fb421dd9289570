//! The activities of a session (prompts and queued messages, turns, workflows, compactions), and how each
//! ends. Does not know the wire.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AfterTurn, SessionActor, user_message};
use crate::catalogue::ErrorCode;
use crate::clock::epoch_millis;
use crate::engine::agent::{self, CompactionError, TurnTask};
use crate::engine::change::{Begun, Change, HeldRun};
use crate::engine::execution::Execution;
use crate::engine::incoming::Incoming;
use crate::engine::invocation;
use crate::engine::ledger::{Known, Ledger, Lookup, conflict};
use crate::engine::queue::{self, Until, Waiting};
use crate::engine::running::RunningTurn;
use crate::engine::turn_control::{TurnControl, TurnEnd};
use crate::event::{
    Body, Cause, CompactionEnded, Event, RetryAwaited, Sender, TurnEnded, TurnOutcome, UserMessage,
};
use crate::facts::Phase;
use crate::limits::{LEDGER_KEYS, QUEUED_BYTES, QUEUED_MESSAGES};
use crate::message::{Block, EntryId, TurnId};
use crate::session::{ApiError, Call, Ended, Interrupted, Prompted, Reply, Response, Resumed, ToolOutcome};
use crate::store::record::{QueueEvent, Request, Requested, TurnEvent, TurnRecord, Wish};
use crate::store::{Entry, EntryBody};
use crate::value::Value;

impl SessionActor {
    /// Starts a turn with the user's message. Replies once the message is on disk.
    pub async fn prompt(&mut self, call: Call, incoming: Incoming, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(incoming.request.as_deref(), reply) else { return };
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Prompt(call, incoming, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: steer it, queue the message with follow_up, or abort the turn.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let Incoming { prompt, request } = incoming;
        let mut gathered = self.gather(queue::content(prompt), &turn).await;
        gathered.bodies.push(self.turn_record(&turn, None));
        gathered.bodies.extend(self.released());
        let written = match self.append_for(gathered.bodies, [answered(request, &turn)]).await {
            Ok(written) => written,
            Err(error) => return reply.fail(error),
        };
        self.begins();
        reply.ok(Prompted { turn: Some(turn.clone()), repeated: None });
        self.tell_failures(gathered.failures, Some(&call.cause()));
        self.tell_messages(&written, Some(&call.cause()), false);
        self.begin_turn(turn, Some(call.cause()), None);
    }

    /// Shows the session as busy, before a client has the answer that says so.
    pub(super) fn begins(&mut self) {
        self.facts.phase = Phase::Streaming;
        self.publish();
    }

    /// Adds a message to the running turn, or queues it until its end; without a turn, starts one with the
    /// oldest waiting message.
    pub async fn enqueue(&mut self, call: Call, incoming: Incoming, until: Until, reply: Reply<Prompted>) {
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
                    self.queue.set_cause(&entry.id, call.cause(), client);
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

    /// The reply, unless the request was carried out before, whose answer is then repeated, or is refused for its key.
    pub(super) fn first_time(
        &self,
        request: Option<&Request>,
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
    fn look_up(&self, request: Option<&Request>) -> Result<Option<Known>, ApiError> {
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
    pub(super) async fn claim(&mut self, request: Box<Request>, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(Some(&request), reply) else { return };
        let entry = self.requested(Wish::Command, None);
        match self.append_for(vec![entry], [Some(Arc::from(request))]).await {
            Ok(_) => reply.ok(Prompted::default()),
            Err(error) => reply.fail(error),
        }
    }

    /// Takes the answer to one of the session's questions that came through control. It counts once its entry is
    /// written; what is refused leaves the question open.
    pub(super) async fn answer(
        &mut self,
        call: Call,
        request: Box<Request>,
        answer: Response,
        reply: Reply<Prompted>,
    ) {
        let Some(reply) = self.first_time(Some(&request), reply) else { return };
        let shared = self.shared.clone();
        if !shared.questions.is_of(&answer.interaction_id, &self.handle.id) {
            let message = "There is no such open question in the session.";
            return reply.fail(ApiError::new(ErrorCode::InvalidParams, message));
        }
        let held = match shared.questions.hold(answer) {
            Ok(held) => held,
            Err(error) => return reply.fail(error),
        };
        let entry = self.requested(Wish::Answer, None);
        match self.append_for(vec![entry], [Some(Arc::from(request))]).await {
            Ok(_) => {
                held.settle(call.connection, None);
                reply.ok(Prompted::default());
            }
            Err(error) => reply.fail(error),
        }
    }

    /// The entry of a request that leaves no message.
    pub(super) fn requested(&self, wish: Wish, turn: Option<TurnId>) -> EntryBody {
        EntryBody::Requested(Requested { session_id: self.handle.id.clone(), wish, turn_id: turn })
    }

    /// The entry of a turn's begin, or of its end with its outcome.
    pub(super) fn turn_record(&self, turn: &TurnId, outcome: Option<TurnOutcome>) -> EntryBody {
        EntryBody::Turn(TurnRecord {
            session_id: self.handle.id.clone(),
            turn_id: turn.clone(),
            event: if outcome.is_some() { TurnEvent::Ended } else { TurnEvent::Began },
            outcome: outcome.map(|outcome| outcome.as_str().to_owned()),
        })
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

    /// Whether the turn's last message is written, and the turn is about to end.
    pub(super) fn is_ending(&self) -> bool {
        let room = self.after_turn.len() < QUEUED_MESSAGES;
        room && self.turn.as_ref().is_some_and(|running| running.is_ending)
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

    /// Occupies the session.
    fn hold(
        &mut self,
        id: TurnId,
        cause: Option<Cause>,
        phase: Phase,
    ) -> (CancellationToken, Arc<TurnControl>) {
        let running = RunningTurn::new(id, cause.clone(), epoch_millis(self.shared.clock.now()));
        let (stop, control) = (running.stop.clone(), running.control.clone());
        self.handle.stop.store(Some(Arc::new(stop.clone())));
        self.handle.control.store(Some(control.clone()));
        self.facts.phase = phase;
        self.turn = Some(running);
        self.changed(cause.clone());
        self.shared.tree.announce(cause);
        (stop, control)
    }

    pub(super) fn begin_turn(&mut self, id: TurnId, cause: Option<Cause>, execution: Option<Arc<Execution>>) {
        let (stop, control) = self.hold(id.clone(), cause.clone(), Phase::Streaming);
        if let Some(running) = &mut self.turn {
            running.is_recorded = true;
        }
        let session = self.handle.clone();
        let task = TurnTask {
            session: session.clone(),
            id: id.clone(),
            cause: cause.clone(),
            stop,
            control,
            execution,
        };
        let answer = self.agent.clone().answer(task);
        agent::spawn(&self.shared.tasks, session, id, cause.as_ref(), answer);
    }

    /// Starts a turn that works for another session; the returned value reports its end.
    ///
    /// # Errors
    /// If a turn already runs, or the task cannot be written.
    pub(super) async fn work(
        &mut self,
        task: String,
        execution: Option<Arc<Execution>>,
        cause: Option<Cause>,
    ) -> Begun {
        if self.turn.is_some() {
            return Err(ApiError::new(ErrorCode::SessionNotIdle, "A turn is running in the child session."));
        }
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let began = self.turn_record(&turn, None);
        self.begin_with(turn.clone(), task, cause.clone(), vec![began]).await?;
        let (sender, receiver) = oneshot::channel();
        self.worked = Some((turn.clone(), sender));
        self.begin_turn(turn, cause, execution);
        Ok(receiver)
    }

    /// Writes the message for the turn of a workflow's stage, which the workflow's own entries count.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) async fn begin_stage(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
    ) -> Result<(), ApiError> {
        self.begin_with(turn, message, cause, Vec::new()).await
    }

    /// Writes a message of the engine's own, with further entries.
    async fn begin_with(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
        further: Vec<EntryBody>,
    ) -> Result<(), ApiError> {
        let message = user_message(vec![Block::Text(message.into())], &turn);
        let mut bodies = self.with_adopted(vec![EntryBody::Message(message)]);
        bodies.extend(further);
        let written = self.append(bodies).await?;
        self.tell_messages(&written, cause.as_ref(), true);
        Ok(())
    }

    /// Records the session's new configuration: at once in a turn, otherwise with the next message. An unused
    /// session thus stays unchanged on disk, however often the configuration is reloaded.
    pub(super) async fn goes_on_with(&mut self, entry: EntryBody) {
        if !self.is_running() {
            self.adopted = Some(entry);
        } else if let Err(error) = self.append(vec![entry]).await {
            tracing::warn!(%error, "the journal does not say that the configuration was read again");
        }
    }

    /// The entries to write, after the entry of the configuration.
    pub(super) fn with_adopted(&mut self, mut bodies: Vec<EntryBody>) -> Vec<EntryBody> {
        bodies.splice(0..0, self.adopted.take());
        bodies
    }

    /// Gives the session to a run of a workflow: a new one, or its last one that goes on.
    pub(super) fn begin_workflow(
        &mut self,
        call: Call,
        workflow: Arc<str>,
        arguments: String,
        reply: Reply<HeldRun>,
    ) {
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Workflow(call, workflow, arguments, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: wait for its end, or abort it.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let resumed = match arguments.trim() {
            "--resume" => match self.newest_run(Some(&workflow)) {
                Some(run) => match run.resumable() {
                    Ok(run) => Some(run),
                    Err(error) => return reply.fail(error),
                },
                None => {
                    let message = format!("The workflow {workflow} did not run in this session.");
                    return reply.fail(ApiError::failed(message));
                }
            },
            _ => None,
        };
        let id: Arc<str> = self.shared.clock.id("w-").into();
        let (stop, control) = self.hold(TurnId::from(&*id), Some(call.cause()), Phase::Streaming);
        let arguments = resumed.as_ref().map_or(arguments, |run| run.arguments.clone());
        reply.ok(HeldRun { id, arguments, stop, control, from: resumed });
    }

    /// Starts a turn with the first waiting message, unless an abort holds it. Replies once it is on disk.
    pub(super) async fn begin_next(&mut self, reply: Option<Reply<Resumed>>) {
        let Some(next) = self.queue.first() else { return };
        let turn = next.turn.clone().unwrap_or_else(|| TurnId::from(self.shared.clock.id("t-")));
        let mut gathered = self.gather(next.content.clone(), &turn).await;
        gathered.bodies.push(queue::dequeued(&self.handle.id, std::slice::from_ref(&next), false));
        gathered.bodies.push(self.turn_record(&turn, None));
        match self.append_for(gathered.bodies, [next.request.clone()]).await {
            Ok(written) => {
                if let Some(reply) = reply {
                    reply.ok(Resumed { is_resumed: true, turn: Some(turn.clone()) });
                }
                self.tell_failures(gathered.failures, next.cause.as_ref());
                self.tell_messages(&written, next.cause.as_ref(), false);
                self.begin_turn(turn, next.cause, None);
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
            let gathered = self.gather(waiting.content.clone(), turn).await;
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

    /// The turn's task has ended.
    pub(super) async fn turn_ended(&mut self, turn: &TurnId, end: TurnEnd) {
        let Some(running) = self.turn.take_if(|running| running.id == *turn) else { return };
        let was_compaction = self.facts.phase == Phase::Compacting;
        let ended = running.ended(end, self.handle.snapshot().messages().rev());
        let mut bodies = Vec::new();
        if running.is_recorded {
            bodies.push(self.turn_record(turn, Some(ended.outcome)));
        }
        if running.control.holds() && self.queue.len() > 0 && !self.queue.is_held() {
            bodies.push(self.queue_record(QueueEvent::Held));
        }
        if !bodies.is_empty()
            && let Err(error) = self.append(bodies).await
        {
            tracing::warn!(%error, "the journal does not say that a turn has ended");
        }
        self.handle.stop.store(None);
        self.handle.control.store(None);
        self.facts.phase = Phase::Idle;
        self.facts.interrupt_pending = false;
        self.facts.retry_attempt = 0;
        self.facts.retry_deadline_ms = None;
        // A command of the turn may have changed the branch.
        self.look_at_branch();
        self.changed(running.cause.clone());
        if let Some((_, worked)) = self.worked.take_if(|(id, _)| id == turn) {
            let _ = worked.send(end);
        }
        if !was_compaction {
            self.tell_end(&running, ended);
        }
        self.adopt_between_turns().await;
        for waiting in std::mem::take(&mut self.after_turn) {
            match waiting {
                AfterTurn::Prompt(call, incoming, reply) => self.prompt(call, incoming, reply).await,
                AfterTurn::Again(call, how, request, reply) => {
                    self.ask_again(call, how, request, reply).await;
                }
                AfterTurn::Compact(call, wishes, reply) => self.compact(call, wishes, reply),
                AfterTurn::Workflow(call, workflow, arguments, reply) => {
                    self.begin_workflow(call, workflow, arguments, reply);
                }
            }
        }
        // A follow-up starts now, however the turn ended, unless a client aborted it: then all that waits is held. A
        // steering message waits for a model call. A child that its parent ended must not start again.
        let follows = match end {
            _ if running.control.holds() => false,
            TurnEnd::Finished => true,
            TurnEnd::Stopped => self.queue.has_follow_up() && self.handle.working_for().is_none(),
        };
        // Callers that wait for an idle session must not see another turn.
        if follows && self.turn.is_none() && self.until_idle.is_empty() {
            self.begin_next(None).await;
        }
        if self.turn.is_none() {
            self.shared.tree.announce(running.cause);
        }
        self.check_idle();
    }

    /// The turn's last message is written. The session stays occupied until the last stage was shown.
    /// Requests in between wait for that, so that a client may send the next prompt as soon as it sees the
    /// message.
    pub(super) fn ending(&mut self, turn: &TurnId, last: Option<Arc<Entry>>) {
        if let Some(running) = self.turn.as_mut().filter(|running| running.id == *turn) {
            running.is_ending = true;
            running.last = last;
        }
    }

    /// Notifies everyone of the end of a turn or of a workflow's run.
    fn tell_end(&self, running: &RunningTurn, ended: TurnEnded) {
        let event = Event {
            turn: Some(running.id.clone()),
            entry: running.last.as_ref().map(|entry| entry.id.clone()),
            ..self.event(Body::TurnEnded(Arc::new(ended)), running.cause.clone())
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    /// Answers callers that wait for an idle session, if it is idle.
    pub(super) fn check_idle(&mut self) {
        if self.turn.is_none() && self.bash.is_none() && !self.jobs.any_running() {
            for reply in self.until_idle.drain(..) {
                reply.ok(());
            }
        }
    }

    /// Ends the running turn. Ending it twice is allowed.
    pub fn abort(&mut self) {
        if let Some(running) = &self.turn {
            running.stop.cancel();
        }
    }

    /// Ends the running turn for a client. One with a known key ends nothing.
    pub(super) async fn abort_for(&mut self, request: Option<Box<Request>>, reply: Reply<bool>) {
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
    pub fn stop_all(&mut self) {
        self.abort();
        self.jobs.stop_all();
        self.abort_bash();
    }

    /// Replies once nothing runs.
    pub fn when_idle(&mut self, reply: Reply<()>) {
        self.until_idle.push(reply);
        self.check_idle();
    }

    /// Ends the running turn after the running tool calls, and returns undelivered steering text.
    pub async fn interrupt(
        &mut self,
        call: Call,
        request: Option<Box<Request>>,
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
        let texts: Vec<String> = waiting.iter().map(Waiting::text).collect();
        reply.ok(Interrupted { waits_for, text: texts.join("\n"), is_repeated: false, ended });
        if self.turn.is_some() {
            self.changed(Some(call.cause()));
        }
    }

    /// Ends the running turn after its tool calls. Returns whether it waits for one.
    fn interrupt_turn(&mut self) -> Vec<Arc<str>> {
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
    pub fn abort_retry(&mut self) {
        if let Some(running) = &self.turn
            && self.facts.phase == Phase::Retrying
        {
            running.control.give_up.cancel();
        }
    }

    /// The turn waits for the retry of a model call.
    pub(super) fn retrying(&mut self, retry: RetryAwaited) {
        let pause = i64::try_from(retry.pause.as_millis()).unwrap_or(i64::MAX);
        let now = crate::clock::epoch_millis(self.shared.clock.now());
        self.facts.phase = Phase::Retrying;
        self.facts.retry_attempt = retry.attempt;
        self.facts.retry_deadline_ms = Some(now.saturating_add(pause));
        self.tell(Body::RetryAwaited(Arc::new(retry)));
        self.changed_by_turn();
    }

    /// The turn's wait is over.
    pub(super) fn retry_over(&mut self) {
        self.facts.phase = Phase::Streaming;
        self.facts.retry_deadline_ms = None;
        self.changed_by_turn();
    }

    /// The model summarises the older part of the conversation.
    pub(super) fn compaction_started(&mut self, asked: bool) {
        self.tell(Body::CompactionStarted { asked });
        self.facts.phase = Phase::Compacting;
        self.changed_by_turn();
    }

    /// The summary is written or failed. The session goes on in the phase before it.
    pub(super) fn compaction_ended(&mut self, phase: Phase, ended: CompactionEnded) {
        let ended = CompactionEnded { tokens: self.facts.context_tokens, ..ended };
        self.tell(Body::CompactionEnded(Arc::new(ended)));
        self.facts.phase = phase;
        self.changed_by_turn();
    }

    /// Notifies everyone of a fact about the running turn.
    fn tell(&self, body: Body) {
        let running = self.turn.as_ref();
        let event = Event {
            turn: running.map(|running| running.id.clone()),
            ..self.event(body, running.and_then(|running| running.cause.clone()))
        };
        let _ = self.handle.show(&self.shared.hub, event);
    }

    fn changed_by_turn(&mut self) {
        let cause = self.turn.as_ref().and_then(|running| running.cause.clone());
        self.changed(cause);
    }

    /// Compacts the conversation on the user's request.
    pub fn compact(&mut self, call: Call, wishes: Option<String>, reply: Reply<Option<String>>) {
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Compact(call, wishes, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: wait for its end, or abort it.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let id = TurnId::from(self.shared.clock.id("t-"));
        let (stop, control) = self.hold(id.clone(), Some(call.cause()), Phase::Compacting);
        let session = self.handle.clone();
        let task = TurnTask {
            session: session.clone(),
            id: id.clone(),
            cause: Some(call.cause()),
            stop,
            control,
            execution: None,
        };
        let compaction = self.agent.clone().compact(task, wishes);
        self.shared.tasks.spawn(async move {
            let done = compaction.await;
            let end = if matches!(done, Ok(_) | Err(CompactionError::Nothing)) {
                TurnEnd::Finished
            } else {
                TurnEnd::Stopped
            };
            // The answer comes last: a client that has it finds the session idle.
            let _ = session.ask(|ack| Change::TurnEnded { turn: id, end, ack }).await;
            reply.send(match done {
                Ok(summary) => Ok(Some(summary)),
                Err(CompactionError::Nothing) => Ok(None),
                Err(error) => Err(ApiError::failed(error.to_string())),
            });
        });
    }
}

impl SessionActor {
    /// Runs one tool for a client. It holds the session like a turn, and leaves no message.
    pub(super) fn call_tool(
        &mut self,
        call: Call,
        (tool, arguments): (String, Value<'static>),
        reply: Reply<ToolOutcome>,
    ) {
        if self.turn.is_some() {
            let message = "A turn is running: wait for its end, or abort it.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let id = TurnId::from(self.shared.clock.id("t-"));
        let (stop, control) = self.hold(id.clone(), Some(call.cause()), Phase::Streaming);
        let session = self.handle.clone();
        let task = TurnTask {
            session: session.clone(),
            id: id.clone(),
            cause: Some(call.cause()),
            stop,
            control,
            execution: None,
        };
        let running = self.agent.clone().call_tool(task, tool, arguments);
        self.shared.tasks.spawn(async move {
            let outcome = AssertUnwindSafe(running).catch_unwind().await;
            let end = if outcome.is_ok() { TurnEnd::Finished } else { TurnEnd::Stopped };
            // The answer comes last: a client that has it finds the session idle.
            let _ = session.ask(|ack| Change::TurnEnded { turn: id, end, ack }).await;
            reply.send(outcome.map_err(|_| ApiError::failed("The tool failed inside.")));
        });
    }
}

/// A request as its entry notes it: with the turn of its answer.
pub(super) fn answered(request: Option<Box<Request>>, turn: &TurnId) -> Option<Arc<Request>> {
    request.map(|request| Arc::new(Request { turn_id: Some(turn.clone()), ..*request }))
}

/// Why an end of a turn failed that has happened all the same.
fn kept_not(error: ApiError) -> ApiError {
    ApiError {
        message: format!("The turn was ended, but that could not be kept: {}", error.message),
        ..error
    }
}
