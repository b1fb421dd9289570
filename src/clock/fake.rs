//! Clocks for tests alone: one stands still, one jumps, one was put back.
//!
//! The feature `test-clocks` adds them. The tests have it; `cargo build` and a release do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Clock, SystemClock};

/// The clock that the variable `EDN_BRIDGE_FIXED_CLOCK` selects: a jumping one for `jumping`, one that was put back by a
/// day for `yesterday` and by half an hour for `earlier`, a fixed one for any other value.
pub fn from_environment() -> Option<Arc<dyn Clock>> {
    let name = std::env::var_os("EDN_BRIDGE_FIXED_CLOCK")?;
    Some(match name.to_str() {
        Some("jumping") => Arc::new(JumpingClock::default()),
        Some("yesterday") => Arc::new(LateClock(SignedDuration::from_hours(24))),
        Some("earlier") => Arc::new(LateClock(SignedDuration::from_mins(30))),
        _ => Arc::new(FixedClock::default()),
    })
}

/// A clock that stands still and counts its identifiers, for transcripts that are compared byte by byte.
#[derive(Debug, Default)]
pub struct FixedClock {
    count: AtomicU64,
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_767_225_600, 0)
    }

    fn passed(&self) -> Duration {
        Duration::ZERO
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{:04}", self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }
}

/// A clock that jumps by years, forward and back, at every read; its identifiers sort accordingly. For tests
/// that nothing depends on the time of day.
#[derive(Debug, Default)]
pub struct JumpingClock {
    looks: AtomicU64,
}

impl JumpingClock {
    fn look(&self) -> (u64, Timestamp) {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        // Neither ascending nor descending.
        let seconds = i64::try_from(look.wrapping_mul(7_368_787) % 1_000_000_007).unwrap_or(0);
        (look, Timestamp::from_second(1_300_000_000_i64.saturating_add(seconds)).unwrap_or_default())
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Timestamp {
        self.look().1
    }

    fn id(&self, prefix: &str) -> String {
        let (look, time) = self.look();
        // The process id distinguishes identifiers of two processes at the same read.
        format!("{prefix}{:010x}{:06x}{look:06x}", time.as_second(), std::process::id())
    }
}

/// The system's clock as if it had been put back by that time.
#[derive(Debug)]
pub struct LateClock(SignedDuration);

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() - self.0
    }

    fn id(&self, prefix: &str) -> String {
        SystemClock.id(prefix)
    }
}
