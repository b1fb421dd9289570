//! The cost of a flood of bad lines for the process and for a good connection.
//!
//! `cargo bench --bench hostile` (or `make hostile`) starts the real release binary. One client requests its
//! state in a loop, alone and next to another client that sends bad lines of every kind. The expected answer
//! to each line is known ([`lines`]) and compared with the actual one ([`judge`]).
//!
//! Two clients, the bridge and this process share the machine's cores. So the good client is also measured
//! next to well-formed requests with the same number, lengths and pace, and next to bad lines that go to
//! another process. Those waits are not caused by the bridge's handling of bad lines.
//!
//! Then queries and commands whose cost would grow without a bound are sent beside the good connection: `ping` is
//! answered, and memory stays bounded ([`growing`]).
//!
//! The bench fails if a kind was not sent, if an answer is wrong, if the process exceeds the memory bounds
//! below, or if the good connection waits more than twice as long. `EDN_BRIDGE_HOSTILE_LINES` sets the number
//! of lines (default 100,000), and `EDN_BRIDGE_HOSTILE_SEED` the seed (default 10).

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

#[path = "hostile/judge.rs"]
mod judge;
#[path = "hostile/lines.rs"]
mod lines;
mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lines::{Bytes, Expected, Kind, Step};
use support::{Dice, Peer, quantile};

const STATE: &str = "{:id \"p\" :kind :request :op \"get_state\" :params {}}\n";

/// The maximum of resident memory: 12 MB at rest, a line of 16 MiB, the values from it, and the frames that
/// the client has not read yet.
const MOST_MB: f64 = 64.0;

/// The maximum of extra memory after the last answer, compared with the start: the pages that contain small
/// values of the allocator.
const KEPT_MB: f64 = 24.0;

/// The number of rounds of: alone, bad lines, well-formed lines, other process.
const ROUNDS: usize = 5;

/// The maximum wait of the good connection: at p50 and p99 as a multiple of its wait alone, at p99.9 of its
/// wait next to well-formed requests.
const MOST_WAIT: f64 = 2.0;

/// One round trip of the good connection.
fn state(good: &mut Peer) -> Duration {
    let took = good.ask(STATE);
    assert!(good.last().contains(":id \"p\" :kind :response"), "{}", good.last());
    took
}

fn quantiles(times: &mut [Duration]) -> [f64; 3] {
    times.sort();
    [0.5, 0.99, 0.999].map(|part| quantile(times, part).as_secs_f64() * 1e6)
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The result of sending some lines.
#[derive(Default)]
struct Outcome {
    /// All answers.
    answers: Vec<u8>,
    /// The round trips of the good connection during that time.
    times: Vec<Duration>,
    took: Duration,
    /// The number of bytes sent, by time.
    pace: Vec<(usize, Duration)>,
    bytes: usize,
}

impl Outcome {
    /// Adds the times of a further round.
    fn add(&mut self, round: Outcome) {
        self.times.extend(round.times);
        self.took += round.took;
        self.bytes += round.bytes;
    }
}

/// A client that sends, and counts the answers.
struct Sender<'a> {
    stream: UnixStream,
    socket: &'a Path,
    answered: &'a AtomicUsize,
    begun: Instant,
    sent_lines: usize,
    sent_bytes: usize,
    /// Short lines that wait to be sent: they are cut into pieces at any byte.
    held: Vec<u8>,
    pace: Vec<(usize, Duration)>,
    /// The earliest time for that many bytes, if given.
    after: &'a [(usize, Duration)],
}

