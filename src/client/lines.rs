//! A server's lines, read on a thread of their own, so that a wait for one can time out. Does not know what a line
//! says.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::LONGEST_LINE;

/// The lines of one stream.
#[derive(Debug)]
pub struct Lines {
    lines: Receiver<Vec<u8>>,
    gate: Arc<Gate>,
}

/// No line arrived before the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

impl Lines {
    /// Reads lines until the stream ends, and keeps them until they are taken.
    pub fn new(stream: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        let gate = Arc::new(Gate::default());
        let passed = gate.clone();
        std::thread::spawn(move || read(stream, &sender, &passed));
        Self { lines, gate }
    }

    /// The next line without its end; `None` after the last.
    ///
    /// # Errors
    /// If none arrives before the deadline.
    pub fn next(&self, deadline: Instant) -> Result<Option<Vec<u8>>, TimedOut> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(TimedOut),
        }
    }

    /// Stops reading the stream after the current line.
    pub fn pause(&self) {
        self.gate.set(true);
    }

    /// Reads the stream again.
    pub fn resume(&self) {
        self.gate.set(false);
    }
}

impl Drop for Lines {
    /// Lets the reading thread end.
    fn drop(&mut self) {
        self.resume();
    }
}

/// Blocks the reading thread while it is shut.
#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, shut: bool) {
        *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = shut;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.moved.wait_while(shut, |shut| *shut));
    }
}

fn read(stream: impl Read, lines: &Sender<Vec<u8>>, gate: &Gate) {
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    loop {
        gate.pass();
        let mut line = Vec::new();
        if !matches!(stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if lines.send(line).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Duration;

    use super::*;
    use crate::local::Stream;

    #[test]
    fn lines_arrive_in_order_and_wait_times_out() {
        let (ours, mut theirs) = Stream::pair().unwrap();
        let lines = Lines::new(ours);
        let patience = || Instant::now() + Duration::from_secs(60);
        theirs.write_all(b"one\n\ntwo").unwrap();
        assert_eq!(lines.next(patience()), Ok(Some(b"one".to_vec())));
        assert_eq!(lines.next(patience()), Ok(Some(Vec::new())));
        assert_eq!(lines.next(Instant::now()), Err(TimedOut), "a line that has not ended");
        drop(theirs);
        assert_eq!(lines.next(patience()), Ok(Some(b"two".to_vec())));
        assert_eq!(lines.next(patience()), Ok(None));
    }
}
