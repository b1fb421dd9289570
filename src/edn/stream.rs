//! Forms out of bytes that arrive in pieces: a line in parts, a file of many forms.
//!
//! Knows where a form ends, by its brackets, strings and prefixes; what it means is the reader's concern.
//! Holds the bytes of one form and no more, and looks at each byte twice: once for the end, once to read.

use std::collections::VecDeque;

use super::error::{Error, ErrorKind, Place};
use super::read::{Options, Reader, blank, is_digit};
use crate::value::Owned;

/// Cuts forms out of pieces.
///
/// ```
/// use edn_codec::{Stream, Value};
///
/// let mut stream = Stream::new();
/// stream.push(b"{:a [1 2");
/// assert_eq!(stream.next_form()?, None);
/// stream.push(b"]} :b");
/// assert_eq!(stream.next_form()?, Some(Value::map([(Value::keyword("a"), Value::vector([1, 2]))])));
/// assert_eq!(stream.next_form()?, None);
/// assert_eq!(stream.finish()?, Some(Value::keyword("b")));
/// # Ok::<(), edn_codec::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    options: Options,
    buffer: Vec<u8>,
    /// Where in the buffer the form starts that is looked for.
    start: usize,
    /// How far the buffer is looked through.
    seen: usize,
    scan: Scan,
    /// Where `start` is in the whole stream.
    place: Place,
    /// Forms that are read and not given yet: what stands between two blanks may hold several.
    forms: VecDeque<Owned>,
    rejected: Option<Error>,
}

impl Default for Stream {
    fn default() -> Self {
        Stream::new()
    }
}

impl Stream {
    /// A stream within the bounds of [`limits`](crate::limits).
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    /// A stream within the bounds of `options`: no form is longer than `max_bytes`.
    pub fn with(options: Options) -> Self {
        Stream {
            options,
            buffer: Vec::new(),
            start: 0,
            seen: 0,
            scan: Scan::default(),
            place: Place::default(),
            forms: VecDeque::new(),
            rejected: None,
        }
    }

    /// Takes a piece. Read all forms before the next one is pushed: what is not read is held.
    pub fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.seen = self.seen.saturating_sub(self.start);
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    /// The next form that has ended; none if more is needed.
    ///
    /// # Errors
    /// A rejection, with its place in the whole stream. It ends the stream: it comes again each time.
    pub fn next_form(&mut self) -> Result<Option<Owned>, Error> {
        self.form(false)
    }

    /// The next form, given that no more comes; none after the last one.
    ///
    /// # Errors
    /// As [`Stream::next_form`].
    pub fn finish(&mut self) -> Result<Option<Owned>, Error> {
        self.form(true)
    }

    /// The line of the last rejection, as far as it is held, and a caret below the place.
    pub fn excerpt(&self) -> Option<String> {
        /// Most characters that are shown before the place and after it.
        const SHOWN: usize = 60;
        let error = self.rejected.as_ref()?;
        let at = self.start + error.offset().checked_sub(self.place.bytes())?;
        let (before, after) = self.buffer.split_at_checked(at)?;
        let line = before.rsplit(|byte| *byte == b'\n').next()?;
        let rest = after.split(|byte| matches!(byte, b'\n' | b'\r')).next()?;
        let (line, rest) = (String::from_utf8_lossy(line), String::from_utf8_lossy(rest));
        let skipped = line.chars().count().saturating_sub(SHOWN);
        let mut shown: String = line.chars().skip(skipped).collect();
        let caret: String = shown.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        shown.extend(rest.chars().take(SHOWN));
        Some(format!("{shown}\n{caret}^"))
    }

