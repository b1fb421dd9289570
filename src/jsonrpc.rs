//! Lines of JSON-RPC, both ways: requests, notifications and answers. The UI wire and the ACP wire speak it with clients,
//! and the room of agents with agents. Knows no method.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;

use crate::json;
use crate::limits::RPC_ID_BYTES;
use crate::value::{Map, Value};

/// Why a line is no message. Each wire has a code for either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    /// It is not JSON, or not within the bounds.
    #[error("The line cannot be read: {0}.")]
    Syntax(json::ReadError),
    /// The line is too long, or has no end.
    #[error("{0}")]
    Line(String),
    /// The JSON is no message.
    #[error("{0}")]
    Shape(String),
}

/// A line that was read.
#[derive(Debug, PartialEq)]
pub enum RpcMessage<'a> {
    /// A request. Its id is JSON, as it came.
    Request {
        /// The id.
        id: Arc<str>,
        /// The method.
        method: String,
        /// The params; nil if there are none.
        params: Value<'a>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The params; nil if there are none.
        params: Value<'a>,
    },
    /// The answer to a request of ours.
    Response {
        /// Its id.
        id: String,
        /// The result, or the error.
        result: Result<Value<'a>, RpcError>,
    },
}

/// The error of an answer. Its data is not read: nobody is shown what a peer puts there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The code; 0 if it has none.
    pub code: i64,
    /// The message.
    pub message: String,
}

/// The value of a key.
pub fn at<'v, 'a>(value: &'v Value<'a>, key: &str) -> Option<&'v Value<'a>> {
    value.as_map()?.get(&Value::str(key)).filter(|value| !value.is_nil())
}

/// The text of a key.
pub fn text<'v>(value: &'v Value<'_>, key: &str) -> Option<&'v str> {
    at(value, key)?.as_str()
}

/// The flag of a key.
pub fn flag(value: &Value<'_>, key: &str) -> Option<bool> {
    at(value, key)?.as_bool()
}

/// Reads a whole line.
///
/// # Errors
/// See [`Misread`].
pub fn read(line: &[u8]) -> Result<Option<RpcMessage<'_>>, Misread> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let shape = |message: &str| Misread::Shape(message.to_owned());
    let value = match json::without_lone_surrogates(line) {
        Cow::Borrowed(line) => json::read(line),
        Cow::Owned(line) => json::read(&line).map(Value::into_owned),
    };
    let value = value.map_err(Misread::Syntax)?;
    let Value::Map(mut map) = value else {
        return Err(shape("A line is one object; there are no batches."));
    };
    let key = |name| Value::str(name);
    let id = match map.get(&key("id")) {
        None => None,
        Some(given) => Some(id(given).ok_or_else(|| {
            Misread::Shape(format!("An id is a text of at most {RPC_ID_BYTES} bytes, or an integer."))
        })?),
    };
    let method = match map.get(&key("method")) {
        None => None,
        Some(method) => {
            let method = method.as_str().filter(|method| !method.is_empty());
            let method = method.ok_or_else(|| shape("The method must be a text."))?;
            Some(method.to_owned())
        }
    };
    match (method, id) {
        (Some(method), Some(id)) => Ok(Some(RpcMessage::Request {
            id,
            method,
            params: take(&mut map, "params").unwrap_or(Value::Nil),
        })),
        (Some(method), None) => Ok(Some(RpcMessage::Notification {
            method,
            params: take(&mut map, "params").unwrap_or(Value::Nil),
        })),
        (None, Some(_)) if map.contains(&key("result")) || map.contains(&key("error")) => {
            let failed = map.get(&key("error")).filter(|error| !error.is_nil());
            let result = match failed {
                Some(error) => Err(RpcError {
                    code: at(error, "code").and_then(Value::as_i64).unwrap_or_default(),
                    message: text(error, "message").unwrap_or_default().to_owned(),
                }),
                None => Ok(take(&mut map, "result").unwrap_or(Value::Nil)),
            };
            let id = map.get(&key("id")).and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok(Some(RpcMessage::Response { id, result }))
        }
        _ => Err(shape("The object has no method.")),
    }
}

fn take<'a>(map: &mut Map<'a>, name: &str) -> Option<Value<'a>> {
    map.get(&Value::str(name)).cloned()
}

/// An id as JSON.
fn id(value: &Value<'_>) -> Option<Arc<str>> {
    match value {
        Value::Str(text) if text.as_str().len() <= RPC_ID_BYTES => {
            let mut out = Vec::new();
            json::write(value, &mut out);
            String::from_utf8(out).ok().map(Arc::from)
        }
        Value::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}

const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\"";

/// Appends a whole line, or nothing.
pub fn line(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
    let start = out.len();
    out.extend_from_slice(HEAD);
    match write(out) {
        Ok(()) => out.extend_from_slice(b"}\n"),
        Err(error) => {
            // Nothing that is written here has keys that are no texts.
            tracing::error!(%error, "a line could not be written");
            out.truncate(start);
        }
    }
}

/// Appends a notification.
pub fn notify(out: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    line(out, |out| {
        out.extend_from_slice(b",\"method\":");
        serde_json::to_writer(&mut *out, method)?;
        out.extend_from_slice(b",\"params\":");
        serde_json::to_writer(out, params)
    });
}

/// Appends a request.
pub fn ask(out: &mut Vec<u8>, id: &str, method: &str, params: &impl Serialize) {
    line(out, |out| {
        out.extend_from_slice(b",\"id\":");
        serde_json::to_writer(&mut *out, id)?;
        out.extend_from_slice(b",\"method\":");
        serde_json::to_writer(&mut *out, method)?;
        out.extend_from_slice(b",\"params\":");
        serde_json::to_writer(out, params)
    });
}

/// Appends an answer. `id` is JSON, as it came.
pub fn respond(out: &mut Vec<u8>, id: &str, result: &impl Serialize) {
    line(out, |out| {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b",\"result\":");
        serde_json::to_writer(out, result)
    });
}

