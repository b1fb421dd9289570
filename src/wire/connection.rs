//! One connection: handshake, pending requests, subscriptions, focus.
//!
//! Reads lines, answers each request once, and sends the runtime's events to subscribers. Knows frames, the
//! router and the session API; knows neither what an op does nor how a session lives. Every byte for the
//! client passes through the connection's [`Outbox`].
//!
//! Two threads serve a connection: one reads and routes, one writes. Requests are routed in order of arrival.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::catalogue::{Access, ErrorCode, OPS, Op, PROTOCOL_VERSION_TEXT, TOPICS, Topic};
use crate::clock::{Clock, rfc3339};
use crate::event::{Body, Cause, Diagnostic, Event};
use crate::heap;
use crate::limits::{LARGE_LINE_BYTES, MAX_LINE_BYTES, MAX_PENDING, STALLED, UNFINISHED_BYTES};
use crate::message::SessionId;
use crate::session::{Agreed, ApiError, Call, Client, Peer, Pressure, Reply, SessionApi, Standing, Tally};
use crate::value::{Map, Value};
use crate::wire::edn::decode::{self, Rejection, Request, invalid_frame};
use crate::wire::edn::encode::{self, ErrorFrame, Style};
use crate::wire::edn::router;
use crate::wire::lines::{Line, Splitter};
use crate::wire::outbox::{Depth, Outbox};
use crate::wire::transport::{Input, Kind, Transport};

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The client closed its side, or a read failed.
    Input,
    /// The client no longer reads.
    Output(std::io::Error),
    /// The runtime closed it, because the person asked to quit.
    Closed,
}

/// One connection to a client.
pub struct Connection {
    id: u64,
    pub(super) api: Arc<dyn SessionApi>,
    outbox: Arc<Outbox>,
    /// Counts the answers.
    tally: Arc<Tally>,
    kind: Kind,
    /// When the client connected, RFC 3339 in UTC.
    since: Arc<str>,
    /// The result of the latest handshake.
    agreed: ArcSwapOption<Agreed>,
    /// Requests without an answer yet: id to op.
    pending: Mutex<HashMap<Arc<str>, &'static str>>,
    /// Wakes the threads that wait for `pending` to empty.
    answered: Condvar,
    ready: AtomicBool,
    /// The subscribed topics, one bit each.
    topics: AtomicU64,
    /// Whether the client answers typed questions.
    interactor: AtomicBool,
    /// Whether the client subscribed to the dialog topic by name.
    dialogs: AtomicBool,
    focus: ArcSwap<SessionId>,
    /// The version of the session list that the client received last.
    told_sessions: AtomicU64,
    on_end: Box<dyn Fn(End) + Send + Sync>,
    /// The connection itself, for replies that outlive their call.
    this: std::sync::Weak<Self>,
}

/// Serves a connection on two threads of its own. They call `on_end`, at most once per reason.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    id: u64,
    transport: Transport,
    api: Arc<dyn SessionApi>,
    clock: Arc<dyn Clock>,
    on_end: Box<dyn Fn(End) + Send + Sync>,
) -> std::io::Result<Arc<Connection>> {
    let Transport { kind, input, output } = transport;
    let since = rfc3339(clock.now());
    let tally = api.tally();
    let outbox = Arc::new(Outbox::new(id, clock, output));
    let connection = Arc::new_cyclic(|this| Connection {
        id,
        api,
        outbox,
        tally,
        kind,
        since,
        agreed: ArcSwapOption::empty(),
        pending: Mutex::default(),
        answered: Condvar::new(),
        ready: AtomicBool::new(false),
        topics: AtomicU64::new(0),
        interactor: AtomicBool::new(false),
        dialogs: AtomicBool::new(false),
        focus: ArcSwap::from_pointee(SessionId::from("")),
        told_sessions: AtomicU64::new(0),
        on_end,
        this: this.clone(),
    });
    let first = connection.api.attach(id, connection.clone());
    connection.focus.store(Arc::new(first));

    let writer = connection.clone();
    std::thread::Builder::new().name(format!("write-{id}")).spawn(move || {
        if let Err(error) = writer.outbox.run(|missed| writer.show_anew(missed)) {
            (writer.on_end)(End::Output(error));
        }
    })?;
    let reader = connection.clone();
    std::thread::Builder::new().name(format!("read-{id}")).spawn(move || {
        reader.read(input);
        (reader.on_end)(End::Input);
    })?;
    Ok(connection)
}

