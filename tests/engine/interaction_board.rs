//! Typed questions over the real wire: dialogs, runs without an interactor, withdrawal, audit.

use crate::support;

use edn_bridge::interaction::audit;
use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup, at, code, data, end_of_turn, kind};

const TWO: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo $A"}}}
                                       {:tool-call {:id "b" :name "bash" :arguments {:command "echo $B"}}}]}
                              {:steps [{:delta "end"}]}]}"#;
const ASK: &str = r#"{:turns [{:steps [{:tool-call {:name "ask-user" :arguments {:question "Which?"}}}]}
                              {:steps [{:tool-call {:name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}
                              {:steps [{:delta "end"}]}]}"#;

/// A connection that requests `features`, and is subscribed to nothing.
fn client(setup: &Setup, features: &str) -> Bridge {
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        &format!(
            "{{:client-info {{:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [{features}]}}}}"
        ),
    );
    bridge
}

fn with(setup: &Setup, features: &str, topics: &str) -> Bridge {
    let mut bridge = client(setup, features);
    bridge.ask("all", "subscribe", "{}");
    if !topics.is_empty() {
        bridge.ask("some", "subscribe", &format!("{{:topics [{topics}]}}"));
    }
    bridge
}

fn go(bridge: &mut Bridge) -> Owned {
    bridge.ask("p", "prompt", "{:message \"go\"}")
}

fn respond(bridge: &mut Bridge, question: &Owned, rest: &str) -> Owned {
    let id = data(question, "interaction-id");
    bridge.ask("r", "interaction_respond", &format!("{{:interaction-id {id:?} {rest}}}"))
}

#[test]
fn questions_arrive_one_at_a_time_in_call_order() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    let turn = go(&mut bridge);
    let mut asked = Vec::new();
    for id in ["a", "b"] {
        let question = bridge.event("interaction/requested");
        assert_eq!(at(&question, &["data", "payload", "tool-id"]).unwrap().as_str(), Some(id));
        assert_eq!(data(&question, "correlation-id"), data(&turn, "turn-id"));
        let accepted = respond(
            &mut bridge,
            &question,
            ":status \"accepted\" :value {:outcome \"approve\" :scope \"once\"}",
        );
        assert_eq!(kind(&accepted), "response");
        let told = bridge.event("interaction/answered");
        assert_eq!((data(&told, "status"), data(&told, "ext-id")), ("accepted", "connection-1"));
        asked.push(question);
    }
    end_of_turn(&mut bridge);
    for question in asked {
        let late = respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"deny\"}");
        assert_eq!(code(&late), "request/interaction-already-answered");
    }
    assert_eq!(
        code(&bridge.ask("r", "interaction_respond", "{:interaction-id \"none\" :status \"cancelled\"}")),
        "request/not-found"
    );
    let file = audit::path(&setup.state());
    assert_eq!(audit::verify(&file).unwrap(), 2);
    let records = std::fs::read_to_string(file).unwrap();
    assert!(records.contains(":outcome \"approve\"") && records.contains(data(&turn, "turn-id")));
}

#[test]
fn audit_record_has_tool_scope_and_client() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    for scope in ["once", "session"] {
        let question = bridge.event("interaction/requested");
        respond(
            &mut bridge,
            &question,
            &format!(":status \"accepted\" :value {{:outcome \"approve\" :scope {scope:?}}}"),
        );
    }
    end_of_turn(&mut bridge);
    let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
    for (record, scope) in records.lines().zip(["once", "session"]) {
        let record = edn_bridge::edn::read_one(record.as_bytes()).unwrap();
        let text = |key: &str| record.get(key).and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
        assert_eq!((text("tool"), text("scope")), ("bash".to_owned(), scope.to_owned()));
        assert_eq!(text("transport"), "stdio");
        assert!(!text("client").is_empty());
    }
}

