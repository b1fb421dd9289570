//! `find`: files by their name. Reads no file's content.

use std::path::Path;

use super::error::CallError;
use super::permission::Access;
use super::search::CUT;
use super::walk::Walk;
use super::{CallFuture, Context, Outcome, Plan, Site, Tool, spec, target, text};
use crate::glob;
use crate::limits::SEARCH_MATCHES;
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Find;

impl Tool for Find {
    fn spec(&self) -> ToolSpec {
        spec(
            "find",
            "Finds files by a glob, such as *.rs or src/**/test_*.py. Leaves out what the ignore files of the \
             project name.",
            &[
                ("glob", "string", "The glob.", true),
                ("path", "string", "The folder; without it, the session's folder.", false),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        let part = |key| arguments.get(key).and_then(Value::as_str);
        let place = part("path").map(|path| format!(" in {path}")).unwrap_or_default();
        format!("find {}{place}", part("glob").unwrap_or("?"))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        glob::only(site.cwd, Some(text(arguments, "glob")?))?;
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
                find(&context, &path, &arguments).unwrap_or_else(Outcome::failed)
            })
            .await
        })
    }
}

fn find(context: &Context, path: &Path, arguments: &Value<'_>) -> Result<Outcome, CallError> {
    if !path.is_dir() {
        return Err(CallError::Unfit(format!("{} is no folder.", path.display())));
    }
    let mut lines = String::new();
    let mut files = 0usize;
    let mut walk = Walk::new(path, Some(text(arguments, "glob")?), &context.barred, &context.stop)?;
    for entry in walk.by_ref() {
        if files >= SEARCH_MATCHES {
            lines.push_str(&format!("[… more than {SEARCH_MATCHES} files: make the glob narrower …]\n"));
            break;
        }
        lines.push_str(&super::path::shown(&entry.path, &context.cwd));
        lines.push('\n');
        files = files.saturating_add(1);
    }
    if files == 0 {
        lines.push_str("[no files]");
    }
    if walk.cut > 0 {
        lines.push_str(CUT);
    }
    let mut outcome = Outcome::kept(context.outputs.keep(context.handle.clone(), &lines));
    outcome.details.put("files", Value::from(files));
    Ok(outcome)
}
