//! A command's output as plain text, as a terminal would show it: redrawn lines count once, and colours, titles and other
//! sequences vanish.
//!
//! Only the line that is being written can change: a command that writes to a pipe has no other. Moves to other lines have no
//! effect. Knows no files and no tools. It is no library's parser, because those keep a title without an end whole, and tell
//! nobody whether a text is plain, which most output is.

use std::fmt::Write as _;

use crate::limits::{TERMINAL_LINE_CHARS, TERMINAL_SEQUENCE_BYTES};

/// The change of the text so far by a piece of output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Bytes that are taken back from the end.
    pub taken_back: usize,
    /// The text that follows then.
    pub added: String,
}

/// The place of the next character in a sequence.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Place {
    /// In none.
    #[default]
    Text,
    /// After an escape.
    Escape,
    /// In a control sequence; its parameters so far.
    Control(String),
    /// In a title or another text for the terminal; whether after an escape, which may end it.
    Hidden(bool),
    /// Before the last character of a sequence of three.
    Last,
}

/// A text as a terminal shows it, in pieces.
#[derive(Debug, Default)]
pub(super) struct TerminalText {
    place: Place,
    /// The line that is being written.
    line: Vec<char>,
    /// The column of the next character in it.
    column: usize,
    /// The text of this line that was added.
    shown: String,
    /// The lines that this piece has ended.
    ended: String,
}

impl TerminalText {
    /// Takes the next piece.
    pub(super) fn push(&mut self, text: &str) -> Change {
        let is_plain = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
        for c in text.chars() {
            if self.place == Place::Text && is_plain(&c) && self.column == self.line.len() {
                self.write(c);
            } else {
                self.take(c);
            }
        }
        let line: String = self.line.iter().collect();
        let new = std::mem::take(&mut self.ended) + &line;
        let same = self.shown.char_indices().zip(new.chars()).take_while(|((_, old), new)| old == new);
        let same = same.last().map_or(0, |((at, c), _)| at.saturating_add(c.len_utf8()));
        let taken_back = self.shown.len().saturating_sub(same);
        self.shown = line;
        Change { taken_back, added: new.get(same..).unwrap_or_default().to_owned() }
    }

    /// Takes a character that may be a part of a sequence.
    fn take(&mut self, c: char) {
        self.place = match (std::mem::take(&mut self.place), c) {
            (Place::Hidden(_), '\u{7}') | (Place::Hidden(true), '\\') => Place::Text,
            (Place::Hidden(_), '\u{1b}') => Place::Hidden(true),
            // Nobody forgets the end of a text on purpose: a line's end is one.
            (Place::Hidden(_), '\n') | (_, '\n') => {
                self.write('\n');
                Place::Text
            }
            (Place::Hidden(_), _) => Place::Hidden(false),
            (_, '\u{1b}') => Place::Escape,
            (Place::Escape, '[') => Place::Control(String::new()),
            (Place::Escape, ']' | 'P' | 'X' | '^' | '_') => Place::Hidden(false),
            (Place::Escape, '(' | ')' | '*' | '+' | '#' | '%' | ' ') => Place::Last,
            (Place::Escape | Place::Last, _) => Place::Text,
            (Place::Control(mut parameters), ' '..='?') => {
                if parameters.len() < TERMINAL_SEQUENCE_BYTES {
                    parameters.push(c);
                }
                Place::Control(parameters)
            }
            (Place::Control(parameters), '@'..='~') => {
                self.control(&parameters, c);
                Place::Text
            }
            (Place::Text | Place::Control(_), c) => {
                self.write(c);
                Place::Text
            }
        };
    }

