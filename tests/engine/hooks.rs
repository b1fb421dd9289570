//! Hooks over the real wire: guards, transforms and observers, their failures, trust, and reloading the
//! configuration.

use crate::support;

use std::path::Path;

use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, data, end_of_turn, is_event, kind, text};

const LOOK: &str = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "echo one > one"}}}
                                        {:tool-call {:id "b" :name "bash" :arguments {:command "echo two > two"}}}]}
                               {:steps [{:delta "end"}]}]}"#;
const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}";

/// A bridge with these hooks in the user's configuration, each with a script for `bash -c`.
fn hooked(script: &str, hooks: &[(&str, &str)]) -> Setup {
    with_hooks(Setup::new().script(script).arg("--yolo"), hooks)
}

fn with_hooks(setup: Setup, hooks: &[(&str, &str)]) -> Setup {
    let config = setup.dir.path().join("config.edn");
    configure(&config, hooks);
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

/// A bridge with these hooks whose client answers questions, in a turn that calls `bash` with a command.
fn asked_about(command: &str, hooks: &[(&str, &str)]) -> (Setup, Bridge) {
    let call = format!("{{:tool-call {{:id \"a\" :name \"bash\" :arguments {{:command {command:?}}}}}}}");
    let script = format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}");
    let setup = with_hooks(Setup::new().script(&script), hooks);
    let mut bridge = setup.serve();
    let hello =
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}";
    bridge.ask("h", "handshake", hello);
    bridge.ask("all", "subscribe", "{}");
    say(&mut bridge, "go");
    (setup, bridge)
}

fn configure(config: &Path, hooks: &[(&str, &str)]) {
    let hooks: String = hooks
        .iter()
        .map(|(head, script)| format!("{{{head} :command [\"bash\" \"-c\" {script:?}]}}\n"))
        .collect();
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, format!("{{:hooks [{hooks}]}}")).unwrap();
}

fn say(bridge: &mut Bridge, message: &str) -> Owned {
    bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"))
}

/// The turn's last message, and the state that says that it is over.
fn end(bridge: &mut Bridge) -> Owned {
    let last = end_of_turn(bridge);
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    last
}

/// What hooks came to, as `hook outcome`.
fn outcomes(bridge: &Bridge) -> Vec<String> {
    let frames = bridge.transcript.iter().filter_map(|line| line.strip_prefix("< "));
    let frames = frames.map(|line| edn_bridge::edn::read_one(line.as_bytes()).unwrap().into_owned());
    frames
        .filter(|frame| is_event(frame, "turn/stage") && !data(frame, "hook").is_empty())
        .map(|frame| format!("{} {}", data(&frame, "hook"), data(&frame, "outcome")))
        .collect()
}

#[test]
fn a_guard_ends_one_call_and_its_sibling_runs() {
    let setup = hooked(
        LOOK,
        &[(
            ":id \"no-two\" :stage :tool-call :point :pre :kind :guard :tools [\"bash\"]",
            "if grep -q 'echo two'; then echo '{:decision :deny :reason \"two is too many\"}'; else echo '{:decision :allow}'; fi",
        )],
    );
    let mut bridge = setup.ready();
    say(&mut bridge, "go");
    assert_eq!(data(&end(&mut bridge), "text"), "end");
    assert!(setup.project().join("one").exists() && !setup.project().join("two").exists());
    let results: Vec<&String> =
        bridge.transcript.iter().filter(|line| line.contains(":event \"tool/result\"")).collect();
    assert!(results[0].contains(":is-error false"), "{}", results[0]);
    assert!(
        results[1].contains("denied tool-call: two is too many") && results[1].contains(":is-error true")
    );
    let denied = bridge.transcript.iter().find(|line| line.contains(":outcome \"denied\"")).unwrap();
    assert!(denied.contains(":tool-id \"b\"") && denied.contains(":reason \"two is too many\""), "{denied}");
    // The model is told too: what it was sent is in the journal.
    let told = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(told.contains("two is too many"), "{told}");
}

