//! Where something stands in the text of a configuration file, for a person: the line and the column of a key, and what
//! was opened and not closed. Does not know what a value means.

use std::fmt;
use std::path::Path;

use super::edit;
use crate::value::Value;

/// The place of a character: line and column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    line: usize,
    column: usize,
}

impl SourcePosition {
    fn at(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let last = before.rsplit('\n').next().unwrap_or_default();
        let line = before.matches('\n').count().saturating_add(1);
        Self { line, column: last.chars().count().saturating_add(1) }
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What was opened in a text and is not closed where it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opened {
    place: SourcePosition,
    with: char,
}

impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.with {
            '{' => "map",
            '[' => "vector",
            '(' => "list",
            _ => "string",
        };
        write!(f, "; the {what} that opens at {} is not closed", self.place)
    }
}

/// The innermost thing that is open at the end of a text, or where the first closing delimiter does not fit.
pub(super) fn unclosed(text: &str) -> Option<Opened> {
    let mut open: Vec<(usize, char)> = Vec::new();
    let mut all = text.char_indices();
    while let Some((at, c)) = all.next() {
        match c {
            '"' => loop {
                match all.next() {
                    None => return Some(Opened { place: SourcePosition::at(text, at), with: c }),
                    Some((_, '\\')) => drop(all.next()),
                    Some((_, '"')) => break,
                    Some(_) => {}
                }
            },
            // A character, such as \{.
            '\\' => drop(all.next()),
            ';' => drop(all.find(|(_, c)| *c == '\n')),
            '{' | '[' | '(' => open.push((at, c)),
            '}' | ']' | ')' => match open.last() {
                Some((_, opening)) if closes(*opening, c) => drop(open.pop()),
                _ => break,
            },
            _ => {}
        }
    }
    open.last().map(|(at, with)| Opened { place: SourcePosition::at(text, *at), with: *with })
}

const fn closes(opening: char, closing: char) -> bool {
    matches!((opening, closing), ('{', '}') | ('[', ']') | ('(', ')'))
}

/// Where the last of some nested keys stands in a text whose form is a map; `None` if they are not all there.
pub(super) fn of_keys(text: &str, keys: &[Value<'_>]) -> Option<SourcePosition> {
    edit::start_of_keys(text, keys).map(|offset| SourcePosition::at(text, offset))
}

/// A file's text, to tell places in it.
#[derive(Clone, Copy)]
pub(super) struct FileText<'t> {
    /// The file.
    pub path: &'t Path,
    /// Its bytes.
    pub bytes: &'t [u8],
}

impl FileText<'_> {
    /// The file with the place of a key, as far as it is found.
    pub fn place(&self, key: &Value<'_>) -> String {
        self.place_of(std::slice::from_ref(key))
    }

    /// The same of the last of some nested keys.
    pub fn place_of(&self, keys: &[Value<'_>]) -> String {
        self.at(std::str::from_utf8(self.bytes).ok().and_then(|text| of_keys(text, keys)).as_ref())
    }

    /// The places of the elements of the vector under some nested keys, as far as they are found. Reads the text once,
    /// because there may be as many as it has characters.
    pub fn elements(&self, keys: &[Value<'_>]) -> Vec<SourcePosition> {
        let Ok(text) = std::str::from_utf8(self.bytes) else { return Vec::new() };
        let (mut from, mut place) = (0, SourcePosition { line: 1, column: 1 });
        let place_at = |start: usize| {
            let passed = text.get(from..start).unwrap_or_default();
            let lines = passed.matches('\n').count();
            let last = passed.rsplit('\n').next().unwrap_or_default().chars().count();
            let column = if lines > 0 { 1 } else { place.column };
            place = SourcePosition {
                line: place.line.saturating_add(lines),
                column: column.saturating_add(last),
            };
            from = start;
            place
        };
        edit::starts_of_elements(text, keys).into_iter().map(place_at).collect()
    }

    /// The file with a place in it, if that is known.
    pub fn at(&self, place: Option<&SourcePosition>) -> String {
        match place {
            Some(place) => format!("{}:{place}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;

    #[test]
    fn element_of_a_vector_is_found_in_its_file() {
        let text = "{:mode :ask ; [\n :permissions {:rules [{:a [1]} #_{} ; x\n   {:b 2}]}}";
        let file = FileText { path: Path::new("f"), bytes: text.as_bytes() };
        let keys = [Value::keyword("permissions"), Value::keyword("rules")];
        let places: Vec<String> = file.elements(&keys).iter().map(|place| file.at(Some(place))).collect();
        assert_eq!(places, ["f:2:24", "f:3:4"]);
        assert_eq!(file.elements(&keys[..1]), [], "a map has no elements");
        // One line, as a program writes it.
        let many = format!("{{:permissions {{:rules [{}]}}}}", "{}".repeat(1000));
        let file = FileText { path: Path::new("f"), bytes: many.as_bytes() };
        let columns: Vec<usize> = file.elements(&keys).iter().map(|place| place.column).collect();
        assert_eq!(columns, (0..1000).map(|at| 24 + 2 * at).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_not_closed_is_found_where_it_opened() {
        for (text, expected) in [
            ("{:a 1", "the map that opens at 1:1"),
            ("{:a {:b 1\n :c [1 2}", "the vector that opens at 2:5"),
            ("{:a \\{ ; {\n :b (", "the list that opens at 2:5"),
            ("{:a \"x}", "the string that opens at 1:5"),
            ("{:ä \"\\\"\" :b {", "the map that opens at 1:13"),
        ] {
            let found = unclosed(text).map(|opened| opened.to_string());
            assert!(found.as_deref().is_some_and(|found| found.contains(expected)), "{text}: {found:?}");
        }
        for text in ["{:a \"}\" :b \\} ; {\n}", "", "x }"] {
            assert_eq!(unclosed(text), None, "{text}");
        }
    }

    #[test]
    fn nested_key_is_found_in_the_text() {
        let text = "; c\n{:a 1\n :p {\"w\" {:x 1\n         :y 2}}}";
        let keys = |text: &'static str| {
            edn::read_one(text.as_bytes()).unwrap().into_owned().as_slice().unwrap().to_vec()
        };
        for (path, expected) in
            [("[:a]", "2:2"), ("[:p]", "3:2"), ("[:p \"w\"]", "3:6"), ("[:p :w :y]", "4:10")]
        {
            let place = of_keys(text, &keys(path)).map(|place| place.to_string());
            assert_eq!(place.as_deref(), Some(expected), "{path}");
        }
        for path in ["[:b]", "[:a :b]", "[:p \"w\" :z]"] {
            assert_eq!(of_keys(text, &keys(path)), None, "{path}");
        }
    }
}
