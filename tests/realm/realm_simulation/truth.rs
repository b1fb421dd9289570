//! The invariants. The truth knows what nobody in the simulation can know: true time, the engine's disk, every host.
//!
//! It is told of each thing that a host does ([`Fact`]) and each statement that the engine carries out, and keeps the first
//! violation.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use edn_bridge::realm::rules::{LeaseTerms, LogConflict};
use edn_bridge::realm::{Claim, Tail};

use super::engine::{Disk, SessionRow, Who};
use super::entry::{Entry, Key, What};
use super::host::Host;
use super::time::{MS, SECOND, Time, show};

/// What a host did.
#[derive(Debug)]
pub enum Fact {
    /// It told somebody that entries are saved, the first with that number. `set_backs`: how often the engine had been set
    /// back when the engine said so.
    Acknowledged { session: usize, first: u64, entries: Vec<Rc<Entry>>, set_backs: u32 },
    /// It put an entry into its copy, after another one.
    Kept { session: usize, seq: u64, before: Option<Rc<Entry>>, entry: Rc<Entry>, set_backs: u32 },
    /// It started a tool with effects.
    ToolStarted { session: usize, tool: Key, epoch: u64, lasts: Time },
    /// It called the model.
    ModelCalled { session: usize, epoch: u64 },
    /// A tool has ended, or the host has ended it.
    ToolEnded { session: usize, tool: Key },
    /// A doubt has ended.
    Settled { is_saved: bool },
    /// It owns a session no more, because somebody else does, or because its lease was over.
    Lost { is_fenced: bool },
    /// It found that the engine lacks what it knows, and said so.
    SaidStopped { session: usize, stop: LogConflict },
}

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub kind: Kind,
    pub at: Time,
    pub what: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An entry that was acknowledged is not in the log.
    AcknowledgedLost,
    /// An entry, a prompt's key, an answer, a call or words of the model stand in the log twice.
    Twice,
    /// The engine accepted an append that it should not have accepted.
    Unfenced,
    /// An epoch was given to two owners, or fell along the log.
    Epoch,
    /// An append was carried out in parts.
    Parts,
    /// A copy is not the beginning of the log.
    Copy,
    /// A host wrote that knows of entries which the engine lacks.
    WroteAfterSetBack,
    /// A host whose copy differs from the log of an engine that was set back did not say so.
    Silent,
    /// A host said that the engine lacks something, and it does not.
    FalseStop,
    /// A tool ran a second time.
    ToolTwice,
    /// A tool or a call of the model started although its host's lease was over or nearly so, or somebody else owned the
    /// session.
    TooLate,
    /// A tool went on for too long after somebody else had taken the session.
    ToolTooLong,
    /// A session was handed over or given up while a tool ran.
    ToolAtHandOver,
    /// A prompt had no answer long after the last fault.
    NoAnswer,
}

struct Tool {
    who: Who,
    session: usize,
    epoch: u64,
    /// What its machine's awake time was when somebody else took the session.
    lost_at: Option<Time>,
    /// The awake time at its end, if it is not ended before.
    ends: Time,
    /// Its host's process was stopped alone, so that nobody could end it.
    is_unwatched: bool,
}

/// What a host's process is known to have been told of a session.
#[derive(Clone, Default)]
struct Known(Tail);

pub struct Truth {
    terms: LeaseTerms,
    pub violation: Option<Violation>,
    /// How often the engine was set back to an older state.
    pub set_backs: u32,
    sessions: Vec<SessionTruth>,
    tools: HashMap<(usize, Key), Tool>,
    started: HashSet<(usize, Key)>,
    /// When the engine carried out the last renewal of each run, in true time.
    renewed: HashMap<Who, Time>,
    /// When the engine's clock last jumped forward.
    jumped: Option<Time>,
    /// Hosts of which nothing is promised about tools: their clocks stood still without their knowing.
    unpromised: HashSet<usize>,
    known: HashMap<(usize, usize), Known>,
    pub counts: Counts,
}

