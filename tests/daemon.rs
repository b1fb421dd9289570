//! The daemon: what runs in it outlives its editors, and it lives as long as it is needed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::process::{Command, Output};

use edn_bridge::edn;
use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup, at, code, data, is_event, wait_until};

/// A setup whose editors use a daemon, which ends with it.
struct Daemon {
    setup: Setup,
}

impl Daemon {
    fn new(setup: Setup) -> Self {
        Self { setup: setup.env("EDN_BRIDGE_DAEMON", "auto") }
    }

    /// With a model that calls `bash` with each of the commands, and then says `end`.
    fn calling(commands: &[&str]) -> Self {
        let turns: String = commands
            .iter()
            .map(|command| {
                format!("{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}]}}")
            })
            .collect();
        Self::new(
            Setup::new()
                .script(&format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}")),
        )
    }

    fn change(&mut self, with: impl FnOnce(Setup) -> Setup) {
        self.setup = with(std::mem::replace(&mut self.setup, Setup::new()));
    }

    fn control(&self, words: &[&str]) -> Output {
        // Not in the project, which a test may have removed.
        let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
        command.env("XDG_CONFIG_HOME", self.setup.dir.path().join("config"));
        command.arg("--state-dir").arg(self.setup.state()).arg("daemon").args(words).output().unwrap()
    }

    /// Its status; `None` if it does not run.
    fn status(&self) -> Option<Owned> {
        let output = self.control(&["status", "--format", "edn"]);
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| edn::read_one(text.as_bytes()).unwrap().into_owned())
    }

    fn pid(&self) -> i64 {
        self.status().and_then(|status| status.get("pid").and_then(Value::as_i64)).expect("a daemon runs")
    }

    fn engines(&self) -> Vec<Owned> {
        let status = self.status();
        let engines = status.as_ref().and_then(|status| status.get("engines")).and_then(Value::as_slice);
        engines.map(<[_]>::to_vec).unwrap_or_default()
    }

    /// The clients of all engines.
    fn clients(&self) -> i64 {
        self.engines().iter().filter_map(|engine| engine.get("clients").and_then(Value::as_i64)).sum()
    }

    /// The sessions that work or wait.
    fn at_work(&self) -> Vec<Owned> {
        let engines = self.engines();
        engines
            .iter()
            .filter_map(|engine| engine.get("at-work").and_then(Value::as_slice))
            .flatten()
            .cloned()
            .collect()
    }

    /// Another editor, which goes to a session.
    fn editor_at(&self, session: &str) -> Bridge {
        let mut bridge = self.setup.interactor();
        let entered = bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
        assert_eq!(code(&entered), "", "{entered}");
        bridge
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.setup.project().join(name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.control(&["stop", "--now"]);
        if !std::thread::panicking() {
            assert!(self.status().is_none(), "stop waits for the end");
        }
    }
}

/// A command that ends once there is a file.
fn until(file: &str) -> String {
    format!("echo began >> began; until [ -e {file} ]; do sleep 0.01; done; echo done >> done")
}

fn prompt(bridge: &mut Bridge) -> String {
    let accepted = bridge.ask("p", "prompt", "{:message \"go\"}");
    assert_eq!(code(&accepted), "", "{accepted}");
    session_of(bridge)
}

fn session_of(bridge: &mut Bridge) -> String {
    let listed = bridge.ask("sessions", "list_sessions", "{}");
    data(&listed, "active-session-id").to_owned()
}

fn approve(bridge: &mut Bridge, question: &Owned) {
    let id = data(question, "interaction-id");
    let params = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    assert_eq!(code(&bridge.ask("r", "interaction_respond", &params)), "");
}

