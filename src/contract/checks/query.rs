//! Checks of `query_eql` and of the attributes on which frontends rely.

use super::super::check::{Check, Need, Probe, Stop, ensure};
use super::super::peer::Peer;
use super::sessions::talk;
use crate::edn;
use crate::value::Value;

/// The session attributes on which frontends rely, without their namespace `psi.agent-session`.
pub const SESSION_ATTRIBUTES: &[&str] = &[
    "session-id",
    "session-name",
    "session-display-name",
    "session-file",
    "worktree-path",
    "git-branch",
    "phase",
    "is-streaming",
    "is-compacting",
    "model",
    "model-provider",
    "model-id",
    "model-reasoning",
    "thinking-level",
    "effective-reasoning-effort",
    "model-catalog",
    "authenticated-providers",
    "prompt-templates",
    "messages",
    "message-count",
    "usage-input",
    "usage-output",
    "usage-cache-read",
    "usage-cache-write",
    "usage-cost-total",
    "context-fraction",
    "context-window",
    "auto-compaction-enabled",
    "auto-retry-enabled",
    "tool-lifecycle-summaries",
    "system-prompt",
    "parent-session-id",
    "created-at",
];

/// The attributes of a turn, without `psi.turn`.
pub const TURN_ATTRIBUTES: &[&str] = &["phase", "is-streaming", "text", "tool-calls", "tool-call-count"];

/// Root attributes outside a session, with their namespaces.
pub const ROOT_ATTRIBUTES: &[&str] = &["psi.session/list", "psi.extension/command-names", "psi.ui/statuses"];

/// Joined under `:psi.session/list`, without `psi.session-info`.
pub const SESSION_INFO_ATTRIBUTES: &[&str] =
    &["path", "name", "worktree-path", "first-message", "modified", "id", "message-count"];

/// Joined under `:psi.agent-session/tool-lifecycle-summaries`, without `psi.tool-lifecycle.summary`.
pub const TOOL_SUMMARY_ATTRIBUTES: &[&str] =
    &["tool-id", "tool-name", "arguments", "parsed-args", "result-text", "is-error", "completed?"];

/// The graph's description of itself, without `psi.graph`.
pub const GRAPH_ATTRIBUTES: &[&str] = &[
    "root-seeds",
    "root-queryable-attrs",
    "resolver-count",
    "mutation-count",
    "resolver-syms",
    "mutation-syms",
    "env-built",
    "nodes",
    "edges",
    "capabilities",
    "domain-coverage",
];

