//! A replaced daemon: what goes over to the new one, and what stays.

use std::process::Command;
use std::thread::JoinHandle;

use edn_bridge::limits::PARALLEL_TOOLS;
use edn_bridge::value::{Owned, Value};

use crate::fixture::{
    Daemon, END, approve, end_of_run, prompt, runs, session_of, signal, telling, until, with_workflow,
};
use crate::support::{self, Bridge, Setup, at, code, data, wait_until};

#[test]
fn turn_goes_on_in_a_new_daemon_after_its_running_tool() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "of the editor"));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let first = daemon.pid();
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(
        "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo $BRIDGE_TEST >> told\"}}}]}
                  {:steps [{:delta \"end\"}]}]}",
    );
    let mut idle = daemon.setup.interactor();
    let restarted = daemon.control(&["restart"]);
    assert!(restarted.status.success(), "{restarted:?}");
    assert!(String::from_utf8_lossy(&restarted.stdout).contains(&session), "{restarted:?}");
    assert_ne!(daemon.pid(), first);
    // A session at rest goes over at once; so the old daemon knows of the new one.
    assert_eq!(idle.wait().code(), Some(75));
    // The command still runs where it began, and its editor is served there.
    assert_eq!(code(&old.ask("ping", "ping", "{}")), "");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    assert!(!old.told().contains(":event \"turn/ended\""));
    // Nobody is there, and the turn keeps the variables of the editor that began it.
    wait_until("the turn did not go on", || daemon.wrote("told"));
    wait_until("the turn did not end", || daemon.at_work().is_empty() && daemon.notes() == 0);
    wait_until("the old daemon stays", || !std::path::Path::new(&format!("/proc/{first}")).exists());
    daemon.setup.environment.pop();
    let mut new = daemon.editor_at(&session);
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\""), "{messages}");
    assert!(!messages.contains("may have run"), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("began")).unwrap(), "began\n");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "of the editor\n");
    // Nothing went wrong, and so nothing is warned of: not of programs that only looked, nor of the end.
    for _ in 0..20 {
        assert!(daemon.control(&["start"]).status.success());
    }
    assert!(daemon.control(&["stop"]).status.success());
    let log = std::fs::read_to_string(daemon.setup.state().join("daemon.log")).unwrap();
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn turn_goes_on_though_its_new_daemon_is_killed_over_it() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    daemon.replace();
    let second = daemon.pid();
    // It takes the connection, and says nothing.
    signal(second, "-STOP");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    assert_eq!(daemon.notes(), 1);
    signal(second, "-KILL");
    wait_until("the daemon still answers", || daemon.status().is_none());
    assert!(daemon.control(&["start"]).status.success());
    wait_until("the turn did not go on", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let mut new = daemon.editor_at(&session);
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\"") && !messages.contains("may have run"), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
}

#[test]
fn second_restart_cuts_off_no_turn_that_goes_over() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let (session, first) = (prompt(&mut old), daemon.pid());
    wait_until("the command did not begin", || daemon.wrote("began"));
    let mut idle = daemon.setup.interactor();
    // The engine of the next daemon waits for its script.
    let (script, pipe) = (daemon.setup.dir.path().join("script.edn"), daemon.setup.dir.path().join("pipe"));
    std::fs::remove_file(&script).unwrap();
    assert!(Command::new("mkfifo").arg(&script).status().unwrap().success());
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
    let second = daemon.pid();
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("nobody takes it over", || {
        daemon.at_work().iter().any(|work| at(work, &["session"]).and_then(Value::as_str) == Some(&session))
    });
    assert!(daemon.control(&["restart"]).status.success());
    assert_ne!(daemon.pid(), second);
    daemon.change(|setup| setup.script(END));
    // Now that engine goes on, and those of the newest daemon start at once.
    std::fs::rename(&script, &pipe).unwrap();
    std::fs::write(&script, END).unwrap();
    // Apart, because it waits for the reader.
    std::thread::spawn(move || std::fs::write(&pipe, END));
    assert_eq!(old.wait().code(), Some(75));
    // Both older daemons let go of it, the second one too if the turn has ended there.
    wait_until("an old daemon stays", || ![first, second].into_iter().any(runs));
    wait_until("the turn did not go on", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let mut new = daemon.editor_at(&session);
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\"") && !messages.contains("may have run"), "{messages}");
    assert!(!messages.contains("aborted"), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
}

