//! Sessions that work for another: those of `delegate`, and the siblings of a parallel group.
//!
//! A child has its own journal, is below its parent in the tree, and works with tools that were agreed on
//! before it started. Its questions go to the same people, with a label, one at a time with those of its
//! siblings. It ends with the turn that started it. Does not know workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::clock::rfc3339;
use crate::event::{Body, Cause, ToolCall};
use crate::interaction::{Kind, Resolution, warning};
use crate::limits::{MAX_CHILD_TASK_BYTES, SUBAGENT_DEPTH};
use crate::message::{Role, SessionId, StopReason, Usage};
use crate::runtime::Shared;
use crate::runtime::call::{Batch, Place, Running, denied};
use crate::runtime::change::Change;
use crate::runtime::control::TurnEnd;
use crate::runtime::execution::Execution;
use crate::runtime::live::Live;
use crate::runtime::mailbox::Handle;
use crate::secret;
use crate::session::ApiError;
use crate::store::{EntryBody, Header, Parent};
use crate::tool::{self, Outcome};
use crate::value::{Map, Value};
use crate::visible;

/// The data of a child session. Kept in memory: after a restart it is an ordinary session.
#[derive(Debug)]
pub struct Kin {
    /// The session for which it works.
    pub parent: SessionId,
    /// Its name in questions.
    pub subagent: Arc<str>,
    /// The number of sessions above it.
    pub depth: u32,
    /// Its granted tools. They pass the mode's gate while it works.
    pub envelope: Vec<String>,
    over: AtomicBool,
}

impl Kin {
    /// Whether it still works for its parent.
    pub fn works(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    /// Whether a tool was granted and the child still works for its parent.
    pub fn covers(&self, tool: &str) -> bool {
        self.works() && self.envelope.iter().any(|own| own == tool)
    }
}

/// A child to open.
pub struct Child {
    /// Its id.
    pub id: SessionId,
    /// Its name in lists.
    pub name: String,
    /// Its tools.
    pub envelope: Vec<String>,
    /// Its model: provider and id.
    pub model: (Arc<str>, Arc<str>),
}

/// The outcome of a child's work.
pub struct Worked {
    /// The model's last text.
    pub text: String,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Why its last message ended.
    pub stop: Option<StopReason>,
    /// Its usage.
    pub usage: Usage,
}

impl Shared {
    /// Opens a child of a session, in the same folder and mode.
    ///
    /// # Errors
    /// If its journal cannot be written.
    pub(super) async fn open_child(
        self: &Arc<Self>,
        parent: &Handle,
        child: Child,
    ) -> Result<Handle, ApiError> {
        self.check_room()?;
        let facts = parent.snapshot().facts.clone();
        let header = Header {
            session: child.id.clone(),
            created_at: rfc3339(self.clock.now()),
            cwd: facts.cwd.clone(),
            parent: Some(Parent { session: parent.id.clone(), path: facts.file.clone(), entry: None }),
        };
        let kin = Kin {
            parent: parent.id.clone(),
            subagent: child.id.as_str().into(),
            depth: parent.depth().saturating_add(1),
            envelope: child.envelope,
            over: AtomicBool::new(false),
        };
        let journal = self.store.create(header.clone());
        let handle = Live::start_child(self, journal, header, kin, parent);
        self.admit(&handle);
        let setting = |key: &str, value: &str| EntryBody::Setting {
            key: key.into(),
            value: Value::from(value.to_owned()),
        };
        let (provider, id) = child.model;
        let entries = vec![
            EntryBody::Name(visible::line(&child.name).into()),
            EntryBody::Model { provider, id },
            setting("mode", facts.mode.as_str()),
            setting("thinking", facts.thinking.as_str()),
        ];
        if let Err(error) = handle.request(|ack| Change::Append { entries, ack }).await {
            self.sessions.remove(&handle.id);
            return Err(error);
        }
        self.announce_context(None);
        Ok(handle)
    }