/// The notes of `/remember`, without `psi.memory`.
pub const MEMORY_ATTRIBUTES: &[&str] = &["status", "entries", "entry-count", "search-results", "index-stats"];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "query.answer",
        about: "A query that is a vector of attributes returns a map of them under :result.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            let result = result(&mut peer, "[:psi.agent-session/session-id :psi.agent-session/phase]")?;
            let id = result.get("psi.agent-session/session-id").and_then(Value::as_str).map(str::to_owned);
            let focus = super::events::session_of(&mut peer)?;
            ensure(id.as_deref() == Some(focus.as_str()), || format!("the session's id is told as {id:?}"))?;
            ensure(result.get("psi.agent-session/phase").is_some(), || "the phase is missing".to_owned())
        },
    },
    Check {
        name: "query.not-a-string",
        about: "A query that is not a string is request/invalid-params.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            for query in ["[:a]", "42", "nil"] {
                peer.ask_error("query_eql", &format!("{{:query {query}}}"), "request/invalid-params")?;
            }
            Ok(())
        },
    },
    Check {
        name: "query.not-edn",
        about: "A query that is not EDN is request/invalid-query.",
        needs: QUERY,
        run: |probe| invalid(probe, &["", "[:a", "[:a]]", "[:a] [:b]", "{:a}"]),
    },
    Check {
        name: "query.not-a-vector",
        about: "A query that is not a vector is request/invalid-query.",
        needs: QUERY,
        run: |probe| invalid(probe, &[":a", "{:a 1}", "42", "nil", "\"[:a]\""]),
    },
    Check {
        name: "query.not-eql",
        about: "A vector that is not a query is request/invalid-query.",
        needs: QUERY,
        run: |probe| invalid(probe, &["[42]", "[\"a\"]", "[{:a}]", "[{:a \"x\"}]", "[{42 [:a]}]"]),
    },
    Check {
        name: "query.missing",
        about: "An attribute that cannot be resolved is absent from :result and listed in :missing; the others are present.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            let data =
                peer.ask_ok("query_eql", &params("[:no.such/attribute :psi.agent-session/session-id]", ""))?;
            let result = data.get("result").cloned().unwrap_or(Value::Nil);
            ensure(result.get("no.such/attribute").is_none(), || "it stands in :result".to_owned())?;
            ensure(result.get("psi.agent-session/session-id").is_some(), || {
                "the other one is lost too".to_owned()
            })?;
            match data.get("missing") {
                None => {
                    probe.note("`query_eql` does not name what is missing.");
                    Ok(())
                }
                Some(missing) => {
                    let told = edn::to_string(missing);
                    ensure(told.contains(":no.such/attribute"), || format!(":missing is {told}"))
                }
            }
        },
    },
    Check {
        name: "query.nothing-missing",
        about: "If everything is resolved, :missing is absent or empty, strict or not.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            for extra in ["", ":strict true", ":strict false"] {
                let data = peer.ask_ok("query_eql", &params("[:psi.agent-session/session-id]", extra))?;
                let missing = data.get("missing").and_then(Value::as_slice).map_or(0, <[_]>::len);
                ensure(missing == 0, || format!("{missing} attributes are told as missing"))?;
            }
            Ok(())
        },
    },
    Check {
        name: "query.strict",
        about: "With :strict true a missing attribute is runtime/query-failed.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            let strict = params("[:no.such/attribute]", ":strict true");
            peer.ask_error("query_eql", &strict, "runtime/query-failed").map(|_| ())
        },
    },
    Check {
        name: "query.entity",
        about: ":entity is an EDN map as a string: the initially known attributes.",
        needs: QUERY,
        run: |probe| {
            let mut peer = probe.ready()?;
            let focus = super::events::session_of(&mut peer)?;
            let entity = edn::to_string(&Value::from(format!("{{:psi.session-info/id {focus:?}}}")));
            let data =
                peer.ask_ok("query_eql", &params("[:psi.session-info/id]", &format!(":entity {entity}")))?;
            let told = data
                .get("result")
                .and_then(|r| r.get("psi.session-info/id"))
                .and_then(Value::as_str)
                .map(str::to_owned);
            ensure(told.as_deref() == Some(focus.as_str()), || {
                format!("what was given is told as {told:?}")
            })?;
            for entity in ["\"42\"", "\"{\""] {
                let params = params("[:psi.session-info/id]", &format!(":entity {entity}"));
                if let super::super::peer::Answer::Ok(_) = peer.ask("query_eql", &params)? {
                    return Err(Stop::failed("an entity that is not a map is taken"));
                }
            }
            Ok(())
        },
    },
    Check {
        name: "query.session-attributes",
        about: "Every session attribute on which frontends rely resolves.",
        needs: QUERY,
        run: |probe| resolves(probe, "psi.agent-session", SESSION_ATTRIBUTES),
    },
    Check {
        name: "query.turn-attributes",
        about: "Every turn attribute on which frontends rely resolves.",
        needs: QUERY,
        run: |probe| resolves(probe, "psi.turn", TURN_ATTRIBUTES),
    },
    Check {
        name: "query.root-attributes",
        about: "The root attributes outside a session resolve.",
        needs: QUERY,
        run: |probe| resolves(probe, "", ROOT_ATTRIBUTES),
    },
    Check {
        name: "query.session-list",
        about: "A join of the session list returns a vector of maps, each with the requested attributes.",
        needs: &[Need::Op("query_eql"), Need::Op("prompt")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            talk(&mut peer, "listed")?;
            joined(&mut peer, "psi.session/list", "psi.session-info", SESSION_INFO_ATTRIBUTES)
        },
    },
    Check {
        name: "query.tool-summaries",
        about: "A join of a session's tool calls returns a vector of maps, each with the requested attributes.",
        needs: &[Need::Script, Need::Op("query_eql"), Need::Op("prompt"), Need::Op("set_mode")],
        run: |probe| {
            let mut peer = probe.subscribed(Some(super::tools::ECHO_CALL))?;
            peer.ask_ok("set_mode", "{:mode \"yolo\"}")?;
            talk(&mut peer, "call")?;
            joined(
                &mut peer,
                "psi.agent-session/tool-lifecycle-summaries",
                "psi.tool-lifecycle.summary",
                TOOL_SUMMARY_ATTRIBUTES,
            )
        },
    },
    Check {
        name: "query.graph",
        about: "The graph describes itself, and its counts are those of its lists.",
        needs: QUERY,
        run: |probe| {
            resolves(probe, "psi.graph", GRAPH_ATTRIBUTES)?;
            let mut peer = probe.ready()?;
            let result = result(
                &mut peer,
                "[:psi.graph/resolver-count :psi.graph/resolver-syms :psi.graph/mutation-count :psi.graph/mutation-syms :psi.graph/nodes]",
            )?;
            let size = |key: &str| {
                let value = result.get(key)?;
                let length = value
                    .as_slice()
                    .map(<[_]>::len)
                    .or_else(|| value.as_set().map(crate::value::Set::len))?;
                i64::try_from(length).ok()
            };
            for kind in ["resolver", "mutation"] {
                let count = result.get(&format!("psi.graph/{kind}-count")).and_then(Value::as_i64);
                let listed = size(&format!("psi.graph/{kind}-syms"));
                ensure(count.is_some() && count == listed, || {
                    format!("{kind}s: {count:?} counted, {listed:?} listed")
                })?;
            }
            ensure(size("psi.graph/nodes").is_some_and(|nodes| nodes > 0), || "there are no nodes".to_owned())
        },
    },
    Check {
        name: "query.memory",
        about: "Notes can be queried.",
        needs: QUERY,
        run: |probe| resolves(probe, "psi.memory", MEMORY_ATTRIBUTES),
    },
    Check {
        name: "query.remembered",
        about: "A query finds the notes of /remember.",
        needs: &[Need::Op("query_eql"), Need::Op("command")],
        run: |probe| {
            let mut peer = probe.subscribed(None)?;
            peer.ask_ok("command", "{:text \"/remember the contract was here\"}")?;
            peer.topic("command-result")?;
            let result = result(&mut peer, "[:psi.memory/entries :psi.memory/entry-count]")?;
            let told = edn::to_string(&result);
            ensure(told.contains("the contract was here"), || format!("the memory is {told}"))
        },
    },
];

