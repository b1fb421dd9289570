//! SIGKILL in the middle of runs, which is how interfaces quit: nothing that was told is lost, and nothing is there twice.
//!
//! `EDN_BRIDGE_CRASH_KILLS` sets the number of kills (`make crash`: 200).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::runs::yolo;
use crate::peer::{CAN, Peer};

/// Kills in the ordinary run: some seconds.
const KILLS: usize = 12;

/// Runs of a session, after which another one begins.
const OF_SESSION: usize = 10;

const SCRIPT: &str = r#"{:turns [{:steps [{:delta "I look."} {:tool-call {:name "bash" :arguments {:command "echo one"}}} {:tool-call {:name "bash" :arguments {:command "echo two"}}}]}
                                 {:steps [{:deltas 5 :of "words "} {:echo :last-user}]}]}"#;

/// A run whose start was acknowledged, and what was told of it.
struct Run {
    id: String,
    text: String,
    told: Vec<Value>,
}

#[test]
fn kill_loses_nothing_that_was_told_and_shows_nothing_twice() {
    let kills = std::env::var("EDN_BRIDGE_CRASH_KILLS").ok().and_then(|text| text.parse().ok());
    let setup = yolo(SCRIPT);
    let (mut session, mut runs) = (Value::Null, Vec::new());
    let mut unfinished = 0;
    for kill in 0..kills.unwrap_or(KILLS) {
        let mut peer = Peer::ready(&setup, CAN);
        if kill % OF_SESSION == 0 {
            (session, runs) = (Value::Null, Vec::new());
        } else {
            check(&mut peer, &session, &runs, kill);
        }
        let text = format!("question {kill} of many");
        let input = json!({"type": "text", "text": text});
        let started = peer.ask("run.start", json!({"session_id": session, "input": input}));
        session = started["session_id"].clone();
        let id = started["run_id"].as_str().unwrap().to_owned();
        // Anywhere from its start to its end.
        let moment = Instant::now() + Duration::from_micros((kill as u64 * 7_919) % 60_000);
        while Instant::now() < moment {
            std::thread::yield_now();
        }
        let told: Vec<Value> =
            peer.kill_and_read().into_iter().filter(|line| line["params"]["run_id"] == id).collect();
        unfinished += usize::from(!told.iter().any(|line| line["params"]["status"] == "completed"));
        runs.push(Run { id, text, told });
    }
    assert!(unfinished > 0, "no run was killed in its midst");
}

/// Holds the history against what was told.
fn check(peer: &mut Peer, session: &Value, runs: &[Run], kill: usize) {
    let all = json!({"session_id": session, "max_runs": 0, "max_events": 0});
    let result = peer.ask("session.history", all);
    let count = result["events_sent"].as_u64().unwrap() as usize;
    let history: Vec<Value> = (0..count).map(|_| peer.message()).collect();
    let said = |lines: &[Value], run: &str, kind: &str, key: &str| -> Vec<Value> {
        let of_run = lines.iter().filter(|line| line["params"]["run_id"] == run);
        let events = of_run.map(|line| &line["params"]["event"]);
        events.filter(|event| event["type"] == kind).map(|event| event[key].clone()).collect()
    };
    let asked: Vec<&Value> = history
        .iter()
        .filter(|line| line["params"]["event"]["type"] == "hidden_user_message")
        .map(|line| &line["params"])
        .collect();
    assert_eq!(asked.len(), runs.len(), "kill {kill}: {history:#?}");
    for (message, run) in asked.iter().zip(runs) {
        let found = (&message["run_id"], &message["event"]["content"]);
        assert_eq!(found, (&json!(run.id), &json!(run.text)), "kill {kill}");
        for (kind, key) in [
            ("text", "content"),
            ("tool_call", "tool_call_id"),
            ("tool_result", "tool_call_id"),
            ("final", "content"),
        ] {
            let (told, kept) = (said(&run.told, &run.id, kind, key), said(&history, &run.id, kind, key));
            let is_there = kept.starts_with(&told);
            assert!(is_there, "kill {kill}: {kind} {told:?} was told, {kept:?} is kept: {history:#?}");
            let twice = kept.iter().enumerate().find(|(at, one)| kept[..*at].contains(one));
            assert!(twice.is_none(), "kill {kill}: {twice:?} is there twice: {history:#?}");
        }
    }
}

#[test]
fn history_says_that_a_run_was_cut_off() {
    let command = "echo began >> began; until [ -e go ]; do sleep 0.01; done";
    let setup = yolo(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}]}}]}}"
    ));
    let mut peer = Peer::ready(&setup, CAN);
    let input = json!({"type": "text", "text": "look"});
    let started = peer.ask("run.start", json!({"session_id": Value::Null, "input": input}));
    crate::support::wait_until("it did not begin", || setup.project().join("began").exists());
    peer.kill_and_read();
    let mut peer = Peer::ready(&setup, CAN);
    let all = json!({"session_id": started["session_id"], "max_runs": 0, "max_events": 0});
    let result = peer.ask("session.history", all);
    let count = result["events_sent"].as_u64().unwrap() as usize;
    let history: Vec<Value> = (0..count).map(|_| peer.message()).collect();
    let last = &history.last().unwrap()["params"]["event"];
    assert_eq!(last["type"], "final", "{history:#?}");
    assert!(last["content"].as_str().unwrap().contains("was cut off"), "{history:#?}");
    std::fs::write(setup.project().join("go"), "").unwrap();
}
