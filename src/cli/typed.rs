//! What is typed at the terminal, and what it is for. One reader owns the input: a line belongs to what was on the screen
//! when its first byte came, a question or the next message. Knows neither questions nor messages.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use edn_bridge::clock::Clock;
use edn_bridge::limits::{QUESTION_SETTLES, TYPED_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};

/// How much is read at once.
const PART: usize = 4096;

/// The reader of standard input.
pub(in crate::cli) struct Typed {
    clock: Arc<dyn Clock>,
    /// Bytes of lines that nobody has asked for yet.
    unread: RefCell<Vec<u8>>,
    /// What was typed for the next message.
    draft: RefCell<Vec<u8>>,
    /// Whether the draft ends with a line that is not ended yet.
    is_begun: Cell<bool>,
}

/// A line that was typed while a question was on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum TypedLine {
    /// Its first byte came after the question.
    Answer(String),
    /// It was begun before. All of it is in the draft now.
    Older,
}

impl Typed {
    /// A reader that measures the time after a drawing with that clock.
    pub(in crate::cli) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, unread: RefCell::default(), draft: RefCell::default(), is_begun: Cell::new(false) }
    }

    /// Puts aside what was typed before a question was drawn, for the next message. Called when all of the question is on
    /// the screen. What is typed within [`QUESTION_SETTLES`] after that, or after the last byte of such typing, was begun
    /// before as well. Returns whether anything was put aside. Ends early if `stop` can be read.
    pub(in crate::cli) fn put_aside(&self, stop: Option<&UnixStream>) -> bool {
        self.move_to_draft(QUESTION_SETTLES, stop)
    }

    /// The next message as far as it is typed already.
    pub(in crate::cli) fn take_draft(&self) -> String {
        self.move_to_draft(Duration::ZERO, None);
        self.is_begun.set(false);
        edited(&String::from_utf8_lossy(&self.draft.take()))
    }

    /// The next line; `None` at the end of the input, or if `stop` can be read.
    pub(in crate::cli) fn line(&self, stop: Option<&UnixStream>) -> Option<TypedLine> {
        loop {
            let mut unread = self.unread.borrow_mut();
            if let Some(end) = memchr::memchr(b'\n', &unread) {
                let line: Vec<u8> = unread.drain(..=end).collect();
                if self.is_begun.take() {
                    append(&mut self.draft.borrow_mut(), &line);
                    return Some(TypedLine::Older);
                }
                return Some(TypedLine::Answer(String::from_utf8_lossy(&line).trim().to_owned()));
            }
            drop(unread);
            match waits(None, stop) {
                Waits::Input => {
                    let part = read()?;
                    append(&mut self.unread.borrow_mut(), &part);
                }
                Waits::Nothing => {}
                Waits::Stop => return None,
            }
        }
    }

    fn move_to_draft(&self, settles: Duration, stop: Option<&UnixStream>) -> bool {
        let mut draft = self.draft.borrow_mut();
        let before = draft.len();
        append(&mut draft, &self.unread.take());
        let Some(_bytes) = ByteMode::new() else {
            self.is_begun.set(has_begun_line(&draft));
            return draft.len() > before;
        };
        let mut last = self.clock.passed();
        loop {
            let left = settles.saturating_sub(self.clock.passed().saturating_sub(last));
            match waits(Some(left), stop) {
                Waits::Input => {
                    let Some(part) = read() else { break };
                    append(&mut draft, &part);
                    last = self.clock.passed();
                }
                Waits::Nothing if left.is_zero() => break,
                Waits::Nothing => {}
                Waits::Stop => break,
            }
        }
        self.is_begun.set(has_begun_line(&draft));
        draft.len() > before
    }
}

/// Adds what fits.
fn append(bytes: &mut Vec<u8>, part: &[u8]) {
    let room = TYPED_BYTES.saturating_sub(bytes.len()).min(part.len());
    bytes.extend_from_slice(part.get(..room).unwrap_or_default());
}

