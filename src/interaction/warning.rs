//! Warnings about a question's texts: invisible characters, and characters that make a line look different
//! from what a program reads.
//!
//! Knows the texts of questions and the characters of [`crate::visible`]. Does not know a question's author.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::event::question::QuestionContent;
use crate::facts::rule::Rule;
use crate::value::Value;
use crate::visible::{self, Hidden};

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

/// Texts of a question that a model or a project may have written.
struct Shown<'q> {
    /// Their name in warnings.
    name: &'static str,
    reader: Reader,
    texts: Vec<&'q str>,
    /// Whether they summarise texts before them, whose warnings they do not repeat.
    sums_up: bool,
}

impl<'q> Shown<'q> {
    fn new(name: &'static str, reader: Reader, texts: impl IntoIterator<Item = &'q str>) -> Self {
        Self { name, reader, texts: texts.into_iter().collect(), sums_up: false }
    }

    fn summary(name: &'static str, reader: Reader, text: &'q str) -> Self {
        Self { sums_up: true, ..Self::new(name, reader, [text]) }
    }
}

/// The texts of a question, a summary after the text that it summarises.
fn shown(content: &QuestionContent) -> Vec<Shown<'_>> {
    const TOOL: &str = "The tool's name";
    const CALL: &str = "The summary of the call";
    let prompt = |prompt| Shown::new("The question", Reader::Person, [prompt]);
    match content {
        QuestionContent::Ask { prompt: text }
        | QuestionContent::Password { prompt: text }
        | QuestionContent::Confirm { prompt: text, .. } => vec![prompt(text.as_str())],
        QuestionContent::Select { prompt: text, options } => {
            vec![prompt(text), Shown::new("An option", Reader::Person, options.iter().map(String::as_str))]
        }
        QuestionContent::Approve(approval) => {
            let diff = approval.diff.as_ref().map(|diff| diff.text.as_str());
            let rule = approval.suggested_rule.iter().flat_map(|rule| {
                let Rule { tool, path, command, host, .. } = rule;
                [tool, path, command, host].into_iter().filter_map(|text| text.as_deref())
            });
            vec![
                Shown::new(TOOL, Reader::Paths, [&*approval.tool]),
                Shown::new("The command", Reader::Program, approval.command.as_deref()),
                Shown::new("A path", Reader::Paths, approval.path.as_deref()),
                Shown::new("The diff", Reader::Program, diff),
                Shown::summary(CALL, Reader::Program, &approval.summary),
                Shown::new("The suggested rule", Reader::Program, rule),
            ]
        }
        QuestionContent::DeviceCode { provider, url, code, .. } => vec![
            Shown::new("The provider's name", Reader::Paths, [provider.as_str()]),
            Shown::new("The address", Reader::Paths, [url.as_str()]),
            Shown::new("The code", Reader::Paths, [code.as_str()]),
        ],
        QuestionContent::GrantStageTool(request) => vec![
            Shown::new(TOOL, Reader::Paths, [&*request.tool]),
            Shown::summary(CALL, Reader::Program, &request.args_summary),
            Shown::new("The reason", Reader::Person, [request.reason.as_str()]),
        ],
        QuestionContent::ApproveSubagentEnvelope(request) => {
            let (provider, id) = &request.model;
            vec![
                Shown::summary("The summary of the task", Reader::Person, &request.task_summary),
                Shown::new("A tool's name", Reader::Paths, request.tools.iter().map(String::as_str)),
                Shown::new("The model's name", Reader::Paths, [&**provider, &**id]),
            ]
        }
    }
}

/// The warnings about a question: those that its asker knows, then those about its texts.
pub(super) fn all(content: &QuestionContent, known: &[String]) -> Arc<[String]> {
    let mut sentences = known.to_vec();
    let mut seen: Vec<(Wrong, BTreeSet<char>)> = Vec::new();
    for Shown { name, reader, texts, sums_up } in shown(content) {
        for (wrong, found) in look(|see| texts.into_iter().for_each(see), reader) {
            if sums_up && seen.iter().any(|(known, chars)| *known == wrong && chars.is_superset(&found)) {
                continue;
            }
            sentences.push(sentence(name, wrong, &found));
            seen.push((wrong, found));
        }
    }
    sentences.into()
}

/// The warnings about texts of which the question shows only a part; `what` is their name.
pub fn of(what: &str, text: &Value<'_>) -> Vec<String> {
    let found = look(|see| texts(text, see), Reader::Person);
    found.into_iter().map(|(wrong, found)| sentence(what, wrong, &found)).collect()
}

