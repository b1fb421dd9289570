//! The waiting frames of one connection, in order, and their merging and replacing.
//!
//! While the client keeps up, frames are encoded into `ready`. Otherwise events wait unencoded, so that the
//! queue can merge the text deltas of one stream and replace snapshots by newer ones. All other frames wait
//! in order. An event gets its `seq` when it is encoded, so that merging leaves no gap.
//!
//! With `flow-credit` the client reports what it has shown. Beyond a window of unshown events, mergeable and
//! replaceable events wait here even if the client reads. A lossless event or an answer releases everything
//! before it, so that a client that never reports blocks nothing.
//!
//! Once a client has caught up, the queue reports to it (if the client wants that) how much was merged and
//! replaced.
//!
//! A client can fall so far behind that producers must not wait for it, because others read, or cannot wait.
//! From then on the queue skips the events that the client can be shown anew, until the client has taken
//! everything that was kept. Then the connection shows it what it missed. The queue keeps all answers, and
//! other events up to a limit.
//!
//! Has no threads and no lock: the outbox calls it under its own.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::clock::Clock;
use crate::delivery::Class;
use crate::event::{Body, Diagnostic, Event};
use crate::limits::{
    COALESCED_PAUSE_MS, FLOW_WINDOW_EVENTS, OUTBOX_EVENTS, OUTBOX_MERGE_FROM, OUTBOX_READY_BYTES,
    OUTBOX_TEXT_BYTES,
};
use crate::wire::encoder::Encoder;

/// The state of the outbox, for the graph and the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Unencoded events that wait.
    pub waiting: usize,
    /// Waiting bytes, encoded or not.
    pub bytes: usize,
    /// The number of the last encoded event.
    pub seq: u64,
}

/// Encoded frames, followed by unencoded ones.
pub(super) struct OutboxQueue<E: Encoder> {
    encoder: E,
    clock: Arc<dyn Clock>,
    /// Encoded frames, to be written next.
    ready: Vec<u8>,
    /// The places in `ready` at which a write ends.
    breaks: VecDeque<usize>,
    /// Whether the frames that are being written end at such a place.
    writes_to_break: bool,
    /// The last written buffer, empty, kept for its allocation.
    spare: Vec<u8>,
    /// Frames that wait because the client is slow.
    waiting: VecDeque<QueuedFrame<E::Style>>,
    /// How many of `waiting` are events.
    waiting_events: usize,
    /// Bytes of those events, as [`Body::weight`] counts them.
    event_bytes: usize,
    /// Bytes of frames in `waiting`.
    frame_bytes: usize,
    /// How many of `waiting` can be neither merged nor replaced.
    waiting_lossless: usize,
    seq: u64,
    /// The last event that the client has shown, if it agreed to report that.
    shown: Option<u64>,
    /// Merges and replacements that were not reported yet, if the client wants to know.
    coalesced: Option<Coalesced>,
    /// The number of skipped events, if the client has fallen behind.
    behind: Option<u64>,
    /// The style of the next encoded frame.
    style: E::Style,
    /// The style of the next pushed frame. It differs only while a change of style waits.
    newest_style: E::Style,
    /// No frame will follow.
    closing: bool,
}

enum QueuedFrame<S> {
    Frame(Vec<u8>),
    /// Later frames use this style.
    Style(S),
    /// A write ends here.
    Break,
    Event(Event),
    /// A delta and the text that was merged into it.
    Delta(Event, String),
}

impl<S> QueuedFrame<S> {
    /// Whether it can be neither merged nor replaced.
    fn is_lossless(&self) -> bool {
        match self {
            Self::Frame(_) | Self::Style(_) | Self::Break => true,
            Self::Event(event) => event.body.class() == Class::Lossless,
            Self::Delta(..) => false,
        }
    }
}

/// How much a slow client's queue has merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Coalesced {
    /// Deltas that were merged into the one before.
    joined: u64,
    /// Snapshots that a newer one replaced.
    replaced: u64,
    /// When the last report was sent, in milliseconds.
    reported: Option<i64>,
}

impl<E: Encoder> OutboxQueue<E> {
    pub(super) fn new(encoder: E, clock: Arc<dyn Clock>) -> Self {
        Self {
            encoder,
            clock,
            ready: Vec::new(),
            breaks: VecDeque::new(),
            writes_to_break: false,
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
            style: E::Style::default(),
            newest_style: E::Style::default(),
            closing: false,
        }
    }

