//! Bytes into values. This module and those below it are the only place that knows nom.
//!
//! The parsers of words (`lexical`, `name`, `number`, `text`, `tag`) are nom functions, named as the
//! productions of `grammar/edn.ebnf`. Collections and what stands before a form are kept on a stack of
//! their own, not on the call stack: an input cannot nest its way out of memory, and one allocation makes a
//! collection, of the size that it has.

use super::error::{Error, ErrorKind};
use crate::limits;
use crate::value::{Map, Set, Text, Value};
use lexical::{Fail, after, blanks, first};

#[cfg(feature = "serde")]
pub(super) use cursor::Cursor;
pub(super) use lexical::{blank, is_digit};

#[cfg(feature = "serde")]
mod cursor;
mod lexical;
mod name;
mod number;
mod tag;
mod text;

/// How much the reader takes. [`Options::default`] has the numbers of [`limits`].
///
/// ```
/// use edn_codec::{ErrorKind, Options, read_one_with};
///
/// let options = Options { max_depth: 2, ..Options::default() };
/// assert!(read_one_with(b"[[1]]", options).is_ok());
/// assert_eq!(read_one_with(b"[[[1]]]", options).unwrap_err().kind(), ErrorKind::TooDeep);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Deepest nesting of collections, tags, metadata and discards.
    pub max_depth: usize,
    /// Longest input, in bytes.
    pub max_bytes: usize,
    /// Longest number, in decimal digits. Its cost grows with the square of the length.
    pub max_digits: usize,
    /// Most elements of one collection; an entry of a map counts two.
    pub max_elements: usize,
    /// Most values in one form, at all levels: elements, keys, and what is discarded. The form itself is not
    /// counted.
    pub max_values: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_depth: limits::MAX_DEPTH,
            max_bytes: limits::MAX_BYTES,
            max_digits: limits::MAX_DIGITS,
            max_elements: limits::MAX_ELEMENTS,
            max_values: limits::MAX_VALUES,
        }
    }
}

/// The one form that `input` holds. Text without an escape is borrowed from it.
///
/// ```
/// let value = edn_codec::read_one(b"[1 2.5 nil]")?;
/// assert_eq!(value.as_slice().map(<[_]>::len), Some(3));
/// # Ok::<(), edn_codec::Error>(())
/// ```
///
/// # Errors
/// Any rejection; [`ErrorKind::Empty`] for no form, [`ErrorKind::ExtraForm`] for a second one.
pub fn read_one(input: &[u8]) -> Result<Value<'_>, Error> {
    read_one_with(input, Options::default())
}

/// The one form that `input` holds, within the bounds of `options`.
///
/// # Errors
/// As [`read_one`].
pub fn read_one_with(input: &[u8], options: Options) -> Result<Value<'_>, Error> {
    Reader::with(input, options).one()
}

/// All forms that `input` holds.
///
/// # Errors
/// The first rejection.
pub fn read_all(input: &[u8]) -> Result<Vec<Value<'_>>, Error> {
    Reader::new(input).collect()
}

/// The forms of an input, one after the other. Ends after the first rejection.
///
/// ```
/// let mut reader = edn_codec::Reader::new(b"{:a 1} ; a comment\n :b");
/// while let Some(form) = reader.next() {
///     println!("{} ends at byte {}", form?, reader.offset());
/// }
/// # Ok::<(), edn_codec::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    /// What is valid UTF-8 and not read yet.
    rest: &'a str,
    /// Why the input is not readable beyond `rest`, and where.
    invalid: Option<(ErrorKind, &'static str, usize)>,
    options: Options,
    stack: Stack<'a>,
    done: bool,
}

impl<'a> Reader<'a> {
    /// Reads `input` within the bounds of [`limits`].
    pub fn new(input: &'a [u8]) -> Self {
        Self::with(input, Options::default())
    }

