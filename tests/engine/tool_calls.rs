//! The tools over the real wire: effects, refusals, displayed and stored output.

use crate::support;

use edn_bridge::limits::{TOOL_EXCERPT_BYTES, TOOL_RESULT_BYTES};
use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, data, end_of_turn, is_event, kind, wait_until};

/// A bridge whose model makes these calls, each in an answer of its own.
fn calls(calls: &[&str]) -> Setup {
    let turns: String = calls.iter().map(|call| format!("{{:steps [{{:tool-call {call}}}]}} ")).collect();
    Setup::new().script(&format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}]}}")).arg("--yolo")
}

fn go(setup: &Setup) -> Bridge {
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge
}

fn result(bridge: &mut Bridge) -> Owned {
    bridge.event("tool/result")
}

fn failed(frame: &Owned) -> bool {
    at(frame, &["data", "is-error"]).and_then(|value| value.as_bool()).unwrap()
}

#[test]
fn a_file_is_written_read_edited_searched_and_found() {
    let setup = calls(&[
        r#"{:name "write" :arguments {:path "src/a.txt" :content "one\ntwo\nthree\n"}}"#,
        r#"{:name "read" :arguments {:path "src/a.txt" :offset 2 :limit 1}}"#,
        r#"{:name "edit" :arguments {:path "src/a.txt" :edits [{:old "three" :new "3"} {:old "one" :new "1"}]}}"#,
        r#"{:name "search" :arguments {:pattern "^t.o$"}}"#,
        r#"{:name "find" :arguments {:glob "*.txt"}}"#,
    ]);
    let mut bridge = go(&setup);
    let written = result(&mut bridge);
    assert!(
        at(&written, &["data", "details", "diff"]).unwrap().as_str().unwrap().contains("+++ b/src/a.txt")
    );
    let read = result(&mut bridge);
    assert!(data(&read, "result-text").starts_with("     2\ttwo\n[…"), "{read}");
    let edited = result(&mut bridge);
    let diff = at(&edited, &["data", "details", "diff"]).unwrap().as_str().unwrap();
    for line in ["-one", "+1", " two", "-three", "+3"] {
        assert!(diff.lines().any(|found| found == line), "{line}: {diff}");
    }
    assert_eq!(std::fs::read_to_string(setup.project().join("src/a.txt")).unwrap(), "1\ntwo\n3\n");
    assert_eq!(data(&result(&mut bridge), "result-text"), "src/a.txt:2:two\n");
    assert_eq!(data(&result(&mut bridge), "result-text"), "src/a.txt\n");
}

#[test]
fn call_that_times_out_leaves_its_sibling_alone() {
    let setup = Setup::new().arg("--yolo").script(
        r#"{:turns [{:steps [{:tool-call {:id "slow" :name "bash" :arguments {:command "sleep 600" :timeout-seconds 1}}}
                             {:tool-call {:id "other" :name "bash" :arguments {:command "sleep 2; echo said"}}}]}
                    {:steps [{:delta "end"}]}]}"#,
    );
    let mut bridge = go(&setup);
    let (first, second) = (result(&mut bridge), result(&mut bridge));
    assert_eq!((data(&first, "tool-id"), failed(&first)), ("slow", true), "{first}");
    assert!(data(&first, "result-text").contains("1 s"), "{first}");
    assert_eq!((data(&second, "tool-id"), failed(&second)), ("other", false), "{second}");
    assert_eq!(data(&second, "result-text"), "said\n");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "end");
}

#[test]
fn duration_of_a_call_excludes_its_wait_for_others() {
    let setup = Setup::new().arg("--yolo").script(
        r#"{:turns [{:steps [{:tool-call {:id "slow" :name "bash" :arguments {:command "sleep 2"}}}
                             {:tool-call {:id "other" :name "bash" :arguments {:command "true"}}}
                             {:tool-call {:id "unknown" :name "no-such-tool" :arguments {}}}]}
                    {:steps [{:delta "end"}]}]}"#,
    );
    let mut bridge = go(&setup);
    let mut took = |id| {
        let result = result(&mut bridge);
        assert_eq!(data(&result, "tool-id"), id, "{result}");
        at(&result, &["data", "duration-ms"]).and_then(|value| value.as_i64())
    };
    let slow = took("slow").unwrap();
    assert!(slow >= 2000, "{slow}");
    // Its result is told after that of the slow one.
    let other = took("other").unwrap();
    assert!(other < slow, "{other}");
    assert_eq!(took("unknown"), None, "a call that does not run takes no time");
}

