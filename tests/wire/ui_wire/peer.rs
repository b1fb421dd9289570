//! An interface of the UI protocol over real pipes, which holds every line that it receives against the protocol: the
//! schema, the numbers of events, and the one end of a run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::client::Lines;
use serde_json::{Value, json};

use crate::schema;
use crate::support::{PATIENCE, Setup};

/// What a terminal interface can do.
pub const CAN: &[&str] =
    &["supports_confirm", "supports_prompt", "supports_pick", "supports_permission_preflight_events"];

/// An interface with its runtime.
pub struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    _dir: Arc<tempfile::TempDir>,
    ahead: VecDeque<Value>,
    /// All lines both ways.
    pub transcript: Vec<String>,
    /// The next event's number of each run.
    seqs: BTreeMap<String, i64>,
    ended: BTreeSet<String>,
    /// The methods of the requests without an answer.
    asked: BTreeMap<String, String>,
    next: u64,
}

impl Peer {
    /// Starts the runtime.
    pub fn start(setup: &Setup) -> Self {
        Self::with(setup, &[])
    }

    /// Starts it with further arguments.
    pub fn with(setup: &Setup, arguments: &[&str]) -> Self {
        let mut command: Command = setup.command();
        command.args(["serve", "--wire", "ui-protocol"]).args(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            lines: Lines::new(stdout),
            _dir: Arc::clone(&setup.dir),
            ahead: VecDeque::new(),
            transcript: Vec::new(),
            seqs: BTreeMap::new(),
            ended: BTreeSet::new(),
            asked: BTreeMap::new(),
            next: 0,
        }
    }

    /// Starts it and says what the interface can do.
    pub fn ready(setup: &Setup, can: &[&str]) -> Self {
        let mut peer = Self::start(setup);
        peer.initialize(can);
        peer
    }

    pub fn initialize(&mut self, can: &[&str]) -> Value {
        let can: serde_json::Map<_, _> = can.iter().map(|name| ((*name).to_owned(), json!(true))).collect();
        let client = json!({"name": "test", "version": "1"});
        self.ask("initialize", json!({"protocol_version": "0", "client": client, "ui_capabilities": can}))
    }

    pub fn send_raw(&mut self, line: &[u8]) {
        self.transcript.push(format!("> {}", String::from_utf8_lossy(&line[..line.len().min(500)])));
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(message.to_string().as_bytes());
    }

    /// Sends a request and returns its id.
    pub fn request(&mut self, method: &str, params: Value) -> String {
        self.next += 1;
        let id = format!("r{}", self.next);
        self.asked.insert(id.clone(), method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and waits for its answer; what comes before it stays for later waits.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(&id)
    }

    /// The same for one that succeeds.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{answer}\n{}", self.transcript.join("\n"));
        answer["result"].clone()
    }

    /// The code of a refusal.
    pub fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.call(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
    }

