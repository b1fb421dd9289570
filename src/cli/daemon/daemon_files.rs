//! Where a daemon is found: its lock, its log, and the start of a new one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::claims::Claim;
use edn_bridge::edn;
use edn_bridge::limits::{DAEMON_BINDS_AGAIN, DAEMON_END, DAEMON_LOG_BYTES, DAEMON_START};
use edn_bridge::private;
use edn_bridge::runner::lineage;
use edn_bridge::wire::transport::socket;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::super::lock::{LOCK_PAUSE, Lock};
use super::at_work_list::is_untouched;
use super::line::{self, Ask, DaemonReply, HandedSession, Lines};
use crate::cli::options::Options;

/// The bytes of a lock that are read. A daemon writes some hundred.
const LOCK_BYTES: u64 = 4 * 1024;

/// What a daemon writes to its standard output once clients can connect.
pub(super) const READY: &str = "ready\n";

/// The variables that a daemon is started with. Clients bring their own to their engines.
const INHERITED: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "RUST_BACKTRACE",
    "EDN_BRIDGE_LOG",
    "EDN_BRIDGE_LOG_FORMAT",
];

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDaemon {
    /// Its files are not usable.
    #[error("the daemon's files in {}: {source}", folder.display())]
    Files {
        /// Their folder.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// This program was started by a session, whose commands start no daemon: it would serve the user.
    #[error("a program that a session has started may not start the daemon")]
    Inside,
    /// It was started and said why it cannot go on.
    #[error("the daemon did not start: {0}")]
    Failed(String),
}

/// The file whose holder is the daemon: the lock is the truth, and the socket a pointer. It does not lie beside the sockets,
/// which may be removed all together.
pub(super) fn lock_path(state_dir: &Path) -> PathBuf {
    state_dir.join("daemon.lock")
}

/// The number of the process that holds the daemon's lock; `None` if nobody does. One that has not said it yet is 0.
pub(super) fn holder(state_dir: &Path) -> io::Result<Option<u32>> {
    let opened = private::open_regular(&lock_path(state_dir), OpenOptions::new().read(true), OFlags::empty());
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let about = described(state_dir)?;
            let pid = edn::read_one(about.as_bytes()).ok().and_then(|about| about.get("pid")?.as_i64());
            Ok(Some(pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Connects to the daemon. One that has lost its socket or its lock binds and takes it again soon, which is waited for; `None`
/// if there is none after that.
pub(super) fn connect_or_wait(state_dir: &Path) -> io::Result<Option<UnixStream>> {
    let begun = Instant::now();
    loop {
        match socket::connect_daemon(state_dir) {
            Ok(stream) if holder(state_dir)?.is_some() => return Ok(Some(stream)),
            // The daemon's lock was just removed, unless nobody takes it again.
            Ok(_) if !lock_path(state_dir).exists() && begun.elapsed() < DAEMON_BINDS_AGAIN => {
                std::thread::sleep(LOCK_PAUSE);
            }
            // Nobody holds it: whoever listens is no daemon, and the next one takes the place.
            Ok(_) => return Ok(None),
            Err(error) if !is_missing(&error) => return Err(error),
            Err(_) if begun.elapsed() < DAEMON_BINDS_AGAIN && holder(state_dir)?.is_some() => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(_) => return Ok(None),
        }
    }
}

/// What a person reads about a daemon that does not answer.
pub(super) fn silent(stream: &UnixStream) -> String {
    match socket::process_of(stream) {
        Some(process) => format!(
            "no answer came in time. Process {process} is stopped or hangs: `kill -CONT {process}` resumes it, `kill \
             -KILL {process}` ends it"
        ),
        None => "no answer came in time".to_owned(),
    }
}

/// What a person reads about a process that is the daemon by its lock, and cannot be asked.
pub(super) fn mute(process: u32) -> String {
    format!(
        "process {process} holds the daemon's lock and has no socket: it ends, is stopped or hangs. `kill -CONT {process}` \
         resumes it, `kill -KILL {process}` ends it"
    )
}

/// Waits until the daemon that `about` describes has ended, or another one has taken its place. `about` is the content of
/// its lock.
pub(super) fn wait_for_end(state_dir: &Path, about: &str) -> io::Result<()> {
    let path = lock_path(state_dir);
    let begun = Instant::now();
    while begun.elapsed() < DAEMON_END {
        if described(state_dir)? != about || Lock::take(&path, Duration::ZERO)?.is_some() {
            return Ok(());
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "it has not ended yet"))
}

/// Waits until a replaced daemon has ended, which has its socket at a path.
pub(super) fn wait_until_gone(socket: &Path) -> io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < DAEMON_END {
        if socket::is_gone(socket)? {
            return Ok(());
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "it has not ended yet"))
}

/// What the lock says of the daemon; nothing if there is none.
///
/// # Errors
/// If something else stands in its place, which must go before a daemon is asked to leave: it could not be followed.
pub(super) fn described(state_dir: &Path) -> io::Result<String> {
    let mut text = Vec::new();
    match private::open_regular(&lock_path(state_dir), OpenOptions::new().read(true), OFlags::empty()) {
        Ok(file) => file.take(LOCK_BYTES).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Hands a session over to the daemon that runs, with its note. One that is replaced meanwhile does not take it: then to the
/// one that follows.
pub(super) fn hand_over(state_dir: &Path, handed: HandedSession, note: Option<&Claim>) -> io::Result<()> {
    let (begun, ask) = (Instant::now(), Ask::TakeOver(Box::new(handed)));
    loop {
        match offer(state_dir, &ask, note) {
            Ok(()) => return Ok(()),
            Err(NotTaken::Yet(_)) if begun.elapsed() < DAEMON_START => std::thread::sleep(LOCK_PAUSE),
            Err(NotTaken::Yet(error) | NotTaken::Never(error)) => return Err(error),
        }
    }
}

/// Why a session was not handed over.
enum NotTaken {
    /// No daemon has begun to open it: the one that follows may take it.
    Yet(io::Error),
    /// Another reason.
    Never(io::Error),
}

/// Offers a session to the daemon that runs.
fn offer(state_dir: &Path, ask: &Ask, note: Option<&Claim>) -> Result<(), NotTaken> {
    let stream = socket::connect_daemon(state_dir).map_err(|error| {
        // A daemon that takes the place of another has no socket there for a moment.
        if is_missing(&error) { NotTaken::Yet(error) } else { NotTaken::Never(error) }
    })?;
    let asked = || {
        stream.set_write_timeout(Some(DAEMON_START))?;
        line::send(&stream, ask, note.map(Claim::descriptor).as_slice())?;
        let mut lines = Lines::new(&stream);
        lines.within(Some(DAEMON_START));
        lines.next()
    };
    let ended = |error| match note.is_some_and(is_untouched) {
        true => NotTaken::Yet(error),
        // It was about to open the session, which may be why it has ended.
        false => NotTaken::Never(error),
    };
    match asked() {
        Ok(Some(DaemonReply::TakenOver)) => Ok(()),
        Ok(Some(DaemonReply::NotTaken)) => {
            Err(NotTaken::Yet(io::Error::other("the daemon has left its place, and none follows")))
        }
        Ok(Some(DaemonReply::Refused { message, .. })) => Err(NotTaken::Never(io::Error::other(message))),
        Ok(Some(_)) => Err(NotTaken::Never(io::Error::other("the daemon gave another answer"))),
        Ok(None) => Err(ended(io::Error::other("the daemon has ended"))),
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            Err(ended(error))
        }
        Err(error) => Err(NotTaken::Never(error)),
    }
}

/// The daemon's log.
pub(super) fn log_path(state_dir: &Path) -> PathBuf {
    state_dir.join("daemon.log")
}

/// Connects to the daemon, and starts it if there is none: once, however many clients do so at the same time.
pub(super) fn connect_or_start(state_dir: &Path, options: &Options) -> Result<UnixStream, NoDaemon> {
    let folder = socket::folder(state_dir);
    let files = |source| NoDaemon::Files { folder: folder.clone(), source };
    let connect = || connect_or_wait(state_dir).map_err(files);
    if let Some(stream) = connect()? {
        return Ok(stream);
    }
    if lineage::is_below_a_runner(std::process::id()) {
        return Err(NoDaemon::Inside);
    }
    private::make_folder(state_dir).map_err(files)?;
    let starting = Lock::take(&state_dir.join("daemon.start.lock"), DAEMON_START).map_err(files)?;
    let Some(_one_at_a_time) = starting else {
        return Err(NoDaemon::Failed("another program has been starting it for too long".to_owned()));
    };
    for _ in 0..STARTS {
        if let Some(stream) = connect()? {
            return Ok(stream);
        }
        if let Err(error) = start(state_dir, options) {
            // Another one may have come first: whoever began to start it is gone.
            return connect()?.ok_or_else(|| match holder(state_dir) {
                Ok(Some(process @ 1..)) => NoDaemon::Failed(mute(process)),
                _ => error,
            });
        }
        // It may have been asked to end by now.
    }
    connect()?.ok_or_else(|| NoDaemon::Failed("it ends again and again".to_owned()))
}

/// How often a daemon is started that ends before it can be asked.
const STARTS: usize = 3;

/// Whether an error says that no daemon runs.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Starts a daemon and waits until it can be connected to.
fn start(state_dir: &Path, options: &Options) -> Result<(), NoDaemon> {
    let files = |source| NoDaemon::Files { folder: state_dir.to_owned(), source };
    let log_file = open_log(state_dir).map_err(files)?;
    let kept = std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| {
            INHERITED.contains(&name) || ["LC_", "OTEL_"].iter().any(|begin| name.starts_with(begin))
        })
    });
    let executable = if Path::new("/proc/self/exe").exists() {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().map_err(files)?
    };
    let mut arguments: Vec<OsString> = vec!["--state-dir".into(), state_dir.into()];
    arguments.extend(["--log", &options.log, "--log-format", &options.log_format].map(OsString::from));
    arguments.extend(["daemon", "run", "--announce"].map(OsString::from));
    let mut command = Command::new(executable);
    command.arg0("edn-bridge").args(arguments).env_clear().envs(kept).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file);
    let mut child = command.spawn().map_err(|error| NoDaemon::Failed(error.to_string()))?;
    let stdout = child.stdout.take();
    let (sender, receiver) = std::sync::mpsc::channel();
    // The daemon closes its output once it has spoken.
    let listening = std::thread::Builder::new().name("start".to_owned()).spawn(move || {
        let mut said = String::new();
        let read = stdout.map(|stdout| stdout.take(64 * 1024).read_to_string(&mut said));
        let _ = sender.send(read.map(|_| said).unwrap_or_default());
    });
    listening.map_err(|error| NoDaemon::Failed(error.to_string()))?;
    match receiver.recv_timeout(DAEMON_START) {
        Ok(said) if said == READY => Ok(()),
        Ok(said) if said.trim().is_empty() => {
            Err(NoDaemon::Failed(format!("it ended at once; see {}", log_path(state_dir).display())))
        }
        Ok(said) => Err(NoDaemon::Failed(said.trim().to_owned())),
        Err(_) => Err(NoDaemon::Failed(format!("it is not ready after {} s", DAEMON_START.as_secs()))),
    }
}

/// Opens the log for a new daemon. A long one is put aside first.
fn open_log(state_dir: &Path) -> io::Result<File> {
    let path = log_path(state_dir);
    if path.metadata().is_ok_and(|found| found.len() > DAEMON_LOG_BYTES) {
        std::fs::rename(&path, path.with_extension("log.1"))?;
    }
    private::open_regular(&path, OpenOptions::new().append(true).create(true).mode(0o600), OFlags::empty())
}
