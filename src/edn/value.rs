//! Plain data: what EDN says, without its text.
//!
//! A [`Value`] is what one EDN form means. It knows Clojure's equality and hashing and keeps what was
//! written: an integer is not a float, a list is not a vector, the entries of a map stay in order. It
//! knows no text: how a value is read and written is the codec's concern ([the crate](crate)).
//!
//! ```
//! use edn_codec::value::{Map, Value};
//!
//! let mut point = Map::new();
//! point.put("x", 1).put("y", 2.5);
//! let value = Value::tagged("geo/point", point);
//! assert_eq!(value.to_string(), "#geo/point {:x 1 :y 2.5}");
//! assert_eq!(Value::vector([1, 2]), Value::list([1, 2]));
//! ```
//!
//! A value takes 24 bytes. Text is borrowed from what was read where it had no escape, and shared, not
//! copied, where a value that owns its text is cloned.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use uuid::Uuid;

#[cfg(feature = "serde")]
pub(crate) use map::Repeats;
pub use map::{IntoEntries, Map, Set};
pub use number::{Inst, Ratio};

mod map;
mod number;

/// A value that borrows nothing.
pub type Owned = Value<'static>;

/// One EDN value.
///
/// Equality is Clojure's `=`: a list equals a vector of the same elements, integers of any size are
/// compared by value, and an integer never equals a float. It differs in one point: `##NaN` equals
/// itself, as Rust's `Eq` asks.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `nil`
    Nil,
    /// `true` or `false`
    Bool(bool),
    /// An integer of 64 bits
    Int(i64),
    /// An integer that was written with `N` or does not fit 64 bits
    BigInt(Box<BigInt>),
    /// A float, `##Inf`, `##-Inf` and `##NaN` among them
    Float(f64),
    /// A decimal of arbitrary precision, written with `M`
    Decimal(Box<BigDecimal>),
    /// A ratio in lowest terms
    Ratio(Box<Ratio>),
    /// A character
    Char(char),
    /// A string
    Str(Text<'a>),
    /// A keyword, without its colon: `name` or `namespace/name`
    Keyword(Text<'a>),
    /// A symbol: `name` or `namespace/name`
    Symbol(Text<'a>),
    /// A list
    List(Box<[Value<'a>]>),
    /// A vector
    Vector(Box<[Value<'a>]>),
    /// A map
    Map(Map<'a>),
    /// A set
    Set(Set<'a>),
    /// A point in time, `#inst`
    Inst(Inst),
    /// A universally unique identifier, `#uuid`
    Uuid(Uuid),
    /// An element with a tag that the codec does not interpret
    Tagged(Box<Tagged<'a>>),
}

/// An element with its tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tagged<'a> {
    /// The tag without `#`: `name` or `namespace/name`
    pub tag: Text<'a>,
    /// What the tag stands before
    pub value: Value<'a>,
}

/// A string that is borrowed or shared. Two words long, so that a [`Value`] has three.
#[derive(Clone)]
pub struct Text<'a>(Repr<'a>);

#[derive(Clone)]
enum Repr<'a> {
    Borrowed(&'a str),
    Shared(Arc<String>),
}

impl<'a> Text<'a> {
    /// The text, borrowed for as long as what it was read from where it is borrowed.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Borrowed(text) => text,
            Repr::Shared(text) => text,
        }
    }

    /// The text itself if it is borrowed from what was read.
    pub fn borrowed(&self) -> Option<&'a str> {
        match self.0 {
            Repr::Borrowed(text) => Some(text),
            Repr::Shared(_) => None,
        }
    }

    /// The same text, borrowing nothing.
    pub fn into_owned(self) -> Text<'static> {
        Text(match self.0 {
            Repr::Borrowed(text) => Repr::Shared(Arc::new(text.to_owned())),
            Repr::Shared(text) => Repr::Shared(text),
        })
    }

    /// The text as a `String`, without a copy where nothing else shares it.
    pub fn into_string(self) -> String {
        match self.0 {
            Repr::Borrowed(text) => text.to_owned(),
            Repr::Shared(text) => Arc::unwrap_or_clone(text),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}
impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Text<'_> {}
impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}
impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(Repr::Borrowed(text))
    }
}
impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Text(Repr::Borrowed(text))
    }
}
impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text(Repr::Shared(Arc::new(text)))
    }
}
impl From<Arc<String>> for Text<'_> {
    fn from(text: Arc<String>) -> Self {
        Text(Repr::Shared(text))
    }
}
impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl<'a> Value<'a> {
    /// A string.
    pub fn str(text: impl Into<Text<'a>>) -> Self {
        Value::Str(text.into())
    }

    /// A keyword of `name` or `namespace/name`, given without the colon and not checked.
    pub fn keyword(name: impl Into<Text<'a>>) -> Self {
        Value::Keyword(name.into())
    }

    /// A symbol of `name` or `namespace/name`, not checked.
    pub fn symbol(name: impl Into<Text<'a>>) -> Self {
        Value::Symbol(name.into())
    }

    /// An integer.
    pub fn int(number: i64) -> Self {
        Value::Int(number)
    }

    /// A float.
    pub fn float(number: f64) -> Self {
        Value::Float(number)
    }

    /// A boolean.
    pub fn bool(truth: bool) -> Self {
        Value::Bool(truth)
    }

    /// A vector of `items`.
    pub fn vector<T: Into<Value<'a>>>(items: impl IntoIterator<Item = T>) -> Self {
        Value::Vector(items.into_iter().map(Into::into).collect())
    }

    /// A list of `items`.
    pub fn list<T: Into<Value<'a>>>(items: impl IntoIterator<Item = T>) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }

    /// A map of `entries`; of equal keys the last one's value stands, in the first one's place.
    pub fn map<K: Into<Value<'a>>, V: Into<Value<'a>>>(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        Value::Map(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// A set of `items`, equal ones once.
    pub fn set<T: Into<Value<'a>>>(items: impl IntoIterator<Item = T>) -> Self {
        Value::Set(items.into_iter().map(Into::into).collect())
    }

    /// `value` with `tag` before it.
    pub fn tagged(tag: impl Into<Text<'a>>, value: impl Into<Value<'a>>) -> Self {
        Value::Tagged(Box::new(Tagged { tag: tag.into(), value: value.into() }))
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Str(text) = self { Some(text) } else { None }
    }

    /// The name of a keyword: `name` or `namespace/name`, without the colon.
    pub fn as_keyword(&self) -> Option<&str> {
        if let Value::Keyword(name) = self { Some(name) } else { None }
    }

    /// The name of a symbol: `name` or `namespace/name`.
    pub fn as_symbol(&self) -> Option<&str> {
        if let Value::Symbol(name) = self { Some(name) } else { None }
    }

    /// The truth of a boolean. `nil` is none.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// An integer that fits 64 bits, with or without `N`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::BigInt(number) => i64::try_from(&**number).ok(),
            _ => None,
        }
    }

    /// A float. An integer is none.
    pub fn as_f64(&self) -> Option<f64> {
        if let Value::Float(number) = self { Some(*number) } else { None }
    }

    /// A map.
    pub fn as_map(&self) -> Option<&Map<'a>> {
        if let Value::Map(map) = self { Some(map) } else { None }
    }

    /// A map to change.
    pub fn as_map_mut(&mut self) -> Option<&mut Map<'a>> {
        if let Value::Map(map) = self { Some(map) } else { None }
    }

    /// A set.
    pub fn as_set(&self) -> Option<&Set<'a>> {
        if let Value::Set(set) = self { Some(set) } else { None }
    }

    /// The elements of a list or a vector.
    pub fn as_slice(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::List(items) | Value::Vector(items) => Some(items),
            _ => None,
        }
    }

    /// Is this `nil`?
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// What a map holds at the keyword `name` (`name` or `namespace/name`); none for any other value.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.as_map()?.get_keyword(name)
    }

    /// What kind of value this is, as a word for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "boolean",
            Value::Int(_) | Value::BigInt(_) => "integer",
            Value::Float(_) => "float",
            Value::Decimal(_) => "decimal",
            Value::Ratio(_) => "ratio",
            Value::Char(_) => "character",
            Value::Str(_) => "string",
            Value::Keyword(_) => "keyword",
            Value::Symbol(_) => "symbol",
            Value::List(_) => "list",
            Value::Vector(_) => "vector",
            Value::Map(_) => "map",
            Value::Set(_) => "set",
            Value::Inst(_) => "inst",
            Value::Uuid(_) => "uuid",
            Value::Tagged(_) => "tagged element",
        }
    }

    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Nil => Value::Nil,
            Value::Bool(truth) => Value::Bool(truth),
            Value::Int(number) => Value::Int(number),
            Value::BigInt(number) => Value::BigInt(number),
            Value::Float(number) => Value::Float(number),
            Value::Decimal(number) => Value::Decimal(number),
            Value::Ratio(ratio) => Value::Ratio(ratio),
            Value::Char(c) => Value::Char(c),
            Value::Str(text) => Value::Str(text.into_owned()),
            Value::Keyword(name) => Value::Keyword(name.into_owned()),
            Value::Symbol(name) => Value::Symbol(name.into_owned()),
            Value::List(items) => Value::List(own(items)),
            Value::Vector(items) => Value::Vector(own(items)),
            Value::Map(map) => Value::Map(map.into_owned()),
            Value::Set(set) => Value::Set(set.into_owned()),
            Value::Inst(inst) => Value::Inst(inst),
            Value::Uuid(uuid) => Value::Uuid(uuid),
            Value::Tagged(tagged) => {
                let Tagged { tag, value } = *tagged;
                Value::tagged(tag.into_owned(), value.into_owned())
            }
        }
    }
}

