//! The direction of the house: a room uses only rooms below it.
//!
//! Reads every `use` and path of the library and compares the rooms in them with the table. A room that is
//! missing from the table fails too, so that the table stays complete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod circles;
mod methods;

use circles::{House, circles};

/// Rooms, and those that each uses.
type Table = &'static [(&'static str, &'static [&'static str])];

/// Each room, and the rooms that it uses directly; the lowest first. A new use is a new edge here, and an edge that
/// nobody uses goes.
const TABLE: Table = &[
    // The codec and its values are a package of their own: the compiler holds that they know nobody.
    ("value", &[]),
    ("edn", &[]),
    ("client", &[]),
    // What the wire takes is what the codec reads.
    ("limits", &["edn"]),
    ("meter", &[]),
    ("glob", &["limits", "meter"]),
    ("json", &["value", "limits"]),
    ("jsonrpc", &["value", "limits", "json"]),
    ("visible", &[]),
    ("similar", &["limits"]),
    ("clock", &[]),
    ("crash", &[]),
    ("descriptors", &["limits"]),
    ("diff", &["limits"]),
    ("environment", &[]),
    ("heap", &["limits"]),
    ("private", &[]),
    ("claims", &["limits", "private"]),
    ("sha256", &[]),
    ("files", &["limits", "sha256"]),
    ("git", &["limits", "files"]),
    ("runner", &["limits", "clock", "descriptors", "environment", "files"]),
    ("secret", &[]),
    ("http", &["limits"]),
    (
        "auth",
        &["value", "edn", "limits", "clock", "environment", "private", "files", "runner", "secret", "http"],
    ),
    // Programs that are talked to.
    ("peer", &["value", "limits", "visible", "similar", "environment", "runner", "secret", "http", "auth"]),
    ("message", &["value", "limits"]),
    ("delivery", &[]),
    ("catalogue", &["value", "limits", "message", "delivery"]),
    ("acp", &["catalogue"]),
    ("facts", &["value", "limits", "message"]),
    ("project", &["sha256"]),
    // What a journal keeps.
    ("store", &["value", "edn", "limits", "descriptors", "private", "sha256", "message", "project"]),
    // What several machines share, in entries.
    ("realm", &["limits", "clock", "secret", "sha256", "http", "message", "store"]),
    // An entry is an event too.
    ("event", &["value", "files", "secret", "message", "delivery", "catalogue", "facts", "store"]),
    ("session", &["value", "limits", "files", "secret", "message", "catalogue", "facts", "event"]),
    (
        "config",
        &[
            "value",
            "edn",
            "limits",
            "meter",
            "glob",
            "similar",
            "environment",
            "private",
            "files",
            "secret",
            "http",
            "sha256",
            "message",
        ],
    ),
    (
        "federation",
        &["value", "edn", "limits", "clock", "git", "private", "message", "store", "realm", "config"],
    ),
    ("memory", &["edn", "limits", "private", "facts", "project"]),
    ("export", &["value", "edn", "limits", "visible", "files", "message"]),
    ("projection", &["value", "limits", "files", "message", "facts", "event", "session"]),
    ("slash", &["message", "catalogue"]),
    (
        "provider",
        &[
            "value",
            "edn",
            "limits",
            "json",
            "similar",
            "clock",
            "environment",
            "private",
            "runner",
            "secret",
            "sha256",
            "http",
            "auth",
            "message",
            "facts",
        ],
    ),
    // Spans and figures of the process's work.
    ("telemetry", &["limits", "secret", "message"]),
    ("hook", &["value", "edn", "limits", "environment", "files", "runner", "event", "telemetry"]),
    ("workflow", &["value", "edn", "limits"]),
    (
        "tool",
        &[
            "value",
            "limits",
            "meter",
            "glob",
            "json",
            "similar",
            "diff",
            "visible",
            "environment",
            "private",
            "files",
            "runner",
            "sha256",
            "http",
            "message",
            "facts",
            "catalogue",
            "event",
            "provider",
        ],
    ),
    (
        "mcp",
        &[
            "value",
            "edn",
            "limits",
            "json",
            "similar",
            "clock",
            "environment",
            "sha256",
            "private",
            "files",
            "secret",
            "http",
            "auth",
            "peer",
            "message",
            "provider",
            "tool",
        ],
    ),
    (
        "agent",
        &[
            "value",
            "edn",
            "limits",
            "json",
            "jsonrpc",
            "acp",
            "visible",
            "environment",
            "sha256",
            "files",
            "secret",
            "facts",
            "peer",
            "mcp",
        ],
    ),
    ("context", &["value", "limits", "meter", "files", "message", "facts", "tool"]),
    (
        "query",
        &[
            "value",
            "edn",
            "limits",
            "meter",
            "similar",
            "git",
            "message",
            "catalogue",
            "facts",
            "event",
            "session",
            "store",
            "memory",
            "projection",
            "provider",
            "hook",
            "workflow",
            "tool",
            "context",
            "telemetry",
        ],
    ),
    (
        "interaction",
        &[
            "value",
            "edn",
            "limits",
            "visible",
            "clock",
            "crash",
            "private",
            "claims",
            "secret",
            "sha256",
            "message",
            "facts",
            "catalogue",
            "event",
            "session",
            "telemetry",
        ],
    ),
    (
        "wire",
        &[
            "value",
            "edn",
            "limits",
            "json",
            "jsonrpc",
            "acp",
            "clock",
            "diff",
            "heap",
            // The state of a file that an editor has open.
            "files",
            "private",
            "runner",
            "secret",
            "sha256",
            "message",
            "delivery",
            "catalogue",
            "facts",
            "event",
            "session",
            "projection",
        ],
    ),
    (
        "engine",
        &[
            "value",
            "edn",
            "limits",
            "meter",
            "glob",
            "visible",
            "similar",
            "clock",
            "crash",
            "descriptors",
            "diff",
            "environment",
            "private",
            "claims",
            "files",
            "git",
            "runner",
            "secret",
            "sha256",
            "http",
            "auth",
            "json",
            "jsonrpc",
            "acp",
            "agent",
            "peer",
            "message",
            "catalogue",
            "facts",
            "event",
            "session",
            "config",
            "store",
            "realm",
            "federation",
            "memory",
            "export",
            "projection",
            "slash",
            "provider",
            "hook",
            "workflow",
            "tool",
            "mcp",
            "context",
            "query",
            "interaction",
            "telemetry",
        ],
    ),
    ("repl", &["value", "edn", "client", "limits", "visible", "private"]),
];

