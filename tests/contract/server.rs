//! The real binary with the scripted provider, for the runner.

use edn_bridge_contract::{CONFIG_WORD, CommandLine, SCRIPT_WORD, STATE_WORD, Wire};

/// A command line for `serve`, with a separate folder for each caller.
pub fn command_line(wire: Wire) -> CommandLine {
    let words = [
        env!("CARGO_BIN_EXE_edn-bridge"),
        "serve",
        "--provider",
        "scripted",
        "--script",
        SCRIPT_WORD,
        "--state-dir",
        STATE_WORD,
        "--config",
        CONFIG_WORD,
        "--wire",
        if wire == Wire::Edn { "edn" } else { "ui-protocol" },
    ];
    CommandLine::new(words.map(Into::into).into()).unwrap()
}
