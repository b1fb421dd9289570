//! `:psi.tool/*` and `:psi.tool-lifecycle.summary/*`: the tools, and the tool calls of a session, including
//! running and waiting ones. Runs no tool.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::edn;
use crate::event::question::QuestionContent;
use crate::message::{Block, Message, TurnId};
use crate::provider::ToolSpec;
use crate::query::graph::{Env, Input, Resolver};
use crate::query::table::{join, rest, table, text};
use crate::query::world::{QuestionFacts, SessionView};
use crate::value::Value;

table! {
    TOOL of ToolSpec {
        "psi.tool/name" "The tool's name." => |tool| text(&tool.name);
        "psi.tool/doc" "Its description for the model." => |tool| text(&tool.description);
        "psi.tool/parameters" "Its arguments, as a JSON schema in plain data." => |tool| tool.parameters.clone();
    }
}

table! {
    pub(super) SUMMARY of CallFacts {
        "psi.tool-lifecycle.summary/tool-id" "The call's id." => |call| text(call.block().0);
        "psi.tool-lifecycle.summary/tool-name" "The tool." => |call| text(call.block().1);
        "psi.tool-lifecycle.summary/arguments" "The arguments, as EDN text." => |call| edn::to_string(call.block().2);
        "psi.tool-lifecycle.summary/parsed-args" "The arguments." => |call| call.block().2.clone();
        "psi.tool-lifecycle.summary/result-text" "The tool's result, or nil." => |call| call.result.as_ref().map(|result| result.text());
        "psi.tool-lifecycle.summary/is-error" "Whether it failed, or nil while it runs." => |call| call.failed();
        "psi.tool-lifecycle.summary/completed?" "Whether it has a result." => |call| call.result.is_some();
        "psi.tool-lifecycle.summary/status"
            ":running, :waiting (for a person's answer), :completed, :failed, or :lost (its turn ended without a result)."
            => |call| Value::keyword(call.status);
        "psi.tool-lifecycle.summary/proposed-at" "When the message with the call was written, RFC 3339 in UTC."
            => |call| text(&call.message.timestamp);
        "psi.tool-lifecycle.summary/duration-ms"
            "The time from that message to the result, in milliseconds, including a person's answer; nil while it runs."
            => |call| call.took();
        "psi.turn/id" => |call| call.message.turn_id.as_ref().map(TurnId::to_value);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.tool/list",
        &[],
        &[join("psi.tool/list", "The tools of the session, as its model sees them.", TOOL.outputs)],
        |env, _| TOOL.list("psi.tool/list", &env.world.tools()),
    ),
    Resolver::batch(
        "psi.tool/by-name",
        &[Input::Required("psi.tool/name")],
        rest(TOOL.outputs),
        |env, inputs| TOOL.lookup(inputs, &env.world.tools()),
    ),
    Resolver::session(
        "psi.agent-session/tool-lifecycle-summaries",
        &[join(
            "psi.agent-session/tool-lifecycle-summaries",
            "The tool calls on the current branch, in order.",
            SUMMARY.outputs,
        )],
        |env, session| {
            let messages: Vec<_> = session.messages().cloned().collect();
            let calls = calls(&Now::of(env, session.as_ref()), &messages);
            SUMMARY.list("psi.agent-session/tool-lifecycle-summaries", &calls)
        },
    ),
    // Only the last turn can have running calls, so the cost does not depend on the session's length.
    Resolver::session(
        "psi.agent-session/running-tool-calls",
        &[join(
            "psi.agent-session/running-tool-calls",
            "The calls of the running turn without a result, in order.",
            SUMMARY.outputs,
        )],
        |env, session| {
            let mut calls = calls(&Now::of(env, session.as_ref()), &last_turn(session.as_ref()));
            calls.retain(|call| matches!(call.status, "running" | "waiting"));
            SUMMARY.list("psi.agent-session/running-tool-calls", &calls)
        },
    ),
];

/// The messages of a session's last turn.
pub(super) fn last_turn(session: &dyn SessionView) -> Vec<Arc<Message>> {
    let turn = session.messages().next_back().and_then(|message| message.turn_id.as_ref());
    let of_turn = |message: &&Arc<Message>| turn.is_some() && message.turn_id.as_ref() == turn;
    let mut messages: Vec<_> = session.messages().rev().take_while(of_turn).cloned().collect();
    messages.reverse();
    messages
}

/// A tool call.
pub(super) struct CallFacts {
    /// The message with the call, and the call's place among its blocks.
    message: Arc<Message>,
    place: usize,
    result: Option<Arc<Message>>,
    status: &'static str,
}

impl CallFacts {
    /// Id, tool and arguments.
    fn block(&self) -> (&str, &str, &Value<'static>) {
        match self.message.content.get(self.place) {
            Some(Block::ToolCall { id, name, arguments }) => (id, name, arguments),
            _ => ("", "", &Value::Nil),
        }
    }

    fn failed(&self) -> Option<bool> {
        self.result.as_ref().map(|result| result.is_error.unwrap_or(false))
    }

    fn took(&self) -> Option<i64> {
        let time = |message: &Message| message.timestamp.parse::<Timestamp>().ok();
        let (from, to) = time(&self.message).zip(time(self.result.as_ref()?))?;
        Some(to.as_millisecond().saturating_sub(from.as_millisecond()))
    }
}

/// The calls in some messages of a session, each with its result if there is one.
pub(super) fn calls(now: &Now, messages: &[Arc<Message>]) -> Vec<CallFacts> {
    let results: HashMap<&str, &Arc<Message>> =
        messages.iter().filter_map(|message| Some((message.tool_call_id.as_deref()?, message))).collect();
    let blocks = messages.iter().flat_map(|message| (0..).zip(&message.content).map(move |at| (message, at)));
    let call = |(message, (place, block)): (&Arc<Message>, (usize, &Block))| {
        let Block::ToolCall { id, .. } = block else { return None };
        let result = results.get(id.as_ref()).copied().cloned();
        let status = match result.as_ref().map(|result| result.is_error) {
            Some(Some(true)) => "failed",
            Some(_) => "completed",
            None if now.turn.is_none() || message.turn_id != now.turn => "lost",
            None if now.asking.contains(id.as_ref()) => "waiting",
            None => "running",
        };
        Some(CallFacts { message: message.clone(), place, result, status })
    };
    blocks.filter_map(call).collect()
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
        if !session.facts().is_streaming() {
            return Self { turn: None, asking: HashSet::new() };
        }
        let questions =
            env.world.questions().into_iter().filter(|question| question.session == *session.id());
        let call = |question: QuestionFacts| match question.content?.0.as_ref() {
            QuestionContent::Approve(approval) => Some(approval.call.to_string()),
            _ => None,
        };
        Self {
            turn: session.messages().next_back().and_then(|message| message.turn_id.clone()),
            asking: questions.filter_map(call).collect(),
        }
    }
}
