//! `find`: files by their name. Reads no file's content.

use std::path::Path;

use super::error::CallError;
use super::near_names::explained;
use super::permission::Access;
use super::walk::{Selection, Walk};
use super::{CallFuture, Context, Outcome, Plan, Site, Tool, flag, optional_text, spec, target, text};
use crate::glob::FileGlob;
use crate::limits::{FOUND_FILES, SEARCH_MATCHES};
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Find;

impl Tool for Find {
    fn spec(&self) -> ToolSpec {
        spec(
            super::FIND,
            "Finds files by a glob, such as *.rs, src or src/**/test_*.py; the newest come first. Leaves out hidden \
             files and what the ignore files of the project name, and says how many.",
            &[
                ("glob", "string", "The glob.", true),
                ("path", "string", "The folder; without it, the session's folder.", false),
                ("hidden", "boolean", "Whether to include hidden files.", false),
                ("ignored", "boolean", "Whether to include what ignore files name.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        let part = |key| arguments.get(key).and_then(Value::as_str);
        let place = part("path").map(|path| format!(" in {path}")).unwrap_or_default();
        format!("find {}{place}", part("glob").unwrap_or("?"))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        selection(site.cwd, arguments)?;
        text(arguments, "glob")?;
        Ok(Plan { access: Access::Read(target(site.cwd, arguments, false)?), diff: None })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let Access::Read(path) = plan.access.clone() else { return Outcome::failed("Nowhere to look.") };
            let (arguments, context) = (arguments.clone(), context.clone());
            super::blocking(&context.stop.clone(), move || {
                find(&context, &path, &arguments).unwrap_or_else(|error| {
                    Outcome::failed(explained(error, &context.cwd, &context.barred, &context.stop))
                })
            })
            .await
        })
    }
}

/// Which files a call means.
pub(super) fn selection(folder: &Path, arguments: &Value<'_>) -> Result<Selection, CallError> {
    let glob = optional_text(arguments, "glob")?.map(|glob| FileGlob::new(folder, glob)).transpose()?;
    Ok(Selection { glob, hidden: flag(arguments, "hidden")?, ignored: flag(arguments, "ignored")? })
}

/// Paths, those of the files that were changed last first.
pub(super) fn newest_first(mut files: Vec<(i64, String)>) -> Vec<String> {
    files.sort_by(|(time, path), (other, other_path)| other.cmp(time).then_with(|| path.cmp(other_path)));
    files.into_iter().map(|(_, path)| path).collect()
}

fn find(context: &Context, path: &Path, arguments: &Value<'_>) -> Result<Outcome, CallError> {
    if path.symlink_metadata().is_err() {
        return Err(CallError::Missing { path: path.to_owned(), hint: "".into() });
    }
    if !path.is_dir() {
        return Err(CallError::Unfit(format!("{} is no folder.", path.display())));
    }
    let mut walk = Walk::new(path, selection(path, arguments)?, &context.barred, &context.stop)?;
    let files = walk.by_ref().take(FOUND_FILES);
    let files = files.map(|file| (file.changed(), super::path::shown(&file.path, &context.cwd))).collect();
    let files = newest_first(files);
    let mut lines = String::new();
    for file in files.iter().take(SEARCH_MATCHES) {
        lines.push_str(file);
        lines.push('\n');
    }
    match files.len() {
        0 => lines.push_str("[no files]\n"),
        FOUND_FILES => lines.push_str(&format!(
            "[… the newest {SEARCH_MATCHES} of the first {FOUND_FILES} files: make the glob narrower …]\n"
        )),
        all if all > SEARCH_MATCHES => lines
            .push_str(&format!("[… the newest {SEARCH_MATCHES} of {all} files: make the glob narrower …]\n")),
        _ => {}
    }
    lines.push_str(&walk.left_out());
    let mut outcome = Outcome::kept(context.outputs.keep(context.handle.clone(), &lines));
    outcome.details.put("files", Value::from(files.len().min(SEARCH_MATCHES)));
    Ok(outcome)
}
