//! Shows untrusted text to people: characters that could control a terminal, change the direction of a line
//! or stay invisible become codes such as `\u{202E}`.
//!
//! Text of models, tools, projects and providers reaches people through terminals, lists, exports and
//! questions. All of them use this module, so that one table decides which characters are hidden. Knows
//! characters; does not know the source or the destination of a text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

/// Why a character is shown as a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hidden {
    /// It controls a terminal, or ends a line invisibly: C0, DEL, C1, U+2028, U+2029.
    Control,
    /// It changes the direction of the following text.
    Direction,
    /// It has no width, is drawn as nothing, or is not assigned.
    Invisible,
    /// Each font draws it differently.
    Private,
    /// One more mark on a letter that has as many as any script needs: the pile is drawn over its neighbours.
    Piled,
}

/// The marks on one letter that are shown. Sacred texts in Hebrew and Tibetan have the most, some six.
const MARKS: u8 = 8;

/// Classifies the characters of one text in order. For some, the preceding character decides.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scan {
    before: Option<char>,
    /// The marks since the last letter.
    marks: u8,
}

impl Scan {
    /// Why the next character is hidden, if it is. A line feed and a tab are not.
    pub fn look(&mut self, c: char) -> Option<Hidden> {
        let before = self.before.replace(c);
        let marks = std::mem::take(&mut self.marks);
        if matches!(c, '\n' | '\t' | ' '..='~') {
            return None;
        }
        let Some(hidden) = class(c) else {
            if is_mark(c) {
                self.marks = marks.saturating_add(1);
            }
            return (self.marks > MARKS).then_some(Hidden::Piled);
        };
        if hidden == Hidden::Invisible && before.is_some_and(|before| belongs(before, c)) {
            return None;
        }
        // A character after a code does not belong to the code.
        self.before = None;
        Some(hidden)
    }
}

fn class(c: char) -> Option<Hidden> {
    match c {
        '\u{2028}' | '\u{2029}' => Some(Hidden::Control),
        c if c.is_control() => Some(Hidden::Control),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Hidden::Direction)
        }
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'.. => Some(Hidden::Private),
        // Marks and letters that are drawn as nothing. Unicode calls them default ignorable.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        // It stands for an object that is not there.
        | '\u{fffc}'
        | '\u{e0100}'..='\u{e01ef}' => Some(Hidden::Invisible),
        c if c.is_whitespace() || is_printable(c) => None,
        _ => Some(Hidden::Invisible),
    }
}

/// Whether the standard library's table treats a character as printable. The test uses the escapes of
/// `Debug`, after another character, because a mark is not escaped there.
fn is_printable(c: char) -> bool {
    let mut bytes = [b'a'; 5];
    let Some(room) = bytes.get_mut(1..) else { return false };
    let length = c.encode_utf8(room).len().saturating_add(1);
    let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

/// Whether a character is drawn onto the one before it. The escapes of `Debug` are those of such characters, too,
/// where they begin a text.
fn is_mark(c: char) -> bool {
    c >= '\u{300}' && c.escape_debug().next() == Some('\\')
}

/// Whether an invisible character is part of the notation of the one before it: a variation selector, or a
/// joiner in an emoji or a script that needs it.
fn belongs(before: char, c: char) -> bool {
    match c {
        // After signs, and after the letters that have variants.
        '\u{fe00}'..='\u{fe0f}' => {
            let has_variants = matches!(before, '\u{1000}'..='\u{109f}' | '\u{2100}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{10000}'..);
            !before.is_ascii() && class(before).is_none() && (has_variants || !before.is_alphanumeric())
        }
        '\u{e0100}'..='\u{e01ef}' => matches!(before, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}'),
        // From Arabic to the scripts of India and their neighbours.
        '\u{200c}' | '\u{200d}' if matches!(before, '\u{620}'..='\u{1cff}') => {
            before.is_alphabetic() || c == '\u{200d}'
        }
        '\u{200d}' => matches!(before, '\u{fe0f}' | '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}'),
        _ => false,
    }
}

/// Whether a character looks like a space but is part of a word for a program.
pub fn is_blank(c: char) -> bool {
    c == '\u{2800}' || (c != ' ' && c.is_whitespace() && class(c).is_none() && !c.is_ascii())
}

/// Whether a file system that ignores what is not drawn may ignore a character in a name.
pub fn is_ignored(c: char) -> bool {
    !matches!(c, ' '..='~') && matches!(class(c), Some(Hidden::Direction | Hidden::Invisible))
}

/// A text with codes for hidden characters; line feeds and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    // Most texts contain none and are borrowed.
    let mut out: Option<String> = None;
    let mut from = 0usize;
    for (at, c, _) in hidden(text) {
        let out = out.get_or_insert_default();
        out.push_str(text.get(from..at).unwrap_or_default());
        push_code(c, out);
        from = at.saturating_add(c.len_utf8());
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(text.get(from..).unwrap_or_default());
            Cow::Owned(out)
        }
    }
}

