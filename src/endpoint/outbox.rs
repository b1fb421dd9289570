//! What one connection is sent: the sole writer of its stream, and whether those who make events have to wait.
//!
//! What waits, in which order and what becomes of it meanwhile is the queue's business ([`queue`]); here are
//! the lock around it, the threads that write and the wakes between them.
//!
//! Two may write: the connection's writer thread, and, when nothing else is under way, the thread that
//! reads requests, which then answers without waking another thread. The flag `writing` lets only one
//! of them at a time. While that thread answers a batch, its answers wait for the end of it, so that they
//! are written together; what others add in between is written at once.
//!
//! Knows frames and events; not what they mean, nor who is subscribed to what.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::event::Event;
use crate::frame::encode::Style;
use crate::limits::{CROWDED_LOOK, OUTBOX_ANSWER_BYTES, OUTBOX_FLUSH_BYTES, OUTBOX_READY_BYTES};
use crate::session::Pressure;
use crate::transport::Output;

mod queue;

use queue::Queue;

/// What one connection is sent.
pub struct Outbox {
    output: Box<dyn Output>,
    inner: Mutex<Inner>,
    /// Wakes the writer thread.
    wake: Condvar,
    /// Wakes who waits for the last byte to be written.
    drained: Condvar,
    /// Wakes the reader thread, which waits while answers pile up.
    room: Condvar,
    /// Whether producers must wait.
    full: watch::Sender<bool>,
    /// How many pieces were written: whether the client takes anything at all.
    pieces: AtomicU64,
}

struct Inner {
    queue: Queue,
    /// Somebody writes, outside the lock.
    writing: bool,
    /// The thread that answers a batch of requests and will flush, as long as nobody else has added anything.
    held: Option<ThreadId>,
    /// The writer thread sleeps.
    asleep: bool,
    /// All is written and the writer has ended.
    drained: bool,
    /// The client is gone.
    dead: bool,
}

/// How the outbox stands, for the graph and the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Events that wait unencoded.
    pub waiting: usize,
    /// Bytes that wait, encoded or not.
    pub bytes: usize,
    /// The number of the last event that was encoded.
    pub seq: u64,
}

