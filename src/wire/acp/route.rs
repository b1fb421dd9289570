//! The requests of an editor as calls of the session API, and its answers to ours. No rule of the engine stands here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::catalogue::ErrorCode;
use crate::edn;
use crate::event::WaitingMessages;
use crate::facts::{CommandFacts, ListedSession, ListedSessions, ModelFacts, SessionFacts};
use crate::limits::{ACP_LISTED, ACP_SESSIONS};
use crate::message::{Mode, SessionId, ThinkingLevel, TurnId};
use crate::session::{
    ActionResult, ActionStatus, Agreed, AnswerFields, ApiError, Call, Client, GraphQuery, ListScope, Listing,
    NewSession, Opened, Prompt, Prompted, QueryAnswer, Reach, Removed, Reply, Response, SessionApi,
    SessionServers, Snapshot, SwitchTarget,
};
use crate::value::{Map, Value};
use crate::wire::acp::codes::{Code, Fault};
use crate::wire::acp::connection_state::{OpenSession, PendingEditorRequest, Prompting};
use crate::wire::acp::engines::{OpenProject, ReachedEngines};
use crate::wire::acp::link::{Acp, Connection, Member};
use crate::wire::acp::map::{self, Can, SentState};
use crate::wire::acp::request::{AcpRequest, AcpResponse, Chosen, EditorNotice, Row, SessionPlace};
use crate::wire::acp::update::{EditorAnswer, ShownCommand, Stop, Update, Voice};
use crate::wire::acp::version::Version;
use crate::wire::acp::{input, options, prompts, questions, replay};
use crate::wire::edn::router;

/// Serves a request.
pub fn serve(acp: &Acp, connection: &Connection, id: Arc<str>, request: AcpRequest) {
    match request {
        AcpRequest::Initialize { version, can, client } => {
            initialize(acp, connection, &id, version, can, client)
        }
        AcpRequest::Authenticate { method } => authenticate(acp, connection, &id, &method),
        AcpRequest::Logout => logout(acp, connection, id),
        AcpRequest::New(place) => open(acp, connection, id, place, None),
        AcpRequest::Load { session, place, replays } => {
            open(acp, connection, id, place, Some((session, replays)))
        }
        AcpRequest::List { folder, cursor } => list(acp, connection, id, folder, cursor),
        AcpRequest::Close(session) => close(acp, connection, id, session),
        AcpRequest::Delete(session) => delete(acp, connection, id, session),
        AcpRequest::Prompt { session, parts } => match input::prompt(parts) {
            Ok(said) => prompt(acp, connection, id, session, said),
            Err(fault) => acp.reject(connection, &id, &fault),
        },
        AcpRequest::SetMode { session, mode } => set_mode(acp, connection, id, &session, &mode),
        AcpRequest::SetOption { session, option, value } => {
            set_option(acp, connection, id, &session, &option, value);
        }
        AcpRequest::CancelCall { session, .. } => cancel_call(acp, connection, &id, &session),
        AcpRequest::Op { session, op, params } => self::op(acp, connection, id, &session, &op, &params),
        AcpRequest::Query { session, query } => self::query(acp, connection, id, &session, query),
    }
}

/// The answer that is owed to a request.
fn reply<T: 'static>(
    connection: &Connection,
    id: Arc<str>,
    shape: impl FnOnce(&Connection, T) -> Result<AcpResponse, Fault> + Send + 'static,
) -> Reply<T> {
    connection.begin(id, move |connection: &Connection, id, result| {
        match result.map_err(Fault::from).and_then(|value| shape(connection, value)) {
            Ok(answer) => connection.wire().respond(connection, id, &answer),
            Err(fault) => connection.wire().reject(connection, id, &fault),
        }
    })
}

fn initialize(
    acp: &Acp,
    connection: &Connection,
    id: &str,
    version: Version,
    can: Can,
    client: Option<(String, String)>,
) {
    let agreed = {
        let mut state = acp.desk.lock();
        let agreed = *state.version.get_or_insert(version);
        if agreed == version {
            state.can = can;
        }
        agreed
    };
    if agreed != version {
        let message = format!("The connection has agreed on version {} of the protocol.", agreed.number());
        return acp.reject(connection, id, &Fault::new(Code::InvalidRequest, message));
    }
    let (name, version_of_client) = client.unwrap_or_default();
    acp.agreed.store(Some(Arc::new(Agreed {
        name: name.into(),
        version: version_of_client.into(),
        protocol_version: version.number().to_string().into(),
        features: Vec::new(),
    })));
    let terminal_login = can.terminal_login && acp.engines.has_login();
    acp.respond(connection, id, &AcpResponse::Initialized { version, terminal_login });
}

