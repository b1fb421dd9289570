//! `write`: a file's whole content. Also how every tool changes a file: alone, until the moment in which the call may
//! no longer be ended.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::output::{KeptOutput, Outputs};
use super::permission::Access;
use super::placeholder;
use super::text_file::{self, DecodedText, TextFormat};
use super::{
    CallFuture, Changing, Context, DIGEST, EditorChange, OpenFiles, Outcome, Plan, Proposal, Revision,
    SeenText, Site, Tool, judged, spec, target, text,
};
use crate::diff::{GOES_ON, cut, unified};
use crate::event::{FileBytes, FileEdit};
use crate::files::{self, FilePlace, FileRead, ReplaceError, Rights};
use crate::limits::{PLACING_GRACE, PROPOSAL_BYTES, TOOL_FILE_BYTES, TOOL_LINE_BYTES};
use crate::provider::ToolSpec;
use crate::sha256;
use crate::value::Value;
use crate::visible;

pub(super) struct Write;

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        spec(
            super::WRITE,
            "Writes a file, in place of what is there, which must have been read before. Folders are made as needed. \
             A file that is there keeps its line ends and its encoding. To change a part, use edit.",
            &[
                ("path", "string", "The file, relative to the session's folder.", true),
                ("content", "string", "The whole content.", true),
            ],
        )
    }

    fn summary(&self, arguments: &Value<'_>) -> String {
        format!("write {}", arguments.get("path").and_then(Value::as_str).unwrap_or("?"))
    }

    fn access(&self, site: Site<'_>, arguments: &Value<'_>) -> Option<Result<Access, CallError>> {
        Some(target(site.cwd, arguments, true).map(Access::Write))
    }

    fn plan(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<Plan, CallError> {
        let content = text(arguments, "content")?;
        let path = judged(site, arguments)?;
        let (old, content) = OpenText::at(&path, site.open)?.with_content(content)?;
        let diff = unified(old.text(), &content, &super::path::shown(&path, site.cwd));
        Ok(Plan { access: Access::Write(path), diff: Some(diff) })
    }

    fn propose(&self, site: Site<'_>, arguments: &Value<'_>) -> Result<(Plan, Option<Proposal>), CallError> {
        let content = text(arguments, "content")?;
        let path = judged(site, arguments)?;
        let (old, content) = OpenText::at(&path, site.open)?.with_content(content)?;
        Ok(proposed(&old, &content, site.cwd))
    }

    fn revised(&self, arguments: &Value<'static>, revision: &Revision) -> Value<'static> {
        let mut arguments = arguments.as_map().cloned().unwrap_or_default();
        arguments.put("content", revision.content.to_string());
        arguments.into()
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        plan: &'a Plan,
        arguments: &'a Value<'static>,
    ) -> CallFuture<'a> {
        Box::pin(async move {
            let (Access::Write(path), Ok(content)) = (plan.access.clone(), text(arguments, "content")) else {
                return Outcome::failed("Nothing to write.");
            };
            if let Some(revision) = &context.revision {
                return write_revision(context, path, revision.clone()).await;
            }
            let (content, diff) = (content.to_owned(), plan.diff.clone());
            let (note, open) = (context.changing.clone(), context.open.clone());
            let (outputs, handle) = (context.outputs.clone(), context.handle.clone());
            changing(&context.stop, &path.clone(), move |go| {
                let written = OpenText::at(&path, &*open).and_then(|old| {
                    let (old, content) = old.with_content(&content)?;
                    let kept = text_file::kept(&content, old.format);
                    Ok((old.replace(content, &*note, go)?, kept))
                });
                let (MadeChange { edit, note }, kept) = match written {
                    Ok(written) => written,
                    Err(error) => return Outcome::not_changed(error),
                };
                let bytes = edit.new_bytes().len();
                let text = format!("Wrote {} ({bytes} bytes).{kept}{note}", path.display());
                let mut outcome = Outcome::ok(text);
                shown_whole(&mut outcome, &*open, &edit);
                tell_diff(&mut outcome, &diff.unwrap_or_default(), &outputs, &handle);
                outcome.edit = Some(Arc::new(edit));
                outcome
            })
            .await
        })
    }
}

