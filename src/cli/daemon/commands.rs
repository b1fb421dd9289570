//! `edn-bridge daemon …`: what a person asks of the daemon.

use std::fmt::Write as _;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Subcommand;
use edn_bridge::limits::{DAEMON_START, REPLACED_ANSWER, REPLACED_AT_ONCE};
use edn_bridge::private;
use edn_bridge::wire::transport::socket;
use rustix::fs::OFlags;

use super::super::failure::{Exit, FAILED, Failure};
use super::super::options::Options;
use super::super::out;
use super::daemon_files::{
    connect_or_start, connect_or_wait, described, holder, log_path, mute, silent, wait_for_end,
    wait_until_gone,
};
use super::host;
use super::line::{self, Ask, DaemonReply, Lines, Refused, Status, Working};

/// What is asked of the daemon.
#[derive(Subcommand)]
pub(in super::super) enum DaemonCommand {
    /// Runs the daemon in this process, for a service manager. `serve` starts it by itself.
    Run {
        /// Says on standard output that it is ready, or why it is not.
        #[arg(long, hide = true)]
        announce: bool,
    },
    /// Starts the daemon unless it runs.
    Start,
    /// Shows what runs, what is waiting for an answer, and who is there, in replaced daemons too. Exit status 3 if no
    /// daemon runs.
    Status {
        /// The format: text or edn.
        #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "edn"])]
        format: String,
    },
    /// Ends the daemon, and those that it has replaced. Refuses while something runs or waits, unless --now is given.
    Stop {
        /// Also end what runs. Finished messages are kept, answers that stream are cut.
        #[arg(long)]
        now: bool,
    },
    /// Starts a new daemon that takes over, for example after an upgrade. Turns go on in it.
    Restart,
    /// Prints the newest part of the daemon's log.
    Log,
    /// Prints a unit that starts the daemon at login: for systemd, or for launchd on macOS.
    Unit,
}

/// The exit status of `status` without a daemon, as service managers have it.
const NOT_RUNNING: u8 = 3;

/// The bytes of the log that are shown.
const SHOWN_LOG: u64 = 16 * 1024;

/// The least time for which a line is sent: none at all would be no bound.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Does what is asked.
pub(in super::super) fn run(options: &Options, command: DaemonCommand) -> Exit {
    match command {
        DaemonCommand::Run { announce } => host::run(options, announce),
        DaemonCommand::Start => start(options),
        DaemonCommand::Status { format } => status(options, format == "edn"),
        DaemonCommand::Stop { now } => end(options, now),
        DaemonCommand::Restart => restart(options),
        DaemonCommand::Log => log(options),
        DaemonCommand::Unit => unit(),
    }
}

/// Starts the daemon, unless one answers: that of a process which ends takes connections until its last moment.
fn start(options: &Options) -> Exit {
    let state_dir = options.state_folder()?;
    let answers = || {
        let stream = connect_or_start(&state_dir, options).map_err(Failure::start)?;
        asked_at(&stream, &Ask::Status, DAEMON_START)
    };
    let is_new = matches!(seen(options), Ok(None));
    let answer = answers().or_else(|_| answers())?;
    let begins = if is_new { "The daemon was started" } else { "The daemon runs already" };
    match answer {
        DaemonReply::Status(Status { pid, .. }) => out::print(&format!("{begins}: process {pid}.\n")),
        _ => out::print(&format!("{begins}.\n")),
    }
}

/// Asks the daemon; `None` if none runs. One that is asked to end and ends without an answer has done so.
fn ask(options: &Options, ask: &Ask) -> Result<Option<DaemonReply>, Failure> {
    let state_dir = options.state_folder()?;
    let failed = |error| Failure::Io { place: "the daemon".to_owned(), error };
    let Some(stream) = connect_or_wait(&state_dir).map_err(failed)? else {
        return match holder(&state_dir).map_err(failed)? {
            // One that has not said who it is has only begun.
            Some(0) | None => Ok(None),
            Some(process) => Err(Failure::Failed(mute(process))),
        };
    };
    asked_at(&stream, ask, DAEMON_START).map(Some)
}

