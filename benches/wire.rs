//! The real release binary compared with `cat`, in one run: start-up, round trips, pipelining, memory,
//! deltas, a client that stops reading, many sessions and connections.
//!
//! `cargo bench --bench wire` builds the program in release mode and prints a table; `EDN_BRIDGE_PROGRAM` in
//! the environment names another program to measure. `cat` is the lower limit: a process that only passes
//! bytes on. The two are measured in turns, so that other load of the machine affects both.

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

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use support::{Peer, handshake, times};

const STARTS: usize = 60;
const ROUNDS: usize = 20_000;
const PIPELINED: usize = 100_000;
const DELTAS: usize = 600_000;
const STOPPED: Duration = Duration::from_secs(10);
const GUESTS: usize = 200;
const PROMPTS: usize = 500;
const SESSIONS: usize = 1_000;

fn main() {
    let idle = "{:turns [{:steps [{:delta \"x\"}]}]}";
    println!(
        "| from spawn to the first answer | p50 | p99 | p99.9 | p50 / cat | p99 / cat |\n|---|---|---|---|---|---|"
    );
    let mut cat = Vec::new();
    let mut bridge = Vec::new();
    for _ in 0..STARTS {
        for (bridged, into) in [(false, &mut cat), (true, &mut bridge)] {
            let begun = Instant::now();
            let mut peer = if bridged { Peer::bridge(idle, &[]) } else { Peer::cat() };
            peer.ask(&handshake());
            into.push(begun.elapsed());
        }
    }
    let floor = times("cat", cat, None);
    times("edn-bridge, handshake", bridge, Some(&floor));

    let mut peer = Peer::bridge(idle, &[]);
    peer.ask(&handshake());
    let (memory, own) = (peer.resident(), peer.own());
    drop(peer);
    let mut cat = Peer::cat();
    cat.ask(&handshake());
    let of_cat = cat.resident();
    drop(cat);
    round_trips(idle);

    println!("\n| pipelined requests | per second |\n|---|---|");
    for (name, mut peer) in [
        ("cat", Peer::cat()),
        ("edn-bridge, ping", {
            let mut peer = Peer::bridge(idle, &[]);
            peer.ask(&handshake());
            peer
        }),
    ] {
        println!("| {name} | {:.0} |", pipelined(&mut peer));
    }

    let mut peer =
        Peer::bridge(&format!("{{:turns [{{:steps [{{:deltas {DELTAS} :of \"word \"}}]}}]}}"), &[]);
    peer.ask(&handshake());
    peer.ask("{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"assistant/delta\" \"assistant/message\"]}}\n");
    peer.send("{:id \"d\" :kind :request :op \"prompt\" :params {:message \"go\"}}\n");
    peer.line();
    let begun = Instant::now();
    let (mut frames, mut bytes, mut peak) = (0usize, 0usize, 0usize);
    loop {
        let line = peer.line();
        if line.contains("assistant/message") {
            break;
        }
        frames += 1;
        bytes += line.len();
        if frames % 50_000 == 0 {
            peak = peak.max(peer.resident());
        }
    }
    let took = begun.elapsed().as_secs_f64();
    println!("\n| deltas from the scripted provider to a reading client | |\n|---|---|");
    println!(
        "| deltas made | {DELTAS} |\n| frames read | {frames} |\n| deltas per second | {:.0} |",
        DELTAS as f64 / took
    );
    println!(
        "| bytes a frame | {:.0} |\n| resident memory, peak | {:.1} MB |",
        bytes as f64 / frames as f64,
        peak as f64 / 1e6
    );

    first_word();
    stopped();
    many();
    among_many();

    println!("\n| resident memory | |\n|---|---|");
    println!(
        "| edn-bridge, idle after the handshake | {:.1} MB |\n| of it not of files | {:.1} MB |\n| cat | {:.1} MB |",
        memory as f64 / 1e6,
        own as f64 / 1e6,
        of_cat as f64 / 1e6
    );
}

