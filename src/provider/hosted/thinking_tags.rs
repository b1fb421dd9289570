//! Thinking that a model writes into its text, between `<think>` and `</think>`. Knows no protocol.
//!
//! Only a model whose row in the catalogue has `:thinking-tags` is read so: in the text of another one, such a tag is
//! text.

use super::protocol::Out;
use crate::provider::Chunk;

/// Divides a text at its tags, which may be split between deltas.
#[derive(Debug, Default)]
pub struct ThinkingTags {
    /// The end of the last delta, which may begin a tag.
    pending: String,
    /// Whether the text is inside a pair of tags.
    is_open: bool,
    /// Whether blank space is dropped, because a tag has just come.
    is_after_tag: bool,
}

impl ThinkingTags {
    /// Appends a delta of the text.
    pub fn push(&mut self, delta: &str, out: &mut Out) {
        let whole = std::mem::take(&mut self.pending) + delta;
        let mut rest = whole.as_str();
        while let Some((before, after)) = rest.split_once(self.tag()) {
            self.emit(before.to_owned(), out);
            rest = after;
            self.is_open = !self.is_open;
            self.is_after_tag = true;
        }
        let tag = self.tag();
        let is_start = |kept: &usize| tag.get(..*kept).is_some_and(|start| rest.ends_with(start));
        let kept = (1..tag.len()).rev().find(is_start).unwrap_or(0);
        let (free, pending) = rest.split_at_checked(rest.len().saturating_sub(kept)).unwrap_or((rest, ""));
        pending.clone_into(&mut self.pending);
        self.emit(free.to_owned(), out);
    }

    /// The end of the text.
    pub fn end(&mut self, out: &mut Out) {
        let rest = std::mem::take(&mut self.pending);
        self.emit(rest, out);
    }

    fn tag(&self) -> &'static str {
        if self.is_open { "</think>" } else { "<think>" }
    }

    fn emit(&mut self, mut text: String, out: &mut Out) {
        if self.is_after_tag {
            text.drain(..text.len().saturating_sub(text.trim_start().len()));
        }
        if text.is_empty() {
            return;
        }
        self.is_after_tag = false;
        out.push_back(if self.is_open { Chunk::Thinking(text) } else { Chunk::Text(text) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_divide_text_wherever_deltas_end() {
        for (text, expected_thinking, expected_text) in [
            ("<think>\nso it is\n</think>\n\nyes", "so it is\n", "yes"),
            ("a<think>b</think> c <think>d</think>e", "bd", "ac e"),
            ("<think></think>done", "", "done"),
            ("<think>never closed", "never closed", ""),
            ("1 <thin 2 </think> <", "", "1 <thin 2 </think> <"),
            ("é<think>日本</think>🎉", "日本", "é🎉"),
        ] {
            let characters: Vec<char> = text.chars().collect();
            for size in 1..=characters.len() {
                let (mut tags, mut out) = (ThinkingTags::default(), Out::new());
                for piece in characters.chunks(size) {
                    tags.push(&piece.iter().collect::<String>(), &mut out);
                }
                tags.end(&mut out);
                let (mut thinking, mut plain) = (String::new(), String::new());
                for chunk in out {
                    match chunk {
                        Chunk::Thinking(piece) => thinking.push_str(&piece),
                        Chunk::Text(piece) => plain.push_str(&piece),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(
                    (thinking.as_str(), plain.as_str()),
                    (expected_thinking, expected_text),
                    "{text} by {size}"
                );
            }
        }
    }
}
