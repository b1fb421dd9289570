//! Arguments, wiring and exit codes. Everything else is in the library and in `cli`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The same executable stands between the bridge and each program that it starts.
    edn_bridge::runner::main().unwrap_or_else(cli::main)
}
