//! What the owner of a session may append, and what it does when an answer does not come.
//!
//! ```text
//!            begin              Ok
//!   steady ────────→ under way ────→ steady: acknowledge
//!     ↑                  │ in doubt
//!     │                  ↓       settle        found: acknowledge
//!     └────────────── in doubt ──────────→ steady
//!                                              not found: decide anew, then begin again with the same ids
//! ```
//!
//! A statement without an answer may be carried out later. Each append says after which entry it belongs, so the first
//! one that is carried out there is the only one; until then the doubt stays [open](Owner::has_open_doubt), and a later
//! settle or append finds it.

use crate::message::EntryId;
use crate::realm::error::RealmError;
use crate::realm::rules::conflict::LogConflict;
use crate::realm::types::{Claim, Tail};

/// The owner of one session, in one epoch.
#[derive(Debug, Clone)]
pub struct Owner {
    tail: Tail,
    state: State,
    /// Entries of appends that may still be carried out right after the tail.
    open: Vec<Vec<EntryId>>,
}

#[derive(Debug, Clone)]
enum State {
    Steady,
    UnderWay(Vec<EntryId>),
    InDoubt(Option<Vec<EntryId>>),
    Stopped(LogConflict),
}

/// Why an append may not begin now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotNow {
    /// Another one is under way. There is one at a time.
    UnderWay,
    /// It is unknown what became of the last one: settle first.
    InDoubt,
    /// Never again in this epoch.
    Stopped(LogConflict),
}

/// What follows from the answer to an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The entries are saved: acknowledge them.
    Acknowledge,
    /// They are not saved, and will not be. Say why.
    Refuse,
    /// Unknown: settle.
    Settle,
    /// Write nothing any more.
    Stop(LogConflict),
}

/// What follows from the answer to a settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The entries in doubt are saved: acknowledge them.
    Acknowledge,
    /// The entries in doubt are not saved, though they may still be. Take in what was found, decide anew from what the log
    /// says now, and append what is still wanted, with the same ids.
    DecideAnew,
    /// Nothing was in doubt. Take in what was found.
    Level,
    /// No answer: settle again.
    Again,
    /// Write nothing any more.
    Stop(LogConflict),
}

impl Owner {
    /// The owner by a claim. `known` is what this host knows to be saved.
    ///
    /// # Errors
    /// If the log is shorter than that.
    pub fn new(claim: &Claim, known: &Tail) -> Result<Self, LogConflict> {
        let at_known = (claim.tail.seq == known.seq).then_some(claim.tail.id.as_ref()).flatten();
        match LogConflict::unless_holds(known, claim.tail.seq, at_known) {
            Some(stop) => Err(stop),
            None => Ok(Self { tail: claim.tail.clone(), state: State::Steady, open: Vec::new() }),
        }
    }

