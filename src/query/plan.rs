//! Plans: the ways from known attributes to everything reachable.
//!
//! A plan belongs to a set of known attributes, not to a query. For each attribute it lists the resolvers
//! that can provide it, cheapest first; the others are alternatives if that one finds nothing. An unreachable
//! attribute has no resolver and is never tried.

use crate::query::graph::{Attr, Bits, Cost, Graph, ResolverId};

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
    /// A plan for `known`.
    pub fn new(graph: &Graph, known: &Bits) -> Self {
        let attributes = known_costs(graph, known);
        let ways = (0u16..).map(Attr).take(attributes.len()).map(|attr| {
            let mut ways: Vec<_> = graph
                .providers(attr)
                .iter()
                .filter_map(|id| Some((resolver_cost(graph, *id, &attributes)?, *id)))
                .collect();
            ways.sort();
            ways.into_iter().map(|(_, id)| id).collect()
        });
        Self { ways: ways.collect() }
    }

    /// The resolvers that can provide an attribute, cheapest first.
    pub fn ways(&self, attr: Attr) -> &[ResolverId] {
        self.ways.get(attr.place()).map(|ways| &**ways).unwrap_or_default()
    }

    /// The resolvers on the cheapest way to an attribute, in the order in which they run.
    pub fn steps(&self, graph: &Graph, known: &Bits, attr: Attr) -> Vec<ResolverId> {
        let mut steps = Vec::new();
        let mut seen = *known;
        self.collect(graph, attr, &mut seen, &mut steps);
        steps
    }

    fn collect(&self, graph: &Graph, attr: Attr, seen: &mut Bits, steps: &mut Vec<ResolverId>) {
        if !seen.add(attr.place()) {
            return;
        }
        let Some((id, node)) = self.ways(attr).first().and_then(|id| Some((*id, graph.resolver(*id)?)))
        else {
            return;
        };
        for input in node.input.iter().filter(|input| input.required) {
            self.collect(graph, input.attr, seen, steps);
        }
        if !steps.contains(&id) {
            steps.push(id);
        }
    }
}

/// The cost of each attribute from `known`; `None` if it is unreachable. Costs only fall, and each round
/// settles at least one resolver, so this ends.
fn known_costs(graph: &Graph, known: &Bits) -> Vec<Option<u32>> {
    let mut costs: Vec<Option<u32>> = Vec::new();
    while let Some(attr) =
        u16::try_from(costs.len()).ok().map(Attr).filter(|attr| !graph.name(*attr).is_empty())
    {
        costs.push(known.has(attr.place()).then_some(0));
    }
    loop {
        let mut changed = false;
        for (id, node) in graph.resolvers() {
            let Some(cost) = resolver_cost(graph, id, &costs) else { continue };
            for attr in &node.output {
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

/// The cost of one step and all its inputs.
fn resolver_cost(graph: &Graph, id: ResolverId, costs: &[Option<u32>]) -> Option<u32> {
    let node = graph.resolver(id)?;
    let own: u32 = match node.spec.cost {
        Cost::Ready => 1,
        Cost::Slow => SLOW,
        Cost::Seed => SEED,
    };
    node.input.iter().filter(|input| input.required).try_fold(own, |sum, input| {
        Some(sum.saturating_add(costs.get(input.attr.place()).copied().flatten()?))
    })
}
