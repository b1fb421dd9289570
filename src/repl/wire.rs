//! A client's side of the protocol, over a socket.
//!
//! One thread reads; an answer goes to who asked, an event to the channel that was given at the start.

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

/// Who waits for which answer; `None` once the connection is gone.
type Asked = Mutex<Option<HashMap<String, Sender<Owned>>>>;

/// A connection on which the handshake was done.
#[derive(Debug)]
pub struct Wire {
    stream: Mutex<UnixStream>,
    next: AtomicU64,
    asked: Arc<Asked>,
}

/// Why the other side refused, or could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// The error's code; empty where the refusal is the client's own.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
    /// Further facts.
    pub data: Option<Owned>,
}

impl Refused {
    /// A refusal of the client's own.
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
    /// Shakes hands. Events come out of the channel.
    ///
    /// # Errors
    /// Where the other side hangs up or speaks no version that this one does.
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
    /// What the other side refused with, and where the connection is gone.
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
            // Who waits learns that no answer comes.
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
