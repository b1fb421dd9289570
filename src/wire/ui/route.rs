//! The methods of the interface as calls of the session API: typed params in, one call, typed result out.
//!
//! Thin: no policy. The table has checked the params.

use std::sync::Arc;

use crate::event::TurnOutcome;
use crate::facts::editor::Editor;
use crate::facts::{ListedSession, ListedSessions, ModelFacts, SessionFacts};
use crate::limits::UI_SESSIONS;
use crate::message::{SessionId, ThinkingLevel, TurnId};
use crate::session::{
    Agreed, ApiError, Call, Client as _, ListScope, Listing, NewSession, Opened, Prompt, Prompted, Reach,
    Registered, Reply, SessionApi, SwitchTarget, ToolOutcome,
};
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, flag, text};
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::connection_state::{OpenQuestion, OpenRequest, RunStatus, UiCan, UiState};
use crate::wire::ui::frames;
use crate::wire::ui::link::{Connection, Ui};
use crate::wire::ui::methods::{self, VERSION};
use crate::wire::ui::questions::logged_out;
use crate::wire::ui::request::{Ask, limit, not_loaded, teller};
use crate::wire::ui::run_lines::note_facts;
use crate::wire::ui::{history, input, lookups, shell};

/// Serves a request.
pub fn serve(ask: Ask<'_>) {
    match methods::NAMES.get(ask.place).copied().unwrap_or_default() {
        "initialize" => initialize(&ask),
        "run.start" => run_start(&ask),
        "run.cancel" => run_cancel(&ask),
        "session.list" => session_list(&ask),
        "session.history" => history::serve(&ask),
        "model.list" => model_list(&ask),
        "model.set" => model_set(&ask),
        "mcp.list" => lookups::mcp_list(&ask),
        "skills.list" => lookups::skills_list(&ask),
        "context.inspect" => lookups::context_inspect(&ask),
        "auth.logout" => auth_logout(&ask),
        "tool.call" => tool_call(&ask),
        "theme.set" => theme_set(&ask),
        "shell.exec" => shell::exec(&ask),
        "shell.start" => shell::start(&ask),
        "shell.list" => shell::list(&ask),
        "shell.status" => shell::status(&ask),
        "shell.output" => shell::output(&ask),
        "shell.wait" => shell::wait(&ask),
        "shell.detach" => shell::detach(&ask),
        "shell.cancel" => shell::cancel(&ask),
        "task.spawn" => shell::spawn(&ask),
        "task.list" => shell::tasks(&ask),
        "task.status" => shell::task_status(&ask, false),
        "task.result" => shell::task_status(&ask, true),
        "task.wait" => shell::task_wait(&ask),
        "task.cancel" => shell::task_cancel(&ask),
        _ => ask.fail(&Fault::new(Code::MethodNotFound, "The method is not served.")),
    }
}

fn initialize(ask: &Ask<'_>) {
    let client = at(ask.params, "client");
    let of_client = |key| client.and_then(|client| text(client, key)).unwrap_or_default();
    let capabilities = at(ask.params, "ui_capabilities").cloned().unwrap_or(Value::Nil);
    let can = |name| flag(&capabilities, name) == Some(true);
    let agreed = Agreed {
        name: start_of(of_client("name")).into(),
        version: start_of(of_client("version")).into(),
        protocol_version: VERSION.into(),
        features: methods::CAPABILITIES.iter().copied().filter(|name| can(name)).collect(),
    };
    ask.ui.agree(
        ask.connection,
        agreed,
        UiCan {
            confirm: can("supports_confirm"),
            prompt: can("supports_prompt"),
            pick: can("supports_pick"),
            preflight: can("supports_permission_preflight_events"),
            deltas: can("supports_text_deltas"),
        },
    );
    let server = Map::new().with("name", "edn-bridge").with("version", env!("CARGO_PKG_VERSION"));
    let mut served = Map::new();
    for name in methods::CAPABILITIES {
        served.insert(Value::str(*name), methods::is_capable(name));
    }
    let mut result = Map::new().with("protocol_version", VERSION).with("server", server);
    result.put("server_capabilities", served);
    result.put_some("tui", ask.api().theme().map(|theme| Map::new().with("theme", theme)));
    ask.ok(&result);
    ask.api().interactor_changed(ask.connection.id());
}

