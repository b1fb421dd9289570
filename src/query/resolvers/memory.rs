//! `:psi.memory/*`: the project's notes from `/remember`. Writes none: mutations do.

use crate::memory::Note;
use crate::message::SessionId;
use crate::query::graph::Resolver;
use crate::query::plan::Cost;
use crate::query::table::{out, text};
use crate::value::{Map, Value};

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.memory/notes",
        &[],
        &[
            out("psi.memory/status", "Whether notes are kept: :ready or :unavailable."),
            out("psi.memory/entries", "The notes, newest first."),
            out("psi.memory/entry-count", "The number of notes."),
            out("psi.memory/index-stats", "Totals of the notes: {:entries :bytes}."),
        ],
        |env, _| {
            let notes = env.world.notes();
            let status = Value::keyword(if notes.is_some() { "ready" } else { "unavailable" });
            let notes = notes.unwrap_or_default();
            let bytes: usize = notes.iter().map(|note| note.text.len()).sum();
            Ok(vec![
                ("psi.memory/status", status.into()),
                ("psi.memory/entry-count", notes.len().into()),
                (
                    "psi.memory/index-stats",
                    Map::new().with("entries", notes.len()).with("bytes", bytes).into(),
                ),
                ("psi.memory/entries", Value::vector(notes.iter().rev().map(shown)).into()),
            ])
        },
    )
    .costing(Cost::Slow),
    Resolver::one(
        "psi.memory/search",
        &[],
        &[out(
            "psi.memory/search-results",
            "The notes with all words of the param :text, best first; without it, all notes.",
        )],
        |env, _| {
            let notes = env.world.search_notes(env.text("text").unwrap_or_default());
            Ok(vec![("psi.memory/search-results", Value::vector(notes.iter().map(shown)).into())])
        },
    )
    .costing(Cost::Slow),
];

/// `{:id :text :created-at :session-id?}`.
fn shown(note: &Note) -> Value<'static> {
    let mut map = Map::new()
        .with("id", text(&note.id))
        .with("text", text(&note.text))
        .with("created-at", text(&note.ts));
    map.put_some("session-id", note.session.as_ref().map(SessionId::to_value));
    Value::from(map)
}
