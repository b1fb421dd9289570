//! MCP servers: a wicked one of our own, which does each wrong thing that the rules name, over its pipes.

#![allow(clippy::print_stderr, reason = "tells what was left out")]

use crate::mcp_support;

use std::collections::HashMap;
use std::future::Future;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use edn_bridge::edn;
use edn_bridge::environment::{Environment, Variables};
use edn_bridge::limits::MCP_IDLE;
use edn_bridge::mcp::{Ask, ElicitReply, Era, McpError, Question, Sampled, ServerFacts, Settings, State};
use edn_bridge::value::Value;
use mcp_support::{Project, form, python_server, settings, within};
use tokio::io::AsyncBufReadExt as _;
use tokio_util::sync::CancellationToken;

/// What all tests of this file need.
fn has_python() -> bool {
    let found = std::process::Command::new("python3").arg("--version").output().is_ok();
    if !found {
        eprintln!("LEFT OUT: python3 is missing");
    }
    found
}

/// Runs a test on an executor of two threads, where there is Python.
fn run(test: impl Future<Output = ()>) {
    if has_python() {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
            .block_on(test);
    }
}

#[test]
fn server_starts_at_first_use_and_says_what_it_has() {
    run(async {
        let project = Project::wicked("good", "");
        assert_eq!(project.facts().state, State::Idle);
        assert!(project.servers.tools(&project.answerer()).is_empty());
        let facts = project.ready().await;
        assert_eq!((facts.state, facts.era), (State::Ready, Some(Era::Handshake)), "{facts:?}");
        assert_eq!(facts.revision.as_deref(), Some("2025-11-25"));
        assert_eq!(facts.title.as_deref(), Some("wicked 1"));
        assert!(facts.connected.is_some() && facts.last_error.is_none() && facts.completes);
        assert!(facts.instructions.as_ref().unwrap().len() <= 4096);
        assert_eq!((facts.prompts.len(), facts.resources.len(), facts.templates.len()), (1, 1, 2));
        assert_eq!(&*facts.prompts[0].command, "mcp__w__greet");
        let echo = facts.tools.iter().find(|tool| &*tool.tool == "echo").unwrap();
        assert!(echo.read_only && &*echo.name == "mcp__w__echo");
        let outcome = project.call("echo", "{:text \"hello\"}").await;
        assert_eq!((outcome.text.as_str(), outcome.is_error), ("hello", false));
        let remembered = std::fs::read_to_string(project.folder.path().join("state/mcp-eras.edn")).unwrap();
        assert!(remembered.contains(":handshake"), "{remembered}");
        project.servers.end().await;
    });
}

#[test]
fn results_of_every_shape_become_text_and_images() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        assert_eq!(project.failure("fail").await, "it went wrong");
        assert_eq!(project.text("nothing").await, "[the tool returned nothing]");
        let outcome = project.call("structured", "{}").await;
        assert!(outcome.text.contains("42"), "{}", outcome.text);
        assert!(edn::to_string(&Value::from(outcome.details)).contains("{:structured {\"answer\" 42}}"));
        let outcome = project.call("big", "{}").await;
        assert!(outcome.text.len() < 64 * 1024 && outcome.details.get_keyword("handle").is_some());
        let outcome = project.call("images", "{}").await;
        assert_eq!(outcome.images.len(), 8);
        for expected in
            ["2 more images", "audio/wav", "[resource x file:///x (text/plain)]", "inside", "not shown"]
        {
            assert!(outcome.text.contains(expected), "{expected}: {}", outcome.text);
        }
        assert_eq!(project.text("twice").await, "first");
    });
}

