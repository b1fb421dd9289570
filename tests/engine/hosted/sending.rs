//! What is sent to a target: its names and ids, words in the place of what it does not take, and thinking that goes back.
//! A fake server refuses what the real one refuses.

use std::sync::Arc;

use edn_bridge::message::{Block, EntryId, Message, Replay, Role};
use edn_bridge::provider::ModelRequest;
use edn_bridge::value::{Map, Value};
use serde_json::Value as Json;

use super::program::bridge;
use super::{ask, hear, named, words};
use crate::support::server::{Answer, Server};
use crate::support::{at, data, end_of_turn};

/// An answer that calls a tool of this name.
fn call(api: &str, name: &str) -> String {
    let name = serde_json::to_string(name).unwrap();
    match api {
        "openai" => format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c.1\",\"function\":{{\"name\":{name},\"arguments\":\"{{}}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
        ),
        "anthropic" => format!(
            "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"c.1\",\"name\":{name},\"input\":{{}}}}}}\n\n\
             data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"tool_use\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        ),
        "openai-responses" => format!(
            "data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{{\"type\":\"function_call\",\"call_id\":\"c.1\",\"name\":{name},\"arguments\":\"{{}}\"}}}}\n\n\
             data: {{\"type\":\"response.completed\",\"response\":{{\"status\":\"completed\"}}}}\n\n"
        ),
        _ => format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":{name},\"args\":{{}}}}}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        ),
    }
}

/// The names of the calls in a request, and the ids of calls and results.
fn called(json: &Json, names: &mut Vec<String>, ids: &mut Vec<String>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| called(item, names, ids)),
        Json::Object(fields) => {
            let is_call = fields.contains_key("arguments")
                || ["tool_use", "function_call"]
                    .iter()
                    .any(|kind| fields.get("type") == Some(&(*kind).into()));
            let name = fields.get("name").filter(|_| is_call || fields.contains_key("args"));
            names.extend(name.and_then(Json::as_str).map(str::to_owned));
            for key in ["tool_call_id", "tool_use_id", "call_id"] {
                ids.extend(fields.get(key).and_then(Json::as_str).map(str::to_owned));
            }
            let id = fields.get("id").filter(|_| is_call || fields.get("type") == Some(&"function".into()));
            ids.extend(id.and_then(Json::as_str).map(str::to_owned));
            fields.values().for_each(|field| called(field, names, ids));
        }
        _ => {}
    }
}

#[test]
fn name_that_no_api_takes_kills_no_session() {
    const NAMES: [&str; 4] = ["functions.bash", " bash", "", "ls -l /tmp"];
    for api in ["openai", "anthropic", "openai-responses", "gemini"] {
        for name in NAMES {
            let server = Server::of(move |asked| {
                let json = asked.json();
                let (mut names, mut ids) = (Vec::new(), Vec::new());
                for key in ["messages", "input", "contents"] {
                    called(&json[key], &mut names, &mut ids);
                }
                let fits = |text: &String| {
                    let is_of = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    (1..=64).contains(&text.len()) && text.chars().all(is_of)
                };
                if !names.iter().chain(&ids).all(fits) {
                    let message = format!("Invalid name: string does not match pattern: {names:?} {ids:?}");
                    let body =
                        serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}});
                    return Answer::json(400, &body.to_string());
                }
                assert!(ids.iter().all(|id| *id == ids[0]), "call and result have one id: {ids:?}");
                Answer::events(if names.is_empty() { call(api, name) } else { words(api, "Well.") })
            });
            let mut bridge = bridge(&server, api, "").ready();
            for id in ["p", "q"] {
                bridge.request(id, "prompt", "{:message \"go\"}");
                let last = end_of_turn(&mut bridge);
                assert_eq!(data(&last, "text"), "Well.", "{api} {name:?}: {last}");
                bridge.event("turn/ended");
            }
        }
    }
}

fn message(role: Role, content: Vec<Block>) -> Arc<Message> {
    Arc::new(Message::new(EntryId::from("e"), role, content, "".into()))
}

/// An image of that many pixels a side, with a size in base64.
pub(super) fn png(side: u32, size: usize) -> Block {
    use base64::Engine as _;
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(side.to_be_bytes());
    bytes.extend(side.to_be_bytes());
    bytes.resize(bytes.len().max(size / 4 * 3), 0);
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Block::Image { mime_type: "image/png".into(), data: data.into() }
}

