//! Editors come, are killed, sleep and come back; what runs goes on.

use edn_bridge::value::{Owned, Value};

use crate::fixture::{Daemon, prompt, session_of, signal, until};
use crate::support::{self, Bridge, Setup, at, code, data, is_event, wait_until};

#[test]
fn turn_goes_on_when_its_editor_is_killed() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let told = bridge.handshake();
    assert_eq!(
        at(&told, &["data", "server-info", "outlives-clients"]).and_then(Value::as_bool),
        Some(true),
        "{told}"
    );
    let session = prompt(&mut bridge);
    let pid = daemon.pid();
    wait_until("the command did not begin", || daemon.wrote("began"));
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    assert_eq!(at(&daemon.at_work()[0], &["session"]).and_then(Value::as_str), Some(&*session));
    let mut bridge = daemon.editor_at(&session);
    let query = "{:query \"[{:psi.process/at-work [:psi.at-work/session-id :psi.at-work/phase]}]\"}";
    let seen = bridge.ask("q", "query_eql", query).to_string();
    assert!(seen.contains(&session) && seen.contains("streaming"), "{seen}");
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the turn did not end", || daemon.at_work().is_empty());
    let messages = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\""), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    assert_eq!(daemon.pid(), pid);
}

/// Kills editors in the middle of turns; `EDN_BRIDGE_EDITOR_KILLS` sets how many.
#[test]
fn no_turn_notices_that_its_editor_is_killed() {
    let kills: usize =
        std::env::var("EDN_BRIDGE_EDITOR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let script =
        "{:turns [{:steps [{:deltas 300 :of \"x\"} {:sleep-ms 20} {:deltas 300 :of \"y\"}]}] :then :cycle}";
    let daemon = Daemon::new(Setup::new().script(script));
    let mut bridge = daemon.setup.interactor();
    let session = session_of(&mut bridge);
    let pid = daemon.pid();
    for kill in 0..kills {
        let params = format!("{{:message \"{kill}\" :idempotency-key \"k{kill}\"}}");
        assert_eq!(code(&bridge.ask("p", "prompt", &params)), "");
        // At another point each time. A busy machine merges deltas, so that the characters count.
        let mut characters = 0;
        while characters < (kill * 37) % 500 {
            characters += data(&bridge.event("assistant/delta"), "text").len();
        }
        bridge.kill();
        bridge = daemon.editor_at(&session);
        wait_until("the turn does not end", || daemon.at_work().is_empty());
        // The same key again changes nothing.
        assert_eq!(code(&bridge.ask("p", "prompt", &params)), "");
    }
    let mut messages: Vec<Owned> = Vec::new();
    while messages.len() < kills * 2 {
        let before = messages.first().and_then(|first| first.get("id")).map(|id| format!(":before {id}"));
        let page = bridge.ask("m", "get_messages", &format!("{{{}}}", before.unwrap_or_default()));
        let page = at(&page, &["data", "messages"]).and_then(Value::as_slice).unwrap();
        assert!(!page.is_empty(), "{} messages", messages.len());
        messages.splice(0..0, page.iter().cloned());
    }
    assert_eq!(messages.len(), kills * 2, "{messages:?}");
    for (place, message) in messages.iter().enumerate() {
        let text = message.to_string();
        let expected = match place % 2 {
            0 => format!("\"{}\"", place / 2),
            _ => format!("{}{}", "x".repeat(300), "y".repeat(300)),
        };
        assert!(text.contains(&expected), "{place}: {text}");
    }
    assert_eq!(daemon.pid(), pid);
}

#[test]
fn editor_that_comes_back_gets_what_it_missed() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    assert_eq!(code(&bridge.ask("f", "follow_up", "{:message \"later\"}")), "");
    wait_until("the command did not begin", || daemon.wrote("began"));
    let number = |frame: &Owned| at(frame, &["data", "offset"]).and_then(Value::as_i64).unwrap();
    let seen = bridge.event("session/entry");
    let entry = at(&seen, &["data", "entry", "id"]).and_then(Value::as_str).unwrap().to_owned();
    bridge.kill();
    // The turn and the queued message go on while nobody is there.
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the turns did not end", || daemon.at_work().is_empty());
    let mut bridge = daemon.setup.interactor();
    let since = format!(
        "{{:topics [\"session/entry\" \"session/synced\"] :since {{:session-id {session:?} :offset {} \
         :entry-id {entry:?}}}}}",
        number(&seen)
    );
    let answer = bridge.ask("s", "subscribe", &since);
    let missed = at(&answer, &["data", "replaying"]).and_then(Value::as_i64).unwrap();
    let mut offset = number(&seen);
    let mut texts = String::new();
    for _ in 0..missed {
        let next = bridge.until(|frame| is_event(frame, "session/entry") && number(frame) > number(&seen));
        offset += 1;
        assert_eq!(number(&next), offset, "{next}");
        texts.push_str(&next.to_string());
    }
    assert_eq!(number(&bridge.event("session/synced")), offset);
    assert!(texts.contains("\"later\"") && texts.contains("\"end\""), "{texts}");
    assert_eq!(std::fs::read_to_string(daemon.file("began")).unwrap(), "began\nbegan\n");
}

