//! JSON text and values: reads one bounded text, writes one line.
//!
//! An object is a map with strings as keys. JSON allows a key twice, and half a surrogate pair; both are errors of [`read`],
//! because two readers of such a text may take it for different things. What a peer sends is read with
//! [`without_lone_surrogates`]: programs cut a text inside of an emoji. Knows no protocol.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::limits::{JSON_DEPTH, JSON_DIGITS, MAX_FRAME_VALUES};
use crate::value::{Map, Value};

/// Why a text was not read. Quotes nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not one JSON value in UTF-8: the place and the reason.
    #[error("it is not JSON: {0}")]
    Syntax(String),
    /// An object has a key twice.
    #[error("an object has a key twice")]
    RepeatedKey,
    /// Arrays and objects are nested too deeply.
    #[error("arrays and objects are nested more than {JSON_DEPTH} deep")]
    TooDeep,
    /// It has too many values, keys included.
    #[error("it has more than {MAX_FRAME_VALUES} values")]
    TooManyValues,
    /// A number has too many digits.
    #[error("a number has more than {JSON_DIGITS} digits in a row")]
    TooManyDigits,
}

/// Reads one JSON value. A number that is no integer of 64 bits is a float.
///
/// # Errors
/// See [`ReadError`].
pub fn read(text: &[u8]) -> Result<Value<'_>, ReadError> {
    if has_long_number(text) {
        return Err(ReadError::TooManyDigits);
    }
    let bounds = Bounds { left: Cell::new(MAX_FRAME_VALUES), broken: Cell::new(None) };
    let mut source = serde_json::Deserializer::from_slice(text);
    let read = Seed { bounds: &bounds, depth: 0 }.deserialize(&mut source);
    read.and_then(|value| source.end().map(|()| value))
        .map_err(|error| bounds.broken.take().unwrap_or_else(|| ReadError::Syntax(error.to_string())))
}

/// Text of JSON in which each escape of half a surrogate pair is U+FFFD. Text that is no UTF-8 stays as it is, for its reader
/// to refuse.
pub fn without_lone_surrogates(json: &[u8]) -> Cow<'_, [u8]> {
    let replaced = std::str::from_utf8(json)
        .map(|text| replace_lone_surrogates(text, |_, written| written.push(char::REPLACEMENT_CHARACTER)));
    match replaced {
        Ok(Cow::Owned(text)) => text.into_bytes().into(),
        Ok(Cow::Borrowed(_)) | Err(_) => json.into(),
    }
}

/// Text of JSON in which `stand_in` writes something for each escape of half a surrogate pair, which is given its code. The
/// rest of the text stays as it is.
pub fn replace_lone_surrogates(json: &str, mut stand_in: impl FnMut(u32, &mut String)) -> Cow<'_, str> {
    if [&b"\\ud"[..], b"\\uD"].iter().all(|half| memchr::memmem::find(json.as_bytes(), half).is_none()) {
        return json.into();
    }
    let half = |text: &str| {
        let digits = text.strip_prefix('u')?.get(..4)?;
        let code = u32::from_str_radix(digits, 16).ok()?;
        (0xd800..0xe000).contains(&code).then_some(code)
    };
    let mut written = String::new();
    let mut rest = json;
    while let Some((before, after)) = rest.split_once('\\') {
        written.push_str(before);
        let whole = match half(after) {
            Some(high) => {
                let next = after.get(5..).and_then(|next| half(next.strip_prefix('\\')?));
                (high < 0xdc00 && next.is_some_and(|low| low >= 0xdc00)).then_some(11)
            }
            // A backslash and what it is before, so that `\\ud800` is no half.
            None => Some(after.chars().next().map_or(0, char::len_utf8)),
        };
        let taken = match whole {
            Some(end) => {
                written.push('\\');
                written.push_str(after.get(..end).unwrap_or_default());
                end
            }
            None => {
                stand_in(half(after).unwrap_or_default(), &mut written);
                5
            }
        };
        rest = after.get(taken..).unwrap_or_default();
    }
    written.push_str(rest);
    written.into()
}

/// A value that `serde_json` has read; `key` makes the key of an object's entry.
pub fn from_serde(json: serde_json::Value, key: &dyn Fn(String) -> Value<'static>) -> Value<'static> {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(truth),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Float(number),
            (None, None) => Value::from(number.to_string()),
        },
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::vector(items.into_iter().map(|item| from_serde(item, key))),
        Json::Object(entries) => {
            let mut map = Map::with_capacity(entries.len());
            for (name, value) in entries {
                map.insert(key(name), from_serde(value, key));
            }
            Value::from(map)
        }
    }
}