    /// Reads `input` within the bounds of `options`.
    pub fn with(input: &'a [u8], options: Options) -> Self {
        let (rest, invalid) = match std::str::from_utf8(input) {
            _ if input.len() > options.max_bytes => {
                ("", Some((ErrorKind::TooLarge, "a shorter input", options.max_bytes)))
            }
            Ok(text) => (text, None),
            Err(error) => {
                let end = error.valid_up_to();
                let valid = input.get(..end).map(std::str::from_utf8);
                (valid.and_then(Result::ok).unwrap_or_default(), Some((ErrorKind::InvalidUtf8, "UTF-8", end)))
            }
        };
        Reader { input, rest, invalid, options, stack: Stack::new(), done: false }
    }

    /// The one form that there is.
    ///
    /// # Errors
    /// As [`read_one`].
    #[inline]
    pub fn one(&mut self) -> Result<Value<'a>, Error> {
        let value = match self.next() {
            None => return Err(Error::at(ErrorKind::Empty, "a form", self.input, self.input.len())),
            Some(value) => value?,
        };
        if self.rest.is_empty() && self.invalid.is_none() {
            return Ok(value);
        }
        self.rest = blanks(self.rest);
        let second = self.offset();
        match self.next() {
            None => Ok(value),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Err(Error::at(ErrorKind::ExtraForm, "the end of the input", self.input, second)),
        }
    }

    /// What the keyword `name` stands before in the outermost map, as far as that map was read when the form
    /// was rejected: so much of it can still be told.
    pub fn before_rejection(&self, name: &str) -> Option<&Value<'a>> {
        let mut open = self.stack.frames.iter();
        let outermost = open.next().filter(|frame| frame.open == Open::Map)?;
        let end = open.next().map_or(self.stack.values.len(), |inner| inner.start);
        let entries = self.stack.values.get(outermost.start..end)?.as_chunks::<2>().0;
        entries.iter().find(|[key, _]| key.as_keyword() == Some(name)).map(|[_, value]| value)
    }

    /// How many bytes are read.
    pub fn offset(&self) -> usize {
        let end = self.invalid.map_or(self.input.len(), |(_, _, end)| end);
        end - self.rest.len()
    }

    /// The rejection at the place where `left` bytes of the readable input were left.
    #[cold]
    fn reject(&mut self, fail: Fail) -> Error {
        self.done = true;
        let end = self.invalid.map_or(self.input.len(), |(_, _, end)| end);
        match self.invalid {
            // Where the readable part ends within a form, or within a word, it is what follows that is wrong.
            Some((kind, expected, end)) if fail.kind == ErrorKind::UnexpectedEnd => {
                Error::at(kind, expected, self.input, end)
            }
            _ => Error::at(fail.kind, fail.expected, self.input, end.saturating_sub(fail.left)),
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Value<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.stack.form(self.rest, &self.options) {
            Ok((rest, Some(value))) => {
                self.rest = rest;
                Some(Ok(value))
            }
            Ok((rest, None)) => {
                self.rest = rest;
                self.done = true;
                self.invalid.map(|(kind, expected, end)| Err(Error::at(kind, expected, self.input, end)))
            }
            Err(nom::Err::Error(fail) | nom::Err::Failure(fail)) => Some(Err(self.reject(fail))),
            // No parser here asks for more: the input is whole.
            Err(nom::Err::Incomplete(_)) => None,
        }
    }
}

/// What is open: a collection, or what stands before a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    List,
    Vector,
    Map,
    /// A map whose keys get the namespace in `Frame::name`
    NamespacedMap,
    Set,
    /// `#_`: the next form is left out
    Discard,
    /// `#` and the tag in `Frame::name`
    Tagged,
    /// `##`
    Symbolic,
    /// `^`: the next form is metadata
    Metadata,
    /// The form that the metadata before it is about
    Described,
    /// `#:`: the next form is a namespace
    Namespace,
}

#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    open: Open,
    /// A tag or a namespace
    name: &'a str,
    /// How many values were there when it was opened
    start: usize,
    /// The input from what opened it on
    input: &'a str,
}

