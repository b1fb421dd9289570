//! The attributes and mutations, one file per namespace.
//!
//! A file declares its attributes, with descriptions, and the resolvers that provide them. To add a
//! namespace, write its file and add it to [`PARTS`]; the generated test asks for each attribute on a live
//! session.

use std::sync::LazyLock;

use crate::query::graph::{Answer, Graph, Namespace, Output};
use crate::value::{Map, Value};

mod catalogue;
mod config;
mod connection;
mod context;
mod entry;
mod git;
mod interaction;
mod introspection;
mod job;
mod memory;
mod message;
mod model;
mod mutations;
mod process;
mod queue;
pub mod session;
mod session_list;
mod stage;
mod store;
mod tool;
mod turn;
mod ui;
mod workflow;

/// All parts of the graph.
const PARTS: &[&Namespace] = &[
    &session::PART,
    &session_list::PART,
    &message::PART,
    &entry::PART,
    &turn::PART,
    &stage::PART,
    &tool::PART,
    &queue::PART,
    &interaction::PART,
    &model::PART,
    &job::PART,
    &ui::PART,
    &workflow::PART,
    &memory::PART,
    &git::PART,
    &config::PART,
    &connection::PART,
    &store::PART,
    &context::PART,
    &catalogue::PART,
    &process::PART,
    &introspection::PART,
    &mutations::PART,
];

/// The graph of this program, built on first use.
pub fn graph() -> &'static Graph {
    static GRAPH: LazyLock<Graph> = LazyLock::new(|| match Graph::new(PARTS) {
        Ok(graph) => graph,
        Err(error) => {
            // A test builds the same graph, so this cannot reach a user.
            tracing::error!(%error, "the graph's declarations are wrong");
            Graph::empty()
        }
    });
    &GRAPH
}

/// A plain output.
const fn out(name: &'static str) -> Output {
    Output { name, sub: &[] }
}

/// An output that leads to entities.
const fn join(name: &'static str, sub: &'static [&'static str]) -> Output {
    Output { name, sub }
}

/// The names of a table of attributes and keys.
const fn names<const N: usize>(table: &[(&'static str, &'static str)]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut rest: &[(&str, &str)] = table;
    let mut left: &mut [&'static str] = &mut names;
    while let ([(name, _), others @ ..], [place, places @ ..]) = (rest, left) {
        *place = *name;
        rest = others;
        left = places;
    }
    names
}

/// The names of outputs.
const fn output_names<const N: usize>(outputs: &[Output]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut rest: &[Output] = outputs;
    let mut left: &mut [&'static str] = &mut names;
    while let ([output, others @ ..], [place, places @ ..]) = (rest, left) {
        *place = output.name;
        rest = others;
        left = places;
    }
    names
}

/// An entity from a map of the session API: each attribute from its key, nil if there is none.
fn picked(from: &Value<'static>, table: &[(&'static str, &'static str)]) -> Map<'static> {
    table.iter().map(|(name, key)| (Value::keyword(*name), Value::from(from.get(key).cloned()))).collect()
}

/// A resolver's answer from an entity: the requested attributes that it has.
fn answers(entity: Map<'static>, names: &[&'static str]) -> Answer {
    names.iter().filter_map(|name| Some((*name, entity.get_keyword(name)?.clone().into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::PARTS;
    use crate::query::graph::Graph;

    #[test]
    fn the_declarations_make_a_graph() {
        let graph = Graph::new(PARTS).unwrap();
        for (attr, name, doc) in graph.attributes() {
            assert!(doc.ends_with('.'), "{name}: {doc}");
            let nested = graph
                .resolvers()
                .any(|(_, node)| node.spec.output.iter().any(|output| output.sub.contains(&name)));
            assert!(nested || !graph.providers(attr).is_empty(), "{name} is given by no resolver");
        }
    }
}
