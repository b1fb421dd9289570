//! The one place that starts programs: commands, hooks, checks of workflows, key commands, downloads.
//!
//! A program does not run as a child of the bridge but below a small process of its own, the runner: this
//! executable under another name (`runner/inside.rs`). The runner has no terminal, is the parent that orphaned
//! processes fall to, and ends all of them when the bridge says so or is gone, however that came about. A
//! Unix socket connects the two; its end is the order to end.
//!
//! Where the executable cannot be started as a runner (systems other than Linux, or a program that uses this
//! library and has not called [`enable`]), a program runs as a process group of its own and ends with its call:
//! what leaves the group lives on.
//!
//! Knows processes and their output as bytes. Knows nothing of tools, modes or rules.

#[cfg(target_os = "linux")]
mod calls;
mod inside;
pub mod lineage;
pub mod sandbox;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::descriptors;
use crate::environment::Environment;
use crate::limits::{PROCESS_GRACE, RUNNER_PATIENCE};
use sandbox::Sandbox;

pub use inside::main;

/// The executable that is started as a runner.
static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();

/// The runners that are alive. Held while one is started, so that no new one is taken for an orphan.
static RUNNERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Lets this process start its programs below runners, and closes its memory and environment to them. Its
/// `main` must call [`main`] first of all.
#[cfg(target_os = "linux")]
pub fn enable() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    // Neither a program of the same user nor a core dump sees the keys that this process has.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other programs of this user can read this process's memory");
    }
    // What a runner leaves behind that was killed falls to this process, not to the system's first one.
    let reaper = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let executable = PathBuf::from("/proc/self/exe");
    if let Err(error) = reaper {
        tracing::warn!(%error, "programs run without a runner");
    } else if executable.exists() {
        let _ = EXECUTABLE.set(executable);
    } else if let Ok(executable) = std::env::current_exe() {
        let _ = EXECUTABLE.set(executable);
    }
}

/// This system has nothing that orphaned processes could fall to: programs run as process groups.
#[cfg(not(target_os = "linux"))]
pub fn enable() {}

/// When a program must have ended, on the clock that goes on while the machine sleeps
/// ([`since_boot`](crate::clock::since_boot)). Whoever gives it puts it off for as long as the program may run on.
pub type Lifeline = watch::Receiver<Option<Duration>>;

/// A program that is to be run.
#[derive(Debug)]
pub struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    cwd: Option<PathBuf>,
    environment: Environment,
    added: Vec<(OsString, OsString)>,
    is_cleared: bool,
    input: Vec<u8>,
    /// The end of a pipe that is its standard input, instead of `input`.
    live: Option<OwnedFd>,
    sandbox: Option<Sandbox>,
    lifeline: Option<Lifeline>,
}

