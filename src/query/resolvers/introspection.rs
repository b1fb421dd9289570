//! `:psi.graph/*`: the graph describes itself.
//!
//! A capability is a namespace of attributes. A node is a resolver, a mutation or a capability. An edge leads
//! from an operation to the capability of one of its outputs and carries that attribute.

use std::collections::{BTreeMap, BTreeSet};

use crate::query::ast::{Element, Key, Query, Sub};
use crate::query::graph::{Env, Graph, Input, Inputs, Resolve, Resolver, ResolverResult};
use crate::query::number::{Attr, Bits};
use crate::query::table::{join, out, rest, table};
use crate::value::{Map, Text, Value};

/// An attribute of the graph.
struct Described {
    name: &'static str,
    doc: &'static str,
    example: Option<String>,
    resolvers: Value<'static>,
}

table! {
    ATTRIBUTE of Described {
        "psi.attribute/name" "The attribute." => |attribute| Value::keyword(attribute.name);
        "psi.attribute/doc" "Its description." => |attribute| attribute.doc;
        "psi.attribute/example" "A query for it, as text." => |attribute| attribute.example.clone();
        "psi.attribute/resolvers" "The resolvers that provide it." => |attribute| attribute.resolvers.clone();
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.graph/counts",
        &[],
        &[
            out("psi.graph/resolver-count", "The number of resolvers."),
            out("psi.graph/mutation-count", "The number of mutations."),
            out("psi.graph/resolver-syms", "The resolvers' symbols."),
            out("psi.graph/mutation-syms", "The mutations' symbols."),
            out("psi.graph/env-built", "Whether the graph is ready; true in every answer."),
        ],
        counts,
    ),
    Resolver::one(
        "psi.graph/roots",
        &[],
        &[
            out("psi.graph/root-seeds", "The outputs of resolvers without inputs: the start of every way."),
            out("psi.graph/root-queryable-attrs", "The attributes that need no join."),
        ],
        roots,
    ),
    Resolver::one(
        "psi.graph/structure",
        &[],
        &[
            out("psi.graph/nodes", "Resolvers, mutations and capabilities: {:id :type …}."),
            out(
                "psi.graph/edges",
                "From each operation to the capabilities of its outputs: {:from :to :attribute}.",
            ),
            out(
                "psi.graph/capabilities",
                "The namespaces of attributes, each with its attributes and operations.",
            ),
            out(
                "psi.graph/domain-coverage",
                "The number of attributes, resolvers and mutations per domain; a domain is a namespace up to its first dot, or a part after it.",
            ),
        ],
        structure,
    ),
    Resolver::one(
        "psi.graph/attributes",
        &[],
        &[join(
            "psi.graph/attributes",
            "All attributes, each with a description and an example.",
            ATTRIBUTE.outputs,
        )],
        |env, _| ATTRIBUTE.list("psi.graph/attributes", &described(env.graph)),
    ),
    Resolver::batch(
        "psi.attribute/by-name",
        &[Input::Required("psi.attribute/name")],
        rest(ATTRIBUTE.outputs),
        |env, inputs| ATTRIBUTE.lookup(inputs, &described(env.graph)),
    ),
];

fn keywords<'n>(names: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::vector(names.into_iter().map(|name| Value::keyword(name.to_owned())))
}

fn symbols<'n>(names: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::vector(names.into_iter().map(|name| Value::symbol(name.to_owned())))
}

fn counts(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let resolvers: Vec<_> = env.graph.resolvers().map(|(_, node)| node.spec.name).collect();
    let mutations: Vec<_> = env.graph.mutations().iter().map(|mutation| mutation.name).collect();
    Ok(vec![
        ("psi.graph/resolver-count", resolvers.len().into()),
        ("psi.graph/mutation-count", mutations.len().into()),
        ("psi.graph/resolver-syms", symbols(resolvers).into()),
        ("psi.graph/mutation-syms", symbols(mutations).into()),
        ("psi.graph/env-built", true.into()),
    ])
}

fn roots(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let plan = env.graph.plan(&Bits::default());
    let seeds = env.graph.resolvers().filter(|(_, node)| node.input.is_empty());
    let seeds: BTreeSet<_> = seeds.flat_map(|(_, node)| node.spec.output).map(|output| output.name).collect();
    let reached = env.graph.attributes().filter(|(attr, ..)| !plan.ways(*attr).is_empty());
    Ok(vec![
        ("psi.graph/root-seeds", keywords(seeds).into()),
        ("psi.graph/root-queryable-attrs", keywords(reached.map(|(_, name, _)| name)).into()),
    ])
}

