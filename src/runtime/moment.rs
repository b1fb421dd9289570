//! One moment of the runtime, as queries see it.
//!
//! Takes each session's snapshot once and keeps it, so that a query reads one state of it however often
//! it asks. Holds nothing up: snapshots are shared, and lists that the disk has to tell are read on the
//! thread that asks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use jiff::Timestamp;

use crate::catalogue::TOPICS;
use crate::clock::rfc3339;
use crate::message::{Message, SessionId, count};
use crate::projection::{self, Phase};
use crate::query::resolvers::session::SessionFact;
use crate::query::world::{
    ConnectionFacts, EntryView, ProcessFacts, SessionInfo, SessionView, Setting, World,
};
use crate::runtime::mailbox::{Handle, Snapshot};
use crate::runtime::{Runtime, Shared, prompt};
use crate::session::{ApiError, Call, Reply, SessionApi};
use crate::store::EntryBody;
use crate::value::{Map, Value};

/// How long a list that another part of the runtime gives may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Moment {
    runtime: Runtime,
    call: Call,
    taken: RefCell<HashMap<SessionId, Arc<View>>>,
}

/// A session in that moment.
struct View {
    handle: Handle,
    snapshot: Arc<Snapshot>,
    shared: Arc<Shared>,
}

impl Moment {
    pub(super) fn new(runtime: Runtime, call: Call) -> Self {
        Self { runtime, call, taken: RefCell::default() }
    }

    fn view(&self, handle: Handle) -> Arc<View> {
        let mut taken = self.taken.borrow_mut();
        let view = taken.entry(handle.id.clone()).or_insert_with(|| {
            let snapshot = handle.snapshot();
            Arc::new(View { handle, snapshot, shared: self.runtime.shared.clone() })
        });
        view.clone()
    }

    /// Asks the session API for a list.
    fn ask(&self, ask: impl FnOnce(Call, Reply<Vec<Value<'static>>>)) -> Vec<Value<'static>> {
        let (sender, receiver) = channel();
        ask(
            self.call.clone(),
            Reply::new(move |result: Result<_, ApiError>| {
                let _ = sender.send(result);
            }),
        );
        receiver.recv_timeout(PATIENCE).ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl World for Moment {
    fn focus(&self) -> &SessionId {
        &self.call.session
    }

    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>> {
        if let Some(view) = self.taken.borrow().get(id) {
            return Some(view.clone());
        }
        let handle = self.runtime.shared.session(&SessionId::from(id)).ok()?;
        Some(self.view(handle))
    }

    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        let handles = self.runtime.shared.live().into_iter();
        handles.map(|handle| self.view(handle) as Arc<dyn SessionView>).collect()
    }

    fn list(&self, all: bool, limit: usize) -> Vec<SessionInfo> {
        let shared = &self.runtime.shared;
        let cwd = match shared.session(&self.call.session) {
            Ok(handle) => self.view(handle).snapshot.facts.cwd.clone(),
            Err(_) => shared.settings.cwd.to_string_lossy().into(),
        };
        let live: Vec<Arc<View>> = shared.live().into_iter().map(|handle| self.view(handle)).collect();
        let mut infos: Vec<SessionInfo> = live
            .iter()
            .rev()
            .filter(|view| all || view.snapshot.facts.cwd == cwd)
            .map(|view| view.info())
            .collect();
        let project = (!all).then(|| std::path::Path::new(&*cwd));
        for info in shared.store.list(project) {
            if infos.len() >= limit {
                break;
            }
            if live.iter().any(|view| view.handle.id == info.header.session) {
                continue;
            }
            infos.push(SessionInfo {
                id: info.header.session.to_string(),
                path: Some(info.path.to_string_lossy().into_owned()),
                name: info.name,
                worktree_path: info.header.cwd.to_string(),
                first_message: info.first_message,
                modified: Timestamp::try_from(info.modified).ok().map(|time| rfc3339(time).to_string()),
                message_count: info.messages.and_then(|count| usize::try_from(count).ok()),
                created_at: info.header.created_at.to_string(),
                parent: info.header.parent.map(|parent| parent.session.to_string()),
                live: false,
            });
        }
        infos.truncate(limit);
        infos
    }

    fn models(&self) -> Vec<Value<'static>> {
        self.ask(|call, reply| self.runtime.models(call, reply))
    }

    fn providers(&self) -> Vec<String> {
        self.runtime.shared.providers.names().map(str::to_owned).collect()
    }

    fn connections(&self) -> Vec<ConnectionFacts> {
        let clients = self.runtime.shared.hub.clients().into_iter();
        let facts = clients.map(|(id, client)| {
            let focus = client.focused();
            let sent = TOPICS.iter().filter(|spec| client.wants(spec.topic, Some(&focus)));
            ConnectionFacts {
                id,
                interactor: client.is_interactor(),
                topics: sent.map(|spec| spec.name).collect(),
                standing: client.standing(),
                session: Some(focus),
            }
        });
        facts.collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let settings = &self.runtime.shared.settings;
        let path = |path: &std::path::Path| Value::from(path.to_string_lossy().into_owned());
        let values = [
            ("state-dir", path(&settings.state_dir)),
            ("cwd", path(&settings.cwd)),
            ("provider", Value::from(settings.provider.to_string())),
            ("model", Value::from(settings.model.to_string())),
            ("model-file", settings.model_file.as_deref().map(path).into()),
            ("script", settings.script.as_deref().map(path).into()),
            ("mode", Value::from(settings.mode.to_string())),
        ];
        values.into_iter().map(|(key, value)| Setting { key, value, source: None }).collect()
    }

    fn process(&self) -> ProcessFacts {
        let shared = &self.runtime.shared;
        let now = shared.clock.now();
        ProcessFacts {
            pid: std::process::id(),
            started_at: rfc3339(shared.started).to_string(),
            uptime_ms: now.as_millisecond().saturating_sub(shared.started.as_millisecond()),
            now: rfc3339(now).to_string(),
        }
    }

    fn jobs(&self) -> Vec<Value<'static>> {
        self.ask(|call, reply| self.runtime.jobs(call, None, reply))
    }

    fn notes(&self) -> Option<Vec<Value<'static>>> {
        None
    }
}

