//! Choices: requests to a frontend to offer a choice, and the effects of the person's answer. Does not know
//! the wire.

use std::sync::Arc;

use super::Commands;
use crate::engine::actions::{ArgumentMisfit, PendingAction};
use crate::engine::snapshot::SessionSnapshot;
use crate::event::question::QuestionKind;
use crate::event::{About, Body, Choice, ChoiceItem, ChoiceKind, CommandOutcome, Pick};
use crate::facts::{ListedSession, ListedSessions, ModelFacts};
use crate::message::{Role, ThinkingLevel};
use crate::session::{
    ActionResult, ActionStatus, ApiError, Call, ListScope, Listing, Reach, Reply, SessionSettings as _,
    Sessions as _, SwitchTarget,
};

impl Commands<'_> {
    /// Asks the frontend to offer a choice to the person.
    fn ask(&self, call: &Call, kind: ChoiceKind, prompt: &'static str, items: Vec<ChoiceItem>) {
        if items.is_empty() {
            return self.0.shared.tell(call, "text", "There is nothing to choose from.".to_owned());
        }
        let Some(client) = self.0.shared.hub.client(call.connection) else { return };
        if !client.answers(QuestionKind::Select) {
            let why =
                format!("{prompt}: the client cannot show this choice. /help lists what the commands take.");
            return self.0.shared.tell(call, CommandOutcome::ERROR, why);
        }
        // The person at this connection chooses, whatever the current session.
        let Ok(handle) = self.0.shared.tree.get(&client.focused()) else { return };
        let request = self.0.shared.clock.id("a-");
        let choice = Arc::new(Choice { request: request.into(), kind, prompt, items });
        self.0.actions.add(PendingAction {
            connection: call.connection,
            session: call.session.clone(),
            choice: choice.clone(),
        });
        let body = Body::ChoiceRequested(choice);
        let _ = client.deliver(&handle.event(body, Some(call.cause())));
    }

    /// Offers the sessions of all projects, or the results of a search.
    pub(super) fn ask_resume(&self, call: Call, text: Option<&str>) {
        let engine = self.0.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<ListedSessions, ApiError>| match result {
            Ok(listed) => {
                let items =
                    listed.sessions.into_iter().filter_map(|ListedSession { slot, excerpt, .. }| {
                        let location = slot.location.as_deref()?.to_owned();
                        let about = About {
                            created_at: Some(slot.created_at.clone()),
                            worktree: Some(slot.cwd.clone()),
                            excerpt,
                            ..About::default()
                        };
                        let (id, label) = (location.clone(), slot.display_name().to_owned());
                        Some(ChoiceItem { id, label, pick: Pick::Location(location), about })
                    });
                let items = items.collect();
                Commands(&engine).ask(&asked, ChoiceKind::ResumeSession, "Select a session to resume", items);
            }
            Err(error) => engine.shared.tell(&asked, "error", error.message),
        });
        let wanted =
            Listing { text: text.map(str::to_owned), scope: ListScope::Machine, ..Listing::default() };
        self.0.list_sessions(call, wanted, reply);
    }

    pub(super) fn ask_session(&self, call: &Call, snapshot: &SessionSnapshot, forks_only: bool) {
        let mut items = Vec::new();
        if !forks_only {
            for handle in self.0.shared.tree.all() {
                let facts = handle.snapshot().facts.clone();
                let about = About {
                    is_active: Some(facts.id == call.session),
                    is_streaming: Some(facts.is_streaming()),
                    ..About::default()
                };
                let (id, label) = (facts.id.to_string(), facts.display_name().to_owned());
                items.push(ChoiceItem { id, label, pick: Pick::Session(facts.id.clone()), about });
            }
        }
        for message in snapshot.messages().filter(|message| message.role == Role::User) {
            let start: String = message.text().chars().take(80).collect();
            let label = format!("⑂ {}", start.replace('\n', " "));
            let about = About { is_fork_point: true, ..About::default() };
            let pick = Pick::Entry(message.id.clone());
            items.push(ChoiceItem { id: message.id.to_string(), label, pick, about });
        }
        self.ask(call, ChoiceKind::Session, "Select a live session", items);
    }

    pub(super) fn ask_model(&self, call: Call) {
        let engine = self.0.clone();
        let asked = call.clone();
        let reply = Reply::new(move |result: Result<Vec<ModelFacts>, ApiError>| match result {
            Ok(models) => {
                let items = models.iter().map(|model| ChoiceItem {
                    id: format!("{}/{}", model.provider, model.id),
                    label: format!("{} {}", model.provider, model.id),
                    pick: Pick::Model { provider: model.provider.to_string(), id: model.id.to_string() },
                    about: About::default(),
                });
                Commands(&engine).ask(&asked, ChoiceKind::Model, "Select a model", items.collect());
            }
            Err(error) => engine.shared.tell(&asked, "error", error.message),
        });
        self.0.models(call, reply);
    }

    pub(super) fn ask_thinking(&self, call: &Call) {
        let items = ThinkingLevel::ALL.map(|level| {
            let name = level.as_str().to_owned();
            ChoiceItem { id: name.clone(), label: name, pick: Pick::Thinking(level), about: About::default() }
        });
        self.ask(call, ChoiceKind::ThinkingLevel, "Select a thinking level", items.to_vec());
    }

    /// Applies the person's choice.
    pub(in crate::engine) fn chosen(&self, call: Call, result: ActionResult, reply: Reply<()>) {
        let picked = (result.status == ActionStatus::Submitted).then_some(result.pick.as_ref());
        let action = match self.0.actions.take(&result.request_id, call.connection, result.kind, picked) {
            Ok(action) => action,
            Err(misfit) => {
                return reply.fail(match misfit {
                    ArgumentMisfit::Unknown => ApiError::not_found("frontend action", &result.request_id),
                    ArgumentMisfit::Kind(kind) => {
                        let expected = format!("{:?}, the name of that action", kind.as_str());
                        ApiError::invalid_param("action-name", &expected)
                    }
                    ArgumentMisfit::NotOffered => {
                        ApiError::invalid_param("value", "the :ui.item/value of an item that was offered")
                    }
                });
            }
        };
        reply.ok(());
        let call = Call { session: action.session, ..call };
        match result.status {
            ActionStatus::Cancelled => {
                return self.0.shared.tell(&call, "text", "Nothing was chosen.".to_owned());
            }
            ActionStatus::Failed => {
                let why = result.error_message.unwrap_or_else(|| "The frontend could not ask.".to_owned());
                return self.0.shared.tell(&call, "error", why);
            }
            ActionStatus::Submitted => {}
        }
        match result.pick {
            Some(Pick::Location(location)) => {
                let target = SwitchTarget::Location(location, None);
                self.0.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
            }
            Some(Pick::Session(id)) => {
                let target = SwitchTarget::Id(id);
                self.0.switch_session(call.clone(), target, self.opened(&call, "session_switch"));
            }
            Some(Pick::Entry(entry)) => {
                self.0.fork(call.clone(), entry, None, self.opened(&call, "session_switch"));
            }
            Some(Pick::Model { provider, id }) => {
                let reply = self
                    .outcome(&call, "model_set", |(provider, id)| format!("Model set to {provider} {id}"));
                self.0.set_model(call.clone(), Some(provider), id, Reach::Session, reply);
            }
            Some(Pick::Thinking(level)) => self.set_thinking(call, level),
            None => {}
        }
    }
}
