//! A server refuses a part of the conversation and names its place: the session goes on without it, also after a restart.

use edn_bridge::message::Block;

use super::program::bridge;
use super::sending::png;
use super::words;
use crate::support::server::{Answer, Server};
use crate::support::{data, end_of_turn};

/// A refusal with these words, as each protocol writes it.
fn refusal(api: &str, message: &str) -> Answer {
    let body = match api {
        "anthropic" => {
            serde_json::json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
        }
        "gemini" => {
            serde_json::json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
        }
        _ => serde_json::json!({"error": {"message": message, "type": "invalid_request_error"}}),
    };
    Answer::json(400, &body.to_string())
}

#[test]
fn refused_image_becomes_words_at_once_and_after_restart() {
    for (api, place) in [
        ("anthropic", "messages.0.content.1.image.source.base64: Could not process image"),
        ("openai", "Invalid 'messages[1].content[1].image_url.url': unreadable."),
        ("openai-responses", "Invalid 'input[0].content[1].image_url'. Expected a valid image."),
        (
            "gemini",
            "* GenerateContentRequest.contents[0].parts[1].inline_data: unable to process input image",
        ),
    ] {
        let server = Server::of(move |asked| {
            let has_image =
                ["image_url", "\"base64\"", "inlineData"].iter().any(|field| asked.body.contains(field));
            if has_image { refusal(api, place) } else { Answer::events(words(api, "ok")) }
        });
        let setup = bridge(&server, api, "");
        let mut first = setup.ready();
        let Block::Image { data: image, .. } = png(8, 0) else { panic!() };
        let prompt = format!("{{:message \"see\" :images [{{:mime-type \"image/png\" :data {image:?}}}]}}");
        first.request("p", "prompt", &prompt);
        let notice = first.event("ui/notification");
        let told = data(&notice, "message");
        assert!(
            told.contains("message 1 (user: see)") && told.contains("process") | told.contains("nvalid"),
            "{told}"
        );
        let ended = end_of_turn(&mut first);
        assert_eq!((data(&ended, "text"), server.all_asked().len()), ("ok", 2), "{api}: {ended}");
        first.event("turn/ended");
        let session = data(&ended, "session-id").to_owned();
        first.request("q", "prompt", "{:message \"next\"}");
        assert_eq!(data(&end_of_turn(&mut first), "text"), "ok", "{api}");
        first.event("turn/ended");
        first.close_input();
        first.wait();
        let mut second = setup.ready();
        second.ask("r", "switch_session", &format!("{{:session-id {session:?}}}"));
        second.request("p", "prompt", "{:message \"and now\"}");
        assert_eq!(data(&end_of_turn(&mut second), "text"), "ok", "{api}");
        let asked = server.all_asked();
        assert_eq!(asked.len(), 2, "{api}: each is right at once");
        assert!(
            asked[1].body.contains("[image, 8 × 8: the server of this model refused it]"),
            "{}",
            asked[1].body
        );
    }
}

#[test]
fn refused_message_is_left_out_by_command() {
    for (api, place) in [
        ("anthropic", "messages.2.content.0.text: not allowed"),
        ("openai", "Invalid 'messages[3].content': not allowed."),
        ("openai-responses", "Invalid 'input[2].content[0].text': not allowed."),
        ("gemini", "* GenerateContentRequest.contents[2].parts[0].text: not allowed"),
    ] {
        let server = Server::of(move |asked| {
            if asked.body.contains("the bad one") {
                refusal(api, place)
            } else {
                Answer::events(words(api, "ok"))
            }
        });
        let setup = bridge(&server, api, "");
        let mut bridge = setup.ready();
        bridge.request("p", "prompt", "{:message \"first\"}");
        assert_eq!(data(&end_of_turn(&mut bridge), "text"), "ok");
        bridge.event("turn/ended");
        bridge.request("q", "prompt", "{:message \"the bad one\"}");
        let failed = end_of_turn(&mut bridge);
        let error = data(&failed, "error-message");
        assert!(error.contains("message 3 (user: the bad one). /leave-out"), "{api}: {error}");
        bridge.event("turn/ended");
        bridge.request("l", "prompt", "{:message \"/leave-out\"}");
        let result = bridge.event("command-result");
        assert!(data(&result, "message").contains("message 3 (user: the bad one)"), "{result}");
        bridge.request("r", "prompt", "{:message \"next\"}");
        let ended = end_of_turn(&mut bridge);
        assert_eq!(data(&ended, "text"), "ok", "{api}: {ended}");
        let body = server.all_asked().pop().unwrap().body;
        assert!(body.contains("[left out: the server of this model refused it]"), "{body}");
        bridge.event("turn/ended");
        bridge.request("m", "prompt", "{:message \"/leave-out\"}");
        assert!(data(&bridge.event("command-result"), "message").contains("has refused no message"));
    }
}