/// A text for one line: line feeds and tabs become codes too.
pub fn line(line: &str) -> Cow<'_, str> {
    let shown = text(line);
    if !shown.contains(['\n', '\t', '\r']) {
        return shown;
    }
    let mut out = String::with_capacity(shown.len());
    for c in shown.chars() {
        match c {
            '\n' | '\t' | '\r' => push_code(c, &mut out),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The end of a text of more than so many characters, after an ellipsis: paths and names of one kind differ there.
pub fn end_of(text: &str, most: usize) -> Cow<'_, str> {
    let over = text.chars().count().saturating_sub(most);
    match over {
        0 => Cow::Borrowed(text),
        over => {
            let rest = text.chars().skip(over.saturating_add(1));
            Cow::Owned(std::iter::once('…').chain(rest).collect())
        }
    }
}

/// The hidden characters of a text: offset, character and reason.
pub fn hidden(text: &str) -> impl Iterator<Item = (usize, char, Hidden)> + '_ {
    let mut scan = Scan::default();
    text.char_indices().filter_map(move |(at, c)| {
        // The line end of other systems.
        let ends = c == '\r' && text.as_bytes().get(at.saturating_add(1)) == Some(&b'\n');
        scan.look(c).filter(|_| !ends).map(|hidden| (at, c, hidden))
    })
}

/// Appends a character's code.
pub fn push_code(c: char, out: &mut String) {
    let _ = write!(out, "\\u{{{:X}}}", u32::from(c));
}

/// Shows its input in pieces, which may be cut even within a character. Replaces bytes that are not UTF-8.
pub struct Writer<W: io::Write> {
    inner: W,
    /// If false (such as for a pipe), bytes pass unchanged.
    shows: bool,
    scan: Scan,
    /// A carriage return that waits for its next character.
    returned: bool,
    /// Bytes of an incomplete character.
    part: Vec<u8>,
}

impl<W: io::Write> Writer<W> {
    /// A writer in front of another; `shows` says whether a person reads its output.
    pub fn new(inner: W, shows: bool) -> Self {
        Self { inner, shows, scan: Scan::default(), returned: false, part: Vec::new() }
    }

    fn add(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            if std::mem::take(&mut self.returned) {
                if c == '\n' { out.push('\r') } else { push_code('\r', out) }
            }
            match self.scan.look(c) {
                Some(_) if c == '\r' => self.returned = true,
                Some(_) => push_code(c, out),
                None => out.push(c),
            }
        }
    }

    /// Writes an incomplete character at the end.
    fn end(&mut self) {
        let mut out = String::new();
        if std::mem::take(&mut self.returned) {
            push_code('\r', &mut out);
        }
        if !std::mem::take(&mut self.part).is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        let _ = self.inner.write_all(out.as_bytes()).and_then(|()| self.inner.flush());
    }
}

