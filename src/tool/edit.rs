//! `edit`: replacements in a file, several at once, all or none. `matching` says where an old text stands, `near` why it
//! stands nowhere. Does not judge the path, and does not write: `write` does.

mod matching;
mod near;

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::permission::Access;
use super::placeholder;
use super::text_file::{PlainText, new_file, plain};
use super::write::{MadeChange, OpenText, changing, proposed, tell_diff, write_revision};
use super::{
    CallFuture, Changing, Context, DIGEST, OpenFiles, Outcome, Plan, Proposal, Revision, Site, Tool, cut,
    judged, spec, target,
};
use crate::diff::unified;
use crate::limits::{EDIT_ATTEMPTS, EDIT_LINES_SHOWN, EDITS, NEAR_LINES, TOOL_LINE_BYTES};
use crate::provider::ToolSpec;
use crate::sha256;
use crate::value::{Map, Value};
use matching::{Matcher, Miss, NewLine, Place, Step};

pub(super) struct Edit;

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        spec(
            super::EDIT,
            "Replaces texts in a file. Each old text must stand in the file exactly once; give more of its \
             surroundings where it does not, or set replace_all. Line ends need no care: the file keeps its own. All \
             replacements are made, or none. An empty old text makes a file that is not there.",
            &[
                ("path", "string", "The file, relative to the session's folder.", true),
                (
                    "edits",
                    "edits",
                    "The replacements; each old text as it stands in the file now, without line numbers.",
                    true,
                ),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or("?");
        match arguments.get("edits").and_then(Value::as_slice).map_or(0, <[_]>::len) {
            0 | 1 => format!("edit {path}"),
            several => format!("edit {path} ({several} places)"),
        }
    }

    fn access(&self, site: Site<'_>, arguments: &Value<'_>) -> Option<Result<Access, CallError>> {
        Some(target(site.cwd, arguments, true).map(Access::Write))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        let path = judged(site, arguments)?;
        let (old, new, _) = edited(&path, arguments, site.open, site.stop)?;
        Ok(Plan {
            diff: Some(unified(old.text(), &new, &super::path::shown(&path, site.cwd))),
            access: Access::Write(path),
        })
    }

    fn propose(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<(Plan, Option<Proposal>), CallError> {
        let path = judged(site, arguments)?;
        let (old, new, _) = edited(&path, arguments, site.open, site.stop)?;
        Ok(proposed(&old, &new, site.cwd))
    }

    /// One replacement of the whole text: what the person made of the file need not be any of the model's edits.
    fn revised(&self, arguments: &Value<'static>, revision: &Revision) -> Value<'static> {
        let mut edit = Map::new();
        edit.put("old", revision.proposal.old.as_deref().unwrap_or_default().to_owned());
        edit.put("new", revision.content.to_string());
        let mut arguments = arguments.as_map().cloned().unwrap_or_default();
        arguments.put("edits", Value::vector([Value::from(edit)]));
        arguments.into()
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let Access::Write(path) = plan.access.clone() else { return Outcome::failed("Nothing to edit.") };
            if let Some(revision) = &context.revision {
                return write_revision(context, path, revision.clone()).await;
            }
            let (arguments, cwd, stop) = (arguments.clone(), context.cwd.clone(), context.stop.clone());
            let (note, open) = (context.changing.clone(), context.open.clone());
            let (outputs, handle) = (context.outputs.clone(), context.handle.clone());
            changing(&context.stop, &path.clone(), move |go| {
                // Reads the file again: it may have changed during the question.
                let site = Site { cwd: &cwd, open: &*open, stop: &stop, judged: Some(&path) };
                let (MadeChange { edit, note }, told) = match edit(&path, &arguments, site, &*note, go) {
                    Ok(replaced) => replaced,
                    Err(error) => return Outcome::not_changed(error),
                };
                let shown = super::path::shown(&path, &cwd);
                let mut outcome = Outcome::ok(format!("Edited {shown}: {told}{note}"));
                let before = edit.old.as_deref().unwrap_or_default();
                outcome.details.put("path", path.to_string_lossy().into_owned());
                let digest = sha256::hex(&*edit.new);
                if open.changed(&path, &sha256::hex(before), digest.clone()) {
                    outcome.details.put(DIGEST, digest);
                }
                let diff = unified(before, &edit.new, &shown);
                tell_diff(&mut outcome, &diff, &outputs, &handle);
                outcome.edit = Some(Arc::new(edit));
                outcome
            })
            .await
        })
    }
}

