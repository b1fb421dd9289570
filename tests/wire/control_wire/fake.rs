//! A runtime that answers as a test says, behind the real wire.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use edn_bridge::clock::fake::FixedClock;
use edn_bridge::session::control::{
    Capabilities, Control, ControlAck, ControlAction, ControlKind, ControlRequest, ControlResult, TeamMember,
};
use edn_bridge::session::{Call, Reply, Tally};
use edn_bridge::wire::control::serve::Server;
use serde_json::Value as Json;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

type Answer = Box<dyn Fn(&ControlRequest, Reply<ControlAck>) + Send + Sync>;

/// The runtime.
pub struct Fake {
    answer: Answer,
    pub ack_timeout_ms: u64,
    pub agents: Vec<TeamMember>,
    /// The calls, with what they ask.
    pub seen: Mutex<Vec<(Call, ControlRequest)>>,
}

impl Fake {
    /// A runtime that accepts every request with a right shape.
    pub fn new() -> Self {
        Self::answering(|request, reply| {
            let result = if request.asked.is_ok() { ControlResult::Ok } else { ControlResult::Rejected };
            reply.ok(ack(request, result));
        })
    }

    pub fn answering(answer: impl Fn(&ControlRequest, Reply<ControlAck>) + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(answer), ack_timeout_ms: 60_000, agents: Vec::new(), seen: Mutex::default() }
    }

    /// The texts that arrived.
    pub fn texts(&self) -> Vec<String> {
        let text = |request: &ControlRequest| match &request.asked {
            Ok(ControlAction::Stdin { content, .. }) => format!("{content:?}"),
            other => format!("{other:?}"),
        };
        self.seen.lock().unwrap().iter().map(|(_, request)| text(request)).collect()
    }
}

pub fn ack(request: &ControlRequest, result: ControlResult) -> ControlAck {
    ControlAck::new(request, "2026-02-20T21:15:00.000Z".into(), result)
}

pub fn agent(id: &str, name: Option<&str>, is_busy: bool) -> TeamMember {
    let name = name.map(Into::into);
    TeamMember { id: id.into(), name, parent: None, team: "atm-dev".to_owned(), is_busy, cwd: "/p".into() }
}

impl Control for Fake {
    fn control(&self, call: Call, request: Box<ControlRequest>, reply: Reply<ControlAck>) {
        self.seen.lock().unwrap().push((call, (*request).clone()));
        (self.answer)(&request, reply);
    }

    fn control_capabilities(&self) -> Capabilities {
        Capabilities {
            kinds: vec![ControlKind::Stdin, ControlKind::Interrupt],
            soft_limit_bytes: 65_536,
            hard_limit_bytes: 1_048_576,
            file_limit_bytes: 8_388_608,
            content_folders: vec![PathBuf::from("/in")],
            max_age_ms: 300_000,
            max_skew_ms: 60_000,
            dedupe_ms: 600_000,
            ack_timeout_ms: self.ack_timeout_ms,
        }
    }

    fn control_agents(&self, team: Option<&str>) -> Vec<TeamMember> {
        self.agents.iter().filter(|agent| team.is_none_or(|team| agent.team == team)).cloned().collect()
    }
}

/// A server of a runtime, and its counts.
pub fn server(control: &Arc<Fake>) -> (Arc<Server>, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    (Server::new(control.clone(), tally.clone(), Arc::new(FixedClock::default())), tally)
}

/// A program's end of a connection.
pub struct Program {
    pub stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Program {
    /// Connects to a server.
    pub fn of(server: &Arc<Server>) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        server.welcome(theirs);
        Self::on(ours)
    }

    pub fn on(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub fn send(&mut self, line: impl AsRef<[u8]>) {
        self.stream.write_all(line.as_ref()).unwrap();
        self.stream.write_all(b"\n").unwrap();
    }

    /// The next line; `None` if the connection has ended.
    pub fn receive(&mut self) -> Option<Json> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
            Ok(_) => {
                assert!(line.ends_with('\n'), "{line}");
                Some(serde_json::from_str(&line).unwrap())
            }
        }
    }

    /// Whether the other side has not ended the connection. If it has not, that takes a moment.
    pub fn is_open(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let is_open =
            self.lines.fill_buf().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        is_open
    }

    pub fn ask(&mut self, line: impl AsRef<[u8]>) -> Json {
        self.send(line);
        self.receive().expect("the connection has ended")
    }
}
