//! The controls of a running turn, and how it ends. Knows neither the session nor the turn's task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::environment::Variables;

/// The session's controls of a running turn.
#[derive(Default)]
pub struct TurnControl {
    /// When the turn began, in milliseconds since the epoch.
    pub began: i64,
    /// See [`Self::variables`].
    variables: OnceLock<Variables>,
    /// Ends the turn after the running tool calls.
    pub interrupt: CancellationToken,
    /// Ends the turn's part in this process at its next boundary: another process continues it.
    pub hand_over: CancellationToken,
    /// Ends the wait for a retry.
    pub give_up: CancellationToken,
    /// Whether the queue is held at the end of the turn, because a client aborted it.
    holds: AtomicBool,
    /// The kind of the failed model call that ends the turn.
    failure: OnceLock<&'static str>,
    /// The ids of the running tool calls.
    running_tools: Mutex<Vec<Arc<str>>>,
}

impl TurnControl {
    /// The controls of a turn that began then, in milliseconds since the epoch, with a client's variables.
    pub fn new(began: i64, variables: Option<Variables>) -> Self {
        Self { began, variables: variables.map(OnceLock::from).unwrap_or_default(), ..Self::default() }
    }

    /// The variables of the client that began it, for its programs and keys; `None` if it brought none, or if they are not
    /// known.
    pub fn variables(&self) -> Option<Variables> {
        self.variables.get().cloned()
    }

    /// Brings them where they were not known: a turn that goes over from another process may begin here before them.
    pub fn bring(&self, variables: Variables) {
        let _ = self.variables.set(variables);
    }

    /// A model call fails for this kind of reason, and the turn ends with it.
    pub fn fail(&self, kind: &'static str) {
        let _ = self.failure.set(kind);
    }

    /// The kind of the failed model call that ends the turn.
    pub fn failure(&self) -> Option<&'static str> {
        self.failure.get().copied()
    }

    /// Holds at the end of the turn the queue.
    pub fn hold(&self) {
        self.holds.store(true, Ordering::Release);
    }

    /// Whether the queue is held at the end of the turn.
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Acquire)
    }

    /// The ids of the running tool calls, in the order in which they began.
    pub fn running_tools(&self) -> Vec<Arc<str>> {
        self.running_tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that a call runs, until the note is dropped.
    pub fn runs(&self, call: &Arc<str>) -> RunningTool<'_> {
        self.running_tools.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        RunningTool { control: self, call: call.clone() }
    }
}

/// A running tool call: an interrupt waits for it.
pub struct RunningTool<'c> {
    control: &'c TurnControl,
    call: Arc<str>,
}

impl Drop for RunningTool<'_> {
    fn drop(&mut self) {
        let mut running = self.control.running_tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = running.iter().position(|call| *call == self.call) {
            running.remove(place);
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model finished.
    Finished,
    /// The turn was ended or failed.
    Stopped,
    /// It goes on in another process.
    HandedOver,
}
