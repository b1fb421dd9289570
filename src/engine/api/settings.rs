//! Settings, permissions and logins. Checks the call, and leaves the change to the session's task.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::catalogue::{self, ErrorCode};
use crate::engine::change::Change;
use crate::engine::configuration::Configuration;
use crate::engine::external::Occasion;
use crate::engine::host::Engine;
use crate::engine::login::LoginDesk;
use crate::engine::remote::{Owner, RemoteCall, owner_elsewhere};
use crate::engine::{rulebook, trust_preview};
use crate::facts::agent::{AgentOption, ListedAgent};
use crate::facts::permissions::{AuditPage, AuditWanted, ListedRule, TrustPreview};
use crate::facts::{LoginFacts, ModelFacts, ProviderName};
use crate::interaction::audit;
use crate::limits::{AUDIT_PAGE, ERROR_NAME_CHARS};
use crate::message::{Mode, ThinkingLevel};
use crate::provider::models::{Model, Models};
use crate::session::{ApiError, Call, Logins, Permissions, Reach, Reply, SessionSettings, ShownFiles};
use crate::value::{Map, Value};

/// Why there is nothing to choose.
const NO_AGENT: &str =
    "The session has no agent with options: its model, mode and thinking have ops of their own.";

impl SessionSettings for Engine {
    fn models(&self, _call: Call, reply: Reply<Vec<ModelFacts>>) {
        let config = self.shared.configuration.newest();
        let ready = config.providers.ready();
        let facts = |model: &Model| model.facts(ready.contains(&&*model.provider));
        reply.ok(config.models.iter().map(facts).collect());
    }

