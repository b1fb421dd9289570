//! Warnings about a question's texts: invisible characters, and characters that make a line look different
//! from what a program reads.
//!
//! Knows the keys of questions and the characters of [`crate::visible`]. Knows neither the question nor its
//! author.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::value::{Map, Value};
use crate::visible::{self, Hidden};

/// The key of a payload's warnings.
pub const KEY: &str = "warnings";

/// Blanks after which the rest of a line, and empty lines after which the rest of a text, may be out of view.
const FAR: usize = 100;
const LOW: usize = 20;

/// The longest line that every frontend shows whole. A longer one may be cut, or its end may be out of view.
const LONG: usize = 1000;

/// The columns of a tab, at most.
const TAB: usize = 8;

/// Distinct characters that one warning names; further ones are counted.
const NAMED: usize = 4;

/// The risk in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    Hidden(Hidden),
    Blank,
    LineBreak,
    OutOfView,
    LongLine,
}

/// The reader of a text: a trick for one is ordinary for the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// A program: a wide blank is not a blank, and lines end commands.
    Program,
    /// The file system: a line break is part of the name.
    Paths,
    /// A person: a wide blank is typography.
    Person,
}

/// The texts of a payload that a model or a project may have written: key, name in warnings, and reader. A
/// summary follows the text that it summarises.
const TEXTS: &[(&str, &str, Reader)] = &[
    ("tool", "The tool's name", Reader::Paths),
    ("command", "The command", Reader::Program),
    ("paths", "A path", Reader::Paths),
    ("diff", "The diff", Reader::Program),
    ("call-summary", "The summary of the call", Reader::Program),
    ("args-summary", "The summary of the call", Reader::Program),
    ("prompt-summary", "The summary of the task", Reader::Person),
    ("prompt", "The question", Reader::Person),
    ("placeholder", "The question", Reader::Person),
    ("options", "An option", Reader::Person),
    ("requested-envelope", "A tool's name", Reader::Paths),
    ("reason", "The reason", Reader::Person),
    ("provider", "The provider's name", Reader::Paths),
    ("url", "The address", Reader::Paths),
    ("code", "The code", Reader::Paths),
    ("suggested-rule", "The suggested rule", Reader::Program),
    ("model", "The model's name", Reader::Paths),
];

/// Puts warnings into a payload without warnings.
pub fn put(payload: &mut Map<'static>, warnings: Vec<String>) {
    if !warnings.is_empty() {
        payload.put(KEY, Value::vector(warnings.into_iter().map(Value::from)));
    }
}

/// Adds the warnings about a question's texts to its payload, after existing ones. A payload without warnings
/// does not have the key.
pub(super) fn add(payload: &mut Map<'static>) {
    let mut sentences: Vec<Value<'static>> =
        payload.get_keyword(KEY).and_then(Value::as_slice).map(<[_]>::to_vec).unwrap_or_default();
    let mut seen: Vec<(Wrong, BTreeSet<char>)> = Vec::new();
    for (key, what, reader) in TEXTS {
        let Some(value) = payload.get_keyword(key) else { continue };
        for (wrong, found) in look(value, *reader) {
            // A summary repeats its text.
            let sums_up = key.ends_with("-summary");
            if sums_up && seen.iter().any(|(known, chars)| *known == wrong && chars.is_superset(&found)) {
                continue;
            }
            sentences.push(Value::from(sentence(what, wrong, &found)));
            seen.push((wrong, found));
        }
    }
    if !sentences.is_empty() {
        payload.put(KEY, Value::vector(sentences));
    }
}

/// The warnings about a text of which the payload shows only a part; `what` is its name.
pub fn of(what: &str, text: &Value<'_>) -> Vec<String> {
    look(text, Reader::Person).into_iter().map(|(wrong, found)| sentence(what, wrong, &found)).collect()
}

