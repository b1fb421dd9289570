//! The connections of the control wire: a line, its answer, the next line.
//!
//! A connection takes one thread and answers in the order of its lines. It is no client of the engine. Every line has
//! an answer: if the engine gives none in time, the wire says so itself.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::catalogue::ErrorCode;
use crate::clock::{Clock, rfc3339};
use crate::limits::{
    ACCEPT_PAUSE, CONTROL_CONNECTIONS, CONTROL_GRACE, CONTROL_LINE_BYTES, CONTROL_SILENCE, STALLED,
    UNFINISHED_BYTES,
};
use crate::message::SessionId;
use crate::projection::control::{self, Spelling};
use crate::session::control::{ControlAck, ControlRequest, ControlResult};
use crate::session::{Call, Control, Reply, Requests, Tally};
use crate::wire::control::message::{self, Code, LineCommand, NAMES, Refusal};
use crate::wire::lines::{Line, Splitter};
use crate::wire::partial_lines::Share;
use crate::wire::refusals::Refusals;
use crate::wire::transport;
use crate::wire::transport::socket::{Listener, SocketPeer, was_shut};

/// The number of every control connection in the engine: no event is for it.
const CONNECTION: u64 = 0;

/// Serves the control wire on any number of connections, up to its bound.
pub struct Server {
    control: Arc<dyn Control>,
    clock: Arc<dyn Clock>,
    tally: Arc<Tally>,
    requests: Arc<Requests>,
    /// How long a line may take to arrive.
    silence: Duration,
    connections: Mutex<Connections>,
    /// Wakes who waits for the connections to end.
    ended: Condvar,
}

