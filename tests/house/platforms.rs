//! What only Unix has is in known places, each with what stands in its place on Windows. `make cross` compiles the
//! program for macOS; for Windows it compiles the packages, and this table is what a port of the rest has to write.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files or rooms, and what takes the place of what they use.
const UNIX: &[(&str, &str)] = &[
    ("src/client/local.rs", "a named pipe with overlapped reads and writes; the seam of the packages"),
    (
        "src/contract/launch.rs",
        "behind `cfg` already: folders are their user's, the size of files is not limited",
    ),
    (
        "src/wire/transport",
        "a named pipe, whose other side's user is asked of the pipe; WaitForMultipleObjects for poll",
    ),
    ("src/wire/control/serve.rs", "the same pipe"),
    (
        "src/runner",
        "a job object, with which all that a program started ends; no sandbox, as the doctor says",
    ),
    ("src/peer/child.rs", "an exit code, and no signal"),
    ("src/tool/process.rs", "an exit code, and no signal"),
    ("src/engine/external/terminals.rs", "an exit code, and no signal"),
    ("src/private.rs", "an access list of the user alone for modes 0600 and 0700"),
    (
        "src/files",
        "handles of folders, opened one below the other without reparse points; ReplaceFileW for renameat",
    ),
    ("src/tool/write.rs", "nothing: links of locks are Emacs' on Unix"),
    ("src/tool/walk.rs", "the same handles of folders"),
    ("src/tool/output.rs", "an access list of the user alone for mode 0600"),
    ("src/claims.rs", "LockFileEx for flock, the file's index for the inode"),
    (
        "src/store",
        "LockFileEx for flock, the file's index for the inode, OpenProcess for a look at a process",
    ),
    ("src/clock.rs", "GetTickCount64, which counts while the machine sleeps"),
    ("src/memory.rs", "LockFileEx for flock"),
    ("src/engine/rules.rs", "LockFileEx for flock"),
    ("src/interaction/audit.rs", "LockFileEx for flock"),
    ("src/auth/credentials.rs", "LockFileEx for flock"),
    ("src/descriptors.rs", "nothing: handles have no such limit"),
    ("src/heap.rs", "behind `cfg` already: the system's own allocator returns memory"),
    ("src/crash.rs", "TerminateProcess, in tests alone"),
    ("src/provider/fetch.rs", "GetDiskFreeSpaceExW for statvfs"),
    ("src/provider/embedded/engine.rs", "SetThreadPriority for nice"),
    ("src/repl/terminal.rs", "an access list of the user alone for mode 0600"),
    ("src/cli/login.rs", "SetConsoleMode for the echo of a terminal"),
    ("src/cli/style.rs", "GetConsoleScreenBufferInfo for the width of a terminal"),
    ("src/cli/repl.rs", "the same, and the pipe"),
    ("src/cli/doctor.rs", "a look at the access list"),
    ("src/config/command_files.rs", "the ending of a name for the mode of a program"),
    ("src/cli/input.rs", "WaitForSingleObject for poll"),
    ("src/cli/typed.rs", "SetConsoleMode for single keys, FlushConsoleInputBuffer for what was typed before"),
    ("src/cli/signals.rs", "the events of a console for signals"),
    ("src/cli/lock.rs", "LockFileEx for flock"),
    ("src/cli/served.rs", "the events of a console for signals, and the pipe"),
    ("src/cli/top", "SetConsoleMode for single keys, the size of a console, and its events for signals"),
    ("src/cli/engine_client.rs", "a pair of named pipes"),
    ("src/cli/prompt/console.rs", "the events of a console for signals"),
    ("src/client/tests", "a pair of named pipes"),
    ("src/cli/config_command.rs", "the events of a console for signals"),
    ("src/cli/mcp/serve.rs", "a pair of anonymous pipes"),
    ("src/cli/control", "the pipe; an access list for mode 0600"),
    ("src/cli/daemon", "the pipe; DuplicateHandle for descriptors that a line carries; a detached process"),
];

const NAMES: [&str; 6] =
    ["std::os::unix", "std::os::fd", "rustix::", "tokio::net::Unix", "tokio::signal::unix", "libc::"];

#[test]
fn unix_alone_is_used_where_its_stand_in_is_named() {
    let mut used = BTreeSet::new();
    for file in sources(Path::new("src")) {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let Some(name) = NAMES.iter().find(|name| text.contains(**name)) else { continue };
        let row = UNIX
            .iter()
            .find(|(place, _)| file.starts_with(place) || file == Path::new(place).with_extension("rs"));
        let (place, _) = row.unwrap_or_else(|| {
            panic!("{} uses {name}: say in {} what Windows has", file.display(), std::file!())
        });
        used.insert(*place);
    }
    let unused: Vec<_> = UNIX.iter().filter(|(place, _)| !used.contains(place)).collect();
    assert!(unused.is_empty(), "rows that nothing needs any more: {unused:?}");
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
