//! Which model answers when none is named, with the real binary and servers on loopback: keys, logins and servers of this
//! machine lead to one, every door says the same, and without any of them nothing answers.

use std::io::Write as _;
use std::process::{Output, Stdio};

use edn_bridge::edn;
use edn_bridge::value::{Owned, Value};

use crate::fixture::Daemon;
use crate::support::server::{Answer, Server};
use crate::support::{Setup, at, data, is_event, text};

/// What the model servers say.
const HELLO: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\n\n\
event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello.\"}}\n\n\
event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// The same of a server with the protocol of OpenAI.
const HELLO_OF_OPENAI: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello.\"},\"finish_reason\":null}]}\n\n\
     data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
     data: [DONE]\n\n";

/// Anthropic's server on loopback, which also lists a model.
fn anthropic() -> Server {
    Server::of(|asked| match asked.method.as_str() {
        "GET" => Answer::json(200, r#"{"data":[{"id":"claude-sonnet-5"}]}"#),
        _ => Answer::events(HELLO),
    })
}

/// A setup that knows these addresses of servers. What runs on the machine of the person who tests is not asked.
pub fn setup(servers: &[(&str, &str)]) -> Setup {
    let closed = ["ollama", "llama-cpp", "vllm", "lm-studio"].map(|name| (name, "http://127.0.0.1:9/v1"));
    let closed = closed.into_iter().filter(|(name, _)| servers.iter().all(|(known, _)| known != name));
    let providers: String = servers
        .iter()
        .copied()
        .chain(closed)
        .map(|(name, url)| format!("{name:?} {{:base-url {url:?}}} "))
        .collect();
    let setup = Setup::new();
    let folder = setup.dir.path().join("config/edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), format!("{{:providers {{{providers}}}}}")).unwrap();
    setup
}

fn prompt(setup: &Setup, words: &[&str]) -> Output {
    setup.command().arg("prompt").args(words).stdin(Stdio::null()).output().unwrap()
}

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn state(frame: &Owned, key: &str) -> String {
    text(at(frame, &["data", "state"]).unwrap(), key).to_owned()
}

#[test]
fn key_in_the_environment_answers_and_is_told_once() {
    let server = anthropic();
    let setup = setup(&[("anthropic", &server.url())]);
    let setup = setup.env("ANTHROPIC_API_KEY", "sk-canary").env("OPENAI_API_KEY", "sk-other");
    let (status, out, err) = printed(&prompt(&setup, &["Fix the bug"]));
    assert_eq!((status, out.as_str()), (Some(0), "Hello.\n"), "{err}");
    let told = "edn-bridge: Anthropic answers with claude-sonnet-5 (key in ANTHROPIC_API_KEY; also there: OPENAI_API_KEY). ";
    assert!(err.starts_with(told) && err.lines().count() == 1, "{err}");
    assert!(!err.contains("canary"), "{err}");
    let asked = server.asked();
    assert_eq!((&asked.json()["model"], asked.line("x-api-key")), (&"claude-sonnet-5".into(), "sk-canary"));
    // The session has it from now on, whatever key there is later.
    let other = Setup { dir: setup.dir.clone(), ..Setup::new() };
    let other = other.env("ANTHROPIC_API_KEY", "sk-canary").env("DEEPSEEK_API_KEY", "x");
    let (status, out, err) = printed(&prompt(&other, &["--continue", "And now?"]));
    assert_eq!((status, out.as_str(), err.as_str()), (Some(0), "Hello.\n", ""));
    assert_eq!(server.asked().json()["model"], "claude-sonnet-5");
    // What is named is not told.
    let (status, _, err) =
        printed(&prompt(&setup, &["--provider", "anthropic", "--model", "claude-haiku-4-5", "hi"]));
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert_eq!(server.asked().json()["model"], "claude-haiku-4-5");
}

#[test]
fn options_and_configuration_read_a_model_like_every_door() {
    let server = anthropic();
    let here = || setup(&[("anthropic", &server.url())]).env("ANTHROPIC_API_KEY", "k");
    let configured = |more: &str| {
        let setup = here();
        let path = setup.dir.path().join("config/edn-bridge/config.edn");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{{{more} {}", text.trim_start_matches('{'))).unwrap();
        setup
    };
    for (more, words) in [
        ("", &["--model", "anthropic/claude-haiku-4-5", "hi"][..]),
        ("", &["--model", "claude-haiku", "hi"]),
        ("", &["--provider", "anthropic", "--model", "claude-haiku", "hi"]),
        // An option stands over a configuration, and may name another provider.
        (":provider \"ollama\"", &["--model", "anthropic/claude-haiku", "hi"]),
        (":model \"anthropic/claude-haiku\"", &["hi"]),
        (":model \"claude-haiku\"", &["hi"]),
        (":provider \"anthropic\" :model \"anthropic/claude-haiku\"", &["hi"]),
    ] {
        let (status, out, err) = printed(&prompt(&configured(more), words));
        assert_eq!((status, out.as_str()), (Some(0), "Hello.\n"), "{more} {words:?}: {err}");
        assert_eq!(server.asked().json()["model"], "claude-haiku-4-5", "{more} {words:?}");
    }
}

#[test]
fn prompt_without_a_model_offers_three_ways_and_fails() {
    let setup = setup(&[]);
    for words in [&["hi"][..], &["--output", "json", "hi"]] {
        let (status, _, err) = printed(&prompt(&setup, words));
        assert_eq!(status, Some(4), "{err}");
        for part in [
            "There is no model yet",
            "edn-bridge login",
            "ANTHROPIC_API_KEY",
            "/model",
            "--provider embedded",
        ] {
            assert!(err.contains(part), "{part}: {err}");
        }
    }
    let listed = setup.command().args(["sessions", "list", "--json"]).output().unwrap();
    assert_eq!(printed(&listed).1, "[]\n", "a try that cannot succeed leaves no session");
    // A key of a provider whose models are not known is named.
    let setup = setup.env("MISTRAL_API_KEY", "k");
    let (status, _, err) = printed(&prompt(&setup, &["hi"]));
    assert!(status == Some(4) && err.contains("MISTRAL_API_KEY has a key of Mistral"), "{err}");
}

#[test]
fn server_of_this_machine_answers_with_its_only_model() {
    let list = |models: &'static str| {
        Server::of(move |asked| match asked.method.as_str() {
            "GET" => Answer::json(200, models),
            _ => Answer::events(HELLO_OF_OPENAI),
        })
    };
    let server = list(r#"{"data":[{"id":"qwen3:8b"},{"id":"nomic-embed-text"}]}"#);
    let one = setup(&[("ollama", &server.url())]);
    let (status, out, err) = printed(&prompt(&one, &["hi"]));
    assert_eq!((status, out.as_str()), (Some(0), "Hello.\n"), "{err}");
    assert!(err.starts_with("edn-bridge: Ollama answers with qwen3:8b (a server on this machine"), "{err}");
    // Which of two is meant, nobody knows; a key comes before a server.
    let two = list(r#"{"data":[{"id":"qwen3:8b"},{"id":"llama3"}]}"#);
    assert_eq!(prompt(&setup(&[("ollama", &two.url())]), &["hi"]).status.code(), Some(4));
    let hosted = anthropic();
    let keyed = setup(&[("ollama", &server.url()), ("anthropic", &hosted.url())]);
    let (_, _, err) = printed(&prompt(&keyed.env("ANTHROPIC_API_KEY", "k"), &["hi"]));
    assert!(err.contains("Anthropic answers"), "{err}");
}

#[test]
fn login_selects_its_provider_and_the_newest_wins() {
    let (first, second) = (anthropic(), Server::of(|_| Answer::events(HELLO_OF_OPENAI)));
    let setup = setup(&[("anthropic", &first.url()), ("xai", &second.url())]);
    // A running session without a model has one as soon as there is a login.
    let mut bridge = setup.ready();
    let before = bridge.ask("g", "get_state", "{}");
    assert_eq!(
        (state(&before, "model-id"), state(&before, "header-model-label")),
        (String::new(), "no model yet".into())
    );
    let setting_up = at(&before, &["data", "state", "setup"]).unwrap();
    assert_eq!(setting_up.get("needs").and_then(Value::as_keyword), Some("model"), "{setting_up}");
    assert!(
        setting_up.get("offers").unwrap().to_string().starts_with("[:login :choose-model"),
        "{setting_up}"
    );
    bridge.request("p", "prompt", "{:message \"hi\"}");
    let ended = bridge.event("turn/ended");
    assert_eq!(data(&ended, "error-kind"), "not-configured", "{ended}");
    for (provider, expected) in
        [("xai", "xAI answers with grok-4"), ("anthropic", "Anthropic answers with claude-sonnet-5")]
    {
        let mut login = setup.command();
        login.args(["login", provider]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut login = login.spawn().unwrap();
        login.stdin.take().unwrap().write_all(b"sk-x\n").unwrap();
        assert!(login.wait().unwrap().success());
        let (status, out, err) = printed(&prompt(&setup, &["hi"]));
        assert_eq!((status, out.as_str()), (Some(0), "Hello.\n"), "{err}");
        assert!(err.contains(expected) && err.contains("(a login at "), "{err}");
    }
    bridge.skip_to_now();
    bridge.request("q", "prompt", "{:message \"hi\"}");
    let told = bridge.event("ui/notification");
    assert!(data(&told, "message").starts_with("Anthropic answers with claude-sonnet-5"), "{told}");
    bridge.event("turn/ended");
    let after = bridge.ask("h", "get_state", "{}");
    assert_eq!(state(&after, "model-id"), "claude-sonnet-5");
    assert!(at(&after, &["data", "state", "setup"]).is_none(), "{after}");
}

#[test]
fn doors_without_an_engine_say_the_same_choice() {
    let server = anthropic();
    let setup = setup(&[("anthropic", &server.url())]).env("ANTHROPIC_API_KEY", "sk-canary");
    let run = |words: &[&str]| printed(&setup.command().args(words).output().unwrap());
    let (_, shown, _) = run(&["config", "show"]);
    let row = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    for (key, value) in [("provider ", "anthropic"), ("model ", "claude-sonnet-5")] {
        assert!(row(key).contains(value) && row(key).ends_with("key in ANTHROPIC_API_KEY"), "{shown}");
    }
    let (_, listed, _) = run(&["models", "list"]);
    assert!(listed.lines().any(|line| line.starts_with('*') && line.contains("claude-sonnet-5")), "{listed}");
    let (_, told, _) = run(&["doctor"]);
    assert!(told.contains("anthropic for the model claude-sonnet-5 (key in ANTHROPIC_API_KEY)"), "{told}");
    assert!(told.contains("anthropic answers, and has the model claude-sonnet-5"), "{told}");
    assert!(run(&["config", "check"]).0 == Some(0));
    let (_, queried, _) = run(&["query", "[:psi.agent-session/model-id :psi.agent-session/model-provider]"]);
    let queried = edn::read_one(queried.as_bytes()).unwrap().into_owned().to_string();
    assert!(queried.contains("\"claude-sonnet-5\"") && queried.contains("\"anthropic\""), "{queried}");
    // Without a key, each says that there is none.
    let setup = Setup { environment: Vec::new(), dir: setup.dir.clone(), ..Setup::new() };
    let run = |words: &[&str]| printed(&setup.command().args(words).output().unwrap());
    let (_, shown, _) = run(&["config", "show"]);
    let row = shown.lines().find(|line| line.starts_with("model ")).unwrap();
    assert!(row.contains("none"), "{shown}");
    assert!(!run(&["models", "list"]).1.contains('*'));
    let (status, told, _) = run(&["doctor"]);
    assert!(status == Some(1) && told.contains("There is no model yet."), "{told}");
    assert_eq!(run(&["config", "check"]).0, Some(0), "the files are well");
}

#[test]
fn server_is_not_asked_before_a_serve_is_ready() {
    let server = Server::of(|_| Answer::json(200, r#"{"data":[{"id":"only"}]}"#));
    let setup = setup(&[("ollama", &server.url())]);
    let mut bridge = setup.serve();
    let answer = bridge.handshake();
    assert_eq!(text(at(&answer, &["data", "server-info"]).unwrap(), "model-id"), "", "{answer}");
    bridge.finish();
    assert!(server.all_asked().is_empty(), "a handshake waits for no server");
}

#[test]
fn turn_in_the_daemon_has_the_key_of_its_editor() {
    let server = anthropic();
    let known = setup(&[("anthropic", &server.url())]);
    let mut daemon = Daemon::new(known);
    daemon.change(|setup| setup.env("ANTHROPIC_API_KEY", "sk-one"));
    let mut one = daemon.setup.ready();
    daemon.setup.environment.pop();
    daemon.change(|setup| setup.env("BRIDGE_TEST", "no key"));
    let mut two = daemon.setup.ready();
    for (bridge, is_answered) in [(&mut one, true), (&mut two, false)] {
        bridge.request("p", "prompt", "{:message \"hi\"}");
        let ended = bridge.until(|frame| is_event(frame, "turn/ended"));
        assert_eq!(data(&ended, "outcome") == "completed", is_answered, "{ended}");
    }
    assert_eq!(daemon.engines().len(), 1);
}
