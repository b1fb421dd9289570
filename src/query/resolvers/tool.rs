//! `:psi.tool-lifecycle.summary/*`: the tool calls of a session, as its journal tells them.
//!
//! Calls that run, approvals and what tools there are belong here, too, once the runtime keeps them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::edn;
use crate::message::{Block, Message};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run, SESSION};
use crate::query::resolvers::join;
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
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.agent-session/tool-lifecycle-summaries", "The tool calls on the current branch, in order."),
        ("psi.tool-lifecycle.summary/tool-id", "The call's id."),
        ("psi.tool-lifecycle.summary/tool-name", "The tool."),
        ("psi.tool-lifecycle.summary/arguments", "The arguments, as EDN text."),
        ("psi.tool-lifecycle.summary/parsed-args", "The arguments."),
        ("psi.tool-lifecycle.summary/result-text", "What the tool answered, or nil."),
        ("psi.tool-lifecycle.summary/is-error", "Whether it failed, or nil while it runs."),
        ("psi.tool-lifecycle.summary/completed?", "Whether it was answered."),
    ],
    resolvers: &[Resolver {
        name: "psi.agent-session/tool-lifecycle-summaries",
        input: &[Input::Required(SESSION)],
        output: &[join("psi.agent-session/tool-lifecycle-summaries", SUMMARY)],
        cost: Cost::Ready,
        run: Run::One(of_session),
    }],
    mutations: &[],
};

fn of_session(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let Some(session) = inputs.session() else { return Ok(Vec::new()) };
    let summaries = summaries(&session.messages());
    Ok(vec![("psi.agent-session/tool-lifecycle-summaries", Value::vector(summaries).into())])
}

/// The calls of messages, each with its result where there is one.
pub(super) fn summaries(messages: &[Arc<Message>]) -> Vec<Value<'static>> {
    let results: HashMap<&str, &Message> = messages
        .iter()
        .filter_map(|message| Some((message.tool_call_id.as_deref()?, message.as_ref())))
        .collect();
    let blocks = messages.iter().flat_map(|message| &message.content);
    let calls = blocks.filter_map(|block| match block {
        Block::ToolCall { id, name, arguments } => Some((id, name, arguments)),
        _ => None,
    });
    let summary = |(id, name, arguments): (&Arc<str>, &Arc<str>, &Value<'static>)| {
        let result = results.get(id.as_ref());
        let mut map = Map::new();
        map.put("psi.tool-lifecycle.summary/tool-id", id.to_string());
        map.put("psi.tool-lifecycle.summary/tool-name", name.to_string());
        map.put("psi.tool-lifecycle.summary/arguments", edn::to_string(arguments));
        map.put("psi.tool-lifecycle.summary/parsed-args", arguments.clone());
        map.put("psi.tool-lifecycle.summary/result-text", result.map(|result| Value::from(result.text())));
        let failed = result.map(|result| Value::from(result.is_error.unwrap_or(false)));
        map.put("psi.tool-lifecycle.summary/is-error", failed);
        map.put("psi.tool-lifecycle.summary/completed?", result.is_some());
        Value::from(map)
    };
    calls.map(summary).collect()
}