const QUERY: &[Need] = &[Need::Op("query_eql")];

/// Params of `query_eql`.
fn params(query: &str, extra: &str) -> String {
    format!("{{:query {} {extra}}}", edn::to_string(&Value::from(query)))
}

/// `:result` of a query.
fn result(peer: &mut Peer, query: &str) -> Result<Value<'static>, Stop> {
    let data = peer.ask_ok("query_eql", &params(query, ""))?;
    data.get("result")
        .filter(|result| result.as_map().is_some())
        .cloned()
        .ok_or_else(|| Stop::failed(":result is not a map"))
}

fn invalid(probe: &Probe<'_>, queries: &[&str]) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    for query in queries {
        peer.ask_error("query_eql", &params(query, ""), "request/invalid-query")?;
    }
    peer.barrier()
}

fn qualified(namespace: &str, names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| if namespace.is_empty() { (*name).to_owned() } else { format!("{namespace}/{name}") })
        .collect()
}

fn resolves(probe: &Probe<'_>, namespace: &str, names: &[&str]) -> Result<(), Stop> {
    let mut peer = probe.ready()?;
    let attributes = qualified(namespace, names);
    let query: Vec<String> = attributes.iter().map(|name| format!(":{name}")).collect();
    let result = result(&mut peer, &format!("[{}]", query.join(" ")))?;
    let absent: Vec<&String> = attributes.iter().filter(|name| result.get(name).is_none()).collect();
    ensure(absent.is_empty(), || format!("not resolved: {absent:?}"))
}

fn joined(peer: &mut Peer, join: &str, namespace: &str, names: &[&str]) -> Result<(), Stop> {
    let attributes = qualified(namespace, names);
    let inner: Vec<String> = attributes.iter().map(|name| format!(":{name}")).collect();
    let result = result(peer, &format!("[{{:{join} [{}]}}]", inner.join(" ")))?;
    let items = result
        .get(join)
        .and_then(Value::as_slice)
        .ok_or_else(|| Stop::failed(format!(":{join} is not a vector")))?;
    ensure(!items.is_empty(), || format!(":{join} is empty"))?;
    for item in items {
        let absent: Vec<&String> = attributes.iter().filter(|name| item.get(name).is_none()).collect();
        ensure(absent.is_empty(), || format!("an item lacks {absent:?}"))?;
    }
    Ok(())
}
