//! The embedded model's figures: loading time, first token, output rate, and memory.
//!
//! `cargo bench --bench embedded -- [MODEL.gguf]`; the default is the model of `edn-bridge models fetch`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "a benchmark")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edn_bridge::message::{Block, Message, Role};
use edn_bridge::provider::embedded::{Embedded, ModelFile};
use edn_bridge::provider::{Chunk, ModelRequest, Provider};
use futures_util::StreamExt;

/// The figures of one call.
struct Call {
    first: Duration,
    all: Duration,
    prompt: u64,
    cached: u64,
    spoken: u64,
    text: String,
}

impl Call {
    fn speed(&self) -> f64 {
        let spoken = u32::try_from(self.spoken.saturating_sub(1)).unwrap();
        f64::from(spoken) / (self.all - self.first).as_secs_f64()
    }
}

fn say(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message::new("m".into(), role, vec![Block::Text(text.into())], "2026-01-01T00:00:00Z".into()))
}

async fn call(model: &Embedded, system: &str, messages: &[Arc<Message>], most: u32) -> Call {
    let request = ModelRequest {
        system: system.into(),
        messages: messages.to_vec(),
        max_output_tokens: Some(most),
        ..ModelRequest::default()
    };
    let begun = Instant::now();
    let mut answer = model.stream(request);
    let mut call = Call {
        first: Duration::ZERO,
        all: Duration::ZERO,
        prompt: 0,
        cached: 0,
        spoken: 0,
        text: String::new(),
    };
    while let Some(chunk) = answer.next().await {
        match chunk.expect("the model answers") {
            Chunk::Text(text) => {
                if call.text.is_empty() {
                    call.first = begun.elapsed();
                }
                call.text.push_str(&text);
            }
            Chunk::Usage(usage) => {
                (call.prompt, call.cached, call.spoken) = (usage.input, usage.cache_read, usage.output);
            }
            _ => {}
        }
    }
    call.all = begun.elapsed();
    call
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn show(name: &str, call: &Call) {
    println!(
        "{name:<28} first token {:>7.3} s   {:>4} prompt tokens, {:>4} remembered   {:>4} tokens at {:>6.1}/s",
        call.first.as_secs_f64(),
        call.prompt,
        call.cached,
        call.spoken,
        call.speed()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).map(PathBuf::from);
    let state = dirs::state_dir().unwrap_or_default().join("edn-bridge");
    let model = Embedded::new(ModelFile::choose(given, &state));

    let rule = "Answer briefly and say what you do not know. ";
    let system = format!("You are a helpful assistant inside a text editor. {}", rule.repeat(30));
    let story = "Write a short story about a lighthouse keeper who finds a letter on the beach.";

    let cold = call(&model, "", &[say(Role::User, "Hi")], 1).await;
    println!(
        "load and one token           {:>7.3} s, then {} MB resident",
        cold.first.as_secs_f64(),
        resident_mb()
    );
    let first = call(&model, &system, &[say(Role::User, "Say hello in one short sentence.")], 64).await;
    show("first turn", &first);
    println!("{:?}", first.text);
    let mut talk =
        vec![say(Role::User, "Say hello in one short sentence."), say(Role::Assistant, &first.text)];
    talk.push(say(Role::User, story));
    let second = call(&model, &system, &talk, 256).await;
    show("second turn", &second);
    println!("{:?}", second.text);
    let long = "The sea was calm that day and the gulls were loud over the harbour wall. ".repeat(150);
    let third = call(&model, "", &[say(Role::User, &format!("Summarise: {long}"))], 64).await;
    show("long prompt", &third);
    println!("{} MB resident", resident_mb());
}
