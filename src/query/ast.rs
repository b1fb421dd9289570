//! A query as data, and its conversion back to text.
//!
//! The shapes are those of the EDN Query Language. A query that is parsed and printed stays the same, except
//! for blanks, comments and metadata. Knows values; knows neither existing attributes nor resolvers.

use std::fmt;

use crate::value::{Map, Text, Value};

/// A query of one entity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The asks, in the order of the text.
    pub asks: Vec<Element>,
}

/// One element of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// `:key`, `[:key value]`, `[:key _]`
    Property {
        /// The requested key.
        key: Key,
        /// `(:key {…})`
        params: Option<Map<'static>>,
    },
    /// `{:key [:a :b]}`
    Join {
        /// The requested key.
        key: Key,
        /// The params, and their place in the text.
        params: Option<JoinParams>,
        /// The query of the entities that it leads to.
        sub: Sub,
    },
    /// `(name {…})`, or `{(name {…}) [:a]}`
    Mutation {
        /// The mutation's name.
        name: Text<'static>,
        /// Its params.
        params: Map<'static>,
        /// The query of its result.
        sub: Option<Query>,
    },
    /// `*`: all known attributes.
    All,
}

/// The key of a property or join.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// An attribute of the entity.
    Attribute(Text<'static>),
    /// `[:key value]`: the entity that the attribute's value identifies.
    Ident(Text<'static>, Value<'static>),
    /// `[:key _]`: the attribute of the root.
    Link(Text<'static>),
}

/// The params of a join.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinParams {
    /// The params.
    pub map: Map<'static>,
    /// Whether they enclose the whole join, `({:key […]} {…})`, rather than the key, `{(:key {…}) […]}`.
    pub around: bool,
}

/// The right side of a join.
#[derive(Debug, Clone, PartialEq)]
pub enum Sub {
    /// `[…]`
    Query(Query),
    /// `{:a/id […] :b/id […]}`: one query per kind of entity.
    Union(Vec<(Text<'static>, Query)>),
    /// `...` or a number: the same query again, without limit or for that many levels.
    Recursion(Option<u32>),
}

impl Key {
    /// The key of the answer in the result.
    pub fn result_key(&self) -> Value<'static> {
        match self {
            Self::Attribute(name) | Self::Link(name) => Value::Keyword(name.clone()),
            Self::Ident(name, value) => Value::vector([Value::Keyword(name.clone()), value.clone()]),
        }
    }

    /// The attribute.
    pub fn attribute(&self) -> &Text<'static> {
        match self {
            Self::Attribute(name) | Self::Ident(name, _) | Self::Link(name) => name,
        }
    }

    fn to_value(&self) -> Value<'static> {
        match self {
            Self::Attribute(name) => Value::Keyword(name.clone()),
            Self::Ident(name, value) => Value::vector([Value::Keyword(name.clone()), value.clone()]),
            Self::Link(name) => Value::vector([Value::Keyword(name.clone()), Value::symbol("_")]),
        }
    }
}

impl Query {
    /// The query as a value.
    pub fn to_value(&self) -> Value<'static> {
        Value::vector(self.asks.iter().map(Element::to_value))
    }
}

impl Element {
    /// The ask as a value: equal asks are equal values.
    pub(super) fn to_value(&self) -> Value<'static> {
        let with =
            |what: Value<'static>, params: &Map<'static>| Value::list([what, Value::from(params.clone())]);
        let join = |key: Value<'static>, sub: Value<'static>| Value::map([(key, sub)]);
        match self {
            Self::All => Value::symbol("*"),
            Self::Property { key, params: None } => key.to_value(),
            Self::Property { key, params: Some(params) } => with(key.to_value(), params),
            Self::Join { key, params, sub } => match params {
                None => join(key.to_value(), sub.to_value()),
                Some(params) if params.around => with(join(key.to_value(), sub.to_value()), &params.map),
                Some(params) => join(with(key.to_value(), &params.map), sub.to_value()),
            },
            Self::Mutation { name, params, sub } => {
                let call = with(Value::Symbol(name.clone()), params);
                match sub {
                    None => call,
                    Some(sub) => join(call, sub.to_value()),
                }
            }
        }
    }
}

impl Sub {
    fn to_value(&self) -> Value<'static> {
        match self {
            Self::Query(query) => query.to_value(),
            Self::Union(branches) => Value::map(
                branches.iter().map(|(name, query)| (Value::Keyword(name.clone()), query.to_value())),
            ),
            Self::Recursion(None) => Value::symbol("..."),
            Self::Recursion(Some(levels)) => Value::from(*levels),
        }
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}
