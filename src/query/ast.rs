//! A query as data, and back into text.
//!
//! The shapes are those of the EDN Query Language. What was written is kept: a query that is parsed and
//! printed is the same query, up to blanks, comments and metadata. Knows values; nothing of attributes
//! that exist or of who answers them.

use std::fmt;

use crate::value::{Map, Text, Value};

/// What is asked of one entity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Query {
    /// The asks, in the order in which they were written.
    pub asks: Vec<Ask>,
}

/// One element of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// `:key`, `[:key value]`, `[:key _]`
    Property {
        /// What is asked for.
        key: Key,
        /// `(:key {…})`
        params: Option<Map<'static>>,
    },
    /// `{:key [:a :b]}`
    Join {
        /// What is asked for.
        key: Key,
        /// The params, and how they were written.
        params: Option<JoinParams>,
        /// What is asked of what is found there.
        sub: Sub,
    },
    /// `(name {…})`, or `{(name {…}) [:a]}`
    Mutation {
        /// The mutation's name.
        name: Text<'static>,
        /// Its params.
        params: Map<'static>,
        /// What is asked of its result.
        sub: Option<Query>,
    },
    /// `*`: everything that is known.
    All,
}

/// What stands in the place of a property.
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
    /// Written around the whole join, `({:key […]} {…})`, and not around the key, `{(:key {…}) […]}`.
    pub around: bool,
}

/// The right side of a join.
#[derive(Debug, Clone, PartialEq)]
pub enum Sub {
    /// `[…]`
    Query(Query),
    /// `{:a/id […] :b/id […]}`: one query for each kind of entity.
    Union(Vec<(Text<'static>, Query)>),
    /// `...`, or a number: the same query again, all the way or so many levels down.
    Recursion(Option<u32>),
}

impl Key {
    /// The key under which the result holds the answer.
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
        Value::vector(self.asks.iter().map(Ask::to_value))
    }
}

impl Ask {
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
