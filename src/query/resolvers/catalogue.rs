//! `:psi.catalog/*`: the protocol's own table. Reads the catalogue and the counts of requests; knows no session.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::catalogue::{
    COMMANDS, CommandSpec, ERROR_CODES, ErrorSpec, FEATURES, OPS, OpSpec, PROTOCOL_VERSION_TEXT, Param,
    SessionAccess, TOPICS, TopicSpec,
};
use crate::edn;
use crate::message::count;
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverResult};
use crate::query::table::{join, out, rest, table, text, texts};
use crate::query::world::ResolverFailure;
use crate::session::OpCounts;
use crate::value::{Map, Value};

table! {
    OP of OpSpec {
        "psi.op/name" "The op's name." => |op| op.name;
        "psi.op/doc" "What it does." => |op| op.doc;
        "psi.op/access" "How it relates to a session: :connection, :read, :write or :urgent." => |op| Value::keyword(access(op));
        "psi.op/params" "Its params: {:key :shape :required}." => |op| Value::vector(op.params.iter().map(param));
        "psi.op/data-keys" "The keys of a response's data; a key that ends in ? is optional." => |op| texts(op.data);
        "psi.op/error-codes" "Its specific error codes." => |op| texts(op.errors.iter().map(|code| code.as_str()));
        "psi.op/takes-session-id" "Whether it takes :session-id." => |op| op.session;
    }
}

table! {
    TOPIC of TopicSpec {
        "psi.topic/name" "The topic's name." => |topic| topic.name;
        "psi.topic/doc" "The cause of its events." => |topic| topic.doc;
        "psi.topic/class" "Its delivery class: :lossless, :coalescible or :latest." => |topic| Value::keyword(topic.class.as_str());
        "psi.topic/required-keys" "The required keys of its payload." => |topic| texts(topic.required);
        "psi.topic/further-keys" "The optional keys of its payload." => |topic| texts(topic.also);
        "psi.topic/is-sent-for-every-session"
            "Whether a connection receives it for every session, not only for its focus."
            => |topic| topic.anywhere;
    }
}

table! {
    ERROR of ErrorSpec {
        "psi.error/code" "The error's code." => |error| error.name;
        "psi.error/doc" "Its cause." => |error| error.doc;
        "psi.error/retryable" "Whether the same request may succeed later." => |error| error.retryable;
    }
}

table! {
    COMMAND of CommandSpec {
        "psi.command/name" "The command's name, without the slash." => |command| command.name;
        "psi.command/usage" "Its syntax." => |command| command.usage;
        "psi.command/doc" "What it does." => |command| command.doc;
    }
}

table! {
    FEATURE of (&'static str, &'static str) {
        "psi.feature/name" "The feature's name." => |(name, _)| *name;
        "psi.feature/doc" "What it changes." => |(_, doc)| *doc;
    }
}

table! {
    COUNTS of OpCounts {
        "psi.op/name" => |op| op.name;
        "psi.op/answered" "Requests that got a response or an error since the process started, without this one."
            => |op| count(op.answered);
        "psi.op/failed" "Requests that got an error since the process started." => |op| count(op.failed);
    }
}

table! {
    ERROR_COUNT of (&'static ErrorSpec, u64) {
        "psi.error/code" => |(spec, _)| spec.name;
        "psi.error/count" "How often it was the answer since the process started." => |(_, times)| count(*times);
    }
}

table! {
    /// An obligation's id, with its checks or why it has none.
    OBLIGATION of (String, Shown) {
        "psi.obligation/id" "The obligation, as `spec/id`." => |(id, _)| text(id);
        "psi.obligation/spec" "Its spec, such as rpc-edn." => |(id, _)| text(spec_of(id));
        "psi.obligation/checks" "The checks of `edn-bridge contract` that show it; test: names a test of the project."
            => |(_, (checks, _))| Value::vector(checks.iter().cloned());
        "psi.obligation/waived" "Why nothing shows it, or nil." => |(_, (_, waived))| waived.clone();
    }
}

