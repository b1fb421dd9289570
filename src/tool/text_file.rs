//! The text of a file: bytes to text and back, with the encoding, the byte order mark and the end of each line.
//!
//! A model sees the plain text: every line ends with `\n`, and there is no byte order mark. What it changes is put back in
//! the form that the file has. A byte order mark is the first character of a decoded text (U+FEFF), so it needs no other
//! place. Knows bytes and `.editorconfig`; does not know who reads or writes.

use std::borrow::Cow;
use std::path::Path;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::editorconfig::{self, Charset};
use crate::limits::GUESS_BYTES;

/// The byte order mark, as a character.
const BOM: char = '\u{feff}';

/// The encoding of a text in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextFormat(&'static Encoding);

impl TextFormat {
    /// The encoding of new files.
    pub const UTF_8: Self = Self(UTF_8);

    /// Whether the bytes are the text itself.
    pub fn is_utf_8(self) -> bool {
        self.0 == UTF_8
    }

    /// The encoding's name, as people write it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The library's encoding.
    pub fn encoding(self) -> &'static Encoding {
        self.0
    }

    /// The bytes of a text.
    ///
    /// # Errors
    /// The first character that the encoding lacks.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>, char> {
        let units = |bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        if self.0 == UTF_16LE {
            return Ok(units(u16::to_le_bytes).into());
        }
        if self.0 == UTF_16BE {
            return Ok(units(u16::to_be_bytes).into());
        }
        let (bytes, _, has_unmappable) = self.0.encode(text);
        if !has_unmappable {
            return Ok(bytes);
        }
        let lacks = |c: &char| self.0.encode(c.encode_utf8(&mut [0; 4])).2;
        Err(text.chars().find(lacks).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The text of bytes, with its byte order mark. What cannot be decoded is replaced.
    fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.0.decode_without_bom_handling(bytes).0
    }

    /// The text of a whole file, and the encoding that gives these bytes when the text is written. Some bytes of a legacy
    /// encoding that was guessed are written as others; each byte is a character of windows-1252.
    fn decode_whole(self, bytes: &[u8]) -> (String, Self) {
        let text = self.decode(bytes);
        let is_wide = self.0 == UTF_16LE || self.0 == UTF_16BE;
        if is_wide || self.encode(&text).is_ok_and(|written| written == bytes) {
            return (text.into_owned(), self);
        }
        let plain = Self(WINDOWS_1252);
        (plain.decode(bytes).into_owned(), plain)
    }

    /// The format of a file that begins with these bytes; `None` if it is no text. `is_whole` if these are all.
    pub fn of(path: &Path, bytes: &[u8], is_whole: bool) -> Option<Self> {
        let configured = || match editorconfig::of(path).charset {
            Some(Charset::Utf16(encoding) | Charset::Other(encoding)) => Some(encoding),
            _ => None,
        };
        if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
            // A mark of UTF-32 begins with that of UTF-16.
            let is_wider =
                encoding == UTF_16LE && bytes.get(mark..).is_some_and(|rest| rest.starts_with(&[0, 0]));
            return (!is_wider).then_some(Self(encoding));
        }
        let has_nul = memchr::memchr(0, bytes.get(..GUESS_BYTES).unwrap_or(bytes)).is_some();
        if has_nul {
            let wide = configured().filter(|encoding| *encoding == UTF_16LE || *encoding == UTF_16BE);
            return wide.map(Self);
        }
        let is_utf_8 = match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) => !is_whole && error.error_len().is_none(),
        };
        if is_utf_8 {
            return Some(Self::UTF_8);
        }
        if let Some(encoding) = configured() {
            return Some(Self(encoding));
        }
        // Data has such characters soon, and text has not.
        let is_odd = |byte: &u8| matches!(byte, 0..=6 | 0x0e..=0x19 | 0x1c..=0x1f);
        let sample = bytes.get(..GUESS_BYTES).unwrap_or(bytes);
        if sample.iter().any(is_odd) {
            return None;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(sample, true);
        Some(Self(detector.guess(None, Utf8Detection::Deny)))
    }
}

/// A text of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DecodedText {
    /// The text as it stands in the file, with its line ends and its byte order mark.
    pub text: String,
    /// Its encoding.
    pub format: TextFormat,
}

/// Decodes the bytes of a file; `None` if they are no text. `.editorconfig` counts before a guess. Gives the bytes back where
/// they are not those of the text.
pub(super) fn decode(path: &Path, bytes: Vec<u8>) -> (Option<DecodedText>, Vec<u8>) {
    match TextFormat::of(path, &bytes, true) {
        Some(format) if format.is_utf_8() => match String::from_utf8(bytes) {
            Ok(text) => (Some(DecodedText { text, format: TextFormat::UTF_8 }), Vec::new()),
            Err(error) => (None, error.into_bytes()),
        },
        Some(format) => {
            let (text, format) = format.decode_whole(&bytes);
            let decoded = (!text.contains('\0')).then_some(DecodedText { text, format });
            (decoded, bytes)
        }
        None => (None, bytes),
    }
}

