//! The ends of answers: only a listed word is a good one, whatever the protocol.

use edn_bridge::edn;
use edn_bridge::message::StopReason;
use edn_bridge::provider::ErrorKind;
use edn_bridge::value::Value;

use super::program::bridge;
use super::{ask, hear, provider, request, words};
use crate::support::server::{Answer, Server};
use crate::support::{data, end_of_turn, is_event};

/// An answer of the text "half an" that ends with this word, with a call of `read` if wanted.
fn ended(api: &str, word: &str, has_call: bool) -> String {
    let word = serde_json::to_string(word).unwrap();
    let call = |text: &str| if has_call { text.to_owned() } else { String::new() };
    match api {
        "openai" => format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"half an\"}}}}]}}\n\n{}\
             data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":{word}}}],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":5}}}}\n\n\
             data: [DONE]\n\n",
            call(
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}}]}\n\n"
            )
        ),
        "anthropic" => format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{\"input_tokens\":10}}}}}}\n\n\
             data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"half an\"}}}}\n\n\
             data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n{}\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":{word}}},\"usage\":{{\"output_tokens\":5}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n",
            call(
                "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"read\",\"input\":{}}}\n\n\
                 data: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
            )
        ),
        "openai-responses" => format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"half an\"}}\n\n{}\
             data: {{\"type\":\"response.incomplete\",\"response\":{{\"status\":\"incomplete\",\"incomplete_details\":{{\"reason\":{word}}},\
             \"usage\":{{\"input_tokens\":10,\"output_tokens\":5}}}}}}\n\n",
            call(
                "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"read\",\"arguments\":\"{}\"}}\n\n"
            )
        ),
        _ => format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"half an\"}}{}]}},\"finishReason\":{word}}}],\
             \"usageMetadata\":{{\"promptTokenCount\":10,\"candidatesTokenCount\":5}}}}\n\n",
            call(",{\"functionCall\":{\"name\":\"read\",\"args\":{}}}")
        ),
    }
}

/// The stop reason and the error of an answer that ends so, which has its text and its usage in any case.
fn outcome(
    api: &str,
    word: &str,
    has_call: bool,
    more: &str,
) -> (Option<StopReason>, Option<ErrorKind>, String) {
    let server = Server::new([Answer::events(ended(api, word, has_call))]);
    let heard = hear(ask(&provider(&server, api, more), request()));
    assert_eq!(heard.text, "half an", "{api} {word}");
    assert_eq!(
        heard.usage.map(|usage| (usage.input, usage.output)),
        Some((10, 5)),
        "{api} {word}: it was paid for"
    );
    (heard.stop, heard.error, heard.message)
}

#[test]
fn every_listed_end_is_read_over_http() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/provider/ends.edn");
    let table = edn::read_one(&std::fs::read(path).unwrap()).unwrap().into_owned();
    let rows = table.as_slice().unwrap();
    assert!(rows.len() > 35, "{}", rows.len());
    for row in rows {
        let field = |at: usize| row.as_slice().unwrap().get(at);
        let name = |at: usize| field(at).and_then(Value::as_keyword);
        let (api, word) = (name(0).unwrap(), field(1).unwrap().as_str().unwrap());
        // An end of calls needs one.
        let expected = match (name(2).unwrap(), name(3), name(4)) {
            ("complete", None, None) => (Some(StopReason::EndTurn), None),
            ("calls", None, None) => (Some(StopReason::ToolUse), None),
            ("limit", None, None) => (Some(StopReason::MaxTokens), None),
            ("refused", None, None) => (Some(StopReason::Refusal), None),
            ("paused", None, None) => (Some(StopReason::EndTurn), None),
            ("broken", Some("now"), None) => (None, Some(ErrorKind::Malformed)),
            ("broken", Some("later"), None) => (None, Some(ErrorKind::Dropped)),
            ("broken", Some("no"), None) => (None, Some(ErrorKind::Fatal)),
            ("broken", Some("no"), Some("context-overflow")) => (None, Some(ErrorKind::ContextOverflow)),
            other => panic!("{word}: {other:?}"),
        };
        let (stop, error, message) = outcome(api, word, name(2) == Some("calls"), "");
        assert_eq!((stop, error), expected, "{api} {word}");
        // The person sees the word of each end that is not a good one.
        let is_shown = matches!(name(2), Some("refused" | "broken"));
        assert!(!is_shown || message.contains(word), "{api} {word}: {message}");
    }
}

