//! `:psi.process/*` and `:psi.query/*`: the process itself, and the query engine. Measures nothing itself: the world
//! gives the figures.

use crate::facts::AtWork;
use crate::message::count;
use crate::projection;
use crate::query::graph::{Env, Inputs, Resolver, ResolverResult};
use crate::query::kept::{self, QueryCounters};
use crate::query::plan::Cost;
use crate::query::table::{join, out, table, text};
use crate::query::world::{ProcessFacts, ResolverFailure};
use crate::query::{explain, parse};
use crate::value::{Map, Value};

table! {
    PROCESS of ProcessFacts {
        "psi.process/pid" "The process's id." => |process| process.pid;
        "psi.process/version" "The program's version." => |_| env!("CARGO_PKG_VERSION");
        "psi.process/started-at" "When the process was started, RFC 3339 in UTC." => |process| text(&process.started_at);
        "psi.process/uptime-ms" "Its run time, in milliseconds." => |process| process.uptime_ms;
        "psi.process/now" "The time now, RFC 3339 in UTC." => |process| text(&process.now);
        "psi.process/event-count" "Events that went to connections since the process started." => |process| count(process.events);
        "psi.process/outlives-clients" "Whether what runs goes on when the last client has left: true in a daemon." => |process| process.outlives_clients;
        "psi.process/task-count" "The number of live tasks: one per live session, and others such as turns." => |process| process.tasks;
    }
}

table! {
    AT_WORK of AtWork {
        "psi.at-work/session-id" "The session that works or waits. `psi.agent-session/session-id` is only for sessions of the engine that is asked." => |work| work.session.as_str().to_owned();
        "psi.at-work/name" "Its name for people." => |work| text(&work.name);
        "psi.at-work/cwd" "Its folder." => |work| text(&work.cwd);
        "psi.at-work/phase" "streaming, compacting or retrying; idle if a command runs beside its turns." => |work| work.phase.as_str();
        "psi.at-work/activity" "What its turn is doing, as `:activity` of `session/updated`, or nil."
            => |work| work.activity.as_deref().map(|now| Value::from(projection::activity(now)).into_owned());
        "psi.at-work/asks" "The kind of the oldest question that waits in it, such as approve, or nil." => |work| work.asks;
    }
}

table! {
    USAGE of Usage {
        "psi.process/resident-bytes" "Its resident memory in bytes, or nil if unknown." => |usage| usage.resident;
        "psi.process/thread-count" "The number of its threads, or nil if unknown." => |usage| usage.threads;
        "psi.process/cpu-ms" "Its processor time, in milliseconds, or nil." => |usage| usage.cpu_ms;
    }
}

table! {
    QUERIES of QueryCounters {
        "psi.query/kept" "The number of queries that are kept with their plans." => |_| kept::len();
        "psi.query/answered" "Answered queries since the process started, without this one." => |all| count(all.answered);
        "psi.query/micros" "The total time of the queries, in microseconds." => |all| count(all.micros);
        "psi.query/slowest-micros" "The time of the slowest query, in microseconds." => |all| count(all.slowest);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one("psi.process/facts", &[], PROCESS.outputs, |env, _| {
        Ok(PROCESS.answer(&env.world.process()))
    }),
    Resolver::one(
        "psi.process/counts",
        &[],
        &[
            out(
                "psi.process/answer-count",
                "Answers since the process started: responses and errors. `psi.op/answered` counts those of one op.",
            ),
            out(
                "psi.process/error-count",
                "Errors among the answers, including those for lines that are not requests. `psi.error/count` counts those of one code.",
            ),
            join(
                "psi.process/ops",
                "The ops that were requested so far, in the order of the catalogue.",
                &[out("psi.op/name", "")],
            ),
            join(
                "psi.process/errors",
                "The error codes of answers so far, in the order of the catalogue.",
                &[out("psi.error/code", "")],
            ),
        ],
        counts,
    ),
    Resolver::one("psi.process/usage", &[], USAGE.outputs, |_, _| Ok(USAGE.answer(&Usage::read())))
        .costing(Cost::Slow),
    Resolver::one(
        "psi.process/at-work",
        &[],
        &[join(
            "psi.process/at-work",
            "The sessions that work or wait for an answer, in every project of the process.",
            AT_WORK.outputs,
        )],
        |env, _| AT_WORK.list("psi.process/at-work", env.world.at_work().iter()),
    ),
    Resolver::one(
        "psi.process/live-session-count",
        &[],
        &[out("psi.process/live-session-count", "The number of live sessions.")],
        |env, _| Ok(vec![("psi.process/live-session-count", env.world.live().len().into())]),
    ),
    Resolver::one(
        "psi.query/plan",
        &[],
        &[out(
            "psi.query/plan",
            "How the query in the param :query would be resolved: steps and alternatives per ask. The map :entity sets the first entity.",
        )],
        plan,
    ),
    Resolver::one("psi.query/counters", &[], QUERIES.outputs, |_, _| Ok(QUERIES.answer(&kept::counters()))),
];

/// The requested ops and the error codes of answers lead to their counts by name.
fn counts(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let counts = env.world.counts();
    let sum = |figures: &mut dyn Iterator<Item = u64>| figures.fold(0u64, u64::saturating_add);
    let responses = sum(&mut counts.ops.iter().map(|op| op.answered.saturating_sub(op.failed)));
    let errors = sum(&mut counts.errors.iter().map(|(_, times)| *times));
    let named = |key: &'static str, name: &'static str| Value::from(Map::new().with(key, name));
    let ops = counts.ops.iter().filter(|op| op.answered > 0).map(|op| named("psi.op/name", op.name));
    let codes = counts.errors.iter().filter(|(_, times)| *times > 0);
    let codes = codes.map(|(spec, _)| named("psi.error/code", spec.name));
    Ok(vec![
        ("psi.process/answer-count", count(responses.saturating_add(errors)).into()),
        ("psi.process/error-count", count(errors).into()),
        ("psi.process/ops", Value::vector(ops).into()),
        ("psi.process/errors", Value::vector(codes).into()),
    ])
}

/// Linux's facts about the process; elsewhere all are unknown.
struct Usage {
    resident: Option<i64>,
    threads: Option<i64>,
    cpu_ms: Option<i64>,
}

impl Usage {
    fn read() -> Self {
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
        let cpu =
            ticks(11).zip(ticks(12)).map(|(user, system)| user.saturating_add(system).saturating_mul(10));
        let resident = field("VmRSS").map(|kilobytes| kilobytes.saturating_mul(1024));
        Self { resident, threads: field("Threads"), cpu_ms: cpu }
    }
}

/// Without `:query`, explains the query for the attribute itself.
fn plan(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let text = match env.params.get_keyword("query") {
        None => "[:psi.query/plan]".to_owned(),
        Some(Value::Str(text)) => text.to_string(),
        Some(form) => form.to_string(),
    };
    let query = parse::parse(&text).map_err(|error| ResolverFailure::new(error.to_string()))?;
    let none = Map::new();
    let entity = env.params.get_keyword("entity").and_then(Value::as_map).unwrap_or(&none);
    Ok(vec![("psi.query/plan", explain::explain(env.graph, &query, entity).into())])
}
