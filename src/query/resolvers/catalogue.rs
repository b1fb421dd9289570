//! `:psi.catalog/*`: the protocol's own table.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::catalogue::{Access, COMMANDS, ERROR_CODES, FEATURES, OPS, OpSpec, PROTOCOL_VERSION_TEXT, TOPICS};
use crate::edn;
use crate::message::count;
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::session::OpCounts;
use crate::value::{Map, Value};

const OP: &[&str] = &[
    "psi.op/name",
    "psi.op/doc",
    "psi.op/access",
    "psi.op/params",
    "psi.op/data-keys",
    "psi.op/error-codes",
    "psi.op/takes-session-id",
];
const TOPIC: &[&str] = &[
    "psi.topic/name",
    "psi.topic/doc",
    "psi.topic/class",
    "psi.topic/required-keys",
    "psi.topic/further-keys",
    "psi.topic/is-sent-for-every-session",
];
const ERROR: &[&str] = &["psi.error/code", "psi.error/doc", "psi.error/retryable"];
const COMMAND: &[&str] = &["psi.command/name", "psi.command/usage", "psi.command/doc"];
const FEATURE: &[&str] = &["psi.feature/name", "psi.feature/doc"];
const OBLIGATION: &[&str] =
    &["psi.obligation/id", "psi.obligation/spec", "psi.obligation/checks", "psi.obligation/waived"];

/// The checks that show each obligation of the specs, from the contract runner.
const OBLIGATIONS: &str = include_str!("../../contract/obligations.edn");

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.catalog/protocol-version", "The version of the protocol."),
        ("psi.catalog/ops", "The ops, in the order of the table."),
        ("psi.catalog/topics", "The event topics, in the order of the table."),
        ("psi.catalog/error-codes", "The error codes, in the order of the table."),
        ("psi.catalog/commands", "The slash commands, in the order of help."),
        ("psi.catalog/features", "The features that a client may request in the handshake."),
        ("psi.op/name", "The op's name."),
        ("psi.op/doc", "What it does."),
        ("psi.op/access", "How it relates to a session: :connection, :read, :write or :urgent."),
        ("psi.op/params", "Its params: {:key :shape :required}."),
        ("psi.op/data-keys", "The keys of a response's data; a key that ends in ? is optional."),
        ("psi.op/error-codes", "Its specific error codes."),
        ("psi.op/takes-session-id", "Whether it takes :session-id."),
        (
            "psi.op/answered",
            "Requests that got a response or an error since the process started, without this one.",
        ),
        ("psi.op/failed", "Requests that got an error since the process started."),
        ("psi.topic/name", "The topic's name."),
        ("psi.topic/doc", "The cause of its events."),
        ("psi.topic/class", "Its delivery class: :lossless, :coalescible or :latest."),
        ("psi.topic/required-keys", "The required keys of its payload."),
        ("psi.topic/further-keys", "The optional keys of its payload."),
        (
            "psi.topic/is-sent-for-every-session",
            "Whether a connection receives it for every session, not only for its focus.",
        ),
        ("psi.error/code", "The error's code."),
        ("psi.error/doc", "Its cause."),
        ("psi.error/retryable", "Whether the same request may succeed later."),
        ("psi.error/count", "How often it was the answer since the process started."),
        ("psi.command/name", "The command's name, without the slash."),
        ("psi.command/usage", "Its syntax."),
        ("psi.command/doc", "What it does."),
        (
            "psi.catalog/obligations",
            "The obligations of the specs, each with its checks; :spec selects one spec.",
        ),
        ("psi.obligation/id", "The obligation, as `spec/id`."),
        ("psi.obligation/spec", "Its spec, such as rpc-edn."),
        (
            "psi.obligation/checks",
            "The checks of `edn-bridge contract` that show it; test: names a test of the project.",
        ),
        ("psi.obligation/waived", "Why nothing shows it, or nil."),
        ("psi.feature/name", "The feature's name."),
        ("psi.feature/doc", "What it changes."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.catalog/tables",
            input: &[],
            output: &[
                out("psi.catalog/protocol-version"),
                join("psi.catalog/ops", OP),
                join("psi.catalog/topics", TOPIC),
                join("psi.catalog/error-codes", ERROR),
                join("psi.catalog/commands", COMMAND),
                join("psi.catalog/features", FEATURE),
            ],
            cost: Cost::Ready,
            run: Run::One(tables),
        },
        Resolver {
            name: "psi.catalog/obligations",
            input: &[],
            output: &[join("psi.catalog/obligations", OBLIGATION)],
            cost: Cost::Ready,
            run: Run::One(obligations),
        },
        Resolver {
            name: "psi.op/by-name",
            input: &[Input::Required("psi.op/name")],
            output: &[
                out("psi.op/doc"),
                out("psi.op/access"),
                out("psi.op/params"),
                out("psi.op/data-keys"),
                out("psi.op/error-codes"),
                out("psi.op/takes-session-id"),
            ],
            cost: Cost::Ready,
            run: Run::One(op_by_name),
        },
        Resolver {
            name: "psi.op/counts",
            input: &[Input::Required("psi.op/name")],
            output: &[out("psi.op/answered"), out("psi.op/failed")],
            cost: Cost::Ready,
            run: Run::Batch(op_counts),
        },
        Resolver {
            name: "psi.error/count",
            input: &[Input::Required("psi.error/code")],
            output: &[out("psi.error/count")],
            cost: Cost::Ready,
            run: Run::Batch(error_count),
        },
    ],
    mutations: &[],
};