#[derive(Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, Arc<UnixStream>>,
    /// No further one is served.
    closed: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl Server {
    /// A server of `control` that counts its answers in `tally`.
    pub fn new(control: Arc<dyn Control>, tally: Arc<Tally>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with_silence(control, tally, clock, CONTROL_SILENCE)
    }

    /// A server whose connections end if a line takes longer than `silence`.
    pub fn with_silence(
        control: Arc<dyn Control>,
        tally: Arc<Tally>,
        clock: Arc<dyn Clock>,
        silence: Duration,
    ) -> Arc<Self> {
        let requests = tally.wire(NAMES);
        let (connections, ended) = (Mutex::default(), Condvar::new());
        Arc::new(Self { control, clock, tally, requests, silence, connections, ended })
    }

    /// Takes connections from a listener, on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn listen(self: &Arc<Self>, listener: Listener) -> io::Result<()> {
        let server = self.clone();
        let take = move || {
            loop {
                match listener.accept(ACCEPT_PAUSE) {
                    Ok(SocketPeer::Outside(stream)) => server.welcome(stream),
                    Ok(SocketPeer::Inside(stream)) => refuse(&stream, Code::PermissionDenied, STARTED_HERE),
                    Err(error) if was_shut(&error) => return,
                    Err(error) => {
                        return tracing::warn!(%error, "the control socket takes no further connections");
                    }
                }
            }
        };
        std::thread::Builder::new().name("control".to_owned()).spawn(take).map(drop)
    }

    /// Serves a connection on a thread of its own. If there are too many, says so and hangs up.
    pub fn welcome(self: &Arc<Self>, stream: UnixStream) {
        let stream = Arc::new(stream);
        let id = {
            let mut connections = self.connections();
            if connections.closed {
                return;
            }
            if connections.open.len() >= CONTROL_CONNECTIONS {
                drop(connections);
                let message = format!(
                    "{CONTROL_CONNECTIONS} programs are connected, which is all that are served. Try again later."
                );
                return refuse(&stream, Code::TooManyConnections, &message);
            }
            connections.next = connections.next.saturating_add(1);
            let id = connections.next;
            connections.open.insert(id, stream.clone());
            id
        };
        let server = self.clone();
        let started = std::thread::Builder::new().name(format!("control-{id}")).spawn(move || {
            // Counted until here, also if it panics.
            let _counted = CountedConnection { server: &server, id };
            if let Err(error) = server.serve(&stream) {
                tracing::debug!(%error, id, "a control connection ended");
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "a control connection could not be served");
            self.connections().open.remove(&id);
        }
    }

    /// Takes no further line, and waits at most `patience` until every line that was read is answered.
    pub fn finish(&self, patience: Duration) {
        let mut connections = self.connections();
        connections.closed = true;
        for stream in connections.open.values() {
            let _ = stream.shutdown(Shutdown::Read);
        }
        let waits = |connections: &mut Connections| !connections.open.is_empty();
        let waited = self.ended.wait_timeout_while(connections, patience, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves lines until the input ends, or a line takes too long.
    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        // A program that does not read its answers ends its own connection alone.
        stream.set_write_timeout(Some(STALLED))?;
        let mut splitter = Splitter::new(CONTROL_LINE_BYTES);
        let mut share = Share::default();
        let mut input = stream;
        let mut since = Instant::now();
        loop {
            let left = self.silence.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let has_ended = match splitter.fill(&mut input) {
                Ok(count) => count == 0,
                Err(error) if is_timeout(&error) => continue,
                Err(error) => return Err(error),
            };
            while let Some(line) = splitter.next_line() {
                let answer = self.answer(&line);
                transport::send(|| input.write_all(&answer))?;
                since = Instant::now();
            }
            if !share.set(splitter.held()) {
                splitter.skip();
                share.set(0);
            }
            if has_ended {
                return Ok(());
            }
        }
    }

    /// The line that answers a line.
    fn answer(&self, line: &Line<'_>) -> Vec<u8> {
        let ask = match line {
            // An object is complete with its brace, whether or not a line feed follows.
            Line::Whole(bytes) | Line::Unterminated(bytes) => message::read(bytes),
            Line::Oversize(length, _) => {
                let most = if *length > CONTROL_LINE_BYTES { CONTROL_LINE_BYTES } else { UNFINISHED_BYTES };
                let message = format!("The line of {length} bytes is too long; at most {most} are taken.");
                Err(Refusal::new(Code::InvalidRequest, message))
            }
        };
        let ask = match ask {
            Ok(ask) => ask,
            Err(refusal) => {
                self.tally.refused(refusal.code.error_code());
                return refusal.line();
            }
        };
        let place = ask.command.place();
        let payload = match ask.command {
            LineCommand::Request(request) => {
                let ack = self.acknowledge(request);
                if let Some((code, _)) = &ack.error {
                    self.requests.refused(place);
                    self.tally.refused(*code);
                } else {
                    self.requests.responded(place);
                }
                return ask.form.line(control::ack(&ack, Spelling::Json).into());
            }
            LineCommand::Capabilities => {
                control::capabilities(&self.control.control_capabilities(), Spelling::Json).into()
            }
            LineCommand::Agents(team) => message::agent_list(&self.control.control_agents(team.as_deref())),
            LineCommand::AgentState { agent, team } => {
                let agents = self.control.control_agents(team.as_deref());
                match message::agent_status(&agents, &agent) {
                    Ok(state) => state,
                    Err(unknown) => {
                        self.requests.refused(place);
                        self.tally.refused(Code::AgentNotFound.error_code());
                        return ask.form.refusal(Code::AgentNotFound, unknown.to_string()).line();
                    }
                }
            }
        };
        self.requests.responded(place);
        ask.form.line(payload)
    }

    /// Passes a request on and waits for its acknowledgement, as long as the engine may take, and a little longer.
    fn acknowledge(&self, request: Box<ControlRequest>) -> ControlAck {
        // The request is given away before it is known whether an acknowledgement comes.
        let mut own = ControlAck::new(&request, rfc3339(self.clock.now()), ControlResult::InternalError);
        let patience = Duration::from_millis(self.control.control_capabilities().ack_timeout_ms);
        let call = Call {
            connection: CONNECTION,
            request: request.request_id.as_str().into(),
            session: SessionId::from(""),
        };
        let (sender, acknowledged) = sync_channel(1);
        self.control.control(
            call,
            request,
            Reply::new(move |result| {
                // Nobody waits for one that is late.
                let _ = sender.try_send(result);
            }),
        );
        let (result, code, message) = match acknowledged.recv_timeout(patience.saturating_add(CONTROL_GRACE))
        {
            Ok(Ok(ack)) => return ack,
            Ok(Err(error)) => (ControlResult::InternalError, error.code, error.message),
            Err(RecvTimeoutError::Disconnected) => {
                (ControlResult::InternalError, ErrorCode::Failed, "The request was lost.".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => (ControlResult::Timeout, ErrorCode::Failed, LATE.to_owned()),
        };
        own.result = result;
        own.acked_at = rfc3339(self.clock.now());
        own.detail = Some(message.clone());
        own.error = Some((code, message));
        own
    }
}

/// What a program is told whose request is not acknowledged in time.
const LATE: &str =
    "The session did not answer in time. The request may still be done; ask again with its request_id.";

/// A connection that is counted among the open ones.
struct CountedConnection<'s> {
    server: &'s Server,
    id: u64,
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.server.connections().open.remove(&self.id);
        self.server.ended.notify_all();
    }
}

/// What a program is told that the bridge has started.
const STARTED_HERE: &str = "A program that the bridge has started may not connect to it.";

/// Says to a program why it is not served, and hangs up.
fn refuse(mut stream: &UnixStream, code: Code, message: &str) {
    static REFUSED: Refusals = Refusals::new();
    REFUSED.log(message);
    let line = Refusal::new(code, message).line();
    // A new socket has room for a line, so this does not wait for the program.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&line));
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