/// Makes the edits. Returns the change, and the report for the model. Starts again if somebody else changes the file.
fn edit(
    path: &Path,
    arguments: &Value<'_>,
    site: Site<'_>,
    note: &Changing,
    go: &dyn Fn() -> bool,
) -> Result<(MadeChange, String), CallError> {
    let mut attempt = 1;
    loop {
        let (old, new, told) = edited(path, arguments, site.open, site.stop)?;
        match old.replace(new, note, go) {
            Ok(replaced) => return Ok((replaced, told)),
            Err(CallError::Changed) if attempt < EDIT_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// One replacement, with the texts as the model gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Replacement<'a> {
    old: &'a str,
    new: &'a str,
    /// Whether every place is meant.
    all: bool,
}

impl<'a> Replacement<'a> {
    fn of(edit: &'a Value<'_>) -> Option<Self> {
        let text = |key| edit.get(key).and_then(Value::as_str);
        let all = match edit.get("replace_all") {
            None | Some(Value::Nil) => false,
            Some(all) => all.as_bool()?,
        };
        Some(Self { old: text("old")?, new: text("new")?, all })
    }
}

/// The file, its text after the edits, and the report for the model.
fn edited<'p>(
    path: &'p Path,
    arguments: &Value<'_>,
    open: &'p dyn OpenFiles,
    stop: &CancellationToken,
) -> Result<(OpenText<'p>, String, String), CallError> {
    let edits = arguments
        .get("edits")
        .and_then(Value::as_slice)
        .filter(|edits| !edits.is_empty())
        .ok_or(CallError::Argument { key: "edits", expected: "a list of one or more {old, new}" })?;
    if edits.len() > EDITS {
        return Err(CallError::Unfit(format!(
            "There are {} edits, and at most {EDITS} are made at once; make several calls.",
            edits.len()
        )));
    }
    let edits: Vec<Replacement<'_>> =
        edits.iter().map(Replacement::of).collect::<Option<_>>().ok_or_else(|| {
            CallError::Unfit(
                "Each of the edits must have a text old and a text new, and may have replace_all, true or false."
                    .to_owned(),
            )
        })?;
    let old = OpenText::at(path, open)?;
    let (new, told) = match &edits[..] {
        [Replacement { old: "", new, .. }] if old.text().is_empty() => {
            check_placeholders(1, new, "")?;
            (new_file(path, new), "a new file.".to_owned())
        }
        _ if !old.exists() => {
            return Err(CallError::Missing { path: path.to_owned(), hint: "; make it with write".into() });
        }
        _ => apply(old.text(), &edits, stop)?,
    };
    old.bytes_of(&new)?;
    Ok((old, new, told))
}

/// Refuses a new text with a line that stands for left-out code.
fn check_placeholders(number: usize, new: &str, old: &str) -> Result<(), CallError> {
    match placeholder::find(new, old) {
        None => Ok(()),
        Some(line) => Err(CallError::Unfit(format!(
            "Nothing was changed: the new text of edit {number} has a placeholder for left-out code, {:?}. Write out the \
             code, or edit only the lines that change.",
            cut(line, TOOL_LINE_BYTES)
        ))),
    }
}

/// A place of one of the edits.
struct Placed {
    number: usize,
    place: Place,
}

/// Makes all replacements in one pass over the original text, and says where. Ends early with the call.
fn apply(
    raw: &str,
    edits: &[Replacement<'_>],
    stop: &CancellationToken,
) -> Result<(String, String), CallError> {
    let unfit = |why: String| Err(CallError::Unfit(format!("Nothing was changed: {why}")));
    let text = PlainText::new(raw);
    let matcher = Matcher::new(text.text());
    let plains: Vec<_> = edits.iter().map(|edit| (plain(edit.old), plain(edit.new))).collect();
    let mut placed: Vec<Placed> = Vec::with_capacity(edits.len());
    let mut notes = String::new();
    for ((number, edit), (old, new)) in (1usize..).zip(edits).zip(&plains) {
        if stop.is_cancelled() {
            return Err(CallError::Ended);
        }
        if old.is_empty() {
            return unfit(format!(
                "the old text of edit {number} is empty, and the file is not; say what is to be replaced."
            ));
        }
        if old == new {
            return unfit(format!("the old and the new text of edit {number} are the same."));
        }
        let before = edits.iter().take(number.saturating_sub(1));
        if let Some(twin) = before.zip(1usize..).find_map(|(other, twin)| (other == edit).then_some(twin)) {
            notes.push_str(&format!(" The edits {twin} and {number} are the same and were made once."));
            continue;
        }
        check_placeholders(number, new, text.text())?;
        match matcher.find(old, new, edit.all) {
            Ok(places) => placed.extend(places.into_iter().map(|place| Placed { number, place })),
            Err(Miss::Several { step, count, lines }) => {
                let lines = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
                let how = match step {
                    Step::Exact => String::new(),
                    step => format!(" but for its {}", step.name()),
                };
                return unfit(format!(
                    "the old text of edit {number} stands in the file {count} times{how} (lines {lines}); give more of its \
                     surroundings, or set replace_all if each exact place is meant."
                ));
            }
            Err(Miss::Indentation(line)) => {
                return unfit(format!(
                    "the old text of edit {number} fits but for its indentation, and the file has none that the new line \
                     {:?} could take; send both texts with the file's own indentation.",
                    cut(&line, TOOL_LINE_BYTES)
                ));
            }
            Err(Miss::Nowhere) => {
                let others = (1..).zip(&plains).filter(|(other, _)| *other != number);
                let others = others.map(|(other, (_, new))| (other, new.as_ref())).collect();
                let why = near::explain(&matcher, text.text(), &near::Missed { old, new, others });
                return unfit(format!("the old text of edit {number} is not in the file.{why}"));
            }
        }
    }
    placed.sort_by_key(|placed| placed.place.range.start);
    for pair in placed.windows(2) {
        if let [one, other] = pair
            && other.place.range.start < one.place.range.end
        {
            let (one, other) = (one.number.min(other.number), one.number.max(other.number));
            return unfit(format!("edits {one} and {other} overlap; join them."));
        }
    }
    let (new, places) = rebuilt(&text, &placed);
    Ok((new, report(&places) + &notes))
}

/// A place after the edit.
struct Made<'p> {
    placed: &'p Placed,
    /// The numbers of the first and the last line that have changed.
    lines: (usize, usize),
    /// Those lines.
    text: Vec<String>,
}

/// The text with all places replaced.
fn rebuilt<'p>(text: &PlainText<'_>, placed: &'p [Placed]) -> (String, Vec<Made<'p>>) {
    let mut result = text.mark().to_owned();
    let mut made = Vec::with_capacity(placed.len());
    let (mut from, mut number, mut counted) = (0usize, 1usize, 0usize);
    for placed in placed {
        let Place { range, lines, .. } = &placed.place;
        result.push_str(text.raw_part(from, range.start));
        number = number.saturating_add(line_ends(&result, counted));
        let ends = Ends::new(text, &placed.place);
        let is_new = |line: &NewLine| matches!(line, NewLine::Text(_));
        let first = lines.iter().position(is_new).unwrap_or(0);
        let last = lines.iter().rposition(is_new).unwrap_or(first);
        let mut shown = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let line = match line {
                NewLine::Kept(range) => text.raw_part(range.start, range.end),
                NewLine::Text(line) => line,
            };
            result.push_str(line);
            if (first..=last).contains(&at) && shown.len() < NEAR_LINES {
                shown.push(line.to_owned());
            }
            if at.saturating_add(1) < lines.len() {
                result.push_str(ends.after(at));
            }
        }
        // The empty text behind a last line end is no line of its own.
        let last =
            if last > first && lines.get(last).is_some_and(|line| *line == NewLine::Text(String::new())) {
                last.saturating_sub(1)
            } else {
                last
            };
        made.push(Made {
            placed,
            lines: (number.saturating_add(first), number.saturating_add(last)),
            text: shown,
        });
        counted = result.len();
        number = number.saturating_add(lines.len().saturating_sub(1));
        from = range.end;
    }
    result.push_str(text.raw_part(from, text.text().len()));
    (result, made)
}

