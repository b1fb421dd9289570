//! Sessions, models, skills, context: what an interface reads, and what outlives it.

use serde_json::json;

use super::runs::{BASH, ECHO, yolo};
use crate::peer::{CAN, Peer, content, events, outline};
use crate::support::Setup;

#[test]
fn session_survives_a_kill_and_is_resumed_by_id() {
    let setup = yolo(BASH);
    let mut peer = Peer::ready(&setup, CAN);
    let live = peer.run_to_end("first words");
    let list = peer.ask("session.list", json!({}));
    let session = &list["sessions"][0];
    assert_eq!(
        (&session["last_user_message"], &session["message_count"]),
        (&json!("first words"), &json!(4))
    );
    let id = session["session_id"].clone();
    peer.kill();

    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("session.list", json!({"scope": "all"}));
    assert_eq!(list["sessions"][0]["session_id"], id);
    // The history moves no focus: what is not named acts on the new session.
    let answer = peer.request("session.history", json!({"session_id": id}));
    let result = peer.answer(&answer)["result"].clone();
    assert_eq!(result["runs"], 1);
    let count = result["events_sent"].as_u64().unwrap() as usize;
    let told: Vec<_> = (0..count).map(|_| peer.message()).collect();
    let expected: Vec<String> = std::iter::once("hidden_user_message".to_owned())
        .chain(outline(&live).into_iter().filter(|word| !word.starts_with('[')))
        .collect();
    assert_eq!(outline(&told), expected);
    assert_eq!(told[0]["params"]["seq"], -1);

    let start = json!({"session_id": id, "input": {"type": "text", "text": "second"}});
    let started = peer.ask("run.start", start);
    assert_eq!(started["session_id"], id);
    assert!(std::path::Path::new(started["session_log_path"].as_str().unwrap()).is_file());
    peer.rest(started["run_id"].as_str().unwrap());
    let list = peer.ask("session.list", json!({}));
    assert_eq!(list["sessions"][0]["last_user_message"], "second");
    // From now on it is the current one.
    peer.run_to_end("third");
    let list = peer.ask("session.list", json!({"limit": 1}));
    assert_eq!((&list["sessions"][0]["session_id"], list["sessions"].as_array().unwrap().len()), (&id, 1));
    // Of a stored session too, the last words are told.
    peer.kill();
    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("session.list", json!({}));
    assert_eq!(list["sessions"][0]["last_user_message"], "third", "{list}");
}

#[test]
fn faults_of_a_journal_are_told_in_history_and_next_run() {
    let setup = yolo(ECHO);
    let mut peer = Peer::ready(&setup, CAN);
    for number in 0..4 {
        peer.run_to_end(&format!("run {number}"));
    }
    let id = peer.ask("session.list", json!({}))["sessions"][0]["session_id"].clone();
    let start = json!({"session_id": id, "input": {"type": "text", "text": "again"}});
    let path = peer.ask("run.start", start.clone())["session_log_path"].as_str().unwrap().to_owned();
    peer.kill();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.remove(lines.len() / 2);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();

    let mut peer = Peer::ready(&setup, CAN);
    let answer = peer.request("session.history", json!({"session_id": id}));
    let count = peer.answer(&answer)["result"]["events_sent"].as_u64().unwrap();
    let told: Vec<_> = (0..count).map(|_| peer.message()).collect();
    assert!(content(&told, "text").contains("was taken to follow"), "{told:#?}");
    let run = peer.ask("run.start", start)["run_id"].clone();
    let told = peer.rest(run.as_str().unwrap());
    assert!(content(&told, "text").contains("was taken to follow"), "{told:#?}");
    // Once each.
    assert!(events(&peer.run_to_end("more"), "text").next().is_none());
}

#[test]
fn session_that_is_not_there_has_its_code() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    for id in ["s-none", "/etc/passwd", "../../x"] {
        let start = json!({"session_id": id, "input": {"type": "text", "text": "x"}});
        assert_eq!(peer.code("run.start", start), -32004, "{id}");
        let history = peer.ask("session.history", json!({"session_id": id}));
        assert_eq!(history, json!({"runs": 0, "events_sent": 0}));
    }
    // An empty id is none.
    let start = json!({"session_id": "", "input": {"type": "text", "text": "x"}});
    let run = peer.ask("run.start", start);
    peer.rest(run["run_id"].as_str().unwrap());
}

