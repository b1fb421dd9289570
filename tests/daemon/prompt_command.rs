//! `edn-bridge prompt` as a tool of scripts, with the real binary: standard input, outputs, sessions, exit statuses.

use crate::support;

use std::io::Write as _;
use std::process::{Output, Stdio};

use edn_bridge::edn;
use support::{Setup, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";

/// Runs `prompt` with a text on a pipe as standard input, or with none.
fn run(setup: &Setup, words: &[&str], piped: Option<&str>) -> Output {
    let mut command = setup.command();
    command.arg("prompt").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if piped.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().unwrap();
    if let Some(piped) = piped {
        child.stdin.take().unwrap().write_all(piped.as_bytes()).unwrap();
    }
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The sessions that are on disk.
fn sessions(setup: &Setup) -> Vec<String> {
    let output = setup.command().args(["sessions", "list", "--json"]).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn piped_text_is_the_message_or_attached_to_it() {
    let setup = Setup::new().script(ECHO);
    for (words, piped, expected) in [
        (&["-"][..], Some("diff --git\n"), "diff --git\n"),
        (&[], Some("diff --git"), "diff --git\n"),
        (
            &["why?"],
            Some("line 1\nline 2\n"),
            "why?\n\n<standard-input>\nline 1\nline 2\n</standard-input>\n",
        ),
        (&["why?"], Some(""), "why?\n"),
        (&["why?"], None, "why?\n"),
        // What is piped in is data: it runs no command.
        (&["-"], Some("/trust\n"), "<standard-input>\n/trust\n</standard-input>\n"),
    ] {
        let output = run(&setup, words, piped);
        assert_eq!((out(&output).as_str(), output.status.code()), (expected, Some(0)), "{output:?}");
        assert_eq!(err(&output), "");
    }
    for (words, piped) in [(&[][..], None), (&["-"], Some(" \n"))] {
        let output = run(&setup, words, piped);
        assert_eq!((output.status.code(), out(&output)), (Some(2), String::new()), "{output:?}");
    }
}

#[test]
fn output_is_one_map_or_every_event() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"read\" :arguments {:path \"a.txt\"}}}]}
                  {:steps [{:delta \"Seen.\"}] :usage {:input 7 :output 2}}]}",
    );
    std::fs::write(setup.project().join("a.txt"), "hello").unwrap();
    let output = run(&setup, &["--output", "json", "look"], None);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["text"], &json["stop-reason"]), (&"Seen.".into(), &"end-turn".into()), "{json}");
    assert_eq!(json["tool-calls"][0]["tool"], "read");
    assert_eq!(json["usage"]["output"], 2);
    assert!(json["session-id"].as_str().unwrap().starts_with("s-"));
    let output = run(&setup, &["--output", "edn", "look"], None);
    let map = edn::read_one(&output.stdout).unwrap();
    assert_eq!(text(&map, "text"), "Seen.");
    let output = run(&setup, &["--output", "events", "look"], None);
    let events: Vec<String> = out(&output)
        .lines()
        .map(|line| text(&edn::read_one(line.as_bytes()).unwrap(), "event").to_owned())
        .collect();
    for topic in ["assistant/delta", "tool/result", "assistant/message", "turn/ended"] {
        assert!(events.iter().any(|event| event == topic), "{topic}: {events:?}");
    }
    // In a pipe, nothing is said of tool calls.
    let output = run(&setup, &["look"], None);
    assert_eq!((out(&output).as_str(), err(&output).as_str()), ("Seen.\n", ""));
}

#[test]
fn session_is_continued_by_age_prefix_or_name() {
    let setup = Setup::new().script(ECHO);
    let output = run(&setup, &["--continue", "hi"], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("no session of this folder to continue with"), "{output:?}");
    assert!(run(&setup, &["Plan the garden"], None).status.success());
    let first = sessions(&setup).remove(0);
    assert!(run(&setup, &["--continue", "again"], None).status.success());
    assert_eq!(sessions(&setup), std::slice::from_ref(&first), "no second session");
    for way in [&first[..first.len() - 2], "plan the garden", "plan"] {
        assert!(run(&setup, &["--session", way, "more"], None).status.success(), "{way}");
    }
    assert_eq!(sessions(&setup).len(), 1);
    let shown = setup.command().args(["sessions", "show", "plan"]).output().unwrap();
    assert_eq!(out(&shown).matches("more").count(), 6, "said and answered three times: {}", out(&shown));
    let output = run(&setup, &["--session", "garden", "more"], None);
    assert!(err(&output).contains("There is no session \"garden\""), "{output:?}");
    assert!(run(&setup, &["Plan the house"], None).status.success());
    let output = run(&setup, &["--session", "plan", "more"], None);
    assert!(err(&output).contains("2 sessions are named \"plan\""), "{output:?}");
}

#[test]
fn failed_try_leaves_no_session_and_no_empty_line() {
    let failing = "{:turns [{:steps [{:error {:kind :fatal :message \"no such model\"}}]}]}";
    let setup = Setup::new().script(failing);
    let output = run(&setup, &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), ""), "{output:?}");
    assert!(err(&output).ends_with("edn-bridge: no such model\n"), "{output:?}");
    assert_eq!(sessions(&setup), Vec::<String>::new());
    // Where something was said, it is kept.
    let late = "{:turns [{:steps [{:delta \"I will\"} {:error {:kind :fatal :message \"gone\"}}]}]}";
    let setup = Setup::new().script(late);
    let output = run(&setup, &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), "I will\n"), "{output:?}");
    assert_eq!(sessions(&setup).len(), 1);
    // So is a session that goes on.
    let setup = Setup { script: Some(failing.to_owned()), ..setup };
    assert_eq!(run(&setup, &["-c", "hi"], None).status.code(), Some(1));
    assert_eq!(sessions(&setup).len(), 1);
}

