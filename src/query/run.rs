//! Runs a query. The asks of one level are answered for all its entities together.
//!
//! A list is one group: a batch resolver sees all of it, and a join queries all entities that it leads to at
//! once. Known attributes are kept with their entity, so that a resolver runs at most once for it; only an
//! ask with params runs one again. A failing resolver costs only its own attributes, and the failure is
//! recorded. An attribute that no resolver provides is recorded as missing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

mod entity;
mod find;
mod size;
mod state;

use entity::{Ahead, Entity, Span, everything, kinds, pay, plain};
use find::seeded;
use size::{ENTRY, VALUE};
pub use state::Outcomes;
use state::{Column, DepthLeft, Row, RunningQuery, Via};

use crate::limits::{
    MAX_QUERY_DEPTH, MAX_QUERY_VALUES, QUERIES_BYTES, QUERY_BYTES, QUERY_MILLIS, QUERY_PART,
};
use crate::meter::{Exhausted, Meter, Pool};
use crate::query::compile::{Field, Level, LevelSub, Name, What};
use crate::query::datum::Datum;
use crate::query::graph::Graph;
use crate::query::number::Bits;
use crate::query::plan::Plan;
use crate::query::world::World;
use crate::session::ApiError;
use crate::value::{Map, Value};

/// An answer, and what is missing from it.
#[derive(Debug)]
pub struct QueryResult {
    /// The result.
    pub result: Value<'static>,
    /// What could not be resolved: an attribute, or below a join the path to it.
    pub missing: Vec<Value<'static>>,
    /// The failures, by attribute or path.
    pub errors: Map<'static>,
    /// The budget, which holds what the answer takes until that was sent.
    pub meter: Meter,
}

/// The memory of all queries of the process.
static QUERIES: Pool = Pool::new(QUERIES_BYTES);

/// The budget of one query from now on.
fn budget() -> Meter {
    let deadline = Instant::now().checked_add(Duration::from_millis(QUERY_MILLIS));
    Meter::new(MAX_QUERY_VALUES, QUERY_BYTES).until(deadline).within(&QUERIES)
}

/// Answers a query.
///
/// # Errors
/// If its budget is exhausted.
pub fn run(
    graph: &Graph,
    world: &dyn World,
    level: &Level,
    entity: Map<'static>,
    outcomes: Outcomes,
) -> Result<QueryResult, Exhausted> {
    run_within(budget(), graph, world, level, entity, outcomes)
}

/// Answers a query within a budget. What it holds while it runs is paid for, too.
///
/// # Errors
/// If the budget is exhausted.
pub fn run_within(
    mut meter: Meter,
    graph: &Graph,
    world: &dyn World,
    level: &Level,
    entity: Map<'static>,
    outcomes: Outcomes,
) -> Result<QueryResult, Exhausted> {
    // The root stays for links.
    let known = entity.iter().fold(0usize, |sum, (_, value)| sum.saturating_add(size::of_value(value)));
    let slots = entity.len().saturating_mul(size::SLOT);
    pay(&mut meter, known.saturating_mul(2).saturating_add(slots))?;
    let mut run = RunningQuery {
        graph,
        world,
        root: entity.clone(),
        outcomes,
        missing: Vec::new(),
        errors: Map::new(),
        way: Vec::new(),
        demanding: Bits::default(),
        meter,
        answer_bytes: HashMap::new(),
    };
    let mut group = [Entity::known(graph, entity)];
    let whole = Via::Level(level);
    let result = run.level(level, whole, None, &mut group)?.pop().unwrap_or(Value::Nil);
    Ok(QueryResult { result, missing: run.missing, errors: run.errors, meter: run.meter })
}

