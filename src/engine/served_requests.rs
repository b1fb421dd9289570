//! The requests of other hosts that this one has taken. Knows their ids, and of those that take long how they ended.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::limits::{REALM_ENDS, REALM_WAITING};

/// The requests that were taken, so that one that comes again is not carried out again.
#[derive(Default)]
pub(super) struct ServedRequests(Mutex<KnownRequests>);

#[derive(Default)]
struct KnownRequests {
    ids: HashSet<Arc<str>>,
    /// The oldest first.
    order: VecDeque<Arc<str>>,
    /// Those that were answered when they began, the oldest first, with their ends.
    begun: VecDeque<(Arc<str>, ReplyWatch)>,
}

/// The answer, once there is one.
type ReplyWatch = watch::Receiver<Option<Arc<str>>>;

/// The end of a request that was answered when it began.
pub(super) struct End(watch::Sender<Option<Arc<str>>>);

impl End {
    /// It has ended with that answer.
    pub(super) fn is(self, answer: Arc<str>) {
        self.0.send_replace(Some(answer));
    }
}

impl ServedRequests {
    fn known(&self) -> MutexGuard<'_, KnownRequests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request. Returns whether it is new.
    pub(super) fn is_new(&self, id: &Arc<str>) -> bool {
        let mut taken = self.known();
        let KnownRequests { ids, order, .. } = &mut *taken;
        if !ids.insert(id.clone()) {
            return false;
        }
        order.push_back(id.clone());
        if order.len() > REALM_WAITING
            && let Some(oldest) = order.pop_front()
        {
            ids.remove(&oldest);
        }
        true
    }

    /// Notes a request whose end is asked for later, unless too many run: the end of each of them is still wanted.
    pub(super) fn begin(&self, id: &Arc<str>) -> Option<End> {
        let mut taken = self.known();
        if taken.begun.len() >= REALM_ENDS {
            // Of one that has ended, or was not begun, nobody may want to know any more.
            let is_over = |ended: &ReplyWatch| ended.borrow().is_some() || ended.has_changed().is_err();
            let oldest = taken.begun.iter().position(|(_, ended)| is_over(ended))?;
            taken.begun.remove(oldest);
        }
        let (end, ended) = watch::channel(None);
        taken.begun.push_back((id.clone(), ended));
        Some(End(end))
    }

    /// How a request has ended, once it has; `None` for one that is not known.
    pub(super) async fn end_of(&self, id: &str) -> Option<Arc<str>> {
        let known = self.known().begun.iter().find(|(known, _)| **known == *id).map(|(_, end)| end.clone());
        known?.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Its end is told.
    pub(super) fn forget(&self, id: &str) {
        self.known().begun.retain(|(known, _)| **known != *id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_call_that_runs_is_kept_and_no_more_begin() {
        let taken = ServedRequests::default();
        let id = |number: usize| Arc::<str>::from(format!("r-{number}"));
        let mut ends: VecDeque<_> = (0..REALM_ENDS).map(|number| taken.begin(&id(number)).unwrap()).collect();
        assert!(taken.begin(&id(1000)).is_none(), "the end of one that runs would be lost");
        // The second one is not begun after all, and the third one has ended.
        ends.remove(1);
        ends.remove(1).unwrap().is("done".into());
        let more = [taken.begin(&id(1001)), taken.begin(&id(1002))];
        assert!(more.iter().all(Option::is_some) && taken.begin(&id(1003)).is_none());
        let known: Vec<_> = taken.known().begun.iter().take(2).map(|(id, _)| id.clone()).collect();
        assert_eq!(known, [id(0), id(3)]);
    }
}
