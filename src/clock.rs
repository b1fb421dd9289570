//! Time and identifiers, as parameters.
//!
//! No other module asks the system for the time or invents an id, so that a transcript can be replayed byte
//! for byte. Does not know who asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A source of time and identifiers.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// The time since some moment of this process, to measure durations: setting the clock does not affect
    /// it.
    fn passed(&self) -> Duration {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGIN.elapsed()
    }

    /// A new identifier that starts with `prefix`, unique across processes and time.
    fn id(&self, prefix: &str) -> String;
}

/// The system's clock, and identifiers that sort by time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{}", uuid::Uuid::now_v7().simple())
    }
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

/// A time as RFC 3339 in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(time: Timestamp) -> Arc<str> {
    format!("{time:.3}").into()
}

/// Milliseconds since the epoch.
pub fn epoch_millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}