fn line_ends(text: &str, from: usize) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes().get(from..).unwrap_or_default()).count()
}

/// The ends of the new lines of a place.
struct Ends {
    /// Those of the lines that were there.
    old: Vec<&'static str>,
    /// How many new lines there are.
    count: usize,
    /// How many lines at the start and at the end are those that were there.
    shared: (usize, usize),
    /// That of a new line for which none was there.
    usual: &'static str,
}

impl Ends {
    fn new(text: &PlainText<'_>, place: &Place) -> Self {
        let old = text.ends_in(place.range.start, place.range.end);
        // The first line that is replaced is the one behind those that stay, if there is one.
        let last_kept = place.shared.0.checked_sub(1).and_then(|last| place.lines.get(last));
        let first = match last_kept {
            Some(NewLine::Kept(range)) if place.shared.0 <= old.len() => range.end.saturating_add(1),
            Some(NewLine::Kept(range)) => range.start,
            _ => place.range.start,
        };
        let usual = text.end_at(first).unwrap_or_else(|| text.usual_end());
        Self { count: place.lines.len(), shared: place.shared, usual, old }
    }

    /// The end between a new line and the next one.
    fn after(&self, at: usize) -> &'static str {
        let from_end = self.count.saturating_sub(at);
        // Where each line has one that it replaces, it takes its end.
        let there = if self.old.len().saturating_add(1) == self.count || at < self.shared.0 {
            self.old.get(at)
        } else if from_end <= self.shared.1 {
            self.old.len().checked_sub(from_end.saturating_sub(1)).and_then(|at| self.old.get(at))
        } else {
            None
        };
        there.copied().unwrap_or(self.usual)
    }
}

