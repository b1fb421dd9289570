//! Tables of attributes over typed facts: the name, description and accessor of each.
//!
//! A table is declared with [`table!`]. Resolvers make their answers from it. Knows neither which facts there are
//! nor where they come from.

use std::collections::HashMap;

use crate::query::datum::Datum;
use crate::query::graph::{Inputs, Output, ResolverOutput, ResolverResult};
use crate::value::{Map, Value};

/// The attributes of one kind of facts.
#[derive(Debug)]
pub struct Table<T: ?Sized + 'static> {
    /// The attributes, as outputs of a resolver.
    pub outputs: &'static [Output],
    /// How to read each of them.
    pub read: &'static [fn(&T) -> Value<'static>],
}

/// Declares a table. `"name" "description" => |facts| value;` is an attribute, and without a description one of
/// another table. `[TABLE]` after it names the table of the entities that it leads to.
macro_rules! table {
    ($(#[$about:meta])* $vis:vis $table:ident of $facts:ty {
        $($name:literal $($doc:literal)? $([$sub:ident])? => |$it:pat_param| $read:expr;)*
    }) => {
        $(#[$about])*
        $vis const $table: $crate::query::table::Table<$facts> = $crate::query::table::Table {
            outputs: &[$($crate::query::graph::Output {
                name: $name,
                doc: concat!($($doc)?),
                sub: $crate::query::table::table!(@sub $($sub)?),
            }),*],
            read: &[$(|$it| $crate::value::Value::from($read)),*],
        };
    };
    (@sub) => { &[] };
    (@sub $sub:ident) => { $sub.outputs };
}
pub(super) use table;

impl<T: ?Sized> Table<T> {
    /// The attribute at that place.
    pub fn field(&self, facts: &T, place: usize) -> Value<'static> {
        self.read.get(place).map_or(Value::Nil, |read| read(facts))
    }

    /// An entity with all attributes.
    pub fn entity(&self, facts: &T) -> Value<'static> {
        let mut entries = Vec::with_capacity(self.read.len().saturating_mul(2));
        for (output, read) in self.outputs.iter().zip(self.read) {
            entries.extend([Value::keyword(output.name), read(facts)]);
        }
        // The names are distinct, which a test of the graph shows.
        Value::from(Map::distinct(entries).unwrap_or_default())
    }

    /// The facts as a resolver's answer.
    pub fn answer(&self, facts: &T) -> ResolverOutput {
        self.outputs.iter().zip(self.read).map(|(output, read)| (output.name, read(facts).into())).collect()
    }
}

impl<T> Table<T> {
    /// The entities of a list.
    pub fn entities<'f>(&self, all: impl IntoIterator<Item = &'f T>) -> Value<'static> {
        Value::vector(all.into_iter().map(|facts| self.entity(facts)))
    }

    /// The entities of a list, as the only output of a resolver.
    pub fn list<'f>(&self, name: &'static str, all: impl IntoIterator<Item = &'f T>) -> ResolverResult {
        Ok(vec![(name, Datum::Value(self.entities(all)))])
    }

    /// The answers of a resolver with the table's first attribute as its input: that of the facts with the same
    /// one. A keyword may also be given as a string.
    pub fn lookup<'f>(
        &self,
        inputs: &[Inputs<'_>],
        all: impl IntoIterator<Item = &'f T>,
    ) -> Vec<ResolverResult> {
        let (Some(key), Some(read)) = (self.outputs.first(), self.read.first()) else { return Vec::new() };
        let mut by_key: HashMap<Value<'static>, &T> = HashMap::new();
        for facts in all {
            by_key.entry(read(facts)).or_insert(facts);
        }
        let find = |inputs: &Inputs<'_>| {
            let wanted = inputs.value(key.name)?;
            let keyword = || wanted.as_str().map(|text| Value::keyword(text.to_owned()));
            by_key.get(wanted).or_else(|| by_key.get(&keyword()?)).copied()
        };
        inputs
            .iter()
            .map(|inputs| Ok(find(inputs).map(|facts| self.answer(facts)).unwrap_or_default()))
            .collect()
    }
}

/// A plain output.
pub const fn out(name: &'static str, doc: &'static str) -> Output {
    Output { name, doc, sub: &[] }
}

/// An output that leads to entities.
pub const fn join(name: &'static str, doc: &'static str, sub: &'static [Output]) -> Output {
    Output { name, doc, sub }
}

/// A table's outputs without the first: those of a resolver that takes the first as its input.
pub const fn rest(outputs: &'static [Output]) -> &'static [Output] {
    match outputs {
        [_, rest @ ..] => rest,
        [] => &[],
    }
}

/// A text of its own.
pub fn text(text: &str) -> Value<'static> {
    Value::from(text.to_owned())
}

/// A list of texts.
pub fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Value<'static> {
    Value::vector(texts.into_iter().map(|one| text(one.as_ref())))
}
