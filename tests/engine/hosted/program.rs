//! Hosted models through the whole program: turns with tools and images, retries, compaction, aborts, usable
//! models, and the keys that commands see.

use edn_bridge::value::{Owned, Value};

use super::{KEY, STREAMS, words};
use crate::support::server::{Answer, End, Server};
use crate::support::{Bridge, Setup, at, code, data, end_of_turn, is_event, text};

/// A bridge whose configuration knows a server under the name `p`, with the model `m`.
pub(super) fn bridge(server: &Server, api: &str, model: &str) -> Setup {
    let setup = Setup::new().arg("--yolo").arg("--provider").arg("p").arg("--model").arg("m");
    let config = setup.dir.path().join("config.edn");
    let text = format!(
        "{{:providers {{\"p\" {{:api :{api} :base-url \"{}\" :key-command [\"echo\" \"{KEY}\"]}}}}
           :models [{{:provider \"p\" :id \"m\" :context-window 100000 :max-output 64000 :input [:image]
                      :price {{:input 1.0 :output 10.0 :cache-read 0.1 :cache-write 2.0}} {model}}}]}}",
        server.url()
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

#[test]
fn turn_with_tool_works_on_every_protocol() {
    for (api, stream) in STREAMS {
        let server =
            Server::new([Answer::events(stream).cut(7), Answer::events(words(api, "It says hello."))]);
        let setup = bridge(&server, api, ":thinking [:low :medium]");
        std::fs::write(setup.project().join("note.txt"), "hello from the note").unwrap();
        let mut bridge = setup.ready();
        bridge.ask("t", "set_thinking_level", "{:level \"high\"}");
        bridge.request("p", "prompt", "{:message \"Read it.\"}");
        let (mut said, mut thought) = (String::new(), String::new());
        let last = loop {
            let frame = bridge.frame();
            match text(&frame, "event") {
                "assistant/delta" => said.push_str(data(&frame, "text")),
                "assistant/thinking-delta" => thought.push_str(data(&frame, "text")),
                "tool/result" => assert!(data(&frame, "result-text").contains("hello from the note")),
                "assistant/message" if data(&frame, "stop-reason") != "tool-use" => break frame,
                _ => {}
            }
        };
        assert_eq!(data(&last, "stop-reason"), "end-turn", "{api}\n{}", bridge.told());
        assert_eq!(said, "Grüße, 世界 🎉\n\"data: x\"It says hello.", "{api}");
        assert_eq!(thought, "They want the file — naïve.", "{api}");
        // What it cost: 1 for a million in, 10 out, 0.1 from the cache, 2 into it.
        let stats = bridge.ask("s", "get_session_stats", "{}");
        let cost = at(&stats, &["data", "stats", "cost"]);
        let cost = cost.and_then(Value::as_f64).unwrap_or(-1.0);
        let first = if api == "anthropic" { 12.0 + 400.0 } else { 212.0 };
        let expected = (first + 890.0 + 300.0 + 10.0 + 50.0) / 1e6;
        assert!((cost - expected).abs() < 1e-9, "{api}: {cost} instead of {expected}: {stats}");
        let state = bridge.ask("g", "get_state", "{}");
        assert_eq!(
            at(&state, &["data", "state", "effective-reasoning-effort"]).and_then(Value::as_str),
            Some("medium"),
            "{state}"
        );

        let first = server.asked().json();
        assert!(first["tools"].to_string().contains("ask-user"), "{api}");
        let second = server.asked().json();
        let at = |pointer: &str| second.pointer(pointer).cloned().unwrap_or_default();
        match api {
            "anthropic" => {
                assert_eq!(at("/messages/1/content/0/signature"), "EqQBCkgHAhEM1gbcDa9GJwZA2b3h");
                assert_eq!(at("/messages/1/content/2/id"), "toolu_01T1x1fJ34qAmk2tNTrN7Up6");
                assert_eq!(at("/messages/2/content/0/tool_use_id"), "toolu_01T1x1fJ34qAmk2tNTrN7Up6");
            }
            "openai" => {
                assert_eq!(at("/messages/2/reasoning_content"), "They want the file — naïve.");
                assert_eq!(at("/messages/3/role"), "tool");
                assert_eq!(at("/messages/3/tool_call_id"), "call_abc123");
            }
            "openai-responses" => {
                assert_eq!(at("/input/1/encrypted_content"), "gAAAAsecretthoughts");
                assert_eq!(at("/input/4/type"), "function_call_output");
            }
            _ => {
                assert_eq!(at("/contents/1/parts/1/thoughtSignature"), "CpcBAdHtim8");
                assert_eq!(at("/contents/2/parts/0/functionResponse/name"), "read");
            }
        }
        // What is to be given again is nobody else's business.
        let messages = bridge.ask("m", "get_messages", "{}").to_string();
        assert!(!messages.contains("replay") && !messages.contains("signature"), "{messages}");
    }
}

