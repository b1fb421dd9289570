//! `:psi.session/*` and `:psi.session-info/*`: the sessions, live and on disk. Opens none.

use crate::limits::QUERY_SESSIONS;
use crate::query::datum::{Datum, KnownEntity, SESSION};
use crate::query::graph::{Env, Input, Inputs, Resolver, ResolverResult};
use crate::query::plan::Cost;
use crate::query::table::{join, out, rest, table, text};
use crate::query::world::{ResolverFailure, SessionRow};

table! {
    INFO of SessionRow {
        "psi.session-info/id" "The session's id." => |i| text(&i.id);
        "psi.session-info/path" "Its journal's path, or nil before the first entry." => |i| i.location.as_deref().map(text);
        "psi.session-info/name" "The name from the person, or nil." => |i| i.name.as_deref().map(text);
        "psi.session-info/worktree-path" "Its working folder." => |i| text(&i.worktree_path);
        "psi.session-info/first-message" "The start of the first message, or nil." => |i| i.first_message.as_deref().map(text);
        "psi.session-info/modified" "The time of the last write, RFC 3339 in UTC, or nil." => |i| i.modified.as_deref().map(text);
        "psi.session-info/message-count" "Messages on its branch, or nil if only reading the whole file would tell." => |i| i.message_count;
        "psi.session-info/created-at" "When it was opened, RFC 3339 in UTC." => |i| text(&i.created_at);
        "psi.session-info/parent-id" "The session from which it was forked, or nil." => |i| i.parent.as_deref().map(text);
        "psi.session-info/is-live" "Whether it is live in this process." => |i| i.live;
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.session/list",
        &[],
        &[join(
            "psi.session/list",
            "The project's sessions, live and on disk, newest first; :scope \"all\" selects every project, :limit the newest.",
            INFO.outputs,
        )],
        list,
    )
    .costing(Cost::Slow),
    Resolver::one(
        "psi.session/live",
        &[],
        &[join(
            "psi.session/live",
            "The live sessions of this process, oldest first.",
            &[out(SESSION, "")],
        )],
        |env, _| {
            let nodes = env.world.live().into_iter().map(KnownEntity::Session).collect();
            Ok(vec![("psi.session/live", Datum::Nodes(nodes))])
        },
    ),
    Resolver::one(
        "psi.session-info/session",
        ID,
        &[out("psi.agent-session/session-id", "")],
        |_, inputs| {
            let id = inputs.value("psi.session-info/id").cloned();
            Ok(id.map(|id| ("psi.agent-session/session-id", id.into())).into_iter().collect())
        },
    ),
    // Reads the list once for all requested sessions.
    Resolver::batch("psi.session-info/by-id", ID, rest(INFO.outputs), |env, inputs| {
        match env.world.list(true, usize::MAX) {
            Ok(infos) => INFO.lookup(inputs, &infos),
            Err(failure) => inputs.iter().map(|_| Err(failure.clone())).collect(),
        }
    })
    .costing(Cost::Slow),
];

const ID: &[Input] = &[Input::Required("psi.session-info/id")];

fn list(env: &Env<'_>, _: &Inputs<'_>) -> ResolverResult {
    let limit = env.count("limit")?.unwrap_or(QUERY_SESSIONS);
    let all = match env.text("scope") {
        None | Some("project") => false,
        Some("all") => true,
        Some(other) => {
            return Err(ResolverFailure::new(format!(
                "The param :scope must be \"project\" or \"all\", not {other:?}."
            )));
        }
    };
    INFO.list("psi.session/list", &env.world.list(all, limit)?)
}
