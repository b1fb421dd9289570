//! Changes one entry of a map in the text of a file, and leaves every other byte of it: comments, order and spaces are the
//! person's. Does not know what a value means.

use std::path::Path;

use super::error::{ConfigError, EditError};
use crate::edn::{self, Reader};
use crate::files::{FilePlace, FileRead, ReplaceError, Rights};
use crate::limits::CONFIG_BYTES;
use crate::value::{Map, Value};

/// Changes the text of a file, which may be a link or not be there yet. Says whether it was changed; `how` returns the new
/// text, or `None` for no change. Somebody else's change meanwhile is kept.
///
/// # Errors
/// When the file cannot be read, changed or written. It is as it was then.
pub(super) fn change(
    path: &Path,
    how: impl Fn(&str) -> Result<Option<String>, EditError>,
) -> Result<bool, ConfigError> {
    let failed = |source| ConfigError::Io { path: path.to_owned(), source };
    let wrong = |source| ConfigError::Edit { path: path.to_owned(), source };
    // A file that is not there is made where its folder is.
    let real = path.canonicalize().or_else(|_| {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        let place = folder.and_then(|folder| Some(folder.join(path.file_name()?)));
        place.map_or_else(|| std::path::absolute(path), Ok)
    });
    let place = FilePlace::make(&real.map_err(failed)?).map_err(failed)?;
    loop {
        let found = place.read(CONFIG_BYTES).map_err(failed)?;
        let bytes = found.as_ref().map(|found: &FileRead| found.bytes.as_slice()).unwrap_or_default();
        let text =
            std::str::from_utf8(bytes).map_err(|error| wrong(EditError::Unreadable(error.to_string())))?;
        let Some(new) = how(text).map_err(wrong)? else { return Ok(false) };
        let rights = if found.is_some() { Rights::Kept } else { Rights::Private };
        match place.replace(found.as_ref(), new.as_bytes(), rights, &|| true) {
            Ok(_) => return Ok(true),
            Err(ReplaceError::Changed) => {}
            Err(error) => return Err(failed(std::io::Error::other(error.to_string()))),
        }
    }
}

/// Where a form stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

/// A map in a text: its entries, and where it closes.
struct Written<'t> {
    entries: Vec<(Value<'t>, Span, Span)>,
    close: usize,
}

/// The text with an entry in the map `section`, which is made if it is missing; an empty text is an empty map. `name` and
/// `value` are forms.
///
/// # Errors
/// See [`EditError`].
pub fn put(text: &str, section: &str, name: &Value<'_>, value: &Value<'_>) -> Result<String, EditError> {
    let entry = format!("{name} {value}");
    let key = Value::keyword(section.to_owned());
    let start = start_of(text, 0)?;
    if start == text.len() {
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{end}{{{key} {{{entry}}}}}\n"));
    }
    let outer = map(text, start, "the configuration")?;
    let Some((_, _, span)) = outer.entries.iter().find(|(known, ..)| *known == key) else {
        return checked(
            text,
            insert(text, &outer, &format!("{key} {{{entry}}}")),
            section,
            name,
            Some(value),
        );
    };
    let inner = map(text, span.start, &key.to_string())?;
    if inner.entries.iter().any(|(known, ..)| is_same(known, name)) {
        return Err(EditError::Exists(name.to_string()));
    }
    checked(text, insert(text, &inner, &entry), section, name, Some(value))
}

/// The text without an entry of the map `section`; `None` if it is not there.
///
/// # Errors
/// See [`EditError`].
pub fn take_out(text: &str, section: &str, name: &Value<'_>) -> Result<Option<String>, EditError> {
    let start = start_of(text, 0)?;
    if start == text.len() {
        return Ok(None);
    }
    let key = Value::keyword(section.to_owned());
    let outer = map(text, start, "the configuration")?;
    let Some((_, _, span)) = outer.entries.iter().find(|(known, ..)| *known == key) else { return Ok(None) };
    let inner = map(text, span.start, &key.to_string())?;
    let Some((_, from, to)) = inner.entries.iter().find(|(known, ..)| is_same(known, name)) else {
        return Ok(None);
    };
    checked(text, remove(text, Span { start: from.start, end: to.end }), section, name, None).map(Some)
}

