//! Drives one process with a mixed load for a long time and checks that its figures stay flat.
//!
//! `make soak` starts the real release binary and drives it for `EDN_BRIDGE_SOAK_SECONDS` (default 1,800).
//! The load: turns in ever new sessions, some aborted or interrupted; queries, switches and forks on the
//! editor's connection; clients that connect and leave, some in the middle of a line; one that stops reading;
//! and one that sends bad lines. Every tool call is allowed (`--yolo`) and every entry is on disk before it
//! is acknowledged. `EDN_BRIDGE_SOAK_PARTS` selects some of `turns,guests,stopped,bad`. Memory, descriptors,
//! threads, live sessions, tasks and round-trip times are sampled, written to `soak.edn` and drawn to
//! `soak.svg` in `EDN_BRIDGE_SOAK_DIR` (default `target/soak`). The bench compares the second quarter with
//! the last one; its exit status says whether the figures are flat.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a benchmark"
)]

#[path = "../tests/endpoint_support/lines.rs"]
mod lines;
mod support;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use edn_bridge::client::frame;
use support::request;

const SCRIPT: &str = "{:turns [{:steps [{:deltas 40 :of \"some words \"}]} \
    {:steps [{:thinking \"hm\"} {:tool-call {:name \"bash\" :arguments {:command \"echo hello\"}}}]} \
    {:steps [{:delta \"done\"}]} {:steps [{:echo :last-user}]} \
    {:steps [{:delta \"half\"} {:error {:kind :dropped :message \"broken\"}}]}] :then :cycle}";
const SAMPLES: u32 = 180;

fn handshake(features: &[&str]) -> String {
    request("h", "handshake", &frame::client_info("soak", "1", features))
}

/// A connection that reads whole lines.
struct Wire<R, W> {
    input: W,
    output: BufReader<R>,
    line: String,
    /// The number of the last event.
    seq: u64,
}

impl<R: std::io::Read, W: std::io::Write> Wire<R, W> {
    fn until(&mut self, fits: impl Fn(&str) -> bool) -> bool {
        loop {
            self.line.clear();
            match self.output.read_line(&mut self.line) {
                Ok(0) | Err(_) => return false,
                Ok(_) => {
                    let numbered = self.line.strip_prefix("{:kind :event ");
                    let seq = numbered
                        .and_then(|rest| rest.split_once(" :seq ")?.1.split(' ').next()?.parse().ok());
                    self.seq = seq.unwrap_or(self.seq);
                    if fits(&self.line) {
                        return true;
                    }
                }
            }
        }
    }

    fn ask(&mut self, id: &str, op: &str, params: &str) -> bool {
        let sent = self.input.write_all(request(id, op, params).as_bytes());
        let (response, error) =
            (format!("{{:id {id:?} :kind :response"), format!("{{:kind :error :id {id:?}"));
        sent.is_ok() && self.until(|line| line.starts_with(&response) || line.starts_with(&error))
    }
}

fn guest(socket: &Path) -> std::io::Result<Wire<UnixStream, UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut wire =
        Wire { input: stream.try_clone()?, output: BufReader::new(stream), line: String::new(), seq: 0 };
    wire.input.write_all(handshake(&[]).as_bytes())?;
    wire.until(|_| true);
    Ok(wire)
}

#[derive(Default, Clone)]
struct Sample {
    second: f64,
    resident_mb: f64,
    descriptors: f64,
    threads: f64,
    sessions: f64,
    tasks: f64,
    ping_p50_us: f64,
    ping_p99_us: f64,
    turns: f64,
}

