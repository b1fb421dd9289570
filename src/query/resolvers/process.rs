//! `:psi.process/*` and `:psi.query/*`: the process itself, and how queries are answered.

use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::out;
use crate::query::{explain, kept, parse};
use crate::value::{Map, Value};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.process/pid", "The process's id."),
        ("psi.process/version", "The program's version."),
        ("psi.process/started-at", "When the process was started, RFC 3339 in UTC."),
        ("psi.process/uptime-ms", "How long it has run, in milliseconds."),
        ("psi.process/now", "The time now, RFC 3339 in UTC."),
        ("psi.process/live-session-count", "How many sessions are live."),
        ("psi.query/kept", "How many queries are kept with their plans."),
        (
            "psi.query/plan",
            "How the query of the param :query would be answered: steps and alternatives for each ask; an entity to begin with may be given as the map :entity.",
        ),
    ],
    resolvers: &[
        Resolver {
            name: "psi.process/facts",
            input: &[],
            output: &[
                out("psi.process/pid"),
                out("psi.process/version"),
                out("psi.process/started-at"),
                out("psi.process/uptime-ms"),
                out("psi.process/now"),
            ],
            cost: Cost::Ready,
            run: Run::One(facts),
        },
        Resolver {
            name: "psi.process/live-session-count",
            input: &[],
            output: &[out("psi.process/live-session-count")],
            cost: Cost::Ready,
            run: Run::One(sessions),
        },
        Resolver {
            name: "psi.query/plan",
            input: &[],
            output: &[out("psi.query/plan")],
            cost: Cost::Ready,
            run: Run::One(plan),
        },
        Resolver {
            name: "psi.query/kept",
            input: &[],
            output: &[out("psi.query/kept")],
            cost: Cost::Ready,
            run: Run::One(|_, _| Ok(vec![("psi.query/kept", kept().into())])),
        },
    ],
    mutations: &[],
};

fn facts(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let process = env.world.process();
    Ok(vec![
        ("psi.process/pid", process.pid.into()),
        ("psi.process/version", env!("CARGO_PKG_VERSION").into()),
        ("psi.process/started-at", process.started_at.into()),
        ("psi.process/uptime-ms", process.uptime_ms.into()),
        ("psi.process/now", process.now.into()),
    ])
}

fn sessions(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    Ok(vec![("psi.process/live-session-count", env.world.live().len().into())])
}

/// Without `:query`, the query for the attribute itself is explained.
fn plan(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let text = match env.params.get_keyword("query") {
        None => "[:psi.query/plan]".to_owned(),
        Some(Value::Str(text)) => text.to_string(),
        Some(form) => form.to_string(),
    };
    let query = parse::parse(&text).map_err(|error| Failure::new(error.to_string()))?;
    let none = Map::new();
    let entity = env.params.get_keyword("entity").and_then(Value::as_map).unwrap_or(&none);
    Ok(vec![("psi.query/plan", explain::explain(env.graph, &query, entity).into())])
}
