//! The engine: hosts with leases, sessions with an owner, an epoch and a log. Each statement is carried out at once, with
//! the effect that `src/realm/calls.rs` promises for the call, or not at all. Its own clock alone judges leases.

use std::rc::Rc;
use std::sync::Arc;

use edn_bridge::realm::rules::LogConflict;
use edn_bridge::realm::{Claim, Doubt, HostName, RealmError, Tail};

use super::entry::{Entry, Key};
use super::mistakes::Mistake;
use super::time::{SECOND, Time};

/// One run of a host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Who {
    pub host: usize,
    pub run: u32,
}

/// What a host asks of the engine.
#[derive(Clone, Debug)]
pub enum Statement {
    Renew,
    Leave,
    /// Also returns who owns the session, and the requests for its owner.
    Read {
        session: usize,
        after: Tail,
    },
    Claim {
        session: usize,
        known: Tail,
    },
    Append {
        session: usize,
        claim: Claim,
        after: Tail,
        entries: Vec<Rc<Entry>>,
    },
    /// Looks whether the claim counts. What the log has is read right after it, by a statement of its own.
    Settle {
        session: usize,
        claim: Claim,
        known: Tail,
    },
    /// The second part of a settle: at most so many entries.
    SettleRead {
        session: usize,
        known: Tail,
        most: usize,
    },
    Release {
        session: usize,
        claim: Claim,
    },
    HandOver {
        session: usize,
        claim: Claim,
        to: usize,
    },
    Post {
        session: usize,
        request: Request,
    },
    Answer {
        session: usize,
        request: u64,
    },
}

/// What a user on another host wants of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: u64,
    pub wish: Wish,
}

/// Something with a key: to prompt, or to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Prompt(Key),
    Answer(Key),
}

/// What the engine says.
#[derive(Clone, Debug)]
pub enum Reply {
    Done,
    Claimed(Claim),
    Appended(Tail),
    Page(Page),
}

#[derive(Clone, Debug)]
pub struct Page {
    pub entries: Vec<Rc<Entry>>,
    pub tail: Tail,
    pub owner: Option<Owned>,
    /// For the owner.
    pub requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    pub host: usize,
    pub is_lost: bool,
}

/// A host's row.
#[derive(Clone, Debug)]
pub struct HostRow {
    /// The newest run that has entered.
    pub run: u32,
    /// The end of its lease, by the engine's clock.
    until: i64,
}

/// A session's row, and its log.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// The owner, with the run that claimed it or that it was handed over to.
    pub owner: Option<Who>,
    pub epoch: u64,
    pub log: Vec<Row>,
    requests: Vec<(Who, Request, i64)>,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub entry: Rc<Entry>,
    pub epoch: u64,
}

impl SessionRow {
    pub fn tail(&self) -> Tail {
        let id = self.log.last().map(|row| row.entry.id.clone());
        Tail { seq: self.log.len() as u64, id }
    }

    /// The entry with a number, which begins at 1.
    pub fn at(&self, seq: u64) -> Option<&Row> {
        self.log.get(usize::try_from(seq).unwrap().checked_sub(1)?)
    }

    /// Whether a claim still counts. The row knows hosts, not their runs: each run makes a claim of its own, which raises
    /// the epoch.
    fn is_owned(&self, host: usize, claim: &Claim) -> bool {
        self.owner.is_some_and(|owner| owner.host == host) && self.epoch == claim.epoch
    }

    /// The difference between what is known and the log, if there is one.
    fn differs(&self, known: &Tail, by_number: bool) -> Option<RealmError> {
        let at_known = self.at(known.seq).map(|row| &row.entry.id).filter(|_| !by_number);
        let stop = LogConflict::unless_holds(known, self.log.len() as u64, at_known)?;
        Some(match stop {
            LogConflict::Behind { known, found } => RealmError::Behind { known, found },
            LogConflict::Diverged { seq, known, found } => RealmError::Diverged { seq, known, found },
            _ => unreachable!("logs that differ are behind or diverged"),
        })
    }
}

