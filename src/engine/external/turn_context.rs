//! What the parts of a turn share. Does nothing.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::agent_session::OpenAgentSession;
use super::agents::ExternalAgent;
use super::approvals::Permits;
use super::calls::Telling;
use super::terminals::Terminals;
use crate::engine::native::call::Batch;
use crate::engine::native::turn::Turn;

/// What the parts of a turn share.
pub(super) struct ExternalTurn<'t> {
    pub(super) agents: &'t ExternalAgent,
    pub(super) turn: &'t Turn,
    pub(super) attached: &'t OpenAgentSession,
    /// Judges and asks.
    pub(super) batch: Batch<'t>,
    /// What was told so far.
    pub(super) telling: tokio::sync::Mutex<Telling>,
    /// What a person has allowed, and the agent has not done yet.
    pub(super) permits: Mutex<Permits>,
    pub(super) terminals: Terminals,
    /// The calls that run: an interrupt waits for them.
    pub(super) running: AtomicUsize,
}
