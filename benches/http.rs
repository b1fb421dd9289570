//! Deltas from a model server over HTTP, through the real release binary, to a client that reads.
//!
//! `cargo bench --bench http` builds the program in release mode and prints tables; `EDN_BRIDGE_PROGRAM` in
//! the environment names another program to measure. The server runs in this process and streams events like
//! OpenAI-compatible servers, each in its own chunk. Two things are measured: the program's processor time
//! per delta at full speed, and the latency of a single delta compared with `cat`, which only passes bytes
//! from the same kind of connection to the same kind of pipe.

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
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Peer, handshake, times};

const DELTAS: usize = 600_000;
const PACED: usize = 20_000;
const WARM: usize = 500;

const EVENT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n";
const LAST: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// An event with HTTP's chunk frame around it.
fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// A bridge of that server with subscriptions and a running prompt, and the connection for the server's
/// answer.
fn asked() -> (Peer, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut peer = Peer::configured(&format!(
        "{{:provider \"p\" :model \"m\" :providers {{\"p\" {{:base-url \"http://127.0.0.1:{port}/v1\"}}}} \
         :models [{{:provider \"p\" :id \"m\" :context-window 10000000}}]}}"
    ));
    peer.ask(&handshake());
    peer.ask("{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"assistant/delta\" \"assistant/message\"]}}\n");
    peer.send("{:id \"d\" :kind :request :op \"prompt\" :params {:message \"go\"}}\n");
    peer.line();
    let (mut server, _) = listener.accept().unwrap();
    server.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(server.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_lowercase();
        if let Some(given) = line.strip_prefix("content-length:") {
            length = given.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    server
        .write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .unwrap();
    (peer, server)
}

fn main() {
    streamed();
    paced();
}

/// At full speed.
fn streamed() {
    let (mut peer, mut server) = asked();
    let working = peer.at_work();
    let begun = Instant::now();
    let writer = std::thread::spawn(move || {
        let many = chunk(EVENT).repeat(100);
        for _ in 0..DELTAS / 100 {
            server.write_all(&many).unwrap();
        }
        server.write_all(&[chunk(LAST), b"0\r\n\r\n".to_vec()].concat()).unwrap();
        server
    });
    let (mut frames, mut bytes, mut text, mut early, mut peak) = (0usize, 0usize, 0usize, 0usize, 0usize);
    let worked = loop {
        let line = peer.line();
        if line.contains("\"assistant/message\"") {
            break peer.at_work() - working;
        }
        frames += 1;
        bytes += line.len();
        text += line.split(":text \"").nth(1).map_or(0, |rest| rest.split('"').next().unwrap().len());
        if frames % 20_000 == 0 {
            peak = peak.max(peer.resident());
            if early == 0 {
                early = peak;
            }
        }
    };
    let took = begun.elapsed();
    drop(writer.join().unwrap());
    println!("| deltas from a server over HTTP to a reading client | |\n|---|---|");
    println!("| deltas made | {DELTAS} |\n| frames read | {frames} |");
    println!("| deltas per second | {:.0} |", DELTAS as f64 / took.as_secs_f64());
    println!("| the program at work for a delta | {:.2} µs |", worked.as_secs_f64() * 1e6 / DELTAS as f64);
    println!("| bytes of text lost | {} |", DELTAS * "word ".len() - text);
    assert_eq!(text, DELTAS * "word ".len(), "text was lost");
    println!("| bytes a frame | {:.0} |", bytes as f64 / frames as f64);
    println!(
        "| resident memory after 20,000 frames / at most | {:.1} / {:.1} MB |",
        early as f64 / 1e6,
        peak as f64 / 1e6
    );
}

/// One at a time: the next is sent once the last was read.
fn paced() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("exec cat </dev/tcp/127.0.0.1/{port}"));
    let mut cat = Peer::start(command, tempfile::tempdir().unwrap());
    let (mut floor, _) = listener.accept().unwrap();
    floor.set_nodelay(true).unwrap();
    let line = format!("{}\n", "x".repeat(EVENT.len()));
    let (mut peer, mut server) = asked();
    let event = chunk(EVENT);
    let (mut passed, mut bridged) = (Vec::new(), Vec::new());
    // In turns, so that other load of the machine affects both.
    for round in 0..(PACED + WARM) / 100 {
        for _ in 0..100 {
            let begun = Instant::now();
            floor.write_all(line.as_bytes()).unwrap();
            cat.line();
            passed.push(begun.elapsed());
        }
        for _ in 0..100 {
            let begun = Instant::now();
            server.write_all(&event).unwrap();
            peer.line();
            bridged.push(begun.elapsed());
        }
        if (round + 1) * 100 == WARM {
            passed.clear();
            bridged.clear();
        }
    }
    println!(
        "\n| from the server's bytes to the wire's, one at a time | p50 | p99 | p99.9 | p50 / cat | p99 / cat |\n|---|---|---|---|---|---|"
    );
    let passed = times("cat", passed, None);
    let bridged = times("edn-bridge", bridged, Some(&passed));
    let middle = |times: &[Duration]| times[times.len() / 2].as_secs_f64() * 1e6;
    println!("\nMore than `cat`, p50: {:.1} µs", middle(&bridged) - middle(&passed));
}
