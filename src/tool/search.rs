//! `search`: lines that match a regular expression, with the rules of a repository's ignore files. Does not know how
//! folders are walked.

use std::io::{self, Read as _};
use std::path::Path;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::find::{newest_first, selection};
use super::near_names::explained;
use super::permission::Access;
use super::read::Stoppable;
use super::text_file;
use super::walk::{Walk, WalkedFile};
use super::{CallFuture, Context, Outcome, Plan, Site, Tool, count, cut, optional_text, spec, target, text};
use crate::limits::{
    FOUND_FILES, SEARCH_CONTEXT, SEARCH_FILE_BYTES, SEARCH_LINE_BYTES, SEARCH_MATCHES, SEARCH_PATTERN_BYTES,
    SEARCH_PATTERN_DEPTH, SEARCH_PATTERN_LENGTH, TOOL_FILE_BYTES, TOOL_LINE_BYTES,
};
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Search;

impl Tool for Search {
    fn spec(&self) -> ToolSpec {
        spec(
            super::SEARCH,
            "Searches files for a regular expression (Rust syntax) and returns the matching lines with file and \
             line number. Leaves out hidden and binary files and what the ignore files of the project name, and says \
             how many.",
            &[
                (
                    "pattern",
                    "string",
                    "The regular expression; lower case matches either case, and \\n goes over lines.",
                    true,
                ),
                ("path", "string", "The file or folder; without it, the session's folder.", false),
                ("glob", "string", "Only files like this, such as *.rs or src.", false),
                ("context", "count", "How many lines around each match to show.", false),
                (
                    "mode",
                    "lines|files|count",
                    "lines (as without it), files (the newest first) or count (of each file).",
                    false,
                ),
                ("offset", "count", "How many matches, or files, to pass over: the next page.", false),
                ("hidden", "boolean", "Whether to include hidden files.", false),
                ("ignored", "boolean", "Whether to include what ignore files name.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        let part = |key| arguments.get(key).and_then(Value::as_str);
        let place = part("path").map(|path| format!(" in {path}")).unwrap_or_default();
        format!("search {}{place}", part("pattern").unwrap_or("?"))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        matcher(text(arguments, "pattern")?)?;
        selection(site.cwd, arguments)?;
        Mode::of(arguments)?;
        count(arguments, "context")?;
        count(arguments, "offset")?;
        Ok(Plan { access: Access::Read(target(site.cwd, arguments, false)?), diff: None })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let Access::Read(path) = plan.access.clone() else {
                return Outcome::failed("Nothing to search.");
            };
            let (arguments, context) = (arguments.clone(), context.clone());
            super::blocking(&context.stop.clone(), move || {
                search(&context, &path, &arguments).unwrap_or_else(|error| {
                    Outcome::failed(explained(error, &context.cwd, &context.barred, &context.stop))
                })
            })
            .await
        })
    }
}

/// The kind of a search's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lines,
    Files,
    Count,
}

impl Mode {
    fn of(arguments: &Value<'_>) -> Result<Self, CallError> {
        match optional_text(arguments, "mode")? {
            None | Some("lines") => Ok(Self::Lines),
            Some("files") => Ok(Self::Files),
            Some("count") => Ok(Self::Count),
            Some(_) => Err(CallError::Argument { key: "mode", expected: "lines, files or count" }),
        }
    }
}

/// Whether a pattern goes over the ends of lines.
fn is_over_lines(pattern: &str) -> bool {
    pattern.contains('\n') || pattern.contains("\\n")
}