/// How often something happened, so that a test sees whether what it wants to try is tried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub prompts_answered: u64,
    pub entries_acknowledged: u64,
    pub claims: u64,
    pub tools_started: u64,
    /// Appends for which the engine found no row.
    pub no_rows: u64,
    /// Appends that were carried out when nobody waited for their answers any more.
    pub late_appends: u64,
    /// Doubts that ended with what was in doubt in the log, and without it.
    pub found_saved: u64,
    pub decided_anew: u64,
    /// Owners that stopped because somebody else owned the session.
    pub fenced: u64,
    /// Sessions that an owner dropped because its lease was over.
    pub lapses: u64,
    /// Hosts that said that the engine was set back.
    pub said_stopped: u64,
    /// Runs of a host that found their names taken by an earlier run of the same host.
    pub locked_out: u64,
    /// The longest time for which a tool ran on although another host had taken the session.
    pub longest_window: Time,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.prompts_answered += other.prompts_answered;
        self.entries_acknowledged += other.entries_acknowledged;
        self.claims += other.claims;
        self.tools_started += other.tools_started;
        self.no_rows += other.no_rows;
        self.late_appends += other.late_appends;
        self.found_saved += other.found_saved;
        self.decided_anew += other.decided_anew;
        self.fenced += other.fenced;
        self.lapses += other.lapses;
        self.said_stopped += other.said_stopped;
        self.locked_out += other.locked_out;
        self.longest_window = self.longest_window.max(other.longest_window);
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { prompts_answered, entries_acknowledged, claims, tools_started, .. } = self;
        write!(f, "{prompts_answered} prompts answered, {entries_acknowledged} entries acknowledged, ")?;
        write!(f, "{claims} claims, {tools_started} tools; {} appends without a row, ", self.no_rows)?;
        write!(
            f,
            "{} carried out late; doubts: {} saved, {} decided anew; ",
            self.late_appends, self.found_saved, self.decided_anew
        )?;
        write!(
            f,
            "owners that stopped: {} fenced, {} by their leases, {} set back; ",
            self.fenced, self.lapses, self.said_stopped
        )?;
        write!(
            f,
            "{} names taken by an earlier run; longest window of a tool {} s",
            self.locked_out,
            show(self.longest_window)
        )
    }
}

#[derive(Default)]
struct SessionTruth {
    owners: HashMap<u64, Who>,
    contents: HashSet<What>,
    ids: HashSet<edn_bridge::message::EntryId>,
}

/// How late after a lease's end a host may notice it: its look at the clock once a second, and what its clock is wrong by.
const NOTICES: Time = SECOND + 200 * MS;

/// What two clocks may differ by during a lease.
const SLACK: Time = 20 * MS;

impl Truth {
    pub fn new(terms: LeaseTerms, sessions: usize) -> Self {
        Self {
            terms,
            violation: None,
            set_backs: 0,
            sessions: (0..sessions).map(|_| SessionTruth::default()).collect(),
            tools: HashMap::new(),
            started: HashSet::new(),
            renewed: HashMap::new(),
            jumped: None,
            unpromised: HashSet::new(),
            known: HashMap::new(),
            counts: Counts::default(),
        }
    }

    pub fn violate(&mut self, kind: Kind, at: Time, what: String) {
        self.violation.get_or_insert(Violation { kind, at, what });
    }

    // ---- what the engine carried out

    pub fn renewed(&mut self, now: Time, who: Who) {
        self.renewed.insert(who, now);
    }

    pub fn claimed(
        &mut self,
        now: Time,
        who: Who,
        session: usize,
        claim: &Claim,
        awake: impl Fn(usize) -> Time,
    ) {
        self.counts.claims += 1;
        if let Some(other) = self.sessions[session].owners.insert(claim.epoch, who)
            && other != who
        {
            self.violate(
                Kind::Epoch,
                now,
                format!("epoch {} of s{session} has two owners: {other:?}, {who:?}", claim.epoch),
            );
        }
        for tool in self.tools.values_mut().filter(|tool| tool.session == session && tool.who != who) {
            tool.lost_at.get_or_insert(awake(tool.who.host));
        }
    }

