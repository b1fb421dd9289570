//! What a host does with a session that it owns: it takes wishes of users, runs turns, and appends what comes of them.
//!
//! Everything that is to be appended is an [`Intent`] first. Before each append the log decides which of them are still
//! wanted. The [`Owner`] says when an append may begin and what its answer means; this file makes the calls.

use std::rc::Rc;

use edn_bridge::message::EntryId;
use edn_bridge::realm::rules::{Appended, LeaseStanding, LogConflict, Owner, Settled};
use edn_bridge::realm::{Claim, Doubt, RealmError, Tail};

use super::engine::{Reply, Statement, Wish};
use super::entry::{Entry, Key, What, asks, calls};
use super::host::{Call, Host, Out, Role, Timer, Told};
use super::mistakes::Mistake;
use super::time::{MS, SECOND, Time};
use super::truth::Fact;

/// Who wants an entry to be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Turn,
    User(usize),
    Request(u64),
}

/// Something to append. Its entry, and so its id, is made once.
#[derive(Debug)]
struct Intent {
    entry: Rc<Entry>,
    from: Asker,
    was_sent: bool,
    /// How many looks it has waited for.
    age: u32,
}

/// Where the turn stands, beyond what the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    /// An entry of the turn waits to be appended.
    Queued,
    Thinking {
        call: u64,
    },
    /// The call of a tool is in the log; the tool may start when the lease allows it.
    Ready {
        tool: Key,
    },
    Running {
        tool: Key,
    },
}

pub struct Owning {
    claim: Claim,
    /// How often the lease had been over when the claim was sent.
    pub lapses: u64,
    owner: Owner,
    intents: Vec<Intent>,
    /// The entries of the append that is under way or in doubt.
    sent: Vec<Rc<Entry>>,
    is_appending: bool,
    is_settling: bool,
    work: Work,
    /// The host that is to own the session next.
    giving: Option<usize>,
    is_handing_over: bool,
    /// Mistakes: `sent` was sent a second time without a settle; it is to be sent again as it is.
    was_retried: bool,
    resend: bool,
}

/// How many looks a user's wish waits for the engine before the user is told to try again.
const PATIENCE: u32 = 2;

/// How many entries are appended at once.
const BATCH: usize = 3;

impl Owning {
    pub fn new(claim: &Claim, known: &Tail, lapses: u64) -> Result<Self, LogConflict> {
        Ok(Self {
            owner: Owner::new(claim, known)?,
            claim: claim.clone(),
            lapses,
            intents: Vec::new(),
            sent: Vec::new(),
            is_appending: false,
            is_settling: false,
            work: Work::None,
            giving: None,
            is_handing_over: false,
            was_retried: false,
            resend: false,
        })
    }

    pub fn runs_tool(&self) -> bool {
        matches!(self.work, Work::Running { .. })
    }
}

impl Host {
    pub fn owns_in(&mut self, session: usize, epoch: u64) -> bool {
        self.seats[session].owning().is_some_and(|owning| owning.claim.epoch == epoch)
    }

    fn intend(&mut self, session: usize, what: What, from: Asker) {
        let number = self.number() & 0xff_ffff_ffff;
        let id: EntryId = format!("h{}.{}.{number}", self.who.host, self.who.run).as_str().into();
        if let Some(owning) = self.seats[session].owning() {
            let entry = Rc::new(Entry { id, what });
            owning.intents.push(Intent { entry, from, was_sent: false, age: 0 });
        }
    }

    /// An entry of the turn is to be appended. The turn goes on when all of them are.
    fn queue(&mut self, session: usize, what: What) {
        self.intend(session, what, Asker::Turn);
        if let Some(owning) = self.seats[session].owning() {
            owning.work = Work::Queued;
        }
    }

    /// The first entry of a new owner says who it is.
    pub fn announce(&mut self, session: usize) {
        self.queue(session, What::Owner { host: self.who.host });
    }

    /// What a user wants. A wish with the same key that waits already is the same wish.
    pub fn wish(&mut self, session: usize, wish: Wish, from: Asker, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        let what = match wish {
            Wish::Prompt(key) => What::Prompt(key),
            Wish::Answer(key) if !seat.view.asks_for(key) => return,
            Wish::Answer(key) => What::Answer(key),
        };
        let Some(owning) = seat.owning() else { return };
        if owning.giving.is_some() {
            return;
        }
        if let Some(waiting) = owning.intents.iter_mut().find(|intent| intent.entry.what == what) {
            waiting.from = from;
        } else {
            self.intend(session, what, from);
        }
        self.pump(session, out);
    }