#[test]
fn audit_record_has_request_masked_and_bounded() {
    let key = "sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {{:id \"a\" :name \"bash\" :arguments {{:command \"true {key}\n {}\"}}}}}}]}} \
         {{:steps [{{:delta \"end\"}}]}}]}}",
        "x".repeat(1000)
    );
    let setup = Setup::new().script(&script);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    respond(&mut bridge, &question, ":status \"cancelled\"");
    end_of_turn(&mut bridge);
    let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
    assert!(!records.contains("aaaaaaaa"), "{records}");
    let record = edn_bridge::edn::read_one(records.as_bytes()).unwrap();
    let request = record.get("request").and_then(Value::as_str).unwrap();
    assert!(request.starts_with("true ") && request.contains(" xxx"), "{request}");
    assert_eq!(request.chars().count(), 200);
}

#[test]
fn unknown_key_of_an_answer_is_ignored() {
    let mut bridge = Setup::new().script(TWO).interactor();
    go(&mut bridge);
    for _ in 0..2 {
        let question = bridge.event("interaction/requested");
        let answer = respond(
            &mut bridge,
            &question,
            ":status \"accepted\" :value {:outcome \"approve\" :scope \"once\" :later true}",
        );
        assert_eq!(at(&answer, &["ok"]).and_then(Value::as_bool), Some(true), "{answer}");
    }
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
}

#[test]
fn error_repeats_the_start_of_a_long_name() {
    let mut bridge = Setup::new().script(TWO).ready();
    let name = "x".repeat(100_000);
    for (op, params) in [
        ("fork", format!("{{:entry-id {name:?}}}")),
        ("switch_session", format!("{{:session-id {name:?}}}")),
        ("get_state", format!("{{:session-id {name:?}}}")),
        ("interaction_respond", format!("{{:interaction-id {name:?} :status \"cancelled\"}}")),
        ("set_model", format!("{{:provider {name:?} :model-id {name:?}}}")),
        ("login_begin", format!("{{:provider {name:?}}}")),
        ("read_output", format!("{{:output-id {name:?}}}")),
        ("inspect_background_job", format!("{{:job-id {name:?}}}")),
        ("set_mode", format!("{{:mode {name:?}}}")),
    ] {
        let refused = bridge.ask("e", op, &params).to_string();
        assert!(refused.contains(":error-code") && refused.len() < 2000, "{op}: {} bytes", refused.len());
    }
}

#[test]
fn who_does_not_answer_sees_the_end_of_a_question_alone() {
    let setup = Setup::new().script(TWO);
    // It answers plain dialogs, and no typed questions, though it is subscribed to them.
    let topics = r#""interaction/requested" "interaction/answered" "ui/dialog-requested""#;
    let mut bridge = with(&setup, "", topics);
    go(&mut bridge);
    for _ in 0..2 {
        let dialog = bridge.event("ui/dialog-requested");
        let id = data(&dialog, "dialog-id");
        bridge.ask("c", "cancel_dialog", &format!("{{:dialog-id {id:?}}}"));
        bridge.event("interaction/answered");
    }
    end_of_turn(&mut bridge);
    assert!(!bridge.told().contains(":event \"interaction/requested\""), "{}", bridge.told());
}

#[test]
fn question_open_at_a_kill_is_recorded_at_next_start() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    // A second process beside it leaves the open question alone.
    setup.interactor().finish();
    assert!(!audit::path(&setup.state()).exists());
    bridge.kill();
    for _ in 0..2 {
        setup.interactor().finish();
        let records = audit::newest(&audit::path(&setup.state()), 10);
        let [record] = records.as_slice() else { panic!("{records:?}") };
        let text = |key: &str| record.get_keyword(key).and_then(Value::as_str).unwrap_or_default();
        assert_eq!(text("interaction-id"), data(&question, "interaction-id"));
        assert_eq!((text("kind"), text("tool"), text("outcome")), ("approve", "bash", "cut-off"));
        assert_eq!(text("record"), "Interaction");
    }
}

