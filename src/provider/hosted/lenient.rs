//! Fields of a server's JSON that are absent where their shape is wrong, so that no trifle costs an answer.
//!
//! A figure may come as `12`, `12.0` or `"12"`, an id as a number, an object where a price belongs. [`Lenient`] reads
//! a scalar from any of them, [`LenientStruct`] an object, [`LenientList`] a list of objects and
//! [`LenientScalars`] one of scalars. Knows no protocol.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A scalar, if something that can be read as one was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Lenient<T>(Option<T>);

/// The fields of an object, if an object was sent.
#[derive(Debug, Clone)]
pub struct LenientStruct<T>(Option<T>);

/// The objects of a list; empty if no list was sent.
#[derive(Debug, Clone)]
pub struct LenientList<T>(Vec<T>);

/// The scalars of a list, without what is none; empty if no list was sent.
#[derive(Debug, Clone)]
pub struct LenientScalars<T>(Vec<T>);

/// The text of a JSON value, verbatim.
#[derive(Debug, Clone)]
pub struct RawJson(pub Box<str>);

/// A type that [`Lenient`] reads.
pub trait Scalar: Sized {
    /// From a number.
    fn of_number(number: f64) -> Option<Self>;

    /// From a whole number that is not negative, which a float might not hold.
    fn of_count(count: u64) -> Option<Self>;

    /// From text.
    fn of_text(text: Cow<'_, str>) -> Option<Self>;

    /// From a truth value.
    fn of_flag(flag: bool) -> Option<Self>;
}

impl Scalar for u64 {
    fn of_number(number: f64) -> Option<Self> {
        // A negative figure is none, and counts as zero.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's cast saturates"
        )]
        (!number.is_nan()).then_some(number as Self)
    }

    fn of_count(count: u64) -> Option<Self> {
        Some(count)
    }

    fn of_text(text: Cow<'_, str>) -> Option<Self> {
        let text = text.trim();
        text.parse().ok().or_else(|| Self::of_number(text.parse().ok()?))
    }

    fn of_flag(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for f64 {
    fn of_number(number: f64) -> Option<Self> {
        Some(number)
    }

    fn of_count(count: u64) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "a price is no count of 53 bits")]
        Some(count as Self)
    }

    fn of_text(text: Cow<'_, str>) -> Option<Self> {
        text.trim().parse().ok()
    }

    fn of_flag(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for String {
    fn of_number(number: f64) -> Option<Self> {
        Some(number.to_string())
    }

    fn of_count(count: u64) -> Option<Self> {
        Some(count.to_string())
    }

    fn of_text(text: Cow<'_, str>) -> Option<Self> {
        Some(text.into_owned())
    }

    fn of_flag(flag: bool) -> Option<Self> {
        Some(flag.to_string())
    }
}

impl Scalar for bool {
    fn of_number(number: f64) -> Option<Self> {
        Some(number != 0.0)
    }

    fn of_count(count: u64) -> Option<Self> {
        Some(count != 0)
    }

    fn of_text(text: Cow<'_, str>) -> Option<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" | "" => Some(false),
            _ => None,
        }
    }

    fn of_flag(flag: bool) -> Option<Self> {
        Some(flag)
    }
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Lenient<T> {
    /// The scalar.
    pub fn get(self) -> Option<T> {
        self.0
    }
}

impl Lenient<String> {
    /// The text, if there is any in it.
    pub fn filled(self) -> Option<String> {
        self.0.filter(|text| !text.is_empty())
    }

    /// The text; empty if it is absent.
    pub fn text(self) -> String {
        self.0.unwrap_or_default()
    }
}

impl<T> Default for LenientStruct<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> LenientStruct<T> {
    /// The fields.
    pub fn get(self) -> Option<T> {
        self.0
    }
}

impl<T: Default> LenientStruct<T> {
    /// The fields; all absent if the object is.
    pub fn or_empty(self) -> T {
        self.0.unwrap_or_default()
    }
}

impl<T> Default for LenientList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntoIterator for LenientList<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T> Default for LenientScalars<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> IntoIterator for LenientScalars<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, T: Scalar> Deserialize<'de> for LenientScalars<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        let items = serde_json::from_str::<Vec<Lenient<T>>>(json).unwrap_or_default();
        Ok(Self(items.into_iter().filter_map(Lenient::get).collect()))
    }
}

/// The fields of a text that is a JSON object; `None` for other JSON.
///
/// # Errors
/// If the text is no JSON.
pub fn object<T: DeserializeOwned>(json: &str) -> Result<Option<T>, serde_json::Error> {
    if !json.trim_start().starts_with('{') {
        return serde_json::from_str::<IgnoredAny>(json).map(|_| None);
    }
    serde_json::from_str(json).map(Some).or_else(|_| {
        // A key that comes twice is an error of the structure, not of the JSON: the last one counts.
        let json: serde_json::Value = serde_json::from_str(json)?;
        Ok(serde_json::from_str(&json.to_string()).ok())
    })
}

