//! The queue: the queued messages for a running turn or its end, as people see and change them. Does not know when
//! a message is taken from it.

use serde::{Deserialize, Serialize};

use crate::event::WaitingMessages;
use crate::message::{EntryId, TurnId};
use crate::session::call::{Call, Reply};
use crate::session::turns::Prompt;

/// The waiting messages of a session. A change is on disk before the reply. What control has acknowledged is neither
/// edited, removed nor moved: `request/message-fixed`.
pub trait Queues: Send + Sync {
    /// The waiting messages, or only one with its whole text.
    fn pending(&self, call: Call, entry: Option<EntryId>, reply: Reply<WaitingMessages>);

    /// Gives a waiting message another content; it keeps its place.
    fn edit_pending(&self, call: Call, entry: EntryId, content: Edited, reply: Reply<()>);

    /// Takes a waiting message out, and returns its text.
    fn remove_pending(&self, call: Call, entry: EntryId, reply: Reply<Removed>);

    /// Moves a waiting message before another one, or to the end.
    fn move_pending(&self, call: Call, entry: EntryId, before: Option<EntryId>, reply: Reply<()>);

    /// Lets a queue go on that an abort holds, or that no turn works on.
    fn resume_queue(&self, call: Call, reply: Reply<Resumed>);
}

/// Another content of a waiting message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Edited {
    /// The text and the images.
    pub prompt: Prompt,
    /// Whether its images stay those that it has.
    pub keeps_images: bool,
}

/// A message that was taken out of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Its text.
    pub text: String,
    /// The number of its images.
    pub images: usize,
}

/// A queue that goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Whether a message waited.
    pub is_resumed: bool,
    /// The turn that was begun with it.
    pub turn: Option<TurnId>,
}
