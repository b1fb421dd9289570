//! The real binary with the scripted provider, for the runner.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};

use edn_bridge::contract::{CONFIG_WORD, CommandLine, SCRIPT_WORD, STATE_WORD};

/// A command line for `serve`, with a separate folder for each caller.
pub fn command_line() -> CommandLine {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    // A socket's path must be short, so this is not under the target folder.
    let folder = std::env::temp_dir().join(format!("edn-bridge-contract-{}-{run}", std::process::id()));
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
        "--config".into(),
        CONFIG_WORD.into(),
        "--cwd".into(),
        workspace.into(),
    ];
    CommandLine::new(words.into(), folder).unwrap()
}
