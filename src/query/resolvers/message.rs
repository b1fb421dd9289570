//! `:psi.message/*`: a message of a conversation.

use std::collections::HashMap;

use crate::message::{Block, EntryId, Message, TurnId, count};
use crate::query::graph::{
    Answer, Cost, Datum, Env, Failure, Handle, Input, Inputs, MESSAGE, Namespace, Output, Resolver, Run,
};
use crate::query::resolvers::out;
use crate::value::{Map, Value};

/// The attribute that holds a message's handle.
pub(super) const HANDLE: &str = MESSAGE;

/// Declares the fields: name, description, and how to read it.
macro_rules! fields {
    ($($name:literal $doc:literal $read:expr;)*) => {
        const ATTRIBUTES: &[(&str, &str)] = &[$((concat!("psi.message/", $name), $doc)),*];
        const OUTPUT: &[Output] = &[$(out(concat!("psi.message/", $name))),*];
        const READ: &[fn(&Message) -> Value<'static>] = &[$($read),*];
    };
}

fn text(text: &Option<std::sync::Arc<str>>) -> Value<'static> {
    text.as_deref().map(|text| Value::from(text.to_owned())).into()
}

fields! {
    "id" "The id of its journal entry." |m| m.id.to_value();
    "parent-id" "The preceding entry, or nil." |m| m.parent_id.as_ref().map(EntryId::to_value).into();
    "role" "Its author: user, assistant, tool or system." |m| Value::from(m.role.as_str());
    "text" "Its text blocks, joined." |m| Value::from(m.text());
    "thinking" "Its thinking blocks, joined." |m| Value::from(thinking(m));
    "content" "Its blocks." |m| m.content_value();
    "timestamp" "When it was written, RFC 3339 in UTC." |m| Value::from(m.timestamp.to_string());
    "turn-id" "Its turn, or nil." |m| m.turn_id.as_ref().map(TurnId::to_value).into();
    "usage" "Usage of the model call, or nil." |m| m.usage.as_ref().map(|usage| usage.to_value()).into();
    "first-token-ms" "The wait for the first piece of the model's answer, in milliseconds, or nil." |m| m.timing.and_then(|timing| timing.first_token_ms).map(count).into();
    "duration-ms" "The wait for the model until the end of its answer, in milliseconds, or nil; without delays by hooks and clients." |m| m.timing.map(|timing| count(timing.duration_ms)).into();
    "retries" "The number of failed tries of the model call, or nil; the times are those of the last try." |m| m.timing.map(|timing| count(timing.retries.into())).into();
    "tokens-per-second" "The answer's tokens per second of waiting for the model, including the wait for the first token, or nil." |m| m.tokens_per_second().map(Value::from).into();
    "stop-reason" "Why the model call ended, or nil." |m| m.stop_reason.map(|reason| Value::from(reason.as_str())).into();
    "error-message" "The error, or nil." |m| text(&m.error_message);
    "tool-call-id" "The tool call that it answers, or nil." |m| text(&m.tool_call_id);
    "tool-name" "The tool that wrote it, or nil." |m| text(&m.tool_name);
    "is-error" "Whether the tool failed, or nil." |m| m.is_error.map(Value::from).into();
    "tool-calls" "Its tool calls: {:id :name :arguments}." |m| tool_calls(m);
}

pub(super) const PART: Namespace = Namespace {
    attributes: ATTRIBUTES,
    resolvers: &[
        Resolver {
            name: "psi.message/by-id",
            input: &[Input::Required("psi.message/id")],
            output: &[out(MESSAGE)],
            cost: Cost::Ready,
            run: Run::Batch(by_id),
        },
        Resolver {
            name: "psi.message/fields",
            input: &[Input::Required(MESSAGE)],
            output: OUTPUT,
            cost: Cost::Ready,
            run: Run::Fields(field),
        },
    ],
    mutations: &[],
};

/// Searches in the query's session first, then in the other live ones.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let mut found: Vec<Answer> = inputs.iter().map(|_| Vec::new()).collect();
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
                answer.push((MESSAGE, Datum::Node(Handle::Message((*message).clone()))));
            }
        }
    }
    found.into_iter().map(Ok).collect()
}

fn field(handle: &Handle, place: usize) -> Value<'static> {
    match (handle, READ.get(place)) {
        (Handle::Message(message), Some(read)) => read(message),
        _ => Value::Nil,
    }
}

fn thinking(message: &Message) -> String {
    let thinking = message.content.iter().filter_map(|block| match block {
        Block::Thinking(text) => Some(text.as_ref()),
        _ => None,
    });
    thinking.collect()
}

fn tool_calls(message: &Message) -> Value<'static> {
    let calls = message.content.iter().filter_map(|block| match block {
        Block::ToolCall { id, name, arguments } => {
            let mut call = Map::new();
            call.put("id", id.to_string());
            call.put("name", name.to_string());
            call.put("arguments", arguments.clone());
            Some(Value::from(call))
        }
        _ => None,
    });
    Value::vector(calls)
}