/// What ended a wait.
enum Waits {
    /// There is something to read, or the input has ended.
    Input,
    /// There is something on the other stream.
    Stop,
    /// The time is over.
    Nothing,
}

fn waits(within: Option<Duration>, stop: Option<&UnixStream>) -> Waits {
    let input = io::stdin();
    let mut ends = vec![PollFd::new(&input, PollFlags::IN)];
    ends.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    match poll(&mut ends, within.as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Waits::Nothing,
        Err(_) => Waits::Stop,
        Ok(_) if ends.get(1).is_some_and(|stop| !stop.revents().is_empty()) => Waits::Stop,
        Ok(_) => Waits::Input,
    }
}

/// What can be read at once; `None` at the end.
fn read() -> Option<Vec<u8>> {
    let mut part = vec![0; PART];
    loop {
        match rustix::io::read(io::stdin().as_fd(), &mut part) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(count) => {
                part.truncate(count);
                return Some(part);
            }
        }
    }
}

/// Whether there is something in the last line, which has no end.
fn has_begun_line(typed: &[u8]) -> bool {
    let last = typed.rsplit(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    !edited(&String::from_utf8_lossy(last)).is_empty()
}

/// The text that a person sees who types these characters: without the erased ones, and without other keys than letters.
fn edited(typed: &str) -> String {
    let mut text = String::new();
    let mut keys = typed.chars().peekable();
    while let Some(key) = keys.next() {
        match key {
            '\u{8}' | '\u{7f}' => drop(text.pop()),
            // The rest of a key such as an arrow.
            '\u{1b}' if keys.next_if(|next| matches!(next, '[' | 'O')).is_some() => {
                while keys.next().is_some_and(|part| matches!(part, ' '..='?')) {}
            }
            '\r' => text.push('\n'),
            '\n' | '\t' => text.push(key),
            key if key.is_control() => {}
            key => text.push(key),
        }
    }
    text.trim_end().to_owned()
}

/// A terminal that passes each byte on at once, also those of a line that was begun, and shows none, until this is dropped.
struct ByteMode(Termios);

impl ByteMode {
    /// `None` if standard input is no terminal, or cannot be read so. What the kernel has of a terminal is thrown away then:
    /// better lost than an answer.
    fn new() -> Option<Self> {
        let input = io::stdin();
        let before = tcgetattr(&input).ok()?;
        let mut bytes = before.clone();
        bytes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        // C-c ends the turn; it does not throw away what was typed for the next message.
        bytes.local_modes.insert(LocalModes::NOFLSH);
        bytes.special_codes[SpecialCodeIndex::VMIN] = 1;
        bytes.special_codes[SpecialCodeIndex::VTIME] = 0;
        if tcsetattr(&input, OptionalActions::Now, &bytes).is_err() {
            let _ = tcflush(&input, QueueSelector::IFlush);
            return None;
        }
        Some(Self(before))
    }
}

impl Drop for ByteMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_begun_until_it_is_ended_or_erased() {
        for (typed, expected) in [
            ("", false),
            ("y", true),
            ("y\n", false),
            ("y\r", false),
            ("one\ntw", true),
            ("y\u{7f}", false),
            ("\u{1b}[A", false),
        ] {
            assert_eq!(has_begun_line(typed.as_bytes()), expected, "{typed:?}");
        }
    }

    #[test]
    fn keys_that_are_no_letters_are_not_in_the_draft() {
        for (typed, text) in [
            ("yes\n", "yes"),
            ("ab\u{7f}c\r\nd", "ac\n\nd"),
            ("a\u{1b}[Ab\u{1b}[1;5Cc\u{1b}OPd\u{1b}e", "abcde"),
            ("\u{0}\u{4}x\u{3}", "x"),
        ] {
            assert_eq!(edited(typed), text, "{typed:?}");
        }
    }
}
