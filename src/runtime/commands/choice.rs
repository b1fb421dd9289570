//! Choices: what a frontend is asked to offer to the person, and what is done with the one that was made.

use std::sync::Arc;

use crate::catalogue::{Topic, thinking_level};
use crate::event::Body;
use crate::limits::MAX_FRONTEND_ACTIONS;
use crate::message::{EntryId, Role, SessionId, ThinkingLevel};
use crate::runtime::Runtime;
use crate::runtime::mailbox::Snapshot;
use crate::runtime::open::session_event;
use crate::session::{
    ActionResult, ActionStatus, ApiError, Call, Reach, Reply, Scope, SessionApi as _, SwitchTarget,
};
use crate::value::{Map, Value};

/// A choice that a frontend was asked for.
pub(crate) struct PendingAction {
    connection: u64,
    session: SessionId,
    name: &'static str,
}

impl Runtime {
    /// Asks the frontend to let the person choose.
    fn ask(&self, call: &Call, name: &'static str, prompt: &str, items: Vec<Value<'static>>) {
        if items.is_empty() {
            return self.tell(call, "text", "There is nothing to choose from.".to_owned());
        }
        let Some(client) = self.shared.hub.client(call.connection) else { return };
        // It is the person at this connection who chooses, wherever they now are.
        let Ok(handle) = self.shared.session(&client.focused()) else { return };
        let request = self.shared.clock.id("a-");
        {
            let mut pending = self.shared.actions();
            // A frontend that never answers must not make the list grow; the oldest choice is given up.
            while pending.len() >= MAX_FRONTEND_ACTIONS {
                pending.pop_front();
            }
            let action = PendingAction { connection: call.connection, session: call.session.clone(), name };
            pending.push_back((request.clone(), action));
        }
        let mut action = Map::new();
        action.put("ui/action-id", request.clone());
        action.put("ui/action-kind", Value::keyword("select"));
        action.put("ui/action-name", Value::keyword(name));
        action.put("ui/prompt", prompt.to_owned());
        action.put("ui/order", Value::keyword("preserve"));
        action.put("ui/items", Value::vector(items));
        action.put("ui/on-submit", Value::keyword("frontend-action-result"));
        let mut payload = Map::new();
        payload.put("request-id", request);
        payload.put("ui/action", Value::from(action));
        let body = Body::Payload(Topic::FrontendActionRequested, Arc::new(payload));
        let _ = client.deliver(&session_event(&handle, body, Some(call.cause())));
    }

