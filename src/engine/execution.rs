//! One attempt of a workflow's stage: its tools, its grants and its completion. Runs nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::interaction::grant::{Binding, Grants};
use crate::provider::ToolSpec;
use crate::value::{Map, Value};
use crate::workflow::{DONE, Stage};

/// The tool by which a model completes a stage. Every stage has it.
pub const COMPLETE: &str = "complete-stage";

/// Why a call does not complete its stage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompletionFault {
    /// The stage has other outcomes.
    #[error("The outcome must be one of {}.", .0.join(", "))]
    Outcome(Vec<String>),
    /// An argument is missing or has another type.
    #[error("The argument {key} must be of the type {kind}.")]
    Argument { key: String, kind: &'static str },
}

/// A running attempt. Its grants end with it.
pub struct Execution {
    /// The execution of the stage, unique per run.
    pub id: String,
    /// The attempt, from 0.
    pub attempt: u32,
    /// The stage.
    pub stage: Arc<Stage>,
    /// The stage's body with its placeholders filled in.
    pub prompt: String,
    /// Whether the stage is a group's sibling or join. They keep the configuration of the group's start.
    pub is_of_group: bool,
    state: Mutex<AttemptState>,
}

#[derive(Default)]
struct AttemptState {
    grants: Grants,
    answers: Vec<GrantAnswer>,
    completed: Option<Completed>,
    /// Why what was said of its completion does not complete it.
    unfit: Option<String>,
    cap_hit: bool,
}

/// The person's answer to a grant question.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantAnswer {
    /// The call that it covers.
    pub binding: Binding,
    /// `approve`, `deny` or `defer`.
    pub outcome: &'static str,
    /// The person's note.
    pub note: Option<String>,
}

/// A model's completion of its stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// One of the stage's outcomes.
    pub outcome: Arc<str>,
    /// The result, in the shape of the stage's completion.
    pub result: Map<'static>,
}

impl Execution {
    /// A new attempt, without grants.
    pub fn new(id: String, attempt: u32, stage: Arc<Stage>, prompt: String) -> Self {
        Self { id, attempt, stage, prompt, is_of_group: false, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, AttemptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a tool is one of the stage's own.
    pub fn allows(&self, tool: &str) -> bool {
        tool == COMPLETE || self.stage.tools.iter().any(|own| own == tool)
    }

    /// Records the person's answer about a call; an approval mints a grant.
    pub fn answered(&self, answer: GrantAnswer) {
        let mut state = self.state();
        if answer.outcome == "approve" {
            state.grants.mint(answer.binding.clone());
        }
        state.answers.push(answer);
    }

    /// Uses a grant; `false` if none covers exactly this call.
    #[must_use]
    pub fn consume(&self, binding: &Binding) -> bool {
        self.state().grants.consume(binding)
    }

    /// Applies a model's call that completes the stage.
    ///
    /// # Errors
    /// See [`CompletionFault`]; its text is for the model.
    pub fn complete(&self, arguments: &Value<'static>) -> Result<(), CompletionFault> {
        let outcome = match arguments.get("outcome") {
            None | Some(Value::Nil) => DONE.into(),
            Some(value) => match value.as_str().or_else(|| value.as_keyword()) {
                Some(name) if name == DONE || self.stage.outcomes.iter().any(|known| **known == *name) => {
                    Arc::from(name)
                }
                _ => return Err(CompletionFault::Outcome(self.outcomes())),
            },
        };
        let mut result = Map::new();
        for (key, kind) in &self.stage.completion {
            match arguments.get(key) {
                Some(value) if kind.fits(value) => {
                    result.insert(Value::keyword(key.to_string()), value.clone());
                }
                _ => {
                    let (key, kind) = (key.to_string(), kind.as_str());
                    return Err(CompletionFault::Argument { key, kind });
                }
            }
        }
        self.state().completed = Some(Completed { outcome, result });
        Ok(())
    }

    /// What the stage may come to.
    pub fn outcomes(&self) -> Vec<String> {
        std::iter::once(DONE)
            .chain(self.stage.outcomes.iter().map(AsRef::as_ref))
            .map(str::to_owned)
            .collect()
    }

    /// The model's completion of the stage, if there is one.
    pub fn completed(&self) -> Option<Completed> {
        self.state().completed.clone()
    }

    /// Records why the completion that an external agent gave was rejected; [`Self::why_incomplete`] says it.
    pub fn set_unfit(&self, why: String) {
        self.state().unfit = Some(why);
    }

    /// Whether a completion was rejected so.
    pub fn has_unfit(&self) -> bool {
        self.state().unfit.is_some()
    }

    /// Why the stage is not completed.
    pub fn why_incomplete(&self) -> String {
        self.state().unfit.clone().unwrap_or_else(|| format!("it ended without {COMPLETE}"))
    }

    /// Records that the act has reached its cap of model calls.
    pub fn hit_cap(&self) {
        self.state().cap_hit = true;
    }

    /// Whether the act has reached its cap of model calls.
    pub fn is_cap_hit(&self) -> bool {
        self.state().cap_hit
    }

    /// The facts for assertions: completion, and grants with notes.
    pub fn facts(&self) -> Map<'static> {
        let state = self.state();
        let mut facts = Map::new();
        facts.put("attempt", i64::from(self.attempt));
        facts.put("cap-hit", state.cap_hit);
        if let Some(completed) = &state.completed {
            facts.put("outcome", completed.outcome.to_string());
            facts.put("result", Value::from(completed.result.clone()));
        }
        let grants = state.answers.iter().map(|answer| {
            let mut grant = Map::new();
            grant.put("proposal-id", answer.binding.proposal.clone());
            grant.put("tool", answer.binding.tool.clone());
            grant.put("args-digest", answer.binding.args_digest.clone());
            grant.put("outcome", answer.outcome);
            grant.put_some("note", answer.note.clone());
            Value::from(grant)
        });
        facts.put("grants", Value::vector(grants));
        facts
    }

    /// The description of the completion tool for the model.
    pub fn spec(&self) -> ToolSpec {
        let typed = |name: &'static str| Map::new().with("type", name);
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut outcome = typed("string");
        outcome.put("enum", Value::vector(self.outcomes().into_iter().map(Value::from)));
        outcome.put("description", "What the stage came to.");
        properties.put("outcome", Value::from(outcome));
        for (key, kind) in &self.stage.completion {
            let property = match kind.as_str() {
                "strings" => typed("array").with("items", Value::from(typed("string"))),
                "list" => typed("array"),
                "map" => typed("object"),
                "integer" => typed("integer"),
                "boolean" => typed("boolean"),
                _ => typed("string"),
            };
            properties.insert(Value::keyword(key.to_string()), Value::from(property));
            required.push(Value::from(key.to_string()));
        }
        let mut schema = typed("object");
        schema.put("properties", Value::from(properties));
        schema.put("required", Value::vector(required));
        ToolSpec {
            name: COMPLETE.to_owned(),
            description:
                "Ends this stage with its result. Call it when the stage's task is done, and nothing \
                          beside it."
                    .to_owned(),
            parameters: Value::from(schema),
        }
    }
}
