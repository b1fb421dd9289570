//! `:psi.realm/*` and `:psi.realm-session/*`: what this process knows of the realm that it is in. Asks no engine.

use crate::facts::Slot;
use crate::query::graph::Resolver;
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
        "psi.realm/sessions",
        &[],
        &[join(
            "psi.realm/sessions",
            "The sessions of the realm, of all its hosts, the last changed first.",
            SESSION.outputs,
        )],
        |env, _| SESSION.list("psi.realm/sessions", env.world.realm_sessions().iter()),
    ),
];
