//! Tools that the interface brings for a run.

use serde_json::{Value, json};

use super::runs::yolo;
use crate::peer::{CAN, Peer, content, events, outline};
use crate::support::Setup;

/// A script whose model calls `look` in each of its first answers.
fn looks(times: usize) -> String {
    let call = r#"{:steps [{:tool-call {:name "look" :arguments {:at "here" :times 2}}}]} "#;
    format!("{{:turns [{} {{:steps [{{:delta \"Done.\"}}]}}]}}", call.repeat(times))
}

fn look() -> Value {
    json!({"type": "function", "name": "look", "description": "Looks.", "strict": true, "approval": "never",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}})
}

fn start(tools: Value) -> Value {
    json!({"input": {"type": "text", "text": "go"}, "tools": tools, "tool_choice": "auto"})
}

fn begin(peer: &mut Peer, tools: Value) -> String {
    peer.ask("run.start", start(tools))["run_id"].as_str().unwrap().to_owned()
}

/// The next request of the runtime; what came before it is added to the lines.
fn next(peer: &mut Peer, lines: &mut Vec<Value>) -> Value {
    let (request, before) = peer.until(|line| line.get("method").is_some() && line.get("id").is_some());
    lines.extend(before);
    request
}

/// The results of the calls, as the model is told.
fn results(lines: &[Value]) -> Vec<(String, bool)> {
    let told = events(lines, "tool_result");
    told.map(|event| (event["result"].as_str().unwrap().to_owned(), event["is_error"] == true)).collect()
}

#[test]
fn tool_of_the_interface_is_there_for_one_run() {
    let mut peer = Peer::ready(&yolo(&looks(4)), CAN);
    let run = begin(&mut peer, json!([look()]));
    let mut lines = Vec::new();
    let call = next(&mut peer, &mut lines);
    assert_eq!((&call["method"], &call["params"]["run_id"]), (&json!("client.tool.call"), &json!(run)));
    assert_eq!(call["params"]["name"], "look");
    assert_eq!(call["params"]["arguments"], json!({"at": "here", "times": 2}));
    let raw: Value = serde_json::from_str(call["params"]["raw_arguments"].as_str().unwrap()).unwrap();
    assert_eq!(raw, call["params"]["arguments"]);
    peer.reply(&call, json!({"ok": true, "result": {"type": "json", "value": {"seen": [1]}}}));
    let failed = next(&mut peer, &mut lines);
    peer.reply(&failed, json!({"ok": false, "error": "too dark"}));
    // The first answer counts.
    peer.reply(&failed, json!({"ok": true, "result": "late"}));
    let refused = next(&mut peer, &mut lines);
    peer.send(
        &json!({"jsonrpc": "2.0", "id": refused["id"], "error": {"code": -32601, "message": "unknown"}}),
    );
    let unread = next(&mut peer, &mut lines);
    peer.reply(&unread, json!({"ok": "yes"}));
    lines.extend(peer.rest(&run));
    assert_eq!(content(&lines, "final"), "Done.");
    let told = results(&lines);
    assert_eq!(told[..2], [(r#"{"seen":[1]}"#.to_owned(), false), ("too dark".to_owned(), true)]);
    assert!(told[2].0.contains("refused the call: unknown") && told[2].1, "{told:?}");
    assert!(told[3].1, "{told:?}");
    // The next run has none.
    let mut peer =
        Peer::ready(&yolo(&looks(1).replace(":turns [", ":turns [{:steps [{:delta \"first\"}]}")), CAN);
    let run = begin(&mut peer, json!([look()]));
    peer.rest(&run);
    let lines = peer.run_to_end("go on");
    assert!(results(&lines)[0].0.contains("There is no tool"), "{lines:#?}");
}

#[test]
fn tool_of_the_interface_is_judged_like_any_other() {
    let mut peer = Peer::ready(&Setup::new().script(&looks(2)), CAN);
    let run = begin(&mut peer, json!([look()]));
    let mut lines = Vec::new();
    let question = next(&mut peer, &mut lines);
    assert_eq!(question["method"], "ui.confirm.request");
    peer.reply(&question, json!({"ok": false, "reason": "not there"}));
    // It was not called; the next one is allowed.
    let question = next(&mut peer, &mut lines);
    assert_eq!(question["method"], "ui.confirm.request");
    peer.reply(&question, json!({"ok": true}));
    let call = next(&mut peer, &mut lines);
    assert_eq!(call["method"], "client.tool.call");
    peer.reply(&call, json!({"ok": true, "result": "seen"}));
    lines.extend(peer.rest(&run));
    let told = results(&lines);
    assert!(told[0].0.contains("not there") && told[0].1, "{told:?}");
    assert_eq!(told[1], ("seen".to_owned(), false));
}

#[test]
fn call_without_an_answer_ends_with_its_time() {
    let mut peer = Peer::ready(&yolo(&looks(1)), CAN);
    let mut tool = look();
    tool["timeout_ms"] = json!(20);
    let run = begin(&mut peer, json!([tool]));
    let call = peer.question();
    let (cancel, _) = peer.until(|line| line["method"] == "client.tool.cancel");
    let expected = json!({"request_id": call["id"], "run_id": run, "name": "look", "reason": "timeout"});
    assert_eq!(cancel["params"], expected);
    peer.reply(&call, json!({"ok": true, "result": "late"}));
    let lines = peer.rest(&run);
    assert!(results(&lines)[0].0.contains("did not answer"), "{lines:#?}");
    assert_eq!(content(&lines, "final"), "Done.");
}

#[test]
fn cancelled_run_ends_its_call_at_once() {
    let mut peer = Peer::ready(&yolo(&looks(1)), CAN);
    let run = begin(&mut peer, json!([look()]));
    let call = peer.question();
    assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
    let lines = peer.rest(&run);
    let told = outline(&lines);
    assert_eq!(told.last().unwrap(), "[cancelled]", "{lines:#?}");
    assert!(!told.contains(&"<client.tool.cancel>".to_owned()), "{told:?}");
    peer.reply(&call, json!({"ok": true, "result": "late"}));
    assert_eq!(outline(&peer.run_to_end("go on")).last().unwrap(), "[completed]");
}

#[test]
fn tool_that_cannot_be_brought_refuses_the_run() {
    let mut peer = Peer::ready(&yolo(&looks(1)), CAN);
    let with = |key: &str, value: Value| {
        let mut tool = look();
        tool[key] = value;
        tool
    };
    for tool in [
        with("name", json!("read")),
        with("name", json!("a b")),
        with("name", json!(7)),
        with("description", json!("")),
        with("parameters", json!({"type": "string"})),
        with("parameters", json!("x")),
        with("timeout_ms", json!(0)),
        with("timeout_ms", json!(-1)),
        with("timeout_ms", json!(4_000_000)),
        with("type", json!("code")),
    ] {
        assert_eq!(peer.code("run.start", start(json!([look(), tool]))), -32602, "{tool}");
    }
    let mut choice = start(json!([look()]));
    choice["tool_choice"] = json!("required");
    assert_eq!(peer.code("run.start", choice), -32602);
    // None of them is there.
    let lines = peer.run_to_end("go");
    assert!(results(&lines)[0].0.contains("There is no tool"), "{lines:#?}");
}
