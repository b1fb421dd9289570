//! What servers send in other shapes than their documentation says: none of it costs an answer.

use edn_bridge::message::StopReason;
use edn_bridge::provider::{Chunk, ErrorKind, ModelRequest};

use super::program::bridge;
use super::{STREAMS, ask, hear, provider, request, words};
use crate::support::server::{Answer, Server};
use crate::support::{data, end_of_turn, text};

/// A stream of these events, each a JSON text.
fn events(events: &[&str]) -> Answer {
    Answer::events(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

#[test]
fn usage_of_any_shape_costs_no_answer() {
    for api in ["openai", "anthropic", "openai-responses", "gemini"] {
        for (shape, figure) in [
            ("12.0", Some(12)),
            ("\"12\"", Some(12)),
            ("-1", Some(0)),
            ("{\"total\":[1,{\"a\":2}]}", Some(0)),
            ("[1]", Some(0)),
            ("null", Some(0)),
            ("true", Some(0)),
        ] {
            let stream = words(api, "whole")
                .replace("_tokens\":10", &format!("_tokens\":{shape}"))
                .replace("TokenCount\":10", &format!("TokenCount\":{shape}"));
            let server = Server::new([Answer::events(stream.clone())]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            assert_eq!((heard.text.as_str(), heard.stop), ("whole", Some(StopReason::EndTurn)), "{stream}");
            assert_eq!(heard.usage.map(|usage| usage.input), figure, "{api} {shape}");
            assert_eq!(heard.usage.map(|usage| usage.output), Some(5), "{api}: the figure beside {shape}");
        }
        for whole in ["7", "\"none\"", "[1,2]", "null"] {
            let stream = words(api, "whole");
            let stream = ["{\"input_tokens\":10,\"output_tokens\":1}", "{\"output_tokens\":5}"]
                .into_iter()
                .chain([
                    "{\"prompt_tokens\":10,\"completion_tokens\":5}",
                    "{\"input_tokens\":10,\"output_tokens\":5}",
                ])
                .chain(["{\"promptTokenCount\":10,\"candidatesTokenCount\":5}"])
                .fold(stream, |stream, usage| stream.replace(usage, whole));
            let server = Server::new([Answer::events(stream.clone())]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            assert_eq!((heard.text.as_str(), heard.stop), ("whole", Some(StopReason::EndTurn)), "{stream}");
        }
    }
}

#[test]
fn event_of_unknown_shape_is_skipped() {
    for (api, stream) in STREAMS {
        let clean = hear(ask(&provider(&Server::new([Answer::events(stream)]), api, ""), request()));
        for unknown in
            ["7", "null", "[]", "[{\"type\":\"x\"}]", "\"ping\"", "{}", "{\"type\":[1],\"index\":{}}"]
        {
            let noisy = format!(
                "data: {unknown}\n\n{}",
                super::events_of(stream).join(&format!("data: {unknown}\n\n"))
            );
            let server = Server::new([Answer::events(noisy)]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            assert_eq!(heard, clean, "{api} with {unknown}");
        }
    }
}

#[test]
fn requests_ask_for_no_compression() {
    for (api, _) in STREAMS {
        let server = Server::new([Answer::events(words(api, "x"))]);
        hear(ask(&provider(&server, api, ""), request()));
        assert_eq!(server.asked().line("accept-encoding"), "identity", "{api}");
    }
}

#[test]
fn surrogate_halves_are_joined_within_their_part() {
    let openai = |pieces: &[&str]| {
        let deltas = pieces.iter().map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#));
        let mut stream: Vec<String> = deltas.collect();
        stream.push(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned());
        let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
        hear(ask(&provider(&Server::new([events(&stream)]), "openai", ""), request()))
    };
    let heard = openai(&[
        r#"{"reasoning":"a\ud83d"}"#,
        r#"{"reasoning":"\ude00b"}"#,
        r#"{"content":"c\ud83d"}"#,
        r#"{"content":"\ude00d"}"#,
    ]);
    assert_eq!((heard.thinking.as_str(), heard.text.as_str()), ("a😀b", "c😀d"));
    // A half of the thinking is not the text's.
    let heard = openai(&[r#"{"reasoning":"a\ud83d"}"#, r#"{"content":"\ude00d\ud83d"}"#]);
    assert_eq!((heard.thinking.as_str(), heard.text.as_str()), ("a\u{fffd}", "\u{fffd}d\u{fffd}"));
    // A half before a call is not that of the text after it.
    let heard = openai(&[
        r#"{"content":"c\ud83d"}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":"{}"}}]}"#,
        r#"{"content":"\ude00d"}"#,
    ]);
    assert_eq!(heard.text, "c\u{fffd}\u{fffd}d");
    // Arguments are JSON in JSON.
    let heard = openai(&[
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":"{\"path\":\"x\ud83d"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}"#,
    ]);
    assert_eq!(heard.calls, [("read".to_owned(), "{:path \"x😀\"}".to_owned())]);
    let heard = hear(ask(
        &provider(
            &Server::new([events(&[
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x\ud83d"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00"}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud83d"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"\ude00y"}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                r#"{"type":"message_stop"}"#,
            ])]),
            "anthropic",
            "",
        ),
        request(),
    ));
    assert_eq!(heard.text, "x😀\u{fffd}\u{fffd}y");
}

#[test]
fn error_amid_answer_is_told_and_temporary() {
    for api in ["openai", "anthropic", "openai-responses", "gemini"] {
        for (error, kind, message) in [
            (
                "error: {\"code\":500,\"message\":\"failed to decode\",\"type\":\"server_error\"}\n\n",
                ErrorKind::Overloaded,
                "failed to decode",
            ),
            ("error: upstream went away\n\n", ErrorKind::Dropped, "upstream went away"),
            ("event: error\ndata: upstream went away\n\n", ErrorKind::Dropped, "upstream went away"),
            ("event: error\ndata: \"upstream went away\"\n\n", ErrorKind::Dropped, "upstream went away"),
            ("data: <html>Bad Gateway</html>\n\n", ErrorKind::Dropped, "cannot be read"),
        ] {
            let server = Server::new([Answer::events(error)]);
            let heard = hear(ask(&provider(&server, api, ""), request()));
            assert_eq!((heard.stop, heard.error), (None, Some(kind)), "{api} {error}: {}", heard.message);
            assert!(heard.message.contains(message), "{api} {error}: {}", heard.message);
        }
    }
}

#[test]
fn thinking_tags_are_read_where_the_model_has_them() {
    let stream = words("openai", "<think>\nIt is 4.\n</think>\n\nFour.");
    for (thinking_tags, thinking, expected) in
        [(true, "It is 4.\n", "Four."), (false, "", "<think>\nIt is 4.\n</think>\n\nFour.")]
    {
        let server = Server::new([Answer::events(stream.clone()).cut(3)]);
        let asked = ModelRequest { thinking_tags, ..request() };
        let heard = hear(ask(&provider(&server, "openai", ""), asked));
        assert_eq!((heard.thinking.as_str(), heard.text.as_str()), (thinking, expected));
        assert_eq!(heard.stop, Some(StopReason::EndTurn));
    }
}

#[test]
fn thinking_tags_of_configured_model_reach_no_text() {
    let server = Server::new([Answer::events(words("openai", "<think>hm</think>yes"))]);
    let mut bridge = bridge(&server, "openai", ":thinking-tags true").ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let first = bridge
        .until(|frame| matches!(text(frame, "event"), "assistant/thinking-delta" | "assistant/message"));
    assert_eq!((text(&first, "event"), data(&first, "text")), ("assistant/thinking-delta", "hm"));
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "yes");
}

#[test]
fn responses_list_fills_what_did_not_come() {
    const TEXT: &str = r#"{"type":"message","id":"m","content":[{"type":"output_text","text":"Hello"}]}"#;
    const CALL: &str =
        r#"{"type":"function_call","id":"f","call_id":"c","name":"read","arguments":"{\"path\":\"a\"}"}"#;
    const REASONING: &str = r#"{"type":"reasoning","id":"r","summary":[],"encrypted_content":"E"}"#;
    let completed = |output: &str| {
        format!(
            r#"{{"type":"response.completed","response":{{"status":"completed","output":[{output}],"usage":{{"input_tokens":1,"output_tokens":2}}}}}}"#
        )
    };
    let all = completed(&format!("{REASONING},{TEXT},{CALL}"));
    let done =
        |index: &str, item: &str| format!(r#"{{"type":"response.output_item.done"{index},"item":{item}}}"#);
    let delta = |index: &str| format!(r#"{{"type":"response.output_text.delta"{index},"delta":"Hello"}}"#);
    let text_done = |index: &str| format!(r#"{{"type":"response.output_text.done"{index},"text":"Hello"}}"#);
    let added = |index: &str, id: &str| {
        format!(
            r#"{{"type":"response.output_item.added"{index},"item":{{"type":"function_call","call_id":"{id}","name":"read","arguments":""}}}}"#
        )
    };
    let piece = |index: &str, piece: &str| {
        format!(r#"{{"type":"response.function_call_arguments.delta"{index},"delta":{piece:?}}}"#)
    };
    let (one, two) = (r#","output_index":1"#, r#","output_index":2"#);
    for (about, stream) in [
        ("the list alone", vec![all.clone()]),
        ("text at its end", vec![text_done(one), done(two, CALL), all.clone()]),
        (
            "items alone",
            vec![done(r#","output_index":0"#, REASONING), done(one, TEXT), done(two, CALL), completed("")],
        ),
        (
            "all of it",
            vec![
                delta(one),
                text_done(one),
                done(one, TEXT),
                added(two, "c"),
                piece(two, "{\"path\":"),
                piece(two, "\"a\"}"),
                done(two, CALL),
                all.clone(),
            ],
        ),
        (
            "an empty piece of text",
            vec![delta(one).replace("Hello", ""), text_done(one), done(two, CALL), all.clone()],
        ),
        (
            "arguments as an object",
            vec![
                delta(one),
                done(two, &CALL.replace(r#""{\"path\":\"a\"}""#, r#"{"path":"a"}"#)),
                completed(""),
            ],
        ),
        (
            "a piece of arguments as an object",
            vec![
                delta(one),
                added(two, "c"),
                piece(two, "@").replace(r#""@""#, r#"{"path":"a"}"#),
                completed(""),
            ],
        ),
        (
            "the end of the arguments alone",
            vec![
                delta(one),
                added(two, "c"),
                format!(
                    r#"{{"type":"response.function_call_arguments.done"{two},"arguments":{:?}}}"#,
                    "{\"path\":\"a\"}"
                ),
                completed(""),
            ],
        ),
        (
            "a piece lost",
            vec![delta(one), added(two, "c"), piece(two, "{\"path\":"), done(two, CALL), all.clone()],
        ),
        (
            "no numbers",
            vec![
                delta(""),
                text_done(""),
                done("", TEXT),
                added("", "c"),
                piece("", "{\"path\":\"a\"}"),
                done("", CALL),
                all.clone(),
            ],
        ),
        (
            "one number for all",
            vec![
                delta(one),
                text_done(one),
                done(one, TEXT),
                added(one, "c"),
                piece(one, "{\"path\":\"a\"}"),
                done(one, CALL),
                completed(&format!("{TEXT},{CALL}")),
            ],
        ),
        (
            "other ids at the end",
            vec![
                delta(one),
                added(two, "other"),
                piece(two, "{\"path\":\"a\"}"),
                done(two, &CALL.replace("\"c\"", "\"another\"")),
                all.clone(),
            ],
        ),
        (
            "other ids and no numbers",
            vec![
                delta(""),
                added("", "other"),
                piece("", "{\"path\":\"a\"}"),
                done("", &CALL.replace("\"c\"", "\"another\"")),
                all.clone(),
            ],
        ),
    ] {
        let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
        let server = Server::new([events(&stream)]);
        let heard = hear(ask(&provider(&server, "openai-responses", ""), request()));
        assert_eq!(heard.text, "Hello", "{about}");
        assert_eq!(heard.calls, [("read".to_owned(), "{:path \"a\"}".to_owned())], "{about}");
        assert_eq!(
            (heard.stop, heard.error),
            (Some(StopReason::ToolUse), None),
            "{about}: {}",
            heard.message
        );
    }
}

#[test]
fn thinking_that_comes_at_its_end_alone_is_shown() {
    let completed = r#"{"type":"response.completed","response":{"status":"completed"}}"#.to_owned();
    for index in ["", r#","output_index":0,"summary_index":0"#] {
        let event = |kind: &str, key: &str| {
            format!(r#"{{"type":"response.reasoning_summary_text.{kind}"{index},"{key}":"why"}}"#)
        };
        let (delta, done) = (event("delta", "delta"), event("done", "text"));
        for stream in [vec![&done, &completed], vec![&delta, &done, &completed], vec![&delta, &completed]] {
            let stream: Vec<&str> = stream.into_iter().map(String::as_str).collect();
            let server = Server::new([events(&stream)]);
            let heard = hear(ask(&provider(&server, "openai-responses", ""), request()));
            assert_eq!((heard.thinking.as_str(), heard.error), ("why", None), "{stream:?}");
        }
    }
}

#[test]
fn responses_items_are_kept_apart() {
    let call = |kind: &str, index: &str, id: &str, arguments: &str| {
        format!(
            r#"{{"type":"response.output_item.{kind}"{index},"item":{{"type":"function_call","call_id":"{id}","name":"read","arguments":{arguments:?}}}}}"#
        )
    };
    let completed =
        r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#.to_owned();
    let (a, b) = (r#"{"path":"a"}"#, r#"{"path":"b"}"#);
    for (one, two) in [(r#","output_index":0"#, r#","output_index":1"#), ("", "")] {
        let stream = [
            call("added", one, "c1", ""),
            call("added", two, "c2", ""),
            call("done", one, "c1", a),
            call("done", two, "c2", b),
            completed.clone(),
        ];
        let stream: Vec<&str> = stream.iter().map(String::as_str).collect();
        let server = Server::new([events(&stream)]);
        let calls = ask(&provider(&server, "openai-responses", ""), request()).into_iter();
        let calls = calls.filter_map(|chunk| match chunk.unwrap() {
            Chunk::ToolCall { arguments, .. } => Some(arguments.to_string()),
            _ => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), ["{:path \"a\"}", "{:path \"b\"}"], "{one:?}");
    }
    // Two parts of one message: the first came in pieces, the second at its end.
    let stream = [
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"One."}"#,
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"One."}"#,
        r#"{"type":"response.output_text.done","output_index":0,"content_index":1,"text":" Two."}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"text":"One."},{"text":" Two."},{"text":" Three."}]}}"#,
        &completed,
    ];
    let server = Server::new([events(&stream)]);
    let heard = hear(ask(&provider(&server, "openai-responses", ""), request()));
    assert_eq!((heard.text.as_str(), heard.error), ("One. Two. Three.", None), "{}", heard.message);
}

#[test]
fn input_given_whole_and_in_pieces_is_taken_once() {
    let start = |input: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"c","name":"read","input":{input}}}}}"#
        )
    };
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a\"}"}}"#;
    let rest = [
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    for (input, has_pieces) in
        [(r#"{"path":"a"}"#, true), (r#"{"path":"a"}"#, false), ("{}", true), ("null", true), ("\"\"", true)]
    {
        let start = start(input);
        let mut stream = vec![start.as_str()];
        stream.extend(has_pieces.then_some(piece));
        stream.extend(rest);
        let server = Server::new([events(&stream)]);
        let chunks = ask(&provider(&server, "anthropic", ""), request());
        let calls = chunks.iter().filter(|chunk| matches!(chunk, Ok(Chunk::ToolCall { .. }))).count();
        let heard = hear(chunks);
        assert_eq!((calls, &heard.calls[0].1), (1, &"{:path \"a\"}".to_owned()), "{input} {has_pieces}");
        let shown: serde_json::Value = serde_json::from_str(&heard.pieces).unwrap();
        assert_eq!(shown, serde_json::json!({"path": "a"}), "{input} {has_pieces}");
    }
}
