//! Version 2 of the protocol, a draft: its shapes, out of the plain types and into them. Decides nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol_schema::v2::{self as acp, Command as Offered};
use agent_client_protocol_schema::{MaybeUndefined, ProtocolVersion};
use serde::Serialize;

use crate::diff;
use crate::jsonrpc::{ask, notify, plain, respond};
use crate::limits::ACP_PARTS;
use crate::message::SessionId;
use crate::secret::Secret;
use crate::session::{SessionServer, SessionServerWay};
use crate::value::Value;
use crate::wire::acp::both;
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::map::Can;
use crate::wire::acp::questions::{EditorRequest, numbers};
use crate::wire::acp::request::{AcpRequest, AcpResponse, Chosen, Part, Row};
use crate::wire::acp::update::{
    CallContent, CallState, Category, ChoiceValue, CompactionState, EditorAnswer, FIELD, Foreground, Form,
    OptionValue, Permission, PlanStep, ShownCall, ShownOption, Update, Voice,
};
use crate::wire::acp::v1::{self, checked_place, read};
use crate::wire::acp::version::Version;

/// Appends an answer. `id` is JSON, as it came.
pub fn answer(out: &mut Vec<u8>, id: &str, answer: &AcpResponse) {
    match answer {
        AcpResponse::Initialized { terminal_login, .. } => respond(out, id, &initialized(*terminal_login)),
        AcpResponse::Opened { session: Some(session), options, .. } => {
            let opened = acp::NewSessionResponse::new(session_id(session));
            respond(out, id, &opened.config_options(self::options(options)));
        }
        AcpResponse::Opened { session: None, options, .. } => {
            respond(out, id, &acp::ResumeSessionResponse::new().config_options(self::options(options)));
        }
        AcpResponse::Listed { sessions, next } => {
            let next = next.as_deref().map(acp::SessionListCursor::new);
            let rows = sessions.iter().map(row).collect();
            respond(out, id, &acp::ListSessionsResponse::new(rows).next_cursor(next));
        }
        AcpResponse::Options(options) => {
            respond(out, id, &acp::SetSessionConfigOptionResponse::new(self::options(options)));
        }
        AcpResponse::Inserted(message) => {
            respond(out, id, &acp::PromptResponse::new(acp::MessageId::new(message.as_str())));
        }
        AcpResponse::Found(found) => respond(out, id, &plain(found)),
        // Here a prompt is answered before its end.
        AcpResponse::Stopped(_) | AcpResponse::Done => respond(out, id, &acp::CloseSessionResponse::new()),
    }
}

fn initialized(terminal_login: bool) -> acp::InitializeResponse {
    let prompts = acp::PromptCapabilities::new()
        .image(acp::PromptImageCapabilities::new())
        .embedded_context(acp::PromptEmbeddedContextCapabilities::new());
    let servers = acp::McpCapabilities::new()
        .stdio(acp::McpStdioCapabilities::new())
        .http(acp::McpHttpCapabilities::new());
    let sessions = acp::SessionCapabilities::new().prompt(prompts).mcp(servers);
    let sessions = sessions
        .delete(acp::SessionDeleteCapabilities::new())
        .additional_directories(acp::SessionAdditionalDirectoriesCapabilities::new());
    let info = acp::Implementation::new("edn-bridge", env!("CARGO_PKG_VERSION"));
    let logins = terminal_login.then(|| {
        let login = acp::AuthMethodTerminal::new(Arc::<str>::from("login"), "Log in to a model provider");
        let about = "Logs in at the provider of new sessions, in a terminal.".to_owned();
        acp::AuthMethod::Terminal(login.args(vec!["login".to_owned()]).description(about))
    });
    acp::InitializeResponse::new(ProtocolVersion::V2, info.title("EDN Bridge".to_owned()))
        .capabilities(acp::AgentCapabilities::new().session(sessions))
        .auth_methods(logins.into_iter().collect())
}

