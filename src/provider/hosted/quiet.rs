//! Bounds how long a server may send data without content.
//!
//! Signs of life (comments, pings, empty pieces) keep a call alive while a model thinks or a queue is long,
//! but not for ever. Knows no protocol.

use std::time::{Duration, Instant};

use crate::limits::{HTTP_QUIET_BYTES, HTTP_QUIET_TIMES};

/// The data since the last content.
#[derive(Debug)]
pub(super) struct Quiet {
    since: Instant,
    bytes: usize,
    longest: Duration,
}

impl Quiet {
    /// Starts now, for a server that may send nothing at all for `patience`.
    pub(super) fn new(patience: Duration) -> Self {
        Self { since: Instant::now(), bytes: 0, longest: patience.saturating_mul(HTTP_QUIET_TIMES) }
    }

    /// Records received bytes and whether they had content. After too much or too long without content,
    /// returns what is wrong, as the end of a sentence.
    pub(super) fn heard(&mut self, bytes: usize, says: bool, now: Instant) -> Option<String> {
        if says {
            (self.since, self.bytes) = (now, 0);
            return None;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > HTTP_QUIET_BYTES {
            return Some(format!("sent {} bytes that say nothing", self.bytes));
        }
        let quiet = now.saturating_duration_since(self.since);
        (quiet > self.longest)
            .then(|| format!("gave nothing but signs of life for {} seconds", quiet.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_keep_call_alive_for_a_while() {
        let patience = Duration::from_secs(300);
        let mut quiet = Quiet::new(patience);
        let begun = quiet.since;
        let half = patience * HTTP_QUIET_TIMES / 2;
        assert_eq!(quiet.heard(1, false, begun + half), None);
        assert_eq!(quiet.heard(1, true, begun + half), None);
        assert_eq!(quiet.heard(1, false, begun + half * 3), None, "it said something in between");
        let told = quiet.heard(1, false, begun + half * 3 + Duration::from_secs(1));
        assert_eq!(told.unwrap(), "gave nothing but signs of life for 1801 seconds");
    }

    #[test]
    fn fast_signs_of_life_reach_byte_limit() {
        let mut quiet = Quiet::new(Duration::from_secs(300));
        let now = quiet.since;
        assert_eq!(quiet.heard(HTTP_QUIET_BYTES, false, now), None);
        assert!(quiet.heard(1, false, now).unwrap().contains("say nothing"));
        assert_eq!(quiet.heard(HTTP_QUIET_BYTES, true, now), None);
    }
}
