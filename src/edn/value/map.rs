//! Maps and sets: entries in the order in which they were written, found by Clojure's equality.
//!
//! A small collection is one allocation and is searched by comparing. A large one, and one that is being
//! built, has an index beside it. Two words either way. Does not know how a collection is read or written.

use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;

use super::{Text, Value, hash_alone};

/// Up to how many entries a search compares them one by one. A few keywords are compared in less time than
/// one is hashed, and records of thirty keys are common in real files.
const SMALL: usize = 32;

/// A map from any value to any value, in the order in which it was written.
#[derive(Clone)]
pub struct Map<'a>(Entries<'a, 2>);

/// A set of values, in the order in which it was written.
#[derive(Clone)]
pub struct Set<'a>(Entries<'a, 1>);

/// Entries of `N` values each, the first of them the key, one after the other.
#[derive(Clone)]
enum Entries<'a, const N: usize> {
    /// Packed; no more than [`SMALL`] entries.
    Small(Box<[Value<'a>]>),
    Grown(Box<Grown<'a>>),
}

#[derive(Clone)]
struct Grown<'a> {
    values: Vec<Value<'a>>,
    /// The traces of the keys while there are few: a key with another trace is not among them.
    traces: u64,
    /// Entries by the hash of the key; empty while there are few.
    index: HashTable<usize>,
}

impl<'a, const N: usize> Entries<'a, N> {
    fn new() -> Self {
        Entries::Small(Box::default())
    }

    fn values(&self) -> &[Value<'a>] {
        match self {
            Entries::Small(values) => values,
            Entries::Grown(grown) => &grown.values,
        }
    }

    fn as_slice(&self) -> &[[Value<'a>; N]] {
        self.values().as_chunks::<N>().0
    }

    fn into_vec(self) -> Vec<Value<'a>> {
        match self {
            Entries::Small(values) => values.into_vec(),
            Entries::Grown(grown) => grown.values,
        }
    }

    fn into_owned(self) -> Entries<'static, N> {
        match self {
            Entries::Small(values) => Entries::Small(values.into_iter().map(Value::into_owned).collect()),
            Entries::Grown(grown) => {
                let Grown { values, traces, index } = *grown;
                let values = values.into_iter().map(Value::into_owned).collect();
                Entries::Grown(Box::new(Grown { values, traces, index }))
            }
        }
    }

    /// Entries as they were read: the second of two equal keys gives its position.
    #[inline]
    fn distinct(values: Vec<Value<'a>>) -> Result<Self, usize> {
        let (entries, _) = values.as_chunks::<N>();
        if entries.len() > SMALL {
            let index = index(entries)?;
            return Ok(Entries::Grown(Box::new(Grown { values, traces: 0, index })));
        }
        // One bit for each key that came by: where it is new, so is the key.
        let mut seen = 0_u64;
        for (at, entry) in entries.iter().enumerate() {
            let bit = trace(key(entry));
            if bit == 0 {
                index(entries)?;
                break;
            }
            if seen & bit != 0 && entries.iter().take(at).any(|earlier| key(earlier) == key(entry)) {
                return Err(at);
            }
            seen |= bit;
        }
        Ok(Entries::Small(values.into_boxed_slice()))
    }

    fn position(&self, wanted: &Value<'_>) -> Option<usize> {
        let entries = self.as_slice();
        if let Entries::Grown(grown) = self {
            if entries.len() > SMALL {
                return find(&grown.index, entries, wanted);
            }
            let bit = trace(wanted);
            if bit != 0 && grown.traces & bit == 0 {
                return None;
            }
        }
        match wanted {
            // Nearly every key, compared without a look at the other types.
            Value::Keyword(wanted) => {
                let is_wanted = |key: &Value<'_>| matches!(key, Value::Keyword(name) if name == wanted);
                entries.iter().position(|entry| is_wanted(key(entry)))
            }
            _ => entries.iter().position(|entry| key(entry) == wanted),
        }
    }

    /// No entries, and room for `entries` of them.
    fn with_capacity(entries: usize) -> Self {
        let values = Vec::with_capacity(entries.saturating_mul(N));
        Entries::Grown(Box::new(Grown { values, traces: 0, index: HashTable::new() }))
    }

    /// Puts `entry` in the place of the one with an equal key, whose value it returns, or at the end.
    fn put(&mut self, entry: [Value<'a>; N]) -> Option<Value<'a>> {
        if let Entries::Grown(grown) = self
            && grown.values.len() < SMALL * N
        {
            let bit = trace(key(&entry));
            if bit != 0 && grown.traces & bit == 0 {
                grown.traces |= bit;
                grown.values.extend(entry);
                return None;
            }
        }
        let position = self.position(key(&entry));
        let mut grown = match std::mem::replace(self, Entries::new()) {
            Entries::Grown(grown) => grown,
            Entries::Small(values) => {
                let mut values = values.into_vec();
                let traces =
                    values.as_chunks::<N>().0.iter().fold(0, |traces, entry| traces | trace(key(entry)));
                values.reserve(8 * N);
                Box::new(Grown { values, traces, index: HashTable::new() })
            }
        };
        let replaced = match position {
            // The key that stood there first stays.
            Some(at) => {
                let mut replaced = None;
                for (value, place) in entry.into_iter().zip(grown.values.iter_mut().skip(at * N)).skip(1) {
                    replaced = Some(std::mem::replace(place, value));
                }
                replaced.or(Some(Value::Nil))
            }
            None => {
                grown.traces |= trace(key(&entry));
                grown.values.extend(entry);
                let Grown { values, index, .. } = &mut *grown;
                let (entries, _) = values.as_chunks::<N>();
                let last = entries.len() - 1;
                if last >= SMALL {
                    let unnoted = if last == SMALL { 0 } else { last };
                    for (at, entry) in entries.iter().enumerate().skip(unnoted) {
                        note(index, entries, key(entry), at);
                    }
                }
                None
            }
        };
        *self = Entries::Grown(grown);
        replaced
    }

    /// Are these the same entries in any order? Keys that hold collections are found by their hashes, so
    /// that sets of sets are not compared each with each, level by level.
    fn same(&self, other: &Self) -> bool {
        let (these, those) = (self.as_slice(), other.as_slice());
        if these.len() != those.len() {
            return false;
        }
        let agrees = |entry: &[Value<'a>; N], at: Option<usize>| {
            let found = at.and_then(|at| those.get(at));
            found.is_some_and(|found| found.iter().skip(1).eq(entry.iter().skip(1)))
        };
        if those.len() <= SMALL && these.iter().any(|entry| trace(key(entry)) == 0) {
            let Ok(index) = index(those) else { return false };
            return these.iter().all(|entry| agrees(entry, find(&index, those, key(entry))));
        }
        // Most often the order is the same as well.
        these.iter().enumerate().all(|(at, entry)| match those.get(at) {
            Some(found) if key(found) == key(entry) => agrees(entry, Some(at)),
            _ => agrees(entry, other.position(key(entry))),
        })
    }
}

#[inline]
fn key<'v, 'a, const N: usize>(entry: &'v [Value<'a>; N]) -> &'v Value<'a> {
    entry.first().unwrap_or(&Value::Nil)
}

/// One bit that equal keys have in common, and 0 for keys that take long to compare: collections.
#[inline(always)]
fn trace(key: &Value<'_>) -> u64 {
    let print = match key {
        Value::Keyword(text) | Value::Str(text) | Value::Symbol(text) => text_print(text.as_str().as_bytes()),
        Value::Int(number) => number.cast_unsigned(),
        Value::List(_) | Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Tagged(_) => return 0,
        other => rare_print(other),
    };
    1 << (print.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

#[inline(never)]
fn rare_print(key: &Value<'_>) -> u64 {
    match key {
        Value::BigInt(number) => i64::try_from(&**number).unwrap_or(0).cast_unsigned(),
        Value::Char(c) => u64::from(u32::from(*c)),
        _ => 0,
    }
}

/// What the ends of a text and its length come to, without a loop.
#[inline(always)]
fn text_print(text: &[u8]) -> u64 {
    let length = text.len() as u64;
    if let (Some(head), Some(tail)) = (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        return u64::from_le_bytes(*head) ^ u64::from_le_bytes(*tail).rotate_left(24) ^ length;
    }
    if let (Some(head), Some(tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*head)) << 32
            ^ u64::from(u32::from_le_bytes(*tail))
            ^ length << 29;
    }
    let byte = |at: usize| u64::from(text.get(at).copied().unwrap_or(0));
    byte(0) << 24 ^ byte(1) << 16 ^ byte(2) << 8 ^ length
}

/// Keys that come one after the other, and whether one comes again.
#[cfg(feature = "serde")]
#[derive(Debug, Default)]
pub(crate) struct Repeats<'a> {
    /// The traces of the keys so far.
    traces: u64,
    /// The keys so far, once there are many.
    many: Option<Set<'a>>,
}

#[cfg(feature = "serde")]
impl<'a> Repeats<'a> {
    /// Does `key` come again, `earlier` being all keys before it? A key that takes long to compare, a collection,
    /// counts as one that does.
    #[inline]
    pub(crate) fn again(&mut self, key: &Value<'a>, earlier: &[Value<'a>]) -> bool {
        let bit = trace(key);
        let again = match &mut self.many {
            Some(many) => !many.insert(key.clone()),
            None if earlier.len() < SMALL => self.traces & bit != 0 && earlier.contains(key),
            None => {
                let mut many: Set<'a> = earlier.iter().cloned().collect();
                let again = !many.insert(key.clone());
                self.many = Some(many);
                again
            }
        };
        self.traces |= bit;
        again || bit == 0
    }
}

