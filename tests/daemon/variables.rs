//! The variables of commands are those of the editor whose message began the turn.

use crate::fixture::{Daemon, TELL, approve, prompt, telling, until};
use crate::support::{self, code, data, is_event, wait_until};

#[test]
fn commands_have_the_variables_of_their_editor() {
    let mut daemon = Daemon::calling(&["echo \"$BRIDGE_TEST\" >> told"]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut one = daemon.setup.interactor();
    prompt(&mut one);
    one.event("turn/ended");
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let mut two = daemon.setup.interactor();
    prompt(&mut two);
    two.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "one\ntwo\n");
    assert_eq!(daemon.engines().len(), 1);
}

#[test]
fn turns_of_two_editors_have_each_its_own_variables() {
    let commands = ["until [ -e go ]; do sleep 0.01; done", "echo \"$BRIDGE_TEST\" >> told"];
    let mut daemon = Daemon::calling(&commands);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut one = daemon.setup.interactor();
    prompt(&mut one);
    one.event("tool/executing");
    let later = one.ask("f", "follow_up", "{:message \"again\"}");
    assert_eq!(code(&later), "", "{later}");
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let _two = daemon.setup.interactor();
    assert_eq!(daemon.engines().len(), 1);
    std::fs::write(daemon.file("go"), "").unwrap();
    one.event("turn/ended");
    // What waited has the variables of its editor too, which has left.
    one.kill();
    wait_until("the second turn did not end", || daemon.at_work().is_empty());
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "one\none\n");
}

#[test]
fn waiting_message_keeps_its_variables_over_a_restart() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "canary-of-one"));
    let mut one = daemon.setup.interactor();
    let session = prompt(&mut one);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "canary-of-two"));
    let mut two = daemon.editor_at(&session);
    assert_eq!(code(&two.ask("f", "follow_up", "{:message \"again\"}")), "");
    two.kill();
    // The newest editor is a third one.
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "three"));
    daemon.then_says(&telling());
    daemon.replace();
    let _newest = daemon.setup.interactor();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(one.wait().code(), Some(75));
    let told = || std::fs::read_to_string(daemon.file("told")).unwrap_or_default();
    wait_until("the turns did not go on", || told().lines().count() == 2 && daemon.at_work().is_empty());
    assert_eq!(told(), "canary-of-one\ncanary-of-two\n");
    // The values were in memory and on the socket alone.
    for path in support::files(&daemon.setup.state()) {
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(!kept.windows(9).any(|part| part == b"canary-of"), "{}", path.display());
    }
}

#[test]
fn turn_keeps_its_variables_while_its_question_waits() {
    let mut daemon = Daemon::calling(&[TELL]);
    daemon.change(|setup| setup.env("BRIDGE_TEST", "one"));
    let mut one = daemon.setup.interactor();
    let session = prompt(&mut one);
    one.event("interaction/requested");
    one.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    assert!(daemon.control(&["restart"]).status.success());
    // The old daemon has the session until it has passed it on.
    wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("approve"));
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let mut two = daemon.editor_at(&session);
    let question = two.event("interaction/requested");
    approve(&mut two, &question);
    two.event("tool/result");
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "one\n");
}

#[test]
fn waiting_message_without_its_variables_is_told() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut one = daemon.setup.interactor();
    let session = prompt(&mut one);
    wait_until("the command did not begin", || daemon.wrote("began"));
    assert_eq!(code(&one.ask("f", "follow_up", "{:message \"again\"}")), "");
    daemon.kill(one);
    std::fs::write(daemon.file("go"), "").unwrap();
    daemon.then_says(&telling());
    assert!(daemon.control(&["start"]).status.success());
    wait_until("the turn is not marked", || daemon.notes() == 0);
    assert!(!daemon.file("told").exists(), "it waits for a person");
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let mut two = daemon.editor_at(&session);
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "three"));
    let _newest = daemon.setup.interactor();
    // It has the variables of the editor that resumes it, not of the newest one.
    assert_eq!(code(&two.ask("r", "resume_queue", "{}")), "");
    let notice = two.event("ui/notification");
    let message = data(&notice, "message");
    assert!(message.contains("of the editor whose request it follows"), "{notice}");
    two.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "two\n");
    // One whose variables are known is no news.
    two.skip_to_now();
    assert_eq!(code(&two.ask("p", "prompt", "{:message \"go\"}")), "");
    let next = two.until(|frame| is_event(frame, "ui/notification") || is_event(frame, "turn/ended"));
    assert!(is_event(&next, "turn/ended"), "{next}");
}