#[test]
fn wicked_call_costs_itself_and_nothing_else() {
    run(async {
        let project = Project::wicked("good", ":timeout-ms 8000");
        project.ready().await;
        for (name, expected) in [("garbage", "after garbage"), ("flood", "flooded"), ("notes", "noted")] {
            assert_eq!(project.text(name).await, expected);
        }
        for (name, expected) in [
            ("liar", "none of the protocol's"),
            ("again", "it wanted input more than 10 times"),
            ("hang", "did not answer within 8 s"),
            ("wide", "more than 100000 values"),
            ("long-line", "a line of more than"),
            ("crash", "its program has ended"),
        ] {
            let told = project.failure(name).await;
            assert!(told.contains(expected), "{name}: {told}");
            // The next call starts it again where it is gone.
            if name == "crash" {
                break;
            }
            project.servers.restart("w").await.unwrap();
            assert_eq!(project.call("echo", "{:text \"on\"}").await.text, "on", "after {name}");
        }
        project.servers.restart("w").await.unwrap();
        assert_eq!(project.call("echo", "{:text \"on\"}").await.text, "on");
        assert!(!project.facts().last_error.as_deref().unwrap_or_default().contains("about to crash"));
    });
}

#[test]
fn server_that_crashed_is_started_by_the_next_call() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        project.failure("crash").await;
        assert_eq!(project.call("echo", "{:text \"back\"}").await.text, "back");
        project.failure("crash").await;
        assert_eq!(project.call("echo", "{:text \"back\"}").await.text, "back");
        project.failure("crash").await;
        let told = project.failure("echo").await;
        assert!(told.contains("is not started again by itself"), "{told}");
        let mut changes = project.servers.changes();
        within(async {
            while project.facts().state != State::GivenUp {
                changes.changed().await.unwrap();
            }
        })
        .await;
        project.servers.restart("w").await.unwrap();
        assert_eq!(project.call("echo", "{:text \"back\"}").await.text, "back");
    });
}

#[test]
fn server_that_cannot_start_says_why() {
    run(async {
        for (way, expected) in [
            ("dies", "its program has ended (exit status: 7)"),
            ("noise", "what is no message of the protocol"),
            ("other-version", ""),
        ] {
            let project = Project::wicked(way, "");
            let facts = project.ready().await;
            let told = facts.last_error.unwrap_or_default();
            assert!(told.contains(expected), "{way}: {told} {:?}", facts.state);
        }
        let project = Project::of("{\"w\" {:command [\"no-such-program-anywhere\"]}}");
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Failed);
        assert!(facts.last_error.unwrap().contains("no such program"));
        let stop = CancellationToken::new();
        let unknown = project.servers.read_resource("v", "x", &project.answerer(), &stop).await.unwrap_err();
        assert!(matches!(unknown, McpError::Unknown { .. }), "{unknown}");
    });
}

#[test]
fn silent_server_is_greeted_in_the_older_era() {
    run(async {
        for way in ["silent", "ends-at-discover", "chatty"] {
            let project = Project::wicked(way, "");
            let facts = project.ready().await;
            assert_eq!((facts.state, facts.era), (State::Ready, Some(Era::Handshake)), "{way}: {facts:?}");
            assert_eq!(project.call("echo", "{:text \"x\"}").await.text, "x");
        }
    });
}

#[test]
fn lists_of_a_server_are_bounded_and_told() {
    run(async {
        let project = Project::wicked("evil-lists", "");
        let facts = project.ready().await;
        let names: Vec<&str> = facts.tools.iter().map(|tool| &*tool.tool).collect();
        assert_eq!(names, ["ok", "a.b/c d", "long"]);
        assert!(facts.tools.iter().all(|tool| tool.name.len() <= 64 && tool.description.len() <= 2048));
        assert_eq!(facts.passed_over.len(), 4, "{:?}", facts.passed_over);
        let project = Project::wicked("many", "");
        let facts = project.ready().await;
        assert_eq!(facts.tools.len(), 128);
        let project = Project::wicked("endless", "");
        let facts = project.ready().await;
        assert_eq!((facts.state, facts.tools.len()), (State::Ready, 31));
    });
}

#[test]
fn tool_that_changed_has_another_digest_and_changes_are_told() {
    run(async {
        let project = Project::wicked("good", "");
        let before = project.ready().await;
        project.text("rug").await;
        let after = project.reached(|facts| facts.tools.len() > before.tools.len()).await;
        let digest = |facts: &ServerFacts, name: &str| {
            facts.tools.iter().find(|tool| &*tool.tool == name).unwrap().digest.clone()
        };
        assert_ne!(digest(&before, "echo"), digest(&after, "echo"));
        assert_eq!(digest(&before, "env"), digest(&after, "env"));
    });
}

