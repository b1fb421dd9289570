//! The UI wire: an interface over real pipes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "tests"
)]

mod any_line;
mod documents;
mod golden;
mod kills;
mod lines;
mod questions;
mod runs;
mod sessions;
mod shell;
mod tools;