impl Sender<'_> {
    fn write(&mut self, bytes: &[u8]) {
        let due = self.after.partition_point(|(sent, _)| *sent < self.sent_bytes);
        if let Some((_, due)) = self.after.get(due)
            && let Some(early) = due.checked_sub(self.begun.elapsed())
            && early > Duration::from_millis(1)
        {
            std::thread::sleep(early);
        }
        self.stream.write_all(bytes).expect("it reads on");
        self.sent_bytes += bytes.len();
        self.pace.push((self.sent_bytes, self.begun.elapsed()));
    }

    fn write_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.write(&held);
        }
    }

    /// Waits until every line is answered, so that requests before and after a flood do not mix with it.
    fn wait(&mut self) {
        self.write_held();
        let until = Instant::now() + Duration::from_secs(60);
        while self.answered.load(Ordering::Acquire) < self.sent_lines {
            let answered = self.answered.load(Ordering::Relaxed);
            assert!(Instant::now() < until, "{answered} of {} lines were answered", self.sent_lines);
            std::thread::yield_now();
        }
    }

    fn send(&mut self, step: &Step, dice: &mut Dice) {
        let apart = matches!(step.expected.first(), Some(Expected::ResponseOrFull(_)));
        if apart {
            self.wait();
        }
        match &step.bytes {
            Bytes::Plain(bytes) if step.kind == Kind::HungUp => {
                return hang_up(self.socket, bytes, &step.expected[0]);
            }
            Bytes::Plain(bytes) => {
                self.held.extend_from_slice(bytes);
                while self.held.len() > 4096 {
                    let rest = self.held.split_off(dice.below(4096) + 1);
                    let piece = std::mem::replace(&mut self.held, rest);
                    self.write(&piece);
                }
            }
            Bytes::Filled { head, fill, length, tail } => {
                self.held.extend_from_slice(head);
                self.write_held();
                let block = fill.repeat((1 << 16) / fill.len());
                let mut left = *length;
                while left > 0 {
                    let part = left.min(block.len());
                    self.write(&block[..part]);
                    left -= part;
                }
                self.held.extend_from_slice(tail);
            }
        }
        self.sent_lines += step.expected.len();
        if apart {
            self.wait();
        }
    }
}

/// A connection that ends within a line gets an error, and the others notice nothing.
fn hang_up(socket: &Path, half: &[u8], expected: &Expected) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(half).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    judge::holds(Kind::HungUp, expected, &answer).unwrap();
}

/// Sends `steps` on a further connection, whose input then ends within a line, while the good one continues.
/// Sends them to the process `another`, if given.
fn beside(
    good: &mut Peer,
    another: Option<&Peer>,
    steps: &[Step],
    dice: &mut Dice,
    after: &[(usize, Duration)],
) -> Outcome {
    let target = another.unwrap_or(good);
    let socket: PathBuf = support::socket(target.dir.path());
    let stream = target.guest();
    let mut input = stream.try_clone().unwrap();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let begun = Instant::now();
    let mut times = Vec::new();
    let (answers, pace) = std::thread::scope(|scope| {
        let (done, answered, socket) = (&done, &answered, &socket);
        let reading = scope.spawn(move || {
            let (mut answers, mut part) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(count @ 1..) = input.read(&mut part) {
                answers.extend_from_slice(&part[..count]);
                answered.fetch_add(memchr::memchr_iter(b'\n', &part[..count]).count(), Ordering::Release);
            }
            done.store(true, Ordering::Release);
            answers
        });
        let sending = scope.spawn(move || {
            let (held, pace) = (Vec::new(), Vec::new());
            let mut sender =
                Sender { stream, socket, answered, begun, sent_lines: 0, sent_bytes: 0, held, pace, after };
            for step in steps {
                sender.send(step, dice);
            }
            sender.held.extend_from_slice(LAST);
            sender.write_held();
            sender.stream.shutdown(std::net::Shutdown::Write).unwrap();
            sender.pace
        });
        while !done.load(Ordering::Acquire) {
            times.push(state(good));
            if begun.elapsed() > Duration::from_secs(300) {
                // Wakes the waiting thread, which reports its result.
                good.child.kill().unwrap();
            }
        }
        (reading.join().unwrap(), sending.join().unwrap())
    });
    let bytes = pace.last().map_or(0, |(bytes, _)| *bytes);
    Outcome { answers, times, took: begun.elapsed(), pace, bytes }
}

/// The half line that ends such a connection.
const LAST: &[u8] = b"{:id \"last\" :kind";

