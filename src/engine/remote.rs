//! Calls between hosts of a realm: what is asked of a session's owner, and how the owner carries it out for the asker.
//!
//! A call is a typed call of the session API, as EDN by serde; no words of a wire cross. The owner makes it as a client of
//! its own ([`follower`](super::follower)), so that the rules for clients hold for other hosts too.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::catalogue::{ERROR_CODES, ErrorCode};
use crate::edn;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::services::refused;
use crate::event::question::{Answer, ApprovalScope, QuestionContent};
use crate::facts::rule::Rule;
use crate::federation::Federation;
use crate::interaction::{Origin, Question, Resolution};
use crate::message::image::Image;
use crate::message::{EntryId, Mode, SessionId, ThinkingLevel, TurnId};
use crate::realm::{Posted, RealmRequest};
use crate::session::{
    Again, AnswerFields, ApiError, Call, Interrupted, Prompt, Prompted, Questions as _, Queues as _, Reach,
    Removed, Reply, Response, Resumed, SessionSettings as _, Sessions as _, SwitchTarget, TurnState,
    Turns as _,
};

/// What is asked of a session's owner.
#[derive(Debug, Serialize, Deserialize)]
pub enum RemoteCall {
    /// The asker's clients see the session: they are told what no entry says, and answer its questions.
    Follow,
    /// The open questions of its turns.
    Questions,
    /// An answer to one of them.
    Respond(RemoteResponse),
    Prompt(RemotePrompt),
    Steer(RemotePrompt),
    FollowUp(RemotePrompt),
    /// The model is asked again: with `true` in place of the last answer, otherwise after it.
    AskAgain(bool, Option<String>),
    Abort(Option<String>),
    Interrupt(Option<String>),
    AbortRetry,
    Compact(Option<String>),
    RemovePending(EntryId),
    MovePending(EntryId, Option<EntryId>),
    ResumeQueue,
    SetName(String),
    SetModel(String, String),
    SetThinking(Option<String>),
    SetMode(String),
    SetAutoCompaction(bool),
    SetAutoRetry(bool),
}

/// A message for a session.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemotePrompt {
    message: String,
    /// Of each image the type and the bytes, base64.
    images: Vec<(String, String)>,
    key: Option<String>,
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
struct RemotePrompted {
    turn: Option<TurnId>,
    repeated: Option<String>,
}

/// An answer to a question. A secret does not cross.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RemoteResponse {
    id: String,
    accepted: bool,
    note: Option<String>,
    text: Option<String>,
    ok: Option<bool>,
    index: Option<usize>,
    outcome: Option<String>,
    scope: Option<String>,
    rule: Option<Rule>,
    content: Option<String>,
}

/// An open question.
#[derive(Debug, Serialize, Deserialize)]
struct RemoteQuestion {
    id: Arc<str>,
    turn: Option<TurnId>,
    content: QuestionContent,
}

/// An answer to a call, or why it was refused.
#[derive(Debug, Serialize, Deserialize)]
enum RemoteAnswer<T> {
    Done(T),
    Refused { code: String, message: String, retryable: bool },
}

impl From<Prompt> for RemotePrompt {
    fn from(Prompt { message, images, idempotency_key: key }: Prompt) -> Self {
        let images = images.iter().map(|image| {
            let [mime_type, data] = image.parts();
            (mime_type.to_owned(), data.to_owned())
        });
        Self { message, images: images.collect(), key }
    }
}

impl RemotePrompt {
    fn read(self) -> Result<Prompt, ApiError> {
        let images = self.images.iter().map(|(mime_type, data)| {
            Image::from_base64(mime_type, data)
                .map_err(|error| ApiError::invalid_param("images", &error.to_string()))
        });
        let images = images.collect::<Result<_, _>>()?;
        Ok(Prompt { message: self.message, images, idempotency_key: self.key })
    }
}

/// The owner of a session, which is another host.
pub(super) struct Owner {
    engine: Engine,
    federation: Arc<Federation>,
    session: SessionId,
}

/// The owner of a call's session, if that is another host.
pub(super) fn owner_elsewhere(engine: &Engine, call: &Call) -> Option<Owner> {
    let federation = engine.shared.federation.get()?;
    let handle = engine.shared.tree.get(&call.session).ok()?;
    if !handle.snapshot().facts.is_elsewhere {
        return None;
    }
    engine.attend(call, &handle);
    Some(Owner { engine: engine.clone(), federation: federation.clone(), session: call.session.clone() })
}

