//! The wire, with the real binary over real pipes: bad input, bounds, ends of streams.

use crate::support;

use std::process::Stdio;

use edn_bridge::catalogue::TOPICS;
use edn_bridge::limits::{
    LISTED_SESSIONS, LIVE_SESSIONS, MAX_DEPTH, MAX_FRAME_VALUES, MAX_ID_BYTES, MAX_LINE_BYTES,
};
use support::{Bridge, Setup, at, code, data, is_event, kind, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";
/// A turn that runs until it is aborted.
const ENDLESS: &str = "{:turns [{:steps [{:delta \"begun\"} {:sleep-ms 3600000}]}]}";

#[test]
fn bad_line_gets_error_and_next_line_is_served() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("invalid UTF-8 in a string", b"{:id \"\xff\xfe\" :kind :request :op \"ping\"}".to_vec()),
        ("a NUL", b"{:id \"a\" \0}".to_vec()),
        ("an open string", b"{:id \"a".to_vec()),
        ("a lone bracket", b"]".to_vec()),
        ("nested over the bound", nested(MAX_DEPTH + 1)),
        ("nested far over the bound", nested(200_000)),
        ("a line over the bound", vec![b'x'; MAX_LINE_BYTES + 1]),
        ("an odd map", b"{:id}".to_vec()),
        ("a key twice", b"{:id \"a\" :id \"b\"}".to_vec()),
    ];
    let setup = Setup::new();
    let mut bridge = setup.serve();
    bridge.handshake();
    for (what, mut line) in cases {
        line.push(b'\n');
        bridge.write(&line);
        let frame = bridge.frame();
        assert_eq!(code(&frame), "transport/invalid-frame", "{what}: {frame}");
        assert!(at(&frame, &["data", "reason"]).is_some(), "{what}: {frame}");
        assert!(
            at(&frame, &["data", "offset"]).and_then(|offset| offset.as_i64()).is_some(),
            "{what}: {frame}"
        );
        let pong = bridge.ask("after", "ping", "{}");
        assert_eq!(kind(&pong), "response", "after {what}");
    }
}

#[test]
fn form_at_bounds_is_accepted() {
    let setup = Setup::new();
    let mut bridge = setup.serve();
    bridge.handshake();
    // The envelope and the params are two levels.
    let depth = MAX_DEPTH - 2;
    let deep = format!("{{:x {}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(kind(&bridge.ask("deep", "ping", &deep)), "response");
    let head = "{:id \"long\" :kind :request :op \"ping\" :params {:x \"";
    let tail = "\"}}";
    let long = format!("{head}{}{tail}\r\n", "y".repeat(MAX_LINE_BYTES - head.len() - tail.len() - 1));
    bridge.write(long.as_bytes());
    assert_eq!(kind(&bridge.answer("long")), "response");
    // Ten values are those of the request and of its params.
    let many = format!("{{:x [{}]}}", "1 ".repeat(MAX_FRAME_VALUES - 10));
    assert_eq!(kind(&bridge.ask("many", "ping", &many)), "response");
    bridge.request("more", "ping", &many.replace("1 ]", "1 1]"));
    let refused = bridge.frame();
    assert_eq!((code(&refused), text(&refused, "id")), ("transport/invalid-frame", "more"));
    assert_eq!(data(&refused, "reason"), "too-many-values");
    let id = "i".repeat(MAX_ID_BYTES);
    assert_eq!(kind(&bridge.ask(&id, "ping", "{}")), "response");
    bridge.request(&format!("{id}i"), "ping", "{}");
    let refused = bridge.frame();
    assert_eq!(code(&refused), "request/invalid-id");
    assert_eq!(text(&refused, "id"), "", "an id that is too long is not echoed");
}

#[test]
fn line_of_small_values_takes_little_memory() {
    /// The line, its values and whatever else: where each of its bytes could become a value it was 35 of them.
    const MOST: usize = 4 * MAX_LINE_BYTES;
    let setup = Setup::new();
    let mut bridge = setup.serve();
    bridge.handshake();
    let memory = |bridge: &Bridge, what: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("Linux says it");
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    };
    if !cfg!(target_os = "linux") {
        return;
    }
    let (before, own) = (memory(&bridge, "VmRSS:"), memory(&bridge, "RssAnon:"));
    for fill in ["1N ", "1.5M ", "{1 1}", "[1]", "#{1}", "#a 1 ", "#_1 ", "^a[]", "1/2 ", "\"\\n\""] {
        let head = "{:id \"v\" :kind :request :op \"ping\" :params {:x [";
        let line = format!("{head}{}]}}}}\n", fill.repeat((MAX_LINE_BYTES - head.len() - 3) / fill.len()));
        bridge.write(line.as_bytes());
        let refused = bridge.frame();
        assert_eq!((code(&refused), text(&refused, "id")), ("transport/invalid-frame", "v"), "{fill}");
        let most = memory(&bridge, "VmHWM:").saturating_sub(before);
        assert!(most < MOST, "{fill} takes {most} bytes");
    }
    bridge.ask("after", "ping", "{}");
    let kept = memory(&bridge, "RssAnon:").saturating_sub(own);
    assert!(kept < MAX_LINE_BYTES, "{kept} bytes are kept");
}

