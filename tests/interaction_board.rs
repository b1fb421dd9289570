//! Typed questions over the real wire: dialogs, headless ends, withdrawal, audit.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use edn_bridge::interaction::audit;
use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, data, end_of_turn, kind};

const TWO: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo $A"}}}
                                       {:tool-call {:id "b" :name "bash" :arguments {:command "echo $B"}}}]}
                              {:steps [{:delta "end"}]}]}"#;
const ASK: &str = r#"{:turns [{:steps [{:tool-call {:name "ask-user" :arguments {:question "Which?"}}}]}
                              {:steps [{:tool-call {:name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}
                              {:steps [{:delta "end"}]}]}"#;

fn with(setup: &Setup, features: &str, topics: &str) -> Bridge {
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        &format!(
            "{{:client-info {{:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [{features}]}}}}"
        ),
    );
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
fn questions_come_one_at_a_time_in_the_order_of_the_calls() {
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
fn a_record_that_was_taken_out_or_changed_shows() {
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
fn one_call_can_be_denied_and_its_sibling_runs() {
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
fn a_question_goes_with_its_turn() {
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
fn a_connection_that_knows_dialogs_answers_with_them() {
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
fn a_cancelled_dialog_is_told_to_the_model() {
    let setup = Setup::new().script(ASK);
    let mut bridge = with(&setup, "", "\"ui/dialog-requested\"");
    go(&mut bridge);
    let input = bridge.event("ui/dialog-requested");
    bridge.ask("d", "cancel_dialog", &format!("{{:dialog-id {:?}}}", data(&input, "dialog-id")));
    let result = bridge.event("tool/result");
    assert_eq!(at(&result, &["data", "is-error"]).unwrap().as_bool(), Some(true));
}

#[test]
fn without_anyone_to_ask_the_turn_halts_and_says_what_to_do() {
    // Subscribing to everything makes no interactor.
    for script in [TWO, ASK] {
        let setup = Setup::new().script(script);
        let mut bridge = with(&setup, "", "");
        let turn = go(&mut bridge);
        let last = end_of_turn(&mut bridge);
        let error = data(&last, "error-message");
        assert_eq!(data(&last, "stop-reason"), "error");
        assert!(
            error.starts_with("permission-required: ") && error.contains(data(&turn, "turn-id")),
            "{error}"
        );
        assert!(!bridge.told().contains(":event \"tool/executing\"") || script == ASK);
        let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
        assert!(records.contains(":ext-id \"headless\""), "{records}");
    }
}

#[test]
fn with_yolo_questions_have_their_usual_answers() {
    let setup = Setup::new().script(ASK).arg("--yolo");
    let mut bridge = with(&setup, "", "");
    go(&mut bridge);
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "red");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
}

#[test]
fn who_becomes_an_interactor_later_is_shown_what_is_open() {
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
