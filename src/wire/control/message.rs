//! The lines of the control wire: bare messages, and the envelope of the agent-team-mail daemon.
//!
//! An object with the key `command` is an envelope and is answered in one; any other object is a message itself. A line
//! that is neither is answered with an error, like one that the daemon refuses. Knows no rule for who may do what.

use crate::catalogue::ErrorCode;
use crate::json;
use crate::limits::CONTROL_ID_BYTES;
use crate::projection::control::{self, ControlMessage, Spelling};
use crate::session::control::{ControlKind, ControlRequest, TeamMember};
use crate::value::{Map, Value};

/// The version of the envelope.
const ENVELOPE_VERSION: i64 = 1;

/// The id in the answer to a line without one.
const UNKNOWN_ID: &str = "unknown";

/// The names of requests, for their counts.
pub const NAMES: &[&str] = &[
    "control.stdin.request",
    "control.interrupt.request",
    "control.elicitation.request",
    "control.capabilities.request",
    "list-agents",
    "agent-state",
];

/// What a line asks, and the form of the answer.
#[derive(Debug)]
pub struct ControlLine {
    /// What it asks.
    pub command: LineCommand,
    /// The form of the answer.
    pub form: AnswerForm,
}

/// What a line asks.
#[derive(Debug)]
pub enum LineCommand {
    /// A request that is acknowledged.
    Request(Box<ControlRequest>),
    /// What is served.
    Capabilities,
    /// The live sessions of a team, or of all.
    Agents(Option<String>),
    /// The state of one of them.
    AgentState {
        /// Its id or name.
        agent: String,
        /// Its team, or any.
        team: Option<String>,
    },
}

impl LineCommand {
    /// Its place in [`NAMES`].
    pub const fn place(&self) -> usize {
        match self {
            Self::Request(request) => match request.kind {
                ControlKind::Stdin => 0,
                ControlKind::Interrupt => 1,
                ControlKind::Elicitation => 2,
            },
            Self::Capabilities => 3,
            Self::Agents(_) => 4,
            Self::AgentState { .. } => 5,
        }
    }
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerForm {
    /// The message itself.
    Bare,
    /// In an envelope, which has the id of the one that it answers.
    Envelope(String),
}

/// The code of an error. The names are those of the agent-team-mail daemon, except for the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The line is no request.
    InvalidRequest,
    /// The envelope has another version.
    VersionMismatch,
    /// The payload is none of the command.
    InvalidPayload,
    /// There is no such command.
    UnknownCommand,
    /// A key of the payload is missing.
    MissingParameter,
    /// There is no such session.
    AgentNotFound,
    /// The program may not connect.
    PermissionDenied,
    /// There are as many connections as are served.
    TooManyConnections,
}

impl Code {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::VersionMismatch => "VERSION_MISMATCH",
            Self::InvalidPayload => "INVALID_PAYLOAD",
            Self::UnknownCommand => "UNKNOWN_COMMAND",
            Self::MissingParameter => "MISSING_PARAMETER",
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::TooManyConnections => "TOO_MANY_CONNECTIONS",
        }
    }

    /// The code that counts it.
    pub const fn error_code(self) -> ErrorCode {
        match self {
            Self::InvalidRequest => ErrorCode::InvalidFrame,
            Self::VersionMismatch => ErrorCode::UnsupportedVersion,
            Self::InvalidPayload | Self::MissingParameter => ErrorCode::InvalidParams,
            Self::UnknownCommand => ErrorCode::OpNotSupported,
            Self::AgentNotFound => ErrorCode::NotFound,
            Self::PermissionDenied | Self::TooManyConnections => ErrorCode::Failed,
        }
    }
}

/// Why a line has no other answer than an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The id of the request, if one could be read.
    pub request_id: Option<String>,
    /// The code.
    pub code: Code,
    /// The reason, for a person.
    pub message: String,
}

impl Refusal {
    /// A refusal of a line whose id is not known.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { request_id: None, code, message: message.into() }
    }

    /// The line that answers.
    pub fn line(&self) -> Vec<u8> {
        let mut error = Map::new();
        error.insert(Value::str("code"), self.code.as_str());
        error.insert(Value::str("message"), self.message.clone());
        let id = self.request_id.as_deref().unwrap_or(UNKNOWN_ID);
        line(&envelope(id, "error", "error", error.into()))
    }
}