#[test]
fn history_is_bounded_by_runs_and_events() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    for n in 0..5 {
        peer.run_to_end(&format!("run {n}"));
    }
    let id = peer.ask("session.list", json!({}))["sessions"][0]["session_id"].clone();
    for (params, runs, events, truncated) in [
        (json!({"session_id": id}), 5, 10, false),
        (json!({"session_id": id, "max_runs": 2}), 2, 4, true),
        (json!({"session_id": id, "max_events": 5}), 2, 4, true),
        (json!({"session_id": id, "max_runs": 0, "max_events": -1}), 5, 10, false),
    ] {
        let answer = peer.request("session.history", params.clone());
        let result = peer.answer(&answer)["result"].clone();
        let found = (result["runs"].as_u64(), result["events_sent"].as_u64(), result["truncated"] == true);
        assert_eq!(found, (Some(runs), Some(events), truncated), "{params}");
        let told: Vec<_> = (0..events).map(|_| peer.message()).collect();
        assert!(content(&told[told.len() - 1..], "final").contains("run 4"));
    }
}

#[test]
fn history_of_a_long_run_is_cut_at_its_start() {
    let mut peer = Peer::ready(&yolo(BASH), CAN);
    let live = peer.run_to_end("look");
    let id = peer.ask("session.list", json!({}))["sessions"][0]["session_id"].clone();
    let answer = peer.request("session.history", json!({"session_id": id, "max_events": 3}));
    assert_eq!(peer.answer(&answer)["result"], json!({"runs": 1, "events_sent": 3, "truncated": true}));
    let told: Vec<_> = (0..3).map(|_| peer.message()).collect();
    assert_eq!(outline(&told), ["tool_result", "step_complete", "final"]);
    // Under the numbers that they had.
    let numbers = |lines: &[serde_json::Value]| -> Vec<_> {
        let events = lines.iter().filter(|line| line["method"] == "agent.event");
        events.map(|line| line["params"]["seq"].clone()).collect()
    };
    assert!(numbers(&live).ends_with(&numbers(&told)), "{told:#?}");
}

#[test]
fn chosen_model_holds_at_the_next_start() {
    let setup = Setup::new();
    let mut peer = Peer::ready(&setup, CAN);
    let set = json!({"provider": "anthropic", "name": "claude-sonnet-4-5", "reasoning": "max"});
    let answer = peer.ask("model.set", set);
    assert_eq!((&answer["name"], &answer["source"]), (&json!("claude-sonnet-4-5"), &json!("config")));
    peer.kill();
    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("model.list", json!({"include_details": true}));
    assert_eq!((&list["provider"], &list["current"]), (&json!("anthropic"), &json!("claude-sonnet-4-5")));
    assert!(list["details"]["claude-sonnet-4-5"]["context_window"].as_i64().unwrap() > 100_000);
    // For the session only: the next start has the other.
    peer.ask("model.set", json!({"name": "claude-haiku-4-5", "scope": "session"}));
    let list = peer.ask("model.list", json!({}));
    assert_eq!((&list["current"], &list["source"]), (&json!("claude-haiku-4-5"), &json!("session")));
    peer.kill();
    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("model.list", json!({}));
    assert_eq!((&list["current"], &list["source"]), (&json!("claude-sonnet-4-5"), &json!("config")));
}

#[test]
fn key_in_the_environment_chooses_the_model() {
    let setup = Setup::new().env("ANTHROPIC_API_KEY", "k");
    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("model.list", json!({}));
    assert_eq!((&list["provider"], &list["current"]), (&json!("anthropic"), &json!("claude-sonnet-5")));
    assert_eq!(list["source"], "config");
}

