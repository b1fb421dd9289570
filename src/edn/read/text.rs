//! Strings and characters.
//!
//! Knows escapes. A string without one is a slice of the input.

use memchr::memchr2;

use super::lexical::{Fail, Parsed, after, before, blank, digit, first, is_digit, is_macro, word};
use crate::ErrorKind;
use crate::value::Value;

/// `string = '"' , { any - ( '"' | "\" ) | escape } , '"'`
pub(super) fn string(input: &str) -> Parsed<'_, Value<'_>> {
    match plain_string(input) {
        Some((rest, text)) => Ok((rest, Value::str(text))),
        None => {
            let text = after(input, 1);
            escaped_string(text, quote_or_backslash(text.as_bytes()))
        }
    }
}

/// What follows a string without an escape, and its text.
#[inline(always)]
pub(super) fn plain_string(input: &str) -> Option<(&str, &str)> {
    let text = after(input, 1);
    let end = quote_or_backslash(text.as_bytes());
    (text.as_bytes().get(end) == Some(&b'"')).then(|| (after(text, end + 1), before(text, end)))
}

/// Where the first quote or backslash is, or the length. Most strings are short: the first bytes are looked
/// at eight at a time, without the cost of calling out.
#[inline(always)]
fn quote_or_backslash(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    /// How many words of eight bytes are looked at before the vector search is worth its call.
    const WORDS: usize = 4;

    let (words, _) = text.as_chunks::<8>();
    let mut at = 0;
    for word in words.iter().take(WORDS) {
        let word = u64::from_le_bytes(*word);
        let (quotes, backslashes) = (word ^ QUOTES, word ^ BACKSLASHES);
        // The lowest byte that is zero has its high bit set; higher ones may have it by a carry.
        let zeros = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
        let found = zeros(quotes) | zeros(backslashes);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    at + memchr2(b'"', b'\\', rest).unwrap_or(rest.len())
}

/// The rest of a string whose first escape is at `plain` of `text`.
#[inline(never)]
fn escaped_string(text: &str, plain: usize) -> Parsed<'_, Value<'_>> {
    let mut content = String::with_capacity(plain + (text.len() - plain).min(plain + 64));
    let mut rest = text;
    let mut end = plain;
    loop {
        content.push_str(before(rest, end));
        rest = after(rest, end);
        match first(rest) {
            Some(b'"') => return Ok((after(rest, 1), Value::from(content))),
            Some(_) => {
                let (after_escape, c) = escape(rest)?;
                content.push(c);
                rest = after_escape;
            }
            None => return Fail::at(rest, ErrorKind::UnexpectedEnd, "`\"` at the end of the string"),
        }
        end = quote_or_backslash(rest.as_bytes());
    }
}

/// `escape = "\" , ( "t" | "r" | "n" | "b" | "f" | "\" | '"' | unicode_escape | octal_escape )`
#[inline]
fn escape(input: &str) -> Parsed<'_, char> {
    let c = match input.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return surrogates(input),
        Some(_) if after(input, 1).starts_with(is_digit) => return octal_escape(input),
        Some(_) => {
            return Fail::at(
                input,
                ErrorKind::InvalidEscape,
                r#"an escape: \t \r \n \b \f \\ \" \uXXXX or \NNN"#,
            );
        }
        None => return Fail::at(after(input, 1), ErrorKind::UnexpectedEnd, "an escape"),
    };
    Ok((after(input, 2), c))
}

/// A unicode escape, or two that make one character.
fn surrogates(input: &str) -> Parsed<'_, char> {
    let (rest, unit) = unicode_escape(input)?;
    let lone = |c| Fail::at(c, ErrorKind::LoneSurrogate, "the two halves of a surrogate pair");
    match unit {
        0xD800..0xDC00 => {
            if !rest.starts_with("\\u") {
                return lone(input);
            }
            let (rest, low) = unicode_escape(rest)?;
            match char::decode_utf16([unit, low]).next() {
                Some(Ok(c)) => Ok((rest, c)),
                _ => lone(input),
            }
        }
        unit => char::from_u32(u32::from(unit)).map_or_else(|| lone(input), |c| Ok((rest, c))),
    }
}

/// `unicode_escape = "\u" , 4 * hex_digit`: one unit of UTF-16.
fn unicode_escape(input: &str) -> Parsed<'_, u16> {
    let digits = after(input, 2);
    let mut unit = 0;
    let mut rest = digits;
    for _ in 0..4 {
        let value = rest.chars().next().and_then(|c| Some((c, digit(c, 16)?)));
        let Some((c, value)) = value else {
            let kind = if rest.is_empty() { ErrorKind::UnexpectedEnd } else { ErrorKind::InvalidEscape };
            let at = if rest.is_empty() { rest } else { input };
            return Fail::at(at, kind, r"four hexadecimal digits after \u");
        };
        unit = unit << 4 | u16::try_from(value).unwrap_or(0);
        rest = after(rest, c.len_utf8());
    }
    Ok((rest, unit))
}

/// `octal_escape = "\" , octal_digit , [ octal_digit , [ octal_digit ] ]`, at most `\377`; what follows a
/// short one is a blank or starts something.
fn octal_escape(input: &str) -> Parsed<'_, char> {
    let expected = r"one to three octal digits, at most \377";
    let mut code = 0;
    let mut rest = after(input, 1);
    for count in 0..3 {
        match rest.chars().next() {
            Some(c) if count > 0 && (blank(c) || is_macro(c)) => break,
            Some(c) => match digit(c, 8) {
                Some(value) => {
                    code = code * 8 + value;
                    rest = after(rest, c.len_utf8());
                }
                None => return Fail::at(input, ErrorKind::InvalidEscape, expected),
            },
            None => return Fail::at(rest, ErrorKind::UnexpectedEnd, "`\"` at the end of the string"),
        }
    }
    match u8::try_from(code) {
        Ok(code) => Ok((rest, char::from(code))),
        Err(_) => Fail::at(input, ErrorKind::InvalidEscape, expected),
    }
}

/// `character = "\" , ( any | character_name | "u" , 4 * hex_digit | "o" , 1 to 3 * octal_digit )`
pub(super) fn character(input: &str) -> Parsed<'_, Value<'_>> {
    let token = after(input, 1);
    let Some(c) = token.chars().next() else {
        return Fail::at(token, ErrorKind::UnexpectedEnd, "a character");
    };
    let word = word(token, c.len_utf8());
    let rest = word.rest;
    match named_character(word.text) {
        Some(c) => Ok((rest, Value::Char(c))),
        None => Fail::at(
            input,
            ErrorKind::InvalidCharacter,
            r"a character: \c \newline \space \tab \return \backspace \formfeed \uXXXX or \oNNN",
        ),
    }
}

fn named_character(word: &str) -> Option<char> {
    let mut chars = word.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        // A character of the reference reader is one unit of UTF-16.
        return (c.len_utf16() == 1).then_some(c);
    }
    match word {
        "newline" => Some('\n'),
        "space" => Some(' '),
        "tab" => Some('\t'),
        "return" => Some('\r'),
        "backspace" => Some('\u{8}'),
        "formfeed" => Some('\u{c}'),
        _ => {
            let code = |digits: &str, radix| {
                digits.chars().try_fold(0, |code, c| Some(code * radix + digit(c, radix)?))
            };
            match word.split_at_checked(1)? {
                ("u", digits) if digits.chars().count() == 4 => char::from_u32(code(digits, 16)?),
                ("o", digits) if digits.chars().count() <= 3 => {
                    u8::try_from(code(digits, 8)?).ok().map(char::from)
                }
                _ => None,
            }
        }
    }
}
