//! One connection of any wire: its threads, pending requests, focus and outbox.
//!
//! Reads lines and hands them to the [`Wire`], and hands the wire the engine's events. Knows neither what stands in a
//! line nor how an event is written, nor how a session lives. Every byte for the client passes through the
//! connection's [`Outbox`].
//!
//! Two threads serve a connection: one reads and routes, one writes. Requests are routed in order of arrival.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::clock::{Clock, rfc3339};
use crate::event::Event;
use crate::event::question::QuestionKind;
use crate::limits::{HANDSHAKE_WAIT, MAX_LINE_BYTES, MAX_PENDING, STALLED};
use crate::message::SessionId;
use crate::session::{Agreed, ApiError, Client, Clients, Peer, Pressure, Reply, Standing};
use crate::wire::encoder::Encoder;
use crate::wire::lines::{Line, Splitter};
use crate::wire::outbox::{Depth, Outbox};
use crate::wire::partial_lines::Share;
use crate::wire::transport::{Input, Transport, TransportKind};

/// Why a connection ended.
#[derive(Debug)]
pub enum ConnectionEnd {
    /// The client closed its side, or a read failed.
    Input,
    /// The client no longer reads.
    Output(std::io::Error),
    /// The engine closed it, because the person asked to quit.
    Closed,
}

/// The words of one connection: what its lines ask, and which events its client receives.
pub trait Wire: Sized + Send + Sync + 'static {
    /// The capabilities that it calls.
    type Api: Clients + ?Sized;

    /// Its encoder of events.
    type Encoder: Encoder;

    /// The longest line that it takes, in bytes.
    fn line_bytes() -> usize {
        MAX_LINE_BYTES
    }

    /// Serves a line of the client. Answers through the connection's outbox.
    fn line(&self, connection: &Connection<Self>, line: &Line<'_>);

    /// A client that had fallen behind has caught up, and no further event is taken before [`Wire::show_anew`]. Called
    /// under the outbox's lock.
    fn catches_up(&self, connection: &Connection<Self>) {
        let _ = connection;
    }

    /// Shows a client that has caught up what it missed: `missed` events.
    fn show_anew(&self, connection: &Connection<Self>, missed: u64);

    /// Passes an event that the client wants to the connection's outbox.
    fn deliver(&self, connection: &Connection<Self>, event: &Event) -> Pressure;

    /// The connection's focus moved.
    fn focus_moved(&self) {}

    /// See [`Client::begin_replay`].
    fn begin_replay(&self, session: &SessionId, offset: u64) -> u64 {
        let _ = (session, offset);
        0
    }

    /// See [`Client::replay`].
    fn replay(&self, connection: &Connection<Self>, replay: u64, event: &Event) -> Option<Pressure> {
        let _ = replay;
        Some(self.deliver(connection, event))
    }

    /// See [`Client::end_replay`].
    fn end_replay(&self, replay: u64) {
        let _ = replay;
    }

    /// See [`Client::watches`].
    fn watches(&self, connection: &Connection<Self>, session: Option<&SessionId>) -> bool;

    /// See [`Client::lists_sessions`].
    fn lists_sessions(&self) -> bool;

    /// See [`Client::is_interactor`].
    fn is_interactor(&self) -> bool;

    /// See [`Client::dialogs_only`].
    fn dialogs_only(&self) -> bool;

    /// See [`Client::answers`].
    fn answers(&self, kind: QuestionKind) -> bool {
        let _ = kind;
        true
    }

    /// See [`Client::topics`].
    fn topics(&self) -> Vec<&'static str>;

    /// What the client has agreed to.
    fn agreed(&self) -> Option<Arc<Agreed>>;
}

