//! Writes the lines of the UI wire. Every function appends one whole line to a buffer. Knows no method.

use crate::json;
use crate::value::{Map, Value};
use crate::wire::ui::codes::Fault;

/// The id of an answer to a line whose id is not known.
pub const NO_ID: &str = "null";

const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\"";

/// An answer. `id` is JSON, as it came.
pub fn answer(out: &mut Vec<u8>, id: &str, result: &Map<'_>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    json::object(result, out);
    out.extend_from_slice(b"}\n");
}

/// An error. `id` is JSON, as it came, or [`NO_ID`].
pub fn error(out: &mut Vec<u8>, id: &str, fault: &Fault) {
    let mut error = Map::new().with("code", Value::int(fault.code.number()));
    error.put("message", fault.message.as_str());
    if let Some(cause) = &fault.cause {
        let mut data = Map::new().with("code", cause.code.as_str()).with("retryable", cause.retryable);
        data.put_some("data", cause.data.clone());
        error.put("data", data);
    }
    out.extend_from_slice(HEAD);
    out.extend_from_slice(b",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"error\":");
    json::object(&error, out);
    out.extend_from_slice(b"}\n");
}

/// A notification.
pub fn notify(out: &mut Vec<u8>, method: &str, params: &Map<'_>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(b",\"method\":");
    json::write(&Value::str(method), out);
    out.extend_from_slice(b",\"params\":");
    json::object(params, out);
    out.extend_from_slice(b"}\n");
}

/// A request to the interface.
pub fn ask(out: &mut Vec<u8>, id: &str, method: &str, params: &Map<'_>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(b",\"id\":");
    json::write(&Value::str(id), out);
    out.extend_from_slice(b",\"method\":");
    json::write(&Value::str(method), out);
    out.extend_from_slice(b",\"params\":");
    json::object(params, out);
    out.extend_from_slice(b"}\n");
}

/// An event of a run.
pub fn event(out: &mut Vec<u8>, run: &str, seq: i64, event: &Map<'_>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(b",\"method\":\"agent.event\",\"params\":{\"run_id\":");
    json::write(&Value::str(run), out);
    out.extend_from_slice(b",\"seq\":");
    out.extend_from_slice(seq.to_string().as_bytes());
    out.extend_from_slice(b",\"event\":");
    json::object(event, out);
    out.extend_from_slice(b"}}\n");
}
