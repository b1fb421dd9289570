//! The engine of a process: puts its parts together, and ends them. Holds no rules: does not know what a session
//! does.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::Settings;
use crate::context::Library;
use crate::engine::actions::PendingActions;
use crate::engine::change::Change;
use crate::engine::client_files::ClientFiles;
use crate::engine::client_requests::ClientRequests;
use crate::engine::configuration::Configuration;
use crate::engine::control_audit::{ControlAudit, ControlCounts};
use crate::engine::drivers::Drivers;
use crate::engine::external::ExternalAgent;
use crate::engine::follower::Followers;
use crate::engine::hub::Hub;
use crate::engine::mcp::{McpDesk, McpPlace};
use crate::engine::native::NativeAgent;
use crate::engine::open::Opener;
use crate::engine::providers::Providers;
use crate::engine::revision::ConfigurationError;
use crate::engine::rules::KeptRules;
use crate::engine::served_requests::ServedRequests;
use crate::engine::services::Services;
use crate::engine::session_admin;
use crate::engine::session_tree::SessionTree;
use crate::interaction::PendingQuestions;
use crate::interaction::audit::Audit;
use crate::limits::CONTROL_STORED_READS;
use crate::memory::Memory;
use crate::session::Reply;
use crate::store::Journals;

/// The engine of a process.
#[derive(Clone)]
pub struct Engine {
    pub(super) shared: Arc<Services>,
    pub(super) opener: Opener,
    /// The external agents.
    pub(super) foreign: Arc<ExternalAgent>,
    pub(super) actions: Arc<PendingActions>,
    /// The requests of other hosts.
    pub(super) remote: Arc<ServedRequests>,
    /// The other hosts that follow sessions of this one.
    pub(super) followers: Arc<Followers>,
}

impl Engine {
    /// A engine whose tasks run on `executor`.
    ///
    /// # Errors
    /// What is wrong with the configuration: a guard that is not understood must not be passed over.
    pub fn new(
        clock: Arc<dyn Clock>,
        settings: Settings,
        journals: impl Journals + 'static,
        providers: Providers,
        executor: tokio::runtime::Handle,
    ) -> Result<Self, ConfigurationError> {
        let settings = Arc::new(settings);
        let started = clock.now();
        let configuration = Arc::new(Configuration::new(clock.clone(), settings.clone(), providers)?);
        let hub = Arc::new(if settings.outlives_clients { Hub::of_many() } else { Hub::default() });
        let tree = Arc::new(SessionTree::new(hub.clone()));
        let questions = Arc::new(PendingQuestions::new(tree.clone(), &settings.state_dir, clock.clone()));
        questions.record_cut_off();
        questions.set_orphan_grace(configuration.newest().settings.grace());
        let tasks = TaskTracker::new();
        let audit = Audit::new(&settings.state_dir);
        let control_audit = ControlAudit::new(audit, clock.clone(), tasks.clone(), executor.clone());
        let mcp = Arc::new(McpDesk::new(McpPlace {
            clock: clock.clone(),
            state_dir: &settings.state_dir,
            configuration: configuration.clone(),
            hub: hub.clone(),
            tree: tree.clone(),
            questions: questions.clone(),
            executor: executor.clone(),
        }));
        let shared = Arc::new(Services {
            questions,
            control: ControlCounts::default(),
            control_audit,
            shells: Default::default(),
            stored_reads: Arc::new(Semaphore::new(CONTROL_STORED_READS)),
            configuration,
            kept_rules: KeptRules::new(&settings.state_dir),
            started,
            began: clock.passed(),
            client_requests: Arc::new(ClientRequests::new(hub.clone(), clock.clone())),
            client_files: Arc::new(ClientFiles::new(hub.clone(), clock.clone())),
            clock,
            memory: Memory::new(&settings.state_dir),
            mcp,
            settings,
            journals: Arc::new(journals),
            federation: OnceLock::new(),
            follow_owner: OnceLock::new(),
            library: Library::default(),
            hub,
            tally: Arc::default(),
            web: Arc::default(),
            tree,
            keeper: OnceLock::new(),
            leaves: AtomicBool::new(false),
            at_work: OnceLock::new(),
            tasks,
            executor,
        });
        session_admin::finish_deletions(&shared);
        let native = Arc::new(NativeAgent::new(shared.clone()));
        let foreign = Arc::new(ExternalAgent::new(shared.clone()));
        let agent = Arc::new(Drivers { native, foreign: foreign.clone() });
        let opener = Opener { shared: shared.clone(), agent };
        let (actions, remote, followers) = (Arc::default(), Arc::default(), Arc::default());
        Ok(Self { shared, opener, foreign, actions, remote, followers })
    }

    /// Ends everything that runs in all sessions, and replies once every session is idle. Attached
    /// connections learn how their turns end.
    pub fn stop(&self, reply: Reply<()>) {
        self.shared.shells.stop_all();
        // The last session to drop its part completes the reply.
        let all = Arc::new(WhenDropped(Mutex::new(Some(reply))));
        let (engine, part) = (self.clone(), all.clone());
        self.shared.executor.spawn(async move {
            tokio::join!(engine.end_servers(), engine.shared.control_audit.finish());
            drop(part);
        });
        for handle in self.shared.tree.all() {
            let part = all.clone();
            // Before its turn ends, so that no waiting message starts the next turn.
            handle.tell(Change::Stop { reply: Reply::new(move |_| drop(part)) });
            handle.abort();
        }
    }

    /// What a server's program wrote last to its standard error, without its keys; empty where it has written nothing. For
    /// the person at this machine, and for no wire.
    pub fn server_words(&self, server: &str) -> String {
        self.shared.mcp.words(server)
    }

    /// Ends the MCP servers and the agents, politely.
    pub async fn end_servers(&self) {
        tokio::join!(self.shared.mcp.end(), self.foreign.end_all());
    }

    /// Ends what providers run on beside the executor's tasks. The last call at the end of the process.
    pub fn end(&self) {
        for provider in self.shared.configuration.newest().providers.all() {
            provider.end();
        }
    }
}

/// Completes a reply when the last owner is gone.
struct WhenDropped(Mutex<Option<Reply<()>>>);

impl Drop for WhenDropped {
    fn drop(&mut self) {
        if let Some(reply) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            reply.ok(());
        }
    }
}
