//! The daemon: what runs in it outlives its editors, and it lives as long as it is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

#[path = "daemon/editors.rs"]
mod editors;
#[path = "daemon/fixture.rs"]
mod fixture;
#[path = "daemon/hindered.rs"]
mod hindered;
#[path = "daemon/kills.rs"]
mod kills;
#[path = "daemon/process.rs"]
mod process;
#[path = "daemon/projects.rs"]
mod projects;
#[path = "daemon/prompts.rs"]
mod prompts;
#[path = "daemon/questions.rs"]
mod questions;
mod support;
#[path = "daemon/upgrades.rs"]
mod upgrades;
#[path = "daemon/variables.rs"]
mod variables;
