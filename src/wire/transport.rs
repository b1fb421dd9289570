//! Pairs of byte streams: standard input and output, a Unix socket, or memory for tests.
//!
//! Reads block a thread of the connection, and so do writes. A pool of blocking threads or a readiness loop
//! would cost more than the work on a frame. Knows bytes and descriptors; nothing of lines or frames.

pub mod memory;
pub mod socket;

use crate::heap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The reading half of a transport.
pub trait Input: Read + Send {
    /// Whether the other side has ended it. Earlier bytes may still be unread. Never waits.
    fn has_ended(&self) -> bool;

    /// Waits at most for that time until there is something to read, or the end. Returns whether there is.
    fn is_ready_within(&self, patience: Duration) -> bool {
        let _ = patience;
        true
    }
}

/// The writing half of a transport.
pub trait Output: Send + Sync {
    /// Writes all bytes and waits as long as necessary.
    ///
    /// # Errors
    /// If the other side is gone.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes what fits without waiting and returns the number of bytes.
    ///
    /// # Errors
    /// If the other side is gone.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the stream from this side, which wakes its blocked readers and writers.
    fn shut(&self);
}

/// Writes to a client. All work ends in that, so this is where freed memory is returned, soon after.
///
/// # Errors
/// Those of the write.
pub fn send<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let written = write();
    heap::give_back();
    written
}

/// The carrier of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// The process's standard input and output.
    Stdio,
    /// A socket.
    Socket,
    /// The process's memory.
    Memory,
}

impl TransportKind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Socket => "socket",
            Self::Memory => "memory",
        }
    }
}

/// Both halves of a transport.
pub struct Transport {
    /// Its carrier.
    pub kind: TransportKind,
    /// The source of requests.
    pub input: Box<dyn Input>,
    /// The destination of frames.
    pub output: Box<dyn Output>,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Transport")
    }
}

impl Transport {
    /// The process's standard input and output.
    ///
    /// # Errors
    /// If a descriptor is closed.
    pub fn stdio() -> io::Result<Self> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self {
            kind: TransportKind::Stdio,
            input: Box::new(PollingReader(input)),
            output: Box::new(Descriptor::new(output)),
        })
    }

    /// The standard input and output of another process, which has passed them here. Its end ends the input as well:
    /// others may hold the descriptors open. `owner` is a connection to that process.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn handed(input: OwnedFd, output: OwnedFd, owner: UnixStream) -> io::Result<Self> {
        Ok(Self {
            kind: TransportKind::Stdio,
            input: Box::new(PassedInput::new(File::from(input), owner)?),
            output: Box::new(HandedOutput::new(File::from(output))?),
        })
    }

    /// A connected socket.
    ///
    /// # Errors
    /// If the descriptor cannot be duplicated.
    pub fn socket(stream: UnixStream) -> io::Result<Self> {
        let input = stream.try_clone()?;
        Ok(Self {
            kind: TransportKind::Socket,
            input: Box::new(PollingReader(input)),
            output: Box::new(Socket(stream)),
        })
    }
}

/// Waits without a bound until a descriptor is ready. A closed descriptor counts as ready.
fn wait_for(descriptor: impl AsFd, flags: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&descriptor, flags)], None) {
            Err(Errno::INTR) => {}
            result => return result.map(drop).map_err(Into::into),
        }
    }
}

/// A reader whose descriptor may be non-blocking. The process that started this one shares the descriptors
/// and may have made them so.
struct PollingReader<R>(R);

impl<R: Read + AsFd> Read for PollingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.0, PollFlags::IN)?;
                }
                result => return result,
            }
        }
    }
}