/// What is on the engine's disk.
#[derive(Clone, Debug)]
pub struct Disk {
    pub hosts: Vec<HostRow>,
    pub sessions: Vec<SessionRow>,
}

pub struct Engine {
    pub is_up: bool,
    /// How far its clock is from true time, in microseconds.
    pub clock_offset: i64,
    /// How long a host is alive after a renewal.
    lease: Time,
    pub disk: Disk,
    mistake: Option<Mistake>,
    names: Vec<HostName>,
}

/// How long a request may wait for the owner.
const REQUEST_LASTS: i64 = 30 * SECOND as i64;

impl Engine {
    pub fn new(hosts: usize, sessions: usize, lease: Time, mistake: Option<Mistake>) -> Self {
        let host = HostRow { run: 0, until: i64::MIN };
        let session = SessionRow { owner: None, epoch: 0, log: Vec::new(), requests: Vec::new() };
        Self {
            is_up: true,
            clock_offset: 0,
            lease,
            disk: Disk { hosts: vec![host; hosts], sessions: vec![session; sessions] },
            mistake,
            names: (0..hosts).map(|host| HostName::parse(&format!("h{host}")).unwrap()).collect(),
        }
    }

    fn clock(&self, now: Time) -> i64 {
        now as i64 + self.clock_offset
    }

    fn is_alive(&self, host: usize, now: Time) -> bool {
        self.disk.hosts[host].until > self.clock(now)
    }

    fn owned(&self, session: usize, now: Time) -> Option<Owned> {
        let owner = self.disk.sessions[session].owner?;
        Some(Owned { host: owner.host, is_lost: !self.is_alive(owner.host, now) })
    }

    fn session_id(session: usize) -> edn_bridge::message::SessionId {
        ["s0", "s1", "s2", "s3"][session].into()
    }