    /// Lets a child do a task, until it ends or is stopped.
    ///
    /// # Errors
    /// If it cannot start.
    pub(super) async fn work(
        &self,
        child: &Handle,
        task: String,
        execution: Option<Arc<Execution>>,
        cause: Option<Cause>,
        stop: &CancellationToken,
        interrupt: &CancellationToken,
    ) -> Result<(TurnEnd, Worked), ApiError> {
        let mut ended = child.request(|ack| Change::Work { task, execution, cause, ack }).await?;
        let end = tokio::select! {
            biased;
            end = &mut ended => end,
            () = stop.cancelled() => {
                child.abort();
                ended.await
            }
            () = interrupt.cancelled() => {
                child.tell(Change::InterruptWork);
                tokio::select! {
                    end = &mut ended => end,
                    () = stop.cancelled() => {
                        child.abort();
                        ended.await
                    }
                }
            }
        };
        let snapshot = child.snapshot();
        let last = snapshot.messages().rev().find(|message| message.role == Role::Assistant);
        let worked = Worked {
            text: last.map(|message| message.text()).unwrap_or_default(),
            error: last.and_then(|message| message.error_message.as_deref().map(str::to_owned)),
            stop: last.and_then(|message| message.stop_reason),
            usage: snapshot.facts.usage,
        };
        Ok((end.unwrap_or(TurnEnd::Stopped), worked))
    }