/// The special facts about a text, as a line for the model that reads it; `None` for UTF-8 with `\n` and no mark.
pub(super) fn special(text: &str, format: TextFormat) -> Option<String> {
    let mut parts = Vec::new();
    match format.encoding() {
        encoding if encoding == UTF_16LE || encoding == UTF_16BE => {
            let order = if encoding == UTF_16LE { "little" } else { "big" };
            parts.push(format!("UTF-16, {order}-endian"));
        }
        encoding if encoding == UTF_8 => {
            if text.starts_with(BOM) {
                parts.push("UTF-8 with a byte order mark".to_owned());
            }
        }
        encoding => parts.push(format!("no UTF-8: read as {}", encoding.name())),
    }
    match count_ends(text) {
        Ends { crlf: 0, .. } => {}
        Ends { lf: 0, .. } => parts.push("CRLF line ends".to_owned()),
        Ends { crlf, lf } => parts.push(format!("mixed line ends: {crlf} CRLF, {lf} LF")),
    }
    (!parts.is_empty()).then(|| format!("[{}]\n", parts.join("; ")))
}

/// The facts that a text keeps of the one before it, for the model that has written it; empty if it is nothing special.
pub(super) fn kept(text: &str, format: TextFormat) -> String {
    special(text, format)
        .map(|line| format!(" Kept: {}.", line.trim_end().trim_matches(['[', ']'])))
        .unwrap_or_default()
}

struct Ends {
    crlf: usize,
    lf: usize,
}

fn count_ends(text: &str) -> Ends {
    let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let crlf = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
    Ends { crlf, lf: all.saturating_sub(crlf) }
}

/// The end of most lines of a text.
pub(super) fn usual_end(text: &str) -> &'static str {
    let Ends { crlf, lf } = count_ends(text);
    if crlf > lf { "\r\n" } else { "\n" }
}

/// A text of a model in plain form.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// A whole content in place of a text, in the form of that text: its byte order mark, and the end of most of its lines.
pub(super) fn in_form_of(old: &str, content: &str) -> String {
    let text = with_ends(&plain(content), usual_end(old));
    if old.starts_with(BOM) { format!("{BOM}{text}") } else { text }
}

fn with_ends(plain: &str, end: &str) -> String {
    if end == "\n" { plain.to_owned() } else { plain.replace('\n', end) }
}

/// The content of a file that is made: as it was written, or as `.editorconfig` wants it.
pub(super) fn new_file(path: &Path, content: &str) -> String {
    let wanted = editorconfig::of(path);
    let mut text = match wanted.end {
        Some(end) => with_ends(&plain(content), end),
        None => content.to_owned(),
    };
    let has_mark = matches!(wanted.charset, Some(Charset::Utf8 { has_mark: true } | Charset::Utf16(_)));
    if has_mark && !text.starts_with(BOM) {
        text.insert(0, BOM);
    }
    text
}

/// The encoding of a file that is made: UTF-8, or what `.editorconfig` says.
pub(super) fn new_format(path: &Path) -> TextFormat {
    match editorconfig::of(path).charset {
        Some(Charset::Utf16(encoding) | Charset::Other(encoding)) => TextFormat(encoding),
        Some(Charset::Utf8 { .. }) | None => TextFormat::UTF_8,
    }
}

/// A text as a model sees it, and where each place of it stands in the file's text.
pub(super) struct PlainText<'t> {
    raw: &'t str,
    text: Cow<'t, str>,
    mark: usize,
    /// The places of the line ends, in the plain text, that have a `\r` in the file.
    returns: Vec<usize>,
}

impl<'t> PlainText<'t> {
    /// The plain form of a file's text.
    pub fn new(raw: &'t str) -> Self {
        let mark = if raw.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let body = raw.get(mark..).unwrap_or_default();
        let returns = memchr::memmem::find_iter(body.as_bytes(), b"\r\n").enumerate();
        let returns = returns.map(|(before, at)| at.saturating_sub(before)).collect();
        Self { raw, text: plain(raw), mark, returns }
    }

