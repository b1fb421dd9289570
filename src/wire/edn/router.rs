//! The handlers of the session ops: typed params in, one call, typed result out.
//!
//! Thin: no state, no input or output, no policy. A handler has the name of its row in the op table, from which the
//! dispatch is made. The catalogue has checked the params; a missing one has the contract's default.

use std::path::PathBuf;
use std::sync::Arc;

use crate::catalogue::{ErrorCode, Op, each_op, thinking_level};
use crate::event::{ChoiceKind, Pick, WaitingMessages};
use crate::facts::agent::{AgentOption, ListedAgent};
use crate::facts::mcp::{McpCompletion, McpServer};
use crate::facts::permissions::{AuditPage, AuditWanted, ListedRule, TrustPreview};
use crate::facts::{
    BashOutput, CommandFacts, JobFacts, ListedSessions, LoginFacts, ModelFacts, ProviderName, SessionFacts,
};
use crate::limits::{MAX_PAGE_MESSAGES, OUTPUT_PART_BYTES};
use crate::message::image::Image;
use crate::message::{EntryId, Message, Mode, SessionId, ThinkingLevel, TurnId};
use crate::projection;
use crate::projection::control::{self, ControlMessage, Spelling};
use crate::session::control::ControlAck;
use crate::session::{
    ActionResult, ActionStatus, Again, ApiError, Call, DialogResult, Edited, GraphQuery, Interrupted,
    ListScope, Listing, McpSwitch, NewSession, Opened, Page, Prompt, Prompted, QueryAnswer, Reach,
    Registered, Removed, Reply, Response, Resumed, SessionApi, SwitchTarget, ToolAnswer, TurnState, Undo,
    Undone, UndoneFile,
};
use crate::value::{Map, Value};
use crate::wire::edn::params;

