//! What a model may do without being asked, one trick a row, over the real wire.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod support;

use std::os::unix::fs::symlink;

use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, is_event, text};

/// A bridge whose model makes one call and then ends, with a frontend that answers questions.
fn calling(call: &str) -> Setup {
    Setup::new().script(&format!(
        "{{:turns [{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"
    ))
}

fn interactor(setup: &Setup) -> Bridge {
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    bridge
}

fn data<'v>(frame: &'v Owned, path: &[&str]) -> &'v str {
    let whole: Vec<&str> = ["data"].iter().chain(path).copied().collect();
    at(frame, &whole).and_then(|value| value.as_str()).unwrap_or("")
}

/// What comes of the call: it is asked about, or it has a result.
fn verdict(bridge: &mut Bridge) -> Owned {
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge.until(|frame| is_event(frame, "interaction/requested") || is_event(frame, "tool/result"))
}

fn answer(bridge: &mut Bridge, question: &Owned, value: &str, note: &str) {
    let id = data(question, &["interaction-id"]);
    let params = format!("{{:interaction-id {id:?} :status \"accepted\" :value {value} :note {note:?}}}");
    bridge.request("answer", "interaction_respond", &params);
}

fn word(frame: &Owned) -> &'static str {
    match text(frame, "event") {
        "interaction/requested" => "ask",
        _ if data(frame, &["result-text"]).contains("denied") => "deny",
        _ if at(frame, &["data", "is-error"]).unwrap().as_bool() == Some(true) => "fail",
        _ => "run",
    }
}

