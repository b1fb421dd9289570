//! The attributes and mutations, one file per namespace.
//!
//! A file declares resolvers, and for each attribute that they provide its description and, in a table, how to
//! read it from the facts. To add a namespace, write its file and add it to [`PARTS`]; the generated test asks
//! for each attribute on a live session.

use std::sync::LazyLock;

use crate::query::graph::{Graph, Resolver};

mod agent;
mod catalogue;
mod config;
mod connection;
mod context;
mod control;
mod entry;
mod git;
mod interaction;
mod introspection;
mod job;
mod mcp;
mod memory;
mod message;
mod model;
mod mutations;
mod process;
mod queue;
mod realm;
mod session;
mod session_list;
mod stage;
mod store;
mod telemetry;
mod tool;
mod turn;
mod ui;
mod workflow;

/// All parts of the graph.
const PARTS: &[&[Resolver]] = &[
    session::PART,
    session_list::PART,
    message::PART,
    entry::PART,
    turn::PART,
    stage::PART,
    tool::PART,
    queue::PART,
    interaction::PART,
    model::PART,
    job::PART,
    ui::PART,
    workflow::PART,
    agent::PART,
    mcp::PART,
    memory::PART,
    realm::PART,
    git::PART,
    config::PART,
    connection::PART,
    store::PART,
    context::PART,
    catalogue::PART,
    control::PART,
    process::PART,
    telemetry::PART,
    introspection::PART,
];

/// The graph of this program, built on first use.
pub fn graph() -> &'static Graph {
    static GRAPH: LazyLock<Graph> = LazyLock::new(|| match Graph::new(PARTS, mutations::MUTATIONS) {
        Ok(graph) => graph,
        Err(error) => {
            // A test builds the same graph, so this cannot reach a user.
            tracing::error!(%error, "the graph's declarations are wrong");
            Graph::default()
        }
    });
    &GRAPH
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::PARTS;
    use crate::query::graph::{Graph, Output};

    #[test]
    fn the_declarations_make_a_graph() {
        let graph = Graph::new(PARTS, &[]).unwrap();
        for (attr, name, doc) in graph.attributes() {
            assert!(doc.ends_with('.'), "{name}: {doc}");
            let nested = graph.resolvers().any(|(_, node)| {
                node.spec.output.iter().any(|output| output.sub.iter().any(|s| s.name == name))
            });
            assert!(nested || !graph.providers(attr).is_empty(), "{name} is given by no resolver");
        }
        let distinct = |outputs: &[Output]| {
            let mut names = HashSet::new();
            outputs.iter().all(|output| names.insert(output.name))
        };
        for (_, node) in graph.resolvers() {
            assert!(distinct(node.spec.output), "{}", node.spec.name);
            assert!(node.spec.output.iter().all(|output| distinct(output.sub)), "{}", node.spec.name);
        }
    }
}