#[test]
fn a_guard_at_another_stage_ends_the_turn() {
    for stage in ["receive-input", "compose-request", "send-request", "stream-response", "render"] {
        let setup = hooked(
            ECHO,
            &[
                (
                    &format!(":id \"first\" :stage :{stage} :point :pre :kind :guard"),
                    "echo '{:decision :deny :reason \"not today\"}'",
                ),
                (
                    &format!(":id \"second\" :stage :{stage} :point :pre :kind :guard"),
                    "echo '{:decision :allow}'",
                ),
                (&format!(":id \"after\" :stage :{stage} :point :post :kind :observer"), "true"),
            ],
        );
        let mut bridge = setup.ready();
        say(&mut bridge, "secret plan");
        let last = end(&mut bridge);
        assert_eq!(data(&last, "stop-reason"), "error", "{stage}");
        let error = data(&last, "error-message");
        assert_eq!(error, format!("The hook \"first\" denied {stage}: not today"));
        // The first deny ends the vote, the body did not run, and nothing stands after it.
        assert_eq!(outcomes(&bridge), ["first denied"], "{stage}");
        let passed =
            format!(":point \"pre\" :session-id \"{}\" :stage \"{stage}\"", data(&last, "session-id"));
        assert!(!bridge.transcript.iter().any(|line| line.contains(&passed) && !line.contains(":hook")));
        assert_eq!(kind(&say(&mut bridge, "again")), "response", "the session goes on");
    }
}

#[test]
fn guard_judges_message_that_is_retried() {
    let guard = "grep -q ':message \"secret plan\"' && echo '{:decision :deny :reason \"not today\"}' \
                 || echo '{:decision :allow}'";
    let setup = hooked(ECHO, &[(":id \"no\" :stage :receive-input :point :pre :kind :guard", guard)]);
    let mut bridge = setup.ready();
    say(&mut bridge, "secret plan");
    end(&mut bridge);
    assert_eq!(kind(&bridge.ask("r", "retry", "{}")), "response");
    assert_eq!(data(&end(&mut bridge), "error-message"), "The hook \"no\" denied receive-input: not today");
    assert_eq!(outcomes(&bridge), ["no denied", "no denied"]);
}

#[test]
fn transforms_rewrite_in_their_order() {
    let setup = hooked(
        ECHO,
        &[
            (
                ":id \"one\" :stage :receive-input :point :pre :kind :transform",
                "grep -q ':message \"hello\"' && echo '{:payload {:message \"hello, one\"}}'",
            ),
            (
                ":id \"two\" :stage :receive-input :point :pre :kind :transform",
                "grep -q ':message \"hello, one\"' && echo '{:payload {:message \"hello, one, two\"}}'",
            ),
            (":id \"same\" :stage :receive-input :point :pre :kind :transform", "echo '{}'"),
            (
                ":id \"last\" :stage :render :point :pre :kind :transform",
                "grep -q 'hello, one, two' && echo '{:payload {:text \"shown\"}}'",
            ),
            (":id \"sees\" :stage :render :point :post :kind :observer", "cat > seen"),
        ],
    );
    let mut bridge = setup.ready();
    say(&mut bridge, "hello");
    assert_eq!(data(&end(&mut bridge), "text"), "shown");
    assert_eq!(
        outcomes(&bridge),
        ["one rewritten", "two rewritten", "same unchanged", "last rewritten", "sees observed"]
    );
    let seen = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(seen.contains(":payload {:text \"shown\"}") && seen.contains(":point :post"), "{seen}");
    // What the user said stays as it was said; the model was sent something else.
    let told = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(told.contains("\"hello\"") && told.contains("\"shown\"") && !told.contains("one, two"), "{told}");
}

#[test]
fn observers_are_reported_in_their_order() {
    // The second ends first: the first waits for what it writes.
    let setup = hooked(
        ECHO,
        &[
            (
                ":id \"late\" :stage :render :point :post :kind :observer",
                "while [ ! -e early ]; do sleep 0.01; done",
            ),
            (":id \"early\" :stage :render :point :post :kind :observer", "touch early"),
        ],
    );
    let mut bridge = setup.ready();
    say(&mut bridge, "hello");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["late observed", "early observed"]);
}

