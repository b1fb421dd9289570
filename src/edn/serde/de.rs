//! Values into Rust types. Knows values only. Reading straight from text is in `text`.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::SerdeError;
use super::exact;
use super::names::{kebab, kebab_chars};
use crate::value::{IntoEntries, Text, Value};

/// Gives a value away.
pub(super) struct Deserializer<'de>(pub(super) Value<'de>);

impl<'de> serde::Deserializer<'de> for Deserializer<'de> {
    type Error = SerdeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match self.0 {
            Value::Nil => visitor.visit_unit(),
            Value::Bool(it) => visitor.visit_bool(it),
            Value::Int(it) => visitor.visit_i64(it),
            Value::BigInt(it) => {
                match (i64::try_from(&*it), u64::try_from(&*it), i128::try_from(&*it), u128::try_from(&*it)) {
                    (Ok(it), ..) => visitor.visit_i64(it),
                    (_, Ok(it), ..) => visitor.visit_u64(it),
                    (_, _, Ok(it), _) => visitor.visit_i128(it),
                    (_, _, _, Ok(it)) => visitor.visit_u128(it),
                    _ => visitor.visit_string(it.to_string()),
                }
            }
            Value::Float(it) => visitor.visit_f64(it),
            Value::Decimal(it) => visitor.visit_string(it.to_string()),
            Value::Ratio(it) => visitor.visit_string(format!("{}/{}", it.numerator(), it.denominator())),
            Value::Char(it) => visitor.visit_char(it),
            Value::Str(it) | Value::Keyword(it) | Value::Symbol(it) => visit_text(it, visitor),
            Value::List(items) | Value::Vector(items) => visit_items(items.into_vec().into_iter(), visitor),
            Value::Set(set) => visit_items(set.into_iter(), visitor),
            Value::Map(map) => {
                let mut entries =
                    Entries { entries: map.into_iter(), value: None, fields: &[], key: Value::Nil };
                visitor.visit_map(&mut entries)
            }
            Value::Inst(_) => visitor.visit_string(quoted(&self.0)),
            Value::Uuid(it) => visitor.visit_string(it.to_string()),
            Value::Tagged(it) => Deserializer(it.value).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        if self.0.is_nil() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        if name == exact::ANY {
            return match exact::take_apart(self.0) {
                Ok((kind, content)) => visitor.visit_enum(Kind { kind, content }),
                Err(plain) => Deserializer(plain).deserialize_any(visitor),
            };
        }
        match (name.strip_prefix('#'), self.0) {
            (None, value) => visitor.visit_newtype_struct(Deserializer(value)),
            (Some(tag), Value::Tagged(tagged)) if &*tagged.tag == tag => {
                visitor.visit_newtype_struct(Deserializer(tagged.value))
            }
            (Some(tag), value) => Err(SerdeError::custom(format_args!(
                "invalid type: {}, expected an element with the tag #{tag}",
                value.kind_name()
            ))),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match &self.0 {
            Value::Decimal(it) => match it.to_string().parse() {
                Ok(it) => visitor.visit_f64(it),
                Err(_) => Err(SerdeError::custom("a decimal beyond the range of floats")),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        let Some(items) = self.0.as_slice() else { return self.deserialize_any(visitor) };
        let byte = |item: &Value<'_>| item.as_i64().and_then(|it| u8::try_from(it).ok());
        match items.iter().map(byte).collect::<Option<Vec<u8>>>() {
            Some(bytes) => visitor.visit_byte_buf(bytes),
            None => Err(SerdeError::invalid_type(Unexpected::Seq, &"integers from 0 to 255")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        match self.0 {
            Value::Map(map) => visitor.visit_map(&mut Entries {
                entries: map.into_iter(),
                value: None,
                fields,
                key: Value::Nil,
            }),
            other => Deserializer(other).deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        let (name, content) = match self.0 {
            Value::Keyword(name) | Value::Str(name) | Value::Symbol(name) => (name, None),
            Value::Map(map) if map.len() == 1 => match map.into_iter().next() {
                Some((Value::Keyword(name) | Value::Str(name), content)) => (name, Some(content)),
                _ => return Err(SerdeError::custom("invalid type: map, expected a keyword as its key")),
            },
            other => {
                return Err(SerdeError::custom(format_args!(
                    "invalid type: {}, expected a keyword or a map of one",
                    other.kind_name()
                )));
            }
        };
        visitor.visit_enum(Variant { name: known(name, variants), content })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string unit unit_struct seq tuple tuple_struct
        map identifier ignored_any
    }
}

/// What `Value::Inst` is written as, without its tag and quotes.
fn quoted(value: &Value<'_>) -> String {
    value.to_string().split('"').nth(1).unwrap_or_default().to_owned()
}

fn visit_text<'de, V: Visitor<'de>>(text: Text<'de>, visitor: V) -> Result<V::Value, SerdeError> {
    match text.borrowed() {
        Some(text) => visitor.visit_borrowed_str(text),
        None => visitor.visit_string(text.into_string()),
    }
}

/// The name as the derive knows it: a name of the program stands for its kebab case.
pub(super) fn known<'de>(name: Text<'de>, names: &'static [&'static str]) -> Text<'de> {
    known_name(&name, names).map_or(name, Text::from)
}

/// The one of `names` that `name` is or stands for.
#[inline]
pub(super) fn known_name(name: &str, names: &'static [&'static str]) -> Option<&'static str> {
    known_place(name, names).map(|(_, known)| known)
}