/// The `:data` of a response.
pub enum Data {
    /// Laid out already.
    Laid(Map<'static>),
    /// The state of a session. Clients ask for it often, so it is laid out where it is written, without a copy of its
    /// texts.
    State(Arc<SessionFacts>),
}

impl Data {
    /// Passes the laid-out data on.
    pub fn lay_out(&self, write: impl FnOnce(&Map<'_>)) {
        match self {
            Self::Laid(data) => write(data),
            Self::State(facts) => {
                write(&Map::new().with("state", Value::from(projection::session_state(facts))))
            }
        }
    }
}

/// A request of an op, ready to be served. The catalogue has checked the params.
pub struct OpCall<'a> {
    /// The session API.
    pub api: &'a dyn SessionApi,
    /// The caller and its session.
    pub call: Call,
    p: Params<'a>,
    reply: Reply<Data>,
}

impl<'a> OpCall<'a> {
    /// The request, unless it names a session that does not exist: some ops would be answered without a look at the
    /// session.
    pub fn new(
        op: Op,
        api: &'a dyn SessionApi,
        call: Call,
        params: &'a Value<'a>,
        reply: Reply<Data>,
    ) -> Option<Self> {
        let p = Params(params);
        if op.spec().session && p.text("session-id").is_some() && !api.has_session(&call.session) {
            reply.fail(ApiError::not_open(&call.session));
            return None;
        }
        Some(Self { api, call, p, reply })
    }
}

/// Serves an op by its name for a client of another wire. The reply is the data of the response.
pub fn by_name(name: &str, api: &dyn SessionApi, call: Call, params: &Value<'_>, reply: Reply<Map<'static>>) {
    let Some(op) = Op::parse(name) else {
        return reply.fail(ApiError::new(ErrorCode::InvalidParams, "There is no such op."));
    };
    if let Err(invalid) = op.spec().check(params) {
        return reply.fail(ApiError::new(ErrorCode::InvalidParams, format!("{invalid}.")));
    }
    let reply = Reply::new(move |data: Result<Data, ApiError>| {
        reply.send(data.map(|data| match data {
            Data::Laid(data) => data,
            Data::State(facts) => {
                Map::new().with("state", Value::from(projection::session_state(&facts).into_owned()))
            }
        }));
    });
    let Some(ask) = OpCall::new(op, api, call, params, reply) else { return };
    /// Makes the dispatch from the op table's rows, without the ops of an EDN connection itself.
    macro_rules! dispatch {
        (@ Connection $name:ident) => {
            ask.reply.fail(ApiError::new(
                ErrorCode::InvalidParams,
                concat!(stringify!($name), " is an op of the EDN wire's connections alone."),
            ))
        };
        (@ $access:ident $name:ident) => {
            $name(ask)
        };
        ($($variant:ident $name:ident $access:ident $session:literal $params:tt $data:tt $errors:tt
            $doc:literal;)*) => {
            match op {
                $(Op::$variant => dispatch!(@ $access $name),)*
            }
        };
    }
    each_op!(dispatch);
}

pub(super) fn query_eql(OpCall { api, call, p, reply }: OpCall<'_>) {
    let query = GraphQuery {
        text: p.owned("query"),
        entity: p.optional("entity"),
        strict: p.flag("strict").unwrap_or(false),
    };
    api.query(call, query, shape(reply, query_answer));
}

pub(super) fn get_state(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.state(call, Reply::new(move |facts: Result<_, ApiError>| reply.send(facts.map(Data::State))));
}

pub(super) fn get_messages(OpCall { api, call, p, reply }: OpCall<'_>) {
    let limit = p.count("limit").map(|limit| limit.min(MAX_PAGE_MESSAGES));
    api.messages(call, p.optional("before").map(EntryId::from), limit, shape(reply, page));
}

pub(super) fn get_session_stats(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.stats(call, shape(reply, |stats| one("stats", projection::stats(&stats).into_owned())))
}

pub(super) fn get_fork_messages(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.fork_messages(
        call,
        shape(reply, |messages: Vec<Arc<Message>>| {
            one("messages", Value::vector(messages.iter().map(|message| message.to_value())))
        }),
    )
}

pub(super) fn get_last_assistant_text(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.last_assistant_text(call, shape(reply, |text| one("text", Value::from(text))))
}

pub(super) fn get_commands(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let command = |command: &CommandFacts| Value::from(projection::command(command).into_owned());
    let commands = move |all: Vec<CommandFacts>| one("commands", Value::vector(all.iter().map(command)));
    api.commands(call, shape(reply, commands));
}

pub(super) fn get_available_models(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let model = |model: &ModelFacts| Value::from(projection::model(model).into_owned());
    let models = move |models: Vec<ModelFacts>| one("models", Value::vector(models.iter().map(model)));
    api.models(call, shape(reply, models));
}

pub(super) fn list_sessions(OpCall { api, call, p, reply }: OpCall<'_>) {
    let scope = if p.text("scope") == Some("all") { ListScope::All } else { ListScope::Project };
    let active = call.session.to_value();
    let reply = shape(reply, move |list: ListedSessions| {
        let mut data = one("active-session-id", active);
        let sessions = list.sessions.iter().map(|session| projection::listed(session).into_owned());
        data.put("sessions", Value::vector(sessions));
        data.put_some("missing", list.missing.as_deref().map(str::to_owned));
        data
    });
    let archived = p.flag("archived?").unwrap_or(false);
    let wanted = Listing { text: p.optional("text"), limit: p.count("limit"), scope, archived };
    api.list_sessions(call, wanted, reply);
}

pub(super) fn read_output(OpCall { api, call, p, reply }: OpCall<'_>) {
    let offset = p.count("offset").unwrap_or(0);
    let limit = p.count("limit").unwrap_or(OUTPUT_PART_BYTES).min(OUTPUT_PART_BYTES);
    let reply = shape(reply, |part: crate::facts::OutputPart| {
        let mut data = one("text", Value::from(part.text));
        data.put("offset", crate::message::count(part.offset));
        data.put("size", crate::message::count(part.size));
        data
    });
    api.read_output(call, p.owned("handle"), u64::try_from(offset).unwrap_or(u64::MAX), limit, reply);
}

pub(super) fn command(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.command(call, p.owned("text"), shape(reply, accepted))
}

pub(super) fn frontend_action_result(OpCall { api, call, p, reply }: OpCall<'_>) {
    let status = match p.text("status") {
        Some("submitted") => ActionStatus::Submitted,
        Some("cancelled") => ActionStatus::Cancelled,
        _ => ActionStatus::Failed,
    };
    let kind = ChoiceKind::parse(p.name("action-name").trim_start_matches(':'));
    let result = ActionResult {
        request_id: p.owned("request-id"),
        kind,
        status,
        pick: kind.and_then(|kind| pick(kind, p.value("value"))),
        error_message: p.optional("error-message"),
    };
    api.action_result(call, result, shape(reply, accepted));
}

pub(super) fn prompt(OpCall { api, call, p, reply }: OpCall<'_>) {
    match p.prompt() {
        Ok(prompt) => api.prompt(call, prompt, shape(reply, prompted)),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn steer(OpCall { api, call, p, reply }: OpCall<'_>) {
    match p.prompt() {
        Ok(prompt) => api.steer(call, prompt, shape(reply, prompted)),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn follow_up(OpCall { api, call, p, reply }: OpCall<'_>) {
    match p.prompt() {
        Ok(prompt) => api.follow_up(call, prompt, shape(reply, prompted)),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn prompt_while_streaming(OpCall { api, call, p, reply }: OpCall<'_>) {
    let behavior = if p.text("behavior") == Some("queue") { "queue" } else { "steer" };
    let reply = shape(reply, move |_| {
        let mut data = accepted(());
        data.put("behavior", behavior);
        data
    });
    let prompt = Prompt { message: p.owned("message"), ..Prompt::default() };
    match behavior {
        "queue" => api.follow_up(call, prompt, reply),
        _ => api.steer(call, prompt, reply),
    }
}

pub(super) fn list_pending(OpCall { api, call, p, reply }: OpCall<'_>) {
    let waiting = |waiting: WaitingMessages| projection::waiting(&waiting).into_owned();
    api.pending(call, p.optional("entry-id").map(EntryId::from), shape(reply, waiting));
}

pub(super) fn edit_pending(OpCall { api, call, p, reply }: OpCall<'_>) {
    let keeps_images = p.value("images").is_nil();
    match p.prompt() {
        Ok(prompt) => {
            let edited = Edited { prompt, keeps_images };
            api.edit_pending(call, EntryId::from(p.owned("entry-id")), edited, shape(reply, accepted));
        }
        Err(error) => reply.fail(error),
    }
}

pub(super) fn remove_pending(OpCall { api, call, p, reply }: OpCall<'_>) {
    let reply = shape(reply, |removed: Removed| {
        let mut data = accepted(());
        data.put("text", removed.text);
        data.put("images", Value::from(removed.images));
        data
    });
    api.remove_pending(call, EntryId::from(p.owned("entry-id")), reply);
}

pub(super) fn move_pending(OpCall { api, call, p, reply }: OpCall<'_>) {
    let before = p.optional("before").map(EntryId::from);
    api.move_pending(call, EntryId::from(p.owned("entry-id")), before, shape(reply, accepted));
}

pub(super) fn resume_queue(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let reply = shape(reply, |resumed: Resumed| {
        let mut data = one("resumed", resumed.is_resumed);
        data.put_some("turn-id", resumed.turn.as_ref().map(TurnId::to_value));
        data
    });
    api.resume_queue(call, reply);
}

pub(super) fn retry(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.ask_again(call, Again::Retry, p.optional("idempotency-key"), shape(reply, prompted));
}

pub(super) fn continue_turn(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.ask_again(call, Again::Continue, p.optional("idempotency-key"), shape(reply, prompted));
}

pub(super) fn undo(ask: OpCall<'_>) {
    undo_or_redo(ask, true);
}

pub(super) fn redo(ask: OpCall<'_>) {
    undo_or_redo(ask, false);
}

fn undo_or_redo(OpCall { api, call, p, reply }: OpCall<'_>, undoes: bool) {
    let wish = Undo {
        undoes,
        steps: p.count("steps").unwrap_or(1),
        skips_changed: p.flag("skip-changed").unwrap_or(false),
    };
    let reply = shape(reply, |done: Undone| {
        let file = |file: &UndoneFile| {
            Value::from(Map::new().with("path", file.path.clone()).with("action", file.action.to_string()))
        };
        let mut data = one("steps", Value::from(done.steps));
        data.put("files", Value::vector(done.files.iter().map(file)));
        data.put("message", done.message);
        data
    });
    api.undo(call, wish, reply);
}

pub(super) fn abort(OpCall { api, call, p, reply }: OpCall<'_>) {
    let reply = shape(reply, |is_repeated| with_repeated(accepted(()), is_repeated));
    api.abort(call, p.optional("idempotency-key"), reply);
}

/// Adds that the request's key was known, and nothing was done.
fn with_repeated(mut data: Map<'static>, is_repeated: bool) -> Map<'static> {
    data.put_some("duplicate", is_repeated.then_some(true));
    data
}

pub(super) fn interrupt(OpCall { api, call, p, reply }: OpCall<'_>) {
    let reply = shape(reply, |interrupted: Interrupted| {
        let mut data = accepted(());
        data.put("pending", !interrupted.waits_for.is_empty());
        if !interrupted.waits_for.is_empty() {
            let calls = interrupted.waits_for.iter().map(|call| Value::from(call.to_string()));
            data.put("waits-for", Value::vector(calls));
        }
        data.put("dropped-steering-text", interrupted.text);
        with_repeated(data, interrupted.is_repeated)
    });
    api.interrupt(call, p.optional("idempotency-key"), reply);
}

pub(super) fn abort_retry(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.abort_retry(call, shape(reply, accepted))
}

pub(super) fn control(OpCall { api, call, p, reply }: OpCall<'_>) {
    let ack = |ack: Map<'static>| one("ack", ack);
    match p.value("message").as_map().map(|message| control::read(message, Spelling::Edn)) {
        Some(Ok(ControlMessage::Request(request))) => {
            api.control(
                call,
                request,
                shape(reply, move |answer: ControlAck| ack(control::ack(&answer, Spelling::Edn))),
            );
        }
        Some(Ok(ControlMessage::Capabilities)) => {
            reply.ok(Data::Laid(ack(control::capabilities(&api.control_capabilities(), Spelling::Edn))));
        }
        Some(Err(why)) => reply.fail(ApiError::new(ErrorCode::InvalidParams, format!(":message: {why}."))),
        None => reply.fail(ApiError::invalid_param("message", "a map")),
    }
}

pub(super) fn new_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let parent = p.text("parent-session").map(SessionId::from);
    let (key, agent) = (p.optional("idempotency-key"), p.optional("agent"));
    let wanted = NewSession { parent, key, agent, ..NewSession::default() };
    api.new_session(call, wanted, shape(reply, opened));
}

pub(super) fn switch_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let id = p.text("session-id").map(SessionId::from);
    let target = match (id, p.optional("session-path")) {
        (id, Some(path)) => SwitchTarget::Location(path, id),
        (Some(id), None) => SwitchTarget::Id(id),
        (None, None) => return reply.fail(ApiError::invalid_param("session-id", "given, or :session-path")),
    };
    api.switch_session(call, target, shape(reply, opened));
}

pub(super) fn fork(OpCall { api, call, p, reply }: OpCall<'_>) {
    let entry = EntryId::from(p.owned("entry-id"));
    api.fork(call, entry, p.optional("idempotency-key"), shape(reply, opened))
}

pub(super) fn set_session_name(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.set_name(call, p.owned("name"), shape(reply, |name| one("session-name", Value::from(name))));
}

pub(super) fn rename_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let session = SessionId::from(p.owned("session-id"));
    let data = one("session-id", session.to_value());
    let named = |name: String| data.with("session-name", name);
    api.rename_session(call, session, p.owned("name"), shape(reply, named));
}

pub(super) fn archive_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let session = SessionId::from(p.owned("session-id"));
    let data = one("session-id", session.to_value());
    let kept = |archived: bool| data.with("archived", archived);
    api.archive_session(call, session, p.flag("archived?").unwrap_or(true), shape(reply, kept));
}

pub(super) fn delete_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let session = SessionId::from(p.owned("session-id"));
    let data = one("session-id", session.to_value());
    api.delete_session(call, session, shape(reply, |()| data.with("deleted", true)));
}

pub(super) fn take_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let session = SessionId::from(p.owned("session-id"));
    let data = one("session-id", session.to_value());
    let cwd = p.optional("cwd").map(PathBuf::from);
    api.take_session(call, session, cwd, shape(reply, |cwd: String| data.with("cwd", cwd)));
}

pub(super) fn hand_over_session(OpCall { api, call, p, reply }: OpCall<'_>) {
    let session = SessionId::from(p.owned("session-id"));
    let data = one("session-id", session.to_value());
    api.hand_over_session(
        call,
        session,
        p.owned("host"),
        shape(reply, |host: String| data.with("host", host)),
    );
}

pub(super) fn set_model(OpCall { api, call, p, reply }: OpCall<'_>) {
    let provider = (!p.value("provider").is_nil()).then(|| p.name("provider"));
    api.set_model(call, provider, p.owned("model-id"), reach(&p), shape(reply, model));
}

fn reach(p: &Params<'_>) -> Reach {
    match p.text("scope") {
        Some("project") => Reach::Project,
        Some("user") => Reach::User,
        _ => Reach::Session,
    }
}

pub(super) fn cycle_model(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.cycle_model(call, p.text("direction") != Some("prev"), shape(reply, model))
}

pub(super) fn set_thinking_level(OpCall { api, call, p, reply }: OpCall<'_>) {
    let level = thinking_level(p.value("level")).unwrap_or_default();
    api.set_thinking_level(
        call,
        Some(level),
        reach(&p),
        shape(reply, |level: ThinkingLevel| one("thinking-level", level.as_str())),
    );
}

pub(super) fn cycle_thinking_level(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.set_thinking_level(
        call,
        None,
        Reach::Session,
        shape(reply, |level: ThinkingLevel| one("thinking-level", level.as_str())),
    );
}

pub(super) fn set_mode(OpCall { api, call, p, reply }: OpCall<'_>) {
    let mode = p.text("mode").and_then(Mode::parse).unwrap_or_default();
    api.set_mode(call, mode, shape(reply, |mode: Mode| one("mode", mode.as_str())));
}

pub(super) fn set_auto_compaction(OpCall { api, call, p, reply }: OpCall<'_>) {
    let enabled = p.flag("enabled").unwrap_or(false);
    api.set_auto_compaction(call, enabled, shape(reply, |enabled| one("enabled", enabled)));
}

pub(super) fn list_agents(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let agents = |all: Vec<ListedAgent>| {
        one("agents", Value::vector(all.iter().map(|agent| projection::agent::agent(agent).into_owned())))
    };
    api.agents(call, shape(reply, agents));
}

pub(super) fn agent_options(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.agent_options(call, shape(reply, agent_options_of));
}

fn agent_options_of(options: Vec<AgentOption>) -> Map<'static> {
    one("options", Value::vector(options.iter().map(AgentOption::to_value)))
}

pub(super) fn set_option(OpCall { api, call, p, reply }: OpCall<'_>) {
    let value = p.value("value").clone().into_owned();
    api.set_option(call, p.owned("option"), value, shape(reply, agent_options_of));
}

pub(super) fn set_auto_retry(OpCall { api, call, p, reply }: OpCall<'_>) {
    let enabled = p.flag("enabled").unwrap_or(false);
    api.set_auto_retry(call, enabled, shape(reply, |enabled| one("enabled", enabled)));
}

pub(super) fn compact(OpCall { api, call, p, reply }: OpCall<'_>) {
    let reply = shape(reply, |summary: Option<String>| {
        let mut data = one("compacted", summary.is_some());
        if let Some(summary) = summary {
            data.put("summary", summary);
        }
        data
    });
    api.compact(call, p.optional("custom-instructions"), reply);
}

pub(super) fn trust_project(OpCall { api, call, p, reply }: OpCall<'_>) {
    let trusted = p.flag("trusted").unwrap_or(false);
    let text = |value: &Value<'_>| value.as_str().map(str::to_owned);
    let files = p.value("files").as_map().map(|files| {
        // A digest that is no text fits no content.
        files
            .iter()
            .map(|(path, digest)| (text(path).unwrap_or_default(), text(digest).unwrap_or_default()))
            .collect()
    });
    api.trust_project(call, trusted, files, shape(reply, |trusted| one("trusted", trusted)));
}

pub(super) fn trust_preview(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let preview = |preview: TrustPreview| projection::trust_preview(&preview).into_owned();
    api.trust_preview(call, shape(reply, preview));
}

pub(super) fn list_rules(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let rules = |rules: Vec<ListedRule>| {
        one("rules", Value::vector(rules.iter().map(|rule| Value::from(projection::rule(rule).into_owned()))))
    };
    api.rules(call, shape(reply, rules));
}

pub(super) fn remove_rule(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.remove_rule(call, p.owned("rule-id"), shape(reply, |()| one("removed", true)));
}

pub(super) fn list_audit(OpCall { api, call, p, reply }: OpCall<'_>) {
    let wanted = AuditWanted {
        all: p.text("scope") == Some("all"),
        before: p.count("before").and_then(|before| u64::try_from(before).ok()),
        limit: p.count("limit"),
    };
    let page = |page: AuditPage| {
        let mut data = one("records", Value::vector(page.records.into_iter().map(Value::from)));
        data.put_some("next", page.next.map(crate::message::count));
        data
    };
    api.audit(call, wanted, shape(reply, page));
}

pub(super) fn list_mcp(OpCall { api, call, reply, .. }: OpCall<'_>) {
    let servers = |all: Vec<McpServer>| {
        one("servers", Value::vector(all.iter().map(|server| projection::mcp::server(server).into_owned())))
    };
    api.mcp_servers(call, shape(reply, servers));
}

pub(super) fn set_mcp(OpCall { api, call, p, reply }: OpCall<'_>) {
    let switch = McpSwitch {
        server: p.owned("server"),
        tool: p.optional("tool"),
        enabled: p.flag("enabled").unwrap_or(false),
    };
    api.set_mcp(call, switch, shape(reply, mcp_server));
}

pub(super) fn restart_mcp(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.restart_mcp(call, p.owned("server"), shape(reply, mcp_server));
}

fn mcp_server(server: McpServer) -> Map<'static> {
    one("server", Value::from(projection::mcp::server(&server).into_owned()))
}