    fn set_model(
        &self,
        call: Call,
        provider: Option<String>,
        model: String,
        reach: Reach,
        reply: Reply<(String, String)>,
    ) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            let keep = move |files: &Configuration, (provider, model): &(String, String)| {
                files.choose_model(reach, provider, model)
            };
            return ask_and_keep(self, owner, reach, RemoteCall::SetModel(provider, model), keep, reply);
        }
        let config = self.shared.configuration.newest();
        let (shared, foreign) = (self.shared.clone(), self.foreign.clone());
        self.with(&call.clone(), reply, |handle, reply| {
            if let Some(agent) = handle.snapshot().facts.agent.clone() {
                let occasion = Occasion::of_request(&handle, call.cause());
                self.shared.tasks.spawn(async move {
                    let chosen = match provider.is_none_or(|provider| *provider == *agent.name) {
                        true => foreign.choose(&occasion, "model", &model).await,
                        false => Err(ApiError::failed(format!(
                            "The session's agent is {0}, with models of its own: choose one of provider {0}.",
                            agent.name
                        ))),
                    };
                    reply.send(chosen.map(|()| (agent.name.to_string(), model)));
                });
                return;
            }
            let now = handle.snapshot().facts.model_provider.clone();
            let names = config.providers.model_names(&config.models);
            let found = match names.parse(provider.as_deref(), &model, &now) {
                Ok(found) => found,
                Err(none) => return reply.fail(unknown_model(&config.models, &none.provider, &none.id)),
            };
            let (provider, model) = (found.provider.to_string(), found.id.to_string());
            let set = move |reply: Reply<(String, String)>, provider: String, model: String| {
                handle.tell(Change::SetModel { call, provider: provider.into(), model: model.into(), reply });
            };
            if reach == Reach::Session {
                return set(reply, provider, model);
            }
            shared.clone().tasks.spawn_blocking(move || {
                match shared.configuration.choose_model(reach, &provider, &model) {
                    Ok(()) => set(reply, provider, model),
                    Err(error) => reply.fail(error),
                }
            });
        });
    }

    fn usual_model(&self) -> (Arc<str>, Arc<str>) {
        match self.shared.configuration.usual_model(None) {
            Ok(choice) => (choice.provider, choice.model),
            Err(_) => ("".into(), "".into()),
        }
    }

    fn cycle_model(&self, call: Call, forward: bool, reply: Reply<(String, String)>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::CycleModel(forward), reply);
        }
        let config = self.shared.configuration.newest();
        let ready = config.providers.ready();
        let foreign = self.foreign.clone();
        let usable: Vec<(Arc<str>, Arc<str>)> = config
            .models
            .iter()
            .filter(|model| ready.contains(&&*model.provider))
            .map(|model| (model.provider.clone(), model.id.clone()))
            .collect();
        self.with(&call.clone(), reply, |handle, reply| {
            let facts = handle.snapshot().facts.clone();
            if let Some(agent) = &facts.agent {
                let (name, occasion) = (agent.name.to_string(), Occasion::of_request(&handle, call.cause()));
                self.shared.tasks.spawn(async move {
                    let chosen = foreign.next_model(&occasion, forward).await;
                    reply.send(chosen.map(|id| (name, id.to_string())));
                });
                return;
            }
            let now = usable
                .iter()
                .position(|(provider, id)| *provider == facts.model_provider && *id == facts.model_id);
            let next = match (now, usable.len()) {
                (_, 0) => None,
                (None, _) => usable.first(),
                (Some(now), all) => {
                    let step = if forward { 1 } else { all.saturating_sub(1) };
                    usable.get(now.saturating_add(step).checked_rem(all).unwrap_or(0))
                }
            };
            match next.cloned() {
                Some((provider, id)) => {
                    handle.tell(Change::SetModel { call, provider, model: id, reply });
                }
                None => reply.fail(ApiError::new(
                    ErrorCode::UnknownModel,
                    "No model of the catalogue can be used: no provider is set up.",
                )),
            }
        });
    }

    fn set_thinking_level(
        &self,
        call: Call,
        level: Option<ThinkingLevel>,
        reach: Reach,
        reply: Reply<ThinkingLevel>,
    ) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            let keep =
                move |files: &Configuration, level: &ThinkingLevel| files.choose_thinking(reach, *level);
            return ask_and_keep(self, owner, reach, RemoteCall::SetThinking(level), keep, reply);
        }
        let (shared, foreign) = (self.shared.clone(), self.foreign.clone());
        self.with(&call.clone(), reply, |handle, reply| {
            if handle.snapshot().facts.agent.is_some() {
                let Some(level) = level else {
                    let message = "The session's agent has levels of its own: choose one by name.";
                    return reply.fail(ApiError::failed(message));
                };
                let occasion = Occasion::of_request(&handle, call.cause());
                self.shared.tasks.spawn(async move {
                    let chosen = foreign.choose(&occasion, "thought_level", level.as_str()).await;
                    reply.send(chosen.map(|()| level));
                });
                return;
            }
            // The next level is that of the session's task, which knows the changes before.
            let (Some(kept), Reach::Project | Reach::User) = (level, reach) else {
                return handle.tell(Change::SetThinking { call, level, reply });
            };
            shared.clone().tasks.spawn_blocking(move || {
                match shared.configuration.choose_thinking(reach, kept) {
                    Ok(()) => handle.tell(Change::SetThinking { call, level, reply }),
                    Err(error) => reply.fail(error),
                }
            });
        });
    }

    fn usual_thinking(&self) -> ThinkingLevel {
        self.shared.configuration.usual_thinking()
    }

    fn set_mode(&self, call: Call, mode: Mode, reply: Reply<Mode>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::SetMode(mode), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetMode { call, mode, reply });
        });
    }

    fn set_auto_compaction(&self, call: Call, enabled: bool, reply: Reply<bool>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::SetAutoCompaction(enabled), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetAutoCompaction { call, enabled, reply });
        });
    }

    fn set_auto_retry(&self, call: Call, enabled: bool, reply: Reply<bool>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::SetAutoRetry(enabled), reply);
        }
        self.with(&call.clone(), reply, |handle, reply| {
            handle.tell(Change::SetAutoRetry { call, enabled, reply });
        });
    }

    fn set_option(&self, call: Call, option: String, value: Value<'static>, reply: Reply<Vec<AgentOption>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::SetOption(option, value), reply);
        }
        let foreign = self.foreign.clone();
        self.with(&call.clone(), reply, |handle, reply| {
            if handle.snapshot().facts.agent.is_none() {
                return reply.fail(ApiError::failed(NO_AGENT));
            }
            let occasion = Occasion::of_request(&handle, call.cause());
            self.shared.tasks.spawn(async move {
                let chosen = foreign.set_option(&occasion, &option, &value).await;
                let options = || handle.snapshot().facts.agent.as_ref().map(|agent| agent.options.to_vec());
                reply.send(chosen.map(|()| options().unwrap_or_default()));
            });
        });
    }

    fn agents(&self, call: Call, reply: Reply<Vec<ListedAgent>>) {
        let foreign = self.foreign.clone();
        self.with(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || reply.ok(foreign.listed(&handle)));
        });
    }

    fn agent_options(&self, call: Call, reply: Reply<Vec<AgentOption>>) {
        if let Some(owner) = owner_elsewhere(self, &call) {
            return owner.ask(RemoteCall::AgentOptions, reply);
        }
        let foreign = self.foreign.clone();
        self.with(&call.clone(), reply, |handle, reply| {
            if handle.snapshot().facts.agent.is_none() {
                return reply.fail(ApiError::failed(NO_AGENT));
            }
            let occasion = Occasion::of_request(&handle, call.cause());
            self.shared.tasks.spawn(async move { reply.send(foreign.options(&occasion).await) });
        });
    }

    fn theme(&self) -> Option<String> {
        self.shared.settings.files.theme()
    }

    fn set_theme(&self, call: Call, name: String, reply: Reply<String>) {
        let shared = self.shared.clone();
        self.with(&call, reply, |_, reply| {
            shared.clone().tasks.spawn_blocking(move || {
                let kept = shared.settings.files.choose_theme(&name);
                reply.send(kept.map_err(|error| ApiError::failed(error.to_string())));
            });
        });
    }

    fn trust_project(&self, call: Call, trusted: bool, shown: Option<ShownFiles>, reply: Reply<bool>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            let cwd = handle.snapshot().facts.cwd.clone();
            let trust = move || reply.send(shared.trust(&cwd, trusted, shown.as_ref()).map(|()| trusted));
            self.shared.tasks.spawn_blocking(trust);
        });
    }
}

