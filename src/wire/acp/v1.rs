//! Version 1 of the protocol: its shapes, out of the plain types and into them. Decides nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::v1::{self as acp, AvailableCommand as Offered};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json;
use crate::jsonrpc::{ask, notify, plain, refuse, respond};
use crate::limits::ACP_PARTS;
use crate::message::SessionId;
use crate::secret::Secret;
use crate::session::{SessionServer, SessionServerWay};
use crate::value::{Map, Value};
use crate::wire::acp::both;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::map::Can;
use crate::wire::acp::options::MODES;
use crate::wire::acp::questions::{EditorRequest, numbers};
use crate::wire::acp::request::{AcpRequest, AcpResponse, Chosen, EditorNotice, Part, Row, SessionPlace};
use crate::wire::acp::update::{
    CallContent, CallKind, CallState, Category, ChoiceValue, CompactionState, EditorAnswer, FIELD, Form,
    OptionValue, Permission, PlanStep, ShownCall, ShownOption, Update, Voice,
};
use crate::wire::acp::version::Version;

/// Appends an error. `id` is JSON, as it came, or `null`.
pub fn error(out: &mut Vec<u8>, id: &str, fault: &Fault) {
    let mut error = acp::Error::new(fault.code.number(), fault.message.as_str());
    if let Some(data) = &fault.data {
        error = error.data(plain(&Value::from(data.clone())));
    }
    if let Some((code, retryable, data)) = &fault.cause {
        let mut all = Map::new().with("code", code.as_str()).with("retryable", *retryable);
        all.put_some("data", data.clone());
        error = error.data(plain(&Value::from(all)));
    }
    refuse(out, id, &error);
}

/// Appends an answer. `id` is JSON, as it came.
pub fn answer(out: &mut Vec<u8>, id: &str, answer: &AcpResponse) {
    match answer {
        AcpResponse::Initialized { terminal_login, .. } => respond(out, id, &initialized(*terminal_login)),
        AcpResponse::Opened { session: Some(session), mode, options } => {
            let opened = acp::NewSessionResponse::new(session_id(session)).modes(modes(mode.as_str()));
            respond(out, id, &opened.config_options(self::options(options)));
        }
        AcpResponse::Opened { session: None, mode, options } => {
            let opened = acp::LoadSessionResponse::new().modes(modes(mode.as_str()));
            respond(out, id, &opened.config_options(self::options(options)));
        }
        AcpResponse::Listed { sessions, next } => {
            let rows = sessions.iter().map(row).collect();
            respond(out, id, &acp::ListSessionsResponse::new(rows).next_cursor(next.clone()));
        }
        AcpResponse::Options(options) => {
            respond(out, id, &acp::SetSessionConfigOptionResponse::new(self::options(options)));
        }
        // Only version 2 answers a prompt before its end.
        AcpResponse::Inserted(_) => respond(out, id, &acp::CloseSessionResponse::new()),
        AcpResponse::Stopped(stop) => respond(out, id, &acp::PromptResponse::new((*stop).into())),
        AcpResponse::Found(found) => respond(out, id, &plain(found)),
        AcpResponse::Done => respond(out, id, &acp::CloseSessionResponse::new()),
    }
}

fn initialized(terminal_login: bool) -> acp::InitializeResponse {
    let prompts = acp::PromptCapabilities::new().image(true).embedded_context(true);
    let sessions = acp::SessionCapabilities::new()
        .list(acp::SessionListCapabilities::new())
        .delete(acp::SessionDeleteCapabilities::new())
        .resume(acp::SessionResumeCapabilities::new())
        .close(acp::SessionCloseCapabilities::new())
        .additional_directories(acp::SessionAdditionalDirectoriesCapabilities::new());
    let can = acp::AgentCapabilities::new().load_session(true);
    let can = can.auth(acp::AgentAuthCapabilities::new().logout(acp::LogoutCapabilities::new()));
    let can = can.mcp_capabilities(acp::McpCapabilities::new().http(true));
    let can = can.prompt_capabilities(prompts).session_capabilities(sessions);
    let info = acp::Implementation::new("edn-bridge", env!("CARGO_PKG_VERSION"));
    let logins = terminal_login.then(|| {
        let login = acp::AuthMethodTerminal::new(Arc::<str>::from("login"), "Log in to a model provider");
        let about = "Logs in at the provider of new sessions, in a terminal.".to_owned();
        acp::AuthMethod::Terminal(login.args(vec!["login".to_owned()]).description(about))
    });
    acp::InitializeResponse::new(agent_client_protocol_schema::ProtocolVersion::V1)
        .agent_capabilities(can)
        .agent_info(info.title("EDN Bridge".to_owned()))
        .auth_methods(logins.into_iter().collect())
}

