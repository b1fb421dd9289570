//! The stream between two programs of one machine. This file alone knows what that is: a socket on Unix; on Windows a
//! named pipe belongs here, which is not written yet. The rest of the package is the same everywhere.

use std::io;
use std::path::Path;

/// A connection to a program of this machine.
#[cfg(unix)]
pub use std::os::unix::net::UnixStream as Stream;

/// A connection to a program of this machine. There is none on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum Stream {}

/// Connects to the socket at that path.
///
/// # Errors
/// If nobody listens there.
#[cfg(unix)]
pub fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

/// Refuses. The pipe `\\.\pipe\NAME` must be opened with overlapped reads and writes: on a synchronous handle, a read
/// that waits blocks every write.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn connect(_: &Path) -> io::Result<Stream> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "connections need Unix sockets, which this system does not have",
    ))
}

#[cfg(not(unix))]
#[expect(missing_docs, clippy::missing_errors_doc, reason = "as those of a Unix stream; none can be called")]
impl Stream {
    pub fn try_clone(&self) -> io::Result<Self> {
        match *self {}
    }

    pub fn shutdown(&self, _: std::net::Shutdown) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(not(unix))]
impl io::Read for Stream {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }
}

#[cfg(not(unix))]
impl io::Write for Stream {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}