fn matcher(pattern: &str) -> Result<grep_regex::RegexMatcher, CallError> {
    if pattern.len() > SEARCH_PATTERN_LENGTH {
        return Err(CallError::LongPattern);
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_smart(true)
        .multi_line(true)
        .size_limit(SEARCH_PATTERN_BYTES)
        .dfa_size_limit(SEARCH_PATTERN_BYTES)
        .nest_limit(SEARCH_PATTERN_DEPTH);
    if !is_over_lines(pattern) {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(CallError::Pattern)
}

fn search(context: &Context, path: &Path, arguments: &Value<'_>) -> Result<Outcome, CallError> {
    let pattern = text(arguments, "pattern")?;
    let matcher = matcher(pattern)?;
    let mode = Mode::of(arguments)?;
    let around = count(arguments, "context")?.unwrap_or(0).min(SEARCH_CONTEXT);
    let around = if mode == Mode::Lines { around } else { 0 };
    let offset = count(arguments, "offset")?.unwrap_or(0);
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .multi_line(is_over_lines(pattern))
        .before_context(around)
        .after_context(around)
        .binary_detection(BinaryDetection::quit(b'\0'))
        .heap_limit(Some(SEARCH_LINE_BYTES))
        .build();
    let mut found = Matches {
        text: String::new(),
        matches: 0,
        in_file: 0,
        offset,
        mode,
        name: String::new(),
        stop: context.stop.clone(),
    };
    let mut left_out = 0usize;
    // The files that match: their time, their path, and how many matches each has.
    let mut files: Vec<(i64, String, usize)> = Vec::new();
    let mut walk = Walk::new(path, selection(path, arguments)?, &context.barred, &context.stop)?;
    for entry in walk.by_ref() {
        found.name = super::path::shown(&entry.path, &context.cwd);
        found.in_file = 0;
        if !search_file(&mut searcher, &matcher, &entry, &mut found) {
            left_out = left_out.saturating_add(1);
        }
        if mode != Mode::Lines && found.in_file > 0 {
            let time = if mode == Mode::Files { entry.changed() } else { 0 };
            files.push((time, found.name.clone(), found.in_file));
        }
        if found.is_full() || files.len() >= FOUND_FILES || context.stop.is_cancelled() {
            break;
        }
    }
    let all = files.len();
    let lines = match mode {
        Mode::Lines => Vec::new(),
        Mode::Files => newest_first(files.into_iter().map(|(time, path, _)| (time, path)).collect()),
        Mode::Count => files.iter().map(|(_, path, count)| format!("{path}:{count}")).collect(),
    };
    for line in lines.iter().skip(offset).take(SEARCH_MATCHES) {
        found.text.push_str(&format!("{line}\n"));
    }
    let next = offset.saturating_add(SEARCH_MATCHES);
    if found.is_full() || all > next {
        let what = if mode == Mode::Lines { "matches" } else { "files" };
        found.text.push_str(&format!(
            "[… more than {SEARCH_MATCHES} {what}: make the pattern or the glob narrower, or continue with offset {next} …]\n"
        ));
    }
    let shown = if mode == Mode::Lines { found.matches } else { all }.saturating_sub(offset);
    if shown == 0 {
        found.text.push_str(if offset > 0 { "[no more matches]\n" } else { "[no matches]\n" });
    }
    if left_out > 0 {
        found.text.push_str(&format!(
            "[{left_out} files were left out: larger than {SEARCH_FILE_BYTES} bytes, or with a line that is longer \
             than {SEARCH_LINE_BYTES} bytes]\n"
        ));
    }
    found.text.push_str(&walk.left_out());
    let mut outcome = Outcome::kept(context.outputs.keep(context.handle.clone(), &found.text));
    outcome.details.put("matches", Value::from(shown));
    Ok(outcome)
}

/// Searches a file as `read` shows it. Returns `false` if it is beyond a bound, which the result reports. Skips binary and
/// unreadable files silently.
fn search_file(
    searcher: &mut Searcher,
    matcher: &grep_regex::RegexMatcher,
    entry: &WalkedFile,
    found: &mut Matches,
) -> bool {
    let Ok(file) = entry.open() else { return true };
    let Ok(known) = file.metadata() else { return false };
    if known.len() > SEARCH_FILE_BYTES {
        return false;
    }
    // A file may grow while it is read.
    let stop = found.stop.clone();
    let mut part =
        Stoppable { source: file.take(SEARCH_FILE_BYTES), is_stopped: move || stop.is_cancelled() };
    if known.len() > TOOL_FILE_BYTES {
        return searcher.search_reader(matcher, part, found).is_ok();
    }
    let mut bytes = Vec::new();
    if part.read_to_end(&mut bytes).is_err() {
        return true;
    }
    let is_long = |line: &[u8]| line.len() > SEARCH_LINE_BYTES;
    if is_long(&bytes) && bytes.split(|byte| *byte == b'\n').any(is_long) {
        return false;
    }
    match text_file::decode(&entry.path, bytes) {
        (Some(decoded), _) => {
            let text = text_file::plain(&decoded.text);
            searcher.search_slice(matcher, text.as_bytes(), found).is_ok()
        }
        (None, bytes) => searcher.search_slice(matcher, &bytes, found).is_ok(),
    }
}

struct Matches {
    text: String,
    matches: usize,
    /// Those in the file that is searched now.
    in_file: usize,
    offset: usize,
    mode: Mode,
    name: String,
    stop: CancellationToken,
}

impl Matches {
    fn is_full(&self) -> bool {
        self.mode == Mode::Lines && self.matches >= self.offset.saturating_add(SEARCH_MATCHES)
    }

    /// Adds the lines of some bytes, each with the file and its number.
    fn push(&mut self, bytes: &[u8], first: u64, mark: char) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (number, line) in (first..).zip(bytes.split(|byte| *byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            let line = cut(line.trim_end_matches('\r'), TOOL_LINE_BYTES);
            self.text.push_str(&format!("{}{mark}{number}{mark}{line}\n", self.name));
        }
    }
}

impl Sink for Matches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches = self.matches.saturating_add(1);
        self.in_file = self.in_file.saturating_add(1);
        if self.mode == Mode::Lines && self.matches > self.offset {
            self.push(found.bytes(), found.line_number().unwrap_or(0), ':');
        }
        Ok(self.mode != Mode::Files && !self.is_full() && !self.stop.is_cancelled())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        // The lines before a match belong to the next one.
        let of = self.matches.saturating_add(usize::from(*found.kind() == SinkContextKind::Before));
        if of > self.offset {
            self.push(found.bytes(), found.line_number().unwrap_or(0), '-');
        }
        Ok(!self.stop.is_cancelled())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if self.matches >= self.offset && !self.text.is_empty() {
            self.text.push_str("--\n");
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Map;
    use std::fs::File;
    use std::io::Write as _;

    fn context(dir: &Path) -> Context {
        Context::of_test(dir, CancellationToken::new())
    }

    fn found(context: &Context, path: &Path, pattern: &str) -> Result<String, CallError> {
        let arguments = Value::from(Map::new().with("pattern", pattern.to_owned()));
        search(context, path, &arguments).map(|outcome| outcome.text)
    }

    #[test]
    fn files_beyond_a_bound_are_left_out_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "a needle\n").unwrap();
        let mut long = File::create(root.join("b")).unwrap();
        for _ in 0..SEARCH_LINE_BYTES / (1024 * 1024) + 1 {
            long.write_all(&[b'x'; 1024 * 1024]).unwrap();
        }
        File::create(root.join("c")).unwrap().set_len(SEARCH_FILE_BYTES + 1).unwrap();
        let text = found(&context(&root), &root, "needle").unwrap();
        assert!(text.starts_with("a:1:a needle\n") && text.contains("[2 files were left out"), "{text}");
    }

    #[test]
    fn text_is_searched_as_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("crlf"), "one\r\ntwo\r\n").unwrap();
        std::fs::write(root.join("latin"), b"caf\xe9 au lait\n").unwrap();
        std::fs::write(root.join("utf16"), b"\xff\xfea\0\n\0\xe9\0z\0\n\0").unwrap();
        std::fs::write(root.join("data"), b"caf\0caf\n").unwrap();
        let text = |pattern: &str| found(&context(&root), &root, pattern).unwrap();
        assert_eq!(text("one$"), "crlf:1:one\n");
        assert_eq!(text("one\\ntwo$"), "crlf:1:one\ncrlf:2:two\n");
        assert_eq!(text("one\ntwo"), "crlf:1:one\ncrlf:2:two\n");
        assert_eq!(text("caf\u{e9}"), "latin:1:caf\u{e9} au lait\n");
        assert_eq!(text("^\u{e9}z"), "utf16:2:\u{e9}z\n");
    }

    #[test]
    fn context_modes_and_pages_show_what_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "1\nx\n2\n3\n4\nx\n").unwrap();
        std::fs::write(root.join("b"), "x\n").unwrap();
        let old = std::fs::File::options().write(true).open(root.join("a")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        let told = |more: Map<'static>| {
            let arguments = Value::from(more.with("pattern", "x"));
            search(&context(&root), &root, &arguments).unwrap().text
        };
        let lines = told(Map::new().with("context", Value::from(1)));
        assert_eq!(lines, "a-1-1\na:2:x\na-3-2\n--\na-5-4\na:6:x\nb:1:x\n");
        assert_eq!(told(Map::new().with("mode", "files")), "b\na\n");
        assert_eq!(told(Map::new().with("mode", "count")), "a:2\nb:1\n");
        assert_eq!(told(Map::new().with("offset", Value::from(2))), "b:1:x\n");
        assert_eq!(told(Map::new().with("offset", Value::from(1)).with("mode", "count")), "b:1\n");
        assert_eq!(told(Map::new().with("offset", Value::from(9))), "[no more matches]\n");
        std::fs::write(root.join("c"), "x\n".repeat(SEARCH_MATCHES)).unwrap();
        let first = told(Map::new());
        assert!(first.contains("continue with offset 1000"), "{}", &first[first.len() - 200..]);
        assert!(Mode::of(&Value::from(Map::new().with("mode", "all"))).is_err());
    }

    #[test]
    fn hostile_patterns_are_refused_or_end_when_stopped() {
        for pattern in [
            "(a{1000}){1000}".to_owned(),
            "(".repeat(100_000),
            format!("{}a{}", "(".repeat(100), ")".repeat(100)),
        ] {
            assert!(matcher(&pattern).is_err());
        }
        // Within every bound of the library, this takes a gigabyte and half a minute.
        assert!(matches!(matcher(&r"\w".repeat(60_000)), Err(CallError::LongPattern)));
        matcher(r"\b\w{1,40}\s+(foo|bar)[[:alpha:]]*$").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "x\n".repeat(1_000_000)).unwrap();
        let context = context(&root);
        context.stop.cancel();
        assert_eq!(found(&context, &root, "x").unwrap(), "[no matches]\n");
        let file = File::open(root.join("a")).unwrap();
        let mut part = Stoppable { source: file.take(10), is_stopped: || context.stop.is_cancelled() };
        assert_eq!(part.read(&mut [0; 10]).unwrap(), 0);
    }
}
