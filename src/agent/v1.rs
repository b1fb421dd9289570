//! Version 1 of the protocol, as an editor speaks it: what an agent sends into plain types, and requests to it. A part that
//! cannot be read is left out, and the rest of its message counts. Decides nothing.

use std::path::Path;
use std::sync::Arc;

use agent_client_protocol_schema::v1::{self as acp};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::known;
use super::update::{
    AgentAsk, AgentCan, AgentReply, AgentServer, AgentServerWay, AgentSession, AgentUpdate, AgentVoice,
    CallNews, CallPart, OfferedAnswer, PromptPart, SessionNews, pairs,
};
use crate::acp::{PermissionKind, Stop};
use crate::facts::agent::{AgentChoice, AgentCommand, AgentOption, AgentStep, AgentValue};
use crate::json;
use crate::jsonrpc::{RpcError, plain};
use crate::limits::{
    AGENT_ANSWERS, AGENT_CHOICES, AGENT_COMMANDS, AGENT_OPTIONS, AGENT_STEPS, AGENT_TITLE_BYTES,
};
use crate::mcp;
use crate::peer::{Redactor, cut};
use crate::secret::Secret;
use crate::value::Value;
use crate::visible;

/// What an update tells.
pub(super) enum ParsedUpdate {
    /// Something of a turn.
    Turn(AgentUpdate),
    /// Something of the session.
    Session(SessionNews),
    /// Nothing that is known.
    Nothing,
}

/// The id of the option that stands for the modes of an agent that has no such option.
pub(super) const MODE_OPTION: &str = "_mode";

