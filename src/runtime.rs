//! Sessions living: the implementation of the session API.
//!
//! Each session is a task with a mailbox; each turn a task beside it. This room knows the store, the
//! providers and projections; it never sees EDN text or a frame, and reaches frontends only as
//! [`crate::session::Client`]s.

mod api;
mod commands;
mod history;
mod hub;
mod live;
mod mailbox;
mod moment;
mod open;
mod prompt;
mod remember;
mod turn;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use tokio_util::task::TaskTracker;

use crate::catalogue::Topic;
use crate::clock::Clock;
use crate::config::Settings;
use crate::event::{Body, Event};
use crate::memory::Memory;
use crate::message::SessionId;
use crate::projection::{self, SessionFacts};
use crate::provider::Provider;
use crate::provider::embedded::{self, Embedded, ModelFile};
use crate::provider::known;
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
    hub: hub::Hub,
    providers: Providers,
    /// The live sessions. Handles only: a session's state is its task's.
    sessions: DashMap<SessionId, Handle>,
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
    pub fn new(
        clock: Arc<dyn Clock>,
        settings: Settings,
        store: Store,
        providers: Providers,
        executor: tokio::runtime::Handle,
    ) -> Self {
        let memory = Memory::new(&settings.state_dir);
        let shared = Shared {
            started: clock.now(),
            clock,
            settings,
            store,
            memory,
            hub: hub::Hub::default(),
            providers,
            sessions: DashMap::new(),
            primary: std::sync::OnceLock::new(),
            opening: tokio::sync::Mutex::new(()),
            actions: Mutex::default(),
            tasks: TaskTracker::new(),
            executor,
        };
        Self { shared: Arc::new(shared) }
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
    fn announce_context(&self) {
        if self.hub.clients().iter().any(|(_, client)| client.wants(Topic::ContextUpdated, None)) {
            self.hub.announce(&self.context_event());
        }
    }

    /// Fills in what the catalogue knows of a model.
    fn describe_model(&self, facts: &mut SessionFacts, provider: Arc<str>, id: Arc<str>) {
        facts.context_window = match &*provider {
            embedded::NAME => u64::from(known::SMOLLM2.window),
            _ => 200_000,
        };
        facts.model_reasoning = false;
        facts.model_provider = provider;
        facts.model_id = id;
    }
}

/// The providers that this process can ask.
#[derive(Clone, Default)]
pub struct Providers(Vec<Arc<dyn Provider>>);

impl Providers {
    /// The embedded model, which is there without configuration.
    pub fn new(settings: &Settings) -> Self {
        let file = ModelFile::choose(settings.model_file.clone(), &settings.state_dir);
        Self(vec![Arc::new(Embedded::new(file))])
    }

    /// Adds one.
    pub fn add(&mut self, provider: Arc<dyn Provider>) {
        self.0.push(provider);
    }

    /// The provider of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.0.iter().find(|provider| provider.name() == name).cloned()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|provider| provider.name())
    }
}
