//! What a session keeps of MCP servers: its own ones, and what it has seen of tools. Asks no server.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::facts::mcp::McpStates;
use crate::mcp::{ServerFacts, Servers, ToolFacts};

/// What a session keeps of MCP servers.
#[derive(Default)]
pub struct SessionMcp {
    /// The servers that a client named for this session. A child uses its parent's.
    own: OnceLock<Servers>,
    seen: Mutex<Seen>,
    /// What clients were told last.
    told: Mutex<McpStates>,
}

/// What a session has seen of tools.
#[derive(Default)]
struct Seen {
    /// Each tool when it was last offered.
    tools: HashMap<Arc<str>, SeenTool>,
    /// The tools that have changed since they were first offered.
    changed: HashSet<Arc<str>>,
}

/// A server's tool as it was last offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenTool {
    /// What it is, as a digest.
    pub digest: Arc<str>,
    /// Whether its server has the name of another one of the user's own file.
    pub borrows_name: bool,
}

impl SeenTool {
    /// A tool as its server has it now.
    pub fn of(server: &ServerFacts, tool: &ToolFacts) -> Self {
        Self { digest: tool.digest.clone(), borrows_name: server.borrows_name }
    }
}

impl SessionMcp {
    /// Those of a session below this one: it knows the tools as this one does, and everything that it is granted is
    /// granted for them as they are now.
    pub fn below(&self) -> Self {
        let tools = self.seen().tools.clone();
        let below = Self::default();
        if let Some(own) = self.own.get() {
            let _ = below.own.set(own.clone());
        }
        *below.seen() = Seen { tools, changed: HashSet::new() };
        below
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a session servers of its own that had none.
    pub fn set_own(&self, servers: Servers) {
        let _ = self.own.set(servers);
    }

    /// A server's tool as it was last offered; `None` for any other tool.
    pub fn tool(&self, name: &str) -> Option<SeenTool> {
        self.seen().tools.get(name).cloned()
    }

    /// The servers of the session alone.
    pub fn own(&self) -> Option<&Servers> {
        self.own.get()
    }

    /// Notes a tool that is offered. Returns whether it was another one before, of the same name.
    pub fn offers(&self, name: &Arc<str>, tool: SeenTool) -> bool {
        let mut seen = self.seen();
        let digest = tool.digest.clone();
        let before = seen.tools.insert(name.clone(), tool);
        let has_changed = before.is_some_and(|before| before.digest != digest);
        if has_changed {
            seen.changed.insert(name.clone());
        }
        has_changed
    }

    /// Whether a tool is another one than the one that was first offered under its name, so that what was granted with
    /// the session is not granted for it.
    pub fn has_changed(&self, tool: &str) -> bool {
        self.seen().changed.contains(tool)
    }

    /// Notes what clients are told. Returns whether it is new to them.
    pub fn tells(&self, states: &McpStates) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *told != *states;
        if is_new {
            told.clone_from(states);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_that_changes_is_another_one_in_its_session() {
        let session = SessionMcp::default();
        let name: Arc<str> = "mcp__s__t".into();
        let tool = |digest: &str| SeenTool { digest: digest.into(), borrows_name: false };
        assert!(!session.offers(&name, tool("1")));
        assert!(!session.offers(&name, tool("1")) && !session.has_changed(&name));
        assert!(session.offers(&name, tool("2")) && session.has_changed(&name));
        // A child is granted the tool as it is now.
        let child = session.below();
        assert!(!child.offers(&name, tool("2")) && !child.has_changed(&name));
        assert!(child.offers(&name, tool("1")) && child.has_changed(&name));
    }
}