impl Outbox {
    /// An outbox that writes to `output`. [`Outbox::run`] has to be called on a thread of its own.
    pub fn new(connection: u64, clock: Arc<dyn Clock>, output: Box<dyn Output>) -> Self {
        Self {
            output,
            inner: Mutex::new(Inner {
                queue: Queue::new(connection, clock),
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

    /// Adds a whole frame: `encode` appends it, in the style of the connection.
    pub fn push_frame(&self, encode: impl FnOnce(&mut Vec<u8>, Style)) {
        self.add(|queue| queue.push_frame(encode));
    }

    /// Adds a whole frame, and changes the style of all that comes after it.
    pub fn push_frame_then_style(&self, encode: impl FnOnce(&mut Vec<u8>, Style), style: Style) {
        self.add(|queue| {
            queue.push_frame(encode);
            queue.push_style(style);
        });
    }

    fn add(&self, push: impl FnOnce(&mut Queue)) {
        let mut inner = self.lock();
        if inner.dead {
            return;
        }
        push(&mut inner.queue);
        inner.let_out();
        self.notify(inner);
    }

    /// From here on the client says what it has shown, or does not.
    pub fn expect_credit(&self, expected: bool) {
        let mut inner = self.lock();
        inner.queue.expect_credit(expected);
        inner.queue.refill();
        self.notify(inner);
    }

    /// From here on the client is told what was merged and replaced, or is not.
    pub fn tell_coalesced(&self, wanted: bool) {
        self.lock().queue.tell_coalesced(wanted);
    }

    /// The client has shown the events up to `seq`. What was never sent, and what was told before,
    /// changes nothing.
    pub fn credit(&self, seq: u64) {
        let mut inner = self.lock();
        inner.queue.credit(seq);
        inner.let_out();
        self.notify(inner);
    }

    /// Between two requests of a batch: writes what became much, and waits until there is room for a
    /// further answer: whoever asks without reading is asked to wait. What is urgent is still read as
    /// long as less than the bound is waiting. False once a client that has `ended` its input took nothing
    /// for `patience`: it is given up, and nothing more has to be read.
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
        let crowded = |inner: &mut Inner| {
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

    /// Adds an event, if it is still `wanted` when its turn comes, and says whether its maker has to
    /// wait before the next. Asked under the lock that orders frames: no event follows the answer that
    /// ended its subscription.
    pub fn push_event(&self, event: &Event, wanted: impl FnOnce() -> bool) -> Pressure {
        let mut inner = self.lock();
        if inner.dead || !wanted() {
            return Pressure::Fine;
        }
        if inner.queue.push_event(event) {
            inner.let_out();
        }
        if inner.queue.is_overfull() {
            // Its maker did not wait.
            inner.queue.fall_behind();
            self.full.send_replace(false);
        }
        let full = inner.queue.is_full();
        self.notify(inner);
        if full {
            self.full.send_replace(true);
            // The writer may have emptied the queue in between, and would not say so again.
            if !self.lock().queue.is_full() {
                self.full.send_replace(false);
            }
            return Pressure::Full(self.full.subscribe());
        }
        Pressure::Fine
    }

    /// Those who make events wait no longer for this client, unless it has room again: see the module's text.
    /// One that takes a little each time is left behind as well.
    pub fn fall_behind(&self) {
        let mut inner = self.lock();
        if inner.dead || inner.queue.is_behind() || inner.queue.has_room() {
            return;
        }
        inner.queue.fall_behind();
        self.full.send_replace(false);
        self.notify(inner);
    }

    /// Says that the calling thread will push several frames and then call [`Outbox::flush`].
    pub fn hold(&self) {
        self.lock().hold();
    }

    /// Writes what is ready from the calling thread, if it is little and can be written at once; else
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
        // A close that came meanwhile woke the writer in vain; one who has caught up is shown it there.
        let queue = &inner.queue;
        if queue.ready() > 0 || inner.dead || queue.is_closing() || queue.is_behind() {
            self.notify(inner);
        }
    }

    /// Writes until the outbox is closed and empty. Runs on the connection's writer thread, and calls
    /// `caught_up` there, with the number of events that were left out, when a client that had fallen
    /// behind can be sent events again.
    ///
    /// # Errors
    /// When the other side is gone; what is left is dropped then.
    pub fn run(&self, caught_up: impl Fn(u64)) -> std::io::Result<()> {
        let mut inner = self.lock();
        loop {
            if inner.dead {
                self.bury(inner);
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            let missed = if inner.writing { None } else { inner.queue.take_missed() };
            if let Some(missed) = missed {
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
            // In pieces, each of which counts: a slow client is not one that takes nothing.
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

    /// Says that no more will come, and waits until all is written or the client is gone, but no longer
    /// than `patience`: what is not written then is dropped. Then the stream is ended.
    pub fn close(&self, patience: Duration) {
        let mut inner = self.lock();
        inner.queue.close();
        if !inner.writing {
            inner.queue.refill();
        }
        self.wake.notify_one();
        self.room.notify_all();
        let unwritten = |inner: &mut Inner| !inner.dead && !inner.drained;
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

    /// Whether events are left out, since the client fell behind.
    pub fn is_behind(&self) -> bool {
        self.lock().queue.is_behind()
    }

    /// How it stands.
    pub fn depth(&self) -> Depth {
        self.lock().queue.depth()
    }

    /// After a write: encodes what waited, and lets producers go on.
    fn written(&self, inner: &mut Inner, bytes: Vec<u8>) {
        inner.queue.give_back(bytes);
        inner.queue.refill();
        if *self.full.borrow() && inner.queue.has_room() {
            self.full.send_replace(false);
        }
        if inner.queue.unwritten() < OUTBOX_ANSWER_BYTES {
            self.room.notify_all();
        }
    }

    /// Drops what is left and ends the stream, so that whoever writes to it wakes up.
    fn bury(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.dead = true;
        inner.queue.clear();
        self.full.send_replace(false);
        self.drained.notify_all();
        self.room.notify_all();
        self.wake.notify_all();
        drop(inner);
        self.output.shut();
    }

    fn notify(&self, mut inner: MutexGuard<'_, Inner>) {
        // A request may take long: what others add meanwhile does not wait for its answer.
        if inner.held.is_some_and(|holder| holder != thread::current().id()) {
            inner.held = None;
        }
        let wake = inner.asleep && !inner.is_held() && !inner.writing;
        drop(inner);
        if wake {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Encodes what waited for credit and need not wait any more. While a write is under way, what comes after
    /// it is encoded at its end.
    fn let_out(&mut self) {
        if self.queue.expects_credit() && !self.writing {
            self.queue.refill();
        }
    }

    /// Leaves what comes to the flush of this thread. What is ready already is somebody else's, or was left over:
    /// the writer is on its way to it.
    fn hold(&mut self) {
        self.held = (self.queue.ready() == 0).then(|| thread::current().id());
    }

    /// Whether what is ready is left to the flush of who answers a batch.
    fn is_held(&self) -> bool {
        self.held.is_some() && self.queue.ready() < OUTBOX_READY_BYTES && !self.queue.is_closing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Topic;
    use crate::clock::FixedClock;
    use crate::edn;
    use crate::event::Body;
    use crate::event::StagePassed;
    use crate::event::stage::{Point, Stage};
    use crate::facts::SessionFacts;
    use crate::frame::encode;
    use crate::limits::{FLOW_WINDOW_EVENTS, OUTBOX_EVENTS, OUTBOX_MERGE_FROM, OUTBOX_TEXT_BYTES};
    use crate::message::{SessionId, TurnId};
    use crate::value::{Map, Owned, Value};

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

        /// Waits until so many lines are written.
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
            // A pipe may take a part.
            let part = bytes.len().min(100);
            state.written.extend_from_slice(&bytes[..part]);
            Ok(part)
        }

        fn shut(&self) {}
    }

    struct Rig {
        gate: Gate,
        outbox: Arc<Outbox>,
        writer: std::thread::JoinHandle<std::io::Result<()>>,
    }

    impl Rig {
        fn new() -> Self {
            Self::calling(|_| {})
        }

        fn calling(caught_up: impl Fn(u64) + Send + 'static) -> Self {
            let gate = Gate::default();
            let outbox = Arc::new(Outbox::new(1, Arc::new(FixedClock::default()), Box::new(gate.clone())));
            let writer = std::thread::spawn({
                let outbox = outbox.clone();
                move || outbox.run(caught_up)
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
                    body,
                },
                || true,
            )
        }

        fn delta(&self, text: &str) -> Pressure {
            self.event(Body::AssistantDelta(text.into()))
        }

        /// Waits until nothing encoded is left to write.
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

    /// What must not be dropped, and no history tells of.
    fn error(message: &str) -> Body {
        Body::Error { code: crate::catalogue::ErrorCode::Failed, message: message.into() }
    }

    /// What must not be dropped, and is not missed by who is shown the session anew.
    fn stage() -> Body {
        let (stage, point) = (Stage::Render, Point::Pre);
        Body::StagePassed(Arc::new(StagePassed { stage, point, hook: None }))
    }

    fn pong(outbox: &Outbox) {
        outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
    }

    fn check_seq(frames: &[Owned]) {
        for (place, frame) in frames.iter().enumerate() {
            let seq = frame.get("seq").and_then(Value::as_i64);
            assert_eq!(seq, i64::try_from(place + 1).ok(), "{frame}");
        }
    }

    #[test]
    fn a_client_that_keeps_up_sees_each_delta() {
        let rig = Rig::new();
        for n in 0..50 {
            rig.delta(&format!("{n} "));
        }
        let frames = rig.frames();
        assert_eq!(frames.len(), 50);
        check_seq(&frames);
    }

    #[test]
    fn a_stopped_client_loses_no_text_and_takes_bounded_memory() {
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
    fn a_newer_snapshot_replaces_one_that_waits_but_never_overtakes_what_stood_before_it() {
        let rig = Rig::new();
        rig.gate.set(true);
        // Fill what is encoded, so that the rest waits.
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
    fn who_wants_to_know_is_told_what_was_coalesced_once_it_has_caught_up() {
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
    fn what_must_not_be_dropped_makes_its_maker_wait_until_there_is_room() {
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
    fn a_client_left_behind_keeps_its_answers_and_goes_on_when_it_has_taken_them() {
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
        // The one that filled it was left out too, and what went out before it waited was not.
        let sent = frames.len() - 3;
        let missed = u64::try_from(pushed + 1 + 10 - sent).unwrap();
        assert_eq!(*told.lock().unwrap(), [missed]);
    }

    #[test]
    fn who_is_behind_keeps_what_it_cannot_be_shown_anew_as_long_as_it_is_not_much() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        rig.event(error("before"));
        while !matches!(rig.event(stage()), Pressure::Full(_)) {}
        rig.outbox.fall_behind();
        for n in 0..3 * OUTBOX_EVENTS {
            assert!(matches!(rig.event(error(&format!("{n}"))), Pressure::Fine), "nobody waits for it");
            // Nobody waits for it: there is nothing to be told again.
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
    fn who_takes_a_little_each_time_is_left_behind_as_well() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        while !matches!(rig.event(stage()), Pressure::Full(_)) {}
        // A piece of what is encoded goes out, and some of what waits is encoded: less than the bound waits, and
        // more than is worth waking those who wait.
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
    fn answers_that_wait_leave_nobody_behind() {
        let rig = Rig::new();
        rig.gate.set(true);
        rig.delta(&"x".repeat(OUTBOX_READY_BYTES));
        // What is encoded is full; from here on all waits.
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
    fn what_is_pushed_without_waiting_is_bounded() {
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
    fn who_has_hung_up_and_takes_nothing_is_given_up_and_who_has_not_is_waited_for() {
        let rig = Rig::new();
        rig.gate.set(true);
        let long = Map::new().with("text", "x".repeat(OUTBOX_ANSWER_BYTES));
        let push = || rig.outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &long));
        push();
        // What is being written is not counted; what comes after it is.
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
            // As long as it has not ended its input it is only looked at, again and again.
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
    fn beyond_the_window_text_is_joined_until_the_client_has_shown_more() {
        let rig = Rig::new();
        rig.outbox.expect_credit(true);
        let window = usize::try_from(FLOW_WINDOW_EVENTS).unwrap();
        let mut whole = String::new();
        for n in 0..window * 10 {
            let text = format!("{n} ");
            assert!(matches!(rig.delta(&text), Pressure::Fine));
            whole.push_str(&text);
        }
        // What is beyond the window is one event by now, and it waits, though the client reads.
        assert_eq!(rig.outbox.depth().seq, FLOW_WINDOW_EVENTS);
        assert_eq!(rig.outbox.depth().waiting, 1);
        // What was never sent cannot have been shown; it counts as the last that was sent.
        rig.outbox.credit(u64::MAX);
        assert_eq!(rig.outbox.depth().waiting, 0);
        assert_eq!(rig.outbox.depth().seq, FLOW_WINDOW_EVENTS + 1);
        // What is to come waits for credit, not for the writer, which may be slow.
        rig.settle();
        // An older word changes nothing.
        rig.outbox.credit(1);
        for _ in 1..window {
            whole.push('x');
            rig.delta("x");
        }
        // All but the one that went out after the window.
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
    fn what_must_not_be_dropped_is_not_held_back_and_lets_out_what_stood_before_it() {
        let rig = Rig::new();
        rig.outbox.expect_credit(true);
        for _ in 0..FLOW_WINDOW_EVENTS + 100 {
            rig.delta("a");
        }
        rig.event(state(1));
        rig.event(state(2));
        assert_eq!(rig.outbox.depth().waiting, 2);
        // The client shows nothing at all, and yet sees the message and the answer.
        rig.event(error("kept"));
        assert_eq!(rig.outbox.depth().waiting, 0);
        rig.delta("b");
        assert_eq!(rig.outbox.depth().waiting, 1);
        rig.outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
        assert_eq!(rig.outbox.depth().waiting, 0);
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
    fn a_client_that_never_says_what_it_has_shown_holds_up_nobody() {
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
    fn an_answer_of_the_reading_thread_keeps_its_place() {
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
    fn what_another_thread_has_added_is_not_held_back_by_the_next_batch() {
        let gate = Gate::default();
        let outbox = Arc::new(Outbox::new(1, Arc::new(FixedClock::default()), Box::new(gate.clone())));
        let pong = |out: &mut Vec<u8>, style| encode::response(out, style, "s", "ping", &Map::new());
        std::thread::scope(|scope| drop(scope.spawn(|| outbox.push_frame(pong)).join()));
        // Before the writer came to it.
        outbox.hold();
        let writer = std::thread::spawn({
            let outbox = outbox.clone();
            move || outbox.run(|_| {})
        });
        gate.wait_for(1);
        outbox.close(Duration::from_secs(60));
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn what_another_thread_adds_does_not_wait_for_the_request_that_is_answered() {
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
