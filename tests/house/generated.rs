//! The documents of the repository: generated pages match the catalogue, links and names of tests resolve, the README
//! and the names of tests stay short.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use edn_bridge::wire::ui;
use edn_bridge::{catalogue, client};

#[test]
fn generated_files_match_the_catalogue() {
    for (path, expected) in [
        ("spec/reference.md", catalogue::reference_page()),
        ("emacs/edn-bridge-constants.el", catalogue::emacs_constants()),
        ("src/contract/catalogue.edn", catalogue::contract_tables()),
        ("docs/tool-table.md", catalogue::tools::tools_page()),
        ("src/contract/ui-catalogue.edn", ui::reference::contract_tables()),
        ("spec/ui-reference.md", ui::reference::page()),
        ("spec/ui-protocol.schema.json", ui::reference::schema()),
    ] {
        let found = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        assert!(found == expected, "{path} is not what the catalogue says; run `make generate`");
    }
}

#[test]
fn tools_on_offer_are_the_rows_in_their_order() {
    let rows: Vec<&str> = catalogue::tools::TOOLS.iter().map(|row| row.name).collect();
    let offered: Vec<String> =
        edn_bridge::tool::toolbox::Toolbox::builtin().specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(offered, rows, "a tool is a file of src/tool and a row of src/catalogue/tools.rs");
}

#[test]
fn client_speaks_version_of_catalogue() {
    assert_eq!(client::PROTOCOL_VERSION, catalogue::PROTOCOL_VERSION_TEXT);
}

#[test]
fn readme_has_at_most_120_lines() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 120, "README.md has {lines} lines; details belong in docs/");
}

#[test]
fn links_of_the_documents_resolve() {
    let documents = documents();
    assert!(documents.len() > 12, "{documents:?}");
    let mut links = 0;
    let mut broken = Vec::new();
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in targets(&prose(&text)) {
            links += 1;
            if !resolves(&document, &link) {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(links > 60, "only {links} links found");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let document = root().join("docs/hooks.md");
    for (link, expected) in [
        ("#stages", true),
        ("#no-such-heading", false),
        ("../README.md", true),
        ("../README.md#the-wire-by-hand", true),
        ("../README.md#no-such-heading", false),
        ("no-such-page.md", false),
        ("../grammar", true),
    ] {
        let text = format!("[some words]({link}), `[code](x)`\n```\n[code](y)\n```\n");
        assert_eq!(targets(&prose(&text)), [link], "{text}");
        assert_eq!(resolves(&document, link), expected, "{link}");
    }
    assert_eq!(targets(r#"<img src="a.png"> <source srcset="b.png">"#), ["a.png", "b.png"]);
    assert_eq!(
        anchors("# A `b`, and c\n## A b\n# A b\n"),
        ["a-b-and-c", "a-b", "a-b-1"].map(String::from).into()
    );
}

#[test]
fn documents_name_tests_that_exist() {
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        append_sources(&root().join(folder), &mut sources);
    }
    let mut names = 0;
    let mut missing = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        for name in text.split('`').skip(1).step_by(2).filter(|word| is_test_name(word)) {
            names += 1;
            // Of each engine there is one.
            if !["(", "<E: Engine>("].iter().any(|begin| sources.contains(&format!("fn {name}{begin}"))) {
                missing.push(format!("{}: {name}", document.display()));
            }
        }
    }
    assert!(names > 30, "only {names} names found");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn test_names_have_at_most_60_characters() {
    let mut sources = String::new();
    for folder in ["src", "tests", "emacs/test"] {
        append_sources(&root().join(folder), &mut sources);
    }
    let names = test_names(&sources);
    assert!(names.len() > 800, "only {} names found", names.len());
    let long: Vec<&str> = names.into_iter().filter(|name| name.len() > 60).collect();
    assert!(long.is_empty(), "shorten to thing_condition_result:\n{}", long.join("\n"));
}

/// The names of the tests in Rust and in Emacs Lisp.
fn test_names(sources: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_marked = false;
    for line in sources.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("(ert-deftest ") {
            names.extend(rest.split(' ').next());
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_marked = true;
        } else if is_marked && let Some((_, rest)) = line.split_once("fn ") {
            names.extend(rest.split('(').next());
            is_marked = false;
        }
    }
    names
}

/// Appends all files of Rust and Emacs Lisp below a folder.
fn append_sources(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            append_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "el") {
            sources.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Whether a word in code style is the name of a test. Ops of the protocol have fewer words.
fn is_test_name(word: &str) -> bool {
    word.matches('_').count() >= 4
        && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files at the root and in the folders that hold documents.
fn documents() -> Vec<PathBuf> {
    ["", "docs", "spec", "emacs", "benches", "clients", "clients/clojure", "clients/nvim", "clients/python"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

/// The text without fenced blocks and inline code.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The relative targets of links and pictures, in order of their kind.
fn targets(prose: &str) -> Vec<String> {
    [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')]
        .iter()
        .flat_map(|(open, close)| {
            prose
                .match_indices(open)
                .filter_map(|(place, _)| prose[place + open.len()..].split(*close).next())
        })
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .map(str::to_owned)
        .collect()
}

/// Whether the file of a link exists, and the heading that its anchor names.
fn resolves(document: &Path, link: &str) -> bool {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let file = match path {
        "" => document.to_owned(),
        path => document.parent().unwrap().join(path),
    };
    match anchor {
        "" => file.exists(),
        anchor => std::fs::read_to_string(file).is_ok_and(|text| anchors(&text).contains(anchor)),
    }
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.clone()).chain(again).find(|slug| !found.contains(slug));
        found.extend(free);
    }
    found
}
