//! What MCP servers cost: a call compared with a built-in tool and with the server asked without the bridge, a
//! toolbox of 128 tools, a start with servers configured, and the first turn, which starts them.
//! `cargo bench --bench mcp` prints tables. Needs `python3`, in which the server of the tests is written.

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

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Peer, handshake, request, serve, times};

const STARTS: usize = 60;
const COLD: usize = 15;
const CALLS: usize = 400;
const TURNS: usize = 200;

const WORD: &str = "{:turns [{:steps [{:delta \"x\"}]}]}";

/// A server that offers what its words say, as a configuration writes it.
fn server(words: &str) -> String {
    let program = program();
    format!("{{:command [\"python3\" {program:?} {words}] :env {{\"STARTED\" \"/dev/null\"}}}}")
}

fn program() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_engine/server.py")
}

/// The bridge with these servers, which asks nobody, and the time from its spawn to the answer of the handshake.
fn bridge(script: &str, servers: &str) -> (Peer, Duration) {
    bridge_with(script, servers, ":mode :yolo")
}

/// The same with more of a configuration.
fn bridge_with(script: &str, servers: &str, more: &str) -> (Peer, Duration) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("note.txt"), "hello\n").unwrap();
    let config = dir.path().join("config.edn");
    std::fs::write(&config, format!("{{:mcp {{{servers}}} {more}}}")).unwrap();
    let mut command = serve(dir.path(), script);
    command.arg("--config").arg(config);
    let begun = Instant::now();
    let mut peer = Peer::start(command, dir);
    peer.ask(&handshake());
    (peer, begun.elapsed())
}

fn subscribe(peer: &mut Peer) {
    peer.ask(&request("s", "subscribe", "{:topics [\"turn/ended\" \"tool/result\"]}"));
}

/// A turn, from its prompt to its end; the lines in between.
fn turn(peer: &mut Peer) -> (Duration, String) {
    let (begun, mut lines) = (Instant::now(), String::new());
    peer.send(&request("p", "prompt", "{:message \"go\"}"));
    while !peer.line().contains("\"turn/ended\"") {
        lines.push_str(peer.last());
    }
    (begun.elapsed(), lines)
}

fn head(title: &str, floor: &str) {
    println!("\n| {title} | p50 | p99 | p99.9 | p50 / {floor} | p99 / {floor} |\n|---|---|---|---|---|---|");
}

fn main() {
    starts();
    calls();
    toolbox();
    cold();
}

/// From spawn to the handshake, and the memory at rest, with and without servers that nothing uses.
fn starts() {
    let many: String = (0..32).map(|number| format!("\"s{number}\" {} ", server(""))).collect();
    head("from spawn to the handshake", "none");
    let [mut none, mut unused] = [const { Vec::new() }; 2];
    let [mut before, mut after] = [0; 2];
    for _ in 0..STARTS {
        let (peer, took) = bridge(WORD, "");
        none.push(took);
        before = peer.resident();
        drop(peer);
        let (peer, took) = bridge(WORD, &many);
        unused.push(took);
        after = peer.resident();
    }
    let floor = times("no server", none, None);
    times("32 servers, which nothing uses", unused, Some(&floor));
    println!("\n| resident memory | MB |\n|---|---|");
    println!("| no server | {:.1} |\n| 32 servers, which nothing uses | {:.1} |", mb(before), mb(after));
}

/// Turns with one call each.
fn calls() {
    let script = "{:turns [\
        {:steps [{:tool-call {:name \"read\" :arguments {:path \"note.txt\"}}}]} {:steps [{:delta \"x\"}]} \
        {:steps [{:tool-call {:name \"mcp__s__echo\" :arguments {:text \"hello\"}}}]} {:steps [{:delta \"x\"}]}] \
        :then :cycle}";
    let (mut peer, _) = bridge(script, &format!("\"s\" {}", server("")));
    // The mode asks, and a rule lets the tool run: its digest is looked up each time.
    let ruled = ":mode :ask :permissions {:rules [{:decision :allow :tool \"mcp__s__*\"}]}";
    let (mut with_rule, _) = bridge_with(script, &format!("\"s\" {}", server("")), ruled);
    for peer in [&mut peer, &mut with_rule] {
        subscribe(peer);
        // The first turn starts the server.
        for _ in 0..2 {
            turn(peer);
        }
    }
    let [mut built_in, mut served, mut allowed, mut alone] = [const { Vec::new() }; 4];
    let mut bare = Command::new("python3");
    bare.arg(program()).env("STARTED", "/dev/null");
    let mut bare = Peer::start(bare, tempfile::tempdir().unwrap());
    bare.ask("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n");
    let call = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\
                \"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"hello\"}}}\n";
    for _ in 0..CALLS {
        built_in.push(turn(&mut peer).0);
        let (took, lines) = turn(&mut peer);
        assert!(lines.contains("hello") && lines.contains("mcp__s__echo"), "{lines}");
        served.push(took);
        turn(&mut with_rule);
        let (took, lines) = turn(&mut with_rule);
        assert!(lines.contains("hello") && lines.contains("mcp__s__echo"), "{lines}");
        allowed.push(took);
        alone.push(bare.ask(call));
    }
    head("a turn with one call", "read");
    let floor = times("the built-in tool read", built_in, None);
    times("a tool of a server", served, Some(&floor));
    times("the same, which a rule allows", allowed, Some(&floor));
    times("the server's answer alone, without the bridge", alone, Some(&floor));
}

/// Turns of one word with a toolbox of many tools.
fn toolbox() {
    head("a turn of one word", "none");
    let [mut none, mut many] = [const { Vec::new() }; 2];
    let (mut plain, _) = bridge(WORD, "");
    let (mut full, _) = bridge(WORD, &format!("\"s\" {}", server("\"many\"")));
    for peer in [&mut plain, &mut full] {
        subscribe(peer);
        turn(peer);
    }
    for _ in 0..TURNS {
        none.push(turn(&mut plain).0);
        many.push(turn(&mut full).0);
    }
    let floor = times("no server", none, None);
    times("a server with 128 tools", many, Some(&floor));
}

/// The first turn of a process, which starts the server and waits for its lists.
fn cold() {
    head("the first turn of a process", "none");
    let [mut none, mut started, mut alone] = [const { Vec::new() }; 3];
    for _ in 0..COLD {
        for (servers, into) in [(String::new(), &mut none), (format!("\"s\" {}", server("")), &mut started)] {
            let (mut peer, _) = bridge(WORD, &servers);
            subscribe(&mut peer);
            into.push(turn(&mut peer).0);
        }
        let begun = Instant::now();
        let mut bare = Command::new("python3");
        bare.arg(program()).env("STARTED", "/dev/null");
        let mut bare = Peer::start(bare, tempfile::tempdir().unwrap());
        bare.ask("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{}}\n");
        alone.push(begun.elapsed());
    }
    let floor = times("no server", none, None);
    times("a server, which is started", started, Some(&floor));
    times("the server's own start, without the bridge", alone, Some(&floor));
}

#[allow(clippy::cast_precision_loss, reason = "a benchmark")]
fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
