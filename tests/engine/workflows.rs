//! Workflows over the real wire: stages, groups, gates, assertions, retries, grants, a crash in the middle.

use crate::support;

use std::time::{Duration, Instant};

use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup, accept, at, code, data, is_event};

/// A bridge whose user has this workflow, named `w`.
fn with(script: &str, workflow: &str) -> Setup {
    let setup = Setup::new().script(script);
    let folder = setup.dir.path().join("user/workflows");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("w.edn"), workflow).unwrap();
    let config = setup.dir.path().join("user/config.edn");
    std::fs::write(&config, "{}").unwrap();
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

fn start(bridge: &mut Bridge, line: &str) -> Owned {
    bridge.ask("w", "command", &format!("{{:text {line:?}}}"));
    bridge.event("command-result")
}

/// What the person is told at the end.
fn end(bridge: &mut Bridge) -> String {
    let told =
        bridge.until(|frame| is_event(frame, "ui/notification") && data(frame, "message").contains("ended"));
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    data(&told, "message").to_owned()
}

/// The lines of the newest widget.
fn widget(bridge: &Bridge) -> String {
    let line = bridge.transcript.iter().rev().find(|line| line.contains("ui/widgets-updated")).unwrap();
    line.clone()
}

/// The session's journal.
fn journal(setup: &Setup) -> String {
    let files = support::files(&setup.state()).into_iter();
    files.filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}

fn call(name: &str, arguments: &str) -> String {
    format!("{{:steps [{{:tool-call {{:name {name:?} :arguments {arguments}}}}}]}}")
}

#[test]
fn outcomes_determine_next_stage() {
    let script = format!(
        "{{:turns [{} {} {{:steps [{{:delta \"said\"}}]}}]}}",
        call("complete-stage", r#"{:outcome "fly"}"#),
        call("complete-stage", r#"{:outcome "good" :summary "seen it"}"#),
    );
    let setup = with(
        &script,
        r#"{:stages [{:id :look :body "Look at {{args}}." :gate [{:command "while [ ! -e go ]; do sleep 0.01; done"}] :completion {:summary :string} :outcomes [:good :bad]
                      :next {:good :tell, :bad :never}}
                     {:id :never :body "x"}
                     {:id :tell :body "Tell {{results.look}}." :assert [{:command "cat > facts"}] :next :end}]}"#,
    );
    let mut bridge = setup.interactor();
    assert_eq!(data(&start(&mut bridge, "/workflow w the code"), "message"), "Workflow w began.");
    // The session is taken: a prompt has to wait.
    let refused = bridge.ask("p", "prompt", "{:message \"hello\"}");
    assert_eq!(code(&refused), "request/session-not-idle");
    std::fs::write(setup.project().join("go"), "").unwrap();
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    let shown = widget(&bridge);
    for line in ["✓ look  good", "○ never", "✓ tell  done"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let told = bridge.transcript.iter();
    assert!(told.clone().any(|line| line.contains("The outcome must be one of done, good, bad.")));
    assert!(told.clone().any(|line| line.contains("ui/status-updated") && line.contains("workflow w: look")));
    assert!(told.clone().any(|line| line.contains("ui/widget-specs-updated")));
    let facts = std::fs::read_to_string(setup.project().join("facts")).unwrap();
    assert!(
        facts.contains(":results {:look {:summary \"seen it\"}}") && facts.contains("the code"),
        "{facts}"
    );
    // Who subscribes later is shown how far it is.
    bridge.request("again", "subscribe", "{:topics [\"ui/widgets-updated\"]}");
    assert!(bridge.event("ui/widgets-updated").to_string().contains("✓ tell"));
}

