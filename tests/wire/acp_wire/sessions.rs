//! Sessions of the wire: opened side by side, listed, loaded after a kill, closed and deleted; and their settings.

use serde_json::{Value, json};

use super::turns::{BASH, ECHO, WAITING, yolo};
use crate::editor::{Editor, outline, text, updates};
use crate::support::{Setup, wait_until};

fn loaded(editor: &mut Editor, session: &str, folder: &str) -> Vec<Value> {
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
    let id = editor.request("session/load", params);
    let (end, before) = editor.until(|message| message["id"] == id && message.get("method").is_none());
    assert!(end.get("error").is_none(), "{end}");
    assert!(end["result"]["modes"]["currentModeId"].is_string(), "{end}");
    updates(&before, session)
}

fn listed(editor: &mut Editor, params: Value) -> Vec<String> {
    let rows = editor.ask("session/list", params)["sessions"].as_array().unwrap().clone();
    rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_acknowledged_is_loaded_after_a_kill() {
    let setup = yolo(BASH);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let folder = editor.folder("project");
    let (told, _) = editor.turn(&session, "look");
    editor.kill();

    let mut editor = Editor::ready(&setup, json!({}));
    assert_eq!(listed(&mut editor, json!({})), std::slice::from_ref(&session));
    assert_eq!(listed(&mut editor, json!({"cwd": folder})), std::slice::from_ref(&session));
    assert_eq!(listed(&mut editor, json!({"cwd": "/nowhere"})), [""; 0]);
    let old = loaded(&mut editor, &session, &folder);
    assert_eq!(text(&old, "user_message_chunk"), "look");
    for kind in ["agent_message_chunk", "agent_thought_chunk"] {
        assert_eq!(text(&old, kind), text(&told, kind), "{kind}");
    }
    let calls: Vec<_> = outline(&old).into_iter().filter(|kind| kind.starts_with("tool_call")).collect();
    assert_eq!(calls, ["tool_call completed"], "{old:#?}");
    let call = old.iter().find(|update| update["sessionUpdate"] == "tool_call").unwrap();
    assert_eq!((&call["rawInput"]["command"], &call["kind"]), (&json!("echo hi"), &json!("execute")));
    // The session goes on.
    let (told, _) = editor.turn(&session, "more");
    assert_eq!(text(&told, "agent_message_chunk"), "I look.Done.");
}

/// Takes a line out of the middle of a session's file.
fn lose_a_line(setup: &Setup) {
    let folder = std::fs::read_dir(setup.state().join("sessions")).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|path| path.extension().is_some_and(|end| end == "edn")).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(lines.len() / 2);
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
}

#[test]
fn faults_of_a_journal_are_told_when_it_is_loaded_or_resumed() {
    for method in ["session/load", "session/resume"] {
        for notices in [false, true] {
            let setup = yolo(ECHO);
            let can = if notices { json!({"session": {"notices": {}}}) } else { json!({}) };
            let mut editor = Editor::ready(&setup, can.clone());
            let (session, folder) = (editor.open("project"), editor.folder("project"));
            for number in 0..4 {
                editor.turn(&session, &format!("prompt {number}"));
            }
            editor.kill();
            lose_a_line(&setup);
            let mut editor = Editor::ready(&setup, can);
            let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
            let id = editor.request(method, params);
            let told =
                |message: &Value| message["params"]["update"].to_string().contains("was taken to follow");
            let (_, before) = editor.until(|message| told(message));
            let is_answered = |message: &Value| message["id"] == id && message.get("method").is_none();
            assert!(before.iter().any(is_answered), "{method}, {notices}: told with the session");
        }
    }
}

