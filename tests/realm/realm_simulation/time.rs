//! True time, which nobody in the simulation can read, and the clocks of a host, which show something else.

use std::time::Duration;

/// Microseconds of true time since the run began.
pub type Time = u64;

pub const MS: Time = 1_000;
pub const SECOND: Time = 1_000_000;

/// True time as text.
pub fn show(time: Time) -> String {
    format!("{}.{:03}", time / SECOND, time % SECOND / MS)
}

/// Which clock of a host is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// `CLOCK_BOOTTIME`: goes on while the machine sleeps.
    Boot,
    /// `CLOCK_MONOTONIC`: stands still while it sleeps. Timers run on it, those of tokio too.
    Monotonic,
    /// The time of day, which people and servers set.
    Wall,
}

/// The clocks of one machine.
#[derive(Clone, Debug)]
pub struct Clocks {
    /// How much too fast the oscillator is, in parts per million.
    pub drift: i64,
    /// How long the machine has slept.
    pub slept: Time,
    /// How long the machine was frozen from outside, as a virtual machine is, which no clock of it shows.
    pub frozen: Time,
    /// How far the time of day was set, in microseconds.
    pub set: i64,
}

/// What the clocks show at the beginning: more than the wall clock is ever set back by.
const START: i64 = 1_000_000 * SECOND as i64;

impl Clocks {
    pub fn read(&self, which: Reads, now: Time) -> Duration {
        let awake = now - self.frozen;
        let drifted = (i128::from(awake) * i128::from(1_000_000 + self.drift) / 1_000_000) as i64;
        let shown = START
            + match which {
                Reads::Boot => drifted,
                Reads::Monotonic => drifted - self.slept as i64,
                Reads::Wall => drifted + self.set,
            };
        Duration::from_micros(shown.unsigned_abs())
    }

    /// How much true time passes at least until a clock has gone on by that much.
    pub fn true_time(&self, of: Duration) -> Time {
        let micros = of.as_micros() as i64;
        (micros + micros * -self.drift / 1_000_000).unsigned_abs() + 2
    }
}
