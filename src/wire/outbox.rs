//! The outbox of one connection: the only writer of its stream. It also decides whether producers of events
//! wait.
//!
//! The queue ([`queue`]) decides what waits, in which order, and what may be merged or replaced. This module
//! adds the lock, the writing threads and their wake-ups.
//!
//! Two threads write: the connection's writer thread, and the thread that reads requests. The reading thread
//! writes only if nothing else is under way; its answers then need no other thread. The flag `writing`
//! excludes one while the other writes. While the reading thread answers a batch, it holds its answers back
//! to write them together. Frames of other threads do not wait for that.
//!
//! Knows events and their delivery classes; the encoder knows their words. Knows no subscriptions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::event::Event;
use crate::heap;
use crate::limits::{CROWDED_LOOK, OUTBOX_ANSWER_BYTES, OUTBOX_FLUSH_BYTES, OUTBOX_READY_BYTES};
use crate::session::Pressure;
use crate::wire::encoder::Encoder;
use crate::wire::transport::Output;

mod queue;

pub use queue::Depth;
use queue::OutboxQueue;

/// The frames for one connection.
pub struct Outbox<E: Encoder> {
    output: Box<dyn Output>,
    inner: Mutex<Inner<E>>,
    /// Wakes the writer thread.
    wake: Condvar,
    /// Wakes threads that wait for the last byte to be written.
    drained: Condvar,
    /// Wakes the reader thread, which waits while answers pile up.
    room: Condvar,
    /// Whether producers must wait.
    full: watch::Sender<bool>,
    /// The number of written pieces. It grows while the client reads anything at all.
    pieces: AtomicU64,
}

struct Inner<E: Encoder> {
    queue: OutboxQueue<E>,
    /// A thread writes outside the lock.
    writing: bool,
    /// The thread that answers a batch of requests and will flush. `None` once another thread has added a
    /// frame.
    held: Option<ThreadId>,
    /// The writer thread sleeps.
    asleep: bool,
    /// Everything is written and the writer has ended.
    drained: bool,
    /// The client is gone.
    dead: bool,
}

impl<E: Encoder> Outbox<E> {
    /// An outbox that writes to `output`. The caller must run [`Outbox::run`] on a thread of its own.
    pub fn new(encoder: E, clock: Arc<dyn Clock>, output: Box<dyn Output>) -> Self {
        Self {
            output,
            inner: Mutex::new(Inner {
                queue: OutboxQueue::new(encoder, clock),
                writing: false,
                held: None,
                asleep: false,
                drained: false,
                dead: false,
            }),
            wake: Condvar::new(),
            drained: Condvar::new(),
            room: Condvar::new(),
            full: watch::Sender::new(false),
            pieces: AtomicU64::new(0),
        }
    }

    /// Adds a whole frame; `encode` appends it in the connection's style.
    pub fn push_frame(&self, encode: impl FnOnce(&mut Vec<u8>, E::Style)) {
        self.add(|queue| queue.push_frame(encode));
    }

    /// Adds a whole frame after which a write ends, for a client that takes what it reads together as one, and the frame
    /// that follows. No client sees the first before the second is encoded.
    pub fn push_frame_apart(
        &self,
        encode: impl FnOnce(&mut Vec<u8>, E::Style),
        then: impl FnOnce(&mut Vec<u8>, E::Style),
    ) {
        self.add(|queue| {
            queue.push_frame(encode);
            queue.push_break();
            queue.push_frame(then);
        });
    }

    /// Adds a whole frame and changes the style of all later frames.
    pub fn push_frame_then_style(&self, encode: impl FnOnce(&mut Vec<u8>, E::Style), style: E::Style) {
        self.add(|queue| {
            queue.push_frame(encode);
            queue.push_style(style);
        });
    }

    fn add(&self, push: impl FnOnce(&mut OutboxQueue<E>)) {
        let mut inner = self.lock();
        if inner.dead {
            return;
        }
        push(&mut inner.queue);
        inner.let_out();
        self.notify(inner);
    }

    /// Starts or stops counting on the client's reports of what it has shown.
    pub fn expect_credit(&self, expected: bool) {
        let mut inner = self.lock();
        inner.queue.expect_credit(expected);
        inner.queue.refill();
        self.notify(inner);
    }

    /// Starts or stops reporting merged and replaced events to the client.
    pub fn tell_coalesced(&self, wanted: bool) {
        self.lock().queue.tell_coalesced(wanted);
    }

