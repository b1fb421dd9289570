//! `edit`: exact replacements in a file, several at once, all or none. Does not judge the path, and does not write:
//! `write` does.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::permission::Access;
use super::write::{MadeChange, OpenText, changing, proposed, tell_diff, write_revision};
use super::{
    CallFuture, Changing, Context, DIGEST, OpenFiles, Outcome, Plan, Proposal, Revision, Site, Tool, judged,
    spec, target,
};
use crate::diff::unified;
use crate::limits::{EDIT_ATTEMPTS, EDITS};
use crate::provider::ToolSpec;
use crate::sha256;
use crate::value::{Map, Value};

pub(super) struct Edit;

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        spec(
            "edit",
            "Replaces texts in a file. Each old text must stand in the file exactly once, character for \
             character; give more of its surroundings where it does not. All replacements are made, or none.",
            &[
                ("path", "string", "The file, relative to the session's folder.", true),
                ("edits", "edits", "The replacements; each old text as it stands in the file now.", true),
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
        let (old, new) = edited(&path, arguments, site.open, site.stop)?;
        Ok(Plan {
            diff: Some(unified(old.text(), &new, &super::path::shown(&path, site.cwd))),
            access: Access::Write(path),
        })
    }

    fn propose(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<(Plan, Option<Proposal>), CallError> {
        let path = judged(site, arguments)?;
        let (old, new) = edited(&path, arguments, site.open, site.stop)?;
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
                let MadeChange { edit, note } = match edit(&path, &arguments, site, &*note, go) {
                    Ok(replaced) => replaced,
                    Err(error) => return Outcome::not_changed(error),
                };
                let places = arguments.get("edits").and_then(Value::as_slice).map_or(0, <[_]>::len);
                let mut outcome =
                    Outcome::ok(format!("Edited {} ({places} replacements).{note}", path.display()));
                let before = edit.old.as_deref().unwrap_or_default();
                outcome.details.put("path", path.to_string_lossy().into_owned());
                let digest = sha256::hex(&*edit.new);
                if open.changed(&path, &sha256::hex(before), digest.clone()) {
                    outcome.details.put(DIGEST, digest);
                }
                let diff = unified(before, &edit.new, &super::path::shown(&path, &cwd));
                tell_diff(&mut outcome, &diff, &outputs, &handle);
                outcome.edit = Some(Arc::new(edit));
                outcome
            })
            .await
        })
    }
}

/// Makes the edits and returns both texts. Starts again if somebody else changes the file.
fn edit(
    path: &Path,
    arguments: &Value<'_>,
    site: Site<'_>,
    note: &Changing,
    go: &dyn Fn() -> bool,
) -> Result<MadeChange, CallError> {
    let mut attempt = 1;
    loop {
        let (old, new) = edited(path, arguments, site.open, site.stop)?;
        match old.replace(new, note, go) {
            Ok(replaced) => return Ok(replaced),
            Err(CallError::Changed) if attempt < EDIT_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The file, and its text after the edits.
fn edited<'p>(
    path: &'p Path,
    arguments: &Value<'_>,
    open: &'p dyn OpenFiles,
    stop: &CancellationToken,
) -> Result<(OpenText<'p>, String), CallError> {
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
    let edits: Vec<(&str, &str)> = edits
        .iter()
        .map(|edit| {
            let text = |key| edit.get(key).and_then(Value::as_str);
            Some((text("old")?, text("new")?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            CallError::Unfit("Each of the edits must have a text old and a text new.".to_owned())
        })?;
    let old = OpenText::at(path, open)?;
    if !old.exists() {
        return Err(CallError::Missing { path: path.to_owned(), hint: "; make it with write" });
    }
    let new = apply(old.text(), &edits, stop)?;
    Ok((old, new))
}

/// Makes all replacements in one pass over the original text. Ends early with the call.
fn apply(text: &str, edits: &[(&str, &str)], stop: &CancellationToken) -> Result<String, CallError> {
    let unfit = |why: String| Err(CallError::Unfit(why));
    let mut places = Vec::with_capacity(edits.len());
    for (number, (old, new)) in (1..).zip(edits) {
        if stop.is_cancelled() {
            return Err(CallError::Ended);
        }
        if old.is_empty() {
            return unfit(format!("Edit {number} has an empty old text; say what is to be replaced."));
        }
        if old == new {
            return unfit(format!("Edit {number} changes nothing: old and new are the same."));
        }
        let finder = memchr::memmem::Finder::new(old);
        let Some(at) = finder.find(text.as_bytes()) else {
            let hint = match text.contains('\r') {
                true => " The file has \\r\\n line ends.",
                false => "",
            };
            return unfit(format!(
                "The old text of edit {number} is not in the file; read it and copy it exactly.{hint}"
            ));
        };
        // From the next byte on, so that a match that overlaps the first counts too.
        let after = text.as_bytes().get(at.saturating_add(1)..).unwrap_or_default();
        if finder.find(after).is_some() {
            return unfit(format!(
                "The old text of edit {number} stands in the file more than once; give more of its surroundings."
            ));
        }
        places.push((at, number, *old, *new));
    }
    places.sort_unstable_by_key(|(at, ..)| *at);
    let mut result = String::with_capacity(text.len());
    let mut from = 0usize;
    let mut last = 0;
    for (at, number, old, new) in places {
        let Some(between) = text.get(from..at) else {
            return unfit(format!("Edits {last} and {number} overlap; join them."));
        };
        result.push_str(between);
        result.push_str(new);
        from = at.saturating_add(old.len());
        last = number;
    }
    result.push_str(text.get(from..).unwrap_or_default());
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FileEdit;
    use crate::tool::NoneOpen;

    #[test]
    fn replacements_are_exact_and_all_or_none() {
        let text = "one two\nthree two\naaa\n";
        for (edits, expected) in [
            (&[("one", "1")][..], Ok("1 two\nthree two\naaa\n")),
            (&[("three", "3"), ("one", "1")], Ok("1 two\n3 two\naaa\n")),
            (&[("one two\nthree", "x")], Ok("x two\naaa\n")),
            (&[("one", "three"), ("three", "one")], Ok("three two\none two\naaa\n")),
            (&[("two", "2")], Err("more than once")),
            (&[("aa", "b")], Err("more than once")),
            (&[("four", "4")], Err("not in the file")),
            (&[("", "4")], Err("empty")),
            (&[("one", "one")], Err("changes nothing")),
            (&[("one two", "x"), ("two\nthree", "y")], Err("overlap")),
            (&[("one", "1"), ("four", "4")], Err("edit 2 is not in the file")),
        ] {
            match (apply(text, edits, &CancellationToken::new()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
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
        let made = edit(&path, &arguments, site, &|_| Ok(()), &|| true).unwrap().edit;
        assert_eq!(made, FileEdit { path, old: Some("one\ntwo\n".into()), new: "1\ntwo\n".into() });
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
        assert!(matches!(apply("one", &[("one", "1")], &stop), Err(CallError::Ended)));
        let edit = || Value::from(crate::value::Map::new().with("old", "a").with("new", "b"));
        let many = Value::vector((0..=EDITS).map(|_| edit()));
        let arguments = Value::from(crate::value::Map::new().with("path", "x").with("edits", many));
        let error =
            edited(Path::new("/none"), &arguments, &NoneOpen, &CancellationToken::new()).err().unwrap();
        assert!(error.to_string().contains("at most 1000"), "{error}");
    }
}
