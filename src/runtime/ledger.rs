//! The idempotency keys that a session knows, with their answers. Pure.

use std::collections::VecDeque;

use crate::limits::LEDGER_KEYS;
use crate::message::TurnId;
use crate::runtime::change::Claim;

/// The keys of answered requests, oldest first.
#[derive(Default)]
pub struct Ledger(VecDeque<(String, Option<TurnId>)>);

impl Ledger {
    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key is new, or what it was answered with.
    pub fn look_up(&self, key: &str) -> Claim {
        match self.0.iter().find(|(known, _)| known == key) {
            Some((_, turn)) => Claim::Answered(turn.clone()),
            None => Claim::New,
        }
    }

    /// Records an answer. The oldest key is forgotten if there are too many.
    pub fn record(&mut self, key: String, turn: Option<TurnId>) {
        self.0.push_back((key, turn));
        if self.0.len() > LEDGER_KEYS {
            self.0.pop_front();
        }
    }
}