/// The risks in some texts, each with its characters.
fn look(each: impl FnOnce(&mut dyn FnMut(&str)), reader: Reader) -> Vec<(Wrong, BTreeSet<char>)> {
    let mut found: Vec<(Wrong, BTreeSet<char>)> = Vec::new();
    let mut note = |wrong, c| match found.iter_mut().find(|(known, _)| *known == wrong) {
        Some((_, chars)) => drop(chars.insert(c)),
        None => found.push((wrong, BTreeSet::from([c]))),
    };
    each(&mut |text| {
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
    use crate::event::question::{Approval, EnvelopeRequest, GrantRequest, ShownDiff};

    fn warnings(content: &QuestionContent) -> Vec<String> {
        all(content, &[]).to_vec()
    }

    /// A question with that text, and no other that matters.
    fn with(key: &str, text: String) -> QuestionContent {
        let approve = QuestionContent::Approve;
        let (prompt, options) = (String::new(), vec!["a".to_owned(), text.clone()]);
        let diff = ShownDiff { text: text.clone(), cut: None };
        match key {
            "command" => approve(Approval { command: Some(text), ..Approval::default() }),
            "path" => approve(Approval { path: Some(text), ..Approval::default() }),
            "diff" => approve(Approval { diff: Some(diff), ..Approval::default() }),
            "options" => QuestionContent::Select { prompt, options },
            "task" => QuestionContent::ApproveSubagentEnvelope(EnvelopeRequest {
                subagent: "s".into(),
                parent: "p".into(),
                depth: 1,
                tools: Vec::new(),
                task_summary: text,
                model: ("p".into(), "m".into()),
                agent: None,
            }),
            "args" => QuestionContent::GrantStageTool(GrantRequest {
                stage_execution: String::new(),
                attempt: 0,
                proposal: String::new(),
                tool: "t".into(),
                args_digest: String::new(),
                args_summary: text,
                reason: String::new(),
            }),
            _ => QuestionContent::Ask { prompt: text },
        }
    }

    #[test]
    fn each_text_of_a_question_is_looked_at() {
        for (key, text, expected) in [
            ("command", "ls -l\n\techo é 日本".to_owned(), vec![]),
            (
                "command",
                "echo \u{1b}[2J\u{8}".to_owned(),
                vec!["The command holds control characters (U+0008, U+001B)."],
            ),
            (
                "command",
                ": \u{202e}\u{2066}; touch X #\u{2069} \u{2066}# list\u{2069}".to_owned(),
                vec![
                    "The command holds characters that turn the direction of text (U+202E, U+2066, U+2069): it may \
                     not read as it runs.",
                ],
            ),
            (
                "command",
                "rm\u{a0}-rf".to_owned(),
                vec!["The command holds characters that look like a space and are none (U+00A0)."],
            ),
            (
                "command",
                format!("ls{}; touch X", " ".repeat(100)),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                format!("ls{}touch X", "\n".repeat(21)),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                format!("ls{}; touch X", "\t".repeat(13)),
                vec!["The command goes on after many blanks or empty lines."],
            ),
            (
                "command",
                format!("ls{}; touch X", "x".repeat(1000)),
                vec!["The command has a line of more than 1000 characters: its end may be out of view."],
            ),
            ("command", format!("ls{}\nls", "x".repeat(998)), vec![]),
            (
                "command",
                format!("rm a{}b", "\u{336}".repeat(40)),
                vec!["The command holds marks that are piled up on a letter (U+0336) and drawn over others."],
            ),
            (
                "command",
                "ls \u{fffc}".to_owned(),
                vec!["The command holds characters that are not seen (U+FFFC)."],
            ),
            (
                "diff",
                format!("@@ -1 +1,30 @@\n+ok\n{}+touch X\n", "+\n".repeat(21)),
                vec!["The diff goes on after many blanks or empty lines."],
            ),
            ("diff", format!("+a{}b\n+\n+c  \n\n", " ".repeat(60)), vec![]),
            ("path", "notes.txt\n  [Allow once (y)]".to_owned(), vec!["A path holds a line break."]),
            ("path", "b\u{200b}".to_owned(), vec!["A path holds characters that are not seen (U+200B)."]),
            ("diff", "+windows\r\n".to_owned(), vec![]),
            (
                "diff",
                "+\u{e000}".to_owned(),
                vec!["The diff holds characters for private use (U+E000), which each font draws otherwise."],
            ),
            ("prompt", "Quoi\u{a0}?".to_owned(), vec![]),
            (
                "prompt",
                "\u{1b}]52;c;x\u{7}".to_owned(),
                vec!["The question holds control characters (U+0007, U+001B)."],
            ),
            (
                "options",
                "yes\u{2060}".to_owned(),
                vec!["An option holds characters that are not seen (U+2060)."],
            ),
            (
                "task",
                "tidy\u{feff}".to_owned(),
                vec!["The summary of the task holds characters that are not seen (U+FEFF)."],
            ),
            (
                "args",
                "write a\u{7f}".to_owned(),
                vec!["The summary of the call holds control characters (U+007F)."],
            ),
        ] {
            assert_eq!(warnings(&with(key, text.clone())), expected, "{key} {text}");
        }
    }

    #[test]
    fn a_summary_repeats_no_warning_and_long_lists_are_counted() {
        let command = "\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}";
        let approval =
            Approval { summary: command.into(), command: Some(command.to_owned()), ..Approval::default() };
        assert_eq!(
            warnings(&QuestionContent::Approve(approval)),
            ["The command holds control characters (U+0001, U+0002, U+0003, U+0004 and 2 more)."]
        );
        let question = with("command", "\u{1}".to_owned());
        let all = all(&question, &["First.".to_owned()]);
        assert_eq!(*all, ["First.", "The command holds control characters (U+0001)."]);
    }
}
