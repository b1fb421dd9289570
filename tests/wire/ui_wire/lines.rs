//! What a line is answered with, whatever it is.

use edn_bridge::limits::{JSON_DEPTH, UI_HISTORY_EVENTS, UI_HISTORY_RUNS, UI_LINE_BYTES, UI_SESSIONS};
use serde_json::{Value, json};

use super::any_line;
use super::runs::ECHO;
use crate::peer::{CAN, Peer};
use crate::support::Setup;

fn peer() -> Peer {
    Peer::start(&Setup::new().script(ECHO))
}

#[test]
fn line_that_is_no_request_has_an_error_and_the_next_is_served() {
    let mut peer = peer();
    let deep = format!("{{\"id\":\"1\",\"method\":\"m\",\"params\":{}}}", "[".repeat(JSON_DEPTH + 2));
    for (line, id, code) in [
        (&b"no json"[..], json!(null), -32700),
        (b"{\"id\":\"\xff\"}", json!(null), -32700),
        (deep.as_bytes(), json!(null), -32700),
        (b"[]", json!(null), -32600),
        (b"[{\"id\":\"1\",\"method\":\"mcp.list\"}]", json!(null), -32600),
        (b"7", json!(null), -32600),
        (b"{}", json!(null), -32600),
        (b"{\"id\":null,\"method\":\"mcp.list\"}", json!(null), -32600),
        (b"{\"id\":{},\"method\":\"mcp.list\"}", json!(null), -32600),
        (b"{\"id\":9,\"method\":\"no.such\"}", json!(9), -32601),
        (b"{\"id\":\"x\",\"method\":\"run.status\"}", json!("x"), -32601),
        (b"{\"id\":\"x\",\"method\":\"session.history\"}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"session.history\",\"params\":[]}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"run.cancel\"}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"run.cancel\",\"params\":{\"run_id\":7}}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"run.start\",\"params\":{}}", json!("x"), -32602),
        (
            b"{\"id\":\"x\",\"method\":\"run.start\",\"params\":{\"input\":{\"type\":\"audio\"}}}",
            json!("x"),
            -32602,
        ),
        (b"{\"id\":\"x\",\"method\":\"session.list\",\"params\":{\"limit\":1.5}}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"session.list\",\"params\":{\"limit\":\"1\"}}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"model.list\",\"params\":{\"provider\":\"none\"}}", json!("x"), -32602),
        (b"{\"id\":\"x\",\"method\":\"model.set\",\"params\":{\"name\":\"none\"}}", json!("x"), -32602),
    ] {
        peer.send_raw(line);
        let answer = peer.message();
        let found = (&answer["id"], answer["error"]["code"].as_i64());
        assert_eq!(found, (&id, Some(code)), "{}: {answer}", String::from_utf8_lossy(line));
    }
    for line in [
        &b""[..],
        b"\r",
        b"{\"method\":\"no.such\"}",
        b"{\"method\":\"ui.context.update\",\"params\":{\"cwd\":7}}",
        b"{\"id\":\"none\",\"result\":{\"ok\":true}}",
        b"{\"id\":\"none\",\"error\":{}}",
    ] {
        peer.send_raw(line);
    }
    peer.send_raw(b"{\"id\":5,\"method\":\"mcp.list\",\"more\":1,\"params\":{\"unknown\":[]}}\r");
    let answer = peer.message();
    assert_eq!((&answer["id"], &answer["result"]["servers"]), (&json!(5), &json!([])));
}

#[test]
fn bad_param_is_named() {
    let mut peer = peer();
    let start = |input: Value| json!({"input": input});
    for (params, key) in [
        (start(json!({"type": "parts", "parts": [{"type": "image_url"}]})), "input"),
        (
            json!({"input": {"type": "text", "text": "x"}, "ui_context": {"selection": {}}}),
            "ui_context.selection.path",
        ),
        (json!({"input": {"type": "text", "text": "x"}, "force_compaction": "yes"}), "force_compaction"),
        (json!({"input": {"type": "text", "text": "x"}, "tools": [{"name": "t"}]}), "tools[0].description"),
    ] {
        let answer = peer.call("run.start", params);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("params.{key} must be ")), "{answer}");
        assert_eq!(answer["error"]["data"]["data"]["key"], key, "{answer}");
    }
}

