//! Resolves an attribute by the first way that provides it, for all entities of a group together.
//!
//! Runs the resolvers of missing inputs first. Knows nothing of joins.

use super::entity::{Entity, pay};
use super::size;
use super::state::{RunningQuery, Via};
use crate::limits::QUERY_FIRST_BATCH;
use crate::meter::Exhausted;
use crate::query::compile::{Level, Name};
use crate::query::datum::Datum;
use crate::query::graph::{
    Env, Graph, InputValue, Inputs, Node, NodeInput, Resolve, ResolverOutput, ResolverResult,
};
use crate::query::number::{Attr, Bits, ResolverId};
use crate::query::plan::Plan;
use crate::query::world::ResolverFailure;
use crate::value::{Map, Value};

impl RunningQuery<'_> {
    /// The attribute of each entity, a record for each entity without it, and the bytes that were paid for the data.
    pub(super) fn find(
        &mut self,
        name: &Name,
        params: Option<&Map<'static>>,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<(Vec<Option<Datum>>, usize), Exhausted> {
        let mut paid = 0;
        let Some(attr) = name.attr else {
            let key = Value::Keyword(name.text.clone());
            let mut found = Vec::with_capacity(which.len());
            for at in which {
                let value = group.get(*at).and_then(|entity| entity.extra.get(&key));
                if let Some(value) = value {
                    let bytes = size::of_value(value);
                    pay(&mut self.meter, bytes)?;
                    paid = bytes.saturating_add(paid);
                }
                found.push(value.cloned().map(Datum::Value));
            }
            if found.iter().any(Option::is_none) {
                self.note_missing(&name.text)?;
            }
            return Ok((found, paid));
        };
        let found = match params {
            None => self.demand_all(attr, plan, group, which, &mut paid)?,
            Some(params) => self.find_with(attr, params, plan, group, which, &mut paid)?,
        };
        if found.iter().any(Option::is_none) {
            let lacking = which.iter().zip(&found).find(|(_, datum)| datum.is_none());
            let entity = lacking.and_then(|(at, _)| group.get(*at));
            match entity.and_then(|entity| self.cause(plan, entity, attr, &mut Bits::default())) {
                Some((resolver, failure)) => {
                    let mut why = Map::new();
                    why.put("resolver", Value::symbol(resolver));
                    why.put("message", failure.message);
                    self.note_error(&Value::Keyword(name.text.clone()), why)?;
                }
                None => self.note_missing(&name.text)?,
            }
        }
        Ok((found, paid))
    }

    /// Copies of an attribute of each entity, and the resolution of it first.
    fn demand_all(
        &mut self,
        attr: Attr,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
        paid: &mut usize,
    ) -> Result<Vec<Option<Datum>>, Exhausted> {
        self.demand(attr, plan, group, which)?;
        which.iter().map(|at| self.copy(group.get(*at).and_then(|entity| entity.get(attr)), paid)).collect()
    }

    /// Makes an attribute known to the entities that lack it, by the first way that provides it.
    pub(super) fn demand(
        &mut self,
        attr: Attr,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<(), Exhausted> {
        let lacks = |group: &[Entity], at: usize| group.get(at).is_some_and(|entity| !entity.has(attr));
        let mut lacking: Vec<usize> = which.iter().copied().filter(|at| lacks(group, *at)).collect();
        if lacking.is_empty() || !self.demanding.add(attr.place()) {
            return Ok(());
        }
        for id in plan.ways(attr) {
            let Some(node) = self.graph.resolver(*id) else { continue };
            self.meter.spend(lacking.len(), 0)?;
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

    /// Runs a resolver for the entities that have its inputs.
    fn resolve(
        &mut self,
        id: ResolverId,
        node: &Node,
        attr: Attr,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<(), Exhausted> {
        if let Resolve::Fields(read) = node.spec.run {
            let Some(handle) = node.input.first().map(|input| input.attr) else { return Ok(()) };
            let Some(place) = node.output.iter().position(|output| *output == attr) else { return Ok(()) };
            for at in which {
                if let Some(entity) = group.get_mut(*at)
                    && let Some(value) = entity.handle(handle).map(|handle| read(handle, place))
                {
                    let bytes = size::SLOT.saturating_add(size::of_value(&value));
                    pay(&mut self.meter, bytes)?;
                    entity.paid = entity.paid.saturating_add(bytes);
                    entity.put(attr, Datum::Value(value));
                }
            }
            return Ok(());
        }
        let answers = self.answers(id, node, &Map::new(), group, which)?;
        for (at, (answer, bytes)) in which.iter().zip(answers) {
            let Some(entity) = group.get_mut(*at) else { continue };
            entity.tried.add(id.place());
            entity.paid = entity.paid.saturating_add(bytes);
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

    /// A resolver's answer for each entity, each with the bytes that were paid for it.
    fn answers(
        &mut self,
        id: ResolverId,
        node: &Node,
        params: &Map<'static>,
        group: &mut [Entity],
        which: &[usize],
    ) -> Result<Vec<(ResolverResult, usize)>, Exhausted> {
        if which.is_empty() {
            return Ok(Vec::new());
        }
        self.meter.look()?;
        let before = self.meter.held();
        let mut nested = Vec::with_capacity(which.len());
        for at in which {
            let mut below = Vec::new();
            for input in &node.input {
                if let Some(level) = &input.nested {
                    let mut paid = 0;
                    let datum = group.get(*at).and_then(|entity| entity.get(input.attr));
                    let mut data = [self.copy(datum, &mut paid)?];
                    below.push((input.name, self.nested(level, &mut data)?));
                    self.meter.give_back(paid);
                }
            }
            nested.push(below);
        }
        let nested_bytes = self.meter.held().saturating_sub(before);
        let env = Env { world: self.world, graph: self.graph, params };
        let inputs: Vec<Inputs<'_>> = which
            .iter()
            .zip(nested)
            .filter_map(|(at, below)| group.get(*at).map(|entity| inputs_of(entity, &node.input, below)))
            .collect();
        let mut answers = Vec::with_capacity(inputs.len());
        let mut rest = inputs.as_slice();
        while !rest.is_empty() {
            let batch = self.batch(id, node, rest.len());
            let (now, later) = rest.split_at_checked(batch).unwrap_or((rest, &[]));
            rest = later;
            self.meter.look()?;
            let made = match node.spec.run {
                Resolve::One(run) => now.iter().map(|inputs| run(&env, inputs)).collect(),
                Resolve::Batch(run) => run(&env, now),
                Resolve::Session(run) => {
                    let answer = |inputs: &Inputs<'_>| match inputs.session() {
                        Some(session) => run(&env, session),
                        None => Ok(ResolverOutput::new()),
                    };
                    now.iter().map(answer).collect()
                }
                Resolve::Fields(_) => Vec::new(),
            };
            let mut sum = 0usize;
            for answer in made {
                let bytes = answer.as_ref().map(size::of_output).unwrap_or_default();
                pay(&mut self.meter, bytes)?;
                sum = sum.saturating_add(bytes);
                answers.push((answer, bytes));
            }
            if let Resolve::Batch(_) = node.spec.run {
                let one = sum.checked_div(now.len()).unwrap_or_default().max(1);
                self.answer_bytes.entry(id).and_modify(|most| *most = one.max(*most)).or_insert(one);
            }
        }
        drop(inputs);
        self.meter.give_back(nested_bytes);
        Ok(answers)
    }

    /// For how many of so many entities a resolver runs before its answers are paid: for one, unless it takes a list.
    /// Of a list, the first part tells how large an answer is, and so how many there is room for.
    fn batch(&self, id: ResolverId, node: &Node, most: usize) -> usize {
        match node.spec.run {
            Resolve::Batch(_) => match self.answer_bytes.get(&id) {
                None => most.min(QUERY_FIRST_BATCH),
                Some(bytes) => (self.meter.room() / 2).checked_div(*bytes).unwrap_or(most).clamp(1, most),
            },
            _ => 1,
        }
    }

    /// The value of a nested input: the answer of its query, without records of missing attributes.
    fn nested(&mut self, level: &Level, data: &mut [Option<Datum>]) -> Result<Value<'static>, Exhausted> {
        let (missing, errors) = (self.missing.len(), self.errors.clone());
        let sub = std::mem::take(&mut self.demanding);
        let found = self.below(Via::Level(level), None, data)?;
        self.demanding = sub;
        self.missing.truncate(missing);
        self.errors = errors;
        Ok(found.into_iter().next().flatten().unwrap_or(Value::Nil))
    }

    /// An attribute with params: its resolver runs for this ask alone.
    fn find_with(
        &mut self,
        attr: Attr,
        params: &Map<'static>,
        plan: &Plan,
        group: &mut [Entity],
        which: &[usize],
        paid: &mut usize,
    ) -> Result<Vec<Option<Datum>>, Exhausted> {
        let mut found: Vec<Option<Datum>> = vec![None; which.len()];
        for id in plan.ways(attr) {
            let Some(node) = self.graph.resolver(*id) else { continue };
            if matches!(node.spec.run, Resolve::Fields(_)) {
                // A field has no params; it stays as it is.
                return self.demand_all(attr, plan, group, which, paid);
            }
            self.meter.spend(which.len(), 0)?;
            let open = which.iter().zip(&found).filter(|(_, datum)| datum.is_none()).map(|(at, _)| *at);
            let mut ready: Vec<usize> = open.collect();
            for input in &node.input {
                self.demand(input.attr, plan, group, &ready)?;
            }
            ready.retain(|at| group.get(*at).is_some_and(|entity| can_run(entity, &node.input)));
            let answers = self.answers(*id, node, params, group, &ready)?;
            let name = self.graph.name(attr);
            // The ready ones are in the order of all.
            let mut places = which.iter().zip(&mut found);
            for (at, (answer, bytes)) in ready.iter().zip(answers) {
                *paid = paid.saturating_add(bytes);
                let place = places.find(|(one, _)| *one == at).map(|(_, place)| place);
                match answer {
                    Ok(answer) => {
                        let datum = answer.into_iter().find(|(output, _)| *output == name);
                        if let (Some((_, datum)), Some(place)) = (datum, place) {
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
        // The entity knew it from the start, like an ident's.
        for (at, place) in which.iter().zip(&mut found) {
            if place.is_none() {
                *place = self.copy(group.get(*at).and_then(|entity| entity.get(attr)), paid)?;
            }
        }
        Ok(found)
    }

    /// The failure that made an attribute unavailable for an entity, if there was one.
    fn cause(
        &self,
        plan: &Plan,
        entity: &Entity,
        attr: Attr,
        seen: &mut Bits,
    ) -> Option<(&'static str, ResolverFailure)> {
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
}

/// Whether the way to an attribute leaves the entity. Ways may form a cycle: known or already visited
/// attributes are not visited again.
pub(super) fn seeded(graph: &Graph, plan: &Plan, seen: &mut Bits, attr: Attr) -> bool {
    if !seen.add(attr.place()) {
        return false;
    }
    plan.ways(attr).first().and_then(|id| graph.resolver(*id)).is_some_and(|node| {
        let mut required = node.input.iter().filter(|input| input.required);
        node.input.is_empty() || required.any(|input| seeded(graph, plan, seen, input.attr))
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
    let plain = plain.filter_map(|input| Some((input.name, InputValue::Datum(entity.get(input.attr)?))));
    let nested = nested.into_iter().map(|(name, value)| (name, InputValue::Nested(value)));
    Inputs { values: plain.chain(nested).collect() }
}
