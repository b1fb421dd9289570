//! Resolves a path: follows `..` and symbolic links before anything is judged.
//!
//! Knows the file system. Does not know permissions ([`super::permission`] does).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::limits::{PATH_BYTES, PATH_LINKS};

/// Why a path cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Too many symbolic links, or a cycle of links.
    #[error("{} goes through more than {PATH_LINKS} symbolic links", .0.display())]
    Links(PathBuf),
    /// `..` after something that does not exist: its meaning would depend on what is created later.
    #[error("{} has `..` after a folder that does not exist", .0.display())]
    ParentOfNothing(PathBuf),
    /// A NUL byte, which no file name may contain.
    #[error("the path has a NUL character")]
    Nul,
    /// Longer than any system takes.
    #[error("the path is longer than {PATH_BYTES} bytes")]
    Long,
}

/// The absolute path without `.`, `..` and symbolic links. The path may name something that does not exist
/// yet: the existing part is followed, including dangling links, and the rest is kept.
///
/// # Errors
/// See [`PathError`].
pub fn resolve(cwd: &Path, path: &str) -> Result<PathBuf, PathError> {
    if path.contains('\0') {
        return Err(PathError::Nul);
    }
    if path.len() > PATH_BYTES {
        return Err(PathError::Long);
    }
    let whole = cwd.join(expand_home(path));
    let mut ahead: VecDeque<OsString> = parts(&whole);
    let mut resolved = PathBuf::from("/");
    let mut exists = true;
    let mut links = 0usize;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            if !exists {
                return Err(PathError::ParentOfNothing(whole));
            }
            resolved.pop();
            continue;
        }
        let next = resolved.join(&part);
        match std::fs::symlink_metadata(&next) {
            Ok(found) if found.file_type().is_symlink() => {
                links = links.saturating_add(1);
                if links > PATH_LINKS {
                    return Err(PathError::Links(whole));
                }
                let target = std::fs::read_link(&next).map_err(|_| PathError::Links(whole.clone()))?;
                if target.is_absolute() {
                    resolved = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    ahead.push_front(part);
                }
            }
            Ok(_) => resolved = next,
            Err(_) => {
                exists = false;
                resolved = next;
            }
        }
    }
    Ok(resolved)
}

/// Whether a resolved path is the folder or inside it.
pub fn within(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder)
}

/// The path for people: relative to the folder if it is inside it.
pub fn shown(path: &Path, folder: &Path) -> String {
    match path.strip_prefix(folder) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// `~` and `~/…` are the home folder, as in a shell.
fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix('~'), dirs::home_dir()) {
        (Some(""), Some(home)) => home,
        (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn path_longer_than_systems_take_is_refused_unwalked() {
        let dir = tempfile::tempdir().unwrap();
        let longest = "a/".repeat(PATH_BYTES / 2);
        assert!(resolve(dir.path(), &longest).is_ok());
        assert_eq!(resolve(dir.path(), &format!("{longest}a")), Err(PathError::Long));
    }

    #[test]
    fn links_and_parents_are_followed_to_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("out"));
        std::fs::create_dir_all(inside.join("sub")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        symlink(&outside, inside.join("door")).unwrap();
        symlink("../out/missing", inside.join("dangling")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        symlink("sub", inside.join("alias")).unwrap();
        for (path, expected) in [
            ("a.txt", inside.join("a.txt")),
            ("./sub/../a.txt", inside.join("a.txt")),
            ("../out/x", outside.join("x")),
            ("sub/../../out", outside.clone()),
            ("door/x", outside.join("x")),
            ("door/../in/a", inside.join("a")),
            ("dangling", outside.join("missing")),
            ("alias/b", inside.join("sub/b")),
            ("new/folder/file", inside.join("new/folder/file")),
            ("/etc/../etc/hostname", PathBuf::from("/etc/hostname")),
        ] {
            assert_eq!(resolve(&inside, path).as_ref(), Ok(&expected), "{path}");
        }
        for path in ["loop", "nothing/../../../etc/passwd", "a\0b"] {
            assert!(resolve(&inside, path).is_err(), "{path}");
        }
    }
}
