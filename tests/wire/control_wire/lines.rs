//! What a line is, and the form of its answer.

use std::sync::Arc;

use edn_bridge::catalogue::ErrorCode;
use edn_bridge::session::control::ControlResult as Result;
use serde_json::{Value as Json, json};

use super::daemon::{
    AgentStateInfo, AgentSummary, CanonicalMemberState, ControlAck, ControlResult, SocketResponse, read,
};
use super::fake::{Fake, Program, ack, agent, server};

/// A request as the document has it.
pub fn stdin(id: &str, text: &str) -> Json {
    json!({
        "type": "control.stdin.request", "v": 1, "request_id": id, "team": "atm-dev", "session_id": "",
        "agent_id": "codex:abc123", "sender": "arch-ctm", "sent_at": "2026-02-20T21:15:00Z", "content": text,
    })
}

fn interrupt(id: &str) -> Json {
    let mut request = stdin(id, "");
    request["type"] = "control.interrupt.request".into();
    request["signal"] = "interrupt".into();
    request.as_object_mut().unwrap().remove("content");
    request
}

/// A request as the daemon's clients send it.
fn enveloped(command: &str, payload: Json) -> String {
    json!({ "version": 1, "request_id": "e-1", "command": command, "payload": payload }).to_string()
}

fn program(fake: Fake) -> (Program, Arc<Fake>) {
    let fake = Arc::new(fake);
    (Program::of(&server(&fake).0), fake)
}

#[test]
fn message_of_the_document_is_acknowledged() {
    let (mut program, fake) = program(Fake::new());
    let example = r#"{"type":"control.stdin.request","v":1,"request_id":"req_01HZY8QJ8R7G6K2YJ7V2M9A1P3",
        "session_id":"claude-session-uuid","agent_id":"codex:abc123","thread_id":"thread-xyz789","team":"atm-dev",
        "sender":"arch-ctm","sent_at":"2026-02-20T21:15:00Z","content":"single payload text",
        "content_encoding":"utf-8","interrupt":false,"meta":{"ui_source":"tui","retry_count":0}}"#;
    let answer = program.ask(example.replace('\n', ""));
    assert_eq!(
        answer.to_string(),
        json!({
            "type": "control.stdin.ack", "v": 1, "request_id": "req_01HZY8QJ8R7G6K2YJ7V2M9A1P3", "team": "atm-dev",
            "session_id": "claude-session-uuid", "agent_id": "codex:abc123",
            "acked_at": "2026-02-20T21:15:00.000Z", "result": "ok", "duplicate": false
        })
        .to_string()
    );
    assert_eq!(program.ask(interrupt("i").to_string())["type"], "control.interrupt.ack");
    let seen = fake.seen.lock().unwrap();
    for (call, request) in seen.iter() {
        assert_eq!((call.connection, call.session.as_str()), (0, ""));
        assert_eq!(*call.request, *request.request_id);
    }
    assert_eq!((seen[0].1.retry_count, seen[0].1.ui_source.as_deref()), (Some(0), Some("tui")));
}

#[test]
fn text_arrives_byte_for_byte() {
    let (mut program, fake) = program(Fake::new());
    let texts = [" \u{e4}\u{1f600}\u{0}\\ \"a\"\r\n\tb \u{2028}\u{202e}", "\u{feff}x"];
    for text in texts {
        program.ask(stdin("r", text).to_string());
        // As another program might escape it.
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        program.ask(stdin("r", "TEXT").to_string().replace("TEXT", &escaped));
    }
    let expected = texts.map(|text| [format!("Text({text:?})"), format!("Text({text:?})")]);
    assert_eq!(fake.texts(), expected.concat());
}

