//! External agents as EDN data.

use crate::facts::agent::ListedAgent;
use crate::value::{Map, Value};

/// An agent of a configuration.
pub fn agent(agent: &ListedAgent) -> Map<'_> {
    let mut map = Map::new();
    map.put("name", agent.name.as_ref());
    map.put("source", agent.source);
    map.put("command", agent.command.as_ref());
    map.put("trusted", agent.trusted);
    map.put("sandbox", agent.sandbox);
    map.put("usual", agent.usual);
    map.put("state", agent.state);
    map.put_some("info", agent.info.as_deref());
    map.put_some("last-error", agent.last_error.as_deref());
    map.put("sessions", Value::vector(agent.sessions.iter().map(|id| Value::from(id.as_str()))));
    map
}
