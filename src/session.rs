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
//! | [`Questions`] | each question is answered once |
//! | [`Settings`] | a setting is on disk before the reply |
//! | [`Logins`] | no secret is in an answer |
//! | [`Jobs`] | a command ends with its session |
//! | [`Control`] | what was acknowledged happens once |
//! | [`Graph`] | a query sees one moment of its session |
//!
//! [`Call::session`] names the session of every method that takes a [`Call`]. If there is no such session, the
//! answer is `request/not-found`.

mod call;
mod clients;
pub mod control;
mod graph;
mod jobs;
mod logins;
mod questions;
mod sessions;
mod settings;
mod tally;
mod turns;

pub use call::{ApiError, Call, Reply};
pub use clients::{Agreed, Client, Clients, Peer, Pressure, Snapshot, Standing};
pub use control::Control;
pub use graph::{Graph, Query, QueryAnswer};
pub use jobs::Jobs;
pub use logins::Logins;
pub use questions::{AnswerFields, DialogResult, Questions, Response};
pub use sessions::{Opened, Page, Scope, Sessions, SwitchTarget};
pub use settings::{Reach, Settings, ShownFiles};
pub use tally::{Counts, OpCounts, Requests, Tally};
pub use turns::{ActionResult, ActionStatus, Ended, Interrupted, Prompt, Prompted, TurnState, Turns};

/// All capabilities: what the EDN wire and the graph's mutations need.
pub trait SessionApi:
    Clients + Sessions + Turns + Questions + Settings + Logins + Jobs + Graph + Control
{
}

impl<T: Clients + Sessions + Turns + Questions + Settings + Logins + Jobs + Graph + Control> SessionApi
    for T
{
}
