//! The signals that ask a process of this program to end. Knows nothing of what is ended.

use std::time::Instant;

use edn_bridge::limits::SAME_SIGNAL;
use tokio::signal::unix::{SignalKind, signal};

/// The signals that ask the process to end.
struct Terminations([tokio::signal::unix::Signal; 3]);

impl Terminations {
    fn listen() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ]))
    }

    /// Waits for the next one, and returns its number.
    async fn next(&mut self) -> u8 {
        let [terminate, hangup, interrupt] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => 15,
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => 2,
        }
    }
}

/// Reports the first signal to end, on a thread of its own. A second one ends the process at once.
///
/// # Errors
/// If there are no threads left.
pub(super) fn on_termination(first: impl FnOnce(u8) + Send + 'static) -> std::io::Result<()> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    waiting.spawn(move || executor.block_on(terminate(first))).map(drop)
}

/// Reports the first signal to end. A second one ends the process at once: acknowledged entries are on disk.
pub(super) async fn terminate(first: impl FnOnce(u8)) {
    // A file that may not grow further is an error like a full disk, not the end of the process.
    let _too_large = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    let Ok(mut terminations) = Terminations::listen() else { return };
    first(terminations.next().await);
    let same = Instant::now().checked_add(SAME_SIGNAL);
    let second = loop {
        let signal = terminations.next().await;
        if same.is_none_or(|same| Instant::now() > same) {
            break signal;
        }
    };
    std::process::exit(128i32.saturating_add(second.into()))
}
