//! Access to a session: its mailbox, its published snapshot, and its stop switch.
//!
//! A session's state belongs to its own task. To change it, send a [`Change`], which the task applies in order of
//! arrival. To read it, take the snapshot, which never blocks. Knows messages, and not what they do.

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, epoch_millis};
use crate::engine::change::{Ack, Change};
use crate::engine::client_files::ClientFiles;
use crate::engine::granted_rules::AnsweredRules;
use crate::engine::hub::{Full, Hub};
use crate::engine::live_output::InFlight;
use crate::engine::mcp::SessionMcp;
use crate::engine::parent_session::Parentage;
use crate::engine::progress::Progress;
use crate::engine::revision::ConfigRevision;
use crate::engine::sent_prompt::LastPrompt;
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::turn_activity::TurnActivity;
use crate::engine::turn_control::TurnControl;
use crate::event::{Body, Cause, Event, StagePassed, Subagent};
use crate::facts::Phase;
use crate::limits::REALM_WAITING;
use crate::message::{Message, SessionId, TurnId};
use crate::session::ApiError;
use crate::store::Entry;
use crate::tool::toolbox::Toolbox;
use crate::tool::{KnownTexts, Telling};

/// The state of the order of a session's events.
#[derive(Default)]
struct Showing {
    /// New connections, each with the number of entries in its history. An entry is written before its event
    /// is sent, so the history may already contain it.
    told: Vec<(u64, usize)>,
    /// What was shown that no entry contains yet.
    in_flight: InFlight,
    /// The activity of the turn.
    activity: TurnActivity,
}

/// A handle on a session. A copy is one count more, because every request makes one.
#[derive(Clone)]
pub struct Handle(Arc<SharedHandle>);

/// What all handles on a session share.
pub struct SharedHandle {
    /// The session.
    pub id: SessionId,
    clock: Arc<dyn Clock>,
    mailbox: mpsc::Sender<Change>,
    snapshot: ArcSwap<SessionSnapshot>,
    showing: Mutex<Showing>,
    /// Ends the running turn. It bypasses the mailbox, because an abort must never wait behind the work that
    /// it ends.
    pub(super) stop: ArcSwapOption<CancellationToken>,
    /// The running turn's controls. An interrupt bypasses the mailbox for the same reason.
    pub(super) control: ArcSwapOption<TurnControl>,
    /// The configuration of the session.
    config: watch::Sender<Arc<ConfigRevision>>,
    /// The time of its last lookup, as a number that grows with each lookup of any session.
    used: AtomicU64,
    /// The latest boundary of the latest turn.
    stage: ArcSwapOption<StagePassed>,
    /// The session's permissions from answers to questions.
    pub(super) rules: AnsweredRules,
    /// Serialises the questions of a session and all its children.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// The parent's data, if it is a child.
    pub(super) parent: Option<Parentage>,
    /// The tools of its turns. A child has its parent's.
    pub(super) tools: Toolbox,
    /// The texts of files that its model has seen.
    pub(super) known: Arc<KnownTexts>,
    /// The system prompt as it was sent.
    pub(super) prompt: Arc<LastPrompt>,
    /// Whether a client that answers questions has used it.
    attended: Arc<AtomicBool>,
    /// What it keeps of MCP servers.
    pub(super) mcp: SessionMcp,
    /// Further folders that a client has given it, resolved. A child has its parent's.
    roots: Arc<ArcSwap<Vec<PathBuf>>>,
    /// Whether its task has something that runs.
    pub(super) is_busy: AtomicBool,
    /// The questions of its owner on another host that this host's clients are asked, each with what withdraws it.
    for_owner: Mutex<HashMap<Arc<str>, CancellationToken>>,
    /// The newest prompts that its owner on another host was asked for: their keys, and who asked here.
    asked_owner: Mutex<VecDeque<(Arc<str>, Cause)>>,
    /// What was repaired when it was opened, until the first client is told.
    pub(super) repairs: Mutex<Vec<String>>,
    /// Whether its owner is followed.
    pub(super) is_following: AtomicBool,
    /// The owner is asked at once what is new.
    pub(super) follow_now: Notify,
    /// The progress of its newest workflow, for frontends.
    pub(super) progress: ArcSwapOption<Progress>,
}

impl Deref for Handle {
    type Target = SharedHandle;

