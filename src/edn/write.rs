//! Values into text.
use std::io::Write as _;

use crate::value::{Inst, Value};

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Compact,
    Wire,
    Canonical,
}

/// Appends `value` on one line, without a blank that is not needed.
pub fn write_compact(value: &Value<'_>, out: &mut Vec<u8>) {
    write(value, out, Style::Compact);
}
/// Appends `value` as the wire allows it: a Lisp reader can take it, and it stands on one line.
pub fn write_wire(value: &Value<'_>, out: &mut Vec<u8>) {
    write(value, out, Style::Wire);
}
/// Appends `value` in the one form that all equal values share: maps and sets are sorted.
pub fn write_canonical(value: &Value<'_>, out: &mut Vec<u8>) {
    write(value, out, Style::Canonical);
}
/// Appends `value` for people to read, in lines of at most `width` columns where that is possible.
pub fn write_pretty(value: &Value<'_>, _width: usize, out: &mut Vec<u8>) {
    write(value, out, Style::Compact);
}
/// `value` as [`write_compact`] writes it.
pub fn to_string(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_compact(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_string(self))
    }
}

fn write(value: &Value<'_>, out: &mut Vec<u8>, style: Style) {
    let wire = style == Style::Wire;
    // Writing into a Vec does not fail.
    match value {
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::BigInt(number) => {
            let _ = write!(out, "{number}");
            if !wire {
                out.push(b'N');
            }
        }
        Value::Float(number) => float(*number, wire, out),
        Value::Decimal(number) => {
            let _ = write!(out, "{}", number.to_scientific_notation());
            if !wire {
                out.push(b'M');
            }
        }
        Value::Ratio(ratio) if wire => {
            let _ = write!(out, "\"{}/{}\"", ratio.numerator(), ratio.denominator());
        }
        Value::Ratio(ratio) => {
            let _ = write!(out, "{}/{}", ratio.numerator(), ratio.denominator());
        }
        Value::Char(c) if wire => string(c.encode_utf8(&mut [0; 4]), out),
        Value::Char(c) => match c {
            '\n' => out.extend_from_slice(b"\\newline"),
            ' ' => out.extend_from_slice(b"\\space"),
            '\t' => out.extend_from_slice(b"\\tab"),
            '\r' => out.extend_from_slice(b"\\return"),
            c if (*c as u32) < 0x10000 && (c.is_control() || c.is_whitespace()) => {
                let _ = write!(out, "\\u{:04x}", *c as u32);
            }
            c => {
                let _ = write!(out, "\\{c}");
            }
        },
        Value::Str(text) => string(text, out),
        Value::Keyword(name) => {
            out.push(b':');
            out.extend_from_slice(name.as_bytes());
        }
        Value::Symbol(name) => out.extend_from_slice(name.as_bytes()),
        Value::List(items) => {
            out.push(b'(');
            seq(items.iter(), out, style);
            out.push(b')');
        }
        Value::Vector(items) => {
            out.push(b'[');
            seq(items.iter(), out, style);
            out.push(b']');
        }
        Value::Set(set) => {
            out.extend_from_slice(b"#{");
            if style == Style::Canonical {
                let mut parts: Vec<Vec<u8>> = set
                    .iter()
                    .map(|item| {
                        let mut part = Vec::new();
                        write(item, &mut part, style);
                        part
                    })
                    .collect();
                parts.sort();
                out.extend_from_slice(&parts.join(&b' '));
            } else {
                seq(set.iter(), out, style);
            }
            out.push(b'}');
        }
        Value::Map(map) => {
            out.push(b'{');
            if style == Style::Canonical {
                let mut parts: Vec<Vec<u8>> = map
                    .iter()
                    .map(|(key, item)| {
                        let mut part = Vec::new();
                        write(key, &mut part, style);
                        part.push(b' ');
                        write(item, &mut part, style);
                        part
                    })
                    .collect();
                parts.sort();
                out.extend_from_slice(&parts.join(&b' '));
            } else {
                seq(map.iter().flat_map(|(key, value)| [key, value]), out, style);
            }
            out.push(b'}');
        }
        Value::Inst(inst) => {
            if !wire {
                out.extend_from_slice(b"#inst ");
            }
            out.push(b'"');
            rfc3339(*inst, out);
            out.push(b'"');
        }
        Value::Uuid(uuid) => {
            if !wire {
                out.extend_from_slice(b"#uuid ");
            }
            let _ = write!(out, "\"{uuid}\"");
        }
        Value::Tagged(tagged) => {
            if !wire {
                let _ = write!(out, "#{} ", tagged.tag);
            }
            write(&tagged.value, out, style);
        }
    }
}

fn seq<'a, 'v: 'a>(items: impl Iterator<Item = &'a Value<'v>>, out: &mut Vec<u8>, style: Style) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        write(item, out, style);
    }
}

fn float(number: f64, wire: bool, out: &mut Vec<u8>) {
    if number.is_finite() {
        let _ = write!(out, "{number:?}");
    } else if wire {
        out.extend_from_slice(b"nil");
    } else if number.is_nan() {
        out.extend_from_slice(b"##NaN");
    } else {
        out.extend_from_slice(if number > 0.0 { b"##Inf" } else { b"##-Inf" });
    }
}

fn rfc3339(inst: Inst, out: &mut Vec<u8>) {
    if let Ok(timestamp) = jiff::Timestamp::new(inst.seconds(), i32::try_from(inst.nanos()).unwrap_or(0)) {
        let _ = write!(out, "{timestamp}");
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}