fn names(names: &[&'static str]) -> Value<'static> {
    Value::vector(names.iter().map(|name| Value::from(*name)))
}

fn tables(_: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let topics = TOPICS.iter().map(|spec| {
        let mut map = Map::new();
        map.put("psi.topic/name", spec.name);
        map.put("psi.topic/doc", spec.doc);
        map.put("psi.topic/class", Value::keyword(spec.class.as_str()));
        map.put("psi.topic/required-keys", names(spec.required));
        map.put("psi.topic/further-keys", names(spec.also));
        map.put("psi.topic/is-sent-for-every-session", spec.anywhere);
        Value::from(map)
    });
    let errors = ERROR_CODES.iter().map(|spec| {
        let mut map = Map::new();
        map.put("psi.error/code", spec.name);
        map.put("psi.error/doc", spec.doc);
        map.put("psi.error/retryable", spec.retryable);
        Value::from(map)
    });
    let commands = COMMANDS.iter().map(|spec| {
        let mut map = Map::new();
        map.put("psi.command/name", spec.name);
        map.put("psi.command/usage", spec.usage);
        map.put("psi.command/doc", spec.doc);
        Value::from(map)
    });
    let features = FEATURES.iter().map(|(name, doc)| {
        let mut map = Map::new();
        map.put("psi.feature/name", *name);
        map.put("psi.feature/doc", *doc);
        Value::from(map)
    });
    Ok(vec![
        ("psi.catalog/protocol-version", PROTOCOL_VERSION_TEXT.into()),
        ("psi.catalog/ops", Value::vector(OPS.iter().map(|spec| Value::from(op(spec)))).into()),
        ("psi.catalog/topics", Value::vector(topics).into()),
        ("psi.catalog/error-codes", Value::vector(errors).into()),
        ("psi.catalog/commands", Value::vector(commands).into()),
        ("psi.catalog/features", Value::vector(features).into()),
    ])
}

/// The table lists obligations by check; here the order is reversed.
fn obligations(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    type Shown = BTreeMap<String, (Vec<Value<'static>>, Option<String>)>;
    static TABLE: LazyLock<Result<Shown, String>> = LazyLock::new(|| {
        let table = edn::read_one(OBLIGATIONS.as_bytes()).map_err(|error| error.to_string())?;
        let mut all = Shown::new();
        for (check, obligations) in table.as_map().into_iter().flat_map(|map| map.iter()) {
            for entry in obligations.as_slice().unwrap_or_default() {
                let text = |key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
                let Some(id) = entry.as_str().map(str::to_owned).or_else(|| text("waived")) else { continue };
                let (checks, waived) = all.entry(id).or_default();
                checks.push(check.clone().into_owned());
                *waived = text("reason").or_else(|| waived.take());
            }
        }
        Ok(all)
    });
    let table = TABLE.as_ref().map_err(|error| Failure::new(format!("The table is not EDN: {error}")))?;
    let wanted = env.text("spec");
    let entity = |(id, (checks, waived)): (&String, &(Vec<Value<'static>>, Option<String>))| {
        let spec = id.split('/').next().unwrap_or(id);
        if wanted.is_some_and(|wanted| wanted != spec) {
            return None;
        }
        let mut map = Map::new();
        map.put("psi.obligation/id", id.clone());
        map.put("psi.obligation/spec", spec.to_owned());
        map.put("psi.obligation/checks", Value::vector(checks.iter().cloned()));
        map.put("psi.obligation/waived", waived.clone());
        Some(Value::from(map))
    };
    Ok(vec![("psi.catalog/obligations", Value::vector(table.iter().filter_map(entity)).into())])
}

fn op_by_name(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let name = inputs.text("psi.op/name");
    let found = OPS.iter().find(|spec| Some(spec.name) == name).map(op);
    let rest = OP.iter().skip(1);
    Ok(rest.filter_map(|name| Some((*name, found.as_ref()?.get_keyword(name)?.clone().into()))).collect())
}

fn op_counts(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let counts = env.world.counts();
    let answer = |inputs: &Inputs<'_>| {
        let name = inputs.text("psi.op/name");
        let op = counts.ops.iter().find(|op| Some(op.spec.name) == name);
        let found = |op: &OpCounts| {
            vec![("psi.op/answered", count(op.answered).into()), ("psi.op/failed", count(op.failed).into())]
        };
        Ok(op.map(found).unwrap_or_default())
    };
    inputs.iter().map(answer).collect()
}

fn error_count(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let counts = env.world.counts();
    let answer = |inputs: &Inputs<'_>| {
        let code = inputs.text("psi.error/code");
        let found = counts.errors.iter().find(|(spec, _)| Some(spec.name) == code);
        Ok(found.map(|(_, times)| ("psi.error/count", count(*times).into())).into_iter().collect())
    };
    inputs.iter().map(answer).collect()
}

fn op(spec: &OpSpec) -> Map<'static> {
    let params = spec.params.iter().map(|param| {
        let mut map = Map::new();
        map.put("key", Value::keyword(param.key));
        map.put("shape", param.shape.to_string());
        map.put("required", param.required);
        Value::from(map)
    });
    let access = match spec.access {
        Access::Connection => "connection",
        Access::Read => "read",
        Access::Write => "write",
        Access::Urgent => "urgent",
    };
    let mut map = Map::new();
    map.put("psi.op/name", spec.name);
    map.put("psi.op/doc", spec.doc);
    map.put("psi.op/access", Value::keyword(access));
    map.put("psi.op/params", Value::vector(params));
    map.put("psi.op/data-keys", names(spec.data));
    map.put("psi.op/error-codes", Value::vector(spec.errors.iter().map(|code| Value::from(code.as_str()))));
    map.put("psi.op/takes-session-id", spec.session);
    map
}
