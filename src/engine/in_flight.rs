//! What a session's turn has shown that no entry contains yet: the text of the running model call, and the running
//! tools with their latest output. A client that comes back is shown it, and every delta gets its place from here.
//!
//! Pure. An answer is bounded where it is read, and so is its copy here.

use std::sync::Arc;

use crate::event::{Body, Event, Piece, ToolCall, ToolOutput};
use crate::message::{Message, Role, TurnId};
use crate::session::InAnswer;

/// One stream of an answer.
#[derive(Debug, Default)]
struct Stream {
    text: String,
    chars: u64,
}

impl Stream {
    /// Adds text, and returns the number of characters before it.
    fn push(&mut self, text: &str) -> u64 {
        self.text.push_str(text);
        let new = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let at = self.chars;
        self.chars = at.saturating_add(new);
        at
    }

    /// The text after that many characters, and the number of characters before it.
    fn rest(&self, known: u64) -> Option<(u64, Arc<str>)> {
        // Who claims to know more than there is, knows another text.
        let from = if known > self.chars { 0 } else { known };
        let start = self.text.char_indices().nth(usize::try_from(from).ok()?).map(|(start, _)| start)?;
        self.text.get(start..).map(|rest| (from, rest.into()))
    }
}

/// What no entry contains yet.
#[derive(Debug, Default)]
pub struct InFlight {
    turn: Option<TurnId>,
    /// The number of the model call in the turn.
    call: u32,
    text: Stream,
    thinking: Stream,
    /// The proposed tool calls of the answer, each with its arguments so far.
    proposed: Vec<(Arc<ToolCall>, Stream)>,
    /// The running tools, each with its latest output.
    running: Vec<(Arc<ToolCall>, Option<Arc<ToolOutput>>)>,
}

impl InFlight {
    /// Takes in an event before it is sent, and gives a delta its place.
    pub fn note(&mut self, event: &mut Event) {
        match &event.body {
            Body::AssistantDelta(_)
            | Body::ThinkingDelta(_)
            | Body::ToolStart(_)
            | Body::ToolDelta { .. } => {
                self.enter(event.turn.as_ref());
            }
            // The call that failed is over, whatever it has shown.
            Body::RetryAwaited(_) => self.answered(),
            Body::CompactionStarted { .. } if self.has_shown() => self.answered(),
            // One that could not be saved; any other is noted as an entry.
            Body::AssistantMessage(_) if event.entry.is_none() && event.turn == self.turn => self.answered(),
            Body::TurnEnded(_) => *self = Self::default(),
            _ => {}
        }
        let at = match &event.body {
            Body::AssistantDelta(text) => self.text.push(text),
            Body::ThinkingDelta(text) => self.thinking.push(text),
            Body::ToolStart(call) => return self.proposed.push((call.clone(), Stream::default())),
            Body::ToolDelta { tool_id, arguments } => {
                let known = self.proposed.iter_mut().find(|(call, _)| call.id == *tool_id);
                known.map_or(0, |(_, stream)| stream.push(arguments))
            }
            Body::ToolExecuting(call) => return self.running.push((call.clone(), None)),
            Body::ToolUpdate(output) => {
                let known = self.running.iter_mut().find(|(call, _)| call.id == output.call.id);
                return known.into_iter().for_each(|(_, latest)| *latest = Some(output.clone()));
            }
            Body::ToolResult(output) => return self.running.retain(|(call, _)| call.id != output.call.id),
            _ => return,
        };
        event.piece = Some(Piece { call: self.call, at });
    }

    /// Takes in a message that is on disk: nothing of it is in flight any more.
    pub fn written(&mut self, message: &Message) {
        match message.role {
            Role::Assistant if message.turn_id == self.turn => self.answered(),
            Role::Tool => {
                self.running.retain(|(call, _)| Some(&call.id) != message.tool_call_id.as_ref());
            }
            _ => {}
        }
    }