pub(super) fn complete_mcp(OpCall { api, call, p, reply }: OpCall<'_>) {
    let typed = match params::mcp_typed(p.0) {
        Ok(typed) => typed,
        Err(error) => return reply.fail(error),
    };
    let reply = shape(reply, |found: McpCompletion| {
        let mut data = one("values", Value::vector(found.values.into_iter().map(Value::from)));
        data.put("more", found.more);
        data
    });
    api.complete_mcp(call, typed, reply);
}

pub(super) fn resolve_dialog(OpCall { api, call, p, reply }: OpCall<'_>) {
    let result = match p.value("result") {
        Value::Bool(flag) => Some(DialogResult::Flag(*flag)),
        text => text.as_str().map(|text| DialogResult::Text(text.to_owned())),
    };
    api.resolve_dialog(call, p.owned("dialog-id"), result, shape(reply, accepted));
}

pub(super) fn cancel_dialog(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.resolve_dialog(call, p.owned("dialog-id"), None, shape(reply, accepted))
}

pub(super) fn interaction_respond(OpCall { api, call, p, reply }: OpCall<'_>) {
    let answer = match p.value("value").as_map().map(|value| params::answer(value)).transpose() {
        Ok(answer) => answer.unwrap_or_default(),
        Err(error) => return reply.fail(error),
    };
    let response = Response {
        interaction_id: p.owned("interaction-id"),
        accepted: p.text("status") == Some("accepted"),
        answer,
        // The contract has it beside the value; the interaction protocol has it in the response's payload.
        note: p.optional("note").or_else(|| Params(p.value("value")).optional("note")),
    };
    api.respond(call, response, shape(reply, accepted));
}