    /// An append that the engine accepted. `was` is the row before it.
    #[allow(clippy::too_many_arguments, reason = "the whole statement and its effect")]
    pub fn appended(
        &mut self,
        now: Time,
        who: Who,
        session: usize,
        claim: &Claim,
        entries: &[Rc<Entry>],
        length_before: usize,
        row: &SessionRow,
        set_backs: u32,
    ) {
        if row.owner.is_none_or(|owner| owner.host != who.host) || row.epoch != claim.epoch {
            let what = format!(
                "s{session}: {who:?} appended in epoch {}, {:?} owns it in {}",
                claim.epoch, row.owner, row.epoch
            );
            self.violate(Kind::Unfenced, now, what);
        }
        if row.log.len() != length_before + entries.len() {
            self.violate(
                Kind::Parts,
                now,
                format!("s{session}: {} of {} entries", row.log.len() - length_before, entries.len()),
            );
        }
        if length_before > 0 && row.log[length_before - 1].epoch > claim.epoch {
            self.violate(Kind::Epoch, now, format!("s{session}: epoch {} follows a higher one", claim.epoch));
        }
        let truth = &mut self.sessions[session];
        let mut twice = None;
        for row in &row.log[length_before..] {
            let is_new = said_once(row.entry.what).is_none_or(|what| truth.contents.insert(what));
            if !truth.ids.insert(row.entry.id.clone()) || !is_new {
                twice = Some(format!("s{session}: {} {:?}", row.entry.id, row.entry.what));
            }
        }
        if let Some(what) = twice {
            self.violate(Kind::Twice, now, what);
        }
        // A statement that was sent before the engine was set back cannot know of it.
        if set_backs == self.set_backs && self.set_backs > 0 {
            let Known(known) = self.known.entry((who.host, session)).or_default().clone();
            let at = row.at(known.seq).map(|row| &row.entry.id);
            if known.seq as usize > length_before || known.seq > 0 && at != known.id.as_ref() {
                self.violate(
                    Kind::WroteAfterSetBack,
                    now,
                    format!("s{session}: h{} knows of {known}", who.host),
                );
            }
        }
    }

    /// The engine has taken a session from its owner, who had asked for that.
    pub fn given_up(&mut self, now: Time, who: Who, session: usize) {
        if let Some((_, tool)) =
            self.tools.iter().find(|((of, _), tool)| *of == session && tool.who == who).map(|(id, _)| *id)
        {
            self.violate(Kind::ToolAtHandOver, now, format!("s{session}: tool {tool} runs on h{}", who.host));
        }
    }

    pub fn jumped_forward(&mut self, now: Time) {
        self.jumped = Some(now);
    }

    /// The engine has an older state.
    pub fn set_back(&mut self, now: Time, disk: &Disk, awake: impl Fn(usize) -> Time) {
        self.set_backs += 1;
        // Leases are older too, which is what a jump of the clock does.
        self.jumped = Some(now);
        // Whoever owned a session in the older state owns it again, and whoever has claimed it since does not.
        for tool in self.tools.values_mut() {
            let owner = disk.sessions[tool.session].owner;
            if owner.is_some_and(|owner| owner.host == tool.who.host) {
                tool.lost_at = None;
            } else {
                tool.lost_at.get_or_insert(awake(tool.who.host));
            }
        }
        // A tool whose call is lost may run again.
        let has_call = |(session, tool): &(usize, Key)| {
            disk.sessions[*session].log.iter().any(|row| row.entry.what == What::Call(*tool))
        };
        self.started.retain(has_call);
        for (truth, row) in self.sessions.iter_mut().zip(&disk.sessions) {
            truth.owners.retain(|epoch, _| *epoch <= row.epoch);
            truth.ids = row.log.iter().map(|row| row.entry.id.clone()).collect();
            truth.contents = row.log.iter().filter_map(|row| said_once(row.entry.what)).collect();
        }
    }

