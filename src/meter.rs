//! The budget of one evaluation: steps, bytes, a deadline and a stop token.
//!
//! [`Meter::spend`] stands before the loop or the allocation that it pays for. So no input makes an evaluation larger
//! than its budget, however few bytes the input has. Knows neither what is evaluated nor how much of it is reasonable.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// Steps between two looks at the clock and the stop token: less than some 10 ms of work.
const LOOK: usize = 65_536;

/// Bytes per reservation from a pool, so that most payments cost only an addition.
const PART: usize = 256 * 1024;

/// A part of a budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// All steps were made.
    #[error("it takes too many steps")]
    Steps,
    /// It holds too much memory.
    #[error("it takes too much memory")]
    Bytes,
    /// It holds too much memory together with the other evaluations of its pool.
    #[error("it takes too much memory together with others")]
    Pool,
    /// The deadline has passed.
    #[error("it takes too long")]
    Time,
    /// It was stopped.
    #[error("it was stopped")]
    Stopped,
}

/// The memory that several evaluations may hold together.
#[derive(Debug)]
pub struct Pool {
    most: usize,
    held: AtomicUsize,
}

impl Pool {
    /// A pool of so many bytes.
    pub const fn new(most: usize) -> Self {
        Self { most, held: AtomicUsize::new(0) }
    }

    /// The bytes that the evaluations have reserved.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// See the module. Dropping it returns its memory to the pool.
#[derive(Debug)]
pub struct Meter {
    steps: usize,
    most_steps: usize,
    /// Steps until the next look.
    ahead: usize,
    held: usize,
    most_bytes: usize,
    peak: usize,
    pool: Option<&'static Pool>,
    reserved: usize,
    deadline: Option<Instant>,
    stop: Option<CancellationToken>,
}

impl Meter {
    /// A budget of so many steps, and of so many bytes at once.
    pub fn new(steps: usize, bytes: usize) -> Self {
        Self {
            steps: 0,
            most_steps: steps,
            ahead: LOOK,
            held: 0,
            most_bytes: bytes,
            peak: 0,
            pool: None,
            reserved: 0,
            deadline: None,
            stop: None,
        }
    }

    /// The same budget until that time.
    #[must_use]
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same budget until the token is cancelled.
    #[must_use]
    pub fn stopped_by(mut self, stop: &CancellationToken) -> Self {
        self.stop = Some(stop.clone());
        self
    }

    /// The same budget, with its memory from a pool.
    #[must_use]
    pub fn within(mut self, pool: &'static Pool) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Pays for steps and bytes. Call it before making or allocating them.
    ///
    /// # Errors
    /// If the budget does not allow it, the deadline has passed or the evaluation was stopped.
    #[inline]
    pub fn spend(&mut self, steps: usize, bytes: usize) -> Result<(), Exhausted> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.most_steps {
            return Err(Exhausted::Steps);
        }
        self.held = self.held.saturating_add(bytes);
        if self.held > self.reserved {
            self.reserve()?;
        }
        match self.ahead.checked_sub(steps) {
            Some(ahead) => {
                self.ahead = ahead;
                Ok(())
            }
            None => self.look(),
        }
    }

    /// Looks at the clock and the stop token. For work that is long but one step: to run a resolver, to read a file.
    ///
    /// # Errors
    /// If the deadline has passed or the evaluation was stopped.
    pub fn look(&mut self) -> Result<(), Exhausted> {
        self.ahead = LOOK;
        if self.stop.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(Exhausted::Stopped);
        }
        match self.deadline {
            Some(deadline) if Instant::now() > deadline => Err(Exhausted::Time),
            _ => Ok(()),
        }
    }

    /// Takes back bytes that are no longer held.
    pub fn give_back(&mut self, bytes: usize) {
        self.peak = self.peak.max(self.held);
        self.held = self.held.saturating_sub(bytes);
    }

    /// The bytes that are held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The bytes that can still be paid for.
    pub fn room(&self) -> usize {
        self.most_bytes.saturating_sub(self.held)
    }

    /// The most bytes that were held at once.
    pub fn peak(&self) -> usize {
        self.peak.max(self.held)
    }

    /// The steps that were paid for.
    pub fn steps(&self) -> usize {
        self.steps
    }

    fn reserve(&mut self) -> Result<(), Exhausted> {
        if self.held > self.most_bytes {
            return Err(Exhausted::Bytes);
        }
        let more = self.held.saturating_sub(self.reserved).max(PART);
        self.reserved = self.reserved.saturating_add(more);
        match self.pool {
            Some(pool) if pool.held.fetch_add(more, Ordering::Relaxed).saturating_add(more) > pool.most => {
                Err(Exhausted::Pool)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            pool.held.fetch_sub(self.reserved, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn steps_and_bytes_are_bounded() {
        let mut meter = Meter::new(10, 1000);
        assert_eq!(meter.spend(10, 1000), Ok(()));
        assert_eq!(meter.spend(1, 0), Err(Exhausted::Steps));
        let mut meter = Meter::new(10, 1_000_000);
        assert_eq!(meter.spend(1, 1_000_000), Ok(()));
        meter.give_back(600_000);
        assert_eq!((meter.held(), meter.room(), meter.peak()), (400_000, 600_000, 1_000_000));
        assert_eq!(meter.spend(1, 600_000), Ok(()));
        assert_eq!(meter.spend(1, 1), Err(Exhausted::Bytes));
        assert_eq!(Meter::new(1, 1).spend(usize::MAX, usize::MAX), Err(Exhausted::Steps));
        assert_eq!(Meter::new(usize::MAX, 1).spend(usize::MAX, usize::MAX), Err(Exhausted::Bytes));
    }

    #[test]
    fn clock_and_stop_are_seen_within_the_steps_of_a_look() {
        let stop = CancellationToken::new();
        let mut meter = Meter::new(usize::MAX, 0).stopped_by(&stop);
        stop.cancel();
        let spent = (0..=LOOK).find_map(|_| meter.spend(1, 0).err());
        assert_eq!(spent, Some(Exhausted::Stopped));
        assert_eq!(Meter::new(usize::MAX, 0).stopped_by(&stop).spend(LOOK + 1, 0), Err(Exhausted::Stopped));
        let past = Instant::now().checked_sub(Duration::from_millis(1));
        assert_eq!(Meter::new(1, 0).until(past).look(), Err(Exhausted::Time));
    }

    #[test]
    fn pool_is_shared_and_gets_everything_back() {
        static SHARED: Pool = Pool::new(3 * PART);
        let meter = || Meter::new(1, 2 * PART).within(&SHARED);
        let (mut one, mut two) = (meter(), meter());
        assert_eq!(one.spend(0, 2 * PART), Ok(()));
        assert_eq!(two.spend(0, 2 * PART), Err(Exhausted::Pool));
        drop(two);
        assert_eq!(SHARED.held(), 2 * PART);
        drop(one);
        assert_eq!(SHARED.held(), 0);
        assert_eq!(meter().spend(0, 2 * PART), Ok(()));
    }
}