    /// The last entry that is known to be saved.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&LogConflict> {
        if let State::Stopped(stop) = &self.state { Some(stop) } else { None }
    }

    /// Whether it must settle before it appends.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.state, State::InDoubt(_))
    }

    /// Whether an append without an answer may still be carried out.
    pub fn has_open_doubt(&self) -> bool {
        !self.open.is_empty()
    }

    /// Begins an append of entries with those ids. Returns the place after which they belong.
    ///
    /// # Errors
    /// See [`NotNow`].
    pub fn begin(&mut self, ids: Vec<EntryId>) -> Result<Tail, NotNow> {
        match &self.state {
            State::Steady => {
                self.state = State::UnderWay(ids);
                Ok(self.tail.clone())
            }
            State::UnderWay(_) => Err(NotNow::UnderWay),
            State::InDoubt(_) => Err(NotNow::InDoubt),
            State::Stopped(stop) => Err(NotNow::Stopped(stop.clone())),
        }
    }

    /// The answer to the append that is under way.
    pub fn appended(&mut self, answer: Result<&Tail, &RealmError>) -> Appended {
        let ids = match std::mem::replace(&mut self.state, State::Steady) {
            State::UnderWay(ids) => ids,
            // Nothing is under way: whatever this answers, the log must say.
            state => {
                self.state = state;
                return match &self.state {
                    State::Stopped(stop) => Appended::Stop(stop.clone()),
                    State::Steady | State::UnderWay(_) | State::InDoubt(_) => Appended::Settle,
                };
            }
        };
        match answer {
            Ok(tail) if *tail == self.tail.after(&ids) => {
                self.moved(tail.clone());
                Appended::Acknowledge
            }
            Ok(_) | Err(RealmError::InDoubt(_)) => {
                self.open.push(ids.clone());
                self.state = State::InDoubt(Some(ids));
                Appended::Settle
            }
            Err(error) => match LogConflict::of(error) {
                Some(stop) => self.stop_append(stop),
                None => Appended::Refuse,
            },
        }
    }

    /// A hint, or anything else, says that the log has that many entries. Returns whether to settle.
    pub fn heard(&mut self, seq: u64) -> bool {
        if matches!(self.state, State::Steady) && seq > self.tail.seq {
            self.state = State::InDoubt(None);
        }
        self.is_in_doubt()
    }

    /// The answer to a settle: the ids of the entries beyond the place that was asked for, in their order. That must be the
    /// tail still: the answer to an earlier question says nothing about the log's end.
    pub fn settled(&mut self, asked: &Tail, answer: Result<&[EntryId], &RealmError>) -> Settled {
        let pending = match &self.state {
            State::InDoubt(pending) => pending.clone(),
            State::Steady => None,
            // The append's own answer decides.
            State::UnderWay(_) => return Settled::Again,
            State::Stopped(stop) => return Settled::Stop(stop.clone()),
        };
        match answer {
            Ok(_) if *asked != self.tail => Settled::Again,
            Ok(found) => {
                if !found.is_empty() {
                    let tail = self.tail.after(found);
                    self.moved(tail);
                }
                self.state = State::Steady;
                match pending {
                    None => Settled::Level,
                    Some(ids) if contains(found, &ids) => Settled::Acknowledge,
                    Some(_) => Settled::DecideAnew,
                }
            }
            Err(error) => match LogConflict::of(error) {
                Some(stop) => {
                    self.state = State::Stopped(stop.clone());
                    Settled::Stop(stop)
                }
                None => {
                    self.state = State::InDoubt(pending);
                    Settled::Again
                }
            },
        }
    }

    /// Stops, because of something that was found elsewhere: a lease that is over, another claim.
    pub fn stop(&mut self, stop: LogConflict) {
        if self.stopped().is_none() {
            self.state = State::Stopped(stop);
        }
    }

    fn stop_append(&mut self, stop: LogConflict) -> Appended {
        self.state = State::Stopped(stop.clone());
        Appended::Stop(stop)
    }

    /// The log has moved, so that whatever belonged right after the old tail will never be carried out.
    fn moved(&mut self, tail: Tail) {
        self.tail = tail;
        self.open.clear();
    }
}

