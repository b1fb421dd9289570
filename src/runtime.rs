//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod api;
mod call;
mod commands;
mod compaction;
mod conversation;
mod execution;
mod gather;
mod history;
mod hooks;
mod hub;
mod jobs;
mod live;
mod login;
mod mailbox;
mod manifest;
mod moment;
mod open;
mod prompt;
mod queue;
mod remember;
mod retry;
mod rules;
mod stage;
mod subagent;
mod turn;
mod unload;
mod workflow;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use tokio_util::task::TaskTracker;

use crate::auth::{Credentials, Keys, Logins};
use crate::catalogue::Topic;
use crate::clock::Clock;
use crate::config::Settings;
use crate::context::Library;
use crate::event::{Body, Cause, Event};
use crate::http::Http;
use crate::interaction::Board;
use crate::interaction::audit::Audit;
use crate::memory::Memory;
use crate::message::SessionId;
use crate::projection::{self, SessionFacts};
use crate::provider::Provider;
use crate::provider::embedded::{Embedded, ModelFile};
use crate::provider::hosted::{Hosted, spec};
use crate::provider::models::Models;
use crate::store::Store;

pub use mailbox::{Handle, Snapshot};

/// The runtime of a process.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// What all sessions share.
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    /// When the process was started.
    started: jiff::Timestamp,
    settings: Settings,
    store: Store,
    memory: Memory,
    /// Instructions, skills and templates of the folders that sessions work in.
    library: Library,
    hub: Arc<hub::Hub>,
    /// The questions that wait for a person.
    board: Board,
    providers: Providers,
    models: Models,
    /// The newest reading of the configuration.
    manifest: ArcSwap<manifest::Manifest>,
    /// It is read by one at a time, so that revisions have an order.
    reloading: Mutex<()>,
    /// The provider and model of new sessions.
    usual_model: ArcSwap<(Arc<str>, Arc<str>)>,
    /// Where commands may write beside the workspace.
    writable: Vec<PathBuf>,
    /// Variables that hold keys, which commands do not inherit.
    hidden: Arc<[String]>,
    /// The live sessions. Handles only: a session's state is its task's.
    sessions: Arc<DashMap<SessionId, Handle>>,
    /// How often a session was looked up.
    lookups: AtomicU64,
    /// The session that connections start with, until they choose another.
    primary: std::sync::OnceLock<SessionId>,
    /// One at a time, so that a file is opened once.
    opening: tokio::sync::Mutex<()>,
    /// Choices that frontends were asked for, oldest first.
    actions: Mutex<VecDeque<(String, commands::PendingAction)>>,
    tasks: TaskTracker,
    executor: tokio::runtime::Handle,
}

