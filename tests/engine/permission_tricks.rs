//! What a model may do without approval, one trick per row, over the real wire.
//!
//! `make tricks` prints the tables with the result of each row.

use crate::support;

use std::os::unix::fs::symlink;

use edn_bridge::message::Mode;
use edn_bridge::tool::permission::{self, Access, Act, Ground, Rule, Run, Verdict};
use edn_bridge::value::{Owned, Value};
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
    bridge.ask("answer", "interaction_respond", &params);
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
    let edit = |path: &str, old: &str| {
        format!("{{:name \"edit\" :arguments {{:path {path:?} :edits [{{:old {old:?} :new \"x\"}}]}}}}")
    };
    // The trick, the call, and what comes of it in the modes ask, accept-edits and read-only.
    let rows = [
        ("none", read("in.txt"), ["run", "run", "run"]),
        ("parent folder", read("../out.txt"), ["ask", "ask", "ask"]),
        ("parent folder, later", read("sub/../../out.txt"), ["ask", "ask", "ask"]),
        ("absolute", read("/etc/passwd"), ["ask", "ask", "ask"]),
        ("doubled slashes", read("//etc//passwd"), ["ask", "ask", "ask"]),
        ("dots that mean nothing", read(".//./in.txt"), ["run", "run", "run"]),
        ("link to a folder", read("door/out.txt"), ["ask", "ask", "ask"]),
        ("link out and back in", read("door/../project/in.txt"), ["run", "run", "run"]),
        ("link to a file", read("file-link"), ["ask", "ask", "ask"]),
        ("link to a link", read("link-link"), ["ask", "ask", "ask"]),
        ("home folder", read("~/.ssh/id_rsa"), ["ask", "ask", "ask"]),
        ("the process's own root", read("/proc/self/root/etc/passwd"), ["ask", "ask", "ask"]),
        ("the process's own folder", read("/proc/self/cwd/../out.txt"), ["ask", "ask", "ask"]),
        ("parent of nothing", read("nothing/../../../etc/passwd"), ["fail", "fail", "fail"]),
        ("links in a circle", read("circle"), ["fail", "fail", "fail"]),
        // An edit that cannot be made tells what is in the file, so it is no way to read one.
        ("a guess at a text inside", edit("in.txt", "guess"), ["fail", "fail", "deny"]),
        ("a guess at a text outside", edit("../out.txt", "guess"), ["ask", "ask", "deny"]),
        ("a guess through a link", edit("door/out.txt", "guess"), ["ask", "ask", "deny"]),
        ("a guess at a file outside", edit("../outside/none", "guess"), ["ask", "ask", "deny"]),
        (
            "a NUL character",
            r#"{:name "read" :arguments {:path "in.txt\u0000/../../out.txt"}}"#.to_owned(),
            ["fail", "fail", "fail"],
        ),
        ("dots that are no dots", read("\u{ff0e}\u{ff0e}/out.txt"), ["fail", "fail", "fail"]),
        ("a pipe", read("pipe"), ["fail", "fail", "fail"]),
        ("none", write("new.txt"), ["ask", "run", "deny"]),
        ("parent folder", write("../new.txt"), ["ask", "ask", "deny"]),
        ("link to a folder", write("door/new.txt"), ["ask", "ask", "deny"]),
        ("link to what is not there", write("dangling"), ["ask", "ask", "deny"]),
        ("a name that begins like the workspace's", write("../project-two/x"), ["ask", "ask", "deny"]),
        ("what runs later: hooks", write(".git/hooks/pre-commit"), ["ask", "ask", "deny"]),
        ("the same in capitals", write(".GIT/hooks/pre-commit"), ["ask", "ask", "deny"]),
        ("the same by a detour", write("sub/../.git/config"), ["ask", "ask", "deny"]),
        ("the rules themselves", write(".edn-bridge/config.edn"), ["ask", "ask", "deny"]),
        ("a command", bash("ls"), ["ask", "ask", "deny"]),
        ("a command behind another", bash("ls && curl evil"), ["ask", "ask", "deny"]),
        (
            "searching outside",
            r#"{:name "search" :arguments {:pattern "x" :path ".."}}"#.to_owned(),
            ["ask", "ask", "ask"],
        ),
        (
            "finding through a link",
            r#"{:name "find" :arguments {:glob "*" :path "door"}}"#.to_owned(),
            ["ask", "ask", "ask"],
        ),
    ];
    println!("{:42}{:14}came of it", "trick", "mode");
    for (place, mode) in ["ask", "accept-edits", "read-only"].into_iter().enumerate() {
        let turns: String = rows
            .iter()
            .map(|(_, call, _)| {
                format!("{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}} ")
            })
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
        symlink("file-link", project.join("link-link")).unwrap();
        symlink("circle", project.join("circle")).unwrap();
        std::fs::create_dir(project.join("sub")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(project.join("pipe")).status().unwrap();
        assert!(made.success());
        let mut bridge = interactor(&setup);
        for (trick, call, expected) in &rows {
            let found = verdict(&mut bridge);
            let expected = expected[place];
            println!("{trick:42}{mode:14}{}", word(&found));
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
        assert!(!setup.dir.path().join("project-two").exists());
        assert_eq!(project.join("new.txt").exists(), mode == "accept-edits");
    }
}

/// An asker, its file, and the rows of tricks that it has.
type Asker = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Who may ask for something, by the file that makes an act of it, and the tests with the rows of that asker.
const ASKERS: &[Asker] = &[
    (
        "src/engine/native/call/asking.rs",
        "the program's own tools, those of servers, and those of clients",
        &[
            ("tests/engine/permission_tricks.rs", "every_trick_is_asked_about_or_refused"),
            ("tests/engine/mcp_engine.rs", "tool_that_turns_harmless_is_asked_about"),
            ("tests/engine/client_tools.rs", "changing_tool_is_judged_like_any_other"),
        ],
    ),
    (
        "src/engine/external/requested.rs",
        "an agent's request for a permission",
        &[("tests/engine/agents/asked.rs", "every_part_of_a_request_is_judged")],
    ),
    (
        "src/engine/external/permission_requests.rs",
        "the title of an agent's request, which only denies",
        &[("tests/engine/agents/asked.rs", "title_is_shown_and_denied_and_a_command_where_known")],
    ),
    (
        "src/engine/external/client_methods.rs",
        "an agent's files and terminals",
        &[
            ("tests/engine/agents/asked.rs", "files_are_served_under_our_rules"),
            ("tests/engine/agents/asked.rs", "terminal_starts_what_was_judged_and_shown"),
        ],
    ),
    (
        "src/engine/actor/message_context.rs",
        "attached files",
        &[("tests/engine/permission_tricks.rs", "own_secrets_in_the_workspace_are_neither_read_nor_found")],
    ),
    (
        "src/engine/actor/undo.rs",
        "undoing",
        &[("tests/engine/tool_calls.rs", "denied_file_is_skipped_by_undo_and_denied_turn_kept")],
    ),
    (
        "src/engine/native/call/web_search.rs",
        "the search of a model's provider",
        &[("tests/engine/hosted/web_search.rs", "first_offer_is_asked_about_unless_a_rule_decides")],
    ),
    (
        "src/tool/redirect_policy.rs",
        "redirects of a fetch",
        &[("tests/engine/fetch.rs", "redirect_is_followed_where_a_call_might_go")],
    ),
];

#[test]
fn every_asker_has_rows() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut makers = Vec::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if (code.contains("Act::of(") || code.contains("Act {"))
                && !name.starts_with("src/tool/permission")
            {
                makers.push(name);
            }
        }
    }
    makers.sort();
    let mut known: Vec<&str> = ASKERS.iter().map(|(file, ..)| *file).collect();
    known.sort_unstable();
    assert_eq!(makers, known, "each file that makes an act is an asker, and has rows");
    for (file, asker, tests) in ASKERS {
        assert!(!tests.is_empty(), "{asker} ({file}) has no rows");
        for (test, name) in *tests {
            let text = std::fs::read_to_string(root.join(test)).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{asker}: {test} has no test {name}");
        }
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
fn untrusted_project_cannot_widen_configured_rules() {
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
fn sandboxed_command_cannot_write_outside_workspace() {
    let setup = calling(
        r#"{:name "bash" :arguments {:command "echo x > inside; echo x > ../outside; echo x > $TMPDIR/t; cat /etc/passwd > /dev/null && echo read"}}"#,
    );
    let tmp = setup.dir.path().join("tmp");
    let mut bridge = interactor(&setup);
    let question = verdict(&mut bridge);
    answer(&mut bridge, &question, "{:outcome \"approve\" :scope \"once\"}", "");
    let result = bridge.event("tool/result");
    assert!(data(&result, &["result-text"]).contains("read"), "{result}");
    assert!(setup.project().join("inside").exists() && tmp.join("t").exists(), "{result}");
    let restricted =
        edn_bridge::runner::sandbox::state() == edn_bridge::runner::sandbox::SandboxState::Enforced;
    assert_eq!(setup.dir.path().join("outside").exists(), !restricted, "{result}");
}

/// Ways to run `touch made` where only `ls` is allowed, and the command as it is written.
const HIDDEN: &[(&str, &str)] = &[
    ("and", "ls && touch made"),
    ("or", "ls || touch made"),
    ("one after the other", "ls; touch made"),
    ("a pipe", "ls | xargs touch"),
    ("a pipe with errors", "ls |& touch made"),
    ("in the background", "ls & touch made"),
    ("a line end", "ls\ntouch made"),
    ("a carriage return", "ls\rtouch made"),
    ("substitution", "ls $(touch made)"),
    ("substitution in quotes", "ls \"$(touch made)\""),
    ("backticks", "ls `touch made`"),
    ("process substitution", "ls <(touch made)"),
    ("redirection", "ls > made"),
    ("redirection without a blank", "ls>made"),
    ("here-document", "ls <<X\n$(touch made)\nX"),
    ("assignment", "LS=1 touch made"),
    ("assignment of the path", "PATH=. ls"),
    ("a variable as the command", "X=touch; $X made"),
    ("another shell", "sh -c 'touch made'"),
    ("another program that runs it", "env touch made"),
    ("eval", "eval 'touch made'"),
    ("exec", "exec touch made"),
    ("command", "command touch made"),
    ("sourcing", ". ./made"),
    ("a function", "ls() { touch made; }; ls"),
    ("an alias", "alias ls='touch made'\nls"),
    ("a subshell", "(touch made)"),
    ("a group", "{ touch made; }"),
    ("a condition", "if ls; then touch made; fi"),
    ("a negation", "! touch made"),
    ("arithmetic", "ls $((1))"),
    ("braces", "{touch,made}"),
    ("a glob", "ls *"),
    ("an escape", "\\touch made"),
    ("a comment", "ls # touch made"),
    ("a quote that does not end", "ls 'x"),
    ("a path to another ls", "./ls"),
    ("capitals", "LS"),
    ("letters that look alike", "l\u{455}"),
    ("letters of full width", "\u{ff4c}\u{ff53}"),
    ("a letter without width", "l\u{200b}s"),
    ("a blank that is none", "ls\u{a0}x"),
    ("a name that begins alike", "lsof"),
];

#[test]
fn a_rule_for_a_command_allows_nothing_that_is_hidden_behind_it() {
    let call = |command: &str| {
        let command =
            command.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
        format!(
            "{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command \"{command}\"}}}}}}]}} {{:steps [{{:delta \"end\"}}]}} "
        )
    };
    // What a rule allows runs, in quotes too; whatever else is asked about.
    let plain = [("none", "ls"), ("none", "ls -l; ls"), ("quotes", "'l's"), ("two of them", "ls && ls")];
    let rows: Vec<(&str, &str, &str)> = plain
        .iter()
        .map(|(trick, command)| (*trick, *command, "run"))
        .chain(HIDDEN.iter().map(|(trick, command)| (*trick, *command, "ask")))
        .collect();
    let turns: String = rows.iter().map(|(_, command, _)| call(command)).collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns}]}}"));
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, r#"{:permissions {:rules [{:decision :allow :tool "bash" :command "ls"}]}}"#)
        .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = interactor(&setup);
    for (trick, command, expected) in rows {
        let found = verdict(&mut bridge);
        println!("{trick:42}{command:?}  {}", word(&found));
        assert_eq!(word(&found), expected, "{trick}: {command}\n{found}");
        if expected == "ask" {
            assert_eq!(data(&found, &["payload", "command"]), command, "it is shown as it would run");
            answer(&mut bridge, &found, "{:outcome \"deny\"}", "");
        }
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    }
    assert!(!setup.project().join("made").exists());
}