#[test]
fn removed_or_changed_audit_record_is_found() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    for _ in 0..2 {
        let question = bridge.event("interaction/requested");
        respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"deny\"}");
    }
    end_of_turn(&mut bridge);
    bridge.finish();
    let verify = || {
        let output = setup.command().args(["sessions", "verify"]).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (well, told) = verify();
    assert!(well && told.contains("2 records, whole"), "{told}");
    let file = audit::path(&setup.state());
    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    for (what, text) in [
        ("the first taken out", format!("{}\n", lines[1])),
        ("the last taken out", format!("{}\n", lines[0])),
        ("one changed", whole.replacen("\"deny\"", "\"approve\"", 1)),
        ("the two exchanged", format!("{}\n{}\n", lines[1], lines[0])),
        ("all taken out", String::new()),
    ] {
        std::fs::write(&file, text).unwrap();
        let (well, told) = verify();
        assert!(!well, "{what}: {told}");
    }
    std::fs::remove_file(&file).unwrap();
    let (well, told) = verify();
    assert!(!well, "the file taken away: {told}");
    std::fs::write(&file, whole).unwrap();
    assert!(verify().0);
}

#[test]
fn denied_call_does_not_stop_its_sibling() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    let first = bridge.event("interaction/requested");
    respond(&mut bridge, &first, ":status \"cancelled\" :note \"no time\"");
    let second = bridge.event("interaction/requested");
    respond(&mut bridge, &second, ":status \"accepted\" :value {:outcome \"approve\" :scope \"session\"}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
    // The result of the first may have come before the second was asked about.
    let results: Vec<&String> =
        bridge.transcript.iter().filter(|line| line.contains(":event \"tool/result\"")).collect();
    assert_eq!(results.len(), 2);
    assert!(results[0].contains("no time") && results[0].contains(":is-error true"), "{}", results[0]);
    assert!(
        results[1].contains(":tool-id \"b\"") && results[1].contains(":is-error false"),
        "{}",
        results[1]
    );
}

#[test]
fn question_ends_with_its_turn() {
    for (op, reason) in [("abort", "aborted"), ("interrupt", "interrupted")] {
        let setup = Setup::new().script(TWO);
        let mut bridge = setup.interactor();
        go(&mut bridge);
        let question = bridge.event("interaction/requested");
        bridge.ask("stop", op, "{}");
        let told = bridge.event("interaction/answered");
        assert_eq!((data(&told, "status"), data(&told, "ext-id")), ("cancelled", "core"));
        assert_eq!(data(&end_of_turn(&mut bridge), "stop-reason"), reason);
        let late = respond(&mut bridge, &question, ":status \"cancelled\"");
        assert_eq!(code(&late), "request/interaction-already-answered");
        assert!(!bridge.told().contains(":event \"tool/executing\""));
    }
}

#[test]
fn dialog_connection_answers_questions() {
    let setup = Setup::new().script(ASK);
    let mut bridge = with(&setup, "", "\"ui/dialog-requested\"");
    assert_eq!(
        code(&bridge.ask("d", "resolve_dialog", "{:dialog-id \"x\" :result true}")),
        "request/no-active-dialog"
    );
    go(&mut bridge);
    let input = bridge.event("ui/dialog-requested");
    assert_eq!((data(&input, "kind"), data(&input, "title")), ("input", "Which?"));
    let id = data(&input, "dialog-id").to_owned();
    assert_eq!(
        code(&bridge.ask("d", "resolve_dialog", "{:dialog-id \"x\" :result \"y\"}")),
        "request/dialog-id-mismatch"
    );
    let wrong = bridge.ask("d", "resolve_dialog", &format!("{{:dialog-id {id:?} :result true}}"));
    assert_eq!(code(&wrong), "request/invalid-params");
    bridge.ask("d", "resolve_dialog", &format!("{{:dialog-id {id:?} :result \"the green one\"}}"));
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "the green one");
    let select = bridge.event("ui/dialog-requested");
    assert_eq!(data(&select, "kind"), "select");
    let options = at(&select, &["data", "options"]).unwrap().as_slice().unwrap();
    let blue = options.iter().find(|option| support::text(option, "label") == "blue").unwrap();
    let params =
        format!("{{:dialog-id {:?} :result {:?}}}", data(&select, "dialog-id"), support::text(blue, "value"));
    bridge.ask("d", "resolve_dialog", &params);
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "blue");
    let late = bridge.ask("d", "resolve_dialog", &format!("{{:dialog-id {id:?} :result \"y\"}}"));
    assert_eq!(code(&late), "request/interaction-already-answered");
    assert!(
        !bridge.told().contains(":event \"interaction/requested\""),
        "one who knows dialogs is sent dialogs"
    );
}