/// A value that `serde_json` has read. An object's keys become keywords if possible.
pub fn keyed(json: serde_json::Value) -> Value<'static> {
    from_serde(json, &|key| if is_name(&key) { Value::keyword(key) } else { Value::from(key) })
}

/// Whether a text can be written as a keyword and read back unchanged.
fn is_name(text: &str) -> bool {
    let fits =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '+' | '!' | '?' | '=');
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(fits)
}

/// Whether a number has more digits in a row than are taken. The reader would take any number of them.
fn has_long_number(mut text: &[u8]) -> bool {
    let mut digits = 0usize;
    while let Some((byte, rest)) = text.split_first() {
        text = rest;
        match byte {
            b'0'..=b'9' => {
                digits = digits.saturating_add(1);
                if digits > JSON_DIGITS {
                    return true;
                }
            }
            b'"' => {
                digits = 0;
                text = after_string(text);
            }
            _ => digits = 0,
        }
    }
    false
}

/// What follows a string, given what follows its opening quote.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let is_end = text.get(at) == Some(&b'"');
        let skipped = if is_end { 1 } else { 2 };
        text = text.get(at.saturating_add(skipped)..).unwrap_or_default();
        if is_end {
            return text;
        }
    }
    &[]
}

/// The bounds of one text.
struct Bounds {
    /// How many more values may follow.
    left: Cell<usize>,
    /// The bound that was broken, because serde's error holds text alone.
    broken: Cell<Option<ReadError>>,
}

/// Reads a value at a depth.
#[derive(Clone, Copy)]
struct Seed<'b> {
    bounds: &'b Bounds,
    depth: usize,
}