#[test]
fn a_denied_command_is_denied_however_it_is_hidden_even_in_yolo() {
    // Those that do not name what is denied are what others are in yolo: they may run.
    let named: Vec<_> = HIDDEN.iter().filter(|(_, command)| command.contains("touch")).collect();
    let call = |command: &str| {
        let command =
            command.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
        format!(
            "{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command \"{command}\"}}}}}}]}} {{:steps [{{:delta \"end\"}}]}} "
        )
    };
    let turns: String = named.iter().map(|(_, command)| call(command)).collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns}]}}")).arg("--yolo");
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, r#"{:permissions {:rules [{:decision :deny :tool "bash" :command "touch"}]}}"#)
        .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = interactor(&setup);
    for (trick, command) in named {
        let found = verdict(&mut bridge);
        assert_eq!(word(&found), "deny", "{trick}: {command}\n{found}");
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    }
    assert!(!setup.project().join("made").exists());
}

#[test]
fn a_link_that_is_made_while_the_person_thinks_is_not_followed() {
    let setup = calling(r#"{:name "write" :arguments {:path "sub/new.txt" :content "x"}}"#);
    let outside = setup.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(setup.project().join("sub")).unwrap();
    let mut bridge = interactor(&setup);
    let question = verdict(&mut bridge);
    assert_eq!(word(&question), "ask");
    std::fs::remove_dir(setup.project().join("sub")).unwrap();
    symlink(&outside, setup.project().join("sub")).unwrap();
    answer(&mut bridge, &question, "{:outcome \"approve\" :scope \"once\"}", "");
    let result = bridge.event("tool/result");
    assert!(data(&result, &["result-text"]).contains("leads elsewhere"), "{result}");
    assert!(!outside.join("new.txt").exists());
}

/// The rule that is suggested for a command, and what comes of another one where that rule holds.
fn after(approved: &str, then: &str) -> (Rule, &'static str) {
    let ground = Ground::from(std::path::Path::new("/w"));
    let run = |command: &str| Act::of("bash", Access::Run(Run::line(command)));
    let verdict = permission::judge(Mode::Ask, &[], &ground, &run(approved));
    let Verdict::Ask(Some(rule)) = verdict else { panic!("{approved}: {verdict:?}") };
    match permission::judge(Mode::Ask, std::slice::from_ref(&rule), &ground, &run(then)) {
        Verdict::Allow => (rule, "run"),
        Verdict::Ask(_) => (rule, "ask"),
        Verdict::Deny(_) => (rule, "deny"),
    }
}

#[test]
fn a_suggested_rule_allows_its_program_and_no_other() {
    let table = edn_bridge::edn::read_one(include_bytes!("../permission/pairs.edn")).unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (group, expected) in [("asks", "ask"), ("runs", "run")] {
        for row in table.get(group).and_then(Value::as_slice).unwrap() {
            let row: Vec<&str> = row.as_slice().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
            let (rule, same) = after(row[0], row[0]);
            assert_eq!(same, "run", "what was approved runs: {}: {}", row[0], rule.to_value());
            for then in &row[1..] {
                count += 1;
                let (_, found) = after(row[0], then);
                println!("{:42}{then:?}  {found}", row[0]);
                if found != expected {
                    wrong.push(format!("{} by {}: {then}: {found}, not {expected}", row[0], rule.to_value()));
                }
            }
        }
    }
    println!("{count} pairs");
    assert!(wrong.is_empty(), "{} of {count} pairs:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 500, "{count} pairs");
}

#[test]
fn a_denied_command_is_refused_in_every_dress() {
    let table = edn_bridge::edn::read_one(include_bytes!("../permission/pairs.edn")).unwrap();
    let ground = Ground::from(std::path::Path::new("/w"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (group, refused) in [("denies", true), ("permits", false)] {
        for row in table.get(group).and_then(Value::as_slice).unwrap() {
            let row: Vec<&str> = row.as_slice().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
            let rule = format!("{{:decision :deny :tool \"bash\" :command {:?}}}", row[0]);
            let rule = Rule::read(&edn_bridge::edn::read_one(rule.as_bytes()).unwrap()).unwrap();
            for then in &row[1..] {
                count += 1;
                let run = Act::of("bash", Access::Run(Run::line(*then)));
                let verdict = permission::judge(Mode::Yolo, std::slice::from_ref(&rule), &ground, &run);
                let found = matches!(verdict, Verdict::Deny(_));
                println!("{:42}{then:?}  {}", row[0], if found { "refused" } else { "runs" });
                if found != refused {
                    wrong.push(format!("{}: {then}: {verdict:?}", row[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 80, "{count}");
}

#[test]
fn what_is_allowed_in_one_project_is_asked_about_in_another() {
    let setup = calling(r#"{:name "bash" :arguments {:command "touch made"}}"#);
    let (here, other) = (setup.project(), setup.dir.path().join("other"));
    for (folder, config) in [
        // This one is trusted, with all that a project can say.
        (
            &here,
            r#"{:mode :accept-edits :permissions {:rules [{:decision :allow :tool "bash"}]}
                :hooks [{:stage :tool-call :point :pre :kind :observer :command ["touch" "hook-ran"]}]}"#,
        ),
        (&other, r#"{:permissions {:rules [{:decision :deny :tool "write"}]}}"#),
    ] {
        std::fs::create_dir_all(folder.join(".edn-bridge")).unwrap();
        std::fs::write(folder.join(".edn-bridge/config.edn"), config).unwrap();
    }
    // A session of the other folder, from a process there.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_edn-bridge"));
    command.env("EDN_BRIDGE_DAEMON", "never");
    setup.folders(&mut command);
    command.arg("--state-dir").arg(setup.state()).arg("--cwd").arg(&other).arg("serve");
    command.arg("--script").arg(setup.dir.path().join("script.edn"));
    std::fs::write(setup.dir.path().join("script.edn"), "{:turns [{:steps [{:delta \"hello\"}]}]}").unwrap();
    let mut there = Bridge::start(&mut command);
    there.handshake();
    there.ask("all", "subscribe", "{}");
    there.ask("p", "prompt", "{:message \"hi\"}");
    there.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    let file = there.ask("q", "query_eql", "{:query \"[:psi.agent-session/session-file]\"}");
    let file = at(&file, &["data", "result", "psi.agent-session/session-file"]).unwrap().to_string();
    there.finish();

    let mut bridge = interactor(&setup);
    bridge.ask("t", "trust_project", "{:trusted true}");
    assert_eq!(word(&verdict(&mut bridge)), "run");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    assert!(here.join("made").exists() && here.join("hook-ran").exists());
    // A rule that was kept here holds here.
    let kept = format!(
        "{{:workspace {:?} :form 2 :rule {{:decision :allow :tool \"bash\" :command \"touch made\" :exact true}}}}\n",
        here.canonicalize().unwrap()
    );
    std::fs::write(setup.state().join("rules.edn"), kept).unwrap();
    bridge.ask("r", "command", "{:text \"/reload\"}");
    bridge.event("command-result");
    let opened = bridge.ask("s", "switch_session", &format!("{{:session-path {file}}}"));
    assert_eq!(support::kind(&opened), "response", "{opened}");
    let found = verdict(&mut bridge);
    assert_eq!(word(&found), "ask", "{found}");
    answer(&mut bridge, &found, "{:outcome \"deny\"}", "");
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    let rules = "{:query \"[{:psi.agent-session/rules [:psi.rule/decision]} :psi.agent-session/mode]\"}";
    println!("{}", bridge.ask("rules", "query_eql", rules));
    assert!(!other.join("made").exists() && !other.join("hook-ran").exists());
    // Trust is given to the session's own folder.
    bridge.ask("t2", "trust_project", "{:trusted true}");
    let list = std::fs::read_to_string(setup.state().join("trusted.edn")).unwrap();
    assert!(list.contains(other.canonicalize().unwrap().to_str().unwrap()), "{list}");
}

#[test]
fn a_home_folder_as_workspace_keeps_what_runs_later() {
    let write = |path: &str| format!("{{:name \"write\" :arguments {{:path {path:?} :content \"x\"}}}}");
    let rows = [
        ("notes.txt", "run"),
        (".bashrc", "ask"),
        (".ssh/authorized_keys", "ask"),
        (".config/autostart/x.desktop", "ask"),
        ("settings/edn-bridge/config.edn", "ask"),
        ("sub/.envrc", "ask"),
    ];
    let turns: String = rows
        .iter()
        .map(|(path, _)| {
            format!("{{:steps [{{:tool-call {}}}]}} {{:steps [{{:delta \"end\"}}]}} ", write(path))
        })
        .collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns}]}}")).arg("--mode").arg("accept-edits");
    let home = setup.project();
    std::fs::create_dir_all(home.join("settings/edn-bridge")).unwrap();
    let settings = home.join("settings").to_str().unwrap().to_owned();
    let setup = setup.env("HOME", home.to_str().unwrap()).env("XDG_CONFIG_HOME", &settings);
    let mut bridge = interactor(&setup);
    for (path, expected) in rows {
        let found = verdict(&mut bridge);
        assert_eq!(word(&found), expected, "{path}\n{found}");
        if expected == "ask" {
            answer(&mut bridge, &found, "{:outcome \"deny\"}", "");
        }
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    }
    assert!(home.join("notes.txt").exists() && !home.join(".bashrc").exists());
}

#[test]
fn own_secrets_in_the_workspace_are_neither_read_nor_found() {
    let calls = [
        r#"{:name "read" :arguments {:path "settings/edn-bridge/config.edn"}}"#,
        r#"{:name "search" :arguments {:pattern "canary|notes"}}"#,
        r#"{:name "find" :arguments {:glob "*.edn"}}"#,
        r#"{:name "read" :arguments {:path "settings/edn-bridge"}}"#,
    ];
    let turns: String = calls
        .iter()
        .map(|call| format!("{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}} "))
        .collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns} {{:steps [{{:echo :last-user}}]}}]}}"));
    let home = setup.project();
    std::fs::create_dir_all(home.join("settings/edn-bridge")).unwrap();
    std::fs::write(home.join("settings/edn-bridge/config.edn"), "{:mode :ask ; canary\n}").unwrap();
    std::fs::write(home.join("settings/edn-bridge/a.txt"), "notes").unwrap();
    let settings = home.join("settings").to_str().unwrap().to_owned();
    let setup = setup.env("HOME", home.to_str().unwrap()).env("XDG_CONFIG_HOME", &settings);
    let mut bridge = interactor(&setup);
    let idle = |bridge: &mut Bridge| {
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, &["phase"]) == "idle");
    };
    let found = verdict(&mut bridge);
    assert_eq!(word(&found), "ask", "{found}");
    let warnings = at(&found, &["data", "payload", "warnings"]).unwrap().to_string();
    assert!(warnings.contains("this program's own"), "{warnings}");
    answer(&mut bridge, &found, "{:outcome \"deny\"}", "");
    idle(&mut bridge);
    for others in ["settings/edn-bridge/a.txt:1:notes", "[no files]", "a.txt"] {
        let found = verdict(&mut bridge);
        let text = data(&found, &["result-text"]);
        assert_eq!(word(&found), "run", "{found}");
        assert!(!text.contains("canary") && !text.contains("config.edn"), "{text}");
        assert!(text.contains(others) || others == "[no files]", "{text}");
        idle(&mut bridge);
    }
    bridge.ask("p", "prompt", "{:message \"see @settings/edn-bridge/config.edn\"}");
    let told = bridge.event("assistant/message");
    assert!(!told.to_string().contains("canary"), "{told}");
}

#[test]
fn file_that_the_own_configuration_runs_is_guarded() {
    let calls = ["check.sh", "server.py", "key", "later.sh", "other.sh"]
        .map(|name| format!("{{:name \"write\" :arguments {{:path \"tools/{name}\" :content \"x\"}}}}"));
    let turns: String = calls
        .iter()
        .map(|call| format!("{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}} "))
        .collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns}]}}"));
    let tools = setup.project().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("check.sh"), "").unwrap();
    let tools = tools.to_str().unwrap();
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "{{:hooks [{{:id \"h\" :stage :render :point :post :kind :observer :command [\"{tools}/check.sh\"]}}]
          :mcp {{\"m\" {{:command [\"python3\" \"{tools}/server.py\"] :enabled false}}
                \"n\" {{:command [\"sh\" \"-c\" \"exec {tools}/later.sh\"] :enabled false}}}}
          :providers {{\"p\" {{:base-url \"https://llm.example.com/v1\" :key-command [\"{tools}/key\"]}}}}}}"
    );
    std::fs::write(folder.join("config.edn"), config).unwrap();
    let mut bridge = interactor(&setup);
    bridge.ask("m", "set_mode", "{:mode \"accept-edits\"}");
    for name in ["check.sh", "server.py", "key", "later.sh"] {
        let found = verdict(&mut bridge);
        assert_eq!(word(&found), "ask", "{name}: {found}");
        assert!(found.to_string().contains("the user's own configuration runs it"), "{found}");
        answer(&mut bridge, &found, "{:outcome \"deny\"}", "");
        bridge.until(|frame| is_event(frame, "turn/ended"));
    }
    let found = verdict(&mut bridge);
    assert_eq!(word(&found), "run", "{found}");
}