/// The same for the rooms of the program and of the packages; `bridge::` names those of the library.
const PACKAGES: &[(&str, Table)] = &[
    (
        "program",
        &[
            ("canonical", &["bridge::edn"]),
            ("failure", &["bridge::client", "bridge::config", "bridge::provider", "bridge::store"]),
            ("ephemeral", &["bridge::clock", "bridge::private", "bridge::tool", "failure"]),
            ("rule_options", &["bridge::config", "bridge::similar", "bridge::tool", "failure"]),
            ("runtime", &["bridge::limits"]),
            ("lock", &["bridge::private"]),
            ("out", &["bridge::visible", "failure"]),
            ("completion", &["failure", "out"]),
            ("input", &["bridge::limits", "failure", "out"]),
            ("log", &["bridge::limits", "bridge::mcp", "out"]),
            ("schema", &["bridge::json", "bridge::value"]),
            ("show", &["bridge::catalogue", "bridge::wire", "canonical", "failure", "out"]),
            ("signals", &["bridge::limits"]),
            ("style", &["bridge::visible"]),
            ("options", &["bridge::config", "bridge::message", "bridge::store", "failure", "log", "style"]),
            (
                "control",
                &[
                    "bridge::clock",
                    "bridge::config",
                    "bridge::interaction",
                    "bridge::json",
                    "bridge::limits",
                    "bridge::private",
                    "bridge::session",
                    "bridge::sha256",
                    "bridge::value",
                    "bridge::wire",
                    "failure",
                    "options",
                    "out",
                ],
            ),
            ("progress", &["out", "style"]),
            (
                "realm",
                &[
                    "bridge::auth",
                    "bridge::config",
                    "bridge::federation",
                    "bridge::files",
                    "bridge::json",
                    "bridge::private",
                    "bridge::realm",
                    "bridge::secret",
                    "bridge::value",
                    "bridge::visible",
                    "bridge::wire",
                    "failure",
                    "lock",
                    "options",
                    "out",
                ],
            ),
            (
                "served",
                &[
                    "bridge::catalogue",
                    "bridge::clock",
                    "bridge::config",
                    "bridge::descriptors",
                    "bridge::engine",
                    "bridge::environment",
                    "bridge::federation",
                    "bridge::limits",
                    "bridge::private",
                    "bridge::provider",
                    "bridge::session",
                    "bridge::store",
                    "bridge::wire",
                    "ephemeral",
                    "runtime",
                    "failure",
                    "realm",
                ],
            ),
            (
                "daemon",
                &[
                    "bridge::catalogue",
                    "bridge::claims",
                    "bridge::clock",
                    "bridge::config",
                    "bridge::edn",
                    "bridge::engine",
                    "bridge::environment",
                    "bridge::facts",
                    "bridge::federation",
                    "bridge::limits",
                    "bridge::message",
                    "bridge::private",
                    "bridge::runner",
                    "bridge::session",
                    "bridge::wire",
                    "failure",
                    "lock",
                    "options",
                    "out",
                    "realm",
                    "served",
                    "signals",
                ],
            ),
            (
                "acp",
                &["bridge::environment", "bridge::wire", "daemon", "failure", "options", "served", "signals"],
            ),
            (
                "engine_client",
                &[
                    "bridge::client",
                    "bridge::config",
                    "bridge::limits",
                    "bridge::message",
                    "bridge::store",
                    "bridge::value",
                    "bridge::wire",
                    "daemon",
                    "failure",
                    "options",
                    "out",
                    "served",
                ],
            ),
            (
                "login",
                &[
                    "engine_client",
                    "bridge::client",
                    "bridge::limits",
                    "bridge::secret",
                    "bridge::value",
                    "failure",
                    "options",
                    "out",
                    "served",
                ],
            ),
            ("serve", &["bridge::wire", "daemon", "failure", "options", "served", "signals"]),
            ("table", &["style"]),
            ("default_model", &["bridge::clock", "bridge::config", "bridge::engine", "bridge::provider"]),
            (
                "config_command",
                &[
                    "bridge::clock",
                    "bridge::config",
                    "bridge::engine",
                    "bridge::hook",
                    "bridge::json",
                    "bridge::mcp",
                    "bridge::peer",
                    "bridge::private",
                    "bridge::provider",
                    "bridge::runner",
                    "bridge::tool",
                    "bridge::value",
                    "default_model",
                    "failure",
                    "options",
                    "out",
                    "served",
                    "style",
                    "table",
                ],
            ),
            (
                "doctor",
                &[
                    "bridge::config",
                    "bridge::context",
                    "bridge::edn",
                    "bridge::engine",
                    "bridge::http",
                    "bridge::limits",
                    "bridge::mcp",
                    "bridge::peer",
                    "bridge::private",
                    "bridge::provider",
                    "bridge::runner",
                    "bridge::similar",
                    "bridge::store",
                    "bridge::value",
                    "bridge::wire",
                    "default_model",
                    "config_command",
                    "daemon",
                    "failure",
                    "options",
                    "out",
                    "realm",
                    "style",
                ],
            ),
            (
                "models",
                &[
                    "bridge::engine",
                    "bridge::facts",
                    "bridge::json",
                    "bridge::projection",
                    "bridge::provider",
                    "bridge::value",
                    "default_model",
                    "failure",
                    "options",
                    "out",
                    "progress",
                    "style",
                    "table",
                ],
            ),
            ("telemetry", &["bridge::config", "bridge::http", "bridge::limits", "bridge::telemetry"]),
            (
                "top",
                &[
                    "engine_client",
                    "bridge::client",
                    "bridge::json",
                    "bridge::limits",
                    "bridge::message",
                    "bridge::value",
                    "bridge::visible",
                    "bridge::wire",
                    "failure",
                    "options",
                    "out",
                    "style",
                    "table",
                ],
            ),
            ("typed", &["bridge::clock", "bridge::limits"]),
            (
                "sessions",
                &[
                    "engine_client",
                    "bridge::client",
                    "bridge::clock",
                    "bridge::config",
                    "bridge::export",
                    "bridge::interaction",
                    "bridge::json",
                    "bridge::message",
                    "bridge::store",
                    "bridge::value",
                    "bridge::wire",
                    "failure",
                    "options",
                    "out",
                    "progress",
                    "realm",
                    "served",
                    "style",
                    "table",
                    "typed",
                ],
            ),
            (
                "mcp",
                &[
                    "engine_client",
                    "bridge::client",
                    "bridge::clock",
                    "bridge::config",
                    "bridge::limits",
                    "bridge::mcp",
                    "bridge::message",
                    "bridge::peer",
                    "bridge::slash",
                    "bridge::store",
                    "bridge::value",
                    "bridge::visible",
                    "bridge::wire",
                    "runtime",
                    "failure",
                    "options",
                    "out",
                    "served",
                    "sessions",
                    "signals",
                ],
            ),
            (
                "permissions",
                &[
                    "engine_client",
                    "bridge::json",
                    "bridge::tool",
                    "bridge::value",
                    "failure",
                    "options",
                    "out",
                    "sessions",
                    "style",
                    "table",
                ],
            ),
            (
                "prompt",
                &[
                    "engine_client",
                    "bridge::client",
                    "bridge::clock",
                    "bridge::config",
                    "bridge::context",
                    "bridge::edn",
                    "bridge::engine",
                    "bridge::files",
                    "bridge::json",
                    "bridge::limits",
                    "bridge::message",
                    "bridge::private",
                    "bridge::provider",
                    "bridge::store",
                    "bridge::tool",
                    "bridge::value",
                    "failure",
                    "input",
                    "options",
                    "out",
                    "rule_options",
                    "schema",
                    "served",
                    "sessions",
                    "style",
                    "typed",
                ],
            ),
            (
                "chat",
                &[
                    "bridge::client",
                    "bridge::facts",
                    "bridge::message",
                    "bridge::repl",
                    "bridge::value",
                    "default_model",
                    "failure",
                    "options",
                    "prompt",
                    "rule_options",
                    "style",
                    "typed",
                ],
            ),
            (
                "repl",
                &[
                    "engine_client",
                    "bridge::config",
                    "bridge::repl",
                    "bridge::value",
                    "failure",
                    "options",
                    "out",
                    "sessions",
                    "style",
                ],
            ),
            (
                "usage",
                &[
                    "bridge::clock",
                    "bridge::export",
                    "bridge::json",
                    "bridge::message",
                    "bridge::store",
                    "bridge::value",
                    "failure",
                    "options",
                    "out",
                    "progress",
                    "sessions",
                    "style",
                    "table",
                ],
            ),
            (
                "cli",
                &[
                    "acp",
                    "bridge::heap",
                    "bridge::runner",
                    "bridge::telemetry",
                    "chat",
                    "completion",
                    "config_command",
                    "control",
                    "daemon",
                    "doctor",
                    "failure",
                    "log",
                    "login",
                    "mcp",
                    "models",
                    "options",
                    "out",
                    "permissions",
                    "prompt",
                    "realm",
                    "repl",
                    "serve",
                    "served",
                    "sessions",
                    "show",
                    "style",
                    "telemetry",
                    "top",
                    "usage",
                ],
            ),
        ],
    ),
    (
        "contract",
        &[
            ("launch", &[]),
            ("obligations", &[]),
            ("report", &["obligations"]),
            ("shapes", &[]),
            ("stop", &[]),
            ("login_server", &["stop"]),
            ("expression", &["stop"]),
            ("catalogue", &["expression"]),
            ("json", &["expression"]),
            ("rules", &["catalogue", "shapes"]),
            ("ui_rules", &["catalogue", "json", "rules", "stop", "expression"]),
            ("wire", &["catalogue", "json", "rules", "expression", "ui_rules"]),
            ("peer", &["catalogue", "launch", "rules", "shapes", "stop", "wire"]),
            ("pattern_check", &["expression", "stop"]),
            ("suite", &["catalogue", "expression", "pattern_check", "wire"]),
            ("probe", &["catalogue", "launch", "peer", "rules", "stop", "suite", "expression", "wire"]),
            (
                "player",
                &["json", "launch", "login_server", "peer", "probe", "stop", "suite", "expression", "wire"],
            ),
        ],
    ),
    (
        "client",
        &[
            ("frame", &[]),
            ("lines", &[]),
            ("local", &[]),
            ("asking", &["frame", "local"]),
            ("turn", &["frame"]),
        ],
    ),
    (
        "codec",
        &[
            ("error", &[]),
            ("limits", &[]),
            ("value", &[]),
            ("interop", &["value"]),
            ("read", &["error", "limits", "value"]),
            ("serde", &["read", "value"]),
            ("stream", &["error", "read", "value"]),
            ("write", &["value"]),
        ],
    ),
];

