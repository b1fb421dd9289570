//! All globs of the program: those of tools, of permission rules and of ignore files.
//!
//! A glob comes from a model, a project or a guest, and the library recurses for each open brace. So this
//! module bounds its length and its groups before the library sees it. Knows text and paths, but not the
//! purpose of a glob. No other module calls the library (`tests/layering.rs` checks that).

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};

use crate::limits::{GLOB_BYTES, GLOB_GROUPS, IGNORE_LINES};

/// Why a glob cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GlobError {
    /// It is too long.
    #[error("a glob has at most {GLOB_BYTES} bytes")]
    Bytes,
    /// It has too many groups.
    #[error("a glob has at most {GLOB_GROUPS} groups in braces")]
    Groups,
    /// The library cannot parse it.
    #[error(transparent)]
    Syntax(#[from] globset::Error),
    /// The library cannot parse it as a line of an ignore file.
    #[error(transparent)]
    Line(#[from] ignore::Error),
}

/// Checks that a glob is within bounds.
///
/// All opening braces count, including escaped ones, because the nesting cannot be deeper than their number.
fn check(glob: &str) -> Result<(), GlobError> {
    if glob.len() > GLOB_BYTES {
        return Err(GlobError::Bytes);
    }
    if memchr::memchr_iter(b'{', glob.as_bytes()).count() > GLOB_GROUPS {
        return Err(GlobError::Groups);
    }
    Ok(())
}

/// A glob for paths. `*` stays within a folder. `x/**` also matches the folder `x` itself, because a denied
/// content must not be listed either.
#[derive(Debug, Clone)]
pub struct PathGlob {
    glob: GlobMatcher,
    folder: Option<GlobMatcher>,
}

impl PathGlob {
    /// Parses a glob.
    ///
    /// # Errors
    /// See [`GlobError`].
    pub fn new(glob: &str) -> Result<Self, GlobError> {
        check(glob)?;
        let matcher = |glob: &str| {
            GlobBuilder::new(glob).literal_separator(true).build().map(|glob| glob.compile_matcher())
        };
        let folder =
            Some(glob.trim_end_matches("/**")).filter(|folder| !folder.is_empty() && *folder != glob);
        // Without its end a group may be open: such a glob names no single folder.
        Ok(Self { glob: matcher(glob)?, folder: folder.and_then(|folder| matcher(folder).ok()) })
    }

    /// Whether it matches a path.
    pub fn is_match(&self, path: &Path) -> bool {
        self.glob.is_match(path) || self.folder.as_ref().is_some_and(|folder| folder.is_match(path))
    }
}

/// A glob that matches only this text. The library keeps a backslash and reads it as an escape.
pub fn escape(text: &str) -> String {
    text.split('\\').map(globset::escape).collect::<Vec<_>>().join("\\\\")
}

/// A glob of a search tool, relative to the searched folder.
///
/// # Errors
/// See [`GlobError`].
pub fn only(folder: &Path, glob: Option<&str>) -> Result<Override, GlobError> {
    let Some(glob) = glob else { return Ok(Override::empty()) };
    check(glob)?;
    let mut only = OverrideBuilder::new(folder);
    only.add(glob)?;
    Ok(only.build()?)
}

/// The lines of an ignore file in a folder. Skips unusable lines.
pub fn ignored(folder: &Path, lines: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for line in lines.strip_prefix('\u{feff}').unwrap_or(lines).lines().take(IGNORE_LINES) {
        if check(line).is_ok() {
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_braces_beyond_the_bound_are_an_error() {
        for glob in
            ["{".repeat(15_000), "[{]".repeat(17), "{a,".repeat(17) + &"}".repeat(17), "a".repeat(4097)]
        {
            assert!(PathGlob::new(&glob).is_err());
            assert!(only(Path::new("/w"), Some(&glob)).is_err());
            assert!(ignored(Path::new("/w"), &format!("{glob}\n")).is_empty());
        }
        let deep = "{a,".repeat(16) + "b" + &"}".repeat(16);
        assert!(PathGlob::new(&deep).unwrap().is_match(Path::new("b")));
    }

    #[test]
    fn escaped_path_matches_itself_alone() {
        for path in ["a*b?[c]{d,e}", "src\\*", "7#_8 9\\a", "a\\", "\\\\"] {
            let glob = PathGlob::new(&escape(path)).unwrap();
            assert!(glob.is_match(Path::new(path)), "{path}");
            for other in ["src[x]", "srcx", "7#_8 9a", "a", "axb?[c]{d,e}"] {
                assert!(!glob.is_match(Path::new(other)), "{path} {other}");
            }
        }
    }

    #[test]
    fn glob_of_all_in_a_folder_matches_the_folder() {
        let glob = PathGlob::new("private/**").unwrap();
        for (path, expected) in [("private", true), ("private/a/b", true), ("privateer", false), ("a", false)]
        {
            assert_eq!(glob.is_match(Path::new(path)), expected, "{path}");
        }
        assert!(PathGlob::new("private/**/**").unwrap().is_match(Path::new("private")));
        assert!(PathGlob::new("/**").unwrap().is_match(Path::new("/etc")));
        assert!(PathGlob::new("{a,b/**}").unwrap().is_match(Path::new("b/c")));
    }

    #[test]
    fn ignore_lines_beyond_the_bound_are_skipped() {
        let deep = "{a,".repeat(17) + "a.rs" + &"}".repeat(17);
        let lines = format!("*.log\n{deep}\n!keep.log\n");
        let ignored = ignored(Path::new("/w"), &lines);
        assert!(ignored.matched("/w/a.rs", false).is_none());
        assert!(ignored.matched("/w/a.log", false).is_ignore());
        assert!(ignored.matched("/w/keep.log", false).is_whitelist());
        let many = "x\n".repeat(IGNORE_LINES) + "y\n";
        assert!(super::ignored(Path::new("/w"), &many).matched("/w/y", false).is_none());
    }
}
