//! The outputs of every command except `serve`. A terminal shows codes in place of hidden characters; a pipe or a file
//! receives the text unchanged.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use edn_bridge::visible;

use super::failure::{Exit, Failure};

/// Standard output.
pub(super) fn stdout() -> visible::Writer<io::StdoutLock<'static>> {
    let out = io::stdout();
    let shows = out.is_terminal();
    visible::Writer::new(out.lock(), shows)
}

/// Writes a text to standard output.
///
/// A reader that closes the pipe early, such as `head`, has what it wants: that is no failure.
pub(super) fn print(text: &str) -> Exit {
    match stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::io("standard output")(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes a text to standard output in which hidden characters are codes already, and which may have colours.
pub(super) fn show(text: &str) -> Exit {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::io("standard output")(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Says on standard error why there is nothing on standard output.
pub(super) fn note(text: &str) -> Exit {
    let _ = writeln!(stderr(), "{text}");
    Ok(ExitCode::SUCCESS)
}

/// Standard error.
pub(super) fn stderr() -> visible::Writer<io::StderrLock<'static>> {
    let out = io::stderr();
    let shows = out.is_terminal();
    visible::Writer::new(out.lock(), shows)
}
