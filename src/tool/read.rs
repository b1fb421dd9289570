//! `read`: a file's lines, a notebook's cells, or an image. Does not judge the path.

mod binary_hint;
mod notebook;

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use base64::Engine as _;
use encoding_rs_io::DecodeReaderBytesBuilder;

use super::error::CallError;
use super::near_names;
use super::permission::Access;
use super::text_file::{self, DecodedText, TextFormat};
use super::walk::DeniedPaths;
use super::write::OpenText;
use super::{CallFuture, Context, DIGEST, Outcome, PART, Plan, Site, Tool, count, cut, seen, spec, target};
use crate::files;
use crate::limits::{
    IMAGE_BYTES, READ_BYTES, READ_LINES, TOOL_FILE_BYTES, TOOL_LINE_BYTES, TOOL_RESULT_BYTES,
};
use crate::message::{Block, image};
use crate::provider::ToolSpec;
use crate::sha256;
use crate::value::Value;

pub(super) struct Read;

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        spec(
            super::READ,
            "Reads a file: text as numbered lines, a notebook as cells, an image (PNG, JPEG, GIF, WebP) as an image. A \
             first line in brackets says what is special: CRLF line ends, an encoding.",
            &[
                ("path", "string", "The file, relative to the session's folder.", true),
                ("offset", "count", "The first line, from 1; a notebook's own lines too.", false),
                ("limit", "count", "How many lines.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        format!("read {}", arguments.get("path").and_then(Value::as_str).unwrap_or("?"))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        count(arguments, "offset")?;
        count(arguments, "limit")?;
        Ok(Plan { access: Access::Read(target(site.cwd, arguments, true)?), diff: None })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let Access::Read(path) = plan.access.clone() else { return Outcome::failed("Nothing to read.") };
            let mut offset = count(arguments, "offset").ok().flatten();
            let mut limit = count(arguments, "limit").ok().flatten();
            if let (None, None, Some((first, last))) = (offset, limit, lines_named(&context.cwd, arguments)) {
                (offset, limit) = (Some(first), Some(last.saturating_sub(first).saturating_add(1)));
            }
            let first = offset.unwrap_or(1).max(1);
            let (barred, stop) = (context.barred.clone(), context.stop.clone());
            let (is_stopped, open) = (move || stop.is_cancelled(), context.open.clone());
            let (cwd, ended) = (context.cwd.clone(), context.stop.clone());
            super::blocking(&context.stop, move || {
                let most = limit.unwrap_or(READ_LINES);
                let is_notebook = path.extension().is_some_and(|ending| ending == "ipynb");
                if is_notebook
                    && offset.is_none()
                    && limit.is_none()
                    && let Some(cells) =
                        OpenText::at(&path, &*open).ok().and_then(|old| notebook::cells(old.text()))
                {
                    let mut outcome = Outcome::ok(cells);
                    outcome.details.put("path", path.to_string_lossy().into_owned());
                    return outcome;
                }
                let mut outcome = match open.is_asked(&path) {
                    false => read_file(&path, first, limit, &barred, &is_stopped),
                    true => match OpenText::at(&path, &*open) {
                        Ok(old) => text_lines(&path, old.text(), old.format(), (first, most), &is_stopped)
                            .unwrap_or_else(|error| unreadable(&path, &error)),
                        Err(error) => Outcome::failed(error),
                    },
                };
                if outcome.is_error && path.symlink_metadata().is_err() {
                    outcome.text.push_str(&near_names::told(&cwd, &path, &barred, &ended));
                }
                if let Some(seen) = seen(|key| outcome.details.get_keyword(key)) {
                    open.shown(&path, seen);
                }
                outcome
            })
            .await
        })
    }
}

/// The lines that the path of a call names.
fn lines_named(cwd: &Path, arguments: &Value<'_>) -> Option<(usize, usize)> {
    super::path::understood(cwd, arguments.get("path")?.as_str()?).ok()?.lines
}

