//! Control: texts and interrupts for a live session, from programs of the same user that do not attach to it.
//!
//! A request has a key, its `request_id`. What was acknowledged happens once, across retries, restarts and kills.
//! What was refused has not happened. Source: the TUI control protocol, version 1.
//!
//! A request comes as a map, on a wire of its own with JSON's spelling of the keys, or in an op with EDN's.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use crate::catalogue::ErrorCode;
use crate::limits::CONTROL_ID_BYTES;
use crate::message::SessionId;
use crate::session::call::{Call, Reply};
use crate::value::{Map, Value};

/// The version of the protocol.
pub const VERSION: i64 = 1;

/// Control of live sessions. Only members of a team that the user's configuration names may use it.
pub trait Control: Send + Sync {
    /// Serves a request. The reply never fails: a refusal is an acknowledgement too.
    fn control(&self, call: Call, request: Box<ControlRequest>, reply: Reply<ControlAck>);

    /// What is served, and within which bounds.
    fn control_capabilities(&self) -> Capabilities;

    /// The live sessions that a team's members may address; of every team for `None`.
    fn control_agents(&self, team: Option<&str>) -> Vec<Agent>;
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlKind {
    /// A text for the session.
    Stdin,
    /// The end of the running turn.
    Interrupt,
    /// The answer to an open question. Not in the document; existing clients send it.
    Elicitation,
}

impl ControlKind {
    const ALL: [Self; 3] = [Self::Stdin, Self::Interrupt, Self::Elicitation];

    /// Its name in the `type` of a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Interrupt => "interrupt",
            Self::Elicitation => "elicitation",
        }
    }

    /// Its name in the key `action`, which existing clients send.
    const fn action(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Interrupt => "interrupt",
            Self::Elicitation => "elicitation_response",
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct ControlRequest {
    /// Its kind.
    pub kind: ControlKind,
    /// Its key; empty if it has none that can be read. The same holds for the other texts.
    pub request_id: String,
    /// The team of the sender and of the target.
    pub team: String,
    /// The target, or a session above it; empty if the agent alone names it.
    pub session_id: String,
    /// The target: a session's id or name.
    pub agent_id: String,
    /// Who claims to send it.
    pub sender: String,
    /// When it was sent.
    pub sent_at: SentAt,
    /// The sender's count of its retries, and its user interface, for the audit.
    pub retry_count: Option<i64>,
    /// See `retry_count`.
    pub ui_source: Option<String>,
    /// What is asked for, or what is wrong with the request, for a person.
    pub asked: Result<Asked, String>,
}

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// To give the session a text, and with `interrupt` to end its turn so that the text begins the next one.
    Stdin {
        /// The text.
        content: Content,
        /// Whether the running turn ends.
        interrupt: bool,
    },
    /// To end the running turn after its tool calls.
    Interrupt,
    /// To answer a question.
    Answer {
        /// The question.
        question: String,
        /// The decision.
        approve: bool,
    },
}

/// The text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Itself.
    Text(String),
    /// In a file.
    File(ContentRef),
}

/// A text in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRef {
    /// The file, absolute.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its SHA-256 in lower-case hexadecimal.
    pub sha256: String,
    /// Its type, such as `text/plain; charset=utf-8`.
    pub mime: String,
    /// When the reference ends.
    pub expires_at: Option<Timestamp>,
}

/// When a request was sent, by its sender's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentAt {
    /// Milliseconds since the epoch.
    pub millis: i64,
    /// Whether it was written with a fraction. A time without one covers its second.
    pub is_exact: bool,
}

impl SentAt {
    /// The latest moment that it may mean, in milliseconds since the epoch.
    pub fn latest(self) -> i64 {
        if self.is_exact { self.millis } else { self.millis.saturating_add(999) }
    }
}