#[test]
fn seq_has_no_gap_without_unsubscribed_topics() {
    let setup = Setup::new().script("{:turns [{:steps [{:deltas 300 :of \"word \"}]}]}");
    let mut bridge = setup.serve();
    bridge.handshake();
    bridge.ask("before", "prompt", "{:message \"unheard\"}");
    bridge.ask("sub", "subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}");
    let mut turns = 0;
    let mut seq = 0;
    let mut text_seen = String::new();
    bridge.ask("again", "ping", "{}");
    // The first turn may or may not have ended before the subscription: it is waited for by its state.
    while at(&bridge.ask("state", "get_state", "{}"), &["data", "state", "is-streaming"])
        .and_then(|flag| flag.as_bool())
        == Some(true)
    {}
    bridge.request("heard", "prompt", "{:message \"heard\"}");
    while turns == 0 {
        let frame = bridge.frame();
        if kind(&frame) != "event" {
            continue;
        }
        let topic = text(&frame, "event");
        assert!(matches!(topic, "assistant/delta" | "assistant/message"), "{frame}");
        let number = frame.get("seq").and_then(|seq| seq.as_i64()).unwrap();
        assert!(seq == 0 || number == seq + 1, "{seq} then {number}");
        seq = number;
        if text(&frame, "id") == "heard" {
            if topic == "assistant/delta" {
                text_seen.push_str(at(&frame, &["data", "text"]).and_then(|text| text.as_str()).unwrap());
            } else {
                turns += 1;
                let whole = at(&frame, &["data", "text"]).and_then(|text| text.as_str()).unwrap();
                assert_eq!(text_seen, whole, "the deltas are the message");
                assert_eq!(whole.len(), 1500);
            }
        }
    }
}

#[test]
fn abort_ends_turn_without_later_events() {
    let setup = Setup::new().script(ENDLESS);
    let mut bridge = setup.ready();
    let answer = bridge.ask("go", "prompt", "{:message \"go\"}");
    let turn = at(&answer, &["data", "turn-id"]).unwrap().clone();
    bridge.event("assistant/delta");
    assert_eq!(code(&bridge.ask("busy", "prompt", "{:message \"more\"}")), "request/session-not-idle");
    for id in ["abort", "again"] {
        assert_eq!(kind(&bridge.ask(id, "abort", "{}")), "response");
    }
    let message = bridge.event("assistant/message");
    assert_eq!(at(&message, &["data", "stop-reason"]).and_then(|reason| reason.as_str()), Some("aborted"));
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("begun"));
    // What the turn still had to say would be said before the session is idle again.
    bridge.until(|frame| {
        assert_ne!(at(frame, &["data", "turn-id"]), Some(&turn), "an event after the end: {frame}");
        at(frame, &["data", "phase"]).and_then(|phase| phase.as_str()) == Some("idle")
    });
    let messages = bridge.ask("end", "get_messages", "{}");
    let messages = at(&messages, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
    assert_eq!(messages.len(), 2, "the user's message and the partial answer are kept");
    assert_eq!(text(&messages[1], "stop-reason"), "aborted");
}

#[test]
fn end_of_input_in_turn_keeps_partial_answer() {
    let setup = Setup::new().script(ENDLESS);
    let mut bridge = setup.ready();
    bridge.ask("go", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    let (status, rest, _) = bridge.finish();
    assert_eq!(status.code(), Some(0));
    assert!(rest.iter().any(|line| line.contains("\"aborted\"")), "the end is told: {rest:?}");
    let journal =
        support::files(&setup.state()).into_iter().find(|path| path.extension().unwrap() == "edn").unwrap();
    let text = std::fs::read_to_string(journal).unwrap();
    assert!(text.contains(":stop-reason \"aborted\"") && text.contains("begun"), "{text}");
}

#[test]
fn end_of_input_in_line_gets_error() {
    let setup = Setup::new();
    let mut bridge = setup.serve();
    bridge.handshake();
    bridge.write(b"{:id \"half\" :kind :request :op \"pi");
    let (status, rest, _) = bridge.finish();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0].contains("transport/invalid-frame") && rest[0].contains("unterminated-line"), "{rest:?}");
}

