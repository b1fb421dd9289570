//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod api;
mod call;
mod change;
mod commands;
mod compaction;
mod control;
mod conversation;
mod execution;
mod gather;
mod history;
mod hooks;
mod hub;
mod invocation;
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

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use tokio_util::task::TaskTracker;

use crate::auth::{Credentials, Keys, Logins};
use crate::catalogue::Topic;
use crate::clock::Clock;
use crate::config::Settings;
use crate::context::Library;
use crate::descriptors;
use crate::event::{Body, Cause, Event};
use crate::facts::{SessionList, Slot};
use crate::http::Http;
use crate::interaction::Board;
use crate::interaction::audit::Audit;
use crate::memory::Memory;
use crate::message::SessionId;
use crate::provider::Provider;
use crate::provider::embedded::{Embedded, ModelFile};
use crate::provider::hosted::{Hosted, spec};
use crate::session::Tally;
use crate::store::Store;
use crate::value::Value;

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
    /// The same on the clock that is never set.
    began: Duration,
    settings: Settings,
    store: Store,
    memory: Memory,
    /// Instructions, skills and templates of the folders that sessions work in.
    library: Library,
    hub: Arc<hub::Hub>,
    /// What the wire answered.
    tally: Arc<Tally>,
    /// The questions that wait for a person.
    board: Board,
    /// The newest reading of the configuration.
    manifest: ArcSwap<manifest::Manifest>,
    /// The same for sessions of other folders.
    others: Mutex<HashMap<Arc<str>, Arc<manifest::Manifest>>>,
    /// It is read by one at a time, so that revisions have an order.
    reloading: Mutex<()>,
    /// The provider and model of new sessions.
    usual_model: ArcSwap<(Arc<str>, Arc<str>)>,
    /// The live sessions. Handles only: a session's state is its task's.
    sessions: Arc<DashMap<SessionId, Handle>>,
    /// How many of them may have their files open.
    open_files: usize,
    /// How often a session was looked up.
    lookups: AtomicU64,
    /// How many lists of the live sessions were made.
    lists: Mutex<u64>,
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
        let started = clock.now();
        let layers = settings.files.read().map_err(|error| error.to_string())?;
        let (manifest, problems) = manifest::Manifest::new(1, started, settings.clone(), &layers, providers)?;
        for problem in problems {
            tracing::warn!("{problem}");
        }
        let sessions = Arc::new(DashMap::new());
        let audience = Arc::new(hub::Listeners::new(hub.clone(), sessions.clone()));
        let board = Board::new(audience, Audit::new(&settings.state_dir), clock.clone());
        board.set_orphan_grace(manifest.settings.orphan_grace);
        let shared = Shared {
            board,
            manifest: ArcSwap::from_pointee(manifest),
            others: Mutex::default(),
            reloading: Mutex::new(()),
            usual_model: ArcSwap::from_pointee((settings.provider.clone(), settings.model.clone())),
            started,
            began: clock.passed(),
            clock,
            settings,
            store,
            memory,
            library: Library::default(),
            hub,
            tally: Arc::default(),
            sessions,
            open_files: descriptors::for_sessions(),
            lookups: AtomicU64::new(0),
            lists: Mutex::default(),
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
        for provider in self.shared.manifest.load().providers.all() {
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
        // One at a time, so that of two lists the one with the greater version is the newer one.
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        *lists = lists.saturating_add(1);
        let slots = self.live().iter().map(|handle| Slot::new(&handle.snapshot().facts)).collect();
        let sessions = Arc::new(SessionList::new(*lists, slots));
        drop(lists);
        Event {
            session: None,
            offset: 0,
            turn: None,
            entry: None,
            cause: None,
            body: Body::ContextUpdated { sessions, active: None },
        }
    }

    /// Tells every connection which sessions are live.
    fn announce_context(&self, cause: Option<Cause>) {
        if self.hub.clients().iter().any(|(_, client)| client.wants(Topic::ContextUpdated, None)) {
            self.hub.announce(&Event { cause, ..self.context_event() });
        }
    }
}

/// The providers that this process knows.
#[derive(Clone, Default)]
pub struct Providers {
    /// The model inside the process.
    embedded: Option<Arc<dyn Provider>>,
    servers: Vec<Arc<dyn Provider>>,
    /// Those that no configuration names.
    added: Vec<Arc<dyn Provider>>,
    /// What the configuration said of the servers.
    configured: Vec<(String, Value<'static>)>,
    /// What of that cannot be used, or tells secrets, for a person.
    problems: Vec<String>,
    /// The environment variables that hold their keys.
    key_variables: Vec<String>,
    logins: Option<Arc<Logins>>,
    http: Arc<Http>,
}

impl Providers {
    /// The embedded model, and every server that the program or the configuration knows. Nothing is asked
    /// and no key is looked for yet.
    pub fn new(settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let file = ModelFile::choose(settings.model_file.clone(), &settings.state_dir);
        let mut providers = Self { embedded: Some(Arc::new(Embedded::new(file))), ..Self::default() };
        providers.serve(settings, clock);
        providers
    }

    /// The same with the servers that a newer reading of the configuration names. Where it says nothing new
    /// of them they stay as they are, with the keys that they asked for and the logins that were begun.
    #[must_use]
    fn again(&self, settings: &Settings, clock: &Arc<dyn Clock>) -> Self {
        let mut again = self.clone();
        if self.configured != settings.providers {
            again.serve(settings, clock);
        }
        again
    }

    /// Takes the servers that are known, and those of the configuration.
    fn serve(&mut self, settings: &Settings, clock: &Arc<dyn Clock>) {
        let (specs, problems) = spec::all(&settings.providers);
        let (credentials, http) = (Credentials::new(&settings.state_dir), &self.http);
        let sources = specs.iter().map(|spec| (spec.id.clone(), spec.name.clone(), spec.key.clone()));
        let logins = Logins::new(sources.collect(), credentials.clone(), http.clone(), clock.clone());
        self.logins = Some(Arc::new(logins));
        self.key_variables = specs.iter().flat_map(|spec| spec.key.variables.iter().cloned()).collect();
        self.servers.clear();
        for spec in specs {
            let (id, name, source) = (spec.id.clone(), spec.name.clone(), spec.key.clone());
            let keys = Keys::new(id, name, source, credentials.clone(), http.clone(), clock.clone());
            self.servers.push(Arc::new(Hosted::new(spec, keys, http.clone(), clock.clone())));
        }
        self.configured.clone_from(&settings.providers);
        self.problems = problems;
    }

    /// Adds one that no configuration names.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        self.added.push(provider);
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.embedded.iter().chain(&self.servers).chain(&self.added)
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.all().find(|provider| provider.name() == name).cloned()
    }

    /// The environment variables that hold their keys: commands do not inherit them.
    pub fn key_variables(&self) -> Vec<String> {
        self.key_variables.clone()
    }

    /// What of the configuration cannot be used or tells secrets, for a person.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The logins of the servers.
    fn logins(&self) -> Option<Arc<Logins>> {
        self.logins.clone()
    }

    /// The names of those that can be asked as things stand.
    pub fn ready(&self) -> Vec<&str> {
        self.all().filter(|provider| provider.is_ready()).map(|provider| provider.name()).collect()
    }
}
