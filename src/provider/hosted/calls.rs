//! Assembles tool calls that arrive in pieces. Knows no protocol.

use std::collections::HashSet;
use std::sync::Arc;

use super::json;
use super::protocol::{Broken, Out};
use crate::limits::{ANSWER_TOOL_CALLS, MAX_ANSWER_BYTES};
use crate::message::{Block, Message};
use crate::provider::Chunk;

/// The calls of one answer.
#[derive(Debug, Default)]
pub struct PartialCalls {
    calls: Vec<Building>,
    bytes: usize,
    /// Ids that occur in the conversation already.
    taken: HashSet<Arc<str>>,
}

#[derive(Debug)]
struct Building {
    /// The protocol's key for the call.
    key: u64,
    id: Arc<str>,
    name: Arc<str>,
    written: String,
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

    /// Whether a call with that key was started.
    pub fn has(&self, key: u64) -> bool {
        self.calls.iter().any(|call| call.key == key)
    }

    /// Starts a call. Replaces an id that is missing or was used before, because small servers count from
    /// zero in every answer.
    pub fn begin(&mut self, key: u64, id: &str, name: &str, out: &mut Out) -> Result<Arc<str>, Broken> {
        if self.calls.len() >= ANSWER_TOOL_CALLS {
            return Err(Broken::Malformed(format!("more than {ANSWER_TOOL_CALLS} tool calls")));
        }
        let mut id: Arc<str> = id.into();
        if id.is_empty() || !self.taken.insert(id.clone()) {
            id = format!("call_{}", uuid::Uuid::new_v4().simple()).into();
        }
        let name: Arc<str> = name.into();
        let index = self.calls.len();
        let first = Chunk::ToolArguments { index, id: id.clone(), name: name.clone(), delta: String::new() };
        out.push_back(first);
        self.calls.push(Building { key, id: id.clone(), name, written: String::new(), done: false });
        Ok(id)
    }

    /// Adds to a call's arguments. A piece of an unknown call is a server's error.
    pub fn more(&mut self, key: u64, delta: &str, out: &mut Out) -> Result<(), Broken> {
        if delta.is_empty() {
            return Ok(());
        }
        let found = self.calls.iter_mut().enumerate().rev().find(|(_, call)| call.key == key && !call.done);
        let Some((index, call)) = found else {
            return Err(Broken::Malformed("a piece of a tool call that was not begun".to_owned()));
        };
        self.bytes = self.bytes.saturating_add(delta.len());
        if self.bytes > MAX_ANSWER_BYTES {
            return Err(Broken::Malformed(format!("tool calls of more than {MAX_ANSWER_BYTES} bytes")));
        }
        call.written.push_str(delta);
        out.push_back(Chunk::ToolArguments {
            index,
            id: call.id.clone(),
            name: call.name.clone(),
            delta: delta.to_owned(),
        });
        Ok(())
    }

    /// Ends a complete call, with its whole arguments if the server repeats them.
    pub fn finish(&mut self, key: u64, whole: Option<&str>, out: &mut Out) {
        let found = self.calls.iter_mut().rev().find(|call| call.key == key && !call.done);
        if let Some(call) = found {
            call.finish(whole, out);
        }
    }

    /// Ends all open calls.
    pub fn finish_all(&mut self, out: &mut Out) {
        for call in self.calls.iter_mut().filter(|call| !call.done) {
            call.finish(None, out);
        }
    }
}

impl Building {
    fn finish(&mut self, whole: Option<&str>, out: &mut Out) {
        self.done = true;
        let written = std::mem::take(&mut self.written);
        let written = whole.filter(|_| written.is_empty()).unwrap_or(&written);
        let arguments = json::arguments(written);
        out.push_back(Chunk::ToolCall { id: self.id.clone(), name: self.name.clone(), arguments });
    }
}
