//! Questions wait for somebody to come back.

use edn_bridge::value::Value;

use crate::fixture::{Daemon, approve, prompt, until};
use crate::support::{at, data, is_event, wait_until};

#[test]
fn question_waits_for_the_next_editor() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    let question = bridge.event("interaction/requested");
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    assert_eq!(at(&daemon.at_work()[0], &["asks"]).and_then(Value::as_str), Some("approve"));
    let mut bridge = daemon.editor_at(&session);
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    approve(&mut bridge, &again);
    bridge.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn question_that_nobody_sees_waits_for_an_editor() {
    let daemon = Daemon::calling(&[&until("go"), "echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    let first = bridge.event("interaction/requested");
    approve(&mut bridge, &first);
    wait_until("the command did not begin", || daemon.wrote("began"));
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("nothing is asked", || {
        daemon.at_work().iter().any(|work| at(work, &["asks"]).and_then(Value::as_str) == Some("approve"))
    });
    let mut bridge = daemon.editor_at(&session);
    let second = bridge.until(|frame| is_event(frame, "interaction/requested"));
    approve(&mut bridge, &second);
    bridge.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn question_of_a_session_without_a_person_ends_at_once() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.ready();
    prompt(&mut bridge);
    let ended = bridge.event("turn/ended");
    assert!(data(&ended, "error-message").contains("permission-required"), "{ended}");
}

#[test]
fn grace_bounds_a_question_that_nobody_sees() {
    let daemon = Daemon::calling(&[&until("go"), "echo ran >> ran"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:interaction {:orphan-grace-ms 1}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    let first = bridge.event("interaction/requested");
    approve(&mut bridge, &first);
    wait_until("the command did not begin", || daemon.wrote("began"));
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the question waits on", || daemon.at_work().is_empty());
    assert!(!daemon.file("ran").exists());
}