/// A daemon that runs.
pub(in super::super) struct Seen {
    pub(in super::super) pid: u32,
    pub(in super::super) build: String,
    /// How many sessions work or wait in it.
    pub(in super::super) at_work: usize,
}

/// The daemon; `None` if none runs.
pub(in super::super) fn seen(options: &Options) -> Result<Option<Seen>, Failure> {
    Ok(match ask(options, &Ask::Status)? {
        Some(DaemonReply::Status(Status { pid, build, engines, .. })) => {
            let at_work = engines.iter().map(|engine| engine.at_work.len()).sum();
            Some(Seen { pid, build, at_work })
        }
        _ => None,
    })
}

/// Asks the daemon at the other end of a connection.
fn asked_at(stream: &UnixStream, ask: &Ask, patience: Duration) -> Result<DaemonReply, Failure> {
    let is_to_end = matches!(ask, Ask::Stop { .. } | Ask::Retire);
    let _ = stream.set_write_timeout(Some(patience.max(LEAST_WAIT)));
    // One that is refused at once is told so, though its line does not arrive.
    let sent = line::send(stream, ask, &[]);
    let mut lines = Lines::new(stream);
    lines.within(Some(patience));
    let told = match lines.next() {
        // It ended while it was asked.
        Err(error) if is_to_end && error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        told => told.map_err(|error| sent.err().unwrap_or(error)),
    };
    let told = told.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Failure::Failed(silent(stream)),
        _ => Failure::Io { place: "the daemon's answer".to_owned(), error },
    })?;
    match told {
        Some(DaemonReply::Refused { message, .. }) => Err(Failure::Failed(message)),
        Some(told) => Ok(told),
        None if is_to_end => Ok(DaemonReply::Ending),
        None => Err(Failure::Failed("the daemon did not answer".to_owned())),
    }
}

/// The answer of a daemon that another one has replaced and that still has work.
struct ReplacedDaemon {
    /// The path of its socket.
    path: PathBuf,
    /// What it says; `None` if it does not answer, of which the person has been told.
    told: Option<DaemonReply>,
}