#[test]
fn progress_is_told_and_keeps_a_call_alive() {
    run(async {
        let project = Project::wicked("good", ":timeout-ms 5000");
        project.ready().await;
        assert_eq!(project.text("progress").await, "done");
        let told = project.progress.lock().unwrap().clone();
        assert!(told.iter().any(|text| text == "step (3/5)"), "{told:?}");
        let told = project.call("slow", "{:seconds 30}").await.text;
        assert!(told.contains("did not answer"), "{told}");
    });
}

#[test]
fn stopped_call_is_taken_back_at_the_server() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        let running = project.call("cancelled", "{}");
        let stop = project.stop.clone();
        let (outcome, ()) = tokio::join!(running, async move {
            tokio::task::yield_now().await;
            stop.cancel();
        });
        assert!(outcome.is_error && outcome.text.contains("ended"), "{}", outcome.text);
        let fresh = Project { stop: CancellationToken::new(), ..project };
        within(async {
            while fresh.text("late").await == "[]" {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}

#[test]
fn questions_reach_the_person_of_the_call() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        project.answers(vec![form(&[("name", Value::from("Ada")), ("age", Value::Int(7))])]);
        let told: serde_json::Value = serde_json::from_str(&project.text("ask").await).unwrap();
        assert_eq!(told, serde_json::json!({"action": "accept", "content": {"name": "Ada", "age": 7}}));
        let asked = project.asked();
        let [Ask { server, subject, call, question: Question::Form { message, fields } }] = asked.as_slice()
        else {
            panic!("{asked:?}")
        };
        assert_eq!((&**server, &**subject, call.as_deref()), ("w", "ask", Some("call-1")));
        assert_eq!((&**message, fields.len()), ("Who are you?", 2));
        // What does not fit the form is not sent.
        project.answers(vec![form(&[("age", Value::Int(7))])]);
        assert!(project.text("ask").await.contains("cancel"));
        project.answers(vec![ElicitReply::Declined]);
        assert!(project.text("ask").await.contains("decline"));
        project.asked();
        // A call asks five times, not more.
        project.answers(vec![form(&[("name", Value::from("Ada"))]); 8]);
        let told: Vec<String> = serde_json::from_str(&project.text("ask-much").await).unwrap();
        assert_eq!(told.iter().filter(|action| *action == "accept").count(), 5, "{told:?}");
        assert_eq!(project.asked().len(), 5);
        project.answers(vec![ElicitReply::Agreed]);
        assert!(project.text("page").await.contains("accept"));
        let asked = project.asked();
        assert!(
            matches!(&asked[0].question, Question::Page { url, .. } if &**url == "https://pay.example/x")
        );
        let told = project.call("page", "{:url \"javascript:alert(1)\"}").await.text;
        assert!(told.contains("must be one of the web") && project.asked().is_empty(), "{told}");
        let roots = project.text("roots").await;
        assert!(
            roots.contains(&format!("file://{}", project.folder.path().canonicalize().unwrap().display())),
            "{roots}"
        );
    });
}

#[test]
fn answer_of_a_model_is_asked_for_only_where_switched_on() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        assert!(project.text("sample").await.contains("refused") && project.asked().is_empty());
        let project = Project::wicked("good", ":sampling true");
        project.ready().await;
        assert!(project.text("sample").await.contains("rejected"));
        let sampled = Sampled { model: "p/m".to_owned(), text: "hi".to_owned(), is_cut: false };
        project.answers(vec![ElicitReply::Sampled(sampled)]);
        let told = project.text("sample").await;
        assert!(told.contains("\"hi\"") && told.contains("endTurn"), "{told}");
        assert_eq!(project.asked().len(), 2);
    });
}