/// The stored start of a name that the client gave itself.
fn start_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(crate::limits::CLIENT_NAME_BYTES)).unwrap_or_default()
}

fn run_start(ask: &Ask<'_>) {
    if ask.is_busy() {
        return;
    }
    let compacts = flag(ask.params, "force_compaction") == Some(true);
    let prompt = match input::prompt(ask.params) {
        Ok(prompt) => prompt,
        Err(fault) if compacts => {
            tracing::debug!(%fault.message, "a compaction needs no input");
            Prompt::default()
        }
        Err(fault) => return ask.fail(&fault),
    };
    let editor = match at(ask.params, "ui_context").map(input::editor) {
        Some(None) => return ask.fail(&Fault::param("ui_context", "what the interface shows")),
        editor => editor.flatten(),
    };
    take_tools_back(ask.ui, ask.connection);
    let tools = if compacts { Vec::new() } else { input::tools(ask.params) };
    let desk = ask.ui.desk.clone();
    let named = text(ask.params, "session_id").filter(|id| !id.is_empty()).map(SessionId::from);
    let api = ask.ui.api.clone();
    let place = ask.place;
    let begun = ask.connection.begin(ask.id.clone(), move |connection: &Connection, id, result| {
        let begun = result.map_err(Fault::from).and_then(|begun: Result<Begun, Fault>| begun);
        run_begun(connection, id, place, begun);
    });
    let start = {
        let api = api.clone();
        move |call: Call, reply: Reply<Result<Begun, Fault>>| {
            if let Some(editor) = editor {
                show_editor(&*api, &desk, call.clone(), editor);
            }
            if compacts {
                let done = Reply::new(move |done: Result<Option<String>, ApiError>| {
                    reply.send(Ok(done
                        .map_err(Fault::from)
                        .map(|summary| Begun::Compacted(summary.is_some()))));
                });
                return api.compact(call, None, done);
            }
            let session = call.session.clone();
            let (next, prompting) = (api.clone(), call.clone());
            let prompted = Reply::new(move |prompted: Result<Prompted, ApiError>| {
                reply.send(Ok(prompted
                    .map_err(Fault::from)
                    .map(|prompted| Begun::Run(prompted.turn, session))));
            });
            if tools.is_empty() {
                return next.prompt(prompting, prompt, prompted);
            }
            // Before the model is first asked.
            desk.lock().tools_in = Some(call.session.clone());
            let offered = Reply::new(move |offered: Result<Registered, ApiError>| match offered {
                Ok(_) => next.prompt(prompting, prompt, prompted),
                Err(error) => prompted.fail(error),
            });
            api.register_tools(call, tools, offered);
        }
    };
    if compacts {
        ask.ui.desk.lock().compaction = Some(ask.id.clone());
    }
    let call = ask.call();
    match named.filter(|session| *session != call.session) {
        None => start(call, begun),
        Some(session) => {
            let next = Call { session: session.clone(), ..call.clone() };
            let opened = Reply::new(move |opened: Result<Opened, ApiError>| match opened {
                Ok(_) => start(next, begun),
                Err(error) => begun.ok(Err(not_loaded(error))),
            });
            api.switch_session(call, SwitchTarget::Id(session), opened);
        }
    }
}

/// The tools that the interface brought are for one run.
pub fn take_tools_back(ui: &Ui, connection: &Connection) {
    if let Some(session) = ui.desk.lock().tools_in.take() {
        let call = Call { connection: connection.id(), request: "".into(), session };
        connection.api().register_tools(call, Vec::new(), Reply::new(|_| {}));
    }
}

/// What a request to start a run began.
enum Begun {
    /// A turn, or a slash command.
    Run(Option<TurnId>, SessionId),
    /// A compaction, which has ended: whether there was anything to compact.
    Compacted(bool),
}