fn authenticate(acp: &Acp, connection: &Connection, id: &str, method: &str) {
    let name = crate::catalogue::excerpt(method, crate::limits::ERROR_NAME_CHARS);
    let message = format!("There is no login {name:?} here: `edn-bridge login` logs in, in a terminal.");
    acp.reject(connection, id, &Fault::new(Code::InvalidParams, message));
}

/// Forgets the login at the provider of new sessions.
fn logout(acp: &Acp, connection: &Connection, id: Arc<str>) {
    let owed = reply(connection, id.clone(), |_, _: bool| Ok(AcpResponse::Done));
    with_any(&acp.engines, move |project| match project {
        Ok(project) => match project.api.facts(&project.first) {
            Some(facts) => project.api.logout(project.call(id), facts.model_provider.to_string(), owed),
            None => owed.fail(ApiError::failed("There is no provider to log out from.")),
        },
        Err(error) => owed.fail(error),
    });
}

/// No call says that it can be ended alone.
fn cancel_call(acp: &Acp, connection: &Connection, id: &str, session: &SessionId) {
    let fault = match acp.desk.lock().sessions.contains_key(session) {
        true => {
            let message = "A call cannot be ended alone: session/cancel ends the turn.";
            Fault::new(Code::InvalidParams, message)
        }
        false => Fault::no_session(session.as_str()),
    };
    acp.reject(connection, id, &fault);
}

/// The client of a session and its engine, to be opened.
struct Opening {
    project: Arc<OpenProject>,
    number: u64,
    folder: PathBuf,
    /// The session, if it is an old one, and whether its history is told.
    old: Option<(SessionId, bool)>,
    /// The MCP servers that the editor names.
    servers: SessionServers,
    /// Further folders.
    roots: Vec<PathBuf>,
    models: Arc<[ModelFacts]>,
}

/// Opens a session: a new one, or an old one.
fn open(
    acp: &Acp,
    connection: &Connection,
    id: Arc<str>,
    place: SessionPlace,
    old: Option<(SessionId, bool)>,
) {
    if acp.desk.lock().sessions.len() >= ACP_SESSIONS {
        let message = format!("{ACP_SESSIONS} sessions are open, which is all: close one.");
        return acp.reject(connection, &id, &Fault::new(Code::Internal, message));
    }
    // An old one that is open is entered again.
    if let Some((session, _)) = &old {
        let known = acp.desk.lock().sessions.get(session).map(|open| open.told.connection);
        if let (Some(number), Some(project)) = (known, acp.engines.of(session)) {
            let models = acp.desk.lock().sessions.get(session).map(|open| open.told.models.clone());
            let models = models.unwrap_or_default();
            let SessionPlace { folder, servers, further: roots } = place;
            // Before its servers are brought there.
            if let Some(facts) = project.api.facts(session)
                && is_in_other_folder(&facts, &folder)
            {
                return acp.reject(connection, &id, &other_folder(&facts.cwd, &folder));
            }
            let opening = Opening { project, number, folder, old, servers, roots, models };
            return entered(connection, id, opening)();
        }
    }
    let owed = connection.begin(id.clone(), {
        let place = place.clone();
        move |connection: &Connection, id, project: Result<Arc<OpenProject>, ApiError>| match project {
            Ok(project) => join(connection, id.into(), project, place, old),
            Err(error) => connection.wire().reject(connection, id, &Fault::from(error)),
        }
    });
    let canonical = match place.folder.canonicalize() {
        Ok(folder) if folder.is_dir() => folder,
        _ => {
            let message = format!("There is no folder {}.", place.folder.display());
            return owed.fail(ApiError::new(ErrorCode::InvalidParams, message));
        }
    };
    match acp.engines.known(&canonical) {
        Some(project) => owed.ok(project),
        None => {
            // An engine may take its time to start, and the other sessions go on.
            let engines = acp.engines.clone();
            let opening = std::thread::Builder::new().name("open".to_owned());
            let begun = opening.spawn(move || owed.send(engines.open(&canonical)));
            if let Err(error) = begun {
                tracing::warn!(%error, "an engine could not be started");
            }
        }
    }
}

/// Becomes a client of the engine, and opens the session there.
fn join(
    connection: &Connection,
    id: Arc<str>,
    project: Arc<OpenProject>,
    place: SessionPlace,
    old: Option<(SessionId, bool)>,
) {
    let SessionPlace { folder, servers, further: roots } = place;
    let (weak, api) = (connection.weak(), project.api.clone());
    let member = |number| Arc::new(Member::new(weak, api, number)) as Arc<dyn Client>;
    let Some(number) = connection.api().join(&project, member) else { return };
    let this = connection.weak();
    let models = Reply::new({
        let (project, id) = (project.clone(), id.clone());
        move |models: Result<Vec<ModelFacts>, ApiError>| {
            let Some(connection) = this.upgrade() else { return };
            let models = models.unwrap_or_default().into();
            let opening = Opening { project, number, folder, old, servers, roots, models };
            entered(&connection, id, opening)();
        }
    });
    project.api.models(project.call(id), models);
}