/// The checks that show an obligation, or why nothing does.
type Shown = (Vec<Value<'static>>, Option<String>);

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.catalog/tables",
        &[],
        &[
            out("psi.catalog/protocol-version", "The version of the protocol."),
            join("psi.catalog/ops", "The ops, in the order of the table.", OP.outputs),
            join("psi.catalog/topics", "The event topics, in the order of the table.", TOPIC.outputs),
            join("psi.catalog/error-codes", "The error codes, in the order of the table.", ERROR.outputs),
            join("psi.catalog/commands", "The slash commands, in the order of help.", COMMAND.outputs),
            join(
                "psi.catalog/features",
                "The features that a client may request in the handshake.",
                FEATURE.outputs,
            ),
        ],
        |_, _| {
            Ok(vec![
                ("psi.catalog/protocol-version", PROTOCOL_VERSION_TEXT.into()),
                ("psi.catalog/ops", OP.entities(OPS).into()),
                ("psi.catalog/topics", TOPIC.entities(TOPICS).into()),
                ("psi.catalog/error-codes", ERROR.entities(ERROR_CODES).into()),
                ("psi.catalog/commands", COMMAND.entities(COMMANDS).into()),
                ("psi.catalog/features", FEATURE.entities(FEATURES).into()),
            ])
        },
    ),
    Resolver::one(
        "psi.catalog/obligations",
        &[],
        &[join(
            "psi.catalog/obligations",
            "The obligations of the specs, each with its checks; :spec selects one spec.",
            OBLIGATION.outputs,
        )],
        obligations,
    ),
    Resolver::batch("psi.op/by-name", &[Input::Required("psi.op/name")], rest(OP.outputs), |_, inputs| {
        OP.lookup(inputs, OPS)
    }),
    Resolver::batch(
        "psi.op/counts",
        &[Input::Required("psi.op/name")],
        rest(COUNTS.outputs),
        |env, inputs| COUNTS.lookup(inputs, &env.world.counts().ops),
    ),
    Resolver::batch(
        "psi.error/count",
        &[Input::Required("psi.error/code")],
        rest(ERROR_COUNT.outputs),
        |env, inputs| ERROR_COUNT.lookup(inputs, &env.world.counts().errors),
    ),
];

/// The table lists obligations by check; here the order is reversed.
fn obligations(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    static TABLE: LazyLock<Result<Vec<(String, Shown)>, String>> = LazyLock::new(|| {
        let table =
            edn::read_one(edn_bridge_contract::OBLIGATIONS.as_bytes()).map_err(|error| error.to_string())?;
        let mut all: BTreeMap<String, Shown> = BTreeMap::new();
        for (check, obligations) in table.as_map().into_iter().flat_map(|map| map.iter()) {
            for entry in obligations.as_slice().unwrap_or_default() {
                let text = |key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
                let Some(id) = entry.as_str().map(str::to_owned).or_else(|| text("waived")) else { continue };
                let (checks, waived) = all.entry(id).or_default();
                checks.push(check.clone().into_owned());
                *waived = text("reason").or_else(|| waived.take());
            }
        }
        Ok(all.into_iter().collect())
    });
    let table =
        TABLE.as_ref().map_err(|error| ResolverFailure::new(format!("The table is not EDN: {error}")))?;
    let wanted = env.text("spec");
    let selected = table.iter().filter(|(id, _)| wanted.is_none_or(|wanted| wanted == spec_of(id)));
    OBLIGATION.list("psi.catalog/obligations", selected)
}

fn spec_of(obligation: &str) -> &str {
    obligation.split('/').next().unwrap_or(obligation)
}

fn access(op: &OpSpec) -> &'static str {
    match op.access {
        SessionAccess::Connection => "connection",
        SessionAccess::Read => "read",
        SessionAccess::Write => "write",
        SessionAccess::Urgent => "urgent",
    }
}

fn param(param: &Param) -> Value<'static> {
    let map = Map::new().with("key", Value::keyword(param.key)).with("shape", param.shape.to_string());
    Value::from(map.with("required", param.required))
}
