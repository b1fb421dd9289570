//! A killed daemon: what the next one opens, asks and marks.

use edn_bridge::value::Value;

use crate::fixture::{Daemon, END, approve, end_of_run, prompt, session_of, signal, until, with_workflow};
use crate::support::{self, Setup, at, code, data, wait_until};

#[test]
fn killed_daemon_is_followed_by_a_new_one() {
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    let first = daemon.pid();
    signal(first, "-KILL");
    assert_eq!(bridge.wait().code(), Some(75));
    let mut bridge = daemon.setup.interactor();
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_ne!(daemon.pid(), first);
}

#[test]
fn files_of_a_dead_daemon_are_no_hindrance() {
    let daemon = Daemon::calling(&["true"]);
    let bridge = daemon.setup.interactor();
    let first = daemon.pid();
    daemon.kill(bridge);
    let run = daemon.setup.state().join("run");
    // Its socket and its lock are there. The lock names a process that lives: the number was used again.
    assert!(run.join("daemon.sock").exists());
    let lock = std::fs::read_to_string(run.with_file_name("daemon.lock")).unwrap();
    assert!(lock.contains(&first.to_string()), "{lock}");
    let own = lock.replace(&first.to_string(), &std::process::id().to_string());
    std::fs::write(run.with_file_name("daemon.lock"), own).unwrap();
    std::fs::write(run.with_file_name("daemon.start.lock"), "").unwrap();
    let mut bridge = daemon.setup.interactor();
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_ne!(daemon.pid(), first);
    assert_eq!(daemon.clients(), 1);
}

#[test]
fn question_is_asked_by_the_daemon_after_a_kill() {
    let mut daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    let question = bridge.event("interaction/requested");
    assert_eq!(daemon.notes(), 1);
    daemon.kill(bridge);
    daemon.then_says(END);
    // Nobody enters the session; any start of a daemon will do.
    assert!(daemon.control(&["start"]).status.success());
    wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("approve"));
    let mut bridge = daemon.editor_at(&session);
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    approve(&mut bridge, &again);
    bridge.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
    wait_until("the note stays", || daemon.notes() == 0);
}

#[test]
fn cut_turn_is_marked_by_the_daemon_after_a_kill() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.kill(bridge);
    std::fs::write(daemon.file("go"), "").unwrap();
    daemon.then_says(END);
    assert!(daemon.control(&["start"]).status.success());
    // It is marked, and its engine is put away again.
    wait_until("the turn is not marked", || daemon.notes() == 0 && daemon.engines().is_empty());
    let mut bridge = daemon.editor_at(&session);
    let messages = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("it may have run"), "{messages}");
    bridge.ask("c", "command", "{:text \"/continue\"}");
    bridge.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("began")).unwrap(), "began\n");
}

#[test]
fn subagent_of_a_killed_daemon_is_marked_and_named() {
    let mut daemon = Daemon::new(Setup::new().script(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"delegate\" :arguments {{:task \"t\" :tools [\"bash\"]}}}}}}]}}
                  {{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {:?}}}}}}}]}}]}}",
        until("go")
    )));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    let envelope = bridge.event("interaction/requested");
    let child =
        at(&envelope, &["data", "payload", "subagent-id"]).and_then(Value::as_str).unwrap().to_owned();
    approve(&mut bridge, &envelope);
    wait_until("the command did not begin", || daemon.wrote("began"));
    assert_eq!(daemon.notes(), 2);
    daemon.kill(bridge);
    std::fs::write(daemon.file("go"), "").unwrap();
    daemon.then_says(END);
    assert!(daemon.control(&["start"]).status.success());
    wait_until("the turns are not marked", || daemon.notes() == 0);
    for (session, told) in [(&session, &*child), (&child, "it may have run")] {
        let mut bridge = daemon.editor_at(session);
        let state = bridge.ask("state", "get_state", "{}");
        assert!(at(&state, &["data", "state", "interrupted"]).is_some_and(|turn| !turn.is_nil()), "{state}");
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(messages.contains(told), "{messages}");
    }
    assert_eq!(std::fs::read_to_string(daemon.file("began")).unwrap(), "began\n");
}

