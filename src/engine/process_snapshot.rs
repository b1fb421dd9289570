//! A snapshot of the engine, for queries.
//!
//! Takes each session's snapshot once and keeps it, so that a query reads one state of it, however often it
//! asks. Blocks nothing: snapshots are shared, and lists from disk are read on the calling thread. Does not
//! know queries.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::rfc3339;
use crate::context::Project;
use crate::engine::commands;
use crate::engine::handle::Handle;
use crate::engine::host::Engine;
use crate::engine::listing::{self, ListEntry};
use crate::engine::mcp;
use crate::engine::queue::QueuedMessage;
use crate::engine::revision::ConfigRevision;
use crate::engine::services::Services;
use crate::engine::snapshot::SessionSnapshot;
use crate::engine::system_prompt;
use crate::event::StagePassed;
use crate::facts::agent::ListedAgent;
use crate::facts::mcp::McpServer;
use crate::facts::{
    AtWork, HostFacts, JobFacts, ModelFacts, ProviderFacts, SessionFacts, SessionStats, Slot,
};
use crate::federation::SlotText;
use crate::hook::Hook;
use crate::http;
use crate::interaction::audit;
use crate::limits::REALM_CALL_WAIT;
use crate::memory::Note;
use crate::message::{Message, SessionId};
use crate::provider::ToolSpec;
use crate::provider::choice::ModelChoice;
use crate::query::world::{
    ConnectionFacts, ControlFacts, ProcessFacts, PromptPart, QuestionFacts, QueuedView, Reading,
    ResolverFailure, SessionRow, SessionView, Setting, Shown, StoreFacts, TeamFacts, Walk, World,
};
use crate::session::{ApiError, Call, Control as _, Counts, Jobs as _, Reply, Sessions as _};
use crate::store::Entry;
use crate::tool::permission::Rule;
use crate::value::{Map, Value};
use crate::workflow::Workflow;

/// Time limit for a list from another part of the engine.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct ProcessSnapshot {
    engine: Engine,
    call: Call,
    taken: RefCell<HashMap<SessionId, Arc<View>>>,
    questions: OnceCell<Vec<QuestionFacts>>,
    hosts: OnceCell<Result<Vec<HostFacts>, ResolverFailure>>,
    counts: OnceCell<Counts>,
}

/// A session in that snapshot.
struct View {
    handle: Handle,
    snapshot: Arc<SessionSnapshot>,
    stage: Option<Arc<StagePassed>>,
    config: Arc<ConfigRevision>,
    shared: Arc<Services>,
}

impl ProcessSnapshot {
    pub(super) fn new(engine: Engine, call: Call) -> Self {
        let (questions, hosts, counts) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { engine, call, taken: RefCell::default(), questions, hosts, counts }
    }

    fn view(&self, handle: Handle) -> Arc<View> {
        let mut taken = self.taken.borrow_mut();
        let view = taken.entry(handle.id.clone()).or_insert_with(|| {
            let (snapshot, stage, config) = (handle.snapshot(), handle.stage(), handle.config());
            Arc::new(View { handle, snapshot, stage, config, shared: self.engine.shared.clone() })
        });
        view.clone()
    }

    /// The folder of the query's session.
    fn folder(&self) -> Arc<str> {
        match self.engine.shared.tree.get(&self.call.session) {
            Ok(handle) => self.view(handle).snapshot.facts.cwd.clone(),
            Err(_) => self.engine.shared.settings.cwd.to_string_lossy().into(),
        }
    }

    /// Requests a list from the session API.
    fn ask<T: Send + 'static>(&self, ask: impl FnOnce(Call, Reply<Vec<T>>)) -> Vec<T> {
        self.asked(PATIENCE, ask).and_then(Result::ok).unwrap_or_default()
    }

    /// What the session API answers in time, if it does.
    fn asked<T: Send + 'static>(
        &self,
        patience: Duration,
        ask: impl FnOnce(Call, Reply<Vec<T>>),
    ) -> Option<Result<Vec<T>, ApiError>> {
        let (sender, receiver) = channel();
        ask(
            self.call.clone(),
            Reply::new(move |result: Result<_, ApiError>| {
                let _ = sender.send(result);
            }),
        );
        receiver.recv_timeout(patience).ok()
    }
}

