//! `edit`: exact replacements in a file, several at once, all or none.

use std::path::Path;

use super::diff::unified;
use super::permission::Access;
use super::write::{read_text, replace};
use super::{Context, Outcome, Plan, Running, Tool, spec, target};
use crate::provider::ToolSpec;
use crate::value::Value;

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

    fn plan(&self, cwd: &Path, arguments: &Value<'_>) -> Result<Plan, String> {
        let path = target(cwd, arguments, true)?;
        let (old, new) = edited(&path, arguments)?;
        Ok(Plan {
            diff: Some(unified(&old, &new, &super::path::shown(&path, cwd))),
            access: Access::Write(path),
        })
    }

    fn run<'a>(&'a self, context: &'a Context, plan: &'a Plan, arguments: &'a Value<'static>) -> Running<'a> {
        Box::pin(async move {
            let Access::Write(path) = plan.access.clone() else { return Outcome::failed("Nothing to edit.") };
            let (arguments, cwd) = (arguments.clone(), context.cwd.clone());
            super::blocking(&context.stop, move || {
                // The file as it is now: it may have changed while the person was asked.
                let (old, new) = match edited(&path, &arguments) {
                    Ok(both) => both,
                    Err(error) => return Outcome::failed(error),
                };
                if let Err(error) = replace(&path, new.as_bytes()) {
                    return Outcome::failed(format!("{} cannot be written: {error}.", path.display()));
                }
                let places = arguments.get("edits").and_then(Value::as_slice).map_or(0, <[_]>::len);
                let mut outcome = Outcome::ok(format!("Edited {} ({places} replacements).", path.display()));
                outcome.details.put("path", path.to_string_lossy().into_owned());
                outcome.details.put("diff", unified(&old, &new, &super::path::shown(&path, &cwd)));
                outcome
            })
            .await
        })
    }
}

/// The file's text before and after.
fn edited(path: &Path, arguments: &Value<'_>) -> Result<(String, String), String> {
    let edits = arguments
        .get("edits")
        .and_then(Value::as_slice)
        .filter(|edits| !edits.is_empty())
        .ok_or("The argument edits must be a list of one or more {old, new}.")?;
    let edits: Vec<(&str, &str)> = edits
        .iter()
        .map(|edit| {
            let text = |key| edit.get(key).and_then(Value::as_str);
            Some((text("old")?, text("new")?))
        })
        .collect::<Option<_>>()
        .ok_or("Each of the edits must have a text old and a text new.")?;
    let old =
        read_text(path)?.ok_or_else(|| format!("{} does not exist; make it with write.", path.display()))?;
    let new = apply(&old, &edits)?;
    Ok((old, new))
}

/// Makes all replacements in one pass over the text as it was.
fn apply(text: &str, edits: &[(&str, &str)]) -> Result<String, String> {
    let mut places = Vec::with_capacity(edits.len());
    for (number, (old, new)) in (1..).zip(edits) {
        if old.is_empty() {
            return Err(format!("Edit {number} has an empty old text; say what is to be replaced."));
        }
        if old == new {
            return Err(format!("Edit {number} changes nothing: old and new are the same."));
        }
        let finder = memchr::memmem::Finder::new(old);
        let at = finder.find(text.as_bytes()).ok_or_else(|| {
            let hint = match text.contains('\r') {
                true => " The file has \\r\\n line ends.",
                false => "",
            };
            format!("The old text of edit {number} is not in the file; read it and copy it exactly.{hint}")
        })?;
        // From the next byte on, so that a match that overlaps the first counts too.
        let after = text.as_bytes().get(at.saturating_add(1)..).unwrap_or_default();
        if finder.find(after).is_some() {
            return Err(format!(
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
        let between =
            text.get(from..at).ok_or_else(|| format!("Edits {last} and {number} overlap; join them."))?;
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
    use super::apply;

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
            match (apply(text, edits), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{edits:?}: {found:?}, expected {expected:?}"),
            }
        }
    }
}
