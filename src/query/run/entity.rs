//! The known data of a query's entities: attributes by number, handles, and plain values.
//!
//! Knows the graph's numbers; runs no resolver.

use crate::query::datum::{Datum, KnownEntity};
use crate::query::graph::{Graph, Resolve};
use crate::query::number::{Attr, Bits, ResolverId};
use crate::query::world::ResolverFailure;
use crate::value::{Map, Value};

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

/// All known attributes of an entity, and the fields of its handles.
pub(super) fn everything(graph: &Graph, entity: &Entity) -> Vec<[Value<'static>; 2]> {
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
                        all.push([Value::keyword(output.name), read(handle, place)]);
                    }
                }
            }
            datum => all.push([Value::keyword(graph.name(*attr)), plain(datum.clone())]),
        }
    }
    all.extend(entity.extra.iter().map(|(key, value)| [key.clone(), value.clone()]));
    all
}

/// The value of an entity that is requested without a sub-query.
pub(super) fn plain(datum: Datum) -> Value<'static> {
    match datum {
        Datum::Value(value) => value,
        Datum::Node(handle) => handle.to_value(),
        Datum::Nodes(handles) => handles.iter().map(KnownEntity::to_value).collect::<Vec<_>>().into(),
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

/// The range of one datum's entities within the group.
pub(super) enum Span {
    None,
    Value(Value<'static>),
    One,
    Many(usize),
}

/// Adds the entities that a datum leads to. A datum that leads to none stays unchanged.
pub(super) fn spread(graph: &Graph, datum: &mut Option<Datum>, entities: &mut Vec<Entity>) -> Span {
    match datum.take() {
        None => Span::None,
        Some(Datum::Node(handle)) => {
            entities.push(Entity::of(graph, handle));
            Span::One
        }
        Some(Datum::Nodes(handles)) => {
            let count = handles.len();
            entities.extend(handles.into_iter().map(|handle| Entity::of(graph, handle)));
            Span::Many(count)
        }
        Some(Datum::Value(Value::Map(map))) => {
            entities.push(Entity::known(graph, map));
            Span::One
        }
        Some(Datum::Value(Value::Vector(items) | Value::List(items)))
            if items.iter().all(|item| item.as_map().is_some()) =>
        {
            let count = items.len();
            entities.extend(items.into_iter().map(|item| match item {
                Value::Map(map) => Entity::known(graph, map),
                _ => Entity::default(),
            }));
            Span::Many(count)
        }
        Some(Datum::Value(value)) => Span::Value(value),
    }
}

impl Span {
    /// Puts the answers of the entities back in the place of the datum.
    pub(super) fn gather(self, found: &mut impl Iterator<Item = Value<'static>>) -> Option<Value<'static>> {
        match self {
            Self::None => None,
            Self::Value(value) => Some(value),
            Self::One => found.next(),
            Self::Many(count) => Some(Value::Vector(found.take(count).collect())),
        }
    }
}