#[test]
fn four_observers_run_at_once() {
    // Each waits until four are there, and then looks for a fifth.
    let script = "mkdir -p in; touch in/$$; \
                  while [ ! -e go ]; do [ $(ls in | wc -l) -lt 4 ] || touch go; sleep 0.01; done; \
                  for look in 1 2 3 4 5 6 7 8 9; do ls in | wc -l >> counts; sleep 0.02; done; rm in/$$";
    let heads: Vec<String> =
        (0..6).map(|n| format!(":id \"h{n}\" :stage :render :point :post :kind :observer")).collect();
    let hooks: Vec<(&str, &str)> = heads.iter().map(|head| (head.as_str(), script)).collect();
    let setup = hooked(ECHO, &hooks);
    let mut bridge = setup.ready();
    say(&mut bridge, "hello");
    end(&mut bridge);
    let counts = std::fs::read_to_string(setup.project().join("counts")).unwrap();
    assert_eq!(counts.lines().map(|count| count.trim().parse::<u32>().unwrap()).max(), Some(4), "{counts}");
}

#[test]
fn hooks_of_a_model_call_run_for_a_compaction() {
    let only = |answer: &str| {
        format!("if grep -q ':for \"compaction\"'; then echo '{answer}'; else echo '{{}}'; fi")
    };
    let deny = "if grep -q ':for \"compaction\"' && [ -e deny ]; then echo '{:decision :deny :reason \"keep it\"}'; \
                else echo '{:decision :allow}'; fi";
    let rewrite = only("{:payload {:text \"rewritten\"}}");
    let setup = hooked(
        ECHO,
        &[
            (":id \"no\" :stage :send-request :point :pre :kind :guard", deny),
            (":id \"text\" :stage :stream-response :point :post :kind :transform", &rewrite),
        ],
    );
    let mut bridge = setup.ready();
    for message in ["one", "two"] {
        say(&mut bridge, message);
        end(&mut bridge);
    }
    std::fs::write(setup.project().join("deny"), "").unwrap();
    let refused = bridge.ask("c", "compact", "{}");
    assert_eq!(code(&refused), "runtime/failed");
    assert!(refused.to_string().contains("keep it"), "{refused}");
    let ended = bridge.event("compaction/ended");
    assert_eq!(data(&ended, "outcome"), "failed");
    std::fs::remove_file(setup.project().join("deny")).unwrap();
    assert_eq!(data(&bridge.ask("c2", "compact", "{}"), "summary"), "rewritten");
}

#[test]
fn a_calls_arguments_are_rewritten_before_anyone_is_asked() {
    let (_setup, mut bridge) = asked_about(
        "rm x",
        &[
            (
                ":id \"safer\" :stage :tool-call :point :pre :kind :transform",
                "grep -q 'rm x' && echo '{:payload {:arguments {:command \"echo kept\"}}}' || echo '{}'",
            ),
            (
                ":id \"louder\" :stage :tool-call :point :post :kind :transform",
                "grep -q 'kept' && echo '{:payload {:result \"KEPT\"}}'",
            ),
        ],
    );
    let question = bridge.event("interaction/requested");
    assert_eq!(at(&question, &["data", "payload", "command"]).unwrap().as_str(), Some("echo kept"));
    let answer = format!(
        "{{:interaction-id {:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}",
        data(&question, "interaction-id")
    );
    bridge.ask("r", "interaction_respond", &answer);
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "KEPT");
    end(&mut bridge);
}

#[test]
fn guard_denies_call_before_a_person_is_asked() {
    let deny = "echo x >> votes; echo '{:decision :deny :reason \"never\"}'";
    let guard = ":id \"no\" :stage :tool-call :point :pre :kind :guard :tools [\"bash\"]";
    let (_setup, mut bridge) = asked_about("rm x", &[(guard, deny)]);
    let first =
        bridge.until(|frame| is_event(frame, "interaction/requested") || is_event(frame, "tool/result"));
    assert!(is_event(&first, "tool/result"), "{first}");
    assert!(data(&first, "result-text").contains("never"));
    end(&mut bridge);
}

#[test]
fn guard_votes_once_on_a_call_that_is_asked_about() {
    let allow = "echo x >> votes; echo '{:decision :allow}'";
    let guard = ":id \"yes\" :stage :tool-call :point :pre :kind :guard :tools [\"bash\"]";
    let (_setup, mut bridge) = asked_about("cat votes", &[(guard, allow)]);
    let question = bridge.event("interaction/requested");
    let answer = format!(
        "{{:interaction-id {:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}",
        data(&question, "interaction-id")
    );
    bridge.ask("r", "interaction_respond", &answer);
    assert_eq!(data(&bridge.event("tool/result"), "result-text").trim(), "x");
    end(&mut bridge);
}