impl Program {
    /// A program, by its path or looked for in `PATH`. Its standard input is empty.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            cwd: None,
            environment: Environment::default(),
            added: Vec::new(),
            is_cleared: false,
            input: Vec::new(),
            live: None,
            sandbox: None,
            lifeline: None,
        }
    }

    /// With further arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// In this folder, instead of the process's own.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// With a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.added.push((name.into(), value.into()));
        self
    }

    /// With the variables of an environment, instead of the process's.
    #[must_use]
    pub fn environment(mut self, environment: &Environment) -> Self {
        self.environment = environment.clone();
        self
    }

    /// With these variables of an environment, and no other.
    #[must_use]
    pub fn only(mut self, environment: &Environment, names: &[&str]) -> Self {
        self.is_cleared = true;
        self.added.extend(environment.only(names));
        self
    }

    /// With this on its standard input, and nothing after it.
    #[must_use]
    pub fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// With a pipe as its standard input, for a program that is talked to: [`input_pipe`] makes one.
    #[must_use]
    pub fn live_input(mut self, end: io::PipeReader) -> Self {
        self.live = Some(end.into());
        self
    }

    /// Restricted by the kernel.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Option<Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// It ends by itself, with all that it has started, when the time comes that a lifeline says, also if this process is
    /// stopped. Only for [`Program::start`], and only below a runner.
    #[must_use]
    pub fn until(mut self, lifeline: Option<Lifeline>) -> Self {
        self.lifeline = lifeline;
        self
    }

    /// Starts it. Ends with what is returned.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(mut self, stdout: Stdio, stderr: Stdio) -> io::Result<RunningProgram> {
        let Some(executable) = EXECUTABLE.get() else { return self.start_directly(stdout, stderr) };
        let (input, live) = (std::mem::take(&mut self.input), self.live.take());
        let mut lifeline = self.lifeline.take();
        let deadline = lifeline.as_mut().and_then(|lifeline| *lifeline.borrow_and_update());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let stdin = if live.is_some() { inside::Stdin::Pipe } else { inside::Stdin::Bytes(input.len()) };
        let mut command = tokio::process::Command::from(self.below(executable, stdin, deadline));
        command.stdin(OwnedFd::from(theirs)).stdout(stdout).stderr(stderr);
        let mut child = {
            let mut runners = runners();
            let child = command.spawn()?;
            runners.extend(child.id());
            child
        };
        // The runner's ends of the pipes are closed with the command, so that their end is the program's.
        drop(command);
        let id = child.id();
        tokio::spawn(async move {
            let status = child.wait().await;
            runners().retain(|runner| Some(*runner) != id);
            // Killed, or not able to end all: then something is left, which has fallen to this process.
            if status
                .is_ok_and(|status| status.code().is_none_or(|code| code == i32::from(inside::NOT_STARTED)))
            {
                let _ = tokio::task::spawn_blocking(end_orphans).await;
            }
        });
        // Its first bytes are few enough for the buffer of any socket.
        if let Some(pipe) = live {
            inside::hand_over(&ours, &pipe)?;
        }
        ours.set_nonblocking(true)?;
        let mut running = RunningProgram(Way::Runner(Control {
            line: Line {
                socket: UnixStream::from_std(ours)?,
                message: [0; inside::MESSAGE_BYTES],
                filled: 0,
            },
            id,
            lifeline,
            exited: None,
        }));
        let Way::Runner(control) = &mut running.0 else { return Ok(running) };
        // A runner that cannot be written to says why below.
        let _ = control.line.socket.write_all(&input).await;
        match control.line.next().await? {
            Some((inside::STARTED, _)) => Ok(running),
            Some((inside::FAILED, error)) => Err(io::Error::from_raw_os_error(error)),
            _ => Err(io::Error::other("its runner ended")),
        }
    }

    /// Starts it for a thread that waits for it. Its standard input is empty; the exit status is its own.
    ///
    /// # Errors
    /// When it cannot be started. Below a runner, a program that is not there exits with status 127 instead.
    pub fn start_blocking(self, stdout: Stdio, stderr: Stdio) -> io::Result<Blocking> {
        let Some(executable) = EXECUTABLE.get() else {
            let mut command = self.direct();
            let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn()?;
            return Ok(Blocking { child, control: None });
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let mut command = self.below(executable, inside::Stdin::Bytes(0), None);
        command.stdin(OwnedFd::from(theirs)).stdout(stdout).stderr(stderr);
        let mut runners = runners();
        let child = command.spawn()?;
        runners.insert(child.id());
        Ok(Blocking { child, control: Some(ours) })
    }

    /// Starts it with the terminal and the streams of this process, below no runner, and waits for its end: an editor that
    /// the person at the terminal asked for.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn on_terminal(self) -> io::Result<ExitStatus> {
        self.direct().status()
    }

    /// The command that starts it below a runner.
    fn below(self, executable: &PathBuf, input: inside::Stdin, deadline: Option<Duration>) -> Command {
        let mut command = Command::new(executable);
        command.arg0(lineage::NAME);
        inside::Order { input, files: descriptors::given(), deadline, sandbox: self.sandbox.as_ref() }
            .write(&mut command);
        command.arg(&self.program).args(&self.arguments);
        self.surroundings(&mut command);
        command
    }

    /// The command that starts it without a runner.
    fn direct(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        self.surroundings(&mut command);
        command
    }

    fn surroundings(&self, command: &mut Command) {
        if self.is_cleared {
            command.env_clear();
        } else if let Some(variables) = self.environment.brought() {
            command.env_clear();
            command.envs(variables);
        } else {
            for (name, _) in std::env::vars_os().filter(|(name, _)| self.environment.hides(name)) {
                command.env_remove(name);
            }
        }
        command.envs(self.added.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
    }

    fn start_directly(mut self, stdout: Stdio, stderr: Stdio) -> io::Result<RunningProgram> {
        let (input, live) = (std::mem::take(&mut self.input), self.live.take());
        let mut command = tokio::process::Command::from(self.direct());
        command.stdin(match live {
            Some(pipe) => pipe.into(),
            None if input.is_empty() => Stdio::null(),
            None => Stdio::piped(),
        });
        command.stdout(stdout).stderr(stderr).process_group(0).kill_on_drop(true);
        let mut child =
            inside::within(self.sandbox.as_ref(), tokio::runtime::Handle::current(), || command.spawn())?;
        drop(command);
        if let Some(mut stdin) = child.stdin.take() {
            // A program need not read what it does not need.
            tokio::spawn(async move { drop(stdin.write_all(&input).await) });
        }
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(RunningProgram(Way::Direct(Direct { child, group })))
    }
}

/// A pipe for a program's output: the end that is read here, and the other one.
///
/// # Errors
/// When there is no descriptor left.
pub fn pipe() -> io::Result<(pipe::Receiver, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((pipe::Receiver::from_owned_fd(reader.into())?, writer))
}

/// A pipe for a program's input: the end for [`Program::live_input`], and the one that is written here.
///
/// # Errors
/// When there is no descriptor left.
pub fn input_pipe() -> io::Result<(io::PipeReader, pipe::Sender)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader, pipe::Sender::from_owned_fd(writer.into())?))
}

/// A program that was started. Dropped, it is ended with all that it has started.
#[derive(Debug)]
pub struct RunningProgram(Way);

#[derive(Debug)]
enum Way {
    Runner(Control),
    Direct(Direct),
}

