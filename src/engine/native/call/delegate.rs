//! Answers a `delegate` call: a subagent does a task in a session of its own. Does not know how the subagent's
//! session lives.

use std::borrow::Cow;
use std::sync::Arc;

use super::asking::{NOBODY_TO_APPROVE, UNASKED};
use super::{Batch, QueuePlace, Vote, denied};
use crate::engine::native::request::Composer;
use crate::engine::native::turn::Turn;
use crate::engine::subagent::Child;
use crate::engine::turn_control::TurnEnd;
use crate::event::question::{Answer, EnvelopeRequest, QuestionContent, QuestionKind};
use crate::event::{Body, ToolCall};
use crate::interaction::{Resolution, warning};
use crate::limits::{APPROVAL_ARGUMENTS_BYTES, MAX_CHILD_TASK_BYTES, SUBAGENT_DEPTH};
use crate::message::SessionId;
use crate::provider::model_ref::ModelRef;
use crate::secret;
use crate::tool::{self, Outcome};
use crate::value::Value;

/// The arguments of a `delegate` call.
struct Wanted {
    task: String,
    tools: Vec<String>,
    model: (Arc<str>, Arc<str>),
    /// The external agent that is to do it.
    agent: Option<Arc<str>>,
}

impl Batch<'_> {
    /// Answers a `delegate` call: asks the person once, runs the child, returns its last text.
    pub(super) async fn delegate(&self, call: &Arc<ToolCall>, place: &mut Option<QueuePlace>) -> Outcome {
        let turn = self.turn;
        let wanted = match wanted(turn, call) {
            Ok(wanted) => wanted,
            Err(wrong) => return Outcome::failed(format!("subagent/envelope-invalid: {wrong}")),
        };
        let depth = turn.session.depth().saturating_add(1);
        let asked = self.asked_before(call, QuestionKind::ApproveSubagentEnvelope);
        let id = asked.and_then(|asked| asked.question.subagent_id.clone());
        let id = id.unwrap_or_else(|| SessionId::from(turn.shared.clock.id(SessionId::PREFIX)));
        {
            let Some(_asking) = self.may_ask_now(place).await else { return self.not_run() };
            if let Err(refused) = self.guarded(call, Vote::ToCome).await {
                return refused;
            }
            let masked = secret::mask(&wanted.task);
            let task = self.start_of("task", &masked, APPROVAL_ARGUMENTS_BYTES).await;
            let request = EnvelopeRequest {
                subagent: id.clone(),
                parent: turn.session.id.clone(),
                depth,
                tools: wanted.tools.clone(),
                task_summary: tool::one_line(&task.text, APPROVAL_ARGUMENTS_BYTES),
                model: wanted.model.clone(),
                agent: wanted.agent.clone(),
            };
            let mut warnings = task.warnings;
            warnings.extend(matches!(masked, Cow::Owned(_)).then(|| secret::IS_MASKED.to_owned()));
            warnings.extend(warning::of("The task", &Value::from(wanted.task.as_str())));
            let reason =
                match self.ask(call, QuestionContent::ApproveSubagentEnvelope(request), warnings).await {
                    Resolution::Accepted { answer: Answer::Approve { .. }, .. } => None,
                    Resolution::Accepted { note, .. } => {
                        Some(note.unwrap_or_else(|| "The user gave no reason.".to_owned()))
                    }
                    Resolution::Cancelled { note } => {
                        Some(note.unwrap_or_else(|| "The user dismissed the question.".to_owned()))
                    }
                    Resolution::TimedOut => Some("Nobody answered in time.".to_owned()),
                    Resolution::Withdrawn => return self.not_run(),
                    Resolution::Headless => {
                        let mut outcome = match turn.shared.settings.denies_unasked {
                            true => denied(NOBODY_TO_APPROVE),
                            false => self.halt_for(QuestionKind::ApproveSubagentEnvelope, &call.summary),
                        };
                        outcome.details.put(UNASKED, true);
                        return outcome;
                    }
                };
            if let Some(reason) = reason {
                let mut outcome = denied(&format!("{ENVELOPE_DENIED}: {reason}"));
                outcome.details.put("code", ENVELOPE_DENIED);
                return outcome;
            }
        }
        // The next call may ask now, because this one takes its time.
        *place = None;
        let Some(_slot) = self.free_slot().await else { return self.not_run() };
        if let Err(refused) = self.begins(call).await {
            return refused;
        }
        turn.publish(Body::ToolExecuting(call.clone())).await;
        let _running = turn.control.runs(&call.id);
        let name = tool::one_line(&wanted.task, 60);
        let child = Child { id, name, envelope: wanted.tools, model: wanted.model, agent: wanted.agent };
        self.timed(self.worked(child, wanted.task)).await
    }

    /// Runs the child and returns its last text.
    async fn worked(&self, child: Child, task: String) -> Outcome {
        let turn = self.turn;
        let child = match turn.opener.open_child(&turn.session, child).await {
            Ok(child) => child,
            Err(error) => return Outcome::failed(format!("The subagent cannot be started: {error}")),
        };
        let cause = turn.cause.clone();
        let stop = turn.stop.child_token();
        let worked = turn.opener.work(&child, task, None, cause, &stop, &turn.control).await;
        turn.opener.retire_child(&child);
        let mut outcome = match worked {
            Err(error) => Outcome::failed(format!("The subagent cannot be started: {error}")),
            Ok((TurnEnd::Finished, worked)) => {
                let mut outcome = Outcome::ok(worked.text);
                outcome.details.put("usage", worked.usage.to_value());
                outcome
            }
            Ok((TurnEnd::Stopped | TurnEnd::HandedOver, worked)) => {
                let why = worked.error.unwrap_or_else(|| match worked.stop {
                    Some(reason) => format!("it was {}", reason.as_str()),
                    None => "it did not begin".to_owned(),
                });
                let mut outcome =
                    Outcome::failed(format!("The subagent did not finish: {why}\n{}", worked.text));
                outcome.details.put("usage", worked.usage.to_value());
                outcome
            }
        };
        outcome.details.put("subagent-id", child.id.to_value());
        outcome
    }
}