#[test]
fn envelope_is_answered_in_an_envelope() {
    let (mut program, fake) = program(Fake::new());
    // As the daemon's terminal interface sends it: no session, nanoseconds, an action beside the type.
    let mut payload = stdin("r-1", "hello");
    payload["action"] = "stdin".into();
    payload["sent_at"] = "2026-02-20T21:15:00.123456789+00:00".into();
    let answer: SocketResponse = read(program.ask(enveloped("control", payload)));
    assert_eq!((answer.version, answer.request_id.as_str(), answer.status.as_str()), (1, "e-1", "ok"));
    assert!(answer.error.is_none());
    let payload = answer.payload.unwrap();
    assert_eq!((&payload["type"], &payload["v"]), (&json!("control.stdin.ack"), &json!(1)));
    let ack: ControlAck = read(payload);
    assert_eq!((ack.request_id.as_str(), ack.result, ack.duplicate), ("r-1", ControlResult::Ok, false));
    assert_eq!(fake.texts(), ["Text(\"hello\")"]);
    let answer = program.ask(enveloped("control", json!({ "type": "control.capabilities.request" })));
    assert_eq!(answer["payload"]["type"], "control.capabilities.ack");
}

#[test]
fn every_result_is_read_by_the_daemons_clients() {
    for (result, name) in [
        (Result::Ok, ControlResult::Ok),
        (Result::NotLive, ControlResult::NotLive),
        (Result::NotFound, ControlResult::NotFound),
        (Result::Busy, ControlResult::Busy),
        (Result::Timeout, ControlResult::Timeout),
        (Result::Rejected, ControlResult::Rejected),
        (Result::InternalError, ControlResult::InternalError),
    ] {
        let (mut program, _) = program(Fake::answering(move |request, reply| {
            let mut ack = ack(request, result);
            ack.duplicate = true;
            ack.detail = Some("a detail".to_owned());
            ack.error = (result != Result::Ok).then(|| (ErrorCode::NotFound, "a reason".to_owned()));
            reply.ok(ack);
        }));
        let bare = program.ask(stdin("r", "x").to_string());
        let envelope: SocketResponse = read(program.ask(enveloped("control", stdin("r", "x"))));
        for answer in [bare, envelope.payload.unwrap()] {
            if result != Result::Ok {
                assert_eq!(answer["error"], json!({ "code": "request/not-found", "message": "a reason" }));
            }
            let ack: ControlAck = read(answer);
            assert_eq!((&ack.result, ack.duplicate, ack.detail.as_deref()), (&name, true, Some("a detail")));
        }
    }
}

#[test]
fn message_with_wrong_shape_is_acknowledged_as_rejected() {
    let (mut program, fake) = program(Fake::new());
    let mut nameless = stdin("r", "x");
    nameless.as_object_mut().unwrap().remove("request_id");
    let ack: ControlAck = read(program.ask(nameless.to_string()));
    assert_eq!((ack.request_id.as_str(), ack.result), ("", ControlResult::Rejected));
    let ack: ControlAck = read(program.ask(stdin(&"r".repeat(100_000), "x").to_string()));
    assert_eq!(ack.request_id, "", "an id that is too long is none");
    let asked: Vec<_> = fake.seen.lock().unwrap().iter().map(|(_, request)| request.asked.is_err()).collect();
    assert_eq!(asked, [true, true]);
}