pub(super) fn register_tools(OpCall { api, call, p, reply }: OpCall<'_>) {
    let names = |names: Vec<String>| Value::vector(names.into_iter().map(Value::from));
    let reply = shape(reply, move |registered: Registered| {
        let mut data = one("registered", names(registered.names));
        data.put("shadowed", names(registered.shadowed));
        data
    });
    match params::offered_tools(p.value("tools")) {
        Ok(tools) => api.register_tools(call, tools, reply),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn tool_result(OpCall { api, call, p, reply }: OpCall<'_>) {
    let answer = p.images().map(|images| ToolAnswer {
        text: p.owned("text"),
        is_error: p.flag("is-error").unwrap_or(false),
        images,
        details: p.value("details").as_map().map(|details| details.clone().into_owned()).unwrap_or_default(),
    });
    match answer {
        Ok(answer) => api.tool_result(call, p.owned("request-id"), answer, shape(reply, accepted)),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn tool_progress(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.tool_progress(call, p.owned("request-id"), p.owned("text"), shape(reply, accepted));
}

pub(super) fn register_files(OpCall { api, call, p, reply }: OpCall<'_>) {
    match params::open_files(p.0) {
        Ok(files) => {
            api.register_files(call, files, shape(reply, |files: usize| one("files", Value::from(files))))
        }
        Err(error) => reply.fail(error),
    }
}

pub(super) fn file_result(OpCall { api, call, p, reply }: OpCall<'_>) {
    match params::file_answer(p.0) {
        Ok(answer) => api.file_result(call, p.owned("request-id"), answer, shape(reply, accepted)),
        Err(error) => reply.fail(error),
    }
}

pub(super) fn login_begin(OpCall { api, call, p, reply }: OpCall<'_>) {
    let provider = Some(p.name("provider")).filter(|name| !name.is_empty());
    let begun = |login: LoginFacts| projection::login(&login).into_owned();
    api.login_begin(call, provider, shape(reply, begun));
}

pub(super) fn login_complete(OpCall { api, call, p, reply }: OpCall<'_>) {
    let done = |provider: ProviderName| {
        Map::new().with("provider", projection::provider(&provider).into_owned()).with("logged-in", true)
    };
    api.login_complete(call, p.optional("input"), shape(reply, done));
}

pub(super) fn logout(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.logout(call, p.name("provider"), shape(reply, |done| one("logged-out", done)));
}

pub(super) fn bash(OpCall { api, call, p, reply }: OpCall<'_>) {
    let timeout = p.count("timeout-seconds").and_then(|seconds| u64::try_from(seconds).ok());
    let output = |output: BashOutput| projection::bash(&output).into_owned();
    api.bash(call, p.owned("command"), timeout, shape(reply, output));
}

pub(super) fn abort_bash(OpCall { api, call, reply, .. }: OpCall<'_>) {
    api.abort_bash(call, shape(reply, accepted))
}

pub(super) fn list_background_jobs(OpCall { api, call, p, reply }: OpCall<'_>) {
    let statuses =
        p.0.get("statuses")
            .and_then(Value::as_slice)
            .map(|statuses| statuses.iter().filter_map(Value::as_str).map(str::to_owned).collect());
    api.jobs(
        call,
        statuses,
        shape(reply, |jobs: Vec<Arc<JobFacts>>| {
            one("jobs", Value::vector(jobs.iter().map(|each| job(each))))
        }),
    );
}

pub(super) fn inspect_background_job(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.job(call, p.owned("job-id"), shape(reply, |found: Arc<JobFacts>| one("job", job(&found))))
}

pub(super) fn cancel_background_job(OpCall { api, call, p, reply }: OpCall<'_>) {
    let reply = shape(reply, |cancelled: Arc<JobFacts>| {
        let mut data = accepted(());
        data.put("job", job(&cancelled));
        data
    });
    api.cancel_job(call, p.owned("job-id"), reply);
}

pub(super) fn export_html(OpCall { api, call, p, reply }: OpCall<'_>) {
    api.export_html(call, p.optional("path"), shape(reply, |path| one("path", Value::from(path))));
}

pub(super) fn context_update(OpCall { api, call, p, reply }: OpCall<'_>) {
    match params::editor(p.0) {
        Ok(editor) => api.update_context(call, editor, shape(reply, accepted)),
        Err(error) => reply.fail(error),
    }
}

/// A reply that takes a typed result and answers with the `:data` from `shape`.
fn shape<T: 'static>(reply: Reply<Data>, data: impl FnOnce(T) -> Map<'static> + Send + 'static) -> Reply<T> {
    Reply::new(move |result: Result<T, ApiError>| reply.send(result.map(data).map(Data::Laid)))
}

fn one(key: &'static str, value: impl Into<Value<'static>>) -> Map<'static> {
    let mut data = Map::new();
    data.put(key, value);
    data
}

fn job(job: &JobFacts) -> Map<'static> {
    projection::job(job).into_owned()
}

fn accepted(_: ()) -> Map<'static> {
    one("accepted", true)
}

