//! The UI wire's side of a connection: serves its lines, and chooses the events that its client receives.
//!
//! Knows methods, the desk and the routes. Knows neither what a method does nor how a session lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;

use crate::catalogue::ErrorCode;
use crate::clock::Clock;
use crate::event::question::{Answer, QuestionKind};
use crate::event::{Body, ChoiceKind, Event, Pick, Subagent};
use crate::limits::{ERROR_NAME_CHARS, MAX_PENDING, UI_LINE_BYTES};
use crate::message::SessionId;
use crate::session::{
    ActionResult, ActionStatus, Agreed, AnswerFields, ApiError, Call, Client as _, Pressure, Reply, Response,
    SessionApi, Snapshot,
};
use crate::value::{Map, Value};
use crate::wire::connection::{self, ConnectionEnd, Wire};
use crate::wire::jsonrpc::{self, RpcMessage};
use crate::wire::lines::Line;
use crate::wire::transport::Transport;
use crate::wire::ui::codes::{Code, Fault};
use crate::wire::ui::connection_state::{OpenQuestion, OpenRequest, UiState};
use crate::wire::ui::encoder::UiEncoder;
use crate::wire::ui::frames::{self, NO_ID};
use crate::wire::ui::link::{Connection, Ui};
use crate::wire::ui::methods::{self, From};
use crate::wire::ui::questions;
use crate::wire::ui::request::{Ask, teller};
use crate::wire::ui::route;
use crate::wire::ui::shape;
use crate::wire::ui::tools;

/// Serves a connection; see [`connection::start`]. With `diagnostics`, model calls are told in figures.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    id: u64,
    transport: Transport,
    api: Arc<dyn SessionApi>,
    clock: Arc<dyn Clock>,
    diagnostics: bool,
    on_end: Box<dyn Fn(ConnectionEnd) + Send + Sync>,
) -> std::io::Result<Arc<Connection>> {
    let (tally, desk) = (api.tally(), Arc::new(UiState::default()));
    let wire = Ui {
        requests: tally.wire(methods::NAMES),
        tally,
        api: api.clone(),
        clock: clock.clone(),
        desk: desk.clone(),
        diagnostics,
        agreed: ArcSwapOption::empty(),
        catching_up: AtomicBool::new(false),
    };
    let encoder = UiEncoder::new(id, clock.clone(), desk, diagnostics);
    connection::start(id, transport, wire, encoder, api, clock, on_end)
}

/// Whether the interface shows a session, or the one above a subagent that asks.
fn is_shown(connection: &Connection, session: &SessionId, subagent: Option<&Subagent>) -> bool {
    let above =
        subagent.is_some_and(|of| connection.is_focused(&of.root) || connection.is_focused(&of.parent));
    above || connection.is_focused(session)
}

/// The request of the client that an event comes from.
fn own_request<'e>(connection: &Connection, event: &'e Event) -> Option<&'e Arc<str>> {
    event.cause.as_ref().filter(|cause| cause.connection == connection.id()).map(|cause| &cause.request)
}

impl Wire for Ui {
    type Api = dyn SessionApi;
    type Encoder = UiEncoder;

    fn line_bytes() -> usize {
        UI_LINE_BYTES
    }

    fn line(&self, connection: &Connection, line: &Line<'_>) {
        match jsonrpc::read_line(line, UI_LINE_BYTES, |id| connection.is_pending(id)) {
            Ok(None) => {}
            Ok(Some(RpcMessage::Request { id, method, params })) => {
                self.request(connection, id, &method, &params)
            }
            Ok(Some(RpcMessage::Notification { method, params })) => {
                self.notice(connection, &method, &params)
            }
            Ok(Some(RpcMessage::Response { id, result })) => {
                self.answered(connection, &id, result.map_err(|error| error.message));
            }
            Err((id, misread)) => {
                self.reject(connection, id.as_deref().unwrap_or(NO_ID), &Fault::from(misread));
            }
        }
    }

    /// The messages of the run that were left out; later ones follow with the next number.
    fn show_anew(&self, connection: &Connection, missed: u64) {
        tracing::debug!(missed, "a slow interface is shown its run again");
        self.catching_up.store(true, Ordering::Release);
        connection.api().catch_up(connection.id());
        self.catching_up.store(false, Ordering::Release);
        // Its state tells whether the run has ended meanwhile.
        self.desk.lock().caught_up = true;
        let state = connection.api().snapshot(connection.id(), &connection.focused(), Snapshot::State, None);
        for event in state {
            self.deliver(connection, &event);
        }
    }