#[test]
fn the_tools_and_the_system_prompt_can_be_narrowed() {
    let setup = hooked(
        ECHO,
        &[
            (
                ":id \"narrow\" :stage :compose-request :point :post :kind :transform",
                "echo '{:payload {:system \"Be brief.\" :tools [\"read\"]}}'",
            ),
            (":id \"see\" :stage :compose-request :point :post :kind :observer", "cat > seen"),
            (
                ":id \"wider\" :stage :compose-request :point :post :kind :transform",
                "echo '{:payload {:tools [\"read\" \"fly\"]}}'",
            ),
            (
                ":id \"short\" :stage :send-request :point :pre :kind :transform",
                "echo '{:payload {:max-output-tokens 7}}'",
            ),
        ],
    );
    let mut bridge = setup.ready();
    say(&mut bridge, "hello");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["narrow rewritten", "wider failed", "see observed", "short rewritten"]);
    let seen = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(seen.contains(":system \"Be brief.\"") && seen.contains(":tools [\"read\"]"), "{seen}");
}

#[test]
fn a_hook_that_fails_is_told_and_only_a_guard_that_fails_denies() {
    let failing = [
        ("exit 3", "exit status: 3"),
        ("echo nonsense", "no map"),
        ("sleep 1000", "longer than 500 ms"),
        ("echo '{:decision :maybe}'", "no :decision"),
    ];
    for (script, expected) in failing {
        // The time has the start of the script's processes in it.
        let limit = if expected.starts_with("longer") { 500 } else { 60_000 };
        let tries = format!(":id \"t\" :stage :tool-call :point :pre :kind :transform :timeout-ms {limit}");
        let sees = ":id \"o\" :stage :tool-call :point :post :kind :observer :timeout-ms 60000";
        let guards = format!(":id \"g\" :stage :tool-call :point :pre :kind :guard :timeout-ms {limit}");
        let setup = hooked(LOOK, &[(&tries, script), (sees, "exit 9")]);
        let mut bridge = setup.ready();
        say(&mut bridge, "go");
        assert_eq!(data(&end(&mut bridge), "text"), "end");
        assert!(setup.project().join("one").exists(), "{script}");
        let told = bridge.transcript.iter().filter(|line| line.contains("hook/failed"));
        assert_eq!(told.count(), 4, "{}", bridge.told());

        let setup = hooked(LOOK, &[(&guards, script)]);
        let mut bridge = setup.ready();
        say(&mut bridge, "go");
        let diagnostic = bridge.event("diagnostic");
        assert_eq!(data(&diagnostic, "code"), "hook/failed");
        assert!(data(&diagnostic, "message").contains(expected), "{diagnostic}");
        assert_eq!(data(&end(&mut bridge), "text"), "end");
        assert!(!setup.project().join("one").exists(), "{script}");
    }
}

#[test]
fn a_hook_sees_no_secret_of_the_environment() {
    let setup = hooked(ECHO, &[(":id \"env\" :stage :render :point :post :kind :observer", "env > seen")])
        .env("ANTHROPIC_API_KEY", "canary-1")
        .env("MY_OWN_TOKEN", "canary-2")
        .env("LC_SMUGGLED", "canary-3")
        .env("XDG_SMUGGLED", "canary-4");
    let mut bridge = setup.ready();
    say(&mut bridge, "hello");
    end(&mut bridge);
    let seen = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(seen.contains("PATH=") && !seen.contains("canary"), "{seen}");
}

#[test]
fn a_projects_hooks_run_only_where_the_project_is_trusted() {
    let setup = Setup::new().script(ECHO).arg("--yolo");
    let none = setup.dir.path().join("none.edn");
    std::fs::write(&none, "{}").unwrap();
    let setup = setup.arg("--config").arg(none.to_str().unwrap());
    let file = setup.project().join(".edn-bridge/config.edn");
    configure(&file, &[(":id \"mine\" :stage :render :point :post :kind :observer", "true")]);
    let mut bridge = setup.ready();
    say(&mut bridge, "one");
    end(&mut bridge);
    assert!(outcomes(&bridge).is_empty());
    bridge.ask("t", "trust_project", "{:trusted true}");
    say(&mut bridge, "two");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed"]);
    bridge.ask("t", "trust_project", "{:trusted false}");
    say(&mut bridge, "three");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed"]);
}

