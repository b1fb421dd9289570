//! Requests and their answers, over a socket.
//!
//! One thread reads. Answers go to their callers, events to the channel from the start. Does not interpret
//! them.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use edn_codec::value::{Owned, Value};

use crate::{LONGEST_LINE, frame};

/// The callers that wait for answers; `None` once the connection is gone.
type Asked = Mutex<Option<HashMap<String, Sender<Owned>>>>;

/// A connection after its handshake.
#[derive(Debug)]
pub struct Client {
    stream: Mutex<UnixStream>,
    next: AtomicU64,
    asked: Arc<Asked>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The error's code; empty if the client itself refused.
    pub code: String,
    /// The cause, and what to do about it.
    pub message: String,
    /// Further facts.
    pub data: Option<Owned>,
}

impl Refused {
    /// A refusal by the client itself.
    pub fn here(message: impl Into<String>) -> Self {
        Self { code: String::new(), message: message.into(), data: None }
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
    /// Shakes hands as the client of that name and version. The returned channel yields the events; it holds
    /// `events` of them, and drops those that find it full.
    ///
    /// # Errors
    /// If the server hangs up or has no common version.
    pub fn open(
        stream: UnixStream,
        name: &str,
        version: &str,
        events: usize,
    ) -> Result<(Self, Receiver<Owned>), Refused> {
        let failed = |error: io::Error| Refused::here(format!("The bridge cannot be reached: {error}"));
        let input = stream.try_clone().map_err(failed)?;
        let asked = Arc::new(Mutex::new(Some(HashMap::new())));
        let (events, receiver) = sync_channel(events);
        let answers = asked.clone();
        std::thread::Builder::new()
            .name("client".to_owned())
            .spawn(move || read(BufReader::new(input), &answers, &events))
            .map_err(failed)?;
        let client = Self { stream: Mutex::new(stream), next: AtomicU64::new(1), asked };
        client.send("handshake", &frame::client_info(name, version, &[]))?;
        Ok((client, receiver))
    }

    /// Sends a request and waits for its answer: the `:data` of the response.
    ///
    /// # Errors
    /// The server's error, or a lost connection.
    pub fn ask(&self, op: &str, params: Owned) -> Result<Owned, Refused> {
        let mut text = Vec::new();
        edn_codec::write_compact(&params, &mut text);
        // A line feed within a string would end the frame.
        self.send(op, &String::from_utf8_lossy(&text).replace('\n', "\\n"))
    }

    fn send(&self, op: &str, params: &str) -> Result<Owned, Refused> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let gone = || Refused::here("The bridge has ended.");
        let (sender, receiver) = channel();
        self.asked().as_mut().ok_or_else(gone)?.insert(id.clone(), sender);
        let mut line = frame::request(&id, op, params);
        line.push('\n');
        let sent = self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        sent.map_err(|_| gone())?;
        let answer = receiver.recv().map_err(|_| gone())?;
        if frame::kind(&answer) == "error" {
            let data = Some(frame::data(&answer)).filter(|data| !data.is_nil()).cloned();
            let message = frame::text(&answer, "error-message").to_owned();
            return Err(Refused { code: frame::code(&answer).to_owned(), message, data });
        }
        Ok(frame::data(&answer).clone())
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Option<HashMap<String, Sender<Owned>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read(mut input: BufReader<UnixStream>, asked: &Asked, events: &SyncSender<Owned>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut line);
        if !matches!(count, Ok(count) if count > 0) {
            // Waiting callers learn that no answer will come.
            *asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return;
        }
        let Ok(frame) = edn_codec::read_one(&line).map(Value::into_owned) else { continue };
        if frame::kind(&frame) == "event" {
            // Answers must not wait behind events that nobody takes.
            let _ = events.try_send(frame);
            continue;
        }
        let id = frame::text(&frame, "id");
        let sender =
            asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|asked| asked.remove(id));
        if let Some(sender) = sender {
            let _ = sender.send(frame);
        }
    }
}
