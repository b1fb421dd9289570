//! Frames that a client has received and no test has read yet.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::VecDeque;

use edn_bridge::value::Owned;

use super::{is_answer, kind};

/// A line and its frame.
pub struct Received {
    /// The received text.
    pub line: String,
    /// The parsed frame.
    pub frame: Owned,
}

/// Frames that arrived during other waits. They are kept for the life of the test, or until the test discards
/// them.
#[derive(Default)]
pub struct Ahead {
    /// Frames that arrived before an awaited answer, in order.
    frames: VecDeque<Received>,
    /// Answers that arrived before an awaited event.
    answers: Vec<Owned>,
}

impl Ahead {
    /// Takes the first frame.
    pub fn next(&mut self) -> Option<Received> {
        self.frames.pop_front()
    }

    /// Appends a frame.
    pub fn keep(&mut self, received: Received) {
        self.frames.push_back(received);
    }

    /// Takes the answer to a request, wherever it is.
    pub fn take(&mut self, id: &str) -> Option<Owned> {
        if let Some(place) = self.answers.iter().position(|frame| is_answer(frame, id)) {
            return Some(self.answers.remove(place));
        }
        let place = self.frames.iter().position(|received| is_answer(&received.frame, id))?;
        self.frames.remove(place).map(|received| received.frame)
    }

    /// Discards a frame if it is an event; keeps it if it is an answer.
    pub fn pass(&mut self, frame: Owned) {
        if kind(&frame) != "event" {
            self.answers.push(frame);
        }
    }

    /// Discards all frames.
    pub fn pass_all(&mut self) {
        while let Some(received) = self.next() {
            self.pass(received.frame);
        }
    }

    /// Drops unrequested answers, so that the next request may use their id.
    pub fn forget(&mut self, id: &str) {
        self.answers.retain(|frame| !is_answer(frame, id));
        self.frames.retain(|received| !is_answer(&received.frame, id));
    }
}
