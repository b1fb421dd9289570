//! Values into text: compact, for the wire, canonical. What is written reads back as an equal value.
//!
//! Knows how each value is spelled; knows no stream and no line. Two kinds of value that cannot be read have
//! no spelling that could: names that were made from a text that is no name, and characters beyond the
//! first plane, which the reference reader does not take.

use std::fmt::Write as _;

use bigdecimal::BigDecimal;

use crate::value::{Inst, Map, Value};

pub use pretty::write_pretty;

mod pretty;

/// Appends `value` on one line, without a blank that is not needed.
pub fn write_compact(value: &Value<'_>, out: &mut Vec<u8>) {
    write::<COMPACT>(value, out);
}

/// Appends `value` for readers that know less than EDN: the reader of a Lisp, or one for JSON-like data.
///
/// ```
/// let value = edn_codec::read_one(b"{:at #inst \"2020-01-01\" :share 1/3 :count 7N}")?;
/// let mut out = Vec::new();
/// edn_codec::write_wire(&value, &mut out);
/// assert_eq!(out, br#"{:at "2020-01-01T00:00:00Z" :share "1/3" :count 7}"#);
/// # Ok::<(), edn_codec::Error>(())
/// ```
///
/// It stands on one line and has no tagged element (a point in time becomes an RFC 3339 string, an
/// identifier a string, any other tag is left out), no ratio and no character (both become strings), no
/// `N` or `M` behind a number, and `nil` for a float that is no number.
pub fn write_wire(value: &Value<'_>, out: &mut Vec<u8>) {
    write::<WIRE>(value, out);
}

/// Appends `value` in the one spelling that all equal values share, for digests: maps and sets sorted by
/// the bytes of their entries, lists as vectors, numbers without what does not count.
///
/// ```
/// let canonical = |text: &str| {
///     let mut out = Vec::new();
///     edn_codec::write_canonical(&edn_codec::read_one(text.as_bytes())?, &mut out);
///     Ok::<_, edn_codec::Error>(out)
/// };
/// assert_eq!(canonical("{:b (1 2) :a 1.50M}")?, b"{:a 1.5M :b [1 2]}");
/// assert_eq!(canonical("{:b (1 2) :a 1.50M}")?, canonical("{:a 1.5M, :b [1 2N]}")?);
/// # Ok::<(), edn_codec::Error>(())
/// ```
pub fn write_canonical(value: &Value<'_>, out: &mut Vec<u8>) {
    write::<CANONICAL>(value, out);
}

/// `value` as [`write_compact`] writes it.
pub fn to_string(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_compact(value, &mut out);
    // Only whole characters are written.
    String::from_utf8(out).unwrap_or_default()
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&to_string(self))
    }
}

type Style = u8;
const COMPACT: Style = 0;
const WIRE: Style = 1;
const CANONICAL: Style = 2;

fn write<const STYLE: Style>(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Str(text) => string(text, out),
        Value::Keyword(name) => keyword(name, out),
        Value::Int(number) => int(*number, out),
        Value::Map(map) => entries::<STYLE>(map, out),
        Value::Vector(items) => {
            out.push(b'[');
            sequence::<STYLE>(items.iter(), out);
            out.push(b']');
        }
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::Float(number) => float::<STYLE>(*number, out),
        Value::Symbol(name) => out.extend_from_slice(name.as_bytes()),
        Value::List(items) => {
            let [open, close] = if STYLE == CANONICAL { *b"[]" } else { *b"()" };
            out.push(open);
            sequence::<STYLE>(items.iter(), out);
            out.push(close);
        }
        Value::Set(set) => {
            out.extend_from_slice(b"#{");
            if STYLE == CANONICAL {
                sorted(set.iter().map(|item| spelled(&[item])).collect(), out);
            } else {
                sequence::<STYLE>(set.iter(), out);
            }
            out.push(b'}');
        }
        _ => rare::<STYLE>(value, out),
    }
}

