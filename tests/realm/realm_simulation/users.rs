//! Users: each sends prompts, one after the other, answers what is asked, tries again with the same key when it hears
//! nothing, moves to another machine when its own is gone, takes a session whose owner is lost, and
//! sometimes gives one to another host.

use std::fmt;

use super::engine::Wish;
use super::entry::Key;
use super::host::{Host, Out, Told};
use super::plan::{Plan, UserPlan};
use super::random::Random;
use super::time::{MS, Time};

pub struct User {
    number: usize,
    /// Where it sits.
    pub host: usize,
    pub session: usize,
    sessions: usize,
    prompts: u64,
    /// How many prompts have their answers.
    pub done: u64,
    /// When it does something for the first time.
    pub first: Time,
    /// Whether the open prompt was sent at all, and how long nothing came of it.
    was_sent: bool,
    silence: u64,
    pub told: Option<Told>,
}

/// What a user does.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Wish(Wish),
    Take,
    Give { to: usize },
}

impl Action {
    pub fn apply(self, host: &mut Host, user: usize, session: usize, out: &mut Out<'_>) {
        match self {
            Self::Wish(wish) => host.ask(user, session, wish, out),
            Self::Take => host.take(session, out),
            Self::Give { to } => host.give(session, to, out),
        }
    }
}

impl User {
    pub fn new(number: usize, user: &UserPlan, plan: &Plan) -> Self {
        Self {
            number,
            host: user.host,
            session: number % plan.sessions,
            sessions: plan.sessions,
            prompts: user.prompts,
            done: 0,
            first: 300 * MS * (number as u64 + 1),
            was_sent: false,
            silence: 0,
            told: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.done == self.prompts
    }

    /// The key of the open prompt.
    fn key(&self) -> Key {
        self.number as u64 * 100 + self.done
    }

    /// Looks at what its host shows and says what to do. `None` for a host that does not answer.
    pub fn act(&mut self, host: Option<&Host>, hosts: usize, random: &mut Random) -> Option<Action> {
        if self.is_done() {
            return None;
        }
        let Some(host) = host.filter(|host| !host.has_ended) else {
            self.silence += 1;
            self.move_on(hosts, random);
            return None;
        };
        let seat = &host.seats[self.session];
        if seat.view.ended.contains(&self.key()) {
            self.done += 1;
            self.was_sent = false;
            self.silence = 0;
            self.told = None;
            if random.chance(30) {
                self.session = random.index(self.sessions);
            }
            return None;
        }
        if seat.stopped.is_some() {
            self.move_on(hosts, random);
            return None;
        }
        // Anybody answers: also two at once.
        let asked = seat.view.waiting.iter().find(|waiting| waiting.is_asked && !waiting.is_answered);
        if let Some(waiting) = asked.filter(|_| random.chance(60)) {
            return Some(Action::Wish(Wish::Answer(waiting.key)));
        }
        if host.owns(self.session) && random.chance(2) {
            return Some(Action::Give { to: random.index(hosts) });
        }
        let sees_lost = host.shows_lost(self.session) && random.chance(30);
        if sees_lost || self.told == Some(Told::OwnerLost) {
            self.told = None;
            self.was_sent = false;
            return Some(Action::Take);
        }
        if !self.was_sent || self.silence > 1 + random.below(4) {
            self.was_sent = true;
            self.silence = 0;
            return Some(Action::Wish(Wish::Prompt(self.key())));
        }
        self.silence += 1;
        None
    }

    fn move_on(&mut self, hosts: usize, random: &mut Random) {
        if self.silence > 3 && random.chance(50) {
            self.silence = 0;
            self.was_sent = false;
            self.host = random.index(hosts);
        }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "user {} on h{} waits for prompt {} in s{}",
            self.number,
            self.host,
            self.key(),
            self.session
        )
    }
}
