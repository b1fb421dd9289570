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

/// Whether a process runs.
fn runs(pid: i64) -> bool {
    !std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty()
}

/// A command of which each run says which value a variable has.
const TELL: &str = "echo \"$BRIDGE_TEST\" >> told";

/// A model that has a variable told in each turn.
fn telling() -> String {
    format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {TELL:?}}}}}}}]}}
                  {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"
    )
}

#[test]
fn waiting_message_keeps_its_variables_over_a_restart() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo").env("BRIDGE_TEST", "canary-of-one"));
    let mut one = daemon.setup.interactor();
    let session = prompt(&mut one);
    wait_until("the command did not begin", || daemon.file("began").exists());
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "canary-of-two"));
    let mut two = daemon.editor_at(&session);
    assert_eq!(code(&two.ask("f", "follow_up", "{:message \"again\"}")), "");
    two.kill();
    // The newest editor is a third one.
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "three"));
    let mut idle = daemon.setup.interactor();
    daemon.then_says(&telling());
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
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
    wait_until("the command did not begin", || daemon.file("began").exists());
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
    // It has the variables of the editor that lets it go on, not of the newest one.
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
    wait_until("the job did not begin", || daemon.file("began").exists());
    let job: i64 = std::fs::read_to_string(daemon.file("job")).unwrap().trim().parse().unwrap();
    let mut idle = daemon.setup.interactor();
    daemon.then_says(END);
    assert!(daemon.control(&["restart"]).status.success());
    assert_eq!(idle.wait().code(), Some(75));
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

#[test]
fn replaced_daemon_takes_nothing_over() {
    use std::io::{Read as _, Write as _};
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut old = daemon.setup.interactor();
    let first = daemon.pid();
    let session = prompt(&mut old);
    wait_until("the command did not begin", || daemon.file("began").exists());
    daemon.then_says(END);
    assert!(daemon.control(&["restart"]).status.success());
    let socket = daemon.setup.state().join(format!("run/replaced-{first}.daemon.sock"));
    let ask = |line: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    };
    let given = "{:cwd \"/\" :provider nil :model nil :model-file nil :script nil :mode nil :config nil \
                 :durability \"relaxed\" :origins []}";
    let told = ask(&format!("{{:take-over {{:session {session:?} :given {given} :environment nil}}}}\n"));
    assert!(told.contains("the daemon has left its place"), "{told}");
    // An editor that came too late hears nothing, and tries again with the daemon that runs.
    let home = |name: &str| std::env::var(name).unwrap_or_default();
    let config = daemon.setup.dir.path().join("config");
    let homes = format!("{{:home {:?} :config {:?}}}", home("HOME"), config.to_str().unwrap());
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
    wait_until("the command did not begin", || daemon.file("began").exists());
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
    wait_until("the daemon is there", || daemon.status().is_none());
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

#[test]
fn files_of_a_dead_daemon_are_no_hindrance() {
    let daemon = Daemon::calling(&["true"]);
    let bridge = daemon.setup.interactor();
    let first = daemon.pid();
    daemon.kill(bridge);
    let run = daemon.setup.state().join("run");
    // Its socket and its lock are there. The lock names a process that lives: the number was used again.
    assert!(run.join("daemon.sock").exists());
    let lock = std::fs::read_to_string(run.join("daemon.lock")).unwrap();
    assert!(lock.contains(&first.to_string()), "{lock}");
    let own = lock.replace(&first.to_string(), &std::process::id().to_string());
    std::fs::write(run.join("daemon.lock"), own).unwrap();
    std::fs::write(run.join("daemon.start.lock"), "").unwrap();
    let mut bridge = daemon.setup.interactor();
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_ne!(daemon.pid(), first);
    assert_eq!(daemon.clients(), 1);
}

#[test]
fn editor_that_comes_back_gets_what_it_missed() {
    let mut daemon = Daemon::calling(&[&until("go")]);
    daemon.change(|setup| setup.arg("--yolo"));
    let mut bridge = daemon.setup.interactor();
    let session = prompt(&mut bridge);
    assert_eq!(code(&bridge.ask("f", "follow_up", "{:message \"later\"}")), "");
    wait_until("the command did not begin", || daemon.file("began").exists());
    let number = |frame: &Owned| at(frame, &["data", "offset"]).and_then(Value::as_i64).unwrap();
    let seen = bridge.event("session/entry");
    let entry = at(&seen, &["data", "entry", "id"]).and_then(Value::as_str).unwrap().to_owned();
    bridge.kill();
    // The turn and the message that waits go on while nobody is there.
    std::fs::write(daemon.file("go"), "").unwrap();
    wait_until("the turns did not end", || daemon.at_work().is_empty());
    let mut bridge = daemon.setup.interactor();
    let since = format!(
        "{{:topics [\"session/entry\" \"session/synced\"] :since {{:session-id {session:?} :offset {} \
         :entry-id {entry:?}}}}}",
        number(&seen)
    );
    let answer = bridge.ask("s", "subscribe", &since);
    let missed = at(&answer, &["data", "replaying"]).and_then(Value::as_i64).unwrap();
    let mut offset = number(&seen);
    let mut texts = String::new();
    for _ in 0..missed {
        let next = bridge.until(|frame| is_event(frame, "session/entry") && number(frame) > number(&seen));
        offset += 1;
        assert_eq!(number(&next), offset, "{next}");
        texts.push_str(&next.to_string());
    }
    assert_eq!(number(&bridge.event("session/synced")), offset);
    assert!(texts.contains("\"later\"") && texts.contains("\"end\""), "{texts}");
    assert_eq!(std::fs::read_to_string(daemon.file("began")).unwrap(), "began\nbegan\n");
}

