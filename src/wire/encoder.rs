//! What a wire tells its outbox: how an event becomes lines, what joins with what, and what can be shown anew. Knows
//! no wire.

use crate::event::Event;

/// The encoder of one connection.
pub trait Encoder: Send + 'static {
    /// A notation that the client can choose. A change applies to the lines that are added after it.
    type Style: Copy + Default + Send;

    /// Appends the lines of an event, each with its end; none if the wire has no words for it. `joined` replaces the
    /// text of a delta with which later ones were merged. `seq` is the number of the last line before. Returns the
    /// number of the last line now.
    fn event(
        &mut self,
        out: &mut Vec<u8>,
        style: Self::Style,
        seq: u64,
        event: &Event,
        joined: Option<&str>,
    ) -> u64;

    /// Whether a newer event joins an older one that waits: continues its text, or replaces it.
    fn joins(&self, older: &Event, newer: &Event) -> bool {
        newer.continues(older)
    }

    /// Whether showing the session anew makes up for the event, so that a client that has fallen behind need not get
    /// it. [`Wire::show_anew`](crate::wire::connection::Wire::show_anew) does that.
    fn is_shown_anew(&self, event: &Event) -> bool;

    /// Whether a client that has fallen behind would wait for ever without the event, which is small: of those, more are
    /// kept than of others.
    fn is_awaited(&self, event: &Event) -> bool {
        let _ = event;
        false
    }

    /// An event is not kept, because the client has fallen too far behind, and nothing shows it anew.
    fn lose(&mut self, event: &Event) {
        let _ = event;
    }
}
