//! What waits to be sent on one connection, in order, and what becomes of it while it waits.
//!
//! Frames are encoded into `ready` as long as the client keeps up. When it does not, events wait
//! unencoded, so that those which may be merged or replaced can be: text deltas of one stream are
//! joined, snapshots are replaced by newer ones, all else waits its turn. `seq` is given when an event
//! is encoded, so that merging leaves no gap.
//!
//! A client may say how far it has shown what it was sent (`flow-credit`). Past a window of unshown
//! events, what may be merged or replaced waits here too, though the client reads; what must not be
//! dropped, and every answer, lets out what stands before it, so that nothing hangs on a client that
//! does not say.
//!
//! A client that wants to know is told how much was merged and replaced, once it has caught up.
//!
//! A client can fall so far behind that nobody can wait for it: those who make events must not, since
//! others read, or cannot. From then on events that it can be shown anew are left out, until it has taken
//! all that was kept for it; then the connection shows it what it missed. Answers are always kept, other
//! events as long as they are few enough.
//!
//! Has no threads and no lock: the outbox calls it under its own.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Depth;
use crate::catalogue::{Class, Topic};
use crate::clock::{Clock, rfc3339};
use crate::event::{Body, Diagnostic, Event};
use crate::frame::encode::{self, Delta, Stamp, Style};
use crate::frame::payload::payload;
use crate::limits::{
    COALESCED_PAUSE_MS, FLOW_WINDOW_EVENTS, OUTBOX_EVENTS, OUTBOX_MERGE_FROM, OUTBOX_READY_BYTES,
    OUTBOX_TEXT_BYTES,
};

/// Frames that are encoded, and behind them those that are not yet.
pub(super) struct Queue {
    connection: u64,
    clock: Arc<dyn Clock>,
    /// Encoded frames, to be written next.
    ready: Vec<u8>,
    /// What was written last, empty, for its allocation.
    spare: Vec<u8>,
    /// What waits because the client is slow.
    waiting: VecDeque<Waiting>,
    /// How many of `waiting` are events.
    waiting_events: usize,
    /// Bytes of those, as [`Body::weight`] counts them.
    event_bytes: usize,
    /// Bytes of frames in `waiting`.
    frame_bytes: usize,
    /// How many of `waiting` may be neither merged nor replaced.
    waiting_lossless: usize,
    seq: u64,
    /// The last event that the client has shown, where it agreed to say so.
    shown: Option<u64>,
    /// What was merged and replaced and not yet told, where the client wants to know.
    coalesced: Option<Coalesced>,
    /// How many events were left out since the client fell behind, where it did.
    behind: Option<u64>,
    /// The style of what is encoded next.
    style: Style,
    /// The style of what is pushed next: the same, unless a change of style waits.
    newest_style: Style,
    stamp: CachedStamp,
    /// No more will come.
    closing: bool,
}

enum Waiting {
    Frame(Vec<u8>),
    /// From here on frames are written in that style.
    Style(Style),
    Event(Event),
    /// A delta and the text that was joined to it.
    Delta(Event, String),
}

impl Waiting {
    /// Whether it may be neither merged nor replaced.
    fn is_lossless(&self) -> bool {
        match self {
            Self::Frame(_) | Self::Style(_) => true,
            Self::Event(event) => event.body.class() == Class::Lossless,
            Self::Delta(..) => false,
        }
    }
}

/// What became less on its way to a client that was slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Coalesced {
    /// Pieces of text that were joined to the one before.
    joined: u64,
    /// Snapshots that a newer one replaced.
    replaced: u64,
    /// When it was told last, in milliseconds.
    told: Option<i64>,
}