    /// The plain text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The byte order mark, if there is one.
    pub fn mark(&self) -> &'t str {
        self.raw.get(..self.mark).unwrap_or_default()
    }

    /// The place in the file's text of a place in the plain text: before the `\r` of a line end.
    pub fn raw_place(&self, at: usize) -> usize {
        let before = self.returns.partition_point(|end| *end < at);
        self.mark.saturating_add(at).saturating_add(before)
    }

    /// A part of the file's text, by its range in the plain text.
    pub fn raw_part(&self, from: usize, to: usize) -> &'t str {
        self.raw.get(self.raw_place(from)..self.raw_place(to)).unwrap_or_default()
    }

    /// The end of the line that a place of the plain text is in; `None` for the last one, which may have none.
    pub fn end_at(&self, at: usize) -> Option<&'static str> {
        let end = memchr::memchr(b'\n', self.text.as_bytes().get(at..)?)?.saturating_add(at);
        Some(if self.returns.binary_search(&end).is_ok() { "\r\n" } else { "\n" })
    }

    /// The ends of the lines that end in a range of the plain text.
    pub fn ends_in(&self, from: usize, to: usize) -> Vec<&'static str> {
        let part = self.text.as_bytes().get(from..to).unwrap_or_default();
        let ends = memchr::memchr_iter(b'\n', part);
        ends.filter_map(|end| self.end_at(from.saturating_add(end))).collect()
    }

    /// The end of most lines.
    pub fn usual_end(&self) -> &'static str {
        usual_end(self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Option<(String, &'static str)> {
        let decoded = decode(Path::new("/none/x"), bytes.to_vec()).0?;
        Some((decoded.text, decoded.format.name()))
    }

    #[test]
    fn bytes_are_decoded_by_mark_then_utf_8_then_a_guess() {
        for (bytes, expected) in [
            (&b"a\xc3\xa9"[..], Some(("a\u{e9}", "UTF-8"))),
            (b"\xef\xbb\xbfa", Some(("\u{feff}a", "UTF-8"))),
            (b"\xff\xfea\0\n\0", Some(("\u{feff}a\n", "UTF-16LE"))),
            (b"\xfe\xff\0a", Some(("\u{feff}a", "UTF-16BE"))),
            (b"caf\xe9\n", Some(("caf\u{e9}\n", "windows-1252"))),
            ("日本語のテキスト、です。".as_bytes(), Some(("日本語のテキスト、です。", "UTF-8"))),
            (b"\x93\xfa\x96{\x8c\xea\x82\xcc\x83e\x83L\x83X\x83g", Some(("日本語のテキスト", "Shift_JIS"))),
            (b"", Some(("", "UTF-8"))),
            // UTF-32, and data.
            (b"\xff\xfe\0\0a\0\0\0", None),
            (b"\x89PNG\r\n\x1a\n\0", None),
            (b"\xf5\x01\x02", None),
        ] {
            let expected = expected.map(|(text, name)| (text.to_owned(), name));
            assert_eq!(read(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn text_that_an_encoding_lacks_is_named() {
        let latin = TextFormat(WINDOWS_1252);
        assert_eq!(latin.encode("caf\u{e9}").unwrap().as_ref(), b"caf\xe9");
        assert_eq!(latin.encode("a\u{6f22}b"), Err('\u{6f22}'));
        assert_eq!(
            TextFormat(UTF_16LE).encode("\u{feff}\u{1d11e}").unwrap().as_ref(),
            b"\xff\xfe\x34\xd8\x1e\xdd"
        );
    }

    #[test]
    fn special_forms_are_told_and_kept() {
        let special = |text: &str| special(text, TextFormat::UTF_8);
        assert_eq!(special("a\nb\n"), None);
        assert_eq!(special("a\r\nb\r\n").as_deref(), Some("[CRLF line ends]\n"));
        let mixed = special("\u{feff}a\r\nb\n");
        assert_eq!(mixed.as_deref(), Some("[UTF-8 with a byte order mark; mixed line ends: 1 CRLF, 1 LF]\n"));
        assert_eq!(in_form_of("\u{feff}a\r\nb\r\n", "x\ny\r\n"), "\u{feff}x\r\ny\r\n");
        assert_eq!(in_form_of("a\nb\nc\r\n", "x\r\ny\n"), "x\ny\n");
        assert_eq!(kept("a\r\n", TextFormat::UTF_8), " Kept: CRLF line ends.");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Each place of the plain text leads to its character in the file's text, and the parts are the whole.
        #[test]
        fn plain_places_lead_to_the_files_text(raw in "\u{feff}?[ab\r\n\u{e9}]{0,40}", cut in 0usize..40) {
            let plain = PlainText::new(&raw);
            let text = plain.text().to_owned();
            let body = raw.strip_prefix('\u{feff}').unwrap_or(&raw);
            prop_assert_eq!(&text, &body.replace("\r\n", "\n"));
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let parts = [plain.raw_part(0, cut), plain.raw_part(cut, text.len())];
            prop_assert_eq!(parts.concat(), body);
            prop_assert_eq!(parts[0].replace("\r\n", "\n"), &text[..cut]);
            let ends = plain.ends_in(0, text.len());
            prop_assert_eq!(ends.iter().filter(|end| **end == "\r\n").count(), body.matches("\r\n").count());
            prop_assert_eq!(plain.usual_end(), usual_end(&raw));
        }

        /// Whatever is read in an encoding has the same bytes when it is written. (A guess read "íaàôúò" as an encoding that
        /// writes other bytes.)
        #[test]
        fn decoded_text_has_its_bytes_when_written(text in "[a-z\u{e0}-\u{ff}\r\n]{0,40}", which in 0usize..4) {
            let format = TextFormat([WINDOWS_1252, UTF_16LE, UTF_16BE, UTF_8][which]);
            let marked = if which == 0 { text } else { format!("\u{feff}{text}") };
            let bytes = format.encode(&marked).unwrap().into_owned();
            let decoded = decode(Path::new("/none/x"), bytes.clone()).0.unwrap();
            let encoded = decoded.format.encode(&decoded.text).unwrap();
            prop_assert_eq!(encoded.as_ref(), bytes.as_slice());
        }
    }
}
