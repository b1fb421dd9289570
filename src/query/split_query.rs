//! A query of a session of another host in two parts: what only that host knows, and the rest. Asks nobody.

use crate::query::ast::{Element, Key, Query};
use crate::query::parse;
use crate::session::GraphQuery;
use crate::value::Value;

/// The namespaces whose attributes only the session's host knows: what runs there, and what is in its folders.
const NAMESPACES: &[&str] = &[
    "psi.job",
    "psi.tool",
    "psi.mcp",
    "psi.hook",
    "psi.workflow",
    "psi.agent",
    "psi.memory",
    "psi.ui",
    "psi.extension",
    "git.repo",
    "git.worktree",
];

/// Attributes of other namespaces that only the session's host knows.
const ATTRIBUTES: &[&str] = &[
    "psi.agent-session/jobs",
    "psi.agent-session/system-prompt",
    "psi.agent-session/prompt-parts",
    "psi.agent-session/skills",
    "psi.agent-session/rules",
    "psi.agent-session/context-problems",
    "psi.agent-session/is-compacting",
    "psi.agent-session/retry-attempt",
    "psi.agent-session/retry-deadline-ms",
    "psi.agent-session/interrupt-pending",
    "psi.turn/stage",
    "psi.turn/point",
];

/// A query in two parts.
#[derive(Debug)]
pub struct SplitQuery {
    /// What the session's host is asked.
    pub theirs: GraphQuery,
    /// The keys of its answer.
    pub keys: Vec<Value<'static>>,
    /// What is left. Asks of other entities are among it.
    pub ours: GraphQuery,
}

/// A query in parts; `None` if the session's host need not be asked.
pub fn parted(query: &GraphQuery) -> Option<SplitQuery> {
    let asks = parse::parse(&query.text).ok()?.asks;
    let (theirs, ours): (Vec<_>, Vec<_>) = asks.into_iter().partition(|ask| key_of_host(ask).is_some());
    let keys: Vec<_> = theirs.iter().filter_map(key_of_host).map(Key::result_key).collect();
    let with = |asks| GraphQuery { text: Query { asks }.to_string(), ..query.clone() };
    (!keys.is_empty()).then(|| SplitQuery { keys, theirs: with(theirs), ours: with(ours) })
}

/// Whether a query asks for nothing but what only the session's host knows. It changes nothing then.
pub fn is_of_host(query: &GraphQuery) -> bool {
    parse::parse(&query.text).is_ok_and(|query| query.asks.iter().all(|ask| key_of_host(ask).is_some()))
}

/// The key of an ask that only the session's host can answer.
fn key_of_host(ask: &Element) -> Option<&Key> {
    let (Element::Property { key, .. } | Element::Join { key, .. }) = ask else { return None };
    let (Key::Attribute(name) | Key::Link(name)) = key else { return None };
    let (namespace, _) = name.split_once('/')?;
    (NAMESPACES.contains(&namespace) || ATTRIBUTES.contains(&&**name)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::graph;

    #[test]
    fn attributes_of_the_host_are_in_the_graph() {
        let known: Vec<&str> = graph().attributes().map(|(_, name, _)| name).collect();
        for name in ATTRIBUTES {
            assert!(known.contains(name), "{name}");
        }
        for namespace in NAMESPACES {
            let is_of = |name: &&str| name.split_once('/').is_some_and(|(of, _)| of == *namespace);
            assert!(known.iter().any(is_of), "{namespace}");
        }
    }

    #[test]
    fn query_is_parted_by_who_knows_the_attribute() {
        let query = |text: &str| GraphQuery { text: text.to_owned(), entity: None, strict: true };
        assert!(
            parted(&query("[:psi.agent-session/session-id {[:psi.job/id \"j\"] [:psi.job/id]}]")).is_none()
        );
        let text = "[{:psi.agent-session/jobs [:psi.job/id]} :psi.realm/host (:psi.job/list {:limit 1}) (psi.job/cancel {})]";
        let SplitQuery { theirs, ours, keys } = parted(&query(text)).unwrap();
        assert!(parted(&ours).is_none(), "its host is asked once");
        assert_eq!(keys, ["psi.agent-session/jobs", "psi.job/list"].map(Value::keyword));
        assert_eq!(theirs.text, "[{:psi.agent-session/jobs [:psi.job/id]} (:psi.job/list {:limit 1})]");
        assert_eq!(ours.text, "[:psi.realm/host (psi.job/cancel {})]");
        assert!(is_of_host(&theirs) && !is_of_host(&ours));
        assert!(!is_of_host(&query("[(psi.job/cancel {})]")) && !is_of_host(&query("[")));
        assert!(theirs.strict && ours.strict);
    }
}
