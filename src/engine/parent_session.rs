//! What a session that works for another knows of that. Kept in memory: after a restart it is an ordinary session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::SessionId;

/// The link of a child session to its parent.
#[derive(Debug)]
pub struct Parentage {
    /// The session for which it works.
    pub parent: SessionId,
    /// The session above it that works for none.
    pub root: SessionId,
    /// Its name in questions.
    pub subagent: Arc<str>,
    /// The number of sessions above it.
    pub depth: u32,
    /// Its granted tools. They pass the mode's gate while it works.
    pub envelope: Vec<String>,
    /// It no longer works for its parent.
    pub over: AtomicBool,
}

impl Parentage {
    /// Whether it still works for its parent.
    pub fn works(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    /// Whether a tool was granted and the child still works for its parent.
    pub fn covers(&self, tool: &str) -> bool {
        self.works() && self.envelope.iter().any(|own| own == tool)
    }
}
