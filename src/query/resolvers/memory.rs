//! `:psi.memory/*`: the project's notes from `/remember`.

use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::value::{Map, Value};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.memory/status", "Whether notes are kept: :ready or :unavailable."),
        ("psi.memory/entries", "The notes, newest first."),
        ("psi.memory/entry-count", "The number of notes."),
        (
            "psi.memory/search-results",
            "The notes with all words of the param :text, best first; without it, all notes.",
        ),
        ("psi.memory/index-stats", "Totals of the notes: {:entries :bytes}."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.memory/notes",
            input: &[],
            output: &[
                out("psi.memory/status"),
                out("psi.memory/entries"),
                out("psi.memory/entry-count"),
                out("psi.memory/index-stats"),
            ],
            cost: Cost::Slow,
            run: Run::One(notes),
        },
        Resolver {
            name: "psi.memory/search",
            input: &[],
            output: &[out("psi.memory/search-results")],
            cost: Cost::Slow,
            run: Run::One(search),
        },
    ],
    mutations: &[],
};

fn notes(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let notes = env.world.notes();
    let status = Value::keyword(if notes.is_some() { "ready" } else { "unavailable" });
    let notes = notes.unwrap_or_default();
    let mut stats = Map::new();
    stats.put("entries", notes.len());
    stats.put(
        "bytes",
        notes.iter().filter_map(|note| note.get("text")?.as_str()).map(str::len).sum::<usize>(),
    );
    Ok(vec![
        ("psi.memory/status", status.into()),
        ("psi.memory/entry-count", notes.len().into()),
        ("psi.memory/index-stats", Value::from(stats).into()),
        ("psi.memory/entries", Value::vector(notes).into()),
    ])
}

fn search(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let notes = env.world.search_notes(env.text("text").unwrap_or_default());
    Ok(vec![("psi.memory/search-results", Value::vector(notes).into())])
}
