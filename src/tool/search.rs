//! `search`: lines that match a regular expression, with the rules of a repository's ignore files. Does not know how
//! folders are walked.

use std::io::{self, Read as _};
use std::path::Path;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::permission::Access;
use super::read::Stoppable;
use super::walk::{Walk, WalkedFile};
use super::{CallFuture, Context, Outcome, Plan, Site, Tool, cut, optional_text, spec, target, text};
use crate::glob;
use crate::limits::{
    SEARCH_FILE_BYTES, SEARCH_LINE_BYTES, SEARCH_MATCHES, SEARCH_PATTERN_BYTES, SEARCH_PATTERN_DEPTH,
    SEARCH_PATTERN_LENGTH, TOOL_LINE_BYTES,
};
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Search;

impl Tool for Search {
    fn spec(&self) -> ToolSpec {
        spec(
            "search",
            "Searches files for a regular expression (Rust syntax) and returns the matching lines with file and \
             line number. Leaves out what the ignore files of the project name, and binary files.",
            &[
                ("pattern", "string", "The regular expression; lower case matches either case.", true),
                ("path", "string", "The file or folder; without it, the session's folder.", false),
                ("glob", "string", "Only files like this, such as *.rs.", false),
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
        glob::only(site.cwd, optional_text(arguments, "glob")?)?;
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
                search(&context, &path, &arguments).unwrap_or_else(Outcome::failed)
            })
            .await
        })
    }
}

fn matcher(pattern: &str) -> Result<grep_regex::RegexMatcher, CallError> {
    if pattern.len() > SEARCH_PATTERN_LENGTH {
        return Err(CallError::LongPattern);
    }
    RegexMatcherBuilder::new()
        .case_smart(true)
        .line_terminator(Some(b'\n'))
        .size_limit(SEARCH_PATTERN_BYTES)
        .dfa_size_limit(SEARCH_PATTERN_BYTES)
        .nest_limit(SEARCH_PATTERN_DEPTH)
        .build(pattern)
        .map_err(CallError::Pattern)
}

fn search(context: &Context, path: &Path, arguments: &Value<'_>) -> Result<Outcome, CallError> {
    let matcher = matcher(text(arguments, "pattern")?)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(b'\0'))
        .heap_limit(Some(SEARCH_LINE_BYTES))
        .build();
    let mut found =
        Matches { text: String::new(), matches: 0, name: String::new(), stop: context.stop.clone() };
    let mut left_out = 0usize;
    let mut walk = Walk::new(path, optional_text(arguments, "glob")?, &context.barred, &context.stop)?;
    for entry in walk.by_ref() {
        found.name = super::path::shown(&entry.path, &context.cwd);
        if !search_file(&mut searcher, &matcher, &entry, &mut found) {
            left_out = left_out.saturating_add(1);
        }
        if found.is_full() || context.stop.is_cancelled() {
            break;
        }
    }
    let full = found.is_full();
    let matches = found.matches;
    if full {
        found.text.push_str(&format!(
            "[… more than {SEARCH_MATCHES} matches: make the pattern or the glob narrower …]\n"
        ));
    }
    if matches == 0 {
        found.text.push_str("[no matches]");
    }
    if left_out > 0 {
        found.text.push_str(&format!(
            "\n[{left_out} files were left out: larger than {SEARCH_FILE_BYTES} bytes, or with a line that is longer \
             than {SEARCH_LINE_BYTES} bytes]\n"
        ));
    }
    if walk.cut > 0 {
        found.text.push_str(CUT);
    }
    let mut outcome = Outcome::kept(context.outputs.keep(context.handle.clone(), &found.text));
    outcome.details.put("matches", Value::from(matches));
    Ok(outcome)
}

/// The note about an incomplete walk.
pub(super) const CUT: &str = "[some folders are too deep or too large to be looked through whole]\n";

/// Searches a file. Returns `false` if it is beyond a bound, which the result reports. Skips binary and unreadable files
/// silently.
fn search_file(
    searcher: &mut Searcher,
    matcher: &grep_regex::RegexMatcher,
    entry: &WalkedFile,
    found: &mut Matches,
) -> bool {
    let Ok(file) = entry.open() else { return true };
    if !file.metadata().is_ok_and(|known| known.len() <= SEARCH_FILE_BYTES) {
        return false;
    }
    // A file may grow while it is read.
    let stop = found.stop.clone();
    let part = Stoppable { source: file.take(SEARCH_FILE_BYTES), is_stopped: move || stop.is_cancelled() };
    searcher.search_reader(matcher, part, found).is_ok()
}

struct Matches {
    text: String,
    matches: usize,
    name: String,
    stop: CancellationToken,
}

impl Matches {
    fn is_full(&self) -> bool {
        self.matches >= SEARCH_MATCHES
    }
}

impl Sink for Matches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let line = cut(line.trim_end_matches(['\n', '\r']), TOOL_LINE_BYTES);
        let number = found.line_number().unwrap_or(0);
        self.text.push_str(&format!("{}:{number}:{line}\n", self.name));
        self.matches = self.matches.saturating_add(1);
        Ok(!self.is_full() && !self.stop.is_cancelled())
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
        assert_eq!(found(&context, &root, "x").unwrap(), "[no matches]");
        let file = File::open(root.join("a")).unwrap();
        let mut part = Stoppable { source: file.take(10), is_stopped: || context.stop.is_cancelled() };
        assert_eq!(part.read(&mut [0; 10]).unwrap(), 0);
    }
}