#[test]
fn unlisted_end_is_broken_on_every_protocol() {
    for api in ["openai", "anthropic", "openai-responses", "gemini"] {
        for has_call in [false, true] {
            let (stop, error, message) = outcome(api, "a_new_word", has_call, "");
            assert_eq!((stop, error), (None, Some(ErrorKind::Dropped)), "{api}: {message}");
            assert!(message.contains("ended its answer with \"a_new_word\""), "{api}: {message}");
        }
    }
}

#[test]
fn end_of_calls_without_call_is_broken() {
    for (api, word) in [("openai", "tool_calls"), ("openai", "function_call"), ("anthropic", "tool_use")] {
        let (stop, error, message) = outcome(api, word, false, "");
        assert_eq!((stop, error), (None, Some(ErrorKind::Dropped)), "{api} {word}: {message}");
        assert!(message.contains("without a tool call"), "{api} {word}: {message}");
    }
}

#[test]
fn call_without_end_is_broken() {
    let begun = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"read\",\"input\":{}}}\n\n\
                 data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\": \\\"no\"}}\n\n";
    let end = |word: &str| {
        format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{word}\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    let item = "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"read\"}}\n\n\
                data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,\"delta\":\"{\\\"path\\\": \\\"no\"}\n\n\
                data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n";
    for (api, stream) in [
        ("anthropic", format!("{begun}{}", end("tool_use"))),
        ("anthropic", format!("{begun}{}", end("end_turn"))),
        ("anthropic", format!("{begun}{}", end("pause_turn"))),
        ("openai-responses", item.to_owned()),
    ] {
        let server = Server::new([Answer::events(stream.clone())]);
        let heard = hear(ask(&provider(&server, api, ""), request()));
        assert_eq!((heard.stop, heard.error), (None, Some(ErrorKind::Dropped)), "{stream}");
        assert_eq!(heard.calls, [], "{stream}");
        assert!(heard.message.contains("in the middle of a tool call"), "{}", heard.message);
    }
}

#[test]
fn done_alone_is_an_end_only_where_the_provider_says_so() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"whole\"}}]}\n\n";
    let call = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}}]}\n\n";
    for (more, stream, stop, error) in [
        ("", format!("{text}data: [DONE]\n\n"), None, Some(ErrorKind::Dropped)),
        (":ends-without-reason true", format!("{text}data: [DONE]\n\n"), Some(StopReason::EndTurn), None),
        (
            ":ends-without-reason true",
            format!("{text}{call}data: [DONE]\n\n"),
            Some(StopReason::ToolUse),
            None,
        ),
        // A lost connection is no end in any case.
        (":ends-without-reason true", text.to_owned(), None, Some(ErrorKind::Dropped)),
        (":ends-without-reason false", format!("{text}data: [DONE]\n\n"), None, Some(ErrorKind::Dropped)),
    ] {
        let server = Server::new([Answer::events(stream.clone())]);
        let heard = hear(ask(&provider(&server, "openai", more), request()));
        assert_eq!((heard.text.as_str(), heard.stop, heard.error), ("whole", stop, error), "{more} {stream}");
    }
}