impl<'de, T: Scalar> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);

        impl<'de, T: Scalar> Visitor<'de> for Read<T> {
            type Value = Lenient<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_flag(flag)))
            }

            fn visit_u64<E>(self, count: u64) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_count(count)))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Lenient<T>, E> {
                #[expect(clippy::cast_precision_loss, reason = "a negative figure is none")]
                Ok(Lenient(T::of_number(number as f64)))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_number(number)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_text(Cow::Borrowed(text))))
            }

            fn visit_string<E>(self, text: String) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_text(Cow::Owned(text))))
            }

            fn visit_unit<E>(self) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Lenient<T>, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Lenient<T>, A::Error> {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }
        }

        deserializer.deserialize_any(Read(PhantomData))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for LenientStruct<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        Ok(Self(object(json).ok().flatten()))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for LenientList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&'de RawValue>::deserialize(deserializer)?.get();
        let items = serde_json::from_str::<Vec<&RawValue>>(json).unwrap_or_default();
        Ok(Self(items.into_iter().filter_map(|item| object(item.get()).ok().flatten()).collect()))
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(<&'de RawValue>::deserialize(deserializer)?.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Sent {
        count: Lenient<u64>,
        price: Lenient<f64>,
        id: Lenient<String>,
        flag: Lenient<bool>,
        part: LenientStruct<Part>,
        list: LenientList<Part>,
    }

    #[derive(Deserialize, Default)]
    struct Part {
        #[serde(default)]
        n: Lenient<u64>,
    }

    #[test]
    fn scalars_are_read_from_any_shape() {
        for (written, expected) in [
            ("12", Some(12)),
            ("12.0", Some(12)),
            (r#""12""#, Some(12)),
            (r#""12.9""#, Some(12)),
            ("-1", Some(0)),
            ("-1.5", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1e300", Some(u64::MAX)),
            ("null", None),
            (r#"{"total":[1,{"a":2}]}"#, None),
            ("[1,[2]]", None),
            ("true", None),
            (r#""many""#, None),
        ] {
            let read: Sent = serde_json::from_str(&format!(r#"{{"count":{written},"id":"x"}}"#)).unwrap();
            assert_eq!(read.count.get(), expected, "{written}");
            assert_eq!(read.id.text(), "x", "what follows {written} is read");
        }
        let read: Sent = serde_json::from_str(r#"{"price":"0.5","id":7,"flag":"true"}"#).unwrap();
        assert_eq!((read.price.get(), read.id.text(), read.flag.get()), (Some(0.5), "7".into(), Some(true)));
    }

    #[test]
    fn field_of_other_shape_is_absent_alone() {
        for part in ["[1]", "7", "\"n\"", "null", "{}"] {
            let json = format!(r#"{{"part":{part},"list":[{{"n":1}},2,null,[3],{{"n":"3"}}],"id":"x"}}"#);
            let read = object::<Sent>(&json).unwrap().unwrap();
            assert_eq!(read.part.or_empty().n.get(), None, "{part}");
            assert_eq!(read.list.into_iter().filter_map(|part| part.n.get()).collect::<Vec<_>>(), [1, 3]);
            assert_eq!(read.id.text(), "x", "the field after {part} is read");
        }
        let read: Sent = serde_json::from_str(r#"{"list":{"n":1},"part":{"n":1,"n":2}}"#).unwrap();
        assert_eq!((read.list.into_iter().count(), read.part.or_empty().n.get()), (0, Some(2)));
    }

    #[test]
    fn json_without_object_is_told_from_text_without_json() {
        for (json, expected) in [
            (r#"{"count":1}"#, Some(Some(Some(1)))),
            (r#" {"count":1,"count":2}"#, Some(Some(Some(2)))),
            ("[1]", Some(None)),
            ("null", Some(None)),
            (r#""ping""#, Some(None)),
            ("{\"count\":", None),
            ("nonsense", None),
            ("", None),
        ] {
            let read = object::<Sent>(json).ok().map(|read| read.map(|read| read.count.get()));
            assert_eq!(read, expected, "{json}");
        }
    }

    /// Every scalar of a structure that is read from a server is lenient: a bare one loses an answer for a trifle.
    #[test]
    fn hosted_structures_have_no_bare_scalar() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/provider/hosted");
        let mut seen = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|kind| kind != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for structure in text.split("#[derive(").skip(1).filter(|after| {
                after.split(")]").next().is_some_and(|derived| derived.contains("Deserialize"))
            }) {
                seen += 1;
                let body = structure.split("\n}").next().unwrap_or_default();
                for bare in ["u64", "f64", "String", "bool", "u32", "i64"] {
                    let is_bare = |line: &str| {
                        let kind = line.split_once(": ").map_or("", |(_, kind)| kind);
                        let words = kind.split(|c: char| !c.is_alphanumeric()).collect::<Vec<_>>();
                        words.contains(&bare) && !words.iter().any(|word| word.starts_with("Lenient"))
                    };
                    let found = body.lines().find(|line| !line.trim().starts_with("//") && is_bare(line));
                    assert_eq!(found, None, "{}", path.display());
                }
            }
        }
        assert!(seen > 15, "the room was read: {seen}");
    }
}