    /// The client has shown the events up to `seq`. Numbers that were never sent or already reported have no
    /// effect.
    pub fn credit(&self, seq: u64) {
        let mut inner = self.lock();
        inner.queue.credit(seq);
        inner.let_out();
        self.notify(inner);
    }

    /// Between two requests of a batch: writes large output and waits for room for another answer, so that a
    /// client that sends without reading has to wait. Urgent requests are still read while less than the
    /// bound is waiting. Returns false for a client that has `ended` its input and reads nothing for
    /// `patience`: the caller gives it up and reads no further.
    pub fn wait_for_room(&self, ended: impl Fn() -> bool, patience: Duration) -> bool {
        let inner = self.lock();
        let much = inner.queue.ready() >= OUTBOX_FLUSH_BYTES && !inner.writing;
        let crowded = inner.queue.unwritten() >= OUTBOX_ANSWER_BYTES;
        drop(inner);
        if much || crowded {
            self.flush();
        }
        if much && !crowded {
            self.hold();
        }
        if !crowded {
            return true;
        }
        let crowded = |inner: &mut Inner<E>| {
            !inner.dead && !inner.queue.is_closing() && inner.queue.unwritten() >= OUTBOX_ANSWER_BYTES
        };
        let mut inner = self.lock();
        let (mut taken, mut stalled) = (self.pieces.load(Ordering::Relaxed), Duration::ZERO);
        loop {
            let timed_out;
            (inner, timed_out) = self
                .room
                .wait_timeout_while(inner, CROWDED_LOOK, crowded)
                .map(|(inner, waited)| (inner, waited.timed_out()))
                .unwrap_or_else(|poisoned| (poisoned.into_inner().0, false));
            if !timed_out {
                inner.hold();
                return true;
            }
            let before = std::mem::replace(&mut taken, self.pieces.load(Ordering::Relaxed));
            stalled = if taken == before && ended() { stalled + CROWDED_LOOK } else { Duration::ZERO };
            if stalled >= patience {
                self.bury(inner);
                return false;
            }
        }
    }

    /// Adds an event if it is still `wanted` under the lock that orders frames, and returns whether the
    /// producer must wait before its next event. Under that lock, no event can follow the response that ended
    /// its subscription.
    pub fn push_event(&self, event: &Event, wanted: impl FnOnce() -> bool) -> Pressure {
        let mut inner = self.lock();
        if inner.dead || !wanted() {
            return Pressure::Fine;
        }
        if inner.queue.push_event(event) {
            inner.let_out();
        }
        if inner.queue.is_overfull() {
            // The producer did not wait.
            inner.queue.fall_behind();
            self.full.send_replace(false);
        }
        let full = inner.queue.is_full();
        self.notify(inner);
        if full {
            self.full.send_replace(true);
            // The writer may have emptied the queue in between, and would not announce it again.
            if !self.lock().queue.is_full() {
                self.full.send_replace(false);
            }
            return Pressure::Full(self.full.subscribe());
        }
        Pressure::Fine
    }

    /// Stops blocking producers on this client: droppable events are skipped until the client has caught up.
    /// A slow trickle of reads does not reset this.
    pub fn fall_behind(&self) {
        let mut inner = self.lock();
        if inner.dead || inner.queue.is_behind() || inner.queue.has_room() {
            return;
        }
        inner.queue.fall_behind();
        self.full.send_replace(false);
        self.notify(inner);
    }

    /// Announces that the calling thread will push several frames and then call [`Outbox::flush`].
    pub fn hold(&self) {
        self.lock().hold();
    }

    /// Writes ready output from the calling thread if it is short and the stream takes it at once; otherwise
    /// leaves it to the writer thread.
    pub fn flush(&self) {
        let mut inner = self.lock();
        inner.held = None;
        if inner.queue.ready() == 0 || inner.writing || inner.dead {
            return;
        }
        let mut bytes = inner.queue.take_ready();
        inner.writing = true;
        drop(inner);
        let written = self.output.try_write(&bytes);
        let mut inner = self.lock();
        inner.writing = false;
        match written {
            Ok(count) if count >= bytes.len() => self.written(&mut inner, bytes),
            Ok(count) => {
                bytes.drain(..count);
                inner.queue.put_back(bytes);
            }
            Err(_) => inner.dead = true,
        }
        // A close in between woke the writer in vain. The writer thread also serves a client that has caught
        // up.
        let queue = &inner.queue;
        if queue.ready() > 0 || inner.dead || queue.is_closing() || queue.is_behind() {
            self.notify(inner);
        }
    }

