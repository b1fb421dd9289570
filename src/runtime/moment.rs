//! A snapshot of the runtime, for queries.
//!
//! Takes each session's snapshot once and keeps it, so that a query reads one state of it, however often it
//! asks. Blocks nothing: snapshots are shared, and lists from disk are read on the calling thread. Does not
//! know queries.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::mpsc::channel;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::catalogue::TOPICS;
use crate::clock::rfc3339;
use crate::context::skill::Skill;
use crate::context::{Problem, Project};
use crate::event::StagePassed;
use crate::facts::{JobFacts, Phase};
use crate::hook::Stage;
use crate::interaction::audit;
use crate::message::{Message, SessionId, count};
use crate::projection;
use crate::provider::ToolSpec;
use crate::query::graph::Failure;
use crate::query::resolvers::session::SessionFact;
use crate::query::world::{
    ConnectionFacts, EntryView, ProcessFacts, QuestionFacts, QueuedView, Reading, SessionInfo, SessionView,
    Setting, Shown, StoreFacts, Walk, World,
};
use crate::runtime::commands;
use crate::runtime::host::Runtime;
use crate::runtime::mailbox::Handle;
use crate::runtime::manifest::Manifest;
use crate::runtime::prompt::{self, Part};
use crate::runtime::queue::Waiting;
use crate::runtime::services::Shared;
use crate::runtime::snapshot::Snapshot;
use crate::session::{ApiError, Call, Counts, Jobs as _, Reply, Settings as _};
use crate::store::EntryBody;
use crate::tool;
use crate::value::{Map, Text, Value};

mod described;

/// Time limit for a list from another part of the runtime.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Moment {
    runtime: Runtime,
    call: Call,
    taken: RefCell<HashMap<SessionId, Arc<View>>>,
    questions: OnceCell<Vec<QuestionFacts>>,
    counts: OnceCell<Counts>,
}

/// A session in that snapshot.
struct View {
    handle: Handle,
    snapshot: Arc<Snapshot>,
    stage: Option<Arc<StagePassed>>,
    manifest: Arc<Manifest>,
    shared: Arc<Shared>,
}

impl Moment {
    pub(super) fn new(runtime: Runtime, call: Call) -> Self {
        let (questions, counts) = (OnceCell::new(), OnceCell::new());
        Self { runtime, call, taken: RefCell::default(), questions, counts }
    }

    fn view(&self, handle: Handle) -> Arc<View> {
        let mut taken = self.taken.borrow_mut();
        let view = taken.entry(handle.id.clone()).or_insert_with(|| {
            let (snapshot, stage, manifest) = (handle.snapshot(), handle.stage(), handle.manifest());
            Arc::new(View { handle, snapshot, stage, manifest, shared: self.runtime.shared.clone() })
        });
        view.clone()
    }

    /// The folder of the query's session.
    fn folder(&self) -> Arc<str> {
        match self.runtime.shared.tree.get(&self.call.session) {
            Ok(handle) => self.view(handle).snapshot.facts.cwd.clone(),
            Err(_) => self.runtime.shared.settings.cwd.to_string_lossy().into(),
        }
    }

