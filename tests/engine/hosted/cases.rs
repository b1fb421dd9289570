//! The cases of `tests/data/provider-cases.jsonl`: what real servers were seen to send, and what it comes to.
//!
//! Read here are the streams: the text, thinking and calls in their order, the end, when the same call may succeed, and
//! what is said. The parts of a server's own tools and the replay of each part are not kept yet; the errors and the
//! histories of the file wait for their tables.

use edn_bridge::provider::{AnswerEnd, Chunk, ErrorKind};
use serde_json::{Value as Json, json};

use super::{ask, provider, request};
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
