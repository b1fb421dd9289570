//! External agents in sessions, over the real wire with a real process that speaks the Agent Client Protocol: what they
//! tell, what they ask, what they may do, and what they cost when they break.

use crate::official;
use crate::support;

mod apart;
mod asked;
mod broken;
mod given;
mod listed;
mod models;
mod real;
mod session;
mod started;
mod told;
mod wires;

use std::path::Path;

use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup, accept, at, data, end_of_turn, is_event};

/// The agent of the tests, as a configuration writes it.
fn agent(setup: &Setup, mode: &str, more: &str) -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/agent.py");
    let file = |name: &str| setup.project().join(name);
    format!(
        "{{:command [\"python3\" {program:?}] :env {{\"STARTED\" {:?} \"AGENT_LOG\" {:?} \"AGENT_MODE\" {mode:?}}} {more}}}",
        file("started"),
        file("log")
    )
}

fn configure(setup: Setup, config: &str) -> Setup {
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), config).unwrap();
    setup
}

/// A setup whose user has the agent `a`, which new sessions have too.
fn with_agent(mode: &str, more: &str) -> Setup {
    let setup = Setup::new().arg("--agent").arg("a");
    let agent = agent(&setup, mode, "");
    configure(setup, &format!("{{:agents {{\"a\" {agent}}} {more}}}"))
}

/// How often the agent was started.
fn starts(setup: &Setup) -> Vec<u32> {
    let text = std::fs::read_to_string(setup.project().join("started")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// What the agent was sent, a message a line. Each is held against the official schema, if that is there.
fn sent(setup: &Setup) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(setup.project().join("log")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    // The agent notes its own requests too, so that it is known what is answered.
    let (asked, sent): (Vec<_>, Vec<_>) = lines.partition(|line| line["asked"].is_string());
    // A method that is not in the stable schema yet.
    for line in sent.iter().filter(|line| line["method"] != "session/fork") {
        let method =
            asked.iter().find(|asked| asked["asked"] == line["id"]).and_then(|of| of["method"].as_str());
        let wrong = official::check(line, method, official::Side::Editor);
        assert!(wrong.is_empty(), "{line}: {wrong:?}");
    }
    sent
}

fn say(bridge: &mut Bridge, message: &str) {
    let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
    assert!(answer.to_string().contains(":accepted true"), "{answer}");
}

/// The end of the running turn, with its last message. The session is free then, also for another configuration.
fn ended(bridge: &mut Bridge) -> Owned {
    let last = end_of_turn(bridge);
    bridge.event("turn/ended");
    last
}

/// The frame that is wanted, once the turn has ended too. What an agent tells of itself is a state, which may come after
/// the end of the turn.
fn until_both(bridge: &mut Bridge, is_wanted: impl Fn(&Owned) -> bool) -> Owned {
    let (mut wanted, mut is_over) = (None, false);
    while wanted.is_none() || !is_over {
        let frame = bridge.until(|frame| is_wanted(frame) || is_event(frame, "turn/ended"));
        if is_event(&frame, "turn/ended") {
            is_over = true;
        } else {
            wanted = Some(frame);
        }
    }
    wanted.unwrap()
}

/// Asks until an answer is as wanted.
fn until_answered(bridge: &mut Bridge, op: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let deadline = std::time::Instant::now() + support::PATIENCE;
    loop {
        let answer = bridge.ask("u", op, "{}").to_string();
        if is_wanted(&answer) {
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "{answer}");
    }
}

/// The text of a message's frame. A long one is told once, in the content.
fn text(frame: &Owned) -> String {
    let blocks = at(frame, &["data", "content"]).and_then(|content| content.as_slice()).unwrap_or_default();
    let texts = blocks.iter().filter(|block| block.get("type").and_then(Value::as_keyword) == Some("text"));
    texts.filter_map(|block| block.get("text")?.as_str()).collect()
}

/// Prompts, and returns the text of the turn's last message.
fn turn(bridge: &mut Bridge, message: &str) -> String {
    say(bridge, message);
    text(&ended(bridge))
}

/// The messages of the session as one text.
fn history(bridge: &mut Bridge) -> String {
    bridge.ask("h", "get_messages", "{}").to_string()
}

/// Answers the next question with an outcome and a scope.
fn approve(bridge: &mut Bridge, outcome: &str, scope: &str) -> Owned {
    let question = bridge.event("interaction/requested");
    let scope = if scope.is_empty() { String::new() } else { format!(":scope {scope:?}") };
    accept(bridge, &question, &format!(":value {{:outcome {outcome:?} {scope}}}"));
    question
}

/// The value at a path of JSON keys.
fn json<'v>(value: &'v serde_json::Value, path: &str) -> &'v serde_json::Value {
    value.pointer(path).unwrap_or(&serde_json::Value::Null)
}

fn state(bridge: &mut Bridge) -> Value<'static> {
    let answer = bridge.ask("s", "get_state", "{}");
    at(&answer, &["data", "state"]).unwrap().clone()
}
