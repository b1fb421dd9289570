//! A [`Value`] inside other data: it comes through as it is, keyword as keyword and set as set.
//!
//! Serde's data model has no keyword. A value therefore goes as a newtype whose name says its kind; other
//! formats see the plain content. On the way back it asks for a newtype of the name [`ANY`].

use std::fmt;

use serde::de::{
    Deserialize, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess as _,
    Visitor,
};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::read_one;
use crate::value::{Map, Value};

/// The name under which a value asks for itself.
pub(super) const ANY: &str = ":value";

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let written = || self.to_string();
        match self {
            Value::Nil => to.serialize_unit(),
            Value::Bool(it) => to.serialize_bool(*it),
            Value::Int(it) => to.serialize_i64(*it),
            Value::Float(it) => to.serialize_f64(*it),
            Value::Char(it) => to.serialize_char(*it),
            Value::Str(it) => to.serialize_str(it),
            Value::Keyword(it) => to.serialize_newtype_struct(":keyword", it.as_str()),
            Value::Symbol(it) => to.serialize_newtype_struct(":symbol", it.as_str()),
            Value::Vector(it) => to.collect_seq(it),
            Value::List(it) => to.serialize_newtype_struct(":list", it),
            Value::Set(it) => to.serialize_newtype_struct(":set", &it.iter().collect::<Vec<_>>()),
            Value::Map(it) => it.serialize(to),
            Value::Tagged(it) => to.serialize_newtype_struct(":tagged", &(it.tag.as_str(), &it.value)),
            Value::BigInt(_) | Value::Decimal(_) | Value::Ratio(_) | Value::Inst(_) | Value::Uuid(_) => {
                to.serialize_newtype_struct(":written", &written())
            }
        }
    }
}

impl Serialize for Map<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Map<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::Map(map) => Ok(map),
            other => Err(D::Error::invalid_type(Unexpected::Other(other.kind_name()), &"a map")),
        }
    }
}

/// A kind that serde has no word for, and what goes over the data model in its place; a plain value comes
/// back as it is.
pub(super) fn take_apart<'a>(value: Value<'a>) -> Result<(&'static str, Value<'a>), Value<'a>> {
    Ok(match value {
        Value::Keyword(name) => (":keyword", Value::Str(name)),
        Value::Symbol(name) => (":symbol", Value::Str(name)),
        Value::List(items) => (":list", Value::Vector(items)),
        Value::Set(set) => (":set", Value::vector(set)),
        Value::Tagged(tagged) => (":tagged", Value::vector([Value::Str(tagged.tag), tagged.value])),
        Value::BigInt(_) | Value::Decimal(_) | Value::Ratio(_) | Value::Inst(_) | Value::Uuid(_) => {
            (":written", Value::from(value.to_string()))
        }
        plain => return Err(plain),
    })
}

/// The value whose kind `name` says and whose content is `content`; any other newtype is its content.
/// The error says what is expected; serde carries the errors of a format as texts.
pub(super) fn rebuild<'a>(name: &str, content: Value<'a>) -> Result<Value<'a>, String> {
    Ok(match (name, content) {
        (":keyword", Value::Str(text)) => Value::Keyword(text),
        (":symbol", Value::Str(text)) => Value::Symbol(text),
        (":list", Value::Vector(items)) => Value::List(items),
        (":set", Value::Vector(items)) => Value::set(items),
        (":written", Value::Str(text)) => {
            read_one(text.as_bytes()).map_err(|error| error.to_string())?.into_owned()
        }
        (":tagged", Value::Vector(pair)) => match <[Value<'a>; 2]>::try_from(pair.into_vec()) {
            Ok([Value::Str(tag), value]) => Value::tagged(tag, value),
            _ => return Err("a tag and an element".into()),
        },
        (_, content) => content,
    })
}

/// Any value, borrowing nothing, so that it fits a field of every type. [`borrowed`] gives one that borrows.
impl<'de> Deserialize<'de> for Value<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        borrowed(from).map(Value::into_owned)
    }
}

/// Any value, borrowing its text: `#[serde(borrow, deserialize_with = "edn_codec::borrowed")]`.
///
/// # Errors
/// What `from` fails with.
pub fn borrowed<'de, D: Deserializer<'de>>(from: D) -> Result<Value<'de>, D::Error> {
    from.deserialize_newtype_struct(ANY, AnyValue)
}

/// A value inside another one.
struct Part<'de>(Value<'de>);

impl<'de> Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        borrowed(from).map(Part)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    /// From the codec: the kind and the content.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value<'de>, A::Error> {
        let (kind, content) = data.variant::<&str>()?;
        rebuild(kind, content.newtype_variant::<Part<'de>>()?.0).map_err(Error::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Value<'de>, D::Error> {
        from.deserialize_any(self)
    }
    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Nil)
    }
    fn visit_none<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Nil)
    }
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Value<'de>, D::Error> {
        borrowed(from)
    }
    fn visit_bool<E>(self, it: bool) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_i64<E>(self, it: i64) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_u64<E>(self, it: u64) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_i128<E>(self, it: i128) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_f64<E>(self, it: f64) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_char<E>(self, it: char) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_str<E>(self, it: &str) -> Result<Value<'de>, E> {
        Ok(it.to_owned().into())
    }
    fn visit_borrowed_str<E>(self, it: &'de str) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_string<E>(self, it: String) -> Result<Value<'de>, E> {
        Ok(it.into())
    }
    fn visit_bytes<E>(self, it: &[u8]) -> Result<Value<'de>, E> {
        Ok(Value::vector(it.iter().copied()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let mut vector = Vec::new();
        while let Some(Part(item)) = items.next_element()? {
            vector.push(item);
        }
        Ok(vector.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value<'de>, A::Error> {
        let mut map = Map::new();
        while let Some((Part(key), Part(value))) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map.into())
    }
}