fn prompted(prompted: Prompted) -> Map<'static> {
    let mut data = accepted(());
    if let Some(turn) = prompted.turn.as_ref().map(TurnId::to_value) {
        data.put("turn-id", turn);
    }
    data.put_some("turn-state", prompted.repeated.map(TurnState::as_str));
    with_repeated(data, prompted.repeated.is_some())
}

fn opened(opened: Opened) -> Map<'static> {
    let mut data = one("session-id", opened.session.to_value());
    if let Some(location) = opened.location {
        data.put("session-file", location);
    }
    with_repeated(data, opened.is_repeated)
}

fn page(page: Page) -> Map<'static> {
    let mut data = one("messages", Value::vector(page.messages.iter().map(|message| message.to_value())));
    data.put("more", page.more);
    if !page.interrupted.is_empty() {
        data.put("interrupted", Value::vector(page.interrupted.iter().map(TurnId::to_value)));
    }
    data
}

fn model((provider, id): (String, String)) -> Map<'static> {
    let mut model = one("provider", Value::from(provider));
    model.put("id", id);
    one("model", Value::from(model))
}

fn query_answer(answer: QueryAnswer) -> Map<'static> {
    let mut data = one("result", answer.result);
    if !answer.missing.is_empty() {
        data.put("missing", Value::vector(answer.missing));
    }
    if let Some(errors) = answer.errors {
        data.put("errors", Value::from(errors));
    }
    data
}