impl RunningQuery<'_> {
    /// Answers a level for a group of entities, each with a map.
    fn level(
        &mut self,
        level: &Level,
        via: Via<'_>,
        left: DepthLeft,
        group: &mut [Entity],
    ) -> Result<Row, Exhausted> {
        self.meter.look()?;
        let row = size::of_row(level).saturating_add(VALUE);
        self.meter.spend(group.len(), group.len().saturating_mul(row))?;
        let mut results = vec![Value::Nil; group.len()];
        for (kind, same) in kinds(group, (0..group.len()).collect()) {
            let plan = self.graph.plan(&kind);
            let direct = self.graph.direct(level, &kind);
            let mut maps: Vec<Vec<[Value<'static>; 2]>> =
                same.iter().map(|_| Vec::with_capacity(level.asks.len())).collect();
            for (place, ask) in level.asks.iter().enumerate() {
                self.meter.spend(same.len(), 0)?;
                if let Some(field) = direct.get(place).copied().flatten() {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(handle) = group.get(*at).and_then(|entity| entity.handle(field.handle)) {
                            let value = (field.read)(handle, field.place);
                            self.pay_value(&value)?;
                            map.push([ask.key.clone(), value]);
                        }
                    }
                    continue;
                }
                if let What::All = ask.what {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(entity) = group.get(*at) {
                            map.extend(everything(self.graph, entity, &mut self.meter)?);
                        }
                    }
                    continue;
                }
                let column = self.ask(place, &ask.what, &ask.key, via, left, &plan, group, &same)?;
                for (map, value) in maps.iter_mut().zip(column) {
                    map.extend(value.map(|value| [ask.key.clone(), value]));
                }
            }
            for (at, entries) in same.iter().zip(maps) {
                let unused = level.asks.len().saturating_sub(entries.len());
                self.meter.give_back(unused.saturating_mul(ENTRY));
                if let Some(place) = results.get_mut(*at) {
                    *place = Value::from(map_of(entries, level.distinct));
                }
            }
        }
        Ok(results)
    }

    #[expect(clippy::too_many_arguments, reason = "the ask and where it stands")]
    fn ask(
        &mut self,
        place: usize,
        what: &What,
        key: &Value<'static>,
        via: Via<'_>,
        left: DepthLeft,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Column, Exhausted> {
        match what {
            What::Attribute { name, params, sub } => {
                let (mut data, paid) = self.find(name, params.as_ref(), plan, group, which)?;
                match sub {
                    None => self.column(data),
                    Some(sub) => {
                        let column = self.join(place, sub, key, via, left, &mut data)?;
                        self.meter.give_back(paid);
                        Ok(column)
                    }
                }
            }
            What::Placeholder { params, sub } => {
                let Some(level) = whole(sub) else { return Ok(vec![None; which.len()]) };
                let taken = |at: &usize| group.get_mut(*at).map(std::mem::take);
                let mut below: Vec<Entity> = which.iter().filter_map(taken).collect();
                self.way.push(key.clone());
                // An attribute that is found below a placeholder is known above it, too, unless params change
                // it.
                let found = if params.is_empty() {
                    self.level(level, via, None, &mut below)?
                } else {
                    let copied = below.iter().fold(0usize, |sum, one| sum.saturating_add(one.copied(params)));
                    pay(&mut self.meter, copied)?;
                    let mut with: Vec<_> = below.iter().map(|one| one.with(self.graph, params)).collect();
                    let found = self.level(level, via, None, &mut with)?;
                    self.drop_entities(with);
                    self.meter.give_back(copied);
                    found
                };
                self.way.pop();
                for (at, entity) in which.iter().zip(below) {
                    if let Some(place) = group.get_mut(*at) {
                        *place = entity;
                    }
                }
                Ok(found.into_iter().map(Some).collect())
            }
            What::Ident { name, value, sub } => {
                let mut known = Map::new();
                known.insert(Value::Keyword(name.text.clone()), value.clone());
                self.apart(place, known, sub.as_ref(), key, None, which.len())
            }
            What::Link { name, params, sub } => {
                let bytes = self.root.iter().fold(0usize, |sum, (_, value)| {
                    sum.saturating_add(size::of_value(value)).saturating_add(size::SLOT)
                });
                pay(&mut self.meter, bytes)?;
                let root = self.root.clone();
                let link = Some((name, params.as_ref()));
                let column = self.apart(place, root, sub.as_ref(), key, link, which.len())?;
                self.meter.give_back(bytes);
                Ok(column)
            }
            What::Mutation { name, sub, .. } => {
                let outcome = self.outcomes.iter().position(|(at, _)| *at == place && self.way.is_empty());
                let outcome = match outcome {
                    Some(at) => self.outcomes.swap_remove(at).1,
                    None => Err(ApiError::failed("A mutation stands at the top of a query.")),
                };
                let value = match (outcome, sub) {
                    (Ok(map), None) => Some(Value::from(map)),
                    (Ok(map), Some(sub)) => self.apart(place, map, Some(sub), key, None, 1)?.pop().flatten(),
                    (Err(error), _) => {
                        let mut why = Map::new();
                        why.put("code", error.code.as_str());
                        why.put("message", error.message);
                        why.put_some("data", error.data.map(Value::from));
                        self.note_error(&Value::Symbol(name.clone()), why)?;
                        None
                    }
                };
                Ok(vec![value; which.len()])
            }
            What::All => Ok(vec![None; which.len()]),
        }
    }

    /// Answers for an entity outside the group, and gives the answer to each entity of the group.
    fn apart(
        &mut self,
        place: usize,
        known: Map<'static>,
        sub: Option<&LevelSub>,
        key: &Value<'static>,
        link: Option<(&Name, Option<&Map<'static>>)>,
        times: usize,
    ) -> Result<Column, Exhausted> {
        let demanding = std::mem::take(&mut self.demanding);
        let (mut data, paid) = match link {
            Some((name, params)) => {
                let root = Entity::known(self.graph, known);
                let plan = self.graph.plan(&root.known);
                let mut root = vec![root];
                let found = self.find(name, params, &plan, &mut root, &[0])?;
                self.drop_entities(root);
                found
            }
            None => (vec![Some(Datum::Value(Value::from(known)))], 0),
        };
        let column = match sub {
            None => self.column(std::mem::take(&mut data))?,
            Some(LevelSub::Again(_)) => vec![None],
            Some(sub @ LevelSub::Level(level)) => {
                self.join(place, sub, key, Via::Level(level), None, &mut data)?
            }
            Some(sub @ LevelSub::Union(branches)) => {
                self.join(place, sub, key, Via::Union(branches), None, &mut data)?
            }
        };
        self.demanding = demanding;
        if sub.is_some() {
            self.meter.give_back(paid);
        }
        let value = column.into_iter().next().flatten();
        // Each of the group gets a copy of its own.
        self.meter.spend(times, 0)?;
        let copies = value.as_ref().map(size::of_value).unwrap_or_default();
        pay(&mut self.meter, copies.saturating_mul(times.saturating_sub(1)))?;
        Ok(vec![value; times])
    }

    /// Data as values, where no sub-query follows.
    fn column(&mut self, data: Vec<Option<Datum>>) -> Result<Column, Exhausted> {
        data.into_iter().map(|datum| datum.map(|datum| plain(datum, &mut self.meter)).transpose()).collect()
    }

    /// Drops the entities of an answered group, and takes back what was paid for them.
    fn drop_entities(&mut self, group: Vec<Entity>) {
        let paid = group.iter().fold(0usize, |sum, entity| sum.saturating_add(entity.paid));
        drop(group);
        self.meter.give_back(paid);
    }

    /// Queries all entities that a group leads to at once, and puts each answer back in its place.
    fn join(
        &mut self,
        place: usize,
        sub: &LevelSub,
        key: &Value<'static>,
        via: Via<'_>,
        left: DepthLeft,
        data: &mut [Option<Datum>],
    ) -> Result<Column, Exhausted> {
        let (via, left) = match sub {
            LevelSub::Level(level) => (Via::Level(level), None),
            LevelSub::Union(branches) => (Via::Union(branches), None),
            LevelSub::Again(limit) => {
                let left = match (left, limit) {
                    (Some((at, left)), Some(_)) if at == place => Some(left),
                    (_, limit) => *limit,
                };
                match left {
                    Some(0) => return Ok(vec![None; data.len()]),
                    left => (via, left.map(|left| (place, left - 1))),
                }
            }
        };
        if self.way.len() >= MAX_QUERY_DEPTH {
            let mut why = Map::new();
            why.put("message", format!("The data go on below {MAX_QUERY_DEPTH} levels; ask for fewer."));
            self.note_error(key, why)?;
            return Ok(vec![None; data.len()]);
        }
        // A list of handles with only field asks needs no bookkeeping.
        if let (Via::Level(level), [Some(Datum::Nodes(handles))]) = (via, &*data)
            && let Some(first) = handles.first()
        {
            let kind = Entity::of(self.graph, first.clone()).known;
            let direct = self.graph.direct(level, &kind);
            if let Some(fields) = direct.iter().copied().collect::<Option<Vec<Field>>>() {
                self.meter.spend(0, handles.len().saturating_mul(VALUE))?;
                let row = size::of_row(level);
                let mut rows = Vec::with_capacity(handles.len());
                for handle in handles {
                    self.meter.spend(fields.len(), row)?;
                    let mut entries = Vec::with_capacity(fields.len());
                    for (ask, field) in level.asks.iter().zip(&fields) {
                        let value = (field.read)(handle, field.place);
                        self.pay_value(&value)?;
                        entries.push([ask.key.clone(), value]);
                    }
                    rows.push(Value::from(map_of(entries, level.distinct)));
                }
                return Ok(vec![Some(Value::Vector(rows.into_boxed_slice()))]);
            }
        }
        self.way.push(key.clone());
        let demanding = std::mem::take(&mut self.demanding);
        let column = self.below(via, left, data)?;
        self.demanding = demanding;
        self.way.pop();
        Ok(column)
    }

    /// Answers for all entities that a column leads to, in parts, and puts each answer in its place.
    fn below(
        &mut self,
        via: Via<'_>,
        left: DepthLeft,
        data: &mut [Option<Datum>],
    ) -> Result<Column, Exhausted> {
        let spans: Vec<Span> = data.iter().map(Span::of).collect();
        let places = spans.iter().fold(0usize, |sum, span| sum.saturating_add(span.len()));
        let places_bytes = places.saturating_mul(VALUE);
        self.meter.spend(0, places_bytes)?;
        let mut found = Vec::with_capacity(places);
        let mut ahead = Ahead::new(data);
        loop {
            let mut part = ahead.part(QUERY_PART, self.graph, &mut self.meter)?;
            if part.is_empty() {
                break;
            }
            found.extend(match via {
                Via::Level(level) => self.level(level, via, left, &mut part)?,
                Via::Union(branches) => self.union(branches, via, left, &mut part)?,
            });
            self.drop_entities(part);
        }
        let mut found = found.into_iter();
        let whole = spans.into_iter().zip(data).map(|(span, datum)| span.gather(datum.take(), &mut found));
        let column = whole.collect();
        self.meter.give_back(places_bytes);
        Ok(column)
    }

    /// Queries each entity with the branch of an attribute that it has; an entity without one gets an empty
    /// answer.
    fn union(
        &mut self,
        branches: &[(Name, Level)],
        via: Via<'_>,
        left: DepthLeft,
        entities: &mut [Entity],
    ) -> Result<Row, Exhausted> {
        self.meter.spend(entities.len(), entities.len().saturating_mul(VALUE))?;
        let mut results = vec![Value::from(Map::new()); entities.len()];
        let mut open: Vec<usize> = (0..entities.len()).collect();
        for (name, level) in branches {
            let Some(attr) = name.attr else { continue };
            let (mut mine, mut rest) = (Vec::new(), Vec::new());
            for (kind, same) in kinds(entities, open) {
                if kind.has(attr.place()) {
                    mine.extend(same);
                    continue;
                }
                // The attribute of the branch may have to be resolved first: a handle can provide it.
                let plan = self.graph.plan(&kind);
                if plan.ways(attr).is_empty() || seeded(self.graph, &plan, &mut { kind }, attr) {
                    rest.extend(same);
                    continue;
                }
                self.demand(attr, &plan, entities, &same)?;
                let tells = |at: &usize| {
                    let datum = entities.get(*at).and_then(|entity| entity.get(attr));
                    datum.is_some_and(|datum| !matches!(datum, Datum::Value(Value::Nil)))
                };
                let (telling, others): (Vec<usize>, Vec<usize>) = same.into_iter().partition(tells);
                mine.extend(telling);
                rest.extend(others);
            }
            open = rest;
            let taken = |at: &usize| entities.get_mut(*at).map(std::mem::take);
            let mut theirs: Vec<Entity> = mine.iter().filter_map(taken).collect();
            let found = self.level(level, via, left, &mut theirs)?;
            self.drop_entities(theirs);
            for (at, value) in mine.into_iter().zip(found) {
                if let Some(place) = results.get_mut(at) {
                    *place = value;
                }
            }
        }
        Ok(results)
    }
}

fn whole(sub: &LevelSub) -> Option<&Level> {
    if let LevelSub::Level(level) = sub { Some(level) } else { None }
}

fn map_of(entries: Vec<[Value<'static>; 2]>, distinct: bool) -> Map<'static> {
    if distinct {
        // All keys are distinct, so this cannot fail.
        return Map::distinct(entries.into_iter().flatten().collect()).unwrap_or_default();
    }
    entries.into_iter().map(|[key, value]| (key, value)).collect()
}
