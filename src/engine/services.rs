//! What all sessions of the process share: time, settings, stores, the configuration, the clients, the live sessions.
//! Does not know how a session is built, nor what answers its turns.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::catalogue::ErrorCode;
use crate::catalogue::tools::READ;
use crate::clock::Clock;
use crate::config::Settings;
use crate::context::{Author, Library, Project};
use crate::engine::change::Change;
use crate::engine::client_files::ClientFiles;
use crate::engine::client_requests::ClientRequests;
use crate::engine::configuration::Configuration;
use crate::engine::control_audit::{ControlAudit, ControlCounts};
use crate::engine::handle::Handle;
use crate::engine::hub::Hub;
use crate::engine::mcp::McpDesk;
use crate::engine::revision::ConfigRevision;
use crate::engine::rules::KeptRules;
use crate::engine::session_tree::SessionTree;
use crate::engine::system_prompt;
use crate::engine::user_shells::Shells;
use crate::engine::working_sessions::WorkingSessions;
use crate::event::{Body, CommandOutcome, Event};
use crate::facts::{AtWork, SessionFacts};
use crate::federation::Federation;
use crate::glob;
use crate::http::web::Web;
use crate::interaction::PendingQuestions;
use crate::limits::{IDEMPOTENCY_WINDOW_MS, LET_GO_TRIES, PROMPT_NOTES_BYTES, PROMPT_NOTES_SHARE};
use crate::memory::Memory;
use crate::message::{Mode, SessionId, TurnId};
use crate::query::world::PromptPart;
use crate::runner::Lifeline;
use crate::session::{ApiError, Call, ShownFiles, Tally, ToolAnswer};
use crate::store::{Journals, StoreError};
use crate::tool::permission::{Decision, Rule};

/// Follows the owner of a session that is another host's.
pub type FollowOwner = Box<dyn Fn(&Handle) + Send + Sync>;

/// What all sessions share.
pub struct Services {
    pub clock: Arc<dyn Clock>,
    /// When the process was started.
    pub started: jiff::Timestamp,
    /// The same on the clock that is never set.
    pub began: Duration,
    pub settings: Arc<Settings>,
    pub configuration: Arc<Configuration>,
    /// The rules from answers that hold in every session of a workspace.
    pub kept_rules: KeptRules,
    pub journals: Arc<dyn Journals>,
    /// What this process has of a realm, if it is in one.
    pub federation: OnceLock<Arc<Federation>>,
    /// Follows the owner of a session that is another host's.
    pub follow_owner: OnceLock<FollowOwner>,
    pub memory: Memory,
    /// Instructions, skills and templates of the folders that sessions work in.
    pub library: Library,
    pub hub: Arc<Hub>,
    /// The requests that wait for one client.
    pub client_requests: Arc<ClientRequests<ToolAnswer>>,
    pub client_files: Arc<ClientFiles>,
    /// What the wire answered.
    pub tally: Arc<Tally>,
    /// The questions that wait for a person.
    pub questions: Arc<PendingQuestions>,
    /// How control requests were answered.
    pub control: ControlCounts,
    pub control_audit: ControlAudit,
    /// The commands that people run with their outputs apart.
    pub shells: Shells,
    /// Permits to read the requests of sessions that are not live.
    pub stored_reads: Arc<Semaphore>,
    /// What connects to servers of pages.
    pub web: Arc<Web>,
    pub tree: Arc<SessionTree>,
    /// Who keeps the sessions at work through the end of the process.
    pub keeper: OnceLock<Box<dyn WorkingSessions>>,
    /// Whether every session is to leave for another process.
    pub leaves: AtomicBool,
    /// The MCP servers.
    pub mcp: Arc<McpDesk>,
    /// What works in all engines of the process, where there are several.
    pub at_work: OnceLock<Box<dyn Fn() -> Vec<AtWork> + Send + Sync>>,
    pub tasks: TaskTracker,
    pub executor: tokio::runtime::Handle,
}