impl Queue {
    pub(super) fn new(connection: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            connection,
            clock,
            ready: Vec::new(),
            spare: Vec::new(),
            waiting: VecDeque::new(),
            waiting_events: 0,
            event_bytes: 0,
            frame_bytes: 0,
            waiting_lossless: 0,
            seq: 0,
            shown: None,
            coalesced: None,
            behind: None,
            style: Style::Maps,
            newest_style: Style::Maps,
            stamp: CachedStamp::default(),
            closing: false,
        }
    }

    /// Adds a whole frame: `encode` appends it, in the style of the connection.
    pub(super) fn push_frame(&mut self, encode: impl FnOnce(&mut Vec<u8>, Style)) {
        if self.waiting.is_empty() {
            let style = self.style;
            encode(&mut self.ready, style);
        } else {
            let mut frame = Vec::new();
            encode(&mut frame, self.newest_style);
            self.frame_bytes = self.frame_bytes.saturating_add(frame.len());
            self.waiting_lossless = self.waiting_lossless.saturating_add(1);
            self.waiting.push_back(Waiting::Frame(frame));
        }
    }

    /// Changes the style of all that is added from here on.
    pub(super) fn push_style(&mut self, style: Style) {
        self.newest_style = style;
        if self.waiting.is_empty() {
            self.style = style;
        } else {
            self.waiting_lossless = self.waiting_lossless.saturating_add(1);
            self.waiting.push_back(Waiting::Style(style));
        }
    }

    /// Adds an event, or counts it among those left out. Whether it waits.
    pub(super) fn push_event(&mut self, event: &Event) -> bool {
        if !self.takes(event) {
            self.behind = self.behind.map(|missed| missed.saturating_add(1));
            return false;
        }
        let lossless = event.body.class() == Class::Lossless;
        let at_once = self.waiting.is_empty() && self.ready.len() < OUTBOX_READY_BYTES;
        if at_once && (lossless || !self.lacks_credit()) {
            self.report();
            self.encode(event, None);
            return false;
        }
        self.enqueue(event);
        true
    }

    /// From here on the client says what it has shown, or does not.
    pub(super) fn expect_credit(&mut self, expected: bool) {
        self.shown = expected.then_some(self.seq);
    }

    /// Whether the client says what it has shown.
    pub(super) fn expects_credit(&self) -> bool {
        self.shown.is_some()
    }

    /// The client has shown the events up to `seq`. What was never sent, and what was told before, changes
    /// nothing.
    pub(super) fn credit(&mut self, seq: u64) {
        let sent = self.seq;
        if let Some(shown) = &mut self.shown {
            *shown = seq.min(sent).max(*shown);
        }
    }

    /// From here on the client is told what was merged and replaced, or is not.
    pub(super) fn tell_coalesced(&mut self, wanted: bool) {
        match (wanted, self.coalesced.is_some()) {
            (true, false) => self.coalesced = Some(Coalesced::default()),
            (false, true) => self.coalesced = None,
            _ => {}
        }
    }

    /// No more will come. Who says no more what it has shown is sent all the same.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.shown = None;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Drops all that is there.
    pub(super) fn clear(&mut self) {
        self.ready = Vec::new();
        self.waiting = VecDeque::new();
        self.waiting_events = 0;
        self.event_bytes = 0;
        self.frame_bytes = 0;
        self.waiting_lossless = 0;
        self.behind = None;
    }

    /// How it stands.
    pub(super) fn depth(&self) -> Depth {
        Depth { waiting: self.waiting_events, bytes: self.unwritten(), seq: self.seq }
    }

    /// Bytes that are encoded.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Bytes that wait to be written, encoded or not.
    pub(super) fn unwritten(&self) -> usize {
        self.ready.len().saturating_add(self.event_bytes).saturating_add(self.frame_bytes)
    }

    /// The encoded frames, to be written and given back.
    pub(super) fn take_ready(&mut self) -> Vec<u8> {
        let empty = std::mem::take(&mut self.spare);
        std::mem::replace(&mut self.ready, empty)
    }

    /// Puts what could not be written, `rest`, before what came meanwhile.
    pub(super) fn put_back(&mut self, mut rest: Vec<u8>) {
        rest.append(&mut self.ready);
        self.ready = rest;
    }

    /// Takes the buffer of what was written.
    pub(super) fn give_back(&mut self, mut written: Vec<u8>) {
        // A large frame's buffer is not kept for the life of an idle connection.
        if written.capacity() <= OUTBOX_READY_BYTES.saturating_mul(2) {
            written.clear();
            self.spare = written;
        }
    }

    /// Whether the client has shown so little of what it was sent that it is sent no more than it must.
    fn lacks_credit(&self) -> bool {
        self.shown.is_some_and(|shown| self.seq.saturating_sub(shown) >= FLOW_WINDOW_EVENTS)
    }

    /// Whether all that waits is to wait on until the client has shown more: nothing of it must go out,
    /// and it is not so much that those who make it would have to wait for the client's word. Who is
    /// behind has to take all that waits.
    fn holds_back(&self) -> bool {
        self.lacks_credit() && self.behind.is_none() && self.waiting_lossless == 0 && self.has_room()
    }

    /// Whether at least so many halves wait of what those who make events wait for.
    fn holds(&self, halves: usize) -> bool {
        self.waiting_events >= OUTBOX_EVENTS / 2 * halves
            || self.event_bytes >= OUTBOX_TEXT_BYTES / 2 * halves
    }

    /// Whether those who make events have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.behind.is_none() && self.holds(2)
    }

    /// Whether there is so much room again that waking the waiting is worth it.
    pub(super) fn has_room(&self) -> bool {
        !self.holds(1)
    }

    /// Whether those who make events did not wait, and so much waits that no more is taken.
    pub(super) fn is_overfull(&self) -> bool {
        self.behind.is_none() && self.holds(4)
    }

    /// Whether an event is taken: not one that a client which fell behind is shown anew, and of the others only
    /// so many.
    fn takes(&self, event: &Event) -> bool {
        self.behind.is_none() || (!is_shown_anew(event) && !self.holds(2))
    }

    /// Whether events are left out, since the client fell behind.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Leaves out the events that wait and can be shown anew, and those to come until it has caught up.
    pub(super) fn fall_behind(&mut self) {
        let waited = self.waiting.len();
        self.waiting.retain(|item| match item {
            Waiting::Frame(_) | Waiting::Style(_) => true,
            Waiting::Event(event) => !is_shown_anew(event),
            Waiting::Delta(..) => false,
        });
        self.behind = Some(u64::try_from(waited.saturating_sub(self.waiting.len())).unwrap_or(u64::MAX));
        self.waiting_lossless = self.waiting.iter().filter(|item| item.is_lossless()).count();
        let events = self.waiting.iter().filter_map(|item| match item {
            Waiting::Event(event) => Some(event.body.weight()),
            _ => None,
        });
        (self.waiting_events, self.event_bytes) =
            events.fold((0, 0), |(count, bytes), weight| (count + 1, weight.saturating_add(bytes)));
        self.forget_coalesced();
    }

    /// The number of events that were left out, where some were, once all that was kept is written.
    pub(super) fn take_missed(&mut self) -> Option<u64> {
        let taken = self.ready.is_empty() && self.waiting.is_empty() && !self.closing;
        let missed = if taken { self.behind.take() } else { None };
        if missed.is_some() {
            self.forget_coalesced();
        }
        missed.filter(|missed| *missed > 0)
    }

    /// What was joined and replaced for a client that fell behind is no news beside what was left out.
    fn forget_coalesced(&mut self) {
        if let Some(coalesced) = &mut self.coalesced {
            *coalesced = Coalesced { told: coalesced.told, ..Coalesced::default() };
        }
    }

    fn encode(&mut self, event: &Event, joined: Option<&str>) {
        self.seq = self.seq.saturating_add(1);
        let topic = event.body.topic();
        let ts = self.stamp.now(self.clock.as_ref());
        let id = event
            .cause
            .as_ref()
            .filter(|cause| cause.connection == self.connection)
            .map(|cause| &*cause.request);
        let stamp = Stamp { seq: self.seq, ts, id };
        match (&event.body, &event.session) {
            (Body::AssistantDelta(text) | Body::ThinkingDelta(text), Some(session)) => {
                let delta = Delta {
                    session: session.as_str(),
                    offset: event.offset,
                    turn: event.turn.as_ref().map(|turn| turn.as_str()),
                    text: joined.unwrap_or(text),
                };
                encode::delta(&mut self.ready, self.style, topic, stamp, delta);
            }
            (Body::ContextUpdated { sessions, active }, _) => {
                encode::context(&mut self.ready, self.style, stamp, sessions.as_ref(), active.as_ref());
            }
            _ => {
                let mut payload = payload(event);
                if let Some(text) = joined {
                    payload.put("arguments", text);
                }
                encode::event(&mut self.ready, self.style, topic, stamp, &payload);
            }
        }
    }

    fn enqueue(&mut self, event: &Event) {
        match event.body.class() {
            Class::Coalescible => {
                let text = event.body.text().map_or("", |text| text);
                self.event_bytes = self.event_bytes.saturating_add(text.len());
                let merge = self.waiting.len() >= OUTBOX_MERGE_FROM || self.lacks_credit();
                match self.waiting.back_mut() {
                    Some(Waiting::Delta(last, joined)) if merge && same_stream(last, event) => {
                        joined.push_str(text);
                        last.offset = event.offset;
                        if let Some(coalesced) = &mut self.coalesced {
                            coalesced.joined = coalesced.joined.saturating_add(1);
                        }
                    }
                    _ => {
                        self.waiting_events = self.waiting_events.saturating_add(1);
                        self.waiting.push_back(Waiting::Delta(event.clone(), text.to_owned()));
                    }
                }
            }
            Class::Latest => {
                let older = self.waiting.iter().rposition(|item| match item {
                    Waiting::Event(older) => same_stream(older, event),
                    _ => false,
                });
                if let Some(Waiting::Event(older)) = older.and_then(|place| self.waiting.remove(place)) {
                    self.waiting_events = self.waiting_events.saturating_sub(1);
                    self.event_bytes = self.event_bytes.saturating_sub(older.body.weight());
                    if let Some(coalesced) = &mut self.coalesced {
                        coalesced.replaced = coalesced.replaced.saturating_add(1);
                    }
                }
                self.push_waiting(event);
            }
            Class::Lossless => {
                self.waiting_lossless = self.waiting_lossless.saturating_add(1);
                self.push_waiting(event);
            }
        }
    }

    fn push_waiting(&mut self, event: &Event) {
        self.waiting_events = self.waiting_events.saturating_add(1);
        self.event_bytes = self.event_bytes.saturating_add(event.body.weight());
        self.waiting.push_back(Waiting::Event(event.clone()));
    }

    /// Encodes what waits, as far as `ready` takes it.
    pub(super) fn refill(&mut self) {
        while self.ready.len() < OUTBOX_READY_BYTES && !self.holds_back() {
            let next = self.waiting.pop_front();
            if next.as_ref().is_some_and(Waiting::is_lossless) {
                self.waiting_lossless = self.waiting_lossless.saturating_sub(1);
            }
            match next {
                None => {
                    self.waiting_events = 0;
                    self.event_bytes = 0;
                    self.frame_bytes = 0;
                    self.waiting.shrink_to(OUTBOX_MERGE_FROM);
                    return self.report();
                }
                Some(Waiting::Style(style)) => self.style = style,
                Some(Waiting::Frame(frame)) => {
                    self.frame_bytes = self.frame_bytes.saturating_sub(frame.len());
                    self.ready.extend_from_slice(&frame);
                }
                Some(Waiting::Event(event)) => {
                    self.waiting_events = self.waiting_events.saturating_sub(1);
                    self.event_bytes = self.event_bytes.saturating_sub(event.body.weight());
                    self.encode(&event, None);
                }
                Some(Waiting::Delta(event, text)) => {
                    self.waiting_events = self.waiting_events.saturating_sub(1);
                    self.event_bytes = self.event_bytes.saturating_sub(text.len());
                    self.encode(&event, Some(&text));
                }
            }
        }
    }

    /// Tells a client that has caught up what became less meanwhile; not so often that it is slow for that.
    fn report(&mut self) {
        let Some(coalesced) = self.coalesced else { return };
        let Coalesced { joined, replaced, told } = coalesced;
        if (joined == 0 && replaced == 0) || self.behind.is_some() {
            return;
        }
        let now = crate::clock::epoch_millis(self.clock.now());
        // A clock that was set back must not silence it.
        let just_told = told.is_some_and(|told| (0..COALESCED_PAUSE_MS).contains(&now.saturating_sub(told)));
        if just_told && !self.closing {
            return;
        }
        self.coalesced = Some(Coalesced { told: Some(now), ..Coalesced::default() });
        let body = Body::Diagnostic(Arc::new(Diagnostic::Coalesced { joined, replaced }));
        let event = Event { session: None, offset: 0, turn: None, entry: None, cause: None, body };
        self.encode(&event, None);
    }
}

