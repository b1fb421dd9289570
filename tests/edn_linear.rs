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
    missing_docs,
    reason = "tests"
)]

use std::process::Command;

use edn_bridge::edn;

#[path = "edn_support/hostile.rs"]
mod hostile;

/// Names the size of the inputs to the process that is counted.
const SIZE: &str = "EDN_HOSTILE_SIZE";

/// Reads the inputs where it is asked to, and nothing else.
#[test]
fn hostile_inputs_of_the_size_asked_for() {
    let Some(size) = std::env::var(SIZE).ok().and_then(|size| size.parse().ok()) else { return };
    for (_, input) in hostile::inputs(size) {
        for form in edn::Reader::new(input.as_bytes()) {
            let _ = std::hint::black_box(form);
        }
    }
}

fn instructions(size: usize) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*Reader*next*"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "hostile_inputs_of_the_size_asked_for", "--test-threads=1"])
        .env(SIZE, size.to_string())
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :")).expect("callgrind counts");
    line.rsplit(' ').next()?.parse().ok()
}

#[test]
fn work_grows_as_the_input_does() {
    let (Some(once), Some(twice)) = (instructions(1_600), instructions(3_200)) else {
        eprintln!("skipped: no valgrind");
        return;
    };
    let growth = twice / once;
    eprintln!("{once} instructions, {twice} for twice the input: {growth:.2} times");
    // A part that grows with the square would take it well beyond this; the buffers' growth takes it above 2.
    assert!(growth < 2.5, "{once} instructions, {twice} for twice the input");
}
