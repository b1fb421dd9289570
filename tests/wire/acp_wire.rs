//! The ACP wire: an editor over real pipes.
//!
//! Where the variable EDN_BRIDGE_ACP_SCHEMA names the official `schema.json`, every line that the program sends is held
//! against it (`tests/make/acp.sh` fetches it).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "tests"
)]

mod daemon;
mod golden;
mod lines;
mod moments;
mod questions;
mod roots;
mod second;
mod sessions;
mod table;
mod turns;
