//! `prompt` in a session that the daemon has open.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::client::Lines;

use crate::fixture::{Daemon, approve, signal};
use crate::support::{Bridge, PATIENCE, Setup, code, data, is_event, wait_until};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :cycle}";

/// Runs `prompt` as the setup has it.
fn run(setup: &Setup, words: &[&str]) -> Output {
    let mut command = setup.command();
    command.arg("prompt").args(words).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

/// An editor's first message, to the end of its turn; returns the session.
fn begun(editor: &mut Bridge) -> String {
    let session = crate::fixture::prompt(editor);
    editor.event("turn/ended");
    session
}

#[test]
fn prompt_goes_on_in_a_session_of_the_daemon() {
    let daemon = Daemon::new(Setup::new().script(ECHO));
    let mut editor = daemon.setup.interactor();
    let session = begun(&mut editor);
    for words in [&["--continue", "one"][..], &["--session", &session[..12], "one"]] {
        let output = run(&daemon.setup, words);
        assert_eq!((out(&output), output.status.code()), ("one\n", Some(0)), "{output:?}");
        // The editor sees it: the session is one and the same.
        let message = editor.until(|frame| is_event(frame, "user/message") && data(frame, "text") == "one");
        assert_eq!(data(&message, "session-id"), session);
        editor.event("turn/ended");
    }
    // Not even an empty session is left behind.
    let listed = editor.ask("l", "list_sessions", "{}");
    let sessions = listed.get("data").and_then(|data| data.get("sessions")).unwrap();
    assert_eq!(sessions.as_slice().unwrap().len(), 1, "{sessions}");
}

#[test]
fn prompt_reaches_the_daemon_from_another_folder() {
    let daemon = Daemon::new(Setup::new().script(ECHO));
    let mut editor = daemon.setup.interactor();
    let session = begun(&mut editor);
    // With other options too: they are those of another engine.
    let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
    daemon.setup.folders(&mut command);
    command.arg("--state-dir").arg(daemon.setup.state()).arg("--cwd").arg(daemon.setup.dir.path());
    command.args(["--mode", "accept-edits", "prompt", "--session", &session, "two"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!((out(&output), output.status.code()), ("two\n", Some(0)), "{output:?}");
    assert_eq!(daemon.engines().len(), 1);
}

#[test]
fn prompt_brings_its_variables_to_the_daemon() {
    let mut daemon = Daemon::calling(&["echo \"$BRIDGE_TEST\" >> told"]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut editor = daemon.setup.interactor();
    begun(&mut editor);
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let output = run(&daemon.setup, &["--continue", "again"]);
    assert_eq!((out(&output), output.status.code()), ("end\n", Some(0)), "{output:?}");
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "one\ntwo\n");
}

#[test]
fn prompt_says_that_an_editor_is_asked() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut editor = daemon.setup.interactor();
    let session = crate::fixture::prompt(&mut editor);
    let question = editor.event("interaction/requested");
    approve(&mut editor, &question);
    editor.event("turn/ended");
    let mut command = daemon.setup.command();
    command.args(["prompt", "--session", &session, "again"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let question = editor.event("interaction/requested");
    // It says so before it is answered.
    let lines = Lines::new(child.stderr.take().unwrap());
    let told = lines.next(Instant::now() + PATIENCE).unwrap().unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains("waits for an answer in another client (approve: ") && told.contains("echo ran"));
    approve(&mut editor, &question);
    let output = child.wait_with_output().unwrap();
    assert_eq!((out(&output), output.status.code()), ("end\n", Some(0)), "{output:?}");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\nran\n");
}

#[test]
fn prompt_of_a_busy_session_is_refused() {
    let daemon = Daemon::new(Setup::new().script("{:turns [{:steps [{:delta \"a\"} {:sleep-ms 600000}]}]}"));
    let mut editor = daemon.setup.interactor();
    let session = crate::fixture::prompt(&mut editor);
    editor.event("assistant/delta");
    let output = run(&daemon.setup, &["--session", &session, "two"]);
    assert_eq!((out(&output), output.status.code()), ("", Some(1)), "{output:?}");
    assert_eq!(code(&editor.ask("a", "abort", "{}")), "");
    editor.event("turn/ended");
}

#[test]
fn second_interrupt_ends_prompt_of_a_stopped_daemon() {
    let daemon =
        Daemon::new(Setup::new().script(
            "{:turns [{:steps [{:delta \"end\"}]} {:steps [{:delta \"Begun\"} {:sleep-ms 600000}]}]}",
        ));
    let mut editor = daemon.setup.interactor();
    let session = begun(&mut editor);
    let mut command = daemon.setup.command();
    command.args(["prompt", "--session", &session, "again"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
    let pid = daemon.pid();
    signal(pid, "-STOP");
    // Each of its threads stops when it is next on a processor.
    let stopped = |thread: std::path::PathBuf| {
        let state = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    let threads =
        || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path());
    wait_until("the daemon has stopped", || threads().all(stopped));
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        // By its id: who has ended meanwhile is not reaped yet.
        signal(child.id().into(), "-INT");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    signal(pid, "-CONT");
    let has_ended = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(has_ended, "C-c does not end it: {output:?}");
    let told = str::from_utf8(&output.stderr).unwrap();
    assert!(output.status.code() == Some(130) && told.contains("the bridge does not answer"), "{output:?}");
}