    /// The answer with that id.
    pub fn answer(&mut self, id: &str) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.ahead.iter().position(is_it) {
            return self.ahead.remove(at).unwrap();
        }
        loop {
            let message = self.receive();
            if is_it(&message) {
                return message;
            }
            self.ahead.push_back(message);
        }
    }

    /// The next line.
    pub fn message(&mut self) -> Value {
        match self.ahead.pop_front() {
            Some(message) => message,
            None => self.receive(),
        }
    }

    /// The first line that fits, and what came before it.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.message();
            if fits(&message) {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// The next request of the runtime.
    pub fn question(&mut self) -> Value {
        self.until(|message| message.get("method").is_some() && message.get("id").is_some()).0
    }

    /// Answers a request of the runtime.
    pub fn reply(&mut self, question: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }

    /// Starts a run with a text, and returns its id.
    pub fn run(&mut self, text: &str) -> String {
        let result = self.ask("run.start", json!({"input": {"type": "text", "text": text}}));
        result["run_id"].as_str().unwrap().to_owned()
    }

    /// The lines of a run up to its end, with the end.
    pub fn rest(&mut self, run: &str) -> Vec<Value> {
        let is_end = |message: &Value| {
            message["method"] == "run.status"
                && message["params"]["run_id"] == run
                && is_terminal(&message["params"]["status"])
        };
        let (end, mut before) = self.until(is_end);
        before.push(end);
        before
    }

    /// Runs a text to its end, and returns the lines.
    pub fn run_to_end(&mut self, text: &str) -> Vec<Value> {
        let run = self.run(text);
        self.rest(&run)
    }

    fn receive(&mut self) -> Value {
        let line = match self.lines.next(Instant::now() + PATIENCE) {
            Ok(Some(line)) => line,
            Ok(None) => panic!("the runtime ended\n{}", self.transcript.join("\n")),
            Err(_) => panic!("nothing came\n{}", self.transcript.join("\n")),
        };
        self.transcript.push(format!("< {}", String::from_utf8_lossy(&line[..line.len().min(500)])));
        let message: Value = serde_json::from_slice(&line).unwrap();
        self.check(&message);
        message
    }

    /// Whether the output has ended.
    pub fn is_over(&mut self) -> bool {
        matches!(self.lines.next(Instant::now() + PATIENCE), Ok(None))
    }

    /// What holds of every line.
    fn check(&mut self, message: &Value) {
        let wrong = schema::check_line(message, |id| self.asked.get(id).cloned());
        assert!(wrong.is_empty(), "{wrong:?}: {message}\n{}", self.transcript.join("\n"));
        let Some(run) = message["params"]["run_id"].as_str() else { return };
        let in_history =
            message["params"]["seq"] == -1 || self.asked.values().any(|m| m == "session.history");
        match message["method"].as_str() {
            Some("agent.event") if !in_history => {
                let seq = message["params"]["seq"].as_i64().unwrap();
                let next = self.seqs.entry(run.to_owned()).or_insert(0);
                assert_eq!(seq, *next, "{message}\n{}", self.transcript.join("\n"));
                *next += 1;
            }
            Some("run.status") if is_terminal(&message["params"]["status"]) => {
                assert!(self.ended.insert(run.to_owned()), "two ends\n{}", self.transcript.join("\n"));
                return;
            }
            _ => {}
        }
        let is_late = self.ended.contains(run) && !in_history;
        assert!(!is_late, "after the end: {message}\n{}", self.transcript.join("\n"));
    }

    /// Ends the input and waits for the process.
    pub fn quit(mut self) -> std::process::ExitStatus {
        drop(self.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the runtime does not end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Kills the process, and returns the lines that were not taken. The last one may be cut off.
    pub fn kill_and_read(mut self) -> Vec<Value> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest: Vec<Value> = self.ahead.drain(..).collect();
        while let Ok(Some(line)) = self.lines.next(Instant::now() + PATIENCE) {
            if let Ok(message) = serde_json::from_slice(&line) {
                self.check(&message);
                rest.push(message);
            }
        }
        rest
    }

    /// Kills the process, as terminal interfaces do.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_terminal(status: &Value) -> bool {
    ["completed", "error", "cancelled"].iter().any(|end| status == end)
}

/// The types of the events, and the states, in order.
pub fn outline(lines: &[Value]) -> Vec<String> {
    let told = |line: &Value| match line["method"].as_str() {
        Some("agent.event") => line["params"]["event"]["type"].as_str().map(str::to_owned),
        Some("run.status") => line["params"]["status"].as_str().map(|status| format!("[{status}]")),
        Some(method) => Some(format!("<{method}>")),
        None => None,
    };
    lines.iter().filter_map(told).collect()
}

/// The events of that type.
pub fn events<'l>(lines: &'l [Value], kind: &str) -> impl Iterator<Item = &'l Value> {
    lines.iter().map(|line| &line["params"]["event"]).filter(move |event| event["type"] == kind)
}

/// The first event of that type.
pub fn event<'l>(lines: &'l [Value], kind: &str) -> &'l Value {
    events(lines, kind).next().unwrap_or_else(|| panic!("no {kind}: {lines:#?}"))
}

/// The content of the first event of that type.
pub fn content(lines: &[Value], kind: &str) -> String {
    event(lines, kind)["content"].as_str().unwrap().to_owned()
}
