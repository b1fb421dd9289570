//! A session that lives: its state, kept by one task.
//!
//! Everything here runs on the session's own task. An entry counts only when it is on disk: the task
//! waits for the journal before it changes what it shows, so that nothing has to be taken back.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::clock::rfc3339;
use crate::event::{Body, Cause, Event};
use crate::limits::{IDEMPOTENCY_KEYS, MAILBOX};
use crate::message::{Block, EntryId, Message, Role, SessionId, ThinkingLevel, TurnId, Usage};
use crate::projection::{self, Phase, SessionFacts};
use crate::runtime::Shared;
use crate::runtime::mailbox::{Handle, Snapshot, Work};
use crate::runtime::turn;
use crate::session::{ApiError, Call, Prompt, Prompted, Reply};
use crate::store::{Entry, EntryBody, Header, Journal, Loaded};
use crate::value::{Map, Value};

/// A session's state.
pub struct Live {
    shared: Arc<Shared>,
    handle: Handle,
    journal: Journal,
    header: Header,
    /// All entries, in the order of the file.
    entries: Vec<Arc<Entry>>,
    /// Where each entry stands in `entries`.
    places: HashMap<EntryId, usize>,
    /// The entries from the first to the leaf.
    branch: imbl::Vector<Arc<Entry>>,
    facts: SessionFacts,
    turn: Option<Running>,
    /// What prompts with an idempotency key were answered with, oldest first.
    answered: VecDeque<(String, Option<TurnId>)>,
    /// Who waits for the session to be idle.
    until_idle: Vec<Reply<()>>,
}

struct Running {
    id: TurnId,
    cause: Cause,
}

impl Live {
    /// Starts the task of a session that was created or loaded.
    pub(super) fn start(
        shared: &Arc<Shared>,
        journal: Journal,
        header: Header,
        entries: Vec<Arc<Entry>>,
    ) -> Handle {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        let facts = initial_facts(shared, &journal, &header, !entries.is_empty());
        let empty = Snapshot { facts: Arc::new(facts.clone()), branch: imbl::Vector::new(), offset: 0 };
        let handle = Handle::new(header.session.clone(), sender, empty);
        let mut live = Self {
            shared: shared.clone(),
            handle: handle.clone(),
            journal,
            header,
            entries: Vec::new(),
            places: HashMap::new(),
            branch: imbl::Vector::new(),
            facts,
            turn: None,
            answered: VecDeque::new(),
            until_idle: Vec::new(),
        };
        for entry in entries {
            live.apply(entry);
        }
        live.publish();
        shared.tasks.spawn(live.run(receiver));
        handle
    }

    /// Starts the task of a session that was read from disk, and says what was repaired.
    pub(super) fn start_loaded(shared: &Arc<Shared>, loaded: Loaded) -> Handle {
        let Loaded { journal, header, entries, faults } = loaded;
        let handle = Self::start(shared, journal, header, entries);
        for fault in faults {
            let mut payload = Map::new();
            payload.put("code", "session/repaired");
            payload.put("message", fault.handled());
            shared.hub.announce(&Event {
                session: Some(handle.id.clone()),
                offset: handle.snapshot().offset,
                turn: None,
                entry: None,
                cause: None,
                body: Body::Payload(crate::catalogue::Topic::Diagnostic, Arc::new(payload)),
            });
        }
        handle
    }

    async fn run(mut self, mut mailbox: mpsc::Receiver<Work>) {
        while let Some(work) = mailbox.recv().await {
            work(&mut self).await;
        }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.handle.id
    }

    /// What is known of the session now.
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    /// The first line of its file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The journal's path, once there is a file.
    pub fn file(&self) -> Option<&Path> {
        (!self.entries.is_empty()).then(|| self.journal.path())
    }