/// The choice in a frontend's result; `None` if it does not have the shape of that choice's items.
fn pick(kind: ChoiceKind, value: &Value<'_>) -> Option<Pick> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match kind {
        ChoiceKind::ResumeSession => value.as_str().map(|location| Pick::Location(location.to_owned())),
        ChoiceKind::Session => match (text("action/session-id"), text("action/entry-id")) {
            (Some(id), None) => Some(Pick::Session(SessionId::from(id))),
            (None, Some(entry)) => Some(Pick::Entry(EntryId::from(entry))),
            _ => None,
        },
        ChoiceKind::Model => Some(Pick::Model { provider: text("provider")?, id: text("id")? }),
        ChoiceKind::ThinkingLevel => thinking_level(value).map(Pick::Thinking),
    }
}

/// Params that the catalogue has checked.
struct Params<'v>(&'v Value<'v>);

impl<'v> Params<'v> {
    fn value(&self, key: &str) -> &'v Value<'v> {
        const NIL: &Value<'static> = &Value::Nil;
        self.0.get(key).unwrap_or(NIL)
    }

    fn text(&self, key: &str) -> Option<&'v str> {
        self.value(key).as_str()
    }

    fn optional(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    fn owned(&self, key: &str) -> String {
        self.text(key).unwrap_or_default().to_owned()
    }

    /// A string or a keyword.
    fn name(&self, key: &str) -> String {
        let value = self.value(key);
        value.as_str().or_else(|| value.as_keyword()).unwrap_or_default().to_owned()
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.value(key).as_bool()
    }

    fn count(&self, key: &str) -> Option<usize> {
        self.value(key).as_i64().and_then(|count| usize::try_from(count).ok())
    }

    fn prompt(&self) -> Result<Prompt, ApiError> {
        Ok(Prompt {
            message: self.owned("message"),
            images: self.images()?,
            idempotency_key: self.optional("idempotency-key"),
        })
    }

    /// The images.
    fn images(&self) -> Result<Vec<Image>, ApiError> {
        let images = self.value("images").as_slice().unwrap_or_default();
        let image = |(place, image): (usize, &Value<'_>)| {
            let text = |key| image.get(key).and_then(Value::as_str);
            let why = match (text("mime-type"), text("data")) {
                (Some(mime_type), Some(data)) => match Image::from_base64(mime_type, data) {
                    Ok(image) => return Ok(image),
                    Err(error) => format!("{error}."),
                },
                _ => "it must be a map with :mime-type and :data, both strings.".to_owned(),
            };
            Err(ApiError::new(ErrorCode::InvalidParams, format!("The image {place} of :images: {why}"))
                .with("key", ":images")
                .with("expected", "a vector of {:mime-type string :data base64-string}"))
        };
        images.iter().enumerate().map(image).collect()
    }
}
