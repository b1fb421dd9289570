//! The examples of the protocol's document, and the table against what is served.

use edn_bridge::wire::ui::methods::{CAPABILITIES, From, METHODS, is_capable};
use serde_json::{Value, json};

use super::runs::BASH;
use crate::peer::Peer;
use crate::support::Setup;

#[test]
fn examples_of_the_document_are_answered_as_it_says() {
    let mut peer = Peer::start(&Setup::new().script(BASH));
    peer.send_raw(
        br#"{"jsonrpc":"2.0","id":"1","method":"initialize","params":{"protocol_version":"0","client":{"name":"codelia-tui","version":"0.0.0"},"ui_capabilities":{"supports_confirm":true}}}"#,
    );
    let answer = peer.message();
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("1")));
    assert_eq!(answer["result"]["protocol_version"], "0");
    assert!(answer["result"]["server"]["name"].is_string());
    peer.send_raw(
        br#"{"jsonrpc":"2.0","id":"2","method":"run.start","params":{"input":{"type":"text","text":"List TypeScript files"}}}"#,
    );
    let answer = peer.message();
    let run = answer["result"]["run_id"].as_str().unwrap().to_owned();
    let (event, _) = peer.until(|line| line["method"] == "agent.event");
    assert_eq!((&event["params"]["run_id"], &event["params"]["seq"]), (&json!(run), &json!(0)));
    assert_eq!(event["params"]["event"]["type"], "reasoning");
    assert!(event["params"]["event"]["timestamp"].as_i64().unwrap() > 1_730_000_000_000);
    let question = peer.question();
    assert_eq!(
        (&question["method"], &question["params"]["title"]),
        (&json!("ui.confirm.request"), &json!("Run command?"))
    );
    peer.send_raw(
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"ok":true}}}}"#, question["id"]).as_bytes(),
    );
    let lines = peer.rest(&run);
    assert_eq!(lines.last().unwrap()["params"]["status"], "completed");
}

#[test]
fn what_is_not_served_is_refused_and_its_capability_false() {
    let mut peer = Peer::start(&Setup::new().script(BASH));
    let answer = peer.initialize(&[]);
    let capabilities = answer["server_capabilities"].as_object().unwrap();
    assert_eq!(capabilities.len(), CAPABILITIES.len());
    for name in CAPABILITIES {
        assert_eq!(capabilities[*name], Value::Bool(is_capable(name)), "{name}");
    }
    for method in METHODS.iter().filter(|method| method.from == From::Ui) {
        let answer = peer.call(method.name, json!({"protocol_version": 7, "session_id": 7, "run_id": 7, "command": 7, "name": 7, "limit": "x", "scope": 7, "cwd": 7, "provider": 7, "input": 7, "include_agents": 7, "clear_session": 7}));
        let code = answer["error"]["code"].as_i64();
        assert_eq!(code, Some(if method.served { -32602 } else { -32601 }), "{}: {answer}", method.name);
    }
}
