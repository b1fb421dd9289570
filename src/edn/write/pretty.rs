//! Values for people: what fits a line stands on one, all else has a line for each element.
//!
//! Knows widths and indentation; how a value is spelled is its parent's concern.

use super::{needs_shorthand, write_compact};
use crate::value::Value;

/// Appends `value` in lines of at most `width` characters, its closing brackets included, where that is
/// possible: a scalar is never cut. Without a line feed at the end.
///
/// ```
/// let value = edn_codec::read_one(b"{:name \"edn\" :tags [:data :text] :since 2012}")?;
/// let mut out = Vec::new();
/// edn_codec::write_pretty(&value, 20, &mut out);
/// assert_eq!(String::from_utf8_lossy(&out), "{:name \"edn\"\n :tags [:data :text]\n :since 2012}");
/// # Ok::<(), edn_codec::Error>(())
/// ```
pub fn write_pretty(value: &Value<'_>, width: usize, out: &mut Vec<u8>) {
    Layout { width, out }.value(value, 0, 0);
}

/// The text so far, and how wide it may be.
struct Layout<'o> {
    width: usize,
    out: &'o mut Vec<u8>,
}

impl Layout<'_> {
    /// Writes a value whose first line starts at `column` and behind whose last line stand `after` closing
    /// brackets.
    fn value(&mut self, value: &Value<'_>, column: usize, after: usize) {
        if self.fits(value, column, after) {
            return write_compact(value, self.out);
        }
        let (open, close): (&str, u8) = match value {
            Value::Map(map) if map.iter().any(|(key, _)| needs_shorthand(key).is_some()) => {
                return write_compact(value, self.out);
            }
            Value::Map(_) => ("{", b'}'),
            Value::Set(_) => ("#{", b'}'),
            Value::Vector(_) => ("[", b']'),
            Value::List(_) => ("(", b')'),
            Value::Tagged(tagged) => {
                self.out.push(b'#');
                self.out.extend_from_slice(tagged.tag.as_bytes());
                self.out.push(b' ');
                let before = column.saturating_add(width_of(tagged.tag.as_bytes())).saturating_add(2);
                return self.value(&tagged.value, before, after);
            }
            _ => return write_compact(value, self.out),
        };
        self.out.extend_from_slice(open.as_bytes());
        let column = column.saturating_add(open.len());
        let after = after.saturating_add(1);
        match value {
            Value::Map(map) => self.entries(map.iter(), column, after),
            Value::Set(set) => self.items(set.iter(), column, after),
            _ => self.items(value.as_slice().unwrap_or_default().iter(), column, after),
        }
        self.out.push(close);
    }

    fn items<'v, 'a: 'v>(&mut self, items: impl Iterator<Item = &'v Value<'a>>, column: usize, after: usize) {
        let mut items = items.peekable();
        let mut first = true;
        while let Some(item) = items.next() {
            if !std::mem::take(&mut first) {
                self.new_line(column);
            }
            self.value(item, column, if items.peek().is_none() { after } else { 0 });
        }
    }

    /// Each entry has its value behind its key, or on the next line where it fits only there, or where little
    /// room is left behind the key.
    fn entries<'v, 'a: 'v>(
        &mut self,
        entries: impl Iterator<Item = (&'v Value<'a>, &'v Value<'a>)>,
        column: usize,
        after: usize,
    ) {
        let mut entries = entries.peekable();
        let mut first = true;
        while let Some((key, value)) = entries.next() {
            if !std::mem::take(&mut first) {
                self.new_line(column);
            }
            let after = if entries.peek().is_none() { after } else { 0 };
            let start = self.out.len();
            self.value(key, column, 0);
            let key = self.out.get(start..).unwrap_or_default();
            let behind = match memchr::memrchr(b'\n', key) {
                Some(at) => width_of(key.get(at.saturating_add(1)..).unwrap_or_default()),
                None => column.saturating_add(width_of(key)),
            };
            let behind = behind.saturating_add(1);
            let opens = matches!(value, Value::Vector(_) | Value::List(_) | Value::Map(_) | Value::Set(_));
            let below = column.saturating_add(1);
            if opens
                && !self.fits(value, behind, after)
                && (behind > self.width / 2 || self.fits(value, below, after))
            {
                self.new_line(below);
                self.value(value, below, after);
            } else {
                self.out.push(b' ');
                self.value(value, behind, after);
            }
        }
    }

    fn new_line(&mut self, column: usize) {
        self.out.push(b'\n');
        self.out.resize(self.out.len().saturating_add(column), b' ');
    }

    fn fits(&self, value: &Value<'_>, column: usize, after: usize) -> bool {
        let room = self.width.checked_sub(column).and_then(|room| room.checked_sub(after));
        room.and_then(|room| left(value, room)).is_some()
    }
}

/// How many characters UTF-8 text has.
fn width_of(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// What is left of `room` behind `value` on one line, if it fits. Looks at no more than fits.
fn left(value: &Value<'_>, room: usize) -> Option<usize> {
    match value {
        Value::List(items) | Value::Vector(items) => all_left(items.iter(), room.checked_sub(2)?),
        Value::Set(set) => all_left(set.iter(), room.checked_sub(3)?),
        Value::Map(map) => all_left(map.iter().flat_map(|(key, value)| [key, value]), room.checked_sub(2)?),
        Value::Tagged(tagged) => {
            left(&tagged.value, room.checked_sub(width_of(tagged.tag.as_bytes()).saturating_add(2))?)
        }
        // A character has four bytes at most.
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) if text.len() / 4 > room => None,
        scalar => {
            let mut out = Vec::new();
            write_compact(scalar, &mut out);
            room.checked_sub(width_of(&out))
        }
    }
}

fn all_left<'v, 'a: 'v>(items: impl Iterator<Item = &'v Value<'a>>, mut room: usize) -> Option<usize> {
    for (at, item) in items.enumerate() {
        room = left(item, room.checked_sub(usize::from(at > 0))?)?;
    }
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_one;

    fn pretty(text: &str, width: usize) -> String {
        let value = read_one(text.as_bytes()).unwrap().into_owned();
        let mut out = Vec::new();
        write_pretty(&value, width, &mut out);
        assert_eq!(read_one(&out).unwrap(), value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_does_not_fit_has_a_line_for_each_element() {
        assert_eq!(pretty("[1 2 3]", 7), "[1 2 3]");
        assert_eq!(pretty("[1 2 3]", 6), "[1\n 2\n 3]");
        assert_eq!(
            pretty("{:a [1 2 3] :b {:c \"some text\" :d [10 20 30 40]}}", 24),
            "{:a [1 2 3]\n :b {:c \"some text\"\n     :d [10 20 30 40]}}"
        );
        assert_eq!(pretty("{:a-rather-long-key [1 2 3 4 5]}", 20), "{:a-rather-long-key\n  [1 2 3 4 5]}");
        assert_eq!(pretty("#t [\"äöü\" \"ß\"]", 14), "#t [\"äöü\" \"ß\"]", "characters count, not bytes");
    }

    #[test]
    fn closing_brackets_are_part_of_the_line() {
        let nested = "[[[[aaaa bbbb]]]]";
        for width in 12..17 {
            let text = pretty(nested, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        assert_eq!(pretty("{:a {:b {:c 10}}}", 16), "{:a\n  {:b {:c 10}}}");
    }
}
