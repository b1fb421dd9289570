//! The scripted provider's deltas per second, which must not limit any load test.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use edn_bridge::provider::scripted::Scripted;
use edn_bridge::provider::{ModelRequest, Provider};
use futures_util::StreamExt;

const DELTAS: u32 = 10_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let script = format!("{{:turns [{{:steps [{{:deltas {DELTAS} :of \"a word or two \"}}]}}]}}");
    let provider = Scripted::from_bytes(Path::new("bench.edn"), script.as_bytes()).unwrap();
    let begun = Instant::now();
    let mut answer = provider.stream(ModelRequest::default());
    while let Some(chunk) = answer.next().await {
        let _ = black_box(chunk);
    }
    println!(
        "scripted deltas: {:.1} million a second",
        f64::from(DELTAS) / begun.elapsed().as_secs_f64() / 1e6
    );
}
