//! Runs a query. The asks of one level are answered for all its entities together.
//!
//! A list is one group: a batch resolver sees all of it, and a join queries all entities that it leads to at
//! once. Known attributes are kept with their entity, so that a resolver runs at most once for it; only an
//! ask with params runs one again. A failing resolver costs only its own attributes, and the failure is
//! recorded. An attribute that no resolver provides is recorded as missing.

use std::time::{Duration, Instant};

mod bounds;
mod entity;
mod find;
mod memory;
mod state;

pub use bounds::{Bounds, Stop};
use entity::{Entity, Span, everything, kinds, plain, spread};
use find::seeded;
pub use memory::AnswerMemory;
pub use state::Outcomes;
use state::{Column, Left, Row, RunningQuery, Via};

use crate::limits::{MAX_QUERY_DEPTH, MAX_QUERY_VALUES, QUERY_MILLIS};
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
pub struct Answered {
    /// The result.
    pub result: Value<'static>,
    /// What could not be resolved: an attribute, or below a join the path to it.
    pub missing: Vec<Value<'static>>,
    /// The failures, by attribute or path.
    pub errors: Map<'static>,
    /// What the answer takes, to be kept until it was sent.
    pub memory: AnswerMemory,
}

/// Answers a query.
///
/// # Errors
/// If a bound was reached.
pub fn run(
    graph: &Graph,
    world: &dyn World,
    level: &Level,
    entity: Map<'static>,
    outcomes: Outcomes,
) -> Result<Answered, Stop> {
    let deadline = Instant::now().checked_add(Duration::from_millis(QUERY_MILLIS));
    run_within(Bounds { values: MAX_QUERY_VALUES, deadline }, graph, world, level, entity, outcomes)
}

/// Answers a query within bounds.
///
/// # Errors
/// If a bound was reached.
pub fn run_within(
    bounds: Bounds,
    graph: &Graph,
    world: &dyn World,
    level: &Level,
    entity: Map<'static>,
    outcomes: Outcomes,
) -> Result<Answered, Stop> {
    let mut run = RunningQuery {
        graph,
        world,
        root: entity.clone(),
        outcomes,
        missing: Vec::new(),
        errors: Map::new(),
        way: Vec::new(),
        demanding: Bits::default(),
        values: 0,
        ticks: 0,
        memory: AnswerMemory::default(),
        bounds,
    };
    let mut group = [Entity::known(graph, entity)];
    let whole = Via::Level(level);
    let result = run.level(level, whole, None, &mut group)?.pop().unwrap_or(Value::Nil);
    Ok(Answered { result, missing: run.missing, errors: run.errors, memory: run.memory })
}

