//! The codec compared with other readers and writers, in one run, on the same data.
//!
//! All of them process each row in turn, round after round, and the best round of each counts, so that other
//! load of the machine affects all. Prints megabytes per second, the ratio to `clojure-reader` and, if
//! valgrind is installed, this codec's instructions per byte.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::wire::edn::decode;
use serde::Deserialize;

mod data;

/// The time for each reader on each row.
const BUDGET: Duration = Duration::from_millis(500);

/// One row: the same data as EDN and as JSON, cut into inputs.
struct Row {
    name: String,
    edn: Vec<String>,
    json: Vec<String>,
}

type Work<'a> = (&'static str, usize, Box<dyn FnMut() + 'a>);

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("count") {
        let row = args.next().unwrap_or_default();
        let passes = args.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        return count(&row, passes);
    }
    let rows = data::rows();
    println!("reading, MB/s (times clojure-reader)");
    header(&["edn-bridge", "clojure-reader", "edn-rs", "edn-format", "serde_json", "sonic-rs"]);
    for row in &rows {
        print_row(&row.name, compare(reading(row)));
    }
    println!("\nwriting, MB/s (times clojure-reader)");
    header(&["edn-bridge", "wire", "clojure-reader", "edn-rs", "serde_json", "sonic-rs"]);
    for row in &rows {
        print_row(&row.name, compare(writing(row)));
    }
    println!("\nan event frame into its typed envelope, MB/s");
    header(&["edn-bridge", "serde_json", "sonic-rs"]);
    if let Some(row) = rows.first() {
        print_row(&row.name, compare(envelopes(row)));
    }
    println!("\na line into a request, the path that the bridge takes, MB/s");
    header(&["edn-bridge", "its value alone"]);
    print_row("requests", compare(requests(&data::requests())));
    println!("\ninstructions of edn-bridge a byte, read and write (callgrind)");
    for name in rows.iter().map(|row| row.name.as_str()).chain([TYPED, REQUESTS]) {
        match instructions(name) {
            Some((read, Some(write))) => println!("{name:<22}{read:>10.2}{write:>10.2}"),
            Some((read, None)) => println!("{name:<22}{read:>10.2}"),
            None => {
                println!("valgrind is not installed");
                break;
            }
        }
    }
}

/// What is counted beside the rows: frames read into their envelopes, and lines into requests.
const TYPED: &str = "typed frames";
const REQUESTS: &str = "requests";

fn header(names: &[&str]) {
    print!("{:<22}", "");
    for name in names {
        print!("{name:>18}");
    }
    println!();
}

fn print_row(name: &str, rates: Vec<(&'static str, f64)>) {
    let base = rates.iter().find(|(name, _)| *name == "clojure-reader").map(|(_, rate)| *rate);
    print!("{name:<22}");
    for (_, rate) in rates {
        match base {
            _ if rate == 0.0 => print!("{:>18}", "–"),
            Some(base) => print!("{:>18}", format!("{rate:.0} ({:.2})", rate / base)),
            None => print!("{:>18}", format!("{rate:.0}")),
        }
    }
    println!();
}

/// The best rate of each reader, in megabytes per second.
fn compare(mut works: Vec<Work<'_>>) -> Vec<(&'static str, f64)> {
    let mut best = vec![Duration::MAX; works.len()];
    let mut spent = Duration::ZERO;
    let mut rounds = 0;
    while rounds < 5 || spent < BUDGET * u32::try_from(works.len()).unwrap_or(1) {
        for ((_, _, work), best) in works.iter_mut().zip(&mut best) {
            let start = Instant::now();
            work();
            let took = start.elapsed();
            *best = took.min(*best);
            spent += took;
        }
        rounds += 1;
        if rounds >= 400 {
            break;
        }
    }
    let rate = |bytes: usize, took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
    works.iter().zip(best).map(|((name, bytes, _), best)| (*name, rate(*bytes, best))).collect()
}

fn bytes(inputs: &[String]) -> usize {
    inputs.iter().map(String::len).sum()
}

fn reading(row: &Row) -> Vec<Work<'_>> {
    let (edn_bytes, json_bytes) = (bytes(&row.edn), bytes(&row.json));
    macro_rules! each {
        ($name:literal, $bytes:expr, $inputs:expr, |$it:ident| $read:expr) => {{
            let reads = $inputs.iter().all(|$it| $read.is_ok());
            let bytes = if reads { $bytes } else { 0 };
            (
                $name,
                bytes,
                Box::new(move || {
                    for $it in $inputs {
                        if reads {
                            black_box(&$read.ok());
                        }
                    }
                }) as Box<dyn FnMut()>,
            )
        }};
    }
    vec![
        each!("edn-bridge", edn_bytes, &row.edn, |it| edn::read_one(black_box(it.as_bytes()))),
        each!("clojure-reader", edn_bytes, &row.edn, |it| clojure_reader::edn::read_string(black_box(it))),
        each!("edn-rs", edn_bytes, &row.edn, |it| black_box(it).parse::<edn_rs::Edn>()),
        each!("edn-format", edn_bytes, &row.edn, |it| edn_format::parse_str(black_box(it))),
        each!("serde_json", json_bytes, &row.json, |it| serde_json::from_str::<serde_json::Value>(
            black_box(it)
        )),
        each!("sonic-rs", json_bytes, &row.json, |it| sonic_rs::from_str::<sonic_rs::Value>(black_box(it))),
    ]
}