/// The report for the model on the places that were edited.
fn report(made: &[Made<'_>]) -> String {
    let lines = |(first, last): (usize, usize)| match first == last {
        true => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    };
    let mut told: Vec<String> = made.iter().map(|made| lines(made.lines)).collect();
    told.dedup();
    let more = told.len().saturating_sub(EDIT_LINES_SHOWN);
    if more > 0 {
        told.truncate(EDIT_LINES_SHOWN);
        told.push(format!("and {more} more"));
    }
    let count = if made.len() > 1 { format!(" ({} places)", made.len()) } else { String::new() };
    let mut text = format!("{}{count}.", told.join("; "));
    for made in made.iter().filter(|made| made.placed.place.step != Step::Exact) {
        text.push_str(&format!(
            "\nThe old text of edit {} fitted but for its {}; {} of the file are now:",
            made.placed.number,
            made.placed.place.step.name(),
            lines(made.lines)
        ));
        for (number, line) in (made.lines.0..).zip(&made.text) {
            text.push_str(&format!("\n{number:>6}\t{}", cut(line, TOOL_LINE_BYTES)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FileEdit;
    use crate::tool::NoneOpen;
    use proptest::prelude::*;

    fn applied(text: &str, edits: &[(&str, &str)]) -> Result<(String, String), CallError> {
        let edits: Vec<_> = edits.iter().map(|(old, new)| Replacement { old, new, all: false }).collect();
        apply(text, &edits, &CancellationToken::new())
    }

    #[test]
    fn new_lines_take_the_end_of_those_that_they_replace() {
        for (text, old, new, expected) in [
            ("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n"),
            ("a\r\nb\nc\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\nc\n"),
            ("a\r\nx\nb\r\nc\n", "a\nx\nb\nc", "a\nb\nc", "a\r\nb\r\nc\n"),
            ("a\nb\r\nc\r\n", "b", "b\nb2", "a\nb\r\nb2\r\nc\r\n"),
            ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
            ("\u{feff}a\r\n", "a\n", "b\r\nc\n", "\u{feff}b\r\nc\r\n"),
        ] {
            assert_eq!(applied(text, &[(old, new)]).unwrap().0, expected, "{text:?}");
        }
    }

    #[test]
    fn report_names_the_lines_and_shows_those_of_a_looser_step() {
        let told = |text: &str, edits: &[(&str, &str)]| applied(text, edits).unwrap().1;
        assert_eq!(told("a\nb\nc\n", &[("b", "B\nB2")]), "lines 2 to 3.");
        assert_eq!(told("a\nb\nc\n", &[("c\n", "C\n"), ("a\n", "")]), "line 1; line 2 (2 places).");
        let loose = told("f {\n    g\n}\n", &[("f {\n\tg\n}", "f {\n\th\n}")]);
        assert_eq!(
            loose,
            "line 2.\nThe old text of edit 1 fitted but for its indentation; line 2 of the file are now:\n     2\t    h"
        );
        let all = Replacement { old: "x", new: "y", all: true };
        let (text, told) = apply("x x\nx\n", &[all, all], &CancellationToken::new()).unwrap();
        assert_eq!(text, "y y\ny\n");
        assert_eq!(told, "line 1; line 2 (3 places). The edits 1 and 2 are the same and were made once.");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is replaced, the bytes outside it are unchanged, and the reverse gives the same text.
        #[test]
        fn edit_changes_its_place_alone_and_can_be_reversed(
            mark in "\u{feff}?",
            lines in prop::collection::vec(("[ab “é]{0,4}", any::<bool>()), 1..8),
            ends in 0usize..3,
            (from, count) in (0usize..8, 1usize..4),
            new in prop::collection::vec("[xy][xy ”]{0,2}", 4),
        ) {
            let end = |is_crlf: bool| if ends == 0 || (ends == 2 && is_crlf) { "\r\n" } else { "\n" };
            let numbered: Vec<(String, &str)> =
                lines.iter().enumerate().map(|(n, (line, crlf))| (format!("{n}{line}"), end(*crlf))).collect();
            let from = from.min(numbered.len() - 1);
            let count = count.min(numbered.len() - from);
            let join = |lines: &[(String, &str)]| lines.iter().map(|(line, end)| format!("{line}{end}")).collect::<String>();
            let text = mark.clone() + &join(&numbered);
            let old: String = numbered[from..from + count].iter().map(|(line, _)| format!("{line}\n")).collect();
            let new: String = new[..count].iter().map(|line| format!("{line}\n")).collect();
            let (changed, _) = applied(&text, &[(&old, &new)]).unwrap();
            let (before, after) = (mark + &join(&numbered[..from]), join(&numbered[from + count..]));
            prop_assert!(changed.starts_with(&before) && changed.ends_with(&after), "{changed:?}");
            let middle = &changed[before.len()..changed.len() - after.len()];
            prop_assert_eq!(middle.replace("\r\n", "\n"), new.clone());
            if changed.replace("\r\n", "\n").matches(&new).count() == 1 {
                let (back, _) = applied(&changed, &[(&new, &old)]).unwrap();
                prop_assert_eq!(back, text);
            }
        }
    }

    #[test]
    fn replacements_are_exact_and_all_or_none() {
        let text = "one two\nthree two\naaa\n";
        for (edits, expected) in [
            (&[("one", "1")][..], Ok("1 two\nthree two\naaa\n")),
            (&[("three", "3"), ("one", "1")], Ok("1 two\n3 two\naaa\n")),
            (&[("one two\nthree", "x")], Ok("x two\naaa\n")),
            (&[("one", "three"), ("three", "one")], Ok("three two\none two\naaa\n")),
            (&[("two", "2")], Err("2 times (lines 1, 2)")),
            (&[("aa", "b")], Err("2 times (lines 3)")),
            (&[("four", "4")], Err("not in the file")),
            (&[("", "4")], Err("empty")),
            (&[("one", "one")], Err("are the same")),
            (&[("one two", "x"), ("two\nthree", "y")], Err("overlap")),
            (&[("one", "1"), ("four", "4")], Err("edit 2 is not in the file")),
        ] {
            match (applied(text, edits), expected) {
                (Ok((found, _)), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
                (found, expected) => panic!("{edits:?}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn made_edit_has_whole_old_and_new_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a.txt");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let arguments = crate::edn::read_one(br#"{:edits [{:old "one" :new "1"}]}"#).unwrap();
        let site = Site { cwd: dir.path(), open: &NoneOpen, stop: &CancellationToken::new(), judged: None };
        let made = edit(&path, &arguments, site, &|_| Ok(()), &|| true).unwrap().0.edit;
        assert_eq!(
            made,
            FileEdit { path, old: Some("one\ntwo\n".into()), new: "1\ntwo\n".into(), bytes: None }
        );
    }

    #[test]
    fn judged_file_is_looked_at_wherever_the_path_leads_now() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::write(folder.join("judged"), "inside").unwrap();
        std::fs::write(folder.join("secret"), "outside").unwrap();
        std::os::unix::fs::symlink("secret", folder.join("a")).unwrap();
        let arguments = crate::edn::read_one(br#"{:path "a" :edits [{:old "outside" :new "x"}]}"#).unwrap();
        let judged = folder.join("judged");
        let stop = CancellationToken::new();
        let site = Site { cwd: &folder, open: &NoneOpen, stop: &stop, judged: Some(&judged) };
        for refused in [Edit.plan(site, &arguments).err(), Edit.propose(site, &arguments).err()] {
            let told = refused.unwrap().to_string();
            assert!(told.contains("is not in the file"), "{told}");
        }
    }

    #[test]
    fn edits_are_bounded_and_end_when_told() {
        let stop = CancellationToken::new();
        stop.cancel();
        let one = Replacement { old: "one", new: "1", all: false };
        assert!(matches!(apply("one", &[one], &stop), Err(CallError::Ended)));
        let edit = || Value::from(crate::value::Map::new().with("old", "a").with("new", "b"));
        let many = Value::vector((0..=EDITS).map(|_| edit()));
        let arguments = Value::from(crate::value::Map::new().with("path", "x").with("edits", many));
        let error =
            edited(Path::new("/none"), &arguments, &NoneOpen, &CancellationToken::new()).err().unwrap();
        assert!(error.to_string().contains("at most 1000"), "{error}");
    }
}