impl AnswerForm {
    /// The line that answers with `payload`.
    pub fn line(&self, payload: Value<'static>) -> Vec<u8> {
        match self {
            Self::Bare => line(&payload),
            Self::Envelope(id) => line(&envelope(id, "ok", "payload", payload)),
        }
    }

    /// The refusal of what was asked in this form.
    pub fn refusal(self, code: Code, message: impl Into<String>) -> Refusal {
        let request_id = match self {
            Self::Bare => None,
            Self::Envelope(id) => Some(id),
        };
        Refusal { request_id, code, message: message.into() }
    }
}

fn envelope(id: &str, status: &'static str, key: &'static str, value: Value<'static>) -> Value<'static> {
    let mut map = Map::new();
    map.insert(Value::str("version"), ENVELOPE_VERSION);
    map.insert(Value::str("request_id"), id.to_owned());
    map.insert(Value::str("status"), status);
    map.insert(Value::str(key), value);
    map.into()
}

fn line(value: &Value<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    json::write(value, &mut line);
    line.push(b'\n');
    line
}

/// Reads a line.
///
/// # Errors
/// If it is neither an envelope with a known command nor a message of a known type.
pub fn read(line: &[u8]) -> Result<ControlLine, Refusal> {
    let value = json::read(line)
        .map_err(|error| Refusal::new(Code::InvalidRequest, format!("The line cannot be read: {error}.")))?;
    let map =
        value.as_map().ok_or_else(|| Refusal::new(Code::InvalidRequest, "The line must be an object."))?;
    if map.contains(&Value::str("command")) { enveloped(map) } else { bare(map) }
}

fn bare(map: &Map<'_>) -> Result<ControlLine, Refusal> {
    let command = message(map).map_err(|reason| Refusal {
        request_id: id(map).map(str::to_owned),
        code: Code::InvalidRequest,
        message: reason,
    })?;
    Ok(ControlLine { command, form: AnswerForm::Bare })
}

fn enveloped(map: &Map<'_>) -> Result<ControlLine, Refusal> {
    let wrong = |reason: &str| Refusal {
        request_id: id(map).map(str::to_owned),
        code: Code::InvalidRequest,
        message: format!("The envelope {reason}."),
    };
    let id = id(map).ok_or_else(|| {
        wrong(&format!("must have a request_id: a string of at most {CONTROL_ID_BYTES} bytes"))
    })?;
    let version = get(map, "version").and_then(Value::as_i64);
    let version = version.ok_or_else(|| wrong("must have a version: an integer"))?;
    let command = get(map, "command").and_then(Value::as_str);
    let command = command.ok_or_else(|| wrong("must have a command: a string"))?;
    let payload = map.get(&Value::str("payload")).ok_or_else(|| wrong("must have a payload"))?;
    let form = AnswerForm::Envelope(id.to_owned());
    if version != ENVELOPE_VERSION {
        let message = format!("The envelope's version must be {ENVELOPE_VERSION}.");
        return Err(form.refusal(Code::VersionMismatch, message));
    }
    let known = match command {
        "control" => control,
        "list-agents" => list_agents,
        "agent-state" => agent_state,
        _ => {
            let message = "The command must be control, list-agents or agent-state.";
            return Err(form.refusal(Code::UnknownCommand, message));
        }
    };
    let Some(payload) = payload.as_map() else {
        return Err(form.refusal(Code::InvalidPayload, "The payload must be an object."));
    };
    match known(payload) {
        Ok(command) => Ok(ControlLine { command, form }),
        Err((code, message)) => Err(form.refusal(code, message)),
    }
}

/// What a payload asks, or the code and the reason of a refusal.
type Read = Result<LineCommand, (Code, String)>;

fn control(payload: &Map<'_>) -> Read {
    message(payload).map_err(|reason| (Code::InvalidPayload, reason))
}

fn list_agents(payload: &Map<'_>) -> Read {
    Ok(LineCommand::Agents(team(payload)?))
}

fn agent_state(payload: &Map<'_>) -> Read {
    let agent = get(payload, "agent").and_then(Value::as_str).filter(|agent| !agent.is_empty());
    let agent =
        agent.ok_or_else(|| (Code::MissingParameter, "The payload must have an agent.".to_owned()))?;
    Ok(LineCommand::AgentState { agent: agent.to_owned(), team: team(payload)? })
}

fn team(payload: &Map<'_>) -> Result<Option<String>, (Code, String)> {
    match get(payload, "team") {
        None => Ok(None),
        Some(Value::Str(team)) => Ok(Some(team.as_str().to_owned())),
        Some(_) => Err((Code::InvalidPayload, "The team must be a string.".to_owned())),
    }
}

/// The message. The error is the text of the refusal, whose code is the same for each.
fn message(map: &Map<'_>) -> Result<LineCommand, String> {
    let message = control::read(map, Spelling::Json);
    message.map_err(|reason| format!("The message cannot be read: {reason}.")).map(|message| match message {
        ControlMessage::Request(request) => LineCommand::Request(request),
        ControlMessage::Capabilities => LineCommand::Capabilities,
    })
}

/// The request id of a map, if it is one.
fn id<'m>(map: &'m Map<'_>) -> Option<&'m str> {
    let id = get(map, "request_id")?.as_str()?;
    (!id.is_empty() && id.len() <= CONTROL_ID_BYTES).then_some(id)
}

/// A value; `None` for one that is missing or null.
fn get<'m, 'v>(map: &'m Map<'v>, key: &'static str) -> Option<&'m Value<'v>> {
    map.get(&Value::str(key)).filter(|value| !value.is_nil())
}

/// The live sessions, as the daemon tells of its agents.
pub fn agent_list(agents: &[TeamMember]) -> Value<'static> {
    Value::vector(agents.iter().map(|agent| {
        let mut map = Map::new();
        let mut put = |name: &'static str, value: Value<'static>| map.insert(Value::str(name), value);
        put("agent", address(agent, agents).to_owned().into());
        put("state", state(agent).into());
        put("activity", state(agent).into());
        put("session_id", agent.id.to_value());
        if let Some(parent) = &agent.parent {
            put("parent_session_id", parent.to_value());
        }
        put("team", agent.team.clone().into());
        put("reason", "live".into());
        put("source", "edn-bridge".into());
        Value::from(map)
    }))
}

