//! Version 2: what differs from version 1. The same mapping is behind both.

use serde_json::{Value, json};

use super::turns::{BASH, ECHO, WAITING, yolo};
use crate::editor::{Editor, outline, text, updates};
use crate::support::Setup;

const EDIT: &str = r#"{:turns [{:steps [{:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
                             {:steps [{:tool-call {:id "n" :name "write" :arguments {:path "b.txt" :content "new"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;

const ASK: &str = r#"{:turns [{:steps [{:tool-call {:id "q" :name "ask-user" :arguments {:question "Which?" :options ["red" "blue"]}}}]}
                            {:steps [{:delta "Done."}]}]}"#;

/// The states that are told, in order.
fn states(messages: &[Value]) -> Vec<String> {
    let states = messages.iter().filter(|m| m["params"]["update"]["sessionUpdate"] == "state_update");
    states.map(|m| m["params"]["update"]["state"].as_str().unwrap().to_owned()).collect()
}

fn resumed(editor: &mut Editor, session: &str, folder: &str, replay: Value) -> (Value, Vec<Value>) {
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": [], "replayFrom": replay});
    let id = editor.request("session/resume", params);
    editor.until(|message| message["id"] == id && message.get("method").is_none())
}

#[test]
fn editor_gets_the_version_that_it_asks_for() {
    for (asked, expected) in [(1, 1), (2, 2), (7, 2)] {
        let mut editor = Editor::start(&yolo(ECHO));
        editor.version = expected;
        let info = json!({"name": "e", "version": "1"});
        let params = json!({"protocolVersion": asked, "info": info, "clientInfo": info});
        assert_eq!(editor.ask("initialize", params)["protocolVersion"], expected, "{asked}");
        // It is agreed on once.
        let other = json!({"protocolVersion": 3 - expected, "info": info, "clientInfo": info});
        assert_eq!(editor.code("initialize", other), -32600);
    }
    let mut editor = Editor::start(&yolo(ECHO));
    let refused = editor.call("initialize", json!({"protocolVersion": 0}));
    let expected = json!({"requested": 0, "supported": [1, 2]});
    assert_eq!((&refused["error"]["code"], &refused["error"]["data"]), (&json!(-32022), &expected));
    // It is no agreement.
    assert_eq!(editor.code("session/list", json!({})), -32600);
    editor.initialize(json!({}));
    assert!(editor.quit().success());
}

#[test]
fn capabilities_of_version_2_are_objects() {
    let mut editor = Editor::start(&yolo(ECHO));
    editor.version = 2;
    let told = editor.initialize(json!({"auth": {"terminal": {}}}));
    assert_eq!((&told["protocolVersion"], &told["info"]["name"]), (&json!(2), &json!("edn-bridge")));
    let can = &told["capabilities"]["session"];
    for place in ["/prompt/image", "/prompt/embeddedContext", "/mcp/stdio", "/mcp/http", "/delete"] {
        assert!(can.pointer(place).is_some_and(Value::is_object), "{place}: {can}");
    }
    assert_eq!(
        (&told["authMethods"][0]["type"], &told["authMethods"][0]["args"]),
        (&json!("terminal"), &json!(["login"]))
    );
    assert_eq!(editor.code("auth/login", json!({"methodId": "login"})), -32602);
    assert_eq!(editor.ask("auth/logout", json!({})), json!({}));
    for method in
        ["authenticate", "logout", "session/load", "session/set_mode", "session/fork", "terminal/cancel"]
    {
        assert_eq!(editor.code(method, json!({})), -32601, "{method}");
    }
}

#[test]
fn prompt_is_answered_at_once_and_a_state_ends_it() {
    let mut editor = Editor::second(&yolo(BASH), json!({}));
    let session = editor.open("project");
    let (told, end) = editor.second_turn(&session, "look");
    assert_eq!(end["stopReason"], "end_turn");
    let expected = [
        "state_update",
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call_update pending",
        "tool_call_update in_progress",
        "tool_call_update completed",
        "agent_message_chunk",
    ];
    let others = ["usage_update", "session_info_update", "available_commands_update"];
    let mut shown: Vec<_> = outline(&told).into_iter().filter(|kind| !others.contains(&&**kind)).collect();
    shown.dedup();
    assert_eq!(shown, expected, "{told:#?}");
    assert_eq!(text(&told, "user_message_chunk"), "look");
    assert_eq!(text(&told, "agent_message_chunk"), "I look.Done.");
    let first = told.iter().find(|update| update["toolCallId"] == "c1").unwrap();
    assert_eq!((&first["kind"], &first["name"]), (&json!("execute"), &json!("bash")));
    assert!(editor.quit().success());
}

#[test]
fn prompts_of_version_2_are_answered_when_they_are_in() {
    let mut editor = Editor::second(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    let asked: Vec<_> = (0..3).map(|n| editor.prompt(&session, &format!("number {n}"))).collect();
    let mut ids = std::collections::BTreeSet::new();
    for (n, id) in asked.iter().enumerate() {
        let (end, before) = editor.until_idle(&session);
        assert_eq!(end["stopReason"], "end_turn");
        let answered: Vec<_> = before.iter().filter(|message| message.get("result").is_some()).collect();
        assert_eq!((answered.len(), &answered[0]["id"]), (1, &json!(id)), "{answered:#?}");
        ids.insert(answered[0]["result"]["messageId"].as_str().unwrap().to_owned());
        assert!(text(&updates(&before, &session), "agent_message_chunk").contains(&format!("number {n}")));
    }
    assert_eq!(ids.len(), 3);
}

#[test]
fn cancel_in_version_2_is_a_state_and_refuses_what_waits() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    let running = editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    let waiting = editor.prompt(&session, "and then");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(waiting)["error"]["code"], -32800);
    let (end, _) = editor.until_idle(&session);
    assert_eq!(end["stopReason"], "cancelled");
    let _ = running;
    let (told, end) = editor.second_turn(&session, "next");
    assert_eq!(
        (text(&told, "agent_message_chunk").as_str(), &end["stopReason"]),
        ("later", &json!("end_turn"))
    );
}

#[test]
fn waiting_prompt_is_cancelled_as_a_request() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    let running = editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    // What is in the conversation is no request any more.
    editor.notify("$/cancel_request", json!({"requestId": running}));
    let waiting = editor.prompt(&session, "and then");
    editor.notify("$/cancel_request", json!({"requestId": waiting}));
    assert_eq!(editor.answer(waiting)["error"]["code"], -32800);
    assert_eq!(editor.until_idle(&session).0["stopReason"], "cancelled");
}

#[test]
fn permission_of_version_2_shows_a_patch_and_blocks() {
    let setup = Setup::new().script(EDIT);
    std::fs::write(setup.project().join("a.txt"), "one\n").unwrap();
    let mut editor = Editor::second(&setup, json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "edit");
    let (question, before) = editor.until(|message| message["method"] == "session/request_permission");
    assert_eq!(states(&before), ["running", "requires_action"]);
    let params = &question["params"];
    assert!(params["title"].as_str().unwrap().contains("a.txt"), "{params}");
    let path = setup.project().canonicalize().unwrap().join("a.txt");
    let path = path.to_str().unwrap();
    let call = &params["subject"]["toolCall"];
    assert_eq!((&params["subject"]["type"], &call["toolCallId"]), (&json!("tool_call"), &json!("e")));
    let expected = format!("diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1,1 +1,1 @@\n-one\n+two\n");
    let diff = &call["content"][0];
    assert_eq!(
        (&diff["type"], &diff["patch"]),
        (&json!("diff"), &json!({"format": "git_patch", "text": expected}))
    );
    assert_eq!(diff["changes"], json!([{"operation": "modify", "path": path, "fileType": "text"}]));
    editor.choose(&question, "allow");
    let (question, before) = editor.until(|message| message["method"] == "session/request_permission");
    assert_eq!(states(&before), ["running", "requires_action"]);
    let done = updates(&before, &session).into_iter().find(|update| update["status"] == "completed").unwrap();
    assert_eq!(done["content"][0]["patch"]["text"], expected);
    editor.choose(&question, "allow");
    let (end, before) = editor.until_idle(&session);
    assert_eq!(end["stopReason"], "end_turn");
    let done = updates(&before, &session).into_iter().find(|update| update["status"] == "completed").unwrap();
    let new = &done["content"][0];
    assert_eq!(new["changes"][0]["operation"], "add");
    assert!(
        new["patch"]["text"].as_str().unwrap().contains("new file mode 100644\n--- /dev/null\n+++ /"),
        "{new}"
    );
    // The history has the same change.
    editor.ask("session/close", json!({"sessionId": session}));
    let folder = editor.folder("project");
    let (_, before) = resumed(&mut editor, &session, &folder, json!({"type": "start"}));
    let told = updates(&before, &session);
    let old = told.iter().find(|update| update["toolCallId"] == "e").unwrap();
    assert_eq!(old["content"][0]["patch"]["text"], expected, "{old}");
}

#[test]
fn choice_of_version_2_has_no_call() {
    let mut editor = Editor::second(&Setup::new().script(ASK), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "ask");
    let question = editor.question();
    assert_eq!((&question["params"]["title"], question["params"].get("subject")), (&json!("Which?"), None));
    editor.choose(&question, "1");
    let (_, before) = editor.until_idle(&session);
    let done = updates(&before, &session).into_iter().find(|update| update["status"] == "completed").unwrap();
    assert_eq!(done["content"][0]["content"]["text"], "blue");

    let mut editor = Editor::second(&Setup::new().script(ASK), json!({"elicitation": {"form": {}}}));
    let session = editor.open("project");
    editor.prompt(&session, "ask");
    let question = editor.question();
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("form"))
    );
    editor.reply(&question, json!({"action": "decline"}));
    assert_eq!(editor.until_idle(&session).0["stopReason"], "end_turn");
}

