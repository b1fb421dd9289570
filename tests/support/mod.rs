//! The real binary over real pipes, for tests: start it, send lines, wait for frames with a deadline.
//!
//! A test has a position in the bridge's output. A wait for an event moves it to that event. An answer may
//! arrive before or after the other effects of its request, so waiting for an answer does not move it: the
//! frames before the answer stay available, and later waits search them first. `skip_to_now` discards them.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use edn_bridge::client::{Lines, frame};
use edn_bridge::edn;
use edn_bridge::value::Owned;

pub mod ahead;
pub mod disk;
pub mod guest;
pub mod request_rules;
pub mod server;

use ahead::{Ahead, Received};
#[allow(unused_imports, reason = "each test binary uses a part")]
pub use frame::{code, is_answer, is_event, kind, text};

/// The deadline of every wait. Generous, because a loaded machine is slow, not wrong.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what no frame tells.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Whether a file has been written to. A shell makes the file first: whoever ends the command as soon as it is there may find
/// it empty.
pub fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// The variables with keys of model servers: those of the person who runs the tests must choose no model.
const KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "OPENROUTER_API_KEY",
    "XAI_API_KEY",
];

/// The configuration of a bridge.
pub struct Setup {
    /// Contains the state folder and the project folder. Lives as long as the setup or one of its bridges.
    pub dir: Arc<tempfile::TempDir>,
    /// The script of the scripted provider.
    pub script: Option<String>,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
}

