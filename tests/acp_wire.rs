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

#[path = "acp_wire/daemon.rs"]
mod daemon;
#[path = "acp_wire/editor.rs"]
mod editor;
#[path = "acp_wire/golden.rs"]
mod golden;
#[path = "acp_wire/lines.rs"]
mod lines;
#[path = "acp_wire/moments.rs"]
mod moments;
#[path = "acp_wire/official.rs"]
mod official;
#[path = "acp_wire/questions.rs"]
mod questions;
#[path = "acp_wire/roots.rs"]
mod roots;
#[path = "acp_wire/second.rs"]
mod second;
#[path = "acp_wire/sessions.rs"]
mod sessions;
mod support;
#[path = "acp_wire/table.rs"]
mod table;
#[path = "acp_wire/turns.rs"]
mod turns;
