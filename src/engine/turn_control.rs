//! The controls of a running turn, and how it ends. Knows neither the session nor the turn's task.

use std::sync::atomic::AtomicUsize;

use tokio_util::sync::CancellationToken;

/// The session's controls of a running turn.
#[derive(Default)]
pub struct TurnControl {
    /// When the turn began, in milliseconds since the epoch.
    pub began: i64,
    /// Ends the turn after the running tool calls.
    pub interrupt: CancellationToken,
    /// Ends the wait for a retry.
    pub give_up: CancellationToken,
    /// The number of running tool calls.
    pub running_tools: AtomicUsize,
}

/// The end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model finished.
    Finished,
    /// The turn was ended or failed.
    Stopped,
}
