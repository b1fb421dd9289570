//! Maps and sets: entries in the order in which they were written, found by Clojure's equality.
//!
//! A small collection is one allocation and is searched by comparing. A large one, and one that is being
//! built, has an index beside it. Two words either way.

use std::fmt;
use std::hash::{Hash, Hasher};

use hashbrown::HashTable;

use super::{Text, Value, hash_alone};

/// Up to how many entries a search compares them one by one. Eight keywords are compared in less time than
/// one is hashed.
const SMALL: usize = 8;

/// A map from any value to any value, in the order in which it was written.
#[derive(Clone)]
pub struct Map<'a>(Entries<[Value<'a>; 2]>);

/// A set of values, in the order in which it was written.
#[derive(Clone)]
pub struct Set<'a>(Entries<Value<'a>>);

/// What a collection is made of: a value that is looked for and what belongs to it.
trait Entry<'a> {
    fn key(&self) -> &Value<'a>;
    fn key_mut(&mut self) -> &mut Value<'a>;
    fn same_value(&self, other: &Self) -> bool;
}

impl<'a> Entry<'a> for [Value<'a>; 2] {
    fn key(&self) -> &Value<'a> {
        let [key, _] = self;
        key
    }
    fn key_mut(&mut self) -> &mut Value<'a> {
        let [key, _] = self;
        key
    }
    fn same_value(&self, other: &Self) -> bool {
        let ([_, one], [_, other]) = (self, other);
        one == other
    }
}

impl<'a> Entry<'a> for Value<'a> {
    fn key(&self) -> &Value<'a> {
        self
    }
    fn key_mut(&mut self) -> &mut Value<'a> {
        self
    }
    fn same_value(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone)]
enum Entries<E> {
    /// Packed; no more than [`SMALL`] entries.
    Small(Box<[E]>),
    Grown(Box<Grown<E>>),
}

#[derive(Clone)]
struct Grown<E> {
    entries: Vec<E>,
    /// Positions in `entries` by the hash of the key; empty while there are few.
    index: HashTable<usize>,
}

impl<E> Entries<E> {
    fn new() -> Self {
        Entries::Small(Box::default())
    }

    fn as_slice(&self) -> &[E] {
        match self {
            Entries::Small(entries) => entries,
            Entries::Grown(grown) => &grown.entries,
        }
    }

    fn into_vec(self) -> Vec<E> {
        match self {
            Entries::Small(entries) => entries.into_vec(),
            Entries::Grown(grown) => grown.entries,
        }
    }

    fn map<F>(self, change: impl Fn(E) -> F) -> Entries<F> {
        match self {
            Entries::Small(entries) => Entries::Small(entries.into_iter().map(change).collect()),
            Entries::Grown(grown) => {
                let Grown { entries, index } = *grown;
                let entries = entries.into_iter().map(change).collect();
                Entries::Grown(Box::new(Grown { entries, index }))
            }
        }
    }
}

impl<'a, E: Entry<'a>> Entries<E> {
    /// Entries as they were read: a second equal key gives its position.
    fn unique(entries: Vec<E>) -> Result<Self, usize> {
        if entries.len() <= SMALL && !entries.iter().any(|entry| is_deep(entry.key())) {
            for (at, entry) in entries.iter().enumerate() {
                if entries.iter().take(at).any(|earlier| earlier.key() == entry.key()) {
                    return Err(at);
                }
            }
            return Ok(Entries::Small(entries.into_boxed_slice()));
        }
        let index = index(&entries)?;
        if entries.len() <= SMALL {
            return Ok(Entries::Small(entries.into_boxed_slice()));
        }
        Ok(Entries::Grown(Box::new(Grown { entries, index })))
    }

    fn position(&self, key: &Value<'_>) -> Option<usize> {
        match self {
            Entries::Grown(grown) if grown.entries.len() > SMALL => find(&grown.index, &grown.entries, key),
            _ => self.as_slice().iter().position(|candidate| candidate.key() == key),
        }
    }

