//! Hosted models over real HTTP: the formats of real servers, cut anywhere, and all kinds of failures.

mod cases;
mod ends;
mod histories;
mod long_runs;
mod program;
mod reading;
mod refusals;
mod sending;
mod unreadable_calls;
mod web_search;
use crate::support;

use std::sync::Arc;
use std::time::Duration;

use edn_bridge::auth::{Credentials, Keys};
use edn_bridge::clock::{Clock, SystemClock};
use edn_bridge::edn;
use edn_bridge::http::Http;
use edn_bridge::message::{Block, EntryId, Message, Replay, Role, StopReason, ThinkingLevel, Usage};
use edn_bridge::provider::hosted::{Hosted, spec};
use edn_bridge::provider::{
    AnswerEnd, Chunk, ErrorKind, ModelRequest, Provider as _, ProviderError, ThinkingBy,
};
use futures_util::StreamExt as _;
use support::server::{Answer, End, Server};

const ANTHROPIC: &str = include_str!("../providers/anthropic.sse");
const OPENAI: &str = include_str!("../providers/openai.sse");
const RESPONSES: &str = include_str!("../providers/responses.sse");
const GEMINI: &str = include_str!("../providers/gemini.sse");

/// Each protocol, with its stream.
const STREAMS: [(&str, &str); 4] =
    [("anthropic", ANTHROPIC), ("openai", OPENAI), ("openai-responses", RESPONSES), ("gemini", GEMINI)];

/// The key that the servers are shown.
const KEY: &str = "sk-test-0123456789";

/// An answer of plain words, as each protocol ends one.
fn words(api: &str, words: &str) -> String {
    let words = serde_json::to_string(words).unwrap();
    match api {
        "anthropic" => format!(
            "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{\"input_tokens\":10,\"output_tokens\":1}}}}}}\n\n\
             event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
             event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":{words}}}}}\n\n\
             event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
             event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"end_turn\"}},\"usage\":{{\"output_tokens\":5}}}}\n\n\
             event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
        ),
        "openai" => format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":{words}}},\"finish_reason\":null}}]}}\n\n\
             data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":5}}}}\n\n\
             data: [DONE]\n\n"
        ),
        "openai-responses" => format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":{words}}}\n\n\
             data: {{\"type\":\"response.completed\",\"response\":{{\"usage\":{{\"input_tokens\":10,\"output_tokens\":5}}}}}}\n\n"
        ),
        _ => format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":{words}}}]}},\"finishReason\":\"STOP\"}}],\
             \"usageMetadata\":{{\"promptTokenCount\":10,\"candidatesTokenCount\":5}}}}\r\n\r\n"
        ),
    }
}

/// The provider `p` of a configuration, without a bridge around it.
fn provider(server: &Server, api: &str, more: &str) -> Hosted {
    named(server, "p", api, more)
}

/// The same with another name.
fn named(server: &Server, name: &str, api: &str, more: &str) -> Hosted {
    let text =
        format!("{{:api :{api} :base-url \"{}\" :key-command [\"echo\" \"{KEY}\"] {more}}}", server.url());
    let value = edn::read_one(text.as_bytes()).unwrap().into_owned();
    let (specs, problems) = spec::all(&[(name.to_owned(), value)]);
    assert_eq!(problems, Vec::new());
    server.stands_for(name);
    let spec = specs.into_iter().find(|spec| &*spec.id == name).unwrap();
    let (http, clock): (_, Arc<dyn Clock>) = (Arc::new(Http::default()), Arc::new(SystemClock));
    let credentials = Credentials::new("/nonexistent".as_ref());
    let keys = Keys::new(
        spec.id.clone(),
        spec.name.clone(),
        spec.key.clone(),
        credentials,
        http.clone(),
        clock.clone(),
    );
    Hosted::new(spec, keys, http, clock)
}