#[test]
fn resume_of_version_2_replays_from_the_start_or_nothing() {
    let setup = yolo(BASH);
    let mut editor = Editor::second(&setup, json!({}));
    let session = editor.open("project");
    let folder = editor.folder("project");
    let (told, _) = editor.second_turn(&session, "look");
    let id = |told: &[Value]| {
        let echo = told.iter().find(|update| update["sessionUpdate"] == "user_message_chunk").unwrap();
        echo["messageId"].clone()
    };
    let live = id(&told);
    editor.kill();
    let mut editor = Editor::second(&setup, json!({}));
    let (end, before) = resumed(&mut editor, &session, &folder, Value::Null);
    assert!(end["result"]["configOptions"].is_array(), "{end}");
    assert_eq!((states(&before), updates(&before, &session).len()), (vec!["idle".to_owned()], 1));
    let (_, before) = resumed(&mut editor, &session, &folder, json!({"type": "start"}));
    let told = updates(&before, &session);
    assert_eq!(text(&told, "user_message_chunk"), "look");
    assert_eq!(text(&told, "agent_message_chunk"), "I look.Done.");
    assert_eq!(id(&told), live, "the message keeps its id");
    assert_eq!(told.last().unwrap()["state"], "idle");
    let (end, _) = resumed(&mut editor, &session, &folder, json!({"type": "_somewhere"}));
    assert_eq!(end["error"]["code"], -32602);
    let (told, _) = editor.second_turn(&session, "more");
    assert_eq!(text(&told, "agent_message_chunk"), "I look.Done.");
}