    /// Offers the sessions of all projects, or those that a search finds.
    pub(super) fn ask_resume(&self, call: Call, text: Option<&str>) {
        let runtime = self.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<Vec<Value<'static>>, ApiError>| match result {
            Ok(slots) => {
                let items = slots.iter().filter_map(|slot| {
                    let path = slot.get("session-file")?.as_str()?.to_owned();
                    let label = slot.get("display-name")?.as_str()?.to_owned();
                    let mut meta = Map::new();
                    for key in ["created-at", "worktree-path", "excerpt"] {
                        if let Some(value) = slot.get(key) {
                            meta.put(key, value.clone());
                        }
                    }
                    Some(item(path.clone(), label, Value::from(path), meta))
                });
                runtime.ask(&asked, "select-resume-session", "Select a session to resume", items.collect());
            }
            Err(error) => runtime.tell(&asked, "error", error.message),
        });
        self.list_sessions(call, text.map(str::to_owned), None, Scope::All, reply);
    }

    pub(super) fn ask_session(&self, call: &Call, snapshot: &Snapshot, forks_only: bool) {
        let mut items = Vec::new();
        if !forks_only {
            for handle in self.shared.live() {
                let facts = handle.snapshot().facts.clone();
                let mut value = Map::new();
                value.put("action/kind", Value::keyword("switch-session"));
                value.put("action/session-id", facts.id.to_value());
                let mut meta = Map::new();
                meta.put("is-active", facts.id == call.session);
                meta.put("is-streaming", facts.is_streaming());
                items.push(item(
                    facts.id.to_string(),
                    facts.display_name().to_owned(),
                    Value::from(value),
                    meta,
                ));
            }
        }
        for message in snapshot.messages().filter(|message| message.role == Role::User) {
            let mut value = Map::new();
            value.put("action/kind", Value::keyword("fork-session"));
            value.put("action/entry-id", message.id.to_value());
            let start: String = message.text().chars().take(80).collect();
            let mut meta = Map::new();
            meta.put("fork-point", true);
            items.push(item(
                message.id.to_string(),
                format!("⑂ {}", start.replace('\n', " ")),
                Value::from(value),
                meta,
            ));
        }
        self.ask(call, "select-session", "Select a live session", items);
    }

    pub(super) fn ask_model(&self, call: Call) {
        let runtime = self.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<Vec<Value<'static>>, ApiError>| match result {
            Ok(models) => {
                let items = models.iter().filter_map(|model| {
                    let provider = model.get("provider")?.as_str()?;
                    let id = model.get("id")?.as_str()?;
                    let mut value = Map::new();
                    value.put("provider", provider.to_owned());
                    value.put("id", id.to_owned());
                    Some(item(
                        format!("{provider}/{id}"),
                        format!("{provider} {id}"),
                        Value::from(value),
                        Map::new(),
                    ))
                });
                runtime.ask(&asked, "select-model", "Select a model", items.collect());
            }
            Err(error) => runtime.tell(&asked, "error", error.message),
        });
        self.models(call, reply);
    }

    pub(super) fn ask_thinking(&self, call: &Call) {
        let items = ThinkingLevel::ALL.map(|level| {
            item(
                level.as_str().to_owned(),
                level.as_str().to_owned(),
                Value::from(level.as_str()),
                Map::new(),
            )
        });
        self.ask(call, "select-thinking-level", "Select a thinking level", items.to_vec());
    }

    /// Does what was chosen.
    pub(in crate::runtime) fn chosen(&self, call: Call, result: ActionResult, reply: Reply<()>) {
        let pending = {
            let mut actions = self.shared.actions();
            let place = actions
                .iter()
                .position(|(id, action)| *id == result.request_id && action.connection == call.connection);
            let Some((place, name)) = place.and_then(|place| Some((place, actions.get(place)?.1.name)))
            else {
                return reply.fail(ApiError::not_found("frontend action", &result.request_id));
            };
            // A mistake in the answer leaves the question open.
            if result.action_name.trim_start_matches(':') != name {
                let expected = format!("{name:?}, the name of that action");
                return reply.fail(ApiError::invalid_param("action-name", &expected));
            }
            actions.remove(place)
        };
        let Some((_, action)) = pending else {
            return reply.fail(ApiError::not_found("frontend action", &result.request_id));
        };
        reply.ok(());
        let call = Call { session: action.session, ..call };
        match result.status {
            ActionStatus::Cancelled => return self.tell(&call, "text", "Nothing was chosen.".to_owned()),
            ActionStatus::Failed => {
                let why = result.error_message.unwrap_or_else(|| "The frontend could not ask.".to_owned());
                return self.tell(&call, "error", why);
            }
            ActionStatus::Submitted => {}
        }
        let value = &result.value;
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        match action.name {
            "select-resume-session" => match value.as_str() {
                Some(path) => {
                    let target = SwitchTarget::Path(path.to_owned());
                    self.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
                }
                None => self.no_choice(&call),
            },
            "select-session" => match (text("action/session-id"), text("action/entry-id")) {
                (Some(id), None) => {
                    let target = SwitchTarget::Id(SessionId::from(id));
                    self.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
                }
                (None, Some(entry)) => {
                    self.fork(call.clone(), EntryId::from(entry), self.opened(&call, "session_switch"));
                }
                _ => self.no_choice(&call),
            },
            "select-model" => match (text("provider"), text("id")) {
                (Some(provider), Some(id)) => {
                    let reply = self.outcome(&call, "model_set", |(provider, id)| {
                        format!("Model set to {provider} {id}")
                    });
                    self.set_model(call.clone(), provider, id, Reach::Session, reply);
                }
                _ => self.no_choice(&call),
            },
            _ => match thinking_level(value) {
                Some(level) => self.set_thinking(call, level),
                None => self.no_choice(&call),
            },
        }
    }

    fn no_choice(&self, call: &Call) {
        self.tell(call, "error", "The choice has another shape than the items that were offered.".to_owned());
    }
}

/// One thing to choose.
fn item(id: String, label: String, value: Value<'static>, meta: Map<'static>) -> Value<'static> {
    let mut item = Map::new();
    item.put("ui.item/id", id);
    item.put("ui.item/label", label);
    item.put("ui.item/value", value);
    item.put("ui.item/meta", Value::from(meta));
    Value::from(item)
}