/// The typed result for a refused subagent.
const ENVELOPE_DENIED: &str = "subagent/envelope-denied";

/// What the model asks for. The error tells the model what to change in its call.
fn wanted(turn: &Turn, call: &ToolCall) -> Result<Wanted, String> {
    if turn.session.depth() >= SUBAGENT_DEPTH {
        return Err(format!("subagents are nested {SUBAGENT_DEPTH} deep at most; do this task yourself."));
    }
    let task = call.parsed.get("task").and_then(Value::as_str).unwrap_or_default();
    if task.trim().is_empty() || task.len() > MAX_CHILD_TASK_BYTES {
        return Err(format!("task must be a text of at most {MAX_CHILD_TASK_BYTES} bytes."));
    }
    let listed = call.parsed.get("tools").and_then(Value::as_slice);
    let listed = listed.ok_or("tools must be a list of the names of your tools.")?;
    let own = Composer(turn).tool_names();
    let mut tools: Vec<String> = Vec::new();
    for name in listed {
        let name = name.as_str().ok_or("tools must be a list of the names of your tools.")?;
        if !own.iter().any(|known| known == name) {
            return Err(format!("there is no tool {name:?} among yours: {}.", own.join(", ")));
        }
        if !tools.iter().any(|known| known == name) {
            tools.push(name.to_owned());
        }
    }
    if tools.len() >= own.len() {
        return Err("a subagent gets fewer tools than you have; leave out what it does not need.".to_owned());
    }
    let facts = turn.session.snapshot().facts.clone();
    let agent = match call.parsed.get("agent") {
        None | Some(Value::Nil) => None,
        Some(name) => {
            let name = name.as_str().ok_or("agent must be the name of an agent.")?;
            Some(turn.config().agent(name).map_err(|error| error.message)?.name)
        }
    };
    let text = |value: &Value<'_>, key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
    let model = match call.parsed.get("model").filter(|_| agent.is_none()) {
        None | Some(Value::Nil) => (facts.model_provider.clone(), facts.model_id.clone()),
        Some(value) => {
            let named = match value.as_str() {
                Some(name) => Some((None, Arc::from(name))),
                None => text(value, "provider").map(Some).zip(text(value, "id")),
            };
            let (provider, name) =
                named.ok_or("model must be \"provider/id\" or a map of provider and id.")?;
            let config = turn.config();
            let names = config.providers.model_names(&config.models);
            let found = names.parse(provider.as_deref(), &name, &facts.model_provider);
            // A model that nobody lists may be a mistake of the model that names it.
            match found.map_err(|none| (none.provider, none.id)) {
                Ok(found) if found.is_listed && config.providers.get(&found.provider).is_some() => {
                    (found.provider, found.id)
                }
                Ok(ModelRef { provider, id, .. }) | Err((provider, id)) => {
                    return Err(format!(
                        "there is no model {id:?} of provider {provider:?} that can be used."
                    ));
                }
            }
        }
    };
    // An agent has models of its own.
    let model = agent.clone().map_or(model, |agent| (agent, "".into()));
    Ok(Wanted { task: task.to_owned(), tools, model, agent })
}