    /// Requests a list from the session API.
    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(Call, Reply<Vec<T>>)) -> Vec<T> {
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
        let handle = self.runtime.shared.tree.get(&SessionId::from(id)).ok()?;
        Some(self.view(handle))
    }

    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        let handles = self.runtime.shared.tree.all().into_iter();
        handles.map(|handle| self.view(handle) as Arc<dyn SessionView>).collect()
    }

    fn list(&self, all: bool, limit: usize) -> Result<Vec<SessionInfo>, Failure> {
        let shared = &self.runtime.shared;
        let cwd = self.folder();
        let live: Vec<Arc<View>> = shared.tree.all().into_iter().map(|handle| self.view(handle)).collect();
        let mut infos: Vec<SessionInfo> = live
            .iter()
            .rev()
            .filter(|view| all || view.snapshot.facts.cwd == cwd)
            .map(|view| view.info())
            .collect();
        let project = (!all).then(|| std::path::Path::new(&*cwd));
        let known: HashSet<&SessionId> = live.iter().map(|view| &view.handle.id).collect();
        let on_disk = match infos.len() < limit {
            true => shared.read_store(|store| store.list(project)),
            false => Ok(Vec::new()),
        };
        let on_disk = on_disk.map_err(|error| Failure::new(error.to_string()))?;
        for info in on_disk.into_iter().filter(|info| !known.contains(&info.header.session)) {
            if infos.len() >= limit {
                break;
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
        Ok(infos)
    }

    fn models(&self) -> Vec<Value<'static>> {
        self.ask(|call, reply| self.runtime.models(call, reply))
    }

    fn providers(&self) -> Vec<String> {
        self.runtime.shared.configuration.newest().providers.ready().into_iter().map(str::to_owned).collect()
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
                peer: client.peer(),
                asks: id == self.call.connection,
                session: Some(focus),
            }
        });
        facts.collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let Shared { configuration, store, .. } = &*self.runtime.shared;
        let manifest = configuration.newest();
        let settings = &manifest.settings;
        let path = |path: &std::path::Path| Value::from(path.to_string_lossy().into_owned());
        let values = [
            ("state-dir", path(&settings.state_dir)),
            ("cwd", path(&settings.cwd)),
            ("config", settings.files.user.as_deref().map(path).into()),
            ("provider", Value::from(settings.provider.to_string())),
            ("model", Value::from(settings.model.to_string())),
            ("model-file", settings.model_file.as_deref().map(path).into()),
            ("script", settings.script.as_deref().map(path).into()),
            ("mode", Value::from(settings.mode.as_str())),
            ("durability", Value::from(store.durability().as_str())),
            ("trusted", Value::from(settings.files.is_trusted())),
        ];
        let setting = |(key, value): (&'static str, _)| Setting {
            key: key.into(),
            value,
            source: match key {
                "trusted" => {
                    settings.files.trust.as_deref().map_or_else(String::new, |p| p.to_string_lossy().into())
                }
                _ => settings.origin(key).to_owned(),
            }
            .into(),
        };
        let mut all: Vec<Setting> = values.into_iter().map(setting).collect();
        // Only the files' values. An unreadable file was reported at the start of the process.
        let mut sources = settings.files.read().unwrap_or_default().sources;
        sources.retain(|sourced| !all.iter().any(|setting| *setting.key == *sourced.key));
        all.extend(sources.into_iter().map(|sourced| Setting {
            key: sourced.key.into(),
            value: described::without_secrets(sourced.value),
            source: sourced.from.to_string_lossy().into(),
        }));
        all
    }

    fn reading(&self) -> Reading {
        let manifest = self.runtime.shared.configuration.newest();
        Reading { revision: manifest.revision, read_at: manifest.read_at.to_string() }
    }

    fn process(&self) -> ProcessFacts {
        let shared = &self.runtime.shared;
        let now = shared.clock.now();
        ProcessFacts {
            pid: std::process::id(),
            started_at: rfc3339(shared.started).to_string(),
            uptime_ms: i64::try_from(shared.clock.passed().saturating_sub(shared.began).as_millis())
                .unwrap_or(i64::MAX),
            now: rfc3339(now).to_string(),
            events: shared.hub.events(),
            tasks: shared.executor.metrics().num_alive_tasks(),
        }
    }

    fn counts(&self) -> Counts {
        self.counts.get_or_init(|| self.runtime.shared.tally.read()).clone()
    }

    fn jobs(&self, session: &SessionId) -> Vec<Arc<JobFacts>> {
        self.ask(|call, reply| {
            self.runtime.jobs(Call { session: session.clone(), ..call }, None, reply);
        })
    }

    fn tools(&self) -> Vec<Value<'static>> {
        let tool = |spec: ToolSpec| {
            let map = Map::new().with("name", spec.name).with("description", spec.description);
            Value::from(map.with("parameters", spec.parameters))
        };
        tool::specs().into_iter().map(tool).collect()
    }

    fn questions(&self) -> Vec<QuestionFacts> {
        let open = || {
            let open = self.runtime.shared.board.open().into_iter();
            let facts = open.map(|(asked_at, id, question, shown_to)| QuestionFacts {
                id: id.to_string(),
                kind: question.kind.as_str(),
                turn: question.origin.turn,
                correlation: question.origin.correlation.to_string(),
                session: question.origin.session,
                child_of: question.origin.child_of,
                asked_at: asked_at.to_string(),
                payload: (!question.kind.as_str().starts_with("auth.")).then_some(question.payload),
                shown_to,
            });
            facts.collect()
        };
        self.questions.get_or_init(open).clone()
    }

    fn audit(&self, limit: usize) -> Vec<Value<'static>> {
        let records = audit::newest(&audit::path(&self.runtime.shared.settings.state_dir), limit);
        records.into_iter().map(Value::from).collect()
    }

    fn provider(&self, name: &str) -> Option<Map<'static>> {
        self.runtime.shared.configuration.newest().providers.get(name).map(|provider| provider.facts())
    }

    fn workflows(&self) -> Vec<Value<'static>> {
        let Ok(handle) = self.runtime.shared.tree.get(&self.call.session) else { return Vec::new() };
        let manifest = handle.manifest();
        manifest.workflows.iter().map(|(name, read)| described::workflow(name, read)).collect()
    }

    fn stages(&self) -> Vec<&'static str> {
        Stage::ALL.map(Stage::as_str).to_vec()
    }

    fn hooks(&self) -> Vec<Value<'static>> {
        let Ok(handle) = self.runtime.shared.tree.get(&self.call.session) else { return Vec::new() };
        handle.manifest().hooks.iter().map(described::hook).collect()
    }

    fn store(&self) -> StoreFacts {
        let store = &self.runtime.shared.store;
        let counters = store.counters();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        StoreFacts {
            root: store.root().to_string_lossy().into_owned(),
            durability: store.durability().as_str(),
            appends: counters.appends,
            failures: counters.failures,
            bytes: counters.bytes,
            syncs: counters.syncs,
            sync_micros: micros(counters.sync_time),
            slowest_sync_micros: micros(counters.slowest_sync),
        }
    }

    fn notes(&self) -> Option<Vec<Value<'static>>> {
        let notes = self.runtime.shared.memory.notes(self.folder().as_ref().as_ref()).ok()?;
        Some(notes.iter().rev().map(described::note).collect())
    }

    fn search_notes(&self, text: &str) -> Vec<Value<'static>> {
        let found = self.runtime.shared.memory.search(self.folder().as_ref().as_ref(), text);
        found.unwrap_or_default().iter().map(described::note).collect()
    }
}

