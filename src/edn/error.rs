//! Why a text is no EDN, and where.
//!
//! Knows places in a text; knows nothing of how it is read.

use std::fmt;

/// What is wrong. The code of each is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    Empty,
    ExtraForm,
    UnexpectedEnd,
    UnmatchedDelimiter,
    InvalidToken,
    InvalidNumber,
    InvalidString,
    InvalidCharacter,
    InvalidDispatch,
    InvalidTag,
    InvalidMetadata,
    OddMap,
    DuplicateKey,
    DuplicateElement,
    InvalidUtf8,
    TooDeep,
    TooLarge,
}

impl ErrorKind {
    /// The stable code, as it goes over the wire.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::Empty => "empty",
            ErrorKind::ExtraForm => "extra-form",
            ErrorKind::UnexpectedEnd => "unexpected-end",
            ErrorKind::UnmatchedDelimiter => "unmatched-delimiter",
            ErrorKind::InvalidToken => "invalid-token",
            ErrorKind::InvalidNumber => "invalid-number",
            ErrorKind::InvalidString => "invalid-string",
            ErrorKind::InvalidCharacter => "invalid-character",
            ErrorKind::InvalidDispatch => "invalid-dispatch",
            ErrorKind::InvalidTag => "invalid-tag",
            ErrorKind::InvalidMetadata => "invalid-metadata",
            ErrorKind::OddMap => "odd-map",
            ErrorKind::DuplicateKey => "duplicate-key",
            ErrorKind::DuplicateElement => "duplicate-element",
            ErrorKind::InvalidUtf8 => "invalid-utf8",
            ErrorKind::TooDeep => "too-deep",
            ErrorKind::TooLarge => "too-large",
        }
    }
}

/// A rejection: what is wrong, where, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub(super) kind: ErrorKind,
    pub(super) offset: usize,
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) expected: &'static str,
}

impl Error {
    pub(super) fn at(kind: ErrorKind, expected: &'static str, input: &[u8], offset: usize) -> Self {
        let before = input.get(..offset).unwrap_or(input);
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let in_line = before.get(line_start..).unwrap_or_default();
        let column = 1 + in_line.iter().filter(|byte| *byte & 0xC0 != 0x80).count();
        Error { kind, offset, line, column, expected }
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {} expected {}", self.line, self.column, self.kind.code(), self.expected)
    }
}
impl std::error::Error for Error {}