#[test]
fn rooms_use_exactly_the_rooms_of_the_table() {
    let table: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(room, below)| (*room, below.iter().copied().collect())).collect();
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let Some(room) = room_of(&file) else { continue };
        if !table.contains_key(room.as_str()) {
            wrong.push(format!("{}: the room {room} is not in the table", file.display()));
            continue;
        }
        let mut rooms = rooms_used(&absolute(&file, &text), &table);
        rooms.remove(&room);
        for above in rooms.iter().filter(|used| !table[room.as_str()].contains(used.as_str())) {
            wrong.push(format!("{}: {room} uses {above}", file.display()));
        }
        used.entry(room).or_default().extend(rooms);
    }
    for (room, below) in &table {
        for room_below in
            below.iter().filter(|below| used.get(*room).is_none_or(|used| !used.contains(**below)))
        {
            wrong.push(format!("{room} does not use {room_below}: take it out of the table"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_stand_above_those_that_they_use() {
    for (place, (room, below)) in TABLE.iter().enumerate() {
        for used in *below {
            assert!(TABLE[..place].iter().any(|(lower, _)| lower == used), "{used} must stand before {room}");
        }
    }
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    for (package, files) in packages() {
        let mut found = circles(&files);
        // A value holds maps of values.
        found.retain(|circle| !circle.iter().eq(["src/value.rs", "src/value/map.rs"]));
        assert!(found.is_empty(), "{package}: {found:#?}");
    }
}

#[test]
fn rooms_of_packages_use_exactly_the_rooms_of_the_table() {
    let packages = packages();
    let mut wrong = Vec::new();
    for (package, table) in PACKAGES {
        let (_, files) = packages.iter().find(|(name, _)| name == package).unwrap();
        let used = used_in(files);
        let known: BTreeSet<&str> = table.iter().map(|(room, _)| *room).collect();
        // Tests and examples of a package stand above all of it.
        let above = ["tests", "examples"];
        for room in
            used.keys().filter(|room| !known.contains(room.as_str()) && !above.contains(&room.as_str()))
        {
            wrong.push(format!("{package}: the room {room} is not in the table"));
        }
        for (place, (room, below)) in table.iter().enumerate() {
            let below: BTreeSet<String> = below.iter().map(ToString::to_string).collect();
            let used = used.get(*room).cloned().unwrap_or_default();
            wrong.extend(used.difference(&below).map(|above| format!("{package}: {room} uses {above}")));
            wrong
                .extend(below.difference(&used).map(|idle| format!("{package}: {room} does not use {idle}")));
            let is_lower = |name: &str| {
                name.starts_with("bridge::") || table[..place].iter().any(|(lower, _)| *lower == name)
            };
            wrong.extend(
                below
                    .iter()
                    .filter(|name| !is_lower(name))
                    .map(|name| format!("{package}: {name} must stand before {room}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn room_that_a_package_uses_is_found_in_every_form() {
    let text = "use super::b::X; use edn_bridge::{store, wire::outbox}; fn f() { crate::cli::c::g(); edn_bridge::engine::h() }";
    let files = [("src/cli/a.rs", text), ("src/cli/b.rs", ""), ("src/cli/c/d.rs", ""), ("src/cli/c.rs", "")];
    let files = files.map(|(path, text)| (PathBuf::from(path), text.to_owned()));
    let used = used_in(&files);
    let expected = ["b", "bridge::engine", "bridge::store", "bridge::wire", "c"];
    assert_eq!(used["a"].iter().collect::<Vec<_>>(), expected);
}

/// The rooms of a package, each with the rooms of the package that it uses, and of the library.
fn used_in(files: &[(PathBuf, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let room = |path: &str| {
        let inside = path.trim_start_matches("src/").trim_start_matches("cli/");
        inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned()
    };
    let library: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(room, _)| (*room, BTreeSet::new())).collect();
    let house = House::read(files);
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, files) in house.uses() {
        let rooms = files.into_iter().map(room).filter(|other| *other != room(path));
        used.entry(room(path)).or_default().extend(rooms);
    }
    for (path, text) in
        files.iter().filter(|(path, _)| !path.ends_with("lib.rs") && !path.ends_with("main.rs"))
    {
        let text = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap()
            .replace("edn_bridge::", "crate::bridge::");
        let text =
            text.replace("crate::bridge::", "\u{1}").replace("crate::", "").replace('\u{1}', "crate::");
        let rooms = rooms_used(&text, &library).into_iter().map(|room| format!("bridge::{room}"));
        used.entry(room(path.to_str().unwrap())).or_default().extend(rooms);
    }
    used
}

#[test]
fn circle_is_found_in_every_form() {
    let house = |files: &[(&str, &str)]| {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        circles(&files).into_iter().map(|circle| circle.into_iter().collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let both = [["src/a.rs", "src/a/b.rs"]];
    // A parent and its child that use each other; a `mod` line is no use.
    let child = ("src/a/b.rs", "use super::X;");
    assert_eq!(house(&[("src/a.rs", "mod b; use b::Y; pub struct X;"), child]), both);
    assert_eq!(house(&[("src/a.rs", "mod b; fn f() { b::y() } pub struct X;"), child]), both);
    assert_eq!(house(&[("src/a.rs", "mod b; pub struct X;"), child]), [[""; 2]; 0]);
    // An item that is passed on is no use of it, unless the file names it itself.
    assert_eq!(house(&[("src/a.rs", "mod b; pub(crate) use b::Y; pub struct X;"), child]), [[""; 2]; 0]);
    assert_eq!(house(&[("src/a.rs", "mod b; pub(crate) use b::Y; pub struct X(Y);"), child]), both);
    // What is passed on is used where it is defined.
    let user = ("src/c.rs", "use crate::a::Y;");
    let files = [("src/a.rs", "mod b; pub use b::Y; fn f() { crate::c::g() }"), ("src/a/b.rs", ""), user];
    assert_eq!(house(&files), [[""; 2]; 0]);
    // Groups, paths in expressions, and modules inside a file.
    let two = [["src/c.rs", "src/d.rs"]];
    assert_eq!(
        house(&[
            ("src/c.rs", "use crate::{x, d::{self, Z as Q}};"),
            ("src/d.rs", "fn f(x: &crate::c::T) {}")
        ]),
        two
    );
    assert_eq!(
        house(&[
            ("src/c.rs", "mod m { fn f() { super::super::d::g::<u8>() } }"),
            ("src/d.rs", "use super::c;")
        ]),
        two
    );
    // Neither comments nor literals nor a module's own tests count.
    let quiet = "// use crate::c::T;\nconst A: &str = \"crate::c\"; const B: char = '\"';\n#[cfg(test)]\nmod tests {\n use crate::c;";
    assert_eq!(house(&[("src/c.rs", "use crate::d;"), ("src/d.rs", quiet)]), [[""; 2]; 0]);
}

/// In how many files a type may have methods.
const FILES_OF_A_TYPE: usize = 6;

#[test]
fn type_has_methods_in_few_files() {
    let found: BTreeMap<_, _> = packages()
        .into_iter()
        .flat_map(|(package, files)| {
            methods::spread(&files)
                .into_iter()
                .map(move |(name, files)| (format!("{name} of {package}"), files))
        })
        .collect();
    assert!(found.len() > 200, "only {} types have methods", found.len());
    let wide: Vec<_> = found.iter().filter(|(_, files)| files.len() > FILES_OF_A_TYPE).collect();
    assert!(wide.is_empty(), "cut these types into parts with a name each: {wide:#?}");
}

#[test]
fn methods_of_a_type_are_found_in_every_form() {
    let files_of = |name: &str, files: &[(&str, &str)]| {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        methods::spread(&files).get(name).map_or(0, BTreeSet::len)
    };
    let own = ("src/a.rs", "mod b; pub struct X<T>(T); impl X<u8> { fn f() {} }");
    for text in [
        "use super::X; impl X<u8> { pub fn f() {} }",
        "use super::X; impl<T: Fn(u8) -> u8> X<T> where T: for<'a> Fn(&'a u8) { async fn f() {} }",
        "use crate::{a::X as Y, c}; #[cfg(unix)] impl Y<u8> { const A: u8 = 1; fn f() { if true { } } }",
        "use crate::c::X; /// Words.\nunsafe impl X<u8> { fn f() {} }",
        "use super::*; use crate::a::X; mod m {} impl X<u8> { fn f() {} }",
    ] {
        let through = ("src/c.rs", "pub use crate::a::X;");
        let count = ["X of src/a.rs", "Y of src/a.rs"]
            .map(|name| files_of(name, &[own, ("src/a/b.rs", text), through]));
        assert_eq!(count.iter().sum::<usize>(), 2, "{text}");
    }
    for text in [
        "use super::X; impl Clone for X<u8> { fn clone() {} }",
        "use super::X; impl X<u8> { const A: u8 = 1; } fn f() {}",
        "use super::X; fn g(x: impl Fn(X<u8>) -> u8) -> impl Sized { fn f() {} }",
        "struct X; impl X { fn f() {} }",
        "use super::X; // impl X { fn f() {} }",
        "use super::X; fn g() {}\n#[cfg(test)]\nmod tests { impl X<u8> { fn f() {} }",
    ] {
        assert_eq!(files_of("X of src/a.rs", &[own, ("src/a/b.rs", text)]), 1, "{text}");
    }
}

#[test]
fn climbing_path_is_found() {
    let table: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(room, _)| (*room, BTreeSet::new())).collect();
    for (file, text) in [
        ("src/wire.rs", "use super::engine::Engine;"),
        ("src/wire/outbox.rs", "use super::super::engine::Engine;"),
    ] {
        assert!(rooms_used(&absolute(Path::new(file), text), &table).contains("engine"), "{file}: {text}");
    }
    let inside = absolute(Path::new("src/wire/outbox.rs"), "use super::lines::x;");
    assert!(rooms_used(&inside, &table).is_empty(), "a neighbour in the same room");
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<_> =
        sources().into_iter().filter(|(_, text)| !text.starts_with("//!")).map(|(file, _)| file).collect();
    assert!(silent.is_empty(), "without a header: {silent:?}");
}

#[test]
fn only_the_edn_reader_uses_nom() {
    for (file, text) in sources() {
        let reader = file.starts_with("src/edn/read") || file.ends_with("src/edn/read.rs");
        assert!(reader || !text.contains("nom::"), "{} uses nom", file.display());
    }
}

#[test]
fn only_the_room_of_servers_uses_rmcp() {
    for (file, text) in sources() {
        let room = file.starts_with("src/mcp") || file == Path::new("src/mcp.rs");
        assert!(room || !text.contains("rmcp::"), "{} uses rmcp", file.display());
    }
}

#[test]
fn each_engine_of_a_realm_keeps_its_client_to_itself() {
    for (file, text) in sources() {
        for (client, engine) in [("tokio_postgres", "postgres"), ("async_nats", "nats")] {
            let room = file.starts_with(format!("src/realm/{engine}"))
                || file == Path::new(&format!("src/realm/{engine}.rs"));
            // Its log is turned off by its name.
            let is_used = text.contains(&format!("{client}::")) || text.contains(&format!("use {client}"));
            assert!(room || !is_used, "{} uses {client}", file.display());
        }
    }
}

#[test]
fn digests_and_likeness_are_computed_in_one_room() {
    for (file, text) in sources() {
        for (outside, room) in [("sha2::", "src/sha256.rs"), ("strsim::", "src/similar.rs")] {
            assert!(file == Path::new(room) || !text.contains(outside), "{} uses {outside}", file.display());
        }
    }
}

#[test]
fn only_both_sides_of_acp_know_the_types_of_the_protocol() {
    for (file, text) in sources() {
        // The tables that both sides use, the side of an agent, and the side of an editor.
        let own = ["src/acp.rs", "src/wire/acp/v1.rs", "src/wire/acp/v2.rs", "src/agent/v1.rs"]
            .iter()
            .any(|own| file == Path::new(own));
        assert!(own || !text.contains("agent_client_protocol_schema"), "{} knows them", file.display());
    }
}

#[test]
fn only_the_bounded_glob_module_builds_globs() {
    let builders = ["globset::", "GlobBuilder", "GitignoreBuilder", "OverrideBuilder", "WalkBuilder"];
    for (file, text) in sources() {
        if file != Path::new("src/glob.rs") {
            let found = builders.iter().find(|builder| text.contains(**builder));
            assert_eq!(found, None, "{}: a glob is to be bounded in glob", file.display());
        }
    }
}

/// What an evaluation of something that a model, a project or a client wrote looks like.
const EVALUATIONS: &[&str] = &[
    ".is_match(",
    ".matched(",
    "run(&env",
    " read(handle",
    ".read)(",
    "Mentions::new(",
    "Bars::new(",
    "path::resolve(self.cwd",
];

#[test]
fn evaluations_run_on_a_meter() {
    let mut found = 0;
    for (file, text) in sources() {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        // A resolver itself is run on one, and each of its fields is paid for.
        let is_run = file.starts_with("src/query/resolvers") || file == Path::new("src/query/table.rs");
        if let Some(evaluation) = EVALUATIONS.iter().find(|evaluation| text.contains(**evaluation)) {
            found += 1;
            let meter = text.contains("meter.") || text.contains("meter)");
            assert!(is_run || meter, "{}: {evaluation} without a budget", file.display());
        }
    }
    assert!(found > 6, "{found}");
}

#[test]
fn only_the_map_names_a_package_of_the_workspace() {
    for (file, text) in sources() {
        let own =
            ["src/edn", "src/client", "src/contract", "src/lib.rs"].iter().any(|own| file.starts_with(own));
        assert!(own || !text.contains("edn_codec"), "{}: write crate::edn", file.display());
    }
}

#[test]
fn only_the_runner_starts_programs() {
    for (file, text) in sources() {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        // The contract starts servers as any client does.
        let may = file.starts_with("src/runner") || file == Path::new("src/runner.rs");
        let may = may || file == Path::new("src/contract/launch.rs");
        // The daemon must outlive the process that starts it, which is all that a runner prevents.
        let may = may || file == Path::new("src/cli/daemon/daemon_files.rs");
        // An example for others starts the program as they will.
        let may = may || file.starts_with("src/client/examples");
        // Not `AvailableCommand::new(`, which is a type of another name.
        let starts = text
            .match_indices("Command::new(")
            .any(|(at, _)| !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'));
        assert!(may || !starts, "{} starts some", file.display());
    }
}

#[test]
fn private_folders_are_created_in_one_place() {
    for (file, text) in sources() {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        assert!(
            file.ends_with("src/private.rs") || !text.contains("DirBuilder"),
            "{} makes some",
            file.display()
        );
    }
}

#[test]
fn state_folder_entries_are_closed_to_other_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let mut names = BTreeSet::new();
    for (_, text) in sources() {
        for (place, word) in text.match_indices("state_dir") {
            let rest = text[place + word.len()..].trim_start_matches("()").trim_start();
            let name = rest.strip_prefix(".join(\"").and_then(|rest| rest.split('"').next());
            names.extend(name.map(str::to_owned));
        }
    }
    assert!(names.len() >= 12, "{names:?}");
    for name in &names {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    edn_bridge::private::close(dir.path());
    for name in names {
        let mode = dir.path().join(&name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{name} is not in the list of what is kept there");
    }
}

#[test]
fn used_room_is_found_in_every_form() {
    let table: BTreeMap<&str, BTreeSet<&str>> =
        TABLE.iter().map(|(room, _)| (*room, BTreeSet::new())).collect();
    for (text, expected) in [
        ("use crate::runner::main;", "runner"),
        ("use crate::{limits, engine};", "engine"),
        ("let x = crate::wire::start();", "wire"),
        ("use crate::{\n    value::Value,\n    query::{run, plan},\n};", "query"),
        ("    use crate::store;", "store"),
    ] {
        assert!(rooms_used(text, &table).contains(expected), "{text}");
    }
}

/// The library's files below `src`, with their text. The program's own files may use everything.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![root.join("src")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // Tests of a package are no part of what it does.
            if path.ends_with("src/edn/tests") {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path.strip_prefix(root).unwrap().to_owned(), text));
            }
        }
    }
    assert!(files.len() > 20, "only {} files found", files.len());
    files
}

/// The packages: each with its files, which are named as if it stood alone.
fn packages() -> Vec<(&'static str, Vec<(PathBuf, String)>)> {
    let mut packages: Vec<_> =
        ["library", "program", "contract", "client", "codec"].map(|name| (name, Vec::new())).into();
    for (path, text) in sources() {
        let of = |root: &str| path.strip_prefix(root).map(|inside| Path::new("src").join(inside));
        let (package, path) = if let Ok(path) = of("src/contract") {
            ("contract", path)
        } else if let Ok(path) = of("src/client") {
            ("client", path)
        } else if let Ok(path) = of("src/edn") {
            ("codec", path)
        } else if path.starts_with("src/cli")
            || ["src/cli.rs", "src/main.rs"].iter().any(|own| path == Path::new(own))
        {
            ("program", path)
        } else {
            ("library", path)
        };
        let (_, files) = packages.iter_mut().find(|(name, _)| *name == package).unwrap();
        files.push((path, text));
    }
    for (package, files) in &packages {
        assert!(files.len() > 4, "{package}: {}", files.len());
    }
    packages
}

/// The room that a file belongs to; `None` for the map, the program and the packages.
fn room_of(file: &Path) -> Option<String> {
    let first = file.components().nth(1)?.as_os_str().to_str()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (!matches!(room, "lib" | "main" | "cli" | "client" | "contract" | "edn")).then(|| room.to_owned())
}

/// The text with paths that leave their module (`super::`) rewritten from the root: a file at depth `n`
/// reaches the rooms with `n` of them.
fn absolute(file: &Path, text: &str) -> String {
    // A module's own tests may use any room to inspect results.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let depth = file.components().count() - 1;
    text.replace(&"super::".repeat(depth), "crate::")
}

/// The rooms that a text names after `crate::`, alone or in braces.
fn rooms_used(text: &str, table: &BTreeMap<&str, BTreeSet<&str>>) -> BTreeSet<String> {
    // What a comment names is no use of it.
    let text: String =
        text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for (place, _) in text.match_indices("crate::") {
        let rest = &text[place + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1usize;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if c.is_alphanumeric() || c == '_' {
                    word.push(c);
                } else {
                    if depth == 1 || (depth == 0 && c == '}') || c == ':' {
                        used.insert(std::mem::take(&mut word));
                    }
                    word.clear();
                }
                if depth == 0 {
                    break;
                }
            }
        } else {
            used.insert(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    used.retain(|word| table.contains_key(word.as_str()));
    used
}

#[test]
fn files_that_may_be_something_else_are_opened_without_waiting() {
    // A file that is opened by its name alone may be a pipe by then, at which the opener would wait for ever.
    let may_wait: &[&str] = &[
        // A person names these, and may name a pipe.
        "src/provider/scripted/script.rs",
        // Other programs, and what they make for themselves.
        "src/contract",
        "src/client",
        "src/edn",
        // It has opened its own folder.
        "src/files",
    ];
    let harmless = |rest: &str| {
        let first = rest.split_once('(').map_or("", |(_, rest)| rest.trim_start());
        let argument: String = first.chars().take_while(|next| !matches!(next, ')' | ',')).collect();
        [
            "\"/proc/",
            "format!(\"/proc/",
            "\"/dev/null\"",
            "folder",
            "&folder",
            "&self.folder",
            "above",
            "task.path(",
        ]
        .iter()
        .any(|known| argument.starts_with(known))
    };
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if may_wait.iter().any(|known| file.starts_with(known)) {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for opener in ["File::open(", "fs::read(", "fs::read_to_string("] {
            for (at, _) in text.match_indices(opener) {
                let before = text[..at].chars().next_back().unwrap_or(' ');
                if !before.is_alphanumeric() && !harmless(&text[at..]) {
                    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
                    wrong.push(format!("{}: {}", file.display(), &text[at..end]));
                }
            }
        }
        for options in ["OpenOptions::new()", "File::options()"] {
            for (at, _) in text.match_indices(options) {
                let statement = text[at..].split(';').next().unwrap_or_default();
                // A new file is nobody else's.
                let opens = statement.contains(".open(") && !statement.contains("create_new(true)");
                if opens && !statement.contains("\"/dev/null\"") {
                    wrong.push(format!("{}: {statement}", file.display()));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0], "use private::open_to_read, private::open_regular or files::open");
}
