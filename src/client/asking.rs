//! Requests and their answers, over a socket or a program's pipes.
//!
//! One thread reads. Answers go to their callers, events to the channel from the start. Does not interpret
//! them.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use edn_codec::value::{Owned, Value};

use crate::local::Stream;
use crate::{LONGEST_LINE, LONGEST_REQUEST, frame};

/// The callers that wait for answers; once the connection has ended, why.
type Asked = Mutex<Result<HashMap<String, Sender<Owned>>, Refused>>;

/// How a client introduces itself in the handshake.
#[derive(Debug, Clone, Copy)]
pub struct Hello<'h> {
    /// The client's name, which others see.
    pub name: &'h str,
    /// Its version.
    pub version: &'h str,
    /// The features that it asks for, such as `interactor`; see [`Client::server_info`] for those that were agreed on.
    pub features: &'h [&'h str],
    /// How many events are kept until they are taken; the newest ones are dropped beyond that. `None` keeps all: with
    /// the feature `flow-credit`, the server bounds how many come.
    pub kept_events: Option<usize>,
}

/// A connection after its handshake. Any number of threads may ask at the same time.
pub struct Client {
    output: Mutex<Box<dyn Write + Send>>,
    /// Shut at the end, so that the reading thread ends too.
    socket: Option<Stream>,
    next: AtomicU64,
    asked: Arc<Asked>,
    server: OnceLock<Owned>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The error's code; empty if the client itself refused.
    pub code: String,
    /// The cause, and what to do about it.
    pub message: String,
    /// Whether the same request may succeed later. If the client itself refused, that is so if no answer came in time.
    pub is_retryable: bool,
    /// Further facts.
    pub data: Option<Owned>,
}

impl Refused {
    /// A refusal by the client itself.
    pub fn here(message: impl Into<String>) -> Self {
        Self { code: String::new(), message: message.into(), is_retryable: false, data: None }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.code.is_empty() {
            write!(f, " ({})", self.code)?;
        }
        match &self.data {
            Some(data) => write!(f, " {data}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// Shakes hands over a socket. The returned channel yields the events; its end is the end of the connection.
    /// Dropping the client closes the socket.
    ///
    /// # Errors
    /// If the server hangs up or has no common version.
    pub fn connect(stream: Stream, hello: &Hello<'_>) -> Result<(Self, Receiver<Owned>), Refused> {
        Self::over(stream, hello, None)
    }

    /// The same for a server that may be stopped: it is given up if it does not answer the handshake within the time.
    ///
    /// # Errors
    /// If the server hangs up, has no common version, or does not answer in time.
    pub fn connect_within(
        stream: Stream,
        hello: &Hello<'_>,
        patience: Duration,
    ) -> Result<(Self, Receiver<Owned>), Refused> {
        Self::over(stream, hello, Some(patience))
    }

    fn over(
        stream: Stream,
        hello: &Hello<'_>,
        patience: Option<Duration>,
    ) -> Result<(Self, Receiver<Owned>), Refused> {
        let input = stream.try_clone().map_err(unreachable)?;
        let socket = stream.try_clone().map_err(unreachable)?;
        Self::start(input, stream, Some(socket), hello, patience)
    }

    /// The same over two streams, such as the standard output and input of `edn-bridge serve`. The connection ends when
    /// the server closes `input`, which it does once `output` is closed: drop the client, then wait for the program.
    ///
    /// # Errors
    /// If the server hangs up or has no common version.
    pub fn open(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        hello: &Hello<'_>,
    ) -> Result<(Self, Receiver<Owned>), Refused> {
        Self::start(input, output, None, hello, None)
    }

    fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        socket: Option<Stream>,
        hello: &Hello<'_>,
        patience: Option<Duration>,
    ) -> Result<(Self, Receiver<Owned>), Refused> {
        let asked = Arc::new(Mutex::new(Ok(HashMap::new())));
        let (events, receiver) = match hello.kept_events {
            Some(kept) => {
                let (events, receiver) = sync_channel(kept);
                (Events::AtMost(events), receiver)
            }
            None => {
                let (events, receiver) = channel();
                (Events::All(events), receiver)
            }
        };
        let answers = asked.clone();
        std::thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || read(BufReader::new(input), &answers, &events))
            .map_err(unreachable)?;
        let output = Mutex::new(Box::new(output) as Box<dyn Write + Send>);
        let client = Self { output, socket, next: AtomicU64::new(1), asked, server: OnceLock::new() };
        let info = frame::client_info(hello.name, hello.version, hello.features);
        let agreed = client.await_answer(&client.send("handshake", &info)?, patience)?;
        let _ = client.server.set(agreed.get("server-info").cloned().unwrap_or(Value::Nil));
        Ok((client, receiver))
    }

    /// What the server said of itself in the handshake: `:session-id`, `:features` and so on.
    pub fn server_info(&self) -> &Owned {
        const NIL: &Owned = &Value::Nil;
        self.server.get().unwrap_or(NIL)
    }

    /// Sends a request and waits for its answer: the `:data` of the response.
    ///
    /// # Errors
    /// The server's error, or a lost connection.
    pub fn ask(&self, op: &str, params: Owned) -> Result<Owned, Refused> {
        self.await_answer(&self.send(op, &as_line(&params))?, None)
    }

    /// The same, and waits at most for that time. An answer that comes later is nobody's.
    ///
    /// # Errors
    /// The server's error, a lost connection, or no answer in time.
    pub fn ask_within(&self, op: &str, params: Owned, patience: Duration) -> Result<Owned, Refused> {
        self.await_answer(&self.send(op, &as_line(&params))?, Some(patience))
    }

    /// Sends a request and waits for no answer, such as for `ack` or `abort`.
    ///
    /// # Errors
    /// A lost connection.
    pub fn tell(&self, op: &str, params: Owned) -> Result<(), Refused> {
        self.send(op, &as_line(&params)).map(drop)
    }

    /// Returns where the answer will come.
    fn send(&self, op: &str, params: &str) -> Result<Receiver<Owned>, Refused> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let mut line = frame::request(&id, op, params);
        if line.len() > LONGEST_REQUEST {
            // A server could not say whose request it refuses.
            return Err(Refused::here(format!("The request is longer than {LONGEST_REQUEST} bytes.")));
        }
        line.push('\n');
        let (sender, receiver) = channel();
        self.asked().as_mut().map_err(|ended| ended.clone())?.insert(id, sender);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(line.as_bytes()).and_then(|()| output.flush()).map_err(|_| gone())?;
        Ok(receiver)
    }

