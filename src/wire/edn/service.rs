//! The EDN wire's side of a connection: serves its lines, and chooses the events that its client receives.
//!
//! Knows requests, the handshake, the subscriptions and the router. Serves the ops of the connection itself
//! (handshake, ping, subscribe, unsubscribe, ack). Knows neither what another op does nor how a session lives.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;

use crate::catalogue::{
    ErrorCode, OP_NAMES, OPS, Op, PROTOCOL_VERSION_TEXT, SessionAccess, TOPICS, Topic, each_op,
};
use crate::clock::Clock;
use crate::event::{Body, Cause, Diagnostic, Event};
use crate::limits::{MAX_LINE_BYTES, MAX_PENDING, UNFINISHED_BYTES};
use crate::message::{SessionId, count};
use crate::session::{
    Agreed, ApiError, Call, Client as _, Pressure, Requests, SessionApi, Since, Snapshot, Tally,
};
use crate::value::{Map, Value};
use crate::wire::connection::{self, ConnectionEnd, Wire};
use crate::wire::edn::decode::{self, Rejection, Request, invalid_frame};
use crate::wire::edn::encode::{self, ErrorFrame, Style};
use crate::wire::edn::events::{EdnEncoder, is_shown_anew};
use crate::wire::edn::handshake;
use crate::wire::edn::layout::topic;
use crate::wire::edn::params;
use crate::wire::edn::replaying::{Replays, Sent};
use crate::wire::edn::router::{self, Data, OpCall};
use crate::wire::edn::subscriptions::{Subscriptions, TopicList};
use crate::wire::lines::Line;
use crate::wire::transport::Transport;

/// A connection of the EDN wire.
pub type Connection = connection::Connection<Edn>;

/// The EDN wire of one connection.
pub struct Edn {
    /// Counts the answers by error code.
    tally: Arc<Tally>,
    /// Counts them by op.
    requests: Arc<Requests>,
    /// The result of the latest handshake.
    agreed: ArcSwapOption<Agreed>,
    ready: AtomicBool,
    subscriptions: Subscriptions,
    /// The version of the session list that the client received last.
    told_sessions: AtomicU64,
    replays: Replays,
    /// The entries that the client was sent.
    sent: Sent,
}

/// Serves a connection; see [`connection::start`].
///
/// # Errors
/// If a thread cannot be started.
pub fn start(
    id: u64,
    transport: Transport,
    api: Arc<dyn SessionApi>,
    clock: Arc<dyn Clock>,
    on_end: Box<dyn Fn(ConnectionEnd) + Send + Sync>,
) -> std::io::Result<Arc<Connection>> {
    let tally = api.tally();
    let encoder = EdnEncoder::new(id, clock.clone());
    let wire = Edn {
        requests: tally.wire(OP_NAMES),
        tally,
        agreed: ArcSwapOption::empty(),
        ready: AtomicBool::new(false),
        subscriptions: Subscriptions::default(),
        told_sessions: AtomicU64::new(0),
        replays: Replays::default(),
        sent: encoder.sent(),
    };
    connection::start(id, transport, wire, encoder, api, clock, on_end)
}

impl Wire for Edn {
    type Api = dyn SessionApi;
    type Encoder = EdnEncoder;

