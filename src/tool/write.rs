//! `write`: a file's whole content. Also how every tool puts a file in place.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::diff::unified;
use super::permission::Access;
use super::{Context, Outcome, Plan, Running, Tool, spec, target, text};
use crate::limits::TOOL_FILE_BYTES;
use crate::provider::ToolSpec;
use crate::value::Value;

pub(super) struct Write;

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        spec(
            "write",
            "Writes a file, in place of what is there. Folders are made as needed. To change a part, use edit.",
            &[
                ("path", "string", "The file, relative to the session's folder.", true),
                ("content", "string", "The whole content.", true),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        format!("write {}", arguments.get("path").and_then(Value::as_str).unwrap_or("?"))
    }

    fn plan(&self, cwd: &Path, arguments: &Value<'_>) -> Result<Plan, String> {
        let content = text(arguments, "content")?;
        let path = target(cwd, arguments, true)?;
        let old = read_text(&path)?;
        let diff = unified(old.as_deref().unwrap_or_default(), content, &super::path::shown(&path, cwd));
        Ok(Plan { access: Access::Write(path), diff: Some(diff) })
    }

    fn run<'a>(&'a self, context: &'a Context, plan: &'a Plan, arguments: &'a Value<'static>) -> Running<'a> {
        Box::pin(async move {
            let (Access::Write(path), Ok(content)) = (plan.access.clone(), text(arguments, "content")) else {
                return Outcome::failed("Nothing to write.");
            };
            let (content, diff) = (content.to_owned(), plan.diff.clone());
            super::blocking(&context.stop, move || match replace(&path, content.as_bytes()) {
                Ok(()) => {
                    let mut outcome =
                        Outcome::ok(format!("Wrote {} ({} bytes).", path.display(), content.len()));
                    outcome.details.put("path", path.to_string_lossy().into_owned());
                    outcome.details.put_some("diff", diff);
                    outcome
                }
                Err(error) => Outcome::failed(format!("{} cannot be written: {error}.", path.display())),
            })
            .await
        })
    }
}

/// The text of a file; `None` where there is none.
///
/// # Errors
/// When it cannot be read, is no text, or is too large to be changed as a whole.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, String> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}.", path.display())),
    };
    if !found.is_file() {
        return Err(format!("{} is no regular file.", path.display()));
    }
    if found.len() > TOOL_FILE_BYTES {
        return Err(format!("{} has {} bytes; that is too large to change.", path.display(), found.len()));
    }
    let bytes =
        std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}.", path.display()))?;
    String::from_utf8(bytes).map(Some).map_err(|_| format!("{} is no UTF-8 text.", path.display()))
}

/// Puts a file in place in one step: a reader sees the old content or the new, never a part. Keeps the
/// permissions of what was there.
pub(super) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    // What is made here must be where it was judged to be, also if a link was put in the way since.
    if folder.canonicalize()? != folder {
        return Err(std::io::Error::other("its folder leads elsewhere since it was checked"));
    }
    let mode = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Some(found.permissions().mode() & 0o7777),
        Ok(_) => return Err(std::io::Error::other("it is no regular file")),
        Err(_) => None,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}.new", std::process::id()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode.unwrap_or(0o666))
        .open(&beside)
        .and_then(|mut file| {
            if let Some(mode) = mode {
                file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            }
            file.write_all(content)
        })
        .and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