/// The params of the first request.
pub(super) fn initialize(reads: bool) -> Json {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": reads, "writeTextFile": true},
            "terminal": true,
            "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            "elicitation": {"form": {}, "url": {}},
        },
        "clientInfo": {"name": "edn-bridge", "title": "EDN Bridge", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The params of a new session.
pub(super) fn new_session(cwd: &Path, servers: &[AgentServer]) -> Json {
    json!({"cwd": cwd, "mcpServers": servers.iter().map(server).collect::<Vec<_>>()})
}

/// The params of a session that is loaded, taken up or forked.
pub(super) fn old_session(id: &str, cwd: &Path, servers: &[AgentServer]) -> Json {
    json!({"sessionId": id, "cwd": cwd, "mcpServers": servers.iter().map(server).collect::<Vec<_>>()})
}

fn server(server: &AgentServer) -> Json {
    let pairs = |pairs: &[(String, Secret)]| {
        let pair = |(name, value): &(String, Secret)| json!({"name": name, "value": value.expose()});
        pairs.iter().map(pair).collect::<Vec<_>>()
    };
    let name = server.name.as_ref();
    match &server.way {
        AgentServerWay::Command(command, env) => {
            let (program, arguments) = command.split_first().unzip();
            json!({"name": name, "command": program, "args": arguments, "env": pairs(env)})
        }
        AgentServerWay::Url(url, headers) => {
            json!({"type": "http", "name": name, "url": url, "headers": pairs(headers)})
        }
    }
}

/// The params of a request that names a session alone.
pub(super) fn session(id: &str) -> Json {
    json!({"sessionId": id})
}

/// The params of a prompt.
pub(super) fn prompt(id: &str, parts: &[PromptPart]) -> Json {
    let parts = parts.iter().map(|part| match part {
        PromptPart::Text(text) => json!({"type": "text", "text": text}),
        PromptPart::Image(mime_type, data) => json!({"type": "image", "mimeType": mime_type, "data": data}),
    });
    json!({"sessionId": id, "prompt": parts.collect::<Vec<_>>()})
}

/// The method and the params of a choice.
pub(super) fn set_option(id: &str, option: &str, value: &Value<'_>) -> (&'static str, Json) {
    match (option, value) {
        (MODE_OPTION, value) => {
            ("session/set_mode", json!({"sessionId": id, "modeId": value.as_str().unwrap_or_default()}))
        }
        (option, Value::Bool(on)) => (
            "session/set_config_option",
            json!({"sessionId": id, "configId": option, "type": "boolean", "value": on}),
        ),
        (option, value) => (
            "session/set_config_option",
            json!({"sessionId": id, "configId": option, "value": value.as_str().unwrap_or_default()}),
        ),
    }
}

fn read<T: DeserializeOwned>(value: &Value<'_>) -> Option<T> {
    serde_json::from_value(plain(value))
        .map_err(|error| tracing::debug!(%error, "a message of an agent cannot be read"))
        .ok()
}

fn within<'v>(map: &'v Value<'_>, key: &str) -> Option<&'v Value<'v>> {
    pairs(map).find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn short(text: &str) -> Arc<str> {
    cut(&visible::line(text), AGENT_TITLE_BYTES)
}

/// What an agent can do, and the version of the protocol that it speaks.
pub(super) fn can(answer: &Value<'_>) -> Option<(u64, AgentCan)> {
    let response: acp::InitializeResponse = read(answer)?;
    let all = plain(answer);
    let has =
        |path: &str| all.pointer(path).is_some_and(|value| !value.is_null() && value != &Json::Bool(false));
    let of = |name: &str| has(&format!("/agentCapabilities/sessionCapabilities/{name}"));
    let titles_commands =
        response.agent_info.as_ref().is_some_and(|info| known::TITLES_COMMANDS.contains(&info.name.as_str()));
    let info = response.agent_info.map(|info| {
        let name = info.title.unwrap_or(info.name);
        short(&format!("{name} {}", info.version)).to_string()
    });
    let logins = response.auth_methods.iter().take(AGENT_ANSWERS).map(|method| match method {
        acp::AuthMethod::Terminal(method) => short(&method.name).to_string(),
        acp::AuthMethod::Agent(method) => short(&method.name).to_string(),
        _ => short(&method.id().0).to_string(),
    });
    let can = AgentCan {
        images: response.agent_capabilities.prompt_capabilities.image,
        load: response.agent_capabilities.load_session,
        resume: of("resume"),
        close: of("close"),
        fork: of("fork"),
        http: has("/agentCapabilities/mcpCapabilities/http"),
        info,
        titles_commands,
        logins: logins.collect(),
    };
    Some((response.protocol_version.as_u16().into(), can))
}

/// A session that was opened; `known` is its id, if the answer does not have it.
pub(super) fn opened(answer: &Value<'_>, known: Option<&str>) -> Option<AgentSession> {
    let all = plain(answer);
    let id = all.get("sessionId").and_then(Json::as_str).or(known)?;
    let of = |key: &str| all.get(key).filter(|value| !value.is_null()).cloned();
    let listed = of("configOptions").and_then(|options| serde_json::from_value::<Vec<Json>>(options).ok());
    let modes = of("modes").and_then(|modes| serde_json::from_value::<acp::SessionModeState>(modes).ok());
    let read =
        listed.unwrap_or_default().into_iter().filter_map(|option| serde_json::from_value(option).ok());
    let mut options = options(read.collect());
    if let Some(modes) = modes
        && !options.iter().any(|option| option.category.as_deref() == Some("mode"))
    {
        let values = modes.available_modes.iter().take(AGENT_CHOICES).map(|mode| AgentChoice {
            id: mode.id.0.clone(),
            name: short(&mode.name),
            group: None,
        });
        options.push(AgentOption {
            id: MODE_OPTION.into(),
            name: "Mode".into(),
            about: None,
            category: Some("mode".into()),
            value: AgentValue::Choice { current: modes.current_mode_id.0.clone(), values: values.collect() },
        });
    }
    Some(AgentSession { id: id.into(), news: vec![SessionNews::Options(options)] })
}

/// The options after a choice.
pub(super) fn chosen(answer: &Value<'_>) -> Option<Vec<AgentOption>> {
    let response: acp::SetSessionConfigOptionResponse = read(answer)?;
    Some(options(response.config_options))
}

fn options(options: Vec<acp::SessionConfigOption>) -> Vec<AgentOption> {
    let choice = |option: &acp::SessionConfigSelectOption, group: Option<&str>| AgentChoice {
        id: option.value.0.clone(),
        name: short(&option.name),
        group: group.map(short),
    };
    let shown = options.into_iter().take(AGENT_OPTIONS).filter_map(|option| {
        let value = match &option.kind {
            acp::SessionConfigKind::Boolean(switch) => AgentValue::Switch(switch.current_value),
            acp::SessionConfigKind::Select(select) => {
                let values: Vec<AgentChoice> = match &select.options {
                    acp::SessionConfigSelectOptions::Ungrouped(options) => {
                        options.iter().take(AGENT_CHOICES).map(|option| choice(option, None)).collect()
                    }
                    acp::SessionConfigSelectOptions::Grouped(groups) => {
                        let all = groups.iter().flat_map(|group| {
                            group.options.iter().map(|option| choice(option, Some(&group.name)))
                        });
                        all.take(AGENT_CHOICES).collect()
                    }
                    _ => return None,
                };
                AgentValue::Choice { current: select.current_value.0.clone(), values }
            }
            _ => return None,
        };
        let category = option.category.as_ref().map(|category| match category {
            acp::SessionConfigOptionCategory::Mode => "mode".into(),
            acp::SessionConfigOptionCategory::Model => "model".into(),
            acp::SessionConfigOptionCategory::ModelConfig => "model_config".into(),
            acp::SessionConfigOptionCategory::ThoughtLevel => "thought_level".into(),
            acp::SessionConfigOptionCategory::Other(other) => short(other),
            _ => "other".into(),
        });
        Some(AgentOption {
            id: option.id.0.clone(),
            name: short(&option.name),
            about: option.description.as_deref().map(short),
            category,
            value,
        })
    });
    shown.collect()
}

/// Why a prompt ended, and the use of tokens, if the agent says it: of the prompt, of the answer, read from the cache and
/// written to it.
pub(super) fn stopped(answer: &Value<'_>) -> (Stop, Option<[u64; 4]>) {
    let all = plain(answer);
    let stop = all.get("stopReason").cloned().and_then(|stop| serde_json::from_value(stop).ok());
    let usage = all.get("usage").filter(|usage| usage.is_object()).map(|usage| {
        ["inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens"]
            .map(|key| usage.get(key).and_then(Json::as_u64).unwrap_or_default())
    });
    // Gemini says it beside the protocol.
    let usage = usage.or_else(|| {
        let count = all.pointer("/_meta/quota/token_count")?;
        let of = |key: &str| count.get(key).and_then(Json::as_u64);
        Some([of("input_tokens")?, of("output_tokens")?, 0, 0])
    });
    (stop.map_or(Stop::EndTurn, |stop: acp::StopReason| stop.into()), usage)
}

/// The session of an update, and what it tells.
pub(super) fn update(params: &Value<'_>) -> Option<(Arc<str>, ParsedUpdate)> {
    let notification: acp::SessionNotification = read(params)?;
    let session = notification.session_id.0;
    let is_unread = within(params, "update").is_some_and(is_unread);
    let told = match notification.update {
        acp::SessionUpdate::AgentMessageChunk(chunk) => said(AgentVoice::Agent, chunk),
        acp::SessionUpdate::AgentThoughtChunk(chunk) => said(AgentVoice::Thought, chunk),
        acp::SessionUpdate::ToolCall(call) => {
            ParsedUpdate::Turn(AgentUpdate::Call(Box::new(CallNews { is_unread, ..whole_call(call) })))
        }
        acp::SessionUpdate::ToolCallUpdate(update) => {
            ParsedUpdate::Turn(AgentUpdate::Call(Box::new(CallNews { is_unread, ..call_news(update) })))
        }
        acp::SessionUpdate::Plan(plan) => ParsedUpdate::Session(SessionNews::Plan(steps(&plan))),
        acp::SessionUpdate::AvailableCommandsUpdate(update) => {
            let commands =
                update.available_commands.iter().take(AGENT_COMMANDS).map(|command| AgentCommand {
                    name: short(&command.name),
                    about: short(&command.description),
                    hint: match &command.input {
                        Some(acp::AvailableCommandInput::Unstructured(input)) => Some(short(&input.hint)),
                        _ => None,
                    },
                });
            ParsedUpdate::Session(SessionNews::Commands(commands.collect()))
        }
        acp::SessionUpdate::CurrentModeUpdate(update) => {
            ParsedUpdate::Session(SessionNews::Mode(update.current_mode_id.0))
        }
        acp::SessionUpdate::ConfigOptionUpdate(update) => {
            ParsedUpdate::Session(SessionNews::Options(options(update.config_options)))
        }
        acp::SessionUpdate::SessionInfoUpdate(update) => match update.title {
            agent_client_protocol_schema::MaybeUndefined::Value(title) => {
                ParsedUpdate::Session(SessionNews::Title(short(&title)))
            }
            _ => ParsedUpdate::Nothing,
        },
        acp::SessionUpdate::UsageUpdate(usage) => ParsedUpdate::Session(SessionNews::Usage {
            used: usage.used,
            size: usage.size,
            cost: usage.cost.filter(|cost| cost.currency == "USD").map(|cost| cost.amount),
        }),
        acp::SessionUpdate::Notice(notice) => {
            let text = match &notice.description {
                Some(description) => format!("{}: {description}", notice.title),
                None => notice.title.clone(),
            };
            let warns = !matches!(notice.severity, acp::NoticeSeverity::Info);
            ParsedUpdate::Turn(AgentUpdate::Notice { warns, text: short(&text).to_string() })
        }
        acp::SessionUpdate::CompactionUpdate(update) => ParsedUpdate::Turn(AgentUpdate::Compaction {
            runs: matches!(update.status, acp::CompactionStatus::InProgress),
        }),
        // The person's own words, which are known here.
        _ => ParsedUpdate::Nothing,
    };
    Some((session, told))
}

fn said(voice: AgentVoice, chunk: acp::ContentChunk) -> ParsedUpdate {
    let message = chunk.message_id.map(|id| id.0);
    ParsedUpdate::Turn(match content(chunk.content) {
        CallPart::Image { mime_type, data } if voice == AgentVoice::Agent => {
            AgentUpdate::Image { mime_type, data }
        }
        CallPart::Text(text) => AgentUpdate::Text { voice, message, text },
        _ => return ParsedUpdate::Nothing,
    })
}

/// A part of a message as a text or an image. What people cannot be shown is named.
fn content(block: acp::ContentBlock) -> CallPart {
    match block {
        acp::ContentBlock::Text(text) => CallPart::Text(text.text),
        acp::ContentBlock::Image(image) => CallPart::Image { mime_type: image.mime_type, data: image.data },
        acp::ContentBlock::ResourceLink(link) => CallPart::Text(format!("[{}]({})", link.name, link.uri)),
        acp::ContentBlock::Resource(acp::EmbeddedResource {
            resource: acp::EmbeddedResourceResource::TextResourceContents(text),
            ..
        }) => CallPart::Text(text.text),
        acp::ContentBlock::Resource(_) => CallPart::Text("[a file that is no text]".to_owned()),
        acp::ContentBlock::Audio(_) => CallPart::Text("[audio]".to_owned()),
        _ => CallPart::Text("[a part of an unknown kind]".to_owned()),
    }
}

fn steps(plan: &acp::Plan) -> Vec<AgentStep> {
    let step = |entry: &acp::PlanEntry| AgentStep {
        text: short(&entry.content),
        state: match entry.status {
            acp::PlanEntryStatus::InProgress => "in-progress",
            acp::PlanEntryStatus::Completed => "completed",
            _ => "pending",
        },
    };
    plan.entries.iter().take(AGENT_STEPS).map(step).collect()
}

fn whole_call(call: acp::ToolCall) -> CallNews {
    CallNews {
        id: call.tool_call_id.0,
        tool: call.name,
        title: Some(call.title),
        kind: Some(call.kind.into()),
        state: Some(call.status.into()),
        content: (!call.content.is_empty()).then(|| parts(call.content)),
        places: (!call.locations.is_empty()).then(|| places(call.locations)),
        input: call.raw_input.map(value_of),
        output: call.raw_output.map(value_of),
        written: call.meta.as_ref().and_then(written),
        is_unread: false,
    }
}

/// Whether a tool call has parts that [`whole_call`] and [`call_news`] leave out: unknown keys, and values of another shape than
/// the protocol's.
fn is_unread(call: &Value<'_>) -> bool {
    fn only(map: &Value<'_>, keys: &[&str]) -> bool {
        map.as_map().is_some() && pairs(map).all(|(key, _)| keys.contains(&key))
    }
    fn is_text(map: &Value<'_>, key: &str) -> bool {
        pairs(map).any(|(name, value)| name == key && value.as_str().is_some())
    }
    fn all(list: &Value<'_>, is_read: fn(&Value<'_>) -> bool) -> bool {
        matches!(list, Value::Nil) || list.as_slice().is_some_and(|items| items.iter().all(is_read))
    }
    let is_part = |part: &Value<'_>| {
        let kind = pairs(part).find(|(key, _)| *key == "type").and_then(|(_, kind)| kind.as_str());
        match kind {
            Some("content") => only(part, &["type", "content", "_meta"]),
            Some("terminal") => only(part, &["type", "terminalId", "_meta"]) && is_text(part, "terminalId"),
            Some("diff") => {
                let is_old = |(key, value): (&str, &Value<'_>)| {
                    key != "oldText" || matches!(value, Value::Nil) || value.as_str().is_some()
                };
                only(part, &["type", "path", "oldText", "newText", "_meta"])
                    && is_text(part, "path")
                    && is_text(part, "newText")
                    && pairs(part).all(is_old)
            }
            _ => false,
        }
    };
    let is_place = |place: &Value<'_>| only(place, &["path", "line", "_meta"]) && is_text(place, "path");
    !pairs(call).all(|(key, value)| match key {
        "content" => all(value, is_part),
        "locations" => all(value, is_place),
        "sessionUpdate" | "toolCallId" | "name" | "title" | "kind" | "status" | "rawInput" | "rawOutput"
        | "_meta" => true,
        _ => false,
    })
}

