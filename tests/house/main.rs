//! The repository itself: its rooms, its generated files, its recipes, and what its manual says.

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

#[cfg(feature = "postgres")]
#[allow(dead_code, unused_macros, reason = "other test programs use the rest")]
#[path = "../realm/engines.rs"]
mod engines;
mod generated;
mod layering;
mod manual;
mod names;
mod packages;
mod platforms;
#[cfg(feature = "postgres")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../realm/promises.rs"]
mod promises;
#[cfg(feature = "postgres")]
#[allow(dead_code, reason = "other test programs use the rest")]
#[path = "../realm/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
mod test_programs;
mod tutorial;
mod workflow_grammar;