#[test]
fn exit_status_says_what_kept_the_answer_away() {
    let busy = "{:steps [{:error {:kind :rate-limited :message \"too busy\" :retry-after-ms 1}}]}";
    let call = "{:steps [{:tool-call {:name \"read\" :arguments {:path \"a.txt\"}}}]}";
    for (script, words, status, expected) in [
        (format!("{{:turns [{busy}]}}"), &["hi"][..], 3, "too busy"),
        (format!("{{:turns [{call}]}}"), &["--max-turns", "2", "hi"], 5, "ended after 2 calls of the model"),
        (format!("{{:turns [{call} {{:steps [{{:delta \"x\"}}]}}]}}"), &["--max-turns", "2", "hi"], 0, ""),
        (ECHO.to_owned(), &["--schema", "{\"type\":\"object\"}", "hi"], 6, "no answer that fits the schema"),
        (ECHO.to_owned(), &["--schema", "{\"type\":\"array\"}", "hi"], 2, "the schema of an object"),
        (ECHO.to_owned(), &["--schema", "/no/such.json", "hi"], 2, "--schema /no/such.json"),
        (ECHO.to_owned(), &["--log", "bogus", "hi"], 2, "error, warn, info, debug, trace"),
        (ECHO.to_owned(), &["--script", "/no/such.edn", "hi"], 4, "/no/such.edn"),
        ("{:turns".to_owned(), &["hi"], 4, "script.edn"),
        (ECHO.to_owned(), &["--config", "/no/such.edn", "hi"], 4, "which the option --config names"),
        (ECHO.to_owned(), &["--continue", "--session", "s", "hi"], 2, "cannot be used with"),
    ] {
        let setup = Setup::new().script(&script);
        let output = run(&setup, words, None);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        assert!(err(&output).contains(expected), "{words:?}: {output:?}");
    }
    let setup = Setup::new().arg("--provider").arg("antropic");
    let output = run(&setup, &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(4), ""), "{output:?}");
    assert!(err(&output).contains("Did you mean \"anthropic\"?"), "{output:?}");
    // A model that the server does not have.
    let missing = support::server::Answer::json(404, r#"{"error":{"message":"no model largest."}}"#);
    let server = support::server::Server::of(move |_| missing.clone());
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    let provider = format!("{{\"work\" {{:base-url \"{}\"}}}}", server.url());
    std::fs::write(&config, format!("{{:provider \"work\" :model \"largest\" :providers {provider}}}"))
        .unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let output = run(&setup, &["hi"], None);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(
        err(&output).contains("has no such model or address (HTTP 404): no model largest. "),
        "{output:?}"
    );
    // A provider that is known and has no key.
    let setup = Setup::new().arg("--provider").arg("anthropic").arg("--model").arg("claude-sonnet-4-5");
    let setup = setup.env("ANTHROPIC_API_KEY", "");
    let output = run(&setup, &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(4), ""), "{output:?}");
    assert!(err(&output).contains("There is no key for Anthropic"), "{output:?}");
    assert!(err(&output).contains("on the command line with edn-bridge login anthropic"), "{output:?}");
    assert_eq!(sessions(&setup), Vec::<String>::new());
}

