//! Text into Rust types, without a value of it all in between.
//!
//! Maps and sequences are handed over as they are read, and text without an escape as a slice of the input. What
//! serde has no word for, tagged elements and sets among it, is read as a value first. Only the way that succeeds
//! is known here: whatever does not fit is [`Unfit`], and its reader reads again, by way of a value, to say what is
//! wrong and where.

use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer as _, forward_to_deserialize_any};

use super::{de, exact};
use crate::read::Cursor;
use crate::value::{Repeats, Value};

/// The data in the one form that `input` holds; none if there is anything wrong with it.
pub(super) fn read<'de, T: Deserialize<'de>>(input: &'de [u8]) -> Option<T> {
    let mut form = Form { cursor: Cursor::new(input)?, keys: Vec::new(), failed: false };
    form.cursor.peek()?;
    let left = form.cursor.left();
    let data = T::deserialize(&mut form).ok()?;
    form.passed(left)?;
    (!form.failed && form.cursor.at_end()).then_some(data)
}

/// Something is wrong; what it is, is found out by reading again.
#[derive(Debug)]
struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unfit")
    }
}
impl std::error::Error for Unfit {}
impl serde::de::Error for Unfit {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Unfit
    }
}

type Read<T> = Result<T, Unfit>;

/// The form at the cursor.
struct Form<'de> {
    cursor: Cursor<'de>,
    /// The keys so far of the maps that are open.
    keys: Vec<Value<'de>>,
    /// Something was wrong, whether or not the type went on without it.
    failed: bool,
}

impl<'de> Form<'de> {
    /// Notes if `read` fails.
    fn noting<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        let made = read(self);
        self.failed |= made.is_err();
        made
    }

    /// The form as a value.
    #[inline]
    fn value(&mut self) -> Read<de::Deserializer<'de>> {
        self.cursor.form().map(de::Deserializer).ok_or(Unfit)
    }

    /// Passes the form that started with `left` bytes to read, where its type did not look at it.
    fn passed(&mut self, left: usize) -> Option<()> {
        if self.cursor.left() == left {
            self.cursor.form()?;
        }
        Some(())
    }

    /// The form that starts with `next` and is no map or sequence. The usual ones go without a value of their own.
    #[inline]
    fn scalar<V: Visitor<'de>>(&mut self, next: Option<u8>, visitor: V) -> Read<V::Value> {
        let text = match next {
            Some(b'"') => self.cursor.plain_string(),
            Some(b':') => self.cursor.keyword(),
            _ => None,
        };
        if let Some(text) = text {
            return visitor.visit_borrowed_str(text);
        }
        let digit = next.is_some_and(|byte| byte.is_ascii_digit());
        if digit && let Some(int) = self.cursor.small_integer() {
            return visitor.visit_i64(int);
        }
        self.value()?.deserialize_any(visitor).map_err(|_| Unfit)
    }

    /// What `seed` makes of the next form.
    fn seeded<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<T::Value> {
        self.noting(|form| {
            form.cursor.peek().ok_or(Unfit)?;
            let left = form.cursor.left();
            let made = seed.deserialize(&mut *form)?;
            form.passed(left).ok_or(Unfit)?;
            Ok(made)
        })
    }

    fn entries<V: Visitor<'de>>(&mut self, fields: &'static [&'static str], visitor: V) -> Read<V::Value> {
        self.cursor.enter().ok_or(Unfit)?;
        let start = self.keys.len();
        let mut entries =
            Entries { form: self, start, count: 0, repeats: Repeats::default(), fields, met: 0, after: 0 };
        let made = visitor.visit_map(&mut entries)?;
        let elements = 2 * entries.count;
        self.keys.truncate(start);
        self.cursor.leave(b'}', elements).ok_or(Unfit)?;
        Ok(made)
    }

    fn items<V: Visitor<'de>>(&mut self, close: u8, visitor: V) -> Read<V::Value> {
        self.cursor.enter().ok_or(Unfit)?;
        let mut items = Items { form: self, close, count: 0 };
        let made = visitor.visit_seq(&mut items)?;
        let count = items.count;
        self.cursor.leave(close, count).ok_or(Unfit)?;
        Ok(made)
    }
}

/// Read as a value, which the deserializer of values hands on.
macro_rules! by_value {
    ($($method:ident($($name:ident: $type:ty),*)),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Read<V::Value> {
            self.noting(|form| form.value()?.$method($($name,)* visitor).map_err(|_| Unfit))
        }
    )*};
}