fn index<const N: usize>(entries: &[[Value<'_>; N]]) -> Result<HashTable<usize>, usize> {
    let mut index = HashTable::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        if !note(&mut index, entries, key(entry), at) {
            return Err(at);
        }
    }
    Ok(index)
}

fn find<const N: usize>(
    index: &HashTable<usize>,
    entries: &[[Value<'_>; N]],
    wanted: &Value<'_>,
) -> Option<usize> {
    let equal = |at: &usize| entries.get(*at).is_some_and(|entry| key(entry) == wanted);
    index.find(hash_alone(wanted), equal).copied()
}

/// Notes that `noted` is the key of entry `at`; false if an equal one is noted already.
fn note<const N: usize>(
    index: &mut HashTable<usize>,
    entries: &[[Value<'_>; N]],
    noted: &Value<'_>,
    at: usize,
) -> bool {
    let hash = hash_alone(noted);
    let equal = |at: &usize| entries.get(*at).is_some_and(|entry| key(entry) == noted);
    if index.find(hash, equal).is_some() {
        return false;
    }
    let rehash = |at: &usize| entries.get(*at).map_or(0, |entry| hash_alone(key(entry)));
    index.insert_unique(hash, at, rehash);
    true
}

impl<'a> Map<'a> {
    /// The empty map.
    pub fn new() -> Self {
        Map(Entries::new())
    }

    /// The empty map, with room for `entries` of them.
    pub fn with_capacity(entries: usize) -> Self {
        Map(Entries::with_capacity(entries))
    }

    /// A map of keys and values in turn.
    ///
    /// # Errors
    /// The number of the first entry whose key an earlier one equals. A last key without a value is left
    /// out.
    #[inline]
    pub fn distinct(values: Vec<Value<'a>>) -> Result<Self, usize> {
        Entries::distinct(values).map(Map)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    /// Is there no entry?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Value<'a>, &Value<'a>)> + DoubleEndedIterator {
        self.0.as_slice().iter().map(|[key, value]| (key, value))
    }

    /// What stands at `key`.
    pub fn get(&self, key: &Value<'_>) -> Option<&Value<'a>> {
        let at = self.0.position(key)?;
        self.0.as_slice().get(at).map(|[_, value]| value)
    }

    /// What stands at the keyword `name`: `name` or `namespace/name`.
    pub fn get_keyword(&self, name: &str) -> Option<&Value<'a>> {
        self.get(&Value::Keyword(Text::from(name)))
    }

    /// Is there an entry at `key`?
    pub fn contains(&self, key: &Value<'_>) -> bool {
        self.0.position(key).is_some()
    }

    /// Puts `value` at `key` and returns what stood there. The key that stood there first stays, in its
    /// place.
    pub fn insert(&mut self, key: impl Into<Value<'a>>, value: impl Into<Value<'a>>) -> Option<Value<'a>> {
        self.0.put([key.into(), value.into()])
    }

    /// Puts `value` at the keyword `name`.
    pub fn put(&mut self, name: &'static str, value: impl Into<Value<'a>>) -> &mut Self {
        self.insert(Value::Keyword(Text::from(name)), value);
        self
    }

    /// Puts `value` at the keyword `name` if there is one.
    pub fn put_some(&mut self, name: &'static str, value: Option<impl Into<Value<'a>>>) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }

    /// The same map with `value` at the keyword `name`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value<'a>>) -> Self {
        self.put(name, value);
        self
    }

    /// Takes out what stands at `key`; what follows moves up.
    pub fn remove(&mut self, key: &Value<'_>) -> Option<Value<'a>> {
        let at = self.0.position(key)?;
        let mut values = std::mem::replace(&mut self.0, Entries::new()).into_vec();
        let removed = values.drain(2 * at..2 * at + 2).next_back();
        if let Ok(rest) = Entries::distinct(values) {
            self.0 = rest;
        }
        removed
    }

    /// The same map, borrowing nothing.
    pub fn into_owned(self) -> Map<'static> {
        Map(self.0.into_owned())
    }
}

impl<'a> Set<'a> {
    /// The empty set.
    pub fn new() -> Self {
        Set(Entries::new())
    }

    /// A set of `items`.
    ///
    /// # Errors
    /// The position of the first item that an earlier one equals.
    #[inline]
    pub fn distinct(items: Vec<Value<'a>>) -> Result<Self, usize> {
        Entries::distinct(items).map(Set)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.0.as_slice().len()
    }

    /// Is there no element?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Value<'a>> + DoubleEndedIterator {
        self.0.values().iter()
    }

    /// Is there an element equal to `item`?
    pub fn contains(&self, item: &Value<'_>) -> bool {
        self.0.position(item).is_some()
    }

    /// Adds `item`; false if an equal one is there.
    pub fn insert(&mut self, item: impl Into<Value<'a>>) -> bool {
        self.0.put([item.into()]).is_none()
    }

    /// The same set, borrowing nothing.
    pub fn into_owned(self) -> Set<'static> {
        Set(self.0.into_owned())
    }
}

