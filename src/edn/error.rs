//! Why a text is no EDN, where, and what was expected there.
//!
//! Knows places in a text; knows nothing of how it is read.

use std::fmt;

/// What is wrong. The code of each is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no form.
    Empty,
    /// There is a second form where one is asked for.
    ExtraForm,
    /// The input ends inside a form.
    UnexpectedEnd,
    /// A closing delimiter that closes nothing, or something else.
    UnmatchedDelimiter,
    /// A word that is neither symbol nor keyword.
    InvalidToken,
    /// A word that starts like a number and is none.
    InvalidNumber,
    /// A backslash in a string, and not an escape after it.
    InvalidEscape,
    /// Half of a surrogate pair in a string: Rust's strings hold characters only.
    LoneSurrogate,
    /// A backslash, and not a character after it.
    InvalidCharacter,
    /// A `#`, and nothing after it that it announces.
    InvalidDispatch,
    /// A tag that is no symbol, or an element that is not what its tag says.
    InvalidTag,
    /// What stands after `##` is not `Inf`, `-Inf` or `NaN`.
    InvalidSymbolic,
    /// A namespaced map without a namespace or without a map.
    InvalidNamespace,
    /// Metadata of the wrong kind, or on what carries none.
    InvalidMetadata,
    /// A map whose last key has no value.
    OddMap,
    /// Two equal keys in a map.
    DuplicateKey,
    /// Two equal elements in a set.
    DuplicateElement,
    /// Bytes that are not UTF-8.
    InvalidUtf8,
    /// Nested more deeply than the bound.
    TooDeep,
    /// More bytes, digits or elements than the bound.
    TooLarge,
    /// More values in one form than the bound.
    TooManyValues,
}

impl ErrorKind {
    /// All kinds, for documentation and tests.
    pub const ALL: [ErrorKind; 21] = [
        ErrorKind::Empty,
        ErrorKind::ExtraForm,
        ErrorKind::UnexpectedEnd,
        ErrorKind::UnmatchedDelimiter,
        ErrorKind::InvalidToken,
        ErrorKind::InvalidNumber,
        ErrorKind::InvalidEscape,
        ErrorKind::LoneSurrogate,
        ErrorKind::InvalidCharacter,
        ErrorKind::InvalidDispatch,
        ErrorKind::InvalidTag,
        ErrorKind::InvalidSymbolic,
        ErrorKind::InvalidNamespace,
        ErrorKind::InvalidMetadata,
        ErrorKind::OddMap,
        ErrorKind::DuplicateKey,
        ErrorKind::DuplicateElement,
        ErrorKind::InvalidUtf8,
        ErrorKind::TooDeep,
        ErrorKind::TooLarge,
        ErrorKind::TooManyValues,
    ];

    /// The stable code, as it goes over the wire.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::Empty => "empty",
            ErrorKind::ExtraForm => "extra-form",
            ErrorKind::UnexpectedEnd => "unexpected-end",
            ErrorKind::UnmatchedDelimiter => "unmatched-delimiter",
            ErrorKind::InvalidToken => "invalid-token",
            ErrorKind::InvalidNumber => "invalid-number",
            ErrorKind::InvalidEscape => "invalid-escape",
            ErrorKind::LoneSurrogate => "lone-surrogate",
            ErrorKind::InvalidCharacter => "invalid-character",
            ErrorKind::InvalidDispatch => "invalid-dispatch",
            ErrorKind::InvalidTag => "invalid-tag",
            ErrorKind::InvalidSymbolic => "invalid-symbolic",
            ErrorKind::InvalidNamespace => "invalid-namespace",
            ErrorKind::InvalidMetadata => "invalid-metadata",
            ErrorKind::OddMap => "odd-map",
            ErrorKind::DuplicateKey => "duplicate-key",
            ErrorKind::DuplicateElement => "duplicate-element",
            ErrorKind::InvalidUtf8 => "invalid-utf8",
            ErrorKind::TooDeep => "too-deep",
            ErrorKind::TooLarge => "too-large",
            ErrorKind::TooManyValues => "too-many-values",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A rejection: what is wrong, where, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column} {kind}: expected {expected}")]
pub struct Error {
    kind: ErrorKind,
    offset: usize,
    line: usize,
    column: usize,
    expected: &'static str,
}

impl Error {
    /// The rejection of `input` at the byte `offset`.
    pub(super) fn at(kind: ErrorKind, expected: &'static str, input: &[u8], offset: usize) -> Self {
        let mut place = Place::default();
        place.pass(input.get(..offset).unwrap_or(input));
        place.error(kind, expected)
    }

    /// What is wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code of what is wrong.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column in characters, counted from 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// The offset in bytes, counted from 0.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What was expected at that place.
    pub fn expected(&self) -> &'static str {
        self.expected
    }

    /// The same rejection of an input that starts at `start` of a longer one.
    pub(super) fn after(mut self, start: Place) -> Self {
        if self.line == 1 {
            self.column += start.characters;
        }
        self.line += start.lines;
        self.offset += start.bytes;
        self
    }
}

/// How far a text has been passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    bytes: usize,
    lines: usize,
    /// Characters since the last line feed.
    characters: usize,
}

impl Place {
    /// How many bytes have been passed.
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// Passes `text`.
    pub(super) fn pass(&mut self, text: &[u8]) {
        self.bytes += text.len();
        let lines = memchr::memchr_iter(b'\n', text).count();
        let in_line = match memchr::memrchr(b'\n', text) {
            Some(at) => {
                self.characters = 0;
                text.get(at + 1..).unwrap_or_default()
            }
            None => text,
        };
        self.lines += lines;
        // Bytes that continue a character are not counted.
        self.characters += in_line.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    }

    pub(super) fn error(self, kind: ErrorKind, expected: &'static str) -> Error {
        Error { kind, offset: self.bytes, line: self.lines + 1, column: self.characters + 1, expected }
    }
}
