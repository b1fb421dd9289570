//! For tests: an outbox of EDN lines whose reader can be stopped.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::Outbox;
use crate::catalogue::ErrorCode;
use crate::clock::fake::FixedClock;
use crate::edn;
use crate::event::stage::{Point, Stage};
use crate::event::{Body, Event, StagePassed};
use crate::facts::SessionFacts;
use crate::message::{SessionId, TurnId};
use crate::session::Pressure;
use crate::value::{Map, Owned, Value};
use crate::wire::edn::encode;
use crate::wire::edn::events::EdnEncoder;
use crate::wire::transport::Output;

/// An output whose reader can be stopped.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    closed: bool,
    written: Vec<u8>,
}

impl Gate {
    pub(super) fn set(&self, closed: bool) {
        self.0.0.lock().unwrap().closed = closed;
        self.0.1.notify_all();
    }

    /// Waits until that many lines are written.
    pub(super) fn wait_for(&self, lines: usize) {
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

pub(super) struct TestOutbox {
    pub(super) gate: Gate,
    pub(super) outbox: Arc<Outbox<EdnEncoder>>,
    pub(super) writer: std::thread::JoinHandle<std::io::Result<()>>,
}

impl TestOutbox {
    pub(super) fn new() -> Self {
        Self::calling(|_| {})
    }

    pub(super) fn calling(caught_up: impl Fn(u64) + Send + 'static) -> Self {
        let gate = Gate::default();
        let clock = Arc::new(FixedClock::default());
        let outbox = Arc::new(Outbox::new(EdnEncoder::new(1, clock.clone()), clock, Box::new(gate.clone())));
        let writer = std::thread::spawn({
            let outbox = outbox.clone();
            move || outbox.run(|| {}, caught_up)
        });
        Self { gate, outbox, writer }
    }

    pub(super) fn event(&self, body: Body) -> Pressure {
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

    pub(super) fn delta(&self, text: &str) -> Pressure {
        self.event(Body::AssistantDelta(text.into()))
    }

    /// Waits until no encoded frame is left to write.
    pub(super) fn settle(&self) {
        while self.outbox.lock().writing || self.outbox.lock().queue.ready() > 0 {
            std::thread::yield_now();
        }
    }

    /// Closes the outbox and returns the frames that were written.
    pub(super) fn frames(self) -> Vec<Owned> {
        self.gate.set(false);
        self.outbox.close(Duration::from_secs(60));
        self.writer.join().unwrap().unwrap();
        let state = self.gate.0.0.lock().unwrap();
        let lines = state.written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| edn::read_one(line).unwrap().into_owned()).collect()
    }
}

pub(super) fn state(n: i64) -> Body {
    let pending_messages = usize::try_from(n).unwrap();
    Body::SessionUpdated(Arc::new(SessionFacts { pending_messages, ..SessionFacts::empty("s".into()) }))
}

/// An event that must not be dropped and that no history repeats.
pub(super) fn error(message: &str) -> Body {
    Body::Error { code: ErrorCode::Failed, message: message.into() }
}

/// An event that must not be dropped but that a session shown anew makes up for.
pub(super) fn stage() -> Body {
    let (stage, point) = (Stage::Render, Point::Pre);
    Body::StagePassed(Arc::new(StagePassed { stage, point, hook: None }))
}

pub(super) fn pong(outbox: &Outbox<EdnEncoder>) {
    outbox.push_frame(|out, style| encode::response(out, style, "r", "ping", &Map::new()));
}

pub(super) fn check_seq(frames: &[Owned]) {
    for (place, frame) in frames.iter().enumerate() {
        let seq = frame.get("seq").and_then(Value::as_i64);
        assert_eq!(seq, i64::try_from(place + 1).ok(), "{frame}");
    }
}

pub(super) fn topic(frame: &Owned) -> &str {
    frame.get("event").and_then(Value::as_str).unwrap_or("")
}

pub(super) fn text_of(frames: &[Owned]) -> String {
    let text = |frame: &Owned| frame.get("data")?.get("text")?.as_str().map(str::to_owned);
    frames.iter().filter_map(text).collect()
}
