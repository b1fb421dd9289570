//! A host: a process that drives the program's own rules ([`Lease`], [`Replica`], [`Owner`]) as the program does, with
//! calls to the engine, a disk and clocks. What it owns is in `owning.rs`.
//!
//! It never sees true time or the engine. Whatever it does goes out as a statement, a timer or a fact ([`Out`]).

use std::rc::Rc;

use edn_bridge::realm::rules::{Lease, LeaseStanding, LeaseTerms, LogConflict, Offer, Replica};
use edn_bridge::realm::{Claim, RealmError, Tail};

use super::engine::{Owned, Page, Reply, Request, Statement, Who, Wish};
use super::entry::{Entry, Key, View};
use super::mistakes::Mistake;
use super::owning::{Asker, Owning};
use super::random::Random;
use super::time::{Clocks, MS, Reads, SECOND, Time};
use super::truth::Fact;

/// The number of a call; an answer that comes to a call which was given up is dropped.
pub type CallId = u64;

/// What a host is waiting for.
#[derive(Debug)]
pub enum Call {
    Renew { sent: std::time::Duration },
    Read { session: usize, after: Tail },
    Claim { session: usize, known: Tail, lapses: u64 },
    Append { session: usize, epoch: u64 },
    Settle { session: usize, epoch: u64, asked: Tail },
    Release,
    HandOver { session: usize, epoch: u64 },
    Other,
}

/// What a host sets a timer for. Timers run on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// Look at everything, about once a second.
    Look,
    /// The lease may be over.
    LeaseEnd,
    /// The model has answered.
    Model { session: usize, epoch: u64, call: u64 },
    /// A tool has ended by itself.
    Tool { session: usize, epoch: u64, tool: Key },
}

/// What a user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Accepted,
    OwnerLost,
}

/// What comes of an event.
pub struct Out<'a> {
    pub now: Time,
    pub random: &'a mut Random,
    /// How often the engine had been set back when what is being handled was sent. Only for the truth.
    pub set_backs: u32,
    pub sends: Vec<(CallId, Statement)>,
    pub timers: Vec<(Time, Timer)>,
    pub tells: Vec<(usize, Told)>,
    pub facts: Vec<Fact>,
}

/// What a host has of a session.
pub struct Seat {
    pub replica: Replica,
    /// The session's file.
    pub log: Vec<Rc<Entry>>,
    /// How many of its entries are on the disk for certain.
    synced: usize,
    pub view: View,
    pub role: Role,
    reading: bool,
    /// A claim is under way.
    claiming: bool,
    /// A user wants this host to own it.
    pub is_wanted: bool,
    /// Who owns it, as the engine last said.
    owner: Option<Owned>,
    /// The engine lacks what this host knows: nothing more is done with it here.
    pub stopped: Option<LogConflict>,
}

pub enum Role {
    Follower,
    /// It is claimed. What the log says up to the claim's place is being read.
    Loading {
        claim: Claim,
        known: Tail,
        lapses: u64,
    },
    Owning(Box<Owning>),
}

pub struct Host {
    pub who: Who,
    pub clocks: Clocks,
    pub seats: Vec<Seat>,
    pub lease: Lease,
    pub mistake: Option<Mistake>,
    calls: Vec<(CallId, Call)>,
    numbers: u64,
    /// Another process goes by this host's name.
    pub has_ended: bool,
}

impl Seat {
    fn new(log: Vec<Rc<Entry>>) -> Self {
        let tail = log.last().map_or_else(Tail::default, |last| Tail::at(log.len() as u64, last.id.clone()));
        Self {
            replica: Replica::new(tail),
            synced: log.len(),
            view: View::of(&log),
            log,
            role: Role::Follower,
            reading: false,
            claiming: false,
            is_wanted: false,
            owner: None,
            stopped: None,
        }
    }

