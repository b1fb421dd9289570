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
mod history;
mod hub;
mod jobs;
mod live;
mod mailbox;
mod moment;
mod open;
mod prompt;
mod queue;
mod remember;
mod retry;
mod rules;
mod stage;
mod turn;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use tokio_util::task::TaskTracker;

use crate::catalogue::Topic;
use crate::clock::Clock;
use crate::config::Settings;
use crate::event::{Body, Cause, Event};
use crate::interaction::audit::Audit;
use crate::interaction::{Audience as _, Board};
use crate::memory::Memory;
use crate::message::SessionId;
use crate::projection::{self, SessionFacts};
use crate::provider::Provider;
use crate::provider::embedded::{Embedded, ModelFile};
use crate::provider::models::Models;
use crate::store::Store;
use crate::tool::permission::Rule;

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
    hub: Arc<hub::Hub>,
    /// The questions that wait for a person.
    board: Board,
    providers: Providers,
    models: Models,
    /// What tools may do without asking, and what never: the configuration's rules.
    rules: ArcSwap<Vec<Rule>>,
    /// Where commands may write beside the workspace.
    writable: Vec<PathBuf>,
    /// Variables that hold keys, which commands do not inherit.
    hidden: Arc<[String]>,
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
        let hub = Arc::new(hub::Hub::default());
        let (models, problems) = Models::new(&settings.models);
        for problem in problems {
            tracing::warn!("the configuration's :models: {problem}");
        }
        let shared = Shared {
            board: Board::new(hub.clone(), Audit::new(&settings.state_dir), clock.clone()),
            rules: ArcSwap::from_pointee(rules::load(&settings)),
            writable: settings.writable.clone(),
            hidden: providers.key_variables().into(),
            started: clock.now(),
            clock,
            settings,
            store,
            memory,
            hub,
            providers,
            models,
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
    fn announce_context(&self, cause: Option<Cause>) {
        if self.hub.clients().iter().any(|(_, client)| client.wants(Topic::ContextUpdated, None)) {
            self.hub.announce(&Event { cause, ..self.context_event() });
        }
    }

    /// Fills in what the catalogue knows of a model.
    fn describe_model(&self, facts: &mut SessionFacts, provider: Arc<str>, id: Arc<str>) {
        let model = self.models.describe(&provider, &id);
        facts.context_window = model.context_window;
        facts.model_reasoning = model.thinking;
        facts.model_provider = provider;
        facts.model_id = id;
    }
}

/// Variables that hold the keys of known providers.
const KEY_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "GROQ_API_KEY",
    "OPENROUTER_API_KEY",
];

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

    /// The environment variables that hold their keys.
    fn key_variables(&self) -> Vec<String> {
        KEY_VARIABLES.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|provider| provider.name())
    }
}
