//! Explains a query as data: for each ask its resolvers in order, and the alternatives. Runs nothing. Below a
//! join, the explanation assumes the attributes that the resolver declares for its entities.

use crate::query::ast::{Element, Key, Query, Sub};
use crate::query::graph::Graph;
use crate::query::number::{Bits, ResolverId};
use crate::similar;
use crate::value::{Map, Value};

/// Explains a query for the given known attributes.
///
/// Each ask is a map with `:ask`, and one of `:steps` (symbols in the order in which they run),
/// `:alternatives`, `:known true` or `:unreachable true`. Below a join, `:join` holds the same for the
/// sub-query.
pub fn explain(graph: &Graph, query: &Query, entity: &Map<'static>) -> Value<'static> {
    let names =
        entity.iter().filter_map(|(key, _)| key.as_keyword().filter(|name| graph.attr(name).is_some()));
    level(graph, query, &bits(graph, names))
}

fn bits<'n>(graph: &Graph, names: impl Iterator<Item = &'n str>) -> Bits {
    let mut known = Bits::default();
    for attr in names.filter_map(|name| graph.any_attr(name)) {
        known.add(attr.place());
    }
    known
}

fn level(graph: &Graph, query: &Query, known: &Bits) -> Value<'static> {
    Value::vector(query.asks.iter().map(|ask| Value::from(one(graph, ask, known))))
}

fn one(graph: &Graph, ask: &Element, known: &Bits) -> Map<'static> {
    let mut map = Map::new();
    let (key, sub) = match ask {
        Element::All => {
            map.put("ask", Value::symbol("*"));
            return map;
        }
        Element::Mutation { name, .. } => {
            map.put("ask", Value::Symbol(name.clone()));
            let there = graph.mutations().iter().find(|mutation| mutation.name == name.as_str());
            match there {
                Some(mutation) => map.put("op", mutation.op.spec().name),
                None => map.put("unreachable", true),
            };
            return map;
        }
        Element::Property { key, .. } => (key, None),
        Element::Join { key, sub, .. } => (key, Some(sub)),
    };
    map.put("ask", key.result_key());
    let name = key.attribute();
    let below = match key {
        Key::Ident(name, _) => {
            map.put("known", true);
            bits(graph, std::iter::once(name.as_str()))
        }
        Key::Attribute(name) if name.starts_with(">/") => {
            map.put("known", true);
            *known
        }
        Key::Attribute(_) | Key::Link(_) => {
            let root = Bits::default();
            let from = if matches!(key, Key::Link(_)) { &root } else { known };
            steps(graph, name, from, &mut map)
        }
    };
    match sub {
        Some(Sub::Query(query)) => {
            map.put("join", level(graph, query, &below));
        }
        Some(Sub::Union(branches)) => {
            let branch = branches.iter().map(|(name, query)| {
                let mut known = below;
                if let Some(attr) = graph.attr(name) {
                    known.add(attr.place());
                }
                (Value::Keyword(name.clone()), level(graph, query, &known))
            });
            map.put("union", Value::map(branch));
        }
        Some(Sub::Recursion(levels)) => {
            map.put("recursion", levels.map_or(Value::symbol("..."), Value::from));
        }
        None => {}
    }
    map
}

/// Records how an attribute is found, and returns the known attributes of the entities that it leads to.
fn steps(graph: &Graph, name: &str, known: &Bits, map: &mut Map<'static>) -> Bits {
    let Some(attr) = graph.attr(name) else {
        map.put("unreachable", true);
        map.put("nearest", Value::vector(nearest(graph, name).into_iter().map(Value::keyword)));
        return Bits::default();
    };
    if known.has(attr.place()) {
        map.put("known", true);
        return Bits::default();
    }
    let plan = graph.plan(known);
    let ways = plan.ways(attr);
    let symbol = |id: &ResolverId| Some(Value::symbol(graph.resolver(*id)?.spec.name));
    let Some(first) = ways.first() else {
        map.put("unreachable", true);
        let needs = graph.providers(attr).iter().filter_map(|id| graph.resolver(*id));
        let needs = needs.flat_map(|node| node.input.iter().filter(|input| input.required));
        map.put("needs", Value::vector(needs.map(|input| Value::keyword(input.name))));
        return Bits::default();
    };
    map.put("steps", Value::vector(graph.order(known, attr).iter().filter_map(symbol)));
    if ways.len() > 1 {
        map.put("alternatives", Value::vector(ways.iter().skip(1).filter_map(symbol)));
    }
    let output = graph.resolver(*first).into_iter().flat_map(|node| node.spec.output);
    let sub = output.filter(|output| output.name == name).flat_map(|output| output.sub);
    bits(graph, sub.map(|known| known.name))
}

/// The existing names that are most similar to an unknown one. The last part of a name counts.
fn nearest(graph: &Graph, name: &str) -> Vec<&'static str> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    similar::nearest(&last(name), 5, graph.attributes().map(|(_, known, _)| (last(known), known)))
}