/// Has the owner of a session tell this host what no entry says, and asks this host's clients what it asks.
pub(super) fn follow_owner(engine: &Engine, handle: &Handle) {
    let Some(federation) = engine.shared.federation.get().cloned() else { return };
    let owner = Owner { engine: engine.clone(), federation, session: handle.id.clone() };
    let (shared, engine, handle) = (engine.shared.clone(), engine.clone(), handle.clone());
    let asking = async move {
        let _: Result<(), ApiError> = owner.call(&RemoteCall::Follow).await;
        let open: Result<Vec<RemoteQuestion>, ApiError> = owner.call(&RemoteCall::Questions).await;
        match open {
            Ok(open) => open.into_iter().for_each(|question| ask_for_owner(&engine, &handle, question)),
            Err(error) => tracing::debug!(%error, "the questions of another host are not known"),
        }
    };
    shared.tasks.spawn_on(asking, &shared.executor);
}

/// Asks this host's clients a question of another host, with its id, and gives that host the answer.
fn ask_for_owner(engine: &Engine, handle: &Handle, asked: RemoteQuestion) {
    let RemoteQuestion { id, turn, content } = asked;
    let stop = CancellationToken::new();
    if !handle.asks_for_owner(&id, stop.clone()) {
        return;
    }
    let correlation = turn.as_ref().map_or_else(|| id.clone(), |turn| turn.as_str().into());
    let origin = Origin {
        session: handle.id.clone(),
        offset: handle.snapshot().offset,
        turn,
        cause: None,
        correlation,
        subagent: None,
    };
    let question = Question {
        content: Arc::new(content),
        warnings: Arc::default(),
        origin,
        timeout: None,
        unattended: false,
        journalled: false,
    };
    let (shared, engine, handle) = (engine.shared.clone(), engine.clone(), handle.clone());
    let asking = async move {
        let resolution = engine.shared.questions.ask_as(id.clone(), question, &stop).await;
        handle.asked_for_owner(&id);
        let Some(response) = response(&id, resolution) else { return };
        let call = Call { connection: 0, request: id, session: handle.id.clone() };
        let Some(owner) = owner_elsewhere(&engine, &call) else { return };
        if let Err(error) = owner.call::<()>(&RemoteCall::Respond(response)).await {
            tracing::warn!(%error, "an answer did not reach the session's owner");
        }
    };
    shared.tasks.spawn_on(asking, &shared.executor);
}

impl Owner {
    /// Asks, and completes the reply with the answer.
    pub(super) fn ask<T: DeserializeOwned + Send + 'static>(self, call: RemoteCall, reply: Reply<T>) {
        let executor = self.engine.shared.executor.clone();
        let tasks = self.engine.shared.tasks.clone();
        tasks.spawn_on(async move { reply.send(self.call(&call).await) }, &executor);
    }

    /// The same for what became of a message.
    pub(super) fn ask_prompt(self, call: RemoteCall, reply: Reply<Prompted>) {
        let read = move |prompted: Result<RemotePrompted, ApiError>| {
            reply.send(prompted.map(|RemotePrompted { turn, repeated }| {
                let states = [
                    TurnState::Waiting,
                    TurnState::Running,
                    TurnState::Done,
                    TurnState::CutOff,
                    TurnState::Returned,
                ];
                let state = |word: String| states.into_iter().find(|state| state.as_str() == word);
                Prompted { turn, repeated: repeated.and_then(state) }
            }));
        };
        self.ask(call, Reply::new(read));
    }

    async fn call<T: DeserializeOwned>(&self, call: &RemoteCall) -> Result<T, ApiError> {
        let params = edn::to_value(call).map_err(|error| ApiError::failed(error.to_string()))?;
        let mut text = Vec::new();
        edn::write_compact(&params, &mut text);
        let request = RealmRequest {
            id: self.engine.shared.clock.id("r-").into(),
            call: String::from_utf8_lossy(&text).into(),
        };
        let answer = self.federation.post(&self.session, &request).await.map_err(|error| refused(&error))?;
        let wrong =
            |_| ApiError::failed("The session's owner answered something that this program does not know.");
        let value = edn::read_one(answer.as_bytes()).map_err(|_| wrong(()))?.into_owned();
        match edn::from_value(value).map_err(|_| wrong(()))? {
            RemoteAnswer::Done(answer) => Ok(answer),
            RemoteAnswer::Refused { code, message, retryable } => {
                let spec = ERROR_CODES.iter().find(|spec| spec.name == code);
                let code = spec.map_or(ErrorCode::Failed, |spec| spec.code);
                Err(ApiError { retryable, ..ApiError::new(code, message) })
            }
        }
    }
}