/// What is read and not closed yet.
#[derive(Debug)]
struct Stack<'a> {
    frames: Vec<Frame<'a>>,
    values: Vec<Value<'a>>,
    /// How many `values` there may still be: the bound less those that are in collections already, or discarded.
    room: usize,
}

type Step<'a, T> = Result<T, nom::Err<Fail>>;

impl<'a> Stack<'a> {
    fn new() -> Self {
        // Room for a frame of the wire, so that one allocation does for each.
        Stack { frames: Vec::with_capacity(8), values: Vec::with_capacity(32), room: 0 }
    }

    /// `form = blanks , { discard , blanks } , ( string | character | constant | symbol | keyword | number |
    /// list | vector | map | namespaced_map | set | tagged | symbolic | metadata )`: none at the end of the
    /// input.
    #[inline]
    fn form(&mut self, input: &'a str, options: &Options) -> Step<'a, (&'a str, Option<Value<'a>>)> {
        // A value has at least one byte: few inputs are so long that their values have to be counted.
        match input.len() > options.max_values {
            true => self.form_of::<true>(input, options),
            false => self.form_of::<false>(input, options),
        }
    }

    fn form_of<const COUNTED: bool>(
        &mut self,
        input: &'a str,
        options: &Options,
    ) -> Step<'a, (&'a str, Option<Value<'a>>)> {
        self.frames.clear();
        self.values.clear();
        self.room = options.max_values;
        let mut rest = input;
        loop {
            if COUNTED && self.values.len() > self.room {
                return too_many_values(rest);
            }
            rest = blanks(rest);
            let Some(byte) = first(rest) else {
                return if self.frames.is_empty() { Ok((rest, None)) } else { self.unexpected_end(rest) };
            };
            let at = rest;
            // Each kind of value goes to the stack where it is made: moved by way of a common place, it would be
            // written in parts and read back whole, for which the processor waits.
            rest = match byte {
                b'"' => match text::plain_string(rest) {
                    Some((next, text)) => {
                        self.values.push(Value::str(text));
                        next
                    }
                    None => self.read(text::string(rest))?,
                },
                b':' => {
                    let (next, name) = name::keyword(rest)?;
                    self.values.push(Value::keyword(name));
                    next
                }
                b'0'..=b'9' => self.number(rest, options)?,
                b'+' | b'-' if after(rest, 1).starts_with(is_digit) => self.number(rest, options)?,
                b'(' | b'[' | b'{' | b'^' => {
                    let open = match byte {
                        b'(' => Open::List,
                        b'[' => Open::Vector,
                        b'{' => Open::Map,
                        _ => Open::Metadata,
                    };
                    self.open(open, "", rest, options)?;
                    rest = after(rest, 1);
                    continue;
                }
                b')' | b']' | b'}' => {
                    let value = self.close(byte, rest, options)?;
                    self.values.push(value);
                    after(rest, 1)
                }
                b'#' => {
                    rest = self.dispatch(rest, options)?;
                    continue;
                }
                b'\\' => self.read(text::character(rest))?,
                128.. if rest.starts_with(is_digit) => self.read(number::number(rest, options.max_digits))?,
                _ => self.read(name::symbol(rest))?,
            };
            match self.frames.last() {
                None => return Ok((rest, self.values.pop())),
                Some(frame) if frame.open > Open::Set => {
                    let value = self.values.pop().unwrap_or(Value::Nil);
                    if let Some(value) = self.apply(value, at, &mut rest, options)? {
                        return Ok((rest, Some(value)));
                    }
                }
                Some(_) => {}
            }
        }
    }

    /// Keeps a value that was read; what follows it.
    #[inline]
    fn read(&mut self, parsed: lexical::Parsed<'a, Value<'a>>) -> Step<'a, &'a str> {
        let (rest, value) = parsed?;
        self.values.push(value);
        Ok(rest)
    }