    fn deliver(&self, connection: &Connection, event: &Event) -> Pressure {
        // Before the interface sees the end, after which it may bring others.
        if let Body::TurnEnded(_) = event.body
            && self.desk.lock().tools_in == event.session
        {
            route::take_tools_back(self, connection);
        }
        if let Body::QuestionEnded(ended) = &event.body
            && let Some(Answer::Deny | Answer::Forbid { .. }) = ended.answer
            && let Some(request) = own_request(connection, event)
            && let Some(declined) = self.desk.lock().quiet.get_mut(request)
        {
            *declined = true;
        }
        let wanted = || self.wants(connection, event);
        if !wanted() {
            return Pressure::Fine;
        }
        if let Body::ChoiceRequested(choice) = &event.body
            && let Some(request) = own_request(connection, event)
            && self.desk.lock().is_given_up(request)
        {
            self.choose(connection, &choice.request, choice.kind, request.clone(), None);
            return Pressure::Fine;
        }
        if let Body::CompactionStarted { asked: true } = event.body {
            self.answer_compaction(connection, event);
        }
        if let (Body::QuestionAsked(asked), Some(session)) = (&event.body, &event.session)
            && wanted()
            && !is_shown(connection, session, asked.subagent.as_ref())
        {
            let whose = self.whose(session);
            self.desk.lock().elsewhere.insert(asked.id.clone(), whose);
        }
        connection.outbox().push_event(event, wanted)
    }

    fn watches(&self, connection: &Connection, session: Option<&SessionId>) -> bool {
        session.is_some_and(|session| connection.is_focused(session))
    }

    fn lists_sessions(&self) -> bool {
        false
    }

    fn is_interactor(&self) -> bool {
        let can = self.desk.lock().can;
        can.confirm || can.prompt || can.pick
    }

    fn answers(&self, kind: QuestionKind) -> bool {
        self.desk.lock().can.answers(kind)
    }

    fn dialogs_only(&self) -> bool {
        false
    }

    fn topics(&self) -> Vec<&'static str> {
        methods::METHODS
            .iter()
            .filter(|method| method.from == From::RuntimeNotice)
            .map(|method| method.name)
            .collect()
    }

    fn agreed(&self) -> Option<Arc<Agreed>> {
        self.agreed.load_full()
    }
}

impl Ui {
    /// Makes the checks of the table, then serves the request.
    fn request(&self, connection: &Connection, id: Arc<str>, method: &str, params: &Value<'_>) {
        if connection.is_pending(&id) {
            let fault = Fault::new(Code::InvalidRequest, "A request with this id has no answer yet.");
            return self.reject(connection, NO_ID, &fault);
        }
        let found = methods::find(method).filter(|(_, found)| found.served && found.from == From::Ui);
        let Some((place, method)) = found else {
            return self.reject(
                connection,
                &id,
                &Fault::new(Code::MethodNotFound, "There is no such method."),
            );
        };
        if connection.is_crowded() {
            let message = format!("{MAX_PENDING} requests are pending; wait for an answer.");
            return self.refuse(connection, &id, place, &Fault::new(Code::Internal, message));
        }
        if let Err(misfit) = shape::check(method.params, params) {
            return self.refuse(connection, &id, place, &Fault::param(&misfit.key, &misfit.expected));
        }
        let _span = tracing::debug_span!("request", method = method.name, id = &*id).entered();
        route::serve(Ask { ui: self, connection, id, place, params });
    }

    /// A notification. One that is malformed or unknown is ignored.
    fn notice(&self, connection: &Connection, method: &str, params: &Value<'_>) {
        match methods::find(method).filter(|(_, found)| found.from == From::UiNotice) {
            Some((_, found)) => match shape::check(found.params, params) {
                Ok(()) => route::update_context(self, connection, params),
                Err(misfit) => tracing::debug!(?misfit, "a malformed notification is ignored"),
            },
            None => tracing::debug!("an unknown notification is ignored"),
        }
    }

    /// The answer of the interface to a request. A late one finds no question, and does nothing.
    pub fn answered(&self, connection: &Connection, id: &str, result: Result<Value<'_>, String>) {
        let session = connection.focused();
        let Some(OpenQuestion { asked, .. }) = self.take(connection, id) else {
            let is_call = self.desk.lock().calls.remove(id).is_some();
            if is_call {
                let call = Call { connection: connection.id(), request: "".into(), session };
                let answer = tools::answer(&result);
                return self.api.tool_result(call, id.to_owned(), answer, Reply::new(|_| {}));
            }
            return tracing::debug!("an answer to no open question is ignored");
        };
        let result = &result.unwrap_or(Value::Nil);
        match asked {
            OpenRequest::Question { kind, session, tool, is_elsewhere, .. } => {
                let mut said = questions::said(kind, result);
                // The run of another session goes on: nobody here sees it.
                said.ends_run &= !is_elsewhere;
                let call = Call { connection: connection.id(), request: "".into(), session };
                if said.ends_run {
                    let mut state = self.desk.lock();
                    if let Some(run) = &mut state.run {
                        run.declined = Some(tool.unwrap_or_default());
                    }
                }
                let (api, ending) = (self.api.clone(), call.clone());
                let dismissal = Response {
                    interaction_id: id.to_owned(),
                    accepted: false,
                    answer: AnswerFields::default(),
                    note: None,
                };
                let reply = Reply::new(move |done: Result<(), ApiError>| match done {
                    // Before the model can be asked again.
                    Ok(()) if said.ends_run => api.interrupt(ending, None, Reply::new(|_| {})),
                    // What does not fit the question is a refusal too: the interface has closed its dialog.
                    Err(error) if error.code == ErrorCode::InvalidParams => {
                        api.respond(ending, dismissal, Reply::new(|_| {}));
                    }
                    _ => {}
                });
                let response = Response {
                    interaction_id: id.to_owned(),
                    accepted: said.accepted,
                    answer: said.answer,
                    note: said.note,
                };
                self.api.respond(call, response, reply);
            }
            OpenRequest::Choice { kind, picks, request } => {
                let pick = questions::picked(result).and_then(|place| picks.get(place).cloned());
                self.choose(connection, id, kind, request, pick);
            }
            OpenRequest::Logout { request, clear_session } => {
                let agreed = jsonrpc::flag(result, "ok") == Some(true);
                route::logout(self, connection, request, agreed, clear_session);
            }
        }
    }

