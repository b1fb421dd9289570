//! What a client was sent and no test has come to yet.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::VecDeque;

use edn_bridge::value::Owned;

use super::{is_answer, kind};

/// A line, and the frame that it is.
pub struct Received {
    /// As it came.
    pub line: String,
    /// As it was read.
    pub frame: Owned,
}

/// Frames that came while something else was awaited. They are kept for as long as the test lives, or until
/// it passes over them.
#[derive(Default)]
pub struct Ahead {
    /// What came before an answer that was awaited, in order.
    frames: VecDeque<Received>,
    /// Answers that came before an event that was awaited.
    answers: Vec<Owned>,
}

impl Ahead {
    /// Takes the first frame.
    pub fn next(&mut self) -> Option<Received> {
        self.frames.pop_front()
    }

    /// Keeps a frame behind the others.
    pub fn keep(&mut self, received: Received) {
        self.frames.push_back(received);
    }

    /// Takes the answer to a request, wherever it stands.
    pub fn take(&mut self, id: &str) -> Option<Owned> {
        if let Some(place) = self.answers.iter().position(|frame| is_answer(frame, id)) {
            return Some(self.answers.remove(place));
        }
        let place = self.frames.iter().position(|received| is_answer(&received.frame, id))?;
        self.frames.remove(place).map(|received| received.frame)
    }

    /// Passes over a frame. An event is gone with that, an answer is not.
    pub fn pass(&mut self, frame: Owned) {
        if kind(&frame) != "event" {
            self.answers.push(frame);
        }
    }

    /// Passes over all frames.
    pub fn pass_all(&mut self) {
        while let Some(received) = self.next() {
            self.pass(received.frame);
        }
    }

    /// Drops answers that nobody asked for, so that the next request may have their id.
    pub fn forget(&mut self, id: &str) {
        self.answers.retain(|frame| !is_answer(frame, id));
        self.frames.retain(|received| !is_answer(&received.frame, id));
    }
}