    /// Puts `entry` in the place of the one with an equal key, which it returns, or at the end.
    fn put(&mut self, mut entry: E) -> Option<E> {
        let position = self.position(entry.key());
        let mut grown = match std::mem::replace(self, Entries::new()) {
            Entries::Grown(grown) => grown,
            Entries::Small(entries) => {
                let mut entries = entries.into_vec();
                entries.reserve(SMALL);
                Box::new(Grown { entries, index: HashTable::new() })
            }
        };
        let replaced = if let Some(place) = position.and_then(|at| grown.entries.get_mut(at)) {
            // The key that stood there first stays.
            std::mem::swap(place.key_mut(), entry.key_mut());
            Some(std::mem::replace(place, entry))
        } else {
            let at = grown.entries.len();
            grown.entries.push(entry);
            let unnoted = if at == SMALL { 0 } else { at };
            if at >= SMALL {
                for (at, entry) in grown.entries.iter().enumerate().skip(unnoted) {
                    note(&mut grown.index, &grown.entries, entry.key(), at);
                }
            }
            None
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
        let agrees = |entry: &E, at: Option<usize>| {
            at.and_then(|at| those.get(at)).is_some_and(|found| found.same_value(entry))
        };
        if those.len() <= SMALL && these.iter().any(|entry| is_deep(entry.key())) {
            let Ok(index) = index(those) else { return false };
            return these.iter().all(|entry| agrees(entry, find(&index, those, entry.key())));
        }
        these.iter().all(|entry| agrees(entry, other.position(entry.key())))
    }
}

fn is_deep(key: &Value<'_>) -> bool {
    matches!(key, Value::List(_) | Value::Vector(_) | Value::Map(_) | Value::Set(_) | Value::Tagged(_))
}

fn index<'a, E: Entry<'a>>(entries: &[E]) -> Result<HashTable<usize>, usize> {
    let mut index = HashTable::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        if !note(&mut index, entries, entry.key(), at) {
            return Err(at);
        }
    }
    Ok(index)
}

fn find<'a, E: Entry<'a>>(index: &HashTable<usize>, entries: &[E], key: &Value<'_>) -> Option<usize> {
    let equal = |at: &usize| entries.get(*at).is_some_and(|candidate| candidate.key() == key);
    index.find(hash_alone(key), equal).copied()
}

/// Notes that `key` stands at position `at`; false if an equal one is noted already.
fn note<'a, E: Entry<'a>>(index: &mut HashTable<usize>, entries: &[E], key: &Value<'_>, at: usize) -> bool {
    let hash = hash_alone(key);
    let equal = |at: &usize| entries.get(*at).is_some_and(|candidate| candidate.key() == key);
    if index.find(hash, equal).is_some() {
        return false;
    }
    let rehash = |at: &usize| entries.get(*at).map_or(0, |entry| hash_alone(entry.key()));
    index.insert_unique(hash, at, rehash);
    true
}

impl<'a> Map<'a> {
    /// The empty map.
    pub fn new() -> Self {
        Map(Entries::new())
    }

    /// A map of `entries`, or the position of the first key that an earlier one equals.
    pub fn unique(entries: Vec<[Value<'a>; 2]>) -> Result<Self, usize> {
        Entries::unique(entries).map(Map)
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
        self.0.put([key.into(), value.into()]).map(|[_, value]| value)
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
        let mut entries = std::mem::replace(&mut self.0, Entries::new()).into_vec();
        let [_, value] = entries.remove(at);
        if let Ok(rest) = Entries::unique(entries) {
            self.0 = rest;
        }
        Some(value)
    }

    /// The same map, borrowing nothing.
    pub fn into_owned(self) -> Map<'static> {
        Map(self.0.map(|entry| entry.map(Value::into_owned)))
    }
}

impl<'a> Set<'a> {
    /// The empty set.
    pub fn new() -> Self {
        Set(Entries::new())
    }

    /// A set of `items`, or the position of the first one that an earlier one equals.
    pub fn unique(items: Vec<Value<'a>>) -> Result<Self, usize> {
        Entries::unique(items).map(Set)
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
        self.0.as_slice().iter()
    }

    /// Is there an element equal to `item`?
    pub fn contains(&self, item: &Value<'_>) -> bool {
        self.0.position(item).is_some()
    }

    /// Adds `item`; false if an equal one is there.
    pub fn insert(&mut self, item: impl Into<Value<'a>>) -> bool {
        self.0.put(item.into()).is_none()
    }

    /// The same set, borrowing nothing.
    pub fn into_owned(self) -> Set<'static> {
        Set(self.0.map(Value::into_owned))
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
    type IntoIter = std::iter::Map<std::vec::IntoIter<[Value<'a>; 2]>, fn([Value<'a>; 2]) -> Self::Item>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter().map(|[key, value]| (key, value))
    }
}
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