#[test]
fn question_of_a_replaced_daemon_is_asked_by_the_new_one() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    let question = bridge.event("interaction/requested");
    let first = daemon.pid();
    let told = daemon.control(&["restart"]);
    assert!(told.status.success() && String::from_utf8_lossy(&told.stdout).contains(&session), "{told:?}");
    bridge.kill();
    let process = format!("/proc/{first}/cmdline");
    wait_until("the old daemon stays", || std::fs::read(&process).unwrap_or_default().is_empty());
    let mut bridge = daemon.editor_at(&session);
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    approve(&mut bridge, &again);
    // The turn goes on: its model, which began its script anew, calls again.
    bridge.event("tool/result");
    bridge.event("interaction/requested");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn question_goes_over_to_a_new_daemon_beside_a_running_tool() {
    let two = "{:turns [{:steps [{:tool-call {:id \"a\" :name \"bash\" :arguments {:command \"echo asked >> asked\"}}}
                                 {:tool-call {:id \"b\" :name \"bash\" :arguments {:command \"sh until.sh\"}}}]}]}";
    let mut daemon = Daemon::new(Setup::new().script(two));
    std::fs::write(daemon.file("until.sh"), until("go")).unwrap();
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let rule = "{:permissions {:rules [{:tool \"bash\" :command \"sh until.sh\" :decision :allow}]}}";
    std::fs::write(folder.join("config.edn"), rule).unwrap();
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let question = old.event("interaction/requested");
    assert!(question.to_string().contains("asked >> asked"), "{question}");
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    daemon.replace();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("approve"));
    let mut new = daemon.editor_at(&session);
    let again = new.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    approve(&mut new, &again);
    new.event("turn/ended");
    assert_eq!(std::fs::read_to_string(daemon.file("asked")).unwrap(), "asked\n");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    // The result of the call that ended in the old daemon came along.
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(!messages.contains("may have run"), "{messages}");
    assert_eq!(audited(&daemon, data(&question, "interaction-id")).len(), 1);
}

/// The audit records of a question.
fn audited(daemon: &Daemon, question: &str) -> Vec<String> {
    let audit = std::fs::read_to_string(daemon.setup.state().join("audit.edn")).unwrap_or_default();
    audit.lines().filter(|line| line.contains(question)).map(str::to_owned).collect()
}

#[test]
fn question_that_goes_over_has_one_audit_record() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let question = old.event("interaction/requested");
    // An engine that starts looks for questions that a kill cut off.
    for _ in 0..2 {
        let last = daemon.pid();
        assert!(daemon.control(&["restart"]).status.success());
        wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("approve"));
        wait_until("the old daemon stays", || !runs(last));
    }
    let id = data(&question, "interaction-id");
    assert!(audited(&daemon, id).is_empty(), "{:?}", audited(&daemon, id));
    let mut new = daemon.editor_at(&session);
    let again = new.event("interaction/requested");
    approve(&mut new, &again);
    new.event("tool/result");
    assert_eq!(audited(&daemon, id).len(), 1);
}