    /// Carries a statement out.
    pub fn execute(&mut self, now: Time, from: Who, statement: Statement) -> Result<Reply, RealmError> {
        let is_run = self.disk.hosts[from.host].run == from.run;
        let by_number = self.mistake == Some(Mistake::PlaceByNumber);
        let clock = self.clock(now);
        match statement {
            // A later run takes the place of an earlier one, and never the other way round.
            Statement::Renew if is_run || from.run > self.disk.hosts[from.host].run => {
                self.disk.hosts[from.host] = HostRow { run: from.run, until: clock + self.lease as i64 };
                Ok(Reply::Done)
            }
            Statement::Renew => Err(RealmError::NameTaken { host: self.names[from.host].clone() }),
            Statement::Leave => {
                if is_run {
                    self.disk.hosts[from.host].until = clock;
                }
                Ok(Reply::Done)
            }
            Statement::Read { session, after } => {
                let row = &self.disk.sessions[session];
                if let Some(error) = row.differs(&after, by_number) {
                    return Err(error);
                }
                let is_for = |to: &Who| to.host == from.host;
                Ok(Reply::Page(Page {
                    entries: entries_after(row, &after),
                    tail: row.tail(),
                    owner: self.owned(session, now),
                    requests: row
                        .requests
                        .iter()
                        .filter(|(to, _, expires)| is_for(to) && *expires > clock)
                        .map(|(_, request, _)| *request)
                        .collect(),
                }))
            }
            Statement::Claim { session, known } => {
                if !is_run {
                    return Err(RealmError::NameTaken { host: self.names[from.host].clone() });
                }
                if !self.is_alive(from.host, now) {
                    return Err(RealmError::Unreachable(Arc::from("this host's lease is over")));
                }
                let held = self.owned(session, now).filter(|owned| owned.host != from.host && !owned.is_lost);
                if let Some(owned) = held.filter(|_| self.mistake != Some(Mistake::ClaimOfHeld)) {
                    return Err(RealmError::Held { host: self.names[owned.host].clone() });
                }
                let row = &mut self.disk.sessions[session];
                if let Some(error) = row.differs(&known, by_number) {
                    return Err(error);
                }
                if self.mistake != Some(Mistake::ClaimWithoutEpoch) || row.epoch == 0 {
                    row.epoch += 1;
                }
                row.owner = Some(from);
                Ok(Reply::Claimed(Claim {
                    session: Self::session_id(session),
                    epoch: row.epoch,
                    tail: row.tail(),
                }))
            }
            Statement::Append { session, claim, after, entries } => {
                let is_fenced = self.mistake != Some(Mistake::AppendNotFenced);
                let row = &mut self.disk.sessions[session];
                let counts = row.is_owned(from.host, &claim);
                let tail = row.tail();
                let fits = tail == after || by_number && tail.seq == after.seq;
                if is_fenced && !counts || !fits {
                    return Err(RealmError::InDoubt(Doubt::NoRow));
                }
                if entries.iter().any(|entry| row.log.iter().rev().any(|old| old.entry.id == entry.id)) {
                    return Err(RealmError::Refused(Arc::from("an entry with that id exists")));
                }
                row.log.extend(entries.into_iter().map(|entry| Row { entry, epoch: claim.epoch }));
                Ok(Reply::Appended(row.tail()))
            }
            Statement::Settle { session, claim, known } => {
                let row = &self.disk.sessions[session];
                if !row.is_owned(from.host, &claim) {
                    // An engine that was set back may not know the claim any more. That it lacks entries says more.
                    let lacks = row.differs(&known, by_number);
                    return Err(lacks.unwrap_or(RealmError::Fenced { session: claim.session }));
                }
                Ok(Reply::Done)
            }
            Statement::SettleRead { session, known, most } => {
                let row = &self.disk.sessions[session];
                if let Some(error) = row.differs(&known, by_number) {
                    return Err(error);
                }
                let mut entries = entries_after(row, &known);
                entries.truncate(most);
                Ok(Reply::Page(Page {
                    entries,
                    tail: row.tail(),
                    owner: self.owned(session, now),
                    requests: Vec::new(),
                }))
            }
            Statement::Release { session, claim } => {
                let row = &mut self.disk.sessions[session];
                if row.is_owned(from.host, &claim) {
                    row.owner = None;
                }
                Ok(Reply::Done)
            }
            Statement::HandOver { session, claim, to } => {
                if !self.is_alive(to, now) {
                    return Err(RealmError::NoHost { host: self.names[to].clone() });
                }
                let run = self.disk.hosts[to].run;
                let row = &mut self.disk.sessions[session];
                if !row.is_owned(from.host, &claim) {
                    return Err(RealmError::Fenced { session: claim.session });
                }
                row.owner = Some(Who { host: to, run });
                row.epoch += 1;
                Ok(Reply::Done)
            }
            Statement::Post { session, request } => {
                let lost = |host: usize| RealmError::OwnerLost { host: self.names[host].clone() };
                match self.owned(session, now) {
                    Some(owned) if !owned.is_lost => {}
                    Some(owned) => return Err(lost(owned.host)),
                    None => return Err(lost(from.host)),
                }
                let row = &mut self.disk.sessions[session];
                row.requests.retain(|(_, _, expires)| *expires > clock);
                if let Some(owner) = row.owner
                    && !row.requests.iter().any(|(_, known, _)| known.id == request.id)
                {
                    row.requests.push((owner, request, clock + REQUEST_LASTS));
                }
                Ok(Reply::Done)
            }
            Statement::Answer { session, request } => {
                self.disk.sessions[session].requests.retain(|(_, known, _)| known.id != request);
                Ok(Reply::Done)
            }
        }
    }
}

fn entries_after(row: &SessionRow, after: &Tail) -> Vec<Rc<Entry>> {
    row.log.iter().skip(usize::try_from(after.seq).unwrap()).map(|row| row.entry.clone()).collect()
}
