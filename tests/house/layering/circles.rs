//! Finds circles of imports between the files of a package.
//!
//! An edge goes from a file to the file that defines what it names: by `crate::`, by `super::`, or by a child
//! module's name. A `mod` line is containment, not an edge, and neither is a `pub use` of a child's item that
//! the file itself never names. A parent that uses its child while the child uses the parent is a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A circle: the files that reach each other.
pub type Circle = BTreeSet<String>;

/// The files with the names that they bring in.
pub struct House(Vec<File>);

impl House {
    /// Reads files, given with their text.
    pub fn read(sources: &[(PathBuf, String)]) -> Self {
        Self(sources.iter().filter_map(|(path, text)| File::read(path, text)).collect())
    }

    fn modules(&self) -> BTreeMap<&[String], &File> {
        self.0.iter().map(|file| (file.module.as_slice(), file)).collect()
    }

    /// Each file, and the files that it uses.
    pub fn uses(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let modules = self.modules();
        self.0.iter().map(|file| (file.path.as_str(), file.edges(&modules))).collect()
    }

    /// The file that defines what a name means in a file; `None` if that file defines it itself.
    pub fn definer(&self, path: &str, name: &str) -> Option<String> {
        let brought = self.0.iter().find(|file| file.path == path)?.brought.get(name)?;
        definer(brought, &self.modules(), 8).map(|file| file.path.clone())
    }
}

/// The circles among these files, given with their text.
pub fn circles(sources: &[(PathBuf, String)]) -> Vec<Circle> {
    let files = House::read(sources);
    let edges = files.uses();
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|start| (*start, reached(start, &edges))).collect();
    let mut found = BTreeSet::new();
    for (file, reached) in reach.iter().filter(|(file, reached)| reached.contains(*file)) {
        let back = reached.iter().filter(|other| reach.get(*other).is_some_and(|back| back.contains(file)));
        found.insert(back.map(ToString::to_string).collect::<Circle>());
    }
    found.into_iter().collect()
}

/// What a file uses, directly or through others.
fn reached<'e>(start: &str, edges: &BTreeMap<&'e str, BTreeSet<&'e str>>) -> BTreeSet<&'e str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        for next in edges.get(file).into_iter().flatten() {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

/// A file as a module.
struct File {
    path: String,
    /// The names from the root.
    module: Vec<String>,
    children: BTreeSet<String>,
    /// Each path that the text names, from the root.
    named: Vec<Vec<String>>,
    /// Each name that a `use` brings in, with its path.
    brought: BTreeMap<String, Vec<String>>,
    /// The paths of each `pub use` of a child's item, with the name that it gets.
    passed_on: Vec<(String, Vec<String>)>,
    /// How often each word stands in the text.
    words: BTreeMap<String, usize>,
}

impl File {
    /// Reads a file; `None` for the map of its package.
    fn read(path: &Path, text: &str) -> Option<Self> {
        let names: Vec<&str> = path.iter().skip(1).filter_map(|name| name.to_str()).collect();
        let (last, folders) = names.split_last()?;
        if matches!(*names.first()?, "lib.rs" | "main.rs") {
            return None;
        }
        let last = last.trim_end_matches(".rs");
        let module = folders.iter().chain([&last]);
        let mut file = Self {
            path: path.to_str()?.to_owned(),
            module: module.map(ToString::to_string).collect(),
            children: BTreeSet::new(),
            named: Vec::new(),
            brought: BTreeMap::new(),
            passed_on: Vec::new(),
            words: BTreeMap::new(),
        };
        // A module's own tests may use anything to inspect results.
        file.scan(&tokens(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text)));
        Some(file)
    }

    fn scan(&mut self, tokens: &[String]) {
        let at = |place: usize| tokens.get(place).map_or("", String::as_str);
        for place in 0..tokens.len() {
            if at(place) == "mod" && at(place + 2) == ";" {
                self.children.insert(at(place + 1).to_owned());
            }
            if is_word(at(place)) {
                *self.words.entry(at(place).to_owned()).or_default() += 1;
            }
        }
        // Modules inside the file, by the depth of braces at which each began.
        let (mut inside, mut depth) = (Vec::new(), 0usize);
        let (mut place, mut is_use, mut is_public) = (0, false, false);
        while place < tokens.len() {
            match at(place) {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    inside.pop_if(|(_, began)| *began == depth);
                }
                "mod" if at(place + 2) == "{" => inside.push((at(place + 1).to_owned(), depth)),
                "use" => {
                    is_use = true;
                    is_public = place.checked_sub(1).is_some_and(|before| {
                        at(before) == "pub" || (at(before) == ")" && tokens[..before].ends_with_pub())
                    });
                }
                ";" => is_use = false,
                word => {
                    // What follows `pub(in` says who may use an item.
                    let begins = place == 0 || !matches!(at(place - 1), "::" | ".");
                    let begins = begins && !(place > 1 && at(place - 1) == "in" && at(place - 2) == "(");
                    let child =
                        self.children.contains(word) && (at(place + 1) == "::" || at(place - 1) == "use");
                    let leaves = matches!(word, "crate" | "super" | "self") && at(place + 1) == "::";
                    if begins && (leaves || (child && inside.is_empty())) {
                        let mut module = self.module.clone();
                        module.extend(inside.iter().map(|(name, _)| name.clone()));
                        let mut found = Vec::new();
                        place = paths(tokens, place, module, true, &mut found);
                        for (name, path) in found {
                            if is_use {
                                self.brought.insert(name.clone(), path.clone());
                            }
                            if is_use && is_public && path.starts_with(&self.module) {
                                self.passed_on.push((name, path));
                            } else {
                                self.named.push(path);
                            }
                        }
                        continue;
                    }
                }
            }
            place += 1;
        }
    }

    /// The files that it uses.
    fn edges<'h>(&self, house: &BTreeMap<&[String], &'h File>) -> BTreeSet<&'h str> {
        let used = self.passed_on.iter().filter(|(name, _)| self.words.get(name).is_some_and(|n| *n > 1));
        let paths = self.named.iter().chain(used.map(|(_, path)| path));
        let files = paths.filter_map(|path| definer(path, house, 8));
        files.map(|file| file.path.as_str()).filter(|path| *path != self.path).collect()
    }
}

