//! Bytes into values. The only place that knows nom.
use super::error::{Error, ErrorKind};
use crate::limits;
use crate::value::{Inst, Map, Ratio, Set, Text, Value};
use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use std::str::FromStr;

/// How much the reader takes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Deepest nesting of collections, tags and discards.
    pub max_depth: usize,
    /// Longest input in bytes.
    pub max_bytes: usize,
}
impl Default for Options {
    fn default() -> Self {
        Options { max_depth: limits::MAX_DEPTH, max_bytes: limits::MAX_LINE_BYTES }
    }
}

/// The one form that `input` holds.
///
/// # Errors
/// Any rejection; `empty` for no form and `extra-form` for a second one.
pub fn read_one(input: &[u8]) -> Result<Value<'_>, Error> {
    read_one_with(input, Options::default())
}
/// The one form that `input` holds, within the bounds of `options`.
///
/// # Errors
/// As [`read_one`].
pub fn read_one_with(input: &[u8], options: Options) -> Result<Value<'_>, Error> {
    let mut reader = Reader::with(input, options);
    let value = match reader.next() {
        None => return Err(Error::at(ErrorKind::Empty, "a form", input, input.len())),
        Some(value) => value?,
    };
    let at = reader.skip_blanks();
    match reader.next() {
        None => Ok(value),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) => Err(Error::at(ErrorKind::ExtraForm, "the end of the input", input, at)),
    }
}
/// All forms that `input` holds.
///
/// # Errors
/// The first rejection.
pub fn read_all(input: &[u8]) -> Result<Vec<Value<'_>>, Error> {
    Reader::new(input).collect()
}
/// The forms of an input, one after the other; ends after the first rejection.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    options: Options,
    invalid: Option<usize>,
    done: bool,
}

