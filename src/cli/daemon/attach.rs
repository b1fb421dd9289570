//! Clients of the daemon. `serve` passes it the editor's pipes, and waits for the end; a command that continues a
//! session that the daemon has open reaches it through a socket.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use edn_bridge::config::Settings;
use edn_bridge::limits::DAEMON_START;
use edn_bridge::wire::transport::socket;

use super::super::failure::Failure;
use super::super::options::Options;
use super::super::out;
use super::super::served::Protocol;
use super::daemon_files::{NoDaemon, connect_or_start, silent};
use super::line::{self, Ask, Attach, DaemonReply, Handover, Homes, Lines, VERSION};

/// The exit status when the daemon ends before the editor. The editor can start `serve` again.
const DAEMON_ENDED: u8 = 75;

/// Whether `serve` uses the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Use {
    /// Where that is possible.
    Auto,
    /// Not at all.
    Never,
}

/// Has the daemon serve the editor on standard input and output, and waits for the end. `None` if this process is to
/// serve it.
///
/// # Errors
/// If there can be no daemon, or it cannot serve the editor.
pub(in super::super) fn serve(
    options: &Options,
    protocol: Protocol,
    wanted: Use,
) -> Result<Option<ExitCode>, Failure> {
    // A terminal belongs to the programs of its session, and the daemon is in none.
    if wanted == Use::Never || io::stdin().is_terminal() || !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let settings = options.settings()?;
    if settings.daemon.is_never {
        return Ok(None);
    }
    let ask = asked(options, &settings, protocol, None)?;
    for _ in 0..TRIES {
        let stream = match connect_or_start(&settings.state_dir, options) {
            Ok(stream) => stream,
            Err(NoDaemon::Inside) => return Ok(None),
            Err(error) => return Err(Failure::start(error)),
        };
        // A stopped daemon takes no long line.
        let _ = stream.set_write_timeout(Some(DAEMON_START));
        // Where that fails, what the daemon has said tells more.
        let _ = line::send(&stream, &ask, &[io::stdin().as_fd(), io::stdout().as_fd()]);
        match wait(&stream, protocol)? {
            End::Gone => {}
            End::NotServed => return Ok(None),
            End::Served(code) => return Ok(Some(code)),
        }
    }
    Err(Failure::Failed("the daemon ends again and again; see `edn-bridge daemon log`".to_owned()))
}

/// The request of this process, with its options and variables.
fn asked(
    options: &Options,
    settings: &Settings,
    protocol: Protocol,
    session: Option<String>,
) -> Result<Ask, Failure> {
    let cwd = settings.cwd.to_string_lossy().into_owned();
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Ask::Attach(Box::new(Attach {
        version: VERSION,
        build: env!("CARGO_PKG_VERSION").to_owned(),
        protocol,
        homes: Homes::own(),
        given: Handover::of(options, cwd)?,
        environment: environment.collect(),
        session,
    })))
}

/// A connection of the EDN wire to the engine of the running daemon that has this session open, or, without a session, to
/// the one that an editor here would have. `None` if no daemon runs, none of its engines has the session, or it does not
/// serve this process.
///
/// # Errors
/// If the options cannot be passed on.
pub(in super::super) fn join(
    options: &Options,
    settings: &Settings,
    session: Option<&str>,
) -> Result<Option<UnixStream>, Failure> {
    let ask = asked(options, settings, Protocol::Edn, session.map(str::to_owned))?;
    let joined = || {
        let line = socket::connect_daemon(&settings.state_dir)?;
        line.set_write_timeout(Some(DAEMON_START))?;
        let (ours, theirs) = UnixStream::pair()?;
        line::send(&line, &ask, &[theirs.as_fd()])?;
        let mut lines = Lines::new(&line);
        lines.within(Some(DAEMON_START));
        match lines.next()? {
            Some(DaemonReply::Attached { .. }) => Ok(ours),
            Some(DaemonReply::Refused { message, .. }) => Err(io::Error::other(message)),
            _ => Err(io::ErrorKind::ConnectionReset.into()),
        }
    };
    let joined: io::Result<UnixStream> = joined();
    Ok(joined.inspect_err(|error| tracing::debug!(%error, "the daemon does not serve the session")).ok())
}

/// How often a daemon is tried that ends before it has served the editor, as an idle one may at that moment.
const TRIES: usize = 3;

/// What came of the daemon.
enum End {
    /// It ended before it took the editor's pipes.
    Gone,
    /// It does not serve this editor.
    NotServed,
    /// It has served the editor to the end.
    Served(ExitCode),
}

/// Waits until the daemon has served the editor.
fn wait(stream: &UnixStream, protocol: Protocol) -> Result<End, Failure> {
    let (mut lines, mut is_attached) = (Lines::new(stream), false);
    lines.within(Some(DAEMON_START));
    loop {
        match lines.next() {
            Ok(Some(DaemonReply::Attached { build })) => {
                is_attached = true;
                lines.within(None);
                // Editors of the Agent Client Protocol show each line of standard error as a failure.
                if build != env!("CARGO_PKG_VERSION") && protocol != Protocol::Acp {
                    let _ = writeln!(
                        out::stderr(),
                        "edn-bridge: this is version {}, and the daemon that runs is {build}. `edn-bridge daemon \
                         restart` lets this version take over.",
                        env!("CARGO_PKG_VERSION")
                    );
                }
                // The daemon has the pipes now. Whoever waits for their end waits for the daemon's copies alone.
                close_own().map_err(Failure::io("standard input and output"))?;
            }
            Ok(Some(DaemonReply::Ended)) => return Ok(End::Served(ExitCode::SUCCESS)),
            Ok(Some(DaemonReply::Refused { message, by_itself: true })) => {
                tracing::warn!("{message}");
                return Ok(End::NotServed);
            }
            Ok(Some(DaemonReply::Refused { message, .. })) => return Err(Failure::Failed(message)),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) if is_attached => {
                let _ = writeln!(out::stderr(), "edn-bridge: the daemon ended");
                return Ok(End::Served(ExitCode::from(DAEMON_ENDED)));
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                return Err(Failure::Failed(format!("the daemon: {}", silent(stream))));
            }
            Ok(None) | Err(_) => return Ok(End::Gone),
        }
    }
}

/// Closes this process's standard input and output. The descriptors stay taken.
fn close_own() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
