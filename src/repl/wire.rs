//! The client's side of the protocol, over a socket.
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

use crate::catalogue::PROTOCOL_VERSION_TEXT;
use crate::edn;
use crate::limits::{MAX_LINE_BYTES, REPL_EVENTS};
use crate::value::{Map, Owned, Value};

/// The callers that wait for answers; `None` once the connection is gone.
type Asked = Mutex<Option<HashMap<String, Sender<Owned>>>>;

/// A connection after its handshake.
#[derive(Debug)]
pub struct Wire {
    stream: Mutex<UnixStream>,
    next: AtomicU64,
    asked: Arc<Asked>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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

impl Wire {
    /// Shakes hands. The returned channel yields the events.
    ///
    /// # Errors
    /// If the server hangs up or has no common version.
    pub fn open(stream: UnixStream) -> Result<(Self, Receiver<Owned>), Refused> {
        let failed = |error: io::Error| Refused::here(format!("The bridge cannot be reached: {error}"));
        let input = stream.try_clone().map_err(failed)?;
        let asked = Arc::new(Mutex::new(Some(HashMap::new())));
        let (events, receiver) = sync_channel(REPL_EVENTS);
        let answers = asked.clone();
        std::thread::Builder::new()
            .name("wire".to_owned())
            .spawn(move || read(BufReader::new(input), &answers, &events))
            .map_err(failed)?;
        let wire = Self { stream: Mutex::new(stream), next: AtomicU64::new(1), asked };
        let info = Map::new()
            .with("name", "edn-bridge repl")
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("protocol-version", PROTOCOL_VERSION_TEXT);
        wire.ask("handshake", Value::from(Map::new().with("client-info", Value::from(info))))?;
        Ok((wire, receiver))
    }

    /// Sends a request and waits for its answer: the `:data` of the response.
    ///
    /// # Errors
    /// The server's error, or a lost connection.
    pub fn ask(&self, op: &str, params: Owned) -> Result<Owned, Refused> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let gone = || Refused::here("The bridge has ended.");
        let (sender, receiver) = channel();
        self.asked().as_mut().ok_or_else(gone)?.insert(id.clone(), sender);
        let frame = Map::new()
            .with("id", id)
            .with("kind", Value::keyword("request"))
            .with("op", op.to_owned())
            .with("params", params);
        let mut line = Vec::new();
        edn::write_compact(&Value::from(frame), &mut line);
        // A line feed within a string would end the frame.
        let mut line = line
            .iter()
            .flat_map(|byte| if *byte == b'\n' { &b"\\n"[..] } else { std::slice::from_ref(byte) })
            .copied()
            .collect::<Vec<_>>();
        line.push(b'\n');
        let sent = self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
        sent.map_err(|_| gone())?;
        let answer = receiver.recv().map_err(|_| gone())?;
        if answer.get("kind").and_then(Value::as_keyword) == Some("error") {
            let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let data = answer.get("data").filter(|data| !data.is_nil()).cloned();
            return Err(Refused { code: text("error-code"), message: text("error-message"), data });
        }
        Ok(answer.get("data").cloned().unwrap_or(Value::Nil))
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, Option<HashMap<String, Sender<Owned>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

fn read(mut input: BufReader<UnixStream>, asked: &Asked, events: &SyncSender<Owned>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let bound = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
        let count = io::Read::take(&mut input, bound.saturating_mul(4)).read_until(b'\n', &mut line);
        if !matches!(count, Ok(count) if count > 0) {
            // Waiting callers learn that no answer will come.
            *asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
            return;
        }
        let Ok(frame) = edn::read_one(&line).map(Value::into_owned) else { continue };
        if frame.get("kind").and_then(Value::as_keyword) == Some("event") {
            // Answers must not wait behind events that nobody takes.
            let _ = events.try_send(frame);
            continue;
        }
        let id = frame.get("id").and_then(Value::as_str).unwrap_or_default();
        let sender =
            asked.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(|asked| asked.remove(id));
        if let Some(sender) = sender {
            let _ = sender.send(frame);
        }
    }
}
