//! Walks a folder for the search tools: respects ignore files, skips hidden files and `.git`, does not follow links, and
//! skips paths that a rule denies. A glob is a filter behind all of that, never an exception from it.
//!
//! Every folder and file is opened relative to its parent, so that no concurrent change leads out of the
//! judged folder. Ignore files belong to a project: they are read as regular files and within bounds. Knows
//! the file system and the rules that deny; does not know the purpose of the search.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, gitconfig_excludes_path};
use rustix::fs::{CWD, Mode, OFlags};
use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::permission::{Bars, Decision, Ground, Rule};
use crate::files;
use crate::glob::{self, FileGlob};
use crate::limits::{FOLDER_ENTRIES, IGNORE_BYTES, RULE_STEPS, WALK_DEPTH};
use crate::meter::{Exhausted, Meter};

/// The paths that rules deny to reading tools, and the program's own secrets, resolved once per call.
#[derive(Debug, Default)]
pub struct DeniedPaths {
    bars: Bars,
    ground: Ground,
    /// Whether every path is denied.
    all: bool,
}

impl DeniedPaths {
    /// The denials for a tool. A rule that denies `read` also applies to tools that read many files.
    pub fn new(rules: &[Rule], ground: &Ground, tool: &str) -> Self {
        let holds = |rule: &&Rule| {
            rule.decision == Decision::Deny
                && rule.command.is_none()
                && rule.host.is_none()
                && (rule.names(tool) || rule.names(super::READ))
        };
        let holding = || rules.iter().filter(holds);
        let globs: Vec<&str> = holding().filter_map(|rule| rule.path.as_deref()).collect();
        let bars = Bars::new(&globs, ground, &mut Meter::new(RULE_STEPS, usize::MAX));
        // What cannot be looked through denies everything.
        let all = bars.is_err() || holding().any(|rule| rule.path.is_none());
        Self { bars: bars.unwrap_or_default(), ground: ground.clone(), all }
    }

    /// Whether a path is denied, or the budget to find that out is exhausted.
    pub fn bars(&self, path: &Path) -> bool {
        self.bars_within(path, &mut Meter::new(RULE_STEPS, usize::MAX)).unwrap_or(true)
    }

    /// Whether a path is denied.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn bars_within(&self, path: &Path, meter: &mut Meter) -> Result<bool, Exhausted> {
        Ok(self.all || self.ground.hides(path) || self.bars.is_match(path, &self.ground, meter)?)
    }
}

/// A file that a walk found, of any kind except a folder.
pub(super) struct WalkedFile {
    /// Its path.
    pub path: PathBuf,
    folder: Arc<OwnedFd>,
    name: OsString,
}

impl WalkedFile {
    /// When it was changed last, in nanoseconds since 1970; 0 if that is not known.
    pub fn changed(&self) -> i64 {
        let found = rustix::fs::statat(&*self.folder, &self.name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_lossless,
            reason = "the fields differ between systems"
        )]
        let time = |found: rustix::fs::Stat| {
            let seconds = (found.st_mtime as i64).saturating_mul(1_000_000_000);
            seconds.saturating_add(i64::try_from(found.st_mtime_nsec).unwrap_or_default())
        };
        found.map(time).unwrap_or_default()
    }

    /// Opens exactly the found file, if it is a regular one.
    pub fn open(&self) -> io::Result<File> {
        regular(&*self.folder, Path::new(&self.name))
    }
}

/// Opens a regular file in a folder. Follows no link and never waits.
fn regular(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    files::check_kind(&folder, name)?;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn folder(above: impl AsFd, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(above, name, flags, Mode::empty())?)
}

/// The ignore files of one folder: `.ignore`, `.gitignore`, `.git/info/exclude`.
type Ignores = [Gitignore; 3];

/// A folder on the current path.
struct Level {
    folder: Arc<OwnedFd>,
    path: PathBuf,
    ignores: Ignores,
    ahead: std::vec::IntoIter<(OsString, bool)>,
}