type Fail = (ErrorKind, &'static str, usize);

enum Frame<'a> {
    List(usize, usize),
    Vector(usize, usize),
    Map(usize, usize, Option<&'a str>),
    Set(usize, usize),
    Discard(usize),
    Tag(&'a str, usize),
    Meta(usize, bool),
}

impl<'a> Reader<'a> {
    /// Reads `input` with the default bounds.
    pub fn new(input: &'a [u8]) -> Self {
        Self::with(input, Options::default())
    }
    /// Reads `input` within the bounds of `options`.
    pub fn with(input: &'a [u8], options: Options) -> Self {
        let (text, invalid) = match std::str::from_utf8(input) {
            Ok(text) => (text, None),
            Err(error) => {
                let valid = input.get(..error.valid_up_to()).unwrap_or_default();
                (std::str::from_utf8(valid).unwrap_or_default(), Some(error.valid_up_to()))
            }
        };
        Reader { bytes: input, text, at: 0, options, invalid, done: false }
    }
    /// How many bytes are read.
    pub fn offset(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    fn skip_blanks(&mut self) -> usize {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(is_blank);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with(';') {
                self.at += trimmed.find(['\n', '\r']).unwrap_or(trimmed.len());
            } else {
                return self.at;
            }
        }
    }
    fn token(&mut self, number: bool) -> &'a str {
        let rest = self.rest();
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| is_blank(*c) || if number { is_macro(*c) } else { is_macro(*c) && *c != '#' })
            .map_or(rest.len(), |(at, _)| at);
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn form(&mut self) -> Result<Option<Value<'a>>, Fail> {
        let mut values: Vec<Value<'a>> = Vec::new();
        let mut frames: Vec<Frame<'a>> = Vec::new();
        let max_depth = self.options.max_depth;
        loop {
            let at = self.skip_blanks();
            let Some(c) = self.peek() else {
                return if frames.is_empty() {
                    Ok(None)
                } else {
                    Err((ErrorKind::UnexpectedEnd, "the rest of the form", at))
                };
            };
            let ascii = |n: usize| self.rest().as_bytes().get(n).copied().unwrap_or(0);
            let push = |frames: &mut Vec<Frame<'a>>, frame| {
                if frames.len() >= max_depth {
                    return Err((ErrorKind::TooDeep, "less nesting", at));
                }
                frames.push(frame);
                Ok(())
            };
            let value = match c {
                '(' => {
                    push(&mut frames, Frame::List(values.len(), at))?;
                    self.at += 1;
                    continue;
                }
                '[' => {
                    push(&mut frames, Frame::Vector(values.len(), at))?;
                    self.at += 1;
                    continue;
                }
                '{' => {
                    push(&mut frames, Frame::Map(values.len(), at, None))?;
                    self.at += 1;
                    continue;
                }
                '^' => {
                    push(&mut frames, Frame::Meta(at, false))?;
                    self.at += 1;
                    continue;
                }
                '#' => match ascii(1) {
                    b'{' => {
                        push(&mut frames, Frame::Set(values.len(), at))?;
                        self.at += 2;
                        continue;
                    }
                    b'_' => {
                        push(&mut frames, Frame::Discard(at))?;
                        self.at += 2;
                        continue;
                    }
                    b'^' => {
                        push(&mut frames, Frame::Meta(at, false))?;
                        self.at += 2;
                        continue;
                    }
                    b'#' => {
                        self.at += 2;
                        self.skip_blanks();
                        match self.token(false) {
                            "Inf" => Value::Float(f64::INFINITY),
                            "-Inf" => Value::Float(f64::NEG_INFINITY),
                            "NaN" => Value::Float(f64::NAN),
                            _ => return Err((ErrorKind::InvalidDispatch, "Inf, -Inf or NaN", at)),
                        }
                    }
                    b':' => {
                        self.at += 2;
                        let ns = self.token(false);
                        self.skip_blanks();
                        if ns.is_empty()
                            || ns.starts_with(':')
                            || ns.contains('/')
                            || matches!(ns, "nil" | "true" | "false")
                            || !is_symbol(ns)
                            || self.peek() != Some('{')
                        {
                            return Err((ErrorKind::InvalidDispatch, "a namespace and a map", at));
                        }
                        push(&mut frames, Frame::Map(values.len(), at, Some(ns)))?;
                        self.at += 1;
                        continue;
                    }
                    _ => {
                        self.at += 1;
                        if !self.peek().is_some_and(char::is_alphabetic) {
                            return Err((ErrorKind::InvalidDispatch, "{, _, ^, #, : or a tag", at));
                        }
                        let tag = self.token(false);
                        if !is_symbol(tag) || matches!(tag, "nil" | "true" | "false") {
                            return Err((ErrorKind::InvalidTag, "a symbol", at));
                        }
                        push(&mut frames, Frame::Tag(tag, at))?;
                        continue;
                    }
                },
                ')' | ']' | '}' => {
                    self.at += 1;
                    match (c, frames.pop()) {
                        (')', Some(Frame::List(start, _))) => {
                            Value::List(values.split_off(start).into_boxed_slice())
                        }
                        (']', Some(Frame::Vector(start, _))) => {
                            Value::Vector(values.split_off(start).into_boxed_slice())
                        }
                        ('}', Some(Frame::Set(start, _))) => Value::Set(
                            Set::unique(values.split_off(start))
                                .map_err(|_| (ErrorKind::DuplicateElement, "different elements", at))?,
                        ),
                        ('}', Some(Frame::Map(start, _, ns))) => {
                            let mut entries = Vec::new();
                            let mut items = values.split_off(start).into_iter();
                            while let Some(key) = items.next() {
                                let Some(value) = items.next() else {
                                    return Err((ErrorKind::OddMap, "a value for the last key", at));
                                };
                                let key = match (ns, key) {
                                    (Some(ns), Value::Keyword(name)) => Value::Keyword(qualify(ns, name)),
                                    (Some(ns), Value::Symbol(name)) => Value::Symbol(qualify(ns, name)),
                                    (_, key) => key,
                                };
                                entries.push([key, value]);
                            }
                            Value::Map(
                                Map::unique(entries)
                                    .map_err(|_| (ErrorKind::DuplicateKey, "different keys", at))?,
                            )
                        }
                        _ => return Err((ErrorKind::UnmatchedDelimiter, "a form", at)),
                    }
                }
                '"' => self.string(at)?,
                '\\' => self.character(at)?,
                '@' | '`' | '~' => return Err((ErrorKind::InvalidToken, "a form", at)),
                c if c.is_ascii_digit() || (matches!(c, '+' | '-') && ascii(1).is_ascii_digit()) => {
                    let token = self.token(true);
                    number(token).ok_or((ErrorKind::InvalidNumber, "a number", at))?
                }
                _ => match self.token(false) {
                    "nil" => Value::Nil,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    token if !is_symbol(token) || token.contains(['@', '`', '~']) => {
                        return Err((ErrorKind::InvalidToken, "a symbol or a keyword", at));
                    }
                    token => match token.strip_prefix(':') {
                        Some(name) => Value::Keyword(name.into()),
                        None => Value::Symbol(token.into()),
                    },
                },
            };
            let mut value = value;
            loop {
                match frames.last() {
                    Some(Frame::Discard(_)) => {
                        frames.pop();
                        break;
                    }
                    Some(Frame::Tag(tag, at)) => {
                        value = tagged(tag, value).ok_or((ErrorKind::InvalidTag, "a valid element", *at))?;
                        frames.pop();
                    }
                    Some(Frame::Meta(at, false)) => {
                        if !matches!(
                            value,
                            Value::Symbol(_) | Value::Keyword(_) | Value::Str(_) | Value::Map(_)
                        ) {
                            return Err((
                                ErrorKind::InvalidMetadata,
                                "a symbol, keyword, string or map",
                                *at,
                            ));
                        }
                        let at = *at;
                        frames.pop();
                        frames.push(Frame::Meta(at, true));
                        break;
                    }
                    Some(Frame::Meta(at, true)) => {
                        if !matches!(
                            value,
                            Value::Symbol(_)
                                | Value::List(_)
                                | Value::Vector(_)
                                | Value::Map(_)
                                | Value::Set(_)
                        ) {
                            return Err((ErrorKind::InvalidMetadata, "a symbol or a collection", *at));
                        }
                        frames.pop();
                    }
                    Some(_) => {
                        values.push(value);
                        break;
                    }
                    None => return Ok(Some(value)),
                }
            }
        }
    }

    fn string(&mut self, at: usize) -> Result<Value<'a>, Fail> {
        self.at += 1;
        let rest = self.rest();
        let mut units: Vec<u16> = Vec::new();
        let mut chars = rest.char_indices();
        let mut plain = true;
        let mut buffer = [0_u16; 2];
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += i + 1;
                    if plain {
                        return Ok(Value::str(rest.get(..i).unwrap_or_default()));
                    }
                    return String::from_utf16(&units)
                        .map(Value::from)
                        .map_err(|_| (ErrorKind::InvalidString, "paired surrogates", at));
                }
                '\\' => {
                    if plain {
                        plain = false;
                        units.extend(rest.get(..i).unwrap_or_default().encode_utf16());
                    }
                    let bad = (ErrorKind::InvalidString, "an escape", self.at + i);
                    let unit = match chars.next().map(|(_, c)| c) {
                        Some('t') => 9,
                        Some('r') => 13,
                        Some('n') => 10,
                        Some('b') => 8,
                        Some('f') => 12,
                        Some('"') => 34,
                        Some('\\') => 92,
                        Some('u') => {
                            let hex = rest
                                .get(i + 2..i + 6)
                                .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
                                .ok_or(bad)?;
                            chars.nth(3);
                            u16::from_str_radix(hex, 16).map_err(|_| bad)?
                        }
                        Some(c @ '0'..='7') => {
                            let mut code = c.to_digit(8).unwrap_or(0);
                            for _ in 0..2 {
                                match chars.clone().next() {
                                    Some((_, c)) if c.is_digit(8) => {
                                        code = code * 8 + c.to_digit(8).unwrap_or(0);
                                        chars.next();
                                    }
                                    Some((_, c)) if is_blank(c) || is_macro(c) => break,
                                    _ => return Err(bad),
                                }
                            }
                            u16::try_from(code).ok().filter(|code| *code <= 0o377).ok_or(bad)?
                        }
                        _ => return Err(bad),
                    };
                    units.push(unit);
                }
                c if !plain => units.extend_from_slice(c.encode_utf16(&mut buffer)),
                _ => {}
            }
        }
        self.at = self.text.len();
        Err((ErrorKind::UnexpectedEnd, "the end of the string", at))
    }

    fn character(&mut self, at: usize) -> Result<Value<'a>, Fail> {
        self.at += 1;
        if self.rest().is_empty() {
            return Err((ErrorKind::UnexpectedEnd, "a character", at));
        }
        let token = self.token(false);
        let bad = (ErrorKind::InvalidCharacter, "a character", at);
        let mut chars = token.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            return if c.len_utf16() == 1 { Ok(Value::Char(c)) } else { Err(bad) };
        }
        let code = |digits: &str, radix: u32| -> Option<char> {
            if !digits.chars().all(|c| c.is_digit(radix)) {
                return None;
            }
            if digits.is_empty() {
                return Some('\0');
            }
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)
        };
        let c = match token {
            "newline" => Some('\n'),
            "space" => Some(' '),
            "tab" => Some('\t'),
            "backspace" => Some('\u{8}'),
            "formfeed" => Some('\u{c}'),
            "return" => Some('\r'),
            _ => match (token.strip_prefix('u'), token.strip_prefix('o')) {
                (Some(hex), _) if hex.len() == 4 => code(hex, 16),
                (_, Some(octal)) if octal.len() <= 3 => code(octal, 8).filter(|c| u32::from(*c) <= 0o377),
                _ => None,
            },
        };
        c.map(Value::Char).ok_or(bad)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Value<'a>, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let result = match (self.form(), self.invalid) {
            (Ok(Some(value)), _) => return Some(Ok(value)),
            (Ok(None) | Err((ErrorKind::UnexpectedEnd, ..)), Some(at)) => {
                Some((ErrorKind::InvalidUtf8, "UTF-8", at))
            }
            (Ok(None), None) => None,
            (Err(fail), _) => Some(fail),
        };
        self.done = true;
        result.map(|(kind, expected, at)| Err(Error::at(kind, expected, self.bytes, at)))
    }
}