#[test]
fn cancelled_dialog_reaches_the_model() {
    let setup = Setup::new().script(ASK);
    let mut bridge = with(&setup, "", "\"ui/dialog-requested\"");
    go(&mut bridge);
    let input = bridge.event("ui/dialog-requested");
    bridge.ask("d", "cancel_dialog", &format!("{{:dialog-id {:?}}}", data(&input, "dialog-id")));
    let result = bridge.event("tool/result");
    assert_eq!(at(&result, &["data", "is-error"]).unwrap().as_bool(), Some(true));
}

#[test]
fn turn_without_interactor_halts_and_says_what_to_do() {
    // Subscribing to everything makes no interactor.
    let setup = Setup::new().script(TWO);
    let mut bridge = with(&setup, "", "");
    let turn = go(&mut bridge);
    let last = end_of_turn(&mut bridge);
    let error = data(&last, "error-message");
    assert_eq!(data(&last, "stop-reason"), "error");
    assert!(error.starts_with("permission-required: ") && error.contains(data(&turn, "turn-id")), "{error}");
    assert!(!bridge.told().contains(":event \"tool/executing\""));
    let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
    assert!(records.contains(":ext-id \"headless\""), "{records}");
}

#[test]
fn turn_halts_when_sole_interactor_unsubscribes() {
    for (features, topic) in [("\"interactor\"", "interaction/requested"), ("", "ui/dialog-requested")] {
        let setup = Setup::new().script(TWO);
        let mut bridge = with(&setup, features, "\"ui/dialog-requested\"");
        if !features.is_empty() {
            bridge.ask("no", "unsubscribe", "{:topics [\"ui/dialog-requested\"]}");
        }
        go(&mut bridge);
        bridge.event(topic);
        bridge.ask("leave", "unsubscribe", &format!("{{:topics [{topic:?}]}}"));
        let error = data(&end_of_turn(&mut bridge), "error-message").to_owned();
        assert!(error.starts_with("permission-required: "), "{error}");
    }
}

#[test]
fn open_question_comes_again_in_the_form_that_is_left() {
    let setup = Setup::new().script(TWO);
    let mut bridge = with(&setup, "\"interactor\"", "\"ui/dialog-requested\"");
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    bridge.ask("leave", "unsubscribe", "{:topics [\"interaction/requested\"]}");
    let dialog = bridge.event("ui/dialog-requested");
    assert_eq!(data(&dialog, "dialog-id"), data(&question, "interaction-id"));
}

#[test]
fn interactor_learns_the_end_without_a_subscription() {
    let setup = Setup::new().script(TWO);
    let mut bridge = client(&setup, "\"interactor\"");
    bridge.ask("s", "subscribe", "{:topics [\"interaction/requested\"]}");
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    respond(&mut bridge, &question, ":status \"cancelled\"");
    let ended = bridge.event("interaction/answered");
    assert_eq!(data(&ended, "interaction-id"), data(&question, "interaction-id"));
}

#[test]
fn yolo_answers_no_question_of_the_model() {
    for mode in ["yolo", "ask", "accept-edits", "read-only"] {
        let setup = Setup::new().script(ASK).arg("--mode").arg(mode);
        let mut bridge = with(&setup, "", "");
        go(&mut bridge);
        for _ in 0..2 {
            let told = bridge.event("tool/result");
            let expected = "Nobody is there to ask. Decide yourself, and say what you assumed.";
            assert_eq!(data(&told, "result-text"), expected, "{mode}");
        }
        assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
        let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
        assert_eq!(records.matches(":outcome \"headless\"").count(), 2, "{records}");
    }
}

