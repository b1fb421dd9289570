//! Questions both ways.

use std::path::Path;

use serde_json::json;

use super::runs::{BASH, ECHO};
use crate::peer::{CAN, Peer, content, event, outline};
use crate::support::guest::{Guest, socket};
use crate::support::{Setup, data, is_event};

fn asking() -> Setup {
    Setup::new().script(BASH)
}

/// A model that asks the person.
const ASKS: &str = r#"{:turns [{:steps [{:tool-call {:id "q1" :name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}
                       {:steps [{:tool-call {:id "q2" :name "ask-user" :arguments {:question "Why?"}}}]}
                       {:steps [{:delta "Thanks."}]}]}"#;

#[test]
fn approval_is_previewed_asked_and_answered() {
    let mut peer = Peer::ready(&asking(), CAN);
    let run = peer.run("look");
    let (question, before) = peer.until(|line| line["method"] == "ui.confirm.request");
    let told = outline(&before);
    assert_eq!(told[told.len() - 3..], ["permission.preview", "permission.ready", "[awaiting_ui]"]);
    let params = &question["params"];
    assert_eq!((&params["run_id"], &params["allow_remember"]), (&json!(run), &json!(true)));
    assert!(params["message"].as_str().unwrap().starts_with("echo hi\n"), "{question}");
    assert!(params["message"].as_str().unwrap().contains("\nRemember (don't ask again):\nbash: echo"));
    peer.reply(&question, json!({"ok": true, "reason": null}));
    let lines = peer.rest(&run);
    assert_eq!(outline(&lines)[0], "[running]");
    assert_eq!(content(&lines, "final"), "Done.");
}

#[test]
fn remembered_approval_is_not_asked_again() {
    let setup = asking();
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("look");
    let question = peer.question();
    peer.reply(&question, json!({"ok": true, "remember": true}));
    peer.rest(&run);
    peer.kill();
    // In a later process too: the rule is the workspace's.
    let mut peer = Peer::ready(&setup, CAN);
    let lines = peer.run_to_end("again");
    assert!(!outline(&lines).contains(&"<ui.confirm.request>".to_owned()), "{lines:#?}");
}

#[test]
fn remembered_refusal_is_not_asked_again() {
    let setup = asking();
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("look");
    let question = peer.question();
    peer.reply(&question, json!({"ok": false, "remember": true, "reason": "never"}));
    peer.rest(&run);
    peer.kill();
    // In a later process too, the call is refused without a question.
    let mut peer = Peer::ready(&setup, CAN);
    let lines = peer.run_to_end("again");
    assert!(!outline(&lines).contains(&"<ui.confirm.request>".to_owned()), "{lines:#?}");
    let result = event(&lines, "tool_result");
    assert_eq!(result["is_error"], true, "{result}");
    assert!(result["result"].as_str().unwrap().contains("A rule denies"), "{result}");
}

#[test]
fn refusal_with_a_reason_lets_the_model_go_on() {
    let mut peer = Peer::ready(&asking(), CAN);
    let run = peer.run("look");
    let question = peer.question();
    peer.reply(&question, json!({"ok": false, "reason": "not now"}));
    let lines = peer.rest(&run);
    let result = event(&lines, "tool_result");
    assert!(result["result"].as_str().unwrap().contains("not now"), "{result}");
    assert_eq!(content(&lines, "final"), "Done.");
}

#[test]
fn refusal_without_a_reason_ends_the_run() {
    for answer in [json!({"ok": false}), json!({"ok": "true"}), json!(null), json!([1])] {
        let mut peer = Peer::ready(&asking(), CAN);
        let run = peer.run("look");
        let question = peer.question();
        peer.reply(&question, answer.clone());
        let lines = peer.rest(&run);
        assert_eq!(outline(&lines).last().unwrap(), "[completed]", "{answer}: {lines:#?}");
        assert!(content(&lines, "final").contains("declined"), "{lines:#?}");
        peer.run_to_end("go on");
    }
}

#[test]
fn pick_and_prompt_reach_the_model() {
    let mut peer = Peer::ready(&Setup::new().script(ASKS), CAN);
    let run = peer.run("ask me");
    let pick = peer.question();
    assert_eq!(pick["method"], "ui.pick.request");
    assert_eq!(pick["params"]["items"], json!([{"id": "0", "label": "red"}, {"id": "1", "label": "blue"}]));
    peer.reply(&pick, json!({"ids": ["1"]}));
    let result = |line: &serde_json::Value| line["params"]["event"]["type"] == "tool_result";
    assert_eq!(peer.until(result).0["params"]["event"]["result"], "blue");
    let prompt = peer.question();
    assert_eq!(prompt["method"], "ui.prompt.request");
    peer.reply(&prompt, json!({"value": "because"}));
    assert_eq!(peer.until(result).0["params"]["event"]["result"], "because");
    assert_eq!(content(&peer.rest(&run), "final"), "Thanks.");
}

