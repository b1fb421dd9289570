//! Lines of an editor that misbehaves, and what is advertised.

use edn_bridge::limits;
use serde_json::{Value, json};

use super::turns::{ECHO, WAITING, yolo};
use crate::editor::{Editor, text, updates};

#[test]
fn capabilities_are_those_that_are_served() {
    let mut editor = Editor::start(&yolo(ECHO));
    let told = editor.initialize(json!({}));
    assert_eq!((&told["protocolVersion"], &told["agentInfo"]["name"]), (&json!(1), &json!("edn-bridge")));
    let can = &told["agentCapabilities"];
    assert_eq!(can["loadSession"], true);
    assert!(can["auth"]["logout"].is_object(), "{can}");
    assert_eq!(
        (&can["promptCapabilities"]["image"], &can["promptCapabilities"]["embeddedContext"]),
        (&json!(true), &json!(true))
    );
    for name in ["list", "resume", "close", "delete"] {
        assert!(can["sessionCapabilities"][name].is_object(), "{name}: {can}");
    }
    assert!(told.get("authMethods").is_none_or(|methods| methods == &json!([])), "{told}");
}

#[test]
fn login_is_offered_to_editors_with_terminals() {
    let mut editor = Editor::start(&yolo(ECHO));
    let told = editor.initialize(json!({"auth": {"terminal": true}}));
    assert_eq!(
        (&told["authMethods"][0]["type"], &told["authMethods"][0]["args"]),
        (&json!("terminal"), &json!(["login"]))
    );
    let help = yolo(ECHO).command().args(["acp", "login", "--help"]).output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("provider"), "{help:?}");
}

#[test]
fn limits_of_the_spec_are_those_of_the_code() {
    let spec = include_str!("../../../spec/acp.allium");
    for (name, value) in [
        ("max_line_bytes", limits::ACP_LINE_BYTES),
        ("max_sessions", limits::ACP_SESSIONS),
        ("listed_sessions", limits::ACP_LISTED),
        ("prompt_parts", limits::ACP_PARTS),
        ("session_roots", limits::SESSION_ROOTS),
    ] {
        assert!(spec.contains(&format!("    {name}: Integer = {value}\n")), "{name}");
    }
}

#[test]
fn first_request_is_initialize() {
    let mut editor = Editor::start(&yolo(ECHO));
    assert_eq!(editor.code("session/list", json!({})), -32600);
    let answer = editor.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    assert_eq!(answer["protocolVersion"], 1);
}

#[test]
fn line_that_is_no_request_is_refused_and_the_next_served() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    for (line, code) in [
        ("nonsense", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\"", -32700),
        ("[]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", -32600),
        ("7", -32600),
    ] {
        editor.send_raw(line.as_bytes());
        let answer = editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{line}");
    }
    for (method, params) in
        [("no/such", json!({})), ("terminal/create", json!({})), ("session/fork", json!({}))]
    {
        assert_eq!(editor.code(method, params), -32601, "{method}");
    }
    for (method, params) in [
        ("session/new", json!({})),
        ("session/prompt", json!({"sessionId": 7, "prompt": []})),
        ("session/prompt", json!([])),
        ("authenticate", json!({"methodId": "none"})),
    ] {
        assert_eq!(editor.code(method, params), -32602, "{method}");
    }
    for method in ["no/such", "session/cancel", "_extension"] {
        editor.notify(method, json!({"sessionId": "s-none"}));
    }
    editor.notify("$/cancel_request", json!({"requestId": 99}));
    let session = editor.open("project");
    assert!(text(&editor.turn(&session, "still here").0, "agent_message_chunk").contains("still here"));
    assert!(editor.quit().success());
}

#[test]
fn id_in_use_is_refused_and_the_first_answered() {
    let setup = yolo(WAITING);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "wait");
    let prompt = json!([{"type": "text", "text": "again"}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    editor.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}));
    let (refused, _) = editor.until(|message| message.get("error").is_some());
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
}

#[test]
fn closing_in_mid_turn_keeps_the_words() {
    let setup = yolo(WAITING);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let folder = editor.folder("project");
    editor.prompt(&session, "keep me");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    assert!(editor.quit().success());
    let mut editor = Editor::ready(&setup, json!({}));
    let id = editor.request("session/load", json!({"sessionId": session, "cwd": folder, "mcpServers": []}));
    let (_, before) = editor.until(|message| message["id"] == id && message.get("method").is_none());
    let told = updates(&before, &session);
    assert_eq!(text(&told, "user_message_chunk"), "keep me");
    assert!(told.iter().any(|update| update["status"] == "failed"), "{told:#?}");
}

#[test]
fn resources_and_images_of_a_prompt_reach_the_model() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    std::fs::write(std::path::Path::new(&editor.folder("project")).join("a b.txt"), "in the file").unwrap();
    let folder = editor.folder("project");
    let send = |editor: &mut Editor, parts: Value| {
        let id = editor.request("session/prompt", json!({"sessionId": session, "prompt": parts}));
        editor.until(|message| message["id"] == id && message.get("method").is_none())
    };
    let uri = format!("file://{folder}/a%20b.txt");
    let embedded = json!({"uri": "file:///x/y.rs", "text": "fn main() {}"});
    let (answer, before) = send(
        &mut editor,
        json!([
            {"type": "text", "text": "See "},
            {"type": "resource_link", "name": "a b.txt", "uri": uri},
            {"type": "resource", "resource": embedded},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        ]),
    );
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let said = text(&updates(&before, &session), "agent_message_chunk");
    assert!(["fn main() {}", "a b.txt", "in the file"].iter().all(|text| said.contains(text)), "{said}");
    for parts in [
        json!([]),
        json!([{"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}]),
        json!([{"type": "image", "mimeType": "image/png", "data": "AAAA"}]),
    ] {
        assert_eq!(send(&mut editor, parts.clone()).0["error"]["code"], -32602, "{parts}");
    }
}

#[test]
fn editor_that_does_not_read_misses_nothing() {
    let delta = "x".repeat(2000);
    let steps = format!("{{:delta \"{delta}\"}} ").repeat(200);
    let mut editor = Editor::ready(&yolo(&format!("{{:turns [{{:steps [{steps}]}}]}}")), json!({}));
    let session = editor.open("project");
    for _ in 0..10 {
        editor.prompt(&session, "x");
    }
    // Reads only now: all of it is there, in order.
    let mut said = 0;
    let mut ended = 0;
    while ended < 10 {
        let message = editor.message();
        said += message["params"]["update"]["content"]["text"].as_str().map_or(0, |text| {
            if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" { text.len() } else { 0 }
        });
        ended += usize::from(message["result"]["stopReason"] == "end_turn");
    }
    assert_eq!(said, 10 * 200 * 2000);
}