/// What a call would do that gives a file a text, with both texts unless a person could not edit them.
pub(super) fn proposed(old: &OpenText<'_>, new: &str, cwd: &Path) -> (Plan, Option<Proposal>) {
    let diff = unified(old.text(), new, &super::path::shown(old.path, cwd));
    let is_short = old.text().len().max(new.len()) <= PROPOSAL_BYTES;
    let proposal =
        is_short.then(|| Proposal { old: old.exists().then(|| old.text().into()), new: new.into() });
    (Plan { access: Access::Write(old.path.to_owned()), diff: Some(diff) }, proposal)
}

/// Writes what a person made of a proposal. The model gets the difference: it remembers the text that it proposed.
pub(super) async fn write_revision(context: &Context, path: PathBuf, revision: Arc<Revision>) -> Outcome {
    let (cwd, outputs, handle) = (context.cwd.clone(), context.outputs.clone(), context.handle.clone());
    let (note, open) = (context.changing.clone(), context.open.clone());
    changing(&context.stop, &path.clone(), move |go| {
        let written = OpenText::at(&path, &*open).and_then(|old| match revision.is_for(old.exists().then(|| old.text())) {
            true => old.replace(revision.content.clone(), &*note, go),
            false => Err(CallError::Stale),
        });
        let MadeChange { edit, note } = match written {
            Ok(replaced) => replaced,
            Err(error) => return Outcome::not_changed(error),
        };
        let Revision { proposal, content } = revision.as_ref();
        let shown = super::path::shown(&path, &cwd);
        let KeptOutput { text, handle: kept, size, .. } = outputs.keep(handle.clone(), &unified(&proposal.new, content, &shown));
        let mut outcome = Outcome::ok(format!(
            "Wrote {} ({} bytes).{note} The user edited your proposal before accepting it: the file has the user's text, not \
             yours. The difference between your proposal and the file:\n{text}",
            path.display(),
            edit.new_bytes().len()
        ));
        let before = proposal.old.as_deref().unwrap_or_default();
        shown_whole(&mut outcome, &*open, &edit);
        tell_diff(&mut outcome, &unified(before, content, &shown), &outputs, &handle);
        outcome.details.put("edited", true);
        if let Some(handle) = kept {
            outcome.details.put("handle", handle);
            outcome.details.put("size", Value::from(size));
        }
        outcome.edit = Some(Arc::new(edit));
        outcome
    })
    .await
}

/// Notes that the model knows the whole text of a change.
fn shown_whole(outcome: &mut Outcome, open: &dyn OpenFiles, edit: &FileEdit) {
    let digest = sha256::hex(&*edit.new);
    open.shown(&edit.path, SeenText { digest: digest.clone(), is_whole: true });
    outcome.details.put("path", edit.path.to_string_lossy().into_owned());
    outcome.details.put(DIGEST, digest);
}

/// Notes the diff of a change. Of a long one that is the start, and a handle of the whole; the call's own is taken.
pub(super) fn tell_diff(outcome: &mut Outcome, diff: &str, outputs: &Outputs, handle: &str) {
    let (shown, rest) = cut(diff);
    if rest.is_empty() {
        outcome.details.put("diff", shown.to_owned());
        return;
    }
    outcome.details.put("diff", format!("{shown}{GOES_ON}"));
    outcome.details.put("diff-size", Value::from(diff.len()));
    outcome.details.put_some("diff-handle", outputs.keep(format!("{handle}-diff"), diff).handle);
}

/// A text file to change, with its content at the time of reading.
pub(super) struct OpenText<'p> {
    path: &'p Path,
    text: Arc<str>,
    open: &'p dyn OpenFiles,
    /// How the text stands in the file.
    format: TextFormat,
    /// Whether the text is an editor's, which has unsaved changes or decodes the file.
    is_editors: bool,
    /// `None` if the folder does not exist.
    place: Option<FilePlace>,
    /// `None` if the file does not exist.
    found: Option<Box<FileRead>>,
}

/// A change that was made.
pub(super) struct MadeChange {
    pub edit: FileEdit,
    /// What the model is told if the user's editor has made another text of it; otherwise empty.
    pub note: String,
}

