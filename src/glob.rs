//! All globs of the program: those of tools, of permission rules and of ignore files.
//!
//! A glob comes from a model, a project or a guest, and the library recurses for each open brace. So this
//! module bounds its length and its groups before the library sees it. Knows text and paths, but not the
//! purpose of a glob. No other module calls the library (`tests/house/layering.rs` checks that).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use globset::{Glob, GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

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

/// A glob of a search tool: a filter of the files that a walk of a folder finds.
///
/// Without a slash it is for names in every folder below, with one for paths below the folder. A glob that ends with a
/// plain name also means all that is in the folder of that name. `!` in front turns it round.
#[derive(Debug)]
pub struct FileGlob {
    glob: GlobMatcher,
    /// Whether it names a folder by a plain name.
    is_name: bool,
    is_negated: bool,
    /// Its components that begin with a dot.
    hidden: Vec<GlobMatcher>,
}

impl FileGlob {
    /// Parses a glob, relative to the folder or absolute in it.
    ///
    /// # Errors
    /// See [`GlobError`].
    pub fn new(folder: &Path, glob: &str) -> Result<Self, GlobError> {
        check(glob)?;
        let (is_negated, glob) = match glob.strip_prefix('!') {
            Some(glob) => (true, glob),
            None => (false, glob),
        };
        let folder = folder.to_str().map(|folder| folder.trim_end_matches('/'));
        let inside = folder
            .and_then(|folder| glob.strip_prefix(folder))
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let is_anchored =
            inside.is_some() || glob.starts_with("./") || glob.trim_end_matches('/').contains('/');
        let rest = inside.unwrap_or(glob).trim_start_matches("./").trim_matches('/');
        // The folder itself.
        let rest = if rest.is_empty() || rest == "." { "**" } else { rest };
        let name = rest.rsplit('/').next().unwrap_or(rest);
        let whole = if is_anchored { rest.to_owned() } else { format!("**/{rest}") };
        let dotted = rest.split('/').filter(|part| part.starts_with('.') || part.starts_with("{."));
        let hidden = dotted.filter_map(|part| parsed(part).ok()).map(|glob| glob.compile_matcher());
        Ok(Self {
            glob: parsed(&whole)?.compile_matcher(),
            is_name: !name.contains(['*', '?', '[']),
            is_negated,
            hidden: hidden.collect(),
        })
    }

    /// Whether a file is meant, by its path below the folder.
    pub fn is_match(&self, below: &Path) -> bool {
        let is_within = || below.ancestors().skip(1).any(|above| self.glob.is_match(above));
        (self.glob.is_match(below) || (self.is_name && is_within())) != self.is_negated
    }

    /// Whether it means a hidden file or folder of this name by a dot of its own.
    pub fn means_hidden(&self, name: &Path) -> bool {
        !self.is_negated && self.hidden.iter().any(|glob| glob.is_match(name))
    }
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
            assert!(FileGlob::new(Path::new("/w"), &glob).is_err());
            assert!(ignored(Path::new("/w"), &format!("{glob}\n")).is_empty());
        }
        let deep = "{a,".repeat(16) + "b" + &"}".repeat(16);
        assert!(PathGlob::new(&deep).unwrap().is_match(Path::new("b")));
    }

    #[test]
    fn file_glob_is_for_names_paths_and_folders() {
        for (glob, path, expected) in [
            ("*.rs", "src/a.rs", true),
            ("*.rs", "src/a.rs.txt", false),
            ("src", "src/deep/a.rs", true),
            ("src", "lib/src/a", true),
            ("src/", "src/a", true),
            ("src", "srcs/a", false),
            ("src/*", "src/a.rs", true),
            ("src/*", "src/deep/a.rs", false),
            ("src/**", "src/deep/a.rs", true),
            ("./src/*.rs", "src/a.rs", true),
            ("./*.rs", "src/a.rs", false),
            ("/src/*.rs", "src/a.rs", true),
            ("/w/src/*.rs", "src/a.rs", true),
            ("/w/src", "src/deep/a.rs", true),
            ("/w", "src/a", true),
            ("/w2/src", "src/a", false),
            ("**/*", "a/b", true),
            ("*", "a/b", true),
            (".", "a/b", true),
            ("!*.log", "a.log", false),
            ("!*.log", "a.rs", true),
            ("{*.log,gen}", "src/gen", true),
            ("src/{a,b}", "src/b/c", true),
        ] {
            assert_eq!(
                FileGlob::new(Path::new("/w"), glob).unwrap().is_match(Path::new(path)),
                expected,
                "{glob} {path}"
            );
        }
        let hidden = |glob: &str, name: &str| {
            FileGlob::new(Path::new("/w"), glob).unwrap().means_hidden(Path::new(name))
        };
        assert!(
            hidden(".github/**", ".github")
                && hidden(".*", ".env")
                && hidden("a/.x*/b", ".xy")
                && hidden("{.a,.b}", ".b")
        );
        assert!(
            !hidden("**", ".env")
                && !hidden("*", ".env")
                && !hidden(".github/**", ".env")
                && !hidden("!.env", ".env")
        );
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