#[test]
fn image_from_read_reaches_the_model() {
    let call = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.png\"}"}}]},"finish_reason":"tool_calls"}]}"#;
    let server = Server::new([
        Answer::events(format!("{call}\n\ndata: [DONE]\n\n")),
        Answer::events(words("openai", "A picture.")),
    ]);
    let setup = bridge(&server, "openai", "");
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01";
    std::fs::write(setup.project().join("a.png"), picture).unwrap();
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"Look at it.\"}");
    let result = bridge.event("tool/result");
    assert_eq!(data(&result, "result-text"), "An image, image/png, 24 bytes.", "{result}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "A picture.");
    server.asked();
    use base64::Engine as _;
    let url = format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(picture));
    let asked = server.asked().json().to_string();
    assert!(asked.contains(&url), "{asked}");
}

#[test]
fn temporary_failure_is_retried_and_last_answer_kept() {
    let server = Server::new([
        Answer::json(429, r#"{"error":{"message":"Slow down","type":"rate_limit_exceeded"}}"#)
            .with("retry-after-ms", "20"),
        Answer::json(503, r#"{"error":{"message":"Busy"}}"#).with("retry-after", "0.02"),
        Answer::events(words("openai", "at last")),
    ]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("p", "prompt", "{:message \"hi\"}");
    let waiting =
        bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "retrying");
    assert_eq!(at(&waiting, &["data", "retry-attempt"]).and_then(Value::as_i64), Some(1));
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("at last", "end-turn"));
    assert_eq!(server.all_asked().len(), 3);

    // The text of the last try stays.
    bridge.ask("r", "set_auto_retry", "{:enabled false}");
    let half = words("openai", "half")
        .split("data: {\"choices\":[{\"index\":0,\"delta\":{}")
        .next()
        .unwrap()
        .to_owned();
    server.then([Answer::events(half).end(End::Dropped)]);
    bridge.request("q", "prompt", "{:message \"again\"}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("half", "error"));
    assert!(data(&last, "error-message").contains("went away"), "{last}");
    assert_eq!(server.all_asked().len(), 1);
}

#[test]
fn context_overflow_causes_compaction() {
    let long = "word ".repeat(30_000);
    let server = Server::new([
        Answer::events(words("openai", &long)),
        Answer::json(
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        ),
        Answer::events(words("openai", "They talked.")),
        Answer::events(words("openai", "Yes.")),
    ]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("a", "prompt", "{:message \"talk\"}");
    end_of_turn(&mut bridge);
    bridge.request("b", "prompt", "{:message \"still there?\"}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("Yes.", "end-turn"), "{last}");
    let asked = server.all_asked();
    assert_eq!(asked.len(), 4);
    assert!(asked[3].body.contains("They talked.") && asked[3].body.len() < asked[1].body.len() / 2);
}

#[test]
fn abort_ends_call_at_server() {
    let start = words("openai", "half")
        .split("data: {\"choices\":[{\"index\":0,\"delta\":{}")
        .next()
        .unwrap()
        .to_owned();
    let server = Server::new([Answer::events(start).end(End::Silent)]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("p", "prompt", "{:message \"hi\"}");
    bridge.event("assistant/delta");
    bridge.ask("x", "abort", "{}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("half", "aborted"));
    bridge.finish();
}

#[test]
fn models_with_key_are_usable() {
    let usable = |bridge: &mut Bridge| {
        let answer = bridge.ask("m", "get_available_models", "{}");
        let models = at(&answer, &["data", "models"]).and_then(|models| models.as_slice()).unwrap().to_vec();
        let mut names: Vec<String> = models
            .iter()
            .filter(|model| model.get("usable").and_then(Value::as_bool) == Some(true))
            .map(|model| text(model, "provider").to_owned())
            .collect();
        names.dedup();
        names
    };
    let keyless = || {
        [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "DEEPSEEK_API_KEY",
            "XAI_API_KEY",
            "GROQ_API_KEY",
            "OPENROUTER_API_KEY",
            "MISTRAL_API_KEY",
        ]
        .into_iter()
        .fold(Setup::new(), |setup, name| setup.env(name, ""))
    };
    let setup = keyless();
    let mut bridge = setup.ready();
    assert_eq!(usable(&mut bridge), Vec::<String>::new());
    let refused = bridge.ask("c", "cycle_model", "{}");
    assert_eq!(code(&refused), "request/unknown-model", "{refused}");
    bridge.ask("s", "set_model", "{:provider \"anthropic\" :model-id \"claude-sonnet-4-5\"}");
    bridge.request("p", "prompt", "{:message \"hi\"}");
    let last = end_of_turn(&mut bridge);
    assert!(data(&last, "error-message").contains("Set ANTHROPIC_API_KEY"), "{last}");

    let setup = keyless().env("ANTHROPIC_API_KEY", KEY);
    let mut bridge = setup.ready();
    assert_eq!(usable(&mut bridge), ["anthropic"]);
    let answer = bridge.ask("c", "cycle_model", "{}");
    assert_eq!(
        at(&answer, &["data", "model", "provider"]).and_then(Value::as_str),
        Some("anthropic"),
        "{answer}"
    );
    let names =
        bridge.ask("q", "query_eql", "{:query \"[:psi.agent-session/authenticated-providers]\"}").to_string();
    assert!(names.contains("anthropic") && !names.contains("openai"), "{names}");
    let unknown = bridge.ask("u", "set_model", "{:provider \"antropic\" :model-id \"claude-sonnet-4-5\"}");
    assert_eq!(code(&unknown), "request/unknown-model");
    assert!(unknown.to_string().contains("anthropic"), "{unknown}");

    // Each door reads the same spellings, and leads to the same model.
    let chosen = |answer: &Owned| at(answer, &["data", "model"]).map(ToString::to_string).unwrap_or_default();
    let by_op = |bridge: &mut Bridge, params: &str| chosen(&bridge.ask("op", "set_model", params));
    let newest = by_op(&mut bridge, "{:model-id \"anthropic/claude-sonnet\"}");
    assert!(newest.contains("claude-sonnet-"), "{newest}");
    for params in [
        "{:provider \"anthropic\" :model-id \"claude-sonnet\"}",
        "{:model-id \"claude-sonnet\"}",
        "{:model-id \"anthropic claude-sonnet\"}",
    ] {
        assert_eq!(by_op(&mut bridge, params), newest, "{params}");
    }
    for (text, expected) in [
        ("/model anthropic/claude-sonnet", "Model set to anthropic claude-sonnet-"),
        ("/model anthropic claude-sonnet", "Model set to anthropic claude-sonnet-"),
        ("/model claude-sonnet", "Model set to anthropic claude-sonnet-"),
        ("/model ollama/fake-2", "Model set to ollama fake-2. The catalogue does not list it: a window of "),
        ("/model anthropic claude-sonet-4-5", "Did you mean anthropic/claude-sonnet-4-5?"),
        ("/model antropic claude-sonnet", "There is no model"),
    ] {
        bridge.request("slash", "command", &format!("{{:text {text:?}}}"));
        let told = bridge.until(|frame| is_event(frame, "command-result"));
        let told = told.to_string();
        assert!(told.contains(expected), "{text}: {told}");
    }
    // One that nobody lists is used all the same.
    let unlisted = by_op(&mut bridge, "{:model-id \"ollama/qwen99\"}");
    assert!(unlisted.contains("ollama") && unlisted.contains("qwen99"), "{unlisted}");
}

#[test]
fn thinking_levels_cycle_through_those_of_model() {
    let server = Server::new([]);
    let mut bridge = bridge(&server, "openai", ":thinking [:minimal :high]").ready();
    let mut seen = Vec::new();
    for n in 0..3 {
        let id = format!("t{n}");
        let answer = bridge.ask(&id, "cycle_thinking_level", "{}");
        seen.push(data(&answer, "thinking-level").to_owned());
    }
    assert_eq!(seen, ["high", "minimal", "high"]);
}

#[test]
fn commands_do_not_inherit_keys() {
    let server = Server::new([]);
    let setup = bridge(&server, "openai", "")
        .env("OPENROUTER_API_KEY", "canary-openrouter")
        .env("WORK_KEY", "canary-work");
    let config = setup.dir.path().join("config.edn");
    std::fs::write(
        &config,
        "{:providers {\"work\" {:base-url \"https://w.example/v1\" :key-variables [\"WORK_KEY\"]}}}",
    )
    .unwrap();
    let mut bridge = setup.ready();
    let answer = bridge.ask("b", "bash", "{:command \"env; echo done\"}");
    assert!(data(&answer, "output").contains("done"), "{answer}");
    assert!(!answer.to_string().contains("canary"), "{answer}");
}