impl<'p> OpenText<'p> {
    /// Reads a file, which may not be there. The text of an editor counts only if it was made of what is on disk.
    ///
    /// # Errors
    /// When it cannot be read, is no text, or is too large to be changed as a whole.
    pub(super) fn at(path: &'p Path, open: &'p dyn OpenFiles) -> Result<Self, CallError> {
        let failed = |why: &dyn std::fmt::Display| CallError::File {
            path: path.to_owned(),
            action: "read",
            why: why.to_string(),
        };
        let place = FilePlace::open(path).map_err(|error| failed(&error))?;
        let found = match &place {
            Some(place) => place.read(TOOL_FILE_BYTES).map_err(|error| failed(&error))?,
            None => None,
        };
        let mut found = found.map(Box::new);
        let editors = match open.is_asked(path) {
            true => open.text(path, found.as_deref()).map_err(|why| failed(&why))?,
            false => None,
        };
        let is_editors = editors.is_some();
        let bytes = found.as_mut().map(|found| std::mem::take(&mut found.bytes)).unwrap_or_default();
        let (decoded, bytes) = text_file::decode(path, bytes);
        if let Some(found) = &mut found {
            found.bytes = bytes;
        }
        let (text, format) = match (editors, decoded) {
            (Some(text), decoded) => (text, decoded.map_or(TextFormat::UTF_8, |decoded| decoded.format)),
            // An empty file becomes what a new one is.
            (None, Some(decoded)) if decoded.text.is_empty() => ("".into(), text_file::new_format(path)),
            (None, Some(DecodedText { text, format })) => (text.into(), format),
            (None, None) => {
                return Err(failed(&"it is no text; change it with a command that knows its format"));
            }
        };
        Ok(Self { path, text, format, open, is_editors, place, found })
    }

    /// Whether there is such a file.
    pub(super) fn exists(&self) -> bool {
        self.is_editors || self.found.is_some()
    }

    /// How the text stands in the file.
    pub(super) fn format(&self) -> TextFormat {
        self.format
    }

    /// Its content; empty if there is no file.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The same, and the content in the file's form, if it may become that as a whole: nothing is lost that the model has
    /// not seen.
    ///
    /// # Errors
    /// [`CallError::Unread`]; if a line stands for code that is left out; if the encoding lacks a character.
    fn with_content(self, content: &str) -> Result<(Self, String), CallError> {
        let is_raw = self.open.writes_raw();
        let content = match self.text.is_empty() {
            _ if is_raw => content.to_owned(),
            true => text_file::new_file(self.path, content),
            false => text_file::in_form_of(&self.text, content),
        };
        let loses = !self.text.is_empty() && *self.text != *content;
        if loses && !self.open.may_replace(self.path, &sha256::hex(&*self.text)) {
            return Err(CallError::Unread(self.path.to_owned()));
        }
        if let Some(line) = placeholder::find(&content, &self.text).filter(|_| !is_raw) {
            return Err(CallError::Unfit(format!(
                "{} was not written: the line {:?} is a placeholder for left-out code. Write the whole content, or use edit.",
                self.path.display(),
                super::cut(line, TOOL_LINE_BYTES)
            )));
        }
        self.bytes_of(&content)?;
        Ok((self, content))
    }