#[test]
fn resume_during_a_turn_says_that_it_runs() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    let folder = editor.folder("project");
    editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    let (_, before) = resumed(&mut editor, &session, &folder, json!({"type": "start"}));
    assert_eq!(states(&before), ["running"]);
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.until_idle(&session).0["stopReason"], "cancelled");
}

#[test]
fn settings_of_version_2_have_the_mode_among_them() {
    let mut editor = Editor::second(&yolo(ECHO), json!({}));
    let folder = editor.folder("project");
    let opened = editor.ask("session/new", json!({"cwd": folder}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert!(opened.get("modes").is_none(), "{opened}");
    let options = opened["configOptions"].as_array().unwrap();
    let ids: Vec<_> = options.iter().map(|option| option["configId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["mode", "model", "auto_compaction", "auto_retry"]);
    let set = |id: &str, kind: &str, value: Value| {
        let mut params = json!({"sessionId": session, "configId": id, "type": kind});
        params["value"] = value;
        params
    };
    let changed = editor.ask("session/set_config_option", set("mode", "id", json!("read-only")));
    assert_eq!(changed["configOptions"][0]["currentValue"], "read-only");
    let changed = editor.ask("session/set_config_option", set("auto_retry", "boolean", json!(false)));
    assert_eq!(changed["configOptions"][3]["currentValue"], false);
    for params in [
        set("mode", "id", json!("none")),
        set("auto_retry", "_other", json!(1)),
        set("none", "id", json!("x")),
    ] {
        assert_eq!(editor.code("session/set_config_option", params), -32602);
    }
    // Whoever changes them.
    editor.prompt(&session, "/mode ask");
    editor.until(|message| message["params"]["update"]["configOptions"][0]["currentValue"] == "ask");
}

#[test]
fn command_of_version_2_runs_like_a_turn() {
    let mut editor = Editor::second(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    for command in ["/status", "/new", "/statsu", "/mode nothing"] {
        let (told, end) = editor.second_turn(&session, command);
        assert_eq!(end["stopReason"], "end_turn", "{command}");
        assert_eq!(text(&told, "user_message_chunk"), command);
        assert!(!text(&told, "agent_message_chunk").is_empty(), "{command}");
    }
}

#[test]
fn choice_of_a_command_blocks_until_it_is_made() {
    let mut editor = Editor::second(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "/thinking");
    let (question, before) = editor.until(|message| message["method"] == "session/request_permission");
    assert_eq!(states(&before), ["requires_action"]);
    let option = question["params"]["options"][0]["optionId"].as_str().unwrap().to_owned();
    editor.choose(&question, &option);
    let (end, _) = editor.until_idle(&session);
    assert_eq!(end["stopReason"], "end_turn");
    let id = editor.prompt(&session, "/thinking");
    editor.question();
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["error"]["code"], -32800);
    assert_eq!(editor.until_idle(&session).0["stopReason"], "cancelled");
}

#[test]
fn choice_beside_a_turn_leaves_the_turn_running() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    editor.prompt(&session, "/thinking");
    let (question, before) = editor.until(|message| message["method"] == "session/request_permission");
    assert_eq!(states(&before), ["requires_action"]);
    let option = question["params"]["options"][0]["optionId"].as_str().unwrap().to_owned();
    editor.choose(&question, &option);
    let (state, _) = editor.until(|message| message["params"]["update"]["sessionUpdate"] == "state_update");
    assert_eq!(state["params"]["update"]["state"], "running");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.until_idle(&session).0["stopReason"], "cancelled");
}

#[test]
fn failure_of_version_2_is_a_state_with_its_reason() {
    let script = r#"{:turns [{:steps [{:error {:kind :fatal :message "The model is gone."}}]}]}"#;
    let mut editor = Editor::second(&yolo(script), json!({}));
    let session = editor.open("project");
    let (_, end) = editor.second_turn(&session, "x");
    assert_eq!((&end["stopReason"], &end["error"]["code"]), (&json!("error"), &json!(-32603)));
    assert!(end["error"]["message"].as_str().unwrap().contains("The model is gone."), "{end}");
}

#[test]
fn close_of_version_2_tells_the_end_before_its_answer() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    let waiting = editor.prompt(&session, "and then");
    let closing = editor.request("session/close", json!({"sessionId": session}));
    let (_, before) = editor.until(|message| message["id"] == closing && message.get("method").is_none());
    let told = updates(&before, &session);
    assert_eq!(told.last().unwrap()["stopReason"], "cancelled", "{told:#?}");
    assert!(
        told.iter().any(|update| update["toolCallId"] == "w" && update["status"] == "failed"),
        "{told:#?}"
    );
    let refused = before.iter().find(|message| message["id"] == waiting).unwrap();
    assert_eq!(refused["error"]["code"], -32800);
    let gone = editor.call("session/close", json!({"sessionId": session}));
    assert_eq!(
        (&gone["error"]["code"], &gone["error"]["data"]["sessionId"]),
        (&json!(-32002), &json!(session))
    );
}

#[test]
fn call_is_not_cancelled_alone() {
    let mut editor = Editor::second(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "wait");
    let (running, _) = editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    // So none says that it can be.
    assert!(running["params"]["update"].get("capabilities").is_none());
    assert_eq!(editor.code("tool_call/cancel", json!({"sessionId": session, "toolCallId": "w"})), -32602);
    assert_eq!(editor.code("tool_call/cancel", json!({"sessionId": "s-none", "toolCallId": "w"})), -32002);
}

#[test]
fn notices_and_compactions_of_version_2_need_no_capability() {
    let script = r#"{:turns [{:steps [{:delta "Long enough."}]} {:steps [{:delta "A summary."}]}]}"#;
    let mut editor = Editor::second(&yolo(script), json!({}));
    let session = editor.open("project");
    editor.second_turn(&session, "x");
    editor.second_turn(&session, "y");
    let (told, end) = editor.second_turn(&session, "/compact");
    assert_eq!(end["stopReason"], "end_turn");
    assert!(text(&told, "agent_message_chunk").contains("summary"), "{told:#?}");
    let told: Vec<_> = outline(&told).into_iter().filter(|kind| kind.starts_with("compaction")).collect();
    assert_eq!(told, ["compaction_update in_progress", "compaction_update completed"]);
}