/// Which files a walk finds.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Those that it matches; without one, all.
    pub glob: Option<FileGlob>,
    /// Hidden files too.
    pub hidden: bool,
    /// Those that ignore files name, too.
    pub ignored: bool,
}

/// Why an entry is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// A rule denies it, or it is `.git`. It is not counted.
    Silently,
    Hidden,
    Ignored,
}

/// See the module. Returns files sorted by path.
pub(super) struct Walk<'c> {
    selection: Selection,
    root: PathBuf,
    barred: &'c DeniedPaths,
    /// Has no end of its own: folders, depth and ignore files are bounded, and the stop ends it.
    meter: Meter,
    /// The ignore files of the parent folders, outermost first.
    above: Vec<Ignores>,
    /// The user's own ignore file, for every repository.
    global: Gitignore,
    levels: Vec<Level>,
    first: Option<WalkedFile>,
    /// Folders that were visited only in part: too deep, or with too many entries.
    pub cut: usize,
    /// How many hidden files and folders were left out that the glob may mean.
    pub hidden: usize,
    /// How many ignored ones.
    pub ignored: usize,
}

impl<'c> Walk<'c> {
    /// A walk of a folder, or of one file. `path` has no links.
    ///
    /// # Errors
    /// The error in the path.
    pub fn new(
        path: &Path,
        selection: Selection,
        barred: &'c DeniedPaths,
        stop: &CancellationToken,
    ) -> Result<Self, CallError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => CallError::Missing { path: path.to_owned(), hint: "".into() },
            _ => CallError::File { path: path.to_owned(), action: "read", why: error.to_string() },
        };
        if barred.bars(path) {
            return Err(CallError::Denied(path.to_owned()));
        }
        let mut walk = Self {
            selection,
            root: path.to_owned(),
            barred,
            meter: Meter::new(usize::MAX, usize::MAX).stopped_by(stop),
            above: Vec::new(),
            global: Gitignore::empty(),
            levels: Vec::new(),
            first: None,
            cut: 0,
            hidden: 0,
            ignored: 0,
        };
        if let (Some(parent), Some(name), Err(_)) =
            (path.parent(), path.file_name(), files::open_folder(path))
        {
            files::open_regular(path).map_err(failed)?;
            let folder = Arc::new(files::open_folder(parent).map_err(failed)?);
            walk.first = Some(WalkedFile { path: path.to_owned(), folder, name: name.to_owned() });
            return Ok(walk);
        }
        let outermost: Vec<&Path> = path.ancestors().skip(1).collect();
        for above in outermost.into_iter().rev() {
            let Ok(folder) = files::open_folder(above) else { continue };
            walk.above.push(ignores(&folder, above, |_| true));
        }
        if let Some(file) = gitconfig_excludes_path() {
            walk.global = glob::ignored(path, &lines(regular(CWD, &file)));
        }
        walk.enter(files::open_folder(path).map_err(failed)?, path.to_owned());
        Ok(walk)
    }

    fn enter(&mut self, folder: OwnedFd, path: PathBuf) {
        // Skips unreadable entries.
        let mut names = files::entries(&folder, FOLDER_ENTRIES).unwrap_or_default();
        if names.len() >= FOLDER_ENTRIES {
            self.cut = self.cut.saturating_add(1);
        }
        names.sort_unstable();
        let has =
            |wanted: &str| names.binary_search_by(|(name, _)| name.as_os_str().cmp(wanted.as_ref())).is_ok();
        let ignores = ignores(&folder, &path, has);
        self.levels.push(Level { folder: Arc::new(folder), path, ignores, ahead: names.into_iter() });
    }

    /// Whether an entry is left out. As in Git, the ignore files decide, nearest first; hidden files are left out unless
    /// one of them or the glob says otherwise.
    fn leaves_out(
        &mut self,
        path: &Path,
        name: &OsString,
        is_folder: bool,
    ) -> Result<Option<LeftOut>, Exhausted> {
        if name == ".git" || self.barred.bars_within(path, &mut self.meter)? {
            return Ok(Some(LeftOut::Silently));
        }
        let files = self.levels.len().saturating_add(self.above.len()).saturating_add(1).saturating_mul(3);
        self.meter.spend(files.saturating_mul(path.as_os_str().len()), 0)?;
        let by_ignores = match self.by_ignores(path, is_folder) {
            Some(is_ignored) => Some(is_ignored),
            None => match self.global.matched(path, is_folder) {
                Match::None => None,
                found => Some(found.is_ignore()),
            },
        };
        let is_meant = || {
            let glob = self.selection.glob.as_ref();
            self.selection.hidden || glob.is_some_and(|glob| glob.means_hidden(Path::new(name)))
        };
        Ok(match by_ignores {
            Some(true) if !self.selection.ignored => Some(LeftOut::Ignored),
            Some(false) => None,
            _ => (name.as_bytes().starts_with(b".") && !is_meant()).then_some(LeftOut::Hidden),
        })
    }

    /// Whether the ignore files leave an entry out; `None` if they do not name it.
    fn by_ignores(&self, path: &Path, is_folder: bool) -> Option<bool> {
        let here = self.levels.iter().rev().map(|level| &level.ignores);
        let all: Vec<&Ignores> = here.chain(self.above.iter().rev()).collect();
        for sort in 0..3usize {
            for file in all.iter().filter_map(|ignores| ignores.get(sort)) {
                match file.matched(path, is_folder) {
                    Match::None => {}
                    Match::Ignore(_) => return Some(true),
                    Match::Whitelist(_) => return Some(false),
                }
            }
        }
        None
    }

    /// Whether the glob means a file.
    fn is_meant(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        self.selection.glob.as_ref().is_none_or(|glob| glob.is_match(below))
    }

    /// The numbers left out, as the end of a result; empty if nothing was.
    pub fn left_out(&self) -> String {
        let mut text = String::new();
        let parts = [(self.hidden, "hidden"), (self.ignored, "ignored")];
        for (count, kind) in parts.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("[left out: {count} {kind}; {kind} true includes them]\n"));
        }
        if self.cut > 0 {
            text.push_str("[some folders are too deep or too large to be looked through whole]\n");
        }
        text
    }
}

