//! The shapes of JSON values, as data: what a method's params and results, and an event's keys, look like.
//!
//! Checks a value against its shape, and says what was expected. Knows no method.

use Shape::{Any, Each, Either, Filled, Flag, List, Null, Number, Object, OneOf, Percent, Text, Whole};

use crate::value::{Map, Value};

/// The shape of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A text.
    Text,
    /// A text that is not empty.
    Filled,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// True or false.
    Flag,
    /// An integer.
    Whole,
    /// An integer from 0 to 100.
    Percent,
    /// A number.
    Number,
    /// Nothing.
    Null,
    /// An object with these keys, and perhaps others.
    Object(&'static [Key]),
    /// A list of such.
    List(&'static Shape),
    /// An object with any keys, each with such a value.
    Each(&'static Shape),
    /// One of these.
    Either(&'static [Shape]),
    /// Anything.
    Any,
}

/// A key of an object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The shape of its value.
    pub shape: Shape,
    /// Whether it must be there. In what the interface sends, null counts as absent.
    pub required: bool,
}

/// A key that must be there.
pub const fn needs(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: true }
}

/// A key that may be absent.
pub const fn may(name: &'static str, shape: Shape) -> Key {
    Key { name, shape, required: false }
}

/// A value of another shape: where, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The path of the key, such as `input.text`.
    pub key: String,
    /// The expected value, for a person.
    pub expected: String,
}

/// Checks an object's keys.
///
/// # Errors
/// For the first key of another shape.
pub fn check(keys: &[Key], value: &Value<'_>) -> Result<(), Misfit> {
    let empty = Map::new();
    let map = match value {
        Value::Nil => &empty,
        Value::Map(map) => map,
        _ => return Err(Misfit { key: String::new(), expected: "an object".to_owned() }),
    };
    for key in keys {
        let found = map.get(&Value::str(key.name)).or_else(|| map.get_keyword(key.name));
        let misfit = match found {
            None | Some(Value::Nil) if !key.required => continue,
            None => Some(Misfit { key: String::new(), expected: key.shape.expected() }),
            Some(value) => key.shape.check(value).err(),
        };
        if let Some(Misfit { key: below, expected }) = misfit {
            let dot = if below.is_empty() || below.starts_with('[') { "" } else { "." };
            return Err(Misfit { key: format!("{}{dot}{below}", key.name), expected });
        }
    }
    Ok(())
}

impl Shape {
    /// Checks a value.
    ///
    /// # Errors
    /// For the first value of another shape.
    pub fn check(self, value: &Value<'_>) -> Result<(), Misfit> {
        let fits = match self {
            Text => value.as_str().is_some(),
            Filled => value.as_str().is_some_and(|text| !text.is_empty()),
            OneOf(names) => value.as_str().is_some_and(|text| names.contains(&text)),
            Flag => value.as_bool().is_some(),
            // A whole number that is beyond 64 bits is one too.
            Whole => {
                matches!(value, Value::Int(_))
                    || matches!(value, Value::Float(number) if number.abs() >= 9.2e18)
            }
            Percent => matches!(value, Value::Int(0..=100)),
            Number => matches!(value, Value::Int(_) | Value::Float(_)),
            Null => value.is_nil(),
            Any => true,
            Object(keys) => {
                return if value.as_map().is_some() { check(keys, value) } else { Err(self.misfit()) };
            }
            List(shape) => {
                let items = value.as_slice().ok_or_else(|| self.misfit())?;
                for (at, item) in items.iter().enumerate() {
                    shape.check(item).map_err(|Misfit { key, expected }| {
                        let dot = if key.is_empty() { "" } else { "." };
                        Misfit { key: format!("[{at}]{dot}{key}"), expected }
                    })?;
                }
                true
            }
            Each(shape) => {
                let map = value.as_map().ok_or_else(|| self.misfit())?;
                for (key, value) in map.iter() {
                    shape.check(value).map_err(|misfit| Misfit {
                        key: key.as_str().or(key.as_keyword()).unwrap_or_default().to_owned(),
                        ..misfit
                    })?;
                }
                true
            }
            Either(shapes) => shapes.iter().any(|shape| shape.check(value).is_ok()),
        };
        if fits { Ok(()) } else { Err(self.misfit()) }
    }

    fn misfit(self) -> Misfit {
        Misfit { key: String::new(), expected: self.expected() }
    }

    /// What is expected, for a person.
    pub fn expected(self) -> String {
        match self {
            Text => "a text".to_owned(),
            Filled => "a text that is not empty".to_owned(),
            OneOf(names) => format!("one of {}", names.join(", ")),
            Flag => "true or false".to_owned(),
            Whole => "an integer".to_owned(),
            Percent => "an integer from 0 to 100".to_owned(),
            Number => "a number".to_owned(),
            Null => "null".to_owned(),
            Any => "a value".to_owned(),
            Object(keys) => {
                let key = |key: &Key| format!("{}{}", key.name, if key.required { "" } else { "?" });
                format!("an object {{{}}}", keys.iter().map(key).collect::<Vec<_>>().join(", "))
            }
            List(shape) => format!("a list, each {}", shape.expected()),
            Each(Any) => "an object".to_owned(),
            Each(shape) => format!("an object, each value {}", shape.expected()),
            Either(shapes) => shapes.iter().map(|shape| shape.expected()).collect::<Vec<_>>().join(", or "),
        }
    }
}