#[test]
fn refused_value_is_named_as_the_client_wrote_it() {
    let mut peer = peer();
    for (method, params, key) in [
        ("tool.call", json!({"name": "none"}), "name"),
        ("shell.exec", json!({"command": "pwd", "cwd": "/"}), "cwd"),
        ("task.wait", json!({"task_id": "none"}), "task_id"),
    ] {
        let answer = peer.call(method, params);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("params.{key} must be ")), "{answer}");
        assert_eq!(answer["error"]["data"]["data"]["key"], key, "{answer}");
    }
}

#[test]
fn limits_below_one_and_huge_ones_are_none() {
    let mut peer = peer();
    peer.run_to_end("one");
    for limit in [json!(0), json!(-1), json!(u64::MAX), json!(1), json!(null)] {
        let list = peer.ask("session.list", json!({"limit": limit}));
        assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{limit}");
    }
}

#[test]
fn oversize_request_is_answered_with_its_id() {
    let mut peer = peer();
    let long = "x".repeat(UI_LINE_BYTES);
    peer.send_raw(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"run.start\",\"params\":{{\"input\":{long:?}}}}}")
            .as_bytes(),
    );
    let answer = peer.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("long"), &json!(-32700)));
    peer.ask("mcp.list", json!({}));
}

#[test]
fn line_of_three_large_images_has_its_answer() {
    let mut peer = peer();
    // A picture of the largest size that models take, three times.
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.resize(edn_bridge::limits::IMAGE_BYTES as usize, 0);
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    let start = |images: usize| {
        let text = json!({"type": "text", "text": "see"});
        let parts: Vec<_> = std::iter::once(text).chain(std::iter::repeat_n(image.clone(), images)).collect();
        json!({"input": {"type": "parts", "parts": parts}})
    };
    let run = peer.ask("run.start", start(2));
    peer.rest(run["run_id"].as_str().unwrap());
    // The line is read, but no entry of the journal takes as much.
    assert_eq!(peer.code("run.start", start(3)), -32602);
}

#[test]
fn request_before_initialize_is_served() {
    let mut peer = peer();
    assert!(peer.ask("model.list", json!({}))["models"].is_array());
    let answer = peer.initialize(CAN);
    assert_eq!(answer["protocol_version"], "0");
    let other = json!({"protocol_version": "9", "client": {"name": "t", "version": "1"}});
    assert_eq!(peer.ask("initialize", other)["protocol_version"], "0");
}

#[test]
fn end_of_input_ends_the_process() {
    let mut peer = peer();
    peer.ask("mcp.list", json!({}));
    assert!(peer.quit().success());
}

#[test]
fn any_line_holds_what_is_fuzzed() {
    for line in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"run.start\",\"params\":{\"input\":{\"type\":\"text\",\"text\":\"x\"}}}"[..],
        b"{\"id\":\"\\u0000\",\"method\":\"\",\"params\":7}",
        b"{\"id\":-7,\"result\":null}",
        b"\"id\":",
        b"",
    ] {
        any_line::check(line);
    }
}

#[test]
fn limits_of_the_spec_are_those_of_the_code() {
    let spec = include_str!("../../../spec/ui-protocol.allium");
    for (name, limit) in [
        ("max_line_bytes", UI_LINE_BYTES),
        ("history_runs", UI_HISTORY_RUNS),
        ("history_events", UI_HISTORY_EVENTS),
        ("sessions", UI_SESSIONS),
    ] {
        assert!(spec.contains(&format!("    {name}: Integer = {limit}\n")), "{name} is {limit}");
    }
}