    /// Carries out a control sequence; one that has no effect on a line's text is passed over.
    fn control(&mut self, parameters: &str, last: char) {
        let number = parameters.split(';').next().and_then(|first| first.parse::<usize>().ok());
        let count = number.unwrap_or(1).clamp(1, TERMINAL_LINE_CHARS);
        match (last, number.unwrap_or(0)) {
            ('K' | 'J', 0) => self.line.truncate(self.column),
            ('K', 1) => {
                let end = self.column.saturating_add(1).min(self.line.len());
                self.line.get_mut(..end).unwrap_or_default().fill(' ');
            }
            ('K' | 'J', 2) => self.line.clear(),
            ('P', _) => {
                let end = self.column.saturating_add(count).min(self.line.len());
                self.line.drain(self.column.min(end)..end);
            }
            ('C', _) => self.column = self.column.saturating_add(count).min(TERMINAL_LINE_CHARS),
            ('D', _) => self.column = self.column.saturating_sub(count),
            ('G', _) => self.column = count.saturating_sub(1),
            _ => {}
        }
    }

    /// Writes a character outside a sequence.
    fn write(&mut self, c: char) {
        match c {
            '\n' => {
                self.ended.extend(self.line.drain(..));
                self.ended.push('\n');
                self.column = 0;
            }
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            c if c.is_control() && c != '\t' => {}
            c => {
                if self.line.len() < self.column {
                    self.line.resize(self.column, ' ');
                }
                match self.line.get_mut(self.column) {
                    Some(old) => *old = c,
                    None => self.line.push(c),
                }
                self.column = self.column.saturating_add(1);
                if self.line.len() > TERMINAL_LINE_CHARS {
                    // A text so far behind is no longer changed.
                    let _ = write!(self.ended, "{}", self.line.drain(..).collect::<String>());
                    self.column = 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of an output that arrives in pieces of so many characters.
    fn shown(output: &str, piece: usize) -> String {
        let (mut terminal, mut text) = (TerminalText::default(), String::new());
        let chars: Vec<char> = output.chars().collect();
        for piece in chars.chunks(piece) {
            let change = terminal.push(&piece.iter().collect::<String>());
            text.truncate(text.len() - change.taken_back);
            text.push_str(&change.added);
        }
        text
    }

    #[test]
    fn output_is_what_terminal_shows_in_any_pieces() {
        for (output, expected) in [
            ("plain\n\ttext é\n", "plain\n\ttext é\n"),
            ("\u{1b}[31mred\u{1b}[0m\rprogress 1\rprogress 2", "progress 2"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("\r", ""),
            ("long line\rshort\n", "shortline\n"),
            ("long line\r\u{1b}[Kshort\n", "short\n"),
            ("\u{1b}[2K\u{1b}[1Gdone\n", "done\n"),
            ("12%\u{8}\u{8}\u{8}34%\n", "34%\n"),
            ("ab\u{1b}[3Cc\u{1b}[4Dx\n", "abx  c\n"),
            ("abcd\r\u{1b}[2Pz\n", "zd\n"),
            ("\u{1b}]0;a title\u{7}text\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\\n", "textlink\n"),
            ("\u{1b}(Btext\u{7}\u{0}\n", "text\n"),
            ("\u{1b}]a title without an end\nnext\n", "\nnext\n"),
            ("one\n\u{1b}[1Atwo\n", "one\ntwo\n"),
            ("   Compiling a\r\u{1b}[K    Building [=>  ] 1/2\r\u{1b}[K   Compiling b\n", "   Compiling b\n"),
        ] {
            for piece in [1, 2, 3, 7, 1000] {
                assert_eq!(shown(output, piece), expected, "{output:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn redraws_count_once_and_nothing_grows_without_bound() {
        let redraws: String = (0..500).map(|n| format!("\r{n:3}% [{:>50}]", "#")).collect();
        assert!(shown(&redraws, 10).len() < 60);
        let mut terminal = TerminalText::default();
        terminal.push(&format!("\u{1b}]{}", "x".repeat(1_000_000)));
        assert_eq!(terminal.line.len() + terminal.shown.len(), 0);
        terminal.push(&format!("\u{7}\u{1b}[{}m", "1;".repeat(100_000)));
        let long = "y".repeat(1_000_000);
        assert_eq!(terminal.push(&long).added, long);
        assert!(terminal.line.len() <= TERMINAL_LINE_CHARS);
        terminal.push("\u{1b}[999999999C\u{1b}[999999999Cz");
        assert!(terminal.line.len() <= TERMINAL_LINE_CHARS + 1);
    }
}
