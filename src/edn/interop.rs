//! `edn_rs::Edn` into values and back, for programs that hold that crate's type.
//!
//! Its model is narrower than EDN, and what it cannot hold is refused, not lost:
//!
//! - The keys of its maps are strings that hold the spelling of the key. A keyword, a symbol, an integer and
//!   the like are spelled there; a string as a key is refused, since nothing tells it from a symbol, and so
//!   are collections as keys.
//! - It has no decimals and no integers beyond 64 bits.
//! - It has no order of entries and elements: they come back sorted.
//! - `#inst` and `#uuid` are tagged strings there; they come back as what they are.

use edn_rs::{Edn, List, Map as EdnMap, Set as EdnSet, Vector};

use super::{read_one, to_string};
use crate::value::{Map, Value};

/// What one of the two models has no place for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InteropError {
    /// A key that is not a keyword, a symbol, a number, a boolean or `nil`.
    #[error("edn_rs::Edn has text as keys of maps: it cannot hold the key {0}")]
    Key(String),
    /// A number that is too large or too exact.
    #[error("edn_rs::Edn cannot hold the number {0}")]
    Number(String),
    /// Text that is not what its variant says.
    #[error("{0} is not the text of a value")]
    Text(String),
    /// Two keys or elements that are equal as values.
    #[error("{0} stands there twice")]
    Duplicate(String),
    /// `Edn::Empty` is no value.
    #[error("there is no value")]
    Empty,
}

impl TryFrom<&Value<'_>> for Edn {
    type Error = InteropError;

    fn try_from(value: &Value<'_>) -> Result<Edn, InteropError> {
        let all = |items: &[Value<'_>]| items.iter().map(Edn::try_from).collect::<Result<Vec<_>, _>>();
        Ok(match value {
            Value::Nil => Edn::Nil,
            Value::Bool(it) => Edn::Bool(*it),
            Value::Int(it) => Edn::Int(*it),
            Value::BigInt(it) => match u64::try_from(&**it) {
                Ok(it) if i64::try_from(it).is_err() => Edn::UInt(it),
                _ => return Err(InteropError::Number(to_string(value))),
            },
            Value::Float(it) => Edn::Double((*it).into()),
            Value::Decimal(_) => return Err(InteropError::Number(to_string(value))),
            Value::Ratio(_) => Edn::Rational(to_string(value)),
            Value::Char(it) => Edn::Char(*it),
            Value::Str(it) => Edn::Str(it.as_str().to_owned()),
            Value::Keyword(_) => Edn::Key(to_string(value)),
            Value::Symbol(it) => Edn::Symbol(it.as_str().to_owned()),
            Value::List(items) => Edn::List(List::new(all(items)?)),
            Value::Vector(items) => Edn::Vector(Vector::new(all(items)?)),
            Value::Set(set) => {
                let items = set.iter().map(Edn::try_from).collect::<Result<_, _>>()?;
                Edn::Set(EdnSet::new(items))
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| Ok((key_text(key)?, Edn::try_from(value)?)));
                Edn::Map(EdnMap::new(entries.collect::<Result<_, InteropError>>()?))
            }
            Value::Inst(_) | Value::Uuid(_) => {
                let text = to_string(value);
                let (tag, text) = text.split_once(' ').unwrap_or_default();
                Edn::Tagged(
                    tag.trim_start_matches('#').to_owned(),
                    Box::new(Edn::Str(text.trim_matches('"').to_owned())),
                )
            }
            Value::Tagged(it) => Edn::Tagged(it.tag.as_str().to_owned(), Box::new(Edn::try_from(&it.value)?)),
        })
    }
}

fn key_text(key: &Value<'_>) -> Result<String, InteropError> {
    match key {
        Value::Keyword(_)
        | Value::Symbol(_)
        | Value::Int(_)
        | Value::Bool(_)
        | Value::Nil
        | Value::Float(_) => Ok(to_string(key)),
        other => Err(InteropError::Key(to_string(other))),
    }
}

impl TryFrom<Edn> for Value<'static> {
    type Error = InteropError;

    fn try_from(edn: Edn) -> Result<Value<'static>, InteropError> {
        let all = |items: Vec<Edn>| items.into_iter().map(Value::try_from).collect::<Result<Vec<_>, _>>();
        Ok(match edn {
            Edn::Nil => Value::Nil,
            Edn::Bool(it) => Value::Bool(it),
            Edn::Int(it) => Value::Int(it),
            Edn::UInt(it) => Value::from(it),
            Edn::Double(ref it) => {
                Value::Float(edn.to_float().ok_or_else(|| InteropError::Text(it.to_string()))?)
            }
            Edn::Char(it) => Value::Char(it),
            Edn::Str(it) => Value::from(it),
            Edn::Rational(text) | Edn::Key(text) | Edn::Symbol(text) => read_text(text)?,
            Edn::List(items) => Value::List(all(items.to_vec())?.into_boxed_slice()),
            Edn::Vector(items) => Value::from(all(items.to_vec())?),
            Edn::Set(items) => {
                let items = all(items.to_set().into_iter().collect())?;
                let mut set = crate::value::Set::new();
                for item in items {
                    let text = to_string(&item);
                    if !set.insert(item) {
                        return Err(InteropError::Duplicate(text));
                    }
                }
                Value::Set(set)
            }
            Edn::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries.to_map() {
                    if map.insert(read_text(key.clone())?, Value::try_from(value)?).is_some() {
                        return Err(InteropError::Duplicate(key));
                    }
                }
                Value::Map(map)
            }
            Edn::Tagged(tag, content) => {
                let content = Value::try_from(*content)?;
                let text = to_string(&Value::tagged(tag, content));
                read_text(text)?
            }
            // `Edn::Empty`, and variants that a later version may add.
            _ => return Err(InteropError::Empty),
        })
    }
}

fn read_text(text: String) -> Result<Value<'static>, InteropError> {
    match read_one(text.as_bytes()) {
        Ok(value) => Ok(value.into_owned()),
        Err(_) => Err(InteropError::Text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_hold_goes_there_and_back() {
        let text = "[nil true 1 -2.5 \"s\" \\c :k/w sym (1) #{1 2} {:a 1 b 2 3 4} 1/2 #foo/bar [1] 18446744073709551615 #uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\" #inst \"2020-01-01T00:00:00Z\"]";
        let value = read_one(text.as_bytes()).unwrap();
        let edn = Edn::try_from(&value).unwrap();
        assert_eq!(Value::try_from(edn).unwrap(), value);
    }

    #[test]
    fn what_edn_rs_cannot_hold_is_refused() {
        for text in ["{\"a\" 1}", "{[1] 2}", "1.5M", "99999999999999999999999", "[1N]"] {
            assert!(Edn::try_from(&read_one(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
        assert_eq!(Value::try_from(Edn::Empty), Err(InteropError::Empty));
        assert!(Value::try_from(Edn::Key("no key".into())).is_err());
    }
}