/// Bytes of lines that have not ended, of all connections of the process.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// A connection's part of [`UNFINISHED`], given back when it ends.
#[derive(Default)]
struct Share(usize);

impl Share {
    /// Counts what is held now. Returns whether all together is within the bound.
    fn set(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.0, bytes);
        UNFINISHED.fetch_sub(before, Ordering::AcqRel);
        let all = UNFINISHED.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        bytes == 0 || all <= UNFINISHED_BYTES
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Connection {
    /// Leaves the runtime. Pass the returned receiver to [`Connection::drain`].
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

    /// Leaves the runtime and waits at most `patience` until every pending request is answered and written.
    pub fn finish(&self, patience: Duration) {
        self.drain(&self.leave(), patience);
    }

    /// Waits at most `patience` until the connection has left the runtime and every pending request is
    /// answered and written.
    pub fn drain(&self, left_runtime: &Receiver<()>, patience: Duration) {
        let deadline = Instant::now().checked_add(patience);
        let left =
            || deadline.map_or(patience, |deadline| deadline.saturating_duration_since(Instant::now()));
        let _ = left_runtime.recv_timeout(left());
        let mut pending = self.pending();
        while !pending.is_empty() && !left().is_zero() {
            pending = self.answered.wait_timeout(pending, left()).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pending);
        self.outbox.close(left());
    }

    /// The state of the outbox.
    pub fn depth(&self) -> Depth {
        self.outbox.depth()
    }

    /// Reads and serves lines until the input ends.
    fn read(&self, mut input: Box<dyn Input>) {
        let mut splitter = Splitter::new(MAX_LINE_BYTES);
        let mut share = Share::default();
        loop {
            let filled = splitter.fill(&mut input);
            self.outbox.hold();
            let mut took_much = false;
            while let Some(line) = splitter.next_line() {
                self.serve(&line);
                took_much |= matches!(line, Line::Whole(bytes) if bytes.len() >= LARGE_LINE_BYTES);
                if !self.outbox.wait_for_room(|| input.has_ended(), STALLED) {
                    return;
                }
            }
            // The editor's own lines are always taken.
            if self.kind == Kind::Socket && !share.set(splitter.held()) {
                splitter.skip();
                share.set(0);
                took_much = true;
            }
            self.outbox.flush();
            if took_much {
                heap::give_back();
            }
            if !matches!(filled, Ok(count) if count > 0) {
                return;
            }
        }
    }

    /// Answers one line.
    fn serve(&self, line: &Line<'_>) {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::Oversize(length) if *length <= MAX_LINE_BYTES => {
                let message = format!(
                    "All clients together have sent more than {UNFINISHED_BYTES} bytes of lines that have not ended; \
                     this one of {length} bytes was not taken. Send it again."
                );
                return self.reject(invalid_frame("line-too-long", UNFINISHED_BYTES, &message));
            }
            Line::Oversize(length) => {
                let message = format!("The line is {length} bytes long; the maximum is {MAX_LINE_BYTES}.");
                return self.reject(invalid_frame("line-too-long", MAX_LINE_BYTES, &message));
            }
            Line::Unterminated(bytes) => {
                let message = "The input ended in the middle of a line; a frame ends with a line feed.";
                return self.reject(invalid_frame("unterminated-line", bytes.len(), message));
            }
        };
        let form = match decode::read(bytes, |id| self.pending().contains_key(id)) {
            Ok(form) => form,
            Err(rejection) => return self.reject(rejection),
        };
        match decode::request(&form, |id| self.pending().contains_key(id)) {
            Ok(request) => self.admit(request),
            Err(rejection) => self.reject(rejection),
        }
    }

    /// Makes the checks that need the connection's state, then runs the op.
    fn admit(&self, request: Request<'_>) {
        let op = Op::parse(request.op);
        if !self.ready.load(Ordering::Acquire) && op != Some(Op::Handshake) {
            let error = ApiError::new(ErrorCode::NotReady, "Send a handshake first.");
            return self.refuse(&request.id, request.op, &error);
        }
        let urgent = op.is_some_and(|op| op.spec().access == Access::Urgent);
        if !urgent && self.pending().len() >= MAX_PENDING {
            let message = format!("{MAX_PENDING} requests are pending; wait for an answer.");
            return self.refuse(
                &request.id,
                request.op,
                &ApiError::new(ErrorCode::MaxPendingExceeded, message),
            );
        }
        let Some(op) = op else {
            let names = Value::vector(OPS.iter().map(|spec| Value::from(spec.name)));
            let error =
                ApiError::new(ErrorCode::OpNotSupported, "There is no such op.").with("supported-ops", names);
            return self.refuse(&request.id, request.op, &error);
        };
        if let Err(invalid) = op.spec().check(&request.params) {
            let error = ApiError::new(ErrorCode::InvalidParams, format!("{invalid}."))
                .with("key", invalid.key)
                .with("expected", invalid.expected);
            return self.refuse(&request.id, request.op, &error);
        }
        if op == Op::Handshake {
            return self.handshake(&request);
        }
        match op {
            // The connection's own ops are answered at once and never become pending.
            Op::Ping => self.respond(&request.id, op, &PONG),
            Op::Subscribe => self.subscribe(&request),
            Op::Unsubscribe => self.unsubscribe(&request),
            Op::Ack => {
                let seq = request.params.get("seq").and_then(Value::as_i64);
                self.outbox.credit(seq.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(0));
                self.respond(&request.id, op, &ACCEPTED);
            }
            _ => {
                let reply = self.begin(&request.id, op);
                let call = self.call(&request);
                router::route(op, call, &request.params, self.api.as_ref(), reply);
            }
        }
    }

    fn call(&self, request: &Request<'_>) -> Call {
        let session = match request.params.get("session-id").and_then(Value::as_str) {
            Some(named) => SessionId::from(named),
            None => self.focused(),
        };
        Call { connection: self.id, request: request.id.clone(), session }
    }

    /// Records a request as pending; the returned reply ends it.
    fn begin(&self, id: &Arc<str>, op: Op) -> Reply<Map<'static>> {
        self.pending().insert(id.clone(), op.spec().name);
        let this = self.this.clone();
        let id = id.clone();
        Reply::new(move |result| {
            if let Some(this) = this.upgrade() {
                this.answer(&id, op, result);
            }
        })
    }

    /// Ends a pending request with a response or an error.
    fn answer(&self, id: &Arc<str>, op: Op, result: Result<Map<'static>, ApiError>) {
        // Frees the id before the client can see the answer.
        self.pending().remove(id);
        match result {
            Ok(data) => self.respond(id, op, &data),
            Err(error) => self.refuse(id, op.spec().name, &error),
        }
        self.answered.notify_all();
    }

    fn respond(&self, id: &str, op: Op, data: &Map<'_>) {
        self.tally.responded(op);
        self.outbox.push_frame(|out, style| encode::response(out, style, id, op.spec().name, data));
    }

    pub(super) fn refuse(&self, id: &str, op: &str, error: &ApiError) {
        self.tally.refused(Op::parse(op), error.code);
        self.outbox.push_frame(|out, style| encode::error(out, style, &error_frame(id, op, error)));
    }

    fn reject(&self, rejection: Rejection) {
        self.tally.refused(rejection.op.as_deref().and_then(Op::parse), rejection.code);
        self.outbox.push_frame(|out, style| {
            let frame = ErrorFrame {
                id: rejection.id.as_deref(),
                op: rejection.op.as_deref(),
                code: rejection.code,
                message: &rejection.message,
                retryable: rejection.code.retryable(),
                data: rejection.data.as_ref(),
            };
            encode::error(out, style, &frame);
        });
    }

    fn subscribe(&self, request: &Request<'_>) {
        let named = TopicList::read(&request.params);
        if named.explicitly(Topic::DialogRequested) {
            self.dialogs.store(true, Ordering::Release);
        }
        // Sends the response before the snapshots. Only this thread changes the subscriptions.
        let subscribed = self.topics.load(Ordering::Acquire) | named.mask;
        self.respond(&request.id, Op::Subscribe, &named.answer(subscribed));
        self.topics.store(subscribed, Ordering::Release);
        self.outbox.tell_coalesced(subscribed & Topic::Diagnostic.bit() != 0);
        let call = self.call(request);
        self.show_snapshots(&call.session, named.mask, Some(&call.cause()));
    }

    fn show_snapshots(&self, session: &SessionId, topics: u64, cause: Option<&Cause>) {
        for spec in TOPICS.iter().filter(|spec| topics & spec.topic.bit() != 0) {
            if let Some(event) = self.api.snapshot(self.id, session, spec.topic, cause.cloned()) {
                self.deliver(&event);
            }
        }
    }

    /// Shows a client that has caught up what it missed: the history of its session and the snapshots of a
    /// new subscription.
    fn show_anew(&self, missed: u64) {
        let body = Body::Diagnostic(Arc::new(Diagnostic::Behind { missed }));
        self.deliver(&Event { session: None, offset: 0, turn: None, entry: None, cause: None, body });
        self.api.catch_up(self.id);
        self.show_snapshots(&self.focused(), self.topics.load(Ordering::Acquire), None);
    }

    fn unsubscribe(&self, request: &Request<'_>) {
        let named = TopicList::read(&request.params);
        let answered = self.form_of_questions();
        if named.mask & Topic::DialogRequested.bit() != 0 {
            self.dialogs.store(false, Ordering::Release);
        }
        let subscribed = self.topics.fetch_and(!named.mask, Ordering::AcqRel) & !named.mask;
        self.outbox.tell_coalesced(subscribed & Topic::Diagnostic.bit() != 0);
        self.respond(&request.id, Op::Unsubscribe, &named.answer(subscribed));
        if answered.is_some() && answered != self.form_of_questions() {
            self.api.interactor_changed(self.id);
        }
    }

    /// The topic on which the client is asked, if it answers questions.
    fn form_of_questions(&self) -> Option<Topic> {
        self.is_interactor().then(|| match self.dialogs_only() {
            true => Topic::DialogRequested,
            false => Topic::InteractionRequested,
        })
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, &'static str>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `{:pong true :protocol-version s}`
static PONG: LazyLock<Map<'static>> =
    LazyLock::new(|| Map::new().with("pong", true).with("protocol-version", PROTOCOL_VERSION_TEXT));

/// `{:accepted true}`
static ACCEPTED: LazyLock<Map<'static>> = LazyLock::new(|| Map::new().with("accepted", true));

fn error_frame<'f>(id: &'f str, op: &'f str, error: &'f ApiError) -> ErrorFrame<'f> {
    ErrorFrame {
        id: Some(id),
        op: Some(op),
        code: error.code,
        message: &error.message,
        retryable: error.retryable,
        data: error.data.as_ref(),
    }
}

