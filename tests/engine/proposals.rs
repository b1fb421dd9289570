//! What a person makes of a proposed file before accepting it, over the real wire.

use crate::support;

use edn_bridge::interaction::audit;
use edn_bridge::limits;
use edn_bridge::value::{Owned, Value};
use support::server::{Answer, Server};
use support::{Bridge, Setup, at, code, data, end_of_turn};

const WRITE: &str = r#"{:id "w" :name "write" :arguments {:path "a.txt" :content "ONE\ntwo\nTHREE\n"}}"#;
const EDIT: &str = r#"{:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "ONE"}
                                                                            {:old "three" :new "THREE"}]}}"#;
const OLD: &str = "one\ntwo\nthree\n";
const EDITED: &str = "one\ntwo\nTHREE!\n";

/// A model that makes these calls in one answer, and a file of three lines.
fn calling(calls: &[&str]) -> Setup {
    let steps: String = calls.iter().map(|call| format!("{{:tool-call {call}}}")).collect();
    let setup = Setup::new()
        .script(&format!("{{:turns [{{:steps [{steps}]}} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"));
    std::fs::write(setup.project().join("a.txt"), OLD).unwrap();
    setup
}

/// The question about the next call.
fn asked(bridge: &mut Bridge) -> Owned {
    bridge.event("interaction/requested")
}

fn go(bridge: &mut Bridge) -> Owned {
    bridge.ask("p", "prompt", "{:message \"go @a.txt\"}");
    asked(bridge)
}

fn respond(bridge: &mut Bridge, question: &Owned, rest: &str) -> Owned {
    let id = data(question, "interaction-id");
    bridge.ask("r", "interaction_respond", &format!("{{:interaction-id {id:?} {rest}}}"))
}

/// Accepts the call with another text for its file.
fn accept_as(bridge: &mut Bridge, question: &Owned, content: &str) -> Owned {
    let value = format!("{{:outcome \"approve\" :scope \"once\" :content {content:?}}}");
    respond(bridge, question, &format!(":status \"accepted\" :value {value}"))
}

fn proposal<'q>(question: &'q Owned, key: &str) -> Option<&'q Owned> {
    at(question, &["data", "payload", "proposal", key])
}

fn text(value: Option<&Owned>) -> &str {
    value.and_then(Value::as_str).unwrap_or("")
}

fn file(setup: &Setup) -> String {
    std::fs::read_to_string(setup.project().join("a.txt")).unwrap()
}

#[test]
fn edited_proposal_is_what_the_file_gets() {
    for (call, proposed) in [(WRITE, "ONE\ntwo\nTHREE\n"), (EDIT, "ONE\ntwo\nTHREE\n")] {
        let setup = calling(&[call]);
        let mut bridge = setup.interactor();
        let question = go(&mut bridge);
        assert_eq!(text(proposal(&question, "content")), proposed);
        assert!(text(proposal(&question, "path")).ends_with("/a.txt"), "{question}");
        assert_eq!(text(proposal(&question, "base-sha256")), edn_bridge::sha256::hex(OLD));
        assert_eq!(code(&accept_as(&mut bridge, &question, EDITED)), "");
        let told = bridge.event("interaction/answered");
        assert_eq!(at(&told, &["data", "value", "edited"]).and_then(Value::as_bool), Some(true), "{told}");
        assert!(!told.to_string().contains("THREE!"), "{told}");
        let result = bridge.event("tool/result");
        assert_eq!(at(&result, &["data", "is-error"]).and_then(Value::as_bool), Some(false), "{result}");
        let said = data(&result, "result-text");
        assert!(said.contains("The user edited your proposal before accepting it"), "{said}");
        assert!(said.contains("-ONE\n+one\n") && said.contains("-THREE\n+THREE!\n"), "{said}");
        // The event shows what became of the file; only the model's text compares with its proposal.
        let shown = text(at(&result, &["data", "details", "diff"]));
        assert!(shown.contains("-three\n+THREE!\n") && !shown.contains("ONE"), "{shown}");
        end_of_turn(&mut bridge);
        // Only then is the session free for an undo.
        bridge.event("turn/ended");
        assert_eq!(file(&setup), EDITED);
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(messages.contains("edited your proposal"), "{messages}");
        assert_eq!(code(&bridge.ask("u", "undo", "{}")), "");
        assert_eq!(file(&setup), OLD);
        assert_eq!(code(&bridge.ask("u", "redo", "{}")), "");
        assert_eq!(file(&setup), EDITED);
    }
}

