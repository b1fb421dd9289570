//! Plans: the ways from known attributes to everything reachable.
//!
//! A plan belongs to a set of known attributes, not to a query. For each attribute it lists the resolvers
//! that can provide it, cheapest first; the others are alternatives if that one finds nothing. An unreachable
//! attribute has no resolver and is never tried. Knows numbers only.

use crate::query::number::{Attr, Bits, ResolverId};

/// How much a planner should avoid a resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Reads data in memory.
    Ready,
    /// Answers for the query's session, whatever the entity is. Used only if the entity itself leads nowhere.
    Seed,
    /// Reads the disk or asks the engine of a realm. Such a query does not run on the connection's thread.
    Slow,
}

/// A resolver, as the planner sees it. Its number is its place in the list.
#[derive(Debug)]
pub struct PlannedResolver {
    /// Its own cost.
    pub cost: Cost,
    /// The attributes that it cannot run without.
    pub needs: Vec<Attr>,
    /// The attributes that it provides.
    pub gives: Vec<Attr>,
}

/// See the module.
#[derive(Debug)]
pub struct Plan {
    ways: Vec<Box<[ResolverId]>>,
}

/// The cost of reading the disk, compared with one step.
const SLOW: u32 = 20;

/// The cost of leaving the entity: more than any way that starts from it.
const SEED: u32 = 1_000;

impl Plan {
    /// A plan for `known` among that many attributes.
    pub fn new(steps: &[PlannedResolver], attributes: usize, known: &Bits) -> Self {
        let costs = known_costs(steps, attributes, known);
        let mut ways = vec![Vec::new(); attributes];
        for (id, step) in (0..).map(ResolverId).zip(steps) {
            let Some(cost) = step.cost(&costs) else { continue };
            for attr in &step.gives {
                ways.get_mut(attr.place()).into_iter().for_each(|ways| ways.push((cost, id)));
            }
        }
        let sorted = |mut ways: Vec<(u32, ResolverId)>| {
            ways.sort();
            ways.into_iter().map(|(_, id)| id).collect()
        };
        Self { ways: ways.into_iter().map(sorted).collect() }
    }

    /// The resolvers that can provide an attribute, cheapest first.
    pub fn ways(&self, attr: Attr) -> &[ResolverId] {
        self.ways.get(attr.place()).map(|ways| &**ways).unwrap_or_default()
    }

    /// The resolvers on the cheapest way to an attribute, in the order in which they run.
    pub fn order(&self, steps: &[PlannedResolver], known: &Bits, attr: Attr) -> Vec<ResolverId> {
        let mut order = Vec::new();
        self.collect(steps, attr, &mut { *known }, &mut order);
        order
    }

    fn collect(&self, steps: &[PlannedResolver], attr: Attr, seen: &mut Bits, order: &mut Vec<ResolverId>) {
        if !seen.add(attr.place()) {
            return;
        }
        let Some(id) = self.ways(attr).first() else { return };
        for need in steps.get(id.place()).into_iter().flat_map(|step| &step.needs) {
            self.collect(steps, *need, seen, order);
        }
        if !order.contains(id) {
            order.push(*id);
        }
    }
}

/// The cost of each attribute from `known`; `None` if it is unreachable. Costs only fall, and each round
/// settles at least one resolver, so this ends.
fn known_costs(steps: &[PlannedResolver], attributes: usize, known: &Bits) -> Vec<Option<u32>> {
    let mut costs: Vec<_> = (0..attributes).map(|place| known.has(place).then_some(0)).collect();
    loop {
        let mut changed = false;
        for step in steps {
            let Some(cost) = step.cost(&costs) else { continue };
            for attr in &step.gives {
                if let Some(old) = costs.get_mut(attr.place())
                    && old.is_none_or(|old| cost < old)
                {
                    *old = Some(cost);
                    changed = true;
                }
            }
        }
        if !changed {
            return costs;
        }
    }
}

impl PlannedResolver {
    /// The cost of this step and all its inputs, from the cost of each attribute.
    fn cost(&self, attributes: &[Option<u32>]) -> Option<u32> {
        let own: u32 = match self.cost {
            Cost::Ready => 1,
            Cost::Slow => SLOW,
            Cost::Seed => SEED,
        };
        self.needs.iter().try_fold(own, |sum, need| {
            Some(sum.saturating_add(attributes.get(need.place()).copied().flatten()?))
        })
    }
}
