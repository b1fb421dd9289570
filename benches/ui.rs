//! The UI wire of the real binary, beside the wire of editors: how soon `initialize` is answered after the start, how
//! soon a run tells its first event and ends, how fast a replayed history comes, and 100,000 events to an interface that
//! reads and to one that has stopped.
//!
//! `cargo bench --bench ui`. The bench fails if an answer is not the expected one.

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

use support::{Peer, handshake, request};

const STARTS: usize = 40;
const RUNS: usize = 400;
const SCRIPT: &str = "{:turns [{:steps [{:delta \"Hello.\"}]}]}";
const UI: &[&str] = &["--wire", "ui-protocol"];
/// Pieces of the long answer, each an event of its own for an interface that reads.
const EVENTS: usize = 100_000;
const PIECE: &str = "a piece of an answer, ";
/// How long an interface reads nothing.
const STOPPED: Duration = Duration::from_secs(3);

fn call(id: &str, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"{method}\",\"params\":{params}}}\n")
}

fn initialize() -> String {
    call("i", "initialize", r#"{"protocol_version":"0","client":{"name":"bench","version":"1"}}"#)
}

/// The median and the slowest hundredth.
fn told(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{what:<60} {:>8.3} ms {:>8.3} ms", at(50), at(99));
}

/// A run of many events, to an interface that reads after a pause: the time, the lines, and the process's own memory at
/// the end of the pause.
fn events(what: &str, pause: Duration) {
    let script = format!("{{:turns [{{:steps [{{:deltas {EVENTS} :of {PIECE:?}}}]}}]}}");
    let mut peer = Peer::bridge(&script, UI);
    let capable = r#"{"protocol_version":"0","client":{"name":"bench","version":"1"},"ui_capabilities":{"supports_text_deltas":true}}"#;
    peer.ask(&call("i", "initialize", capable));
    let before = peer.own();
    peer.send(&call("r", "run.start", r#"{"input":{"type":"text","text":"hi"}}"#));
    std::thread::sleep(pause);
    let paused = peer.own();
    let begun = Instant::now();
    let (mut lines, mut seq, mut told) = (0usize, 0u64, 0usize);
    loop {
        let line = peer.line();
        lines += 1;
        let Some((_, rest)) = line.split_once("\"seq\":") else {
            if line.contains("\"completed\"") {
                break;
            }
            continue;
        };
        let (number, event) = rest.split_once(',').unwrap();
        assert_eq!(number.parse(), Ok(seq), "{line}");
        seq += 1;
        let length = event.matches(PIECE).count();
        if event.contains("\"text_delta\"") {
            told += length;
        } else if event.contains("\"final\"") {
            assert_eq!(length, EVENTS, "the whole text is told at the end");
        }
    }
    let took = begun.elapsed();
    assert_eq!(told, EVENTS, "no piece is lost");
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!(
        "{what:<60} {lines:>8} lines in {:.3} s; memory before {:.1} MB, after the pause {:.1} MB, at the end {:.1} MB",
        took.as_secs_f64(),
        megabytes(before),
        megabytes(paused),
        megabytes(peer.own()),
    );
    peer.end();
}

/// Waits for a line with that text.
fn until(peer: &mut Peer, text: &str) {
    while !peer.line().contains(text) {}
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
    starts("UI wire: start to the answer of initialize", &initialize(), "\"result\"", || {
        Peer::bridge(SCRIPT, UI)
    });

    events("UI wire: 100,000 pieces to an interface that reads", Duration::ZERO);
    events("UI wire: 100,000 pieces to one that reads nothing for 3 s", STOPPED);

    let mut edn = Peer::bridge(SCRIPT, &[]);
    edn.ask(&handshake());
    edn.ask(&request("s", "subscribe", "{:topics [\"assistant/message\" \"turn/ended\"]}"));
    let mut ui = Peer::bridge(SCRIPT, UI);
    ui.ask(&initialize());
    let (mut firsts, mut ends) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for n in 0..RUNS {
        let begun = Instant::now();
        edn.send(&request(&n.to_string(), "prompt", "{:message \"hi\"}"));
        until(&mut edn, "\"assistant/message\"");
        firsts[0].push(begun.elapsed());
        until(&mut edn, "\"turn/ended\"");
        ends[0].push(begun.elapsed());
        let begun = Instant::now();
        ui.send(&call(&n.to_string(), "run.start", r#"{"input":{"type":"text","text":"hi"}}"#));
        until(&mut ui, "\"run.status\"");
        firsts[1].push(begun.elapsed());
        until(&mut ui, "\"completed\"");
        ends[1].push(begun.elapsed());
    }
    let ([edn_firsts, ui_firsts], [edn_ends, ui_ends]) = (firsts, ends);
    told("EDN wire: prompt to the model's message", edn_firsts);
    told("UI wire: run.start to the run's first state", ui_firsts);
    told("EDN wire: prompt to the end of the turn", edn_ends);
    told("UI wire: run.start to the end of the run", ui_ends);

    ui.send(&call("l", "session.list", "{}"));
    until(&mut ui, "\"sessions\"");
    let session = ui.last().split("\"session_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let params = format!("{{\"session_id\":\"{session}\",\"max_runs\":0,\"max_events\":0}}");
    let begun = Instant::now();
    ui.send(&call("h", "session.history", &params));
    until(&mut ui, "\"events_sent\"");
    assert!(ui.last().contains(&format!("\"runs\":{RUNS}")), "{}", ui.last());
    println!(
        "{:<60} {:>8.3} ms",
        format!("UI wire: history of {RUNS} runs"),
        begun.elapsed().as_secs_f64() * 1e3
    );
}
