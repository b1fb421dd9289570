//! A form taken apart while it is read, for those who make something other than a [`Value`] of it.
//!
//! Knows where brackets open and close and what stands between them; knows only the way that succeeds: what is
//! no EDN gives nothing here, and [`super::read_one`] says why.

use super::lexical::{after, blanks, first};
use super::{Options, Stack, name, number, text};
use crate::value::Value;

/// A place in one form.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a str,
    stack: Stack<'a>,
    /// The bounds; of `max_depth` what is left inside the brackets that are open, of `max_values` what is left
    /// beside the collections that are closed.
    options: Options,
}

impl<'a> Cursor<'a> {
    /// The start of `input`; none if it is no UTF-8 or longer than the bound.
    pub(crate) fn new(input: &'a [u8]) -> Option<Self> {
        let options = Options::default();
        let rest = std::str::from_utf8(input).ok().filter(|text| text.len() <= options.max_bytes)?;
        Some(Cursor { rest, stack: Stack { frames: Vec::new(), values: Vec::new(), room: 0 }, options })
    }

    /// The byte with which the next form starts, or that closes what is open; none at the end. Blanks, comments
    /// and discarded forms are left behind.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.rest = blanks(self.rest);
        while self.rest.starts_with("#_") {
            let max_depth = self.options.max_depth.checked_sub(1)?;
            let options = Options { max_depth, ..self.options };
            let (rest, discarded) = self.stack.form(after(self.rest, 2), &options).ok()?;
            discarded?;
            self.options.max_values = self.stack.room.checked_sub(1)?;
            self.rest = blanks(rest);
        }
        first(self.rest)
    }

    /// The next form, whole.
    #[inline]
    pub(crate) fn form(&mut self) -> Option<Value<'a>> {
        let (rest, value) = match self.peek()? {
            b'"' => text::string(self.rest).ok()?,
            b':' => {
                let (rest, name) = name::keyword(self.rest).ok()?;
                (rest, Value::keyword(name))
            }
            b'0'..=b'9' => number::number(self.rest, self.options.max_digits).ok()?,
            _ => {
                let (rest, value) = self.stack.form(self.rest, &self.options).ok()?;
                self.options.max_values = self.stack.room;
                (rest, value?)
            }
        };
        self.rest = rest;
        Some(value)
    }

    /// The text of the string that is next, if it has no escape.
    #[inline]
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        let (rest, text) = text::plain_string(self.rest)?;
        self.rest = rest;
        Some(text)
    }

    /// The keyword that is next, without its colon.
    #[inline]
    pub(crate) fn keyword(&mut self) -> Option<&'a str> {
        let (rest, name) = name::keyword(self.rest).ok()?;
        self.rest = rest;
        Some(name)
    }

    /// The integer that is next, if it is a small one.
    #[inline]
    pub(crate) fn small_integer(&mut self) -> Option<i64> {
        let (rest, int) = number::small_integer(self.rest)?;
        self.rest = rest;
        Some(int)
    }

    /// Passes the bracket that opens a collection; none if that is nested too deeply.
    pub(crate) fn enter(&mut self) -> Option<()> {
        self.options.max_depth = self.options.max_depth.checked_sub(1)?;
        self.rest = after(self.rest, 1);
        Some(())
    }

    /// Passes the bracket `close`, which has to be next. `elements` is how many values stood before it, of which
    /// there may be too many.
    pub(crate) fn leave(&mut self, close: u8, elements: usize) -> Option<()> {
        if self.peek()? != close || elements > self.options.max_elements {
            return None;
        }
        self.options.max_values = self.options.max_values.checked_sub(elements)?;
        self.options.max_depth += 1;
        self.rest = after(self.rest, 1);
        Some(())
    }

    /// How many bytes are still to be read.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Is there no further form?
    pub(crate) fn at_end(&mut self) -> bool {
        self.peek().is_none() && self.rest.is_empty()
    }
}