#[test]
fn cancel_withdraws_the_question_and_a_late_answer_does_nothing() {
    let setup = asking();
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("look");
    let question = peer.question();
    peer.ask("run.cancel", json!({"run_id": run}));
    let lines = peer.rest(&run);
    assert_eq!(outline(&lines).last().unwrap(), "[cancelled]");
    peer.reply(&question, json!({"ok": true, "remember": true}));
    let lines = peer.run_to_end("go on");
    assert_eq!(content(&lines, "final"), "Done.");
    assert!(!setup.state().join("rules.edn").exists());
}

#[test]
fn question_that_nobody_can_answer_ends_the_run() {
    for can in [&[][..], &["supports_prompt", "supports_pick"]] {
        let mut peer = Peer::ready(&asking(), can);
        let lines = peer.run_to_end("look");
        let end = &lines.last().unwrap()["params"];
        assert_eq!(end["status"], "error", "{lines:#?}");
        assert!(end["message"].as_str().unwrap().starts_with("permission-required"), "{end}");
    }
}

#[test]
fn choice_of_a_slash_command_is_picked() {
    let mut peer = Peer::ready(&Setup::new().script(ECHO), CAN);
    for (ids, expected) in [(json!(["2"]), "Thinking level set to low"), (json!([]), "Nothing was chosen.")] {
        let run = peer.run("/thinking");
        let pick = peer.question();
        assert_eq!(pick["params"]["items"][2]["label"], "low");
        peer.reply(&pick, json!({"ids": ids}));
        let lines = peer.rest(&run);
        assert_eq!(content(&lines, "final"), expected);
    }
}

#[test]
fn cancel_ends_a_command_that_waits_for_a_pick() {
    let mut peer = Peer::ready(&Setup::new().script(ECHO), CAN);
    // The one asks for a choice, the other a question of the engine.
    for command in ["/thinking", "/login"] {
        let run = peer.run(command);
        let pick = peer.question();
        assert_eq!(peer.ask("run.cancel", json!({"run_id": run}))["ok"], true);
        let lines = peer.rest(&run);
        assert_eq!(outline(&lines).last().unwrap(), "[cancelled]", "{lines:#?}");
        let again = peer.ask("run.cancel", json!({"run_id": run}));
        assert_eq!(again, json!({"ok": false, "status": "cancelled"}));
        // The dialog stays on the screen; its answer does nothing.
        peer.reply(&pick, json!({"ids": ["2"]}));
        peer.run_to_end("go on");
    }
    assert!(peer.ask("model.list", json!({})).get("reasoning").is_none());
}

#[test]
fn choice_that_nobody_can_offer_ends_the_command() {
    let mut peer = Peer::ready(&Setup::new().script(ECHO), &["supports_confirm", "supports_prompt"]);
    let lines = peer.run_to_end("/thinking");
    assert_eq!(outline(&lines), ["[running]", "[error]"], "{lines:#?}");
    let message = lines[1]["params"]["message"].as_str().unwrap();
    assert!(message.contains("Select a thinking level"), "{message}");
    assert_eq!(content(&peer.run_to_end("/thinking low"), "final"), "Thinking level set to low");
}

#[test]
fn pick_that_was_not_offered_counts_as_none() {
    for ids in [json!(["2"]), json!(["blue"]), json!(["+1"]), json!([1]), json!("1")] {
        let mut peer = Peer::ready(&Setup::new().script(ASKS), CAN);
        let run = peer.run("ask me");
        let pick = peer.question();
        peer.reply(&pick, json!({"ids": ids}));
        let (prompt, before) = peer.until(|line| line["method"] == "ui.prompt.request");
        let result = event(&before, "tool_result");
        assert_ne!(result["result"], "blue", "{ids}");
        peer.reply(&prompt, json!({"value": "because"}));
        assert_eq!(content(&peer.rest(&run), "final"), "Thanks.");
    }
}

#[test]
fn another_client_sees_and_answers_the_same_question() {
    let setup = asking();
    let mut peer = Peer::ready(&setup, CAN);
    let mut guest = Guest::interactor(&socket(&setup.state()));
    let run = peer.run("look");
    let question = peer.question();
    let asked = guest.until(|frame| is_event(frame, "interaction/requested"));
    let id = data(&asked, "interaction-id").to_owned();
    assert_eq!(question["id"], json!(id));
    let params = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    guest.ask("answer", "interaction_respond", &params);
    let (resumed, _) = peer.until(|line| line["method"] == "run.status");
    assert_eq!(resumed["params"]["status"], "running");
    // The dialog stays on the screen; its answer does nothing.
    peer.reply(&question, json!({"ok": false}));
    let lines = peer.rest(&run);
    assert_eq!(content(&lines, "final"), "Done.");
    // And a turn of the other client is shown, with its message.
    guest.ask("p", "prompt", "{:message \"from the guest\"}");
    let (message, _) = peer.until(|line| line["params"]["event"]["type"] == "hidden_user_message");
    assert_eq!(message["params"]["event"]["content"], "from the guest");
    peer.rest(message["params"]["run_id"].as_str().unwrap());
}