/// One connection to a client.
pub struct Connection<W: Wire> {
    id: u64,
    api: Arc<W::Api>,
    wire: W,
    outbox: Outbox<W::Encoder>,
    kind: TransportKind,
    /// When the client connected, RFC 3339 in UTC.
    since: Arc<str>,
    /// The ids of requests without an answer yet.
    pending: Mutex<HashSet<Arc<str>>>,
    /// Wakes the threads that wait for `pending` to empty.
    answered: Condvar,
    /// Whether a thread waits so. To wake nobody is a call of the system, too.
    drains: AtomicBool,
    focus: ArcSwap<SessionId>,
    on_end: Box<dyn Fn(ConnectionEnd) + Send + Sync>,
    /// The connection itself, for replies that outlive their call.
    this: Weak<Self>,
}

/// Serves a connection on two threads of its own. They call `on_end`, at most once per reason.
///
/// # Errors
/// If a thread cannot be started.
pub fn start<W: Wire>(
    id: u64,
    transport: Transport,
    wire: W,
    encoder: W::Encoder,
    api: Arc<W::Api>,
    clock: Arc<dyn Clock>,
    on_end: Box<dyn Fn(ConnectionEnd) + Send + Sync>,
) -> std::io::Result<Arc<Connection<W>>> {
    let Transport { kind, input, output } = transport;
    let since = rfc3339(clock.now());
    let connection = Arc::new_cyclic(|this| Connection {
        id,
        api,
        wire,
        outbox: Outbox::new(encoder, clock, output),
        kind,
        since,
        pending: Mutex::default(),
        answered: Condvar::new(),
        drains: AtomicBool::new(false),
        focus: ArcSwap::from_pointee(SessionId::from("")),
        on_end,
        this: this.clone(),
    });
    let first = connection.api.attach(id, connection.clone());
    connection.focus.store(Arc::new(first));

    let writer = connection.clone();
    std::thread::Builder::new().name(format!("write-{id}")).spawn(move || {
        let catches_up = || writer.wire.catches_up(&writer);
        if let Err(error) = writer.outbox.run(catches_up, |missed| writer.wire.show_anew(&writer, missed)) {
            (writer.on_end)(ConnectionEnd::Output(error));
        }
    })?;
    let reader = connection.clone();
    std::thread::Builder::new().name(format!("read-{id}")).spawn(move || {
        let _span = tracing::debug_span!("connection", id, transport = reader.kind.as_str()).entered();
        reader.read(input);
        (reader.on_end)(ConnectionEnd::Input);
    })?;
    Ok(connection)
}

impl<W: Wire> Connection<W> {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The capabilities of the engine.
    pub fn api(&self) -> &W::Api {
        &self.api
    }

    /// Its wire.
    pub fn wire(&self) -> &W {
        &self.wire
    }

    /// Its outbox.
    pub fn outbox(&self) -> &Outbox<W::Encoder> {
        &self.outbox
    }

    /// The connection, for what may outlive it.
    pub fn weak(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// Whether a request with that id has no answer yet.
    pub fn is_pending(&self, id: &str) -> bool {
        self.pending().contains(id)
    }

    /// Whether as many requests are pending as a connection may have.
    pub fn is_crowded(&self) -> bool {
        self.pending().len() >= MAX_PENDING
    }

    /// Records a request as pending. The returned reply ends it: it frees the id and calls `answer`.
    pub fn begin<T: 'static>(
        &self,
        id: Arc<str>,
        answer: impl FnOnce(&Self, &str, Result<T, ApiError>) + Send + 'static,
    ) -> Reply<T> {
        self.pending().insert(id.clone());
        let this = self.this.clone();
        Reply::new(move |result| {
            if let Some(this) = this.upgrade() {
                // Before the client can see the answer.
                this.pending().remove(&id);
                answer(&this, &id, result);
                // It is set before the set of ids is looked at, and that is locked above.
                if this.drains.load(Ordering::Relaxed) {
                    this.answered.notify_all();
                }
            }
        })
    }

    /// Whether a session is the connection's focus.
    pub fn is_focused(&self, session: &SessionId) -> bool {
        **self.focus.load() == *session
    }