/// The result in an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlResult {
    /// It was done, now or before.
    Ok,
    /// The session takes no live input.
    NotLive,
    /// There is no such session in the team.
    NotFound,
    /// There is no room now.
    Busy,
    /// The session did not answer in time. The request may still be done.
    Timeout,
    /// The request is wrong, or not allowed.
    Rejected,
    /// It could not be kept.
    InternalError,
}

impl ControlResult {
    /// All results.
    pub const ALL: [Self; 7] = [
        Self::Ok,
        Self::NotLive,
        Self::NotFound,
        Self::Busy,
        Self::Timeout,
        Self::Rejected,
        Self::InternalError,
    ];

    /// Its name in the document.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotLive => "not_live",
            Self::NotFound => "not_found",
            Self::Busy => "busy",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
            Self::InternalError => "internal_error",
        }
    }
}

/// The acknowledgement of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlAck {
    /// The kind of the request.
    pub kind: ControlKind,
    /// From the request, as are the next three.
    pub request_id: String,
    /// See `request_id`.
    pub team: String,
    /// See `request_id`.
    pub session_id: String,
    /// See `request_id`.
    pub agent_id: String,
    /// When it was acknowledged, RFC 3339 in UTC.
    pub acked_at: Arc<str>,
    /// The result.
    pub result: ControlResult,
    /// Whether the key was known before.
    pub duplicate: bool,
    /// What happened, for a person.
    pub detail: Option<String>,
    /// The error, on any result but `ok`.
    pub error: Option<(ErrorCode, String)>,
}

/// What is served, and within which bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The kinds of requests that are served; none if no team is named.
    pub kinds: Vec<ControlKind>,
    /// The size in bytes of a text from which senders should warn.
    pub soft_limit_bytes: u64,
    /// The size in bytes of a text beyond which it must be in a file.
    pub hard_limit_bytes: u64,
    /// The largest file, in bytes.
    pub file_limit_bytes: u64,
    /// The folders in which such files may be.
    pub content_folders: Vec<PathBuf>,
    /// The oldest request that is taken, in milliseconds.
    pub max_age_ms: u64,
    /// How far in the future the time of a request may be, in milliseconds.
    pub max_skew_ms: u64,
    /// How long keys are known at least, in milliseconds.
    pub dedupe_ms: u64,
    /// The time until an acknowledgement, in milliseconds.
    pub ack_timeout_ms: u64,
}

/// A live session, as the members of a team see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The session.
    pub id: SessionId,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// The session above it, if it works for one.
    pub parent: Option<SessionId>,
    /// The team.
    pub team: String,
    /// Whether a turn runs.
    pub is_busy: bool,
    /// Its folder.
    pub cwd: Arc<str>,
}

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