impl Services {
    /// The rules for a session's calls, in order: the configuration's, those from answers, and permission to
    /// read the files of the user's own skills.
    pub fn rules_for(&self, config: &ConfigRevision, session: &Handle) -> Vec<Rule> {
        let cwd = session.snapshot().facts.cwd.clone();
        let mut rules = self.standing(config, Path::new(&*cwd));
        if self.kept_rules.damage(Path::new(&*cwd)).is_some() {
            // Before all that allow: what they allow, an unknown one may deny.
            rules.insert(0, Rule { decision: Decision::Ask, ..Rule::allowing() });
        }
        rules.extend(session.rules.all());
        let project = self.library.known_for(Path::new(&*session.snapshot().facts.cwd));
        let skills = project.iter().flat_map(|project| project.skills.values());
        rules.extend(skills.filter(|skill| skill.scope == Author::User).map(|skill| Rule {
            tool: Some(READ.to_owned()),
            path: Some(format!("{}/**", glob::escape(&skill.folder.to_string_lossy()))),
            ..Rule::allowing()
        }));
        rules
    }

    /// The mode that a session's calls are judged by. While a kept rule is unknown, not everything is allowed.
    pub fn mode(&self, facts: &SessionFacts) -> Mode {
        let is_safe = || self.kept_rules.damage(Path::new(&*facts.cwd)).is_none();
        if facts.mode != Mode::Yolo || is_safe() { facts.mode } else { Mode::Ask }
    }

    /// The rules that hold in every session of a folder: those of the command line, of the configuration, then the kept ones,
    /// as they are on disk now.
    pub fn standing(&self, config: &ConfigRevision, cwd: &Path) -> Vec<Rule> {
        let kept = self.kept_rules.of(cwd).into_iter();
        let used = kept.filter(|(_, is_used)| *is_used).map(|(rule, _)| rule);
        config.option_rules.iter().chain(&config.rules).cloned().chain(used).collect()
    }

    /// A session begins to work.
    pub fn works(&self, session: &SessionId) {
        if let Some(keeper) = self.keeper.get() {
            keeper.works(session);
        }
    }

    /// A session rests.
    pub fn rests(&self, session: &SessionId) {
        if let Some(keeper) = self.keeper.get() {
            keeper.rests(session);
        }
    }

    /// The parts of a session's system prompt, with the notes that fit. Reads the disk only for a folder that
    /// was not searched yet.
    pub fn prompt_parts(
        &self,
        session: &Handle,
        config: &ConfigRevision,
        facts: &SessionFacts,
    ) -> Vec<PromptPart> {
        let tools = config.models.describe(&facts.model_provider, &facts.model_id).tools;
        let project = tools.then(|| self.library.get(&self.configuration.places(&facts.cwd)));
        // A small window is mostly for the conversation.
        let share = usize::try_from(facts.context_window / PROMPT_NOTES_SHARE).unwrap_or(usize::MAX);
        let notes = self.memory.for_prompt(facts.cwd.as_ref().as_ref(), share.min(PROMPT_NOTES_BYTES));
        let mut parts = system_prompt::parts(facts, &session.roots(), project.as_deref(), notes);
        if let Some(memory) = parts.iter_mut().find(|part| part.kind == "memory") {
            memory.source = self.memory.path(facts.cwd.as_ref().as_ref()).to_string_lossy().into_owned();
        }
        if tools {
            parts.extend(self.mcp.instructions(session));
        }
        parts.extend(self.settings.system_prompt.as_deref().map(|text| PromptPart {
            kind: "option",
            source: "--system".to_owned(),
            text: text.to_owned(),
            cut: false,
        }));
        parts
    }

