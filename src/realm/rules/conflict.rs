//! What ends an owner's or a replica's work with a session for good.

use crate::message::{EntryId, SessionId};
use crate::realm::error::RealmError;
use crate::realm::types::Tail;

/// Why nothing may be written or taken in any more. Only a new claim, or a replica that begins anew, goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogConflict {
    /// Somebody else owns the session.
    Fenced,
    /// The engine has less than is known to be saved.
    Behind {
        /// What is known.
        known: Tail,
        /// What the engine has.
        found: u64,
    },
    /// The engine has another entry where one is known.
    Diverged {
        /// The place.
        seq: u64,
        /// What is known there.
        known: EntryId,
        /// What the engine has there.
        found: EntryId,
    },
}

impl LogConflict {
    /// The stop that an error of the realm means, if it means one.
    pub fn of(error: &RealmError) -> Option<Self> {
        match error {
            RealmError::Fenced { .. } => Some(Self::Fenced),
            RealmError::Behind { known, found } => Some(Self::Behind { known: known.clone(), found: *found }),
            RealmError::Diverged { seq, known, found } => {
                Some(Self::Diverged { seq: *seq, known: known.clone(), found: found.clone() })
            }
            _ => None,
        }
    }

    /// The error that says it of a session.
    pub fn error(self, session: &SessionId) -> RealmError {
        match self {
            Self::Fenced => RealmError::Fenced { session: session.clone() },
            Self::Behind { known, found } => RealmError::Behind { known, found },
            Self::Diverged { seq, known, found } => RealmError::Diverged { seq, known, found },
        }
    }

    /// Compares what is known with what the engine has. `at_known` is the engine's entry at the known place, if it was
    /// read.
    pub fn unless_holds(known: &Tail, found: u64, at_known: Option<&EntryId>) -> Option<Self> {
        if found < known.seq {
            return Some(Self::Behind { known: known.clone(), found });
        }
        match (&known.id, at_known) {
            (Some(known_id), Some(id)) if known_id != id => {
                Some(Self::Diverged { seq: known.seq, known: known_id.clone(), found: id.clone() })
            }
            _ => None,
        }
    }
}