#[test]
fn turn_that_a_limit_ends_gives_what_was_said() {
    let script = "{:turns [{:steps [{:delta \"I look.\"}
                                    {:tool-call {:name \"read\" :arguments {:path \"a.txt\"}}}]}]}";
    let setup = Setup::new().script(script);
    let output = run(&setup, &["-o", "json", "--max-turns", "1", "hi"], None);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let text = out(&output);
    assert!(text.contains("\"text\":\"I look.\"") && text.contains("ended after 1 call"), "{text}");
}

#[test]
fn tools_of_the_last_call_run_to_their_end() {
    let write = |file: &str| {
        format!("{{:tool-call {{:name \"write\" :arguments {{:path \"{file}\" :content \"x\"}}}}}}")
    };
    let script =
        format!("{{:turns [{{:steps [{} {}]}} {{:steps [{{:delta \"Late.\"}}]}}]}}", write("a"), write("b"));
    let setup = Setup::new().script(&script).arg("--mode").arg("accept-edits");
    let output = run(&setup, &["--max-turns", "1", "--output", "json", "hi"], None);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), json["text"].as_str()), (Some(5), Some("")), "{json}");
    for at in [0, 1] {
        assert_eq!(json["tool-calls"][at]["error"], false, "{json}");
    }
    assert!(["a", "b"].iter().all(|file| setup.project().join(file).exists()));
    // What the model may still have begun to say is not shown.
    assert_eq!(out(&run(&setup, &["--max-turns", "1", "hi"], None)), "");
}

#[test]
fn half_of_a_model_gets_the_other_at_every_door() {
    let setup = Setup::new().env("ANTHROPIC_API_KEY", "canary-0");
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{:model \"claude-haiku-4-5\"}").unwrap();
    let config = config.to_str().unwrap();
    for (words, model, source) in [
        (&["--model", "claude-haiku-4-5"][..], "claude-haiku-4-5", "the provider that has this model"),
        (&["--config", config], "claude-haiku-4-5", "the provider that has this model"),
        (&["--provider", "anthropic"], "claude-sonnet-5", "the option --provider"),
    ] {
        let shown = out(&setup.command().args(["config", "show"]).args(words).output().unwrap());
        let row = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
        assert!(row("provider ").contains("anthropic") && row("provider ").ends_with(source), "{shown}");
        assert!(row("model ").contains(model), "{shown}");
        let listed = out(&setup.command().args(["models", "list"]).args(words).output().unwrap());
        let chosen: Vec<&str> = listed.lines().filter(|line| line.contains('*')).collect();
        assert!(chosen.len() == 1 && chosen[0].contains(model), "{listed}");
        let checked = setup.command().args(["config", "check"]).args(words).output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }
    // The embedded model would answer in the place of another one.
    let contradiction = ["--provider", "embedded", "--model", "claude-haiku-4-5"];
    let output = run(&setup, &[&contradiction[..], &["hi"]].concat(), None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(4), ""), "{output:?}");
    for command in [&["doctor"][..], &["config", "check"]] {
        let output = setup.command().args(command).args(contradiction).output().unwrap();
        assert!(out(&output).contains("Name anthropic: --provider anthropic"), "{output:?}");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    // Each may come from another place.
    let shown =
        setup.command().args(["config", "show", "--config", config, "--provider", "anthropic"]).output();
    let shown = out(&shown.unwrap());
    let model = shown.lines().find(|line| line.starts_with("model ")).unwrap();
    assert!(model.contains("claude-haiku-4-5") && model.ends_with("user.edn"), "{shown}");
}

#[test]
fn refusal_of_the_model_is_status_1() {
    let script = r#"{:turns [{:steps [{:delta "I will not."}] :stop-reason "refusal"}]}"#;
    let output = run(&Setup::new().script(script), &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(1), "I will not.\n"), "{output:?}");
    assert!(err(&output).contains("the model refused"), "{output:?}");
}

