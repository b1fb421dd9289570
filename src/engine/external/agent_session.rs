//! A session of ours with its session at an agent, and what the agent has told of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::watch;

use crate::agent::{AgentConnection, AgentFault, AgentSetup, SessionNews};
use crate::facts::agent::{AgentFacts, AgentValue};
use crate::value::Value;

/// A session with its session at an agent.
pub(super) struct OpenAgentSession {
    pub(super) setup: AgentSetup,
    pub(super) connection: Arc<AgentConnection>,
    /// The session's id at the agent.
    pub(super) id: Arc<str>,
    /// What the agent has told of it.
    pub(super) told: watch::Sender<AgentFacts>,
    /// The latest turn ended with an error: the agent's process may be about to end.
    pub(super) has_failed: AtomicBool,
}

impl OpenAgentSession {
    /// What the agent has told of the session.
    pub(super) fn facts(&self) -> AgentFacts {
        self.told.borrow().clone()
    }

    /// Chooses a value of an option at the agent, and takes in what that has changed.
    ///
    /// # Errors
    /// See [`AgentFault`].
    pub(super) async fn choose(&self, option: &str, value: &Value<'_>) -> Result<(), AgentFault> {
        let chosen = self.connection.set_option(&self.id, option, value).await?;
        let options = chosen.unwrap_or_else(|| {
            let mut options = self.facts().options.to_vec();
            options.iter_mut().filter(|known| *known.id == *option).for_each(|known| known.set(value));
            options
        });
        Self::hear(&self.told, SessionNews::Options(options));
        Ok(())
    }

    /// Takes in what the agent tells of the session.
    pub(super) fn hear(told: &watch::Sender<AgentFacts>, news: SessionNews) {
        told.send_modify(|facts| {
            facts.version = facts.version.saturating_add(1);
            match news {
                SessionNews::Commands(commands) => facts.commands = commands.into(),
                SessionNews::Options(options) => facts.options = options.into(),
                SessionNews::Mode(mode) => {
                    let mut options = facts.options.to_vec();
                    let of_mode =
                        options.iter_mut().find(|option| option.category.as_deref() == Some("mode"));
                    if let Some(AgentValue::Choice { current, .. }) = of_mode.map(|option| &mut option.value)
                    {
                        *current = mode;
                    }
                    facts.options = options.into();
                }
                SessionNews::Plan(steps) => facts.plan = steps.into(),
                SessionNews::Title(title) => facts.title = Some(title),
                SessionNews::Usage { used, size, cost } => {
                    facts.window = Some((used, size));
                    facts.cost = cost.or(facts.cost);
                }
            }
        });
    }
}
