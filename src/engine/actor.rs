//! A session that lives: its state, kept by one task.
//!
//! Everything here runs on the session's own task. An entry counts only when it is on disk: the task
//! waits for the journal before it changes what it shows, so that nothing has to be taken back.

mod adopt;
mod again;
mod alone;
mod changes;
mod depart;
mod gather;
mod jobs;
mod messages;
mod pending;
mod stopping;
mod take_up;
mod turns;
mod undo;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::clock::rfc3339;
use crate::engine::agent::Agent;
use crate::engine::change::{Change, HeldRun};
use crate::engine::conversation;
use crate::engine::editor_view::EditorView;
use crate::engine::entries::EntryTree;
use crate::engine::handle::Handle;
use crate::engine::incoming::Incoming;
use crate::engine::jobs::Jobs;
use crate::engine::keeper::Departed;
use crate::engine::ledger::Ledger;
use crate::engine::parentage::Parentage;
use crate::engine::progress::notification;
use crate::engine::queue::MessageQueue;
use crate::engine::revision::ConfigRevision;
use crate::engine::run_record::{self, RunRecord};
use crate::engine::running::RunningTurn;
use crate::engine::services::{Services, refused};
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::turn_control::TurnEnd;
use crate::engine::undo::UndoHistory;
use crate::engine::unended::UnendedTurn;
use crate::event::{Body, Cause, Event, NoticeLevel};
use crate::facts::editor::Editor;
use crate::facts::{SessionFacts, TemplateFacts};
use crate::git;
use crate::limits::{LET_GO_TRIES, MAILBOX};
use crate::message::{Block, EntryId, Message, Mode, Role, ThinkingLevel, TurnId};
use crate::runner::sandbox;
use crate::session::{Again, ApiError, Call, Prompted, Reply};
use crate::store::record::{KeyedRequest, TurnEvent};
use crate::store::{Entry, EntryBody, Header, Journal, Loaded};
use crate::value::Value;
use crate::visible;

/// A session's state.
pub struct SessionActor {
    shared: Arc<Services>,
    /// What answers its turns.
    agent: Arc<dyn Agent>,
    handle: Handle,
    journal: Journal,
    entries: EntryTree,
    facts: SessionFacts,
    turn: Option<RunningTurn>,
    /// What came while the turn was about to end, and waits for its end.
    after_turn: Vec<AfterTurn>,
    editor: EditorView,
    /// Messages that wait for the turn, or for its end.
    queue: MessageQueue,
    /// Whether it has changed since clients were told.
    queue_is_new: bool,
    jobs: Jobs,
    /// The command that runs for the user.
    bash: Option<CancellationToken>,
    ledger: Ledger,
    /// What its turns did to files.
    changes: UndoHistory,
    /// Who waits for the session to be idle.
    until_idle: Vec<Reply<()>>,
    /// Who waits for the end of a turn that works for another session.
    worked: Option<(TurnId, oneshot::Sender<TurnEnd>)>,
    /// A workflow that the process before this one did not bring to its end: it goes on with a person's answer, or because it
    /// was handed over, or it is marked at once.
    cut_off: Option<RunRecord>,
    /// A turn that it did not bring to its end, and that goes on with a person's answer.
    unended: Option<Arc<UnendedTurn>>,
    /// Whether that turn goes on by itself, since another process has handed it over.
    is_handed_over: bool,
    /// What is to be said once the session has left the process.
    departed: Option<Departed>,
    /// Which configuration the session goes on with, as an entry that is written before the next message.
    adopted: Option<EntryBody>,
}

/// What waits for the end of a turn that is about to end.
enum AfterTurn {
    Prompt(Call, Incoming, Reply<Prompted>),
    Again(Call, Again, Option<Box<KeyedRequest>>, Reply<Prompted>),
    Compact(Call, Option<String>, Reply<Option<String>>),
    Workflow(Call, Arc<str>, String, Reply<HeldRun>),
}

impl SessionActor {
    /// Starts the task of a session that was created or loaded.
    pub(super) fn start(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        entries: Vec<Arc<Entry>>,
    ) -> Handle {
        Self::start_with(shared, agent, journal, header, entries, |handle| handle)
    }

