//! A query compiled for a graph: names are numbers, and each level keeps what was found out about it. Runs
//! nothing.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::limits::QUERY_PLANS;
use crate::query::ast::{Element, Key, Query, Sub};
use crate::query::datum::KnownEntity;
use crate::query::number::{Attr, Bits};
use crate::value::{Map, Text, Value};

/// One level of a query: the query of one kind of entity.
#[derive(Debug)]
pub struct Level {
    /// The asks.
    pub asks: Vec<LevelAsk>,
    /// Whether all answers certainly have distinct keys, so that no duplicate has to be looked for.
    pub distinct: bool,
    /// The asks that are fields of a handle, per kind of entity.
    direct: RwLock<Vec<(Bits, Direct)>>,
}

/// The field of each ask, if it is one.
pub type Direct = Arc<[Option<Field>]>;

/// A field of a handle: its reader, the handle's attribute and the output's place.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Reads it.
    pub read: fn(&KnownEntity, usize) -> Value<'static>,
    /// The handle's attribute.
    pub handle: Attr,
    /// Its place among the outputs.
    pub place: usize,
}

/// One ask.
#[derive(Debug)]
pub struct LevelAsk {
    /// The key of the answer in the result.
    pub key: Value<'static>,
    /// The request.
    pub what: What,
}

/// The request of one ask.
#[derive(Debug)]
pub enum What {
    /// An attribute of the entity.
    Attribute {
        /// Which.
        name: Name,
        /// The ask's params; `None` if a resolver would see none.
        params: Option<Map<'static>>,
        /// The query of the entities that it leads to.
        sub: Option<LevelSub>,
    },
    /// The same entity again below another key, with added params.
    Placeholder {
        /// The added params.
        params: Map<'static>,
        /// The query.
        sub: LevelSub,
    },
    /// An entity by its ident.
    Ident {
        /// The ident's attribute.
        name: Name,
        /// The ident's value.
        value: Value<'static>,
        /// The query of that entity.
        sub: Option<LevelSub>,
    },
    /// An attribute of the root.
    Link {
        /// Which.
        name: Name,
        /// The ask's params; `None` if a resolver would see none.
        params: Option<Map<'static>>,
        /// The query of the entities that it leads to.
        sub: Option<LevelSub>,
    },
    /// A mutation's result.
    Mutation {
        /// Its name.
        name: Text<'static>,
        /// Its params.
        params: Map<'static>,
        /// The query of the result.
        sub: Option<LevelSub>,
    },
    /// All known attributes.
    All,
}

/// An attribute's name, with its number if the graph knows it.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name in the text.
    pub text: Text<'static>,
    /// The attribute.
    pub attr: Option<Attr>,
}

/// The right side of a join.
#[derive(Debug)]
pub enum LevelSub {
    /// A query.
    Level(Level),
    /// One query per kind of entity.
    Union(Vec<(Name, Level)>),
    /// The enclosing level again.
    Again(Option<u32>),
}

/// The params that the engine itself reads.
const ALIAS: &str = "pathom/as";

impl Level {
    /// Compiles a level; `attr` maps known names to numbers.
    pub fn new(query: &Query, attr: &dyn Fn(&str) -> Option<Attr>) -> Self {
        let made =
            |asks: Vec<&Element>| asks.into_iter().map(|ask| LevelAsk::new(ask, attr)).collect::<Vec<_>>();
        let mut asks = made(once(query.asks.iter()));
        let mut keys = HashSet::new();
        let distinct = asks.iter().all(|ask| !matches!(ask.what, What::All) && keys.insert(ask.key.clone()));
        if !distinct && asks.len() < query.asks.len() {
            // Different asks share a key, and the last one stands in the result.
            asks = made(once(query.asks.iter().rev()));
            asks.reverse();
        }
        Self { asks, distinct, direct: RwLock::default() }
    }

