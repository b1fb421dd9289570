//! A golden transcript: two sessions, a question, an edit, a command, the history.
//!
//! `UPDATE_TRANSCRIPTS=1` records the answers again.

use serde_json::json;

use crate::editor::Editor;
use crate::support::Setup;

const SCRIPT: &str = r#"{:turns [{:steps [{:thinking "A letter."} {:delta "I correct it."} {:tool-call {:id "c1" :name "edit" :arguments {:path "a.txt" :edits [{:old "Good dog" :new "Good day"}]}}}]}
                                 {:steps [{:delta "Done."}] :usage {:input 900 :output 40}}]}"#;

#[test]
fn editors_session_has_its_transcript() {
    let setup = Setup::new().script(SCRIPT).fixed();
    std::fs::write(setup.project().join("a.txt"), "Good dog\n").unwrap();
    let mut editor = Editor::ready(&setup, json!({"elicitation": {"form": {}}}));
    let session = editor.open("project");
    editor.update(&session, "available_commands_update");
    let id = editor.prompt(&session, "Correct the greeting.");
    let question = editor.question();
    editor.choose(&question, "allow");
    editor.answer(id);
    editor.ask("session/close", json!({"sessionId": session}));
    let folder = editor.folder("project");
    editor.ask("session/load", json!({"sessionId": session, "cwd": folder, "mcpServers": []}));
    editor.update(&session, "available_commands_update");
    editor.ask("session/close", json!({"sessionId": session}));
    let folder = setup.dir.path().canonicalize().unwrap();
    let transcript = editor.transcript.join("\n") + "\n";
    let transcript = transcript.replace(setup.dir.path().to_str().unwrap(), "DIR");
    let transcript = transcript.replace(folder.to_str().unwrap(), "DIR");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/acp_wire/session.txt");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(path, &transcript).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == transcript, "{path} differs:\n{transcript}");
}
