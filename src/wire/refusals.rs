//! The log of connections that are refused. A program can connect as often as it likes, so not each one gets a line.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the refusals of one kind.
#[derive(Debug, Default)]
pub struct Refusals(AtomicU64);

impl Refusals {
    /// None so far.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts a refusal, and logs it with the count: the first one, the second, the fourth, the eighth and so on.
    pub fn log(&self, reason: &str) {
        let count = self.0.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count.is_power_of_two() {
            tracing::warn!(count, "{reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn flood_of_refusals_gets_few_lines() {
        let (log, refusals) = (Log::default(), Refusals::new());
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || (0..100).for_each(|_| refusals.log("refused")));
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let counts: Vec<&str> =
            text.lines().filter_map(|line| line.rsplit_once("count=")).map(|it| it.1).collect();
        assert_eq!(counts, ["1", "2", "4", "8", "16", "32", "64"], "{text}");
    }
}
