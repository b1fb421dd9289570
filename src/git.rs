//! The files of a git repository that say where it is and what is checked out. Starts no process.
//!
//! The repository may be anybody's: only regular files are read, and their start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files;
use crate::limits::{GIT_FILE_BYTES, GIT_REFS_BYTES};

/// What is checked out.
#[derive(Debug, Default)]
pub struct Head {
    /// The branch; `None` if a commit is checked out instead.
    pub branch: Option<String>,
    /// The commit; `None` before the first.
    pub commit: Option<String>,
}

impl Head {
    /// Reads the `HEAD` of a worktree's own folder, whose references are in `shared`. `None` if it cannot be read.
    pub fn read(own: &Path, shared: &Path) -> Option<Self> {
        let head = read(&own.join("HEAD"))?;
        let head = head.trim();
        let Some(reference) = head.strip_prefix("ref:").map(str::trim) else {
            return Some(Self { branch: None, commit: Some(head.to_owned()) });
        };
        let loose = read(&shared.join(reference)).map(|commit| commit.trim().to_owned());
        let commit = loose.or_else(|| {
            let packed = start(&shared.join("packed-refs"), GIT_REFS_BYTES)?;
            let line =
                packed.lines().find(|line| line.strip_suffix(reference).is_some_and(|l| l.ends_with(' ')))?;
            line.split(' ').next().map(str::to_owned)
        });
        Some(Self { branch: branch_of(head).map(str::to_owned), commit })
    }
}

/// The branch that is checked out in a folder's repository.
pub fn branch(folder: &Path) -> Option<Arc<str>> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    branch_of(&read(&own_folder(root)?.join("HEAD"))?).map(Arc::from)
}

/// The branch that the text of a `HEAD` names.
fn branch_of(head: &str) -> Option<&str> {
    head.trim().strip_prefix("ref:")?.trim().strip_prefix("refs/heads/")
}

/// The repository that a folder's remote `origin` is, as `host/path`: the same for each way to reach it, without user and
/// password. `None` if there is no such remote, or it is on this machine.
pub fn remote(folder: &Path) -> Option<Arc<str>> {
    let root = folder.ancestors().find(|folder| folder.join(".git").exists())?;
    let config = read(&shared_folder(&own_folder(root)?).join("config"))?;
    let section = config.split("[remote \"origin\"]").nth(1)?;
    let lines = section.lines().take_while(|line| !line.trim_start().starts_with('['));
    let url = lines.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "url")?.1;
    repository(url.trim()).map(Arc::from)
}

/// The host and path of a remote's address.
fn repository(url: &str) -> Option<String> {
    let (place, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // `user@host:path`
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = place.rsplit('@').next()?.split(':').next()?.to_ascii_lowercase();
    let path = path.split(['?', '#']).next()?.trim_matches('/').trim_end_matches(".git");
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

/// The folder with a worktree's own `HEAD`: `.git`, or the target of a linked worktree's or a submodule's file.
pub fn own_folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    Some(root.join(read(&git)?.strip_prefix("gitdir:")?.trim()))
}

/// The folder that all worktrees share.
pub fn shared_folder(own: &Path) -> PathBuf {
    let Some(common) = read(&own.join("commondir")) else { return own.to_owned() };
    let shared = own.join(common.trim());
    shared.canonicalize().unwrap_or(shared)
}

/// The start of one of its small files.
pub fn read(path: &Path) -> Option<String> {
    start(path, GIT_FILE_BYTES)
}

fn start(path: &Path, most: u64) -> Option<String> {
    Some(files::start(&path.canonicalize().ok()?, most).ok()?.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_is_one_for_each_way_to_it() {
        for url in [
            "https://ann:token@Example.org/ann/tool.git",
            "https://example.org/ann/tool?token=1",
            "ssh://git@example.org:2222/ann/tool.git/",
            "git@example.org:ann/tool.git",
        ] {
            assert_eq!(repository(url).as_deref(), Some("example.org/ann/tool"), "{url}");
        }
        for url in ["file:///srv/tool.git", "/srv/tool.git", "../tool", "", "https://example.org/"] {
            assert_eq!(repository(url), None, "{url}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let config = "[core]\n\tbare = false\n[remote \"other\"]\n\turl = git@b:c\n[remote \"origin\"]\n\turl = git@a:b\n[x]\n";
        std::fs::write(dir.path().join(".git/config"), config).unwrap();
        assert_eq!(remote(dir.path()).as_deref(), Some("a/b"));
        assert_eq!(remote(Path::new("/")), None);
    }

    #[test]
    fn head_that_is_no_regular_file_names_no_branch() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        let head = git.join("HEAD");
        std::fs::write(&head, "ref: refs/heads/main\n").unwrap();
        assert_eq!(branch(dir.path()).as_deref(), Some("main"));
        std::fs::remove_file(&head).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&head).status().unwrap().success());
        assert_eq!(branch(dir.path()), None);
        std::fs::remove_file(&head).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &head).unwrap();
        assert_eq!(branch(dir.path()), None);
    }
}
