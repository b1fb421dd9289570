//! The protocol over a program's pipes: one JSON message a line, bounded both ways.
//!
//! `rmcp` has such a transport; this one differs where a server does not keep to the protocol: a line that is too long or
//! has too many values ends the connection with words instead of being dropped (its caller would wait for nothing), an
//! answer that cannot be read fails its call, text that is no message is borne to a bound, open questions stop the
//! reading, a flood of notifications is read slowly, and a server that is silent to `server/discover` is answered for after a time of ours.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::failure::UNREADABLE;
use super::lenient;
use super::rate_limit::Pace;
use crate::limits::{
    MAX_FRAME_VALUES, MCP_DISCOVER_WAIT, MCP_LINE_BYTES, MCP_NOISE_BYTES, MCP_NOISE_LINES, MCP_OPEN_REQUESTS,
    MCP_TOLD, MCP_TOLD_PAUSE, MCP_WRITE_WAIT,
};
use crate::peer::{LineReader, Redactor};

/// The pipes of a program, as a transport.
pub(super) struct Pipes {
    read: LineReader<pipe::Receiver>,
    write: Arc<tokio::sync::Mutex<Option<pipe::Sender>>>,
    open: Arc<Open>,
    /// Messages that the transport itself answers with.
    ready: VecDeque<ServerJsonRpcMessage>,
    /// The request for discovery that is not answered yet, and until when it is waited for.
    probe: Option<(RequestId, Instant)>,
    /// Requests that were answered for the server: its own answer comes too late.
    answered_for: HashSet<RequestId>,
    noise: (usize, usize),
    /// How fast what it says of itself is read.
    told: Pace,
    noted: Arc<Redactor>,
}

/// The server's requests that are not answered yet.
#[derive(Default)]
struct Open {
    counts: Mutex<HashMap<RequestId, usize>>,
    fewer: Notify,
}

impl Open {
    fn begin(&self, id: RequestId) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(id).or_default();
        *count = count.saturating_add(1);
    }

    fn end(&self, id: &RequestId) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(id) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(id);
            }
        }
        drop(counts);
        self.fewer.notify_one();
    }

    fn is_full(&self) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.values().sum::<usize>() >= MCP_OPEN_REQUESTS
    }
}

impl Pipes {
    /// Reads what the program writes, and writes what it reads. What goes wrong is noted.
    pub(super) fn new(read: pipe::Receiver, write: pipe::Sender, noted: Arc<Redactor>) -> Self {
        Self {
            read: LineReader::new(read, MCP_LINE_BYTES),
            write: Arc::new(tokio::sync::Mutex::new(Some(write))),
            open: Arc::default(),
            ready: VecDeque::new(),
            probe: None,
            answered_for: HashSet::new(),
            noise: (0, 0),
            told: Pace::new(MCP_TOLD, MCP_TOLD_PAUSE),
            noted,
        }
    }

    /// The message of a line; `None` for one that says nothing.
    fn understand(&mut self, line: &[u8]) -> io::Result<Option<ServerJsonRpcMessage>> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        if values(line) > MAX_FRAME_VALUES {
            let error = format!("it sent a message of more than {MAX_FRAME_VALUES} values");
            return Err(io::Error::other(error));
        }
        let line = &*lenient::mend(line, None);
        if let Ok(message) = serde_json::from_slice::<ServerJsonRpcMessage>(line) {
            return Ok(self.admit(message));
        }
        let shape = serde_json::from_slice::<Shape>(line);
        if let Ok(Shape { id: Some(id), method: None }) = shape {
            return Ok(Some(unreadable(id)));
        }
        // A notification that nobody knows is none to complain of.
        if matches!(shape, Ok(Shape { id: None, method: Some(_), .. })) {
            return Ok(None);
        }
        self.noise = (self.noise.0.saturating_add(1), self.noise.1.saturating_add(line.len()));
        if self.noise.0 > MCP_NOISE_LINES || self.noise.1 > MCP_NOISE_BYTES {
            return Err(io::Error::other(
                "it writes to its standard output what is no message of the protocol",
            ));
        }
        Ok(None)
    }

    fn admit(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => self.open.begin(request.id.clone()),
            // A request that is taken back is not answered.
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.end(id);
                }
            }
            JsonRpcMessage::Response(response) => return self.first_answer(response.id.clone(), message),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = error.id.clone() {
                    return self.first_answer(id, message);
                }
            }
        }
        Some(message)
    }

    fn first_answer(&mut self, id: RequestId, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        if self.probe.as_ref().is_some_and(|(probe, _)| *probe == id) {
            self.probe = None;
        }
        (!self.answered_for.remove(&id)).then_some(message)
    }
}