impl View {
    fn info(&self) -> SessionInfo {
        let facts = &self.snapshot.facts;
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        SessionInfo {
            id: facts.id.to_string(),
            path: text(&facts.file),
            name: text(&facts.name),
            worktree_path: facts.cwd.to_string(),
            first_message: text(&facts.first_message),
            modified: self.snapshot.branch.last().map(|entry| entry.ts.to_string()),
            message_count: Some(facts.message_count),
            created_at: facts.created_at.to_string(),
            parent: facts.parent.as_ref().map(ToString::to_string),
            live: true,
        }
    }
}

impl SessionView for View {
    fn id(&self) -> &SessionId {
        &self.handle.id
    }

    fn messages(&self) -> Vec<Arc<Message>> {
        self.snapshot.messages().cloned().collect()
    }

    fn entries(&self) -> Vec<EntryView> {
        let view = |entry: &Arc<crate::store::Entry>| {
            let mut data = Map::new();
            let mut message = None;
            let kind: Arc<str> = match &entry.body {
                EntryBody::Message(said) => {
                    message = Some(said.clone());
                    "message".into()
                }
                EntryBody::Name(name) => {
                    data.put("name", name.to_string());
                    "name".into()
                }
                EntryBody::Model { provider, id } => {
                    data.put("provider", provider.to_string());
                    data.put("model-id", id.to_string());
                    "model".into()
                }
                EntryBody::Setting { key, value } => {
                    data.put("key", Value::keyword(key.to_string()));
                    data.put("value", value.clone());
                    "setting".into()
                }
                EntryBody::Leaf(leaf) => {
                    data.put("leaf", leaf.to_value());
                    "leaf".into()
                }
                EntryBody::Other { kind, data: all } => {
                    data = all.clone();
                    kind.clone()
                }
            };
            EntryView {
                id: entry.id.clone(),
                parent: entry.parent.clone(),
                ts: entry.ts.clone(),
                kind,
                message,
                data,
            }
        };
        self.snapshot.branch.iter().map(view).collect()
    }

    fn fact(&self, fact: SessionFact) -> Value<'static> {
        use SessionFact as F;
        let facts = &self.snapshot.facts;
        let text = |text: &str| Value::from(text.to_owned());
        let optional = |value: &Option<Arc<str>>| Value::from(value.as_deref().map(text));
        match fact {
            F::SessionId => facts.id.to_value(),
            F::SessionName => optional(&facts.name),
            F::DisplayName => text(facts.display_name()),
            F::SessionFile => optional(&facts.file),
            F::WorktreePath => text(&facts.cwd),
            F::GitBranch => optional(&facts.git_branch),
            F::Phase => Value::keyword(facts.phase.as_str()),
            F::IsStreaming => facts.is_streaming().into(),
            F::IsCompacting => (facts.phase == Phase::Compacting).into(),
            F::PendingMessageCount => facts.pending_messages.into(),
            F::RetryAttempt => facts.retry_attempt.into(),
            F::RetryDeadlineMs => facts.retry_deadline_ms.into(),
            F::InterruptPending => facts.interrupt_pending.into(),
            F::Model => {
                let mut model = Map::new();
                model.put("provider", text(&facts.model_provider));
                model.put("id", text(&facts.model_id));
                Value::from(model)
            }
            F::ModelProvider => text(&facts.model_provider),
            F::ModelId => text(&facts.model_id),
            F::ModelReasoning => facts.model_reasoning.into(),
            F::ThinkingLevel => facts.thinking.as_str().into(),
            F::EffectiveReasoningEffort => facts.effective_thinking().as_str().into(),
            F::Mode => text(&facts.mode),
            F::AuthenticatedProviders => Value::vector(self.shared.providers.names().map(text)),
            // There are none to find yet.
            F::PromptTemplates => Value::vector(std::iter::empty::<Value<'static>>()),
            F::MessageCount => facts.message_count.into(),
            F::FirstMessage => optional(&facts.first_message),
            F::UsageInput => count(facts.usage.input),
            F::UsageOutput => count(facts.usage.output),
            F::UsageCacheRead => count(facts.usage.cache_read),
            F::UsageCacheWrite => count(facts.usage.cache_write),
            F::UsageCostTotal => facts.usage.cost.into(),
            F::ContextTokens => count(facts.context_tokens),
            F::ContextFraction => facts.context_fraction().into(),
            F::ContextWindow => count(facts.context_window),
            F::AutoCompactionEnabled => facts.auto_compaction.into(),
            F::AutoRetryEnabled => facts.auto_retry.into(),
            F::SystemPrompt => prompt::system(facts).into(),
            F::ParentSessionId => facts.parent.as_ref().map(SessionId::to_value).into(),
            F::CreatedAt => text(&facts.created_at),
            F::Offset => count(self.snapshot.offset),
            F::Footer => projection::footer(facts).into(),
            F::State => projection::session_state(facts).into(),
        }
    }
}