/// Where the last of some nested keys begins, the first of them in the outermost map; `None` if they are not all there.
pub(super) fn start_of_keys(text: &str, keys: &[Value<'_>]) -> Option<usize> {
    let mut start = start_of(text, 0).ok()?;
    let mut found = None;
    for key in keys {
        let map = map(text, start, "").ok()?;
        let (_, name, value) = map.entries.iter().find(|(known, ..)| is_same(known, key))?;
        (found, start) = (Some(name.start), value.start);
    }
    found
}

/// Where each element of the vector under some nested keys begins, as far as they are found.
pub(super) fn starts_of_elements(text: &str, keys: &[Value<'_>]) -> Vec<usize> {
    let mut starts = Vec::new();
    let Some(mut at) = inside_vector(text, keys) else { return starts };
    while let Ok(start) = start_of(text, at)
        && let Ok(Some((_, end))) = form(text, start)
    {
        starts.push(start);
        at = end;
    }
    starts
}

/// Where the content of the vector under some nested keys begins.
fn inside_vector(text: &str, keys: &[Value<'_>]) -> Option<usize> {
    let mut start = start_of(text, 0).ok()?;
    for key in keys {
        let map = map(text, start, "").ok()?;
        let (.., value) = map.entries.iter().find(|(known, ..)| is_same(known, key))?;
        start = value.start;
    }
    text.get(start..)?.strip_prefix('[').map(|_| start.saturating_add(1))
}

/// Whether two keys are one name: a file may write it as a string or as a keyword.
fn is_same(known: &Value<'_>, name: &Value<'_>) -> bool {
    let word = |value: &Value<'_>| value.as_str().or_else(|| value.as_keyword()).map(str::to_owned);
    known == name || word(known).is_some() && word(known) == word(name)
}

/// The new text, if it says what the old one said but for the entry.
fn checked(
    old: &str,
    new: String,
    section: &str,
    name: &Value<'_>,
    value: Option<&Value<'_>>,
) -> Result<String, EditError> {
    let read = |text: &str| {
        edn::read_one(text.as_bytes())
            .map(Value::into_owned)
            .map_err(|error| EditError::Unreadable(error.to_string()))
    };
    let without = |whole: &Value<'static>| {
        let mut rest = Map::new();
        for (key, value) in whole.as_map().into_iter().flat_map(Map::iter) {
            if key.as_keyword() != Some(section) {
                rest.insert(key.clone(), value.clone());
                continue;
            }
            let kept = value.as_map().into_iter().flat_map(Map::iter).filter(|(key, _)| !is_same(key, name));
            let kept = Value::map(kept.map(|(key, value)| (key.clone(), value.clone())));
            // A section that is new and one that is empty say the same.
            if kept.as_map().is_some_and(|kept| !kept.is_empty()) {
                rest.insert(key.clone(), kept);
            }
        }
        rest
    };
    let (before, after) = (read(old)?, read(&new)?);
    let found = after.get(section).and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let found = found.filter(|(key, _)| is_same(key, name)).map(|(_, value)| value).next();
    let is_so = without(&before) == without(&after) && found == value;
    if is_so { Ok(new) } else { Err(EditError::NoMap(format!(":{section}"))) }
}

/// The text with an entry at the end of a map.
fn insert(text: &str, map: &Written<'_>, entry: &str) -> String {
    let (before, after) = text.split_at(map.close);
    let column = |at: usize| {
        let line = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        line.chars().count()
    };
    let Some((_, first, _)) = map.entries.first() else { return format!("{before}{entry}{after}") };
    let blanks = " ".repeat(column(first.start));
    let line = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
    let (above, last) = before.split_at(line);
    match last.trim().is_empty() {
        // The brace stands alone, and there may be a comment above it.
        true => format!("{above}{blanks}{entry}\n{last}{after}"),
        false => format!("{before}\n{blanks}{entry}{after}"),
    }
}

/// The text without a part: with its line, if nothing else stands there.
fn remove(text: &str, part: Span) -> String {
    let (before, after) =
        (text.get(..part.start).unwrap_or_default(), text.get(part.end..).unwrap_or_default());
    let is_blank = |c: char| matches!(c, ' ' | '\t' | ',' | '\r');
    let line = before.trim_end_matches(is_blank);
    let rest = after.trim_start_matches(is_blank);
    match (line.is_empty() || line.ends_with('\n'), rest.strip_prefix('\n')) {
        (true, Some(rest)) => format!("{line}{rest}"),
        // The brace that closes the map stays in its place.
        (true, None) if rest.starts_with('}') => format!("{}{rest}", line.trim_end()),
        (true, None) => format!("{before}{rest}"),
        (false, _) => format!("{}{after}", line),
    }
}

/// The map that is written at a place.
fn map<'t>(text: &'t str, start: usize, name: &str) -> Result<Written<'t>, EditError> {
    let no_map = || EditError::NoMap(name.to_owned());
    let mut at = text.get(start..).and_then(|rest| rest.strip_prefix('{')).map(|_| start.saturating_add(1));
    let mut entries = Vec::new();
    let mut key: Option<(Value<'t>, Span)> = None;
    while let Some(place) = at {
        let from = start_of(text, place)?;
        if text.get(from..).is_some_and(|rest| rest.starts_with('}')) {
            return if key.is_none() { Ok(Written { entries, close: from }) } else { Err(no_map()) };
        }
        let (value, end) = form(text, from)?.ok_or_else(no_map)?;
        let span = Span { start: from, end };
        match key.take() {
            None => key = Some((value, span)),
            Some((key, first)) => entries.push((key, first, span)),
        }
        at = Some(end);
    }
    Err(no_map())
}

/// Where the next form begins, or what closes: after blanks, comments and forms that are left out.
fn start_of(text: &str, mut at: usize) -> Result<usize, EditError> {
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let blank =
            rest.len().saturating_sub(rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',').len());
        at = at.saturating_add(blank);
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with(';') {
            at = at.saturating_add(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("#_") {
            at = match form(text, at.saturating_add(2))? {
                Some((_, end)) => end,
                None => return Ok(text.len()),
            };
        } else {
            return Ok(at);
        }
    }
}

/// The form at a place, and where it ends.
fn form(text: &str, at: usize) -> Result<Option<(Value<'_>, usize)>, EditError> {
    let mut reader = Reader::new(text.as_bytes().get(at..).unwrap_or_default());
    match reader.next() {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some((value, at.saturating_add(reader.offset())))),
        Some(Err(error)) => Err(EditError::Unreadable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value<'_> {
        edn::read_one(text.as_bytes()).unwrap()
    }

    fn added(text: &str) -> String {
        put(text, "mcp", &value("\"n\""), &value("{:command [\"c\"]}")).unwrap()
    }

    #[test]
    fn entry_is_added_and_nothing_else_is_touched() {
        const NEW: &str = "\"n\" {:command [\"c\"]}";
        for (before, after) in [
            ("", format!("{{:mcp {{{NEW}}}}}\n")),
            ("; mine\n", format!("; mine\n{{:mcp {{{NEW}}}}}\n")),
            ("{}", format!("{{:mcp {{{NEW}}}}}")),
            ("{:mode :ask}", format!("{{:mode :ask\n :mcp {{{NEW}}}}}")),
            (
                "; a\n{:mode :ask ; why\n }\n; z\n",
                format!("; a\n{{:mode :ask ; why\n :mcp {{{NEW}}}\n }}\n; z\n"),
            ),
            ("{:mcp {}\n :mode :ask}", format!("{{:mcp {{{NEW}}}\n :mode :ask}}")),
            (
                "{:mcp {\"a\" {:url \"u\"} ; one\n       #_ \"b\" #_{} }}",
                format!("{{:mcp {{\"a\" {{:url \"u\"}} ; one\n       #_ \"b\" #_{{}} \n       {NEW}}}}}"),
            ),
            (
                "{:mcp {\"a\" {:url \"u\"}\n       ; }\n       }}",
                format!("{{:mcp {{\"a\" {{:url \"u\"}}\n       ; }}\n       {NEW}\n       }}}}"),
            ),
        ] {
            assert_eq!(added(before), after, "{before}");
        }
    }

    #[test]
    fn entry_is_taken_out_and_nothing_else_is_touched() {
        for (before, after) in [
            ("{:mcp {\"n\" {:url \"u\"}}}", "{:mcp {}}"),
            ("{:mcp {:n {:url \"u\"} \"b\" {}}}", "{:mcp { \"b\" {}}}"),
            ("{:mcp {\"a\" {} \"n\" {:url \"u\"}}}", "{:mcp {\"a\" {}}}"),
            (
                "{:mcp {\"a\" {}\n       \"n\" {:url\n \"u\"},\n       \"b\" {}}}",
                "{:mcp {\"a\" {}\n       \"b\" {}}}",
            ),
            ("{:mcp {\"a\" {}\n       \"n\" {}}}", "{:mcp {\"a\" {}}}"),
            (
                "{:mcp {\"a\" {}\n  ; about n\n  \"n\" {} ; it\n  }}",
                "{:mcp {\"a\" {}\n  ; about n\n  ; it\n  }}",
            ),
        ] {
            assert_eq!(take_out(before, "mcp", &value("\"n\"")).unwrap().as_deref(), Some(after), "{before}");
        }
        for text in ["", "{}", "{:mcp {\"a\" {}}}", "{:mode :ask #_:mcp #_{\"n\" {}}}"] {
            assert_eq!(take_out(text, "mcp", &value("\"n\"")), Ok(None), "{text}");
        }
        // What was added is gone again.
        for text in ["{:mode :ask}", "{:mcp {\"a\" {}\n       }}", "; c\n{:mcp {}}"] {
            let read = |text: &str| value(text).into_owned();
            let back = take_out(&added(text), "mcp", &value("\"n\"")).unwrap().unwrap();
            let mut back = read(&back);
            if read(text).get("mcp").is_none() {
                assert_eq!(back.as_map_mut().unwrap().remove(&Value::keyword("mcp")), Some(value("{}")));
            }
            assert_eq!(back, read(text), "{text}");
        }
    }

    #[test]
    fn text_that_is_written_otherwise_is_left_alone() {
        let put = |text: &str| put(text, "mcp", &value("\"n\""), &value("{}")).unwrap_err();
        for text in ["[]", "#:mcp{:a 1}", "{:mcp nil}", "{:mcp #x {}}", "{:mcp ^:m {}}", "{:mcp"] {
            assert!(matches!(put(text), EditError::NoMap(_) | EditError::Unreadable(_)), "{text}");
        }
        assert_eq!(put("{:mcp {:n {}}}"), EditError::Exists("\"n\"".to_owned()));
        assert!(matches!(put("{:a 1 :a 2}"), EditError::Unreadable(_)));
    }
}
