//! The cases of `tests/data/provider-cases.jsonl`: what real servers were seen to send, and what it comes to.
//!
//! Read here are the streams (the text, thinking and calls in their order, the end, when the same call may succeed, and
//! what is said), the errors and the histories. The parts of a server's own tools, the replay of each part and its account
//! are not kept yet, and no request is sent again without what was refused: see `NOT_YET`.

use std::sync::Arc;
use std::time::Duration;

use edn_bridge::message::{Block, Message, Role};
use edn_bridge::provider::{AnswerEnd, Chunk, ErrorKind, ModelRequest};
use edn_bridge::value::{Map, Value};
use serde_json::{Value as Json, json};

use super::{ask, hear, named, provider, request, words};
use crate::support::server::{Answer, Server};

/// What a server sends, as a case writes it.
fn stream(case: &Json) -> String {
    let event = |event: &Json| event.as_str().map_or_else(|| format!("data: {event}\n\n"), str::to_owned);
    case["stream"].as_array().unwrap().iter().map(event).collect()
}

/// Appends a piece to the last part of its type.
fn join(parts: &mut Vec<Json>, kind: &str, text: &str) {
    match parts.last_mut() {
        Some(last) if last["type"] == kind => {
            last["text"] = json!(last["text"].as_str().unwrap().to_owned() + text)
        }
        _ => parts.push(json!({"type": kind, "text": text})),
    }
}

/// The fields of a case's part that are read here; nothing of a part that is not kept.
fn expected(part: &Json) -> Option<Json> {
    match part["type"].as_str().unwrap() {
        kind @ ("text" | "thinking") if part["text"] != "" => {
            Some(json!({"type": kind, "text": part["text"]}))
        }
        "call" => Some(part.clone()),
        _ => None,
    }
}

#[test]
fn provider_cases_give_parts_and_end() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/provider-cases.jsonl");
    let file = std::fs::read_to_string(path).unwrap();
    let cases = file.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    let mut read = 0;
    for case in cases.filter(|case| case.get("stream").is_some()) {
        read += 1;
        let (id, wanted) = (case["id"].as_str().unwrap(), &case["expected"]);
        let server = Server::new([Answer::events(stream(&case))]);
        let api = case["protocol"].as_str().unwrap();
        let (mut parts, mut end, mut usage) = (Vec::new(), json!({}), None);
        for chunk in ask(&provider(&server, api, ""), request()) {
            match chunk {
                Ok(Chunk::Text(text)) => join(&mut parts, "text", &text),
                Ok(Chunk::Thinking(text)) => join(&mut parts, "thinking", &text),
                Ok(Chunk::ToolCall { name, arguments, .. }) => {
                    let map = arguments.as_map().unwrap();
                    let fields = map.iter().map(|(key, value)| {
                        (key.as_keyword().unwrap().to_owned(), json!(value.as_str().unwrap()))
                    });
                    let arguments = fields.collect::<serde_json::Map<_, _>>();
                    parts.push(json!({"type": "call", "name": &*name, "arguments": arguments}));
                }
                Ok(Chunk::Usage(figures)) => usage = Some(figures),
                Ok(Chunk::ToolArguments { .. } | Chunk::Replay(_)) => {}
                Ok(Chunk::End(ended)) => {
                    end = match ended {
                        AnswerEnd::Complete => json!({"end": "complete"}),
                        AnswerEnd::Calls => json!({"end": "calls"}),
                        AnswerEnd::Limit => json!({"end": "limit"}),
                        AnswerEnd::Refused(why) => json!({"end": "refused", "said": why}),
                        AnswerEnd::Paused => json!({"end": "paused"}),
                        AnswerEnd::Broken { .. } => panic!("{id}: a broken answer is an error"),
                    };
                }
                Err(error) => {
                    let retry = match error.kind {
                        ErrorKind::Malformed => "now",
                        kind if error.is_passing() => {
                            assert!(
                                matches!(kind, ErrorKind::Dropped | ErrorKind::Overloaded),
                                "{id}: {error}"
                            );
                            "later"
                        }
                        _ => "no",
                    };
                    let kind = error.kind.as_str();
                    end = json!({"end": "broken", "retry": retry, "kind": kind, "said": error.message});
                }
            }
        }
        let wanted_parts: Vec<Json> =
            wanted["parts"].as_array().unwrap().iter().filter_map(expected).collect();
        assert_eq!(parts, wanted_parts, "{id}");
        for key in ["end", "retry", "kind"] {
            assert!(wanted.get(key).is_none() || end[key] == wanted[key], "{id}: {end}, not {wanted}");
        }
        for words in wanted.get("says").and_then(Json::as_array).into_iter().flatten() {
            assert!(end["said"].as_str().unwrap().contains(words.as_str().unwrap()), "{id}: {end}");
        }
        if let Some(figures) = wanted.get("usage") {
            let usage = usage.unwrap();
            assert_eq!(json!({"input": usage.input, "output": usage.output}), *figures, "{id}");
        }
    }
    assert_eq!(read, 24, "all streams of the file are read");
}

/// The cases that need what is not there yet.
const NOT_YET: [&str; 3] = ["err-stream-options", "err-encrypted", "hist-other-account"];

