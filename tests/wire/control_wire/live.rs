//! The control wire of the real program, with real sessions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use edn_bridge::interaction::audit;
use serde_json::{Value as Json, json};

use super::daemon::{AgentStateInfo, CanonicalMemberState, ControlAck, SocketResponse, read};
use super::fake::Program;
use crate::support::{Bridge, PATIENCE, Setup, at, text};

const ANSWER: &str = "{:turns [{:steps [{:delta \"Done.\"}]}] :then :repeat-last}";

/// A turn that lasts longer than any test.
const LONG: &str =
    "{:turns [{:steps [{:delta \"Working.\"} {:sleep-ms 600000}]} {:steps [{:delta \"Next.\"}]}]}";

const TEAM: &str = r#"{:control {:ack-timeout-ms 60000 :teams [{:name "dev" :members ["arch" {:name "reader" :may [:interrupt]}]}]}}"#;

/// A setup whose user names a team.
fn setup(script: &str, config: &str) -> Setup {
    let setup = Setup::new().script(script);
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), config).unwrap();
    setup
}

fn sockets(setup: &Setup) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(setup.state().join("run")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".control.sock"))
        .collect()
}

/// The socket of a bridge that was started.
fn socket(setup: &Setup) -> PathBuf {
    awaited(|| {
        sockets(setup).into_iter().find(|path| {
            let mode = path.metadata().map(|found| found.permissions().mode() & 0o777);
            mode.is_ok_and(|mode| mode == 0o600) && UnixStream::connect(path).is_ok()
        })
    })
}

/// What is there after some time.
fn awaited<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::yield_now();
    }
}

fn program(setup: &Setup) -> Program {
    Program::on(UnixStream::connect(socket(setup)).unwrap())
}

fn session_id(bridge: &mut Bridge) -> String {
    let state = bridge.ask("state", "get_state", "{}");
    let state = state.get("data").and_then(|data| data.get("state")).unwrap();
    state.get("session-id").unwrap().as_str().unwrap().to_owned()
}

fn request(kind: &str, id: &str, agent: &str, sender: &str) -> Json {
    let mut request = json!({
        "type": format!("control.{kind}.request"), "v": 1, "request_id": id, "team": "dev", "session_id": "",
        "agent_id": agent, "sender": sender, "sent_at": jiff::Timestamp::now().to_string()
    });
    let (key, value) = if kind == "stdin" { ("content", "hello") } else { ("signal", "interrupt") };
    request[key] = value.into();
    request
}

/// The messages of the user in the session.
fn messages(bridge: &mut Bridge) -> Vec<String> {
    let answer = bridge.ask("messages", "get_messages", "{}").to_string();
    answer.split(":role \"user\"").skip(1).map(|message| message.chars().take(200).collect()).collect()
}

/// The program's own sender.
fn send(setup: &Setup, arguments: &[&str], text: &str) -> (i32, Json, String) {
    let mut command = setup.command();
    let mut child = command
        .arg("control")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), serde_json::from_str(&out).unwrap_or_default(), err)
}

fn as_arch<'a>(what: &'a str, agent: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments =
        vec![what, "--team", "dev", "--agent", agent, "--sender", "arch", "--timeout-ms", "60000"];
    arguments.extend(more);
    arguments
}

#[test]
fn without_a_team_there_is_no_control_socket() {
    let setup = setup(ANSWER, "{}");
    let mut bridge = setup.ready();
    crate::support::guest::socket(&setup.state());
    assert!(bridge.ask("p", "ping", "{}").to_string().contains(":pong true"));
    assert!(sockets(&setup).is_empty());
    let threads = std::fs::read_dir(format!("/proc/{}/task", bridge.pid())).unwrap();
    for thread in threads {
        let name = std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default();
        assert!(!name.starts_with("control"), "{name}");
    }
    let (status, _, err) = send(&setup, &as_arch("stdin", "s-1", &[]), "hello");
    assert_eq!(status, 1, "{err}");
}

