//! Who keeps sessions at work through the end of their process. Knows no session.

use crate::environment::Variables;
use crate::message::{EntryId, SessionId};

/// The folder in a state folder that has a file for each session at work, named by its id. A deleted session has none.
pub const AT_WORK: &str = "at-work";

/// Is told which sessions work, so that another process can continue them. Never blocks for long: a session waits.
pub trait WorkingSessions: Send + Sync {
    /// A session begins to work.
    fn works(&self, session: &SessionId);

    /// A session rests.
    fn rests(&self, session: &SessionId);

    /// A session begins to leave this process. It is open here no more; [`WorkingSessions::left`] follows.
    fn leaves(&self, session: &SessionId);

    /// A session has left this process and its files are free: another one may open it.
    fn left(&self, left: DepartedSession);
}

/// A session that has left its process.
#[derive(Debug)]
pub struct DepartedSession {
    /// The session.
    pub session: SessionId,
    /// Whether the process that opens it continues a turn.
    pub is_at_work: bool,
    /// The variables of that turn's programs, if a client brought them.
    pub variables: Option<Variables>,
    /// Those of the queued messages, by their entries.
    pub waiting: Vec<(EntryId, Variables)>,
}
