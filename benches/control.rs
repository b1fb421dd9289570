//! The control wire of the real release binary: what it costs a start, how soon a request is acknowledged beside a
//! running turn, and what bad lines on it cost a good connection.
//!
//! `cargo bench --bench control`. Beside each figure stands a peer of the same run: the start without a team, `ping`
//! on the wire of editors, the disk's own write and sync, well-formed lines. The bench fails if an answer is not the
//! expected one, if an acknowledgement takes longer than 500 ms, at which existing clients hang up, or if the process
//! exceeds the memory bound below. `EDN_BRIDGE_HOSTILE_LINES` sets the number of bad lines (default 100,000).

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

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Dice, Peer, handshake, request, serve, socket, times};

const TEAM: &str = "{:control {:teams [{:name \"t\" :members [\"ann\"]}]}}";
const STARTS: usize = 40;
/// Rounds of texts, each ended by an interrupt. The texts of a round wait for the turn after it.
const ROUNDS: usize = 20;
const TEXTS: usize = 50;
/// The time at which existing clients hang up.
const LATEST: Duration = Duration::from_millis(500);
/// The maximum of resident memory while bad lines come in, the longest line among them.
const MOST_MB: f64 = 64.0;

/// A bridge whose user names a team, if asked for.
fn bridge(script: &str, with_team: bool) -> Peer {
    let dir = tempfile::tempdir().unwrap();
    let mut command = serve(dir.path(), script);
    let config = dir.path().join("config.edn");
    std::fs::write(&config, if with_team { TEAM } else { "{}" }).unwrap();
    command.arg("--config").arg(config);
    let mut peer = Peer::start(command, dir);
    peer.ask(&handshake());
    peer
}

/// A program on the control wire.
struct Program {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
    line: String,
}

impl Program {
    fn of(peer: &Peer) -> Self {
        let beside: PathBuf = socket(peer.dir.path());
        let found = || {
            let entries = std::fs::read_dir(beside.parent().unwrap()).unwrap().flatten();
            let mut paths = entries.map(|entry| entry.path());
            paths.find(|path| path.to_string_lossy().ends_with(".control.sock"))
        };
        let until = Instant::now() + Duration::from_secs(10);
        let stream = loop {
            if let Some(stream) = found().and_then(|path| UnixStream::connect(path).ok()) {
                break stream;
            }
            assert!(Instant::now() < until, "no control socket");
            std::thread::yield_now();
        };
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers, line: String::new() }
    }

    fn ask(&mut self, line: &str, expected: &str) -> Duration {
        let begun = Instant::now();
        self.stream.write_all(line.as_bytes()).unwrap();
        self.line.clear();
        self.answers.read_line(&mut self.line).unwrap();
        assert!(self.line.contains(expected), "{} instead of {expected}", self.line);
        begun.elapsed()
    }
}

/// A request to an agent, as a line.
fn line(kind: &str, id: &str, agent: &str, asked: &str) -> String {
    format!(
        "{{\"type\":\"control.{kind}.request\",\"v\":1,\"request_id\":\"{id}\",\"team\":\"t\",\"session_id\":\"\",\
         \"agent_id\":\"{agent}\",\"sender\":\"ann\",\"sent_at\":\"{}\",{asked}}}\n",
        jiff::Timestamp::now()
    )
}

