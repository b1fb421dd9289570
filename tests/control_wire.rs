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

#[path = "control_wire/any_line.rs"]
mod any_line;
#[path = "control_wire/changed_lines.rs"]
mod changed_lines;
#[path = "control_wire/daemon.rs"]
mod daemon;
#[path = "control_wire/fake.rs"]
mod fake;
#[path = "control_wire/lines.rs"]
mod lines;
#[path = "control_wire/listener.rs"]
mod listener;
#[path = "control_wire/live.rs"]
mod live;
#[path = "control_wire/sender.rs"]
mod sender;
#[path = "control_wire/served.rs"]
mod served;
mod support;
