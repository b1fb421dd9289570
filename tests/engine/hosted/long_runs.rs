//! Long runs: jobs that the model looks after, answers that break, are truncated or empty, calls that are repeated, and
//! conversations that are compacted again and again.

use std::sync::Mutex;

use edn_bridge::value::{Owned, Value};
use serde_json::Value as Json;

use super::program::bridge;
use super::words;
use crate::support::server::{Answer, Asked, End, Server};
use crate::support::{Bridge, Setup, at, data, end_of_turn, is_event};

/// An answer of one call in Chat Completions, with these arguments and this reason of its end.
fn calls(id: &str, tool: &str, arguments: &str, reason: &str) -> Answer {
    let function = serde_json::json!({"name": tool, "arguments": arguments});
    let call = serde_json::json!({"index": 0, "id": id, "type": "function", "function": function});
    let choice = serde_json::json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": reason});
    Answer::events(format!("data: {}\n\ndata: [DONE]\n\n", serde_json::json!({"choices": [choice]})))
}

fn says(text: &str) -> Answer {
    Answer::events(words("openai", text))
}

/// The messages of a request, without the system prompt.
fn messages(asked: &Asked) -> Vec<Json> {
    let all = asked.json()["messages"].as_array().unwrap().clone();
    all.into_iter().filter(|message| message["role"] != "system").collect()
}