#[test]
fn reasoning_reaches_new_sessions_unless_it_is_the_sessions() {
    let setup = Setup::new();
    let mut peer = Peer::ready(&setup, CAN);
    let set = |reasoning: &str, scope: &str| json!({"provider": "anthropic", "name": "claude-haiku-4-5", "reasoning": reasoning, "scope": scope});
    let reasoning = |peer: &mut Peer| peer.ask("model.list", json!({}))["reasoning"].clone();
    assert_eq!(peer.ask("model.set", set("high", "config"))["reasoning"], "high");
    assert_eq!(peer.ask("model.set", set("low", "session"))["reasoning"], "low");
    assert_eq!(reasoning(&mut peer), "low");
    peer.kill();
    let mut peer = Peer::ready(&setup, CAN);
    assert_eq!(reasoning(&mut peer), "high");
    peer.ask("model.set", set("low", "session"));
    assert_eq!(peer.ask("model.set", json!({"reset": true}))["reasoning"], "high");
    assert_eq!(reasoning(&mut peer), "high");
    // A model that is chosen later leaves it.
    peer.ask("model.set", json!({"provider": "anthropic", "name": "claude-sonnet-4-5"}));
    peer.kill();
    assert_eq!(reasoning(&mut Peer::ready(&setup, CAN)), "high");
}

#[test]
fn session_goes_back_to_the_model_of_new_ones() {
    let setup = Setup::new().arg("--provider").arg("embedded");
    let mut peer = Peer::ready(&setup, CAN);
    let usual = peer.ask("model.list", json!({}));
    peer.ask("model.set", json!({"provider": "anthropic", "name": "claude-haiku-4-5", "scope": "session"}));
    let answer = peer.ask("model.set", json!({"reset": true}));
    let expected = json!({"provider": usual["provider"], "name": usual["current"], "source": "config"});
    assert_eq!(answer, expected);
    let list = peer.ask("model.list", json!({}));
    assert_eq!((&list["current"], &list["source"]), (&usual["current"], &json!("config")));
    // Without a name there is nothing else to set.
    assert_eq!(peer.code("model.set", json!({"reset": false})), -32602);
    assert_eq!(peer.code("model.set", json!({"fast": true, "name": "claude-haiku-4-5"})), -32602);
}

#[test]
fn skills_and_instructions_are_listed() {
    let setup = yolo(ECHO);
    let folder = setup.project().join(".edn-bridge/skills/greet");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), "---\nname: greet\ndescription: Greets.\n---\nSay hello.\n")
        .unwrap();
    std::fs::write(setup.project().join("AGENTS.md"), "Be brief.\n").unwrap();
    let mut peer = Peer::ready(&setup, CAN);
    let list = peer.ask("skills.list", json!({"force_reload": true}));
    let skill = &list["skills"][0];
    assert_eq!((&skill["name"], &skill["scope"]), (&json!("greet"), &json!("repo")), "{list}");
    assert!(skill["mtime_ms"].as_i64().unwrap() > 0 && skill["dir"].as_str().unwrap().ends_with("greet"));
    let shown = json!({"cwd": "/tmp", "active_file": {"path": "a.rs", "language_id": "rust"}});
    peer.notify("ui.context.update", shown);
    peer.run_to_end("look");
    let context = peer.ask("context.inspect", json!({}));
    let file = &context["agents"]["initial_files"][0];
    assert!(file["path"].as_str().unwrap().ends_with("AGENTS.md"), "{context}");
    assert_eq!(context["ui_context"]["active_file_path"], "a.rs");
    assert_eq!(context["skills"]["catalog"]["skills"][0]["name"], "greet");
    let context = peer.ask("context.inspect", json!({"include_agents": false, "include_skills": false}));
    assert!(context.get("agents").is_none() && context.get("skills").is_none());
}

#[test]
fn context_is_inspected_as_it_was_updated() {
    let mut peer = Peer::ready(&yolo(ECHO), CAN);
    for n in 0..50 {
        // Folders alone are a context too.
        let shown = match n % 2 {
            0 => json!({"cwd": format!("/tmp/{n}"), "workspace_root": "/tmp"}),
            _ => json!({"active_file": {"path": format!("{n}.rs")}}),
        };
        peer.notify("ui.context.update", shown.clone());
        let context = peer.ask("context.inspect", json!({"include_agents": false, "include_skills": false}));
        let expected = match n % 2 {
            0 => shown,
            _ => json!({"active_file_path": format!("{n}.rs")}),
        };
        assert_eq!(context["ui_context"], expected);
    }
    peer.notify("ui.context.update", json!({}));
    let context = peer.ask("context.inspect", json!({}));
    assert!(context.get("ui_context").is_none(), "{context}");
}
