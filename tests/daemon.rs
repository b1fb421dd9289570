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

    /// The model's words in engines that start from now on.
    fn then_says(&mut self, script: &str) {
        self.change(|setup| setup.script(script));
        std::fs::write(self.setup.dir.path().join("script.edn"), script).unwrap();
    }

    /// Kills the daemon, as a failure would, and waits for the end of the editor.
    fn kill(&self, mut editor: Bridge) {
        signal(self.pid(), "-KILL");
        assert_eq!(editor.wait().code(), Some(75));
    }

    /// The kinds of the questions that wait in a session.
    fn asks(&self, session: &str) -> Option<String> {
        let of = |work: &&Owned| at(work, &["session"]).and_then(Value::as_str) == Some(session);
        let work = self.at_work().iter().find(of).cloned()?;
        at(&work, &["asks"]).and_then(Value::as_str).map(str::to_owned)
    }

    /// How many sessions are noted as at work on disk.
    fn notes(&self) -> usize {
        std::fs::read_dir(self.setup.state().join("at-work")).into_iter().flatten().count()
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

/// The words of a model that calls nothing.
const END: &str = "{:turns [{:steps [{:delta \"end\"}]}]}";

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
    wait_until("the command did not begin", || daemon.file("began").exists());
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
fn session_at_work_at_two_kills_is_not_opened_by_itself() {
    let mut daemon = Daemon::calling(&["echo ran >> ran"]);
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    bridge.event("interaction/requested");
    daemon.kill(bridge);
    daemon.then_says(END);
    assert!(daemon.control(&["start"]).status.success());
    wait_until("nothing is asked", || daemon.asks(&session).is_some());
    signal(daemon.pid(), "-KILL");
    wait_until("the daemon is there", || daemon.status().is_none());
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

#[test]
fn turn_goes_on_in_a_new_daemon_after_its_running_tool() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "of the editor"));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let first = daemon.pid();
    wait_until("the command did not begin", || daemon.file("began").exists());
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
    // Nobody is there, and the turn goes on with the variables of the editor that began it.
    wait_until("the turn did not go on", || daemon.file("told").exists());
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
}

#[test]
fn turn_goes_on_though_its_new_daemon_is_killed_over_it() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.file("began").exists());
    daemon.then_says(END);
    let mut idle = daemon.setup.interactor();
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
    let second = daemon.pid();
    // It takes the connection, and says nothing.
    signal(second, "-STOP");
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    assert_eq!(daemon.notes(), 1);
    signal(second, "-KILL");
    wait_until("the daemon is there", || daemon.status().is_none());
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
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.file("began").exists());
    // The engine of the next daemon waits for its script.
    let (script, pipe) = (daemon.setup.dir.path().join("script.edn"), daemon.setup.dir.path().join("pipe"));
    std::fs::remove_file(&script).unwrap();
    assert!(Command::new("mkfifo").arg(&script).status().unwrap().success());
    let mut idle = daemon.setup.interactor();
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
    let second = daemon.pid();
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("nobody takes it over", || {
        daemon.at_work().iter().any(|work| at(work, &["session"]).and_then(Value::as_str) == Some(&session))
    });
    assert!(daemon.control(&["restart"]).status.success());
    assert_ne!(daemon.pid(), second);
    // Now that engine goes on, and those of the newest daemon start at once.
    std::fs::rename(&script, &pipe).unwrap();
    std::fs::write(&script, END).unwrap();
    std::fs::write(&pipe, END).unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("the turn did not go on", || daemon.notes() == 0 && daemon.at_work().is_empty());
    let mut new = daemon.editor_at(&session);
    let messages = new.ask("m", "get_messages", "{}").to_string();
    assert!(messages.contains("\"end\"") && !messages.contains("may have run"), "{messages}");
    assert!(!messages.contains("aborted"), "{messages}");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
}

#[test]
fn question_goes_over_to_a_new_daemon_beside_a_running_tool() {
    let two = format!(
        "{{:turns [{{:steps [{{:tool-call {{:id \"a\" :name \"bash\" :arguments {{:command \"echo asked >> asked\"}}}}}}
                            {{:tool-call {{:id \"b\" :name \"bash\" :arguments {{:command {:?}}}}}}}]}}]}}",
        until("go")
    );
    let mut daemon = Daemon::new(Setup::new().script(&two));
    let folder = daemon.setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let rule = "{:permissions {:rules [{:tool \"bash\" :command \"echo began\" :decision :allow}]}}";
    std::fs::write(folder.join("config.edn"), rule).unwrap();
    let mut old = daemon.setup.interactor();
    let session = prompt(&mut old);
    let mut question = old.event("interaction/requested");
    if !question.to_string().contains("asked >> asked") {
        // Each part of the command is judged, so that both are asked about.
        approve(&mut old, &question);
        question = old.event("interaction/requested");
    }
    daemon.then_says(END);
    let mut idle = daemon.setup.interactor();
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    wait_until("nothing is asked", || daemon.asks(&session).as_deref() == Some("approve"));
    let mut new = daemon.editor_at(&session);
    let again = new.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    approve(&mut new, &again);
    loop {
        let next =
            new.until(|frame| is_event(frame, "interaction/requested") || is_event(frame, "turn/ended"));
        if is_event(&next, "turn/ended") {
            break;
        }
        approve(&mut new, &next);
    }
    assert_eq!(std::fs::read_to_string(daemon.file("asked")).unwrap(), "asked\n");
    assert_eq!(std::fs::read_to_string(daemon.file("done")).unwrap(), "done\n");
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
    wait_until("the job did not begin", || daemon.file("began").exists());
    let mut idle = daemon.setup.interactor();
    daemon.then_says(END);
    assert!(daemon.control(&["restart"]).status.success());
    // A session that rests goes at once.
    assert_eq!(idle.wait().code(), Some(75));
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
    let folder = setup.dir.path().join("config/edn-bridge/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    let stages = format!(
        "{{:stages [{{:id :a :body \"x\" :assert [{{:command {:?}}}]}} {{:id :b :body \"y\" :assert [{{:command \"echo b >> b\"}}]}}]}}",
        until("go")
    );
    std::fs::write(folder.join("w.edn"), stages).unwrap();
    let daemon = Daemon::new(setup);
    let mut old = daemon.setup.interactor();
    let session = session_of(&mut old);
    old.ask("w", "command", "{:text \"/workflow w\"}");
    wait_until("the stage did not begin", || daemon.file("began").exists());
    let mut idle = daemon.setup.interactor();
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
    std::fs::write(daemon.file("go"), "").unwrap();
    assert_eq!(old.wait().code(), Some(75));
    assert!(!daemon.file("b").exists() || daemon.notes() < 2);
    wait_until("it did not go on", || daemon.file("b").exists());
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
    wait_until("the command did not begin", || daemon.file("began").exists());
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
    // An editor with other options gets an engine of its own.
    daemon.change(|mut setup| {
        setup.arguments.clear();
        setup
    });
    daemon.setup.interactor();
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
