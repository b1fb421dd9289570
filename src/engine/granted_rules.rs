//! The permissions that a session has from answers to questions. Does not judge calls.

use std::sync::{Arc, Mutex, PoisonError};

use crate::tool::permission::Rule;

/// The rules of a session, and of the sessions above it. A copy shares them.
///
/// A session has what was answered for those above it. What was answered for it ends with it, and is nothing to the
/// sessions above and beside it.
#[derive(Debug, Clone, Default)]
pub struct AnsweredRules {
    own: Arc<Mutex<Vec<Rule>>>,
    /// The nearest session comes first.
    above: Vec<Arc<Mutex<Vec<Rule>>>>,
}

impl AnsweredRules {
    /// Those of a session below this one.
    pub fn below(&self) -> Self {
        let above = std::iter::once(&self.own).chain(&self.above).cloned().collect();
        Self { own: Arc::default(), above }
    }

    /// All that hold in the session, its own last.
    pub fn all(&self) -> Vec<Rule> {
        let lists = self.above.iter().rev().chain([&self.own]);
        lists.flat_map(|list| list.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    /// Adds one for the session and those below it.
    pub fn add(&self, rule: Rule) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Adds one for the uppermost session and all below it.
    pub fn add_above(&self, rule: Rule) {
        let top = self.above.last().unwrap_or(&self.own);
        top.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
    }

    /// Takes back what allows a tool, wherever it was answered. Returns whether there was anything.
    pub fn forget_allowed(&self, tool: &str) -> bool {
        let allows = |rule: &Rule| rule.allows_by_name(tool);
        let mut found = false;
        for list in self.above.iter().chain([&self.own]) {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            found |= list.iter().any(allows);
            list.retain(|rule| !allows(rule));
        }
        found
    }

    /// Takes one back, wherever it was answered.
    pub fn remove(&self, rule: &Rule) {
        for list in self.above.iter().chain([&self.own]) {
            list.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != rule);
        }
    }
}
