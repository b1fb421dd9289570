//! A query made ready for a graph: names are numbers, and each level keeps what it planned.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use crate::limits::QUERY_PLANS;
use crate::query::ast::{Ask, Key, Query, Sub};
use crate::query::graph::{Attr, Bits, Cost, Graph, ResolverId, Run};
use crate::value::{Map, Text, Value};

/// One level of a query: what is asked of one kind of entity.
#[derive(Debug)]
pub struct Level {
    /// The asks.
    pub asks: Vec<LevelAsk>,
    /// Whether each answer has a key of its own for certain, so that none has to be looked for.
    pub distinct: bool,
    /// For each kind of entity that was met, which asks are fields of what is at hand.
    direct: RwLock<Vec<(Bits, Direct)>>,
}

/// For each ask the field that it is, where it is one.
pub type Direct = Arc<[Option<Field>]>;

/// A field of a handle: the resolver, the handle's attribute and the output's place.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// How it is read.
    pub read: fn(&crate::query::graph::Handle, usize) -> Value<'static>,
    /// Whose field it is.
    pub handle: Attr,
    /// Which one.
    pub place: usize,
}

/// One ask.
#[derive(Debug)]
pub struct LevelAsk {
    /// Where the answer stands in the result.
    pub key: Value<'static>,
    /// What is asked.
    pub what: What,
}

/// What is asked.
#[derive(Debug)]
pub enum What {
    /// An attribute of the entity.
    Attribute {
        /// Which.
        name: Name,
        /// The ask's params; `None` without any that a resolver would see.
        params: Option<Map<'static>>,
        /// What is asked of the entities there.
        sub: Option<LevelSub>,
    },
    /// The same entity again, below a key of its own; params are added to what is known.
    Placeholder {
        /// What is added.
        params: Map<'static>,
        /// What is asked.
        sub: LevelSub,
    },
    /// An entity by its ident.
    Ident {
        /// The ident's attribute.
        name: Name,
        /// The ident's value.
        value: Value<'static>,
        /// What is asked of it.
        sub: Option<LevelSub>,
    },
    /// An attribute of the root.
    Link {
        /// Which.
        name: Name,
        /// The ask's params; `None` without any that a resolver would see.
        params: Option<Map<'static>>,
        /// What is asked of the entities there.
        sub: Option<LevelSub>,
    },
    /// A mutation's result.
    Mutation {
        /// Its name.
        name: Text<'static>,
        /// Its params.
        params: Map<'static>,
        /// What is asked of the result.
        sub: Option<LevelSub>,
    },
    /// Everything that is known.
    All,
}

/// An attribute's name: a number where the graph knows it.
#[derive(Debug, Clone)]
pub struct Name {
    /// As it was written.
    pub text: Text<'static>,
    /// The attribute.
    pub attr: Option<Attr>,
}

/// The right side of a join.
#[derive(Debug)]
pub enum LevelSub {
    /// A query.
    Level(Level),
    /// A query for each kind of entity.
    Union(Vec<(Name, Level)>),
    /// The level that the join stands in, once more.
    Again(Option<u32>),
}

/// The params that the engine itself reads.
const ALIAS: &str = "pathom/as";

impl Level {
    /// A level for the names that `attr` knows.
    pub fn new(query: &Query, attr: &dyn Fn(&str) -> Option<Attr>) -> Self {
        let made = |asks: Vec<&Ask>| asks.into_iter().map(|ask| LevelAsk::new(ask, attr)).collect::<Vec<_>>();
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

    /// Which asks are fields of handles that entities of that kind have.
    pub fn direct(&self, graph: &Graph, known: &Bits) -> Direct {
        let kept = self.direct.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fields)) = kept.iter().find(|(kind, _)| kind == known) {
            return fields.clone();
        }
        drop(kept);
        let plan = graph.plan(known);
        let field = |ask: &LevelAsk| {
            let What::Attribute { name, params: None, sub: None } = &ask.what else { return None };
            let attr = name.attr.filter(|attr| !known.has(attr.place()))?;
            let node = graph.resolver(*plan.ways(attr).first()?)?;
            let (Run::Fields(read), [input]) = (node.spec.run, node.input.as_slice()) else { return None };
            let place = node.output.iter().position(|output| *output == attr)?;
            known.has(input.attr.place()).then_some(Field { read, handle: input.attr, place })
        };
        let fields: Direct = self.asks.iter().map(field).collect();
        let mut kept = self.direct.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= QUERY_PLANS {
            kept.clear();
        }
        kept.push((*known, fields.clone()));
        fields
    }

    /// Whether answering may read the disk, so that it should not be done on a connection's thread.
    pub fn is_slow(&self, graph: &Graph) -> bool {
        let mut seen = Bits::default();
        self.asks.iter().any(|ask| ask.is_slow(graph, &mut seen))
    }

    /// Whether it changes anything.
    pub fn mutates(&self) -> bool {
        self.asks.iter().any(|ask| matches!(ask.what, What::Mutation { .. }))
    }
}