impl Iterator for Walk<'_> {
    type Item = WalkedFile;

    fn next(&mut self) -> Option<WalkedFile> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            self.meter.look().ok()?;
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some((name, is_folder)) = level.ahead.next() else {
                self.levels.pop();
                continue;
            };
            let (within, path) = (level.folder.clone(), level.path.join(&name));
            let left_out = self.leaves_out(&path, &name, is_folder).ok()?;
            if left_out.is_none() && !is_folder && self.is_meant(&path) {
                return Some(WalkedFile { path, folder: within, name });
            }
            // The content of a folder that is left out is not known.
            let counts = left_out.is_some() && (is_folder || self.is_meant(&path));
            match left_out {
                Some(LeftOut::Hidden) if counts => self.hidden = self.hidden.saturating_add(1),
                Some(LeftOut::Ignored) if counts => self.ignored = self.ignored.saturating_add(1),
                _ => {}
            }
            if left_out.is_some() || !is_folder {
                continue;
            }
            if depth >= WALK_DEPTH {
                self.cut = self.cut.saturating_add(1);
            } else if let Ok(folder) = folder(&*within, Path::new(&name)) {
                self.enter(folder, path);
            }
        }
    }
}

fn ignores(folder: &OwnedFd, path: &Path, has: impl Fn(&str) -> bool) -> Ignores {
    let read = |entry: &str, file: &str| match has(entry) {
        true => glob::ignored(path, &lines(regular(folder, Path::new(file)))),
        false => Gitignore::empty(),
    };
    [read(".ignore", ".ignore"), read(".gitignore", ".gitignore"), read(".git", ".git/info/exclude")]
}