fn namespace(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// `psi.agent-session` belongs to `agent-session`, `psi.tool-lifecycle.summary` to `tool-lifecycle`, `git.repo` to `git`.
fn domain(namespace: &str) -> &str {
    let inner = namespace.strip_prefix("psi.").unwrap_or(namespace);
    inner.split('.').next().unwrap_or(inner)
}

#[derive(Default)]
struct Capability {
    attributes: BTreeSet<&'static str>,
    resolvers: BTreeSet<&'static str>,
    mutations: BTreeSet<&'static str>,
}

fn structure(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let mut capabilities: BTreeMap<&'static str, Capability> = BTreeMap::new();
    for (_, name, _) in env.graph.attributes() {
        capabilities.entry(namespace(name)).or_default().attributes.insert(name);
    }
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    let mut edge = |from: &'static str, attribute: &'static str| {
        let mut edge = Map::new();
        edge.put("from", Value::symbol(from));
        edge.put("to", Value::keyword(namespace(attribute)));
        edge.put("attribute", Value::keyword(attribute));
        edges.push(Value::from(edge));
    };
    for (_, operation) in env.graph.resolvers() {
        let spec = operation.spec;
        let shown = |name: &&str| !name.starts_with("handle/");
        let outputs: Vec<_> = spec.output.iter().map(|output| output.name).filter(shown).collect();
        let mut node = Map::new();
        node.put("id", Value::symbol(spec.name));
        node.put("type", Value::keyword("resolver"));
        node.put("input", keywords(spec.input.iter().map(Input::name).filter(shown)));
        node.put("output", keywords(outputs.iter().copied()));
        node.put("batch", matches!(spec.run, Resolve::Batch(_)));
        nodes.push(Value::from(node));
        for name in outputs {
            capabilities.entry(namespace(name)).or_default().resolvers.insert(spec.name);
            edge(spec.name, name);
        }
    }
    for mutation in env.graph.mutations() {
        let mut node = Map::new();
        node.put("id", Value::symbol(mutation.name));
        node.put("type", Value::keyword("mutation"));
        node.put("doc", mutation.doc);
        node.put("op", mutation.op.spec().name);
        node.put("output", keywords(mutation.output.iter().copied()));
        nodes.push(Value::from(node));
        for name in mutation.output {
            capabilities.entry(namespace(name)).or_default().mutations.insert(mutation.name);
            edge(mutation.name, name);
        }
    }
    let mut domains: BTreeMap<&str, (usize, BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    let mut listed = Vec::new();
    for (name, capability) in &capabilities {
        let mut node = Map::new();
        node.put("id", Value::keyword(*name));
        node.put("type", Value::keyword("capability"));
        nodes.push(Value::from(node));
        let mut map = Map::new();
        map.put("id", Value::keyword(*name));
        map.put("domain", Value::keyword(domain(name)));
        map.put("attributes", keywords(capability.attributes.iter().copied()));
        map.put("resolvers", symbols(capability.resolvers.iter().copied()));
        map.put("mutations", symbols(capability.mutations.iter().copied()));
        listed.push(Value::from(map));
        let (attributes, resolvers, mutations) = domains.entry(domain(name)).or_default();
        *attributes = attributes.saturating_add(capability.attributes.len());
        resolvers.extend(&capability.resolvers);
        mutations.extend(&capability.mutations);
    }
    let coverage = domains.into_iter().map(|(name, (attributes, resolvers, mutations))| {
        let mut map = Map::new();
        map.put("domain", Value::keyword(name));
        map.put("attributes", attributes);
        map.put("resolvers", resolvers.len());
        map.put("mutations", mutations.len());
        Value::from(map)
    });
    let coverage = Value::vector(coverage);
    Ok(vec![
        ("psi.graph/domain-coverage", coverage.into()),
        ("psi.graph/nodes", Value::vector(nodes).into()),
        ("psi.graph/edges", Value::vector(edges).into()),
        ("psi.graph/capabilities", Value::vector(listed).into()),
    ])
}

fn described(graph: &Graph) -> Vec<Described> {
    let examples = graph.examples(examples);
    let attribute = |(attr, name, doc)| {
        let resolvers = graph.providers(attr).iter().filter_map(|id| graph.resolver(*id));
        Described {
            name,
            doc,
            example: examples.get(&attr).cloned(),
            resolvers: symbols(resolvers.map(|node| node.spec.name)),
        }
    };
    graph.attributes().map(attribute).collect()
}

/// The shortest query for each attribute: at the root if possible, or else below the first join that leads to
/// it.
fn examples(graph: &Graph) -> BTreeMap<Attr, String> {
    let mut examples = BTreeMap::new();
    let mut open: Vec<(Vec<&'static str>, Bits)> = vec![(Vec::new(), Bits::default())];
    let mut at = 0;
    while let Some((way, known)) = open.get(at).cloned() {
        at += 1;
        let plan = graph.plan(&known);
        for (attr, name, _) in graph.attributes() {
            if !plan.ways(attr).is_empty() || known.has(attr.place()) {
                examples.entry(attr).or_insert_with(|| ask(&way, name).to_string());
            }
        }
        // Nobody reads longer chains of joins.
        if way.len() >= 3 {
            continue;
        }
        for (_, node) in graph.resolvers() {
            for (output, attr) in node.spec.output.iter().zip(&node.output) {
                if output.sub.is_empty() || plan.ways(*attr).is_empty() || way.contains(&output.name) {
                    continue;
                }
                let mut below = Bits::default();
                for name in output.sub.iter().filter_map(|known| graph.any_attr(known.name)) {
                    below.add(name.place());
                }
                if !open.iter().any(|(_, known)| *known == below) {
                    open.push((way.iter().copied().chain([output.name]).collect(), below));
                }
            }
        }
    }
    examples
}

fn ask(way: &[&'static str], name: &'static str) -> Query {
    let text = |name: &'static str| Key::Attribute(Text::from(name));
    let last = Query { asks: vec![Element::Property { key: text(name), params: None }] };
    way.iter().rev().fold(last, |below, join| Query {
        asks: vec![Element::Join { key: text(join), params: None, sub: Sub::Query(below) }],
    })
}
