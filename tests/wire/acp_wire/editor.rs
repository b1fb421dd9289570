//! An editor of the Agent Client Protocol over real pipes, which holds every line that it receives against the official
//! schema, if that is there, and against what the protocol says of prompts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::client::Lines;
use serde_json::{Value, json};

use crate::official;
use crate::support::{PATIENCE, Setup, wait_until};

/// An editor with its agent.
pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines,
    dir: Arc<tempfile::TempDir>,
    ahead: VecDeque<Value>,
    /// All lines both ways.
    pub transcript: Vec<String>,
    /// The methods of the requests without an answer.
    asked: BTreeMap<i64, String>,
    /// The calls that were told, of each session.
    calls: BTreeSet<(String, String)>,
    next: i64,
    /// The version of the protocol that it asks for.
    pub version: u64,
    /// What each session does, as version 2 tells it.
    pub states: BTreeMap<String, String>,
}

impl Editor {
    /// Starts the agent.
    pub fn start(setup: &Setup) -> Self {
        let mut command: Command = setup.command();
        let mut child = command
            .arg("acp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            lines: Lines::new(stdout),
            dir: Arc::clone(&setup.dir),
            ahead: VecDeque::new(),
            transcript: Vec::new(),
            asked: BTreeMap::new(),
            calls: BTreeSet::new(),
            next: 0,
            version: 1,
            states: BTreeMap::new(),
        }
    }

    /// One of either version.
    pub fn of(second: bool, setup: &Setup) -> Self {
        if second { Self::second(setup, json!({})) } else { Self::ready(setup, json!({})) }
    }

    /// Starts it and agrees on version 2.
    pub fn second(setup: &Setup, can: Value) -> Self {
        let mut editor = Self::start(setup);
        editor.version = 2;
        editor.initialize(can);
        editor
    }

    /// Starts it and agrees on what the editor can do.
    pub fn ready(setup: &Setup, can: Value) -> Self {
        let mut editor = Self::start(setup);
        editor.initialize(can);
        editor
    }