/// The shape of a message: an answer has no method.
#[derive(serde::Deserialize)]
pub(super) struct Shape {
    pub(super) id: Option<RequestId>,
    pub(super) method: Option<serde::de::IgnoredAny>,
}

/// The answer in place of one that cannot be read.
pub(super) fn unreadable(id: RequestId) -> ServerJsonRpcMessage {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, UNREADABLE, None), Some(id))
}

/// How many values a text of JSON has at most. Each costs some hundred bytes of memory when it is read.
pub(super) fn values(text: &[u8]) -> usize {
    let (mut count, mut rest) = (1usize, text);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b',' | b':' | b'[' | b'{' => count = count.saturating_add(1),
            b'"' => {
                while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
                    let is_end = rest.get(at) == Some(&b'"');
                    rest = rest.get(at.saturating_add(if is_end { 1 } else { 2 })..).unwrap_or_default();
                    if is_end {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    count
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Request(request) => {
                if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
                    self.probe = Some((request.id.clone(), Instant::now() + MCP_DISCOVER_WAIT));
                }
                None
            }
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Notification(_) => None,
        };
        let (write, open, noted) = (self.write.clone(), self.open.clone(), self.noted.clone());
        async move {
            let mut bytes = serde_json::to_vec(&message).map_err(io::Error::other)?;
            drop(message);
            bytes.push(b'\n');
            let mut place = write.lock().await;
            let pipe = place.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let sent = match timeout(MCP_WRITE_WAIT, pipe.write_all(&bytes)).await {
                Ok(sent) => sent,
                Err(_) => {
                    noted.note("it does not read what it is sent");
                    Err(io::ErrorKind::TimedOut.into())
                }
            };
            // Half of a line is sent: nothing after it would be understood.
            if sent.is_err() {
                *place = None;
            }
            drop(place);
            if let Some(id) = answered {
                open.end(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            while self.open.is_full() {
                let open = self.open.clone();
                open.fewer.notified().await;
            }
            let read = match self.probe.clone() {
                None => self.read.next().await,
                Some((id, until)) => tokio::select! {
                    biased;
                    read = self.read.next() => read,
                    () = sleep_until(until) => {
                        self.probe = None;
                        self.answered_for.insert(id.clone());
                        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer came", None);
                        return Some(JsonRpcMessage::error(error, Some(id)));
                    }
                },
            };
            let line = match read {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(error) => {
                    self.noted.note(error);
                    return None;
                }
            };
            match self.understand(&line) {
                Ok(message) => {
                    let is_answer =
                        matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
                    // Kept first: whoever waits here may stop waiting.
                    self.ready.extend(message);
                    if !is_answer {
                        self.told.wait().await;
                    }
                }
                Err(error) => {
                    self.noted.note(error);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A write that hangs must not keep its end open.
        if let Ok(mut write) = timeout(MCP_WRITE_WAIT, self.write.lock()).await {
            *write = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_of_notifications_is_read_slowly() {
        let (mut flood, read) = pipe::pipe().unwrap();
        let (write, _its_input) = pipe::pipe().unwrap();
        let mut pipes = Pipes::new(read, write, Arc::default());
        let flooding = tokio::spawn(async move {
            let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
            while flood.write_all(line).await.is_ok() {}
        });
        let begun = Instant::now();
        for _ in 0..MCP_TOLD {
            assert!(pipes.receive().await.is_some());
        }
        let at_once = begun.elapsed();
        assert!(at_once <= MCP_TOLD_PAUSE * 2, "{at_once:?}");
        for _ in 0..100 {
            assert!(pipes.receive().await.is_some());
        }
        assert!(begun.elapsed() >= MCP_TOLD_PAUSE * 99, "{:?}", begun.elapsed());
        flooding.abort();
    }

    #[test]
    fn values_of_a_text_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("1", 1),
            ("[1,2,3]", 4),
            (r#"{"a":[1,"x,y:[{\"z"],"b":{}}"#, 8),
            (r#""\\""#, 1),
            (r#""unended \""#, 1),
        ] {
            assert_eq!(values(text.as_bytes()), expected, "{text}");
        }
    }
}
