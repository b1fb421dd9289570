//! The API of the engine for every wire, as capabilities. A wire takes those that it needs.
//!
//! Only here a wire and the engine meet. This room knows values, messages, events and error codes. It knows
//! neither text nor frames, nor how a session lives.
//!
//! | capability | what it promises |
//! |---|---|
//! | [`Clients`] | an attached client is told every event that it wants |
//! | [`Sessions`] | opens, enters, names and reads sessions |
//! | [`Turns`] | an accepted message is on disk, and a session has one turn at a time |
//! | [`Queues`] | queued messages are seen, changed and held; a change is on disk before the reply |
//! | [`Undos`] | no change of somebody else is overwritten |
//! | [`Questions`] | each question is answered once |
//! | [`Permissions`] | a rule that was taken back permits nothing any more |
//! | [`SessionSettings`] | a setting is on disk before the reply |
//! | [`Logins`] | no secret is in an answer |
//! | [`McpServers`] | a server that is switched off is not called any more |
//! | [`Jobs`] | a command ends with its session; one of a shell of its own ends with the process |
//! | [`ClientTools`] | a request for a tool or an open file goes to the client that has it, and is answered once |
//! | [`Control`] | what was acknowledged happens once |
//! | [`Queries`] | a query sees one moment of its session |
//!
//! [`Call::session`] names the session of every method that takes a [`Call`]. If there is no such session, the
//! answer is `request/not-found`.

mod call;
mod client_tools;
mod clients;
pub mod control;
mod jobs;
mod logins;
mod mcp;
mod permissions;
mod queries;
mod questions;
mod queue;
mod sessions;
mod settings;
mod tally;
mod turns;
mod undo;

pub use call::{ApiError, Call, Reply};
pub use client_tools::{
    ClientTools, EditorDiagnostic, EditorText, FileAnswer, OfferedTool, OpenFile, OpenFilesOfClient,
    Registered, Severity, ToolAnswer,
};
pub use clients::{Agreed, Client, Clients, InAnswer, Peer, Pressure, Since, Snapshot, Standing};
pub use control::Control;
pub use jobs::{Jobs, ShellCommand, ToolOutcome, Waited};
pub use logins::Logins;
pub use mcp::{McpServers, McpSwitch, McpTyped, SessionServer, SessionServerWay, SessionServers};
pub use permissions::Permissions;
pub use queries::{GraphQuery, Queries, QueryAnswer};
pub use questions::{AnswerFields, DialogResult, Questions, Response};
pub use queue::{Edited, Queues, Removed, Resumed};
pub use sessions::{ListScope, Listing, NewSession, Opened, Page, Sessions, SwitchTarget};
pub use settings::{Reach, SessionSettings, ShownFiles};
pub use tally::{Counts, OpCounts, Requests, Tally};
pub use turns::{ActionResult, ActionStatus, Again, Ended, Interrupted, Prompt, Prompted, TurnState, Turns};
pub use undo::{Undo, Undone, UndoneFile, Undos};

/// All capabilities: what the wires and the graph's mutations need.
pub trait SessionApi:
    Clients
    + Sessions
    + Turns
    + Queues
    + Undos
    + Questions
    + Permissions
    + SessionSettings
    + Logins
    + McpServers
    + Jobs
    + ClientTools
    + Queries
    + Control
{
}

impl<T> SessionApi for T where
    T: Clients
        + Sessions
        + Turns
        + Queues
        + Undos
        + Permissions
        + Questions
        + SessionSettings
        + Logins
        + McpServers
        + Jobs
        + ClientTools
        + Queries
        + Control
{
}
