//! "Did you mean": files whose path is like one that does not exist. Looks below the session's folder alone, and at nothing
//! that a rule denies.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::error::CallError;
use super::walk::{DeniedPaths, Selection, Walk};
use crate::files;
use crate::limits::{FOLDER_ENTRIES, NEAR_FILES};
use crate::similar;

/// How many are told.
const MOST: usize = 3;

/// The error with paths that may be meant, if it says that a file does not exist. For a thread that may block.
pub fn explained(error: CallError, cwd: &Path, barred: &DeniedPaths, stop: &CancellationToken) -> CallError {
    match error {
        CallError::Missing { path, hint } => {
            let near = did_you_mean(cwd, &path, barred, stop);
            CallError::Missing { path, hint: format!("{hint}{near}").into() }
        }
        error => error,
    }
}

/// A sentence of its own about a path that does not exist; empty if none is like it.
pub(super) fn told(cwd: &Path, path: &Path, barred: &DeniedPaths, stop: &CancellationToken) -> String {
    let near = did_you_mean(cwd, path, barred, stop);
    if near.is_empty() { near } else { format!("{}?", near.replacen("; d", " D", 1)) }
}

/// The end of a sentence about a path that does not exist; empty if none is like it.
fn did_you_mean(cwd: &Path, path: &Path, barred: &DeniedPaths, stop: &CancellationToken) -> String {
    match &near(cwd, path, barred, stop)[..] {
        [] => String::new(),
        names => format!("; did you mean {}", names.join(" or ")),
    }
}

/// Those of the same name elsewhere come first, then those of a similar name in the same folder.
fn near(cwd: &Path, path: &Path, barred: &DeniedPaths, stop: &CancellationToken) -> Vec<String> {
    let (Some(name), Some(folder)) = (path.file_name().and_then(|name| name.to_str()), path.parent()) else {
        return Vec::new();
    };
    if !path.starts_with(cwd) {
        return Vec::new();
    }
    let is_same = |other: &Path| other.file_name().is_some_and(|other| other.eq_ignore_ascii_case(name));
    let walk = Walk::new(cwd, Selection::default(), barred, stop).into_iter().flatten();
    let same = walk.take(NEAR_FILES).map(|file| file.path).filter(|file| is_same(file));
    let mut found: Vec<String> = same.take(MOST).map(|file| super::path::shown(&file, cwd)).collect();
    let entries = files::open_folder(folder).and_then(|folder| files::entries(folder, FOLDER_ENTRIES));
    let entries =
        entries.unwrap_or_default().into_iter().filter(|(entry, _)| !barred.bars(&folder.join(entry)));
    let entries: Vec<String> = entries.filter_map(|(entry, _)| entry.into_string().ok()).collect();
    for entry in similar::names(name, entries.iter().map(String::as_str)) {
        let shown = super::path::shown(&folder.join(entry), cwd);
        if found.len() < MOST && !found.contains(&shown) {
            found.push(shown);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::permission::{Ground, Rule};

    #[test]
    fn same_name_elsewhere_comes_before_a_similar_one() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for file in ["src/main.rs", "src/lib.rs", "tests/util.rs", "private/util.rs"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        let rules = crate::edn::read_all(br#"{:decision :deny :path "private/**"}"#).unwrap();
        let rules: Vec<Rule> = rules.iter().map(|rule| Rule::read(rule).unwrap()).collect();
        let barred = DeniedPaths::new(&rules, &Ground::from(root.as_path()), "read");
        let told = |path: &str| did_you_mean(&root, &root.join(path), &barred, &CancellationToken::new());
        assert_eq!(told("src/man.rs"), "; did you mean src/main.rs or src/lib.rs");
        assert_eq!(told("util.rs"), "; did you mean tests/util.rs");
        assert_eq!(told("source/Main.rs"), "; did you mean src/main.rs");
        assert_eq!(told("zzz"), "");
        assert_eq!(told("/etc/hostnam"), "");
    }
}
