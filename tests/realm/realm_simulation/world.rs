//! The world of a run: the queue of events in the order of true time, the power of the hosts, the users. It carries out a
//! [`Plan`] and stops at the first violation. The way to the engine is in `network.rs`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use edn_bridge::realm::{Doubt, RealmError, Tail};

use super::engine::{Disk, Engine, Reply, Statement, Who};
use super::host::{CallId, Host, Out, Timer, Told};
use super::mistakes::Mistake;
use super::plan::{Act, Kill, Plan};
use super::random::Random;
use super::time::{Clocks, MS, Reads, SECOND, Time, show};
use super::trace;
use super::truth::{Counts, Kind, Truth, Violation, micros};
use super::users::User;

/// Something that happens.
pub enum Event {
    /// A statement comes to the engine.
    Comes(Message),
    /// An answer comes to a host.
    Answer {
        to: Who,
        call: CallId,
        answer: Result<Reply, RealmError>,
        set_backs: u32,
    },
    /// A call has waited for long enough.
    GiveUp {
        to: Who,
        call: CallId,
    },
    Hint {
        host: usize,
        session: usize,
        seq: u64,
    },
    /// `at` is what the monotonic clock of the host shows then.
    Timer {
        to: Who,
        at: Time,
        timer: Timer,
    },
    User(usize),
    Act(usize),
    /// A host or the engine goes on.
    Back(Back),
}

#[derive(Clone, Copy)]
pub enum Back {
    Host(usize),
    Engine,
}

pub struct Message {
    pub from: Who,
    pub call: CallId,
    pub statement: Statement,
    pub set_backs: u32,
}

/// What a machine does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Power {
    On,
    /// Since when.
    Stopped,
    Asleep(Time),
    Frozen(Time),
    Off,
}

/// A host, its power and its line to the engine.
pub struct Machine {
    pub host: Host,
    pub power: Power,
    /// What comes while it does not run.
    pub pending: Vec<Event>,
    pub dies_at_answer: Option<Time>,
    pub cut_until: Time,
    pub refused_until: Time,
    pub late: (Time, Time),
    pub slow: (Time, Time),
    pub hints_until: Time,
}

pub struct World<'a> {
    pub plan: &'a Plan,
    pub now: Time,
    pub random: Random,
    pub queue: BinaryHeap<Reverse<(Time, u64)>>,
    pub events: Vec<Option<Event>>,
    pub free: Vec<usize>,
    pub order: u64,
    pub engine: Engine,
    pub engine_dies: Option<(Kill, Time)>,
    pub replica: Option<Disk>,
    pub unsynced: Option<Disk>,
    pub machines: Vec<Machine>,
    pub users: Vec<User>,
    pub truth: Truth,
    pub mistake: Option<Mistake>,
    pub steps: u64,
    pub trace: Option<Vec<String>>,
}

/// What came of a run.
pub struct Outcome {
    pub violation: Option<Violation>,
    pub steps: u64,
    pub counts: Counts,
    pub trace: Vec<String>,
}

