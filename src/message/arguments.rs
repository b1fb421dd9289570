//! The arguments of a tool call, or the text that was to be some. Runs nothing.

use std::ops::Deref;
use std::sync::LazyLock;

use crate::value::{Map, Value};

/// The arguments of a tool call. As a value, those that cannot be read are an empty map; nobody may run them.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// A map with keyword keys; nil while unknown.
    Read(Value<'static>),
    /// The text that the model wrote, which is no JSON object.
    Unreadable(Box<UnreadableArguments>),
}

/// Arguments that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableArguments {
    /// The model's text.
    pub text: String,
    /// The error in it.
    pub why: String,
    /// The byte at which reading ended.
    pub at: usize,
}

/// Unreadable arguments as a value: none.
static NONE: LazyLock<Value<'static>> = LazyLock::new(|| Value::from(Map::new()));

/// Longest part of unreadable arguments that is quoted, in characters.
const QUOTED: usize = 200;

impl Arguments {
    /// The text and the error, if they cannot be read.
    pub fn unreadable(&self) -> Option<&UnreadableArguments> {
        match self {
            Self::Read(_) => None,
            Self::Unreadable(unreadable) => Some(unreadable),
        }
    }

    /// Their text for people: EDN, or the model's text.
    pub fn text(&self) -> String {
        match self {
            Self::Read(value) => value.to_string(),
            Self::Unreadable(unreadable) => unreadable.text.clone(),
        }
    }
}

impl Deref for Arguments {
    type Target = Value<'static>;

    fn deref(&self) -> &Value<'static> {
        match self {
            Self::Read(value) => value,
            Self::Unreadable(_) => &NONE,
        }
    }
}

impl From<Value<'static>> for Arguments {
    fn from(value: Value<'static>) -> Self {
        Self::Read(value)
    }
}

impl UnreadableArguments {
    /// The result of the call, with which the model can call again.
    pub fn reply(&self) -> String {
        // Where it went wrong is more often at the end than at the start.
        let start = self.text.char_indices().rev().nth(QUOTED.saturating_sub(1)).map_or(0, |(at, _)| at);
        let cut = if start > 0 { "…" } else { "" };
        let end = self.text.get(start..).unwrap_or_default();
        format!(
            "The arguments of this call are no JSON object, so it was not run: {}, at byte {} of {}. They end with {cut}{end}\n\
             Call the tool again with all its arguments.",
            self.why,
            self.at,
            self.text.len()
        )
    }

    /// As a journal keeps it, and a client is shown it.
    pub(super) fn to_value(&self) -> Value<'static> {
        let mut map = Map::new();
        map.put("text", self.text.clone());
        map.put("why", self.why.clone());
        map.put("at", Value::int(i64::try_from(self.at).unwrap_or(i64::MAX)));
        Value::from(map)
    }

    pub(super) fn from_value(value: &Value<'_>) -> Option<Self> {
        Some(Self {
            text: value.get("text")?.as_str()?.to_owned(),
            why: value.get("why")?.as_str()?.to_owned(),
            at: value.get("at").and_then(Value::as_i64).and_then(|at| usize::try_from(at).ok()).unwrap_or(0),
        })
    }
}

/// Arguments from a journal. Version 0.1 wrote those that cannot be read under a key of the same map.
pub(super) fn from_journal(value: &Value<'_>) -> Arguments {
    let old =
        value.as_map().filter(|map| map.len() == 1).and_then(|map| map.get_keyword("unreadable-arguments"));
    match old.and_then(Value::as_str) {
        Some(text) => {
            let why = "no JSON object".to_owned();
            Arguments::Unreadable(Box::new(UnreadableArguments { text: text.to_owned(), why, at: 0 }))
        }
        None => value.clone().into_owned().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::*;

    fn call(arguments: Arguments) -> Block {
        Block::ToolCall { id: "c".into(), name: "t".into(), arguments }
    }

    #[test]
    fn unreadable_arguments_come_back_from_the_journal() {
        let unreadable =
            UnreadableArguments { text: "{\"a\": ".to_owned(), why: "it ends".to_owned(), at: 6 };
        let written = call(Arguments::Unreadable(Box::new(unreadable)));
        assert_eq!(Block::from_value(&written.to_value()), Some(written));
        let read = call(Value::from(Map::new().with("unreadable-arguments", "x").with("b", 1)).into());
        assert_eq!(
            Block::from_value(&read.to_value()),
            Some(read),
            "a tool may have an argument of that name"
        );
    }

    #[test]
    fn unreadable_arguments_of_old_journal_stay_unreadable() {
        let old = call(Value::from(Map::new().with("unreadable-arguments", "{oops")).into()).to_value();
        let Some(Block::ToolCall { arguments, .. }) = Block::from_value(&old) else { panic!("{old}") };
        assert_eq!(arguments.unreadable().map(|found| found.text.as_str()), Some("{oops"));
    }

    #[test]
    fn reply_quotes_end_of_unreadable_arguments() {
        let text = "é".repeat(1000) + "{end";
        let reply = UnreadableArguments { text, why: "w".to_owned(), at: 9 }.reply();
        assert!(reply.contains("at byte 9 of 2004") && reply.contains("{end\n"), "{reply}");
        assert_eq!(reply.matches('é').count(), QUOTED - 4);
    }
}
