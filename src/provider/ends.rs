//! The end of an answer: a closed type, and the table of the words with which servers end one.
//!
//! An answer is whole only if the table lists its word as a good end. Any other word, or none, is a broken end, and the
//! person sees the word. Knows no protocol's shapes.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use crate::message::StopReason;
use crate::value::Value;

/// The end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The model finished.
    Complete,
    /// The model asks for tools.
    Calls,
    /// The maximum length was reached.
    Limit,
    /// The provider refused to answer, or to continue; with its reason, or nothing.
    Refused(String),
    /// The server paused, and continues when it receives its own answer.
    Paused,
    /// The answer is not whole.
    Broken {
        /// The server's word and explanation, as the end of a sentence.
        why: String,
        /// When the same call may succeed.
        retry: Retry,
        /// Whether the conversation fills the model's window.
        is_overflow: bool,
    },
}

/// When the same call may succeed, as the provider judges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// At once: the model wrote something that cannot be used.
    Now,
    /// After a pause: an overload, or a lost connection.
    Later,
    /// Never.
    No,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
struct Row {
    end: &'static str,
    retry: Retry,
    is_overflow: bool,
}

/// The rows by protocol and word.
static ENDS: LazyLock<HashMap<(String, String), Row>> = LazyLock::new(|| rows(include_str!("ends.edn")));

/// The names of ends in the table.
const NAMES: [&str; 6] = ["complete", "calls", "limit", "refused", "paused", "broken"];

fn rows(text: &str) -> HashMap<(String, String), Row> {
    // A test reads the table, which is part of the program.
    let table = crate::edn::read_one(text.as_bytes()).unwrap_or(Value::Nil);
    let row = |row: &Value<'_>| {
        let fields = row.as_slice()?;
        let word = |place: usize| fields.get(place).and_then(Value::as_keyword);
        let end = NAMES.into_iter().find(|name| word(2) == Some(*name))?;
        let retry = match word(3) {
            None | Some("no") => Retry::No,
            Some("now") => Retry::Now,
            Some("later") => Retry::Later,
            Some(_) => return None,
        };
        let is_overflow = word(4) == Some("context-overflow");
        let key = (word(0)?.to_owned(), fields.get(1)?.as_str()?.to_owned());
        Some((key, Row { end, retry, is_overflow }))
    };
    table.as_slice().unwrap_or_default().iter().filter_map(row).collect()
}

impl AnswerEnd {
    /// The end that a protocol's word stands for. `explanation` is the server's, and may be empty; `calls` is the number of
    /// calls in the answer.
    pub fn of(protocol: &str, word: &str, explanation: &str, calls: usize) -> Self {
        let row = ENDS.get(&(protocol.to_owned(), word.to_owned()));
        let why = || match (word, explanation) {
            ("", "") => "without saying whether the answer is whole".to_owned(),
            ("", explanation) => format!("with: {explanation}"),
            (word, "") => format!("with {word:?}"),
            (word, explanation) => format!("with {word:?}: {explanation}"),
        };
        let Some(row) = row else {
            return Self::Broken { why: why(), retry: Retry::Later, is_overflow: false };
        };
        match (row.end, calls) {
            ("complete", 0) => Self::Complete,
            // Many servers report an end without calls together with calls.
            ("complete" | "calls", 1..) => Self::Calls,
            ("calls", 0) => {
                let why = format!("{} and without a tool call", why());
                Self::Broken { why, retry: Retry::Later, is_overflow: false }
            }
            ("limit", _) => Self::Limit,
            ("refused", _) => Self::Refused(why()),
            ("paused", _) => Self::Paused,
            _ => Self::Broken { why: why(), retry: row.retry, is_overflow: row.is_overflow },
        }
    }

    /// The same end of an answer whose last call is not complete: a good end is broken then.
    pub fn in_call(self) -> Self {
        match self {
            Self::Complete | Self::Calls | Self::Paused => {
                let why = "in the middle of a tool call".to_owned();
                Self::Broken { why, retry: Retry::Later, is_overflow: false }
            }
            other => other,
        }
    }

