//! The log on standard error, which never holds anybody up.
//!
//! A thread of its own writes the lines. Whoever started the program may not read them: when a pipe's
//! worth and a queue are full, further lines are counted and left out.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use super::out;
use edn_bridge::limits::{LOG_END_WAIT, LOG_LINES};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Checks what is to be logged: a level, or a filter. A filter takes any word for the name of a part of the program, and
/// then logs nothing of all others.
pub(super) fn filter(given: &str) -> Result<String, String> {
    let levels = || LEVELS.join(", ");
    for part in given.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        let is_filter = part.contains(['=', '[']) || part.contains("::") || part == "edn_bridge";
        if !is_level && !is_filter {
            return Err(format!(
                "{part:?} is none of {}, and no filter such as edn_bridge::mcp=debug",
                levels()
            ));
        }
    }
    match EnvFilter::try_new(given) {
        Ok(_) => Ok(given.to_owned()),
        Err(error) => Err(format!("{error}; the levels are {}", levels())),
    }
}

/// What a level may be.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The way to the thread that writes. Cloned into the subscriber; started with the first line.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Inner>);

#[derive(Default)]
struct Inner {
    queue: OnceLock<SyncSender<LogMessage>>,
    /// Lines that were left out since the last one that was not.
    lost: AtomicU64,
}

enum LogMessage {
    Line(Vec<u8>),
    /// All before it is written.
    End(Sender<()>),
}

impl Log {
    /// Waits briefly until the log is written: there may be no reader.
    pub(super) fn end(&self) {
        let Some(queue) = self.0.queue.get() else { return };
        let (written, wait) = channel();
        if queue.try_send(LogMessage::End(written)).is_ok() {
            let _ = wait.recv_timeout(LOG_END_WAIT);
        }
    }

    fn queue(&self) -> &SyncSender<LogMessage> {
        self.0.queue.get_or_init(|| {
            let (sender, receiver) = sync_channel(LOG_LINES);
            // Without the thread the lines go nowhere, which is all that is left to do with them.
            let _ = std::thread::Builder::new().name("log".to_owned()).spawn(move || run(&receiver));
            sender
        })
    }
}

fn run(lines: &Receiver<LogMessage>) {
    for message in lines {
        match message {
            // Locked for one line: others write there as well.
            LogMessage::Line(line) => drop(out::stderr().write_all(&line)),
            LogMessage::End(written) => drop(written.send(())),
        }
    }
}

impl MakeWriter<'_> for Log {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine { log: self.clone(), bytes: Vec::new() }
    }
}

/// Lines without time and origin, as the program's own words to a person.
pub(super) struct ForPeople;

impl<S, N> FormatEvent<S, N> for ForPeople
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("edn-bridge: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// One line on its way. Sent when it is dropped.
pub(super) struct LogLine {
    log: Log,
    bytes: Vec<u8>,
}

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let lost = self.log.0.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let notice = format!("{lost} lines were left out here: standard error was not read\n");
            bytes.splice(0..0, notice.into_bytes());
        }
        if self.log.queue().try_send(LogMessage::Line(bytes)).is_err() {
            self.log.0.lost.fetch_add(lost.saturating_add(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_levels_and_filters_are_taken() {
        for well in ["", "debug", "WARN", "off", "warn,edn_bridge::mcp=debug", "edn_bridge", "rmcp=trace"] {
            assert_eq!(filter(well).as_deref(), Ok(well));
        }
        for wrong in ["bogus", "warn,loud", "verbose", "edn_bridge=loud"] {
            let told = filter(wrong).unwrap_err();
            assert!(told.contains("error, warn, info, debug, trace"), "{told}");
        }
    }
}
