//! `/reload` over the real wire: everything that it reads except hooks and workflows (tests/engine/hooks.rs), and
//! that it changes no running stage.

use crate::support;

use edn_bridge::runner::sandbox;
use edn_bridge::value::Value;
use support::server::{Answer, Server};
use support::{Bridge, Setup, at, code, data, end_of_turn, is_event, kind, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}] :then :repeat-last}";

/// A bridge with this configuration of its user's.
fn configured(setup: Setup, config: &str) -> Setup {
    let path = setup.dir.path().join("config.edn");
    std::fs::write(&path, config).unwrap();
    let path = path.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&path)
}

fn configure(setup: &Setup, config: &str) {
    std::fs::write(setup.dir.path().join("config.edn"), config).unwrap();
}

fn reload(bridge: &mut Bridge) -> String {
    bridge.ask("reload", "command", "{:text \"/reload\"}");
    data(&bridge.event("command-result"), "message").to_owned()
}

fn window(bridge: &mut Bridge) -> Option<i64> {
    let answer = bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/context-window]\"}");
    at(&answer, &["data", "result", "psi.agent-session/context-window"]).and_then(Value::as_i64)
}

fn said(bridge: &mut Bridge) -> String {
    bridge.request("p", "prompt", "{:message \"go\"}");
    let last = end_of_turn(bridge);
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    data(&last, "text").to_owned()
}

#[test]
fn models_skills_and_the_values_of_new_sessions_are_read_again() {
    let setup = configured(Setup::new().script(ECHO), "{}");
    let mut bridge = setup.ready();
    said(&mut bridge);
    let state = bridge.ask("state", "get_state", "{}");
    let session = at(&state, &["data", "state", "session-id"]).and_then(Value::as_str).unwrap().to_owned();
    let choose = |bridge: &mut Bridge| bridge.ask("m", "set_model", "{:provider \"local\" :model-id \"q\"}");
    assert_eq!(code(&choose(&mut bridge)), "request/unknown-model");
    let before = window(&mut bridge);
    configure(
        &setup,
        "{:mode :read-only :models [{:provider \"scripted\" :id \"scripted\" :context-window 4321}
                                    {:provider \"local\" :id \"q\" :context-window 99} {:provider \"x\"}]}",
    );
    let skill = setup.project().join(".agents/skills/tidy");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\ndescription: Tidies up.\n---\nSteps.").unwrap();
    let told = reload(&mut bridge);
    assert!(told.contains("revision 2, 0 rules, 0 hooks, 2 workflows, 3 configured models"), "{told}");
    assert!(told.contains("not usable: the configuration's :models: a model needs :id"), "{told}");
    assert!(told.contains("1 skills"), "{told}");
    // What is known of the session's own model is what is known now.
    assert_eq!((before == Some(4321), window(&mut bridge)), (false, Some(4321)));
    assert_eq!(kind(&choose(&mut bridge)), "response");
    assert_eq!(window(&mut bridge), Some(99));
    let answer = bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/mode]\"}").to_string();
    assert!(answer.contains("\"ask\""), "a session keeps its mode: {answer}");
    bridge.ask("n", "new_session", "{}");
    let answer = bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/mode]\"}").to_string();
    assert!(answer.contains("\"read-only\""), "a new one has the mode that is configured now: {answer}");
    let manifests = || {
        let journals = support::files(&setup.state()).into_iter();
        let texts = journals.filter_map(|file| std::fs::read_to_string(file).ok());
        let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.contains(":type :manifest")).collect::<Vec<_>>()
    };
    assert_eq!(manifests(), [""; 0], "nothing is written for who says nothing");
    reload(&mut bridge);
    assert_eq!(kind(&bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"))), "response");
    said(&mut bridge);
    let manifests = manifests();
    assert_eq!(manifests.len(), 1, "once, for the session that goes on");
    for part in [":revision 3", ":models 3", ":skills [\"tidy\"]"] {
        assert!(manifests[0].contains(part), "{part}: {}", manifests[0]);
    }
}

#[test]
fn a_stage_that_runs_keeps_its_model_and_its_skills() {
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "while [ ! -e go ]; do sleep 0.01; done"}}}]}
                             {:steps [{:delta "end"}]}]}"#;
    let setup = configured(Setup::new().script(script).arg("--yolo"), "{}");
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    bridge.event("tool/executing");
    let before = window(&mut bridge);
    configure(&setup, "{:models [{:provider \"scripted\" :id \"scripted\" :context-window 4321}]}");
    bridge.ask("reload", "command", "{:text \"/reload\"}");
    // Whoever asks for the list of models is told of the new one; the turn keeps the old one.
    loop {
        let listed = bridge.ask("l", "get_available_models", "{}").to_string();
        if listed.contains("4321") {
            break;
        }
    }
    assert_eq!(window(&mut bridge), before);
    std::fs::write(setup.project().join("go"), "").unwrap();
    let first = bridge.until(|frame| is_event(frame, "tool/result") || is_event(frame, "command-result"));
    assert_eq!(text(&first, "event"), "tool/result");
    // The next stage has the new one; whether its end or the command's result comes first is open.
    for _ in 0..2 {
        bridge.until(|frame| {
            is_event(frame, "command-result")
                || is_event(frame, "assistant/message") && data(frame, "text") == "end"
        });
    }
    assert_eq!(window(&mut bridge), Some(4321));
}