fn agent(peer: &mut Peer) -> String {
    peer.ask(&request("state", "get_state", "{}"));
    let (_, rest) = peer.last().split_once(":session-id \"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// The start with and without a team. Without one there is no socket, so that it costs nothing.
fn start() {
    let mut taken = [const { Vec::new() }; 2];
    let mut memory = [0.0; 2];
    for _ in 0..STARTS {
        for (place, with_team) in [false, true].into_iter().enumerate() {
            let begun = Instant::now();
            let peer = bridge("{:turns [{:steps [{:delta \"x\"}]}]}", with_team);
            taken[place].push(begun.elapsed());
            memory[place] = peer.resident() as f64 / 1e6;
        }
    }
    println!("| from spawn to the first answer | p50 | p99 | p99.9 | p50 / without | p99 / without |");
    println!("|---|---|---|---|---|---|");
    let [without, with] = taken;
    let floor = times("without a team", without, None);
    times("with a team", with, Some(&floor));
    println!("\n| resident memory after it | |\n|---|---|");
    println!("| without a team | {:.1} MB |\n| with a team | {:.1} MB |", memory[0], memory[1]);
}

/// Acknowledgements beside a turn that streams as fast as it can to a client that reads it.
fn acknowledgements() {
    let mut peer = bridge("{:turns [{:steps [{:deltas 2000000 :of \"word \"}]}] :then :repeat-last}", true);
    let agent = agent(&mut peer);
    let (mut program, mut guest) = (Program::of(&peer), peer.guest());
    peer.ask(&request("s", "subscribe", "{:topics [\"assistant/delta\" \"turn/ended\"]}"));
    peer.send(&request("p", "prompt", "{:message \"go\"}"));
    let mut ping = || {
        let begun = Instant::now();
        guest.write_all(request("p", "ping", "{}").as_bytes()).unwrap();
        let mut answer = [0u8; 4096];
        let count = guest.read(&mut answer).unwrap();
        assert!(answer[..count].ends_with(b"\n"));
        begun.elapsed()
    };
    let (mut texts, mut interrupts, mut pings, mut disk) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut file = std::fs::File::create(peer.dir.path().join("disk")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, child) = (&done, peer.child.id());
        let output = &mut peer.stdout;
        scope.spawn(move || {
            let mut line = String::new();
            while !done.load(Ordering::Relaxed) {
                line.clear();
                assert!(output.read_line(&mut line).unwrap() > 0, "process {child} ended");
            }
        });
        for round in 0..ROUNDS {
            for n in 0..TEXTS {
                let id = format!("{round}-{n}");
                let asked = format!("\"content\":\"{}\"", "Some words of a program. ".repeat(8));
                texts.push(program.ask(&line("stdin", &id, &agent, &asked), "\"result\":\"ok\""));
                pings.push(ping());
                let begun = Instant::now();
                file.write_all(&[b'x'; 600]).unwrap();
                file.sync_data().unwrap();
                disk.push(begun.elapsed());
            }
            let stop = line("interrupt", &format!("stop-{round}"), &agent, "\"signal\":\"interrupt\"");
            interrupts.push(program.ask(&stop, "\"result\":\"ok\""));
        }
        done.store(true, Ordering::Relaxed);
        ping();
    });
    println!("\n| beside a turn that streams | p50 | p99 | p99.9 | p50 / disk | p99 / disk |");
    println!("|---|---|---|---|---|---|");
    let worst = texts.iter().chain(&interrupts).max().copied().unwrap();
    let disk = times("the disk's own write and sync", disk, None);
    times(&format!("{} texts, acknowledged", texts.len()), texts, Some(&disk));
    times(&format!("{} interrupts, acknowledged", interrupts.len()), interrupts, Some(&disk));
    times("ping of an editor", pings, Some(&disk));
    println!("| the slowest acknowledgement | {:.1} ms | | | | |", worst.as_secs_f64() * 1e3);
    assert!(worst < LATEST, "{worst:?}");
}

/// Bad lines of every kind, each with a part of its answer.
fn bad_line(dice: &mut Dice, n: usize, agent: &str) -> (Vec<u8>, &'static str) {
    let ask = |from: &str, to: &str| {
        line("stdin", &format!("bad-{n}"), agent, "\"content\":\"bad\"").replacen(from, to, 1).into_bytes()
    };
    let plain = |text: String| (text + "\n").into_bytes();
    const UNREADABLE: &str = "INVALID_REQUEST";
    const REJECTED: &str = "\"result\":\"rejected\"";
    match n % 16 {
        0 => {
            let mut bytes = dice.bytes(300);
            bytes.retain(|byte| *byte != b'\n');
            bytes.extend_from_slice(b"x\n");
            (bytes, UNREADABLE)
        }
        1 => (b"{\"command\":\n".to_vec(), UNREADABLE),
        2 => (plain("[".repeat(1 + dice.below(10_000))), UNREADABLE),
        3 => (plain(format!("{{\"v\":{}}}", "9".repeat(1 + dice.below(2_000)))), UNREADABLE),
        4 => (ask("\"v\":1", "\"v\":1,\"v\":1"), UNREADABLE),
        5 => (ask("stdin", "reboot"), UNREADABLE),
        6 => (ask("\"v\":1", "\"v\":2"), REJECTED),
        7 => (ask("\"ann\"", "\"mallory\""), REJECTED),
        8 => (ask("\"team\":\"t\"", "\"team\":\"u\""), REJECTED),
        9 => (ask(agent, "../../etc/passwd"), "\"result\":\"not_found\""),
        10 => (ask("\"sent_at\":\"2", "\"sent_at\":\"1"), REJECTED),
        11 => (ask("\"content\":\"bad\"", "\"content\":\" \""), REJECTED),
        12 => (ask("\"content\":\"bad\"", "\"content\":\"\\ud800\""), UNREADABLE),
        13 => {
            let file = "\"content_ref\":{\"path\":\"/etc/passwd\",\"size_bytes\":1,\"sha256\":\"00\",\"mime\":\"text/plain\"}";
            (ask("\"content\":\"bad\"", file), REJECTED)
        }
        14 => {
            (ask("\"bad\"", &format!("\"{}\"", "x".repeat(dice.below(20_000))))[..200].to_vec(), UNREADABLE)
        }
        _ => (plain(format!("\"{}\"", "\\u0000".repeat(dice.below(3_000)))), UNREADABLE),
    }
}