    /// The bytes that a text would have in the file.
    ///
    /// # Errors
    /// If the encoding lacks a character of it, or what is in the file would not stay as it is.
    pub(super) fn bytes_of<'t>(&self, text: &'t str) -> Result<Cow<'t, [u8]>, CallError> {
        let failed = |why: String| CallError::File { path: self.path.to_owned(), action: "written", why };
        let name = self.format.name();
        if let Some(found) = self.found.as_ref().filter(|_| !self.format.is_utf_8() && !self.is_editors) {
            let is_same = self.format.encode(&self.text).is_ok_and(|bytes| *bytes == *found.bytes);
            if !is_same {
                return Err(failed(format!(
                    "read as {name}, some of its bytes have no character and would be lost; change it with a command"
                )));
            }
        }
        self.format.encode(text).map_err(|c| {
            failed(format!("{c:?} (U+{:04X}) has no code in the file's encoding, {name}", u32::from(c)))
        })
    }

    /// Puts a new content in its place, if nobody has changed it since. An editor that has the file open changes its
    /// text first. The change is noted before it is on disk.
    pub(super) fn replace(
        self,
        content: impl Into<Arc<str>>,
        note: &Changing,
        go: &dyn Fn() -> bool,
    ) -> Result<MadeChange, CallError> {
        let old = self.exists().then(|| self.text.clone());
        let mut edit = FileEdit { path: self.path.to_owned(), old, new: content.into(), bytes: None };
        let failed = |why: &dyn std::fmt::Display| CallError::File {
            path: self.path.to_owned(),
            action: "written",
            why: why.to_string(),
        };
        if let (Some(place), Some(found)) = (&self.place, &self.found) {
            place.may_replace(found).map_err(|error| failed(&error))?;
        }
        if let Some(owner) = self.place.as_ref().and_then(|place| other_editor(place, self.open)) {
            return Err(failed(&format!(
                "{owner} has unsaved changes in it, by the lock .#{} beside it; if that editor is gone, remove the lock",
                self.path.file_name().unwrap_or_default().to_string_lossy()
            )));
        }
        let expected = sha256::hex(&*self.text);
        let made = match self.open.change(self.path, &edit.new, &expected) {
            EditorChange::Made(made) => Some(made),
            // What the editor had is gone with it.
            EditorChange::Closed if self.is_editors => return Err(CallError::Changed),
            EditorChange::Closed => None,
            EditorChange::Changed => return Err(CallError::Changed),
            EditorChange::Failed(why) => return Err(failed(&why)),
        };
        let mut told = String::new();
        if let Some(made) = made.as_ref().filter(|made| *made.text() != edit.new) {
            if !made.is_final() {
                return Err(failed(&"a mode of the user's editor changed the text on its way"));
            }
            told = format!(
                " The user's editor made another text of it before it was saved:\n{}",
                cut(&unified(&edit.new, made.text(), &self.path.to_string_lossy())).0
            );
            edit.new = made.text().clone();
        }
        let bytes = match made.as_ref().and_then(|made| made.bytes()) {
            Some(bytes) => Cow::Borrowed(bytes),
            None => self.bytes_of(&edit.new)?,
        };
        if *bytes != *edit.new.as_bytes() || !self.format.is_utf_8() {
            // A text that an editor has not saved has no bytes yet.
            let of_text =
                || edit.old.as_deref().and_then(|old| self.format.encode(old).ok()).map(Cow::into_owned);
            let on_disk = || self.found.as_ref().map(|found| found.bytes.clone());
            let old = if self.is_editors || self.format.is_utf_8() { of_text() } else { on_disk() };
            edit.bytes = Some(Arc::new(FileBytes { old, new: bytes.to_vec() }));
        }
        let bytes = edit.new_bytes();
        note(&edit)?;
        let opened;
        let place = match &self.place {
            Some(place) => place,
            None => {
                opened = FilePlace::make(self.path).map_err(|error| failed(&error))?;
                &opened
            }
        };
        let placed = place.replace(self.found.as_deref(), bytes, Rights::Kept, go);
        let stamp = match &placed {
            Ok(stamp) => Some(*stamp),
            // It has its name, and is not safe from a failure of the power.
            Err(ReplaceError::NotOnDisk(_)) => place.stamp().ok().flatten(),
            Err(_) => None,
        };
        if let (Some(made), Some(stamp)) = (made, stamp) {
            made.written(stamp, bytes);
        }
        match placed {
            Ok(_) => Ok(MadeChange { edit, note: told }),
            Err(ReplaceError::Changed) => Err(CallError::Changed),
            Err(ReplaceError::Ended) => Err(CallError::Ended),
            Err(error @ ReplaceError::NotOnDisk(_)) => Err(CallError::Unknown(failed(&error).to_string())),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// The editor that has locked a file, as Emacs does while it has unsaved changes: a link beside it to `user@host.pid`,
/// perhaps with the time of the boot. `None` for an editor that is asked anyway, and for one that has ended.
fn other_editor(place: &FilePlace, open: &dyn OpenFiles) -> Option<String> {
    let mut name = OsString::from(".#");
    name.push(place.name());
    let lock = place.link_beside(&name)?;
    let owner = lock.split_once(':').map_or(lock.as_str(), |(owner, _)| owner);
    let (at, pid) = owner.rsplit_once('.')?;
    let (_, host) = at.rsplit_once('@')?;
    let pid = rustix::process::Pid::from_raw(pid.parse().ok()?)?;
    if open.is_own_lock(&lock) {
        return None;
    }
    let is_here = rustix::system::uname().nodename().to_bytes() == host.as_bytes();
    let has_ended = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    (!is_here || !has_ended).then(|| visible::line(owner).into_owned())
}

/// Nothing is decided yet, the file is put in place, or the call was ended before.
const OPEN: u8 = 0;
const PLACING: u8 = 1;
const CLOSED: u8 = 2;

/// Runs work that changes a file while no other call of this process changes it. An ended call changes nothing: the
/// work checks right before the change.
pub(super) async fn changing(
    stop: &CancellationToken,
    path: &Path,
    work: impl FnOnce(&dyn Fn() -> bool) -> Outcome + Send + 'static,
) -> Outcome {
    let lock = tokio::select! {
        biased;
        () = stop.cancelled() => return Outcome::failed(CallError::Ended),
        lock = files::lock(path) => lock,
    };
    let state = Arc::new(AtomicU8::new(OPEN));
    let step =
        |state: &AtomicU8, to| match state.compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == to,
        };
    let mut running = tokio::task::spawn_blocking({
        let state = state.clone();
        move || {
            let outcome = work(&|| step(&state, PLACING));
            // Held for as long as the work runs, also when nobody waits for its outcome.
            drop(lock);
            outcome
        }
    });
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        ended = &mut running => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None if step(&state, CLOSED) => return Outcome::failed(CallError::Ended),
        None => match tokio::time::timeout(PLACING_GRACE, running).await {
            Ok(ended) => ended,
            Err(_) => {
                let why =
                    "The call was ended while its file was put in place; read it to see whether it was.";
                return Outcome::not_changed(CallError::Unknown(why.to_owned()));
            }
        },
    };
    ended.unwrap_or_else(|_| Outcome::failed(CallError::Broken))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;
    use crate::tool::NoneOpen;
    use crate::value::Map;

    /// A call as the engine makes it: planned, then run.
    async fn call(name: &str, cwd: &Path, arguments: Value<'static>) -> Outcome {
        let stop = CancellationToken::new();
        let toolbox = crate::tool::toolbox::Toolbox::builtin();
        let tool = toolbox.find(name).unwrap();
        let plan = match tool.plan(Site { cwd, open: &NoneOpen, stop: &stop, judged: None }, &arguments) {
            Ok(plan) => plan,
            Err(error) => return Outcome::failed(error),
        };
        let context = Context::of_test(cwd, stop);
        tool.run(&context, &plan, &arguments).await
    }

    fn writing(path: &str, content: &str) -> Value<'static> {
        Map::new().with("path", path.to_owned()).with("content", content.to_owned()).into()
    }

    fn editing(path: &str, old: &str, new: &str) -> Value<'static> {
        let edit = Value::from(Map::new().with("old", old.to_owned()).with("new", new.to_owned()));
        Map::new().with("path", path.to_owned()).with("edits", Value::vector([edit])).into()
    }

    /// All names below a folder.
    fn names(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => found.extend(names(&entry.path())),
                false => found.push(entry.path()),
            }
        }
        found
    }

    fn threads() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn write_through_exchanged_folder_stays_inside() {
        use std::sync::atomic::AtomicBool;

        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("out"));
        std::fs::create_dir_all(inside.join("door/sub")).unwrap();
        std::fs::create_dir_all(outside.join("sub")).unwrap();
        std::fs::write(outside.join("sub/secret"), "secret").unwrap();
        std::os::unix::fs::symlink("../out", inside.join("link")).unwrap();
        let done = AtomicBool::new(false);
        let (mut written, mut read) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (door, link) = (inside.join("door"), inside.join("link"));
                while !done.load(Ordering::Acquire) {
                    renameat_with(CWD, &door, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            });
            // Until both came about, since a busy machine may exchange the two rarely.
            let begun = std::time::Instant::now();
            let is_late = || begun.elapsed() > std::time::Duration::from_secs(30);
            for number in 0.. {
                if number >= 400 && (written > 0 && read > 0 || is_late()) {
                    break;
                }
                // What was judged: the path as it leads when nothing is exchanged.
                let path = inside.join("door/sub").join(format!("evil{}", number % 20));
                let replaced = OpenText::at(&path, &NoneOpen)
                    .and_then(|old| old.replace(number.to_string(), &|_| Ok(()), &|| true));
                written += usize::from(replaced.is_ok());
                let made = inside.join(format!("door/made{number}/deep/evil"));
                let _ =
                    OpenText::at(&made, &NoneOpen).and_then(|old| old.replace("new", &|_| Ok(()), &|| true));
                let shown = crate::tool::read_file(
                    &inside.join("door/sub/secret"),
                    1,
                    None,
                    &Default::default(),
                    &|| false,
                );
                assert!(!shown.text.contains("secret\n"), "{}", shown.text);
                read += usize::from(shown.text.contains("no such file"));
                // The whole way: what is resolved and judged now may be exchanged before it is opened.
                let arguments = writing("door/sub/whole", "whole");
                let toolbox = crate::tool::toolbox::Toolbox::builtin();
                let write = toolbox.find("write").unwrap();
                let site =
                    Site { cwd: &inside, open: &NoneOpen, stop: &CancellationToken::new(), judged: None };
                if let Ok(Plan { access: Access::Write(path), .. }) = write.plan(site, &arguments)
                    && path.starts_with(&inside)
                {
                    let _ = OpenText::at(&path, &NoneOpen)
                        .and_then(|old| old.replace("whole", &|_| Ok(()), &|| true));
                }
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(names(&outside), [outside.join("sub/secret")]);
        assert!(written > 0 && read > 0, "{written} written, {read} looked for: the load was no load");
    }

    #[test]
    fn file_changed_by_others_is_edited_anew_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let old = OpenText::at(&path, &NoneOpen).unwrap();
        std::fs::write(&path, "one\nmore\ntwo\n").unwrap();
        assert!(matches!(old.replace("whole", &|_| Ok(()), &|| true), Err(CallError::Changed)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nmore\ntwo\n");
    }

    #[tokio::test]
    async fn call_that_waits_for_its_file_ends_when_told() {
        let path = Path::new("/waiting-test/file");
        let _held = files::lock(path).await;
        let stop = CancellationToken::new();
        let waiting = changing(&stop, path, |_| Outcome::ok("changed"));
        stop.cancel();
        assert_eq!(waiting.await.text, CallError::Ended.to_string());
        let stop = CancellationToken::new();
        let (told, hear) = std::sync::mpsc::channel();
        // It is ended after its work has begun and before it may change anything.
        let begun = Arc::new(tokio::sync::Notify::new());
        let ending = changing(&stop, Path::new("/waiting-test/other"), {
            let begun = begun.clone();
            move |go| {
                begun.notify_one();
                hear.recv().unwrap();
                Outcome::ok(format!("{}", go()))
            }
        });
        let (outcome, ()) = tokio::join!(ending, async {
            begun.notified().await;
            stop.cancel();
        });
        assert_eq!(outcome.text, CallError::Ended.to_string());
        told.send(()).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

        /// Several sessions edit several files at once, each call as soon as its last one is answered.
        #[test]
        fn parallel_edits_reported_as_made_are_in_the_file(
            sessions in prop::collection::vec(prop::collection::vec((0usize..3, any::<bool>()), 1..12), 2..6)
        ) {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for file in 0..3 {
                std::fs::write(root.join(format!("f{file}")), "END\n").unwrap();
            }
            let runtime = threads();
            let made = runtime.block_on(async {
                let mut running = tokio::task::JoinSet::new();
                for (session, steps) in sessions.into_iter().enumerate() {
                    let root = root.clone();
                    running.spawn(async move {
                        let mut made: BTreeMap<usize, Vec<String>> = BTreeMap::new();
                        for (number, (file, is_new)) in steps.into_iter().enumerate() {
                            let mark = format!("s{session}-{number}");
                            if is_new {
                                let outcome = call("write", &root, writing(&format!("new/{mark}"), &mark)).await;
                                assert!(outcome.text.starts_with("Wrote"), "{}", outcome.text);
                                continue;
                            }
                            let edit = editing(&format!("f{file}"), "END\n", &format!("{mark}\nEND\n"));
                            let outcome = call("edit", &root, edit).await;
                            match outcome.is_error {
                                false => made.entry(file).or_default().push(mark),
                                true => panic!("nothing refuses it: {}", outcome.text),
                            }
                        }
                        made
                    });
                }
                running.join_all().await
            });
            for file in 0..3 {
                let text = std::fs::read_to_string(root.join(format!("f{file}"))).unwrap();
                let lines: Vec<&str> = text.lines().collect();
                let expected: usize = made.iter().map(|made| made.get(&file).map_or(0, Vec::len)).sum();
                prop_assert_eq!(lines.len(), expected + 1, "{}", text);
                for marks in made.iter().filter_map(|made| made.get(&file)) {
                    let places: Vec<_> =
                        marks.iter().map(|mark| lines.iter().position(|line| line == mark)).collect();
                    prop_assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{marks:?} in {text}");
                }
            }
            for name in names(&root) {
                prop_assert!(!name.file_name().unwrap().to_string_lossy().starts_with('.'), "left over: {name:?}");
            }
        }
    }
}
