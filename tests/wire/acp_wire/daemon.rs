//! Editors whose sessions are the daemon's: what runs outlives them.

use std::process::Output;

use serde_json::{Value, json};

use super::turns::BASH;
use crate::editor::{Editor, text, updates};
use crate::support::{Setup, wait_until};

/// A setup whose editors use a daemon, which ends with it.
struct Daemon(Setup);

impl Daemon {
    fn new(setup: Setup) -> Self {
        Self(setup.env("EDN_BRIDGE_DAEMON", "auto"))
    }

    fn control(&self, words: &[&str]) -> Output {
        self.0.command().arg("daemon").args(words).output().unwrap()
    }

    /// Whether a journal of any project has this text so many times.
    fn has_heard(&self, text: &str, times: usize) -> bool {
        let entries = |folder: std::path::PathBuf| folder.read_dir().into_iter().flatten().flatten();
        let mut journals =
            entries(self.0.state().join("sessions")).flat_map(|project| entries(project.path()));
        journals.any(|file| {
            std::fs::read_to_string(file.path()).is_ok_and(|all| all.matches(text).count() == times)
        })
    }

    /// Whether nothing runs.
    fn is_at_rest(&self) -> bool {
        let told = self.control(&["status", "--format", "edn"]);
        assert!(told.status.success(), "{told:?}");
        !String::from_utf8_lossy(&told.stdout).contains(":at-work [{")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.control(&["stop", "--now"]);
    }
}

fn load(editor: &mut Editor, session: &str) -> Vec<Value> {
    let folder = editor.folder("project");
    let id = editor.request("session/load", json!({"sessionId": session, "cwd": folder, "mcpServers": []}));
    let (end, before) = editor.until(|message| message["id"] == id && message.get("method").is_none());
    assert!(end.get("error").is_none(), "{end}");
    updates(&before, session)
}

#[test]
fn turn_outlives_its_editor_and_is_loaded_while_it_runs() {
    let script = r#"{:turns [{:steps [{:delta "I wait."} {:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; until [ -e go ]; do sleep 0.01; done"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let daemon = Daemon::new(Setup::new().script(script).arg("--yolo"));
    let mut editor = Editor::ready(&daemon.0, json!({}));
    let session = editor.open("project");
    editor.prompt(&session, "wait");
    wait_until("the command did not begin", || daemon.0.project().join("begun").exists());
    editor.kill();
    let mut editor = Editor::ready(&daemon.0, json!({}));
    let old = load(&mut editor, &session);
    assert_eq!(text(&old, "agent_message_chunk"), "I wait.");
    assert!(old.iter().any(|update| update["toolCallId"] == "w"), "{old:#?}");
    std::fs::write(daemon.0.project().join("go"), "").unwrap();
    let told = editor.update(&session, "agent_message_chunk");
    assert_eq!(told["content"]["text"], "Done.");
    assert!(editor.quit().success());
}

#[test]
fn permission_waits_for_the_next_editor() {
    let daemon = Daemon::new(Setup::new().script(BASH));
    let mut editor = Editor::ready(&daemon.0, json!({}));
    let (session, other) = (editor.open("project"), editor.open("another"));
    editor.prompt(&session, "run");
    let question = editor.question();
    editor.kill();
    let mut editor = Editor::ready(&daemon.0, json!({}));
    load(&mut editor, &session);
    let again = editor.question();
    assert_eq!((&again["id"], &again["params"]["sessionId"]), (&question["id"], &json!(session)));
    editor.choose(&again, "allow");
    let told = editor.update(&session, "agent_message_chunk");
    assert_eq!(told["content"]["text"], "Done.");
    let _ = other;
}

#[test]
fn editor_that_reads_nothing_holds_up_nothing() {
    // More than the outbox and the pipe hold.
    let (pieces, piece) = (384, "x".repeat(8 * 1024));
    let script = format!("{{:turns [{{:steps [{{:deltas {pieces} :of {piece:?}}}]}}] :then :cycle}}");
    let daemon = Daemon::new(Setup::new().script(&script).arg("--durability").arg("relaxed"));
    let whole = pieces * piece.len();
    let mut asleep = Editor::ready(&daemon.0, json!({}));
    let session = asleep.open("project");
    asleep.sleep();
    let prompts = ["one", "two", "three", "four"].map(|text| asleep.prompt(&session, text));
    wait_until("no prompt is heard", || daemon.has_heard("\"one\"", 1));
    // Another editor of the same engine, meanwhile.
    let mut awake = Editor::ready(&daemon.0, json!({}));
    let other = awake.open("project");
    let (told, reason) = awake.turn(&other, "go");
    assert_eq!((text(&told, "agent_message_chunk").len(), &*reason), (whole, "end_turn"));
    // At rest it is between two turns too.
    wait_until("the turns do not end", || daemon.has_heard("\"ended\"", prompts.len()));
    let told = load(&mut awake, &session);
    assert_eq!(text(&told, "agent_message_chunk").len(), whole * prompts.len());
    // It is there, and learns how its turns have ended.
    asleep.wake();
    for prompt in prompts {
        assert_eq!(asleep.answer(prompt)["result"]["stopReason"], "end_turn");
    }
    // Nor does it hold up a restart, or the end.
    asleep.sleep();
    asleep.prompt(&session, "again");
    wait_until("the prompt is not heard", || daemon.has_heard("\"again\"", 1));
    assert!(daemon.control(&["restart"]).status.success());
    wait_until("the turn does not go over", || daemon.is_at_rest());
    // It is refused while sessions still leave the replaced daemon.
    wait_until("the end is held up", || daemon.control(&["stop"]).status.success());
}

#[test]
fn editor_follows_its_last_session_to_a_new_daemon() {
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "touch begun; until [ -e go ]; do sleep 0.01; done"}}}]}
                             {:steps [{:delta "Done."}]}]}"#;
    let daemon = Daemon::new(Setup::new().script(script).arg("--yolo"));
    // What runs in one folder keeps the old daemon.
    let mut works = Editor::ready(&daemon.0, json!({}));
    let session = works.open("project");
    let rests = works.open("another");
    works.prompt(&session, "wait");
    wait_until("the command did not begin", || daemon.0.project().join("begun").exists());
    let mut idle = Editor::ready(&daemon.0, json!({}));
    idle.open("project");
    idle.open("another");
    assert!(daemon.control(&["restart"]).status.success());
    // Its sessions have gone, and so it is to come to the new daemon.
    assert_eq!(idle.end(), Some(75));
    // One of this editor's is there, and runs on for it.
    let missing =
        works.call("session/prompt", json!({"sessionId": rests, "prompt": [{"type": "text", "text": "x"}]}));
    assert!(missing.get("error").is_some(), "{missing}");
    std::fs::write(daemon.0.project().join("go"), "").unwrap();
    assert_eq!(works.end(), Some(75));
    let mut editor = Editor::ready(&daemon.0, json!({}));
    load(&mut editor, &session);
    wait_until("the turn does not end", || daemon.is_at_rest());
}
