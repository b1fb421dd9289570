//! A transport in memory: two bounded pipes between a connection and a test that plays its client.
//!
//! It behaves like pipes of the system, except that the caller sets its bound. A test thus decides to the
//! byte how far a client has read.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Input, Output, Transport, TransportKind};

/// The client's half.
#[derive(Debug)]
pub struct Far {
    /// What the client writes. Dropping it ends the connection's input.
    pub input: Writer,
    /// What the client reads. After it is dropped, the connection's writes fail.
    pub output: Reader,
}

/// A transport whose pipes hold `capacity` bytes each, and its other end.
pub fn pair(capacity: usize) -> (Transport, Far) {
    let (input, from_client) = pipe(capacity);
    let (to_client, output) = pipe(capacity);
    let near = Transport {
        kind: TransportKind::Memory,
        input: Box::new(from_client),
        output: Box::new(Near(to_client)),
    };
    (near, Far { input, output })
}

fn pipe(capacity: usize) -> (Writer, Reader) {
    let pipe = Arc::new(Pipe { state: Mutex::default(), changed: Condvar::new(), capacity });
    (Writer(pipe.clone()), Reader(pipe))
}

#[derive(Debug)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct PipeState {
    bytes: VecDeque<u8>,
    /// No more bytes will follow.
    ended: bool,
    /// The reader is gone.
    abandoned: bool,
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes as much as there is room for.
    fn write(&self, bytes: &[u8], wait: bool) -> io::Result<usize> {
        let mut state = self.lock();
        if wait {
            let full = |state: &mut PipeState| state.bytes.len() >= self.capacity && !state.abandoned;
            state = self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = self.capacity.saturating_sub(state.bytes.len());
        let part = bytes.get(..room).unwrap_or(bytes);
        state.bytes.extend(part);
        self.changed.notify_all();
        Ok(part.len())
    }
}

/// The writing end of a pipe.
#[derive(Debug)]
pub struct Writer(Arc<Pipe>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes, true)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// The reading end of a pipe.
#[derive(Debug)]
pub struct Reader(Arc<Pipe>);

impl Reader {
    /// Waits until `count` bytes are readable or no more will come; returns the number of readable bytes.
    pub fn wait_for(&self, count: usize) -> usize {
        let few = |state: &mut PipeState| state.bytes.len() < count && !state.ended;
        let state = self.0.changed.wait_while(self.0.lock(), few);
        state.unwrap_or_else(PoisonError::into_inner).bytes.len()
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait_for(1);
        let count = self.0.lock().bytes.read(buffer)?;
        self.0.changed.notify_all();
        Ok(count)
    }
}

impl Input for Reader {
    fn has_ended(&self) -> bool {
        self.0.lock().ended
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.changed.notify_all();
    }
}

/// The connection's output.
struct Near(Writer);

impl Output for Near {
    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.0.0.write(bytes, true)?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.write(bytes, false)
    }

    fn shut(&self) {
        self.0.0.lock().ended = true;
        self.0.0.changed.notify_all();
    }
}