#[test]
fn prompts_resources_and_completion_are_plain_data() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        let (answerer, stop) = (project.answerer(), CancellationToken::new());
        let given = [("who".to_owned(), "Ada".to_owned())];
        let filled = project.servers.prompt("w", "greet", &given, &answerer, &stop).await.unwrap();
        assert!(format!("{filled:?}").contains("Hello Ada"), "{filled:?}");
        let read = project.servers.read_resource("w", "mem://a", &answerer, &stop).await.unwrap();
        assert!(format!("{read:?}").contains("content"), "{read:?}");
        let completion = project.servers.complete_argument("w", "greet", "who", "x", &[]).await.unwrap();
        assert_eq!((completion.values, completion.more), (vec!["xa".to_owned(), "xb".to_owned()], true));
        let completion =
            project.servers.complete_template("w", "mem://{name}", "name", "y", &[]).await.unwrap();
        assert_eq!(completion.values[0], "ya");
        for (typed, expected) in [
            ("me", &["mem://", "mem://a"][..]),
            ("mem://", &["mem://a", "mem://b"]),
            ("mem://x%20", &["mem://x%20a", "mem://x%20b"]),
            ("repo://ann/", &["repo://ann/a", "repo://ann/b"]),
            ("repo://ann/b/", &["repo://ann/b/x"]),
            ("other", &[]),
        ] {
            let completion = project.servers.complete_address("w", typed).await.unwrap();
            assert_eq!(completion.values, expected, "{typed}");
        }
    });
}

#[test]
fn page_that_must_be_seen_first_is_asked_for_and_repeated() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        project.answers(vec![ElicitReply::Agreed]);
        assert_eq!(project.text("page-first").await, "went there");
        let asked = project.asked();
        let [Ask { subject, question: Question::Page { message, url, is_first: true }, .. }] =
            asked.as_slice()
        else {
            panic!("{asked:?}")
        };
        assert_eq!(
            (&**subject, &**message, &**url),
            ("page-first", "Log in there.", "https://pay.example/first")
        );
        let failed = async |arguments: &str| {
            let told = project.call("page-first", arguments).await;
            assert!(told.is_error && told.text.contains("A page must be seen first."), "{}", told.text);
            project.asked().len()
        };
        assert_eq!(failed("{}").await, 1, "a no ends it");
        project.servers.restart("w").await.unwrap();
        // What cannot be shown whole is not asked, and no call asks more often than another.
        project.answers(vec![ElicitReply::Agreed; 20]);
        assert_eq!(failed("{:url \"javascript:alert(1)\" :times 99}").await, 0);
        assert_eq!(failed("{:pages 6 :times 99}").await, 0);
        assert_eq!(failed("{:times 99}").await, 5);
    });
}

#[test]
fn changes_of_lists_are_heard_in_the_newer_era() {
    run(async {
        let project = Project::wicked("newer", "");
        let before = project.ready().await;
        assert_eq!((before.state, before.era), (State::Ready, Some(Era::Discover)), "{before:?}");
        project.text("rug").await;
        let after = project.reached(|facts| facts.tools.len() > before.tools.len()).await;
        assert_ne!(before.tools[0].digest, after.tools[0].digest);
    });
}

#[test]
fn tool_of_another_server_after_a_restart_is_not_called() {
    run(async {
        let project = Project::wicked("turns", "");
        project.ready().await;
        let (echo, env) = (project.tool("echo"), project.tool("env"));
        let call = async |tool| project.call_tool(tool, "{:text \"x\"}").await;
        assert_eq!(call(&echo).await.text, "x");
        // It crashes, and the call that starts it again meets another one under its name.
        project.failure("crash").await;
        let told = call(&echo).await;
        assert!(told.is_error && told.text.contains("has changed since it was offered"), "{}", told.text);
        let told = call(&env).await;
        assert!(told.is_error && told.text.contains("no longer offers the tool env"), "{}", told.text);
        assert_eq!(project.call("echo", "{:text \"x\"}").await.text, "x");
    });
}

