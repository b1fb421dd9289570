//! Rows of the mapping that no other test has: who is told what, and what ends how.

use serde_json::{Value, json};

use super::turns::{ECHO, yolo};
use crate::editor::{Editor, outline, text, updates};
use crate::support::Setup;
use crate::support::server::{Answer, Server};

fn end(editor: &mut Editor, id: i64) -> (Value, Vec<Value>) {
    editor.until(|message| message["id"] == id && message.get("method").is_none())
}

fn query(editor: &mut Editor, session: &str, query: &str) -> Value {
    editor.ask("_edn-bridge/query_eql", json!({"sessionId": session, "query": query}))
}

fn op(editor: &mut Editor, session: &str, op: &str, params: &str) -> Value {
    editor.call("_edn-bridge/op", json!({"sessionId": session, "op": op, "params": params}))
}

#[test]
fn editor_is_seen_in_the_graph() {
    for second in [false, true] {
        let setup = yolo(ECHO);
        let mut editor = Editor::of(second, &setup);
        let session = editor.open("project");
        let found = query(&mut editor, &session, "[{:psi.connection/list [:psi.connection/client-name]}]");
        assert!(found.to_string().contains("\"test\""), "{found}");
    }
}

#[test]
fn title_of_the_session_is_told() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "Call it Ishmael");
    assert_eq!(editor.update(&session, "session_info_update")["title"], "Call it Ishmael");
    editor.prompt(&session, "/name The whale");
    assert_eq!(editor.update(&session, "session_info_update")["title"], "The whale");
}

#[test]
fn ends_of_a_turn_are_those_of_its_last_answer() {
    for (reason, expected) in [("max-tokens", "max_tokens"), ("refusal", "refusal")] {
        let script = format!("{{:turns [{{:steps [{{:delta \"x\"}}] :stop-reason {reason:?}}}]}}");
        let mut editor = Editor::ready(&yolo(&script), json!({}));
        let session = editor.open("project");
        assert_eq!(editor.turn(&session, "x").1, expected);
        let mut editor = Editor::second(&yolo(&script), json!({}));
        let session = editor.open("project");
        assert_eq!(editor.second_turn(&session, "x").1["stopReason"], expected);
    }
}

#[test]
fn turn_without_a_key_needs_a_login() {
    let models = Server::new([]);
    let setup = Setup::new().arg("--provider").arg("k").arg("--model").arg("m");
    let config =
        format!("{{:providers {{\"k\" {{:base-url {:?} :key-variables [\"NO_SUCH_KEY\"]}}}}}}", models.url());
    let path = setup.dir.path().join("config.edn");
    std::fs::write(&path, config).unwrap();
    let path = path.to_str().unwrap().to_owned();
    let setup = setup.arg("--config").arg(&path);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "x");
    assert_eq!(editor.answer(id)["error"]["code"], -32000);
    let mut editor = Editor::second(&setup, json!({}));
    let session = editor.open("project");
    let (_, end) = editor.second_turn(&session, "x");
    assert_eq!((&end["stopReason"], &end["error"]["code"]), (&json!("error"), &json!(-32000)));
}

/// A setup with a provider at which one logs in.
fn login_setup(models: &Server, login: &str) -> Setup {
    let setup = Setup::new().arg("--provider").arg("p").arg("--model").arg("m");
    let config = format!(
        "{{:providers {{\"p\" {{:name \"Example\" :base-url {:?} :login {{:client-id \"c\" {login}}}}}}}}}",
        models.url()
    );
    let path = setup.dir.path().join("config.edn");
    std::fs::write(&path, config).unwrap();
    let path = path.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&path)
}

fn device_login() -> Server {
    let begun = r#"{"device_code":"dc-secret","user_code":"WDJB-MJHT","expires_in":600,"interval":0,
                    "verification_uri":"https://p.example/device"}"#;
    let tokens = r#"{"access_token":"at","token_type":"Bearer"}"#;
    Server::new([Answer::json(200, begun), Answer::json(200, tokens)])
}

