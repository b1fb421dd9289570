//! Where a path really leads: `..` and symbolic links are followed before anything is judged.
//!
//! Knows the file system. Does not know who may go where ([`super::permission`] does).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::limits::PATH_LINKS;

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Too many symbolic links, or links in a circle.
    #[error("{} goes through more than {PATH_LINKS} symbolic links", .0.display())]
    Links(PathBuf),
    /// `..` after something that is not there: what it would mean depends on what is made later.
    #[error("{} has `..` after a folder that does not exist", .0.display())]
    ParentOfNothing(PathBuf),
    /// A NUL byte, which no file name has.
    #[error("the path has a NUL character")]
    Nul,
}

/// The path without `.`, `..` and symbolic links, absolute. What does not exist yet may be named: the
/// part of the path that exists is followed, a link that leads to nothing included, and the rest is
/// taken as it is.
///
/// # Errors
/// See [`PathError`].
pub fn resolve(cwd: &Path, path: &str) -> Result<PathBuf, PathError> {
    if path.contains('\0') {
        return Err(PathError::Nul);
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

/// Whether a resolved path is the folder or stands in it.
pub fn within(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder)
}

/// The path as a person reads it: relative to the folder where it stands in it.
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

/// `~` and `~/…` mean the home folder, as a shell would have it.
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
