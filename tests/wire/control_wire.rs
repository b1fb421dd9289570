//! The control wire: its lines, its connections, its socket, and the program that sends.
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
mod changed_lines;
mod daemon;
mod fake;
mod lines;
mod listener;
mod live;
mod sender;
mod served;
