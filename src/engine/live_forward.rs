//! What the owner of a session says to other hosts meanwhile: which events, and in which pieces. Sends and shows nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::edn;
use crate::event::{Body, CompactionEnded, RetryAwaited, ToolCall, ToolOutput};
use crate::limits::REALM_HINT_BYTES;
use crate::message::TurnId;
use crate::value::Value;

/// What the owner of a session says that no entry has, or none yet. Short, and it may be lost: entries tell the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Word {
    /// The owner's count of entries then.
    pub offset: u64,
    pub turn: Option<TurnId>,
    /// The model call and the characters before, if it is text of an answer.
    pub piece: Option<(u32, u64)>,
    pub said: Utterance,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Utterance {
    Text(String),
    Thinking(String),
    Executing(Tool),
    /// The end of a running tool's output.
    Output(Tool, String),
    Retry(RetryAwaited),
    Compacting(bool),
    Compacted(CompactionEnded),
}

/// A tool call; what it is called with stands in an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Tool {
    id: Arc<str>,
    name: Arc<str>,
    summary: Arc<str>,
}

impl Tool {
    fn of(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: call.name.clone(), summary: start_of(&call.summary) }
    }

    fn read(self) -> Arc<ToolCall> {
        let Self { id, name, summary } = self;
        Arc::new(ToolCall { id, name, summary, arguments: "".into(), parsed: Value::Nil.into() })
    }
}

/// As much of a text as fits beside others into one word.
fn start_of(text: &str) -> Arc<str> {
    text.chars().take(PIECE / 2).collect::<String>().into()
}

impl Utterance {
    /// What of an event other hosts are told.
    pub(super) fn of(body: &Body) -> Option<Self> {
        Some(match body {
            Body::AssistantDelta(text) => Self::Text(text.to_string()),
            Body::ThinkingDelta(text) => Self::Thinking(text.to_string()),
            Body::ToolExecuting(call) => Self::Executing(Tool::of(call)),
            Body::ToolUpdate(output) => {
                let skipped = output.text.chars().count().saturating_sub(PIECE / 2);
                Self::Output(Tool::of(&output.call), output.text.chars().skip(skipped).collect())
            }
            Body::RetryAwaited(retry) => {
                Self::Retry(RetryAwaited { error: start_of(&retry.error), ..RetryAwaited::clone(retry) })
            }
            Body::CompactionStarted { asked } => Self::Compacting(*asked),
            Body::CompactionEnded(ended) => Self::Compacted(CompactionEnded {
                error: ended.error.as_deref().map(start_of),
                ..CompactionEnded::clone(ended)
            }),
            _ => return None,
        })
    }

    /// The same as an event of this host.
    pub(super) fn body(self) -> Body {
        match self {
            Self::Text(text) => Body::AssistantDelta(text.into()),
            Self::Thinking(text) => Body::ThinkingDelta(text.into()),
            Self::Executing(tool) => Body::ToolExecuting(tool.read()),
            Self::Output(tool, text) => Body::ToolUpdate(Arc::new(ToolOutput {
                call: tool.read(),
                text: text.into(),
                is_error: false,
                details: Value::Nil,
                duration_ms: None,
                edit: None,
            })),
            Self::Retry(retry) => Body::RetryAwaited(Arc::new(retry)),
            Self::Compacting(asked) => Body::CompactionStarted { asked },
            Self::Compacted(ended) => Body::CompactionEnded(Arc::new(ended)),
        }
    }
}

/// What is not sent yet, in order, and whether it is being sent.
#[derive(Default)]
pub(super) struct ForwardedEvents {
    pub waiting: Vec<Word>,
    pub is_sending: bool,
}

impl ForwardedEvents {
    /// Adds a word, merged with the last one where it continues with its text or replaces its output.
    pub(super) fn add(&mut self, word: Word) {
        let Some(last) = self.waiting.last_mut().filter(|last| last.turn == word.turn) else {
            return self.waiting.push(word);
        };
        let place = last.piece.map(|(call, at)| (call, at.saturating_add(last.said.chars())));
        match (&mut last.said, &word.said) {
            (Utterance::Text(text), Utterance::Text(more))
            | (Utterance::Thinking(text), Utterance::Thinking(more))
                if place == word.piece =>
            {
                text.push_str(more);
            }
            (Utterance::Output(tool, text), Utterance::Output(same, newer)) if tool == same => {
                text.clone_from(newer);
            }
            _ => self.waiting.push(word),
        }
    }
}

