//! The programs of tests: each file below `tests` is a module of one of them. Cargo finds none by itself (`autotests` in
//! Cargo.toml), so a file that no program names would never run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files that a file names as its modules, and what these name.
fn modules(file: &Path, is_root: bool, found: &mut BTreeSet<PathBuf>) {
    let file = file.canonicalize().unwrap_or_else(|_| panic!("{} is missing", file.display()));
    if !found.insert(file.clone()) {
        return;
    }
    let folder = file.parent().unwrap();
    // A file that is named `mod.rs` or by a path has its modules beside it, another in a folder of its name.
    let below = if is_root { folder.to_owned() } else { file.with_extension("") };
    let text = fs::read_to_string(&file).unwrap();
    let mut path = None;
    for line in text.lines() {
        if let Some(given) = line.strip_prefix("#[path = \"") {
            path = Some(folder.join(given.trim_end_matches("\"]")));
        } else if let Some(name) = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")
            && let Some(name) = name.strip_suffix(';')
        {
            match path.take() {
                Some(path) => modules(&path, true, found),
                None if below.join(format!("{name}.rs")).exists() => {
                    modules(&below.join(format!("{name}.rs")), false, found);
                }
                None => modules(&below.join(name).join("mod.rs"), true, found),
            }
        }
    }
}

/// The Rust files below a folder, but for packages of their own.
fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.join("Cargo.toml").exists() {
            sources(&path, all);
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn each_file_of_tests_is_in_a_test_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let programs: Vec<&str> = manifest
        .split("[[test]]\n")
        .skip(1)
        .map(|row| row.lines().find_map(|line| line.strip_prefix("path = \"")).unwrap().trim_end_matches('"'))
        .collect();
    assert!(programs.contains(&"tests/house/main.rs"), "{programs:?}");
    let mut found = BTreeSet::new();
    for program in programs {
        modules(&root.join(program), true, &mut found);
    }
    let mut all = Vec::new();
    sources(&root.join("tests"), &mut all);
    let forgotten: Vec<&PathBuf> = all.iter().filter(|file| !found.contains(*file)).collect();
    assert!(forgotten.is_empty(), "no main.rs of tests names these as modules: {forgotten:#?}");
}
