//! The whole text that a call proposes for a file, and the text that a person put in its place.
//!
//! Knows texts only. Does not know who asks the person, nor how a file is written.

use std::sync::Arc;

use crate::sha256;

/// The whole text that a call would give a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The file's text now; `None` if there is no file.
    pub old: Option<Arc<str>>,
    /// The text that it would have.
    pub new: Arc<str>,
}

impl Proposal {
    /// The digest of the file that it was made for; `None` if there is none.
    pub fn base(&self) -> Option<String> {
        self.old.as_deref().map(sha256::hex)
    }

    /// The same with another text in place of the proposed one.
    pub fn revised(self, content: Arc<str>) -> Revision {
        Revision { proposal: self, content }
    }
}

/// A text that a person accepted in place of the proposed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// What was proposed.
    pub proposal: Proposal,
    /// What is to be written.
    pub content: Arc<str>,
}

impl Revision {
    /// Whether the file still is what the person saw. The content is a whole text: written over another one, it would
    /// undo somebody else's change.
    pub fn is_for(&self, now: Option<&str>) -> bool {
        self.proposal.old.as_deref() == now
    }
}
