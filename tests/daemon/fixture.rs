//! A setup whose editors use a daemon, and what the tests do with it.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use edn_bridge::edn;
use edn_bridge::value::{Owned, Value};

use crate::support::{Bridge, PATIENCE, Setup, at, code, data, has_content, is_event, wait_until};

/// A setup whose editors use a daemon, which ends with it.
pub struct Daemon {
    pub setup: Setup,
}

impl Daemon {
    pub fn new(setup: Setup) -> Self {
        Self { setup: setup.env("EDN_BRIDGE_DAEMON", "auto") }
    }

    /// With a model that calls `bash` with each of the commands, and then says `end`.
    pub fn calling(commands: &[&str]) -> Self {
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
    pub fn then_says(&mut self, script: &str) {
        self.change(|setup| setup.script(script));
        std::fs::write(self.setup.dir.path().join("script.edn"), script).unwrap();
    }

    /// Replaces the daemon, and waits until the old one knows of it: a session at rest goes over at once.
    pub fn replace(&self) {
        let mut idle = self.setup.interactor();
        assert!(self.control(&["restart"]).status.success());
        assert_eq!(idle.wait().code(), Some(75));
    }

    /// Kills the daemon, as a failure would, and waits for the end of the editor.
    pub fn kill(&self, mut editor: Bridge) {
        signal(self.pid(), "-KILL");
        assert_eq!(editor.wait().code(), Some(75));
    }

    /// The kinds of the questions that wait in a session.
    pub fn asks(&self, session: &str) -> Option<String> {
        let of = |work: &&Owned| at(work, &["session"]).and_then(Value::as_str) == Some(session);
        let work = self.at_work().iter().find(of).cloned()?;
        at(&work, &["asks"]).and_then(Value::as_str).map(str::to_owned)
    }

    /// How many sessions are noted as at work on disk.
    pub fn notes(&self) -> usize {
        std::fs::read_dir(self.setup.state().join("at-work")).into_iter().flatten().count()
    }

    pub fn change(&mut self, with: impl FnOnce(Setup) -> Setup) {
        self.setup = with(std::mem::replace(&mut self.setup, Setup::new()));
    }

    pub fn control(&self, words: &[&str]) -> Output {
        // Not in the project, which a test may have removed.
        let mut command = Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
        self.setup.folders(&mut command);
        command.arg("--state-dir").arg(self.setup.state()).arg("daemon").args(words);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("it hangs: daemon {words:?}");
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        child.wait_with_output().unwrap()
    }

    /// Its status; `None` if it does not run.
    pub fn status(&self) -> Option<Owned> {
        let output = self.control(&["status", "--format", "edn"]);
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| edn::read_one(text.as_bytes()).unwrap().into_owned())
    }

    pub fn pid(&self) -> i64 {
        self.status().and_then(|status| status.get("pid").and_then(Value::as_i64)).expect("a daemon runs")
    }

    pub fn engines(&self) -> Vec<Owned> {
        let status = self.status();
        let engines = status.as_ref().and_then(|status| status.get("engines")).and_then(Value::as_slice);
        engines.map(<[_]>::to_vec).unwrap_or_default()
    }

    /// The clients of all engines.
    pub fn clients(&self) -> i64 {
        self.engines().iter().filter_map(|engine| engine.get("clients").and_then(Value::as_i64)).sum()
    }

    /// The sessions that work or wait.
    pub fn at_work(&self) -> Vec<Owned> {
        let engines = self.engines();
        engines
            .iter()
            .filter_map(|engine| engine.get("at-work").and_then(Value::as_slice))
            .flatten()
            .cloned()
            .collect()
    }

    /// Another editor, which goes to a session.
    pub fn editor_at(&self, session: &str) -> Bridge {
        let mut bridge = self.setup.interactor();
        let entered = bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
        assert_eq!(code(&entered), "", "{entered}");
        bridge
    }

    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.setup.project().join(name)
    }

    /// Whether a command has written to a file of the project.
    pub fn wrote(&self, name: &str) -> bool {
        has_content(&self.file(name))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.setup.state().join("daemon.log")).unwrap_or_default();
            eprintln!("{}{log}", String::from_utf8_lossy(&self.control(&["status"]).stdout));
        }
        if std::thread::panicking() {
            self.control(&["stop", "--now"]);
            return;
        }
        // On a busy machine it may give up waiting, and says so.
        wait_until("the daemon stays", || {
            let told = self.control(&["stop", "--now"]);
            let has_ended = self.status().is_none();
            assert!(has_ended || !told.status.success(), "stop waits for the end");
            has_ended
        });
    }
}

/// The words of a model that calls nothing.
pub const END: &str = "{:turns [{:steps [{:delta \"end\"}]}]}";

/// A setup with the workflow `w` of these stages.
pub fn with_workflow(setup: Setup, stages: &str) -> Setup {
    let folder = setup.dir.path().join("config/edn-bridge/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("w.edn"), format!("{{:stages [{stages}]}}")).unwrap();
    setup
}

/// How the run of the workflow has ended, in words for the person.
pub fn end_of_run(bridge: &mut Bridge) -> String {
    let ended = bridge.until(|frame| {
        is_event(frame, "ui/notification") && data(frame, "message").starts_with("Workflow w ended")
    });
    data(&ended, "message").to_owned()
}

/// A command that ends once there is a file.
pub fn until(file: &str) -> String {
    format!("echo began >> began; until [ -e {file} ]; do sleep 0.01; done; echo done >> done")
}

pub fn prompt(bridge: &mut Bridge) -> String {
    let accepted = bridge.ask("p", "prompt", "{:message \"go\"}");
    assert_eq!(code(&accepted), "", "{accepted}");
    session_of(bridge)
}

pub fn session_of(bridge: &mut Bridge) -> String {
    let listed = bridge.ask("sessions", "list_sessions", "{}");
    data(&listed, "active-session-id").to_owned()
}

pub fn approve(bridge: &mut Bridge, question: &Owned) {
    let id = data(question, "interaction-id");
    let params = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    assert_eq!(code(&bridge.ask("r", "interaction_respond", &params)), "");
}

pub fn signal(pid: i64, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// Whether a process runs.
pub fn runs(pid: i64) -> bool {
    // Not its command line, which is empty for a moment while it executes another program.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// A command of which each run says which value a variable has.
pub const TELL: &str = "echo \"$BRIDGE_TEST\" >> told";

/// A model that has a variable told in each turn.
pub fn telling() -> String {
    format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {TELL:?}}}}}}}]}}
                  {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"
    )
}
