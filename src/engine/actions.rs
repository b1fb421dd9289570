//! The choices that frontends were asked for and have not answered.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::event::ChoiceKind;
use crate::limits::MAX_FRONTEND_ACTIONS;
use crate::message::SessionId;

/// An unanswered choice.
pub struct PendingAction {
    /// The request that the answer names.
    pub request: String,
    /// Who was asked.
    pub connection: u64,
    /// The session that the choice is for.
    pub session: SessionId,
    /// What is chosen.
    pub kind: ChoiceKind,
}

/// All of them, oldest first.
#[derive(Default)]
pub struct PendingActions(Mutex<VecDeque<PendingAction>>);

impl PendingActions {
    /// Adds one. A frontend that never answers must not make the list grow: the oldest choice is dropped.
    pub fn add(&self, action: PendingAction) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while pending.len() >= MAX_FRONTEND_ACTIONS {
            pending.pop_front();
        }
        pending.push_back(action);
    }

    /// Takes the choice that a connection answers with that kind.
    ///
    /// # Errors
    /// The choice's kind, if it is another one, and the choice stays open; `None` if there is no such choice.
    pub fn take(
        &self,
        request: &str,
        connection: u64,
        kind: Option<ChoiceKind>,
    ) -> Result<PendingAction, Option<ChoiceKind>> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = |action: &PendingAction| action.request == request && action.connection == connection;
        let place = pending.iter().position(mine).ok_or(None)?;
        match pending.get(place) {
            Some(action) if kind != Some(action.kind) => Err(Some(action.kind)),
            _ => pending.remove(place).ok_or(None),
        }
    }
}