/// The call that enters a session, and answers.
fn entered(connection: &Connection, id: Arc<str>, opening: Opening) -> impl FnOnce() + use<> {
    let project = opening.project.clone();
    let (number, old, servers) = (opening.number, opening.old.clone(), opening.servers.clone());
    let roots = opening.roots.clone();
    let owed = connection.begin(id.clone(), move |connection: &Connection, id, opened| {
        settle(connection, id, opening, opened);
    });
    let call = Call { connection: number, request: id, session: project.first.clone() };
    move || match old {
        None => project.api.new_session(call, NewSession { servers, roots, ..NewSession::default() }, owed),
        // Folders and servers are set before the switch, so that the first prompt has them.
        Some((session, _)) => {
            let (api, switching) = (project.api.clone(), call.clone());
            let target = Call { session: session.clone(), ..call.clone() };
            let opened = Reply::new(move |opened: Result<SessionId, ApiError>| match opened {
                Ok(session) => {
                    let then = api.clone();
                    let (roots_target, with) = (target.clone(), api.clone());
                    let brought = Reply::new(move |brought: Result<(), ApiError>| match brought {
                        Ok(()) => then.switch_session(switching, SwitchTarget::Id(session), owed),
                        Err(error) => owed.fail(error),
                    });
                    // The request has the whole list of further folders: an empty one takes away those of before.
                    let roots_set = Reply::new(move |given: Result<(), ApiError>| match given {
                        Ok(()) => with.bring_mcp(target, servers, brought),
                        Err(error) => brought.fail(error),
                    });
                    api.set_roots(roots_target, roots, roots_set);
                }
                Err(error) => owed.fail(error),
            });
            project.api.open_session(call, session, opened);
        }
    }
}

/// Whether a session works in another folder of this machine. The folder of another host's session is one of that host.
fn is_in_other_folder(facts: &SessionFacts, folder: &Path) -> bool {
    !facts.is_elsewhere && !is_same_folder(&facts.cwd, folder)
}

/// Why a session is not opened for a folder.
fn other_folder(cwd: &str, folder: &Path) -> Fault {
    Fault::new(Code::InvalidParams, format!("The session works in {cwd}, not in {}.", folder.display()))
}

/// The session is open, and no event of it goes out before this has told its history and the answer.
fn settle(connection: &Connection, id: &str, opening: Opening, opened: Result<Opened, ApiError>) {
    let acp = connection.wire();
    let Opening { project, number, folder, old, models, .. } = opening;
    let leave = |fault: &Fault| {
        acp.reject(connection, id, fault);
        // A session that was open before stays open.
        if acp.desk.lock().sessions.values().any(|open| open.told.connection == number) {
            return;
        }
        // Not from here, where the session's events are held.
        let (engines, project) = (acp.engines.clone(), project.clone());
        later(move || engines.leave(&project, number, Reply::new(|_| {})));
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return leave(&Fault::from(error)),
    };
    let session = opened.session;
    let Some(facts) = project.api.facts(&session) else {
        return leave(&Fault::new(Code::Internal, "The session has ended."));
    };
    if old.is_some() && is_in_other_folder(&facts, &folder) {
        return leave(&other_folder(&facts.cwd, &folder));
    }
    let call = Call { connection: number, request: id.into(), session: session.clone() };
    let messages = match &old {
        Some(_) => match replay::messages(project.api.as_ref(), &call) {
            Ok(messages) => messages,
            Err(error) => return leave(&Fault::from(error)),
        },
        None => Vec::new(),
    };
    let replays = old.as_ref().is_some_and(|(_, replays)| *replays);
    let mut told = SentState::new(number, models, facts.clone());
    let is_busy = facts.is_streaming();
    let (version, can) = {
        let state = acp.desk.lock();
        (state.version(), state.can)
    };
    let answer = AcpResponse::Opened {
        session: old.is_none().then(|| session.clone()),
        mode: facts.mode,
        options: options::shown(&facts, &told.models, can.switches),
    };
    // Before the editor has the answer, and asks something of the session.
    acp.engines.shows(&project, &session);
    connection.outbox().push_frame(|out, ()| {
        let mut lines = Vec::new();
        replay::tell(&mut told, &messages, is_busy, &mut |update| {
            version.update(&mut lines, &session, update);
        });
        if replays {
            out.append(&mut lines);
        }
        if old.is_some() {
            told.opened(can, facts.phase, &mut |update| version.update(out, &session, update));
        }
        version.answer(out, id, &answer);
        if old.is_some() {
            version.update(out, &session, &map::usage(&facts));
        }
        // An open session that was entered again continues with its prompts. Under one lock, because the editor may be
        // sending the next one.
        let mut state = acp.desk.lock();
        let prompts = state.sessions.remove(&session).map(|before| before.prompts).unwrap_or_default();
        state.sessions.insert(session.clone(), OpenSession { told, prompts, left_out: 0, left_out_told: 0 });
    });
    let weak = connection.weak();
    later(move || {
        project.api.interactor_changed(number);
        let listed = Reply::new(move |commands: Result<Vec<CommandFacts>, ApiError>| {
            let (Some(connection), Ok(commands)) = (weak.upgrade(), commands) else { return };
            tell_commands(&connection, &session, &commands);
        });
        project.api.commands(call, listed);
    });
}