/// How long after the last fault the last prompt must be answered: time to notice and to take over, a turn's longest time
/// for each prompt, and what the engine's clock was put back by, since nobody can take a session before a dead owner's
/// lease is over by that clock.
fn patience(plan: &Plan) -> Time {
    let back = |act: &Act| if let Act::SetEngineClock { by } = act { by.unsigned_abs() } else { 0 };
    if plan.acts.iter().any(|(_, act)| matches!(act, Act::FailOver)) {
        // Not each prompt is answered then.
        return 60 * SECOND;
    }
    let prompts: u64 = plan.users.iter().map(|user| user.prompts).sum();
    100 * SECOND + prompts * 40 * SECOND + plan.acts.iter().map(|(_, act)| back(act)).sum::<Time>()
}

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan, mistake: Option<Mistake>, is_traced: bool) -> Self {
        let mut random = Random::new(plan.seed);
        let machines = (0..plan.hosts).map(|host| {
            let drift = random.below(401) as i64 - 200;
            let clocks = Clocks { drift, slept: 0, frozen: 0, set: 0 };
            let logs = vec![Vec::new(); plan.sessions];
            Machine {
                host: Host::new(Who { host, run: 1 }, clocks, logs, plan.terms, mistake),
                power: Power::On,
                pending: Vec::new(),
                dies_at_answer: None,
                cut_until: 0,
                refused_until: 0,
                late: (0, 0),
                slow: (0, 0),
                hints_until: 0,
            }
        });
        let machines = machines.collect();
        let users =
            plan.users.iter().enumerate().map(|(number, user)| User::new(number, user, plan)).collect();
        Self {
            plan,
            now: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            order: 0,
            engine: Engine::new(plan.hosts, plan.sessions, micros(plan.terms.lease), mistake),
            engine_dies: None,
            replica: None,
            unsynced: None,
            machines,
            users,
            truth: Truth::new(plan.terms, plan.sessions),
            mistake,
            random,
            steps: 0,
            trace: is_traced.then(Vec::new),
        }
    }

    /// Runs until every prompt has its answer after the last fault, or something is violated.
    pub fn run(mut self) -> Outcome {
        for host in 0..self.plan.hosts {
            self.with_host(host, 0, |host, out| host.start(out));
        }
        for user in 0..self.users.len() {
            self.after(self.users[user].first, Event::User(user));
        }
        for act in 0..self.plan.acts.len() {
            self.at(self.plan.acts[act].0, Event::Act(act));
        }
        let until = self.plan.calm_at + patience(self.plan);
        while let Some(Reverse((at, order))) = self.queue.pop() {
            self.now = at;
            let place = (order & 0xff_ffff) as usize;
            let event = self.events[place].take();
            self.free.push(place);
            if let Some(event) = event {
                self.happen(event);
            }
            if self.truth.violation.is_some() {
                break;
            }
            if self.truth.set_backs == 0
                && self.now > self.plan.calm_at
                && self.users.iter().all(|user| user.is_done())
            {
                break;
            }
            if self.now > until {
                self.complain();
                break;
            }
        }
        self.end()
    }

    fn end(mut self) -> Outcome {
        for machine in self.machines.iter().filter(|machine| machine.power == Power::On) {
            self.truth.copies_are_whole(self.now, &self.engine.disk, &machine.host);
        }
        self.truth.counts.prompts_answered = self.users.iter().map(|user| user.done).sum();
        let Truth { violation, counts, .. } = self.truth;
        Outcome { violation, steps: self.steps, counts, trace: self.trace.unwrap_or_default() }
    }

    /// Prompts without an answer. What an engine that was set back has lost, nobody answers.
    fn complain(&mut self) {
        if self.truth.set_backs == 0 {
            let open: Vec<String> =
                self.users.iter().filter(|user| !user.is_done()).map(User::to_string).collect();
            self.truth.violate(Kind::NoAnswer, self.now, open.join("; "));
        }
    }

    // ---- the queue

    pub fn at(&mut self, at: Time, event: Event) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.order += 1;
        // Events of the same moment come in the order in which they were made.
        self.queue.push(Reverse((at, (self.order << 24) | place as u64)));
    }

    pub fn after(&mut self, time: Time, event: Event) {
        self.at(self.now + time, event);
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9} {}", show(self.now), text()));
        }
    }

    fn happen(&mut self, event: Event) {
        let host = match &event {
            Event::Answer { to, .. } | Event::GiveUp { to, .. } | Event::Timer { to, .. } => {
                if self.machines[to.host].host.who != *to {
                    return;
                }
                Some(to.host)
            }
            Event::Hint { host, .. } => Some(*host),
            _ => None,
        };
        if let Some(host) = host {
            match self.machines[host].power {
                Power::On => {}
                Power::Off => return,
                _ => return self.machines[host].pending.push(event),
            }
        }
        self.steps += 1;
        match event {
            Event::Comes(message) => self.comes(message),
            Event::Answer { to, call, answer, set_backs } => self.answered(to, call, answer, set_backs),
            Event::GiveUp { to, call } => {
                if self.machines[to.host].host.is_waiting(call) {
                    let set_backs = self.truth.set_backs;
                    self.answered(to, call, Err(RealmError::InDoubt(Doubt::NoAnswer)), set_backs);
                } else {
                    self.steps -= 1;
                }
            }
            Event::Hint { host, session, seq } => {
                self.with_host(host, self.truth.set_backs, |host, out| host.hint(session, seq, out));
            }
            Event::Timer { to, at, timer } => {
                let shown = self.monotonic(to.host);
                if shown < at {
                    // The machine has slept meanwhile.
                    self.steps -= 1;
                    return self.after(at - shown, Event::Timer { to, at, timer });
                }
                self.with_host(to.host, self.truth.set_backs, |host, out| host.timer(timer, out));
            }
            Event::User(user) => self.user_acts(user),
            Event::Act(act) => self.act(act),
            Event::Back(Back::Host(host)) => self.host_back(host),
            Event::Back(Back::Engine) => {
                self.engine.is_up = true;
                self.note(|| "the engine is back".into());
            }
        }
    }

    pub fn monotonic(&self, host: usize) -> Time {
        let clocks = &self.machines[host].host.clocks;
        let still = match self.machines[host].power {
            Power::Asleep(since) | Power::Frozen(since) => self.now - since,
            _ => 0,
        };
        micros(clocks.read(Reads::Monotonic, self.now)) - still
    }

    // ---- hosts

    /// Lets a host handle something, and carries out what comes of it.
    pub fn with_host(&mut self, host: usize, set_backs: u32, handle: impl FnOnce(&mut Host, &mut Out<'_>)) {
        let awake = self.monotonic(host);
        let mut out = Out {
            now: self.now,
            random: &mut self.random,
            set_backs,
            sends: Vec::new(),
            timers: Vec::new(),
            tells: Vec::new(),
            facts: Vec::new(),
        };
        let machine = &mut self.machines[host];
        handle(&mut machine.host, &mut out);
        let Out { sends, timers, tells, facts, .. } = out;
        let who = machine.host.who;
        let has_ended = machine.host.has_ended;
        for fact in facts {
            self.note(|| format!("h{host} {}", trace::shown(&fact)));
            self.truth.take(self.now, who, awake, &self.engine.disk, fact);
        }
        for (call, statement) in sends {
            self.send(who, call, statement);
        }
        for (time, timer) in timers {
            self.after(time, Event::Timer { to: who, at: awake + time, timer });
        }
        if has_ended {
            self.note(|| format!("h{host} finds its name taken; somebody starts it anew"));
            self.truth.counts.locked_out += 1;
            self.crash(host, 5 * SECOND);
        }
        for (user, told) in tells {
            self.users[user].told = Some(told);
            if told == Told::OwnerLost {
                self.note(|| format!("h{host} tells user {user} that the owner is lost"));
            }
        }
    }

    fn answered(&mut self, to: Who, call: CallId, answer: Result<Reply, RealmError>, set_backs: u32) {
        if self.machines[to.host].host.is_waiting(call)
            && !matches!(&answer, Ok(Reply::Page(page)) if page.entries.is_empty())
        {
            self.note(|| format!("h{} gets {}", to.host, trace::heard(&answer)));
        }
        self.with_host(to.host, set_backs, |host, out| host.answered(call, answer, out));
        if let Some(lasts) = self.machines[to.host].dies_at_answer.take() {
            self.crash(to.host, lasts);
        }
    }

    fn crash(&mut self, host: usize, lasts: Time) {
        if self.machines[host].power == Power::Off {
            return;
        }
        self.wake(host);
        let awake = self.monotonic(host);
        let machine = &mut self.machines[host];
        let logs = machine.host.crash(&mut self.random);
        let Who { run, .. } = machine.host.who;
        let clocks = machine.host.clocks.clone();
        machine.host = Host::new(Who { host, run: run + 1 }, clocks, logs, self.plan.terms, self.mistake);
        machine.power = Power::Off;
        machine.pending.clear();
        let tails: Vec<Tail> = machine.host.seats.iter().map(|seat| seat.replica.tail().clone()).collect();
        self.note(|| format!("h{host} is gone; its disk has {tails:?}"));
        self.truth.crashed(self.now, host, awake, &tails);
        self.after(lasts, Event::Back(Back::Host(host)));
    }

    /// Ends a sleep in the clocks.
    fn wake(&mut self, host: usize) {
        let machine = &mut self.machines[host];
        match machine.power {
            Power::Asleep(since) => machine.host.clocks.slept += self.now - since,
            Power::Frozen(since) => machine.host.clocks.frozen += self.now - since,
            _ => {}
        }
    }

    fn host_back(&mut self, host: usize) {
        match self.machines[host].power {
            Power::On => {}
            Power::Off => {
                self.machines[host].power = Power::On;
                self.note(|| format!("h{host} starts anew"));
                self.with_host(host, self.truth.set_backs, |host, out| host.start(out));
            }
            Power::Stopped | Power::Asleep(_) | Power::Frozen(_) => {
                self.wake(host);
                self.machines[host].power = Power::On;
                self.note(|| format!("h{host} goes on"));
                // Nobody promises in which order it sees what came meanwhile.
                let mut pending = std::mem::take(&mut self.machines[host].pending);
                self.random.shuffle(&mut pending);
                for event in pending {
                    let soon = self.random.below(20 * MS);
                    self.after(soon, event);
                }
            }
        }
    }

    fn pause(&mut self, host: usize, power: Power, lasts: Time) {
        if self.machines[host].power == Power::On {
            self.machines[host].power = power;
            self.after(lasts, Event::Back(Back::Host(host)));
        }
    }

    // ---- the plan

    fn act(&mut self, place: usize) {
        let act = self.plan.acts[place].1.clone();
        self.note(|| format!("-- {act:?}"));
        let now = self.now;
        match act {
            Act::Cut { host, lasts } => self.machines[host].cut_until = now + lasts,
            Act::Refuse { host, lasts } => self.machines[host].refused_until = now + lasts,
            Act::Late { host, lasts, by } => self.machines[host].late = (now + lasts, by),
            Act::Slow { host, lasts, by } => self.machines[host].slow = (now + lasts, by),
            Act::Hints { host, lasts } => self.machines[host].hints_until = now + lasts,
            Act::Stop { host, lasts } => {
                self.truth.stopped(host);
                self.pause(host, Power::Stopped, lasts);
            }
            Act::Sleep { host, lasts } => self.pause(host, Power::Asleep(now), lasts),
            Act::Freeze { host, lasts } => {
                self.truth.frozen(host);
                self.pause(host, Power::Frozen(now), lasts);
            }
            Act::Crash { host, lasts, at_answer: true } => self.machines[host].dies_at_answer = Some(lasts),
            Act::Crash { host, lasts, at_answer: false } => self.crash(host, lasts),
            Act::Quit { host, lasts } => {
                if self.machines[host].power == Power::On {
                    self.with_host(host, self.truth.set_backs, Host::leave);
                    self.crash(host, lasts);
                }
            }
            Act::SetWallClock { host, by } => self.machines[host].host.clocks.set += by,
            Act::KillEngine { lasts, when: Kill::Now } => self.kill_engine(Kill::Now, lasts),
            Act::KillEngine { lasts, when } => self.engine_dies = Some((when, lasts)),
            Act::SetEngineClock { by } => {
                self.engine.clock_offset += by;
                if by > 0 {
                    self.truth.jumped_forward(now);
                }
            }
            Act::Replicate => self.replica = Some(self.engine.disk.clone()),
            Act::FailOver => {
                if let Some(disk) = self.replica.take() {
                    self.engine.disk = disk;
                    let awake: Vec<Time> = (0..self.plan.hosts).map(|host| self.monotonic(host)).collect();
                    self.truth.set_back(now, &self.engine.disk, |host| awake[host]);
                }
            }
            Act::Give { session, to } => self.with_owner(session, |host, out| host.give(session, to, out)),
            Act::Release { session } => self.with_owner(session, |host, out| host.release(session, out)),
            Act::Take { host, session } => {
                if self.machines[host].power == Power::On {
                    self.with_host(host, self.truth.set_backs, |host, out| host.take(session, out));
                }
            }
        }
    }

    /// Lets the host that believes to own a session do something.
    fn with_owner(&mut self, session: usize, handle: impl FnOnce(&mut Host, &mut Out<'_>)) {
        let owns = |machine: &mut Machine| {
            machine.power == Power::On && machine.host.seats[session].owning().is_some()
        };
        if let Some(host) = self.machines.iter_mut().position(owns) {
            self.with_host(host, self.truth.set_backs, handle);
        }
    }

    // ---- users

    fn user_acts(&mut self, user: usize) {
        let host = self.users[user].host;
        let is_on = self.machines[host].power == Power::On;
        let action = {
            let Self { users, machines, random, plan, .. } = self;
            let machine = &machines[host];
            users[user].act(is_on.then_some(&machine.host), plan.hosts, random)
        };
        if let Some(action) = action {
            let session = self.users[user].session;
            let set_backs = self.truth.set_backs;
            self.note(|| format!("user {user} on h{host}: {action:?} in s{session}"));
            self.with_host(host, set_backs, |host, out| action.apply(host, user, session, out));
        }
        if !self.users[user].is_done() {
            let wait = self.random.between(200 * MS, 1500 * MS);
            self.after(wait, Event::User(user));
        }
    }
}