/// Answers `run.start`, in a write of its own: a client that reads the end of a run together with the answer misses it.
fn run_begun(connection: &Connection, id: &str, place: usize, begun: Result<Begun, Fault>) {
    let ui = connection.wire();
    let request: Arc<str> = id.into();
    let waits = |waiting: &mut Arc<str>| *waiting == request;
    let begun = match begun {
        Ok(begun) => begun,
        Err(fault) => {
            take_tools_back(ui, connection);
            let unanswered = ui.desk.lock();
            let is_compaction = unanswered.run.as_ref().is_some_and(|run| run.is_compaction);
            drop(unanswered);
            if ui.desk.lock().compaction.take_if(waits).is_some() || !is_compaction {
                return ui.refuse(connection, id, place, &fault);
            }
            return end_compaction(connection, Some(TurnOutcome::Failed), Some(&fault.message));
        }
    };
    ui.count_answer(place);
    match begun {
        Begun::Run(turn, session) => {
            let facts = connection.api().facts(&session);
            let run: Arc<str> = {
                let mut state = ui.desk.lock();
                if let Some(facts) = &facts {
                    note_facts(&mut state, facts);
                }
                match &turn {
                    Some(turn) => turn.as_str().into(),
                    None => {
                        let run = state.own_id("c");
                        state.commands.insert(request.clone(), run.clone());
                        run
                    }
                }
            };
            let mut result = Map::new().with("run_id", run.to_string()).with("session_id", session.as_str());
            let journal = facts.as_ref().and_then(|facts| facts.location.as_deref());
            result.put_some("session_log_path", journal);
            // The run is known when its answer is seen: it may be cancelled at once.
            let begin = |out: &mut Vec<u8>, ()| {
                let mut state = ui.desk.lock();
                teller(ui, connection).begin(&mut state, out, run);
                if let Some(run) = state.run.as_mut().filter(|_| turn.is_none()) {
                    run.is_command = true;
                }
            };
            connection.outbox().push_frame_apart(|out, ()| frames::answer(out, id, &result), begin);
        }
        Begun::Compacted(compacted) => {
            if ui.desk.lock().compaction.take_if(waits).is_none() {
                return end_compaction(connection, None, None);
            }
            // There was nothing to compact.
            let run = ui.desk.lock().own_id("c");
            let result = Map::new().with("run_id", run.to_string());
            let told = |out: &mut Vec<u8>, ()| {
                let mut state = ui.desk.lock();
                let teller = teller(ui, connection);
                teller.begin(&mut state, out, run);
                teller.empty_compaction(&mut state, out, compacted);
                teller.end(&mut state, out, RunStatus::Completed, None);
            };
            connection.outbox().push_frame_apart(|out, ()| frames::answer(out, id, &result), told);
        }
    }
}

/// Ends the run of a compaction, unless the end of its session's work did so already.
fn end_compaction(connection: &Connection, outcome: Option<TurnOutcome>, message: Option<&str>) {
    let ui = connection.wire();
    connection.outbox().push_frame(|out, ()| {
        let mut state = ui.desk.lock();
        teller(ui, connection).end_compaction(&mut state, out, outcome, message);
    });
}

fn run_cancel(ask: &Ask<'_>) {
    let run = text(ask.params, "run_id").unwrap_or_default();
    let mut state = ask.ui.desk.lock();
    let is_running = state.running().is_some_and(|running| **running == *run);
    let ended = state.end_of(run);
    let waits_for = is_running.then(|| state.cancel_command()).flatten();
    drop(state);
    match (is_running, ended) {
        (true, _) => {
            let running = |_| Ok(Map::new().with("ok", true).with("status", RunStatus::Running.as_str()));
            ask.api().abort(ask.call(), None, ask.reply(running));
            if let Some(question) = waits_for {
                ask.ui.answered(ask.connection, &question, Ok(Value::Nil));
            }
        }
        (false, Some(status)) => ask.ok(&Map::new().with("ok", false).with("status", status.as_str())),
        (false, None) => ask.fail(&Fault::new(Code::NoRun, "There is no such run.")),
    }
}

/// What the interface shows, as a notification says.
pub fn update_context(ui: &Ui, connection: &Connection, params: &Value<'_>) {
    let Some(editor) = input::editor(params) else {
        return tracing::debug!("a malformed ui.context.update is ignored");
    };
    let call = Call { connection: connection.id(), request: "".into(), session: connection.focused() };
    show_editor(connection.api(), &ui.desk, call, editor);
}

/// Passes on what the interface shows. Until the session has it the desk does, for a request that follows at once.
fn show_editor(api: &dyn SessionApi, desk: &Arc<UiState>, call: Call, editor: Editor) {
    let (shown, until) = (Arc::new(editor.clone()), desk.clone());
    desk.lock().shown = Some((call.session.clone(), shown.clone()));
    let taken = Reply::new(move |_| {
        until.lock().shown.take_if(|(_, newest)| Arc::ptr_eq(newest, &shown));
    });
    api.update_context(call, editor, taken);
}