/// A program of a project's, which makes a file.
fn program(path: &Path, made: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\ntouch {made}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const CHECK: &str =
    r#"{:hooks [{:id "mine" :stage :render :point :post :kind :observer :command ["./scripts/check"]}]}"#;

#[test]
fn a_users_hook_with_a_relative_program_is_refused() {
    let setup = Setup::new().script(ECHO);
    // What a strange folder has below that name must not run.
    program(&setup.project().join("scripts/check"), "ran");
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, CHECK).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let (status, _, errors) = setup.serve().finish();
    assert!(!status.success());
    assert!(errors.contains("must be an absolute path, or a name without a slash"), "{errors}");
    assert!(!setup.project().join("ran").exists());
}

#[test]
fn users_hook_in_the_project_runs_as_it_was_read() {
    let setup = Setup::new().script(ECHO);
    let project = setup.project().canonicalize().unwrap();
    let (check, log) = (project.join("scripts/check"), project.join("hook.log"));
    program(&check, "ran");
    std::fs::write(&log, "").unwrap();
    let config = setup.dir.path().join("config.edn");
    let (program_of, log_of) = (check.to_str().unwrap(), log.to_str().unwrap());
    let hook = format!(
        "{{:hooks [{{:id \"mine\" :stage :render :point :post :kind :observer :command [{program_of:?} {log_of:?}]}}]}}"
    );
    std::fs::write(&config, hook).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.ready();
    let ran = |bridge: &mut Bridge| {
        std::fs::write(&log, "what the hook writes").unwrap();
        say(bridge, "go");
        end(bridge);
    };
    ran(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed"]);
    // As a command that was allowed may do in its sandbox.
    program(&check, "evil");
    ran(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed", "mine failed"]);
    assert!(bridge.told().contains("has changed since the configuration was read"), "{}", bridge.told());
    assert!(!project.join("evil").exists());
    // A person takes it as it is now.
    bridge.ask("r", "prompt", "{:message \"/reload\"}");
    bridge.event("command-result");
    ran(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed", "mine failed", "mine observed"]);
}

#[test]
fn a_projects_program_runs_as_it_was_trusted_and_not_changed() {
    let setup = Setup::new().script(ECHO);
    let project = setup.project();
    program(&project.join("scripts/check"), "ran");
    std::fs::create_dir(project.join(".edn-bridge")).unwrap();
    std::fs::write(project.join(".edn-bridge/config.edn"), CHECK).unwrap();
    let mut bridge = setup.ready();
    bridge.ask("t", "trust_project", "{:trusted true}");
    say(&mut bridge, "one");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed"]);
    assert!(project.join("ran").exists());
    program(&project.join("scripts/check"), "evil");
    say(&mut bridge, "two");
    end(&mut bridge);
    assert_eq!(outcomes(&bridge), ["mine observed", "mine failed"]);
    assert!(bridge.told().contains("has changed since the project was trusted"));
    assert!(!project.join("evil").exists());
}

#[test]
fn what_is_read_again_holds_from_the_next_stage_on() {
    let script = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "touch began; while [ ! -e go ]; do sleep 0.01; done"}}}]}
                             {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "echo two > two"}}}]}
                             {:steps [{:delta "end"}]}]}"#;
    let setup = hooked(script, &[]);
    let config = setup.dir.path().join("config.edn");
    let mut bridge = setup.ready();
    say(&mut bridge, "go");
    bridge.event("tool/executing");
    configure(
        &config,
        &[(
            ":id \"no\" :stage :tool-call :point :pre :kind :guard",
            "echo '{:decision :deny :reason \"no more\"}'",
        )],
    );
    bridge.ask("reload", "command", "{:text \"/reload\"}");
    // The stage that runs is not changed: its call ends well.
    std::fs::write(setup.project().join("go"), "").unwrap();
    let first = bridge.until(|frame| is_event(frame, "tool/result") || is_event(frame, "command-result"));
    assert_eq!((text(&first, "event"), data(&first, "tool-id")), ("tool/result", "a"));
    let told = bridge.event("command-result");
    assert_eq!(
        data(&told, "message"),
        "The configuration was read again: revision 2, 0 rules, 1 hook, 2 workflows."
    );
    let second = bridge.event("tool/result");
    assert!(data(&second, "result-text").contains("no more"), "{second}");
    end(&mut bridge);
    let journal = support::files(&setup.state())
        .into_iter()
        .find(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(":type :manifest")));
    assert!(journal.is_some(), "the journal says with which configuration the session went on");
    // One that is wrong changes nothing.
    std::fs::write(&config, "{:hooks [{:stage :tool-call :point :pre :kind :guard}]}").unwrap();
    bridge.ask("again", "command", "{:text \"/reload\"}");
    let told = bridge.event("command-result");
    assert_eq!(data(&told, "type"), "error");
    assert!(data(&told, "message").contains("hook 1: a hook's :command must be"), "{told}");
}