fn main() -> ExitCode {
    let seconds: u64 =
        std::env::var("EDN_BRIDGE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1800);
    let out =
        PathBuf::from(std::env::var("EDN_BRIDGE_SOAK_DIR").unwrap_or_else(|_| "target/soak".to_owned()));
    std::fs::create_dir_all(&out).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut child = support::serve(dir.path(), SCRIPT).arg("--yolo").stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    let mut editor = Wire {
        input: child.stdin.take().unwrap(),
        output: BufReader::new(child.stdout.take().unwrap()),
        line: String::new(),
        seq: 0,
    };
    editor.input.write_all(handshake(&["flow-credit"]).as_bytes()).unwrap();
    assert!(editor.until(|line| line.contains(":kind :response")));
    assert!(editor.ask("s", "subscribe", "{}"));
    let socket = support::socket(dir.path());

    let over = AtomicBool::new(false);
    let turns = Mutex::new(0u64);
    let mut samples: Vec<Sample> = Vec::new();
    std::thread::scope(|scope| {
        let (over, turns, socket) = (&over, &turns, socket.as_path());
        let parts =
            std::env::var("EDN_BRIDGE_SOAK_PARTS").unwrap_or_else(|_| "turns,guests,stopped,bad".into());
        let part = |name: &str| parts.split(',').any(|part| part == name);
        let editing = if part("turns") {
            scope.spawn(move || edit(&mut editor, over, turns))
        } else {
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(100));
                }
                drop(editor);
            })
        };
        if part("guests") {
            scope.spawn(move || come_and_go(socket, over));
        }
        if part("stopped") {
            scope.spawn(move || stop_reading(socket, over));
        }
        if part("bad") {
            scope.spawn(move || send_badly(socket, over));
        }
        let begun = Instant::now();
        let step = Duration::from_secs(seconds) / SAMPLES;
        let mut watcher = guest(socket).unwrap();
        for place in 1..=SAMPLES {
            let until = step * place;
            let mut pings = Vec::new();
            while begun.elapsed() < until {
                let asked = Instant::now();
                if editing.is_finished() || !watcher.ask("p", "ping", "{}") {
                    over.store(true, Ordering::Release);
                    panic!("the bridge or the load ended after {:.0} s", begun.elapsed().as_secs_f64());
                }
                pings.push(asked.elapsed().as_secs_f64() * 1e6);
                std::thread::sleep(Duration::from_millis(5));
            }
            pings.sort_by(f64::total_cmp);
            let counts = "{:query \"[:psi.process/live-session-count :psi.process/task-count]\"}";
            watcher.ask("q", "query_eql", counts);
            let count = |name: &str| -> f64 {
                let rest = watcher.line.split(&format!(":psi.process/{name}-count ")).nth(1).unwrap_or("");
                let digits = rest.split([' ', '}']).next().unwrap_or("");
                digits.parse().unwrap_or_else(|_| panic!("no count of {name}: {}", watcher.line))
            };
            let ping = |part: f64| pings.get((pings.len() as f64 * part) as usize).copied().unwrap_or(0.0);
            samples.push(Sample {
                second: begun.elapsed().as_secs_f64(),
                ping_p50_us: ping(0.5),
                ping_p99_us: ping(0.99),
                turns: *turns.lock().unwrap() as f64,
                sessions: count("live-session"),
                tasks: count("task"),
                ..process(pid)
            });
        }
        over.store(true, Ordering::Release);
    });
    // The editor's thread has closed its streams, so the process ends.
    let status = child.wait().unwrap();
    let verdicts = verdicts(&samples);
    std::fs::write(out.join("soak.svg"), draw(&samples)).unwrap();
    std::fs::write(out.join("soak.edn"), data(&samples)).unwrap();
    println!("| soak of {seconds} s | second quarter | last quarter | |\n|---|---|---|---|");
    let mut flat = status.success();
    for (name, before, after, good) in verdicts {
        println!("| {name} | {before:.1} | {after:.1} | {} |", if good { "flat" } else { "GREW" });
        flat &= good;
    }
    println!("| turns | | {:.0} | |", samples.last().map_or(0.0, |sample| sample.turns));
    println!("\n{}", out.join("soak.svg").display());
    if flat { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The editor's load: turns (some ended early), queries, new sessions, switches, forks.
fn edit(editor: &mut Wire<ChildStdout, ChildStdin>, over: &AtomicBool, turns: &Mutex<u64>) {
    let mut seq = 0u64;
    let mut sessions: VecDeque<String> = VecDeque::new();
    for round in 0u64.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        let message = format!("{{:message \"round {round}\"}}");
        if !editor.ask("p", "prompt", &message) {
            return;
        }
        assert!(editor.line.contains(":accepted true"), "{}", editor.line);
        let end = match round % 10 {
            5 => Some("interrupt"),
            6 => Some("abort"),
            _ => None,
        };
        if let Some(op) = end {
            editor.ask("e", op, "{}");
        }
        // Whether the turn's last message was repeated or is cut off.
        let asked = Instant::now();
        while editor.ask("g", "get_state", "{}") && !editor.line.contains(":is-streaming false") {
            assert!(asked.elapsed() < Duration::from_secs(60), "a turn does not end: {}", editor.line);
            std::thread::sleep(Duration::from_millis(1));
        }
        *turns.lock().unwrap() += 1;
        seq = editor.seq.max(seq);
        editor.ask("a", "ack", &format!("{{:seq {seq}}}"));
        editor.ask("q", "query_eql", "{:query \"[:psi.agent-session/session-id :psi.agent-session/phase]\"}");
        match round % 10 {
            1 => {
                editor.ask("f", "get_fork_messages", "{}");
                if let Some(entry) = text_after(&editor.line, ":messages [{:id \"") {
                    let done = editor.ask("f", "fork", &format!("{{:entry-id {entry:?}}}"));
                    assert!(!done || editor.line.contains(":ok true"), "{}", editor.line);
                }
            }
            2 => {
                // To the session from which it was forked, or to one that was put away long ago.
                let back = if round % 20 == 2 { sessions.back().cloned() } else { sessions.pop_front() };
                if let Some(session) = back {
                    let done = editor.ask("w", "switch_session", &format!("{{:session-id {session:?}}}"));
                    assert!(!done || editor.line.contains(":ok true"), "{}", editor.line);
                }
            }
            3 => drop(editor.ask("m", "get_messages", "{}")),
            7 => drop(editor.ask("b", "bash", "{:command \"echo hi\"}")),
            9 => {
                editor.ask("n", "new_session", "{}");
                sessions.extend(text_after(&editor.line, ":session-id \""));
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The text in a line from `mark` to the next quote.
fn text_after(line: &str, mark: &str) -> Option<String> {
    Some(line.split_once(mark)?.1.split_once('"')?.0.to_owned())
}

/// Guests that stay for a moment; every other one hangs up in the middle of a line.
fn come_and_go(socket: &Path, over: &AtomicBool) {
    for round in 0u64.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        if let Ok(mut guest) = guest(socket) {
            guest.ask("s", "subscribe", "{}");
            for _ in 0..5 {
                guest.ask("g", "get_state", "{}");
            }
            if round % 2 == 0 {
                let _ = guest.input.write_all(b"{:id \"half");
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A guest with all topics that reads only for one second after every five.
fn stop_reading(socket: &Path, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let Ok(mut guest) = guest(socket) else { continue };
        guest.ask("s", "subscribe", "{}");
        for _ in 0..50 {
            if over.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && guest.until(|_| true) {}
    }
}

/// A guest that sends a hundred bad lines per second. It uses new sessions, because a single one would grow
/// until it is full, and so would its forks.
fn send_badly(socket: &Path, over: &AtomicBool) {
    let mut dice = support::Dice(10);
    while !over.load(Ordering::Acquire) {
        let Ok(stream) = UnixStream::connect(socket) else { continue };
        let mut output = stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 1 << 16];
                while output.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
            let mut stream = stream;
            let _ = stream.write_all((handshake(&[]) + &request("n", "new_session", "{}")).as_bytes());
            for _ in 0..100 {
                let mut input = lines::input(&dice.bytes(200));
                input.push(b'\n');
                if over.load(Ordering::Acquire) || stream.write_all(&input).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
        });
    }
}

fn process(pid: u32) -> Sample {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        line.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0.0)
    };
    Sample {
        resident_mb: field("VmRSS:") / 1024.0,
        threads: field("Threads:"),
        descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0.0, |fds| fds.count() as f64),
        ..Sample::default()
    }
}

/// Name with unit, the sample's value, and its permitted growth as a factor and as a sum.
const MEASURES: [(&str, fn(&Sample) -> f64, f64, f64); 7] = [
    ("resident memory, MB", |sample| sample.resident_mb, 1.1, 2.0),
    ("descriptors", |sample| sample.descriptors, 1.1, 10.0),
    ("threads", |sample| sample.threads, 1.1, 10.0),
    ("live sessions", |sample| sample.sessions, 1.1, 10.0),
    ("tasks", |sample| sample.tasks, 1.1, 10.0),
    ("ping p50, µs", |sample| sample.ping_p50_us, 1.5, 50.0),
    ("ping p99, µs", |sample| sample.ping_p99_us, 2.0, 2000.0),
];

/// Each measure's median in the second quarter and in the last, and whether the two agree.
fn verdicts(samples: &[Sample]) -> Vec<(&'static str, f64, f64, bool)> {
    let quarter = samples.len() / 4;
    let middle = |part: &[Sample], value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = part.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    MEASURES
        .iter()
        .map(|(name, value, factor, sum)| {
            let before = middle(&samples[quarter..2 * quarter], *value);
            let after = middle(&samples[3 * quarter..], *value);
            (*name, before, after, after <= before * factor + sum)
        })
        .collect()
}

fn data(samples: &[Sample]) -> String {
    let mut text = String::from("[");
    for sample in samples {
        let _ = writeln!(
            text,
            "{{:second {:.1} :resident-mb {:.2} :descriptors {} :threads {} :sessions {} :tasks {} :ping-p50-us {:.1} \
             :ping-p99-us {:.1} :turns {}}}",
            sample.second,
            sample.resident_mb,
            sample.descriptors,
            sample.threads,
            sample.sessions,
            sample.tasks,
            sample.ping_p50_us,
            sample.ping_p99_us,
            sample.turns
        );
    }
    text + "]\n"
}

/// One panel per measure, below each other.
fn draw(samples: &[Sample]) -> String {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 90.0;
    const LEFT: f64 = 70.0;
    const GAP: f64 = 40.0;
    let end = samples.last().map_or(1.0, |sample| sample.second);
    let all = MEASURES.len() as f64 * (HEIGHT + GAP) + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {all}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH + LEFT + 20.0
    );
    for (place, (name, value, _, _)) in MEASURES.iter().enumerate() {
        let top = GAP + place as f64 * (HEIGHT + GAP);
        let most = samples.iter().map(value).fold(1.0, f64::max);
        let points: Vec<String> = samples
            .iter()
            .map(|sample| {
                let x = LEFT + sample.second / end * WIDTH;
                let y = top + HEIGHT - value(sample) / most * HEIGHT;
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let bottom = top + HEIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\">{name}</text>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{most:.0}</text>\n\
             <text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">0</text>\n\
             <path d=\"M{LEFT} {top}V{bottom}H{}\" fill=\"none\" stroke=\"#888\"/>\n\
             <polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.5\"/>",
            top - 6.0,
            LEFT - 6.0,
            top + 10.0,
            LEFT - 6.0,
            LEFT + WIDTH,
            points.join(" ")
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{end:.0} s</text>\n</svg>",
        LEFT + WIDTH,
        all - 12.0
    );
    svg
}