#[test]
fn question_of_another_session_says_whose_it_is() {
    let setup = Setup::new().script(&format!("{} :then :cycle}}", &BASH[..BASH.len() - 1]));
    let mut peer = Peer::ready(&setup, CAN);
    let mut guest = Guest::interactor(&socket(&setup.state()));
    guest.ask("n", "new_session", "{}");
    guest.ask("name", "set_session_name", "{:name \"The other one\"}");
    guest.ask("p", "prompt", "{:message \"theirs\"}");
    let (question, before) = peer.until(|line| line["method"] == "ui.confirm.request");
    let title = question["params"]["title"].as_str().unwrap();
    assert!(title.starts_with("Another session asks (\"The other one\", s-"), "{question}");
    assert!(title.ends_with("): Run command?"), "{question}");
    // No run of this session waits for it, or is begun by it.
    assert!(question["params"]["run_id"].is_null(), "{question}");
    assert_eq!(outline(&before), [""; 0], "{before:#?}");
    // Declined, it ends nothing here, and the other session's turn goes on.
    peer.reply(&question, json!({"ok": false}));
    guest.until(|frame| is_event(frame, "turn/ended"));
    let run = peer.run("ours");
    let question = peer.question();
    assert_eq!(
        (&question["params"]["title"], &question["params"]["run_id"]),
        (&json!("Run command?"), &json!(run))
    );
    peer.reply(&question, json!({"ok": true}));
    assert_eq!(content(&peer.rest(&run), "final"), "Done.");
}

#[test]
fn command_that_destroys_is_told_as_dangerous() {
    for (command, level) in [("rm -rf build", "danger"), ("echo hi", "normal")] {
        let script = BASH.replace("echo hi", command);
        let mut peer = Peer::ready(&Setup::new().script(&script), CAN);
        let run = peer.run("go on");
        let question = peer.question();
        assert_eq!(question["params"]["danger_level"], level, "{question}");
        peer.reply(&question, json!({"ok": true}));
        peer.rest(&run);
    }
}

#[test]
fn logout_asks_first_and_opens_a_new_session() {
    let setup = Setup::new().script(ECHO);
    let mut peer = Peer::ready(&setup, &[]);
    assert_eq!(peer.code("auth.logout", json!({})), -32000);
    peer.initialize(CAN);
    let session = |peer: &mut Peer| {
        peer.run_to_end("here");
        peer.ask("session.list", json!({}))["sessions"][0]["session_id"].clone()
    };
    let before = session(&mut peer);
    let id = peer.request("auth.logout", json!({}));
    let question = peer.question();
    assert_eq!(question["params"]["danger_level"], "danger");
    peer.reply(&question, json!({"ok": false}));
    let cancelled = json!({"ok": false, "auth_cleared": false, "session_cleared": false, "cancelled": true});
    assert_eq!(peer.answer(&id)["result"], cancelled);
    assert_eq!(session(&mut peer), before);
    let id = peer.request("auth.logout", json!({}));
    let question = peer.question();
    peer.reply(&question, json!({"ok": true}));
    assert_eq!(peer.answer(&id)["result"]["session_cleared"], true);
    assert_ne!(session(&mut peer), before);
}

#[test]
fn edit_is_shown_as_a_diff_with_its_file() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "e" :name "write" :arguments {:path "a.txt" :content "one\n"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let setup = Setup::new().script(script);
    let mut peer = Peer::ready(&setup, CAN);
    let run = peer.run("write");
    let (question, before) = peer.until(|line| line["method"] == "ui.confirm.request");
    let preview = event(&before, "permission.preview");
    assert!(preview["diff"].as_str().unwrap().contains("+one"), "{preview}");
    let call = event(&before, "tool_call");
    assert_eq!(call["args"]["file_path"], "a.txt");
    peer.reply(&question, json!({"ok": true}));
    let lines = peer.rest(&run);
    let result = event(&lines, "tool_result");
    let shown: serde_json::Value = serde_json::from_str(result["result"].as_str().unwrap()).unwrap();
    assert!(shown["diff"].as_str().unwrap().contains("+one"), "{shown}");
    assert_eq!(shown["file_path"], "a.txt");
    assert!(Path::new(&setup.project()).join("a.txt").exists());
}