#[test]
fn requests_before_the_end_of_input_are_all_answered() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.serve();
    bridge.handshake();
    for n in 0..100 {
        bridge.request(
            &format!("n{n}"),
            if n % 2 == 0 { "set_session_name" } else { "ping" },
            "{:name \"x\"}",
        );
    }
    let (_, rest, _) = bridge.finish();
    assert_eq!(rest.len(), 100, "{rest:?}");
}

#[test]
fn closed_client_output_ends_bridge() {
    let setup = Setup::new().script(ENDLESS);
    let mut child = setup
        .command()
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    use std::io::Write as _;
    let _ = stdin.write_all(b"{:id \"1\" :kind :request :op \"ping\"}\n");
    // Standard input stays open: the closed output alone must end the process.
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn standard_output_has_only_frames_at_any_log_level() {
    let setup = Setup::new().script(ECHO).arg("--log").arg("trace");
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.until(|frame| is_event(frame, "assistant/message"));
    let (_, rest, errors) = bridge.finish();
    for line in rest {
        assert!(edn_bridge::edn::read_one(line.as_bytes()).is_ok(), "{line}");
    }
    assert!(!errors.is_empty(), "the log goes to standard error");
}

#[test]
fn log_of_turn_nests_model_and_tool_calls() {
    let script = "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"a\"}}}]} \
                  {:steps [{:delta \"done\"}]}]}";
    let setup = Setup::new().script(script).arg("--yolo").arg("--log").arg("edn_bridge=debug");
    let mut bridge = setup.ready();
    bridge.ask("p1", "prompt", "{:message \"hello\"}");
    bridge.event("turn/ended");
    let (_, _, log) = bridge.finish();
    let in_order = |line: &str, parts: &[&str]| {
        parts.iter().try_fold(line, |rest, part| rest.split_once(part).map(|(_, rest)| rest)).is_some()
    };
    for parts in [
        &["connection{id=1 ", ":request{op=\"prompt\" id=\"p1\"}: ", "new"][..],
        &["session{id=\"s-", ":turn{otel.name=invoke_agent", "turn.id=\"t-", "request.id=\"p1\"}: ", "close"],
        &["session{", ":turn{", ":model_call{otel.name=chat scripted", "provider.name=\"scripted\"", "close"],
        &["session{", ":turn{", ":tool_call{otel.name=execute_tool read", "close"],
    ] {
        assert!(log.lines().any(|line| in_order(line, parts)), "{parts:?} is not in\n{log}");
    }
    assert!(!log.contains("hello"), "what a person says is not logged:\n{log}");
}

#[test]
fn log_is_json_on_demand() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"done\"}]}]}").arg("--log").arg("debug");
    let mut bridge = setup.env("EDN_BRIDGE_LOG_FORMAT", "json").ready();
    bridge.ask("p1", "prompt", "{:message \"hello\"}");
    bridge.event("turn/ended");
    let (_, _, log) = bridge.finish();
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let of_turn = |line: &&serde_json::Value| line["span"]["name"] == "turn";
    let turn = lines.iter().find(of_turn).unwrap_or_else(|| panic!("no turn in\n{log}"));
    assert!(turn["timestamp"].is_string() && turn["level"] == "DEBUG", "{turn}");
    assert_eq!(turn["span"]["edn_bridge.request.id"], "p1", "{turn}");
    assert!(!log.contains("hello"), "what a person says is not logged:\n{log}");
}

#[test]
fn missing_model_gives_error_not_an_answer() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    let message = bridge.event("assistant/message");
    let data = message.get("data").unwrap();
    assert_eq!(text(data, "stop-reason"), "error");
    assert_eq!(text(data, "text"), "");
    let error = text(data, "error-message");
    assert!(error.contains("models fetch") || error.contains("--provider"), "{error}");
}

#[test]
fn read_only_state_folder_is_reported_and_bridge_runs() {
    let setup = Setup::new().script(ECHO);
    // A file where the folder should be: no permission can change that.
    std::fs::write(setup.state(), "in the way").unwrap();
    let mut bridge = setup.ready();
    let refused = bridge.ask("p", "prompt", "{:message \"hello\"}");
    assert_eq!(code(&refused), "runtime/failed");
    assert!(text(&refused, "error-message").contains("Cannot make the folder"), "{refused}");
    assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
    let state = bridge.ask("s", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "phase"]).and_then(|phase| phase.as_str()), Some("idle"));
}