#[test]
fn failed_attempt_is_repeated_with_reason() {
    let script = format!(
        "{{:turns [{{:steps [{{:delta \"no\"}}]}} {} {{:steps [{{:delta \"done\"}}]}} {{:steps [{{:echo :last-user}}]}}]}}",
        call("bash", r#"{:command "touch fixed"}"#)
    );
    let setup = with(
        &script,
        r#"{:stages [{:id :fix :body "Fix it." :tools ["bash"] :retry {:max-attempts 2}
                      :assert [{:command "cat > seen; echo it is not fixed; test -e fixed"}]}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert!(widget(&bridge).contains("done after 2 attempts"), "{}", widget(&bridge));
    let told = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(told.contains("attempt 2 of 2") && told.contains("it is not fixed"), "{told}");
    let seen = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(seen.contains(":attempts [{:attempt 0"), "{seen}");
    assert!(
        !bridge.told().contains(":event \"interaction/requested\""),
        "a stage's own tools are not asked about"
    );

    std::fs::remove_file(setup.project().join("fixed")).unwrap();
    start(&mut bridge, "/workflow w");
    let ended = end(&mut bridge);
    assert!(ended.starts_with("Workflow w ended: failed") && ended.contains("does not hold"), "{ended}");
}

#[test]
fn turn_cap_ends_act_normally() {
    let script = format!("{{:turns [{}]}}", call("bash", r#"{:command "echo x >> calls"}"#));
    let setup = with(&script, r#"{:stages [{:id :go :body "Go." :tools ["bash"] :turn-cap 3}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("calls")).unwrap().lines().count(), 3);
    assert!(journal(&setup).contains(":cap-hit true"));
    assert!(widget(&bridge).contains("turn cap hit"));
}

#[test]
fn calls_of_one_answer_cost_one_round() {
    let calls = r#"{:tool-call {:name "bash" :arguments {:command "echo x >> calls"}}} "#.repeat(3);
    let script =
        format!("{{:turns [{{:steps [{calls}]}} {{:steps [{calls}]}} {{:steps [{{:delta \"end\"}}]}}]}}");
    let setup = with(&script, r#"{:stages [{:id :go :body "Go." :tools ["bash"] :turn-cap 2}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("calls")).unwrap().lines().count(), 6);
}

#[test]
fn act_at_its_cap_is_judged_by_its_assertions() {
    let script = format!("{{:turns [{}]}}", call("bash", r#"{:command "echo x >> calls"}"#));
    let setup = with(
        &script,
        r#"{:stages [{:id :go :body "Go." :tools ["bash"] :turn-cap 2 :completion {:summary :string}
                      :assert [{:command "grep -q ':cap-hit true'"}] :next :more}
                     {:id :more :body "Go." :tools ["bash"] :turn-cap 2 :completion {:summary :string}
                      :assert [{:result {:summary "done"}}]}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let ended = end(&mut bridge);
    assert!(ended.contains("failed (its result must have :summary"), "{ended}");
    assert!(widget(&bridge).contains("✓ go  done, turn cap hit"), "{}", widget(&bridge));
    assert_eq!(journal(&setup).matches(":cap-hit true").count(), 2);
}

#[test]
fn hooks_run_for_the_call_that_completes_a_stage() {
    let script = format!(
        "{{:turns [{} {} {{:steps [{{:delta \"x\"}}]}}]}}",
        call("complete-stage", r#"{:summary "wrong"}"#),
        call("complete-stage", r#"{:summary "good"}"#),
    );
    let setup = with(&script, r#"{:stages [{:id :go :body "Go." :completion {:summary :string}}]}"#);
    let hook = |id: &str, rest: &str, script: &str| {
        format!("{{:id {id:?} :stage :tool-call {rest} :command [\"bash\" \"-c\" {script:?}]}}")
    };
    let hooks = [
        hook(
            "no",
            ":point :pre :kind :guard",
            "if grep -q wrong; then echo '{:decision :deny :reason \"not so\"}'; else echo '{:decision :allow}'; fi",
        ),
        hook("seen", ":point :post :kind :transform", "echo '{:payload {:result \"noted\"}}'"),
    ];
    std::fs::write(setup.dir.path().join("user/config.edn"), format!("{{:hooks [{}]}}", hooks.concat()))
        .unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let denied = bridge.event("tool/result");
    assert!(data(&denied, "result-text").contains("not so"), "{denied}");
    assert_eq!(data(&bridge.event("tool/result"), "result-text"), "noted");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
}

#[test]
fn group_and_its_join_keep_the_configuration_of_their_start() {
    let setup = with(
        "{:turns [{:steps [{:delta \"x\"}]}] :then :repeat-last}",
        r#"{:stages [{:id :g :parallel [{:id :a :body "x"} {:id :b :body "x"}]
                      :join {:id :j :body "y" :gate [{:confirm "Join?"}]}}
                     {:id :last :body "z"}]}"#,
    );
    std::fs::write(setup.dir.path().join("user/config.edn"), "{}").unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    std::fs::write(
        setup.dir.path().join("user/config.edn"),
        r#"{:hooks [{:id "no" :stage :render :point :pre :kind :guard
                     :command ["bash" "-c" "echo '{:decision :deny :reason \"new rules\"}'"]}]}"#,
    )
    .unwrap();
    bridge.ask("r", "command", "{:text \"/reload\"}");
    // The new one is there, and this run has not switched to it: the command's result comes when it has.
    let revision = |bridge: &mut Bridge| {
        let answer = bridge.ask("q", "query_eql", "{:query \"[:psi.config/revision]\"}");
        at(&answer, &["data", "result", "psi.config/revision"]).and_then(Value::as_i64)
    };
    let begun = Instant::now();
    while revision(&mut bridge) != Some(2) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the configuration was not read again");
    }
    accept(&mut bridge, &question, ":value {:ok true}");
    let ended = end(&mut bridge);
    assert!(ended.contains("failed") && ended.contains("new rules"), "{ended}");
    let shown = widget(&bridge);
    assert!(shown.contains("✓ j  done") && shown.contains("✗ last"), "{shown}");
    let told = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(told.contains("Workflow w, join j: begin."), "{told}");
}

#[test]
fn closed_gate_skips_stage() {
    let workflow = r#"{:stages [{:id :a :body "x" :gate [{:confirm "Really?"}] :interaction-timeout-ms 3000
                                :next {:done :b, :skipped :b}}
                               {:id :b :body "x" :gate [{:command "test -e open"}]}]}"#;
    let setup = with("{:turns [{:steps [{:delta \"ok\"}]}]}", workflow);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    // Nobody answers in the time that the workflow gives.
    let question = bridge.event("interaction/requested");
    assert_eq!(data(&question, "kind"), "confirm");
    let ended = end(&mut bridge);
    assert!(ended.starts_with("Workflow w ended: skipped (\"test -e open\" does not hold"), "{ended}");
    assert!(widget(&bridge).contains("nobody answered"), "{}", widget(&bridge));
    std::fs::write(setup.project().join("open"), "").unwrap();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    accept(&mut bridge, &question, ":value {:ok true}");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
}