impl Runtime {
    /// A runtime whose tasks run on `executor`.
    ///
    /// # Errors
    /// What is wrong with the configuration, for a person: a guard that is not understood must not be
    /// passed over.
    pub fn new(
        clock: Arc<dyn Clock>,
        settings: Settings,
        store: Store,
        providers: Providers,
        executor: tokio::runtime::Handle,
    ) -> Result<Self, String> {
        let memory = Memory::new(&settings.state_dir);
        let hub = Arc::new(hub::Hub::default());
        let (models, problems) = Models::new(&settings.models);
        for problem in problems {
            tracing::warn!("the configuration's :models: {problem}");
        }
        let models = match providers.get(&settings.provider) {
            Some(_) => models.with(&settings.provider, &settings.model),
            None => models,
        };
        let sessions = Arc::new(DashMap::new());
        let audience = Arc::new(hub::Listeners::new(hub.clone(), sessions.clone()));
        let shared = Shared {
            board: Board::new(audience, Audit::new(&settings.state_dir), clock.clone()),
            manifest: ArcSwap::from_pointee(manifest::Manifest::load(&settings, 1)?),
            reloading: Mutex::new(()),
            usual_model: ArcSwap::from_pointee((settings.provider.clone(), settings.model.clone())),
            writable: settings.writable.clone(),
            hidden: providers.key_variables().into(),
            started: clock.now(),
            clock,
            settings,
            store,
            memory,
            library: Library::default(),
            hub,
            providers,
            models,
            sessions,
            lookups: AtomicU64::new(0),
            primary: std::sync::OnceLock::new(),
            opening: tokio::sync::Mutex::new(()),
            actions: Mutex::default(),
            tasks: TaskTracker::new(),
            executor,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Ends what providers run on beside the executor's tasks. The last call at the end of the process.
    pub fn end(&self) {
        for provider in &self.shared.providers.all {
            provider.end();
        }
    }
}

impl Shared {
    fn actions(&self) -> MutexGuard<'_, VecDeque<(String, commands::PendingAction)>> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live sessions, oldest first.
    fn live(&self) -> Vec<Handle> {
        let mut sessions: Vec<Handle> = self.sessions.iter().map(|entry| entry.value().clone()).collect();
        sessions.sort_by_cached_key(|handle| (handle.snapshot().facts.created_at.clone(), handle.id.clone()));
        sessions
    }

    /// The event that says which sessions are live.
    fn context_event(&self) -> Event {
        let facts: Vec<_> = self.live().iter().map(|handle| handle.snapshot().facts.clone()).collect();
        Event {
            session: None,
            offset: 0,
            turn: None,
            entry: None,
            cause: None,
            body: Body::ContextUpdated(Arc::new(projection::context(&facts))),
        }
    }

    /// Tells every connection which sessions are live.
    fn announce_context(&self, cause: Option<Cause>) {
        if self.hub.clients().iter().any(|(_, client)| client.wants(Topic::ContextUpdated, None)) {
            self.hub.announce(&Event { cause, ..self.context_event() });
        }
    }

    /// Fills in what the catalogue knows of a model.
    fn describe_model(&self, facts: &mut SessionFacts, provider: Arc<str>, id: Arc<str>) {
        let model = self.models.describe(&provider, &id);
        facts.context_window = model.context_window;
        facts.model_reasoning = model.thinking_by.is_some();
        facts.thinking_levels = model.thinking.clone();
        facts.model_provider = provider;
        facts.model_id = id;
    }
}

/// The providers that this process knows.
#[derive(Clone, Default)]
pub struct Providers {
    all: Vec<Arc<dyn Provider>>,
    /// The environment variables that hold their keys.
    key_variables: Vec<String>,
    logins: Option<Arc<Logins>>,
}

impl Providers {
    /// The embedded model, and every server that the program or the configuration knows. Nothing is asked
    /// and no key is looked for yet.
    pub fn new(settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let file = ModelFile::choose(settings.model_file.clone(), &settings.state_dir);
        let (specs, problems) = spec::all(&settings.providers);
        for problem in problems {
            tracing::warn!("the configuration's :providers: {problem}");
        }
        let credentials = Credentials::new(&settings.state_dir);
        let http = Arc::new(Http::default());
        let sources = specs.iter().map(|spec| (spec.id.clone(), spec.name.clone(), spec.key.clone()));
        let logins = Logins::new(sources.collect(), credentials.clone(), http.clone(), clock.clone());
        let mut providers = Self { logins: Some(Arc::new(logins)), ..Self::default() };
        providers.add(Arc::new(Embedded::new(file)));
        for spec in specs {
            providers.key_variables.extend(spec.key.variables.iter().cloned());
            let (id, name, source) = (spec.id.clone(), spec.name.clone(), spec.key.clone());
            let keys = Keys::new(id, name, source, credentials.clone(), http.clone(), clock.clone());
            providers.add(Arc::new(Hosted::new(spec, keys, http.clone(), clock.clone())));
        }
        providers
    }

    /// Adds one.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        self.all.push(provider);
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.all.iter().find(|provider| provider.name() == name).cloned()
    }

    /// The environment variables that hold their keys: commands do not inherit them.
    pub fn key_variables(&self) -> Vec<String> {
        self.key_variables.clone()
    }

    /// The logins of the servers.
    fn logins(&self) -> Option<Arc<Logins>> {
        self.logins.clone()
    }

    /// The names of those that can be asked as things stand.
    pub fn ready(&self) -> Vec<&str> {
        self.all.iter().filter(|provider| provider.is_ready()).map(|provider| provider.name()).collect()
    }
}