#[test]
fn edits_of_one_file_in_one_answer_are_all_made_in_order() {
    for mode in ["accept-edits", "yolo"] {
        let calls: String = (0..4)
            .map(|n| {
                format!(
                    "{{:tool-call {{:name \"edit\" :arguments {{:path \"a\" :edits [{{:old \"END\" :new \"{n} END\"}}]}}}}}} \
                     {{:tool-call {{:name \"write\" :arguments {{:path \"b\" :content \"{n}\"}}}}}}"
                )
            })
            .collect();
        let script =
            format!("{{:turns [{{:steps [{calls}]}} {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}");
        let setup = Setup::new().script(&script);
        let mut bridge = setup.ready();
        bridge.ask("m", "set_mode", &format!("{{:mode {mode:?}}}"));
        let mut expected = String::new();
        for round in 0..5 {
            std::fs::write(setup.project().join("a"), "END").unwrap();
            bridge.ask("p", "prompt", "{:message \"go\"}");
            expected.clear();
            for _ in 0..8 {
                let result = result(&mut bridge);
                let text = data(&result, "result-text");
                assert!(
                    text.starts_with("Edited") || text.starts_with("Wrote"),
                    "{mode}, round {round}: {text}"
                );
            }
            end_of_turn(&mut bridge);
            bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
            (0..4).for_each(|n| expected.push_str(&format!("{n} ")));
            expected.push_str("END");
            assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), expected, "{mode}");
            assert_eq!(std::fs::read_to_string(setup.project().join("b")).unwrap(), "3", "{mode}");
        }
        let names = std::fs::read_dir(setup.project()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }
}

