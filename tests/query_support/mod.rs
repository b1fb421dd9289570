//! A process with only one session, for queries in tests and in the benchmark.

#![allow(dead_code, reason = "each program uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edn_bridge::event::StagePassed;
use edn_bridge::facts::JobFacts;
use edn_bridge::message::{Message, SessionId};
use edn_bridge::query::graph::Failure;
use edn_bridge::query::resolvers::session::SessionFact;
use edn_bridge::query::world::{
    ConnectionFacts, EntryView, ProcessFacts, QuestionFacts, QueuedView, Reading, SessionInfo, SessionView,
    Setting, Shown, StoreFacts, Walk, World,
};
use edn_bridge::session::Counts;
use edn_bridge::value::{Map, Owned};

/// The process.
pub struct Process {
    focus: SessionId,
    pub session: Arc<Talk>,
}

/// The session.
pub struct Talk {
    id: SessionId,
    messages: Vec<Arc<Message>>,
    fact: fn(SessionFact) -> Owned,
    /// How often an iteration over its messages was started.
    pub walks: AtomicUsize,
}

impl Process {
    /// A process whose session has these messages and facts.
    pub fn new(messages: Vec<Arc<Message>>, fact: fn(SessionFact) -> Owned) -> Self {
        let id = SessionId::from("s-1");
        let session = Talk { id: id.clone(), messages, fact, walks: AtomicUsize::new(0) };
        Self { focus: id, session: Arc::new(session) }
    }

    /// A process whose session is empty and has no facts.
    pub fn empty() -> Self {
        Self::new(Vec::new(), |_| Owned::Nil)
    }
}

impl SessionView for Talk {
    fn id(&self) -> &SessionId {
        &self.id
    }
    fn fact(&self, fact: SessionFact) -> Owned {
        (self.fact)(fact)
    }
    fn messages(&self) -> Walk<'_, &Arc<Message>> {
        self.walks.fetch_add(1, Ordering::Relaxed);
        Box::new(self.messages.iter())
    }
    fn entries(&self) -> Walk<'_, EntryView> {
        Box::new(std::iter::empty())
    }
    fn prompt_parts(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn skills(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn added_commands(&self) -> Vec<String> {
        Vec::new()
    }
    fn context_problems(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn queue(&self) -> Vec<QueuedView> {
        Vec::new()
    }
    fn stage(&self) -> Option<Arc<StagePassed>> {
        None
    }
    fn rules(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn shown(&self) -> Shown {
        Shown::default()
    }
    fn stats(&self) -> Map<'static> {
        Map::new()
    }
}

impl World for Process {
    fn focus(&self) -> &SessionId {
        &self.focus
    }
    fn session(&self, id: &str) -> Option<Arc<dyn SessionView>> {
        (self.focus.as_str() == id).then(|| self.session.clone() as Arc<dyn SessionView>)
    }
    fn live(&self) -> Vec<Arc<dyn SessionView>> {
        vec![self.session.clone()]
    }
    fn list(&self, _: bool, _: usize) -> Result<Vec<SessionInfo>, Failure> {
        Ok(Vec::new())
    }
    fn models(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn providers(&self) -> Vec<String> {
        Vec::new()
    }
    fn provider(&self, _: &str) -> Option<Map<'static>> {
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
    fn process(&self) -> ProcessFacts {
        ProcessFacts::default()
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
    fn jobs(&self, _: &SessionId) -> Vec<Arc<JobFacts>> {
        Vec::new()
    }
    fn tools(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn questions(&self) -> Vec<QuestionFacts> {
        Vec::new()
    }
    fn audit(&self, _: usize) -> Vec<Owned> {
        Vec::new()
    }
    fn stages(&self) -> Vec<&'static str> {
        Vec::new()
    }
    fn hooks(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn workflows(&self) -> Vec<Owned> {
        Vec::new()
    }
    fn store(&self) -> StoreFacts {
        StoreFacts::default()
    }
    fn notes(&self) -> Option<Vec<Owned>> {
        None
    }
    fn search_notes(&self, _: &str) -> Vec<Owned> {
        Vec::new()
    }
}