fn writing(row: &Row) -> Vec<Work<'_>> {
    let (edn_bytes, json_bytes) = (bytes(&row.edn), bytes(&row.json));
    let values: Vec<_> = row.edn.iter().filter_map(|it| edn::read_one(it.as_bytes()).ok()).collect();
    let wire_values = values.clone();
    let theirs: Vec<_> = row.edn.iter().filter_map(|it| clojure_reader::edn::read_string(it).ok()).collect();
    let rs: Vec<edn_rs::Edn> = row.edn.iter().filter_map(|it| it.parse().ok()).collect();
    let rs_bytes = if rs.len() == row.edn.len() { edn_bytes } else { 0 };
    let json: Vec<serde_json::Value> =
        row.json.iter().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let sonic: Vec<sonic_rs::Value> = row.json.iter().filter_map(|it| sonic_rs::from_str(it).ok()).collect();
    let (mut one, mut two) = (Vec::new(), Vec::new());
    vec![
        (
            "edn-bridge",
            edn_bytes,
            Box::new(move || {
                for value in &values {
                    one.clear();
                    edn::write_compact(value, &mut one);
                    black_box(&one);
                }
            }),
        ),
        (
            "wire",
            edn_bytes,
            Box::new(move || {
                for value in &wire_values {
                    two.clear();
                    edn::write_wire(value, &mut two);
                    black_box(&two);
                }
            }),
        ),
        (
            "clojure-reader",
            edn_bytes,
            Box::new(move || {
                for value in &theirs {
                    black_box(value.to_string());
                }
            }),
        ),
        (
            "edn-rs",
            rs_bytes,
            Box::new(move || {
                for value in &rs {
                    black_box(value.to_string());
                }
            }),
        ),
        (
            "serde_json",
            json_bytes,
            Box::new(move || {
                for value in &json {
                    black_box(serde_json::to_vec(value).ok());
                }
            }),
        ),
        (
            "sonic-rs",
            json_bytes,
            Box::new(move || {
                for value in &sonic {
                    black_box(sonic_rs::to_vec(value).ok());
                }
            }),
        ),
    ]
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(dead_code, reason = "what is read is what is measured")]
struct Envelope<'a> {
    kind: &'a str,
    event: &'a str,
    #[serde(borrow)]
    data: Delta<'a>,
    id: &'a str,
    seq: u64,
    ts: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(dead_code, reason = "what is read is what is measured")]
struct Delta<'a> {
    session_id: &'a str,
    offset: u64,
    #[serde(borrow)]
    text: std::borrow::Cow<'a, str>,
}

fn envelopes(row: &Row) -> Vec<Work<'_>> {
    let (edn_bytes, json_bytes) = (bytes(&row.edn), bytes(&row.json));
    vec![
        (
            "edn-bridge",
            edn_bytes,
            Box::new(move || {
                for it in &row.edn {
                    black_box(edn::from_slice::<Envelope<'_>>(it.as_bytes()).is_ok());
                }
            }),
        ),
        (
            "serde_json",
            json_bytes,
            Box::new(move || {
                for it in &row.json {
                    black_box(serde_json::from_str::<Envelope<'_>>(it).is_ok());
                }
            }),
        ),
        (
            "sonic-rs",
            json_bytes,
            Box::new(move || {
                for it in &row.json {
                    black_box(sonic_rs::from_str::<Envelope<'_>>(it).is_ok());
                }
            }),
        ),
    ]
}

fn requests(lines: &[String]) -> Vec<Work<'_>> {
    vec![
        (
            "edn-bridge",
            bytes(lines),
            Box::new(move || {
                for line in lines {
                    let Ok(form) = decode::read(black_box(line.as_bytes()), |_| false) else { continue };
                    black_box(decode::request(&form, |_| false).is_ok());
                }
            }),
        ),
        (
            "value",
            bytes(lines),
            Box::new(move || {
                for line in lines {
                    black_box(decode::read(black_box(line.as_bytes()), |_| false).is_ok());
                }
            }),
        ),
    ]
}

/// Reads the row that often, or writes it for a negative count, and does nothing else. Run it under
/// callgrind.
fn count(name: &str, passes: i64) {
    let rows = data::rows();
    let inputs = match name {
        REQUESTS => data::requests(),
        _ => rows.into_iter().find(|row| row.name == name || name == TYPED).map_or(Vec::new(), |row| row.edn),
    };
    let values: Vec<_> = inputs.iter().filter_map(|it| edn::read_one(it.as_bytes()).ok()).collect();
    for _ in 0..passes {
        for it in &inputs {
            let input = black_box(it.as_bytes());
            match name {
                TYPED => {
                    black_box(edn::from_slice::<Envelope<'_>>(input).is_ok());
                }
                REQUESTS => {
                    let Ok(form) = decode::read(input, |_| false) else { continue };
                    black_box(decode::request(&form, |_| false).is_ok());
                }
                _ => {
                    black_box(edn::read_one(input).is_ok());
                }
            }
        }
    }
    let mut out = Vec::new();
    for _ in passes..0 {
        for value in &values {
            out.clear();
            edn::write_compact(black_box(value), &mut out);
        }
    }
    eprintln!("bytes: {}", bytes(&inputs));
}

/// Instructions a byte to read, and to write where the row says how that is done.
fn instructions(name: &str) -> Option<(f64, Option<f64>)> {
    let run = |passes: &str| -> Option<(f64, f64)> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["count", name, passes])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let number = |label: &str| -> Option<f64> {
            let line = text.lines().find(|line| line.contains(label))?;
            line.rsplit(' ').next()?.parse().ok()
        };
        Some((number("Collected :")?, number("bytes:")?))
    };
    let (base, bytes) = run("0")?;
    let cost = |passes: &str| Some((run(passes)?.0 - base) / bytes);
    let write = if [TYPED, REQUESTS].contains(&name) { None } else { Some(cost("-1")?) };
    Some((cost("1")?, write))
}
