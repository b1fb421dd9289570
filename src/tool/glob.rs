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

/// Checks that a glob is within bounds.
///
/// All opening braces count, including escaped ones, because the nesting cannot be deeper than their number.
fn check(glob: &str) -> Result<(), String> {
    if glob.len() > GLOB_BYTES {
        return Err(format!("a glob has at most {GLOB_BYTES} bytes"));
    }
    if memchr::memchr_iter(b'{', glob.as_bytes()).count() > GLOB_GROUPS {
        return Err(format!("a glob has at most {GLOB_GROUPS} groups in braces"));
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
    /// The error, for a person.
    pub fn new(glob: &str) -> Result<Self, String> {
        check(glob)?;
        let matcher = |glob: &str| {
            let read = GlobBuilder::new(glob).literal_separator(true).build();
            read.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
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
/// The error, for the model.
pub fn only(folder: &Path, glob: Option<&str>) -> Result<Override, String> {
    let Some(glob) = glob else { return Ok(Override::empty()) };
    let wrong = |error: &dyn std::fmt::Display| format!("The glob cannot be used: {error}.");
    check(glob).map_err(|error| wrong(&error))?;
    let mut only = OverrideBuilder::new(folder);
    only.add(glob).map_err(|error| wrong(&error))?;
    only.build().map_err(|error| wrong(&error))
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
        let lines = format!("*.log\n{}\n!keep.log\n", "{".repeat(20));
        let ignored = ignored(Path::new("/w"), &lines);
        assert!(ignored.matched("/w/a.log", false).is_ignore());
        assert!(ignored.matched("/w/keep.log", false).is_whitelist());
        let many = "x\n".repeat(IGNORE_LINES) + "y\n";
        assert!(super::ignored(Path::new("/w"), &many).matched("/w/y", false).is_none());
    }
}