/// A file as the read tool shows it: `limit` of its lines from `first` on, from 1, or an image; of a folder the names
/// that are not barred. Ends early once `is_stopped` says so.
pub fn read_file(
    path: &Path,
    first: usize,
    limit: Option<usize>,
    barred: &DeniedPaths,
    is_stopped: &dyn Fn() -> bool,
) -> Outcome {
    read(path, first, limit.unwrap_or(READ_LINES), barred, is_stopped)
        .unwrap_or_else(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &io::Error) -> Outcome {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    };
    Outcome::failed(format!("{} cannot be read: {why}.", path.display()))
}

/// A source that ends when the call is stopped.
pub(super) struct Stoppable<R, S> {
    pub source: R,
    pub is_stopped: S,
}

impl<R: io::Read, S: Fn() -> bool> io::Read for Stoppable<R, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_stopped)() { Ok(0) } else { self.source.read(buffer) }
    }
}

fn read(
    path: &Path,
    first: usize,
    limit: usize,
    barred: &DeniedPaths,
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Outcome> {
    let file = files::open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return list(path, &file, barred);
    }
    if !found.is_file() {
        // A pipe or a device might never end.
        return Ok(Outcome::failed(format!("{} is no regular file.", path.display())));
    }
    let mut reader = BufReader::new(Stoppable { source: file.take(READ_BYTES), is_stopped });
    let start = reader.fill_buf()?;
    if let Some(mime) = image::type_of(start) {
        return image(reader, mime, found.len());
    }
    let binary = |start: &[u8]| {
        Ok(Outcome::failed(format!(
            "{} is a binary file of {} bytes; {}.",
            path.display(),
            found.len(),
            binary_hint::of(path, start)
        )))
    };
    if found.len() > TOOL_FILE_BYTES {
        let Some(format) = TextFormat::of(path, start, false) else { return binary(start) };
        let special = text_file::special(&String::from_utf8_lossy(start), format);
        if format.is_utf_8() {
            return lines(path, reader, (first, limit), special, (found.len(), is_stopped));
        }
        let source = DecodeReaderBytesBuilder::new().encoding(Some(format.encoding())).build(reader);
        return lines(path, BufReader::new(source), (first, limit), special, (found.len(), is_stopped));
    }
    let start = start.to_vec();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    match text_file::decode(path, bytes).0 {
        Some(DecodedText { format, .. }) if format.is_utf_8() && start.contains(&0) => binary(&start),
        Some(DecodedText { text, format }) => text_lines(path, &text, format, (first, limit), is_stopped),
        None => binary(&start),
    }
}

/// The lines of a text that is not too large to be changed as a whole, with its digest.
fn text_lines(
    path: &Path,
    text: &str,
    format: TextFormat,
    (first, limit): (usize, usize),
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<Outcome> {
    let source = Stoppable { source: text.as_bytes(), is_stopped };
    let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let special = text_file::special(text, format);
    let mut outcome = lines(path, BufReader::new(source), (first, limit), special, (size, is_stopped))?;
    if !outcome.is_error && limit > 0 {
        outcome.details.put(DIGEST, sha256::hex(text));
    }
    Ok(outcome)
}

/// The lines of a text, as the read tool shows them, below a line about what is `special`. The text has `size` bytes.
fn lines(
    path: &Path,
    mut reader: impl io::BufRead,
    (first, limit): (usize, usize),
    special: Option<String>,
    (size, is_stopped): (u64, &dyn Fn() -> bool),
) -> io::Result<Outcome> {
    let mut text = special.unwrap_or_default();
    let mut line = Vec::new();
    let mut number = 0usize;
    let mut shown = 0usize;
    let more = loop {
        line.clear();
        // Cuts off a line that is too long for a text, to bound memory.
        let most = u64::try_from(TOOL_LINE_BYTES.saturating_mul(4)).unwrap_or(u64::MAX);
        if reader.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            break false;
        }
        let whole = line.ends_with(b"\n");
        if !whole {
            skip_line(&mut reader)?;
        }
        number = number.saturating_add(1);
        if number < first {
            continue;
        }
        if shown >= limit || text.len() >= TOOL_RESULT_BYTES {
            break true;
        }
        let content = String::from_utf8_lossy(&line);
        let content = content.trim_end_matches(['\n', '\r']);
        let content = if number == 1 { content.trim_start_matches('\u{feff}') } else { content };
        text.push_str(&format!("{number:>6}\t{}\n", cut(content, TOOL_LINE_BYTES)));
        shown = shown.saturating_add(1);
    };
    let is_cut = !more && size > READ_BYTES && !is_stopped();
    if is_cut {
        let why = format!("read looks through the first {READ_BYTES} bytes of a file, and it has {size}");
        if shown == 0 {
            return Ok(Outcome::failed(format!("Line {first} was not found: {why}. Use a command.")));
        }
        text.push_str(&format!("[… {why} …]\n"));
    } else if more {
        text.push_str(&format!("[… the file goes on: read from line {number} on with offset {number} …]\n"));
    } else if number == 0 {
        text.push_str("[the file is empty]\n");
    } else if shown == 0 {
        return Ok(Outcome::failed(format!("The file has {number} lines; line {first} is beyond its end.")));
    }
    let mut outcome = Outcome::ok(text);
    outcome.details.put("path", path.to_string_lossy().into_owned());
    outcome.details.put("lines", Value::from(shown));
    if more || is_cut || first > 1 {
        outcome.details.put(PART, true);
    }
    Ok(outcome)
}

