//! Several projects, and several sets of options, in one daemon: none of them reaches into another.

use std::path::Path;
use std::process::Command;

use edn_bridge::client::frame;

use crate::fixture::{Daemon, approve, prompt, session_of};
use crate::support::{self, Bridge, code, data, is_event};

/// An editor in another folder.
fn editor_in(daemon: &Daemon, folder: &Path, more: &[&str]) -> Bridge {
    let dir = daemon.setup.dir.path();
    std::fs::create_dir_all(folder).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
    daemon.setup.folders(&mut command);
    command.env("EDN_BRIDGE_DAEMON", "auto");
    command.arg("--state-dir").arg(daemon.setup.state()).arg("--script").arg(dir.join("script.edn"));
    let mut bridge = Bridge::start(command.arg("--cwd").arg(folder).args(more).arg("serve"));
    bridge.ask("h", "handshake", &frame::client_info("t", "1", &["interactor"]));
    bridge.ask("all", "subscribe", "{}");
    bridge
}

/// Whether the next turn of an editor asks before its call; the answer is yes.
fn asks(bridge: &mut Bridge) -> bool {
    bridge.skip_to_now();
    prompt(bridge);
    let next =
        bridge.until(|frame| is_event(frame, "interaction/requested") || is_event(frame, "turn/ended"));
    let is_asked = is_event(&next, "interaction/requested");
    if is_asked {
        approve(bridge, &next);
        bridge.event("turn/ended");
    }
    is_asked
}

#[test]
fn rule_of_one_project_holds_in_no_other() {
    let daemon = Daemon::calling(&["cargo test"]);
    let mut one = daemon.setup.interactor();
    let pid = daemon.pid();
    prompt(&mut one);
    let question = one.event("interaction/requested");
    support::accept(&mut one, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    one.event("turn/ended");
    assert!(!asks(&mut one), "the rule holds here");
    let mut other = editor_in(&daemon, &daemon.setup.dir.path().join("other"), &[]);
    assert!(asks(&mut other));
    assert!(!asks(&mut one));
    assert_eq!(daemon.pid(), pid);
}

#[test]
fn mode_of_one_editor_reaches_no_other() {
    let daemon = Daemon::calling(&["true"]);
    let mut careful = daemon.setup.interactor();
    let mut bold = editor_in(&daemon, &daemon.setup.project(), &["--yolo"]);
    assert!(!asks(&mut bold));
    assert!(asks(&mut careful));
    assert_eq!(daemon.engines().len(), 2);
}

#[test]
fn trust_of_one_project_is_none_of_another() {
    let daemon = Daemon::calling(&["true"]);
    let other = daemon.setup.dir.path().join("other");
    for folder in [daemon.setup.project(), other.clone()] {
        std::fs::create_dir_all(folder.join(".edn-bridge")).unwrap();
        let rule = "{:permissions {:rules [{:tool \"bash\" :command \"true\" :decision :allow}]}}";
        std::fs::write(folder.join(".edn-bridge/config.edn"), rule).unwrap();
    }
    let (mut one, mut two) = (daemon.setup.interactor(), editor_in(&daemon, &other, &[]));
    assert!(asks(&mut one) && asks(&mut two));
    assert_eq!(code(&one.ask("t", "trust_project", "{:trusted true}")), "");
    assert!(!asks(&mut one));
    assert!(asks(&mut two));
}

#[test]
fn editor_sees_what_waits_in_another_project() {
    let daemon = Daemon::calling(&["true"]);
    let mut one = daemon.setup.interactor();
    let mut other = editor_in(&daemon, &daemon.setup.dir.path().join("other"), &[]);
    let session = prompt(&mut one);
    let question = one.event("interaction/requested");
    let query = "{:query \"[{:psi.process/at-work [:psi.at-work/session-id :psi.at-work/asks]}]\"}";
    let seen = other.ask("q", "query_eql", query).to_string();
    assert!(seen.contains(&session) && seen.contains("\"approve\""), "{seen}");
    // Each has a session of its own, and the question is one editor's.
    assert_ne!(session_of(&mut other), session);
    assert!(!other.told().contains(data(&question, "interaction-id")), "{}", other.told());
}

#[test]
fn top_shows_all_projects_of_the_daemon() {
    let daemon = Daemon::calling(&["true"]);
    let _one = daemon.setup.interactor();
    let _two = editor_in(&daemon, &daemon.setup.dir.path().join("other"), &[]);
    let top = |words: &[&str]| {
        let output = daemon.setup.command().arg("top").args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = top(&["--json"]);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of =
        |key: &str| all.as_array().unwrap().iter().map(|one| one["facts"][key].clone()).collect::<Vec<_>>();
    assert_eq!(of("psi.process/pid"), [daemon.pid(), daemon.pid()], "{text}");
    let lists = of("psi.connection/list").into_iter().chain(of("psi.session/live"));
    assert!(lists.map(|list| list.as_array().unwrap().len()).all(|count| count == 1), "{text}");
    let shown = top(&["--once"]);
    assert!(shown.contains("clients 2") && shown.contains(&format!("daemon {} ", daemon.pid())), "{shown}");
    assert!(shown.contains("projects 2"), "{shown}");
}
