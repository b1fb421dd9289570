//! Puts files back as they were: the texts before and after each edit are kept, and exchanged later.
//!
//! A file that somebody else has changed since is left alone. Knows files; does not know turns and people.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::output::Outputs;
use super::path;
use crate::files::{self, FileLock, FilePlace, FileRead, ReplaceError, Rights};
use crate::limits::{TOOL_FILE_BYTES, UNDO_BYTES, UNDO_PATIENCE};
use crate::private;
use crate::sha256;

/// The end of the names of kept texts. It differs from that of outputs, so that no handle of an output names a text.
const KEPT: &str = "kept";

/// The texts of one session's files, beside its outputs. Each is named by its digest, so that equal texts are kept once.
#[derive(Debug, Clone)]
pub struct Texts {
    folder: PathBuf,
}

impl Texts {
    /// The texts beside those outputs. Touches nothing on disk.
    pub fn beside(outputs: &Outputs) -> Self {
        Self { folder: outputs.folder().to_owned() }
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join(digest).with_extension(KEPT)
    }

    /// Keeps a text and returns its digest. The oldest texts go if all of them are too large. Where the system refuses, the
    /// text is not kept, and [`exchange`] says so when it is wanted.
    pub fn keep(&self, text: &[u8]) -> String {
        let digest = sha256::hex(text);
        if let Err(error) = self.store(&digest, text).and_then(|()| self.bound(UNDO_BYTES)) {
            tracing::warn!(%error, "the text of a file is not kept, so that its change cannot be undone");
        }
        digest
    }

    fn store(&self, digest: &str, text: &[u8]) -> io::Result<()> {
        private::make_folder(&self.folder)?;
        let path = self.path(digest);
        let mut file = private::open(&path)?;
        if file.metadata()?.len() == text.len() as u64 {
            // Kept already: it only becomes the newest.
            return file.set_modified(SystemTime::now());
        }
        file.set_len(0)?;
        file.write_all(text)
    }

    fn bound(&self, most: u64) -> io::Result<()> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == KEPT)
                && let Ok(found) = path.symlink_metadata()
            {
                kept.push((found.modified()?, found.len(), path));
            }
        }
        kept.sort();
        let mut bytes = kept.iter().map(|(_, bytes, _)| *bytes).fold(0, u64::saturating_add);
        for (_, size, path) in kept {
            if bytes <= most {
                break;
            }
            fs::remove_file(path)?;
            bytes = bytes.saturating_sub(size);
        }
        Ok(())
    }

    /// A kept text; `None` if it is gone or damaged.
    fn read(&self, digest: &str) -> Option<Vec<u8>> {
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut bytes = Vec::new();
        let file = is_digest.then(|| private::open_to_read(&self.path(digest)).ok()).flatten()?;
        file.take(TOOL_FILE_BYTES).read_to_end(&mut bytes).ok()?;
        (sha256::hex(&bytes) == digest).then_some(bytes)
    }
}

/// A file, and the text that is to take the place of the one that it has now, each by its digest; `None` for no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The file, absolute and resolved.
    pub path: PathBuf,
    /// What it may be now; empty if that is not known.
    pub from: Vec<Option<String>>,
    /// What it becomes.
    pub to: Option<String>,
    /// The permissions of a file that is made, if they are known.
    pub mode: Option<u32>,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanged {
    /// The file.
    pub path: PathBuf,
    /// What was done.
    pub action: Action,
    /// The permissions of a file that was removed.
    pub mode: Option<u32>,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It has the other text.
    Restored,
    /// It is there again.
    Created,
    /// It is gone, because it was not there before.
    Removed,
    /// It was left alone.
    Skipped,
}

impl Action {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Created => "created",
            Self::Removed => "removed",
            Self::Skipped => "skipped",
        }
    }
}

/// A file that is ready to be changed.
struct Ready {
    place: Option<FilePlace>,
    found: Option<FileRead>,
    bytes: Option<Vec<u8>>,
}

