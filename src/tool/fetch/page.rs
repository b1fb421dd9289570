//! The text of an answer: of which type it is, in which letters, and as Markdown if it is HTML. Asks no server.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::markdown;
use crate::http::Url;
use crate::limits::{FETCH_BYTES, FETCH_META_BYTES};

/// The types that are asked for, those that need no work first.
pub(super) const ACCEPTED: &str = "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, \
                                   application/xhtml+xml;q=0.8, */*;q=0.1";

/// A text for a model.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The title of an HTML page.
    pub title: String,
    pub text: String,
    /// Whether the text ends before the page does.
    pub is_cut: bool,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It becomes Markdown.
    Html,
    /// It stays as it is.
    Text,
    /// It is no text.
    Other,
}

/// The kind of a type.
pub(super) fn kind(said: &str) -> Kind {
    let name = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match name.as_str() {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/x-javascript"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/sql"
        | "application/graphql"
        | "application/edn"
        | "application/x-sh"
        | "application/x-httpd-php" => Kind::Text,
        name if name.starts_with("text/") || name.ends_with("+json") || name.ends_with("+xml") => Kind::Text,
        _ => Kind::Other,
    }
}

/// The text of an answer of a type; `None` if it is no text.
pub(super) fn read(bytes: &[u8], said: Option<&str>, base: &Url) -> Option<Page> {
    let kind = match said.map(kind) {
        Some(kind) => kind,
        None if looks_like_html(bytes) => Kind::Html,
        None => Kind::Text,
    };
    if kind == Kind::Other {
        return None;
    }
    let text = decode(bytes, said, kind == Kind::Html);
    // A type may be wrong; no text has this letter.
    if text.contains('\0') {
        return None;
    }
    match kind {
        Kind::Html => {
            let markdown::Markdown { title, text, is_cut } = markdown::of_html(&text, base);
            Some(Page { title, text, is_cut })
        }
        _ => Some(Page { text, ..Page::default() }),
    }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = bytes.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
        .iter()
        .any(|word| start.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
}

/// The text in its encoding: the mark at its start, what the server says, what the page says, else UTF-8, or the usual
/// older encoding where it is none.
fn decode(bytes: &[u8], said: Option<&str>, is_html: bool) -> String {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let named = || said.and_then(|said| label(said.as_bytes()));
    let in_page = || {
        let start = bytes.get(..bytes.len().min(FETCH_META_BYTES)).filter(|_| is_html)?;
        // A page whose first letters can be read is in none of those.
        label(start).map(|encoding| if [UTF_16LE, UTF_16BE].contains(&encoding) { UTF_8 } else { encoding })
    };
    let encoding = marked.or_else(named).or_else(in_page);
    let encoding = encoding.unwrap_or_else(|| match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // The last letter is cut where the page is.
        Err(error) if error.error_len().is_none() && bytes.len() >= FETCH_BYTES => UTF_8,
        Err(_) => WINDOWS_1252,
    });
    encoding.decode(bytes).0.into_owned()
}

/// The encoding that is named after `charset=`.
fn label(text: &[u8]) -> Option<&'static Encoding> {
    const KEY: &[u8] = b"charset=";
    let at = text.windows(KEY.len()).position(|part| part.eq_ignore_ascii_case(KEY))?;
    let rest = text.get(at.saturating_add(KEY.len())..)?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or_else(|| rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"-_:.+".contains(byte));
    Encoding::for_label(rest.get(..end.unwrap_or(rest.len()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], said: Option<&str>) -> Option<String> {
        read(bytes, said, &Url::parse("https://h.example/").unwrap()).map(|page| page.text)
    }

    #[test]
    fn text_is_read_in_its_encoding() {
        for (bytes, said, expected) in [
            (&b"na\xc3\xafve"[..], None, "naïve"),
            (b"na\xefve", None, "naïve"),
            (b"na\xefve", Some("text/plain; charset=ISO-8859-1"), "naïve"),
            (b"\xef\xbb\xbfna\xc3\xafve", Some("text/plain; charset=latin1"), "naïve"),
            (b"\xff\xfec\x00a\x00", Some("text/plain"), "ca"),
            (b"<meta charset=\"windows-1251\"><p>\xcf\xf0", Some("text/html"), "Пр"),
            (b"<meta charset=utf-16><p>x", Some("text/html"), "x"),
            (b"\x93\xfa\x96\x7b", Some("text/plain;charset=\"Shift_JIS\""), "日本"),
            (b"x\xc3", Some("text/plain"), "xÃ"),
            (b"{\"a\": 1}", Some("application/problem+json"), "{\"a\": 1}"),
            (b" <!DOCTYPE HTML><h1>T</h1>", None, "# T"),
            (b"<h1>T</h1>", Some("text/plain"), "<h1>T</h1>"),
        ] {
            assert_eq!(text(bytes, said).as_deref(), Some(expected), "{said:?}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for said in
            ["image/png", "application/pdf", "application/octet-stream", "video/mp4", "x", "application/zip"]
        {
            assert_eq!(kind(said), Kind::Other, "{said}");
            assert_eq!(text(b"x", Some(said)), None);
        }
        assert_eq!(text(b"\x7fELF\0\0", Some("text/plain")), None, "a wrong type");
        assert_eq!(text(b"\x7fELF\0\0", None), None);
    }
}