    /// A user wants another host to own the session.
    pub fn give(&mut self, session: usize, to: usize, out: &mut Out<'_>) {
        self.watch_lease(out);
        if let Some(owning) = self.seats[session].owning()
            && to != self.who.host
        {
            owning.giving = Some(to);
            self.pump(session, out);
        }
    }

    /// A user puts the session away.
    pub fn release(&mut self, session: usize, out: &mut Out<'_>) {
        self.watch_lease(out);
        let Some(owning) = self.seats[session].owning() else { return };
        if owning.runs_tool() || owning.is_appending {
            return;
        }
        let claim = owning.claim.clone();
        self.give_up(session, out);
        self.send(Call::Release, Statement::Release { session, claim }, out);
    }

    // ---- the turn

    /// Takes the next step of the turn, if nothing of it is under way.
    pub fn go_on(&mut self, session: usize, out: &mut Out<'_>) {
        let may_start = self.may_start(out);
        let number = self.number();
        let runs_again = self.makes(Mistake::CallRunAgain);
        let seat = &mut self.seats[session];
        let Role::Owning(owning) = &mut seat.role else { return };
        if owning.work != Work::None {
            return self.pump(session, out);
        }
        let Some(front) = seat.view.waiting.front() else { return self.pump(session, out) };
        let (key, has_tool) = (front.key, calls(front.key));
        let is_open = front.is_called && !front.has_result;
        if owning.giving.is_some() && !is_open {
            return self.pump(session, out);
        }
        if asks(key) && !front.is_asked {
            self.queue(session, What::Question(key));
        } else if asks(key) && !front.is_answered {
        } else if has_tool && !front.is_called {
            self.queue(session, What::Call(key));
        } else if is_open && runs_again {
            owning.work = Work::Ready { tool: key };
        } else if is_open {
            // It was not run by this claim, or was ended: it is not known how far it came.
            self.queue(session, What::Result { tool: key, is_interrupted: true });
        } else if front.has_said {
            self.queue(session, What::Ended(key));
        } else if may_start {
            owning.work = Work::Thinking { call: number };
            let epoch = owning.claim.epoch;
            out.facts.push(Fact::ModelCalled { session, epoch });
            let lasts = out.random.between(20 * MS, 2 * SECOND);
            out.timers.push((lasts, Timer::Model { session, epoch, call: number }));
        }
        self.pump(session, out);
    }

    fn may_start(&mut self, out: &Out<'_>) -> bool {
        match self.lease.standing(self.clock(out.now)) {
            LeaseStanding::Held => true,
            LeaseStanding::Margin => self.makes(Mistake::ToolInMargin),
            LeaseStanding::Over => false,
        }
    }

    pub fn model_answered(&mut self, session: usize, epoch: u64, call: u64, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        let key = seat.view.waiting.front().map(|front| front.key);
        let Some(owning) = seat.owning().filter(|owning| owning.claim.epoch == epoch) else { return };
        if let Some(key) = key.filter(|_| owning.work == (Work::Thinking { call })) {
            self.queue(session, What::Said { key, call });
            if call.is_multiple_of(2) {
                // Its last words: they and the end of the turn belong together.
                self.queue(session, What::Ended(key));
            }
            self.pump(session, out);
        }
    }

    fn start_tool(&mut self, session: usize, out: &mut Out<'_>) {
        let may_start = self.may_start(out);
        let Some(owning) = self.seats[session].owning() else { return };
        if let Work::Ready { tool } = owning.work
            && may_start
            && !owning.is_handing_over
        {
            owning.work = Work::Running { tool };
            let epoch = owning.claim.epoch;
            let longest: Time = if out.random.chance(30) { 30 * SECOND } else { 2 * SECOND };
            let lasts = out.random.between(20 * MS, longest);
            out.facts.push(Fact::ToolStarted { session, tool, epoch, lasts });
            out.timers.push((lasts, Timer::Tool { session, epoch, tool }));
        }
    }

