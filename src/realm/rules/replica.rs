//! What a copy of a session's log takes in: each entry once, in order, none left out.

use crate::message::EntryId;
use crate::realm::rules::conflict::LogConflict;
use crate::realm::types::Tail;

/// A copy of a log on this host.
#[derive(Debug, Clone)]
pub struct Replica {
    tail: Tail,
    stopped: Option<LogConflict>,
}

/// What becomes of an entry that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// It is the next one: keep it.
    Apply,
    /// It is here already.
    Known,
    /// Others are missing before it: read from the replica's tail.
    Gap,
    /// The log is another one. Nothing is taken in any more.
    Stop(LogConflict),
}

impl Replica {
    /// A copy that ends there.
    pub fn new(tail: Tail) -> Self {
        Self { tail, stopped: None }
    }

    /// Its last entry.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&LogConflict> {
        self.stopped.as_ref()
    }

    /// An entry with its number.
    pub fn offer(&mut self, seq: u64, id: &EntryId) -> Offer {
        if let Some(stop) = &self.stopped {
            return Offer::Stop(stop.clone());
        }
        if seq == self.tail.seq.saturating_add(1) {
            self.tail = Tail::at(seq, id.clone());
            return Offer::Apply;
        }
        if seq > self.tail.seq {
            return Offer::Gap;
        }
        let at_known = (seq == self.tail.seq).then_some(id);
        match LogConflict::unless_holds(&self.tail, self.tail.seq, at_known) {
            Some(stop) => Offer::Stop(self.stop(stop)),
            None => Offer::Known,
        }
    }

    /// Whether a hint that the log has that many entries is a reason to read. It may be an old one.
    pub fn heard(&self, seq: u64) -> bool {
        self.stopped.is_none() && seq > self.tail.seq
    }

    /// The engine was asked from a place, and said that the log has that many entries. If the copy has grown since, the
    /// answer says nothing.
    ///
    /// # Errors
    /// If those are fewer than the copy has.
    pub fn found(&mut self, asked: &Tail, seq: u64) -> Result<(), LogConflict> {
        if let Some(stop) = &self.stopped {
            return Err(stop.clone());
        }
        if *asked != self.tail {
            return Ok(());
        }
        LogConflict::unless_holds(&self.tail, seq, None).map_or(Ok(()), |stop| Err(self.stop(stop)))
    }

    /// Stops, because of what a read has found.
    pub fn stop(&mut self, stop: LogConflict) -> LogConflict {
        self.stopped.get_or_insert(stop).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_takes_only_the_next_entry() {
        let mut replica = Replica::new(Tail::default());
        assert_eq!(replica.offer(2, &"b".into()), Offer::Gap);
        assert_eq!(replica.offer(1, &"a".into()), Offer::Apply);
        assert_eq!(replica.offer(1, &"a".into()), Offer::Known);
        assert_eq!(replica.offer(2, &"b".into()), Offer::Apply);
        assert_eq!(replica.offer(1, &"a".into()), Offer::Known);
        assert_eq!(*replica.tail(), Tail::at(2, "b".into()));
    }

    #[test]
    fn replica_of_another_log_stops() {
        let mut replica = Replica::new(Tail::at(2, "b".into()));
        let diverged = LogConflict::Diverged { seq: 2, known: "b".into(), found: "x".into() };
        assert_eq!(replica.offer(2, &"x".into()), Offer::Stop(diverged.clone()));
        assert_eq!(replica.offer(3, &"c".into()), Offer::Stop(diverged));
        assert_eq!(replica.tail().seq, 2);
    }

    #[test]
    fn replica_of_a_shorter_log_stops() {
        let mut replica = Replica::new(Tail::at(2, "b".into()));
        assert_eq!([1, 2, 3].map(|seq| replica.heard(seq)), [false, false, true]);
        let tail = replica.tail().clone();
        assert_eq!(replica.found(&tail, 2), Ok(()));
        assert_eq!(replica.found(&Tail::at(1, "a".into()), 1), Ok(()), "asked before it grew");
        let behind = LogConflict::Behind { known: Tail::at(2, "b".into()), found: 1 };
        assert_eq!(replica.found(&tail, 1), Err(behind.clone()));
        assert_eq!(replica.offer(3, &"c".into()), Offer::Stop(behind));
    }
}
