//! The tools of servers that rules have let run, by folder: a rule that stands allows a tool as it was then. Judges no call and
//! asks nobody.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::KnownDigests;
use crate::engine::handle::Handle;

/// The tools that rules have let run.
pub struct AllowedTools {
    known: KnownDigests,
}

impl AllowedTools {
    /// Those that the state folder knows.
    pub fn new(state_dir: &Path) -> Self {
        Self { known: KnownDigests::tools(state_dir) }
    }

    /// Whether a server's tool is another one than when a rule last let it run in the session's folder, so that a rule that
    /// stands allows it no more. True also if the stored digests cannot be read, and for a tool of a borrowed name (that of one
    /// of the user's own servers, which the rules are about) that no rule has let run there. Reads the disk.
    pub fn is_another(&self, session: &Handle, tool: &str) -> bool {
        let Some(now) = session.mcp.tool(tool) else { return false };
        match self.known.of(&session.snapshot().facts.cwd) {
            None => true,
            Some(known) => known.get(tool).map_or(now.borrows_name, |before| **before != *now.digest),
        }
    }

    /// Whether a server's tool has a name that means a server of the user's own, and nobody has allowed it in the folder:
    /// nothing that names it is about it. Reads the disk for such a tool alone.
    pub fn is_borrowed(&self, session: &Handle, tool: &str) -> bool {
        session.mcp.tool(tool).is_some_and(|now| now.borrows_name) && self.is_another(session, tool)
    }

    /// A rule lets a server's tool run as it is now; `is_agreed` if a person has just said so. Writes the disk where that
    /// is new.
    pub fn note(&self, session: &Handle, tool: &str, is_agreed: bool) {
        let Some(now) = session.mcp.tool(tool) else { return };
        let cwd = session.snapshot().facts.cwd.clone();
        let known = self.known.of(&cwd);
        let before = known.as_ref().and_then(|known| known.get(tool));
        let is_new = match before {
            Some(before) => is_agreed && **before != *now.digest,
            // What is allowed for a session alone is no rule that stands.
            None => is_agreed || known.is_some() && !now.borrows_name,
        };
        if is_new {
            let digests = BTreeMap::from([(tool.to_owned(), now.digest.to_string())]);
            if let Err(error) = self.known.add(&cwd, digests) {
                tracing::warn!(%error, "what a rule has allowed could not be written down");
            }
        }
    }
}