#[test]
fn editor_that_sleeps_stops_no_turn() {
    use std::io::Write as _;
    // More than the outbox and the pipe hold.
    let (pieces, piece) = (384, "x".repeat(8 * 1024));
    let daemon = Daemon::new(
        Setup::new()
            .script(&format!("{{:turns [{{:steps [{{:deltas {pieces} :of {piece:?}}}]}}] :then :cycle}}"))
            .arg("--durability")
            .arg("relaxed"),
    );
    let mut command = daemon.setup.command();
    let mut editor = command
        .arg("serve")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = editor.stdin.take().unwrap();
    let request =
        |op: &str, params: &str| format!("{{:id {op:?} :kind :request :op {op:?} :params {params}}}\n");
    let client = edn_bridge::client::frame::client_info("t", "1", &["interactor"]);
    let mut asked = request("handshake", &client) + &request("subscribe", "{}");
    asked += &request("prompt", "{:message \"go\"}");
    for number in 0..4 {
        asked += &request("follow_up", &format!("{{:message \"{number}\"}}"));
    }
    // It reads nothing of what it is told.
    stdin.write_all(asked.as_bytes()).unwrap();
    let session = || at(daemon.at_work().first()?, &["session"]).and_then(Value::as_str).map(str::to_owned);
    let known = std::cell::OnceCell::new();
    wait_until("nothing runs", || session().is_some_and(|session| known.set(session).is_ok()));
    let other = std::cell::RefCell::new(daemon.editor_at(known.get().unwrap()));
    wait_until("the turns do not go on", || {
        let state = other.borrow_mut().ask("state", "get_state", "{}").to_string();
        state.contains(":pending-message-count 0") && state.contains(":phase \"idle\"")
    });
    assert_eq!(daemon.clients(), 2, "it is still there");
    editor.kill().unwrap();
    editor.wait().unwrap();
}

#[test]
fn each_editor_begins_with_a_session_of_its_own() {
    let daemon = Daemon::calling(&[&until("go")]);
    let (mut one, mut other) = (daemon.setup.interactor(), daemon.setup.interactor());
    let (first, second) = (session_of(&mut one), session_of(&mut other));
    assert_ne!(first, second);
    assert_eq!(daemon.engines().len(), 1, "{:?}", daemon.engines());
    // An empty session goes with its editor.
    one.close_input();
    assert!(one.wait().success());
    let open = |bridge: &mut Bridge| {
        let listed = bridge.ask("l", "list_sessions", "{}").to_string();
        listed.contains(&first)
    };
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while open(&mut other) {
        assert!(std::time::Instant::now() < deadline, "the empty session stays");
    }
}

#[test]
fn end_of_serve_ends_its_connection_though_the_pipes_stay() {
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    assert_eq!(daemon.clients(), 1);
    // The editor's ends of the pipes are open on.
    signal(bridge.pid().into(), "-TERM");
    wait_until("the connection stays", || daemon.clients() == 0);
    while bridge.line_or_end().is_some() {}
}
