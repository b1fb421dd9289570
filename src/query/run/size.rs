//! How much memory data take, as a query pays for it. Knows values, but not their meaning.

use crate::query::compile::{Level, LevelAsk};
use crate::query::datum::{Datum, KnownEntity};
use crate::query::graph::ResolverOutput;
use crate::query::number::Attr;
use crate::value::Value;

/// A value in its place.
pub(super) const VALUE: usize = size_of::<Value<'_>>();

/// An entry of a map.
pub(super) const ENTRY: usize = 2 * VALUE;

/// A known attribute of an entity. The list of them grows by doubling.
pub(super) const SLOT: usize = 2 * size_of::<(Attr, Datum)>();

/// The bytes of a key that its entry has room for: all usual names.
const KEY: usize = 64;

/// A map with the answers of a level, without what the answers take beyond their places. A long key counts in full, as it
/// does in the answer.
pub(super) fn of_row(level: &Level) -> usize {
    let entry = |ask: &LevelAsk| of_value(&ask.key).saturating_sub(KEY).saturating_add(ENTRY);
    level.asks.iter().fold(0, |sum, ask| sum.saturating_add(entry(ask)))
}

/// What a text takes beyond its bytes: it is counted and shared.
const TEXT: usize = 40;

/// What a value takes beyond its place, approximately. A shared text counts in full, as it does in the answer.
pub(super) fn of_value(value: &Value<'_>) -> usize {
    let sum = |values: &mut dyn Iterator<Item = &Value<'_>>| {
        values.fold(0usize, |sum, value| sum.saturating_add(VALUE).saturating_add(of_value(value)))
    };
    match value {
        Value::Str(text) | Value::Symbol(text) => text.len().saturating_add(TEXT),
        // Nearly all are names of the program's own.
        Value::Keyword(text) => text.len(),
        Value::Map(map) => sum(&mut map.iter().flat_map(|(key, value)| [key, value])),
        Value::Tagged(tagged) => of_value(&tagged.value).saturating_add(2 * ENTRY),
        Value::Set(set) => sum(&mut set.iter()),
        value => sum(&mut value.as_slice().unwrap_or_default().iter()),
    }
}

/// What a datum takes beyond its place.
pub(super) fn of_datum(datum: &Datum) -> usize {
    match datum {
        Datum::Value(value) => of_value(value),
        Datum::Node(_) => 0,
        Datum::Nodes(handles) => handles.len().saturating_mul(size_of::<KnownEntity>()),
    }
}

/// What the answer of a resolver takes.
pub(super) fn of_output(output: &ResolverOutput) -> usize {
    output.iter().fold(0, |sum, (_, datum)| sum.saturating_add(SLOT).saturating_add(of_datum(datum)))
}