    /// Adds a whole frame; `encode` appends it in the connection's style.
    pub(super) fn push_frame(&mut self, encode: impl FnOnce(&mut Vec<u8>, E::Style)) {
        if self.waiting.is_empty() {
            let style = self.style;
            encode(&mut self.ready, style);
        } else {
            let mut frame = Vec::new();
            encode(&mut frame, self.newest_style);
            self.frame_bytes = self.frame_bytes.saturating_add(frame.len());
            self.waiting_lossless = self.waiting_lossless.saturating_add(1);
            self.waiting.push_back(QueuedFrame::Frame(frame));
        }
    }

    /// Changes the style of all later frames.
    pub(super) fn push_style(&mut self, style: E::Style) {
        self.newest_style = style;
        if self.waiting.is_empty() {
            self.style = style;
        } else {
            self.waiting_lossless = self.waiting_lossless.saturating_add(1);
            self.waiting.push_back(QueuedFrame::Style(style));
        }
    }

    /// Ends a write after the newest frame.
    pub(super) fn push_break(&mut self) {
        if self.waiting.is_empty() {
            self.breaks.push_back(self.ready.len());
        } else {
            self.waiting_lossless = self.waiting_lossless.saturating_add(1);
            self.waiting.push_back(QueuedFrame::Break);
        }
    }

