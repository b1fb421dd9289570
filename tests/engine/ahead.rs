//! The test client loses no frame, in whatever order frames arrive.

use crate::support;

use std::process::Command;

use support::{Bridge, data};

const EVENT: &str = "{:kind :event :event \"a\" :data {:n \"1\"} :seq 1}";
const LATER: &str = "{:kind :event :event \"a\" :data {:n \"2\"} :seq 2}";
const ANSWER: &str = "{:id \"x\" :kind :response :op \"ping\" :ok true :data {:n \"first\"}}";
const SECOND: &str = "{:id \"x\" :kind :response :op \"ping\" :ok true :data {:n \"second\"}}";
const OTHER: &str = "{:id \"y\" :kind :response :op \"ping\" :ok true :data {:n \"other\"}}";

/// A program that writes these lines and nothing else.
fn saying(lines: &[&str]) -> Bridge {
    let script = "printf '%s\\n' \"$@\"; exec >/dev/null; exec cat";
    Bridge::start(Command::new("sh").args(["-c", script, "sh"]).args(lines))
}

#[test]
fn events_before_answer_stay_available_in_order() {
    let mut bridge = saying(&[EVENT, LATER, OTHER, ANSWER]);
    assert_eq!(data(&bridge.ask("x", "ping", "{}"), "n"), "first");
    assert_eq!(data(&bridge.event("a"), "n"), "1");
    assert_eq!(data(&bridge.event("a"), "n"), "2");
    assert_eq!(data(&bridge.answer("y"), "n"), "other");

    let mut bridge = saying(&[EVENT, ANSWER]);
    bridge.ask("x", "ping", "{}");
    assert_eq!(bridge.finish().1, [EVENT], "what nobody came to is left to read");
}

#[test]
fn earlier_answer_stays_available_after_event() {
    let mut bridge = saying(&[ANSWER, EVENT]);
    bridge.request("x", "ping", "{}");
    bridge.event("a");
    assert_eq!(data(&bridge.answer("x"), "n"), "first");
}

#[test]
fn skip_to_now_discards_earlier_frames() {
    let mut bridge = saying(&[EVENT, OTHER, ANSWER, LATER]);
    bridge.ask("x", "ping", "{}");
    bridge.skip_to_now();
    assert_eq!(data(&bridge.event("a"), "n"), "2");
    assert_eq!(data(&bridge.answer("y"), "n"), "other");
}

#[test]
fn unrequested_answer_is_not_taken_for_next_one() {
    let mut bridge = saying(&[ANSWER, EVENT, SECOND]);
    bridge.request("x", "ping", "{}");
    bridge.event("a");
    assert_eq!(data(&bridge.ask("x", "ping", "{}"), "n"), "second");
    // Nor where it came before another answer.
    let mut bridge = saying(&[ANSWER, OTHER, SECOND]);
    bridge.ask("y", "ping", "{}");
    assert_eq!(data(&bridge.ask("x", "ping", "{}"), "n"), "second");
}