/// What frames have none of.
#[inline(never)]
fn rare<const STYLE: Style>(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::BigInt(number) => match i64::try_from(&**number) {
            Ok(small) if STYLE == CANONICAL => int(small, out),
            _ => {
                display(number, out);
                if STYLE != WIRE {
                    out.push(b'N');
                }
            }
        },
        Value::Decimal(number) => decimal::<STYLE>(number, out),
        Value::Ratio(ratio) => {
            let quote: &[u8] = if STYLE == WIRE { b"\"" } else { b"" };
            out.extend_from_slice(quote);
            display(ratio.numerator(), out);
            out.push(b'/');
            display(ratio.denominator(), out);
            out.extend_from_slice(quote);
        }
        Value::Char(c) if STYLE == WIRE => string(c.encode_utf8(&mut [0; 4]), out),
        Value::Char(c) => character(*c, out),
        Value::Inst(inst) => {
            if STYLE != WIRE {
                out.extend_from_slice(b"#inst ");
            }
            let nanos = if STYLE == CANONICAL { inst.nanos() / 1_000_000 * 1_000_000 } else { inst.nanos() };
            timestamp(Inst::new(inst.seconds(), nanos), out);
        }
        Value::Uuid(uuid) => {
            if STYLE != WIRE {
                out.extend_from_slice(b"#uuid ");
            }
            out.push(b'"');
            display(uuid, out);
            out.push(b'"');
        }
        Value::Tagged(tagged) => {
            if STYLE != WIRE {
                out.push(b'#');
                out.extend_from_slice(tagged.tag.as_bytes());
                out.push(b' ');
            }
            write::<STYLE>(&tagged.value, out);
        }
        _ => write::<STYLE>(value, out),
    }
}

fn sequence<'v, 'a: 'v, const STYLE: Style>(items: impl Iterator<Item = &'v Value<'a>>, out: &mut Vec<u8>) {
    let mut blank = false;
    for item in items {
        if blank {
            out.push(b' ');
        }
        blank = true;
        write::<STYLE>(item, out);
    }
}

fn entries<const STYLE: Style>(map: &Map<'_>, out: &mut Vec<u8>) {
    if STYLE != WIRE
        && let Some(namespace) = map.iter().find_map(|(key, _)| needs_shorthand(key))
    {
        return namespaced_entries::<STYLE>(map, namespace, out);
    }
    out.push(b'{');
    if STYLE == CANONICAL {
        sorted(map.iter().map(|(key, value)| spelled(&[key, value])).collect(), out);
    } else {
        let mut blank = false;
        for (key, value) in map.iter() {
            if blank {
                out.push(b' ');
            }
            blank = true;
            // Most keys are keywords: one branch that is foreseen instead of a jump that is not.
            match key {
                Value::Keyword(name) => keyword(name, out),
                key => write::<STYLE>(key, out),
            }
            out.push(b' ');
            write::<STYLE>(value, out);
        }
    }
    out.push(b'}');
}

#[inline(always)]
fn keyword(name: &str, out: &mut Vec<u8>) {
    out.reserve(name.len() + 2);
    out.push(b':');
    out.extend_from_slice(name.as_bytes());
}

/// The namespace of a name that cannot be spelled with it: one whose part behind the stroke starts with a
/// digit, or the odd ones. Only the shorthand for a map of one namespace makes such keys, `#:a{:1 2}`, and
/// only it can spell them.
#[inline(always)]
fn needs_shorthand<'v>(key: &'v Value<'_>) -> Option<&'v str> {
    let (Value::Keyword(name) | Value::Symbol(name)) = key else { return None };
    if has_stroke(name.as_bytes()) { namespace_of(key, name) } else { None }
}

/// Is there a `/`? Names are short: eight bytes are looked at at once, without the cost of calling out.
#[inline(always)]
fn has_stroke(name: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    const STROKES: u64 = u64::from_le_bytes([b'/'; 8]);
    let found = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word) ^ STROKES;
        word.wrapping_sub(ONES) & !word & HIGHS != 0
    };
    match name.last_chunk::<8>() {
        Some(last) => name.as_chunks::<8>().0.iter().any(found) || found(last),
        None => name.contains(&b'/'),
    }
}