    fn line(&self, connection: &Connection, line: &Line<'_>) {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::Oversize(length, _) if *length <= MAX_LINE_BYTES => {
                let message = format!(
                    "All clients together have sent more than {UNFINISHED_BYTES} bytes of lines that have not ended; \
                     this one of {length} bytes was not taken. Send it again."
                );
                return self.reject(connection, invalid_frame("line-too-long", UNFINISHED_BYTES, &message));
            }
            Line::Oversize(length, _) => {
                let message = format!("The line is {length} bytes long; the maximum is {MAX_LINE_BYTES}.");
                return self.reject(connection, invalid_frame("line-too-long", MAX_LINE_BYTES, &message));
            }
            Line::Unterminated(bytes) => {
                let message = "The input ended in the middle of a line; a frame ends with a line feed.";
                return self.reject(connection, invalid_frame("unterminated-line", bytes.len(), message));
            }
        };
        let form = match decode::read(bytes, |id| connection.is_pending(id)) {
            Ok(form) => form,
            Err(rejection) => return self.reject(connection, rejection),
        };
        match decode::request(&form, |id| connection.is_pending(id)) {
            Ok(request) => self.admit(connection, request),
            Err(rejection) => self.reject(connection, rejection),
        }
    }

    /// A client that follows its session goes on after the last entry that was written to it.
    fn catches_up(&self, connection: &Connection) {
        let focused = connection.focused();
        if self.subscriptions.has(Topic::SessionEntry)
            && self.replays.has_begun()
            && let Some(offset) = self.sent.of(&focused)
        {
            self.replays.begin_after(focused, offset);
        }
    }

    /// What it misses of the entries, or the history of its session and the snapshots of a new subscription.
    fn show_anew(&self, connection: &Connection, missed: u64) {
        let body = Body::Diagnostic(Arc::new(Diagnostic::Behind { missed }));
        let event =
            Event { session: None, offset: 0, turn: None, entry: None, cause: None, piece: None, body };
        self.deliver(connection, &event);
        let topics = self.subscriptions.mask();
        if let Some((replay, session, offset)) = self.replays.take_pending() {
            if connection.api().follow_again(connection.id(), replay, &session, offset) {
                let sessions = topics & Topic::ContextUpdated.bit();
                return show_snapshots(connection, &session, sessions, None);
            }
            self.replays.end(replay);
        }
        connection.api().catch_up(connection.id());
        show_snapshots(connection, &connection.focused(), topics, None);
    }

    fn focus_moved(&self) {
        self.replays.end_all();
    }

    fn begin_replay(&self, session: &SessionId, offset: u64) -> u64 {
        self.sent.set(session, offset);
        self.replays.begin()
    }

    fn replay(&self, connection: &Connection, replay: u64, event: &Event) -> Option<Pressure> {
        let topic = topic(&event.body);
        let wanted = || self.replays.runs(replay) && self.wants(connection, topic, event.session.as_ref());
        let pressure = connection.outbox().push_event(event, wanted);
        self.replays.runs(replay).then_some(pressure)
    }

    fn end_replay(&self, replay: u64) {
        self.replays.end(replay);
    }

    fn deliver(&self, connection: &Connection, event: &Event) -> Pressure {
        let topic = topic(&event.body);
        let withheld = || self.replays.any_runs() && is_shown_anew(event) && !topic.anywhere();
        let asked = || self.wants(connection, topic, event.session.as_ref()) && !withheld();
        let wanted = || event.body.is_addressed() || asked();
        if !wanted() {
            return Pressure::Fine;
        }
        if let Body::ContextUpdated { sessions, .. } = &event.body {
            let body =
                Body::ContextUpdated { sessions: sessions.clone(), active: Some(connection.focused()) };
            // A task with an older list may arrive later; its list must not follow the newer one.
            let tells_newer =
                || self.told_sessions.fetch_max(sessions.version(), Ordering::AcqRel) <= sessions.version();
            let event = Event { body, ..event.clone() };
            return connection.outbox().push_event(&event, || wanted() && tells_newer());
        }
        connection.outbox().push_event(event, wanted)
    }

    fn watches(&self, connection: &Connection, session: Option<&SessionId>) -> bool {
        self.subscriptions.any(session.is_none_or(|session| connection.is_focused(session)))
    }

    fn lists_sessions(&self) -> bool {
        self.subscriptions.has(Topic::ContextUpdated)
    }

    fn is_interactor(&self) -> bool {
        self.subscriptions.is_interactor()
    }

    fn dialogs_only(&self) -> bool {
        self.subscriptions.dialogs_only()
    }

    fn topics(&self) -> Vec<&'static str> {
        self.subscriptions.names()
    }

    fn agreed(&self) -> Option<Arc<Agreed>> {
        self.agreed.load_full()
    }
}