fn call_news(update: acp::ToolCallUpdate) -> CallNews {
    let fields = update.fields;
    CallNews {
        id: update.tool_call_id.0,
        tool: fields.name,
        title: fields.title,
        kind: fields.kind.map(Into::into),
        state: fields.status.map(Into::into),
        content: fields.content.map(parts),
        places: fields.locations.map(places),
        input: fields.raw_input.map(value_of),
        output: fields.raw_output.map(value_of),
        written: update.meta.as_ref().and_then(written),
        is_unread: false,
    }
}

/// What a terminal of an agent's own wrote: some agents tell it beside the protocol.
fn written(meta: &acp::Meta) -> Option<String> {
    let of = |key: &str| match meta.get(key)? {
        Json::String(text) => Some(text.clone()),
        other => Some(other.get("data").or_else(|| other.get("output"))?.as_str()?.to_owned()),
    };
    of("terminal_output_delta").or_else(|| of("terminal_output"))
}

fn places(locations: Vec<acp::ToolCallLocation>) -> Vec<std::path::PathBuf> {
    locations.into_iter().map(|location| location.path).collect()
}

fn parts(content: Vec<acp::ToolCallContent>) -> Vec<CallPart> {
    let part = |part| match part {
        acp::ToolCallContent::Content(block) => Some(self::content(block.content)),
        acp::ToolCallContent::Diff(diff) => {
            Some(CallPart::Diff { path: diff.path, old: diff.old_text, new: diff.new_text })
        }
        acp::ToolCallContent::Terminal(terminal) => Some(CallPart::Terminal(terminal.terminal_id.0)),
        _ => None,
    };
    content.into_iter().filter_map(part).collect()
}

