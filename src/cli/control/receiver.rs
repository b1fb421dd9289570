//! A receiver of control requests: what it offers, and its answer to a line. Does not know what its caller sends.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use edn_bridge::json;
use edn_bridge::limits::CONTROL_ANSWER_BYTES;
use edn_bridge::session::control::{ControlKind, ControlResult};
use edn_bridge::value::{Map, Value};
use edn_bridge::wire::lines::{Line, Splitter};
use edn_bridge::wire::transport::socket::{self, RunningProcess};

/// A receiver, connected or not.
pub(super) struct Receiver {
    path: PathBuf,
    stream: Option<UnixStream>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    /// None came in time.
    #[error("the receiver did not answer in time")]
    Timeout,
    /// There is no connection, or none any more.
    #[error("the receiver cannot be reached: {0}")]
    Closed(io::Error),
    /// The receiver answered with an error.
    #[error("the receiver refused: {0}")]
    Refused(String),
    /// The answer is none to the line.
    #[error("the receiver's answer cannot be read: {0}")]
    Unreadable(String),
}

/// What a receiver says that it serves.
pub(super) struct Offer {
    pub types: Vec<String>,
    pub soft_limit_bytes: u64,
    pub hard_limit_bytes: u64,
    pub file_limit_bytes: u64,
    pub content_folders: Vec<PathBuf>,
    pub max_age_ms: u64,
    /// The message itself.
    pub message: Map<'static>,
}

impl Receiver {
    /// The receiver at a path.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, stream: None }
    }

    /// A receiver that was found running.
    pub(super) fn found(found: RunningProcess) -> Self {
        Self { path: found.path, stream: Some(found.stream) }
    }

    /// Its socket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Asks what the receiver serves.
    pub(super) fn offer(&mut self, patience: Duration) -> Result<Offer, ReceiveError> {
        let message = self.ask(b"{\"type\":\"control.capabilities.request\",\"v\":1}\n", patience)?;
        expect(&message, "type", "control.capabilities.ack")?;
        let texts = |key| {
            let items = get(&message, key).and_then(Value::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let number = |key: &'static str| {
            let number = get(&message, key).and_then(Value::as_i64);
            number.and_then(|number| u64::try_from(number).ok()).ok_or_else(|| unreadable(key))
        };
        Ok(Offer {
            types: texts("types"),
            soft_limit_bytes: number("soft_limit_bytes")?,
            hard_limit_bytes: number("hard_limit_bytes")?,
            file_limit_bytes: number("file_limit_bytes")?,
            content_folders: texts("content_folders").into_iter().map(PathBuf::from).collect(),
            max_age_ms: number("max_age_ms")?,
            message,
        })
    }

    /// Sends a request and returns its acknowledgement with the result. On a timeout the connection is given up, because
    /// a later answer on it would be taken for another one's.
    pub(super) fn acknowledgement(
        &mut self,
        line: &[u8],
        kind: ControlKind,
        id: &str,
        patience: Duration,
    ) -> Result<(Map<'static>, ControlResult), ReceiveError> {
        let ack = self.ask(line, patience)?;
        expect(&ack, "type", &format!("control.{}.ack", kind.as_str()))?;
        expect(&ack, "request_id", id)?;
        let name = get(&ack, "result").and_then(Value::as_str).unwrap_or_default();
        let result = ControlResult::ALL.into_iter().find(|result| result.as_str() == name);
        let result = result.ok_or_else(|| unreadable("result"))?;
        Ok((ack, result))
    }

    /// Sends a line and returns its answer, an object that is no error.
    fn ask(&mut self, line: &[u8], patience: Duration) -> Result<Map<'static>, ReceiveError> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => socket::connect_at(&self.path).map_err(lost)?,
        };
        let answer = exchange(&stream, line, patience)?;
        let value = json::read(&answer).map_err(|error| ReceiveError::Unreadable(error.to_string()))?;
        let Value::Map(map) = value.into_owned() else { return Err(unreadable("object")) };
        if let Some(Value::Map(error)) = get(&map, "error")
            && get(&map, "status").is_some()
        {
            let text = |key| get(error, key).and_then(Value::as_str).unwrap_or_default();
            return Err(ReceiveError::Refused(format!("{} ({})", text("message"), text("code"))));
        }
        self.stream = Some(stream);
        Ok(map)
    }
}

/// Writes a line and reads the next one, within a time.
fn exchange(stream: &UnixStream, line: &[u8], patience: Duration) -> Result<Vec<u8>, ReceiveError> {
    let started = Instant::now();
    let left = || match patience.saturating_sub(started.elapsed()) {
        left if left.is_zero() => Err(ReceiveError::Timeout),
        left => Ok(left),
    };
    let mut stream = stream;
    let mut unwritten = line;
    while !unwritten.is_empty() {
        stream.set_write_timeout(Some(left()?)).map_err(lost)?;
        match stream.write(unwritten) {
            Ok(count) => unwritten = unwritten.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A refusal may be there to be read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(lost(error)),
        }
    }
    let mut splitter = Splitter::new(CONTROL_ANSWER_BYTES);
    loop {
        match splitter.next_line() {
            Some(Line::Whole(answer)) => return Ok(answer.to_vec()),
            Some(Line::Oversize(_, _)) => return Err(ReceiveError::Unreadable("it is too long".to_owned())),
            Some(Line::Unterminated(_)) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
            None => {}
        }
        stream.set_read_timeout(Some(left()?)).map_err(lost)?;
        match splitter.fill(&mut stream) {
            Ok(0) if splitter.next_line().is_none() => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) => return Err(lost(error)),
        }
    }
}

fn lost(error: io::Error) -> ReceiveError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ReceiveError::Timeout,
        _ => ReceiveError::Closed(error),
    }
}

fn get<'m>(map: &'m Map<'static>, key: &'static str) -> Option<&'m Value<'static>> {
    map.get(&Value::str(key))
}

fn expect(map: &Map<'static>, key: &'static str, expected: &str) -> Result<(), ReceiveError> {
    if get(map, key).and_then(Value::as_str) == Some(expected) { Ok(()) } else { Err(unreadable(key)) }
}

fn unreadable(key: &str) -> ReceiveError {
    ReceiveError::Unreadable(format!("its {key} is not what was expected"))
}
