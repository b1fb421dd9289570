//! The known data of a query's entities: attributes by number, handles, and plain values.
//!
//! Knows the graph's numbers; runs no resolver.

use super::size::{self, SLOT};
use crate::meter::{Exhausted, Meter};
use crate::query::datum::{Datum, KnownEntity};
use crate::query::graph::{Graph, Resolve};
use crate::query::number::{Attr, Bits, ResolverId};
use crate::query::world::ResolverFailure;
use crate::value::{Map, Value};

/// An entity in its places in the lists of a level, without what it knows.
const ENTITY: usize = 2 * size_of::<Entity>();

/// Bytes of data that are copied in one step.
const STEP_BYTES: usize = 256;

/// The known data of an entity.
#[derive(Default)]
pub(super) struct Entity {
    /// The attributes.
    pub(super) known: Bits,
    /// The value of each.
    pub(super) slots: Vec<(Attr, Datum)>,
    /// Known values whose names the graph does not have.
    pub(super) extra: Map<'static>,
    /// The resolvers that have run.
    pub(super) tried: Bits,
    /// The resolvers that failed.
    pub(super) failed: Vec<(ResolverId, ResolverFailure)>,
    /// The bytes that were paid for it, to be given back with it.
    pub(super) paid: usize,
}

impl Entity {
    pub(super) fn known(graph: &Graph, map: Map<'static>) -> Self {
        let mut entity = Self::default();
        for (key, value) in map {
            match key.as_keyword().and_then(|name| graph.attr(name)) {
                Some(attr) => entity.put(attr, Datum::Value(value)),
                None => {
                    entity.extra.insert(key, value);
                }
            }
        }
        entity
    }

    /// A copy with more known data, for a level of its own.
    pub(super) fn with(&self, graph: &Graph, more: &Map<'static>) -> Self {
        let mut with = Self::known(graph, more.clone());
        for (attr, datum) in &self.slots {
            with.put(*attr, datum.clone());
        }
        with
    }

    /// The bytes that [`Self::with`] copies.
    pub(super) fn copied(&self, more: &Map<'static>) -> usize {
        let known = self.slots.iter().map(|(_, datum)| SLOT.saturating_add(size::of_datum(datum)));
        let added = more.iter().map(|(_, value)| SLOT.saturating_add(size::of_value(value)));
        known.chain(added).fold(ENTITY, usize::saturating_add)
    }

    pub(super) fn of(graph: &Graph, handle: KnownEntity) -> Self {
        let mut entity = Self::default();
        if let Some(attr) = graph.any_attr(handle.attribute()) {
            entity.put(attr, Datum::Node(handle));
        }
        entity
    }

    pub(super) fn has(&self, attr: Attr) -> bool {
        self.known.has(attr.place())
    }

    pub(super) fn get(&self, attr: Attr) -> Option<&Datum> {
        self.slots.iter().find(|(at, _)| *at == attr).map(|(_, datum)| datum)
    }

    pub(super) fn handle(&self, attr: Attr) -> Option<&KnownEntity> {
        match self.get(attr) {
            Some(Datum::Node(handle)) => Some(handle),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, attr: Attr, datum: Datum) {
        if self.known.add(attr.place()) {
            self.slots.push((attr, datum));
        }
    }
}

/// All known attributes of an entity, and the fields of its handles. Each is paid for.
pub(super) fn everything(
    graph: &Graph,
    entity: &Entity,
    meter: &mut Meter,
) -> Result<Vec<[Value<'static>; 2]>, Exhausted> {
    let mut all = Vec::new();
    for (attr, datum) in &entity.slots {
        match datum {
            Datum::Node(handle) if graph.name(*attr) == handle.attribute() => {
                for (_, node) in graph.resolvers() {
                    let (Resolve::Fields(read), [input]) = (node.spec.run, node.input.as_slice()) else {
                        continue;
                    };
                    if input.attr != *attr {
                        continue;
                    }
                    for (place, output) in node.spec.output.iter().enumerate() {
                        let value = read(handle, place);
                        pay_entry(meter, size::of_value(&value))?;
                        all.push([Value::keyword(output.name), value]);
                    }
                }
            }
            datum => {
                pay_entry(meter, size::of_datum(datum))?;
                all.push([Value::keyword(graph.name(*attr)), plain(datum.clone(), meter)?]);
            }
        }
    }
    for (key, value) in entity.extra.iter() {
        pay_entry(meter, size::of_value(key).saturating_add(size::of_value(value)))?;
        all.push([key.clone(), value.clone()]);
    }
    Ok(all)
}

fn pay_entry(meter: &mut Meter, bytes: usize) -> Result<(), Exhausted> {
    pay(meter, bytes.saturating_add(size::ENTRY))
}

/// Pays for data of so many bytes: to copy much is more than one step.
pub(super) fn pay(meter: &mut Meter, bytes: usize) -> Result<(), Exhausted> {
    meter.spend((bytes / STEP_BYTES).saturating_add(1), bytes)
}

/// The value of an entity that is requested without a sub-query. A handle is paid for as it becomes a value.
pub(super) fn plain(datum: Datum, meter: &mut Meter) -> Result<Value<'static>, Exhausted> {
    let mut whole = |handle: &KnownEntity| {
        let value = handle.to_value();
        pay(meter, size::VALUE.saturating_add(size::of_value(&value))).map(|()| value)
    };
    match datum {
        Datum::Value(value) => Ok(value),
        Datum::Node(handle) => whole(&handle),
        Datum::Nodes(handles) => Ok(handles.iter().map(whole).collect::<Result<Vec<_>, _>>()?.into()),
    }
}

