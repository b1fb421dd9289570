//! Rust types into values. Knows values only, and not how they are written.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};

use super::error::SerdeError;
use super::exact;
use super::names::kebab;
use crate::value::{Map, Value};

type Made = Result<Value<'static>, SerdeError>;

/// Makes a value.
pub(super) struct Serializer;

macro_rules! plain {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, it: $type) -> Made {
            Ok(Value::from(it))
        }
    )*};
}

impl serde::Serializer for Serializer {
    type Ok = Value<'static>;
    type Error = SerdeError;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Entries;
    type SerializeStruct = Entries;
    type SerializeStructVariant = Entries;

    plain! {
        serialize_bool: bool, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128, serialize_u8: u8,
        serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f64: f64, serialize_char: char,
    }

    fn serialize_i8(self, it: i8) -> Made {
        Ok(Value::int(it.into()))
    }
    fn serialize_i16(self, it: i16) -> Made {
        Ok(Value::int(it.into()))
    }
    fn serialize_u128(self, it: u128) -> Made {
        Ok(i64::try_from(it)
            .map_or_else(|_| Value::from(bigdecimal::num_bigint::BigInt::from(it)), Value::int))
    }
    fn serialize_f32(self, it: f32) -> Made {
        Ok(Value::float(it.into()))
    }
    fn serialize_str(self, it: &str) -> Made {
        Ok(Value::from(it.to_owned()))
    }
    fn serialize_bytes(self, it: &[u8]) -> Made {
        Ok(Value::vector(it.iter().copied()))
    }
    fn serialize_none(self) -> Made {
        Ok(Value::Nil)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, it: &T) -> Made {
        it.serialize(self)
    }
    fn serialize_unit(self) -> Made {
        Ok(Value::Nil)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Made {
        Ok(Value::Nil)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Made {
        Ok(Value::keyword(kebab(variant)))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, it: &T) -> Made {
        let value = it.serialize(self)?;
        match name.strip_prefix('#') {
            Some(tag) => Ok(Value::tagged(tag, value)),
            None => exact::rebuild(name, value).map_err(SerdeError::custom),
        }
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        it: &T,
    ) -> Made {
        Ok(variant_of(variant, it.serialize(self)?))
    }
    fn serialize_seq(self, length: Option<usize>) -> Result<Items, SerdeError> {
        Ok(Items { variant: None, items: Vec::with_capacity(length.unwrap_or(0).min(1024)) })
    }
    fn serialize_tuple(self, length: usize) -> Result<Items, SerdeError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Items, SerdeError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items, SerdeError> {
        Ok(Items { variant: Some(variant), items: Vec::new() })
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Entries, SerdeError> {
        Ok(Entries { variant: None, key: None, map: Map::new() })
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Entries, SerdeError> {
        self.serialize_map(None)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Entries, SerdeError> {
        Ok(Entries { variant: Some(variant), key: None, map: Map::new() })
    }
}

fn variant_of(name: &str, content: Value<'static>) -> Value<'static> {
    Value::map([(Value::keyword(kebab(name)), content)])
}

/// The elements of a vector, and the variant whose content it is.
pub(super) struct Items {
    variant: Option<&'static str>,
    items: Vec<Value<'static>>,
}

impl Items {
    fn add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerdeError> {
        let at = self.items.len();
        self.items.push(item.serialize(Serializer).map_err(|error| error.below(|| at.to_string()))?);
        Ok(())
    }
    fn made(self) -> Made {
        let vector = Value::from(self.items);
        Ok(match self.variant {
            Some(variant) => variant_of(variant, vector),
            None => vector,
        })
    }
}

macro_rules! sequence {
    ($($trait:ident $add:ident),* $(,)?) => {$(
        impl $trait for Items {
            type Ok = Value<'static>;
            type Error = SerdeError;
            fn $add<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerdeError> {
                self.add(item)
            }
            fn end(self) -> Made {
                self.made()
            }
        }
    )*};
}
sequence! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field,
}

/// The entries of a map, and the variant whose content it is.
pub(super) struct Entries {
    variant: Option<&'static str>,
    key: Option<Value<'static>>,
    map: Map<'static>,
}

impl Entries {
    fn add<T: Serialize + ?Sized>(&mut self, key: Value<'static>, value: &T) -> Result<(), SerdeError> {
        let value = value.serialize(Serializer).map_err(|error| error.below(|| key.to_string()))?;
        self.map.insert(key, value);
        Ok(())
    }
    fn made(self) -> Made {
        let map = Value::from(self.map);
        Ok(match self.variant {
            Some(variant) => variant_of(variant, map),
            None => map,
        })
    }
}

/// The key of a field. A name without `_` is not copied.
fn field_key(name: &'static str) -> Value<'static> {
    if name.contains('_') { Value::keyword(name.replace('_', "-")) } else { Value::keyword(name) }
}

impl SerializeMap for Entries {
    type Ok = Value<'static>;
    type Error = SerdeError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerdeError> {
        self.key = Some(key.serialize(Serializer)?);
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerdeError> {
        let key = self.key.take().ok_or_else(|| SerdeError::custom("a value without a key"))?;
        self.add(key, value)
    }
    fn end(self) -> Made {
        self.made()
    }
}

macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl $trait for Entries {
            type Ok = Value<'static>;
            type Error = SerdeError;
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), SerdeError> {
                self.add(field_key(name), value)
            }
            fn end(self) -> Made {
                self.made()
            }
        }
    )*};
}
fields!(SerializeStruct, SerializeStructVariant);