/// The cases of the file that have this key.
fn cases(key: &str) -> Vec<Json> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/provider-cases.jsonl");
    let file = std::fs::read_to_string(path).unwrap();
    let cases = file.lines().skip(1).map(|line| serde_json::from_str::<Json>(line).unwrap());
    let cases = cases.filter(|case| case.get(key).is_some());
    cases.filter(|case| !NOT_YET.contains(&case["id"].as_str().unwrap())).collect()
}

#[test]
fn provider_cases_give_kinds_of_errors() {
    let cases = cases("error");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let (id, wanted, error) = (case["id"].as_str().unwrap(), &case["expected"], &case["error"]);
        let status = error["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap();
        let server = Server::new([Answer::json(status, &error["body"].to_string())]);
        let mut chunks = ask(&provider(&server, case["protocol"].as_str().unwrap(), ""), request());
        let error = chunks.pop().unwrap().unwrap_err();
        let wait = wanted.get("wait-ms").and_then(Json::as_u64).map(Duration::from_millis);
        let (expected, words) = match wanted["kind"].as_str().unwrap() {
            "permanent" => (ErrorKind::Fatal, "cannot do this"),
            "no-tools" => (ErrorKind::Fatal, "has no tools for this model"),
            "denied" => (ErrorKind::Fatal, "does not allow this"),
            "not-configured" => (ErrorKind::NotConfigured, "did not accept the key"),
            // A shorter conversation helps, as it does where the window is full.
            "too-large-for-rate" => (ErrorKind::ContextOverflow, "takes no request that large in one minute"),
            "rate-limited" => (ErrorKind::RateLimited { retry_after: wait }, "asks to wait"),
            "context-overflow" => (ErrorKind::ContextOverflow, "cannot take a conversation that long"),
            kind => panic!("{id}: {kind}"),
        };
        assert_eq!(
            (error.kind, error.limit),
            (expected, wanted.get("limit").and_then(Json::as_u64)),
            "{id}: {error}"
        );
        let listed = |key: &str| wanted.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
        for words in listed("says").iter().filter_map(Json::as_str).chain([words]) {
            assert!(error.message.contains(words), "{id}: {error}");
        }
        for words in listed("not") {
            assert!(!error.message.contains(words.as_str().unwrap()), "{id}: {error}");
        }
    }
}

/// A message of a case, as the journal has it.
fn message(case: &Json) -> Arc<Message> {
    let role = match case["role"].as_str().unwrap() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::Tool,
    };
    let part = |part: &Json| {
        let text = |key: &str| part[key].as_str().unwrap();
        match text("type") {
            "text" => Block::Text(text("text").into()),
            "thinking" => Block::Thinking(text("text").into()),
            "call" => {
                let mut arguments = Map::new();
                for (key, value) in part["arguments"].as_object().unwrap() {
                    arguments.insert(Value::keyword(key.clone()), value.as_str().unwrap().to_owned());
                }
                let arguments = Value::from(arguments).into_owned();
                Block::ToolCall {
                    id: text("id").into(),
                    name: text("name").into(),
                    arguments: arguments.into(),
                }
            }
            "image" => super::sending::png(8, 92),
            kind => panic!("{kind}"),
        }
    };
    let content = case["parts"].as_array().unwrap().iter().map(part).collect();
    let mut message = Message::new("e".into(), role, content, "".into());
    message.tool_call_id = case.get("call").and_then(Json::as_str).map(Into::into);
    Arc::new(message)
}

#[test]
fn provider_cases_write_histories() {
    let cases = cases("history");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let (id, wanted) = (case["id"].as_str().unwrap(), &case["expected"]);
        let (api, name) = (case["protocol"].as_str().unwrap(), case["provider"].as_str().unwrap());
        let server = Server::new([Answer::events(words(api, "ok"))]);
        let messages = case["history"].as_array().unwrap().iter().map(message).collect();
        let model = case["model"].as_str().unwrap().to_owned();
        let request = ModelRequest { model, messages, ..ModelRequest::default() };
        let heard = hear(ask(&named(&server, name, api, ""), request));
        assert_eq!(heard.text, "ok", "{id}: {heard:?}");
        let body = server.asked().json();
        let found = |path: &str| body.pointer(&format!("/{path}")).cloned().unwrap_or_default();
        for (key, expected) in wanted.as_object().unwrap() {
            let texts = expected.as_array().cloned().unwrap_or_default();
            let texts: Vec<&str> = texts.iter().filter_map(Json::as_str).collect();
            match (key.as_str(), expected.as_str()) {
                ("same", _) => {
                    assert!(texts.iter().all(|path| found(path) == found(texts[0])), "{id}: {body}")
                }
                ("roles", _) => {
                    let roles = body["messages"].as_array().unwrap().iter();
                    assert_eq!(
                        roles.map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>(),
                        texts,
                        "{id}"
                    );
                }
                ("somewhere", _) => {
                    assert!(texts.iter().all(|text| body.to_string().contains(text)), "{id}: {body}")
                }
                ("nowhere", _) => {
                    assert!(!texts.iter().any(|text| body.to_string().contains(text)), "{id}: {body}")
                }
                (path, Some(pattern)) if pattern.starts_with('~') => {
                    let pattern = regex_automata::meta::Regex::new(&pattern[1..]).unwrap();
                    assert!(pattern.is_match(found(path).as_str().unwrap()), "{id}: {path}: {body}");
                }
                (path, _) => assert_eq!(found(path), *expected, "{id}: {path}: {body}"),
            }
        }
    }
}