fn signal(pid: i64, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn turn_goes_on_when_its_editor_is_killed() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let told = bridge.handshake();
    assert_eq!(
        at(&told, &["data", "server-info", "outlives-clients"]).and_then(Value::as_bool),
        Some(true),
        "{told}"
    );
    let session = prompt(&mut bridge);
    let pid = daemon.pid();
    wait_until("the command did not begin", || daemon.file("began").exists());
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    assert_eq!(at(&daemon.at_work()[0], &["session"]).and_then(Value::as_str), Some(&*session));
    let mut bridge = daemon.editor_at(&session);
    let query = "{:query \"[{:psi.process/at-work [:psi.at-work/session-id :psi.at-work/phase]}]\"}";
    let seen = bridge.ask("q", "query_eql", query).to_string();
    assert!(seen.contains(&session) && seen.contains("streaming"), "{seen}");
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the turn did not end", || daemon.at_work().is_empty());
    let messages = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\""), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
    assert_eq!(daemon.pid(), pid);
}

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
    wait_until("the command did not begin", || daemon.file("began").exists());
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
fn each_editor_begins_with_a_session_of_its_own() {
    let daemon = Daemon::calling(&[&until("go")]);
    let (mut one, mut other) = (daemon.setup.interactor(), daemon.setup.interactor());
    let (first, second) = (session_of(&mut one), session_of(&mut other));
    assert_ne!(first, second);
    assert_eq!(daemon.engines().len(), 1, "{:?}", daemon.engines());
    // An empty session goes with its editor.
    one.close_input();
    assert!(one.wait().success());
    let open = |bridge: &mut Bridge| {
        let listed = bridge.ask("l", "list_sessions", "{}").to_string();
        listed.contains(&first)
    };
    let deadline = std::time::Instant::now() + support::PATIENCE;
    while open(&mut other) {
        assert!(std::time::Instant::now() < deadline, "the empty session stays");
    }
}