fn modes(current: &'static str) -> acp::SessionModeState {
    let modes = MODES.iter().map(|(id, name, about)| {
        acp::SessionMode::new(Arc::<str>::from(*id), *name).description((*about).to_owned())
    });
    acp::SessionModeState::new(Arc::<str>::from(current), modes.collect())
}

fn option(option: &ShownOption) -> acp::SessionConfigOption {
    let id = Arc::<str>::from(option.id);
    let shown = match &option.value {
        OptionValue::Switch(on) => acp::SessionConfigOption::boolean(id, option.name, *on),
        OptionValue::Choice { current, groups } => {
            let current = Arc::<str>::from(current.as_str());
            match groups.as_slice() {
                [group] if group.name.is_none() => {
                    acp::SessionConfigOption::select(id, option.name, current, values(&group.values))
                }
                groups => {
                    let groups = groups.iter().map(|group| {
                        let name = group.name.as_deref().unwrap_or_default();
                        let of = values(&group.values);
                        acp::SessionConfigSelectGroup::new(Arc::<str>::from(name), name, of)
                    });
                    acp::SessionConfigOption::select(id, option.name, current, groups.collect::<Vec<_>>())
                }
            }
        }
    };
    shown.description(option.about.to_owned()).category(category(option.category))
}

fn row(row: &Row) -> acp::SessionInfo {
    let info = acp::SessionInfo::new(session_id(&row.session), row.folder.as_path());
    info.title(row.title.clone()).updated_at(row.updated_at.clone())
}

both::written_alike!();

const UPDATE: &str = "session/update";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PieceUpdate<'p> {
    session_update: &'static str,
    content: PieceText<'p>,
    message_id: &'p str,
}

/// Appends an update of a session.
pub fn update(out: &mut Vec<u8>, session: &SessionId, update: &Update<'_>) {
    if let Update::Text { voice, message, text } = update {
        let session_update = match voice {
            Voice::User => "user_message_chunk",
            Voice::Agent => "agent_message_chunk",
            Voice::Thought => "agent_thought_chunk",
        };
        let content = PieceText { r#type: "text", text };
        let update = PieceUpdate { session_update, content, message_id: message };
        return notify(out, UPDATE, &Piece { session_id: session.as_str(), update });
    }
    if let Some(told) = told(update) {
        notify(out, UPDATE, &acp::SessionNotification::new(session_id(session), told));
    }
}

/// The update, if this version has it: the end of a turn is the answer to its prompt.
fn told(update: &Update<'_>) -> Option<acp::SessionUpdate> {
    Some(match update {
        Update::Text { voice, message, text } => {
            let text = acp::ContentBlock::Text(acp::TextContent::new(text.as_ref()));
            chunk(*voice, message, text)
        }
        Update::Image { voice, message, mime_type, data } => {
            let image = acp::ContentBlock::Image(acp::ImageContent::new(*data, *mime_type));
            chunk(*voice, message, image)
        }
        Update::Call(call) => acp::SessionUpdate::ToolCall(tool_call(call)),
        Update::CallChanged(call) => acp::SessionUpdate::ToolCallUpdate(tool_call_update(call)),
        Update::Plan(steps) => acp::SessionUpdate::Plan(acp::Plan::new(entries(steps))),
        Update::Commands(commands) => {
            let commands = commands.iter().map(|command| {
                let hint = command.hint.as_deref().map(|hint| {
                    acp::AvailableCommandInput::Unstructured(acp::UnstructuredCommandInput::new(hint))
                });
                Offered::new(command.name.as_str(), command.about.as_str()).input(hint)
            });
            let all = acp::AvailableCommandsUpdate::new(commands.collect());
            acp::SessionUpdate::AvailableCommandsUpdate(all)
        }
        Update::Mode(mode) => {
            acp::SessionUpdate::CurrentModeUpdate(acp::CurrentModeUpdate::new(Arc::<str>::from(*mode)))
        }
        Update::Options(options) => {
            acp::SessionUpdate::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(self::options(options)))
        }
        Update::Title(title) => {
            acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().title(title.clone()))
        }
        Update::Usage { used, size, cost } => {
            let cost = cost.map(|cost| acp::Cost::new(cost, "USD"));
            acp::SessionUpdate::UsageUpdate(acp::UsageUpdate::new(*used, *size).cost(cost))
        }
        Update::Notice { warns, text } => {
            let severity = if *warns { acp::NoticeSeverity::Warning } else { acp::NoticeSeverity::Info };
            acp::SessionUpdate::Notice(acp::Notice::new(severity, text.as_str()))
        }
        Update::State(_) => return None,
        Update::Compaction { id, state, error } => {
            let mut update = acp::CompactionUpdate::new(Arc::<str>::from(id.as_str()), compaction(*state));
            if let Some(error) = error {
                update = update.error(error.clone());
            }
            acp::SessionUpdate::CompactionUpdate(update)
        }
    })
}