#[test]
fn editor_that_sleeps_stops_no_turn() {
    use std::io::Write as _;
    // More than the outbox and the pipe hold.
    let (pieces, piece) = (384, "x".repeat(8 * 1024));
    let daemon = Daemon::new(
        Setup::new()
            .script(&format!("{{:turns [{{:steps [{{:deltas {pieces} :of {piece:?}}}]}}] :then :cycle}}"))
            .arg("--durability")
            .arg("relaxed"),
    );
    let mut command = daemon.setup.command();
    let mut editor = command
        .arg("serve")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = editor.stdin.take().unwrap();
    let request =
        |op: &str, params: &str| format!("{{:id {op:?} :kind :request :op {op:?} :params {params}}}\n");
    let client = edn_bridge::client::frame::client_info("t", "1", &["interactor"]);
    let mut asked = request("handshake", &client) + &request("subscribe", "{}");
    asked += &request("prompt", "{:message \"go\"}");
    for number in 0..4 {
        asked += &request("follow_up", &format!("{{:message \"{number}\"}}"));
    }
    // It reads nothing of what it is told.
    stdin.write_all(asked.as_bytes()).unwrap();
    let session = || at(daemon.at_work().first()?, &["session"]).and_then(Value::as_str).map(str::to_owned);
    let mut known = None;
    wait_until("nothing runs", || session().is_some());
    known = known.or_else(session);
    wait_until("the turns do not go on", || daemon.at_work().is_empty());
    assert_eq!(daemon.clients(), 1, "it is still there");
    let mut other = daemon.editor_at(&known.unwrap());
    let state = other.ask("state", "get_state", "{}").to_string();
    assert!(state.contains(":pending-message-count 0"), "{state}");
    editor.kill().unwrap();
    editor.wait().unwrap();
}

#[test]
fn question_inside_a_stage_ends_and_its_stage_resumes() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:delta \"said\"}]}
                  {:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo ran >> ran\"}}}]}
                  {:steps [{:delta \"said\"}]}] :then :cycle}",
    );
    let folder = setup.dir.path().join("config/edn-bridge/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    let stages = "{:stages [{:id :a :body \"x\" :assert [{:command \"echo a >> a\"}]}
                            {:id :b :body \"y\" :tools [\"read\"] :assert [{:command \"test -e ran\"}]}]}";
    std::fs::write(folder.join("w.edn"), stages).unwrap();
    let mut daemon = Daemon::new(setup);
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
    let ended = bridge.until(|frame| {
        is_event(frame, "ui/notification") && data(frame, "message").starts_with("Workflow w ended")
    });
    assert_eq!(data(&ended, "message"), "Workflow w ended: done.");
    // What was done before is not done again.
    assert_eq!(std::fs::read_to_string(daemon.file("a")).unwrap(), "a\n");
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "ran\n");
}

/// The most memory that a process had, in KiB.
fn peak(pid: i64) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn long_lines_of_many_clients_take_bounded_memory() {
    use std::io::{Read as _, Write as _};
    let daemon = Daemon::calling(&["true"]);
    let mut bridge = daemon.setup.interactor();
    let (pid, socket) = (daemon.pid(), daemon.setup.state().join("run/daemon.sock"));
    let before = peak(pid);
    // A value for each two bytes: the most that a line can ask for.
    let mut line = vec![b'['];
    line.extend(b"1 ".repeat((3 << 19) - 2));
    line.extend(b"]\n");
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let (socket, line) = (socket.clone(), line.clone());
            std::thread::spawn(move || {
                let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
                // Whoever is refused is told so before its line is over.
                let _ = stream.write_all(&line);
                let mut told = String::new();
                let _ = stream.read_to_string(&mut told);
                told
            })
        })
        .collect();
    for client in clients {
        let told = client.join().unwrap();
        assert!(told.is_empty() || told.contains(":refused"), "{told}");
    }
    let after = peak(pid);
    // The lines together, and the values of one of them.
    assert!(after < before + 64 * 1024 + 160 * 1024, "{before} KiB, then {after} KiB");
    assert_eq!(code(&bridge.ask("ping", "ping", "{}")), "");
    assert_eq!(daemon.pid(), pid);
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
    let mut bridges: Vec<_> = (0..50).map(|_| daemon.setup.serve()).collect();
    for bridge in &mut bridges {
        bridge.handshake();
    }
    assert_eq!(daemon.clients(), 50);
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
    let (session, first) = (prompt(&mut old), daemon.pid());
    wait_until("the command did not begin", || daemon.file("began").exists());
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
        // At another point each time. A busy machine merges deltas, so that the characters count.
        let mut characters = 0;
        while characters < (kill * 37) % 500 {
            characters += data(&bridge.event("assistant/delta"), "text").len();
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