impl Seed<'_> {
    fn fail<E: serde::de::Error>(self, error: ReadError) -> E {
        self.bounds.broken.set(Some(error));
        E::custom("a bound")
    }

    /// Counts a value.
    fn count<E: serde::de::Error>(self) -> Result<(), E> {
        let left = self.bounds.left.get().checked_sub(1);
        self.bounds.left.set(left.ok_or_else(|| self.fail(ReadError::TooManyValues))?);
        Ok(())
    }

    /// For the values in an array or an object at this place.
    fn below<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        if depth > JSON_DEPTH { Err(self.fail(ReadError::TooDeep)) } else { Ok(Self { depth, ..self }) }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Value<'de>, D::Error> {
        self.count()?;
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value<'de>, E> {
        match i64::try_from(number) {
            Ok(number) => Ok(Value::Int(number)),
            // As any other number that no integer of 64 bits is.
            Err(_) => number.to_string().parse().map(Value::Float).map_err(E::custom),
        }
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::str(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::str(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value<'de>, E> {
        Ok(Value::str(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Value<'de>, A::Error> {
        let below = self.below()?;
        let mut items = Vec::new();
        while let Some(item) = source.next_element_seed(below)? {
            items.push(item);
        }
        Ok(Value::Vector(items.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Value<'de>, A::Error> {
        let below = self.below()?;
        let mut map = Map::new();
        while let Some(key) = source.next_key_seed(Key(below))? {
            let value = source.next_value_seed(below)?;
            if map.insert(key, value).is_some() {
                return Err(self.fail(ReadError::RepeatedKey));
            }
        }
        Ok(Value::Map(map))
    }
}

/// Reads a key of an object.
struct Key<'b>(Seed<'b>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Value<'de>;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Value<'de>, D::Error> {
        self.0.count()?;
        source.deserialize_str(self.0)
    }
}

/// Writes a value as one line of JSON without its end, after what `out` holds. Keywords and symbols are written as their
/// names; what JSON lacks is written as a string of its EDN.
pub fn write(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Float(number) if number.is_finite() => scalar(number, out),
        Value::Float(_) => out.extend_from_slice(b"null"),
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => scalar(text.as_str(), out),
        Value::List(items) | Value::Vector(items) => array(items.iter(), out),
        Value::Set(items) => array(items.iter(), out),
        Value::Map(map) => object(map, out),
        other => scalar(&other.to_string(), out),
    }
}

/// Writes a map as an object, as [`write`] does.
pub fn object(map: &Map<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match key {
            Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) => scalar(text.as_str(), out),
            other => scalar(&other.to_string(), out),
        }
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

fn array<'v>(items: impl Iterator<Item = &'v Value<'v>>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

/// A string or a number. Neither they nor memory fail to be written.
fn scalar(value: &(impl serde::Serialize + ?Sized), out: &mut Vec<u8>) {
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    fn written(value: &Value<'_>) -> String {
        let mut out = Vec::new();
        write(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_reads_as_values_and_is_written_back() {
        for (text, expected, back) in [
            ("null", "nil", "null"),
            (" true ", "true", "true"),
            ("-0", "-0.0", "-0.0"),
            ("9223372036854775807", "9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9.223372036854775808E18", "9.223372036854776e+18"),
            ("1.5", "1.5", "1.5"),
            (r#""a\n\u00e4\ud83d\ude00""#, "\"a\\n\u{e4}\u{1f600}\"", "\"a\\n\u{e4}\u{1f600}\""),
            (
                r#"{"b":[1,{}],"a":null,"1":""}"#,
                r#"{"b" [1 {}] "a" nil "1" ""}"#,
                r#"{"b":[1,{}],"a":null,"1":""}"#,
            ),
        ] {
            let value = read(text.as_bytes()).unwrap();
            assert_eq!(value, edn::read_one(expected.as_bytes()).unwrap(), "{text}");
            assert_eq!(written(&value), back);
            assert_eq!(read(back.as_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn text_that_readers_may_take_differently_is_refused() {
        for text in [
            "",
            "{",
            "{}x",
            "[1,]",
            "{\"a\":1,}",
            "{a:1}",
            "'a'",
            "01",
            "+1",
            ".5",
            "1e999",
            "NaN",
            "\"a\nb\"",
            "\"a\tb\"",
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\u0041""#,
            r#"{"\ud800":1}"#,
            r#""\x""#,
        ] {
            assert!(matches!(read(text.as_bytes()), Err(ReadError::Syntax(_))), "{text}");
        }
        for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\xef\xbb\xbf{}", b"{\"\xff\":1}"] {
            assert!(matches!(read(bytes), Err(ReadError::Syntax(_))), "{bytes:?}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"b":{"c":0,"d":0,"c":0}}]"#] {
            assert_eq!(read(text.as_bytes()), Err(ReadError::RepeatedKey), "{text}");
        }
    }

    #[test]
    fn bounds_are_kept_to_the_last_value() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        read(nested(JSON_DEPTH).as_bytes()).unwrap();
        for depth in [JSON_DEPTH + 1, 1_000_000] {
            assert_eq!(read(nested(depth).as_bytes()), Err(ReadError::TooDeep), "{depth}");
        }
        let many = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        read(many(MAX_FRAME_VALUES).as_bytes()).unwrap();
        assert_eq!(read(many(MAX_FRAME_VALUES + 1).as_bytes()), Err(ReadError::TooManyValues));
        let keys: Vec<String> = (0..MAX_FRAME_VALUES / 2).map(|n| format!("\"{n}\":0")).collect();
        assert_eq!(read(format!("{{{}}}", keys.join(",")).as_bytes()), Err(ReadError::TooManyValues));
        let number = |digits: usize| format!("[0.{}]", "1".repeat(digits));
        read(number(JSON_DIGITS).as_bytes()).unwrap();
        assert_eq!(read(number(JSON_DIGITS + 1).as_bytes()), Err(ReadError::TooManyDigits));
        // Digits in a text are none of a number.
        let text = format!(r#"{{"\"{0}":"\\","b":"{0}"}}"#, "1".repeat(JSON_DIGITS + 1));
        read(text.as_bytes()).unwrap();
    }

    #[test]
    fn number_is_read_as_the_nearest_one() {
        assert_eq!(read(b"212E49"), Ok(Value::Float(212e49)));
    }

    #[test]
    fn errors_quote_nothing_of_the_text() {
        for text in
            [r#"{"secret":1,"secret":2}"#, "secret", r#"{"a":secret}"#, r#"["secret" "secret"]"#, "\"secret"]
        {
            let told = read(text.as_bytes()).unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn what_json_lacks_is_written_as_text() {
        let value = edn::read_one(br#"{:a-b [x #{1} (2)] 3 3N, "t" #inst "2026-01-02T03:04:05Z"}"#).unwrap();
        let text = written(&value);
        assert!(text.starts_with(r#"{"a-b":["x",[1],[2]],"3":"3N","t":"#), "{text}");
        assert!(!text.contains('\n'));
        assert_eq!(written(&Value::Float(f64::NAN)), "null");
    }
}
