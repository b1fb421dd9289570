//! How far something is that takes longer than a second: a bar on a terminal, a line for each tenth in a pipe, so that a
//! log stays readable.

use std::cell::RefCell;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::out;
use super::style::{Meaning, Painter};

/// What takes no longer than that shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Cells of the bar.
const CELLS: u64 = 30;

/// Shows how far something is, on standard error.
pub(super) struct Bar {
    painter: Painter,
    began: Instant,
    shown: RefCell<Option<String>>,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self { painter: Painter::stderr(), began: Instant::now(), shown: RefCell::default() }
    }

    /// Whether it is shown on a terminal.
    pub(super) fn is_live(&self) -> bool {
        self.painter.is_live()
    }

    /// Tells something once.
    pub(super) fn say(&self, what: &str) {
        self.put(format!("edn-bridge: {what}"), true);
    }

    /// Shows that so much of the whole is done.
    pub(super) fn show(&self, what: &str, done: u64, total: u64) {
        let part = |of: u64| done.min(total).saturating_mul(of).checked_div(total).unwrap_or(0);
        if !self.painter.is_live() {
            return self.put(format!("edn-bridge: {what}: {} %", part(10).saturating_mul(10)), true);
        }
        if self.began.elapsed() < PATIENCE {
            return;
        }
        let cells = usize::try_from(part(CELLS)).unwrap_or_default();
        let rest = usize::try_from(CELLS).unwrap_or_default().saturating_sub(cells);
        let bar = self.painter.paint(Meaning::Name, &"━".repeat(cells));
        let rest = self.painter.paint(Meaning::Faint, &"─".repeat(rest));
        self.put(format!("{bar}{rest} {:>3} %  {what}", part(100)), false);
    }

    fn put(&self, line: String, is_whole: bool) {
        let mut shown = self.shown.borrow_mut();
        if shown.as_ref() == Some(&line) {
            return;
        }
        let _ = match is_whole {
            true => writeln!(out::stderr(), "{line}"),
            false => write!(std::io::stderr().lock(), "\r\u{1b}[K{line}"),
        };
        *shown = Some(line);
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        if self.painter.is_live() && self.shown.borrow_mut().take().is_some() {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}