#[test]
fn question_at_a_gate_goes_over_with_its_id() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"said\"}]}] :then :cycle}");
    let stages = "{:id :a :body \"x\" :assert [{:command \"echo a >> a\"}]}
                  {:id :b :body \"y\" :gate [{:confirm \"Go on?\"}] :next :end}";
    let daemon = Daemon::new(with_workflow(setup, stages));
    let mut old = daemon.setup.interactor();
    let session = session_of(&mut old);
    old.ask("w", "command", "{:text \"/workflow w\"}");
    let question = old.event("interaction/requested");
    for _ in 0..2 {
        let last = daemon.pid();
        assert!(daemon.control(&["restart"]).status.success());
        wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("confirm"));
        wait_until("the old daemon stays", || !runs(last));
    }
    assert_eq!(old.wait().code(), Some(75));
    let id = data(&question, "interaction-id");
    assert!(audited(&daemon, id).is_empty(), "{:?}", audited(&daemon, id));
    let mut new = daemon.editor_at(&session);
    let again = new.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), id);
    support::accept(&mut new, &again, ":value {:ok true}");
    assert_eq!(end_of_run(&mut new), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(daemon.file("a")).unwrap(), "a\n");
    assert_eq!(audited(&daemon, id).len(), 1);
}

#[test]
fn turn_that_went_over_is_marked_after_a_kill() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(
        "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo n >> next; sleep 1000\"}}}]}]}",
    );
    daemon.replace();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("the turn did not go on", || daemon.wrote("next"));
    let second = daemon.pid();
    signal(second, "-KILL");
    wait_until("the daemon still answers", || daemon.status().is_none());
    daemon.then_says(END);
    assert!(daemon.control(&["start"]).status.success());
    // It does not go on by itself once more: its call may have run.
    wait_until("the turn is not marked", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let mut new = daemon.editor_at(&session);
    let state = new.ask("state", "get_state", "{}");
    assert!(at(&state, &["data", "state", "interrupted"]).is_some_and(|turn| !turn.is_nil()), "{state}");
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("may have run") && !messages.contains("\"end\""), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("next")).unwrap(), "n\n");
}