/// The entities of a group by the set of their known attributes; each set shares a plan. Nearly every list
/// has one set.
pub(super) fn kinds(group: &[Entity], mut which: Vec<usize>) -> Vec<(Bits, Vec<usize>)> {
    let kind = |at: &usize| group.get(*at).map(|entity| entity.known).unwrap_or_default();
    which.sort_by_key(kind);
    let same = which.chunk_by(|one, next| kind(one) == kind(next));
    same.map(|same| (same.first().map(kind).unwrap_or_default(), same.to_vec())).collect()
}

/// The range of one datum's entities among those of its column.
#[derive(Clone, Copy)]
pub(super) enum Span {
    /// It leads to none and stays as it is.
    None,
    One,
    Many(usize),
}

impl Span {
    pub(super) fn of(datum: &Option<Datum>) -> Self {
        match datum {
            Some(Datum::Node(_) | Datum::Value(Value::Map(_))) => Self::One,
            Some(Datum::Nodes(handles)) => Self::Many(handles.len()),
            Some(Datum::Value(Value::Vector(items) | Value::List(items)))
                if items.iter().all(|item| item.as_map().is_some()) =>
            {
                Self::Many(items.len())
            }
            _ => Self::None,
        }
    }

    /// The number of entities.
    pub(super) fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::One => 1,
            Self::Many(count) => count,
        }
    }

    /// Puts the answers of the entities in the place of the datum.
    pub(super) fn gather(
        self,
        datum: Option<Datum>,
        found: &mut impl Iterator<Item = Value<'static>>,
    ) -> Option<Value<'static>> {
        match (self, datum) {
            (Self::One, _) => found.next(),
            (Self::Many(count), _) => Some(Value::Vector(found.take(count).collect())),
            (Self::None, Some(Datum::Value(value))) => Some(value),
            (Self::None, _) => None,
        }
    }
}

/// The entities that one datum leads to.
enum Source {
    Nothing,
    Node(Option<KnownEntity>),
    Nodes(std::vec::IntoIter<KnownEntity>),
    Map(Option<Map<'static>>),
    Maps(std::vec::IntoIter<Value<'static>>),
}

/// What an entity is made of.
enum Seed {
    Node(KnownEntity),
    Map(Map<'static>),
}

impl Source {
    fn new(datum: &mut Option<Datum>, span: Span) -> Self {
        if let Span::None = span {
            return Self::Nothing;
        }
        match datum.take() {
            Some(Datum::Node(handle)) => Self::Node(Some(handle)),
            Some(Datum::Nodes(handles)) => Self::Nodes(handles.into_iter()),
            Some(Datum::Value(Value::Map(map))) => Self::Map(Some(map)),
            Some(Datum::Value(Value::Vector(items) | Value::List(items))) => {
                Self::Maps(items.into_vec().into_iter())
            }
            _ => Self::Nothing,
        }
    }
}

impl Iterator for Source {
    type Item = Seed;

    fn next(&mut self) -> Option<Seed> {
        match self {
            Self::Nothing => None,
            Self::Node(handle) => handle.take().map(Seed::Node),
            Self::Nodes(handles) => handles.next().map(Seed::Node),
            Self::Map(map) => map.take().map(Seed::Map),
            Self::Maps(items) => items.next().map(|item| match item {
                Value::Map(map) => Seed::Map(map),
                _ => Seed::Map(Map::new()),
            }),
        }
    }
}

/// The entities that a column leads to, made in parts. Data that lead to none stay in the column.
pub(super) struct Ahead<'d> {
    column: std::slice::IterMut<'d, Option<Datum>>,
    source: Source,
}

impl<'d> Ahead<'d> {
    pub(super) fn new(column: &'d mut [Option<Datum>]) -> Self {
        Self { column: column.iter_mut(), source: Source::Nothing }
    }

    /// The next entities, at most so many. Each is paid for before it is made.
    pub(super) fn part(
        &mut self,
        most: usize,
        graph: &Graph,
        meter: &mut Meter,
    ) -> Result<Vec<Entity>, Exhausted> {
        let mut part = Vec::new();
        while part.len() < most {
            let Some(seed) = self.source.next() else {
                let Some(datum) = self.column.next() else { break };
                let span = Span::of(datum);
                self.source = Source::new(datum, span);
                continue;
            };
            let known = if let Seed::Map(map) = &seed { map.len() } else { 1 };
            let paid = ENTITY.saturating_add(known.saturating_mul(SLOT));
            meter.spend(1, paid)?;
            let entity = match seed {
                Seed::Node(handle) => Entity::of(graph, handle),
                Seed::Map(map) => Entity::known(graph, map),
            };
            part.push(Entity { paid, ..entity });
        }
        Ok(part)
    }
}