fn namespace_of<'v>(key: &Value<'_>, name: &'v str) -> Option<&'v str> {
    let stroke = memchr::memchr(b'/', name.as_bytes())?;
    let (namespace, rest) = name.split_at_checked(stroke)?;
    let digit_first = rest.rsplit('/').next()?.starts_with(|c: char| c.is_ascii_digit());
    if namespace.is_empty() {
        // The namespace is a stroke itself.
        let odd = if matches!(key, Value::Symbol(_)) { rest.len() > 1 } else { digit_first };
        return odd.then_some("/");
    }
    let line_end = !namespace.is_ascii() && namespace.chars().skip(1).any(|c| c == '\u{85}');
    (digit_first || line_end).then_some(namespace)
}

/// A map in the shorthand of `namespace`: its keys lose it, and those without one get `_`.
#[cold]
fn namespaced_entries<const STYLE: Style>(map: &Map<'_>, namespace: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"#:");
    out.extend_from_slice(namespace.as_bytes());
    out.push(b'{');
    let key_of = |key: &Value<'_>| -> Value<'static> {
        let renamed = |name: &str| {
            let bare = name.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/'));
            match bare {
                Some(bare) if !bare.contains('/') || bare == "/" => bare.to_owned(),
                _ if name.contains('/') && name != "/" => name.to_owned(),
                _ => ["_/", name].concat(),
            }
        };
        match key {
            Value::Keyword(name) => Value::keyword(renamed(name)),
            Value::Symbol(name) => Value::symbol(renamed(name)),
            other => other.clone().into_owned(),
        }
    };
    let entry = |(key, value): (&Value<'_>, &Value<'_>)| {
        let mut part = Vec::new();
        write::<STYLE>(&key_of(key), &mut part);
        part.push(b' ');
        write::<STYLE>(value, &mut part);
        part
    };
    let mut parts: Vec<Vec<u8>> = map.iter().map(entry).collect();
    if STYLE == CANONICAL {
        parts.sort_unstable();
    }
    out.extend_from_slice(&parts.join(&b' '));
    out.push(b'}');
}

