//! The requests of other hosts that this one has taken. Knows their ids only.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::REALM_WAITING;

/// The requests that were taken, so that one that comes again is not carried out again.
#[derive(Default)]
pub(super) struct TakenRequests(Mutex<Known>);

#[derive(Default)]
struct Known {
    ids: HashSet<Arc<str>>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
}

impl TakenRequests {
    /// Notes a request. Returns whether it is new.
    pub(super) fn is_new(&self, id: &Arc<str>) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { ids: known, order } = &mut *taken;
        if !known.insert(id.clone()) {
            return false;
        }
        order.push_back(id.clone());
        if order.len() > REALM_WAITING
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        true
    }
}
