//! `:psi.message/*`: a message of a conversation. Does not know how a message came about.

use std::collections::HashMap;

use crate::message::{Block, EntryId, Message, TurnId, count};
use crate::query::datum::{Datum, KnownEntity, MESSAGE};
use crate::query::graph::{Env, Input, Inputs, Resolve, Resolver, ResolverOutput, ResolverResult};
use crate::query::table::{out, table, text};
use crate::value::{Map, Value};

table! {
    FIELDS of Message {
        "psi.message/id" "The id of its journal entry." => |m| m.id.to_value();
        "psi.message/parent-id" "The preceding entry, or nil." => |m| m.parent_id.as_ref().map(EntryId::to_value);
        "psi.message/role" "Its author: user, assistant, tool or system." => |m| m.role.as_str();
        "psi.message/text" "Its text blocks, joined." => |m| m.text();
        "psi.message/thinking" "Its thinking blocks, joined." => |m| thinking(m);
        "psi.message/thinking-ms" "How long the model thought, in milliseconds, or nil where that is not known."
            => |m| thinking_ms(m).map(count);
        "psi.message/content" "Its blocks." => |m| m.content_value();
        "psi.message/timestamp" "When it was written, RFC 3339 in UTC." => |m| text(&m.timestamp);
        "psi.message/turn-id" "Its turn, or nil." => |m| m.turn_id.as_ref().map(TurnId::to_value);
        "psi.message/usage" "Usage of the model call, or nil." => |m| m.usage.as_ref().map(|usage| usage.to_value());
        "psi.message/first-token-ms" "The wait for the first piece of the model's answer, in milliseconds, or nil."
            => |m| m.timing.and_then(|timing| timing.first_token_ms).map(count);
        "psi.message/duration-ms" "The wait for the model until the end of its answer, in milliseconds, or nil; without delays by hooks and clients."
            => |m| m.timing.map(|timing| count(timing.duration_ms));
        "psi.message/retries" "The number of failed tries of the model call, or nil; the times are those of the last try."
            => |m| m.timing.map(|timing| count(timing.retries.into()));
        "psi.message/tokens-per-second" "The answer's tokens per second of waiting for the model, including the wait for the first token, or nil."
            => |m| m.tokens_per_second();
        "psi.message/stop-reason" "Why the model call ended, or nil."
            => |m| m.stop_reason.map(|reason| reason.as_str());
        "psi.message/error-message" "The error, or nil." => |m| m.error_message.as_deref().map(text);
        "psi.message/tool-call-id" "The tool call that it answers, or nil." => |m| m.tool_call_id.as_deref().map(text);
        "psi.message/tool-name" "The tool that wrote it, or nil." => |m| m.tool_name.as_deref().map(text);
        "psi.message/is-error" "Whether the tool failed, or nil." => |m| m.is_error;
        "psi.message/tool-calls" "Its tool calls: {:id :name :arguments}." => |m| tool_calls(m);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::batch("psi.message/by-id", &[Input::Required("psi.message/id")], &[out(MESSAGE, "")], by_id),
    Resolver::new(
        "psi.message/fields",
        &[Input::Required(MESSAGE)],
        FIELDS.outputs,
        Resolve::Fields(|handle, place| match handle {
            KnownEntity::Message(message) => FIELDS.field(message, place),
            _ => Value::Nil,
        }),
    ),
];

/// Searches in the query's session first, then in the other live ones.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<ResolverResult> {
    let mut found: Vec<ResolverOutput> = inputs.iter().map(|_| Vec::new()).collect();
    let focus = env.world.session(env.world.focus().as_str());
    let others = env.world.live().into_iter().filter(|session| session.id() != env.world.focus());
    for session in focus.into_iter().chain(others) {
        if found.iter().all(|answer| !answer.is_empty()) {
            break;
        }
        let by_id: HashMap<&str, _> =
            session.messages().map(|message| (message.id.as_str(), message)).collect();
        for (answer, inputs) in found.iter_mut().zip(inputs) {
            let message = inputs.text("psi.message/id").and_then(|id| by_id.get(id));
            if let (Some(message), true) = (message, answer.is_empty()) {
                answer.push((MESSAGE, Datum::Node(KnownEntity::Message((*message).clone()))));
            }
        }
    }
    found.into_iter().map(Ok).collect()
}

fn thinking(message: &Message) -> String {
    let thinking = message.content.iter().filter_map(|block| match block {
        Block::Thinking { text, .. } => Some(text.as_ref()),
        _ => None,
    });
    thinking.collect()
}

fn thinking_ms(message: &Message) -> Option<u64> {
    let times = message.content.iter().filter_map(|block| match block {
        Block::Thinking { duration_ms, .. } => *duration_ms,
        _ => None,
    });
    times.reduce(u64::saturating_add)
}

fn tool_calls(message: &Message) -> Value<'static> {
    let calls = message.content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, arguments } => {
            let mut call = Map::new();
            call.put("id", id.to_string());
            call.put("name", name.to_string());
            call.put("arguments", (**arguments).clone());
            Some(Value::from(call))
        }
        _ => None,
    });
    Value::vector(calls)
}