    /// Starts the task of a session that works for another.
    pub(super) fn start_child(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        link: Parentage,
        parent: &Handle,
    ) -> Handle {
        Self::start_with(shared, agent, journal, header, Vec::new(), |handle| handle.below(parent, link))
    }

    fn start_with(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        journal: Journal,
        header: Header,
        entries: Vec<Arc<Entry>>,
        finish: impl FnOnce(Handle) -> Handle,
    ) -> Handle {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        let config = shared.configuration.for_folder(&header.cwd);
        let facts = initial_facts(shared, &config, &journal, &header, !entries.is_empty());
        let empty = SessionSnapshot {
            facts: Arc::new(facts.clone()),
            branch: imbl::Vector::new(),
            entries: imbl::Vector::new(),
            offset: 0,
            bytes: 0,
            queue: MessageQueue::default(),
            ledger: Ledger::default(),
        };
        let handle = Handle::new(header.session.clone(), sender, empty, config);
        let handle = finish(handle);
        let mut live = Self {
            shared: shared.clone(),
            agent: agent.clone(),
            handle: handle.clone(),
            journal,
            entries: EntryTree::default(),
            facts,
            turn: None,
            after_turn: Vec::new(),
            editor: EditorView::default(),
            queue: MessageQueue::default(),
            queue_is_new: false,
            jobs: Jobs::default(),
            bash: None,
            ledger: Ledger::default(),
            changes: UndoHistory::default(),
            until_idle: Vec::new(),
            worked: None,
            cut_off: None,
            unended: None,
            is_handed_over: false,
            departed: None,
            adopted: None,
        };
        for entry in entries {
            live.take_in(entry);
        }
        live.queue_is_new = false;
        live.cut_off = live.newest_run(None).filter(|begun| begun.ended.is_empty());
        live.publish();
        // The session outlives whatever has opened it.
        let span = tracing::debug_span!(parent: None, "session", id = handle.id.as_str());
        shared.tasks.spawn(Box::new(live).run(receiver).instrument(span));
        handle
    }

    /// Starts the task of a session that was read from disk, and says what was repaired.
    pub(super) fn start_loaded(
        shared: &Arc<Services>,
        agent: &Arc<dyn Agent>,
        loaded: Loaded,
    ) -> (Handle, Vec<String>) {
        let Loaded { journal, header, entries, faults } = loaded;
        let handled = faults.iter().map(|fault| fault.handled()).collect();
        (Self::start(shared, agent, journal, header, entries), handled)
    }

    async fn run(mut self: Box<Self>, mut mailbox: mpsc::Receiver<Change>) {
        if self.cut_off.as_ref().is_some_and(|begun| !begun.is_handed_over && !begun.waits_for_a_person()) {
            Box::pin(self.give_up_run()).await;
        }
        while let Some(change) = mailbox.recv().await {
            let unload = match change {
                Change::Unload(unload) if self.is_at_rest() => unload,
                change => {
                    // On its own, so that a session that rests keeps no room for the largest change.
                    Box::pin(self.apply(change)).await;
                    if let Some(departed) = self.departed.take() {
                        return Box::pin(self.leave(departed)).await;
                    }
                    self.handle.is_busy.store(!self.is_at_rest(), Ordering::Release);
                    continue;
                }
            };
            let shared = self.shared.clone();
            // Whoever opens the session again waits until its file is let go.
            let not_opening = shared.tree.opening.lock().await;
            if shared.tree.forget(&self.handle, unload.lookup) {
                settle(&self.journal).await;
                if let Some(own) = self.handle.mcp.own().cloned() {
                    shared.tasks.spawn(async move { own.end().await });
                }
                drop(self);
                unload.done();
                drop(not_opening);
                return shared.tree.announce(None);
            }
        }
    }

    /// Whether nothing runs and nobody is awaited in the session. A message that waits is in the journal and comes
    /// back with the session, as the keys of requests do.
    fn is_at_rest(&self) -> bool {
        self.turn.is_none()
            && self.bash.is_none()
            && !self.jobs.any_running()
            && self.until_idle.is_empty()
            && self.handle.working_for().is_none()
    }

