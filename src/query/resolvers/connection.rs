//! `:psi.connection/*`: the connections, their subscriptions, and how far behind they are. Knows the facts of a
//! connection, not its wire.

use crate::message::count;
use crate::query::graph::Resolver;
use crate::query::table::{join, out, table, text, texts};
use crate::query::world::ConnectionFacts;
use crate::session::Agreed;
use crate::value::Value;

table! {
    CONNECTION of ConnectionFacts {
        "psi.connection/id" "The connection's number in the process." => |c| count(c.id);
        "psi.agent-session/session-id" => |c| c.session.to_value();
        "psi.connection/is-asking" "Whether it sent this query." => |c| c.asks;
        "psi.connection/transport" "Its transport: :stdio, :socket, or :memory within a program; nil without one."
            => |c| Some(c.peer.transport).filter(|transport| !transport.is_empty()).map(Value::keyword);
        "psi.connection/connected-at" "When it connected, RFC 3339 in UTC, or nil."
            => |c| Some(&c.peer.since).filter(|since| !since.is_empty()).map(|since| text(since));
        "psi.connection/client-name" "The client's name for itself, up to 128 bytes; nil before the handshake."
            => |c| agreed(c, |agreed| text(&agreed.name));
        "psi.connection/client-version" "The client's version, as it reported it; nil before the handshake."
            => |c| agreed(c, |agreed| text(&agreed.version));
        "psi.connection/protocol-version" "The agreed version of the protocol; nil before the handshake."
            => |c| agreed(c, |agreed| text(&agreed.protocol_version));
        "psi.connection/features" "The agreed features; nil before the handshake."
            => |c| agreed(c, |agreed| texts(&agreed.features));
        "psi.connection/is-interactor" "Whether it answers typed questions." => |c| c.interactor;
        "psi.connection/topics" "Its subscribed topics." => |c| texts(&c.topics);
        "psi.connection/pending" "The number of its pending requests." => |c| c.standing.pending;
        "psi.connection/outbox-waiting" "Events that wait for it, unencoded." => |c| c.standing.waiting;
        "psi.connection/outbox-bytes" "Bytes that wait for it, encoded or not." => |c| c.standing.bytes;
        "psi.connection/seq" "The number of the last event that was encoded for it." => |c| count(c.standing.seq);
    }
}

pub(super) const PART: &[Resolver] = &[Resolver::one(
    "psi.connection/list",
    &[],
    &[
        join(
            "psi.connection/list",
            "The connections, oldest first; each leads to its focused session.",
            CONNECTION.outputs,
        ),
        out("psi.connection/count", "The number of connections."),
    ],
    |env, _| {
        let all = env.world.connections();
        Ok(vec![
            ("psi.connection/count", all.len().into()),
            ("psi.connection/list", CONNECTION.entities(&all).into()),
        ])
    },
)];

fn agreed(connection: &ConnectionFacts, part: fn(&Agreed) -> Value<'static>) -> Option<Value<'static>> {
    connection.peer.agreed.as_deref().map(part)
}
