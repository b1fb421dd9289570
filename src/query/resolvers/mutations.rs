//! What a query can change. Each mutation is an op under another name: the same checks, the same call.

use crate::catalogue::{ErrorCode, Op, thinking_level};
use crate::query::graph::{Mutation, Namespace};
use crate::session::{ApiError, Call, Reach, Reply, Response, SessionApi};
use crate::value::{Map, Value};

const SESSION: &[&str] = &["psi.agent-session/session-id"];

pub(super) const PART: Namespace = Namespace {
    attributes: &[],
    resolvers: &[],
    mutations: &[
        Mutation {
            name: "psi.session/rename",
            doc: "Names the session: {:name}.",
            op: Op::SetSessionName,
            params: Clone::clone,
            output: SESSION,
            run: |api, call, params, reply| {
                let answer = of_session(&call, reply);
                api.set_name(call, text(params, "name"), answer);
            },
        },
        Mutation {
            name: "psi.session/set-model",
            doc: "Chooses the model: {:provider :id}, and :scope \"session\", \"project\" or \"user\".",
            op: Op::SetModel,
            params: |params| renamed(params, "id", "model-id"),
            output: SESSION,
            run: |api, call, params, reply| {
                let reach = match params.get_keyword("scope").and_then(Value::as_str) {
                    Some("project") => Reach::Project,
                    Some("user") => Reach::User,
                    _ => Reach::Session,
                };
                let answer = of_session(&call, reply);
                api.set_model(call, text(params, "provider"), text(params, "model-id"), reach, answer);
            },
        },
        Mutation {
            name: "psi.session/set-thinking-level",
            doc: "Chooses how much the model may think: {:level}.",
            op: Op::SetThinkingLevel,
            params: Clone::clone,
            output: SESSION,
            run: |api, call, params, reply| {
                let level = params.get_keyword("level").and_then(thinking_level);
                let answer = of_session(&call, reply);
                api.set_thinking_level(call, level, answer);
            },
        },
        Mutation {
            name: "psi.session/set-mode",
            doc: "Chooses what tools may do without asking: {:mode}.",
            op: Op::SetMode,
            params: Clone::clone,
            output: SESSION,
            run: |api, call, params, reply| {
                let answer = of_session(&call, reply);
                api.set_mode(call, text(params, "mode"), answer);
            },
        },
        Mutation {
            name: "psi.session/abort",
            doc: "Ends the running turn at once.",
            op: Op::Abort,
            params: Clone::clone,
            output: SESSION,
            run: |api, call, _, reply| {
                let answer = of_session(&call, reply);
                api.abort(call, answer);
            },
        },
        Mutation {
            name: "psi.memory/remember",
            doc: "Keeps a note for later sessions, as /remember does: {:text}.",
            op: Op::Command,
            params: Clone::clone,
            output: SESSION,
            run: |api, call, params, reply| {
                let answer = of_session(&call, reply);
                // One line, so that a note can be nothing but a note.
                let note = text(params, "text").replace(['\n', '\r'], " ");
                api.command(call, format!("/remember {note}"), answer);
            },
        },
        Mutation {
            name: "psi.job/cancel",
            doc: "Ends a background job: {:id}.",
            op: Op::CancelBackgroundJob,
            params: |params| renamed(params, "id", "job-id"),
            output: &[],
            run: |api, call, params, reply| {
                let answer = Reply::new(move |result: Result<Value<'static>, ApiError>| {
                    reply.send(result.map(|job| Map::new().with("job", job)));
                });
                api.cancel_job(call, text(params, "job-id"), answer);
            },
        },
        Mutation {
            name: "psi.interaction/grant",
            doc: "Approves what a question asks for: {:id}, and :note to the model.",
            op: Op::InteractionRespond,
            params: |params| renamed(params, "id", "interaction-id").with("status", "accepted"),
            output: SESSION,
            run: |api, call, params, reply| respond(api, call, params, "approve", reply),
        },
        Mutation {
            name: "psi.interaction/refuse",
            doc: "Refuses what a question asks for: {:id}, and :note to the model.",
            op: Op::InteractionRespond,
            params: |params| renamed(params, "id", "interaction-id").with("status", "accepted"),
            output: SESSION,
            run: |api, call, params, reply| respond(api, call, params, "deny", reply),
        },
    ],
};

fn text(params: &Map<'static>, key: &str) -> String {
    let value = params.get_keyword(key);
    value.and_then(|value| value.as_str().or_else(|| value.as_keyword())).unwrap_or_default().to_owned()
}

/// The op's params, where one of them has a longer name than the mutation's.
fn renamed(params: &Map<'static>, from: &str, to: &'static str) -> Map<'static> {
    let mut params = params.clone();
    if let Some(value) = params.remove(&Value::keyword(from)) {
        params.put(to, value);
    }
    params
}

/// Answers with the session's id, from which a join can ask on.
fn of_session<T: 'static>(call: &Call, reply: Reply<Map<'static>>) -> Reply<T> {
    let session = call.session.to_value();
    Reply::new(move |result: Result<T, ApiError>| {
        reply.send(result.map(|_| Map::new().with("psi.agent-session/session-id", session)));
    })
}

fn respond(
    api: &dyn SessionApi,
    call: Call,
    params: &Map<'static>,
    outcome: &'static str,
    reply: Reply<Map<'static>>,
) {
    let note = params.get_keyword("note").and_then(Value::as_str).map(str::to_owned);
    if params.get_keyword("note").is_some() && note.is_none() {
        return reply.fail(ApiError::new(ErrorCode::InvalidParams, ":note must be a string."));
    }
    let mut value = Map::new();
    value.put("outcome", outcome);
    let response =
        Response { interaction_id: text(params, "interaction-id"), accepted: true, value: Some(value), note };
    let answer = of_session(&call, reply);
    api.respond(call, response, answer);
}
