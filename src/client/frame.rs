//! The frames of the wire: how a request is written, and where the parts of an answer or an event stand. Knows no op
//! and no topic.

use edn_codec::value::Value;

use crate::PROTOCOL_VERSION;

/// A request as a line, without its end. `params` is a map in EDN.
pub fn request(id: &str, op: &str, params: &str) -> String {
    format!("{{:id {id:?} :kind :request :op {op:?} :params {params}}}")
}

/// The params of a handshake, in EDN.
pub fn client_info(name: &str, version: &str, features: &[&str]) -> String {
    let features = match features {
        [] => String::new(),
        some => format!(" :features {some:?}").replace(',', ""),
    };
    format!(
        "{{:client-info {{:name {name:?} :version {version:?} :protocol-version {PROTOCOL_VERSION:?}{features}}}}}"
    )
}

/// The frame's kind: `response`, `error` or `event`.
pub fn kind<'v>(frame: &'v Value<'_>) -> &'v str {
    frame.get("kind").and_then(Value::as_keyword).unwrap_or_default()
}

/// A text of the frame, such as its `id`; empty if it is missing.
pub fn text<'v>(frame: &'v Value<'_>, key: &str) -> &'v str {
    frame.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A frame's error code; empty if it is not an error.
pub fn code<'v>(frame: &'v Value<'_>) -> &'v str {
    text(frame, "error-code")
}

/// The topic of an event; empty for another frame.
pub fn topic<'v>(frame: &'v Value<'_>) -> &'v str {
    text(frame, "event")
}

/// The `:data` of a response or an event; nil if it is missing.
pub fn data<'v>(frame: &'v Value<'static>) -> &'v Value<'static> {
    const NIL: &Value<'static> = &Value::Nil;
    frame.get("data").unwrap_or(NIL)
}

/// The text of a message that an event or an answer carries: its `:text`, or, where it is too long for that, the blocks
/// of its `:content`.
pub fn message_text(message: &Value<'_>) -> String {
    if let Some(text) = message.get("text").and_then(Value::as_str) {
        return text.to_owned();
    }
    let blocks = message.get("content").and_then(Value::as_slice).unwrap_or_default();
    let is_text = |block: &&Value<'_>| block.get("type").and_then(Value::as_keyword) == Some("text");
    blocks.iter().filter(is_text).filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
}

/// Whether a frame is the response or error to the request with that id.
pub fn is_answer(frame: &Value<'_>, id: &str) -> bool {
    matches!(kind(frame), "response" | "error") && text(frame, "id") == id
}

/// Whether a frame is an event of that topic.
pub fn is_event(frame: &Value<'_>, name: &str) -> bool {
    kind(frame) == "event" && topic(frame) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_reads_back_as_written() {
        let line = request("r\n1", "handshake", &client_info("n", "1", &["a", "b-c"]));
        assert!(!line.contains('\n'), "{line}");
        let frame = edn_codec::read_one(line.as_bytes()).unwrap();
        assert_eq!((kind(&frame), text(&frame, "id"), text(&frame, "op")), ("request", "r\n1", "handshake"));
        let info = frame.get("params").and_then(|params| params.get("client-info")).unwrap();
        assert_eq!(
            info.to_string(),
            r#"{:name "n" :version "1" :protocol-version "1.0" :features ["a" "b-c"]}"#
        );
    }
}