/// The risks in the texts of a value, each with its characters.
fn look(value: &Value<'_>, reader: Reader) -> Vec<(Wrong, BTreeSet<char>)> {
    let mut found: Vec<(Wrong, BTreeSet<char>)> = Vec::new();
    let mut note = |wrong, c| match found.iter_mut().find(|(known, _)| *known == wrong) {
        Some((_, chars)) => drop(chars.insert(c)),
        None => found.push((wrong, BTreeSet::from([c]))),
    };
    texts(value, &mut |text| {
        // Most texts are ASCII, and long ones are diffs.
        let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'));
        if !plain {
            visible::hidden(text).for_each(|(_, c, hidden)| note(Wrong::Hidden(hidden), c));
            if reader != Reader::Person {
                text.chars().filter(|c| visible::is_blank(*c)).for_each(|c| note(Wrong::Blank, c));
            }
        }
        if reader == Reader::Program && is_out_of_view(text) {
            note(Wrong::OutOfView, ' ');
        }
        if reader == Reader::Program && text.split('\n').any(|line| line.chars().nth(LONG).is_some()) {
            note(Wrong::LongLine, ' ');
        }
        if reader == Reader::Paths && text.contains(['\n', '\r']) {
            note(Wrong::LineBreak, '\n');
        }
    });
    found.sort();
    found
}

/// Whether a text goes on after many blanks or many empty lines.
fn is_out_of_view(text: &str) -> bool {
    let (mut blanks, mut ends) = (0_usize, 0_usize);
    text.chars().any(|c| {
        match c {
            '\n' => (blanks, ends) = (0, ends.saturating_add(1)),
            '\t' => blanks = blanks.saturating_add(TAB),
            c if c.is_whitespace() => blanks = blanks.saturating_add(1),
            // A diff marks its lines.
            '+' | '-' if blanks == 0 && ends > 0 => {}
            _ if blanks >= FAR || ends > LOW => return true,
            _ => (blanks, ends) = (0, 0),
        }
        false
    })
}

/// Calls `look` with each text of a value, including keys of maps.
fn texts(value: &Value<'_>, look: &mut dyn FnMut(&str)) {
    match value {
        Value::Str(text) => look(text),
        Value::Vector(items) | Value::List(items) => items.iter().for_each(|item| texts(item, look)),
        Value::Set(items) => items.iter().for_each(|item| texts(item, look)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            texts(key, look);
            texts(value, look);
        }),
        _ => {}
    }
}