#[test]
fn call_that_waits_for_a_place_begins_in_the_new_daemon() {
    // The process that started the command, and those above it.
    let line = "p=$$; while [ \"$p\" -gt 1 ]; do p=$(awk '{print $4}' /proc/$p/stat); echo $p; done > line";
    let call = |id: usize, command: &str| {
        format!("{{:tool-call {{:id \"{id}\" :name \"bash\" :arguments {{:command {command:?}}}}}}}")
    };
    let mut calls: String = (0..PARALLEL_TOOLS).map(|id| call(id, &until("go"))).collect();
    calls += &call(PARALLEL_TOOLS, line);
    let mut daemon =
        Daemon::new(Setup::new().arg("--yolo").script(&format!("{{:turns [{{:steps [{calls}]}}]}}")));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    prompt(&mut old);
    let began = || std::fs::read_to_string(daemon.file("began")).unwrap_or_default();
    wait_until("the commands did not begin", || began().lines().count() == PARALLEL_TOOLS);
    daemon.then_says(END);
    daemon.replace();
    let second = daemon.pid();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("the turn did not go on", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let line = std::fs::read_to_string(daemon.file("line")).unwrap();
    let above = |pid: i64| line.lines().any(|above| above == pid.to_string());
    assert!(above(second) && !above(first), "{first}, {second}: {line}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap().lines().count(), PARALLEL_TOOLS);
}

#[test]
fn background_job_keeps_its_session_in_the_old_daemon() {
    let mut daemon = Daemon::new(Setup::new().arg("--yolo").script(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:background true :command {:?}}}}}}}]}}
                  {{:steps [{{:delta \"end\"}}]}}]}}",
        until("go")
    )));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    old.event("turn/ended");
    wait_until("the job did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    daemon.replace();
    let listed = old.ask("jobs", "list_background_jobs", "{}").to_string();
    assert!(listed.contains(":running") || listed.contains("\"running\""), "{listed}");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    let mut new = daemon.editor_at(&session);
    assert_eq!(code(&new.ask("ping", "ping", "{}")), "");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
}

#[test]
fn workflow_goes_on_in_a_new_daemon_before_its_next_stage() {
    let setup = Setup::new().arg("--yolo").script("{:turns [{:steps [{:delta \"said\"}]}]}");
    let stages = format!(
        "{{:id :a :body \"x\" :assert [{{:command {:?}}}]}} {{:id :b :body \"y\" :assert [{{:command \"echo b >> b\"}}]}}",
        until("go")
    );
    let daemon = Daemon::new(with_workflow(setup, &stages));
    let mut old = daemon.setup.interactor();
    let session = session_of(&mut old);
    old.ask("w", "command", "{:text \"/workflow w\"}");
    wait_until("the stage did not begin", || daemon.wrote("began"));
    daemon.replace();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("it did not go on", || daemon.wrote("b"));
    wait_until("it did not end", || daemon.notes() == 0);
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    assert_eq!(std::fs::read_to_string(daemon.file("b")).unwrap(), "b\n");
    let journal: String = support::files(&daemon.setup.state())
        .iter()
        .filter(|path| path.to_string_lossy().contains(&session))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect();
    assert!(journal.contains(":event \"handed-over\""), "{journal}");
    assert!(!journal.contains(":event \"interrupted\""), "{journal}");
}

/// A workflow that asks about a call inside its first stage, and whose second stage asks at its gate.
fn asking_workflow() -> (Daemon, Bridge, String, Owned) {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran >> ran\"}}}]}
                           {:steps [{:delta \"said\"}]}] :then :cycle}";
    let stages = "{:id :a :body \"x\" :tools [\"read\"] :assert [{:command \"test -e ran\"}]}
                  {:id :b :body \"y\" :gate [{:confirm \"Go on?\"}] :next :end}";
    let daemon = Daemon::new(with_workflow(Setup::new().script(script), stages));
    let mut bridge = daemon.setup.interactor();
    let session = session_of(&mut bridge);
    bridge.ask("w", "command", "{:text \"/workflow w\"}");
    let question = bridge.event("interaction/requested");
    assert_eq!(data(&question, "kind"), "grant-stage-tool", "{question}");
    (daemon, bridge, session, question)
}

#[test]
fn question_inside_a_stage_is_answered_in_the_old_daemon() {
    let (daemon, mut old, session, question) = asking_workflow();
    daemon.replace();
    let told = daemon.control(&["status"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("A replaced daemon ends when"), "{told:?}");
    support::accept(&mut old, &question, ":value {:outcome \"approve\"}");
    // The question at the gate of the next stage goes over.
    assert_eq!(old.wait().code(), Some(75));
    wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("confirm"));
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn question_inside_a_stage_that_nobody_sees_ends_its_run() {
    let (daemon, mut old, session, question) = asking_workflow();
    assert!(daemon.control(&["restart"]).status.success());
    // No editor reaches the old daemon any more.
    old.kill();
    wait_until("the run is not marked", || daemon.notes() == 0 && daemon.at_work().is_empty());
    wait_until("the old daemon stays", || {
        !String::from_utf8_lossy(&daemon.control(&["status"]).stdout).contains("A replaced daemon")
    });
    let mut bridge = daemon.editor_at(&session);
    bridge.ask("w", "command", "{:text \"/workflow w --resume\"}");
    let again = bridge.event("interaction/requested");
    assert_ne!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    support::accept(&mut bridge, &again, ":value {:outcome \"approve\"}");
    let gate = bridge.event("interaction/requested");
    assert_eq!(data(&gate, "kind"), "confirm");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

#[test]
fn replaced_daemon_is_shown_and_ended_by_stop_now() {
    let mut daemon = Daemon::new(Setup::new().arg("--yolo").script(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:background true :command {:?}}}}}}}]}}
                  {{:steps [{{:delta \"end\"}}]}}]}}",
        format!("echo $$ > job; {}", until("never"))
    )));
    let mut old = daemon.setup.interactor();
    let (session, first) = (prompt(&mut old), daemon.pid());
    old.event("turn/ended");
    wait_until("the job did not begin", || daemon.wrote("began"));
    let job: i64 = std::fs::read_to_string(daemon.file("job")).unwrap().trim().parse().unwrap();
    daemon.then_says(END);
    daemon.replace();
    // Another editor of the new daemon, so that there is something in both.
    let mut new = daemon.setup.interactor();
    let status = daemon.status().unwrap();
    let replaced = status.get("replaced").and_then(Value::as_slice).unwrap();
    assert_eq!(replaced.len(), 1, "{status}");
    assert_eq!(replaced[0].get("pid").and_then(Value::as_i64), Some(first));
    assert!(replaced[0].to_string().contains(&session), "{status}");
    assert_eq!(at(&status, &["pid"]).and_then(Value::as_i64), Some(daemon.pid()));
    let shown = String::from_utf8(daemon.control(&["status"]).stdout).unwrap();
    assert!(
        shown.contains(&format!("A replaced daemon ends when this has ended: process {first}")),
        "{shown}"
    );
    assert!(shown.contains(&session), "{shown}");
    // Without `--now`, it refuses for what runs in the old one, and the new one stays.
    let refused = daemon.control(&["stop"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains(&session), "{refused:?}");
    assert_eq!(code(&new.ask("ping", "ping", "{}")), "");
    assert_eq!(code(&old.ask("ping", "ping", "{}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    assert!(!runs(first) || daemon.control(&["status"]).stdout == b"No daemon runs.\n");
    wait_until("the old daemon stays", || !runs(first));
    wait_until("the job stays", || !runs(job));
    assert_eq!(old.wait().code(), Some(75));
    assert_eq!(new.wait().code(), Some(75));
    let left = std::fs::read_dir(daemon.setup.state().join("run")).unwrap().flatten();
    let sockets = left.filter(|file| file.file_name().to_string_lossy().ends_with("sock")).count();
    assert_eq!(sockets, 0);
}

/// What a replaced daemon says to a line.
fn ask_at(daemon: &Daemon, replaced: i64, line: &str) -> String {
    use std::io::{Read as _, Write as _};
    let socket = daemon.setup.state().join(format!("run/replaced-{replaced}.daemon.sock"));
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn replaced_daemon_takes_nothing_over() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    daemon.replace();
    let ask = |line: &str| ask_at(&daemon, first, line);
    let given = "{:cwd \"/\" :provider nil :model nil :model-file nil :script nil :mode nil :config nil \
                 :durability \"relaxed\" :origins []}";
    let told = ask(&format!("{{:take-over {{:session {session:?} :given {given} :environment nil}}}}\n"));
    assert_eq!(told, ":not-taken\n");
    // An editor that came too late hears nothing, and tries again with the daemon that runs.
    let folder = |name: &str| daemon.setup.dir.path().join(name);
    let homes = format!("{{:home {:?} :config {:?}}}", folder("home"), folder("config"));
    let told = ask(&format!(
        "{{:attach {{:version 1 :build \"\" :protocol :edn :homes {homes} :given {given} :environment []}}}}\n"
    ));
    assert_eq!(told, "");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
}

#[test]
fn killed_replaced_daemon_is_shown_no_more() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    assert!(daemon.control(&["restart"]).status.success());
    signal(first, "-KILL");
    assert_eq!(old.wait().code(), Some(75));
    // The daemon that runs marks the turn by itself.
    wait_until("the turn is not marked", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let replaced = daemon.status().unwrap();
    assert_eq!(replaced.get("replaced").and_then(Value::as_slice).map(<[_]>::len), Some(0), "{replaced}");
    let names = std::fs::read_dir(daemon.setup.state().join("run")).unwrap().flatten();
    assert!(names.into_iter().all(|file| !file.file_name().to_string_lossy().starts_with("replaced")));
}

/// Answers the next line to the daemon's socket in place of the daemon that runs, which has the socket again by then.
fn answer_instead(daemon: &Daemon, answer: impl FnOnce() -> &'static str + Send + 'static) -> JoinHandle<()> {
    use std::io::{BufRead as _, BufReader, Write as _};
    let run = daemon.setup.state().join("run");
    let (socket, aside) = (run.join("daemon.sock"), run.join("aside"));
    std::fs::rename(&socket, &aside).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            // Others only look whether somebody listens.
            if BufReader::new(&stream).read_line(&mut line).unwrap_or(0) > 0 {
                assert!(line.starts_with("{:take-over "), "{line}");
                std::fs::rename(&aside, &socket).unwrap();
                let _ = stream.write_all(answer().as_bytes());
                return;
            }
        }
    })
}

/// Which variables a turn has that goes over while the next daemon is replaced too, or ends.
fn told_over(answer: impl FnOnce(&Daemon) -> Box<dyn FnOnce() -> &'static str + Send>) -> String {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut old = daemon.setup.interactor();
    prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(&telling());
    daemon.replace();
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let _newest = daemon.setup.interactor();
    let answered = answer_instead(&daemon, answer(&daemon));
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    answered.join().unwrap();
    wait_until("the turn did not go on", || daemon.wrote("told") && daemon.at_work().is_empty());
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    std::fs::read_to_string(daemon.file("told")).unwrap()
}

#[test]
fn session_goes_to_the_daemon_that_follows_the_next() {
    // It was replaced itself.
    assert_eq!(told_over(|_| Box::new(|| ":not-taken\n")), "one\n");
    // It ended before it did anything.
    assert_eq!(told_over(|_| Box::new(|| "")), "one\n");
}

#[test]
fn session_that_may_have_ended_its_daemon_is_not_offered_on() {
    // It said in the note that it opens the session, and ended. The next daemon opens what was left, and counts the end.
    let told = told_over(|daemon| {
        let folder = daemon.setup.state().join("at-work");
        Box::new(move || {
            let note = std::fs::read_dir(folder).unwrap().flatten().next().unwrap().path();
            let left = std::fs::read_to_string(&note).unwrap();
            assert!(left.contains(":is-left true"), "{left}");
            std::fs::write(note, left.replace(":is-left true", ":is-left false")).unwrap();
            ""
        })
    });
    assert_eq!(told, "two\n");
}

#[test]
fn session_moves_though_its_new_daemon_is_slow() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "one"));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    prompt(&mut old);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(&telling());
    daemon.replace();
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "two"));
    let (_newest, second) = (daemon.setup.interactor(), daemon.pid());
    signal(second, "-STOP");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    // What leaves is work: the old daemon does not end over it.
    let status = ask_at(&daemon, first, ":status\n");
    signal(second, "-CONT");
    assert!(status.contains(":phase \"leaving\""), "{status}");
    wait_until("the turn did not go on", || daemon.wrote("told") && daemon.at_work().is_empty());
    assert_eq!(std::fs::read_to_string(daemon.file("told")).unwrap(), "one\n");
}

