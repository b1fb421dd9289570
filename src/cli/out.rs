//! The program's outputs, as every command but `serve` writes to them: what a person reads on a terminal
//! has codes in the place of hidden characters, a pipe or a file is sent the text as it is.

use std::io::{self, IsTerminal as _};

use edn_bridge::visible;

/// Standard output.
pub(super) fn stdout() -> visible::Writer<io::StdoutLock<'static>> {
    let out = io::stdout();
    let shows = out.is_terminal();
    visible::Writer::new(out.lock(), shows)
}

/// Standard error.
pub(super) fn stderr() -> visible::Writer<io::StderrLock<'static>> {
    let out = io::stderr();
    let shows = out.is_terminal();
    visible::Writer::new(out.lock(), shows)
}
