//! What a session's turn has shown that no entry contains yet: the text of the running model call, and the running
//! tools with their latest output. A client that comes back is shown it, and every delta gets its place from here.
//!
//! Pure. An answer is bounded where it is read, and so is its copy here.

use std::sync::Arc;

use crate::event::{Body, Event, Piece, ToolCall, ToolOutput};
use crate::message::{Message, Role, TurnId};
use crate::session::InAnswer;

/// One stream of an answer, or what of it is known: of an answer on another host the start may be missing.
#[derive(Debug, Default)]
struct Stream {
    /// The characters before the text.
    from: u64,
    text: String,
    /// The characters up to its end.
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

    /// Adds what is new of a text at a place, and returns it with its place. A gap before it stays.
    fn push_at(&mut self, at: u64, text: &str) -> Option<(u64, Arc<str>)> {
        if at > self.chars {
            *self = Self { from: at, text: String::new(), chars: at };
        }
        let known = usize::try_from(self.chars.saturating_sub(at)).ok()?;
        let (start, _) = text.char_indices().nth(known)?;
        let new = text.get(start..)?;
        Some((self.push(new), new.into()))
    }

    /// The text after that many characters, and the number of characters before it.
    fn rest(&self, known: u64) -> Option<(u64, Arc<str>)> {
        // Who claims to know more than there is, knows another text.
        let from = if known > self.chars { self.from } else { known.max(self.from) };
        let before = usize::try_from(from.saturating_sub(self.from)).ok()?;
        let start = self.text.char_indices().nth(before).map(|(start, _)| start)?;
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
    /// The count of entries with the newest answer among them.
    answered_at: u64,
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
            Body::TurnEnded(_) => *self = Self { answered_at: self.answered_at, ..Self::default() },
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

    /// Takes in a piece of an answer on another host, whose owner had so many entries then and gave it its place. Cuts off
    /// what is known of it. Returns whether there is anything to show: nothing once the answer's entry is here.
    pub fn take_said(&mut self, event: &mut Event, offset: u64) -> bool {
        let Some(Piece { call, at }) = event.piece else { return true };
        if offset < self.answered_at {
            return false;
        }
        self.enter(event.turn.as_ref());
        if call != self.call {
            // A piece of an earlier call comes late, unless another owner counts anew.
            if call < self.call && at > 0 {
                return false;
            }
            self.answered();
            self.call = call;
        }
        let new = match &event.body {
            Body::AssistantDelta(text) => {
                self.text.push_at(at, text).map(|(at, text)| (at, Body::AssistantDelta(text)))
            }
            Body::ThinkingDelta(text) => {
                self.thinking.push_at(at, text).map(|(at, text)| (at, Body::ThinkingDelta(text)))
            }
            _ => None,
        };
        let Some((at, body)) = new else { return false };
        (event.piece, event.body) = (Some(Piece { call, at }), body);
        true
    }

    /// Takes in a message that is on disk, with the count of entries up to it: nothing of it is in flight any more.
    pub fn written(&mut self, message: &Message, offset: u64) {
        if message.role == Role::Assistant {
            self.answered_at = offset;
        }
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
            *self = Self { turn: turn.cloned(), answered_at: self.answered_at, ..Self::default() };
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
        in_flight.written(&message, 2);
        assert_eq!(texts(&in_flight, None), [], "an answer on disk is not in flight");
        assert_eq!(note(&mut in_flight, delta("t", "second call")), Some((2, 0)));
        assert_eq!(note(&mut in_flight, delta("u", "other turn")), Some((1, 0)));
    }

    /// What is shown of a piece of an answer on another host.
    fn said(
        in_flight: &mut InFlight,
        offset: u64,
        call: u32,
        at: u64,
        text: &str,
    ) -> Option<(u32, u64, String)> {
        let mut event = Event { piece: Some(Piece { call, at }), ..delta("t", text) };
        let is_shown = in_flight.take_said(&mut event, offset);
        let piece = event.piece.unwrap();
        is_shown.then(|| (piece.call, piece.at, event.body.text().unwrap().to_string()))
    }

    #[test]
    fn piece_of_another_host_is_shown_once_and_at_its_place() {
        let mut in_flight = InFlight::default();
        let shown = |call, at, text: &str| Some((call, at, text.to_owned()));
        // Who comes later misses the start: the gap is seen by the place.
        assert_eq!(said(&mut in_flight, 1, 1, 3, "dé"), shown(1, 3, "dé"));
        assert_eq!(said(&mut in_flight, 1, 1, 4, "éf"), shown(1, 5, "f"));
        assert_eq!(said(&mut in_flight, 1, 1, 3, "déf"), None);
        assert_eq!(texts(&in_flight, None), [("déf".to_owned(), Some(3))]);
        // The call failed, and its retry says something else; a late piece of the first one is nobody's.
        assert_eq!(said(&mut in_flight, 1, 2, 0, "new"), shown(2, 0, "new"));
        assert_eq!(said(&mut in_flight, 1, 1, 6, "g"), None);
        let mut message = Message::new("e".into(), Role::Assistant, Vec::new(), "".into());
        message.turn_id = Some("t".into());
        in_flight.written(&message, 2);
        assert_eq!(said(&mut in_flight, 1, 2, 3, "er"), None, "its entry is here");
        assert_eq!(said(&mut in_flight, 2, 3, 0, "next"), shown(3, 0, "next"));
        // Another owner continues the turn, and counts its calls anew.
        assert_eq!(said(&mut in_flight, 2, 1, 0, "again"), shown(1, 0, "again"));
        note(&mut in_flight, Event { body: Body::TurnEnded(ended()), ..delta("t", "") });
        assert_eq!(said(&mut in_flight, 1, 2, 3, "er"), None, "also after the turn");
    }

    fn ended() -> Arc<crate::event::TurnEnded> {
        let outcome = crate::event::TurnOutcome::Completed;
        Arc::new(crate::event::TurnEnded {
            outcome,
            stop: None,
            error: None,
            error_kind: None,
            usage: None,
            run: None,
        })
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
