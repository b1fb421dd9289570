//! Resolves a path: follows `..` and symbolic links before anything is judged. A model may write a path in other ways than
//! a shell takes it ([`understood`]).
//!
//! Knows the file system. Does not know permissions ([`super::permission`] does).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::typography::folded_name;
use crate::files;
use crate::limits::{FOLDER_ENTRIES, PATH_BYTES, PATH_LINKS};

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

/// A path as a model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Understood {
    /// The resolved path.
    pub path: PathBuf,
    /// The first and the last line, where the path names lines.
    pub lines: Option<(usize, usize)>,
}

/// The file that a model means. If there is none as it is written, it may be a `file://` address, have a leading `@` or
/// lines at its end (`:10`, `:10-20`), or be a name with other blanks or letters composed otherwise. What is judged is the
/// resolved path that this returns.
///
/// # Errors
/// See [`PathError`].
pub(super) fn understood(cwd: &Path, text: &str) -> Result<Understood, PathError> {
    let plain = |path| Understood { path, lines: None };
    let written = resolve(cwd, text)?;
    if written.symlink_metadata().is_ok() {
        return Ok(plain(written));
    }
    let address = of_address(text);
    let name = address.as_deref().unwrap_or(text);
    let bare = name.strip_prefix('@').unwrap_or(name);
    let (before, lines) = without_lines(bare).map_or((bare, None), |(before, lines)| (before, Some(lines)));
    let ways = [(text, None), (name, None), (bare, None), (before, lines)];
    for (way, lines) in ways {
        if let Ok(path) = resolve(cwd, way)
            && path.symlink_metadata().is_ok()
        {
            return Ok(Understood { path, lines });
        }
    }
    for (way, lines) in ways {
        let Ok(path) = resolve(cwd, way) else { continue };
        if let Some(path) = alike(&path).filter(|alike| alike.exists() || lines.is_none()) {
            // It may be a link.
            return Ok(Understood { path: resolve(cwd, &path.to_string_lossy())?, lines });
        }
    }
    match address {
        Some(address) => resolve(cwd, &address).map(plain),
        None => Ok(plain(written)),
    }
}

/// The path of a `file://` address on this machine.
fn of_address(text: &str) -> Option<String> {
    let rest = text.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'%').then(|| after.get(..2)).flatten();
        let coded = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match coded {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok().filter(|path| path.starts_with('/'))
}

/// A path without the lines at its end, and those.
fn without_lines(text: &str) -> Option<(&str, (usize, usize))> {
    let (path, lines) = text.rsplit_once(':')?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (!path.is_empty() && first > 0 && last >= first).then_some((path, (first, last)))
}

/// The path with each name that is not there as the one in its folder that looks like it; `None` if there is none.
fn alike(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::from("/");
    let mut is_other = false;
    for name in parts(path) {
        let next = found.join(&name);
        if next.symlink_metadata().is_ok() {
            found = next;
            continue;
        }
        let wanted = folded_name(name.to_str()?);
        let entries = files::open_folder(&found).and_then(|folder| files::entries(folder, FOLDER_ENTRIES));
        let entries = entries.unwrap_or_default();
        let mut names = entries
            .iter()
            .filter(|(entry, _)| entry.to_str().is_some_and(|entry| folded_name(entry) == wanted));
        match (names.next(), names.next()) {
            (Some((entry, _)), None) => {
                is_other = true;
                found = found.join(entry);
            }
            _ => found = next,
        }
    }
    is_other.then_some(found)
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
    fn ways_to_write_a_path_lead_to_the_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["a.md", "@own", "b:3", "two words", "10\u{202f}PM.png", "cafe\u{301}.txt"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        std::fs::create_dir(root.join("u\u{308}")).unwrap();
        let address = |name: &str| format!("file://{}/{name}", root.display());
        for (text, name, lines) in [
            ("a.md", "a.md", None),
            ("@a.md", "a.md", None),
            ("@own", "@own", None),
            ("a.md:3", "a.md", Some((3, 3))),
            ("@a.md:10-20", "a.md", Some((10, 20))),
            ("b:3", "b:3", None),
            ("10 PM.png", "10\u{202f}PM.png", None),
            ("caf\u{e9}.txt", "cafe\u{301}.txt", None),
            ("caf\u{e9}.txt:2", "cafe\u{301}.txt", Some((2, 2))),
            ("\u{fc}/new", "u\u{308}/new", None),
            ("new:3", "new:3", None),
            ("@types/new", "@types/new", None),
            ("a.md:0", "a.md:0", None),
            (&address("two%20words"), "two words", None),
            (&address("new"), "new", None),
        ] {
            let expected = Understood { path: root.join(name), lines };
            assert_eq!(understood(&root, text), Ok(expected), "{text}");
        }
        // Two that look like it are none; a link is followed before anything is judged.
        std::fs::write(root.join("x\u{a0}y"), "").unwrap();
        std::fs::write(root.join("x\u{2009}y"), "").unwrap();
        symlink("/etc", root.join("e\u{a0}tc")).unwrap();
        assert_eq!(understood(&root, "x y").unwrap().path, root.join("x y"));
        assert_eq!(understood(&root, "e tc/passwd").unwrap().path, Path::new("/etc/passwd"));
    }

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
