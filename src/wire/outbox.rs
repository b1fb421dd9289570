//! The outbox of one connection: the only writer of its stream. It also decides whether producers of events
//! wait.
//!
//! The queue ([`queue`]) decides what is queued, in which order, and what may be merged or replaced. This module
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
use crate::limits::{CROWDED_LOOK, OUTBOX_ANSWER_BYTES, OUTBOX_FLUSH_BYTES, OUTBOX_READY_BYTES};
use crate::session::Pressure;
use crate::wire::encoder::Encoder;
use crate::wire::transport::{self, Output};

mod queue;
#[cfg(test)]
mod test_outbox;

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
        let written = transport::send(|| self.output.try_write(&bytes));
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
            let written = transport::send(|| {
                bytes.chunks(OUTBOX_READY_BYTES).try_for_each(|piece| {
                    self.output.write_all(piece)?;
                    self.pieces.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
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

    /// After a write: encodes waiting frames and lets producers continue.
    fn written(&self, inner: &mut Inner<E>, bytes: Vec<u8>) {
        inner.queue.keep_buffer(bytes);
        inner.queue.refill();
        if *self.full.borrow() && inner.queue.has_room() {
            self.full.send_replace(false);
        }
        if inner.queue.unwritten() < OUTBOX_ANSWER_BYTES {
            self.room.notify_all();
        }
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
    use super::test_outbox::{Gate, TestOutbox, check_seq, error, pong, stage, topic};
    use super::*;
    use crate::clock::fake::FixedClock;
    use crate::limits::{OUTBOX_EVENTS, OUTBOX_TEXT_BYTES};
    use crate::value::Map;
    use crate::wire::edn::encode;
    use crate::wire::edn::events::EdnEncoder;

    #[test]
    fn fast_client_sees_each_delta() {
        let rig = TestOutbox::new();
        for n in 0..50 {
            rig.delta(&format!("{n} "));
        }
        let frames = rig.frames();
        assert_eq!(frames.len(), 50);
        check_seq(&frames);
    }

    #[test]
    fn lossless_event_blocks_producer_until_room() {
        let rig = TestOutbox::new();
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
        let rig = TestOutbox::calling({
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
    fn trickling_client_falls_behind() {
        let rig = TestOutbox::new();
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
        let rig = TestOutbox::new();
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
        let rig = TestOutbox::new();
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
        let rig = TestOutbox::new();
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

    #[test]
    fn answer_of_reading_thread_keeps_order() {
        let rig = TestOutbox::new();
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
        let rig = TestOutbox::new();
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
