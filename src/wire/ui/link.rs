//! One connection of the UI wire: what it keeps, and how it answers. Knows no method.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;

use crate::clock::Clock;
use crate::session::{Agreed, Client as _, Requests, SessionApi, Tally};
use crate::value::Map;
use crate::wire::connection;
use crate::wire::ui::codes::Fault;
use crate::wire::ui::connection_state::{UiCan, UiState};
use crate::wire::ui::frames;
use crate::wire::ui::run_lines::note_facts;

/// A connection of the UI wire.
pub type Connection = connection::Connection<Ui>;

/// The UI wire of one connection.
pub struct Ui {
    /// Counts the answers by error code.
    pub tally: Arc<Tally>,
    /// Counts them by method.
    pub requests: Arc<Requests>,
    /// The capabilities of the engine, for what goes on after a line.
    pub api: Arc<dyn SessionApi>,
    /// The clock of what the wire itself tells.
    pub clock: Arc<dyn Clock>,
    /// The runs and the open question.
    pub desk: Arc<UiState>,
    /// Whether model calls are told in figures.
    pub diagnostics: bool,
    /// What the interface and the program have agreed on.
    pub agreed: ArcSwapOption<Agreed>,
    /// The history is being shown to a client that has missed some of it.
    pub catching_up: AtomicBool,
}

impl Ui {
    /// Agrees with the interface on what both can do.
    pub fn agree(&self, connection: &Connection, agreed: Agreed, can: UiCan) {
        self.agreed.store(Some(Arc::new(agreed)));
        {
            let mut state = self.desk.lock();
            state.can = can;
            if let Some(facts) = connection.api().facts(&connection.focused()) {
                note_facts(&mut state, &facts);
            }
        }
    }

    /// Sends an answer.
    pub fn respond(&self, connection: &Connection, id: &str, place: usize, result: &Map<'_>) {
        self.requests.responded(place);
        connection.outbox().push_frame(|out, ()| frames::answer(out, id, result));
    }

    /// Counts an answer that is sent otherwise.
    pub fn count_answer(&self, place: usize) {
        self.requests.responded(place);
    }

    /// Refuses a request of a method.
    pub fn refuse(&self, connection: &Connection, id: &str, place: usize, fault: &Fault) {
        self.requests.refused(place);
        self.reject(connection, id, fault);
    }

    /// Answers a line with an error.
    pub fn reject(&self, connection: &Connection, id: &str, fault: &Fault) {
        self.tally.refused(fault.counted());
        connection.outbox().push_frame(|out, ()| frames::error(out, id, fault));
    }
}
