//! Sessions: opening, entering, naming and reading them. Does not know where a journal is or how a session lives.

use std::path::PathBuf;
use std::sync::Arc;

use crate::facts::{HostFacts, ListedSessions, OutputPart, SessionFacts, SessionStats};
use crate::message::{EntryId, Message, SessionId, TurnId};
use crate::session::call::{Call, Reply};
use crate::session::mcp::SessionServers;

/// The sessions, live and on disk. What is read is what the journal holds; an opened session is the focus of the
/// caller's connection before the reply.
pub trait Sessions: Send + Sync {
    /// Whether there is a live session with that id.
    fn has_session(&self, session: &SessionId) -> bool;

    /// The facts about a live session.
    fn facts(&self, session: &SessionId) -> Option<Arc<SessionFacts>>;

    /// The session's state.
    fn state(&self, call: Call, reply: Reply<Arc<SessionFacts>>);

    /// Messages before an entry, or the newest, at most `limit` of them.
    fn messages(&self, call: Call, before: Option<EntryId>, limit: Option<usize>, reply: Reply<Page>);

    /// Counts, tokens, cost and sizes.
    fn stats(&self, call: Call, reply: Reply<SessionStats>);

    /// The user's messages.
    fn fork_messages(&self, call: Call, reply: Reply<Vec<Arc<Message>>>);

    /// The text of the model's last message.
    fn last_assistant_text(&self, call: Call, reply: Reply<Option<String>>);

    /// Sessions, live and on disk, newest first. With a text, the sessions with all of its words, best first,
    /// each with an excerpt.
    fn list_sessions(&self, call: Call, wanted: Listing, reply: Reply<ListedSessions>);

    /// Opens a session. With a key that opened one before in the same folder, enters that one.
    fn new_session(&self, call: Call, wanted: NewSession, reply: Reply<Opened>);

    /// Opens a session that is live or on disk, so that it can be read. Moves no focus.
    fn open_session(&self, call: Call, session: SessionId, reply: Reply<SessionId>);

    /// Gives a live session further folders, in place of those that it had: tools may read and write there under the same
    /// rules as in its own folder, and commands may write there. Kept in memory alone.
    fn set_roots(&self, call: Call, roots: Vec<PathBuf>, reply: Reply<()>);

    /// Moves the focus to a session that is live or on disk.
    fn switch_session(&self, call: Call, target: SwitchTarget, reply: Reply<Opened>);

    /// Opens a session with the history up to an entry. The key is that of [`Sessions::new_session`].
    fn fork(&self, call: Call, entry: EntryId, key: Option<String>, reply: Reply<Opened>);

    /// Names the session.
    fn set_name(&self, call: Call, name: String, reply: Reply<String>);

    /// Names a session that is live or on disk.
    fn rename_session(&self, call: Call, session: SessionId, name: String, reply: Reply<String>);

    /// Archives a session that is live or on disk, or takes it out again. What is running, or shown by another client,
    /// is not archived.
    fn archive_session(&self, call: Call, session: SessionId, archived: bool, reply: Reply<bool>);

    /// Deletes a session that is live or on disk, with all that is kept of it. What is running, or shown by a client, is
    /// not deleted. With the reply, it is gone for good.
    fn delete_session(&self, call: Call, session: SessionId, reply: Reply<()>);

    /// Has the session's host share it with the other hosts of the realm.
    fn share_session(&self, call: Call, reply: Reply<()>);

    /// Takes a session of the realm whose owner is lost: from the reply on this host owns it, in that folder, or else in
    /// the caller's. Returns the folder.
    fn take_session(&self, call: Call, session: SessionId, cwd: Option<PathBuf>, reply: Reply<String>);

    /// Gives a session of this host to another host that is there.
    fn hand_over_session(&self, call: Call, session: SessionId, host: String, reply: Reply<String>);

    /// The hosts of the realm, by name.
    fn hosts(&self, call: Call, reply: Reply<Vec<HostFacts>>);

    /// A part of a stored output.
    fn read_output(&self, call: Call, handle: String, offset: u64, limit: usize, reply: Reply<OutputPart>);

    /// Writes the session as a page; returns the path.
    fn export_html(&self, call: Call, path: Option<String>, reply: Reply<String>);
}

/// A session to open.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    /// The live session that it is below.
    pub parent: Option<SessionId>,
    /// The key of the request.
    pub key: Option<String>,
    /// MCP servers of its own.
    pub servers: SessionServers,
    /// The agent that answers its turns, by its name in the configuration; `None` for this program itself.
    pub agent: Option<String>,
    /// Further folders, see [`Sessions::set_roots`].
    pub roots: Vec<PathBuf>,
}

/// An opened session.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
    /// Where its journal is, for people, once there is an entry.
    pub location: Option<String>,
    /// Whether a request with the same key has opened it.
    pub is_repeated: bool,
}

/// A part of a session's messages.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Whether there are older ones.
    pub more: bool,
    /// The turns among them that were cut off with their process.
    pub interrupted: Vec<TurnId>,
    /// The faults of the journal that no client was told of yet, each as a sentence.
    pub faults: Vec<String>,
}

/// What a list of sessions is to contain.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only the sessions with all of its words.
    pub text: Option<String>,
    /// At most so many.
    pub limit: Option<usize>,
    /// Of which folders.
    pub scope: ListScope,
    /// Also archived ones.
    pub archived: bool,
}

/// The sessions of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListScope {
    /// Those of the session's folder.
    #[default]
    Project,
    /// All that this machine has files of.
    Machine,
    /// All, also those that only the realm has.
    All,
}

/// The session to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchTarget {
    /// By id.
    Id(SessionId),
    /// By where its journal is, as lists show it; if an id is given too, only if it is that session.
    Location(String, Option<SessionId>),
}