#[test]
fn resume_tells_no_history() {
    let setup = yolo(ECHO);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let folder = editor.folder("project");
    editor.turn(&session, "first");
    editor.ask("session/close", json!({"sessionId": session}));
    assert_eq!(editor.code("session/prompt", json!({"sessionId": session, "prompt": []})), -32602);
    let prompt = json!([{"type": "text", "text": "x"}]);
    assert_eq!(editor.code("session/prompt", json!({"sessionId": session, "prompt": prompt})), -32002);
    let id = editor.request("session/resume", json!({"sessionId": session, "cwd": folder, "mcpServers": []}));
    let (_, before) = editor.until(|message| message["id"] == id && message.get("method").is_none());
    assert_eq!(text(&updates(&before, &session), "user_message_chunk"), "");
    assert!(text(&editor.turn(&session, "second").0, "agent_message_chunk").contains("second"));
}

#[test]
fn deleted_session_is_gone_for_good() {
    let setup = yolo(ECHO);
    let mut editor = Editor::ready(&setup, json!({}));
    let (session, other) = (editor.open("project"), editor.open("project"));
    editor.turn(&session, "first");
    editor.turn(&other, "second");
    editor.ask("session/delete", json!({"sessionId": session}));
    assert_eq!(listed(&mut editor, json!({})), [other]);
    let folder = editor.folder("project");
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
    assert_eq!(editor.code("session/load", params), -32002);
    assert_eq!(editor.code("session/delete", json!({"sessionId": session})), -32002);
}

#[test]
fn close_ends_the_turn_and_its_prompt() {
    let mut editor = Editor::ready(&yolo(WAITING), json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "wait");
    editor.until(|message| message["params"]["update"]["status"] == "in_progress");
    editor.ask("session/close", json!({"sessionId": session}));
    assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.code("session/close", json!({"sessionId": session})), -32002);
}

#[test]
fn sessions_of_two_folders_stream_side_by_side() {
    let deltas = (0..400).map(|n| format!("{{:delta \"{n} \"}}")).collect::<Vec<_>>().join(" ");
    let mut editor = Editor::ready(&yolo(&format!("{{:turns [{{:steps [{deltas}]}}]}}")), json!({}));
    let (one, other) = (editor.open("project"), editor.open("another"));
    let asked = [(one.clone(), editor.prompt(&one, "x")), (other.clone(), editor.prompt(&other, "y"))];
    let mut ended = std::collections::BTreeSet::new();
    let (last, mut all) = {
        let mut all = Vec::new();
        loop {
            let message = editor.message();
            if let Some((_, id)) = asked.iter().find(|(_, id)| message["id"] == *id) {
                ended.insert(*id);
            }
            if ended.len() == 2 {
                break (message, all);
            }
            all.push(message);
        }
    };
    all.push(last);
    let whole: String = (0..400).map(|n| format!("{n} ")).collect();
    for (session, _) in &asked {
        assert_eq!(text(&updates(&all, session), "agent_message_chunk"), whole);
    }
}

#[test]
fn folder_and_session_must_fit() {
    let setup = yolo(ECHO);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    editor.turn(&session, "x");
    // A refusal leaves an open session as it is.
    let another = editor.folder("another");
    let params = json!({"sessionId": session, "cwd": another, "mcpServers": []});
    assert_eq!(editor.code("session/load", params), -32602);
    assert_eq!(text(&editor.turn(&session, "still here").0, "agent_message_chunk"), "still here");
    editor.ask("session/close", json!({"sessionId": session}));
    assert!(editor.quit().success());
    let mut editor = Editor::ready(&setup, json!({}));
    let params = json!({"sessionId": session, "cwd": another, "mcpServers": []});
    assert_eq!(editor.code("session/load", params), -32602);
    for cwd in ["relative", "/no/such/folder"] {
        assert_eq!(editor.code("session/new", json!({"cwd": cwd, "mcpServers": []})), -32602, "{cwd}");
    }
    let params = json!({"sessionId": "s-none", "cwd": another, "mcpServers": []});
    assert_eq!(editor.code("session/load", params), -32002);
}