#[test]
fn every_payload_has_the_keys_of_the_catalogue() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.event("assistant/message");
    bridge.ask("n", "new_session", "{}");
    bridge.ask("end", "ping", "{}");
    let frames: Vec<_> = bridge.transcript.iter().filter_map(|line| line.strip_prefix("< ")).collect();
    let mut seen = 0;
    for line in frames {
        let frame = edn_bridge::edn::read_one(line.as_bytes()).unwrap().into_owned();
        if kind(&frame) != "event" {
            continue;
        }
        let spec = TOPICS.iter().find(|spec| spec.name == text(&frame, "event")).expect("a catalogued topic");
        for key in spec.required {
            assert!(at(&frame, &["data", key]).is_some(), "{} without :{key}: {frame}", spec.name);
        }
        let known = |key: &str| {
            spec.required.contains(&key)
                || spec.also.contains(&key)
                || edn_bridge::catalogue::SCOPE_KEYS.contains(&key)
        };
        for (key, _) in frame.get("data").and_then(|data| data.as_map()).unwrap().iter() {
            assert!(known(key.as_keyword().unwrap()), "{} with {key}", spec.name);
        }
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} events");
}

#[test]
fn repeated_idempotency_key_starts_one_turn() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let first = bridge.ask("a", "prompt", "{:message \"once\" :idempotency-key \"k\"}");
    bridge.event("assistant/message");
    let second = bridge.ask("b", "prompt", "{:message \"once\" :idempotency-key \"k\"}");
    assert_eq!(at(&first, &["data", "turn-id"]), at(&second, &["data", "turn-id"]));
    let messages = bridge.ask("m", "get_messages", "{}");
    assert_eq!(at(&messages, &["data", "messages"]).and_then(|m| m.as_slice()).unwrap().len(), 2);
}

#[test]
fn slash_command_on_command_line_prints_outcome() {
    let run = |text: &str| Setup::new().script(ECHO).command().args(["prompt", text]).output().unwrap();
    let help = run("/help");
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("/thinking"), "{help:?}");
    let choice = run("/thinking");
    assert!(!choice.status.success() && !choice.stderr.is_empty(), "{choice:?}");
    let unknown = run("/hlep");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("/help"), "{unknown:?}");
}

#[test]
fn unused_sessions_are_unloaded_and_come_back_unchanged() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:echo :last-user}]} {:steps [{:delta \"begun\"} {:sleep-ms 3600000}]} \
         {:steps [{:echo :last-user}]}]}",
    );
    let mut bridge = setup.serve();
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/delta\" \"assistant/message\"]}");
    let opened = |answer: &edn_bridge::value::Owned| {
        at(answer, &["data", "session-id"]).and_then(|id| id.as_str()).unwrap().to_owned()
    };
    let first = opened(&bridge.ask("n", "new_session", "{}"));
    bridge.ask("p", "prompt", "{:message \"remember me\"}");
    bridge.event("assistant/message");
    // A message that was meant for a call which did not come waits, and does not keep the session.
    bridge.ask("e", "prompt", "{:message \"never answered\"}");
    bridge.event("assistant/delta");
    bridge.ask("w", "steer", "{:message \"and that\"}");
    bridge.ask("x", "abort", "{}");
    bridge.event("assistant/message");
    // As many as may live, and the one that the connection began with, which stays.
    for n in 0..LIVE_SESSIONS {
        bridge.ask(&format!("n{n}"), "new_session", "{}");
    }
    // Of more sessions than a list shows by itself, those are listed that were asked for.
    for (params, expected) in [("{}", LISTED_SESSIONS), ("{:limit 5}", 5), ("{:limit 1010}", 1010)] {
        let list = bridge.ask("l", "list_sessions", params);
        let listed =
            at(&list, &["data", "sessions"]).and_then(|sessions| sessions.as_slice()).map(<[_]>::len);
        assert_eq!(listed, Some(expected), "{params}");
    }
    let meant = format!("{{:session-id {first:?}}}");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    // Asking for it is using it: so it is looked for among those that live, and never asked for.
    loop {
        bridge.ask("again", "new_session", "{}");
        let live = bridge.ask(
            "q",
            "query_eql",
            "{:query \"[{:psi.session/live [:psi.agent-session/session-id]}]\"}",
        );
        if !live.to_string().contains(&first) {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the session that was used longest ago still lives");
    }
    assert_eq!(code(&bridge.ask("gone", "get_state", &meant)), "request/not-found");
    let back = bridge.ask("back", "switch_session", &meant);
    assert_eq!(kind(&back), "response", "{back}");
    let messages = bridge.ask("m", "get_messages", "{}");
    let messages = at(&messages, &["data", "messages"]).and_then(|messages| messages.as_slice()).unwrap();
    assert_eq!(messages.len(), 4);
    assert!(messages[0].to_string().contains("remember me"));
    let waiting = |bridge: &mut support::Bridge, id: &str| {
        let state = bridge.ask(id, "get_state", "{}");
        at(&state, &["data", "state", "pending-message-count"]).and_then(|count| count.as_i64())
    };
    assert_eq!(waiting(&mut bridge, "g"), Some(1));
    bridge.ask("p2", "prompt", "{:message \"and go on\"}");
    bridge.event("assistant/message");
    assert_eq!(waiting(&mut bridge, "g2"), Some(0));
}