/// Characters of one piece: however they are written, it is no longer than a hint can be.
const PIECE: usize = REALM_HINT_BYTES / 8;

impl Utterance {
    fn chars(&self) -> u64 {
        match self {
            Self::Text(text) | Self::Thinking(text) => u64::try_from(text.chars().count()).unwrap_or(0),
            _ => 0,
        }
    }
}

impl Word {
    /// The pieces that go over the wire.
    pub(super) fn pieces(&self) -> Vec<String> {
        let (text, make): (&str, fn(String) -> Utterance) = match &self.said {
            Utterance::Text(text) => (text, Utterance::Text),
            Utterance::Thinking(text) => (text, Utterance::Thinking),
            _ => return written(self).into_iter().collect(),
        };
        let (mut pieces, mut rest, mut at) = (Vec::new(), text, self.piece);
        while !rest.is_empty() {
            let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(end, _)| end);
            let Some((piece, after)) = rest.split_at_checked(end) else { break };
            let said = make(piece.to_owned());
            let next = at.map(|(call, at)| (call, at.saturating_add(said.chars())));
            pieces.extend(written(&Self { piece: at, said, turn: self.turn.clone(), offset: self.offset }));
            (rest, at) = (after, next);
        }
        pieces
    }
}

fn written(word: &Word) -> Option<String> {
    String::from_utf8(edn::to_vec(word).ok()?).ok()
}

/// What the owner of a session said; `None` for what only a newer program knows.
pub(super) fn heard(said: &str) -> Option<Word> {
    edn::from_value(edn::read_one(said.as_bytes()).ok()?.into_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(at: u64, said: Utterance) -> Word {
        Word { offset: 7, turn: Some("t-1".into()), piece: Some((2, at)), said }
    }

    #[test]
    fn pieces_are_bounded_however_they_are_written() {
        for text in ["plain ", "\u{1}", "\"\\", "\u{1f980}", "é\u{7f}"] {
            let text = text.repeat(3 * PIECE);
            let pieces = word(5, Utterance::Thinking(text.clone())).pieces();
            assert!(pieces.len() >= 3);
            assert!(pieces.iter().all(|piece| piece.len() <= REALM_HINT_BYTES));
            let (mut all, mut next) = (String::new(), 5);
            for piece in &pieces {
                let Word { offset: 7, piece: Some((2, at)), said: Utterance::Thinking(text), .. } =
                    heard(piece).unwrap()
                else {
                    panic!("{piece}")
                };
                assert_eq!(at, next);
                next += text.chars().count() as u64;
                all.push_str(&text);
            }
            assert_eq!(all, text);
            let call = ToolCall {
                id: "c".into(),
                name: "bash".into(),
                summary: text.as_str().into(),
                arguments: text.as_str().into(),
                parsed: Value::Nil.into(),
            };
            let output = Utterance::body(Utterance::Output(Tool::of(&call), text.clone()));
            let pieces = word(0, Utterance::of(&output).unwrap()).pieces();
            assert!(pieces.len() == 1 && pieces[0].len() <= REALM_HINT_BYTES, "{}", pieces[0].len());
        }
        assert!(word(0, Utterance::Text(String::new())).pieces().is_empty());
        assert!(heard("{:offset 1 :said {:of-tomorrow 1}}").is_none());
    }

    #[test]
    fn words_are_merged_where_one_goes_on_with_the_other() {
        let mut words = ForwardedEvents::default();
        let text = |text: &str| Utterance::Text(text.to_owned());
        words.add(word(0, text("äb")));
        words.add(word(2, text("c")));
        words.add(word(5, text("f")));
        words.add(word(0, Utterance::Thinking("hm".to_owned())));
        let tool = Tool { id: "c".into(), name: "bash".into(), summary: "".into() };
        for output in ["1", "12"] {
            let said = Utterance::Output(tool.clone(), output.to_owned());
            words.add(Word { piece: None, ..word(0, said) });
        }
        let said: Vec<Utterance> = words.waiting.into_iter().map(|word| word.said).collect();
        let expected = [
            text("äbc"),
            text("f"),
            Utterance::Thinking("hm".to_owned()),
            Utterance::Output(tool, "12".to_owned()),
        ];
        assert_eq!(said, expected);
    }
}