fn chunk(voice: Voice, message: &str, content: acp::ContentBlock) -> acp::SessionUpdate {
    let chunk = acp::ContentChunk::new(content).message_id(acp::MessageId::new(message));
    match voice {
        Voice::User => acp::SessionUpdate::UserMessageChunk(chunk),
        Voice::Agent => acp::SessionUpdate::AgentMessageChunk(chunk),
        Voice::Thought => acp::SessionUpdate::AgentThoughtChunk(chunk),
    }
}

fn contents(content: &[CallContent]) -> Vec<acp::ToolCallContent> {
    let content = content.iter().map(|content| match content {
        CallContent::Text(text) => {
            acp::ToolCallContent::from(acp::ContentBlock::Text(acp::TextContent::new(text.as_str())))
        }
        CallContent::Patch { diff, .. } => {
            let text = acp::TextContent::new(format!("```diff\n{diff}\n```"));
            acp::ToolCallContent::from(acp::ContentBlock::Text(text))
        }
        CallContent::Image { mime_type, data } => {
            let image = acp::ImageContent::new(data.as_ref(), mime_type.as_ref());
            acp::ToolCallContent::from(acp::ContentBlock::Image(image))
        }
        CallContent::Diff { path, old, new } => {
            let diff = acp::Diff::new(path.as_path(), new.as_ref());
            acp::ToolCallContent::from(diff.old_text(old.as_deref().map(str::to_owned)))
        }
    });
    content.collect()
}

fn locations(places: &[PathBuf]) -> Vec<acp::ToolCallLocation> {
    places.iter().map(|place| acp::ToolCallLocation::new(place.as_path())).collect()
}

fn tool_call(call: &ShownCall) -> acp::ToolCall {
    let title = call.title.as_deref().unwrap_or_default();
    acp::ToolCall::new(call.id.clone(), title)
        .name(call.tool.as_deref().map(str::to_owned))
        .kind(call.kind.unwrap_or(CallKind::Other).into())
        .status(call.state.unwrap_or(CallState::Pending).into())
        .content(contents(call.content.as_deref().unwrap_or_default()))
        .locations(locations(call.places.as_deref().unwrap_or_default()))
        .raw_input(call.input.as_ref().map(plain))
        .raw_output(call.output.as_ref().map(plain))
}