/// The asks without those that came before with the same params and the same below them: the answer to both is the
/// same value under the same key. Mutations are made as often as they are written.
fn once<'q>(asks: impl Iterator<Item = &'q Ask>) -> Vec<&'q Ask> {
    let mut seen = HashSet::new();
    asks.filter(|ask| matches!(ask, Ask::Mutation { .. }) || seen.insert(ask.to_value())).collect()
}

impl LevelAsk {
    fn new(ask: &Ask, attr: &dyn Fn(&str) -> Option<Attr>) -> Self {
        let name = |text: &Text<'static>| Name { text: text.clone(), attr: attr(text) };
        let (key, params, below) = match ask {
            Ask::All => return Self { key: Value::symbol("*"), what: What::All },
            Ask::Mutation { name, params, sub } => {
                let what = What::Mutation {
                    name: name.clone(),
                    params: params.clone(),
                    sub: sub.as_ref().map(|sub| LevelSub::Level(Level::new(sub, attr))),
                };
                return Self { key: Value::Symbol(name.clone()), what };
            }
            Ask::Property { key, params } => (key, params.clone(), None),
            Ask::Join { key, params, sub } => {
                (key, params.as_ref().map(|params| params.map.clone()), Some(sub))
            }
        };
        let sub = below.map(|sub| LevelSub::new(sub, attr));
        let mut params = params.unwrap_or_default();
        let alias = params.remove(&Value::keyword(ALIAS));
        let given = |params: Map<'static>| Some(params).filter(|params| !params.is_empty());
        let written = key.result_key();
        let what = match (key, sub) {
            (Key::Attribute(text), Some(sub)) if text.starts_with(">/") => What::Placeholder { params, sub },
            (Key::Ident(text, value), sub) => What::Ident { name: name(text), value: value.clone(), sub },
            (Key::Attribute(text), sub) => What::Attribute { name: name(text), params: given(params), sub },
            (Key::Link(text), sub) => What::Link { name: name(text), params: given(params), sub },
        };
        Self { key: alias.unwrap_or(written), what }
    }

    fn is_slow(&self, graph: &Graph, seen: &mut Bits) -> bool {
        let (name, sub) = match &self.what {
            What::All => return false,
            What::Placeholder { sub, .. } => (None, Some(sub)),
            What::Mutation { sub, .. } => (None, sub.as_ref()),
            What::Attribute { name, sub, .. }
            | What::Ident { name, sub, .. }
            | What::Link { name, sub, .. } => (name.attr, sub.as_ref()),
        };
        name.is_some_and(|attr| leads_to_slow(graph, attr, seen))
            || match sub {
                Some(LevelSub::Level(level)) => level.asks.iter().any(|ask| ask.is_slow(graph, seen)),
                Some(LevelSub::Union(branches)) => {
                    branches.iter().any(|(_, level)| level.asks.iter().any(|ask| ask.is_slow(graph, seen)))
                }
                Some(LevelSub::Again(_)) | None => false,
            }
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

/// Whether any way to the attribute reads the disk.
fn leads_to_slow(graph: &Graph, attr: Attr, seen: &mut Bits) -> bool {
    seen.add(attr.place())
        && graph.providers(attr).iter().any(|id: &ResolverId| {
            graph.resolver(*id).is_some_and(|node| {
                node.spec.cost == Cost::Slow
                    || node.input.iter().any(|input| leads_to_slow(graph, input.attr, seen))
            })
        })
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