    pub fn tool_ended(&mut self, session: usize, epoch: u64, tool: Key, out: &mut Out<'_>) {
        let Some(owning) = self.seats[session].owning() else { return };
        if owning.claim.epoch == epoch && owning.work == (Work::Running { tool }) {
            out.facts.push(Fact::ToolEnded { session, tool });
            self.queue(session, What::Result { tool, is_interrupted: false });
            self.pump(session, out);
        }
    }

    pub fn kill_tool(&mut self, session: usize, out: &mut Out<'_>) {
        if let Some(owning) = self.seats[session].owning()
            && let Work::Running { tool } = owning.work
        {
            owning.work = Work::None;
            out.facts.push(Fact::ToolEnded { session, tool });
        }
    }

    // ---- the log

    /// Does what can be done now: settles a doubt, starts a tool, appends, hands over.
    pub fn pump(&mut self, session: usize, out: &mut Out<'_>) {
        let is_over = self.lease.standing(self.clock(out.now)) == LeaseStanding::Over;
        if is_over && !self.makes(Mistake::ClaimOverLapse) && !self.makes(Mistake::NoKillAtEnd) {
            return;
        }
        self.start_tool(session, out);
        let Some(owning) = self.seats[session].owning() else { return };
        if owning.owner.is_in_doubt() {
            return self.settle_if_free(session, out);
        }
        let is_free = !owning.is_appending && !owning.is_handing_over;
        let is_free = is_free && (!owning.is_settling || self.makes(Mistake::AppendDuringSettle));
        if is_free {
            self.decide(session, out);
            self.append(session, out);
            self.hand_over(session, out);
        }
    }

    /// Drops the intents that the log has made needless.
    fn decide(&mut self, session: usize, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        let Role::Owning(owning) = &mut seat.role else { return };
        if owning.resend {
            return;
        }
        let intents = std::mem::take(&mut owning.intents);
        let (done, open): (Vec<Intent>, Vec<Intent>) =
            intents.into_iter().partition(|intent| seat.view.has(&intent.entry));
        owning.intents = open;
        self.done(session, done, out);
    }

    /// Intents that the log has now.
    fn done(&mut self, session: usize, done: Vec<Intent>, out: &mut Out<'_>) {
        let is_any = !done.is_empty();
        for Intent { entry, from, .. } in done {
            match from {
                Asker::User(user) => out.tells.push((user, Told::Accepted)),
                Asker::Request(request) => {
                    self.send(Call::Other, Statement::Answer { session, request }, out);
                }
                Asker::Turn => {
                    if let Some(owning) = self.seats[session].owning() {
                        let is_last = !owning.intents.iter().any(|intent| intent.from == Asker::Turn);
                        owning.work = match entry.what {
                            What::Call(tool) => Work::Ready { tool },
                            _ if is_last => Work::None,
                            _ => Work::Queued,
                        };
                    }
                }
            }
        }
        if is_any {
            self.go_on(session, out);
        }
    }

    fn append(&mut self, session: usize, out: &mut Out<'_>) {
        let renames = self.makes(Mistake::NewIdsOnRetry);
        let number = self.number();
        let seat = &mut self.seats[session];
        let Role::Owning(owning) = &mut seat.role else { return };
        if owning.is_appending || owning.intents.is_empty() {
            return;
        }
        if !std::mem::take(&mut owning.resend) {
            for (place, intent) in owning.intents.iter_mut().take(BATCH).enumerate() {
                if renames && intent.was_sent {
                    let id = format!("{}.{number}{place}", intent.entry.id).as_str().into();
                    intent.entry = Rc::new(Entry { id, what: intent.entry.what });
                }
                intent.was_sent = true;
            }
            owning.sent = owning.intents.iter().take(BATCH).map(|intent| intent.entry.clone()).collect();
        }
        let entries = owning.sent.clone();
        let Ok(after) = owning.owner.begin(entries.iter().map(|entry| entry.id.clone()).collect()) else {
            return;
        };
        owning.is_appending = true;
        let claim = owning.claim.clone();
        self.send(
            Call::Append { session, epoch: claim.epoch },
            Statement::Append { session, claim, after, entries },
            out,
        );
    }

