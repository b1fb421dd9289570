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
    transcript(1, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/acp_wire/session.txt"));
}

#[test]
fn editors_session_of_version_2_has_its_transcript() {
    transcript(2, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire/acp_wire/session_v2.txt"));
}

fn transcript(version: u64, path: &str) {
    let setup = Setup::new().script(SCRIPT).fixed();
    std::fs::write(setup.project().join("a.txt"), "Good dog\n").unwrap();
    let can = json!({"elicitation": {"form": {}}});
    let mut editor = if version == 1 { Editor::ready(&setup, can) } else { Editor::second(&setup, can) };
    let session = editor.open("project");
    editor.update(&session, "available_commands_update");
    let id = editor.prompt(&session, "Correct the greeting.");
    let question = editor.question();
    editor.choose(&question, "allow");
    match version {
        1 => drop(editor.answer(id)),
        _ => drop(editor.until_idle(&session)),
    }
    editor.ask("session/close", json!({"sessionId": session}));
    let folder = editor.folder("project");
    let params = json!({"sessionId": session, "cwd": folder, "mcpServers": []});
    match version {
        1 => editor.ask("session/load", params),
        _ => {
            let start = json!({"type": "start"});
            let params = json!({"sessionId": session, "cwd": folder, "replayFrom": start});
            editor.ask("session/resume", params)
        }
    };
    editor.update(&session, "available_commands_update");
    editor.ask("session/close", json!({"sessionId": session}));
    let folder = setup.dir.path().canonicalize().unwrap();
    let transcript = editor.transcript.join("\n") + "\n";
    let transcript = transcript.replace(setup.dir.path().to_str().unwrap(), "DIR");
    let transcript = transcript.replace(folder.to_str().unwrap(), "DIR");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(path, &transcript).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    assert!(golden == transcript, "{path} differs:\n{transcript}");
}