/// The result of the one call in a history.
fn past(history: &Owned) -> &Owned {
    let calls = at(history, &["data", "tool-calls"]).and_then(Value::as_map).unwrap();
    calls.iter().next().unwrap().1
}

#[test]
fn reopened_session_shows_the_diff_that_was_written() {
    for call in [WRITE, EDIT] {
        let setup = calling(&[call]);
        let mut bridge = setup.interactor();
        let question = go(&mut bridge);
        accept_as(&mut bridge, &question, EDITED);
        let live = bridge.event("tool/result");
        let same = |past: &Owned, live: &Owned| {
            for key in ["details", "duration-ms"] {
                assert_eq!(past.get(key), live.get("data").unwrap().get(key), "{key}");
                assert!(past.get(key).is_some(), "{key}: {past}");
            }
        };
        let answer = end_of_turn(&mut bridge);
        let messages = bridge.ask("m", "get_messages", "{}");
        let messages = at(&messages, &["data", "messages"]).and_then(Value::as_slice).unwrap();
        same(messages.iter().find(|message| support::text(message, "role") == "tool").unwrap(), &live);
        let session = data(&answer, "session-id").to_owned();
        bridge.ask(
            "f",
            "fork",
            &format!("{{:entry-id {:?}}}", support::text(messages.last().unwrap(), "id")),
        );
        same(past(&bridge.event("session/rehydrated")), &live);
        drop(bridge);
        let mut bridge = setup.interactor();
        bridge.skip_to_now();
        bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
        same(past(&bridge.event("session/rehydrated")), &live);
    }
}

#[test]
fn rejected_change_has_the_diff_that_was_shown() {
    for call in [WRITE, EDIT] {
        let setup = calling(&[call]);
        let mut bridge = setup.interactor();
        let question = go(&mut bridge);
        respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"deny\"}");
        let result = bridge.event("tool/result");
        let shown = text(at(&result, &["data", "details", "diff"]));
        assert!(shown.contains("-one\n+ONE\n two\n"), "{result}");
        assert_eq!(shown, text(at(&question, &["data", "payload", "diff"])));
        assert_eq!(at(&result, &["data", "details", "denied"]).and_then(Value::as_bool), Some(true));
        assert_eq!(at(&result, &["data", "duration-ms"]), None, "it did not run");
        end_of_turn(&mut bridge);
        assert_eq!(file(&setup), OLD);
    }
}

#[test]
fn next_request_says_that_the_proposal_was_edited() {
    let arguments = r#"{\"path\":\"a.txt\",\"content\":\"mine\\n\"}"#;
    let call = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"w\",\"type\":\
         \"function\",\"function\":{{\"name\":\"write\",\"arguments\":\"{arguments}\"}}}}]}},\"finish_reason\":\
         \"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"end\"},\"finish_reason\":\"stop\"}]}\n\n\
               data: [DONE]\n\n";
    let server = Server::new([Answer::events(call), Answer::events(end)]);
    let setup = Setup::new().arg("--provider").arg("local").arg("--model").arg("m");
    let config = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&config).unwrap();
    let provider = format!(
        "{{:providers {{\"local\" {{:api :openai :base-url \"{}\"}}}} :models [{{:provider \"local\" :id \"m\" \
         :context-window 9000}}]}}",
        server.url()
    );
    std::fs::write(config.join("config.edn"), provider).unwrap();
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    assert_eq!(proposal(&question, "base-sha256"), None, "a new file");
    accept_as(&mut bridge, &question, "yours\n");
    end_of_turn(&mut bridge);
    assert_eq!(file(&setup), "yours\n");
    let asked = server.all_asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let sent = asked[1].json();
    let message = sent["messages"].as_array().unwrap().last().unwrap();
    let said = message["content"].to_string();
    assert!(said.contains("edited your proposal") && said.contains(r"-mine\n+yours\n"), "{message}");
}

#[test]
fn edited_proposal_of_a_changed_file_is_refused() {
    for call in [WRITE, EDIT] {
        let setup = calling(&[call]);
        let mut bridge = setup.interactor();
        let question = go(&mut bridge);
        // The edits of the model still fit the file; the person's text is not of this file any more.
        let others = "one\ntwo\nthree\nfour\n";
        std::fs::write(setup.project().join("a.txt"), others).unwrap();
        accept_as(&mut bridge, &question, EDITED);
        let result = bridge.event("tool/result");
        let said = data(&result, "result-text");
        assert!(said.contains("somebody else changed the file") && said.contains("edited"), "{said}");
        end_of_turn(&mut bridge);
        assert_eq!(file(&setup), others);
    }
}