fn spelled(values: &[&Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    sequence::<CANONICAL>(values.iter().copied(), &mut out);
    out
}

fn sorted(mut parts: Vec<Vec<u8>>, out: &mut Vec<u8>) {
    parts.sort_unstable();
    out.extend_from_slice(&parts.join(&b' '));
}

fn int(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn float<const STYLE: Style>(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        let number = if STYLE == CANONICAL { number + 0.0 } else { number };
        out.extend_from_slice(zmij::Buffer::new().format_finite(number).as_bytes());
    } else if STYLE == WIRE {
        out.extend_from_slice(b"nil");
    } else if number.is_nan() {
        out.extend_from_slice(b"##NaN");
    } else {
        out.extend_from_slice(if number > 0.0 { b"##Inf" } else { b"##-Inf" });
    }
}

/// Digits and scale as they are: `1.50M` keeps its zero.
fn decimal<const STYLE: Style>(number: &BigDecimal, out: &mut Vec<u8>) {
    /// Most zeros behind the point before the digits, as Java has it.
    const MAX_ZEROS: usize = 6;
    let normal;
    let number = if STYLE == CANONICAL {
        normal = number.normalized();
        &normal
    } else {
        number
    };
    let (digits, scale) = number.as_bigint_and_exponent();
    let text = digits.to_string();
    let digits = text.strip_prefix('-').unwrap_or(&text);
    if digits.len() < text.len() {
        out.push(b'-');
    }
    match usize::try_from(scale) {
        Ok(0) => out.extend_from_slice(digits.as_bytes()),
        Ok(scale) if scale <= digits.len() + MAX_ZEROS => {
            let zeros = (scale + 1).saturating_sub(digits.len());
            let padded = ["0".repeat(zeros).as_str(), digits].concat();
            let (whole, fraction) = padded.split_at(padded.len() - scale);
            out.extend_from_slice(whole.as_bytes());
            out.push(b'.');
            out.extend_from_slice(fraction.as_bytes());
        }
        _ => {
            // An exponent has 32 bits, so some of the scale may have to go into the fraction.
            let shift = usize::from(scale > i64::from(i32::MAX)).min(digits.len() - 1);
            let (whole, fraction) = digits.split_at(digits.len() - shift);
            out.extend_from_slice(whole.as_bytes());
            if shift > 0 {
                out.push(b'.');
                out.extend_from_slice(fraction.as_bytes());
            }
            out.push(b'E');
            display(i64::from(u8::from(shift > 0)) - scale, out);
        }
    }
    if STYLE != WIRE {
        out.push(b'M');
    }
}

fn character(c: char, out: &mut Vec<u8>) {
    out.push(b'\\');
    match c {
        '\n' => out.extend_from_slice(b"newline"),
        ' ' => out.extend_from_slice(b"space"),
        '\t' => out.extend_from_slice(b"tab"),
        '\r' => out.extend_from_slice(b"return"),
        '\u{8}' => out.extend_from_slice(b"backspace"),
        '\u{c}' => out.extend_from_slice(b"formfeed"),
        c if u32::from(c) < 0x1_0000 && (c.is_control() || c.is_whitespace()) => unicode(c, out),
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

fn unicode(c: char, out: &mut Vec<u8>) {
    display(format_args!("u{:04x}", u32::from(c)), out);
}

/// A string in quotes: quotes, backslashes and what controls a terminal are escaped, so that it stands on
/// one line.
fn string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let plain = first_special(rest);
        out.extend_from_slice(rest.get(..plain).unwrap_or_default());
        let Some(special) = rest.get(plain) else { break };
        out.push(b'\\');
        match special {
            b'\n' => out.push(b'n'),
            b'\t' => out.push(b't'),
            b'\r' => out.push(b'r'),
            b'"' | b'\\' => out.push(*special),
            control => unicode(char::from(*control), out),
        }
        rest = rest.get(plain + 1..).unwrap_or_default();
    }
    out.push(b'"');
}

/// Where the first byte is that is a quote, a backslash or below the space; the length if there is none.
#[inline]
fn first_special(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let special = |word: u64| {
        let zeros = |x: u64| x.wrapping_sub(ONES) & !x;
        let (quotes, backslashes) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5C));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        // The lowest byte found is right; higher ones may be found by a carry.
        (zeros(quotes) | zeros(backslashes) | controls) & HIGHS
    };
    let (words, tail) = text.as_chunks::<8>();
    let mut at = 0;
    for word in words {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let in_tail = tail.iter().position(|byte| *byte < 0x20 || matches!(byte, b'"' | b'\\'));
    in_tail.map_or(text.len(), |in_tail| at + in_tail)
}

/// An RFC 3339 timestamp in quotes: in UTC, but in the year before 0 and the one after 9999, which only an
/// offset reaches.
fn timestamp(inst: Inst, out: &mut Vec<u8>) {
    const FIRST: i64 = -62_167_219_200;
    const LAST: i64 = 253_402_300_799;
    const FARTHEST: i64 = 23 * 3600 + 59 * 60;
    let (shift, offset) = match inst.seconds() {
        seconds if seconds < FIRST => (FARTHEST, "+23:59"),
        seconds if seconds > LAST => (-FARTHEST, "-23:59"),
        _ => (0, "Z"),
    };
    let seconds = inst.seconds().saturating_add(shift);
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    display(format_args!("\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"), out);
    match inst.nanos() {
        0 => {}
        nanos if nanos % 1_000_000 == 0 => display(format_args!(".{:03}", nanos / 1_000_000), out),
        nanos => display(format_args!(".{nanos:09}"), out),
    }
    out.extend_from_slice(offset.as_bytes());
    out.push(b'"');
}

/// The date of a day since 1970-01-01 in the Gregorian calendar. A year starts with March here, so that the
/// leap day is its last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year_of_era + next, month, day)
}

fn display(what: impl std::fmt::Display, out: &mut Vec<u8>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl std::fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Appending to a Vec does not fail.
    let _ = write!(Bytes(out), "{what}");
}