/// The time of a request and its answer. Client and server share a processor, or each has its own. The
/// system's own placement would matter more than their work, because waking an idle processor takes longest.
fn round_trips(script: &str) {
    let requests = [
        ("ping", "{:id \"p\" :kind :request :op \"ping\" :params {}}\n".to_owned()),
        ("get_state", "{:id \"p\" :kind :request :op \"get_state\" :params {}}\n".to_owned()),
        (
            "query_eql, 3 attributes",
            "{:id \"p\" :kind :request :op \"query_eql\" :params {:query \"[:psi.agent-session/session-id :psi.agent-session/phase :psi.agent-session/model-id]\"}}\n"
                .to_owned(),
        ),
    ];
    let processors = processors();
    let (first, last) = (&processors[..1], &processors[processors.len() - 1..]);
    for (name, server) in [("on one processor", first), ("on two processors", last)] {
        println!(
            "\n| round trip over pipes, {name} | p50 | p99 | p99.9 | p50 / cat | p99 / cat |\n|---|---|---|---|---|---|"
        );
        // Child processes inherit it.
        run_on(server);
        let mut cat = Peer::cat();
        let mut peer = Peer::bridge(script, &[]);
        run_on(first);
        peer.ask(&handshake());
        let mut floor = Vec::new();
        let mut measured: Vec<Vec<Duration>> = vec![Vec::new(); requests.len()];
        for _ in 0..ROUNDS / 100 {
            floor.extend((0..100).map(|_| cat.ask(&requests[0].1)));
            for (place, (_, request)) in requests.iter().enumerate() {
                measured[place].extend((0..100).map(|_| peer.ask(request)));
            }
        }
        let floor = times("cat", floor, None);
        for ((name, _), measured) in requests.iter().zip(measured) {
            times(name, measured, Some(&floor));
        }
    }
    run_on(&processors);
}

/// The processors of this thread; empty if the system does not report them, which leaves the choice to the
/// system.
fn processors() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_getaffinity};
        let all = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at)).collect()
    }
    #[cfg(not(target_os = "linux"))]
    vec![0]
}

/// Limits this thread and its later child processes to these processors.
fn run_on(processors: &[usize]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CpuSet, sched_setaffinity};
        let mut set = CpuSet::new();
        processors.iter().for_each(|at| set.set(*at));
        sched_setaffinity(None, &set).unwrap();
    }
    #[cfg(not(target_os = "linux"))]
    let _ = processors;
}

/// From a prompt to the first word of its answer, including: the message on disk, the turn's stages, the
/// provider's first byte, the wire.
fn first_word() {
    let mut peer = Peer::bridge("{:turns [{:steps [{:delta \"word\"}]}]}", &[]);
    peer.ask(&handshake());
    peer.ask("{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"assistant/delta\" \"assistant/message\"]}}\n");
    let mut taken = Vec::new();
    for _ in 0..PROMPTS {
        let begun = Instant::now();
        peer.send("{:id \"d\" :kind :request :op \"prompt\" :params {:message \"go\"}}\n");
        while !peer.line().contains("\"assistant/delta\"") {}
        taken.push(begun.elapsed());
        while !peer.line().contains("\"assistant/message\"") {}
    }
    println!("\n| a prompt, durability full | p50 | p99 | p99.9 | | |\n|---|---|---|---|---|---|");
    times("to the first word of its answer", taken, None);
}

/// A client that stops reading in the middle of a turn, and a second client.
fn stopped() {
    let mut peer =
        Peer::bridge(&format!("{{:turns [{{:steps [{{:deltas {DELTAS} :of \"word \"}}]}}]}}"), &[]);
    peer.ask(&handshake());
    let before = peer.resident();
    peer.ask("{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"assistant/delta\" \"assistant/message\"]}}\n");
    let mut guest = peer.guest();
    let mut ping = || {
        let begun = Instant::now();
        guest.write_all(b"{:id \"p\" :kind :request :op \"get_state\" :params {}}\n").unwrap();
        let mut line = [0u8; 4096];
        let count = guest.read(&mut line).unwrap();
        assert!(line[..count].ends_with(b"\n"));
        begun.elapsed()
    };
    for _ in 0..2_000 {
        ping();
    }
    let alone: Vec<Duration> = (0..10_000).map(|_| ping()).collect();
    peer.send("{:id \"d\" :kind :request :op \"prompt\" :params {:message \"go\"}}\n");
    let until = Instant::now() + STOPPED;
    let (mut beside, mut peak) = (Vec::new(), 0);
    while Instant::now() < until {
        beside.extend((0..100).map(|_| ping()));
        peak = peak.max(peer.resident());
    }
    let mut text = 0;
    loop {
        let line = peer.line();
        if line.contains("\"assistant/message\"") {
            break;
        }
        text += line.split(":text \"").nth(1).map_or(0, |rest| rest.split('"').next().unwrap().len());
    }
    println!(
        "\n| a client that reads nothing for {} s while its turn streams | |\n|---|---|",
        STOPPED.as_secs()
    );
    println!(
        "| resident memory before / at most | {:.1} / {:.1} MB |\n| bytes of text lost | {} |",
        before as f64 / 1e6,
        peak as f64 / 1e6,
        DELTAS * "word ".len() - text
    );
    assert_eq!(text, DELTAS * "word ".len(), "text was lost");
    println!(
        "\n| get_state of another client | p50 | p99 | p99.9 | p50 / alone | p99 / alone |\n|---|---|---|---|---|---|"
    );
    let alone = times("alone", alone, None);
    times("beside it", beside, Some(&alone));
}