/// The answer that is owed to another host.
#[derive(Clone)]
struct Owed {
    federation: Arc<Federation>,
    request: Arc<str>,
    executor: tokio::runtime::Handle,
}

impl Owed {
    fn reply<T: Serialize + Send + 'static>(self) -> Reply<T> {
        Reply::new(move |result| self.send(result))
    }

    fn send<T: Serialize>(self, result: Result<T, ApiError>) {
        let answer = match result {
            Ok(done) => RemoteAnswer::Done(done),
            Err(error) => RemoteAnswer::Refused {
                code: error.code.as_str().to_owned(),
                message: error.message,
                retryable: error.retryable,
            },
        };
        let Ok(value) = edn::to_value(&answer) else { return };
        let mut text = Vec::new();
        edn::write_compact(&value, &mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let Self { federation, request, executor } = self;
        executor.spawn(async move { federation.answer(&request, &text).await });
    }
}

/// Takes a request of another host, if its session is live here, or else with `opens`. Returns whether it is taken.
pub fn take_request(engine: &Engine, posted: &Arc<Posted>, opens: bool) -> bool {
    let Some(federation) = engine.shared.federation.get().cloned() else { return false };
    if !opens && engine.shared.tree.get(&posted.session).is_err() {
        return false;
    }
    let owed =
        Owed { federation, request: posted.request.id.clone(), executor: engine.shared.executor.clone() };
    if !engine.remote.is_new(&posted.request.id) {
        return true;
    }
    let (shared, engine, posted) = (engine.shared.clone(), engine.clone(), posted.clone());
    let serving = async move {
        let opened = engine.opener.open(SwitchTarget::Id(posted.session.clone())).await;
        let handle = match opened {
            Ok((handle, _)) => handle,
            Err(error) => return owed.send::<()>(Err(error)),
        };
        let call = edn::read_one(posted.request.call.as_bytes()).map(|value| value.into_owned());
        let call = call.ok().and_then(|value| edn::from_value::<RemoteCall>(value).ok());
        let Some(call) = call else {
            let message = "This host does not know what is asked of it: its program is older.";
            return owed.send::<()>(Err(ApiError::failed(message)));
        };
        serve_owner_call(&engine, &handle, &posted, call, owed);
    };
    shared.tasks.spawn_on(serving, &shared.executor);
    true
}

