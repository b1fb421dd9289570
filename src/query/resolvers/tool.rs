//! `:psi.tool/*` and `:psi.tool-lifecycle.summary/*`: the tools, and the tool calls of a session, including
//! running and waiting ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::edn;
use crate::message::{Block, Message, TurnId};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::session::SessionFact;
use crate::query::resolvers::{answers, join, names, out, picked};
use crate::query::world::SessionView;
use crate::value::{Map, Value};

/// The keys of a summary.
pub(super) const SUMMARY: &[&str] = &[
    "psi.tool-lifecycle.summary/tool-id",
    "psi.tool-lifecycle.summary/tool-name",
    "psi.tool-lifecycle.summary/arguments",
    "psi.tool-lifecycle.summary/parsed-args",
    "psi.tool-lifecycle.summary/result-text",
    "psi.tool-lifecycle.summary/is-error",
    "psi.tool-lifecycle.summary/completed?",
    "psi.tool-lifecycle.summary/status",
    "psi.tool-lifecycle.summary/proposed-at",
    "psi.tool-lifecycle.summary/duration-ms",
    "psi.turn/id",
];

/// The attributes of a tool, and their keys.
const TOOL: &[(&str, &str)] =
    &[("psi.tool/name", "name"), ("psi.tool/doc", "description"), ("psi.tool/parameters", "parameters")];