/// A conversation in which a tool read an image.
fn with_image(image: Block) -> Vec<Arc<Message>> {
    let path = Value::from(Map::new().with("path", "folder/small.png"));
    let call = Block::ToolCall { id: "call_1".into(), name: "read".into(), arguments: path.into() };
    let mut result =
        Message::new("r".into(), Role::Tool, vec![Block::Text("An image".into()), image], "".into());
    result.tool_call_id = Some("call_1".into());
    result.tool_name = Some("read".into());
    vec![
        message(Role::User, vec![Block::Text("go".into())]),
        message(Role::Assistant, vec![call]),
        Arc::new(result),
        message(Role::User, vec![Block::Text("next".into())]),
    ]
}

/// The body of the request with these messages.
fn body(at: (&str, &str, &str), more: &str, messages: Vec<Arc<Message>>) -> Json {
    let (name, api, model) = at;
    let server = Server::new([Answer::events(words(api, "ok"))]);
    let request = ModelRequest { model: model.to_owned(), messages, ..ModelRequest::default() };
    let heard = hear(ask(&named(&server, name, api, more), request));
    assert_eq!(heard.text, "ok", "{heard:?}");
    server.asked().json()
}

#[test]
fn image_that_target_does_not_take_becomes_words() {
    let huge = || png(8, 5_242_884);
    for (at, more, image, expected) in [
        (("deepseek", "openai", "m"), "", png(8, 0), Some("[image small.png, 8 × 8: this model takes none]")),
        (("p", "openai", "m"), "", png(8, 0), None),
        (("p", "openai", "m"), ":takes {:images :none}", png(8, 0), Some("this model takes none")),
        (("p", "anthropic", "m"), "", png(8000, 0), None),
        (("p", "anthropic", "m"), "", png(8001, 0), Some("8001 × 8001: longer than the 8000 pixels")),
        (("p", "anthropic", "m"), "", huge(), Some("larger than the 5120 KB in base64")),
        (("p", "gemini", "m"), "", huge(), None),
        (("vllm", "openai", "mistral-small"), "", png(8, 0), Some("takes none in or after a tool's result")),
    ] {
        let body = body(at, more, with_image(image)).to_string();
        let is_sent = ["image_url", "\"base64\"", "inlineData"].iter().any(|field| body.contains(field));
        assert_eq!(is_sent, expected.is_none(), "{at:?} {more}");
        if let Some(words) = expected {
            assert!(body.contains(words), "{at:?} {more}: {body}");
        }
        assert!(body.contains("An image"), "{body}");
    }
}

#[test]
fn oldest_images_become_words_where_there_are_too_many() {
    let image = |n: u32| {
        let said = Block::Text(format!("number {n}").into());
        [
            message(Role::User, vec![said, png(n, 0)]),
            message(Role::Assistant, vec![Block::Text("yes".into())]),
        ]
    };
    let messages: Vec<_> = (1..=10).flat_map(image).collect();
    let body = body(("mistral", "openai", "m"), "", messages);
    for message in body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user") {
        let text = message.to_string();
        let number = (1..=10).find(|n| text.contains(&format!("number {n}\"")));
        let Some(number) = number else { continue };
        let words = format!("[image, {number} × {number}: this model takes the newest 8 images alone]");
        assert_eq!(text.contains("image_url"), number > 2, "{text}");
        assert_eq!(text.contains(&words), number <= 2, "{text}");
    }
}

#[test]
fn model_without_images_gets_words_from_the_session() {
    // The row of the model says that it takes images, and then that a request has none.
    let server = Server::new([Answer::events(words("openai", "ok"))]);
    let mut bridge = bridge(&server, "openai", ":takes {:images :none}").ready();
    let Block::Image { data, .. } = png(8, 0) else { panic!() };
    let prompt = format!("{{:message \"see\" :images [{{:mime-type \"image/png\" :data {data:?}}}]}}");
    bridge.request("p", "prompt", &prompt);
    end_of_turn(&mut bridge);
    let body = server.asked().body;
    assert!(!body.contains("image_url") && body.contains("[image, 8 × 8: this model takes none]"), "{body}");
}