/// The bridge's side of a runner.
#[derive(Debug)]
struct Control {
    line: Line,
    id: Option<u32>,
    lifeline: Option<Lifeline>,
    exited: Option<ExitStatus>,
}

/// The bridge's end of a runner's socket.
#[derive(Debug)]
struct Line {
    socket: UnixStream,
    /// What has come of the next message.
    message: [u8; inside::MESSAGE_BYTES],
    filled: usize,
}

impl Line {
    /// The next message; `None` when the runner has ended. May be given up and asked again.
    async fn next(&mut self) -> io::Result<Option<(u8, i32)>> {
        while let Some(rest) = self.message.get_mut(self.filled..).filter(|rest| !rest.is_empty()) {
            match self.socket.read(rest).await {
                Ok(0) => return Ok(None),
                Ok(count) => self.filled = self.filled.saturating_add(count),
                // Its own end of the socket was closed with something unread in it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.filled = 0;
        let [kind, number @ ..] = self.message;
        Ok(Some((kind, i32::from_be_bytes(number))))
    }
}

/// The next deadline. Waits for ever where there is none.
async fn next_deadline(lifeline: &mut Option<Lifeline>) -> Option<Duration> {
    if let Some(given) = lifeline {
        if given.changed().await.is_ok() {
            return *given.borrow_and_update();
        }
        // Nobody puts it off any more: the last one holds.
        *lifeline = None;
    }
    std::future::pending().await
}

impl Control {
    async fn exited(&mut self) -> io::Result<ExitStatus> {
        if let Some(exited) = self.exited {
            return Ok(exited);
        }
        let message = loop {
            tokio::select! {
                message = self.line.next() => break message?,
                deadline = next_deadline(&mut self.lifeline) => {
                    if let Some(deadline) = deadline {
                        // So few bytes are written whole. Where there is no room, the next ones come later.
                        let _ = self.line.socket.try_write(&inside::millis(deadline).to_be_bytes());
                    }
                }
            }
        };
        let status = match message {
            Some((_, status)) => ExitStatus::from_raw(status),
            // Somebody has killed it.
            None => ExitStatus::from_raw(Signal::KILL.as_raw()),
        };
        Ok(*self.exited.insert(status))
    }

    async fn end(&mut self) {
        let _ = self.line.socket.shutdown().await;
        let over = async { while let Ok(Some(_)) = self.line.next().await {} };
        if timeout(RUNNER_PATIENCE.saturating_mul(2), over).await.is_err() {
            // Stopped by a program that may: what is below it falls to this process, which ends it.
            let runners = runners();
            if let Some(id) = self.id.filter(|id| runners.contains(id))
                && let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// A program without a runner: a process group.
#[derive(Debug)]
struct Direct {
    child: tokio::process::Child,
    group: Option<Pid>,
}

impl Direct {
    async fn end(&mut self) {
        let Some(group) = self.group else { return };
        let running = !matches!(self.child.try_wait(), Ok(Some(_)));
        if running && kill_process_group(group, Signal::TERM).is_ok() {
            let _ = timeout(PROCESS_GRACE, self.child.wait()).await;
        }
        // Nothing left in the group is an error that means success.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait().await;
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl RunningProgram {
    /// Waits for the end of the program itself. What it has started may still run. May be given up and asked
    /// again.
    ///
    /// # Errors
    /// When its end cannot be learnt.
    pub async fn exited(&mut self) -> io::Result<ExitStatus> {
        match &mut self.0 {
            Way::Runner(control) => control.exited().await,
            Way::Direct(direct) => direct.child.wait().await,
        }
    }

    /// Ends it with all that it has started: politely first, if it still runs. Returns when nothing is left.
    pub async fn end(mut self) {
        match &mut self.0 {
            Way::Runner(control) => control.end().await,
            Way::Direct(direct) => direct.end().await,
        }
    }
}

/// A program that a thread waits for. Dropped, it is ended with all that it has started.
#[derive(Debug)]
pub struct Blocking {
    child: Child,
    control: Option<std::os::unix::net::UnixStream>,
}

impl Blocking {
    /// What it writes, where that was to be a pipe.
    pub fn stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When that cannot be learnt.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When that cannot be learnt.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        if self.control.take().is_none() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        runners().remove(&self.child.id());
    }
}

fn runners() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the processes that have fallen to this one because their runner was killed.
fn end_orphans() {
    let runners = runners();
    // Waits for those that have ended, as nobody else does.
    let orphans = || {
        let orphans = lineage::own_children().into_iter().filter(|child| !runners.contains(child));
        let still_runs = |orphan: &u32| {
            let pid = i32::try_from(*orphan).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| {
                !matches!(
                    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG),
                    Ok(Some(_))
                )
            })
        };
        orphans.filter(still_runs).collect::<Vec<u32>>()
    };
    let all = || {
        let processes = lineage::processes();
        let orphans: Vec<u32> = orphans();
        let below = orphans.iter().flat_map(|orphan| lineage::descendants(&processes, *orphan));
        below.chain(orphans.iter().copied()).collect()
    };
    inside::end_all(all, orphans);
}
