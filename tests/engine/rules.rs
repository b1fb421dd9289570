//! Rules, and what trust would let run, with the real program.

use crate::support;

use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, end_of_turn};

const ASKS: &str = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"cargo test --all\"}}}]} \
                    {:steps [{:delta \"end\"}]}] :then :cycle}";

/// The rules that are listed: id, source and text of each.
fn rules(bridge: &mut Bridge, id: &str, params: &str) -> Vec<(String, String, String)> {
    let answer = bridge.ask(id, "list_rules", params);
    let rules = at(&answer, &["data", "rules"]).and_then(Owned::as_slice).unwrap().to_vec();
    let text = |rule: &Owned, key| rule.get(key).and_then(Owned::as_str).unwrap().to_owned();
    rules.iter().map(|rule| (text(rule, "rule-id"), text(rule, "source"), text(rule, "text"))).collect()
}

#[test]
fn rule_taken_back_holds_in_no_session() {
    let setup = Setup::new().script(ASKS);
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, "{:permissions {:rules [{:decision :deny :tool \"write\" :path \"x/**\"}]}}")
        .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.interactor();
    bridge.ask("1", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    support::accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    end_of_turn(&mut bridge);
    // A process that starts with the rule, and two sessions in it.
    bridge.close_input();
    bridge.wait();
    let mut bridge = setup.interactor();
    let state = bridge.ask("2", "get_state", "{}");
    let first = at(&state, &["data", "state", "session-id"]).and_then(Owned::as_str).unwrap().to_owned();
    let in_first = format!("{{:session-id {first:?}}}");
    bridge.ask("3", "new_session", "{}");
    let listed = rules(&mut bridge, "4", "{}");
    assert_eq!(rules(&mut bridge, "5", &in_first), listed);
    let [(denied, configuration, deny), (id, kept, allow)] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((configuration.as_str(), deny.as_str()), ("configuration", "deny write in x/**"));
    assert_eq!((kept.as_str(), allow.as_str()), ("kept", "allow bash: cargo test"));
    let answer = bridge.ask("6", "remove_rule", &format!("{{:rule-id {denied:?}}}"));
    assert_eq!(code(&answer), "request/invalid-params", "{answer}");
    bridge.ask("7", "prompt", "{:message \"go\"}");
    end_of_turn(&mut bridge);
    bridge.ask("8", "remove_rule", &format!("{{:rule-id {id:?}}}"));
    // It is out of the file, before the configuration is read again.
    assert_eq!(std::fs::read_to_string(setup.state().join("rules.edn")).unwrap(), "");
    for (n, params) in [("9", "{}"), ("10", in_first.as_str())] {
        assert_eq!(rules(&mut bridge, n, params).len(), 1);
    }
    bridge.ask("s", "switch_session", &in_first);
    bridge.ask("11", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    // Kept again, it holds again.
    support::accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    end_of_turn(&mut bridge);
    assert_eq!(rules(&mut bridge, "12", "{}").len(), 2);
}

#[test]
fn always_holds_at_once_in_sessions_and_processes() {
    let setup = Setup::new().script(ASKS);
    let (mut bridge, mut other) = (setup.interactor(), setup.interactor());
    // The second process has read the rules, and judged by them, before there is one.
    other.ask("0", "prompt", "{:message \"go\"}");
    let question = other.event("interaction/requested");
    support::accept(&mut other, &question, ":value {:outcome \"approve\" :scope \"once\"}");
    end_of_turn(&mut other);
    bridge.ask("1", "prompt", "{:message \"go\"}");
    let question = bridge.event("interaction/requested");
    support::accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    end_of_turn(&mut bridge);
    bridge.ask("2", "new_session", "{}");
    let runs_unasked = |bridge: &mut Bridge, id: &str| {
        let answer = bridge.ask(id, "prompt", "{:message \"go\"}");
        let turn = support::data(&answer, "turn-id").to_owned();
        // The end of the turn before may come later than its answer.
        let found = bridge.until(|frame| {
            support::is_event(frame, "interaction/requested")
                || support::is_event(frame, "turn/ended") && support::data(frame, "turn-id") == turn
        });
        support::is_event(&found, "turn/ended")
    };
    assert!(runs_unasked(&mut bridge, "3"), "in the second session");
    assert!(runs_unasked(&mut other, "4"), "in the second process");
    let listed = rules(&mut other, "5", "{}");
    let [(id, kept, _)] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(kept, "kept");
    let answer = bridge.ask("6", "list_rules", "{}").to_string();
    assert!(!answer.contains(":idle"), "{answer}");
    // What one process takes back holds in none.
    other.ask("7", "remove_rule", &format!("{{:rule-id {id:?}}}"));
    assert!(!runs_unasked(&mut bridge, "8"));
}

#[test]
fn preview_shows_what_trust_lets_run_and_what_it_takes() {
    let setup = Setup::new().script(ASKS);
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(folder.join("workflows")).unwrap();
    std::fs::write(setup.project().join("check.sh"), "exit 0").unwrap();
    let config = r#"{:hooks [{:id "look" :stage :tool-call :point :pre :kind :guard :command ["./check.sh" "now"]}]
                     :providers {"work" {:base-url "https://user:secret@llm.example/v1?key=s3cret" :key-command ["pass" "my work"]
                                         :key-variables ["GITHUB_TOKEN"] :headers {"X-Org" "s3cret"}}}
                     :mcp {"t" {:command ["curl" "https://mcp.example/?x" "two words"]}}
                     :commands {:environment {"LD_PRELOAD" "/lib/evil.so" "API_TOKEN" "s3cret" "PAGER" nil}}
                     :sandbox {:writable ["/outside"]}
                     :permissions {:rules [{:decision :allow :tool "bash" :command "make"} {:decision :deny :tool "write"}]}}"#;
    std::fs::write(folder.join("config.edn"), config).unwrap();
    std::fs::write(
        folder.join("workflows/w.edn"),
        r#"{:doc "Works." :stages [{:id :one :body "Go." :gate [{:command "make check"}] :tools [] :turn-cap 3
           :completion {:summary :string} :next :end}]}"#,
    )
    .unwrap();
    std::fs::write(folder.join("workflows/broken.edn"), "{").unwrap();
    let mut bridge = setup.interactor();
    let preview = bridge.ask("1", "trust_preview", "{}");
    let text = preview.to_string();
    for part in [
        "check.sh now",
        "tool-call",
        "pass 'my work'",
        "GITHUB_TOKEN",
        "X-Org",
        "curl https://mcp.example/?x 'two words'",
        "/lib/evil.so",
        "API_TOKEN",
        "taken away",
        "allow bash: make",
        "make check",
        "llm.example",
        "/outside",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("s3cret") && !text.contains("user:secret") && !text.contains("deny write"),
        "{text}"
    );
    assert_eq!(at(&preview, &["data", "trust"]).and_then(Owned::as_str), Some("none"));
    let problems = at(&preview, &["data", "problems"]).and_then(Owned::as_slice).unwrap();
    assert!(problems.iter().any(|problem| problem.as_str().unwrap().contains("broken.edn")), "{text}");
    let files = at(&preview, &["data", "files"]).unwrap().clone();
    assert_eq!(files.as_map().unwrap().len(), 4, "{text}");
    let trust = format!("{{:trusted true :files {files}}}");
    std::fs::write(setup.project().join("check.sh"), "exit 1").unwrap();
    let answer = bridge.ask("2", "trust_project", &trust);
    assert_eq!(code(&answer), "runtime/failed", "{answer}");
    std::fs::write(setup.project().join("check.sh"), "exit 0").unwrap();
    let answer = bridge.ask("3", "trust_project", &trust);
    assert_eq!(at(&answer, &["data", "trusted"]), Some(&Owned::Bool(true)), "{answer}");
    let preview = bridge.ask("4", "trust_preview", "{}");
    assert_eq!(at(&preview, &["data", "trust"]).and_then(Owned::as_str), Some("trusted"));
    std::fs::write(setup.project().join("check.sh"), "exit 1").unwrap();
    let preview = bridge.ask("5", "trust_preview", "{}");
    assert_eq!(at(&preview, &["data", "trust"]).and_then(Owned::as_str), Some("changed"));
}