#[test]
fn line_that_is_no_request_is_answered_with_an_error() {
    let (mut program, fake) = program(Fake::new());
    let with = |change: &dyn Fn(&mut Json)| {
        let mut envelope: Json = serde_json::from_str(&enveloped("control", stdin("r", "x"))).unwrap();
        change(&mut envelope);
        envelope.to_string()
    };
    let without =
        |key: &'static str| with(&move |envelope| drop(envelope.as_object_mut().unwrap().remove(key)));
    let typed = |name: &str| json!({ "type": name, "request_id": "r" }).to_string();
    for (line, id, code) in [
        ("".to_owned(), "unknown", "INVALID_REQUEST"),
        ("  ".to_owned(), "unknown", "INVALID_REQUEST"),
        ("hello".to_owned(), "unknown", "INVALID_REQUEST"),
        ("[]".to_owned(), "unknown", "INVALID_REQUEST"),
        ("\"{}\"".to_owned(), "unknown", "INVALID_REQUEST"),
        ("{}".to_owned(), "unknown", "INVALID_REQUEST"),
        ("{}{}".to_owned(), "unknown", "INVALID_REQUEST"),
        (r#"{"type":"control.stdin.request","type":"x"}"#.to_owned(), "unknown", "INVALID_REQUEST"),
        (r#"{"type":"control.stdin.request","content":"\ud800"}"#.to_owned(), "unknown", "INVALID_REQUEST"),
        (typed("control.reboot.request"), "r", "INVALID_REQUEST"),
        (typed("control.stdin.ack"), "r", "INVALID_REQUEST"),
        (without("version"), "e-1", "INVALID_REQUEST"),
        (without("payload"), "e-1", "INVALID_REQUEST"),
        (without("request_id"), "unknown", "INVALID_REQUEST"),
        (with(&|envelope| envelope["request_id"] = 7.into()), "unknown", "INVALID_REQUEST"),
        (with(&|envelope| envelope["request_id"] = "x".repeat(257).into()), "unknown", "INVALID_REQUEST"),
        (with(&|envelope| envelope["command"] = 7.into()), "e-1", "INVALID_REQUEST"),
        (with(&|envelope| envelope["command"] = Json::Null), "e-1", "INVALID_REQUEST"),
        (with(&|envelope| envelope["version"] = "1".into()), "e-1", "INVALID_REQUEST"),
        (with(&|envelope| envelope["version"] = 2.into()), "e-1", "VERSION_MISMATCH"),
        (with(&|envelope| envelope["payload"] = Json::Null), "e-1", "INVALID_PAYLOAD"),
        (with(&|envelope| envelope["payload"] = "x".into()), "e-1", "INVALID_PAYLOAD"),
        (enveloped("control", json!({ "action": "stdin" })), "e-1", "INVALID_PAYLOAD"),
        (enveloped("control", json!({ "type": "control.reboot.request" })), "e-1", "INVALID_PAYLOAD"),
        (enveloped("list-agents", json!({ "team": 1 })), "e-1", "INVALID_PAYLOAD"),
        (enveloped("agent-state", json!({})), "e-1", "MISSING_PARAMETER"),
        (enveloped("agent-state", json!({ "agent": "" })), "e-1", "MISSING_PARAMETER"),
        (enveloped("agent-state", json!({ "agent": "none" })), "e-1", "AGENT_NOT_FOUND"),
        (enveloped("launch", json!({})), "e-1", "UNKNOWN_COMMAND"),
    ] {
        let answer: SocketResponse = read(program.ask(&line));
        let error = answer.error.unwrap();
        assert_eq!(
            (answer.request_id.as_str(), error.code.as_str()),
            (id, code),
            "{line}: {}",
            error.message
        );
        assert_eq!((answer.version, answer.status.as_str()), (1, "error"), "{line}");
        assert!(answer.payload.is_none() && !error.message.is_empty(), "{line}");
    }
    assert!(fake.seen.lock().unwrap().is_empty());
    assert_eq!(program.ask(stdin("r", "x").to_string())["result"], "ok", "the connection goes on");
}

#[test]
fn live_sessions_are_told_in_words_of_the_daemon() {
    let mut fake = Fake::new();
    fake.agents = vec![
        agent("s-1", Some("builder"), true),
        agent("s-2", Some("twin"), false),
        agent("s-3", Some("twin"), false),
        agent("s-4", Some("a:b"), false),
        agent("s-5", Some(" "), false),
        agent("s-6", None, false),
    ];
    fake.agents[5].team = "other".to_owned();
    fake.agents[2].parent = Some("s-1".into());
    let (mut program, _) = program(fake);
    let list = |program: &mut Program, payload| -> Json {
        read::<SocketResponse>(program.ask(enveloped("list-agents", payload))).payload.unwrap()
    };
    let all = list(&mut program, json!({}));
    let summaries: Vec<AgentSummary> = read(all);
    assert_eq!(summaries.len(), 6);
    let team = list(&mut program, json!({ "team": "atm-dev" }));
    assert_eq!(team[2]["parent_session_id"], "s-1");
    let states: Vec<CanonicalMemberState> = read(team);
    let told: Vec<_> = states
        .iter()
        .map(|state| (state.agent.as_str(), state.state.as_str(), state.session_id.as_deref().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("builder", "busy", "s-1"),
            ("s-2", "idle", "s-2"),
            ("s-3", "idle", "s-3"),
            ("s-4", "idle", "s-4"),
            ("s-5", "idle", "s-5")
        ]
    );
    assert_eq!(list(&mut program, json!({ "team": "none" })), json!([]));
    for (agent, expected) in [
        ("builder", Ok("busy")),
        ("edn-bridge:s-2", Ok("idle")),
        ("s-3", Ok("idle")),
        ("twin", Err("AGENT_NOT_FOUND")),
        ("s-6", Err("AGENT_NOT_FOUND")),
    ] {
        let payload = json!({ "agent": agent, "team": "atm-dev" });
        let answer: SocketResponse = read(program.ask(enveloped("agent-state", payload)));
        let state = answer.payload.map(read::<AgentStateInfo>).map(|info| info.state);
        let code = answer.error.map(|error| error.code);
        assert_eq!(state.as_deref().ok_or(code.as_deref().unwrap_or_default()), expected, "{agent}");
    }
}

#[test]
fn capabilities_tell_types_and_bounds() {
    let (mut program, _) = program(Fake::new());
    assert_eq!(
        program.ask(r#"{"type":"control.capabilities.request","v":1}"#),
        json!({
            "type": "control.capabilities.ack", "v": 1,
            "types": ["control.stdin.request", "control.interrupt.request"],
            "soft_limit_bytes": 65_536, "hard_limit_bytes": 1_048_576, "file_limit_bytes": 8_388_608,
            "content_folders": ["/in"], "max_age_ms": 300_000, "max_skew_ms": 60_000, "dedupe_ms": 600_000,
            "ack_timeout_ms": 60_000, "durable": true
        })
    );
}

#[test]
fn answers_are_counted_by_request_and_code() {
    let fake = Arc::new(Fake::answering(|request, reply| {
        let mut ack = ack(request, if request.asked.is_ok() { Result::Ok } else { Result::Rejected });
        ack.error = request.asked.as_ref().err().map(|reason| (ErrorCode::InvalidParams, reason.clone()));
        reply.ok(ack);
    }));
    let (server, tally) = server(&fake);
    let mut program = Program::of(&server);
    program.ask(stdin("1", "x").to_string());
    program.ask(r#"{"type":"control.stdin.request"}"#);
    program.ask(interrupt("2").to_string());
    program.ask(enveloped("list-agents", json!({})));
    program.ask(enveloped("agent-state", json!({ "agent": "none" })));
    program.ask("x");
    let counts = tally.read();
    let ops = counts.ops.iter().filter(|op| op.answered > 0).map(|op| (op.name, op.answered, op.failed));
    assert_eq!(
        ops.collect::<Vec<_>>(),
        [
            ("control.stdin.request", 2, 1),
            ("control.interrupt.request", 1, 0),
            ("list-agents", 1, 0),
            ("agent-state", 1, 1)
        ]
    );
    let errors = counts.errors.iter().filter(|(_, times)| *times > 0).map(|(spec, _)| spec.code);
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [ErrorCode::InvalidFrame, ErrorCode::InvalidParams, ErrorCode::NotFound]
    );
}