#[test]
fn thinking_goes_back_with_calls_of_all_turns() {
    for (name, field) in [("p", "reasoning"), ("deepseek", "reasoning_content")] {
        let arguments = Value::from(Map::new());
        let call = |id: &str| Block::ToolCall {
            id: id.into(),
            name: "t".into(),
            arguments: arguments.clone().into(),
        };
        let mut own =
            Message::new("a".into(), Role::Assistant, vec![Block::thinking("why"), call("c1")], "".into());
        let data = Value::from(Map::new().with("field", field));
        let data = Map::new().with("provider", name).with("model", "m").with("data", data);
        own.replays = vec![Replay { place: 1, is_attached: false, data: Value::from(data) }];
        let foreign = Message::new(
            "b".into(),
            Role::Assistant,
            vec![Block::thinking("secret of another"), call("c2")],
            "".into(),
        );
        let result = |id: &str| {
            let mut result = Message::new("r".into(), Role::Tool, vec![Block::Text("r".into())], "".into());
            result.tool_call_id = Some(id.into());
            Arc::new(result)
        };
        let messages = vec![
            message(Role::User, vec![Block::Text("go".into())]),
            Arc::new(own),
            result("c1"),
            message(Role::Assistant, vec![Block::Text("done".into())]),
            message(Role::User, vec![Block::Text("next".into())]),
            Arc::new(foreign),
            result("c2"),
        ];
        let body = body((name, "openai", "m"), "", messages);
        let at = |place: usize| body["messages"][place].get(field).cloned();
        assert_eq!(at(1), Some("why".into()), "{name}: {body}");
        assert_eq!(at(3), None, "{name}: a message without calls has none");
        let expected = (name == "deepseek").then(|| Json::from(""));
        assert_eq!(
            at(5),
            expected,
            "{name}: DeepSeek wants the field, nobody the thinking of another: {body}"
        );
    }
}

#[test]
fn signed_thinking_behind_gateway_goes_back_as_it_came() {
    let event =
        |delta: Json| format!("data: {}\n\n", serde_json::json!({"choices": [{"index": 0, "delta": delta}]}));
    let detail = |fields: Json| event(serde_json::json!({"reasoning_details": [fields]}));
    let call = |index: usize, extra: Json| {
        let id = format!("c{index}");
        let function = serde_json::json!({"name": "read", "arguments": "{}"});
        event(
            serde_json::json!({"tool_calls": [{"index": index, "id": id, "function": function, "extra_content": extra}]}),
        )
    };
    let stream = [
        detail(serde_json::json!({"type": "reasoning.text", "index": 0, "text": "so ", "format": "x"})),
        detail(serde_json::json!({"type": "reasoning.text", "index": 0, "text": "it is"})),
        detail(serde_json::json!({"type": "reasoning.text", "index": 0, "signature": "sig", "text": null})),
        detail(serde_json::json!({"type": "reasoning.encrypted", "index": 1, "data": "locked"})),
        call(0, Json::Null),
        call(1, serde_json::json!({"google": {"thought_signature": "of two"}})),
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
            .to_owned(),
    ]
    .concat();
    let server = Server::new([
        Answer::events(stream),
        Answer::events(words("openai", "ok")),
        Answer::events(words("openai", "ok")),
    ]);
    let answer = super::answered(ask(&named(&server, "p", "openai", ""), super::request()));
    for (model, is_own) in [("m", true), ("n", false)] {
        let messages = vec![message(Role::User, vec![Block::Text("go".into())]), answer.clone()];
        let request = ModelRequest { model: model.to_owned(), messages, ..ModelRequest::default() };
        assert_eq!(hear(ask(&named(&server, "p", "openai", ""), request)).text, "ok");
        let body = server.all_asked().pop().unwrap().json();
        let sent = &body["messages"][1];
        let details = serde_json::json!([
            {"type": "reasoning.text", "index": 0, "text": "so it is", "format": "x", "signature": "sig"},
            {"type": "reasoning.encrypted", "index": 1, "data": "locked"},
        ]);
        assert_eq!(sent.get("reasoning_details"), is_own.then_some(&details), "{body}");
        let signature =
            |call: usize| sent["tool_calls"][call].pointer("/extra_content/google/thought_signature");
        assert_eq!((signature(0), signature(1)), (None, is_own.then_some(&"of two".into())), "{body}");
    }
}