#[test]
fn sent_text_begins_a_turn_that_the_editor_sees() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    socket(&setup);
    let (status, offer, err) = send(&setup, &["capabilities"], "");
    assert_eq!((status, err.as_str()), (0, ""), "{offer}");
    assert_eq!(offer["types"][0], "control.stdin.request");
    let (status, ack, err) = send(&setup, &as_arch("stdin", &id, &["--request-id", "r-1"]), "from outside\n");
    assert_eq!((status, err.as_str()), (0, ""), "{ack}");
    assert_eq!(
        (&ack["result"], &ack["duplicate"], &ack["type"]),
        (&json!("ok"), &json!(false), &json!("control.stdin.ack"))
    );
    read::<ControlAck>(ack);
    let shown = bridge.event("user/message").to_string();
    assert!(shown.contains("from outside\\n") && shown.contains("arch"), "{shown}");
    bridge.event("assistant/message");
    // Again, with the same id: nothing happens a second time.
    let (status, ack, _) = send(&setup, &as_arch("stdin", &id, &["--request-id", "r-1"]), "from outside\n");
    assert_eq!((status, &ack["duplicate"]), (0, &json!(true)), "{ack}");
    let (status, ack, err) = send(&setup, &as_arch("stdin", &id, &["--request-id", "r-1"]), "another text");
    assert_eq!((status, &ack["result"]), (7, &json!("rejected")), "{ack} {err}");
    assert_eq!(messages(&mut bridge).len(), 1);
    let query = bridge
        .ask("q", "query_eql", "{:query \"[{:psi.process/ops [:psi.op/name :psi.op/answered]}]\"}")
        .to_string();
    assert!(query.contains("\"control.stdin.request\" :psi.op/answered 3"), "{query}");
    let path = audit::path(&setup.state());
    // The receiver's records are there before its acknowledgement.
    let records = std::fs::read_to_string(&path).unwrap();
    for name in ["control/sent", "control/acked", "control/request", "control/ack"] {
        assert_eq!(records.matches(&format!("{name:?}")).count(), 3, "{name}: {records}");
    }
    assert_eq!(audit::verify(&path).unwrap(), 12);
    assert!(!records.contains("from outside"), "{records}");
}

#[test]
fn acknowledged_requests_are_in_the_audit_after_any_end() {
    type End = fn(&mut Bridge);
    let ends: [(&str, End); 3] = [
        ("killed", Bridge::kill),
        ("terminated", |bridge| {
            let pid = rustix::process::Pid::from_raw(i32::try_from(bridge.pid()).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            bridge.wait();
        }),
        ("closed", |bridge| {
            bridge.close_input();
            bridge.wait();
        }),
    ];
    for (name, end) in ends {
        let setup = setup(ANSWER, TEAM);
        let mut bridge = setup.ready();
        let id = session_id(&mut bridge);
        let socket = socket(&setup);
        std::thread::scope(|scope| {
            for sender in 0..10 {
                let (socket, id) = (&socket, &id);
                scope.spawn(move || {
                    let mut program = Program::on(UnixStream::connect(socket).unwrap());
                    for n in 0..10 {
                        let request = request("interrupt", &format!("r-{sender}-{n}"), id, "arch");
                        assert_eq!(program.ask(request.to_string())["result"], "ok");
                    }
                });
            }
        });
        end(&mut bridge);
        let path = audit::path(&setup.state());
        let records = std::fs::read_to_string(&path).unwrap();
        assert_eq!(records.matches("\"control/ack\"").count(), 100, "{name}");
        assert_eq!(audit::verify(&path).unwrap(), 200, "{name}");
    }
}

#[test]
fn each_refusal_has_its_exit_status() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    socket(&setup);
    let arguments = |team: &'static str, agent: &'static str, sender: &'static str| {
        ["stdin", "--team", team, "--agent", agent, "--sender", sender, "--timeout-ms", "60000"]
    };
    for (arguments, status) in [
        (arguments("other", "s-none", "arch"), 7),
        (arguments("dev", "s-none", "mallory"), 7),
        (arguments("dev", "s-none", "reader"), 7),
        (arguments("dev", "s-none", "arch@other"), 7),
        (arguments("dev", "s-none", "arch"), 4),
        (arguments("dev", "s-none", "arch@dev"), 4),
    ] {
        let (found, ack, err) = send(&setup, &arguments, "hello");
        assert_eq!(found, status, "{arguments:?}: {ack} {err}");
        assert!(!ack["error"]["code"].is_null() && !err.is_empty(), "{ack}");
        read::<ControlAck>(ack);
    }
    let (status, ack, _) = send(&setup, &as_arch("interrupt", &id, &[]), "");
    assert_eq!((status, &ack["detail"]), (0, &json!("idle")));
    assert!(messages(&mut bridge).is_empty());
}

