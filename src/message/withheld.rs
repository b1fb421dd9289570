//! Parts of a conversation that a server refused: later requests to it do without them. Sends nothing.

use std::sync::Arc;

use super::EntryId;

/// A part of a conversation that a server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldPart {
    /// The message's entry.
    pub entry: EntryId,
    /// The number of its block; `None` for all of it.
    pub block: Option<usize>,
    /// The server's words.
    pub why: Arc<str>,
}