impl Client for Connection {
    fn wants(&self, topic: Topic, session: Option<&SessionId>) -> bool {
        // Who is asked learns how the question ended, subscribed to that or not.
        let told = topic == Topic::InteractionAnswered && self.is_interactor();
        (told || self.topics.load(Ordering::Acquire) & topic.bit() != 0)
            && (topic.anywhere() || session.is_none_or(|session| **self.focus.load() == *session))
    }

    fn deliver(&self, event: &Event) -> Pressure {
        let topic = event.body.topic();
        if !self.wants(topic, event.session.as_ref()) {
            return Pressure::Fine;
        }
        if let Body::ContextUpdated { sessions, .. } = &event.body {
            let body = Body::ContextUpdated { sessions: sessions.clone(), active: Some(self.focused()) };
            let event = Event { body, ..event.clone() };
            // A task with an older list may arrive later; its list must not follow the newer one.
            let tells_newer =
                || self.told_sessions.fetch_max(sessions.version(), Ordering::AcqRel) <= sessions.version();
            return self
                .outbox
                .push_event(&event, || self.wants(topic, event.session.as_ref()) && tells_newer());
        }
        self.outbox.push_event(event, || self.wants(topic, event.session.as_ref()))
    }

    fn fall_behind(&self) {
        self.outbox.fall_behind();
    }