    pub fn initialize(&mut self, can: Value) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = match self.version {
            1 => json!({"protocolVersion": 1, "clientInfo": client, "clientCapabilities": can}),
            version => json!({"protocolVersion": version, "info": client, "capabilities": can}),
        };
        self.ask("initialize", params)
    }

    /// A folder of the run, which is made.
    pub fn folder(&self, name: &str) -> String {
        let folder = self.dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    }

    /// Opens a session in a folder.
    pub fn open(&mut self, name: &str) -> String {
        let folder = self.folder(name);
        let opened = self.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
        opened["sessionId"].as_str().unwrap().to_owned()
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
    pub fn request(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.asked.insert(self.next, method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// Sends a prompt and returns its id.
    pub fn prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends a prompt and waits for its end. Returns the updates before it, and why it ended.
    pub fn turn(&mut self, session: &str, text: &str) -> (Vec<Value>, String) {
        let id = self.prompt(session, text);
        let (end, before) = self.until(|message| message["id"] == id && message.get("method").is_none());
        let reason = end["result"]["stopReason"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("{end}\n{}", self.transcript.join("\n"))).to_owned();
        (updates(&before, session), reason)
    }

    /// The same in version 2, where a state says that it ended. The prompt is answered before, with the id of its
    /// message.
    pub fn second_turn(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        let id = self.prompt(session, text);
        let (end, before) = self.until_idle(session);
        let answer = before.iter().find(|message| message["id"] == id && message.get("method").is_none());
        let answer = answer.unwrap_or_else(|| panic!("no answer\n{}", self.transcript.join("\n")));
        let message = answer["result"]["messageId"].as_str().unwrap_or_else(|| panic!("{answer}"));
        let told = updates(&before, session);
        let echo = told.iter().find(|update| update["sessionUpdate"] == "user_message_chunk").unwrap();
        assert_eq!(echo["messageId"], message);
        (told, end)
    }

    /// Waits until a session does nothing, as version 2 tells it. Returns that update, and the lines before it.
    pub fn until_idle(&mut self, session: &str) -> (Value, Vec<Value>) {
        let (end, before) = self.until(|message| {
            let update = &message["params"]["update"];
            message["params"]["sessionId"] == session
                && update["sessionUpdate"] == "state_update"
                && update["state"] == "idle"
        });
        (end["params"]["update"].clone(), before)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and waits for its answer; what comes before it stays for later waits.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
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
    pub fn answer(&mut self, id: i64) -> Value {
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

    /// Reads no further line, though the agent writes.
    pub fn sleep(&self) {
        self.lines.pause();
    }

    /// Reads again.
    pub fn wake(&self) {
        self.lines.resume();
    }

    /// The first update of that kind in a session.
    pub fn update(&mut self, session: &str, kind: &str) -> Value {
        let is_it = |message: &Value| {
            message["params"]["sessionId"] == session && message["params"]["update"]["sessionUpdate"] == kind
        };
        self.until(is_it).0["params"]["update"].clone()
    }

    /// The next request of the agent.
    pub fn question(&mut self) -> Value {
        self.until(|message| message.get("method").is_some() && message.get("id").is_some()).0
    }

    /// Answers a request of the agent.
    pub fn reply(&mut self, question: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    }

    /// Chooses an option of a permission.
    pub fn choose(&mut self, question: &Value, option: &str) {
        self.reply(question, json!({"outcome": {"outcome": "selected", "optionId": option}}));
    }

    fn receive(&mut self) -> Value {
        let line = match self.lines.next(Instant::now() + PATIENCE) {
            Ok(Some(line)) => line,
            Ok(None) => panic!("the agent ended\n{}", self.transcript.join("\n")),
            Err(_) => panic!("nothing came\n{}", self.transcript.join("\n")),
        };
        self.transcript.push(format!("< {}", String::from_utf8_lossy(&line)));
        let message: Value = serde_json::from_slice(&line).unwrap();
        self.check(&message);
        message
    }

    /// What holds of every line.
    fn check(&mut self, message: &Value) {
        let method = message["id"].as_i64().and_then(|id| self.asked.get(&id)).cloned();
        let check = if self.version == 1 { official::check } else { official::check_second };
        let wrong = check(message, method.as_deref(), official::Side::Agent);
        assert!(wrong.is_empty(), "{wrong:?}: {message}\n{}", self.transcript.join("\n"));
        if message.get("method").is_none()
            && let Some(id) = message["id"].as_i64()
        {
            assert!(self.asked.remove(&id).is_some(), "answered twice: {message}");
        }
        let update = &message["params"]["update"];
        let session = message["params"]["sessionId"].as_str().unwrap_or_default().to_owned();
        let call = || (session.clone(), update["toolCallId"].as_str().unwrap().to_owned());
        match update["sessionUpdate"].as_str() {
            Some("tool_call") => {
                self.calls.insert(call());
            }
            Some("tool_call_update") if self.version > 1 => self.must_work(&session, message),
            Some("agent_message_chunk" | "agent_thought_chunk") if self.version > 1 => {
                self.must_work(&session, message);
            }
            Some("state_update") => {
                let state = update["state"].as_str().unwrap().to_owned();
                let before = self.states.insert(session.clone(), state.clone());
                let is_resumed = self.asked.values().any(|method| method == "session/resume");
                assert!(is_resumed || before.as_ref() != Some(&state), "told twice: {message}");
            }
            Some("tool_call_update") => assert!(self.calls.contains(&call()), "unknown call: {message}"),
            _ => {}
        }
    }

    /// In version 2 nothing of a turn is told while nothing runs, but a history.
    fn must_work(&self, session: &str, message: &Value) {
        let is_resumed = self.asked.values().any(|method| method == "session/resume");
        let works = self.states.get(session).is_some_and(|state| state != "idle");
        assert!(is_resumed || works, "told while idle: {message}\n{}", self.transcript.join("\n"));
    }

    /// Ends the input and waits for the process, which has written nothing to standard error.
    pub fn quit(mut self) -> std::process::ExitStatus {
        drop(self.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the agent does not end");
            std::thread::park_timeout(Duration::from_millis(5));
        };
        assert_eq!(self.errors(), "");
        status
    }

    /// What is on standard error, once the process has ended.
    fn errors(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Waits for the end of the process, whose input is open.
    pub fn end(&mut self) -> Option<i32> {
        wait_until("the agent does not end", || self.lines.next(Instant::now() + PATIENCE) == Ok(None));
        self.child.wait().unwrap().code()
    }

    /// Kills the process.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        assert_eq!(self.errors(), "");
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The updates of a session.
pub fn updates(messages: &[Value], session: &str) -> Vec<Value> {
    let of = messages.iter().filter(|message| message["params"]["sessionId"] == session);
    of.map(|message| message["params"]["update"].clone()).filter(|update| !update.is_null()).collect()
}

/// The text of the chunks of that kind.
pub fn text(updates: &[Value], kind: &str) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// The kinds of the updates in order, with the status of calls, and equal neighbours once.
pub fn outline(updates: &[Value]) -> Vec<String> {
    let told = updates.iter().map(|update| {
        let kind = update["sessionUpdate"].as_str().unwrap();
        match update["status"].as_str() {
            Some(status) => format!("{kind} {status}"),
            None => kind.to_owned(),
        }
    });
    let mut outline: Vec<String> = told.collect();
    outline.dedup();
    outline
}
