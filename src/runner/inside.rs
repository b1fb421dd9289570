//! The runner itself: a process between the bridge and one program.
//!
//! It is this executable, started with the name of a runner. Its standard input is a socket to the bridge: first
//! comes what the program is to read, then nothing, and the end of that socket is the order to end everything.
//! Where a program may not outlive something that the bridge must renew, what comes in between are deadlines: the runner ends
//! everything when the last one comes, also while the bridge stands still. The other way it tells that the program was started, or not, and how it ended. It ends itself when nothing
//! is left below it.
//!
//! A program that may do what the user may can stop or kill its runner: then the bridge ends what is left
//! (`end_orphans`). One in the sandbox can not, where the kernel scopes signals.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};

use super::lineage::{self, NAME};
use super::sandbox::Sandbox;
use crate::clock::since_boot;
use crate::descriptors;
use crate::limits::{PROCESS_GRACE, RUNNER_LOOK, RUNNER_PATIENCE, RUNNER_PAUSE, RUNNER_ROUND};

/// The program was started.
pub(super) const STARTED: u8 = b'S';
/// It was not; the number is the error's.
pub(super) const FAILED: u8 = b'F';
/// It has ended; the number is the status, as the kernel gives it.
const EXITED: u8 = b'X';

/// A kind and a number.
pub(super) const MESSAGE_BYTES: usize = 5;

/// What shells exit with for a program that cannot be started.
pub(super) const NOT_STARTED: u8 = 127;

/// What the program is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stdin {
    /// So many bytes, which come first on the runner's standard input.
    Bytes(usize),
    /// A pipe, which comes there as a descriptor.
    Pipe,
}

impl Stdin {
    const PIPE: &str = "pipe";

    fn to_word(self) -> String {
        match self {
            Self::Bytes(count) => count.to_string(),
            Self::Pipe => Self::PIPE.to_owned(),
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        if word == Self::PIPE { Some(Self::Pipe) } else { word.parse().ok().map(Self::Bytes) }
    }
}

/// What a runner is told before the program's own words.
pub(super) struct Order<'a> {
    /// What the program is to read.
    pub(super) input: Stdin,
    /// How many files it may have open.
    pub(super) files: Option<u64>,
    /// When it must have ended, on the clock that goes on while the machine sleeps.
    pub(super) deadline: Option<Duration>,
    /// Where it may write.
    pub(super) sandbox: Option<&'a Sandbox>,
}

impl Order<'_> {
    /// Four words: the numbers, and how many words of the sandbox follow.
    pub(super) fn write(&self, command: &mut Command) {
        let words = self.sandbox.map(Sandbox::to_words);
        command.arg(self.input.to_word());
        command.arg(self.files.map_or_else(|| "-".to_owned(), |files| files.to_string()));
        command.arg(self.deadline.map_or_else(|| "-".to_owned(), |deadline| millis(deadline).to_string()));
        command.arg(words.as_ref().map_or_else(|| "-".to_owned(), |words| words.len().to_string()));
        command.args(words.into_iter().flatten());
    }
}

/// The same, as the runner reads it.
struct Job {
    input: Stdin,
    files: Option<u64>,
    deadline: Option<Duration>,
    sandbox: Option<Sandbox>,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Job {
    fn read(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut number = || words.next()?.into_string().ok();
        let (input, files) = (Stdin::from_word(&number()?)?, number()?);
        let (deadline, sandbox) = (number()?, number()?);
        let sandbox = match sandbox.as_str() {
            "-" => None,
            count => Some(Sandbox::from_words(&mut words, count.parse().ok()?)?),
        };
        Some(Self {
            input,
            files: files.parse().ok(),
            deadline: deadline.parse().ok().map(Duration::from_millis),
            sandbox,
            program: words.next()?,
            arguments: words.collect(),
        })
    }
}

/// Is the runner, if this process was started as one: then it is all that the process does.
pub fn main() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    (words.next()? == NAME).then(|| run(words))
}

fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior, setsid};
        // Nobody may write its memory: its name and what it waits for stay what they are.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        // No terminal: nothing can be typed into the one that the bridge was started from.
        let _ = setsid();
        let _ = set_child_subreaper(Some(getpid()));
    }
    let Ok(mut control) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(NOT_STARTED);
    };
    let job = Job::read(words).ok_or(io::Error::from(Errno::INVAL));
    let deadline = job.as_ref().ok().and_then(|job| job.deadline);
    let started = job.and_then(|job| start(job, &mut control));
    // Its own ends of the program's pipes would keep their end from being seen.
    let _ = let_go();
    let command = match started {
        Ok(command) => command,
        Err(error) => {
            tell(&control, FAILED, error.raw_os_error().unwrap_or(Errno::PERM.raw_os_error()));
            return ExitCode::from(NOT_STARTED);
        }
    };
    tell(&control, STARTED, 0);
    let (ended, has_ended) = channel();
    let Ok(listening) = control.try_clone() else { return ExitCode::from(NOT_STARTED) };
    let listening = thread::Builder::new().spawn(move || end_when_told(listening, &has_ended, deadline));
    let mut code = ExitCode::SUCCESS;
    if listening.is_err() {
        end_all(below, lineage::own_children);
    }
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                let of_signal = status.terminating_signal().map(|signal| signal.saturating_add(128));
                let number = status.exit_status().or(of_signal).and_then(|code| u8::try_from(code).ok());
                code = number.map_or(ExitCode::FAILURE, ExitCode::from);
                tell(&control, EXITED, status.as_raw());
                let _ = ended.send(());
            }
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing is left.
            Err(_) => return code,
        }
    }
}