/// Exchanges the texts of files. Looks at all of them before it changes one. Where somebody else has changed one, or its
/// text is no longer kept, it is skipped if `skips`; otherwise nothing is changed. Nor is it while a call changes one.
///
/// # Errors
/// The files that stand in the way.
pub async fn exchange(
    texts: Texts,
    cwd: PathBuf,
    mut wanted: Vec<Exchange>,
    skips: bool,
) -> Result<Vec<Exchanged>, Vec<PathBuf>> {
    // In one order everywhere, so that no two wait for each other.
    wanted.sort_by(|one, other| one.path.cmp(&other.path));
    let mut locks: Vec<FileLock> = Vec::with_capacity(wanted.len());
    let deadline = tokio::time::Instant::now() + UNDO_PATIENCE;
    for exchange in &wanted {
        let lock = tokio::time::timeout_at(deadline, files::lock(&exchange.path)).await;
        locks.push(lock.map_err(|_| vec![exchange.path.clone()])?);
    }
    let paths: Vec<PathBuf> = wanted.iter().map(|exchange| exchange.path.clone()).collect();
    let work = move || {
        let _locks = locks;
        let ready: Vec<(Exchange, Option<Ready>)> = wanted
            .into_iter()
            .map(|exchange| {
                let ready = look(&texts, &cwd, &exchange);
                (exchange, ready)
            })
            .collect();
        let in_the_way = ready.iter().filter(|(_, ready)| ready.is_none());
        let in_the_way: Vec<PathBuf> = in_the_way.map(|(exchange, _)| exchange.path.clone()).collect();
        if !in_the_way.is_empty() && !skips {
            return Err(in_the_way);
        }
        let done = ready.into_iter().map(|(exchange, ready)| {
            let found = ready.as_ref().and_then(|ready| ready.found.as_ref().map(FileRead::mode));
            let action = ready.map_or(Action::Skipped, |ready| put(&exchange, ready));
            Exchanged { path: exchange.path, action, mode: found.filter(|_| action == Action::Removed) }
        });
        Ok(done.collect())
    };
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(paths))
}

/// Looks at a file. `None` if it is not as it must be.
fn look(texts: &Texts, cwd: &Path, exchange: &Exchange) -> Option<Ready> {
    let path = &exchange.path;
    // A folder may have become a link since.
    if path::resolve(cwd, path.to_str()?).ok()? != *path {
        return None;
    }
    let place = FilePlace::open(path).ok()?;
    let found = match &place {
        Some(place) => place.read(TOOL_FILE_BYTES).ok()?,
        None => None,
    };
    if let (Some(place), Some(found)) = (&place, &found) {
        place.may_replace(found).ok()?;
    }
    let now = found.as_ref().map(|found| sha256::hex(&found.bytes));
    // It may be so already: a process may have ended before it could note that.
    if !exchange.from.contains(&now) && now != exchange.to {
        return None;
    }
    let bytes = match &exchange.to {
        Some(digest) => Some(texts.read(digest)?),
        None => None,
    };
    Some(Ready { place, found, bytes })
}

