//! Asks a bridge one thing and prints the answer: `cargo run --example answer -- edn-bridge serve`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use std::process::{Command, Stdio};

use edn_bridge_client::{Client, Hello, frame};
use edn_codec::read_one;

/// Sends one message and returns the answer's text.
pub fn answer(program: &mut Command, message: &str) -> Result<String, Box<dyn std::error::Error>> {
    let mut bridge = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (bridge.stdout.take().unwrap(), bridge.stdin.take().unwrap());
    let hello = Hello { name: "mine", version: "1.0", features: &[], kept_events: Some(10_000) };
    let (client, events) = Client::open(input, output, &hello)?;
    client.ask("subscribe", read_one(br#"{:topics ["assistant/message" "turn/ended"]}"#)?.into_owned())?;
    let params = edn_codec::value::Map::new().with("message", message.to_owned());
    client.ask("prompt", params.into())?;
    let mut text = String::new();
    for event in events {
        match frame::topic(&event) {
            "assistant/message" => text = frame::message_text(frame::data(&event)),
            "turn/ended" => break,
            _ => {}
        }
    }
    drop(client);
    bridge.wait()?;
    Ok(text)
}

#[allow(dead_code, reason = "a test uses the function alone")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1);
    let mut program = Command::new(words.next().unwrap_or_else(|| "edn-bridge".into()));
    println!("{}", answer(program.args(words), "Say hello.")?);
    Ok(())
}