    pub fn appended(&mut self, session: usize, answer: Result<Reply, RealmError>, out: &mut Out<'_>) {
        let retries = self.makes(Mistake::RetryWithoutSettle);
        let Some(owning) = self.seats[session].owning() else { return };
        owning.is_appending = false;
        let before = owning.owner.tail().seq;
        let verdict = match &answer {
            Ok(Reply::Appended(tail)) => owning.owner.appended(Ok(tail)),
            Ok(_) => return,
            Err(error) => owning.owner.appended(Err(error)),
        };
        match verdict {
            Appended::Acknowledge => self.acknowledge(session, before + 1, out),
            // Tried again at the next look.
            Appended::Refuse => owning.sent.clear(),
            Appended::Settle if retries => {
                self.retry_without_settle(
                    session,
                    matches!(answer, Err(RealmError::InDoubt(Doubt::NoRow))),
                    out,
                );
            }
            Appended::Settle => self.settle_if_free(session, out),
            Appended::Stop(stop) => self.stop_owning(session, stop, out),
        }
    }

    /// Keeps and acknowledges `sent`, whose first entry has that number.
    fn acknowledge(&mut self, session: usize, first: u64, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        let Role::Owning(owning) = &mut seat.role else { return };
        owning.was_retried = false;
        let entries = std::mem::take(&mut owning.sent);
        let intents = std::mem::take(&mut owning.intents);
        let is_saved = |intent: &Intent| entries.iter().any(|entry| entry.id == intent.entry.id);
        let (done, open) = intents.into_iter().partition(is_saved);
        owning.intents = open;
        let page = super::engine::Page {
            entries: entries.clone(),
            tail: Tail::default(),
            owner: None,
            requests: Vec::new(),
        };
        out.facts.push(Fact::Acknowledged { session, first, entries, set_backs: out.set_backs });
        self.take_in(session, first - 1, &page, out);
        self.done(session, done, out);
        self.pump(session, out);
    }

    pub fn settle_if_free(&mut self, session: usize, out: &mut Out<'_>) {
        let Some(owning) = self.seats[session].owning() else { return };
        if owning.is_settling || owning.is_appending && !self.makes(Mistake::AppendDuringSettle) {
            return;
        }
        let Some(owning) = self.seats[session].owning() else { return };
        owning.is_settling = true;
        let (claim, known) = (owning.claim.clone(), owning.owner.tail().clone());
        self.send(
            Call::Settle { session, epoch: claim.epoch, asked: known.clone() },
            Statement::Settle { session, claim, known },
            out,
        );
    }

    pub fn settled(
        &mut self,
        session: usize,
        asked: &Tail,
        answer: Result<Reply, RealmError>,
        out: &mut Out<'_>,
    ) {
        let is_stubborn = self.makes(Mistake::NoNewDecision);
        // Both take any answer for one to the newest question.
        let is_careless = self.makes(Mistake::AnswerOfOldClaim) || self.makes(Mistake::AppendDuringSettle);
        let Some(owning) = self.seats[session].owning() else { return };
        owning.is_settling = false;
        let before = owning.owner.tail().seq;
        let asked = if is_careless { owning.owner.tail().clone() } else { asked.clone() };
        let (verdict, page) = match answer {
            Ok(Reply::Page(page)) => {
                let ids: Vec<EntryId> = page.entries.iter().map(|entry| entry.id.clone()).collect();
                (owning.owner.settled(&asked, Ok(&ids)), Some(page))
            }
            Ok(_) => return,
            Err(error) => (owning.owner.settled(&asked, Err(&error)), None),
        };
        match verdict {
            Settled::Again => {}
            Settled::Stop(stop) => self.stop_owning(session, stop, out),
            Settled::Acknowledge | Settled::DecideAnew | Settled::Level => {
                let page = page.unwrap();
                if verdict != Settled::Level {
                    out.facts.push(Fact::Settled { is_saved: verdict == Settled::Acknowledge });
                }
                owning.resend = verdict == Settled::DecideAnew && is_stubborn && !owning.sent.is_empty();
                let saved = owning.sent.first().filter(|_| verdict == Settled::Acknowledge);
                let saved = saved.and_then(|sent| page.entries.iter().position(|entry| entry.id == sent.id));
                if let Some(place) = saved {
                    let entries = std::mem::take(&mut owning.sent);
                    let first = before + 1 + place as u64;
                    out.facts.push(Fact::Acknowledged { session, first, entries, set_backs: out.set_backs });
                }
                self.take_in(session, before, &page, out);
                self.pump(session, out);
            }
        }
    }