    #[inline(always)]
    fn number(&mut self, input: &'a str, options: &Options) -> Step<'a, &'a str> {
        match number::small_integer(input) {
            Some((rest, int)) => {
                self.values.push(Value::Int(int));
                Ok(rest)
            }
            None => self.read(number::number(input, options.max_digits)),
        }
    }

    fn open(&mut self, open: Open, name: &'a str, input: &'a str, options: &Options) -> Step<'a, ()> {
        if self.frames.len() >= options.max_depth {
            return Fail::at(input, ErrorKind::TooDeep, "less nesting");
        }
        self.frames.push(Frame { open, name, start: self.values.len(), input });
        Ok(())
    }

    /// What `#` starts: `set`, `discard`, `metadata`, `symbolic`, `namespaced_map` or `tagged`.
    fn dispatch(&mut self, input: &'a str, options: &Options) -> Step<'a, &'a str> {
        let (open, length) = match input.as_bytes().get(1) {
            Some(b'{') => (Open::Set, 2),
            Some(b'_') => (Open::Discard, 2),
            Some(b'^') => (Open::Metadata, 2),
            Some(b'#') => (Open::Symbolic, 2),
            Some(b':') => (Open::Namespace, 2),
            Some(_) => {
                // The reference reader looks up what follows in a table of 256.
                let starts = |c: char| u32::from(c) < 256 && c.is_alphabetic();
                if !after(input, 1).starts_with(starts) {
                    return Fail::at(input, ErrorKind::InvalidDispatch, "#{ #_ #^ ## #: or a tag");
                }
                let (rest, tag) = name::tag(after(input, 1))?;
                self.open(Open::Tagged, tag, input, options)?;
                return Ok(rest);
            }
            None => return Fail::at(after(input, 1), ErrorKind::UnexpectedEnd, "#{ #_ #^ ## #: or a tag"),
        };
        self.open(open, "", input, options)?;
        Ok(after(input, length))
    }

    /// Closes the innermost collection with `delimiter`, at which `input` stands.
    fn close(&mut self, delimiter: u8, input: &'a str, options: &Options) -> Step<'a, Value<'a>> {
        let Some(frame) = self.frames.pop() else {
            return Fail::at(input, ErrorKind::UnmatchedDelimiter, "a form");
        };
        let elements = self.values.len() - frame.start;
        if elements > options.max_elements {
            return Fail::at(frame.input, ErrorKind::TooLarge, "a collection of fewer elements");
        }
        self.room = self.room.saturating_sub(elements);
        match (frame.open, delimiter) {
            (Open::Map, b'}') => map(self.items(frame.start), frame.input, input, options),
            (Open::Vector, b']') => Ok(vector(self.items(frame.start))),
            (Open::List, b')') => Ok(list(self.items(frame.start))),
            (Open::Set, b'}') => set(self.items(frame.start), frame.input, options),
            (Open::NamespacedMap, b'}') => {
                let mut items = self.items(frame.start);
                qualify(&mut items, frame.name);
                let opened = frame.input.find('{').map_or("", |at| after(frame.input, at));
                map(items, opened, input, options)
            }
            (open, _) => Fail::at(input, ErrorKind::UnmatchedDelimiter, open.expected()),
        }
    }

    /// The values since `start`, in an allocation of their size.
    fn items(&mut self, start: usize) -> Vec<Value<'a>> {
        if start > 0 {
            return self.values.split_off(start);
        }
        // Split off at 0, the whole buffer would go, with room to spare.
        let mut items = Vec::with_capacity(self.values.len());
        items.append(&mut self.values);
        items
    }

    /// `value`, read at `at`, goes to the form that waits for it. Where nothing does, it is the form.
    fn apply(
        &mut self,
        mut value: Value<'a>,
        at: &'a str,
        rest: &mut &'a str,
        options: &Options,
    ) -> Step<'a, Option<Value<'a>>> {
        loop {
            let Some(frame) = self.frames.last_mut() else { return Ok(Some(value)) };
            match frame.open {
                Open::List | Open::Vector | Open::Map | Open::NamespacedMap | Open::Set => {
                    self.values.push(value);
                    return Ok(None);
                }
                Open::Discard => {
                    self.discard(rest)?;
                    return Ok(None);
                }
                Open::Tagged => value = tagged(frame, value)?,
                Open::Symbolic => value = symbolic(frame, &value)?,
                Open::Metadata => {
                    metadata(&value, at)?;
                    frame.open = Open::Described;
                    self.pass_over(rest)?;
                    return Ok(None);
                }
                Open::Described => described(&value, at)?,
                Open::Namespace => {
                    let input = frame.input;
                    let (map, name) = namespaced_map(frame, &value, rest)?;
                    self.frames.pop();
                    self.open(Open::NamespacedMap, name, input, options)?;
                    *rest = map;
                    return Ok(None);
                }
            }
            self.frames.pop();
        }
    }

    /// `discard = "#_" , form`: the form is read, and with that it is done.
    fn discard(&mut self, rest: &'a str) -> Step<'a, ()> {
        self.frames.pop();
        self.pass_over(rest)
    }

    /// Counts a value that was read and goes nowhere.
    fn pass_over(&mut self, rest: &'a str) -> Step<'a, ()> {
        match self.room.checked_sub(1) {
            Some(room) => self.room = room,
            None => return too_many_values(rest),
        }
        Ok(())
    }

    #[cold]
    fn unexpected_end<T>(&self, rest: &str) -> Step<'a, T> {
        let expected = self.frames.last().map_or("a form", |frame| frame.open.expected());
        Fail::at(rest, ErrorKind::UnexpectedEnd, expected)
    }
}