/// The servers of this machine that are asked where nothing else leads to a model, at an address where none is.
const NOBODY: &str = "{:providers {\"ollama\" {:base-url \"http://127.0.0.1:9\"} \"llama-cpp\" {:base-url \"http://127.0.0.1:9\"}
                                   \"vllm\" {:base-url \"http://127.0.0.1:9\"} \"lm-studio\" {:base-url \"http://127.0.0.1:9\"}}}";

#[test]
fn key_chooses_the_model_and_none_is_a_missing_login() {
    let can = json!({"session": {"configOptions": {"boolean": {}}}});
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, NOBODY).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let model = |opened: &Value| {
        let options = opened["configOptions"].as_array().unwrap();
        options.iter().find(|option| option["id"] == "model").map(|option| option["currentValue"].clone())
    };
    let mut editor = Editor::ready(&setup, can.clone());
    let folder = editor.folder("project");
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert!(model(&opened).is_none_or(|current| current == "/"), "{opened}");
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]});
    let answer = editor.call("session/prompt", prompt);
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer.to_string().contains("There is no model yet."), "{answer}");
    editor.kill();
    let mut editor = Editor::ready(&setup.env("ANTHROPIC_API_KEY", "k"), can);
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
    assert_eq!(model(&opened), Some(json!("anthropic/claude-sonnet-5")), "{opened}");
}