    /// Adds an event, or counts it as skipped. Returns whether it waits.
    pub(super) fn push_event(&mut self, event: &Event) -> bool {
        if !self.takes(event) {
            self.behind = self.behind.map(|missed| missed.saturating_add(1));
            if !self.encoder.is_shown_anew(event) {
                self.encoder.lose(event);
            }
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

    /// Starts or stops counting on the client's reports of what it has shown.
    pub(super) fn expect_credit(&mut self, expected: bool) {
        self.shown = expected.then_some(self.seq);
    }

    /// Whether the client reports what it has shown.
    pub(super) fn expects_credit(&self) -> bool {
        self.shown.is_some()
    }

    /// The client has shown the events up to `seq`. Numbers that were never sent or already reported have no
    /// effect.
    pub(super) fn credit(&mut self, seq: u64) {
        let sent = self.seq;
        if let Some(shown) = &mut self.shown {
            *shown = seq.min(sent).max(*shown);
        }
    }

    /// Starts or stops reporting merged and replaced events.
    pub(super) fn tell_coalesced(&mut self, wanted: bool) {
        match (wanted, self.coalesced.is_some()) {
            (true, false) => self.coalesced = Some(Coalesced::default()),
            (false, true) => self.coalesced = None,
            _ => {}
        }
    }

    /// Refuses further frames. From now on nothing waits for credit.
    pub(super) fn close(&mut self) {
        self.closing = true;
        self.shown = None;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Drops all frames.
    pub(super) fn clear(&mut self) {
        self.ready = Vec::new();
        self.breaks = VecDeque::new();
        self.waiting = VecDeque::new();
        self.waiting_events = 0;
        self.event_bytes = 0;
        self.frame_bytes = 0;
        self.waiting_lossless = 0;
        self.behind = None;
    }

    /// The state of the queue.
    pub(super) fn depth(&self) -> Depth {
        Depth { waiting: self.waiting_events, bytes: self.unwritten(), seq: self.seq }
    }

    /// Bytes that are encoded.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Bytes to write, encoded or not.
    pub(super) fn unwritten(&self) -> usize {
        self.ready.len().saturating_add(self.event_bytes).saturating_add(self.frame_bytes)
    }

    /// Takes the encoded frames to be written. Return the buffer afterwards.
    pub(super) fn take_ready(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.spare);
        let end = self.breaks.pop_front();
        self.writes_to_break = end.is_some();
        if let Some(end) = end {
            rest.extend(self.ready.drain(end.min(self.ready.len())..));
            self.breaks.iter_mut().for_each(|later| *later = later.saturating_sub(end));
        }
        std::mem::replace(&mut self.ready, rest)
    }

    /// Puts the unwritten `rest` before the frames that arrived meanwhile.
    pub(super) fn put_back(&mut self, mut rest: Vec<u8>) {
        self.breaks.iter_mut().for_each(|later| *later = later.saturating_add(rest.len()));
        if self.writes_to_break {
            self.breaks.push_front(rest.len());
        }
        rest.append(&mut self.ready);
        self.ready = rest;
    }

    /// Takes back the buffer of written frames.
    pub(super) fn keep_buffer(&mut self, mut written: Vec<u8>) {
        // An idle connection does not keep the buffer of a large frame.
        if written.capacity() <= OUTBOX_READY_BYTES.saturating_mul(2) {
            written.clear();
            self.spare = written;
        }
    }

    /// Whether the client has shown so little that it should receive only what must not wait.
    fn lacks_credit(&self) -> bool {
        self.shown.is_some_and(|shown| self.seq.saturating_sub(shown) >= FLOW_WINDOW_EVENTS)
    }

    /// Whether all waiting events should wait for credit: none of them is urgent, and they are too few to
    /// make producers wait for the client's report. A client that has fallen behind must take everything that
    /// waits.
    fn holds_back(&self) -> bool {
        self.lacks_credit() && self.behind.is_none() && self.waiting_lossless == 0 && self.has_room()
    }

    /// Whether the waiting events reach `halves` halves of the limit at which producers wait.
    fn holds(&self, halves: usize) -> bool {
        self.waiting_events >= OUTBOX_EVENTS / 2 * halves
            || self.event_bytes >= OUTBOX_TEXT_BYTES / 2 * halves
    }

    /// Whether producers must wait.
    pub(super) fn is_full(&self) -> bool {
        self.behind.is_none() && self.holds(2)
    }

    /// Whether there is enough room again to wake waiting producers.
    pub(super) fn has_room(&self) -> bool {
        !self.holds(1)
    }

    /// Whether so much waits, because producers did not, that the queue refuses more.
    pub(super) fn is_overfull(&self) -> bool {
        self.behind.is_none() && self.holds(4)
    }

    /// Whether the queue accepts an event. For a client that has fallen behind, it refuses events that can be
    /// shown anew and limits the others.
    fn takes(&self, event: &Event) -> bool {
        let halves = if self.encoder.is_awaited(event) { 4 } else { 2 };
        self.behind.is_none() || (!self.encoder.is_shown_anew(event) && !self.holds(halves))
    }

    /// Whether droppable events are skipped because the client fell behind.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// Drops the waiting events that can be shown anew, and skips later ones until the client has caught up.
    pub(super) fn fall_behind(&mut self) {
        let waited = self.waiting.len();
        let encoder = &self.encoder;
        self.waiting.retain(|item| match item {
            QueuedFrame::Frame(_) | QueuedFrame::Style(_) | QueuedFrame::Break => true,
            QueuedFrame::Event(event) => !encoder.is_shown_anew(event),
            QueuedFrame::Delta(..) => false,
        });
        self.behind = Some(u64::try_from(waited.saturating_sub(self.waiting.len())).unwrap_or(u64::MAX));
        self.waiting_lossless = self.waiting.iter().filter(|item| item.is_lossless()).count();
        let events = self.waiting.iter().filter_map(|item| match item {
            QueuedFrame::Event(event) => Some(event.body.weight()),
            _ => None,
        });
        (self.waiting_events, self.event_bytes) =
            events.fold((0, 0), |(count, bytes), weight| (count + 1, weight.saturating_add(bytes)));
        self.forget_coalesced();
    }

    /// The number of skipped events, if there are any and all kept frames are written.
    pub(super) fn take_missed(&mut self) -> Option<u64> {
        let taken = self.ready.is_empty() && self.waiting.is_empty() && !self.closing;
        let missed = if taken { self.behind.take() } else { None };
        if missed.is_some() {
            self.forget_coalesced();
        }
        missed.filter(|missed| *missed > 0)
    }

    /// Forgets merges and replacements: next to skipped events they are not worth a report.
    fn forget_coalesced(&mut self) {
        if let Some(coalesced) = &mut self.coalesced {
            *coalesced = Coalesced { reported: coalesced.reported, ..Coalesced::default() };
        }
    }

    fn encode(&mut self, event: &Event, joined: Option<&str>) {
        self.seq = self.encoder.event(&mut self.ready, self.style, self.seq, event, joined);
    }

    fn enqueue(&mut self, event: &Event) {
        match event.body.class() {
            Class::Coalescible => {
                let text = event.body.text().map_or("", |text| text);
                self.event_bytes = self.event_bytes.saturating_add(text.len());
                let merge = self.waiting.len() >= OUTBOX_MERGE_FROM || self.lacks_credit();
                match self.waiting.back_mut() {
                    Some(QueuedFrame::Delta(last, joined)) if merge && self.encoder.joins(last, event) => {
                        joined.push_str(text);
                        last.offset = event.offset;
                        if let Some(coalesced) = &mut self.coalesced {
                            coalesced.joined = coalesced.joined.saturating_add(1);
                        }
                    }
                    _ => {
                        self.waiting_events = self.waiting_events.saturating_add(1);
                        self.waiting.push_back(QueuedFrame::Delta(event.clone(), text.to_owned()));
                    }
                }
            }
            Class::Latest => {
                let older = self.waiting.iter().rposition(|item| match item {
                    QueuedFrame::Event(older) => self.encoder.joins(older, event),
                    _ => false,
                });
                if let Some(QueuedFrame::Event(older)) = older.and_then(|place| self.waiting.remove(place)) {
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
        self.waiting.push_back(QueuedFrame::Event(event.clone()));
    }

    /// Encodes waiting frames while `ready` has room.
    pub(super) fn refill(&mut self) {
        while self.ready.len() < OUTBOX_READY_BYTES && !self.holds_back() {
            let next = self.waiting.pop_front();
            if next.as_ref().is_some_and(QueuedFrame::is_lossless) {
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
                Some(QueuedFrame::Style(style)) => self.style = style,
                Some(QueuedFrame::Break) => self.breaks.push_back(self.ready.len()),
                Some(QueuedFrame::Frame(frame)) => {
                    self.frame_bytes = self.frame_bytes.saturating_sub(frame.len());
                    self.ready.extend_from_slice(&frame);
                }
                Some(QueuedFrame::Event(event)) => {
                    self.waiting_events = self.waiting_events.saturating_sub(1);
                    self.event_bytes = self.event_bytes.saturating_sub(event.body.weight());
                    self.encode(&event, None);
                }
                Some(QueuedFrame::Delta(event, text)) => {
                    self.waiting_events = self.waiting_events.saturating_sub(1);
                    self.event_bytes = self.event_bytes.saturating_sub(text.len());
                    self.encode(&event, Some(&text));
                }
            }
        }
    }

    /// Reports merges and replacements to a client that has caught up. Rare enough not to slow the client
    /// down.
    fn report(&mut self) {
        let Some(coalesced) = self.coalesced else { return };
        let Coalesced { joined, replaced, reported } = coalesced;
        if (joined == 0 && replaced == 0) || self.behind.is_some() {
            return;
        }
        let now = crate::clock::epoch_millis(self.clock.now());
        // Setting the clock back must not silence the reports.
        let just_told =
            reported.is_some_and(|reported| (0..COALESCED_PAUSE_MS).contains(&now.saturating_sub(reported)));
        if just_told && !self.closing {
            return;
        }
        self.coalesced = Some(Coalesced { reported: Some(now), ..Coalesced::default() });
        let body = Body::Diagnostic(Arc::new(Diagnostic::Coalesced { joined, replaced }));
        let event =
            Event { session: None, offset: 0, turn: None, entry: None, cause: None, piece: None, body };
        self.encode(&event, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalogue::Topic;
    use crate::session::Pressure;
    use crate::value::{Map, Owned, Value};
    use crate::wire::edn::encode;
    use crate::wire::outbox::test_outbox::{TestOutbox, check_seq, error, stage, state, text_of, topic};

    #[test]
    fn frame_apart_is_the_end_of_a_write() {
        let rig = TestOutbox::new();
        rig.gate.set(true);
        let frame = |queue: &mut OutboxQueue<_>, text: &'static [u8]| {
            queue.push_frame(|out, _| out.extend_from_slice(text));
        };
        let mut inner = rig.outbox.lock();
        let queue = &mut inner.queue;
        frame(queue, b"one ");
        frame(queue, b"two");
        queue.push_break();
        frame(queue, b"three");
        queue.push_break();
        frame(queue, b"four");
        let mut first = queue.take_ready();
        assert_eq!(first, b"one two");
        // The rest of a write that the stream did not take whole goes before what follows.
        first.drain(..4);
        queue.put_back(first);
        assert_eq!(queue.take_ready(), b"two");
        assert_eq!(queue.take_ready(), b"three");
        assert_eq!(queue.take_ready(), b"four");
        assert_eq!(queue.take_ready(), b"");
        drop(inner);
        rig.frames();
    }

    #[test]
    fn stopped_client_loses_no_text_in_bounded_memory() {
        let rig = TestOutbox::new();
        rig.gate.set(true);
        let mut whole = String::new();
        for n in 0..200_000 {
            let text = format!("{n} ");
            assert!(matches!(rig.delta(&text), Pressure::Fine), "at {n}: {:?}", rig.outbox.depth());
            whole.push_str(&text);
        }
        let depth = rig.outbox.depth();
        assert!(depth.waiting <= OUTBOX_MERGE_FROM + 1, "{depth:?}");
        assert!(depth.bytes <= OUTBOX_READY_BYTES * 2 + whole.len(), "{depth:?}");
        let frames = rig.frames();
        check_seq(&frames);
        let text =
            |frame: &Owned| frame.get("data").unwrap().get("text").unwrap().as_str().unwrap().to_owned();
        assert_eq!(frames.iter().map(text).collect::<String>(), whole);
    }

    #[test]
    fn newer_snapshot_replaces_waiting_one_in_order() {
        let rig = TestOutbox::new();
        rig.gate.set(true);
        // Fills the encoded part, so that later frames wait.
        let padding = "x".repeat(OUTBOX_READY_BYTES);
        rig.delta(&padding);
        rig.delta(&padding);
        for n in 0..10 {
            rig.event(state(n));
        }
        rig.event(error("between"));
        rig.event(state(10));
        let frames = rig.frames();
        check_seq(&frames);
        let topics: Vec<_> =
            frames.iter().map(|frame| frame.get("event").unwrap().as_str().unwrap()).collect();
        let delta = Topic::AssistantDelta.as_str();
        let (tail, head) = (&topics[topics.len() - 2..], &topics[..topics.len() - 2]);
        assert_eq!(tail, ["error", "session/updated"], "{topics:?}");
        assert!(head.iter().all(|topic| *topic == delta || *topic == "session/updated"), "{topics:?}");
        let last = frames.last().unwrap();
        assert_eq!(last.get("data").unwrap().get("pending-message-count"), Some(&Value::int(10)));
    }

    #[test]
    fn client_that_caught_up_gets_report_of_merges() {
        for wanted in [true, false] {
            let rig = TestOutbox::new();
            rig.outbox.tell_coalesced(wanted);
            rig.gate.set(true);
            let padding = "x".repeat(OUTBOX_READY_BYTES);
            rig.delta(&padding);
            rig.delta(&padding);
            let mut merged = 0;
            for n in 0..OUTBOX_MERGE_FROM * 3 {
                let before = rig.outbox.depth().waiting;
                rig.delta("y");
                merged += i64::from(n > 0 && rig.outbox.depth().waiting == before);
            }
            rig.event(error("between"));
            for n in 0..5 {
                rig.event(state(n));
            }
            assert!(merged > 0);
            let frames = rig.frames();
            check_seq(&frames);
            let (last, before) = frames.split_last().unwrap();
            assert!(before.iter().all(|frame| topic(frame) != "diagnostic"), "told once, and at the end");
            if !wanted {
                assert_eq!(topic(last), "session/updated");
                continue;
            }
            let data = last.get("data").unwrap();
            assert_eq!(data.get("code").and_then(Value::as_str), Some("delivery/coalesced"), "{last}");
            let told = |key| data.get("detail").unwrap().get(key).and_then(Value::as_i64);
            assert_eq!((told("joined"), told("replaced")), (Some(merged), Some(4)), "{last}");
            assert_eq!(data.get("session-id"), None);
        }
    }

    #[test]
    fn slow_client_keeps_unrecoverable_events_up_to_limit() {
        let rig = TestOutbox::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        rig.event(error("before"));
        while !matches!(rig.event(stage()), Pressure::Full(_)) {}
        rig.outbox.fall_behind();
        for n in 0..3 * OUTBOX_EVENTS {
            assert!(matches!(rig.event(error(&format!("{n}"))), Pressure::Fine), "nobody waits for it");
            // Nobody waits for it: nothing has to be repeated.
            rig.outbox.fall_behind();
        }
        assert_eq!(rig.outbox.depth().waiting, OUTBOX_EVENTS);
        let frames = rig.frames();
        check_seq(&frames);
        let told = |frame: &&Owned| topic(frame) == "error";
        let text = |frame: &Owned| {
            frame.get("data").unwrap().get("error-message").and_then(Value::as_str).unwrap().to_owned()
        };
        let told: Vec<_> = frames.iter().filter(told).map(text).collect();
        let kept = (0..OUTBOX_EVENTS).map(|n| n.to_string());
        let kept: Vec<_> = std::iter::once("before".to_owned()).chain(kept).take(told.len()).collect();
        assert_eq!(told, kept);
        assert!(told.len() >= OUTBOX_EVENTS, "{}", told.len());
    }

    #[test]
    fn text_beyond_window_merges_until_client_shows_more() {
        let rig = TestOutbox::new();
        rig.outbox.expect_credit(true);
        let window = usize::try_from(FLOW_WINDOW_EVENTS).unwrap();
        let mut whole = String::new();
        for n in 0..window * 10 {
            let text = format!("{n} ");
            assert!(matches!(rig.delta(&text), Pressure::Fine));
            whole.push_str(&text);
        }
        // Events beyond the window are merged into one, which waits although the client reads.
        assert_eq!(rig.outbox.depth().seq, FLOW_WINDOW_EVENTS);
        assert_eq!(rig.outbox.depth().waiting, 1);
        // A number that was never sent counts as the last sent one.
        rig.outbox.credit(u64::MAX);
        assert_eq!(rig.outbox.depth().waiting, 0);
        assert_eq!(rig.outbox.depth().seq, FLOW_WINDOW_EVENTS + 1);
        // The next event waits for credit, not for the writer, which may be slow.
        rig.settle();
        // An older report changes nothing.
        rig.outbox.credit(1);
        for _ in 1..window {
            whole.push('x');
            rig.delta("x");
        }
        // All events, except the one that went out after the window.
        assert_eq!(rig.outbox.depth().waiting, 0);
        rig.delta("y");
        whole.push('y');
        rig.delta("z");
        whole.push('z');
        assert_eq!(rig.outbox.depth().waiting, 1);
        let frames = rig.frames();
        check_seq(&frames);
        assert_eq!(text_of(&frames), whole);
        assert_eq!(frames.len(), 2 * window + 1);
    }

    #[test]
    fn lossless_event_releases_events_before_it() {
        let rig = TestOutbox::new();
        rig.outbox.expect_credit(true);
        for _ in 0..FLOW_WINDOW_EVENTS + 100 {
            rig.delta("a");
        }
        rig.event(state(1));
        rig.event(state(2));
        assert_eq!(rig.outbox.depth().waiting, 2);
        // What comes during a write is let out after it.
        let none_waits = || {
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            while rig.outbox.depth().waiting > 0 {
                assert!(std::time::Instant::now() < deadline, "{:?}", rig.outbox.depth());
                std::thread::yield_now();
            }
        };
        // The client reports nothing, and yet receives the message and the answer.
        rig.event(error("kept"));
        none_waits();
        rig.delta("b");
        assert_eq!(rig.outbox.depth().waiting, 1);
        rig.outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
        none_waits();
        let frames = rig.frames();
        let tail: Vec<_> = frames[usize::try_from(FLOW_WINDOW_EVENTS).unwrap()..]
            .iter()
            .map(|frame| frame.get("event").or(frame.get("id")).unwrap().as_str().unwrap())
            .collect();
        assert_eq!(tail, ["assistant/delta", "session/updated", "error", "assistant/delta", "r"]);
        let delta = &frames[usize::try_from(FLOW_WINDOW_EVENTS).unwrap()];
        assert_eq!(topic(delta), "assistant/delta");
        assert_eq!(text_of(std::slice::from_ref(delta)).len(), 100);
    }

    #[test]
    fn client_that_never_acks_blocks_nobody() {
        let rig = TestOutbox::new();
        rig.outbox.expect_credit(true);
        let text = "x".repeat(1 << 16);
        let mut whole = 0;
        while whole < 3 * OUTBOX_TEXT_BYTES {
            assert!(matches!(rig.delta(&text), Pressure::Fine), "after {whole}: {:?}", rig.outbox.depth());
            whole += text.len();
            assert!(rig.outbox.depth().bytes <= OUTBOX_TEXT_BYTES, "{:?}", rig.outbox.depth());
            rig.settle();
        }
        assert_eq!(text_of(&rig.frames()).len(), whole);
    }
}
