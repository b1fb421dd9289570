//! Symbols and keywords.
//!
//! Knows what a name may look like; the rules are those of the reference reader, odd ones included.

use super::lexical::{Fail, Parsed, Word, word};
use crate::ErrorKind;
use crate::value::Value;

/// `keyword = ":" , name`, where a digit may start the name; without its colon.
#[inline(always)]
pub(super) fn keyword(input: &str) -> Parsed<'_, &str> {
    let Word { text, rest, plain } = word(input, 1);
    if (plain && text.len() > 1) || name(text) {
        return Ok((rest, super::lexical::after(text, 1)));
    }
    Fail::at(input, ErrorKind::InvalidToken, "a keyword")
}

/// `symbol = name`, or a `constant`, which looks like one.
#[inline(always)]
pub(super) fn symbol(input: &str) -> Parsed<'_, Value<'_>> {
    let Word { text, rest, plain } = word(input, 0);
    if let Some(value) = constant(text) {
        return Ok((rest, value));
    }
    if plain || name(text) {
        return Ok((rest, Value::symbol(text)));
    }
    Fail::at(input, ErrorKind::InvalidToken, "a symbol, a keyword, a number or a collection")
}

/// `constant = "nil" | "true" | "false"`
#[inline(always)]
fn constant(word: &str) -> Option<Value<'static>> {
    match word {
        "nil" => Some(Value::Nil),
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ => None,
    }
}

/// `tag = symbol`
pub(super) fn tag(input: &str) -> Parsed<'_, &str> {
    let Word { text, rest, plain } = word(input, 0);
    if constant(text).is_some() || !(plain || name(text)) {
        return Fail::at(input, ErrorKind::InvalidTag, "a symbol as the tag");
    }
    Ok((rest, text))
}

/// `name = [ part , "/" ] , part | "/"`: is `word`, with the colon of a keyword before it, a name?
fn name(word: &str) -> bool {
    if word.contains(['@', '`', '~']) || word.contains("::") {
        return false;
    }
    let stripped = word.strip_prefix(':').and_then(parts);
    let Some((namespace, name)) = stripped.or_else(|| parts(word)) else { return false };
    !namespace.ends_with(":/") && !name.ends_with(':')
}

/// The namespace with its slash, and the name; none where the one or the other starts wrongly.
fn parts(word: &str) -> Option<(&str, &str)> {
    let (namespace, name) = match word.strip_suffix('/') {
        Some(namespace) => (namespace, "/"),
        None => word.split_at(word.rfind('/').map_or(0, |at| at + 1)),
    };
    // A line of the namespace ends where Java's `.` says so.
    let one_line = namespace.chars().skip(1).all(|c| c != '\u{85}');
    let named = name == "/" || part(name);
    let spaced = namespace.is_empty() || (namespace.len() > 1 && namespace.ends_with('/') && part(namespace));
    (named && spaced && one_line).then_some((namespace, name))
}

/// `part = first , { constituent }`: what a namespace and a name start with.
fn part(text: &str) -> bool {
    text.starts_with(|c: char| !c.is_ascii_digit() && c != '/')
}