/// The cost of an idle connection and of an idle session.
fn many() {
    let mut peer = Peer::bridge("{:turns [{:steps [{:echo :last-user}]}]}", &[]);
    peer.ask(&handshake());
    let none = peer.resident();
    let guests: Vec<UnixStream> = (0..GUESTS).map(|_| peer.guest()).collect();
    let connected = peer.resident();
    drop(guests);
    // Another process, because sessions would reuse the memory of the closed connections.
    let mut peer = Peer::bridge("{:turns [{:steps [{:echo :last-user}]}]}", &[]);
    peer.ask(&handshake());
    peer.ask("{:id \"s\" :kind :request :op \"subscribe\" :params {:topics [\"assistant/message\"]}}\n");
    let mut sessions = |count: usize| {
        for _ in 0..count {
            peer.ask("{:id \"n\" :kind :request :op \"new_session\" :params {}}\n");
            peer.send(
                "{:id \"p\" :kind :request :op \"prompt\" :params {:message \"Some words of a person.\"}}\n",
            );
            while !peer.line().contains("\"assistant/message\"") {}
        }
        peer.resident()
    };
    // The first ones also include one-time costs.
    let before = sessions(SESSIONS / 20);
    let after = sessions(SESSIONS);
    println!("\n| resident memory for each of many | |\n|---|---|");
    println!(
        "| {GUESTS} connections, one | {:.1} KB |\n| {SESSIONS} live sessions with a turn, one | {:.1} KB |",
        connected.saturating_sub(none) as f64 / GUESTS as f64 / 1e3,
        after.saturating_sub(before) as f64 / SESSIONS as f64 / 1e3
    );
}

/// A turn, with all its events, with one live session and with many. The events at its start and end list all
/// live sessions.
fn among_many() {
    let taken = |sessions: usize| -> Vec<Duration> {
        let mut peer = Peer::bridge("{:turns [{:steps [{:echo :last-user}]}]}", &[]);
        peer.ask(&handshake());
        for _ in 1..sessions {
            peer.ask("{:id \"n\" :kind :request :op \"new_session\" :params {}}\n");
        }
        peer.send("{:id \"s\" :kind :request :op \"subscribe\" :params {}}\n");
        (0..PROMPTS)
            .map(|_| {
                let begun = Instant::now();
                peer.send("{:id \"p\" :kind :request :op \"prompt\" :params {:message \"go\"}}\n");
                while !peer.line().contains(":event \"assistant/message\"") {}
                let took = begun.elapsed();
                // Later events do not belong to the next round.
                while !peer.line().contains(":event \"context/updated\"") {}
                took
            })
            .collect()
    };
    println!(
        "\n| a turn of one word, told to a client of all topics | p50 | p99 | p99.9 | p50 / one | p99 / one |\n|---|---|---|---|---|---|"
    );
    let alone = times("with one live session", taken(1), None);
    times(&format!("with {SESSIONS}"), taken(SESSIONS), Some(&alone));
}

/// Requests per second without waiting for answers.
fn pipelined(peer: &mut Peer) -> f64 {
    // Stays far below the bound of pending requests, because a ping is answered as it is read.
    let request = "{:id \"p\" :kind :request :op \"ping\" :params {}}\n";
    let burst = request.repeat(PIPELINED);
    let mut stdin = peer.input();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let stdin = &mut stdin;
        scope.spawn(move || stdin.write_all(burst.as_bytes()).unwrap());
        let mut left = PIPELINED;
        let mut buffer = [0u8; 1 << 16];
        let stdout = peer.stdout.get_mut();
        while left > 0 {
            let count = stdout.read(&mut buffer).unwrap();
            assert!(count > 0, "the peer ended");
            left -= memchr::memchr_iter(b'\n', &buffer[..count]).count();
        }
    });
    PIPELINED as f64 / begun.elapsed().as_secs_f64()
}