#[test]
fn server_that_is_switched_off_while_it_starts_stays_off() {
    run(async {
        let project = Project::wicked("gate", "");
        let servers = project.servers.clone();
        let starting = tokio::spawn(async move { servers.restart("w").await });
        while !project.folder().join("asked").exists() {
            tokio::task::yield_now().await;
        }
        project.servers.reload(settings(&format!("{{\"w\" {}}}", python_server("gate", ":enabled false"))));
        std::fs::write(project.folder().join("go"), "").unwrap();
        let told = within(starting).await.unwrap().unwrap_err();
        assert!(matches!(told, McpError::Off(_)), "{told}");
        assert_eq!(project.facts().state, State::Off);
        assert!(project.servers.tools(&project.answerer()).is_empty());
    });
}

#[test]
fn failed_start_is_one_start_for_all_who_waited() {
    run(async {
        let project = Project::wicked("dies", "");
        let all = (0..6).map(|_| project.servers.ready(Duration::from_secs(5)));
        within(futures_util::future::join_all(all)).await;
        let facts = project.facts();
        assert_eq!(facts.state, State::Failed, "it was not tried again and again: {facts:?}");
        // Whoever asks for it by name tries again, and is told why.
        let told = project.servers.restart("w").await.unwrap_err();
        assert!(told.to_string().contains("exit status: 7"), "{told}");
    });
}

/// On one thread, whose clock can be moved on.
#[test]
fn idle_server_ends_and_the_next_call_starts_it() {
    if !has_python() {
        return;
    }
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    executor.block_on(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        let pid: u32 = project.text("pid").await.parse().unwrap();
        let is_there = || Path::new(&format!("/proc/{pid}")).exists();
        let mut changes = project.servers.changes();
        changes.mark_unchanged();
        tokio::time::pause();
        tokio::time::advance(MCP_IDLE - Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
        assert_eq!(project.facts().state, State::Ready);
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::time::resume();
        within(changes.changed()).await.unwrap();
        assert_eq!(project.facts().state, State::Idle);
        within(async {
            while is_there() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // Its tools are still offered.
        assert_ne!(project.text("pid").await, pid.to_string());
        assert_eq!(project.facts().state, State::Ready);
    });
}

#[test]
fn program_gets_what_it_was_given_and_no_key_leaves() {
    run(async {
        let canary = "canary-5ae1b7";
        let project = Project::wicked(
            "good",
            &format!(":env {{\"CANARY_TOKEN\" {canary:?} \"PLAIN\" \"/some/folder\"}}"),
        );
        project.ready().await;
        let told = project.text("env").await;
        assert!(
            told.contains("[secret]") && told.contains("/some/folder") && told.contains("PATH"),
            "{told}"
        );
        let environment: HashMap<String, String> = serde_json::from_str(&told).unwrap();
        assert!(!environment.contains_key("CARGO_MANIFEST_DIR"), "{environment:?}");
        let refused = project.failure("refuse").await;
        assert!(refused.contains("no: [secret]") && !refused.contains("error-data-canary"), "{refused}");
        let all = format!("{told} {refused} {:?} {}", project.facts(), project.servers.stderr("w").unwrap());
        assert!(!all.contains(canary), "{all}");
    });
}

#[test]
fn key_in_what_a_server_lists_or_asks_is_shown_nowhere() {
    run(async {
        let canary = "canary-5ae1b7";
        let project = Project::wicked("leaky", &format!(":env {{\"CANARY_TOKEN\" {canary:?}}}"));
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Ready, "{facts:?}");
        let names: Vec<&str> = facts.tools.iter().map(|tool| &*tool.tool).collect();
        assert_eq!(names, ["leak", "ask", "page"], "{facts:?}");
        assert_eq!(
            (facts.prompts.len(), facts.resources.len(), facts.templates.len()),
            (1, 1, 1),
            "{facts:?}"
        );
        // Two tools, two prompts, a resource and a template are passed over.
        assert_eq!(facts.passed_over.len(), 6, "{:?}", facts.passed_over);
        assert!(
            facts.passed_over.iter().any(|why| why.contains("has a key in it")),
            "{:?}",
            facts.passed_over
        );
        let whole = format!("{facts:?}");
        assert!(whole.contains("a [secret]") && !whole.contains("canary"), "{whole}");
        let values = project.servers.complete_argument("w", "greet", "who", "x", &[]).await.unwrap().values;
        assert_eq!(values, ["plain"]);
        project.text("ask").await;
        let asked = format!("{:?}", project.asked());
        assert!(asked.contains("Is it [secret]?") && !asked.contains("canary"), "{asked}");
        let page = format!("{{:url \"https://pay.example/?key={canary}\"}}");
        let told = project.call("page", &page).await.text;
        assert!(told.contains("has a key in it") && project.asked().is_empty(), "{told}");
    });
}

#[test]
fn list_larger_than_its_bound_is_read_to_it() {
    run(async {
        // A busy machine may take longer for the list than a server may by default.
        let project = Project::wicked("fat", ":timeout-ms 120000");
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Ready, "{facts:?}");
        // A prompt has 32 descriptions of 2 KiB: 1 MiB holds 15 of them with their names.
        assert_eq!(facts.prompts.len(), 15);
        assert_eq!(facts.passed_over.len(), 1, "{:?}", facts.passed_over);
        assert!(facts.passed_over[0].contains("at most 1048576 bytes"), "{:?}", facts.passed_over);
    });
}