fn request() -> ModelRequest {
    let content = vec![Block::Text("Read note.txt.".into())];
    let message = Message::new(EntryId::from("e1"), Role::User, content, Arc::from(""));
    ModelRequest {
        model: "m".to_owned(),
        system: "Be brief.".to_owned(),
        messages: vec![Arc::new(message)],
        thinking: ThinkingLevel::Medium,
        thinking_by: Some(ThinkingBy::Budget),
        max_output_tokens: Some(64_000),
        ..ModelRequest::default()
    }
}

fn ask(provider: &Hosted, request: ModelRequest) -> Vec<Result<Chunk, ProviderError>> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    executor.block_on(async {
        tokio::time::timeout(support::PATIENCE, provider.stream(request).collect()).await.unwrap()
    })
}

/// The answer as the journal has it.
fn answered(chunks: Vec<Result<Chunk, ProviderError>>) -> Arc<Message> {
    let (mut content, mut replays) = (Vec::new(), Vec::new());
    for chunk in chunks {
        match chunk.unwrap() {
            Chunk::Text(text) => content.push(Block::Text(text.into())),
            Chunk::Thinking(text) => content.push(Block::thinking(text)),
            Chunk::ToolCall { id, name, arguments } => content.push(Block::ToolCall { id, name, arguments }),
            Chunk::Replay { data, is_attached } => {
                replays.push(Replay { place: content.len(), is_attached, data });
            }
            Chunk::Sources(sources) => content.push(Block::Sources(sources)),
            Chunk::ToolArguments { .. } | Chunk::Withheld(_) | Chunk::Usage(_) | Chunk::End(_) => {}
        }
    }
    let mut message = Message::new(EntryId::from("a1"), Role::Assistant, content, Arc::from(""));
    message.replays = replays;
    Arc::new(message)
}

/// What an answer comes to, its pieces joined.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    text: String,
    thinking: String,
    pieces: String,
    calls: Vec<(String, String)>,
    usage: Option<Usage>,
    replay: bool,
    stop: Option<StopReason>,
    error: Option<ErrorKind>,
    message: String,
}

fn hear(chunks: Vec<Result<Chunk, ProviderError>>) -> Heard {
    let mut heard = Heard::default();
    for chunk in chunks {
        assert!(heard.stop.is_none() && heard.error.is_none(), "something came after the end");
        match chunk {
            Ok(Chunk::Text(text)) => heard.text.push_str(&text),
            Ok(Chunk::Thinking(text)) => heard.thinking.push_str(&text),
            Ok(Chunk::ToolArguments { index, delta, name, .. }) => {
                assert_eq!((index, &*name), (0, "read"));
                heard.pieces.push_str(&delta);
            }
            Ok(Chunk::ToolCall { name, arguments, .. }) => {
                let arguments = match arguments.unreadable() {
                    Some(unreadable) => format!("unreadable: {}", unreadable.text),
                    None => arguments.to_string(),
                };
                heard.calls.push((name.to_string(), arguments));
            }
            Ok(Chunk::Usage(usage)) => heard.usage = Some(usage),
            Ok(Chunk::Withheld(_) | Chunk::Sources(_)) => {}
            Ok(Chunk::Replay { .. }) => heard.replay = true,
            Ok(Chunk::End(end)) => {
                heard.stop = Some(end.stop_reason());
                if let AnswerEnd::Refused(why) = end {
                    heard.message = why;
                }
            }
            Err(error) => {
                heard.error = Some(error.kind);
                heard.message = error.message;
            }
        }
    }
    heard
}