    /// The file's size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.journal.bytes()
    }

    /// Appends entries as one, each following the one before, and waits until they are on disk.
    ///
    /// # Errors
    /// When they could not be written; nothing has changed then.
    pub async fn append(&mut self, bodies: Vec<EntryBody>) -> Result<Vec<Arc<Entry>>, ApiError> {
        let ts = rfc3339(self.shared.clock.now());
        let mut parent = self.branch.last().map(|entry| entry.id.clone());
        let mut entries = Vec::with_capacity(bodies.len());
        for mut body in bodies {
            let id = EntryId::from(self.shared.clock.id("e-"));
            if let EntryBody::Message(message) = &mut body {
                let message = Arc::make_mut(message);
                message.id = id.clone();
                message.parent_id = parent.clone();
                message.timestamp = ts.clone();
            }
            entries.push(Arc::new(Entry {
                id: id.clone(),
                parent: parent.replace(id),
                ts: ts.clone(),
                body,
            }));
        }
        let (sender, receiver) = oneshot::channel();
        self.journal.append(&entries, move |result| {
            let _ = sender.send(result);
        });
        match receiver.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(ApiError::failed(error.to_string())),
            Err(_) => return Err(ApiError::failed("The journal ended.")),
        }
        for entry in &entries {
            self.apply(entry.clone());
        }
        self.publish();
        Ok(entries)
    }

    /// Takes an entry that is on disk into the state.
    fn apply(&mut self, entry: Arc<Entry>) {
        if self.branch.last().map(|last| &last.id) != entry.parent.as_ref() {
            self.turn_to(entry.parent.as_ref());
        }
        self.places.insert(entry.id.clone(), self.entries.len());
        self.entries.push(entry.clone());
        if let EntryBody::Leaf(leaf) = &entry.body {
            return self.turn_to(Some(leaf));
        }
        self.branch.push_back(entry.clone());
        let facts = &mut self.facts;
        match &entry.body {
            EntryBody::Message(message) => {
                facts.message_count = facts.message_count.saturating_add(1);
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
                self.shared.describe_model(facts, provider.clone(), id.clone())
            }
            EntryBody::Setting { key, value } => match (key.as_ref(), value.as_str(), value.as_bool()) {
                ("thinking", Some(level), _) => {
                    facts.thinking = ThinkingLevel::parse(level).unwrap_or(facts.thinking);
                }
                ("mode", Some(mode), _) => facts.mode = mode.into(),
                ("auto-compaction", _, Some(enabled)) => facts.auto_compaction = enabled,
                ("auto-retry", _, Some(enabled)) => facts.auto_retry = enabled,
                _ => {}
            },
            EntryBody::Leaf(_) | EntryBody::Other { .. } => {}
        }
        if self.facts.file.is_none() {
            self.facts.file = self.journal.path().to_str().map(Arc::from);
        }
    }

    /// Goes on after another entry than the last one.
    fn turn_to(&mut self, leaf: Option<&EntryId>) {
        self.branch = self.path_to(leaf);
        let messages = self.branch.iter().filter(|entry| matches!(entry.body, EntryBody::Message(_)));
        self.facts.message_count = messages.count();
    }

    /// The entries from the first to `leaf`. A parent that is not there ends the path: what can be
    /// shown is shown.
    fn path_to(&self, leaf: Option<&EntryId>) -> imbl::Vector<Arc<Entry>> {
        let mut path = Vec::new();
        let mut next = leaf.cloned();
        while let Some(entry) =
            next.and_then(|id| self.places.get(&id)).and_then(|place| self.entries.get(*place))
        {
            next = entry.parent.clone();
            path.push(entry.clone());
            // A damaged file could claim a cycle.
            if path.len() > self.entries.len() {
                break;
            }
        }
        path.into_iter().rev().collect()
    }

    /// The entries up to and including one, on whichever branch it stands.
    pub fn history(&self, entry: &EntryId) -> Option<imbl::Vector<Arc<Entry>>> {
        self.places.contains_key(entry).then(|| self.path_to(Some(entry)))
    }

    /// Makes the state visible to readers.
    fn publish(&self) {
        let offset = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let snapshot = Snapshot { facts: Arc::new(self.facts.clone()), branch: self.branch.clone(), offset };
        self.handle.publish(snapshot);
    }

    /// Makes the state visible and tells everyone.
    pub fn changed(&mut self, cause: Option<Cause>) {
        self.publish();
        for body in [
            Body::SessionUpdated(Arc::new(projection::session_state(&self.facts))),
            Body::Payload(crate::catalogue::Topic::FooterUpdated, Arc::new(projection::footer(&self.facts))),
        ] {
            let event = self.event(body, cause.clone());
            self.shared.hub.announce(&event);
        }
    }

    /// An event of this session, outside any turn.
    fn event(&self, body: Body, cause: Option<Cause>) -> Event {
        Event {
            session: Some(self.handle.id.clone()),
            offset: u64::try_from(self.entries.len()).unwrap_or(u64::MAX),
            turn: None,
            entry: None,
            cause,
            body,
        }
    }

    /// Starts a turn with the user's message. The answer comes when the message is on disk.
    pub async fn prompt(&mut self, call: Call, prompt: Prompt, reply: Reply<Prompted>) {
        if let Some(key) = &prompt.idempotency_key
            && let Some((_, turn)) = self.answered.iter().find(|(known, _)| known == key)
        {
            return reply.ok(Prompted { turn: turn.clone() });
        }
        if self.turn.is_some() {
            let message = "A turn is running: steer it, queue the message with follow_up, or abort the turn.";
            return reply.fail(ApiError::new(crate::catalogue::ErrorCode::SessionNotIdle, message));
        }
        let turn = TurnId::from(self.shared.clock.id("t-"));
        let mut content = vec![Block::Text(prompt.message.into())];
        content.extend(prompt.images.into_iter().map(|(mime_type, data)| Block::Image { mime_type, data }));
        let mut message = Message::new(EntryId::from(""), Role::User, content, Arc::from(""));
        message.turn_id = Some(turn.clone());
        if let Err(error) = self.append(vec![EntryBody::Message(Arc::new(message))]).await {
            return reply.fail(error);
        }
        if let Some(key) = prompt.idempotency_key {
            self.answered.push_back((key, Some(turn.clone())));
            if self.answered.len() > IDEMPOTENCY_KEYS {
                self.answered.pop_front();
            }
        }
        reply.ok(Prompted { turn: Some(turn.clone()) });
        self.begin_turn(turn, call.cause());
    }

    fn begin_turn(&mut self, turn: TurnId, cause: Cause) {
        let stop = CancellationToken::new();
        self.handle.stop.store(Some(Arc::new(stop.clone())));
        self.turn = Some(Running { id: turn.clone(), cause: cause.clone() });
        self.facts.phase = Phase::Streaming;
        self.changed(Some(cause.clone()));
        self.shared.announce_context();
        let turn = turn::Turn {
            shared: self.shared.clone(),
            session: self.handle.clone(),
            id: turn,
            cause,
            stop,
            provider: self.shared.providers.get(&self.facts.model_provider),
        };
        self.shared.tasks.spawn(turn.run());
    }

    /// The turn's task has ended.
    pub(super) fn turn_ended(&mut self, turn: &TurnId) {
        let Some(running) = self.turn.take_if(|running| running.id == *turn) else { return };
        self.handle.stop.store(None);
        self.facts.phase = Phase::Idle;
        self.facts.interrupt_pending = false;
        self.changed(Some(running.cause));
        self.shared.announce_context();
        for reply in self.until_idle.drain(..) {
            reply.ok(());
        }
    }

    /// Answers when no turn runs.
    pub fn when_idle(&mut self, reply: Reply<()>) {
        if self.turn.is_some() {
            self.until_idle.push(reply);
        } else {
            reply.ok(());
        }
    }

    /// Names the session.
    pub async fn set_name(&mut self, call: Call, name: String, reply: Reply<String>) {
        match self.append(vec![EntryBody::Name(name.as_str().into())]).await {
            Ok(_) => {
                reply.ok(name);
                self.changed(Some(call.cause()));
                self.shared.announce_context();
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

fn initial_facts(shared: &Shared, journal: &Journal, header: &Header, written: bool) -> SessionFacts {
    let mut facts = SessionFacts {
        id: header.session.clone(),
        file: written.then(|| journal.path().to_string_lossy().into()),
        name: None,
        first_message: None,
        cwd: header.cwd.clone(),
        git_branch: git_branch(Path::new(&*header.cwd)),
        parent: header.parent.as_ref().map(|parent| parent.session.clone()),
        created_at: header.created_at.clone(),
        phase: Phase::Idle,
        pending_messages: 0,
        retry_attempt: 0,
        retry_deadline_ms: None,
        interrupt_pending: false,
        model_provider: Arc::from(""),
        model_id: Arc::from(""),
        model_reasoning: false,
        context_window: 0,
        thinking: ThinkingLevel::Off,
        mode: shared.settings.mode.clone(),
        auto_compaction: true,
        auto_retry: true,
        usage: Usage::default(),
        context_tokens: 0,
        message_count: 0,
    };
    shared.describe_model(&mut facts, shared.settings.provider.clone(), shared.settings.model.clone());
    facts
}

/// The branch that is checked out, read from the repository's `HEAD`: no process is started for it.
fn git_branch(cwd: &Path) -> Option<Arc<str>> {
    let git = cwd.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let folder = if git.is_file() {
        // A worktree or a submodule points to its folder.
        let text = std::fs::read_to_string(&git).ok()?;
        git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
    } else {
        git
    };
    let head = std::fs::read_to_string(folder.join("HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(Arc::from)
}
