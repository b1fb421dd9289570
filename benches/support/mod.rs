//! The real release binary as a subprocess, for the benchmarks: starts it, sends requests, reads its memory.

#![allow(dead_code, reason = "each benchmark uses a part")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::client::frame;

/// A request as a line with its end.
pub fn request(id: &str, op: &str, params: &str) -> String {
    frame::request(id, op, params) + "\n"
}

/// The handshake of a client without features.
pub fn handshake() -> String {
    request("h", "handshake", &frame::client_info("bench", "1", &[]))
}

/// `edn-bridge serve` with its state below `dir` and answers from `script`. `EDN_BRIDGE_PROGRAM` in the
/// environment names another program to start.
pub fn serve(dir: &Path, script: &str) -> Command {
    serve_with(dir, "--script", script)
}

/// The same with another option, which names a file with that text.
pub fn serve_with(dir: &Path, option: &str, text: &str) -> Command {
    command_with(dir, "serve", option, text)
}

/// The same for another command.
pub fn command_with(dir: &Path, command: &str, option: &str, text: &str) -> Command {
    let name = command;
    let path = dir.join("given.edn");
    std::fs::write(&path, text).unwrap();
    let program = std::env::var_os("EDN_BRIDGE_PROGRAM");
    let mut command = Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_edn-bridge").into()));
    command.env("EDN_BRIDGE_DAEMON", "never");
    command.arg(name).arg(option).arg(path).arg("--state-dir").arg(dir.join("state"));
    command.arg("--cwd").arg(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// The socket of a bridge whose state is below `dir`. It appears shortly after the first answer.
pub fn socket(dir: &Path) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let entries = std::fs::read_dir(dir.join("state/run")).into_iter().flatten().flatten();
        if let Some(socket) = entries.map(|entry| entry.path()).find(|path| UnixStream::connect(path).is_ok())
        {
            return socket;
        }
        assert!(Instant::now() < until, "no socket");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A subprocess that answers lines with lines.
pub struct Peer {
    pub child: Child,
    /// `None` once the peer was asked to end.
    stdin: Option<ChildStdin>,
    pub stdout: BufReader<ChildStdout>,
    line: String,
    /// The state folder, which lives as long as the process.
    pub dir: tempfile::TempDir,
}

impl Peer {
    /// The bridge with further `arguments`, without a handshake.
    pub fn bridge(script: &str, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = serve(dir.path(), script);
        command.args(arguments);
        Self::start(command, dir)
    }

    /// `edn-bridge acp`.
    pub fn acp(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let command = command_with(dir.path(), "acp", "--script", script);
        Self::start(command, dir)
    }

    /// The folder with its state.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The bridge with a user's configuration.
    pub fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let command = serve_with(dir.path(), "--config", config);
        Self::start(command, dir)
    }

    /// The lower limit: a process that only passes bytes on.
    pub fn cat() -> Self {
        Self::start(Command::new("cat"), tempfile::tempdir().unwrap())
    }

    pub fn start(mut command: Command, dir: tempfile::TempDir) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().unwrap());
        Self { child, stdin, stdout, line: String::new(), dir }
    }

    pub fn send(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// A second handle on its standard input, for writes from another thread.
    pub fn input(&self) -> std::fs::File {
        std::fs::File::from(self.stdin.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap())
    }

    /// Closes its standard input, reads its remaining output and waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        self.stdin = None;
        std::io::copy(&mut self.stdout, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap()
    }

    /// The next line.
    pub fn line(&mut self) -> &str {
        self.line.clear();
        self.stdout.read_line(&mut self.line).unwrap();
        assert!(!self.line.is_empty(), "the peer ended");
        &self.line
    }

    /// The last line.
    pub fn last(&self) -> &str {
        &self.line
    }

    /// Sends a line, waits for one, and returns the time that took.
    pub fn ask(&mut self, text: &str) -> Duration {
        let begun = Instant::now();
        self.send(text);
        self.line();
        begun.elapsed()
    }

    /// A further connection over the socket, after its handshake.
    pub fn guest(&self) -> UnixStream {
        let mut stream = UnixStream::connect(socket(self.dir.path())).unwrap();
        stream.write_all(handshake().as_bytes()).unwrap();
        let mut line = [0u8; 4096];
        let count = stream.read(&mut line).unwrap();
        assert!(line[..count].ends_with(b"\n"), "one whole answer");
        stream
    }

    /// The process's own part of the resident memory, in bytes. The rest are pages of the program's file and
    /// its libraries, as many as the system chose to map.
    pub fn own(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    /// The processor time of all its threads.
    pub fn at_work(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap().flatten();
        let nanos = tasks.filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// The maximum of its resident memory so far, in bytes.
    pub fn most_resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same sequence of numbers in every run (xorshift64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    /// Between one and `most` bytes.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most) + 1).map(|_| self.roll() as u8).collect()
    }
}

/// The quantile `part` of sorted times.
pub fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Prints a row: the median, the slow ones, and both compared with a floor. Returns the sorted times.
pub fn times(label: &str, mut times: Vec<Duration>, floor: Option<&[Duration]>) -> Vec<Duration> {
    times.sort();
    let parts = [0.5, 0.99, 0.999].map(|part| quantile(&times, part));
    let ratio = |place: usize| match floor {
        Some(floor) => {
            let floor = quantile(floor, [0.5, 0.99, 0.999][place]);
            format!("{:.1}×", parts[place].as_secs_f64() / floor.as_secs_f64())
        }
        None => String::new(),
    };
    println!(
        "| {label} | {:.1} µs | {:.1} µs | {:.1} µs | {} | {} |",
        parts[0].as_secs_f64() * 1e6,
        parts[1].as_secs_f64() * 1e6,
        parts[2].as_secs_f64() * 1e6,
        ratio(0),
        ratio(1),
    );
    times
}
