//! What is between the hosts and the engine: statements, answers and hints, each of which may be late or lost. Also where a
//! statement is carried out and its effect is checked.

use std::rc::Rc;
use std::sync::Arc;

use edn_bridge::limits::REALM_CALL_WAIT;
use edn_bridge::realm::RealmError;

use super::engine::{Reply, Statement, Who};
use super::entry::Entry;
use super::host::CallId;
use super::mistakes::Mistake;
use super::plan::Kill;
use super::time::{MS, SECOND, Time};
use super::trace::asked;
use super::truth::micros;
use super::world::{Back, Event, Message, Power, World};

impl World<'_> {
    fn delay(&mut self) -> Time {
        // Most are quick; some are not.
        match self.random.below(10) {
            0 => self.random.between(20 * MS, 300 * MS),
            1..4 => self.random.between(2 * MS, 20 * MS),
            _ => self.random.between(200, 2 * MS),
        }
    }

    pub fn send(&mut self, from: Who, call: CallId, statement: Statement) {
        if !matches!(statement, Statement::Read { .. }) {
            self.note(|| format!("h{} sends {}", from.host, asked(&statement)));
        }
        let machine = &self.machines[from.host];
        let (cut_until, (late_until, by)) = (machine.cut_until, machine.late);
        let is_cut = self.now < cut_until;
        let set_backs = self.truth.set_backs;
        if !is_cut && (!self.engine.is_up || self.now < machine.refused_until) {
            let answer = Err(RealmError::Unreachable(Arc::from("refused")));
            return self.after(MS, Event::Answer { to: from, call, answer, set_backs });
        }
        self.after(micros(REALM_CALL_WAIT), Event::GiveUp { to: from, call });
        let mut at = self.now + self.delay();
        if is_cut {
            if self.random.chance(50) {
                return;
            }
            at += cut_until - self.now;
        } else if self.now < late_until && self.random.chance(70) {
            at += self.random.between(MS, by);
        }
        self.at(at, Event::Comes(Message { from, call, statement, set_backs }));
    }

    /// A statement is carried out, or is lost.
    pub fn comes(&mut self, message: Message) {
        let is_append = matches!(message.statement, Statement::Append { .. });
        if is_append
            && let Some((kill, lasts)) = self.engine_dies.take_if(|(kill, _)| *kill == Kill::BeforeAppend)
        {
            if self.mistake == Some(Mistake::AppendInParts)
                && let Message {
                    from,
                    statement: Statement::Append { session, claim, after, mut entries },
                    call,
                    set_backs,
                } = message
            {
                let whole = entries.clone();
                entries.truncate(1);
                let statement = Statement::Append { session, claim, after, entries };
                let _ = self.execute(Message { from, call, statement, set_backs }, Some(&whole));
            }
            return self.kill_engine(kill, lasts);
        }
        if !self.engine.is_up {
            return;
        }
        let (from, call) = (message.from, message.call);
        let settles = match &message.statement {
            Statement::Settle { session, known, .. } => Some((*session, known.clone())),
            _ => None,
        };
        let answer = self.execute(message, None);
        if let Some((session, known)) = settles.filter(|_| answer.is_ok()) {
            let statement = Statement::SettleRead { session, known, most: 1 + self.random.index(3) };
            let soon = self.delay();
            let set_backs = self.truth.set_backs;
            return self.after(soon, Event::Comes(Message { from, call, statement, set_backs }));
        }
        if is_append
            && let Some((kill, lasts)) = self.engine_dies.take_if(|(kill, _)| *kill == Kill::AfterAppend)
        {
            return self.kill_engine(kill, lasts);
        }
        let machine = &self.machines[from.host];
        let (cut_until, (slow_until, by)) = (machine.cut_until, machine.slow);
        let mut at = self.now + self.delay();
        if self.now < cut_until {
            if self.random.chance(70) {
                return;
            }
            at += cut_until - self.now;
        } else if self.now < slow_until && self.random.chance(50) {
            at += self.random.between(MS, by);
        }
        let set_backs = self.truth.set_backs;
        self.at(at, Event::Answer { to: from, call, answer, set_backs });
    }

    /// Carries a statement out and checks its effect.
    fn execute(&mut self, message: Message, whole: Option<&[Rc<Entry>]>) -> Result<Reply, RealmError> {
        let Message { from, call, statement, set_backs } = message;
        let now = self.now;
        match statement {
            Statement::Append { session, claim, after, entries } => {
                let before = self.engine.disk.sessions[session].log.len();
                let old = (self.mistake == Some(Mistake::NoSync)).then(|| self.engine.disk.clone());
                let statement =
                    Statement::Append { session, claim: claim.clone(), after, entries: entries.clone() };
                let answer = self.engine.execute(now, from, statement);
                let row = &self.engine.disk.sessions[session];
                if answer.is_ok() {
                    self.unsynced = old;
                    let is_late = !self.machines[from.host].host.is_waiting(call);
                    self.truth.counts.late_appends += u64::from(is_late);
                    let whole = whole.unwrap_or(&entries);
                    self.truth.appended(now, from, session, &claim, whole, before, row, set_backs);
                    let seq = row.log.len() as u64;
                    self.note(|| format!("engine has s{session} up to {seq}"));
                    self.tell_all(session, seq);
                } else {
                    self.truth.counts.no_rows += 1;
                    self.note(|| format!("engine finds no row for h{}'s append to s{session}", from.host));
                }
                answer
            }
            Statement::Claim { session, .. } => {
                let answer = self.engine.execute(now, from, statement);
                if let Ok(Reply::Claimed(claim)) = &answer {
                    let awake: Vec<Time> = (0..self.plan.hosts).map(|host| self.monotonic(host)).collect();
                    self.truth.claimed(now, from, session, claim, |host| awake[host]);
                    self.note(|| {
                        format!("engine gives s{session} to h{} in epoch {}", from.host, claim.epoch)
                    });
                }
                answer
            }
            Statement::Renew => {
                let answer = self.engine.execute(now, from, statement);
                if answer.is_ok() {
                    self.truth.renewed(now, from);
                }
                answer
            }
            Statement::HandOver { session, to, .. } => {
                let answer = self.engine.execute(now, from, statement);
                if answer.is_ok() {
                    self.truth.given_up(now, from, session);
                    self.note(|| format!("engine hands s{session} over to h{to}"));
                    self.hint(to, session, 0);
                }
                answer
            }
            Statement::Release { session, .. } => {
                let was = self.engine.disk.sessions[session].owner;
                let answer = self.engine.execute(now, from, statement);
                if was != self.engine.disk.sessions[session].owner {
                    self.truth.given_up(now, from, session);
                }
                answer
            }
            statement => self.engine.execute(now, from, statement),
        }
    }

    fn tell_all(&mut self, session: usize, seq: u64) {
        for host in 0..self.plan.hosts {
            self.hint(host, session, seq);
        }
    }

    fn hint(&mut self, host: usize, session: usize, seq: u64) {
        let machine = &self.machines[host];
        if self.now < machine.cut_until || machine.power == Power::Off {
            return;
        }
        let is_bad = self.now < machine.hints_until;
        if is_bad && self.random.chance(50) {
            return;
        }
        let delay = self.delay();
        if is_bad && self.random.chance(50) {
            let late = self.random.between(MS, 20 * SECOND);
            self.after(late, Event::Hint { host, session, seq });
        }
        self.after(delay, Event::Hint { host, session, seq });
    }

    pub fn kill_engine(&mut self, kill: Kill, lasts: Time) {
        self.note(|| format!("the engine is killed ({kill:?})"));
        self.engine.is_up = false;
        if let Some(old) = self.unsynced.take() {
            // Nobody is told that it was set back: this engine promised that it never is.
            self.engine.disk = old;
        }
        self.after(lasts, Event::Back(Back::Engine));
    }
}