fn qualify<'a>(ns: &'a str, name: Text<'a>) -> Text<'a> {
    match name.strip_prefix("_/") {
        Some(bare) => bare.to_owned().into(),
        None if name.contains('/') && &*name != "/" => name,
        None => format!("{ns}/{name}").into(),
    }
}
fn is_blank(c: char) -> bool {
    c == ','
        || matches!(c, '\u{1c}'..='\u{1f}')
        || (c.is_whitespace() && !matches!(c, '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}'))
}
fn is_macro(c: char) -> bool {
    matches!(c, '"' | ';' | '^' | '(' | ')' | '[' | ']' | '{' | '}' | '\\' | '#')
}
fn is_symbol(token: &str) -> bool {
    let name = token.strip_prefix(':').unwrap_or(token);
    if name.is_empty()
        || token.starts_with("::")
        || name.contains("::")
        || name.ends_with(':')
        || name.contains(":/")
    {
        return false;
    }
    let starts = |part: &str| part.chars().next().is_some_and(|c| !c.is_ascii_digit());
    match name.rsplit_once('/') {
        _ if name == "/" => true,
        None => starts(name),
        Some((ns, "")) => ns.ends_with('/') && ns.len() > 1 && starts(ns),
        Some((ns, last)) => !ns.is_empty() && starts(ns) && starts(last),
    }
}
fn number(token: &str) -> Option<Value<'static>> {
    let unsigned = token.strip_prefix(['+', '-']).unwrap_or(token);
    let negative = token.starts_with('-');
    if let Ok(int) = token.parse::<i64>()
        && (unsigned == "0" || !unsigned.starts_with('0'))
    {
        return Some(Value::Int(int));
    }
    let (body, big) = match unsigned.strip_suffix('N') {
        Some(body) => (body, true),
        None => (unsigned, false),
    };
    let digits =
        |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_ascii() && c.is_digit(radix));
    let integer = |text: &str, radix: u32| {
        let mut int = BigInt::parse_bytes(text.as_bytes(), radix)?;
        if negative {
            int = -int;
        }
        Some(match i64::try_from(&int) {
            Ok(int) if !big => Value::Int(int),
            _ => Value::from(int),
        })
    };
    if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        return if digits(hex, 16) { integer(hex, 16) } else { None };
    }
    if body == "0" || (digits(body, 10) && !body.starts_with('0')) {
        return integer(body, 10);
    }
    if body.starts_with('0') && digits(body, 8) {
        return integer(body, 8);
    }
    if body.starts_with('0') && digits(body, 10) {
        return None;
    }
    for (text, n) in [(body, big), (unsigned, false)] {
        if let Some((radix, text)) = text.split_once(['r', 'R'])
            && digits(radix, 10)
            && !radix.starts_with('0')
            && radix.len() <= 2
            && (n == big)
        {
            let radix = u32::from_str(radix).ok().filter(|radix| (2..=36).contains(radix))?;
            return if digits(text, radix) { integer(text, radix) } else { None };
        }
    }
    if let Some((numerator, denominator)) = unsigned.split_once('/') {
        if !digits(numerator, 10) || !digits(denominator, 10) {
            return None;
        }
        let mut numerator = BigInt::from_str(numerator).ok()?;
        if negative {
            numerator = -numerator;
        }
        return Some(match Ratio::reduce(numerator, BigInt::from_str(denominator).ok()?)? {
            Ok(ratio) => Value::from(ratio),
            Err(int) => i64::try_from(&int).map_or_else(|_| Value::from(int.clone()), Value::Int),
        });
    }
    let (body, decimal) = match unsigned.strip_suffix('M') {
        Some(body) => (body, true),
        None => (unsigned, false),
    };
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e)),
        None => (body, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((w, f)) => (w, f),
        None => (mantissa, ""),
    };
    if !digits(whole, 10)
        || !(fraction.is_empty() || digits(fraction, 10))
        || exponent.is_some_and(|e| !digits(e.strip_prefix(['+', '-']).unwrap_or(e), 10))
    {
        return None;
    }
    if decimal {
        let exponent = match exponent {
            Some(exponent) => i64::from(i32::from_str(exponent).ok()?),
            None => 0,
        };
        let mut int = BigInt::from_str(&format!("{whole}{fraction}")).ok()?;
        if negative {
            int = -int;
        }
        return Some(Value::from(BigDecimal::new(int, i64::try_from(fraction.len()).ok()? - exponent)));
    }
    let float = if negative { -f64::from_str(body).ok()? } else { f64::from_str(body).ok()? };
    Some(Value::Float(float))
}
fn tagged<'a>(tag: &'a str, value: Value<'a>) -> Option<Value<'a>> {
    match tag {
        "uuid" => value.as_str().and_then(|text| uuid::Uuid::try_parse(text).ok()).map(Value::Uuid),
        "inst" => {
            let text = value.as_str()?;
            let timestamp = jiff::Timestamp::from_str(text).ok()?;
            Some(Value::Inst(Inst::new(
                timestamp.as_second(),
                u32::try_from(timestamp.subsec_nanosecond()).ok()?,
            )))
        }
        _ => Some(Value::tagged(tag, value)),
    }
}
