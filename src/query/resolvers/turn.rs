//! `:psi.turn/*`: the turns of a session, from its journal.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::message::{Message, Role, SessionId, TurnId, Usage, count, per_second};
use crate::query::graph::{
    Answer, Cost, Env, Failure, Input, Inputs, Namespace, Output, Resolver, Run, SESSION,
};
use crate::query::resolvers::session::SessionFact;
use crate::query::resolvers::tool::{Now, SUMMARY, last_turn, summaries};
use crate::query::resolvers::{answers, join, out, output_names};
use crate::value::{Map, Value};

/// The attributes of a turn.
const TURN: &[Output] = &[
    out("psi.turn/id"),
    out("psi.turn/text"),
    join("psi.turn/tool-calls", SUMMARY),
    out("psi.turn/tool-call-count"),
    out("psi.turn/message-count"),
    out("psi.turn/started-at"),
    out("psi.turn/ended-at"),
    out("psi.turn/duration-ms"),
    out("psi.turn/first-token-ms"),
    out("psi.turn/model-ms"),
    out("psi.turn/retries"),
    out("psi.turn/tokens-per-second"),
    out("psi.turn/stop-reason"),
    out("psi.turn/usage"),
];

const NAMES: &[&str] = &output_names::<{ TURN.len() }>(TURN);

/// The attributes of a turn, without its id.
const REST: &[Output] = match TURN {
    [_, rest @ ..] => rest,
    [] => &[],
};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        (
            "psi.agent-session/turns",
            "The turns on the current branch, oldest first; :limit selects the newest.",
        ),
        ("psi.turn/id", "The id of the running turn, or of the last one; nil before the first."),
        ("psi.turn/phase", "The turn's activity, from the session's phase."),
        ("psi.turn/is-streaming", "Whether it runs."),
        ("psi.turn/stage", "The stage of the last turn's latest boundary, such as :tool-call, or nil."),
        ("psi.turn/point", "The point of that boundary: :pre or :post, or nil."),
        ("psi.turn/text", "The model's text in the turn, as far as it is journalled."),
        ("psi.turn/tool-calls", "Its tool calls, as summaries."),
        ("psi.turn/tool-call-count", "The number of its tool calls."),
        ("psi.turn/message-count", "The number of its messages."),
        ("psi.turn/started-at", "When its first message was written, RFC 3339 in UTC, or nil."),
        ("psi.turn/ended-at", "When its newest message was written, RFC 3339 in UTC, or nil."),
        ("psi.turn/duration-ms", "The time between these two, in milliseconds."),
        (
            "psi.turn/first-token-ms",
            "The wait for the first piece of its first model call's answer, in milliseconds, or nil.",
        ),
        ("psi.turn/model-ms", "The total wait for its model calls, in milliseconds, or nil."),
        ("psi.turn/retries", "The number of retries of its model calls."),
        (
            "psi.turn/tokens-per-second",
            "The tokens of its answers per second of waiting for their model calls, or nil.",
        ),
        ("psi.turn/stop-reason", "Why its last model call ended, or nil."),
        ("psi.turn/usage", "The tokens and cost of its model calls together."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.turn/last",
            input: &[Input::Required(SESSION)],
            output: TURN,
            cost: Cost::Ready,
            run: Run::One(last),
        },
        Resolver {
            name: "psi.turn/now",
            input: &[Input::Required(SESSION)],
            output: &[
                out("psi.turn/phase"),
                out("psi.turn/is-streaming"),
                out("psi.turn/stage"),
                out("psi.turn/point"),
            ],
            cost: Cost::Ready,
            run: Run::One(now),
        },
        Resolver {
            name: "psi.agent-session/turns",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/turns", NAMES)],
            cost: Cost::Ready,
            run: Run::One(of_session),
        },
        Resolver {
            name: "psi.turn/by-id",
            input: &[Input::Required("psi.turn/id")],
            output: REST,
            cost: Cost::Ready,
            run: Run::Batch(by_id),
        },
    ],
    mutations: &[],
};

fn last(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let session = session.as_ref();
    Ok(answers(entity(&Now::of(env, session), &last_turn(session)), NAMES))
}

fn now(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let stage = session.stage();
    Ok(vec![
        ("psi.turn/phase", session.fact(SessionFact::Phase).into()),
        ("psi.turn/is-streaming", session.fact(SessionFact::IsStreaming).into()),
        ("psi.turn/stage", stage.as_ref().map(|passed| Value::keyword(passed.stage.as_str())).into()),
        ("psi.turn/point", stage.as_ref().map(|passed| Value::keyword(passed.point.as_str())).into()),
    ])
}