/// Changes a file. One that cannot be changed is skipped.
fn put(exchange: &Exchange, ready: Ready) -> Action {
    let Ready { place, found, bytes } = ready;
    let action = match (&found, &bytes) {
        (_, None) => Action::Removed,
        (None, Some(_)) => Action::Created,
        (Some(_), Some(_)) => Action::Restored,
    };
    let now = found.as_ref().map(|found| sha256::hex(&found.bytes));
    if now == exchange.to {
        // Of a change that perhaps was not made there is nothing to exchange, and nothing to do again.
        return if exchange.from.contains(&now) { Action::Skipped } else { action };
    }
    let rights = exchange.mode.filter(|_| found.is_none()).map_or(Rights::Kept, Rights::Mode);
    let placed = match (place, &found, &bytes) {
        (Some(place), Some(found), None) => place.remove(found),
        (Some(place), found, Some(bytes)) => place.replace(found.as_ref(), bytes, rights, &|| true).map(drop),
        (None, _, Some(bytes)) => FilePlace::make(&exchange.path)
            .map_err(ReplaceError::from)
            .and_then(|place| place.replace(None, bytes, rights, &|| true).map(drop)),
        (_, None, None) | (None, Some(_), None) => Ok(()),
    };
    match placed {
        Ok(()) | Err(ReplaceError::NotOnDisk(_)) => action,
        Err(error) => {
            tracing::warn!(path = %exchange.path.display(), %error, "a file could not be put back");
            Action::Skipped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        _dir: tempfile::TempDir,
        cwd: PathBuf,
        texts: Texts,
    }

    impl Case {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            let cwd = root.join("project");
            fs::create_dir(&cwd).unwrap();
            Self { texts: Texts::beside(&Outputs::new(&root.join("state"), "s")), cwd, _dir: dir }
        }

        /// The exchange of a file's texts, which are kept; `None` for no file.
        fn exchange(&self, name: &str, from: Option<&str>, to: Option<&str>) -> Exchange {
            let keep = |text: &str| self.texts.keep(text.as_bytes());
            Exchange { path: self.cwd.join(name), from: vec![from.map(keep)], to: to.map(keep), mode: None }
        }

        async fn run(&self, wanted: Vec<Exchange>, skips: bool) -> Result<Vec<Action>, Vec<PathBuf>> {
            let done = exchange(self.texts.clone(), self.cwd.clone(), wanted, skips).await?;
            Ok(done.into_iter().map(|file| file.action).collect())
        }

        fn text(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.cwd.join(name)).ok()
        }
    }

    #[tokio::test]
    async fn file_that_is_made_anew_has_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let case = Case::new();
        let path = case.cwd.join("run.sh");
        fs::write(&path, "made").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let undone = vec![case.exchange("run.sh", Some("made"), None)];
        let undone = exchange(case.texts.clone(), case.cwd.clone(), undone, false).await.unwrap();
        assert_eq!((undone[0].action, undone[0].mode), (Action::Removed, Some(0o700)));
        let redone = Exchange { mode: undone[0].mode, ..case.exchange("run.sh", None, Some("made")) };
        assert_eq!(case.run(vec![redone], false).await, Ok(vec![Action::Created]));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn read_only_file_stops_all() {
        use std::os::unix::fs::PermissionsExt as _;
        let case = Case::new();
        for name in ["a", "b"] {
            fs::write(case.cwd.join(name), "new").unwrap();
        }
        fs::set_permissions(case.cwd.join("b"), fs::Permissions::from_mode(0o444)).unwrap();
        let wanted = ["a", "b"].map(|name| case.exchange(name, Some("new"), Some("old")));
        let refused = case.run(wanted.to_vec(), false).await;
        assert_eq!(refused, Err(vec![case.cwd.join("b")]));
        assert_eq!(case.text("a").as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn files_are_restored_created_and_removed() {
        let case = Case::new();
        fs::write(case.cwd.join("a"), "new").unwrap();
        fs::write(case.cwd.join("b"), "made").unwrap();
        let wanted = || {
            vec![
                case.exchange("a", Some("new"), Some("old")),
                case.exchange("b", Some("made"), None),
                case.exchange("sub/c", None, Some("gone")),
            ]
        };
        let expected = Ok(vec![Action::Restored, Action::Removed, Action::Created]);
        assert_eq!(case.run(wanted(), false).await, expected);
        let texts = ["a", "b", "sub/c"].map(|name| case.text(name));
        assert_eq!(texts, [Some("old".to_owned()), None, Some("gone".to_owned())]);
        // What was not noted any more is found as it must be.
        assert!(case.run(wanted(), false).await.is_ok());
    }

    #[tokio::test]
    async fn what_others_changed_stays_and_nothing_is_changed_by_halves() {
        let case = Case::new();
        for name in ["a", "b"] {
            fs::write(case.cwd.join(name), "new").unwrap();
        }
        std::os::unix::fs::symlink(case.cwd.join("b"), case.cwd.join("c")).unwrap();
        let changed = case.exchange("a", Some("other"), Some("old"));
        let mixed = Exchange { from: Vec::new(), ..case.exchange("a", None, Some("old")) };
        let lost = Exchange { to: Some("0".repeat(64)), ..case.exchange("a", Some("new"), None) };
        let strange = Exchange { to: Some("../a".to_owned()), ..case.exchange("a", Some("new"), None) };
        let link = case.exchange("c", Some("new"), Some("old"));
        for wrong in [changed, mixed, lost, strange, link] {
            let path = wrong.path.clone();
            let both = || vec![wrong.clone(), case.exchange("b", Some("new"), Some("old"))];
            assert_eq!(case.run(both(), false).await, Err(vec![path]));
            assert_eq!(["a", "b"].map(|name| case.text(name).unwrap()), ["new", "new"]);
            let mut done = case.run(both(), true).await.unwrap();
            done.sort_by_key(|action| action.as_str());
            assert_eq!(done, [Action::Restored, Action::Skipped]);
            assert_eq!(["a", "b"].map(|name| case.text(name).unwrap()), ["new", "old"]);
            fs::write(case.cwd.join("b"), "new").unwrap();
        }
    }

    #[test]
    fn oldest_texts_go_and_damaged_ones_are_not_used() {
        let case = Case::new();
        let kept = ["one", "two!", "three"].map(|text| case.texts.keep(text.as_bytes()));
        for (age, digest) in (0..).zip(&kept) {
            let file = fs::File::options().write(true).open(case.texts.path(digest)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age)).unwrap();
        }
        case.texts.bound(9).unwrap();
        let there = |digest: &String| case.texts.read(digest).is_some();
        assert_eq!(kept.iter().map(there).collect::<Vec<_>>(), [false, true, true]);
        fs::write(case.texts.path(&kept[2]), "other").unwrap();
        assert!(!there(&kept[2]));
    }
}