/// Why an agent's name means no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAgent {
    /// Nobody has it.
    #[error("There is no live session of that id or name.")]
    Missing,
    /// Several have it.
    #[error("More than one live session has that name; use an id.")]
    Ambiguous,
}

/// The state of the session with that id or name.
///
/// # Errors
/// See [`UnknownAgent`].
pub fn agent_status(agents: &[TeamMember], wanted: &str) -> Result<Value<'static>, UnknownAgent> {
    let wanted = wanted.strip_prefix("edn-bridge:").unwrap_or(wanted);
    let by_id = agents.iter().find(|agent| agent.id.as_str() == wanted);
    let mut named = agents.iter().filter(|agent| agent.name.as_deref() == Some(wanted));
    let agent = match (by_id, named.next(), named.next()) {
        (Some(agent), ..) | (None, Some(agent), None) => agent,
        (None, None, _) => return Err(UnknownAgent::Missing),
        (None, Some(_), Some(_)) => return Err(UnknownAgent::Ambiguous),
    };
    let mut map = Map::new();
    map.insert(Value::str("state"), state(agent));
    map.insert(Value::str("last_transition"), Value::Nil);
    Ok(map.into())
}

/// A live session is idle or busy: these words tell the clients of the daemon that they may send.
const fn state(agent: &TeamMember) -> &'static str {
    if agent.is_busy { "busy" } else { "idle" }
}

/// What names a session alone: its name, or its id if another one has the name or the name could be taken for another
/// address.
fn address<'a>(agent: &'a TeamMember, all: &'a [TeamMember]) -> &'a str {
    let fits = |name: &&str| !name.trim().is_empty() && name.len() <= CONTROL_ID_BYTES && !name.contains(':');
    let is_alone = |name: &&str| all.iter().filter(|other| other.name.as_deref() == Some(name)).count() == 1;
    agent.name.as_deref().filter(fits).filter(is_alone).unwrap_or(agent.id.as_str())
}