impl Edn {
    /// Makes the checks that need the connection's state, then runs the op.
    fn admit(&self, connection: &Connection, request: Request<'_>) {
        let op = Op::parse(request.op);
        if !self.ready.load(Ordering::Acquire) && op != Some(Op::Handshake) {
            let error = ApiError::new(ErrorCode::NotReady, "Send a handshake first.");
            return self.refuse(connection, &request.id, request.op, &error);
        }
        let urgent = op.is_some_and(|op| op.spec().access == SessionAccess::Urgent);
        if !urgent && connection.is_crowded() {
            let message = format!("{MAX_PENDING} requests are pending; wait for an answer.");
            return self.refuse(
                connection,
                &request.id,
                request.op,
                &ApiError::new(ErrorCode::MaxPendingExceeded, message),
            );
        }
        let Some(op) = op else {
            let names = Value::vector(OPS.iter().map(|spec| Value::from(spec.name)));
            let error =
                ApiError::new(ErrorCode::OpNotSupported, "There is no such op.").with("supported-ops", names);
            return self.refuse(connection, &request.id, request.op, &error);
        };
        if let Err(invalid) = op.spec().check(&request.params) {
            let error = ApiError::new(ErrorCode::InvalidParams, format!("{invalid}."))
                .with("key", invalid.key)
                .with("expected", invalid.expected);
            return self.refuse(connection, &request.id, request.op, &error);
        }
        let _span = tracing::debug_span!("request", op = op.spec().name, id = &*request.id).entered();
        /// Makes the dispatch from the op table's rows: the wire serves the connection's ops at once, and they never
        /// become pending; the router has the handlers of all others.
        macro_rules! dispatch {
            (@ Connection $name:ident) => {
                self.$name(connection, &request)
            };
            (@ $access:ident $name:ident) => {
                if let Some(ask) = ask(connection, &request, op) {
                    router::$name(ask);
                }
            };
            ($($variant:ident $name:ident $access:ident $session:literal $params:tt $data:tt $errors:tt
                $doc:literal;)*) => {
                match op {
                    $(Op::$variant => dispatch!(@ $access $name),)*
                }
            };
        }
        each_op!(dispatch);
    }

    fn ping(&self, connection: &Connection, request: &Request<'_>) {
        self.respond(connection, &request.id, Op::Ping, &PONG);
    }

    fn ack(&self, connection: &Connection, request: &Request<'_>) {
        let seq = request.params.get("seq").and_then(Value::as_i64);
        connection.outbox().credit(seq.and_then(|seq| u64::try_from(seq).ok()).unwrap_or(0));
        self.respond(connection, &request.id, Op::Ack, &ACCEPTED);
    }

    fn respond(&self, connection: &Connection, id: &str, op: Op, data: &Map<'_>) {
        self.requests.responded(op as usize);
        connection.outbox().push_frame(|out, style| encode::response(out, style, id, op.spec().name, data));
    }

    fn refuse(&self, connection: &Connection, id: &str, op: &str, error: &ApiError) {
        self.count_refusal(Op::parse(op), error.code);
        connection.outbox().push_frame(|out, style| encode::error(out, style, &error_frame(id, op, error)));
    }

    fn count_refusal(&self, op: Option<Op>, code: ErrorCode) {
        if let Some(op) = op {
            self.requests.refused(op as usize);
        }
        self.tally.refused(code);
    }

