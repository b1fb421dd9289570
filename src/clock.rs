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

/// The time since the machine started. It goes on while the machine sleeps, so that who wakes notices the sleep.
pub fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}

/// A time as RFC 3339 in UTC with milliseconds, such as `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(time: Timestamp) -> Arc<str> {
    format!("{time:.3}").into()
}

/// Milliseconds since the epoch.
pub fn epoch_millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}