#[test]
fn provider_stream_does_not_depend_on_read_boundaries() {
    for (api, stream) in STREAMS {
        for size in [1, 2, 3, 5, 17, 64, 1000, usize::MAX] {
            let server = Server::new([Answer::events(stream).cut(size.min(stream.len()))]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            let written = heard.pieces.replace(' ', "");
            assert_eq!(written, r#"{"path":"note.txt"}"#, "{api} in pieces of {size}");
            let cache_write = if api == "anthropic" { 200 } else { 0 };
            let expected = Heard {
                text: "Grüße, 世界 🎉\n\"data: x\"".to_owned(),
                thinking: "They want the file — naïve.".to_owned(),
                pieces: heard.pieces.clone(),
                calls: vec![("read".to_owned(), r#"{:path "note.txt"}"#.to_owned())],
                usage: Some(Usage {
                    input: 212 - cache_write,
                    output: 89,
                    cache_read: 3000,
                    cache_write,
                    cost: 0.0,
                }),
                replay: true,
                stop: Some(StopReason::ToolUse),
                error: None,
                message: String::new(),
            };
            let expected = if api == "anthropic" {
                Heard { usage: expected.usage.map(|usage| Usage { input: 12, ..usage }), ..expected }
            } else {
                expected
            };
            assert_eq!(heard, expected, "{api} in pieces of {size}");
        }
    }
}

#[test]
fn every_provider_gets_request_of_its_protocol() {
    for (api, path, key) in [
        ("anthropic", "/v1/messages", ("x-api-key", KEY.to_owned())),
        ("openai", "/chat/completions", ("authorization", format!("Bearer {KEY}"))),
        ("openai-responses", "/responses", ("authorization", format!("Bearer {KEY}"))),
        ("gemini", "/models/m:streamGenerateContent?alt=sse", ("x-goog-api-key", KEY.to_owned())),
    ] {
        let server = Server::new([Answer::events(words(api, "ok"))]);
        let image = Block::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
        let mut request = request();
        request.messages.push(Arc::new(Message::new("e2".into(), Role::User, vec![image], "".into())));
        let heard = hear(ask(&provider(&server, api, ":headers {\"x-team\" \"blue\"}"), request));
        assert_eq!((heard.text.as_str(), heard.stop), ("ok", Some(StopReason::EndTurn)), "{api}: {heard:?}");
        let asked = server.asked();
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", path));
        assert_eq!((asked.line(key.0), asked.line("x-team")), (key.1.as_str(), "blue"), "{api}");
        assert!(!asked.path.contains(KEY));
        let body = asked.json();
        let at = |pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
        match api {
            "anthropic" => {
                assert_eq!(at("/system/0/cache_control/type"), "ephemeral");
                assert_eq!(at("/thinking"), serde_json::json!({"type": "enabled", "budget_tokens": 10_240}));
                assert_eq!(at("/max_tokens"), 42_240);
                assert_eq!(at("/messages/0/content/1/source/data"), "iVBORw0KGgo=");
                assert_eq!(at("/messages/0/content/1/cache_control/type"), "ephemeral");
            }
            "openai" => {
                assert_eq!(at("/messages/0/content"), "Be brief.");
                assert_eq!(at("/messages/1/content/1/image_url/url"), "data:image/png;base64,iVBORw0KGgo=");
                assert_eq!((at("/reasoning_effort"), at("/max_tokens")), ("medium".into(), 32_000.into()));
                assert_eq!(at("/stream_options/include_usage"), true);
            }
            "openai-responses" => {
                assert_eq!((at("/store"), at("/instructions")), (false.into(), "Be brief.".into()));
                assert_eq!(at("/reasoning"), serde_json::json!({"effort": "medium", "summary": "auto"}));
                assert_eq!(at("/input/0/content/1/type"), "input_image");
            }
            _ => {
                assert_eq!(at("/systemInstruction/parts/0/text"), "Be brief.");
                assert_eq!(at("/contents/0/parts/1/inlineData/mimeType"), "image/png");
                assert_eq!(
                    at("/generationConfig/thinkingConfig"),
                    serde_json::json!({"includeThoughts": true, "thinkingBudget": 8192})
                );
            }
        }
    }
}

#[test]
fn provider_failures_are_distinguished() {
    let limited = |millis| ErrorKind::RateLimited { retry_after: Some(Duration::from_millis(millis)) };
    let start = words("anthropic", "half").split("event: message_delta").next().unwrap().to_owned();
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let told = |event: &str| format!("{start}event: error\ndata: {event}\n\n");
    let events = |body: &str| Answer::events(body.as_bytes().to_vec());
    for (what, answer, kind, words) in [
        (
            "429 with a pause",
            Answer::json(429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow"}}"#)
                .with("retry-after", "7"),
            limited(7000),
            "asks to wait (HTTP 429): Slow",
        ),
        (
            "429 with a long pause",
            Answer::json(429, r#"{"error":{"message":"Slow"}}"#).with("retry-after", "86340"),
            limited(86_340_000),
            "p asks to wait for 23 h 59 min (HTTP 429): Slow",
        ),
        (
            "429 with the pause in words",
            Answer::json(429, r#"{"error":{"message":"Rate limit. Try again in 2.5s."}}"#),
            limited(2500),
            "p asks to wait (HTTP 429): Rate limit.",
        ),
        (
            "429 with a budget that is used up",
            Answer::json(429, "{}")
                .with("x-ratelimit-remaining-tokens", "0")
                .with("x-ratelimit-reset-tokens", "1m2s"),
            limited(62_000),
            "p asks to wait (HTTP 429): {}",
        ),
        (
            "an overload that never ends",
            Answer::json(529, overloaded).with("x-should-retry", "false"),
            ErrorKind::Fatal,
            "has too much to do",
        ),
        (
            "a refusal that may be tried again",
            Answer::json(400, r#"{"error":{"message":"Not now"}}"#).with("x-should-retry", "true"),
            ErrorKind::Overloaded,
            "p refused (HTTP 400): Not now",
        ),
        (
            "a region",
            Answer::json(403, r#"{"error":{"message":"Country, region, or territory not supported"}}"#),
            ErrorKind::Fatal,
            "p does not allow this (HTTP 403): Country",
        ),
        (
            "a permanent failure",
            Answer::json(500, r#"{"error":{"message":"tools param requires --jinja flag"}}"#),
            ErrorKind::Fatal,
            "requires --jinja flag. Start llama-server with --jinja.",
        ),
        (
            "529",
            Answer::json(529, overloaded),
            ErrorKind::Overloaded,
            "too much to do (HTTP 529): Overloaded",
        ),
        (
            "an overload in the stream",
            events(&told(overloaded)),
            ErrorKind::Overloaded,
            "too much to do: Overloaded",
        ),
        (
            "a wrong key that is sent back",
            Answer::json(401, &format!(r#"{{"error":{{"message":"Incorrect API key {KEY}"}}}}"#)),
            ErrorKind::NotConfigured,
            "Incorrect API key [secret]",
        ),
        (
            "a key sent back in the stream",
            events(&told(&format!(r#"{{"error":{{"message":"bad {KEY}"}}}}"#))),
            ErrorKind::Fatal,
            "refused: bad [secret]",
        ),
        (
            "too long a prompt",
            Answer::json(
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
            ),
            ErrorKind::ContextOverflow,
            "prompt is too long",
        ),
        (
            "a dropped connection",
            events(&start).end(End::Dropped),
            ErrorKind::Dropped,
            "cannot be reached, or went away",
        ),
        ("an end in the middle", events(&start), ErrorKind::Dropped, "in the middle of its answer"),
        ("silence", events(&start).end(End::Silent), ErrorKind::Dropped, "said nothing more"),
        (
            "an event that is no JSON",
            events(&format!("{start}data: {{nonsense\n\n")),
            ErrorKind::Dropped,
            "cannot be read",
        ),
        (
            "an error in plain words",
            events(&format!("{start}event: error\ndata: upstream went away\n\n")),
            ErrorKind::Dropped,
            "broke off its answer: upstream went away",
        ),
        (
            "an answer that is compressed",
            events(&start).with("content-encoding", "gzip"),
            ErrorKind::Fatal,
            "compressed (gzip)",
        ),
        (
            "a reason that is compressed",
            Answer::json(503, "\u{1f}\u{8b}\u{8}").with("content-encoding", "gzip"),
            ErrorKind::Overloaded,
            "(HTTP 503): the reason is compressed (gzip)",
        ),
        (
            "bytes that are no text",
            Answer::events([b"data: \xff\xfe\n\n".to_vec()].concat()),
            ErrorKind::Fatal,
            "not UTF-8",
        ),
        (
            "a page",
            Answer {
                head: vec![("content-type".into(), "text/html".into())],
                ..events("<html>Log in</html>")
            },
            ErrorKind::Fatal,
            "check its :base-url",
        ),
        (
            "JSON that says what is wrong",
            Answer::json(200, r#"{"error":{"message":"no such model","type":"not_found_error"}}"#),
            ErrorKind::NotConfigured,
            "p has no such model or address: no such model",
        ),
        (
            "a way to elsewhere",
            Answer::json(302, "{}").with("location", "http://127.0.0.1:1/steal"),
            ErrorKind::Fatal,
            "elsewhere",
        ),
        (
            "a bad gateway's page",
            Answer {
                status: 502,
                head: vec![("content-type".into(), "text/html".into())],
                ..events("<html>nginx</html>")
            },
            ErrorKind::Overloaded,
            "p failed (HTTP 502): nginx",
        ),
    ] {
        let server = Server::new([answer]);
        let patience = if what == "silence" { 300 } else { 60_000 };
        let settings = format!(":idle-timeout-ms {patience}");
        let heard = hear(ask(&provider(&server, "anthropic", &settings), request()));
        assert_eq!(heard.error, Some(kind), "{what}: {heard:?}");
        assert!(heard.message.contains(words), "{what}: {}", heard.message);
        assert!(!heard.message.contains(KEY), "{what}: {}", heard.message);
    }
}

#[test]
fn unreachable_server_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::new([]);
    let spec = format!("{{:base-url \"http://127.0.0.1:{port}\"}}");
    drop(server);
    let value = edn::read_one(spec.as_bytes()).unwrap().into_owned();
    let (specs, _) = spec::all(&[("gone".to_owned(), value)]);
    let spec = specs.into_iter().find(|spec| &*spec.id == "gone").unwrap();
    let (http, clock): (_, Arc<dyn Clock>) = (Arc::new(Http::default()), Arc::new(SystemClock));
    let keys = Keys::new(
        spec.id.clone(),
        spec.name.clone(),
        spec.key.clone(),
        Credentials::new("/nonexistent".as_ref()),
        http.clone(),
        clock.clone(),
    );
    let gone = Hosted::new(spec, keys, http, clock);
    assert!(gone.is_ready(), "it needs no key");
    let heard = hear(ask(&gone, request()));
    assert_eq!(heard.error, Some(ErrorKind::Dropped));
    assert!(heard.message.contains(&format!("127.0.0.1:{port}")), "{}", heard.message);
}

#[test]
fn event_index_does_not_allocate() {
    let huge = r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":4000000000,"id":"c","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let server = Server::new([Answer::events(format!("{huge}\n\n"))]);
    let heard = hear(ask(&provider(&server, "openai", ""), request()));
    assert_eq!(heard.calls.len(), 1, "{heard:?}");

    let many: String = (0..200)
        .map(|n| format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"function\":{{\"name\":\"read\"}}}}]}}}}]}}\n\n"))
        .collect();
    let server = Server::new([Answer::events(many)]);
    let mut chunks = ask(&provider(&server, "openai", ""), request());
    let error = chunks.pop().unwrap().unwrap_err();
    assert!(error.message.contains("more than 128 tool calls"), "{error}");
}

#[test]
fn differences_of_small_servers_are_accepted() {
    let openai = |events: &[&str]| {
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let server = Server::new([Answer::events(body)]);
        hear(ask(&provider(&server, "openai", ""), request()))
    };
    // Without an index, without an id, arguments as an object, `stop` beside a call, no [DONE].
    let heard = openai(&[
        r#"{"choices":[{"delta":{"content":"","tool_calls":[{"function":{"name":"read","arguments":{"path":"a"}}}]},"finish_reason":"stop"}]}"#,
    ]);
    assert_eq!(heard.calls, [("read".to_owned(), r#"{:path "a"}"#.to_owned())]);
    assert_eq!(heard.stop, Some(StopReason::ToolUse));
    // Thinking under both names is said once; parts; a null usage.
    let heard = openai(&[
        r#"{"choices":[{"delta":{"reasoning":"a","reasoning_content":"a"},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"}]},{"type":"text","text":"c"}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"length"}],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":4}}}"#,
        "[DONE]",
    ]);
    assert_eq!((heard.thinking.as_str(), heard.text.as_str()), ("ab", "c"));
    assert_eq!(heard.stop, Some(StopReason::MaxTokens));
    assert_eq!(heard.usage.map(|usage| (usage.input, usage.output)), Some((3, 4)));
    // Arguments that are no JSON are told from others.
    let heard = openai(&[
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":"{oops"}}]},"finish_reason":"tool_calls"}]}"#,
    ]);
    assert_eq!(heard.calls, [("read".to_owned(), "unreadable: {oops".to_owned())]);
}

/// What a server may send between the events of an answer.
fn noise(api: &str) -> Vec<String> {
    let unknown = match api {
        "openai" => {
            r#"{"choices":[{"index":0,"delta":{"content":null,"audio":{"x":[1]}},"finish_reason":null}],"usage":7}"#
        }
        "gemini" => r#"{"candidates":[],"usageMetadata":"none","modelStatus":{"x":1}}"#,
        _ => {
            r#"{"type":"new.thing","index":"x","output_index":1.0,"delta":{"x":[1]},"item":[],"usage":{"input_tokens":{}}}"#
        }
    };
    vec![
        ": ping\n\n".to_owned(),
        "data:\n\n".to_owned(),
        "event: ping\ndata: \n\n".to_owned(),
        "retry: 5\n\n".to_owned(),
        format!("data: {unknown}\n\n"),
    ]
}

/// The events of a stream, each with the empty line after it.
fn events_of(stream: &str) -> Vec<String> {
    stream.replace("\r\n", "\n").split_inclusive("\n\n").map(str::to_owned).collect()
}

#[test]
fn noise_between_events_changes_no_answer() {
    for (api, stream) in STREAMS {
        let clean = hear(ask(&provider(&Server::new([Answer::events(stream)]), api, ""), request()));
        for noise in noise(api) {
            let noisy: String = events_of(stream).iter().map(|event| format!("{noise}{event}")).collect();
            let server = Server::new([Answer::events(noisy)]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            assert_eq!(heard, clean, "{api} with {noise:?}");
        }
    }
}

#[test]
fn answer_cut_at_any_event_is_whole_or_an_error() {
    for (api, stream) in STREAMS {
        let events = events_of(stream);
        let whole = hear(ask(&provider(&Server::new([Answer::events(stream)]), api, ""), request()));
        assert_eq!(whole.stop, Some(StopReason::ToolUse), "{api}");
        for cut in 0..events.len() {
            let server = Server::new([Answer::events(events.get(..cut).unwrap().concat())]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            if heard.stop.is_some() {
                assert_eq!(
                    (heard.text, heard.calls),
                    (whole.text.clone(), whole.calls.clone()),
                    "{api} at {cut}"
                );
            } else {
                assert_eq!(heard.error, Some(ErrorKind::Dropped), "{api} at {cut}");
            }
        }
    }
}
