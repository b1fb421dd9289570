//! Names and words: a file or a type has the field's noun, and a person reads the field's term.
//!
//! The lists are names and phrases that the project had and that a stranger could not read. They do not come back.

use std::path::{Path, PathBuf};

/// Names that no module has.
const MODULES: &[&str] = &[
    "adopt",
    "again",
    "agent_desk",
    "allowed",
    "alone",
    "answered_rules",
    "answerer",
    "asks",
    "at_work",
    "attached",
    "board",
    "bridge_connection",
    "carry",
    "chosen_model",
    "cut_off",
    "desk",
    "eras",
    "executor",
    "foreign",
    "gather",
    "guarded",
    "in_flight",
    "invocation",
    "joined",
    "keeper",
    "listed",
    "lost",
    "mark",
    "member",
    "noted",
    "occasion",
    "owed",
    "pace",
    "parentage",
    "parked",
    "parted",
    "parts",
    "permits",
    "place",
    "redirects",
    "remember",
    "rig",
    "said",
    "shelf",
    "shell_start",
    "shells",
    "shown",
    "skipped",
    "taken",
    "tell",
    "telling",
    "terms",
    "told",
    "unended",
    "unfinished",
    "veil",
];

/// Names that no type has.
const TYPES: &[&str] = &[
    "AskedEditor",
    "Awaited",
    "Barred",
    "Board",
    "Counted",
    "CutOffWork",
    "Departed",
    "Desk",
    "DeskOfEditor",
    "DeskState",
    "ForeignAgent",
    "ForeignTurn",
    "Gathered",
    "Given",
    "Guarded",
    "Handed",
    "Keeper",
    "Keepers",
    "Known",
    "Left",
    "Listed",
    "Lost",
    "LostSession",
    "News",
    "Noted",
    "Notes",
    "Owed",
    "Parked",
    "Parted",
    "Put",
    "Rig",
    "TakenBack",
    "TakenRequests",
];

/// What a person does not read, and what stands there instead.
const PHRASES: &[(&str, &str)] = &[
    ("server of tools", "MCP server"),
    ("servers of tools", "MCP servers"),
    ("agent of others", "external agent"),
    ("agents of others", "external agents"),
    ("foreign agent", "external agent"),
    ("what waits", "the queue"),
    ("messages that wait", "queued messages"),
    ("message that waits", "queued message"),
    ("let it go on", "resume the queue"),
    ("goes on with", "continues with"),
    ("go on with", "continue with"),
    ("the model is told of", "the model gets"),
];

/// The module heads that begin with a question's word, and the comment lines that begin with "What". These may only become
/// fewer: lower the number with them.
const HEADS: usize = 94;
const COMMENTS: usize = 960;

/// Words in quotes that are names of tools too, and mean a program, a step or a key there.
const NO_TOOLS: &[(&str, &str)] = &[
    ("src/config", "bash"),
    ("src/config", "fetch"),
    ("src/engine/external/client_methods.rs", "bash"),
    ("src/engine/external/requested.rs", "edit"),
    ("src/engine/trust_preview.rs", "fetch"),
    ("src/engine/workflow.rs", "bash"),
    ("src/export/highlight.rs", "bash"),
    ("src/projection.rs", "bash"),
    ("src/query/resolvers/job.rs", "bash"),
    ("src/tool/permission/act.rs", "bash"),
    ("src/tool/process.rs", "bash"),
    ("src/tool/shell", "bash"),
    ("src/tool/shell", "fetch"),
];

#[test]
fn names_of_tools_stand_in_their_rows_alone() {
    // "read", "write", "find" and "search" are words of much else.
    let tools = ["edit", "bash", "fetch", "delegate", "ask-user"];
    let mut found = Vec::new();
    for file in files(&["src"], &["rs"]) {
        let name = file.to_string_lossy();
        if ["src/catalogue/tools.rs", "src/contract/", "src/edn/"].iter().any(|own| name.starts_with(own)) {
            continue;
        }
        let text = read(&file);
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            for tool in tools {
                let is_other = NO_TOOLS.iter().any(|(place, word)| name.starts_with(place) && *word == tool);
                if line.contains(&format!("\"{tool}\"")) && !is_other {
                    found.push(format!("{name}: {line}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "a property of a tool is read from its row:\n{}", found.join("\n"));
}

#[test]
fn modules_and_types_have_the_nouns_of_the_field() {
    let mut wrong = Vec::new();
    for file in files(&["src"], &["rs"]) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        if MODULES.contains(&name.as_str()) {
            wrong.push(format!("{}: the module {name}", file.display()));
        }
        for line in read(&file).lines() {
            let mut words =
                line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
            let is_definition = words.any(|word| matches!(word, "struct" | "enum" | "trait" | "type"));
            if let Some(name) = words.next().filter(|name| is_definition && TYPES.contains(name))
                && !line.trim_start().starts_with("//")
            {
                wrong.push(format!("{}: the type {name}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn people_read_the_terms_of_the_field() {
    let mut wrong = Vec::new();
    let own = [
        "README.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "docs",
        "emacs",
        "clients",
        "examples",
        "src",
        "spec",
        "tests",
        "Makefile",
    ];
    for file in files(&own, &["rs", "md", "el", "lua", "py", "clj", "sh", "allium", "Makefile"]) {
        if file.ends_with("tests/house/names.rs")
            || file.components().any(|part| part.as_os_str() == "screenshots")
        {
            continue;
        }
        // A phrase may stand on two lines, of which the second one begins with the mark of a comment.
        let words: Vec<String> = read(&file)
            .split_whitespace()
            .filter(|word| !matches!(*word, "//!" | "///" | "//" | "#" | ";;" | ";;;" | "\\"))
            .map(str::to_lowercase)
            .collect();
        let text = words.join(" ");
        for (phrase, instead) in PHRASES {
            if has(&text, phrase) {
                wrong.push(format!("{}: {phrase:?}; write {instead:?}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn comments_that_begin_with_a_question_become_fewer() {
    let (mut heads, mut comments) = (0, 0);
    for file in files(&["src"], &["rs"]) {
        let text = read(&file);
        heads += usize::from(
            ["//! What ", "//! Who ", "//! That which "].iter().any(|head| text.starts_with(head)),
        );
        let begins = |line: &&str| {
            let comment =
                line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
            comment.is_some_and(|rest| rest.trim_start().starts_with("What "))
        };
        comments += text.lines().filter(begins).count();
    }
    assert!(heads <= HEADS && comments <= COMMENTS, "{heads} heads, {comments} comments");
    assert!(heads == HEADS && comments == COMMENTS, "lower the numbers to {heads} and {comments}");
}

/// Whether a text has a phrase as whole words.
fn has(text: &str, phrase: &str) -> bool {
    let ends = |at: usize| !text[at + phrase.len()..].starts_with(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| ends(at))
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default()
}

/// The files below these places whose name ends so.
fn files(places: &[&str], ends: &[&str]) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("__pycache__") {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        } else if ends
            .iter()
            .any(|end| path.extension().is_some_and(|own| own == *end) || path.ends_with(end))
        {
            found.push(path.strip_prefix(root).unwrap().to_owned());
        }
    }
    assert!(found.len() > 20, "{}", found.len());
    found
}