impl World for ProcessSnapshot {
    fn focus(&self) -> &SessionId {
        &self.call.session
    }

    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>> {
        if let Some(view) = self.taken.borrow().get(id) {
            return Some(view.clone());
        }
        let handle = self.engine.shared.tree.get(&SessionId::from(id)).ok()?;
        Some(self.view(handle))
    }

    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        let handles = self.engine.shared.tree.all().into_iter();
        handles.map(|handle| self.view(handle) as Arc<dyn SessionView>).collect()
    }

    fn list(&self, all: bool, limit: usize) -> Result<Vec<SessionRow>, ResolverFailure> {
        let cwd = self.folder();
        let found = listing::sessions(&self.engine.shared, (!all).then_some(&*cwd), limit, true)
            .map(|(found, _)| found);
        let info = |listed| match listed {
            ListEntry::Live(handle) => self.view(handle).info(),
            ListEntry::Elsewhere(slot) => {
                let text = SlotText::read(&slot.text);
                SessionRow {
                    id: slot.header.session.to_string(),
                    location: None,
                    name: text.name.map(|name| name.to_string()),
                    worktree_path: slot.cwd.to_string(),
                    first_message: text.first_message.map(|first| first.to_string()),
                    modified: Timestamp::from_millisecond(slot.changed_ms)
                        .ok()
                        .map(|time| rfc3339(time).to_string()),
                    message_count: usize::try_from(text.messages).ok(),
                    created_at: slot.header.created_at.to_string(),
                    parent: slot.header.parent.map(|parent| parent.session.to_string()),
                    live: false,
                }
            }
            ListEntry::Stored(info) => SessionRow {
                id: info.header.session.to_string(),
                location: Some(info.location().into_owned()),
                name: info.name,
                worktree_path: info.header.cwd.to_string(),
                first_message: info.first_message,
                modified: Timestamp::try_from(info.modified).ok().map(|time| rfc3339(time).to_string()),
                message_count: info.messages.and_then(|count| usize::try_from(count).ok()),
                created_at: info.header.created_at.to_string(),
                parent: info.header.parent.map(|parent| parent.session.to_string()),
                live: false,
            },
        };
        let found = found.map_err(|error| ResolverFailure::new(error.to_string()))?;
        Ok(found.into_iter().map(info).collect())
    }

    fn models(&self) -> Vec<ModelFacts> {
        let config = self.engine.shared.configuration.newest();
        let ready = config.providers.ready();
        config.models.iter().map(|model| model.facts(ready.contains(&&*model.provider))).collect()
    }

    fn providers(&self) -> Vec<String> {
        self.engine.shared.configuration.newest().providers.ready().into_iter().map(str::to_owned).collect()
    }

    fn connections(&self) -> Vec<ConnectionFacts> {
        let clients = self.engine.shared.hub.clients().into_iter();
        let facts = clients.map(|(id, client)| {
            let focus = client.focused();
            ConnectionFacts {
                id,
                interactor: client.is_interactor(),
                topics: client.topics(),
                standing: client.standing(),
                peer: client.peer(),
                asks: id == self.call.connection,
                session: focus,
            }
        });
        facts.collect()
    }

    fn settings(&self) -> Vec<Setting> {
        let Services { configuration, journals, .. } = &*self.engine.shared;
        let config = configuration.newest();
        let settings = &config.settings;
        let chosen = configuration.usual_model(None).ok();
        let of_choice = |part: fn(&ModelChoice) -> &Arc<str>| {
            Value::from(chosen.as_ref().map(|choice| part(choice).to_string()))
        };
        let reason = chosen.as_ref().and_then(ModelChoice::reason);
        let path = |path: &std::path::Path| Value::from(path.to_string_lossy().into_owned());
        let values = [
            ("state-dir", path(&settings.state_dir)),
            ("cwd", path(&settings.cwd)),
            ("config", settings.files.user.as_deref().map(path).into()),
            ("provider", of_choice(|choice| &choice.provider)),
            ("model", of_choice(|choice| &choice.model)),
            ("model-file", settings.model_file.as_deref().map(path).into()),
            ("script", settings.script.as_deref().map(path).into()),
            ("mode", Value::from(settings.mode.as_str())),
            ("durability", Value::from(journals.durability().as_str())),
            ("trusted", Value::from(settings.files.is_trusted())),
        ];
        let setting = |(key, value): (&'static str, _)| Setting {
            key: key.into(),
            value,
            source: match key {
                "trusted" => {
                    settings.files.trust.as_deref().map_or_else(String::new, |p| p.to_string_lossy().into())
                }
                "provider" | "model" => settings.origin_or(key, reason.as_deref()).to_owned(),
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
            value: without_secrets(sourced.value),
            source: sourced.from.to_string_lossy().into(),
        }));
        all
    }

    fn reading(&self) -> Reading {
        let config = self.engine.shared.configuration.newest();
        Reading { revision: config.revision, read_at: config.read_at.to_string() }
    }

    fn process(&self) -> ProcessFacts {
        let shared = &self.engine.shared;
        let now = shared.clock.now();
        ProcessFacts {
            pid: std::process::id(),
            started_at: rfc3339(shared.started).to_string(),
            uptime_ms: i64::try_from(shared.clock.passed().saturating_sub(shared.began).as_millis())
                .unwrap_or(i64::MAX),
            now: rfc3339(now).to_string(),
            events: shared.hub.events(),
            tasks: shared.executor.metrics().num_alive_tasks(),
            outlives_clients: shared.settings.outlives_clients,
        }
    }

    fn realm_host(&self) -> Option<Arc<str>> {
        self.engine.shared.federation.get().map(|federation| federation.host_name())
    }

    fn realm_away(&self) -> Option<Duration> {
        self.engine.shared.federation.get().and_then(|federation| federation.away_for())
    }

    fn realm_sessions(&self) -> Vec<Slot> {
        let federation = self.engine.shared.federation.get();
        let sessions = federation.map(|federation| federation.sessions()).unwrap_or_default();
        sessions.iter().map(|slot| listing::realm_slot(slot).slot).collect()
    }

    fn realm_hosts(&self) -> Result<Vec<HostFacts>, ResolverFailure> {
        let ask = || {
            if self.engine.shared.federation.get().is_none() {
                return Ok(Vec::new());
            }
            let hosts = self.asked(REALM_CALL_WAIT, |call, reply| self.engine.hosts(call, reply));
            let hosts = hosts.ok_or_else(|| ResolverFailure::new("The realm does not answer in time."))?;
            hosts.map_err(|error| ResolverFailure::new(error.message))
        };
        self.hosts.get_or_init(ask).clone()
    }

    fn at_work(&self) -> Vec<AtWork> {
        self.engine.all_at_work()
    }

    fn control(&self) -> ControlFacts {
        let newest = self.engine.shared.configuration.newest();
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let teams = newest.settings.control.teams.iter().map(|team| TeamFacts {
            name: team.name.clone(),
            folders: team.folders.iter().map(text).collect(),
            members: team.members.iter().map(|member| (member.name.clone(), member.may.clone())).collect(),
        });
        ControlFacts {
            teams: teams.collect(),
            limits: self.engine.control_capabilities(),
            requests: self.engine.shared.control.all(),
        }
    }

    fn counts(&self) -> Counts {
        self.counts.get_or_init(|| self.engine.shared.tally.read()).clone()
    }

    fn jobs(&self, session: &SessionId) -> Vec<Arc<JobFacts>> {
        self.ask(|call, reply| {
            self.engine.jobs(Call { session: session.clone(), ..call }, None, reply);
        })
    }

    fn tools(&self) -> Vec<ToolSpec> {
        let Ok(handle) = self.engine.shared.tree.get(&self.call.session) else { return Vec::new() };
        self.engine.shared.mcp.toolbox_to_show(&handle).specs()
    }

    fn mcp_servers(&self) -> Vec<McpServer> {
        let Ok(handle) = self.engine.shared.tree.get(&self.call.session) else { return Vec::new() };
        self.engine.shared.mcp.listed(&handle)
    }

    fn agents(&self) -> Vec<ListedAgent> {
        let Ok(handle) = self.engine.shared.tree.get(&self.call.session) else { return Vec::new() };
        self.engine.foreign.listed(&handle)
    }

    fn questions(&self) -> Vec<QuestionFacts> {
        let open = || {
            let open = self.engine.shared.questions.open().into_iter();
            let facts = open.map(|(asked_at, id, question, shown_to)| QuestionFacts {
                id: id.to_string(),
                kind: question.kind(),
                turn: question.origin.turn,
                correlation: question.origin.correlation.to_string(),
                session: question.origin.session,
                subagent: question.origin.subagent,
                asked_at: asked_at.to_string(),
                content: (!question.content.kind().is_private())
                    .then_some((question.content, question.warnings)),
                shown_to,
            });
            facts.collect()
        };
        self.questions.get_or_init(open).clone()
    }

    fn audit(&self, limit: usize) -> Vec<Map<'static>> {
        audit::newest(&audit::path(&self.engine.shared.settings.state_dir), limit)
    }

    fn provider(&self, name: &str) -> Option<ProviderFacts> {
        self.engine.shared.configuration.newest().providers.get(name).map(|provider| provider.facts())
    }

    fn workflows(&self) -> Vec<(String, Result<Arc<Workflow>, String>)> {
        let Ok(handle) = self.engine.shared.tree.get(&self.call.session) else { return Vec::new() };
        handle.config().workflows.clone().into_iter().collect()
    }

    fn hooks(&self) -> Vec<Hook> {
        let Ok(handle) = self.engine.shared.tree.get(&self.call.session) else { return Vec::new() };
        handle.config().hooks.iter().cloned().collect()
    }

    fn store(&self) -> StoreFacts {
        let journals = &self.engine.shared.journals;
        let counters = journals.counters();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        StoreFacts {
            root: journals.location().into_owned(),
            durability: journals.durability().as_str(),
            appends: counters.appends,
            failures: counters.failures,
            bytes: counters.bytes,
            syncs: counters.syncs,
            sync_micros: micros(counters.sync_time),
            slowest_sync_micros: micros(counters.slowest_sync),
        }
    }

    fn notes(&self) -> Option<Arc<Vec<Note>>> {
        self.engine.shared.memory.notes(self.folder().as_ref().as_ref()).ok()
    }

    fn search_notes(&self, text: &str) -> Vec<Note> {
        self.engine.shared.memory.search(self.folder().as_ref().as_ref(), text).unwrap_or_default()
    }
}