/// Whether a client that was left behind is shown what the event tells: its topic's word, but for an answer that
/// could not be saved.
fn is_shown_anew(event: &Event) -> bool {
    let saved = event.entry.is_some() || event.body.topic() != Topic::AssistantMessage;
    saved && event.body.topic().is_shown_anew()
}

/// Whether a newer event continues or replaces an older one.
fn same_stream(older: &Event, newer: &Event) -> bool {
    let tool = |event: &Event| match &event.body {
        Body::ToolDelta { tool_id, .. } => Some(tool_id.clone()),
        Body::ToolUpdate(output) => Some(output.call.id.clone()),
        // Each job has a stream of its own.
        Body::JobUpdated(job) => Some(job.id.clone()),
        _ => None,
    };
    // Text belongs to a turn and to the request that began it; a snapshot replaces any older one.
    let same_origin =
        newer.body.class() == Class::Latest || (older.turn == newer.turn && older.cause == newer.cause);
    older.body.topic() == newer.body.topic()
        && older.session == newer.session
        && same_origin
        && tool(older) == tool(newer)
}

/// The time of the last event as text; events of one millisecond share it.
#[derive(Default)]
struct CachedStamp {
    millis: Option<i64>,
    text: Arc<str>,
}

impl CachedStamp {
    fn now(&mut self, clock: &dyn Clock) -> &str {
        let now = clock.now();
        let millis = crate::clock::epoch_millis(now);
        if self.millis != Some(millis) {
            self.millis = Some(millis);
            self.text = rfc3339(now);
        }
        &self.text
    }
}
