//! Decodes a line into a request, or into the reason for refusing it.
//!
//! The contract fixes the order of the checks: readable, a map, `:kind`, required keys, no further keys,
//! `:id`, `:op`. The connection makes the later checks (ready, capacity, known op, params).

use std::borrow::Cow;
use std::sync::Arc;

use crate::catalogue::ErrorCode;
use crate::edn::{self, ErrorKind};
use crate::limits::{MAX_FRAME_VALUES, MAX_ID_BYTES};
use crate::value::{Map, Value};

/// A request of the wire.
#[derive(Debug)]
pub struct Request<'a> {
    /// The id for the answer.
    pub id: Arc<str>,
    /// The op's name, not looked up yet.
    pub op: &'a str,
    /// The params; an empty map if there are none.
    pub params: Cow<'a, Value<'a>>,
}

/// Why a line is not a request: the content of an error frame.
#[derive(Debug, Clone)]
pub struct Rejection {
    /// The code.
    pub code: ErrorCode,
    /// The reason, for a person.
    pub message: String,
    /// The request's id, if it is known and may be echoed.
    pub id: Option<String>,
    /// The request's op, if it is known.
    pub op: Option<String>,
    /// Further facts.
    pub data: Option<Map<'static>>,
}

/// Reads a line into a form. `pending` tests whether an id belongs to a pending request.
///
/// # Errors
/// `transport/invalid-frame` with the reason and its offset in the line. A form with too many values is valid
/// EDN as far as it was read; its `:id` and `:op` are echoed, so that the waiting client gets its answer.
pub fn read(line: &[u8], pending: impl FnOnce(&str) -> bool) -> Result<Value<'_>, Rejection> {
    let options = edn::Options { max_values: MAX_FRAME_VALUES, ..edn::Options::default() };
    let mut reader = edn::Reader::with(line, options);
    reader.one().map_err(|error| {
        let rejection = invalid_frame(error.code(), error.offset(), &error.to_string());
        if error.kind() != ErrorKind::TooManyValues {
            return rejection;
        }
        Rejection {
            message: format!("The frame holds more than {MAX_FRAME_VALUES} values."),
            // An error with the id of another request would end that request.
            id: echoed(reader.before_rejection("id")).filter(|id| !pending(id)),
            op: filled(reader.before_rejection("op")),
            ..rejection
        }
    })
}

/// A non-empty string.
fn filled(value: Option<&Value<'_>>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// An id that may be echoed. An id beyond the limit never is.
fn echoed(value: Option<&Value<'_>>) -> Option<String> {
    filled(value).filter(|id| id.len() <= MAX_ID_BYTES)
}

/// A line that is not a single EDN form.
pub fn invalid_frame(reason: &str, offset: usize, message: &str) -> Rejection {
    let mut data = Map::new();
    data.put("reason", reason.to_owned());
    data.put("offset", Value::from(offset));
    Rejection {
        code: ErrorCode::InvalidFrame,
        message: message.to_owned(),
        id: None,
        op: None,
        data: Some(data),
    }
}

/// Checks the envelope of a form. `pending` tests whether an id belongs to a pending request.
///
/// # Errors
/// `protocol/invalid-envelope`, `request/invalid-id` or `request/invalid-op`.
pub fn request<'v>(
    form: &'v Value<'_>,
    pending: impl FnOnce(&str) -> bool,
) -> Result<Request<'v>, Rejection> {
    let Some(map) = form.as_map() else {
        return Err(Rejection {
            code: ErrorCode::InvalidEnvelope,
            message: format!("A frame is a map, not {}.", form.kind_name()),
            id: None,
            op: None,
            data: None,
        });
    };
    let reject = |code, message: String| Rejection {
        code,
        message,
        id: echoed(form.get("id")),
        op: filled(form.get("op")),
        data: None,
    };
    let envelope = |message| Err(reject(ErrorCode::InvalidEnvelope, message));

    let Some(kind) = form.get("kind") else {
        return envelope("A request needs :kind :request.".to_owned());
    };
    if kind.as_keyword() != Some("request") {
        return envelope(format!(":kind must be :request, not {}.", shown(kind)));
    }
    let (Some(id), Some(op)) = (form.get("id"), form.get("op")) else {
        let missing = if form.get("id").is_none() { ":id" } else { ":op" };
        return envelope(format!("A request needs {missing}."));
    };
    for (key, _) in map.iter() {
        if !key.as_keyword().is_some_and(|key| matches!(key, "id" | "kind" | "op" | "params")) {
            return envelope(format!("A request has :id :kind :op :params and no {}.", shown(key)));
        }
    }
    let id = match id.as_str() {
        Some("") => {
            return Err(Rejection { id: None, ..reject(ErrorCode::InvalidId, ":id is empty.".to_owned()) });
        }
        Some(id) if id.len() > MAX_ID_BYTES => {
            let message = format!(":id is {} bytes long; at most {MAX_ID_BYTES} are taken.", id.len());
            return Err(Rejection { id: None, ..reject(ErrorCode::InvalidId, message) });
        }
        Some(id) if pending(id) => {
            // An error with this id would end the pending request.
            let mut data = Map::new();
            data.put("duplicate-id", id.to_owned());
            let rejection = reject(ErrorCode::InvalidId, format!("A request with :id {id:?} is pending."));
            return Err(Rejection { id: None, data: Some(data), ..rejection });
        }
        Some(id) => Arc::from(id),
        None => {
            let message = format!(":id must be a non-empty string, not {}.", id.kind_name());
            return Err(Rejection { id: None, ..reject(ErrorCode::InvalidId, message) });
        }
    };
    let op = match op.as_str() {
        Some("") => return Err(reject(ErrorCode::InvalidOp, ":op is empty.".to_owned())),
        Some(op) => op,
        None => {
            let message = format!(":op must be a non-empty string, not {}.", op.kind_name());
            return Err(reject(ErrorCode::InvalidOp, message));
        }
    };
    // A Lisp client writes no params as nil.
    let params = form.get("params").filter(|params| !params.is_nil());
    let params = params.map_or_else(|| Cow::Owned(Value::from(Map::new())), Cow::Borrowed);
    Ok(Request { id, op, params })
}

/// A value as short text for an error message.
fn shown(value: &Value<'_>) -> String {
    const LONGEST: usize = 60;
    let text = match (value.as_keyword(), value.as_str()) {
        (Some(name), _) => format!(":{name}"),
        (_, Some(text)) => format!("{text:?}"),
        _ => return value.kind_name().to_owned(),
    };
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
