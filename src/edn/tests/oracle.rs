//! The reader against Clojure's own, `clojure.edn`: what one takes the other takes, with the same value.
//!
//! Runs where Clojure is installed, in one process that is fed all cases, and says so where it is not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "tests"
)]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use edn_codec::{self as edn, ErrorKind};

mod support;
use support::{PIECES, Random, dump, grammar, mutate};

/// What both are asked about beside the generated cases.
const CASES: &str = include_str!("oracle/cases.txt");

/// A case that the two may see differently, and why.
fn excused(text: &str, ours: &Result<String, ErrorKind>) -> bool {
    match ours {
        // Rust's strings cannot hold half of a pair; bounds are ours.
        Err(ErrorKind::LoneSurrogate | ErrorKind::TooDeep | ErrorKind::TooLarge) => true,
        _ => dates(text).any(|date| date < FIRST_GREGORIAN),
    }
}

/// Before this day the oracle counts by the Julian calendar. Its class of dates does; EDN says nothing of it.
const FIRST_GREGORIAN: &str = "1582-10-15";

/// The days of the points in time that `text` names, as far as they are spelled.
fn dates(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split("#inst").skip(1).filter_map(|rest| rest.split('"').nth(1));
    quoted.map(|date| date.get(..10).unwrap_or(date))
}

fn ours(text: &str) -> Result<String, ErrorKind> {
    let forms = edn::read_all(text.as_bytes()).map_err(|error| error.kind())?;
    Ok(forms.iter().map(dump).collect::<Vec<_>>().join(" "))
}

fn cases() -> Vec<String> {
    let mut cases: Vec<String> =
        CASES.lines().map(|line| line.replace("␤", "\n").replace("␍", "\r")).collect();
    // All texts of up to three of the pieces.
    for one in PIECES {
        cases.push((*one).to_owned());
        for two in PIECES {
            cases.push(format!("{one}{two}"));
            cases.push(format!("{one}{two}a"));
            cases.push(format!("[{one}{two}]"));
            cases.push(format!("a{one}{two} 1"));
        }
    }
    let mut random = Random::new(1);
    let count = std::env::var("EDN_ORACLE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(6_000);
    let seeds: Vec<&str> = CASES.lines().collect();
    let grammar = grammar::parse(include_str!("../../../grammar/edn.ebnf"));
    for _ in 0..count / 2 {
        let sentence = grammar.sentence("form", &mut random);
        if sentence.len() < 1000 {
            cases.push(mutate(&mut random, &sentence));
            cases.push(sentence);
        }
    }
    for _ in 0..count {
        let text = random.pick(&seeds);
        cases.push(mutate(&mut random, text));
        let length = 1 + random.below(6);
        cases.push((0..length).map(|_| random.pick(PIECES)).collect());
    }
    cases
}

/// What the oracle says of `cases`; none where it is not installed.
fn oracle(cases: &[String]) -> Option<Vec<String>> {
    let jar = ["/usr/share/java/clojure.jar", "/usr/local/share/java/clojure.jar"];
    let jar = std::env::var("CLOJURE_JAR").ok().or(jar
        .iter()
        .find(|path| std::fs::exists(path).is_ok_and(|it| it))
        .map(|path| (*path).to_owned()))?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/oracle.clj");
    let spec = "/usr/share/java/spec.alpha.jar:/usr/share/java/core.specs.alpha.jar";
    let mut child = Command::new("java")
        .args([
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-cp",
            &format!("{jar}:{spec}"),
            "clojure.main",
            script,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let lines: String = cases
        .iter()
        .map(|case| case.bytes().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n")
        .collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let mut output = String::new();
    child.stdout.take()?.read_to_string(&mut output).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success(), "the oracle failed");
    Some(output.lines().map(str::to_owned).collect())
}

#[test]
fn reads_what_clojure_reads() {
    let cases = cases();
    let Some(answers) = oracle(&cases) else {
        eprintln!("skipped: no java or no clojure.jar (CLOJURE_JAR names one)");
        return;
    };
    assert_eq!(answers.len(), cases.len(), "one answer a case");
    let (mut accepted, mut rejected, mut excuses) = (0, 0, 0);
    let mut differences = Vec::new();
    for (case, theirs) in cases.iter().zip(&answers) {
        let ours = ours(case);
        let agree = match &ours {
            Ok(dump) => dump == theirs,
            Err(_) => theirs.starts_with("reject"),
        };
        match (agree, &ours) {
            (true, Ok(_)) => accepted += 1,
            (true, Err(_)) => rejected += 1,
            (false, _) if excused(case, &ours) => excuses += 1,
            (false, _) => differences.push(format!("{case:?}\n    ours:   {ours:?}\n    theirs: {theirs}")),
        }
    }
    let count = cases.len();
    eprintln!(
        "{count} cases: {accepted} accepted and equal, {rejected} rejected by both, {excuses} excused, {} differ",
        differences.len()
    );
    assert!(differences.is_empty(), "{}", differences[..differences.len().min(40)].join("\n"));
    assert!(accepted > count / 10 && rejected > count / 10, "the cases do not test much");
}