    fn form(&mut self, end: bool) -> Result<Option<Owned>, Error> {
        loop {
            if let Some(form) = self.forms.pop_front() {
                return Ok(Some(form));
            }
            if let Some(error) = &self.rejected {
                return Err(error.clone());
            }
            let ended = self.look_for_end()?;
            if !ended && end && !self.scan.started && self.start < self.seen {
                return Err(self.reject(self.place.error(ErrorKind::InvalidUtf8, "UTF-8")));
            }
            if !ended && (!end || !self.scan.started) {
                return Ok(None);
            }
            self.scan = Scan::default();
            let text = self.buffer.get(self.start..self.seen).unwrap_or_default();
            let mut rejected = None;
            for form in Reader::with(text, self.options) {
                match form {
                    Ok(form) => self.forms.push_back(form.into_owned()),
                    Err(error) => rejected = Some(error.after(self.place)),
                }
            }
            match rejected {
                Some(error) => self.rejected = Some(error),
                None => self.pass(),
            }
        }
    }

    /// Looks through what is held; true if a form ends in it.
    fn look_for_end(&mut self) -> Result<bool, Error> {
        while let Some(byte) = self.buffer.get(self.seen) {
            let started = self.scan.started;
            let step = self.scan.step(*byte);
            if self.scan.started && !started {
                self.skip()?;
            }
            self.seen += usize::from(!matches!(step, Step::EndedBefore));
            if !matches!(step, Step::On) {
                return Ok(true);
            }
            if self.scan.started && self.seen - self.start > self.options.max_bytes {
                return Err(self.reject(self.place.error(ErrorKind::TooLarge, "a shorter form")));
            }
        }
        if !self.scan.started {
            self.skip()?;
        }
        Ok(false)
    }

    /// Leaves blanks and comments behind. They are text too; what may be the start of a character whose rest is
    /// still to come is kept.
    fn skip(&mut self) -> Result<(), Error> {
        let text = self.buffer.get(self.start..self.seen).unwrap_or_default();
        let Err(error) = std::str::from_utf8(text) else {
            self.pass();
            return Ok(());
        };
        let valid = error.valid_up_to();
        self.place.pass(text.get(..valid).unwrap_or_default());
        self.start += valid;
        match error.error_len() {
            None if self.seen == self.buffer.len() => Ok(()),
            _ => Err(self.reject(self.place.error(ErrorKind::InvalidUtf8, "UTF-8"))),
        }
    }

    /// Leaves what is looked through behind.
    fn pass(&mut self) {
        self.place.pass(self.buffer.get(self.start..self.seen).unwrap_or_default());
        self.start = self.seen;
    }

    fn reject(&mut self, error: Error) -> Error {
        self.rejected = Some(error.clone());
        error
    }
}

enum Step {
    On,
    /// The form ends with this byte.
    Ended,
    /// The form has ended before this byte.
    EndedBefore,
}

/// Where in a form the bytes seen so far end.
#[derive(Debug, Default)]
struct Scan {
    state: State,
    /// Brackets that are open.
    depth: usize,
    /// Forms that are still to come before the one that counts: those that are discarded, metadata, the
    /// namespace of a map.
    pending: usize,
    /// Something other than blanks and comments came by.
    started: bool,
    wide: Wide,
}

/// A character beyond ASCII, as far as it has come.
#[derive(Debug, Default)]
struct Wide {
    bits: u32,
    /// How many of its bytes are still to come.
    missing: u8,
    /// Only blanks and comments came by before it.
    first: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Blank,
    Comment,
    String,
    Escape,
    /// After `\`: the next character belongs to it whatever it is.
    Character,
    /// In a character beyond ASCII after `\`
    WideCharacter,
    Word,
    /// After a sign that starts a word
    Sign,
    /// A word that `#` ends too
    Number,
    /// After a `#` that starts something.
    Hash,
    /// In a tag.
    Tag,
}

