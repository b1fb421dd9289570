//! The release binary with a real model in it: an answer streamed over the wire, and an answer cut
//! short.
//!
//! Left out unless asked for, because it needs the release binary (`EDN_BRIDGE_RELEASE`) and the
//! model that `edn-bridge models fetch` brings; `make test` sees to both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use edn_bridge::edn;
use edn_bridge::value::Value;

/// The binary under test, and the model's file.
fn release() -> (PathBuf, PathBuf) {
    let binary =
        PathBuf::from(std::env::var_os("EDN_BRIDGE_RELEASE").expect("EDN_BRIDGE_RELEASE names the binary"));
    let fetched = Command::new(&binary).args(["models", "fetch"]).output().expect("the binary starts");
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    let model = String::from_utf8(fetched.stdout).unwrap();
    (binary, PathBuf::from(model.trim_end()))
}

/// A bridge over pipes.
struct Bridge {
    process: Child,
    requests: ChildStdin,
    frames: BufReader<ChildStdout>,
    /// Everything that it said, for a failure's message.
    transcript: String,
}

impl Bridge {
    fn start(binary: &PathBuf, model: &PathBuf, state: &std::path::Path) -> Self {
        let mut process = Command::new(binary)
            .arg("serve")
            .arg("--state-dir")
            .arg(state)
            .arg("--model-file")
            .arg(model)
            .current_dir(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let requests = process.stdin.take().unwrap();
        let frames = BufReader::new(process.stdout.take().unwrap());
        let mut bridge = Self { process, requests, frames, transcript: String::new() };
        bridge.ask("h", "handshake", r#"{:client-info {:name "test" :version "0" :protocol-version "1.0"}}"#);
        bridge.ask("s", "subscribe", r#"{:topics ["assistant/delta" "assistant/message"]}"#);
        bridge
    }

    fn ask(&mut self, id: &str, op: &str, params: &str) {
        writeln!(self.requests, "{{:id {id:?} :kind :request :op {op:?} :params {params}}}").unwrap();
    }

    /// The next event of one of those topics.
    fn event(&mut self, topics: &[&str]) -> (String, Value<'static>) {
        loop {
            let mut line = String::new();
            assert_ne!(self.frames.read_line(&mut line).unwrap(), 0, "the bridge ended\n{}", self.transcript);
            self.transcript.push_str(&line);
            let frame = edn::read_one(line.as_bytes()).unwrap();
            assert_ne!(frame.get("kind").and_then(Value::as_keyword), Some("error"), "{}", self.transcript);
            let topic = frame.get("event").and_then(Value::as_str).unwrap_or_default();
            if topics.contains(&topic) {
                return (topic.to_owned(), frame.get("data").unwrap().clone().into_owned());
            }
        }
    }

    /// The answer to a prompt: the deltas and the message.
    fn answer(&mut self) -> (Vec<String>, Value<'static>) {
        let mut deltas = Vec::new();
        loop {
            let (topic, data) = self.event(&["assistant/delta", "assistant/message"]);
            let text = |key| data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            match topic.as_str() {
                "assistant/delta" => deltas.push(text("text")),
                _ if text("role") == "assistant" => return (deltas, data),
                _ => {}
            }
        }
    }

    fn end(mut self) {
        drop(self.requests);
        let status = self.process.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.transcript);
    }
}

fn stop_reason(message: &Value<'_>) -> String {
    message.get("stop-reason").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[test]
#[ignore = "needs the release binary and the model: `make test` gives both"]
fn a_real_model_answers_over_the_wire() {
    let (binary, model) = release();
    let state = tempfile::tempdir().unwrap();
    let mut bridge = Bridge::start(&binary, &model, state.path());

    bridge.ask("p1", "prompt", r#"{:message "Say hello in one short sentence."}"#);
    let (deltas, message) = bridge.answer();
    assert!(deltas.len() > 2, "the answer is streamed\n{}", bridge.transcript);
    assert_eq!(stop_reason(&message), "end-turn", "{}", bridge.transcript);
    assert_eq!(message.get("text").and_then(Value::as_str), Some(deltas.concat().as_str()));
    let usage = message.get("usage").expect("the model counts");
    let figure = |key| usage.get(key).and_then(Value::as_i64).unwrap();
    assert!(figure("input") > 20 && figure("output") > 2, "{usage:?}");

    // The conversation goes on, and the model still knows what it has read.
    bridge.ask("p2", "prompt", r#"{:message "Write a long story about the sea, in ten chapters."}"#);
    let (topic, _) = bridge.event(&["assistant/delta"]);
    assert_eq!(topic, "assistant/delta");
    bridge.ask("a", "abort", "{}");
    let (_, message) = bridge.answer();
    assert_eq!(stop_reason(&message), "aborted", "{}", bridge.transcript);

    // The end of input in the middle of an answer ends the process, and orderly.
    bridge.ask("p3", "prompt", r#"{:message "Write a long story about the mountains, in ten chapters."}"#);
    bridge.event(&["assistant/delta"]);
    bridge.end();
}