impl View {
    fn info(&self) -> SessionRow {
        let facts = &self.snapshot.facts;
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        SessionRow {
            id: facts.id.to_string(),
            location: text(&facts.location),
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
    fn facts(&self) -> &SessionFacts {
        &self.snapshot.facts
    }

    fn offset(&self) -> u64 {
        self.snapshot.offset
    }

    fn config_revision(&self) -> u64 {
        self.config.revision
    }

    fn providers(&self) -> Vec<String> {
        self.shared.configuration.newest().providers.ready().into_iter().map(str::to_owned).collect()
    }

    fn subagent(&self) -> Option<(Arc<str>, Vec<String>)> {
        self.handle.parent.as_ref().map(|link| (link.subagent.clone(), link.envelope.clone()))
    }

    fn depth(&self) -> u32 {
        self.handle.depth()
    }

    fn prompt_parts(&self) -> Vec<PromptPart> {
        self.shared.prompt_parts(&self.handle, &self.config, &self.snapshot.facts)
    }

    fn system_prompt(&self) -> String {
        // As it is sent, once there was a request.
        let sent = self.handle.prompt.get().map(|prompt| prompt.text);
        sent.unwrap_or_else(|| system_prompt::text(&self.prompt_parts()))
    }

    fn project(&self) -> Arc<Project> {
        self.shared.library.get(&self.shared.configuration.places(&self.snapshot.facts.cwd))
    }

    fn added_commands(&self) -> Vec<String> {
        let of_servers = mcp::commands(&self.shared.mcp.used(&self.handle));
        let of_servers = of_servers.into_iter().map(|command| command.name);
        commands::added(&self.project()).map(|command| command.name.to_owned()).chain(of_servers).collect()
    }

    fn messages(&self) -> Walk<'_, &Arc<Message>> {
        Box::new(self.snapshot.messages())
    }

    fn entries(&self) -> Walk<'_, &Arc<Entry>> {
        Box::new(self.snapshot.branch.iter())
    }