fn tool_call_update(call: &ShownCall) -> acp::ToolCallUpdate {
    let fields = acp::ToolCallUpdateFields::new()
        .kind(call.kind.map(acp::ToolKind::from))
        .status(call.state.map(acp::ToolCallStatus::from))
        .title(call.title.clone())
        .name(call.tool.as_deref().map(str::to_owned))
        .content(call.content.as_deref().map(contents))
        .locations(call.places.as_deref().map(locations))
        .raw_input(call.input.as_ref().map(plain))
        .raw_output(call.output.as_ref().map(plain));
    acp::ToolCallUpdate::new(call.id.clone(), fields)
}

fn permission_request(home: &SessionId, permission: &Permission) -> acp::RequestPermissionRequest {
    acp::RequestPermissionRequest::new(
        session_id(home),
        tool_call_update(&permission.call),
        permissions(permission),
    )
}

/// Appends that a request to the editor needs no answer any more.
pub fn withdraw(out: &mut Vec<u8>, id: &str) {
    notify(out, "$/cancel_request", &acp::CancelRequestNotification::new(id.to_owned()));
}

/// Appends that what a page was opened for has ended.
pub fn page_over(out: &mut Vec<u8>, id: &str) {
    notify(out, "elicitation/complete", &acp::CompleteElicitationNotification::new(Arc::<str>::from(id)));
}

/// Reads params.
pub fn read<T: DeserializeOwned>(params: &Value<'_>) -> Result<T, Fault> {
    serde_json::from_value(plain(params))
        .map_err(|error| Fault::new(Code::InvalidParams, format!("The params cannot be used: {error}.")))
}

/// Reads a request.
///
/// # Errors
/// For an unknown method, and params of another shape.
pub fn read_request(method: &str, params: &Value<'_>) -> Result<AcpRequest, Fault> {
    let session = |id: &acp::SessionId| SessionId::from(id.0.clone());
    Ok(match method {
        "initialize" => initialize(read(params)?),
        "logout" => AcpRequest::Logout,
        "authenticate" => {
            let request: acp::AuthenticateRequest = read(params)?;
            AcpRequest::Authenticate { method: request.method_id.0.to_string() }
        }
        "session/new" => {
            let request: acp::NewSessionRequest = read(params)?;
            AcpRequest::New(place(request.cwd, request.additional_directories, request.mcp_servers)?)
        }
        "session/load" => {
            let request: acp::LoadSessionRequest = read(params)?;
            let place = place(request.cwd, request.additional_directories, request.mcp_servers)?;
            AcpRequest::Load { session: session(&request.session_id), place, replays: true }
        }
        "session/resume" => {
            let request: acp::ResumeSessionRequest = read(params)?;
            let place = place(request.cwd, request.additional_directories, request.mcp_servers)?;
            AcpRequest::Load { session: session(&request.session_id), place, replays: false }
        }
        "session/list" => {
            let request: acp::ListSessionsRequest = match params {
                Value::Nil => acp::ListSessionsRequest::new(),
                params => read(params)?,
            };
            AcpRequest::List { folder: request.cwd, cursor: request.cursor }
        }
        "session/close" => AcpRequest::Close(session(&read::<acp::CloseSessionRequest>(params)?.session_id)),
        "session/delete" => {
            AcpRequest::Delete(session(&read::<acp::DeleteSessionRequest>(params)?.session_id))
        }
        "session/prompt" => {
            let request: acp::PromptRequest = read(params)?;
            if request.prompt.len() > ACP_PARTS {
                let message = format!("A prompt has at most {ACP_PARTS} parts.");
                return Err(Fault::new(Code::InvalidParams, message));
            }
            let parts = request.prompt.into_iter().map(part).collect();
            AcpRequest::Prompt { session: session(&request.session_id), parts }
        }
        "session/set_mode" => {
            let request: acp::SetSessionModeRequest = read(params)?;
            AcpRequest::SetMode { session: session(&request.session_id), mode: request.mode_id.0.to_string() }
        }
        "session/set_config_option" => {
            let request: acp::SetSessionConfigOptionRequest = read(params)?;
            let value = match request.value {
                acp::SessionConfigOptionValue::Boolean { value } => Chosen::Switch(value),
                acp::SessionConfigOptionValue::ValueId { value } => Chosen::Value(value.0.to_string()),
                _ => return Err(Fault::new(Code::InvalidParams, "The kind of the value is not known.")),
            };
            let option = request.config_id.0.to_string();
            AcpRequest::SetOption { session: session(&request.session_id), option, value }
        }
        method if method.starts_with('_') => return own_request(method, params),
        _ => return Err(Fault::new(Code::MethodNotFound, "There is no such method.")),
    })
}