    /// Something says that the log has that many entries.
    pub fn owner_heard(&mut self, session: usize, seq: u64, out: &mut Out<'_>) {
        let trusts = self.makes(Mistake::HintAsAnswer);
        if self.makes(Mistake::OwnerDoesNotWatch) {
            return;
        }
        let Some(owning) = self.seats[session].owning() else { return };
        let before = owning.owner.tail().seq;
        if trusts
            && owning.owner.is_in_doubt()
            && seq >= before + owning.sent.len() as u64
            && !owning.sent.is_empty()
        {
            return self.assume_saved(session, out);
        }
        if owning.owner.heard(seq) {
            self.settle_if_free(session, out);
        }
    }

    fn stop_owning(&mut self, session: usize, stop: LogConflict, out: &mut Out<'_>) {
        if stop == LogConflict::Fenced {
            out.facts.push(Fact::Lost { is_fenced: true });
            self.give_up(session, out);
            self.read(session, out);
        } else {
            self.lacks(session, stop, out);
        }
    }

    /// Wishes that have waited for too long: their users are to try again. What is under way may be carried out all the
    /// same.
    pub fn age(&mut self, session: usize) {
        if let Some(owning) = self.seats[session].owning() {
            owning.intents.iter_mut().for_each(|intent| intent.age += 1);
            owning.intents.retain(|intent| intent.from == Asker::Turn || intent.age < PATIENCE);
        }
    }

    /// Whether an append that was given up may still be carried out.
    pub fn has_open_doubt(&mut self, session: usize) -> bool {
        let always = self.makes(Mistake::AppendDuringSettle);
        self.seats[session].owning().is_some_and(|owning| owning.owner.has_open_doubt() || always)
    }

    // ---- hand-over

    fn hand_over(&mut self, session: usize, out: &mut Out<'_>) {
        let seat = &mut self.seats[session];
        let Role::Owning(owning) = &mut seat.role else { return };
        let is_boundary = owning.work == Work::None && owning.intents.is_empty() && !owning.is_appending;
        let Some(to) = owning.giving.filter(|_| is_boundary && !owning.is_handing_over) else { return };
        owning.is_handing_over = true;
        let claim = owning.claim.clone();
        self.send(
            Call::HandOver { session, epoch: claim.epoch },
            Statement::HandOver { session, claim, to },
            out,
        );
    }

    pub fn handed_over(&mut self, session: usize, answer: Result<Reply, RealmError>, out: &mut Out<'_>) {
        let goes_on = self.makes(Mistake::GoOnAfterHandOver);
        let Some(owning) = self.seats[session].owning() else { return };
        match answer {
            Err(RealmError::NoHost { .. } | RealmError::Unreachable(_)) => {}
            Err(RealmError::InDoubt(_)) if goes_on => {}
            // Without an answer it may still be carried out, at any time. Only another claim makes that impossible: this
            // host makes one if it reads that it is still the owner.
            _ => return self.give_up(session, out),
        }
        owning.is_handing_over = false;
        owning.giving = None;
        self.go_on(session, out);
    }

    // ---- mistakes

    /// Sends it again at once. If the second one finds no row, the first one must have been carried out.
    fn retry_without_settle(&mut self, session: usize, no_row: bool, out: &mut Out<'_>) {
        let Some(owning) = self.seats[session].owning() else { return };
        if no_row && owning.was_retried {
            return self.assume_saved(session, out);
        }
        owning.was_retried = true;
        let claim = Claim { tail: owning.owner.tail().clone(), ..owning.claim.clone() };
        owning.owner = Owner::new(&claim, &claim.tail).unwrap();
        owning.resend = true;
        self.append(session, out);
    }

    /// Takes what was sent for saved, without having looked.
    fn assume_saved(&mut self, session: usize, out: &mut Out<'_>) {
        let Some(owning) = self.seats[session].owning() else { return };
        let tail = owning.owner.tail().clone();
        let after = tail.after(owning.sent.iter().map(|entry| &entry.id));
        let claim = Claim { tail: after.clone(), ..owning.claim.clone() };
        owning.owner = Owner::new(&claim, &after).unwrap();
        self.acknowledge(session, tail.seq + 1, out);
    }
}
