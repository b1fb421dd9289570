//! A flood of bad lines beside a good connection: what it costs the process, and the good one.
//!
//! `cargo bench --bench hostile` (or `make hostile`) starts the real release binary. One client asks for
//! its state, over and over, first alone and then beside another one on the socket, which sends lines
//! that are generated to be bad: frames with changed bytes, huge numbers, deep nesting, bytes that are no
//! text, lines over the bound, half frames, floods of requests, ids of a megabyte. Every complete line
//! must be answered. `EDN_BRIDGE_HOSTILE_LINES` says how many there are (default 100,000), and
//! `EDN_BRIDGE_HOSTILE_SEED` which (default 10).

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

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use edn_bridge::limits::{MAX_DEPTH, MAX_LINE_BYTES};
use support::{Dice, Peer, quantile};

const STATE: &str = "{:id \"p\" :kind :request :op \"get_state\" :params {}}\n";

/// Some lines, each with its line feed, and how many they are.
fn bad(dice: &mut Dice, place: usize) -> (Vec<u8>, usize) {
    // What is large is rare: it counts as one line, and is a hundred thousand times as long.
    let mut out = match place % 20_000 {
        7 => vec![b'x'; MAX_LINE_BYTES + 1],
        1_007 => {
            let mut line = b"{:id \"".to_vec();
            line.resize(1 << 20, b'i');
            line.extend_from_slice(b"\" :kind :request :op \"ping\"}");
            line
        }
        2_007 => "[".repeat(1 << 20).into_bytes(),
        3_007 => "7".repeat(1 << 20).into_bytes(),
        _ => match dice.below(8) {
            0 => dice.bytes(200),
            1 => b"\0\0\0".repeat(dice.below(30) + 1),
            2 => "[{".repeat(MAX_DEPTH / 2 + dice.below(3)).into_bytes(),
            3 => format!(
                "{{:id \"n\" :kind :request :op \"get_messages\" :params {{:limit {}}}}}",
                "9".repeat(dice.below(400) + 1)
            )
            .into_bytes(),
            4 => b"{:id \"half\" :kind :request :op \"pi".to_vec(),
            5 => b"{:id \"\xff\xfe\" :kind :request :op \"ping\"}".to_vec(),
            _ => {
                let choices = dice.bytes(300);
                let mut lines = lines::input(&choices);
                if lines.last() == Some(&b'\n') {
                    lines.pop();
                }
                lines
            }
        },
    };
    out.push(b'\n');
    let count = memchr::memchr_iter(b'\n', &out).count();
    (out, count)
}

/// One round trip of the good connection.
fn state(good: &mut Peer) -> Duration {
    let took = good.ask(STATE);
    assert!(good.last().contains(":kind :response"), "{}", good.last());
    took
}

fn quantiles(mut times: Vec<Duration>) -> [f64; 3] {
    times.sort();
    [0.5, 0.99, 0.999].map(|part| quantile(&times, part).as_secs_f64() * 1e6)
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let wanted = number("EDN_BRIDGE_HOSTILE_LINES", 100_000);
    let mut dice = Dice(number("EDN_BRIDGE_HOSTILE_SEED", 10).max(1) as u64);
    let mut good = Peer::bridge("{:turns [{:steps [{:echo :last-user}]}]}", &["--durability", "relaxed"]);
    good.ask(support::HANDSHAKE);
    for _ in 0..5_000 {
        state(&mut good);
    }
    let idle = good.resident();
    let alone: Vec<Duration> = (0..20_000).map(|_| state(&mut good)).collect();

    let mut hostile = good.guest();
    let answers = BufReader::new(hostile.try_clone().unwrap());
    let (done, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let answered = AtomicUsize::new(0);
    let mut beside = Vec::new();
    let mut peak = idle;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (done, sent, answered) = (&done, &sent, &answered);
        scope.spawn(move || {
            for line in answers.split(b'\n').map_while(Result::ok) {
                let head = &line[..line.len().min(6000)];
                let is = |what: &[u8]| memchr::memmem::find(head, what).is_some();
                assert!(
                    is(b":kind :response") || is(b":kind :error") || is(b":kind :event"),
                    "{}",
                    String::from_utf8_lossy(head)
                );
                // In the frames of a client that asked for lists the kind stands in the same place.
                if !is(b":kind :event") {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(move || {
            let mut lines = 0;
            while lines < wanted {
                let (bytes, count) = bad(&mut dice, lines);
                hostile.write_all(&bytes).unwrap();
                lines += count;
                sent.fetch_add(count, Ordering::Relaxed);
            }
            // A hundred megabytes without a line feed, and then the end within a line.
            for _ in 0..100 {
                hostile.write_all(&[b'x'; 1 << 20]).unwrap();
            }
            sent.fetch_add(1, Ordering::Relaxed);
            hostile.shutdown(std::net::Shutdown::Write).unwrap();
            done.store(true, Ordering::Release);
        });
        let patience = Instant::now() + Duration::from_secs(600);
        while !done.load(Ordering::Acquire) || answered.load(Ordering::Relaxed) < sent.load(Ordering::Relaxed)
        {
            beside.push(state(&mut good));
            if beside.len() % 500 == 0 {
                peak = peak.max(good.resident());
            }
            assert!(
                Instant::now() < patience,
                "{} of {} lines were answered",
                answered.load(Ordering::Relaxed),
                sent.load(Ordering::Relaxed)
            );
        }
    });
    let took = begun.elapsed().as_secs_f64();
    let sent = sent.load(Ordering::Relaxed);
    assert_eq!(answered.load(Ordering::Relaxed), sent, "each line has one answer");
    println!("| hostile input | |\n|---|---|");
    println!("| bad lines, each answered | {sent} |\n| lines per second | {:.0} |", sent as f64 / took);
    println!("| resident memory before / at most | {:.1} / {:.1} MB |", idle as f64 / 1e6, peak as f64 / 1e6);
    let (alone, beside) = (quantiles(alone), quantiles(beside));
    println!("\n| get_state of a good connection | p50 | p99 | p99.9 |\n|---|---|---|---|");
    for (name, times) in [("alone", alone), ("beside it", beside)] {
        println!("| {name} | {:.1} µs | {:.1} µs | {:.1} µs |", times[0], times[1], times[2]);
    }
    println!(
        "| ratio | {:.1}× | {:.1}× | {:.1}× |",
        beside[0] / alone[0],
        beside[1] / alone[1],
        beside[2] / alone[2]
    );
    assert!(good.end().success(), "it ends as it should");
}