/// JSON as a value of ours: a map with keywords, as the arguments of our own tools have them.
fn value_of(json: Json) -> Value<'static> {
    let is_word = |key: &str| {
        key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    json::from_serde(json, &|key| if is_word(&key) { Value::keyword(key) } else { Value::from(key) })
}

/// The session of a request, and what it asks.
///
/// # Errors
/// For an unknown method, and params of another shape.
pub(super) fn ask(
    method: &str,
    params: &Value<'_>,
    noted: &Redactor,
) -> Result<(Arc<str>, AgentAsk), RpcError> {
    let unfit = || error(-32602, "The params cannot be used.");
    fn of<T: DeserializeOwned>(params: &Value<'_>) -> Result<T, RpcError> {
        read(params).ok_or_else(|| error(-32602, "The params cannot be used."))
    }
    Ok(match method {
        "session/request_permission" => {
            let request: acp::RequestPermissionRequest = of(params)?;
            let answers = request.options.into_iter().take(AGENT_ANSWERS).map(|option| OfferedAnswer {
                id: option.option_id.0,
                name: short(&option.name).to_string(),
                kind: PermissionKind::try_from(option.kind).ok(),
            });
            let is_unread = within(params, "toolCall").is_some_and(is_unread);
            let call = Box::new(CallNews { is_unread, ..call_news(request.tool_call) });
            (request.session_id.0, AgentAsk::Permission { call, answers: answers.collect() })
        }
        "fs/write_text_file" => {
            let request: acp::WriteTextFileRequest = of(params)?;
            (request.session_id.0, AgentAsk::Write { path: request.path, text: request.content })
        }
        "fs/read_text_file" => {
            let request: acp::ReadTextFileRequest = of(params)?;
            let ask = AgentAsk::Read { path: request.path, line: request.line, limit: request.limit };
            (request.session_id.0, ask)
        }
        "terminal/create" => {
            let request: acp::CreateTerminalRequest = of(params)?;
            let ask = AgentAsk::StartTerminal {
                command: std::iter::once(request.command).chain(request.args).collect(),
                variables: request.env.into_iter().map(|variable| (variable.name, variable.value)).collect(),
                cwd: request.cwd,
                keep: request.output_byte_limit,
            };
            (request.session_id.0, ask)
        }
        "terminal/output" => {
            let request: acp::TerminalOutputRequest = of(params)?;
            (request.session_id.0, AgentAsk::ReadTerminal(request.terminal_id.0))
        }
        "terminal/wait_for_exit" => {
            let request: acp::WaitForTerminalExitRequest = of(params)?;
            (request.session_id.0, AgentAsk::AwaitTerminal(request.terminal_id.0))
        }
        "terminal/kill" => {
            let request: acp::KillTerminalRequest = of(params)?;
            (request.session_id.0, AgentAsk::KillTerminal(request.terminal_id.0))
        }
        "terminal/release" => {
            let request: acp::ReleaseTerminalRequest = of(params)?;
            (request.session_id.0, AgentAsk::ReleaseTerminal(request.terminal_id.0))
        }
        "elicitation/create" => {
            let all = plain(params);
            let text = |key: &str| all.get(key).and_then(Json::as_str).ok_or_else(unfit);
            let session = text("sessionId")?.into();
            let question = match (text("mode")?, all.get("requestedSchema")) {
                ("form", Some(schema)) => mcp::form(text("message")?, schema, noted),
                ("url", _) => mcp::page(text("message")?, text("url")?, false, noted),
                _ => return Err(unfit()),
            };
            let question = question.map_err(|why| error(-32602, &format!("It cannot be asked: {why}.")))?;
            (session, AgentAsk::Form(Box::new(question)))
        }
        _ => return Err(error(-32601, "There is no such method.")),
    })
}