#[test]
fn list_without_an_end_is_read_as_long_as_it_may_take() {
    run(async {
        let project = Project::wicked("stalls", ":timeout-ms 2000");
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Ready, "{facts:?}");
        // No page takes 2 s, and 100 of them take far longer.
        assert!((1..20).contains(&facts.tools.len()), "{facts:?}");
        assert!(
            facts.passed_over.iter().any(|why| why.contains("tools is missing: it took longer than 2 s"))
        );
        let project = Project::wicked("late-list", ":timeout-ms 500");
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Failed, "{facts:?}");
        assert!(facts.last_error.unwrap().contains("did not answer"));
    });
}

#[test]
fn key_with_a_prefix_is_left_out_without_it() {
    run(async {
        let canary = "canary-5ae1b7";
        let path = std::env::var_os("PATH").unwrap();
        let pairs = vec![("PATH".into(), path), ("CANARY".into(), canary.into())];
        let environment = || Environment::default().with(Some(Variables::from(pairs.clone())));
        let more = ":env {\"CANARY_TOKEN\" {:variable \"CANARY\" :prefix \"Key \"}}";
        let project = Project::with(&format!("{{\"w\" {}}}", python_server("good", more)), environment());
        project.ready().await;
        let echoed = project.call("echo", &format!("{{:text \"bare: {canary}\"}}")).await;
        assert_eq!(echoed.text, "bare: [secret]");
        // Its program has ended, and there is no connection.
        let project = Project::with(&format!("{{\"w\" {}}}", python_server("dies", more)), environment());
        assert_eq!(project.ready().await.state, State::Failed);
        let told = project.servers.stderr("w").unwrap();
        assert!(told.contains("dies at once [secret]"), "{told}");
    });
}

/// A server over HTTP that answers with an error, in which it says back all that it was sent.
fn echoing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|count| count > 2) {}
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
                });
                let mut body = vec![0; length.unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                let answer = format!(
                    "HTTP/1.1 500 {head_line}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
                     Connection: close\r\n\r\n{head}",
                    head_line = head.lines().find(|line| line.contains("canary")).unwrap_or("none"),
                    length = head.len(),
                );
                (&stream).write_all(answer.as_bytes()).unwrap();
            });
        }
    });
    address
}

#[test]
fn header_that_a_server_says_back_is_shown_nowhere() {
    run(async {
        let project = Project::of(&format!(
            "{{\"w\" {{:url {:?} :headers {{\"Authorization\" \"Bearer canary-91f0c2\" \"X-Key\" \"canary-77ab31\"}}}}}}",
            echoing_server()
        ));
        let facts = project.ready().await;
        assert_eq!(facts.state, State::Failed, "{facts:?}");
        let error = facts.last_error.clone().unwrap();
        assert!(error.contains("500"), "{error}");
        assert!(!format!("{facts:?}").contains("canary"), "{facts:?}");
    });
}

