//! `:psi.process/*` and `:psi.query/*`: the process itself, and the query engine.

use crate::message::count;
use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::query::{self, Counters, explain, parse};
use crate::value::{Map, Value};

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.process/pid", "The process's id."),
        ("psi.process/version", "The program's version."),
        ("psi.process/started-at", "When the process was started, RFC 3339 in UTC."),
        ("psi.process/uptime-ms", "Its run time, in milliseconds."),
        ("psi.process/now", "The time now, RFC 3339 in UTC."),
        ("psi.process/live-session-count", "The number of live sessions."),
        (
            "psi.process/task-count",
            "The number of live tasks: one per live session, and others such as turns.",
        ),
        ("psi.process/event-count", "Events that went to connections since the process started."),
        (
            "psi.process/answer-count",
            "Answers since the process started: responses and errors. `psi.op/answered` counts those of one op.",
        ),
        (
            "psi.process/error-count",
            "Errors among the answers, including those for lines that are not requests. `psi.error/count` counts those of one code.",
        ),
        ("psi.process/ops", "The ops that were requested so far, in the order of the catalogue."),
        ("psi.process/errors", "The error codes of answers so far, in the order of the catalogue."),
        ("psi.process/resident-bytes", "Its resident memory in bytes, or nil if unknown."),
        ("psi.process/thread-count", "The number of its threads, or nil if unknown."),
        ("psi.process/cpu-ms", "Its processor time, in milliseconds, or nil."),
        ("psi.query/answered", "Answered queries since the process started, without this one."),
        ("psi.query/micros", "The total time of the queries, in microseconds."),
        ("psi.query/slowest-micros", "The time of the slowest query, in microseconds."),
        ("psi.query/kept", "The number of queries that are kept with their plans."),
        (
            "psi.query/plan",
            "How the query in the param :query would be resolved: steps and alternatives per ask. The map :entity sets the first entity.",
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
                out("psi.process/event-count"),
                out("psi.process/task-count"),
            ],
            cost: Cost::Ready,
            run: Run::One(facts),
        },
        Resolver {
            name: "psi.process/counts",
            input: &[],
            output: &[
                out("psi.process/answer-count"),
                out("psi.process/error-count"),
                join("psi.process/ops", &["psi.op/name"]),
                join("psi.process/errors", &["psi.error/code"]),
            ],
            cost: Cost::Ready,
            run: Run::One(counts),
        },
        Resolver {
            name: "psi.process/usage",
            input: &[],
            output: &[
                out("psi.process/resident-bytes"),
                out("psi.process/thread-count"),
                out("psi.process/cpu-ms"),
            ],
            cost: Cost::Slow,
            run: Run::One(usage),
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
            name: "psi.query/counters",
            input: &[],
            output: &[
                out("psi.query/kept"),
                out("psi.query/answered"),
                out("psi.query/micros"),
                out("psi.query/slowest-micros"),
            ],
            cost: Cost::Ready,
            run: Run::One(of_queries),
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
        ("psi.process/event-count", count(process.events).into()),
        ("psi.process/task-count", Value::from(process.tasks).into()),
    ])
}

/// The requested ops and the error codes of answers lead to their counts by name.
fn counts(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let counts = env.world.counts();
    let sum = |figures: &mut dyn Iterator<Item = u64>| figures.fold(0u64, u64::saturating_add);
    let responses = sum(&mut counts.ops.iter().map(|op| op.answered.saturating_sub(op.failed)));
    let errors = sum(&mut counts.errors.iter().map(|(_, times)| *times));
    let named = |key: &'static str, name: &'static str| Value::from(Map::new().with(key, name));
    let ops = counts.ops.iter().filter(|op| op.answered > 0).map(|op| named("psi.op/name", op.spec.name));
    let codes = counts.errors.iter().filter(|(_, times)| *times > 0);
    let codes = codes.map(|(spec, _)| named("psi.error/code", spec.name));
    Ok(vec![
        ("psi.process/answer-count", count(responses.saturating_add(errors)).into()),
        ("psi.process/error-count", count(errors).into()),
        ("psi.process/ops", Value::vector(ops).into()),
        ("psi.process/errors", Value::vector(codes).into()),
    ])
}

/// Linux's facts about the process; elsewhere all are nil.
fn usage(_: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> Option<i64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // The fields follow the command's name, which is in parentheses and may contain anything.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<i64>().ok();
    // User and system time in ticks, of which Linux counts a hundred per second everywhere.
    let cpu = ticks(11).zip(ticks(12)).map(|(user, system)| user.saturating_add(system).saturating_mul(10));
    let resident = field("VmRSS").map(|kilobytes| kilobytes.saturating_mul(1024));
    Ok(vec![
        ("psi.process/resident-bytes", Value::from(resident).into()),
        ("psi.process/thread-count", Value::from(field("Threads")).into()),
        ("psi.process/cpu-ms", Value::from(cpu).into()),
    ])
}

fn of_queries(_: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let Counters { answered, micros, slowest } = query::counters();
    Ok(vec![
        ("psi.query/kept", query::kept().into()),
        ("psi.query/answered", count(answered).into()),
        ("psi.query/micros", count(micros).into()),
        ("psi.query/slowest-micros", count(slowest).into()),
    ])
}

fn sessions(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    Ok(vec![("psi.process/live-session-count", env.world.live().len().into())])
}

/// Without `:query`, explains the query for the attribute itself.
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