#[test]
fn result_that_is_no_image_is_refused() {
    let arguments = r#"{\"path\":\"broken.png\"}"#;
    let stream = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c1\",\"function\":{{\"name\":\"read\",\"arguments\":\"{arguments}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let server = Server::new([Answer::events(stream), Answer::events(words("openai", "ok"))]);
    let setup = bridge(&server, "openai", "");
    std::fs::write(setup.project().join("broken.png"), b"\x89PNG\r\n\x1a\nand no more").unwrap();
    let mut bridge = setup.ready();
    bridge.request("p", "prompt", "{:message \"see\"}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "ok");
    let body = server.all_asked().pop().unwrap().body;
    assert!(!body.contains("image_url") && body.contains("cannot be read as an image"), "{body}");
}

#[test]
fn cache_is_asked_for_as_each_target_wants_it() {
    for (at, top, key) in [
        (("openrouter", "openai", "anthropic/claude-sonnet-4.5"), true, false),
        (("openrouter", "openai", "google/gemini-3-pro"), false, false),
        (("openai", "openai-responses", "gpt-5"), false, true),
        (("openai", "openai", "gpt-5"), false, true),
        (("p", "openai", "m"), false, false),
        (("p", "gemini", "m"), false, false),
    ] {
        let (name, api, model) = at;
        let server = Server::new([Answer::events(words(api, "ok"))]);
        let request = ModelRequest { model: model.to_owned(), session: "s-1".into(), ..super::request() };
        assert_eq!(hear(ask(&named(&server, name, api, ""), request)).text, "ok");
        let body = server.asked().json();
        let found =
            (body.get("cache_control").is_some(), body.get("prompt_cache_key") == Some(&"s-1".into()));
        assert_eq!(found, (top, key), "{at:?}: {body}");
    }
}

#[test]
fn result_of_gemini_3_has_its_id_and_its_images() {
    for (model, is_rich) in [("gemini-3.5-flash", true), ("gemini-2.5-pro", false)] {
        let body = body(("gemini", "gemini", model), "", with_image(png(8, 0)));
        let call = &body["contents"][1]["parts"][0]["functionCall"];
        let result = &body["contents"][2]["parts"][0]["functionResponse"];
        let expected = is_rich.then_some(Json::from("call_1"));
        assert_eq!((call.get("id"), result.get("id")), (expected.as_ref(), expected.as_ref()), "{body}");
        let inner = result["parts"][0]["inlineData"]["mimeType"] == "image/png";
        let beside = body["contents"][2]["parts"][1]["inlineData"]["mimeType"] == "image/png";
        assert_eq!((inner, beside), (is_rich, !is_rich), "{body}");
    }
}

#[test]
fn conversation_beyond_servers_window_is_compacted_to_fit() {
    const LIMIT: &str = "This model's maximum context length is 3000 tokens.";
    for (refusal, window) in [(LIMIT, 3000), ("Input is too long for requested model.", 100_000)] {
        // The configuration says 100,000 tokens, and the server takes 12,000 bytes.
        let server = Server::of(move |asked| {
            let json = asked.json();
            let said =
                json["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
            let size: usize = said.map(|message| message.to_string().len()).sum();
            if size > 12_000 {
                let body =
                    serde_json::json!({"error": {"message": refusal, "type": "invalid_request_error"}});
                return Answer::json(400, &body.to_string());
            }
            Answer::events(words("openai", "short"))
        });
        let setup = bridge(&server, "openai", "");
        let mut bridge = setup.ready();
        for id in ["p", "q", "r", "s"] {
            bridge.request(id, "prompt", &format!("{{:message {:?}}}", "long ".repeat(1000)));
            let last = end_of_turn(&mut bridge);
            assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("short", "end-turn"), "{last}");
            bridge.event("turn/ended");
        }
        let state = bridge.ask("g", "get_state", "{}");
        let known = at(&state, &["data", "state", "context-window"]).and_then(Value::as_i64);
        assert_eq!(known, Some(window), "{state}");
        // The next process knows it too.
        bridge.close_input();
        bridge.wait();
        let mut next = setup.ready();
        next.request("p", "prompt", "{:message \"short\"}");
        end_of_turn(&mut next);
        let state = next.ask("g", "get_state", "{}");
        let known = at(&state, &["data", "state", "context-window"]).and_then(Value::as_i64);
        assert_eq!(known, Some(window), "{state}");
    }
}

#[test]
fn message_that_alone_is_too_long_ends_the_turn() {
    let server = Server::of(|asked| {
        if asked.body.contains("much too long") {
            let body = r#"{"error":{"message":"Prompt exceeds max length","type":"invalid_request_error"}}"#;
            return Answer::json(400, body);
        }
        Answer::events(words("openai", "short"))
    });
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.request("p", "prompt", "{:message \"first\"}");
    end_of_turn(&mut bridge);
    bridge.event("turn/ended");
    bridge.request("q", "prompt", "{:message \"much too long\"}");
    let last = end_of_turn(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "error", "{last}");
    assert!(data(&last, "error-message").contains("cannot take a conversation that long"), "{last}");
    assert!(server.all_asked().len() <= 4, "it ends soon");
}