/// The file that defines what a path names. A name that its module only brought in is followed.
fn definer<'h>(path: &[String], house: &BTreeMap<&[String], &'h File>, steps: u8) -> Option<&'h File> {
    let (file, rest) =
        (1..=path.len()).rev().find_map(|end| house.get(&path[..end]).map(|file| (*file, &path[end..])))?;
    let onward = rest.first().and_then(|name| file.brought.get(name)).filter(|_| steps > 0);
    onward
        .and_then(|onward| {
            let path: Vec<String> = onward.iter().chain(&rest[1..]).cloned().collect();
            definer(&path, house, steps - 1)
        })
        .or(Some(file))
}

/// Reads the path or the tree of paths at `place`, each with the name that it brings in, and returns the place
/// after it. `base` is the module that the path starts from.
fn paths(
    tokens: &[String],
    mut place: usize,
    base: Vec<String>,
    is_start: bool,
    found: &mut Vec<(String, Vec<String>)>,
) -> usize {
    let at = |place: usize| tokens.get(place).map_or("", String::as_str);
    let mut path = base;
    let mut is_start = is_start;
    loop {
        match at(place) {
            "{" => {
                place += 1;
                while !matches!(at(place), "}" | "") {
                    place = paths(tokens, place, path.clone(), false, found);
                    if at(place) == "," {
                        place += 1;
                    }
                }
                return place + 1;
            }
            "*" => {
                found.push(("*".to_owned(), path));
                return place + 1;
            }
            "crate" if is_start => path.clear(),
            "super" => drop(path.pop()),
            "self" => {}
            word if is_word(word) => {
                path.push(word.to_owned());
                is_start = false;
            }
            _ => return place + 1,
        }
        place += 1;
        if at(place) != "::" || at(place + 1) == "<" {
            let mut name = path.last().cloned().unwrap_or_default();
            if at(place) == "as" && is_word(at(place + 1)) {
                name = at(place + 1).to_owned();
                place += 2;
            }
            found.push((name, path));
            return place;
        }
        place += 1;
    }
}

trait EndsWithPub {
    fn ends_with_pub(&self) -> bool;
}

impl EndsWithPub for [String] {
    /// Whether the tokens before a `)` are `pub(…`.
    fn ends_with_pub(&self) -> bool {
        let open = self.iter().rposition(|token| token == "(");
        open.and_then(|open| self.get(open.checked_sub(1)?)).is_some_and(|token| token == "pub")
    }
}

pub fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The words and marks of a text, without comments and literals.
pub fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|after| after.trim_start_matches('#'));
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(after) = raw.filter(|after| after.starts_with('"')) {
            let hashes = rest.len() - after.len() - 1;
            let end = format!("\"{}", "#".repeat(hashes));
            let from = rest.len() - after.len() + 1;
            rest[from..].find(&end).map_or(rest.len(), |place| from + place + end.len())
        } else if c == '"' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |(place, _)| place + 1)
        } else if c == '\'' {
            let mut after = rest.char_indices().skip(1);
            let first = after.next();
            match first {
                Some((_, '\\')) => {
                    rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(p, _)| p + 3)
                }
                _ if after.next().is_some_and(|(_, c)| c == '\'') => {
                    2 + first.map_or(0, |(_, c)| c.len_utf8())
                }
                // A lifetime.
                _ => 1,
            }
        } else if is_word(rest) {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}
