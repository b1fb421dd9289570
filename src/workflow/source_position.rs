//! Finds the place of a value in a text: follows the path to it again, form by form. Knows no workflow.

use crate::edn::Reader;
use crate::value::Value;

/// A step of the path to a value: a key of a map, or an index in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Key(String),
    Place(usize),
}

/// The line and column, from 1, of the value at the end of a path, or of its container if it is missing.
pub(super) fn locate(text: &[u8], way: &[PathStep]) -> (usize, usize) {
    let mut at = skip_blanks(text, 0);
    for step in way {
        let wanted = match step {
            // Keys and values alternate.
            PathStep::Key(key) => forms(text, at).collect::<Vec<_>>().chunks(2).find_map(|pair| match pair {
                [(_, name), (place, _)] if name.as_keyword() == Some(key.as_str()) => Some(*place),
                _ => None,
            }),
            PathStep::Place(place) => forms(text, at).nth(*place).map(|(place, _)| place),
        };
        match wanted {
            Some(place) => at = place,
            None => break,
        }
    }
    let before = text.get(..at).unwrap_or_default();
    let line = before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1);
    let start = memchr::memrchr(b'\n', before).map_or(0, |end| end.saturating_add(1));
    let column = String::from_utf8_lossy(before.get(start..).unwrap_or_default()).chars().count();
    (line, column.saturating_add(1))
}

/// The forms in the collection that starts at a place, each with its own place.
fn forms(text: &[u8], at: usize) -> impl Iterator<Item = (usize, Value<'_>)> {
    let mut at = at.saturating_add(1);
    std::iter::from_fn(move || {
        at = skip_blanks(text, at);
        let mut reader = Reader::new(text.get(at..)?);
        // The end of the collection is not a form.
        let value = reader.next()?.ok()?;
        let place = at;
        at = at.saturating_add(reader.offset());
        Some((place, value))
    })
}

/// The first place from `at` on that is neither blank, comma nor comment.
fn skip_blanks(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b';' => {
                let rest = text.get(at..).unwrap_or_default();
                at = at.saturating_add(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
            }
            byte if byte.is_ascii_whitespace() || *byte == b',' => at = at.saturating_add(1),
            _ => break,
        }
    }
    at
}