    fn is_behind(&self) -> bool {
        self.outbox.is_behind()
    }

    fn focus(&self, session: SessionId) {
        self.focus.store(Arc::new(session));
    }

    fn focused(&self) -> SessionId {
        self.focus.load().as_ref().clone()
    }

    fn is_interactor(&self) -> bool {
        // A client that does not receive the questions cannot answer them.
        let asked = self.topics.load(Ordering::Acquire) & Topic::InteractionRequested.bit() != 0;
        (asked && self.interactor.load(Ordering::Acquire)) || self.dialogs.load(Ordering::Acquire)
    }

    fn dialogs_only(&self) -> bool {
        let asked = self.topics.load(Ordering::Acquire) & Topic::InteractionRequested.bit() != 0;
        !(asked && self.interactor.load(Ordering::Acquire))
    }

    fn close(&self) {
        (self.on_end)(End::Closed);
    }

    fn standing(&self) -> Standing {
        let pending = self.pending().len();
        let Depth { waiting, bytes, seq } = self.outbox.depth();
        Standing { pending, waiting, bytes, seq }
    }

    fn peer(&self) -> Peer {
        Peer { transport: self.kind.as_str(), since: self.since.clone(), agreed: self.agreed.load_full() }
    }
}

/// The topics in a request.
struct TopicList {
    mask: u64,
    all: bool,
    ignored: Vec<String>,
}

