//! The client of the session API behind `edn-bridge prompt` and `chat`. It never prints itself: who hands it events must not wait
//! for a terminal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use edn_bridge::event::Event;
use edn_bridge::limits::OUTBOX_TEXT_BYTES;
use edn_bridge::message::SessionId;
use edn_bridge::session::{Client, Pressure};
use tokio::sync::watch;

/// What the main thread, which prints, is told.
pub(in crate::cli) enum ConsoleEvent {
    /// Something happened in the session.
    Event(Box<Event>),
    /// The person pressed C-c.
    Interrupt,
}

/// A client that hands on what happens.
pub(in crate::cli) struct Console {
    focus: Mutex<SessionId>,
    events: Sender<ConsoleEvent>,
    /// The weight of the events that are not printed yet.
    unprinted: AtomicUsize,
    /// Whether the model has to wait for them.
    full: watch::Sender<bool>,
    /// Whether a person is there who answers questions.
    is_interactor: bool,
}

impl Console {
    pub(in crate::cli) fn new(events: Sender<ConsoleEvent>, is_interactor: bool) -> Self {
        let focus = Mutex::new(SessionId::from(""));
        Self { focus, events, unprinted: AtomicUsize::new(0), full: watch::Sender::new(false), is_interactor }
    }

    /// An event of that weight was printed.
    pub(in crate::cli) fn printed(&self, weight: usize) {
        let unprinted = self.unprinted.fetch_sub(weight, Ordering::AcqRel).saturating_sub(weight);
        if unprinted < OUTBOX_TEXT_BYTES && *self.full.borrow() {
            self.full.send_replace(false);
        }
    }
}

impl Client for Console {
    fn watches(&self, _: Option<&SessionId>) -> bool {
        true
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn deliver(&self, event: &Event) -> Pressure {
        let weight = event.body.weight();
        let unprinted = self.unprinted.fetch_add(weight, Ordering::AcqRel).saturating_add(weight);
        let _ = self.events.send(ConsoleEvent::Event(Box::new(event.clone())));
        if unprinted < OUTBOX_TEXT_BYTES {
            return Pressure::Fine;
        }
        self.full.send_replace(true);
        // It may all have been printed in between, and nobody would say so again.
        self.printed(0);
        Pressure::Full(self.full.subscribe())
    }

    /// A turn waits for it as long as it takes: nobody else is there.
    fn fall_behind(&self) {}

    fn is_behind(&self) -> bool {
        false
    }

    fn focus(&self, session: SessionId) {
        *self.focus.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn focused(&self) -> SessionId {
        self.focus.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_interactor(&self) -> bool {
        self.is_interactor
    }

    fn close(&self) {}
}