#[test]
fn settings_are_told_and_changed() {
    let can = json!({"session": {"configOptions": {"boolean": {}}}});
    let mut editor = Editor::ready(&yolo(ECHO), can);
    let folder = editor.folder("project");
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(opened["modes"]["currentModeId"], "yolo");
    let ids: Vec<_> = opened["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["mode", "model", "auto_compaction", "auto_retry"]);
    editor.ask("session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
    assert_eq!(editor.update(&session, "current_mode_update")["currentModeId"], "ask");
    let set = |id: &str, value: Value, kind: Option<&str>| {
        let mut params = json!({"sessionId": session, "configId": id, "value": value});
        if let Some(kind) = kind {
            params["type"] = json!(kind);
        }
        params
    };
    let changed = editor.ask("session/set_config_option", set("mode", json!("read-only"), None));
    assert_eq!(changed["configOptions"][0]["currentValue"], "read-only");
    let changed = editor.ask("session/set_config_option", set("auto_retry", json!(false), Some("boolean")));
    assert_eq!(changed["configOptions"][3]["currentValue"], false);
    for params in [
        set("mode", json!("none"), None),
        set("none", json!("x"), None),
        set("model", json!("x"), None),
        set("auto_retry", json!("x"), None),
    ] {
        assert_eq!(editor.code("session/set_config_option", params), -32602);
    }
}

#[test]
fn servers_of_the_editor_are_the_sessions_own() {
    let setup = yolo(ECHO);
    let mut editor = Editor::ready(&setup, json!({}));
    let folder = editor.folder("project");
    let servers = json!([
        {"name": "files", "command": "/no/such/server", "args": ["x"], "env": [{"name": "KEY", "value": "v"}]},
        {"type": "http", "name": "far", "url": "http://127.0.0.1:1/mcp", "headers": []},
    ]);
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": servers}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let query = "[{:psi.mcp/servers [:psi.mcp-server/name :psi.mcp-server/source]}]";
    let names = |editor: &mut Editor, session: &str| {
        let found = editor.ask("_edn-bridge/query_eql", json!({"sessionId": session, "query": query}));
        let all = found["psi.mcp/servers"].as_array().unwrap_or_else(|| panic!("{found}")).clone();
        all.iter().map(|of| of["psi.mcp-server/name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut editor, &session), ["far", "files"]);
    // They are not started for that, and another session has none of them.
    let other = editor.open("project");
    assert_eq!(names(&mut editor, &other), [""; 0]);
    editor.turn(&session, "x");
    assert!(editor.quit().success());
    let mut editor = Editor::ready(&setup, json!({}));
    let again = json!({"sessionId": session, "cwd": folder, "mcpServers": [servers[0]]});
    editor.ask("session/load", again);
    assert_eq!(names(&mut editor, &session), ["files"]);
    let sse = json!([{"type": "sse", "name": "s", "url": "http://127.0.0.1:1", "headers": []}]);
    assert_eq!(editor.code("session/new", json!({"cwd": folder, "mcpServers": sse})), -32602);
}

#[test]
fn servers_of_the_editor_end_with_its_session() {
    let setup = yolo(ECHO);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_engine/server.py");
    let (first, second) = (setup.project().join("first"), setup.project().join("second"));
    let mut editor = Editor::ready(&setup, json!({}));
    let folder = editor.folder("project");
    let server = |started: &std::path::Path| {
        let env = json!([{"name": "STARTED", "value": started}]);
        json!([{"name": "s", "command": "python3", "args": [program], "env": env}])
    };
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": server(&first)}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    editor.turn(&session, "x");
    let ended = |started: &std::path::Path| started.with_extension("ended").exists();
    assert!(first.exists() && !ended(&first));
    // Whoever loads it with others gets those, in place of the first.
    let again = json!({"sessionId": session, "cwd": folder, "mcpServers": server(&second)});
    editor.ask("session/load", again);
    wait_until("the first server ends", || ended(&first));
    editor.turn(&session, "x");
    assert!(second.exists() && !ended(&second));
    editor.ask("session/close", json!({"sessionId": session}));
    wait_until("the second server ends", || ended(&second));
}

#[test]
fn server_of_the_editor_hides_all_of_its_namesake() {
    let setup = yolo(ECHO);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp_engine/server.py");
    let started = setup.project().join("started");
    let configuration = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&configuration).unwrap();
    let many = format!(
        "{{:mcp {{\"s\" {{:command [\"python3\" {program:?} \"many\"] :env {{\"STARTED\" {started:?}}}}}}}}}"
    );
    std::fs::write(configuration.join("config.edn"), many).unwrap();
    let mut editor = Editor::ready(&setup, json!({}));
    let folder = editor.folder("project");
    let env = json!([{"name": "STARTED", "value": started}]);
    let servers = json!([{"name": "s", "command": "python3", "args": [program], "env": env}]);
    let opened = editor.ask("session/new", json!({"cwd": folder, "mcpServers": servers}));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    editor.turn(&session, "x");
    let tools = |editor: &mut Editor, session: &str| {
        let query = "[{:psi.tool/list [:psi.tool/name]}]";
        editor.ask("_edn-bridge/query_eql", json!({"sessionId": session, "query": query})).to_string()
    };
    let own = tools(&mut editor, &session);
    assert!(own.contains("mcp__s__echo") && !own.contains("mcp__s__t1"), "{own}");
    // Those of the folder are there for a session without such a server.
    let other = editor.open("project");
    editor.turn(&other, "x");
    let others = tools(&mut editor, &other);
    assert!(!others.contains("mcp__s__echo") && others.contains("mcp__s__t1"), "{others}");
}

#[test]
fn long_list_has_pages() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    for n in 0..60 {
        let session = editor.open("project");
        editor.turn(&session, &format!("session {n}"));
        editor.ask("session/close", json!({"sessionId": session}));
    }
    let page = editor.ask("session/list", json!({}));
    assert_eq!(page["sessions"].as_array().unwrap().len(), 50);
    let rest = editor.ask("session/list", json!({"cursor": page["nextCursor"]}));
    assert_eq!(rest["sessions"].as_array().unwrap().len(), 10);
    assert!(rest.get("nextCursor").is_none_or(Value::is_null));
    assert!(rest["sessions"][9]["title"].as_str().unwrap().contains("session 0"), "newest first");
    assert_eq!(editor.code("session/list", json!({"cursor": "x"})), -32602);
}
