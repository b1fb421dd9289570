//! `:psi.turn/*`: the turns of a session, as far as they are journalled.

use std::sync::Arc;

use jiff::Timestamp;

use crate::message::{Message, Role, SessionId, TurnId, Usage};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::session::SessionFact;
use crate::query::resolvers::tool::{SUMMARY, summaries};
use crate::query::resolvers::{answers, join, out};
use crate::query::world::SessionView;
use crate::value::{Map, Value};

/// What is known of any turn.
const TURN: &[&str] = &[
    "psi.turn/id",
    "psi.turn/text",
    "psi.turn/tool-calls",
    "psi.turn/tool-call-count",
    "psi.turn/message-count",
    "psi.turn/started-at",
    "psi.turn/ended-at",
    "psi.turn/duration-ms",
    "psi.turn/stop-reason",
    "psi.turn/usage",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        (
            "psi.agent-session/turns",
            "The turns on the current branch, oldest first; :limit takes the newest.",
        ),
        ("psi.turn/id", "The id of the running turn, or of the last one; nil before the first."),
        ("psi.turn/phase", "What the turn does, as the session's phase says it."),
        ("psi.turn/is-streaming", "Whether it runs."),
        ("psi.turn/stage", "The stage whose boundary the last turn passed last, such as :tool-call, or nil."),
        ("psi.turn/point", "On which side of that stage it was: :pre or :post, or nil."),
        ("psi.turn/text", "What the model said in it, as far as it is journalled."),
        ("psi.turn/tool-calls", "Its tool calls, as summaries."),
        ("psi.turn/tool-call-count", "How many tool calls it made."),
        ("psi.turn/message-count", "How many messages it has."),
        ("psi.turn/started-at", "When its first message was written, RFC 3339 in UTC, or nil."),
        ("psi.turn/ended-at", "When its newest message was written, RFC 3339 in UTC, or nil."),
        ("psi.turn/duration-ms", "The time between these two, in milliseconds."),
        ("psi.turn/stop-reason", "Why its last model call ended, or nil."),
        ("psi.turn/usage", "The tokens and cost of its model calls together."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.turn/last",
            input: &[Input::Required(SESSION)],
            output: &[
                out("psi.turn/id"),
                out("psi.turn/text"),
                join("psi.turn/tool-calls", SUMMARY),
                out("psi.turn/tool-call-count"),
                out("psi.turn/message-count"),
                out("psi.turn/started-at"),
                out("psi.turn/ended-at"),
                out("psi.turn/duration-ms"),
                out("psi.turn/stop-reason"),
                out("psi.turn/usage"),
            ],
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
            output: &[join("psi.agent-session/turns", TURN)],
            cost: Cost::Ready,
            run: Run::One(of_session),
        },
        Resolver {
            name: "psi.turn/by-id",
            input: &[Input::Required("psi.turn/id")],
            output: &[
                out("psi.turn/text"),
                join("psi.turn/tool-calls", SUMMARY),
                out("psi.turn/tool-call-count"),
                out("psi.turn/message-count"),
                out("psi.turn/started-at"),
                out("psi.turn/ended-at"),
                out("psi.turn/duration-ms"),
                out("psi.turn/stop-reason"),
                out("psi.turn/usage"),
            ],
            cost: Cost::Ready,
            run: Run::One(by_id),
        },
    ],
    mutations: &[],
};

/// The messages of the last turn.
fn last_of(messages: &[Arc<Message>]) -> &[Arc<Message>] {
    let turn = messages.last().and_then(|message| message.turn_id.as_ref());
    let of_turn = |message: &&Arc<Message>| turn.is_some() && message.turn_id.as_ref() == turn;
    let count = messages.iter().rev().take_while(of_turn).count();
    messages.get(messages.len().saturating_sub(count)..).unwrap_or_default()
}

fn last(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    Ok(answers(entity(env, session.as_ref(), last_of(&session.messages())), TURN))
}

fn now(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let stage = session.stage();
    let keyword = |key: &str| -> Value<'static> {
        let name = stage.as_ref().and_then(|stage| stage.get_keyword(key)?.as_str().map(str::to_owned));
        name.map(Value::keyword).into()
    };
    Ok(vec![
        ("psi.turn/phase", session.fact(SessionFact::Phase).into()),
        ("psi.turn/is-streaming", session.fact(SessionFact::IsStreaming).into()),
        ("psi.turn/stage", keyword("stage").into()),
        ("psi.turn/point", keyword("point").into()),
    ])
}

fn of_session(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let messages = session.messages();
    // Messages of one turn stand together.
    let mut turns: Vec<&[Arc<Message>]> = messages
        .chunk_by(|one, next| one.turn_id == next.turn_id)
        .filter(|turn| turn.first().is_some_and(|message| message.turn_id.is_some()))
        .collect();
    super::session::newest(&mut turns, env.count("limit")?);
    let turns = turns.into_iter().map(|turn| Value::from(entity(env, session.as_ref(), turn)));
    Ok(vec![("psi.agent-session/turns", Value::vector(turns).into())])
}

/// Looks in the query's session.
fn by_id(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.text("psi.turn/id");
    let Some(session) = env.world.session(SessionId::as_str(env.world.focus())) else {
        return Ok(Vec::new());
    };
    let mut messages = session.messages();
    messages.retain(|message| id.is_some() && message.turn_id.as_ref().map(TurnId::as_str) == id);
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    Ok(answers(entity(env, session.as_ref(), &messages), TURN))
}

fn entity(env: &Env<'_>, session: &dyn SessionView, messages: &[Arc<Message>]) -> Map<'static> {
    let of_model = || messages.iter().filter(|message| message.role == Role::Assistant);
    let text: String = of_model().map(|message| message.text()).collect();
    let calls = summaries(env, session, messages);
    let times = [messages.first(), messages.last()].map(|message| message.map(|m| m.timestamp.clone()));
    let [from, to] = times.clone().map(|time| time.and_then(|time| time.parse::<Timestamp>().ok()));
    let duration = from.zip(to).map(|(from, to)| to.as_millisecond().saturating_sub(from.as_millisecond()));
    let mut usage = Usage::default();
    for message in of_model() {
        if let Some(used) = &message.usage {
            usage.add(used);
        }
    }
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
    let stop = of_model().next_back().and_then(|message| message.stop_reason);
    map.put("psi.turn/stop-reason", stop.map(|reason| Value::from(reason.as_str())));
    map.put("psi.turn/usage", usage.to_value());
    map
}