    /// Ends a child's work: its running processes end, and its grants expire. It stays in the tree as an
    /// ordinary session.
    pub(super) fn retire_child(&self, child: &Handle) {
        if let Some(kin) = &child.kin {
            kin.over.store(true, Ordering::Release);
        }
        child.tell(Change::EndWork);
        self.announce_context(None);
    }
}

/// The arguments of a `delegate` call.
struct Wanted {
    task: String,
    tools: Vec<String>,
    model: (Arc<str>, Arc<str>),
}

/// Answers a `delegate` call: asks the person once, runs the child, returns its last text.
pub(super) async fn delegate(batch: &Batch<'_>, call: &Arc<ToolCall>, place: &mut Option<Place>) -> Outcome {
    let turn = batch.turn;
    let wanted = match wanted(batch, call) {
        Ok(wanted) => wanted,
        Err(wrong) => return Outcome::failed(format!("subagent/envelope-invalid: {wrong}")),
    };
    let depth = turn.session.depth().saturating_add(1);
    let id = SessionId::from(turn.shared.clock.id("s-"));
    {
        let Some(_asking) = batch.turn_to_ask(place).await else { return batch.not_run() };
        if let Err(refused) = batch.guarded(call).await {
            return refused;
        }
        let mut model = Map::new();
        model.put("provider", wanted.model.0.to_string());
        model.put("id", wanted.model.1.to_string());
        let mut payload = Map::new();
        payload.put("subagent-id", id.to_value());
        payload.put("parent-session-id", turn.session.id.to_value());
        payload.put("depth", i64::from(depth));
        payload.put(
            "requested-envelope",
            Value::vector(wanted.tools.iter().map(|tool| Value::from(tool.clone()))),
        );
        payload.put("prompt-summary", tool::one_line(&secret::mask(&wanted.task), 400));
        payload.put("model", Value::from(model));
        // The summary may be shorter than the task.
        warning::put(&mut payload, warning::of("The task", &Value::from(wanted.task.as_str())));
        let reason = match batch.ask(Kind::ApproveSubagentEnvelope, payload).await {
            Resolution::Accepted { value, note } => {
                match value.get_keyword("outcome").and_then(Value::as_str) {
                    Some("approve") => None,
                    _ => Some(note.unwrap_or_else(|| "The user gave no reason.".to_owned())),
                }
            }
            Resolution::Cancelled { note } => {
                Some(note.unwrap_or_else(|| "The user dismissed the question.".to_owned()))
            }
            Resolution::TimedOut => Some("Nobody answered in time.".to_owned()),
            Resolution::Withdrawn => return batch.not_run(),
            Resolution::Headless => return batch.halt_for(Kind::ApproveSubagentEnvelope, &call.summary),
        };
        if let Some(reason) = reason {
            let mut outcome = denied(&format!("{ENVELOPE_DENIED}: {reason}"));
            outcome.details.put("code", ENVELOPE_DENIED);
            return outcome;
        }
    }
    // The next call may ask now, because this one takes its time.
    *place = None;
    let Some(_running_place) = batch.place().await else { return batch.not_run() };
    turn.publish(Body::ToolExecuting(call.clone())).await;
    let _running = Running::new(&turn.control.running_tools);
    let name = tool::one_line(&wanted.task, 60);
    let child = Child { id, name, envelope: wanted.tools, model: wanted.model };
    let child = match turn.shared.open_child(&turn.session, child).await {
        Ok(child) => child,
        Err(error) => return Outcome::failed(format!("The subagent cannot be started: {error}")),
    };
    let cause = turn.cause.clone();
    let stop = turn.stop.child_token();
    let worked = turn.shared.work(&child, wanted.task, None, cause, &stop, &turn.control.interrupt).await;
    turn.shared.retire_child(&child);
    let mut outcome = match worked {
        Err(error) => Outcome::failed(format!("The subagent cannot be started: {error}")),
        Ok((TurnEnd::Finished, worked)) => {
            let mut outcome = Outcome::ok(worked.text);
            outcome.details.put("usage", worked.usage.to_value());
            outcome
        }
        Ok((TurnEnd::Stopped, worked)) => {
            let why = worked.error.unwrap_or_else(|| match worked.stop {
                Some(reason) => format!("it was {}", reason.as_str()),
                None => "it did not begin".to_owned(),
            });
            let mut outcome = Outcome::failed(format!("The subagent did not finish: {why}\n{}", worked.text));
            outcome.details.put("usage", worked.usage.to_value());
            outcome
        }
    };
    outcome.details.put("subagent-id", child.id.to_value());
    outcome
}

/// The typed result for a refused subagent.
const ENVELOPE_DENIED: &str = "subagent/envelope-denied";

fn wanted(batch: &Batch<'_>, call: &ToolCall) -> Result<Wanted, String> {
    let turn = batch.turn;
    if turn.session.depth() >= SUBAGENT_DEPTH {
        return Err(format!("subagents are nested {SUBAGENT_DEPTH} deep at most; do this task yourself."));
    }
    let task = call.parsed.get("task").and_then(Value::as_str).unwrap_or_default();
    if task.trim().is_empty() || task.len() > MAX_CHILD_TASK_BYTES {
        return Err(format!("task must be a text of at most {MAX_CHILD_TASK_BYTES} bytes."));
    }
    let listed = call.parsed.get("tools").and_then(Value::as_slice);
    let listed = listed.ok_or("tools must be a list of the names of your tools.")?;
    let own = turn.tool_names();
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
    let text = |value: &Value<'_>, key| value.get(key).and_then(Value::as_str).map(Arc::<str>::from);
    let model = match call.parsed.get("model") {
        None | Some(Value::Nil) => (facts.model_provider.clone(), facts.model_id.clone()),
        Some(value) => {
            let named = match value.as_str() {
                Some(name) => match name.split_once([' ', '/']) {
                    Some((provider, id)) => Some((Arc::from(provider), Arc::from(id))),
                    None => Some((facts.model_provider.clone(), Arc::from(name))),
                },
                None => text(value, "provider").zip(text(value, "id")),
            };
            let (provider, id) = named.ok_or("model must be \"provider/id\" or a map of provider and id.")?;
            let manifest = turn.manifest();
            let known = manifest.models.find(&provider, &id).is_some();
            if !known || manifest.providers.get(&provider).is_none() {
                return Err(format!("there is no model {id:?} of provider {provider:?} that can be used."));
            }
            (provider, id)
        }
    };
    Ok(Wanted { task: task.to_owned(), tools, model })
}