fn option(option: &ShownOption) -> acp::SessionConfigOption {
    let kind = match &option.value {
        OptionValue::Switch(on) => acp::SessionConfigKind::Boolean(acp::SessionConfigBoolean::new(*on)),
        OptionValue::Choice { current, groups } => {
            let all: acp::SessionConfigSelectOptions = match groups.as_slice() {
                [group] if group.name.is_none() => values(&group.values).into(),
                groups => {
                    let groups = groups.iter().map(|group| {
                        let name = group.name.as_deref().unwrap_or_default();
                        let of = values(&group.values);
                        acp::SessionConfigSelectGroup::new(Arc::<str>::from(name), name, of)
                    });
                    groups.collect::<Vec<_>>().into()
                }
            };
            let current = Arc::<str>::from(current.as_str());
            acp::SessionConfigKind::Select(acp::SessionConfigSelect::new(current, all))
        }
    };
    let shown = acp::SessionConfigOption::new(Arc::<str>::from(option.id), option.name, kind);
    shown.description(option.about.to_owned()).category(category(option.category))
}

fn row(row: &Row) -> acp::SessionInfo {
    let info = acp::SessionInfo::new(session_id(&row.session), row.folder.clone());
    info.title(row.title.clone()).updated_at(row.updated_at.clone())
}

both::written_alike!();

const UPDATE: &str = "session/update";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PieceUpdate<'p> {
    session_update: &'static str,
    message_id: &'p str,
    content: PieceText<'p>,
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
        let update = PieceUpdate { session_update, message_id: message, content };
        return notify(out, UPDATE, &Piece { session_id: session.as_str(), update });
    }
    if let Some(told) = told(update) {
        notify(out, UPDATE, &acp::UpdateSessionNotification::new(session_id(session), told));
    }
}

/// The update, if this version has it: the permission mode is a setting like any.
fn told(update: &Update<'_>) -> Option<acp::SessionUpdate> {
    Some(match update {
        Update::Mode(_) => return None,
        Update::Text { voice, message, text } => {
            chunk(*voice, message, acp::ContentBlock::Text(acp::TextContent::new(text.as_ref())))
        }
        Update::Image { voice, message, mime_type, data } => {
            chunk(*voice, message, acp::ContentBlock::Image(image(data, mime_type)))
        }
        Update::Call(call) | Update::CallChanged(call) => acp::SessionUpdate::ToolCallUpdate(tool_call(call)),
        Update::Plan(steps) => {
            // A session shows one.
            let items = acp::PlanItems::new(Arc::<str>::from("plan"), entries(steps));
            acp::SessionUpdate::PlanUpdate(acp::PlanUpdate::new(acp::PlanUpdateContent::Items(items)))
        }
        Update::Commands(commands) => {
            let commands = commands.iter().map(|command| {
                let hint = command.hint.as_deref().map(acp::TextCommandInput::new);
                let shown = Offered::new(command.name.as_str(), command.about.as_str());
                acp::AvailableCommand::Command(shown.input(hint.map(acp::AvailableCommandInput::Text)))
            });
            let all = acp::AvailableCommandsUpdate::new(commands.collect());
            acp::SessionUpdate::AvailableCommandsUpdate(all)
        }
        Update::Options(options) => {
            acp::SessionUpdate::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(self::options(options)))
        }
        Update::Title(title) => {
            acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().title(title.clone()))
        }
        Update::Usage { used, size, cost } => {
            let cost = set(cost.map(|cost| acp::Cost::new(cost, "USD")));
            acp::SessionUpdate::UsageUpdate(acp::UsageUpdate::new(*used, *size).cost(cost))
        }
        Update::Notice { warns, text } => {
            let severity = if *warns { acp::NoticeSeverity::Warning } else { acp::NoticeSeverity::Info };
            acp::SessionUpdate::Notice(acp::Notice::new(severity, text.as_str()))
        }
        Update::State(state) => acp::SessionUpdate::StateUpdate(foreground(state)),
        Update::Compaction { id, state, error } => {
            let update = acp::CompactionUpdate::new(Arc::<str>::from(id.as_str()), compaction(*state));
            acp::SessionUpdate::CompactionUpdate(update.error(set(error.clone())))
        }
    })
}

