//! Passes on an answer's text and thinking, each in whole characters. Knows no protocol.

use super::protocol::Out;
use super::surrogates::SurrogateJoiner;
use super::thinking_tags::ThinkingTags;
use crate::provider::{Chunk, ModelRequest};

/// The text and the thinking of one answer.
#[derive(Debug, Default)]
pub struct TextDeltas {
    text: SurrogateJoiner,
    thinking: SurrogateJoiner,
    /// For a model that writes its thinking into its text.
    tags: Option<ThinkingTags>,
    /// The characters of the text so far; of no use where thinking is taken out of it.
    chars: u64,
}

impl TextDeltas {
    /// Those of the answer to a call.
    pub fn new(request: &ModelRequest) -> Self {
        Self { tags: request.thinking_tags.then(ThinkingTags::default), ..Self::default() }
    }

    /// The characters of the text so far; `None` where thinking is taken out of it.
    pub fn chars(&self) -> Option<u64> {
        self.tags.is_none().then_some(self.chars)
    }

    /// More text, which ends the thinking before it.
    pub fn text(&mut self, delta: String, out: &mut Out) {
        if delta.is_empty() {
            return;
        }
        self.end_thinking(out);
        let delta = self.text.join(delta);
        self.emit(delta, out);
    }

    /// More thinking, which ends the text before it; returns the part of it that is complete.
    pub fn thinking(&mut self, delta: String, out: &mut Out) -> String {
        if delta.is_empty() {
            return delta;
        }
        self.end_text(out);
        let delta = self.thinking.join(delta);
        if !delta.is_empty() {
            out.push_back(Chunk::Thinking(delta.clone()));
        }
        delta
    }

    /// The end of a part, or of the answer.
    pub fn end(&mut self, out: &mut Out) {
        self.end_thinking(out);
        self.end_text(out);
    }

    fn end_thinking(&mut self, out: &mut Out) {
        out.extend(self.thinking.end().map(|half| Chunk::Thinking(half.into())));
    }

    fn end_text(&mut self, out: &mut Out) {
        if let Some(half) = self.text.end() {
            self.emit(half.into(), out);
        }
        if let Some(tags) = &mut self.tags {
            tags.end(out);
        }
    }

    fn emit(&mut self, text: String, out: &mut Out) {
        match &mut self.tags {
            Some(tags) => tags.push(&text, out),
            None if text.is_empty() => {}
            None => {
                let count = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                self.chars = self.chars.saturating_add(count);
                out.push_back(Chunk::Text(text));
            }
        }
    }
}
