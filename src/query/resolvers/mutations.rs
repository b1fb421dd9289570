//! The mutations. Each is an op under another name, with the same checks and the same call.

use std::sync::Arc;

use crate::catalogue::{ErrorCode, Op, thinking_level};
use crate::facts::{JobFacts, Note};
use crate::message::Mode;
use crate::projection;
use crate::query::graph::Mutation;
use crate::session::{ApiError, Call, Reach, Reply, SessionApi};
use crate::value::{Map, Value};

const SESSION: &[&str] = &["psi.agent-session/session-id"];

pub(super) const MUTATIONS: &[Mutation] = &[
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
        doc: "Sets the model: {:id}, :provider, and :scope \"session\", \"project\" or \"user\".",
        op: Op::SetModel,
        params: |params| renamed(params, "id", "model-id"),
        output: SESSION,
        run: |api, call, params, reply| {
            let answer = of_session(&call, reply);
            let provider = params.get_keyword("provider").and_then(Value::as_str).map(str::to_owned);
            api.set_model(call, provider, text(params, "model-id"), reach(params), answer);
        },
    },
    Mutation {
        name: "psi.session/set-thinking-level",
        doc: "Sets the thinking level: {:level :scope}.",
        op: Op::SetThinkingLevel,
        params: Clone::clone,
        output: SESSION,
        run: |api, call, params, reply| {
            let level = params.get_keyword("level").and_then(thinking_level);
            let answer = of_session(&call, reply);
            api.set_thinking_level(call, level, reach(params), answer);
        },
    },
    Mutation {
        name: "psi.session/set-mode",
        doc: "Sets the permission mode: {:mode}.",
        op: Op::SetMode,
        params: Clone::clone,
        output: SESSION,
        run: |api, call, params, reply| {
            let answer = of_session(&call, reply);
            let mode = params.get_keyword("mode").and_then(Value::as_str).and_then(Mode::parse);
            api.set_mode(call, mode.unwrap_or_default(), answer);
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
            api.abort(call, None, answer);
        },
    },
    Mutation {
        name: "psi.memory/remember",
        doc: "Keeps a note for later sessions, like /remember: {:text}. Returns the :note once it is on disk.",
        op: Op::Command,
        params: Clone::clone,
        output: SESSION,
        run: |api, call, params, reply| {
            let session = call.session.to_value();
            let answer = Reply::new(move |kept: Result<Note, ApiError>| {
                reply.send(kept.map(|note| {
                    let answer = Map::new().with("psi.agent-session/session-id", session);
                    answer.with("note", projection::note(&note).into_owned())
                }));
            });
            api.remember(call, text(params, "text"), answer);
        },
    },
    Mutation {
        name: "psi.memory/forget",
        doc: "Removes a note: {:id}.",
        op: Op::Command,
        params: |params| renamed(params, "id", "text"),
        output: SESSION,
        run: |api, call, params, reply| {
            let note = text(params, "text");
            let session = call.session.to_value();
            let name = note.clone();
            let answer = Reply::new(move |was_there: Result<bool, ApiError>| {
                reply.send(match was_there {
                    Ok(true) => Ok(Map::new().with("psi.agent-session/session-id", session)),
                    Ok(false) => Err(ApiError::not_found("note", &name)),
                    Err(error) => Err(error),
                });
            });
            api.forget(call, note, answer);
        },
    },
    Mutation {
        name: "psi.job/cancel",
        doc: "Ends a background job of the session: {:id}. Returns the :job.",
        op: Op::CancelBackgroundJob,
        params: |params| renamed(params, "id", "job-id"),
        output: &["psi.job/id", "psi.agent-session/session-id"],
        run: |api, call, params, reply| {
            let session = call.session.to_value();
            let answer = Reply::new(move |result: Result<Arc<JobFacts>, ApiError>| {
                reply.send(result.map(|job| {
                    let shown = projection::job(&job).into_owned();
                    let answer = Map::new().with("psi.job/id", job.id.to_string()).with("job", shown);
                    answer.with("psi.agent-session/session-id", session)
                }));
            });
            api.cancel_job(call, text(params, "job-id"), answer);
        },
    },
    Mutation {
        name: "psi.interaction/grant",
        doc: "Approves the request of a question: {:id}, and a :note to the model.",
        op: Op::InteractionRespond,
        params: |params| renamed(params, "id", "interaction-id").with("status", "accepted"),
        output: SESSION,
        run: |api, call, params, reply| decide(api, call, params, true, reply),
    },
    Mutation {
        name: "psi.interaction/refuse",
        doc: "Refuses the request of a question: {:id}, and a :note to the model.",
        op: Op::InteractionRespond,
        params: |params| renamed(params, "id", "interaction-id").with("status", "accepted"),
        output: SESSION,
        run: |api, call, params, reply| decide(api, call, params, false, reply),
    },
];

fn reach(params: &Map<'static>) -> Reach {
    match params.get_keyword("scope").and_then(Value::as_str) {
        Some("project") => Reach::Project,
        Some("user") => Reach::User,
        _ => Reach::Session,
    }
}

fn text(params: &Map<'static>, key: &str) -> String {
    let value = params.get_keyword(key);
    value.and_then(|value| value.as_str().or_else(|| value.as_keyword())).unwrap_or_default().to_owned()
}

/// The op's params, if one of them has a longer name than the mutation's.
fn renamed(params: &Map<'static>, from: &str, to: &'static str) -> Map<'static> {
    let mut params = params.clone();
    if let Some(value) = params.remove(&Value::keyword(from)) {
        params.put(to, value);
    }
    params
}

/// Answers with the session's id, so that a join can continue from it.
fn of_session<T: 'static>(call: &Call, reply: Reply<Map<'static>>) -> Reply<T> {
    let session = call.session.to_value();
    Reply::new(move |result: Result<T, ApiError>| {
        reply.send(result.map(|_| Map::new().with("psi.agent-session/session-id", session)));
    })
}

fn decide(
    api: &dyn SessionApi,
    call: Call,
    params: &Map<'static>,
    approve: bool,
    reply: Reply<Map<'static>>,
) {
    let note = params.get_keyword("note").and_then(Value::as_str).map(str::to_owned);
    if params.get_keyword("note").is_some() && note.is_none() {
        return reply.fail(ApiError::new(ErrorCode::InvalidParams, ":note must be a string."));
    }
    let answer = of_session(&call, reply);
    api.decide(call, text(params, "interaction-id"), approve, note, answer);
}
