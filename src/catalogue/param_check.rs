//! Checks params against a row of the table. Does not know what an op does.

use crate::catalogue::param::{Param, Shape};
use crate::message::ThinkingLevel;
use crate::value::Value;

/// A param of the wrong shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} must be {expected}, but {found}")]
pub struct InvalidParam {
    /// The key with its colon, or `:params` if the params are not a map.
    pub key: String,
    /// The expected shape, in words.
    pub expected: String,
    /// The actual value, in words: `is missing`, `is a keyword`.
    pub found: String,
}

/// Checks the params of an op, which may name a session if it concerns one.
pub(super) fn params(known: &[Param], session: bool, params: &Value<'_>) -> Result<(), InvalidParam> {
    if params.as_map().is_none() {
        return Err(InvalidParam {
            key: ":params".to_owned(),
            expected: "a map".to_owned(),
            found: is_a(params.kind_name()),
        });
    }
    const SESSION: Param = Param { key: "session-id", shape: Shape::Filled, required: false };
    let session = session.then_some(&SESSION);
    known.iter().chain(session).try_for_each(|param| one(param, params.get(param.key)))
}

fn one(param: &Param, value: Option<&Value<'_>>) -> Result<(), InvalidParam> {
    let found = match value {
        Some(value) if fits(param.shape, value) => return Ok(()),
        // A nil for an optional param counts as absent: a Lisp client writes both the same way.
        Some(value) if value.is_nil() && !param.required => return Ok(()),
        None if !param.required => return Ok(()),
        Some(value) => match (param.shape, value.as_str()) {
            (Shape::Filled | Shape::Name, Some("")) => "is empty".to_owned(),
            (Shape::Filled | Shape::Name, Some(_)) => "is blank".to_owned(),
            (Shape::OneOf(_) | Shape::Level, Some(text)) => format!("is {:?}", excerpt(text, 40)),
            // The vector itself fits; one of its items does not.
            (Shape::Texts | Shape::Maps, _) if value.as_slice().is_some() => "holds other items".to_owned(),
            (Shape::Count, _) if value.as_i64().is_some() => "is negative".to_owned(),
            _ => is_a(value.kind_name()),
        },
        None => "is missing".to_owned(),
    };
    Err(InvalidParam { key: format!(":{}", param.key), expected: param.shape.to_string(), found })
}

fn fits(shape: Shape, value: &Value<'_>) -> bool {
    match shape {
        Shape::Text => value.as_str().is_some(),
        Shape::Filled => value.as_str().is_some_and(is_said),
        Shape::Count => value.as_i64().is_some_and(|n| n >= 0),
        Shape::Flag => value.as_bool().is_some(),
        Shape::Map => value.as_map().is_some(),
        Shape::Any => true,
        Shape::DialogResult => value.is_nil() || value.as_bool().is_some() || value.as_str().is_some(),
        Shape::Texts => {
            value.as_slice().is_some_and(|items| items.iter().all(|item| item.as_str().is_some()))
        }
        Shape::Maps => value.as_slice().is_some_and(|items| items.iter().all(|item| item.as_map().is_some())),
        Shape::Name => value.as_str().or_else(|| value.as_keyword()).is_some_and(is_said),
        Shape::Level => thinking_level(value).is_some(),
        Shape::OneOf(names) => value.as_str().is_some_and(|name| names.contains(&name)),
    }
}

/// Whether a text has more than blanks.
fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

/// A thinking level by name (string or keyword) or by place.
pub fn thinking_level(value: &Value<'_>) -> Option<ThinkingLevel> {
    if let Some(place) = value.as_i64() {
        return ThinkingLevel::ALL.get(usize::try_from(place).ok()?).copied();
    }
    ThinkingLevel::parse(value.as_str().or_else(|| value.as_keyword())?)
}

/// `is a map`, `is an integer`, `is nil`.
fn is_a(kind: &str) -> String {
    match kind.as_bytes().first() {
        _ if kind == "nil" => "is nil".to_owned(),
        Some(b'a' | b'e' | b'i' | b'o' | b'u') => format!("is an {kind}"),
        _ => format!("is a {kind}"),
    }
}

/// The first characters of a text, for the error that refuses it.
pub fn excerpt(text: &str, most: usize) -> &str {
    let end = text.char_indices().nth(most).map_or(text.len(), |(offset, _)| offset);
    text.get(..end).unwrap_or(text)
}