fn foreground(state: &Foreground) -> acp::StateUpdate {
    let ended = match state {
        Foreground::Running => return acp::StateUpdate::Running(acp::RunningStateUpdate::new()),
        Foreground::Blocked => return acp::StateUpdate::RequiresAction(acp::RequiresActionStateUpdate::new()),
        Foreground::Idle(ended) => ended,
    };
    let reason = ended.as_ref().map(|ended| match ended {
        Ok(stop) => (*stop).into(),
        Err(fault) => {
            let error = acp::Error::new(fault.code.number(), fault.message.as_str());
            acp::ErrorStopReason::new().error(error).into()
        }
    });
    acp::StateUpdate::Idle(acp::IdleStateUpdate::new().stop_reason(reason))
}

/// What is known replaces what was told before; what is not leaves it as it is.
fn set<T>(known: Option<T>) -> MaybeUndefined<T> {
    known.map_or(MaybeUndefined::Undefined, MaybeUndefined::Value)
}

fn chunk(voice: Voice, message: &str, content: acp::ContentBlock) -> acp::SessionUpdate {
    let chunk = acp::ContentChunk::new(content, acp::MessageId::new(message));
    match voice {
        Voice::User => acp::SessionUpdate::UserMessageChunk(chunk),
        Voice::Agent => acp::SessionUpdate::AgentMessageChunk(chunk),
        Voice::Thought => acp::SessionUpdate::AgentThoughtChunk(chunk),
    }
}

fn image(data: &str, mime_type: &str) -> acp::ImageContent {
    acp::ImageContent::new(data, acp::MediaType::new(mime_type))
}

fn contents(content: &[CallContent]) -> Vec<acp::ToolCallContent> {
    let block = |block| acp::ToolCallContent::Content(Box::new(acp::Content::new(block)));
    let content = content.iter().map(|content| match content {
        CallContent::Text(text) => block(acp::ContentBlock::Text(acp::TextContent::new(text.as_str()))),
        CallContent::Image { mime_type, data } => block(acp::ContentBlock::Image(image(data, mime_type))),
        CallContent::Patch { path, is_new, diff } => change(path, *is_new, diff),
        CallContent::Diff { path, old, new } => {
            let unified = diff::unified(old.as_deref().unwrap_or_default(), new, "");
            change(path, old.is_none(), &unified)
        }
    });
    content.collect()
}

/// A change of a text file, with its unified diff.
fn change(path: &Path, is_new: bool, unified: &str) -> acp::ToolCallContent {
    let place = acp::DiffPathChange::new(path.to_owned());
    let operation = match is_new {
        true => acp::DiffChangeOperation::Add(place),
        false => acp::DiffChangeOperation::Modify(place),
    };
    let change = acp::DiffChange::new(operation).file_type(acp::DiffFileType::Text);
    let mut told = acp::Diff::new(vec![change]);
    told.patch = Some(acp::DiffPatch::new(diff::patch(path, is_new, unified)));
    acp::ToolCallContent::Diff(told)
}

/// All that is told of a call: the same shape for a new one and for a known one.
fn tool_call(call: &ShownCall) -> acp::ToolCallUpdate {
    let locations = |places: &[PathBuf]| -> Vec<acp::ToolCallLocation> {
        places.iter().map(|place| acp::ToolCallLocation::new(place.clone())).collect()
    };
    acp::ToolCallUpdate::new(call.id.clone())
        .name(set(call.tool.as_deref().map(str::to_owned)))
        .title(set(call.title.clone()))
        .kind(set(call.kind.map(acp::ToolKind::from)))
        .status(set(call.state.map(acp::ToolCallStatus::from)))
        .content(set(call.content.as_deref().map(contents)))
        .locations(set(call.places.as_deref().map(locations)))
        .raw_input(set(call.input.as_ref().map(plain)))
        .raw_output(set(call.output.as_ref().map(plain)))
}

