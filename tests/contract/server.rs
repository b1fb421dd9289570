//! The real binary with the scripted provider, as the runner starts it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use edn_bridge::contract::{CommandLine, SCRIPT_WORD, STATE_WORD};

/// A command line for `serve`, with a folder of its own for each caller.
pub fn command_line() -> CommandLine {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("contract-{}-{run}", std::process::id()));
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    let words = [
        OsString::from(env!("CARGO_BIN_EXE_edn-bridge")),
        "serve".into(),
        "--provider".into(),
        "scripted".into(),
        "--script".into(),
        SCRIPT_WORD.into(),
        "--state-dir".into(),
        STATE_WORD.into(),
        "--cwd".into(),
        workspace.into(),
    ];
    CommandLine::new(words.into(), folder).unwrap()
}