/// Reads a request of an extension of ours, which is the same in every version.
pub fn own_request(method: &str, params: &Value<'_>) -> Result<AcpRequest, Fault> {
    let text = |key: &str| {
        let found = crate::jsonrpc::text(params, key).map(str::to_owned);
        found.ok_or_else(|| Fault::new(Code::InvalidParams, format!("params.{key} must be a text.")))
    };
    match method {
        "_edn-bridge/query_eql" => {
            Ok(AcpRequest::Query { session: SessionId::from(text("sessionId")?), query: text("query")? })
        }
        "_edn-bridge/op" => {
            let (session, op) = (SessionId::from(text("sessionId")?), text("op")?);
            let given = crate::jsonrpc::at(params, "params").is_some();
            let params = if given { text("params")? } else { "{}".to_owned() };
            Ok(AcpRequest::Op { session, op, params })
        }
        _ => Err(Fault::new(Code::MethodNotFound, "There is no such method.")),
    }
}

fn initialize(request: acp::InitializeRequest) -> AcpRequest {
    let caps = request.client_capabilities;
    let session = caps.session.unwrap_or_default();
    let elicits = caps.elicitation.unwrap_or_default();
    let can = Can {
        forms: elicits.form.is_some(),
        pages: elicits.url.is_some(),
        switches: session.config_options.is_some_and(|options| options.boolean.is_some()),
        notices: session.notices.is_some(),
        compactions: session.compaction.is_some(),
        terminal_login: caps.auth.terminal,
        states: false,
    };
    let client = request.client_info.map(|info| (info.name, info.version));
    AcpRequest::Initialize { version: Version::One, can, client }
}

/// Where a session works. The protocol wants absolute paths.
fn place(
    folder: PathBuf,
    further: Vec<PathBuf>,
    servers: Vec<acp::McpServer>,
) -> Result<SessionPlace, Fault> {
    let servers = servers.into_iter().map(server).collect::<Result<Vec<_>, _>>()?;
    checked_place(folder, further, servers)
}

/// The same in every version.
pub fn checked_place(
    folder: PathBuf,
    further: Vec<PathBuf>,
    servers: Vec<SessionServer>,
) -> Result<SessionPlace, Fault> {
    absolute(&folder, "cwd")?;
    for path in &further {
        absolute(path, "additionalDirectories")?;
    }
    Ok(SessionPlace { folder, further, servers: servers.into() })
}

/// An MCP server that the editor names for the session. SSE is not among the capabilities.
fn server(server: acp::McpServer) -> Result<SessionServer, Fault> {
    let (name, way) = match server {
        acp::McpServer::Stdio(server) => {
            let program =
                server.command.into_os_string().into_string().map_err(|_| {
                    Fault::new(Code::InvalidParams, "params.mcpServers: a command is no text.")
                })?;
            let command = std::iter::once(program).chain(server.args).collect();
            let env = server.env.into_iter().map(|of| (of.name, Secret::new(of.value))).collect();
            (server.name, SessionServerWay::Command { command, env })
        }
        acp::McpServer::Http(server) => {
            let headers = server.headers.into_iter().map(|of| (of.name, Secret::new(of.value))).collect();
            (server.name, SessionServerWay::Url { url: server.url, headers })
        }
        _ => {
            let message = "params.mcpServers: servers are reached by a command or over HTTP.";
            return Err(Fault::new(Code::InvalidParams, message));
        }
    };
    Ok(SessionServer { name, way })
}