    fn queue(&self) -> Vec<QueuedView> {
        let view = |waiting: &QueuedMessage| QueuedView {
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

    fn rules(&self) -> Vec<(Rule, &'static str)> {
        let standing = self.shared.standing(&self.config, Path::new(&*self.snapshot.facts.cwd));
        let configured = standing.into_iter().map(|rule| (rule, "configured"));
        let answered = self.handle.rules.all().into_iter().map(|rule| (rule, "answered"));
        configured.chain(answered).collect()
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

    fn stats(&self) -> SessionStats {
        self.snapshot.stats()
    }
}

/// A value of a configuration file with everything hidden whose name says that it may be a secret, and addresses
/// without what may be a key in them.
fn without_secrets(value: Value<'static>) -> Value<'static> {
    const SECRET: [&str; 6] = ["key", "token", "secret", "password", "authorization", "header"];
    match value {
        Value::Map(map) => {
            let hidden = |key: &Value<'_>| {
                let name = key.as_keyword().or_else(|| key.as_str()).unwrap_or_default().to_lowercase();
                SECRET.iter().any(|secret| name.contains(secret))
            };
            let entries = map.into_iter().map(|(key, value)| match hidden(&key) {
                true => (key, Value::keyword("hidden")),
                false => (key, without_secrets(value)),
            });
            Value::from(entries.collect::<Map<'static>>())
        }
        Value::Vector(items) | Value::List(items) => Value::vector(items.into_iter().map(without_secrets)),
        Value::Str(text) => Value::from(http::without_keys(&text).into_owned()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::config::Settings;
    use crate::engine::providers::Providers;
    use crate::store::{Durability, Store};
    use crate::tool::toolbox::Toolbox;
    use crate::tool::{CallError, CallFuture, Context, Plan, Site, Tool};

    /// A tool that only this session has.
    struct Own;

    impl Tool for Own {
        fn spec(&self) -> ToolSpec {
            ToolSpec { name: "own".to_owned(), description: String::new(), parameters: Value::Nil }
        }
        fn summary(&self, _: &Value<'_>) -> String {
            String::new()
        }
        fn plan(&self, _: Site<'_>, _: &Value<'_>) -> Result<Plan, CallError> {
            Err(CallError::Broken)
        }
        fn run<'a>(&'a self, _: &'a Context, _: &'a Plan, _: &'a Value<'static>) -> CallFuture<'a> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn tools_of_a_query_are_its_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { state_dir: dir.path().into(), cwd: "/".into(), ..Settings::default() };
        let store = Store::new(dir.path(), Durability::Relaxed).unwrap();
        let executor = tokio::runtime::Handle::current();
        let engine =
            Engine::new(Arc::new(SystemClock), settings, store, Providers::default(), executor).unwrap();
        let handle = engine.opener.create(None, "/".into());
        let id = handle.id.clone();
        let names = || {
            let call = Call { connection: 1, request: "r".into(), session: id.clone() };
            let tools = ProcessSnapshot::new(engine.clone(), call).tools();
            tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert!(names().contains(&"bash".to_owned()) && !names().contains(&"own".to_owned()));
        let handle = handle.with_tools(Toolbox::new(vec![Arc::new(Own)]));
        engine.shared.tree.admit(&handle);
        assert_eq!(names(), ["own", "ask-user", "delegate"]);
    }
}