#[test]
fn refusal_is_a_sentence_without_a_code() {
    let setup = Setup::new().script(ECHO);
    for (words, expected) in [
        (&["rules", "remove", "x"][..], "edn-bridge: There is no rule \"x\".\n"),
        (
            &["query", "x"],
            "edn-bridge: The query is not valid EQL. At offset 0: expected a vector: a query, found symbol x.\n",
        ),
    ] {
        let output = setup.command().args(words).output().unwrap();
        assert_eq!((output.status.code(), err(&output).as_str()), (Some(1), expected));
    }
}

#[test]
fn options_may_stand_before_a_command_of_rules() {
    let setup = Setup::new().script(ECHO);
    for (words, status, expected) in [
        (&["--color", "never", "list"][..], 0, ""),
        (&["--json", "list"], 0, "[]\n"),
        (&["list", "--json"], 0, "[]\n"),
        (&["--json"], 0, "[]\n"),
        (&["--json", "remove", "x"], 2, ""),
    ] {
        let output = setup.command().arg("rules").args(words).output().unwrap();
        assert_eq!(
            (output.status.code(), out(&output).as_str()),
            (Some(status), expected),
            "{words:?}: {output:?}"
        );
    }
}

#[test]
fn editing_needs_a_terminal_or_a_named_editor() {
    let setup = Setup::new().env("VISUAL", "").env("EDITOR", "");
    let config = setup.dir.path().join("user.edn");
    let edit = |setup: &Setup| {
        let mut command = setup.command();
        command.args(["config", "edit", "--config", config.to_str().unwrap()]).stdin(Stdio::null());
        command.output().unwrap()
    };
    let output = edit(&setup);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("There is no terminal for vi: set $EDITOR"), "{output:?}");
    assert!(!config.exists(), "it made a file that nobody edited");
    let setup = setup.env("EDITOR", "true");
    let output = edit(&setup);
    assert!(output.status.success() && config.exists(), "{output:?}");
}

