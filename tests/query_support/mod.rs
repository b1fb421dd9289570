//! A process with only one session, for queries in tests and in the benchmark.

#![allow(dead_code, reason = "each program uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edn_bridge::context::Project;
use edn_bridge::event::StagePassed;
use edn_bridge::facts::agent::ListedAgent;
use edn_bridge::facts::mcp::McpServer;
use edn_bridge::facts::{
    AtWork, HostFacts, JobFacts, ModelFacts, ProviderFacts, SessionFacts, SessionStats, Slot,
};
use edn_bridge::hook::Hook;
use edn_bridge::memory::Note;
use edn_bridge::message::{Message, SessionId, Usage};
use edn_bridge::provider::ToolSpec;
use edn_bridge::query::world::{
    ConnectionFacts, ControlFacts, ProcessFacts, PromptPart, QuestionFacts, QueuedView, Reading,
    ResolverFailure, SessionRow, SessionView, Setting, Shown, StoreFacts, Walk, World,
};
use edn_bridge::session::Counts;
use edn_bridge::store::Entry;
use edn_bridge::tool::permission::Rule;
use edn_bridge::value::Map;
use edn_bridge::workflow::Workflow;

/// The process.
pub struct Process {
    pub session: Arc<Talk>,
}

/// The session.
pub struct Talk {
    facts: SessionFacts,
    messages: Vec<Arc<Message>>,
    /// How often an iteration over its messages was started.
    pub walks: AtomicUsize,
}

impl Process {
    /// A process whose session has these messages and facts.
    pub fn new(messages: Vec<Arc<Message>>, facts: SessionFacts) -> Self {
        Self { session: Arc::new(Talk { facts, messages, walks: AtomicUsize::new(0) }) }
    }

    /// A process whose session is empty.
    pub fn empty() -> Self {
        Self::new(Vec::new(), SessionFacts::empty("s-1".into()))
    }
}

impl SessionView for Talk {
    fn facts(&self) -> &SessionFacts {
        &self.facts
    }
    fn offset(&self) -> u64 {
        0
    }
    fn config_revision(&self) -> u64 {
        1
    }
    fn providers(&self) -> Vec<String> {
        Vec::new()
    }
    fn subagent(&self) -> Option<(Arc<str>, Vec<String>)> {
        None
    }
    fn depth(&self) -> u32 {
        0
    }
    fn prompt_parts(&self) -> Vec<PromptPart> {
        Vec::new()
    }
    fn system_prompt(&self) -> String {
        String::new()
    }
    fn project(&self) -> Arc<Project> {
        Arc::default()
    }
    fn added_commands(&self) -> Vec<String> {
        Vec::new()
    }
    fn messages(&self) -> Walk<'_, &Arc<Message>> {
        self.walks.fetch_add(1, Ordering::Relaxed);
        Box::new(self.messages.iter())
    }
    fn entries(&self) -> Walk<'_, &Arc<Entry>> {
        Box::new(std::iter::empty())
    }
    fn queue(&self) -> Vec<QueuedView> {
        Vec::new()
    }
    fn stage(&self) -> Option<Arc<StagePassed>> {
        None
    }
    fn rules(&self) -> Vec<(Rule, &'static str)> {
        Vec::new()
    }
    fn shown(&self) -> Shown {
        Shown::default()
    }
    fn stats(&self) -> SessionStats {
        SessionStats {
            session: self.facts.id.clone(),
            created_at: "".into(),
            last_entry_at: None,
            roles: Vec::new(),
            message_count: 0,
            entry_count: 0,
            turns: 0,
            turns_stopped: 0,
            tool_calls: Default::default(),
            tool_errors: Default::default(),
            usage: Usage::default(),
            duration_ms: 0,
            working_ms: 0,
            bytes: 0,
        }
    }
}

impl World for Process {
    fn focus(&self) -> &SessionId {
        &self.session.facts.id
    }
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>> {
        (self.focus().as_str() == id).then(|| self.session.clone() as Arc<dyn SessionView>)
    }
    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        vec![self.session.clone()]
    }
    fn list(&self, _: bool, _: usize) -> Result<Vec<SessionRow>, ResolverFailure> {
        Ok(Vec::new())
    }
    fn models(&self) -> Vec<ModelFacts> {
        Vec::new()
    }
    fn providers(&self) -> Vec<String> {
        Vec::new()
    }
    fn provider(&self, _: &str) -> Option<ProviderFacts> {
        None
    }
    fn connections(&self) -> Vec<ConnectionFacts> {
        Vec::new()
    }
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }
    fn reading(&self) -> Reading {
        Reading::default()
    }
    fn control(&self) -> ControlFacts {
        ControlFacts::default()
    }

    fn process(&self) -> ProcessFacts {
        ProcessFacts::default()
    }
    fn realm_host(&self) -> Option<Arc<str>> {
        None
    }
    fn realm_away(&self) -> Option<std::time::Duration> {
        None
    }
    fn realm_sessions(&self) -> Vec<Slot> {
        Vec::new()
    }
    fn realm_hosts(&self) -> Result<Vec<HostFacts>, ResolverFailure> {
        Ok(Vec::new())
    }
    fn at_work(&self) -> Vec<AtWork> {
        Vec::new()
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
    fn jobs(&self, _: &SessionId) -> Vec<Arc<JobFacts>> {
        Vec::new()
    }
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn mcp_servers(&self) -> Vec<McpServer> {
        Vec::new()
    }
    fn agents(&self) -> Vec<ListedAgent> {
        Vec::new()
    }
    fn questions(&self) -> Vec<QuestionFacts> {
        Vec::new()
    }
    fn audit(&self, _: usize) -> Vec<Map<'static>> {
        Vec::new()
    }
    fn hooks(&self) -> Vec<Hook> {
        Vec::new()
    }
    fn workflows(&self) -> Vec<(String, Result<Arc<Workflow>, String>)> {
        Vec::new()
    }
    fn store(&self) -> StoreFacts {
        StoreFacts::default()
    }
    fn notes(&self) -> Option<Arc<Vec<Note>>> {
        None
    }
    fn search_notes(&self, _: &str) -> Vec<Note> {
        Vec::new()
    }
}