impl Scan {
    fn step(&mut self, byte: u8) -> Step {
        if byte >= 128 && !matches!(self.state, State::Comment | State::String | State::Escape) {
            return self.wide_step(byte);
        }
        match self.state {
            State::Comment => {
                if matches!(byte, b'\n' | b'\r') {
                    self.state = State::Blank;
                }
                Step::On
            }
            State::String => {
                match byte {
                    b'"' => return self.complete(Step::Ended),
                    b'\\' => self.state = State::Escape,
                    _ => {}
                }
                Step::On
            }
            State::Escape => {
                self.state = State::String;
                Step::On
            }
            State::Character => {
                self.state = State::Word;
                Step::On
            }
            State::Sign if byte.is_ascii_digit() => {
                self.state = State::Number;
                Step::On
            }
            State::Sign | State::Word | State::WideCharacter if !ends_word(byte) => {
                self.state = State::Word;
                Step::On
            }
            State::Number if !ends_word(byte) && byte != b'#' => Step::On,
            State::Sign | State::Word | State::WideCharacter | State::Number => {
                match self.complete(Step::EndedBefore) {
                    Step::On => self.start(byte),
                    ended => ended,
                }
            }
            State::Tag if !ends_word(byte) => Step::On,
            State::Tag | State::Blank => self.start(byte),
            State::Hash => {
                self.state = State::Blank;
                match byte {
                    b'{' => self.depth += 1,
                    b'_' | b'^' | b':' => self.pending += usize::from(self.depth == 0),
                    b'#' => {}
                    _ if ends_word(byte) => return self.start(byte),
                    _ => self.state = State::Tag,
                }
                Step::On
            }
        }
    }

    /// A byte of a character beyond ASCII, outside strings and comments: only all of them tell what it is.
    fn wide_step(&mut self, byte: u8) -> Step {
        let lead = |bits, missing| Wide { bits, missing, first: !self.started };
        self.wide = match byte {
            0xF0.. => lead(u32::from(byte & 0x07), 3),
            0xE0.. => lead(u32::from(byte & 0x0F), 2),
            0xC0.. => lead(u32::from(byte & 0x1F), 1),
            // What continues no character is no text: the reader says so.
            _ => Wide {
                bits: self.wide.bits << 6 | u32::from(byte & 0x3F),
                missing: self.wide.missing.saturating_sub(1),
                first: self.wide.first,
            },
        };
        self.started = true;
        if self.state == State::Character {
            self.state = State::WideCharacter;
        }
        if self.wide.missing > 0 {
            return Step::On;
        }
        let c = char::from_u32(self.wide.bits).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.state = match self.state {
            State::WideCharacter => State::Word,
            State::Blank | State::Hash | State::Tag if blank(c) => {
                // Blanks alone start nothing.
                self.started = !(self.wide.first && self.state == State::Blank);
                State::Blank
            }
            _ if blank(c) => return self.complete(Step::Ended),
            State::Blank | State::Sign if is_digit(c) => State::Number,
            State::Blank | State::Sign => State::Word,
            State::Hash => State::Tag,
            state => state,
        };
        Step::On
    }

    /// A byte where a form may start.
    fn start(&mut self, byte: u8) -> Step {
        let blank = matches!(byte, b'\t'..=b'\r' | 0x1C..=0x1F | b' ' | b',');
        self.state = State::Blank;
        if blank {
            return Step::On;
        }
        if byte == b';' {
            self.state = State::Comment;
            return Step::On;
        }
        self.started = true;
        match byte {
            b'"' => self.state = State::String,
            b'\\' => self.state = State::Character,
            b'#' => self.state = State::Hash,
            b'^' => self.pending += usize::from(self.depth == 0),
            b'(' | b'[' | b'{' => self.depth += 1,
            b')' | b']' | b'}' => {
                // One too many is read as it is: the reader says what is wrong.
                self.depth = self.depth.saturating_sub(1);
                return self.complete(Step::Ended);
            }
            b'0'..=b'9' => self.state = State::Number,
            b'+' | b'-' => self.state = State::Sign,
            _ => self.state = State::Word,
        }
        Step::On
    }

    /// A form has ended: is it the one that counts?
    fn complete(&mut self, ended: Step) -> Step {
        self.state = State::Blank;
        match (self.depth, self.pending) {
            (0, 0) => ended,
            (0, _) => {
                self.pending -= 1;
                Step::On
            }
            _ => Step::On,
        }
    }
}

/// Does this byte end a word? Wide blanks do too.
fn ends_word(byte: u8) -> bool {
    matches!(
        byte,
        b'\t'..=b'\r' | 0x1C..=0x1F | b' ' | b',' | b'"' | b';' | b'^' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\\'
    )
}
