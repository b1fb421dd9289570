//! A query answered: asks of one level are answered for all its entities together.
//!
//! A list is one group: a batch resolver sees all of it, and a join asks once for all that its entities
//! lead to. What an entity is known by is kept beside it, so that a resolver runs at most once for it;
//! only an ask with params runs one again. What a resolver fails on costs its own attributes and is
//! noted; what nobody can give is noted as missing.

use std::time::{Duration, Instant};

use crate::limits::{MAX_QUERY_DEPTH, MAX_QUERY_VALUES, QUERY_FAILURES, QUERY_MILLIS};
use crate::query::compile::{Field, Level, LevelSub, Name, What};
use crate::query::graph::{
    Answer, Attr, Bits, Datum, Env, Failure, Given, Graph, Handle, Inputs, Node, NodeInput, ResolverId, Run,
};
use crate::query::plan::Plan;
use crate::query::world::World;
use crate::session::ApiError;
use crate::value::{Map, Text, Value};

/// What mutations came to, by the place of their ask in the query.
pub type Outcomes = Vec<(usize, Result<Map<'static>, ApiError>)>;

/// An answer, with what is not in it.
#[derive(Debug)]
pub struct Answered {
    /// The result.
    pub result: Value<'static>,
    /// What could not be resolved: an attribute, or below a join the way to it.
    pub missing: Vec<Value<'static>>,
    /// What failed, by attribute or way, with why.
    pub errors: Map<'static>,
}

/// A bound was reached; the text says which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The answer is too large.
    #[error("The answer holds more than {MAX_QUERY_VALUES} values; ask for less, or with :limit.")]
    TooLarge,
    /// The answer takes too long.
    #[error("The answer takes more than {QUERY_MILLIS} ms; ask for less.")]
    TooLong,
}

/// Answers a query.
///
/// # Errors
/// Where a bound was reached.
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

/// How much an answer may cost.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Values that may be gathered for it.
    pub values: usize,
    /// When it is given up; `None` for never.
    pub deadline: Option<Instant>,
}

/// Answers a query within bounds.
///
/// # Errors
/// Where a bound was reached.
pub fn run_within(
    bounds: Bounds,
    graph: &Graph,
    world: &dyn World,
    level: &Level,
    entity: Map<'static>,
    outcomes: Outcomes,
) -> Result<Answered, Stop> {
    let mut run = Running {
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
        bounds,
    };
    let mut group = [Entity::known(graph, entity)];
    let whole = Via::Level(level);
    let result = run.level(level, whole, None, &mut group)?.pop().unwrap_or(Value::Nil);
    Ok(Answered { result, missing: run.missing, errors: run.errors })
}

struct Running<'a> {
    graph: &'a Graph,
    world: &'a dyn World,
    root: Map<'static>,
    outcomes: Outcomes,
    missing: Vec<Value<'static>>,
    errors: Map<'static>,
    /// The joins above, outermost first.
    way: Vec<Value<'static>>,
    /// The attributes that are being found, so that a cycle of resolvers is cut.
    demanding: Bits,
    values: usize,
    ticks: u32,
    bounds: Bounds,
}

/// What is known of an entity.
#[derive(Default)]
struct Entity {
    known: Bits,
    slots: Vec<(Attr, Datum)>,
    /// Known by names that the graph does not have.
    extra: Map<'static>,
    /// The resolvers that ran.
    tried: Bits,
    failed: Vec<(ResolverId, Failure)>,
}