/// Asks the daemons that another one has replaced, several at once. One that does not answer is named on standard error.
fn ask_replaced(state_dir: &Path, ask: &Ask) -> Vec<ReplacedDaemon> {
    let begun = Instant::now();
    let paths = Mutex::new(socket::replaced(state_dir).into_iter());
    let next = || paths.lock().unwrap_or_else(PoisonError::into_inner).next();
    let answers = Mutex::new(Vec::new());
    let asking = || {
        while let Some(path) = next() {
            let left = REPLACED_ANSWER.saturating_sub(begun.elapsed());
            if let Some(told) = asked_of(&path, ask, left) {
                answers.lock().unwrap_or_else(PoisonError::into_inner).push((path, told));
            }
        }
    };
    let count = paths.lock().unwrap_or_else(PoisonError::into_inner).len().min(REPLACED_AT_ONCE);
    std::thread::scope(|scope| {
        for _ in 1..count {
            // Where no thread can be had, those that there are ask more.
            let _ = std::thread::Builder::new().name("ask".to_owned()).spawn_scoped(scope, asking);
        }
        asking();
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
    let mut answers: Vec<_> = answers
        .map(|(path, told)| {
            let told = told.inspect_err(|failure| {
                let place = path.display();
                let _ = writeln!(
                    out::stderr(),
                    "edn-bridge: a replaced daemon does not answer at {place}: {failure}"
                );
            });
            ReplacedDaemon { path, told: told.ok() }
        })
        .collect();
    answers.sort_by(|one, other| other.path.cmp(&one.path));
    answers
}

/// What the daemon at a socket says, or why it does not; `None` if there is none any more.
fn asked_of(path: &Path, ask: &Ask, patience: Duration) -> Option<Result<DaemonReply, Failure>> {
    let told = match socket::connect_replaced(path) {
        Ok(None) => return None,
        Ok(Some(stream)) => asked_at(&stream, ask, patience),
        Err(error) => Err(Failure::Io { place: "it takes no connection".to_owned(), error }),
    };
    match told {
        // It has ended meanwhile.
        Err(_) if socket::is_gone(path).unwrap_or(false) => None,
        told => Some(told),
    }
}

/// What runs in the replaced daemons.
fn replaced(state_dir: &Path) -> Vec<Status> {
    let answers = ask_replaced(state_dir, &Ask::Status).into_iter();
    answers
        .filter_map(
            |answer| if let Some(DaemonReply::Status(status)) = answer.told { Some(status) } else { None },
        )
        .collect()
}

/// What is shown if no daemon runs, but replaced ones do.
#[derive(serde::Serialize)]
struct ReplacedAlone {
    replaced: Vec<Status>,
}

fn status(options: &Options, is_edn: bool) -> Exit {
    let newest = match ask(options, &Ask::Status)? {
        Some(DaemonReply::Status(status)) => Some(status),
        _ => None,
    };
    let replaced = replaced(&options.state_folder()?);
    let code = ExitCode::from(if newest.is_some() { 0 } else { NOT_RUNNING });
    let text = match (newest, is_edn) {
        (Some(status), true) => as_line(&Status { replaced, ..status })?,
        (None, true) if replaced.is_empty() => "nil\n".to_owned(),
        (None, true) => as_line(&ReplacedAlone { replaced })?,
        (newest, false) => {
            let mut text = newest.as_ref().map_or_else(|| "No daemon runs.\n".to_owned(), report);
            for status in &replaced {
                let Status { pid, build, started_at, .. } = status;
                let _ = writeln!(
                    text,
                    "A replaced daemon ends when this has ended: process {pid}, version {}, since {}.",
                    on_one_line(build),
                    on_one_line(started_at)
                );
                engines(&mut text, status);
            }
            text
        }
    };
    out::print(&text)?;
    Ok(code)
}

fn as_line(value: &impl serde::Serialize) -> Result<String, Failure> {
    let line = edn_bridge::edn::to_vec(value).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(format!("{}\n", String::from_utf8_lossy(&line)))
}

fn engines(text: &mut String, status: &Status) {
    for engine in &status.engines {
        let clients = match engine.clients {
            1 => "1 client".to_owned(),
            count => format!("{count} clients"),
        };
        let _ = writeln!(text, "{}  ({clients})", on_one_line(&engine.cwd));
        working(text, &engine.at_work);
    }
}

fn report(status: &Status) -> String {
    let Status { pid, build, started_at, refused, .. } = status;
    let mut text = format!("The daemon runs: process {pid}, version {build}, since {started_at}.\n");
    if status.engines.is_empty() {
        text.push_str("Nothing runs in it.\n");
    }
    engines(&mut text, status);
    for Refused { session, cwd, why } in refused {
        let _ = writeln!(
            text,
            "{}  {session} was at work and is not opened by itself: {}",
            on_one_line(cwd),
            on_one_line(why)
        );
    }
    text
}

/// A foreign text without line feeds and other control characters.
fn on_one_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    line
}

fn working(text: &mut String, all: &[Working]) {
    for work in all {
        let what = match &work.asks {
            Some(kind) => format!("waits for an answer ({kind})"),
            None if work.phase == "idle" => "a command runs".to_owned(),
            None => work.phase.clone(),
        };
        let _ = writeln!(text, "  {}  {what}  {}", work.session, on_one_line(&work.name));
    }
}

/// Has the daemon leave its place to a new one, which is started.
fn restart(options: &Options) -> Exit {
    let state_dir = options.state_folder()?;
    let about = described(&state_dir).map_err(Failure::io("the daemon's lock"))?;
    let told = ask(options, &Ask::Retire)?;
    if told.is_some() {
        wait_for_end(&state_dir, &about).map_err(Failure::io("the daemon"))?;
    }
    connect_or_start(&state_dir, options).map_err(Failure::start)?;
    let Some(DaemonReply::Working(all)) = told else {
        return out::print(match told {
            Some(_) => "A new daemon runs in the place of the old one.\n",
            None => "No daemon ran; one was started.\n",
        });
    };
    {
        let mut text =
            "A new daemon runs. It continues this when a running tool or answer has ended; `edn-bridge daemon status` \
             shows what stays in the old one:\n"
                .to_owned();
        working(&mut text, &all);
        out::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the daemon, and those that it has replaced.
fn end(options: &Options, now: bool) -> Exit {
    let state_dir = options.state_folder()?;
    let about = described(&state_dir).map_err(Failure::io("the daemon's lock"))?;
    let how = Ask::Stop { now };
    // First: the daemon that runs must not end if one of them refuses.
    let replaced = ask_replaced(&state_dir, &how);
    let is_one_silent = replaced.iter().any(|answer| answer.told.is_none());
    if is_one_silent && !now {
        let message = "The daemon does not end, because a replaced one may have work and does not answer (--now ends \
                       those that do)";
        return Err(Failure::Failed(message.to_owned()));
    }
    let mut works = Vec::new();
    for answer in &replaced {
        if let Some(DaemonReply::Working(all)) = &answer.told {
            works.extend(all.iter().cloned());
        }
    }
    let newest = if works.is_empty() {
        ask(options, &how)?
    } else {
        // It is not ended, but what runs in it is named too.
        let status = ask(options, &Ask::Status)?;
        if let Some(DaemonReply::Status(Status { engines, .. })) = &status {
            works.extend(engines.iter().flat_map(|engine| engine.at_work.iter().cloned()));
        }
        status
    };
    if let Some(DaemonReply::Working(all)) = &newest {
        works.extend(all.iter().cloned());
    }
    if !works.is_empty() {
        let mut text =
            "The daemon does not end, because this runs (--now ends it all the same):\n".to_owned();
        working(&mut text, &works);
        out::print(&text)?;
        return Ok(ExitCode::from(FAILED));
    }
    for ReplacedDaemon { path, .. } in replaced.iter().filter(|answer| answer.told.is_some()) {
        wait_until_gone(path).map_err(Failure::io("a replaced daemon"))?;
    }
    match newest {
        None if replaced.is_empty() => return out::print("No daemon runs.\n"),
        None => {}
        Some(_) => wait_for_end(&state_dir, &about).map_err(Failure::io("the daemon"))?,
    }
    if is_one_silent {
        return Ok(ExitCode::from(FAILED));
    }
    out::print("The daemon was stopped.\n")
}

fn log(options: &Options) -> Exit {
    let path = log_path(&options.state_folder()?);
    let read = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = private::open_regular(&path, options.read(true), OFlags::empty())?;
        let from = file.metadata()?.len().saturating_sub(SHOWN_LOG);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(SHOWN_LOG).read_to_end(&mut bytes)?;
        Ok((from > 0, bytes))
    };
    match read() {
        Ok((is_cut, bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            let whole = if is_cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &*text };
            out::print(whole)
        }
        Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => out::print(""),
        Err(error) => Err(Failure::Io { place: path.display().to_string(), error }),
    }
}

fn unit() -> Exit {
    let program = std::env::current_exe().map_err(Failure::io("this program"))?;
    let program = program.to_str().filter(|path| !path.contains(char::is_control));
    let Some(program) = program else {
        return Err(Failure::Failed("the path of this program cannot be written into a unit".to_owned()));
    };
    let quoted = program.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let escaped = program.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    out::print(&if cfg!(target_os = "macos") {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!-- ~/Library/LaunchAgents/edn-bridge.plist; then: launchctl load ~/Library/LaunchAgents/edn-bridge.plist -->\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\"><dict>\n  <key>Label</key><string>edn-bridge</string>\n  \
             <key>ProgramArguments</key><array><string>{escaped}</string><string>daemon</string><string>run</string></array>\n  \
             <key>RunAtLoad</key><true/>\n</dict></plist>\n"
        )
    } else {
        format!(
            "# ~/.config/systemd/user/edn-bridge.service; then: systemctl --user enable --now edn-bridge\n\
             # With :idle-exit-ms :never it stays; otherwise it ends when it is not needed, and serve starts it again.\n\
             [Unit]\nDescription=edn-bridge, which runs coding agents for editors\n\n\
             [Service]\nExecStart=\"{quoted}\" daemon run\n# Turns get the time to end.\nTimeoutStopSec=20\n\n\
             [Install]\nWantedBy=default.target\n"
        )
    })
}
