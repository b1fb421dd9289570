//! Permissions and other questions: what is asked, and what the answers mean.

use serde_json::{Value, json};

use super::turns::{BASH, ECHO};
use crate::editor::{Editor, updates};
use crate::support::Setup;

const EDIT: &str = r#"{:turns [{:steps [{:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
                             {:steps [{:delta "Done."}]}]}"#;

const ASK: &str = r#"{:turns [{:steps [{:tool-call {:id "q" :name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}
                            {:steps [{:delta "Done."}]}]}"#;

const ASK_TEXT: &str = r#"{:turns [{:steps [{:tool-call {:id "q" :name "ask-user" :arguments {:question "Why?"}}}]}
                                 {:steps [{:delta "Done."}]}]}"#;

fn end(editor: &mut Editor, id: i64) -> (Value, Vec<Value>) {
    editor.until(|message| message["id"] == id && message.get("method").is_none())
}

/// The result of the call that is told.
fn result(messages: &[Value], session: &str) -> String {
    let told = updates(messages, session);
    let result = told.iter().find(|update| update["status"] == "completed");
    let result = result.unwrap_or_else(|| panic!("{told:#?}"));
    result["content"][0]["content"]["text"].as_str().unwrap().to_owned()
}

#[test]
fn permission_shows_the_change_and_its_answer_counts() {
    let setup = Setup::new().script(EDIT);
    std::fs::write(setup.project().join("a.txt"), "one\n").unwrap();
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "edit");
    let question = editor.question();
    assert_eq!(question["method"], "session/request_permission");
    let params = &question["params"];
    assert_eq!((&params["sessionId"], &params["toolCall"]["toolCallId"]), (&json!(session), &json!("e")));
    let diff = &params["toolCall"]["content"][0];
    assert_eq!(
        (&diff["type"], &diff["oldText"], &diff["newText"]),
        (&json!("diff"), &json!("one\n"), &json!("two\n"))
    );
    let kinds: Vec<_> =
        params["options"].as_array().unwrap().iter().map(|option| option["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
    editor.choose(&question, "allow");
    end(&mut editor, id);
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "two\n");
}

#[test]
fn refused_or_dismissed_permission_changes_nothing() {
    for answer in [
        json!({"outcome": {"outcome": "selected", "optionId": "deny"}}),
        json!({"outcome": {"outcome": "selected", "optionId": "nothing"}}),
        json!({"outcome": {"outcome": "cancelled"}}),
        json!("what?"),
    ] {
        let setup = Setup::new().script(EDIT);
        std::fs::write(setup.project().join("a.txt"), "one\n").unwrap();
        let mut editor = Editor::ready(&setup, json!({}));
        let session = editor.open("project");
        let id = editor.prompt(&session, "edit");
        let question = editor.question();
        editor.reply(&question, answer);
        let (answer, before) = end(&mut editor, id);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        assert!(updates(&before, &session).iter().any(|update| update["status"] == "failed"));
        assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "one\n");
    }
}

#[test]
fn permission_for_the_session_is_not_asked_again() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo hi"}}}]}
                             {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "echo hi"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let mut editor = Editor::ready(&Setup::new().script(script), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "run");
    let question = editor.question();
    editor.choose(&question, "allow-session");
    let (_, before) = end(&mut editor, id);
    assert!(before.iter().all(|message| message.get("id").is_none()), "{before:#?}");
}

#[test]
fn cancel_withdraws_the_question_and_late_answers_do_nothing() {
    let mut editor = Editor::ready(&Setup::new().script(BASH), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "run");
    let question = editor.question();
    editor.notify("session/cancel", json!({"sessionId": session}));
    let (withdrawn, _) = editor.until(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    assert_eq!(end(&mut editor, id).0["result"]["stopReason"], "cancelled");
    editor.choose(&question, "allow");
    editor.choose(&question, "allow");
    editor.reply(&json!({"id": "never asked"}), json!({}));
    assert_eq!(editor.turn(&session, "go on").1, "end_turn");
}

#[test]
fn choice_is_a_form_or_else_a_permission() {
    let mut editor = Editor::ready(&Setup::new().script(ASK), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "ask");
    let question = editor.question();
    let names: Vec<_> =
        question["params"]["options"].as_array().unwrap().iter().map(|o| o["name"].clone()).collect();
    assert_eq!(names, ["red", "blue", "Cancel"]);
    editor.choose(&question, "1");
    let (_, before) = end(&mut editor, id);
    assert_eq!(result(&before, &session), "blue");

    let can = json!({"elicitation": {"form": {}}});
    let mut editor = Editor::ready(&Setup::new().script(ASK), can.clone());
    let session = editor.open("project");
    let id = editor.prompt(&session, "ask");
    let question = editor.question();
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("form"))
    );
    editor.reply(&question, json!({"action": "accept", "content": {"answer": "0"}}));
    let (_, before) = end(&mut editor, id);
    assert_eq!(result(&before, &session), "red");
}

#[test]
fn text_is_asked_only_of_who_has_forms() {
    let mut editor = Editor::ready(&Setup::new().script(ASK_TEXT), json!({"elicitation": {"form": {}}}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "ask");
    let question = editor.question();
    editor.reply(&question, json!({"action": "accept", "content": {"answer": "because"}}));
    let (_, before) = end(&mut editor, id);
    assert_eq!(result(&before, &session), "because");

    let mut editor = Editor::ready(&Setup::new().script(ASK_TEXT), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "ask");
    let (_, before) = end(&mut editor, id);
    assert!(before.iter().all(|message| message.get("id").is_none()), "nothing is asked: {before:#?}");
}

#[test]
fn question_in_one_session_holds_up_neither() {
    // The sessions of one engine share the script.
    let script = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo a"}}}]}
                             {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "echo b"}}}]}
                             {:steps [{:delta "Done."}]} {:steps [{:delta "Done."}]}]}"#;
    let setup = Setup::new().script(script);
    let mut editor = Editor::ready(&setup, json!({}));
    // Both in one folder, and so in one engine.
    let (one, other) = (editor.open("project"), editor.open("project"));
    let first = editor.prompt(&one, "run");
    let asked_first = editor.question();
    // The other session comes as far as its own question, and to its end.
    let second = editor.prompt(&other, "run");
    let asked_second = editor.question();
    assert_eq!(asked_first["params"]["sessionId"], json!(one));
    assert_eq!(asked_second["params"]["sessionId"], json!(other));
    editor.choose(&asked_second, "allow");
    assert_eq!(end(&mut editor, second).0["result"]["stopReason"], "end_turn");
    editor.choose(&asked_first, "allow");
    assert_eq!(end(&mut editor, first).0["result"]["stopReason"], "end_turn");
    let asked = editor.transcript.iter().filter(|line| line.contains("session/request_permission"));
    assert_eq!(asked.count(), 2, "each is asked once, in its session alone");
}

#[test]
fn choice_of_a_command_ends_its_prompt() {
    let mut editor = Editor::ready(&Setup::new().script(ECHO), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "/thinking");
    let question = editor.question();
    let option = question["params"]["options"][0]["optionId"].as_str().unwrap().to_owned();
    editor.choose(&question, &option);
    assert_eq!(end(&mut editor, id).0["result"]["stopReason"], "end_turn");
    let id = editor.prompt(&session, "/thinking");
    editor.question();
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(end(&mut editor, id).0["result"]["stopReason"], "cancelled");
}
