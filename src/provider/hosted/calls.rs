//! Assembles tool calls that arrive in pieces, in one machine for all protocols. Knows no protocol.
//!
//! Servers number the pieces, name them by an id, or do neither; some give all calls one number, some a call's
//! arguments whole and in pieces. This module decides which pieces belong together.

use std::collections::HashSet;
use std::sync::Arc;

use super::json;
use super::protocol::{Broken, Out};
use super::surrogates::SurrogateJoiner;
use crate::limits::{ANSWER_TOOL_CALLS, MAX_ANSWER_BYTES};
use crate::message::{Block, Message};
use crate::provider::{AnswerEnd, Chunk};

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct PartialCalls {
    calls: Vec<Building>,
    bytes: usize,
    /// Ids that occur in the conversation already.
    taken: HashSet<Arc<str>>,
}

/// A piece of a call; what the server did not send is empty.
#[derive(Debug, Default)]
pub struct CallPiece<'p> {
    /// The server's number for the call.
    pub key: Option<u64>,
    /// The server's id for it.
    pub id: &'p str,
    /// The tool.
    pub name: &'p str,
    /// More of its arguments.
    pub arguments: String,
}

#[derive(Debug)]
struct Building {
    key: Option<u64>,
    /// The server's own id; it may be empty, or occur in the conversation already.
    server_id: String,
    id: Arc<str>,
    name: Arc<str>,
    written: String,
    /// The whole arguments, from a server that sends them at once. Those in pieces come first.
    whole: Option<String>,
    joiner: SurrogateJoiner,
    /// Whether the call was shown, which needs a name.
    shown: bool,
    done: bool,
}