fn session_list(ask: &Ask<'_>) {
    let most = limit(ask.params, "limit", UI_SESSIONS);
    let here = ask.api().facts(&ask.connection.focused()).map(|facts| facts.cwd.clone());
    let root = ask.owned("workspace_root").filter(|root| here.as_deref() != Some(root.as_str()));
    let all = text(ask.params, "scope") == Some("all");
    let scope = if all || root.is_some() { ListScope::All } else { ListScope::Project };
    let reply = ask.reply(move |sessions: Vec<ListedSession>| {
        let wanted = |listed: &&ListedSession| {
            let is_there = all || root.as_deref().is_none_or(|root| *listed.slot.cwd == *root);
            // A session without a message is only kept in memory.
            is_there && listed.slot.location.is_some()
        };
        let mut sessions: Vec<_> = sessions.iter().filter(wanted).collect();
        sessions.sort_by(|one, other| updated_at(other).cmp(updated_at(one)));
        let sessions = sessions.into_iter().take(most).map(session);
        let mut result = Map::new().with("sessions", Value::vector(sessions));
        result.put_some("current_workspace_root", here.as_deref().map(str::to_owned));
        Ok(result)
    });
    let listed = Reply::new(move |listed: Result<ListedSessions, ApiError>| match listed {
        Ok(listed) => reply.ok(listed.sessions),
        Err(error) => reply.fail(error),
    });
    let wanted = Listing { limit: Some(usize::MAX), scope, ..Listing::default() };
    ask.api().list_sessions(ask.call(), wanted, listed);
}

fn updated_at(listed: &ListedSession) -> &str {
    listed.recent.at.as_deref().or(listed.modified.as_deref()).unwrap_or(&listed.slot.created_at)
}

fn session(listed: &ListedSession) -> Map<'static> {
    let mut session = Map::new().with("session_id", listed.slot.id.to_string());
    session.put("updated_at", updated_at(listed).to_owned());
    session.put_some("run_id", listed.recent.turn.as_ref().map(ToString::to_string));
    session.put_some("message_count", listed.slot.message_count.map(crate::message::count));
    let words = listed.recent.user_text.as_deref().or(listed.slot.first_message.as_deref());
    session.put_some("last_user_message", words.map(str::to_owned));
    session.put("workspace_root", listed.slot.cwd.to_string());
    session
}

/// The level's name on the wire; `None` for those that it lacks.
fn reasoning(facts: &SessionFacts) -> Option<&'static str> {
    match facts.effective_thinking() {
        ThinkingLevel::Off | ThinkingLevel::Minimal => None,
        level => Some(level.as_str()),
    }
}

fn model_list(ask: &Ask<'_>) {
    let Some(facts) = ask.facts() else { return };
    let usual = ask.api().usual_model();
    let is_usual = (&facts.model_provider, &facts.model_id) == (&usual.0, &usual.1);
    let source = if is_usual { "config" } else { "session" };
    let asked = ask.owned("provider");
    let provider = asked.clone().unwrap_or_else(|| facts.model_provider.to_string());
    let details = flag(ask.params, "include_details") == Some(true);
    let reply = ask.reply(move |models: Vec<ModelFacts>| {
        let of_provider: Vec<_> = models.iter().filter(|model| *model.provider == *provider).collect();
        if of_provider.is_empty() && asked.is_some() {
            return Err(Fault::param("provider", "a provider of the configuration"));
        }
        let names = Value::vector(of_provider.iter().map(|model| Value::from(model.id.to_string())));
        let mut result = Map::new().with("provider", provider.clone()).with("models", names);
        if *facts.model_provider == *provider {
            result.put("current", facts.model_id.to_string());
        }
        result.put("source", source);
        result.put_some("reasoning", reasoning(&facts));
        if details {
            let mut all = Map::new();
            for model in of_provider {
                all.insert(Value::str(model.id.to_string()), model_details(model));
            }
            result.put("details", all);
        }
        Ok(result)
    });
    ask.api().models(ask.call(), reply);
}