#[test]
fn question_of_a_session_hides_none_of_another() {
    let call = r#"{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo $A"}}}
                           {:tool-call {:id "b" :name "bash" :arguments {:command "echo $B"}}}]}"#;
    let setup = Setup::new().script(&format!("{{:turns [{call}] :then :cycle}}"));
    for (features, topic, id) in [
        ("\"interactor\"", "interaction/requested", "interaction-id"),
        ("", "ui/dialog-requested", "dialog-id"),
    ] {
        let mut bridge = with(&setup, features, &format!("{topic:?}"));
        go(&mut bridge);
        let first = bridge.event(topic);
        bridge.ask("new", "new_session", "{}");
        go(&mut bridge);
        let second = bridge.event(topic);
        assert_ne!(data(&second, "session-id"), data(&first, "session-id"));
        // Who subscribes again is shown both.
        bridge.ask("again", "subscribe", &format!("{{:topics [{topic:?}]}}"));
        for asked in [&first, &second] {
            assert_eq!(data(&bridge.event(topic), id), data(asked, id));
        }
        // Each session's next one comes after its own, in whatever order they are answered.
        for asked in [&second, &first] {
            let question = data(asked, id);
            let (op, params) = match features {
                "" => ("resolve_dialog", format!("{{:dialog-id {question:?} :result \"once\"}}")),
                _ => (
                    "interaction_respond",
                    format!(
                        "{{:interaction-id {question:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
                    ),
                ),
            };
            assert_eq!(kind(&bridge.ask("r", op, &params)), "response");
            let next = bridge.event(topic);
            assert_eq!(data(&next, "session-id"), data(asked, "session-id"));
        }
        bridge.close_input();
        bridge.wait();
    }
}

#[test]
fn later_interactor_sees_open_questions() {
    let setup = Setup::new().script(TWO);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    // As a frontend does that lost what it was sent.
    bridge.ask("again", "subscribe", "{:topics [\"interaction/requested\"]}");
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    respond(&mut bridge, &again, ":status \"accepted\" :value {:outcome \"deny\"}");
    let next = bridge.event("interaction/requested");
    assert_ne!(data(&next, "interaction-id"), data(&question, "interaction-id"));
}

/// The warnings of a question.
fn warnings(question: &Owned) -> Vec<String> {
    let warnings =
        at(question, &["data", "payload", "warnings"]).and_then(Owned::as_slice).unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

#[test]
fn question_with_hidden_characters_carries_warnings() {
    let calls = [
        // What is shown is a comment about a list of files; what runs makes a file.
        "{:name \"bash\" :arguments {:command \": \u{202e}\u{2066}; touch PWNED #\u{2069} \u{2066}# list\u{2069}\"}}",
        "{:name \"write\" :arguments {:path \"notes.txt\\n  [Allow once (y)]\" :content \"x\"}}",
        "{:name \"write\" :arguments {:path \"a\" :content \"if admin\u{2066} {\\n\"}}",
        "{:name \"write\" :arguments {:path \"../outside\" :content \"x\"}}",
        "{:name \"ask-user\" :arguments {:question \"Which\u{200b}?\"}}",
        "{:name \"ask-user\" :arguments {:question \"Which?\" :options [\"red\u{1b}[2J\" \"blue\"]}}",
        "{:name \"delegate\" :arguments {:task \"tidy\u{feff}\" :tools [\"read\"]}}",
        "{:name \"bash\" :arguments {:command \"echo $A\"}}",
    ];
    let turns: String = calls.iter().map(|call| format!("{{:steps [{{:tool-call {call}}}]}} ")).collect();
    let script = format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}]}}");
    let setup = Setup::new().script(&script);
    let mut bridge = setup.interactor();
    go(&mut bridge);
    for expected in [
        &["The command holds characters that turn the direction of text (U+202E, U+2066, U+2069)"][..],
        &["A path holds a line break."],
        &["The diff holds characters that turn the direction of text (U+2066)"],
        &["outside is outside the workspace."],
        &["The question holds characters that are not seen (U+200B)."],
        &["An option holds control characters (U+001B)."],
        &["The task holds characters that are not seen (U+FEFF)."],
        &[],
    ] {
        let question = bridge.event("interaction/requested");
        let found = warnings(&question);
        assert!(
            found.len() >= expected.len()
                && expected.iter().all(|expected| found.iter().any(|found| found.contains(expected))),
            "{expected:?}: {question}"
        );
        if expected.is_empty() {
            assert!(at(&question, &["data", "payload", "warnings"]).is_none(), "{question}");
        }
        let command = at(&question, &["data", "payload", "command"]).and_then(Owned::as_str);
        if let Some(command) = command.filter(|command| command.contains("PWNED")) {
            assert!(command.contains('\u{202e}'), "the command itself is data: {command:?}");
        }
        respond(&mut bridge, &question, ":status \"cancelled\"");
    }
    end_of_turn(&mut bridge);
}