#[test]
fn misplaced_content_is_refused_and_names_its_key() {
    let setup = calling(&[WRITE, r#"{:id "b" :name "bash" :arguments {:command "echo $A"}}"#]);
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    for rest in [
        ":status \"accepted\" :value {:outcome \"deny\" :content \"x\"}",
        ":status \"accepted\" :value {:outcome \"deny\" :scope \"once\" :content \"x\"}",
        ":status \"accepted\" :value {:outcome \"approve\" :scope \"session\" :content \"x\"}",
        ":status \"accepted\" :value {:outcome \"approve\" :scope \"rule\" :content \"x\"}",
        ":status \"accepted\" :value {:outcome \"approve\" :scope \"once\" :content 7}",
        ":status \"accepted\" :value {:outcome \"approve\" :scope \"once\" :content [\"x\"]}",
        ":status \"cancelled\" :value {:content \"x\"}",
    ] {
        let refused = respond(&mut bridge, &question, rest);
        assert_eq!(code(&refused), "request/invalid-params", "{rest}");
        assert_eq!(text(at(&refused, &["data", "key"])), ":value :content", "{rest}: {refused}");
    }
    assert_eq!(file(&setup), OLD);
    respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"deny\"}");
    let command = asked(&mut bridge);
    assert_eq!(at(&command, &["data", "payload", "proposal"]), None, "a command proposes no text");
    let refused = accept_as(&mut bridge, &command, "x");
    assert_eq!(text(at(&refused, &["data", "key"])), ":value :content", "{refused}");
    respond(&mut bridge, &command, ":status \"cancelled\"");
    end_of_turn(&mut bridge);
}

#[test]
fn proposal_that_is_accepted_unchanged_is_no_edit() {
    let setup = calling(&[EDIT]);
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    let content = text(proposal(&question, "content")).to_owned();
    accept_as(&mut bridge, &question, &content);
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("(2 places)."), "{result}");
    end_of_turn(&mut bridge);
    let records = std::fs::read_to_string(audit::path(&setup.state())).unwrap();
    assert!(!records.contains(":edited"), "{records}");
}

#[test]
fn audit_record_of_an_edit_has_digests_and_no_text() {
    let setup = calling(&[WRITE]);
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    accept_as(&mut bridge, &question, EDITED);
    end_of_turn(&mut bridge);
    let path = audit::path(&setup.state());
    assert_eq!(audit::verify(&path).unwrap(), 1);
    let line = std::fs::read_to_string(path).unwrap();
    let record = edn_bridge::edn::read_one(line.as_bytes()).unwrap();
    let digest = |text: &str| edn_bridge::sha256::hex(text);
    assert_eq!(record.get("edited").and_then(Value::as_bool), Some(true), "{line}");
    assert_eq!(record.get("content-sha256").and_then(Value::as_str), Some(&*digest(EDITED)), "{line}");
    assert_eq!(
        record.get("proposal-sha256").and_then(Value::as_str),
        Some(&*digest("ONE\ntwo\nTHREE\n")),
        "{line}"
    );
    assert!(!line.contains("THREE"), "{line}");
}

#[test]
fn hooks_see_the_text_that_is_written() {
    for (call, expected) in [
        (WRITE, ":content \"one\\ntwo\\nTHREE!\\n\""),
        (EDIT, ":edits [{:old \"one\\ntwo\\nthree\\n\" :new \"one\\ntwo\\nTHREE!\\n\"}]"),
    ] {
        let setup = calling(&[call]);
        let config = setup.dir.path().join("config/edn-bridge");
        std::fs::create_dir_all(&config).unwrap();
        let hook = |id: &str, point: &str| {
            format!(
                "{{:id \"{id}\" :stage :tool-call :point {point} :kind :observer :command [\"sh\" \"-c\" \"cat > \
                 {id}\"]}}"
            )
        };
        let guard = "{:id \"guard\" :stage :tool-call :point :pre :kind :guard :command [\"sh\" \"-c\" \"cat > guard; \
                     echo '{:decision :allow}'\"]}";
        let hooks = format!("{{:hooks [{guard} {} {}]}}", hook("before", ":pre"), hook("after", ":post"));
        std::fs::write(config.join("config.edn"), hooks).unwrap();
        let mut bridge = setup.interactor();
        let question = go(&mut bridge);
        accept_as(&mut bridge, &question, EDITED);
        end_of_turn(&mut bridge);
        for seen in ["guard", "before", "after"] {
            let seen = std::fs::read_to_string(setup.project().join(seen)).unwrap();
            assert!(seen.contains(expected), "{seen}");
        }
    }
}

