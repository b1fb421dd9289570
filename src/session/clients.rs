//! Clients that come and go: what the engine asks of a client, and what a client asks when it comes.

use std::sync::Arc;

use crate::event::{Cause, Event};
use crate::message::SessionId;
use crate::session::call::Reply;
use crate::session::tally::Tally;

/// The connected clients. From [`Clients::attach`] to [`Clients::detach`] a client is told every event that it
/// wants, in the order in which they happened in their session.
pub trait Clients: Send + Sync {
    /// Adds a connection and returns its first session.
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId;

    /// Removes a connection. After the last one, running turns end, and the reply is completed once
    /// everything is on disk.
    fn detach(&self, connection: u64, reply: Reply<()>);

    /// The counters of the wire's answers on all connections, for the graph.
    fn tally(&self) -> Arc<Tally>;

    /// What a connection is shown that begins to watch something, caused by `cause`.
    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        what: Snapshot,
        cause: Option<Cause>,
    ) -> Option<Event>;

    /// Shows a connection that missed events its session and the newest part of its history. Later events
    /// follow.
    fn catch_up(&self, connection: u64);
}

/// The state of a client's outbox after a delivery.
#[derive(Debug, Clone)]
pub enum Pressure {
    /// There is room.
    Fine,
    /// Lossless events fill the client's outbox: wait until this is false before the next.
    Full(tokio::sync::watch::Receiver<bool>),
}

/// The state of a connection, for the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Pending requests.
    pub pending: usize,
    /// Unencoded events that wait for the client.
    pub waiting: usize,
    /// Waiting bytes, encoded or not.
    pub bytes: usize,
    /// The number of the last encoded event.
    pub seq: u64,
}

/// The client of a connection, for the graph.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its transport: `stdio`, `socket` or `memory`; empty for a client without a connection.
    pub transport: &'static str,
    /// When it connected, RFC 3339 in UTC.
    pub since: Arc<str>,
    /// The agreement of its latest handshake; `None` before the first.
    pub agreed: Option<Arc<Agreed>>,
}

/// What a client is shown that begins to watch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// The session's state.
    State,
    /// The footer's part of it.
    Footer,
    /// The live sessions.
    Sessions,
    /// The widgets' content.
    Widgets,
    /// The set of widgets.
    WidgetSpecs,
    /// The status texts.
    Statuses,
    /// The open questions.
    Questions,
    /// The open questions as dialogs.
    Dialogs,
}

/// The agreement of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The client's name for itself.
    pub name: Box<str>,
    /// Its version, as it reported it.
    pub version: Box<str>,
    /// The common version of the protocol.
    pub protocol_version: Box<str>,
    /// The common features, in the order of the catalogue.
    pub features: Vec<&'static str>,
}

/// A connected frontend, as the engine sees it.
pub trait Client: Send + Sync {
    /// Whether the client receives any events of the session; of no session for `None`.
    fn watches(&self, session: Option<&SessionId>) -> bool;

    /// Whether the client is told which sessions are live.
    fn lists_sessions(&self) -> bool;

    /// Passes on an event. Never blocks. Ignores an event that the client does not want.
    fn deliver(&self, event: &Event) -> Pressure;

    /// Stops blocking producers on this client, whose outbox is full. [`Clients::catch_up`] shows it later
    /// what it misses.
    fn fall_behind(&self);

    /// Whether it has fallen behind, so that events are skipped for it.
    fn is_behind(&self) -> bool;

    /// Moves the connection's focus.
    fn focus(&self, session: SessionId);

    /// The connection's focus.
    fn focused(&self) -> SessionId;

    /// Whether the connection answers typed questions.
    fn is_interactor(&self) -> bool;

    /// Whether it supports only plain dialogs for them.
    fn dialogs_only(&self) -> bool {
        false
    }

    /// Asks the connection to end after the queued frames.
    fn close(&self);

    /// The state of the connection; empty for a client without an outbox.
    fn standing(&self) -> Standing {
        Standing::default()
    }

    /// The kinds of events that the client is subscribed to, in its wire's words.
    fn topics(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The client of the connection.
    fn peer(&self) -> Peer {
        Peer::default()
    }
}