#[test]
fn answer_with_unknown_end_fails_turn_and_is_kept() {
    let server = Server::new([Answer::events(ended("openai", "a_new_word", false))]);
    let mut bridge = bridge(&server, "openai", "").ready();
    bridge.ask("r", "set_auto_retry", "{:enabled false}");
    bridge.request("p", "prompt", "{:message \"go\"}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("half an", "error"), "{last}");
    assert!(data(&last, "error-message").contains("ended its answer with \"a_new_word\""), "{last}");
    assert_eq!(server.all_asked().len(), 1, "without retries");
}

#[test]
fn refusal_shows_the_servers_reason() {
    let refused = words("anthropic", "I").replace(
        r#""stop_reason":"end_turn""#,
        r#""stop_reason":"refusal","stop_details":{"category":"cyber","explanation":"It is against the rules."}"#,
    );
    let server = Server::new([Answer::events(refused)]);
    let mut bridge = bridge(&server, "anthropic", "").ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let last = end_of_turn(&mut bridge);
    assert_eq!((data(&last, "text"), data(&last, "stop-reason")), ("I", "refusal"), "{last}");
    assert!(data(&last, "error-message").contains("It is against the rules."), "{last}");
}

#[test]
fn malformed_call_is_asked_for_again_at_once() {
    let wrong = r#"data: {"candidates":[{"content":{"parts":[]},"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#;
    let server = Server::new([
        Answer::events(format!("{wrong}\n\n")),
        Answer::events(words("gemini", "Now it is right.")),
    ]);
    let mut bridge = bridge(&server, "gemini", "").ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let retry = bridge.event("turn/retry");
    assert_eq!(data(&retry, "kind"), "malformed", "{retry}");
    assert_eq!(retry.get("data").and_then(|data| data.get("pause-ms")?.as_i64()), Some(0), "{retry}");
    assert_eq!(data(&end_of_turn(&mut bridge), "text"), "Now it is right.");
    assert_eq!(server.all_asked().len(), 2);
}

#[test]
fn paused_answer_is_sent_back_and_continues_five_times() {
    let paused = words("anthropic", "part").replace("end_turn", "pause_turn");
    let server = Server::new([
        Answer::events(paused.clone()),
        Answer::events(paused.clone()),
        Answer::events(words("anthropic", "the rest")),
    ]);
    let mut bridge = bridge(&server, "anthropic", "").ready();
    bridge.request("p", "prompt", "{:message \"go\"}");
    let ended = bridge.until(|frame| is_event(frame, "turn/ended"));
    assert_eq!(data(&ended, "outcome"), "completed", "{ended}");
    let asked = server.all_asked();
    assert_eq!(asked.len(), 3);
    let second = asked[1].json();
    let messages = second["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().map(|message| &message["content"][0]["text"]).collect();
    // An answer at the end would be the start of the next one, which current models refuse.
    assert_eq!(said, ["go", "part", "Go on."], "{second}");

    // A server that only pauses is not asked for ever.
    server.then(std::iter::repeat_n(Answer::events(paused), 8));
    bridge.request("q", "prompt", "{:message \"again\"}");
    let ended = bridge.until(|frame| is_event(frame, "turn/ended"));
    assert_eq!(data(&ended, "outcome"), "failed", "{ended}");
    assert!(data(&ended, "error-message").contains("paused more than 5 times"), "{ended}");
    assert_eq!(server.all_asked().len(), 6);
}

#[test]
fn refused_summary_replaces_no_conversation() {
    let refused = words("openai", "I cannot do that.").replace("\"stop\"", "\"content_filter\"");
    let server = Server::new([
        Answer::events(words("openai", &"first ".repeat(30_000))),
        Answer::events(words("openai", &"second ".repeat(30_000))),
        Answer::events(refused),
    ]);
    let mut bridge = bridge(&server, "openai", "").ready();
    for id in ["p", "q"] {
        bridge.request(id, "prompt", "{:message \"go\"}");
        bridge.event("turn/ended");
    }
    bridge.request("c", "compact", "{}");
    let ended = bridge.event("compaction/ended");
    assert_eq!(data(&ended, "outcome"), "failed", "{ended}");
    assert!(data(&ended, "error-message").contains("content_filter"), "{ended}");
}