    // ---- what hosts do

    /// A host does not see that its clock stands still, so nothing is promised about its tools from now on.
    pub fn frozen(&mut self, host: usize) {
        self.unpromised.insert(host);
    }

    /// A host's process stands still, but its tools do not. Nobody ends them in time.
    pub fn stopped(&mut self, host: usize) {
        self.tools
            .values_mut()
            .filter(|tool| tool.who.host == host)
            .for_each(|tool| tool.is_unwatched = true);
    }

    /// A host's process is gone, and its tools with it. `tail` is what its disk has of each session.
    pub fn crashed(&mut self, now: Time, host: usize, awake: Time, tails: &[Tail]) {
        let ended: Vec<(usize, Key)> =
            self.tools.iter().filter(|(_, tool)| tool.who.host == host).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|(session, tool)| self.tool_ended(now, session, tool, awake));
        for (session, tail) in tails.iter().enumerate() {
            self.known.insert((host, session), Known(tail.clone()));
        }
    }

    /// `awake` is how long the host's machine has been awake.
    pub fn take(&mut self, now: Time, who: Who, awake: Time, disk: &Disk, fact: Fact) {
        match fact {
            Fact::Acknowledged { session, first, entries, set_backs } => {
                self.counts.entries_acknowledged += entries.len() as u64;
                let row = &disk.sessions[session];
                // What was acknowledged before the engine was set back may be lost.
                if set_backs == self.set_backs {
                    for (seq, entry) in (first..).zip(&entries) {
                        if row.at(seq).is_none_or(|row| row.entry.id != entry.id) {
                            let what = format!(
                                "s{session}: {who:?} says that {} {:?} is at {seq}",
                                entry.id, entry.what
                            );
                            self.violate(Kind::AcknowledgedLost, now, what);
                        }
                    }
                }
            }
            Fact::Kept { session, seq, before, entry, set_backs } => {
                let known = &mut self.known.entry((who.host, session)).or_default().0;
                // What a copy that began anew reads again adds nothing to what the host has known.
                let follows = seq <= known.seq + 1;
                if seq > known.seq {
                    *known = Tail::at(seq, entry.id.clone());
                }
                let log = &disk.sessions[session];
                let is_at = |seq, entry: &Entry| log.at(seq).is_some_and(|row| row.entry.id == entry.id);
                let is_there = is_at(seq, &entry) && before.is_none_or(|before| is_at(seq - 1, &before));
                if set_backs == self.set_backs && !(is_there && follows) {
                    self.violate(
                        Kind::Copy,
                        now,
                        format!("s{session}: h{} has {} at {seq}", who.host, entry.id),
                    );
                }
            }
            Fact::ToolStarted { session, tool, epoch, lasts } => {
                self.counts.tools_started += 1;
                // An engine that was set back just now may have lost the call, which another host then makes again.
                let log = &disk.sessions[session].log;
                let has_call = log.iter().rev().any(|row| row.entry.what == What::Call(tool));
                let counts = self.set_backs == 0 || has_call;
                if counts && !self.started.insert((session, tool)) {
                    self.violate(Kind::ToolTwice, now, format!("s{session}: tool {tool} on h{}", who.host));
                }
                let lost = self.may_start(
                    now,
                    who,
                    session,
                    &format!("tool {tool}"),
                    epoch,
                    &disk.sessions[session],
                );
                let lost_at = lost.then_some(awake);
                self.tools.insert(
                    (session, tool),
                    Tool { who, session, epoch, lost_at, ends: awake + lasts, is_unwatched: false },
                );
            }
            Fact::ModelCalled { session, epoch } => {
                self.may_start(now, who, session, "the model", epoch, &disk.sessions[session]);
            }
            Fact::ToolEnded { session, tool } => self.tool_ended(now, session, tool, awake),
            Fact::Settled { is_saved: true } => self.counts.found_saved += 1,
            Fact::Settled { is_saved: false } => self.counts.decided_anew += 1,
            Fact::Lost { is_fenced: true } => self.counts.fenced += 1,
            Fact::Lost { is_fenced: false } => self.counts.lapses += 1,
            Fact::SaidStopped { session, stop } => {
                self.counts.said_stopped += 1;
                if self.set_backs == 0 {
                    self.violate(Kind::FalseStop, now, format!("s{session}: h{} says {stop:?}", who.host));
                }
            }
        }
    }

    /// Checks a start. Returns whether somebody else owns the session already.
    fn may_start(
        &mut self,
        now: Time,
        who: Who,
        session: usize,
        what: &str,
        epoch: u64,
        row: &SessionRow,
    ) -> bool {
        let lost = row.owner != Some(who)
            || row.epoch != epoch && self.sessions[session].owners.get(&row.epoch) != Some(&who);
        if self.unpromised.contains(&who.host) {
            return lost;
        }
        let renewed = self.renewed.get(&who).copied().unwrap_or(0);
        let last = renewed + micros(self.terms.lease - self.terms.margin) + SLACK;
        if now > last {
            let what = format!(
                "s{session}: h{} starts {what}, its lease allowed that until {}",
                who.host,
                show(last)
            );
            self.violate(Kind::TooLate, now, what);
        }
        if lost && self.jumped.is_none() {
            let what = format!(
                "s{session}: h{} starts {what} of epoch {epoch}, {:?} owns it in {}",
                who.host, row.owner, row.epoch
            );
            self.violate(Kind::TooLate, now, what);
        }
        lost
    }

    /// A tool has ended. `awake` is its machine's awake time.
    pub fn tool_ended(&mut self, now: Time, session: usize, tool: Key, awake: Time) {
        let Some(ended) = self.tools.remove(&(session, tool)) else { return };
        let Some(lost_at) = ended.lost_at else { return };
        if ended.is_unwatched || self.unpromised.contains(&ended.who.host) {
            return;
        }
        let window = awake.min(ended.ends).saturating_sub(lost_at);
        self.counts.longest_window = self.counts.longest_window.max(window);
        // The engine's clock may have taken the lease for over when it was not; the host cannot know that.
        let most = if self.jumped.is_some() { micros(self.terms.lease) + SLACK } else { 0 } + NOTICES;
        if window > most {
            let what = format!(
                "s{session}: tool {tool} of epoch {} on h{} went on for {} s after another host had taken the session",
                ended.epoch,
                ended.who.host,
                show(window)
            );
            self.violate(Kind::ToolTooLong, now, what);
        }
    }

    /// At the end: each copy must be the beginning of the log, entry by entry, or its host must have said that it is not.
    pub fn copies_are_whole(&mut self, now: Time, disk: &Disk, host: &Host) {
        for (session, (seat, row)) in host.seats.iter().zip(&disk.sessions).enumerate() {
            let same = seat.log.iter().zip(&row.log).filter(|(copy, row)| copy.id == row.entry.id).count();
            if same != seat.log.len() && seat.stopped.is_none() {
                let kind = if self.set_backs == 0 { Kind::Copy } else { Kind::Silent };
                let what = format!(
                    "s{session}: h{} has {} entries, {same} as in the log",
                    host.who.host,
                    seat.log.len()
                );
                self.violate(kind, now, what);
            }
        }
    }
}

/// What may stand in a log once. An interrupted result takes the place of the other one.
fn said_once(what: What) -> Option<What> {
    match what {
        What::Owner { .. } => None,
        What::Result { tool, .. } => Some(What::Result { tool, is_interrupted: false }),
        other => Some(other),
    }
}

pub fn micros(duration: std::time::Duration) -> Time {
    duration.as_micros() as Time
}
