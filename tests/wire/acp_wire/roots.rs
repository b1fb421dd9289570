//! Further folders of a session: tools read and write there as in its own folder, and nobody else's tools do.

use serde_json::{Value, json};

use crate::editor::{Editor, updates};
use crate::support::Setup;

/// Reads a file there, writes one there, and runs a command that writes there.
fn script(there: &str) -> String {
    format!(
        r#"{{:turns [{{:steps [{{:tool-call {{:id "r" :name "read" :arguments {{:path "{there}/a.txt"}}}}}}]}}
                     {{:steps [{{:tool-call {{:id "w" :name "write" :arguments {{:path "{there}/b.txt" :content "new"}}}}}}]}}
                     {{:steps [{{:tool-call {{:id "c" :name "bash" :arguments {{:command "cp {there}/a.txt {there}/c.txt"}}}}}}]}}
                     {{:steps [{{:delta "Done."}}]}}] :then :cycle}}"#
    )
}

/// A setup with a folder beside the project, and its path.
fn setup() -> (Setup, String) {
    let setup = Setup::new();
    let there = setup.dir.path().canonicalize().unwrap().join("there");
    std::fs::create_dir(&there).unwrap();
    std::fs::write(there.join("a.txt"), "in the other folder\n").unwrap();
    let there = there.to_str().unwrap().to_owned();
    let rule = r#"{:permissions {:rules [{:tool "bash" :decision :allow}]} :mode :accept-edits}"#;
    let configuration = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&configuration).unwrap();
    std::fs::write(configuration.join("config.edn"), rule).unwrap();
    (setup.script(&script(&there)), there)
}

fn opened(editor: &mut Editor, method: &str, further: &Value, session: Option<&str>) -> String {
    let folder = editor.folder("project");
    let mut params = json!({"cwd": folder, "mcpServers": [], "additionalDirectories": further});
    if let Some(session) = session {
        params["sessionId"] = json!(session);
    }
    let opened = editor.ask(method, params);
    session.map_or_else(|| opened["sessionId"].as_str().unwrap().to_owned(), str::to_owned)
}

/// Runs the script. Returns the calls that were asked about, and how each call ended.
fn turn(editor: &mut Editor, session: &str) -> (Vec<String>, Vec<String>) {
    let id = editor.prompt(session, "go");
    let (mut asked, mut ended) = (Vec::new(), Vec::new());
    loop {
        let message = editor.message();
        if message["method"] == "session/request_permission" {
            asked.push(message["params"]["toolCall"]["toolCallId"].as_str().unwrap().to_owned());
            editor.choose(&message, "deny");
        }
        for update in updates(std::slice::from_ref(&message), session) {
            if let Some(status @ ("completed" | "failed")) = update["status"].as_str() {
                ended.push(format!("{} {status}", update["toolCallId"].as_str().unwrap()));
            }
        }
        if message["id"] == id && message.get("method").is_none() {
            return (asked, ended);
        }
    }
}

#[test]
fn further_folder_is_like_the_sessions_own() {
    let (setup, there) = setup();
    let mut editor = Editor::start(&setup);
    let told = editor.initialize(json!({}));
    assert!(told["agentCapabilities"]["sessionCapabilities"]["additionalDirectories"].is_object(), "{told}");
    let session = opened(&mut editor, "session/new", &json!([there]), None);
    let (asked, ended) = turn(&mut editor, &session);
    assert_eq!(asked, [""; 0]);
    assert_eq!(ended, ["r completed", "w completed", "c completed"]);
    let read = |name: &str| std::fs::read_to_string(format!("{there}/{name}")).unwrap();
    assert_eq!((read("b.txt").as_str(), read("c.txt").as_str()), ("new", "in the other folder\n"));
    // The model gets it.
    let query = json!({"sessionId": session, "query": "[:psi.agent-session/system-prompt]"});
    let prompt = editor.ask("_edn-bridge/query_eql", query)["psi.agent-session/system-prompt"].to_string();
    assert!(prompt.contains(&there), "{prompt}");
}

#[test]
fn folder_of_one_session_is_no_other_ones() {
    let (setup, there) = setup();
    let mut editor = Editor::ready(&setup, json!({}));
    let _other = opened(&mut editor, "session/new", &json!([there]), None);
    let session = opened(&mut editor, "session/new", &json!([]), None);
    let (asked, ended) = turn(&mut editor, &session);
    assert_eq!(asked, ["r", "w"]);
    assert!(ended.contains(&"r failed".to_owned()) && ended.contains(&"w failed".to_owned()), "{ended:?}");
    // The rule lets the command run, and the kernel keeps it from writing there, where it can.
    let may = std::path::Path::new(&there).join("c.txt").exists();
    assert_eq!(ended.contains(&"c completed".to_owned()), may, "{ended:?}");
}

#[test]
fn folders_are_those_of_the_last_load() {
    let (setup, there) = setup();
    let mut editor = Editor::ready(&setup, json!({}));
    let session = opened(&mut editor, "session/new", &json!([there]), None);
    turn(&mut editor, &session);
    // Without them, none is left; with them, they are there again.
    for (further, expected) in [(json!([]), 2), (json!([there]), 0)] {
        opened(&mut editor, "session/load", &further, Some(&session));
        assert_eq!(turn(&mut editor, &session).0.len(), expected, "{further}");
    }
    editor.ask("session/close", json!({"sessionId": session}));
    opened(&mut editor, "session/resume", &json!([there]), Some(&session));
    assert_eq!(turn(&mut editor, &session).0, [""; 0]);
}

#[test]
fn guarded_files_of_a_further_folder_stay_guarded() {
    let (setup, there) = setup();
    let script = format!(
        r#"{{:turns [{{:steps [{{:tool-call {{:id "g" :name "write" :arguments {{:path "{there}/.git/hooks/pre-commit" :content "x"}}}}}}]}}
                     {{:steps [{{:delta "Done."}}]}}]}}"#
    );
    let mut editor = Editor::ready(&setup.script(&script), json!({}));
    let session = opened(&mut editor, "session/new", &json!([there]), None);
    assert_eq!(turn(&mut editor, &session).0, ["g"]);
}

#[test]
fn unusable_further_folder_is_refused() {
    let (setup, there) = setup();
    let mut editor = Editor::ready(&setup, json!({}));
    let folder = editor.folder("project");
    let many: Vec<_> = (0..33).map(|_| there.clone()).collect();
    for further in [
        json!(["relative"]),
        json!([format!("{there}/none")]),
        json!([format!("{there}/a.txt")]),
        json!(many),
    ] {
        let params = json!({"cwd": folder, "mcpServers": [], "additionalDirectories": further});
        assert_eq!(editor.code("session/new", params), -32602, "{further}");
    }
    let mut second = Editor::second(&setup, json!({}));
    let session = opened(&mut second, "session/new", &json!([there]), None);
    let (told, _) = second.second_turn(&session, "go");
    assert!(
        told.iter().any(|update| update["toolCallId"] == "w" && update["status"] == "completed"),
        "{told:#?}"
    );
}