#[test]
fn group_runs_in_parallel_and_is_joined() {
    let script = format!(
        "{{:turns [{} {} {} {}]}}",
        call("complete-stage", r#"{:findings ["f"]}"#),
        call("complete-stage", r#"{:findings ["f"]}"#),
        call("complete-stage", r#"{:findings ["f"]}"#),
        call("complete-stage", r#"{:review "all good" :blocking false}"#),
    );
    let setup = Setup::new().script(&script);
    let git = "git init -q && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m x && echo new > a && git add a";
    std::process::Command::new("bash").args(["-c", git]).current_dir(setup.project()).status().unwrap();
    let mut bridge = setup.interactor();
    // The one that the program brings.
    start(&mut bridge, "/workflow review-diff");
    assert_eq!(end(&mut bridge), "Workflow review-diff ended: done.");
    let shown = widget(&bridge);
    for line in ["✓ readers  done", "  ✓ correctness  done", "  ✓ tests", "  ✓ clarity", "  ✓ review  done"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // The readers worked below the session, the one who joined in it, with what they found.
    let listed = bridge.ask("l", "list_sessions", "{}").to_string();
    assert!(listed.contains("review-diff: tests") && listed.contains(":parent-session-id \"s-"), "{listed}");
    assert!(journal(&setup).contains(":review \"all good\""));
    // Nobody runs anything of a diff that may be anybody's.
    let file = include_str!("../../examples/workflows/review-diff.edn");
    assert!(!file.contains("\"bash\"") && file.matches("{{gate}}").count() == 3);
}

#[test]
fn a_stage_asks_before_it_leaves_the_workspace() {
    let calls = [
        ("write", r#"{:path "a.txt" :content "x"}"#, false),
        ("bash", r#"{:command "touch b.txt"}"#, false),
        ("write", r#"{:path "../outside.txt" :content "x"}"#, true),
        ("write", r#"{:path ".edn-bridge/config.edn" :content "{:mode :yolo}"}"#, true),
        ("read", r#"{:path "../secret.txt"}"#, true),
    ];
    let turns: String = calls.iter().map(|(name, arguments, _)| call(name, arguments)).collect();
    let script = format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}]}}");
    let setup = with(&script, r#"{:stages [{:id :go :body "Go." :tools ["read" "write" "bash"]}]}"#);
    std::fs::write(setup.dir.path().join("secret.txt"), "TOPSECRET").unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    for (name, arguments, asks) in calls {
        let found = bridge.until(|frame| {
            support::is_event(frame, "interaction/requested") || support::is_event(frame, "tool/result")
        });
        let asked = support::is_event(&found, "interaction/requested");
        assert_eq!(asked, asks, "{name} {arguments}\n{found}");
        if asked {
            support::accept(&mut bridge, &found, ":value {:outcome \"deny\"} :note \"no\"");
            bridge.event("tool/result");
        }
    }
    assert!(end(&mut bridge).contains("done"));
    assert!(setup.project().join("a.txt").exists() && setup.project().join("b.txt").exists());
    assert!(!setup.dir.path().join("outside.txt").exists());
    assert!(!bridge.told().contains("TOPSECRET"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_check_runs_in_the_sandbox_of_the_stage() {
    // What the stage writes is what the check runs.
    let script = call("write", r#"{:path "t.sh" :content "touch in; touch ../state/made; true\n"}"#);
    let script = format!("{{:turns [{script} {{:steps [{{:delta \"x\"}}]}}]}}");
    let workflow = r#"{:stages [{:id :go :body "Go." :tools ["write"] :assert [{:command "sh ./t.sh && test -e in"}]}]}"#;
    let enforced =
        edn_bridge::runner::sandbox::state() == edn_bridge::runner::sandbox::SandboxState::Enforced;
    for (mode, expected) in [("ask", !enforced), ("yolo", true)] {
        let setup = with(&script, workflow).arg("--mode").arg(mode);
        let mut bridge = setup.interactor();
        start(&mut bridge, "/workflow w");
        assert!(end(&mut bridge).contains("done"));
        assert_eq!(setup.state().join("made").exists(), expected, "{mode}");
    }
}

#[test]
fn a_stage_is_told_what_its_gate_wrote() {
    let setup = with(
        "{:turns [{:steps [{:delta \"seen\"}]}]}",
        r#"{:stages [{:id :go :body "Look at <{{gate}}>." :gate [{:command "echo \"of $1\""} {:command "yes gate | head -c 100000"}]}]}"#,
    );
    let hook = r#"{:hooks [{:stage :compose-request :point :post :kind :observer :command ["bash" "-c" "cat > seen"]}]}"#;
    std::fs::write(setup.dir.path().join("user/config.edn"), hook).unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w it");
    assert!(end(&mut bridge).contains("done"));
    let seen = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(seen.contains("Look at <of it\\ngate\\ngate") && seen.contains("more bytes"), "{seen}");
    assert!(seen.len() < 80_000, "{}", seen.len());
}

#[test]
fn run_tells_one_end_of_a_turn() {
    let setup = with(
        "{:turns [{:steps [{:delta \"said\"}]}] :then :repeat-last}",
        r#"{:stages [{:id :first :body "x" :next :g}
                     {:id :g :parallel [{:id :one :body "x"} {:id :two :body "x"}] :join {:id :j :body "x"}}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    let is_end = |line: &&String| line.contains(":event \"turn/ended\"");
    // Comes next to the session's state, before or after it.
    if !bridge.transcript.iter().any(|line| is_end(&line)) {
        bridge.event("turn/ended");
    }
    bridge.ask("ping", "ping", "{}");
    let ends: Vec<&String> = bridge.transcript.iter().filter(is_end).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert!(ends[0].contains(":turn-id \"w-"), "{ends:?}");
}

#[test]
fn summary_of_a_grant_masks_a_key() {
    let script = format!(
        "{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}",
        call("bash", r#"{:command "curl -H 'Authorization: Bearer sk-abcdefghijklmnop1234' x"}"#)
    );
    let setup = with(&script, r#"{:stages [{:id :go :body "Go."}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let summary = at(&question, &["data", "payload", "args-summary"]).unwrap().as_str().unwrap();
    assert!(summary.contains("Bearer [secret]") && !question.to_string().contains("sk-abc"), "{question}");
    assert!(question.to_string().contains("is shown as [secret]"), "{question}");
}

#[test]
fn question_about_a_grant_shows_the_change_and_the_address() {
    let address = format!("https://host.example/{}?to=evil.example", "long/".repeat(40));
    for (tool, arguments, shown) in [
        ("write", "{:path \"a.txt\" :content \"one\\ntwo\\n\"}".to_owned(), "+one\n+two"),
        ("edit", "{:path \"b.txt\" :edits [{:old \"old\" :new \"new\"}]}".to_owned(), "-old\n+new"),
        ("fetch", format!("{{:url {address:?}}}"), address.as_str()),
    ] {
        let script = format!(
            "{{:turns [{} {} {{:steps [{{:delta \"end\"}}]}}]}}",
            call("read", "{:path \"b.txt\"}"),
            call(tool, &arguments)
        );
        let setup = with(&script, r#"{:stages [{:id :go :body "Go." :tools ["read"]}]}"#);
        std::fs::create_dir_all(setup.project()).unwrap();
        std::fs::write(setup.project().join("b.txt"), "old\n").unwrap();
        let mut bridge = setup.interactor();
        start(&mut bridge, "/workflow w");
        let question = bridge.event("interaction/requested");
        let summary = at(&question, &["data", "payload", "args-summary"]).unwrap().as_str().unwrap();
        assert!(summary.contains(shown), "{tool}: {summary}");
    }
}

#[test]
fn question_about_a_grant_shows_the_command() {
    let command = format!("{} touch PWNED", "true;".repeat(100));
    let script = format!(
        "{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}",
        call("bash", &format!("{{:command {command:?}}}"))
    );
    let setup = with(&script, r#"{:stages [{:id :go :body "Go."}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let summary = at(&question, &["data", "payload", "args-summary"]).unwrap().as_str().unwrap();
    assert_eq!(summary, format!("$ {command}"));
}

#[test]
fn failed_sibling_ends_group() {
    let slow = call("bash", r#"{:command "touch began; while [ ! -e never ]; do sleep 0.01; done"}"#);
    let script = format!("{{:turns [{slow} {slow}]}}");
    let setup = with(
        &script,
        r#"{:stages [{:id :g :parallel [{:id :slow :body "x" :tools ["bash"]}
                                        {:id :bad :body "x" :gate [{:command "while [ ! -e began ]; do sleep 0.01; done; false"}]}]
                      :join {:id :j :body "x"}}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let ended = end(&mut bridge);
    assert!(ended.starts_with("Workflow w ended: failed (bad skipped"), "{ended}");
    let shown = widget(&bridge);
    assert!(shown.contains("slow  ended with its group") && shown.contains("○ j"), "{shown}");
}

#[test]
fn fix_test_ends_when_command_succeeds() {
    let script = format!(
        "{{:turns [{} {} {} {} {}]}}",
        call("complete-stage", r#"{:outcome "found" :cause "a.txt:1"}"#),
        call("complete-stage", r#"{:summary "I fixed it"}"#),
        call("edit", r#"{:path "a.txt" :edits [{:old "wrong" :new "right"}]}"#),
        call("complete-stage", r#"{:summary "now really"}"#),
        "{:steps [{:delta \"x\"}]}"
    );
    let setup = Setup::new().script(&script);
    std::fs::write(setup.project().join("a.txt"), "wrong").unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow fix-test grep -q right a.txt");
    assert_eq!(end(&mut bridge), "Workflow fix-test ended: done.");
    let shown = widget(&bridge);
    assert!(
        shown.contains("✓ reproduce  found") && shown.contains("✓ repair  done after 2 attempts"),
        "{shown}"
    );
    // Nothing to do where the command does not fail.
    start(&mut bridge, "/workflow fix-test true");
    assert!(end(&mut bridge).starts_with("Workflow fix-test ended: skipped"));
}

#[test]
fn grant_covers_one_call_only() {
    let write = call("write", r#"{:path "out" :content "1"}"#);
    let other = call("write", r#"{:path "out" :content "2"}"#);
    let text = "{:steps [{:delta \"end\"}]}";
    // The same call twice, one with other arguments; then the next attempt, and the next stage.
    let script = format!("{{:turns [{write} {write} {other} {text} {write} {text} {write} {text}]}}");
    let setup = with(
        &script,
        r#"{:stages [{:id :a :body "x" :retry {:max-attempts 2}
                      :assert [{:command "cat > now; test -e seen || cp now seen; test -e twice || { touch twice; false; }"}]}
                     {:id :b :body "x"}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let mut seen: Vec<(String, String, i64, String)> = Vec::new();
    let mut asked = Vec::new();
    let field = |question: &Owned, key: &str| at(question, &["data", "payload", key]).unwrap().clone();
    for n in 0..5 {
        let question = bridge.event("interaction/requested");
        assert_eq!(data(&question, "kind"), "grant-stage-tool");
        let text = |key: &str| field(&question, key).as_str().unwrap().to_owned();
        seen.push((
            text("proposal-id"),
            text("args-digest"),
            field(&question, "attempt").as_i64().unwrap(),
            text("stage-execution-id"),
        ));
        assert!(!question.to_string().contains(":content"), "the arguments do not cross: {question}");
        // Only the first is approved.
        let outcome = if n == 0 { "approve" } else { "deny" };
        accept(
            &mut bridge,
            &question,
            &format!(":value {{:outcome {outcome:?} :note \"please be careful\"}}"),
        );
        asked.push(data(&question, "interaction-id").to_owned());
    }
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    for late in asked {
        let params =
            format!("{{:interaction-id {late:?} :status \"accepted\" :value {{:outcome \"approve\"}}}}");
        assert_eq!(
            code(&bridge.ask("late", "interaction_respond", &params)),
            "request/interaction-already-answered"
        );
    }
    let proposals: std::collections::BTreeSet<_> = seen.iter().map(|(proposal, ..)| proposal).collect();
    assert_eq!(proposals.len(), 5, "each proposal is asked about: {seen:?}");
    assert_eq!(seen[0].1, seen[1].1, "the digest is of the arguments");
    assert_ne!(seen[0].1, seen[2].1);
    assert_eq!(seen.iter().map(|(_, _, attempt, _)| *attempt).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
    assert_eq!(seen[0].3, seen[3].3, "one execution, two attempts");
    assert_ne!(seen[0].3, seen[4].3, "a sibling stage is another execution");
    let results = bridge.transcript.iter().filter(|line| line.contains(":event \"tool/result\""));
    let denied: Vec<bool> = results.map(|line| line.contains("denied-tool-call")).collect();
    assert_eq!(denied, [false, true, true, true, true]);
    assert_eq!(std::fs::read_to_string(setup.project().join("out")).unwrap(), "1");
    // The assertion saw what was granted, and what the person added.
    let facts = std::fs::read_to_string(setup.project().join("seen")).unwrap();
    assert!(facts.contains(":outcome \"approve\"") && facts.contains("please be careful"), "{facts}");
}

/// Approves the first question and denies the second: they are for different proposals of the same call.
/// Returns their executions of stages.
fn grant_one_of_two(bridge: &mut Bridge) -> [String; 2] {
    let mut seen: Vec<[String; 3]> = Vec::new();
    for outcome in ["approve", "deny"] {
        let question = bridge.event("interaction/requested");
        assert_eq!(data(&question, "kind"), "grant-stage-tool");
        let field = |key: &str| {
            let value = at(&question, &["data", "payload", key]).and_then(|value| value.as_str());
            value.unwrap_or_default().to_owned()
        };
        seen.push([field("proposal-id"), field("args-digest"), field("stage-execution-id")]);
        accept(bridge, &question, &format!(":value {{:outcome {outcome:?}}}"));
    }
    assert_ne!(seen[0][0], seen[1][0], "each proposal is one of its own");
    assert_eq!(seen[0][1], seen[1][1], "though the arguments are the same");
    [seen[0][2].clone(), seen[1][2].clone()]
}

#[test]
fn grant_does_not_cover_parallel_call() {
    let twice = r#"{:steps [{:tool-call {:name "bash" :arguments {:command "echo x >> out"}}}
                            {:tool-call {:name "bash" :arguments {:command "echo x >> out"}}}]}"#;
    let setup = with(&format!("{{:turns [{twice}]}}"), r#"{:stages [{:id :a :body "x" :turn-cap 1}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let [one, other] = grant_one_of_two(&mut bridge);
    assert_eq!(one, other, "one execution");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("out")).unwrap(), "x\n");
}

#[test]
fn grant_does_not_cover_sibling_stage() {
    let script = format!("{{:turns [{}] :then :repeat-last}}", call("bash", r#"{:command "echo x >> out"}"#));
    let setup = with(
        &script,
        r#"{:stages [{:id :g :parallel [{:id :a :body "x" :turn-cap 1} {:id :b :body "x" :turn-cap 1}]}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let [one, other] = grant_one_of_two(&mut bridge);
    assert_ne!(one, other, "two executions");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("out")).unwrap(), "x\n");
}

#[test]
fn grant_does_not_survive_restart() {
    let write = call("bash", r#"{:command "echo x >> out; while [ ! -e never ]; do sleep 0.01; done"}"#);
    let setup = with(
        &format!("{{:turns [{write}] :then :repeat-last}}"),
        r#"{:stages [{:id :a :body "x" :turn-cap 1}]}"#,
    );
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let session = data(&question, "session-id").to_owned();
    accept(&mut bridge, &question, ":value {:outcome \"approve\"}");
    bridge.event("tool/executing");
    let deadline = std::time::Instant::now() + support::PATIENCE;
    // The shell makes the file before it writes to it.
    while std::fs::metadata(setup.project().join("out")).map_or(0, |out| out.len()) < 2 {
        assert!(std::time::Instant::now() < deadline, "the granted call did not run\n{}", bridge.told());
        std::thread::yield_now();
    }
    bridge.kill();
    // What a killed process leaves running ends.
    std::fs::write(setup.project().join("never"), "").unwrap();
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    start(&mut bridge, "/workflow w --resume");
    // The same call of the same stage, and yet it is asked about anew.
    let again = bridge.event("interaction/requested");
    let field = |question: &Owned, key: &str| at(question, &["data", "payload", key]).cloned();
    assert_eq!(field(&again, "args-digest"), field(&question, "args-digest"));
    assert_ne!(field(&again, "stage-execution-id"), field(&question, "stage-execution-id"));
    // An answer to the question of before is for nothing.
    let old = data(&question, "interaction-id");
    let params = format!("{{:interaction-id {old:?} :status \"accepted\" :value {{:outcome \"approve\"}}}}");
    assert_eq!(code(&bridge.ask("old", "interaction_respond", &params)), "request/not-found");
    accept(&mut bridge, &again, ":value {:outcome \"deny\"}");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("out")).unwrap(), "x\n");
}

#[test]
fn guard_deny_overrides_grant_and_deferred_is_no_grant() {
    let script = format!(
        "{{:turns [{} {}]}}",
        call("write", r#"{:path "out" :content "1"}"#),
        call("bash", r#"{:command "touch made"}"#)
    );
    let setup = with(&script, r#"{:stages [{:id :a :body "x" :turn-cap 2}]}"#);
    let guard = r#"{:hooks [{:id "no" :stage :tool-call :point :pre :kind :guard :tools ["write"]
                             :command ["echo" "{:decision :deny :reason \"not this file\"}"]}]}"#;
    std::fs::write(setup.dir.path().join("user/config.edn"), guard).unwrap();
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    for (outcome, why) in [("approve", "not this file"), ("defer", "denied")] {
        let question = bridge.event("interaction/requested");
        accept(&mut bridge, &question, &format!(":value {{:outcome {outcome:?}}}"));
        let result = bridge.event("tool/result");
        assert!(data(&result, "result-text").contains(why), "{result}");
        assert_eq!(
            at(&result, &["data", "details", "code"]).and_then(|code| code.as_str()),
            Some("denied-tool-call"),
            "{result}"
        );
    }
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert!(!setup.project().join("out").exists() && !setup.project().join("made").exists());
}

#[test]
fn grant_without_interactor_is_denied() {
    let script = format!(
        "{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}",
        call("write", r#"{:path "out" :content "1"}"#)
    );
    let setup = with(&script, r#"{:stages [{:id :a :body "x" :tools ["read"]}]}"#);
    let mut bridge = setup.ready();
    start(&mut bridge, "/workflow w");
    let result = bridge.event("tool/result");
    assert!(data(&result, "result-text").contains("Nobody is there to grant it"), "{result}");
    // The turn goes on: the model was told.
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert!(!setup.project().join("out").exists());
}

#[test]
fn interrupted_run_is_reported_and_resumes_on_request() {
    let write = call("write", r#"{:path "out" :content "1"}"#);
    let script = format!("{{:turns [{} {write}]}}", call("complete-stage", r#"{:summary "found it"}"#));
    let workflow = r#"{:stages [{:id :a :body "x" :completion {:summary :string} :assert [{:command "echo x >> a"}]}
                               {:id :b :body "{{results.a}} {{args}}" :next :end}]}"#;
    let mut setup = with(&script, workflow);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w it");
    let question = bridge.event("interaction/requested");
    let session = data(&question, "session-id").to_owned();
    bridge.kill();
    // The script begins anew with the process.
    setup.script = Some(format!("{{:turns [{write} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    let told = bridge.event("ui/notification");
    let message = data(&told, "message");
    assert!(message.contains("interrupted in the stage b; done before: a."), "{message}");
    assert!(journal(&setup).contains(":event \"interrupted\""));
    // Nothing is done again by itself, and nothing was granted: the person is asked anew.
    assert_eq!(
        at(&bridge.ask("g", "get_state", "{}"), &["data", "state", "phase"]).unwrap().to_string(),
        "\"idle\""
    );
    let began = start(&mut bridge, "/workflow w --resume");
    assert_eq!(data(&began, "message"), "Workflow w continues the stage b.");
    let again = bridge.event("interaction/requested");
    assert_ne!(
        at(&again, &["data", "payload", "stage-execution-id"]),
        at(&question, &["data", "payload", "stage-execution-id"])
    );
    accept(&mut bridge, &again, ":value {:outcome \"deny\"}");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "x\n", "the stage a ran once");
}

#[test]
fn unusable_workflow_is_reported_with_place() {
    let setup = with("{:turns [{:steps []}]}", "{:stages\n [{:id :a :body \"x\"\n   :tool []}]}");
    let mut bridge = setup.interactor();
    let told = start(&mut bridge, "/workflow w");
    assert_eq!(data(&told, "type"), "error");
    assert!(data(&told, "message").contains("w.edn:3:10: a stage has no :tool"), "{told}");
    let told = start(&mut bridge, "/workflow v");
    assert_eq!(data(&told, "message"), "There is no workflow \"v\"; there are fix-test, review-diff, w.");
    let told = start(&mut bridge, "/workflow fix-test --resume");
    assert_eq!(data(&told, "message"), "The workflow fix-test did not run in this session.");
}

#[test]
fn run_is_aborted_with_its_turn() {
    let script = format!("{{:turns [{}]}}", call("bash", r#"{:command "touch began; sleep 1000"}"#));
    let setup = with(&script, r#"{:stages [{:id :a :body "x" :tools ["bash"]} {:id :b :body "x"}]}"#);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    bridge.event("tool/executing");
    bridge.ask("stop", "abort", "{}");
    assert_eq!(end(&mut bridge), "Workflow w ended: aborted.");
    assert_eq!(support::kind(&bridge.ask("p", "prompt", "{:message \"hi\"}")), "response");
}

/// A workflow whose second stage asks the person before it does anything.
const GATE: &str = r#"{:stages [{:id :a :body "x" :assert [{:command "echo x >> a"}]}
                               {:id :b :body "y" :gate [{:confirm "Go on?"}] :next :end}]}"#;

#[test]
fn question_at_a_gate_is_asked_again_after_a_kill() {
    let setup = with("{:turns [{:steps [{:delta \"said\"}]}]}", GATE);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let session = data(&question, "session-id").to_owned();
    bridge.kill();
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    // A second kill changes nothing.
    bridge.kill();
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    let again = bridge.event("interaction/requested");
    assert_eq!(data(&again, "interaction-id"), data(&question, "interaction-id"));
    accept(&mut bridge, &again, ":value {:ok true}");
    assert_eq!(end(&mut bridge), "Workflow w ended: done.");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "x\n", "the stage a ran once");
}

#[test]
fn answer_at_a_gate_holds_over_a_kill() {
    let setup = with("{:turns [{:steps [{:delta \"said\"}]}]}", GATE);
    let mut setup = setup.env("EDN_BRIDGE_CRASH_AT", "answer-journalled");
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let (session, id) = (data(&question, "session-id").to_owned(), data(&question, "interaction-id"));
    let answer = format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:ok false}}}}");
    bridge.request("r", "interaction_respond", &answer);
    while bridge.line_or_end().is_some() {}
    setup.environment.clear();
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    assert!(end(&mut bridge).contains("the user said no"), "{}", bridge.told());
    assert!(!bridge.told().contains(":event \"interaction/requested\""), "{}", bridge.told());
}

#[test]
fn message_gives_up_a_workflow_that_waits_at_its_gate() {
    let setup = with("{:turns [{:steps [{:delta \"said\"}]}]}", GATE);
    let mut bridge = setup.interactor();
    start(&mut bridge, "/workflow w");
    let question = bridge.event("interaction/requested");
    let session = data(&question, "session-id").to_owned();
    bridge.kill();
    // Nobody is there who answers.
    let mut bridge = setup.ready();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    bridge.ask("p", "prompt", "{:message \"other\"}");
    bridge.event("turn/ended");
    assert!(journal(&setup).contains(":event \"interrupted\""));
    bridge.ask("some", "subscribe", "{:topics [\"ui/dialog-requested\"]}");
    bridge.ask("p", "prompt", "{:message \"another\"}");
    bridge.event("turn/ended");
    assert!(!bridge.told().contains(":event \"ui/dialog-requested\""), "{}", bridge.told());
}