/// An error for an agent.
pub(super) fn error(code: i64, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned() }
}

/// An answer to an agent.
pub(super) fn reply(reply: AgentReply) -> Json {
    let ended = |code: Option<u32>, signal: Option<String>| json!({"exitCode": code, "signal": signal});
    match reply {
        AgentReply::Chosen(Some(id)) => json!({"outcome": {"outcome": "selected", "optionId": id.as_ref()}}),
        AgentReply::Chosen(None) => json!({"outcome": {"outcome": "cancelled"}}),
        AgentReply::Done => json!({}),
        AgentReply::Text(text) => json!({"content": text}),
        AgentReply::Terminal(id) => json!({"terminalId": id.as_ref()}),
        AgentReply::Output { text, is_cut, ended: None } => json!({"output": text, "truncated": is_cut}),
        AgentReply::Output { text, is_cut, ended: Some((code, signal)) } => {
            json!({"output": text, "truncated": is_cut, "exitStatus": ended(code, signal)})
        }
        AgentReply::Ended(code, signal) => ended(code, signal),
        AgentReply::Form(question, answer) => mcp::form_answer(&question, answer),
    }
}

/// The id of the request that an agent takes back, as JSON.
pub(super) fn withdrawn(params: &Value<'_>) -> Option<Arc<str>> {
    let mut out = Vec::new();
    json::write(crate::jsonrpc::at(params, "requestId")?, &mut out);
    String::from_utf8(out).ok().map(Arc::from)
}
