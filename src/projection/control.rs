//! The messages of control as maps, with JSON's spelling of the keys or EDN's: for both wires, and for the graph.
//!
//! Checks the shape of every key. Does not know whether a request is allowed, or what becomes of it.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::limits::CONTROL_ID_BYTES;
use crate::session::control::{
    Capabilities, ContentRef, ControlAck, ControlAction, ControlKind, ControlRequest, ControlText, SentAt,
    VERSION,
};
use crate::value::{Map, Value};

/// How a wire spells keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Strings as in the document: `"request_id"`.
    Json,
    /// Keywords: `:request-id`.
    Edn,
}

impl Spelling {
    /// The key as the wire spells it; `name` is the document's.
    pub fn key(self, name: &str) -> Value<'static> {
        match self {
            Self::Json => Value::str(name.to_owned()),
            Self::Edn => Value::keyword(name.replace('_', "-")),
        }
    }
}

/// A message.
#[derive(Debug, Clone)]
pub enum ControlMessage {
    /// A request that is acknowledged.
    Request(Box<ControlRequest>),
    /// The question what is served.
    Capabilities,
}

/// Why a map is no message. The text has no full stop: each wire puts it into a sentence of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMessage {
    /// It has no type.
    #[error("type is missing")]
    NoType,
    /// Its type has another shape.
    #[error("{0}")]
    Shape(String),
    /// Its type is none that is known.
    #[error("the type is none that is known")]
    Type,
}

/// Reads a message. A request with a wrong shape is a request still, with what is wrong in it.
///
/// # Errors
/// If its `type` is missing or none that is known.
pub fn read(message: &Map<'_>, spelling: Spelling) -> Result<ControlMessage, UnknownMessage> {
    let fields = Fields { map: message, spelling };
    let name = fields.text("type").map_err(UnknownMessage::Shape)?.ok_or(UnknownMessage::NoType)?;
    if name == "control.capabilities.request" {
        return Ok(ControlMessage::Capabilities);
    }
    let kind = ControlKind::ALL.into_iter().find(|kind| name == format!("control.{}.request", kind.as_str()));
    let kind = kind.ok_or(UnknownMessage::Type)?;
    // These are sent back and written down, so one that is too long counts as none.
    let short = |text: &&str| text.len() <= CONTROL_ID_BYTES;
    let plain = |name| fields.text(name).ok().flatten().filter(short).unwrap_or_default().to_owned();
    let meta = fields.get("meta").and_then(Value::as_map);
    let meta = meta.map(|map| Fields { map, spelling });
    Ok(ControlMessage::Request(Box::new(ControlRequest {
        kind,
        request_id: plain("request_id"),
        team: plain("team"),
        session_id: plain("session_id"),
        agent_id: plain("agent_id"),
        sender: plain("sender"),
        sent_at: fields.sent_at().unwrap_or_default(),
        retry_count: meta.as_ref().and_then(|meta| meta.get("retry_count")?.as_i64()),
        ui_source: meta
            .as_ref()
            .and_then(|meta| Some(meta.text("ui_source").ok()?.filter(short)?.to_owned())),
        asked: fields.asked(kind),
    })))
}

/// The keys of a message, as their wire spells them. An error is the acknowledgement's detail for the person who wrote
/// the sender; its code is always the same, `rejected`.
struct Fields<'m> {
    map: &'m Map<'m>,
    spelling: Spelling,
}