#[test]
fn logout_forgets_the_login() {
    for second in [false, true] {
        let (models, auth) = (Server::new([]), device_login());
        let login = format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url());
        let setup = login_setup(&models, &login);
        let mut editor = Editor::of(second, &setup);
        let session = editor.open("project");
        assert!(op(&mut editor, &session, "login_begin", "{:provider :p}").get("error").is_none());
        let done = op(&mut editor, &session, "login_complete", "{}");
        assert_eq!(done["result"]["logged-in"], true, "{done}");
        let has_login = || {
            let kept = std::fs::read_to_string(setup.state().join("credentials.edn")).unwrap_or_default();
            kept.contains("\"at\"")
        };
        assert!(has_login());
        editor.ask(if second { "auth/logout" } else { "logout" }, json!({}));
        assert!(!has_login());
    }
}

#[test]
fn op_of_the_edn_wire_is_run() {
    let mut editor = Editor::ready(&yolo(ECHO), json!({}));
    let session = editor.open("project");
    editor.turn(&session, "first");
    let state = op(&mut editor, &session, "get_state", "{}");
    assert_eq!(state["result"]["state"]["session-id"], json!(session), "{state}");
    let stats = op(&mut editor, &session, "get_session_stats", "{}");
    assert!(stats["result"]["stats"].is_object(), "{stats}");
    // What it says is told, because another client says it.
    op(&mut editor, &session, "prompt", "{:message \"from elsewhere\"}");
    assert_eq!(editor.update(&session, "user_message_chunk")["content"]["text"], "from elsewhere");
    // A session that it opens is not the editor's.
    let opened = op(&mut editor, &session, "new_session", "{}");
    assert!(opened["result"]["session-id"].is_string(), "{opened}");
    editor.turn(&session, "still here");
    for (name, params) in [
        ("no_such_op", "{}"),
        ("subscribe", "{}"),
        ("set_mode", "{:mode 7}"),
        ("get_state", "["),
        ("get_state", "7"),
    ] {
        assert_eq!(op(&mut editor, &session, name, params)["error"]["code"], -32602, "{name} {params}");
    }
    assert_eq!(op(&mut editor, "s-none", "get_state", "{}")["error"]["code"], -32002);
}

#[test]
fn device_code_is_a_page_or_a_permission() {
    let (models, auth) = (Server::new([]), device_login());
    let login = format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url());
    let mut editor = Editor::ready(&login_setup(&models, &login), json!({"elicitation": {"url": {}}}));
    let session = editor.open("project");
    editor.prompt(&session, "/login p");
    let question = editor.question();
    let params = &question["params"];
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://p.example/device")));
    assert!(params["message"].as_str().unwrap().contains("WDJB-MJHT"), "{params}");
    editor.reply(&question, json!({"action": "accept"}));
    editor.until(|message| message["method"] == "elicitation/complete");

    let auth = device_login();
    let login = format!(":device-url \"{0}/device\" :token-url \"{0}/token\"", auth.url());
    let mut editor = Editor::second(&login_setup(&models, &login), json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "/login p");
    let question = editor.question();
    let about = question["params"]["description"].as_str().unwrap();
    assert!(about.contains("WDJB-MJHT") && about.contains("https://p.example/device"), "{question}");
}

#[test]
fn notices_and_compactions_are_told_who_shows_them() {
    let script = r#"{:turns [{:steps [{:delta "Long enough."}]} {:steps [{:delta "More."}]} {:steps [{:delta "A summary."}]}]}"#;
    for can in [true, false] {
        let shows = json!({"session": {"notices": {}, "compaction": {}}});
        let mut editor = Editor::ready(&yolo(script), if can { shows } else { json!({}) });
        let session = editor.open("project");
        editor.turn(&session, "x");
        editor.turn(&session, "y");
        let (told, reason) = editor.turn(&session, "/compact");
        assert_eq!(reason, "end_turn");
        let kinds: Vec<_> =
            outline(&told).into_iter().filter(|kind| kind.starts_with("compaction")).collect();
        let expected: &[&str] =
            if can { &["compaction_update in_progress", "compaction_update completed"] } else { &[] };
        assert_eq!(kinds, expected);
        // A file that is not there is a notice.
        let (told, _) = editor.turn(&session, "see @no/such/file.txt");
        assert_eq!(told.iter().any(|update| update["sessionUpdate"] == "notice"), can, "{told:#?}");
    }
}