fn model_details(model: &ModelFacts) -> Map<'static> {
    let mut details = Map::new().with("context_window", crate::message::count(model.context_window));
    let output = model.max_output.map(u64::from);
    let input = model.context_window.saturating_sub(output.unwrap_or(0));
    details.put("max_input_tokens", crate::message::count(input));
    details.put_some("max_output_tokens", output.map(crate::message::count));
    details.put_some("cost_per_1m_input_tokens_usd", model.price.map(|price| Value::from(price.input)));
    details.put_some("cost_per_1m_output_tokens_usd", model.price.map(|price| Value::from(price.output)));
    details
}

fn model_set(ask: &Ask<'_>) {
    if ask.is_busy() {
        return;
    }
    if flag(ask.params, "fast") == Some(true) {
        return ask.fail(&Fault::param("fast", "absent: it is not served"));
    }
    if ask.facts().is_none() {
        return;
    }
    let resets = flag(ask.params, "reset") == Some(true);
    let session_only = resets || text(ask.params, "scope") == Some("session");
    let reach = if session_only { Reach::Session } else { Reach::User };
    let source = if session_only && !resets { "session" } else { "config" };
    let (provider, name) = match ask.owned("name") {
        // The session goes back to the model of new ones.
        _ if resets => {
            let (provider, name) = ask.api().usual_model();
            (Some(provider.to_string()), name.to_string())
        }
        Some(name) => (ask.owned("provider"), name),
        None => return ask.fail(&Fault::param("name", "the name of a model")),
    };
    let level = text(ask.params, "reasoning").map(|level| match level {
        "max" => ThinkingLevel::Xhigh,
        level => ThinkingLevel::parse(level).unwrap_or_default(),
    });
    let level = level.or_else(|| resets.then(|| ask.api().usual_thinking()));
    let reply = ask.reply(move |(set, level): ((String, String), Option<ThinkingLevel>)| {
        let mut result = Map::new().with("provider", set.0).with("name", set.1).with("source", source);
        let level = level.filter(|level| *level > ThinkingLevel::Minimal);
        result.put_some("reasoning", level.map(ThinkingLevel::as_str));
        Ok(result)
    });
    let (api, call) = (ask.ui.api.clone(), ask.call());
    let next = call.clone();
    let set = Reply::new(move |set: Result<(String, String), ApiError>| match (set, level) {
        (Ok(set), Some(level)) => {
            let levelled = Reply::new(move |level: Result<ThinkingLevel, ApiError>| {
                reply.send(level.map(|level| (set, Some(level))));
            });
            api.set_thinking_level(next, Some(level), reach, levelled);
        }
        (Ok(set), None) => reply.ok((set, None)),
        (Err(error), _) => reply.fail(error),
    });
    ask.api().set_model(call, provider, name, reach, set);
}

fn theme_set(ask: &Ask<'_>) {
    if ask.is_busy() {
        return;
    }
    let name = ask.owned("name").unwrap_or_default();
    let kept = name.clone();
    let reply = ask.reply(move |path: String| {
        Ok(Map::new().with("name", kept).with("scope", "global").with("path", path))
    });
    ask.api().set_theme(ask.call(), name, reply);
}

/// The name under which an interface asks for a part of a kept output.
const KEPT_OUTPUT: &str = "tool_output_cache";

fn tool_call(ask: &Ask<'_>) {
    let name = ask.owned("name").unwrap_or_default();
    if name == KEPT_OUTPUT {
        return shell::kept_output(ask);
    }
    if ask.is_busy() {
        return;
    }
    let arguments = at(ask.params, "arguments").map_or_else(|| Value::from(Map::new()), keyed);
    let (desk, id) = (ask.ui.desk.clone(), ask.id.clone());
    desk.lock().quiet.insert(id.clone(), false);
    let answer = ask.reply(|(outcome, declined): (ToolOutcome, bool)| {
        if outcome.is_error {
            return Err(Fault::new(
                if declined { Code::UserCancelled } else { Code::Internal },
                outcome.text,
            ));
        }
        let mut result = Map::new().with("text", outcome.text);
        result.put_some("details", Some(outcome.details).filter(|details| !details.is_nil()));
        Ok(Map::new().with("ok", true).with("result", result))
    });
    let done = Reply::new(move |outcome: Result<ToolOutcome, ApiError>| {
        let declined = desk.lock().quiet.remove(&id).unwrap_or(false);
        answer.send(outcome.map(|outcome| (outcome, declined)));
    });
    ask.api().call_tool(ask.call(), name, arguments, done);
}