impl PartialCalls {
    /// An assembler for the answer to a conversation.
    pub fn new(messages: &[Arc<Message>]) -> Self {
        let blocks = messages.iter().flat_map(|message| &message.content);
        let taken = blocks.filter_map(|block| match block {
            Block::ToolCall { id, .. } => Some(id.clone()),
            _ => None,
        });
        Self { calls: Vec::new(), bytes: 0, taken: taken.collect() }
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a call has that number.
    pub fn has_key(&self, key: u64) -> bool {
        self.calls.iter().any(|call| call.key == Some(key))
    }

    /// The place of the open call with that number.
    pub fn open(&self, key: u64) -> Option<usize> {
        self.calls.iter().rposition(|call| call.key == Some(key) && !call.done)
    }

    /// The place of the call with that id of the server, else of the open one with that number.
    pub fn find(&self, id: &str, key: u64) -> Option<usize> {
        let named = self.calls.iter().rposition(|call| !id.is_empty() && call.server_id == id);
        named.or_else(|| self.open(key))
    }

    /// Takes a piece that says as much of its call as its server likes: it begins one, or belongs to one.
    pub fn piece(&mut self, piece: CallPiece<'_>, out: &mut Out) -> Result<(), Broken> {
        let place = self.place(piece.key, piece.id).filter(|place| !self.is_new(*place, &piece));
        let CallPiece { key, id, name, arguments } = piece;
        let at = match place {
            Some(place) => place,
            // There is nothing that it could belong to, or do.
            None if id.is_empty() && name.is_empty() && arguments.is_empty() => return Ok(()),
            None => self.begin(key, id, name, out)?,
        };
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.name.is_empty() && !name.is_empty() {
            call.name = name.into();
        }
        if call.server_id.is_empty() {
            id.clone_into(&mut call.server_id);
        }
        self.add(at, arguments, out)
    }

    /// The place of the call to which a piece may belong.
    fn place(&self, key: Option<u64>, id: &str) -> Option<usize> {
        let find = |wanted: &dyn Fn(&Building) -> bool| self.calls.iter().rposition(wanted);
        match key {
            Some(_) => {
                let same = |call: &Building| call.key == key && !id.is_empty() && call.server_id == id;
                find(&same).or_else(|| find(&|call| call.key == key))
            }
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => find(&|call| call.server_id == id).or(self.calls.len().checked_sub(1)),
        }
    }

    /// Whether a piece begins a call after the one at that place.
    fn is_new(&self, place: usize, piece: &CallPiece<'_>) -> bool {
        let Some(call) = self.calls.get(place) else { return true };
        let CallPiece { key, id, name, arguments } = piece;
        if !id.is_empty() && *id == call.server_id {
            return false;
        }
        // Most pieces: their cost must not grow with the arguments.
        if id.is_empty() && name.is_empty() {
            return false;
        }
        let is_whole = || call.written.trim_end().ends_with('}') && json::is_whole(&call.written);
        if !id.is_empty() && !call.server_id.is_empty() {
            // A proxy may give each piece another id. Such a piece has no name, which comes once.
            return !name.is_empty() || (!arguments.is_empty() && is_whole());
        }
        // A call without arguments, and one of another tool.
        let is_other = key.is_none() && call.written.is_empty() && **name != *call.name;
        !name.is_empty() && !call.name.is_empty() && (is_other || is_whole())
    }

    /// Starts a call. Replaces an id that is missing or was used before, because small servers count from
    /// zero in every answer.
    pub fn begin(
        &mut self,
        key: Option<u64>,
        server_id: &str,
        name: &str,
        out: &mut Out,
    ) -> Result<usize, Broken> {
        if self.calls.len() >= ANSWER_TOOL_CALLS {
            return Err(Broken::TooLarge(format!("more than {ANSWER_TOOL_CALLS} tool calls")));
        }
        let mut id: Arc<str> = server_id.into();
        if id.is_empty() || !self.taken.insert(id.clone()) {
            id = format!("call_{}", uuid::Uuid::new_v4().simple()).into();
        }
        let at = self.calls.len();
        let mut call = Building {
            key,
            server_id: server_id.to_owned(),
            id,
            name: name.into(),
            written: String::new(),
            whole: None,
            joiner: SurrogateJoiner::default(),
            shown: false,
            done: false,
        };
        call.show(at, String::new(), out);
        self.calls.push(call);
        Ok(at)
    }

    /// Adds to the arguments of the open call with that number. A piece of something else, such as a call of the
    /// server's own tools, is nothing.
    pub fn more(&mut self, key: u64, arguments: String, out: &mut Out) -> Result<(), Broken> {
        self.open(key).map_or(Ok(()), |at| self.add(at, arguments, out))
    }

    fn add(&mut self, at: usize, arguments: String, out: &mut Out) -> Result<(), Broken> {
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        let delta = call.joiner.join(arguments);
        self.bytes = self.bytes.saturating_add(delta.len());
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Broken::TooLarge(format!("tool calls of more than {MAX_ANSWER_BYTES} bytes")));
        }
        call.written.push_str(&delta);
        call.show(at, delta, out);
        Ok(())
    }

    /// Sets the whole arguments of the call at a place, if it is open. They count if the pieces did not come, or not all.
    pub fn whole(&mut self, at: usize, whole: &str) -> Result<(), Broken> {
        let Some(call) = self.calls.get_mut(at).filter(|call| !call.done) else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(whole.len().saturating_sub(call.written.len()));
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Broken::TooLarge(format!("tool calls of more than {MAX_ANSWER_BYTES} bytes")));
        }
        call.whole = Some(whole.to_owned());
        Ok(())
    }

    /// Ends the call at a place, if it is open.
    pub fn finish(&mut self, at: usize, out: &mut Out) {
        if let Some(call) = self.calls.get_mut(at).filter(|call| !call.done) {
            call.finish(at, out);
        }
    }

    /// Ends the open calls with their answer, for a protocol that tells the end of each call: if one has no arguments yet, or
    /// half of them, the answer is broken.
    pub fn close(&mut self, end: AnswerEnd, out: &mut Out) -> AnswerEnd {
        let end = if self.has_half() { end.in_call() } else { end };
        if !end.is_broken() {
            self.finish_all(out);
        }
        end
    }

    /// Whether a call is open whose arguments did not come, or do not end.
    fn has_half(&self) -> bool {
        let is_half = |call: &Building| !call.done && call.whole.is_none() && !json::is_whole(&call.written);
        self.calls.iter().any(is_half)
    }

    /// Ends all open calls.
    pub fn finish_all(&mut self, out: &mut Out) {
        for (at, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| !call.done) {
            call.finish(at, out);
        }
    }
}

impl Building {
    /// Shows more of the call; all of it so far, once it has a name.
    fn show(&mut self, index: usize, delta: String, out: &mut Out) {
        if self.name.is_empty() || (self.shown && delta.is_empty()) {
            return;
        }
        let delta = if std::mem::replace(&mut self.shown, true) { delta } else { self.written.clone() };
        out.push_back(Chunk::ToolArguments { index, id: self.id.clone(), name: self.name.clone(), delta });
    }