fn serve_owner_call(engine: &Engine, handle: &Handle, posted: &Posted, asked: RemoteCall, owed: Owed) {
    let (connection, new) = engine.followers.connection(&engine.shared, &handle.id, &posted.from);
    if let Some(client) = new {
        // It asks for open questions itself.
        let _executor = engine.shared.executor.enter();
        let _ = engine.joined(connection, &client);
    }
    let call = Call { connection, request: posted.request.id.clone(), session: handle.id.clone() };
    let prompted = |owed: Owed| {
        Reply::new(move |result: Result<Prompted, ApiError>| {
            owed.send(result.map(|Prompted { turn, repeated }| RemotePrompted {
                turn,
                repeated: repeated.map(|state| state.as_str().to_owned()),
            }));
        })
    };
    let prompt = |prompt: RemotePrompt, owed: &Owed| match prompt.read() {
        Ok(prompt) => Some(prompt),
        Err(error) => {
            owed.clone().send::<()>(Err(error));
            None
        }
    };
    match asked {
        RemoteCall::Follow => {
            engine.attend(&call, handle);
            owed.send(Ok(()));
        }
        RemoteCall::Questions => {
            let open = engine.shared.questions.open().into_iter();
            let own = open
                .filter(|(_, _, question, _)| question.origin.session == handle.id && question.journalled);
            let own: Vec<_> = own
                .map(|(_, id, question, _)| RemoteQuestion {
                    id,
                    turn: question.origin.turn.clone(),
                    content: (*question.content).clone(),
                })
                .collect();
            owed.send(Ok(own));
        }
        RemoteCall::Respond(given) => engine.respond(call, given.read(), owed.reply()),
        RemoteCall::Prompt(given) => {
            if let Some(given) = prompt(given, &owed) {
                engine.prompt(call, given, prompted(owed));
            }
        }
        RemoteCall::Steer(given) => {
            if let Some(given) = prompt(given, &owed) {
                engine.steer(call, given, prompted(owed));
            }
        }
        RemoteCall::FollowUp(given) => {
            if let Some(given) = prompt(given, &owed) {
                engine.follow_up(call, given, prompted(owed));
            }
        }
        RemoteCall::AskAgain(retries, key) => {
            let how = if retries { Again::Retry } else { Again::Continue };
            engine.ask_again(call, how, key, prompted(owed));
        }
        RemoteCall::Abort(key) => engine.abort(call, key, owed.reply()),
        RemoteCall::Interrupt(key) => {
            let reply = |result: Result<Interrupted, ApiError>| {
                owed.send(result.map(|done| (done.waits_for, done.text, done.is_repeated)));
            };
            engine.interrupt(call, key, Reply::new(reply));
        }
        RemoteCall::AbortRetry => engine.abort_retry(call, owed.reply()),
        RemoteCall::Compact(instructions) => engine.compact(call, instructions, owed.reply()),
        RemoteCall::RemovePending(entry) => {
            let reply = |result: Result<Removed, ApiError>| {
                owed.send(result.map(|removed| (removed.text, removed.images)));
            };
            engine.remove_pending(call, entry, Reply::new(reply));
        }
        RemoteCall::MovePending(entry, before) => engine.move_pending(call, entry, before, owed.reply()),
        RemoteCall::ResumeQueue => {
            let reply = |result: Result<Resumed, ApiError>| {
                owed.send(result.map(|resumed| (resumed.is_resumed, resumed.turn)));
            };
            engine.resume_queue(call, Reply::new(reply));
        }
        RemoteCall::SetName(name) => engine.set_name(call, name, owed.reply()),
        RemoteCall::SetModel(provider, model) => {
            engine.set_model(call, provider, model, Reach::Session, owed.reply());
        }
        RemoteCall::SetThinking(level) => {
            let level = level.as_deref().and_then(ThinkingLevel::parse);
            let reply = |result: Result<ThinkingLevel, ApiError>| {
                owed.send(result.map(|level| level.as_str().to_owned()));
            };
            engine.set_thinking_level(call, level, Reach::Session, Reply::new(reply));
        }
        RemoteCall::SetMode(mode) => {
            let Some(mode) = Mode::parse(&mode) else {
                return owed.send::<()>(Err(ApiError::invalid_param("mode", "a mode of this host")));
            };
            let reply = |result: Result<Mode, ApiError>| {
                owed.send(result.map(|mode| mode.as_str().to_owned()));
            };
            engine.set_mode(call, mode, Reply::new(reply));
        }
        RemoteCall::SetAutoCompaction(enabled) => engine.set_auto_compaction(call, enabled, owed.reply()),
        RemoteCall::SetAutoRetry(enabled) => engine.set_auto_retry(call, enabled, owed.reply()),
    }
}

impl RemoteResponse {
    fn read(self) -> Response {
        let Self { id, accepted, note, text, ok, index, outcome, scope, rule, content } = self;
        let answer =
            AnswerFields { text, ok, index, outcome, scope, rule, content, ..AnswerFields::default() };
        Response { interaction_id: id, accepted, answer, note }
    }
}

/// What the owner is told of how a question ended here; `None` if nobody has answered.
fn response(id: &str, resolution: Resolution) -> Option<RemoteResponse> {
    let mut response = RemoteResponse { id: id.to_owned(), ..RemoteResponse::default() };
    let word = |scope: ApprovalScope| Some(scope.as_str().to_owned());
    match resolution {
        Resolution::Accepted { answer, note } => {
            response.accepted = true;
            response.note = note;
            response.outcome = answer.outcome().map(str::to_owned);
            match answer {
                Answer::Text(text) => response.text = Some(text),
                Answer::Option(index) => response.index = Some(index),
                Answer::Confirm(ok) => response.ok = Some(ok),
                Answer::Approve { scope, rule, content } => {
                    response.scope = scope.and_then(word);
                    response.rule = rule;
                    response.content = content.map(|content| content.to_string());
                }
                Answer::Forbid { scope, rule } => {
                    response.scope = word(scope);
                    response.rule = rule;
                }
                Answer::Deny | Answer::Defer => {}
                // A secret stays on its machine.
                Answer::Secret(_) | Answer::Done(_) => return None,
            }
        }
        Resolution::Cancelled { note } => response.note = note,
        Resolution::Headless | Resolution::TimedOut | Resolution::Withdrawn => return None,
    }
    Some(response)
}
