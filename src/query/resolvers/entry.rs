//! `:psi.entry/*`: an entry of a session's journal. Does not read the journal.

use crate::message::EntryId;
use crate::query::datum::{Datum, ENTRY, KnownEntity, MESSAGE};
use crate::query::graph::{Input, Resolve, Resolver};
use crate::query::table::{out, table, text};
use crate::store::Entry;
use crate::value::Value;

table! {
    ENTRY_FIELDS of Entry {
        "psi.entry/id" "The entry's id." => |entry| entry.id.to_value();
        "psi.entry/parent-id" "The preceding entry, or nil." => |entry| entry.parent.as_ref().map(EntryId::to_value);
        "psi.entry/ts" "When it was written, RFC 3339 in UTC." => |entry| text(&entry.ts);
        "psi.entry/type" "Its kind, such as :message, :name, :model or :setting." => |entry| Value::keyword(entry.body.kind().to_owned());
        "psi.entry/request" "The request with a key that it carries out, or nil." => |entry| entry.request_data();
        "psi.entry/data" "Its data, apart from a message." => |entry| entry.body.data();
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::new(
        "psi.entry/fields",
        &[Input::Required(ENTRY)],
        ENTRY_FIELDS.outputs,
        Resolve::Fields(|handle, place| match handle {
            KnownEntity::Entry(entry) => ENTRY_FIELDS.field(entry, place),
            _ => Value::Nil,
        }),
    ),
    Resolver::one("psi.entry/message", &[Input::Required(ENTRY)], &[out(MESSAGE, "")], |_, inputs| {
        let message = inputs.entry().and_then(|entry| entry.body.message().cloned());
        Ok(message.map(|message| (MESSAGE, Datum::Node(KnownEntity::Message(message)))).into_iter().collect())
    }),
];