    fn pending(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the engine. Pass the returned receiver to [`Connection::drain`].
    pub fn leave(&self) -> Receiver<()> {
        let (sender, receiver) = channel();
        self.api.detach(
            self.id,
            Reply::new(move |_| {
                let _ = sender.send(());
            }),
        );
        receiver
    }

    /// Leaves the engine and waits at most `patience` until every pending request is answered and written.
    pub fn finish(&self, patience: Duration) {
        self.drain(&self.leave(), patience);
    }

    /// Waits at most `patience` until the connection has left the engine and every pending request is
    /// answered and written.
    pub fn drain(&self, has_left: &Receiver<()>, patience: Duration) {
        let deadline = Instant::now().checked_add(patience);
        let remaining =
            || deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
        let _ = has_left.recv_timeout(remaining());
        self.drains.store(true, Ordering::Relaxed);
        let mut pending = self.pending();
        while !pending.is_empty() && !remaining().is_zero() {
            pending =
                self.answered.wait_timeout(pending, remaining()).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pending);
        self.outbox.close(remaining());
    }

    /// The state of the outbox.
    pub fn depth(&self) -> Depth {
        self.outbox.depth()
    }

    /// Reads and serves lines until the input ends.
    fn read(&self, mut input: Box<dyn Input>) {
        let mut splitter = Splitter::new(W::line_bytes());
        let mut share = Share::default();
        let begun = Instant::now();
        loop {
            if self.kind == TransportKind::Socket && self.wire.agreed().is_none() {
                let left = HANDSHAKE_WAIT.saturating_sub(begun.elapsed());
                if left.is_zero() || !input.is_ready_within(left) {
                    tracing::debug!("a connection without a handshake was hung up on");
                    return;
                }
            }
            let filled = splitter.fill(&mut input);
            self.outbox.hold();
            while let Some(line) = splitter.next_line() {
                self.wire.line(self, &line);
                if !self.outbox.wait_for_room(|| input.has_ended(), STALLED) {
                    return;
                }
            }
            // The editor's own lines are always taken.
            if self.kind == TransportKind::Socket && !share.set(splitter.held()) {
                splitter.skip();
                share.set(0);
            }
            self.outbox.flush();
            if !matches!(filled, Ok(count) if count > 0) {
                return;
            }
        }
    }
}

impl<W: Wire> Client for Connection<W> {
    fn watches(&self, session: Option<&SessionId>) -> bool {
        self.wire.watches(self, session)
    }

    fn lists_sessions(&self) -> bool {
        self.wire.lists_sessions()
    }

    fn deliver(&self, event: &Event) -> Pressure {
        self.wire.deliver(self, event)
    }

    fn fall_behind(&self) {
        self.outbox.fall_behind();
    }

    fn is_behind(&self) -> bool {
        self.outbox.is_behind()
    }

    fn focus(&self, session: SessionId) {
        self.focus.store(Arc::new(session));
        self.wire.focus_moved();
    }

    fn begin_replay(&self, session: &SessionId, offset: u64) -> u64 {
        self.wire.begin_replay(session, offset)
    }

    fn replay(&self, replay: u64, event: &Event) -> Option<Pressure> {
        self.wire.replay(self, replay, event)
    }

    fn end_replay(&self, replay: u64) {
        self.wire.end_replay(replay);
    }

    fn focused(&self) -> SessionId {
        self.focus.load().as_ref().clone()
    }

    fn is_interactor(&self) -> bool {
        self.wire.is_interactor()
    }

    fn dialogs_only(&self) -> bool {
        self.wire.dialogs_only()
    }

    fn answers(&self, kind: QuestionKind) -> bool {
        self.wire.answers(kind)
    }

    fn close(&self) {
        (self.on_end)(ConnectionEnd::Closed);
    }

    fn standing(&self) -> Standing {
        let pending = self.pending().len();
        let Depth { waiting, bytes, seq } = self.outbox.depth();
        Standing { pending, waiting, bytes, seq }
    }

    fn topics(&self) -> Vec<&'static str> {
        self.wire.topics()
    }

    fn peer(&self) -> Peer {
        Peer { transport: self.kind.as_str(), since: self.since.clone(), agreed: self.wire.agreed() }
    }
}
