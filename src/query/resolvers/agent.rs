//! `:psi.agent/agents` and `:psi.agent/*`: the external agents that can answer turns in the session's folder. Starts
//! none.

use crate::facts::agent::ListedAgent;
use crate::query::graph::{Input, Resolver};
use crate::query::table::{join, rest, table, text};
use crate::value::Value;

table! {
    AGENT of ListedAgent {
        "psi.agent/name" "The agent's name in the configuration." => |agent| text(&agent.name);
        "psi.agent/source" "Who configured it: :user or :project." => |agent| Value::keyword(agent.source);
        "psi.agent/command" "Its command line, without what may be a secret." => |agent| text(&agent.command);
        "psi.agent/trusted" "Whether it may be started without a further question about it." => |agent| agent.trusted;
        "psi.agent/sandbox" "Whether it is to run in the sandbox." => |agent| agent.sandbox;
        "psi.agent/usual" "Whether new sessions have it." => |agent| agent.usual;
        "psi.agent/state" "Its state: :refused, :idle, :starting, :ready, :failed or :given-up."
            => |agent| Value::keyword(agent.state);
        "psi.agent/info" "Its own name and version, or nil while it does not run."
            => |agent| agent.info.as_deref().map(str::to_owned);
        "psi.agent/last-error" "Why it cannot be started, or how its last process ended, or nil."
            => |agent| agent.last_error.as_deref().map(str::to_owned);
        "psi.agent/sessions" "The ids of the open sessions whose turns it answers."
            => |agent| Value::vector(agent.sessions.iter().map(|id| id.to_value()));
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.agent/agents",
        &[],
        &[join(
            "psi.agent/agents",
            "The agents that can answer the turns of a new session, by name.",
            AGENT.outputs,
        )],
        |env, _| AGENT.list("psi.agent/agents", &env.world.agents()),
    ),
    Resolver::batch(
        "psi.agent/by-name",
        &[Input::Required("psi.agent/name")],
        rest(AGENT.outputs),
        |env, inputs| AGENT.lookup(inputs, &env.world.agents()),
    ),
];
