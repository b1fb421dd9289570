//! Twice the input is twice the work, for inputs that are made to cost more.
//!
//! Work is counted in instructions, under callgrind, so that what else runs on the machine does not count. Says so
//! where valgrind is not installed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "tests"
)]

use std::process::Command;

use edn_codec as edn;

#[path = "support/hostile.rs"]
mod hostile;

/// Names the size of the inputs to the process that is counted.
const SIZE: &str = "EDN_HOSTILE_SIZE";

/// Reads the inputs where it is asked to, and nothing else.
#[test]
fn hostile_inputs_of_the_size_asked_for() {
    let Some(size) = std::env::var(SIZE).ok().and_then(|size| size.parse().ok()) else { return };
    let inputs = hostile::inputs(size);
    // What the process did to get here is counted with this one.
    read_one_hostile_input("nil");
    for (_, input) in inputs {
        read_one_hostile_input(&input);
    }
}

/// Callgrind writes down what was counted so far whenever this is left.
#[inline(never)]
fn read_one_hostile_input(input: &str) {
    for form in edn::Reader::new(input.as_bytes()) {
        let _ = std::hint::black_box(form);
    }
    let mut stream = edn::Stream::new();
    for piece in input.as_bytes().chunks(7) {
        stream.push(piece);
        while let Ok(Some(form)) = stream.next_form() {
            let _ = std::hint::black_box(form);
        }
    }
    let _ = std::hint::black_box(edn::from_slice::<serde_json::Value>(input.as_bytes()));
}

/// What each input takes, in instructions.
fn instructions(size: usize) -> Option<Vec<u64>> {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-after=*read_one_hostile_input*"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "hostile_inputs_of_the_size_asked_for", "--test-threads=1"])
        .env(SIZE, size.to_string())
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count = |at: usize| -> u64 {
        let text = std::fs::read_to_string(format!("{}.{}", counts.display(), at + 2)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("callgrind counts");
        line.trim().parse().unwrap()
    };
    Some((0..hostile::inputs(1).len()).map(count).collect())
}

#[test]
fn work_grows_as_the_input_does() {
    // A number of a thousand digits and a blank, twice and four times.
    const SIZES: [usize; 2] = [2_002, 4_004];
    let [Some(once), Some(twice)] = SIZES.map(instructions) else {
        eprintln!("skipped: no valgrind");
        return;
    };
    let mut worse = Vec::new();
    for ((name, _), (once, twice)) in hostile::inputs(1).into_iter().zip(once.into_iter().zip(twice)) {
        let growth = twice as f64 / once as f64;
        let line = format!("{name}: {once} instructions, {twice} for twice the input: {growth:.2} times");
        eprintln!("{line}");
        assert!(once > 1000, "{name}: nothing was counted");
        // What grows with the square comes near 4; a table that doubles where the input does is above 2.
        if growth > 2.8 {
            worse.push(line);
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
