//! The ACP wire of the real binary: how soon `initialize` is answered after the start, how soon a session opens and a
//! prompt ends, and 100,000 deltas to an editor that reads and to one that has stopped, in both versions of the
//! protocol.
//!
//! `cargo bench --bench acp`. The bench fails if an answer is not the expected one, or a piece of text is lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark"
)]

mod support;

use std::time::{Duration, Instant};

use support::{Peer, handshake};

const STARTS: usize = 40;
const PROMPTS: usize = 400;
const SCRIPT: &str = "{:turns [{:steps [{:delta \"Hello.\"}]}]}";
/// Pieces of the long answer.
const EVENTS: usize = 100_000;
const PIECE: &str = "a piece of an answer, ";
/// How long an editor reads nothing.
const STOPPED: Duration = Duration::from_secs(3);

fn call(id: usize, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
}

/// The versions.
const VERSIONS: [u8; 2] = [1, 2];

fn initialize(version: u8) -> String {
    let params = match version {
        1 => r#"{"protocolVersion":1,"clientCapabilities":{}}"#,
        _ => r#"{"protocolVersion":2,"info":{"name":"bench","version":"1"},"capabilities":{}}"#,
    };
    call(0, "initialize", params)
}

/// Whether a line ends the turn of that prompt: its answer in version 1, a state in version 2.
fn ends(version: u8, id: usize, line: &str) -> bool {
    match version {
        1 => line.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\"")),
        _ => line.contains("\"state\":\"idle\"") && line.contains("\"stopReason\""),
    }
}

/// The median and the slowest hundredth.
fn told(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{what:<60} {:>8.3} ms {:>8.3} ms", at(50), at(99));
}

/// Waits for the answer with that id.
fn answer(peer: &mut Peer, id: usize) {
    let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\"");
    while !peer.line().starts_with(&start) {}
}

/// Agrees on the version, opens a session, and returns it.
fn open(peer: &mut Peer, version: u8) -> String {
    peer.ask(&initialize(version));
    let folder = peer.folder().to_str().unwrap().to_owned();
    peer.send(&call(1, "session/new", &format!("{{\"cwd\":{folder:?},\"mcpServers\":[]}}")));
    answer(peer, 1);
    peer.last().split("\"sessionId\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn prompt(id: usize, session: &str) -> String {
    let params =
        format!("{{\"sessionId\":\"{session}\",\"prompt\":[{{\"type\":\"text\",\"text\":\"hi\"}}]}}");
    call(id, "session/prompt", &params)
}

/// A turn of many deltas, to an editor that reads after a pause: the time, the lines, and the process's own memory.
fn deltas(version: u8, what: &str, pause: Duration) {
    let what = format!("ACP wire, version {version}: {what}");
    let mut peer = Peer::acp(&format!("{{:turns [{{:steps [{{:deltas {EVENTS} :of {PIECE:?}}}]}}]}}"));
    let session = open(&mut peer, version);
    let before = peer.own();
    let begun = Instant::now();
    peer.send(&prompt(2, &session));
    std::thread::sleep(pause);
    let paused = peer.own();
    let begun = if pause.is_zero() { begun } else { Instant::now() };
    let (mut lines, mut pieces) = (0usize, 0usize);
    loop {
        let line = peer.line();
        if ends(version, 2, line) {
            assert!(line.contains("end_turn"), "{line}");
            break;
        }
        lines += 1;
        if line.contains("\"agent_message_chunk\"") {
            pieces += line.matches(PIECE).count();
        }
    }
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(pieces, EVENTS, "no piece is lost, and none comes twice");
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!(
        "{what:<60} {:>10.0} deltas/s, {lines} lines in {took:.3} s; memory before {:.1} MB, after the pause {:.1} MB, \
         at the end {:.1} MB",
        EVENTS as f64 / took,
        megabytes(before),
        megabytes(paused),
        megabytes(peer.own()),
    );
    peer.end();
}

fn starts(what: &str, first: &str, expected: &str, start: impl Fn() -> Peer) {
    let times = (0..STARTS).map(|_| {
        let begun = Instant::now();
        let mut peer = start();
        peer.send(first);
        assert!(peer.line().contains(expected), "{}", peer.last());
        let took = begun.elapsed();
        peer.end();
        took
    });
    told(what, times.collect());
}

fn main() {
    println!("{:<60} {:>11} {:>11}", "", "median", "p99");
    starts("cat: start to its first line", "x\n", "x", Peer::cat);
    starts("EDN wire: start to the handshake's answer", &handshake(), ":ok true", || {
        Peer::bridge(SCRIPT, &[])
    });
    for version in VERSIONS {
        let what = |what: &str| format!("ACP wire, version {version}: {what}");
        let hello = initialize(version);
        starts(&what("start to the answer of initialize"), &hello, "\"result\"", || Peer::acp(SCRIPT));
        let opened = (0..STARTS).map(|_| {
            let begun = Instant::now();
            let mut peer = Peer::acp(SCRIPT);
            open(&mut peer, version);
            let took = begun.elapsed();
            peer.end();
            took
        });
        told(&what("start to the answer of the first session/new"), opened.collect());
        let mut peer = Peer::acp(SCRIPT);
        let session = open(&mut peer, version);
        let ended = (2..PROMPTS).map(|id| {
            let begun = Instant::now();
            peer.send(&prompt(id, &session));
            while !ends(version, id, peer.line()) {}
            begun.elapsed()
        });
        told(&what("prompt to its end"), ended.collect());
        peer.end();
        deltas(version, "100,000 deltas to an editor that reads", Duration::ZERO);
        deltas(version, "100,000 deltas to one that reads nothing for 3 s", STOPPED);
    }
}
