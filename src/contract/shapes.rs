//! The shapes of single values in the server's frames. Knows the catalogue's keys, but not the frames.

use edn_codec::{self as edn, Value};

/// A non-empty string.
pub fn filled(value: &Value<'_>) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// The part of a value that a simple reader cannot read.
pub fn not_plain(value: &Value<'_>, line: &[u8]) -> Option<&'static str> {
    let mut rest = vec![value];
    let mut strings = false;
    while let Some(value) = rest.pop() {
        match value {
            Value::Ratio(_) => return Some("a ratio"),
            Value::Char(_) => return Some("a character"),
            Value::Tagged(_) | Value::Inst(_) | Value::Uuid(_) => return Some("a tagged literal"),
            Value::Str(text) => strings |= text.contains("#:"),
            _ => {}
        }
        if let Some(map) = value.as_map() {
            rest.extend(map.iter().flat_map(|(key, value)| [key, value]));
        } else if let Some(set) = value.as_set() {
            rest.extend(set.iter());
        } else if let Some(items) = value.as_slice() {
            rest.extend(items);
        }
    }
    let shorthand = line.windows(2).any(|bytes| bytes == b"#:");
    (shorthand && !strings).then_some("a namespaced map")
}

/// The shape of a timestamp: `2026-01-02T03:04:05.678Z`.
pub fn is_utc_time(text: &str) -> bool {
    let Some(body) = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00")) else { return false };
    let (seconds, fraction) = body.split_once('.').unwrap_or((body, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pattern = "dddd-dd-ddTdd:dd:dd";
    seconds.len() == pattern.len()
        && digits(fraction)
        && seconds.bytes().zip(pattern.bytes()).all(|(byte, expected)| match expected {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

/// A key has the same meaning and the same shape in every payload.
pub fn wrong_shape(key: &str, value: &Value<'_>) -> Option<String> {
    let (expected, fits) = match key {
        "session-id" | "turn-id" | "entry-id" | "tool-id" | "tool-name" | "dialog-id" | "request-id"
        | "interaction-id" | "correlation-id" | "error-code" | "role" | "phase" | "kind" | "stage"
        | "point" | "active-session-id" | "ext-id" | "code" | "level" => {
            ("a non-empty string", filled(value))
        }
        "text" | "call-summary" | "result-text" | "path-line" | "stats-line" | "title" | "error-message" => {
            ("a string", value.as_str().is_some())
        }
        "message" | "session-file" | "session-name" | "stop-reason" | "thinking-level" | "model-id"
        | "model-provider" => ("a string or nil", value.as_str().is_some() || value.is_nil()),
        "is-streaming" | "is-compacting" | "is-error" | "interrupt-pending" | "model-reasoning" => {
            ("true or false", value.as_bool().is_some() || (key == "model-reasoning" && value.is_nil()))
        }
        "offset"
        | "message-count"
        | "pending-message-count"
        | "retry-attempt"
        | "attempt"
        | "pause-ms"
        | "tokens-before"
        | "tokens"
        | "context-tokens"
        | "live-count"
        | "context-window" => ("an integer of 0 or more", value.as_i64().is_some_and(|count| count >= 0)),
        "messages" | "sessions" | "tool-order" | "widgets" | "statuses" | "content" => {
            ("a vector", value.as_slice().is_some())
        }
        "payload" | "job" | "ui/action" | "usage" | "parsed-args" => {
            ("a map", value.as_map().is_some() || (key == "usage" && value.is_nil()))
        }
        _ => return None,
    };
    (!fits).then(|| format!(":{key} must be {expected}, not {}", excerpt(edn::to_string(value).as_bytes())))
}

/// A key has the same meaning in the answers of every op.
pub fn wrong_answer(key: &str, value: &Value<'_>) -> Option<String> {
    let (expected, fits) = match key {
        "accepted"
        | "enabled"
        | "pong"
        | "logged-in"
        | "logged-out"
        | "pending-login"
        | "uses-callback-server"
        | "compacted"
        | "trusted"
        | "pending"
        | "more"
        | "cancelled"
        | "truncated" => ("true or false", value.as_bool().is_some()),
        "session-id" | "active-session-id" | "protocol-version" | "url" | "mode" | "path" | "turn-id"
        | "behavior" => ("a non-empty string", filled(value)),
        "session-name" | "dropped-steering-text" | "output" => ("a string", value.as_str().is_some()),
        "subscribed" | "ignored" | "messages" | "sessions" | "commands" | "models" | "jobs" | "missing" => {
            ("a vector", value.as_slice().is_some())
        }
        "server-info" | "state" | "stats" | "model" | "job" => ("a map", value.as_map().is_some()),
        "offset" | "size" => ("an integer of 0 or more", value.as_i64().is_some_and(|count| count >= 0)),
        _ => return None,
    };
    (!fits).then(|| format!(":{key} must be {expected}, not {}", excerpt(edn::to_string(value).as_bytes())))
}

/// Bytes of a line that a report shows.
const EXCERPT_BYTES: usize = 600;

/// A line for people, cut if it is long.
pub fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    match text.char_indices().find(|(offset, _)| *offset >= EXCERPT_BYTES) {
        Some((offset, _)) => format!("{}… ({} bytes)", text.get(..offset).unwrap_or_default(), line.len()),
        None => text.into_owned(),
    }
}
