//! What words are made of: classes of bytes, blanks, comments, and where a word ends.
//!
//! Knows single characters and words; knows no value.

use nom::IResult;
use nom::error::{ErrorKind as NomKind, FromExternalError, ParseError};

use crate::ErrorKind;

/// What a parser gives: the rest of the input and what it read.
pub(super) type Parsed<'a, T> = IResult<&'a str, T, Fail>;

/// A rejection before its place in the whole input is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fail {
    pub(super) kind: ErrorKind,
    pub(super) expected: &'static str,
    /// How many bytes of the input were left at that place.
    pub(super) left: usize,
}

impl Fail {
    /// A rejection at the start of `input`, final: no other parser is tried.
    #[cold]
    pub(super) fn at<T>(input: &str, kind: ErrorKind, expected: &'static str) -> Result<T, nom::Err<Fail>> {
        Err(nom::Err::Failure(Fail { kind, expected, left: input.len() }))
    }
}

impl ParseError<&str> for Fail {
    fn from_error_kind(input: &str, _: NomKind) -> Self {
        Fail { kind: ErrorKind::InvalidToken, expected: "a form", left: input.len() }
    }
    fn append(_: &str, _: NomKind, earlier: Self) -> Self {
        earlier
    }
}

impl<E> FromExternalError<&str, E> for Fail {
    fn from_external_error(input: &str, kind: NomKind, _: E) -> Self {
        Fail::from_error_kind(input, kind)
    }
}

/// A blank: white space or a comma.
const BLANK: u8 = 1;
/// Ends a word.
const END: u8 = 1 << 1;
/// Ends a number.
const NUMBER_END: u8 = 1 << 2;
/// Has a meaning inside a name: `/`, `:`, and what no name may have.
const SPECIAL: u8 = 1 << 3;
/// A byte of a character beyond ASCII: only the whole character tells what it is.
const WIDE: u8 = 1 << 4;
/// May start what is blank without being one: a comment, a blank beyond ASCII.
const RARE: u8 = 1 << 5;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let class = match byte as u8 {
            b'\t'..=b'\r' | 0x1C..=0x1F | b' ' | b',' => BLANK | END | NUMBER_END,
            b';' => END | NUMBER_END | RARE,
            b'"' | b'^' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\\' => END | NUMBER_END,
            b'#' => NUMBER_END,
            b'/' | b':' | b'@' | b'`' | b'~' => SPECIAL,
            128.. => WIDE | SPECIAL | RARE,
            _ => 0,
        };
        #[expect(clippy::indexing_slicing, reason = "below 256, and known when compiling")]
        {
            classes[byte] = class;
        }
        byte += 1;
    }
    classes
}

#[inline(always)]
fn class(byte: u8) -> u8 {
    // A byte is an index of 256 elements: the check is compiled away.
    CLASSES.get(usize::from(byte)).copied().unwrap_or(0)
}

/// The input from `at` on. `at` is a boundary between characters.
#[inline(always)]
pub(super) fn after(input: &str, at: usize) -> &str {
    input.get(at..).unwrap_or_default()
}

/// The input up to `at`, a boundary between characters.
#[inline(always)]
pub(super) fn before(input: &str, at: usize) -> &str {
    input.get(..at).unwrap_or_default()
}

#[inline(always)]
pub(super) fn first(input: &str) -> Option<u8> {
    input.as_bytes().first().copied()
}

/// `blanks = { blank | comment }`
#[inline(always)]
pub(super) fn blanks(input: &str) -> &str {
    // One blank, or none, is the common case; a comma and a blank are the next.
    match *input.as_bytes() {
        [next, ..] if class(next) & (BLANK | RARE) == 0 => input,
        [b' ' | b'\n', next, ..] if class(next) & (BLANK | RARE) == 0 => after(input, 1),
        [b',', b' ', next, ..] if class(next) & (BLANK | RARE) == 0 => after(input, 2),
        _ => many_blanks(input),
    }
}

