//! Parses text into a query.
//!
//! The codec reads the form. This module decides whether the form is a query, and if not, reports the place
//! and what was expected there. A value does not know its place in the text, so an error carries the path to
//! the wrong form, and the place is looked up only then. `grammar/eql.ebnf` is the grammar.

use crate::edn;
use crate::limits::{MAX_QUERY_BYTES, MAX_QUERY_DEPTH};
use crate::query::ast::{Element, JoinParams, Key, Query, Sub};
use crate::value::{Map, Text, Value};

mod source_position;

/// Why a text is not a query, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("At offset {offset}: expected {expected}, found {found}.")]
pub struct ParseError {
    /// The offset of the wrong form, in bytes.
    pub offset: usize,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
}

/// Reads a query.
///
/// # Errors
/// See [`ParseError`]: text that is not EDN, a form that is not a query, and anything beyond the bounds.
pub fn parse(text: &str) -> Result<Query, ParseError> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(ParseError {
            offset: MAX_QUERY_BYTES,
            expected: "the end of the query: it is too long",
            found: format!("{} bytes", text.len()),
        });
    }
    let form = edn::read_one(text.as_bytes()).map_err(|error| ParseError {
        offset: error.offset(),
        expected: error.expected(),
        found: error.code().to_owned(),
    })?;
    query(&form, 0).map_err(|wrong| ParseError {
        offset: source_position::find(text, wrong.way.into_iter().rev()),
        expected: wrong.expected,
        found: wrong.found,
    })
}

/// A wrong form, and the path to it, innermost step first. A step is the place of an element in its
/// collection, with keys and values of a map counted alike.
struct Wrong {
    way: Vec<usize>,
    expected: &'static str,
    found: String,
}

type Read<T> = Result<T, Wrong>;

fn wrong<T>(expected: &'static str, found: &Value<'_>) -> Read<T> {
    let shown = match found {
        Value::Keyword(_) | Value::Symbol(_) | Value::Int(_) => format!("{} {found}", found.kind_name()),
        Value::List(items) | Value::Vector(items) if items.is_empty() => {
            format!("an empty {}", found.kind_name())
        }
        _ => found.kind_name().to_owned(),
    };
    Err(Wrong { way: Vec::new(), expected, found: shown })
}

trait Inside<T> {
    /// Adds the place of the enclosing element to the path.
    fn inside(self, place: usize) -> Read<T>;
}

impl<T> Inside<T> for Read<T> {
    fn inside(self, place: usize) -> Read<T> {
        self.map_err(|mut wrong| {
            wrong.way.push(place);
            wrong
        })
    }
}

fn query(form: &Value<'_>, depth: usize) -> Read<Query> {
    let Value::Vector(forms) = form else { return wrong("a vector: a query", form) };
    if depth >= MAX_QUERY_DEPTH {
        return wrong("less nesting", form);
    }
    let asks = forms.iter().enumerate().map(|(place, form)| ask(form, depth).inside(place));
    Ok(Query { asks: asks.collect::<Read<_>>()? })
}

fn ask(form: &Value<'_>, depth: usize) -> Read<Element> {
    match form {
        Value::Symbol(name) if name == "*" => Ok(Element::All),
        Value::Keyword(_) | Value::Vector(_) => Ok(Element::Property { key: key(form)?, params: None }),
        Value::Map(map) => join(form, map, None, depth),
        Value::List(items) => match &**items {
            [Value::Symbol(name)] => {
                Ok(Element::Mutation { name: owned(name), params: Map::new(), sub: None })
            }
            [Value::Symbol(name), args] => {
                Ok(Element::Mutation { name: owned(name), params: params(args).inside(1)?, sub: None })
            }
            [Value::Map(map), args] => {
                let params = params(args).inside(1)?;
                join(form, map, Some(params), depth).inside(0)
            }
            [first @ (Value::Keyword(_) | Value::Vector(_)), args] => {
                Ok(Element::Property { key: key(first).inside(0)?, params: Some(params(args).inside(1)?) })
            }
            [Value::Keyword(_) | Value::Vector(_) | Value::Map(_)] => {
                wrong("params after the key, as in (:key {…})", form)
            }
            [_, _, further, ..] => wrong("the end of the list", further).inside(2),
            [first, ..] => wrong("a keyword, an ident, a join or a mutation's name", first).inside(0),
            [] => wrong("a keyword or a mutation's name with params", form),
        },
        _ => wrong("a keyword, an ident, a join, a list with params, or *", form),
    }
}

