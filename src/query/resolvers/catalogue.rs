//! `:psi.catalog/*`: the protocol's own table, asked like everything else.

use crate::catalogue::{Access, COMMANDS, ERROR_CODES, FEATURES, OPS, OpSpec, PROTOCOL_VERSION_TEXT, TOPICS};
use crate::query::graph::{Answer, Cost, Env, Failure, Input, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
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

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.catalog/protocol-version", "The version of the protocol."),
        ("psi.catalog/ops", "The ops, in the order of the table."),
        ("psi.catalog/topics", "The event topics, in the order of the table."),
        ("psi.catalog/error-codes", "The error codes, in the order of the table."),
        ("psi.catalog/commands", "The slash commands, in the order of help."),
        ("psi.catalog/features", "What a client may ask for in the handshake."),
        ("psi.op/name", "The op's name."),
        ("psi.op/doc", "What it does."),
        ("psi.op/access", "How it relates to a session: :connection, :read, :write or :urgent."),
        ("psi.op/params", "Its params: {:key :shape :required}."),
        ("psi.op/data-keys", "The keys of a response's data; those that end in ? may be absent."),
        ("psi.op/error-codes", "The error codes of its own."),
        ("psi.op/takes-session-id", "Whether it takes :session-id."),
        ("psi.topic/name", "The topic's name."),
        ("psi.topic/doc", "When it is emitted."),
        ("psi.topic/class", "What happens when the client is slow: :lossless, :coalescible or :latest."),
        ("psi.topic/required-keys", "The keys that its payload always has."),
        ("psi.topic/further-keys", "The keys that its payload may have."),
        ("psi.topic/is-sent-for-every-session", "Whether it is sent for sessions other than the focus."),
        ("psi.error/code", "The error's code."),
        ("psi.error/doc", "When it is sent."),
        ("psi.error/retryable", "Whether the same request may succeed later."),
        ("psi.command/name", "The command's name, without the slash."),
        ("psi.command/usage", "How it is written."),
        ("psi.command/doc", "What it does."),
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

fn op_by_name(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let name = inputs.text("psi.op/name");
    let found = OPS.iter().find(|spec| Some(spec.name) == name).map(op);
    let rest = OP.iter().skip(1);
    Ok(rest.filter_map(|name| Some((*name, found.as_ref()?.get_keyword(name)?.clone().into()))).collect())
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