    /// Writes until the outbox is closed and empty. Runs on the connection's writer thread. When a client
    /// that had fallen behind has caught up, calls `catches_up` before any further event is taken, and then
    /// `caught_up` with the number of skipped events.
    ///
    /// # Errors
    /// When the other side is gone; the remaining frames are dropped then.
    pub fn run(&self, catches_up: impl Fn(), caught_up: impl Fn(u64)) -> std::io::Result<()> {
        let mut inner = self.lock();
        loop {
            if inner.dead {
                self.bury(inner);
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            let missed = if inner.writing { None } else { inner.queue.take_missed() };
            if let Some(missed) = missed {
                catches_up();
                drop(inner);
                caught_up(missed);
                inner = self.lock();
                continue;
            }
            let (ready, closing) = (inner.queue.ready(), inner.queue.is_closing());
            if inner.writing || inner.is_held() || ready == 0 {
                if closing && ready == 0 && !inner.writing {
                    inner.drained = true;
                    self.drained.notify_all();
                    return Ok(());
                }
                inner.asleep = true;
                inner = self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner);
                inner.asleep = false;
                continue;
            }
            let bytes = inner.queue.take_ready();
            inner.writing = true;
            drop(inner);
            // Writes in pieces and counts each, so that a slow client differs from one that reads nothing.
            let written = bytes.chunks(OUTBOX_READY_BYTES).try_for_each(|piece| {
                self.output.write_all(piece)?;
                self.pieces.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            inner = self.lock();
            inner.writing = false;
            if let Err(error) = written {
                self.bury(inner);
                return Err(error);
            }
            self.written(&mut inner, bytes);
        }
    }

    /// Refuses further frames, waits at most `patience` until everything is written or the client is gone,
    /// and ends the stream. Unwritten frames are dropped.
    pub fn close(&self, patience: Duration) {
        let mut inner = self.lock();
        inner.queue.close();
        if !inner.writing {
            inner.queue.refill();
        }
        self.wake.notify_one();
        self.room.notify_all();
        let unwritten = |inner: &mut Inner<E>| !inner.dead && !inner.drained;
        inner = self
            .drained
            .wait_timeout_while(inner, patience, unwritten)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        if inner.drained {
            drop(inner);
            self.output.shut();
        } else {
            self.bury(inner);
        }
    }

    /// Whether droppable events are skipped because the client fell behind.
    pub fn is_behind(&self) -> bool {
        self.lock().queue.is_behind()
    }

    /// The state of the outbox.
    pub fn depth(&self) -> Depth {
        self.lock().queue.depth()
    }

    /// After a write: encodes waiting frames and lets producers continue. All work ends in a write to some client, so
    /// this is where freed memory is returned.
    fn written(&self, inner: &mut Inner<E>, bytes: Vec<u8>) {
        inner.queue.keep_buffer(bytes);
        inner.queue.refill();
        if *self.full.borrow() && inner.queue.has_room() {
            self.full.send_replace(false);
        }
        if inner.queue.unwritten() < OUTBOX_ANSWER_BYTES {
            self.room.notify_all();
        }
        heap::give_back();
    }

    /// Drops the remaining frames and ends the stream, which wakes a blocked writer.
    fn bury(&self, mut inner: MutexGuard<'_, Inner<E>>) {
        inner.dead = true;
        inner.queue.clear();
        self.full.send_replace(false);
        self.drained.notify_all();
        self.room.notify_all();
        self.wake.notify_all();
        drop(inner);
        self.output.shut();
    }

    fn notify(&self, mut inner: MutexGuard<'_, Inner<E>>) {
        // A request may take long; frames of other threads do not wait for its answer.
        if inner.held.is_some_and(|holder| holder != thread::current().id()) {
            inner.held = None;
        }
        let wake = inner.asleep && !inner.is_held() && !inner.writing;
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Encoder> Inner<E> {
    /// Encodes frames that no longer wait for credit. During a write, later frames are encoded when it ends.
    fn let_out(&mut self) {
        if self.queue.expects_credit() && !self.writing {
            self.queue.refill();
        }
    }

    /// Leaves later frames to this thread's flush. Frames that are already ready belong to another thread or
    /// were left over; the writer is on its way to them.
    fn hold(&mut self) {
        self.held = (self.queue.ready() == 0).then(|| thread::current().id());
    }

    /// Whether ready frames wait for the flush of the thread that answers a batch.
    fn is_held(&self) -> bool {
        self.held.is_some() && self.queue.ready() < OUTBOX_READY_BYTES && !self.queue.is_closing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Topic;
    use crate::clock::fake::FixedClock;
    use crate::edn;
    use crate::event::Body;
    use crate::event::StagePassed;
    use crate::event::stage::{Point, Stage};
    use crate::facts::SessionFacts;
    use crate::limits::{FLOW_WINDOW_EVENTS, OUTBOX_EVENTS, OUTBOX_MERGE_FROM, OUTBOX_TEXT_BYTES};
    use crate::message::{SessionId, TurnId};
    use crate::value::{Map, Owned, Value};
    use crate::wire::edn::encode;
    use crate::wire::edn::events::EdnEncoder;

    /// An output whose reader can be stopped.
    #[derive(Clone, Default)]
    struct Gate(Arc<(Mutex<GateState>, Condvar)>);

    #[derive(Default)]
    struct GateState {
        closed: bool,
        written: Vec<u8>,
    }

    impl Gate {
        fn set(&self, closed: bool) {
            self.0.0.lock().unwrap().closed = closed;
            self.0.1.notify_all();
        }

        /// Waits until `count` lines are written.
        fn wait_for(&self, lines: usize) {
            let written = |state: &mut GateState| lines_of(&state.written) < lines;
            let patience = Duration::from_secs(60);
            let state = self.0.0.lock().unwrap();
            let (_state, waited) = self.0.1.wait_timeout_while(state, patience, written).unwrap();
            assert!(!waited.timed_out(), "it was not written");
        }
    }

    fn lines_of(written: &[u8]) -> usize {
        written.iter().filter(|byte| **byte == b'\n').count()
    }

    impl Output for Gate {
        fn write_all(&self, bytes: &[u8]) -> std::io::Result<()> {
            let state = self.0.0.lock().unwrap();
            let mut state = self.0.1.wait_while(state, |state| state.closed).unwrap();
            state.written.extend_from_slice(bytes);
            self.0.1.notify_all();
            Ok(())
        }

        fn try_write(&self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            if state.closed {
                return Ok(0);
            }
            // A pipe may take only a part.
            let part = bytes.len().min(100);
            state.written.extend_from_slice(&bytes[..part]);
            Ok(part)
        }

        fn shut(&self) {}
    }

    struct Rig {
        gate: Gate,
        outbox: Arc<Outbox<EdnEncoder>>,
        writer: std::thread::JoinHandle<std::io::Result<()>>,
    }

    impl Rig {
        fn new() -> Self {
            Self::calling(|_| {})
        }

        fn calling(caught_up: impl Fn(u64) + Send + 'static) -> Self {
            let gate = Gate::default();
            let clock = Arc::new(FixedClock::default());
            let outbox =
                Arc::new(Outbox::new(EdnEncoder::new(1, clock.clone()), clock, Box::new(gate.clone())));
            let writer = std::thread::spawn({
                let outbox = outbox.clone();
                move || outbox.run(|| {}, caught_up)
            });
            Self { gate, outbox, writer }
        }

        fn event(&self, body: Body) -> Pressure {
            self.outbox.push_event(
                &Event {
                    session: Some(SessionId::from("s")),
                    offset: 0,
                    turn: Some(TurnId::from("t")),
                    entry: None,
                    cause: None,
                    piece: None,
                    body,
                },
                || true,
            )
        }

        fn delta(&self, text: &str) -> Pressure {
            self.event(Body::AssistantDelta(text.into()))
        }

        /// Waits until no encoded frame is left to write.
        fn settle(&self) {
            while self.outbox.lock().writing || self.outbox.lock().queue.ready() > 0 {
                std::thread::yield_now();
            }
        }

        /// Closes the outbox and returns the frames that were written.
        fn frames(self) -> Vec<Owned> {
            self.gate.set(false);
            self.outbox.close(Duration::from_secs(60));
            self.writer.join().unwrap().unwrap();
            let state = self.gate.0.0.lock().unwrap();
            let lines = state.written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| edn::read_one(line).unwrap().into_owned()).collect()
        }
    }

    fn state(n: i64) -> Body {
        let pending_messages = usize::try_from(n).unwrap();
        Body::SessionUpdated(Arc::new(SessionFacts { pending_messages, ..SessionFacts::empty("s".into()) }))
    }

    /// An event that must not be dropped and that no history repeats.
    fn error(message: &str) -> Body {
        Body::Error { code: crate::catalogue::ErrorCode::Failed, message: message.into() }
    }

    /// An event that must not be dropped but that a session shown anew makes up for.
    fn stage() -> Body {
        let (stage, point) = (Stage::Render, Point::Pre);
        Body::StagePassed(Arc::new(StagePassed { stage, point, hook: None }))
    }

    fn pong(outbox: &Outbox<EdnEncoder>) {
        outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
    }

    fn check_seq(frames: &[Owned]) {
        for (place, frame) in frames.iter().enumerate() {
            let seq = frame.get("seq").and_then(Value::as_i64);
            assert_eq!(seq, i64::try_from(place + 1).ok(), "{frame}");
        }
    }

    #[test]
    fn frame_apart_is_the_end_of_a_write() {
        let rig = Rig::new();
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
    fn fast_client_sees_each_delta() {
        let rig = Rig::new();
        for n in 0..50 {
            rig.delta(&format!("{n} "));
        }
        let frames = rig.frames();
        assert_eq!(frames.len(), 50);
        check_seq(&frames);
    }

    #[test]
    fn stopped_client_loses_no_text_in_bounded_memory() {
        let rig = Rig::new();
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
        let rig = Rig::new();
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
            let rig = Rig::new();
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
    fn lossless_event_blocks_producer_until_room() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        let mut full = None;
        let mut pushed = 0;
        for n in 0..OUTBOX_EVENTS * 2 {
            pushed = n + 1;
            let body = error("kept");
            if let Pressure::Full(flag) = rig.event(body) {
                full = Some(flag);
                break;
            }
        }
        let mut full = full.expect("the bound holds");
        assert!(*full.borrow_and_update());
        rig.gate.set(false);
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        executor
            .block_on(async {
                tokio::time::timeout(Duration::from_secs(60), full.wait_for(|full| !full)).await
            })
            .expect("there is room again")
            .unwrap();
        let frames = rig.frames();
        check_seq(&frames);
        assert_eq!(frames.len(), pushed + 1, "every one of them came");
    }

    #[test]
    fn client_behind_keeps_answers_and_recovers() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let rig = Rig::calling({
            let told = told.clone();
            move |missed| told.lock().unwrap().push(missed)
        });
        rig.outbox.tell_coalesced(true);
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        let mut pushed = 0;
        while !matches!(rig.event(stage()), Pressure::Full(_)) {
            pushed += 1;
        }
        for _ in 0..2 {
            rig.delta("joined, and then left out");
        }
        pushed += 1;
        pong(&rig.outbox);
        rig.outbox.fall_behind();
        assert!(rig.outbox.is_behind());
        assert!(rig.outbox.depth().waiting <= 1, "{:?}", rig.outbox.depth());
        for _ in 0..10 {
            assert!(matches!(rig.event(stage()), Pressure::Fine), "nobody waits for it");
        }
        rig.gate.set(false);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while told.lock().unwrap().is_empty() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        rig.delta("again");
        let frames = rig.frames();
        check_seq(&frames.iter().filter(|frame| !topic(frame).is_empty()).cloned().collect::<Vec<_>>());
        assert!(
            frames.iter().all(|frame| topic(frame) != "diagnostic"),
            "nothing was merged: it was left out"
        );
        let tail: Vec<_> = frames.iter().rev().take(2).map(|frame| frame.get("id").is_some()).collect();
        assert_eq!(tail, [false, true], "the answer, and what came after it");
        // The event that filled it was skipped too; the events that went out before it waited were not.
        let sent = frames.len() - 3;
        let missed = u64::try_from(pushed + 1 + 10 - sent).unwrap();
        assert_eq!(*told.lock().unwrap(), [missed]);
    }

    #[test]
    fn slow_client_keeps_unrecoverable_events_up_to_limit() {
        let rig = Rig::new();
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
    fn trickling_client_falls_behind() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        while !matches!(rig.event(stage()), Pressure::Full(_)) {}
        // One piece of the encoded part goes out, and some waiting events are encoded. Less than the bound
        // waits then, but too much to wake the producers.
        let mut inner = rig.outbox.lock();
        inner.queue.take_ready();
        inner.queue.refill();
        assert!(!inner.queue.is_full() && !inner.queue.has_room());
        drop(inner);
        rig.outbox.fall_behind();
        assert!(rig.outbox.is_behind());
        rig.frames();
    }

    #[test]
    fn waiting_answers_leave_no_client_behind() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        // The encoded part is full; everything later waits.
        while rig.outbox.depth().waiting == 0 {
            rig.event(stage());
        }
        for _ in 0..3 * OUTBOX_EVENTS {
            pong(&rig.outbox);
        }
        assert!(matches!(rig.event(stage()), Pressure::Fine));
        assert!(!rig.outbox.is_behind());
        check_seq(&rig.frames().into_iter().filter(|frame| !topic(frame).is_empty()).collect::<Vec<_>>());
    }

    #[test]
    fn events_pushed_without_waiting_are_bounded() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        let text = "x".repeat(1 << 16);
        for n in 0..OUTBOX_EVENTS * 5 {
            let message = if n % 2 == 0 { "short" } else { text.as_str() };
            rig.event(error(message));
            rig.delta(&text);
            let depth = rig.outbox.depth();
            assert!(depth.waiting <= 2 * OUTBOX_EVENTS, "{depth:?}");
            assert!(depth.bytes <= 2 * OUTBOX_TEXT_BYTES + 4 * OUTBOX_READY_BYTES, "{depth:?}");
        }
        assert!(rig.outbox.is_behind());
        check_seq(&rig.frames());
    }

    #[test]
    fn only_stalled_client_that_hung_up_is_given_up() {
        let rig = Rig::new();
        rig.gate.set(true);
        let long = Map::new().with("text", "x".repeat(OUTBOX_ANSWER_BYTES));
        let push = || rig.outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &long));
        push();
        // Output under way does not count; later output does.
        while !rig.outbox.lock().writing {
            std::thread::yield_now();
        }
        push();
        std::thread::scope(|scope| {
            let (looked, looks) = std::sync::mpsc::channel();
            let outbox = &rig.outbox;
            let waiting = scope.spawn(move || {
                let ended = || looked.send(()).is_err();
                outbox.wait_for_room(ended, CROWDED_LOOK * 2)
            });
            // Until the client ends its input, it is only checked again and again.
            for _ in 0..4 {
                looks.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            drop(looks);
            assert!(!waiting.join().unwrap());
        });
        rig.gate.set(false);
        assert!(rig.writer.join().unwrap().is_err());
    }

    fn topic(frame: &Owned) -> &str {
        frame.get("event").and_then(Value::as_str).unwrap_or("")
    }

    fn text_of(frames: &[Owned]) -> String {
        let text = |frame: &Owned| frame.get("data")?.get("text")?.as_str().map(str::to_owned);
        frames.iter().filter_map(text).collect()
    }

    #[test]
    fn text_beyond_window_merges_until_client_shows_more() {
        let rig = Rig::new();
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
        let rig = Rig::new();
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
        let rig = Rig::new();
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

    #[test]
    fn answer_of_reading_thread_keeps_order() {
        let rig = Rig::new();
        rig.outbox.hold();
        for n in 0..20 {
            rig.outbox
                .push_frame(|out, style| encode::response(out, style, &format!("{n}"), "ping", &Map::new()));
        }
        rig.outbox.flush();
        let frames = rig.frames();
        let ids: Vec<_> =
            frames.iter().map(|frame| frame.get("id").unwrap().as_str().unwrap().to_owned()).collect();
        assert_eq!(ids, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn frame_of_other_thread_is_not_held_by_next_batch() {
        let gate = Gate::default();
        let clock = Arc::new(FixedClock::default());
        let outbox = Arc::new(Outbox::new(EdnEncoder::new(1, clock.clone()), clock, Box::new(gate.clone())));
        let pong = |out: &mut Vec<u8>, style| encode::response(out, style, "s", "ping", &Map::new());
        std::thread::scope(|scope| drop(scope.spawn(|| outbox.push_frame(pong)).join()));
        // Before the writer has come to it.
        outbox.hold();
        let writer = std::thread::spawn({
            let outbox = outbox.clone();
            move || outbox.run(|| {}, |_| {})
        });
        gate.wait_for(1);
        outbox.close(Duration::from_secs(60));
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn frame_of_other_thread_does_not_wait_for_request() {
        let rig = Rig::new();
        rig.outbox.hold();
        rig.outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
        let adding = std::thread::spawn({
            let outbox = rig.outbox.clone();
            move || outbox.push_frame(|out, style| encode::response(out, style, "s", "ping", &Map::new()))
        });
        adding.join().unwrap();
        // Without a flush.
        rig.gate.wait_for(2);
        let ids: Vec<_> = rig.frames().iter().map(|frame| frame.get("id").unwrap().to_string()).collect();
        assert_eq!(ids, ["\"r\"", "\"s\""]);
    }
}
