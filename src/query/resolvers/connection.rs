//! `:psi.connection/*`: the connections, their subscriptions, and how far behind they are.

use crate::message::{SessionId, count};
use crate::query::graph::{Answer, Cost, Env, Failure, Inputs, Namespace, Resolver, Run};
use crate::query::resolvers::{join, out};
use crate::query::world::ConnectionFacts;
use crate::session::Agreed;
use crate::value::{Map, Value};

const CONNECTION: &[&str] = &[
    "psi.connection/id",
    "psi.agent-session/session-id",
    "psi.connection/is-asking",
    "psi.connection/transport",
    "psi.connection/connected-at",
    "psi.connection/client-name",
    "psi.connection/client-version",
    "psi.connection/protocol-version",
    "psi.connection/features",
    "psi.connection/is-interactor",
    "psi.connection/topics",
    "psi.connection/pending",
    "psi.connection/outbox-waiting",
    "psi.connection/outbox-bytes",
    "psi.connection/seq",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        ("psi.connection/list", "The connections, oldest first; each leads to its focused session."),
        ("psi.connection/count", "The number of connections."),
        ("psi.connection/id", "The connection's number in the process."),
        ("psi.connection/is-asking", "Whether it sent this query."),
        (
            "psi.connection/transport",
            "Its transport: :stdio, :socket, or :memory within a program; nil without one.",
        ),
        ("psi.connection/connected-at", "When it connected, RFC 3339 in UTC, or nil."),
        (
            "psi.connection/client-name",
            "The client's name for itself, up to 128 bytes; nil before the handshake.",
        ),
        (
            "psi.connection/client-version",
            "The client's version, as it reported it; nil before the handshake.",
        ),
        ("psi.connection/protocol-version", "The agreed version of the protocol; nil before the handshake."),
        ("psi.connection/features", "The agreed features; nil before the handshake."),
        ("psi.connection/is-interactor", "Whether it answers typed questions."),
        ("psi.connection/topics", "Its subscribed topics."),
        ("psi.connection/pending", "The number of its pending requests."),
        ("psi.connection/outbox-waiting", "Events that wait for it, unencoded."),
        ("psi.connection/outbox-bytes", "Bytes that wait for it, encoded or not."),
        ("psi.connection/seq", "The number of the last event that was encoded for it."),
    ],
    resolvers: &[Resolver {
        name: "psi.connection/list",
        input: &[],
        output: &[join("psi.connection/list", CONNECTION), out("psi.connection/count")],
        cost: Cost::Ready,
        run: Run::One(list),
    }],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let connections = env.world.connections();
    Ok(vec![
        ("psi.connection/count", connections.len().into()),
        ("psi.connection/list", Value::vector(connections.into_iter().map(map)).into()),
    ])
}

fn map(facts: ConnectionFacts) -> Value<'static> {
    let mut map = Map::new();
    map.put("psi.connection/id", count(facts.id));
    map.put_some("psi.agent-session/session-id", facts.session.as_ref().map(SessionId::to_value));
    let agreed = facts.peer.agreed.clone();
    let agreed = agreed.as_deref();
    let text = |of: fn(&Agreed) -> &str| Value::from(agreed.map(|agreed| of(agreed).to_owned()));
    let features = |agreed: &Agreed| Value::vector(agreed.features.iter().map(|name| Value::from(*name)));
    let carried = Some(facts.peer.transport).filter(|transport| !transport.is_empty());
    map.put("psi.connection/is-asking", facts.asks);
    map.put("psi.connection/transport", carried.map(Value::keyword));
    let since = Some(facts.peer.since).filter(|since| !since.is_empty());
    map.put("psi.connection/connected-at", since.map(|since| Value::from(since.to_string())));
    map.put("psi.connection/client-name", text(|agreed| &agreed.name));
    map.put("psi.connection/client-version", text(|agreed| &agreed.version));
    map.put("psi.connection/protocol-version", text(|agreed| &agreed.protocol_version));
    map.put("psi.connection/features", agreed.map(features));
    map.put("psi.connection/is-interactor", facts.interactor);
    map.put("psi.connection/topics", Value::vector(facts.topics.into_iter().map(Value::from)));
    map.put("psi.connection/pending", facts.standing.pending);
    map.put("psi.connection/outbox-waiting", facts.standing.waiting);
    map.put("psi.connection/outbox-bytes", facts.standing.bytes);
    map.put("psi.connection/seq", count(facts.standing.seq));
    Value::from(map)
}
