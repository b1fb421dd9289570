//! Faults: providers that die, never end, or never send content.

use edn_bridge::limits::{HTTP_QUIET_BYTES, MAX_ANSWER_BYTES};

use super::stop_reason;
use crate::support::server::{Answer, End, Server};
use crate::support::{Setup, at, data, end_of_turn, kind};

#[test]
fn dying_provider_ends_turn_and_keeps_partial_answer() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:delta \"half\"} {:error {:kind :dropped :message \"the connection broke\"}}]} \
         {:steps [{:delta \"whole\"}]}]}",
    );
    let mut bridge = setup.ready();
    bridge.ask("r", "set_auto_retry", "{:enabled false}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(stop_reason(&message), "error");
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("half"));
    bridge.ask("again", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(at(&message, &["data", "text"]).and_then(|text| text.as_str()), Some("whole"));
}

#[test]
fn endless_answer_is_cut_at_bound_or_by_abort() {
    // So much is summarised before the next turn, whose answer says so little at a time that only an abort ends it soon.
    let fast = "{:deltas 100000000 :of \"0123456789012345678901234567890123456789\"}";
    let slow = "{:delta \"x\"} {:sleep-ms 20} ".repeat(1000) + "{:sleep-ms 3600000}";
    let script = format!(
        "{{:turns [{{:steps [{fast}]}} {{:steps [{{:delta \"summary\"}}]}} {{:steps [{slow}]}} {{:steps [{{:delta \"next\"}}]}}]}}"
    );
    let setup = Setup::new().script(&script);
    let mut bridge = setup.serve();
    bridge.handshake();
    bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"session/updated\"]}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let message = bridge.event("assistant/message");
    assert_eq!(stop_reason(&message), "error");
    let told = at(&message, &["data", "error-message"]).and_then(|text| text.as_str()).unwrap();
    assert!(told.contains(&MAX_ANSWER_BYTES.to_string()), "{told}");
    bridge.until(|frame| data(frame, "phase") == "idle");
    bridge.ask("s2", "subscribe", "{:topics [\"assistant/delta\"]}");
    bridge.ask("p2", "prompt", "{:message \"go\"}");
    bridge.event("assistant/delta");
    assert_eq!(kind(&bridge.ask("a", "abort", "{}")), "response");
    let message = bridge.event("assistant/message");
    assert_eq!(stop_reason(&message), "aborted", "{message}");
    assert!(data(&message, "text").starts_with('x'), "{message}");
    bridge.until(|frame| data(frame, "phase") == "idle");
    bridge.ask("p3", "prompt", "{:message \"go on\"}");
    assert_eq!(data(&bridge.event("assistant/message"), "text"), "next");
}

#[test]
fn thinking_and_arguments_share_bound_of_text() {
    // Each in pieces that are far below the bound by themselves.
    let piece = "x".repeat(1024 * 1024);
    let thinking = format!("{{:thinking {piece:?}}}").repeat(5);
    let calls =
        format!("{{:tool-call {{:name \"write\" :arguments {{:path \"f\" :content {piece:?}}}}}}}").repeat(5);
    for (what, steps) in [("thinking", thinking), ("arguments", calls)] {
        let script =
            format!("{{:turns [{{:steps [{steps} {{:delta \"end\"}}]}} {{:steps [{{:delta \"next\"}}]}}]}}");
        let setup = Setup::new().script(&script).arg("--yolo");
        let mut bridge = setup.serve();
        bridge.handshake();
        bridge.ask("s", "subscribe", "{:topics [\"assistant/message\" \"session/updated\"]}");
        bridge.ask("p", "prompt", "{:message \"go\"}");
        let last = end_of_turn(&mut bridge);
        assert_eq!(stop_reason(&last), "error", "{what}");
        assert!(data(&last, "error-message").contains(&MAX_ANSWER_BYTES.to_string()), "{what}");
        // None of the calls was made.
        assert!(!setup.project().join("f").exists(), "{what}");
        bridge.until(|frame| data(frame, "phase") == "idle");
        bridge.ask("q", "prompt", "{:message \"go on\"}");
        assert_eq!(data(&end_of_turn(&mut bridge), "text"), "next", "{what}");
    }
}

#[test]
fn endless_stream_without_content_is_given_up() {
    let comment = ": still at it\n\n".repeat(4096);
    let empty = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n".repeat(1024);
    let call = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\",\
                \"function\":{\"name\":\"read\",\"arguments\":\"\"}}]}}]}\n\n"
        .repeat(1024);
    for (what, part) in [("comments", comment), ("empty text", empty), ("empty arguments", call)] {
        let mut answer = Answer::events("");
        let parts = HTTP_QUIET_BYTES / part.len() + 2;
        answer.parts = vec![part.into_bytes(); parts];
        // Nothing but the bound ends it.
        let server = Server::new([answer.end(End::Silent)]);
        let setup = Setup::new().arg("--provider").arg("p").arg("--model").arg("m");
        let config = setup.dir.path().join("config.edn");
        std::fs::write(
            &config,
            format!("{{:providers {{\"p\" {{:name \"Example\" :base-url \"{}\"}}}}}}", server.url()),
        )
        .unwrap();
        let config = config.to_str().unwrap().to_owned();
        let setup = setup.arg("--config").arg(&config);
        let mut bridge = setup.serve();
        bridge.handshake();
        bridge.ask("s", "subscribe", "{:topics [\"assistant/message\"]}");
        bridge.ask("p", "prompt", "{:message \"go\"}");
        let last = end_of_turn(&mut bridge);
        assert_eq!(stop_reason(&last), "error", "{what}");
        assert!(data(&last, "error-message").contains("bytes that say nothing"), "{what}: {last}");
        assert_eq!(server.all_asked().len(), 1, "{what}: it is not asked again");
        assert_eq!(kind(&bridge.ask("after", "ping", "{}")), "response");
    }
}