const NAMES: &[&str] = &names::<{ TOOL.len() }>(TOOL);

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.tool/list", "The tools for models."),
        ("psi.tool/name", "The tool's name."),
        ("psi.tool/doc", "Its description for the model."),
        ("psi.tool/parameters", "Its arguments, as a JSON schema in plain data."),
        ("psi.agent-session/tool-lifecycle-summaries", "The tool calls on the current branch, in order."),
        ("psi.agent-session/running-tool-calls", "The calls of the running turn without a result, in order."),
        ("psi.tool-lifecycle.summary/tool-id", "The call's id."),
        ("psi.tool-lifecycle.summary/tool-name", "The tool."),
        ("psi.tool-lifecycle.summary/arguments", "The arguments, as EDN text."),
        ("psi.tool-lifecycle.summary/parsed-args", "The arguments."),
        ("psi.tool-lifecycle.summary/result-text", "The tool's result, or nil."),
        ("psi.tool-lifecycle.summary/is-error", "Whether it failed, or nil while it runs."),
        ("psi.tool-lifecycle.summary/completed?", "Whether it has a result."),
        (
            "psi.tool-lifecycle.summary/status",
            ":running, :waiting (for a person's answer), :completed, :failed, or :lost (its turn ended without a result).",
        ),
        (
            "psi.tool-lifecycle.summary/proposed-at",
            "When the message with the call was written, RFC 3339 in UTC.",
        ),
        (
            "psi.tool-lifecycle.summary/duration-ms",
            "The time from that message to the result, in milliseconds, including a person's answer; nil while it runs.",
        ),
    ],
    resolvers: &[
        Resolver {
            name: "psi.tool/list",
            input: &[],
            output: &[join("psi.tool/list", NAMES)],
            cost: Cost::Ready,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.tool/by-name",
            input: &[Input::Required("psi.tool/name")],
            output: &[out("psi.tool/doc"), out("psi.tool/parameters")],
            cost: Cost::Ready,
            run: Run::One(by_name),
        },
        Resolver {
            name: "psi.agent-session/tool-lifecycle-summaries",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/tool-lifecycle-summaries", SUMMARY)],
            cost: Cost::Ready,
            run: Run::One(of_session),
        },
        Resolver {
            name: "psi.agent-session/running-tool-calls",
            input: &[Input::Required(SESSION)],
            output: &[join("psi.agent-session/running-tool-calls", SUMMARY)],
            cost: Cost::Ready,
            run: Run::One(running),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let tools = env.world.tools();
    let tools = Value::vector(tools.iter().map(|tool| Value::from(picked(tool, TOOL))));
    Ok(vec![("psi.tool/list", tools.into())])
}

fn by_name(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let name = inputs.text("psi.tool/name");
    let tools = env.world.tools();
    let tool = tools.iter().find(|tool| name.is_some() && tool.get("name").and_then(Value::as_str) == name);
    Ok(tool.map(|tool| answers(picked(tool, TOOL), NAMES)).unwrap_or_default())
}

fn of_session(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let messages: Vec<_> = session.messages().cloned().collect();
    let summaries = Value::vector(summaries(&Now::of(env, session.as_ref()), &messages));
    Ok(vec![("psi.agent-session/tool-lifecycle-summaries", summaries.into())])
}

/// Only the last turn can have running calls, so the cost does not depend on the session's length.
fn running(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let mut summaries = summaries(&Now::of(env, session.as_ref()), &last_turn(session.as_ref()));
    summaries.retain(|summary| {
        let status = summary.get("psi.tool-lifecycle.summary/status").and_then(Value::as_keyword);
        matches!(status, Some("running" | "waiting"))
    });
    Ok(vec![("psi.agent-session/running-tool-calls", Value::vector(summaries).into())])
}

/// The messages of a session's last turn.
pub(super) fn last_turn(session: &dyn SessionView) -> Vec<Arc<Message>> {
    let turn = session.messages().next_back().and_then(|message| message.turn_id.as_ref());
    let of_turn = |message: &&Arc<Message>| turn.is_some() && message.turn_id.as_ref() == turn;
    let mut messages: Vec<_> = session.messages().rev().take_while(of_turn).cloned().collect();
    messages.reverse();
    messages
}

/// The calls in some messages of a session, each with its result if there is one.
pub(super) fn summaries(now: &Now, messages: &[Arc<Message>]) -> Vec<Value<'static>> {
    let calls: Vec<_> = messages
        .iter()
        .flat_map(|message| message.content.iter().map(move |block| (message, block)))
        .filter_map(|(message, block)| match block {
            Block::ToolCall { id, name, arguments } => Some((message, id, name, arguments)),
            _ => None,
        })
        .collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let results: HashMap<&str, &Message> = messages
        .iter()
        .filter_map(|message| Some((message.tool_call_id.as_deref()?, message.as_ref())))
        .collect();
    let summary = |(message, id, name, arguments): (&Arc<Message>, &Arc<str>, &Arc<str>, &Value<'static>)| {
        let result = results.get(id.as_ref());
        let failed = result.map(|result| result.is_error.unwrap_or(false));
        let status = match failed {
            Some(true) => "failed",
            Some(false) => "completed",
            None if now.turn.is_none() || message.turn_id != now.turn => "lost",
            None if now.asking.contains(id.as_ref()) => "waiting",
            None => "running",
        };
        let time = |message: &Message| message.timestamp.parse::<Timestamp>().ok();
        let took = result.and_then(|result| {
            let (from, to) = time(message).zip(time(result))?;
            Some(to.as_millisecond().saturating_sub(from.as_millisecond()))
        });
        let mut map = Map::new();
        map.put("psi.tool-lifecycle.summary/tool-id", id.to_string());
        map.put("psi.tool-lifecycle.summary/tool-name", name.to_string());
        map.put("psi.tool-lifecycle.summary/arguments", edn::to_string(arguments));
        map.put("psi.tool-lifecycle.summary/parsed-args", arguments.clone());
        map.put("psi.tool-lifecycle.summary/result-text", result.map(|result| Value::from(result.text())));
        map.put("psi.tool-lifecycle.summary/is-error", failed.map(Value::from));
        map.put("psi.tool-lifecycle.summary/completed?", result.is_some());
        map.put("psi.tool-lifecycle.summary/status", Value::keyword(status));
        map.put("psi.tool-lifecycle.summary/proposed-at", message.timestamp.to_string());
        map.put("psi.tool-lifecycle.summary/duration-ms", took.map(Value::from));
        map.put("psi.turn/id", message.turn_id.as_ref().map(TurnId::to_value));
        Value::from(map)
    };
    calls.into_iter().map(summary).collect()
}

/// The facts that distinguish running, waiting and lost calls.
pub(super) struct Now {
    /// The running turn.
    turn: Option<TurnId>,
    /// The calls for which a question is open.
    asking: HashSet<String>,
}

impl Now {
    /// These facts for a session.
    pub(super) fn of(env: &Env<'_>, session: &dyn SessionView) -> Self {
        if session.fact(SessionFact::IsStreaming).as_bool() != Some(true) {
            return Self { turn: None, asking: HashSet::new() };
        }
        let questions =
            env.world.questions().into_iter().filter(|question| question.session == *session.id());
        let call = |payload: Map<'static>| payload.get_keyword("tool-id")?.as_str().map(str::to_owned);
        Self {
            turn: session.messages().next_back().and_then(|message| message.turn_id.clone()),
            asking: questions.filter_map(|question| question.payload.and_then(call)).collect(),
        }
    }
}
