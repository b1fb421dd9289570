//! `:psi.session/*` and `:psi.session-info/*`: the sessions, live and on disk.

use std::collections::HashMap;

use crate::limits::QUERY_SESSIONS;
use crate::query::graph::{
    Answer, Cost, Datum, Env, Failure, Handle, Input, Inputs, Namespace, Resolver, Run, SESSION,
};
use crate::query::resolvers::{join, out};
use crate::query::world::SessionInfo;
use crate::value::{Map, Value};

const INFO: &[&str] = &[
    "psi.session-info/id",
    "psi.session-info/path",
    "psi.session-info/name",
    "psi.session-info/worktree-path",
    "psi.session-info/first-message",
    "psi.session-info/modified",
    "psi.session-info/message-count",
    "psi.session-info/created-at",
    "psi.session-info/parent-id",
    "psi.session-info/is-live",
];

pub(super) const PART: Namespace = Namespace {
    attributes: &[
        (
            "psi.session/list",
            "The project's sessions, live and on disk, newest first; :scope \"all\" selects every project, :limit the newest.",
        ),
        ("psi.session/live", "The live sessions of this process, oldest first."),
        ("psi.session-info/id", "The session's id."),
        ("psi.session-info/path", "Its journal's path, or nil before the first entry."),
        ("psi.session-info/name", "The name from the person, or nil."),
        ("psi.session-info/worktree-path", "Its working folder."),
        ("psi.session-info/first-message", "The start of the first message, or nil."),
        ("psi.session-info/modified", "The time of the last write, RFC 3339 in UTC, or nil."),
        (
            "psi.session-info/message-count",
            "Messages on its branch, or nil if only reading the whole file would tell.",
        ),
        ("psi.session-info/created-at", "When it was opened, RFC 3339 in UTC."),
        ("psi.session-info/parent-id", "The session from which it was forked, or nil."),
        ("psi.session-info/is-live", "Whether it is live in this process."),
    ],
    resolvers: &[
        Resolver {
            name: "psi.session/list",
            input: &[],
            output: &[join("psi.session/list", INFO)],
            cost: Cost::Slow,
            run: Run::One(list),
        },
        Resolver {
            name: "psi.session/live",
            input: &[],
            output: &[join("psi.session/live", &[SESSION])],
            cost: Cost::Ready,
            run: Run::One(live),
        },
        Resolver {
            name: "psi.session-info/session",
            input: &[Input::Required("psi.session-info/id")],
            output: &[out("psi.agent-session/session-id")],
            cost: Cost::Ready,
            run: Run::One(session),
        },
        Resolver {
            name: "psi.session-info/by-id",
            input: &[Input::Required("psi.session-info/id")],
            output: &[
                out("psi.session-info/path"),
                out("psi.session-info/name"),
                out("psi.session-info/worktree-path"),
                out("psi.session-info/first-message"),
                out("psi.session-info/modified"),
                out("psi.session-info/message-count"),
                out("psi.session-info/created-at"),
                out("psi.session-info/parent-id"),
                out("psi.session-info/is-live"),
            ],
            cost: Cost::Slow,
            run: Run::Batch(by_id),
        },
    ],
    mutations: &[],
};

fn list(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let limit = env.count("limit")?.unwrap_or(QUERY_SESSIONS);
    let all = match env.text("scope") {
        None | Some("project") => false,
        Some("all") => true,
        Some(other) => {
            return Err(Failure::new(format!(
                "The param :scope must be \"project\" or \"all\", not {other:?}."
            )));
        }
    };
    let infos = env.world.list(all, limit)?.into_iter().map(|info| Value::from(map(info)));
    Ok(vec![("psi.session/list", Value::vector(infos).into())])
}

fn live(env: &Env<'_>, _: &Inputs<'_>) -> Result<Answer, Failure> {
    let nodes = env.world.live().into_iter().map(Handle::Session).collect();
    Ok(vec![("psi.session/live", Datum::Nodes(nodes))])
}

fn session(_: &Env<'_>, inputs: &Inputs<'_>) -> Result<Answer, Failure> {
    let id = inputs.value("psi.session-info/id").cloned();
    Ok(id.map(|id| ("psi.agent-session/session-id", id.into())).into_iter().collect())
}

/// Reads the list once for all requested sessions.
fn by_id(env: &Env<'_>, inputs: &[Inputs<'_>]) -> Vec<Result<Answer, Failure>> {
    let infos = match env.world.list(true, usize::MAX) {
        Ok(infos) => infos,
        Err(failure) => return inputs.iter().map(|_| Err(failure.clone())).collect(),
    };
    let infos: HashMap<&str, &SessionInfo> = infos.iter().map(|info| (info.id.as_str(), info)).collect();
    let answer = |inputs: &Inputs<'_>| {
        let info = inputs.text("psi.session-info/id").and_then(|id| infos.get(id));
        let info = info.map(|info| map((*info).clone()));
        let names = INFO.iter().skip(1);
        Ok(names.filter_map(|name| Some((*name, info.as_ref()?.get_keyword(name)?.clone().into()))).collect())
    };
    inputs.iter().map(answer).collect()
}

fn map(info: SessionInfo) -> Map<'static> {
    let mut map = Map::new();
    map.put("psi.session-info/id", info.id);
    map.put("psi.session-info/path", info.path);
    map.put("psi.session-info/name", info.name);
    map.put("psi.session-info/worktree-path", info.worktree_path);
    map.put("psi.session-info/first-message", info.first_message);
    map.put("psi.session-info/modified", info.modified);
    map.put("psi.session-info/message-count", info.message_count.map(Value::from));
    map.put("psi.session-info/created-at", info.created_at);
    map.put("psi.session-info/parent-id", info.parent);
    map.put("psi.session-info/is-live", info.live);
    map
}
