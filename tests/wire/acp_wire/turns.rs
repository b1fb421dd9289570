//! Prompts: what a turn tells, and how it ends.

use serde_json::{Value, json};

use crate::editor::{Editor, outline, text, updates};
use crate::support::Setup;

pub const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";

/// A call of `bash`, then an answer.
pub const BASH: &str = r#"{:turns [{:steps [{:thinking "hm"} {:delta "I look."} {:tool-call {:id "c1" :name "bash" :arguments {:command "echo hi"}}}]}
                           {:steps [{:delta "Done."}] :usage {:input 90 :output 10}}]}"#;

/// A call of `bash` that runs until it is ended.
pub const WAITING: &str = r#"{:turns [{:steps [{:delta "a"} {:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; while [ -d $PWD ]; do sleep 0.02; done"}}}]}
                          {:steps [{:delta "later"}]}]}"#;

pub fn yolo(script: &str) -> Setup {
    Setup::new().script(script).arg("--yolo")
}

#[test]
fn turn_with_a_tool_is_told_in_order_and_answered_last() {
    let mut editor = Editor::ready(&yolo(BASH), json!({}));
    let session = editor.open("project");
    let (told, reason) = editor.turn(&session, "look");
    assert_eq!(reason, "end_turn");
    let expected = [
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
    ];
    let mut shown: Vec<_> = outline(&told)
        .into_iter()
        .filter(|kind| {
            !["usage_update", "session_info_update", "available_commands_update"].contains(&&**kind)
        })
        .collect();
    shown.dedup();
    assert_eq!(shown, expected, "{told:#?}");
    assert_eq!(text(&told, "agent_message_chunk"), "I look.Done.");
    assert_eq!(text(&told, "agent_thought_chunk"), "hm");
    let of = |status: &str| told.iter().find(|update| update["status"] == status).unwrap();
    let call = told.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!(call["kind"], "execute");
    assert_eq!(of("in_progress")["rawInput"], json!({"command": "echo hi"}));
    assert_eq!(of("completed")["content"][0]["content"]["text"], "hi\n");
    let usage = told.iter().rfind(|update| update["sessionUpdate"] == "usage_update").unwrap();
    assert_eq!(usage["used"], 100, "{usage}");
    assert!(editor.quit().success());
}

#[test]
fn messages_of_one_turn_have_ids_of_their_own() {
    let mut editor = Editor::ready(&yolo(BASH), json!({}));
    let session = editor.open("project");
    let (told, _) = editor.turn(&session, "look");
    let chunks = told.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    let mut ids: Vec<_> = chunks.map(|chunk| chunk["messageId"].as_str().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2, "{ids:?}");
}

#[test]
fn prompts_that_wait_are_answered_each_at_its_own_end() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    let asked: Vec<_> = (0..5).map(|n| editor.prompt(&session, &format!("number {n}"))).collect();
    for (n, id) in asked.iter().enumerate() {
        let (end, before) = editor.until(|message| message["id"] == *id && message.get("method").is_none());
        assert_eq!(end["result"]["stopReason"], "end_turn");
        let said = text(&updates(&before, &session), "agent_message_chunk");
        assert!(said.contains(&format!("number {n}")), "{said}");
    }
}

#[test]
fn cancelled_turn_and_what_waits_end_as_cancelled() {
    let setup = yolo(WAITING);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let running = editor.prompt(&session, "wait");
    let is_running = |message: &Value| message["params"]["update"]["status"] == "in_progress";
    editor.until(is_running);
    let waiting = editor.prompt(&session, "and then");
    editor.notify("session/cancel", json!({"sessionId": session}));
    for id in [running, waiting] {
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    }
    // What was cancelled is not said later.
    let (told, reason) = editor.turn(&session, "next");
    assert_eq!((text(&told, "agent_message_chunk").as_str(), reason.as_str()), ("later", "end_turn"));
    let again = editor.prompt(&session, "x");
    editor.notify("$/cancel_request", json!({"requestId": again}));
    let reason = editor.answer(again)["result"]["stopReason"].as_str().unwrap().to_owned();
    assert!(["cancelled", "end_turn"].contains(&reason.as_str()), "{reason}");
}

#[test]
fn edit_is_told_with_both_texts() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
                             {:steps [{:tool-call {:id "n" :name "write" :arguments {:path "b.txt" :content "new"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let setup = yolo(script);
    std::fs::write(setup.project().join("a.txt"), "one\n").unwrap();
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let (told, _) = editor.turn(&session, "edit");
    let diffs: Vec<_> = told
        .iter()
        .filter(|update| update["status"] == "completed")
        .map(|update| update["content"][0].clone())
        .collect();
    let path = |name: &str| setup.project().canonicalize().unwrap().join(name);
    assert_eq!(
        diffs[0],
        json!({"type": "diff", "path": path("a.txt"), "oldText": "one\n", "newText": "two\n"})
    );
    assert_eq!(diffs[1]["newText"], "new");
    assert!(diffs[1].get("oldText").is_none_or(Value::is_null), "{}", diffs[1]);
    let of_edit = || told.iter().filter(|update| update["toolCallId"] == "e");
    assert!(of_edit().any(|update| update["kind"] == "edit"));
    assert!(of_edit().any(|update| update["locations"][0]["path"] == json!(path("a.txt"))), "{told:#?}");
}

#[test]
fn failed_turn_is_an_error_with_its_reason() {
    let mut editor = Editor::ready(
        &yolo(r#"{:turns [{:steps [{:error {:kind :fatal :message "The model is gone."}}]}]}"#),
        json!({}),
    );
    let session = editor.open("project");
    let id = editor.prompt(&session, "x");
    let answer = editor.answer(id);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("The model is gone."), "{answer}");
}

#[test]
fn slash_command_is_answered_in_words() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    let commands = editor.update(&session, "available_commands_update");
    let names: Vec<_> = commands["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"status") && !names.contains(&"new"), "{names:?}");
    let (told, reason) = editor.turn(&session, "/status");
    assert_eq!(reason, "end_turn");
    assert!(!text(&told, "agent_message_chunk").is_empty());
    for refused in ["/new", "/statsu", "/mode nothing"] {
        let (told, reason) = editor.turn(&session, refused);
        assert_eq!(reason, "end_turn", "{refused}");
        assert!(!text(&told, "agent_message_chunk").is_empty(), "{refused}");
    }
    editor.prompt(&session, "/mode accept-edits");
    assert_eq!(editor.update(&session, "current_mode_update")["currentModeId"], "accept-edits");
}

#[test]
fn cancel_ends_a_prompt_that_a_server_does_not_answer() {
    let setup = yolo(ECHO);
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_engine/server.py");
    let (name, started) = ("STARTED", setup.project().join("started"));
    let server = format!("{{:command [\"python3\" {program:?}] :env {{{name:?} {started:?}}}}}");
    std::fs::write(folder.join("config.edn"), format!("{{:mcp {{\"s\" {server}}}}}")).unwrap();
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let waiting = editor.prompt(&session, "/mcp__s__silent");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(waiting)["result"]["stopReason"], "cancelled");
    let (told, reason) = editor.turn(&session, "next");
    assert_eq!((text(&told, "agent_message_chunk").as_str(), reason.as_str()), ("next", "end_turn"));
}