impl View {
    /// The search results for the session's folder.
    fn project(&self) -> Arc<Project> {
        self.shared.library.get(&self.shared.configuration.places(&self.snapshot.facts.cwd))
    }

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

    fn messages(&self) -> Walk<'_, &Arc<Message>> {
        Box::new(self.snapshot.messages())
    }

    fn entries(&self) -> Walk<'_, EntryView> {
        let view = |entry: &Arc<crate::store::Entry>| {
            let mut data = Map::new();
            let mut message = None;
            let kind: Text<'static> = match &entry.body {
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
                    Text::from(kind.to_string())
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
        Box::new(self.snapshot.branch.iter().map(view))
    }

    fn queue(&self) -> Vec<QueuedView> {
        let view = |waiting: &Waiting| QueuedView {
            entry: waiting.entry.clone(),
            until: waiting.until.as_str(),
            text: waiting.text(),
            turn: waiting.turn.clone(),
        };
        self.snapshot.queue.iter().map(view).collect()
    }

    fn stage(&self) -> Option<Arc<StagePassed>> {
        self.stage.clone()
    }

    fn rules(&self) -> Vec<Value<'static>> {
        let configured = self.manifest.rules.iter().map(|rule| described::rule(rule, "configured"));
        let answered = self.handle.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        configured.chain(answered.iter().map(|rule| described::rule(rule, "answered"))).collect()
    }

    fn shown(&self) -> Shown {
        let progress = self.handle.progress.load();
        let Some(progress) = progress.as_ref() else { return Shown::default() };
        Shown {
            widgets: progress.widgets.clone(),
            widget_specs: progress.specs.clone(),
            statuses: progress.statuses.clone(),
        }
    }

    fn stats(&self) -> Map<'static> {
        let file = self.snapshot.facts.file.as_deref().and_then(|file| std::fs::metadata(file).ok());
        self.snapshot.stats(file.map_or(0, |file| file.len()))
    }

    fn prompt_parts(&self) -> Vec<Value<'static>> {
        self.shared.prompt_parts(&self.manifest, &self.snapshot.facts).iter().map(Part::to_value).collect()
    }

    fn skills(&self) -> Vec<Value<'static>> {
        let project = self.project();
        let skill = |skill: &Skill| {
            let mut map = Map::new();
            map.put("psi.skill/name", skill.name.clone());
            map.put("psi.skill/description", skill.description.clone());
            map.put("psi.skill/path", skill.path.to_string_lossy().into_owned());
            map.put("psi.skill/scope", skill.scope.as_str());
            map.put("psi.skill/for-model", skill.for_model);
            Value::from(map)
        };
        project.skills.values().map(skill).collect()
    }

    fn added_commands(&self) -> Vec<String> {
        commands::added(&self.project()).map(|command| command.name.to_owned()).collect()
    }

    fn context_problems(&self) -> Vec<Value<'static>> {
        let project = self.project();
        let problem = |problem: &Problem| {
            let path = problem.path.to_string_lossy().into_owned();
            Value::from(Map::new().with("path", path).with("message", problem.message.clone()))
        };
        project.problems.iter().map(problem).collect()
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
            F::Mode => facts.mode.as_str().into(),
            F::Sandbox => Value::keyword(facts.sandbox()),
            F::AuthenticatedProviders => {
                let manifest = self.shared.configuration.newest();
                Value::vector(manifest.providers.ready().into_iter().map(text))
            }
            F::PromptTemplates => projection::templates(&facts.prompt_templates).into_owned(),
            F::EditorContext => facts.editor.as_deref().cloned().into(),
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
            F::SystemPrompt => prompt::text(&self.shared.prompt_parts(&self.manifest, facts)).into(),
            F::SubagentId => self.handle.child_of().map(|(_, subagent)| text(&subagent)).into(),
            F::Depth => self.handle.depth().into(),
            F::Envelope => {
                let link = self.handle.parent.as_ref();
                link.map(|link| Value::vector(link.envelope.iter().cloned())).into()
            }
            F::ParentSessionId => facts.parent.as_ref().map(SessionId::to_value).into(),
            F::CreatedAt => text(&facts.created_at),
            F::Offset => count(self.snapshot.offset),
            F::ConfigRevision => count(self.manifest.revision),
            F::Footer => projection::footer(facts).into_owned().into(),
            F::State => projection::session_state(facts).into_owned().into(),
        }
    }
}