    /// Whether the answer is not whole.
    pub const fn is_broken(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// The end that a script names.
    pub fn scripted(reason: StopReason) -> Self {
        match reason {
            StopReason::EndTurn => Self::Complete,
            StopReason::ToolUse => Self::Calls,
            StopReason::MaxTokens => Self::Limit,
            StopReason::Refusal => Self::Refused(String::new()),
            StopReason::Aborted | StopReason::Interrupted | StopReason::Error => {
                Self::Broken { why: reason.as_str().to_owned(), retry: Retry::No, is_overflow: false }
            }
        }
    }

    /// The reason for which a message says that it ended. A pause is the end of no turn.
    pub fn stop_reason(&self) -> StopReason {
        match self {
            Self::Complete | Self::Paused => StopReason::EndTurn,
            Self::Calls => StopReason::ToolUse,
            Self::Limit => StopReason::MaxTokens,
            Self::Refused(_) => StopReason::Refusal,
            Self::Broken { .. } => StopReason::Error,
        }
    }
}

/// A sentence for a person.
impl fmt::Display for AnswerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete | Self::Calls => f.write_str("The answer is complete."),
            Self::Limit => f.write_str("The answer has the maximum length."),
            Self::Refused(why) if why.is_empty() => f.write_str("The model refused."),
            Self::Refused(why) => write!(f, "The model refused, {why}."),
            Self::Paused => f.write_str("The provider paused in its answer."),
            Self::Broken { why, .. } => write!(f, "The provider ended its answer {why}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_ends_is_read() {
        let text = include_str!("ends.edn");
        let table = crate::edn::read_one(text.as_bytes()).unwrap();
        assert_eq!(table.as_slice().unwrap().len(), ENDS.len());
        for ((protocol, word), row) in ENDS.iter() {
            let end = AnswerEnd::of(protocol, word, "", 0);
            let name = match end {
                AnswerEnd::Complete => "complete",
                AnswerEnd::Limit => "limit",
                AnswerEnd::Refused(_) => "refused",
                AnswerEnd::Paused => "paused",
                // Calls without a call.
                AnswerEnd::Broken { .. } if row.end == "calls" => "calls",
                AnswerEnd::Broken { .. } => "broken",
                AnswerEnd::Calls => panic!("{word} gave calls without one"),
            };
            assert_eq!(name, row.end, "{protocol} {word}");
        }
    }

    #[test]
    fn only_listed_word_is_good_end() {
        for (protocol, word, calls, expected) in [
            ("openai", "stop", 0, Some(AnswerEnd::Complete)),
            ("openai", "stop", 2, Some(AnswerEnd::Calls)),
            ("openai", "STOP", 0, None),
            ("openai", "", 0, None),
            ("openai", "tool_calls", 0, None),
            ("openai", "tool_calls", 1, Some(AnswerEnd::Calls)),
            ("gemini", "stop", 0, None),
            ("gemini", "A_NEW_REASON", 0, None),
            ("anthropic", "pause_turn", 0, Some(AnswerEnd::Paused)),
            ("openai-responses", "queued", 0, None),
        ] {
            let end = AnswerEnd::of(protocol, word, "", calls);
            match expected {
                Some(expected) => assert_eq!(end, expected, "{protocol} {word}"),
                None => assert!(
                    matches!(end, AnswerEnd::Broken { retry: Retry::Later, is_overflow: false, .. }),
                    "{protocol} {word}: {end:?}"
                ),
            }
        }
        let AnswerEnd::Broken { why, retry, .. } =
            AnswerEnd::of("gemini", "MALFORMED_RESPONSE", "why it is", 0)
        else {
            panic!("it is whole")
        };
        assert_eq!((why.as_str(), retry), ("with \"MALFORMED_RESPONSE\": why it is", Retry::Now));
    }
}