#[cold]
fn too_many_values<'a, T>(rest: &'a str) -> Step<'a, T> {
    Fail::at(rest, ErrorKind::TooManyValues, "a form of fewer values")
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        (*self as u8).partial_cmp(&(*other as u8))
    }
}

impl Open {
    fn expected(self) -> &'static str {
        match self {
            Open::List => "`)` or a form",
            Open::Vector => "`]` or a form",
            Open::Map | Open::NamespacedMap | Open::Set => "`}` or a form",
            Open::Discard => "a form to discard",
            Open::Tagged => "a form after the tag",
            Open::Symbolic => "Inf, -Inf or NaN",
            Open::Metadata => "metadata",
            Open::Described => "a form after the metadata",
            Open::Namespace => "a namespace",
        }
    }
}

/// `list = "(" , { form } , blanks , ")"`
fn list(items: Vec<Value<'_>>) -> Value<'_> {
    Value::List(items.into_boxed_slice())
}

/// `vector = "[" , { form } , blanks , "]"`
fn vector(items: Vec<Value<'_>>) -> Value<'_> {
    Value::Vector(items.into_boxed_slice())
}

/// `tagged = "#" , tag , form`
fn tagged<'a>(frame: &Frame<'a>, value: Value<'a>) -> Step<'a, Value<'a>> {
    tag::tagged(frame.name, value).or_else(|expected| Fail::at(frame.input, ErrorKind::InvalidTag, expected))
}

/// `symbolic = "##" , blanks , ( "Inf" | "-Inf" | "NaN" )`
fn symbolic<'a>(frame: &Frame<'a>, value: &Value<'a>) -> Step<'a, Value<'a>> {
    Ok(Value::Float(match value.as_symbol() {
        Some("Inf") => f64::INFINITY,
        Some("-Inf") => f64::NEG_INFINITY,
        Some("NaN") => f64::NAN,
        _ => return Fail::at(frame.input, ErrorKind::InvalidSymbolic, "##Inf, ##-Inf or ##NaN"),
    }))
}