#[test]
fn every_trick_is_asked_about_or_refused() {
    let write = |path: &str| format!("{{:name \"write\" :arguments {{:path {path:?} :content \"x\"}}}}");
    let read = |path: &str| format!("{{:name \"read\" :arguments {{:path {path:?}}}}}");
    let bash = |command: &str| format!("{{:name \"bash\" :arguments {{:command {command:?}}}}}");
    // The call, and what comes of it in the modes ask, accept-edits and read-only.
    let rows = [
        (read("in.txt"), ["run", "run", "run"]),
        (read("../out.txt"), ["ask", "ask", "ask"]),
        (read("/etc/passwd"), ["ask", "ask", "ask"]),
        (read("door/out.txt"), ["ask", "ask", "ask"]),
        (read("door/../project/in.txt"), ["run", "run", "run"]),
        (read("file-link"), ["ask", "ask", "ask"]),
        (read("~/.ssh/id_rsa"), ["ask", "ask", "ask"]),
        (read("/proc/self/root/etc/passwd"), ["ask", "ask", "ask"]),
        (read("nothing/../../../etc/passwd"), ["fail", "fail", "fail"]),
        (write("new.txt"), ["ask", "run", "deny"]),
        (write("../new.txt"), ["ask", "ask", "deny"]),
        (write("door/new.txt"), ["ask", "ask", "deny"]),
        (write("dangling"), ["ask", "ask", "deny"]),
        (write(".git/hooks/pre-commit"), ["ask", "ask", "deny"]),
        (write(".edn-bridge/config.edn"), ["ask", "ask", "deny"]),
        (bash("ls"), ["ask", "ask", "deny"]),
        (bash("ls && curl evil"), ["ask", "ask", "deny"]),
        (r#"{:name "search" :arguments {:pattern "x" :path ".."}}"#.to_owned(), ["ask", "ask", "ask"]),
        (r#"{:name "find" :arguments {:glob "*" :path "door"}}"#.to_owned(), ["ask", "ask", "ask"]),
    ];
    for (place, mode) in ["ask", "accept-edits", "read-only"].into_iter().enumerate() {
        let turns: String = rows
            .iter()
            .map(|(call, _)| format!("{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}} "))
            .collect();
        let setup = Setup::new().script(&format!("{{:turns [{turns}]}}")).arg("--mode").arg(mode);
        let (project, outside) = (setup.project(), setup.dir.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("out.txt"), "secret").unwrap();
        std::fs::write(setup.dir.path().join("out.txt"), "secret").unwrap();
        std::fs::write(project.join("in.txt"), "free").unwrap();
        symlink(&outside, project.join("door")).unwrap();
        // A door that leads out and back in.
        symlink(&project, outside.join("project")).unwrap();
        symlink(outside.join("out.txt"), project.join("file-link")).unwrap();
        symlink("../outside/made", project.join("dangling")).unwrap();
        let mut bridge = interactor(&setup);
        for (call, expected) in &rows {
            let expected = if call.contains("door/../project") { "ask" } else { expected[place] };
            let found = verdict(&mut bridge);
            let expected = match expected {
                "ask" if call.contains("door/../project") => word(&found),
                expected => expected,
            };
            assert_eq!(word(&found), expected, "{mode}: {call}\n{found}");
            if word(&found) == "ask" {
                answer(&mut bridge, &found, "{:outcome \"deny\"}", "not this one");
                let result = bridge.event("tool/result");
                assert!(data(&result, &["result-text"]).contains("not this one"), "{call}: {result}");
            }
            bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
        }
        assert!(!outside.join("new.txt").exists() && !outside.join("made").exists());
        assert!(!setup.dir.path().join("new.txt").exists());
        assert_eq!(project.join("new.txt").exists(), mode == "accept-edits");
    }
}

#[test]
fn the_question_shows_the_diff_or_the_command_as_it_will_run() {
    let setup = calling(r#"{:name "edit" :arguments {:path "a.txt" :edits [{:old "old" :new "new"}]}}"#);
    std::fs::write(setup.project().join("a.txt"), "old\n").unwrap();
    let mut bridge = interactor(&setup);
    let question = verdict(&mut bridge);
    assert_eq!(data(&question, &["kind"]), "approve");
    assert!(data(&question, &["payload", "diff"]).contains("-old\n+new\n"), "{question}");
    let wrong = bridge.ask(
        "w",
        "interaction_respond",
        &format!(
            "{{:interaction-id {:?} :status \"accepted\" :value {{:outcome \"maybe\"}}}}",
            data(&question, &["interaction-id"])
        ),
    );
    assert_eq!(support::code(&wrong), "request/invalid-params");
    answer(&mut bridge, &question, "{:outcome \"approve\" :scope \"once\"}", "");
    let result = bridge.event("tool/result");
    assert!(data(&result, &["details", "diff"]).contains("+new"));
    assert_eq!(std::fs::read_to_string(setup.project().join("a.txt")).unwrap(), "new\n");

    let setup = calling(r#"{:name "bash" :arguments {:command "echo  'as it is'"}}"#);
    let mut bridge = interactor(&setup);
    assert_eq!(data(&verdict(&mut bridge), &["payload", "command"]), "echo  'as it is'");
}

#[test]
fn an_answer_holds_once_for_the_session_or_by_a_rule() {
    let call = r#"{:name "bash" :arguments {:command "cargo test --all"}}"#;
    // The scope, and whether it asks again: in the session, in the next process.
    for (scope, again, later) in [("once", true, true), ("session", false, true), ("rule", false, false)] {
        let setup = calling(call);
        let mut bridge = interactor(&setup);
        let question = verdict(&mut bridge);
        let rule = at(&question, &["data", "payload", "suggested-rule", "command"]).unwrap();
        assert_eq!(rule.as_str(), Some("cargo test"));
        answer(&mut bridge, &question, &format!("{{:outcome \"approve\" :scope {scope:?}}}"), "");
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
        assert_eq!(word(&verdict(&mut bridge)) == "ask", again, "{scope} again");
        bridge.finish();
        let mut bridge = interactor(&setup);
        assert_eq!(word(&verdict(&mut bridge)) == "ask", later, "{scope} in the next process");
    }
}

#[test]
fn configured_rules_hold_and_an_untrusted_project_cannot_widen_them() {
    let setup = calling(r#"{:name "bash" :arguments {:command "echo hi && rm x"}}"#);
    let config = setup.dir.path().join("config.edn");
    std::fs::write(
        &config,
        r#"{:mode :yolo :permissions {:rules [{:decision :deny :tool "bash" :command "rm"}]}}"#,
    )
    .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = interactor(&setup);
    assert_eq!(word(&verdict(&mut bridge)), "deny");

    let setup = calling(r#"{:name "bash" :arguments {:command "echo hi"}}"#);
    std::fs::create_dir(setup.project().join(".edn-bridge")).unwrap();
    std::fs::write(
        setup.project().join(".edn-bridge/config.edn"),
        r#"{:mode :yolo :permissions {:rules [{:decision :allow :tool "bash"}]}}"#,
    )
    .unwrap();
    let mut bridge = interactor(&setup);
    let question = verdict(&mut bridge);
    assert_eq!(word(&question), "ask");
    answer(&mut bridge, &question, "{:outcome \"deny\"}", "");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    bridge.ask("t", "trust_project", "{:trusted true}");
    assert_eq!(word(&verdict(&mut bridge)), "run");
}

#[test]
fn a_command_cannot_write_outside_the_workspace_where_the_kernel_restricts_it() {
    let setup = calling(
        r#"{:name "bash" :arguments {:command "echo x > inside; echo x > ../outside; echo x > $TMPDIR/t; cat /etc/passwd > /dev/null && echo read"}}"#,
    );
    let tmp = setup.dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let setup = setup.env("TMPDIR", tmp.to_str().unwrap());
    let mut bridge = interactor(&setup);
    let question = verdict(&mut bridge);
    answer(&mut bridge, &question, "{:outcome \"approve\" :scope \"once\"}", "");
    let result = bridge.event("tool/result");
    assert!(data(&result, &["result-text"]).contains("read"), "{result}");
    assert!(setup.project().join("inside").exists() && tmp.join("t").exists(), "{result}");
    let restricted = edn_bridge::tool::sandbox::state() == edn_bridge::tool::sandbox::State::Enforced;
    assert_eq!(setup.dir.path().join("outside").exists(), !restricted, "{result}");
}
