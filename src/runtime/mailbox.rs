//! How a session is reached: its mailbox, its published snapshot, and its stop switch.
//!
//! A session's state belongs to its own task. Whoever wants it changed sends work, which the task does
//! in order of arrival; whoever wants to read takes the snapshot, which is never held up.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::event::{Body, Event, StagePassed};
use crate::facts::SessionFacts;
use crate::message::{EntryId, SessionId};
use crate::runtime::hub::{Full, Hub};
use crate::runtime::live::Live;
use crate::runtime::manifest::Manifest;
use crate::runtime::queue::Queue;
use crate::runtime::subagent::Kin;
use crate::runtime::workflow::Progress;
use crate::session::ApiError;
use crate::store::Entry;
use crate::tool::permission::Rule;

/// What a session is told to do.
pub type Work = Box<dyn for<'a> FnOnce(&'a mut Live) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send>;

/// A session at one moment: what readers see.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Everything that is not history.
    pub facts: Arc<SessionFacts>,
    /// The entries from the first to the leaf, oldest first. Shared with earlier snapshots.
    pub branch: imbl::Vector<Arc<Entry>>,
    /// How many entries were written.
    pub offset: u64,
    /// The messages that wait.
    pub queue: Queue,
}

impl Snapshot {
    /// Where an entry stands on the branch. Identifiers sort by time, so that the place is found by halving;
    /// one that another program made is looked for from the newest on.
    pub(super) fn place(&self, entry: &EntryId) -> Option<usize> {
        if let Ok(place) = self.branch.binary_search_by(|known| known.id.as_str().cmp(entry.as_str())) {
            return Some(place);
        }
        let from_end = self.branch.iter().rev().position(|known| known.id == *entry)?;
        self.branch.len().checked_sub(from_end)?.checked_sub(1)
    }
}

/// What the one that speaks for a session has to know.
#[derive(Default)]
struct Showing {
    /// Connections that came in, each with how many entries of the branch it was told then. An entry is
    /// written before its event goes out, so that it may have been told before.
    told: Vec<(u64, usize)>,
}

/// A session, from outside.
#[derive(Clone)]
pub struct Handle {
    /// The session.
    pub id: SessionId,
    mailbox: mpsc::Sender<Work>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    showing: Arc<Mutex<Showing>>,
    /// Ends the running turn. Reached without the mailbox: an abort never waits behind what it aborts.
    pub(super) stop: Arc<ArcSwapOption<CancellationToken>>,
    /// The configuration that the session works with.
    manifest: watch::Sender<Arc<Manifest>>,
    /// When it was last asked for, as a number that grows with each lookup of any session.
    used: Arc<AtomicU64>,
    /// The boundary that the last turn passed last.
    stage: Arc<ArcSwapOption<StagePassed>>,
    /// What the person allowed for this session, by answers to questions. Children share their parent's.
    pub(super) rules: Arc<Mutex<Vec<Rule>>>,
    /// Who asks the person: one at a time, of a session and all its children.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// What makes it a child, if it is one.
    pub(super) kin: Option<Arc<Kin>>,
    /// What frontends show of its newest workflow.
    pub(super) progress: Arc<ArcSwapOption<Progress>>,
}

impl Handle {
    pub(super) fn new(
        id: SessionId,
        mailbox: mpsc::Sender<Work>,
        snapshot: Snapshot,
        manifest: Arc<Manifest>,
    ) -> Self {
        Self {
            id,
            mailbox,
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            showing: Arc::default(),
            stop: Arc::new(ArcSwapOption::empty()),
            manifest: watch::Sender::new(manifest),
            used: Arc::default(),
            stage: Arc::new(ArcSwapOption::empty()),
            rules: Arc::default(),
            asking: Arc::default(),
            kin: None,
            progress: Arc::new(ArcSwapOption::empty()),
        }
    }