impl Default for Map<'_> {
    fn default() -> Self {
        Map::new()
    }
}
impl Default for Set<'_> {
    fn default() -> Self {
        Set::new()
    }
}
impl<'a> FromIterator<(Value<'a>, Value<'a>)> for Map<'a> {
    fn from_iter<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(entries: I) -> Self {
        let mut map = Map::new();
        map.extend(entries);
        map
    }
}
impl<'a> Extend<(Value<'a>, Value<'a>)> for Map<'a> {
    fn extend<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}
impl<'a> FromIterator<Value<'a>> for Set<'a> {
    fn from_iter<I: IntoIterator<Item = Value<'a>>>(items: I) -> Self {
        let mut set = Set::new();
        for item in items {
            set.insert(item);
        }
        set
    }
}
impl<'a> IntoIterator for Map<'a> {
    type Item = (Value<'a>, Value<'a>);
    type IntoIter = IntoEntries<'a>;
    fn into_iter(self) -> IntoEntries<'a> {
        IntoEntries(self.0.into_vec().into_iter())
    }
}

/// The entries of a map that is taken apart.
#[derive(Debug)]
pub struct IntoEntries<'a>(std::vec::IntoIter<Value<'a>>);

impl<'a> Iterator for IntoEntries<'a> {
    type Item = (Value<'a>, Value<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 2, Some(self.0.len() / 2))
    }
}
impl ExactSizeIterator for IntoEntries<'_> {}

impl<'a> IntoIterator for Set<'a> {
    type Item = Value<'a>;
    type IntoIter = std::vec::IntoIter<Value<'a>>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}
impl PartialEq for Map<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}
impl Eq for Map<'_> {}
impl PartialEq for Set<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.same(&other.0)
    }
}
impl Eq for Set<'_> {}

// The order of the entries does not count: their hashes are added up.
impl Hash for Map<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sum = self.iter().fold(0_u64, |sum, entry| sum.wrapping_add(hash_alone(&entry)));
        state.write_u64(sum);
    }
}
impl Hash for Set<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let sum = self.iter().fold(0_u64, |sum, item| sum.wrapping_add(hash_alone(item)));
        state.write_u64(sum);
    }
}
impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
impl fmt::Debug for Set<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