impl Setup {
    /// A new state folder and a new project folder, and no script.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["project", "tmp", "home"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir: Arc::new(dir), script: None, arguments: Vec::new(), environment: Vec::new() }
    }

    /// Sets the script of the scripted provider, as EDN.
    pub fn script(mut self, script: &str) -> Self {
        self.script = Some(script.to_owned());
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Names a team in the user's configuration, with the member `ann`.
    pub fn team(self) -> Self {
        let folder = self.dir.path().join("config/edn-bridge");
        std::fs::create_dir_all(&folder).unwrap();
        let teams = "{:control {:ack-timeout-ms 60000 :teams [{:name \"t\" :members [\"ann\" {:name \"lead\" :may [:answer]}]}]}}";
        std::fs::write(folder.join("config.edn"), teams).unwrap();
        self
    }

    /// Stops the clock and counts identifiers.
    pub fn fixed(self) -> Self {
        self.env("EDN_BRIDGE_FIXED_CLOCK", "1")
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The working folder of sessions.
    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// The program with everything except its command.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
        for name in [
            "EDN_BRIDGE_STATE_DIR",
            "EDN_BRIDGE_PROVIDER",
            "EDN_BRIDGE_MODEL",
            "EDN_BRIDGE_MODEL_FILE",
            "EDN_BRIDGE_SCRIPT",
        ]
        .iter()
        .chain(KEYS)
        {
            command.env_remove(name);
        }
        self.folders(&mut command);
        // What a test starts ends with it; tests/daemon has those of the daemon.
        command.env("EDN_BRIDGE_DAEMON", "never");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.arg("--state-dir").arg(self.state()).arg("--cwd").arg(self.project());
        if let Some(script) = &self.script {
            let path = self.dir.path().join("script.edn");
            std::fs::write(&path, script).unwrap();
            command.arg("--script").arg(path);
        }
        command.args(&self.arguments);
        command
    }

    /// Gives a command the setup's own folders: those of the person who runs the tests must not matter. What tools may write
    /// to includes the temporary folder: with one of its own, all else is outside, wherever the checkout lies.
    pub fn folders(&self, command: &mut Command) {
        for (variable, folder) in [
            ("TMPDIR", "tmp"),
            ("HOME", "home"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "home/.local/share"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_CACHE_HOME", "home/.cache"),
        ] {
            command.env(variable, self.dir.path().join(folder));
        }
    }

    /// Starts `serve`.
    pub fn serve(&self) -> Bridge {
        let mut bridge = Bridge::start(self.command().arg("serve"));
        bridge.dir = Some(Arc::clone(&self.dir));
        bridge
    }

    /// Starts `serve`, agrees on a version and subscribes to everything.
    pub fn ready(&self) -> Bridge {
        let mut bridge = self.serve();
        bridge.handshake();
        bridge.ask("subscribe", "subscribe", "{}");
        bridge
    }

    /// Starts `serve` with a client that answers typed questions, and subscribes to everything.
    pub fn interactor(&self) -> Bridge {
        let mut bridge = self.serve();
        bridge.ask("h", "handshake", &frame::client_info("t", "1", &["interactor"]));
        bridge.ask("all", "subscribe", "{}");
        bridge
    }
}

/// The params of the op `control` with a request of the team's member to an agent: a text, or an interrupt.
pub fn control(request_id: &str, agent: &str, text: Option<&str>) -> String {
    control_at(jiff::Timestamp::now(), request_id, agent, text)
}

/// The same, sent at a time.
pub fn control_at(at: jiff::Timestamp, request_id: &str, agent: &str, text: Option<&str>) -> String {
    let (kind, asked) = match text {
        Some(text) => ("stdin", format!(":content {text:?}")),
        None => ("interrupt", ":signal \"interrupt\"".to_owned()),
    };
    format!(
        "{{:message {{:type \"control.{kind}.request\" :v 1 :request-id {request_id:?} :team \"t\" :session-id \"\" \
         :agent-id {agent:?} :sender \"ann\" :sent-at \"{at}\" {asked}}}}}"
    )
}

/// A running bridge.
pub struct Bridge {
    child: Child,
    /// The folders of its setup.
    dir: Option<Arc<tempfile::TempDir>>,
    stdin: Option<ChildStdin>,
    lines: Lines,
    stderr: Receiver<String>,
    /// All sent (`> `) and received (`< `) lines, for messages of failed tests.
    pub transcript: Vec<String>,
    /// The seq of the last event.
    seq: u64,
    ahead: Ahead,
}

impl Bridge {
    /// Starts a program that speaks the protocol on its pipes.
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let mut errors = child.stderr.take().unwrap();
        let lines = Lines::new(stdout);
        let (sender, stderr) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            let _ = sender.send(text);
        });
        Self {
            child,
            dir: None,
            stdin,
            lines,
            stderr,
            transcript: Vec::new(),
            seq: 0,
            ahead: Ahead::default(),
        }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        self.transcript.push(format!("> {line}"));
        self.write(format!("{line}\n").as_bytes());
    }

    /// Sends bytes verbatim.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        if stdin.write_all(bytes).and_then(|()| stdin.flush()).is_err() {
            self.ended();
        }
    }

    /// Sends a request.
    pub fn request(&mut self, id: &str, op: &str, params: &str) {
        self.ahead.forget(id);
        self.send(&frame::request(id, op, params));
    }

    /// Agrees on version 1.0, without features.
    pub fn handshake(&mut self) -> Owned {
        self.ask("handshake", "handshake", &frame::client_info("test", "1", &[]))
    }

    /// The next line, as text.
    pub fn line(&mut self) -> String {
        self.line_or_end().unwrap_or_else(|| self.ended())
    }

    /// The next line, or `None` at the end of the bridge's output.
    pub fn line_or_end(&mut self) -> Option<String> {
        match self.ahead.next() {
            Some(Received { line, .. }) => Some(line),
            None => self.receive(),
        }
    }

    /// The next unread line, or `None` at the end of the bridge's output.
    fn receive(&mut self) -> Option<String> {
        match self.lines.next(Instant::now() + PATIENCE) {
            Ok(line) => {
                let line = String::from_utf8(line?).expect("frames are UTF-8");
                self.transcript.push(format!("< {line}"));
                self.check_seq(&line);
                Some(line)
            }
            Err(_) => panic!("nothing came for {PATIENCE:?}\n{}", self.told()),
        }
    }

    /// Every event of a connection is numbered from 1 without a gap, even those that a test does not read.
    fn check_seq(&mut self, line: &str) {
        let Some((_, rest)) =
            line.split_once(":kind :event ").and_then(|(_, rest)| rest.split_once(" :seq "))
        else {
            return;
        };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        self.seq += 1;
        assert_eq!(digits, self.seq.to_string(), "seq has a gap\n{}", self.told());
    }

    /// The next frame.
    pub fn frame(&mut self) -> Owned {
        self.ahead.next().unwrap_or_else(|| self.receive_frame()).frame
    }

    fn receive_frame(&mut self) -> Received {
        let line = self.receive().unwrap_or_else(|| self.ended());
        match edn::read_one(line.as_bytes()) {
            Ok(frame) => Received { frame: frame.into_owned(), line },
            Err(error) => panic!("not EDN: {error}: {line}\n{}", self.told()),
        }
    }

    /// The first matching frame; discards the events before it, but keeps the answers.
    pub fn until(&mut self, fits: impl Fn(&Owned) -> bool) -> Owned {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = self.frame();
            if fits(&frame) {
                return frame;
            }
            self.ahead.pass(frame);
            assert!(Instant::now() < deadline, "what was awaited did not come\n{}", self.told());
        }
    }

    /// The answer to a request: a response or an error with its id. Earlier frames stay available.
    pub fn answer(&mut self, id: &str) -> Owned {
        let deadline = Instant::now() + PATIENCE;
        if let Some(answer) = self.ahead.take(id) {
            return answer;
        }
        loop {
            let received = self.receive_frame();
            if is_answer(&received.frame, id) {
                return received.frame;
            }
            self.ahead.keep(received);
            assert!(Instant::now() < deadline, "no answer to {id:?} came\n{}", self.told());
        }
    }

    /// Sends a request and waits for its answer. Earlier frames stay available.
    pub fn ask(&mut self, id: &str, op: &str, params: &str) -> Owned {
        self.request(id, op, params);
        self.answer(id)
    }

    /// Discards the events before the last answer: later waits see none of them.
    pub fn skip_to_now(&mut self) {
        self.ahead.pass_all();
    }

    /// The next event of a topic.
    pub fn event(&mut self, topic: &str) -> Owned {
        self.until(|frame| is_event(frame, topic))
    }

    /// Waits until nothing has arrived for a while. Only for recording transcripts, never for checking.
    pub fn settle(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(Some(line)) = self.lines.next(Instant::now() + Duration::from_millis(400)) {
            lines.push(String::from_utf8(line).expect("frames are UTF-8"));
        }
        lines
    }

    /// Closes the bridge's standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Closes the bridge's input, reads to its end, and returns its status, the remaining lines and its
    /// standard error.
    pub fn finish(mut self) -> (ExitStatus, Vec<String>, String) {
        self.close_input();
        let mut rest = Vec::new();
        while let Some(line) = self.line_or_end() {
            rest.push(line);
        }
        let status = self.wait();
        (status, rest, self.stderr.recv_timeout(PATIENCE).unwrap_or_default())
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the bridge did not end\n{}", self.told());
            std::thread::yield_now();
        }
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Fails a test whose bridge closed its output, with the process's status and standard error.
    fn ended(&mut self) -> ! {
        let status = self.wait();
        let said = self.stderr.recv_timeout(PATIENCE).unwrap_or_default();
        panic!("the bridge ended: {status}\n{said}\n{}", self.told())
    }

    /// The transcript so far.
    pub fn told(&self) -> String {
        self.transcript.join("\n")
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Accepts a typed question, with the `rest` of the params.
pub fn accept(bridge: &mut Bridge, question: &Owned, rest: &str) {
    let id = data(question, "interaction-id");
    bridge.ask(
        "r",
        "interaction_respond",
        &format!("{{:interaction-id {id:?} :status \"accepted\" {rest}}}"),
    );
}

/// The last message of the running turn.
pub fn end_of_turn(bridge: &mut Bridge) -> Owned {
    bridge.until(|frame| is_event(frame, "assistant/message") && data(frame, "stop-reason") != "tool-use")
}

/// A text of the frame's data; empty if it is missing.
pub fn data<'v>(frame: &'v Owned, key: &str) -> &'v str {
    at(frame, &["data", key]).and_then(|value| value.as_str()).unwrap_or("")
}

/// A value at a path of keywords below a frame.
pub fn at<'v>(frame: &'v Owned, path: &[&str]) -> Option<&'v Owned> {
    path.iter().try_fold(frame, |value, key| value.get(key))
}

/// All files below a folder.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}
