//! `:psi.graph/*`: the graph describes itself.
//!
//! A capability is a namespace of attributes. A node is a resolver, a mutation or a capability. An edge leads
//! from an operation to the capability of one of its outputs and carries that attribute.

use std::collections::{BTreeMap, BTreeSet};

use crate::query::ast::{Ask, Key, Query, Sub};
use crate::query::graph::{
    Answer, Attr, Bits, Cost, Env, Failure, Graph, Input, Inputs, Namespace, Resolver, Run,
};
use crate::query::resolvers::{join, out};
use crate::value::{Map, Text, Value};

const ATTRIBUTE: &[&str] =
    &["psi.attribute/name", "psi.attribute/doc", "psi.attribute/example", "psi.attribute/resolvers"];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.graph/root-seeds", "The outputs of resolvers without inputs: the start of every way."),
        ("psi.graph/root-queryable-attrs", "The attributes that need no join."),
        ("psi.graph/resolver-count", "The number of resolvers."),
        ("psi.graph/mutation-count", "The number of mutations."),
        ("psi.graph/resolver-syms", "The resolvers' symbols."),
        ("psi.graph/mutation-syms", "The mutations' symbols."),
        ("psi.graph/env-built", "Whether the graph is ready; true in every answer."),
        ("psi.graph/nodes", "Resolvers, mutations and capabilities: {:id :type …}."),
        (
            "psi.graph/edges",
            "From each operation to the capabilities of its outputs: {:from :to :attribute}.",
        ),
        ("psi.graph/capabilities", "The namespaces of attributes, each with its attributes and operations."),
        (
            "psi.graph/domain-coverage",
            "The number of attributes, resolvers and mutations per domain; a domain is a namespace up to its first dot, or a part after it.",
        ),
        ("psi.graph/attributes", "All attributes, each with a description and an example."),
        ("psi.attribute/name", "The attribute."),
        ("psi.attribute/doc", "Its description."),
        ("psi.attribute/example", "A query for it, as text."),
        ("psi.attribute/resolvers", "The resolvers that provide it."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.graph/counts",
            input: &[],
            output: &[
                out("psi.graph/resolver-count"),
                out("psi.graph/mutation-count"),
                out("psi.graph/resolver-syms"),
                out("psi.graph/mutation-syms"),
                out("psi.graph/env-built"),
            ],
            cost: Cost::Ready,
            run: Run::One(counts),
        },
        Resolver {
            name: "psi.graph/roots",
            input: &[],
            output: &[out("psi.graph/root-seeds"), out("psi.graph/root-queryable-attrs")],
            cost: Cost::Ready,
            run: Run::One(roots),
        },
        Resolver {
            name: "psi.graph/structure",
            input: &[],
            output: &[
                out("psi.graph/nodes"),
                out("psi.graph/edges"),
                out("psi.graph/capabilities"),
                out("psi.graph/domain-coverage"),
            ],
            cost: Cost::Ready,
            run: Run::One(structure),
        },
        Resolver {
            name: "psi.graph/attributes",
            input: &[],
            output: &[join("psi.graph/attributes", ATTRIBUTE)],
            cost: Cost::Ready,
            run: Run::One(attributes),
        },
        Resolver {
            name: "psi.attribute/by-name",
            input: &[Input::Required("psi.attribute/name")],
            output: &[out("psi.attribute/doc"), out("psi.attribute/example"), out("psi.attribute/resolvers")],
            cost: Cost::Ready,
            run: Run::One(by_name),
        },
    ],
    mutations: &[],
};

fn keywords<'n>(names: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::vector(names.into_iter().map(|name| Value::keyword(name.to_owned())))
}

fn symbols<'n>(names: impl IntoIterator<Item = &'n str>) -> Value<'static> {
    Value::vector(names.into_iter().map(|name| Value::symbol(name.to_owned())))
}

fn counts(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
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

fn roots(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
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

fn structure(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
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
        node.put("batch", matches!(spec.run, Run::Batch(_)));
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

fn attributes(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let all = env.graph.attributes().map(|(attr, name, doc)| {
        let mut map = Map::new();
        map.put("psi.attribute/name", Value::keyword(name));
        describe(env.graph, attr, doc, &mut map);
        Value::from(map)
    });
    Ok(vec![("psi.graph/attributes", Value::vector(all).into())])
}

fn by_name(env: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let name =
        inputs.value("psi.attribute/name").and_then(|name| name.as_keyword().or_else(|| name.as_str()));
    let Some((attr, _, doc)) = env.graph.attributes().find(|(_, known, _)| Some(*known) == name) else {
        return Ok(Vec::new());
    };
    let mut map = Map::new();
    describe(env.graph, attr, doc, &mut map);
    let rest = ATTRIBUTE.iter().skip(1);
    Ok(rest.filter_map(|name| Some((*name, map.get_keyword(name)?.clone().into()))).collect())
}

fn describe(graph: &Graph, attr: Attr, doc: &'static str, map: &mut Map<'static>) {
    map.put("psi.attribute/doc", doc);
    let example = graph.examples(examples).get(&attr);
    map.put("psi.attribute/example", example.map(|query| Value::from(query.clone())));
    let resolvers = graph.providers(attr).iter().filter_map(|id| graph.resolver(*id));
    map.put("psi.attribute/resolvers", symbols(resolvers.map(|node| node.spec.name)));
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
                for name in output.sub.iter().filter_map(|name| graph.any_attr(name)) {
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
    let last = Query { asks: vec![Ask::Property { key: text(name), params: None }] };
    way.iter().rev().fold(last, |below, join| Query {
        asks: vec![Ask::Join { key: text(join), params: None, sub: Sub::Query(below) }],
    })
}