    /// Writes down that a workflow was cut off with its process, and tells the person how it can go on.
    pub(super) async fn give_up_run(&mut self) {
        let Some(begun) = &self.cut_off.take() else { return };
        self.facts.interrupted = None;
        if let Err(error) = self.append(vec![run_record::cut_off(&self.handle.id, begun)]).await {
            tracing::warn!(%error, "the journal does not say that a workflow was interrupted");
        }
        self.notify(NoticeLevel::Warning, &begun.report());
    }

    /// Tells the person something.
    pub(super) fn notify(&self, level: NoticeLevel, message: &str) {
        let body = Body::Notification(notification(self.shared.clock.id("n-"), level, message));
        let _ = self.handle.show(&self.shared.hub, self.event(body, None));
    }

    /// The newest run of a workflow here, or of any.
    fn newest_run(&self, named: Option<&str>) -> Option<RunRecord> {
        run_record::newest(self.entries.all(), &self.handle.id, named)
    }

    /// Whether a turn runs.
    pub(super) fn is_running(&self) -> bool {
        self.turn.is_some()
    }

    /// Appends entries as one, each following the one before, and waits until they are on disk.
    ///
    /// # Errors
    /// When they could not be written; nothing has changed then.
    pub async fn append(&mut self, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, ApiError> {
        self.append_for(bodies, []).await
    }

    /// The same for requests with keys. Each stands in the line of what carries it out: they are those of the messages
    /// and wishes among the entries, in order.
    ///
    /// # Errors
    /// When they could not be written; nothing has changed then.
    pub async fn append_for(
        &mut self,
        bodies: Vec<EntryBody>,
        requests: impl IntoIterator<Item = Option<Arc<KeyedRequest>>>,
    ) -> Result<Vec<Arc<Entry>>, ApiError> {
        let mut requests = requests.into_iter();
        let ts = rfc3339(self.shared.clock.now());
        let mut parent = self.entries.last().cloned();
        let mut entries = Vec::with_capacity(bodies.len());
        for mut body in bodies {
            let id = EntryId::from(self.shared.clock.id("e-"));
            let request = match &body {
                EntryBody::Message(_) | EntryBody::Queued(_) | EntryBody::Requested(_) => {
                    requests.next().flatten()
                }
                _ => None,
            };
            if let EntryBody::Message(message) = &mut body {
                let message = Arc::make_mut(message);
                message.sender = request.as_ref().and_then(|request| request.sender.clone());
                message.id = id.clone();
                message.parent_id = parent.clone();
                message.timestamp = ts.clone();
            }
            // What follows a leaf follows the entry that it names.
            let next = match &body {
                EntryBody::Leaf(leaf) => leaf.clone(),
                _ => id.clone(),
            };
            entries.push(Arc::new(Entry { id, parent: parent.replace(next), ts: ts.clone(), request, body }));
        }
        let mut tries = 0..LET_GO_TRIES;
        loop {
            let (sender, receiver) = oneshot::channel();
            self.journal.append(&entries, move |result| {
                let _ = sender.send(result);
            });
            match receiver.await {
                Ok(Ok(())) => break,
                // The file of a session that rests is closed for the one that is written to.
                Ok(Err(error)) if error.is_out_of_descriptors() && tries.next().is_some() => {
                    self.shared.tree.let_go(Some(&self.handle.id)).await;
                }
                Ok(Err(error)) => return Err(refused(&error)),
                Err(_) => return Err(ApiError::failed("The journal ended.")),
            }
        }
        for entry in &entries {
            self.take_in(entry.clone());
        }
        self.handle.publish_entries(&self.shared.hub, self.snapshot(), &entries);
        Ok(entries)
    }

    /// Takes an entry that is on disk into the state.
    fn take_in(&mut self, entry: Arc<Entry>) {
        self.ledger.apply(&entry, &self.handle.id);
        self.changes.apply(&entry, &self.handle.id);
        let facts = &mut self.facts;
        if self.entries.push(&entry) {
            self.editor.forget_sent();
            facts.message_count = self.entries.messages();
        } else if matches!(entry.body, EntryBody::Message(_)) {
            facts.message_count = facts.message_count.saturating_add(1);
        }
        match &entry.body {
            EntryBody::Message(message) => {
                if let Some(usage) = &message.usage {
                    facts.usage.add(usage);
                    facts.context_tokens = usage.total();
                }
                if message.role == Role::User && facts.first_message.is_none() {
                    let start: String = message.text().chars().take(80).collect();
                    facts.first_message = Some(start.replace('\n', " ").into());
                }
            }
            EntryBody::Name(name) => facts.name = Some(name.clone()),
            EntryBody::Model { provider, id } => {
                self.handle.config().describe_model(facts, provider.clone(), id.clone());
            }
            EntryBody::Setting { key, value } => match (key.as_ref(), value.as_str(), value.as_bool()) {
                ("thinking", Some(level), _) => {
                    facts.thinking = ThinkingLevel::parse(level).unwrap_or(facts.thinking);
                }
                // A mode that is not understood, from a newer version, allows least.
                ("mode", Some(mode), _) => facts.mode = Mode::parse(mode).unwrap_or(Mode::ReadOnly),
                ("auto-compaction", _, Some(enabled)) => facts.auto_compaction = enabled,
                ("auto-retry", _, Some(enabled)) => facts.auto_retry = enabled,
                ("mcp-off", ..) => {
                    let names = value.as_slice().unwrap_or_default().iter().filter_map(Value::as_str);
                    facts.mcp_off = Arc::new(names.map(Arc::from).collect());
                }
                _ => {}
            },
            EntryBody::Context(context) => {
                if let Some(editor) = &context.editor {
                    self.editor.set_sent(editor.clone());
                }
            }
            EntryBody::Compaction(_) => {
                // It may be among what is no longer sent.
                self.editor.forget_sent();
                // Until the next call says so exactly.
                let left = conversation::messages(self.entries.branch());
                self.facts.context_tokens = left.iter().map(|message| conversation::tokens(message)).sum();
            }
            EntryBody::Queued(_) | EntryBody::Dequeued(_) | EntryBody::Queue(_) => {
                self.queue.apply(&entry, &self.handle.id);
                self.facts.pending_messages = self.queue.len();
                self.facts.queue_held = self.queue.is_held();
                self.queue_is_new = true;
            }
            EntryBody::Leaf(_) => return,
            EntryBody::Turn(turn) if turn.session_id == self.handle.id => {
                let turn = (turn.event == TurnEvent::Interrupted).then(|| turn.turn_id.clone());
                self.facts.interrupted = turn;
            }
            EntryBody::Rewritten(_)
            | EntryBody::Manifest(_)
            | EntryBody::Workflow(_)
            | EntryBody::Requested(_)
            | EntryBody::Turn(_)
            | EntryBody::Files(_)
            | EntryBody::Question(_)
            | EntryBody::Answer(_)
            | EntryBody::Call(_)
            | EntryBody::Other { .. } => {}
        }
        if self.facts.location.is_none() {
            self.facts.location = Some(self.journal.location().into());
        }
    }

    /// Makes the state visible to readers.
    fn publish(&self) {
        self.handle.publish(self.snapshot());
    }

    fn snapshot(&self) -> SessionSnapshot {
        let facts = SessionFacts { can_retry: self.can_ask_again(), ..self.facts.clone() };
        SessionSnapshot {
            facts: Arc::new(facts),
            branch: self.entries.branch().clone(),
            entries: self.entries.all().clone(),
            offset: self.entries.offset(),
            bytes: self.journal.bytes(),
            queue: self.queue.clone(),
            ledger: self.ledger.clone(),
        }
    }

    /// Makes the state visible and tells everyone.
    pub fn changed(&mut self, cause: Option<Cause>) {
        self.publish();
        let snapshot = self.handle.snapshot();
        let queue = std::mem::take(&mut self.queue_is_new)
            .then(|| Body::QueueUpdated(Arc::new(snapshot.queue.shown())));
        let state =
            [Body::SessionUpdated(snapshot.facts.clone()), Body::FooterUpdated(snapshot.facts.clone())];
        for body in queue.into_iter().chain(state) {
            let event = self.event(body, cause.clone());
            let _ = self.handle.show(&self.shared.hub, event);
        }
    }

    fn set_archived(&mut self, archived: bool) {
        self.facts.archived = archived;
        self.publish();
    }

    fn set_editor(&mut self, editor: Editor) {
        self.facts.editor = self.editor.show(editor);
        self.publish();
    }

    /// Looks at the branch again.
    pub(super) fn look_at_branch(&mut self) {
        self.facts.git_branch = git::branch(Path::new(&*self.facts.cwd));
    }

    /// Looks again for what is known of the session's model, and tells everyone where that is something new.
    pub(super) fn know_model(&mut self) {
        let mut facts = self.facts.clone();
        let (provider, id) = (facts.model_provider.clone(), facts.model_id.clone());
        self.handle.config().describe_model(&mut facts, provider, id);
        let known = |facts: &SessionFacts| {
            (facts.context_window, facts.model_reasoning, facts.thinking_levels.clone())
        };
        if known(&facts) != known(&self.facts) {
            self.facts = facts;
            self.changed(None);
        }
    }

    pub(super) fn set_templates(&mut self, templates: Arc<[TemplateFacts]>) {
        if self.facts.prompt_templates != templates {
            self.facts.prompt_templates = templates;
            self.changed(None);
        }
    }

    /// An event of this session, outside any turn.
    pub(super) fn event(&self, body: Body, cause: Option<Cause>) -> Event {
        Event {
            session: Some(self.handle.id.clone()),
            offset: self.entries.offset(),
            turn: None,
            entry: None,
            cause,
            piece: None,
            body,
        }
    }

    /// Names the session. Lists show the name in a row, so it is one line of characters that are seen.
    pub async fn set_name(&mut self, call: Call, name: String, reply: Reply<String>) {
        if visible::line(&name) != name {
            let expected = "one line without control characters and other hidden ones";
            return reply.fail(ApiError::invalid_param("name", expected));
        }
        match self.append(vec![EntryBody::Name(name.as_str().into())]).await {
            Ok(_) => {
                reply.ok(name);
                self.changed(Some(call.cause()));
                self.shared.tree.announce(Some(call.cause()));
            }
            Err(error) => reply.fail(error),
        }
    }

    /// Notes a choice that holds from here on, and answers with it.
    pub async fn set<T>(&mut self, call: Call, key: &str, value: Value<'static>, answer: T, reply: Reply<T>) {
        match self.append(vec![EntryBody::Setting { key: key.into(), value }]).await {
            Ok(_) => {
                reply.ok(answer);
                self.changed(Some(call.cause()));
            }
            Err(error) => reply.fail(error),
        }
    }

    /// Notes a model that holds from the next model call on.
    pub async fn set_model(
        &mut self,
        call: Call,
        provider: Arc<str>,
        id: Arc<str>,
        reply: Reply<(String, String)>,
    ) {
        match self.append(vec![EntryBody::Model { provider: provider.clone(), id: id.clone() }]).await {
            Ok(_) => {
                reply.ok((provider.to_string(), id.to_string()));
                self.changed(Some(call.cause()));
            }
            Err(error) => reply.fail(error),
        }
    }
}

/// Waits until all that was acknowledged is on disk, so that nobody else has the file open.
async fn settle(journal: &Journal) {
    let (sender, receiver) = oneshot::channel();
    journal.settle(move |result| {
        let _ = sender.send(result);
    });
    if let Ok(Err(error)) = receiver.await {
        tracing::error!(%error, "what was acknowledged may not outlive a power failure");
    }
}

/// A message of the user's in a turn.
pub(super) fn user_message(content: Vec<Block>, turn: &TurnId) -> Arc<Message> {
    let mut message = Message::new(EntryId::from(""), Role::User, content, Arc::from(""));
    message.turn_id = Some(turn.clone());
    Arc::new(message)
}

fn initial_facts(
    shared: &Services,
    config: &ConfigRevision,
    journal: &Journal,
    header: &Header,
    written: bool,
) -> SessionFacts {
    let mut facts = SessionFacts {
        location: written.then(|| journal.location().into()),
        cwd: header.cwd.clone(),
        git_branch: git::branch(Path::new(&*header.cwd)),
        parent: header.parent.as_ref().map(|parent| parent.session.clone()),
        created_at: header.created_at.clone(),
        sandboxed: sandbox::state() == sandbox::SandboxState::Enforced,
        mode: config.settings.mode,
        thinking: shared.configuration.usual_thinking(),
        archived: written && shared.journals.is_archived(&header.session),
        ..SessionFacts::empty(header.session.clone())
    };
    let (provider, model) = shared.configuration.usual_model();
    config.describe_model(&mut facts, provider, model);
    facts
}