/// `metadata = ( "^" | "#^" ) , blanks , ( symbol | keyword | string | map ) , blanks , described`
fn metadata<'a>(value: &Value<'a>, at: &'a str) -> Step<'a, ()> {
    match value {
        Value::Symbol(_) | Value::Keyword(_) | Value::Str(_) | Value::Map(_) => Ok(()),
        _ => Fail::at(at, ErrorKind::InvalidMetadata, "a symbol, keyword, string or map as metadata"),
    }
}

/// `described = symbol | list | vector | map | set`
fn described<'a>(value: &Value<'a>, at: &'a str) -> Step<'a, ()> {
    match value {
        Value::Symbol(_) | Value::List(_) | Value::Vector(_) | Value::Map(_) | Value::Set(_) => Ok(()),
        _ => Fail::at(at, ErrorKind::InvalidMetadata, "a symbol or a collection after metadata"),
    }
}

/// `namespaced_map = "#:" , blanks , part , { blank } , map`: what follows the bracket, and the namespace. No
/// comment may stand before the bracket.
fn namespaced_map<'a>(
    frame: &Frame<'a>,
    namespace: &Value<'a>,
    rest: &'a str,
) -> Step<'a, (&'a str, &'a str)> {
    let name = match namespace {
        Value::Symbol(name) if !name.contains('/') || &**name == "/" => name.borrowed(),
        _ => None,
    };
    let Some(name) = name else {
        return Fail::at(frame.input, ErrorKind::InvalidNamespace, "a symbol without a namespace after #:");
    };
    let opened = rest.trim_start_matches(lexical::blank);
    match first(opened) {
        Some(b'{') => Ok((after(opened, 1), name)),
        Some(_) => Fail::at(opened, ErrorKind::InvalidNamespace, "a map after the namespace"),
        None => Fail::at(opened, ErrorKind::UnexpectedEnd, "a map after the namespace"),
    }
}

/// `map = "{" , { form , form } , blanks , "}"`, opened at `opened` and closed at `closed`.
fn map<'a>(
    items: Vec<Value<'a>>,
    opened: &'a str,
    closed: &'a str,
    options: &Options,
) -> Step<'a, Value<'a>> {
    if items.len() % 2 == 1 {
        return Fail::at(closed, ErrorKind::OddMap, "a value for the last key");
    }
    match Map::distinct(items) {
        Ok(map) => Ok(Value::Map(map)),
        Err(entry) => Fail::at(
            nth_form(after(opened, 1), entry * 2, options),
            ErrorKind::DuplicateKey,
            "a key that the map does not have yet",
        ),
    }
}

/// `set = "#{" , { form } , blanks , "}"`, opened at `opened`.
fn set<'a>(items: Vec<Value<'a>>, opened: &'a str, options: &Options) -> Step<'a, Value<'a>> {
    match Set::distinct(items) {
        Ok(set) => Ok(Value::Set(set)),
        Err(element) => Fail::at(
            nth_form(after(opened, 2), element, options),
            ErrorKind::DuplicateElement,
            "an element that the set does not have yet",
        ),
    }
}

/// The input from its form `n` on, counted from 0: where a duplicate stands is found out when there is one.
#[cold]
fn nth_form<'a>(input: &'a str, n: usize, options: &Options) -> &'a str {
    let mut reader = Reader::with(input.as_bytes(), Options { max_bytes: usize::MAX, ..*options });
    for _ in 0..n {
        reader.next();
    }
    blanks(reader.rest)
}

/// Keys without a namespace get `namespace`, and the namespace `_` is taken away.
fn qualify<'a>(items: &mut [Value<'a>], namespace: &str) {
    for key in items.iter_mut().step_by(2) {
        if let Value::Keyword(name) | Value::Symbol(name) = key {
            let qualified: Text<'a> = match name.split_once('/') {
                Some(("_", bare)) => bare.to_owned().into(),
                Some(_) if &**name != "/" => continue,
                _ => [namespace, "/", name].concat().into(),
            };
            *name = qualified;
        }
    }
}
