//! The activities of a session (prompts and queued messages, turns, workflows, compactions), and how each
//! ends. Does not know the wire.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{AfterTurn, SessionActor, user_message};
use crate::catalogue::ErrorCode;
use crate::event::{Body, Cause, CompactionEnded, Event, RetryAwaited, Sender, UserMessage};
use crate::facts::Phase;
use crate::limits::QUEUED_MESSAGES;
use crate::message::{Block, TurnId};
use crate::runtime::agent::{self, TurnTask};
use crate::runtime::change::{Begun, Change, Claim, HeldRun};
use crate::runtime::control::{Control, TurnEnd};
use crate::runtime::execution::Execution;
use crate::runtime::invocation;
use crate::runtime::queue::{self, Until, Waiting};
use crate::runtime::running::RunningTurn;
use crate::session::{ApiError, Call, Prompt, Prompted, Reply};
use crate::store::{Entry, EntryBody};

impl SessionActor {
    /// Starts a turn with the user's message. Replies once the message is on disk.
    pub async fn prompt(&mut self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        let Some(reply) = self.first_time(&prompt, reply) else { return };
        if self.is_ending() {
            return self.after_turn.push(AfterTurn::Prompt(call, prompt, reply));
        }
        if self.turn.is_some() {
            let message = "A turn is running: steer it, queue the message with follow_up, or abort the turn.";
            return reply.fail(ApiError::new(ErrorCode::SessionNotIdle, message));
        }
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let key = prompt.idempotency_key.clone();
        let gathered = self.gather(queue::content(prompt), &turn).await;
        let written = match self.append(gathered.bodies).await {
            Ok(written) => written,
            Err(error) => return reply.fail(error),
        };
        self.remember(key, Some(turn.clone()));
        // A client with the answer sees the session as busy.
        self.facts.phase = Phase::Streaming;
        self.publish();
        reply.ok(Prompted { turn: Some(turn.clone()) });
        self.tell_failures(gathered.failures, Some(&call.cause()));
        self.tell_messages(&written, Some(&call.cause()), false);
        self.begin_turn(turn, Some(call.cause()), None);
    }

    /// Adds a message to the running turn, or queues it until its end; without a turn, starts one with the
    /// oldest waiting message.
    pub async fn enqueue(&mut self, call: Call, prompt: Prompt, until: Until, reply: Reply<Prompted>) {
        // A turn that is about to end makes no further model call.
        let until = if self.is_ending() { Until::TurnEnd } else { until };
        if self.turn.is_none() && self.queue.len() == 0 {
            return self.prompt(call, prompt, reply).await;
        }
        let Some(reply) = self.first_time(&prompt, reply) else { return };
        if self.queue.len() >= QUEUED_MESSAGES {
            let mut error = ApiError::failed(format!("{QUEUED_MESSAGES} messages wait already."));
            error.retryable = true;
            return reply.fail(error);
        }
        let turn = match (&self.turn, until) {
            (Some(running), Until::NextCall) => running.id.clone(),
            _ => TurnId::from(self.shared.clock.id("t-")),
        };
        let key = prompt.idempotency_key.clone();
        let own_turn = (until == Until::TurnEnd).then_some(&turn);
        let entry = queue::queued(&self.handle.id, until, &queue::content(prompt), own_turn);
        match self.append(vec![entry]).await {
            Ok(entries) => {
                for entry in entries {
                    self.queue.set_cause(&entry.id, call.cause());
                }
            }
            Err(error) => return reply.fail(error),
        }
        self.remember(key, Some(turn.clone()));
        reply.ok(Prompted { turn: Some(turn) });
        self.changed(Some(call.cause()));
        if self.turn.is_none() {
            self.begin_next().await;
        }
    }

    /// The reply, unless the same key was answered before: that answer is then repeated.
    fn first_time(&self, prompt: &Prompt, reply: Reply<Prompted>) -> Option<Reply<Prompted>> {
        match prompt.idempotency_key.as_ref().map(|key| self.ledger.look_up(key)) {
            Some(Claim::Answered(turn)) => {
                reply.ok(Prompted { turn });
                None
            }
            Some(Claim::New) | None => Some(reply),
        }
    }

    /// Starts a turn with the text of a prompt template or a skill.
    pub(super) async fn invoke(
        &mut self,
        call: Call,
        name: String,
        arguments: String,
        prompt: Prompt,
        reply: Reply<Prompted>,
    ) {
        let (shared, cwd) = (self.shared.clone(), self.facts.cwd.clone());
        let search = move || shared.search_folder(&cwd);
        let Ok(project) = tokio::task::spawn_blocking(search).await else { return };
        match invocation::expand(&project, &name, &arguments) {
            Ok(message) => self.prompt(call, Prompt { message, ..prompt }, reply).await,
            Err(error) => reply.fail(error),
        }
    }

    fn remember(&mut self, key: Option<String>, turn: Option<TurnId>) {
        if let Some(key) = key {
            self.ledger.record(key, turn);
        }
    }

    /// Whether the turn's last message is written, and the turn is about to end.
    fn is_ending(&self) -> bool {
        let room = self.after_turn.len() < QUEUED_MESSAGES;
        room && self.turn.as_ref().is_some_and(|running| running.is_ending)
    }

