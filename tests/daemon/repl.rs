//! The REPL without a terminal: forms from standard input, results on standard output.
use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

use support::Setup;

fn repl(setup: &Setup, input: &str) -> Output {
    let mut command = setup.command();
    command.arg("repl").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn repl_answers_forms_in_order() {
    let setup = Setup::new().fixed();
    let output = repl(
        &setup,
        "(ping)\n; nothing\n(set_session_name\n  {:name \"from the REPL\"})\n:psi.agent-session/session-name\n\
         [{[:psi.op/name \"ping\"] [:psi.op/doc]}]\n(psi.session/rename {:name \"again\"}) [:psi.agent-session/session-name]\n",
    );
    assert!(output.status.success());
    assert_eq!(
        out(&output),
        "{:pong true :protocol-version \"1.0\"}\n{:session-name \"from the REPL\"}\n\
         {:psi.agent-session/session-name \"from the REPL\"}\n\
         {[:psi.op/name \"ping\"] {:psi.op/doc \"Answers at once.\"}}\n\
         {psi.session/rename {:psi.agent-session/session-id \"s-0001\"}}\n\
         {:psi.agent-session/session-name \"again\"}\n"
    );
}

#[test]
fn repl_looks_up_names_and_shows_plans() {
    let setup = Setup::new();
    let output = repl(
        &setup,
        ":doc :psi.turn/text\n:doc prompt\n:apropos thinking\n:plan :psi.agent-session/phase\n:help\n:quit\n(ping)\n",
    );
    let text = out(&output);
    assert!(text.contains("The model's text in the turn"), "{text}");
    assert!(text.contains("[:psi.turn/text]"), "{text}");
    assert!(text.contains("Starts a turn with the user's message."), "{text}");
    assert!(text.contains(":psi.agent-session/thinking-level"), "{text}");
    assert!(text.contains("psi.session/set-thinking-level"), "{text}");
    assert!(
        text.contains(":steps [psi.agent-session/focus psi.agent-session/by-id psi.agent-session/facts]"),
        "{text}"
    );
    assert!(!text.contains(":pong"), "{text}");
}

#[test]
fn repl_errors_set_standard_error_and_status() {
    let setup = Setup::new();
    let output = repl(&setup, "(nothing)\n]\n:doc :nothing/here\n(ping)\n");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(told.contains("request/op-not-supported") && told.contains("unmatched-delimiter"), "{told}");
    assert_eq!(out(&output), "{:pong true :protocol-version \"1.0\"}\n");
    let output = repl(&setup, "[:a");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn watched_query_shows_changes_and_events() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Hello.\"}]}]}");
    let mut command = setup.command();
    command.arg("repl").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut aside = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    stdin.write_all(b":watch [:psi.agent-session/message-count]\n(prompt {:message \"hi\"})\n").unwrap();
    let mut seen = Vec::new();
    while !(seen
        .iter()
        .any(|line: &String| line.contains(":message-count 2") || line.contains("message-count 2}"))
        && seen.iter().any(|line| line == ";; assistant/message Hello."))
    {
        seen.push(aside.next().unwrap_or_else(|| panic!("{seen:?}")));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_repl_attaches_to_the_running_bridge() {
    let setup = Setup::new();
    let mut bridge = setup.ready();
    bridge.ask("n", "set_session_name", "{:name \"the editor's\"}");
    // The socket is there before the first request is answered, or very soon after.
    let run = setup.state().join("run");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while std::fs::read_dir(&run).map_or(0, |entries| entries.count()) == 0 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    let output = repl(&setup, ":psi.agent-session/session-name\n(set_session_name {:name \"the REPL's\"})\n");
    assert!(out(&output).starts_with("{:psi.agent-session/session-name \"the editor's\"}\n"), "{output:?}");
    bridge.until(|frame| frame.to_string().contains("\"the REPL's\""));
}