    fn await_answer(&self, receiver: &Receiver<Owned>, patience: Option<Duration>) -> Result<Owned, Refused> {
        let answer = match patience {
            None => receiver.recv().map_err(RecvTimeoutError::from),
            Some(patience) => receiver.recv_timeout(patience),
        };
        let answer = answer.map_err(|error| match error {
            RecvTimeoutError::Timeout => late(),
            RecvTimeoutError::Disconnected => self.asked().as_ref().err().cloned().unwrap_or_else(gone),
        })?;
        if frame::kind(&answer) == "error" {
            let data = Some(frame::data(&answer)).filter(|data| !data.is_nil()).cloned();
            let message = frame::text(&answer, "error-message").to_owned();
            let is_retryable = answer.get("retryable").and_then(Value::as_bool).unwrap_or(false);
            return Err(Refused { code: frame::code(&answer).to_owned(), message, is_retryable, data });
        }
        Ok(frame::data(&answer).clone())
    }

    fn asked(&self) -> MutexGuard<'_, Result<HashMap<String, Sender<Owned>>, Refused>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Where events go.
enum Events {
    All(Sender<Owned>),
    AtMost(SyncSender<Owned>),
}

fn gone() -> Refused {
    Refused::here("The bridge has ended.")
}

fn late() -> Refused {
    Refused { is_retryable: true, ..Refused::here("The bridge has not answered in time.") }
}

fn unreachable(error: io::Error) -> Refused {
    Refused::here(format!("The bridge cannot be reached: {error}"))
}

/// Params in one line: a line feed within a string would end the frame.
fn as_line(params: &Owned) -> String {
    let mut text = Vec::new();
    edn_codec::write_compact(params, &mut text);
    String::from_utf8_lossy(&text).replace('\n', "\\n")
}

/// Reads to the end, and tells those who wait that no answer will come.
fn read(input: BufReader<impl Read>, asked: &Asked, events: &Events) {
    let ended = pass_on(input, asked, events);
    *asked.lock().unwrap_or_else(PoisonError::into_inner) = Err(ended);
}

/// Passes frames on until the connection ends; returns why. A line that is no frame ends it too: whose answer it was
/// nobody knows.
fn pass_on(mut input: BufReader<impl Read>, asked: &Asked, events: &Events) -> Refused {
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if !matches!(count, Ok(count) if count > 0) {
            return gone();
        }
        let frame = match edn_codec::read_one(&line) {
            Ok(frame) if frame.as_map().is_some() => frame.into_owned(),
            _ if line.last() == Some(&b'\n') => {
                return Refused::here("The bridge sent a line that is no frame. The connection has ended.");
            }
            _ if u64::try_from(line.len()).is_ok_and(|length| length < LONGEST_LINE) => {
                return Refused::here("The bridge has ended in the middle of a line.");
            }
            _ => {
                let message = format!("The bridge sent a line of more than {LONGEST_LINE} bytes.");
                return Refused::here(message + " The connection has ended.");
            }
        };
        if frame::kind(&frame) == "event" {
            // Answers must not wait behind events that nobody takes.
            match events {
                Events::All(events) => drop(events.send(frame)),
                Events::AtMost(events) => drop(events.try_send(frame)),
            }
            continue;
        }
        let id = frame::text(&frame, "id");
        let sender = asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .ok()
            .and_then(|asked| asked.remove(id));
        if let Some(sender) = sender {
            let _ = sender.send(frame);
        }
    }
}