    /// Notifies everyone of messages that were put into the conversation.
    fn tell_messages(&self, written: &[Arc<Entry>], cause: Option<&Cause>, by_runtime: bool) {
        let from = match cause {
            _ if by_runtime => Sender::Runtime,
            Some(cause) => {
                let client = self.shared.hub.client(cause.connection);
                let name = client.and_then(|client| Some(client.peer().agreed?.name.clone()));
                Sender::Client { connection: cause.connection, name }
            }
            None => Sender::Earlier,
        };
        for entry in written {
            let EntryBody::Message(message) = &entry.body else { continue };
            let body =
                Body::UserMessage(Arc::new(UserMessage { message: message.clone(), from: from.clone() }));
            let event = Event {
                turn: message.turn_id.clone(),
                entry: Some(entry.id.clone()),
                ..self.event(body, cause.cloned())
            };
            let _ = self.handle.show(&self.shared.hub, event);
        }
    }

    /// Occupies the session.
    fn hold(&mut self, id: TurnId, cause: Option<Cause>, phase: Phase) -> (CancellationToken, Arc<Control>) {
        let running = RunningTurn::new(id, cause.clone());
        let (stop, control) = (running.stop.clone(), running.control.clone());
        self.handle.stop.store(Some(Arc::new(stop.clone())));
        self.facts.phase = phase;
        self.turn = Some(running);
        self.changed(cause.clone());
        self.shared.tree.announce(cause);
        (stop, control)
    }

    fn begin_turn(&mut self, id: TurnId, cause: Option<Cause>, execution: Option<Arc<Execution>>) {
        let (stop, control) = self.hold(id.clone(), cause.clone(), Phase::Streaming);
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
        self.begin_stage(turn.clone(), task, cause.clone()).await?;
        let (sender, receiver) = oneshot::channel();
        self.worked = Some((turn.clone(), sender));
        self.begin_turn(turn, cause, execution);
        Ok(receiver)
    }

    /// Writes the message for a turn of a workflow or of a subagent.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) async fn begin_stage(
        &mut self,
        turn: TurnId,
        message: String,
        cause: Option<Cause>,
    ) -> Result<(), ApiError> {
        let message = user_message(vec![Block::Text(message.into())], &turn);
        let bodies = self.with_adopted(vec![EntryBody::Message(message)]);
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

    /// Starts a turn with the oldest waiting message.
    async fn begin_next(&mut self) {
        let Some(next) = self.queue.first() else { return };
        let turn = next.turn.clone().unwrap_or_else(|| TurnId::from(self.shared.clock.id("t-")));
        let mut gathered = self.gather(next.content.clone(), &turn).await;
        gathered.bodies.push(queue::dequeued(&self.handle.id, std::slice::from_ref(&next)));
        match self.append(gathered.bodies).await {
            Ok(written) => {
                self.tell_failures(gathered.failures, next.cause.as_ref());
                self.tell_messages(&written, next.cause.as_ref(), false);
                self.begin_turn(turn, next.cause, None);
            }
            Err(error) => {
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
        bodies.push(queue::dequeued(&self.handle.id, &waiting));
        let written = self.append(bodies).await?;
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
        self.handle.stop.store(None);
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
            self.tell_end(&running, end);
        }
        self.adopt_between_turns().await;
        for waiting in std::mem::take(&mut self.after_turn) {
            match waiting {
                AfterTurn::Prompt(call, prompt, reply) => self.prompt(call, prompt, reply).await,
                AfterTurn::Compact(call, wishes, reply) => self.compact(call, wishes, reply),
                AfterTurn::Workflow(call, workflow, arguments, reply) => {
                    self.begin_workflow(call, workflow, arguments, reply);
                }
            }
        }
        // A follow-up starts now, however the turn ended. A steering message waits for a model call. A child
        // that its parent ended must not start again.
        let follows = match end {
            TurnEnd::Finished => true,
            TurnEnd::Stopped => self.queue.has_follow_up() && self.handle.working_for().is_none(),
        };
        // Callers that wait for an idle session must not see another turn.
        if follows && self.turn.is_none() && self.until_idle.is_empty() {
            self.begin_next().await;
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
    fn tell_end(&self, running: &RunningTurn, end: TurnEnd) {
        let ended = running.ended(end, self.handle.snapshot().messages().rev());
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
    pub async fn interrupt(&mut self, call: Call, reply: Reply<(bool, String)>) {
        let Some(running) = &self.turn else { return reply.ok((false, String::new())) };
        let pending = running.control.running_tools.load(Ordering::Acquire) > 0;
        running.control.interrupt.cancel();
        let waiting = self.queue.steering();
        if !waiting.is_empty()
            && let Err(error) = self.append(vec![queue::dequeued(&self.handle.id, &waiting)]).await
        {
            return reply.fail(error);
        }
        let texts: Vec<String> = waiting.iter().map(Waiting::text).collect();
        self.facts.interrupt_pending = pending && self.turn.is_some();
        self.publish();
        reply.ok((pending, texts.join("\n")));
        self.changed(Some(call.cause()));
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
        let (stop, _) = self.hold(id.clone(), Some(call.cause()), Phase::Compacting);
        let session = self.handle.clone();
        let compaction = self.agent.clone().compact(session.clone(), stop, wishes);
        self.shared.tasks.spawn(async move {
            let done = compaction.await;
            let end = if done.is_ok() { TurnEnd::Finished } else { TurnEnd::Stopped };
            // The answer comes last: a client that has it finds the session idle.
            let _ = session.ask(|ack| Change::TurnEnded { turn: id, end, ack }).await;
            reply.send(done.map(Some).map_err(ApiError::failed));
        });
    }
}