#[test]
fn long_proposal_is_read_by_its_handle_and_edited() {
    let line = "x".repeat(99);
    let content = format!("{line}\\n").repeat(1000);
    let call = format!("{{:id \"w\" :name \"write\" :arguments {{:path \"a.txt\" :content \"{content}\"}}}}");
    let setup = calling(&[&call]);
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    assert_eq!(proposal(&question, "content"), None);
    assert_eq!(proposal(&question, "size").and_then(Value::as_i64), Some(100_000));
    let handle = text(proposal(&question, "handle"));
    let part = bridge.ask("o", "read_output", &format!("{{:handle {handle:?} :limit 262144}}"));
    assert_eq!(data(&part, "text").len(), 100_000);
    let edited = format!("{}the end\n", data(&part, "text").replace("x\n", "y\n"));
    accept_as(&mut bridge, &question, &edited);
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").len() < 60_000, "the difference is bounded");
    assert!(!text(at(&result, &["data", "details", "handle"])).is_empty(), "the whole difference is kept");
    let shown = text(at(&result, &["data", "details", "diff"]));
    assert!(shown.len() < 60_000 && shown.ends_with("[… the diff goes on …]\n"), "the diff is bounded");
    let whole = text(at(&result, &["data", "details", "diff-handle"]));
    let part = bridge.ask("d", "read_output", &format!("{{:handle {whole:?} :limit 262144}}"));
    assert!(data(&part, "text").contains("+the end\n"), "the whole diff is kept");
    end_of_turn(&mut bridge);
    assert_eq!(file(&setup), edited);
    bridge.event("turn/ended");
    let messages = bridge.ask("m", "get_messages", "{}");
    let last = at(&messages, &["data", "messages"]).and_then(Value::as_slice).unwrap().last().unwrap();
    bridge.ask("f", "fork", &format!("{{:entry-id {:?}}}", support::text(last, "id")));
    let in_fork = bridge.ask("o", "read_output", &format!("{{:handle {whole:?} :limit 262144}}"));
    assert_eq!(data(&in_fork, "text"), data(&part, "text"), "{}", code(&in_fork));
}

#[test]
fn change_of_a_large_file_has_no_proposal() {
    let setup = calling(&[EDIT]);
    let large = format!("{OLD}{}", "x\n".repeat(limits::PROPOSAL_BYTES / 2));
    std::fs::write(setup.project().join("a.txt"), &large).unwrap();
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    assert_eq!(at(&question, &["data", "payload", "proposal"]), None);
    assert_eq!(code(&accept_as(&mut bridge, &question, EDITED)), "request/invalid-params");
    respond(&mut bridge, &question, ":status \"accepted\" :value {:outcome \"approve\" :scope \"once\"}");
    end_of_turn(&mut bridge);
    assert_eq!(file(&setup), large.replacen("one", "ONE", 1).replacen("three", "THREE", 1));
}

#[test]
fn second_proposal_for_a_file_has_the_first_in_it() {
    let setup = calling(&[
        r#"{:id "a" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "ONE"}]}}"#,
        r#"{:id "b" :name "edit" :arguments {:path "a.txt" :edits [{:old "three" :new "THREE"}]}}"#,
    ]);
    let mut bridge = setup.interactor();
    let first = go(&mut bridge);
    accept_as(&mut bridge, &first, "One\ntwo\nthree\n");
    let second = asked(&mut bridge);
    assert_eq!(text(proposal(&second, "content")), "One\ntwo\nTHREE\n");
    accept_as(&mut bridge, &second, "One\ntwo\nThree\n");
    end_of_turn(&mut bridge);
    assert_eq!(file(&setup), "One\ntwo\nThree\n");
}

#[test]
fn answers_to_an_edited_question_are_late() {
    let setup = calling(&[WRITE]);
    let mut bridge = setup.interactor();
    let question = go(&mut bridge);
    accept_as(&mut bridge, &question, EDITED);
    let late = accept_as(&mut bridge, &question, "later\n");
    assert_eq!(code(&late), "request/interaction-already-answered");
    end_of_turn(&mut bridge);
    assert_eq!(file(&setup), EDITED);
}