fn of_session(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let limit = env.count("limit")?.unwrap_or(usize::MAX);
    // The messages of one turn are adjacent. Goes from the newest on, to visit no more than requested.
    let mut turns: Vec<Vec<Arc<Message>>> = Vec::new();
    let mut open: Option<&TurnId> = None;
    for message in session.messages().rev() {
        let turn = message.turn_id.as_ref();
        if turn != open {
            open = turn;
            if turn.is_some() && turns.len() >= limit {
                break;
            }
            turns.extend(turn.map(|_| Vec::new()));
        }
        if let (Some(messages), Some(_)) = (turns.last_mut(), turn) {
            messages.push(message.clone());
        }
    }
    let now = Now::of(env, session.as_ref());
    let turns = turns.into_iter().rev().map(|mut messages| {
        messages.reverse();
        Value::from(entity(&now, &messages))
    });
    Ok(vec![("psi.agent-session/turns", Value::vector(turns).into())])
}

/// Searches in the query's session, once for all requested turns.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let Some(session) = env.world.session(SessionId::as_str(env.world.focus())) else {
        return inputs.iter().map(|_| Ok(Vec::new())).collect();
    };
    let asked = inputs.iter().filter_map(|inputs| inputs.text("psi.turn/id"));
    let mut turns: HashMap<&str, Vec<Arc<Message>>> = asked.map(|id| (id, Vec::new())).collect();
    for message in session.messages() {
        if let Some(messages) = message.turn_id.as_ref().and_then(|id| turns.get_mut(id.as_str())) {
            messages.push(message.clone());
        }
    }
    let now = Now::of(env, session.as_ref());
    // Many items of a list may belong to one turn, which is returned once.
    turns.retain(|_, messages| !messages.is_empty());
    let turns: HashMap<&str, Answer> =
        turns.into_iter().map(|(id, messages)| (id, answers(entity(&now, &messages), NAMES))).collect();
    let answer = |inputs: &Inputs<'_>| inputs.text("psi.turn/id").and_then(|id| turns.get(id));
    inputs.iter().map(|inputs| Ok(answer(inputs).cloned().unwrap_or_default())).collect()
}

fn entity(now: &Now, messages: &[Arc<Message>]) -> Map<'static> {
    let of_model = || messages.iter().filter(|message| message.role == Role::Assistant);
    let text: String = of_model().map(|message| message.text()).collect();
    let calls = summaries(now, messages);
    let times = [messages.first(), messages.last()].map(|message| message.map(|m| m.timestamp.clone()));
    let [from, to] = times.clone().map(|time| time.and_then(|time| time.parse::<Timestamp>().ok()));
    let duration = from.zip(to).map(|(from, to)| to.as_millisecond().saturating_sub(from.as_millisecond()));
    let mut usage = Usage::default();
    for message in of_model() {
        if let Some(used) = &message.usage {
            usage.add(used);
        }
    }
    let timed = || of_model().filter_map(|message| Some((message, message.timing?)));
    let (mut tokens, mut millis) = (0u64, 0u64);
    for (usage, timing) in timed().filter_map(|(message, timing)| Some((message.usage?, timing))) {
        tokens = tokens.saturating_add(usage.output);
        millis = millis.saturating_add(timing.duration_ms);
    }
    let rate = per_second(tokens, millis);
    let model_ms = timed().map(|(_, timing)| timing.duration_ms).reduce(u64::saturating_add);
    let retries = timed().fold(0u64, |sum, (_, timing)| sum.saturating_add(timing.retries.into()));
    let first_token = timed().next().and_then(|(_, timing)| timing.first_token_ms);
    let turn = messages.last().and_then(|message| message.turn_id.as_ref());
    let [started, ended] = times.map(|time| time.map(|time| Value::from(time.to_string())));
    let mut map = Map::new();
    map.put("psi.turn/id", turn.map(TurnId::to_value));
    map.put("psi.turn/text", text);
    map.put("psi.turn/tool-call-count", calls.len());
    map.put("psi.turn/tool-calls", Value::vector(calls));
    map.put("psi.turn/message-count", messages.len());
    map.put("psi.turn/started-at", started);
    map.put("psi.turn/ended-at", ended);
    map.put("psi.turn/duration-ms", duration.unwrap_or(0));
    map.put("psi.turn/first-token-ms", first_token.map(count));
    map.put("psi.turn/model-ms", model_ms.map(count));
    map.put("psi.turn/retries", count(retries));
    map.put("psi.turn/tokens-per-second", rate.map(Value::from));
    let stop = of_model().next_back().and_then(|message| message.stop_reason);
    map.put("psi.turn/stop-reason", stop.map(|reason| Value::from(reason.as_str())));
    map.put("psi.turn/usage", usage.to_value());
    map
}
