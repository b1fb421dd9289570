//! `search`: lines that match a regular expression, with the rules of a repository's ignore files.

use std::io;
use std::path::Path;

use grep_regex::RegexMatcherBuilder;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use tokio_util::sync::CancellationToken;

use super::permission::Access;
use super::{Context, Outcome, Plan, Running, Tool, cut, optional_text, spec, target, text};
use crate::limits::{SEARCH_MATCHES, TOOL_LINE_BYTES};
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

    fn plan(&self, cwd: &Path, arguments: &Value<'_>) -> Result<Plan, String> {
        matcher(text(arguments, "pattern")?)?;
        optional_text(arguments, "glob")?;
        Ok(Plan { access: Access::Read(target(cwd, arguments, false)?), diff: None })
    }

    fn run<'a>(&'a self, context: &'a Context, plan: &'a Plan, arguments: &'a Value<'static>) -> Running<'a> {
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

fn matcher(pattern: &str) -> Result<grep_regex::RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .case_smart(true)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .map_err(|error| format!("The pattern is no regular expression: {error}"))
}

/// The walk over a folder as both searching tools do it: ignore files hold, hidden files are left out,
/// links are not followed.
pub(super) fn walk(path: &Path, glob: Option<&str>) -> Result<ignore::Walk, String> {
    let mut builder = WalkBuilder::new(path);
    builder.require_git(false).sort_by_file_path(Path::cmp);
    if let Some(glob) = glob {
        let mut only = OverrideBuilder::new(path);
        only.add(glob).map_err(|error| format!("The glob cannot be used: {error}"))?;
        builder.overrides(only.build().map_err(|error| format!("The glob cannot be used: {error}"))?);
    }
    Ok(builder.build())
}

fn search(context: &Context, path: &Path, arguments: &Value<'_>) -> Result<Outcome, String> {
    let matcher = matcher(text(arguments, "pattern")?)?;
    if !path.exists() {
        return Err(format!("{} does not exist.", path.display()));
    }
    let mut searcher =
        SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(b'\0')).build();
    let mut found =
        Found { text: String::new(), matches: 0, name: String::new(), stop: context.stop.clone() };
    for entry in walk(path, optional_text(arguments, "glob")?)? {
        // What cannot be read is passed over, as it would be by a person.
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        found.name = super::path::shown(entry.path(), &context.cwd);
        let _ = searcher.search_path(&matcher, entry.path(), &mut found);
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
    let mut outcome = Outcome::kept(context.outputs.keep(context.handle.clone(), &found.text));
    outcome.details.put("matches", Value::from(matches));
    Ok(outcome)
}

struct Found {
    text: String,
    matches: usize,
    name: String,
    stop: CancellationToken,
}

impl Found {
    fn is_full(&self) -> bool {
        self.matches >= SEARCH_MATCHES
    }
}

impl Sink for Found {
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