    /// What a client is shown that has everything on disk, and `known` of the running answer.
    pub fn shown(&self, known: Option<&InAnswer>) -> Vec<(Body, Option<Piece>)> {
        let known = known.filter(|known| Some(&known.turn) == self.turn.as_ref() && known.call == self.call);
        let piece = |at| Some(Piece { call: self.call, at });
        let mut shown = Vec::new();
        if let Some((at, text)) = self.thinking.rest(known.map_or(0, |known| known.thinking)) {
            shown.push((Body::ThinkingDelta(text), piece(at)));
        }
        if let Some((at, text)) = self.text.rest(known.map_or(0, |known| known.chars)) {
            shown.push((Body::AssistantDelta(text), piece(at)));
        }
        for (call, arguments) in &self.proposed {
            shown.push((Body::ToolStart(call.clone()), None));
            if let Some((at, arguments)) = arguments.rest(0) {
                shown.push((Body::ToolDelta { tool_id: call.id.clone(), arguments }, piece(at)));
            }
        }
        for (call, output) in &self.running {
            shown.push((Body::ToolExecuting(call.clone()), None));
            shown.extend(output.clone().map(|output| (Body::ToolUpdate(output), None)));
        }
        shown
    }

    /// The turn of what is in flight.
    pub fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref()
    }

    fn enter(&mut self, turn: Option<&TurnId>) {
        if self.turn.as_ref() != turn {
            *self = Self { turn: turn.cloned(), ..Self::default() };
        }
        self.call = self.call.max(1);
    }

    /// The model call is over.
    fn answered(&mut self) {
        self.call = self.call.max(1).saturating_add(1);
        self.text = Stream::default();
        self.thinking = Stream::default();
        self.proposed.clear();
    }

    fn has_shown(&self) -> bool {
        !self.text.text.is_empty() || !self.thinking.text.is_empty() || !self.proposed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(turn: &str, text: &str) -> Event {
        let body = Body::AssistantDelta(text.into());
        Event {
            session: None,
            offset: 0,
            turn: Some(turn.into()),
            entry: None,
            cause: None,
            piece: None,
            body,
        }
    }

    fn note(in_flight: &mut InFlight, mut event: Event) -> Option<(u32, u64)> {
        in_flight.note(&mut event);
        event.piece.map(|piece| (piece.call, piece.at))
    }

    fn texts(in_flight: &InFlight, known: Option<&InAnswer>) -> Vec<(String, Option<u64>)> {
        let shown = in_flight.shown(known).into_iter();
        shown.map(|(body, piece)| (body.text().unwrap().to_string(), piece.map(|piece| piece.at))).collect()
    }

    #[test]
    fn delta_has_the_characters_before_it() {
        let mut in_flight = InFlight::default();
        assert_eq!(note(&mut in_flight, delta("t", "äö")), Some((1, 0)));
        assert_eq!(note(&mut in_flight, delta("t", "\u{1F600}x")), Some((1, 2)));
        let mut message = Message::new("e".into(), Role::Assistant, Vec::new(), "".into());
        message.turn_id = Some("t".into());
        in_flight.written(&message);
        assert_eq!(texts(&in_flight, None), [], "an answer on disk is not in flight");
        assert_eq!(note(&mut in_flight, delta("t", "second call")), Some((2, 0)));
        assert_eq!(note(&mut in_flight, delta("u", "other turn")), Some((1, 0)));
    }

    #[test]
    fn known_part_of_the_answer_is_not_shown_again() {
        let mut in_flight = InFlight::default();
        note(&mut in_flight, delta("t", "äöü"));
        let known = |turn: &str, call, chars| InAnswer { turn: turn.into(), call, chars, thinking: 0 };
        for (known, expected) in [
            (known("t", 1, 2), &[("ü", 2)][..]),
            (known("t", 1, 3), &[]),
            (known("t", 1, 9), &[("äöü", 0)]),
            (known("t", 2, 2), &[("äöü", 0)]),
            (known("u", 1, 2), &[("äöü", 0)]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(text, at)| ((*text).to_owned(), Some(*at))).collect();
            assert_eq!(texts(&in_flight, Some(&known)), expected, "{known:?}");
        }
    }
}