#[test]
fn retries_are_told_while_they_happen() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:error {:kind :rate-limited :message \"too busy\" :retry-after-ms 1}}]}
                  {:steps [{:delta \"Now.\"}]}]}",
    );
    let output = run(&setup, &["hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "Now.\n"));
    assert!(err(&output).contains("edn-bridge: too busy; retry 1 in "), "{output:?}");
}

#[test]
fn structured_answer_fits_its_schema_or_is_asked_again() {
    let script =
        "{:turns [{:steps [{:delta \"Let me see.\"} {:tool-call {:name \"answer\" :arguments {:n \"two\"}}}]}
                           {:steps [{:tool-call {:name \"answer\" :arguments {:n 2}}}]}
                           {:steps [{:delta \"Never said.\"}]}]}";
    let schema = "{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\"}}}";
    let setup = Setup::new().script(script);
    let file = setup.dir.path().join("schema.json");
    std::fs::write(&file, schema).unwrap();
    let output = run(&setup, &["--schema", file.to_str().unwrap(), "how many?"], None);
    assert_eq!((out(&output).as_str(), output.status.code()), ("{\"n\":2}\n", Some(0)), "{output:?}");
    let output = run(&setup, &["--schema", schema, "--output", "json", "how many?"], None);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["answer"]["n"], 2, "{json}");
    assert_eq!(json["stop-reason"], "end-turn", "it was interrupted because it had its answer: {json}");
    let shown = setup.command().args(["sessions", "show", "how many"]).output().unwrap();
    assert!(!out(&shown).contains("Never said."), "{}", out(&shown));
}

#[test]
fn signal_ends_the_turn_and_keeps_what_was_said() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let setup = Setup::new()
            .script("{:turns [{:steps [{:delta \"Begun\"} {:sleep-ms 600000} {:delta \"late\"}]}]}");
        let mut command = setup.command();
        command.args(["prompt", "hi"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut begun = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut begun).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let status = 128 + signal.as_raw();
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(status), "\n"), "{output:?}");
        let shown = setup.command().args(["sessions", "show", "hi"]).output().unwrap();
        assert!(out(&shown).contains("\nBegun\n\n**The turn was ended here.**\n"), "{}", out(&shown));
    }
}

#[test]
fn model_that_never_fits_the_schema_is_not_asked_on() {
    let never =
        "{:turns [{:steps [{:tool-call {:name \"answer\" :arguments {}}}] :usage {:input 1 :output 1}}]}";
    let setup = Setup::new().script(never);
    let schema = "{\"type\":\"object\",\"required\":[\"n\"]}";
    let output = run(&setup, &["--schema", schema, "--output", "json", "how many?"], None);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["tool-calls"].as_array().unwrap().len(), 4, "{json}");
}

#[test]
fn answer_that_cannot_be_printed_is_a_failure() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"hi\"}]}]}");
    for format in ["text", "edn", "json", "events"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = setup.command();
        command.args(["prompt", "hi", "--output", format]).stdin(Stdio::null()).stdout(full);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{format}: {output:?}");
        assert!(err(&output).contains("standard output: No space left on device"), "{output:?}");
    }
}

#[test]
fn decision_is_listed_with_time_and_file() {
    let call = "{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"x\"}}}";
    let setup = Setup::new().script(&format!("{{:turns [{{:steps [{call}]}}]}}"));
    run(&setup, &["hi"], None);
    let audit = setup.command().arg("audit").output().unwrap();
    let row = out(&audit);
    assert!(row.starts_with("20") && row.contains("headless") && row.trim_end().ends_with("a.txt"), "{row}");
    let rules = setup.command().args(["rules", "--json"]).output().unwrap();
    assert_eq!(out(&rules), "[]\n", "{rules:?}");
}

#[test]
fn closed_output_ends_nothing() {
    let setup = Setup::new().script("{:turns [{:steps [{:deltas 20000 :of \"a line of text\\n\"}]}]}");
    let mut command = setup.command();
    command.args(["prompt", "hi"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn message_that_is_too_long_is_wrong_usage() {
    let setup = Setup::new().script(ECHO);
    let long = setup.dir.path().join("long");
    std::fs::File::create(&long).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    let output = setup.command().arg("prompt").stdin(std::fs::File::open(&long).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(err(&output).contains("more than the 16777216 bytes"), "{output:?}");
}

/// A turn that calls tools and answers then.
fn calls(calls: &[&str]) -> String {
    format!("{{:turns [{{:steps [{}]}} {{:steps [{{:delta \"Done.\"}}]}}]}}", calls.join(" "))
}

const TESTS: &str = "{:tool-call {:name \"bash\" :arguments {:command \"echo tested\"}}}";
const EDITS: &str = "{:tool-call {:name \"write\" :arguments {:path \"a.txt\" :content \"x\"}}}";

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn refused_call_goes_on_and_its_hint_admits_it() {
    let unknown = "{:tool-call {:name \"bash\" :arguments {:command \"absent a | b\"}}}";
    let setup = Setup::new().script(&calls(&[TESTS, EDITS, unknown]));
    let output = run(&setup, &["-o", "json", "hi"], None);
    let map = json(&output);
    assert_eq!(
        (output.status.code(), map["status"].as_i64(), map["text"].as_str()),
        (Some(7), Some(7), Some("Done."))
    );
    assert_eq!((map["calls"].as_i64(), map["error"].is_null()), (Some(2), true), "{map}");
    assert_eq!(map["refused"][0]["tool"], "bash");
    assert!(
        err(&output).starts_with("edn-bridge: 3 calls were refused, because nobody can be asked here: "),
        "{output:?}"
    );
    assert!(!setup.project().join("a.txt").exists());
    // Each rule of the hint, as it is written, admits its call.
    let rules: Vec<&str> =
        map["refused"].as_array().unwrap().iter().map(|call| call["allow"].as_str().unwrap()).collect();
    assert_eq!(rules, ["bash:echo", "write:a.txt", "bash=absent a | b"]);
    for rule in &rules {
        let option = format!("--allow '{rule}'");
        assert!(
            err(&output).contains(option.as_str()) || err(&output).contains(&option.replace('\'', "")),
            "{output:?}"
        );
    }
    let output = run(&setup, &["-o", "json", "--allow", rules[0], "hi"], None);
    assert_eq!((output.status.code(), json(&output)["refused"].as_array().unwrap().len()), (Some(7), 2));
    let output = run(&setup, &["--allow", rules[0], "--allow", rules[1], "--allow", rules[2], "hi"], None);
    assert_eq!(
        (output.status.code(), out(&output).as_str(), err(&output).as_str()),
        (Some(0), "Done.\n", "")
    );
    assert!(setup.project().join("a.txt").exists());
}

#[test]
fn strict_prompt_ends_at_the_first_refused_call() {
    let setup = Setup::new().script(&calls(&[TESTS]));
    let output = run(&setup, &["-o", "json", "--strict", "hi"], None);
    let map = json(&output);
    assert_eq!(
        (output.status.code(), map["error"]["code"].as_str()),
        (Some(1), Some("permission-required")),
        "{map}"
    );
    let message = map["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("To allow them: --allow bash:echo"), "{message}");
    assert!(!message.contains("correlation id") && !message.contains("permission-required"), "{message}");
}

#[test]
fn rules_by_option_hold_for_the_run_alone() {
    let setup = Setup::new().script(&calls(&[TESTS]));
    for (words, status) in [
        (&["--allow", "bash:echo"][..], 0),
        (&["--allow", "bash"], 0),
        (&[], 7),
        (&["--allow", "bash:ls"], 7),
        (&["--yolo"], 0),
    ] {
        assert_eq!(run(&setup, &[words, &["hi"]].concat(), None).status.code(), Some(status), "{words:?}");
    }
    // A rule that denies goes before the mode and before one that allows. Nothing is missing then.
    for words in [&["--yolo"][..], &["--allow", "bash"]] {
        let output = run(&setup, &[words, &["--deny", "bash:echo", "-o", "json", "hi"]].concat(), None);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(json(&output)["tool-calls"][0]["error"], true);
    }
    // What the project's own file says is not trusted by it.
    std::fs::create_dir(setup.project().join(".edn-bridge")).unwrap();
    let rules =
        "{:permissions {:rules [{:decision :allow :tool \"write\"} {:decision :deny :tool \"bash\"}]}}";
    std::fs::write(setup.project().join(".edn-bridge/config.edn"), rules).unwrap();
    let setup = Setup { script: Some(calls(&[TESTS, EDITS])), ..setup };
    let output = run(&setup, &["--allow", "bash", "-o", "json", "hi"], None);
    let map = json(&output);
    assert_eq!((output.status.code(), map["refused"][0]["tool"].as_str()), (Some(7), Some("write")), "{map}");
    assert_eq!(map["tool-calls"][0]["error"], true, "the project may deny: {map}");
    for (words, expected) in [
        (&["--allow", "npm test"][..], "--allow npm test: \"npm test\" is no rule"),
        (&["--deny", "bsh:ls"], "there is no tool \"bsh\". Did you mean \"bash\"?"),
        (&["--allow", "write:["], "--allow write:["),
    ] {
        let output = run(&setup, &[words, &["hi"]].concat(), None);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(err(&output).contains(expected), "{output:?}");
    }
}

#[test]
fn map_at_the_end_says_model_and_kind_of_error() {
    let busy = "{:turns [{:steps [{:error {:kind :rate-limited :message \"too busy\" :retry-after-ms 1}}]}]}";
    for (script, words, status, code, retryable) in [
        (ECHO, &[][..], 0, None, None),
        (busy, &[], 3, Some("rate-limited"), Some(true)),
        (ECHO, &["--schema", "{\"type\":\"array\"}"], 2, Some("usage"), Some(false)),
        (ECHO, &["--config", "/no/such.edn"], 4, Some("not-configured"), Some(false)),
        (ECHO, &["--session", "none"], 1, Some("failed"), Some(false)),
        (ECHO, &["--schema", "{\"type\":\"object\"}"], 6, Some("no-answer"), Some(false)),
    ] {
        let setup = Setup::new().script(script);
        let output = run(&setup, &[&["-o", "json"], words, &["hi"]].concat(), None);
        let map = json(&output);
        assert_eq!(
            (output.status.code(), map["status"].as_i64()),
            (Some(status), Some(i64::from(status))),
            "{map}"
        );
        assert_eq!(
            (map["error"]["code"].as_str(), map["error"]["retryable"].as_bool()),
            (code, retryable),
            "{map}"
        );
        if status == 0 {
            assert_eq!(map["provider"], "scripted", "{map}");
            assert!(map["model"].is_string() && map["duration-ms"].is_number(), "{map}");
        }
    }
}

#[test]
fn text_that_fits_the_schema_is_an_answer() {
    let schema = "{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\"}}}";
    let turn = |text: &str| format!("{{:steps [{{:delta {text:?}}}]}}");
    for (texts, status, expected, asked) in [
        (&["{\"n\": 1}"][..], 0, "{\"n\":1}\n", 1),
        (&["```json\n{\"n\": 2}\n```"], 0, "{\"n\":2}\n", 1),
        (&["It is 3.", "{\"n\": \"3\"}", "{\"n\": 3}"], 0, "{\"n\":3}\n", 3),
        (&["No.", "No.", "No.", "No.", "{\"n\": 4}"], 6, "", 4),
    ] {
        let turns: Vec<String> = texts.iter().map(|text| turn(text)).collect();
        let setup = Setup::new().script(&format!("{{:turns [{}]}}", turns.join(" ")));
        let output = run(&setup, &["--schema", schema, "hi"], None);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(status), expected), "{output:?}");
        let setup = Setup { script: Some(format!("{{:turns [{}]}}", turns.join(" "))), ..setup };
        let output = run(&setup, &["-o", "json", "--schema", schema, "hi"], None);
        assert_eq!(json(&output)["calls"], asked, "{output:?}");
    }
    // What was wrong is quoted.
    let setup = Setup::new()
        .script(&format!("{{:turns [{} {{:steps [{{:echo :last-user}}]}}]}}", turn("{\"n\": true}")));
    let output = run(&setup, &["-o", "events", "--schema", schema, "hi"], None);
    assert!(out(&output).contains("n must be"), "{output:?}");
}

#[test]
fn workflow_is_followed_to_its_end() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"Looked.\"}]}]}");
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(folder.join("workflows")).unwrap();
    let write =
        |name: &str, text: &str| std::fs::write(folder.join(format!("workflows/{name}.edn")), text).unwrap();
    write("w1", "{:doc \"x\" :stages [{:id :a :body \"hello\" :turn-cap 3}]}");
    write("w2", "{:doc \"x\" :stages [{:id :a :body \"hello\" :turn-cap 3 :gate [{:command \"false\"}]}]}");
    write(
        "w3",
        "{:doc \"x\" :stages [{:id :a :body \"hello\" :turn-cap 3 :gate [{:confirm \"Deploy it?\"}]}]}",
    );
    let output = run(&setup, &["/workflow w1"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "Looked.\n"), "{output:?}");
    for line in ["edn-bridge: Workflow w1 began.\n", "edn-bridge: workflow w1: a\n"] {
        assert!(err(&output).contains(line), "{output:?}");
    }
    for (name, expected) in [("w2", "the workflow ended: skipped"), ("w3", "\"Deploy it?\"")] {
        let output = run(&setup, &["-o", "json", &format!("/workflow {name}")], None);
        let map = json(&output);
        assert_eq!(
            (output.status.code(), map["error"]["code"].as_str()),
            (Some(1), Some("workflow-failed")),
            "{map}"
        );
        assert!(map["error"]["message"].as_str().unwrap().contains(expected), "{map}");
    }
    let output = run(&setup, &["/workflow w4"], None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn time_ends_a_turn() {
    let setup = Setup::new().script("{:turns [{:steps [{:delta \"I begin.\"} {:sleep-ms 600000}]}]}");
    let output = run(&setup, &["-o", "json", "--timeout", "1s", "hi"], None);
    let map = json(&output);
    assert_eq!((output.status.code(), map["error"]["code"].as_str()), (Some(5), Some("timeout")), "{map}");
    assert_eq!(map["text"], "I begin.", "{map}");
    let output = run(&setup, &["--timeout", "10", "hi"], None);
    assert!(output.status.code() == Some(2) && err(&output).contains("90s, 10m or 2h"), "{output:?}");
}

#[test]
fn ephemeral_prompt_leaves_no_session() {
    let setup = Setup::new().script(ECHO);
    let output = run(&setup, &["--ephemeral", "hi"], None);
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "hi\n"), "{output:?}");
    assert_eq!(sessions(&setup), Vec::<String>::new());
    let left = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let left: Vec<String> = std::fs::read_dir(setup.state()).unwrap().map(left).collect();
    assert!(!left.iter().any(|name| name.starts_with("ephemeral")), "{left:?}");
    // A long output is kept in the state folder while the session lives, and goes with it.
    let call = "{:tool-call {:id \"a\" :name \"bash\" :arguments {:command \"seq 1 200000\"}}}";
    let setup =
        Setup::new().script(&format!("{{:turns [{{:steps [{call}]}} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let output = run(&setup, &["--ephemeral", "--mode", "yolo", "hi"], None);
    assert_eq!(out(&output), "end\n", "{output:?}");
    let kept = std::fs::read_dir(setup.state().join("outputs")).into_iter().flatten().count();
    assert_eq!(kept, 0);
}

#[test]
fn answer_is_saved_to_a_file_that_can_be_written() {
    let setup = Setup::new().script(ECHO);
    let file = setup.dir.path().join("answer.md");
    std::fs::write(&file, "an older and much longer answer than the new one\n").unwrap();
    assert!(run(&setup, &["--save", file.to_str().unwrap(), "hi"], None).status.success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hi\n");
    for (words, expected) in [
        (["--save", "/no/such/folder/x"], "--save /no/such/folder/x: "),
        (["--system", "/no/such.md"], "--system /no/such.md: there is no such file"),
    ] {
        let output = run(&setup, &[&words[..], &["hi"]].concat(), None);
        assert!(output.status.code() == Some(2) && err(&output).contains(expected), "{output:?}");
    }
}

#[test]
fn system_option_stands_in_the_system_prompt() {
    let answer = support::server::Answer::events(include_bytes!("../providers/openai.sse").to_vec());
    let server = support::server::Server::of(move |_| answer.clone());
    let setup = Setup::new();
    let config = setup.dir.path().join("user.edn");
    let provider = format!("{{\"work\" {{:base-url \"{}\"}}}}", server.url());
    std::fs::write(&config, format!("{{:provider \"work\" :model \"m\" :providers {provider}}}")).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let file = setup.dir.path().join("system.md");
    std::fs::write(&file, "Answer in Latin.").unwrap();
    for given in ["Answer in Latin.", file.to_str().unwrap()] {
        run(&setup, &["--max-turns", "1", "--system", given, "hi"], None);
        let asked = server.asked().json();
        let system = asked["messages"][0]["content"].as_str().unwrap().to_owned();
        assert!(system.contains("\n\nAnswer in Latin.\n"), "{system}");
    }
}

#[test]
fn input_is_looked_at_before_it_costs() {
    let setup = Setup::new().script(ECHO);
    let pipe = |bytes: &[u8]| {
        let mut command = setup.command();
        command.args(["prompt", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may have ended before all is written.
        let _ = child.stdin.take().unwrap().write_all(bytes);
        child.wait_with_output().unwrap()
    };
    for (bytes, expected) in [
        (&b"caf\xe9"[..], "the byte at offset 3"),
        (b"a\0b", "the byte at offset 1"),
        (&vec![b'a'; 1_000_000], "the message has about 250000 tokens, and the window of"),
    ] {
        let output = pipe(bytes);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(2), ""), "{}", err(&output));
        assert!(err(&output).contains(expected), "{}", err(&output));
    }
    assert_eq!(sessions(&setup), Vec::<String>::new(), "nothing was sent");
    std::fs::write(setup.project().join("a.txt"), "x").unwrap();
    let output = run(&setup, &["look at @a.txt, @b.txt and a@b.org"], None);
    assert_eq!(err(&output), "edn-bridge: @b.txt names no file here; the model gets it as it is written\n");
}

#[test]
fn message_that_is_not_quoted_is_told() {
    let output = run(&Setup::new().script(ECHO), &["it's", "a", "bug"], None);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let expected = "edn-bridge: a message of several words is quoted: edn-bridge prompt 'it'\\''s a bug'\n";
    assert_eq!(err(&output), expected);
}

#[test]
fn fork_leaves_the_session_as_it_was() {
    let setup = Setup::new().script(ECHO);
    assert!(run(&setup, &["Plan the garden"], None).status.success());
    let first = sessions(&setup).remove(0);
    let shown = || out(&setup.command().args(["sessions", "show", &first]).output().unwrap());
    let before = shown();
    let output = run(&setup, &["-o", "json", "--session", &first, "--fork", "And the house?"], None);
    assert_ne!(json(&output)["session-id"].as_str().unwrap(), first, "{output:?}");
    assert_eq!((shown(), sessions(&setup).len()), (before, 2));
    let copy = json(&output)["session-id"].as_str().unwrap().to_owned();
    let copied = out(&setup.command().args(["sessions", "show", &copy]).output().unwrap());
    assert!(copied.contains("Plan the garden") && copied.contains("And the house?"), "{copied}");
    let output = run(&setup, &["--fork", "hi"], None);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn misspelt_attribute_of_a_query_is_told_with_near_ones() {
    let setup = Setup::new();
    let ask = |query: &str| setup.command().args(["query", query]).output().unwrap();
    let output = ask("[:psi.agent-session/model-idd]");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err(&output).contains("did you mean :psi.agent-session/model-id"), "{output:?}");
    assert_eq!(ask("[:psi.agent-session/model-id]").status.code(), Some(0));
}