impl RunningQuery<'_> {
    /// Answers a level for a group of entities, each with a map.
    fn level(&mut self, level: &Level, via: Via<'_>, left: Left, group: &mut [Entity]) -> Result<Row, Stop> {
        let mut results = vec![Value::Nil; group.len()];
        for (kind, same) in kinds(group, (0..group.len()).collect()) {
            let plan = self.graph.plan(&kind);
            let direct = self.graph.direct(level, &kind);
            let mut maps: Vec<Vec<[Value<'static>; 2]>> =
                same.iter().map(|_| Vec::with_capacity(level.asks.len())).collect();
            for (place, ask) in level.asks.iter().enumerate() {
                self.tick(same.len())?;
                if let Some(field) = direct.get(place).copied().flatten() {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(handle) = group.get(*at).and_then(|entity| entity.handle(field.handle)) {
                            let value = (field.read)(handle, field.place);
                            self.memory.take(&value)?;
                            map.push([ask.key.clone(), value]);
                        }
                    }
                    continue;
                }
                if let What::All = ask.what {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(entity) = group.get(*at) {
                            let all = everything(self.graph, entity);
                            all.iter().try_for_each(|[_, value]| self.memory.take(value))?;
                            map.extend(all);
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
        left: Left,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Column, Stop> {
        match what {
            What::Attribute { name, params, sub } => {
                let mut data = self.find(name, params.as_ref(), plan, group, which)?;
                match sub {
                    None => {
                        let column: Column = data.into_iter().map(|datum| datum.map(plain)).collect();
                        column.iter().flatten().try_for_each(|value| self.memory.take(value))?;
                        Ok(column)
                    }
                    Some(sub) => self.join(place, sub, key, via, left, &mut data),
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
                    let mut with: Vec<_> = below.iter().map(|one| one.with(self.graph, params)).collect();
                    self.level(level, via, None, &mut with)?
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
                let root = self.root.clone();
                let link = Some((name, params.as_ref()));
                self.apart(place, root, sub.as_ref(), key, link, which.len())
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
                        self.note_error(&Value::Symbol(name.clone()), why);
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
    ) -> Result<Column, Stop> {
        let demanding = std::mem::take(&mut self.demanding);
        let mut data = match link {
            Some((name, params)) => {
                let mut root = [Entity::known(self.graph, known)];
                let plan = root.first().map(|root| self.graph.plan(&root.known));
                match plan {
                    Some(plan) => self.find(name, params, &plan, &mut root, &[0])?,
                    None => Vec::new(),
                }
            }
            None => vec![Some(Datum::Value(Value::from(known)))],
        };
        let column = match sub {
            None => {
                let column: Column = data.into_iter().map(|datum| datum.map(plain)).collect();
                column.iter().flatten().try_for_each(|value| self.memory.take(value))?;
                column
            }
            Some(LevelSub::Again(_)) => vec![None],
            Some(sub @ LevelSub::Level(level)) => {
                self.join(place, sub, key, Via::Level(level), None, &mut data)?
            }
            Some(sub @ LevelSub::Union(branches)) => {
                self.join(place, sub, key, Via::Union(branches), None, &mut data)?
            }
        };
        self.demanding = demanding;
        let value = column.into_iter().next().flatten();
        // Each of the group gets a copy of its own.
        for copy in value.iter().cycle().take(times.saturating_sub(1)) {
            self.memory.take(copy)?;
        }
        Ok(vec![value; times])
    }

    /// Queries all entities that a group leads to at once, and puts each answer back in its place.
    fn join(
        &mut self,
        place: usize,
        sub: &LevelSub,
        key: &Value<'static>,
        via: Via<'_>,
        left: Left,
        data: &mut [Option<Datum>],
    ) -> Result<Column, Stop> {
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
            self.note_error(key, why);
            return Ok(vec![None; data.len()]);
        }
        // A list of handles with only field asks needs no bookkeeping.
        if let (Via::Level(level), [Some(Datum::Nodes(handles))]) = (via, &*data)
            && let Some(first) = handles.first()
        {
            let kind = Entity::of(self.graph, first.clone()).known;
            let direct = self.graph.direct(level, &kind);
            if let Some(fields) = direct.iter().copied().collect::<Option<Vec<Field>>>() {
                let mut rows = Vec::with_capacity(handles.len());
                for handle in handles {
                    self.tick(fields.len())?;
                    let mut entries = Vec::with_capacity(fields.len());
                    for (ask, field) in level.asks.iter().zip(&fields) {
                        let value = (field.read)(handle, field.place);
                        self.memory.take(&value)?;
                        entries.push([ask.key.clone(), value]);
                    }
                    rows.push(Value::from(map_of(entries, level.distinct)));
                }
                return Ok(vec![Some(Value::Vector(rows.into_boxed_slice()))]);
            }
        }
        let mut entities = Vec::new();
        let spans: Vec<Span> =
            data.iter_mut().map(|datum| spread(self.graph, datum, &mut entities)).collect();
        self.way.push(key.clone());
        let demanding = std::mem::take(&mut self.demanding);
        let found = match via {
            Via::Level(level) => self.level(level, via, left, &mut entities)?,
            Via::Union(branches) => self.union(branches, via, left, &mut entities)?,
        };
        self.demanding = demanding;
        self.way.pop();
        let mut found = found.into_iter();
        Ok(spans.into_iter().map(|span| span.gather(&mut found)).collect())
    }

    /// Queries each entity with the branch of an attribute that it has; an entity without one gets an empty
    /// answer.
    fn union(
        &mut self,
        branches: &[(Name, Level)],
        via: Via<'_>,
        left: Left,
        entities: &mut [Entity],
    ) -> Result<Row, Stop> {
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