#[test]
fn question_inside_a_stage_ends_and_its_stage_resumes() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:delta \"said\"}]}
                  {:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran >> ran\"}}}]}
                  {:steps [{:delta \"said\"}]}] :then :cycle}",
    );
    let stages = "{:id :a :body \"x\" :assert [{:command \"echo a >> a\"}]}
                  {:id :b :body \"y\" :tools [\"read\"] :assert [{:command \"test -e ran\"}]}";
    let mut daemon = Daemon::new(with_workflow(setup, stages));
    let mut bridge = daemon.setup.interactor();
    let session = session_of(&mut bridge);
    bridge.ask("w", "command", "{:text \"/workflow w\"}");
    // A call of the stage's turn asks, and a kill cuts the run off there.
    let question = bridge.event("interaction/requested");
    assert_eq!(data(&question, "kind"), "grant-stage-tool", "{question}");
    daemon.kill(bridge);
    daemon.then_says(
        "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran >> ran\"}}}]}
                  {:steps [{:delta \"said\"}]}] :then :cycle}",
    );
    assert!(daemon.control(&["start"]).status.success());
    wait_until("the run is not marked", || daemon.notes() == 0 && daemon.at_work().is_empty());
    assert!(!daemon.file("ran").exists());
    let mut bridge = daemon.editor_at(&session);
    assert!(!bridge.told().contains(":event \"interaction/requested\""), "{}", bridge.told());
    bridge.ask("w", "command", "{:text \"/workflow w --resume\"}");
    let again = bridge.event("interaction/requested");
    assert_ne!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    support::accept(&mut bridge, &again, ":value {:outcome \"approve\"}");
    assert_eq!(end_of_run(&mut bridge), "Workflow w ended: done.");
    // What was done before is not done again.
    assert_eq!(std::fs::read_to_string(daemon.file("a")).unwrap(), "a\n");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn question_at_a_gate_of_a_group_ends_with_its_process() {
    // At the gate of a stage of a group, and at that of what joins the group.
    for asking in [
        "{:id :b :parallel [{:id :c :body \"y\" :gate [{:confirm \"Sure?\"}]} {:id :d :body \"y\"}]}",
        "{:id :b :parallel [{:id :c :body \"y\"} {:id :d :body \"y\"}] :join {:id :j :body \"y\" :gate [{:confirm \"Sure?\"}]}}",
    ] {
        let setup = Setup::new().script("{:turns [{:steps [{:delta \"said\"}]}] :then :cycle}");
        let stages = format!("{{:id :a :body \"x\" :assert [{{:command \"echo a >> a\"}}]}} {asking}");
        let daemon = Daemon::new(with_workflow(setup, &stages));
        let mut bridge = daemon.setup.interactor();
        let session = session_of(&mut bridge);
        bridge.ask("w", "command", "{:text \"/workflow w\"}");
        let question = bridge.event("interaction/requested");
        assert_eq!(data(&question, "kind"), "confirm", "{question}");
        daemon.kill(bridge);
        assert!(daemon.control(&["start"]).status.success());
        wait_until("the run is not marked", || daemon.notes() == 0 && daemon.at_work().is_empty());
        let mut bridge = daemon.editor_at(&session);
        assert!(!bridge.told().contains(":event \"interaction/requested\""), "{}", bridge.told());
        bridge.ask("w", "command", "{:text \"/workflow w --resume\"}");
        let again = bridge.event("interaction/requested");
        assert_ne!(data(&again, "interaction-id"), data(&question, "interaction-id"));
        support::accept(&mut bridge, &again, ":value {:ok true}");
        assert_eq!(end_of_run(&mut bridge), "Workflow w ended: done.");
        assert_eq!(std::fs::read_to_string(daemon.file("a")).unwrap(), "a\n");
    }
}

#[test]
fn session_at_work_at_two_kills_is_not_opened_by_itself() {
    let mut daemon = Daemon::calling(&["echo ran >> ran"]);
    let session = refused_session(&mut daemon);
    assert!(daemon.control(&["start"]).status.success());
    let told = || String::from_utf8(daemon.control(&["status"]).stdout).unwrap();
    wait_until("nothing is said", || told().contains("2 daemons in a row"));
    assert!(told().contains(&session), "{}", told());
    assert!(daemon.engines().is_empty(), "{:?}", daemon.engines());
    // A person opens it all the same.
    let mut bridge = daemon.editor_at(&session);
    let question = bridge.event("interaction/requested");
    approve(&mut bridge, &question);
    bridge.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
    wait_until("it is still said", || !told().contains("2 daemons in a row"));
    assert_eq!(daemon.notes(), 0);
}

/// Leaves a session that is not opened by itself, because two daemons in a row were killed while it worked.
fn refused_session(daemon: &mut Daemon) -> String {
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    bridge.event("interaction/requested");
    daemon.kill(bridge);
    daemon.then_says(END);
    assert!(daemon.control(&["start"]).status.success());
    wait_until("nothing is asked", || daemon.asks(&session).is_some());
    signal(daemon.pid(), "-KILL");
    wait_until("the daemon still answers", || daemon.status().is_none());
    session
}

#[test]
fn note_of_a_deleted_session_goes_with_it() {
    for without_daemon in [false, true] {
        let mut daemon = Daemon::calling(&["echo ran >> ran"]);
        let session = refused_session(&mut daemon);
        assert!(daemon.control(&["start"]).status.success());
        let told = |daemon: &Daemon| String::from_utf8(daemon.control(&["status"]).stdout).unwrap();
        wait_until("nothing is said", || told(&daemon).contains(&session));
        assert_eq!(daemon.notes(), 1);
        if without_daemon {
            daemon.change(|setup| setup.env("EDN_BRIDGE_DAEMON", "never"));
        }
        let mut bridge = daemon.setup.interactor();
        let deleted = bridge.ask("d", "delete_session", &format!("{{:session-id {session:?}}}"));
        assert_eq!(code(&deleted), "", "{deleted}");
        assert_eq!(daemon.notes(), 0);
        assert!(!told(&daemon).contains(&session), "{}", told(&daemon));
    }
}

#[test]
fn note_of_a_session_that_is_gone_is_not_kept() {
    let mut daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    bridge.event("interaction/requested");
    daemon.kill(bridge);
    for path in support::files(&daemon.setup.state().join("sessions")) {
        std::fs::remove_file(path).unwrap();
    }
    daemon.then_says(END);
    assert_eq!(daemon.notes(), 1);
    assert!(daemon.control(&["start"]).status.success());
    wait_until("the note stays", || daemon.notes() == 0);
    let told = String::from_utf8(daemon.control(&["status"]).stdout).unwrap();
    assert!(!told.contains(&session), "{told}");
}