#[test]
fn commands_have_the_variables_of_the_newest_editor() {
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
fn stop_refuses_while_a_turn_runs_unless_now() {
    let mut daemon = Daemon::calling(&[&until("never")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    wait_until("the command did not begin", || daemon.file("began").exists());
    let refused = daemon.control(&["stop"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains(&session), "{refused:?}");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    // The editor learns how its turn ends, and that its process can be started again.
    let ended = bridge.event("turn/ended");
    assert_eq!(data(&ended, "outcome"), "aborted", "{ended}");
    assert_eq!(bridge.wait().code(), Some(75));
}

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
fn editors_that_start_at_once_share_a_daemon() {
    // Without a script, which each start would write anew.
    let daemon = Daemon::new(Setup::new());
    let mut bridges: Vec<_> = (0..8).map(|_| daemon.setup.serve()).collect();
    for bridge in &mut bridges {
        bridge.handshake();
    }
    assert_eq!(daemon.clients(), 8);
    assert_eq!(daemon.engines().len(), 1);
}

#[test]
fn new_daemon_takes_over_and_the_old_one_ends_its_work() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    prompt(&mut old);
    let first = daemon.pid();
    wait_until("the command did not begin", || daemon.file("began").exists());
    assert!(daemon.control(&["restart"]).status.success());
    wait_until("the old one keeps its place", || daemon.status().is_none());
    let mut new = daemon.setup.interactor();
    assert_eq!(code(&new.ask("ping", "ping", "{}")), "");
    assert_ne!(daemon.pid(), first);
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(data(&old.event("turn/ended"), "outcome"), "completed");
    assert_eq!(old.wait().code(), Some(75));
}

#[test]
fn daemon_without_client_and_work_ends() {
    let daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:idle-exit-ms 1}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    assert!(daemon.status().is_some());
    bridge.kill();
    // The question waits, and so does the daemon.
    wait_until("the editor is still there", || daemon.clients() == 0);
    let session = at(&daemon.at_work()[0], &["session"]).and_then(Value::as_str).unwrap().to_owned();
    let mut bridge = daemon.editor_at(&session);
    bridge.ask("a", "abort", "{}");
    bridge.event("turn/ended");
    bridge.close_input();
    assert!(bridge.wait().success());
    wait_until("the daemon does not end", || daemon.status().is_none());
}

#[test]
fn end_of_serve_ends_its_connection_though_the_pipes_stay() {
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    assert_eq!(daemon.clients(), 1);
    // The editor's ends of the pipes are open on.
    signal(bridge.pid().into(), "-TERM");
    wait_until("the connection stays", || daemon.clients() == 0);
    while bridge.line_or_end().is_some() {}
}

#[test]
fn program_of_the_daemon_can_not_ask_it() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let mut daemon =
        Daemon::calling(&[&format!("{program} --state-dir {state} daemon stop --now; echo $? > said")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not connect"), "{result}");
    assert_eq!(std::fs::read_to_string(daemon.file("said")).unwrap(), "1\n");
    bridge.event("turn/ended");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
}

#[test]
fn serve_without_a_daemon_is_as_before() {
    let mut daemon = Daemon::calling(&["true"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:daemon {:use :never}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    assert!(!bridge.handshake().to_string().contains("outlives-clients"));
    assert!(daemon.status().is_none());
    bridge.close_input();
    assert!(bridge.wait().success());
    std::fs::remove_file(folder.join("config.edn")).unwrap();
    daemon.change(|setup| setup.env("EDN_BRIDGE_DAEMON", "never"));
    daemon.setup.interactor();
    assert!(daemon.status().is_none());
}

#[test]
fn engine_that_ends_leaves_nothing_in_the_daemon() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut stays = daemon.setup.interactor();
    let pid = daemon.pid();
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
    let sockets = |daemon: &Daemon| {
        let names = std::fs::read_dir(daemon.setup.state().join("run")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".sock")).count()
    };
    // Each of these has an engine of its own, because it has other options.
    daemon.change(|setup| setup.arg("--durability").arg("relaxed"));
    let round = |daemon: &Daemon| {
        let mut bridge = daemon.setup.interactor();
        bridge.close_input();
        assert!(bridge.wait().success());
        wait_until("the engine stays", || daemon.engines().len() == 1);
    };
    round(&daemon);
    let (tasks, files) = (count("task"), count("fd"));
    for _ in 0..20 {
        round(&daemon);
    }
    wait_until("threads or descriptors are left", || count("task") <= tasks + 4 && count("fd") <= files + 4);
    wait_until("sockets are left", || sockets(&daemon) == 2);
    assert_eq!(code(&stays.ask("ping", "ping", "{}")), "");
}

#[test]
fn engine_that_hangs_at_its_start_stops_nobody_else() {
    let mut daemon = Daemon::calling(&["true"]);
    let mut other = daemon.setup.interactor();
    let path = daemon.setup.dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    daemon.change(|mut setup| {
        setup.script = None;
        setup.arg("--script").arg(path.to_str().unwrap())
    });
    // Nobody writes the script.
    let mut hangs = daemon.setup.serve();
    assert_eq!(daemon.clients(), 1);
    assert_eq!(code(&other.ask("q", "query_eql", "{:query \"[:psi.process/at-work]\"}")), "");
    assert!(daemon.control(&["stop", "--now"]).status.success());
    assert_eq!(other.wait().code(), Some(75));
    assert_eq!(hangs.wait().code(), Some(75));
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
fn grace_bounds_a_question_that_nobody_sees() {
    let daemon = Daemon::calling(&[&until("go"), "echo ran >> ran"]);
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:interaction {:orphan-grace-ms 1}}").unwrap();
    let mut bridge = daemon.setup.interactor();
    prompt(&mut bridge);
    let first = bridge.event("interaction/requested");
    approve(&mut bridge, &first);
    wait_until("the command did not begin", || daemon.file("began").exists());
    bridge.kill();
    wait_until("the editor is still there", || daemon.clients() == 0);
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the question waits on", || daemon.at_work().is_empty());
    assert!(!daemon.file("ran").exists());
}

#[test]
fn program_of_a_session_starts_no_daemon() {
    let program = env!("CARGO_BIN_EXE_edn-bridge");
    let state = "\"$(dirname \"$PWD\")\"/state";
    let daemon = Daemon::calling(&[&format!("{program} --state-dir {state} daemon start; echo $? > said")]);
    let mut command = daemon.setup.command();
    let mut bridge = Bridge::start(command.arg("--yolo").args(["serve", "--no-daemon"]));
    bridge.handshake();
    bridge.ask("all", "subscribe", "{}");
    prompt(&mut bridge);
    let result = bridge.event("tool/result");
    assert!(result.to_string().contains("may not start the daemon"), "{result}");
    assert!(daemon.status().is_none());
}

#[test]
fn daemon_that_can_not_start_says_why() {
    let daemon = Daemon::calling(&["true"]);
    std::fs::create_dir_all(daemon.setup.state().join("run")).unwrap();
    // There can be no socket where a folder is.
    std::fs::create_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
    let output = daemon.setup.command().arg("serve").stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the daemon did not start"), "{said}");
    std::fs::remove_dir(daemon.setup.state().join("run/daemon.sock")).unwrap();
}

#[test]
fn long_path_of_the_state_folder_is_no_hindrance() {
    let (mut setup, outer) = (Setup::new(), tempfile::tempdir().unwrap());
    let long = outer.path().join("x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    setup.dir = std::sync::Arc::new(tempfile::tempdir_in(&long).unwrap());
    std::fs::create_dir(setup.project()).unwrap();
    let daemon = Daemon::new(setup);
    let mut bridge = daemon.setup.serve();
    bridge.handshake();
    assert_eq!(daemon.clients(), 1);
}

/// Kills editors in the middle of turns; `EDN_BRIDGE_EDITOR_KILLS` sets how many.
#[test]
fn no_turn_notices_that_its_editor_is_killed() {
    let kills: usize =
        std::env::var("EDN_BRIDGE_EDITOR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let script =
        "{:turns [{:steps [{:deltas 300 :of \"x\"} {:sleep-ms 20} {:deltas 300 :of \"y\"}]}] :then :cycle}";
    let daemon = Daemon::new(Setup::new().script(script));
    let mut bridge = daemon.setup.interactor();
    let session = session_of(&mut bridge);
    let pid = daemon.pid();
    for kill in 0..kills {
        let params = format!("{{:message \"{kill}\" :idempotency-key \"k{kill}\"}}");
        assert_eq!(code(&bridge.ask("p", "prompt", &params)), "");
        // At another point each time.
        for _ in 0..(kill * 37) % 500 {
            bridge.until(|frame| is_event(frame, "assistant/delta"));
        }
        bridge.kill();
        bridge = daemon.editor_at(&session);
        wait_until("the turn does not end", || daemon.at_work().is_empty());
        // The same key again changes nothing.
        assert_eq!(code(&bridge.ask("p", "prompt", &params)), "");
    }
    let mut messages: Vec<Owned> = Vec::new();
    while messages.len() < kills * 2 {
        let before = messages.first().and_then(|first| first.get("id")).map(|id| format!(":before {id}"));
        let page = bridge.ask("m", "get_messages", &format!("{{{}}}", before.unwrap_or_default()));
        let page = at(&page, &["data", "messages"]).and_then(Value::as_slice).unwrap();
        assert!(!page.is_empty(), "{} messages", messages.len());
        messages.splice(0..0, page.iter().cloned());
    }
    assert_eq!(messages.len(), kills * 2, "{messages:?}");
    for (place, message) in messages.iter().enumerate() {
        let text = message.to_string();
        let expected = match place % 2 {
            0 => format!("\"{}\"", place / 2),
            _ => format!("{}{}", "x".repeat(300), "y".repeat(300)),
        };
        assert!(text.contains(&expected), "{place}: {text}");
    }
    assert_eq!(daemon.pid(), pid);
}
