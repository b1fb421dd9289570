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

#[path = "ui_wire/any_line.rs"]
mod any_line;
#[path = "ui_wire/documents.rs"]
mod documents;
#[path = "ui_wire/golden.rs"]
mod golden;
#[path = "ui_wire/kills.rs"]
mod kills;
#[path = "ui_wire/lines.rs"]
mod lines;
#[path = "ui_wire/peer.rs"]
mod peer;
#[path = "ui_wire/questions.rs"]
mod questions;
#[path = "ui_wire/runs.rs"]
mod runs;
#[path = "ui_wire/schema.rs"]
mod schema;
#[path = "ui_wire/sessions.rs"]
mod sessions;
#[path = "ui_wire/shell.rs"]
mod shell;
mod support;
#[path = "ui_wire/tools.rs"]
mod tools;