/// The one of `names` that `name` is or stands for, and its place.
#[inline]
pub(super) fn known_place(name: &str, names: &'static [&'static str]) -> Option<(usize, &'static str)> {
    let mut places = names.iter().copied().enumerate();
    let exact = places.clone().find(|(_, known)| *known == name);
    exact.or_else(|| places.find(|(_, known)| spells(known, name)))
}

/// Is `name` the kebab case of `known`?
fn spells(known: &str, name: &str) -> bool {
    if known.len() == name.len() {
        let mut pairs = known.bytes().zip(name.bytes());
        return pairs
            .all(|(known, byte)| known.to_ascii_lowercase() == byte || (known == b'_' && byte == b'-'));
    }
    known.len() < name.len() && kebab_chars(known).eq(name.chars())
}

/// The elements of a sequence; an error in one names its position.
fn visit_items<'de, V: Visitor<'de>>(
    items: std::vec::IntoIter<Value<'de>>,
    visitor: V,
) -> Result<V::Value, SerdeError> {
    let mut items = Items { items, at: 0 };
    let made = visitor.visit_seq(&mut items)?;
    match items.items.len() {
        0 => Ok(made),
        more => Err(SerdeError::invalid_length(items.at + more, &"fewer elements")),
    }
}

struct Items<'de> {
    items: std::vec::IntoIter<Value<'de>>,
    at: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = SerdeError;
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SerdeError> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        seed.deserialize(Deserializer(item)).map(Some).map_err(|error| error.below(|| at.to_string()))
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The entries of a map; an error in one names its key.
struct Entries<'de> {
    entries: IntoEntries<'de>,
    value: Option<Value<'de>>,
    /// The fields of a struct: their names, as keys, are in kebab case.
    fields: &'static [&'static str],
    key: Value<'de>,
}

impl<'de> MapAccess<'de> for &mut Entries<'de> {
    type Error = SerdeError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, SerdeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        let read = match key {
            Value::Keyword(name) | Value::Str(name) if !self.fields.is_empty() => {
                let name = known(name, self.fields);
                let read = seed.deserialize(Deserializer(Value::Str(name.clone())));
                self.key = Value::Keyword(name);
                read
            }
            key => {
                self.key = key.clone();
                seed.deserialize(Deserializer(key))
            }
        };
        read.map(Some)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, SerdeError> {
        let value =
            self.value.take().ok_or_else(|| SerdeError::custom("a value asked for before its key"))?;
        let key = &self.key;
        seed.deserialize(Deserializer(value)).map_err(|error| error.below(|| spelled(key)))
    }
    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint().1
    }
}

/// A key as it stands in a path.
fn spelled(key: &Value<'_>) -> String {
    match key {
        Value::Keyword(name) => format!(":{}", name.replace('_', "-")),
        key => key.to_string(),
    }
}

/// A variant and its content.
struct Variant<'de> {
    name: Text<'de>,
    content: Option<Value<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = SerdeError;
    type Variant = Content<'de>;
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Content<'de>), SerdeError> {
        let name = seed.deserialize(StrDeserializer::<SerdeError>::new(&self.name))?;
        Ok((name, Content { name: self.name, content: self.content }))
    }
}

struct Content<'de> {
    name: Text<'de>,
    content: Option<Value<'de>>,
}

impl<'de> Content<'de> {
    fn read<T>(self, read: impl FnOnce(Deserializer<'de>) -> Result<T, SerdeError>) -> Result<T, SerdeError> {
        match self.content {
            Some(content) => {
                read(Deserializer(content)).map_err(|error| error.below(|| format!(":{}", kebab(&self.name))))
            }
            None => Err(SerdeError::custom("a keyword, expected a map of it and its content")),
        }
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = SerdeError;
    fn unit_variant(self) -> Result<(), SerdeError> {
        match self.content {
            None | Some(Value::Nil) => Ok(()),
            Some(_) => Err(SerdeError::custom("a map, expected a keyword alone")),
        }
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, SerdeError> {
        self.read(|content| seed.deserialize(content))
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.read(|content| serde::Deserializer::deserialize_seq(content, visitor))
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.read(|content| serde::Deserializer::deserialize_struct(content, "", fields, visitor))
    }
}

/// A value of a kind that serde has no word for, for [`exact`].
struct Kind<'de> {
    kind: &'static str,
    content: Value<'de>,
}

impl<'de> EnumAccess<'de> for Kind<'de> {
    type Error = SerdeError;
    type Variant = KindContent<'de>;
    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, KindContent<'de>), SerdeError> {
        let kind = seed.deserialize(BorrowedStrDeserializer::<SerdeError>::new(self.kind))?;
        Ok((kind, KindContent(self.content)))
    }
}

struct KindContent<'de>(Value<'de>);

impl<'de> VariantAccess<'de> for KindContent<'de> {
    type Error = SerdeError;
    fn unit_variant(self) -> Result<(), SerdeError> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, SerdeError> {
        seed.deserialize(Deserializer(self.0))
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, SerdeError> {
        serde::Deserializer::deserialize_any(Deserializer(self.0), visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        serde::Deserializer::deserialize_any(Deserializer(self.0), visitor)
    }
}
