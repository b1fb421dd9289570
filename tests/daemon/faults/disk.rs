//! Faults: a full disk.

use std::path::Path;
use std::process::Command;

use super::{ECHO, ENDLESS, journal, stop_reason};
use crate::support::disk::{limited, on_small_disk, seen};
use crate::support::{
    self, Bridge, Setup, accept, at, code, control, data, end_of_turn, is_event, kind, text,
};

#[test]
fn full_disk_is_reported_and_keeps_acknowledged_entries() {
    let setup = Setup::new().script(ECHO);
    // No file may grow beyond this, which a process meets as it meets a full disk.
    let mut bridge = limited(&setup, "ulimit -f 64");
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"error\"]}");
    let message = "x".repeat(1000);
    let mut kept = 0;
    let refused = loop {
        let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
        if kind(&answer) == "error" {
            break answer;
        }
        let end = bridge.until(|frame| is_event(frame, "assistant/message") || is_event(frame, "error"));
        if is_event(&end, "error") || stop_reason(&end) == "error" {
            continue;
        }
        kept += 1;
        assert!(kept < 100, "the disk never fills");
    };
    assert_eq!(code(&refused), "runtime/failed");
    assert!(!text(&refused, "error-message").is_empty());
    assert_eq!(kind(&bridge.ask("after", "get_state", "{}")), "response");
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(kept > 2);
    // What was acknowledged is there when the disk has room again.
    let text = journal(&setup);
    assert!(text.matches(&message).count() >= 2 * kept, "{kept} turns");
    let output = setup.command().args(["sessions", "verify"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn fill(bridge: &mut Bridge, setup: &Setup) {
    let file = setup.state().join("fill");
    let filled = bridge.ask("fill", "bash", &format!("{{:command \"cat /dev/zero > {}\"}}", file.display()));
    assert!(data(&filled, "output").contains("No space left"), "{filled}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn idle(bridge: &mut Bridge) {
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
}

#[test]
fn really_full_disk_loses_only_new_data() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:echo :last-user}]} \
         {:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran > ran\"}}}]} \
         {:steps [{:delta \"end\"}]} {:steps [{:echo :last-user}]}] :then :repeat-last}",
    );
    let config = setup.dir.path().join("config.edn");
    std::fs::write(
        &config,
        "{:providers {\"k\" {:name \"Keyed\" :base-url \"http://127.0.0.1:1\" :key-variables [\"NO_SUCH_KEY\"] \
         :key-url \"https://k.example/keys\"}}}",
    )
    .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let Some(mut bridge) = on_small_disk(&setup, &setup.state(), "256k") else { return };
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("p", "prompt", "{:message \"find me\"}");
    end_of_turn(&mut bridge);
    idle(&mut bridge);
    bridge.ask("l0", "login_begin", "{:provider \"k\"}");
    assert_eq!(kind(&bridge.ask("l1", "login_complete", "{:input \"sk-old\"}")), "response");
    fill(&mut bridge, &setup);
    let state = seen(&bridge, &setup.state());

    // The journal: the message is refused, and told why and what to do.
    let long = format!("{{:message {:?}}}", "x".repeat(8192));
    let refused = bridge.ask("q", "prompt", &long);
    assert_eq!(code(&refused), "runtime/failed", "{refused}");
    assert!(text(&refused, "error-message").contains("Make room and try again"), "{refused}");

    // The audit: what was answered holds; the record is missing, and no half of one is left.
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
    idle(&mut bridge);
    assert!(setup.project().join("ran").exists());
    assert_eq!(read(&state.join("audit.edn")), "");

    // Notes.
    bridge.ask("n", "command", &format!("{{:text {:?}}}", format!("/remember {}", "y".repeat(8000))));
    let told = bridge.event("command-result");
    assert_eq!(data(&told, "type"), "error", "{told}");
    let notes = support::files(&state.join("memory"));
    assert!(notes.iter().all(|file| read(file).is_empty()), "{notes:?}");

    // The index: the search reads the files instead.
    let found = bridge.ask("f", "list_sessions", "{:text \"find me\" :scope \"all\"}");
    assert!(found.to_string().contains("find me"), "{found}");

    // Credentials: the old ones stay.
    bridge.ask("l2", "login_begin", "{:provider \"k\"}");
    let login = bridge.ask("l3", "login_complete", "{:input \"sk-new\"}");
    assert_eq!(kind(&login), "error", "{login}");
    assert!(read(&state.join("credentials.edn")).contains("sk-old"));

    // An output that is too long to show is cut, says so, and leaves no file.
    let output = bridge.ask("o", "bash", "{:command \"seq 1 200000\"}");
    assert_eq!(at(&output, &["data", "truncated"]).and_then(|flag| flag.as_bool()), Some(true));
    assert_eq!(data(&output, "handle"), "");
    assert!(data(&output, "output").contains("could not be kept"));
    assert!(support::files(&state.join("outputs")).is_empty());

    // With room, everything goes on where it was.
    std::fs::remove_file(state.join("fill")).unwrap();
    let answer = bridge.ask("again", "prompt", &long);
    assert_eq!(kind(&answer), "response", "{answer}");
    assert_eq!(stop_reason(&end_of_turn(&mut bridge)), "end-turn");
    idle(&mut bridge);
    let output = bridge.ask("o", "bash", "{:command \"seq 1 20000\"}");
    assert!(!data(&output, "handle").is_empty(), "{output}");
    let folder = setup.dir.path().join("kept");
    let copied = Command::new("cp").arg("-r").arg(&state).arg(&folder).status().unwrap();
    assert!(copied.success());
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
    assert!(errors.contains("audit record could not be written"), "{errors}");
    let verified = Command::new(env!("CARGO_BIN_EXE_edn-bridge"))
        .arg("--state-dir")
        .arg(&folder)
        .args(["sessions", "verify"])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

