//! The daemon: what runs in it outlives its editors, and it lives as long as it is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

mod ci_example;
mod completion;
mod doctor;
mod editors;
#[cfg(feature = "postgres")]
#[allow(dead_code, unused_macros, reason = "other test programs use the rest")]
#[path = "../realm/engines.rs"]
mod engines;
mod faults;
mod fixture;
mod hindered;
mod kills;
mod mcp_command;
mod model_choice;
mod process;
mod projects;
#[cfg(feature = "postgres")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../realm/promises.rs"]
mod promises;
mod prompt_command;
mod prompts;
mod questions;
mod repl;
mod repl_terminal;
#[cfg(feature = "postgres")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../realm/server.rs"]
mod server;
mod sessions_command;
#[path = "../support/mod.rs"]
mod support;
mod upgrades;
mod variables;