fn own(items: Box<[Value<'_>]>) -> Box<[Value<'static>]> {
    items.into_iter().map(Value::into_owned).collect()
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        use Value::*;
        match (self, other) {
            (Nil, Nil) => true,
            (Bool(a), Bool(b)) => a == b,
            (Int(a), Int(b)) => a == b,
            (BigInt(a), BigInt(b)) => a == b,
            (BigInt(a), Int(b)) | (Int(b), BigInt(a)) => **a == (*b).into(),
            (Float(a), Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Decimal(a), Decimal(b)) => number::Digits::of(a) == number::Digits::of(b),
            (Ratio(a), Ratio(b)) => a == b,
            (Char(a), Char(b)) => a == b,
            (Str(a), Str(b)) | (Keyword(a), Keyword(b)) | (Symbol(a), Symbol(b)) => a == b,
            (List(a) | Vector(a), List(b) | Vector(b)) => a == b,
            (Map(a), Map(b)) => a == b,
            (Set(a), Set(b)) => a == b,
            (Inst(a), Inst(b)) => a == b,
            (Uuid(a), Uuid(b)) => a == b,
            (Tagged(a), Tagged(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value<'_> {}

impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Nil => state.write_u8(0),
            Value::Bool(truth) => state.write_u8(1 + u8::from(*truth)),
            Value::Int(number) => hash_int(*number, state),
            Value::BigInt(number) => match i64::try_from(&**number) {
                Ok(number) => hash_int(number, state),
                Err(_) => {
                    state.write_u8(4);
                    number.hash(state);
                }
            },
            Value::Float(number) => {
                state.write_u8(5);
                // The two zeros are equal, and all that is not a number is one value.
                let same = if number.is_nan() { f64::NAN } else { *number + 0.0 };
                state.write_u64(same.to_bits());
            }
            Value::Decimal(number) => {
                state.write_u8(6);
                number::Digits::of(number).hash(state);
            }
            Value::Ratio(ratio) => {
                state.write_u8(7);
                ratio.hash(state);
            }
            Value::Char(c) => {
                state.write_u8(8);
                c.hash(state);
            }
            Value::Str(text) => hash_text(9, text, state),
            Value::Keyword(name) => hash_text(10, name, state),
            Value::Symbol(name) => hash_text(11, name, state),
            Value::List(items) | Value::Vector(items) => {
                state.write_u8(12);
                items.hash(state);
            }
            Value::Map(map) => {
                state.write_u8(13);
                map.hash(state);
            }
            Value::Set(set) => {
                state.write_u8(14);
                set.hash(state);
            }
            Value::Inst(inst) => {
                state.write_u8(15);
                inst.hash(state);
            }
            Value::Uuid(uuid) => {
                state.write_u8(16);
                uuid.hash(state);
            }
            Value::Tagged(tagged) => {
                state.write_u8(17);
                tagged.hash(state);
            }
        }
    }
}

fn hash_int<H: Hasher>(number: i64, state: &mut H) {
    state.write_u8(3);
    state.write_i64(number);
}

fn hash_text<H: Hasher>(kind: u8, text: &str, state: &mut H) {
    state.write_u8(kind);
    text.hash(state);
}

/// The hash of one element of an unordered collection. Keyed afresh in every process, so that nobody can
/// send keys that collide.
fn hash_alone<T: Hash + ?Sized>(value: &T) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(value)
}

macro_rules! from {
    ($($type:ty => |$it:ident| $value:expr),* $(,)?) => {$(
        impl<'a> From<$type> for Value<'a> {
            fn from($it: $type) -> Self { $value }
        }
    )*};
}
from! {
    &'a str => |it| Value::Str(it.into()),
    &'a String => |it| Value::Str(it.into()),
    String => |it| Value::Str(it.into()),
    Cow<'a, str> => |it| Value::Str(it.into()),
    Text<'a> => |it| Value::Str(it),
    bool => |it| Value::Bool(it),
    char => |it| Value::Char(it),
    i64 => |it| Value::Int(it),
    i32 => |it| Value::Int(it.into()),
    u32 => |it| Value::Int(it.into()),
    u16 => |it| Value::Int(it.into()),
    u8 => |it| Value::Int(it.into()),
    u64 => |it| i64::try_from(it).map_or_else(|_| Value::BigInt(Box::new(it.into())), Value::Int),
    usize => |it| i64::try_from(it).map_or_else(|_| Value::BigInt(Box::new(it.into())), Value::Int),
    i128 => |it| i64::try_from(it).map_or_else(|_| Value::BigInt(Box::new(it.into())), Value::Int),
    f64 => |it| Value::Float(it),
    BigInt => |it| Value::BigInt(Box::new(it)),
    BigDecimal => |it| Value::Decimal(Box::new(it)),
    Ratio => |it| Value::Ratio(Box::new(it)),
    Uuid => |it| Value::Uuid(it),
    Inst => |it| Value::Inst(it),
    Vec<Value<'a>> => |it| Value::Vector(it.into_boxed_slice()),
    Map<'a> => |it| Value::Map(it),
    Set<'a> => |it| Value::Set(it),
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(it: Option<T>) -> Self {
        it.map_or(Value::Nil, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_three_words() {
        assert_eq!(size_of::<Value<'_>>(), 24);
    }

    #[test]
    fn equality_is_clojures() {
        let one = Value::vector([1, 2]);
        assert_eq!(one, Value::list([1, 2]));
        assert_eq!(hash_alone(&one), hash_alone(&Value::list([1, 2])));
        assert_ne!(Value::int(1), Value::float(1.0));
        assert_eq!(Value::int(1), Value::from(BigInt::from(1)));
        assert_eq!(hash_alone(&Value::int(1)), hash_alone(&Value::from(BigInt::from(1))));
        assert_eq!(Value::float(0.0), Value::float(-0.0));
        assert_eq!(hash_alone(&Value::float(0.0)), hash_alone(&Value::float(-0.0)));
        let decimal = |text: &str| Value::from(text.parse::<BigDecimal>().unwrap());
        assert_eq!(decimal("1.0"), decimal("1.00"));
        assert_eq!(hash_alone(&decimal("100")), hash_alone(&decimal("1e2")));
        assert_ne!(Value::keyword("a"), Value::symbol("a"));
        let ab = Value::map([("a", 1), ("b", 2)]);
        let ba = Value::map([("b", 2), ("a", 1)]);
        assert_eq!(ab, ba);
        assert_eq!(hash_alone(&ab), hash_alone(&ba));
        assert_eq!(Value::set([1, 2, 3]), Value::set([3, 2, 1, 1]));
    }

    #[test]
    fn a_map_is_built_with_keyword_keys() {
        let mut map = Map::new();
        map.put("id", "r1").put("ok", true).put("n", 3);
        map.put("n", 4);
        let value = Value::from(map);
        assert_eq!(value.get("id").and_then(Value::as_str), Some("r1"));
        assert_eq!(value.get("n").and_then(Value::as_i64), Some(4));
        assert_eq!(value.as_map().map(Map::len), Some(3));
    }
}