    /// Tells a slash command what was picked for it, if anything.
    fn choose(
        &self,
        connection: &Connection,
        id: &str,
        kind: ChoiceKind,
        request: Arc<str>,
        pick: Option<Pick>,
    ) {
        let status = if pick.is_some() { ActionStatus::Submitted } else { ActionStatus::Cancelled };
        let request_id = id.to_owned();
        let result = ActionResult { request_id, kind: Some(kind), status, pick, error_message: None };
        let call = Call { connection: connection.id(), request, session: connection.focused() };
        self.api.action_result(call, result, Reply::new(|_| {}));
    }

    /// Takes the open question with that id. The engine's stays on the desk until it has ended there.
    fn take(&self, _: &Connection, id: &str) -> Option<OpenQuestion> {
        let mut state = self.desk.lock();
        let open = state.question.as_ref().filter(|open| *open.id == *id)?;
        if matches!(open.asked, OpenRequest::Question { .. }) {
            return Some(open.clone());
        }
        state.take_question(id)
    }

    /// Answers `run.start` for the compaction that begins, before its events.
    fn answer_compaction(&self, connection: &Connection, event: &Event) {
        let Some(cause) = event.cause.as_ref().filter(|cause| cause.connection == connection.id()) else {
            return;
        };
        let Some(turn) = &event.turn else { return };
        let waits = |request: &mut Arc<str>| *request == cause.request;
        if self.desk.lock().compaction.take_if(waits).is_some() {
            let result = Map::new().with("run_id", turn.as_str());
            let begin = |out: &mut Vec<u8>, ()| {
                let mut state = self.desk.lock();
                teller(self, connection).begin(&mut state, out, turn.as_str().into());
            };
            let outbox = connection.outbox();
            outbox.push_frame_apart(|out, ()| frames::answer(out, &cause.request, &result), begin);
        }
    }

    /// The name of a session that is not shown, for a person.
    fn whose(&self, session: &SessionId) -> String {
        let facts = self.api.facts(session);
        let name = facts.as_ref().map(|facts| facts.display_name().to_owned());
        let shorten = |name: String| name.chars().take(ERROR_NAME_CHARS).collect::<String>();
        name.map(shorten).map_or_else(|| session.to_string(), |name| format!("{name:?}, {session}"))
    }

    /// Whether the wire has words for an event, and its session is the client's focus. Questions come from any
    /// session.
    fn wants(&self, connection: &Connection, event: &Event) -> bool {
        let quiet = || {
            let own = own_request(connection, event);
            own.is_some_and(|request| self.desk.lock().quiet.contains_key(request))
        };
        let is_here =
            || event.session.as_ref().is_some_and(|session| connection.is_focused(session)) && !quiet();
        match &event.body {
            Body::QuestionAsked(_) | Body::QuestionEnded(_) => self.is_interactor(),
            // They are addressed to this connection.
            Body::ToolRequested(_) | Body::RequestCancelled { .. } => true,
            Body::AssistantDelta(_) | Body::ThinkingDelta(_) => is_here() && self.desk.lock().can.deltas,
            Body::SessionRehydrated(_) => is_here() && self.catching_up.load(Ordering::Acquire),
            Body::CommandResult(_) | Body::ChoiceRequested(_) => own_request(connection, event).is_some(),
            Body::SessionUpdated(_)
            | Body::UserMessage(_)
            | Body::MessagesReplaced(_)
            | Body::FilesUndone(_)
            | Body::AssistantMessage(_)
            | Body::ToolExecuting(_)
            | Body::ToolResult(_)
            | Body::RetryAwaited(_)
            | Body::CompactionStarted { .. }
            | Body::CompactionEnded(_)
            | Body::TurnEnded(_)
            | Body::Error { .. } => is_here(),
            Body::Diagnostic(diagnostic) => diagnostic.is_of_session() && is_here(),
            _ => false,
        }
    }
}