#[test]
fn servers_and_their_keys_are_read_again() {
    let hello = |text: &str| {
        Answer::events(format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":{text:?}}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
        ))
    };
    let (first, second) = (Server::new([hello("first")]), Server::new([hello("second")]));
    let config = |server: &Server, variable: &str| {
        format!(
            "{{:provider \"p\" :model \"m\" :providers {{\"p\" {{:base-url \"{}\" :key-variables [{variable:?}]}}}}}}",
            server.url()
        )
    };
    let setup = Setup::new().env("KEY_ONE", "canary-one").env("KEY_TWO", "canary-two");
    let setup = configured(setup, &config(&first, "KEY_ONE"));
    let mut bridge = setup.ready();
    let env = |bridge: &mut Bridge| {
        let answer = bridge.ask("b", "bash", "{:command \"env; echo done\"}");
        let output = data(&answer, "output").to_owned();
        assert!(output.contains("done"), "{answer}");
        (output.contains("canary-one"), output.contains("canary-two"))
    };
    assert_eq!(said(&mut bridge), "first");
    assert_eq!(first.asked().line("authorization"), "Bearer canary-one");
    assert_eq!(env(&mut bridge), (false, true));
    configure(&setup, &config(&second, "KEY_TWO"));
    let told = reload(&mut bridge);
    assert!(told.contains("1 configured provider"), "{told}");
    assert_eq!(said(&mut bridge), "second");
    assert_eq!(second.asked().line("authorization"), "Bearer canary-two");
    // A variable that holds a key now is hidden from commands from now on.
    assert_eq!(env(&mut bridge), (true, false));
    // One that cannot be read changes nothing.
    configure(&setup, "{:providers");
    assert!(reload(&mut bridge).starts_with("Nothing was changed: "));
    assert_eq!(said(&mut bridge), "second");
}

#[test]
fn the_sandbox_is_read_again() {
    if sandbox::state() != sandbox::SandboxState::Enforced {
        return;
    }
    let script = r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "echo x > ../beside/out && echo wrote"}}}]}
                             {:steps [{:delta "end"}]}] :then :cycle}"#;
    let rules = ":permissions {:rules [{:decision :allow :tool \"bash\"}]}";
    let setup = Setup::new().script(script);
    let beside = setup.dir.path().join("beside");
    std::fs::create_dir(&beside).unwrap();
    let setup = configured(setup, &format!("{{{rules}}}"));
    let mut bridge = setup.ready();
    let wrote = |bridge: &mut Bridge| {
        bridge.request("p", "prompt", "{:message \"go\"}");
        let result = bridge.event("tool/result");
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
        let wrote = data(&result, "result-text").contains("wrote");
        assert_eq!(wrote, beside.join("out").exists(), "{result}");
        wrote
    };
    assert!(!wrote(&mut bridge));
    configure(&setup, &format!("{{{rules} :sandbox {{:writable [{:?}]}}}}", beside.to_str().unwrap()));
    let told = reload(&mut bridge);
    assert!(told.contains("1 rule, 0 hooks, 2 workflows, 1 writable folder"), "{told}");
    assert!(wrote(&mut bridge));
}

#[test]
fn broken_file_of_a_trusted_project_is_not_taken() {
    let setup = configured(Setup::new().script(ECHO), "{}");
    let file = setup.project().join(".edn-bridge/config.edn");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{:mode :read-only}").unwrap();
    let mut bridge = setup.ready();
    let mode = |bridge: &mut Bridge| {
        let answer = bridge.ask("n", "new_session", "{}");
        assert_eq!(kind(&answer), "response", "{answer}");
        let state = bridge.ask("state", "get_state", "{}");
        at(&state, &["data", "state", "mode"]).unwrap_or_else(|| panic!("{state}")).to_string()
    };
    bridge.ask("t", "trust_project", "{:trusted true}");
    assert!(mode(&mut bridge).contains("read-only"));
    for text in ["{:mode", "{:mode :wild}"] {
        std::fs::write(&file, text).unwrap();
        let told = reload(&mut bridge);
        assert!(told.contains("config.edn"), "{told}");
        assert!(mode(&mut bridge).contains("read-only"));
    }
}

