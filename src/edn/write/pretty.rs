//! Values for people: what fits a line stands on one, all else has a line for each element.
//!
//! Knows widths and indentation; how a value is spelled is its parent's concern.

use super::{needs_shorthand, write_compact};
use crate::value::Value;

/// Appends `value` in lines of at most `width` bytes where that is possible, without a line feed at the end.
pub fn write_pretty(value: &Value<'_>, width: usize, out: &mut Vec<u8>) {
    layout(value, width, 0, out);
}

/// Writes `value`, whose first line starts at `column`.
fn layout(value: &Value<'_>, width: usize, column: usize, out: &mut Vec<u8>) {
    if fits(value, width.saturating_sub(column)).is_some() {
        return write_compact(value, out);
    }
    let (open, close): (&str, u8) = match value {
        Value::Map(map) if map.iter().any(|(key, _)| needs_shorthand(key).is_some()) => {
            return write_compact(value, out);
        }
        Value::Map(_) => ("{", b'}'),
        Value::Set(_) => ("#{", b'}'),
        Value::Vector(_) => ("[", b']'),
        Value::List(_) => ("(", b')'),
        Value::Tagged(tagged) => {
            let start = out.len();
            out.push(b'#');
            out.extend_from_slice(tagged.tag.as_bytes());
            out.push(b' ');
            return layout(&tagged.value, width, column + out.len() - start, out);
        }
        _ => return write_compact(value, out),
    };
    out.extend_from_slice(open.as_bytes());
    let column = column + open.len();
    match value {
        Value::Map(map) => {
            for (at, (key, value)) in map.iter().enumerate() {
                break_line(at, column, out);
                let line = out.len();
                layout(key, width, column, out);
                let last_line = out.get(line..).unwrap_or_default();
                let last_line = match memchr::memrchr(b'\n', last_line) {
                    Some(at) => last_line.len() - at - 1,
                    None => column + last_line.len(),
                };
                out.push(b' ');
                layout(value, width, last_line + 1, out);
            }
        }
        Value::Set(set) => {
            for (at, item) in set.iter().enumerate() {
                break_line(at, column, out);
                layout(item, width, column, out);
            }
        }
        _ => {
            for (at, item) in value.as_slice().unwrap_or_default().iter().enumerate() {
                break_line(at, column, out);
                layout(item, width, column, out);
            }
        }
    }
    out.push(close);
}

fn break_line(at: usize, column: usize, out: &mut Vec<u8>) {
    if at > 0 {
        out.push(b'\n');
        out.resize(out.len() + column, b' ');
    }
}

/// What is left of `room` behind `value` on one line, if it fits. Looks at no more than fits.
fn fits(value: &Value<'_>, room: usize) -> Option<usize> {
    match value {
        Value::List(items) | Value::Vector(items) => all_fit(items.iter(), room.checked_sub(2)?),
        Value::Set(set) => all_fit(set.iter(), room.checked_sub(3)?),
        Value::Map(map) => all_fit(map.iter().flat_map(|(key, value)| [key, value]), room.checked_sub(2)?),
        Value::Tagged(tagged) => fits(&tagged.value, room.checked_sub(tagged.tag.len() + 2)?),
        Value::Str(text) | Value::Keyword(text) | Value::Symbol(text) if text.len() > room => None,
        scalar => {
            let mut out = Vec::new();
            write_compact(scalar, &mut out);
            room.checked_sub(out.len())
        }
    }
}

fn all_fit<'v, 'a: 'v>(items: impl Iterator<Item = &'v Value<'a>>, mut room: usize) -> Option<usize> {
    for (at, item) in items.enumerate() {
        room = fits(item, room.checked_sub(usize::from(at > 0))?)?;
    }
    Some(room)
}