/// Sends lines, checks their answers in order, and measures `get_state` of the good connection meanwhile.
fn beside(good: &mut Peer, lines: &[(Vec<u8>, &'static str)]) -> Vec<Duration> {
    let program = Program::of(good);
    let (mut stream, mut answers) = (program.stream, program.answers);
    let done = AtomicBool::new(false);
    let state = request("p", "get_state", "{}");
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(move || {
            for lines in lines.chunks(64) {
                let bytes: Vec<u8> = lines.iter().flat_map(|(line, _)| line.iter().copied()).collect();
                stream.write_all(&bytes).unwrap();
            }
        });
        scope.spawn(move || {
            let mut answer = String::new();
            for (line, expected) in lines {
                answer.clear();
                answers.read_line(&mut answer).unwrap();
                let sent = String::from_utf8_lossy(&line[..line.len().min(200)]);
                assert!(answer.contains(expected), "{answer} instead of {expected} to {sent}");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            taken.push(good.ask(&state));
            assert!(good.last().contains(":id \"p\" :kind :response"), "{}", good.last());
        }
    });
    taken
}

/// A flood of bad lines, and as many well-formed ones in turns with it.
fn hostile() {
    let wanted = std::env::var("EDN_BRIDGE_HOSTILE_LINES").ok().and_then(|text| text.parse().ok());
    let wanted: usize = wanted.unwrap_or(100_000);
    let mut good = bridge("{:turns [{:steps [{:delta \"x\"}]}]}", true);
    let agent = agent(&mut good);
    let mut dice = Dice(10);
    let before = good.resident();
    let mut taken = [const { Vec::new() }; 3];
    let state = request("p", "get_state", "{}");
    let parts = 10;
    let mut sent = 0;
    for part in 0..parts {
        taken[0].extend((0..2_000).map(|_| good.ask(&state)));
        let numbers = part * wanted / parts..(part + 1) * wanted / parts;
        let bad: Vec<_> = numbers.map(|n| bad_line(&mut dice, n, &agent)).map(ended).collect();
        let well: Vec<_> = (0..bad.len())
            .map(|_| {
                (
                    b"{\"type\":\"control.capabilities.request\",\"v\":1}\n".to_vec(),
                    "control.capabilities.ack",
                )
            })
            .collect();
        taken[1].extend(beside(&mut good, &well));
        taken[2].extend(beside(&mut good, &bad));
        sent += bad.len();
    }
    // The longest line, and one beyond it.
    let long = |length: usize| (ended((vec![b'x'; length], "INVALID_REQUEST")).0, "INVALID_REQUEST");
    let bound = edn_bridge::limits::CONTROL_LINE_BYTES;
    beside(&mut good, &[long(bound - 1), long(4 * bound)]);
    println!("\n| get_state of an editor | p50 | p99 | p99.9 | p50 / alone | p99 / alone |");
    println!("|---|---|---|---|---|---|");
    let [alone, orderly, bad] = taken;
    let alone = times("alone", alone, None);
    times("beside well-formed lines on the control wire", orderly, Some(&alone));
    times(&format!("beside {sent} bad ones, each answered as it has to be"), bad, Some(&alone));
    let (most, after) = (good.most_resident() as f64 / 1e6, good.resident() as f64 / 1e6);
    println!("\n| resident memory | |\n|---|---|");
    println!("| before, at most, after | {:.1}, {most:.1}, {after:.1} MB |", before as f64 / 1e6);
    assert!(most < MOST_MB, "{most} MB");
    good.ask(&request("m", "get_messages", "{}"));
    assert!(!good.last().contains("bad"), "{}", good.last());
    assert!(good.end().success());
}

/// A line with its end.
fn ended((mut line, expected): (Vec<u8>, &'static str)) -> (Vec<u8>, &'static str) {
    if line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    (line, expected)
}

fn main() {
    start();
    acknowledgements();
    hostile();
}
