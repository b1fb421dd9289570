//! The release binary with a real model: an answer streamed over the wire, and an answer that is cut short.
//!
//! Ignored by default, because it needs the release binary (`EDN_BRIDGE_RELEASE`) and the model of
//! `edn-bridge models fetch`; `make test` provides both.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;

use edn_bridge::value::{Owned, Value};
use support::{Bridge, at, data, is_event};

/// The binary under test, and the model's file.
fn release() -> (PathBuf, PathBuf) {
    let binary =
        PathBuf::from(std::env::var_os("EDN_BRIDGE_RELEASE").expect("EDN_BRIDGE_RELEASE names the binary"));
    let fetched = Command::new(&binary).args(["models", "fetch"]).output().expect("the binary starts");
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    let model = String::from_utf8(fetched.stdout).unwrap();
    (binary, PathBuf::from(model.trim_end()))
}

/// The binary with the model, subscribed to what the model says.
fn start(binary: &Path, model: &Path, state: &Path) -> Bridge {
    let mut command = Command::new(binary);
    // It answers only where it is named.
    command.arg("serve").arg("--provider").arg("embedded").current_dir(state);
    command.arg("--state-dir").arg(state).arg("--model-file").arg(model);
    let mut bridge = Bridge::start(&mut command);
    bridge.handshake();
    bridge.ask("s", "subscribe", r#"{:topics ["assistant/delta" "assistant/message"]}"#);
    bridge
}

/// The answer to a prompt: the deltas and the message.
fn answer(bridge: &mut Bridge) -> (Vec<String>, Owned) {
    let mut deltas = Vec::new();
    loop {
        let frame = bridge.until(|frame| {
            is_event(frame, "assistant/delta")
                || is_event(frame, "assistant/message") && data(frame, "role") == "assistant"
        });
        if is_event(&frame, "assistant/message") {
            return (deltas, frame);
        }
        deltas.push(data(&frame, "text").to_owned());
    }
}

#[test]
#[ignore = "needs the release binary and the model: `make test` gives both"]
fn a_real_model_answers_over_the_wire() {
    let (binary, model) = release();
    let state = tempfile::tempdir().unwrap();
    let mut bridge = start(&binary, &model, state.path());

    bridge.ask("p1", "prompt", r#"{:message "Say hello in one short sentence."}"#);
    let (deltas, message) = answer(&mut bridge);
    assert!(deltas.len() > 2, "the answer is streamed\n{}", bridge.told());
    assert_eq!(data(&message, "stop-reason"), "end-turn", "{}", bridge.told());
    assert_eq!(data(&message, "text"), deltas.concat());
    let figure = |key| at(&message, &["data", "usage", key]).and_then(Value::as_i64).unwrap();
    assert!(figure("input") > 20 && figure("output") > 2, "{message}");

    // The conversation goes on, and the model still knows what it has read.
    bridge.ask("p2", "prompt", r#"{:message "Write a long story about the sea, in ten chapters."}"#);
    bridge.event("assistant/delta");
    bridge.ask("a", "abort", "{}");
    let (_, message) = answer(&mut bridge);
    assert_eq!(data(&message, "stop-reason"), "aborted", "{}", bridge.told());

    // The end of input in the middle of an answer ends the process, and orderly.
    bridge.ask("p3", "prompt", r#"{:message "Write a long story about the mountains, in ten chapters."}"#);
    bridge.event("assistant/delta");
    let (status, rest, _) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{rest:?}");
}