#[test]
fn reload_keeps_what_is_the_same_and_ends_what_is_gone() {
    run(async {
        let project = Project::wicked("good", "");
        project.ready().await;
        let pid: u32 = project.text("spawn").await.parse().unwrap();
        let same =
            format!("{{\"w\" {}}}", python_server("good", ":without-tools [\"env\"] :timeout-ms 5000"));
        project.servers.reload(settings(&same));
        let facts = project.reached(|facts| facts.tools.iter().all(|tool| &*tool.tool != "env")).await;
        assert_eq!(facts.state, State::Ready);
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "the process was kept");
        let mut changes = project.servers.changes();
        project.servers.reload(settings(&format!("{{\"w\" {}}}", python_server("hundred", ""))));
        assert_eq!(project.facts().state, State::Idle);
        changes.changed().await.unwrap();
        assert_eq!(project.ready().await.tools.len(), 100);
        // Without a runner, which a test has not, what left the group of its program lives on.
        let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        project.servers.reload(Settings::default());
        assert!(
            project.servers.snapshot().is_empty() && project.servers.tools(&project.answerer()).is_empty()
        );
        project.servers.end().await;
    });
}

#[test]
fn stubborn_server_is_ended_in_order() {
    run(async {
        let project = Project::wicked("stubborn", "");
        project.ready().await;
        let begun = std::time::Instant::now();
        within(project.servers.end()).await;
        // Its input was closed first, and it was given its time.
        assert!(begun.elapsed() >= Duration::from_secs(2));
        let told = project.servers.restart("w").await.unwrap_err();
        assert!(told.to_string().contains("no longer"), "{told}");
    });
}

/// A server over HTTP, and a project that has it.
async fn over_http(path: &str) -> (tokio::process::Child, Project) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_servers/wicked_http.py");
    let mut server = tokio::process::Command::new("python3");
    let mut server =
        server.arg(program).stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(server.stdout.take().unwrap()).lines();
    let port = within(lines.next_line()).await.unwrap().unwrap();
    (server, Project::of(&format!("{{\"w\" {{:url \"http://127.0.0.1:{port}/{path}\"}}}}")))
}

#[test]
fn odd_item_over_http_costs_itself() {
    run(async {
        let (_server, project) = over_http("odd").await;
        // The greeting and the list come after events that are no messages, and the second page is refused.
        let facts = project.ready().await;
        let names: Vec<&str> = facts.tools.iter().map(|tool| &*tool.tool).collect();
        assert_eq!(names, ["plain", "forget", "nobody", "refused", "accepted", "blocks"]);
        let told = facts.passed_over.join("\n");
        for expected in
            ["tool \"odd\": it has no inputSchema", "number 8", "tools is missing: it refused: no such page"]
        {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert_eq!(project.text("blocks").await, "before\n\n[a block of type video was left out]\n\nafter");
        // A session that is lost comes back once, and the same call with it.
        assert_eq!(project.text("forget").await, "plain");
        assert_eq!(project.text("plain").await, "plain");
        for (name, expected) in [
            ("nobody", "it broke for nobody"),
            ("refused", "never mind the session"),
            ("accepted", "HTTP 202 Accepted to a request"),
        ] {
            let told = within(project.failure(name)).await;
            assert!(told.contains(expected), "{name}: {told}");
        }
        assert_eq!(project.text("plain").await, "plain");
    });
}

#[test]
fn answer_over_http_that_costs_much_is_not_read() {
    run(async {
        let (_server, project) = over_http("mcp").await;
        project.ready().await;
        let told = project.failure("wide-stream").await;
        assert!(told.contains("more than 100000 values"), "{told}");
        let told = project.failure("wide").await;
        assert!(told.contains("The server w"), "{told}");
        // In the bounds of bytes, and not in those of what is made of them.
        for name in ["dense", "maps"] {
            let told = project.failure(name).await;
            assert!(told.contains("more than 100000 values"), "{name}: {told}");
        }
        for name in ["deep", "dense-error"] {
            let told = project.failure(name).await;
            assert!(told.contains("The server w") && told.len() < 2000, "{name}: {told}");
        }
        assert_eq!(project.text("plain").await, "plain");
    });
}