/// A map as a join; `form` is the form that an error of the whole refers to.
fn join(form: &Value<'_>, map: &Map<'_>, around: Option<Map<'static>>, depth: usize) -> Read<Element> {
    let mut entries = map.iter();
    let (Some((left, right)), None) = (entries.next(), entries.next()) else {
        return wrong("a join of one key and one query", form);
    };
    if let Value::List(items) = left {
        match &**items {
            [Value::Symbol(name), args @ ..] if args.len() < 2 && around.is_none() => {
                let params = args.first().map(params).transpose().inside(1).inside(0)?;
                let sub = query(right, depth + 1).inside(1)?;
                return Ok(Element::Mutation {
                    name: owned(name),
                    params: params.unwrap_or_default(),
                    sub: Some(sub),
                });
            }
            [first @ (Value::Keyword(_) | Value::Vector(_)), args] if around.is_none() => {
                let key = key(first).inside(0).inside(0)?;
                let map = params(args).inside(1).inside(0)?;
                let sub = sub(right, depth).inside(1)?;
                return Ok(Element::Join { key, params: Some(JoinParams { map, around: false }), sub });
            }
            _ => return wrong("a key, or a key with params", left).inside(0),
        }
    }
    let key = key(left).inside(0)?;
    let sub = sub(right, depth).inside(1)?;
    Ok(Element::Join { key, params: around.map(|map| JoinParams { map, around: true }), sub })
}

fn sub(form: &Value<'_>, depth: usize) -> Read<Sub> {
    match form {
        Value::Vector(_) => Ok(Sub::Query(query(form, depth + 1)?)),
        Value::Symbol(name) if name == "..." => Ok(Sub::Recursion(None)),
        Value::Int(levels) => match u32::try_from(*levels) {
            Ok(levels) if levels > 0 => Ok(Sub::Recursion(Some(levels))),
            _ => wrong("a number of levels above 0", form),
        },
        Value::Map(branches) if !branches.is_empty() => {
            let branch = |(place, (name, form)): (usize, (&Value<'_>, &Value<'_>))| match name {
                Value::Keyword(name) => Ok((owned(name), query(form, depth + 1).inside(2 * place + 1)?)),
                _ => wrong("a keyword: the attribute that tells which query to take", name).inside(2 * place),
            };
            Ok(Sub::Union(branches.iter().enumerate().map(branch).collect::<Read<_>>()?))
        }
        _ => wrong("a query, a union of queries, a number of levels or ...", form),
    }
}

fn key(form: &Value<'_>) -> Read<Key> {
    match form {
        Value::Keyword(name) => Ok(Key::Attribute(owned(name))),
        Value::Vector(items) => match &**items {
            [Value::Keyword(name), Value::Symbol(blank)] if blank == "_" => Ok(Key::Link(owned(name))),
            [Value::Keyword(name), value] => Ok(Key::Ident(owned(name), value.clone().into_owned())),
            [first, ..] if first.as_keyword().is_none() => {
                wrong("a keyword: the ident's attribute", first).inside(0)
            }
            _ => wrong("an ident: a keyword and a value", form),
        },
        _ => wrong("a keyword or an ident", form),
    }
}

fn params(form: &Value<'_>) -> Read<Map<'static>> {
    match form {
        Value::Map(map) => Ok(map.clone().into_owned()),
        _ => wrong("a map: params", form),
    }
}

fn owned(text: &Text<'_>) -> Text<'static> {
    text.clone().into_owned()
}