/// Checks that every line has its expected answer, and that the judge would notice errors.
fn check(steps: &[Step], answers: &[u8], dice: &mut Dice) -> Result<(usize, usize), String> {
    let last = Step {
        kind: Kind::Half,
        bytes: Bytes::Plain(LAST.to_vec()),
        expected: vec![lines::unterminated(LAST.len())],
    };
    let steps: Vec<&Step> = steps.iter().chain([&last]).filter(|step| step.kind != Kind::HungUp).collect();
    let answers: Vec<&[u8]> = answers.split_inclusive(|byte| *byte == b'\n').collect();
    let right = judge::judge(steps.iter().copied(), answers.iter().copied())?;
    let mut few = 0;
    let first: Vec<&Step> = steps
        .iter()
        .copied()
        .take_while(|step| {
            few += step.expected.len();
            few < 3_000
        })
        .collect();
    let count: usize = first.iter().map(|step| step.expected.len()).sum();
    let places: Vec<usize> = (0..100).map(|_| dice.below(count - 1)).collect();
    let noticed = judge::bites(&first, &answers[..count], places.into_iter())?;
    Ok((right, noticed))
}

/// Queries of few bytes that lead to millions of entities.
const GROWING: [&str; 3] = [
    "[{:psi.graph/attributes [{:psi.graph/attributes [{:psi.graph/attributes [:psi.attribute/name]}]}]}]",
    "[{:psi.graph/attributes [:psi.attribute/name {:psi.graph/attributes ...}]}]",
    "[{:psi.tool/list [:psi.tool/name {:psi.tool/list ...}]}]",
];

/// The maximum of resident memory with four growing queries at once: all that queries may hold, twice, because an
/// allocator keeps pages that are free.
const GROWING_MB: f64 = 600.0;

/// Sends growing queries on four further connections at once. Returns the longest wait of the good connection for a
/// `ping`, and the most resident memory.
fn growing(good: &mut Peer) -> (Duration, f64) {
    const PING: &str = "{:id \"p\" :kind :request :op \"ping\" :params {}}\n";
    let mut longest = Duration::ZERO;
    for query in GROWING {
        let guests: Vec<UnixStream> = (0..4).map(|_| good.guest()).collect();
        for mut guest in &guests {
            let line =
                format!("{{:id \"g\" :kind :request :op \"query_eql\" :params {{:query {query:?}}}}}\n");
            guest.write_all(line.as_bytes()).unwrap();
        }
        let open = AtomicUsize::new(guests.len());
        std::thread::scope(|scope| {
            for mut guest in guests {
                let open = &open;
                scope.spawn(move || {
                    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
                    while memchr::memmem::find(&answer, b"runtime/query-failed").is_none() {
                        let count = guest.read(&mut part).unwrap();
                        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&answer));
                        answer.extend_from_slice(&part[..count]);
                    }
                    open.fetch_sub(1, Ordering::Release);
                });
            }
            while open.load(Ordering::Acquire) > 0 {
                longest = longest.max(good.ask(PING));
            }
        });
    }
    (longest, good.most_resident() as f64 / 1e6)
}