/// Passes over the rest of a line.
fn skip_line(reader: &mut impl io::BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        match memchr::memchr(b'\n', buffer) {
            Some(end) => {
                reader.consume(end.saturating_add(1));
                return Ok(());
            }
            None => {
                let length = buffer.len();
                reader.consume(length);
            }
        }
    }
}

fn list(path: &Path, folder: &std::fs::File, barred: &DeniedPaths) -> io::Result<Outcome> {
    let mut names: Vec<String> = files::entries(folder, READ_LINES)?
        .into_iter()
        .filter(|(name, _)| !barred.bars(&path.join(name)))
        .map(|(name, is_folder)| format!("{}{}", name.to_string_lossy(), if is_folder { "/" } else { "" }))
        .collect();
    names.sort();
    Ok(Outcome::ok(format!("{} is a folder:\n{}\n", path.display(), names.join("\n"))))
}

fn image(mut reader: impl io::Read, mime: &'static str, size: u64) -> io::Result<Outcome> {
    if size > IMAGE_BYTES {
        return Ok(Outcome::failed(format!("The image has {size} bytes; at most {IMAGE_BYTES} are shown.")));
    }
    let mut bytes = Vec::new();
    reader.by_ref().take(IMAGE_BYTES).read_to_end(&mut bytes)?;
    let mut outcome = Outcome::ok(format!("An image, {mime}, {size} bytes."));
    outcome.images.push(Block::Image {
        mime_type: mime.into(),
        data: base64::engine::general_purpose::STANDARD.encode(&bytes).into(),
    });
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;
    use crate::tool::permission::{Ground, Rule};

    #[test]
    fn listing_leaves_out_what_a_rule_denies() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "secrets.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("private")).unwrap();
        let rules = r#"{:decision :deny :path "**/secrets.txt"} {:decision :deny :path "private/**"}"#;
        let rules = edn::read_all(rules.as_bytes()).unwrap();
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::read(rule).unwrap()).collect();
        let barred = DeniedPaths::new(&rules, &Ground::from(dir.path()), "read");
        let text = read(dir.path(), 1, 10, &barred, &|| false).unwrap().text;
        assert!(text.ends_with("is a folder:\na\n"), "{text}");
    }

    #[test]
    fn endless_file_is_read_to_a_bound_or_until_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("hole");
        std::fs::write(&path, format!("one\n{}\n", "x".repeat(9000))).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
        let found = |first, is_stopped: &dyn Fn() -> bool| {
            read(&path, first, 10, &DeniedPaths::default(), is_stopped).unwrap()
        };
        let calls = std::cell::Cell::new(0);
        let stopped = found(4, &|| calls.replace(calls.get() + 1) > 20);
        assert!(stopped.text.contains("has 3 lines") && calls.get() < 30, "{} {}", calls.get(), stopped.text);
        let far = found(4, &|| false);
        assert!(far.is_error && far.text.contains("looks through the first"), "{}", far.text);
    }
}
