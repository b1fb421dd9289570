//! Calls whose arguments are no JSON object: nothing of them runs, whoever offers the tool.

use std::path::Path;

use edn_bridge::value::Value;

use super::program::bridge;
use super::words;
use crate::support::server::{Answer, Server};
use crate::support::{at, data, end_of_turn, is_event};

/// An answer of one call in Chat Completions, with these arguments.
fn call(tool: &str, arguments: &str) -> String {
    let call = serde_json::json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c1",
        "type": "function", "function": {"name": tool, "arguments": arguments}}]}, "finish_reason": "tool_calls"}]});
    format!("data: {call}\n\ndata: [DONE]\n\n")
}

#[test]
fn call_with_unreadable_arguments_runs_nowhere() {
    for arguments in [
        r#"{"command": "touch ran", "pa"#,
        r#"["touch ran"]"#,
        r#"{"command": "touch ran", "n": 1E400}"#,
        r#"{"command": "touch ran"}{"command": "touch ran"}"#,
        r#""touch ran""#,
    ] {
        let server =
            Server::new([Answer::events(call("bash", arguments)), Answer::events(words("openai", "Again."))]);
        let setup = bridge(&server, "openai", "");
        let mut bridge = setup.ready();
        bridge.request("p", "prompt", "{:message \"go\"}");
        let result = bridge.event("tool/result");
        let reply = data(&result, "result-text");
        assert!(reply.contains("are no JSON object") && reply.contains("touch ran"), "{arguments}: {result}");
        assert_eq!(data(&end_of_turn(&mut bridge), "text"), "Again.", "{arguments}");
        assert!(!setup.project().join("ran").exists(), "{arguments} ran");
        server.asked();
        // Servers read the arguments again, so an object is sent. The result has what was wrong.
        let second = server.asked().json();
        let at = |pointer: &str| second.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(at("/messages/2/tool_calls/0/function/arguments"), "{}", "{second}");
        assert!(at("/messages/3/content").as_str().unwrap().contains("no JSON object"), "{second}");
        assert!(!second.to_string().contains("unreadable"), "{second}");
    }
}

#[test]
fn unreadable_call_of_mcp_tool_reaches_no_server() {
    let server = Server::new([
        Answer::events(call("mcp__s__save", r#"{"path": "PLACE", "pa"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_engine/server.py");
    let setup = bridge(&server, "openai", "");
    let started = setup.project().join("started");
    let config = setup.dir.path().join("config.edn");
    let text = std::fs::read_to_string(&config).unwrap();
    let mcp = format!("{{:command [\"python3\" {program:?}] :env {{\"STARTED\" {started:?}}}}}");
    std::fs::write(&config, format!("{} :mcp {{\"s\" {mcp}}}}}", text.strip_suffix('}').unwrap())).unwrap();
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("are no JSON object"), "{result}");
    assert_eq!(at(&result, &["data", "is-error"]).and_then(Value::as_bool), Some(true), "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "Again.");
    let offered = server.asked().json()["tools"].to_string();
    assert!(offered.contains("mcp__s__save"), "the server was there: {offered}");
    // The same call with its arguments reaches the server.
    let place = setup.project().join("saved");
    server.then([
        Answer::events(call("mcp__s__save", &format!("{{\"path\": {place:?}}}"))),
        Answer::events(words("openai", "Done.")),
    ]);
    bridge.request("q", "prompt", "{:message \"again\"}");
    let result = bridge.event("tool/result");
    assert_eq!(data(&result, "result-text"), "saved", "{result}");
    end_of_turn(&mut bridge);
    assert!(place.exists());
}

#[test]
fn unreadable_call_of_client_tool_asks_no_client() {
    let server = Server::new([
        Answer::events(call("look", r#"{"at": "here", "ti"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.ask("o", "register_tools", r#"{:tools [{:name "look" :description "Looks." :read-only true}]}"#);
    bridge.request("p", "prompt", "{:message \"go\"}");
    let result = bridge.until(|frame| {
        assert!(!is_event(frame, "tool/requested"), "{frame}");
        is_event(frame, "tool/result")
    });
    assert!(data(&result, "result-text").contains("are no JSON object"), "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "Again.");
}

#[test]
fn unreadable_call_of_delegate_begins_no_subagent() {
    let server = Server::new([
        Answer::events(call("delegate", r#"{"task": "look around", "tools": ["ba"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("are no JSON object"), "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "Again.");
    assert_eq!(server.all_asked().len(), 2, "no model was asked for a subagent");
}

#[test]
fn unreadable_call_is_not_asked_about() {
    let server = Server::new([
        Answer::events(call("bash", r#"{"command": "touch ran", "pa"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    // In a mode that asks before a command runs.
    let setup = bridge(&server, "openai", "");
    let mut bridge = setup.ready();
    bridge.ask("m", "set_mode", "{:mode \"ask\"}");
    bridge.request("p", "prompt", "{:message \"go\"}");
    let result = bridge.until(|frame| {
        assert!(!is_event(frame, "interaction/requested"), "{frame}");
        is_event(frame, "tool/result")
    });
    assert!(data(&result, "result-text").contains("are no JSON object"), "{result}");
    end_of_turn(&mut bridge);
}

#[test]
fn unreadable_arguments_survive_restart() {
    let server = Server::new([
        Answer::events(call("bash", r#"{"command": "touch ran", "pa"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    let setup = bridge(&server, "openai", "");
    let mut first = setup.ready();
    first.request("p", "prompt", "{:message \"go\"}");
    let ended = end_of_turn(&mut first);
    let session = data(&ended, "session-id").to_owned();
    first.close_input();
    first.wait();
    server.all_asked();
    server.then([Answer::events(words("openai", "Still here."))]);
    let mut second = setup.ready();
    second.ask("r", "switch_session", &format!("{{:session-id {session:?}}}"));
    second.request("p", "prompt", "{:message \"and now\"}");
    assert_eq!(data(&end_of_turn(&mut second), "text"), "Still here.");
    let sent = server.asked().json();
    let at = |pointer: &str| sent.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/messages/2/tool_calls/0/function/arguments"), "{}", "{sent}");
    assert!(at("/messages/3/content").as_str().unwrap().contains("no JSON object"), "{sent}");
    assert!(!setup.project().join("ran").exists());
}

#[test]
fn unreadable_arguments_are_exported_as_written() {
    let server = Server::new([
        Answer::events(call("bash", r#"{"command": "touch <ran>", "pa"#)),
        Answer::events(words("openai", "Again.")),
    ]);
    let setup = bridge(&server, "openai", "");
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    end_of_turn(&mut bridge);
    let reply = bridge.ask("x", "export_html", "{}");
    let page = std::fs::read_to_string(data(&reply, "path")).unwrap();
    // Once as the call, and once in its result.
    assert!(page.matches("touch &lt;ran&gt;").count() >= 2, "{page}");
}