/// Whether the other side has ended a stream. Never waits.
fn has_ended(stream: impl AsFd) -> bool {
    let mut stream = [PollFd::new(&stream, ended_flag())];
    let looked = poll(&mut stream, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    // The poll asks for nothing else, so any event means hang-up or failure.
    looked.is_ok() && stream.first().is_some_and(|stream| !stream.revents().is_empty())
}

/// What a poll asks for to learn that the other side has ended. Hang-up and failure are told in any case.
const fn ended_flag() -> PollFlags {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return PollFlags::RDHUP;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return PollFlags::empty();
}

impl<R: Read + AsFd + Send> Input for PollingReader<R> {
    fn has_ended(&self) -> bool {
        has_ended(&self.0)
    }

    fn is_ready_within(&self, patience: Duration) -> bool {
        let deadline = Instant::now().checked_add(patience);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Err(Errno::INTR) => {}
                Ok(0) => return false,
                // An error is told by the read.
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

/// The most that a pipe holds by default, and some more for pipes that were made larger.
const PIPE_REST_BYTES: usize = 1 << 20;

/// The input of another process, which ends with that process though others may have it open.
struct PassedInput {
    input: File,
    owner: UnixStream,
    /// For a pipe: set when the owner has ended. Then a read that waits is woken.
    watched: Option<Arc<AtomicBool>>,
    /// How many bytes are still read once the owner has ended: what it has written before.
    rest: usize,
}

impl PassedInput {
    fn new(input: File, owner: UnixStream) -> io::Result<Self> {
        let mut watched = None;
        if cfg!(target_os = "linux") && input.metadata()?.file_type().is_fifo() {
            let (gone, watch, pipe) =
                (Arc::new(AtomicBool::new(false)), owner.try_clone()?, input.try_clone()?);
            watched = Some(gone.clone());
            // A poll before each read would cost as much as the rest of a short request.
            std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
                let _ = wait_for_end(&watch);
                gone.store(true, Ordering::Release);
                wake(&pipe);
            })?;
        }
        Ok(Self { input, owner, watched, rest: PIPE_REST_BYTES })
    }

    /// Waits for input, unless a read is woken when the owner ends. Returns whether the owner is there.
    fn wait(&self) -> io::Result<bool> {
        if let Some(gone) = &self.watched {
            return Ok(!gone.load(Ordering::Acquire));
        }
        loop {
            let mut both = [PollFd::new(&self.input, PollFlags::IN), PollFd::new(&self.owner, ended_flag())];
            match poll(&mut both, None) {
                Err(Errno::INTR) => {}
                polled => {
                    polled?;
                    let [_, owner] = &both;
                    return Ok(owner.revents().is_empty());
                }
            }
        }
    }
}

/// Waits until the other side of a stream has ended it.
fn wait_for_end(stream: impl AsFd) -> io::Result<()> {
    wait_for(stream, ended_flag())
}

/// Wakes whoever waits for input of a pipe: with an empty line, from a writing end that is there for this instant.
fn wake(pipe: &File) {
    use rustix::fs::{Mode, OFlags, open};
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let end = open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    if let Err(error) = end.and_then(|end| rustix::io::write(end, b"\n")) {
        // A full pipe wakes its reader anyway.
        tracing::debug!(%error, "the reader of a pipe was not woken");
    }
}

impl Read for PassedInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let has_owner = self.wait()?;
            if !has_owner && (self.rest == 0 || !is_ready(&self.input)) {
                return Ok(0);
            }
            match self.input.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_for(&self.input, PollFlags::IN)?
                }
                result => {
                    if let (false, Ok(count)) = (has_owner, &result) {
                        self.rest = self.rest.saturating_sub(*count);
                    }
                    return result;
                }
            }
        }
    }
}

