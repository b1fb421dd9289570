//! What is known of the agent of a session. Every text of it is the agent's: data, bounded.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::SessionId;
use crate::value::{Map, Value};

/// The agent of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentFacts {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The session at the agent, once there is one.
    pub session: Option<Arc<str>>,
    /// Its own name and version, once it has said them.
    pub info: Option<Arc<str>>,
    /// What can be chosen at it.
    pub options: Arc<[AgentOption]>,
    /// What the person has chosen of that: the value of each option.
    pub chosen: Arc<[(Arc<str>, Value<'static>)]>,
    /// Its slash commands.
    pub commands: Arc<[AgentCommand]>,
    /// What it plans.
    pub plan: Arc<[AgentStep]>,
    /// Tokens in the model's window, and its size.
    pub window: Option<(u64, u64)>,
    /// The cost of the session so far, in US dollars.
    pub cost: Option<f64>,
    /// The title that it gave the session.
    pub title: Option<Arc<str>>,
    /// Counts the changes: an older one does not replace a newer one.
    pub version: u64,
}

/// An agent of a configuration, as clients see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedAgent {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// Who configured it: `user` or `project`.
    pub source: &'static str,
    /// Its command line, without what may be a secret.
    pub command: Arc<str>,
    /// Whether it may be started without a further question about it.
    pub trusted: bool,
    /// Whether it is to run in the sandbox.
    pub sandbox: bool,
    /// Whether new sessions have it.
    pub usual: bool,
    /// Its state in one word: `refused`, `idle`, `starting`, `ready`, `failed` or `given-up`.
    pub state: &'static str,
    /// Its own name and version, while it runs.
    pub info: Option<Arc<str>>,
    /// Why it cannot be started, or how its last process ended, as a sentence.
    pub last_error: Option<Arc<str>>,
    /// The open sessions whose turns it answers.
    pub sessions: Vec<SessionId>,
}

/// Something that can be chosen at an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOption {
    /// Its id at the agent.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: Arc<str>,
    /// What it does.
    pub about: Option<Arc<str>>,
    /// What it is about: `mode`, `model`, `model_config`, `thought_level` or a word of the agent's own.
    pub category: Option<Arc<str>>,
    /// Its value, and those that it can have.
    pub value: AgentValue,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentValue {
    /// On or off.
    Switch(bool),
    /// One of several.
    Choice {
        /// The id of the chosen one.
        current: Arc<str>,
        /// Those that there are.
        values: Vec<AgentChoice>,
    },
}

/// A value that an option can have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentChoice {
    /// Its id at the agent.
    pub id: Arc<str>,
    /// Its name for people.
    pub name: Arc<str>,
    /// The group that it belongs to.
    pub group: Option<Arc<str>>,
}

/// A slash command of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// Its name, without the slash.
    pub name: Arc<str>,
    /// Its purpose.
    pub about: Arc<str>,
    /// What its arguments are, if it takes any.
    pub hint: Option<Arc<str>>,
}

/// A step of an agent's plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStep {
    /// What it is.
    pub text: Arc<str>,
    /// Its state: `pending`, `in-progress` or `completed`.
    pub state: &'static str,
}

impl AgentFacts {
    /// `{:name :session-id :info}`.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new().with("name", self.name.to_string());
        map.put_some("session-id", self.session.as_deref().map(str::to_owned));
        map.put_some("info", self.info.as_deref().map(str::to_owned));
        Value::from(map)
    }

    /// The option of a category.
    pub fn option_of(&self, category: &str) -> Option<&AgentOption> {
        self.options.iter().find(|option| option.category.as_deref() == Some(category))
    }

    /// What the person chooses, with what was chosen before: a map from the ids of options to values, at most `most`.
    pub fn choosing(&self, option: &str, value: &Value<'static>, most: usize) -> Value<'static> {
        let mut map = Map::new();
        let before: Vec<_> = self.chosen.iter().filter(|(id, _)| **id != *option).collect();
        let over = before.len().saturating_add(1).saturating_sub(most);
        for (id, value) in before.into_iter().skip(over) {
            map.insert(Value::from(id.to_string()), value.clone());
        }
        map.insert(Value::from(option.to_owned()), value.clone());
        Value::from(map)
    }

    /// The chosen value of the option of a category.
    pub fn current(&self, category: &str) -> Option<&Arc<str>> {
        match &self.option_of(category)?.value {
            AgentValue::Choice { current, .. } => Some(current),
            AgentValue::Switch(_) => None,
        }
    }
}

impl AgentStep {
    /// `{:text :state}`.
    pub fn to_value(&self) -> Value<'static> {
        Value::from(Map::new().with("text", self.text.to_string()).with("state", self.state))
    }
}

impl AgentOption {
    /// Whether it has that value.
    pub fn is(&self, value: &Value<'_>) -> bool {
        match &self.value {
            AgentValue::Switch(on) => value.as_bool() == Some(*on),
            AgentValue::Choice { current, .. } => value.as_str() == Some(&**current),
        }
    }

    /// Whether it can have that value.
    pub fn may_be(&self, value: &Value<'_>) -> bool {
        match &self.value {
            AgentValue::Switch(_) => value.as_bool().is_some(),
            AgentValue::Choice { values, .. } => {
                value.as_str().is_some_and(|id| values.iter().any(|known| *known.id == *id))
            }
        }
    }

    /// Gives it a value that it can have.
    pub fn set(&mut self, value: &Value<'_>) {
        match (&mut self.value, value.as_bool(), value.as_str()) {
            (AgentValue::Switch(on), Some(wanted), _) => *on = wanted,
            (AgentValue::Choice { current, .. }, _, Some(wanted)) => *current = wanted.into(),
            _ => {}
        }
    }

    /// `{:id :name :about :category :value :values}`: a truth, or the id of a value with the values that there are.
    pub fn to_value(&self) -> Value<'static> {
        let mut map = Map::new().with("id", self.id.to_string()).with("name", self.name.to_string());
        map.put_some("about", self.about.as_deref().map(str::to_owned));
        map.put_some("category", self.category.as_deref().map(str::to_owned));
        match &self.value {
            AgentValue::Switch(on) => {
                map.put("value", *on);
            }
            AgentValue::Choice { current, values } => {
                map.put("value", current.to_string());
                let values = values.iter().map(|choice| {
                    let mut map =
                        Map::new().with("id", choice.id.to_string()).with("name", choice.name.to_string());
                    map.put_some("group", choice.group.as_deref().map(str::to_owned));
                    Value::from(map)
                });
                map.put("values", Value::vector(values));
            }
        }
        Value::from(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_at_the_bound_lose_the_oldest_other_one() {
        let chosen = [("a", 1), ("b", 2)].map(|(id, value)| (Arc::from(id), Value::from(value)));
        let facts = AgentFacts { chosen: Arc::from(chosen), ..AgentFacts::default() };
        let ids = |option: &str| {
            let map = facts.choosing(option, &Value::from(9), 2);
            map.as_map().unwrap().iter().map(|(id, _)| id.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(ids("c"), ["b", "c"]);
        // One that is chosen anew takes its own place.
        assert_eq!(ids("b"), ["a", "b"]);
    }
}
