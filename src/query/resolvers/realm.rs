//! `:psi.realm/*`, `:psi.realm-session/*` and `:psi.realm-host/*`: what this process knows of the realm that it is in. The
//! engine is asked for the hosts alone, because it judges the leases.

use crate::facts::{HostFacts, Slot};
use crate::message::count;
use crate::query::graph::Resolver;
use crate::query::plan::Cost;
use crate::query::table::{join, out, table, text};

table! {
    SESSION of Slot {
        "psi.realm-session/id" "The session's id. Switching to it makes a copy on this machine." => |slot| slot.id.as_str().to_owned();
        "psi.realm-session/host" "The host that owns it; empty if none does." => |slot| text(slot.host.as_deref().unwrap_or_default());
        "psi.realm-session/owner-lost" "Whether that host is lost." => |slot| slot.owner_lost;
        "psi.realm-session/name" "Its name, or the start of its first message." => |slot| text(slot.display_name());
        "psi.realm-session/worktree-path" "Its folder at that host." => |slot| text(&slot.cwd);
        "psi.realm-session/is-streaming" "Whether a turn runs in it." => |slot| slot.is_streaming;
    }
}

table! {
    HOST of HostFacts {
        "psi.realm-host/name" "The host's name." => |host| text(&host.name);
        "psi.realm-host/build" "The build of its program." => |host| text(&host.build);
        "psi.realm-host/is-alive" "Whether its lease holds, by the engine's clock." => |host| host.is_alive;
        "psi.realm-host/lost-ms" "Milliseconds since the end of its lease, by the engine's clock; 0 while it holds." => |host| count(host.lost_ms);
        "psi.realm-host/sessions" "The number of sessions of the realm that it owns." => |host| count(host.sessions);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.realm/host",
        &[],
        &[out("psi.realm/host", "This host's name in its realm, or nil if it is in none.")],
        |env, _| {
            let host = env.world.realm_host();
            Ok(vec![("psi.realm/host", host.as_deref().map(text).into())])
        },
    ),
    Resolver::one(
        "psi.realm/away-ms",
        &[],
        &[out(
            "psi.realm/away-ms",
            "Milliseconds since the engine of the realm was found to be away; 0 while it is there. What is shown of other \
             hosts' sessions may be older by as much.",
        )],
        |env, _| {
            let away = env.world.realm_away().unwrap_or_default();
            let millis = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
            Ok(vec![("psi.realm/away-ms", count(millis).into())])
        },
    ),
    Resolver::one(
        "psi.realm/sessions",
        &[],
        &[join(
            "psi.realm/sessions",
            "The sessions of the realm, of all its hosts, the last changed first.",
            SESSION.outputs,
        )],
        |env, _| SESSION.list("psi.realm/sessions", env.world.realm_sessions().iter()),
    ),
    Resolver::one(
        "psi.realm/hosts",
        &[],
        &[join(
            "psi.realm/hosts",
            "The hosts of the realm, by name, as its engine knows them now; empty if this host is in none.",
            HOST.outputs,
        )],
        |env, _| HOST.list("psi.realm/hosts", env.world.realm_hosts()?.iter()),
    )
    .costing(Cost::Slow),
];