/// Whether all of `ids` stand in `found`, in their order.
fn contains(found: &[EntryId], ids: &[EntryId]) -> bool {
    let mut rest = found.iter();
    ids.iter().all(|id| rest.any(|other| other == id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::realm::error::Doubt;

    fn ids(ids: &[&str]) -> Vec<EntryId> {
        ids.iter().map(|id| (*id).into()).collect()
    }

    fn owner() -> Owner {
        let tail = Tail::at(5, "e5".into());
        Owner::new(&Claim { session: "s".into(), epoch: 3, tail: tail.clone() }, &tail).unwrap()
    }

    /// The answer to a question about the tail.
    fn settled(owner: &mut Owner, answer: Result<&[EntryId], &RealmError>) -> Settled {
        let asked = owner.tail().clone();
        owner.settled(&asked, answer)
    }

    const DOUBT: RealmError = RealmError::InDoubt(Doubt::NoAnswer);

    fn fenced() -> RealmError {
        RealmError::Fenced { session: "s".into() }
    }

    #[test]
    fn append_is_acknowledged_at_its_place() {
        let mut owner = owner();
        assert_eq!(owner.begin(ids(&["a", "b"])).unwrap().seq, 5);
        assert_eq!(owner.begin(ids(&["c"])), Err(NotNow::UnderWay));
        assert_eq!(owner.appended(Ok(&Tail::at(7, "b".into()))), Appended::Acknowledge);
        assert_eq!(*owner.tail(), Tail::at(7, "b".into()));
    }

    #[test]
    fn doubt_is_settled_before_the_next_append() {
        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        assert_eq!(owner.appended(Err(&DOUBT)), Appended::Settle);
        assert_eq!(owner.begin(ids(&["b"])), Err(NotNow::InDoubt));
        assert_eq!(settled(&mut owner, Err(&DOUBT)), Settled::Again);
        assert_eq!(settled(&mut owner, Err(&RealmError::Unreachable("away".into()))), Settled::Again);
        assert_eq!(owner.begin(ids(&["b"])), Err(NotNow::InDoubt));
        assert_eq!(settled(&mut owner, Ok(&ids(&["a"]))), Settled::Acknowledge);
        assert_eq!(owner.begin(ids(&["b"])).unwrap(), Tail::at(6, "a".into()));
    }

    #[test]
    fn what_is_not_found_is_decided_anew() {
        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        owner.appended(Err(&DOUBT));
        assert_eq!(settled(&mut owner, Ok(&[])), Settled::DecideAnew);
        assert!(owner.has_open_doubt(), "the statement may still be carried out");
        // Something else is wanted now. The late statement comes first, and takes the place.
        owner.begin(ids(&["b"])).unwrap();
        assert_eq!(owner.appended(Err(&RealmError::InDoubt(Doubt::NoRow))), Appended::Settle);
        assert_eq!(settled(&mut owner, Ok(&ids(&["a"]))), Settled::DecideAnew);
        assert!(!owner.has_open_doubt(), "nothing else fits after the old tail");
        assert_eq!(owner.begin(ids(&["b"])).unwrap(), Tail::at(6, "a".into()));
    }

    #[test]
    fn late_statement_is_found_without_an_append() {
        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        owner.appended(Err(&DOUBT));
        settled(&mut owner, Ok(&[]));
        assert!(!owner.heard(5));
        assert!(owner.heard(6));
        assert_eq!(owner.begin(ids(&["b"])), Err(NotNow::InDoubt));
        assert_eq!(settled(&mut owner, Ok(&ids(&["a"]))), Settled::Level);
        assert_eq!(owner.tail().seq, 6);
    }

    #[test]
    fn answer_to_an_earlier_question_settles_nothing() {
        let mut owner = owner();
        let asked = owner.tail().clone();
        owner.begin(ids(&["a"])).unwrap();
        owner.appended(Ok(&Tail::at(6, "a".into())));
        owner.begin(ids(&["b"])).unwrap();
        owner.appended(Err(&DOUBT));
        assert_eq!(owner.settled(&asked, Ok(&ids(&["a"]))), Settled::Again, "of before the first append");
        assert_eq!(*owner.tail(), Tail::at(6, "a".into()));
        assert_eq!(settled(&mut owner, Ok(&ids(&["b"]))), Settled::Acknowledge);
    }

    #[test]
    fn answer_that_does_not_fit_is_doubted() {
        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        assert_eq!(owner.appended(Ok(&Tail::at(9, "a".into()))), Appended::Settle);
        assert_eq!(owner.appended(Ok(&Tail::at(6, "a".into()))), Appended::Settle, "nothing is under way");
        assert_eq!(settled(&mut owner, Ok(&[])), Settled::DecideAnew);
    }

    #[test]
    fn what_was_not_sent_is_refused() {
        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        assert_eq!(owner.appended(Err(&RealmError::Unreachable("away".into()))), Appended::Refuse);
        assert!(!owner.has_open_doubt());
        assert_eq!(owner.begin(ids(&["b"])).unwrap().seq, 5);
    }

    #[test]
    fn fenced_owner_writes_nothing_any_more() {
        for in_doubt in [false, true] {
            let mut owner = owner();
            owner.begin(ids(&["a"])).unwrap();
            if in_doubt {
                owner.appended(Err(&DOUBT));
                assert_eq!(settled(&mut owner, Err(&fenced())), Settled::Stop(LogConflict::Fenced));
            } else {
                assert_eq!(owner.appended(Err(&fenced())), Appended::Stop(LogConflict::Fenced));
            }
            assert_eq!(owner.begin(ids(&["b"])), Err(NotNow::Stopped(LogConflict::Fenced)));
            assert_eq!(settled(&mut owner, Ok(&[])), Settled::Stop(LogConflict::Fenced));
            assert_eq!(owner.appended(Ok(&Tail::at(6, "a".into()))), Appended::Stop(LogConflict::Fenced));
        }
    }

    #[test]
    fn log_that_was_set_back_stops_the_owner() {
        let known = Tail::at(5, "e5".into());
        let claim = |tail| Claim { session: "s".into(), epoch: 1, tail };
        let behind = Owner::new(&claim(Tail::at(4, "e4".into())), &known).unwrap_err();
        assert_eq!(behind, LogConflict::Behind { known: known.clone(), found: 4 });
        let other = Owner::new(&claim(Tail::at(5, "x".into())), &known).unwrap_err();
        assert_eq!(other, LogConflict::Diverged { seq: 5, known: "e5".into(), found: "x".into() });
        assert!(Owner::new(&claim(Tail::at(9, "e9".into())), &known).is_ok());

        let mut owner = owner();
        owner.begin(ids(&["a"])).unwrap();
        owner.appended(Err(&DOUBT));
        let behind = RealmError::Behind { known: known.clone(), found: 4 };
        assert_eq!(settled(&mut owner, Err(&behind)), Settled::Stop(LogConflict::Behind { known, found: 4 }));
    }
}