/// Whether a read returns at once.
fn is_ready(input: impl AsFd) -> bool {
    let mut input = [PollFd::new(&input, PollFlags::IN)];
    let looked = poll(&mut input, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    looked.is_ok() && input.first().is_some_and(|input| !input.revents().is_empty())
}

impl Input for PassedInput {
    fn has_ended(&self) -> bool {
        has_ended(&self.owner) || has_ended(&self.input)
    }
}

/// The output of another process. Nobody may read it and nobody may close it, so a write can be given up: this process
/// goes on without it.
struct HandedOutput {
    descriptor: Descriptor,
    /// Ends when the output is shut.
    is_shut: UnixStream,
    shut: UnixStream,
}

impl HandedOutput {
    fn new(output: File) -> io::Result<Self> {
        let (is_shut, shut) = UnixStream::pair()?;
        Ok(Self { descriptor: Descriptor::new(output), is_shut, shut })
    }
}

impl Output for HandedOutput {
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.descriptor.try_write(bytes)?;
            bytes = bytes.get(count..).unwrap_or_default();
            if count > 0 {
                continue;
            }
            let mut both = [
                PollFd::new(&self.descriptor.file, PollFlags::OUT),
                PollFd::new(&self.is_shut, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Err(Errno::INTR) => continue,
                polled => drop(polled?),
            }
            let [_, is_shut] = &both;
            if !is_shut.revents().is_empty() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.descriptor.try_write(bytes)
    }

    fn shut(&self) {
        let _ = self.shut.shutdown(std::net::Shutdown::Both);
    }
}

/// Writes all bytes, whether the descriptor blocks or not.
fn write_waiting<W: AsFd>(descriptor: W, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&descriptor, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(&descriptor, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A pipe, a terminal or a file.
///
/// Other processes may share it, so it is not made non-blocking. If the kernel can write to it without
/// waiting, that is requested. Otherwise a poll shows whether it is ready, and a write then passes no more
/// than it must accept.
struct Descriptor {
    file: File,
    /// The kernel cannot write to this without waiting.
    asks_first: AtomicBool,
}

/// The least that a pipe accepts without blocking once it polls as writable (`PIPE_BUF` of POSIX and Linux).
const PIPE_ATOMIC_BYTES: usize = 4096;

impl Descriptor {
    fn new(file: File) -> Self {
        Self { file, asks_first: AtomicBool::new(!cfg!(any(target_os = "linux", target_os = "android"))) }
    }

    /// Writes what fits without waiting. `None` if the kernel cannot do that with this descriptor.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn write_at_once(&self, bytes: &[u8]) -> Option<Result<usize, Errno>> {
        use rustix::io::{ReadWriteFlags, pwritev2};
        // This offset stands for the current position, as in a plain write.
        const HERE: u64 = u64::MAX;
        match pwritev2(&self.file, &[io::IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => None,
            result => Some(result),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn write_at_once(&self, _: &[u8]) -> Option<Result<usize, Errno>> {
        None
    }

    fn write_if_ready(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut ready = [PollFd::new(&self.file, PollFlags::OUT)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        // Writes to a closed descriptor, so that the write reports it.
        if ready.first().is_none_or(|fd| fd.revents().is_empty()) {
            return Ok(0);
        }
        rustix::io::write(&self.file, bytes.get(..PIPE_ATOMIC_BYTES).unwrap_or(bytes))
    }
}

impl Output for Descriptor {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        write_waiting(&self.file, bytes)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = match self.asks_first.load(Ordering::Relaxed) {
                true => self.write_if_ready(bytes),
                false => match self.write_at_once(bytes) {
                    Some(written) => written,
                    None => {
                        self.asks_first.store(true, Ordering::Relaxed);
                        continue;
                    }
                },
            };
            match written {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                written => return written.map_err(Into::into),
            }
        }
    }

    fn shut(&self) {}
}

struct Socket(UnixStream);

impl Output for Socket {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        write_waiting(&self.0, bytes)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        use rustix::net::{SendFlags, send};
        // Elsewhere, that the runtime of Rust ignores the signal must do.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let flags = SendFlags::DONTWAIT;
        loop {
            match send(&self.0, bytes, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                sent => return sent.map_err(Into::into),
            }
        }
    }

    fn shut(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe without a reader, and its writing half as an output.
    fn full_pipe(asks_first: bool) -> (File, Descriptor) {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let output = Descriptor::new(File::from(writer));
        output.asks_first.store(asks_first, Ordering::Relaxed);
        let mut filled = 0;
        loop {
            match output.try_write(&[b'x'; 10_000]).unwrap() {
                0 => break,
                count => filled += count,
            }
        }
        assert!(filled >= PIPE_ATOMIC_BYTES, "{filled}");
        (File::from(reader), output)
    }

    #[test]
    fn full_pipe_is_not_awaited_and_closed_pipe_fails() {
        for asks_first in [false, true] {
            let (mut reader, output) = full_pipe(asks_first);
            let mut part = [0; 8192];
            reader.read_exact(&mut part).unwrap();
            assert!(output.try_write(b"again").unwrap() > 0, "there is room again");
            drop(reader);
            let error = output.try_write(b"gone").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "asks first: {asks_first}");
            assert_eq!(output.write_all(b"gone").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[test]
    fn handed_output_that_nobody_reads_can_be_given_up() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let output = HandedOutput::new(File::from(writer)).unwrap();
        std::thread::scope(|scope| {
            // Far more than a pipe holds.
            let writing = scope.spawn(|| output.write_all(&vec![b'x'; 1 << 20]));
            let mut part = [0; 1];
            File::from(reader.try_clone().unwrap()).read_exact(&mut part).unwrap();
            output.shut();
            assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }

    #[test]
    fn non_blocking_descriptor_is_awaited() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        for end in [&reader, &writer] {
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let output = Descriptor::new(File::from(writer));
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            PollingReader(File::from(reader)).read_to_end(&mut all).map(|_| all.len())
        });
        // Far more than a pipe holds: each end finds the other one not ready.
        output.write_all(&vec![b'x'; 1 << 20]).unwrap();
        drop(output);
        assert_eq!(reading.join().unwrap().unwrap(), 1 << 20);
    }
}