/// Appends an error. `id` is JSON, as it came, or `null`.
pub fn refuse(out: &mut Vec<u8>, id: &str, error: &impl Serialize) {
    line(out, |out| {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b",\"error\":");
        serde_json::to_writer(out, error)
    });
}

/// A value of ours as JSON. Keywords are written as their names.
pub fn plain(value: &Value<'_>) -> serde_json::Value {
    let mut out = Vec::new();
    json::write(value, &mut out);
    serde_json::from_slice(&out).unwrap_or_default()
}

/// The id in the start of a line that is too long to be read, as JSON; `None` if it is not there.
pub fn id_in_head(head: &[u8]) -> Option<Arc<str>> {
    // The key comes early in what every known client writes; inside a text its quotes would be escaped.
    let at = memchr::memmem::find(head, b"\"id\"")?;
    let rest = head.get(at.checked_add(4)?..)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = match rest.first()? {
        b'"' => {
            let mut from = 1usize;
            loop {
                let found = memchr::memchr2(b'"', b'\\', rest.get(from..)?)?.checked_add(from)?;
                if rest.get(found) == Some(&b'"') {
                    break found.checked_add(1)?;
                }
                from = found.checked_add(2)?;
            }
        }
        _ => rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'-')?,
    };
    id(&json::read(rest.get(..end)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_read_as_request_notification_or_response() {
        let request = read(br#"{"jsonrpc":"2.0","id":"a\"b","method":"m","params":{"x":1},"more":[]}"#);
        let Ok(Some(RpcMessage::Request { id, method, params })) = request else { panic!("{request:?}") };
        assert_eq!((&*id, method.as_str(), at(&params, "x")), (r#""a\"b""#, "m", Some(&Value::int(1))));
        for (line, expected) in [
            (&br#"{"id":7,"method":"m"}"#[..], Some("7")),
            (br#"{"id":"","method":"m"}"#, Some("\"\"")),
            (br#"{"method":"m"}"#, None),
        ] {
            let id = match read(line) {
                Ok(Some(RpcMessage::Request { id, .. })) => Some(id),
                Ok(Some(RpcMessage::Notification { .. })) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(id.as_deref(), expected);
        }
        for (line, result) in [
            (&br#"{"id":"q","result":{"ok":true}}"#[..], true),
            (br#"{"id":"q","error":{"code":1}}"#, false),
            (br#"{"id":"q","result":1,"error":{"code":1}}"#, false),
        ] {
            let Ok(Some(RpcMessage::Response { id, result: found })) = read(line) else { panic!() };
            assert_eq!((id.as_str(), found.is_ok()), ("q", result));
        }
        assert!(matches!(read(b" \r"), Ok(None)));
    }

    #[test]
    fn line_that_is_no_message_says_why() {
        for (line, is_syntax) in [
            (&b"x"[..], true),
            (b"{\"a\":1,\"a\":2}", true),
            (b"\"\xff\"", true),
            (b"[]", false),
            (b"[{\"id\":\"1\",\"method\":\"m\"}]", false),
            (b"1", false),
            (b"{}", false),
            (b"{\"id\":\"1\"}", false),
            (b"{\"id\":null,\"method\":\"m\"}", false),
            (b"{\"id\":{},\"method\":\"m\"}", false),
            (b"{\"id\":1.5,\"method\":\"m\"}", false),
            (b"{\"id\":\"1\",\"method\":7}", false),
            (b"{\"id\":\"1\",\"method\":\"\"}", false),
        ] {
            let found = matches!(read(line).unwrap_err(), Misread::Syntax(_));
            assert_eq!(found, is_syntax, "{}", String::from_utf8_lossy(line));
        }
        let long = format!("{{\"id\":{:?},\"method\":\"m\"}}", "x".repeat(RPC_ID_BYTES + 1));
        assert!(matches!(read(long.as_bytes()), Err(Misread::Shape(_))));
    }

    #[test]
    fn id_is_found_in_the_start_of_a_long_line() {
        for (head, expected) in [
            (r#"{"jsonrpc":"2.0","id":"12","method":"run.start","params":{"input"#, Some("\"12\"")),
            (r#"{"id" : 7 ,"#, Some("7")),
            (r#"{"id":"a\"b","#, Some("\"a\\\"b\"")),
            (r#"{"id":"a"#, None),
            (r#"{"id":7"#, None),
            (r#"{"id":null,"#, None),
            (r#"{"method":"m","#, None),
            ("", None),
        ] {
            assert_eq!(id_in_head(head.as_bytes()).as_deref(), expected, "{head}");
        }
    }
}