fn absolute(path: &Path, key: &str) -> Result<(), Fault> {
    match path.is_absolute() {
        true => Ok(()),
        false => Err(Fault::new(Code::InvalidParams, format!("params.{key} must be an absolute path."))),
    }
}

fn part(block: acp::ContentBlock) -> Part {
    match block {
        acp::ContentBlock::Text(text) => Part::Text(text.text),
        acp::ContentBlock::Image(image) => Part::Image(image.mime_type, image.data),
        acp::ContentBlock::ResourceLink(link) => Part::Link(link.name, link.uri),
        acp::ContentBlock::Resource(acp::EmbeddedResource {
            resource: acp::EmbeddedResourceResource::TextResourceContents(text),
            ..
        }) => Part::Embedded(text.uri, text.text),
        acp::ContentBlock::Resource(acp::EmbeddedResource {
            resource: acp::EmbeddedResourceResource::BlobResourceContents(blob),
            ..
        }) if blob.mime_type.as_deref().is_some_and(|of| of.starts_with("image/")) => {
            Part::Image(blob.mime_type.unwrap_or_default(), blob.blob)
        }
        acp::ContentBlock::Resource(_) => Part::Other("a file that is no text"),
        acp::ContentBlock::Audio(_) => Part::Other("audio"),
        _ => Part::Other("a part of an unknown kind"),
    }
}

/// Reads a notification; `None` for one that is unknown or malformed.
pub fn notice(method: &str, params: &Value<'_>) -> Option<EditorNotice> {
    match method {
        "session/cancel" => {
            let cancel: acp::CancelNotification = read(params).ok()?;
            Some(EditorNotice::Cancel(SessionId::from(cancel.session_id.0)))
        }
        "$/cancel_request" => {
            let id = crate::jsonrpc::at(params, "requestId")?;
            let mut out = Vec::new();
            json::write(id, &mut out);
            Some(EditorNotice::CancelRequest(String::from_utf8(out).ok()?.into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piece_of_text_is_written_as_the_official_type_is() {
        let session = SessionId::from("s");
        for voice in [Voice::User, Voice::Agent, Voice::Thought] {
            let update = Update::Text { voice, message: "m\"".into(), text: "a\n\u{7}\u{1f600}".into() };
            let (mut ours, mut official) = (Vec::new(), Vec::new());
            super::update(&mut ours, &session, &update);
            notify(
                &mut official,
                UPDATE,
                &acp::SessionNotification::new(session_id(&session), told(&update).unwrap()),
            );
            let read = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap();
            assert_eq!(read(&ours), read(&official));
        }
    }

    #[test]
    fn answer_that_cannot_be_read_is_a_dismissal() {
        for (as_form, line, expected) in [
            (
                false,
                r#"{"outcome":{"outcome":"selected","optionId":"x"}}"#,
                EditorAnswer::Option("x".to_owned()),
            ),
            (false, r#"{"outcome":{"outcome":"cancelled"}}"#, EditorAnswer::Dismissed),
            (false, r#"{"outcome":{"outcome":"selected"}}"#, EditorAnswer::Dismissed),
            (false, "[]", EditorAnswer::Dismissed),
            (true, r#"{"action":"accept","content":{"answer":"a"}}"#, EditorAnswer::Text("a".to_owned())),
            (true, r#"{"action":"accept","content":{"answer":true}}"#, EditorAnswer::Flag(true)),
            (true, r#"{"action":"accept","content":{"answer":7}}"#, EditorAnswer::Dismissed),
            (true, r#"{"action":"accept"}"#, EditorAnswer::Done),
            (true, r#"{"action":"decline"}"#, EditorAnswer::Declined),
            (true, r#"{"action":"cancel"}"#, EditorAnswer::Dismissed),
            (true, r#"{"action":7}"#, EditorAnswer::Dismissed),
            (true, "null", EditorAnswer::Dismissed),
        ] {
            let result = json::read(line.as_bytes()).unwrap();
            assert_eq!(said(as_form, Ok(result)), expected, "{line}");
        }
        assert_eq!(said(false, Err("no".to_owned())), EditorAnswer::Dismissed);
    }
}