/// The result of a request of the control protocol, and whether it was known.
fn acked(bridge: &mut Bridge, params: &str) -> (String, bool) {
    let answer = bridge.ask("c", "control", params);
    let ack = at(&answer, &["data", "ack"]).unwrap();
    (text(ack, "result").to_owned(), ack.get("duplicate").and_then(|flag| flag.as_bool()).unwrap())
}

#[test]
fn full_disk_uses_no_id_up_and_does_nothing() {
    let setup = Setup::new().script(ENDLESS).team();
    let Some(mut bridge) = on_small_disk(&setup, &setup.state(), "256k") else { return };
    bridge.handshake();
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    let state = bridge.ask("g", "get_state", "{}");
    let agent = text(at(&state, &["data", "state"]).unwrap(), "session-id").to_owned();
    fill(&mut bridge, &setup);

    let long = control("long", &agent, Some(&"x".repeat(8192)));
    assert_eq!(acked(&mut bridge, &long), ("internal_error".to_owned(), false));
    // What is refused has done nothing. The record of it may fit into the last page.
    let (first, _) = acked(&mut bridge, &control("stop", &agent, None));
    assert!(["ok", "internal_error"].contains(&&*first), "{first}");
    if first == "internal_error" {
        let state = bridge.ask("g", "get_state", "{}").to_string();
        assert!(
            state.contains(":is-streaming true") && state.contains(":interrupt-pending false"),
            "{state}"
        );
        // A client's own request waits for no disk.
        bridge.ask("a", "abort", "{}");
    }
    bridge.event("turn/ended");

    std::fs::remove_file(seen(&bridge, &setup.state()).join("fill")).unwrap();
    assert_eq!(acked(&mut bridge, &long), ("ok".to_owned(), false));
    assert_eq!(acked(&mut bridge, &long), ("ok".to_owned(), true));
    let messages = bridge.ask("m", "get_messages", "{}").to_string();
    assert_eq!(messages.matches(&"x".repeat(8192)).count(), 1);
}

#[test]
fn answer_on_full_disk_leaves_the_question_open() {
    let call = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "touch made"}}}]}
                           {:steps [{:delta "Done."}]}]}"#;
    let setup = Setup::new().script(call).team();
    let Some(mut bridge) = on_small_disk(&setup, &setup.state(), "256k") else { return };
    bridge.ask("h", "handshake", &edn_bridge::client::frame::client_info("t", "1", &["interactor"]));
    bridge.ask("s", "subscribe", "{}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let question = data(&bridge.event("interaction/requested"), "interaction-id").to_owned();
    let state = bridge.ask("g", "get_state", "{}");
    let agent = text(at(&state, &["data", "state"]).unwrap(), "session-id").to_owned();
    fill(&mut bridge, &setup);

    let answer = |id: &str| {
        control(id, &agent, None)
            .replace("control.interrupt.request", "control.elicitation.request")
            .replace("\"ann\"", "\"lead\"")
            .replace(":signal \"interrupt\"", &format!(":elicitation-id {question:?} :decision \"approve\""))
    };
    // Texts take what is left of the last page.
    let mut refused =
        |n: &usize| acked(&mut bridge, &control(&format!("t-{n}"), &agent, Some("x"))).0 != "ok";
    assert!((0..60).any(|n| refused(&n)));
    assert_eq!(acked(&mut bridge, &answer("a")), ("internal_error".to_owned(), false));
    assert!(!setup.project().join("made").exists());
    std::fs::remove_file(seen(&bridge, &setup.state()).join("fill")).unwrap();
    assert_eq!(acked(&mut bridge, &answer("a")), ("ok".to_owned(), false));
    bridge.event("tool/result");
    assert!(setup.project().join("made").exists());
}

#[test]
fn edit_on_full_disk_is_made_whole_or_refused() {
    // Each round adds a kilobyte to one of two files, and asks for both at once.
    let edit = |file: &str| {
        format!(
            "{{:tool-call {{:name \"edit\" :arguments {{:path \"disk/{file}\" :edits [{{:old \"END\" :new \"{}\\nEND\"}}]}}}}}}",
            "x".repeat(1000)
        )
    };
    let script = format!(
        "{{:turns [{{:steps [{} {} {}]}} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}",
        edit("a"),
        edit("b"),
        edit("a")
    );
    let setup = Setup::new().script(&script).arg("--yolo");
    let disk = setup.project().join("disk");
    let Some(mut bridge) = on_small_disk(&setup, &disk, "128k") else { return };
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"tool/result\" \"session/updated\"]}");
    let disk = seen(&bridge, &disk);
    for file in ["a", "b"] {
        std::fs::write(disk.join(file), "END\n").unwrap();
    }
    let (mut made, mut refused) = ([0, 0], 0);
    while refused < 3 {
        bridge.ask("p", "prompt", "{:message \"go\"}");
        for file in [0, 1, 0] {
            let result = bridge.event("tool/result");
            let told = data(&result, "result-text");
            if told.starts_with("Edited") {
                made[file] += 1;
            } else {
                assert!(told.contains("No space left"), "{told}");
                refused += 1;
            }
        }
        idle(&mut bridge);
        assert!(made[0] < 200, "the disk never fills");
    }
    for (file, made) in ["a", "b"].into_iter().zip(made) {
        let text = read(&disk.join(file));
        assert_eq!(text.lines().filter(|line| line.len() == 1000).count(), made, "{file}");
        assert!(text.ends_with("\nEND\n"), "{file} is cut");
    }
    assert_eq!(support::files(&disk).len(), 2, "{:?}", support::files(&disk));
    let (status, _, errors) = bridge.finish();
    assert_eq!(status.code(), Some(0), "{errors}");
}
