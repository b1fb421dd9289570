//! Clients that come and go: what the engine asks of a client, and what a client asks when it comes. Knows no wire
//! and no byte stream.

use std::sync::Arc;

use crate::event::question::QuestionKind;
use crate::event::{Cause, Event, Subagent};
use crate::message::{EntryId, SessionId, TurnId};
use crate::session::call::{Call, Reply};
use crate::session::tally::Tally;

/// The connected clients. From [`Clients::attach`] to [`Clients::detach`] a client is told every event that it
/// wants, in the order in which they happened in their session.
pub trait Clients: Send + Sync {
    /// Adds a connection and returns its first session.
    fn attach(&self, connection: u64, client: Arc<dyn Client>) -> SessionId;

    /// Removes a connection. After the last one, running turns end, unless they outlive clients. The reply is completed
    /// once everything is on disk.
    fn detach(&self, connection: u64, reply: Reply<()>);

    /// Whether what runs goes on when the last connection is gone.
    fn outlives_clients(&self) -> bool {
        false
    }

    /// The counters of the wire's answers on all connections, for the graph.
    fn tally(&self) -> Arc<Tally>;

    /// What a connection is shown that begins to watch something, caused by `cause`.
    fn snapshot(
        &self,
        connection: u64,
        session: &SessionId,
        what: Snapshot,
        cause: Option<Cause>,
    ) -> Vec<Event>;

    /// Shows a connection that missed events its session and the newest part of its history. Later events
    /// follow.
    fn catch_up(&self, connection: u64);

    /// Moves a connection's focus to a session, which is opened if necessary, and shows it everything since a place in
    /// the session's log: each entry once, what is in flight, that it is complete; later events follow. The reply comes
    /// first, with the number of entries that are missing. Where the log is another one, the newest part of the history
    /// is shown instead.
    fn follow(&self, call: Call, since: Since, reply: Reply<u64>);

    /// The same for a connection that missed events, whose replay has the number `replay` already. Returns whether the
    /// session is live.
    fn follow_again(&self, connection: u64, replay: u64, session: &SessionId, offset: u64) -> bool;
}

/// A place in a session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// The session.
    pub session: SessionId,
    /// The number of entries that the client has.
    pub offset: u64,
    /// The last one of them, if the client knows it.
    pub entry: Option<EntryId>,
    /// What the client has of the answer after it.
    pub in_answer: Option<InAnswer>,
}

/// A place in an answer that no entry contains yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InAnswer {
    /// The turn.
    pub turn: TurnId,
    /// The number of the model call in the turn.
    pub call: u32,
    /// The characters of its text that the client has.
    pub chars: u64,
    /// The characters of its thinking that the client has.
    pub thinking: u64,
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
    /// The waiting messages.
    Queue,
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

    /// Moves the connection's focus. Ends a replay.
    fn focus(&self, session: SessionId);

    /// Begins a replay, and ends an older one: from now on the client is told nothing of its focus that the replay
    /// repeats. The client has `offset` entries of the session. Returns the replay's number.
    fn begin_replay(&self, session: &SessionId, offset: u64) -> u64 {
        let _ = (session, offset);
        0
    }

    /// Passes on an event of a replay. `None` if another one has begun or the focus has moved.
    fn replay(&self, replay: u64, event: &Event) -> Option<Pressure> {
        let _ = replay;
        Some(self.deliver(event))
    }

    /// Ends a replay: what follows is live.
    fn end_replay(&self, replay: u64) {
        let _ = replay;
    }

    /// The connection's focus.
    fn focused(&self) -> SessionId;

    /// Whether the connection answers typed questions.
    fn is_interactor(&self) -> bool;

    /// Whether it supports only plain dialogs for them.
    fn dialogs_only(&self) -> bool {
        false
    }

    /// Whether it answers questions of that kind, if it answers any. A choice of a slash command is a
    /// [`QuestionKind::Select`].
    fn answers(&self, kind: QuestionKind) -> bool {
        let _ = kind;
        true
    }

    /// Whether it answers questions of that session, if it answers any. `subagent` is the one that asks.
    fn asks_about(&self, session: &SessionId, subagent: Option<&Subagent>) -> bool {
        let _ = (session, subagent);
        true
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
