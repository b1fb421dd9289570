//! The choices that frontends were asked for and have not answered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Choice, ChoiceKind, Pick};
use crate::limits::MAX_FRONTEND_ACTIONS;
use crate::message::SessionId;

/// An unanswered choice.
pub struct PendingAction {
    /// Who was asked.
    pub connection: u64,
    /// The session that the choice is for.
    pub session: SessionId,
    /// What was offered, under the request that the answer names.
    pub choice: Arc<Choice>,
}

/// Why an answer is refused. A choice that it named stays open.
pub enum ArgumentMisfit {
    /// There is no such choice.
    Unknown,
    /// The choice is of this kind, not the answer's.
    Kind(ChoiceKind),
    /// What was picked is none of the items.
    NotOffered,
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

    /// Takes the choice that a connection answers with that kind, and with that pick if it picks one.
    ///
    /// # Errors
    /// See [`ArgumentMisfit`].
    pub fn take(
        &self,
        request: &str,
        connection: u64,
        kind: Option<ChoiceKind>,
        picked: Option<Option<&Pick>>,
    ) -> Result<PendingAction, ArgumentMisfit> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mine =
            |action: &PendingAction| *action.choice.request == *request && action.connection == connection;
        let place = pending.iter().position(mine).ok_or(ArgumentMisfit::Unknown)?;
        let choice = &pending.get(place).ok_or(ArgumentMisfit::Unknown)?.choice;
        let is_offered = |pick: Option<&Pick>| choice.items.iter().any(|item| Some(&item.pick) == pick);
        match picked {
            _ if kind != Some(choice.kind) => Err(ArgumentMisfit::Kind(choice.kind)),
            Some(pick) if !is_offered(pick) => Err(ArgumentMisfit::NotOffered),
            _ => pending.remove(place).ok_or(ArgumentMisfit::Unknown),
        }
    }
}
