//! `:psi.entry/*`: an entry of a session's journal.

use crate::message::EntryId;
use crate::query::graph::{
    Answer, Cost, Datum, ENTRY, Env, Failure, Handle, Input, Inputs, MESSAGE, Namespace, Output, Resolver,
    Run,
};
use crate::query::resolvers::out;
use crate::value::Value;

/// The attribute that holds an entry's handle.
pub(super) const HANDLE: &str = ENTRY;

const OUTPUT: &[Output] = &[
    out("psi.entry/id"),
    out("psi.entry/parent-id"),
    out("psi.entry/ts"),
    out("psi.entry/type"),
    out("psi.entry/data"),
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.entry/id", "The entry's id."),
        ("psi.entry/parent-id", "The preceding entry, or nil."),
        ("psi.entry/ts", "When it was written, RFC 3339 in UTC."),
        ("psi.entry/type", "Its kind, such as :message, :name, :model or :setting."),
        ("psi.entry/data", "Its data, apart from a message."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.entry/fields",
            input: &[Input::Required(ENTRY)],
            output: OUTPUT,
            cost: Cost::Ready,
            run: Run::Fields(field),
        },
        Resolver {
            name: "psi.entry/message",
            input: &[Input::Required(ENTRY)],
            output: &[out(MESSAGE)],
            cost: Cost::Ready,
            run: Run::One(message),
        },
    ],
    mutations: &[],
};

fn field(handle: &Handle, place: usize) -> Value<'static> {
    let Handle::Entry(entry) = handle else { return Value::Nil };
    match place {
        0 => entry.id.to_value(),
        1 => entry.parent.as_ref().map(EntryId::to_value).into(),
        2 => Value::from(entry.ts.to_string()),
        3 => Value::Keyword(entry.kind.clone()),
        _ => Value::from(entry.data.clone()),
    }
}

fn message(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let message = inputs.entry().and_then(|entry| entry.message.clone());
    Ok(message.map(|message| (MESSAGE, Datum::Node(Handle::Message(message)))).into_iter().collect())
}