fn main() -> ExitCode {
    let wanted = number("EDN_BRIDGE_HOSTILE_LINES", 100_000);
    let mut dice = Dice(number("EDN_BRIDGE_HOSTILE_SEED", 10).max(1) as u64);
    let mut failures = Vec::new();
    let steps = lines::plan(&mut dice, wanted);
    let (mut answered, mut tried) = (0, 0);

    let bridge = || {
        let mut peer = Peer::bridge("{:turns [{:steps [{:echo :last-user}]}]}", &["--durability", "relaxed"]);
        peer.ask(&support::handshake());
        peer
    };
    let (mut good, other) = (bridge(), bridge());
    for _ in 0..5_000 {
        state(&mut good);
    }
    let before = good.resident();
    let (mut alone, mut orderly, mut elsewhere, mut hostile) =
        (Outcome::default(), Outcome::default(), Outcome::default(), Outcome::default());
    let (mut after, mut most) = (before, 0);
    // In turns, so that other load of the machine affects all of them.
    for part in lines::parts(&steps, ROUNDS) {
        alone.times.extend((0..10_000).map(|_| state(&mut good)));
        let bad = beside(&mut good, None, part, &mut dice, &[]);
        (after, most) = (good.resident(), good.most_resident());
        let well_formed = lines::well_formed(part);
        let well = beside(&mut good, None, &well_formed, &mut dice, &bad.pace);
        let away = beside(&mut good, Some(&other), part, &mut dice, &[]);
        for (what, steps, outcome) in
            [("bad", part, &bad), ("well-formed", &well_formed, &well), ("other", part, &away)]
        {
            match check(steps, &outcome.answers, &mut dice) {
                Ok((right, noticed)) if what == "bad" => {
                    (answered, tried) = (answered + right, tried + noticed)
                }
                Ok(_) => {}
                Err(error) => failures.push(format!("of the {what} ones: {error}")),
            }
        }
        hostile.add(bad);
        orderly.add(well);
        elsewhere.add(away);
    }

    let mut sent: BTreeMap<Kind, usize> = BTreeMap::new();
    for step in &steps {
        *sent.entry(step.kind).or_default() += step.expected.len();
    }
    println!("| bad lines, {wanted} | sent |\n|---|---|");
    for (kind, name, least) in Kind::ALL {
        let count = sent.get(&kind).copied().unwrap_or(0);
        println!("| {name} | {count} |");
        if count < least {
            failures.push(format!("{count} lines are sent of {name}, not {least}"));
        }
    }
    println!("\n| | |\n|---|---|");
    let hung_up = sent.get(&Kind::HungUp).copied().unwrap_or(0);
    println!("| answered, each as it has to be | {} |", answered + hung_up);
    println!("| answers lost, swapped and doubled to try the check: noticed | {tried} |");
    if tried == 0 {
        failures.push("the check was not tried".to_owned());
    }
    let megabytes = [before, most, after].map(|bytes| bytes as f64 / 1e6);
    println!(
        "| sent in | {:.1} s, {:.0} MB; the well-formed ones {:.1} s, {:.0} MB |",
        hostile.took.as_secs_f64(),
        hostile.bytes as f64 / 1e6,
        orderly.took.as_secs_f64(),
        orderly.bytes as f64 / 1e6,
    );
    println!(
        "| resident memory before, at most, when all are answered | {:.1}, {:.1}, {:.1} MB |",
        megabytes[0], megabytes[1], megabytes[2]
    );
    if megabytes[1] > MOST_MB {
        failures.push(format!("it takes {:.1} MB, not {MOST_MB}", megabytes[1]));
    }
    if megabytes[2] - megabytes[0] > KEPT_MB {
        failures.push(format!("it keeps {:.1} MB, not {KEPT_MB}", megabytes[2] - megabytes[0]));
    }

    println!("\n| get_state of a good connection | p50 | p99 | p99.9 |\n|---|---|---|---|");
    let rows = [
        ("alone", &mut alone.times),
        ("beside well-formed requests", &mut orderly.times),
        ("beside the bad lines, sent to another process", &mut elsewhere.times),
        ("beside the bad lines", &mut hostile.times),
    ]
    .map(|(name, times)| {
        let times = quantiles(times);
        println!("| {name} | {:.1} µs | {:.1} µs | {:.1} µs |", times[0], times[1], times[2]);
        times
    });
    let [alone, orderly, elsewhere, beside] = rows;
    let [to_alone, to_orderly, to_elsewhere] = [alone, orderly, elsewhere]
        .map(|floor| std::array::from_fn::<f64, 3, _>(|at| beside[at] / floor[at]));
    for (name, ratio) in
        [("to alone", to_alone), ("to beside well-formed", to_orderly), ("to another process", to_elsewhere)]
    {
        println!("| the last {name} | {:.1}× | {:.1}× | {:.1}× |", ratio[0], ratio[1], ratio[2]);
    }
    // One time in a thousand no core is free. That holds for any load, so p99.9 is compared with another
    // load.
    for (name, ratio) in [("p50", to_alone[0]), ("p99", to_alone[1]), ("p99.9", to_orderly[2])] {
        if ratio > MOST_WAIT {
            failures.push(format!("at {name} the good connection waits {ratio:.1} times as long"));
        }
    }
    let (longest, grown) = growing(&mut good);
    println!("\n| beside growing queries of four connections | |\n|---|---|");
    println!("| the longest wait for `ping` | {:.1} ms |", longest.as_secs_f64() * 1e3);
    println!("| resident memory at most | {grown:.1} MB |");
    if grown > GROWING_MB {
        failures.push(format!("growing queries take {grown:.1} MB, not {GROWING_MB}"));
    }
    if longest > Duration::from_millis(500) {
        failures.push(format!("beside growing queries, a ping waits {longest:?}"));
    }
    if !good.end().success() {
        failures.push("it does not end as it should".to_owned());
    }
    for failure in &failures {
        println!("\nfailed: {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