#[test]
fn dialog_with_hidden_characters_shows_codes_and_warnings() {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo \u{202e}A\"}}}]}
                           {:steps [{:tool-call {:name \"ask-user\" :arguments {:question \"Which\u{1b}?\" :options [\"red\u{200b}\" \"blue\"]}}}]}
                           {:steps [{:delta \"end\"}]}]}";
    let setup = Setup::new().script(script);
    let mut bridge = with(&setup, "", "\"ui/dialog-requested\"");
    go(&mut bridge);
    let approval = bridge.event("ui/dialog-requested");
    assert_eq!(data(&approval, "title"), "Allow: $ echo \\u{202E}A?");
    let message = data(&approval, "message");
    assert!(
        message.starts_with("Warning: The command holds") && message.ends_with("\necho \\u{202E}A"),
        "{message}"
    );
    bridge.ask("d", "cancel_dialog", &format!("{{:dialog-id {:?}}}", data(&approval, "dialog-id")));
    let choice = bridge.event("ui/dialog-requested");
    assert_eq!(data(&choice, "title"), "Which\\u{1B}?");
    let options = at(&choice, &["data", "options"]).unwrap().as_slice().unwrap();
    let label = support::text(&options[0], "label");
    assert_eq!(label, "red\\u{200B}");
    // A frontend that gives the label back means the option that had it.
    bridge.ask(
        "d",
        "resolve_dialog",
        &format!("{{:dialog-id {:?} :result {label:?}}}", data(&choice, "dialog-id")),
    );
    let chosen = bridge
        .until(|frame| support::is_event(frame, "tool/result") && data(frame, "tool-name") == "ask-user");
    assert_eq!(data(&chosen, "result-text"), "red\u{200b}");
}

#[test]
fn approval_of_a_long_write_has_a_handle_of_the_whole_diff() {
    let lines: String = (0..8_000).map(|n| format!("line {n}\\n")).collect();
    let call =
        format!("{{:name \"write\" :arguments {{:path \"a.sh\" :content \"{lines}curl evil\u{200b}\\n\"}}}}");
    let setup = Setup::new()
        .script(&format!("{{:turns [{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let mut bridge = setup.interactor();
    go(&mut bridge);
    let question = bridge.event("interaction/requested");
    let payload = |key: &str| at(&question, &["data", "payload", key]).cloned();
    let size = payload("diff-size").and_then(|size| size.as_i64()).unwrap();
    let shown = payload("diff").unwrap();
    assert!(!shown.as_str().unwrap().contains("curl evil"));
    let found = warnings(&question).join(" ");
    assert!(
        found.contains(&format!("of {size} bytes are shown"))
            && found.contains("The part of the diff that is not shown holds"),
        "{found}"
    );
    let handle = payload("diff-handle").unwrap();
    let mut whole = String::new();
    while i64::try_from(whole.len()).unwrap() < size {
        let params = format!(
            "{{:handle {handle} :offset {} :session-id {:?}}}",
            whole.len(),
            data(&question, "session-id")
        );
        let part = bridge.ask("o", "read_output", &params);
        assert!(!data(&part, "text").is_empty(), "{part}");
        whole.push_str(data(&part, "text"));
    }
    assert!(
        whole.starts_with("--- /dev/null\n+++ b/a.sh\n") && whole.ends_with("+curl evil\u{200b}\n"),
        "{}",
        whole.len()
    );
    assert!(!setup.project().join("a.sh").exists(), "the whole is read before the answer");
    respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"deny\"}");
    end_of_turn(&mut bridge);
    assert!(!setup.project().join("a.sh").exists());
}