impl<'de> serde::Deserializer<'de> for &mut Form<'de> {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.noting(|form| match form.cursor.peek() {
            Some(b'{') => form.entries(&[], visitor),
            Some(b'[') => form.items(b']', visitor),
            Some(b'(') => form.items(b')', visitor),
            next => form.scalar(next, visitor),
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        match self.cursor.peek() {
            Some(b'{') => self.noting(|form| form.entries(fields, visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.noting(|form| match form.cursor.peek() {
            Some(b'n') => form.value()?.deserialize_option(visitor).map_err(|_| Unfit),
            _ => visitor.visit_some(&mut *form),
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Read<V::Value> {
        self.noting(|form| {
            if name == exact::ANY || name.starts_with('#') {
                return form.value()?.deserialize_newtype_struct(name, visitor).map_err(|_| Unfit);
            }
            visitor.visit_newtype_struct(&mut *form)
        })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.noting(|form| {
            form.value()?;
            visitor.visit_unit()
        })
    }

    by_value! {
        deserialize_f32(), deserialize_f64(), deserialize_bytes(), deserialize_byte_buf(),
        deserialize_enum(name: &'static str, variants: &'static [&'static str]),
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string unit unit_struct seq tuple tuple_struct
        map identifier
    }
}

/// The elements of a sequence.
struct Items<'f, 'de> {
    form: &'f mut Form<'de>,
    close: u8,
    count: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = Unfit;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        if self.form.cursor.peek() == Some(self.close) {
            return Ok(None);
        }
        self.count += 1;
        self.form.seeded(seed).map(Some)
    }
}

/// The entries of a map.
struct Entries<'f, 'de> {
    form: &'f mut Form<'de>,
    /// Where its keys start among those of the form.
    start: usize,
    count: usize,
    repeats: Repeats<'de>,
    /// The fields of a struct: their names, as keys, are in kebab case.
    fields: &'static [&'static str],
    /// Which of the fields had a key, a bit each.
    met: u64,
    /// The place among the fields that follows the last key's: data mostly has them in order.
    after: usize,
}

impl<'de> Entries<'_, 'de> {
    /// Notes a key; none if one before it equals it.
    #[inline]
    fn note(&mut self, key: Value<'de>) -> Option<()> {
        let earlier = self.form.keys.get(self.start..)?;
        if self.repeats.again(&key, earlier) {
            return None;
        }
        self.form.keys.push(key);
        self.count += 1;
        Some(())
    }

    /// The field that the keyword `name` stands for, and its place.
    #[inline]
    fn field(&self, name: &str) -> Option<(usize, &'static str)> {
        match self.fields.get(self.after) {
            Some(next) if *next == name => Some((self.after, next)),
            _ => de::known_place(name, self.fields),
        }
    }

    /// Notes the key of a field; none if the field had one. A second spelling of it is another key, which is
    /// left to the reader by way of a value.
    #[inline]
    fn meet(&mut self, place: usize, name: &'de str) -> Option<()> {
        self.after = place + 1;
        let Some(bit) = u32::try_from(place).ok().and_then(|place| 1u64.checked_shl(place)) else {
            return self.note(Value::keyword(name));
        };
        if self.met & bit != 0 {
            return None;
        }
        self.met |= bit;
        self.count += 1;
        Some(())
    }

    fn key<K: DeserializeSeed<'de>>(&mut self, next: Option<u8>, seed: K) -> Option<K::Value> {
        if next == Some(b':') && !self.fields.is_empty() {
            let name = self.form.cursor.keyword()?;
            let name = match self.field(name) {
                Some((place, field)) => {
                    self.meet(place, name)?;
                    field
                }
                None => {
                    self.note(Value::keyword(name))?;
                    name
                }
            };
            return seed.deserialize(BorrowedStrDeserializer::<Unfit>::new(name)).ok();
        }
        let key = self.form.cursor.form()?;
        self.note(key.clone())?;
        let key = match key {
            Value::Str(name) if !self.fields.is_empty() => Value::Str(de::known(name, self.fields)),
            key => key,
        };
        seed.deserialize(de::Deserializer(key)).ok()
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Unfit;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        let next = self.form.cursor.peek();
        if next == Some(b'}') {
            return Ok(None);
        }
        let key = self.key(next, seed);
        self.form.failed |= key.is_none();
        key.map(Some).ok_or(Unfit)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<T::Value> {
        self.form.seeded(seed)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "what is read is what is tested")]
    struct Envelope<'a> {
        kind: &'a str,
        #[serde(borrow)]
        data: Vec<Data<'a>>,
        seq: u64,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "what is read is what is tested")]
    struct Data<'a> {
        session_id: Option<&'a str>,
        #[serde(borrow)]
        text: Cow<'a, str>,
        at: f64,
    }

    #[test]
    fn data_that_fits_is_not_read_twice() {
        let text =
            br#"{:kind :event :data [{:session-id "s" :text "a\nb" :at 1.5} {:text "" :at -2.5}] :seq 7} "#;
        assert!(read::<Envelope<'_>>(text).is_some());
        assert!(read::<Option<BTreeMap<String, u8>>>(b"nil").is_some());
        assert!(read::<BTreeMap<i8, Vec<char>>>(b"{-1 (\\a #_ 1 \\b) 1 []}").is_some());
        assert!(read::<BTreeMap<i8, u8>>(b"{1 1 1 2}").is_none());
    }

    #[test]
    fn a_key_that_comes_again_does_not_fit() {
        #[derive(Deserialize)]
        #[expect(dead_code, reason = "what is read is what is tested")]
        struct Pair {
            left_one: Option<u8>,
            right: Option<u8>,
        }
        let fits = |text: &str| read::<Pair>(text.as_bytes()).is_some();
        for text in
            ["{:left-one 1 :right 2}", "{:right 2 :left-one 1}", "{:right 2}", "{:other 1 :right 2 :more 3}"]
        {
            assert!(fits(text), "{text}");
        }
        for text in [
            "{:left-one 1 :right 2 :left-one 1}",
            "{:left-one 1 :left_one 1}",
            "{:right 2 :right 2}",
            "{:other 1 :right 2 :other 1}",
        ] {
            assert!(!fits(text), "{text}");
        }
    }
}