    fn deref(&self) -> &SharedHandle {
        &self.0
    }
}

/// What a child session has from the one above it; of a session without a parent, its own.
struct Inherited {
    rules: AnsweredRules,
    asking: Arc<tokio::sync::Mutex<()>>,
    parent: Option<Parentage>,
    tools: Toolbox,
    attended: Arc<AtomicBool>,
    mcp: SessionMcp,
    roots: Arc<ArcSwap<Vec<PathBuf>>>,
}

impl Handle {
    pub(super) fn new(
        id: SessionId,
        mailbox: mpsc::Sender<Change>,
        snapshot: SessionSnapshot,
        config: Arc<ConfigRevision>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let own = Inherited {
            rules: AnsweredRules::default(),
            asking: Arc::default(),
            parent: None,
            tools: Toolbox::builtin(),
            attended: Arc::default(),
            mcp: SessionMcp::default(),
            roots: Arc::default(),
        };
        Self::with(id, mailbox, Arc::new(snapshot), (config, clock), own)
    }

    fn with(
        id: SessionId,
        mailbox: mpsc::Sender<Change>,
        snapshot: Arc<SessionSnapshot>,
        (config, clock): (Arc<ConfigRevision>, Arc<dyn Clock>),
        Inherited { rules, asking, parent, tools, attended, mcp, roots }: Inherited,
    ) -> Self {
        Self(Arc::new(SharedHandle {
            id,
            clock,
            mailbox,
            snapshot: ArcSwap::new(snapshot),
            showing: Mutex::default(),
            stop: ArcSwapOption::empty(),
            control: ArcSwapOption::empty(),
            config: watch::Sender::new(config),
            used: AtomicU64::default(),
            stage: ArcSwapOption::empty(),
            rules,
            asking,
            parent,
            tools,
            attended,
            mcp,
            roots,
            is_busy: AtomicBool::default(),
            for_owner: Mutex::default(),
            asked_owner: Mutex::default(),
            repairs: Mutex::default(),
            is_following: AtomicBool::default(),
            follow_now: Notify::new(),
            progress: ArcSwapOption::empty(),
            known: Arc::default(),
            prompt: Arc::default(),
        }))
    }

    /// A new session's handle with other tools.
    #[cfg(test)]
    pub(super) fn with_tools(&self, tools: Toolbox) -> Self {
        let (rules, asking, attended) = (self.rules.clone(), self.asking.clone(), self.attended.clone());
        let (mcp, roots) = (SessionMcp::default(), self.roots.clone());
        let own = Inherited { rules, asking, parent: None, tools, attended, mcp, roots };
        Self::with(
            self.id.clone(),
            self.mailbox.clone(),
            self.snapshot(),
            (self.config(), self.clock.clone()),
            own,
        )
    }

    /// Further folders that tools may read and write like those of the session's own folder, resolved.
    pub fn roots(&self) -> Arc<Vec<PathBuf>> {
        self.roots.load_full()
    }

    /// Gives it further folders in place of those that it had.
    pub(super) fn set_roots(&self, roots: Vec<PathBuf>) {
        self.roots.store(Arc::new(roots));
    }

    /// Records that a client that answers questions uses it.
    pub(super) fn attend(&self) {
        self.attended.store(true, Ordering::Release);
    }

