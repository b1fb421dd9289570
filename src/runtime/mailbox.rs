//! How a session is reached: its mailbox, its published snapshot, and its stop switch.
//!
//! A session's state belongs to its own task. Whoever wants it changed sends work, which the task does
//! in order of arrival; whoever wants to read takes the snapshot, which is never held up.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::message::SessionId;
use crate::projection::SessionFacts;
use crate::runtime::hub::Hub;
use crate::runtime::live::Live;
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
}

/// A session, from outside.
#[derive(Clone)]
pub struct Handle {
    /// The session.
    pub id: SessionId,
    mailbox: mpsc::Sender<Work>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    showing: Arc<Mutex<()>>,
    /// Ends the running turn. Reached without the mailbox: an abort never waits behind what it aborts.
    pub(super) stop: Arc<ArcSwapOption<CancellationToken>>,
    /// What the person allowed for this session, by answers to questions.
    pub(super) rules: Arc<Mutex<Vec<Rule>>>,
}

impl Handle {
    pub(super) fn new(id: SessionId, mailbox: mpsc::Sender<Work>, snapshot: Snapshot) -> Self {
        Self {
            id,
            mailbox,
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            showing: Arc::default(),
            stop: Arc::new(ArcSwapOption::empty()),
            rules: Arc::default(),
        }
    }

    /// The session as it is now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
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
    /// session go out one at a time, so that offsets never run backwards, whichever task speaks. Says who
    /// is full.
    pub(super) fn show(&self, hub: &Hub, mut event: Event) -> Vec<watch::Receiver<bool>> {
        let _one_at_a_time = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        event.offset = self.snapshot.load().offset;
        hub.hand_out(&event)
    }

    /// Ends the running turn, if one runs.
    pub fn abort(&self) {
        if let Some(stop) = self.stop.load().as_ref() {
            stop.cancel();
        }
    }
}