/// Runs something that may take locks of the engine, apart from whoever holds them now.
fn later(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name("later".to_owned()).spawn(work) {
        tracing::warn!(%error, "a thread could not be started");
    }
}

fn is_same_folder(one: &str, other: &Path) -> bool {
    let one = Path::new(one);
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The commands that an editor has of its own.
const NOT_OFFERED: &[&str] = &["quit", "exit", "new", "resume", "tree", "fork", "?"];

fn tell_commands(connection: &Connection, session: &SessionId, commands: &[CommandFacts]) {
    let offered = commands.iter().filter(|command| !NOT_OFFERED.contains(&command.name.as_str()));
    let shown = offered.map(|command| ShownCommand {
        name: command.name.clone(),
        about: command.description.clone(),
        hint: command.usage.split_once(' ').map(|(_, arguments)| arguments.trim().to_owned()),
    });
    let update = Update::Commands(shown.collect());
    let version = connection.wire().version();
    connection.outbox().push_frame(|out, ()| version.update(out, session, &update));
}

/// A call of the client of an open session, and its engine.
fn call_to(acp: &Acp, id: Arc<str>, session: &SessionId) -> Option<(Call, Arc<OpenProject>)> {
    let connection = acp.desk.lock().sessions.get(session)?.told.connection;
    let project = acp.engines.of(session)?;
    Some((Call { connection, request: id, session: session.clone() }, project))
}

fn list(acp: &Acp, connection: &Connection, id: Arc<str>, folder: Option<PathBuf>, cursor: Option<String>) {
    let from = match cursor.as_deref().map(str::parse::<usize>) {
        None => 0,
        Some(Ok(from)) => from,
        Some(Err(_)) => {
            let fault = Fault::new(Code::InvalidParams, "params.cursor must be a nextCursor of ours.");
            return acp.reject(connection, &id, &fault);
        }
    };
    let owed = reply(connection, id.clone(), move |_, listed: ListedSessions| {
        Ok(page(listed.sessions, folder.as_deref(), from))
    });
    let wanted = Listing { limit: Some(usize::MAX), scope: ListScope::All, ..Listing::default() };
    let engines = acp.engines.clone();
    with_any(&engines, move |project| match project {
        Ok(project) => project.api.list_sessions(project.call(id), wanted, owed),
        Err(error) => owed.fail(error),
    });
}

/// Passes on an engine: one that is open, or else that of the program's own folder, which may have to start.
fn with_any(
    engines: &Arc<ReachedEngines>,
    work: impl FnOnce(Result<Arc<OpenProject>, ApiError>) + Send + 'static,
) {
    match engines.any() {
        Some(project) => work(Ok(project)),
        None => {
            let engines = engines.clone();
            later(move || work(engines.open(&engines.home())));
        }
    }
}

fn page(listed: Vec<ListedSession>, folder: Option<&Path>, from: usize) -> AcpResponse {
    let updated_at = |listed: &ListedSession| {
        let at = listed.recent.at.as_deref().or(listed.modified.as_deref());
        at.unwrap_or(&listed.slot.created_at).to_owned()
    };
    let wanted = |listed: &ListedSession| {
        let is_there = folder.is_none_or(|folder| is_same_folder(&listed.slot.cwd, folder));
        // A session without a message is only kept in memory.
        listed.slot.location.is_some() && is_there
    };
    let mut rows: Vec<Row> = listed
        .iter()
        .filter(|listed| wanted(listed))
        .map(|listed| Row {
            session: listed.slot.id.clone(),
            folder: PathBuf::from(&*listed.slot.cwd),
            title: listed.slot.display_name().to_owned(),
            updated_at: updated_at(listed),
        })
        .collect();
    rows.sort_by(|one, other| (&other.updated_at, &other.session).cmp(&(&one.updated_at, &one.session)));
    let to = from.saturating_add(ACP_LISTED);
    let next = (rows.len() > to).then(|| to.to_string());
    AcpResponse::Listed { sessions: rows.into_iter().skip(from).take(ACP_LISTED).collect(), next }
}

/// Ends what runs in a session for the editor, and leaves it.
fn close(acp: &Acp, connection: &Connection, id: Arc<str>, session: SessionId) {
    let Some((call, project)) = call_to(acp, id.clone(), &session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    let owed = reply(connection, id, |_, ()| Ok(AcpResponse::Done));
    leave(acp, connection, &session, call, project, owed);
}

fn leave(
    acp: &Acp,
    connection: &Connection,
    session: &SessionId,
    call: Call,
    project: Arc<OpenProject>,
    owed: Reply<()>,
) {
    let (version, can, (mut told, prompts, asked)) = {
        let mut state = acp.desk.lock();
        (state.version(), state.can, state.forget(session))
    };
    acp.engines.forget(session);
    connection.outbox().push_frame(|out, ()| {
        for question in &asked {
            version.withdraw(out, question);
        }
        for prompt in &prompts {
            prompts::cancelled(version, out, prompt);
        }
        // What another client has begun goes on.
        if !prompts.is_empty() {
            told.closed(can, &mut |update| version.update(out, session, update));
        }
    });
    let (engines, number) = (acp.engines.clone(), call.connection);
    let (api, of) = (project.api.clone(), prompts);
    let leaving = call.clone();
    let left = move || {
        // The servers that the editor named for the session end with it.
        let api = project.api.clone();
        let left = Reply::new(move |_: Result<(), ApiError>| engines.leave(&project, number, owed));
        api.leave_mcp(leaving, left);
    };
    match of.is_empty() {
        true => left(),
        false => {
            let (next, asked) = (api.clone(), call.clone());
            let aborted = Reply::new(move |_: Result<bool, ApiError>| {
                remove_waiting(&next, asked, turns(&of), Box::new(left));
            });
            api.abort(call, None, aborted);
        }
    }
}

fn turns(prompts: &[Prompting]) -> Vec<TurnId> {
    prompts.iter().filter_map(|prompt| prompt.turn.clone()).collect()
}

/// Removes the queued messages for these turns, then goes on.
fn remove_waiting(api: &Arc<dyn SessionApi>, call: Call, turns: Vec<TurnId>, then: Box<dyn FnOnce() + Send>) {
    let (next, asked) = (api.clone(), call.clone());
    let waiting = Reply::new(move |waiting: Result<WaitingMessages, ApiError>| {
        for message in waiting.map(|waiting| waiting.messages).unwrap_or_default() {
            if message.turn.is_some_and(|turn| turns.contains(&turn)) {
                next.remove_pending(asked.clone(), message.entry, Reply::new(|_: Result<Removed, _>| {}));
            }
        }
        then();
    });
    api.pending(call, None, waiting);
}

fn delete(acp: &Acp, connection: &Connection, id: Arc<str>, session: SessionId) {
    let owed = reply(connection, id.clone(), |_, ()| Ok(AcpResponse::Done));
    let (engines, request) = (acp.engines.clone(), id.clone());
    let remove = {
        let session = session.clone();
        move |project: Result<Arc<OpenProject>, ApiError>| match project {
            Ok(project) => project.api.delete_session(project.call(request), session, owed),
            Err(error) => owed.fail(error),
        }
    };
    if let Some((call, project)) = call_to(acp, id, &session) {
        let of = project.clone();
        let left = Reply::new(move |_: Result<(), ApiError>| remove(Ok(of)));
        return leave(acp, connection, &session, call, project, left);
    }
    with_any(&engines, remove);
}

/// Says something to the model. The answer comes with the end of its turn.
fn prompt(acp: &Acp, connection: &Connection, id: Arc<str>, session: SessionId, said: Prompt) {
    let Some((call, project)) = call_to(acp, id.clone(), &session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    let command = said
        .message
        .strip_prefix('/')
        .map(|rest| rest.split_whitespace().next().unwrap_or_default().to_owned());
    if command.as_deref().is_some_and(|name| NOT_OFFERED.contains(&name) && name != "?") {
        let text = "Your editor opens, lists and closes sessions itself: the command is not offered here.";
        let prompt = Prompting { request: id, said: Some(said.message.into()), ..Prompting::default() };
        return say_and_stop(connection, &session, prompt, text);
    }
    {
        let mut state = acp.desk.lock();
        let Some(open) = state.sessions.get_mut(&session) else { return };
        open.prompts.push(Prompting {
            request: id.clone(),
            starts_workflow: command.as_deref() == Some("workflow"),
            said: command.is_some().then(|| said.message.as_str().into()),
            ..Prompting::default()
        });
    }
    let weak = connection.weak();
    let is_command = command.is_some();
    let accepted = Reply::new(move |accepted: Result<Prompted, ApiError>| {
        if let Some(connection) = weak.upgrade() {
            self::accepted(&connection, &id, &session, is_command, accepted);
        }
    });
    match is_command {
        true => project.api.prompt(call, said, accepted),
        false => project.api.follow_up(call, said, accepted),
    }
}

/// The session has taken a prompt, or refused it.
fn accepted(
    connection: &Connection,
    id: &str,
    session: &SessionId,
    is_command: bool,
    accepted: Result<Prompted, ApiError>,
) {
    let acp = connection.wire();
    match accepted {
        Ok(prompted) => {
            let is_cancelled = {
                let mut state = acp.desk.lock();
                let Some((_, prompt)) = state.prompt(id) else { return };
                prompt.turn = prompted.turn;
                prompt.is_cancelled
            };
            if is_cancelled {
                let (weak, session) = (connection.weak(), session.clone());
                // The session's task is about to start it.
                later(move || {
                    if let Some(connection) = weak.upgrade() {
                        cancel(connection.wire(), &connection, &session);
                    }
                });
            }
        }
        Err(error) => {
            let its = |prompt: &Prompting| *prompt.request == *id && !prompt.is_inserted;
            let gone = acp.desk.lock().take_prompts(session, its);
            let Some(prompt) = gone.into_iter().next() else { return };
            let in_words =
                is_command && matches!(error.code, ErrorCode::UnknownCommand | ErrorCode::InvalidParams);
            match in_words {
                _ if prompt.is_cancelled => answer_cancelled(connection, &prompt),
                true => say_and_stop(connection, session, prompt, &error.message),
                false => acp.reject(connection, id, &Fault::from(error)),
            }
        }
    }
}

/// Says something as the agent, and ends the prompt.
fn say_and_stop(connection: &Connection, session: &SessionId, prompt: Prompting, text: &str) {
    let acp = connection.wire();
    connection.outbox().push_frame(|out, ()| {
        let mut state = acp.desk.lock();
        let version = state.version();
        let Some(open) = state.sessions.get_mut(session) else {
            return prompts::cancelled(version, out, &prompt);
        };
        let id = prompt.request.clone();
        open.prompts.push(prompt);
        let is_its = |prompt: &Prompting| prompt.request == id && prompt.turn.is_none();
        prompts::inserted_apart(&mut state, out, session, is_its);
        let message = format!("command-{}", id.trim_matches('"'));
        let update = Update::Text { voice: Voice::Agent, message: message.into(), text: text.into() };
        version.update(out, session, &update);
        prompts::ended(&mut state, out, session, false, |_| Ok(Stop::EndTurn), is_its);
    });
}

fn answer_cancelled(connection: &Connection, prompt: &Prompting) {
    let version = connection.wire().version();
    connection.outbox().push_frame(|out, ()| prompts::cancelled(version, out, prompt));
}

fn set_mode(acp: &Acp, connection: &Connection, id: Arc<str>, session: &SessionId, mode: &str) {
    let Some((call, project)) = call_to(acp, id.clone(), session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    match Mode::parse(mode) {
        Some(mode) => {
            project.api.set_mode(call, mode, reply(connection, id, |_, _: Mode| Ok(AcpResponse::Done)))
        }
        None => acp.reject(connection, &id, &no_value("modeId")),
    }
}

fn no_value(key: &str) -> Fault {
    Fault::new(Code::InvalidParams, format!("params.{key} must be one of those that were told."))
}

fn set_option(
    acp: &Acp,
    connection: &Connection,
    id: Arc<str>,
    session: &SessionId,
    option: &str,
    value: Chosen,
) {
    let Some((call, project)) = call_to(acp, id.clone(), session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    let api = &project.api;
    let shown = {
        let (session, project) = (session.clone(), project.clone());
        move |connection: &Connection| {
            let facts: Option<Arc<SessionFacts>> = project.api.facts(&session);
            let state = connection.wire().desk.lock();
            let (Some(facts), Some(open)) = (facts, state.sessions.get(&session)) else {
                return Err(Fault::no_session(session.as_str()));
            };
            Ok(AcpResponse::Options(options::shown(&facts, &open.told.models, state.can.switches)))
        }
    };
    let wrong = |key| acp.reject(connection, &id, &no_value(key));
    match (option, value) {
        (options::MODE, Chosen::Value(mode)) => match Mode::parse(&mode) {
            Some(mode) => {
                let owed = reply(connection, id, move |connection, _: Mode| shown(connection));
                api.set_mode(call, mode, owed);
            }
            None => wrong("value"),
        },
        (options::MODEL, Chosen::Value(model)) => {
            let owed = reply(connection, id, move |connection, _: (String, String)| shown(connection));
            api.set_model(call, None, model, Reach::Session, owed);
        }
        (options::THINKING, Chosen::Value(level)) => match ThinkingLevel::parse(&level) {
            Some(level) => {
                let owed = reply(connection, id, move |connection, _: ThinkingLevel| shown(connection));
                api.set_thinking_level(call, Some(level), Reach::Session, owed);
            }
            None => wrong("value"),
        },
        (options::COMPACTION, Chosen::Switch(on)) => {
            api.set_auto_compaction(
                call,
                on,
                reply(connection, id, move |connection, _: bool| shown(connection)),
            );
        }
        (options::RETRY, Chosen::Switch(on)) => {
            api.set_auto_retry(call, on, reply(connection, id, move |connection, _: bool| shown(connection)));
        }
        (options::MODE | options::MODEL | options::THINKING | options::COMPACTION | options::RETRY, _) => {
            wrong("value");
        }
        _ => wrong("configId"),
    }
}

fn query(acp: &Acp, connection: &Connection, id: Arc<str>, session: &SessionId, query: String) {
    let Some((call, project)) = call_to(acp, id.clone(), session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    let owed = reply(connection, id, |_, answer: QueryAnswer| {
        let found: Value<'static> = answer.result.clone();
        Ok(AcpResponse::Found(found))
    });
    project.api.query(call, GraphQuery { text: query, entity: None, strict: false }, owed);
}

/// Runs an op of the EDN wire, as another client than that of the session: what it says is told like anybody's, and a
/// focus that it moves is not the session's.
fn op(acp: &Acp, connection: &Connection, id: Arc<str>, session: &SessionId, op: &str, params: &str) {
    let Some((_, project)) = call_to(acp, id.clone(), session) else {
        return acp.reject(connection, &id, &Fault::no_session(session.as_str()));
    };
    let params = match edn::read_one(params.as_bytes()) {
        Ok(params @ Value::Map(_)) => params,
        Ok(_) => {
            return acp.reject(
                connection,
                &id,
                &Fault::new(Code::InvalidParams, "params.params must be an EDN map."),
            );
        }
        Err(error) => {
            let message = format!("params.params cannot be read as EDN: {error}.");
            return acp.reject(connection, &id, &Fault::new(Code::InvalidParams, message));
        }
    };
    let owed =
        reply(connection, id.clone(), |_, data: Map<'static>| Ok(AcpResponse::Found(Value::from(data))));
    let call = Call { session: session.clone(), ..project.call(id) };
    router::by_name(op, project.api.as_ref(), call, &params, owed);
}

/// Does what a notification says.
pub fn notice(acp: &Acp, connection: &Connection, notice: EditorNotice) {
    match notice {
        EditorNotice::Cancel(session) => cancel(acp, connection, &session),
        EditorNotice::CancelRequest(id) => {
            let session = {
                let mut state = acp.desk.lock();
                let prompt = state.prompt(&id).filter(|(_, prompt)| !prompt.is_inserted);
                prompt.map(|(session, _)| session.clone())
            };
            // Only prompts take long enough to be cancelled.
            if let Some(session) = session {
                cancel(acp, connection, &session);
            }
        }
    }
}

/// Ends the running turn of a session, and the editor's prompts that wait for one.
fn cancel(acp: &Acp, connection: &Connection, session: &SessionId) {
    let Some((call, project)) = call_to(acp, "\"\"".into(), session) else { return };
    let (prompts, choices) = {
        let mut state = acp.desk.lock();
        let Some(open) = state.sessions.get_mut(session) else { return };
        for prompt in &mut open.prompts {
            prompt.is_cancelled = true;
        }
        let prompts = open.prompts.clone();
        let choices = state.asked.iter().filter(|(_, asked)| {
            matches!(asked, PendingEditorRequest::Choice { .. }) && asked.home() == session
        });
        let choices: Vec<_> = choices.map(|(id, _)| id.clone()).collect();
        (prompts, choices)
    };
    // A slash command that waits for a choice ends with it.
    for choice in choices {
        let asked = acp.desk.lock().asked.remove(&choice);
        if let Some(asked) = asked {
            let version = acp.version();
            connection.outbox().push_frame(|out, ()| version.withdraw(out, &choice));
            settle_asked(acp, &choice, asked, &EditorAnswer::Dismissed);
        }
    }
    let (weak, session, api) = (connection.weak(), session.clone(), project.api.clone());
    let asked = call.clone();
    let aborted = Reply::new(move |_: Result<bool, ApiError>| {
        let (next, removing) = (api.clone(), asked.clone());
        let waiting = Reply::new(move |waiting: Result<WaitingMessages, ApiError>| {
            let turns = turns(&prompts);
            for message in waiting.map(|waiting| waiting.messages).unwrap_or_default() {
                let Some(turn) = message.turn.filter(|turn| turns.contains(turn)) else { continue };
                let (weak, session) = (weak.clone(), session.clone());
                let removed = Reply::new(move |removed: Result<Removed, ApiError>| {
                    let Some(connection) = weak.upgrade().filter(|_| removed.is_ok()) else { return };
                    let acp = connection.wire();
                    let is_its = |prompt: &Prompting| prompt.turn.as_ref() == Some(&turn);
                    let its = acp.desk.lock().take_prompts(&session, is_its);
                    for prompt in its {
                        answer_cancelled(&connection, &prompt);
                    }
                });
                next.remove_pending(removing.clone(), message.entry, removed);
            }
        });
        api.pending(asked, None, waiting);
    });
    project.api.abort(call, None, aborted);
}

/// The answer of the editor to a request. A late one finds no question, and does nothing.
pub fn answered(acp: &Acp, _: &Connection, id: &str, result: Result<Value<'_>, String>) {
    let asked = acp.desk.lock().asked.get(id).cloned();
    match asked {
        Some(asked) => {
            let said = acp.version().said(asked.as_form(), result);
            // A page that was opened is told to be over when the question has ended.
            if !matches!(
                (&asked, &said),
                (PendingEditorRequest::Question { is_page: true, .. }, EditorAnswer::Done)
            ) {
                acp.desk.lock().asked.remove(id);
            }
            settle_asked(acp, id, asked, &said);
        }
        None => tracing::debug!("an answer to no open question is ignored"),
    }
}

/// Passes on what was said to a question.
fn settle_asked(acp: &Acp, id: &str, asked: PendingEditorRequest, said: &EditorAnswer) {
    let Some((call, project)) = call_to(acp, "\"\"".into(), asked.home()) else { return };
    match asked {
        PendingEditorRequest::Question { kind, .. } => {
            let dismissal = |id: &str| Response {
                interaction_id: id.to_owned(),
                accepted: false,
                answer: AnswerFields::default(),
                note: None,
            };
            let response = match questions::answer(kind, said) {
                Some(answer) => Response { accepted: true, answer, ..dismissal(id) },
                None => dismissal(id),
            };
            let (api, again, dismissal) = (project.api.clone(), call.clone(), dismissal(id));
            let reply = Reply::new(move |done: Result<(), ApiError>| {
                // What does not fit the question is a refusal too: the editor has closed its dialog.
                if done.is_err_and(|error| error.code == ErrorCode::InvalidParams) {
                    api.respond(again, dismissal, Reply::new(|_| {}));
                }
            });
            project.api.respond(call, response, reply);
        }
        PendingEditorRequest::Choice { kind, picks, request, .. } => {
            let pick = questions::index(said).and_then(|place| picks.get(place).cloned());
            let status = if pick.is_some() { ActionStatus::Submitted } else { ActionStatus::Cancelled };
            let request_id = id.to_owned();
            let result = ActionResult { request_id, kind: Some(kind), status, pick, error_message: None };
            project.api.action_result(Call { request, ..call }, result, Reply::new(|_| {}));
        }
    }
}

/// Shows the state of each session again.
pub fn show_states(acp: &Acp, connection: &Connection) {
    let sessions: Vec<_> = {
        let mut state = acp.desk.lock();
        let open = state.sessions.iter_mut();
        open.map(|(session, open)| {
            let told = std::mem::replace(&mut open.left_out_told, open.left_out);
            (session.clone(), open.told.connection, (open.left_out > told).then_some(open.left_out))
        })
        .collect()
    };
    for (session, number, left_out) in sessions {
        if let Some(left_out) = left_out {
            let message = format!("left-out-{left_out}").into();
            let update = Update::Text { voice: Voice::Agent, message, text: LEFT_OUT.into() };
            let version = acp.version();
            connection.outbox().push_frame(|out, ()| version.update(out, &session, &update));
        }
        let Some(project) = acp.engines.of(&session) else { continue };
        for event in project.api.snapshot(number, &session, Snapshot::State, None) {
            connection.outbox().push_event(&event, || true);
        }
    }
}

/// What an editor is told in a session of which too much waited for it.
const LEFT_OUT: &str = "\n\n[The editor read nothing for a while, and some of what was said here is left out. The session \
                        has all of it: load it again.]\n\n";
