//! A pair of byte streams: standard input and output, a Unix socket, or memory for tests.
//!
//! Reading blocks a thread of the connection's own, and so does writing: a hand-over to a pool of
//! blocking threads, or a readiness loop in between, would cost more than the work on a frame. Knows
//! bytes and descriptors; nothing of lines or frames.

pub mod socket;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The writing half of a transport.
pub trait Output: Send + Sync {
    /// Writes all bytes, waiting as long as it takes.
    ///
    /// # Errors
    /// When the other side is gone.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;

    /// Writes what fits without waiting and returns how much that was.
    ///
    /// # Errors
    /// When the other side is gone.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Ends the stream from this side, so that whoever reads or writes it wakes up.
    fn shut(&self);
}

/// Both halves of a transport.
pub struct Transport {
    /// Where requests come from.
    pub input: Box<dyn Read + Send>,
    /// Where frames go.
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
    /// When a descriptor is closed.
    pub fn stdio() -> io::Result<Self> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let output = Descriptor(File::from(io::stdout().as_fd().try_clone_to_owned()?));
        Ok(Self { input: Box::new(input), output: Box::new(output) })
    }

    /// A connected socket; also the memory transport of the tests, as one half of a pair.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn socket(stream: UnixStream) -> io::Result<Self> {
        let input = stream.try_clone()?;
        Ok(Self { input: Box::new(input), output: Box::new(Socket(stream)) })
    }
}

/// A pipe, a terminal or a file.
struct Descriptor(File);

/// What a pipe that polls as writable takes without blocking, at least (`PIPE_BUF` of POSIX and Linux).
const PIPE_ATOMIC_BYTES: usize = 4096;

impl Output for Descriptor {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        // The descriptor may be shared with other processes, so it is not made non-blocking: it is
        // asked whether it is ready, and given no more than it then must take.
        let mut ready = [PollFd::new(&self.0, PollFlags::OUT)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        if !ready.first().is_some_and(|fd| fd.revents().contains(PollFlags::OUT)) {
            return Ok(0);
        }
        (&self.0).write(bytes.get(..PIPE_ATOMIC_BYTES).unwrap_or(bytes))
    }

    fn shut(&self) {}
}

struct Socket(UnixStream);

impl Output for Socket {
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        use rustix::net::{SendFlags, send};
        match send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Ok(count),
            Err(rustix::io::Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn shut(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}