    /// Whether a client that answers questions has used it.
    pub(super) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Acquire)
    }

    /// Records a lookup.
    pub(super) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Release);
    }

    /// The last lookup.
    pub(super) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<SessionSnapshot> {
        self.snapshot.load_full()
    }

    /// The handle of a new session as the child of another: it has the parent's permissions and shares its queue for
    /// questions.
    pub(super) fn below(&self, parent: &Self, link: Parentage) -> Self {
        let inherited = Inherited {
            rules: parent.rules.below(),
            asking: parent.asking.clone(),
            parent: Some(link),
            tools: parent.tools.clone(),
            attended: parent.attended.clone(),
            mcp: parent.mcp.below(),
            roots: parent.roots.clone(),
        };
        let made = (parent.config(), self.clock.clone());
        Self::with(self.id.clone(), self.mailbox.clone(), self.snapshot(), made, inherited)
    }

    /// The number of sessions above it.
    pub(super) fn depth(&self) -> u32 {
        self.parent.as_ref().map_or(0, |link| link.depth)
    }

    /// The parent's data, while the child works for it.
    pub(super) fn working_for(&self) -> Option<&Parentage> {
        self.parent.as_ref().filter(|link| link.works())
    }

    /// The subagent of its questions, if it is one's session.
    pub(super) fn subagent(&self) -> Option<Subagent> {
        self.parent.as_ref().map(|link| Subagent {
            parent: link.parent.clone(),
            root: link.root.clone(),
            id: link.subagent.clone(),
            label: self.snapshot().facts.display_name().into(),
        })
    }

    /// The configuration of the session.
    pub(super) fn config(&self) -> Arc<ConfigRevision> {
        self.config.borrow().clone()
    }

    pub(super) fn set_config(&self, config: Arc<ConfigRevision>) {
        self.config.send_replace(config);
    }

    /// Waits until the session uses that revision, or a later one.
    pub(super) async fn adopted(&self, revision: u64) {
        // An error means that the session is gone, and with it the reason to wait.
        let _ = self.config.subscribe().wait_for(|config| config.revision >= revision).await;
    }

    pub(super) fn publish(&self, snapshot: SessionSnapshot) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        self.store(&mut showing.activity, snapshot);
    }

    /// Makes the state visible, with what the turn is doing in its phase.
    fn store(&self, activity: &mut TurnActivity, mut snapshot: SessionSnapshot) {
        activity.enter_phase(snapshot.facts.phase, || self.millis());
        if snapshot.facts.activity.as_ref() != activity.shown() {
            Arc::make_mut(&mut snapshot.facts).activity = activity.shown().cloned();
        }
        self.snapshot.store(Arc::new(snapshot));
    }

    /// The time now, in milliseconds since the epoch.
    fn millis(&self) -> i64 {
        epoch_millis(self.clock.now())
    }

    /// Publishes the state with entries that are on disk, the newest of it, and sends each to every connection. Both at
    /// once, so that a connection that is let in finds an entry in the history or is sent it, never both.
    pub(super) fn publish_entries(&self, hub: &Hub, snapshot: SessionSnapshot, entries: &[Arc<Entry>]) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let new = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let before = snapshot.offset.saturating_sub(new);
        self.store(&mut showing.activity, snapshot);
        for (offset, entry) in (before.saturating_add(1)..).zip(entries) {
            if let Some(message) = entry.body.message() {
                showing.in_flight.written(message, offset);
            }
            // The next event of the turn waits for room.
            let _ = hub.hand_out(&self.entry_event(offset, entry), |_| true);
        }
    }

    /// An entry as an event.
    pub(super) fn entry_event(&self, offset: u64, entry: &Arc<Entry>) -> Event {
        Event {
            session: Some(self.id.clone()),
            offset,
            turn: entry.body.message().and_then(|message| message.turn_id.clone()),
            entry: Some(entry.id.clone()),
            cause: None,
            piece: None,
            body: Body::EntryWritten(entry.clone()),
        }
    }

    /// Sends a change to the session's task, without waiting. It is dropped if the mailbox is full or closed; a
    /// reply inside it then reports that.
    pub fn tell(&self, change: Change) {
        let _ = self.mailbox.try_send(change);
    }

    /// Notes a prompt that its owner on another host is asked for.
    pub(super) fn asks_owner(&self, key: Arc<str>, cause: Cause) {
        let mut asked = self.asked_owner.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push_back((key, cause));
        if asked.len() > REALM_WAITING {
            asked.pop_front();
        }
    }

    /// Who asked here for the prompt with that key.
    pub(super) fn asked_owner(&self, key: &str) -> Option<Cause> {
        let asked = self.asked_owner.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().find(|(known, _)| **known == *key).map(|(_, cause)| cause.clone())
    }

    /// Notes a question of its owner on another host. Returns whether it is new.
    pub(super) fn asks_for_owner(&self, id: &Arc<str>, stop: CancellationToken) -> bool {
        let mut asked = self.for_owner.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(id.clone(), stop).is_none_or(|before| {
            asked.insert(id.clone(), before);
            false
        })
    }

    /// A question of its owner has ended: it is withdrawn here.
    pub(super) fn asked_for_owner(&self, id: &str) {
        let mut asked = self.for_owner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = asked.remove(id) {
            stop.cancel();
        }
    }

    /// No question of its owner counts any more.
    pub(super) fn forget_for_owner(&self) {
        let mut asked = self.for_owner.lock().unwrap_or_else(PoisonError::into_inner);
        asked.drain().for_each(|(_, stop)| stop.cancel());
    }

    /// Sends a change, and waits for room.
    pub(super) async fn pass(&self, change: Change) {
        let _ = self.mailbox.send(change).await;
    }

    /// Sends a change, without waiting. Returns whether there was room for it.
    pub fn offer(&self, change: Change) -> bool {
        self.mailbox.try_send(change).is_ok()
    }

    /// Whether its task has ended.
    pub fn is_gone(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Sends a change and waits for its answer. For the session's own turn, which may wait for room.
    ///
    /// # Errors
    /// If the session has ended.
    pub async fn ask<T>(&self, change: impl FnOnce(Ack<T>) -> Change) -> Result<T, ApiError> {
        let (ack, answer) = oneshot::channel();
        let ended = || ApiError::failed("The session ended.");
        self.mailbox.send(change(ack)).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())
    }

    /// The same for a change that may be refused.
    ///
    /// # Errors
    /// If the session has ended, or refuses.
    pub async fn request<T>(
        &self,
        change: impl FnOnce(Ack<Result<T, ApiError>>) -> Change,
    ) -> Result<T, ApiError> {
        self.ask(change).await.and_then(std::convert::identity)
    }

    /// The repairs of its journal, as long as no client was told.
    pub(super) fn untold_repairs(&self) -> Vec<String> {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An event of the session outside any turn.
    pub(super) fn event(&self, body: Body, cause: Option<Cause>) -> Event {
        Event {
            session: Some(self.id.clone()),
            offset: self.snapshot().offset,
            turn: None,
            entry: None,
            cause,
            piece: None,
            body,
        }
    }

    /// Sends an event of this session to every connection, with the current offset. Events of one session go
    /// out one at a time, so that offsets never decrease, whichever task sends them. A connection that joined
    /// meanwhile with the event's entry in its history does not get the event again. Returns the full
    /// connections.
    pub(super) fn show(&self, hub: &Hub, event: Event) -> Vec<Full> {
        self.show_if(hub, event, |_, in_flight, event| {
            in_flight.note(event);
            true
        })
    }

    /// Sends what the owner of the session said on another host when it had so many entries, unless that has become an
    /// entry here.
    pub(super) fn show_said(&self, hub: &Hub, event: Event, offset: u64) {
        let _ = self.show_if(hub, event, |snapshot, in_flight, event| {
            if event.piece.is_some() {
                return in_flight.take_said(event, offset);
            }
            let call = match &event.body {
                Body::ToolExecuting(call) => Some(call),
                Body::ToolUpdate(output) => Some(&output.call),
                _ => None,
            };
            let is_over = |message: &Arc<Message>| {
                message.tool_call_id.is_some() && message.tool_call_id.as_ref() == call.map(|call| &call.id)
            };
            let newest = snapshot.messages().rev().take_while(|message| message.turn_id == event.turn);
            if call.is_some() && newest.into_iter().any(is_over) {
                return false;
            }
            in_flight.note(event);
            true
        });
    }

    fn show_if(
        &self,
        hub: &Hub,
        mut event: Event,
        admits: impl FnOnce(&SessionSnapshot, &mut InFlight, &mut Event) -> bool,
    ) -> Vec<Full> {
        if let Body::StagePassed(stage) = &event.body {
            self.stage.store(Some(stage.clone()));
        }
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot.load();
        event.offset = snapshot.offset;
        if !admits(&snapshot, &mut showing.in_flight, &mut event) {
            return Vec::new();
        }
        let mut full = self.hand_out(hub, &mut showing, &snapshot, &event);
        let is_new =
            snapshot.facts.phase != Phase::Idle && showing.activity.note(&event.body, || self.millis());
        if is_new {
            full.extend(self.show_activity(hub, &showing.activity, event.turn));
        }
        full
    }

    /// Sends an event to every connection that does not have it with its history.
    fn hand_out(
        &self,
        hub: &Hub,
        showing: &mut Showing,
        snapshot: &SessionSnapshot,
        event: &Event,
    ) -> Vec<Full> {
        if showing.told.is_empty() {
            return hub.hand_out(event, |_| true);
        }
        let place = event.entry.as_ref().and_then(|entry| snapshot.place(entry));
        // Entries are sent in order: after a later one was sent, no earlier one can be repeated.
        showing.told.retain(|(_, entries)| place.is_none_or(|place| place < *entries));
        let knows =
            |connection| place.is_some() && showing.told.iter().any(|(known, _)| *known == connection);
        hub.hand_out(event, |connection| !knows(connection))
    }

    /// Makes visible what the turn is doing, and tells everyone. No other event of the session goes out meanwhile.
    fn show_activity(&self, hub: &Hub, activity: &TurnActivity, turn: Option<TurnId>) -> Vec<Full> {
        let mut snapshot = SessionSnapshot::clone(&self.snapshot.load());
        Arc::make_mut(&mut snapshot.facts).activity = activity.shown().cloned();
        let body = Body::SessionUpdated(snapshot.facts.clone());
        self.snapshot.store(Arc::new(snapshot));
        hub.hand_out(&Event { turn, ..self.event(body, None) }, |_| true)
    }

    /// A question of the session was asked, or is over.
    pub(super) fn asks(&self, hub: &Hub, begins: bool) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        if showing.activity.asks(begins, || self.millis()) {
            // A person who answers is not kept waiting by a slow client.
            let _ = self.show_activity(hub, &showing.activity, None);
        }
    }

    /// Calls `tell` with the current offset while no other event of the session goes out.
    pub(super) fn in_order(&self, tell: &mut dyn FnMut(Option<u64>)) {
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        tell(Some(self.snapshot.load().offset));
    }

    /// Passes on events that go to single clients, as `event` is but with other bodies, in their place among the
    /// session's events.
    pub(super) fn telling(&self, event: Event) -> Arc<Telling> {
        let handle = self.clone();
        Arc::new(move |body, deliver| {
            handle.in_order(&mut |offset| {
                let offset = offset.unwrap_or(event.offset);
                deliver(&Event { body: body.clone(), offset, ..event.clone() });
            });
        })
    }

    /// Sends clients what has changed of the files below the session's folders that they have open, or of one of them
    /// alone.
    pub(super) async fn followed_by_editors(
        &self,
        files: &Arc<ClientFiles>,
        only: Option<PathBuf>,
        event: Event,
    ) {
        let mut folders = vec![PathBuf::from(&*self.snapshot().facts.cwd)];
        folders.extend(self.roots().iter().cloned());
        files.clone().follow_away(folders, only, self.telling(event)).await;
    }

    /// Lets a connection in: `tell` shows it the session, and no event of the session goes out meanwhile.
    /// Earlier events are in its history; later ones follow.
    pub(super) fn let_in(&self, hub: &Hub, connection: u64, tell: impl FnOnce(&SessionSnapshot, &InFlight)) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot();
        tell(&snapshot, &showing.in_flight);
        showing.told.retain(|(known, _)| *known != connection && hub.client(*known).is_some());
        showing.told.push((connection, snapshot.branch.len()));
    }

    /// Ends a replay for a connection, if `tell` agrees: that shows it the last of what it misses and what is in
    /// flight. No event of the session goes out meanwhile.
    pub(super) fn let_in_replayed(
        &self,
        hub: &Hub,
        connection: u64,
        tell: impl FnOnce(&SessionSnapshot, &InFlight) -> bool,
    ) -> bool {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot();
        if !tell(&snapshot, &showing.in_flight) {
            return false;
        }
        showing.told.retain(|(known, _)| *known != connection && hub.client(*known).is_some());
        showing.told.push((connection, snapshot.branch.len()));
        true
    }

    /// The latest boundary of the latest turn.
    pub fn stage(&self) -> Option<Arc<StagePassed>> {
        self.stage.load_full()
    }

    /// The token that an abort cancels: of the running turn, or of the preparation of a message before its
    /// turn starts.
    pub fn stoppable(&self) -> CancellationToken {
        if let Some(stop) = self.stop.load().as_ref().filter(|stop| !stop.is_cancelled()) {
            return CancellationToken::clone(stop);
        }
        let stop = CancellationToken::new();
        self.stop.store(Some(Arc::new(stop.clone())));
        stop
    }

    /// Whether something holds the session: a turn, a workflow or a compaction.
    pub fn is_occupied(&self) -> bool {
        self.control.load().is_some()
    }

    /// Ends the running turn after its tool calls. Returns its controls, if one runs.
    pub fn interrupt(&self) -> Option<Arc<TurnControl>> {
        let control = self.control.load_full()?;
        control.interrupt.cancel();
        Some(control)
    }

    /// Ends the running turn for a client, if one runs. The queue is held.
    pub fn abort_and_hold(&self) {
        // Before the end, which looks at it.
        if let Some(control) = self.control.load().as_ref() {
            control.hold();
        }
        self.abort();
    }

    /// Ends the running turn, if one runs.
    pub fn abort(&self) {
        if let Some(stop) = self.stop.load().as_ref() {
            stop.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::clock::SystemClock;
    use crate::engine::idempotency::IdempotencyKeys;
    use crate::engine::queue::MessageQueue;
    use crate::facts::SessionFacts;
    use crate::message::{Block, Role};
    use crate::session::{Client, Pressure};
    use crate::store::EntryBody;

    /// A connection that counts its events.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Client for Counting {
        fn watches(&self, _: Option<&SessionId>) -> bool {
            true
        }
        fn lists_sessions(&self) -> bool {
            false
        }
        fn deliver(&self, _: &Event) -> Pressure {
            self.0.fetch_add(1, Ordering::SeqCst);
            Pressure::Fine
        }
        fn fall_behind(&self) {}
        fn is_behind(&self) -> bool {
            false
        }
        fn focus(&self, _: SessionId) {}
        fn focused(&self) -> SessionId {
            "s-1".into()
        }
        fn is_interactor(&self) -> bool {
            false
        }
        fn close(&self) {}
    }

    fn message(number: usize) -> Arc<Message> {
        let said = vec![Block::Text("said".into())];
        Arc::new(Message::new(format!("e-{number}").into(), Role::Assistant, said, "".into()))
    }

    /// The session with that many messages on disk.
    fn snapshot(messages: usize) -> SessionSnapshot {
        let entry = |number| {
            let body = EntryBody::Message(message(number));
            Arc::new(Entry {
                id: format!("e-{number}").into(),
                parent: None,
                ts: "".into(),
                request: None,
                body,
            })
        };
        let facts = SessionFacts { message_count: messages, ..SessionFacts::empty("s-1".into()) };
        SessionSnapshot {
            facts: Arc::new(facts),
            branch: (0..messages).map(entry).collect(),
            entries: (0..messages).map(entry).collect(),
            offset: u64::try_from(messages).unwrap_or(0),
            bytes: 0,
            queue: MessageQueue::default(),
            idempotency: IdempotencyKeys::default(),
        }
    }

    fn said(number: usize) -> Event {
        Event {
            session: Some("s-1".into()),
            offset: 0,
            turn: None,
            entry: Some(format!("e-{number}").into()),
            cause: None,
            piece: None,
            body: Body::AssistantMessage(message(number)),
        }
    }

    /// A message is written, then sent. A connection that joins in between gets it once: with the history.
    #[test]
    fn who_comes_in_is_told_each_message_once() {
        let hub = Hub::default();
        let (old, new) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
        hub.attach(1, old.clone());
        hub.attach(2, new.clone());
        let (sender, _receiver) = mpsc::channel(1);
        let handle = Handle::new("s-1".into(), sender, snapshot(0), Arc::default(), Arc::new(SystemClock));
        let let_in = || {
            let mut told = 0;
            handle.let_in(&hub, 2, |snapshot, _| told = snapshot.branch.len());
            told
        };
        let counts = || [old.0.load(Ordering::SeqCst), new.0.load(Ordering::SeqCst)];
        assert_eq!(let_in(), 0);
        handle.publish(snapshot(2));
        assert_eq!(let_in(), 2);
        handle.show(&hub, said(0));
        handle.show(&hub, said(1));
        assert_eq!(counts(), [2, 0], "both are in the history that the second was told");
        // Both get events without an entry, and later ones.
        handle.show(&hub, Event { entry: None, ..said(1) });
        handle.publish(snapshot(3));
        handle.show(&hub, said(2));
        assert_eq!(counts(), [4, 2]);
        assert!(handle.showing.lock().unwrap().told.is_empty(), "nothing is kept that is over");
        // A closed connection is forgotten when the next one joins.
        assert_eq!(let_in(), 3);
        hub.detach(2);
        handle.let_in(&hub, 1, |_, _| {});
        assert_eq!(handle.showing.lock().unwrap().told.len(), 1);
    }
}