#[test]
fn steps_of_a_workflow_are_a_plan() {
    for second in [false, true] {
        let setup = Setup::new().script(r#"{:turns [{:steps [{:delta "said"}]}]}"#);
        let folder = setup.dir.path().join("config/edn-bridge/workflows");
        std::fs::create_dir_all(&folder).unwrap();
        let stages = r#"{:stages [{:id :look :body "Look."} {:id :tell :body "Tell."}]}"#;
        std::fs::write(folder.join("w.edn"), stages).unwrap();
        let mut editor = Editor::of(second, &setup);
        let session = editor.open("project");
        let (told, key) = if second {
            let (told, end) = editor.second_turn(&session, "/workflow w");
            assert_eq!(end["stopReason"], "end_turn");
            (told, "plan_update")
        } else {
            let (told, reason) = editor.turn(&session, "/workflow w");
            assert_eq!(reason, "end_turn");
            (told, "plan")
        };
        let plan = told.iter().rfind(|update| update["sessionUpdate"] == key).unwrap();
        let entries = if second { &plan["plan"]["entries"] } else { &plan["entries"] };
        let entries = entries.as_array().unwrap();
        assert_eq!(entries.len(), 2, "{plan}");
        assert!(entries.iter().all(|entry| entry["status"] == "completed"), "{plan}");
        assert!(text(&told, "agent_message_chunk").contains("said"));
    }
}

#[test]
fn questions_of_a_subagent_are_the_parents() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "d" :name "delegate" :arguments {:task "Look around." :tools ["bash"]}}}]}
                             {:steps [{:tool-call {:id "c" :name "bash" :arguments {:command "rm -rf x"}}}]}
                             {:steps [{:delta "the child says so"}]}
                             {:steps [{:delta "end"}]}]}"#;
    for second in [false, true] {
        let rule = r#"{:permissions {:rules [{:tool "bash" :command "rm" :decision :ask}]}}"#;
        let setup = Setup::new().script(script);
        let configuration = setup.dir.path().join("config/edn-bridge");
        std::fs::create_dir_all(&configuration).unwrap();
        std::fs::write(configuration.join("config.edn"), rule).unwrap();
        let mut editor = Editor::of(second, &setup);
        let session = editor.open("project");
        let id = editor.prompt(&session, "go");
        let first = editor.question();
        assert_eq!(first["params"]["sessionId"], json!(session));
        editor.choose(&first, "yes");
        let asked = editor.question();
        assert_eq!(
            asked["params"]["sessionId"],
            json!(session),
            "the child's question is shown in the parent's"
        );
        editor.choose(&asked, "deny");
        let told = match second {
            false => updates(&end(&mut editor, id).1, &session),
            true => updates(&editor.until_idle(&session).1, &session),
        };
        let result =
            told.iter().find(|update| update["toolCallId"] == "d" && update["status"] == "completed");
        assert!(result.is_some(), "{told:#?}");
        assert!(text(&told, "agent_message_chunk").contains("end"));
    }
}

#[test]
fn question_that_another_client_answers_is_withdrawn() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "echo hi"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let setup = Setup::new().script(script);
    let mut editor = Editor::ready(&setup, json!({}));
    let session = editor.open("project");
    let id = editor.prompt(&session, "run");
    let question = editor.question();
    let interaction = question["id"].as_str().unwrap();
    let params = format!(
        "{{:interaction-id {interaction:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    let answered = op(&mut editor, &session, "interaction_respond", &params);
    assert!(answered.get("error").is_none(), "{answered}");
    let (withdrawn, _) = editor.until(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    editor.choose(&question, "deny");
    let (answer, before) = end(&mut editor, id);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert!(updates(&before, &session).iter().any(|update| update["status"] == "completed"));
}