#[test]
fn subagent_ends_in_the_old_daemon_and_its_parent_moves() {
    let mut daemon = Daemon::new(Setup::new().script(&format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"delegate\" :arguments {{:task \"t\" :tools [\"bash\"]}}}}}}]}}
                  {{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {:?}}}}}}}]}}
                  {{:steps [{{:delta \"the child said\"}}]}}]}}",
        until("go")
    )));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let question = old.event("interaction/requested");
    approve(&mut old, &question);
    wait_until("the command did not begin", || daemon.wrote("began"));
    daemon.then_says(END);
    daemon.replace();
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("the turn did not go on", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let mut new = daemon.editor_at(&session);
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("the child said") && messages.contains("\"end\""), "{messages}");
    assert!(!messages.contains("may have run"), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
}

#[test]
fn kills_count_for_a_session_that_went_over() {
    let daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    old.event("interaction/requested");
    let first = daemon.pid();
    assert!(daemon.control(&["restart"]).status.success());
    for _ in 0..2 {
        wait_until("nothing is asked", || daemon.asks(&session).is_some() && !runs(first));
        signal(daemon.pid(), "-KILL");
        wait_until("the daemon still answers", || daemon.status().is_none());
        assert!(daemon.control(&["start"]).status.success());
    }
    let told = || String::from_utf8(daemon.control(&["status"]).stdout).unwrap();
    wait_until("nothing is said", || told().contains("2 daemons in a row"));
    assert_eq!(daemon.asks(&session), None);
}