    /// Reads journals on a thread that may block and is not the executor's. If resources are missing,
    /// reads again after other sessions have closed their files.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn read_journals<T>(
        &self,
        read: impl Fn(&dyn Journals) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut tries = 0..LET_GO_TRIES;
        loop {
            match read(self.journals.as_ref()) {
                Err(error) if error.may_pass() && tries.next().is_some() => {
                    self.executor.block_on(self.tree.let_go(None));
                }
                read => return read,
            }
        }
    }

    /// Reads the configuration and the context of the sessions' folders again. Idle sessions switch to it at once,
    /// others at their next boundary. Also returns the unusable models and servers.
    ///
    /// # Errors
    /// The error in it; nothing has changed then.
    pub fn reload(&self) -> Result<(Arc<ConfigRevision>, Vec<String>), ApiError> {
        let _one_at_a_time = self.configuration.one_at_a_time();
        let (config, problems) = self.configuration.read_again()?;
        self.questions.set_orphan_grace(config.settings.grace());
        let live = self.tree.all();
        // Each folder once, however many sessions it has.
        let folders: HashSet<Arc<str>> =
            live.iter().map(|handle| handle.snapshot().facts.cwd.clone()).collect();
        for cwd in &folders {
            self.library.refresh(&self.configuration.places(cwd));
        }
        self.mcp.reload();
        for handle in live {
            handle.tell(Change::ConfigurationChanged);
        }
        Ok((config, problems))
    }

    /// Trusts the current configuration of a session's folder, or stops trusting it, from the next stage on.
    ///
    /// # Errors
    /// See [`Configuration::trust`].
    pub fn trust(&self, cwd: &str, yes: bool, shown: Option<&ShownFiles>) -> Result<(), ApiError> {
        self.configuration.trust(cwd, yes, shown)?;
        self.reload().map(drop)
    }

    /// Sends a command's outcome to the connection that gave it.
    pub fn tell(&self, call: &Call, kind: &'static str, message: String) {
        self.tell_begun(call, kind, message, None);
    }

    /// The same with the run that the command began.
    pub fn tell_begun(&self, call: &Call, kind: &'static str, message: String, run: Option<TurnId>) {
        let Some(client) = self.hub.client(call.connection) else { return };
        // After a switch the outcome belongs to the person's current session.
        let Ok(handle) = self.tree.get(&client.focused()) else { return };
        let body = Body::CommandResult(Arc::new(CommandOutcome { kind, message }));
        let _ = client.deliver(&Event { turn: run, ..handle.event(body, Some(call.cause())) });
    }

    /// When what runs in a session must have ended: with this host's lease, if hosts share the session.
    pub fn lifeline(&self, facts: &SessionFacts) -> Option<Lifeline> {
        facts.host.as_ref()?;
        self.federation.get().map(|federation| federation.lifeline())
    }

    /// How long keys of requests are known, in milliseconds. One time for all wires: a session has their keys side by side.
    pub fn idempotency_window(&self) -> u64 {
        IDEMPOTENCY_WINDOW_MS.max(self.configuration.newest().settings.control.dedupe_ms)
    }

    /// Searches a folder again for instructions, skills and templates.
    pub fn search_folder(&self, cwd: &str) -> Arc<Project> {
        self.library.refresh(&self.configuration.places(cwd))
    }
}

/// An error of the store. A lack of descriptors or memory is retryable.
pub fn refused(error: &StoreError) -> ApiError {
    if let StoreError::TooLong { .. } = error {
        return ApiError::new(ErrorCode::InvalidParams, error.to_string());
    }
    let code = match error {
        StoreError::Owned { .. } => ErrorCode::RealmOwned,
        StoreError::OwnerLost { .. } => ErrorCode::RealmOwnerLost,
        StoreError::RealmUnreachable(_) => ErrorCode::RealmUnreachable,
        StoreError::RealmInDoubt(_) => ErrorCode::RealmInDoubt,
        _ => return ApiError { retryable: error.may_pass(), ..ApiError::failed(error.to_string()) },
    };
    ApiError::new(code, error.to_string())
}