fn sentence(what: &str, wrong: Wrong, found: &BTreeSet<char>) -> String {
    let mut codes = String::new();
    for c in found.iter().take(NAMED) {
        let separator = if codes.is_empty() { "" } else { ", " };
        let _ = write!(codes, "{separator}U+{:04X}", u32::from(*c));
    }
    if let Some(more @ 1..) = found.len().checked_sub(NAMED) {
        let _ = write!(codes, " and {more} more");
    }
    match wrong {
        Wrong::Hidden(Hidden::Control) => format!("{what} holds control characters ({codes})."),
        Wrong::Hidden(Hidden::Direction) => {
            format!(
                "{what} holds characters that turn the direction of text ({codes}): it may not read as it runs."
            )
        }
        Wrong::Hidden(Hidden::Invisible) => format!("{what} holds characters that are not seen ({codes})."),
        Wrong::Hidden(Hidden::Private) => {
            format!("{what} holds characters for private use ({codes}), which each font draws otherwise.")
        }
        Wrong::Hidden(Hidden::Piled) => {
            format!("{what} holds marks that are piled up on a letter ({codes}) and drawn over others.")
        }
        Wrong::Blank => format!("{what} holds characters that look like a space and are none ({codes})."),
        Wrong::LineBreak => format!("{what} holds a line break."),
        Wrong::OutOfView => format!("{what} goes on after many blanks or empty lines."),
        Wrong::LongLine => {
            format!("{what} has a line of more than {LONG} characters: its end may be out of view.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(payload: Map<'static>) -> Vec<String> {
        let mut payload = payload;
        add(&mut payload);
        let all = payload.get_keyword(KEY).and_then(Value::as_slice).unwrap_or_default();
        all.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_text_of_a_question_is_looked_at() {
        for (key, value, expected) in [
            ("command", Value::from("ls -l\n\techo é 日本"), vec![]),
            (
                "command",
                Value::from("echo \u{1b}[2J\u{8}"),
                vec!["The command holds control characters (U+0008, U+001B)."],
            ),
            (
                "command",
                Value::from(": \u{202e}\u{2066}; touch X #\u{2069} \u{2066}# list\u{2069}"),
                vec![
                    "The command holds characters that turn the direction of text (U+202E, U+2066, U+2069): it may \
                     not read as it runs.",
                ],
            ),
            (
                "command",
                Value::from("rm\u{a0}-rf"),
                vec!["The command holds characters that look like a space and are none (U+00A0)."],
            ),
            (
                "command",
                Value::from(format!("ls{}; touch X", " ".repeat(100))),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                Value::from(format!("ls{}touch X", "\n".repeat(21))),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                Value::from(format!("ls{}; touch X", "\t".repeat(13))),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                Value::from(format!("ls{}; touch X", "x".repeat(1000))),
                vec!["The command has a line of more than 1000 characters: its end may be out of view."],
            ),
            ("command", Value::from(format!("ls{}\nls", "x".repeat(998))), vec![]),
            (
                "command",
                Value::from(format!("rm a{}b", "\u{336}".repeat(40))),
                vec!["The command holds marks that are piled up on a letter (U+0336) and drawn over others."],
            ),
            (
                "command",
                Value::from("ls \u{fffc}"),
                vec!["The command holds characters that are not seen (U+FFFC)."],
            ),
            (
                "diff",
                Value::from(format!("@@ -1 +1,30 @@\n+ok\n{}+touch X\n", "+\n".repeat(21))),
                vec!["The diff goes on after many blanks or empty lines."],
            ),
            ("diff", Value::from(format!("+a{}b\n+\n+c  \n\n", " ".repeat(60))), vec![]),
            (
                "paths",
                Value::vector([Value::from("notes.txt\n  [Allow once (y)]")]),
                vec!["A path holds a line break."],
            ),
            (
                "paths",
                Value::vector([Value::from("a"), Value::from("b\u{200b}")]),
                vec!["A path holds characters that are not seen (U+200B)."],
            ),
            ("diff", Value::from("+windows\r\n"), vec![]),
            (
                "diff",
                Value::from("+\u{e000}"),
                vec!["The diff holds characters for private use (U+E000), which each font draws otherwise."],
            ),
            ("prompt", Value::from("Quoi\u{a0}?"), vec![]),
            (
                "prompt",
                Value::from("\u{1b}]52;c;x\u{7}"),
                vec!["The question holds control characters (U+0007, U+001B)."],
            ),
            (
                "options",
                Value::vector([Value::from(Map::new().with("label", "yes\u{2060}").with("value", "yes"))]),
                vec!["An option holds characters that are not seen (U+2060)."],
            ),
            (
                "prompt-summary",
                Value::from("tidy\u{feff}"),
                vec!["The summary of the task holds characters that are not seen (U+FEFF)."],
            ),
            (
                "args-summary",
                Value::from("write a\u{7f}"),
                vec!["The summary of the call holds control characters (U+007F)."],
            ),
        ] {
            assert_eq!(warnings(Map::new().with(key, value.clone())), expected, "{key} {value}");
        }
    }

    #[test]
    fn a_summary_repeats_no_warning_and_long_lists_are_counted() {
        let command = "\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}";
        let payload = Map::new().with("call-summary", command).with("command", command);
        assert_eq!(
            warnings(payload),
            ["The command holds control characters (U+0001, U+0002, U+0003, U+0004 and 2 more)."]
        );
        let payload = Map::new().with(KEY, Value::vector([Value::from("First.")])).with("command", "\u{1}");
        assert_eq!(warnings(payload), ["First.", "The command holds control characters (U+0001)."]);
    }
}