#[test]
fn what_cannot_be_done_is_said_to_the_model() {
    let cases = [
        (r#"{:name "edit" :arguments {:path "a" :edits [{:old "x" :new "y"}]}}"#, "2 times (lines 1)"),
        (
            r#"{:name "bash" :arguments {:command ["ls"]}}"#,
            "command must be a string; you sent a list. You sent: {",
        ),
        (r#"{:name "bash" :arguments {:command " "}}"#, "The command is empty"),
        (r#"{:name "red" :arguments {}}"#, "did you mean read"),
        (r#"{:name "read" :arguments {:path "folder/a"}}"#, "Did you mean a?"),
        (r#"{:name "edit" :arguments {:path "a" :edits []}}"#, "edits must be"),
        (r#"{:name "edit" :arguments {:path "none" :edits [{:old "x" :new "y"}]}}"#, "does not exist"),
        (r#"{:name "edit" :arguments {:path "folder/a" :edits [{:old "x" :new "y"}]}}"#, "did you mean a"),
        (r#"{:name "read" :arguments {:path "none"}}"#, "cannot be read"),
        (r#"{:name "read" :arguments {:path 7}}"#, "path must be a string"),
        (r#"{:name "read" :arguments {:path "binary"}}"#, "binary file"),
        (r#"{:name "search" :arguments {:pattern "("}}"#, "no regular expression"),
        (r#"{:name "write" :arguments {:path "folder" :content "x"}}"#, "no regular file"),
        (r#"{:name "fly" :arguments {}}"#, "There is no tool"),
        (r#"{:name "bash" :arguments {:command "exit 3"}}"#, "exit status 3"),
        (r#"{:name "bash" :arguments {:command "sleep 1000" :timeout-seconds 1}}"#, "ended after 1 seconds"),
    ];
    let setup = calls(&cases.map(|(call, _)| call));
    std::fs::write(setup.project().join("a"), "x x").unwrap();
    std::fs::write(setup.project().join("binary"), b"a\0b").unwrap();
    std::fs::create_dir(setup.project().join("folder")).unwrap();
    let mut bridge = go(&setup);
    for (call, expected) in cases {
        let result = result(&mut bridge);
        assert!(failed(&result) && data(&result, "result-text").contains(expected), "{call}: {result}");
    }
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "x x");
}

#[test]
fn write_over_a_text_that_the_model_has_not_seen_is_refused() {
    let (read, write) = (
        |path: &str| format!("{{:name \"read\" :arguments {{:path {path:?}}}}}"),
        |path: &str| format!("{{:name \"write\" :arguments {{:path {path:?} :content \"the model's\\n\"}}}}"),
    );
    let calls = [read("f"), write("f"), write("never-read"), read("f"), write("f"), write("new")];
    let turns: String = calls
        .iter()
        .map(|call| format!("{{:steps [{{:tool-call {call}}}]}} {{:steps [{{:delta \"end\"}}]}} "))
        .collect();
    for mode in ["ask", "accept-edits", "yolo"] {
        let setup = Setup::new().script(&format!("{{:turns [{turns}]}}"));
        let path = |name: &str| setup.project().join(name);
        std::fs::write(path("f"), "read\n").unwrap();
        std::fs::write(path("never-read"), "mine\n").unwrap();
        let mut bridge = setup.interactor();
        bridge.ask("s", "subscribe", "{}");
        bridge.ask("m", "set_mode", &format!("{{:mode {mode:?}}}"));
        let mut end_of_call = || {
            bridge.ask("p", "prompt", "{:message \"go\"}");
            let is_end =
                |frame: &Owned| is_event(frame, "interaction/requested") || is_event(frame, "tool/result");
            let mut end = bridge.until(is_end);
            let is_asked = is_event(&end, "interaction/requested");
            if is_asked {
                let params = format!(
                    "{{:interaction-id {:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}",
                    data(&end, "interaction-id")
                );
                bridge.ask("a", "interaction_respond", &params);
                end = result(&mut bridge);
            }
            bridge.event("turn/ended");
            (is_asked, failed(&end), data(&end, "result-text").to_owned())
        };
        assert!(!end_of_call().1);
        std::fs::write(path("f"), "somebody else's\n").unwrap();
        for name in ["f", "never-read"] {
            let (is_asked, is_error, text) = end_of_call();
            assert!(!is_asked && is_error && text.contains("read it first"), "{mode}, {name}: {text}");
        }
        assert_eq!(std::fs::read_to_string(path("f")).unwrap(), "somebody else's\n");
        assert_eq!(std::fs::read_to_string(path("never-read")).unwrap(), "mine\n");
        assert!(!end_of_call().1);
        // What it has read now, and what nobody has, it writes; in `ask` with a yes.
        for name in ["f", "new"] {
            let (is_asked, is_error, text) = end_of_call();
            assert_eq!((is_asked, is_error), (mode == "ask", false), "{mode}, {name}: {text}");
            assert_eq!(std::fs::read_to_string(path(name)).unwrap(), "the model's\n");
        }
    }
}

#[test]
fn long_output_is_shown_in_part_and_kept_whole() {
    let setup = calls(&[r#"{:name "bash" :arguments {:command "seq 1 100000; sleep 0.3; echo end"}}"#]);
    let mut bridge = go(&setup);
    let update = bridge.event("tool/update");
    assert!(data(&update, "result-text").len() <= TOOL_EXCERPT_BYTES);
    let result = result(&mut bridge);
    let shown = data(&result, "result-text");
    assert!(
        shown.len() < TOOL_RESULT_BYTES + 300 && shown.starts_with("1\n2\n") && shown.ends_with("\nend\n")
    );
    let handle = at(&result, &["data", "details", "handle"]).unwrap().as_str().unwrap();
    let expected: String = (1..=100_000).map(|n| format!("{n}\n")).collect::<String>() + "end\n";
    let mut whole = String::new();
    loop {
        let params = format!("{{:handle {handle:?} :offset {} :limit 200000}}", whole.len());
        let part = bridge.ask("r", "read_output", &params);
        assert_eq!(at(&part, &["data", "size"]).unwrap().as_i64(), i64::try_from(expected.len()).ok());
        match data(&part, "text") {
            "" => break,
            text => whole.push_str(text),
        }
    }
    assert!(whole == expected, "what was kept differs");
    assert_eq!(code(&bridge.ask("r", "read_output", "{:handle \"../../rules\"}")), "request/not-found");
}

#[test]
fn call_that_means_one_thing_is_repaired_and_says_so() {
    let setup = calls(&[
        r#"{:name "functions.Read" :arguments {:file_path "a" :offset "2" :limit 1.0}}"#,
        r#"{:name "str_replace" :arguments {:path "a" :old_string "two" :new_string "2"}}"#,
        r#"{:name "Glob" :arguments {:pattern "a"}}"#,
    ]);
    std::fs::write(setup.project().join("a"), "one\ntwo\n").unwrap();
    let mut bridge = go(&setup);
    let read = result(&mut bridge);
    assert_eq!(data(&read, "tool-name"), "read");
    let text = data(&read, "result-text");
    assert!(text.contains("     2\ttwo\n") && text.contains("offset was text; taken as 2."), "{text}");
    let edited = result(&mut bridge);
    assert!(!failed(&edited) && data(&edited, "result-text").contains("taken as one of edits"), "{edited}");
    assert_eq!(std::fs::read_to_string(setup.project().join("a")).unwrap(), "one\n2\n");
    let found = result(&mut bridge);
    assert!(data(&found, "result-text").starts_with("a\n[The tool \"Glob\" was taken as find."), "{found}");
}

#[test]
fn commands_have_variables_for_nobody_at_the_terminal() {
    let command = "echo $GIT_EDITOR $TERM $EDITOR $MINE";
    let call = format!("{{:name \"bash\" :arguments {{:command {command:?} :timeout-seconds 0}}}}");
    let setup = calls(&[&call]);
    let config = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&config).unwrap();
    let own = r#"{:commands {:environment {"EDITOR" "ed" "MINE" "own"}}}"#;
    std::fs::write(config.join("config.edn"), own).unwrap();
    let mut bridge = go(&setup);
    let text = "true dumb ed own\n[timeout-seconds was 0; the command had 120]";
    assert_eq!(data(&result(&mut bridge), "result-text"), text);
    let users = bridge.ask("b", "bash", "{:command \"echo $MINE.\"}");
    assert_eq!(data(&users, "output"), ".\n", "the user's own commands have the user's variables");
}

#[test]
fn kept_output_opens_for_a_command_in_the_sandbox() {
    let setup = Setup::new();
    let read = format!("cat {}/*/o-*.txt | tail -n 1", setup.state().join("outputs").display());
    let turns = ["seq 1 100000", &read].map(|command| {
        format!("{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {command:?}}}}}}}]}}")
    });
    let setup = setup.script(&format!("{{:turns [{} {{:steps [{{:delta \"end\"}}]}}]}}", turns.concat()));
    let config = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&config).unwrap();
    let rules = r#"{:permissions {:rules [{:decision :allow :tool "bash"}]}}"#;
    std::fs::write(config.join("config.edn"), rules).unwrap();
    let mut bridge = go(&setup);
    let long = result(&mut bridge);
    let shown = data(&long, "result-text");
    let path = shown.split("all of it: ").nth(1).and_then(|rest| rest.split(" …]").next()).unwrap();
    assert!(std::fs::read_to_string(path).unwrap().ends_with("\n100000\n"), "{path}");
    assert_eq!(data(&result(&mut bridge), "result-text"), "100000\n");
}

#[test]
fn undo_restores_a_file_in_another_encoding() {
    let call = "{:name \"edit\" :arguments {:path \"a\" :edits [{:old \"au\" :new \"\u{e9}t\"}]}}";
    let setup = calls(&[call]);
    std::fs::write(setup.project().join("a"), b"caf\xe9 au lait\r\n").unwrap();
    let mut bridge = go(&setup);
    let edited = result(&mut bridge);
    assert!(!failed(&edited), "{edited}");
    let there = || std::fs::read(setup.project().join("a")).unwrap();
    assert_eq!(there(), b"caf\xe9 \xe9t lait\r\n");
    bridge.until(|frame| is_event(frame, "turn/ended"));
    bridge.ask("u", "undo", "{}");
    assert_eq!(there(), b"caf\xe9 au lait\r\n");
}

#[test]
fn the_users_own_command_runs_and_can_be_ended() {
    let setup = Setup::new().script("{:turns [{:steps []}]}");
    let mut bridge = setup.ready();
    let done = bridge.ask("b", "bash", "{:command \"echo out; echo err >&2; exit 2\"}");
    assert_eq!(data(&done, "output"), "out\nerr\n");
    assert_eq!(at(&done, &["data", "exit-code"]).unwrap().as_i64(), Some(2));
    bridge.request("slow", "bash", "{:command \"sleep 1000\"}");
    let refused = bridge.ask("second", "bash", "{:command \"ls\"}");
    assert_eq!(code(&refused), "request/session-not-idle");
    bridge.ask("stop", "abort_bash", "{}");
    let ended = bridge.answer("slow");
    assert_eq!(at(&ended, &["data", "cancelled"]).unwrap().as_bool(), Some(true));
}

#[test]
fn a_background_job_outlives_its_call_and_can_be_ended() {
    let setup = calls(&[
        r#"{:name "bash" :arguments {:command "echo started; while [ ! -e stop ]; do sleep 0.02; done; exit 4" :background true}}"#,
        r#"{:name "bash" :arguments {:command "sleep 1000" :background true}}"#,
    ]);
    let mut bridge = go(&setup);
    let first = result(&mut bridge);
    let job = at(&first, &["data", "details", "job-id"]).unwrap().as_str().unwrap().to_owned();
    let second = result(&mut bridge);
    let other = at(&second, &["data", "details", "job-id"]).unwrap().as_str().unwrap().to_owned();
    let listed = bridge.ask("l", "list_background_jobs", "{:statuses [\"running\"]}");
    assert_eq!(at(&listed, &["data", "jobs"]).unwrap().as_slice().unwrap().len(), 2);
    let ended = |bridge: &mut Bridge, id: &str| {
        bridge.until(|frame| {
            let part = |key| at(frame, &["data", "job", key]).and_then(|value| value.as_str());
            is_event(frame, "job/updated") && part("id") == Some(id) && part("status") != Some("running")
        })
    };
    bridge.ask("c", "cancel_background_job", &format!("{{:job-id {other:?}}}"));
    let job_of = |event: &Owned, key: &str| at(event, &["data", "job", key]).unwrap().to_string();
    assert_eq!(job_of(&ended(&mut bridge, &other), "status"), "\"cancelled\"");
    std::fs::write(setup.project().join("stop"), "").unwrap();
    let done = ended(&mut bridge, &job);
    assert_eq!((job_of(&done, "status"), job_of(&done, "exit-code")), ("\"failed\"".into(), "4".into()));
    let shown = bridge.ask("i", "inspect_background_job", &format!("{{:job-id {job:?}}}"));
    assert_eq!(at(&shown, &["data", "job", "output"]).unwrap().as_str(), Some("started\n"));
    assert_eq!(code(&bridge.ask("i", "inspect_background_job", "{:job-id \"j\"}")), "request/not-found");
}

#[test]
fn nothing_that_runs_outlives_the_connection() {
    let setup = calls(&[
        r#"{:name "bash" :arguments {:command "echo $$ > job; exec sleep 1000" :background true}}"#,
        r#"{:name "bash" :arguments {:command "until [ -s job ]; do sleep 0.01; done; echo $$ > call; echo ready; sleep 1000"}}"#,
    ]);
    let mut bridge = go(&setup);
    bridge.event("tool/update");
    let (status, ..) = bridge.finish();
    assert!(status.success());
    for file in ["job", "call"] {
        let pid = std::fs::read_to_string(setup.project().join(file)).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{file} is left running: {stat}");
    }
}

#[test]
fn keys_are_not_inherited_by_commands() {
    let setup =
        calls(&[r#"{:name "bash" :arguments {:command "env"}}"#]).env("ANTHROPIC_API_KEY", "canary-7391");
    let mut bridge = go(&setup);
    let result = result(&mut bridge);
    assert!(!failed(&result) && data(&result, "result-text").contains("PATH="));
    let own = bridge.ask("b", "bash", "{:command \"env\"}");
    assert_eq!(kind(&own), "response");
    assert!(!bridge.told().contains("canary-7391"));
}

#[test]
fn hostile_globs_and_patterns_fail_the_call_alone() {
    let deep = "{".repeat(15_000);
    let setup = calls(&[
        &format!(r#"{{:name "find" :arguments {{:glob "{deep}"}}}}"#),
        &format!(r#"{{:name "search" :arguments {{:pattern "x" :glob "{deep}"}}}}"#),
        &format!(r#"{{:name "search" :arguments {{:pattern "{}"}}}}"#, "(".repeat(4_000)),
        &format!(r#"{{:name "search" :arguments {{:pattern "{}"}}}}"#, "\\\\w".repeat(60_000)),
        r#"{:name "search" :arguments {:pattern "(x{1000}){1000}"}}"#,
    ]);
    let mut bridge = go(&setup);
    let (glob, pattern) = ("a glob has at most", "no regular expression");
    for expected in [glob, glob, pattern, "too long", pattern] {
        let result = result(&mut bridge);
        assert!(failed(&result) && data(&result, "result-text").contains(expected), "{result}");
    }
    assert!(bridge.ask("alive", "ping", "{}").to_string().contains(":pong true"));
}

#[test]
fn hostile_ignore_files_end_no_search() {
    let setup = calls(&[
        r#"{:name "search" :arguments {:pattern "needle"}}"#,
        r#"{:name "find" :arguments {:glob "*.txt"}}"#,
    ]);
    let project = setup.project();
    std::fs::write(project.join("a.txt"), "needle\n").unwrap();
    std::os::unix::fs::symlink("/dev/zero", project.join(".gitignore")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(project.join(".ignore")).status().unwrap().success());
    std::fs::create_dir(project.join("deep")).unwrap();
    std::fs::write(project.join("deep/.gitignore"), "{a,".repeat(15_000) + &"}".repeat(15_000)).unwrap();
    let mut bridge = go(&setup);
    let left_out = "[left out: 3 hidden; hidden true includes them]\n";
    assert_eq!(data(&result(&mut bridge), "result-text"), format!("a.txt:1:needle\n{left_out}"));
    assert_eq!(data(&result(&mut bridge), "result-text"), "a.txt\n");
}

#[test]
fn denied_files_stay_unseen_by_search_find_and_read() {
    let setup = calls(&[
        r#"{:name "search" :arguments {:pattern "TOPSECRET"}}"#,
        r#"{:name "find" :arguments {:glob "**"}}"#,
        r#"{:name "read" :arguments {:path "."}}"#,
        r#"{:name "read" :arguments {:path "private"}}"#,
        r#"{:name "search" :arguments {:pattern "TOPSECRET" :path "private"}}"#,
    ]);
    let project = setup.project();
    std::fs::create_dir_all(project.join("private")).unwrap();
    for file in ["secrets.txt", "private/a", "open"] {
        std::fs::write(project.join(file), "TOPSECRET\n").unwrap();
    }
    let config = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&config).unwrap();
    let rules = r#"{:permissions {:rules [{:decision :deny :path "**/secrets.txt"} {:decision :deny :path "private/**"}]}}"#;
    std::fs::write(config.join("config.edn"), rules).unwrap();
    let mut bridge = go(&setup);
    assert_eq!(data(&result(&mut bridge), "result-text"), "open:1:TOPSECRET\n");
    assert_eq!(data(&result(&mut bridge), "result-text"), "open\n");
    assert!(data(&result(&mut bridge), "result-text").ends_with("is a folder:\nopen\n"));
    for _ in 0..2 {
        let result = result(&mut bridge);
        assert!(failed(&result) && data(&result, "result-text").contains("denie"), "{result}");
    }
}

#[test]
fn edit_cut_off_by_a_kill_is_undone() {
    // The command comes first, so that the result of the edit waits for it.
    let calls = r#"{:tool-call {:name "bash" :arguments {:command "while [ ! -e never ]; do sleep 0.01; done"}}}
                   {:tool-call {:name "write" :arguments {:path "a" :content "new"}}}
                   {:tool-call {:name "write" :arguments {:path "b" :content "made"}}}"#;
    let setup = Setup::new().script(&format!("{{:turns [{{:steps [{calls}]}}]}}")).arg("--yolo");
    let path = |name: &str| setup.project().join(name);
    std::fs::write(path("a"), "old").unwrap();
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go @a\"}");
    let session = data(&bridge.event("tool/executing"), "session-id").to_owned();
    wait_until("the files were not written", || {
        std::fs::read_to_string(path("a")).is_ok_and(|text| text == "new") && path("b").exists()
    });
    bridge.kill();
    let mut bridge = setup.interactor();
    bridge.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
    let undone = bridge.ask("u", "undo", "{}");
    assert_eq!(at(&undone, &["data", "steps"]).and_then(|steps| steps.as_i64()), Some(1), "{undone}");
    assert_eq!(std::fs::read_to_string(path("a")).unwrap(), "old");
    assert!(!path("b").exists());
    let again = bridge.ask("u", "undo", "{}");
    assert_eq!(at(&again, &["data", "steps"]).and_then(|steps| steps.as_i64()), Some(0), "{again}");
}

#[test]
fn refused_undo_says_how_many_others_there_are() {
    let call = |file: &str| {
        format!("{{:tool-call {{:name \"write\" :arguments {{:path {file:?} :content \"new\"}}}}}}")
    };
    let steps: String = ["a", "b", "c"].into_iter().map(call).collect();
    let setup = Setup::new()
        .script(&format!("{{:turns [{{:steps [{steps}]}} {{:steps [{{:delta \"end\"}}]}}]}}"))
        .arg("--yolo");
    let mut bridge = go(&setup);
    bridge.event("turn/ended");
    for (others, changed) in [(2, "a"), (1, "b"), (0, "c")] {
        std::fs::write(setup.project().join(changed), "mine").unwrap();
        let refused = bridge.ask("u", "undo", "{}");
        assert_eq!(code(&refused), "request/file-changed", "{refused}");
        assert_eq!(at(&refused, &["data", "others"]).and_then(|n| n.as_i64()), Some(others), "{refused}");
    }
}

#[test]
fn denied_file_is_skipped_by_undo_and_denied_turn_kept() {
    let setup = calls(&[
        r#"{:name "write" :arguments {:path "a" :content "new"}}"#,
        r#"{:name "write" :arguments {:path "b" :content "new"}}"#,
    ]);
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, "{}").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = go(&setup);
    end_of_turn(&mut bridge);
    let deny = |bridge: &mut Bridge, globs: &str| {
        let rules: String = globs
            .split_whitespace()
            .map(|glob| format!("{{:decision :deny :tool \"write\" :path {glob:?}}}"))
            .collect();
        std::fs::write(&config, format!("{{:permissions {{:rules [{rules}]}}}}")).unwrap();
        bridge.ask("r", "command", "{:text \"/reload\"}");
        bridge.event("command-result");
    };
    let are_there = || ["a", "b"].map(|name| setup.project().join(name).exists());
    deny(&mut bridge, "a b");
    for wish in ["{}", "{:skip-changed true}"] {
        let refused = bridge.ask("u", "undo", wish);
        assert!(refused.to_string().contains("may not be changed"), "{refused}");
    }
    assert_eq!(are_there(), [true, true]);
    deny(&mut bridge, "a");
    assert!(bridge.ask("u", "undo", "{}").to_string().contains("may not be changed"));
    let undone = bridge.ask("u", "undo", "{:skip-changed true}");
    assert!(undone.to_string().contains(":action \"skipped\""), "{undone}");
    assert_eq!(are_there(), [true, false]);
}

#[test]
fn wrong_edit_of_a_denied_file_tells_nothing_of_it() {
    let setup = calls(&[
        r#"{:name "edit" :arguments {:path "key" :edits [{:old "k=1" :new "x"}]}}"#,
        r#"{:name "edit" :arguments {:path "key" :edits [{:old "k=2" :new "x"}]}}"#,
    ]);
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, "{:permissions {:rules [{:decision :deny :path \"key\"}]}}").unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    std::fs::write(setup.project().join("key"), "k=2").unwrap();
    let mut bridge = go(&setup);
    let told = [0, 1].map(|_| data(&result(&mut bridge), "result-text").to_owned());
    assert!(told[0].contains("denied") && told[0] == told[1], "{told:?}");
}