#[test]
fn session_is_shown_and_addressed_as_the_daemons_clients_do() {
    let setup = setup(LONG, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    bridge.ask("n", "set_session_name", "{:name \"builder\"}");
    let mut tui = program(&setup);
    let mut ask = |command: &str, payload: Json| -> SocketResponse {
        let envelope = json!({ "version": 1, "request_id": "e", "command": command, "payload": payload });
        read(tui.ask(envelope.to_string()))
    };
    let mut state = || {
        let answer = ask("list-agents", json!({ "team": "dev" }));
        let members: Vec<CanonicalMemberState> = read(answer.payload.unwrap());
        assert_eq!(
            (members[0].agent.as_str(), members[0].session_id.as_deref()),
            ("builder", Some(id.as_str()))
        );
        let answer = ask("agent-state", json!({ "agent": "builder", "team": "dev" }));
        let info: AgentStateInfo = read(answer.payload.unwrap());
        assert_eq!(info.state, members[0].state);
        info.state
    };
    assert_eq!(state(), "idle");
    // As the terminal interface sends it.
    let mut payload = request("stdin", "r-1", "edn-bridge:builder", "arch");
    payload["action"] = "stdin".into();
    let answer = ask("control", payload);
    let ack: ControlAck = read(answer.payload.unwrap());
    assert_eq!(ack.result, super::daemon::ControlResult::Ok, "{:?}", ack.detail);
    bridge.until(|frame| text(frame, "event") == "assistant/delta");
    let answer = ask("agent-state", json!({ "agent": "builder" }));
    assert_eq!(read::<AgentStateInfo>(answer.payload.unwrap()).state, "busy");
    let answer = ask("control", request("interrupt", "r-2", "builder", "reader"));
    let ack: ControlAck = read(answer.payload.unwrap());
    assert_eq!(ack.result, super::daemon::ControlResult::Ok, "{:?}", ack.detail);
    bridge.event("assistant/message");
}

#[test]
fn what_a_request_carries_is_in_no_record() {
    let setup = setup(ANSWER, TEAM).arg("--log").arg("trace");
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let mut program = program(&setup);
    let (mut answers, mut results) = (String::new(), Vec::new());
    for (n, change) in [
        json!({}),
        json!({ "sender": "mallory" }),
        json!({ "sent_at": "2000-01-01T00:00:00Z" }),
        json!({ "agent_id": "none" }),
        json!({ "v": 2 }),
        json!({ "content": null, "content_ref": {
            "path": "/canary-path", "size_bytes": 1, "sha256": "0".repeat(64), "mime": "text/plain" } }),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = request("stdin", &format!("r-{n}"), &id, "arch");
        request["content"] = if n == 0 { "canary-text" } else { "canary-refused" }.into();
        request["content_preview"] = "canary-preview".into();
        request["thread_id"] = "canary-thread".into();
        request["meta"] = json!({ "canary-key": "canary-meta" });
        for (key, value) in change.as_object().unwrap() {
            request[key] = value.clone();
        }
        request.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let answer = program.ask(request.to_string());
        results.push(answer["result"].as_str().unwrap().to_owned());
        answers.push_str(&answer.to_string());
    }
    assert_eq!(results, ["ok", "rejected", "rejected", "not_found", "rejected", "rejected"]);
    bridge.event("assistant/message");
    let audit = audit::path(&setup.state());
    let records = std::fs::read_to_string(&audit).unwrap();
    assert_eq!(records.matches("control/ack").count(), results.len());
    let told = std::mem::take(&mut bridge.transcript);
    let (_, rest, log) = bridge.finish();
    assert!(log.contains("turn{"), "{log}");
    let events: String = told.into_iter().chain(rest).collect();
    let files = crate::support::files(&setup.state().join("sessions"));
    let journals: String = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    assert_eq!(journals.matches("canary-text").count(), 1);
    // The text that was taken is the conversation's, whose name is its beginning.
    let [journals, events] = [journals, events].map(|place| place.replace("canary-text", ""));
    for place in [answers, records, log, events, journals] {
        let found = place
            .find("canary")
            .map(|at| place[at.saturating_sub(200)..].chars().take(300).collect::<String>());
        assert_eq!(found, None);
    }
}

#[test]
fn ids_beyond_the_bound_are_busy_and_none_is_forgotten() {
    let setup = setup(ANSWER, TEAM).arg("--durability").arg("relaxed");
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let mut program = program(&setup);
    let mut ask = |n: usize| program.ask(request("interrupt", &format!("r-{n}"), &id, "arch").to_string());
    let results: Vec<String> = (0..5_000).map(|n| ask(n)["result"].as_str().unwrap().to_owned()).collect();
    let taken = results.iter().position(|result| result != "ok").unwrap();
    assert_eq!(taken, edn_bridge::limits::IDEMPOTENCY_KEYS);
    assert!(results[taken..].iter().all(|result| result == "busy"));
    for n in [0, taken - 1] {
        let again = ask(n);
        assert_eq!((&again["result"], &again["duplicate"]), (&json!("ok"), &json!(true)), "{again}");
    }
}

#[test]
fn keys_of_every_wire_are_known_as_long_as_control_wants() {
    let config = TEAM.replace("{:control {", "{:control {:dedupe-ms 3600000 ");
    let setup = setup(ANSWER, &config).arg("--durability").arg("relaxed");
    let earlier = Setup { dir: setup.dir.clone(), script: setup.script.clone(), ..Setup::new() }
        .arg("--durability")
        .arg("relaxed")
        .env("EDN_BRIDGE_FIXED_CLOCK", "earlier");
    let mut bridge = earlier.ready();
    let id = session_id(&mut bridge);
    let mut sender = program(&earlier);
    for n in 0..edn_bridge::limits::IDEMPOTENCY_KEYS {
        let mut request = request("interrupt", &format!("old-{n}"), &id, "arch");
        request["sent_at"] =
            (jiff::Timestamp::now() - jiff::SignedDuration::from_mins(30)).to_string().into();
        assert_eq!(sender.ask(request.to_string())["result"], "ok");
    }
    bridge.finish();
    let mut bridge = setup.ready();
    bridge.ask("s", "switch_session", &format!("{{:session-id {id:?}}}"));
    let refused = bridge.ask("p", "prompt", "{:message \"go\" :idempotency-key \"new\"}");
    assert_eq!(crate::support::code(&refused), "request/ledger-full");
    let again = program(&setup).ask(request("interrupt", "old-0", &id, "arch").to_string());
    assert_eq!((&again["result"], &again["duplicate"]), (&json!("ok"), &json!(true)), "{again}");
}

#[test]
fn text_is_taken_though_as_many_wait_as_may() {
    let setup = setup(LONG, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let mut sender = program(&setup);
    let mut ask = |name: &str| sender.ask(request("stdin", name, &id, "arch").to_string());
    assert_eq!(ask("first")["result"], "ok");
    bridge.event("assistant/delta");
    for n in 0..edn_bridge::limits::QUEUED_MESSAGES {
        assert_eq!(ask(&format!("r-{n}"))["result"], "ok", "{n}");
    }
    assert_eq!(ask("one-too-many")["result"], "busy");
    bridge.ask("a", "abort", "{}");
    bridge.event("turn/ended");
    // The oldest one begins a turn, and makes room.
    assert_eq!(ask("one-too-many")["result"], "ok");
    bridge.event("assistant/message");
}

#[test]
fn texts_that_wait_together_are_bounded() {
    let setup = setup(LONG, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    let half = "x".repeat(edn_bridge::limits::QUEUED_BYTES / 2);
    let ask = |bridge: &mut Bridge, name: &str, text: &str| {
        let answer = bridge.ask(name, "steer", &format!("{{:message {text:?}}}"));
        at(&answer, &["ok"]).and_then(edn_bridge::value::Value::as_bool) == Some(true)
    };
    assert!(ask(&mut bridge, "first", &half) && ask(&mut bridge, "second", &half));
    assert!(!ask(&mut bridge, "one-byte-more", "y"));
    let mut sender = program(&setup);
    assert_eq!(sender.ask(request("stdin", "r-1", &id, "arch").to_string())["result"], "busy");
    let given_back = bridge.ask("i", "interrupt", "{}");
    let text = at(&given_back, &["data", "dropped-steering-text"]).and_then(|text| text.as_str()).unwrap();
    assert_eq!(text.len(), half.len() * 2 + 1);
    bridge.event("turn/ended");
    // The refusal has not used the id up.
    assert_eq!(sender.ask(request("stdin", "r-1", &id, "arch").to_string())["result"], "ok");
}

#[test]
fn text_begins_a_turn_though_as_much_waits_as_may() {
    for (texts, bytes) in
        [(2, edn_bridge::limits::QUEUED_BYTES / 2), (1, edn_bridge::limits::QUEUED_BYTES * 2)]
    {
        let setup = setup(LONG, TEAM);
        let mut bridge = setup.ready();
        let id = session_id(&mut bridge);
        bridge.ask("p", "prompt", "{:message \"go\"}");
        bridge.event("assistant/delta");
        for n in 0..texts {
            let text = "x".repeat(bytes);
            let answer = bridge.ask(&format!("f{n}"), "follow_up", &format!("{{:message {text:?}}}"));
            assert!(at(&answer, &["data", "turn-id"]).is_some(), "{answer}");
        }
        bridge.kill();
        let mut bridge = setup.ready();
        bridge.ask("s", "switch_session", &format!("{{:session-id {id:?}}}"));
        let ack = program(&setup).ask(request("stdin", "r-1", &id, "arch").to_string());
        assert_eq!(ack["result"], "ok", "{texts} of {bytes}: {ack}");
        // The model comes later: so much text is compacted first.
        bridge.event("user/message");
    }
}

#[test]
fn text_that_cannot_be_read_back_is_refused_and_is_not_there() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let folder = setup.state().join("control");
    edn_bridge::private::make_folder(&folder).unwrap();
    let text = "\u{1}".repeat(3 * 1024 * 1024);
    let path = folder.canonicalize().unwrap().join("text");
    std::fs::write(&path, &text).unwrap();
    let mut request = request("stdin", "r-1", &id, "arch");
    request.as_object_mut().unwrap().remove("content");
    request["content_ref"] = json!({ "path": path, "size_bytes": text.len(), "mime": "text/plain",
        "sha256": edn_bridge::sha256::hex(&text) });
    let mut sender = program(&setup);
    let refused = sender.ask(request.to_string());
    assert_eq!((&refused["result"], &refused["duplicate"]), (&json!("rejected"), &json!(false)), "{refused}");
    let prompt = bridge.ask("p", "prompt", &format!("{{:message \"{text}\"}}"));
    assert_eq!(crate::support::code(&prompt), "request/invalid-params");
    // A shorter one is taken with the same id: the refusal has not used it up.
    let text = "\u{1}".repeat(100 * 1024);
    std::fs::write(&path, &text).unwrap();
    request["content_ref"]["size_bytes"] = text.len().into();
    request["content_ref"]["sha256"] = edn_bridge::sha256::hex(&text).into();
    assert_eq!(sender.ask(request.to_string())["result"], "ok");
    bridge.event("assistant/message");
    bridge.kill();
    let output = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let mut bridge = setup.ready();
    bridge.ask("s", "switch_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(messages(&mut bridge).len(), 1);
    let again = program(&setup).ask(request.to_string());
    assert_eq!((&again["result"], &again["duplicate"]), (&json!("ok"), &json!(true)), "{again}");
}

#[test]
fn text_interrupts_though_its_key_displaces_an_old_one() {
    let day = jiff::SignedDuration::from_hours(24);
    let setup = setup(LONG, TEAM).arg("--durability").arg("relaxed");
    let yesterday = Setup { dir: setup.dir.clone(), script: setup.script.clone(), ..Setup::new() }
        .arg("--durability")
        .arg("relaxed")
        .env("EDN_BRIDGE_FIXED_CLOCK", "yesterday");
    let mut bridge = yesterday.ready();
    let id = session_id(&mut bridge);
    let mut sender = program(&yesterday);
    for n in 0..edn_bridge::limits::IDEMPOTENCY_KEYS {
        let mut request = request("interrupt", &format!("old-{n}"), &id, "arch");
        request["sent_at"] = (jiff::Timestamp::now() - day).to_string().into();
        assert_eq!(sender.ask(request.to_string())["result"], "ok");
    }
    bridge.finish();
    let mut bridge = setup.ready();
    bridge.ask("s", "switch_session", &format!("{{:session-id {id:?}}}"));
    let mut sender = program(&setup);
    assert_eq!(sender.ask(request("stdin", "r-1", &id, "arch").to_string())["result"], "ok");
    bridge.event("assistant/delta");
    let mut second = request("stdin", "r-2", &id, "arch");
    second["interrupt"] = true.into();
    assert_eq!(sender.ask(second.to_string())["result"], "ok");
    bridge.event("turn/ended");
    bridge.event("assistant/message");
}

#[test]
fn member_that_may_answers_a_question() {
    let call = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "touch made"}}}]}
                           {:steps [{:delta "Done."}]}]}"#;
    let team = r#"{:control {:teams [{:name "dev" :members ["arch" {:name "lead" :may [:answer]}]}]}}"#;
    let setup = setup(call, team);
    let mut bridge = setup.interactor();
    let id = session_id(&mut bridge);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = crate::support::data(&bridge.event("interaction/requested"), "interaction-id").to_owned();
    let mut program = program(&setup);
    let mut answer = |name: &str, sender: &str, decision: &str, question: &str| {
        let mut request = request("elicitation", name, &id, sender);
        request["elicitation_id"] = question.into();
        request["decision"] = decision.into();
        program.ask(request.to_string())
    };
    for (name, sender, decision, question) in [
        ("a-1", "arch", "approve", question.as_str()),
        ("a-2", "lead", "perhaps", &question),
        ("a-3", "lead", "approve", "i-none"),
    ] {
        assert_eq!(answer(name, sender, decision, question)["result"], "rejected", "{name}");
    }
    // The same request on several connections at once is taken once, and refused nowhere.
    let mut taken = request("elicitation", "a-4", &id, "lead");
    taken["elicitation_id"] = question.clone().into();
    taken["decision"] = "approve".into();
    let mut programs: Vec<_> =
        (0..4).map(|_| Program::on(UnixStream::connect(socket(&setup)).unwrap())).collect();
    programs.iter_mut().for_each(|program| program.send(taken.to_string()));
    let acks: Vec<_> = programs.iter_mut().map(|program| program.receive().unwrap()).collect();
    assert!(acks.iter().all(|ack| ack["result"] == "ok"), "{acks:?}");
    assert_eq!(acks.iter().filter(|ack| ack["duplicate"] == false).count(), 1, "{acks:?}");
    let again = answer("a-4", "lead", "approve", &question);
    assert_eq!((&again["result"], &again["duplicate"]), (&json!("ok"), &json!(true)), "{again}");
    bridge.event("tool/result");
    assert!(setup.project().join("made").exists());
}