impl Entity {
    fn known(graph: &Graph, map: Map<'static>) -> Self {
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

    fn of(graph: &Graph, handle: Handle) -> Self {
        let mut entity = Self::default();
        if let Some(attr) = graph.any_attr(handle.attribute()) {
            entity.put(attr, Datum::Node(handle));
        }
        entity
    }

    fn has(&self, attr: Attr) -> bool {
        self.known.has(attr.place())
    }

    fn get(&self, attr: Attr) -> Option<&Datum> {
        self.slots.iter().find(|(at, _)| *at == attr).map(|(_, datum)| datum)
    }

    fn handle(&self, attr: Attr) -> Option<&Handle> {
        match self.get(attr) {
            Some(Datum::Node(handle)) => Some(handle),
            _ => None,
        }
    }

    fn put(&mut self, attr: Attr, datum: Datum) {
        if self.known.add(attr.place()) {
            self.slots.push((attr, datum));
        }
    }
}

/// The join that a level was entered by, for asks that go there again.
#[derive(Clone, Copy)]
enum Via<'l> {
    Level(&'l Level),
    Union(&'l [(Name, Level)]),
}

/// How far down an ask may still go again: its place in the level, and how many levels.
type Left = Option<(usize, u32)>;

/// What one ask came to, for each entity of the group.
type Column = Vec<Option<Value<'static>>>;

impl<'a> Running<'a> {
    fn tick(&mut self, values: usize) -> Result<(), Stop> {
        self.values = self.values.saturating_add(values);
        if self.values > self.bounds.values {
            return Err(Stop::TooLarge);
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(256)
            && self.bounds.deadline.is_some_and(|deadline| Instant::now() > deadline)
        {
            return Err(Stop::TooLong);
        }
        Ok(())
    }

    /// Answers a level for a group of entities, each with a map.
    fn level(
        &mut self,
        level: &Level,
        via: Via<'_>,
        left: Left,
        group: &mut [Entity],
    ) -> Result<Column2, Stop> {
        let mut results = vec![Value::Nil; group.len()];
        let mut open: Vec<usize> = (0..group.len()).collect();
        // Entities of one kind share a plan. In nearly every list there is one kind.
        while let Some(first) = open.first().and_then(|at| group.get(*at)) {
            let kind = first.known;
            let (same, others): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|at| group.get(**at).is_some_and(|entity| entity.known == kind));
            open = others;
            let plan = self.graph.plan(&kind);
            let direct = level.direct(self.graph, &kind);
            let mut maps: Vec<Vec<[Value<'static>; 2]>> =
                same.iter().map(|_| Vec::with_capacity(level.asks.len())).collect();
            for (place, ask) in level.asks.iter().enumerate() {
                self.tick(same.len())?;
                if let Some(field) = direct.get(place).copied().flatten() {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(handle) = group.get(*at).and_then(|entity| entity.handle(field.handle)) {
                            map.push([ask.key.clone(), (field.read)(handle, field.place)]);
                        }
                    }
                    continue;
                }
                if let What::All = ask.what {
                    for (map, at) in maps.iter_mut().zip(&same) {
                        if let Some(entity) = group.get(*at) {
                            map.extend(everything(self.graph, entity));
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
                        let column = data.into_iter().map(|datum| datum.map(plain));
                        Ok(column.collect())
                    }
                    Some(sub) => self.join(place, sub, key, via, left, &mut data),
                }
            }
            What::Placeholder { params, sub } => {
                let Some(level) = whole(sub) else { return Ok(vec![None; which.len()]) };
                let mut column = Vec::with_capacity(which.len());
                self.way.push(key.clone());
                for at in which {
                    let Some(entity) = group.get_mut(*at) else { continue };
                    // What is found below a placeholder is known above it, too, unless params change it.
                    let found = if params.is_empty() {
                        self.level(level, via, None, std::slice::from_mut(entity))?
                    } else {
                        let mut with = Entity::known(self.graph, params.clone());
                        for (attr, datum) in &entity.slots {
                            with.put(*attr, datum.clone());
                        }
                        self.level(level, via, None, std::slice::from_mut(&mut with))?
                    };
                    column.push(found.into_iter().next());
                }
                self.way.pop();
                Ok(column)
            }
            What::Ident { name, value, sub } => {
                let mut known = Map::new();
                known.insert(Value::Keyword(name.text.clone()), value.clone());
                self.apart(place, known, sub.as_ref(), key, None, which.len())
            }
            What::Link { name, sub } => {
                let root = self.root.clone();
                self.apart(place, root, sub.as_ref(), key, Some(name), which.len())
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

    /// Answers for an entity apart from the group, and gives the answer to each of it.
    fn apart(
        &mut self,
        place: usize,
        known: Map<'static>,
        sub: Option<&LevelSub>,
        key: &Value<'static>,
        link: Option<&Name>,
        times: usize,
    ) -> Result<Column, Stop> {
        let demanding = std::mem::take(&mut self.demanding);
        let mut data = match link {
            Some(name) => {
                let mut root = [Entity::known(self.graph, known)];
                let plan = root.first().map(|root| self.graph.plan(&root.known));
                match plan {
                    Some(plan) => self.find(name, None, &plan, &mut root, &[0])?,
                    None => Vec::new(),
                }
            }
            None => vec![Some(Datum::Value(Value::from(known)))],
        };
        let column = match sub {
            None => data.into_iter().map(|datum| datum.map(plain)).collect(),
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
        Ok(vec![value; times])
    }

    /// Asks all that a group leads to, together, and puts each answer back in its place.
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
        // A list of handles of which only fields are asked needs no bookkeeping.
        if let (Via::Level(level), [Some(Datum::Nodes(handles))]) = (via, &*data)
            && let Some(first) = handles.first()
        {
            let kind = Entity::of(self.graph, first.clone()).known;
            let direct = level.direct(self.graph, &kind);
            if let Some(fields) = direct.iter().copied().collect::<Option<Vec<Field>>>() {
                let mut rows = Vec::with_capacity(handles.len());
                for handle in handles {
                    self.tick(fields.len())?;
                    let entries = level.asks.iter().zip(&fields);
                    let entries =
                        entries.map(|(ask, field)| [ask.key.clone(), (field.read)(handle, field.place)]);
                    rows.push(Value::from(map_of(entries.collect(), level.distinct)));
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

    /// Each entity is asked by the branch whose attribute it is known by; one that fits none, nothing.
    fn union(
        &mut self,
        branches: &[(Name, Level)],
        via: Via<'_>,
        left: Left,
        entities: &mut [Entity],
    ) -> Result<Column2, Stop> {
        let mut results = vec![Value::from(Map::new()); entities.len()];
        let mut open: Vec<usize> = (0..entities.len()).collect();
        for (name, level) in branches {
            let Some(attr) = name.attr else { continue };
            // The attribute that tells the kind may have to be found first: a handle knows it.
            let kinds: Vec<Bits> = open.iter().filter_map(|at| entities.get(*at)).map(|e| e.known).collect();
            let mut mine = Vec::new();
            for (at, kind) in open.iter().zip(kinds) {
                let plan = self.graph.plan(&kind);
                if entities.get(*at).is_some_and(|entity| entity.has(attr)) {
                    mine.push(*at);
                } else if !plan.ways(attr).is_empty() && !seeded(self.graph, &plan, attr) {
                    self.demand(attr, &plan, entities, &[*at])?;
                    let tells = |entity: &Entity| {
                        entity.get(attr).is_some_and(|datum| !matches!(datum, Datum::Value(Value::Nil)))
                    };
                    if entities.get(*at).is_some_and(tells) {
                        mine.push(*at);
                    }
                }
            }
            open.retain(|at| !mine.contains(at));
            for at in mine {
                if let Some(entity) = entities.get_mut(at) {
                    let found = self.level(level, via, left, std::slice::from_mut(entity))?;
                    if let (Some(place), Some(value)) = (results.get_mut(at), found.into_iter().next()) {
                        *place = value;
                    }
                }
            }
        }
        Ok(results)
    }

    /// An attribute of each entity, and a note for each that has none.
    fn find(
        &mut self,
        name: &Name,
        params: Option<&Map<'static>>,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Vec<Option<Datum>>, Stop> {
        let Some(attr) = name.attr else {
            let key = Value::Keyword(name.text.clone());
            let known = |at: &usize| group.get(*at)?.extra.get(&key).cloned().map(Datum::Value);
            let found: Vec<_> = which.iter().map(known).collect();
            if found.iter().any(Option::is_none) {
                self.note_missing(&name.text);
            }
            return Ok(found);
        };
        let found: Vec<Option<Datum>> = match params {
            None => {
                self.demand(attr, plan, group, which)?;
                which.iter().map(|at| group.get(*at)?.get(attr).cloned()).collect()
            }
            Some(params) => self.find_with(attr, params, plan, group, which)?,
        };
        if found.iter().any(Option::is_none) {
            let lacking = which.iter().zip(&found).find(|(_, datum)| datum.is_none());
            let entity = lacking.and_then(|(at, _)| group.get(*at));
            match entity.and_then(|entity| self.cause(plan, entity, attr, &mut Bits::default())) {
                Some((resolver, failure)) => {
                    let mut why = Map::new();
                    why.put("resolver", Value::symbol(resolver));
                    why.put("message", failure.message);
                    self.note_error(&Value::Keyword(name.text.clone()), why);
                }
                None => self.note_missing(&name.text),
            }
        }
        Ok(found)
    }

    /// Makes an attribute known to the entities that do not know it, by the first way that gives it.
    fn demand(&mut self, attr: Attr, plan: &Plan, group: &mut [Entity], which: &[usize]) -> Result<(), Stop> {
        let lacks = |group: &[Entity], at: usize| group.get(at).is_some_and(|entity| !entity.has(attr));
        let mut lacking: Vec<usize> = which.iter().copied().filter(|at| lacks(group, *at)).collect();
        if lacking.is_empty() || !self.demanding.add(attr.place()) {
            return Ok(());
        }
        for id in plan.ways(attr) {
            let Some(node) = self.graph.resolver(*id) else { continue };
            let untried = |at: &usize| group.get(*at).is_some_and(|entity| !entity.tried.has(id.place()));
            let mut ready: Vec<usize> = lacking.iter().copied().filter(untried).collect();
            if ready.is_empty() {
                continue;
            }
            for input in &node.input {
                self.demand(input.attr, plan, group, &ready)?;
            }
            ready.retain(|at| group.get(*at).is_some_and(|entity| can_run(entity, &node.input)));
            self.resolve(*id, node, attr, group, &ready)?;
            lacking.retain(|at| lacks(group, *at));
            if lacking.is_empty() {
                break;
            }
        }
        self.demanding.remove(attr.place());
        Ok(())
    }

    /// Runs a resolver for entities that have what it needs.
    fn resolve(
        &mut self,
        id: ResolverId,
        node: &Node,
        attr: Attr,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<(), Stop> {
        if let Run::Fields(read) = node.spec.run {
            let Some(handle) = node.input.first().map(|input| input.attr) else { return Ok(()) };
            let Some(place) = node.output.iter().position(|output| *output == attr) else { return Ok(()) };
            for at in which {
                self.tick(1)?;
                if let Some(entity) = group.get_mut(*at)
                    && let Some(value) = entity.handle(handle).map(|handle| read(handle, place))
                {
                    entity.put(attr, Datum::Value(value));
                }
            }
            return Ok(());
        }
        let answers = self.answers(node, &Map::new(), group, which)?;
        for (at, answer) in which.iter().zip(answers) {
            let Some(entity) = group.get_mut(*at) else { continue };
            entity.tried.add(id.place());
            match answer {
                Ok(answer) => {
                    for (name, datum) in answer {
                        let output = node.spec.output.iter().position(|output| output.name == name);
                        if let Some(attr) = output.and_then(|at| node.output.get(at)) {
                            entity.put(*attr, datum);
                        }
                    }
                }
                Err(failure) => entity.failed.push((id, failure)),
            }
        }
        Ok(())
    }

    /// What a resolver answers for each entity.
    fn answers(
        &mut self,
        node: &Node,
        params: &Map<'static>,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Vec<Result<Answer, Failure>>, Stop> {
        let mut nested = Vec::with_capacity(which.len());
        for at in which {
            self.tick(1)?;
            let mut below = Vec::new();
            for input in &node.input {
                if let Some(level) = &input.nested {
                    let mut data = [group.get(*at).and_then(|entity| entity.get(input.attr)).cloned()];
                    below.push((input.name, self.nested(level, &mut data)?));
                }
            }
            nested.push(below);
        }
        let env = Env { world: self.world, graph: self.graph, params };
        let inputs: Vec<Inputs<'_>> = which
            .iter()
            .zip(nested)
            .filter_map(|(at, below)| group.get(*at).map(|entity| inputs_of(entity, &node.input, below)))
            .collect();
        Ok(match node.spec.run {
            Run::One(run) => inputs.iter().map(|inputs| run(&env, inputs)).collect(),
            Run::Batch(run) => run(&env, &inputs),
            Run::Fields(_) => Vec::new(),
        })
    }

    /// What a nested input holds: the answer of its query, without notes of what is missing there.
    fn nested(&mut self, level: &Level, data: &mut [Option<Datum>]) -> Result<Value<'static>, Stop> {
        let (missing, errors) = (self.missing.len(), self.errors.clone());
        let sub = std::mem::take(&mut self.demanding);
        let mut entities = Vec::new();
        let spans: Vec<Span> =
            data.iter_mut().map(|datum| spread(self.graph, datum, &mut entities)).collect();
        let found = self.level(level, Via::Level(level), None, &mut entities)?;
        self.demanding = sub;
        self.missing.truncate(missing);
        self.errors = errors;
        let mut found = found.into_iter();
        let value = spans.into_iter().next().and_then(|span| span.gather(&mut found));
        Ok(value.unwrap_or(Value::Nil))
    }

    /// An attribute asked with params: its resolver runs for this ask alone.
    fn find_with(
        &mut self,
        attr: Attr,
        params: &Map<'static>,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Vec<Option<Datum>>, Stop> {
        let mut found: Vec<Option<Datum>> = vec![None; which.len()];
        for id in plan.ways(attr) {
            let Some(node) = self.graph.resolver(*id) else { continue };
            if matches!(node.spec.run, Run::Fields(_)) {
                // A field has no params; it is as it is.
                self.demand(attr, plan, group, which)?;
                return Ok(which.iter().map(|at| group.get(*at)?.get(attr).cloned()).collect());
            }
            let open = which.iter().zip(&found).filter(|(_, datum)| datum.is_none()).map(|(at, _)| *at);
            let mut ready: Vec<usize> = open.collect();
            for input in &node.input {
                self.demand(input.attr, plan, group, &ready)?;
            }
            ready.retain(|at| group.get(*at).is_some_and(|entity| can_run(entity, &node.input)));
            let answers = self.answers(node, params, group, &ready)?;
            for (at, answer) in ready.iter().zip(answers) {
                match answer {
                    Ok(answer) => {
                        let name = self.graph.name(attr);
                        let datum = answer.into_iter().find(|(output, _)| *output == name);
                        let place = which.iter().position(|which| which == at);
                        if let (Some((_, datum)), Some(place)) =
                            (datum, place.and_then(|at| found.get_mut(at)))
                        {
                            *place = Some(datum);
                        }
                    }
                    Err(failure) => {
                        if let Some(entity) = group.get_mut(*at) {
                            entity.failed.push((*id, failure));
                        }
                    }
                }
            }
        }
        // The entity knew it from the start, as an ident's does.
        for (at, place) in which.iter().zip(&mut found) {
            if place.is_none() {
                *place = group.get(*at).and_then(|entity| entity.get(attr)).cloned();
            }
        }
        Ok(found)
    }

    /// The failure that kept an attribute from an entity, if it was one.
    fn cause(
        &self,
        plan: &Plan,
        entity: &Entity,
        attr: Attr,
        seen: &mut Bits,
    ) -> Option<(&'static str, Failure)> {
        if !seen.add(attr.place()) {
            return None;
        }
        plan.ways(attr).iter().find_map(|id| {
            let node = self.graph.resolver(*id)?;
            let own = entity.failed.iter().rev().find(|(failed, _)| failed == id);
            own.map(|(_, failure)| (node.spec.name, failure.clone())).or_else(|| {
                let needed = node.input.iter().filter(|input| input.required);
                needed.filter_map(|input| self.cause(plan, entity, input.attr, seen)).next()
            })
        })
    }

    fn here(&self, last: &Value<'static>) -> Value<'static> {
        if self.way.is_empty() {
            return last.clone();
        }
        Value::vector(self.way.iter().chain([last]).cloned())
    }

    fn note_missing(&mut self, name: &Text<'static>) {
        let way = self.here(&Value::Keyword(name.clone()));
        if self.missing.len() < QUERY_FAILURES && !self.missing.contains(&way) {
            self.missing.push(way);
        }
    }

    fn note_error(&mut self, key: &Value<'static>, why: Map<'static>) {
        if self.errors.len() < QUERY_FAILURES {
            self.errors.insert(self.here(key), Value::from(why));
        }
    }
}

type Column2 = Vec<Value<'static>>;

fn whole(sub: &LevelSub) -> Option<&Level> {
    if let LevelSub::Level(level) = sub { Some(level) } else { None }
}

/// Whether the way to an attribute leaves the entity.
fn seeded(graph: &Graph, plan: &Plan, attr: Attr) -> bool {
    plan.ways(attr).first().and_then(|id| graph.resolver(*id)).is_some_and(|node| {
        node.input.is_empty() || node.input.iter().any(|input| seeded(graph, plan, input.attr))
    })
}

fn can_run(entity: &Entity, input: &[NodeInput]) -> bool {
    let nil = |attr| matches!(entity.get(attr), Some(Datum::Value(Value::Nil)));
    input.iter().all(|input| !input.required || (entity.has(input.attr) && !nil(input.attr)))
}

fn inputs_of<'e>(
    entity: &'e Entity,
    input: &[NodeInput],
    nested: Vec<(&'static str, Value<'static>)>,
) -> Inputs<'e> {
    let plain = input.iter().filter(|input| input.nested.is_none());
    let plain = plain.filter_map(|input| Some((input.name, Given::Datum(entity.get(input.attr)?))));
    let nested = nested.into_iter().map(|(name, value)| (name, Given::Nested(value)));
    Inputs { values: plain.chain(nested).collect() }
}

/// Everything that an entity is known by, and the fields of its handles.
fn everything(graph: &Graph, entity: &Entity) -> Vec<[Value<'static>; 2]> {
    let mut all = Vec::new();
    for (attr, datum) in &entity.slots {
        match datum {
            Datum::Node(handle) if graph.name(*attr) == handle.attribute() => {
                for (_, node) in graph.resolvers() {
                    let (Run::Fields(read), [input]) = (node.spec.run, node.input.as_slice()) else {
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

fn map_of(entries: Vec<[Value<'static>; 2]>, distinct: bool) -> Map<'static> {
    if distinct {
        // No two keys are equal, so this cannot fail.
        return Map::distinct(entries.into_iter().flatten().collect()).unwrap_or_default();
    }
    entries.into_iter().map(|[key, value]| (key, value)).collect()
}

fn plain(datum: Datum) -> Value<'static> {
    match datum {
        Datum::Value(value) => value,
        Datum::Node(handle) => handle.to_value(),
        Datum::Nodes(handles) => handles.iter().map(Handle::to_value).collect::<Vec<_>>().into(),
    }
}

/// How the entities of one datum lie among those of the group.
enum Span {
    None,
    Value(Value<'static>),
    One,
    Many(usize),
}

/// Adds the entities that a datum leads to. What leads to none stays as it is.
fn spread(graph: &Graph, datum: &mut Option<Datum>, entities: &mut Vec<Entity>) -> Span {
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
    fn gather(self, found: &mut impl Iterator<Item = Value<'static>>) -> Option<Value<'static>> {
        match self {
            Self::None => None,
            Self::Value(value) => Some(value),
            Self::One => found.next(),
            Self::Many(count) => Some(Value::Vector(found.take(count).collect())),
        }
    }
}
