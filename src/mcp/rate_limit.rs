//! How fast a server may cost this process something: some times at once, then once after each pause.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What one server does, for all who do it.
#[derive(Clone)]
pub(super) struct Pace {
    at_once: u32,
    pause: Duration,
    /// When the next one would be due, if each had waited for its pause.
    due: Arc<Mutex<Option<Instant>>>,
}

impl Pace {
    /// Lets `at_once` pass at once, and then one after each pause.
    pub(super) fn new(at_once: u32, pause: Duration) -> Self {
        Self { at_once, pause, due: Arc::default() }
    }

    /// Waits until the next one may be.
    pub(super) async fn wait(&self) {
        let at = {
            let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let next = due.unwrap_or(now).max(now) + self.pause;
            *due = Some(next);
            next.checked_sub(self.pause.saturating_mul(self.at_once)).filter(|at| *at > now)
        };
        if let Some(at) = at {
            sleep_until(at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn some_pass_at_once_and_then_one_after_each_pause() {
        let pause = Duration::from_secs(1);
        let pace = Pace::new(8, pause);
        let begun = Instant::now();
        for _ in 0..8 {
            pace.wait().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "a few at once");
        for _ in 0..10 {
            pace.wait().await;
        }
        assert_eq!(begun.elapsed(), pause * 10);
        tokio::time::advance(pause * 16).await;
        let rested = Instant::now();
        pace.wait().await;
        assert_eq!(rested.elapsed(), Duration::ZERO, "it has rested");
    }
}
