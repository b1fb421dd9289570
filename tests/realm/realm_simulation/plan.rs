//! What happens in a run apart from what the hosts do by themselves: how many there are, what users want, and which faults
//! come when. It is made from a seed, and can be made smaller.

use std::fmt;
use std::time::Duration;

use edn_bridge::realm::rules::LeaseTerms;

use super::random::Random;
use super::time::{MS, SECOND, Time, show};

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub enum Act {
    /// Nothing passes between a host and the engine. Nobody is told; some of what was sent comes when it is over.
    Cut { host: usize, lasts: Time },
    /// Connections of a host are refused.
    Refuse { host: usize, lasts: Time },
    /// Some statements of a host are carried out long after they were given up.
    Late { host: usize, lasts: Time, by: Time },
    /// Some answers to a host come late.
    Slow { host: usize, lasts: Time, by: Time },
    /// Hints to a host are lost, or come late and twice.
    Hints { host: usize, lasts: Time },
    /// A host's process stands still (`SIGSTOP`). Its tools do not.
    Stop { host: usize, lasts: Time },
    /// A machine sleeps. Its boot clock goes on, its monotonic clock and its tools do not.
    Sleep { host: usize, lasts: Time },
    /// A virtual machine is halted from outside: no clock of it goes on.
    Freeze { host: usize, lasts: Time },
    /// A host's process dies and comes back with what its disk has: at once, or after its next answer.
    Crash { host: usize, lasts: Time, at_answer: bool },
    /// A host leaves in good order and comes back.
    Quit { host: usize, lasts: Time },
    /// Somebody sets the time of day of a host.
    SetWallClock { host: usize, by: i64 },
    /// The engine dies and comes back with all that it has acknowledged.
    KillEngine { lasts: Time, when: Kill },
    /// The engine's clock jumps.
    SetEngineClock { by: i64 },
    /// A copy of the engine, which may take over later, has this state from now on.
    Replicate,
    /// The copy takes over: the engine has an older state.
    FailOver,
    /// A user of the owner gives a session to another host.
    Give { session: usize, to: usize },
    /// A user wants a host to own a session.
    Take { host: usize, session: usize },
    /// A user puts a session away.
    Release { session: usize },
}

/// When an engine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    Now,
    /// When the next append has come and nothing of it is carried out.
    BeforeAppend,
    /// When the next append is carried out and not answered yet.
    AfterAppend,
}

/// What a user does: prompts, one after the other, from a host, of a session.
#[derive(Clone, Debug)]
pub struct UserPlan {
    pub host: usize,
    pub prompts: u64,
}

/// A run's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub hosts: usize,
    pub sessions: usize,
    pub terms: LeaseTerms,
    pub users: Vec<UserPlan>,
    /// In the order of their times.
    pub acts: Vec<(Time, Act)>,
    /// When the last fault is over.
    pub calm_at: Time,
}

/// Which faults a plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The engine keeps what it has acknowledged.
    Durable,
    /// It may be set back to an older state.
    SetBack,
}

impl Plan {
    pub fn new(seed: u64, mode: Mode) -> Self {
        let random = &mut Random::new(seed ^ 0x5eed_0000_0000);
        let hosts = 2 + random.index(3);
        let sessions = 1 + random.index(2);
        let terms = LeaseTerms::new(Duration::from_secs([3, 6, 6, 15][random.index(4)]));
        let users = 0..random.between(2, 5);
        let users =
            users.map(|_| UserPlan { host: random.index(hosts), prompts: random.between(2, 7) }).collect();
        let calm_at = random.between(20, 70) * SECOND;
        // A run has a few kinds of faults, and more of each. With all kinds at once the rare ones seldom meet.
        let mut kinds: Vec<u64> = (0..KINDS).collect();
        random.shuffle(&mut kinds);
        kinds.truncate(2 + random.index(4));
        let count = random.between(3, 22);
        let mut any = || {
            let at = random.between(SECOND, calm_at);
            (at, Act::any(kinds[random.index(kinds.len())], random, hosts, sessions, calm_at))
        };
        let mut acts: Vec<_> = (0..count).map(|_| any()).collect();
        if mode == Mode::SetBack {
            let at = random.between(5 * SECOND, calm_at);
            acts.push((at - random.between(MS, 5 * SECOND), Act::Replicate));
            acts.push((at, Act::FailOver));
        }
        acts.sort_by_key(|(at, _)| *at);
        Self { seed, hosts, sessions, terms, users, acts, calm_at }
    }
}

const KINDS: u64 = 15;

impl Act {
    fn any(kind: u64, random: &mut Random, hosts: usize, sessions: usize, within: Time) -> Self {
        let host = random.index(hosts);
        let session = random.index(sessions);
        let longest = (within / 3).min(40 * SECOND);
        let lasts =
            if random.chance(40) { random.between(50 * MS, 3 * SECOND) } else { random.between(MS, longest) };
        let step = random.between(SECOND, 40 * SECOND) as i64;
        let by = if random.chance(50) { step } else { -step };
        match kind {
            0 => Self::Cut { host, lasts },
            1 => Self::Refuse { host, lasts },
            2 => {
                Self::Late { host, lasts: lasts.max(4 * SECOND), by: random.between(2 * SECOND, 15 * SECOND) }
            }
            3 => Self::Slow { host, lasts, by: random.between(100 * MS, 3 * SECOND) },
            4 => Self::Hints { host, lasts },
            5 => Self::Stop { host, lasts },
            6 => Self::Sleep { host, lasts },
            7 if random.chance(20) => Self::Freeze { host, lasts },
            7 | 8 => Self::Crash { host, lasts, at_answer: random.chance(60) },
            9 => Self::Quit { host, lasts },
            10 => Self::SetWallClock { host, by },
            11 => Self::KillEngine {
                lasts: random.between(200 * MS, 8 * SECOND),
                when: [Kill::Now, Kill::BeforeAppend, Kill::AfterAppend][random.index(3)],
            },
            12 => Self::SetEngineClock { by },
            13 => Self::Give { session, to: host },
            _ if random.chance(70) => Self::Take { host, session },
            _ => Self::Release { session },
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lease = self.terms.lease.as_secs();
        writeln!(
            f,
            "seed {}: {} hosts, {} sessions, a lease of {lease} s",
            self.seed, self.hosts, self.sessions
        )?;
        for (user, plan) in self.users.iter().enumerate().filter(|(_, plan)| plan.prompts > 0) {
            writeln!(f, "  user {user} sends {} prompts from h{}", plan.prompts, plan.host)?;
        }
        for (at, act) in &self.acts {
            writeln!(f, "  {:>8} {act:?}", show(*at))?;
        }
        write!(f, "  {:>8} calm", show(self.calm_at))
    }
}