impl ControlMessage {
    /// Reads a message. A request with a wrong shape is a request still, with what is wrong in it.
    ///
    /// # Errors
    /// If its `type` is missing or none that is known, in words for a person.
    pub fn read(message: &Map<'_>, spelling: Spelling) -> Result<Self, String> {
        let fields = Fields { map: message, spelling };
        let name = fields.text("type")?.ok_or("type is missing")?;
        if name == "control.capabilities.request" {
            return Ok(Self::Capabilities);
        }
        let kind =
            ControlKind::ALL.into_iter().find(|kind| name == format!("control.{}.request", kind.as_str()));
        let kind = kind.ok_or("the type is none that is known")?;
        // These are sent back and written down, so one that is too long counts as none.
        let short = |text: &&str| text.len() <= CONTROL_ID_BYTES;
        let plain = |name| fields.text(name).ok().flatten().filter(short).unwrap_or_default().to_owned();
        let meta = fields.get("meta").and_then(Value::as_map);
        let meta = meta.map(|map| Fields { map, spelling });
        Ok(Self::Request(Box::new(ControlRequest {
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
    fn asked(&self, kind: ControlKind) -> Result<Asked, String> {
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
                Some("interrupt") => Ok(Asked::Interrupt),
                None => Err("signal is missing".to_owned()),
                Some(_) => Err("signal must be \"interrupt\"".to_owned()),
            },
            ControlKind::Elicitation => {
                let question = self.name("elicitation_id")?.to_owned();
                match self.text("decision")? {
                    Some("approve") => Ok(Asked::Answer { question, approve: true }),
                    Some("reject") => Ok(Asked::Answer { question, approve: false }),
                    _ => Err("decision must be \"approve\" or \"reject\"".to_owned()),
                }
            }
        }
    }

    fn stdin(&self) -> Result<Asked, String> {
        let encoding = self.text("content_encoding")?.unwrap_or("utf-8");
        if !encoding.eq_ignore_ascii_case("utf-8") {
            return Err("content_encoding must be \"utf-8\"".to_owned());
        }
        self.text("content_preview")?;
        let interrupt = self.flag("interrupt")?;
        let content = match (self.text("content")?, self.get("content_ref")) {
            (Some(_), Some(_)) => return Err("content and content_ref exclude each other".to_owned()),
            (None, None) => return Err("content is missing".to_owned()),
            (Some(text), None) => Content::Text(text.to_owned()),
            (None, Some(reference)) => {
                let map = reference.as_map().ok_or("content_ref must be an object")?;
                Content::File(Fields { map, spelling: self.spelling }.reference()?)
            }
        };
        Ok(Asked::Stdin { content, interrupt })
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

impl ControlAck {
    /// An acknowledgement of a request.
    pub fn new(request: &ControlRequest, acked_at: Arc<str>, result: ControlResult) -> Self {
        Self {
            kind: request.kind,
            request_id: request.request_id.clone(),
            team: request.team.clone(),
            session_id: request.session_id.clone(),
            agent_id: request.agent_id.clone(),
            acked_at,
            result,
            duplicate: false,
            detail: None,
            error: None,
        }
    }

    /// The acknowledgement as a message.
    pub fn to_map(&self, spelling: Spelling) -> Map<'static> {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value<'static>| map.insert(spelling.key(name), value);
        put("type", format!("control.{}.ack", self.kind.as_str()).into());
        put("v", VERSION.into());
        for (name, text) in [
            ("request_id", &self.request_id),
            ("team", &self.team),
            ("session_id", &self.session_id),
            ("agent_id", &self.agent_id),
        ] {
            put(name, text.clone().into());
        }
        put("acked_at", self.acked_at.to_string().into());
        put("result", self.result.as_str().into());
        put("duplicate", self.duplicate.into());
        if let Some(detail) = &self.detail {
            put("detail", detail.clone().into());
        }
        if let Some((code, message)) = &self.error {
            let mut error = Map::new();
            error.insert(spelling.key("code"), code.as_str());
            error.insert(spelling.key("message"), message.clone());
            put("error", error.into());
        }
        map
    }
}

impl Capabilities {
    /// The capabilities as a message.
    pub fn to_map(&self, spelling: Spelling) -> Map<'static> {
        let number = |number: u64| Value::int(i64::try_from(number).unwrap_or(i64::MAX));
        let mut map = Map::new();
        let mut put = |name: &str, value: Value<'static>| map.insert(spelling.key(name), value);
        put("type", "control.capabilities.ack".into());
        put("v", VERSION.into());
        let types = self.kinds.iter().map(|kind| format!("control.{}.request", kind.as_str()));
        put("types", Value::vector(types));
        put("soft_limit_bytes", number(self.soft_limit_bytes));
        put("hard_limit_bytes", number(self.hard_limit_bytes));
        put("file_limit_bytes", number(self.file_limit_bytes));
        let folders = self.content_folders.iter().map(|folder| folder.to_string_lossy().into_owned());
        put("content_folders", Value::vector(folders));
        put("max_age_ms", number(self.max_age_ms));
        put("max_skew_ms", number(self.max_skew_ms));
        put("dedupe_ms", number(self.dedupe_ms));
        put("ack_timeout_ms", number(self.ack_timeout_ms));
        put("durable", true.into());
        map
    }
}