/// The text of a message.
fn text(message: &Json) -> String {
    match &message["content"] {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn last_text(asked: &Asked) -> String {
    messages(asked).last().map(text).unwrap_or_default()
}

fn prompt(bridge: &mut Bridge, message: &str) -> Owned {
    bridge.request("p", "prompt", &format!("{{:message {message:?}}}"));
    bridge.until(|frame| is_event(frame, "turn/ended"))
}

/// An answer that is cut off after some words.
fn half() -> Answer {
    let all = words("openai", "half");
    let half = all.split("data: {\"choices\":[{\"index\":0,\"delta\":{}").next().unwrap().to_owned();
    Answer::events(half).end(End::Dropped)
}

#[test]
fn job_is_read_and_waited_for_and_its_end_is_told() {
    let job = Mutex::new(String::new());
    let server = Server::of(move |asked| {
        let last = last_text(asked);
        let mut job = job.lock().unwrap();
        if let Some((_, rest)) = last.split_once("Started as background job ") {
            *job = rest.split('.').next().unwrap().to_owned();
            let arguments = serde_json::json!({"action": "wait", "id": *job, "pattern": "^rea.y$"});
            return calls("b", "job", &arguments.to_string(), "tool_calls");
        }
        match last {
            last if last.starts_with("start") => {
                let command = "echo one; echo ready; until [ -e go ]; do sleep 0.02; done; echo last; exit 3";
                let arguments = serde_json::json!({"command": command, "background": true});
                calls("a", "bash", &arguments.to_string(), "tool_calls")
            }
            last if last.contains("look again") => {
                let arguments = serde_json::json!({"action": "read", "id": *job});
                calls("c", "job", &arguments.to_string(), "tool_calls")
            }
            last if last.contains("list") => calls("d", "job", r#"{"action":"list"}"#, "tool_calls"),
            _ => says("Done."),
        }
    });
    let setup = bridge(&server, "openai", "");
    let mut bridge = setup.ready();
    prompt(&mut bridge, "start");
    let asked = server.all_asked();
    let waited = last_text(asked.last().unwrap());
    assert!(waited.starts_with("one\nready\n[a line matches; job j-"), "{waited}");
    assert!(waited.contains(" is running; all of its output: /"), "{waited}");
    // What was shown is not shown again, and the file that is named opens.
    prompt(&mut bridge, "look again");
    let looked = last_text(server.all_asked().last().unwrap());
    assert!(looked.starts_with("[nothing new]\n[job j-"), "{looked}");
    let path = looked.rsplit_once("output: ").unwrap().1.trim_end_matches(']');
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\nready\n");
    prompt(&mut bridge, "list");
    let listed = last_text(server.all_asked().last().unwrap());
    assert!(listed.contains(" is running: echo one; echo ready;"), "{listed}");
    // It ends while nothing runs: the next message says so, once.
    std::fs::write(setup.project().join("go"), "").unwrap();
    bridge.until(|frame| {
        let status = at(frame, &["data", "job", "status"]).and_then(Value::as_str);
        is_event(frame, "job/updated") && status == Some("failed")
    });
    prompt(&mut bridge, "and now");
    let told = last_text(server.all_asked().last().unwrap());
    assert!(told.starts_with("<context-update>\nBackground job j-"), "{told}");
    assert!(told.contains("ended with exit status 3. The end of its output:\none\nready\nlast"), "{told}");
    assert!(
        told.ends_with("</context-update>and now") || told.ends_with("</context-update>\nand now"),
        "{told}"
    );
    prompt(&mut bridge, "once more");
    let asked = server.all_asked();
    assert_eq!(asked.last().unwrap().body.matches("ended with exit status 3").count(), 1);
    assert_eq!(last_text(asked.last().unwrap()), "once more");
}

#[test]
fn job_that_ends_within_turn_is_told_with_the_next_result() {
    let server = Server::of(|asked| match messages(asked).len() {
        1 => calls(
            "a",
            "bash",
            r#"{"command":"until [ -e go ]; do sleep 0.02; done; echo over","background":true}"#,
            "tool_calls",
        ),
        3 => calls(
            "b",
            "bash",
            r#"{"command":"touch go; while [ ! -e seen ]; do sleep 0.02; done"}"#,
            "tool_calls",
        ),
        5 => calls("c", "bash", r#"{"command":"echo after"}"#, "tool_calls"),
        _ => says("Done."),
    });
    let setup = bridge(&server, "openai", "");
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    bridge.until(|frame| {
        let status = at(frame, &["data", "job", "status"]).and_then(Value::as_str);
        is_event(frame, "job/updated") && status == Some("completed")
    });
    std::fs::write(setup.project().join("seen"), "").unwrap();
    bridge.until(|frame| is_event(frame, "turn/ended"));
    let asked = server.all_asked();
    let told: Vec<bool> = asked.iter().map(|asked| last_text(asked).contains("<context-update>")).collect();
    assert_eq!(told, [false, false, true, false]);
    // What was sent stays as it was sent: only then can a provider read it from its cache.
    for two in asked.windows(2) {
        let (before, after) = (messages(&two[0]), messages(&two[1]));
        assert_eq!(before, after[..before.len()]);
    }
}

#[test]
fn job_that_ended_with_its_process_is_told_after_a_restart() {
    let server = Server::of(|asked| match last_text(asked) {
        last if last == "start" => {
            calls("a", "bash", r#"{"command":"sleep 1000","background":true}"#, "tool_calls")
        }
        _ => says("Done."),
    });
    let setup = bridge(&server, "openai", "");
    let mut first = setup.ready();
    let state = first.ask("g", "get_state", "{}");
    let session = at(&state, &["data", "state", "session-id"]).and_then(Value::as_str).unwrap().to_owned();
    prompt(&mut first, "start");
    first.kill();
    server.all_asked();
    for expected in [1, 1] {
        let mut again = setup.ready();
        again.ask("s", "switch_session", &format!("{{:session-id {session:?}}}"));
        prompt(&mut again, "what now");
        let asked = server.all_asked();
        let body = &asked.last().unwrap().body;
        assert_eq!(body.matches("ended with the process that ran it").count(), expected, "{body}");
        again.finish();
    }
}

#[test]
fn broken_answer_is_dropped_and_asked_for_again() {
    let server = Server::new([half(), says("whole")]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("p", "prompt", "{:message \"hi\"}");
    let retry = bridge.event("turn/retry");
    assert_eq!(at(&retry, &["data", "discarded"]).and_then(Value::as_bool), Some(true), "{retry}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("whole", "end-turn"));
    let asked = server.all_asked();
    assert_eq!(messages(&asked[0]), messages(&asked[1]), "the same request");
    let kept = bridge.ask("m", "get_messages", "{}").to_string();
    assert!(!kept.contains("half"), "{kept}");
}

#[test]
fn each_round_has_its_own_retries() {
    // Six rounds, each of which breaks once: together more than one round may.
    let broken = Mutex::new(true);
    let server = Server::of(move |asked| {
        let rounds = messages(asked).len() / 2;
        let mut broken = broken.lock().unwrap();
        *broken = !*broken;
        match () {
            () if !*broken => {
                Answer::json(503, r#"{"error":{"message":"Busy"}}"#).with("retry-after-ms", "1")
            }
            () if rounds < 6 => calls(
                &format!("c{rounds}"),
                "bash",
                &format!(r#"{{"command":"echo {rounds}"}}"#),
                "tool_calls",
            ),
            () => says("Done."),
        }
    });
    let mut bridge = bridge(&server, "openai", "").ready();
    let ended = prompt(&mut bridge, "go");
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    assert_eq!(server.all_asked().len(), 14);
}

#[test]
fn truncated_call_is_answered_and_the_turn_goes_on() {
    let truncated = || calls("c1", "write", r#"{"path":"a.txt","content":"half of i"#, "length");
    let server = Server::new([truncated(), says("In parts then.")]);
    let setup = bridge(&server, "openai", "");
    let mut bridge = setup.ready();
    let ended = prompt(&mut bridge, "write it");
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    assert!(!setup.project().join("a.txt").exists());
    let asked = server.all_asked();
    let sent = messages(&asked[1]);
    assert_eq!(sent[1]["tool_calls"][0]["function"]["arguments"], r#"{"path":"a.txt"}"#, "{sent:?}");
    let told = text(&sent[2]);
    assert!(
        told.contains("truncated at the output limit of 64000 tokens") && told.contains("not run"),
        "{told}"
    );
    // Once in a row.
    server.then([truncated(), truncated()]);
    let ended = prompt(&mut bridge, "again");
    assert_eq!(data(&ended, "stop-reason"), "max-tokens", "{ended}");
    assert_eq!(server.all_asked().len(), 2);
}

#[test]
fn empty_answer_is_asked_about_once_and_then_fails() {
    let server = Server::new([says(""), says("Here it is."), says("")]);
    let mut bridge = bridge(&server, "openai", "").ready();
    let ended = prompt(&mut bridge, "go");
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    let asked = server.all_asked();
    assert_eq!(asked.len(), 2);
    assert!(last_text(&asked[1]).contains("You ended without an answer."), "{}", asked[1].body);
    let ended = prompt(&mut bridge, "go on");
    assert_eq!((data(&ended, "outcome"), data(&ended, "error-kind")), ("failed", "empty-answer"), "{ended}");
    assert_eq!(server.all_asked().len(), 2);
}

#[test]
fn repeated_call_is_hinted_at_and_a_person_decides() {
    let setup = |server: &Server| {
        let setup = bridge(server, "openai", "");
        std::fs::write(setup.project().join("a.txt"), "the text").unwrap();
        setup
    };
    let reads = || {
        Server::of(|asked| {
            let number = messages(asked).len();
            calls(&format!("c{number}"), "read", r#"{"path":"a.txt"}"#, "tool_calls")
        })
    };
    let server = reads();
    let ended = prompt(&mut setup(&server).ready(), "go");
    assert_eq!((data(&ended, "outcome"), data(&ended, "error-kind")), ("failed", "loop"), "{ended}");
    assert!(data(&ended, "error-message").contains("read a.txt"), "{ended}");
    let asked = server.all_asked();
    assert_eq!(asked.len(), 6);
    let hinted: Vec<bool> =
        asked.iter().map(|asked| last_text(asked).contains("had the same result")).collect();
    assert_eq!(hinted, [false, false, false, true, false, false]);
    // With a person, who lets it go on once.
    let server = reads();
    let mut bridge = setup(&server).interactor();
    bridge.request("p", "prompt", "{:message \"go\"}");
    for ok in [true, false] {
        let question = bridge.event("interaction/requested");
        assert!(question.to_string().contains("6 times"), "{question}");
        let id = at(&question, &["data", "interaction-id"]).and_then(Value::as_str).unwrap().to_owned();
        let answer = format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:ok {ok}}}}}");
        bridge.ask("r", "interaction_respond", &answer);
    }
    let ended = bridge.until(|frame| is_event(frame, "turn/ended"));
    assert!(data(&ended, "error-message").contains("the user ended it"), "{ended}");
    assert_eq!(server.all_asked().len(), 12);
}

/// The system prompt of a request.
fn system(asked: &Asked) -> String {
    text(&asked.json()["messages"][0])
}

fn offered(asked: &Asked) -> Vec<String> {
    let tools = asked.json()["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_was_sent_stays_while_surroundings_change() {
    let server = Server::of(|_| says("Done."));
    let setup = bridge(&server, "openai", "");
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        let done = command.args(arguments).current_dir(setup.project()).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    std::fs::write(setup.project().join("a.txt"), "a").unwrap();
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "The first subject"]);
    std::fs::write(setup.project().join("new.txt"), "b").unwrap();
    // Nothing of the repository's configuration runs.
    let ran = setup.project().join(".git/ran");
    std::fs::write(setup.project().join(".gitattributes"), "* filter=x\n").unwrap();
    std::fs::write(setup.project().join("a.txt"), "other").unwrap();
    for key in ["core.fsmonitor", "filter.x.clean", "core.pager", "gpg.program"] {
        git(&["config", key, &format!("touch {}; cat", ran.display())]);
    }
    let mut bridge = setup.ready();
    bridge.ask("m", "set_mode", "{:mode \"read-only\"}");
    prompt(&mut bridge, "one");
    let first = server.asked();
    let told = system(&first);
    for part in [
        "<environment>\nDate: 20",
        "Git branch: main\n",
        "  The first subject\n",
        "  new new.txt\n",
        "  changed a.txt\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!ran.exists(), "git ran what the repository wants");
    let names = offered(&first);
    assert!(names.contains(&"read".to_owned()), "{names:?}");
    assert!(
        !["write", "edit", "bash", "job"].iter().any(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    git(&["checkout", "-q", "-b", "next"]);
    bridge.ask("n", "set_mode", "{:mode \"yolo\"}");
    prompt(&mut bridge, "two");
    let second = server.asked();
    assert_eq!(system(&second), told);
    let update = "<context-update>\nThe git branch is next.\nThe permission mode is yolo: calls run without a question.\n\
                  </context-update>";
    assert!(last_text(&second).contains(update), "{}", last_text(&second));
    // The new tools stand behind the others, and a stricter mode takes none away.
    assert_eq!(offered(&second)[..names.len()], names);
    assert!(offered(&second).contains(&"bash".to_owned()));
    bridge.ask("o", "set_mode", "{:mode \"read-only\"}");
    prompt(&mut bridge, "three");
    let third = server.asked();
    assert_eq!(offered(&third), offered(&second));
    let (before, after) = (messages(&second), messages(&third));
    assert_eq!(before, after[..before.len()]);
    assert_eq!(third.body.matches("The git branch is next.").count(), 1);
}

#[test]
fn instructions_below_are_told_when_a_file_there_is_touched() {
    let server = Server::of(|asked| match messages(asked).len() {
        1 => calls("a", "read", r#"{"path":"top.txt"}"#, "tool_calls"),
        3 => calls("b", "read", r#"{"path":"deep/er/a.txt"}"#, "tool_calls"),
        5 => calls("c", "read", r#"{"path":"deep/er/b.txt"}"#, "tool_calls"),
        _ => says("Done."),
    });
    let setup = bridge(&server, "openai", "");
    let project = setup.project();
    std::fs::create_dir_all(project.join("deep/er")).unwrap();
    std::fs::write(setup.dir.path().join("secret"), "of nobody").unwrap();
    std::os::unix::fs::symlink(setup.dir.path().join("secret"), project.join("deep/er/AGENTS.md")).unwrap();
    std::fs::write(project.join("deep/AGENTS.md"), "Use tabs here.").unwrap();
    for file in ["top.txt", "deep/er/a.txt", "deep/er/b.txt"] {
        std::fs::write(project.join(file), "text").unwrap();
    }
    let mut bridge = setup.ready();
    prompt(&mut bridge, "go");
    let asked = server.all_asked();
    let told: Vec<bool> = asked.iter().map(|asked| last_text(asked).contains("Use tabs here.")).collect();
    assert_eq!(told, [false, false, true, false]);
    // A link out of a project that nobody trusts is not followed.
    assert!(!asked.iter().any(|asked| asked.body.contains("of nobody")));
}

/// The bytes that the second request has in common with the first from its start, if it is the first one with messages added.
fn same_prefix(first: &Asked, second: &Asked) -> Option<usize> {
    let (first, second) = (first.body.as_bytes(), second.body.as_bytes());
    let same = first.iter().zip(second).take_while(|(one, other)| one == other).count();
    let is_longer = first[same..].starts_with(b"]") && second[same..].starts_with(b",{");
    (is_longer && second.ends_with(&first[same..])).then_some(same)
}

#[test]
fn sixty_rounds_send_identical_prefixes() {
    const ROUNDS: usize = 60;
    let done = Mutex::new(0usize);
    let server = Server::of(move |_| {
        let mut done = done.lock().unwrap();
        *done += 1;
        let (number, id) = (*done, format!("c{done}"));
        let (tool, arguments) = match number % 5 {
            0 => ("find", serde_json::json!({"pattern": format!("f{number}*")})),
            1 => ("read", serde_json::json!({"path": format!("f{number}.txt")})),
            2 => ("search", serde_json::json!({"pattern": format!("words {number}")})),
            3 => ("bash", serde_json::json!({"command": format!("echo {number}")})),
            _ => ("write", serde_json::json!({"path": format!("sub/new{number}.txt"), "content": "new\n"})),
        };
        if number > ROUNDS { says("Done.") } else { calls(&id, tool, &arguments.to_string(), "tool_calls") }
    });
    let setup = bridge(&server, "openai", "");
    std::fs::create_dir(setup.project().join("sub")).unwrap();
    std::fs::write(setup.project().join("sub/AGENTS.md"), "Use tabs here.").unwrap();
    for number in 1..=ROUNDS {
        std::fs::write(setup.project().join(format!("f{number}.txt")), format!("words {number}\n")).unwrap();
    }
    let mut bridge = setup.ready();
    let ended = prompt(&mut bridge, "work");
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    bridge.ask("m", "set_mode", "{:mode \"ask\"}");
    prompt(&mut bridge, "more");
    let asked = server.all_asked();
    assert_eq!(asked.len(), ROUNDS + 2);
    let pairs = || asked.iter().zip(asked.iter().skip(1));
    let identical = pairs().filter_map(|(first, second)| same_prefix(first, second)).count();
    let tokens = |text: usize| text / 4;
    let fixed = asked[0].json();
    let (system, tools) = (system(&asked[0]).len(), fixed["tools"].to_string().len());
    println!(
        "{identical} of {} requests begin with the whole one before; about {} tokens of prompt, {} of tools",
        pairs().count(),
        tokens(system),
        tokens(tools)
    );
    assert_eq!(identical, pairs().count());
    assert!(tokens(system) < 600 && tokens(tools) < 3_000, "{system} and {tools} bytes");
}

#[test]
fn results_of_one_round_share_a_quarter_of_the_window() {
    const WINDOW: usize = 16_000;
    let server = Server::of(|asked| {
        if messages(asked).len() > 1 {
            return says("Done.");
        }
        let call = |number: usize| {
            let arguments = format!(r#"{{"path":"f{number}.txt"}}"#);
            serde_json::json!({"index": number, "id": format!("c{number}"), "type": "function",
                "function": {"name": "read", "arguments": arguments}})
        };
        let all: Vec<_> = (0..10).map(call).collect();
        let choice =
            serde_json::json!({"index": 0, "delta": {"tool_calls": all}, "finish_reason": "tool_calls"});
        Answer::events(format!("data: {}\n\ndata: [DONE]\n\n", serde_json::json!({"choices": [choice]})))
    });
    let setup = bridge(&server, "openai", "");
    let config = setup.dir.path().join("config.edn");
    let text_of_config = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text_of_config.replace(":context-window 100000", ":context-window 16000"))
        .unwrap();
    for number in 0..10 {
        let words =
            if number == 0 { "short\n".to_owned() } else { format!("words of {number}\n").repeat(2_000) };
        std::fs::write(setup.project().join(format!("f{number}.txt")), words).unwrap();
    }
    let mut bridge = setup.ready();
    prompt(&mut bridge, "read all");
    let asked = server.all_asked();
    let results: Vec<String> =
        messages(&asked[1]).iter().filter(|message| message["role"] == "tool").map(text).collect();
    assert_eq!(results.len(), 10);
    assert!(results[0].contains("short") && !results[0].contains("left out"), "{}", results[0]);
    let sizes: Vec<usize> = results.iter().map(String::len).collect();
    assert!(sizes.iter().sum::<usize>() < WINDOW + 10 * 300, "{sizes:?}");
    for result in &results[1..] {
        assert!(result.len() > WINDOW / 10, "{sizes:?}");
        let path = result.split("all of it: ").nth(1).and_then(|rest| rest.split(" …]").next()).unwrap();
        assert!(std::fs::read_to_string(path).unwrap().len() > 10_000, "{path}");
    }
}

#[test]
fn progress_bar_of_a_command_is_one_line() {
    let server = Server::of(|asked| match messages(asked).len() {
        1 => {
            let command = r"for n in $(seq 1 100); do printf '\033[32mpart %s of 100\033[0m\r' $n; done; printf '\033[K\nend\n'";
            calls("a", "bash", &serde_json::json!({"command": command}).to_string(), "tool_calls")
        }
        _ => says("Done."),
    });
    let mut bridge = bridge(&server, "openai", "").ready();
    prompt(&mut bridge, "run it");
    assert_eq!(last_text(server.all_asked().last().unwrap()), "\nend\n");
}

/// A server whose model reads a file again and again, and whose summaries say what is next. It counts no tokens.
fn reads_on(rounds: usize, summaries: &'static Mutex<Vec<String>>) -> Server {
    let done = Mutex::new(0usize);
    Server::of(move |asked| {
        let no_figures = |answer: Answer| Answer {
            parts: answer
                .parts
                .into_iter()
                .map(|part| {
                    String::from_utf8(part)
                        .unwrap()
                        .replace(r#","usage":{"prompt_tokens":10,"completion_tokens":5}"#, "")
                        .into_bytes()
                })
                .collect(),
            ..answer
        };
        if asked.json()["tools"].is_null() {
            let mut summaries = summaries.lock().unwrap();
            summaries.push(text(&messages(asked)[0]));
            return no_figures(says(&format!("Summary {}. NEXT-STEP-{}.", summaries.len(), summaries.len())));
        }
        let mut done = done.lock().unwrap();
        *done += 1;
        if *done > rounds {
            return no_figures(says("C'est fait."));
        }
        calls(&format!("c{done}"), "read", &format!(r#"{{"path":"f{done}.txt"}}"#), "tool_calls")
    })
}

#[test]
fn users_words_survive_three_compactions() {
    static SUMMARIES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    const WINDOW: usize = 16_000;
    let server = reads_on(30, &SUMMARIES);
    let setup = bridge(&server, "openai", "");
    let config = setup.dir.path().join("config.edn");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(":context-window 100000", ":context-window 16000")).unwrap();
    for number in 1..=30 {
        std::fs::write(setup.project().join(format!("f{number}.txt")), "some words here\n".repeat(450))
            .unwrap();
    }
    let rule =
        format!("RULE-START: never touch f7.txt. {} RULE-END: answer in French.", "Mind this. ".repeat(600));
    let mut bridge = setup.ready();
    let ended = prompt(&mut bridge, &rule);
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    let summaries = SUMMARIES.lock().unwrap();
    assert!(summaries.len() >= 3, "{}", summaries.len());
    let turns: Vec<Asked> =
        server.all_asked().into_iter().filter(|asked| !asked.json()["tools"].is_null()).collect();
    for asked in &turns {
        assert!(asked.body.contains("RULE-START") && asked.body.contains("RULE-END"), "{}", asked.body);
        assert!(asked.body.len() / 4 < WINDOW, "{} bytes", asked.body.len());
    }
    // Each summariser had the summary before, whole, and no words twice.
    for (number, asked) in summaries.iter().enumerate().skip(1) {
        let before =
            format!("<previous-summary>\nSummary {number}. NEXT-STEP-{number}.\n</previous-summary>");
        assert!(asked.starts_with(&before), "{asked}");
    }
    let last = turns.last().unwrap();
    assert!(last.body.contains(&format!("NEXT-STEP-{}", summaries.len())), "{}", last.body);
    assert!(last.body.contains("Files that were read, the newest last: "), "{}", last.body);
    let state = bridge.ask("g", "get_state", "{}");
    let tokens = at(&state, &["data", "state", "context-tokens"]).and_then(Value::as_i64);
    assert!(tokens > Some(0), "estimated: {state}");
}

/// A bridge in which two exchanges fill the window.
fn filled(server: &Server) -> (Setup, Bridge) {
    let setup = bridge(server, "openai", "");
    let config = setup.dir.path().join("config.edn");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(":context-window 100000", ":context-window 16000")).unwrap();
    let mut bridge = setup.ready();
    for _ in 0..2 {
        prompt(&mut bridge, &"word ".repeat(3_000));
    }
    (setup, bridge)
}

#[test]
fn truncated_summary_is_asked_for_again_and_failures_end_it() {
    let limit = || {
        let answer = words("openai", "half a summ").replace("\"stop\"", "\"length\"");
        Answer::events(answer)
    };
    let summarised = Mutex::new(0usize);
    let server = Server::of(move |asked| {
        if !asked.json()["tools"].is_null() {
            return says("ok");
        }
        let mut summarised = summarised.lock().unwrap();
        *summarised += 1;
        match *summarised {
            1 => limit(),
            2 => Answer::json(503, r#"{"error":{"message":"Busy"}}"#).with("retry-after-ms", "1"),
            3 => says("A whole summary."),
            _ => limit(),
        }
    });
    let (_setup, mut bridge) = filled(&server);
    server.all_asked();
    let done = bridge.ask("c", "compact", "{}");
    assert_eq!(data(&done, "summary"), "A whole summary.", "{done}");
    assert_eq!(server.all_asked().len(), 3);
    // Nothing but truncated ones: it fails, and nothing has changed.
    prompt(&mut bridge, &"word ".repeat(100));
    prompt(&mut bridge, &"word ".repeat(100));
    let failed = bridge.ask("d", "compact", "{}");
    assert!(failed.to_string().contains("longer than the model may write"), "{failed}");
    let ended =
        bridge.until(|frame| is_event(frame, "compaction/ended") && data(frame, "outcome") == "failed");
    assert!(data(&ended, "error-message").contains("longer than the model may write"), "{ended}");
}

#[test]
fn compaction_that_fails_three_times_is_off_and_said() {
    let rounds = Mutex::new(0usize);
    let server = Server::of(move |asked| {
        if asked.json()["tools"].is_null() {
            return Answer::json(400, r#"{"error":{"message":"no summaries here"}}"#);
        }
        let mut rounds = rounds.lock().unwrap();
        *rounds += 1;
        match *rounds {
            // The conversation is filled first.
            1 | 2 | 9.. => says("ok"),
            round => {
                calls(&format!("c{round}"), "bash", &format!(r#"{{"command":"echo {round}"}}"#), "tool_calls")
            }
        }
    });
    let (_setup, mut bridge) = filled(&server);
    server.all_asked();
    bridge.skip_to_now();
    bridge.request("p", "prompt", &format!("{{:message {:?}}}", "word ".repeat(3_000)));
    let told = bridge.event("ui/notification");
    assert!(data(&told, "message").contains("could not be compacted 3 times"), "{told}");
    let ended = bridge.until(|frame| is_event(frame, "turn/ended"));
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    let summaries = server.all_asked().iter().filter(|asked| asked.json()["tools"].is_null()).count();
    assert_eq!(summaries, 3);
}