#[test]
fn session_of_another_process_names_its_holder() {
    let setup = setup(ANSWER, TEAM);
    let mut holder = setup.ready();
    let id = session_id(&mut holder);
    holder.ask("p", "prompt", "{:message \"kept\"}");
    holder.event("assistant/message");
    let holding = socket(&setup);
    let mut other = setup.ready();
    other.ask("ping", "ping", "{}");
    let second = awaited(|| sockets(&setup).into_iter().find(|path| *path != holding));
    let mut program = Program::on(awaited(|| UnixStream::connect(&second).ok()));
    let ack = program.ask(request("stdin", "r-1", &id, "arch").to_string());
    assert_eq!(ack["result"], "not_live", "{ack}");
    assert!(ack["detail"].as_str().unwrap().contains(&holder.pid().to_string()), "{ack}");
    assert_eq!(messages(&mut holder).len(), 1);
}

#[test]
fn turn_goes_on_when_its_connection_closes() {
    let setup = setup("{:turns [{:steps [{:delta \"A\"} {:sleep-ms 300} {:delta \"B\"}]}]}", TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let mut program = program(&setup);
    program.send(request("stdin", "r", &id, "arch").to_string());
    drop(program);
    let answer = bridge.event("assistant/message").to_string();
    assert!(answer.contains("\"AB\""), "{answer}");
    // One that comes and goes ends nothing either.
    drop(UnixStream::connect(socket(&setup)).unwrap());
    assert!(bridge.ask("p", "ping", "{}").to_string().contains(":pong true"));
}

/// Passes lines between a sender and a bridge, and loses the first acknowledgement.
fn lossy(bridge: PathBuf, path: &Path) -> Arc<Mutex<usize>> {
    let listener = UnixListener::bind(path).unwrap();
    let lost = Arc::new(Mutex::new(0));
    let count = lost.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut sender = stream.unwrap();
            let mut receiver = UnixStream::connect(&bridge).unwrap();
            let mut answers = BufReader::new(receiver.try_clone().unwrap());
            let count = count.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(sender.try_clone().unwrap()).lines().map_while(Result::ok) {
                    writeln!(receiver, "{line}").unwrap();
                    let mut answer = String::new();
                    answers.read_line(&mut answer).unwrap();
                    let mut count = count.lock().unwrap();
                    if line.contains("control.stdin") && *count == 0 {
                        *count += 1;
                        continue;
                    }
                    let _ = sender.write_all(answer.as_bytes());
                }
            });
        }
    });
    lost
}