impl TopicList {
    /// No topics, or an empty list of them, means all.
    fn read(params: &Value<'_>) -> Self {
        let names = params.get("topics").and_then(Value::as_slice).unwrap_or_default();
        if names.is_empty() {
            let mask = TOPICS.iter().fold(0, |mask, spec| mask | spec.topic.bit());
            return Self { mask, all: true, ignored: Vec::new() };
        }
        let mut list = Self { mask: 0, all: false, ignored: Vec::new() };
        for name in names.iter().filter_map(Value::as_str) {
            match Topic::parse(name) {
                Some(topic) => list.mask |= topic.bit(),
                None => list.ignored.push(name.to_owned()),
            }
        }
        list
    }

    fn explicitly(&self, topic: Topic) -> bool {
        !self.all && self.mask & topic.bit() != 0
    }

    /// `{:subscribed [name*] :ignored [name*]?}`
    fn answer(&self, subscribed: u64) -> Map<'static> {
        let names = TOPICS.iter().filter(|spec| subscribed & spec.topic.bit() != 0);
        let mut data = Map::new();
        data.put("subscribed", Value::vector(names.map(|spec| Value::from(spec.name))));
        if !self.ignored.is_empty() {
            data.put("ignored", Value::vector(self.ignored.iter().map(|name| Value::from(name.clone()))));
        }
        data
    }
}

impl Connection {
    /// Ends a handshake. The agreement takes effect with the frame after the response.
    pub(super) fn agree(&self, agreed: Agreed, id: &str, data: &Map<'static>) {
        let has = |name| agreed.features.contains(&name);
        let (interactor, plists, credit) = (has("interactor"), has("plist-frames"), has("flow-credit"));
        // Stored before the response, so that a client with the response finds the agreement in the graph.
        self.agreed.store(Some(Arc::new(agreed)));
        self.tally.responded(Op::Handshake);
        self.interactor.store(interactor, Ordering::Release);
        self.ready.store(true, Ordering::Release);
        let style = if plists { Style::Plists } else { Style::Maps };
        let name = Op::Handshake.spec().name;
        self.outbox
            .push_frame_then_style(|out, written| encode::response(out, written, id, name, data), style);
        self.outbox.expect_credit(credit);
    }
}