/// The complete lines of an ignore file within the bound; none if there is no file.
fn lines(file: io::Result<File>) -> String {
    let mut bytes = Vec::new();
    let Ok(file) = file else { return String::new() };
    if file.take(IGNORE_BYTES).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length >= IGNORE_BYTES) {
        bytes.truncate(memchr::memrchr(b'\n', &bytes).unwrap_or(0));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::edn;

    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, text) in files {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        (dir, root)
    }

    fn pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    fn walked(root: &Path, glob: Option<&str>, barred: &DeniedPaths) -> Vec<String> {
        let stop = CancellationToken::new();
        let glob = glob.map(|glob| FileGlob::new(root, glob).unwrap());
        let walk = Walk::new(root, Selection { glob, ..Selection::default() }, barred, &stop).unwrap();
        walk.map(|found| found.path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()).collect()
    }

    fn barred(workspace: &Path, rules: &str, tool: &str) -> DeniedPaths {
        let rules = edn::read_all(rules.as_bytes()).unwrap();
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::read(rule).unwrap()).collect();
        DeniedPaths::new(&rules, &Ground::from(workspace), tool)
    }

    #[test]
    fn ignore_files_hold_as_for_git() {
        let (_dir, root) = folder(&[
            (".gitignore", "*.log\n/build/\n!keep.log\n!.shown\n"),
            (".ignore", "notes/\n"),
            (".git/info/exclude", "mine\n"),
            (".hidden", ""),
            (".shown", ""),
            ("a.log", ""),
            ("build/x", ""),
            ("keep.log", ""),
            ("mine", ""),
            ("notes/n", ""),
            ("src/.gitignore", "gen\n!b.log\n"),
            ("src/a.rs", ""),
            ("src/b.log", ""),
            ("src/build/x", ""),
            ("src/gen", ""),
        ]);
        let none = DeniedPaths::default();
        assert_eq!(
            walked(&root, None, &none),
            [".shown", "keep.log", "src/a.rs", "src/b.log", "src/build/x"]
        );
        assert_eq!(walked(&root.join("src"), None, &none), ["a.rs", "b.log", "build/x"], "from above, too");
        assert_eq!(walked(&root, Some("*.rs"), &none), ["src/a.rs"]);
        assert_eq!(
            walked(&root, Some("{*.log,gen}"), &none),
            ["keep.log", "src/b.log"],
            "a filter, no exception"
        );
        assert_eq!(walked(&root, Some("!*.log"), &none), [".shown", "src/a.rs", "src/build/x"]);
        for all in ["*", "**", "**/*", "."] {
            assert_eq!(walked(&root, Some(all), &none), walked(&root, None, &none), "{all}");
        }
        assert_eq!(walked(&root, Some("src"), &none), ["src/a.rs", "src/b.log", "src/build/x"]);
        assert_eq!(walked(&root, Some(".hid*"), &none), [".hidden"]);
        assert!(walked(&root, Some(".git/**"), &none).is_empty(), "git's own files are nobody's");
        let stop = CancellationToken::new();
        let all = Selection { hidden: true, ignored: true, glob: None };
        let mut walk = Walk::new(&root, all, &none, &stop).unwrap();
        assert_eq!(walk.by_ref().count(), 14);
        assert_eq!(walk.left_out(), "");
        let mut walk = Walk::new(&root, Selection::default(), &none, &stop).unwrap();
        assert_eq!((walk.by_ref().count(), walk.hidden, walk.ignored), (5, 4, 5));
        assert_eq!(walked(&root.join("a.log"), None, &none), [""]);
    }

    #[test]
    fn hostile_ignore_files_are_passed_over() {
        let deep = format!("{}{}\n*.log\n", "{a,".repeat(15_000), "}".repeat(15_000));
        let (_dir, root) =
            folder(&[("a", ""), ("b.log", ""), ("c/d", ""), ("e/f", ""), ("e/.gitignore", &deep)]);
        symlink("/dev/zero", root.join(".gitignore")).unwrap();
        pipe(&root.join(".ignore"));
        pipe(&root.join("c/.gitignore"));
        std::fs::create_dir_all(root.join(".git/info")).unwrap();
        symlink("/dev/zero", root.join(".git/info/exclude")).unwrap();
        assert_eq!(walked(&root, None, &DeniedPaths::default()), ["a", "b.log", "c/d", "e/f"]);
        assert_eq!(walked(&root.join("c"), None, &DeniedPaths::default()), ["d"]);
        let long = File::create(root.join("e/.gitignore")).unwrap();
        long.set_len(1 << 40).unwrap();
        assert_eq!(walked(&root.join("e"), None, &DeniedPaths::default()), ["f"]);
    }

    #[test]
    fn what_a_rule_denies_is_not_walked() {
        let (_dir, root) =
            folder(&[("a/secrets.txt", ""), ("a/b", ""), ("private/c", ""), ("private/d/e", "")]);
        let rules =
            r#"{:decision :deny :path "**/secrets.txt"} {:decision :deny :tool "read" :path "private/**"}"#;
        let here = barred(&root, rules, "search");
        assert_eq!(walked(&root, None, &here), ["a/b"]);
        assert_eq!(walked(&root, Some("secrets.txt"), &here), Vec::<String>::new());
        let stop = CancellationToken::new();
        for path in ["private", "private/d", "a/secrets.txt"] {
            assert!(Walk::new(&root.join(path), Selection::default(), &here, &stop).is_err(), "{path}");
        }
        let others = r#"{:decision :deny :tool "write" :path "**"} {:decision :allow :path "a/**"}
                        {:decision :deny :tool "bash" :command "cat"}"#;
        assert_eq!(walked(&root, None, &barred(&root, others, "search")).len(), 4);
        assert!(barred(&root, "{:decision :deny :tool \"read\"}", "find").bars(&root));
    }

    #[test]
    fn links_and_exchanged_files_lead_nowhere() {
        let (_dir, root) = folder(&[("in/a", "a"), ("in/b", "b"), ("out/secret", "s")]);
        symlink(root.join("out"), root.join("in/door")).unwrap();
        let (none, stop) = (DeniedPaths::default(), CancellationToken::new());
        let inside = root.join("in");
        let mut walk = Walk::new(&inside, Selection::default(), &none, &stop).unwrap();
        let a = walk.next().unwrap();
        // After the walk saw them, the file and then its folder are replaced by links.
        std::fs::remove_file(inside.join("a")).unwrap();
        symlink(root.join("out/secret"), inside.join("a")).unwrap();
        assert!(a.open().is_err());
        std::fs::rename(&inside, root.join("moved")).unwrap();
        symlink(root.join("out"), &inside).unwrap();
        let rest: Vec<WalkedFile> = walk.collect();
        assert_eq!(rest.iter().map(|found| found.name.to_str().unwrap()).collect::<Vec<_>>(), ["b", "door"]);
        let mut text = String::new();
        rest[0].open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "b");
        assert!(rest[1].open().is_err());
        assert!(Walk::new(&inside, Selection::default(), &none, &stop).is_err(), "the folder is a link now");
    }

    #[test]
    fn a_walk_ends_when_it_is_stopped_or_too_deep() {
        let (_dir, root) = folder(&[("a", ""), ("b", "")]);
        let (none, stop) = (DeniedPaths::default(), CancellationToken::new());
        let mut walk = Walk::new(&root, Selection::default(), &none, &stop).unwrap();
        assert!(walk.next().is_some());
        stop.cancel();
        assert!(walk.next().is_none());
        let deep = root.join("d/".repeat(WALK_DEPTH + 5));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("deepest"), "").unwrap();
        let stop = CancellationToken::new();
        let mut walk = Walk::new(&root, Selection::default(), &none, &stop).unwrap();
        assert_eq!((walk.by_ref().count(), walk.cut), (2, 1));
    }
}