    fn reject(&self, connection: &Connection, rejection: Rejection) {
        self.count_refusal(rejection.op.as_deref().and_then(Op::parse), rejection.code);
        connection.outbox().push_frame(|out, style| {
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

    /// The agreement takes effect with the frame after the response. A refused handshake changes nothing; a later one
    /// may agree, or agree again.
    fn handshake(&self, connection: &Connection, request: &Request<'_>) {
        let facts = || connection.api().facts(&connection.focused());
        let api = connection.api();
        let (control, outlives) = (api.control_capabilities(), api.outlives_clients());
        let (agreed, data) = match handshake::agree(&request.params, facts, &control, outlives) {
            Ok(agreed) => agreed,
            Err(error) => return self.refuse(connection, &request.id, request.op, &error),
        };
        let has = |name| agreed.features.contains(&name);
        let (interactor, plists, credit) = (has("interactor"), has("plist-frames"), has("flow-credit"));
        // Stored before the response, so that a client with the response finds the agreement in the graph.
        self.agreed.store(Some(Arc::new(agreed)));
        self.requests.responded(Op::Handshake as usize);
        self.subscriptions.agree(interactor);
        self.ready.store(true, Ordering::Release);
        let style = if plists { Style::Plists } else { Style::Maps };
        let name = Op::Handshake.spec().name;
        connection.outbox().push_frame_then_style(
            |out, written| encode::response(out, written, &request.id, name, &data),
            style,
        );
        connection.outbox().expect_credit(credit);
    }

    fn subscribe(&self, connection: &Connection, request: &Request<'_>) {
        let named = TopicList::read(&request.params);
        let since = match params::since(&request.params) {
            Ok(since) => since,
            Err(error) => return self.refuse(connection, &request.id, request.op, &error),
        };
        let call = call(connection, request);
        if let Some(since) = since {
            return self.follow(connection, request, call, named.with_replay(), since);
        }
        // Sends the response before the snapshots.
        let subscribed = self.subscriptions.with(&named);
        self.respond(connection, &request.id, Op::Subscribe, &self.subscriptions.answer(&named, subscribed));
        self.subscriptions.add(named.mask);
        connection.outbox().tell_coalesced(subscribed & Topic::Diagnostic.bit() != 0);
        show_snapshots(connection, &call.session, named.mask, Some(&call.cause()));
    }

    /// The response comes once the session is open, before the replay.
    fn follow(
        &self,
        connection: &Connection,
        request: &Request<'_>,
        call: Call,
        named: TopicList,
        since: Since,
    ) {
        let reply = connection.begin(request.id.clone(), move |connection, id, missing| {
            let wire = connection.wire();
            let missing = match missing {
                Ok(missing) => missing,
                Err(error) => return wire.refuse(connection, id, Op::Subscribe.spec().name, &error),
            };
            let subscribed = wire.subscriptions.with(&named);
            let answer = wire.subscriptions.answer(&named, subscribed).with("replaying", count(missing));
            wire.respond(connection, id, Op::Subscribe, &answer);
            wire.subscriptions.add(named.mask);
            connection.outbox().tell_coalesced(subscribed & Topic::Diagnostic.bit() != 0);
        });
        connection.api().follow(call, since, reply);
    }

    fn unsubscribe(&self, connection: &Connection, request: &Request<'_>) {
        let named = TopicList::read(&request.params);
        let asked_on = self.subscriptions.asked_on();
        let subscribed = self.subscriptions.remove(&named);
        connection.outbox().tell_coalesced(subscribed & Topic::Diagnostic.bit() != 0);
        self.respond(
            connection,
            &request.id,
            Op::Unsubscribe,
            &self.subscriptions.answer(&named, subscribed),
        );
        if asked_on != self.subscriptions.asked_on() {
            connection.api().interactor_changed(connection.id());
        }
    }

    /// Whether the client is subscribed, and the session is its focus or the topic is sent for every session. Who is
    /// asked questions learns how they end, subscribed to that or not.
    fn wants(&self, connection: &Connection, topic: Topic, session: Option<&SessionId>) -> bool {
        (self.subscriptions.has(topic) || topic == Topic::InteractionAnswered && self.is_interactor())
            && (topic.anywhere() || session.is_none_or(|session| connection.is_focused(session)))
    }
}

/// Makes a request pending. The answer goes to the client; so does the refusal of an unknown session.
fn ask<'r>(connection: &'r Connection, request: &'r Request<'_>, op: Op) -> Option<OpCall<'r>> {
    let reply = connection.begin(request.id.clone(), move |connection, id, result| match result {
        Ok(data) => Data::lay_out(&data, |data| connection.wire().respond(connection, id, op, data)),
        Err(error) => connection.wire().refuse(connection, id, op.spec().name, &error),
    });
    OpCall::new(op, connection.api(), call(connection, request), &request.params, reply)
}

fn call(connection: &Connection, request: &Request<'_>) -> Call {
    let session = match request.params.get("session-id").and_then(Value::as_str) {
        Some(named) => SessionId::from(named),
        None => connection.focused(),
    };
    Call { connection: connection.id(), request: request.id.clone(), session }
}

fn show_snapshots(connection: &Connection, session: &SessionId, topics: u64, cause: Option<&Cause>) {
    for spec in TOPICS.iter().filter(|spec| topics & spec.topic.bit() != 0) {
        let Some(what) = snapshot(spec.topic) else { continue };
        for event in connection.api().snapshot(connection.id(), session, what, cause.cloned()) {
            connection.deliver(&event);
        }
    }
}

/// What a new subscriber of a topic is shown.
const fn snapshot(topic: Topic) -> Option<Snapshot> {
    Some(match topic {
        Topic::SessionUpdated => Snapshot::State,
        Topic::FooterUpdated => Snapshot::Footer,
        Topic::ContextUpdated => Snapshot::Sessions,
        Topic::WidgetsUpdated => Snapshot::Widgets,
        Topic::WidgetSpecsUpdated => Snapshot::WidgetSpecs,
        Topic::StatusUpdated => Snapshot::Statuses,
        Topic::QueueUpdated => Snapshot::Queue,
        Topic::InteractionRequested => Snapshot::Questions,
        Topic::DialogRequested => Snapshot::Dialogs,
        _ => return None,
    })
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