/// Reads what the program is to read, and starts it.
fn start(job: Job, control: &mut UnixStream) -> io::Result<Pid> {
    let (mut input, mut pipe) = (Vec::new(), None);
    match job.input {
        Stdin::Bytes(count) => {
            input.resize(count, 0);
            control.read_exact(&mut input)?;
        }
        Stdin::Pipe => pipe = Some(take_over(control)?),
    }
    if let Some(files) = job.files {
        descriptors::lower(files);
    }
    let mut command = Command::new(&job.program);
    command.args(&job.arguments).process_group(0);
    command.stdin(match pipe {
        Some(pipe) => pipe.into(),
        None if input.is_empty() => Stdio::null(),
        None => Stdio::piped(),
    });
    let mut child = within(job.sandbox.as_ref(), (), || command.spawn())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program need not read what it does not need.
        thread::Builder::new().spawn(move || drop(stdin.write_all(&input)))?;
    }
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH.into())
}

/// Sends a descriptor over a runner's socket.
pub(super) fn hand_over(socket: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOBUFS.into());
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty()) {
            Err(Errno::INTR) => {}
            // One byte is sent whole.
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Receives the descriptor of [`hand_over`].
fn take_over(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // What it starts is not to have it twice.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let flags = RecvFlags::empty();
    while let Err(error) = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let mut received = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.next().ok_or(Errno::BADF.into())
}

/// Starts something in a sandbox, from a thread that is in `scope`, whatever that means to it.
pub(super) fn within<T: Send>(
    sandbox: Option<&Sandbox>,
    scope: impl Scope,
    start: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    match sandbox {
        None => start(),
        Some(sandbox) => sandbox.run(|_| scope.hold(start))?,
    }
}

/// What a thread must be in to start a program.
pub(super) trait Scope: Send {
    /// Calls `work` in it.
    fn hold<T>(self, work: impl FnOnce() -> T) -> T;
}

impl Scope for () {
    fn hold<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

impl Scope for tokio::runtime::Handle {
    fn hold<T>(self, work: impl FnOnce() -> T) -> T {
        let _executor = self.enter();
        work()
    }
}

/// Gives up the standard descriptors and the folder, which are the program's.
fn let_go() -> io::Result<()> {
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    std::env::set_current_dir("/")
}

fn tell(mut control: &UnixStream, kind: u8, number: i32) {
    let mut message = [kind; MESSAGE_BYTES];
    if let Some(rest) = message.get_mut(1..) {
        rest.copy_from_slice(&number.to_be_bytes());
    }
    // A bridge that is gone needs no word.
    let _ = control.write_all(&message);
}

/// The word of a deadline, in the order and later on the socket.
pub(super) fn millis(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)
}

/// Waits for the end of the socket or the deadline, whichever comes first. The bridge puts the deadline off; one that is
/// stopped does not. Returns whether the deadline came.
fn is_late(mut control: &UnixStream, mut deadline: Option<Duration>) -> bool {
    let (mut message, mut filled) = ([0; 8], 0usize);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_sub(since_boot()));
        if left == Some(Duration::ZERO) {
            return true;
        }
        // The timer of a read stands still while the machine sleeps.
        let wait = left.map(|left| left.min(RUNNER_LOOK));
        let Some(rest) = message.get_mut(filled..) else { return false };
        if control.set_read_timeout(wait).is_err() {
            return false;
        }
        match control.read(rest) {
            Ok(0) => return false,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        if filled == message.len() {
            deadline = Some(Duration::from_millis(u64::from_be_bytes(message)));
            filled = 0;
        }
    }
}

/// Ends what is left when it is time: politely first, if the program still runs and the deadline has not come. The process
/// ends when the other thread finds nothing left.
fn end_when_told(control: UnixStream, has_ended: &Receiver<()>, deadline: Option<Duration>) {
    if !is_late(&control, deadline) && has_ended.try_recv().is_err() {
        below().into_iter().for_each(|process| signal(process, Signal::TERM));
        let _ = has_ended.recv_timeout(PROCESS_GRACE);
    }
    // What cannot be ended (another user's, or waiting for a disk that is gone) is not waited for.
    if !end_all(below, lineage::own_children) {
        std::process::exit(i32::from(NOT_STARTED));
    }
}

fn below() -> Vec<u32> {
    lineage::descendants(&lineage::processes(), std::process::id())
}

/// Kills the processes that are found until none are, for a time: one may start others meanwhile. Returns
/// whether none are left.
///
/// A process that starts the next one and ends at once is gone before all processes are looked through. But it
/// is an orphan, one of the few `orphans` that are found at once: those are killed as fast as new ones come.
pub(super) fn end_all(find: impl Fn() -> Vec<u32>, orphans: impl Fn() -> Vec<u32>) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < RUNNER_PATIENCE {
        let found = find();
        // What runs is an orphan or comes from one, and an orphan cannot slip past the list.
        if found.is_empty() && orphans().is_empty() {
            return true;
        }
        found.into_iter().for_each(|process| signal(process, Signal::KILL));
        let (round, mut last) = (Instant::now(), Vec::new());
        while round.elapsed() < RUNNER_ROUND {
            let now = orphans();
            now.iter().for_each(|process| signal(*process, Signal::KILL));
            if now.is_empty() {
                break;
            }
            if now == last {
                thread::sleep(RUNNER_PAUSE);
            }
            last = now;
        }
    }
    false
}

fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