    /// Notes that it was asked for.
    pub(super) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Release);
    }

    /// When it was last asked for.
    pub(super) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// The session as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The session as a child of another: it shares what the person allowed there, and asks in turn.
    pub(super) fn below(mut self, parent: &Self, kin: Kin) -> Self {
        self.rules = parent.rules.clone();
        self.asking = parent.asking.clone();
        self.manifest = watch::Sender::new(parent.manifest());
        self.kin = Some(Arc::new(kin));
        self
    }

    /// How many sessions stand above it.
    pub(super) fn depth(&self) -> u32 {
        self.kin.as_ref().map_or(0, |kin| kin.depth)
    }

    /// What makes it a child that still works for its parent.
    pub(super) fn working_for(&self) -> Option<&Kin> {
        self.kin.as_deref().filter(|kin| kin.works())
    }

    /// How its questions are labelled: its parent, and its own name.
    pub(super) fn child_of(&self) -> Option<(SessionId, Arc<str>)> {
        self.kin.as_ref().map(|kin| (kin.parent.clone(), kin.subagent.clone()))
    }

    /// The configuration that the session works with.
    pub(super) fn manifest(&self) -> Arc<Manifest> {
        self.manifest.borrow().clone()
    }

    pub(super) fn set_manifest(&self, manifest: Arc<Manifest>) {
        self.manifest.send_replace(manifest);
    }

    /// Waits until the session works with that revision, or a later one.
    pub(super) async fn adopted(&self, revision: u64) {
        // An error means that the session is gone, and with it the reason to wait.
        let _ = self.manifest.subscribe().wait_for(|manifest| manifest.revision >= revision).await;
    }

    pub(super) fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Sends work to the session's task, without waiting. Work that finds the mailbox full or closed is
    /// dropped, and a reply inside it says so to who waits.
    pub fn tell<F>(&self, work: F)
    where
        F: for<'a> FnOnce(&'a mut Live) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> + Send + 'static,
    {
        let _ = self.mailbox.try_send(Box::new(work));
    }

    /// Sends work and waits for its answer. For the session's own turn, which may wait for room.
    ///
    /// # Errors
    /// When the session ended.
    pub async fn ask<T, F>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a mut Live) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let work: Work = Box::new(move |live| {
            Box::pin(async move {
                let _ = sender.send(work(live).await);
            })
        });
        let ended = || ApiError::failed("The session ended.");
        self.mailbox.send(work).await.map_err(|_| ended())?;
        receiver.await.map_err(|_| ended())
    }

    /// Hands an event of this session to every connection, with the offset that holds then: events of one
    /// session go out one at a time, so that offsets never run backwards, whichever task speaks. Who came
    /// in meanwhile and was told the event's entry with the history is not told it again. Says who is full.
    pub(super) fn show(&self, hub: &Hub, mut event: Event) -> Vec<Full> {
        if let Body::StagePassed(stage) = &event.body {
            self.stage.store(Some(stage.clone()));
        }
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot.load();
        event.offset = snapshot.offset;
        if showing.told.is_empty() {
            return hub.hand_out(&event, |_| true);
        }
        let place = event.entry.as_ref().and_then(|entry| snapshot.place(entry));
        // Entries are shown in their order: once one is shown that came later, nothing is told twice.
        showing.told.retain(|(_, entries)| place.is_none_or(|place| place < *entries));
        let knows =
            |connection| place.is_some() && showing.told.iter().any(|(known, _)| *known == connection);
        hub.hand_out(&event, |connection| !knows(connection))
    }

    /// Calls `tell` with the offset that holds, while no other event of the session goes out.
    pub(super) fn in_order(&self, tell: &mut dyn FnMut(Option<u64>)) {
        let _showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        tell(Some(self.snapshot.load().offset));
    }

    /// Lets a connection in: `tell` shows it the session as it is, and nothing of the session comes in
    /// between. What happened before is in what it is shown; what happens from then on comes after.
    pub(super) fn let_in(&self, hub: &Hub, connection: u64, tell: impl FnOnce(&Snapshot)) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.snapshot();
        tell(&snapshot);
        showing.told.retain(|(known, _)| *known != connection && hub.client(*known).is_some());
        showing.told.push((connection, snapshot.branch.len()));
    }

    /// The boundary that the last turn passed last.
    pub fn stage(&self) -> Option<Arc<StagePassed>> {
        self.stage.load_full()
    }

    /// What ends when somebody aborts: the running turn, or without one what is done for a message before its turn
    /// begins.
    pub fn stoppable(&self) -> CancellationToken {
        if let Some(stop) = self.stop.load().as_ref().filter(|stop| !stop.is_cancelled()) {
            return CancellationToken::clone(stop);
        }
        let stop = CancellationToken::new();
        self.stop.store(Some(Arc::new(stop.clone())));
        stop
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
    use crate::catalogue::Topic;
    use crate::message::{Block, Message, Role};
    use crate::session::{Client, Pressure};
    use crate::store::EntryBody;

    /// A connection that counts what it is sent.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Client for Counting {
        fn wants(&self, _: Topic, _: Option<&SessionId>) -> bool {
            true
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
    fn snapshot(messages: usize) -> Snapshot {
        let entry = |number| {
            let body = EntryBody::Message(message(number));
            Arc::new(Entry { id: format!("e-{number}").into(), parent: None, ts: "".into(), body })
        };
        let facts = SessionFacts { message_count: messages, ..SessionFacts::empty("s-1".into()) };
        Snapshot {
            facts: Arc::new(facts),
            branch: (0..messages).map(entry).collect(),
            offset: u64::try_from(messages).unwrap_or(0),
            queue: Queue::default(),
        }
    }

    fn said(number: usize) -> Event {
        Event {
            session: Some("s-1".into()),
            offset: 0,
            turn: None,
            entry: Some(format!("e-{number}").into()),
            cause: None,
            body: Body::AssistantMessage(message(number)),
        }
    }

    /// A message is written, then shown. Who comes in between is told it once: with the history.
    #[test]
    fn who_comes_in_is_told_each_message_once() {
        let hub = Hub::default();
        let (old, new) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
        hub.attach(1, old.clone());
        hub.attach(2, new.clone());
        let (sender, _receiver) = mpsc::channel(1);
        let handle = Handle::new("s-1".into(), sender, snapshot(0), Arc::default());
        let let_in = || {
            let mut told = 0;
            handle.let_in(&hub, 2, |snapshot| told = snapshot.branch.len());
            told
        };
        let counts = || [old.0.load(Ordering::SeqCst), new.0.load(Ordering::SeqCst)];
        assert_eq!(let_in(), 0);
        handle.publish(snapshot(2));
        assert_eq!(let_in(), 2);
        handle.show(&hub, said(0));
        handle.show(&hub, said(1));
        assert_eq!(counts(), [2, 0], "both are in the history that the second was told");
        // What has no entry, and what is written later, is told to both.
        handle.show(&hub, Event { entry: None, ..said(1) });
        handle.publish(snapshot(3));
        handle.show(&hub, said(2));
        assert_eq!(counts(), [4, 2]);
        assert!(handle.showing.lock().unwrap().told.is_empty(), "nothing is kept that is over");
        // A connection that is gone is forgotten with the next one that comes.
        assert_eq!(let_in(), 3);
        hub.detach(2);
        handle.let_in(&hub, 1, |_| {});
        assert_eq!(handle.showing.lock().unwrap().told.len(), 1);
    }
}