#[inline(never)]
fn many_blanks(mut input: &str) -> &str {
    const SPACES: [u8; 8] = [b' '; 8];
    loop {
        // Indentation is most of what is blank in a file.
        let (words, _) = input.as_bytes().as_chunks::<8>();
        input = after(input, 8 * words.iter().take_while(|word| **word == SPACES).count());
        let run = input.bytes().take_while(|byte| class(*byte) & BLANK != 0).count();
        input = after(input, run);
        match first(input) {
            Some(b';') => input = comment(input),
            Some(128..) => match input.chars().next() {
                Some(c) if blank(c) => input = after(input, c.len_utf8()),
                _ => return input,
            },
            _ => return input,
        }
    }
}

/// `comment = ";" , { any - line end }`
pub(super) fn comment(input: &str) -> &str {
    after(input, memchr::memchr2(b'\n', b'\r', input.as_bytes()).unwrap_or(input.len()))
}

/// `blank`: what Java takes for white space, and the comma.
pub(crate) fn blank(c: char) -> bool {
    match u8::try_from(c) {
        Ok(byte) => class(byte) & BLANK != 0,
        Err(_) => matches!(
            c,
            '\u{1680}' | '\u{2000}'..='\u{2006}' | '\u{2008}'..='\u{200A}' | '\u{2028}' | '\u{2029}' | '\u{205F}' | '\u{3000}'
        ),
    }
}

/// A character that starts something of its own wherever it stands in a number.
pub(super) fn is_macro(c: char) -> bool {
    u8::try_from(c).is_ok_and(|byte| class(byte) & NUMBER_END != 0 && class(byte) & BLANK == 0)
}

/// A word: all up to a blank or to what starts or ends something else.
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) rest: &'a str,
    /// Nothing in it has a meaning inside a name.
    pub(super) plain: bool,
}

/// The word that starts with the first `skip` bytes of `input`, whatever they are.
#[inline(always)]
pub(super) fn word(input: &str, skip: usize) -> Word<'_> {
    let mut seen = 0;
    let mut end = skip;
    for byte in input.as_bytes().get(skip..).unwrap_or_default() {
        let class = class(*byte);
        if class & (END | WIDE) != 0 {
            if class & WIDE != 0 {
                return wide_word(input, end, END);
            }
            break;
        }
        seen |= class;
        end += 1;
    }
    Word { text: before(input, end), rest: after(input, end), plain: seen & SPECIAL == 0 }
}

/// The word that starts like a number: `#` ends it too.
pub(super) fn number_word(input: &str) -> Word<'_> {
    wide_word(input, 0, NUMBER_END)
}

#[cold]
fn wide_word(input: &str, start: usize, ends: u8) -> Word<'_> {
    let ended = |c: char| u8::try_from(c).map_or(0, class) & ends != 0 || blank(c);
    let end = after(input, start).find(ended).map_or(input.len(), |at| start + at);
    Word { text: before(input, end), rest: after(input, end), plain: false }
}

/// What Java's `Character.digit` gives: digits of any script and full-width letters count.
pub(super) fn digit(c: char, radix: u32) -> Option<u32> {
    let narrow = match c {
        '\u{FF21}'..='\u{FF3A}' | '\u{FF41}'..='\u{FF5A}' => char::from_u32(u32::from(c) - 0xFEE0)?,
        c if !c.is_ascii() => char::from_digit(decimal_digit(c)?, 10)?,
        c => c,
    };
    narrow.to_digit(radix)
}

/// What Java's `Character.isDigit` takes, in the planes that one UTF-16 unit reaches.
pub(crate) fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && decimal_digit(c).is_some())
}

fn decimal_digit(c: char) -> Option<u32> {
    /// The zeros of the scripts.
    const ZEROS: [u16; 36] = [
        0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
        0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
        0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    ];
    let code = u32::from(c);
    ZEROS.iter().map(|zero| code.wrapping_sub(u32::from(*zero))).find(|value| *value < 10)
}