    fn finish(&mut self, index: usize, out: &mut Out) {
        self.done = true;
        self.written.extend(self.joiner.end());
        if let Some(whole) = self.whole.take().filter(|_| !json::is_whole(&self.written)) {
            let is_first = self.written.is_empty();
            self.written = self.joiner.join(whole);
            self.written.extend(self.joiner.end());
            if is_first {
                self.show(index, self.written.clone(), out);
            }
        }
        let arguments = json::arguments(&std::mem::take(&mut self.written));
        out.push_back(Chunk::ToolCall { id: self.id.clone(), name: self.name.clone(), arguments });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that pieces come to, each as its name and arguments. A piece is its number, id, name and arguments.
    fn calls(pieces: &[(Option<u64>, &str, &str, &str)]) -> Vec<(String, String)> {
        let (mut calls, mut out) = (PartialCalls::default(), Out::new());
        for (key, id, name, arguments) in pieces {
            let piece = CallPiece { key: *key, id, name, arguments: (*arguments).to_owned() };
            calls.piece(piece, &mut out).unwrap();
        }
        calls.finish_all(&mut out);
        // The deltas of a call are its arguments.
        let mut shown = vec![String::new(); calls.len()];
        let mut whole = Vec::new();
        for chunk in out {
            match chunk {
                Chunk::ToolArguments { index, delta, .. } => shown[index].push_str(&delta),
                Chunk::ToolCall { name, arguments, .. } => whole.push((name.to_string(), arguments.text())),
                other => panic!("{other:?}"),
            }
        }
        for ((name, text), shown) in whole.iter().zip(shown) {
            let read = json::arguments(&shown);
            assert!(name.is_empty() || read.text() == *text, "{name} {text} was shown as {shown:?}");
        }
        whole
    }

    #[test]
    fn pieces_belong_to_their_calls() {
        const A: &str = r#"{"a":1}"#;
        const B: &str = r#"{"b":2}"#;
        for (about, pieces, expected) in [
            (
                "one number for all",
                &[(Some(0), "x", "f", A), (Some(0), "y", "g", B)][..],
                &[("f", "{:a 1}"), ("g", "{:b 2}")][..],
            ),
            (
                "a number and no id",
                &[(Some(0), "", "f", A), (Some(0), "", "g", B)],
                &[("f", "{:a 1}"), ("g", "{:b 2}")],
            ),
            (
                "neither number nor id, in pieces",
                &[(None, "", "f", r#"{"a""#), (None, "", "", ":1}"), (None, "", "f", ""), (None, "", "", B)],
                &[("f", "{:a 1}"), ("f", "{:b 2}")],
            ),
            (
                "two calls without arguments",
                &[(None, "", "f", ""), (None, "", "g", "")],
                &[("f", "{}"), ("g", "{}")],
            ),
            (
                "an id for each piece",
                &[
                    (None, "x", "f", r#"{"a""#),
                    (None, "y", "g", ""),
                    (None, "x", "", ":1}"),
                    (None, "y", "", B),
                ],
                &[("f", "{:a 1}"), ("g", "{:b 2}")],
            ),
            (
                "a proxy's new id in each piece",
                &[
                    (Some(0), "x", "f", ""),
                    (Some(0), "y", "", r#"{"a""#),
                    (Some(0), "z", "", ":1}"),
                    (Some(0), "w", "", ""),
                ],
                &[("f", "{:a 1}")],
            ),
            ("a late name", &[(Some(0), "x", "", r#"{"a":"#), (Some(0), "", "f", "1}")], &[("f", "{:a 1}")]),
            (
                "a name in each piece",
                &[(Some(0), "x", "f", r#"{"a":"#), (Some(0), "x", "f", "1}")],
                &[("f", "{:a 1}")],
            ),
            (
                "numbers that mix",
                &[(Some(0), "x", "f", r#"{"a":"#), (Some(1), "y", "g", B), (Some(0), "", "", "1}")],
                &[("f", "{:a 1}"), ("g", "{:b 2}")],
            ),
            ("nothing", &[(Some(0), "", "", ""), (None, "", "", "")], &[]),
        ] {
            let expected: Vec<_> =
                expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(calls(pieces), expected, "{about}");
        }
    }

    #[test]
    fn whole_arguments_count_where_pieces_are_missing() {
        for (pieces, whole, expected) in [
            ("", r#"{"a":1}"#, "{:a 1}"),
            (r#"{"a":1}"#, r#"{"a":1}"#, "{:a 1}"),
            (r#"{"a""#, r#"{"a":1}"#, "{:a 1}"),
            (r#"{"a":1}"#, "{}", "{:a 1}"),
        ] {
            let (mut calls, mut out) = (PartialCalls::default(), Out::new());
            calls.begin(Some(3), "x", "f", &mut out).unwrap();
            calls.more(3, pieces.to_owned(), &mut out).unwrap();
            calls.more(4, "{\"of\": \"no call\"}".to_owned(), &mut out).unwrap();
            calls.whole(0, whole).unwrap();
            calls.finish(0, &mut out);
            assert!(!calls.has_half());
            let Some(Chunk::ToolCall { arguments, .. }) = out.pop_back() else { panic!("{out:?}") };
            assert_eq!(arguments.text(), expected, "{pieces} and {whole}");
        }
    }

    #[test]
    fn call_without_its_end_is_half() {
        for (pieces, is_half) in [("", true), ("{}", false), (r#"{"a":"#, true)] {
            let (mut calls, mut out) = (PartialCalls::default(), Out::new());
            calls.begin(Some(0), "x", "f", &mut out).unwrap();
            calls.more(0, pieces.to_owned(), &mut out).unwrap();
            assert_eq!(calls.has_half(), is_half, "{pieces}");
        }
    }
}
