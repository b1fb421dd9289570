//! Time and identifiers, as parameters.
//!
//! No other module asks the system for the time or invents an id, so that a transcript can be replayed byte
//! for byte. Does not know its callers.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;

mod choice;
#[cfg(feature = "test-clocks")]
pub mod fake;

pub use choice::of_process;

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

/// A time as RFC 3339 in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(time: Timestamp) -> Arc<str> {
    format!("{time:.3}").into()
}

/// Milliseconds since the epoch.
pub fn epoch_millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}