impl<W: io::Write> io::Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.shows {
            return self.inner.write(bytes);
        }
        let joined = [std::mem::take(&mut self.part).as_slice(), bytes].concat();
        let mut out = String::with_capacity(joined.len());
        let mut rest = joined.as_slice();
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.add(text, &mut out);
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.add(std::str::from_utf8(valid).unwrap_or_default(), &mut out);
                    let Some(bad) = error.error_len() else {
                        self.part = after.to_vec();
                        break;
                    };
                    self.add("\u{fffd}", &mut out);
                    rest = after.get(bad..).unwrap_or_default();
                }
            }
        }
        self.inner.write_all(out.as_bytes()).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: io::Write> Drop for Writer<W> {
    fn drop(&mut self) {
        if self.returned || !self.part.is_empty() {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn hidden_characters_are_shown_as_codes() {
        for (given, expected) in [
            ("plain text, é, 日本語, Ελληνικά, שלום, مرحبا\n\ttab", None),
            ("a\u{1b}[2Jb", Some("a\\u{1B}[2Jb")),
            ("\u{1b}]52;c;AAAA\u{7}", Some("\\u{1B}]52;c;AAAA\\u{7}")),
            ("\u{9b}31m \u{9d}0;t\u{9c}", Some("\\u{9B}31m \\u{9D}0;t\\u{9C}")),
            ("rm\u{8}\u{8}ls", Some("rm\\u{8}\\u{8}ls")),
            ("seen\rhidden", Some("seen\\u{D}hidden")),
            ("windows\r\nlines\r\n", None),
            ("\u{202e}rlo \u{2067}lri\u{2069}", Some("\\u{202E}rlo \\u{2067}lri\\u{2069}")),
            ("zero\u{200b}width\u{feff}", Some("zero\\u{200B}width\\u{FEFF}")),
            ("soft\u{ad}hyphen \u{2060}", Some("soft\\u{AD}hyphen \\u{2060}")),
            ("tag\u{e0041}\u{e007f}", Some("tag\\u{E0041}\\u{E007F}")),
            ("private \u{e0b0}\u{f0001}\u{10fffd}", Some("private \\u{E0B0}\\u{F0001}\\u{10FFFD}")),
            ("filler\u{3164}\u{115f}\u{34f}", Some("filler\\u{3164}\\u{115F}\\u{34F}")),
            ("line\u{2028}end\u{85}", Some("line\\u{2028}end\\u{85}")),
            ("unassigned \u{e01f0} \u{ffff}", Some("unassigned \\u{E01F0} \\u{FFFF}")),
            // Characters that belong to the notation of a sign or a word are shown.
            ("⚠\u{fe0f} 👩\u{200d}💻 ❤\u{fe0f}\u{200d}🔥 می\u{200c}خواهم e\u{301}", None),
            ("ls\u{fe0f} a\u{200d}b ⚠\u{fe0f}\u{fe0f}", Some("ls\\u{FE0F} a\\u{200D}b ⚠\u{fe0f}\\u{FE0F}")),
            ("no\u{a0}break\u{3000}wide", None),
            (
                "an object \u{fffc}, a letter \u{e9}\u{fe0f}",
                Some("an object \\u{FFFC}, a letter \u{e9}\\u{FE0F}"),
            ),
            ("ℹ\u{fe0f} Ⓜ\u{fe0f} ©\u{fe0f} 日\u{fe00} က\u{fe00}", None),
            ("שָׁ֖לוֹם བསྒྲུབས་ ก้ำ e\u{301}\u{323}\u{308}", None),
        ] {
            assert_eq!(text(given), expected.unwrap_or(given), "{given:?}");
            assert_eq!(matches!(text(given), Cow::Borrowed(_)), expected.is_none(), "{given:?}");
        }
        assert_eq!(line("a\n[Allow]\tb\r\n\u{202e}"), "a\\u{A}[Allow]\\u{9}b\\u{D}\\u{A}\\u{202E}");
    }

    #[test]
    fn long_texts_are_shown_by_their_end() {
        for (text, most, expected) in
            [("", 0, ""), ("abc", 3, "abc"), ("abcd", 3, "…cd"), ("日本語です", 4, "…語です"), ("ab", 1, "…")]
        {
            assert_eq!(end_of(text, most), expected);
        }
    }

    #[test]
    fn marks_piled_on_a_letter_are_shown_as_codes() {
        for mark in ['\u{301}', '\u{e49}', '\u{f90}', '\u{64b}', '\u{20dd}'] {
            let most = format!("a{} b", String::from(mark).repeat(8));
            assert_eq!(text(&most), most);
            let piled = format!("a{} b{mark}", String::from(mark).repeat(300));
            let code = format!("\\u{{{:X}}}", u32::from(mark));
            let expected = format!("a{}{} b{mark}", String::from(mark).repeat(8), code.repeat(292));
            assert_eq!(text(&piled), expected);
        }
    }

    #[test]
    fn blanks_that_are_no_space_are_known() {
        let blanks: String = (' '..char::MAX).filter(|c| is_blank(*c)).collect();
        let expected = "\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\
                        \u{2008}\u{2009}\u{200a}\u{202f}\u{205f}\u{2800}\u{3000}";
        assert_eq!(blanks, expected);
    }

    #[test]
    fn pieces_cut_anywhere_are_shown_as_the_whole() {
        let whole = "é\u{1b}]0;t\u{7}\u{202e}日\r\nx\ry \u{1f469}\u{200d}\u{1f4bb}\u{9b}";
        for size in 1..=whole.len() {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out, true);
            for piece in whole.as_bytes().chunks(size) {
                writer.write_all(piece).unwrap();
                writer.flush().unwrap();
            }
            drop(writer);
            assert_eq!(String::from_utf8(out).unwrap(), text(whole), "pieces of {size}");
        }
        let shown = |bytes: &[u8]| {
            let mut out = Vec::new();
            Writer::new(&mut out, true).write_all(bytes).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(b"a\x9b31m\xff\xc3"), "a\u{fffd}31m\u{fffd}\u{fffd}");
        assert_eq!(shown(b"end\r"), "end\\u{D}");
        let mut out = Vec::new();
        Writer::new(&mut out, false).write_all(b"\x1b\x9b\r").unwrap();
        assert_eq!(out, b"\x1b\x9b\r", "a pipe is sent what was said");
    }

    /// Nothing that is drawn is coded, and nothing else is let through.
    #[test]
    fn letters_and_marks_stay_as_they_are() {
        for c in ('\u{a1}'..='\u{ac}').chain('\u{ae}'..='\u{17f}').chain('\u{300}'..='\u{34e}') {
            assert_eq!(class(c), None, "{c:?}");
        }
        for c in ('\u{4e00}'..='\u{9fff}').chain('\u{ac00}'..='\u{d7a3}').chain('\u{1f600}'..='\u{1f64f}') {
            assert_eq!(class(c), None, "{c:?}");
        }
        for c in ('\u{0}'..='\u{1f}').chain('\u{7f}'..='\u{9f}').filter(|c| !matches!(c, '\n' | '\t')) {
            assert_eq!(Scan::default().look(c), Some(Hidden::Control), "{c:?}");
        }
    }
}