/// A value of JSON as tools read it: with keywords as keys. Its depth is bounded where it was read.
fn keyed(value: &Value<'_>) -> Value<'static> {
    match value {
        Value::Map(map) => {
            let mut keyed_map = Map::new();
            for (key, value) in map.iter() {
                let key = match key.as_str() {
                    Some(key) => Value::keyword(key.to_owned()),
                    None => key.clone().into_owned(),
                };
                keyed_map.insert(key, keyed(value));
            }
            Value::from(keyed_map)
        }
        Value::Vector(items) => Value::vector(items.iter().map(keyed)),
        other => other.clone().into_owned(),
    }
}

/// Asks the person whether to log out.
fn auth_logout(ask: &Ask<'_>) {
    if ask.is_busy() {
        return;
    }
    let clear_session = flag(ask.params, "clear_session") != Some(false);
    let id = {
        let mut state = ask.ui.desk.lock();
        if !state.can.confirm {
            drop(state);
            return ask
                .fail(&Fault::new(Code::Internal, "The interface cannot confirm, so nobody can be asked."));
        }
        if state.question.is_some() {
            drop(state);
            return ask.fail(&Fault::new(Code::Busy, "Another question is open: answer it first."));
        }
        let id = state.own_id("q");
        let asked = OpenRequest::Logout { request: ask.id.clone(), clear_session };
        state.question = Some(OpenQuestion { id: id.clone(), asked });
        id
    };
    let what = if clear_session { " and opens a new session" } else { "" };
    let mut params = Map::new().with("title", "Log out?");
    params.put("message", format!("This deletes the stored logins of all providers{what}."));
    params.put("confirm_label", "Log out");
    params.put("cancel_label", "Cancel");
    params.put("danger_level", "danger");
    ask.connection.outbox().push_frame(|out, ()| frames::ask(out, &id, "ui.confirm.request", &params));
}

/// Logs out of every provider, if the person has agreed, and opens a new session.
pub fn logout(ui: &Ui, connection: &Connection, request: Arc<str>, agreed: bool, clear_session: bool) {
    let place = methods::find("auth.logout").map_or(0, |(place, _)| place);
    if !agreed {
        return ui.respond(connection, &request, place, &logged_out(false, false, true));
    }
    let reply = connection.begin(request.clone(), move |connection: &Connection, id, result| {
        match result.map_err(Fault::from) {
            Ok((auth, session)) => {
                connection.wire().respond(connection, id, place, &logged_out(auth, session, false));
            }
            Err(fault) => connection.wire().refuse(connection, id, place, &fault),
        }
    });
    let call = Call { connection: connection.id(), request, session: connection.focused() };
    let (api, asked) = (ui.api.clone(), call.clone());
    let listed = Reply::new(move |models: Result<Vec<ModelFacts>, ApiError>| match models {
        Ok(models) => {
            let mut providers: Vec<String> = models.iter().map(|model| model.provider.to_string()).collect();
            providers.sort();
            providers.dedup();
            forget(&api, asked, providers, false, clear_session, reply);
        }
        Err(error) => reply.fail(error),
    });
    connection.api().models(call, listed);
}

/// Logs out of one provider after the other, then opens a new session.
fn forget(
    api: &Arc<dyn SessionApi>,
    call: Call,
    mut providers: Vec<String>,
    was_logged_in: bool,
    clear_session: bool,
    reply: Reply<(bool, bool)>,
) {
    let Some(provider) = providers.pop() else {
        if !clear_session {
            return reply.ok((was_logged_in, false));
        }
        let opened = Reply::new(move |opened: Result<Opened, ApiError>| {
            reply.send(opened.map(|_| (was_logged_in, true)));
        });
        return api.new_session(call, NewSession::default(), opened);
    };
    let (next, asked) = (api.clone(), call.clone());
    let gone = Reply::new(move |done: Result<bool, ApiError>| {
        // A provider without logins has none to delete.
        forget(&next, asked, providers, was_logged_in || done.unwrap_or(false), clear_session, reply);
    });
    api.logout(call, provider, gone);
}