#[test]
fn damaged_rule_makes_every_mode_ask() {
    let setup = Setup::new().script(ASKS);
    let project = setup.project().canonicalize().unwrap();
    std::fs::create_dir_all(setup.state()).unwrap();
    let rules = setup.state().join("rules.edn");
    // The second line was a rule that denies, until a bit of it was lost.
    let allow = format!("{{:workspace {project:?} :form 3 :rule {{:decision :allow :tool \"bash\"}}}}");
    let lost = format!("{{:workspace {project:?} :form 3 :rule {{:decision :denz :tool \"bash\"}}}}");
    std::fs::write(&rules, format!("{allow}\n{lost}\n")).unwrap();
    let mut bridge = setup.interactor();
    for (id, mode) in [("1", "ask"), ("2", "accept-edits"), ("3", "yolo")] {
        bridge.ask(&format!("m{id}"), "set_mode", &format!("{{:mode {mode:?}}}"));
        bridge.ask(&format!("n{id}"), "new_session", "{}");
        let told = bridge.event("diagnostic");
        assert_eq!(at(&told, &["data", "code"]).and_then(Owned::as_str), Some("rules/unread"), "{told}");
        assert!(told.to_string().contains("Line 2 of "), "{told}");
        bridge.ask(&format!("s{id}"), "set_mode", &format!("{{:mode {mode:?}}}"));
        bridge.ask(&format!("p{id}"), "prompt", "{:message \"go\"}");
        let found = bridge.until(|frame| {
            support::is_event(frame, "interaction/requested") || support::is_event(frame, "turn/ended")
        });
        assert!(support::is_event(&found, "interaction/requested"), "{mode}: {found}");
        assert!(found.to_string().contains("Line 2 of "), "{mode}: {found}");
        support::accept(&mut bridge, &found, ":value {:outcome \"deny\"}");
        end_of_turn(&mut bridge);
    }
    // Corrected, the rules decide again, in the same process.
    std::fs::write(&rules, format!("{allow}\n")).unwrap();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let found = bridge.until(|frame| {
        support::is_event(frame, "interaction/requested") || support::is_event(frame, "turn/ended")
    });
    assert!(support::is_event(&found, "turn/ended"), "{found}");
}