#[test]
fn trust_ends_when_what_was_trusted_changes() {
    let setup = configured(Setup::new().script(ECHO), "{}");
    let file = setup.project().join(".edn-bridge/config.edn");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{:mode :accept-edits}").unwrap();
    let mode = |bridge: &mut Bridge| {
        let state = bridge.ask("state", "get_state", "{}");
        at(&state, &["data", "state", "mode"]).and_then(Value::as_str).unwrap().to_owned()
    };
    let mut bridge = setup.ready();
    bridge.ask("t", "trust_project", "{:trusted true}");
    bridge.finish();
    let mut bridge = setup.ready();
    assert_eq!(mode(&mut bridge), "accept-edits");
    bridge.finish();
    // What a command, or a pull, puts there later is not what was trusted.
    let hook =
        r#"{:mode :yolo :hooks [{:stage :render :point :post :kind :observer :command ["touch" "ran"]}]}"#;
    std::fs::write(&file, hook).unwrap();
    let mut bridge = setup.ready();
    assert_eq!(mode(&mut bridge), "ask");
    bridge.request("p", "prompt", "{:message \"go\"}");
    let told = bridge.event("ui/notification");
    assert!(data(&told, "message").contains(".edn-bridge/config.edn has changed"), "{told}");
    end_of_turn(&mut bridge);
    assert!(!setup.project().join("ran").exists());
    bridge.finish();
    let mut bridge = setup.ready();
    bridge.ask("t", "trust_project", "{:trusted true}");
    said(&mut bridge);
    assert!(setup.project().join("ran").exists());
    bridge.finish();
    // A workflow that comes later is part of it.
    let workflows = setup.project().join(".edn-bridge/workflows");
    std::fs::create_dir(&workflows).unwrap();
    std::fs::write(workflows.join("w.edn"), "{:stages [{:id :a :body \"x\"}]}").unwrap();
    let mut bridge = setup.ready();
    assert_eq!(mode(&mut bridge), "ask");
    bridge.request("p", "prompt", "{:message \"go\"}");
    let told = bridge.event("ui/notification");
    assert!(data(&told, "message").contains(".edn-bridge/workflows/w.edn is new"), "{told}");
}

#[test]
fn reply_to_trust_names_code_that_is_not_watched() {
    let setup = configured(Setup::new().script(ECHO), "{}");
    let file = setup.project().join(".edn-bridge/config.edn");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    let hook = r#"{:id "h" :stage :render :point :post :kind :observer :command ["timeout" "9" "python3" "-c" "1"]}"#;
    std::fs::write(&file, format!("{{:hooks [{hook}]}}")).unwrap();
    let mut bridge = setup.ready();
    bridge.ask("t", "command", "{:text \"/trust\"}");
    let reply = bridge.event("command-result");
    let reply = data(&reply, "message");
    assert!(reply.starts_with("This project's configuration is trusted."), "{reply}");
    assert!(reply.contains("the hook h: its code is not watched"), "{reply}");
}

#[test]
fn a_folder_trusted_by_an_earlier_version_is_asked_about_again() {
    let setup = configured(Setup::new().script(ECHO), "{}");
    let file = setup.project().join(".edn-bridge/config.edn");
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{:mode :yolo}").unwrap();
    std::fs::create_dir(setup.state()).unwrap();
    let folder = setup.project().canonicalize().unwrap();
    std::fs::write(setup.state().join("trusted.edn"), format!("[{folder:?} \"/other\"]\n")).unwrap();
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let told = bridge.event("ui/notification");
    assert!(data(&told, "message").contains("trust it again (/trust)"), "{told}");
    end_of_turn(&mut bridge);
    bridge.ask("t", "trust_project", "{:trusted true}");
    bridge.finish();
    let list = std::fs::read_to_string(setup.state().join("trusted.edn")).unwrap();
    assert!(list.contains("\"/other\"") && list.contains(":files"), "{list}");
    let mut bridge = setup.ready();
    let state = bridge.ask("state", "get_state", "{}");
    assert_eq!(at(&state, &["data", "state", "mode"]).and_then(Value::as_str), Some("yolo"));
}