    /// The asks that are fields of the handles of entities of that kind. `field` finds out whether an attribute
    /// is one; the level keeps the answers.
    pub fn direct(&self, known: &Bits, field: impl Fn(Attr) -> Option<Field>) -> Direct {
        let kept = self.direct.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fields)) = kept.iter().find(|(kind, _)| kind == known) {
            return fields.clone();
        }
        drop(kept);
        let of_ask = |ask: &LevelAsk| {
            let What::Attribute { name, params: None, sub: None } = &ask.what else { return None };
            name.attr.filter(|attr| !known.has(attr.place())).and_then(&field)
        };
        let fields: Direct = self.asks.iter().map(of_ask).collect();
        let mut kept = self.direct.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= QUERY_PLANS {
            kept.clear();
        }
        kept.push((*known, fields.clone()));
        fields
    }

    /// Whether `test` holds for an attribute that the query asks for, at any depth.
    pub fn any_attr(&self, test: &mut dyn FnMut(Attr) -> bool) -> bool {
        self.asks.iter().any(|ask| {
            let (name, sub) = match &ask.what {
                What::All => return false,
                What::Placeholder { sub, .. } => (None, Some(sub)),
                What::Mutation { sub, .. } => (None, sub.as_ref()),
                What::Attribute { name, sub, .. }
                | What::Ident { name, sub, .. }
                | What::Link { name, sub, .. } => (name.attr, sub.as_ref()),
            };
            name.is_some_and(&mut *test)
                || match sub {
                    Some(LevelSub::Level(level)) => level.any_attr(test),
                    Some(LevelSub::Union(branches)) => branches.iter().any(|(_, level)| level.any_attr(test)),
                    Some(LevelSub::Again(_)) | None => false,
                }
        })
    }

    /// How many joins lead on from one another at most. One to the enclosing level again leads on without end.
    pub fn joins(&self) -> usize {
        let below = |sub: &LevelSub| match sub {
            LevelSub::Level(level) => level.joins(),
            LevelSub::Union(branches) => {
                branches.iter().map(|(_, level)| level.joins()).max().unwrap_or_default()
            }
            LevelSub::Again(_) => usize::MAX,
        };
        let of_ask = |ask: &LevelAsk| match &ask.what {
            // The same entity.
            What::Placeholder { sub, .. } => below(sub),
            What::Attribute { sub, .. }
            | What::Ident { sub, .. }
            | What::Link { sub, .. }
            | What::Mutation { sub, .. } => sub.as_ref().map_or(0, |sub| below(sub).saturating_add(1)),
            What::All => 0,
        };
        self.asks.iter().map(of_ask).max().unwrap_or_default()
    }

    /// Whether it contains a mutation.
    pub fn mutates(&self) -> bool {
        self.asks.iter().any(|ask| matches!(ask.what, What::Mutation { .. }))
    }
}

/// The asks without those that came before with the same params and the same below them: the answer to both is the
/// same value under the same key. Mutations are made as often as they are written.
fn once<'q>(asks: impl Iterator<Item = &'q Element>) -> Vec<&'q Element> {
    let mut seen = HashSet::new();
    asks.filter(|ask| matches!(ask, Element::Mutation { .. }) || seen.insert(ask.to_value())).collect()
}

impl LevelAsk {
    fn new(ask: &Element, attr: &dyn Fn(&str) -> Option<Attr>) -> Self {
        let name = |text: &Text<'static>| Name { text: text.clone(), attr: attr(text) };
        let (key, params, below) = match ask {
            Element::All => return Self { key: Value::symbol("*"), what: What::All },
            Element::Mutation { name, params, sub } => {
                let what = What::Mutation {
                    name: name.clone(),
                    params: params.clone(),
                    sub: sub.as_ref().map(|sub| LevelSub::Level(Level::new(sub, attr))),
                };
                return Self { key: Value::Symbol(name.clone()), what };
            }
            Element::Property { key, params } => (key, params.clone(), None),
            Element::Join { key, params, sub } => {
                (key, params.as_ref().map(|params| params.map.clone()), Some(sub))
            }
        };
        let sub = below.map(|sub| LevelSub::new(sub, attr));
        let mut params = params.unwrap_or_default();
        let alias = params.remove(&Value::keyword(ALIAS));
        let unless_empty = |params: Map<'static>| Some(params).filter(|params| !params.is_empty());
        let written = key.result_key();
        let what = match (key, sub) {
            (Key::Attribute(text), Some(sub)) if text.starts_with(">/") => What::Placeholder { params, sub },
            (Key::Ident(text, value), sub) => What::Ident { name: name(text), value: value.clone(), sub },
            (Key::Attribute(text), sub) => {
                What::Attribute { name: name(text), params: unless_empty(params), sub }
            }
            (Key::Link(text), sub) => What::Link { name: name(text), params: unless_empty(params), sub },
        };
        Self { key: alias.unwrap_or(written), what }
    }
}

impl LevelSub {
    fn new(sub: &Sub, attr: &dyn Fn(&str) -> Option<Attr>) -> Self {
        match sub {
            Sub::Query(query) => Self::Level(Level::new(query, attr)),
            Sub::Recursion(levels) => Self::Again(*levels),
            Sub::Union(branches) => {
                let branch = |(text, query): &(Text<'static>, Query)| {
                    (Name { text: text.clone(), attr: attr(text) }, Level::new(query, attr))
                };
                Self::Union(branches.iter().map(branch).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse::parse;

    #[test]
    fn equal_asks_of_one_level_are_resolved_once() {
        for (query, expected) in [
            ("[:a :b :a]", "[:a :b]"),
            ("[{:a [*]} {:a [*]} {:a [:b]}]", "[:a :a]"),
            ("[(:a {:x 1}) (:a {:x 2}) (:a {:x 1})]", "[:a :a]"),
            ("[(f {}) (f {})]", "[f f]"),
            ("[* :a *]", "[:a *]"),
        ] {
            let level = Level::new(&parse(query).unwrap(), &|_| None);
            let keys = Value::vector(level.asks.iter().map(|ask| ask.key.clone()));
            assert_eq!(keys.to_string(), expected, "{query}");
        }
        let many = format!("[{}]", "{:a [*]} ".repeat(640));
        assert_eq!(Level::new(&parse(&many).unwrap(), &|_| None).asks.len(), 1);
    }
}
