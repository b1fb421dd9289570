//! Events as lines of the EDN wire: each with its topic, its seq and its time. Does not know who wants an event or
//! when it is sent.

use std::sync::Arc;

use crate::catalogue::Topic;
use crate::clock::{Clock, epoch_millis, rfc3339};
use crate::event::{Body, Event};
use crate::wire::edn::encode::{self, Delta, Stamp, Style};
use crate::wire::edn::layout::{payload, topic};
use crate::wire::edn::replaying::Sent;
use crate::wire::encoder::Encoder;

/// The encoder of one connection.
pub struct EdnEncoder {
    connection: u64,
    clock: Arc<dyn Clock>,
    stamp: CachedStamp,
    sent: Sent,
}

impl EdnEncoder {
    /// The encoder of the connection with that number.
    pub fn new(connection: u64, clock: Arc<dyn Clock>) -> Self {
        Self { connection, clock, stamp: CachedStamp::default(), sent: Sent::default() }
    }

    /// Where it notes which entries the client was sent.
    pub fn sent(&self) -> Sent {
        self.sent.clone()
    }
}

impl Encoder for EdnEncoder {
    type Style = Style;

    fn event(
        &mut self,
        out: &mut Vec<u8>,
        style: Style,
        seq: u64,
        event: &Event,
        joined: Option<&str>,
    ) -> u64 {
        let seq = seq.saturating_add(1);
        let topic = topic(&event.body);
        debug_assert_eq!(topic.class(), event.body.class(), "{topic:?}");
        self.sent.note(event);
        let ts = self.stamp.now(self.clock.as_ref());
        let id = event
            .cause
            .as_ref()
            .filter(|cause| cause.connection == self.connection)
            .map(|cause| &*cause.request);
        let stamp = Stamp { seq, ts, id };
        match (&event.body, &event.session) {
            (Body::AssistantDelta(text) | Body::ThinkingDelta(text), Some(session)) => {
                let delta = Delta {
                    session: session.as_str(),
                    offset: event.offset,
                    turn: event.turn.as_ref().map(|turn| turn.as_str()),
                    piece: event.piece,
                    text: joined.unwrap_or(text),
                };
                encode::delta(out, style, topic, stamp, delta);
            }
            (Body::ContextUpdated { sessions, active }, _) => {
                encode::context(out, style, stamp, sessions.as_ref(), active.as_ref());
            }
            _ => {
                let mut payload = payload(event);
                if let Some(text) = joined {
                    payload.put("arguments", text);
                }
                encode::event(out, style, topic, stamp, &payload);
            }
        }
        seq
    }

    fn is_shown_anew(&self, event: &Event) -> bool {
        is_shown_anew(event)
    }
}

/// The topic decides, except for an answer that could not be saved.
pub(super) fn is_shown_anew(event: &Event) -> bool {
    let topic = topic(&event.body);
    (event.entry.is_some() || topic != Topic::AssistantMessage) && topic.is_shown_anew()
}

/// The time of the last event as text. Events of one millisecond share it.
#[derive(Default)]
struct CachedStamp {
    millis: Option<i64>,
    text: Arc<str>,
}

impl CachedStamp {
    fn now(&mut self, clock: &dyn Clock) -> &str {
        let now = clock.now();
        let millis = epoch_millis(now);
        if self.millis != Some(millis) {
            self.millis = Some(millis);
            self.text = rfc3339(now);
        }
        &self.text
    }
}