    pub fn owning(&mut self) -> Option<&mut Owning> {
        if let Role::Owning(owning) = &mut self.role { Some(owning) } else { None }
    }

    fn keep(&mut self, entry: Rc<Entry>) {
        self.view.apply(&entry);
        self.log.push(entry);
    }
}

impl Host {
    /// A run of a host, with what its disk has.
    pub fn new(
        who: Who,
        clocks: Clocks,
        logs: Vec<Vec<Rc<Entry>>>,
        terms: LeaseTerms,
        mistake: Option<Mistake>,
    ) -> Self {
        let seats = logs.into_iter().map(Seat::new).collect();
        let lease = Lease::new(terms);
        Self { who, clocks, seats, lease, mistake, calls: Vec::new(), numbers: 0, has_ended: false }
    }

    pub fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// A number that this run gives once.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        ((self.who.host as u64) << 56) | (u64::from(self.who.run) << 40) | self.numbers
    }

    pub fn send(&mut self, call: Call, statement: Statement, out: &mut Out<'_>) {
        let id = self.number();
        self.calls.push((id, call));
        out.sends.push((id, statement));
    }

    /// What this host's clock shows, on which it counts its lease.
    pub fn clock(&self, now: Time) -> std::time::Duration {
        let reads = match self.mistake {
            Some(Mistake::MonotonicLease) => Reads::Monotonic,
            Some(Mistake::WallClockLease) => Reads::Wall,
            _ => Reads::Boot,
        };
        self.clocks.read(reads, now)
    }

    /// What is left of the files after a crash: a while's worth of writing may be missing.
    pub fn crash(&mut self, random: &mut Random) -> Vec<Vec<Rc<Entry>>> {
        let keep = |seat: &mut Seat| {
            let unsynced = (seat.log.len() - seat.synced) as u64;
            let kept = seat.synced + usize::try_from(random.below(unsynced + 1)).unwrap();
            seat.log.truncate(kept);
            std::mem::take(&mut seat.log)
        };
        self.seats.iter_mut().map(keep).collect()
    }

    // ---- events

    pub fn start(&mut self, out: &mut Out<'_>) {
        self.renew(out);
        out.timers.push((out.random.between(100 * MS, SECOND), Timer::Look));
    }

    pub fn timer(&mut self, timer: Timer, out: &mut Out<'_>) {
        if self.has_ended {
            return;
        }
        self.watch_lease(out);
        match timer {
            Timer::Look => self.look(out),
            Timer::LeaseEnd => {}
            Timer::Model { session, epoch, call } => self.model_answered(session, epoch, call, out),
            Timer::Tool { session, epoch, tool } => self.tool_ended(session, epoch, tool, out),
        }
    }

    /// An answer, or `InDoubt` if none came in time.
    pub fn answered(&mut self, id: CallId, answer: Result<Reply, RealmError>, out: &mut Out<'_>) {
        let Some(place) = self.calls.iter().position(|(call, _)| *call == id) else { return };
        let (_, call) = self.calls.swap_remove(place);
        if self.has_ended {
            return;
        }
        if !self.makes(Mistake::ClaimOverLapse) || !matches!(call, Call::Renew { .. }) {
            self.watch_lease(out);
        }
        match call {
            Call::Renew { sent } => self.renewed(sent, answer, out),
            Call::Read { session, after } => self.has_read(session, &after, answer, out),
            Call::Claim { session, known, lapses } => self.claimed(session, known, lapses, answer, out),
            // What was asked by an earlier claim says nothing to this one.
            Call::Append { session, epoch }
            | Call::Settle { session, epoch, .. }
            | Call::HandOver { session, epoch }
                if !self.makes(Mistake::AnswerOfOldClaim) && !self.owns_in(session, epoch) => {}
            Call::Append { session, .. } => self.appended(session, answer, out),
            Call::Settle { session, asked, .. } => self.settled(session, &asked, answer, out),
            Call::HandOver { session, .. } => self.handed_over(session, answer, out),
            Call::Release | Call::Other => {}
        }
    }

    pub fn is_waiting(&self, id: CallId) -> bool {
        self.calls.iter().any(|(call, _)| *call == id)
    }

    /// A hint that a session's log has that many entries.
    pub fn hint(&mut self, session: usize, seq: u64, out: &mut Out<'_>) {
        if self.has_ended {
            return;
        }
        self.watch_lease(out);
        if self.seats[session].owning().is_some() {
            self.owner_heard(session, seq, out);
        } else if self.seats[session].replica.heard(seq) {
            self.read(session, out);
        }
    }

    /// A user on this host wants something of a session.
    pub fn ask(&mut self, user: usize, session: usize, wish: Wish, out: &mut Out<'_>) {
        if self.has_ended {
            return;
        }
        self.watch_lease(out);
        let number = self.number();
        let seat = &mut self.seats[session];
        match (&seat.role, seat.owner) {
            (Role::Owning(_), _) => self.wish(session, wish, Asker::User(user), out),
            (Role::Loading { .. }, _) => {}
            (Role::Follower, Some(owner)) if !owner.is_lost && owner.host != self.who.host => {
                let request = Request { id: number, wish };
                self.send(Call::Other, Statement::Post { session, request }, out);
            }
            (Role::Follower, _) => out.tells.push((user, Told::OwnerLost)),
        }
    }

    pub fn owns(&self, session: usize) -> bool {
        matches!(self.seats[session].role, Role::Owning(_))
    }

    /// Whether this host shows that a session's owner is lost.
    pub fn shows_lost(&self, session: usize) -> bool {
        let seat = &self.seats[session];
        matches!(seat.role, Role::Follower) && seat.owner.is_some_and(|owner| owner.is_lost)
    }

    /// A user wants this host to own a session.
    pub fn take(&mut self, session: usize, out: &mut Out<'_>) {
        self.watch_lease(out);
        self.seats[session].is_wanted = true;
        self.claim(session, out);
    }

    /// Leaves the realm in good order.
    pub fn leave(&mut self, out: &mut Out<'_>) {
        (0..self.seats.len()).for_each(|session| self.give_up(session, out));
        self.send(Call::Other, Statement::Leave, out);
    }

    // ---- the lease

    fn renew(&mut self, out: &mut Out<'_>) {
        let now = self.clock(out.now);
        self.lease.sending(now);
        self.send(Call::Renew { sent: now }, Statement::Renew, out);
    }

    fn renewed(&mut self, sent: std::time::Duration, answer: Result<Reply, RealmError>, out: &mut Out<'_>) {
        match answer {
            Ok(_) => {
                let now = self.clock(out.now);
                let sent = if self.makes(Mistake::LeaseFromAnswer) { now } else { sent };
                self.lease.renewed(sent, now);
                self.watch_lease(out);
                if let Some(end) = self.lease.ends_at() {
                    out.timers.push((self.clocks.true_time(end.saturating_sub(now)), Timer::LeaseEnd));
                }
                (0..self.seats.len()).for_each(|session| self.pump(session, out));
            }
            Err(RealmError::NameTaken { .. }) => {
                self.has_ended = true;
                (0..self.seats.len()).for_each(|session| self.give_up(session, out));
            }
            Err(_) => self.lease.failed(self.clock(out.now)),
        }
    }

    /// Ends what a lease that is over does not allow. Comes before anything else that this host does.
    pub fn watch_lease(&mut self, out: &mut Out<'_>) -> LeaseStanding {
        let standing = self.lease.standing(self.clock(out.now));
        let lapses = self.lease.lapses();
        for session in 0..self.seats.len() {
            let claimed = match &self.seats[session].role {
                Role::Follower => continue,
                Role::Loading { lapses, .. } => *lapses,
                Role::Owning(owning) => owning.lapses,
            };
            if standing != LeaseStanding::Over && claimed == lapses {
                continue;
            }
            if self.makes(Mistake::NoKillAtEnd)
                && self.seats[session].owning().is_some_and(|owning| owning.runs_tool())
            {
                continue;
            }
            if self.makes(Mistake::ClaimOverLapse) {
                self.kill_tool(session, out);
            } else {
                out.facts.push(Fact::Lost { is_fenced: false });
                self.give_up(session, out);
            }
        }
        standing
    }

    /// Is a follower from now on.
    pub fn give_up(&mut self, session: usize, out: &mut Out<'_>) {
        self.kill_tool(session, out);
        self.seats[session].role = Role::Follower;
    }

    // ---- looking around

    fn look(&mut self, out: &mut Out<'_>) {
        out.timers.push((SECOND - out.random.below(200 * MS), Timer::Look));
        if self.lease.renew_at() <= self.clock(out.now) {
            self.renew(out);
        }
        for session in 0..self.seats.len() {
            let seat = &mut self.seats[session];
            seat.synced = seat.log.len();
            self.read(session, out);
            if self.seats[session].is_wanted {
                self.claim(session, out);
            }
            self.age(session);
            if self.has_open_doubt(session) {
                self.settle_if_free(session, out);
            }
            self.go_on(session, out);
        }
    }

    pub fn read(&mut self, session: usize, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        // One at a time, but for a program that takes in whatever comes.
        if seat.stopped.is_some() || seat.reading && self.mistake != Some(Mistake::CopyOverGap) {
            return;
        }
        seat.reading = true;
        let after = seat.replica.tail().clone();
        self.send(Call::Read { session, after: after.clone() }, Statement::Read { session, after }, out);
    }

    fn has_read(
        &mut self,
        session: usize,
        after: &Tail,
        answer: Result<Reply, RealmError>,
        out: &mut Out<'_>,
    ) {
        let is_careless = self.makes(Mistake::StaleLength);
        let is_hasty = self.makes(Mistake::DecideBeforeReading);
        let seat = &mut self.seats[session];
        seat.reading = false;
        let page = match answer {
            Ok(Reply::Page(page)) => page,
            Ok(_) => return,
            Err(error) => {
                if let Some(stop) = LogConflict::of(&error) {
                    self.lacks(session, stop, out);
                }
                return;
            }
        };
        seat.owner = page.owner;
        let asked = if is_careless { seat.replica.tail().clone() } else { after.clone() };
        if let Err(stop) = seat.replica.found(&asked, page.tail.seq) {
            return self.lacks(session, stop, out);
        }
        if seat.owning().is_some() {
            for request in &page.requests {
                self.wish(session, request.wish, Asker::Request(request.id), out);
            }
            let is_ours = page.owner.is_some_and(|owned| owned.host == self.who.host);
            if is_hasty {
                self.take_in(session, after.seq, &page, out);
            } else if is_ours {
                self.owner_heard(session, page.tail.seq, out);
            } else if !self.makes(Mistake::OwnerDoesNotWatch) {
                self.settle_if_free(session, out);
            }
            return;
        }
        self.take_in(session, after.seq, &page, out);
        self.loaded(session, out);
        let seat = &self.seats[session];
        if matches!(seat.role, Role::Follower) && page.owner.is_some_and(|owned| owned.host == self.who.host)
        {
            // Handed over, or our own of an earlier run, or claimed by a call whose answer never came.
            self.claim(session, out);
        }
    }

    /// Offers the entries of a page to the copy.
    pub fn take_in(&mut self, session: usize, after: u64, page: &Page, out: &mut Out<'_>) {
        let is_careless = self.makes(Mistake::CopyOverGap);
        let seat = &mut self.seats[session];
        for (seq, entry) in (after + 1..).zip(&page.entries) {
            match seat.replica.offer(seq, &entry.id) {
                Offer::Apply => {}
                Offer::Known | Offer::Gap if is_careless => {}
                Offer::Known => continue,
                Offer::Gap => return self.read(session, out),
                Offer::Stop(stop) => return self.lacks(session, stop, out),
            }
            let seq = if is_careless { seat.log.len() as u64 + 1 } else { seq };
            let before = seat.log.last().cloned();
            seat.keep(entry.clone());
            out.facts.push(Fact::Kept {
                session,
                seq,
                before,
                entry: entry.clone(),
                set_backs: out.set_backs,
            });
        }
    }

    /// The engine lacks what this host knows.
    pub fn lacks(&mut self, session: usize, stop: LogConflict, out: &mut Out<'_>) {
        if self.makes(Mistake::WriteAfterSetBack) {
            return self.forget_and_claim(session, out);
        }
        self.give_up(session, out);
        let seat = &mut self.seats[session];
        if seat.stopped.is_none() {
            seat.replica.stop(stop.clone());
            seat.stopped = Some(stop.clone());
            out.facts.push(Fact::SaidStopped { session, stop });
        }
    }

    /// A mistake: begins anew from nothing, and claims what it can.
    fn forget_and_claim(&mut self, session: usize, out: &mut Out<'_>) {
        self.give_up(session, out);
        let seat = &mut self.seats[session];
        *seat = Seat { is_wanted: true, ..Seat::new(Vec::new()) };
        self.claim(session, out);
    }

    // ---- claims

    pub fn claim(&mut self, session: usize, out: &mut Out<'_>) {
        let lapses = self.lease.lapses();
        let is_over = self.lease.standing(self.clock(out.now)) == LeaseStanding::Over;
        let seat = &mut self.seats[session];
        if is_over
            || self.has_ended
            || seat.claiming
            || seat.stopped.is_some()
            || !matches!(seat.role, Role::Follower)
        {
            return;
        }
        seat.claiming = true;
        let known = seat.replica.tail().clone();
        self.send(
            Call::Claim { session, known: known.clone(), lapses },
            Statement::Claim { session, known },
            out,
        );
    }

    fn claimed(
        &mut self,
        session: usize,
        known: Tail,
        lapses: u64,
        answer: Result<Reply, RealmError>,
        out: &mut Out<'_>,
    ) {
        let is_over = self.watch_lease(out) == LeaseStanding::Over;
        let lapsed = is_over || lapses != self.lease.lapses();
        let seat = &mut self.seats[session];
        seat.claiming = false;
        match answer {
            Ok(Reply::Claimed(claim))
                if !lapsed && matches!(seat.role, Role::Follower) && seat.stopped.is_none() =>
            {
                seat.is_wanted = false;
                seat.role = Role::Loading { claim, known, lapses };
                self.loaded(session, out);
                self.read(session, out);
            }
            Ok(_) => {}
            Err(RealmError::Held { .. }) => seat.is_wanted = false,
            Err(error) => {
                if let Some(stop) = LogConflict::of(&error) {
                    self.lacks(session, stop, out);
                }
            }
        }
    }

    /// Begins to own a session once its log is here up to the place of the claim.
    fn loaded(&mut self, session: usize, out: &mut Out<'_>) {
        let is_hasty = self.makes(Mistake::DecideBeforeReading);
        let seat = &mut self.seats[session];
        let Role::Loading { claim, known, lapses } = &seat.role else { return };
        let is_here = seat.replica.tail().seq >= claim.tail.seq;
        if !is_here && !is_hasty {
            return;
        }
        if is_here && *seat.replica.tail() != claim.tail {
            // Somebody else has claimed it since.
            return self.give_up(session, out);
        }
        match Owning::new(claim, known, *lapses) {
            Ok(owning) => {
                seat.role = Role::Owning(Box::new(owning));
                self.announce(session);
                self.go_on(session, out);
            }
            Err(stop) => self.lacks(session, stop, out),
        }
    }
}