fn permission_request(home: &SessionId, permission: &Permission) -> acp::RequestPermissionRequest {
    let call = &permission.call;
    let title = call.title.as_deref().filter(|title| !title.is_empty()).unwrap_or("Continue?");
    let request = acp::RequestPermissionRequest::new(session_id(home), title, permissions(permission));
    if call.tool.is_some() {
        let subject = acp::ToolCallPermissionSubject::new(tool_call(call));
        return request.subject(acp::RequestPermissionSubject::ToolCall(Box::new(subject)));
    }
    // A question about no call: its text is the description.
    let texts = call.content.iter().flatten().filter_map(|content| match content {
        CallContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    request.description(Some(text).filter(|text| !text.is_empty()))
}

/// Reads a request.
///
/// # Errors
/// For an unknown method, and params of another shape.
pub fn read_request(method: &str, params: &Value<'_>) -> Result<AcpRequest, Fault> {
    let session = |id: &acp::SessionId| SessionId::from(id.0.clone());
    let folders = |folders: Vec<acp::AbsolutePath>| folders.into_iter().map(|folder| folder.0).collect();
    Ok(match method {
        "initialize" => {
            let request: acp::InitializeRequest = read(params)?;
            let client = Some((request.info.name, request.info.version));
            AcpRequest::Initialize { version: Version::Two, can: can(request.capabilities), client }
        }
        "auth/login" => {
            let request: acp::LoginAuthRequest = read(params)?;
            AcpRequest::Authenticate { method: request.method_id.0.to_string() }
        }
        "auth/logout" => AcpRequest::Logout,
        "session/new" => {
            let request: acp::NewSessionRequest = read(params)?;
            let servers = servers(request.mcp_servers)?;
            AcpRequest::New(checked_place(request.cwd.0, folders(request.additional_directories), servers)?)
        }
        "session/resume" => {
            let request: acp::ResumeSessionRequest = read(params)?;
            let replays = match request.replay_from {
                None => false,
                Some(acp::ReplayFrom::Start(_)) => true,
                Some(_) => {
                    let message =
                        "params.replayFrom must be {\"type\": \"start\"}: other places are not known.";
                    return Err(Fault::new(Code::InvalidParams, message));
                }
            };
            let servers = servers(request.mcp_servers)?;
            let place = checked_place(request.cwd.0, folders(request.additional_directories), servers)?;
            AcpRequest::Load { session: session(&request.session_id), place, replays }
        }
        "session/list" => {
            let request: acp::ListSessionsRequest = match params {
                Value::Nil => acp::ListSessionsRequest::new(),
                params => read(params)?,
            };
            let cursor = request.cursor.map(|cursor| cursor.0.to_string());
            AcpRequest::List { folder: request.cwd.map(|folder| folder.0), cursor }
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
        "session/set_config_option" => {
            let request: acp::SetSessionConfigOptionRequest = read(params)?;
            let value = match request.value {
                acp::SessionConfigOptionValue::Boolean { value } => Chosen::Switch(value),
                acp::SessionConfigOptionValue::Id { value } => Chosen::Value(value.0.to_string()),
                _ => return Err(Fault::new(Code::InvalidParams, "The kind of the value is not known.")),
            };
            let option = request.config_id.0.to_string();
            AcpRequest::SetOption { session: session(&request.session_id), option, value }
        }
        "tool_call/cancel" => {
            let request: acp::CancelToolCallRequest = read(params)?;
            let call = request.tool_call_id.0.to_string();
            AcpRequest::CancelCall { session: session(&request.session_id), call }
        }
        method if method.starts_with('_') => return v1::own_request(method, params),
        _ => return Err(Fault::new(Code::MethodNotFound, "There is no such method.")),
    })
}

/// `initialize` of an editor that asks for a newer version, in a shape that is not known.
pub fn unknown() -> AcpRequest {
    AcpRequest::Initialize { version: Version::Two, can: can(acp::ClientCapabilities::new()), client: None }
}

/// Switches, notices, compactions and states need no capability here.
fn can(capabilities: acp::ClientCapabilities) -> Can {
    let elicits = capabilities.elicitation.unwrap_or_default();
    Can {
        forms: elicits.form.is_some(),
        pages: elicits.url.is_some(),
        switches: true,
        notices: true,
        compactions: true,
        terminal_login: capabilities.auth.is_some_and(|auth| auth.terminal.is_some()),
        states: true,
    }
}

/// The MCP servers that the editor names for the session.
fn servers(servers: Vec<acp::McpServer>) -> Result<Vec<SessionServer>, Fault> {
    let refused = |message: &str| Err(Fault::new(Code::InvalidParams, message));
    let server = |server: acp::McpServer| match server {
        acp::McpServer::Stdio(server) => {
            let Ok(program) = server.command.0.into_os_string().into_string() else {
                return refused("params.mcpServers: a command is no text.");
            };
            let command = std::iter::once(program).chain(server.args).collect();
            let env = server.env.into_iter().map(|of| (of.name, Secret::new(of.value))).collect();
            Ok(SessionServer { name: server.name, way: SessionServerWay::Command { command, env } })
        }
        acp::McpServer::Http(server) => {
            let headers = server.headers.into_iter().map(|of| (of.name, Secret::new(of.value))).collect();
            let way = SessionServerWay::Url { url: server.url, headers };
            Ok(SessionServer { name: server.name, way })
        }
        _ => refused("params.mcpServers: servers are reached by a command or over HTTP."),
    };
    servers.into_iter().map(server).collect()
}

fn part(block: acp::ContentBlock) -> Part {
    match block {
        acp::ContentBlock::Text(text) => Part::Text(text.text),
        acp::ContentBlock::Image(image) => Part::Image(image.mime_type.0.to_string(), image.data),
        acp::ContentBlock::ResourceLink(link) => Part::Link(link.name, link.uri),
        acp::ContentBlock::Resource(resource) => match resource.resource {
            acp::EmbeddedResourceResource::TextResourceContents(text) => Part::Embedded(text.uri, text.text),
            acp::EmbeddedResourceResource::BlobResourceContents(blob) => match blob.mime_type {
                Some(of) if of.0.starts_with("image/") => Part::Image(of.0.to_string(), blob.blob),
                _ => Part::Other("a file that is no text"),
            },
            _ => Part::Other("a file that is no text"),
        },
        acp::ContentBlock::Audio(_) => Part::Other("audio"),
        _ => Part::Other("a part of an unknown kind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn piece_of_text_is_written_as_the_official_type_is() {
        let session = SessionId::from("s");
        for voice in [Voice::User, Voice::Agent, Voice::Thought] {
            let update = Update::Text { voice, message: "m\"".into(), text: "a\n\u{7}\u{1f600}".into() };
            let (mut ours, mut official) = (Vec::new(), Vec::new());
            super::update(&mut ours, &session, &update);
            let told = acp::UpdateSessionNotification::new(session_id(&session), told(&update).unwrap());
            notify(&mut official, UPDATE, &told);
            let read = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).unwrap();
            let mut official = read(&official);
            // Left out in ours, which means the same.
            for place in ["/params", "/params/update", "/params/update/content"] {
                if let Some(fields) = official.pointer_mut(place).and_then(|of| of.as_object_mut()) {
                    fields.retain(|_, value| !value.is_null());
                }
            }
            assert_eq!(read(&ours), official);
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
            (false, r#"{"outcome":{"outcome":"_later","optionId":"x"}}"#, EditorAnswer::Dismissed),
            (true, r#"{"action":"accept","content":{"answer":"a"}}"#, EditorAnswer::Text("a".to_owned())),
            (true, r#"{"action":"accept","content":{"answer":true}}"#, EditorAnswer::Flag(true)),
            (true, r#"{"action":"accept","content":{"answer":7}}"#, EditorAnswer::Dismissed),
            (true, r#"{"action":"accept"}"#, EditorAnswer::Done),
            (true, r#"{"action":"decline"}"#, EditorAnswer::Declined),
            (true, r#"{"action":"_later"}"#, EditorAnswer::Dismissed),
            (true, "null", EditorAnswer::Dismissed),
        ] {
            let result = json::read(line.as_bytes()).unwrap();
            assert_eq!(said(as_form, Ok(result)), expected, "{line}");
        }
    }

    #[test]
    fn change_of_a_known_call_leaves_the_rest_as_it_is() {
        let call = ShownCall { id: "c".into(), state: Some(CallState::Running), ..ShownCall::default() };
        let mut out = Vec::new();
        super::update(&mut out, &SessionId::from("s"), &Update::CallChanged(Box::new(call)));
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let expected =
            [("sessionUpdate", "tool_call_update"), ("toolCallId", "c"), ("status", "in_progress")];
        let expected: serde_json::Map<_, _> =
            expected.map(|(key, text)| (key.to_owned(), text.into())).into_iter().collect();
        assert_eq!(line["params"]["update"], serde_json::Value::Object(expected));
    }
}