impl Permissions for Engine {
    fn rules(&self, call: Call, reply: Reply<Vec<ListedRule>>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || reply.ok(rulebook::listed(&shared, &handle)));
        });
    }

    fn remove_rule(&self, call: Call, id: String, reply: Reply<()>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || reply.send(rulebook::take_back(&shared, &handle, &id)));
        });
    }

    fn audit(&self, call: Call, wanted: AuditWanted, reply: Reply<AuditPage>) {
        let path = audit::path(&self.shared.settings.state_dir);
        self.with_own(&call, reply, |handle, reply| {
            self.shared.tasks.spawn_blocking(move || {
                let is_of = |record: &Map<'_>, key| {
                    record.get_keyword(key).and_then(Value::as_str) == Some(handle.id.as_str())
                };
                let is_wanted = |record: &Map<'_>| {
                    wanted.all || is_of(record, "session-id") || is_of(record, "parent-session-id")
                };
                let limit = wanted.limit.unwrap_or(AUDIT_PAGE).min(AUDIT_PAGE);
                let page = audit::page(&path, wanted.before, limit, is_wanted);
                let page = page.map(|(records, next)| AuditPage { records, next });
                reply.send(
                    page.map_err(|error| ApiError::failed(format!("The audit cannot be read: {error}."))),
                );
            });
        });
    }

    fn trust_preview(&self, call: Call, reply: Reply<TrustPreview>) {
        let shared = self.shared.clone();
        self.with_own(&call, reply, |handle, reply| {
            let cwd = handle.snapshot().facts.cwd.clone();
            let preview = move || reply.ok(trust_preview::preview(&shared.configuration.files_of(&cwd)));
            self.shared.tasks.spawn_blocking(preview);
        });
    }
}

impl Logins for Engine {
    fn login_begin(&self, call: Call, provider: Option<String>, reply: Reply<LoginFacts>) {
        LoginDesk(&self.shared).begin(&call, provider, reply);
    }

    fn login_complete(&self, call: Call, input: Option<String>, reply: Reply<ProviderName>) {
        LoginDesk(&self.shared).complete(&call, input, reply);
    }

    fn logout(&self, call: Call, provider: String, reply: Reply<bool>) {
        LoginDesk(&self.shared).forget(&call, provider, reply);
    }
}

/// Has the owner of a session set something, and keeps it for the person's later sessions on this machine where that is
/// wished. What a project has chosen is in its folder, which is the owner's.
fn ask_and_keep<T: DeserializeOwned + Send + 'static>(
    engine: &Engine,
    owner: Owner,
    reach: Reach,
    call: RemoteCall,
    keep: impl FnOnce(&Configuration, &T) -> Result<(), ApiError> + Send + 'static,
    reply: Reply<T>,
) {
    match reach {
        Reach::Session => return owner.ask(call, reply),
        Reach::Project => {
            let expected = "\"session\" or \"user\" here: the session's project is on another host";
            return reply.fail(ApiError::invalid_param("scope", expected));
        }
        Reach::User => {}
    }
    let (shared, executor) = (engine.shared.clone(), engine.shared.executor.clone());
    let set = Reply::new(move |set: Result<T, ApiError>| match set {
        Err(error) => reply.fail(error),
        Ok(set) => drop(shared.clone().tasks.spawn_blocking_on(
            move || {
                let kept = keep(&shared.configuration, &set).map(|()| set);
                reply.send(kept.map_err(|error| {
                    let what = "The session has it, but it is not kept for later sessions of this machine";
                    ApiError { message: format!("{what}: {}", error.message), ..error }
                }));
            },
            &executor,
        )),
    });
    owner.ask(call, set);
}

/// `request/unknown-model`, with the most similar names.
fn unknown_model(models: &Models, provider: &str, id: &str) -> ApiError {
    let nearest = models.nearest(provider, id);
    let names: Vec<String> = nearest.iter().map(|model| format!("{} {}", model.provider, model.id)).collect();
    let [id, provider] = [id, provider].map(|name| catalogue::excerpt(name, ERROR_NAME_CHARS));
    let message =
        format!("There is no model {id:?} of provider {provider:?}. Nearest: {}.", names.join(", "));
    let nearest = nearest.iter().map(|model| {
        Value::from(Map::new().with("provider", model.provider.to_string()).with("id", model.id.to_string()))
    });
    ApiError::new(ErrorCode::UnknownModel, message).with("nearest", Value::vector(nearest))
}
