//! Text on standard input for a prompt: the message itself, or something beside it.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;

use edn_bridge::limits::MAX_LINE_BYTES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::failure::{Failure, USAGE};
use super::out;

/// After so long without text, a person is told what the program waits for.
const QUIET: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// Whether something was put into standard input: a pipe or a file, and no terminal and no /dev/null.
pub(super) fn is_piped() -> bool {
    let kind = fstat(io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket))
}

/// The whole text of standard input.
///
/// # Errors
/// When it cannot be read, is longer than a message may be, or is no text.
pub(super) fn read() -> Result<String, Failure> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        let _ = writeln!(out::stderr(), "edn-bridge: the message comes from the terminal; C-d ends it");
    } else {
        let mut waits = [PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        if matches!(poll(&mut waits, Some(&QUIET)), Ok(0)) {
            let told = "edn-bridge: waiting for the end of standard input; </dev/null leaves it out";
            let _ = writeln!(out::stderr(), "{told}");
        }
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    let read = stdin.lock().take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(Failure::io("standard input"))?;
    if bytes.len() > MAX_LINE_BYTES {
        let message =
            format!("standard input has more than the {MAX_LINE_BYTES} bytes that a message may have");
        return Err(Failure::Status { code: USAGE, message });
    }
    let not_text = |at: usize| {
        let message = format!("standard input is no text: the byte at offset {at} belongs to no UTF-8 text");
        Failure::Status { code: USAGE, message }
    };
    // A zero byte is valid UTF-8, and never part of a text.
    if let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        return Err(not_text(at));
    }
    String::from_utf8(bytes).map_err(|error| not_text(error.utf8_error().valid_up_to()))
}
