//! Chooses the clock of a process. Without the feature `test-clocks` there is nothing to choose.

use std::sync::Arc;

#[cfg(feature = "test-clocks")]
use super::fake;
use super::{Clock, SystemClock};

/// The clock of this process: the system's, or the one that a test selects.
pub fn of_process() -> Arc<dyn Clock> {
    // A transcript that is compared byte for byte needs the same times and identifiers in every run.
    #[cfg(feature = "test-clocks")]
    if let Some(clock) = fake::from_environment() {
        return clock;
    }
    Arc::new(SystemClock)
}