#[test]
fn bridge_with_invalid_guard_does_not_start() {
    let setup = hooked(ECHO, &[(":stage :tool-cal :point :pre :kind :guard", "true")]);
    let bridge = setup.serve();
    let (status, _, errors) = bridge.finish();
    assert!(!status.success());
    assert!(errors.contains("hook 1: a hook's :stage must be one of receive-input"), "{errors}");
}

/// The stages, as a hook names them.
const STAGES: [&str; 6] =
    [":receive-input", ":compose-request", ":send-request", ":stream-response", ":tool-call", ":render"];

/// Waits until a hook has written a file, and returns what it wrote.
fn written(path: &Path) -> String {
    let deadline = std::time::Instant::now() + support::PATIENCE;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text;
        }
        assert!(std::time::Instant::now() < deadline, "the hook did not run");
        std::thread::yield_now();
    }
}

#[test]
fn an_abort_does_not_wait_for_a_hook_at_any_stage() {
    for stage in STAGES {
        let head = format!(":id \"slow\" :stage {stage} :point :pre :kind :guard :timeout-ms 600000");
        let script = if stage == ":tool-call" { LOOK } else { ECHO };
        let setup = hooked(script, &[(&head, "echo $$ > pid; sleep 1000")]);
        let mut bridge = setup.ready();
        say(&mut bridge, "go");
        let pid = written(&setup.project().join("pid"));
        bridge.ask("stop", "abort", "{}");
        let last = end(&mut bridge);
        assert_eq!(data(&last, "stop-reason"), "aborted", "{stage}");
        // A signal is on its way before the process has met it.
        let deadline = std::time::Instant::now() + support::PATIENCE;
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "the hook is left running: {stat}");
            std::thread::yield_now();
        }
        assert_eq!(code(&bridge.ask("x", "ping", "{}")), "", "{stage}");
    }
}

#[test]
fn what_is_said_during_a_stage_goes_to_the_next_model_call() {
    const WAIT: &str =
        "echo begun > began; while [ ! -e go ]; do sleep 0.01; done; echo '{:decision :allow}'";
    let call = r#"{:turns [{:steps [{:tool-call {:id "a" :name "bash" :arguments {:command "true"}}}]}
                           {:steps [{:echo :last-user}]}] :then :repeat-last}"#;
    for stage in STAGES {
        let head = format!(":id \"slow\" :stage {stage} :point :pre :kind :guard :timeout-ms 600000");
        let setup = hooked(if stage == ":tool-call" { call } else { ECHO }, &[(&head, WAIT)]);
        let mut bridge = setup.ready();
        let turn = say(&mut bridge, "work");
        written(&setup.project().join("began"));
        let steered = bridge.ask("s", "steer", "{:message \"rather this\"}");
        assert_eq!(data(&steered, "turn-id"), data(&turn, "turn-id"), "{stage}");
        std::fs::write(setup.project().join("go"), "").unwrap();
        let (mut answers, mut turns) = (Vec::new(), Vec::new());
        while answers.last().is_none_or(|last| last != "rather this") {
            let said = bridge.event("assistant/message");
            if data(&said, "stop-reason") != "tool-use" {
                answers.push(data(&said, "text").to_owned());
                turns.push(data(&said, "turn-id") == data(&turn, "turn-id"));
            }
        }
        let expected: &[(&str, bool)] = match stage {
            // The call that comes is the next one.
            ":receive-input" | ":compose-request" | ":tool-call" => &[("rather this", true)],
            // It is under way already; the turn uses another.
            ":send-request" | ":stream-response" => &[("work", true), ("rather this", true)],
            // The turn has said all; what was said since begins another.
            _ => &[("work", true), ("rather this", false)],
        };
        let found: Vec<(&str, bool)> = answers.iter().map(String::as_str).zip(turns).collect();
        assert_eq!(found, expected, "{stage}\n{}", bridge.told());
    }
}