#[test]
fn retry_after_a_lost_acknowledgement_is_a_duplicate() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let path = setup.dir.path().join("lossy.sock");
    let lost = lossy(socket(&setup), &path);
    let mut arguments = as_arch("stdin", &id, &["--socket", path.to_str().unwrap()]);
    let timeout = arguments.iter().position(|argument| *argument == "60000").unwrap();
    arguments[timeout] = "3000";
    let (status, ack, err) = send(&setup, &arguments, "once");
    assert_eq!((status, &ack["result"], &ack["duplicate"]), (0, &json!("ok"), &json!(true)), "{err}");
    assert_eq!(*lost.lock().unwrap(), 1);
    bridge.event("assistant/message");
    assert_eq!(messages(&mut bridge).len(), 1);
}

#[test]
fn key_is_known_after_the_process_was_killed() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    socket(&setup);
    let arguments = as_arch("stdin", &id, &["--request-id", "r-1"]);
    assert_eq!(send(&setup, &arguments, "once").0, 0);
    bridge.event("assistant/message");
    let pid = rustix::process::Pid::from_raw(i32::try_from(bridge.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    bridge.wait();
    let left = sockets(&setup);
    assert_eq!(left.len(), 1, "a killed process leaves its socket");
    let mut bridge = setup.ready();
    awaited(|| (sockets(&setup).len() == 2).then_some(()));
    let switched = bridge.ask("s", "switch_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(text(&switched, "kind"), "", "{switched}");
    let (status, ack, err) = send(&setup, &arguments, "once");
    assert_eq!((status, &ack["duplicate"]), (0, &json!(true)), "{ack} {err}");
    assert!(!left[0].exists(), "the sender removes the dead socket");
    assert_eq!(messages(&mut bridge).len(), 1);
}

#[test]
fn large_text_arrives_whole() {
    let setup = setup("{:turns [{:steps [{:delta \"Done.\"}]}]}", TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    socket(&setup);
    let text = format!("{}\u{e4}", "x".repeat(1_100_000));
    let (status, ack, err) = send(&setup, &as_arch("stdin", &id, &[]), &text);
    assert_eq!(status, 0, "{ack} {err}");
    assert!(err.contains("bytes; receivers recommend 65536 at most"), "{err}");
    let shown = bridge.event("user/message").to_string();
    assert!(shown.contains(&text[text.len() - 100..]), "{}", shown.len());
    assert!(shown.len() < 2 * text.len(), "a long text stands in its event once");
    assert_eq!(std::fs::read_dir(setup.state().join("control")).unwrap().count(), 0);
}

#[test]
fn named_socket_serves_the_same_and_ends_with_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("atm/atm-daemon.sock");
    let config = format!(
        "{{:control {{:teams [{{:name \"dev\" :members [\"arch\"]}}] :socket {:?}}}}}",
        path.to_str().unwrap()
    );
    let setup = setup(ANSWER, &config);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let mut program = Program::on(awaited(|| UnixStream::connect(&path).ok()));
    assert_eq!(program.ask(request("stdin", "r", &id, "arch").to_string())["result"], "ok");
    // A second bridge goes on without it.
    let mut second = setup.ready();
    assert!(second.ask("p", "ping", "{}").to_string().contains(":pong true"));
    assert!(second.finish().2.contains("no socket for control"));
    assert!(path.exists());
    bridge.finish();
    assert!(!path.exists() && sockets(&setup).is_empty());
    assert_eq!(program.receive(), None);
}

#[test]
fn hostile_lines_disturb_neither_session_nor_editor() {
    let setup = setup(ANSWER, TEAM);
    let mut bridge = setup.ready();
    let id = session_id(&mut bridge);
    let path = socket(&setup);
    let good = request("stdin", "good", &id, "arch");
    let mut kinds: Vec<Vec<u8>> = vec![
        b"\x00\xff".to_vec(),
        b"{\"command\":".to_vec(),
        b"[[[[[[[[[[[[[[[[[[[[[[[[".to_vec(),
        json!({ "version": 1, "request_id": "e", "command": "launch", "payload": {} })
            .to_string()
            .into_bytes(),
    ];
    for (key, value) in [
        ("v", json!(2)),
        ("sender", json!("mallory")),
        ("team", json!("none")),
        ("agent_id", json!("../../etc/passwd")),
        ("agent_id", json!("x".repeat(10_000))),
        ("sent_at", json!("2000-01-01T00:00:00Z")),
        ("sent_at", json!("9999-01-01T00:00:00Z")),
        ("content", json!("  ")),
        (
            "content_ref",
            json!({ "path": "/etc/passwd", "size_bytes": 1, "sha256": "0".repeat(64), "mime": "text/plain" }),
        ),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        if key == "content_ref" {
            bad.as_object_mut().unwrap().remove("content");
        }
        kinds.push(bad.to_string().into_bytes());
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut program = Program::on(UnixStream::connect(&path).unwrap());
                for _ in 0..40 {
                    for line in &kinds {
                        let answer = program.ask(line);
                        let result = answer["result"].as_str().unwrap_or("error");
                        assert!(["error", "rejected", "not_found"].contains(&result), "{answer}");
                    }
                }
            });
        }
        for n in 0..50 {
            assert!(bridge.ask(&n.to_string(), "ping", "{}").to_string().contains(":pong true"));
        }
    });
    assert!(messages(&mut bridge).is_empty());
    let mut program = Program::on(UnixStream::connect(&path).unwrap());
    assert_eq!(program.ask(request("stdin", "good", &id, "arch").to_string())["result"], "ok");
    bridge.event("assistant/message");
    assert_eq!(bridge.finish().0.code(), Some(0));
}

/// Connects to each control socket in the folder that is its first argument, and prints the first line that it reads.
const CONNECT: &str = r#"
import glob, socket, sys
for path in glob.glob(sys.argv[1] + "/*.control.sock"):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.settimeout(30)
    print("got", s.makefile("rb").readline().decode())
"#;

/// A command that a model runs reaches no control socket, and so neither speaks to its own session nor answers for it.
#[test]
#[cfg(target_os = "linux")]
fn command_of_a_session_is_refused() {
    let setup = setup("", TEAM).arg("--yolo");
    std::fs::write(setup.project().join("connect.py"), CONNECT).unwrap();
    let call = format!("python3 connect.py {}/run", setup.state().display());
    let setup = setup.script(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {call:?}}}}}}}]}} {{:steps [{{:delta \"end\"}}]}}]}}"
    ));
    let mut bridge = setup.ready();
    socket(&setup);
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let result = bridge.event("tool/result").to_string();
    assert!(result.contains("PERMISSION_DENIED"), "{result}");
}
