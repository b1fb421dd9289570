//! All globs of the program: those of tools, of permission rules and of ignore files.
//!
//! A glob comes from a model, a project or a guest, and the library recurses for each open brace. So this
//! module bounds its length and its groups before the library sees it. Knows text and paths, but not the
//! purpose of a glob. No other module calls the library (`tests/house/layering.rs` checks that).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};

use crate::limits::{GLOB_BYTES, GLOB_GROUPS, GLOB_LISTS, IGNORE_LINES};
use crate::meter::{Exhausted, Meter};

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

/// Parses a glob for paths. `*` stays within a folder.
fn parsed(glob: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(glob).literal_separator(true).build()
}

/// The glob of the folder whose content a glob names: `x` for `x/**`, because a denied content must not be listed
/// either. Without its end a group may be open: such a glob names no single folder.
fn folder(glob: &str) -> Option<Glob> {
    let folder = glob.trim_end_matches("/**");
    (!folder.is_empty() && folder != glob).then(|| parsed(folder).ok()).flatten()
}

/// A glob for paths. `x/**` also matches the folder `x` itself.
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
        let folder = folder(glob).map(|folder| folder.compile_matcher());
        Ok(Self { glob: parsed(glob)?.compile_matcher(), folder })
    }

    /// Whether it matches a path.
    pub fn is_match(&self, path: &Path) -> bool {
        self.glob.is_match(path) || self.folder.as_ref().is_some_and(|folder| folder.is_match(path))
    }
}

/// Many globs for paths, as [`PathGlob`] reads each, matched together.
#[derive(Debug, Default)]
pub struct PathGlobs {
    texts: Vec<String>,
    /// Nearly always one set. Globs that are too large together are in several.
    sets: Vec<(GlobSet, Vec<usize>)>,
    /// The globs that cannot be used. They match every path: what they deny is not known.
    unusable: Vec<usize>,
}

/// The lists that were compiled last.
static COMPILED: Mutex<Vec<Arc<PathGlobs>>> = Mutex::new(Vec::new());

impl PathGlobs {
    /// The compiled list of these globs, which were checked as rules are. The same list is compiled once.
    pub fn compiled(globs: Vec<String>) -> Arc<Self> {
        if globs.is_empty() {
            return Arc::default();
        }
        let lists = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists().iter().find(|known| known.texts == globs) {
            return known.clone();
        }
        let mut made = Self { texts: globs, ..Self::default() };
        let mut all = Vec::new();
        for (place, text) in made.texts.iter().enumerate() {
            match parsed(text) {
                Ok(glob) => all.extend([glob].into_iter().chain(folder(text)).map(|glob| (place, glob))),
                Err(_) => made.unusable.push(place),
            }
        }
        made.add(&all);
        let made = Arc::new(made);
        let mut lists = lists();
        if lists.len() >= GLOB_LISTS {
            lists.remove(0);
        }
        lists.push(made.clone());
        made
    }

    fn add(&mut self, globs: &[(usize, Glob)]) {
        let mut builder = GlobSetBuilder::new();
        for (_, glob) in globs {
            builder.add(glob.clone());
        }
        match (builder.build(), globs) {
            (Ok(set), _) => self.sets.push((set, globs.iter().map(|(place, _)| *place).collect())),
            (Err(_), []) => {}
            (Err(_), [(place, _)]) => self.unusable.push(*place),
            (Err(_), _) => {
                let (some, others) = globs.split_at(globs.len() / 2);
                self.add(some);
                self.add(others);
            }
        }
    }

    fn pay(&self, path: &Path, meter: &mut Meter) -> Result<(), Exhausted> {
        meter.spend(path.as_os_str().len().saturating_add(1).saturating_mul(self.texts.len()), 0)
    }

    /// Whether one of them matches a path.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn is_match(&self, path: &Path, meter: &mut Meter) -> Result<bool, Exhausted> {
        self.pay(path, meter)?;
        Ok(!self.unusable.is_empty() || self.sets.iter().any(|(set, _)| set.is_match(path)))
    }

    /// The places of those that match a path.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn matches(&self, path: &Path, meter: &mut Meter) -> Result<Vec<usize>, Exhausted> {
        self.pay(path, meter)?;
        Ok(self.unusable.iter().copied().chain(self.in_sets(path)).collect())
    }

    /// The places of those that match a path and can be used.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn usable(&self, path: &Path, meter: &mut Meter) -> Result<Vec<usize>, Exhausted> {
        self.pay(path, meter)?;
        Ok(self.in_sets(path).collect())
    }

    fn in_sets(&self, path: &Path) -> impl Iterator<Item = usize> {
        self.sets
            .iter()
            .flat_map(move |(set, of)| set.matches(path).into_iter().filter_map(|at| of.get(at).copied()))
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