impl Fields<'_> {
    /// A value; `None` for one that is missing or null.
    fn get(&self, name: &str) -> Option<&Value<'_>> {
        self.map.get(&self.spelling.key(name)).filter(|value| !value.is_nil())
    }

    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{name} must be a string")),
        }
    }

    /// A text that a request must have: not blank, and short enough for a name.
    fn name(&self, name: &str) -> Result<&str, String> {
        let text = self.text(name)?.ok_or_else(|| format!("{name} is missing"))?;
        match text.len() {
            _ if text.trim().is_empty() => Err(format!("{name} is empty")),
            length if length > CONTROL_ID_BYTES => {
                Err(format!("{name} has {length} bytes; at most {CONTROL_ID_BYTES} are taken"))
            }
            _ => Ok(text),
        }
    }

    fn time(&self, name: &str) -> Result<Option<SentAt>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        // A time with another offset than zero is not in UTC.
        let in_utc = ["Z", "z", "+00:00", "-00:00"].iter().any(|end| text.ends_with(end));
        let time: Timestamp = text
            .parse()
            .ok()
            .filter(|_| in_utc)
            .ok_or_else(|| format!("{name} must be a time in UTC, such as 2026-01-02T03:04:05Z"))?;
        Ok(Some(SentAt { millis: time.as_millisecond(), is_exact: text.contains(['.', ',']) }))
    }

    fn sent_at(&self) -> Result<SentAt, String> {
        self.time("sent_at")?.ok_or_else(|| "sent_at is missing".to_owned())
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("{name} must be true or false")),
        }
    }

    /// What is asked for, after the shape of every key is checked.
    fn asked(&self, kind: ControlKind) -> Result<ControlAction, String> {
        match self.get("v").map(Value::as_i64) {
            Some(Some(VERSION)) => {}
            None => return Err("v is missing".to_owned()),
            Some(_) => return Err(format!("v must be {VERSION}")),
        }
        for name in ["request_id", "team", "agent_id", "sender"] {
            self.name(name)?;
        }
        if self.text("session_id")?.is_some_and(|id| id.len() > CONTROL_ID_BYTES) {
            return Err(format!("session_id has more than {CONTROL_ID_BYTES} bytes"));
        }
        self.text("thread_id")?;
        self.sent_at()?;
        if self.get("meta").is_some_and(|meta| meta.as_map().is_none()) {
            return Err("meta must be an object".to_owned());
        }
        if let Some(action) = self.text("action")?
            && action != kind.action()
        {
            return Err(format!("action must be {:?}, as type says", kind.action()));
        }
        match kind {
            ControlKind::Stdin => self.stdin(),
            ControlKind::Interrupt => match self.text("signal")? {
                Some("interrupt") => Ok(ControlAction::Interrupt),
                None => Err("signal is missing".to_owned()),
                Some(_) => Err("signal must be \"interrupt\"".to_owned()),
            },
            ControlKind::Elicitation => {
                let question = self.name("elicitation_id")?.to_owned();
                match self.text("decision")? {
                    Some("approve") => Ok(ControlAction::Answer { question, approve: true }),
                    Some("reject") => Ok(ControlAction::Answer { question, approve: false }),
                    _ => Err("decision must be \"approve\" or \"reject\"".to_owned()),
                }
            }
        }
    }

    fn stdin(&self) -> Result<ControlAction, String> {
        let encoding = self.text("content_encoding")?.unwrap_or("utf-8");
        if !encoding.eq_ignore_ascii_case("utf-8") {
            return Err("content_encoding must be \"utf-8\"".to_owned());
        }
        self.text("content_preview")?;
        let interrupt = self.flag("interrupt")?;
        let content = match (self.text("content")?, self.get("content_ref")) {
            (Some(_), Some(_)) => return Err("content and content_ref exclude each other".to_owned()),
            (None, None) => return Err("content is missing".to_owned()),
            (Some(text), None) => ControlText::Text(text.to_owned()),
            (None, Some(reference)) => {
                let map = reference.as_map().ok_or("content_ref must be an object")?;
                ControlText::File(Fields { map, spelling: self.spelling }.reference()?)
            }
        };
        Ok(ControlAction::Stdin { content, interrupt })
    }

    fn reference(&self) -> Result<ContentRef, String> {
        let text = |name| self.text(name)?.ok_or_else(|| format!("content_ref.{name} is missing"));
        let path = PathBuf::from(text("path")?);
        if !path.is_absolute() {
            return Err("content_ref.path must be absolute".to_owned());
        }
        let size = self.get("size_bytes").and_then(Value::as_i64).and_then(|size| u64::try_from(size).ok());
        let sha256 = text("sha256")?.to_ascii_lowercase();
        if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("content_ref.sha256 must be 64 hexadecimal digits".to_owned());
        }
        let expires_at = self.time("expires_at")?;
        Ok(ContentRef {
            path,
            size_bytes: size.ok_or("content_ref.size_bytes must be a number of bytes")?,
            sha256,
            mime: text("mime")?.to_owned(),
            expires_at: expires_at.and_then(|time| Timestamp::from_millisecond(time.millis).ok()),
        })
    }
}

/// The acknowledgement as a message.
pub fn ack(ack: &ControlAck, spelling: Spelling) -> Map<'static> {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value<'static>| map.insert(spelling.key(name), value);
    put("type", format!("control.{}.ack", ack.kind.as_str()).into());
    put("v", VERSION.into());
    for (name, text) in [
        ("request_id", &ack.request_id),
        ("team", &ack.team),
        ("session_id", &ack.session_id),
        ("agent_id", &ack.agent_id),
    ] {
        put(name, text.clone().into());
    }
    put("acked_at", ack.acked_at.to_string().into());
    put("result", ack.result.as_str().into());
    put("duplicate", ack.duplicate.into());
    if let Some(detail) = &ack.detail {
        put("detail", detail.clone().into());
    }
    if let Some((code, message)) = &ack.error {
        let mut error = Map::new();
        error.insert(spelling.key("code"), code.as_str());
        error.insert(spelling.key("message"), message.clone());
        put("error", error.into());
    }
    map
}

/// The capabilities as a message.
pub fn capabilities(capabilities: &Capabilities, spelling: Spelling) -> Map<'static> {
    let number = |number: u64| Value::int(i64::try_from(number).unwrap_or(i64::MAX));
    let mut map = Map::new();
    let mut put = |name: &str, value: Value<'static>| map.insert(spelling.key(name), value);
    put("type", "control.capabilities.ack".into());
    put("v", VERSION.into());
    let types = capabilities.kinds.iter().map(|kind| format!("control.{}.request", kind.as_str()));
    put("types", Value::vector(types));
    put("soft_limit_bytes", number(capabilities.soft_limit_bytes));
    put("hard_limit_bytes", number(capabilities.hard_limit_bytes));
    put("file_limit_bytes", number(capabilities.file_limit_bytes));
    let folders = capabilities.content_folders.iter().map(|folder| folder.to_string_lossy().into_owned());
    put("content_folders", Value::vector(folders));
    put("max_age_ms", number(capabilities.max_age_ms));
    put("max_skew_ms", number(capabilities.max_skew_ms));
    put("dedupe_ms", number(capabilities.dedupe_ms));
    put("ack_timeout_ms", number(capabilities.ack_timeout_ms));
    put("durable", true.into());
    map
}
